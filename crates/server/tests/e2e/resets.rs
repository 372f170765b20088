//! Clients that end with a reset (RST) at any byte and in any state: row 20 of the fault matrix.
//!
//! Invariant: what was for such a client is given to nobody else, and nothing of it is left at the server.

use std::net::TcpListener;
use std::thread;

use testkit::listen::frame;
use testkit::{Conn, Endpoint, Respool, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct, info_field};

/// What a client says before it goes, cut at every byte in its turn.
const PIPELINES: &[&str] = &[
    "GET mine\r\nSET other x\r\nGET mine\r\nMGET mine other\r\n",
    "*2\r\n$3\r\nGET\r\n$4\r\nmine\r\n*3\r\n$3\r\nSET\r\n$5\r\nother\r\n$3\r\nabc\r\n",
    "MULTI\r\nINCR half\r\nINCR half\r\nEXEC\r\nGET mine\r\n",
    "WATCH mine\r\nMULTI\r\nINCR half\r\nINCR half\r\nEXEC\r\n",
    "GET mine\r\nBLPOP list 0\r\nGET mine\r\n",
    "CLIENT REPLY SKIP\r\nGET mine\r\nWAIT 5 0\r\n",
    "HELLO 3\r\nSELECT 5\r\nGET mine\r\nMONITOR\r\nPING\r\n",
    "SUBSCRIBE news talk\r\nPING\r\nUNSUBSCRIBE news\r\n",
    "PSUBSCRIBE n* t*\r\nSSUBSCRIBE shard\r\nPUNSUBSCRIBE n*\r\nSUNSUBSCRIBE\r\n",
    "HELLO 3\r\nSUBSCRIBE news\r\nPUBLISH news x\r\nGET mine\r\nUNSUBSCRIBE\r\n",
    "HELLO 3\r\nCLIENT TRACKING ON\r\nGET mine\r\nSET mine theirs\r\n",
    "HELLO 3\r\nCLIENT TRACKING ON NOLOOP\r\nGET mine\r\nMULTI\r\nINCR half\r\nINCR half\r\nEXEC\r\n",
    "HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX mi\r\nSUBSCRIBE news\r\nGET mine\r\n",
];

/// Nothing of a client is left: nobody waits or listens, no transaction is open.
#[track_caller]
fn assert_nothing_left(stack: &Stack) {
    let mut server = stack.server.connect();
    wait::until_true("nothing left at the server", SOON, || {
        let clients = server.ask("CLIENT LIST");
        let mut clients = clients.lines().filter(|line| line.starts_with("id="));
        info_field(&mut server, "clients", "blocked_clients").as_deref() == Some("0")
            && clients.all(|line| line.contains(" multi=-1 "))
            && server.ask("CLIENT LIST TYPE pubsub").lines().all(|line| !line.starts_with("id="))
            && server.ask("PUBSUB NUMSUB news talk") == frame('*', &["news", ":0", "talk", ":0"])
            && server.ask("PUBSUB SHARDNUMSUB shard") == frame('*', &["shard", ":0"])
            && server.ask("PUBSUB NUMPAT") == ":0\r\n"
    });
}

#[test]
fn a_reset_at_any_byte_gives_nothing_to_anybody_else() {
    let mut stack = Stack::start();
    let mut steady: Vec<Conn> = (0..4).map(|_| stack.connect()).collect();
    assert_eq!(steady[0].ask("SET mine theirs"), "+OK\r\n");
    let mut resets = 0;
    for pipeline in PIPELINES {
        for end in 1..=pipeline.len() {
            let mut conn = stack.connect();
            conn.send(&pipeline.as_bytes()[..end]).expect("sent");
            // Each second one has some replies on their way already.
            if end % 2 == 0 {
                let other = &mut steady[end % 4];
                assert_eq!(
                    other.ask(&format!("ECHO {end}")).lines().nth(1),
                    Some(&*end.to_string())
                );
            }
            conn.reset();
            resets += 1;
            // Own keys: a reply that was for the one that went would be seen.
            for (name, other) in steady.iter_mut().enumerate() {
                assert_eq!(other.ask(&format!("SET own:{name} {resets}")), "+OK\r\n");
                let length = resets.to_string().len();
                let expected = format!("${length}\r\n{resets}\r\n");
                assert_eq!(other.ask(&format!("GET own:{name}")), expected);
            }
        }
    }
    assert!(resets > 300, "{resets}");
    assert_nothing_left(&stack);
    // A transaction happened whole or not at all.
    let half = steady[0].ask("GET half");
    let half: u64 = half.lines().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    assert_eq!(half % 2, 0, "half a transaction");
    // No element goes to one that is not there.
    assert_eq!(steady[0].ask("RPUSH list x"), ":1\r\n");
    assert_eq!(steady[0].ask("BLPOP list 1"), "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    stack.assert_alive();
}

#[test]
fn a_reset_in_the_middle_of_a_large_value_leaves_no_half_of_it() {
    let mut stack = Stack::start();
    let mut steady = stack.connect();
    let size = 3 << 20;
    let head = format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${size}\r\n");
    for part in [0, 1, 100_000, 300_000, 1 << 20, size - 1, size, size + 1] {
        let mut conn = stack.connect();
        conn.send(head.as_bytes()).expect("sent");
        conn.send(&vec![b'x'; part]).expect("sent");
        conn.reset();
        assert_eq!(steady.ask("PING"), "+PONG\r\n");
        assert_eq!(steady.ask("EXISTS big"), ":0\r\n", "{part} of {size} bytes");
    }
    // And of a large reply.
    assert_eq!(steady.command(&["SET", "big", &"y".repeat(size)]).expect("SET"), b"+OK\r\n");
    for _ in 0..20 {
        let mut conn = stack.connect();
        conn.send(b"GET big\r\nGET big\r\nGET big\r\n").expect("sent");
        assert_eq!(steady.ask("ECHO x"), "$1\r\nx\r\n");
        conn.reset();
        assert_eq!(steady.ask("STRLEN big"), format!(":{size}\r\n"));
    }
    assert_nothing_left(&stack);
    stack.assert_alive();
}

// The server refuses the value by its announced length, and closes, while the client is still sending.
#[test]
fn a_server_that_refuses_in_the_middle_of_a_large_value_costs_its_client_one_error() {
    let mut stack = Stack::start();
    let limit = "CONFIG SET proto-max-bulk-len 1048576";
    assert_eq!(stack.server.connect().ask(limit), "+OK\r\n");
    let size = 3 << 20;
    for _ in 0..20 {
        let (mut conn, mut steady) = (stack.connect(), stack.connect());
        assert_eq!(steady.ask("SET k v"), "+OK\r\n");
        let head = format!("GET k\r\n*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${size}\r\n");
        conn.send(head.as_bytes()).expect("sent");
        assert_eq!(conn.reply().expect("what came before"), b"$1\r\nv\r\n");
        let rest = conn.send(&vec![b'x'; size]).and_then(|()| conn.send(b"\r\nGET k\r\n"));
        if !direct() {
            // The server closes; through the proxy the client goes on.
            rest.expect("the rest");
            let reply = conn.reply().expect("an error");
            assert!(reply.starts_with(b"-ERR "), "{}", String::from_utf8_lossy(&reply));
            assert_eq!(conn.reply().expect("what comes behind"), b"$1\r\nv\r\n");
        }
        assert_eq!(steady.ask("GET k"), "$1\r\nv\r\n");
        assert_eq!(steady.ask("EXISTS big"), ":0\r\n");
    }
    assert_nothing_left(&stack);
    stack.assert_alive();
}

#[test]
fn an_error_comes_before_the_rest_of_a_large_value() {
    let stack = Stack::start();
    let mut conn = stack.connect();
    assert_eq!(conn.ask("RPUSH list x"), ":1\r\n");
    let size = 2 << 20;
    // The server refuses it only when it is whole; what follows keeps its place.
    conn.send(format!("*3\r\n$6\r\nAPPEND\r\n$4\r\nlist\r\n${size}\r\n").as_bytes()).expect("sent");
    conn.send(&vec![b'x'; size]).expect("sent");
    conn.send(b"\r\nPING\r\n").expect("sent");
    assert!(conn.reply().expect("a reply").starts_with(b"-WRONGTYPE "));
    assert_eq!(conn.reply().expect("a reply"), b"+PONG\r\n");
    if direct() {
        return;
    }
    // What the proxy refuses it refuses at once, while the value is still on its way.
    conn.send(format!("*3\r\n$5\r\nDEBUG\r\n$4\r\nlist\r\n${size}\r\n").as_bytes()).expect("sent");
    conn.send(&vec![b'x'; size / 2]).expect("sent");
    assert!(conn.reply().expect("a reply").starts_with(b"-ERR respool: 'debug' is not given on"));
    conn.send(&vec![b'x'; size - size / 2]).expect("sent");
    conn.send(b"\r\nPING\r\n").expect("sent");
    assert_eq!(conn.reply().expect("a reply"), b"+PONG\r\n");
}

/// A server that takes connections and resets each of them when the first byte of the greeting is there.
fn resetting_server() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for conn in listener.incoming().flatten() {
            // What is not read turns the close into a reset.
            let _ = conn.peek(&mut [0]);
        }
    });
    Endpoint::Tcp(address)
}

// Nothing of a request was written, so its client must not think that it may have been executed.
#[test]
fn a_server_that_resets_before_its_greeting_was_sent_no_request() {
    let proxy = Respool::to(RESPOOL, &resetting_server()).start();
    let mut clients: Vec<Conn> = (0..4).map(|_| proxy.connect()).collect();
    for round in 0..50 {
        for conn in &mut clients {
            let got = conn.ask(&format!("SET k {round}"));
            let cause = got.split_once(": ").and_then(|(_, rest)| rest.split_once(": "));
            let cause = cause.map_or("", |(_, cause)| cause);
            let begins = ["the greeting failed: ", "connect: "];
            assert!(begins.iter().any(|begin| cause.starts_with(begin)), "{got}");
        }
    }
}
