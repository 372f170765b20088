//! The connections over which servers tell what changed of what is kept, one to each node.
//!
//! A feed asks for nothing but `PING`. That it must tell of what is read over a shared connection is said on that one, right before the first
//! read that is to be kept (`forward`). A server that knows no RESP3 has no feed, and nothing of it is kept.
//!
//! Not here: what follows for clients (`near`).
//!
//! Invariant: `Near::feeds` has those that are ready, and no round waits for another one.

use super::{Feed, Near};
use crate::engine::Engine;
use crate::ids::{NodeId, UpstreamId};
use crate::time::Time;
use crate::tracking::Changed;
use crate::upstream::inflight::{NearCommand, OwnCommand};
use crate::upstream::{Lane, Role, UpstreamKey};
use alloc::vec::Vec;

/// The connection that tells of changes at this node. Of keys in all databases, so one is enough.
fn feed_key(node: NodeId) -> UpstreamKey {
    UpstreamKey { node, resp3: true, db: 0, lane: Lane::Feed, conn: 0, owner: None }
}

impl Engine {
    /// Opens feeds that are missing, and begins the round that is wanted.
    pub(super) fn follow_feeds(&mut self, now: Time) {
        let Some(near) = self.near.as_deref_mut() else { return };
        for node in core::mem::take(&mut near.wanted) {
            let key = feed_key(node);
            let listed = self.by_key.get(&key).copied();
            if let Some(id) = listed.or_else(|| self.new_upstream(key, Role::Shared)) {
                // It is told when it is ready.
                let _ = self.availability(now, id);
            }
        }
        self.begin_round(now);
    }

    fn begin_round(&mut self, now: Time) {
        let Self { near, upstreams, .. } = self;
        let Some(near) = near.as_deref_mut() else { return };
        if !near.rounds.wanted || !near.rounds.waits_for.is_empty() {
            return;
        }
        near.rounds.wanted = false;
        near.rounds.begun += 1;
        // Those that were read over, too: a server forgets whom to tell with such a connection, and its end may not be seen here yet.
        let answers = |id: &UpstreamId| {
            upstreams.get(*id).is_some_and(|up| up.is_ready() && up.role == Role::Shared)
        };
        let shared = near.armed.keys().copied().filter(answers);
        let feeds = near.feeds.values().map(|feed| feed.upstream);
        near.rounds.waits_for = feeds.chain(shared).collect();
        let feeds: Vec<UpstreamId> = near.rounds.waits_for.iter().copied().collect();
        for feed in feeds {
            self.say_own(now, feed, OwnCommand::Near(NearCommand::Heard), &[b"PING"]);
        }
        self.end_round();
    }

    fn end_round(&mut self) {
        if let Some(Near { rounds, .. }) = self.near.as_deref_mut()
            && rounds.waits_for.is_empty()
        {
            rounds.done = rounds.begun;
        }
    }

    /// The server answered something that the cache asked for; `fine`: not with an error.
    pub(crate) fn cache_told(&mut self, now: Time, id: UpstreamId, own: NearCommand, fine: bool) {
        match own {
            NearCommand::Heard => self.feed_heard(now, id),
            NearCommand::Arm | NearCommand::Caching if !fine => self.cache_refused(now, id),
            NearCommand::Arm | NearCommand::Caching | NearCommand::Fill | NearCommand::Check => {}
        }
    }

    /// A feed has told everything up to here.
    fn feed_heard(&mut self, now: Time, id: UpstreamId) {
        if let Some(near) = self.near.as_deref_mut() {
            near.rounds.waits_for.remove(&id);
        }
        self.end_round();
        self.begin_round(now);
    }

    /// A connection was greeted; it may be a feed.
    pub(crate) fn cache_feed_ready(&mut self, id: UpstreamId, key: UpstreamKey) {
        if key.lane != Lane::Feed {
            return;
        }
        let Some(number) = self.upstreams.get(id).and_then(|up| up.server_id) else { return };
        if let Some(near) = self.near.as_deref_mut() {
            near.feeds.insert(key.node, Feed { upstream: id, number });
        }
    }

    /// A connection is gone: of what was read there nobody tells any more.
    pub(crate) fn cache_lost(&mut self, id: UpstreamId, key: UpstreamKey) {
        let Some(near) = self.near.as_deref_mut() else { return };
        let gone = match key.lane {
            Lane::Feed => {
                near.feeds.remove(&key.node);
                near.rounds.waits_for.remove(&id);
                near.table.drop_node(key.node)
            }
            Lane::Shared => {
                near.armed.remove(&id);
                near.rounds.waits_for.remove(&id);
                near.table.drop_upstream(key.node, id)
            }
            _ => return,
        };
        self.stats.cache_dropped_lost += gone;
        self.end_round();
    }

    /// A feed told of changes.
    pub(crate) fn cache_changed(&mut self, node: NodeId, changed: &Changed) {
        let Some(near) = self.near.as_deref_mut() else { return };
        self.stats.cache_dropped_changed += match changed.keys() {
            None => near.table.drop_node(node),
            Some(keys) => {
                keys.iter().map(|key| near.table.drop_key(near.hashes.key(key))).sum::<u64>()
            }
        };
    }

    /// The server refused to tell of what is read over this connection. What is on its way there is not to be kept.
    fn cache_refused(&mut self, now: Time, id: UpstreamId) {
        let Some(near) = self.near.as_deref_mut() else { return };
        near.refuse(now, id);
        near.table.drop_asked(id);
        self.stats.cache_refused += 1;
    }

    /// Nothing is kept any more, and servers need not remember what is read.
    pub(super) fn end_cache(&mut self, now: Time) {
        let Some(near) = self.near.take() else { return };
        let feeds = self.upstreams.iter().filter(|(_, up)| up.key.lane == Lane::Feed);
        for id in feeds.map(|(id, _)| id).collect::<Vec<_>>() {
            self.retire(id);
        }
        for id in near.armed.into_keys() {
            if self.upstreams.get(id).is_some_and(|up| up.is_ready()) {
                self.say_own(now, id, OwnCommand::Aside, &[b"CLIENT", b"TRACKING", b"OFF"]);
            }
        }
    }
}
