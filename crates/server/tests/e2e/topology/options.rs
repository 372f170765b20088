//! Options whose effect only real servers show: addresses behind NAT, connections for each node, who answers reads, passwords in
//! files.
//!
//! Invariant: each test also looks at what happens without its option, so that it can tell whether the option did it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use testkit::admin::Login;
use testkit::cluster::{RedisCluster, SlotMove};
use testkit::frames::request;
use testkit::relay::Relay;
use testkit::{Conn, RedisServer, Respool, SentinelGroup, wait};

use super::{during, front, key_on, load};
use crate::setup::{RESPOOL, SOON};

/// How many connections of the proxy in RESP2 a server has now. The proxy gives all of them its name.
fn conns_of_proxy(server: &mut Conn) -> usize {
    let list = server.ask("CLIENT LIST");
    list.lines().filter(|line| line.contains(" name=respool ") && line.contains(" resp=2")).count()
}

/// A name that no resolver knows (RFC 6761).
fn unknown_name(node: usize) -> String {
    format!("node-{node}.invalid")
}

/// A cluster that tells names which cannot be resolved, relays before its nodes, and the option that leads to these.
fn behind_nat() -> (RedisCluster, Vec<Relay>, String) {
    let cluster =
        RedisCluster::with(3, 0).hostnames(unknown_name).preferred_endpoint("hostname").start();
    let relays: Vec<Relay> =
        (0..3).map(|node| Relay::to(cluster.node(node).direct_endpoint())).collect();
    let entries = relays.iter().enumerate().map(|(node, relay)| {
        let told = cluster.node(node).direct_endpoint().tcp().port();
        format!("{}:{told}={}", unknown_name(node), relay.endpoint().tcp())
    });
    let map = entries.collect::<Vec<_>>().join(",");
    (cluster, relays, map)
}

#[test]
fn a_cluster_behind_nat_is_reached_by_the_map() {
    let (cluster, relays, map) = behind_nat();
    let seed = format!("redis-cluster://{}", relays[0].endpoint().tcp());
    let proxy = Respool::to_url(RESPOOL, &seed).args(&["--address-map", &map]).start();
    let mut conn = proxy.connect();
    let keys: Vec<String> = (0..3).map(|nth| key_on(nth, 100)).collect();
    for key in &keys {
        assert_eq!(conn.ask(&format!("SET {key} {key}")), "+OK\r\n");
    }
    let values = conn.ask(&format!("MGET {}", keys.join(" ")));
    assert!(keys.iter().all(|key| values.contains(key)), "{values}");
    // MOVED and ASK name their nodes in the same way.
    let asked = key_on(0, 7);
    let slot = cluster.begin_move(7, 1).expect("the move");
    assert_eq!(conn.ask(&format!("SET {asked} 1")), "+OK\r\n");
    slot.finish().expect("the end");
    assert_eq!(conn.ask(&format!("GET {asked}")), "$1\r\n1\r\n");
    cluster.begin_move(8, 2).and_then(SlotMove::finish).expect("moved");
    assert_eq!(conn.ask(&format!("SET {} 1", key_on(0, 8))), "+OK\r\n");
    // Nothing went by another way.
    for (node, relay) in relays.iter().enumerate() {
        let here = conns_of_proxy(&mut cluster.node(node).connect());
        assert!(here > 0 && here == relay.open(), "node {node}: {here} and {}", relay.open());
    }
    // A host for every port: these nodes differ in their names only.
    let hosts: Vec<String> =
        (0..3).map(|node| format!("{}=127.0.0.1", unknown_name(node))).collect();
    let proxy = Respool::to_url(RESPOOL, &seed).args(&["--address-map", &hosts.join(",")]).start();
    for key in &keys {
        assert_eq!(proxy.connect().ask(&format!("STRLEN {key}")), format!(":{}\r\n", key.len()));
    }
}

#[test]
fn without_the_map_nodes_behind_nat_are_out_of_reach() {
    let (_cluster, relays, _) = behind_nat();
    let seed = format!("redis-cluster://{}", relays[0].endpoint().tcp());
    let proxy = Respool::to_url(RESPOOL, &seed).start();
    let error = proxy.connect().ask(&format!("SET {} v", key_on(1, 100)));
    assert!(error.starts_with('-') && error.contains("node-1.invalid"), "{error}");
}

#[test]
fn what_sentinels_tell_is_mapped_before_and_after_a_failover() {
    let group = SentinelGroup::start(1, 3);
    let servers = group.endpoints();
    let relays: Vec<Relay> = servers.iter().map(Relay::to).collect();
    let entries = servers
        .iter()
        .zip(&relays)
        .map(|(server, relay)| format!("{}={}", server.tcp(), relay.endpoint().tcp()));
    let map = entries.collect::<Vec<_>>().join(",");
    let proxy = Respool::to_url(RESPOOL, &group.url()).args(&["--address-map", &map]).start();
    let mut conn = proxy.connect();
    let all_through_the_relay = |server: usize| {
        let here = conns_of_proxy(&mut group.connect(server));
        here > 0 && here == relays[server].open()
    };
    assert_eq!(conn.ask("SET k 1"), "+OK\r\n");
    assert!(all_through_the_relay(0));
    let primary = group.failover();
    assert_eq!(primary, 1);
    wait::until_true("the new primary to be written to", SOON, || {
        conn.ask("SET k 2") == "+OK\r\n" && group.connect(primary).ask("GET k") == "$1\r\n2\r\n"
    });
    wait::until_true("connections through the relay", SOON, || all_through_the_relay(primary));
}

/// Clients of several threads, each of which reads what it just wrote, in pipelines and one by one. Rounds go on where those
/// of an earlier call ended, since their counters are still there.
fn write_and_read(proxy: &Respool, clients: usize, rounds: Range<usize>) {
    thread::scope(|scope| {
        for thread in 0..8 {
            let rounds = rounds.clone();
            scope.spawn(move || {
                let mut conns: Vec<(Conn, String)> = (0..clients / 8)
                    .map(|n| (proxy.connect(), key_on(n as u16 % 3, (thread * 50 + n) as u16)))
                    .collect();
                for round in rounds {
                    for (conn, key) in &mut conns {
                        let value = format!("{round:04}");
                        let requests = [
                            request(&["SET", key, &value]),
                            request(&["GET", key]),
                            request(&["INCR", &format!("{{{key}}}n")]),
                        ];
                        let replies = conn.pipeline(&requests).expect("replies").concat();
                        let expected = format!("+OK\r\n$4\r\n{value}\r\n:{}\r\n", round + 1);
                        assert_eq!(String::from_utf8_lossy(&replies), expected);
                        assert_eq!(conn.ask(&format!("GET {key}")), format!("$4\r\n{value}\r\n"));
                    }
                }
            });
        }
    });
}

#[test]
fn a_server_has_as_many_connections_as_the_option_says() {
    // Two workers: none has a half, and each has one at least.
    for (option, expected) in [(None, 2), (Some("1"), 2), (Some("6"), 6), (Some("7"), 8)] {
        let server = RedisServer::start();
        let args: Vec<&str> =
            option.into_iter().flat_map(|n| ["--limits-conns-per-node", n]).collect();
        let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).start();
        write_and_read(&proxy, 200, 0..5);
        let conns: Vec<Conn> = (0..200)
            .map(|_| {
                let mut conn = proxy.connect();
                assert_eq!(conn.ask("EXISTS nothing"), ":0\r\n");
                conn
            })
            .collect();
        assert_eq!(conns_of_proxy(&mut server.connect()), expected, "{option:?}");
        // All of them are used: 200 clients spread evenly leave none idle.
        let list = server.connect().ask("CLIENT LIST");
        let busy = list
            .lines()
            .filter(|line| line.contains(" name=respool ") && line.contains(" cmd=exists "));
        assert_eq!(busy.count(), expected, "{option:?}: {list}");
        drop(conns);
    }
}

/// Requests that are sent on must not be overtaken by those behind them on another connection.
#[test]
fn order_holds_on_several_connections_while_slots_move() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &["--limits-conns-per-node", "6"]);
    let shuttle = cluster.reshard_loop(0..160, 0, 1);
    let checker = load(&proxy, &cluster, 1, 24);
    let (verdict, ()) = during(&checker, || {
        let begun = Instant::now();
        for run in (0..).map(|run| run * 5).take_while(|_| shuttle.moves() <= 120) {
            assert!(!shuttle.has_ended() && begun.elapsed() < Duration::from_secs(60));
            write_and_read(&proxy, 48, run..run + 5);
        }
        // Whoever looks at the keys in the end asks one node, which may have half a slot until then.
        shuttle.stop().expect("slots can be moved");
    });
    verdict.assert_faultless();
    for node in 0..3 {
        assert_eq!(conns_of_proxy(&mut cluster.node(node).connect()), 6, "node {node}");
    }
}

/// One read after the other; who answered how many, by node.
fn who_answers(cluster: &RedisCluster, proxy: &Respool, command: &str) -> BTreeMap<usize, u64> {
    cluster.reset_calls();
    let mut conn = proxy.connect();
    for _ in 0..12 {
        let reply = conn.ask(&format!("{command} k"));
        assert!(!reply.starts_with('-'), "{reply}");
    }
    let calls =
        (0..cluster.count()).map(|node| (node, cluster.node(node).calls(&command.to_lowercase())));
    calls.filter(|(_, calls)| *calls > 0).collect()
}

#[test]
fn commands_that_are_kept_to_the_primary_are_answered_there() {
    let cluster = RedisCluster::start(1, 2);
    let args = ["--reads-policy", "replica", "--reads-primary-commands", "get,TTL"];
    let proxy = front(&cluster, &args);
    assert_eq!(proxy.connect().ask("SET k v"), "+OK\r\n");
    for (command, primary) in [("GET", true), ("TTL", true), ("STRLEN", false), ("TYPE", false)] {
        let answered = who_answers(&cluster, &proxy, command);
        assert_eq!(answered.contains_key(&0), primary, "{command}: {answered:?}");
        assert_eq!(answered.values().sum::<u64>(), 12, "{command}: {answered:?}");
    }
}

#[test]
fn reads_stay_in_the_configured_zone() {
    let cluster = RedisCluster::start(1, 2);
    let address = |node: usize| cluster.node(node).endpoint().tcp();
    for here in [1, 2] {
        // The host says one thing for all, and one address says better.
        let zones = format!("127.0.0.1=there,{}=here", address(here));
        let args = ["--reads-policy", "zone", "--reads-zone", "here", "--reads-zones", &zones];
        let proxy = front(&cluster, &args);
        assert_eq!(proxy.connect().ask("SET k v"), "+OK\r\n");
        let answered = who_answers(&cluster, &proxy, "GET");
        assert_eq!(answered, BTreeMap::from([(here, 12)]));
    }
    // Without zones both replicas answer.
    let proxy = front(&cluster, &["--reads-policy", "zone", "--reads-zone", "here"]);
    let answered = who_answers(&cluster, &proxy, "GET");
    assert_eq!(answered.keys().copied().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn the_password_of_sentinels_comes_from_a_file() {
    let login = Login::with_password("of-servers");
    let group = SentinelGroup::with(1, 3).login(login).sentinel_password("of-sentinels").start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (servers, sentinels) =
        (file("servers", "of-servers\n"), file("sentinels", "of-sentinels\n"));
    let url =
        group.url().replace(":of-servers@", "").replace("?sentinel_password=of-sentinels", "");
    assert!(!url.contains("of-"), "{url}");
    let args = ["--upstream-password-file", &servers, "--sentinel-password-file", &sentinels];
    let proxy = Respool::to_url(RESPOOL, &url).args(&args).start();
    assert_eq!(proxy.connect().ask("SET k v"), "+OK\r\n");
    // The same as one of several shards, where each has its own.
    let other = RedisServer::start_with(&["--requirepass", "of-other"]);
    let shards = [
        format!("{url} name=a password_file={servers} sentinel_password_file={sentinels}"),
        format!("{} name=b password_file={}", other.endpoint().url(), file("other", "of-other")),
    ];
    let proxy = Respool::to_shards(RESPOOL, &shards).start();
    let mut conn = proxy.connect();
    for number in 0..40 {
        assert_eq!(conn.ask(&format!("SET key:{number} v")), "+OK\r\n");
    }
    assert_eq!(conn.ask("DBSIZE"), ":41\r\n", "both shards, and the key from before");
    // And without the file the sentinels tell nothing.
    let args = ["--upstream-password-file", &servers, "--timeouts-topology-wait-ms", "300"];
    let error = Respool::to_url(RESPOOL, &url).args(&args).start().connect().ask("GET k");
    assert!(error.contains("NOAUTH"), "{error}");
}
