//! Servers that are lost without a word, shards that are left out while they are dead, and how much servers are asked.
//!
//! Invariant: as in the module above.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use testkit::cluster::{Failover, RedisCluster};
use testkit::relay::Relay;
use testkit::{Endpoint, RedisServer, Respool, Shards, wait};

use super::{front, key_on};
use crate::setup::{RESPOOL, SOON};

const EVENLY: [&str; 4] = ["--sharding-hash", "murmur", "--sharding-distribution", "modula"];

#[test]
fn a_server_that_vanished_is_known_to_be_gone_before_anybody_asks() {
    let server = RedisServer::start();
    let relay = Relay::to(server.endpoint());
    let proxy = Respool::to(RESPOOL, relay.endpoint())
        .workers(1)
        .args(&["--timeouts-ping-ms", "200", "--timeouts-request-ms", "1000"])
        .args(&["--timeouts-connect-ms", "500"])
        .start();
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    // As when its power is cut: nothing is closed, nothing comes back.
    relay.set(|faults| faults.blackhole = true);
    let state = |conn: &mut testkit::Conn| conn.ask("INFO stats");
    let lost = |text: String| !text.contains("upstream_timeouts:0\r\n");
    wait::until_true("the PING that gets no answer", SOON, || lost(state(&mut conn)));
    // The greeting of the next connection gets none either; from then on requests fail at once.
    wait::until_true("requests that fail at once", SOON, || {
        let begun = Instant::now();
        let reply = conn.ask("GET k");
        reply.starts_with("-ERR respool: upstream") && begun.elapsed() < Duration::from_millis(100)
    });
    relay.set(|faults| faults.blackhole = false);
    wait::until_true("the server", SOON, || conn.ask("GET k") == "$1\r\nv\r\n");
}

#[test]
fn an_idle_connection_is_kept_alive_past_the_servers_timeout() {
    let server = RedisServer::start_with(&["--timeout", "2"]);
    let proxy = Respool::to(RESPOOL, server.endpoint())
        .workers(1)
        .args(&["--timeouts-ping-ms", "500"])
        .start();
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    let connects = || {
        let info = server.connect().ask("INFO stats");
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("a count")
    };
    let before = connects();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(conn.ask("GET k"), "$1\r\nv\r\n");
    assert_eq!(connects(), before + 1, "only the one that asks");
}

#[test]
fn a_dead_shards_keys_go_to_the_others_where_that_is_wanted() {
    let mut shards = Shards::start(3);
    let urls: Vec<String> = shards.endpoints().iter().map(Endpoint::url).collect();
    let proxy = Respool::to_shards(RESPOOL, &urls)
        .args(&EVENLY)
        .workers(2)
        .args(&["--sharding-eject-failures", "2", "--sharding-eject-probe-ms", "200"])
        .start();
    // More clients than workers: each worker must see it the same way.
    let mut conns: Vec<_> = (0..4).map(|_| proxy.connect()).collect();
    let keys: Vec<String> = (0..60).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        assert_eq!(conns[0].ask(&format!("SET {key} old")), "+OK\r\n");
    }
    let lost: BTreeSet<Vec<u8>> = shards.keys_on(1).into_iter().collect();
    let is_lost = |key: &str| lost.contains(key.as_bytes());
    shards.server_mut(1).kill();
    for conn in &mut conns {
        wait::until_true("no errors", SOON, || {
            keys.iter().all(|key| !conn.ask(&format!("GET {key}")).starts_with('-'))
        });
    }
    for key in &keys {
        let expected = if is_lost(key) { "$-1\r\n" } else { "$3\r\nold\r\n" };
        let got = conns[1].ask(&format!("GET {key}"));
        // Without one of three, modula moves most keys; none is answered wrongly.
        assert!(got == expected || got == "$-1\r\n", "{key}: {got}");
        assert_eq!(conns[2].ask(&format!("SET {key} new")), "+OK\r\n");
        assert_eq!(conns[3].ask(&format!("GET {key}")), "$3\r\nnew\r\n");
    }
    shards.server_mut(1).restart();
    let mine = String::from_utf8(lost.first().expect("a key").clone()).expect("text");
    for conn in &mut conns {
        wait::until_true("the shard", SOON, || {
            conn.ask(&format!("SET {mine} back")) == "+OK\r\n"
                && shards.connect(1).ask(&format!("GET {mine}")) == "$4\r\nback\r\n"
        });
        assert_eq!(shards.connect(1).ask(&format!("DEL {mine}")), ":1\r\n");
    }
}

#[test]
fn many_workers_ask_a_cluster_no_more_than_one_does() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = Respool::to_url(RESPOOL, &cluster.url())
        .workers(4)
        .args(&["--timeouts-topology-period-ms", "1000"])
        .start();
    let mut conns: Vec<_> = (0..8).map(|_| proxy.connect()).collect();
    let key = key_on(0, 1);
    for conn in &mut conns {
        wait::until_true("the cluster", SOON, || conn.ask(&format!("SET {key} v")) == "+OK\r\n");
    }
    cluster.reset_calls();
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(4));
    let calls = cluster.calls_total("cluster|slots");
    let seconds = begun.elapsed().as_secs_f64();
    // Period and jitter make one to two seconds.
    assert!((1..=6).contains(&calls), "asked {calls} times in {seconds:.1} s");
}

#[test]
fn scripts_are_found_on_servers_that_never_heard_of_them() {
    let mut cluster = RedisCluster::start(3, 1);
    let proxy = front(&cluster, &["--timeouts-failover-hold-ms", "20000"]);
    let mut conn = proxy.connect();
    let loaded = conn.command(&["SCRIPT", "LOAD", "return redis.call('incr', KEYS[1])"]);
    let loaded = String::from_utf8(loaded.expect("SCRIPT LOAD")).expect("text");
    let digest = loaded.lines().nth(1).expect("a digest").to_owned();
    let keys: Vec<String> = (0..3).map(|nth| key_on(nth, 7)).collect();
    let call = |conn: &mut testkit::Conn, key: &str| conn.ask(&format!("EVALSHA {digest} 1 {key}"));
    for key in &keys {
        assert_eq!(call(&mut conn, key), ":1\r\n");
    }
    // Past the proxy, so that nothing tells it.
    cluster.tell_all(&["SCRIPT", "FLUSH"]);
    for key in &keys {
        assert_eq!(call(&mut conn, key), ":2\r\n");
    }
    // A replica that takes over was never told, and clients of the other worker did not load anything.
    let former = cluster.owner_of(testkit::cluster::slot_of(keys[0].as_bytes()));
    let replica = cluster.replicas_of(former)[0];
    cluster.failover(replica, Failover::Graceful);
    let mut other = proxy.connect();
    for conn in [&mut conn, &mut other] {
        for key in &keys {
            assert!(call(conn, key).starts_with(':'));
        }
    }
    cluster.kill(former);
    for key in &keys {
        let reply = call(&mut other, key);
        assert!(reply.starts_with(':'), "{reply}");
    }
}
