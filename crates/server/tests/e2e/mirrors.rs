//! Double writes with real servers: what is written to one deployment is in another one, too, whatever its topology.
//!
//! Both sides are asked for every key, each over a proxy of its own where they are a cluster.
//!
//! Invariant: a test waits until the mirror has answered everything, and never for a time.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use resp::value::{Value, parse};
use testkit::cluster::RedisCluster;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, info_field};

/// A proxy for a server, with this mirror.
#[track_caller]
fn front(server: &RedisServer, mirror: &str, args: &[&str]) -> Respool {
    let args = [&["--mirrors-targets", mirror], args].concat();
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(1).args(&args).start();
    let mut conn = proxy.connect();
    wait::until_true("the server is reached", SOON, || conn.ask("EXISTS x") == ":0\r\n");
    proxy
}

fn url(server: &RedisServer) -> String {
    match server.endpoint() {
        Endpoint::Tcp(address) => format!("redis://{address}"),
        Endpoint::Unix(path) => format!("redis+unix://{}", path.display()),
    }
}

/// What INFO tells of the mirror: a field of its line.
fn figure(conn: &mut Conn, name: &str) -> u64 {
    let line = info_field(conn, "mirrors", "mirror_0").expect("there is a mirror");
    let value = line.split(',').find_map(|field| field.strip_prefix(&format!("{name}=")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Waits until the mirror has answered; it must have done all of it.
#[track_caller]
fn wait_told(conn: &mut Conn) {
    wait::until_true("the mirror has everything", SOON, || figure(conn, "queued") == 0);
    let missed = ["failed", "dropped", "unsure"].map(|name| figure(conn, name));
    assert_eq!(missed, [0; 3], "{}", conn.ask("INFO mirrors"));
}

/// Every key with its value; what has no order is sorted.
fn content(conn: &mut Conn) -> BTreeMap<Vec<u8>, String> {
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
