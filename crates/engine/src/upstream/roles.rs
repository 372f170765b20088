//! Which connections serve whom: what would else be found by looking at all of them.
//!
//! A worker may have thousands of connections that each wait for one client. None of the others must pay for that, so whatever is asked
//! of them by role is counted or ordered here.
//!
//! Not here: what the roles mean (`lease`, `errand`, `transfer`, `retire`), and when something is due (`timers`).
//!
//! Invariant: equal to what [`Roles::of`] finds in all upstreams.

use super::{Lane, Role, Upstream, UpstreamKey};
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::LEASES_OPENING_MAX;
use crate::shares::{Group, Held, HeldAtNodes, is_share};
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Connections that clients have of their own for what goes on as they go on.
    pub(crate) short: HeldAtNodes,
    /// The same for commands that wait at the server.
    pub(crate) blocking: Held,
    /// Those that were retired.
    pub(crate) retired: BTreeSet<UpstreamId>,
    /// Large requests under way.
    pub(crate) transfers: HeldAtNodes,
    /// Connections of clients that cache with NOLOOP, whatever they are used for just now.
    pub(crate) noloop: Held,
    /// Connections that clients share, to all nodes together.
    pub(crate) shared: Shared,
    /// Connections that clients share, by nodes.
    at_nodes: BTreeMap<NodeId, AtNode>,
    spares: BTreeSet<(UpstreamKey, UpstreamId)>,
    owned: BTreeSet<(ClientId, UpstreamId)>,
}

/// Counts of connections that clients share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Connections that take new requests.
    pub(crate) all: usize,
    /// Connections among these that cannot end while clients listen.
    pub(crate) feeds: usize,
}

/// Counts of connections to one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AtNode {
    /// Connections that `Limits::upstreams_max` bounds.
    pub(crate) bounded: usize,
    /// Connections of clients in BCAST mode, which have a bound of their own.
    pub(crate) broadcast: usize,
}

impl Roles {
    /// Found by looking at all.
    pub(crate) fn of<'a>(upstreams: impl Iterator<Item = (UpstreamId, &'a Upstream)>) -> Self {
        let mut roles = Self::default();
        upstreams.for_each(|(id, upstream)| roles.enter(id, upstream));
        roles
    }

    /// This connection has its role now.
    pub(crate) fn enter(&mut self, id: UpstreamId, upstream: &Upstream) {
        match upstream.role {
            Role::Retired => _ = self.retired.insert(id),
            Role::Spare(_) => _ = self.spares.insert((upstream.key, id)),
            Role::Shared | Role::Transfer(_) | Role::Leased(_) | Role::Errand(_) => {}
        }
        self.count(upstream, |count| *count += 1);
        let (group, node) = (upstream.group, upstream.key.node);
        match self.scarce(upstream) {
            Some(Scarce::Anywhere(held)) => held.add(group),
            Some(Scarce::AtNodes(held)) => held.add(group, node),
            None => {}
        }
        if let Some(client) = serves(&upstream.key, upstream.role) {
            self.owned.insert((client, id));
        }
    }

    /// It has it no more.
    pub(crate) fn leave(&mut self, id: UpstreamId, upstream: &Upstream) {
        match upstream.role {
            Role::Retired => _ = self.retired.remove(&id),
            Role::Spare(_) => _ = self.spares.remove(&(upstream.key, id)),
            Role::Shared | Role::Transfer(_) | Role::Leased(_) | Role::Errand(_) => {}
        }
        self.count(upstream, |count| *count -= 1);
        let (group, node) = (upstream.group, upstream.key.node);
        match self.scarce(upstream) {
            Some(Scarce::Anywhere(held)) => held.remove(group),
            Some(Scarce::AtNodes(held)) => held.remove(group, node),
            None => {}
        }
        if let Some(client) = serves(&upstream.key, upstream.role) {
            self.owned.remove(&(client, id));
        }
    }

    /// Changes the counts to which a connection belongs.
    fn count(&mut self, upstream: &Upstream, change: impl Fn(&mut usize)) {
        let (key, role) = (&upstream.key, upstream.role);
        if role.is_private() || key.owner.is_some() {
            return;
        }
        let is_broadcast = key.lane == Lane::Broadcast;
        if !is_broadcast || role == Role::Shared {
            let mut at_node = self.at_nodes.remove(&key.node).unwrap_or_default();
            change(if is_broadcast { &mut at_node.broadcast } else { &mut at_node.bounded });
            if at_node != AtNode::default() {
                self.at_nodes.insert(key.node, at_node);
            }
        }
        if role == Role::Shared {
            change(&mut self.shared.all);
            if key.lane.is_feed() {
                change(&mut self.shared.feeds);
            }
        }
    }

    /// The counts of connections to a node.
    pub(crate) fn at(&self, node: NodeId) -> AtNode {
        self.at_nodes.get(&node).copied().unwrap_or_default()
    }

    /// The count of scarce connections to which this one belongs.
    fn scarce(&mut self, upstream: &Upstream) -> Option<Scarce<'_>> {
        Some(match upstream.role {
            _ if upstream.key.owner.is_some() => Scarce::Anywhere(&mut self.noloop),
            Role::Transfer(_) => Scarce::AtNodes(&mut self.transfers),
            Role::Leased(_) | Role::Errand(_) if upstream.blocks => {
                Scarce::Anywhere(&mut self.blocking)
            }
            Role::Leased(_) | Role::Errand(_) => Scarce::AtNodes(&mut self.short),
            Role::Shared | Role::Retired | Role::Spare(_) => return None,
        })
    }

    /// Connections that clients have of their own, for whatever.
    pub(crate) fn leases(&self) -> usize {
        self.short.total() + self.blocking.total()
    }

    /// Whether a group that has so many connections for one use may have one more of `max`: of all uses together it has its share.
    pub(crate) fn has_room_for_lease(&self, group: Group, of_use: usize, max: usize) -> bool {
        let held = self.short.of(group) + self.blocking.of(group);
        let left = max.checked_sub(self.leases() + 1);
        left.is_some_and(|left| of_use == 0 || is_share(held + 1, left))
    }

    /// Idle connections of all keys.
    pub(crate) fn spare_count(&self) -> usize {
        self.spares.len()
    }

    /// Idle connections of this key. Always in the same order, so that those at the end stay idle and go.
    pub(crate) fn spares(&self, key: &UpstreamKey) -> impl Iterator<Item = UpstreamId> {
        let key = *key;
        let from = (key, UpstreamId::new(0, 0));
        self.spares.range(from..).take_while(move |(of, _)| *of == key).map(|(_, id)| *id)
    }

    /// Connections that serve this client alone.
    pub(crate) fn owned(&self, client: ClientId) -> impl Iterator<Item = UpstreamId> {
        let from = (client, UpstreamId::new(0, 0));
        self.owned.range(from..).take_while(move |(of, _)| *of == client).map(|(_, id)| *id)
    }
}

/// Connections for single clients that are being opened, by their nodes.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    nodes: BTreeMap<UpstreamId, NodeId>,
    counts: BTreeMap<NodeId, usize>,
}

impl Opening {
    /// Adds a connection to this node.
    pub(crate) fn insert(&mut self, node: NodeId, id: UpstreamId) {
        if self.nodes.insert(id, node).is_none() {
            *self.counts.entry(node).or_default() += 1;
        }
    }

    /// Removes a connection that is open, or gone.
    pub(crate) fn remove(&mut self, id: UpstreamId) {
        let Some(node) = self.nodes.remove(&id) else { return };
        if let Entry::Occupied(mut count) = self.counts.entry(node) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Whether no more may be opened to this node.
    pub(crate) fn is_full(&self, node: NodeId) -> bool {
        self.counts.get(&node).is_some_and(|count| *count >= LEASES_OPENING_MAX)
    }
}

/// Connections of which each group has its share.
enum Scarce<'a> {
    Anywhere(&'a mut Held),
    AtNodes(&'a mut HeldAtNodes),
}

/// The one client that this connection serves.
pub(crate) fn serves(key: &UpstreamKey, role: Role) -> Option<ClientId> {
    match role {
        Role::Transfer(client) | Role::Leased(client) | Role::Errand(client) => Some(client),
        Role::Shared | Role::Retired | Role::Spare(_) => key.owner,
    }
}
