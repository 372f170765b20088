//! `limits.memory_max_bytes` holds for whatever clients make the proxy hold: resident memory stays near it, and whoever behaves is served.

use std::thread;
use std::time::{Duration, Instant};

use testkit::frames::request;
use testkit::process::raise_fd_limit;
use testkit::shards::Shards;
use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, info_field};

const MIB: u64 = 1 << 20;

/// As an operator would say it.
const LIMIT: [&str; 4] =
    ["--limits-memory-max-bytes", "32MiB", "--limits-client-out-max-bytes", "16MiB"];

/// Beside it: the program, room that the allocator keeps, and a reply on its way from one buffer to the next.
const BESIDE: u64 = 80 * MIB;

/// Large enough that a few of them are too much.
const VALUE: usize = 6_000_000;

/// Sends a request, and reads nothing.
fn asks(proxy: &Respool, request: &[&str]) -> Conn {
    let mut conn = proxy.connect();
    // It may be closed by then.
    let _ = conn.send_command(request);
    conn
}

fn evicted(conn: &mut Conn) -> u64 {
    info_field(conn, "stats", "evicted_clients").and_then(|n| n.parse().ok()).expect("a number")
}

/// For as long as clients are closed one after the other, others are served, and the memory stays as it may be.
fn stays_within(proxy: &Respool, least: u64) {
    let mut good = proxy.connect();
    good.set_timeout(Duration::from_secs(5));
    let mut closed = 0;
    wait::until_true("the largest to be closed", SOON, || {
        assert_eq!(good.ask("ECHO x"), "$1\r\nx\r\n");
        closed = evicted(&mut good);
        closed >= least
    });
    let (asked, quiet) = (Instant::now(), Duration::from_millis(300));
    while asked.elapsed() < quiet {
        assert_eq!(good.ask("ECHO x"), "$1\r\nx\r\n");
    }
    let peak = proxy.process().rss_peak_bytes();
    assert!(peak < 32 * MIB + BESIDE, "it had {} MiB at most", peak / MIB);
}

fn start(server: &RedisServer, more: &[&str]) -> Respool {
    let args = [&LIMIT[..], more].concat();
    Respool::to(RESPOOL, server.endpoint()).workers(1).args(&args).start()
}

#[test]
fn parts_of_replies_that_wait_for_a_server_that_hangs() {
    let shards = Shards::start(2);
    let urls: Vec<String> = shards.endpoints().iter().map(|at| at.url()).collect();
    let proxy = Respool::to_shards(RESPOOL, &urls).workers(1).args(&LIMIT).start();
    let mut conn = proxy.connect();
    // The number comes first: names that differ in their last letters only may all lie at one shard.
    let names: Vec<String> = (0..100).map(|n| format!("{n}:of:shards")).collect();
    for name in &names {
        assert_eq!(conn.ask(&format!("SET {name} v")), "+OK\r\n");
    }
    let on = |index: usize| {
        let keys = shards.keys_on(index);
        String::from_utf8(keys.first().expect("a key").clone()).expect("a name")
    };
    let (large, small) = (on(0), on(1));
    let value = "v".repeat(VALUE);
    assert_eq!(shards.connect(0).command(&["SET", &large, &value]).expect("done"), b"+OK\r\n");
    shards.server(1).pause();
    let waiting: Vec<Conn> = (0..16).map(|_| asks(&proxy, &["MGET", &large, &small])).collect();
    stays_within(&proxy, 8);
    shards.server(1).resume();
    drop(waiting);
}

#[test]
fn replies_on_connections_of_their_own_that_are_collected_for_other_names() {
    let server = RedisServer::start();
    let value = "v".repeat(VALUE);
    let added = server.connect().command(&["XADD", "a:s", "1-1", "f", &value]);
    assert_eq!(added.expect("done"), b"$3\r\n1-1\r\n");
    let proxy = start(&server, &["--policies-namespace-prefix", "a:"]);
    let ask = ["XREAD", "BLOCK", "5000", "STREAMS", "s", "0"];
    let waiting: Vec<Conn> = (0..24).map(|_| asks(&proxy, &ask)).collect();
    stays_within(&proxy, 8);
    drop(waiting);
}

#[test]
fn topics_of_one_client() {
    let server = RedisServer::start();
    let proxy = start(&server, &[]);
    let mut conn = proxy.connect();
    let mut listens = proxy.connect();
    assert!(listens.ask("SUBSCRIBE news").contains("news"));
    let mut seen = 0;
    'all: for batch in 0..100 {
        let names: Vec<String> = (0..2_000).map(|n| format!("topic:{batch}:{n}")).collect();
        let mut request = vec!["SUBSCRIBE"];
        request.extend(names.iter().map(String::as_str));
        if conn.send_command(&request).is_err() {
            break;
        }
        for _ in &names {
            if conn.reply().is_err() {
                break 'all;
            }
            seen += 1;
        }
    }
    assert!((20_000..100_000).contains(&seen), "closed after {seen} topics");
    stays_within(&proxy, 1);
    let mut good = proxy.connect();
    assert_eq!(good.ask("PUBLISH news x"), ":1\r\n");
    assert!(String::from_utf8_lossy(&listens.reply().expect("a message")).contains("news"));
}

/// Sockets that a process has open, listeners among them.
fn open_sockets(pid: u32) -> usize {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    let targets = all.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

fn connected(conn: &mut Conn) -> usize {
    let clients = info_field(conn, "clients", "connected_clients").expect("a field");
    clients.parse().expect("a number")
}

/// Connects 250 clients one after the other; each asks for the list of clients and reads nothing.
fn ask_for_lists(proxy: &Respool) -> Vec<Conn> {
    let mut asks = request(&["CLIENT", "SETNAME", &"n".repeat(2_000)]);
    (0..3).for_each(|_| asks.extend(request(&["CLIENT", "LIST"])));
    let ask = |_| {
        let mut conn = proxy.connect();
        // The proxy may have closed it.
        let _ = conn.send(&asks);
        // New clients are to come while the proxy evicts others.
        thread::sleep(Duration::from_millis(25));
        conn
    };
    (0..250).map(ask).collect()
}

// A worker evicts clients because of replies that another worker made, and takes new clients in the same turn.
#[test]
fn clients_of_several_workers_that_are_evicted_leave_no_socket() {
    raise_fd_limit();
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(2).args(&LIMIT).start();
    let pid = proxy.process().pid();
    let mut good = proxy.connect();
    good.set_timeout(3 * SOON);
    assert_eq!(good.ask("GET k"), "$-1\r\n");
    let unread: Vec<_> = thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| ask_for_lists(&proxy)));
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    wait::until_true("clients to be evicted", 3 * SOON, || evicted(&mut good) >= 100);
    // The connections to the server and the listeners' sockets are few.
    wait::until_true("the sockets of evicted clients to be closed", 3 * SOON, || {
        open_sockets(pid) <= connected(&mut good) + 12
    });
    assert_eq!(good.ask("GET k"), "$-1\r\n");
    drop(unread);
}

#[test]
fn it_is_a_part_of_what_the_process_may_use_unless_it_is_given() {
    let server = RedisServer::start();
    let of = |args: &[&str]| {
        let proxy = Respool::to(RESPOOL, server.endpoint()).workers(1).args(args).start();
        let mut conn = proxy.connect();
        let told = conn.ask("CONFIG GET respool.limits.memory_max_bytes");
        let max = info_field(&mut conn, "memory", "buffered_bytes_max").expect("a field");
        (told, max.parse::<u64>().expect("a number"))
    };
    let (told, max) = of(&["--limits-memory-max-bytes", "64MiB"]);
    assert!(told.contains("64MiB") && max == 64 * MIB, "{told}: {max}");
    let (told, max) = of(&[]);
    assert!((16 * MIB..=1024 * MIB).contains(&max), "{told}: {max}");
}
