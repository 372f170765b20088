//! Latency monitors that the operator configured: which commands, and where the buckets end.
//!
//! The histograms of `stats` always count and have bounds of their own. A monitor looks at a set of commands together, with the bounds that
//! somebody cares about, over all servers and for each: what predixy calls a LatencyMonitor.
//!
//! Not here: how they are shown (`local::info`).
//!
//! Invariant: without a monitor nothing is counted and nothing allocated; `Monitors::of` gives no index beyond the configured ones.

use crate::command::{COUNT, CommandId};
use crate::limits::LATENCY_MONITORS_MAX;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// One monitor, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorOptions {
    /// Its name: what `INFO latency NAME` is asked with.
    pub name: String,
    /// Whose times it counts; `None`: also those of commands that the table does not know.
    pub commands: Vec<Option<CommandId>>,
    /// Ends of the buckets in microseconds, growing; what takes longer than the last is in one more.
    pub bounds_us: Vec<u64>,
}

/// Which monitors look at which command.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    /// By [`CommandId::index`], one bit for each monitor; empty where there is none.
    masks: Vec<u16>,
    bounds_us: Vec<Vec<u64>>,
}

impl Monitors {
    /// For these; beyond [`LATENCY_MONITORS_MAX`] none are looked at.
    pub(crate) fn new(options: &[MonitorOptions]) -> Self {
        if options.is_empty() {
            return Self::default();
        }
        let options = &options[..options.len().min(LATENCY_MONITORS_MAX)];
        let mut masks = vec![0; COUNT + 1];
        for (at, monitor) in options.iter().enumerate() {
            for command in &monitor.commands {
                masks[command.map_or(COUNT, CommandId::index)] |= 1 << at;
            }
        }
        Self { masks, bounds_us: options.iter().map(|one| one.bounds_us.clone()).collect() }
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.masks.is_empty()
    }

    /// The monitors that look at this command, with their bounds.
    pub(crate) fn of(&self, command: Option<CommandId>) -> impl Iterator<Item = (usize, &[u64])> {
        let mask = self.masks.get(command.map_or(COUNT, CommandId::index)).copied().unwrap_or(0);
        let looks = move |(at, _): &(usize, &Vec<u64>)| mask & (1 << at) != 0;
        self.bounds_us.iter().enumerate().filter(looks).map(|(at, bounds)| (at, bounds.as_slice()))
    }
}

/// One bucket of a monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Replies.
    pub count: u64,
    /// Their times together, in microseconds.
    pub sum_us: u64,
}

/// What all monitors counted; those that saw nothing may be missing at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounts(Vec<Vec<Bucket>>);

impl MonitorCounts {
    /// The monitor at this index saw `count` replies that took so long each.
    pub fn record(&mut self, at: usize, bounds_us: &[u64], us: u64, count: u64) {
        if self.0.len() <= at {
            self.0.resize(at + 1, Vec::new());
        }
        let buckets = &mut self.0[at];
        buckets.resize(bounds_us.len() + 1, Bucket::default());
        let bucket = &mut buckets[bounds_us.partition_point(|bound| *bound < us)];
        bucket.count += count;
        bucket.sum_us = bucket.sum_us.saturating_add(us.saturating_mul(count));
    }

    /// Adds what another worker's monitors, configured alike, counted.
    pub fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), Vec::new());
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.resize(own.len().max(other.len()), Bucket::default());
            for (own, other) in own.iter_mut().zip(other) {
                own.count += other.count;
                own.sum_us = own.sum_us.saturating_add(other.sum_us);
            }
        }
    }

    /// The buckets of one monitor, one more than it has bounds; none if it saw nothing.
    pub fn buckets(&self, at: usize) -> &[Bucket] {
        self.0.get(at).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ids::{EXEC, GET};

    fn options(name: &str, commands: &[Option<CommandId>], bounds_us: &[u64]) -> MonitorOptions {
        MonitorOptions { name: name.into(), commands: commands.into(), bounds_us: bounds_us.into() }
    }

    #[test]
    fn each_command_is_seen_by_the_monitors_that_name_it() {
        assert!(!Monitors::new(&[]).is_on());
        let monitors = Monitors::new(&[
            options("a", &[Some(GET)], &[10]),
            options("b", &[Some(GET), Some(EXEC), None], &[20, 30]),
        ]);
        let seen = |command| monitors.of(command).collect::<Vec<_>>();
        assert_eq!(seen(Some(GET)), [(0, &[10][..]), (1, &[20, 30])]);
        assert_eq!(seen(Some(EXEC)), [(1, &[20, 30][..])]);
        assert_eq!(seen(None), [(1, &[20, 30][..])]);
        assert_eq!(seen(Some(crate::command::ids::PING)), []);
    }

    #[test]
    fn beyond_the_bound_no_monitor_is_looked_at() {
        let many = vec![options("a", &[Some(GET)], &[10]); LATENCY_MONITORS_MAX + 1];
        assert_eq!(Monitors::new(&many).of(Some(GET)).count(), LATENCY_MONITORS_MAX);
    }

    #[test]
    fn what_takes_as_long_as_a_bound_is_within_it() {
        let mut counts = MonitorCounts::default();
        assert!(counts.buckets(3).is_empty());
        for (us, count) in [(0, 1), (10, 2), (11, 3), (20, 4), (21, 5)] {
            counts.record(1, &[10, 20], us, count);
        }
        let shown = |counts: &MonitorCounts| -> Vec<(u64, u64)> {
            counts.buckets(1).iter().map(|bucket| (bucket.count, bucket.sum_us)).collect()
        };
        assert_eq!(shown(&counts), [(3, 20), (7, 113), (5, 105)]);
        let mut sum = MonitorCounts::default();
        sum.add(&counts);
        sum.add(&counts);
        assert_eq!(shown(&sum), [(6, 40), (14, 226), (10, 210)]);
        assert!(sum.buckets(0).is_empty());
    }
}
