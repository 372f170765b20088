//! What must be there before a client of a cluster is served, and what is said when it is not.
//!
//! Invariant: a request that waits at the start is answered or refused within the configured time.

use std::time::{Duration, Instant};

use testkit::admin::Login;
use testkit::cluster::{RedisCluster, SLOTS};
use testkit::ports::Port;
use testkit::{Conn, Endpoint, Respool, wait};

use super::{front, key_on};
use crate::setup::{RESPOOL, SOON};

/// Writes and reads a key of each primary, alone and in one request.
#[track_caller]
fn serves_all(conn: &mut Conn) {
    let keys: Vec<String> = (0..3).map(|nth| key_on(nth, 100)).collect();
    for key in &keys {
        assert_eq!(conn.ask(&format!("SET {key} v:{key}")), "+OK\r\n");
    }
    let values = conn.ask(&format!("MGET {}", keys.join(" ")));
    let at = |key: &String| values.find(&format!("v:{key}")).expect("a value");
    assert!(at(&keys[0]) < at(&keys[1]) && at(&keys[1]) < at(&keys[2]), "{values}");
    assert_eq!(conn.ask(&format!("DEL {}", keys.join(" "))), ":3\r\n");
}

/// A URL with places where nobody listens before the nodes of `seeds`.
fn url_with_dead(cluster: &RedisCluster, dead: usize, seeds: &[usize]) -> String {
    let mut hosts: Vec<String> =
        (0..dead).map(|_| Endpoint::Tcp(Port::v4().release()).tcp().to_string()).collect();
    hosts.extend(seeds.iter().map(|seed| cluster.node(*seed).endpoint().tcp().to_string()));
    format!("redis-cluster://{}", hosts.join(","))
}

// Five of six places are dead, and the one that lives is a replica in one case.
#[test]
fn one_live_seed_of_six_is_enough() {
    let cluster = RedisCluster::start(3, 1);
    for seed in [1, 4] {
        let url = url_with_dead(&cluster, 5, &[seed]);
        let proxy = Respool::to_url(RESPOOL, &url).start();
        let begun = Instant::now();
        serves_all(&mut proxy.connect());
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}

// What is said must help: which server, and what is wrong with it.
#[test]
fn wrong_seeds_are_named_with_what_is_wrong_with_them() {
    let alone = testkit::RedisServer::start();
    let secret = testkit::RedisServer::start_with(&["--requirepass", "pw"]);
    let nobody = Endpoint::Tcp(Port::v4().release());
    for (seed, words) in [
        (&nobody, "refused"),
        (alone.endpoint(), "cluster support disabled"),
        (secret.endpoint(), "NOAUTH"),
    ] {
        let url = format!("redis-cluster://{}", seed.tcp());
        let proxy =
            Respool::to_url(RESPOOL, &url).args(&["--timeouts-topology-wait-ms", "300"]).start();
        let begun = Instant::now();
        let error = proxy.connect().ask("GET k");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert!(error.starts_with('-'), "{error}");
        assert!(error.contains(words), "{words}: {error}");
        assert!(error.contains(&seed.tcp().port().to_string()), "which one: {error}");
        // Commands that need no server are answered all the same.
        assert_eq!(proxy.connect().ask("PING"), "+PONG\r\n");
    }
}

// Row 11.
#[test]
fn a_proxy_that_was_there_first_serves_when_the_cluster_comes() {
    let mut cluster = RedisCluster::start(3, 0);
    for node in 0..3 {
        cluster.kill(node);
    }
    let proxy = front(&cluster, &["--timeouts-topology-wait-ms", "200"]);
    let mut conn = proxy.connect();
    assert!(conn.ask("GET k").starts_with("-CLUSTERDOWN"));
    for node in 0..3 {
        cluster.restart(node);
    }
    cluster.wait_ok();
    let begun = Instant::now();
    wait::until_true("the proxy to serve", SOON, || conn.ask("GET k") == "$-1\r\n");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    serves_all(&mut conn);
}

#[test]
fn slots_without_a_node_are_told_and_the_others_served() {
    let hole = 16_000..SLOTS;
    let cluster = RedisCluster::with(3, 0).partial_coverage().uncovered(hole.clone()).start();
    let proxy = front(&cluster, &["--timeouts-topology-wait-ms", "300"]);
    let mut conn = proxy.connect();
    serves_all(&mut conn);
    let missing = key_on(2, 16_100 - 11_000);
    let error = conn.ask(&format!("GET {missing}"));
    assert!(error.starts_with("-CLUSTERDOWN Hash slot not served"), "{error}");
    // A sum or a list that leaves keys out would be wrong without a word.
    assert!(conn.ask("DBSIZE").starts_with("-CLUSTERDOWN"));
    let there = key_on(0, 1);
    assert!(conn.ask(&format!("MGET {there} {missing}")).starts_with("-CLUSTERDOWN"));

    cluster.assign(2, hole);
    cluster.wait_ok();
    wait::until_true("the slots to be served", SOON, || {
        conn.ask(&format!("GET {missing}")) == "$-1\r\n"
    });
    assert_eq!(conn.ask("DBSIZE"), ":0\r\n");
}

#[test]
fn nodes_are_found_by_name_and_by_the_host_that_was_asked() {
    fn localhost(_: usize) -> String {
        "localhost".to_owned()
    }
    let cluster = RedisCluster::with(3, 0).hostnames(localhost).start();
    for (slot, kind) in [(7, "hostname"), (8, "unknown-endpoint"), (9, "ip")] {
        cluster.tell_all(&["CONFIG", "SET", "cluster-preferred-endpoint-type", kind]);
        let proxy = Respool::to_url(RESPOOL, &cluster.url_of(&[0])).start();
        let mut conn = proxy.connect();
        serves_all(&mut conn);
        // A redirect names its node in the same way.
        let key = key_on(0, slot);
        cluster.begin_move(slot, 1).and_then(testkit::cluster::SlotMove::finish).expect("moved");
        assert_eq!(conn.ask(&format!("SET {key} v")), "+OK\r\n", "{kind}");
    }
}

#[test]
fn nodes_of_ipv6() {
    if Port::v6().is_none() {
        println!("this machine has no IPv6 loopback: nothing was tested");
        return;
    }
    let cluster = RedisCluster::with(3, 0).v6().start();
    let proxy = Respool::to_url(RESPOOL, &cluster.url_of(&[2])).start();
    let mut conn = proxy.connect();
    serves_all(&mut conn);
    let key = key_on(0, 7);
    let mut slot = cluster.begin_move(7, 1).expect("the move");
    assert_eq!(conn.ask(&format!("SET {key} asked")), "+OK\r\n");
    slot.move_keys(10).expect("the keys");
    assert_eq!(conn.ask(&format!("GET {key}")), "$5\r\nasked\r\n");
    slot.finish().expect("the end");
    assert_eq!(conn.ask(&format!("GET {key}")), "$5\r\nasked\r\n");
}

// The login is also sent to nodes that are met later, and to the target of an ASK.
#[test]
fn every_node_is_logged_in_to() {
    for login in [Login::with_password("secret"), Login::with_user("respool", "secret")] {
        let cluster = RedisCluster::with(3, 0).login(login).start();
        let proxy = Respool::to_url(RESPOOL, &cluster.url_of(&[1])).start();
        for hello in ["HELLO 2", "HELLO 3"] {
            let mut conn = proxy.connect();
            assert!(!conn.ask(hello).starts_with('-'));
            serves_all(&mut conn);
        }
        let mut slot = cluster.begin_move(9, 2).expect("the move");
        let mut conn = proxy.connect();
        assert_eq!(conn.ask(&format!("SET {} v", key_on(0, 9))), "+OK\r\n");
        slot.move_keys(10).expect("the keys");
        slot.finish().expect("the end");
        assert_eq!(conn.ask(&format!("GET {}", key_on(0, 9))), "$1\r\nv\r\n");
    }
}

#[test]
fn a_wrong_password_is_told() {
    let cluster = RedisCluster::with(3, 0).login(Login::with_password("secret")).start();
    let url = cluster.url_of(&[0]).replace("secret", "wrong");
    let proxy =
        Respool::to_url(RESPOOL, &url).args(&["--timeouts-topology-wait-ms", "300"]).start();
    let error = proxy.connect().ask("GET k");
    assert!(error.contains("WRONGPASS"), "{error}");
    assert!(!error.contains(":wrong@"), "no secrets: {error}");
}

// BullMQ and Sidekiq ask for it first, and refuse an empty one.
#[test]
fn each_worker_tells_the_version_of_the_servers_before_any_request() {
    let cluster = RedisCluster::start(3, 0);
    let url = url_with_dead(&cluster, 0, &[0]);
    let proxy = Respool::to_url(RESPOOL, &url).workers(4).start();
    let mut conns: Vec<Conn> = (0..32).map(|_| proxy.connect()).collect();
    for conn in &mut conns {
        let text = conn.ask("INFO server");
        let version = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
        assert!(version.is_some_and(|version| !version.is_empty()), "{text}");
    }
}
