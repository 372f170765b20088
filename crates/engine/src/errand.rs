//! One blocking command on every primary at once: WAIT and WAITAOF where there are several servers.
//!
//! A client that wrote to several asks for the copies of all it wrote, so each primary is asked, over a connection that serves nothing else
//! meanwhile, and the least number is the answer.
//!
//! Not here: connections that a client keeps for more than one command (`lease`).
//!
//! Invariant: an upstream with [`Role::Errand`] has nothing in flight but its greeting and one part for its client.

use crate::client::Hold;
use crate::command::spread::{self, Gather};
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::lease::{Use, Way};
use crate::merge::How;
use crate::request::Step;
use crate::scatter::Wish;
use crate::time::Time;
use crate::upstream::Role;
use crate::upstream::inflight::Owner;
use alloc::vec::Vec;

impl Engine {
    /// Asks every primary; the client is held until all have answered.
    pub(crate) fn wait_everywhere(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        if let Some(pool) = self.router.uncovered() {
            return self.unserved_step(now, wish.id, pool, wish.silent);
        }
        let nodes = self.router.primaries();
        let mut ways = Vec::with_capacity(nodes.len());
        for node in &nodes {
            match self.errand_to(now, wish.id, *node) {
                Way::Ready(upstream) => ways.push(Ok(upstream)),
                Way::Hold(hold) => return Step::Hold(hold),
                Way::Down(error) => ways.push(Err(error)),
            }
        }
        self.lease_waiters.served(wish.id);
        for upstream in ways.iter().flatten() {
            self.move_write_offset(now, *upstream);
            self.expect_late(now, *upstream, wish.row, wish.args);
        }
        let gather = wish.row.and_then(spread::gather).unwrap_or(Gather::Min);
        let step = self.send_everywhere(now, wish, How::All(gather), &nodes, &ways);
        if let Some(client) = self.clients.get_mut(wish.id) {
            client.hold = Hold::Drained;
        }
        step
    }

    /// A connection to this node for one part: the one that was taken before, an idle one, or a new one.
    fn errand_to(&mut self, now: Time, id: ClientId, node: NodeId) -> Way {
        let Some(client) = self.clients.get(id) else { return Way::Hold(Hold::No) };
        let key = self.shared_key(node, client.protocol, client.db);
        let is_of_node = |id: &UpstreamId| self.upstreams.get(*id).is_some_and(|up| up.key == key);
        let own = self.errands(id).find(is_of_node);
        let role = Role::Errand(id);
        match own.map_or_else(|| self.private_conn(now, id, key, role, Use::Blocking), Ok) {
            Ok(upstream) => self.way_of(now, upstream),
            Err(way) => way,
        }
    }

    /// The connections that parts of this client's command are on.
    fn errands(&self, id: ClientId) -> impl Iterator<Item = UpstreamId> {
        let is_errand = move |upstream: &UpstreamId| {
            self.upstreams.get(*upstream).is_some_and(|up| up.role == Role::Errand(id))
        };
        self.roles.owned(id).filter(is_errand)
    }

    /// The client is gone: nobody waits for its parts, and its connections go, so that the servers do not wait either.
    pub(crate) fn drop_errands(&mut self, id: ClientId) {
        for upstream_id in self.errands(id).collect::<Vec<UpstreamId>>() {
            let Some(upstream) = self.upstreams.get_mut(upstream_id) else { continue };
            while let Some(run) = upstream.inflight.abandon() {
                if let Owner::Part { merge, part } = run.owner {
                    // A merge ends with its last part, wanted or not.
                    self.part_replies(Time::default(), merge, part, run.count, &[]);
                    break;
                }
            }
            self.remove_upstream(upstream_id);
        }
    }

    /// Whether a part of this client's command is under way.
    pub(crate) fn is_on_errands(&self, id: ClientId) -> bool {
        let busy =
            |up: UpstreamId| self.upstreams.get(up).is_some_and(|up| up.no_reply_before.is_some());
        self.errands(id).any(busy)
    }
}
