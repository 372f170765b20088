//! Shards that fail are left out of the distribution, if the operator wants that, and come back when they answer.
//!
//! For caches: while a shard is dead its keys go to the others, where they are missed and filled again, instead of getting errors. Where the
//! shards are the only home of the data this is the wrong thing, so it is off by default.
//!
//! ```text
//!   failures within the window ──▶ out: keys go to the others ── a probe is answered ──▶ in again, all at once
//! ```
//! A failure is a connect or greeting that failed, or a connection that broke or gave no reply while requests waited on it; of a cluster, that
//! none of its nodes can be asked who owns what. A connection that the server closes while nobody waits on it is none. They are
//! counted within a window, so that what happened yesterday does not add up. A shard that is out is probed with PING, so no
//! client's request pays for finding out.
//!
//! The first worker counts and probes for all of them, and tells the others (`news`): all leave the same shards out.
//!
//! Not here: where keys go without a shard ([`Shards::without`]).
//!
//! Invariant: `Router::shards` is `whole` without those that are out.

use super::Topology;
use crate::engine::{Action, Engine, Notice};
use crate::ids::{NodeId, UpstreamId};
use crate::news::{Audience, What};
use crate::route::shard::Shards;
use crate::settings::Eject;
use crate::time::Time;
use crate::upstream::{Role, State};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ejection {
    options: Eject,
    /// With all shards.
    whole: Shards,
    shards: Vec<Watched>,
}

/// One shard.
#[derive(Debug, Default)]
struct Watched {
    /// The last ones, at most as many as are allowed.
    failures: VecDeque<Time>,
    /// It is left out, and probed next at this time.
    out: Option<Time>,
}

impl Ejection {
    /// Nothing has failed yet.
    pub(super) fn new(options: Eject, whole: Shards) -> Self {
        let shards = (0..whole.count()).map(|_| Watched::default()).collect();
        Self { options, whole, shards }
    }

    /// A failure of this shard; whether it is one too many.
    fn fails(&mut self, now: Time, shard: usize) -> bool {
        let Eject { failures, window_ms, probe_ms } = self.options;
        let Some(watched) = self.shards.get_mut(shard).filter(|watched| watched.out.is_none())
        else {
            return false;
        };
        watched.failures.retain(|at| at.plus_ms(window_ms) > now);
        watched.failures.push_back(now);
        let too_many = watched.failures.len() >= failures as usize;
        if too_many {
            watched.failures.clear();
            watched.out = Some(now.plus_ms(probe_ms));
        }
        too_many
    }

    /// The distribution without those that are out.
    fn rest(&self) -> Shards {
        let out = self.shards.iter().enumerate().filter(|(_, watched)| watched.out.is_some());
        self.whole.without(&out.map(|(index, _)| index).collect::<Vec<_>>())
    }

    /// How many are out.
    pub(super) fn out(&self) -> usize {
        self.shards.iter().filter(|watched| watched.out.is_some()).count()
    }

    fn is_out(&self, shard: u16) -> bool {
        self.shards.get(usize::from(shard)).is_some_and(|watched| watched.out.is_some())
    }
}

impl Engine {
    /// A connection to this node failed: a connect, or one that requests waited on.
    pub(crate) fn node_failed(&mut self, now: Time, node: NodeId) {
        if self.router.ejection.is_none() {
            return;
        }
        let Some(pool) = self.nodes.get(node).map(|node| node.pool) else { return };
        let Some(state) = self.router.pools.get(usize::from(pool)) else { return };
        // What a cluster makes of a lost node is its own affair, and replicas and sentinels hold no key that is not elsewhere.
        let counts = match &state.topology {
            Topology::One(one) => *one == node,
            Topology::Sentinel(group) => group.primary == Some(node),
            Topology::Cluster(_) => false,
        };
        if counts {
            self.shard_failed(now, pool);
        }
    }

    /// A shard as a whole cannot be used.
    pub(crate) fn shard_failed(&mut self, now: Time, pool: u16) {
        if !self.asks() {
            if self.router.ejection.is_some() {
                let news = self.news(pool, What::ShardFailed);
                self.actions.push_back(Action::Tell(Audience::First, news));
            }
            return;
        }
        let Some(ejection) = &mut self.router.ejection else { return };
        if ejection.fails(now, usize::from(pool)) {
            self.tell_others(pool, What::ShardOut(true));
            self.shard_changed(pool, true);
        }
    }

    /// The first worker has left a shard out, or taken it in again.
    pub(crate) fn hear_of_shard(&mut self, now: Time, pool: u16, out: bool) {
        let Some(ejection) = &mut self.router.ejection else { return };
        if let Some(watched) = ejection.shards.get_mut(usize::from(pool)) {
            watched.out = out.then_some(now);
            self.shard_changed(pool, out);
        }
    }

    fn shard_changed(&mut self, pool: u16, out: bool) {
        let Some(ejection) = &self.router.ejection else { return };
        let shard = ejection.whole.shards().get(usize::from(pool));
        let name = shard.map(|shard| shard.name.clone()).unwrap_or_default();
        self.router.shards = Some(ejection.rest());
        self.route_epoch = self.route_epoch.wrapping_add(1);
        self.notices.push_back(Notice::Shard { name, out });
        self.wake_topology_waiters();
    }

    /// A shard answered a probe, or its cluster told who owns what.
    pub(crate) fn shard_answers(&mut self, pool: u16) {
        let Some(ejection) = &mut self.router.ejection else { return };
        if !self.settings.is_first() || !ejection.is_out(pool) {
            return;
        }
        ejection.shards[usize::from(pool)].out = None;
        self.tell_others(pool, What::ShardOut(false));
        self.shard_changed(pool, false);
    }

    /// A PING was answered with `reply`.
    pub(crate) fn ping_answered(&mut self, node: NodeId, reply: &[u8]) {
        // One that loads, say, answers with an error.
        if let Some(pool) = self.nodes.get(node).map(|node| node.pool)
            && reply.first() == Some(&b'+')
        {
            self.shard_answers(pool);
        }
    }

    /// A connection of a shard that is out is ready: it is asked at once whether that is more than a greeting.
    pub(crate) fn probe_ready(&mut self, now: Time, id: UpstreamId, node: NodeId) {
        let pool = self.nodes.get(node).map(|node| node.pool);
        let is_out = |pool| self.router.ejection.as_ref().is_some_and(|all| all.is_out(pool));
        if self.asks() && pool.is_some_and(is_out) {
            self.ask_whether_alive(now, id);
        }
    }

    /// When a shard is to be probed.
    pub(crate) fn probe_at(&self) -> Option<Time> {
        let ejection = self.router.ejection.as_ref().filter(|_| self.asks())?;
        ejection.shards.iter().filter_map(|watched| watched.out).min()
    }

    /// Probes every shard whose time it is.
    pub(crate) fn probe_shards(&mut self, now: Time) {
        if self.probe_at().is_none_or(|at| at > now) {
            return;
        }
        let Some(ejection) = &mut self.router.ejection else { return };
        let mut due = Vec::new();
        for (pool, watched) in ejection.shards.iter_mut().enumerate() {
            if watched.out.is_some_and(|at| at <= now) {
                watched.out = Some(now.plus_ms(ejection.options.probe_ms));
                due.push(pool as u16);
            }
        }
        for pool in due {
            self.probe_shard(now, pool);
        }
    }

    fn probe_shard(&mut self, now: Time, pool: u16) {
        let Some(state) = self.router.pools.get(usize::from(pool)) else { return };
        let node = match &state.topology {
            Topology::One(node) => Some(*node),
            Topology::Sentinel(group) => group.primary,
            Topology::Cluster(_) => None,
        };
        // The others are asked who owns what, which is a probe too.
        self.want_topology(pool);
        let Some(node) = node else { return };
        let key = self.shared_key(node, resp::Protocol::Resp2, self.settings.node.db);
        let listed = self.by_key.get(&key).copied();
        let Some(id) = listed.or_else(|| self.new_upstream(key, Role::Shared)) else { return };
        let Some(upstream) = self.upstreams.get(id) else { return };
        match upstream.state {
            State::Idle | State::Down(_) => self.connect(now, id),
            // An answer that is awaited already tells as much.
            State::Ready if upstream.inflight.is_empty() => self.ask_whether_alive(now, id),
            _ => {}
        }
    }
}
