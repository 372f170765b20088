//! What respool counts, as a page for Prometheus and for whatever reads its formats or OpenMetrics.
//!
//! ```text
//!   Engine::report of each worker ─┐
//!   ProcessFacts ──────────────────┴─▶ names ─▶ page ─┬─▶ text
//!                                                     └─▶ protobuf
//! ```
//! Nothing is counted here and nothing kept between two pages: the counters are the engines' plain numbers, so there is no registry.
//!
//! `accept` tells which format is wanted, `buckets` makes of the engines' histograms those that Prometheus knows.
//!
//! Not here: who asks the workers and serves the page.
//!
//! Invariant: every sample of a page belongs to a row of [`names::METRICS`], and those of a row stand together.

mod accept;
mod buckets;
pub mod names;
mod page;
mod protobuf;
pub mod row;
mod samples;
mod text;

use config::DEFAULT_TENANT;
use engine::fleet::{ProcessFacts, Report};
use engine::report::{NodeReport, by_tenant, nodes_of};
use engine::stats::Stats;
use engine::stats::monitors::MonitorOptions;

pub use accept::Format;

/// What rows of the table take their values from.
pub(crate) struct Source<'a> {
    reports: &'a [Report],
    process: &'a ProcessFacts,
    /// All workers' counters together.
    stats: Stats,
    /// All servers, each once.
    nodes: Vec<NodeReport>,
    /// The latency monitors. None while they change: then what workers count under one number is of different ones.
    monitors: &'a [MonitorOptions],
}

impl<'a> Source<'a> {
    fn of(reports: &'a [Report], process: &'a ProcessFacts) -> Self {
        let mut stats = Stats::default();
        reports.iter().for_each(|report| stats.add(&report.stats));
        let monitors = reports.first().map_or(&[][..], |report| &report.monitors);
        let agree = reports.iter().all(|report| report.monitors == monitors);
        let monitors = if agree { monitors } else { &[] };
        Self { reports, process, stats, nodes: nodes_of(reports), monitors }
    }
}

/// The page. `reports` are of all workers, in any order; where there are tenants, of each tenant of each worker. Then samples have a label more, but for
/// those that are about the process as a whole.
pub fn page(reports: &[Report], process: &ProcessFacts, format: Format) -> Vec<u8> {
    let mut page = page::Page::new(format);
    if reports.iter().all(|report| report.tenant.is_none()) {
        let source = Source::of(reports, process);
        for metric in names::METRICS {
            page.begin(metric);
            (metric.collect)(&source, &mut page);
        }
        return page.end();
    }
    let groups = by_tenant(reports.to_vec());
    let sources: Vec<_> =
        groups.iter().map(|(name, reports)| (name, Source::of(reports, process))).collect();
    let mut whole = Stats::default();
    reports.iter().for_each(|report| whole.add(&report.stats));
    // What is told once for a worker stands in the report of its default tenant.
    let of_default = groups.iter().find(|(name, _)| name.as_deref() == Some(DEFAULT_TENANT));
    let of_default = of_default.map_or(&[][..], |(_, reports)| reports);
    let of_process = Source { stats: whole, ..Source::of(of_default, process) };
    for metric in names::METRICS {
        page.begin(metric);
        if metric.is_of_process() {
            (metric.collect)(&of_process, &mut page);
            continue;
        }
        for (name, source) in &sources {
            page.begin_tenant(name.as_deref());
            (metric.collect)(source, &mut page);
        }
        page.begin_tenant(None);
    }
    page.end()
}

/// The page `docs/reference/metrics.md`.
pub fn reference() -> String {
    let mut page = format!(
        "<!-- Generated from crates/server/src/metrics/names.rs by `{}`. Do not edit. -->\n{HEAD}",
        config::documents::REGENERATE
    );
    for metric in names::METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        page.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            metric.shown_name(),
            metric.kind.name(),
            labels.join(", "),
            metric.help
        ));
    }
    page
}

/// What stands above the table.
const HEAD: &str = "\
# Metrics

What `GET /metrics` tells, in the text of Prometheus (format 0.0.4), in OpenMetrics (1.0) or in Prometheus' protobuf, whichever `Accept` likes best.
All counters begin with the process, and those of workers, commands, servers and monitors again with `CONFIG RESETSTAT`, which Prometheus takes for a restart. Times are in seconds and reach from writing a request to its reply; what respool answers itself has none.

| label | meaning |
|---|---|
| `worker` | number of the worker thread, from 0. Metrics without it are sums over all workers |
| `node`, `pool` | address of a server, and which of several pools it belongs to, from 0 |
| `role` | of a server: `primary`, `replica`, `sentinel`, `seed` (nobody told); of a connection: what it is for, as in [`INFO upstreams`](../guides/operations.md#info) |
| `command` | as in `INFO commandstats`: lower case, `container\\|subcommand`; `unknown` for all that the table of commands does not have. Only those that were used |
| `cause`, `reason` | why: see the row |
| `listener` | `name` of an entry of `listen`, or its address |
| `monitor` | a [latency monitor](../guides/operations.md#latency-monitors) of the configuration |
| `tenant` | where there are [tenants](../guides/tenants.md) beside the default one, the last label of all metrics but those of the process and of workers' threads |
| `le` | end of a bucket of a histogram: powers of two from 32 µs to 16.8 s, or the bounds of the monitor |

In protobuf the histograms are native ones, too, but for those of monitors, whose bounds are your own ([how to read them](../guides/operations.md#native-histograms)): schema 4,
so that buckets grow by 2^(1/16), and a zero bucket up to 1 µs. They are made of finer buckets than the classic ones: a quantile is wrong by a ninth or by a microsecond
at most, whichever is more; all that took 67 s or longer is in the bucket of 71 s. Counts are exact.

The size of a batch is `rate(respool_requests_total) / rate(respool_node_writes_total)`; how busy a worker is, \
`rate(respool_worker_cpu_seconds_total)` summed over `mode`: at 1 it is at its end.

| name | type | labels | meaning |
|---|---|---|---|
";

#[cfg(test)]
mod tests;
