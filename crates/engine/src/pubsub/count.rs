//! How many listen: what PUBLISH and PUBSUB NUMSUB answer is the server's number and what the server cannot see.
//!
//! A server sees one listener for each worker that listens to a topic at it. What it answers is completed here by those that share
//! such a subscription, at this worker and at the others, which tell their numbers whenever these change (`news`).
//!
//! ```text
//!   worker 0: 3 clients, worker 1: 2 clients ─▶ server sees 2 ─▶ PUBLISH answers 2 + (3 − 1) + (2 − 1) = 5
//! ```
//! Others are told nothing of a topic to which one client listens where the server sees that one, so the usual case of a channel for
//! each client costs nothing.
//!
//! Not here: the merging of replies (`merge`).
//!
//! A client counts at the other workers from its SUBSCRIBE on, before the confirmation: a PUBLISH that another client sends
//! behind the confirmation, over another worker, counts the listener.
//!
//! Invariant: the number is right while listeners stay; while a client comes or goes, the number may be the one of just before or just after.

use super::{Kind, Name, Topic};
use crate::client::Hold;
use crate::command::ids;
use crate::command::spread::Gather;
use crate::engine::Engine;
use crate::glob;
use crate::ids::{NodeId, UpstreamId};
use crate::limits::PUBLISH_STEPS_MAX;
use crate::merge::How;
use crate::news::What;
use crate::request::Step;
use crate::scatter::Wish;
use crate::time::Time;
use crate::upstream::Lane;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Topic {
    /// Number of clients that listen to the topic or wait for their confirmations.
    fn listeners_to_be(&self) -> u32 {
        let new = self.waiting.iter().filter(|id| !self.listeners.contains(id));
        (self.listeners.len() + new.count()) as u32
    }
}

/// So many listen to a topic at one worker; 0: nobody, or one whom the server sees.
pub(crate) type Listeners = (Kind, Arc<[u8]>, u32);

impl Engine {
    /// Somebody came to this topic or left it.
    pub(super) fn listeners_changed(&mut self, kind: Kind, name: &Name) {
        if self.settings.workers > 1 {
            self.subscriptions.changed.insert((kind, name.clone()));
        }
    }

    /// Tells the other workers whose numbers changed in this turn.
    pub(super) fn tell_listeners(&mut self) {
        if self.subscriptions.changed.is_empty() {
            return;
        }
        let is_one = self.is_one();
        let mut told: Vec<Listeners> = Vec::new();
        for (kind, name) in core::mem::take(&mut self.subscriptions.changed) {
            let topic = self.subscriptions.topic(kind, &name);
            let count = topic.map_or(0, Topic::listeners_to_be);
            let is_seen = count == 1 && (kind != Kind::Pattern || is_one);
            let count = if is_seen { 0 } else { count };
            let key = (kind, name.clone());
            let before = match count {
                0 => self.subscriptions.told.remove(&key),
                _ => self.subscriptions.told.insert(key, count),
            };
            if before.unwrap_or(0) != count {
                told.push((kind, name, count));
            }
        }
        if !told.is_empty() {
            let worker = self.settings.worker;
            self.tell_others(0, What::Listeners { worker, topics: Arc::from(told) });
        }
    }

    /// Another worker tells how many listen there.
    pub(crate) fn hear_listeners(&mut self, worker: u32, topics: &[Listeners]) {
        for (kind, name, count) in topics {
            let key = (*kind, name.clone());
            let elsewhere = &mut self.subscriptions.elsewhere;
            if *count > 0 {
                elsewhere.entry(key).or_default().insert(worker, *count);
            } else if let Some(workers) = elsewhere.get_mut(&key) {
                workers.remove(&worker);
                if workers.is_empty() {
                    elsewhere.remove(&key);
                }
            }
        }
    }

    /// How many more listen to this topic than servers count, of which each worker is counted `seen` times.
    fn beyond(&self, kind: Kind, name: &[u8], seen: i64) -> i64 {
        let own =
            self.subscriptions.topic(kind, name).map_or(0, |topic| topic.listeners.len() as i64);
        let own = if own > 0 { own - seen } else { 0 };
        // The key is built for the look-up only: an `Arc` for each PUBLISH while somebody listens elsewhere.
        let others = match self.subscriptions.elsewhere.is_empty() {
            true => None,
            false => self.subscriptions.elsewhere.get(&(kind, Arc::from(name))),
        };
        let others = others.into_iter().flat_map(|workers| workers.values());
        own + others.map(|count| i64::from(*count) - seen).sum::<i64>()
    }

    /// How many get a message on this channel beyond those that this node counts, and how many steps of patterns it took to know that.
    fn receivers_beyond(&self, kind: Kind, channel: &[u8], node: NodeId) -> (i64, usize) {
        let subscriptions = &self.subscriptions;
        if subscriptions.is_empty() && subscriptions.elsewhere.is_empty() {
            return (0, 0);
        }
        let seen = |homes, kind, name: &[u8]| i64::from(self.belongs_at(homes, kind, name, node));
        let exact = self.beyond(kind, channel, seen(None, kind, channel));
        if kind == Kind::Shard {
            return (exact, 0);
        }
        let patterns = subscriptions.topics[Kind::Pattern as usize].keys();
        let others = subscriptions.patterns_elsewhere();
        let mut left = PUBLISH_STEPS_MAX;
        let fits =
            |pattern: &&Name| glob::matches_within(pattern, channel, &mut left).unwrap_or(false);
        let matching: BTreeSet<&Name> = patterns.chain(others).filter(fits).collect();
        let homes = (matching.len() > 1).then(|| self.homes_now());
        let of_pattern = |name: &&Name| {
            self.beyond(Kind::Pattern, name, seen(homes.as_ref(), Kind::Pattern, name))
        };
        let of_patterns = matching.iter().map(of_pattern).sum::<i64>();
        (exact + of_patterns, PUBLISH_STEPS_MAX - left)
    }

    /// PUBLISH, SPUBLISH, PUBSUB NUMSUB and the like: a command whose reply tells who listens.
    pub(crate) fn count_listeners(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        match wish.row {
            Some(ids::PUBLISH) => self.publish(now, wish, Kind::Channel),
            Some(ids::SPUBLISH) => self.publish(now, wish, Kind::Shard),
            Some(ids::PUBSUB_NUMSUB) => self.numbers(now, wish, Kind::Channel),
            Some(ids::PUBSUB_SHARDNUMSUB) => self.numbers(now, wish, Kind::Shard),
            Some(ids::PUBSUB_NUMPAT) => self.ask_listeners(now, wish, How::All(Gather::Max)),
            _ => self.ask_listeners(now, wish, How::All(Gather::Union)),
        }
    }

    /// The same where there is one server: in the client's order with what it sent before.
    pub(crate) fn count_listeners_of_one(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let is_alone = self.subscriptions.is_empty() && self.subscriptions.elsewhere.is_empty();
        if is_alone && !self.changes_reply() {
            return self.forward(now, wish.id, Lane::Shared, wish.frame, wish.row, wish.silent);
        }
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        let key = client.key_to(self.first_node, Lane::Shared);
        let listed = self.by_key.get(&key).copied();
        let same = listed.is_some() && client.upstream == listed;
        let flows = |id: UpstreamId| self.upstreams.get(id).is_some_and(|up| up.stall.is_none());
        if client.places.open() > 0 && !(same && listed.is_some_and(flows)) {
            return Step::Hold(Hold::Drained);
        }
        if let Some(client) = self.clients.get_mut(wish.id) {
            client.upstream = listed;
        }
        self.count_listeners(now, wish)
    }

    fn publish(&mut self, now: Time, wish: &Wish<'_>, kind: Kind) -> Step {
        let Some(channel) = wish.args.get(1).filter(|_| wish.args.len() == 3) else {
            return self.forward_to_any(now, wish);
        };
        let node = match self.publish_home(now, kind, channel) {
            Ok(node) => node,
            Err(pool) => return self.unserved_step(now, wish.id, pool, wish.silent),
        };
        let (beyond, steps) = self.receivers_beyond(kind, channel, node);
        self.grants.slow.pay_steps(wish.args.len(), steps);
        match beyond {
            0 => self.forward_to(now, wish, node, Lane::Shared),
            beyond => self.send_to(now, wish, How::Add(beyond), &[node]),
        }
    }

    fn numbers(&mut self, now: Time, wish: &Wish<'_>, kind: Kind) -> Step {
        let nodes = self.nodes_to_ask(wish);
        let of = |name: &&[u8]| match self.is_one() {
            true => self.beyond(kind, name, 1),
            false => {
                let beyond = self.beyond(kind, name, self.places_of(kind, name) as i64);
                beyond - self.lingers_at(kind, name, &nodes) as i64
            }
        };
        let beyond: Vec<i64> = wish.args.iter().skip(2).map(of).collect();
        self.ask_listeners(now, wish, How::AddEach(beyond))
    }

    fn ask_listeners(&mut self, now: Time, wish: &Wish<'_>, how: How) -> Step {
        if let Some(pool) = self.router.uncovered() {
            return self.unserved_step(now, wish.id, pool, wish.silent);
        }
        let nodes = self.nodes_to_ask(wish);
        self.send_to(now, wish, how, &nodes)
    }

    /// The nodes that know together who listens.
    fn nodes_to_ask(&self, wish: &Wish<'_>) -> Vec<NodeId> {
        match wish.row {
            Some(ids::PUBSUB_SHARDNUMSUB | ids::PUBSUB_SHARDCHANNELS) => self.router.primaries(),
            _ => self.all_homes(),
        }
    }
}
