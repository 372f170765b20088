//! The two bit sets of the command table: what a command does, and what it does to one of its keys.
//!
//! They carry the words of the servers' own `COMMAND` reply, so that a row of the table, a command learnt from a
//! server and the test that compares the two all speak of the same thing. They are not policy: what respool does with
//! a command is its [`Class`](super::Class).
//!
//! Invariant: one bit per word, and [`Flags::from_word`] knows every word that Redis 7.0-8.x and Valkey 8-9 send in
//! the flags they attach to a command.

/// Declares a bit set with one documented constant, one bit and one wire word per flag.
macro_rules! bit_set {
    (
        $(#[$set_doc:meta])* $set:ident, $module:ident;
        $( $(#[$doc:meta])* $flag:ident = $bit:literal $word:literal; )*
    ) => {
        $(#[$set_doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $set(u32);

        /// The bits alone. `|` on integers works in constants, which `BitOr` does not.
        pub(super) mod $module {
            $( pub(in super::super) const $flag: u32 = 1 << $bit; )*
        }

        impl $set {
            $( $(#[$doc])* pub const $flag: Self = Self($module::$flag); )*

            /// Every flag with the word that stands for it in a `COMMAND` reply.
            pub const WORDS: &[(&'static str, Self)] = &[ $( ($word, Self::$flag), )* ];

            /// The set with these bits.
            pub(super) const fn of(bits: u32) -> Self {
                Self(bits)
            }

            /// True if every flag of `other` is in this set.
            #[inline]
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if this set and `other` share a flag.
            #[inline]
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// This set with the flags of `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This set without the flags of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The flag that a server calls `word` (any case), if respool knows it.
            #[must_use]
            pub fn from_word(word: &[u8]) -> Option<Self> {
                let same = |(known, _): &&(&str, Self)| crate::command::word::same_name(known, word);
                Self::WORDS.iter().find(same).map(|(_, flag)| *flag)
            }
        }

        /// Prints the words, because a test that compares two sets is read by a person.
        impl core::fmt::Debug for $set {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let words = Self::WORDS.iter().filter(|(_, flag)| self.has(*flag)).map(|(word, _)| word);
                f.debug_set().entries(words).finish()
            }
        }
    };
}

bit_set! {
    /// What a command does and where it may run, as in field 3 of a `COMMAND` reply.
    Flags, bit;
    /// May change the data set.
    WRITE = 0 "write";
    /// Reads keys and changes nothing.
    READONLY = 1 "readonly";
    /// Refused by a server that is out of memory.
    DENYOOM = 2 "denyoom";
    /// For operators: configuration, persistence, replication.
    ADMIN = 3 "admin";
    /// Has to do with channels.
    PUBSUB = 4 "pubsub";
    /// May keep its connection waiting.
    BLOCKING = 5 "blocking";
    /// Takes constant or logarithmic time.
    FAST = 6 "fast";
    /// The keys can't be told from first, last and step alone.
    MOVABLEKEYS = 7 "movablekeys";
    /// Not allowed in scripts.
    NOSCRIPT = 8 "noscript";
    /// Allowed while the data set is being loaded.
    LOADING = 9 "loading";
    /// Allowed on a replica whose data may be old.
    STALE = 10 "stale";
    /// Allowed before authentication.
    NO_AUTH = 11 "no_auth";
    /// Allowed while a script runs for too long.
    ALLOW_BUSY = 12 "allow_busy";
    /// Refused while a replica loads in the background.
    NO_ASYNC_LOADING = 13 "no_async_loading";
    /// Not allowed in a transaction.
    NO_MULTI = 14 "no_multi";
    /// Takes keys but may be called without any (`EVAL script 0`).
    NO_MANDATORY_KEYS = 15 "no_mandatory_keys";
    /// Not shown by `MONITOR`.
    SKIP_MONITOR = 16 "skip_monitor";
    /// Not kept in the slow log, which Valkey 8.1 renamed to the command log; Redis says `skip_slowlog`.
    SKIP_COMMANDLOG = 17 "skip_commandlog";
    /// In a cluster, accepted for a slot that is being imported.
    ASKING = 18 "asking";
    /// Comes from a module.
    MODULE = 19 "module";
    /// Runs a script or a function (from Redis 8.4 on).
    SCRIPT_RUNNER = 20 "script_runner";
    /// Not a write by itself, but may send something to the replicas (`PUBLISH`, `EVAL`, `PFCOUNT`), so it waits when
    /// writes are paused. Servers keep this flag to themselves: no `COMMAND` reply has it.
    MAY_REPLICATE = 21 "may_replicate";
}

bit_set! {
    /// What a command does with one key, as in the key specifications of a `COMMAND` reply.
    ///
    /// The first four exclude each other. `ACCESS`, `INSERT`, `UPDATE` and `DELETE` speak of the user's data, where
    /// `RO` to `RM` speak of the server's work on the key.
    KeyFlags, key_bit;
    /// Reads the value.
    RO = 0 "RO";
    /// Changes the value, and what is written depends on what was there.
    RW = 1 "RW";
    /// Overwrites the value whatever it was.
    OW = 2 "OW";
    /// Removes the key.
    RM = 3 "RM";
    /// Gives the client data of the key, or copies it to where the client can read it.
    ACCESS = 4 "access";
    /// Changes data of the key.
    UPDATE = 5 "update";
    /// Adds data, changes none.
    INSERT = 6 "insert";
    /// Takes data away.
    DELETE = 7 "delete";
    /// Not a key: a shard channel or a slot. It is routed as a key is, but names no data.
    NOT_KEY = 8 "not_key";
    /// The specification may miss some of the keys.
    INCOMPLETE = 9 "incomplete";
    /// The other flags depend on the arguments of the call.
    VARIABLE = 10 "variable_flags";
}

#[cfg(test)]
mod tests {
    use super::{Flags, KeyFlags};
    use alloc::format;

    #[test]
    fn words_and_bits_are_one_to_one() {
        for (index, (word, flag)) in Flags::WORDS.iter().enumerate() {
            assert_eq!(Flags::from_word(word.to_ascii_uppercase().as_bytes()), Some(*flag));
            assert!(Flags::WORDS[..index].iter().all(|(_, earlier)| !earlier.intersects(*flag)));
        }
        assert_eq!(Flags::from_word(b"skip_slowlo"), None);
        assert_eq!(KeyFlags::WORDS.len(), 11);
    }

    #[test]
    fn set_algebra() {
        let both = Flags::WRITE.with(Flags::FAST);
        assert!(both.has(Flags::WRITE) && both.intersects(Flags::FAST) && !both.has(Flags::ADMIN));
        assert!(!Flags::WRITE.has(both));
        assert_eq!(both.without(Flags::WRITE), Flags::FAST);
        assert_eq!(format!("{both:?}"), r#"{"write", "fast"}"#);
    }
}
