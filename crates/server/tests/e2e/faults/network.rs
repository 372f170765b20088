//! Rows 18 to 20: what the network and vanishing clients do to the stream.
//!
//! Invariant: no reply is ever truncated, glued to another one, or given to somebody else.

use std::io::Write;
use std::thread;
use std::time::Duration;

use testkit::frames::{quote, request};
use testkit::relay::End;
use testkit::{Checker, Conn, RedisServer, Relay, Respool, wait};

use crate::differential;
use crate::setup::{RESPOOL, SOON, Stack, direct};

/// A server, a relay behind the proxy, and the proxy.
struct Relayed {
    proxy: Option<Respool>,
    behind: Relay,
    server: RedisServer,
}

impl Relayed {
    fn start() -> Self {
        let server = RedisServer::start();
        let behind = Relay::to(server.endpoint());
        let proxy = (!direct()).then(|| Respool::to(RESPOOL, behind.endpoint()).start());
        Self { proxy, behind, server }
    }

    fn front(&self) -> &testkit::Endpoint {
        self.proxy.as_ref().map_or(self.behind.endpoint(), Respool::endpoint)
    }
}

// Each boundary of each short frame is met, on the side of the clients and on that of the server at
// the same time.
#[test]
fn row_18_slices_of_one_to_three_bytes_change_no_byte() {
    let relayed = Relayed::start();
    let before = Relay::to(relayed.front());
    before.set(|faults| faults.slice = true);
    relayed.behind.set(|faults| faults.slice = true);
    let compared = differential::compare_collections(&relayed.server, before.endpoint());
    assert!(compared > 400, "{compared} comparisons");

    let mut checker = Checker::new(before.endpoint(), relayed.server.endpoint());
    checker.clients = 4;
    checker.value_bytes_max = 2000;
    checker.run().assert_faultless();
}

// The cuts are placed around header, content and end of short, medium and large values; large ones
// are forwarded while they arrive, so there half of the value may be with the client already.
#[test]
fn row_19_a_connection_cut_within_a_reply_gives_an_error_or_an_end_and_never_half_a_reply() {
    let relayed = Relayed::start();
    for (size, cuts) in [
        (10, &[1, 2, 3, 4, 5, 10, 15, 16][..]),
        (1_000, &[1, 6, 7, 500, 1_006, 1_007, 1_008]),
        (300_000, &[1, 8, 9, 1_000, 65_536, 150_000, 299_999, 300_009, 300_010]),
    ] {
        let value = "v".repeat(size);
        relayed.server.connect().command(&["SET", "k", &value]).expect("SET");
        let whole = format!("${size}\r\n{value}\r\n").into_bytes();
        for cut in cuts {
            for end in [End::Close, End::Reset] {
                cut_and_look(&relayed, *cut, end, &whole);
            }
        }
    }
}

/// Five requests, with the connection to the server cut after so many bytes of their replies; then
/// everything works again.
fn cut_and_look(relayed: &Relayed, cut: u64, end: End, whole: &[u8]) {
    let mut conn = Conn::to(relayed.front());
    // Each worker has its connection to the server, and the one of this client may be the one that
    // was cut last.
    wait::until_true("the connection that is to be cut", SOON, || {
        conn.command(&["EXISTS", "k"]).is_ok_and(|reply| reply == b":1\r\n")
    });
    let cuts_before = relayed.behind.cuts();
    relayed.behind.cut_after(cut, end);
    conn.send(&request(&["GET", "k"]).repeat(5)).expect("requests");
    for at in 0..5 {
        match conn.reply() {
            Ok(reply) if reply == whole => {}
            Ok(reply) if reply.starts_with(b"-") => {}
            Ok(reply) => panic!("cut {cut}, reply {at}: {}", quote(&reply, 100)),
            // The end of the connection; that bytes of a value were forwarded before it is no whole
            // reply.
            Err(error) if testkit::conn::is_gone(&error) => break,
            Err(error) => panic!("cut {cut}, reply {at}: {error}"),
        }
    }
    wait::until_true("the cut", SOON, || relayed.behind.cuts() > cuts_before);
    // The broken connection is not used again: fresh requests get the right reply, soon.
    wait::until_true("recovery", SOON, || {
        let reply = Conn::to(relayed.front()).command(&["GET", "k"]);
        match reply {
            Ok(reply) if reply == whole => true,
            Ok(reply) if reply.starts_with(b"-") => false,
            Ok(reply) => panic!("after cut {cut}: {}", quote(&reply, 100)),
            // Without a proxy this is the relay that is cut.
            Err(_) => false,
        }
    });
}

// The next user of the upstream connection must not get what was meant for one who left (the
// classic bug of connection pools).
#[test]
fn row_20_replies_of_clients_that_left_go_to_nobody() {
    let relayed = Relayed::start();
    // Replies are under way while the clients leave.
    relayed.behind.set(|faults| faults.latency = Duration::from_millis(3));
    let mut checker = Checker::new(relayed.front(), relayed.server.endpoint());
    checker.clients = 4;
    checker.duration = Duration::from_secs(4);
    let verdict = thread::scope(|scope| {
        let run = scope.spawn(|| checker.run());
        for number in 0..400 {
            leave_with_requests_in_flight(relayed.front(), number);
        }
        run.join().expect("checker")
    });
    println!("{verdict}");
    verdict.assert_faultless();
}

fn leave_with_requests_in_flight(front: &testkit::Endpoint, number: usize) {
    let mut conn = Conn::to(front);
    let payload = format!("leaver:{number}:{}", "x".repeat(number * 7 % 5000));
    let mut bytes = request(&["ECHO", &payload]).repeat(number % 20 + 1);
    bytes.extend(request(&["SET", &format!("leaver:{number}"), &payload]));
    // Every third leaves in the middle of a request, so that a half request must not reach the
    // shared connection.
    if number.is_multiple_of(3) {
        bytes.extend(b"*2\r\n$4\r\nECHO\r\n$1000\r\nhalf");
    }
    conn.send(&bytes).expect("requests");
    if number.is_multiple_of(4) {
        let reply = conn.reply().expect("the first reply");
        assert!(reply.ends_with(format!("{payload}\r\n").as_bytes()), "{}", quote(&reply, 80));
    }
    // Dropped with replies unread: the kernel sends a reset. Every fifth says goodbye in order
    // first.
    if number.is_multiple_of(5) {
        let _ = conn.half_close();
        let _ = conn.stream().flush();
    }
}

// Forwarding a request that never completes would make the next request of somebody else a part of
// its value.
#[test]
fn half_a_request_never_reaches_the_server() {
    let stack = Stack::start();
    for _ in 0..20 {
        let mut conn = stack.connect();
        assert_eq!(conn.ask("PING"), "+PONG\r\n");
        conn.send(b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$100\r\nonly a part").expect("half a request");
        drop(conn);
    }
    let mut conn = stack.connect();
    assert_eq!(conn.ask("SET whole v"), "+OK\r\n");
    assert_eq!(conn.ask("GET whole"), "$1\r\nv\r\n");
    assert_eq!(stack.server.connect().ask("EXISTS half"), ":0\r\n");
}
