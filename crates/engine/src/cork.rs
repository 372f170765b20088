//! Early replies of a pipeline wait a little for those behind them.
//!
//! The requests of one pipeline go to several servers, which answer at different moments. Written as they come, the replies of thirty `GET`s
//! are several small writes, and a write costs more than all else that is done for them. While many clients are active (the worker says
//! so) a client whose other replies are still owed gets the first of them with the rest, or after a fixed time, which is the longer the more
//! servers there are: the last of many answers comes later than the last of few.
//!
//! ```text
//!   deliver ─▶ dirty ─ at the end of the turn: replies owed? ─ no ─▶ sent
//!                ▲                               └ yes, small, nothing held ─▶ corked ─ next reply, or the time is over ─┐
//!                └───────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Not here: when many clients are active (`gather` of the worker). In front of one server nothing waits: it answers in one go.
//!
//! Invariant: what is corked leaves not later than `us` after the end of the turn in which its first byte came.

use crate::client::{Client, Hold};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::limits::CORKED_BYTES_MAX;
use crate::time::Time;
use alloc::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Cork {
    /// How long, in microseconds; 0: not at all.
    us: u64,
    /// How many times as long as the worker said, and the owners of slots that this is for.
    times: u64,
    route_epoch: Option<u32>,
    /// Until when whose replies wait, earliest first. Who was served meanwhile may still stand here.
    waiting: VecDeque<(Time, ClientId)>,
}

impl Engine {
    /// From now on the first replies of a pipeline wait at most so many microseconds for those behind them, if they come from several
    /// servers: from `n` primaries 1 + log₂ `n` times as many, rounded down. 0, as at the begin: they do not wait.
    pub fn cork_replies_us(&mut self, us: u64) {
        if us > 0 && self.cork.route_epoch != Some(self.route_epoch) {
            self.cork.route_epoch = Some(self.route_epoch);
            self.cork.times = u64::from(self.router.primaries().len().max(1).ilog2()) + 1;
        }
        self.cork.us = us * self.cork.times;
    }

    /// When the first of those that wait is to be served; after [`Self::cork`], so that it is no one who was served.
    pub(crate) fn uncork_at(&self) -> Option<Time> {
        self.cork.waiting.front().map(|(until, _)| *until)
    }

    /// Decides which clients' output leaves at the end of this turn.
    #[inline]
    pub(crate) fn cork(&mut self, now: Time) {
        if self.cork.us > 0 && !self.is_one() {
            self.cork_dirty(now);
        }
        if !self.cork.waiting.is_empty() {
            self.uncork(now);
        }
    }

    fn cork_dirty(&mut self, now: Time) {
        let Self { dirty_clients, clients, cork, .. } = self;
        dirty_clients.retain(|id| {
            let Some(client) = clients.get_mut(*id) else { return true };
            let until = client.corked_until;
            if !may_wait(client) || until.is_some_and(|until| until <= now) {
                client.corked_until = None;
                return true;
            }
            if until.is_none() {
                let until = now + cork.us;
                client.corked_until = Some(until);
                cork.waiting.push_back((until, *id));
            }
            client.out.dirty = false;
            false
        });
    }

    fn uncork(&mut self, now: Time) {
        while let Some((until, id)) = self.cork.waiting.front().copied() {
            let corked =
                self.clients.get_mut(id).filter(|client| client.corked_until == Some(until));
            if corked.is_some() && until > now {
                break;
            }
            self.cork.waiting.pop_front();
            if let Some(client) = corked {
                client.corked_until = None;
                self.mark_client_dirty(id);
            }
        }
    }
}

/// Whether more of what it asked for is to come, and it does not matter to anybody whether this part leaves first.
#[inline]
fn may_wait(client: &Client) -> bool {
    client.places.open() > 0
        && client.hold == Hold::No
        && !client.closing
        && client.mid_reply.is_none()
        && client.stalls.is_empty()
        && client.out.pending() < CORKED_BYTES_MAX
}
