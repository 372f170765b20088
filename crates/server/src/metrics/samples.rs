//! How rows write their samples: one for each worker, server, command, mirror.
//!
//! Not here: the rows (`names`), the formats (`text`, `protobuf`).
//!
//! Invariant: the labels of a sample are those that the row names, in its order.

use engine::command::CommandId;
use engine::elsewhere::ReadTargetReport;
use engine::fleet::{Report, RingReport, TlsSide};
use engine::mirror::{MirrorReport, mirrors_of};
use engine::policy::OwnReport;
use engine::report::NodeReport;

use super::Source;
use super::page::Page;

/// One number for each worker.
pub(super) fn workers(source: &Source<'_>, page: &mut Page, value: fn(&Report) -> u64) {
    for report in source.reports {
        page.sample(&[("worker", &report.worker.to_string())], value(report));
    }
}

/// One number for each worker that has a ring.
pub(super) fn rings(source: &Source<'_>, page: &mut Page, value: fn(&RingReport) -> u64) {
    for report in source.reports {
        if let Some(ring) = &report.ring {
            page.sample(&[("worker", &report.worker.to_string())], value(ring));
        }
    }
}

/// What there is of each side of TLS of each worker.
pub(super) fn sides(
    source: &Source<'_>,
    page: &mut Page,
    write: fn(&mut Page, &str, &str, &TlsSide),
) {
    for report in source.reports {
        let Some(tls) = &report.tls else { continue };
        let worker = report.worker.to_string();
        write(page, &worker, "clients", &tls.clients);
        write(page, &worker, "upstreams", &tls.upstreams);
    }
}

/// Several numbers for each worker, each with its word.
pub(super) fn workers_by<const N: usize>(
    source: &Source<'_>,
    page: &mut Page,
    label: &str,
    words: [&str; N],
    values: fn(&Report) -> [u64; N],
) {
    for report in source.reports {
        let worker = report.worker.to_string();
        for (word, value) in words.into_iter().zip(values(report)) {
            page.sample(&[("worker", &worker), (label, word)], value);
        }
    }
}

/// Several numbers for each extension of each worker, each with its word.
pub(super) fn extensions(
    source: &Source<'_>,
    page: &mut Page,
    label: &str,
    values: fn(&OwnReport) -> Vec<(&'static str, u64)>,
) {
    for report in source.reports {
        let worker = report.worker.to_string();
        for own in &report.own {
            for (word, value) in values(own) {
                page.sample(
                    &[("worker", &*worker), ("extension", &*own.name), (label, word)],
                    value,
                );
            }
        }
    }
}

/// One number for each command that has one.
pub(super) fn commands(
    source: &Source<'_>,
    page: &mut Page,
    value: fn(&engine::stats::CommandStats) -> u64,
) {
    for (index, counters) in source.stats.commands.iter().enumerate() {
        if value(counters) > 0 {
            page.sample(&[("command", command_name(index))], value(counters));
        }
    }
}

pub(super) fn command_name(index: usize) -> &'static str {
    CommandId::from_index(index).map_or("unknown", CommandId::name)
}

/// One number for each server.
pub(super) fn nodes(source: &Source<'_>, page: &mut Page, value: fn(&NodeReport) -> u64) {
    for node in &source.nodes {
        page.sample(&[("node", &node.label), ("pool", &node.pool.to_string())], value(node));
    }
}

/// The times of each monitor at each server where it saw anything.
pub(super) fn monitors_by_node(source: &Source<'_>, page: &mut Page) {
    for (at, monitor) in source.monitors.iter().enumerate() {
        for node in &source.nodes {
            let buckets = node.stats.monitors.buckets(at);
            if !buckets.is_empty() {
                let labels = [
                    ("monitor", &*monitor.name),
                    ("node", &node.label),
                    ("pool", &node.pool.to_string()),
                ];
                page.monitor(&labels, &monitor.bounds_us, buckets);
            }
        }
    }
}

/// Something of each read target, of each worker.
pub(super) fn read_targets(
    source: &Source<'_>,
    page: &mut Page,
    write: fn(&mut Page, &[(&str, &str)], &ReadTargetReport),
) {
    for report in source.reports {
        let worker = report.worker.to_string();
        for target in &report.read_targets {
            write(page, &[("worker", &worker), ("target", &target.name)], target);
        }
    }
}

/// Something of each mirror.
pub(super) fn mirrors(source: &Source<'_>, page: &mut Page, write: fn(&mut Page, &MirrorReport)) {
    mirrors_of(source.reports).iter().for_each(|mirror| write(page, mirror));
}
