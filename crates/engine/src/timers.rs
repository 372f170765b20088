//! What happens because time passes.
//!
//! There are few things to time, and most are found by looking. Clients are swept once in a while, not before the one that has been silent for
//! the longest can have been so for too long: ten thousand that sleep are left alone. Upstreams may be thousands (each blocked
//! client has one), so they stand in order of the time when each is to be looked at. That time may be before its deadline, which mostly
//! moves away as bytes come: it is set anew when it has come, and not with every byte.
//!
//! ```text
//!   written, read, connected… ─▶ schedule: earlier than before? ─▶ deadlines ── time has come ─▶ due? ─ yes ─▶ upstream_due
//!                                                                     ▲                            └ no ─┐
//!                                                                     └────────── its deadline now ◀─────┘
//! ```
//! Invariant: after `handle_timeout(now)` nothing is due at `now`; and what is due at some time stands in `deadlines` by then, unless it
//! still waits to be sent in this turn.

use crate::client::Hold;
use crate::engine::Engine;
use crate::functions::Readers;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{DRAIN_SWEEP_MS, SWEEP_MS, SWEEP_MS_MAX, SWEEP_PART};
use crate::mirror::is_mirrors;
use crate::near::Near;
use crate::policy::WAKE;
use crate::retire::Idle;
use crate::settings::Timeouts;
use crate::stats::Refused;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Role, State};
use alloc::format;
use alloc::vec::Vec;

/// When clients are looked at.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The last time that they were.
    last_at: Time,
    /// Before this nobody can have been idle for too long.
    pub(crate) idle_from: Time,
    /// Before this nobody can have been here for too long without a login; `None`: everybody has one, or needs none.
    unknown_from: Option<Time>,
    /// Clients that waited for replies are gone since it was looked for connections on which nobody waits.
    pub(crate) looks_at_deserted: bool,
    /// Nodes may be known that no table names any more.
    pub(crate) forgets_nodes: bool,
    /// Connections that were found idle in this turn.
    pub(crate) idle: Option<Idle>,
}

impl Sweep {
    /// Nobody was looked at yet.
    pub(crate) const fn new(now: Time) -> Self {
        Self {
            last_at: now,
            idle_from: now,
            unknown_from: None,
            looks_at_deserted: false,
            forgets_nodes: false,
            idle: None,
        }
    }

    /// Somebody has to say who it is, and may be late from then on; one who became nobody just now is given its time when it is looked at.
    pub(crate) fn look_for_unknown(&mut self, from: Time) {
        self.unknown_from = Some(self.unknown_from.map_or(from, |at| at.min(from)));
    }
}

impl Engine {
    /// When [`Self::handle_timeout`] must be called at the latest; `None`: not before something else happens.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if !self.resume.is_empty()
            || !self.grants.roomy.is_empty()
            || self.grants.lines.iter().any(|line| !line.is_empty())
            || self.transfer_place_is_free()
            || self.login_place_is_free(now)
            || self.lease_is_free()
            || self.is_due_inside()
            || self.has_late_replies()
            || self.grants.fan.is_late()
            || self.learning.lookups.is_answered()
            || self.sweep.looks_at_deserted
            || self.sweep.forgets_nodes
            || self.sweep.idle.is_some()
            || self.near.as_deref().is_some_and(Near::has_dropped)
            || self.has_dropped_keys()
            || self.looks_at_owners()
        {
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
            self.caches.look_at,
            self.caches.look_at_conns(now),
            self.learn_at(),
            self.lookups_at(),
            self.uncork_at(),
            self.busy_at(),
            self.grants.at(),
            self.grants.questions.at(),
            self.account.looks_at(),
            self.idle_transfers_at(),
            self.silent_places_at(now),
            self.words_late_at(),
        ];
        let upstreams = self.deadlines.first().map(|(at, _)| *at);
        let pause = self.pause.map(|pause| pause.until).into_iter().chain(self.lease_wait_ends());
        upstreams
            .into_iter()
            .chain(pause)
            .chain(self.sweep_at())
            .chain(topology.into_iter().flatten())
            .min()
    }

    fn sweep_at(&self) -> Option<Time> {
        if self.draining {
            return Some(self.sweep.last_at.plus_ms(DRAIN_SWEEP_MS));
        }
        let Timeouts { client_idle_ms, auth_ms, .. } = self.settings.timeouts;
        let next =
            |ms: u64| self.sweep.last_at.plus_ms((ms / SWEEP_PART).clamp(SWEEP_MS, SWEEP_MS_MAX));
        let idle = (client_idle_ms > 0).then(|| next(client_idle_ms).max(self.sweep.idle_from));
        let unknown = self.sweep.unknown_from.filter(|_| auth_ms > 0);
        let unknown = unknown.map(|from| next(auth_ms).max(from));
        idle.into_iter().chain(unknown).min().filter(|_| !self.clients.is_empty())
    }

    /// Does all that is due. Called once a turn, after the events and before the sends.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.pause.is_some_and(|pause| now >= pause.until) {
            self.end_pause();
        }
        for id in self.take_due(now) {
            self.upstream_due(now, id);
            self.schedule(id);
        }
        if !self.is_one() || !self.parked.is_empty() {
            self.topology_due(now);
        }
        self.ask_peers(now);
        self.run_subscriptions(now);
        self.follow_feed(now);
        self.learn_due(now);
        self.lookups_due(now);
        self.ask_late_words(now);
        self.look_busy(now);
        if !self.unblocks.is_empty() {
            self.run_unblocks(now);
        }
        if self.lease_is_free() || self.lease_wait_ends().is_some_and(|at| at <= now) {
            self.wake_lease_waiters(now);
        }
        if !self.transfer_waiters.is_empty() {
            self.end_idle_transfers(now);
        }
        self.run_silence(now);
        self.run_late_replies(now);
        self.run_late_fans(now);
        self.run_inside(now);
        self.run_grants(now);
        self.run_questions(now);
        self.run_resumes(now);
        self.run_turns(now);
        self.sweep.idle = None;
        self.remove_dropped_cached();
        self.remove_dropped_keys();
        self.end_deserted();
        if core::mem::take(&mut self.sweep.forgets_nodes) {
            self.forget_nodes();
        }
        if !self.watches.is_empty() {
            self.tell_lines();
        }
        if self.sweep_at().is_some_and(|at| at <= now) {
            self.sweep.last_at = now;
            self.sweep_clients(now);
        }
        self.account_due(now);
        self.look_at_speed(now);
        self.cork(now);
    }

    /// Whose deadline has come; none of them is looked at again by itself.
    fn take_due(&mut self, now: Time) -> Vec<UpstreamId> {
        let mut due = Vec::new();
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.pop_first();
            let Some(upstream) = self.upstreams.get_mut(id) else {
                due.extend((id == WAKE || is_mirrors(id)).then_some(id));
                continue;
            };
            upstream.wake_at = None;
            match upstream.deadline(&self.settings.timeouts) {
                Some(at) if at <= now => due.push(id),
                _ => self.schedule(id),
            }
        }
        due
    }

    /// Something happened to this upstream: it is looked at not after its deadline.
    #[inline]
    pub(crate) fn schedule(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let Some(at) = upstream.deadline(&self.settings.timeouts) else { return };
        if upstream.wake_at.is_some_and(|wake_at| wake_at <= at) {
            return;
        }
        let before = upstream.wake_at.replace(at);
        self.forget_deadline(id, before);
        self.deadlines.insert((at, id));
    }

    /// This upstream is not looked at at this time.
    pub(crate) fn forget_deadline(&mut self, id: UpstreamId, wake_at: Option<Time>) {
        if let Some(at) = wake_at {
            self.deadlines.remove(&(at, id));
        }
    }

    /// Checks the invariant; for debug builds.
    pub(crate) fn check_deadlines(&self) {
        for (id, upstream) in self.upstreams.iter().filter(|(_, up)| !up.out.dirty) {
            if let Some(at) = upstream.deadline(&self.settings.timeouts) {
                let wake_at = upstream.wake_at.filter(|wake_at| *wake_at <= at);
                assert!(wake_at.is_some(), "nobody looks at {:?} in time", upstream.key);
            }
            let listed = upstream.wake_at.is_none_or(|at| self.deadlines.contains(&(at, id)));
            assert!(listed, "a deadline that is not listed");
        }
        let woken = self.upstreams.iter().filter(|(_, up)| up.wake_at.is_some()).count()
            + usize::from(self.policies_sleep())
            + self.mirror_deadlines();
        assert_eq!(self.deadlines.len(), woken, "deadlines of what is gone");
    }

    fn topology_due(&mut self, now: Time) {
        self.refresh_topologies(now);
        self.ask_health(now);
        if self.router.readers_stale {
            self.renew_readers();
        }
        self.probe_shards(now);
        if self.topology_wait_ends().is_some_and(|at| at <= now) {
            self.end_topology_wait(now);
        }
        // Before the clients that are held: what they sent before must go first.
        self.run_parked(now);
    }

    fn upstream_due(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else {
            // The name that no upstream has is that of the policies' own deadline.
            return if id == WAKE { self.policies_due(now) } else { self.mirror_due(now, id) };
        };
        match upstream.state {
            State::Idle => {}
            State::Down(_) => self.connect(now, id),
            State::Connecting(_) => self.fail_upstream(now, id, "connect: timed out", None),
            State::Greeting(_) if self.is_relief(id) || self.may_greet_late(now, id) => {
                self.greets_later(now, id);
            }
            State::Greeting(_) => self.fail_upstream(now, id, "the greeting timed out", None),
            State::Ready => match (upstream.stall, upstream.role) {
                (Some(stall), _) => self.stall_due(now, id, stall.client),
                (None, Role::Spare(_)) => self.spare_due(now, id),
                (None, _) if upstream.key.lane == crate::upstream::Lane::Peer => {
                    self.lose_upstream(now, id, "gave no answer", true);
                }
                (None, _) if upstream.inflight.is_empty() => match upstream.key.lane {
                    crate::upstream::Lane::Messages if !self.is_listened_to(id) => {
                        self.remove_upstream(id);
                    }
                    // Many tried passwords at the same time.
                    crate::upstream::Lane::Login if upstream.key.conn > 0 => {
                        self.remove_upstream(id);
                    }
                    _ => self.ask_whether_alive(now, id),
                },
                (None, _) => {
                    let cause = format!(
                        "gave no reply for {} ms, its connection was closed",
                        self.settings.timeouts.request_ms
                    );
                    let sent =
                        upstream.inflight.front().map(|run| (upstream.key.node, run.sent_at));
                    let node = upstream.key.node;
                    let is_shared = upstream.role == Role::Shared;
                    self.count_timeout(node);
                    if is_shared {
                        // Reads that waited there go to another node at once.
                        self.set_unfit(node);
                    }
                    self.lose_upstream(now, id, &cause, true);
                    if let Some((node, sent_at)) = sent {
                        self.distrust(node, sent_at);
                        self.end_late_greetings(now, node);
                    }
                }
            },
        }
    }

    /// A quiet connection is asked whether it still is one: a peer that lost its power or its route says nothing, and the first request
    /// after hours should not be the one to find that out. The answer is awaited as any other is.
    pub(crate) fn ask_whether_alive(&mut self, now: Time, id: UpstreamId) {
        self.say_own(now, id, OwnCommand::Ping, &[b"PING"]);
    }

    /// A client for which this upstream is not read has taken nothing for the stall timeout while others wait behind it: what it does not take is
    /// kept, as a server keeps it, and they are served. One that takes something now and then, so that they have waited for the request timeout, goes.
    fn stall_due(&mut self, now: Time, id: UpstreamId, client: ClientId) {
        let request_ms = self.settings.timeouts.request_ms;
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let Some(mut stall) = upstream.stall else { return };
        stall.others_since = upstream.inflight.others_since(client);
        upstream.stall = Some(stall);
        let Some(others_since) = stall.others_since else { return };
        let patience_ends = stall.progress_at + upstream.patience_us(&self.settings.timeouts);
        if patience_ends <= now {
            upstream.stalled_us += now.since(stall.since);
            upstream.stall = None;
            if let Some(client) = self.clients.get_mut(client) {
                client.stalls.retain(|stalled| *stalled != id);
            }
            self.read_again(id);
        } else if request_ms > 0 && others_since.plus_ms(request_ms) <= now {
            self.evict_unread(
                client,
                "it took its replies too slowly while others waited behind it",
            );
        }
    }

    fn sweep_clients(&mut self, now: Time) {
        if self.draining {
            self.close_idle(now);
        }
        self.close_unknown(now);
        let idle_ms = self.settings.timeouts.client_idle_ms;
        if idle_ms == 0 {
            return;
        }
        // Whoever comes or says something from now on is not idle for too long before that.
        let mut idle_from = now.plus_ms(idle_ms);
        let mut idle = Vec::new();
        for (id, client) in self.clients.iter() {
            let silent_until = client.input_at.plus_ms(idle_ms);
            if silent_until > now {
                idle_from = idle_from.min(silent_until);
                continue;
            }
            // Whoever listens says nothing for hours, and a server does not mind either.
            let waits = client.places.open() > 0
                || client.listening.is_some()
                || client.identity.is_monitor;
            match waits {
                true => idle_from = now,
                false => idle.push(id),
            }
        }
        self.sweep.idle_from = idle_from;
        for id in idle {
            self.close_client(id, None);
        }
    }

    /// Closes those who have not said who they are in time. A server that is asked about a password takes the time that any request may take.
    fn close_unknown(&mut self, now: Time) {
        let auth_ms = self.settings.timeouts.auth_ms;
        if auth_ms == 0 || self.sweep.unknown_from.is_none_or(|from| from > now) {
            return;
        }
        let (mut next, mut late): (Option<Time>, Vec<ClientId>) = (None, Vec::new());
        for (id, client) in self.clients.iter_mut() {
            if client.is_authenticated() {
                client.identity.unknown_since = None;
                continue;
            }
            let due = client.identity.unknown_since.get_or_insert(now).plus_ms(auth_ms);
            let is_asked = matches!(client.hold, Hold::Word | Hold::Moving);
            match due <= now && !is_asked {
                true => late.push(id),
                false => next = Some(next.map_or(due, |at| at.min(due))),
            }
        }
        self.sweep.unknown_from = next;
        for id in late {
            self.count_refused(Refused::AuthLate);
            self.close_client(id, Some("it did not log in within timeouts.auth_ms"));
        }
    }

    pub(crate) fn end_pause(&mut self) {
        self.pause = None;
        self.readers = Readers::default();
        self.resume.extend(self.paused_clients.drain(..));
    }
}
