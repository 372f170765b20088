//! Writes metrics in Prometheus' text format 0.0.4 or in OpenMetrics 1.0.
//!
//! They differ in little: OpenMetrics names the unit, has `_total` in samples only and ends with a mark. A crate that knows one of them keeps values of its own
//! (`docs/internals/dependencies.md`).
//!
//! Not here: which metrics there are (`names`).
//!
//! Invariant: a family without a sample has no head; label values are escaped, names are ours and need no escape.

use std::fmt::{Display, Write};

use super::buckets::Distribution;
use super::page::Value;
use super::row::{Kind, Metric};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// 0.0.4.
    Prometheus,
    /// 1.0.
    OpenMetrics,
}

/// A page in one of them.
pub(crate) struct Text {
    dialect: Dialect,
    text: String,
    /// The family under way, and whether its head is written.
    family: Option<(&'static Metric, bool)>,
}

impl Text {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, text: String::new(), family: None }
    }

    /// What follows are samples of this metric.
    pub(super) fn begin(&mut self, metric: &'static Metric) {
        self.family = Some((metric, false));
    }

    /// One of them.
    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: &Value<'_>) {
        let Some(metric) = self.head() else { return };
        match value {
            Value::Number(number) => self.line(&metric.shown_name(), labels, None, number),
            Value::Seconds(seconds) => self.line(&metric.shown_name(), labels, None, seconds),
            Value::Times(times) => self.histogram(metric.name, labels, times),
        }
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], times: &Distribution<'_>) {
        let bucket = format!("{name}_bucket");
        for (end_s, count) in &times.cumulative {
            let end_s = end_s.to_string();
            // OpenMetrics wants a point in it, and Prometheus takes "1" and "1.0" for different labels.
            let le = if end_s.contains('.') { end_s } else { end_s + ".0" };
            self.line(&bucket, labels, Some(&le), count);
        }
        self.line(&bucket, labels, Some("+Inf"), times.count);
        self.line(&format!("{name}_sum"), labels, None, times.sum_s);
        self.line(&format!("{name}_count"), labels, None, times.count);
    }

    /// The text.
    pub(super) fn end(mut self) -> String {
        if self.dialect == Dialect::OpenMetrics {
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
        let (name, kind) = match self.dialect {
            Dialect::OpenMetrics => (metric.name.to_owned(), metric.kind.name()),
            // It knows no info, and a counter's name ends as its samples do.
            Dialect::Prometheus if metric.kind == Kind::Info => (metric.shown_name(), "gauge"),
            Dialect::Prometheus => (metric.shown_name(), metric.kind.name()),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {}", escaped(metric.help, false));
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if let (Dialect::OpenMetrics, Some(unit)) = (self.dialect, metric.unit()) {
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
