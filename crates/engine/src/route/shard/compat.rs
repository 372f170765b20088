//! Where proxies that use the same names for hash and distribution still differ.
//!
//! | rule | twemproxy | twemproxy on ARM | overlord | predixy | camellia |
//! |---|---|---|---|---|---|
//! | bytes from 0x80 up | negative | positive | positive | (no matter) | negative |
//! | register of `crc16` | 32 bit | 32 bit | 32 bit | 16 bit | 16 bit |
//! | key without a byte | hash is 0 | hash is 0 | is hashed | is hashed | is hashed |
//! | tag with nothing in it | whole key | whole key | the empty text | whole key | whole key |
//! | order of the shards | by name | by name | as given | as given | as given |
//! | shares on the ring | 32-bit floats | 32-bit floats | 64-bit floats | – | – |
//! | text of a point | 272 bytes | 272 bytes | 64 bytes | – | – |
//!
//! From twemproxy's `server_pool_idx`, `conf_validate_server`, `nc_ketama.c` and `nc_fnv.c`; overlord's `trimHashTag` and
//! `ketama.go`; predixy's `Hash::hashTagStr`; camellia's `*ShardingFunc`. twemproxy before 0.5.0 cut the text of a point
//! after 85 bytes, and then hashed what lay behind it in memory; a pool of such long names cannot be taken over by anybody.
//! Before 0.4.0 it sorted names of unequal length at random, which `modula` suffers from.
//!
//! Invariant: a row of the table is a field of [`Rules`], and nothing else in `shard` asks which proxy it is.

use crate::route::hash::{Crc16Width, Dialect, HighBytes};

/// The proxy whose pool is taken over. A new pool may use any; the default is the most common one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// twemproxy (nutcracker) 0.4 and 0.5, as it runs on x86.
    #[default]
    Twemproxy,
    /// twemproxy built where C's `char` has no sign (ARM, PowerPC). Differs only for keys with bytes from 0x80 up.
    TwemproxyArm,
    /// overlord.
    Overlord,
    /// predixy.
    Predixy,
    /// camellia-redis-proxy.
    Camellia,
}

/// Every value with its name in a configuration.
const NAMES: [(&str, Compat); 5] = [
    ("twemproxy", Compat::Twemproxy),
    ("twemproxy-arm", Compat::TwemproxyArm),
    ("overlord", Compat::Overlord),
    ("predixy", Compat::Predixy),
    ("camellia", Compat::Camellia),
];

/// The rules of one proxy; the module's table explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) dialect: Dialect,
    pub(super) empty_key_is_zero: bool,
    pub(super) empty_tag_is_whole_key: bool,
    pub(super) sorts_by_name: bool,
    pub(super) ring: RingRules,
}

/// How a ring is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingRules {
    /// Shares are calculated with 64-bit floats and not with 32-bit ones.
    pub(super) wide_floats: bool,
    /// The text that a point is made from is cut after so many bytes.
    pub(super) text_bytes_max: usize,
}

impl Compat {
    /// All values.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, compat)| *compat)
    }

    /// The value of this name (exact, lower case): `twemproxy`, `twemproxy-arm`, `overlord`, `predixy`, `camellia`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, compat)| *compat)
    }

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        // Every variant stands in the table, which a test checks.
        NAMES.iter().find(|(_, compat)| *compat == self).map_or("", |(name, _)| name)
    }

    pub(super) const fn rules(self) -> Rules {
        let twemproxy = Rules {
            dialect: Dialect { high_bytes: HighBytes::Negative, crc16: Crc16Width::Bits32 },
            empty_key_is_zero: true,
            empty_tag_is_whole_key: true,
            sorts_by_name: true,
            ring: RingRules { wide_floats: false, text_bytes_max: 272 },
        };
        let narrow = Dialect { high_bytes: HighBytes::Negative, crc16: Crc16Width::Bits16 };
        let positive = Dialect { high_bytes: HighBytes::Positive, crc16: Crc16Width::Bits32 };
        match self {
            Self::Twemproxy => twemproxy,
            Self::TwemproxyArm => Rules { dialect: positive, ..twemproxy },
            Self::Overlord => Rules {
                dialect: positive,
                empty_key_is_zero: false,
                empty_tag_is_whole_key: false,
                sorts_by_name: false,
                ring: RingRules { wide_floats: true, text_bytes_max: 64 },
            },
            Self::Predixy | Self::Camellia => Rules {
                dialect: narrow,
                empty_key_is_zero: false,
                sorts_by_name: false,
                ..twemproxy
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_complete() {
        for compat in Compat::all() {
            assert_eq!(Compat::from_name(compat.name()), Some(compat));
        }
        assert_eq!(Compat::from_name("nutcracker"), None);
        assert_eq!(Compat::default().name(), "twemproxy");
    }
}
