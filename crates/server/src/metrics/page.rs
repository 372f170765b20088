//! A page in the making: what rows of the table write to, whatever the format.
//!
//! Not here: which metrics there are (`names`), the formats themselves (`text`, `protobuf`).
//!
//! Invariant: a family without a sample is not on the page.

use engine::histogram::Histogram;
use engine::stats::monitors::Bucket;

use super::Format;
use super::buckets::Distribution;
use super::protobuf::Families;
use super::row::Metric;
use super::text::{Dialect, Text};

/// See the module.
pub(crate) struct Page {
    sheet: Sheet,
    /// Whose samples follow.
    tenant: Option<String>,
}

enum Sheet {
    /// Prometheus' text, or OpenMetrics.
    Text(Text),
    /// Prometheus' protobuf.
    Protobuf(Families),
}

/// One sample without its labels.
pub(super) enum Value<'a> {
    /// A counter, a gauge, or an info.
    Number(u64),
    /// A duration, in seconds.
    Seconds(f64),
    /// A histogram of times.
    Times(Distribution<'a>),
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        let sheet = match format {
            Format::Prometheus => Sheet::Text(Text::new(Dialect::Prometheus)),
            Format::OpenMetrics => Sheet::Text(Text::new(Dialect::OpenMetrics)),
            Format::Protobuf => Sheet::Protobuf(Families::default()),
        };
        Self { sheet, tenant: None }
    }

    /// What follows are samples of this tenant; `None`: of the process.
    pub(super) fn begin_tenant(&mut self, name: Option<&str>) {
        self.tenant = name.map(str::to_owned);
    }

    /// What follows are samples of this metric.
    pub(super) fn begin(&mut self, metric: &'static Metric) {
        match &mut self.sheet {
            Sheet::Text(text) => text.begin(metric),
            Sheet::Protobuf(families) => families.begin(metric),
        }
    }

    /// A counter, a gauge, or an info.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        self.add(labels, &Value::Number(value));
    }

    /// A duration in microseconds, which is shown in seconds.
    pub(super) fn seconds(&mut self, labels: &[(&str, &str)], us: u64) {
        self.add(labels, &Value::Seconds(us as f64 / 1e6));
    }

    /// A histogram of times.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        self.add(labels, &Value::Times(Distribution::of(histogram)));
    }

    /// The times of a latency monitor with these bounds; nothing where the buckets are of another one.
    pub(super) fn monitor(
        &mut self,
        labels: &[(&str, &str)],
        bounds_us: &[u64],
        buckets: &[Bucket],
    ) {
        if let Some(times) = Distribution::of_monitor(bounds_us, buckets) {
            self.add(labels, &Value::Times(times));
        }
    }

    /// The bytes of the page.
    pub(super) fn end(self) -> Vec<u8> {
        match self.sheet {
            Sheet::Text(text) => text.end().into_bytes(),
            Sheet::Protobuf(families) => families.end(),
        }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: &Value<'_>) {
        let of_tenant: Vec<(&str, &str)>;
        let labels = match &self.tenant {
            None => labels,
            Some(name) => {
                of_tenant = labels.iter().copied().chain([("tenant", &**name)]).collect();
                &of_tenant
            }
        };
        match &mut self.sheet {
            Sheet::Text(text) => text.add(labels, value),
            Sheet::Protobuf(families) => families.add(labels, value),
        }
    }
}
