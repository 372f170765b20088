//! Theme A: the reply belongs to the request, and is the whole of it.
//!
//! Values tell whose they are, so a reply that went astray is seen at once.
//!
//! Invariant: no test here ends with a reply that nobody looked at.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use testkit::cluster::RedisCluster;
use testkit::{Conn, Respool};

use crate::setup::{RESPOOL, SOON, Stack, long};
use crate::topology::{front, key_on};

fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::request(&mut out, args);
    out
}

// twemproxy #404: a script ran longer than the timeout of the pool. The reply that came late went, in pieces, to other clients.
#[test]
fn a1_a_script_that_outlasts_the_timeout_reaches_no_other_client() {
    const SCRIPT: &str = "local n = 0 local t = redis.call('TIME') local e = t[1] * 1000000 + t[2] + 700000 \
        repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > e return {'of-the-script', KEYS[1]}";
    let stack = Stack::with(&["--timeouts-request-ms", "300"]);
    let (stop, served, late) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let front = stack.front();
    thread::scope(|scope| {
        for client in 0..20 {
            let (stop, served, late) = (&stop, &served, &late);
            scope.spawn(move || {
                let mut conn = Conn::to(front);
                let mut round = 0;
                while !stop.load(Ordering::Acquire) {
                    let value = format!("{client}:{round}");
                    let set = conn.ask(&format!("SET own:{client} {value}"));
                    let get = conn.ask(&format!("GET own:{client}"));
                    let expected = format!("${}\r\n{value}\r\n", value.len());
                    // A write whose reply came too late may have been done or not.
                    if set == "+OK\r\n" && get == expected {
                        served.fetch_add(1, Ordering::Relaxed);
                    } else {
                        for reply in [&set, &get] {
                            // The value before, if the write was not done: its own as well.
                            let body = reply.split("\r\n").nth(1).unwrap_or_default();
                            let own = body.starts_with(&format!("{client}:"))
                                || ["+OK\r\n", "$-1\r\n"].contains(&reply.as_str());
                            let error = reply.starts_with("-ERR respool: upstream ");
                            assert!(own || error, "client {client} got {reply:?}");
                        }
                        late.fetch_add(1, Ordering::Relaxed);
                    }
                    round += 1;
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for round in 0..if long() { 20 } else { 3 } {
            let args: [&[u8]; 4] = [b"EVAL", SCRIPT.as_bytes(), b"1", b"script-key"];
            let reply = Conn::to(front).command(&args).expect("a reply");
            assert!(reply.starts_with(b"-ERR respool: upstream "), "round {round}: {reply:?}");
            thread::sleep(Duration::from_millis(800));
        }
        stop.store(true, Ordering::Release);
    });
    assert!(served.load(Ordering::Relaxed) > 100, "{served:?} rounds were served");
    assert!(late.load(Ordering::Relaxed) > 10, "the script held nobody up: {late:?}");
}

// twemproxy #428: a pipeline was spread over several connections, and a read overtook the write before it.
#[test]
fn a7_a_read_behind_its_write_in_a_deep_pipeline_sees_it() {
    let rounds = if long() { 1_000_000 } else { 30_000 };
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let alone = Stack::start();
    let mut conns = vec![proxy.connect(), proxy.connect(), alone.connect()];
    let keys: Vec<String> = (0..3).map(|nth| key_on(nth, 40)).collect();
    for conn in &mut conns {
        for begin in (0..rounds).step_by(5_000) {
            let numbers: Vec<String> = (begin..begin + 5_000).map(|n| format!("v{n}")).collect();
            let mut requests = Vec::with_capacity(10_000);
            for (nth, value) in numbers.iter().enumerate() {
                let key = keys[nth % 3].as_bytes();
                requests.push(request(&[b"SET", key, value.as_bytes()]));
                requests.push(request(&[b"GET", key]));
            }
            let replies = conn.pipeline(&requests).expect("replies");
            for (pair, value) in replies.chunks(2).zip(&numbers) {
                assert_eq!(pair[0], b"+OK\r\n");
                assert_eq!(pair[1], format!("${}\r\n{value}\r\n", value.len()).as_bytes());
            }
        }
    }
}

// redis-cluster-proxy #94, #88, #79 and twemproxy #19: empty values were refused, values with NUL cut, values around a multiple
// of the buffer lost. Alone, in a pipeline of HSETs, and in requests that are split between nodes.
#[test]
fn a8_empty_binary_and_boundary_values_come_back_whole() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let mut conn = proxy.connect();
    let keys: Vec<String> = (0..3).map(|nth| key_on(nth, 50)).collect();
    let key = |nth: usize| keys[nth % 3].as_bytes();
    let mut values: Vec<Vec<u8>> =
        vec![b"".to_vec(), b"\0".to_vec(), b"\r\n".to_vec(), b"a\r\n$-1\r\n\0\xff".to_vec()];
    for buffer in [4_096_usize, 16_384, 65_536, 262_144] {
        for times in 1..=2 {
            // Key, value and framing together end before, at and after the end of the buffer.
            for less in [0, 1, 2, 3, 30, 40, 50, 60, 100] {
                values.push(vec![b'x'; buffer * times - less]);
            }
            values.extend((1..=3).map(|more| vec![0; buffer * times + more]));
        }
    }
    for (nth, value) in values.iter().enumerate() {
        assert_eq!(conn.command(&[b"SET", key(nth), value]).expect("SET"), b"+OK\r\n");
        let got = conn.command(&[b"GET", key(nth)]).expect("GET");
        assert_eq!(bulk(&got), value, "{} bytes", value.len());
    }
    // In parts: each value beside its two neighbours.
    for three in values.windows(3) {
        let set: Vec<&[u8]> = [b"MSET".as_slice()]
            .into_iter()
            .chain((0..3).flat_map(|nth| [key(nth), &three[nth]]))
            .collect();
        assert_eq!(conn.command(&set).expect("MSET"), b"+OK\r\n");
        let got = conn.command(&[b"MGET", key(0), key(1), key(2)]).expect("MGET");
        let (value, _) = resp::value::parse(&got).expect("RESP").expect("whole");
        let got: Vec<&[u8]> =
            value.as_list().expect("a list").iter().filter_map(|v| v.as_text()).collect();
        assert_eq!(got, three.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    let fields: Vec<Vec<u8>> =
        (0..100).map(|n| request(&[b"HSET", b"{h}", format!("f{n}").as_bytes(), b""])).collect();
    assert!(conn.pipeline(&fields).expect("replies").iter().all(|reply| reply == b":1\r\n"));
}

fn bulk(reply: &[u8]) -> &[u8] {
    let head = reply.iter().position(|byte| *byte == b'\n').expect("a header") + 1;
    assert!(reply[0] == b'$' && reply.ends_with(b"\r\n") && reply.len() >= head + 2);
    &reply[head..reply.len() - 2]
}

// twemproxy #403: now and then "Invalid argument" for one and the same request. redis-cluster-proxy #21: a pipeline of XADDs that
// was cut by the network.
#[test]
fn a8_the_same_request_gets_the_same_reply_every_time() {
    let count = if long() { 1_000_000 } else { 50_000 };
    let stack = Stack::start();
    let mut conn = stack.connect();
    assert_eq!(conn.ask("SADD set 12345678901234567890 00 1e5"), ":3\r\n");
    for begin in (0..count).step_by(10_000) {
        let requests = vec![request(&[b"SISMEMBER", b"set", b"12345678901234567890"]); 10_000];
        let replies = conn.pipeline(&requests).expect("replies");
        assert!(replies.iter().all(|reply| reply == b":1\r\n"), "from {begin} on");
    }
    let adds = vec![request(&[b"XADD", b"stream", b"*", b"field", &[b'v'; 300]]); 2_000].concat();
    for piece in adds.chunks(1_447) {
        conn.send(piece).expect("sent");
    }
    for _ in 0..2_000 {
        assert!(conn.reply().expect("a reply").starts_with(b"$"), "an id");
    }
    assert_eq!(conn.ask("XLEN stream"), ":2000\r\n");
}

// predixy #9 and #129: what people type, and old clients' AUTH.
#[test]
fn a10_lines_as_people_type_them_are_served() {
    let cluster = RedisCluster::start(3, 0);
    let secret = Respool::to_url(RESPOOL, &cluster.url()).args(&["--password", "pw"]).start();
    let open = front(&cluster, &[]);
    for (proxy, login, greeted) in [(&open, "", ""), (&secret, "AUTH pw\r\n", "+OK\r\n")] {
        let mut conn = proxy.connect();
        let lines =
            format!("{login}PING\r\nSET a 1\r\nGET a\nMGET a \"no such\" 'a'\r\n\r\nDEL a\r\n");
        conn.send(lines.as_bytes()).expect("sent");
        let expected = format!(
            "{greeted}+PONG\r\n+OK\r\n$1\r\n1\r\n*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n:1\r\n"
        );
        let mut got = Vec::new();
        conn.set_timeout(SOON);
        while got.len() < expected.len() {
            got.extend(conn.reply().expect("a reply"));
        }
        assert_eq!(String::from_utf8_lossy(&got), expected);
    }
}
