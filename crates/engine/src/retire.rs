//! Connections that take no new requests: those a slow client holds up, those to nodes that are named no more, those to an address that a name
//! no longer has, those to a node that has just left another request without a reply.
//!
//! Such a connection is found by nobody any more (`unlist`), still gets the replies that it is owed, and is closed with the last of them. Its
//! clients' next requests wait until then, so they cannot overtake what is under way on it.
//!
//! Not here: its end (`reply`, `transfer::remove_upstream`).
//!
//! Invariant: a retired connection is not in `Engine::by_key`.

use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::RETIRED_MAX;
use crate::mirror::is_mirrors;
use crate::node::Node;
use crate::peers;
use crate::shares::Group;
use crate::time::Time;
use crate::topology::PoolState;
use crate::upstream::roles::serves;
use crate::upstream::{Lane, Role, Upstream};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Idle shared connections, as of one look in this turn.
#[derive(Debug)]
pub(crate) struct Idle {
    /// The next one to end comes last.
    all: Vec<UpstreamId>,
    /// There were no others.
    are_all: bool,
}

/// Connections that one look for idle ones finds.
const IDLE_FOUND_MAX: usize = 256;

/// Whether a connection to another server may take the place of this one.
fn is_idle_anywhere(up: &Upstream) -> bool {
    up.role == Role::Shared
        && up.key.owner.is_none()
        && matches!(up.key.lane, Lane::Shared | Lane::Tracked | Lane::Control)
        && up.is_ready()
        // A request to more servers than have room would end the connections that were made for it, in turn.
        && up.inflight.end() > up.ready_place
        && up.inflight.is_empty()
        && up.out.pending() == 0
        && up.waiters.is_empty()
}

impl Engine {
    /// An upstream that a slow client holds up takes no new requests of others, if they can have another one. If not, they wait behind it, and it is read
    /// on for them.
    #[inline]
    pub(crate) fn retire_if_stalled(&mut self, now: Time, id: UpstreamId, client: ClientId) {
        let is_stalled = |up: &Upstream| up.stall.is_some_and(|stall| stall.client != client);
        if self.upstreams.get(id).is_some_and(is_stalled) {
            self.retire_stalled(now, id, client);
        }
    }

    #[cold]
    fn retire_stalled(&mut self, now: Time, id: UpstreamId, client: ClientId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let (key, role) = (upstream.key, upstream.role);
        if self.roles.retired.len() < RETIRED_MAX
            && role == Role::Shared
            && (key.owner.is_some() || self.make_room_at(now, key.node, client))
            // It may have been the one that made room.
            && self.by_key.get(&key) == Some(&id)
        {
            self.set_role(id, Role::Retired);
            self.unlist(&key);
            self.wake_waiters(id);
        }
    }

    /// Nodes that no one names any more go, with their connections as soon as these owe nothing.
    pub(crate) fn forget_nodes(&mut self) {
        let named = self.router.pools.iter().flat_map(PoolState::named);
        let wanted: BTreeSet<NodeId> = named.chain(self.targets()).collect();
        let is_stale = |id: &NodeId, node: &Node| node.pool != peers::POOL && !wanted.contains(id);
        let stale = self.nodes.iter().filter(|(id, node)| is_stale(id, node));
        let stale: BTreeSet<NodeId> = stale.map(|(id, _)| id).collect();
        if stale.is_empty() {
            return;
        }
        // A node keeps its connection for topics until their new homes have confirmed them.
        let is_heard = |id, up: &Upstream| up.key.lane == Lane::Messages && self.is_listened_to(id);
        let of_stale = self
            .upstreams
            .iter()
            .filter(|(id, up)| stale.contains(&up.key.node) && !is_heard(*id, up));
        for id in of_stale.map(|(id, _)| id).collect::<Vec<_>>() {
            self.retire(id);
        }
        let connected: BTreeSet<NodeId> =
            self.upstreams.iter().map(|(_, upstream)| upstream.key.node).collect();
        for node in stale.difference(&connected) {
            self.nodes.remove(*node);
        }
    }

    /// No new request goes to this node; its connections are closed when they owe nothing.
    pub(crate) fn retire_node(&mut self, node: NodeId) {
        let of_node = self.upstreams.iter().filter(|(_, up)| up.key.node == node);
        for id in of_node.map(|(id, _)| id).collect::<Vec<_>>() {
            self.retire(id);
        }
    }

    /// The name of this connection's server means other addresses now. What it owes is still awaited; new requests go to where the name
    /// leads.
    pub fn handle_upstream_moved(&mut self, id: UpstreamId) {
        if is_mirrors(id) {
            let now = self.last_mirror_time();
            return self.mirror_event(now, id, &mut |engine, id| engine.handle_upstream_moved(id));
        }
        // One that is not in use yet is resolved with its next connect.
        if self.upstreams.get(id).is_some_and(|up| up.is_ready() && up.role == Role::Shared) {
            self.retire(id);
        }
    }

    /// A request to this node, sent then, got no reply in time. Its other connections that have said nothing since mostly get none either: whoever
    /// has several requests to send would wait for the whole time with each of them. A new one must greet first, for which there is less.
    pub(crate) fn distrust(&mut self, node: NodeId, sent_at: Time) {
        let is_quiet = |up: &Upstream| {
            let spare = matches!(up.role, Role::Spare(_));
            let shared =
                up.role == Role::Shared && matches!(up.key.lane, Lane::Shared | Lane::Control);
            up.key.node == node && up.is_ready() && up.progress_at < sent_at && (spare || shared)
        };
        let quiet = self.upstreams.iter().filter(|(_, up)| is_quiet(up)).map(|(id, _)| id);
        for id in quiet.collect::<Vec<_>>() {
            self.retire(id);
        }
    }

    /// No new request goes over this connection; it is closed when it owes nothing.
    pub(crate) fn retire(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let key = upstream.key;
        if upstream.role == Role::Shared {
            self.set_role(id, Role::Retired);
            self.unlist(&key);
        }
        self.wake_waiters(id);
        // Nobody waits for what an idle one is asked.
        let is_done = |up: &Upstream| {
            up.inflight.is_empty() || !up.is_ready() || matches!(up.role, Role::Spare(_))
        };
        if self.upstreams.get(id).is_some_and(is_done) {
            self.remove_upstream(id);
        }
    }

    /// The idle connection to a node with the oldest progress. Spare connections can be this one, and shared connections for trials, for RESP3 and for databases other
    /// than the first. Clients with `CLIENT TRACKING` get an invalidation of all keys if their connection goes. Another connection can take the place.
    pub(crate) fn idle_of(&self, node: NodeId) -> Option<UpstreamId> {
        let db = self.settings.node.db;
        let is_seldom = |up: &Upstream| {
            let has_other = up.key.db != db || up.key.beside().is_trial();
            let may_go = match up.key.lane {
                Lane::Shared => has_other || up.key.resp3,
                Lane::Tracked => up.key.owner.is_none() && (has_other || !self.is_heard(up.key)),
                _ => false,
            };
            up.role == Role::Shared && may_go
        };
        let is_idle = |up: &Upstream| {
            up.key.node == node
                && up.is_ready()
                && up.inflight.is_empty()
                && up.out.pending() == 0
                && up.waiters.is_empty()
                // This condition comes last, as it may look at all clients.
                && (matches!(up.role, Role::Spare(_)) || is_seldom(up))
        };
        let idle = self.upstreams.iter().filter(|(_, up)| is_idle(up));
        idle.min_by_key(|(_, up)| up.progress_at).map(|(id, _)| id)
    }

    /// Makes room for a connection to a node by ending an idle one. Returns whether there was any.
    pub(crate) fn end_idle(&mut self, node: NodeId) -> bool {
        let idle = self.idle_of(node);
        idle.into_iter().for_each(|id| self.remove_upstream(id));
        idle.is_some()
    }

    /// Whether there is room for one more shared connection of this lane to any server, if need be in the place of an idle one.
    pub(crate) fn make_room_anywhere(&mut self, lane: Lane) -> bool {
        self.has_room_at_all(lane) || (self.end_idle_anywhere() && self.has_room_at_all(lane))
    }

    /// Makes room for a connection to any server by ending an idle shared connection to any server: first a connection without invalidations, then the connection with
    /// the oldest progress. Returns whether a connection ended.
    fn end_idle_anywhere(&mut self) -> bool {
        loop {
            let mut idle = match self.sweep.idle.take() {
                Some(idle) if idle.all.is_empty() && !idle.are_all => self.idle_anywhere(),
                Some(idle) => idle,
                None => self.idle_anywhere(),
            };
            let next = idle.all.pop();
            self.sweep.idle = Some(idle);
            let Some(id) = next else { return false };
            if self.upstreams.get(id).is_some_and(is_idle_anywhere) {
                self.remove_upstream(id);
                return true;
            }
        }
    }

    /// Looks at all connections. Thousands of requests of one turn may need room, so what is found serves several of them.
    fn idle_anywhere(&self) -> Idle {
        let idle = self.upstreams.iter().filter(|(_, up)| is_idle_anywhere(up));
        let idle = idle.map(|(id, up)| (up.key.lane == Lane::Tracked, up.progress_at, id));
        let mut all: Vec<(bool, Time, UpstreamId)> = idle.collect();
        let are_all = all.len() <= IDLE_FOUND_MAX;
        if !are_all {
            all.select_nth_unstable(IDLE_FOUND_MAX);
            all.truncate(IDLE_FOUND_MAX);
        }
        all.sort_unstable_by(|one, other| other.cmp(one));
        Idle { all: all.into_iter().map(|(.., id)| id).collect(), are_all }
    }

    /// This connection serves somebody else from now on.
    pub(crate) fn set_role(&mut self, id: UpstreamId, role: Role) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        self.roles.leave(id, upstream);
        (upstream.role, upstream.blocks) = (role, false);
        let client = serves(&upstream.key, role).and_then(|client| self.clients.get(client));
        upstream.group =
            client.map_or(upstream.group, |client| Group::of(client, &self.settings.users));
        self.roles.enter(id, upstream);
        self.weigh_upstream(id);
        self.schedule(id);
    }

    /// The command that this connection serves waits at the server, or does not any more.
    pub(crate) fn set_blocking(&mut self, id: UpstreamId, blocks: bool) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        self.roles.leave(id, upstream);
        upstream.blocks = blocks;
        self.roles.enter(id, upstream);
    }
}
