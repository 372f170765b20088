//! Commands that would turn their connection into something else, and commands that are refused: one
//! clear error, an open connection.
//!
//! A proxy that let one of them through on a shared connection would do harm to everybody else on
//! it, so each is tried. DEBUG and SHUTDOWN stay refused.
//!
//! Invariant: what is refused here never reaches the server.

use crate::setup::{Stack, direct};

/// One form of each command that a client could send.
const NEED_THEIR_OWN: &[&str] =
    &["MONITOR", "CLIENT TRACKING ON", "SYNC", "PSYNC ? -1", "SCRIPT DEBUG YES"];

const REFUSED: &[&str] = &["SHUTDOWN NOSAVE", "DEBUG SLEEP 100", "DEBUG SEGFAULT"];

#[test]
fn each_answers_one_error_and_the_connection_goes_on() {
    if direct() {
        return;
    }
    let mut stack = Stack::start();
    for hello in ["HELLO 2", "HELLO 3"] {
        let mut conn = stack.connect();
        conn.ask(hello);
        for words in NEED_THEIR_OWN.iter().chain(REFUSED) {
            let error = conn.ask(words);
            assert!(error.starts_with("-ERR") && error.len() > 20, "{words}: {error}");
            assert_eq!(conn.ask("ECHO on"), "$2\r\non\r\n", "after {words}");
        }
        assert!(conn.surplus().is_empty());
    }
    // Nobody listens to the server.
    let clients = stack.server.connect().ask("CLIENT LIST");
    for client in clients.lines().filter(|line| line.starts_with("id=")) {
        assert!(client.contains(" multi=-1 ") && client.contains(" sub=0 "), "{client}");
    }
    stack.assert_alive();
}

#[test]
fn in_a_pipeline_their_errors_come_in_their_places() {
    if direct() {
        return;
    }
    let stack = Stack::start();
    let mut conn = stack.connect();
    let input = b"SET k 1\r\nMONITOR\r\nINCR k\r\nSYNC\r\nGET k\r\nPSYNC ? -1\r\nPING\r\n";
    conn.send(input).expect("pipeline");
    let replies: Vec<String> = (0..7)
        .map(|_| String::from_utf8_lossy(&conn.reply().expect("reply")).into_owned())
        .collect();
    let errors: Vec<bool> = replies.iter().map(|reply| reply.starts_with('-')).collect();
    assert_eq!(errors, [false, true, false, true, false, true, false], "{replies:?}");
    assert_eq!([&*replies[0], &*replies[2], &*replies[4]], ["+OK\r\n", ":2\r\n", "$1\r\n2\r\n"]);
    assert_eq!(replies[6], "+PONG\r\n");
}
