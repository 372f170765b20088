//! Which shard a key belongs to, when the sharding is done by the proxy and not by a cluster.
//!
//! ```text
//!  key ─▶ part that counts (hash tag) ─▶ hash ─▶ place in a layout ─▶ shard
//!         ^^^^^^^^ Compat rules ^^^^^^^^^^^^^^     ring | spread | buckets
//!  key ─▶ longest prefix that it begins with ─▶ layout of that route ─▶ as above            (`prefix`, where routes are given)
//! ```
//! The purpose is to take a pool over from another proxy without moving a key, so every step does what that proxy does, with
//! its oddities; [`Compat`] lists them. All of it is held by golden vectors that the proxies themselves gave (`golden`).
//!
//! Not here: connections, and what a shard is made of (one server, a sentinel group, a cluster); a shard is an index into the
//! list it was configured in. When a shard counts as dead is decided elsewhere too; here it is only left out
//! ([`Shards::without`]).
//!
//! Invariant: [`Shards::of`] gives an index below [`Shards::count`], of a shard that was not left out, and always the same
//! one for the same key (but for [`Distribution::Random`]); or [`NOWHERE`] for a key that no route leads anywhere.

mod compat;
#[cfg(test)]
mod golden;
mod layout;
mod prefix;
mod ring;
mod server_line;

pub use compat::Compat;
pub use prefix::{PREFIX_BYTES_MAX, ROUTE_SHARDS_MAX, ROUTES_MAX, Route, Routes};
pub use server_line::ServerLine;

use super::hash::Hash;
use super::slot;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use layout::Layout;
use prefix::Routed;

/// Shards of one pool at most. More are refused when the pool is built: a ring of so many has 163 840 points (1 MiB), and
/// the largest pool in the field's reports has some hundred.
pub const SHARDS_MAX: usize = 1024;

/// Buckets of a bucket map at most. More are refused when the pool is built.
pub const BUCKETS_MAX: usize = 65_536;

/// In the place of a shard's index: no route leads anywhere. Above every index ([`SHARDS_MAX`]).
pub const NOWHERE: usize = u16::MAX as usize;

/// One shard, as far as the distribution looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// What its points on a ring are made from, and by which twemproxy sorts the shards of a `modula`; must be exactly what
    /// the former proxy used ([`ServerLine`] tells). Of no account otherwise.
    pub name: String,
    /// Its share of the keys against the others', from 1. Of no account for `random` and for buckets.
    pub weight: u32,
}

/// How hashes are laid out over the shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Consistent hashing: a ring of points made of the shards' names. A shard that comes or goes moves only its own share.
    Ketama,
    /// Remainder by the sum of the weights.
    Modula,
    /// Any shard, for each request anew. For caches that hold the same on every shard.
    Random,
    /// camellia's bucket map: the remainder by its length is the bucket, whose entry is the shard.
    Buckets(Vec<u16>),
}

impl Distribution {
    /// A bucket map from camellia's writing, one text for each shard: `["0-2-4", "1-3-5"]` gives shard 0 the even ones of
    /// six buckets. Each bucket must occur exactly once, without a gap from 0.
    ///
    /// # Errors
    /// A bucket that is no number, occurs twice, is missing, or lies beyond [`BUCKETS_MAX`]; more than [`SHARDS_MAX`] texts.
    pub fn buckets<'a>(groups: impl IntoIterator<Item = &'a str>) -> Result<Self, ShardsError> {
        layout::parse_buckets(groups).map(Self::Buckets)
    }
}

/// How a pool is sharded: everything but its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// The proxy whose rules hold where proxies differ.
    pub compat: Compat,
    /// The layout of the shards.
    pub distribution: Distribution,
    /// The hash of the part of the key that counts.
    pub hash: Hash,
    /// The two characters of a hash tag, if tags are heeded. twemproxy and predixy have none by default, overlord `{}`.
    pub tag: Option<[u8; 2]>,
    /// Which shards share the keys that begin alike; `None`: all shards share all keys.
    pub routes: Option<Routes>,
}

/// Why a pool cannot be sharded as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardsError {
    /// No shard at all.
    Empty,
    /// More than [`SHARDS_MAX`] shards.
    TooMany(usize),
    /// The shard of this index has the weight 0.
    ZeroWeight(usize),
    /// The weights add up to more than 2^32-1.
    WeightOverflow,
    /// Two shards have this name where names matter: on a ring they would have the same points.
    SameName(String),
    /// This hash is too narrow for a ring.
    NotForRings(Hash),
    /// This text is no list of bucket numbers below [`BUCKETS_MAX`].
    BadBuckets(String),
    /// This bucket is given twice.
    BucketTwice(usize),
    /// This bucket is given to no shard, but a higher one is.
    BucketMissing(usize),
    /// The bucket map names a shard of this index, which does not exist.
    BucketShard(usize),
    /// Routes beside a bucket map, which has an owner for every key.
    RoutesWithBuckets,
    /// There are routes, and not one of them.
    NoRoute,
    /// More than [`ROUTES_MAX`] routes, or more than [`ROUTE_SHARDS_MAX`] shards in all of them.
    TooManyRoutes,
    /// A prefix of more than [`PREFIX_BYTES_MAX`] bytes.
    LongPrefix(Vec<u8>),
    /// Two routes have this prefix.
    PrefixTwice(Vec<u8>),
    /// The route of this prefix leads to no shard, or twice to the same, or to one that does not exist.
    RouteShards(Vec<u8>),
    /// The route of this prefix removes it, and shares a shard with another route, or is that of all other keys.
    RemovedShared(Vec<u8>),
    /// A prefix is removed and the case of letters is ignored: nobody could say how it was written.
    RemovedCase,
}

impl fmt::Display for ShardsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "no shards are given"),
            Self::TooMany(count) => {
                write!(f, "{count} shards are given, at most {SHARDS_MAX} are possible")
            }
            Self::ZeroWeight(shard) => write!(f, "shard {shard} has the weight 0, the least is 1"),
            Self::WeightOverflow => {
                write!(f, "the weights of all shards add up to more than {}", u32::MAX)
            }
            Self::SameName(name) => {
                write!(f, "two shards have the name {name:?}, so they cannot be told apart")
            }
            Self::NotForRings(hash) => write!(
                f,
                "hash {:?} cannot be used with ketama: its results are too narrow, nearly all keys would meet one shard",
                hash.name()
            ),
            Self::BadBuckets(text) => write!(
                f,
                "{text:?} is no list of buckets; they are numbers below {BUCKETS_MAX} joined by '-', as in \"0-2-4\""
            ),
            Self::BucketTwice(bucket) => write!(f, "bucket {bucket} is given twice"),
            Self::BucketMissing(bucket) => write!(f, "bucket {bucket} is given to no shard"),
            Self::BucketShard(shard) => {
                write!(f, "the bucket map names shard {shard}, which does not exist")
            }
            Self::RoutesWithBuckets => {
                write!(
                    f,
                    "routes cannot stand beside a bucket map, which has a shard for every key"
                )
            }
            Self::NoRoute => write!(f, "no routes are given"),
            Self::TooManyRoutes => write!(
                f,
                "at most {ROUTES_MAX} routes are possible, and {ROUTE_SHARDS_MAX} shards in all different lists of theirs together"
            ),
            Self::LongPrefix(prefix) => write!(
                f,
                "the prefix \"{}\" is longer than {PREFIX_BYTES_MAX} bytes",
                prefix.escape_ascii()
            ),
            Self::PrefixTwice(prefix) => {
                write!(f, "the prefix \"{}\" has two routes", prefix.escape_ascii())
            }
            Self::RemovedShared(prefix) => write!(
                f,
                "the prefix \"{}\" is removed, so each shard of its route must stand in this one only",
                prefix.escape_ascii()
            ),
            Self::RemovedCase => {
                write!(f, "a prefix cannot be removed where the case of its letters is ignored")
            }
            Self::RouteShards(prefix) => write!(
                f,
                "the route of the prefix \"{}\" names no shard, one twice, or one that does not exist",
                prefix.escape_ascii()
            ),
        }
    }
}

impl core::error::Error for ShardsError {}

/// A pool's shards, ready to be asked for keys.
#[derive(Clone, Debug)]
pub struct Shards {
    sharding: Sharding,
    shards: Vec<Shard>,
    plan: Plan,
}

/// Who shares what.
#[derive(Clone, Debug)]
enum Plan {
    /// All shards share all keys.
    Whole(Layout),
    /// Some share the keys that begin alike.
    Routed(Box<Routed>),
}

impl Plan {
    /// Lays out those that are wanted. Where none of those that share something is, they share it as if all were: their requests fail,
    /// whichever is asked.
    fn build(sharding: &Sharding, shards: &[Shard], wanted: impl Fn(usize) -> bool) -> Self {
        let lay = |of_group: &dyn Fn(usize) -> bool| {
            let compat = sharding.compat;
            let mut live = in_order(compat, shards, |shard| of_group(shard) && wanted(shard));
            if live.is_empty() {
                live = in_order(compat, shards, of_group);
            }
            Layout::build(sharding, shards, &live)
        };
        match &sharding.routes {
            None => Self::Whole(lay(&|_| true)),
            Some(routes) => Self::Routed(Box::new(Routed::new(routes, |group| {
                lay(&|shard| group.iter().any(|one| usize::from(*one) == shard))
            }))),
        }
    }
}

impl Shards {
    /// Lays `shards` out by `sharding`. Their order matters for predixy's `modula` only: see [`Compat`].
    ///
    /// # Errors
    /// See [`ShardsError`].
    pub fn new(sharding: Sharding, shards: Vec<Shard>) -> Result<Self, ShardsError> {
        check(&sharding, &shards)?;
        let plan = Plan::build(&sharding, &shards, |_| true);
        Ok(Self { sharding, shards, plan })
    }

    /// The shard of `key`, or [`NOWHERE`]. `random` is asked for a number only by [`Distribution::Random`].
    #[must_use]
    pub fn of(&self, key: &[u8], random: impl FnOnce() -> u32) -> usize {
        let layout = match &self.plan {
            Plan::Whole(layout) => layout,
            Plan::Routed(routed) => match routed.layout(key) {
                Some(layout) => layout,
                None => return NOWHERE,
            },
        };
        layout.shard(|| self.hash(key), random)
    }

    /// Whether the begin of a key decides who may have it.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        matches!(self.plan, Plan::Routed(_))
    }

    /// Whether there are keys that no route leads anywhere.
    #[must_use]
    pub fn has_gaps(&self) -> bool {
        matches!(&self.plan, Plan::Routed(routed) if routed.has_gaps())
    }

    /// Whether this shard may have `key` where chance chooses among those that share it.
    #[must_use]
    pub fn may_have(&self, shard: usize, key: &[u8]) -> bool {
        match &self.plan {
            Plan::Whole(_) => shard < self.shards.len(),
            Plan::Routed(routed) => routed.layout(key).is_some_and(|layout| layout.has(shard)),
        }
    }

    /// What the servers of this shard do not see of its keys: their prefix, or nothing.
    #[must_use]
    pub fn removed(&self, shard: usize) -> &[u8] {
        let routes = self.sharding.routes.iter().flat_map(|routes| &routes.list);
        let is_its = |route: &&Route| route.shards.iter().any(|one| usize::from(*one) == shard);
        routes.filter(|route| route.removes).find(is_its).map_or(&[], |route| &route.prefix)
    }

    /// Whether chance chooses the shard of a key.
    #[must_use]
    pub fn is_random(&self) -> bool {
        matches!(self.sharding.distribution, Distribution::Random)
    }

    /// How many shards there are, those left out included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// The shards as they were given, those left out included.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The same pool while the shards of these indices are dead: their keys go to the others, as twemproxy's
    /// `auto_eject_hosts` and overlord's `ping_auto_eject` do it. `self` is not changed, so the way back is to take the
    /// first one again. Indices that do not exist are ignored; what `self` had left out is not kept.
    ///
    /// `ketama` moves (almost) only the keys of the dead, `modula` moves most keys. A bucket map stays as it is, as its
    /// buckets have fixed owners. So does a pool without any living shard: its requests fail, whichever shard they ask.
    #[must_use]
    pub fn without(&self, dead: &[usize]) -> Self {
        let plan = Plan::build(&self.sharding, &self.shards, |shard| !dead.contains(&shard));
        Self { sharding: self.sharding.clone(), shards: self.shards.clone(), plan }
    }

    /// Whether all keys that `pattern` stands for, with whatever in place of its star, lie where the pattern itself does: its tag decides, and
    /// where there are routes what stands before the star leads to one of them.
    pub fn holds_together(&self, pattern: &[u8]) -> bool {
        let is_one = match &self.plan {
            Plan::Whole(layout) => layout.is_one(),
            Plan::Routed(routed) => {
                let star = pattern.iter().position(|byte| *byte == b'*');
                let Some(layout) = routed.sure_layout(&pattern[..star.unwrap_or(pattern.len())])
                else {
                    return false;
                };
                layout.is_one() || self.is_random()
            }
        };
        let tag = self.sharding.tag.and_then(|marks| slot::between(pattern, marks));
        is_one || tag.is_some_and(|tag| !tag.is_empty() && !tag.contains(&b'*'))
    }

    /// The hash of the part of `key` that counts.
    fn hash(&self, key: &[u8]) -> u64 {
        let rules = self.sharding.compat.rules();
        let part = match self.sharding.tag.and_then(|marks| slot::between(key, marks)) {
            Some([]) if rules.empty_tag_is_whole_key => key,
            Some(inner) => inner,
            None => key,
        };
        if part.is_empty() && rules.empty_key_is_zero {
            return 0;
        }
        self.sharding.hash.of(part, rules.dialect)
    }
}

/// The indices of those shards that are wanted, in the order in which the proxy lays them out.
///
/// twemproxy sorts its servers by name to find equal ones, and keeps that order (`conf_validate_server`): the shorter name
/// first, of equal length the lower one (`string_compare`). So `modula` does not follow the configured order there.
fn in_order(compat: Compat, shards: &[Shard], wanted: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..shards.len()).filter(|shard| wanted(*shard)).collect();
    if compat.rules().sorts_by_name {
        order.sort_by_key(|shard| (shards[*shard].name.len(), shards[*shard].name.as_bytes()));
    }
    order
}

fn check(sharding: &Sharding, shards: &[Shard]) -> Result<(), ShardsError> {
    if shards.is_empty() {
        return Err(ShardsError::Empty);
    }
    if shards.len() > SHARDS_MAX {
        return Err(ShardsError::TooMany(shards.len()));
    }
    if let Some(shard) = shards.iter().position(|shard| shard.weight == 0) {
        return Err(ShardsError::ZeroWeight(shard));
    }
    if shards.iter().try_fold(0_u32, |sum, shard| sum.checked_add(shard.weight)).is_none() {
        return Err(ShardsError::WeightOverflow);
    }
    if let Some(routes) = &sharding.routes {
        if matches!(sharding.distribution, Distribution::Buckets(_)) {
            return Err(ShardsError::RoutesWithBuckets);
        }
        routes.check(shards.len())?;
    }
    match &sharding.distribution {
        Distribution::Ketama if !sharding.hash.is_for_rings() => {
            Err(ShardsError::NotForRings(sharding.hash))
        }
        Distribution::Ketama => check_names(shards),
        Distribution::Buckets(owners) => layout::check_buckets(owners, shards.len()),
        Distribution::Modula if sharding.compat.rules().sorts_by_name => check_names(shards),
        Distribution::Modula | Distribution::Random => Ok(()),
    }
}

/// Names must differ where they matter. Compared each with each: it is done once, and sorting would take more words than time.
fn check_names(shards: &[Shard]) -> Result<(), ShardsError> {
    let twice = shards
        .iter()
        .enumerate()
        .find(|(n, shard)| shards[..*n].iter().any(|other| other.name == shard.name));
    twice.map_or(Ok(()), |(_, shard)| Err(ShardsError::SameName(shard.name.clone())))
}

#[cfg(test)]
mod tests;
