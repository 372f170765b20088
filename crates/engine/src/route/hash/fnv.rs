//! Fowler/Noll/Vo in the four forms of twemproxy's `nc_fnv.c`.
//!
//! They are 32-bit results throughout. The "64-bit" FNV-1 multiplies in 64 bits and returns the lower half, and the lower
//! half of a product depends on the lower halves of the factors only, so nothing wider than `u32` is needed. The "64-bit"
//! FNV-1a is no FNV at all: it works in 32 bits with the lower halves of the 64-bit constants.
//!
//! Invariant: a byte is mixed in as [`HighBytes`] widens it, and as nothing else.

use super::HighBytes;

/// Lower halves of the 64-bit start value 0xcbf29ce484222325 and prime 0x100000001b3.
const START_64_LOW: u32 = 0x8422_2325;
const PRIME_64_LOW: u32 = 0x1b3;
const START_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

pub(super) fn fnv1_64(key: &[u8], high: HighBytes) -> u32 {
    fnv1(key, high, START_64_LOW, PRIME_64_LOW)
}

pub(super) fn fnv1a_64(key: &[u8], high: HighBytes) -> u32 {
    fnv1a(key, high, START_64_LOW, PRIME_64_LOW)
}

pub(super) fn fnv1_32(key: &[u8], high: HighBytes) -> u32 {
    fnv1(key, high, START_32, PRIME_32)
}

pub(super) fn fnv1a_32(key: &[u8], high: HighBytes) -> u32 {
    fnv1a(key, high, START_32, PRIME_32)
}

/// FNV-1 multiplies first, then mixes the byte in.
fn fnv1(key: &[u8], high: HighBytes, start: u32, prime: u32) -> u32 {
    key.iter().fold(start, |hash, byte| hash.wrapping_mul(prime) ^ high.widen(*byte))
}

/// FNV-1a mixes the byte in first, then multiplies.
fn fnv1a(key: &[u8], high: HighBytes, start: u32, prime: u32) -> u32 {
    key.iter().fold(start, |hash, byte| (hash ^ high.widen(*byte)).wrapping_mul(prime))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values of real FNV (draft-eastlake-fnv, "foobar"), and the lower half of the 64-bit one.
    #[test]
    fn published_values() {
        let high = HighBytes::Positive;
        assert_eq!(fnv1_32(b"foobar", high), 0x31f0_b262);
        assert_eq!(fnv1a_32(b"foobar", high), 0xbf9c_f968);
        assert_eq!(fnv1_64(b"foobar", high), 0x340d_8765_a4dd_a9c2_u64 as u32);
        assert_eq!(fnv1_32(b"", high), START_32);
    }

    /// FNV-1 in full 64 bits, the byte widened to 64 bits as C does it.
    #[test]
    fn half_the_width_is_enough() {
        for key in [&b"foobar"[..], b"\xff\x80k\xe9y", b"\x00"] {
            let full = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                hash.wrapping_mul(0x100_0000_01b3) ^ (*byte as i8 as i64 as u64)
            });
            assert_eq!(fnv1_64(key, HighBytes::Negative), full as u32);
        }
    }
}
