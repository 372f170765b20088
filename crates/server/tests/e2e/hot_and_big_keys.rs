//! TOPKEYS and BIGKEYS over several workers, in front of a server with a skewed load and a large value.
//!
//! Invariant: the load is drawn from a generator with a fixed seed; only which worker gets which client is left to the kernel.

use resp::value::{Value, parse};
use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct};

/// The client's reply, which is a list of maps, as text: name and value in turn.
fn entries(conn: &mut Conn, line: &str) -> Vec<Vec<(String, String)>> {
    let bytes = conn.command(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
    let (value, _) = parse(&bytes).expect("RESP").expect("a whole reply");
    let text = |value: &Value<'_>| match value {
        Value::Integer(number) => number.to_string(),
        text => String::from_utf8_lossy(text.as_text().expect("a text")).into_owned(),
    };
    let map = |entry: &Value<'_>| {
        let pairs = entry.as_list().expect("a map of RESP2").chunks(2);
        pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
    };
    value.as_list().expect("a list").iter().map(map).collect()
}

fn field<'a>(entry: &'a [(String, String)], name: &str) -> &'a str {
    let found = entry.iter().find(|(field, _)| field == name);
    found.map(|(_, value)| value.as_str()).expect("a field")
}

fn number(entry: &[(String, String)], name: &str) -> u64 {
    field(entry, name).parse().expect("a number")
}

/// So many requests over this connection: each third is for one key, every tenth of those a write.
fn load(conn: &mut Conn, requests: u64, seed: u64) {
    let mut random = seed;
    for batch in 0..requests / 100 {
        let line = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let cold = format!("cold:{}", (random >> 33) % 10_000);
            let mut out = Vec::new();
            match (n % 3, n % 30) {
                (0, 0) => resp::encode::request(&mut out, &[b"SET", b"hot", b"1"]),
                (0, _) => resp::encode::request(&mut out, &[b"GET", b"hot"]),
                _ => resp::encode::request(&mut out, &[b"GET", cold.as_bytes()]),
            }
            out
        };
        let lines: Vec<Vec<u8>> = (batch * 100..batch * 100 + 100).map(line).collect();
        conn.pipeline(&lines).expect("replies");
    }
}

#[test]
fn the_hot_key_of_a_skewed_load_comes_first_with_a_good_estimate() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let args = ["--hotkeys-enabled", "true", "--hotkeys-sample", "8", "--hotkeys-window-s", "600"];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).workers(2).start();
    let mut conns: Vec<Conn> = (0..8).map(|_| proxy.connect()).collect();
    for (seed, conn) in conns.iter_mut().enumerate() {
        load(conn, 6_000, seed as u64);
    }
    let conn = &mut conns[0];
    let hot = entries(conn, "TOPKEYS GET 5");
    assert_eq!((hot.len(), field(&hot[0], "key")), (5, "hot"));
    let (count, writes) = (number(&hot[0], "count"), number(&hot[0], "writes"));
    assert!((12_800..=19_200).contains(&count), "{count} of 16000");
    assert!((800..=2_400).contains(&writes), "{writes} of 1600");
    assert!(number(&hot[1], "count") < 1_000, "{hot:?}");
    let info = conn.ask("INFO hotkeys");
    assert!(info.contains("hotkey_0:per_second=") && info.contains(",key=hot\r\n"), "{info}");
    assert_eq!(conn.ask("TOPKEYS RESET"), "+OK\r\n");
    assert_eq!(conn.ask("TOPKEYS GET"), "*0\r\n");
    assert_eq!(conn.ask("TOPKEYS DISABLE"), "+OK\r\n");
    load(conn, 600, 1);
    assert_eq!(conn.ask("TOPKEYS GET"), "*0\r\n");
    assert_eq!(conn.ask("TOPKEYS ENABLE"), "+OK\r\n");
    load(conn, 600, 1);
    assert_eq!(field(&entries(conn, "TOPKEYS GET 1")[0], "key"), "hot");
}

#[test]
fn a_large_value_stands_in_the_list_from_both_ways() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(2).start();
    let value = "v".repeat(2 << 20);
    // Clients of both workers.
    for _ in 0..8 {
        let mut conn = proxy.connect();
        assert_eq!(conn.command(&["SET", "big", &value]).expect("a reply"), b"+OK\r\n");
        let reply = conn.command(&["GET", "big"]).expect("a reply");
        assert_eq!(reply.len(), value.len() + 12);
        assert_eq!(conn.command(&["GET", "small"]).expect("a reply"), b"$-1\r\n");
    }
    let mut conn = proxy.connect();
    let mut big = entries(&mut conn, "BIGKEYS GET");
    big.sort_by_key(|entry| field(entry, "command").to_owned());
    let shown = |entry: &[(String, String)]| {
        ["key", "command", "direction", "count", "elements_max"]
            .map(|name| field(entry, name).to_owned())
    };
    let shown: Vec<_> = big.iter().map(|entry| shown(entry)).collect();
    assert_eq!(shown, [["big", "get", "reply", "8", "0"], ["big", "set", "request", "8", "3"]]);
    for (entry, more) in big.iter().zip([12, 34]) {
        assert_eq!(number(entry, "bytes_max"), value.len() as u64 + more);
        assert!(field(entry, "client").starts_with("127.0.0.1:"), "{entry:?}");
        assert!(field(entry, "node").starts_with("127.0.0.1:"), "{entry:?}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_s = now.expect("a clock").as_secs();
        assert!(now_s.abs_diff(number(entry, "last_seen")) < 60, "{entry:?}");
    }
    assert_eq!(conn.ask("BIGKEYS LEN"), ":2\r\n");
    let info = conn.ask("INFO bigkeys");
    assert!(info.contains("bigkeys_requests:8\r\nbigkeys_replies:8\r\n"), "{info}");
    wait::until_true("the log to tell of it", SOON, || {
        let log = proxy.process().log();
        log.contains("big key") && log.contains("direction=\"request\"")
    });
    for line in ["MULTI", "GET big", "EXEC"] {
        conn.ask(line);
    }
    wait::until_true("the log to tell of the transaction", SOON, || {
        proxy.process().log().contains("large without a key")
    });
    let log = proxy.process().log();
    assert!(!log.contains("key=\"\""), "{log}");
    assert_eq!(conn.ask("BIGKEYS RESET"), "+OK\r\n");
    assert_eq!(conn.ask("BIGKEYS GET"), "*0\r\n");
}
