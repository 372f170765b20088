//! Client-side caching through the proxy, with caches that are compared with the server at the end.
//!
//! Invariant: whatever happened, a value that a client still has in its cache is the server's.

use std::time::{Duration, Instant};

use testkit::cluster::RedisCluster;
use testkit::{Cache, Conn, wait};

use crate::setup::{SOON, Stack, info_field, long};
use crate::topology::front;

fn key(number: usize) -> String {
    format!("key:{number}")
}

/// Reads and writes for a while, `meanwhile` something now and then; at the end every cache must be true.
#[track_caller]
fn assert_caches_stay_true(
    caches: &mut [Cache],
    writer: &mut Conn,
    mut meanwhile: impl FnMut(usize),
) {
    let rounds = if long() { 20_000 } else { 2_000 };
    let mut random = 1u64;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let count = caches.len();
    for round in 0..rounds {
        caches[next(count)].get(&key(next(50)));
        match next(10) {
            0 => drop(writer.ask(&format!("SET {} {round}", key(next(50))))),
            1 => drop(writer.ask(&format!("DEL {}", key(next(50))))),
            2 => {
                // Its own connection writes as well.
                let cache = &mut caches[next(count)];
                cache.conn.send_command(&["INCR", &format!("n{}", key(next(5)))]).expect("sent");
                cache.reply();
            }
            _ => {}
        }
        meanwhile(round);
    }
    assert_true_in_the_end(caches, writer);
}

/// What is on its way arrives; then nothing may differ.
#[track_caller]
fn assert_true_in_the_end(caches: &mut [Cache], writer: &mut Conn) {
    let deadline = Instant::now() + SOON;
    loop {
        caches.iter_mut().for_each(|cache| cache.listen(Duration::from_millis(50)));
        let wrong: Vec<String> = caches
            .iter()
            .flat_map(|cache| &cache.values)
            .filter(|(key, value)| {
                let real = writer.ask(&format!("GET {key}"));
                let null = |text: &str| matches!(text, "$-1\r\n" | "_\r\n");
                real != **value && !(null(&real) && null(value))
            })
            .map(|(key, value)| format!("{key}: {value:?}"))
            .collect();
        if wrong.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "stale for ever: {wrong:?}");
    }
}

#[test]
fn caches_stay_true_in_every_mode() {
    let stack = Stack::start();
    let modes = ["", "", "OPTOUT", "NOLOOP", "BCAST", "BCAST PREFIX key: PREFIX nkey:"];
    let mut caches: Vec<Cache> =
        modes.iter().map(|mode| Cache::new(stack.connect(), mode)).collect();
    let mut writer = stack.connect();
    assert_caches_stay_true(&mut caches, &mut writer, |_| {});
    for (cache, mode) in caches.iter().zip(modes) {
        assert!(cache.told > 50, "{mode}: told of {} keys", cache.told);
    }
    assert!(caches.iter().any(|cache| !cache.values.is_empty()));
}

#[test]
fn connections_that_are_lost_leave_no_stale_value() {
    let stack = Stack::start();
    let modes = ["", "", "", "BCAST", "BCAST PREFIX key:"];
    let mut caches: Vec<Cache> =
        modes.iter().map(|mode| Cache::new(stack.connect(), mode)).collect();
    caches.push(Cache::redirected(stack.connect(), stack.connect(), "NOLOOP"));
    let (mut writer, mut killer) = (stack.server.connect(), stack.server.connect());
    assert_caches_stay_true(&mut caches, &mut writer, |round| {
        if round % 400 == 399 {
            // All of the proxy's, and those of nobody else.
            let list = killer.ask("CLIENT LIST");
            for line in list.lines().filter(|line| line.contains("name=respool")) {
                let id =
                    line.split(' ').next().and_then(|id| id.strip_prefix("id=")).expect("an id");
                killer.ask(&format!("CLIENT KILL ID {id}"));
            }
        }
    });
    assert!(caches.iter().all(|cache| cache.dropped > 0));
}

#[test]
fn caches_stay_true_before_a_cluster_whose_slots_move() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let modes = ["", "", "NOLOOP", "BCAST", "BCAST PREFIX key:"];
    let mut caches: Vec<Cache> =
        modes.iter().map(|mode| Cache::new(proxy.connect(), mode)).collect();
    caches.push(Cache::redirected(proxy.connect(), proxy.connect(), "NOLOOP"));
    let mut writer = proxy.connect();
    let slots: Vec<u16> = (0..50).map(|n| testkit::cluster::slot_of(key(n).as_bytes())).collect();
    let mut moves = 0;
    assert_caches_stay_true(&mut caches, &mut writer, |round| {
        if round % 400 == 399 {
            let slot = slots[moves % slots.len()];
            let to = (cluster.owner_of(slot) + 1) % 3;
            let mut moving = cluster.begin_move(slot, to).expect("moving");
            while moving.move_keys(10).expect("keys") > 0 {}
            moving.finish().expect("moved");
            cluster.wait_agreed();
            moves += 1;
        }
    });
    assert!(moves > 3);
    proxy_lives(&mut writer);
}

fn proxy_lives(conn: &mut Conn) {
    assert_eq!(conn.ask("PING"), "+PONG\r\n");
}

#[test]
fn many_caches_cost_the_server_one_connection_for_each_worker() {
    let stack = Stack::start();
    let mut caches: Vec<Cache> = (0..200).map(|_| Cache::new(stack.connect(), "")).collect();
    let mut server = stack.server.connect();
    assert_eq!(server.ask("SET key:1 a"), "+OK\r\n");
    for cache in &mut caches {
        assert_eq!(cache.get("key:1"), "$1\r\na\r\n");
    }
    let tracking = server.ask("INFO clients");
    let count = tracking.lines().find_map(|line| line.strip_prefix("tracking_clients:"));
    assert!(matches!(count, Some("1" | "2")), "{count:?}");
    assert_eq!(server.ask("SET key:1 b"), "+OK\r\n");
    wait::until_true("everybody was told", SOON, || {
        caches.iter_mut().for_each(|cache| cache.listen(Duration::from_millis(1)));
        caches.iter().all(|cache| cache.told == 1)
    });
}

#[test]
fn a_resp2_client_hears_through_another_one_of_any_worker() {
    let stack = Stack::start();
    // Enough that both workers have some.
    for _ in 0..8 {
        let (mut reader, mut ear) = (stack.connect(), stack.connect());
        let id = ear.ask("CLIENT ID");
        ear.ask("SUBSCRIBE __redis__:invalidate");
        let id = id.trim_start_matches(':').trim_end();
        assert_eq!(reader.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK\r\n");
        reader.ask("GET k");
        assert_eq!(stack.connect().ask("INCR k").as_bytes()[0], b':');
        let heard = ear.reply().expect("a message");
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(
            heard.contains("__redis__:invalidate") && heard.ends_with("*1\r\n$1\r\nk\r\n"),
            "{heard}"
        );
    }
    assert!(stack.connect().ask("CLIENT TRACKING ON REDIRECT 999999").contains("does not exist"));
}

/// Who says what, one after the other. `a` caches; what it is told before the answer to a PING behind each line is compared.
const TALK: &[(&str, &str)] = &[
    ("a", "GET key:1"),
    ("a", "SET key:1 own"),
    ("b", "SET key:1 theirs"),
    ("a", "GET key:1"),
    ("b", "SET key:1 again"),
    // A write that changes nothing, and then one of another client.
    ("a", "GET key:1"),
    ("a", "SET key:1 x NX"),
    ("b", "INCR n"),
    ("b", "SET key:1 new"),
    ("a", "GET key:2"),
    ("a", "EVAL return(redis.call('set',KEYS[1],'s')) 1 key:2"),
    ("a", "GET key:2"),
    ("b", "DEL key:2"),
    // In a transaction both are read, and one is changed.
    ("a", "MGET key:1 key:2 key:3"),
    ("a", "MULTI"),
    ("a", "INCR key:3"),
    ("a", "GET key:1"),
    ("a", "EXEC"),
    ("b", "MSET key:1 1 key:3 1"),
    ("a", "MGET key:1 key:3"),
    ("a", "WATCH key:1"),
    ("b", "SET key:1 2"),
    ("a", "MULTI"),
    ("a", "GET key:3"),
    ("a", "EXEC"),
    ("b", "MSET key:1 3 key:3 3"),
    ("a", "RPUSH key:list x"),
    ("a", "LRANGE key:list 0 -1"),
    ("a", "BLMOVE key:list key:to LEFT LEFT 1"),
    ("a", "LRANGE key:to 0 -1"),
    ("a", "CLIENT CACHING YES"),
    ("a", "GET key:1"),
    ("a", "CLIENT CACHING NO"),
    ("a", "GET key:3"),
    ("b", "MSET key:1 4 key:3 4"),
    // It is about the next command, whatever that is, and about a whole transaction.
    ("a", "CLIENT CACHING YES"),
    ("a", "PING"),
    ("a", "GET key:1"),
    ("b", "SET key:1 5"),
    ("a", "CLIENT CACHING YES"),
    ("a", "MULTI"),
    ("a", "MGET key:1 key:3"),
    ("a", "EXEC"),
    ("b", "MSET key:1 6 key:3 6"),
    ("a", "CLIENT CACHING NO"),
    ("a", "MULTI"),
    ("a", "MGET key:1 key:3"),
    ("a", "EXEC"),
    ("b", "MSET key:1 7 key:3 7"),
    ("b", "FLUSHALL"),
    ("a", "GET key:1"),
    ("a", "CLIENT TRACKING OFF"),
    ("b", "SET key:1 5"),
];

/// All that comes up to the next reply.
fn frames_to_reply(conn: &mut Conn, frames: &mut Vec<String>) {
    loop {
        let frame = String::from_utf8(conn.reply().expect("a frame")).expect("text");
        let is_push = frame.starts_with('>');
        frames.push(frame);
        if !is_push {
            return;
        }
    }
}

/// What `a` gets for each line of [`TALK`].
fn talk(mut connect: impl FnMut() -> Conn, mode: &str) -> Vec<Vec<String>> {
    let (mut a, mut b) = (connect(), connect());
    // A flush could be heard of after CLIENT TRACKING.
    b.ask("DEL key:1 key:2 key:3 key:list key:to n");
    assert!(a.ask("HELLO 3").starts_with('%'));
    assert_eq!(a.ask(&format!("CLIENT TRACKING ON {mode}")), "+OK\r\n");
    let mut inside = false;
    let mut heard = Vec::new();
    for (who, line) in TALK {
        let words: Vec<&str> = line.split(' ').collect();
        match *who {
            "a" => a.send_command(&words).expect("sent"),
            _ => drop(b.ask(line)),
        }
        inside = (inside || *line == "MULTI") && *line != "EXEC";
        let mut frames = vec![format!("{who} {line}")];
        if *who == "a" {
            frames_to_reply(&mut a, &mut frames);
        }
        // In a transaction it would stand in that, and CLIENT CACHING would be about it. In BCAST mode a server tells at the end of its turn, so
        // a PING in the same packet would be answered before.
        if !inside && !line.starts_with("CLIENT CACHING") {
            a.send_command(&["PING"]).expect("sent");
            frames_to_reply(&mut a, &mut frames);
        }
        heard.push(frames);
    }
    heard
}

#[test]
fn a_client_is_told_what_a_server_tells_it() {
    let stack = Stack::start();
    for mode in [
        "NOLOOP",
        "NOLOOP OPTIN",
        "NOLOOP OPTOUT",
        "NOLOOP BCAST",
        "NOLOOP BCAST PREFIX key:1 PREFIX key:l",
        "",
        "OPTIN",
        "OPTOUT",
    ] {
        let direct = talk(|| stack.server.connect(), mode);
        let through = talk(|| stack.connect(), mode);
        for (direct, through) in direct.iter().zip(&through) {
            assert_eq!(direct, through, "with {mode}");
        }
    }
}

// Redis' own suite: what BLMOVE changed was told before its reply.
#[test]
fn what_a_woken_client_changed_is_told_behind_its_reply() {
    let stack = Stack::start();
    for round in 0..50 {
        let (mut a, mut b) = (stack.connect(), stack.connect());
        // A flush could be heard of after the next line.
        b.ask("DEL from to");
        a.ask("HELLO 3");
        a.ask("CLIENT TRACKING ON");
        b.ask("RPUSH to x");
        a.ask("LRANGE to 0 -1");
        a.send_command(&["BLMOVE", "from", "to", "LEFT", "LEFT", "0"]).expect("sent");
        wait::until_true("it waits", SOON, || {
            info_field(&mut b, "clients", "blocked_clients").as_deref() == Some("1")
        });
        b.ask("RPUSH from y");
        assert_eq!(a.reply().expect("the reply"), b"$1\r\ny\r\n", "round {round}");
        let told = a.reply().expect("what changed");
        assert_eq!(told, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nto\r\n");
    }
}

/// Each reads, writes in every way, and is told of what another client changes in the same moment.
#[track_caller]
fn assert_own_writes_hide_nothing(caches: &mut [Cache], writer: &mut Conn) {
    let rounds = if long() { 20_000 } else { 500 };
    let mut random = 7u64;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    for round in 0..rounds {
        let (which, key) = (next(caches.len()), key(next(20)));
        let cache = &mut caches[which];
        cache.get(&key);
        // What it changes itself it is not told of, so it forgets that by itself. What changes nothing it keeps.
        let value = round.to_string();
        let write: &[&[&str]] = match next(6) {
            0 => &[&["SET", &key, &value]],
            1 => &[&["EVAL", "return redis.call('set', KEYS[1], ARGV[1])", "1", &key, &value]],
            2 => &[&["MULTI"], &["SET", &key, &value], &["EXEC"]],
            3 => &[&["SET", &key, &value, "XX", "GET"]],
            _ => &[],
        };
        if !write.is_empty() {
            for words in write {
                cache.conn.send_command(words).expect("sent");
                cache.reply();
            }
            cache.values.remove(&key);
        }
        // The key is there, so this changes nothing; another client's change comes in the same moment.
        writer.ask(&format!("SET {key} {round} NX"));
        cache.get(&key);
        cache.conn.send_command(&["SET", &key, "never", "NX"]).expect("sent");
        if next(2) == 0 {
            writer.ask(&format!("SET {key} w{round}"));
        }
        cache.reply();
    }
    assert_true_in_the_end(caches, writer);
    assert!(caches.iter().all(|cache| cache.told > 20 && cache.dropped == 0));
}

const NOLOOP: [&str; 4] = ["NOLOOP", "NOLOOP OPTOUT", "NOLOOP BCAST", "NOLOOP BCAST PREFIX key:"];

// What was a client's own was guessed from its last writes: one that changed nothing hid the change of somebody else.
#[test]
fn with_noloop_caches_stay_true_while_their_clients_write() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let mut caches: Vec<Cache> =
        NOLOOP.iter().map(|mode| Cache::new(proxy.connect(), mode)).collect();
    assert_own_writes_hide_nothing(&mut caches, &mut proxy.connect());
}

#[test]
fn in_resp2_with_noloop_they_stay_true_as_well() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let modes = NOLOOP.iter();
    let mut caches: Vec<Cache> =
        modes.map(|mode| Cache::redirected(proxy.connect(), proxy.connect(), mode)).collect();
    assert_own_writes_hide_nothing(&mut caches, &mut proxy.connect());
}

// What it changes itself it is not told of, however it does; and its reads are tracked again after the connection that tells was lost.
#[test]
fn in_resp2_with_noloop_a_client_is_told_of_what_others_change_only() {
    let stack = Stack::start();
    let mut cache = Cache::redirected(stack.connect(), stack.connect(), "NOLOOP");
    let mut server = stack.server.connect();
    for round in 0..3 {
        cache.get("k");
        for line in ["SET k own", "EVAL return(redis.call('set','k','s')) 1 k", "INCRBY n 1"] {
            let words: Vec<&str> = line.split(' ').collect();
            cache.conn.send_command(&words).expect("sent");
            cache.reply();
        }
        cache.listen(Duration::from_millis(50));
        assert_eq!(cache.told, round, "of its own changes");
        cache.values.clear();
        cache.get("k");
        server.ask("SET k theirs");
        wait::until_true("it is told", SOON, || {
            cache.listen(Duration::from_millis(5));
            cache.values.is_empty()
        });
        assert_eq!(cache.told, round + 1);
        // Nobody else's connection is redirected.
        let list = server.ask("CLIENT LIST");
        let mut redirected = list.split(' ').filter_map(|field| field.strip_prefix("redir="));
        let tells = redirected.find(|id| *id != "-1").expect("a pair");
        assert_eq!(server.ask(&format!("CLIENT KILL ID {tells}")), ":1\r\n");
        wait::until_true("it drops all", SOON, || {
            cache.listen(Duration::from_millis(5));
            cache.dropped > round
        });
    }
}

#[test]
fn with_noloop_each_costs_a_connection_for_as_long_as_it_tracks() {
    let stack = Stack::start();
    let mut server = stack.server.connect();
    let mut tracking = || info_field(&mut server, "clients", "tracking_clients");
    let mut caches: Vec<Cache> = (0..10).map(|_| Cache::new(stack.connect(), "NOLOOP")).collect();
    for cache in &mut caches {
        cache.get("key:1");
    }
    assert_eq!(tracking().as_deref(), Some("10"));
    assert_eq!(caches[0].conn.ask("CLIENT TRACKING OFF"), "+OK\r\n");
    wait::until_true("its connection is gone", SOON, || tracking().as_deref() == Some("9"));
    drop(caches);
    wait::until_true("all are gone", SOON, || tracking().as_deref() == Some("0"));
}

#[test]
fn with_noloop_there_is_a_limit_and_its_error_names_it() {
    // One for each of the two workers.
    let stack = Stack::with(&["--limits-noloop-conns-max", "2"]);
    let mut kept = Vec::new();
    let refused = (0..16).find_map(|_| {
        let mut conn = stack.connect();
        conn.ask("HELLO 3");
        let reply = conn.ask("CLIENT TRACKING ON NOLOOP");
        conn.ask("GET key:1");
        kept.push(conn);
        (reply != "+OK\r\n").then_some(reply)
    });
    assert!(refused.is_some_and(|reply| reply.contains("limits.noloop_conns_max")));
}
