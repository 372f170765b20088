//! The ring of consistent hashing as libmemcached's `ketama` made it and twemproxy and overlord have it.
//!
//! Each shard gets about 160 points for an average weight. Points come in fours: the MD5 of `name-0`, `name-1`, … is cut
//! into four little-endian words. A key belongs to the first point at or above its hash, and beyond the last point to the
//! first.
//!
//! How many fours a shard gets is a product of floats, rounded down. Which floats is part of the format: with 32-bit ones
//! some pools of equal weights lose a four that 64-bit ones keep, and the whole ring differs there.
//!
//! Left out on purpose: two shards that have a point in common (one pool in tens of thousands). The proxies sort without
//! a rule for equal points; here the shard that is first in the proxy's order wins, as with glibc's `qsort` before 2.37.
//!
//! Invariant: points are in ascending order, one shard for each, never none.

use super::Shard;
use super::compat::RingRules;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

/// Points of a shard of average weight.
const POINTS_PER_SHARD: u32 = 160;

/// Points out of one MD5.
const POINTS_PER_TEXT: u32 = 4;

/// The points and whose they are. Two arrays, as the search reads only the first: 160 points are ten cache lines of it.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    points: Box<[u32]>,
    shards: Box<[u16]>,
}

impl Ring {
    /// The ring of those of `shards` whose indices are in `live`. Shares are taken among the living only, so a ring without
    /// a shard is not quite the former ring without its points: where weights differ, the others' numbers change too.
    pub(super) fn new(rules: RingRules, shards: &[Shard], live: &[usize]) -> Self {
        let weights: u32 = live.iter().map(|shard| shards[*shard].weight).sum();
        let mut ring = Vec::with_capacity(live.len() * POINTS_PER_SHARD as usize);
        let mut text = String::new();
        for index in live {
            let shard = &shards[*index];
            for four in 0..fours(rules.wide_floats, shard.weight, weights, live.len() as u32) {
                text.clear();
                // Writing to a String cannot fail.
                let _ = write!(text, "{}-{four}", shard.name);
                let bytes = text.as_bytes();
                let digest = md5::compute(&bytes[..bytes.len().min(rules.text_bytes_max)]).0;
                for word in digest.as_chunks::<4>().0 {
                    ring.push((u32::from_le_bytes(*word), *index as u16));
                }
            }
        }
        // The heaviest shard has at least the average weight and so 39 fours or more: the ring is not empty.
        debug_assert!(!ring.is_empty(), "the heaviest shard has points");
        ring.sort_by_key(|(point, _)| *point);
        let (points, shards): (Vec<_>, Vec<_>) = ring.into_iter().unzip();
        Self { points: points.into(), shards: shards.into() }
    }

    /// Whose `hash` is.
    pub(super) fn shard(&self, hash: u32) -> u16 {
        let at = self.points.partition_point(|point| *point < hash);
        self.shards[if at == self.points.len() { 0 } else { at }]
    }
}

/// How many texts a shard hashes: 40 for an average weight. The small addend is there since libmemcached, to mend products
/// that fall just below a whole number; it is too small to do so in 32 bits.
fn fours(wide_floats: bool, weight: u32, weights: u32, shards: u32) -> u32 {
    const MEND: f64 = 0.000_000_000_1;
    // The order of operations is that of the originals, each step rounded to its width.
    if wide_floats {
        let share = f64::from(weight) / f64::from(weights);
        let exact =
            share * f64::from(POINTS_PER_SHARD) / f64::from(POINTS_PER_TEXT) * f64::from(shards);
        ((exact + MEND) * f64::from(POINTS_PER_TEXT)) as u32 / POINTS_PER_TEXT
    } else {
        let share = weight as f32 / weights as f32;
        let exact = share * POINTS_PER_SHARD as f32 / POINTS_PER_TEXT as f32 * shards as f32;
        (f64::from(exact) + MEND) as f32 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_texts_for_an_average_weight() {
        for shards in 1..=1024 {
            assert_eq!(fours(true, 1, shards, shards), 40, "{shards}");
            assert!(matches!(fours(false, 1, shards, shards), 39 | 40), "{shards}");
        }
        assert_eq!(fours(false, 10, 17, 5), 117);
        assert_eq!(fours(false, 1, 17, 5), 11);
        assert_eq!(fours(false, 1, 1_000_000, 2), 0);
    }

    /// Where the two widths part. nutcracker does so too: `golden` has its pool of 25.
    #[test]
    fn narrow_floats_lose_a_four_in_some_pools() {
        let lose: Vec<u32> = (1..=100).filter(|n| fours(false, 1, *n, *n) == 39).collect();
        assert_eq!(lose, [25, 47, 50, 55, 61, 71, 94, 100]);
    }
}
