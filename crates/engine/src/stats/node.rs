//! What is counted of each server behind.
//!
//! Bytes, writes and error replies are counted at the connection, which is at hand when they happen; what a connection had counted when it
//! goes is added to its node. The rest happens rarely, or once for many replies, and is counted at the node.
//!
//! Not here: what is counted over all servers (`stats`), and gauges (`report`).
//!
//! Invariant: a node's counters only grow while it is known, until all begin again (`overheard`); a node that is forgotten takes them along.

use super::monitors::MonitorCounts;
use crate::engine::Engine;
use crate::histogram::Histogram;
use crate::ids::NodeId;
use crate::time::Time;

/// Traffic of one connection, or of all of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests that were written, those of the proxy itself too.
    pub requests: u64,
    /// Error replies to clients' requests.
    pub errors: u64,
    /// Bytes that came.
    pub in_bytes: u64,
    /// Bytes that were sent.
    pub out_bytes: u64,
    /// Writes.
    pub writes: u64,
}

impl Traffic {
    /// Adds another one's.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.in_bytes += other.in_bytes;
        self.out_bytes += other.out_bytes;
        self.writes += other.writes;
    }
}

/// Counters of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Of connections that are gone; in a report, of all.
    pub traffic: Traffic,
    /// Connects that succeeded.
    pub connects: u64,
    /// Connects and greetings that failed.
    pub failures: u64,
    /// Connections that broke or were closed by the server while in use.
    pub losses: u64,
    /// Connections closed because a reply was overdue.
    pub timeouts: u64,
    /// From writing a request of a client to its reply, in microseconds.
    pub latency: Histogram,
    /// The same in the buckets of the configured monitors.
    pub monitors: MonitorCounts,
}

impl NodeStats {
    /// Adds another worker's counters of the same node.
    pub fn add(&mut self, other: &Self) {
        self.traffic.add(&other.traffic);
        self.connects += other.connects;
        self.failures += other.failures;
        self.losses += other.losses;
        self.timeouts += other.timeouts;
        self.latency.merge(&other.latency);
        self.monitors.add(&other.monitors);
    }
}

impl Engine {
    /// A connection to this node is ready; `again`: it takes the place of one that was lost, or was down.
    pub(crate) fn count_connect(&mut self, now: Time, id: NodeId, again: bool) {
        self.stats.upstream_connects += 1;
        self.stats.upstream_reconnects += u64::from(again);
        if let Some(node) = self.nodes.get_mut(id) {
            node.stats.connects += 1;
            node.standing.note(now, true);
        }
    }

    /// A connect or a greeting failed; `answered`: the node lives and refused what a client asked for.
    pub(crate) fn count_failure(&mut self, now: Time, id: NodeId, answered: bool) {
        self.stats.upstream_failures += 1;
        if let Some(node) = self.nodes.get_mut(id) {
            node.stats.failures += 1;
            if !answered {
                node.standing.note(now, false);
            }
        }
    }

    /// A connection in use is gone.
    pub(crate) fn count_loss(&mut self, id: NodeId) {
        self.stats.upstream_losses += 1;
        if let Some(node) = self.nodes.get_mut(id) {
            node.stats.losses += 1;
        }
    }

    /// A reply is overdue.
    pub(crate) fn count_timeout(&mut self, id: NodeId) {
        self.stats.upstream_timeouts += 1;
        if let Some(node) = self.nodes.get_mut(id) {
            node.stats.timeouts += 1;
        }
    }
}

/// Whether a node could be reached when that was last tried, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    is_up: Option<bool>,
    /// See the type; the begin of time until it was tried.
    pub(crate) since: Time,
}

impl Standing {
    /// It could be reached, or not.
    pub(crate) fn note(&mut self, now: Time, is_up: bool) {
        if self.is_up != Some(is_up) {
            *self = Self { is_up: Some(is_up), since: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_adds_everything() {
        let traffic = Traffic { requests: 1, errors: 2, in_bytes: 3, out_bytes: 4, writes: 5 };
        let mut one = NodeStats { traffic, connects: 6, failures: 7, ..NodeStats::default() };
        (one.losses, one.timeouts) = (8, 9);
        one.latency.record(crate::histogram::Sample::new(100), 10);
        one.monitors.record(0, &[10], 100, 11);
        let mut sum = one.clone();
        sum.add(&one);
        let Traffic { requests, errors, in_bytes, out_bytes, writes } = sum.traffic;
        assert_eq!([requests, errors, in_bytes, out_bytes, writes], [2, 4, 6, 8, 10]);
        assert_eq!([sum.connects, sum.failures, sum.losses, sum.timeouts], [12, 14, 16, 18]);
        assert_eq!((sum.latency.count(), sum.monitors.buckets(0)[1].count), (20, 22));
    }

    #[test]
    fn since_when_is_told_of_the_last_change() {
        let mut standing = Standing::default();
        for (now, is_up, since) in [(5, false, 5), (7, false, 5), (9, true, 9), (11, true, 9)] {
            standing.note(Time(now), is_up);
            assert_eq!(standing.since, Time(since));
        }
    }
}
