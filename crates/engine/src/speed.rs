//! How many requests of one client may wait for replies, by how fast servers answer.
//!
//! A server takes some kilobytes of each of its clients in turn, so a long pipeline of slow commands holds up its own client and hardly anybody else. Over a
//! connection that clients share such a pipeline stands in front of everybody. So what one client may have under way follows the time that a request waits
//! there:
//!
//! ```text
//!   every 10 ms, of each connection on which many wait: for how long has the oldest request waited?
//!     above SLOW_US on one of them ─▶ the window is halved, down to WINDOW_START, and does not grow beyond WINDOW_UNTRIED for WARY_MS
//!     below FAST_US on all         ─▶ it is doubled
//!   nobody waits                   ─▶ WINDOW_UNTRIED
//! ```
//! Not here: the window by the size of replies (`Client::window`), which holds as well.
//!
//! Invariant: the window is never above `Limits::client_inflight_max`, nor 0.

use crate::engine::Engine;
use crate::limits::{WINDOW_START, WINDOW_UNTRIED};
use crate::settings::Limits;
use crate::time::Time;
use crate::upstream::{Role, Upstream};

/// How often it is looked, in milliseconds.
const LOOK_EVERY_MS: u64 = 10;

/// Requests should not wait longer than this for those in front of them, in microseconds.
const SLOW_US: u64 = 100_000;

/// Where they wait no longer than this, in microseconds, more may be under way.
const FAST_US: u64 = 5_000;

/// So many requests that wait are few: that they wait for long is the way to the server, and nobody's pipeline.
const FEW: u64 = 256;

/// For so long after that no window grows beyond what is let untried, in milliseconds.
const WARY_MS: u64 = 10_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Speed {
    /// Requests of one client that may be under way.
    pub(crate) window: u32,
    look_at: Time,
    wary_until: Time,
}

impl Speed {
    pub(crate) fn new(limits: &Limits) -> Self {
        let window = WINDOW_UNTRIED.min(limits.client_inflight_max).max(1);
        Self { window, look_at: Time::default(), wary_until: Time::default() }
    }
}

impl Upstream {
    /// For how long the oldest request waits here, in microseconds, if many do; `None`: none waits.
    fn waits_us(&self, now: Time) -> Option<u64> {
        let front = self.inflight.front()?;
        let many = self.inflight.len() as u64 > FEW;
        Some(if many { now.since(front.sent_at) } else { 0 })
    }
}

impl Engine {
    /// Looks at the servers, once in a while.
    #[inline]
    pub(crate) fn look_at_speed(&mut self, now: Time) {
        if now >= self.speed.look_at {
            self.measure_speed(now);
        }
    }

    fn measure_speed(&mut self, now: Time) {
        self.speed.look_at = now.plus_ms(LOOK_EVERY_MS);
        let is_shared = |up: &Upstream| {
            let carries = up.key.lane.carries_requests() && up.key.owner.is_none();
            up.role == Role::Shared && up.is_ready() && up.stall.is_none() && carries
        };
        let shared = self.upstreams.iter().filter(|(_, up)| is_shared(up));
        let longest = shared.filter_map(|(_, up)| up.waits_us(now)).max();
        let (before, most) = (self.speed.window, self.settings.limits.client_inflight_max);
        let is_wary = now < self.speed.wary_until;
        let window = match longest {
            None => WINDOW_UNTRIED,
            Some(SLOW_US..) => {
                self.speed.wary_until = now.plus_ms(WARY_MS);
                (before / 2).max(WINDOW_START)
            }
            Some(FAST_US..) => before,
            Some(_) if is_wary => before.saturating_mul(2).min(WINDOW_UNTRIED),
            Some(_) => before.saturating_mul(2),
        };
        self.speed.window = window.min(most).max(1);
    }
}
