//! Histograms in the two forms that Prometheus knows: classic ones, with a few bounds of ours, and native ones, whose buckets grow by a factor.
//!
//! ```text
//!   engine:   eight buckets to each power of two microseconds   … | 64 | 72 | 80 | 88 | …
//!                                                                    │    │    │    │    all of a bucket goes to where its middle is
//!   native:   bounds 2^(k/16) seconds, k = … -1, 0, 1 …        … |  |▼ |  |▼ |  |▼ | ▼ …
//! ```
//! What the engine counts in one bucket is not divided: parts of a count that has to stay whole would now and then become smaller when it grows, and for
//! Prometheus a counter that becomes smaller has begun again. With sixteen native buckets to each power of two no two of the engine's buckets meet in
//! one, so nothing of their resolution is lost; with eight some would.
//!
//! So the native counts are exact in total, and each time is at most a sixteenth away from the bucket that counts it (half of the engine's bucket, which is
//! an eighth wide; below 8 µs half a microsecond). Any value of that bucket, which is what a quantile is, is wrong by a ninth or a microsecond at
//! most, whichever is more. What took less than a microsecond is in the zero bucket; all that took 67 s or longer is in one bucket, that of 71 s.
//!
//! Not here: how they are written (`text`, `protobuf`).
//!
//! Invariant: a count that has only grown since the last page has only grown in both forms, bucket by bucket.

use std::sync::LazyLock;

use engine::histogram::{BUCKETS, Histogram};
use engine::stats::monitors::Bucket;

/// A histogram to be written.
pub(super) struct Distribution<'a> {
    /// Ends of classic buckets in seconds, growing, and how many are not longer. The one without an end is `count`.
    pub(super) cumulative: Vec<(f64, u64)>,
    /// All of them.
    pub(super) count: u64,
    /// Their times together.
    pub(super) sum_s: f64,
    /// What the native form is made of; a monitor has bounds of its own and no native form.
    pub(super) fine: Option<&'a Histogram>,
}

/// Ends of classic buckets, as powers of two in microseconds.
const SHOWN_POWERS: std::ops::RangeInclusive<u32> = 5..=24;

impl<'a> Distribution<'a> {
    /// Of one of the engine's histograms.
    pub(super) fn of(histogram: &'a Histogram) -> Self {
        let below = |power: u32| {
            let until_us = 1 << power;
            (seconds(until_us), histogram.count_below(until_us))
        };
        Self {
            cumulative: SHOWN_POWERS.map(below).collect(),
            count: histogram.count(),
            sum_s: seconds(histogram.sum_us()),
            fine: Some(histogram),
        }
    }

    /// Of a latency monitor with these bounds. `buckets` are one more, or none where it saw nothing; `None`: they are of another monitor.
    pub(super) fn of_monitor(bounds_us: &[u64], buckets: &[Bucket]) -> Option<Self> {
        if !buckets.is_empty() && buckets.len() != bounds_us.len() + 1 {
            return None;
        }
        let (mut count, mut cumulative) = (0, Vec::new());
        for (at, bound_us) in bounds_us.iter().enumerate() {
            count += buckets.get(at).map_or(0, |bucket| bucket.count);
            cumulative.push((seconds(*bound_us), count));
        }
        count += buckets.last().map_or(0, |bucket| bucket.count);
        let sum_us = buckets.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.sum_us));
        Some(Self { cumulative, count, sum_s: seconds(sum_us), fine: None })
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Native buckets grow by 2^(1/2^`SCHEMA`): sixteen to each power of two.
pub(super) const SCHEMA: i32 = 4;

/// What is not longer is in the zero bucket; below the begin of the first native bucket that is used.
pub(super) const ZERO_THRESHOLD_S: f64 = 1e-6;

/// So many empty buckets in a row are cheaper to write than a new span.
const GAP_MAX: i32 = 2;

/// The native form, as Prometheus has it: runs of buckets, and each count as the difference to the one before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    /// How many took less than a microsecond.
    pub(super) zero_count: u64,
    /// How many buckets are passed over (of the first span: where it begins), and how many follow.
    pub(super) spans: Vec<(i32, u32)>,
    /// Of all spans.
    pub(super) deltas: Vec<i64>,
}

impl Native {
    /// See the module.
    pub(super) fn of(histogram: &Histogram) -> Self {
        let mut native = Self::default();
        // The number of the next bucket, and the count of the last one.
        let (mut next, mut last) = (0, 0);
        for ((_, count), place) in histogram.buckets().zip(PLACES.iter()) {
            let Some(place) = *place else {
                native.zero_count = count;
                continue;
            };
            if count == 0 {
                continue;
            }
            native.skip(place - next, &mut last);
            native.push(count as i64, &mut last);
            next = place + 1;
        }
        native
    }

    /// So many empty buckets.
    fn skip(&mut self, gap: i32, last: &mut i64) {
        if self.spans.is_empty() || gap > GAP_MAX {
            self.spans.push((gap, 0));
        } else {
            (0..gap).for_each(|_| self.push(0, last));
        }
    }

    fn push(&mut self, count: i64, last: &mut i64) {
        if let Some((_, length)) = self.spans.last_mut() {
            *length += 1;
        }
        self.deltas.push(count - *last);
        *last = count;
    }
}

/// The native bucket of each of the engine's buckets; `None`: the zero bucket.
static PLACES: LazyLock<[Option<i32>; BUCKETS]> = LazyLock::new(|| {
    let mut places = [None; BUCKETS];
    let mut begin_us = 0;
    for (place, (end_us, _)) in places.iter_mut().zip(Histogram::default().buckets()) {
        // The last bucket has no end; it is taken for as wide as one that began there.
        let end_us = end_us.unwrap_or(begin_us + begin_us / 8);
        if begin_us > 0 {
            *place = Some(place_of((seconds(begin_us) + seconds(end_us)) / 2.0));
        }
        begin_us = end_us;
    }
    places
});

/// The number of the native bucket of a time: that which ends at 2^(number/16) seconds. No middle of a bucket lies where one ends: those that
/// are powers of two of a second are no sum of microseconds with so few bits.
fn place_of(time_s: f64) -> i32 {
    (time_s.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::histogram::Sample;

    /// Begin, end and count of each native bucket that is not empty, in microseconds.
    fn decoded(native: &Native) -> Vec<(f64, f64, i64)> {
        let bound_us = |number: i32| 2f64.powf(f64::from(number) / 16.0) * 1e6;
        let (mut all, mut number, mut count) = (Vec::new(), 0, 0);
        let mut deltas = native.deltas.iter();
        for (offset, length) in &native.spans {
            number += offset;
            for _ in 0..*length {
                count += deltas.next().expect("a delta for each bucket of a span");
                assert!(count >= 0);
                if count > 0 {
                    all.push((bound_us(number - 1), bound_us(number), count));
                }
                number += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        all
    }

    fn of(times: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        times.iter().for_each(|(us, count)| histogram.record(Sample::new(*us), *count));
        histogram
    }

    /// Both ends of each of the engine's buckets but the first and the last one.
    fn edges() -> Vec<(u64, u64)> {
        let ends: Vec<u64> =
            Histogram::default().buckets().filter_map(|(end_us, _)| end_us).collect();
        ends.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    #[test]
    fn each_time_is_in_a_bucket_within_the_bound_that_is_told() {
        for (begin_us, end_us) in edges() {
            let native = Native::of(&of(&[(begin_us, 7)]));
            let all = decoded(&native);
            let [(low, high, 7)] = all[..] else { panic!("{begin_us}: {all:?}") };
            assert_eq!(native.zero_count, 0);
            assert!(low > ZERO_THRESHOLD_S * 1e6, "{begin_us}");
            let (begin, end) = (begin_us as f64, end_us as f64);
            // How far a time is from its bucket, and from any value in it.
            let (away, wrong) = match begin_us {
                0..8 => (0.5, 1.0),
                _ => (begin / 16.0, begin / 9.0),
            };
            assert!(low - begin <= away && end - high <= away, "{begin_us}: {low} to {high}");
            assert!(high - begin <= wrong && end - low <= wrong, "{begin_us}: {low} to {high}");
        }
    }

    #[test]
    fn no_two_buckets_of_the_engine_meet_in_one() {
        let used: Vec<i32> = PLACES.iter().flatten().copied().collect();
        assert_eq!(used.len(), BUCKETS - 1);
        assert!(used.windows(2).all(|pair| pair[0] < pair[1]), "{used:?}");
        assert_eq!(PLACES[0], None);
    }

    #[test]
    fn nothing_is_lost_and_no_bucket_shrinks_when_the_histogram_grows() {
        let (mut state, mut histogram) = (11u64, Histogram::default());
        let mut before: Vec<(f64, f64, i64)> = Vec::new();
        for _ in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            histogram.record(Sample::new(state >> (36 + state % 28)), state >> 56);
            let native = Native::of(&histogram);
            let all = decoded(&native);
            let sum: i64 = all.iter().map(|(_, _, count)| count).sum();
            assert_eq!(sum as u64 + native.zero_count, histogram.count());
            let grown = |(low, _, count): &(f64, f64, i64)| {
                all.iter().any(|(now, _, counts)| now == low && counts >= count)
            };
            assert!(before.iter().all(grown));
            before = all;
        }
        assert!(before.len() > 50, "{}", before.len());
    }

    #[test]
    fn the_first_and_the_last_bucket_have_their_places() {
        let native = Native::of(&of(&[(0, 3), (1, 2), (u64::MAX, 5)]));
        assert_eq!(native.zero_count, 3);
        let all = decoded(&native);
        let [(_, one, 2), (low, high, 5)] = all[..] else { panic!("{all:?}") };
        assert!(one < 2.0 && low > 67e6 && high < 76e6, "{all:?}");
        assert_eq!(Native::of(&Histogram::default()), Native::default());
    }

    #[test]
    fn a_monitor_has_its_own_bounds_and_each_of_them_is_within() {
        let buckets = [(3, 20), (7, 113), (5, 105)].map(|(count, sum_us)| Bucket { count, sum_us });
        let told = Distribution::of_monitor(&[10, 1_000_000], &buckets).expect("of these bounds");
        assert_eq!(told.cumulative, [(0.00001, 3), (1.0, 10)]);
        assert_eq!((told.count, told.sum_s, told.fine), (15, 0.000238, None));
        let none = Distribution::of_monitor(&[10], &[]).expect("nothing was seen");
        assert_eq!((none.cumulative, none.count), (vec![(0.00001, 0)], 0));
        assert!(Distribution::of_monitor(&[10], &buckets).is_none());
    }
}
