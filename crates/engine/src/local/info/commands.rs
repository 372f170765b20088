//! The sections about commands and errors, in the words of Redis 7.0.
//!
//! Times are the servers' and the network's, from writing a request to its reply; a server counts its own time alone.
//!
//! Invariant: a command that was never called has no line.

use super::{Source, line, mean};
use crate::command::{COUNT, CommandId};
use crate::stats::CommandStats;
use alloc::format;
use alloc::string::String;

/// What Redis shows unless `latency-tracking-info-percentiles` says otherwise.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

fn name(index: usize) -> &'static str {
    CommandId::from_index(index).map_or("unknown", CommandId::name)
}

pub(super) fn commandstats(out: &mut String, source: &Source<'_>) {
    for index in 0..=COUNT {
        let counters = source.sum.stats.commands.get(index).copied().unwrap_or_default();
        if counters == CommandStats::default() {
            continue;
        }
        let CommandStats { calls, usec, rejected, failed } = counters;
        let value = format!(
            "calls={calls},usec={usec},usec_per_call={},rejected_calls={rejected},failed_calls={failed}",
            mean(usec, calls)
        );
        line(out, &format!("cmdstat_{}", name(index)), value);
    }
}

pub(super) fn latencystats(out: &mut String, source: &Source<'_>) {
    for (index, histogram) in source.sum.stats.latencies.iter().enumerate() {
        if histogram.is_empty() {
            continue;
        }
        // Redis counts in thousandths of a microsecond; here they are always zero.
        let shown = |(name, q): (&str, f64)| format!("{name}={}.000", histogram.quantile(q));
        let value = PERCENTILES.map(shown).join(",");
        line(out, &format!("latency_percentiles_usec_{}", name(index)), value);
    }
}

pub(super) fn errorstats(out: &mut String, source: &Source<'_>) {
    for (word, count) in source.sum.stats.errors.iter() {
        line(out, &format!("errorstat_{word}"), format!("count={count}"));
    }
}
