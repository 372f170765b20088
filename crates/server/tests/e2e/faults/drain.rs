//! Row 28: the proxy's own end and its next beginning.
//!
//! Nothing of this needs a proxy in the way of itself: the tests do nothing in the direct mode.
//!
//! Invariant: a request that was received before SIGTERM is answered, unless the grace time ends
//! first.

use std::thread;
use std::time::{Duration, Instant};

use testkit::frames::request;
use testkit::{Checker, Conn, RedisServer, Relay, Respool};

use crate::setup::{RESPOOL, SOON, direct};

/// A relay that holds everything back, so that requests are in flight for as long as a test wants.
fn held_up(args: &[&str]) -> (RedisServer, Relay, Respool) {
    let server = RedisServer::start();
    let relay = Relay::to(server.endpoint());
    let proxy = Respool::to(RESPOOL, relay.endpoint()).args(args).start();
    // The upstream connections exist before the hole does.
    for _ in 0..8 {
        assert_eq!(proxy.connect().ask("SET k v"), "+OK\r\n");
    }
    relay.set(|faults| faults.blackhole = true);
    (server, relay, proxy)
}

/// Sends a pipeline and waits until the proxy has surely taken it in.
fn ask_without_reading(proxy: &Respool, count: usize) -> Conn {
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("PING"), "+PONG\r\n", "answered by the proxy itself");
    conn.send(&request(&["INCR", "n"]).repeat(count)).expect("requests");
    conn
}

// The hole behind the proxy makes "in flight" a state that lasts, so that the signal surely comes
// within it.
#[test]
fn row_28_requests_received_before_sigterm_are_answered() {
    if direct() {
        return;
    }
    let (_server, relay, mut proxy) = held_up(&[]);
    let mut conns: Vec<Conn> = (0..6).map(|_| ask_without_reading(&proxy, 20)).collect();
    thread::sleep(Duration::from_millis(300));
    proxy.signal_terminate();
    // It waits for what is in flight, and takes nobody new.
    assert!(proxy.wait_exit(Duration::from_millis(500)).is_none(), "ended with requests in flight");
    let refused = Conn::open(proxy.endpoint()).and_then(|mut conn| conn.command(&["PING"]));
    assert!(refused.is_err(), "a new client was served while draining");

    relay.set(|faults| faults.blackhole = false);
    let mut numbers = Vec::new();
    for conn in &mut conns {
        for _ in 0..20 {
            let reply = conn.reply().expect("a reply to a request received before the signal");
            numbers.push(String::from_utf8_lossy(&reply[1..]).trim_end().parse::<u32>());
        }
        assert_eq!(conn.read_to_close().expect("closed after the last reply"), b"");
    }
    let mut numbers: Vec<u32> = numbers.into_iter().map(|n| n.expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=120).collect::<Vec<_>>(), "each request executed once");
    let status = proxy.wait_exit(SOON).expect("the proxy ends when all is answered");
    assert!(status.success(), "{status}");
}

// A server that never answers must not keep the proxy from ending: an orchestrator would send
// SIGKILL.
#[test]
fn row_28_the_grace_time_is_an_end() {
    if direct() {
        return;
    }
    let (_server, _relay, mut proxy) = held_up(&["--timeouts-drain-ms", "500"]);
    let mut conn = ask_without_reading(&proxy, 5);
    thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    proxy.terminate(SOON).expect("the proxy ends although a request is in flight");
    assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    // Errors or nothing, but an end.
    conn.read_to_close().expect("closed");
}

// The person at the terminal who presses Ctrl-C again means it.
#[test]
fn row_28_a_second_signal_ends_at_once() {
    if direct() {
        return;
    }
    let (_server, _relay, mut proxy) = held_up(&["--timeouts-drain-ms", "600000"]);
    let _conn = ask_without_reading(&proxy, 5);
    thread::sleep(Duration::from_millis(100));
    assert!(proxy.terminate(Duration::from_millis(500)).is_none(), "it drains");
    assert!(proxy.terminate(SOON).is_some(), "it does not obey the second signal");
}

// Pools keep idle connections open for ever; waiting for them would always use up the grace time.
#[test]
fn row_28_idle_clients_do_not_delay_the_end() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let mut proxy =
        Respool::to(RESPOOL, server.endpoint()).args(&["--timeouts-drain-ms", "600000"]).start();
    let mut idle: Vec<Conn> = (0..20).map(|_| proxy.connect()).collect();
    idle.iter_mut().for_each(|conn| assert_eq!(conn.ask("PING"), "+PONG\r\n"));
    let status = proxy.terminate(SOON).expect("ends without waiting for idle clients");
    assert!(status.success(), "{status}");
    for conn in &mut idle {
        assert_eq!(conn.read_to_close().expect("closed"), b"");
    }
}

// Two drains and a kill, twice. A killed proxy may leave writes unknown, a drained one owes every
// reply.
#[test]
fn row_28_restarts_under_load_lose_nothing() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let start = |at: Option<&testkit::Endpoint>| {
        let builder = Respool::to(RESPOOL, server.endpoint());
        match at {
            Some(endpoint) => builder.listen_at(endpoint).start(),
            None => builder.start(),
        }
    };
    let mut proxy = start(None);
    let front = proxy.endpoint().clone();
    let mut checker = Checker::new(&front, server.endpoint());
    checker.duration = Duration::from_secs(6);
    let verdict = thread::scope(|scope| {
        let run = scope.spawn(|| checker.run());
        for round in 0..6 {
            thread::sleep(Duration::from_millis(500));
            if round % 3 == 2 {
                // SIGKILL. The kernel closes the sockets; nothing is answered any more.
                proxy.kill();
            } else {
                let status = proxy.terminate(SOON).expect("drained");
                assert!(status.success(), "{status}");
            }
            let begun = Instant::now();
            proxy = start(Some(&front));
            println!("serves {:?} after its start", begun.elapsed());
        }
        run.join().expect("checker")
    });
    println!("{verdict}");
    verdict.assert_clean();
    assert!(verdict.closed > 0, "no restart was felt: {verdict}");
    assert_eq!(verdict.errors, 0, "a drain gives no errors: {verdict}");
    proxy.assert_alive();
}
