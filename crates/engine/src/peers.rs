//! Whether the other respools of the facade live.
//!
//! With several addresses in `facade.announce` a client in cluster mode believes that each has a share of the slots, and most such clients
//! only ask the one that is told to have a key. So a respool that is gone must not be told of: its share would get errors until it is back.
//!
//! ```text
//!   worker 0 ── PING, once a second ──▶ each announced address that is not our own
//!      │  two failures in a row: down; one answer: up again
//!      └──── What::Peer ──▶ worker 1, 2, 3 …        all of them tell their clients the same (`local::cluster`)
//! ```
//! A failure is a connect that fails, a connection that breaks, or no answer within `timeouts.connect_ms`. Any answer shows life, an error
//! too: a respool that wants a password first says so. Nothing but PING is ever sent there, so no credentials leave for an address
//! that may belong to somebody else.
//!
//! Not here: what clients are told (`local::cluster`). A peer is no upstream of anyone's requests: its node is in no pool of the router,
//! its connection has a lane of its own.
//!
//! Invariant: at most one question to each peer is under way, and only the first worker has connections to peers.

use crate::engine::{Engine, Notice};
use crate::ids::{NodeId, UpstreamId};
use crate::limits::{PEER_EVERY_MS, PEER_FAILURES};
use crate::news::What;
use crate::settings::Facade;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, Role, State, UpstreamKey};
use alloc::vec::Vec;

/// The pool of the nodes that are peers: none of the router's, of which there are never so many.
pub(crate) const POOL: u16 = u16::MAX;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// One for each announced address, in that order; empty when there is nobody beside us.
    list: Vec<Peer>,
    /// When they are asked next.
    next_at: Time,
    /// How often one went down or came up.
    changes: u64,
}

/// One announced address.
#[derive(Debug, Default)]
struct Peer {
    /// Where it is asked; none: it is ours, or another worker asks.
    node: Option<NodeId>,
    /// Failures since it last answered.
    failures: u32,
    down: bool,
}

impl Peers {
    /// All of them are taken to live until they are known not to.
    pub(crate) fn new(facade: &Facade, now: Time) -> Self {
        let several = facade.on && facade.announce.len() > 1;
        let count = if several { facade.announce.len() } else { 0 };
        Self { list: (0..count).map(|_| Peer::default()).collect(), next_at: now, changes: 0 }
    }

    /// Those of another facade; clients that saw the former one see that it changed.
    pub(crate) fn after(before: &Self, facade: &Facade, now: Time) -> Self {
        Self { changes: before.changes + 1, ..Self::new(facade, now) }
    }

    /// Whether the announced address of this index is known to be dead.
    pub(crate) fn is_down(&self, index: usize) -> bool {
        self.list.get(index).is_some_and(|peer| peer.down)
    }

    /// A number that grows with every change, from 1.
    pub(crate) fn epoch(&self) -> u64 {
        self.changes + 1
    }

    fn find(&self, node: NodeId) -> Option<usize> {
        self.list.iter().position(|peer| peer.node == Some(node))
    }

    /// Whether this is news.
    fn set(&mut self, index: usize, down: bool) -> bool {
        let Some(peer) = self.list.get_mut(index).filter(|peer| peer.down != down) else {
            return false;
        };
        peer.down = down;
        self.changes += 1;
        true
    }
}

impl Engine {
    /// Makes the peers known that this worker asks.
    pub(crate) fn begin_peers(&mut self) {
        if !self.asks() {
            return;
        }
        for index in 0..self.peers.list.len() {
            let facade = &self.settings.facade;
            if let Some(address) = facade.announce.get(index)
                && !facade.listens.contains(address)
            {
                let address = address.clone();
                self.peers.list[index].node = Some(self.find_node(POOL, &address));
            }
        }
    }

    /// When peers are to be asked; `None`: there are none, or it is another worker's to do. One that ends soon need not know.
    pub(crate) fn peers_at(&self) -> Option<Time> {
        let any = self.peers.list.iter().any(|peer| peer.node.is_some());
        (any && !self.draining).then_some(self.peers.next_at)
    }

    /// Asks every peer that owes no answer, if it is time.
    pub(crate) fn ask_peers(&mut self, now: Time) {
        if self.peers_at().is_none_or(|at| at > now) {
            return;
        }
        self.peers.next_at = now.plus_ms(PEER_EVERY_MS);
        let nodes: Vec<NodeId> = self.peers.list.iter().filter_map(|peer| peer.node).collect();
        for node in nodes {
            self.ask_peer(now, node);
        }
    }

    fn ask_peer(&mut self, now: Time, node: NodeId) {
        let lane = Lane::Peer;
        let key = UpstreamKey { node, resp3: false, db: 0, lane, conn: 0, owner: None };
        let listed = self.by_key.get(&key).copied();
        let Some(id) = listed.or_else(|| self.new_upstream(key, Role::Shared)) else { return };
        let Some(upstream) = self.upstreams.get(id) else { return };
        match upstream.state {
            // The question goes out when it is connected.
            State::Idle => self.connect(now, id),
            State::Ready if upstream.inflight.is_empty() => self.ask_whether_alive(now, id),
            _ => {}
        }
    }

    /// Connected: the question takes the place of a greeting.
    pub(crate) fn greet_peer(&mut self, now: Time, id: UpstreamId) {
        self.say_own(now, id, OwnCommand::Ping, &[b"PING"]);
    }

    /// A peer said something.
    pub(crate) fn peer_answered(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if matches!(upstream.state, State::Greeting(_)) {
            (upstream.state, upstream.ready_at) = (State::Ready, now);
        }
        let Some(index) = self.peers.find(upstream.key.node) else { return };
        self.peers.list[index].failures = 0;
        self.peer_is(index, false);
    }

    /// The connection to a peer failed or is gone; another one is made when it is next asked.
    pub(crate) fn peer_lost(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        while upstream.inflight.abandon().is_some() {}
        upstream.reset(&mut self.pool);
        upstream.out.dirty = false;
        upstream.state = State::Idle;
        let (node, role) = (upstream.key.node, upstream.role);
        self.dirty_upstreams.forget(id);
        self.weigh_upstream(id);
        if role != Role::Shared {
            // Its name led elsewhere meanwhile, and there is another one.
            self.remove_upstream(id);
        }
        let Some(index) = self.peers.find(node) else { return };
        let peer = &mut self.peers.list[index];
        peer.failures = peer.failures.saturating_add(1);
        if peer.failures >= PEER_FAILURES {
            self.peer_is(index, true);
        }
    }

    fn peer_is(&mut self, index: usize, down: bool) {
        if !self.peers.set(index, down) {
            return;
        }
        self.tell_others(POOL, What::Peer { index, down });
        let address = self.settings.facade.announce.get(index);
        let address = address.map(|address| address.label()).unwrap_or_default();
        self.notices.push_back(Notice::Peer { address, down });
    }

    /// The first worker found a peer dead, or alive again. It has logged that.
    pub(crate) fn hear_of_peer(&mut self, index: usize, down: bool) {
        self.peers.set(index, down);
    }
}
