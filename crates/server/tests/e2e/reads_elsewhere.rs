//! Reads from other deployments with real servers: each server has the same keys with values of its own, so it is seen who answered.
//!
//! Invariant: no reply is an error, and each is what the upstream or a target has for that very key.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, info_field};

const KEYS: usize = 40;

/// A server whose values say that they are its.
fn server(name: &str) -> RedisServer {
    let server = RedisServer::start();
    fill(&server, name);
    server
}

fn fill(server: &RedisServer, name: &str) {
    let mut conn = server.connect();
    for n in 0..KEYS {
        assert_eq!(conn.ask(&format!("SET k:{n} {name}:{n}")), "+OK\r\n");
    }
}

fn url(server: &RedisServer) -> String {
    match server.endpoint() {
        Endpoint::Tcp(address) => format!("redis://{address}"),
        Endpoint::Unix(path) => format!("redis+unix://{}", path.display()),
    }
}

#[track_caller]
fn front(upstream: &RedisServer, targets: &[&RedisServer], args: &[&str]) -> Respool {
    let targets: Vec<String> = (0..)
        .zip(targets)
        .map(|(number, server)| format!("{} name=t{number}", url(server)))
        .collect();
    let targets = targets.join(";");
    let args = [&["--read-targets-targets", targets.as_str()], args].concat();
    let proxy = Respool::to(RESPOOL, upstream.endpoint()).workers(2).args(&args).start();
    let mut conn = proxy.connect();
    wait::until_true("the servers are reached", SOON, || !conn.ask("GET k:0").starts_with('-'));
    proxy
}

/// Who answered, and for which key.
fn who(reply: &str) -> Option<(&str, usize)> {
    let text = reply.lines().nth(1).filter(|_| reply.starts_with('$'))?;
    let (who, key) = text.split_once(':')?;
    Some((who, key.parse().ok()?))
}

/// What INFO tells of a target: a field of its line.
fn figure(conn: &mut Conn, number: usize, name: &str) -> String {
    let field = format!("read_target_{number}");
    let line = info_field(conn, "read_targets", &field).expect("there is such a target");
    let value = line.split(',').find_map(|field| field.strip_prefix(&format!("{name}=")));
    value.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
}

/// Reads and writes in one packet, each with a reply of its own: every third is a SET.
fn reads_and_writes(round: usize, client: usize) -> Vec<Vec<u8>> {
    let line = |at: usize| {
        let mut line = Vec::new();
        let (own, value) = (format!("own:{client}"), format!("{round}.{at}"));
        let key = format!("k:{}", (round + at) % KEYS);
        match at % 3 {
            0 => resp::encode::request(&mut line, &[b"SET", own.as_bytes(), value.as_bytes()]),
            _ => resp::encode::request(&mut line, &[b"GET", key.as_bytes()]),
        }
        line
    };
    (0..12).map(line).collect()
}

#[test]
fn a_target_is_killed_under_load_and_comes_back_and_no_client_sees_an_error() {
    let upstream = server("up");
    let mut target = server("near");
    let proxy = front(&upstream, &[&target], &["--read-targets-timeout-ms", "200"]);
    let mut looks = proxy.connect();
    let (ends, by_target, by_upstream) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for client in 0..4usize {
            let mut conn = proxy.connect();
            let (ends, by_target, by_upstream) = (&ends, &by_target, &by_upstream);
            scope.spawn(move || {
                if client == 3 {
                    conn.ask("HELLO 3");
                }
                let mut round = client;
                while !ends.load(Ordering::Relaxed) {
                    round += 1;
                    let lines = reads_and_writes(round, client);
                    let replies = conn.pipeline(&lines).expect("replies");
                    for (at, reply) in replies.iter().enumerate() {
                        let reply = String::from_utf8_lossy(reply).into_owned();
                        if at % 3 == 0 {
                            assert_eq!(reply, "+OK\r\n");
                            continue;
                        }
                        let key = (round + at) % KEYS;
                        match who(&reply) {
                            Some(("near", of)) if of == key => {
                                by_target.fetch_add(1, Ordering::Relaxed)
                            }
                            Some(("up", of)) if of == key => {
                                by_upstream.fetch_add(1, Ordering::Relaxed)
                            }
                            _ => panic!("{reply:?} for k:{key}"),
                        };
                    }
                }
            });
        }
        let more = |count: &AtomicU64, by: u64| {
            let before = count.load(Ordering::Relaxed);
            wait::until_true("reads go on", SOON, || count.load(Ordering::Relaxed) > before + by);
        };
        // Whatever fails here, the clients must end, or nobody would see it.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            more(&by_target, 1_000);
            // So that it has its keys as soon as it is back.
            assert_eq!(target.connect().ask("SAVE"), "+OK\r\n");
            target.kill();
            more(&by_upstream, 1_000);
            target.restart();
            // For all workers: each leaves it out by itself.
            let is_back = |looks: &mut Conn| {
                wait::until_true("ready", SOON, || figure(looks, 0, "state") == "ready");
            };
            is_back(&mut looks);
            more(&by_target, 1_000);
            // It hangs, and goes on.
            target.pause();
            wait::until_true("a late read", SOON, || figure(&mut looks, 0, "late") != "0");
            more(&by_upstream, 1_000);
            target.resume();
            is_back(&mut looks);
            more(&by_target, 1_000);
        }));
        ends.store(true, Ordering::Relaxed);
        outcome.expect("what was waited for");
    });
    assert!(figure(&mut looks, 0, "outages").parse::<u64>().expect("a count") >= 2);
}

#[test]
fn by_chance_reads_are_spread_over_targets() {
    let (upstream, one, other) = (server("up"), server("one"), server("other"));
    let proxy = front(&upstream, &[&one, &other], &["--read-targets-order", "random"]);
    let mut conn = proxy.connect();
    let mut seen = std::collections::BTreeMap::new();
    for n in 0..400 {
        let reply = conn.ask(&format!("GET k:{}", n % KEYS));
        let (name, key) = who(&reply).expect("a value");
        assert_eq!(key, n % KEYS);
        *seen.entry(name.to_owned()).or_insert(0) += 1;
    }
    assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), ["one", "other"]);
    assert!(seen.values().all(|count| (140..=260).contains(count)), "{seen:?}");
    // What is written is the upstream's.
    assert_eq!(conn.ask("SET fresh 1"), "+OK\r\n");
    assert_eq!(
        (one.connect().ask("EXISTS fresh"), upstream.connect().ask("EXISTS fresh")),
        (":0\r\n".to_owned(), ":1\r\n".to_owned())
    );
}

#[test]
fn a_key_that_comes_often_goes_to_the_target() {
    let (upstream, target) = (server("up"), server("hot"));
    let proxy = front(&upstream, &[&target], &["--read-targets-hot-per-s", "100"]);
    let mut conn = proxy.connect();
    let is_hot = |conn: &mut Conn| (0..50).all(|_| who(&conn.ask("GET k:7")) == Some(("hot", 7)));
    wait::until_true("the key is hot", SOON, || is_hot(&mut conn));
    assert_eq!(who(&conn.ask("GET k:8")), Some(("up", 8)));
    wait::until_true("it is like others again", SOON, || {
        thread::sleep(std::time::Duration::from_millis(300));
        who(&conn.ask("GET k:7")) == Some(("up", 7))
    });
}

#[test]
fn the_upstream_first_and_targets_when_it_is_away_or_slow() {
    let (mut upstream, target) = (server("up"), server("copy"));
    let args = ["--read-targets-order", "main", "--read-targets-timeout-ms", "300"];
    let hedged = ["--read-targets-hedge-after-ms", "30", "--read-targets-hedge-percent", "100"];
    let proxy = front(&upstream, &[&target], &[&args[..], &hedged].concat());
    let mut conn = proxy.connect();
    let hedged = |conn: &mut Conn| figure(conn, 0, "hedged").parse::<u64>().expect("a number");
    let mut is_up = false;
    for n in 0..KEYS {
        let before = hedged(&mut conn);
        let reply = conn.ask(&format!("GET k:{n}"));
        let answered = who(&reply);
        is_up |= answered == Some(("up", n));
        // A busy machine may hold the upstream up for longer than 30 ms.
        let is_late = answered == Some(("copy", n)) && hedged(&mut conn) > before;
        assert!(answered == Some(("up", n)) || is_late, "{answered:?}");
    }
    assert!(is_up, "the upstream answered nothing");
    upstream.pause();
    for n in 0..5 {
        assert_eq!(who(&conn.ask(&format!("GET k:{n}"))), Some(("copy", n)));
    }
    upstream.resume();
    wait::until_true("the upstream answers again", SOON, || {
        who(&conn.ask("GET k:1")) == Some(("up", 1))
    });
    assert!(hedged(&mut conn) >= 5);
    upstream.kill();
    for n in 0..KEYS {
        assert_eq!(who(&conn.ask(&format!("GET k:{n}"))), Some(("copy", n)));
    }
    assert!(conn.ask("SET x 1").starts_with("-ERR respool: upstream "));
}

#[test]
fn the_configuration_of_the_guide_does_what_it_says() {
    let (upstream, near, far) = (server("up"), server("near"), server("far"));
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/reads-elsewhere.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let mut blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.next().expect("a configuration");
    let lines =
        block.lines().filter(|line| !line.starts_with("upstream") && !line.starts_with("listen"));
    let text = lines.collect::<Vec<_>>().join("\n");
    assert!(text.contains("redis://127.0.0.1:6390") && text.contains("\"product:*\""));
    let text = text
        .replace("redis://127.0.0.1:6390", &url(&near))
        .replace("redis://127.0.0.1:6391", &url(&far))
        .replace("product:*", "k:*");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    fs::write(&file, text).expect("the file");
    let file = file.display().to_string();
    let proxy =
        Respool::to(RESPOOL, upstream.endpoint()).workers(2).args(&["--config", &file]).start();
    let mut conn = proxy.connect();
    wait::until_true("the nearest answers", SOON, || {
        who(&conn.ask("GET k:1")) == Some(("near", 1))
    });
    // A key of no pattern is the upstream's.
    assert_eq!(conn.ask("SET other 5"), "+OK\r\n");
    assert_eq!(conn.ask("GET other"), "$1\r\n5\r\n");
    drop(near);
    for n in 0..KEYS {
        assert_eq!(who(&conn.ask(&format!("GET k:{n}"))), Some(("far", n)));
    }
    drop(far);
    for n in 0..KEYS {
        assert_eq!(who(&conn.ask(&format!("GET k:{n}"))), Some(("up", n)));
    }
}
