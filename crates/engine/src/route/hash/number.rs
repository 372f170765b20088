//! The two functions that calculate with the key as with a number: predixy's `atol` and camellia's default.
//!
//! Neither is meant to scatter. They suit a modulo; on a ring they would put nearly all keys on one shard, which `shard`
//! refuses.
//!
//! Invariant: arithmetic wraps as it does in the originals, in 64 bits for `atol` and in 32 bits for `java31`.

use super::HighBytes;

/// The decimal number at the front of `key`: an optional sign, then digits, until something else comes. No digits: 0.
///
/// The result is predixy's `long` as the unsigned number that its modulo makes of it, so -1 is 2^64-1 and not 1. No space
/// is skipped, unlike in C's `atol`. Too many digits overflow; the compiled predixy wraps then.
pub(super) fn atol(key: &[u8]) -> u64 {
    let (negative, digits) = match key {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, key),
    };
    let number = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0_u64, |number, byte| number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')));
    if negative { number.wrapping_neg() } else { number }
}

/// `31 * h + byte` over the key in a signed 32-bit number, whose sign is then dropped.
///
/// The most negative number has no positive counterpart: camellia's proxy takes bucket 0 for it when their number is a
/// power of two, and fails otherwise; its dashboard takes bucket 0 always, and so does this.
pub(super) fn java31(key: &[u8], high: HighBytes) -> u32 {
    let hash =
        key.iter().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(high.widen(*byte)));
    (hash as i32).unsigned_abs() & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atol_reads_what_is_in_front() {
        for (key, expected) in [
            (&b""[..], 0),
            (b"-", 0),
            (b"+", 0),
            (b"42", 42),
            (b"+42", 42),
            (b"42abc7", 42),
            (b"abc42", 0),
            (b" 42", 0),
            (b"--1", 0),
            (b"-1", u64::MAX),
            (b"18446744073709551617", 1),
        ] {
            assert_eq!(atol(key), expected, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn java31_is_the_hash_of_java_strings_in_ascii() {
        // "hello".hashCode() and "Aa".hashCode() == "BB".hashCode() in Java.
        assert_eq!(java31(b"hello", HighBytes::Negative), 99_162_322);
        assert_eq!(java31(b"Aa", HighBytes::Negative), 2112);
        assert_eq!(java31(b"BB", HighBytes::Negative), 2112);
        // "polygenelubricants".hashCode() is Integer.MIN_VALUE.
        assert_eq!(java31(b"polygenelubricants", HighBytes::Negative), 0);
    }
}
