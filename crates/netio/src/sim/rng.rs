//! The one source of chance in the simulated network: xoshiro256**, seeded through splitmix64 (both by
//! Blackman and Vigna, <https://prng.di.unimi.it>, public domain).
//!
//! Own code, so that a seed means the same run whatever crate versions are about. Not for secrets.
//!
//! Invariant: the numbers depend on the seed and on how many were drawn before, on nothing else.

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct SimRng {
    state: [u64; 4],
}

impl SimRng {
    /// The stream of `seed`. Neighbouring seeds give unrelated streams.
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let state = std::array::from_fn(|_| {
            mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut word = mixed;
            word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            word ^ (word >> 31)
        });
        Self { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from `low` to `high`, both included. `low` where the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let Some(span) = high.checked_sub(low) else { return low };
        if span == u64::MAX {
            return self.next_u64();
        }
        // The upper half of a 128-bit product: a bias of less than span / 2^64, which no test sees.
        low + ((u128::from(self.next_u64()) * (u128::from(span) + 1)) >> 64) as u64
    }

    /// True `ppm` times in a million.
    pub fn chance(&mut self, ppm: u32) -> bool {
        // No draw for what is switched off, so that adding a kind of fault leaves old seeds alone.
        ppm > 0 && self.between(0, 999_999) < u64::from(ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The first outputs of the reference implementation for the state 1, 2, 3, 4.
        let mut rng = SimRng { state: [1, 2, 3, 4] };
        let drawn = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(drawn, [11520, 0, 1_509_978_240]);
    }

    #[test]
    fn between_reaches_both_ends_and_nothing_else() {
        let mut rng = SimRng::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.between(3, 6)).collect();
        for wanted in 3..=6 {
            assert!(drawn.contains(&wanted), "{wanted} never came");
        }
        assert!(drawn.iter().all(|number| (3..=6).contains(number)));
        assert_eq!(rng.between(9, 2), 9);
    }

    #[test]
    fn chance_is_in_parts_per_million() {
        let mut rng = SimRng::new(2);
        let hits = (0..100_000).filter(|_| rng.chance(250_000)).count();
        assert!((24_000..26_000).contains(&hits), "{hits} of 100000 at one in four");
        assert!(!rng.chance(0));
        assert!(rng.chance(1_000_000));
    }
}
