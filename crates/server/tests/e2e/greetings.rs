//! What client libraries send before their first command, often in one packet with it, and what
//! they need to hear.
//!
//! The sequences are those of current libraries with default settings; the libraries themselves are
//! run in `tests/clients`. Some of the commands are newer than some servers: the proxy answers them
//! in the same way whatever stands behind it.
//!
//! Invariant: after every sequence the connection is open and answers the command that was sent in
//! the same packet.

use resp::Value;
use testkit::Conn;
use testkit::frames::request;

use crate::setup::{Stack, direct, info_field};

/// What is expected of one reply.
#[derive(Clone, Copy, Debug)]
enum Expect {
    Ok,
    Error,
    /// Exactly these bytes.
    Bytes(&'static str),
    /// The greeting as a RESP3 map.
    Map,
    /// The greeting as a flat RESP2 array.
    FlatMap,
}

/// Sends all requests in one write and holds each reply against what is expected.
fn greet(stack: &Stack, script: &[(&str, Expect)]) -> Conn {
    let mut conn = stack.connect();
    let requests: Vec<Vec<u8>> =
        script.iter().map(|(words, _)| request(&words.split(' ').collect::<Vec<_>>())).collect();
    let replies = conn.pipeline(&requests).expect("a reply to each request");
    for ((words, expect), reply) in script.iter().zip(&replies) {
        let text = String::from_utf8_lossy(reply);
        let right = match expect {
            Expect::Ok => text == "+OK\r\n",
            Expect::Error => text.starts_with('-'),
            Expect::Bytes(bytes) => text == *bytes,
            Expect::Map => is_greeting(reply, true),
            Expect::FlatMap => is_greeting(reply, false),
        };
        assert!(right, "{words}: {text}");
    }
    assert!(conn.surplus().is_empty(), "more replies than requests");
    conn
}

/// Whether a reply to HELLO has the server's fields, in the shape of the protocol.
fn is_greeting(reply: &[u8], resp3: bool) -> bool {
    let Ok(Some((value, _))) = resp::value::parse(reply) else { return false };
    let pairs: Vec<(Value<'_>, Value<'_>)> = match value {
        Value::Map(pairs) if resp3 => pairs,
        Value::Array(items) if !resp3 => {
            items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        }
        _ => return false,
    };
    let has = |name: &[u8], value: Option<&Value<'_>>| {
        pairs.iter().any(|(key, found)| {
            *key == Value::Bulk(name) && value.is_none_or(|value| value == found)
        })
    };
    has(b"server", None)
        && has(b"version", None)
        && has(b"proto", Some(&Value::Integer(if resp3 { 3 } else { 2 })))
        && has(b"id", None)
        && has(b"mode", Some(&Value::Bulk(b"standalone")))
        && has(b"role", Some(&Value::Bulk(b"master")))
        && has(b"modules", Some(&Value::Array(Vec::new())))
}

#[test]
fn libraries_of_today_get_what_they_need() {
    if direct() {
        return;
    }
    let stack = Stack::start();
    let maint = "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip";
    // redis-py 8, go-redis 9, node-redis 6.
    let mut conn = greet(
        &stack,
        &[
            ("HELLO 3", Expect::Map),
            (maint, Expect::Error),
            ("CLIENT SETINFO LIB-NAME redis-py", Expect::Ok),
            ("CLIENT SETINFO LIB-VER 8.0.0", Expect::Ok),
            ("SET k v", Expect::Ok),
            ("GET k", Expect::Bytes("$1\r\nv\r\n")),
            ("GET nothing", Expect::Bytes("_\r\n")),
        ],
    );
    assert_eq!(conn.ask("HSET h f v"), ":1\r\n");
    assert_eq!(conn.ask("HGETALL h"), "%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
    // ioredis 6: lower case, then INFO, of which it reads two fields.
    let mut conn = greet(
        &stack,
        &[
            ("hello 3", Expect::Map),
            ("client SETINFO LIB-NAME ioredis", Expect::Ok),
            ("client SETINFO LIB-VER 6.0.0", Expect::Ok),
        ],
    );
    assert_eq!(info_field(&mut conn, "", "loading").as_deref(), Some("0"));
    assert!(info_field(&mut conn, "", "redis_version").is_some());
    // redis-py 5 and older libraries stay with RESP2.
    greet(
        &stack,
        &[
            ("CLIENT SETINFO LIB-NAME redis-py", Expect::Ok),
            ("CLIENT SETINFO LIB-VER 5.0.0", Expect::Ok),
            ("HELLO 2", Expect::FlatMap),
            ("GET nothing", Expect::Bytes("$-1\r\n")),
        ],
    );
    // With a name, in the same packet as the first command.
    greet(
        &stack,
        &[
            ("HELLO 3 SETNAME worker-7", Expect::Map),
            ("CLIENT GETNAME", Expect::Bytes("$8\r\nworker-7\r\n")),
            ("SELECT 3", Expect::Ok),
            ("SET in3 v", Expect::Ok),
            ("SELECT 0", Expect::Ok),
            ("EXISTS in3", Expect::Bytes(":0\r\n")),
        ],
    );
}

#[test]
fn both_protocols_side_by_side_and_in_turn_on_one_connection() {
    let stack = Stack::start();
    let mut old = stack.connect();
    let mut new = stack.connect();
    assert!(is_greeting(new.ask("HELLO 3").as_bytes(), true));
    for round in 0..200 {
        assert_eq!(old.ask("GET nothing"), "$-1\r\n", "round {round}");
        assert_eq!(new.ask("GET nothing"), "_\r\n", "round {round}");
    }
    // The protocol changes between two requests of one pipeline, and so do the replies.
    let requests: Vec<Vec<u8>> =
        ["GET nothing", "HELLO 3", "GET nothing", "HELLO 2", "GET nothing", "RESET", "GET nothing"]
            .iter()
            .map(|words| request(&words.split(' ').collect::<Vec<_>>()))
            .collect();
    for _ in 0..50 {
        let replies = old.pipeline(&requests).expect("replies");
        let nulls: Vec<_> = [0, 2, 4, 6].iter().map(|at| replies[*at].as_slice()).collect();
        assert_eq!(nulls, [&b"$-1\r\n"[..], b"_\r\n", b"$-1\r\n", b"$-1\r\n"]);
    }
}
