//! Deployments of several servers, which look like one through the proxy: clusters, sentinels,
//! shards. The servers are real, and so are the faults.
//!
//! ```text
//!   start     seeds, names, passwords, coverage          what must be there before a client is served
//!   reshard   MOVED, ASK, TRYAGAIN at a known moment     rows 7, 8 of the fault matrix
//!   failover  graceful, FORCE, kill, stop                rows 1 to 5
//!   nodes     addresses, partitions, losses, newcomers   rows 3, 6, 10 to 16
//!   options   address map, connections per node, zones, commands kept to the primary, password files
//!   health    lost without a word, left out, asked too much; scripts
//!   facade    several respools that show themselves as a cluster
//!   keys      requests for several keys or all servers   rows 25, 26
//!   alike     a cluster beside a single server
//!   scripts   errors that scripts make up
//!   routes    keys that begin alike, the whole configuration of the guide
//!   sentinel  +switch-master and its neighbours
//!   shards    where keys lie, and what one dead shard takes away
//! ```
//! These tests have no direct mode: a client of a single server is lost before a cluster.
//!
//! Invariant: a test waits for states and never for times, except where a time is what it judges.

mod alike;
mod facade;
mod failover;
mod health;
mod keys;
mod nodes;
mod options;
mod reshard;
mod routes;
mod scripts;
mod sentinel;
mod shards;
mod start;
mod watch;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use testkit::cluster::{RedisCluster, key_in_slot};
use testkit::{Checker, Respool, Verdict};

use crate::setup::{RESPOOL, long};

/// Requests of clients that only wait survive everything that is over after this many
/// milliseconds.
pub(super) const HOLD: [&str; 2] = ["--timeouts-failover-hold-ms", "20000"];

/// A proxy before all nodes of a cluster.
#[track_caller]
pub(super) fn front(cluster: &RedisCluster, args: &[&str]) -> Respool {
    Respool::to_url(RESPOOL, &cluster.url()).args(args).start()
}

/// A key that the nth primary of a fresh cluster of three has: `nth` 0, 1 or 2. Different numbers
/// give different slots.
pub(super) fn key_on(nth: u16, number: u16) -> String {
    key_in_slot(nth * 5_500 + number, 0)
}

/// Clients with predictable traffic before a proxy. `judge` is a node that outlives the test.
pub(super) fn load(proxy: &Respool, cluster: &RedisCluster, judge: usize, clients: u32) -> Checker {
    let mut checker = Checker::new(proxy.endpoint(), cluster.node(judge).direct_endpoint());
    checker.clients = clients;
    // Ended by `during`.
    checker.duration = Duration::from_secs(300);
    checker.value_bytes_max = 16 * 1024;
    checker
}

/// Runs the clients while `act` does something to the servers, and for a while before and after.
pub(super) fn during<T>(checker: &Checker, act: impl FnOnce() -> T) -> (Verdict, T) {
    let around = Duration::from_millis(if long() { 5_000 } else { 400 });
    thread::scope(|scope| {
        let run = scope.spawn(|| checker.run());
        thread::sleep(around);
        // A test that fails in `act` must not leave the clients running.
        let ended = EndRun(checker);
        let done = act();
        thread::sleep(around);
        drop(ended);
        let verdict = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        println!("{verdict}");
        (verdict, done)
    })
}

struct EndRun<'a>(&'a Checker);

impl Drop for EndRun<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
    }
}
