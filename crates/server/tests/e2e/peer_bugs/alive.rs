//! Themes B, D and G: the proxy stays alive, starts, and leaves no connection behind.
//!
//! Invariant: after each test the proxy is the process that was started.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::RedisCluster;
use testkit::{Conn, Endpoint, RedisServer, Respool, Shards, wait};

use crate::setup::{RESPOOL, SOON, long};
use crate::topology::{front, key_on};

/// Numbered keys spread evenly, whatever the servers' ports are.
const EVENLY: [&str; 4] = ["--sharding-hash", "murmur", "--sharding-distribution", "modula"];

fn before(shards: &Shards) -> Respool {
    let urls: Vec<String> = shards.endpoints().iter().map(Endpoint::url).collect();
    Respool::to_shards(RESPOOL, &urls).args(&EVENLY).start()
}

/// Sixty keys over three shards, in the requests that name all of them.
struct Sixty {
    names: Vec<String>,
    mset: String,
    mget: String,
    /// What MGET gives when all are set.
    whole: String,
}

impl Sixty {
    fn new() -> Self {
        let names: Vec<String> = (0..60).map(|n| format!("key:{n}")).collect();
        let pairs: Vec<String> = names.iter().map(|name| format!("{name} {name}")).collect();
        let values: String =
            names.iter().map(|name| format!("${}\r\n{name}\r\n", name.len())).collect();
        Self {
            mset: format!("MSET {}", pairs.join(" ")),
            mget: format!("MGET {}", names.join(" ")),
            whole: format!("*60\r\n{values}"),
            names,
        }
    }

    /// Asks and goes, with some or none of the replies read.
    fn ask_and_go(&self, endpoint: &Endpoint, stop: &AtomicBool) {
        let words: Vec<&str> = self.mget.split(' ').collect();
        for round in 0_u32.. {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let mut conn = Conn::to(endpoint);
            for _ in 0..20 {
                conn.send_command(&words).expect("the proxy takes it");
            }
            for _ in 0..round % 4 {
                conn.reply().expect("a reply");
            }
            // With replies that nobody has read, this is a reset.
            drop(conn);
        }
    }

    /// Stays, and looks at what it gets: all of it, or an error; never an end of the connection, and never a trouble with a key
    /// of another shard.
    fn ask_and_look(&self, other: &str, endpoint: &Endpoint, stop: &AtomicBool) {
        let mut conn = Conn::to(endpoint);
        while !stop.load(Ordering::Acquire) {
            let got = conn.ask(&self.mget);
            let good = got == self.whole || got.starts_with("-ERR respool: upstream ");
            // What the shard lost when it was killed is null until it is set again.
            let emptied = got.starts_with("*60\r\n") && got.contains("$-1\r\n");
            assert!(good || emptied, "{got}");
            let set = conn.ask(&self.mset);
            assert!(set == "+OK\r\n" || set.starts_with("-ERR respool: upstream "), "{set}");
            let kept = conn.ask(&format!("GET {other}"));
            assert_eq!(kept, format!("${}\r\n{other}\r\n", other.len()), "another shard's key");
        }
    }
}

// twemproxy #376 (MSET while one of several servers dies), predixy #124 and #185 (a server goes while parts of an MGET are under way
// and the client is gone already), predixy #29 (the client goes as its reply is written), predixy #208 (one server stays dead).
#[test]
fn b1_b2_c9_a_shard_dies_again_and_again_under_fan_outs_of_clients_that_leave() {
    const DEAD: usize = 1;
    let mut shards = Shards::start(3);
    let mut proxy = before(&shards);
    let mut conn = proxy.connect();
    let sixty = Sixty::new();
    assert_eq!(conn.ask(&sixty.mset), "+OK\r\n");
    let mine = shards.keys_on(DEAD);
    let is_mine = |name: &&String| mine.iter().any(|key| key == name.as_bytes());
    let one = sixty.names.iter().find(is_mine).expect("the shard has keys");
    let other = sixty.names.iter().find(|name| !is_mine(name)).expect("other shards have keys");
    let (stop, endpoint) = (AtomicBool::new(false), proxy.endpoint().clone());
    thread::scope(|scope| {
        let (sixty, stop, endpoint) = (&sixty, &stop, &endpoint);
        for _ in 0..6 {
            scope.spawn(move || sixty.ask_and_go(endpoint, stop));
        }
        for _ in 0..4 {
            scope.spawn(move || sixty.ask_and_look(other, endpoint, stop));
        }
        let ended = EndClients(stop);
        for round in 0..if long() { 100 } else { 12 } {
            thread::sleep(Duration::from_millis(60));
            shards.server_mut(DEAD).kill();
            thread::sleep(Duration::from_millis(60 + 40 * (round % 3)));
            shards.server_mut(DEAD).restart();
            let begun = Instant::now();
            // Every worker, each with a connection of its own.
            for mut conn in (0..4).map(|_| Conn::to(endpoint)) {
                let ask = format!("GET {one}");
                wait::until_true("the shard", SOON, || conn.ask(&ask).starts_with('$'));
            }
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(2), "round {round}: {took:?} after it was back");
        }
        drop(ended);
    });
    proxy.assert_alive();
    // The connections above may all be those of one worker, and this one of another, which connects to the shard in its own time.
    let is_set = || conn.ask(&sixty.mset) == "+OK\r\n";
    wait::until_true("the connection of the begin, which is the same", SOON, is_set);
    assert_eq!(conn.ask(&sixty.mget), sixty.whole);
}

/// A test that fails must not leave its clients running.
struct EndClients<'a>(&'a AtomicBool);

impl Drop for EndClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

// envoy #37769: the name of one replica did not resolve, and the whole proxy crashed. Here the seed, a primary or a replica.
#[test]
fn b4_names_that_do_not_resolve_take_only_their_own_node_away() {
    fn name(node: usize) -> String {
        // A name below .invalid never resolves (RFC 2606).
        if node % 3 == 1 { format!("node-{node}.invalid") } else { "localhost".to_owned() }
    }
    let cluster = RedisCluster::with(3, 1).hostnames(name).start();
    cluster.tell_all(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"]);
    let seeds = format!("redis-cluster://nobody.invalid:7000,{}", cluster.node(0).endpoint().tcp());
    for policy in ["primary", "prefer-replica", "any"] {
        let mut proxy = Respool::to_url(RESPOOL, &seeds).args(&["--reads-policy", policy]).start();
        let mut conn = proxy.connect();
        let (good, bad) = ([key_on(0, 9), key_on(2, 9)], key_on(1, 9));
        for _ in 0..4 {
            for key in &good {
                assert_eq!(conn.ask(&format!("SET {key} v")), "+OK\r\n", "{policy}");
                let got = conn.ask(&format!("GET {key}"));
                // A replica may be behind.
                assert!(["$1\r\nv\r\n", "$-1\r\n"].contains(&got.as_str()), "{policy}: {got}");
            }
            let error = conn.ask(&format!("SET {bad} v"));
            assert!(
                error.starts_with('-') && error.contains("node-1.invalid"),
                "{policy}: {error}"
            );
        }
        proxy.assert_alive();
    }
    // The names change while it runs, and there and back.
    let mut proxy = front(&cluster, &["--timeouts-topology-period-ms", "500"]);
    let mut conn = proxy.connect();
    let key = key_on(1, 9);
    assert!(conn.ask(&format!("SET {key} v")).starts_with('-'));
    cluster.tell_all(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "ip"]);
    wait::until_true("the node to be found", SOON, || {
        conn.ask(&format!("SET {key} v")) == "+OK\r\n"
    });
    cluster.tell_all(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"]);
    wait::until_true("the name to be tried", SOON, || {
        conn.ask(&format!("SET {key} v")).starts_with('-')
    });
    assert_eq!(conn.ask(&format!("SET {} v", key_on(0, 9))), "+OK\r\n");
    proxy.assert_alive();
}

// predixy #208, corvus #103: the server closes connections that are idle. No client may see it, also not the one that asks in that very
// moment; and nobody takes the server for dead.
#[test]
fn c9_idle_closes_at_the_moment_of_the_request_cost_nobody_an_error() {
    let server = RedisServer::start_with(&["--timeout", "1"]);
    let mut proxy = Respool::to(RESPOOL, server.endpoint()).start();
    let rounds = if long() { 600 } else { 6 };
    thread::scope(|scope| {
        for client in 0..8_u64 {
            let proxy = &proxy;
            scope.spawn(move || {
                let mut conn = proxy.connect();
                for round in 0..rounds {
                    assert_eq!(conn.ask(&format!("SET k:{client} {round}")), "+OK\r\n");
                    let value = round.to_string();
                    let got = conn.ask(&format!("GET k:{client}"));
                    assert_eq!(got, format!("${}\r\n{value}\r\n", value.len()));
                    // All pause at once, so that the shared connections are idle for long enough.
                    thread::sleep(Duration::from_millis(1_990 + 7 * client));
                }
            });
        }
    });
    let closed =
        crate::setup::info_field(&mut server.connect(), "stats", "total_connections_received");
    let accepted: usize = closed.and_then(|text| text.trim().parse().ok()).expect("a number");
    assert!(accepted > 4, "the server closed nothing: {accepted} connections");
    proxy.assert_alive();
}

/// The states of TCP connections of the whole machine from or to this port, as numbers of the kernel.
fn states(port: u16) -> Vec<u8> {
    const REMOTE: usize = 2;
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let to_port = lines.filter(|fields| fields[REMOTE].ends_with(&format!(":{port:04X}")));
    to_port.filter_map(|fields| u8::from_str_radix(fields[3], 16).ok()).collect()
}

// redis-cluster-proxy #101: connections to a node that was gone stayed in CLOSE_WAIT until there were no more.
#[test]
fn d3_what_the_server_has_closed_is_closed_here() {
    const CLOSE_WAIT: u8 = 8;
    let mut server = RedisServer::start();
    let mut proxy = Respool::to(RESPOOL, server.endpoint()).start();
    let port = server.endpoint().tcp().port();
    let mut conns: Vec<Conn> = (0..40).map(|_| proxy.connect()).collect();
    for round in 0..5 {
        for (nth, conn) in conns.iter_mut().enumerate() {
            // Each protocol and database has a connection of its own, and comes back in its own time.
            wait::until_true("to be served", SOON, || {
                !conn.ask(&format!("HELLO {}", 2 + nth % 2)).starts_with('-')
                    && conn.ask(&format!("SELECT {}", nth % 4)) == "+OK\r\n"
                    && !conn.ask("GET k").starts_with('-')
            });
        }
        assert!(states(port).len() > 4, "there are connections");
        if round == 0 {
            // Whether one can be seen at all: the proxy stands still and closes nothing.
            proxy.process().pause();
            server.connect().ask("CLIENT KILL TYPE normal");
            let seen = || states(port).contains(&CLOSE_WAIT);
            wait::until_true("CLOSE_WAIT", SOON, seen);
            proxy.process().resume();
        }
        // Once it closes all connections, once it dies.
        if round % 2 == 0 {
            server.connect().ask("CLIENT KILL TYPE normal");
        } else {
            server.kill();
        }
        wait::until_true("no CLOSE_WAIT", Duration::from_secs(5), || {
            !states(port).contains(&CLOSE_WAIT)
        });
        if round % 2 == 1 {
            server.restart();
        }
    }
    proxy.assert_alive();
}

// envoy #8060 and twemproxy #250 (too few), camellia #82 and predixy #101 (far too many): what a node sees is one connection for each
// worker and protocol, however many clients there are.
#[test]
fn g3_g4_a_node_sees_as_many_connections_as_there_are_workers_and_protocols() {
    let clients = if long() { 5_000 } else { 600 };
    testkit::process::raise_fd_limit();
    let cluster = RedisCluster::start(3, 0);
    let workers = 2;
    let proxy = front(&cluster, &[]);
    let seen = |node: usize| {
        let mut conn = cluster.node(node).connect();
        let own = conn.ask("CLIENT ID").trim_start_matches(':').trim().to_owned();
        let list = conn.command(&["CLIENT", "LIST"]).expect("the list");
        let list = String::from_utf8(list).expect("text");
        let others = list.lines().filter(|line| line.starts_with("id="));
        others.filter(|line| !line.starts_with(&format!("id={own} "))).count()
    };
    for (hello, protocols) in [("HELLO 2", 1), ("HELLO 3", 2)] {
        let mut conns: Vec<Conn> = (0..clients).map(|_| proxy.connect()).collect();
        for (nth, conn) in conns.iter_mut().enumerate() {
            assert!(!conn.ask(hello).starts_with('-'));
            let key = key_on((nth % 3) as u16, 60);
            assert!(!conn.ask(&format!("GET {key}")).starts_with('-'));
        }
        for node in 0..3 {
            let count = seen(node);
            assert!((1..=workers * protocols).contains(&count), "node {node}: {count} connections");
        }
    }
}

// predixy #66, #120, #172 and twemproxy #13: the address behind a name changed, and all requests failed until a restart. The proxy gets
// a file of hosts of its own, which the test writes; that takes a mount namespace.
#[test]
fn d1_a_name_that_moves_to_another_address_is_followed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (hosts, program) = (folder.path().join("hosts"), folder.path().join("respool"));
    let points_to = |address: &str| {
        // In place: a file put in its stead would not be the one that is mounted.
        fs::write(&hosts, format!("{address} moving.test\n")).expect("hosts");
    };
    points_to("127.0.0.1");
    let mount = format!("mount --bind {} /etc/hosts && exec \"$0\" \"$@\"", hosts.display());
    let script = format!("#!/bin/sh\nexec unshare -rm sh -c '{mount}' {RESPOOL} \"$@\"\n");
    fs::write(&program, script).expect("the script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("to be executed");
    let mut may = Command::new("unshare");
    may.args(["-rm", "sh", "-c"]).arg(mount.replace("exec \"$0\" \"$@\"", "true"));
    if !may.status().is_ok_and(|status| status.success()) {
        println!("no mount namespaces for us here: nothing was tested");
        return;
    }
    let at = |address: &str, port: u16| {
        let ip = address.parse().expect("an address");
        Endpoint::Tcp(std::net::SocketAddr::new(ip, port))
    };
    let mut first = RedisServer::start();
    let port = first.endpoint().tcp().port();
    let mut second = RedisServer::start_at(&at("127.0.0.2", port), &["--bind", "127.0.0.2"]);
    let url = format!("redis://moving.test:{port}");
    let mut proxy = Respool::to_url(&program, &url).start();
    let mut conns: Vec<Conn> = (0..4).map(|_| proxy.connect()).collect();
    for round in 0..if long() { 20 } else { 3 } {
        let (name, address) = [("first", "127.0.0.2"), ("second", "127.0.0.1")][round % 2];
        for conn in &mut conns {
            wait::until_true("the server", SOON, || {
                conn.ask(&format!("SET who {name}")) == "+OK\r\n"
            });
        }
        // A pod that goes takes its address with it.
        points_to(address);
        let (former, next) =
            if round % 2 == 0 { (&mut first, &second) } else { (&mut second, &first) };
        former.kill();
        let begun = Instant::now();
        for conn in &mut conns {
            wait::until_true("the name to be followed", SOON, || {
                conn.ask("SET here yes") == "+OK\r\n"
            });
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "round {round}: {:?}", begun.elapsed());
        assert_eq!(next.connect().ask("GET here"), "$3\r\nyes\r\n");
        former.restart();
    }
    proxy.assert_alive();
}

// redis-cluster-proxy #36: it did not start while one node was down. All that live are enough, whichever it is.
#[test]
fn b8_it_starts_and_serves_while_any_one_node_is_down() {
    let mut cluster = RedisCluster::with(3, 0).partial_coverage().start();
    for down in 0..3 {
        cluster.kill(down);
        let proxy = front(&cluster, &[]);
        let mut conn = proxy.connect();
        let served: BTreeSet<u16> = (0..3)
            .filter(|nth| conn.ask(&format!("GET {}", key_on(*nth, 1))) == "$-1\r\n")
            .collect();
        let expected: BTreeSet<u16> = (0..3).filter(|nth| usize::from(*nth) != down).collect();
        assert_eq!(served, expected, "node {down} is down");
        cluster.restart(down);
        cluster.wait_ok();
    }
}
