//! Other servers than before, while clients are connected: another address, a cluster in the place of one server, other shards.
//!
//! It is as if all servers had left a cluster at once. What was sent to them is still answered by them; what comes next goes to the new ones.
//!
//! ```text
//!   a shared connection    takes no new requests, gives the replies that it owes, ends         (`retire`)
//!   EXEC that was sent     the same
//!   a blocking command     gets an error: what would wake it is sent elsewhere now
//!   WATCH, MULTI … queued  EXEC gets one error, nothing of it was done
//!   a subscription         goes over to the new servers by itself
//!   what a client caches   is flushed
//! ```
//! Clients in the database that all begin in go over to the one that all begin in now; those that selected another one stay in it.
//!
//! Not here: settings that say the same servers with another greeting (`configure`).
//!
//! Invariant: no node of the former servers is in a pool, so no new request finds one; the last connection to a node takes the node along.

use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::peers;
use crate::settings::{Node, Pool, Settings, ShardsSettings};
use crate::time::Time;
use crate::topology::{Router, shards_of};
use crate::upstream::{Lane, Role};
use alloc::vec::Vec;

/// The pool of nodes that are left: none of the router's, of which there are never so many.
pub(crate) const LEFT: u16 = peers::POOL - 1;

/// Why a connection ends, for whoever waits on it.
pub(crate) const CAUSE: &str = "is no server of the configuration any more";

/// Whether both name the same servers in the same databases, whatever the greeting.
pub(crate) fn same_servers(one: &Settings, other: &Settings) -> bool {
    servers(one) == servers(other)
}

fn servers(settings: &Settings) -> (Node, Pool, Option<ShardsSettings>) {
    let node =
        |node: &Node| Node { user: None, password: None, client_name: Vec::new(), ..node.clone() };
    let pool = |pool: &Pool| match pool {
        Pool::Sentinel { seeds, name, greeting } => {
            Pool::Sentinel { seeds: seeds.clone(), name: name.clone(), greeting: node(greeting) }
        }
        other => other.clone(),
    };
    let mut shards = settings.shards.clone();
    for child in shards.iter_mut().flat_map(|shards| &mut shards.children) {
        (child.node, child.pool) = (node(&child.node), pool(&child.pool));
    }
    (node(&settings.node), pool(&settings.pool), shards)
}

impl Engine {
    /// The settings name other servers than `old` did.
    pub(crate) fn replace_servers(&mut self, now: Time, old: &Settings) {
        self.leave_servers(now);
        self.generation = self.generation.wrapping_add(1);
        let eject = self.settings.eject();
        // What a configuration names was checked, as at the start.
        self.router = Router::new(shards_of(&self.settings).unwrap_or(None), eject);
        // The new servers cannot confirm writes that the former servers acknowledged (`unconfirmed`).
        self.router.primary_lost_at = Some(now);
        self.begin_topology(now);
        self.route_epoch = self.route_epoch.wrapping_add(1);
        self.forget_what_they_told();
        self.change_start_db(old.node.db);
        self.renew_readers();
        self.relink_topics(now);
        self.wake_topology_waiters();
        self.warm_up(now);
    }

    /// No new request goes to the servers that there are.
    fn leave_servers(&mut self, now: Time) {
        let nodes: Vec<NodeId> = self.nodes.ids();
        for id in nodes {
            if self.nodes.get(id).is_some_and(|node| node.pool != peers::POOL) {
                self.nodes.leave_for(id, LEFT);
            }
        }
        for id in self.upstreams.ids() {
            let Some(upstream) = self.upstreams.get(id) else { continue };
            if !self.is_left(upstream.key.node) {
                continue;
            }
            match upstream.role {
                Role::Leased(client) if self.ends_lease(client, id) => {}
                // It was not asked anything: its client looks for another one.
                Role::Leased(_) | Role::Errand(_) if !upstream.is_ready() => {
                    self.remove_upstream(id);
                }
                Role::Leased(_) | Role::Errand(_) => self.lose_upstream(now, id, CAUSE, true),
                _ if upstream.key.lane == Lane::Messages => self.remove_upstream(id),
                _ => {
                    self.give_up_carried(now, id, CAUSE);
                    self.retire(id);
                }
            }
        }
        self.forget_nodes();
    }

    /// Whether what ends this client's lease is under way there.
    fn ends_lease(&self, client: ClientId, upstream: UpstreamId) -> bool {
        let lease = self.clients.get(client).and_then(|client| client.lease.as_ref());
        lease.is_some_and(|lease| lease.upstream == Some(upstream) && lease.is_ending())
    }

    /// Whether this node is none of the configuration's any more.
    pub(crate) fn is_left(&self, node: NodeId) -> bool {
        self.nodes.get(node).is_some_and(|node| node.pool == LEFT)
    }

    /// Whether this connection leads to one.
    #[cold]
    pub(crate) fn comes_from_left(&self, id: UpstreamId) -> bool {
        self.upstreams.get(id).is_some_and(|upstream| self.is_left(upstream.key.node))
    }

    /// A connection ended; with the last one to a node that is left it is forgotten.
    pub(crate) fn forget_if_left(&mut self, node: NodeId) {
        if self.is_left(node)
            && !self.targets().any(|target| target == node)
            && !self.upstreams.iter().any(|(_, up)| up.key.node == node)
        {
            self.nodes.remove(node);
        }
    }

    /// Commands that they have, scripts that run there.
    fn forget_what_they_told(&mut self) {
        self.learned = None;
        self.learning.begin_again();
        self.forget_lookups();
        self.busy.forget();
        self.readers = crate::functions::Readers::default();
    }

    fn change_start_db(&mut self, before: u32) {
        let db = self.settings.node.db;
        for id in self.clients.ids() {
            let Some(client) = self.clients.get(id) else { continue };
            if client.db == before && client.db != db {
                let protocol = client.protocol;
                self.take_way(id, protocol, db);
            }
            self.take_other_connections(id);
        }
    }
}
