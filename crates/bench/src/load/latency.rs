//! Latencies of a load: recorded in nanoseconds, told in microseconds.
//!
//! An HdrHistogram of three significant digits from 1 µs to 1 h, one in each thread, added up at the end. Recording is
//! some array arithmetic and one store; nothing is allocated after the beginning. Which requests count is not decided
//! here.
//!
//! Invariant: every latency recorded is in every figure; one above an hour counts as an hour.

use hdrhistogram::Histogram;

use crate::record::Latency;

/// The percentiles that are told.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];

/// The greatest latency that is told apart.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Significant digits.
const DIGITS: u8 = 3;

/// Records latencies.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    histogram: Histogram<u64>,
    /// The histogram keeps three digits; these two are exact.
    min_ns: u64,
    max_ns: u64,
}

impl Recorder {
    /// An empty one, of about 300 KiB.
    pub(super) fn new() -> Self {
        // The lowest value sets how fine the buckets are below 2 µs: with 1 ns a latency of 1 µs has its three digits.
        let histogram = Histogram::new_with_bounds(1, HOUR_NS, DIGITS)
            .expect("constant bounds that the crate allows");
        Self { histogram, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Counts one.
    #[inline]
    pub(super) fn record(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Adds all that another recorded.
    pub(super) fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// What was recorded; all 0 when nothing was.
    pub(super) fn latency(&self) -> Latency {
        if self.histogram.is_empty() {
            return Latency::default();
        }
        let us = |ns: u64| ns as f64 / 1e3;
        // A bucket's value is its upper end, which may lie beyond the greatest latency seen.
        let at = |percentile| us(self.histogram.value_at_percentile(percentile).min(self.max_ns));
        Latency {
            mean_us: self.histogram.mean() / 1e3,
            min_us: us(self.min_ns),
            max_us: us(self.max_ns),
            percentiles: PERCENTILES
                .iter()
                .map(|percentile| (*percentile, at(*percentile)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let (mut low, mut high) = (Recorder::new(), Recorder::new());
        // 1 µs to 100 ms in steps of 1 µs, in two threads.
        (1..=50_000).for_each(|us| low.record(us * 1000));
        (50_001..=100_000).for_each(|us| high.record(us * 1000));
        low.add(&high);
        let latency = low.latency();
        for (percentile, us) in
            [(50.0, 50_000.0), (75.0, 75_000.0), (99.0, 99_000.0), (99.99, 99_990.0)]
        {
            let got: f64 = latency.at(percentile).expect("told");
            assert!((got / us - 1.0).abs() < 0.001, "p{percentile}: {got}");
        }
        assert_eq!((latency.min_us, latency.max_us), (1.0, 100_000.0));
        assert_eq!(latency.at(100.0), Some(100_000.0));
        assert!((latency.mean_us / 50_000.5 - 1.0).abs() < 0.001);
        assert!(latency.percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }

    #[test]
    fn nothing_recorded_is_all_zero_and_a_day_counts_as_an_hour() {
        assert_eq!(Recorder::new().latency(), Latency::default());
        let mut recorder = Recorder::new();
        recorder.record(24 * HOUR_NS);
        let p50 = recorder.latency().at(50.0).expect("told");
        assert!(p50 >= HOUR_NS as f64 / 1e3 && p50 < 1.002 * HOUR_NS as f64 / 1e3, "{p50}");
    }
}
