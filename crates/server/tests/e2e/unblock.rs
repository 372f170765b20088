//! CLIENT UNBLOCK and CLIENT KILL of clients that wait at the server, beside the same on a direct connection.
//!
//! Invariant: an element that was pushed is either given to a client or still in the list.

use std::time::Duration;

use testkit::{Conn, wait};

use crate::setup::{RESPOOL, SOON, Stack, info_field};

/// The client's number.
fn number(conn: &mut Conn) -> u64 {
    let reply = conn.ask("CLIENT ID");
    reply.trim_start_matches(':').trim_end().parse().expect("a number")
}

#[track_caller]
fn assert_blocked(stack: &Stack, count: usize) {
    let mut server = stack.server.connect();
    wait::until_true("so many clients that wait", SOON, || {
        info_field(&mut server, "clients", "blocked_clients") == Some(count.to_string())
    });
}

/// What a client gets whose wait is ended like this, and what the one gets that ends it.
fn ended(stack: &Stack, through: bool, hello: &str, line: &str, how: &str) -> (String, String) {
    let connect = || if through { stack.connect() } else { stack.server.connect() };
    let (mut waiter, mut other) = (connect(), connect());
    waiter.ask(hello);
    let id = number(&mut waiter);
    waiter.send(format!("{line}\r\n").as_bytes()).expect("sent");
    assert_blocked(stack, 1);
    let answer = other.ask(&format!("CLIENT UNBLOCK {id}{how}"));
    let got = String::from_utf8_lossy(&waiter.reply().expect("a reply")).into_owned();
    assert_eq!(waiter.ask("ECHO on"), "$2\r\non\r\n");
    assert_eq!(other.ask(&format!("CLIENT UNBLOCK {id}{how}")), ":0\r\n");
    (answer, got)
}

#[test]
fn a_wait_ends_as_at_the_server() {
    let stack = Stack::start();
    let lines = [
        "BLPOP l 0",
        "BRPOPLPUSH l m 0",
        "BLMPOP 0 1 l LEFT",
        "BZPOPMIN z 0",
        "XREAD BLOCK 0 STREAMS s $",
        "WAIT 3 0",
    ];
    // Clients are spread over the two workers, so the asker's worker is often not the waiter's.
    for (line, hello) in lines.iter().flat_map(|line| [(line, "HELLO 2"), (line, "HELLO 3")]) {
        for how in ["", " TIMEOUT", " ERROR"] {
            let direct = ended(&stack, false, hello, line, how);
            assert_eq!(ended(&stack, true, hello, line, how), direct, "{hello} {line}{how}");
            assert_eq!(direct.0, ":1\r\n");
        }
    }
}

#[test]
fn nothing_is_lost_when_a_push_and_an_unblock_meet() {
    let stack = Stack::start();
    let (mut waiter, mut ender, mut pusher) = (stack.connect(), stack.connect(), stack.connect());
    let id = number(&mut waiter);
    let (mut given, mut ended) = (0, 0);
    for round in 0..200 {
        waiter.send(b"BLPOP l 0\r\n").expect("sent");
        if round % 4 > 0 {
            assert_blocked(&stack, 1);
        }
        pusher.send(format!("RPUSH l {round}\r\n").as_bytes()).expect("sent");
        ender.send(format!("CLIENT UNBLOCK {id}\r\n").as_bytes()).expect("sent");
        let got = String::from_utf8_lossy(&waiter.reply().expect("a reply")).into_owned();
        let unblocked = ender.reply().expect("a reply");
        pusher.reply().expect("a reply");
        let left = stack.server.connect().ask("LRANGE l 0 -1");
        if got == "*-1\r\n" {
            assert_eq!(unblocked, b":1\r\n", "round {round}");
            assert!(left.starts_with("*1\r\n"), "round {round}: {left}");
            assert_eq!(pusher.ask("DEL l"), ":1\r\n");
            ended += 1;
        } else {
            assert!(got.contains(&format!("\r\n{round}\r\n")), "round {round}: {got}");
            assert_eq!((unblocked.as_slice(), left.as_str()), (&b":0\r\n"[..], "*0\r\n"));
            given += 1;
        }
    }
    println!("{given} given, {ended} ended");
}

#[test]
fn a_killed_client_waits_for_nothing_any_more() {
    let stack = Stack::start();
    let mut other = stack.connect();
    for line in ["BLPOP l 0", "BZPOPMAX z 0", "XREAD BLOCK 0 STREAMS s $", "WAIT 3 0"] {
        let mut waiter = stack.connect();
        let id = number(&mut waiter);
        waiter.send(format!("{line}\r\n").as_bytes()).expect("sent");
        assert_blocked(&stack, 1);
        let flags = other.ask(&format!("CLIENT LIST ID {id}"));
        assert!(flags.contains(" flags=b "), "{flags}");
        assert_eq!(other.ask(&format!("CLIENT KILL ID {id}")), ":1\r\n");
        assert!(waiter.read_to_close().expect("closed").is_empty());
        assert_blocked(&stack, 0);
    }
    assert_eq!(other.ask("RPUSH l x"), ":1\r\n");
    assert_eq!(other.ask("LRANGE l 0 -1"), "*1\r\n$1\r\nx\r\n");
    assert!(other.is_silent_for(Duration::from_millis(20)));
}

// Redis' documentation of CLIENT ID promises it, and jedis believes it.
#[test]
fn who_comes_later_has_a_greater_number_at_whatever_worker() {
    let server = testkit::RedisServer::start();
    let proxy = testkit::Respool::to(RESPOOL, server.endpoint()).workers(4).start();
    let mut conns: Vec<Conn> = Vec::new();
    let mut last = 0;
    for _ in 0..40 {
        let mut conn = proxy.connect();
        let id = number(&mut conn);
        assert!(id > last, "{id} behind {last}");
        last = id;
        conns.push(conn);
    }
}
