//! Rows 6, 10, 11 and 12: replicas that die, nodes that come, go and move, a start before the servers,
//! and the loss of most of a cluster.
//!
//! Invariant: what is still there serves, and what comes back is found without a restart.

use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::{Failover, RedisCluster, SlotMove};
use testkit::{Conn, wait};

use crate::judge::Expect;
use crate::load::Load;
use crate::run::run;
use crate::stage::{
    IMPATIENT, SOON, Scale, clients, front, key_on, quick_six, served, six, three_that_persist,
};

/// How long a recovery may take.
const RECOVERY: Duration = Duration::from_secs(2);
/// How soon a cluster that is down is told of.
const AT_ONCE: Duration = Duration::from_millis(50);

// A read that was under way to the dead replica, or to the one that hangs, is asked again of another
// node: it only reads. The client of the one that hangs waits for the timeout first.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_06_replicas_die_and_hang_while_they_are_read_from() {
    let scale = Scale::long();
    let mut cluster = six();
    let options = ["--reads-policy", "prefer-replica", "--timeouts-request-ms", "1000"];
    let mut proxy = front(&cluster, &options);
    // A replica may be behind; what is written must be right in the end all the same.
    let load = Load::usual(&proxy, &cluster, 0, scale).each(|checker| {
        checker.stale_reads = true;
        checker.deadline = Duration::from_secs(2);
    });
    let report = run(&mut proxy, load, scale, |story| {
        cluster.kill(3);
        cluster.pause(4);
        // From here on the primaries serve what their replicas do not.
        story.healed();
        thread::sleep(scale.phase);
        cluster.resume(4);
        cluster.restart(3);
        cluster.wait_ok();
    });
    let reads: u64 = report.groups.iter().map(|(_, verdict)| verdict.stale).sum();
    println!("{reads} reads of another time");
    Expect { recovery: RECOVERY, ..Expect::hits(&[1]) }.judge(&report);
}

// Every node of the start ends up somewhere else, one after the other, and nobody sees anything.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_10_nodes_come_and_go_and_all_of_them_move() {
    const PERIOD: Duration = Duration::from_secs(1);
    let scale = Scale::long();
    let mut cluster = quick_six();
    // One node stays where it is, without a slot, to be asked in the end where everything is.
    let judge = cluster.add_node();
    cluster.wait_ok();
    let options = [&IMPATIENT[..], &["--timeouts-topology-period-ms", "1000"]].concat();
    let mut proxy = front(&cluster, &options);
    let load = Load::usual(&proxy, &cluster, judge, scale);
    // A node may be switched off when the proxy has had the time to hear that it is not needed.
    let learn = || thread::sleep(PERIOD + Duration::from_secs(1));
    let report = run(&mut proxy, load, scale, |_| {
        let newcomer = cluster.add_node();
        cluster.wait_ok();
        for target in [newcomer, 0] {
            for slot in 0..scale.of_thirty(300, 60) as u16 {
                cluster.begin_move(slot, target).and_then(SlotMove::finish).expect("moved");
            }
            cluster.wait_ok();
        }
        learn();
        cluster.remove_node(newcomer);
        for pair in 0..3 {
            cluster.move_node(pair + 3);
            cluster.wait_ok();
            cluster.failover(pair + 3, Failover::Graceful);
            cluster.wait_ok();
            learn();
            cluster.move_node(pair);
            cluster.wait_ok();
        }
        learn();
    });
    let documented = super::MOVED_AWAY.to_vec();
    // Writes are held while a replica takes over, and nobody sees more of it than that.
    Expect { slow: vec![0, 1, 2], nodes_met: 3, documented, ..Expect::default() }.judge(&report);
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_11_the_proxy_is_there_before_its_cluster() {
    let scale = Scale::long();
    let mut cluster = RedisCluster::start(3, 0);
    for node in 0..3 {
        cluster.kill(node);
    }
    let wait_ms = ["--timeouts-topology-wait-ms", "500", "--timeouts-reconnect-max-ms", "500"];
    let mut proxy = front(&cluster, &[&IMPATIENT[..], &wait_ms].concat());
    let rss = proxy.process().rss_bytes();
    let (mut told, end) = (0, Instant::now() + scale.phase);
    let mut conns = clients(&proxy);
    while Instant::now() < end {
        for conn in &mut conns {
            let asked = Instant::now();
            let error = conn.ask(&format!("SET {} x", key_on(told % 3, 7)));
            assert!(error.starts_with("-CLUSTERDOWN"), "{error}");
            assert!(asked.elapsed() < Duration::from_millis(1_500), "{:?}", asked.elapsed());
            told += 1;
        }
    }
    println!("{told} errors");
    let growth = proxy.process().rss_bytes().saturating_sub(rss);
    assert!(growth < 8 << 20, "grew by {growth} bytes while it waited");
    for node in 0..3 {
        cluster.restart(node);
    }
    cluster.wait_ok();
    let took = served(&mut conns, &[0, 1, 2]);
    assert!(took < RECOVERY, "{took:?} after the cluster was whole");
    // And from here on it is as if nothing had been.
    let load = Load::usual(&proxy, &cluster, 0, scale);
    let report = run(&mut proxy, load, scale, |_| ());
    Expect::default().judge(&report);
}

/// How long requests for these keys take to be refused, sorted; and what the last one was told.
fn refused_by(conn: &mut Conn, keys: &[String], end: Instant) -> (Vec<Duration>, String) {
    let (mut times, mut last) = (Vec::new(), String::new());
    while Instant::now() < end {
        for key in keys {
            let asked = Instant::now();
            let reply = conn.ask(&format!("GET {key}"));
            if reply.starts_with('-') {
                times.push(asked.elapsed());
                last = reply;
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    times.sort();
    (times, last)
}

// The servers write their data to files, so that it is there again after their death.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_12_two_of_three_primaries_are_gone() {
    let scale = Scale::long();
    let mut cluster = three_that_persist();
    // Left alone for longer than this a node would be found later than is asked for.
    let options = [&IMPATIENT[..], &["--timeouts-reconnect-max-ms", "500"]].concat();
    let mut proxy = front(&cluster, &options);
    let load = Load::usual(&proxy, &cluster, 2, scale);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let keys = [0, 1].map(|nth| key_on(nth, 4_500));
    let report = run(&mut proxy, load, scale, |story| {
        cluster.kill(0);
        cluster.kill(1);
        let mut direct = cluster.node(2).connect();
        wait::until_true("the cluster to be down", SOON, || {
            direct.ask(&format!("GET {}", key_on(2, 7))).starts_with("-CLUSTERDOWN")
        });
        let (times, last) = refused_by(&mut conns[0], &keys, Instant::now() + scale.phase);
        let middle = times[times.len() / 2];
        println!("{} errors, half after {middle:?}, the last one: {last}", times.len());
        assert!(middle < AT_ONCE, "{middle:?}");
        cluster.restart(0);
        cluster.restart(1);
        cluster.wait_ok();
        story.healed();
        let took = served(&mut conns, &[0, 1, 2]);
        assert!(took < RECOVERY, "{took:?}");
    });
    let texts = vec!["-ERR respool: ", "-CLUSTERDOWN"];
    Expect { texts, ..Expect::hits(&[0, 1, 2]) }.judge(&report);
}
