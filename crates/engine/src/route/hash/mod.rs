//! The hash functions by which proxies shard keys, byte for byte as those proxies compute them.
//!
//! The names are the field's, but several of these are not what their name says elsewhere: they inherit the slips of
//! libmemcached and of twemproxy, and keys were stored by them. Each function tells its own. Two things depend on the
//! proxy (and even on the machine) whose pool is taken over; they are the [`Dialect`].
//!
//! Not here: which shard a hash leads to (`shard`), and the slot of a cluster (`slot`).
//!
//! Invariant: [`Hash::of`] is a pure function of its arguments, the same on every machine whatever its byte order or the
//! sign of its C compiler's `char`. The golden vectors in `shard/golden` come from the proxies themselves.

mod crc;
mod fnv;
mod mixing;
mod number;

/// A hash function by the name that it has in the configuration of the proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// FNV-1, 64 bit, of which the lower half is kept.
    Fnv1_64,
    /// FNV-1a computed in 32 bit with the halves of the 64-bit constants. Default of twemproxy and overlord.
    Fnv1a64,
    /// FNV-1, 32 bit.
    Fnv1_32,
    /// FNV-1a, 32 bit.
    Fnv1a32,
    /// CRC-16/XMODEM; 16 or 32 bit wide by the [`Dialect`].
    Crc16,
    /// Bits 16 to 30 of CRC-32, as libmemcached has it. With `ketama` nearly all keys meet the same few points of the
    /// ring, as 15 bits reach only its first 32768th part; twemproxy does the same.
    Crc32,
    /// CRC-32 as in Ethernet and gzip.
    Crc32a,
    /// The first four bytes of the MD5 digest, little endian.
    Md5,
    /// MurmurHash2 with a seed made from the length.
    Murmur,
    /// Paul Hsieh's SuperFastHash.
    Hsieh,
    /// Bob Jenkins' lookup3 (`hashlittle`) with the start value 13.
    Jenkins,
    /// Bob Jenkins' one-at-a-time.
    OneAtATime,
    /// predixy: the decimal number at the front of the key, so that `12`, `12abc` and `+12` go together.
    Atol,
    /// camellia's default: `31 * h + byte`, as Java's `Arrays.hashCode` from 0, without its sign.
    Java31,
}

/// What differs between proxies under the same name of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// What a byte from 0x80 up counts as where a function adds or mixes single bytes.
    pub high_bytes: HighBytes,
    /// How much of the register the CRC-16 keeps.
    pub crc16: Crc16Width,
}

/// What a byte from 0x80 up counts as. Keys of ASCII only never meet the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighBytes {
    /// As -128 to -1: C with a signed `char` (x86), and Java.
    Negative,
    /// As 128 to 255: C with an unsigned `char` (ARM), and Go.
    Positive,
}

impl HighBytes {
    /// `byte` as such a number, in the two's complement that the hash functions calculate in.
    fn widen(self, byte: u8) -> u32 {
        match self {
            Self::Negative => i32::from(byte as i8) as u32,
            Self::Positive => u32::from(byte),
        }
    }
}

/// How much of its register the CRC-16 keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crc16Width {
    /// 16 bits, as the name says (predixy, camellia, Redis).
    Bits16,
    /// 32 bits: what is shifted out above the checksum is not cut off (twemproxy, overlord). The lower 16 bits are those
    /// of the 16-bit form, but a modulo sees all of it.
    Bits32,
}

/// Every function with its name in a configuration.
const NAMES: [(&str, Hash); 14] = [
    ("fnv1_64", Hash::Fnv1_64),
    ("fnv1a_64", Hash::Fnv1a64),
    ("fnv1_32", Hash::Fnv1_32),
    ("fnv1a_32", Hash::Fnv1a32),
    ("crc16", Hash::Crc16),
    ("crc32", Hash::Crc32),
    ("crc32a", Hash::Crc32a),
    ("md5", Hash::Md5),
    ("murmur", Hash::Murmur),
    ("hsieh", Hash::Hsieh),
    ("jenkins", Hash::Jenkins),
    ("one_at_a_time", Hash::OneAtATime),
    ("atol", Hash::Atol),
    ("java31", Hash::Java31),
];

impl Hash {
    /// All functions, in the order of their documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, hash)| *hash)
    }

    /// The function of this name, as twemproxy and predixy write it (exact, lower case). overlord writes `one_on_time` for
    /// `one_at_a_time`; both are known. `None` if there is no such function.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "one_on_time" { "one_at_a_time" } else { name };
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, hash)| *hash)
    }

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        // Every variant stands in the table, which a test checks.
        NAMES.iter().find(|(_, hash)| *hash == self).map_or("", |(name, _)| name)
    }

    /// Whether some proxy puts it on a ring. The others leave most of a ring's 32 bits unused, so that nearly all keys would
    /// meet one shard, and no pool to be taken over can have been made so.
    #[must_use]
    pub fn is_for_rings(self) -> bool {
        !matches!(self, Self::Atol | Self::Java31)
    }

    /// The hash of `key`. All but [`Hash::Atol`] give 32 bits or less.
    #[must_use]
    pub fn of(self, key: &[u8], dialect: Dialect) -> u64 {
        let high = dialect.high_bytes;
        let narrow = match self {
            Self::Fnv1_64 => fnv::fnv1_64(key, high),
            Self::Fnv1a64 => fnv::fnv1a_64(key, high),
            Self::Fnv1_32 => fnv::fnv1_32(key, high),
            Self::Fnv1a32 => fnv::fnv1a_32(key, high),
            Self::Crc16 => crc::crc16(key, dialect.crc16),
            Self::Crc32 => crc::crc32_libmemcached(key),
            Self::Crc32a => crc::crc32(key),
            Self::Md5 => mixing::md5(key),
            Self::Murmur => mixing::murmur(key),
            Self::Hsieh => mixing::hsieh(key, high),
            Self::Jenkins => mixing::jenkins(key),
            Self::OneAtATime => mixing::one_at_a_time(key, high),
            Self::Atol => return number::atol(key),
            Self::Java31 => number::java31(key, high),
        };
        u64::from(narrow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const TWEMPROXY: Dialect =
        Dialect { high_bytes: HighBytes::Negative, crc16: Crc16Width::Bits32 };
    const GO: Dialect = Dialect { high_bytes: HighBytes::Positive, crc16: Crc16Width::Bits32 };

    #[test]
    fn names_are_unique_and_complete() {
        for hash in Hash::all() {
            assert_eq!(Hash::from_name(hash.name()), Some(hash));
        }
        let names: Vec<_> = Hash::all().map(Hash::name).collect();
        assert!(names.iter().enumerate().all(|(n, name)| !names[..n].contains(name)));
        assert_eq!(Hash::from_name("one_on_time"), Some(Hash::OneAtATime));
        assert_eq!(Hash::from_name("FNV1A_64"), None);
        assert_eq!(Hash::from_name(""), None);
    }

    /// The values that overlord's own unit test (`pkg/hashkit/hash_methods_test.go`) states for this key.
    #[test]
    fn published_values() {
        for (hash, expected) in [
            (Hash::Crc16, 3_227_819_096),
            (Hash::Crc32, 9860),
            (Hash::Crc32a, 2_793_719_750),
            (Hash::Md5, 610_147_960),
            (Hash::Fnv1a64, 2_336_436_402),
            (Hash::Fnv1_64, 1_576_209_164),
            (Hash::Fnv1a32, 4_185_952_242),
            (Hash::Fnv1_32, 1_737_638_188),
            (Hash::Hsieh, 2_264_676_836),
            (Hash::Murmur, 1_957_635_836),
            (Hash::OneAtATime, 2_451_084_222),
        ] {
            assert_eq!(hash.of(b"0123456789", TWEMPROXY), expected, "{}", hash.name());
            assert_eq!(hash.of(b"0123456789", GO), expected, "{}", hash.name());
        }
    }

    /// Whether a byte from 0x80 up is negative matters to these functions only.
    #[test]
    fn the_dialect_matters_where_it_should() {
        let signed = [
            Hash::Fnv1_64,
            Hash::Fnv1a64,
            Hash::Fnv1_32,
            Hash::Fnv1a32,
            Hash::Hsieh,
            Hash::OneAtATime,
            Hash::Java31,
        ];
        for hash in Hash::all() {
            // Seven bytes: SuperFastHash takes the sign from the third byte of the rest only.
            let differs = hash.of(b"\xff\xfe\xfd\xfc\xfb\xfa\xf9", TWEMPROXY)
                != hash.of(b"\xff\xfe\xfd\xfc\xfb\xfa\xf9", GO);
            assert_eq!(differs, signed.contains(&hash), "{}", hash.name());
            assert_eq!(hash.of(b"plain", TWEMPROXY), hash.of(b"plain", GO), "{}", hash.name());
        }
    }

    #[test]
    fn crc16_of_two_widths() {
        let narrow = Dialect { crc16: Crc16Width::Bits16, ..TWEMPROXY };
        assert_eq!(Hash::Crc16.of(b"123456789", narrow), 0x31C3);
        assert_eq!(Hash::Crc16.of(b"123456789", TWEMPROXY) & 0xffff, 0x31C3);
        assert_ne!(Hash::Crc16.of(b"123456789", TWEMPROXY), 0x31C3);
    }
}
