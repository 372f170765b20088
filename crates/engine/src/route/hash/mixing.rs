//! The hash functions that mix words: MD5, MurmurHash2, SuperFastHash, lookup3 and one-at-a-time.
//!
//! The C originals read words through pointers and give other results on machines of the other byte order. The pools that
//! are taken over ran on little-endian machines, so words are little endian here, everywhere.
//!
//! Not here: any strength against keys chosen to collide; none of these has it.
//!
//! Invariant: words are read from the key alone; no result depends on what lies behind it in memory, or on its alignment
//! (lookup3 has three paths for that in C, which agree).

use super::HighBytes;

/// The first four bytes of the digest, little endian.
pub(super) fn md5(key: &[u8]) -> u32 {
    let [a, b, c, d, ..] = ::md5::compute(key).0;
    u32::from_le_bytes([a, b, c, d])
}

/// MurmurHash2; the seed is twemproxy's own, 0xdeadbeef times the length.
pub(super) fn murmur(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    let mut hash =
        words.iter().fold(0xdead_beef_u32.wrapping_mul(length) ^ length, |hash, word| {
            let word = u32::from_le_bytes(*word).wrapping_mul(M);
            hash.wrapping_mul(M) ^ (word ^ (word >> 24)).wrapping_mul(M)
        });
    if !rest.is_empty() {
        hash = (hash ^ tail_word(rest)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// SuperFastHash. Of the rest behind the last word only a third byte is read as a plain `char`, and so has a sign.
pub(super) fn hsieh(key: &[u8], high: HighBytes) -> u32 {
    let half = |a: u8, b: u8| u32::from(u16::from_le_bytes([a, b]));
    let (words, rest) = key.as_chunks::<4>();
    let mut hash: u32 = 0;
    for [a, b, c, d] in words {
        hash = hash.wrapping_add(half(*a, *b));
        hash = (hash << 16) ^ (half(*c, *d) << 11) ^ hash;
        hash = hash.wrapping_add(hash >> 11);
    }
    match rest {
        [a, b, c] => {
            hash = hash.wrapping_add(half(*a, *b));
            hash ^= hash << 16;
            hash ^= high.widen(*c) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [a, b] => {
            hash = hash.wrapping_add(half(*a, *b));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [a] => {
            hash = hash.wrapping_add(u32::from(*a));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    hash ^= hash << 3;
    hash = hash.wrapping_add(hash >> 5);
    hash ^= hash << 4;
    hash = hash.wrapping_add(hash >> 17);
    hash ^= hash << 25;
    hash.wrapping_add(hash >> 6)
}

/// lookup3's `hashlittle` with 13 as the start value. A last block is always kept back for the final mix, so a key of a
/// whole number of blocks has its last one there.
pub(super) fn jenkins(key: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(13);
    let (mut a, mut b, mut c) = (start, start, start);
    if key.is_empty() {
        return c;
    }
    let kept_back = (key.len() - 1) / 12 * 12;
    for block in key[..kept_back].as_chunks::<12>().0 {
        a = a.wrapping_add(tail_word(&block[..4]));
        b = b.wrapping_add(tail_word(&block[4..8]));
        c = c.wrapping_add(tail_word(&block[8..]));
        (a, b, c) = jenkins_mix(a, b, c);
    }
    let last = &key[kept_back..];
    let word = |at: usize| tail_word(last.get(at..).unwrap_or_default());
    jenkins_final(a.wrapping_add(word(0)), b.wrapping_add(word(4)), c.wrapping_add(word(8)))
}

/// One round between blocks: six times the same step with the three words in turn.
fn jenkins_mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, bits| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(bits);
        *z = z.wrapping_add(*y);
    };
    step(&mut a, &mut b, &mut c, 4);
    step(&mut b, &mut c, &mut a, 6);
    step(&mut c, &mut a, &mut b, 8);
    step(&mut a, &mut b, &mut c, 16);
    step(&mut b, &mut c, &mut a, 19);
    step(&mut c, &mut a, &mut b, 4);
    (a, b, c)
}

/// The last round.
fn jenkins_final(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    let step = |x: &mut u32, y: u32, bits| *x = (*x ^ y).wrapping_sub(y.rotate_left(bits));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    c
}

/// Bob Jenkins' one-at-a-time.
pub(super) fn one_at_a_time(key: &[u8], high: HighBytes) -> u32 {
    let mut hash = key.iter().fold(0_u32, |hash, byte| {
        let hash = hash.wrapping_add(high.widen(*byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// Up to four bytes as a little-endian word, zeros behind them; what is beyond four is left out.
fn tail_word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        // RFC 1321: MD5("abc") = 900150983cd24fb0…, MD5("") = d41d8cd9….
        assert_eq!(md5(b"abc"), 0x9850_0190);
        assert_eq!(md5(b""), 0xd98c_1dd4);
        // From the description of one-at-a-time in the Wikipedia article "Jenkins hash function".
        assert_eq!(one_at_a_time(b"a", HighBytes::Negative), 0xca2e_9442);
        assert_eq!(
            one_at_a_time(b"The quick brown fox jumps over the lazy dog", HighBytes::Negative),
            0x519e_91f5
        );
        assert_eq!(hsieh(b"", HighBytes::Negative), 0);
    }

    /// lookup3.c prints these for its own start value: an empty key gives 0xdeadbeef plus start value. The rest of the
    /// function is held by the golden vectors, which reach every length from 1 to 33.
    #[test]
    fn lookup3_of_nothing_is_its_start() {
        assert_eq!(jenkins(b""), 0xdead_beef + 13);
    }
}
