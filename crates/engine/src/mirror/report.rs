//! What a mirror looks like from outside, in one worker and in all of them together.
//!
//! Not here: what is counted and when (`target`), comparisons by command and prefix (`shadow/tally`).
//!
//! Invariant: a sum over workers tells the worst of their states and the longest lag.

use super::shadow::ShadowCounts;
use crate::fleet::Report;
use crate::limits::MIRROR_ERROR_KINDS_MAX;
use crate::report::summed;
use alloc::string::String;
use alloc::vec::Vec;

pub(super) const IDLE: &str = "idle";
pub(super) const READY: &str = "ready";
pub(super) const WAITING: &str = "waiting";
pub(super) const LEAVING: &str = "leaving";

/// What became of what a mirror was sent, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// Writes that it did.
    pub done: u64,
    /// Those that it refused, or of which nobody knows whether it did them.
    pub failed: u64,
    /// Those that were never sent: its queue was full, or they cannot be said to it.
    pub dropped: u64,
    /// Those of which nobody knows whether the primary did them.
    pub unsure: u64,
    /// First words of its errors, and how often.
    pub errors: Vec<(String, u64)>,
}

/// A mirror as a report shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorReport {
    /// Its name.
    pub name: String,
    /// `first`, `all` or `all-checked`.
    pub mode: &'static str,
    /// `ready`, `waiting` (it does not answer), `idle` (nothing was sent yet) or `leaving` (it is no mirror any more, and gets what waits for it).
    pub state: &'static str,
    /// Writes that it has not answered, and their bytes.
    pub queued: u64,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// How long ago the primary did the oldest of them, in microseconds.
    pub lag_us: u64,
    /// What became of the others.
    pub counts: MirrorCounts,
    /// What became of reads that were to be compared; `None`: none are.
    pub shadow: Option<ShadowCounts>,
}

impl MirrorCounts {
    fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.failed += other.failed;
        self.dropped += other.dropped;
        self.unsure += other.unsure;
        for (word, count) in &other.errors {
            let has_room = self.errors.len() < MIRROR_ERROR_KINDS_MAX;
            match self.errors.iter_mut().find(|(known, _)| known == word) {
                Some((_, sum)) => *sum += count,
                None if has_room => self.errors.push((word.clone(), *count)),
                None => {}
            }
        }
    }
}

impl MirrorReport {
    /// Adds what another worker says of the same mirror.
    pub fn add(&mut self, other: &Self) {
        let badness =
            |state: &str| [IDLE, READY, WAITING, LEAVING].iter().position(|one| *one == state);
        if badness(other.state) > badness(self.state) {
            self.state = other.state;
        }
        self.queued += other.queued;
        self.queued_bytes += other.queued_bytes;
        self.lag_us = self.lag_us.max(other.lag_us);
        self.counts.add(&other.counts);
        if let Some(shadow) = &other.shadow {
            self.shadow.get_or_insert_default().add_all(shadow);
        }
    }
}

/// The mirrors of all workers, each once.
pub fn mirrors_of(reports: &[Report]) -> Vec<MirrorReport> {
    let all = reports.iter().flat_map(|report| &report.mirrors);
    summed(all, |one, other| one.name == other.name, MirrorReport::add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_workers_the_worse_state_and_lag_are_told_and_counts_are_added() {
        let worker = |state, lag_us, error: &str| MirrorReport {
            name: "new".into(),
            state,
            lag_us,
            queued: 2,
            queued_bytes: 100,
            counts: MirrorCounts {
                done: 3,
                failed: 1,
                errors: alloc::vec![("OOM".into(), 1), (error.into(), 1)],
                ..MirrorCounts::default()
            },
            shadow: Some(ShadowCounts { equal: 5, ..ShadowCounts::default() }),
            ..MirrorReport::default()
        };
        let report = |mirror| Report { mirrors: alloc::vec![mirror], ..Report::default() };
        let workers = [report(worker(IDLE, 7, "MISCONF")), report(worker(WAITING, 3, "BUSY"))];
        let sum = mirrors_of(&workers);
        assert_eq!(sum.len(), 1);
        let sum = &sum[0];
        assert_eq!((sum.state, sum.lag_us), (WAITING, 7));
        assert_eq!((sum.queued, sum.queued_bytes), (4, 200));
        assert_eq!((sum.counts.done, sum.counts.failed), (6, 2));
        let errors = [("OOM".into(), 2), ("MISCONF".into(), 1), ("BUSY".into(), 1)];
        assert_eq!(sum.counts.errors, errors);
        assert_eq!(sum.shadow.map(|shadow| shadow.equal), Some(10));
    }
}
