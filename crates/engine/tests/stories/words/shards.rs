//! The words for a story whose keys are spread over several pools.
//!
//! ```text
//!   Story::shards()            three single servers n1, n2 and n3; crc16 and modula as twemproxy has them, hash tag {}
//!   Story::shards_with(|s| …)  the same with something changed
//!   Story::warm_shards()       the client `a` has spoken to each of them
//! ```
//! With `Story::routes` they begin otherwise. Without routes the keys d, e, f and g lie on n1; a, b, c and p on n2; l, m, n and o on n3.
//!
//! Not here: where other proxies put keys; that is held by the golden vectors in `route::shard`.
//!
//! Invariant: a shard that is a single server is named as that server is.

use super::Story;
use engine::Settings;
use engine::node::Address;
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution, Route, Routes, Shard, Sharding};
use engine::settings::{Node, Pool, ShardSettings, ShardsSettings};

/// Port of every single server, as in `cluster`.
const PORT: u16 = 7_000;

/// A shard that is made of this pool.
pub(crate) fn child_of(name: &str, pool: Pool) -> ShardSettings {
    let node = Node { address: Address::tcp(name, PORT), ..Settings::default().node };
    ShardSettings { shard: Shard { name: name.to_string(), weight: 1 }, node, pool }
}

/// A shard that is one server.
pub(crate) fn child(name: &str) -> ShardSettings {
    child_of(name, Pool::Standalone)
}

/// How the keys are spread in [`Story::shards`].
pub(crate) fn modula() -> Sharding {
    Sharding {
        compat: Compat::Twemproxy,
        distribution: Distribution::Modula,
        hash: Hash::Crc16,
        tag: Some(*b"{}"),
        routes: None,
    }
}

impl Story {
    /// Three single servers.
    pub(crate) fn shards() -> Self {
        Self::shards_with(|_| {})
    }

    /// The same with something changed.
    pub(crate) fn shards_with(change: impl FnOnce(&mut ShardsSettings)) -> Self {
        let children = vec![child("n1"), child("n2"), child("n3")];
        let mut shards = ShardsSettings { sharding: modula(), children, eject: None };
        change(&mut shards);
        Self::with(Settings { shards: Some(shards), ..Settings::default() })
    }

    /// The same with routes: keys with `u:` go to n1, with `o:` to n2 and n3, with `u:vip:` to n3; `rest`: whether all others go to n2.
    pub(crate) fn routes(rest: bool) -> Self {
        Self::shards_with(|shards| {
            let mut list = vec![route("u:", &[0]), route("o:", &[1, 2]), route("u:vip:", &[2])];
            list.extend(rest.then(|| route("", &[1])));
            shards.sharding.routes = Some(Routes { ignore_case: false, list });
        })
    }

    /// The client `a` has spoken to each of the three, and nothing is left to look at.
    pub(crate) fn warm_shards() -> Self {
        let mut story = Self::shards();
        story.client("a").says(["GET d", "GET a", "GET l"]);
        for (node, key) in [("n1", "d"), ("n2", "a"), ("n3", "l")] {
            story.node(node).gets(&*format!("GET {key}")).answers("nil").gets_nothing();
        }
        story.client("a").gets(["nil", "nil", "nil"]);
        story
    }
}

/// Where keys go that begin so.
pub(crate) fn route(prefix: &str, shards: &[u16]) -> Route {
    Route { prefix: prefix.into(), shards: shards.into(), removes: false }
}
