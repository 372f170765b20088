//! The slot of a key: which of the 16384 parts of a Redis cluster it belongs to.
//!
//! A slot is the CRC16 of the key, or of the *hash tag* in it, modulo 16384. The tag is what stands between the first `{`
//! and the first `}` behind it, unless nothing stands there; keys with the same tag share a slot, and thereby a server
//! (Redis cluster specification, "Hash tags"). The CRC is CRC-16/XMODEM: polynomial 0x1021, start 0, nothing reflected.
//!
//! Every request that has a key pays for this, so eight bytes are taken at once: by one byte at a time each look-up waits
//! for the one before, while the eight look-ups of a block do not depend on one another.
//!
//! Not here: who serves a slot (that is the slot map of the topology), and tags with other characters (`shard`).
//!
//! Invariant: `slot(key) == crc16(tag(key)) % 16384`, and [`crc16`] equals the bytewise definition on every input.

use memchr::memchr;

/// Slots of a Redis cluster. The number is fixed by the protocol.
pub const SLOTS: u16 = 16384;

/// The slot of `key`, in `0..SLOTS`. Any bytes are a key, also none at all (slot 0).
///
/// ```
/// assert_eq!(engine::route::slot::slot(b"{user1000}.following"), engine::route::slot::slot(b"user1000"));
/// ```
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

/// The part of `key` that decides its slot: the hash tag if there is one, else the whole key.
#[must_use]
pub fn tag(key: &[u8]) -> &[u8] {
    match between(key, *b"{}") {
        Some(inner) if !inner.is_empty() => inner,
        _ => key,
    }
}

/// What stands between the first `marks[0]` in `key` and the first `marks[1]` behind it; possibly nothing.
///
/// Both marks may be the same character. Peers agree so far; they differ in what an empty tag means, so that is the
/// caller's matter.
#[must_use]
pub(super) fn between(key: &[u8], marks: [u8; 2]) -> Option<&[u8]> {
    let open = find(marks[0], key)?;
    let behind = &key[open + 1..];
    let close = find(marks[1], behind)?;
    Some(&behind[..close])
}

/// Where `mark` first is. Most keys have no tag and are shorter than a vector register, and for those `memchr` goes byte by
/// byte, which took as long as the CRC. So whether the mark is there at all is asked of words that overlap; all bytes of a
/// key of 4 to 7 bytes fit one word so.
fn find(mark: u8, bytes: &[u8]) -> Option<usize> {
    let absent = match bytes.len() {
        0..4 => false,
        4..8 => !holds(overlapping(bytes), mark),
        8..16 => match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) => {
                !holds(u64::from_le_bytes(*first), mark) && !holds(u64::from_le_bytes(*last), mark)
            }
            _ => false,
        },
        _ => return memchr(mark, bytes),
    };
    if absent { None } else { bytes.iter().position(|byte| *byte == mark) }
}

/// The first four bytes and the last four.
fn overlapping(bytes: &[u8]) -> u64 {
    let half = |four: Option<&[u8; 4]>| four.map_or(0, |four| u64::from(u32::from_le_bytes(*four)));
    half(bytes.first_chunk()) | (half(bytes.last_chunk()) << 32)
}

/// Whether one of the eight bytes of `word` is `mark`: the known test for a zero byte, after the XOR makes it one.
fn holds(word: u64, mark: u8) -> bool {
    let zero_where_equal = word ^ (LOW_BITS * u64::from(mark));
    zero_where_equal.wrapping_sub(LOW_BITS) & !zero_where_equal & (LOW_BITS << 7) != 0
}

/// The lowest bit of every byte of a word.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// CRC-16/XMODEM of `bytes`.
///
/// ```
/// assert_eq!(engine::route::slot::crc16(b"123456789"), 0x31C3);
/// ```
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut crc = 0;
    for block in eights {
        crc = by_block(crc, block);
    }
    // Keys are short: with bytes only behind the last block, a key of 15 bytes would spend most of its time here.
    let (fours, rest) = rest.as_chunks::<4>();
    for block in fours {
        crc = by_block(crc, block);
    }
    rest.iter().fold(crc, |crc, byte| by_byte(crc, *byte))
}

/// Moves `crc` over one block. Every byte is looked up as if zeros filled the rest of the block behind it, which is the
/// same as the whole because the CRC of an XOR is the XOR of the CRCs. The CRC so far falls on the first two bytes.
fn by_block<const N: usize>(crc: u16, block: &[u8; N]) -> u16 {
    let [high, low] = crc.to_be_bytes();
    let mut out =
        TABLES[N - 1][usize::from(block[0] ^ high)] ^ TABLES[N - 2][usize::from(block[1] ^ low)];
    for at in 2..N {
        out ^= TABLES[N - 1 - at][usize::from(block[at])];
    }
    out
}

fn by_byte(crc: u16, byte: u8) -> u16 {
    (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)]
}

/// `TABLES[z][b]` is the CRC of the byte `b` with `z` zero bytes behind it. 4 KiB, so it stays in the first-level cache.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = (before << 8) ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// The definition, bit by bit: no table, no block.
    fn oracle(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc: u16, byte| {
            (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            })
        })
    }

    /// The tag by the letter of `keyHashSlot` in Redis' cluster.c: index by index.
    fn tag_oracle(key: &[u8]) -> &[u8] {
        let Some(s) = (0..key.len()).find(|n| key[*n] == b'{') else { return key };
        let Some(e) = (s + 1..key.len()).find(|n| key[*n] == b'}') else { return key };
        if e == s + 1 { key } else { &key[s + 1..e] }
    }

    #[test]
    fn published_values() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // Answers of `CLUSTER KEYSLOT` of redis-server 7.0.
        for (key, expected) in [
            (&b""[..], 0),
            (b"foo", 12182),
            (b"bar", 5061),
            (b"hello", 866),
            (b"somekey", 11058),
            (b"foo{hash_tag}", 2515),
            (b"123456789", 12739),
            (b"{user1000}.following", 3443),
            (b"{user1000}.followers", 3443),
            (b"user1000", 3443),
        ] {
            assert_eq!(slot(key), expected, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_tag_rule() {
        // The examples of the cluster specification.
        assert_eq!(tag(b"foo{bar}baz"), b"bar");
        assert_eq!(tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(tag(b"}{"), b"}{");
        assert_eq!(tag(b"foo{bar"), b"foo{bar");
        assert_eq!(tag(b"{}"), b"{}");
        assert_eq!(tag(b""), b"");
    }

    #[test]
    fn all_lengths_and_starts() {
        let bytes: Vec<u8> =
            (0..=255).chain(0..=255).map(|n: u8| n.wrapping_mul(167) ^ 0x5a).collect();
        for start in 0..9 {
            for end in start..bytes.len() {
                assert_eq!(crc16(&bytes[start..end]), oracle(&bytes[start..end]), "{start}..{end}");
            }
        }
    }

    /// Every length up to beyond the words, every place, and neighbours that a careless word test takes for the mark.
    #[test]
    fn finds_a_mark_wherever_it_is() {
        for filler in [b'a', b'z', 0x00, 0xff, 0x7a, 0x7c, 0xfb] {
            for len in 0..40 {
                let mut bytes = alloc::vec![filler; len];
                assert_eq!(find(b'{', &bytes), None, "{filler:#x} {len}");
                for at in (0..len).rev() {
                    // The later ones stay, so the first one is looked for.
                    bytes[at] = b'{';
                    assert_eq!(find(b'{', &bytes), Some(at), "{filler:#x} {len}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn finds_what_position_finds(bytes in proptest::collection::vec(0x79_u8..0x7e, 0..24), mark in 0x78_u8..0x7f) {
            prop_assert_eq!(find(mark, &bytes), bytes.iter().position(|byte| *byte == mark));
        }

        #[test]
        fn equals_the_definition(key in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(crc16(&key), oracle(&key));
        }

        /// Few characters, so that tags of every shape come up.
        #[test]
        fn equals_the_letter_of_the_tag_rule(key in "[{}ab]{0,12}") {
            prop_assert_eq!(tag(key.as_bytes()), tag_oracle(key.as_bytes()));
            prop_assert_eq!(slot(key.as_bytes()), oracle(tag_oracle(key.as_bytes())) % SLOTS);
        }
    }
}
