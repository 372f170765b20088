//! Rows 1 to 5: a primary goes, a replica takes over.
//!
//! Where the servers lose nothing (a graceful failover) no client may see anything at all. Where a
//! primary dies, its own keys are out of service until the cluster has elected a successor; the
//! proxy must add next to nothing to that, must not repeat a write whose fate is unknown, and the
//! keys of others must not be touched.
//!
//! Invariant: whatever happens, no INCR is executed twice.

use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::{Failover, RedisCluster};

use super::watch::watch;
use super::{HOLD, during, front, key_on, load};
use crate::setup::{SOON, long};

/// How long the proxy may take to notice what the cluster has settled.
const NOTICED: Duration = Duration::from_secs(2);
/// A request timeout below the cluster's own time to notice a hung primary.
const IMPATIENT: [&str; 2] = ["--timeouts-request-ms", "1000"];
/// Clients that count.
const CLIENTS: u16 = 10;

/// Three primaries with a replica each; replica of primary n is n + 3.
fn six() -> RedisCluster {
    RedisCluster::with(3, 1).node_timeout_ms(1_000).start()
}

// The old primary holds its clients' writes until the new one has everything, and then redirects
// them: nothing fails and nothing is lost, with no option set.
#[test]
fn row_04_graceful_failovers_in_a_row_are_not_seen_by_any_client() {
    let cluster = six();
    let proxy = front(&cluster, &[]);
    let checker = load(&proxy, &cluster, 1, 12);
    let (verdict, ()) = during(&checker, || {
        for round in 0..if long() { 30 } else { 5 } {
            // Each node once, and then again. A node that stands for election a second time within
            // four times the node timeout counts the votes of the first time (`failover_auth_count`
            // in Redis 7.0) and believes itself elected.
            if round >= 6 {
                thread::sleep(Duration::from_secs(1));
            }
            cluster.failover((round + 3) % 6, Failover::Graceful);
            cluster.wait_ok();
        }
    });
    verdict.assert_faultless();
    assert!(verdict.answered > 1_000, "{verdict}");
}

// Requests that were under way to the killed primary have an unknown fate and get an error, one
// for each client at most; everything else waits.
#[test]
fn row_01_with_a_hold_the_death_of_a_primary_is_a_pause() {
    let mut cluster = six();
    let proxy = front(&cluster, &HOLD);
    let (tallies, noticed) = watch(&proxy, CLIENTS, || {
        cluster.kill(0);
        cluster.wait_new_owner(0, 0);
        cluster.wait_ok();
        served_again(&proxy, 0)
    });
    assert!(noticed < NOTICED, "{noticed:?} after the cluster was whole");
    let [hit, others @ ..] = tallies;
    hit.assert_sound();
    assert!(hit.read_errors.is_empty(), "{:?}", hit.read_errors);
    assert!(hit.write_errors.len() <= usize::from(CLIENTS), "{:?}", hit.write_errors);
    assert!(hit.lost <= u64::from(CLIENTS), "{} writes are gone", hit.lost);
    others.iter().for_each(super::watch::Tally::assert_untouched);
}

#[test]
fn row_01_without_a_hold_the_death_of_a_primary_fails_its_own_keys_until_the_election() {
    let mut cluster = six();
    let proxy = front(&cluster, &[]);
    let (tallies, (elected, noticed)) = watch(&proxy, CLIENTS, || {
        cluster.kill(0);
        cluster.wait_new_owner(0, 0);
        cluster.wait_ok();
        (Instant::now(), served_again(&proxy, 0))
    });
    assert!(noticed < NOTICED, "{noticed:?} after the cluster was whole");
    let [hit, others @ ..] = tallies;
    hit.assert_sound();
    assert!(!hit.write_errors.is_empty() && !hit.read_errors.is_empty(), "it was down, and told");
    assert!(hit.last_error_after(elected) < NOTICED, "{:?}", hit.last_error_after(elected));
    // Errors come at once: a client that asks again and again is not held up.
    assert!(hit.lost <= u64::from(CLIENTS), "{} writes are gone", hit.lost);
    let port = cluster.node(0).endpoint().tcp().port().to_string();
    let named = hit.errors().filter(|(_, text)| text.contains(&port)).count();
    let down = hit.errors().filter(|(_, text)| text.starts_with("-CLUSTERDOWN")).count();
    assert_eq!(
        named + down,
        hit.errors().count(),
        "each error says which node, or that it is the cluster"
    );
    others.iter().for_each(super::watch::Tally::assert_untouched);
}

// The kernel of a stopped process goes on taking requests, and when it continues it answers them.
// None of these answers may reach anybody.
#[test]
fn row_02_with_a_hold_a_hung_primary_fails_only_what_was_under_way() {
    let mut cluster = six();
    let proxy = front(&cluster, &[IMPATIENT, HOLD].concat());
    let (tallies, noticed) = watch(&proxy, CLIENTS, || {
        cluster.pause(0);
        cluster.wait_new_owner(0, 0);
        cluster.wait_ok();
        let noticed = served_again(&proxy, 0);
        cluster.resume(0);
        cluster.wait_ok();
        // What it had been sent meanwhile is answered now.
        thread::sleep(Duration::from_millis(500));
        noticed
    });
    assert!(noticed < NOTICED, "{noticed:?} after the cluster was whole");
    let [hit, others @ ..] = tallies;
    hit.assert_sound();
    assert!(hit.read_errors.is_empty(), "{:?}", hit.read_errors);
    assert!(hit.write_errors.len() <= usize::from(CLIENTS), "{:?}", hit.write_errors);
    others.iter().for_each(super::watch::Tally::assert_untouched);
}

#[test]
fn row_02_without_a_hold_a_hung_primary_ends_every_request_in_time() {
    let mut cluster = six();
    let proxy = front(&cluster, &IMPATIENT);
    let (tallies, elected) = watch(&proxy, CLIENTS, || {
        cluster.pause(0);
        cluster.wait_new_owner(0, 0);
        cluster.wait_ok();
        let elected = Instant::now();
        assert!(served_again(&proxy, 0) < NOTICED);
        cluster.resume(0);
        cluster.wait_ok();
        thread::sleep(Duration::from_millis(500));
        elected
    });
    let [hit, others @ ..] = tallies;
    hit.assert_sound();
    assert!(hit.slowest < Duration::from_secs(3), "timeout 1 s, but {:?}", hit.slowest);
    assert!(hit.last_error_after(elected) < NOTICED, "{:?}", hit.last_error_after(elected));
    others.iter().for_each(super::watch::Tally::assert_untouched);
}

// For a moment there are two primaries, of which the old one goes on acknowledging what it will
// throw away; that is what FORCE and TAKEOVER mean. No error comes of it.
#[test]
fn row_05_a_forced_failover_with_the_primary_alive_costs_no_error() {
    let cluster = six();
    let proxy = front(&cluster, &[]);
    for (how, replica) in [(Failover::Force, 3), (Failover::Takeover, 4)] {
        let (tallies, noticed) = watch(&proxy, CLIENTS, || {
            cluster.failover(replica, how);
            cluster.wait_ok();
            served_again(&proxy, 0)
        });
        assert!(noticed < NOTICED, "{noticed:?} after the cluster was whole");
        for tally in &tallies {
            tally.assert_sound();
            assert!(tally.errors().next().is_none(), "{how:?}: {:?}", tally.errors().next());
        }
        let touched = replica - 3;
        for (nth, tally) in tallies.iter().enumerate().filter(|(nth, _)| *nth != touched) {
            assert_eq!(tally.lost, 0, "{how:?} of {touched} took writes from {nth}");
        }
    }
}

// No request has told the proxy of the new primary, and the old one cannot any more. What it knows
// of the others has to be enough.
#[test]
fn row_03_the_old_primary_dies_right_after_a_failover() {
    let mut cluster = six();
    let proxy = front(&cluster, &[]);
    let key = key_on(0, 1);
    // Both workers know the old primary.
    let mut conns: Vec<_> = (0..4).map(|_| proxy.connect()).collect();
    for conn in &mut conns {
        assert_eq!(conn.ask(&format!("SET {key} v")), "+OK\r\n");
    }
    cluster.failover(3, Failover::Graceful);
    cluster.wait_ok();
    cluster.kill(0);
    let begun = Instant::now();
    for conn in &mut conns {
        testkit::wait::until_true("the new primary", SOON, || {
            conn.ask(&format!("GET {key}")) == "$1\r\nv\r\n"
        });
    }
    assert!(begun.elapsed() < NOTICED, "{:?}", begun.elapsed());
}

/// How long it takes from now until every worker serves the keys of one primary of the start.
fn served_again(proxy: &testkit::Respool, nth: u16) -> Duration {
    let begun = Instant::now();
    // More clients than workers: each worker gets one.
    for _ in 0..4 {
        let mut conn = proxy.connect();
        testkit::wait::until_true("the keys to be served", SOON, || {
            !conn.ask(&format!("SET {} x", key_on(nth, 2))).starts_with('-')
        });
    }
    begun.elapsed()
}
