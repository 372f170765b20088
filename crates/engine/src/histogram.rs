//! How long things took, in buckets whose width grows with the time: eight to each power of two microseconds.
//!
//! ```text
//!   0 1 2 … 7 | 8 9 … 15 | 16 18 … 30 | 32 36 … 60 | …  | 2^25 … | 2^26 and longer
//!   one each    one each   two each     four each          4 s each
//! ```
//! So a quantile is wrong by an eighth at most, from 1 µs to 67 s, and two histograms add up by adding their counts. The counts are allocated with the
//! first record, as most commands are never used.
//!
//! Not here: who is measured (`stats`), and how it is shown (`local::info`, the server's metrics).
//!
//! Invariant: `count()` is the sum of all buckets, and merging two histograms gives what recording everything into one would give.

use alloc::boxed::Box;

/// Buckets of one histogram; the last one has all that took 2^26 µs (67 s) or longer.
pub const BUCKETS: usize = LINEAR * (POWERS + 1) + 1;

/// Buckets to each power of two.
const LINEAR: usize = 8;
/// Powers of two that have buckets of their own: from 2^3 to 2^25.
const POWERS: usize = 23;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Option<Box<[u64; BUCKETS]>>,
    sum_us: u64,
}

/// A time and its bucket, for what is recorded in several histograms.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    us: u64,
    at: usize,
}

impl Sample {
    /// So many microseconds, of which a year at most count.
    #[inline]
    pub fn new(us: u64) -> Self {
        let us = us.min(LONGEST_US);
        Self { us, at: index(us) }
    }
}

impl Histogram {
    /// This happened `count` times, and took so long each time.
    #[inline]
    pub fn record(&mut self, sample: Sample, count: u64) {
        let counts = self.counts.get_or_insert_with(zeroes);
        counts[sample.at] += count;
        self.sum_us += sample.us * count;
    }

    /// Adds what another one has.
    pub fn merge(&mut self, other: &Self) {
        let Some(others) = &other.counts else { return };
        let counts = self.counts.get_or_insert_with(zeroes);
        for (own, other) in counts.iter_mut().zip(others.iter()) {
            *own += other;
        }
        self.sum_us += other.sum_us;
    }

    /// How often anything was recorded.
    pub fn count(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.iter().sum())
    }

    /// All times together, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.counts.is_none()
    }

    /// Within this time, in microseconds, were so many of all: `q` from 0 to 1, the upper end of the bucket as Redis takes it. 0 where nothing was
    /// recorded; the begin of the last bucket where the answer is in that.
    pub fn quantile(&self, q: f64) -> u64 {
        let count = self.count();
        // The first whole number that is not below; `ceil` is not in `core`.
        let wanted = q.clamp(0.0, 1.0) * count as f64;
        let rank = (wanted as u64) + u64::from((wanted as u64 as f64) < wanted);
        let mut seen = 0;
        for (until_us, count) in self.buckets() {
            seen += count;
            if seen >= rank.max(1) {
                return until_us.map_or(OVERFLOW_US, |until| until - 1);
            }
        }
        0
    }

    /// Every bucket in the order of time: where it ends, in microseconds (what took less is in it; `None`: no end), and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let count = |at: usize| self.counts.as_ref().map_or(0, |counts| counts[at]);
        (0..BUCKETS).map(move |at| (end_us(at), count(at)))
    }

    /// How much of it took less than `until_us`, which must be a power of two: those are where buckets end.
    pub fn count_below(&self, until_us: u64) -> u64 {
        debug_assert!(until_us.is_power_of_two(), "no bucket ends at {until_us}");
        let below = |(end, _): &(Option<u64>, u64)| end.is_some_and(|end| end <= until_us);
        self.buckets().take_while(below).map(|(_, count)| count).sum()
    }
}

/// From here on times are told apart no more.
const OVERFLOW_US: u64 = 1 << (POWERS + 3);

/// No time counts for longer, so that a sum does not come to its end: half a million of these fit.
const LONGEST_US: u64 = 365 * 86_400 * 1_000_000;

#[cold]
fn zeroes() -> Box<[u64; BUCKETS]> {
    Box::new([0; BUCKETS])
}

/// The bucket of a time.
#[inline]
fn index(us: u64) -> usize {
    if us < LINEAR as u64 {
        return us as usize;
    }
    if us >= OVERFLOW_US {
        return BUCKETS - 1;
    }
    let power = us.ilog2() as usize;
    (power - 2) * LINEAR + ((us >> (power - 3)) as usize & (LINEAR - 1))
}

/// Where a bucket ends; `None`: the last one does not.
fn end_us(at: usize) -> Option<u64> {
    if at >= BUCKETS - 1 {
        return None;
    }
    if at < LINEAR {
        return Some(at as u64 + 1);
    }
    let (power, step) = (at / LINEAR - 1, at % LINEAR);
    Some(((LINEAR + step + 1) as u64) << power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Times of every size, the same in each run.
    fn times(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..count).map(|_| next() >> (38 + next() % 26)).collect()
    }

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        times.iter().for_each(|us| histogram.record(Sample::new(*us), 1));
        histogram
    }

    #[test]
    fn every_time_is_in_the_bucket_whose_bounds_hold_it() {
        let mut last = 0;
        for at in 0..BUCKETS - 1 {
            let end = end_us(at).unwrap();
            assert!(end > last, "{at}");
            assert_eq!((index(last), index(end - 1)), (at, at), "{last} to {end}");
            last = end;
        }
        assert_eq!(last, 1 << 26);
        assert_eq!((index(last), index(u64::MAX)), (BUCKETS - 1, BUCKETS - 1));
        assert_eq!(end_us(BUCKETS - 1), None);
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list_to_an_eighth() {
        for seed in 1..40 {
            let mut sorted = times(seed, 1 + seed as usize * 37);
            let histogram = of(&sorted);
            sorted.sort_unstable();
            for q in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
                let (exact, told) = (sorted[rank - 1], histogram.quantile(q));
                assert!(told >= exact && told <= exact + exact / 8, "{q}: {told}, not {exact}");
            }
            assert_eq!(histogram.count(), sorted.len() as u64);
            assert_eq!(histogram.sum_us(), sorted.iter().sum::<u64>());
            for power in 0..27 {
                let below = sorted.iter().filter(|us| **us < 1 << power).count() as u64;
                assert_eq!(histogram.count_below(1 << power), below, "2^{power}");
            }
        }
    }

    #[test]
    fn merging_is_as_recording_all() {
        for seed in 1..40 {
            let (one, other) = (times(seed, 50), times(seed + 100, 70));
            let mut merged = of(&one);
            merged.merge(&of(&other));
            merged.merge(&Histogram::default());
            assert_eq!(merged, of(&[one, other].concat()));
        }
        let mut empty = Histogram::default();
        empty.merge(&Histogram::default());
        assert!(empty.is_empty());
    }

    #[test]
    fn many_at_once_are_as_many_by_themselves_and_long_ones_are_not_lost() {
        let mut histogram = Histogram::default();
        histogram.record(Sample::new(100), 3);
        assert_eq!(histogram, of(&[100, 100, 100]));
        histogram.record(Sample::new(u64::MAX), 1);
        assert_eq!((histogram.count(), histogram.quantile(1.0)), (4, 1 << 26));
        assert_eq!(histogram.sum_us(), 300 + LONGEST_US);
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
