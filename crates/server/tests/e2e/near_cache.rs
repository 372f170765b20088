//! The near cache in front of real servers: nobody goes back in time, who wrote reads what he wrote, and what changes past the proxy is seen.
//!
//! Values are numbers that only grow, whoever writes them, so a smaller one than a client has seen, or has written, is a fault.
//!
//! Invariant: a hit is never demanded of a single read, only of many.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::time::Instant;

use testkit::cluster::{Failover, RedisCluster, slot_of};
use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct, info_field, long};
use crate::topology::front;

const KEYS: usize = 12;

/// Kept at once and for ever, so that only what servers tell drops anything.
const ARGS: [&str; 6] =
    ["--cache-enabled", "true", "--cache-min-reads", "1", "--cache-ttl-ms", "600000"];

fn key(number: usize) -> String {
    format!("key:{number}")
}

/// The number in a reply to GET; `None`: there is no value.
fn number(reply: &str) -> Option<u64> {
    if matches!(reply, "$-1\r\n" | "_\r\n") {
        return None;
    }
    let text = reply.strip_prefix('$').and_then(|rest| rest.split_once("\r\n"));
    let text = text.unwrap_or_else(|| panic!("{reply:?} is no value")).1;
    Some(text.trim_end().parse().expect("a number"))
}

/// A client, and the largest number that it knows of each key.
struct Reader {
    conn: Conn,
    known: HashMap<String, u64>,
}

impl Reader {
    fn new(mut conn: Conn, protocol: u8) -> Self {
        conn.ask(&format!("HELLO {protocol}"));
        Self { conn, known: HashMap::new() }
    }

    #[track_caller]
    fn sees(&mut self, key: &str, reply: &str) {
        let Some(value) = number(reply) else { return };
        let known = self.known.entry(key.to_owned()).or_default();
        assert!(value >= *known, "{key}: {value} after {known}");
        *known = value;
    }

    #[track_caller]
    fn reads(&mut self, keys: &[String]) {
        for key in keys {
            self.conn.send_command(&["GET", key]).expect("sent");
        }
        for key in keys {
            let reply = String::from_utf8(self.conn.reply().expect("a reply")).expect("text");
            self.sees(key, &reply);
        }
    }

    /// Writes, and reads it in the same packet.
    #[track_caller]
    fn writes(&mut self, line: &str, key: &str, value: u64) {
        self.conn.send(&[request(line), request(&format!("GET {key}"))].concat()).expect("sent");
        self.conn.reply().expect("a reply");
        let reply = String::from_utf8(self.conn.reply().expect("a reply")).expect("text");
        self.known.insert(key.to_owned(), value);
        self.sees(key, &reply);
    }
}

fn request(line: &str) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::request(&mut out, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    out
}

/// Reads and writes for a while; `write` sets a key past the proxy. In the end all see the truth.
#[track_caller]
fn assert_nobody_goes_back(
    readers: &mut [Reader],
    write: &mut impl FnMut(&str, u64) -> bool,
    mut meanwhile: impl FnMut(usize),
) {
    let rounds = if long() { 30_000 } else { 3_000 };
    let mut random = 1u64;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let mut last: HashMap<String, u64> = HashMap::new();
    let count = readers.len();
    for round in 1..=rounds {
        let (name, value) = (key(next(KEYS)), round as u64);
        let reader = &mut readers[next(count)];
        match next(20) {
            0 if write(&name, value) => drop(last.insert(name, value)),
            1 => {
                reader.writes(&format!("SET {name} {value}"), &name, value);
                last.insert(name, value);
            }
            2 => {
                let line =
                    format!("EVAL return(redis.call('set',KEYS[1],ARGV[1])) 1 {name} {value}");
                reader.writes(&line, &name, value);
                last.insert(name, value);
            }
            3 => {
                let reply = reader.conn.ask(&format!("STRLEN {name}"));
                assert!(reply.starts_with(':'), "{reply}");
            }
            picked => {
                let keys: Vec<String> = (0..=picked % 3).map(|_| key(next(KEYS))).collect();
                reader.reads(&keys);
            }
        }
        meanwhile(round);
    }
    let deadline = Instant::now() + SOON;
    for reader in readers {
        for number in 0..KEYS {
            let (name, wanted) = (key(number), last.get(&key(number)).copied());
            loop {
                let seen = self::number(&reader.conn.ask(&format!("GET {name}")));
                if seen == wanted || seen.is_none() && wanted.is_none() {
                    break;
                }
                assert!(Instant::now() < deadline, "{name} is {seen:?} for ever, not {wanted:?}");
            }
        }
    }
}

fn readers(connect: impl Fn() -> Conn) -> Vec<Reader> {
    [2, 2, 3, 2, 3, 2].into_iter().map(|protocol| Reader::new(connect(), protocol)).collect()
}

fn figure(conn: &mut Conn, name: &str) -> u64 {
    let text = info_field(conn, "cache", name).expect("a field of INFO cache");
    text.parse().expect("a number")
}

/// Writes straight to the server.
fn past(server: &RedisServer) -> impl FnMut(&str, u64) -> bool + use<> {
    let mut conn = server.connect();
    move |key, value| conn.ask(&format!("SET {key} {value}")) == "+OK\r\n"
}

#[test]
fn nobody_goes_back_and_what_changes_past_the_proxy_is_seen() {
    if direct() {
        return;
    }
    let stack = Stack::with(&ARGS);
    let mut readers = readers(|| stack.connect());
    assert_nobody_goes_back(&mut readers, &mut past(&stack.server), |_| {});
    let conn = &mut readers[0].conn;
    assert!(figure(conn, "cache_hits") > 500, "{} hits", figure(conn, "cache_hits"));
    assert!(figure(conn, "cache_dropped_changed") > 50);
    assert_eq!((figure(conn, "cache_refused"), figure(conn, "cache_feeds")), (0, 2));
}

#[test]
fn lost_connections_leave_nothing_old() {
    if direct() {
        return;
    }
    let stack = Stack::with(&ARGS);
    let mut readers = readers(|| stack.connect());
    let mut killer = stack.server.connect();
    // The feeds only: what clients asked for is answered.
    assert_nobody_goes_back(&mut readers, &mut past(&stack.server), |round| {
        if round % 300 != 0 {
            return;
        }
        let list = killer.ask("CLIENT LIST");
        let word = |line: &str, name: &str| {
            let mut words = line.split(' ').filter_map(|word| word.strip_prefix(name));
            words.next().map(str::to_owned)
        };
        // What is read over the others is told to these.
        let told: BTreeSet<_> = list.lines().filter_map(|line| word(line, "redir=")).collect();
        for id in list.lines().filter_map(|line| word(line, "id=")).filter(|id| told.contains(id)) {
            killer.ask(&format!("CLIENT KILL ID {id}"));
        }
    });
    let conn = &mut readers[0].conn;
    assert!(figure(conn, "cache_hits") > 300, "{} hits", figure(conn, "cache_hits"));
    assert!(figure(conn, "cache_dropped_lost") > 0);
}

#[test]
fn a_flush_and_the_end_of_a_time_to_live_are_seen() {
    if direct() {
        return;
    }
    let stack = Stack::with(&ARGS);
    let (mut a, mut b, mut server) = (stack.connect(), stack.connect(), stack.server.connect());
    for flush in ["FLUSHALL", "FLUSHDB ASYNC", "DEL k", "EXPIRE k -1", "PEXPIRE k 50"] {
        assert_eq!(server.ask("SET k v"), "+OK\r\n");
        for conn in [&mut a, &mut b] {
            wait::until_true("the value is kept", SOON, || {
                let before = figure(conn, "cache_hits");
                conn.ask("GET k") == "$1\r\nv\r\n" && figure(conn, "cache_hits") > before
            });
        }
        server.ask(flush);
        for conn in [&mut a, &mut b] {
            wait::until_true(flush, SOON, || conn.ask("GET k") == "$-1\r\n");
        }
    }
}

#[test]
fn nobody_goes_back_before_a_cluster_whose_slots_move() {
    if direct() {
        return;
    }
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &ARGS);
    let mut readers = readers(|| proxy.connect());
    let slots: Vec<u16> = (0..KEYS).map(|n| slot_of(key(n).as_bytes())).collect();
    let mut conns: Vec<Conn> = (0..3).map(|n| cluster.node(n).connect()).collect();
    let mut write = |name: &str, value: u64| {
        let owner = cluster.owner_of(slot_of(name.as_bytes()));
        conns[owner].ask(&format!("SET {name} {value}")) == "+OK\r\n"
    };
    let mut moves = 0;
    assert_nobody_goes_back(&mut readers, &mut write, |round| {
        if round % 1_000 == 500 {
            let slot = slots[moves % slots.len()];
            let to = (cluster.owner_of(slot) + 1) % 3;
            let mut moving = cluster.begin_move(slot, to).expect("moving");
            while moving.move_keys(10).expect("keys") > 0 {}
            moving.finish().expect("moved");
            cluster.wait_agreed();
            moves += 1;
        }
    });
    assert!(moves > 1);
    assert!(figure(&mut readers[0].conn, "cache_hits") > 100);
}

// What the former primary said is worth nothing any more, and the new one is to be asked to tell.
#[test]
fn nobody_goes_back_when_replicas_take_over() {
    if direct() {
        return;
    }
    let cluster = RedisCluster::with(3, 1).node_timeout_ms(1_000).start();
    let proxy = front(&cluster, &ARGS);
    let mut readers = readers(|| proxy.connect());
    let mut conns: Vec<Conn> = (0..6).map(|n| cluster.node(n).connect()).collect();
    let mut write = |name: &str, value: u64| {
        let owner = cluster.find_owner(slot_of(name.as_bytes()));
        let said = owner.map(|owner| conns[owner].ask(&format!("SET {name} {value}")));
        said.is_some_and(|said| said == "+OK\r\n")
    };
    let mut failovers = 0;
    assert_nobody_goes_back(&mut readers, &mut write, |round| {
        if round % 1_000 == 500 && failovers < 3 {
            cluster.failover(failovers + 3, Failover::Graceful);
            cluster.wait_ok();
            failovers += 1;
        }
    });
    assert_eq!(failovers, 3);
    let conn = &mut readers[0].conn;
    assert!(figure(conn, "cache_hits") > 100, "{} hits", figure(conn, "cache_hits"));
    assert!(figure(conn, "cache_dropped_lost") + figure(conn, "cache_dropped_changed") > 0);
}

#[test]
fn a_hot_key_costs_the_server_nothing() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let args = ["--cache-enabled", "true", "--cache-ttl-ms", "600000"];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).workers(1).start();
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET hot 1"), "+OK\r\n");
    for _ in 0..1_000 {
        assert_eq!(conn.ask("GET hot"), "$1\r\n1\r\n");
    }
    let mut server = server.connect();
    let line = info_field(&mut server, "commandstats", "cmdstat_get").expect("it was called");
    let calls = line.split(',').find_map(|field| field.strip_prefix("calls="));
    let calls: u32 = calls.expect("a count").parse().expect("a number");
    assert!(calls < 20, "{calls} reads came to the server");
}

#[test]
fn the_configuration_of_the_guide_works_and_the_cache_can_be_switched() {
    if direct() {
        return;
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/near-cache.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let block = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines = block.expect("a configuration in the guide").lines();
    let lines = lines.filter(|line| !line.starts_with("upstream") && !line.starts_with("listen"));
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("respool.toml");
    let text = format!("upstream = \"{}\"\n", server.endpoint().url());
    fs::write(&file, text + &lines.collect::<Vec<_>>().join("\n")).expect("the configuration");
    let proxy = Respool::with_config(RESPOOL, &file).args(&["--acl-config-set", "all"]).start();
    let mut conn = proxy.connect();
    let hits = |conn: &mut Conn, key: &str| {
        for _ in 0..50 {
            assert_eq!(conn.ask(&format!("GET {key}")), "$1\r\n1\r\n");
        }
        figure(conn, "cache_hits")
    };
    conn.ask("MSET session:1 1 product:1 1");
    assert_eq!(hits(&mut conn, "session:1"), 0, "not of the patterns");
    let before = hits(&mut conn, "product:1");
    assert!(before > 10, "{before} hits");
    assert_eq!(conn.ask("CONFIG SET respool.cache.enabled false"), "+OK\r\n");
    assert_eq!(hits(&mut conn, "product:1"), before);
    assert_eq!((figure(&mut conn, "cache_entries"), figure(&mut conn, "cache_feeds")), (0, 0));
    assert_eq!(conn.ask("CONFIG SET respool.cache.enabled true"), "+OK\r\n");
    assert!(hits(&mut conn, "product:1") > before);
}
