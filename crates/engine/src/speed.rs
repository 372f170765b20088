//! How many requests of one client may wait for replies, by how fast servers answer.
//!
//! A server takes some kilobytes of each of its clients in turn, so a long pipeline of slow commands holds up its own client and hardly anybody else. Over a
//! connection that clients share such a pipeline stands in front of everybody. So what one client may have under way follows the time that a request waits
//! there:
//!
//! ```text
//!   every 10 ms, of each connection on which requests wait:
//!     many do, and the oldest has waited for SLOW_US on one of them ─▶ the window is halved, down to WINDOW_START
//!     on all, as many were answered since the last look as wait now ─▶ it is doubled, up to WINDOW_MOST
//!   none waits ─────────────────────────────────────────────────────▶ WINDOW_UNTRIED
//! ```
//! Not here: the window by the size of replies (`Client::window`), which holds as well.
//!
//! Invariant: the window is not 0, and not larger than [`WINDOW_MOST`] and `Limits::client_inflight_max`.

use crate::engine::Engine;
use crate::limits::{WINDOW_MOST, WINDOW_START, WINDOW_UNTRIED};
use crate::time::Time;
use crate::upstream::{Role, Upstream};

/// How often it is looked, in milliseconds.
const LOOK_EVERY_MS: u64 = 10;

/// Requests should not wait longer than this for those in front of them, in microseconds.
const SLOW_US: u64 = 100_000;

/// So many requests that wait are few: that they wait for long is the way to the server, and nobody's pipeline.
const FEW: u64 = 128;

/// See the module.
#[derive(Debug)]
pub(crate) struct Speed {
    /// Requests of one client that may be under way.
    pub(crate) window: u32,
    look_at: Time,
}

impl Default for Speed {
    fn default() -> Self {
        Self { window: WINDOW_UNTRIED, look_at: Time::default() }
    }
}

/// How those wait that wait on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    /// They will be answered before the next look.
    Briefly,
    /// Neither.
    Longer,
    /// Too long.
    TooLong,
}

impl Upstream {
    /// How requests wait here; `None`: none does.
    fn waits(&mut self, now: Time) -> Option<Waits> {
        let replies = self.inflight.place();
        let answered = replies - core::mem::replace(&mut self.replies_at_look, replies);
        let (front, waiting) = (self.inflight.front()?, self.inflight.len() as u64);
        Some(match now.since(front.sent_at) {
            SLOW_US.. if waiting > FEW => Waits::TooLong,
            _ if answered >= waiting => Waits::Briefly,
            _ => Waits::Longer,
        })
    }
}

impl Engine {
    /// Looks at the servers, once in a while.
    #[inline]
    pub(crate) fn look_at_speed(&mut self, now: Time) {
        if now >= self.grants.speed.look_at {
            self.measure_speed(now);
        }
    }

    fn measure_speed(&mut self, now: Time) {
        self.grants.speed.look_at = now.plus_ms(LOOK_EVERY_MS);
        self.grants.large_replies.forget_old(now);
        let is_shared = |up: &Upstream| {
            let carries = up.key.lane.carries_requests() && up.key.owner.is_none();
            up.role == Role::Shared && up.is_ready() && up.stall.is_none() && carries
        };
        let shared = self.upstreams.iter_mut().filter(|(_, up)| is_shared(up));
        let longest = shared.filter_map(|(_, up)| up.waits(now)).max();
        let (before, most) = (self.grants.speed.window, self.settings.limits.client_inflight_max);
        let window = match longest {
            None => WINDOW_UNTRIED,
            Some(Waits::TooLong) => (before / 2).max(WINDOW_START),
            Some(Waits::Longer) => before,
            Some(Waits::Briefly) => before.saturating_mul(2).min(WINDOW_MOST),
        };
        self.grants.speed.window = window.min(most).max(1);
    }
}
