//! Writes metrics in Prometheus' text format 0.0.4 or in OpenMetrics 1.0.
//!
//! They differ in little: OpenMetrics names the unit, has `_total` in samples only and ends with a mark. A crate that knows one of them keeps values of its own
//! (`docs/internals/dependencies.md`).
//!
//! Not here: which metrics there are (`names`).
//!
//! Invariant: a family without a sample has no head; label values are escaped, names are ours and need no escape.

use std::fmt::{Display, Write};

use engine::histogram::Histogram;

use super::names::{Kind, Metric};

/// How a page is written, which is for its reader to choose (`Accept`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

impl Format {
    /// The `Content-Type` of a page.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page in the making.
pub(crate) struct Page {
    format: Format,
    text: String,
    /// The family under way, and whether its head is written.
    family: Option<(&'static Metric, bool)>,
}

/// Ends of the buckets that are shown, as powers of two in microseconds.
const SHOWN_POWERS: std::ops::RangeInclusive<u32> = 5..=24;

impl Page {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, text: String::new(), family: None }
    }

    /// What follows are samples of this metric.
    pub(crate) fn begin(&mut self, metric: &'static Metric) {
        self.family = Some((metric, false));
    }

    /// A counter, a gauge, or an info.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let Some(metric) = self.head() else { return };
        let suffix = match metric.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line(&format!("{}{suffix}", metric.name), labels, None, value);
    }

    /// A duration in microseconds, which is shown in seconds.
    pub(crate) fn seconds(&mut self, labels: &[(&str, &str)], us: u64) {
        self.sample(labels, us as f64 / 1e6);
    }

    /// A histogram of times.
    pub(crate) fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        let Some(metric) = self.head() else { return };
        let (count, bucket) = (histogram.count(), format!("{}_bucket", metric.name));
        for until_us in SHOWN_POWERS.map(|power| 1u64 << power) {
            let le = (until_us as f64 / 1e6).to_string();
            self.line(&bucket, labels, Some(&le), histogram.count_below(until_us));
        }
        self.line(&bucket, labels, Some("+Inf"), count);
        let sum_s = histogram.sum_us() as f64 / 1e6;
        self.line(&format!("{}_sum", metric.name), labels, None, sum_s);
        self.line(&format!("{}_count", metric.name), labels, None, count);
    }

    /// The text.
    pub(crate) fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// Writes the head of the family before its first sample.
    fn head(&mut self) -> Option<&'static Metric> {
        let (metric, is_written) = self.family?;
        if is_written {
            return Some(metric);
        }
        self.family = Some((metric, true));
        let (name, kind) = match self.format {
            Format::OpenMetrics => (metric.name.to_owned(), metric.kind.name()),
            // It knows no info, and a counter's name ends as its samples do.
            Format::Prometheus if metric.kind == Kind::Info => (metric.shown_name(), "gauge"),
            Format::Prometheus => (metric.shown_name(), metric.kind.name()),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {}", escaped(metric.help, false));
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if let (Format::OpenMetrics, Some(unit)) = (self.format, metric.unit()) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        Some(metric)
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], le: Option<&str>, value: impl Display) {
        self.text.push_str(name);
        let mut mark = '{';
        for (label, value) in labels.iter().copied().chain(le.map(|le| ("le", le))) {
            let _ = write!(self.text, "{mark}{label}=\"{}\"", escaped(value, true));
            mark = ',';
        }
        if mark == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// Backslashes and line ends, in label values quotes too.
fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}
