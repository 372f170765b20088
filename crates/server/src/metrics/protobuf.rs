//! Writes metrics in Prometheus' protobuf format: the only one in which it takes native histograms.
//!
//! The messages are those of `io/prometheus/client/metrics.proto` (client_model 0.6) as far as they are used, with its numbers of fields. Each family
//! stands behind its length. What proto2 calls optional is written even where it is zero, as Prometheus' own clients do. The field for the unit is not
//! written, as older readers do not know it; the names end with it.
//!
//! Not here: which metrics there are (`names`), the buckets (`buckets`).
//!
//! Invariant: a family is on the page once, with one message for each of its samples.

use prost::Message;

use super::buckets::{Distribution, Native, SCHEMA, ZERO_THRESHOLD_S};
use super::page::Value;
use super::row::{Kind, Metric};

/// The families that are done, and the one under way.
#[derive(Default)]
pub(crate) struct Families {
    bytes: Vec<u8>,
    family: Option<Family>,
}

impl Families {
    /// What follows are samples of this metric.
    pub(super) fn begin(&mut self, metric: &'static Metric) {
        self.finish();
        let kind = match metric.kind {
            Kind::Counter => Type::Counter,
            // It knows no info, as the text of Prometheus.
            Kind::Gauge | Kind::Info => Type::Gauge,
            Kind::Histogram => Type::Histogram,
        };
        self.family = Some(Family {
            name: Some(metric.shown_name()),
            help: Some(metric.help.to_owned()),
            kind: Some(kind as i32),
            metrics: Vec::new(),
        });
    }

    /// One of them.
    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: &Value<'_>) {
        let Some(family) = &mut self.family else { return };
        let label = |(name, value): &(&str, &str)| Label {
            name: Some((*name).to_owned()),
            value: Some((*value).to_owned()),
        };
        let mut sample = Sample { labels: labels.iter().map(label).collect(), ..Sample::default() };
        let number = match value {
            Value::Number(number) => Some(*number as f64),
            Value::Seconds(seconds) => Some(*seconds),
            Value::Times(times) => {
                sample.histogram = Some(histogram(times));
                None
            }
        };
        let number = number.map(|value| Number { value: Some(value) });
        match family.kind == Some(Type::Counter as i32) {
            true => sample.counter = number,
            false => sample.gauge = number,
        }
        family.metrics.push(sample);
    }

    /// The bytes of all.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.finish();
        self.bytes
    }

    fn finish(&mut self) {
        if let Some(family) = self.family.take().filter(|family| !family.metrics.is_empty()) {
            self.bytes.extend(family.encode_length_delimited_to_vec());
        }
    }
}

/// Classic buckets, and native ones where there are.
fn histogram(times: &Distribution<'_>) -> Histogram {
    let bucket = |(end_s, count): &(f64, u64)| Bucket {
        cumulative_count: Some(*count),
        upper_bound: Some(*end_s),
    };
    // That of infinity may be left out, as it is the count.
    let mut written = Histogram {
        sample_count: Some(times.count),
        sample_sum: Some(times.sum_s),
        buckets: times.cumulative.iter().map(bucket).collect(),
        ..Histogram::default()
    };
    if let Some(native) = times.fine.map(Native::of) {
        let span =
            |(offset, length): (i32, u32)| Span { offset: Some(offset), length: Some(length) };
        written.schema = Some(SCHEMA);
        written.zero_threshold = Some(ZERO_THRESHOLD_S);
        written.zero_count = Some(native.zero_count);
        written.positive_spans = native.spans.into_iter().map(span).collect();
        written.positive_deltas = native.deltas;
    }
    written
}

/// `MetricType`.
#[derive(Clone, Copy)]
enum Type {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

/// `MetricFamily`.
#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Sample>,
}

/// `Metric`.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

/// `LabelPair`.
#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// `Gauge` and `Counter`.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

/// `Histogram`.
#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_spans: Vec<Span>,
    // Packed or not, readers take both; packed is shorter.
    #[prost(sint64, repeated, tag = "13")]
    positive_deltas: Vec<i64>,
}

/// `Bucket`.
#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

/// `BucketSpan`.
#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}
