//! MONITOR and SLOWLOG of the proxy, over several workers, beside those of a server.
//!
//! Invariant: what a monitor is shown of a client is in the order in which that client asked.

use std::time::Duration;

use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct};

/// The next line that a monitor is shown, without its time and address.
fn shown(monitor: &mut Conn) -> String {
    let line = String::from_utf8_lossy(&monitor.reply().expect("a line")).into_owned();
    let (head, rest) = line.trim_end().split_once("] ").expect("time and address");
    let (time, origin) = head.split_once(" [").expect("time and address");
    let seconds: f64 = time.trim_start_matches('+').parse().expect("seconds");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    assert!((now.as_secs_f64() - seconds).abs() < 60.0, "{line}");
    let (db, address) = origin.split_once(' ').expect("database and address");
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    format!("{db} {rest}")
}

const LINES: &[&str] = &[
    "SET k \"a b\"",
    "get k",
    "SELECT 3",
    "MULTI",
    "INCR n",
    "CLIENT ID",
    "SELECT 4",
    "GET k",
    "AUTH default secret",
    "EXEC",
    "MULTI",
    "GET k",
    "DISCARD",
    "MULTI",
    "GET k",
    "GET",
    "EXEC",
    "MULTI",
    "GET k",
    "EXEC x",
    "AUTH default secret",
    "HELLO 3 AUTH default secret",
    "EVAL return(1) 0",
    "CLIENT SETNAME me",
    "CONFIG GET port",
    "GET",
    "BLPOP empty 0.01",
    "WATCH k",
    "RESET",
    "ECHO last",
];

#[test]
fn a_monitor_is_shown_what_a_server_would_show_it() {
    let stack = Stack::start();
    let lines_of = |connect: &dyn Fn() -> Conn| {
        let (mut monitor, mut client) = (connect(), connect());
        assert_eq!(monitor.ask("MONITOR"), "+OK\r\n");
        LINES.iter().for_each(|line| drop(client.ask(line)));
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.ends_with("\"last\"")) {
            let line = shown(&mut monitor);
            // The proxy's own requests at the server.
            if !line.contains("\"PING\"") {
                lines.push(line);
            }
        }
        lines
    };
    let direct = {
        let server = RedisServer::start();
        lines_of(&|| server.connect())
    };
    for _ in 0..4 {
        assert_eq!(lines_of(&|| stack.connect()), direct);
    }
}

#[test]
fn a_transaction_is_shown_when_it_is_done() {
    // A server of its own for each: a monitor of the server sees the proxy's requests too.
    let (server, behind) = (RedisServer::start(), RedisServer::start());
    let proxy = Respool::to(RESPOOL, behind.endpoint()).workers(1).start();
    let order_of = |connect: &dyn Fn() -> Conn| {
        let (mut monitor, mut one, mut other) = (connect(), connect(), connect());
        assert_eq!(monitor.ask("MONITOR"), "+OK\r\n");
        for (conn, line) in [
            (0, "MULTI"),
            (0, "SET k 1"),
            (1, "GET other"),
            (0, "GET k"),
            (1, "GET other"),
            (0, "EXEC"),
            (1, "ECHO last"),
        ] {
            drop([&mut one, &mut other][conn].ask(line));
        }
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.ends_with("\"last\"")) {
            lines.push(shown(&mut monitor));
        }
        lines
    };
    let direct = order_of(&|| server.connect());
    assert_eq!(order_of(&|| proxy.connect()), direct);
}

#[test]
fn every_worker_shows_what_its_clients_ask_in_their_order() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(3).start();
    let mut monitor = proxy.connect();
    assert_eq!(monitor.ask("MONITOR MATCH n:*"), "+OK\r\n");
    let mut clients: Vec<Conn> = (0..12).map(|_| proxy.connect()).collect();
    for (name, conn) in clients.iter_mut().enumerate() {
        let pipeline: String = (0..200).map(|n| format!("SET n:{name} {n}\r\nPING\r\n")).collect();
        conn.send(pipeline.as_bytes()).expect("sent");
    }
    let mut next = [0; 12];
    for _ in 0..12 * 200 {
        let line = shown(&mut monitor);
        let words: Vec<&str> = line.split('"').collect();
        let name: usize = words[3].trim_start_matches("n:").parse().expect("a client");
        assert_eq!(words[5], next[name].to_string(), "{line}");
        next[name] += 1;
    }
    clients.iter_mut().for_each(|conn| (0..400).for_each(|_| drop(conn.reply().expect("a reply"))));
    drop(monitor);
    // With nobody watching all goes the short way again, and a new one sees nothing old.
    let mut again = proxy.connect();
    assert_eq!(again.ask("MONITOR CLIENT 99999"), "+OK\r\n");
    clients.iter_mut().for_each(|conn| assert_eq!(conn.ask("PING"), "+PONG\r\n"));
    assert!(again.is_silent_for(Duration::from_millis(50)));
}

#[test]
fn a_monitor_that_reads_nothing_is_closed_and_slows_nobody() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let args = ["--limits-client-out-max-bytes", "1MiB"];
    let mut proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).workers(2).start();
    let mut deaf = proxy.connect();
    assert_eq!(deaf.ask("MONITOR"), "+OK\r\n");
    let id = deaf_id(&mut proxy.connect());
    let mut clients = [proxy.connect(), proxy.connect()];
    let request = format!("ECHO {}", "x".repeat(60_000));
    wait::until_true("the monitor to be closed", SOON, || {
        for conn in &mut clients {
            for _ in 0..20 {
                assert_eq!(conn.ask(&request).len(), 60_010);
            }
        }
        !clients[0].ask(&format!("CLIENT LIST ID {id}")).contains("flags=O")
    });
    proxy.assert_alive();
}

/// The number of the only monitor.
fn deaf_id(conn: &mut Conn) -> String {
    let list = conn.ask("CLIENT LIST");
    let line = list.lines().find(|line| line.contains(" flags=O ")).expect("a monitor");
    let id = line.split(' ').next().and_then(|field| field.split_once("id="));
    id.map(|(_, id)| id.to_owned()).expect("an id")
}

#[test]
fn the_slow_log_of_all_workers_shows_what_took_long() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let args = ["--slowlog-slower-than-us", "100000", "--slowlog-max-len", "3"];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).workers(2).start();
    let mut direct = server.connect();
    for round in 0..5 {
        let mut conn = proxy.connect();
        conn.ask(&format!("CLIENT SETNAME c{round}"));
        assert_eq!(conn.ask("SET quick 1"), "+OK\r\n");
        // The server lets the request wait.
        assert_eq!(direct.ask("CLIENT PAUSE 200"), "+OK\r\n");
        assert_eq!(conn.ask(&format!("GET slow:{round}")), "$-1\r\n");
    }
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SLOWLOG LEN"), ":3\r\n");
    let log = conn.ask("SLOWLOG GET");
    let places: Vec<_> = (0..5).map(|round| log.find(&format!("slow:{round}"))).collect();
    assert!(places[0].is_none() && places[1].is_none(), "{log}");
    assert!(places[4] < places[3] && places[3] < places[2] && places[4].is_some(), "{log}");
    assert!(log.contains("$2\r\nc4\r\n") && log.contains("$3\r\nGET\r\n"), "{log}");
    // The server's own is another one.
    assert_eq!(direct.ask("CONFIG SET slowlog-log-slower-than 0"), "+OK\r\n");
    assert_eq!(direct.ask("ECHO marker"), "$6\r\nmarker\r\n");
    let servers = conn.ask("SLOWLOG SERVER GET");
    assert!(servers.contains("marker") && !servers.contains("slow:"), "{servers}");
    assert_eq!(conn.ask("SLOWLOG RESET"), "+OK\r\n");
    assert_eq!(conn.ask("SLOWLOG GET -1"), "*0\r\n");
    for line in ["SLOWLOG GET x", "SLOWLOG GET -2", "SLOWLOG NOPE", "SLOWLOG LEN x", "SLOWLOG"] {
        assert_eq!(conn.ask(line), direct.ask(line), "{line}");
    }
}
