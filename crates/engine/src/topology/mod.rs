//! Who owns which keys, and how that is found out.
//!
//! ```text
//!   key ── shards ──▶ pool ─┬ one server ───────────────────▶ node
//!                           ├ sentinels tell the primary ───▶ node
//!                           └ cluster: slot ── slot table ──▶ node
//! ```
//! A pool is one deployment; without sharding there is but one. Where a key lies is its `Place`: the pool, and in a cluster the slot.
//! The servers tell who owns what (`refresh`) and correct it (`redirect`). A request asks here for the node of its place, and waits or
//! fails here while there is none.
//!
//! Order: when a place gets another owner, a client's next request for it must not overtake those that are still on the way to the
//! old one. So each change raises `route_epoch`, and a client that has requests open from before it is held until they are answered.
//!
//! Not here: connections (`connect`), keys (`command::keys`), requests that concern several nodes (`scatter`).
//!
//! Invariant: a node belongs to one pool, and every node that a pool names is in `Engine::nodes`.

mod cluster;
mod eject;
mod members;
mod pages;
pub mod reads;
pub(crate) mod refresh;
mod sentinel;
pub mod slots;
pub mod view;

use crate::client::Hold;
use crate::engine::{Engine, Notice};
use crate::ids::NodeId;
use crate::limits::OUTAGE_GAP_MS;
use crate::node::{Address, Node};
use crate::reject;
use crate::removal::Removal;
use crate::request::Step;
use crate::route::shard::{NOWHERE, Shards};
use crate::route::slot::slot;
use crate::settings::{self, Pool, Settings};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cluster::{Cluster, Owner};
use core::cell::Cell;
use eject::Ejection;
use refresh::{Refresh, Sign};
use sentinel::Group;
use slots::Range;

/// Where a key lies: what has the same place is always served by the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) pool: u16,
    /// Of a cluster; 0 elsewhere.
    pub(crate) slot: u16,
}

/// How a pool finds the node of a key.
#[derive(Debug)]
pub(crate) enum Topology {
    /// There is one.
    One(NodeId),
    /// By slot.
    Cluster(Box<Cluster>),
    /// Sentinels tell it.
    Sentinel(Box<Group>),
}

/// One deployment.
#[derive(Debug)]
pub(crate) struct PoolState {
    /// How its nodes are greeted.
    pub(crate) node: settings::Node,
    /// How its sentinels are greeted.
    pub(crate) sentinel: Option<settings::Node>,
    pub(crate) topology: Topology,
    pub(crate) refresh: Refresh,
    /// Until then requests for places without an owner wait.
    wait_until: Time,
    /// Since when servers say that their cluster is down, and when they last said so.
    outage: Option<(Time, Time)>,
    /// Until then requests whose node is down wait for its successor; set by the first of them.
    down_until: Option<Time>,
    /// What its servers do not see of keys.
    removal: Option<Arc<Removal>>,
    /// Whom reads go to while no cluster has a list for each owner.
    readers: Vec<NodeId>,
}

/// All pools, and which of them has a key.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) pools: Vec<PoolState>,
    shards: Option<Shards>,
    /// What is left out of them, if anything ever is.
    ejection: Option<Ejection>,
    /// Whose turn it is among equals.
    turn: Cell<u32>,
    /// Feeds the distribution `random`.
    random: Cell<u32>,
    /// When those that wait were last told to look again because of the time.
    woken_at: Time,
    /// When nodes are next asked how they are.
    pub(crate) health_at: Time,
    /// Whom reads go to is made anew before the end of the turn.
    pub(crate) readers_stale: bool,
    /// Time of the last loss of a primary: its successor may lack acknowledged writes (see `unconfirmed`).
    pub(crate) primary_lost_at: Option<Time>,
    /// What pages of SCAN need, of the table of an epoch: see [`Engine::pages`].
    pages: Option<(u32, pages::Pages)>,
}

impl Router {
    /// Nothing yet; the pools come with [`Engine::begin_topology`].
    pub(crate) fn new(shards: Option<Shards>, eject: Option<settings::Eject>) -> Self {
        let ejection =
            shards.clone().zip(eject).map(|(shards, eject)| Ejection::new(eject, shards));
        Self {
            pools: Vec::new(),
            shards,
            ejection,
            turn: Cell::new(0),
            random: Cell::new(0),
            woken_at: Time::default(),
            health_at: Time::default(),
            readers_stale: false,
            primary_lost_at: None,
            pages: None,
        }
    }

    /// Whether there is but one server, so that nothing ever goes elsewhere.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        self.shards.is_none()
            && matches!(self.pools.first(), Some(pool) if matches!(pool.topology, Topology::One(_)))
    }

    /// Whether keys are in a cluster's slots, so that there is but the database 0.
    pub(crate) fn has_cluster(&self) -> bool {
        self.pools.iter().any(|pool| matches!(pool.topology, Topology::Cluster(_)))
    }

    /// Where a key lies.
    #[inline]
    pub(crate) fn place(&self, key: &[u8]) -> Place {
        match &self.shards {
            None => self.place_in(0, key),
            Some(shards) => self.place_at(self.shard_of(shards, key) as u16, key),
        }
    }

    /// Apart, so that the way in front of one pool stays as short as it is.
    #[inline(never)]
    fn shard_of(&self, shards: &Shards, key: &[u8]) -> usize {
        shards.of(key, || self.next_random())
    }

    /// Where a key of this shard lies.
    #[inline]
    fn place_at(&self, pool: u16, key: &[u8]) -> Place {
        let slot = if self.is_cluster(pool) { self.slot_at(pool, key) } else { 0 };
        Place { pool, slot }
    }

    /// A cluster counts its slots by the names that it knows.
    #[inline(never)]
    fn slot_at(&self, pool: u16, key: &[u8]) -> u16 {
        slot(self.removal_of(pool).map_or(key, |removal| removal.at_servers(key)))
    }

    /// What the servers of this pool do not see of keys.
    #[inline]
    pub(crate) fn removal_of(&self, pool: u16) -> Option<&Arc<Removal>> {
        self.pools.get(usize::from(pool))?.removal.as_ref()
    }

    /// Whether there are any to whom that applies.
    pub(crate) fn removes(&self) -> bool {
        self.pools.iter().any(|pool| pool.removal.is_some())
    }

    /// Where another key of a request lies whose first one lies at `first`. Where chance chooses the shard, it chooses once for a request:
    /// its shards hold the same, and keys that are used together must be found together.
    #[inline]
    pub(crate) fn place_beside(&self, first: Place, key: &[u8]) -> Place {
        match &self.shards {
            None => self.place_in(0, key),
            Some(shards) => self.place_beside_among(shards, first, key),
        }
    }

    #[inline(never)]
    fn place_beside_among(&self, shards: &Shards, first: Place, key: &[u8]) -> Place {
        match shards.is_random() && shards.may_have(usize::from(first.pool), key) {
            true => self.place_at(first.pool, key),
            false => self.place(key),
        }
    }

    /// The first of these keys that no route leads anywhere.
    pub(crate) fn without_route<'k>(&self, keys: &[(usize, &'k [u8])]) -> Option<&'k [u8]> {
        let shards = self.shards.as_ref().filter(|shards| shards.has_gaps())?;
        let is_nowhere = |key: &[u8]| shards.of(key, || 0) == NOWHERE;
        keys.iter().map(|(_, key)| *key).find(|key| is_nowhere(key))
    }

    /// Whether the keys that a pattern of SORT stands for are sure to lie with the key at `first`. Clusters decide themselves.
    pub(crate) fn is_pattern_beside(&self, first: Place, pattern: &[u8]) -> bool {
        let Some(shards) = &self.shards else { return true };
        if shards.is_routed() {
            let lies_there = || match shards.is_random() {
                true => shards.may_have(usize::from(first.pool), pattern),
                false => self.place(pattern).pool == first.pool,
            };
            return shards.holds_together(pattern) && lies_there();
        }
        self.pools.len() < 2
            || self.is_cluster(first.pool)
            || shards.is_random()
            || (shards.holds_together(pattern) && self.place(pattern) == first)
    }

    #[inline]
    fn place_in(&self, pool: u16, key: &[u8]) -> Place {
        Place { pool, slot: if self.is_cluster(pool) { slot(key) } else { 0 } }
    }

    /// Whether this pool is a cluster.
    #[inline]
    pub(crate) fn is_cluster(&self, pool: u16) -> bool {
        let pool = self.pools.get(usize::from(pool));
        pool.is_some_and(|pool| matches!(pool.topology, Topology::Cluster(_)))
    }

    /// A number that differs from call to call, for taking turns.
    pub(crate) fn next_turn(&self) -> u32 {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        turn
    }

    fn next_random(&self) -> u32 {
        let next = self.random.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random.set(next);
        next >> 1
    }

    /// The node that has a place; none while nobody told who that is.
    #[inline]
    pub(crate) fn node(&self, place: Place) -> Option<NodeId> {
        match &self.pools.get(usize::from(place.pool))?.topology {
            Topology::One(node) => Some(*node),
            Topology::Cluster(cluster) => cluster.node(place.slot),
            Topology::Sentinel(group) => group.primary,
        }
    }

    /// The node that answers a read of this place when it is `turn`'s turn; none: the policy names nobody for it just now.
    #[inline]
    pub(crate) fn reader(&self, place: Place, turn: u32) -> Option<NodeId> {
        let readers = self.readers(place);
        readers.get(turn as usize % readers.len().max(1)).copied()
    }

    fn readers(&self, place: Place) -> &[NodeId] {
        let Some(pool) = self.pools.get(usize::from(place.pool)) else { return &[] };
        match &pool.topology {
            Topology::One(_) => &[],
            Topology::Cluster(cluster) => cluster.readers(place.slot),
            Topology::Sentinel(_) => &pool.readers,
        }
    }

    /// All nodes that own something, pool by pool.
    pub(crate) fn primaries(&self) -> Vec<NodeId> {
        match self.pools.as_slice() {
            // Most often, and then one list is enough.
            [pool] => pool.primaries(),
            pools => pools.iter().flat_map(PoolState::primaries).collect(),
        }
    }

    /// Whether there is one primary, which sentinels name.
    pub(crate) fn is_one_sentinel_group(&self) -> bool {
        matches!(self.pools.as_slice(), [pool] if matches!(pool.topology, Topology::Sentinel(_)))
    }

    /// The node for a request that names no key: always the same one, so that what it asks twice fits together.
    pub(crate) fn any_node(&self) -> Option<NodeId> {
        self.any_node_of(0)
    }

    /// The same of one pool.
    pub(crate) fn any_node_of(&self, pool: u16) -> Option<NodeId> {
        match &self.pools.get(usize::from(pool))?.topology {
            Topology::One(node) => Some(*node),
            Topology::Cluster(cluster) => {
                cluster.node(0).or_else(|| cluster.primaries().first().copied())
            }
            Topology::Sentinel(group) => group.primary,
        }
    }

    /// Where a channel belongs: at the shard that a key of its name would have. Chance, where that chooses, would choose another one each time. One
    /// that no route leads anywhere belongs to the first shard: channels are no keys, and need no route. They keep their names everywhere.
    pub(crate) fn channel_place(&self, channel: &[u8]) -> Place {
        self.place_in(self.steady_shard(channel), channel)
    }

    /// Where a key lies, and always the same where chance chooses.
    pub(crate) fn steady_place(&self, key: &[u8]) -> Place {
        self.place_at(self.steady_shard(key), key)
    }

    fn steady_shard(&self, name: &[u8]) -> u16 {
        match &self.shards {
            Some(shards) if !shards.is_random() => match shards.of(name, || 0) {
                NOWHERE => 0,
                shard => shard as u16,
            },
            _ => 0,
        }
    }

    /// The nodes of a cluster that channels can belong to; none of other pools.
    pub(crate) fn channel_homes(&self, pool: u16) -> impl Iterator<Item = NodeId> {
        self.cluster(pool).into_iter().flat_map(Cluster::channel_homes)
    }

    fn cluster(&self, pool: u16) -> Option<&Cluster> {
        match self.pools.get(usize::from(pool)).map(|pool| &pool.topology) {
            Some(Topology::Cluster(cluster)) => Some(cluster),
            _ => None,
        }
    }

    /// Whether this node tells of what happens to keys as the one that has them: copies do so, too.
    pub(crate) fn has_keys(&self, pool: u16, node: NodeId) -> bool {
        match self.pools.get(usize::from(pool)).map(|pool| &pool.topology) {
            Some(Topology::Cluster(cluster)) => cluster.is_primary(node),
            _ => true,
        }
    }

    /// Whether every place has an owner, so that a request to all nodes reaches all keys.
    pub(crate) fn is_covered(&self) -> bool {
        self.uncovered().is_none()
    }

    /// The first pool that has a place without an owner.
    pub(crate) fn uncovered(&self) -> Option<u16> {
        let mut pools = self.pools.iter();
        pools.position(|pool| !pool.is_covered()).map(|pool| pool as u16)
    }

    fn pool_mut(&mut self, pool: u16) -> Option<&mut PoolState> {
        self.pools.get_mut(usize::from(pool))
    }
}

impl PoolState {
    fn primaries(&self) -> Vec<NodeId> {
        match &self.topology {
            Topology::One(node) => alloc::vec![*node],
            Topology::Cluster(cluster) => cluster.primaries(),
            Topology::Sentinel(group) => group.primary.into_iter().collect(),
        }
    }

    fn is_covered(&self) -> bool {
        match &self.topology {
            Topology::One(_) => true,
            Topology::Cluster(cluster) => cluster.is_covered(),
            Topology::Sentinel(group) => group.primary.is_some(),
        }
    }

    /// Each primary with its copies.
    pub(super) fn copies(&self) -> Vec<(NodeId, Vec<NodeId>)> {
        match &self.topology {
            Topology::One(_) => Vec::new(),
            Topology::Cluster(cluster) => cluster.copies(),
            Topology::Sentinel(group) => {
                group.primary.map(|primary| (primary, group.replicas.clone())).into_iter().collect()
            }
        }
    }

    /// Reads go to the primaries.
    pub(crate) fn forget_readers(&mut self) {
        let groups = self.copies().len();
        self.set_readers(alloc::vec![Vec::new(); groups]);
    }

    /// Whom reads go to, of each of [`Self::copies`].
    pub(super) fn set_readers(&mut self, lists: Vec<Vec<NodeId>>) {
        match &mut self.topology {
            Topology::One(_) => {}
            Topology::Cluster(cluster) => cluster.set_readers(lists),
            Topology::Sentinel(_) => self.readers = lists.into_iter().next().unwrap_or_default(),
        }
    }

    /// Whether this node is one of [`Self::named`].
    pub(crate) fn knows(&self, node: NodeId) -> bool {
        match &self.topology {
            Topology::One(one) => *one == node,
            Topology::Cluster(cluster) => cluster.names(node),
            Topology::Sentinel(_) => self.named().contains(&node),
        }
    }

    /// The nodes that the topology names, or the configuration. Some more than once.
    pub(crate) fn named(&self) -> Vec<NodeId> {
        match &self.topology {
            Topology::One(one) => alloc::vec![*one],
            Topology::Cluster(cluster) => {
                cluster.candidates().into_iter().chain(cluster.homes()).collect()
            }
            Topology::Sentinel(group) => {
                let primaries = group.primary.into_iter().chain(group.before);
                let others = group.replicas.iter().copied().chain(group.candidates());
                primaries.chain(others).collect()
            }
        }
    }

    /// Whether a node of its cluster told that there is one at this address.
    pub(crate) fn has_member(&self, address: &Address) -> bool {
        match &self.topology {
            Topology::Cluster(cluster) => cluster.members.contains(address),
            Topology::One(_) | Topology::Sentinel(_) => false,
        }
    }

    fn state(&self) -> Option<String> {
        match &self.topology {
            Topology::One(_) => None,
            Topology::Cluster(cluster) => {
                Some(format!("{} primaries, {} slots", cluster.primaries().len(), cluster.served()))
            }
            Topology::Sentinel(group) => Some(match group.primary {
                Some(_) => format!("primary known, {} replicas", group.replicas.len()),
                None => String::from("primary not known"),
            }),
        }
    }
}

impl Engine {
    /// Sets up what the settings name: the pools, and the nodes to begin with.
    pub(crate) fn begin_topology(&mut self, now: Time) {
        let children: Vec<(settings::Node, Pool)> = match &self.settings.shards {
            None => alloc::vec![(self.settings.node.clone(), self.settings.pool.clone())],
            Some(shards) => shards
                .children
                .iter()
                .map(|child| (child.node.clone(), child.pool.clone()))
                .collect(),
        };
        for (index, (node, pool)) in children.into_iter().enumerate() {
            let state = self.begin_pool(now, index as u16, node, pool);
            self.router.pools.push(state);
        }
        if let Some(node) = self.router.any_node().or_else(|| self.nodes.ids().first().copied()) {
            self.first_node = node;
        }
    }

    fn begin_pool(&mut self, now: Time, index: u16, node: settings::Node, pool: Pool) -> PoolState {
        let mut sentinel = None;
        let topology = match pool {
            Pool::Standalone => Topology::One(self.find_node(index, &node.address)),
            Pool::Cluster { seeds } => {
                let seeds = seeds.iter().map(|seed| self.find_node(index, seed)).collect();
                Topology::Cluster(Box::new(Cluster::new(seeds)))
            }
            Pool::Sentinel { seeds, name, greeting } => {
                sentinel = Some(greeting);
                let seeds = seeds.iter().map(|seed| self.find_node(index, seed)).collect();
                Topology::Sentinel(Box::new(Group::new(name, seeds)))
            }
        };
        let removed = self.router.shards.as_ref().map(|shards| shards.removed(usize::from(index)));
        let removal = removed.and_then(Removal::new);
        let refresh = Refresh::new(!matches!(topology, Topology::One(_)));
        let wait_until = now.plus_ms(self.settings.timeouts.topology_wait_ms);
        PoolState {
            node,
            sentinel,
            topology,
            refresh,
            wait_until,
            outage: None,
            removal,
            down_until: None,
            readers: Vec::new(),
        }
    }

    /// Whether there is but one server.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        self.router.is_one()
    }

    /// The node of a pool at an address, made known if it is new. For addresses that a server told there is [`Self::told_nodes`].
    pub(crate) fn find_node(&mut self, pool: u16, address: &Address) -> NodeId {
        let known = self.nodes.find(pool, address);
        known.unwrap_or_else(|| self.nodes.insert(Node::new(pool, address.clone())))
    }

    /// The nodes at addresses that a server told, each made known if it is new: every such address comes through here, and becomes what the operator
    /// says that it is from where we stand.
    fn told_nodes<'a>(
        &mut self,
        pool: u16,
        told: impl IntoIterator<Item = &'a Address>,
    ) -> Vec<NodeId> {
        let Self { nodes, settings, .. } = self;
        let mut find = |told: &Address| {
            let mapped = settings.address_map.at(told);
            let address = mapped.as_ref().unwrap_or(told);
            let known = nodes.find(pool, address);
            known.unwrap_or_else(|| nodes.insert(Node::new(pool, address.clone())))
        };
        told.into_iter().map(&mut find).collect()
    }

    /// What becomes of a request for a place that nobody has: it waits a while, then fails.
    pub(crate) fn unserved(&mut self, now: Time, pool: u16) -> Result<Hold, Vec<u8>> {
        self.want_topology(pool);
        let room = self.topology_waiters.len() < self.settings.limits.clients_max;
        match self.router.pools.get(usize::from(pool)) {
            Some(state) if now < state.wait_until && room => Ok(Hold::Topology),
            Some(state) => Err(match state.topology {
                Topology::Sentinel(_) => reject::no_primary(&state.refresh.cause),
                _ => reject::unserved(&state.refresh.cause),
            }),
            None if usize::from(pool) == NOWHERE => Err(reject::no_route(None)),
            None => Err(reject::node("of this client", "is gone")),
        }
    }

    /// A step for a client whose request finds no owner.
    pub(crate) fn unserved_step(
        &mut self,
        now: Time,
        id: crate::ClientId,
        pool: u16,
        silent: bool,
    ) -> Step {
        match self.unserved(now, pool) {
            Ok(hold) => Step::Hold(hold),
            Err(error) => {
                self.reply(id, silent, |out| out.extend_from_slice(&error));
                Step::Done
            }
        }
    }

    /// What a client whose node is down is held for, if the operator wants that; `None`: it gets the error.
    pub(crate) fn hold_for_failover(&mut self, now: Time, node: NodeId) -> Option<Hold> {
        let (pool, refuses) = (self.nodes.get(node)?.pool, self.refuses_login(node));
        self.want_topology_without(node);
        let hold_ms = self.settings.timeouts.failover_hold_ms;
        let state = self.router.pool_mut(pool)?;
        if hold_ms == 0 || matches!(state.topology, Topology::One(_)) || refuses {
            return None;
        }
        let until = *state.down_until.get_or_insert(now.plus_ms(hold_ms));
        (now < until).then_some(Hold::Topology)
    }

    /// A server said that this node of the table owns the place now. What else that one owns, it knows best itself.
    pub(crate) fn patch_slot(&mut self, place: Place, node: NodeId) {
        self.heed_sign(place.pool, Sign::Named(node));
        if let Some(state) = self.router.pool_mut(place.pool)
            && let Topology::Cluster(cluster) = &mut state.topology
            && cluster.set_owner(place.slot, node)
        {
            self.route_epoch = self.route_epoch.wrapping_add(1);
            self.router.readers_stale = true;
        }
    }

    /// The whole table of a cluster is known anew. It may be older than what is known: nodes learn of a change one after the other. So no slot
    /// goes back from a node that lives to one that cannot be reached; if it does belong there, the one that lives says so itself.
    pub(crate) fn apply_slots(&mut self, now: Time, pool: u16, teller: NodeId, ranges: &[Range]) {
        let mut nodes = self.told_nodes(pool, ranges.iter().flat_map(Range::nodes)).into_iter();
        let mut table = Vec::with_capacity(ranges.len());
        let mut owners: Vec<Owner> = Vec::new();
        let mut indexes: BTreeMap<NodeId, usize> = BTreeMap::new();
        for range in ranges {
            let Some(primary) = nodes.next() else { break };
            let replicas: Vec<NodeId> = nodes.by_ref().take(range.replicas.len()).collect();
            let index = *indexes.entry(primary).or_insert_with(|| {
                owners.push(Owner::new(primary, replicas));
                owners.len() - 1
            });
            table.push((range.first, range.last, index as u16));
        }
        let primaries = owners.iter().map(|owner| owner.primary);
        let dead: BTreeSet<NodeId> = primaries.filter(|node| self.is_away(*node)).collect();
        let before = self.router.pools.get(usize::from(pool));
        let owned = before.map_or(Vec::new(), PoolState::primaries).into_iter();
        let homes = self.router.cluster(pool).into_iter().flat_map(Cluster::homes);
        let known = owned.chain(homes);
        let live = known.filter(|node| self.is_there(*node) || self.tells(*node)).collect();
        let Some(state) = self.router.pool_mut(pool) else { return };
        let Topology::Cluster(cluster) = &mut state.topology else { return };
        let homes: Vec<NodeId> = cluster.homes().collect();
        let primaries = cluster.primaries();
        let changed = cluster.replace(now, &table, owners, &dead, &live);
        cluster.choose_channel_homes(|node| self.nodes.get(node).map_or(0, |node| node.label_hash));
        if !cluster.homes().eq(homes) {
            self.route_epoch = self.route_epoch.wrapping_add(1);
        }
        if changed {
            self.note_lost_primaries(now, primaries);
        }
        self.topology_known(now, pool, teller, changed);
    }

    /// Sentinels said who the primary is.
    pub(crate) fn apply_primary(
        &mut self,
        now: Time,
        pool: u16,
        teller: NodeId,
        address: &Address,
    ) {
        let Some(node) = self.told_nodes(pool, [address]).pop() else { return };
        let Some(state) = self.router.pool_mut(pool) else { return };
        let Topology::Sentinel(group) = &mut state.topology else { return };
        let before = group.primary.replace(node);
        let changed = before != Some(node);
        if changed {
            group.before = before;
            // Connections to it were greeted when it was a replica. New ones hear from it that it is none any more.
            self.retire_node(node);
        }
        self.topology_known(now, pool, teller, changed);
        if changed && let Some(before) = before {
            self.note_lost_primaries(now, alloc::vec![before]);
            // It may live on as a replica, or cut off as a primary that nobody follows: nothing new goes there.
            self.retire_node(before);
        }
    }

    /// Sentinels told of replicas. respool reads from a replica that joins the list after its first `ROLE`: the server may have restarted without its data, or
    /// may be the former primary.
    pub(crate) fn apply_replicas(&mut self, pool: u16, addresses: &[Address]) {
        let told = self.told_nodes(pool, addresses);
        let Some(state) = self.router.pool_mut(pool) else { return };
        let Topology::Sentinel(group) = &mut state.topology else { return };
        let is_first = !core::mem::replace(&mut group.knows_replicas, true);
        let before = core::mem::replace(&mut group.replicas, told.clone());
        for node in told.into_iter().filter(|node| !is_first && !before.contains(node)) {
            if let Some(node) = self.nodes.get_mut(node) {
                node.health.unfit = true;
            }
        }
        self.forget_nodes();
        self.renew_readers();
    }

    /// A sentinel told of the others. Itself it leaves out.
    pub(crate) fn apply_sentinels(&mut self, pool: u16, teller: NodeId, addresses: &[Address]) {
        let others = self.told_nodes(pool, addresses);
        let Some(state) = self.router.pool_mut(pool) else { return };
        let Topology::Sentinel(group) = &mut state.topology else { return };
        group.knows_others(teller, others);
        self.forget_nodes();
    }

    /// This server was named as the primary and says itself that it is a copy: the sentinel that named it has not heard of the last change
    /// yet. The one before goes on until another one is named.
    pub(crate) fn disown_primary(&mut self, node: NodeId) {
        let Some(pool) = self.nodes.get(node).map(|node| node.pool) else { return };
        self.want_topology(pool);
        let Some(state) = self.router.pool_mut(pool) else { return };
        let Topology::Sentinel(group) = &mut state.topology else { return };
        group.is_disowned = true;
        if let Some(before) = group.before.take() {
            group.primary = Some(before);
            self.route_epoch = self.route_epoch.wrapping_add(1);
            self.renew_readers();
            self.wake_topology_waiters();
        }
    }

    fn topology_known(&mut self, now: Time, pool: u16, teller: NodeId, changed: bool) {
        let wait_until = now.plus_ms(self.settings.timeouts.topology_wait_ms);
        let node = self.label(teller).to_string();
        let Some(state) = self.router.pool_mut(pool) else { return };
        let words = state.state().unwrap_or_default();
        self.notices.push_back(Notice::TopologyTold { node, state: words, changed });
        if state.is_covered() {
            state.wait_until = wait_until;
        }
        if changed {
            state.down_until = None;
            self.route_epoch = self.route_epoch.wrapping_add(1);
        }
        self.forget_nodes();
        self.renew_readers();
        self.wake_topology_waiters();
        self.parked.wake_questions(now);
    }

    /// A server says that its cluster is down. Until when a request may be tried again: the first ones of an outage wait for its end, for so
    /// long together; those that come later fail at once, until nobody has said so for [`OUTAGE_GAP_MS`]: then it is another outage.
    pub(crate) fn outage_ends(&mut self, now: Time, pool: u16, patience_ms: u64) -> Time {
        let Some(state) = self.router.pool_mut(pool) else { return now };
        let since = match state.outage {
            Some((since, last)) if last.plus_ms(OUTAGE_GAP_MS) > now => since,
            _ => now,
        };
        state.outage = Some((since, now));
        since.plus_ms(patience_ms)
    }

    /// A node answers again: what waited for its successor goes on.
    pub(crate) fn node_is_back(&mut self, now: Time, node: NodeId) {
        if self.reads_spread() {
            self.ask_role(now, node, false);
        }
        let pool = self.nodes.get(node).map(|node| node.pool);
        if let Some(state) = pool.and_then(|pool| self.router.pool_mut(pool))
            && state.down_until.take().is_some()
        {
            self.wake_topology_waiters();
        }
        if pool.is_some_and(|pool| self.router.is_cluster(pool)) {
            // Channels that belong there go back to it.
            self.route_epoch = self.route_epoch.wrapping_add(1);
        }
    }

    /// Whoever waits for an owner looks again.
    pub(crate) fn wake_topology_waiters(&mut self) {
        self.resume.extend(self.topology_waiters.drain(..));
    }

    /// When the clients that wait for an owner are told that there is none; `None`: nobody waits.
    pub(crate) fn topology_wait_ends(&self) -> Option<Time> {
        if self.topology_waiters.is_empty() {
            return None;
        }
        let pools = self.router.pools.iter();
        let ends = pools.flat_map(|pool| pool.down_until.into_iter().chain([pool.wait_until]));
        ends.filter(|end| *end > self.router.woken_at).min()
    }

    /// The wait for an owner is over for some: all look again.
    pub(crate) fn end_topology_wait(&mut self, now: Time) {
        self.router.woken_at = now;
        self.wake_topology_waiters();
    }

    /// In words, for INFO; `None` where there is nothing to tell but the state of one connection.
    pub(crate) fn topology_state(&self) -> Option<String> {
        let states: Vec<String> = self.router.pools.iter().filter_map(PoolState::state).collect();
        let out = match self.router.ejection.as_ref().map_or(0, Ejection::out) {
            0 => String::new(),
            out => format!(" ({out} left out)"),
        };
        match (states.is_empty(), self.router.pools.len()) {
            (true, 1) => None,
            (true, pools) => Some(format!("{pools} shards{out}")),
            (false, 1) => states.into_iter().next(),
            (false, pools) => Some(format!("{pools} shards{out}: {}", states.join("; "))),
        }
    }
}

/// Whether settings name something that cannot be built; in words.
///
/// # Errors
/// What [`Shards::new`] refuses.
pub fn shards_of(settings: &Settings) -> Result<Option<Shards>, String> {
    let Some(shards) = &settings.shards else { return Ok(None) };
    let names = shards.children.iter().map(|child| child.shard.clone()).collect();
    Shards::new(shards.sharding.clone(), names).map(Some).map_err(|error| format!("{error}"))
}
