//! How much of what servers tell many clients goes out in one turn of a worker: messages of subscriptions, and invalidations.
//!
//! One message of a server is one of each client that listens, and a read brings thousands of messages. So their copies have a budget:
//!
//! ```text
//!   message ─▶ its clients ─▶ … ─▶ message ─▶ budget is spent: the rest of the read waits, and the connection is not read
//!                                                 │
//!   next turn, behind what came for others ◀──────┘
//! ```
//! A reply to EXEC in which respool changes values waits in the same way while other such replies have taken the turn (`policy::change`). Connections
//! that wait have turns by the users and addresses of their clients.
//!
//! A connection that its server ends is heard to its end first: its messages were published.
//!
//! Not here: who gets which frame (`pubsub::fanout`, `tracking`), and the bound on what waits for one client (`push`).
//!
//! Invariant: while nobody's connection ends, copies of a turn cost at most [`FAN_TURN_COST`] and one frame more, or all pushes before one delimiter.

use crate::Action;
use crate::engine::Engine;
use crate::ids::UpstreamId;
use crate::limits::{FAN_COPY_COST, FAN_SEND_COST, FAN_TURN_COST};
use crate::shares::Group;
use crate::time::Time;
use crate::upstream::Upstream;
use crate::waiting::Waiting;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FanTurn {
    /// Cost of the copies of this turn.
    cost: usize,
    /// Connections whose rest waits for the next turn.
    late: Waiting<UpstreamId>,
}

impl FanTurn {
    /// A copy of so many bytes was made for a client, which may have nothing else to send in this turn.
    #[inline]
    pub(crate) fn pay(&mut self, bytes: usize, is_sent_alone: bool) {
        self.cost += bytes + FAN_COPY_COST + if is_sent_alone { FAN_SEND_COST } else { 0 };
    }

    /// Whether the next frame waits for the next turn.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.cost >= FAN_TURN_COST
    }

    /// Whether this connection is not read until its rest went out.
    pub(crate) fn has(&self, id: UpstreamId) -> bool {
        self.late.iter().any(|late| late == id)
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, id: UpstreamId) {
        self.late.remove(id);
    }

    /// Whether frames wait for the next turn.
    pub(crate) fn is_late(&self) -> bool {
        !self.late.is_empty()
    }
}

impl Engine {
    /// The rest of this connection's input waits for the next turn.
    #[cold]
    pub(crate) fn fan_out_later(&mut self, id: UpstreamId) {
        if !self.grants.fan.has(id) {
            let group = self.group_in_front(id);
            self.grants.fan.late.push(group, id);
            self.actions.push_back(Action::ReadUpstream(id, false));
        }
    }

    /// The group of the client that is owed the next reply of this connection. Connections that tell many clients are a group of their own.
    fn group_in_front(&self, id: UpstreamId) -> Group {
        let front = self.upstreams.get(id).and_then(|upstream| upstream.inflight.front());
        let client = front.and_then(|run| self.client_of(run.owner));
        self.group_of(client)
    }

    /// Whether a reply to EXEC of this connection waits for the next turn, since respool changed enough values in this one.
    #[cold]
    pub(crate) fn exec_waits_for_turn(&mut self, id: UpstreamId) -> bool {
        let waits = self.has_changed_enough();
        if waits {
            self.fan_out_later(id);
        }
        waits
    }

    /// A turn begins: first those that wait go on.
    pub(crate) fn run_late_fans(&mut self, now: Time) {
        self.grants.fan.cost = 0;
        for id in self.grants.fan.late.iter() {
            if let Some(upstream) = self.upstreams.get_mut(id) {
                // Answers to respool may wait unread: the server is not late.
                upstream.progress_at = now;
            }
        }
        for _ in 0..self.grants.fan.late.len() {
            if self.grants.fan.is_spent() {
                return;
            }
            let Some(id) = self.grants.fan.late.pop() else { return };
            self.input_again(now, id);
            let is_late = self.grants.fan.has(id);
            if !is_late && self.upstreams.get(id).is_some_and(|up| up.stall.is_none()) {
                self.actions.push_back(Action::ReadUpstream(id, true));
            }
        }
    }

    /// The server closed this connection: what it told before goes out.
    pub(crate) fn lose_heard(&mut self, now: Time, id: UpstreamId, cause: &str) {
        while self.grants.fan.has(id) {
            self.grants.fan.forget(id);
            self.grants.fan.cost = 0;
            self.begin_changing();
            self.input_again(now, id);
            if !self.upstreams.get(id).is_some_and(Upstream::is_ready) {
                // Its last words ended it.
                return;
            }
        }
        self.lose_upstream(now, id, cause, false);
    }
}
