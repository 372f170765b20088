//! Scripts and functions that return the errors with which servers send requests on: data of their client, which concern nobody else.
//!
//! Invariant: nobody connects to an address that only a script named, and what a script does it does once.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use engine::route::slot::slot;
use testkit::Conn;
use testkit::cluster::RedisCluster;

use super::front;

const COUNTS_AND_SAYS: &str = "redis.call('incr', KEYS[1]) return redis.error_reply(ARGV[1])";

const LIBRARY: &str = "#!lua name=hostile\nredis.register_function('says', function(keys, args) \
                       redis.call('incr', keys[1]) return redis.error_reply(args[1]) end)";

/// A server that takes connections and counts them, and what it was sent.
struct Attacker {
    port: u16,
    conns: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl Attacker {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (conns, bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, read) = (Arc::clone(&conns), Arc::clone(&bytes));
        thread::spawn(move || {
            for conn in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::AcqRel);
                let read = Arc::clone(&read);
                thread::spawn(move || swallow(conn, &read));
            }
        });
        Self { port, conns, bytes }
    }

    fn assert_left_alone(&self, text: &str) {
        let seen = [&self.conns, &self.bytes].map(|count| count.load(Ordering::Acquire));
        assert_eq!(seen, [0, 0], "connections and bytes after {text}");
    }
}

fn swallow(mut conn: TcpStream, bytes: &AtomicUsize) {
    let mut buf = [0; 4096];
    while let Ok(count) = conn.read(&mut buf)
        && count > 0
    {
        bytes.fetch_add(count, Ordering::AcqRel);
    }
}

fn texts(key: &str, attacker: &Attacker) -> Vec<String> {
    let (slot, port) = (slot(key.as_bytes()), attacker.port);
    let mut texts: Vec<String> = ["MOVED", "ASK"]
        .iter()
        .flat_map(|word| {
            [
                format!("{word} {slot} 127.0.0.1:{port}"),
                format!("{word} 1 127.0.0.1:{port}"),
                format!("{word} {slot} :{port}"),
                format!("{word} x"),
            ]
        })
        .collect();
    let words = [
        "TRYAGAIN",
        "CLUSTERDOWN",
        "LOADING",
        "READONLY",
        "MASTERDOWN",
        "NOSCRIPT",
        "BUSY",
        "NOAUTH",
        "NOPERM",
        "WRONGPASS",
        "MISCONF",
        "NOREPLICAS",
        "EXECABORT",
        "REDIRECT",
        "UNBLOCKED",
    ];
    texts.extend(words.iter().map(|word| format!("{word} x")));
    texts
}

fn text_of(conn: &mut Conn, args: &[&str]) -> String {
    String::from_utf8_lossy(&conn.command(args).expect("a reply")).into_owned()
}

#[test]
fn whatever_a_script_returns_it_runs_once_and_steers_nobody() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let attacker = Attacker::start();
    let (mut conn, mut other) = (proxy.connect(), proxy.connect());
    assert_eq!(other.ask("SET victim v"), "+OK\r\n");
    let mut number = 0;
    for text in texts("{k}", &attacker) {
        number += 1;
        let key = format!("{{k}}{number}");
        let got = text_of(&mut conn, &["EVAL", COUNTS_AND_SAYS, "1", &key, &text]);
        assert!(got.starts_with(&format!("-{text}")), "{text}: {got}");
        assert_eq!(conn.ask(&format!("GET {key}")), "$1\r\n1\r\n", "{text}");
        assert_eq!(other.ask("GET victim"), "$1\r\nv\r\n", "{text}");
        attacker.assert_left_alone(&text);
    }
}

#[test]
fn functions_and_transactions_say_as_little() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let attacker = Attacker::start();
    let mut conn = proxy.connect();
    assert!(text_of(&mut conn, &["FUNCTION", "LOAD", LIBRARY]).contains("hostile"));
    let mut number = 0;
    for text in texts("{k}", &attacker) {
        number += 1;
        let (key, inside) = (format!("{{k}}f{number}"), format!("{{k}}m{number}"));
        let got = text_of(&mut conn, &["FCALL", "says", "1", &key, &text]);
        assert!(got.starts_with(&format!("-{text}")), "{text}: {got}");
        assert_eq!(conn.ask(&format!("GET {key}")), "$1\r\n1\r\n", "{text}");
        assert_eq!(conn.ask("MULTI"), "+OK\r\n");
        let got = text_of(&mut conn, &["EVAL", COUNTS_AND_SAYS, "1", &inside, &text]);
        assert_eq!(got, "+QUEUED\r\n", "{text}");
        assert!(conn.ask("EXEC").starts_with("*1\r\n-"), "{text}");
        assert_eq!(conn.ask(&format!("GET {inside}")), "$1\r\n1\r\n", "{text}");
        attacker.assert_left_alone(&text);
    }
}
