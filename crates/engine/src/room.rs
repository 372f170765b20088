//! Room for one more connection to a server, where its clients have as many as they may (`Limits::upstreams_max`).
//!
//! Each database and protocol has shared connections of its own, and each slow reader keeps the one that its reply comes over. So a few clients that ask for a
//! large value in each database and do not read could keep all of them. When another client needs one:
//!
//! ```text
//!   idle, of a seldom database ──▶ it goes      none ──▶ stopped for a slow reader ──▶ the reader and the connection are closed      none ──▶ an error
//! ```
//! Of the stopped ones first one of the group (`shares`) that has most of them, and of these the one whose reader has taken nothing for the longest time.
//! Whoever waits there for something else, and reads, keeps the connection; unless all are of a group that has more than half of all.
//!
//! Not here: when a connection is stopped (`reply::stall_for`), idle ones (`Engine::idle_of`), connections for single clients (`lease`, `transfer`).
//!
//! Invariant: a connection is closed here only if every request on it is of a client that is closed with it, or gone.

use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::FEEDS_PART;
use crate::reject;
use crate::shares::Group;
use crate::time::Time;
use crate::tracking::FEED_DB;
use crate::upstream::inflight::{OwnCommand, Owner};
use crate::upstream::{Lane, Role, UpstreamKey};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A connection that is not read because of a client.
struct Stopped {
    id: UpstreamId,
    reader: ClientId,
    group: Group,
    /// For how long the client has taken nothing, in microseconds.
    untaken_us: u64,
}

/// Whether a connection has a bound of its own, as it serves one client.
pub(crate) fn is_private(key: &UpstreamKey, role: Role) -> bool {
    role.is_private() || key.owner.is_some()
}

impl Engine {
    /// The error where there is no room for one more connection of this key.
    pub(crate) fn too_many_upstreams(&self, key: &UpstreamKey) -> Vec<u8> {
        let mut out = Vec::new();
        let text = match (key.owner, key.lane) {
            (Some(_), _) => reject::NOLOOP_MAX,
            (None, Lane::Broadcast) if !self.has_room_for_feed(key) => reject::FEEDS_MAX,
            (None, lane) if lane != Lane::Broadcast && !self.has_room_at(key.node) => {
                reject::UPSTREAMS_MAX
            }
            _ => reject::SHARED_CONNS_MAX,
        };
        reject::write(&mut out, text);
        out
    }

    /// Whether there is room for one more shared connection of this lane, to any server: the table of a cluster may name thousands. Connections for messages and
    /// invalidations cannot end while clients listen, so these lanes have half of the room, and the other lanes always have the other half.
    pub(crate) fn has_room_at_all(&self, lane: Lane) -> bool {
        self.roles.shared.all < self.settings.limits.shared_conns_max
            && (!lane.is_feed() || self.has_room_for_feeds(1))
    }

    /// Whether so many more connections for messages and invalidations have room in their half.
    pub(crate) fn has_room_for_feeds(&self, more: usize) -> bool {
        let max = self.settings.limits.shared_conns_max.div_ceil(2);
        more <= max.saturating_sub(self.roles.shared.feeds)
    }

    /// Whether one more connection to this node may be made that clients share.
    pub(crate) fn has_room_at(&self, node: NodeId) -> bool {
        self.roles.at(node).bounded < self.settings.limits.upstreams_max
    }

    /// Whether there is room for one more connection that sends invalidations to clients in BCAST mode. The connection of clients in RESP2 always has room at a node: these
    /// clients read over other connections, and must get invalidations.
    pub(crate) fn has_room_for_feed(&self, key: &UpstreamKey) -> bool {
        let max = (self.settings.limits.upstreams_max / FEEDS_PART).max(1);
        key.db == FEED_DB || self.roles.at(key.node).broadcast < max
    }

    /// Creates a connection that this client shares; `None` at the bound.
    pub(crate) fn new_shared(
        &mut self,
        now: Time,
        key: UpstreamKey,
        client: ClientId,
    ) -> Option<UpstreamId> {
        if key.owner.is_none() && key.lane != Lane::Broadcast {
            self.make_room_at(now, key.node, client);
        }
        self.new_upstream(key, Role::Shared)
    }

    /// Whether there is room for a connection that this client needs. If there is none, a client that does not read its replies makes some.
    pub(crate) fn make_room_at(&mut self, now: Time, node: NodeId, asks: ClientId) -> bool {
        if self.has_room_at(node) || self.idle_of(node).is_some() {
            return true;
        }
        let Some(id) = self.stopped_for_nothing(now, node, asks) else { return false };
        let Some(upstream) = self.upstreams.get(id) else { return false };
        let owners = upstream.inflight.runs().filter_map(|run| self.client_of(run.owner));
        for owner in owners.collect::<BTreeSet<_>>() {
            if self.clients.get(owner).is_some() {
                self.evict_unread(owner, UNREAD);
            }
        }
        self.retire(id);
        self.remove_upstream(id);
        true
    }

    /// The stopped connection to a node that goes for this client.
    #[cold]
    fn stopped_for_nothing(&self, now: Time, node: NodeId, asks: ClientId) -> Option<UpstreamId> {
        let own = Group::of(self.clients.get(asks)?, &self.settings.users);
        let of_node = self.upstreams.iter().filter(|(_, up)| up.key.node == node);
        let shared = of_node.filter(|(_, up)| !is_private(&up.key, up.role) && up.is_ready());
        let stopped = shared.filter_map(|(id, up)| {
            let reader = up.stall?.client;
            let client = self.clients.get(reader)?;
            let group = Group::of(client, &self.settings.users);
            let untaken_us = now.since(client.untaken_since());
            Some(Stopped { id, reader, group, untaken_us })
        });
        let mut stopped: Vec<Stopped> = stopped.collect();
        let mut held: BTreeMap<Group, usize> = BTreeMap::new();
        stopped.iter().for_each(|one| *held.entry(one.group).or_default() += 1);
        let held = |one: &Stopped| held.get(&one.group).copied().unwrap_or(0);
        // With as many of its own as others have, a client takes one of those.
        stopped.sort_by_key(|one| (held(one), one.group == own, one.untaken_us));
        let patience_us = self.settings.timeouts.stall_ms.saturating_mul(1_000);
        let max = self.settings.limits.upstreams_max;
        let goes = |one: &&Stopped| {
            let has_most = one.group != own && held(one) > max / 2;
            (held(one) > 1 || one.untaken_us >= patience_us)
                && one.reader != asks
                && self.serves_only_unread(one, asks, has_most)
        };
        stopped.iter().rev().find(goes).map(|one| one.id)
    }

    /// Whether a stopped connection is of no use to anybody but slow readers, or but `all` of their group.
    fn serves_only_unread(&self, stopped: &Stopped, asks: ClientId, all: bool) -> bool {
        let Some(upstream) = self.upstreams.get(stopped.id) else { return false };
        let is_slow = |id: ClientId| {
            self.clients.get(id).is_none_or(|client| {
                id == stopped.reader
                    || !client.stalls.is_empty()
                    || (all && Group::of(client, &self.settings.users) == stopped.group)
            })
        };
        !upstream.inflight.has_sharers()
            && upstream.carried.is_none()
            && upstream.inflight.runs().all(|run| match run.owner {
                Owner::Client { id, .. } => id != asks && is_slow(id),
                Owner::Own(OwnCommand::Delimiter(_)) => true,
                Owner::Part { .. } | Owner::Own(_) => false,
            })
    }
}

const UNREAD: &str = "it did not read its replies, and another client needed the upstream connection (limits.upstream_conns_max)";
