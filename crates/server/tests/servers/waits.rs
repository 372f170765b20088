//! `WAIT` and `WAITAOF` through respool, beside a direct connection, while the only replica stands still.
//!
//! Invariant: respool counts no replica that a server does not count for the connection that wrote.

use std::time::Duration;

use testkit::{Conn, Endpoint, Respool, wait};

use crate::{RESPOOL, server};

/// Requests of one client, the last of which counts copies of the writes before.
const CASES: [&[&str]; 7] = [
    &["SET k 1", "WAIT 1 50"],
    &["SET k 1", "WAIT 0 50"],
    &["SET k 1", "GET k", "PING", "WAIT 1 50"],
    &["SET k 1", "WATCH k", "WAIT 1 50"],
    &["MULTI", "SET k 1", "EXEC", "WAIT 1 50"],
    &["SET k 1", "WAITAOF 0 1 50"],
    &["HELLO 3", "SET k 1", "WAIT 1 50"],
];

fn last_reply(conn: &mut Conn, lines: &[&str]) -> String {
    lines.iter().map(|line| conn.ask(line)).last().expect("a request")
}

pub(crate) fn compare(name: &str) {
    let Some(primary) = server(name, &[]) else { return };
    let Endpoint::Tcp(place) = primary.endpoint() else { panic!("{:?}", primary.endpoint()) };
    let port = place.port().to_string();
    let replica = server(name, &["--replicaof", "127.0.0.1", &port]).expect("as the primary");
    let proxy = Respool::to(RESPOOL, primary.endpoint()).workers(1).start();
    let mut direct = primary.connect();
    wait::until_true("the replica", Duration::from_secs(20), || {
        last_reply(&mut direct, &["SET k 0", "WAIT 1 500"]) == ":1\r\n"
    });
    replica.pause();
    for lines in CASES {
        let wanted = last_reply(&mut primary.connect(), lines);
        assert_eq!(last_reply(&mut proxy.connect(), lines), wanted, "{lines:?}");
    }
    replica.resume();
    assert_eq!(last_reply(&mut proxy.connect(), &["SET k 2", "WAIT 1 20000"]), ":1\r\n");
    // The command in front adds no function.
    let functions = direct.ask("FUNCTION LIST");
    assert!(functions == "*0\r\n" || functions.starts_with("-ERR unknown command"), "{functions}");
}
