//! Which shards have the keys that begin alike.
//!
//! Not here: the shards, and how those of a route share its keys (`super`).
//!
//! Invariant: that of the module above.

use super::super::OptionSpec;
use crate::kind::Kind;

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "sharding.routes",
        "Which shards have the keys that begin alike",
        "Prefixes of keys and the names of the shards that share the keys that begin so, by `sharding.distribution`. The longest prefix that \
         fits decides; keys that none fits go to `sharding.catch_all`. Without routes all shards share all keys. In the file also as \
         a table of its own, `[sharding.routes]`; in the environment and on the command line routes are separated by semicolons, and a \
         prefix ends at the last `=`.",
        Kind::Routes { at: |d| &mut d.sharding.routes.lines },
    )
    .rare(),
    OptionSpec::new(
        "sharding.catch_all",
        "The shards of keys that no route fits",
        "Names separated by blanks. Without it such keys get an error.",
        Kind::Text { at: |d| &mut d.sharding.routes.catch_all },
    )
    .rare(),
    OptionSpec::new(
        "sharding.remove_prefix",
        "Prefixes of `sharding.routes` that servers do not see",
        "Of a key that one of these routes has only what stands behind the prefix goes to its servers, and in replies clients see the whole key. \
         The shards of such a route stand in no other one, nor in `sharding.catch_all`; `sharding.ignore_case` must be off. On the command line and in \
         the environment prefixes are separated by semicolons.",
        Kind::Prefixes { at: |d| &mut d.sharding.routes.removed },
    )
    .rare(),
    OptionSpec::new(
        "sharding.ignore_case",
        "Whether the prefixes of `sharding.routes` fit letters in either case",
        "Only a-z and A-Z. Keys stay as they are.",
        Kind::Switch { at: |d| &mut d.sharding.routes.ignore_case },
    )
    .rare(),
];
