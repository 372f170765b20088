//! An upstream that is not read for a while, as a client takes its replies more slowly than they come.
//!
//! Not here: how a stall ends (`lifecycle::end_stalls`), and what becomes of one that lasts (`timers`).
//!
//! Invariant: an upstream is stopped for one client at a time, which knows of it.

use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::CLIENT_STREAM_BYTES;
use crate::time::Time;
use crate::upstream::Stall;

impl Engine {
    /// Stops reading the upstream if this client has too much waiting.
    #[inline(always)]
    pub(crate) fn check_stall(&mut self, now: Time, upstream_id: UpstreamId, id: ClientId) {
        if self.clients.get(id).is_some_and(|client| client.out.pending() > CLIENT_STREAM_BYTES) {
            self.stall_for(now, upstream_id, id);
        }
    }

    /// The client takes its replies more slowly than they come. While nobody waits behind it the upstream is just not read;
    /// if others do, it gets a larger share of memory first, so that they are served, and from one that takes nothing at all the upstream is not
    /// stopped. Whoever wants a stopped upstream gets a fresh one (`connect`), and that one is retired.
    #[cold]
    fn stall_for(&mut self, now: Time, upstream_id: UpstreamId, id: ClientId) {
        let (Some(client), Some(upstream)) =
            (self.clients.get_mut(id), self.upstreams.get_mut(upstream_id))
        else {
            return;
        };
        let (pending, since) = (client.out.pending(), client.untaken_since());
        if upstream.stall.is_some() || pending <= CLIENT_STREAM_BYTES + client.granted {
            return;
        }
        let others_since = upstream.inflight.others_since(id);
        let (limits, timeouts) = (&self.settings.limits, &self.settings.timeouts);
        let takes = now.since(since) < upstream.patience_us(timeouts);
        if others_since.is_some() && (pending < limits.client_out_max_bytes || !takes) {
            return;
        }
        upstream.stall = Some(Stall { client: id, since: now, progress_at: since, others_since });
        if !client.stalls.contains(&upstream_id) {
            client.stalls.push(upstream_id);
        }
        self.actions.push_back(crate::Action::ReadUpstream(upstream_id, false));
        // Whoever waits for room here has a fresh connection made.
        self.wake_waiters(upstream_id);
    }
}
