//! Which key comes next, and how it is spelt.
//!
//! A key is a number until it is written: [`Chooser`] draws numbers as a plan's distribution says, [`KeyText`] spells
//! number n. By default that is the spelling of redis-benchmark, `key:000000000012` (16 bytes), so that the same
//! server can be filled by one tool and read by the other; other lengths have more or fewer zeros, and where there is
//! no room the prefix gives way to the digits.
//!
//! Zipf's hot keys are the lowest numbers and stay neighbours in number. That needs no scrambling: servers and proxies
//! place a key by a hash of its text, so neighbours in number are strangers to them.
//!
//! Invariant: different numbers have different texts, and keys that exist (numbers below the plan's count) and keys
//! that do not (numbers from it up) never meet.

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use rand_distr::{Distribution as _, Zipf};

use crate::plan::{Distribution, KeyPlan};

/// What stands before the digits when there is room.
const PREFIX: &[u8] = b"key:";

/// Longest key in bytes: Redis takes 512 MiB, but a key that long is no key.
const KEY_BYTES_MAX: u32 = 64 * 1024;

/// Spells keys.
#[derive(Clone, Debug)]
pub(super) struct KeyText {
    bytes_min: u32,
    bytes_max: u32,
    /// `key:` and zeros, as long as the longest key, and its like for every shorter length.
    blanks: Vec<Vec<u8>>,
}

impl KeyText {
    /// For the keys of a plan. The error says why their lengths cannot be.
    pub(super) fn new(plan: &KeyPlan) -> Result<Self, String> {
        let (bytes_min, bytes_max) = (plan.bytes_min, plan.bytes_max);
        if bytes_min > bytes_max || bytes_max > KEY_BYTES_MAX {
            return Err(format!(
                "keys of {bytes_min} to {bytes_max} bytes; allowed: the first at most the second, at most {KEY_BYTES_MAX}"
            ));
        }
        // Keys that do not exist have the numbers from `count` to twice that.
        let greatest = plan.count.saturating_mul(2).saturating_sub(1);
        let digits = greatest.checked_ilog10().unwrap_or(0) + 1;
        if bytes_min < digits {
            return Err(format!(
                "keys of {bytes_min} bytes cannot tell {} keys apart; allowed: at least {digits} bytes",
                plan.count
            ));
        }
        let blank = |bytes: u32| {
            let prefix = PREFIX.len().min((bytes - digits) as usize);
            let mut blank = vec![b'0'; bytes as usize];
            blank.iter_mut().zip(&PREFIX[..prefix]).for_each(|(to, from)| *to = *from);
            blank
        };
        Ok(Self { bytes_min, bytes_max, blanks: (bytes_min..=bytes_max).map(blank).collect() })
    }

    /// The length of every key when all have the same.
    pub(super) fn fixed_bytes(&self) -> Option<usize> {
        (self.bytes_min == self.bytes_max).then_some(self.bytes_min as usize)
    }

    /// Bytes of key `number`. It depends on the number only, so that a read finds what a write wrote.
    pub(super) fn bytes(&self, number: u64) -> usize {
        self.bytes_min as usize + self.step(number)
    }

    /// Appends key `number`.
    #[inline]
    pub(super) fn write(&self, number: u64, out: &mut Vec<u8>) {
        // `step` is always below the number of blanks.
        let Some(blank) = self.blanks.get(self.step(number)) else { return };
        out.extend_from_slice(blank);
        let mut left = number;
        for digit in out.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
    }

    /// How many bytes beyond the shortest.
    #[inline]
    fn step(&self, number: u64) -> usize {
        match u64::from(self.bytes_max - self.bytes_min) {
            0 => 0,
            spread => (scrambled(number) % (spread + 1)) as usize,
        }
    }
}

/// Spreads neighbouring numbers over all 64 bits (the finalizer of splitmix64).
fn scrambled(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Draws everything of one thread that is random.
#[derive(Debug)]
pub(super) struct Chooser {
    rng: SmallRng,
    count: u64,
    order: Order,
    /// Below this (of 2^32) a read gets a key that exists; `None`: always.
    hit_below: Option<u64>,
}

#[derive(Debug)]
enum Order {
    Uniform,
    Zipf(Zipf<f64>),
    /// The next number of this thread, and how many threads share the keys.
    Sequential {
        next: u64,
        stride: u64,
    },
}

impl Chooser {
    /// For thread `thread` of `threads`. The same seed and thread draw the same numbers.
    pub(super) fn new(
        plan: &KeyPlan,
        seed: u64,
        thread: u32,
        threads: u32,
    ) -> Result<Self, String> {
        let order = match plan.distribution {
            Distribution::Uniform => Order::Uniform,
            Distribution::Zipf { exponent } => {
                Order::Zipf(Zipf::new(plan.count as f64, exponent).map_err(|error| {
                    format!("zipf with exponent {exponent} over {} keys: {error}", plan.count)
                })?)
            }
            // Threads take turns: thread 1 of 4 has the keys 1, 5, 9 …, so nothing is shared and each key is
            // visited once a round.
            Distribution::Sequential => {
                Order::Sequential { next: u64::from(thread), stride: u64::from(threads) }
            }
        };
        let hit_below =
            (plan.hit_ratio < 1.0).then_some((plan.hit_ratio.max(0.0) * 4_294_967_296.0) as u64);
        let rng = SmallRng::seed_from_u64(scrambled(seed ^ (u64::from(thread) << 32)));
        Ok(Self { rng, count: plan.count.max(1), order, hit_below })
    }

    /// The number of the next key that exists.
    #[inline]
    pub(super) fn key(&mut self) -> u64 {
        match &mut self.order {
            Order::Uniform => self.below(self.count),
            // 1 to count; the clamp is for the rounding of floats only.
            Order::Zipf(zipf) => (zipf.sample(&mut self.rng) as u64).clamp(1, self.count) - 1,
            Order::Sequential { next, stride } => {
                let number = *next % self.count;
                *next = next.wrapping_add(*stride);
                number
            }
        }
    }

    /// The number of the next key to read: now and then one that does not exist.
    #[inline]
    pub(super) fn key_to_read(&mut self) -> u64 {
        let number = self.key();
        match self.hit_below {
            Some(bound) if u64::from(self.rng.next_u32()) >= bound => number + self.count,
            _ => number,
        }
    }

    /// A random integer below the number of keys.
    #[inline]
    pub(super) fn number(&mut self) -> u64 {
        self.below(self.count)
    }

    /// A random integer below `bound`.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiplication without its rejection: the bias is below count / 2^64.
        ((u128::from(self.rng.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Printable bytes for a value: random, so that nothing on the way can compress them.
    pub(super) fn value(&mut self, bytes: u32) -> Vec<u8> {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        (0..bytes).map(|_| LETTERS[self.rng.random_range(0..LETTERS.len())]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn plan(count: u64, bytes: (u32, u32), distribution: Distribution) -> KeyPlan {
        KeyPlan { count, distribution, bytes_min: bytes.0, bytes_max: bytes.1, hit_ratio: 1.0 }
    }

    fn text(keys: &KeyText, number: u64) -> String {
        let mut out = b"before ".to_vec();
        keys.write(number, &mut out);
        assert_eq!(out.len() - 7, keys.bytes(number));
        String::from_utf8(out.split_off(7)).expect("ASCII")
    }

    #[test]
    fn keys_are_spelt_as_redis_benchmark_does() {
        let keys = KeyText::new(&plan(3000, (16, 16), Distribution::Uniform)).expect("lengths");
        assert_eq!(keys.fixed_bytes(), Some(16));
        assert_eq!(text(&keys, 12), "key:000000000012");
        assert_eq!(text(&keys, 0), "key:000000000000");
        assert_eq!(text(&keys, 5999), "key:000000005999");
    }

    #[test]
    fn every_key_has_its_own_text_whatever_the_lengths() {
        for (count, bytes) in
            [(10_000, (9, 14)), (10_000, (5, 5)), (5_000, (4, 9)), (1, (1, 1)), (2_000, (4, 40))]
        {
            let keys = KeyText::new(&plan(count, bytes, Distribution::Uniform)).expect("lengths");
            let texts: BTreeSet<String> =
                (0..2 * count).map(|number| text(&keys, number)).collect();
            assert_eq!(texts.len() as u64, 2 * count, "{count} keys of {bytes:?} bytes");
            assert!(texts.iter().all(|text| (bytes.0..=bytes.1).contains(&(text.len() as u32))));
            let lengths: BTreeSet<usize> = texts.iter().map(String::len).collect();
            assert!(
                count < 2_000 || lengths.len() as u32 == bytes.1 - bytes.0 + 1,
                "all lengths occur"
            );
        }
    }

    #[test]
    fn too_short_keys_are_refused_in_words() {
        let error =
            KeyText::new(&plan(10_000, (4, 16), Distribution::Uniform)).expect_err("too short");
        assert!(error.contains("at least 5 bytes"), "{error}");
        assert!(KeyText::new(&plan(10, (9, 8), Distribution::Uniform)).is_err());
    }

    #[test]
    fn uniform_covers_all_keys_evenly() {
        let mut chooser =
            Chooser::new(&plan(10, (16, 16), Distribution::Uniform), 1, 0, 1).expect("plan");
        let mut seen = [0_u32; 10];
        (0..100_000).for_each(|_| seen[chooser.key() as usize] += 1);
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
    }

    #[test]
    fn zipf_has_the_shape_of_its_exponent() {
        let zipf = Distribution::Zipf { exponent: 0.99 };
        let mut chooser = Chooser::new(&plan(1000, (16, 16), zipf), 7, 0, 1).expect("plan");
        let mut seen = vec![0_f64; 1000];
        let draws = 400_000;
        (0..draws).for_each(|_| seen[chooser.key() as usize] += 1.0);
        let norm: f64 = (1..=1000).map(|n| f64::from(n).powf(-0.99)).sum();
        for rank in [1_u32, 2, 3, 10, 50] {
            let wanted = f64::from(draws) * f64::from(rank).powf(-0.99) / norm;
            let got = seen[rank as usize - 1];
            assert!((got / wanted - 1.0).abs() < 0.1, "rank {rank}: {got} instead of {wanted}");
        }
        assert!(seen.iter().all(|count| *count > 0.0), "the tail is reached");
        let bad = Distribution::Zipf { exponent: f64::NAN };
        assert!(Chooser::new(&plan(10, (16, 16), bad), 7, 0, 1).is_err());
    }

    #[test]
    fn sequential_threads_share_the_keys() {
        let order = plan(10, (16, 16), Distribution::Sequential);
        let mut all: Vec<u64> = (0..3)
            .flat_map(|thread| {
                let mut chooser = Chooser::new(&order, 1, thread, 3).expect("plan");
                (0..10).map(move |_| chooser.key()).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).flat_map(|key| [key; 3]).collect::<Vec<_>>());
    }

    #[test]
    fn the_hit_ratio_holds_and_misses_lie_beyond_the_count() {
        let mut keys = plan(100, (16, 16), Distribution::Uniform);
        keys.hit_ratio = 0.8;
        let mut chooser = Chooser::new(&keys, 3, 0, 1).expect("plan");
        let drawn: Vec<u64> = (0..50_000).map(|_| chooser.key_to_read()).collect();
        let hits = drawn.iter().filter(|number| **number < 100).count();
        assert!((39_200..40_800).contains(&hits), "{hits} of 50000");
        assert!(drawn.iter().all(|number| *number < 200));
        keys.hit_ratio = 0.0;
        let mut never = Chooser::new(&keys, 3, 0, 1).expect("plan");
        assert!((0..1000).all(|_| never.key_to_read() >= 100));
    }

    #[test]
    fn the_same_seed_draws_the_same_and_threads_differ() {
        let draw = |seed, thread| {
            let mut chooser =
                Chooser::new(&plan(1 << 40, (16, 16), Distribution::Uniform), seed, thread, 2)
                    .expect("plan");
            (0..8).map(|_| chooser.key()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }
}
