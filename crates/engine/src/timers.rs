//! What happens because time passes.
//!
//! There are few things to time (upstreams are few, clients are swept once in a while), so the next deadline is found by looking at
//! all of them; a timer wheel would cost more than it saves.
//!
//! Invariant: after `handle_timeout(now)` nothing is due at `now`.

use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::SWEEP_MS;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Role, State};
use alloc::format;

impl Engine {
    /// When [`Self::handle_timeout`] must be called at the latest; `None`: not before something else happens.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if !self.resume.is_empty() || self.transfer_place_is_free() || self.lease_is_free() {
            return Some(now);
        }
        let topology = [
            self.refresh_at(),
            self.topology_wait_ends(),
            self.parked_at(),
            self.health_at(),
            self.probe_at(),
            self.peers_at(),
            self.subscriptions_at(),
        ];
        let upstreams =
            self.upstreams.iter().filter_map(|(_, up)| up.deadline(&self.settings.timeouts));
        let pause = self.pause.map(|pause| pause.until).into_iter().chain(self.lease_wait_ends());
        upstreams.chain(pause).chain(self.sweep_at()).chain(topology.into_iter().flatten()).min()
    }

    fn sweep_at(&self) -> Option<Time> {
        let idle = self.settings.timeouts.client_idle_ms > 0 && !self.clients.is_empty();
        (idle || self.draining)
            .then(|| self.swept_at.plus_ms(if self.draining { 5 } else { SWEEP_MS }))
    }

    /// Does all that is due. Called once a turn, after the events and before the sends.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.pause.is_some_and(|pause| now >= pause.until) {
            self.end_pause();
        }
        let mut due: Option<alloc::vec::Vec<UpstreamId>> = None;
        for (id, upstream) in self.upstreams.iter() {
            if upstream.deadline(&self.settings.timeouts).is_some_and(|at| at <= now) {
                due.get_or_insert_default().push(id);
            }
        }
        for id in due.unwrap_or_default() {
            self.upstream_due(now, id);
        }
        if !self.is_one() {
            self.topology_due(now);
        }
        self.ask_peers(now);
        self.run_subscriptions(now);
        if self.lease_is_free() || self.lease_wait_ends().is_some_and(|at| at <= now) {
            self.wake_lease_waiters(now);
        }
        self.run_resumes(now);
        if self.sweep_at().is_some_and(|at| at <= now) {
            self.swept_at = now;
            self.sweep(now);
        }
    }

    fn topology_due(&mut self, now: Time) {
        self.refresh_topologies(now);
        self.ask_health(now);
        self.probe_shards(now);
        if self.topology_wait_ends().is_some_and(|at| at <= now) {
            self.end_topology_wait(now);
        }
        // Before the clients that are held: what they sent before must go first.
        self.run_parked(now);
    }

    fn upstream_due(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        match upstream.state {
            State::Idle => {}
            State::Down(_) => self.connect(now, id),
            State::Connecting(_) => self.fail_upstream(now, id, "connect: timed out", None),
            State::Greeting(_) => self.fail_upstream(now, id, "the greeting timed out", None),
            State::Ready => match (upstream.stall, upstream.role) {
                (Some(stall), _) => self.stall_due(now, id, stall.client),
                (None, Role::Spare(_)) => self.remove_upstream(id),
                (None, _) if upstream.key.lane == crate::upstream::Lane::Peer => {
                    self.lose_upstream(now, id, "gave no answer", true);
                }
                (None, _) if upstream.inflight.is_empty() => match upstream.key.lane {
                    crate::upstream::Lane::Messages if !self.is_listened_to(id) => {
                        self.remove_upstream(id);
                    }
                    _ => self.ask_whether_alive(now, id),
                },
                (None, _) => {
                    self.stats.upstream_timeouts += 1;
                    let cause = format!(
                        "gave no reply for {} ms, its connection was closed",
                        self.settings.timeouts.request_ms
                    );
                    self.lose_upstream(now, id, &cause, true);
                }
            },
        }
    }

    /// A quiet connection is asked whether it still is one: a peer that lost its power or its route says nothing, and the first request
    /// after hours should not be the one to find that out. The answer is awaited as any other is.
    pub(crate) fn ask_whether_alive(&mut self, now: Time, id: UpstreamId) {
        self.say_own(now, id, OwnCommand::Ping, &[b"PING"]);
    }

    /// A client has taken nothing for the stall timeout, or others have waited behind it for the request timeout: it goes. Alone
    /// it harms nobody and may take its time.
    fn stall_due(&mut self, now: Time, id: UpstreamId, client: ClientId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let Some(stall) = &mut upstream.stall else { return };
        if upstream.inflight.others_since(client).is_none() {
            stall.progress_at = now;
            stall.others_since = None;
            return;
        }
        upstream.stalled_us += now.since(stall.since);
        self.evict(client, "it took its replies too slowly while others waited behind it");
    }

    fn sweep(&mut self, now: Time) {
        if self.draining {
            self.close_idle(now);
        }
        let idle_ms = self.settings.timeouts.client_idle_ms;
        if idle_ms == 0 {
            return;
        }
        for id in self.clients.ids() {
            let idle = self.clients.get(id).is_some_and(|client| {
                // Whoever listens says nothing for hours, and a server does not mind either.
                client.places.open() == 0
                    && client.listening.is_none()
                    && client.input_at.plus_ms(idle_ms) <= now
            });
            if idle {
                self.close_client(id, None);
            }
        }
    }

    pub(crate) fn end_pause(&mut self) {
        self.pause = None;
        self.resume.extend(self.paused_clients.drain(..));
    }
}
