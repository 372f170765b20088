//! Which shard a key belongs to, when the sharding is done by the proxy and not by a cluster.
//!
//! ```text
//!  key ─▶ part that counts (hash tag) ─▶ hash ─▶ place in a layout ─▶ shard
//!         ^^^^^^^^ Compat rules ^^^^^^^^^^^^^^     ring | spread | buckets
//! ```
//! The purpose is to take a pool over from another proxy without moving a key, so every step does what that proxy does, with
//! its oddities; [`Compat`] lists them. All of it is held by golden vectors that the proxies themselves gave (`golden`).
//!
//! Not here: connections, and what a shard is made of (one server, a sentinel group, a cluster); a shard is an index into the
//! list it was configured in. When a shard counts as dead is decided elsewhere too; here it is only left out
//! ([`Shards::without`]).
//!
//! Invariant: [`Shards::of`] gives an index below [`Shards::count`], of a shard that was not left out, and always the same
//! one for the same key (but for [`Distribution::Random`]).

mod compat;
#[cfg(test)]
mod golden;
mod layout;
mod ring;
mod server_line;

pub use compat::Compat;
pub use server_line::ServerLine;

use super::hash::Hash;
use super::slot;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use layout::Layout;

/// Shards of one pool at most. More are refused when the pool is built: a ring of so many has 163 840 points (1 MiB), and
/// the largest pool in the field's reports has some hundred.
pub const SHARDS_MAX: usize = 1024;

/// Buckets of a bucket map at most. More are refused when the pool is built.
pub const BUCKETS_MAX: usize = 65_536;

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
        }
    }
}

impl core::error::Error for ShardsError {}

/// A pool's shards, ready to be asked for keys.
#[derive(Clone, Debug)]
pub struct Shards {
    sharding: Sharding,
    shards: Vec<Shard>,
    layout: Layout,
}

impl Shards {
    /// Lays `shards` out by `sharding`. Their order matters for predixy's `modula` only: see [`Compat`].
    ///
    /// # Errors
    /// See [`ShardsError`].
    pub fn new(sharding: Sharding, shards: Vec<Shard>) -> Result<Self, ShardsError> {
        check(&sharding, &shards)?;
        let all = in_order(sharding.compat, &shards, |_| true);
        let layout = Layout::build(&sharding, &shards, &all);
        Ok(Self { sharding, shards, layout })
    }

    /// The shard of `key`. `random` is asked for a number only by [`Distribution::Random`].
    #[must_use]
    pub fn of(&self, key: &[u8], random: impl FnOnce() -> u32) -> usize {
        // As in twemproxy, a pool of one is not hashed at all.
        if self.shards.len() == 1 {
            return 0;
        }
        self.layout.shard(|| self.hash(key), random)
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
        let compat = self.sharding.compat;
        let mut live = in_order(compat, &self.shards, |shard| !dead.contains(&shard));
        if live.is_empty() {
            live = in_order(compat, &self.shards, |_| true);
        }
        let layout = Layout::build(&self.sharding, &self.shards, &live);
        Self { sharding: self.sharding.clone(), shards: self.shards.clone(), layout }
    }

    /// Whether all keys that `pattern` stands for, with whatever in place of its star, lie where the pattern itself does: its tag decides.
    pub fn holds_together(&self, pattern: &[u8]) -> bool {
        let tag = self.sharding.tag.and_then(|marks| slot::between(pattern, marks));
        tag.is_some_and(|tag| !tag.is_empty() && !tag.contains(&b'*'))
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
