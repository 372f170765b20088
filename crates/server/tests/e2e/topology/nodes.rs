//! Rows 10 to 16 and 25: nodes that move, come, go, or are there and do not answer.
//!
//! A relay before each node makes the partitions: what the cluster's own bus sees stays whole, so no
//! replica takes over and the proxy is alone with the fault.
//!
//! Invariant: one node that is out of reach takes its own keys away and nobody else's.

use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::{RedisCluster, SlotMove};
use testkit::relay::End;
use testkit::{Conn, Respool, wait};

use super::watch::{Tally, watch};
use super::{during, front, key_on, load};
use crate::setup::SOON;

/// What an operator who wants quick answers sets.
const IMPATIENT: [&str; 4] = ["--timeouts-request-ms", "1000", "--timeouts-connect-ms", "500"];
/// How long a recovery may take.
const RECOVERY: Duration = Duration::from_secs(2);

fn relayed() -> (RedisCluster, Respool) {
    let cluster = RedisCluster::with(3, 0).relays().start();
    let proxy = front(&cluster, &IMPATIENT);
    (cluster, proxy)
}

/// One client for each worker, and some more.
fn clients(proxy: &Respool) -> Vec<Conn> {
    (0..4).map(|_| proxy.connect()).collect()
}

/// How long it takes until all clients are served with the keys of all primaries of the start.
fn all_served(conns: &mut [Conn]) -> Duration {
    let begun = Instant::now();
    for conn in conns {
        for nth in 0..3 {
            wait::until_true("the keys to be served", SOON, || {
                conn.ask(&format!("SET {} x", key_on(nth, 3))) == "+OK\r\n"
            });
        }
    }
    begun.elapsed()
}

// The node has no replica, so what it had is gone; what counts is that it is found.
#[test]
fn row_10_a_node_at_a_new_address_is_found() {
    let mut cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let mut conns = clients(&proxy);
    all_served(&mut conns);
    cluster.move_node(1);
    cluster.wait_ok();
    let took = all_served(&mut conns);
    assert!(took < RECOVERY, "{took:?}");
    // And then the others, one after the other: no seed of the start is left.
    for node in [0, 2] {
        cluster.move_node(node);
        cluster.wait_ok();
        let took = all_served(&mut conns);
        assert!(took < RECOVERY, "node {node}: {took:?}");
    }
}

#[test]
fn row_10_nodes_come_and_go_under_load() {
    let mut cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &["--timeouts-topology-period-ms", "500"]);
    let checker = load(&proxy, &cluster, 0, 8);
    let fds = |proxy: &Respool| proxy.process().fds();
    let (verdict, ()) = during(&checker, || {
        // Clients come and go, and at the start not all are there, nor all connections of all workers.
        let (mut before, mut grown_at) = (0, Instant::now());
        while grown_at.elapsed() < Duration::from_secs(2) {
            thread::sleep(Duration::from_millis(20));
            let now = fds(&proxy);
            if now > before {
                (before, grown_at) = (now, Instant::now());
            }
        }
        let newcomer = cluster.add_node();
        cluster.wait_ok();
        let move_to = |node: usize| {
            for slot in 0..60 {
                let moved = cluster.begin_move(slot, node).and_then(SlotMove::finish);
                moved.unwrap_or_else(|error| panic!("slot {slot}: {error}"));
            }
        };
        move_to(newcomer);
        let with_newcomer = fds(&proxy);
        assert!(with_newcomer > before, "{with_newcomer} descriptors, {before} before");
        move_to(0);
        cluster.wait_ok();
        // A worker that had no request for these slots since hears of it by period: 0.5 s, and up
        // to a second at random. Before that the node must not be switched off.
        thread::sleep(Duration::from_millis(1_700));
        cluster.remove_node(newcomer);
        // Connections to a node that nobody names any more go.
        wait::until_true("its connections to go", SOON, || fds(&proxy) <= before);
    });
    verdict.assert_faultless();
}

// Nothing comes back and nothing is refused: only the proxy's own timeouts tell.
#[test]
fn row_13_a_silent_partition_ends_requests_in_time_and_spares_the_others() {
    let (cluster, proxy) = relayed();
    let relay = cluster.node(1).relay();
    let (tallies, lifted) = watch(&proxy, 8, || {
        relay.set(|faults| faults.blackhole = true);
        thread::sleep(Duration::from_millis(3_500));
        relay.set(|faults| faults.blackhole = false);
        let lifted = Instant::now();
        let took = all_served(&mut clients(&proxy));
        assert!(took < RECOVERY, "{took:?}");
        lifted
    });
    let [first, hit, third] = &tallies;
    hit.assert_sound();
    assert_eq!(hit.lost, 0, "the node kept what it acknowledged");
    assert!(hit.slowest < Duration::from_secs(2), "request timeout 1 s, but {:?}", hit.slowest);
    assert!(!hit.write_errors.is_empty(), "it was out of reach");
    assert!(hit.last_error_after(lifted) < RECOVERY);
    [first, third].into_iter().for_each(Tally::assert_untouched);
    assert!(first.slowest < Duration::from_millis(500), "held up: {:?}", first.slowest);
}

// The other clients of the same proxy never ask the node that hangs. They must not notice.
#[test]
fn row_16_a_slow_node_does_not_hold_others_up() {
    let (cluster, proxy) = relayed();
    cluster.node(2).relay().set(|faults| faults.latency = Duration::from_millis(100));
    thread::scope(|scope| {
        for client in 0..6 {
            let proxy = &proxy;
            scope.spawn(move || {
                let (fast, slow) = (key_on(client % 2, 300 + client), key_on(2, 300 + client));
                let mut conn = proxy.connect();
                let begun = Instant::now();
                if client < 3 {
                    for round in 0..300 {
                        assert_eq!(conn.ask(&format!("SET {fast} {round}")), "+OK\r\n");
                    }
                    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
                    return;
                }
                // In one pipeline the quick replies wait for the slow one before them.
                for round in 1..=5 {
                    let ask = |word: &str, key: &str| testkit::frames::request(&[word, key]);
                    let requests = [
                        ask("INCR", &slow),
                        ask("INCR", &fast),
                        ask("INCR", &slow),
                        ask("GET", &fast),
                    ];
                    let replies = conn.pipeline(&requests).expect("replies").concat();
                    let digits = round.to_string().len();
                    let expected = format!(
                        ":{}\r\n:{round}\r\n:{}\r\n${digits}\r\n{round}\r\n",
                        2 * round - 1,
                        2 * round
                    );
                    assert_eq!(String::from_utf8_lossy(&replies), expected);
                }
            });
        }
    });
}

#[test]
fn row_14_a_node_that_refuses_is_told_at_once_and_not_stormed() {
    let (mut cluster, proxy) = relayed();
    let mut conns = clients(&proxy);
    all_served(&mut conns);
    cluster.kill(2);
    cluster.node(2).relay().end_all(End::Reset);
    let key = key_on(2, 3);
    let conn = &mut conns[0];
    wait::until_true("the loss to be noticed", SOON, || {
        conn.ask(&format!("GET {key}")).starts_with('-')
    });
    let attempts = cluster.node(2).relay().accepted();
    let begun = Instant::now();
    let (mut count, mut slowest) = (0, Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(1) {
        let asked = Instant::now();
        let error = conn.ask(&format!("GET {key}"));
        assert!(error.starts_with('-'), "{error}");
        slowest = slowest.max(asked.elapsed());
        count += 1;
    }
    let attempts = cluster.node(2).relay().accepted() - attempts;
    println!("{count} errors, the slowest after {slowest:?}; {attempts} attempts to connect");
    assert!(count > 100, "{count} errors in a second");
    assert!(slowest < Duration::from_millis(200), "{slowest:?}");
    // Two workers with a backoff that begins at 50 ms.
    assert!(attempts <= 40, "{attempts} attempts in a second");

    cluster.restart(2);
    cluster.wait_ok();
    // The backoff has grown meanwhile; it must not be waited for when the cluster names the node.
    let took = all_served(&mut clients(&proxy));
    assert!(took < RECOVERY, "{took:?}");
}

// Two of three primaries are gone: the third one refuses as well, since its cluster is down.
#[test]
fn row_12_a_cluster_that_is_down_is_told_and_does_not_pile_up_requests() {
    let mut cluster = RedisCluster::start(3, 0);
    // Down for a while, the nodes must not be left alone for longer than the recovery that is asked for.
    let mut proxy = front(&cluster, &["--timeouts-reconnect-max-ms", "500"]);
    let mut conns = clients(&proxy);
    all_served(&mut conns);
    let rss = proxy.process().rss_bytes();
    for node in [0, 1] {
        cluster.kill(node);
    }
    let alive = key_on(2, 3);
    let mut direct = cluster.node(2).connect();
    wait::until_true("the cluster to be down", SOON, || {
        direct.ask(&format!("GET {alive}")).starts_with("-CLUSTERDOWN")
    });
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..8 {
            let (proxy, alive) = (&proxy, &alive);
            scope.spawn(move || {
                let mut conn = proxy.connect();
                for dead in [key_on(0, 3), key_on(1, 3)] {
                    let asked = Instant::now();
                    let error = conn.ask(&format!("GET {dead}"));
                    assert!(error.starts_with('-'), "{error}");
                    let took = asked.elapsed();
                    assert!(took < Duration::from_millis(500), "{took:?}: {error}");
                }
                // It may come back any moment, so the request is tried for a while.
                let error = conn.ask(&format!("GET {alive}"));
                assert!(error.starts_with('-') && error.contains("CLUSTERDOWN"), "{error}");
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let growth = proxy.process().rss_bytes().saturating_sub(rss);
    assert!(growth < 32 << 20, "grew by {growth} bytes");
    proxy.assert_alive();

    for node in [0, 1] {
        cluster.restart(node);
    }
    cluster.wait_ok();
    let took = all_served(&mut conns);
    assert!(took < RECOVERY, "{took:?}");
}

// Row 6 without reads from replicas: a replica's death concerns nobody.
#[test]
fn row_06_the_death_of_replicas_is_not_seen() {
    let mut cluster = RedisCluster::start(3, 1);
    let proxy = front(&cluster, &[]);
    let checker = load(&proxy, &cluster, 0, 8);
    let (verdict, ()) = during(&checker, || {
        cluster.kill(3);
        cluster.pause(4);
        thread::sleep(Duration::from_millis(2_500));
        cluster.resume(4);
        cluster.restart(3);
        cluster.wait_ok();
    });
    verdict.assert_faultless();
}

// Row 6 with reads from replicas: the values never change, so every read has one right answer,
// whoever gives it.
#[test]
fn row_06_reads_go_to_replicas_and_back_to_the_primary_when_these_are_gone() {
    let mut cluster = RedisCluster::start(3, 1);
    let proxy = front(&cluster, &[&["--reads-policy", "prefer-replica"][..], &IMPATIENT].concat());
    let keys = [0, 1, 2].map(|nth| key_on(nth, 3));
    let mut conn = proxy.connect();
    for (nth, key) in keys.iter().enumerate() {
        assert_eq!(conn.ask(&format!("SET {key} v")), "+OK\r\n");
        let mut direct = cluster.node(nth).connect();
        // WAIT speaks of the writes of its own connection.
        assert_eq!(direct.ask(&format!("SET {key} v")), "+OK\r\n");
        assert_eq!(direct.ask("WAIT 1 20000"), ":1\r\n");
    }
    let mut conns = clients(&proxy);
    let read_all = |conns: &mut Vec<Conn>, begun: Instant| {
        let mut late = Vec::new();
        for conn in conns {
            for key in &keys {
                let reply = conn.ask(&format!("GET {key}"));
                let good = reply == "$1\r\nv\r\n";
                assert!(good || reply.starts_with('-'), "{reply}");
                if !good {
                    late.push((begun.elapsed(), reply));
                }
            }
        }
        late
    };
    cluster.reset_calls();
    wait::until_true("reads from all replicas", SOON, || {
        assert!(read_all(&mut conns, Instant::now()).is_empty());
        (3..6).all(|replica| cluster.node(replica).calls("get") > 0)
    });
    // Writes never go there: a replica would refuse them.
    assert_eq!(conn.ask(&format!("SET {} v", keys[0])), "+OK\r\n");

    // One is killed, one hangs. A read that hangs fails at the request timeout, and after that
    // the replica is passed over.
    cluster.kill(3);
    cluster.pause(4);
    let begun = Instant::now();
    let mut late = Vec::new();
    while begun.elapsed() < Duration::from_millis(3_000) {
        late.extend(read_all(&mut conns, begun));
        thread::sleep(Duration::from_millis(5));
    }
    println!("errors: {late:?}");
    assert!(late.iter().all(|(at, _)| *at < Duration::from_millis(2_500)), "{late:?}");
    assert!(late.len() <= 3 * conns.len(), "{} reads failed", late.len());
    cluster.resume(4);
    cluster.restart(3);
}

// Connections of the proxy are closed by the servers: by their idle timeout, by CLIENT KILL.
#[test]
fn idle_closes_are_no_failure() {
    let cluster = RedisCluster::with(3, 0).args(&["--timeout", "1"]).start();
    let proxy = front(&cluster, &[]);
    let mut conns = clients(&proxy);
    all_served(&mut conns);
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(1_500));
        for conn in &mut conns {
            for nth in 0..3 {
                assert_eq!(conn.ask(&format!("SET {} y", key_on(nth, 3))), "+OK\r\n");
            }
        }
    }
}

// Row 25: what a server says of its own accord is passed on as it is, or waited for where that is
// safe.
#[test]
fn row_25_limits_of_a_node_reach_the_client_in_the_words_of_the_node() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let mut conn = proxy.connect();
    all_served(&mut clients(&proxy));
    let keys = [0, 1, 2].map(|nth| key_on(nth, 3));

    let mut node = cluster.node(1).connect();
    node.ask("CONFIG SET maxmemory 1");
    let error = conn.ask(&format!("SET {} {}", keys[1], "x".repeat(1_000)));
    assert!(error.starts_with("-OOM"), "{error}");
    assert_eq!(conn.ask(&format!("SET {} x", keys[0])), "+OK\r\n");
    // Half of it failed, and that is what is said.
    let reply = conn.ask(&format!("MSET {} half {} half {} half", keys[0], keys[1], keys[2]));
    assert!(reply.starts_with("-OOM"), "{reply}");
    assert_eq!(conn.ask(&format!("GET {}", keys[0])), "$4\r\nhalf\r\n");
    node.ask("CONFIG SET maxmemory 0");
    assert_eq!(conn.ask(&format!("SET {} x", keys[1])), "+OK\r\n");

    node.ask("CONFIG SET busy-reply-threshold 50");
    let mut looping = proxy.connect();
    looping.send_command(&["EVAL", "while true do end", "1", &keys[1]]).expect("script");
    let mut killer = cluster.node(1).connect();
    wait::until_true("the script to run", SOON, || killer.ask("PING").starts_with("-BUSY"));
    // The other nodes are as quick as before.
    for key in [&keys[0], &keys[2]] {
        let begun = Instant::now();
        assert_eq!(conn.ask(&format!("SET {key} x")), "+OK\r\n");
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
    // Through the proxy, which has to find the node that is busy.
    let reply = proxy.connect().ask("SCRIPT KILL");
    assert_eq!(reply, "+OK\r\n");
    assert!(looping.reply().expect("its end").starts_with(b"-"));

    // A new password: connections that are there go on, new ones are refused with the reason.
    cluster.tell_all(&["CONFIG", "SET", "requirepass", "new"]);
    assert_eq!(conn.ask(&format!("SET {} x", keys[0])), "+OK\r\n");
    let mut admin = Conn::to(cluster.node(0).endpoint());
    assert_eq!(admin.ask("AUTH new"), "+OK\r\n");
    admin.ask("CLIENT KILL TYPE normal SKIPME yes");
    wait::until_true("the reason", SOON, || {
        conn.ask(&format!("SET {} x", keys[0])).contains("NOAUTH")
    });
    admin.command(&["CONFIG", "SET", "requirepass", ""]).expect("no password again");
    let begun = Instant::now();
    wait::until_true("the node to be served", SOON, || {
        conn.ask(&format!("SET {} x", keys[0])) == "+OK\r\n"
    });
    println!("served {:?} after the password was right again", begun.elapsed());
}

// A node that reads its data back answers LOADING to everything. It did nothing, so the requests can
// wait for it, in order.
#[test]
fn row_25_a_node_that_loads_is_waited_for() {
    // Few naps, and long ones: each is over only when the machine has a core to spare again.
    const KEYS: usize = 40;
    const NAP_US: u32 = 25_000;
    let cluster = RedisCluster::with(3, 0)
        .node_timeout_ms(15_000)
        .args(&["--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"])
        .args(&["--rdbcompression", "no"])
        .start();
    let proxy = front(&cluster, &[]);
    let mut conn = proxy.connect();
    let key = key_on(0, 3);
    // It looks at its clients after each KiB of its data, so after each key.
    let value = "v".repeat(2_000);
    let filler: Vec<String> = (0..KEYS).map(|n| format!("{{{key}}}{n} {value}")).collect();
    assert_eq!(conn.ask(&format!("MSET {}", filler.join(" "))), "+OK\r\n");

    // A second in all.
    let mut node = cluster.node(0).connect();
    node.ask(&format!("CONFIG SET key-load-delay {NAP_US}"));
    node.send_command(&["DEBUG", "RELOAD"]).expect("sent");
    let mut direct = cluster.node(0).connect();
    wait::until_true("the node to load", SOON, || {
        direct.ask(&format!("GET {key}")).starts_with("-LOADING")
    });
    let begun = Instant::now();
    let other = key_on(1, 3);
    let last = format!("{{{key}}}{}", KEYS - 1);
    let requests: [&[&str]; 5] =
        [&["INCR", &key], &["SET", &other, "x"], &["INCR", &key], &["GET", &last], &["INCR", &key]];
    let requests = requests.map(testkit::frames::request);
    let replies = conn.pipeline(&requests).expect("replies").concat();
    let expected = format!(":1\r\n+OK\r\n:2\r\n$2000\r\n{value}\r\n:3\r\n");
    assert_eq!(String::from_utf8_lossy(&replies), expected);
    println!("waited {:?}", begun.elapsed());
    assert_eq!(node.reply().expect("loaded"), b"+OK\r\n");
    assert!(begun.elapsed() > Duration::from_millis(200), "it did not load for long enough");
}
