//! The slot table of one cluster.
//!
//! Not here: how it is found out (`refresh`), what a change of it means for requests under way (`topology`).
//!
//! Invariant: an entry is [`UNSERVED`] or the index of an owner; `served` counts those with an owner.

use super::slots::SLOTS;
use crate::ids::NodeId;
use crate::limits::{CHANNEL_HOMES_MAX, CLUSTER_NODES_MAX, HOME_MISSING_MS};
use crate::node::Address;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A slot without an owner.
pub(super) const UNSERVED: u16 = u16::MAX;

/// One primary and its copies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) primary: NodeId,
    pub(crate) replicas: Vec<NodeId>,
    /// Whom its reads go to in turn; empty: to the primary.
    pub(crate) readers: Vec<NodeId>,
}

impl Owner {
    /// One whose reads go to the primary.
    pub(super) fn new(primary: NodeId, replicas: Vec<NodeId>) -> Self {
        Self { primary, replicas, readers: Vec::new() }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        [self.primary].into_iter().chain(self.replicas.iter().copied())
    }
}

/// A node that channels can belong to.
#[derive(Debug, PartialEq, Eq)]
struct Home {
    node: NodeId,
    /// Of its shard, itself perhaps.
    primary: NodeId,
    /// Since when the table does not name it.
    missing: Option<Time>,
}

/// The present primary of the shard of a home that the table no longer names: another home of that
/// shard, or the node that took the slots of its primary.
struct Successors<'a> {
    heirs: BTreeMap<NodeId, NodeId>,
    live: &'a BTreeSet<NodeId>,

    /// Primaries by themselves, and by the primary that they had.
    by_node: BTreeMap<NodeId, usize>,
    by_primary: BTreeMap<NodeId, usize>,
    nodes: Vec<NodeId>,
}

impl<'a> Successors<'a> {
    fn new(
        former: &[Home],
        heirs: BTreeMap<NodeId, NodeId>,
        live: &'a BTreeSet<NodeId>,
        is_primary: impl Fn(NodeId) -> bool,
    ) -> Self {
        let (mut by_node, mut by_primary) = (BTreeMap::new(), BTreeMap::new());
        for (at, home) in former.iter().enumerate().filter(|(_, home)| is_primary(home.node)) {
            by_node.entry(home.node).or_insert(at);
            by_primary.entry(home.primary).or_insert(at);
        }
        let nodes = former.iter().map(|home| home.node).collect();
        Self { heirs, live, by_node, by_primary, nodes }
    }

    /// The primary, if another node of its shard is one.
    fn of(&self, home: &Home) -> Option<NodeId> {
        let beside = [
            self.by_node.get(&home.primary),
            self.by_primary.get(&home.node),
            self.by_primary.get(&home.primary),
        ];
        let of_shard = beside.into_iter().flatten().min().map(|at| self.nodes[*at]);
        let heir = || self.heirs.get(&home.primary).filter(|_| self.live.contains(&home.node));
        of_shard.or_else(|| heir().copied())
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cluster {
    slots: Box<[u16]>,
    /// How many of them have an owner; counted along, since it is asked for in every turn.
    served: usize,
    owners: Vec<Owner>,
    /// Every node that the table names, primaries and copies alike, and those that a failover took
    /// out of it a moment ago: no table has a former primary until its teller hears that it is a copy.
    homes: Vec<Home>,
    /// The homes among these that channels are spread over, at most [`CHANNEL_HOMES_MAX`].
    channel_homes: Vec<NodeId>,
    /// Configured; never forgotten.
    seeds: Vec<NodeId>,
    /// Where nodes of the cluster are, those without slots among them, as one of them told when it was last asked.
    pub(super) members: BTreeSet<Address>,
}

impl Cluster {
    /// One of which nothing is known but whom to ask.
    pub(super) fn new(seeds: Vec<NodeId>) -> Self {
        let slots = alloc::vec![UNSERVED; SLOTS].into_boxed_slice();
        Self {
            slots,
            served: 0,
            owners: Vec::new(),
            homes: Vec::new(),
            channel_homes: Vec::new(),
            seeds,
            members: BTreeSet::new(),
        }
    }

    /// The primary of a slot.
    #[inline]
    pub(crate) fn node(&self, slot: u16) -> Option<NodeId> {
        let owner = *self.slots.get(usize::from(slot))?;
        self.owners.get(usize::from(owner)).map(|owner| owner.primary)
    }

    /// Whom reads of a slot go to in turn; empty: to its primary.
    #[inline]
    pub(crate) fn readers(&self, slot: u16) -> &[NodeId] {
        let owner = self
            .slots
            .get(usize::from(slot))
            .and_then(|owner| self.owners.get(usize::from(*owner)));
        owner.map_or(&[], |owner| &owner.readers)
    }

    /// Each primary with its copies.
    pub(super) fn copies(&self) -> Vec<(NodeId, Vec<NodeId>)> {
        self.owners.iter().map(|owner| (owner.primary, owner.replicas.clone())).collect()
    }

    /// The copies of a primary.
    pub(super) fn copies_of(&self, primary: NodeId) -> &[NodeId] {
        let owner = self.owners.iter().find(|owner| owner.primary == primary);
        owner.map_or(&[], |owner| &owner.replicas)
    }

    /// Whether this node owns a slot.
    pub(crate) fn is_primary(&self, node: NodeId) -> bool {
        self.owners.iter().any(|owner| owner.primary == node)
    }

    /// Whether this node is a copy of one that does.
    pub(crate) fn is_replica(&self, node: NodeId) -> bool {
        self.owners.iter().any(|owner| owner.replicas.contains(&node))
    }

    /// Whom reads go to, of each of [`Self::copies`].
    pub(super) fn set_readers(&mut self, lists: Vec<Vec<NodeId>>) {
        for (owner, readers) in self.owners.iter_mut().zip(lists) {
            owner.readers = readers;
        }
    }

    /// All primaries that own a slot, in the order of their first.
    pub(crate) fn primaries(&self) -> Vec<NodeId> {
        let mut seen = alloc::vec![false; self.owners.len()];
        let mut primaries = Vec::new();
        for owner in self.slots.iter().filter(|owner| **owner != UNSERVED) {
            if !core::mem::replace(&mut seen[usize::from(*owner)], true) {
                primaries.push(self.owners[usize::from(*owner)].primary);
            }
        }
        primaries
    }

    /// Whose copy this node is.
    pub(super) fn primary_of(&self, replica: NodeId) -> Option<NodeId> {
        let owner = self.owners.iter().find(|owner| owner.replicas.contains(&replica));
        owner.map(|owner| owner.primary)
    }

    /// Nodes that can be asked for the table, each once.
    pub(super) fn candidates(&self) -> Vec<NodeId> {
        let mut seen = BTreeSet::new();
        let owned = self.owners.iter().flat_map(Owner::nodes);
        owned.chain(self.seeds.iter().copied()).filter(|node| seen.insert(*node)).collect()
    }

    /// Whether this node is one of the candidates, or of the homes.
    pub(super) fn names(&self, node: NodeId) -> bool {
        self.owners.iter().any(|owner| owner.nodes().any(|own| own == node))
            || self.seeds.contains(&node)
            || self.homes().any(|home| home == node)
    }

    /// The configured nodes.
    pub(super) fn seeds(&self) -> &[NodeId] {
        &self.seeds
    }

    /// The nodes that channels are spread over.
    pub(crate) fn channel_homes(&self) -> impl Iterator<Item = NodeId> {
        self.channel_homes.iter().copied()
    }

    /// Chooses the homes with the smallest hashes for channels: each worker chooses the same ones, and a node that comes or goes changes one of them.
    pub(super) fn choose_channel_homes(&mut self, hash: impl Fn(NodeId) -> u64) {
        let mut homes: Vec<NodeId> = self.homes().collect();
        if homes.len() > CHANNEL_HOMES_MAX {
            homes.sort_by_cached_key(|home| hash(*home));
            homes.truncate(CHANNEL_HOMES_MAX);
        }
        self.channel_homes = homes;
    }

    /// The nodes that the table names, and those that a failover took out of it a moment ago.
    pub(crate) fn homes(&self) -> impl Iterator<Item = NodeId> {
        self.homes.iter().map(|home| home.node)
    }

    /// Iterates over homes that the table does not name.
    pub(super) fn missing_homes(&self) -> impl Iterator<Item = NodeId> {
        self.homes.iter().filter(|home| home.missing.is_some()).map(|home| home.node)
    }

    /// Whether this node is a home that the table does not name.
    pub(super) fn is_missing_home(&self, node: NodeId) -> bool {
        self.homes.iter().any(|home| home.node == node && home.missing.is_some())
    }

    /// Whether one of these nodes is a home that the table names.
    pub(super) fn is_any_named(&self, nodes: &BTreeSet<NodeId>) -> bool {
        !nodes.is_empty()
            && self.homes.iter().any(|home| home.missing.is_none() && nodes.contains(&home.node))
    }

    /// Removes a home that the table does not name. Returns false if the node is no such home.
    pub(super) fn drop_missing_home(&mut self, node: NodeId) -> bool {
        let before = self.homes.len();
        self.homes.retain(|home| home.node != node || home.missing.is_none());
        let is_dropped = self.homes.len() < before;
        if is_dropped {
            self.channel_homes.retain(|home| *home != node);
        }
        is_dropped
    }

    /// Takes over whom the table names. Of those that it does not name any more only they stay for a
    /// while of whose shard another node is the primary now: it failed over.
    fn renew_homes(&mut self, now: Time, before: &[Option<NodeId>], live: &BTreeSet<NodeId>) {
        let of_shard =
            |own: &Owner| own.nodes().map(|node| (node, own.primary)).collect::<Vec<_>>();
        let mut named: BTreeMap<NodeId, NodeId> = self.owners.iter().flat_map(of_shard).collect();
        let heirs = self.heirs(before);
        let former = core::mem::take(&mut self.homes);
        let successors =
            Successors::new(&former, heirs, live, |node| named.get(&node) == Some(&node));
        for home in &former {
            if let Some(primary) = named.remove(&home.node) {
                self.homes.push(Home { node: home.node, primary, missing: None });
                continue;
            }
            let since = home.missing.unwrap_or(now);
            if now < since.plus_ms(HOME_MISSING_MS)
                && self.homes.len() < CLUSTER_NODES_MAX
                && let Some(primary) = successors.of(home)
            {
                self.homes.push(Home { node: home.node, primary, missing: Some(since) });
            }
        }
        let new = named.into_iter();
        self.homes.extend(new.map(|(node, primary)| Home { node, primary, missing: None }));
    }

    /// Number of slots that have an owner.
    pub(super) fn served(&self) -> usize {
        self.served
    }

    /// Whether every slot has an owner.
    pub(super) fn is_covered(&self) -> bool {
        self.served() == SLOTS
    }

    /// The slot has this owner now; whether that is a change.
    pub(super) fn set_owner(&mut self, slot: u16, primary: NodeId) -> bool {
        let known = self.owners.iter().position(|owner| owner.primary == primary);
        self.give_slot(slot, primary, known)
    }

    fn give_slot(&mut self, slot: u16, primary: NodeId, known: Option<usize>) -> bool {
        let index = known.unwrap_or_else(|| {
            self.owners.push(Owner::new(primary, self.copies_after(slot, primary)));
            self.owners.len() - 1
        });
        // A cluster has at most as many owners as slots, and those that own none are dropped with each refresh.
        let index = u16::try_from(index).unwrap_or(UNSERVED);
        let before = core::mem::replace(&mut self.slots[usize::from(slot)], index);
        self.served += usize::from(index != UNSERVED);
        self.served -= usize::from(before != UNSERVED);
        before != index
    }

    /// The copies of a slot when this node owns it: where it was a copy itself, it took over, and the former primary is one now.
    fn copies_after(&self, slot: u16, primary: NodeId) -> Vec<NodeId> {
        let owner = self.slots.get(usize::from(slot)).copied().unwrap_or(UNSERVED);
        match self.owners.get(usize::from(owner)) {
            Some(before) if before.replicas.contains(&primary) => {
                let others = before.replicas.iter().filter(|replica| **replica != primary);
                others.copied().chain([before.primary]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The whole table is known anew: ranges of slots with an index of `owners`, but for slots that it takes from one of `live` and gives to
    /// one of `dead`. Whether a slot changed its primary.
    pub(super) fn replace(
        &mut self,
        now: Time,
        ranges: &[(u16, u16, u16)],
        owners: Vec<Owner>,
        dead: &BTreeSet<NodeId>,
        live: &BTreeSet<NodeId>,
    ) -> bool {
        let before: Vec<Option<NodeId>> = (0..SLOTS as u16).map(|slot| self.node(slot)).collect();
        self.slots.fill(UNSERVED);
        self.owners = owners;
        for (first, last, owner) in ranges {
            self.slots[usize::from(*first)..=usize::from(*last)].fill(*owner);
        }
        self.renew_homes(now, &before, live);
        self.served = self.slots.iter().filter(|owner| **owner != UNSERVED).count();
        if !dead.is_empty() {
            self.keep_with_the_living(&before, dead, live);
        }
        (0..SLOTS as u16).zip(before).any(|(slot, before)| self.node(slot) != before)
    }

    /// Maps former owners to nodes that took their slots and are no homes yet: replicas that the
    /// table did not name. Redis leaves replicas out of `CLUSTER SLOTS` that have copied nothing yet.
    fn heirs(&self, before: &[Option<NodeId>]) -> BTreeMap<NodeId, NodeId> {
        let known: BTreeSet<NodeId> = self.homes().collect();
        let mut heirs = BTreeMap::new();
        // Neighbouring slots mostly change their owner together.
        let mut last = (None, None);
        for (slot, former) in (0..SLOTS as u16).zip(before) {
            let change = (*former, self.node(slot));
            if change.0 != change.1
                && core::mem::replace(&mut last, change) != change
                && let (Some(former), Some(owner)) = change
                && !known.contains(&owner)
            {
                heirs.entry(former).or_insert(owner);
            }
        }
        heirs
    }

    fn keep_with_the_living(
        &mut self,
        before: &[Option<NodeId>],
        dead: &BTreeSet<NodeId>,
        live: &BTreeSet<NodeId>,
    ) {
        let owners = self.owners.iter().enumerate();
        let mut known: BTreeMap<NodeId, usize> =
            owners.map(|(index, owner)| (owner.primary, index)).collect();
        for (slot, before) in (0..SLOTS as u16).zip(before) {
            if let Some(before) = before
                && self.node(slot).is_some_and(|after| dead.contains(&after))
                && live.contains(before)
            {
                let index = known.get(before).copied();
                known.entry(*before).or_insert(self.owners.len());
                self.give_slot(slot, *before, index);
            }
        }
    }

    /// Where the owner changes along the slots: first slot and primary of each run.
    pub(super) fn runs(&self) -> Vec<(u16, Option<NodeId>)> {
        let mut runs: Vec<(u16, Option<NodeId>)> = Vec::new();
        for slot in 0..SLOTS as u16 {
            let node = self.node(slot);
            if runs.last().is_none_or(|(_, last)| *last != node) {
                runs.push((slot, node));
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Redis 8.2, a failover each 150 ms: a copy came back as the primary before any table had named it again.
    #[test]
    fn homes_stay_while_their_shard_fails_over() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|index| NodeId::new(index, 0));
        let live = BTreeSet::from([a, b, d]);
        let mut cluster = Cluster::new(alloc::vec![a]);
        let mut told = |at: u64, primary, replicas: &[NodeId]| {
            let owners = alloc::vec![Owner::new(primary, replicas.to_vec())];
            let owners = owners.into_iter().chain([Owner::new(d, Vec::new())]).collect();
            cluster.replace(
                Time::default().plus_ms(at),
                &[(0, 9, 0), (10, 19, 1)],
                owners,
                &BTreeSet::new(),
                &live,
            );
            cluster.homes().filter(|home| *home != d).collect::<Vec<_>>()
        };
        assert_eq!(told(0, a, &[b]), [a, b]);
        assert_eq!(told(1, b, &[]), [a, b], "the table does not name the former primary");
        assert_eq!(told(2, a, &[]), [a, b], "nor the one after it");
        assert_eq!(told(HOME_MISSING_MS + 1, a, &[]), [a, b]);
        assert_eq!(told(HOME_MISSING_MS + 2, a, &[]), [a], "it was gone for too long");
        let at = HOME_MISSING_MS + 3;
        assert_eq!(told(at, c, &[]), [a, c], "a copy that no table named took over");
        assert_eq!(told(at + 1, a, &[]), [a, c], "and fails over again");
        let at = at + HOME_MISSING_MS + 1;
        assert_eq!(told(at, a, &[]), [a]);
        let e = NodeId::new(4, 0);
        assert_eq!(told(at + 1, c, &[]), [a, c]);
        assert_eq!(told(at + 2, e, &[]), [a, e], "c cannot be reached");
        assert!(cluster.drop_missing_home(a) && !cluster.drop_missing_home(e), "e is named");
    }

    #[test]
    fn channels_are_spread_over_few_of_many_nodes_and_one_node_more_changes_one_of_these() {
        let node = |index: u32| NodeId::new(index, 0);
        let hash =
            |node: NodeId| rapidhash::v3::rapidhash_v3(alloc::format!("{node:?}").as_bytes());
        let mut cluster = Cluster::new(alloc::vec![node(0)]);
        let mut told = |count: u32| -> BTreeSet<NodeId> {
            let owners = (0..count).map(|index| Owner::new(node(index), Vec::new())).collect();
            let none = BTreeSet::new();
            let ranges: Vec<(u16, u16, u16)> =
                (0..count as u16).map(|index| (index, index, index)).collect();
            cluster.replace(Time::default(), &ranges, owners, &none, &none);
            cluster.choose_channel_homes(hash);
            cluster.channel_homes().collect()
        };
        let few = CHANNEL_HOMES_MAX as u32;
        assert_eq!(told(few).len(), CHANNEL_HOMES_MAX);
        let mut before = told(4 * few);
        for count in 4 * few + 1..5 * few {
            let homes = told(count);
            assert_eq!(homes.len(), CHANNEL_HOMES_MAX);
            assert!(homes.difference(&before).count() <= 1, "{count} nodes");
            before = homes;
        }
    }

    #[test]
    fn the_slots_with_an_owner_are_counted_along() {
        let [one, other] = [0, 1].map(|index| NodeId::new(index, 0));
        let mut cluster = Cluster::new(alloc::vec![one]);
        let counted =
            |cluster: &Cluster| cluster.slots.iter().filter(|own| **own != UNSERVED).count();
        assert_eq!((cluster.served(), cluster.is_covered()), (0, false));
        // The last range overlaps the one before.
        let last = SLOTS as u16 - 1;
        let owners = alloc::vec![Owner::new(one, Vec::new())];
        assert!(cluster.replace(
            Time::default(),
            &[(0, 99, 0), (50, last - 1, 0)],
            owners,
            &BTreeSet::new(),
            &BTreeSet::new()
        ));
        assert_eq!((cluster.served(), cluster.is_covered()), (SLOTS - 1, false));
        // A slot that had none, one that had another, and one that has it already.
        assert!(cluster.set_owner(last, other) && cluster.set_owner(5, other));
        assert!(!cluster.set_owner(5, other));
        assert_eq!((cluster.served(), cluster.is_covered()), (counted(&cluster), true));
        assert!(cluster.replace(
            Time::default(),
            &[(0, 9, 0)],
            alloc::vec![Owner::new(other, Vec::new())],
            &BTreeSet::new(),
            &BTreeSet::new()
        ));
        assert_eq!((cluster.served(), counted(&cluster)), (10, 10));
    }
}
