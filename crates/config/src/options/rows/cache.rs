//! The rows of `[cache]`: replies that are kept here.
//!
//! Data only.
//!
//! Invariant: as in `rows`.

use super::{KIB, OptionSpec};
use crate::kind::Kind;

/// The table.
pub(super) const TABLE: (&str, &str) = (
    "cache",
    "Replies to reads that come often, kept by each worker and dropped when a server says that they changed. See the \
     [guide](../guides/near-cache.md).",
);

pub(super) const ENABLED: OptionSpec = OptionSpec::for_trusted_clients(
    "cache.enabled",
    "Keep replies to reads that come often, and give them without asking the server",
    "The servers tell of changes (`CLIENT TRACKING`), so it needs Redis 6, Valkey, or later. Not together with reads from replicas \
     (`reads.policy`).",
    Kind::Switch { at: |d| &mut d.config.cache.enabled },
);

pub(super) const MEMORY_MAX_BYTES: OptionSpec = OptionSpec::for_trusted_clients(
    "cache.memory_max_bytes",
    "Memory of the replies that a worker keeps; beyond it replies go that no client asks for",
    "With the requests and some 200 bytes for each. Counts against `limits.memory_max_bytes`: a worker keeps half of its part of that at most, and when it is reached the cache gives way first.",
    Kind::Bytes { min: 64 * KIB, max: 64 << 30, at: |d| &mut d.config.cache.memory_max_bytes },
)
.rare();

pub(super) const VALUE_MAX_BYTES: OptionSpec = OptionSpec::for_trusted_clients(
    "cache.value_max_bytes",
    "The largest reply that is kept",
    "As it goes over the wire.",
    Kind::Bytes {
        min: 1,
        max: engine::limits::CACHE_VALUE_BYTES_MAX,
        at: |d| &mut d.config.cache.value_max_bytes,
    },
)
.rare();

pub(super) const TTL_MS: OptionSpec = OptionSpec::for_trusted_clients(
    "cache.ttl_ms",
    "How long a reply serves before it is asked for again, whatever the servers tell",
    "The bound for what a server tells late or not at all: a key whose time to live is over and that nobody has touched, `SWAPDB`, a connection \
     that is dead and does not show it.",
    Kind::Time {
        unit: "milliseconds",
        min: 1,
        max: 86_400_000,
        at: |d| &mut d.config.cache.ttl_ms,
    },
)
.rare();

pub(super) const KEYS: OptionSpec = OptionSpec::for_trusted_clients(
    "cache.keys",
    "Patterns of keys whose replies may be kept; none: all",
    "As in `KEYS`: `user:*`, `h?llo`, `item:[0-9]*`. A request with several keys is kept when all of them fit.",
    Kind::Patterns { at: |d| &mut d.config.cache.keys },
)
.rare();

pub(super) const MIN_READS: OptionSpec = OptionSpec::for_trusted_clients(
    "cache.min_reads",
    "A reply is kept when its request came so often to a worker within ten seconds; 1: the first time",
    "So that memory, here and at the server that has to remember what is kept, goes to what is worth it. Estimated in a sketch of 32 KiB.",
    Kind::Count { min: 1, max: 1_000_000, at: |d| &mut d.config.cache.min_reads },
)
.rare();
