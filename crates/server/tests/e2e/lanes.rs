//! A request that occupies the server must not be in the way of the request that frees it.
//!
//! A looping script makes the server answer BUSY to everything but SCRIPT KILL (and, for functions,
//! FUNCTION KILL). On the connection that carries the script nothing is read by the server until it
//! ends, so a SCRIPT KILL that is queued behind it never arrives: the proxy has to send it another
//! way.
//!
//! Invariant: the script never wrote anything, so that the server may kill it.

use std::time::{Duration, Instant};

use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct};

/// BUSY is answered after 100 ms of script instead of five seconds.
const QUICKLY_BUSY: [&str; 2] = ["--busy-reply-threshold", "100"];

struct Busy {
    proxy: Option<Respool>,
    server: RedisServer,
}

impl Busy {
    /// One worker, so that all clients share its connections.
    fn start() -> Self {
        let server = RedisServer::start_with(&QUICKLY_BUSY);
        let proxy = (!direct()).then(|| {
            Respool::to(RESPOOL, server.endpoint())
                .workers(1)
                .args(&["--timeouts-request-ms", "60000"])
                .start()
        });
        Self { proxy, server }
    }

    fn connect(&self) -> testkit::Conn {
        testkit::Conn::to(self.proxy.as_ref().map_or(self.server.endpoint(), Respool::endpoint))
    }

    /// Waits until the server itself says that it is busy.
    fn wait_busy(&self) {
        let mut direct = self.server.connect();
        wait::until_true("the script to run", SOON, || direct.ask("GET k").starts_with("-BUSY"));
    }
}

#[test]
fn script_kill_overtakes_the_script() {
    let busy = Busy::start();
    let mut looping = busy.connect();
    let mut killer = busy.connect();
    // Both are known to the proxy and have used the shared connection before.
    assert_eq!(looping.ask("SET k v"), "+OK\r\n");
    assert_eq!(killer.ask("GET k"), "$1\r\nv\r\n");
    looping.send_command(&["EVAL", "while true do end", "0"]).expect("script");
    busy.wait_busy();

    let begun = Instant::now();
    killer.set_timeout(SOON);
    let reply = killer.ask("SCRIPT KILL");
    assert_eq!(reply, "+OK\r\n", "after {:?}", begun.elapsed());
    let reply = looping.reply().expect("the script's end");
    let text = String::from_utf8_lossy(&reply);
    assert!(text.contains("Script killed by user"), "{text}");
    assert_eq!(looping.ask("GET k"), "$1\r\nv\r\n");
}

#[test]
fn clients_without_a_script_are_told_that_the_server_is_busy_or_served_after_it() {
    let busy = Busy::start();
    let mut looping = busy.connect();
    let mut waiting = busy.connect();
    assert_eq!(waiting.ask("SET k v"), "+OK\r\n");
    looping.send_command(&["EVAL", "while true do end", "0"]).expect("script");
    busy.wait_busy();
    waiting.send_command(&["GET", "k"]).expect("request");

    let mut killer = busy.connect();
    wait::until_true("SCRIPT KILL to work", SOON, || killer.ask("SCRIPT KILL") == "+OK\r\n");
    assert!(looping.reply().expect("the script's end").starts_with(b"-"));
    let reply = waiting.reply().expect("the other client's reply");
    assert!(reply.starts_with(b"-BUSY") || reply == b"$1\r\nv\r\n", "{reply:?}");
    assert!(waiting.is_silent_for(Duration::from_millis(100)), "one reply, not two");
}

#[test]
fn while_somebody_elses_script_runs_clients_see_what_the_server_says() {
    let busy = Busy::start();
    assert_eq!(busy.connect().ask("SET k v"), "+OK\r\n");
    let mut looping = busy.server.connect();
    looping.send_command(&["EVAL", "while true do end", "0"]).expect("script");
    busy.wait_busy();
    for lines in [
        &["GET k", "SET k 1", "PUBLISH c m", "SUBSCRIBE c", "CONFIG GET port", "BLPOP l 1"][..],
        &["MULTI", "SET k 1", "EXEC"],
        &["MULTI", "PING", "EXEC"],
        &["MULTI", "CLIENT ID", "EXEC"],
        &["MULTI", "SUBSCRIBE c", "EXEC"],
        &["MULTI", "AUTH x", "EXEC"],
        &["MULTI", "HELLO", "DISCARD"],
        &["MULTI", "EXEC"],
        &["WATCH k", "UNWATCH", "SELECT 5"],
    ] {
        let answers = |mut conn: Conn| lines.iter().map(|line| conn.ask(line)).collect::<Vec<_>>();
        assert_eq!(answers(busy.connect()), answers(busy.server.connect()), "{lines:?}");
    }
    let mut told = busy.connect();
    assert!(told.ask("GET k").starts_with("-BUSY"));
    assert!(told.ask("PING").starts_with("-BUSY"), "though the proxy has no part in the script");
    assert_eq!(busy.connect().ask("SCRIPT KILL"), "+OK\r\n");
    assert!(looping.reply().expect("the script's end").starts_with(b"-"));
}

#[test]
fn ping_tells_clients_of_all_workers_that_the_server_is_busy() {
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(2).start();
    let busy = Busy { proxy: (!direct()).then_some(proxy), server };
    let mut conns: Vec<Conn> = (0..4).map(|_| busy.connect()).collect();
    assert_eq!(conns[0].ask("CONFIG SET busy-reply-threshold 100"), "+OK\r\n");
    let text = busy.server.connect().ask("GET k");
    assert_eq!(text, "$-1\r\n");
    let mut looping = busy.connect();
    // So that nothing but the script is new on this connection.
    assert_eq!(looping.ask("GET k"), "$-1\r\n");
    looping.send(b"GET k\r\nEVAL 'while true do end' 0\r\n").expect("script");
    busy.wait_busy();
    let text = busy.server.connect().ask("PING");
    assert!(text.starts_with("-BUSY"), "{text}");
    for conn in &mut conns {
        wait::until_true("PING to tell it", SOON, || conn.ask("PING") == text);
        assert_eq!(conn.ask("PING hello"), text);
    }
    assert_eq!(conns[0].ask("SCRIPT KILL"), "+OK\r\n");
    assert_eq!(looping.reply().expect("the null"), b"$-1\r\n");
    assert!(looping.reply().expect("the script's end").starts_with(b"-"));
    for conn in &mut conns {
        assert_eq!(conn.ask("PING"), "+PONG\r\n");
    }
}

#[test]
fn function_kill_overtakes_the_function() {
    let busy = Busy::start();
    let mut looping = busy.connect();
    let code = "#!lua name=loops\nredis.register_function('forever', \
                function() while true do end end)";
    assert_eq!(looping.command(&["FUNCTION", "LOAD", code]).expect("load"), b"$5\r\nloops\r\n");
    looping.send_command(&["FCALL", "forever", "0"]).expect("call");
    busy.wait_busy();
    let mut killer = busy.connect();
    killer.set_timeout(SOON);
    assert_eq!(killer.ask("FUNCTION KILL"), "+OK\r\n");
    assert!(looping.reply().expect("the function's end").starts_with(b"-"));
}
