//! Who owns which keys, and how that is found out.
//!
//! One server owns everything; of a cluster each slot has an owner, which the servers tell (`slots`, `refresh`) and correct
//! (`redirect`). A request asks here for the node of its slot, and waits or fails here while there is none.
//!
//! Order: when a slot gets another owner, a client's next request for it must not overtake those that are still on the way to the
//! old one. So each change raises `route_epoch`, and a client that has requests open from before it is held until they are answered.
//!
//! Not here: connections (`connect`), keys (`command::keys`), requests that concern several nodes (`scatter`).
//!
//! Invariant: an entry of the slot table is [`UNSERVED`] or the index of an owner.

pub(crate) mod refresh;
pub mod slots;

use crate::client::Hold;
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::node::{Address, Node};
use crate::reject;
use crate::request::Step;
use crate::settings::Pool;
use crate::time::Time;
use crate::upstream::Role;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use refresh::Refresh;
use slots::{Range, SLOTS};

/// A slot without an owner.
const UNSERVED: u16 = u16::MAX;

/// What is behind.
#[derive(Debug)]
pub(crate) enum Topology {
    /// One server.
    One,
    /// A cluster.
    Cluster(Box<Cluster>),
}

/// One primary and its copies.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) primary: NodeId,
    pub(crate) replicas: Vec<NodeId>,
}

/// What is known of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    slots: Box<[u16]>,
    owners: Vec<Owner>,
    /// Configured; never forgotten.
    pub(crate) seeds: Vec<NodeId>,
    /// Until then requests for slots without an owner wait.
    wait_until: Time,
    /// Until then requests whose node is down wait for its successor; set by the first of them.
    down_until: Option<Time>,
    /// When those that wait were last told to look again because of the time.
    woken_at: Time,
    pub(crate) refresh: Refresh,
}

impl Cluster {
    fn new(seeds: Vec<NodeId>, wait_until: Time) -> Self {
        Self {
            slots: alloc::vec![UNSERVED; SLOTS].into_boxed_slice(),
            owners: Vec::new(),
            seeds,
            wait_until,
            down_until: None,
            woken_at: Time::default(),
            refresh: Refresh::default(),
        }
    }

    /// The primary of a slot.
    #[inline]
    pub(crate) fn node(&self, slot: u16) -> Option<NodeId> {
        let owner = *self.slots.get(usize::from(slot))?;
        self.owners.get(usize::from(owner)).map(|owner| owner.primary)
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

    /// Whether every slot has an owner.
    pub(crate) fn is_covered(&self) -> bool {
        self.slots.iter().all(|owner| *owner != UNSERVED)
    }

    fn owner_index(&mut self, primary: NodeId) -> u16 {
        let known = self.owners.iter().position(|owner| owner.primary == primary);
        let index = known.unwrap_or_else(|| {
            self.owners.push(Owner { primary, replicas: Vec::new() });
            self.owners.len() - 1
        });
        // A cluster has at most as many owners as slots, and those that own none are dropped with each refresh.
        u16::try_from(index).unwrap_or(UNSERVED)
    }

    fn knows(&self, node: NodeId) -> bool {
        self.seeds.contains(&node)
            || self.owners.iter().any(|own| own.primary == node || own.replicas.contains(&node))
    }
}

impl Topology {
    /// Whether there is but one server.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::One)
    }
}

impl Engine {
    /// Sets up what the settings name: the nodes to begin with.
    pub(crate) fn begin_topology(&mut self, now: Time) {
        if let Pool::Cluster { seeds } = &self.settings.pool {
            let seeds = seeds.clone();
            let seeds = seeds.into_iter().map(|seed| self.find_node(&seed)).collect();
            let wait_until = now.plus_ms(self.settings.timeouts.topology_wait_ms);
            self.topology = Topology::Cluster(Box::new(Cluster::new(seeds, wait_until)));
            self.want_topology();
        }
    }

    /// The node at an address, made known if it is new.
    pub(crate) fn find_node(&mut self, address: &Address) -> NodeId {
        let known = self.nodes.iter().find(|(_, node)| node.address == *address).map(|(id, _)| id);
        known.unwrap_or_else(|| self.nodes.insert(Node::new(address.clone())))
    }

    /// The node that has this slot; where there is none yet, what becomes of a client that needs it.
    pub(crate) fn node_of_slot(&self, slot: u16) -> Option<NodeId> {
        match &self.topology {
            Topology::One => Some(self.first_node),
            Topology::Cluster(cluster) => cluster.node(slot),
        }
    }

    /// The node for a request that names no key: always the same one, so that what it asks twice fits together.
    pub(crate) fn any_node(&self) -> Option<NodeId> {
        match &self.topology {
            Topology::One => Some(self.first_node),
            Topology::Cluster(cluster) => cluster.primaries().first().copied(),
        }
    }

    /// All nodes that own something.
    pub(crate) fn primaries(&self) -> Vec<NodeId> {
        match &self.topology {
            Topology::One => alloc::vec![self.first_node],
            Topology::Cluster(cluster) => cluster.primaries(),
        }
    }

    /// What becomes of a request for a slot that nobody has: it waits a while, then fails.
    pub(crate) fn unserved(&mut self, now: Time) -> Result<Hold, Vec<u8>> {
        self.want_topology();
        let Topology::Cluster(cluster) = &self.topology else {
            return Err(reject::node("of this client", "is gone"));
        };
        if now < cluster.wait_until
            && self.topology_waiters.len() < self.settings.limits.clients_max
        {
            return Ok(Hold::Topology);
        }
        Err(reject::unserved(&cluster.refresh.cause))
    }

    /// A server said who owns this slot now.
    pub(crate) fn patch_slot(&mut self, slot: u16, node: NodeId) {
        let Topology::Cluster(cluster) = &mut self.topology else { return };
        let index = cluster.owner_index(node);
        let entry = &mut cluster.slots[usize::from(slot)];
        if *entry != index {
            *entry = index;
            self.route_epoch = self.route_epoch.wrapping_add(1);
        }
    }

    /// The whole table is known anew.
    pub(crate) fn apply_topology(&mut self, now: Time, ranges: &[Range]) {
        let mut fresh = alloc::vec![UNSERVED; SLOTS].into_boxed_slice();
        let mut owners: Vec<Owner> = Vec::new();
        for range in ranges {
            let primary = self.find_node(&range.primary);
            let replicas = range.replicas.iter().map(|replica| self.find_node(replica)).collect();
            let known = owners.iter().position(|owner| owner.primary == primary);
            let index = known.unwrap_or_else(|| {
                owners.push(Owner { primary, replicas });
                owners.len() - 1
            });
            fresh[usize::from(range.first)..=usize::from(range.last)].fill(index as u16);
        }
        let Topology::Cluster(cluster) = &mut self.topology else { return };
        let old = |slot: u16| cluster.node(slot);
        let changed = (0..SLOTS as u16).any(|slot| {
            let new = owners.get(usize::from(fresh[usize::from(slot)])).map(|owner| owner.primary);
            old(slot) != new
        });
        cluster.slots = fresh;
        cluster.owners = owners;
        if cluster.is_covered() {
            cluster.wait_until = now.plus_ms(self.settings.timeouts.topology_wait_ms);
        }
        if changed {
            cluster.down_until = None;
            self.route_epoch = self.route_epoch.wrapping_add(1);
        }
        self.forget_nodes();
        self.wake_topology_waiters();
    }

    /// Whether every slot has an owner, so that a request to all nodes reaches all keys.
    pub(crate) fn is_covered(&self) -> bool {
        match &self.topology {
            Topology::One => true,
            Topology::Cluster(cluster) => cluster.is_covered(),
        }
    }

    /// A mark of the slot table for cursors, 1 to 255: it differs with the primaries and where their ranges begin.
    pub(crate) fn topology_mark(&self) -> u8 {
        let Topology::Cluster(cluster) = &self.topology else { return 1 };
        // FNV-1a over the owners' labels and the slots where they change.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut last = UNSERVED;
        for (slot, owner) in cluster.slots.iter().enumerate() {
            if *owner != last {
                last = *owner;
                slot.to_le_bytes().into_iter().for_each(&mut add);
                if let Some(owner) = cluster.owners.get(usize::from(last)) {
                    self.label(owner.primary).bytes().for_each(&mut add);
                }
            }
        }
        (hash % 255) as u8 + 1
    }

    /// What a client whose node is down is held for, if the operator wants that; `None`: it gets the error.
    pub(crate) fn hold_for_failover(&mut self, now: Time) -> Option<Hold> {
        self.want_topology();
        let Topology::Cluster(cluster) = &mut self.topology else { return None };
        let hold_ms = self.settings.timeouts.failover_hold_ms;
        if hold_ms == 0 {
            return None;
        }
        let until = *cluster.down_until.get_or_insert(now.plus_ms(hold_ms));
        (now < until).then_some(Hold::Topology)
    }

    /// Whoever waits for an owner looks again.
    pub(crate) fn wake_topology_waiters(&mut self) {
        self.resume.append(&mut self.topology_waiters.drain(..).collect());
    }

    /// Nodes that no one names any more go, with their connections as soon as these owe nothing.
    fn forget_nodes(&mut self) {
        let Topology::Cluster(cluster) = &self.topology else { return };
        let stale: Vec<NodeId> =
            self.nodes.iter().map(|(id, _)| id).filter(|id| !cluster.knows(*id)).collect();
        for node in stale {
            let upstreams: Vec<_> = self
                .upstreams
                .iter()
                .filter(|(_, up)| up.key.node == node)
                .map(|(id, _)| id)
                .collect();
            for id in upstreams {
                self.retire(id);
            }
            if !self.upstreams.iter().any(|(_, up)| up.key.node == node) {
                self.nodes.remove(node);
            }
        }
    }

    /// No new request goes over this connection; it is closed when it owes nothing.
    fn retire(&mut self, id: crate::UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if upstream.role == Role::Shared {
            upstream.role = Role::Retired;
            let key = upstream.key;
            self.unlist(&key);
        }
        self.wake_waiters(id);
        if self.upstreams.get(id).is_some_and(|up| up.inflight.is_empty() || !up.is_ready()) {
            self.remove_upstream(id);
        }
    }

    /// A step for a client whose request finds no owner.
    pub(crate) fn unserved_step(&mut self, now: Time, id: crate::ClientId, silent: bool) -> Step {
        match self.unserved(now) {
            Ok(hold) => Step::Hold(hold),
            Err(error) => {
                self.reply(id, silent, |out| out.extend_from_slice(&error));
                Step::Done
            }
        }
    }

    /// When the clients that wait for an owner are told that there is none; `None`: nobody waits.
    pub(crate) fn topology_wait_ends(&self) -> Option<Time> {
        let Topology::Cluster(cluster) = &self.topology else { return None };
        if self.topology_waiters.is_empty() {
            return None;
        }
        let ends = cluster.down_until.into_iter().chain([cluster.wait_until]);
        ends.filter(|end| *end > cluster.woken_at).min()
    }

    /// The wait for an owner is over for some: all look again.
    pub(crate) fn end_topology_wait(&mut self, now: Time) {
        if let Topology::Cluster(cluster) = &mut self.topology {
            cluster.woken_at = now;
        }
        self.wake_topology_waiters();
    }

    /// A node answers again: what waited for its successor goes on.
    pub(crate) fn node_is_back(&mut self) {
        if let Topology::Cluster(cluster) = &mut self.topology {
            cluster.down_until = None;
            self.wake_topology_waiters();
        }
    }

    /// In words, for INFO.
    pub(crate) fn topology_state(&self) -> Option<String> {
        let Topology::Cluster(cluster) = &self.topology else { return None };
        let served = cluster.slots.iter().filter(|owner| **owner != UNSERVED).count();
        Some(alloc::format!("{} primaries, {served} slots", cluster.primaries().len()))
    }
}
