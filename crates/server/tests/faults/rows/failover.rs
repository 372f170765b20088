//! Rows 1 to 5: a primary goes, a replica takes over.
//!
//! Where Redis itself may lose what it acknowledged, the moment is bracketed (`Losses`): it begins
//! when the replica has everything, right before the fault, and ends before anybody else is elected.
//!
//! Invariant: nothing that was acknowledged outside of a bracket is lost, and nothing is done twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::{Failover, RedisCluster};
use testkit::wait;

use crate::direct::count;
use crate::judge::Expect;
use crate::load::Load;
use crate::run::{Story, run};
use crate::stage::{
    IMPATIENT, SOON, Scale, clients, front, key_on, quick_six, served, settle_replicas, six,
};

/// How long after the fault an acknowledgement may still be on its way to a client that is slow to
/// look at it. Far below any election.
const ACK_UNDER_WAY: Duration = Duration::from_millis(400);
/// How long the election may take in all, with a node timeout of 5 s.
const ELECTION: Duration = Duration::from_secs(10);
/// How long the proxy may take to notice.
const NOTICED: Duration = Duration::from_secs(2);
/// What may be acknowledged within a bracket: a batch of each client.
const LOST_MAX: u64 = 2_500;
/// What an error must say: which node, or that the cluster serves the slot not.
const DOWN: [&str; 2] = ["-ERR respool: upstream ", "-CLUSTERDOWN"];

/// Takes a primary out of service in such a way that only what it acknowledges in these moments can
/// be lost.
fn strike(
    cluster: &mut RedisCluster,
    story: &Story,
    primary: usize,
    fault: fn(&mut RedisCluster, usize),
) {
    story.losses.begin();
    settle_replicas(cluster, primary, &key_on(primary, 4_000));
    fault(cluster, primary);
    thread::sleep(ACK_UNDER_WAY);
    story.losses.end();
}

/// Waits until the replica of a primary of the start owns its slots and says that the cluster is
/// whole.
fn wait_promoted(cluster: &RedisCluster, primary: usize) {
    let slot = testkit::cluster::slot_of(key_on(primary, 0).as_bytes());
    let successor = cluster.wait_new_owner(slot, primary);
    wait::until_true("a whole cluster", SOON, || {
        cluster.node(successor).connect().ask("CLUSTER INFO").contains("cluster_state:ok")
    });
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_01_a_primary_is_killed_and_its_replica_promoted() {
    let scale = Scale::long();
    let mut cluster = six();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 1, scale);
    let report = run(&mut proxy, load, scale, |story| {
        strike(&mut cluster, story, 0, RedisCluster::kill);
        wait_promoted(&cluster, 0);
        story.healed();
        let took = story.begun.elapsed();
        println!("promoted after {took:?}");
        assert!(took < ELECTION, "{took:?}");
        // It comes back without data and becomes a replica.
        thread::sleep(NOTICED);
        cluster.restart(0);
        cluster.wait_ok();
    });
    let texts = DOWN.to_vec();
    Expect { texts, lost_max: LOST_MAX, nodes_met: 3, ..Expect::hits(&[0]) }.judge(&report);
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_02_a_primary_hangs_and_wakes_up_again() {
    let scale = Scale::long();
    let mut cluster = six();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 1, scale);
    let hang = Duration::from_secs(scale.of_thirty(20, 10));
    let report = run(&mut proxy, load, scale, |story| {
        strike(&mut cluster, story, 0, RedisCluster::pause);
        wait_promoted(&cluster, 0);
        story.healed();
        println!("promoted after {:?}", story.begun.elapsed());
        thread::sleep(hang.saturating_sub(story.begun.elapsed()));
        // What it had been sent meanwhile is answered now, to nobody.
        cluster.resume(0);
        cluster.wait_ok();
    });
    let texts = DOWN.to_vec();
    Expect { texts, lost_max: LOST_MAX, nodes_met: 3, ..Expect::hits(&[0]) }.judge(&report);
}

// The load tells the proxy of the new primary soon; but what was under way to the old one, and all
// that came before the table was read again, has only the lost connection to go by.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_03_the_old_primary_dies_right_after_a_failover() {
    let scale = Scale::long();
    let mut cluster = quick_six();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 1, scale);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let mut deaths = Vec::new();
    let report = run(&mut proxy, load, scale, |_| {
        for round in 0..scale.of_thirty(6, 2) as usize {
            let (pair, turn) = (round % 3, round / 3 % 2);
            let (old, new) = if turn == 0 { (pair, pair + 3) } else { (pair + 3, pair) };
            cluster.failover(new, Failover::Graceful);
            cluster.kill(old);
            deaths.push(Instant::now());
            let took = served(&mut conns, &[pair]);
            println!("served again after {took:?}");
            assert!(took < NOTICED, "{took:?}");
            cluster.restart(old);
            cluster.wait_ok();
            thread::sleep(Duration::from_secs(2));
        }
    });
    // A failover without a loss: no bracket.
    Expect { texts: DOWN.to_vec(), nodes_met: 3, ..Expect::hits(&[0, 1, 2]) }.judge(&report);
    let failed = report.groups.iter().flat_map(|(_, verdict)| &verdict.batches);
    for batch in failed.filter(|batch| batch.failed > 0) {
        let near =
            |death: &Instant| batch.begun < *death + NOTICED && batch.ended() + NOTICED > *death;
        assert!(deaths.iter().any(near), "an error that no death explains");
    }
}

/// What the guide to failovers names: of those who wait in a blocking command when their primary becomes a replica.
fn handed_over() -> Vec<&'static str> {
    super::MOVED_AWAY.iter().copied().chain(["-UNBLOCKED force unblock"]).collect()
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_04_graceful_failovers_in_a_loop() {
    let scale = Scale::long();
    let cluster = quick_six();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 1, scale);
    let report = run(&mut proxy, load, scale, |_| {
        for round in 0..scale.of_thirty(20, 4) as usize {
            let begun = Instant::now();
            // Each node once, and then again: one that stands for election twice within four node
            // timeouts counts the votes of the first time (`failover_auth_count`, Redis 7.0).
            cluster.failover((round + 3) % 6, Failover::Graceful);
            cluster.wait_ok();
            thread::sleep(Duration::from_secs(3).saturating_sub(begun.elapsed()));
        }
    });
    // Each primary holds its clients' writes for a moment, until its successor has everything. Nothing
    // may fail or be lost, and nobody is told anything, with the one exception that the
    // guide names: bytes that were streamed away. A message that is published before its listener is at the successor is
    // lost, as it is for a client that subscribes there itself.
    let documented = handed_over();
    Expect { gaps: true, slow: vec![0, 1, 2], nodes_met: 3, documented, ..Expect::default() }
        .judge(&report);
}

// For a moment there are two primaries, and what the old one acknowledges then is lost, whoever asks
// it. The bracket is that moment: from the command until all nodes agree.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_05_a_takeover_with_the_primary_alive() {
    let scale = Scale::long();
    let cluster = six();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 1, scale);
    let mut conns = clients(&proxy);
    let report = run(&mut proxy, load, scale, |story| {
        for round in 0..scale.of_thirty(6, 3) as usize {
            let (pair, turn) = (round % 3, round / 3 % 2);
            let (old, new) = if turn == 0 { (pair, pair + 3) } else { (pair + 3, pair) };
            story.losses.begin();
            settle_replicas(&cluster, old, &key_on(pair, 4_000));
            cluster.failover(new, Failover::Takeover);
            cluster.wait_agreed();
            thread::sleep(ACK_UNDER_WAY);
            story.losses.end();
            let took = served(&mut conns, &[pair]);
            assert!(took < NOTICED, "the table is stale after {took:?}");
            cluster.wait_ok();
            thread::sleep(Duration::from_secs(1));
        }
    });
    let documented = handed_over();
    // What listeners may miss is as in row 4.
    let expect =
        Expect { gaps: true, slow: vec![0, 1, 2], nodes_met: 3, documented, ..Expect::default() };
    Expect { lost_max: LOST_MAX * scale.of_thirty(6, 3), ..expect }.judge(&report);
}

// Matrix: the loss through the proxy is at most that of a direct client. Which request is under way in the moment of the takeover
// is chance, so each client may lose one more of them each time.
#[test]
#[ignore = "with the rows: make test-faults"]
fn row_05_a_takeover_costs_no_more_than_a_direct_client_loses() {
    const CLIENTS: u16 = 4;
    let scale = Scale::long();
    let cluster = six();
    let proxy = front(&cluster, &IMPATIENT);
    served(&mut clients(&proxy), &[0, 1, 2]);
    let rounds = scale.of_thirty(6, 2);
    let (direct, through) = (cluster.endpoints(), vec![proxy.endpoint().clone()]);
    let stop = AtomicBool::new(false);
    // The same slot for one of each, so that the same nodes decide of both.
    let pairs: Vec<[String; 2]> = (0..CLIENTS)
        .map(|number| ["direct", "through"].map(|way| format!("{{{}}}{way}", key_on(0, number))))
        .collect();
    let acked: Vec<[u64; 2]> = thread::scope(|scope| {
        let stopped = Stop(&stop);
        let counts: Vec<_> = pairs
            .iter()
            .map(|[one, other]| {
                let (direct, through, stop) = (&direct, &through, &stop);
                let one = scope.spawn(move || count(direct, one, stop));
                [one, scope.spawn(move || count(through, other, stop))]
            })
            .collect();
        for round in 0..rounds as usize {
            thread::sleep(Duration::from_secs(1));
            cluster.failover(if round % 2 == 0 { 3 } else { 0 }, Failover::Takeover);
            cluster.wait_agreed();
            cluster.wait_ok();
        }
        drop(stopped);
        counts.into_iter().map(|pair| pair.map(|count| count.join().expect("a client"))).collect()
    });
    let owner = cluster.owner_of(testkit::cluster::slot_of(key_on(0, 0).as_bytes()));
    let mut judge = cluster.node(owner).connect();
    let mut lost = [0, 0];
    for (pair, acked) in pairs.iter().zip(&acked) {
        for way in [0, 1] {
            let there = judge.ask(&format!("GET {}", pair[way]));
            let there: u64 = there.lines().nth(1).and_then(|n| n.parse().ok()).expect("a number");
            lost[way] += acked[way].saturating_sub(there);
        }
    }
    let sent = [0, 1].map(|way| acked.iter().map(|acked| acked[way]).sum::<u64>());
    println!(
        "{rounds} takeovers, {sent:?} acknowledged directly and through the proxy, lost {lost:?}"
    );
    // A direct client asks and waits, and so do those of the proxy: they are as quick.
    assert!(sent[1] * 2 > sent[0], "the proxy's clients were not served: {sent:?}");
    assert!(lost[1] <= lost[0] + rounds * u64::from(CLIENTS), "lost {lost:?}");
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

// What a greeting asks for must not depend on one primary: whoever connects while that one is away
// has the others, and keys on them.
#[test]
#[ignore = "with the rows: make test-faults"]
fn row_01_new_clients_greet_while_a_primary_is_away() {
    for dead in 0..3 {
        let mut cluster = RedisCluster::with(3, 0).partial_coverage().start();
        let proxy = front(&cluster, &IMPATIENT);
        served(&mut clients(&proxy), &[0, 1, 2]);
        cluster.kill(dead);
        for greeting in ["HELLO 2", "HELLO 3"] {
            for conn in &mut clients(&proxy) {
                let reply = conn.ask(greeting);
                assert!(!reply.starts_with('-'), "{greeting} without primary {dead}: {reply}");
                let key = key_on((dead + 1) % 3, 7);
                assert_eq!(conn.ask(&format!("SET {key} x")), "+OK\r\n");
            }
        }
    }
}
