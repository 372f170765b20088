//! One blocking command on every primary at once: WAIT and WAITAOF where there are several servers.
//!
//! A client that wrote to several asks for the copies of all it wrote, so each primary is asked, over a connection that serves nothing else
//! meanwhile, and the least number is the answer. As with one server a PING in front makes the question cover what was written before
//! (`blocking`).
//!
//! Not here: connections that a client keeps for more than one command (`lease`).
//!
//! Invariant: an upstream with [`Role::Errand`] has nothing in flight but its greeting and one part for its client.

use crate::client::Hold;
use crate::command::spread::{self, Gather};
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::lease::Way;
use crate::merge::How;
use crate::request::Step;
use crate::scatter::Wish;
use crate::time::Time;
use crate::upstream::inflight::{OwnCommand, Owner};
use crate::upstream::{Lane, Role, UpstreamKey};
use alloc::vec::Vec;
use resp::Protocol;

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
        self.forget_lease_waiter(wish.id);
        for upstream in ways.iter().flatten() {
            self.say_own(now, *upstream, OwnCommand::Ping, &[b"PING"]);
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
        let resp3 = client.protocol == Protocol::Resp3;
        let key = UpstreamKey { node, resp3, db: client.db, lane: Lane::Shared, conn: 0 };
        let find = |wanted: &dyn Fn(Role) -> bool| {
            let mut all = self.upstreams.iter();
            all.find(|(_, up)| up.key == key && wanted(up.role)).map(|(id, _)| id)
        };
        let own = find(&|role| role == Role::Errand(id));
        let upstream_id = match own.or_else(|| self.spare(&key)) {
            Some(upstream) => upstream,
            None if self.leases >= self.settings.limits.leases_max => {
                return self.wait_for_lease(now, id);
            }
            None => match self.new_private(key, Role::Errand(id)) {
                Ok(upstream) => upstream,
                Err(error) => return Way::Down(error),
            },
        };
        self.take_spare(upstream_id, Role::Errand(id));
        self.way_of(now, upstream_id)
    }

    /// The client is gone: nobody waits for its parts, and its connections go, so that the servers do not wait either.
    pub(crate) fn drop_errands(&mut self, id: ClientId) {
        if self.leases == 0 {
            return;
        }
        let errands = self.upstreams.iter().filter(|(_, up)| up.role == Role::Errand(id));
        for upstream_id in errands.map(|(id, _)| id).collect::<Vec<UpstreamId>>() {
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
        let busy = |up: &crate::upstream::Upstream| {
            up.role == Role::Errand(id) && up.no_reply_before.is_some()
        };
        self.leases > 0 && self.upstreams.iter().any(|(_, up)| busy(up))
    }
}
