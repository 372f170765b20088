//! What those who watch the proxy did not get: lines of the log, spans, alarms, requests that were to be told one by one.
//!
//! Nothing waits for an observer, so each way to one has a bound at which things are lost. Each place that loses something counts it; here those
//! places have names, so that INFO and the metrics tell the same.
//!
//! Not here: who counts (`observed`, the server's log and outlet).
//!
//! Invariant: what and cause together name one counter, and each [`Loss`] stands once in [`Loss::ALL`], at its own number.

use crate::stats::Stats;

/// Where something is lost that the process counts, and not an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Lines of the access log that came faster than they could be written.
    AccessQueue,
    /// Lines of the access log that could not be written.
    AccessWrite,
    /// Lines of the log beyond `log.burst`.
    LogBurst,
    /// Lines of the log for which a pipe had no room.
    LogWrite,
    /// Spans that came faster than they could be sent.
    SpansQueue,
    /// Spans that were sent and not taken.
    SpansPost,
    /// Alarms that came faster than they could be sent.
    AlarmsQueue,
    /// Alarms that were sent and not taken.
    AlarmsPost,
}

/// How many of them there are.
pub const LOSSES: usize = Loss::ALL.len();

impl Loss {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::AccessQueue,
        Self::AccessWrite,
        Self::LogBurst,
        Self::LogWrite,
        Self::SpansQueue,
        Self::SpansPost,
        Self::AlarmsQueue,
        Self::AlarmsPost,
    ];

    /// What is lost, and why.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::AccessQueue => ("access_log", "queue"),
            Self::AccessWrite => ("access_log", "write"),
            Self::LogBurst => ("log", "burst"),
            Self::LogWrite => ("log", "write"),
            Self::SpansQueue => ("spans", "queue"),
            Self::SpansPost => ("spans", "post"),
            Self::AlarmsQueue => ("alarms", "queue"),
            Self::AlarmsPost => ("alarms", "post"),
        }
    }
}

/// What was lost, why, and how often: what the process counted, by [`Loss`], and what all engines did.
pub fn all(
    of_process: &[u64; LOSSES],
    of_engines: &Stats,
) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    let of_process = Loss::ALL.into_iter().zip(*of_process).map(|(loss, count)| {
        let (what, cause) = loss.names();
        (what, cause, count)
    });
    of_process.chain([("requests", "turn", of_engines.observed_left_out)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn each_loss_has_its_number_and_names() {
        assert!(Loss::ALL.iter().enumerate().all(|(at, loss)| *loss as usize == at));
        let counts = core::array::from_fn(|at| at as u64);
        let stats = Stats { observed_left_out: 99, ..Stats::default() };
        let names: BTreeSet<_> =
            all(&counts, &stats).map(|(what, cause, _)| (what, cause)).collect();
        assert_eq!(names.len(), LOSSES + 1);
        assert!(all(&counts, &stats).any(|told| told == ("spans", "post", Loss::SpansPost as u64)));
        assert_eq!(all(&counts, &stats).last(), Some(("requests", "turn", 99)));
    }
}
