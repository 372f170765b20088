//! How many requests of one client may wait for replies, by how fast servers answer.
//!
//! A server takes some kilobytes of each of its clients in turn, so a long pipeline of slow commands holds up its own client and hardly anybody else. Over a
//! connection that clients share such a pipeline stands in front of everybody. So what one client may have under way follows the time that a request waits
//! there:
//!
//! ```text
//!   every 10 ms, of each connection on which requests wait:
//!     the oldest has waited for SLOW_US more than its way takes, on one ─▶ the window is halved, down to WINDOW_START
//!     on all, as many were answered since the last look as wait now    ─▶ it is doubled, up to WINDOW_MOST
//!   none waits ────────────────────────────────────────────────────────▶ WINDOW_UNTRIED
//! ```
//! The time that a connect took is the time of the way: the kernel of the server answers it, however busy the server is.
//!
//! Requests of many bytes take as many units of the window as they have times [`UNIT_BYTES`], so that a window of [`WINDOW_START`] is what a server reads of
//! one client before it turns to the next. One request may go in any case. Where all servers are distant the window in bytes is larger, as long as they are fast.
//!
//! Not here: the window by the size of replies (`Client::window`), which holds as well; plain requests that are not long (`resp::Form`), which are cheap.
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

/// Bytes of a request that count for one of the window.
const UNIT_BYTES: u64 = 256;

/// The way to a server is taken to be no longer than this, in microseconds: a connect can take long for other reasons.
const WAY_US_MAX: u64 = 500_000;

/// The window in bytes is larger by itself for so many microseconds of the way.
const WAY_UNIT_US: u64 = 1_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Speed {
    /// Requests of one client that may be under way.
    pub(crate) window: u32,
    /// How many times that, for requests of many bytes.
    times: u64,
    look_at: Time,
}

impl Speed {
    /// Whether a request of so many bytes must wait until those that its client sent before are answered, of which so many are not.
    #[inline]
    pub(crate) fn holds(&self, open: u32, bytes: u64) -> bool {
        u64::from(open) * (bytes / UNIT_BYTES) >= u64::from(self.window) * self.times
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self { window: WINDOW_UNTRIED, times: 1, look_at: Time::default() }
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
        let way_us = self.way_us.min(WAY_US_MAX);
        // On a long way replies come in bursts, and the second one can come late without anybody's fault.
        Some(if now.since(front.sent_at) >= SLOW_US + 2 * way_us {
            Waits::TooLong
        } else if answered * (1 + way_us / (LOOK_EVERY_MS * 1_000)) >= waiting {
            Waits::Briefly
        } else {
            Waits::Longer
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
        // The nearest server counts: who asks it must not have what a distant one needs.
        let mut way_us = WAY_US_MAX;
        let waits = shared.filter_map(|(_, up)| {
            way_us = up.way_us.min(way_us);
            up.waits(now)
        });
        let longest = waits.max();
        let (before, most) = (self.grants.speed.window, self.settings.limits.client_inflight_max);
        let window = match longest {
            None => WINDOW_UNTRIED,
            Some(Waits::TooLong) => (before / 2).max(WINDOW_START),
            Some(Waits::Longer) => before,
            Some(Waits::Briefly) => before.saturating_mul(2).min(WINDOW_MOST),
        };
        self.grants.speed.window = window.min(most).max(1);
        let times = match longest {
            None | Some(Waits::TooLong) => 1,
            Some(Waits::Longer) => self.grants.speed.times,
            Some(Waits::Briefly) => 1 + way_us / WAY_UNIT_US,
        };
        self.grants.speed.times = times;
    }
}
