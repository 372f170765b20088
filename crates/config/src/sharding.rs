//! Keys spread over several pools: what the table `[sharding]` says, and what becomes of it.
//!
//! ```text
//!   sharding.shards        ─▶ Entry (`entry`) ─┐
//!   compat, distribution,                      ├─ resolve ─▶ Sharding, or findings for the person who wrote it
//!   hash, hash_tag, buckets ─▶ Draft ──────────┘
//! ```
//! The options come in one by one and from different sources, and what an entry means depends on `compat`; so entries wait
//! as they were written until all sources are read. What the former proxy does where its own file says nothing, this does
//! as well ([`Compat`]'s defaults): a pool can be taken over with the lines that it has.
//!
//! Not here: which key goes where; that is `engine::route::shard`, whose rules and names are asked and not repeated.
//!
//! Invariant: a [`Sharding`] that [`Draft::resolve`] returns is one that `Shards::new` takes.

mod entry;
mod routes;

use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution, SHARDS_MAX, Shard, Shards, ShardsError};

use crate::address::{PoolKind, UpstreamUrl};
use crate::rules::{Finding, Login, SENTINEL_USER_ALONE};

pub(crate) use entry::{Entry, SHARD_FORMS};
pub(crate) use routes::{ROUTE_FORMS, RouteLine, RoutesDraft};

/// Keys spread over several pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// Which key goes where.
    pub rules: engine::route::shard::Sharding,
    /// The pools, in the order of the configuration; all start clients in the same database.
    pub shards: Vec<ShardUrl>,
    /// When a shard that fails is left out; `None`: never.
    pub eject: Option<Eject>,
}

/// When a shard that fails is left out of the distribution, and how it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eject {
    /// Failures within the window at which a shard is left out; from 1 to `EJECT_FAILURES_MAX`.
    pub failures: usize,
    /// How long a failure counts.
    pub window_ms: u64,
    /// How often a shard that is left out is probed.
    pub probe_ms: u64,
}

impl Default for Eject {
    fn default() -> Self {
        Self { failures: 3, window_ms: 10_000, probe_ms: 1000 }
    }
}

/// One of several pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardUrl {
    /// Where it is, and how to log in there.
    pub url: UpstreamUrl,
    /// Its name and weight, as the distribution looks at it.
    pub shard: Shard,
}

/// The distributions by their names; the engine's type holds the bucket map, which comes from another option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Ketama,
    Modula,
    Random,
    Buckets,
}

impl Layout {
    /// All, in the order of [`Layout::NAMES`].
    pub(crate) const ALL: [Self; 4] = [Self::Ketama, Self::Modula, Self::Random, Self::Buckets];
    /// The names in the configuration.
    pub(crate) const NAMES: [&'static str; 4] = ["ketama", "modula", "random", "buckets"];

    /// What the proxy takes where its configuration names none; predixy refuses to start then.
    fn default_of(compat: Compat) -> Option<Self> {
        match compat {
            Compat::Twemproxy | Compat::TwemproxyArm | Compat::Overlord => Some(Self::Ketama),
            Compat::Camellia => Some(Self::Buckets),
            Compat::Predixy => None,
        }
    }

    /// Whether the shards' names may decide where keys go. predixy's and overlord's `modula` would do without.
    fn looks_at_names(self) -> bool {
        matches!(self, Self::Ketama | Self::Modula)
    }
}

/// The hash that the proxy takes where its configuration names none (twemproxy: `CONF_DEFAULT_HASH`; camellia:
/// `DefaultShardingFunc`); predixy refuses to start then.
fn default_hash(compat: Compat) -> Option<Hash> {
    match compat {
        Compat::Twemproxy | Compat::TwemproxyArm | Compat::Overlord => Some(Hash::Fnv1a64),
        Compat::Camellia => Some(Hash::Java31),
        Compat::Predixy => None,
    }
}

/// The table `[sharding]` as it was written.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    pub(crate) entries: Vec<Entry>,
    pub(crate) compat: Compat,
    pub(crate) distribution: Option<Layout>,
    pub(crate) hash: Option<Hash>,
    /// `Some(None)`: said to be none.
    pub(crate) tag: Option<Option<[u8; 2]>>,
    pub(crate) buckets: Vec<String>,
    pub(crate) routes: RoutesDraft,
    /// Of account only where something of it was set.
    pub(crate) eject: Eject,
}

impl Draft {
    /// Joins the options, and checks all rules between them. `login` and `sentinel` are for shards whose URL has neither user nor
    /// password.
    pub(crate) fn resolve(
        &self,
        login: &Login,
        sentinel: &Login,
    ) -> Result<Sharding, Vec<Finding>> {
        let mut found = Vec::new();
        let layout = self.distribution.or_else(|| Layout::default_of(self.compat));
        let hash = self.hash.or_else(|| default_hash(self.compat));
        if layout.is_none() {
            found.push((DISTRIBUTION, self.no_default("distribution", "modula or random")));
        }
        if hash.is_none() && layout != Some(Layout::Random) {
            found.push((HASH, self.no_default("hash", "atol or crc16")));
        }
        let tag = self.tag(&mut found);
        let distribution = self.distribution(layout, &mut found);
        let before = found.len();
        let shards = self.shards(layout, login, sentinel, &mut found);
        check_databases(&shards, &mut found);
        // A shard that is wrong is none here, and would be missed.
        let routes = match found.len() == before {
            true => self.routes.resolve(&shards, &mut found),
            false => None,
        };
        let (Some(distribution), true) = (distribution, found.is_empty()) else {
            return Err(found);
        };
        // With `random` no hash is calculated, so that any does.
        let hash = hash.unwrap_or(Hash::Fnv1a64);
        let rules =
            engine::route::shard::Sharding { compat: self.compat, distribution, hash, tag, routes };
        let names = shards.iter().map(|shard| shard.shard.clone()).collect();
        match Shards::new(rules.clone(), names) {
            Ok(_) => Ok(Sharding { rules, shards, eject: None }),
            Err(error) => Err(vec![finding(&error)]),
        }
    }

    fn no_default(&self, key: &str, usual: &str) -> String {
        format!(
            "{} has no default for `sharding.{key}`; give it as in the former configuration ({usual})",
            self.compat.name()
        )
    }

    /// The characters of a hash tag. overlord reads `hash_tag = ""` as `"{}"` (`ClusterConfig.Validate`), so whoever
    /// copies that line would move keys without a word.
    fn tag(&self, found: &mut Vec<Finding>) -> Option<[u8; 2]> {
        match (self.tag, self.compat) {
            (Some(None), Compat::Overlord) => {
                let message = "found nothing, which overlord itself takes for \"{}\"; allowed with it: two characters";
                found.push((&["sharding.hash_tag"], message.to_owned()));
                None
            }
            (None, Compat::Overlord) => Some(*b"{}"),
            (tag, _) => tag.flatten(),
        }
    }

    fn distribution(
        &self,
        layout: Option<Layout>,
        found: &mut Vec<Finding>,
    ) -> Option<Distribution> {
        let mut wrong = |message: String| {
            found.push((BUCKETS, message));
            None
        };
        match layout? {
            Layout::Buckets if self.buckets.len() != self.entries.len() => wrong(format!(
                "found {} for {} shards; allowed: one list of buckets for each shard, in the order of `sharding.shards`",
                self.buckets.len(),
                self.entries.len()
            )),
            Layout::Buckets => Distribution::buckets(self.buckets.iter().map(String::as_str))
                .map_or_else(|error| wrong(in_words(&error)), Some),
            _ if !self.buckets.is_empty() => wrong(
                "only the distribution `buckets` has buckets; set `sharding.distribution` to it, or leave this out"
                    .to_owned(),
            ),
            Layout::Ketama => Some(Distribution::Ketama),
            Layout::Modula => Some(Distribution::Modula),
            Layout::Random => Some(Distribution::Random),
        }
    }

    fn shards(
        &self,
        layout: Option<Layout>,
        login: &Login,
        sentinel: &Login,
        found: &mut Vec<Finding>,
    ) -> Vec<ShardUrl> {
        let mut shards: Vec<ShardUrl> = Vec::with_capacity(self.entries.len());
        for (index, entry) in self.entries.iter().enumerate() {
            let number = index + 1;
            let mut wrong =
                |message: String| found.push((SHARDS, format!("shard {number} {message}")));
            let names_count = layout.is_some_and(Layout::looks_at_names) || !self.routes.is_empty();
            let mut shard = match entry.resolve(self.compat, names_count) {
                Ok(shard) => shard,
                Err(message) => {
                    wrong(message);
                    continue;
                }
            };
            login.complete(&mut shard.url.user, &mut shard.url.password);
            if let PoolKind::Sentinel { user, password, .. } = &mut shard.url.pool {
                sentinel.complete(user, password);
                if user.is_some() && password.is_none() {
                    wrong(format!("has {SENTINEL_USER_ALONE}"));
                }
            }
            if shard.url.user.is_some() && shard.url.password.is_none() {
                wrong("has a user without a password; give user:password@ in its URL, \
                       password_file=PATH behind it, or upstream_password_file and no user in the URL (for a user with `nopass` any password does)".to_owned());
            }
            let is_it = |other: &ShardUrl| {
                (&other.url.address, &other.url.pool) == (&shard.url.address, &shard.url.pool)
            };
            if let Some(first) = shards.iter().position(is_it) {
                wrong(format!(
                    "is the same as shard {}; each server or cluster can be in the list once",
                    first + 1
                ));
            }
            shards.push(shard);
        }
        shards
    }
}

/// A client is in one database, the same on all shards.
fn check_databases(shards: &[ShardUrl], found: &mut Vec<Finding>) {
    let Some(first) = shards.first() else { return };
    let db = first.url.db;
    let Some(other) = shards.iter().position(|shard| shard.url.db != db) else { return };
    let other_db = shards[other].url.db;
    let is_cluster = |shard: &ShardUrl| matches!(shard.url.pool, PoolKind::Cluster { .. });
    let message = match shards.iter().position(is_cluster) {
        Some(cluster) => {
            let (shard, db) = if db == 0 { (other, other_db) } else { (0, db) };
            format!(
                "shard {} is in the database {db}, but shard {} is a cluster, which has the database 0 only; \
                 clients are in the same database on all shards",
                shard + 1,
                cluster + 1
            )
        }
        None => format!(
            "shard 1 is in the database {db} and shard {} in {other_db}; allowed: the same for all, because clients are \
             in one database on all shards",
            other + 1
        ),
    };
    found.push((SHARDS, message));
}

/// What the engine has against a sharding, at the option that can be changed.
fn finding(error: &ShardsError) -> Finding {
    let names = match error {
        ShardsError::NotForRings(_) => {
            &["sharding.hash", "sharding.distribution", "sharding.shards"][..]
        }
        ShardsError::BadBuckets(_)
        | ShardsError::BucketTwice(_)
        | ShardsError::BucketMissing(_)
        | ShardsError::BucketShard(_) => BUCKETS,
        ShardsError::RoutesWithBuckets
        | ShardsError::NoRoute
        | ShardsError::TooManyRoutes
        | ShardsError::LongPrefix(_)
        | ShardsError::PrefixTwice(_)
        | ShardsError::RouteShards(_) => routes::ROUTES,
        ShardsError::RemovedShared(_) | ShardsError::RemovedCase => routes::REMOVED,
        ShardsError::Empty
        | ShardsError::TooMany(_)
        | ShardsError::ZeroWeight(_)
        | ShardsError::WeightOverflow
        | ShardsError::SameName(_) => SHARDS,
    };
    (names, in_words(error))
}

/// The engine's words, and what is allowed where they do not say it.
pub(crate) fn in_words(error: &ShardsError) -> String {
    let allowed = match error {
        ShardsError::SameName(_) => "; allowed: a different name=TEXT for each",
        ShardsError::NotForRings(_) => {
            "; allowed with ketama: every hash but atol and java31, which are for modula and buckets"
        }
        ShardsError::BucketTwice(_) | ShardsError::BucketMissing(_) => {
            "; allowed: every number from 0 to the highest exactly once"
        }
        ShardsError::RoutesWithBuckets => {
            "; allowed with routes: ketama, modula and random, which lay out the shards of each route"
        }
        ShardsError::RemovedCase => {
            "; leave `sharding.ignore_case` out, or `sharding.remove_prefix`"
        }
        _ => "",
    };
    format!("{error}{allowed}")
}

/// Options that findings are about.
const SHARDS: &[&str] = &["sharding.shards"];
const DISTRIBUTION: &[&str] = &["sharding.distribution", "sharding.compat"];
const HASH: &[&str] = &["sharding.hash", "sharding.compat"];
const BUCKETS: &[&str] = &["sharding.buckets", "sharding.distribution", "sharding.shards"];

/// Most failures that can be asked for: each that counts is remembered with its time.
pub(crate) const EJECT_FAILURES_MAX: usize = 1000;

/// Most entries of the list; more are refused, because the engine lays out no more.
pub(crate) const ENTRIES_MAX: usize = SHARDS_MAX;
