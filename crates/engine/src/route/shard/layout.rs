//! From a hash to a shard: one layout for each distribution, and camellia's bucket lists.
//!
//! Not here: the ring's points (`ring`).
//!
//! Invariant: a layout is never empty, and every shard in it is one of those that it was built of.

use super::ring::Ring;
use super::{BUCKETS_MAX, Distribution, SHARDS_MAX, Shard, Sharding, ShardsError};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The living shards of a pool in the shape that its distribution asks for.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// There is but one. As in twemproxy, nothing is hashed then.
    One(u16),
    /// `ketama`.
    Ring(Ring),
    /// `modula`: where each shard's part of `0..sum of weights` ends (not included), and the shards in the same order. It is
    /// what twemproxy's table of one entry for each unit of weight says, in space that does not grow with the weights.
    Spread { ends: Box<[u32]>, shards: Box<[u16]> },
    /// `random`.
    Any(Box<[u16]>),
    /// The shard of each bucket.
    Buckets(Box<[u16]>),
}

impl Layout {
    /// Lays out those of `shards` whose indices are in `live` (in the proxy's order, at least one).
    pub(super) fn build(sharding: &Sharding, shards: &[Shard], live: &[usize]) -> Self {
        debug_assert!(!live.is_empty(), "a layout needs a shard");
        // At most SHARDS_MAX shards were let in, so an index fits.
        let indices = || live.iter().map(|shard| *shard as u16).collect();
        match &sharding.distribution {
            // The owners of buckets stay what they are while others are dead.
            Distribution::Buckets(_) if shards.len() > 1 => {}
            _ => {
                if let [one] = live {
                    return Self::One(*one as u16);
                }
            }
        }
        match &sharding.distribution {
            Distribution::Ketama => {
                Self::Ring(Ring::new(sharding.compat.rules().ring, shards, live))
            }
            Distribution::Modula => {
                let mut end = 0_u32;
                let ends = live.iter().map(|shard| {
                    // The sum of all weights was checked to fit.
                    end += shards[*shard].weight;
                    end
                });
                Self::Spread { ends: ends.collect(), shards: indices() }
            }
            Distribution::Random => Self::Any(indices()),
            Distribution::Buckets(owners) => Self::Buckets(owners.as_slice().into()),
        }
    }

    /// The shard of a hash; what is not needed is not asked for.
    pub(super) fn shard(&self, hash: impl FnOnce() -> u64, random: impl FnOnce() -> u32) -> usize {
        let shard = match self {
            Self::One(shard) => *shard,
            // Hashes for rings have 32 bits.
            Self::Ring(ring) => ring.shard(hash() as u32),
            Self::Spread { ends, shards } => {
                let sum = ends.last().copied().unwrap_or(1);
                let place = (hash() % u64::from(sum)) as u32;
                shards[ends.partition_point(|end| *end <= place)]
            }
            Self::Any(shards) => shards[random() as usize % shards.len()],
            Self::Buckets(owners) => owners[(hash() % owners.len() as u64) as usize],
        };
        usize::from(shard)
    }
}

impl Layout {
    /// Whether there is but one shard in it.
    pub(super) fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Whether it leads to this shard for some number that chance gives. Of account where chance chooses.
    pub(super) fn has(&self, shard: usize) -> bool {
        match self {
            Self::One(one) => usize::from(*one) == shard,
            Self::Any(shards) => shards.iter().any(|one| usize::from(*one) == shard),
            Self::Ring(_) | Self::Spread { .. } | Self::Buckets(_) => false,
        }
    }
}

/// Reads one list of buckets for each shard; see [`Distribution::buckets`].
pub(super) fn parse_buckets<'a>(
    groups: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<u16>, ShardsError> {
    let mut owners: Vec<Option<u16>> = Vec::new();
    for (shard, group) in groups.into_iter().enumerate() {
        if shard >= SHARDS_MAX {
            return Err(ShardsError::TooMany(shard + 1));
        }
        for number in group.split('-') {
            let bucket = number.trim().parse().ok().filter(|bucket| *bucket < BUCKETS_MAX);
            let bucket: usize = bucket.ok_or_else(|| ShardsError::BadBuckets(group.to_owned()))?;
            if bucket >= owners.len() {
                owners.resize(bucket + 1, None);
            }
            if owners[bucket].replace(shard as u16).is_some() {
                return Err(ShardsError::BucketTwice(bucket));
            }
        }
    }
    let found =
        |(bucket, owner): (usize, Option<u16>)| owner.ok_or(ShardsError::BucketMissing(bucket));
    owners.into_iter().enumerate().map(found).collect()
}

/// Checks a bucket map against the number of shards.
pub(super) fn check_buckets(owners: &[u16], shards: usize) -> Result<(), ShardsError> {
    if owners.is_empty() {
        return Err(ShardsError::BucketMissing(0));
    }
    if owners.len() > BUCKETS_MAX {
        return Err(ShardsError::BadBuckets(alloc::format!("{} buckets", owners.len())));
    }
    let beyond = owners.iter().find(|owner| usize::from(**owner) >= shards);
    beyond.map_or(Ok(()), |owner| Err(ShardsError::BucketShard(usize::from(*owner))))
}
