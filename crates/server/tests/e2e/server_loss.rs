//! A server that is lost, as clients see it by default: their connections end, as they would without a proxy between.
//!
//! Each test passes against a server directly, too: what it says of the connection is what libraries build on.

use std::time::Duration;

use testkit::Conn;
use testkit::conn::is_gone;
use testkit::wait;

use crate::setup::{SOON, Stack};

/// Whether a connection ends within the time, without another byte.
fn ends(conn: &mut Conn) -> bool {
    conn.set_timeout(SOON);
    match conn.read_to_close() {
        Ok(bytes) => bytes.is_empty(),
        Err(error) => is_gone(&error),
    }
}

fn start() -> Stack {
    Stack::with(&["--on-upstream-loss", "close"])
}

#[test]
fn whoever_waits_for_the_server_is_closed_when_it_goes() {
    let mut stack = start();
    let (mut waits, mut watches, mut queues) = (stack.connect(), stack.connect(), stack.connect());
    waits.send(b"BRPOP nothing 0\r\n").expect("sent");
    assert_eq!(watches.ask("WATCH k"), "+OK\r\n");
    assert_eq!(queues.ask("MULTI") + &queues.ask("SET k 1"), "+OK\r\n+QUEUED\r\n");
    let mut control = stack.server.connect();
    wait::until_true("the wait", SOON, || {
        control.ask("INFO clients").contains("blocked_clients:1")
    });
    stack.server.kill();
    for conn in [&mut waits, &mut watches, &mut queues] {
        assert!(ends(conn));
    }
    stack.assert_alive();
}

#[test]
fn while_it_is_away_each_request_ends_its_connection_and_then_it_is_used_again() {
    let mut stack = start();
    assert_eq!(stack.connect().ask("SET k v"), "+OK\r\n");
    stack.server.kill();
    // What a library does that retries after a lost connection, as long as somebody listens.
    if stack.proxy.is_some() {
        for _ in 0..5 {
            let mut conn = stack.connect();
            conn.send(b"GET k\r\n").expect("sent");
            assert!(ends(&mut conn));
        }
    }
    stack.server.restart();
    wait::until_true("the server's replies", SOON, || {
        let mut conn = stack.connect();
        conn.set_timeout(Duration::from_secs(1));
        conn.command(&["GET", "k"]).is_ok_and(|reply| reply == b"$-1\r\n")
    });
    stack.assert_alive();
}

#[test]
fn what_was_answered_before_arrives_first() {
    let mut stack = start();
    let mut conn = stack.connect();
    conn.send(b"SET k v\r\nGET k\r\nBRPOP nothing 0\r\nGET k\r\n").expect("sent");
    assert_eq!(conn.reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(conn.reply().expect("a reply"), b"$1\r\nv\r\n");
    stack.server.kill();
    assert!(ends(&mut conn));
    stack.assert_alive();
}
