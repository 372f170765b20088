//! Where topics belong: the node over whose connection all messages of a topic come, its *home*.
//! PUBLISH goes there, too.
//!
//! ```text
//!   one server, sentinels    the primary
//!   shards                   as above, at the shard that a key of the name would have
//!   cluster: SSUBSCRIBE      the owner of the slot
//!            SUBSCRIBE       of all nodes that can be reached the one with the highest score;
//!                            the score is a hash of the node's address and the channel
//!            PSUBSCRIBE      as SUBSCRIBE, all patterns alike
//! ```
//! Every node of a cluster takes SUBSCRIBE and PUBLISH, a copy as well, also while it loads or its
//! link to the primary is broken, and passes messages on to all others. So a home needs no role and
//! no slot: failovers and slot moves change nothing, and a node that comes or goes takes
//! only what belongs to it. All workers and all proxies before a cluster agree without a word,
//! but for nodes that only some of them reach.
//!
//! A channel of keyspace events belongs to the owner of its slot: it is listened to at every
//! primary, and a copy tells of the same keys again.
//!
//! While workers and proxies learn of a new home at different times, a message may be published at a node where a channel is not heard, and comes over the bus of
//! the cluster: behind the answer to a PING, and again after a client has left and come back. [`HomesSeen`] knows for [`HOMES_SETTLE_MS`] which channels may be in that
//! state.
//!
//! Not here: how a topic changes its home (`links`, `handover`).
//!
//! Invariant: for the same nodes and names the home is the same.

use super::Kind;
use super::links::is_event;
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::limits::{
    HOME_RETURNS_MS, HOMES_SEEN_MS, HOMES_SETTLE_MS, LEAVE_SETTLE_MS, PATTERN_SETTLE_MS, RELINK_MS,
};
use crate::news::What;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use rapidhash::v3::rapidhash_v3;

/// The nodes of each pool that channels can belong to just now, with the hashes of their names: for many channels one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Homes(Vec<Vec<(u64, NodeId)>>);

/// The homes that this worker saw last, and the homes before.
#[derive(Debug, Default)]
pub(super) struct HomesSeen {
    last: Homes,
    /// Former homes, and the times at which they were replaced, in the order of these times.
    former: VecDeque<(Time, Homes)>,
    /// The route epoch of `last`.
    epoch: u32,
    /// Whether a node may have been lost or found since.
    is_doubtful: bool,
    /// Nodes that could not be reached and are no homes until this time: the bus of the cluster connects to them later than respool does.
    returning: BTreeMap<NodeId, Time>,
}

impl HomesSeen {
    fn is_current(&self, now: Time, epoch: u32) -> bool {
        self.epoch == epoch && !self.is_doubtful && self.returns_at().is_none_or(|at| at > now)
    }

    /// The time at which the first returning node becomes a home.
    pub(super) fn returns_at(&self) -> Option<Time> {
        self.returning.values().min().copied()
    }

    /// Returns true if these homes are other homes than before.
    fn set(&mut self, now: Time, epoch: u32, homes: Homes) -> bool {
        (self.epoch, self.is_doubtful) = (epoch, false);
        self.forget(now);
        if self.last == homes {
            return false;
        }
        let former = core::mem::replace(&mut self.last, homes);
        self.former.push_back((now, former));
        if self.former.len() > FORMER_HOMES_MAX {
            self.former.pop_front();
        }
        true
    }

    fn forget(&mut self, now: Time) {
        let is_old = |(at, _): &(Time, Homes)| at.plus_ms(HOMES_SETTLE_MS) <= now;
        while self.former.front().is_some_and(is_old) {
            self.former.pop_front();
        }
    }

    /// The home of this channel for other workers, which may see the last changes later.
    fn for_others(&self, now: Time, pool: u16, name: u64) -> Option<NodeId> {
        let is_new = |(at, _): &&(Time, Homes)| at.plus_ms(HOMES_SEEN_MS) > now;
        let (_, homes) = self.former.iter().find(is_new)?;
        homes.best(pool, name)
    }

    /// Whether this channel had another home a moment ago.
    fn moved_lately(&self, pool: u16, name: u64) -> bool {
        let home = self.last.best(pool, name);
        let is_other = |homes: &Homes| homes.best(pool, name).is_some_and(|of| Some(of) != home);
        self.former.iter().any(|(_, homes)| is_other(homes))
    }
}

impl Homes {
    /// Whether a cluster has several homes, so that messages reach other nodes over the cluster's bus.
    fn has_bus(&self) -> bool {
        self.0.iter().any(|nodes| nodes.len() > 1)
    }

    fn best(&self, pool: u16, name: u64) -> Option<NodeId> {
        let nodes = self.0.get(usize::from(pool))?;
        nodes.iter().map(|(hash, node)| (score(name, *hash), *node)).max().map(|(_, node)| node)
    }
}

impl Engine {
    /// The home of a channel, among `homes` if they are known. `Err`: this pool has nobody for it just now.
    pub(super) fn channel_home(
        &self,
        homes: Option<&Homes>,
        kind: Kind,
        name: &[u8],
    ) -> Result<NodeId, u16> {
        let place = self.router.channel_place(name);
        let moves = kind == Kind::Shard || is_event(name);
        let home = if moves { None } else { self.home_in(homes, place.pool, name) };
        home.or_else(|| self.router.node(place)).ok_or(place.pool)
    }

    /// The node to which PUBLISH goes: the former home for a moment, as other workers may not have seen the change.
    pub(super) fn publish_home(
        &mut self,
        now: Time,
        kind: Kind,
        channel: &[u8],
    ) -> Result<NodeId, u16> {
        self.see_homes(now);
        if kind == Kind::Channel && !is_event(channel) {
            let pool = self.router.channel_place(channel).pool;
            let former = self.subscriptions.homes.for_others(now, pool, rapidhash_v3(channel));
            if let Some(node) = former.filter(|node| self.can_be_home(*node)) {
                return Ok(node);
            }
        }
        self.channel_home(None, kind, channel)
    }

    /// The home of all patterns in this pool.
    pub(super) fn pattern_home(&self, homes: Option<&Homes>, pool: u16) -> Result<NodeId, u16> {
        self.home_in(homes, pool, b"").or_else(|| self.router.any_node_of(pool)).ok_or(pool)
    }

    /// Where channels can belong just now: to nodes that can be reached, or to any in a pool of which none can.
    pub(super) fn homes_now(&self) -> Homes {
        let of_pool = |pool| {
            let with_hash = |id| (self.nodes.get(id).map_or(0, |node| node.label_hash), id);
            let all: Vec<_> = self.router.channel_homes(pool).map(with_hash).collect();
            let reached: Vec<_> =
                all.iter().copied().filter(|(_, node)| self.can_be_home(*node)).collect();
            if reached.is_empty() { all } else { reached }
        };
        Homes((0..self.router.pools.len() as u16).map(of_pool).collect())
    }

    /// A node was lost: channels may have other homes.
    pub(crate) fn doubt_homes(&mut self) {
        self.subscriptions.homes.is_doubtful = true;
    }

    /// A connection to this node is about to be ready: a node that could not be reached becomes a home in a moment.
    pub(crate) fn home_returns(&mut self, now: Time, node: NodeId) {
        self.doubt_homes();
        let found = self.nodes.get(node).map(|node| (node.pool, node.address.clone()));
        let Some((pool, address)) = found.filter(|_| self.is_shut(node)) else { return };
        if self.router.channel_homes(pool).next().is_some() {
            let at = now.plus_ms(HOME_RETURNS_MS);
            self.subscriptions.homes.returning.insert(node, at);
            // The other workers connect now, so that all of them see the change at about the same time.
            self.tell_others(pool, What::NodeBack(address));
        }
    }

    /// Whether channels can belong to this node just now.
    fn can_be_home(&self, node: NodeId) -> bool {
        !self.subscriptions.homes.returning.contains_key(&node) && !self.is_shut(node)
    }

    /// Compares the homes with the homes seen before, if nodes may have come or gone. After a change respool looks at all topics.
    pub(super) fn see_homes(&mut self, now: Time) {
        let epoch = self.route_epoch;
        if self.subscriptions.homes.is_current(now, epoch) {
            return;
        }
        self.subscriptions.homes.returning.retain(|_, at| *at > now);
        let homes = self.homes_now();
        if self.subscriptions.homes.set(now, epoch, homes) && !self.subscriptions.is_empty() {
            self.subscriptions.relink_by(now.plus_ms(RELINK_MS));
        }
    }

    /// Whether messages of a topic may come late over the bus of the cluster, as its home was another node a moment ago. Of patterns and shard channels
    /// this is not known.
    pub(super) fn moved_lately(&mut self, now: Time, kind: Kind, name: &[u8]) -> bool {
        self.see_homes(now);
        self.subscriptions.homes.forget(now);
        if self.subscriptions.homes.former.is_empty() || kind != Kind::Channel || is_event(name) {
            return false;
        }
        let pool = self.router.channel_place(name).pool;
        self.subscriptions.homes.moved_lately(pool, rapidhash_v3(name))
    }

    /// Delay of an UNSUBSCRIBE from this topic in milliseconds, as the bus of the cluster may still
    /// carry messages for it. The bus brings every message for a pattern, except messages whose
    /// channel has its home at the pattern's node. Keyspace events come from their own node.
    pub(super) fn settle_ms(&mut self, now: Time, kind: Kind, name: &[u8]) -> u64 {
        if self.moved_lately(now, kind, name) {
            return LEAVE_SETTLE_MS;
        }
        let homes = &self.subscriptions.homes;
        match kind {
            Kind::Pattern if is_event(name) || !homes.last.has_bus() => 0,
            Kind::Pattern if homes.former.is_empty() => PATTERN_SETTLE_MS,
            Kind::Pattern => LEAVE_SETTLE_MS,
            Kind::Channel | Kind::Shard => 0,
        }
    }

    /// Whether channels of this pool can belong to another node than this one, which cannot be reached.
    pub(super) fn has_other_home(&self, pool: u16, node: NodeId) -> bool {
        self.router.channel_homes(pool).any(|home| home != node && self.can_be_home(home))
    }

    /// All nodes at which anybody may listen, but for shard channels.
    pub(super) fn all_homes(&self) -> Vec<NodeId> {
        let mut nodes = self.router.primaries();
        let primaries: BTreeSet<NodeId> = nodes.iter().copied().collect();
        let homes =
            (0..self.router.pools.len() as u16).flat_map(|pool| self.router.channel_homes(pool));
        nodes.extend(homes.filter(|home| !primaries.contains(home) && !self.is_shut(*home)));
        nodes
    }

    /// The node with the highest score of those that can be reached; of all, if none can.
    fn home_in(&self, homes: Option<&Homes>, pool: u16, name: &[u8]) -> Option<NodeId> {
        let hash = rapidhash_v3(name);
        if let Some(homes) = homes {
            return homes.best(pool, hash);
        }
        let of_node = |id| (score(hash, self.nodes.get(id).map_or(0, |node| node.label_hash)), id);
        let scores = || self.router.channel_homes(pool).map(of_node);
        let first = scores().max()?;
        let mut best = first;
        for _ in 0..HOMES_LOOKED_AT {
            // Whether a node can be reached takes longer to know than the scores of many.
            if self.can_be_home(best.1) {
                return Some(best.1);
            }
            let Some(next) = scores().filter(|one| *one < best).max() else {
                return Some(first.1);
            };
            best = next;
        }
        let reached = scores().filter(|(_, node)| self.can_be_home(*node)).max();
        Some(reached.unwrap_or(first).1)
    }

    /// Returns whether the connection for topics to this node is ready.
    pub(crate) fn tells(&self, node: NodeId) -> bool {
        let id = self.by_key.get(&Self::messages_key(node));
        id.and_then(|id| self.upstreams.get(*id)).is_some_and(|upstream| upstream.is_ready())
    }

    /// Whether this node cannot be reached, or does not take us.
    fn is_shut(&self, node: NodeId) -> bool {
        let shared = self.nodes.get(node).into_iter().flat_map(|node| node.all_shared());
        let messages = self.by_key.get(&Self::messages_key(node)).copied();
        let mut is_shut = false;
        for id in shared.chain(messages) {
            let Some(upstream) = self.upstreams.get(id) else { continue };
            if upstream.is_ready() {
                return false;
            }
            is_shut |= self.is_down(id) && !upstream.was_cut_short();
        }
        is_shut
    }
}

/// Changes within [`HOMES_SETTLE_MS`] that [`HomesSeen`] keeps; of more the first are forgotten.
const FORMER_HOMES_MAX: usize = 8;

/// Nodes with the highest scores that are looked at one by one; then all are.
const HOMES_LOOKED_AT: usize = 8;

/// How much a name belongs to a node, by their hashes.
fn score(name: u64, node: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&name.to_le_bytes());
    bytes[8..].copy_from_slice(&node.to_le_bytes());
    rapidhash_v3(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    #[test]
    fn a_node_that_goes_takes_only_what_belongs_to_it() {
        let nodes: Vec<_> = (1..7).map(|n| format!("10.0.0.{n}:6379")).collect();
        let home = |nodes: &[String], name: u32| {
            let hash = rapidhash_v3(&name.to_le_bytes());
            let score_of = |node: &&String| score(hash, rapidhash_v3(node.as_bytes()));
            nodes.iter().max_by_key(score_of).cloned()
        };
        let mut counts = alloc::collections::BTreeMap::new();
        for name in 0..6_000 {
            let all = home(&nodes, name);
            let left = home(&nodes[1..], name);
            assert!(all == left || all.as_ref() == Some(&nodes[0]));
            *counts.entry(all).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
