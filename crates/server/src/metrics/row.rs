//! A row of the table of metrics: what a metric is called, what it is, and who writes its samples.
//!
//! Not here: the rows (`names`), what is done with a sample (`page`).
//!
//! Invariant: the end of a metric's shown name follows from its kind, and its unit from its name.

use super::Source;
use super::page::Page;

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
    /// Always 1; the labels tell.
    Info,
}

impl Kind {
    /// Its name in both formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// One row.
pub struct Metric {
    /// Without the end that its kind adds.
    pub name: &'static str,
    /// Counter, gauge …
    pub kind: Kind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
    /// Writes its samples.
    pub(super) collect: fn(&Source<'_>, &mut Page),
}

impl Metric {
    /// As it is asked for.
    pub fn shown_name(&self) -> String {
        let end = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{end}", self.name)
    }

    /// Whether it is about the process, or about what a worker has for all tenants.
    pub fn is_of_process(&self) -> bool {
        const OF_ALL: [&str; 5] = [
            "respool_build",
            "respool_driver",
            "respool_worker_cpu_seconds",
            "respool_clients_max",
            "respool_telemetry_dropped",
        ];
        ["process_", "respool_uring_", "respool_tls_"]
            .iter()
            .any(|begin| self.name.starts_with(begin))
            || OF_ALL.contains(&self.name)
    }

    /// The unit, which its name ends with; `None`: it is a number of things.
    pub fn unit(&self) -> Option<&'static str> {
        ["bytes", "seconds"]
            .into_iter()
            .find(|unit| self.name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
    }
}

/// A row.
pub(super) const fn row(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    collect: fn(&Source<'_>, &mut Page),
) -> Metric {
    Metric { name, kind, labels, help, collect }
}
