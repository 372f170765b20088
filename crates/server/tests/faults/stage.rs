//! What a row begins with: a cluster, a proxy before it, and how long a phase is.
//!
//! Invariant: servers and proxies belong to one test and end with it.

use std::time::Duration;

use testkit::cluster::{RedisCluster, key_in_slot};
use testkit::{Conn, Respool};

/// The binary under test, built by cargo for this test.
const RESPOOL: &str = env!("CARGO_BIN_EXE_respool");

/// A limit for things that take milliseconds, on a machine that is busy with something else.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The request timeout of most rows. A proxy that gives up after it has a second more to say so.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Options of a proxy whose requests end within [`REQUEST_TIMEOUT`].
pub(crate) const IMPATIENT: [&str; 4] =
    ["--timeouts-request-ms", "2000", "--timeouts-connect-ms", "500"];

/// How long the phases are and how large the load is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The time before the fault, of the fault where it lasts, and after it.
    pub(crate) phase: Duration,
    /// Clients of the usual load.
    pub(crate) clients: u32,
}

impl Scale {
    /// Fifty clients, and what `RESPOOL_FAULT_S` says.
    pub(crate) fn long() -> Self {
        let seconds = std::env::var("RESPOOL_FAULT_S").ok().and_then(|text| text.parse().ok());
        Self { phase: Duration::from_secs(seconds.unwrap_or(30).clamp(3, 3_600)), clients: 50 }
    }

    /// Some seconds and some clients, for a test among hundreds of others.
    pub(crate) fn short() -> Self {
        Self { phase: Duration::from_secs(2), clients: 18 }
    }

    /// A number or a time that is meant for phases of thirty seconds, in proportion; at least
    /// `least`.
    pub(crate) fn of_thirty(self, count: u64, least: u64) -> u64 {
        let seconds = self.phase.as_secs();
        (count * seconds / 30).max(least)
    }
}

/// Three primaries with a replica each, with the node timeout of the fault matrix; the replica of
/// primary n is n + 3.
///
/// Without full coverage asked for: otherwise every node refuses everything from the moment in which
/// a primary counts as failed until its replica is elected, and the blast radius is Redis' own.
pub(crate) fn six() -> RedisCluster {
    RedisCluster::with(3, 1).node_timeout_ms(5_000).partial_coverage().start()
}

/// The same with primaries that are missed after a second, for rows in which that is not the point.
pub(crate) fn quick_six() -> RedisCluster {
    RedisCluster::with(3, 1).node_timeout_ms(1_000).partial_coverage().start()
}

/// Three primaries that find their data again after a kill. What Redis has written to the file is
/// with the kernel, so a process that dies loses nothing of it. What is there serves without the rest.
pub(crate) fn three_that_persist() -> RedisCluster {
    RedisCluster::with(3, 0)
        .node_timeout_ms(1_500)
        .partial_coverage()
        .args(&["--appendonly", "yes", "--appendfsync", "no"])
        .start()
}

/// Three primaries, each behind a relay.
pub(crate) fn three_behind_relays() -> RedisCluster {
    RedisCluster::with(3, 0).relays().start()
}

/// A proxy before all nodes of a cluster.
#[track_caller]
pub(crate) fn front(cluster: &RedisCluster, args: &[&str]) -> Respool {
    front_of(&cluster.url(), args)
}

/// A proxy before any upstream.
#[track_caller]
pub(crate) fn front_of(url: &str, args: &[&str]) -> Respool {
    Respool::to_url(RESPOOL, url).args(args).start()
}

/// A key that the nth primary of a fresh cluster of three has: `nth` 0, 1 or 2. Different numbers
/// give different slots.
pub(crate) fn key_on(nth: usize, number: u16) -> String {
    // Three thirds of some 5461 slots; the product fits.
    key_in_slot(nth as u16 * 5_500 + number, 0)
}

/// One client for each worker, and some more.
pub(crate) fn clients(proxy: &Respool) -> Vec<Conn> {
    (0..4).map(|_| proxy.connect()).collect()
}

/// Waits until these clients are served with the keys of these primaries of the start, and gives
/// how long it took.
#[track_caller]
pub(crate) fn served(conns: &mut [Conn], primaries: &[usize]) -> Duration {
    let begun = std::time::Instant::now();
    for conn in conns {
        for nth in primaries {
            let key = key_on(*nth, 5_000);
            let mut last = String::new();
            testkit::wait::until_true("the keys to be served", SOON, || {
                let reply = conn.ask(&format!("SET {key} x"));
                let is_served = reply == "+OK\r\n";
                if !is_served && reply != last {
                    println!("{:?}: {}", begun.elapsed(), reply.trim_end());
                    last = reply;
                }
                is_served
            });
        }
    }
    begun.elapsed()
}

/// Lets the replicas of a primary take over everything that it has acknowledged so far.
#[track_caller]
pub(crate) fn settle_replicas(cluster: &RedisCluster, primary: usize, key: &str) {
    let mut conn = cluster.node(primary).connect();
    // WAIT speaks of the writes of its own connection; the stream of writes has all before it.
    assert_eq!(conn.ask(&format!("SET {key} settled")), "+OK\r\n");
    assert_eq!(conn.ask("WAIT 1 20000"), ":1\r\n", "no replica keeps up");
}
