//! How many requests of one client may wait for replies, by how fast servers answer.
//!
//! A server takes some kilobytes of each of its clients in turn, so a long pipeline of slow commands holds up its own client and hardly anybody else. Over a
//! connection that clients share such a pipeline stands in front of everybody. So what one client may have under way follows the time that a request waits
//! there:
//!
//! ```text
//!   every 10 ms, of each connection on which requests wait:
//!     the oldest has waited for SLOW_US more than its way takes, on one  ─▶ the window is halved, down to WINDOW_START
//!     on all, those that wait now will be answered 10 ms after their way ─▶ it is doubled, up to WINDOW_MOST
//!   none waits ──────────────────────────────────────────────────────────▶ WINDOW_UNTRIED
//! ```
//! The time that a connect took is the time of the way: the kernel of the server answers it, however busy the server is. It can take long for other reasons, and then
//! the greeting, or a later reply, tells that the way is shorter.
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
use crate::upstream::{Role, State, Upstream};

/// How often it is looked, in milliseconds.
const LOOK_EVERY_MS: u64 = 10;

/// Requests should not wait longer than this for those in front of them, in microseconds.
const SLOW_US: u64 = 100_000;

/// Bytes of a request that count for one of the window.
const UNIT_BYTES: u64 = 256;

/// The way to a server is taken to be no longer than this, in microseconds.
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
    looked_at: Time,
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
        Self { window: WINDOW_UNTRIED, times: 1, looked_at: Time::default() }
    }
}

/// How those wait that wait on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    /// At the pace of the last replies they will be answered as soon as their way allows, or before the next look.
    Briefly,
    /// Neither.
    Longer,
    /// Too long.
    TooLong,
}

impl Upstream {
    /// A reply to a command of the proxy's own came: if that belongs to the greeting, the way is no longer than it took.
    pub(crate) fn note_greeted(&mut self, took_us: u64) {
        if matches!(self.state, State::Greeting(_)) {
            self.way_us = self.way_us.min(took_us);
        }
    }

    /// How requests wait here; `None`: none does.
    fn waits(&mut self, now: Time, since_look_us: u64) -> Option<Waits> {
        let (replies, waiting) = (self.inflight.place(), self.inflight.len() as u64);
        let (before, waited) = core::mem::replace(&mut self.at_look, (replies, waiting));
        let answered = replies - before;
        if answered > waited {
            // One of these was asked since.
            self.way_us = self.way_us.min(since_look_us);
        }
        let front = self.inflight.front()?;
        let way_us = self.way_us.min(WAY_US_MAX);
        let (waits_us, look_us) = (now.since(front.sent_at), LOOK_EVERY_MS * 1_000);
        // On a long way replies come in bursts, and the second one can come late without anybody's fault.
        Some(if waits_us >= SLOW_US + 2 * way_us {
            Waits::TooLong
        } else if waits_us <= way_us + look_us
            && answered * (look_us + way_us) >= waiting * since_look_us
        {
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
        if now.since(self.grants.speed.looked_at) >= LOOK_EVERY_MS * 1_000 {
            self.measure_speed(now);
        }
    }

    fn measure_speed(&mut self, now: Time) {
        let since_look_us = now.since(core::mem::replace(&mut self.grants.speed.looked_at, now));
        self.grants.large_replies.forget_old(now);
        let is_shared = |up: &Upstream| {
            let carries = up.key.lane.carries_requests() && up.key.owner.is_none();
            up.role == Role::Shared && up.is_ready() && up.stall.is_none() && carries
        };
        // The nearest server counts: who asks it must not have what a distant one needs.
        let mut way_us = WAY_US_MAX;
        let waits = self.upstreams.iter_mut().filter_map(|(_, up)| {
            // All are looked at, so that none of them has an older look than it seems.
            let (is_shared, waits) = (is_shared(up), up.waits(now, since_look_us));
            way_us = if is_shared { up.way_us.min(way_us) } else { way_us };
            waits.filter(|_| is_shared)
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
