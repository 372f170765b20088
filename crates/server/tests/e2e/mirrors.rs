//! Double writes with real servers: what is written to one deployment is in another one, too, whatever its topology.
//!
//! Both sides are asked for every key, each over a proxy of its own where they are a cluster.
//!
//! Invariant: a test waits until the mirror has answered everything, and never for a time.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use resp::value::{Value, parse};
use serde_json::json;
use testkit::cluster::RedisCluster;
use testkit::ports::Port;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, info_field};

/// A proxy for a server, with this mirror.
#[track_caller]
fn front(server: &RedisServer, mirror: &str, args: &[&str]) -> Respool {
    front_of(1, server, mirror, args)
}

/// The same with so many workers.
#[track_caller]
fn front_of(workers: u32, server: &RedisServer, mirror: &str, args: &[&str]) -> Respool {
    let args = [&["--mirrors-targets", mirror], args].concat();
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(workers).args(&args).start();
    let mut conn = proxy.connect();
    wait::until_true("the server is reached", SOON, || conn.ask("EXISTS x") == ":0\r\n");
    proxy
}

pub(crate) fn url(server: &RedisServer) -> String {
    match server.endpoint() {
        Endpoint::Tcp(address) => format!("redis://{address}"),
        Endpoint::Unix(path) => format!("redis+unix://{}", path.display()),
    }
}

/// What INFO tells of the mirror: a field of its line.
pub(crate) fn figure(conn: &mut Conn, name: &str) -> u64 {
    let line = info_field(conn, "mirrors", "mirror_0").expect("there is a mirror");
    let value = line.split(',').find_map(|field| field.strip_prefix(&format!("{name}=")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Waits until the mirror has answered; it must have done all of it.
#[track_caller]
pub(crate) fn wait_told(conn: &mut Conn) {
    wait::until_true("the mirror has everything", SOON, || figure(conn, "queued") == 0);
    let missed = ["failed", "dropped", "unsure"].map(|name| figure(conn, name));
    assert_eq!(missed, [0; 3], "{}", conn.ask("INFO mirrors"));
}

/// Every key with its value; what has no order is sorted.
pub(crate) fn content(conn: &mut Conn) -> BTreeMap<Vec<u8>, String> {
    let keys = conn.command(&["KEYS", "*"]).expect("keys");
    let Ok(Some((Value::Array(keys), _))) = parse(&keys) else { panic!("no keys: {keys:?}") };
    let text = |value: &Value<'_>| value.as_text().expect("a key").to_vec();
    keys.iter().map(text).map(|key| (key.clone(), value_of(conn, &key))).collect()
}

fn value_of(conn: &mut Conn, key: &[u8]) -> String {
    let kind = conn.command(&[&b"TYPE"[..], key]).expect("a type");
    let (words, is_set): (&[&[u8]], bool) = match kind.as_slice() {
        b"+string\r\n" => (&[b"GET", key], false),
        b"+list\r\n" => (&[b"LRANGE", key, b"0", b"-1"], false),
        b"+set\r\n" => (&[b"SMEMBERS", key], true),
        b"+hash\r\n" => (&[b"HGETALL", key], true),
        b"+zset\r\n" => (&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], false),
        b"+stream\r\n" => (&[b"XRANGE", key, b"-", b"+"], false),
        other => panic!("{} is a {}", key.escape_ascii(), other.escape_ascii()),
    };
    let reply = conn.command(words).expect("a value");
    let mut text = reply.escape_ascii().to_string();
    if is_set {
        let Ok(Some((Value::Array(list), _))) = parse(&reply) else { panic!("no list") };
        let mut list: Vec<String> = list.iter().map(|one| format!("{one:?}")).collect();
        list.sort();
        text = list.concat();
    }
    // Two clocks tell it: the server's and the proxy's.
    let ttl = conn.command(&[&b"PTTL"[..], key]).expect("a time");
    let ttl: i64 = String::from_utf8_lossy(&ttl[1..ttl.len() - 2]).parse().expect("a number");
    format!("{text} for {} s", if ttl < 0 { ttl } else { (ttl + 50_000) / 100_000 * 100 })
}

/// What a client of an application says, and more.
const REQUESTS: &[&str] = &[
    "SET a 1",
    "EXPIRE a 1000",
    "SET b 1 EX 500",
    "SETEX c 700 v",
    "GETEX c PX 900000",
    "SET n 1 NX",
    "SET n 2 NX",
    "MSET k1 1 k2 2 k3 3 k4 4 k5 5",
    "DEL k1 k3 nosuch",
    "SADD s 1 2 3 4 5 6 7 8 9",
    "SPOP s 3",
    "SPOP s",
    "XADD x * f v",
    "XADD x MAXLEN 2 * f w",
    "XADD x * f u",
    "INCRBYFLOAT f 0.1",
    "INCRBYFLOAT f 0.2",
    "HINCRBYFLOAT h f 1.5",
    "HSET h g 1 i 2",
    "HDEL h i",
    "RPUSH l a b c d e",
    "BLPOP l 1",
    "BRPOP l 1",
    "LPOP l",
    "BLMOVE l {l}m LEFT RIGHT 1",
    "ZADD z 1 a 2 b 3 c",
    "ZPOPMIN z",
    "BZPOPMAX z 1",
    "INCR i",
    "APPEND t more",
    "SETRANGE t 6 x",
    "EVAL redis.call('set',KEYS[1],ARGV[1]) 1 e v",
    "PFADD p",
    "GETDEL k2",
    "GETSET k4 9",
    "MULTI",
    "SET {t}a 1",
    "INCR {t}n",
    "SPOP s",
    "EXPIRE {t}a 300",
    "EXEC",
    "MULTI",
    "SET q1 1",
    "SET q2 2",
    "DISCARD",
    "WATCH a",
    "SET a 2",
    "MULTI",
    "SET q3 1",
    "EXEC",
    "INCR l",
    "SET gone 1",
    "PEXPIRE gone 1",
];

#[test]
fn a_cluster_gets_what_a_single_server_gets() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start(3, 0));
    let proxy = front(&server, &format!("{} name=new", cluster.url()), &[]);
    let mut conn = proxy.connect();
    for request in REQUESTS {
        // HyperLogLogs are strings, and PFADD without elements makes an empty one.
        conn.ask(request);
    }
    // As a library sends a transaction: at once, over a connection of another protocol.
    let mut other = proxy.connect();
    other.ask("HELLO 3");
    let lines = ["MULTI", "SADD {u}s a b c", "SPOP {u}s", "SET {u}k v EX 400", "EXEC"];
    let requests: Vec<Vec<u8>> = lines
        .iter()
        .map(|line| {
            let mut out = Vec::new();
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            resp::encode::request(&mut out, &words);
            out
        })
        .collect();
    other.pipeline(&requests).expect("replies");
    // Larger than what is kept of a request otherwise.
    let large = vec![b'x'; 1 << 20];
    other.command(&[&b"SET"[..], b"large", &large]).expect("a reply");
    wait_told(&mut conn);
    let behind = Respool::to_url(RESPOOL, &cluster.url()).start();
    let (expected, found) = (content(&mut server.connect()), content(&mut behind.connect()));
    assert!(expected.len() > 20, "{expected:?}");
    for (key, value) in &expected {
        assert_eq!(found.get(key), Some(value), "{}", key.escape_ascii());
    }
    assert_eq!(expected.len(), found.len());
    assert!(figure(&mut conn, "done") > 30);
}

#[test]
fn many_clients_write_the_same_keys_and_a_hung_mirror_stops_none_of_them() {
    let (server, mirror) = (RedisServer::start(), RedisServer::start());
    let proxy = front(&server, &format!("{} name=new", url(&mirror)), &[]);
    let mut conn = proxy.connect();
    conn.ask("SET first 1");
    wait_told(&mut conn);
    mirror.pause();
    let begun = Instant::now();
    thread::scope(|scope| {
        for number in 0..8 {
            let mut conn = proxy.connect();
            scope.spawn(move || {
                if number % 2 == 0 {
                    conn.ask("HELLO 3");
                }
                for round in 0..150 {
                    let key = format!("k{}", (round * 7 + number) % 5);
                    conn.ask(&format!("SET {key} {number}-{round}"));
                    conn.ask(&format!("APPEND {key} +{number}"));
                    conn.ask(&format!("RPUSH list {number}-{round}"));
                    conn.ask("INCR count");
                    if round % 10 == 0 {
                        conn.ask("MULTI");
                        conn.ask(&format!("SET {key} {number}-m"));
                        conn.ask("INCR count");
                        conn.ask("EXEC");
                    }
                }
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}: they waited", begun.elapsed());
    assert!(figure(&mut conn, "queued") > 4_000);
    assert!(figure(&mut conn, "lag_ms") > 0);
    mirror.resume();
    wait_told(&mut conn);
    assert_eq!(content(&mut server.connect()), content(&mut mirror.connect()));
}

#[test]
fn several_workers_tell_the_mirror_what_their_clients_write_and_are_one_in_reports() {
    let (server, mirror) = (RedisServer::start(), RedisServer::start());
    let target = format!("{} name=new shadow_reads=100", url(&mirror));
    let proxy = front_of(3, &server, &target, &["--mirrors-across-workers", "true"]);
    mirror.pause();
    thread::scope(|scope| {
        for number in 0..12 {
            let mut conn = proxy.connect();
            scope.spawn(move || {
                for round in 0..50 {
                    // Keys of its own, in order; and what comes out the same in any order.
                    conn.ask(&format!("SET k{number} {round}"));
                    conn.ask(&format!("RPUSH l{number} {round}"));
                    conn.ask("INCR count");
                    conn.ask(&format!("SADD all {number}-{round}"));
                }
            });
        }
    });
    let mut conn = proxy.connect();
    assert_eq!(info_field(&mut conn, "mirrors", "mirrors").as_deref(), Some("1"));
    assert_eq!(figure(&mut conn, "queued"), 12 * 50 * 4);
    assert!(figure(&mut conn, "lag_ms") > 0);
    mirror.resume();
    wait_told(&mut conn);
    assert_eq!(figure(&mut conn, "done"), 12 * 50 * 4);
    assert_eq!(content(&mut server.connect()), content(&mut mirror.connect()));
    // Reads are compared in each worker; one that nobody has asked yet does not compare the first.
    let mut conns: Vec<Conn> = (0..12).map(|_| proxy.connect()).collect();
    wait::until_true("reads are compared", SOON, || {
        for (number, conn) in conns.iter_mut().enumerate() {
            assert_eq!(conn.ask(&format!("GET k{number}")), "$2\r\n49\r\n");
        }
        compared(&mut conn, "equal") > 24
    });
    assert_eq!(compared(&mut conn, "different"), 0);
}

#[test]
fn a_mirror_that_comes_late_gets_what_waited_and_a_restart_loses_nothing() {
    let server = RedisServer::start();
    let mut mirror = RedisServer::start();
    mirror.kill();
    let mut proxy = front(&server, &format!("{} name=new", url(&mirror)), &[]);
    let mut conn = proxy.connect();
    for number in 0..100 {
        conn.ask(&format!("SET {number} v"));
        conn.ask("INCR n");
    }
    assert_eq!(figure(&mut conn, "queued"), 200);
    assert_eq!(figure(&mut conn, "done"), 0);
    mirror.restart();
    wait_told(&mut conn);
    assert_eq!(content(&mut server.connect()), content(&mut mirror.connect()));
    // What waits when the proxy is to end is told before it does.
    mirror.pause();
    conn.ask("SET last 1");
    drop(conn);
    proxy.signal_terminate();
    assert!(proxy.wait_exit(Duration::from_millis(300)).is_none(), "it did not wait");
    mirror.resume();
    assert!(proxy.wait_exit(SOON).is_some());
    assert_eq!(mirror.connect().ask("GET last"), "$1\r\n1\r\n");
}

#[test]
fn with_all_checked_the_error_of_a_mirror_is_the_clients() {
    let (server, mirror) = (RedisServer::start(), RedisServer::start());
    let target = format!("{} name=new mode=all-checked keys=app:*", url(&mirror));
    let proxy = front(&server, &target, &[]);
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET app:1 v"), "+OK\r\n");
    assert_eq!(mirror.connect().ask("GET app:1"), "$1\r\nv\r\n", "it was there with the reply");
    mirror.connect().ask("LPUSH app:list x");
    assert!(conn.ask("APPEND app:list x").starts_with("-WRONGTYPE "));
    assert_eq!(conn.ask("APPEND other x"), ":1\r\n");
    assert_eq!(mirror.connect().ask("EXISTS other"), ":0\r\n");
    let page = info_field(&mut conn, "mirrors", "mirror_0_errors");
    assert_eq!(page.as_deref(), Some("WRONGTYPE=1"));
}

/// What INFO tells of the reads that were compared with the mirror.
fn compared(conn: &mut Conn, name: &str) -> u64 {
    let line = info_field(conn, "mirrors", "mirror_0_shadow_reads").expect("reads are compared");
    let value = line.split(',').find_map(|field| field.strip_prefix(&format!("{name}=")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

#[test]
fn what_a_mirror_reads_otherwise_is_told_and_nothing_else() {
    let (server, mirror) = (RedisServer::start(), RedisServer::start());
    let (mut main, mut other) = (server.connect(), mirror.connect());
    for (key, value) in [("same", "1"), ("user:1", "a"), ("user:2", "b"), ("order:1", "c")] {
        main.ask(&format!("SET {key} {value}"));
        other.ask(&format!("SET {key} {value}"));
    }
    // The same members, told in another order; and a time to live that is about the same.
    main.ask("SADD s c b a");
    other.ask("SADD s a b c");
    for conn in [&mut main, &mut other] {
        conn.ask("HSET h f 1 g 2");
        conn.ask("ZADD z 1.5 m 2 n");
    }
    main.ask("EXPIRE same 1000");
    other.ask("PEXPIRE same 999900");
    // Two that are not.
    other.ask("SET user:2 B");
    other.ask("DEL order:1");
    let (proxy, admin, _folder) = of_the_guide(&server, &mirror);
    let mut two = proxy.connect();
    let mut three = proxy.connect();
    three.ask("HELLO 3");
    let reads = [
        "GET same",
        "GET user:1",
        "GET user:2",
        "GET order:1",
        "SMEMBERS s",
        "HGETALL h",
        "PTTL same",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZSCORE z m",
        "MGET same user:1",
        "TYPE s",
        "GET s",
    ];
    for conn in [&mut two, &mut three] {
        for read in reads {
            conn.ask(read);
        }
    }
    // The read that waited for the server, too.
    wait::until_true("all is compared", SOON, || {
        compared(&mut two, "equal") + compared(&mut two, "different") >= 25
    });
    assert_eq!(compared(&mut two, "different"), 4, "{}", two.ask("INFO mirrors"));
    for fate in ["racing", "void", "large", "dropped"] {
        assert_eq!(compared(&mut two, fate), 0, "{fate}");
    }
    let page = ureq::get(format!("http://{admin}/shadow")).header("Authorization", "Bearer t");
    let page = page.call().expect("the report");
    let page: serde_json::Value = page.into_body().read_json().expect("JSON");
    let report = &page["mirrors"][0];
    assert_eq!((&report["mirror"], &report["total"]["different"]), (&json!("new"), &json!(4)));
    let rows = report["prefixes"].as_array().expect("prefixes").iter();
    let rows: Vec<(&str, u64, bool)> = rows
        .map(|row| {
            let is_seen =
                row["first_unix_us"].as_u64().is_some_and(|at| at > 1_700_000_000_000_000);
            (
                row["name"].as_str().expect("a name"),
                row["different"].as_u64().expect("a number"),
                is_seen,
            )
        })
        .collect();
    assert!(rows.contains(&("user", 2, true)) && rows.contains(&("order", 2, true)), "{rows:?}");
    assert!(rows.contains(&("", 0, false)) && rows.len() == 3, "{rows:?}");
    let samples = report["samples"].as_array().expect("samples");
    let b = samples.iter().find(|sample| sample["key"] == "user:2").expect("a sample");
    assert_eq!(
        (&b["primary"], &b["mirror"]),
        (&json!("$1\\r\\nb\\r\\n"), &json!("$1\\r\\nB\\r\\n"))
    );
    let done = ureq::delete(format!("http://{admin}/shadow")).header("Authorization", "Bearer t");
    let done = done.call().expect("done");
    assert_eq!((done.status().as_u16(), compared(&mut two, "different")), (204, 0));
}

/// The configuration of the guide with these servers, where every read is compared; and where its admin listener is.
fn of_the_guide(
    server: &RedisServer,
    mirror: &RedisServer,
) -> (Respool, String, tempfile::TempDir) {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/migrating-live.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let mut blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains("shadow_reads")).expect("a configuration");
    let admin = Port::v4().release().to_string();
    let lines = block
        .lines()
        .filter(|line| !line.starts_with("upstream") && *line != "listen = \"127.0.0.1:6380\"");
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text
        .replace("redis://127.0.0.1:6390", &url(mirror))
        .replace("shadow_reads=10", "shadow_reads=100")
        .replace("127.0.0.1:6391", &admin)
        .replace("[admin]", "[admin]\ntoken = \"t\"");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    fs::write(&file, text).expect("the file");
    let file = file.display().to_string();
    let proxy =
        Respool::to(RESPOOL, server.endpoint()).workers(1).args(&["--config", &file]).start();
    let mut conn = proxy.connect();
    wait::until_true("the server is reached", SOON, || conn.ask("EXISTS x") == ":0\r\n");
    (proxy, admin, folder)
}

#[test]
fn under_load_equal_data_are_read_alike() {
    let (server, mirror) = (RedisServer::start(), RedisServer::start());
    let target = format!("{} name=new shadow_reads=100", url(&mirror));
    let proxy = front(&server, &target, &[]);
    thread::scope(|scope| {
        for worker in 0..4 {
            let mut conn = proxy.connect();
            scope.spawn(move || {
                if worker % 2 == 1 {
                    conn.ask("HELLO 3");
                }
                for n in 0..400 {
                    let key = (n * 7 + worker) % 11;
                    for line in [
                        format!("INCR n:{key}"),
                        format!("GET n:{}", (key + 5) % 11),
                        format!("SET t:{key} {n} PX {}", 1 + n % 40),
                        format!("GET t:{}", (key + 3) % 11),
                        format!("SADD s:{key} {n}"),
                        format!("SMEMBERS s:{}", (key + 4) % 11),
                        format!("SPOP s:{key} 2"),
                        format!("PTTL t:{}", (key + 1) % 11),
                    ] {
                        conn.ask(&line);
                    }
                }
            });
        }
    });
    let mut conn = proxy.connect();
    wait_told(&mut conn);
    assert!(compared(&mut conn, "equal") > 300, "{}", conn.ask("INFO mirrors"));
    assert_eq!(compared(&mut conn, "different"), 0, "{}", conn.ask("INFO mirrors"));
}

#[test]
fn what_servers_say_of_a_command_agrees_with_how_it_is_compared() {
    let server = RedisServer::start();
    let mut conn = server.connect();
    let mut known = 0;
    for (name, shape) in engine::mirror::compared_commands() {
        let row = conn.ask(&format!("COMMAND INFO {name}"));
        known += usize::from(row.contains(&format!("\r\n{name}\r\n")));
        let tip = |tip: &str| row.contains(&format!("\r\n{tip}\r\n"));
        assert!(!tip("nondeterministic_output_order") || ["set", "map"].contains(&shape), "{name}");
        assert!(!tip("nondeterministic_output") || shape == "time", "{name}");
    }
    assert!(known > 50, "{known}");
}
