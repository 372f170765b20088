//! The latency monitors: `INFO latency` lists them, `INFO latency NAME` shows one in its buckets, over all servers and for each.
//!
//! ```text
//!   latency_get:commands=2,count=40,usec=8200,usec_per_call=205.00
//!   latency_get_le_100:count=12,share=30.00,cumulated=30.00,usec=900
//!   latency_get_le_inf:count=28,share=70.00,cumulated=100.00,usec=7300
//!   latency_get_upstream_0:address=127.0.0.1:6379,count=…
//!   latency_get_upstream_0_le_100:…
//! ```
//! What predixy shows as `INFO Latency name` and `INFO ServerLatency address name`.
//!
//! Not here: which commands a monitor looks at and how they are counted (`stats::monitors`).
//!
//! Invariant: names are compared as they were configured, and one that is also a section's is the monitor's here.

use super::{Source, head, line, mean, percent};
use crate::command::word;
use crate::settings::Settings;
use crate::stats::monitors::{Bucket, MonitorOptions};
use alloc::format;
use alloc::string::String;

/// The monitor that `INFO latency NAME` asks for; `None`: it is about sections.
pub(super) fn asked_for(asked: &[String], settings: &Settings) -> Option<usize> {
    match asked {
        [section, name] if word::is(section.as_bytes(), "latency") => {
            settings.monitors.iter().position(|monitor| monitor.name == *name)
        }
        _ => None,
    }
}

pub(super) fn list(out: &mut String, source: &Source<'_>) {
    line(out, "latency_monitors", source.settings.monitors.len());
    for (at, monitor) in source.settings.monitors.iter().enumerate() {
        whole(out, monitor, source.sum.stats.monitors.buckets(at));
    }
}

/// One of them.
pub(super) fn monitor(out: &mut String, source: &Source<'_>, at: usize) {
    let Some(monitor) = source.settings.monitors.get(at) else { return };
    head(out, "latency");
    let counts = source.sum.stats.monitors.buckets(at);
    whole(out, monitor, counts);
    buckets(out, &format!("latency_{}", monitor.name), monitor, counts);
    for (index, node) in source.sum.nodes.iter().enumerate() {
        let counts = node.stats.monitors.buckets(at);
        if counts.is_empty() {
            continue;
        }
        let field = format!("latency_{}_upstream_{index}", monitor.name);
        line(out, &field, format!("address={},{}", node.label, figures(counts)));
        buckets(out, &field, monitor, counts);
    }
}

fn whole(out: &mut String, monitor: &MonitorOptions, counts: &[Bucket]) {
    let value = format!("commands={},{}", monitor.commands.len(), figures(counts));
    line(out, &format!("latency_{}", monitor.name), value);
}

fn figures(counts: &[Bucket]) -> String {
    let (count, sum_us) = total(counts);
    format!("count={count},usec={sum_us},usec_per_call={}", mean(sum_us, count))
}

fn total(counts: &[Bucket]) -> (u64, u64) {
    let sum = |(count, sum_us), bucket: &Bucket| (count + bucket.count, sum_us + bucket.sum_us);
    counts.iter().fold((0, 0), sum)
}

fn buckets(out: &mut String, field: &str, monitor: &MonitorOptions, counts: &[Bucket]) {
    let (whole, mut seen) = (total(counts).0, 0);
    for (at, bucket) in counts.iter().enumerate() {
        seen += bucket.count;
        let bound = match monitor.bounds_us.get(at) {
            Some(bound) => format!("{bound}"),
            None => String::from("inf"),
        };
        let (share, cumulated) = (percent(bucket.count, whole), percent(seen, whole));
        let (count, sum_us) = (bucket.count, bucket.sum_us);
        let value = format!("count={count},share={share},cumulated={cumulated},usec={sum_us}");
        line(out, &format!("{field}_le_{bound}"), value);
    }
}
