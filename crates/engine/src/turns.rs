//! Turns at a server with little room: clients that wait for room send in turn by user and address (`waiting`), and no other client sends before them.
//!
//! ```text
//!   no room ─▶ [waiters] ─ room ─▶ the first has its turn, some KiB ─▶ the next …      a client with more goes behind the others of its group
//!                  ▲
//!   somebody new ──┘ also if there is room just now
//! ```
//! Not here: when there is room (`upstream`), turns of requests that respool answers itself (`request`).
//!
//! Invariant: while somebody waits at an upstream, a request that goes to it alone is written there only by the client whose turn it is.

use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::time::Time;
use crate::upstream::{Upstream, UpstreamKey};

/// The turn of a client at an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) upstream: UpstreamId,
    pub(crate) client: ClientId,
    /// Requests that it may still write.
    left: u64,
}

impl Turn {
    /// Whether one more request may be written.
    pub(crate) fn take(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        true
    }
}

impl Engine {
    /// The upstream for a request that goes to one node ([`Engine::upstream_for`]): behind those that wait for room there. Who always came with something new when there was some
    /// would else keep them waiting for ever. (A request of several parts that had to wait in several queues might never find itself first in all.)
    pub(crate) fn upstream_in_turn(
        &mut self,
        now: Time,
        key: UpstreamKey,
        client: ClientId,
    ) -> Availability {
        match self.upstream_for(now, key, client) {
            Availability::Ready(id)
                if self.upstreams.get(id).is_some_and(|up| !up.waiters.is_empty())
                    && !self.grants.takes_turn(id, client) =>
            {
                self.note_room(id);
                Availability::Wait(id)
            }
            availability => availability,
        }
    }

    /// If this upstream has room, those that wait for it have their turns. What is parked for it goes before them.
    pub(crate) fn note_room(&mut self, id: UpstreamId) {
        let high = self.settings.limits.upstream_out_high_bytes;
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if !upstream.waiters.is_empty() {
            upstream.note_pace();
        }
        if !upstream.has_room(high) {
            return;
        }
        if !upstream.waiters.is_empty() && !self.grants.roomy.contains(&id) {
            self.grants.roomy.push(id);
        }
        self.wake_parked(id);
    }

    /// Clients that wait for room at an upstream go on in their order until there is none; whoever has more to send goes behind the others. When their
    /// requests have cost as much as those of one turn may, the others keep their places until the next.
    pub(crate) fn run_turns(&mut self, now: Time) {
        let roomy = core::mem::take(&mut self.grants.roomy);
        if roomy.is_empty() {
            return;
        }
        self.grants.slow.begin();
        let mut stopped = None;
        for id in roomy {
            match self.grants.slow.is_spent_for_large() {
                true => self.note_room(id),
                false if self.run_turns_at(now, id) => {}
                false => stopped = Some(id),
            }
        }
        // Clients of another upstream are the first then.
        stopped.into_iter().for_each(|id| self.note_room(id));
        self.grants.slow.begin();
    }

    /// Those at one upstream; whether all of them had their turn, or have no room.
    fn run_turns_at(&mut self, now: Time, id: UpstreamId) -> bool {
        let high = self.settings.limits.upstream_out_high_bytes;
        let waiting = self.upstreams.get(id).map_or(0, |up| up.waiters.len());
        for _ in 0..waiting {
            if self.grants.slow.is_spent_for_large() {
                return false;
            }
            let upstream = self.upstreams.get_mut(id).filter(|up| up.has_room(high));
            let Some(next) = upstream.and_then(|up| up.waiters.pop()) else { break };
            let left = self.upstreams.get(id).map_or(0, Upstream::turn_requests);
            self.grants.turn = Some(Turn { upstream: id, client: next, left });
            self.resume_client(now, next);
            self.grants.turn = None;
        }
        true
    }
}
