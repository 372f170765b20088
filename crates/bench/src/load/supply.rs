//! What a connection is to send next: requests rendered into bytes, as the load's shape lets them go.
//!
//! Closed: the next `pipeline` requests when all replies to the last ones are there. Open: what is due, while the
//! connection has less than `pipeline` in flight. It renders and books requests as in flight; it owns no socket.
//!
//! Invariant: each call renders at most about [`RENDER_BYTES`], so a pipeline of large values needs no large memory,
//! and every request rendered stands in `sent` with the time from which its latency counts.

use std::collections::VecDeque;

use super::conn::Sent;
use super::control::Control;
use super::keys::Chooser;
use super::requests::Requests;
use super::schedule::{Lane, Schedule};

/// Requests are rendered in pieces of about so many bytes.
const RENDER_BYTES: usize = 256 * 1024;

/// What one connection has still to send.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Closed loop: requests of the present batch that are not rendered yet.
    pub(super) batch_left: u32,
    /// Open loop: what is due.
    pub(super) lane: Lane,
}

/// Renders the requests of one thread.
#[derive(Debug)]
pub(super) struct Supply<'a> {
    pub(super) requests: Requests,
    pub(super) chooser: Chooser,
    pub(super) control: &'a Control<'a>,
    /// Most requests in flight on a connection.
    pub(super) pipeline: u32,
    /// Of an open loop, once it is known, and how many connections share it.
    pub(super) schedule: Option<(Schedule, u64)>,
    /// What the last `render` rendered.
    pub(super) bytes: Vec<u8>,
}

impl Supply<'_> {
    /// Renders what connection number `lane` may send now; false: nothing.
    #[inline]
    pub(super) fn render(
        &mut self,
        order: &mut Order,
        sent: &mut VecDeque<Sent>,
        lane: usize,
    ) -> bool {
        self.bytes.clear();
        match self.schedule {
            Some((schedule, lanes)) => self.render_due(order, sent, (schedule, lane as u64, lanes)),
            None => self.render_batch(order, sent),
        }
        !self.bytes.is_empty()
    }

    #[inline]
    fn render_batch(&mut self, order: &mut Order, sent: &mut VecDeque<Sent>) {
        if order.batch_left == 0 && sent.is_empty() {
            order.batch_left = self.control.take(self.pipeline);
        }
        if order.batch_left == 0 {
            return;
        }
        let since_ns = self.control.now_ns();
        while order.batch_left > 0 && self.bytes.len() < RENDER_BYTES {
            order.batch_left -= 1;
            let request = self.requests.write(&mut self.chooser, &mut self.bytes);
            sent.push_back(Sent { since_ns, request });
        }
    }

    fn render_due(
        &mut self,
        order: &mut Order,
        sent: &mut VecDeque<Sent>,
        (schedule, lane, lanes): (Schedule, u64, u64),
    ) {
        while sent.len() < self.pipeline as usize
            && self.bytes.len() < RENDER_BYTES
            && let Some(since_ns) = order.lane.take(&schedule, lane, lanes)
        {
            let request = self.requests.write(&mut self.chooser, &mut self.bytes);
            sent.push_back(Sent { since_ns, request });
        }
    }
}
