//! Clients that are connected and ask nothing, which is what most clients of a proxy do.
//!
//! What such a client asked before must not be seen in the proxy's memory: buffers go back when their bytes are gone. So each here is given a value that
//! needs a large buffer, and a pipeline, before it falls silent.
//!
//! Invariant: the memory of the process, not what the proxy says of itself, is what is judged.

use testkit::Conn;
use testkit::frames::request;
use testkit::process::raise_fd_limit;
use testkit::wait::until_true;

use crate::setup::{SOON, Stack, direct};

/// So many idle clients at most.
const CLIENTS: usize = 2_000;
/// Resident memory of the process for each of them.
const CLIENT_BYTES_MAX: u64 = 4 * 1024;
/// Clients before the first look: with them the process has what it needs once, such as its code and its spare buffers.
const FIRST_CLIENTS: usize = 100;
/// More than a pooled buffer holds, and passed on in pieces by a reader that gets 64 KiB at once.
const VALUE_BYTES: usize = 200 * 1024;

/// A client that has had large and many replies.
fn used(stack: &Stack, value: &str) -> Conn {
    let mut conn = stack.connect();
    assert_eq!(conn.ask(&format!("SET idle:large {value}")), "+OK\r\n");
    let reply = conn.ask("GET idle:large");
    assert!(reply.starts_with("$204800\r\nx") && reply.len() == value.len() + 11);
    let get = request(&["GET", "idle:none"]);
    let replies = conn.pipeline(&vec![get; 20]).expect("replies");
    assert!(replies.iter().all(|reply| reply == b"$-1\r\n"), "{replies:?}");
    conn
}

#[track_caller]
fn an_idle_client_takes_little(driver: &str) {
    if direct() {
        return;
    }
    let clients = CLIENTS.min(raise_fd_limit() as usize / 2);
    let mut stack = Stack::with(&["--driver", driver]);
    let value = "x".repeat(VALUE_BYTES);
    let mut idle: Vec<Conn> = (0..FIRST_CLIENTS).map(|_| used(&stack, &value)).collect();
    let before = stack.rss_bytes();
    idle.extend((0..clients).map(|_| used(&stack, &value)));
    let bound = before + clients as u64 * CLIENT_BYTES_MAX;
    // The last buffer goes back at the end of a turn, of which its client knows nothing.
    until_true("the memory of idle clients to be little", SOON, || stack.rss_bytes() <= bound);
    // They are still there.
    for conn in [0, FIRST_CLIENTS, clients] {
        assert_eq!(idle[conn].ask("PING"), "+PONG\r\n");
    }
    stack.assert_alive();
}

#[test]
fn an_idle_client_takes_little_memory_with_epoll() {
    an_idle_client_takes_little("epoll");
}

// Where io_uring is forbidden the proxy goes on with epoll.
#[test]
fn an_idle_client_takes_little_memory_with_io_uring() {
    an_idle_client_takes_little("uring");
}
