//! How clients and the server are connected: workers, listeners, passwords, a server that is not
//! there, comes back, or hangs.
//!
//! These are tests of the proxy as an operator sees it; most have no direct counterpart and do
//! nothing in the direct mode.
//!
//! Invariant: an error that the proxy makes names the node and the cause.

use std::time::{Duration, Instant};

use testkit::ports::Port;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct, info_field};

/// Clients of each worker, from the lines `worker_0:clients=16,…` of INFO.
fn clients_per_worker(conn: &mut Conn) -> Vec<u32> {
    let info = conn.ask("INFO workers");
    info.lines()
        .filter_map(|line| line.strip_prefix("worker_")?.split_once(':'))
        .map(|(_, fields)| {
            let clients = fields.split(',').find_map(|field| field.strip_prefix("clients="));
            clients.and_then(|number| number.parse().ok()).expect("clients= of a worker")
        })
        .collect()
}

// Listeners that share a port let the kernel spread connections by hash: 64 clients on 4 workers
// then come out as uneven as 8 and 25, and stay so for as long as they live.
#[test]
fn long_lived_clients_are_spread_evenly() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(4).start();
    // One of the 64 asks, so that no other client disturbs the count.
    let mut clients: Vec<Conn> = (0..64).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|conn| assert_eq!(conn.ask("PING"), "+PONG\r\n"));
    let counts = wait::until("all clients to be counted", SOON, || {
        let counts = clients_per_worker(&mut clients[0]);
        (counts.iter().sum::<u32>() == 64).then_some(counts)
    });
    println!("clients per worker: {counts:?}");
    assert_eq!(counts.len(), 4);
    let (least, most) = (counts.iter().min(), counts.iter().max());
    assert!(most <= least.map(|least| least * 2).as_ref(), "uneven: {counts:?}");
    // Whichever worker serves a client, it serves it.
    for (at, conn) in clients.iter_mut().enumerate() {
        assert_eq!(conn.ask(&format!("SET k{at} v{at}")), "+OK\r\n");
        assert_eq!(
            conn.ask(&format!("GET k{at}")),
            format!("${}\r\nv{at}\r\n", 1 + at.to_string().len())
        );
    }
}

// What the proxy is for: the server sees its workers and not its clients.
#[test]
fn few_upstream_connections_serve_many_clients() {
    if direct() {
        return;
    }
    let stack = Stack::start();
    let mut clients: Vec<Conn> = (0..100).map(|_| stack.connect()).collect();
    for (at, conn) in clients.iter_mut().enumerate() {
        assert_eq!(conn.ask(&format!("SET k{at} v")), "+OK\r\n");
    }
    let connected = info_field(&mut stack.server.connect(), "clients", "connected_clients");
    let connected: u32 = connected.and_then(|text| text.parse().ok()).expect("connected_clients");
    // Two workers, the asking connection itself, and some room for connections of the proxy's own.
    assert!(connected <= 10, "{connected} connections on the server for 100 clients");
}

// Each side has its own code for paths; a round trip shows both.
#[test]
fn unix_sockets_on_both_sides() {
    if direct() {
        return;
    }
    let server = RedisServer::start_unix(&[]);
    let proxy = Respool::to(RESPOOL, server.endpoint()).listen_unix().start();
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    assert_eq!(server.connect().ask("GET k"), "$1\r\nv\r\n");
}

#[test]
fn ipv6_on_the_client_side() {
    if direct() || Port::v6().is_none() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).listen_v6().start();
    assert_eq!(proxy.connect().ask("SET k v"), "+OK\r\n");
}

// The proxy judges AUTH itself, so each text, each state before and after, and the limits for
// strangers are its own doing.
#[test]
fn a_password_for_clients_and_another_one_for_the_server() {
    if direct() {
        return;
    }
    let server = RedisServer::start_with(&["--requirepass", "inner"]);
    let url = format!("redis://:inner@{}", server.endpoint().tcp());
    let proxy = Respool::to_url(RESPOOL, &url).args(&["--password", "outer"]).start();

    // What a server with that password answers, to the byte.
    let model = RedisServer::start_with(&["--requirepass", "outer"]);
    for script in [
        &[
            "GET k",
            "PING",
            "AUTH wrong",
            "AUTH default wrong",
            "AUTH nobody outer",
            "HELLO 3",
            "HELLO 3 AUTH default wrong",
            "SET k v",
            "AUTH outer",
            "GET k",
            "AUTH wrong",
            "GET k",
        ][..],
        &[
            "SELECT 1",
            "CLIENT SETNAME x",
            "AUTH default outer",
            "CLIENT SETNAME x",
            "CLIENT GETNAME",
        ],
        &["AUTH", "AUTH a b c", "ECHO x", "COMMAND COUNT", "INFO x", "RESET", "PING"],
    ] {
        let (mut through, mut direct) = (proxy.connect(), model.connect());
        for words in script {
            // Redis 7.2 has put the version into one text of 7.0; the proxy says it as the newer
            // ones do.
            let newer = |reply: String| reply.replace("the HELLO AUTH", "the HELLO <proto> AUTH");
            assert_eq!(newer(through.ask(words)), newer(direct.ask(words)), "{words}");
        }
    }
    let mut conn = proxy.connect();
    assert!(conn.ask("HELLO 3 AUTH default outer SETNAME me").starts_with('%'));
    assert_eq!(conn.ask("CLIENT GETNAME"), "$2\r\nme\r\n");
    // Before authentication requests are bounded much lower, as the server bounds them.
    let mut conn = proxy.connect();
    conn.send(b"*1000\r\n").expect("send");
    let answer = conn.read_to_close().expect("closed");
    assert_eq!(answer, b"-ERR Protocol error: unauthenticated multibulk length\r\n");
}

// Starting before the server is the normal case in containers. Exiting would make a restart loop, a
// text without the node a riddle.
#[test]
fn a_server_that_is_not_there_is_named_and_used_when_it_comes() {
    if direct() {
        return;
    }
    let place = Endpoint::Tcp(Port::v4().release());
    let mut proxy = Respool::to(RESPOOL, &place).start();
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("PING"), "+PONG\r\n", "the proxy itself is well");
    let begun = Instant::now();
    let error = conn.ask("GET k");
    assert!(error.starts_with('-'), "{error}");
    assert!(error.contains(&place.tcp().to_string()), "the node is not named: {error}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());

    let _server = RedisServer::start_at(&place, &[]);
    wait::until_true("the proxy to find the server", SOON, || conn.ask("SET k v") == "+OK\r\n");
    proxy.assert_alive();
}

// Clients keep their connection to the proxy over a restart of the server: that is one of the
// reasons to have a proxy.
#[test]
fn a_restarted_server_is_used_again_by_the_same_clients() {
    if direct() {
        return;
    }
    let mut stack = Stack::start();
    let mut conn = stack.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    stack.server.kill();
    let place = stack.server.endpoint().tcp().to_string();
    wait::until_true("an error that names the node", SOON, || {
        let reply = conn.ask("GET k");
        assert!(reply.starts_with('-') || reply == "$1\r\nv\r\n", "{reply}");
        reply.starts_with('-') && reply.contains(&place)
    });
    stack.server.restart();
    wait::until_true("the server's replies", SOON, || conn.ask("GET k") == "$-1\r\n");
    stack.assert_alive();
}

// A stopped process keeps its sockets open, so only the timeout helps. When it goes on it sends
// what it was asked long ago; on a connection that was kept these replies would be taken for those
// of later requests.
#[test]
fn a_hanging_server_gives_an_error_that_names_it_and_its_late_replies_go_to_nobody() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint())
        .workers(1)
        .args(&["--timeouts-request-ms", "500", "--timeouts-connect-ms", "500"])
        .start();
    let (mut first, mut second) = (proxy.connect(), proxy.connect());
    assert_eq!(first.ask("SET secret first"), "+OK\r\n");
    assert_eq!(second.ask("SET mine second"), "+OK\r\n");

    server.pause();
    let begun = Instant::now();
    first.send_command(&["GET", "secret"]).expect("request");
    second.send_command(&["GET", "mine"]).expect("request");
    for conn in [&mut first, &mut second] {
        let error = String::from_utf8(conn.reply().expect("an error")).expect("text");
        assert!(error.starts_with('-'), "{error}");
        assert!(error.contains(&server.endpoint().tcp().to_string()), "no node: {error}");
    }
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_millis(400), "before its time: {elapsed:?}");
    assert!(elapsed < SOON, "{elapsed:?}");
    // The proxy still answers what it answers itself.
    assert_eq!(first.ask("PING"), "+PONG\r\n");

    server.resume();
    // The late replies were for the requests that have their error; they must not answer these.
    wait::until_true("the server's replies", SOON, || {
        let reply = second.ask("GET mine");
        assert!(reply.starts_with('-') || reply == "$6\r\nsecond\r\n", "{reply}");
        let reply_of_first = first.ask("ECHO hello");
        assert!(reply_of_first.starts_with('-') || reply_of_first == "$5\r\nhello\r\n");
        !reply.starts_with('-') && !reply_of_first.starts_with('-')
    });
    assert!(first.is_silent_for(Duration::from_millis(100)));
    assert!(second.is_silent_for(Duration::from_millis(100)));
}

// A timer that is always due, or a descriptor that is always ready, shows as CPU time with nothing
// to do.
#[test]
fn an_idle_proxy_costs_nothing_and_gives_back_what_it_used() {
    if direct() {
        return;
    }
    let stack = Stack::start();
    let process = stack.proxy.as_ref().map(Respool::process).expect("a proxy");
    let mut staying: Vec<Conn> = (0..30).map(|_| stack.connect()).collect();
    staying.iter_mut().for_each(|conn| assert_eq!(conn.ask("SET k v"), "+OK\r\n"));
    let fds = process.fds();
    let mut passing: Vec<Conn> = (0..200).map(|_| stack.connect()).collect();
    passing.iter_mut().for_each(|conn| assert_eq!(conn.ask("GET k"), "$1\r\nv\r\n"));
    assert!(process.fds() >= fds + 200);
    drop(passing);
    wait::until_true("descriptors to be closed", SOON, || process.fds() <= fds);

    let before = process.cpu_time();
    std::thread::sleep(Duration::from_secs(2));
    let used = process.cpu_time() - before;
    println!("{used:?} of CPU in two idle seconds");
    assert!(used <= Duration::from_millis(100), "{used:?} of CPU in two idle seconds");
}
