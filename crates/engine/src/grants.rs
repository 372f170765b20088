//! How much room clients get that are not as the marks suppose: those that write a whole pipeline before they read the first reply, and those of whose
//! replies nothing is known.
//!
//! A client that reads more slowly than it asks is slowed: with so many replies waiting for it its next request waits, and it is not read. One that does
//! not read before it has written everything (pipelines of redis-py, Predis, phpredis, redis-rb) would wait for us as we wait for it. A server
//! takes all of it and keeps the replies. So does this: a client that is not read since its replies wait, and takes none of them for the stall
//! timeout, may have twice as many wait, and again, until it has written everything or takes some.
//!
//! ```text
//!   not read ─▶ watched ── each stall timeout: took nothing? limited by its own output? ─ yes ─▶ granted: its requests go on
//!                  ▲                                  └ no ─┐                                        │
//!                  └────────────────────────────────────────┴────────────────────────────────────────┘   took some ─▶ nothing is granted
//! ```
//! Whoever has written all waits for nobody: it is read on, and may take its replies when it likes. The bound on what is kept is that of all clients
//! together (`Engine::bound_memory`), at which whoever holds most is closed.
//!
//! Not here: the marks themselves (`request::room`, `reply::stall_for`).
//!
//! Invariant: whoever is not read for its own output is watched, and as many clients count as finding out how large their replies are as do.

use crate::client::{Client, Hold, Sizes};
use crate::engine::Engine;
use crate::fan_turn::FanTurn;
use crate::ids::{ClientId, UpstreamId};
use crate::large_replies::LargeReplies;
use crate::limits::PROBES_MAX;
use crate::questions::Questions;
use crate::settings::Limits;
use crate::silence::Silence;
use crate::slow::SlowTurn;
use crate::speed::Speed;
use crate::time::Time;
use crate::trials::Trials;
use crate::turns::Turn;
use crate::waiting::Waiting;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Clients that are not read, or were not a moment ago.
    watched: BTreeSet<ClientId>,
    /// When they are looked at.
    look_at: Option<Time>,
    /// Clients that find out how large their replies are.
    pub(crate) probing: u32,
    /// Upstreams that have room again for which clients wait.
    pub(crate) roomy: Vec<UpstreamId>,
    /// Whose turn it is at an upstream for which clients wait (see `turns`).
    pub(crate) turn: Option<Turn>,
    /// How many requests of one client may be under way.
    pub(crate) speed: Speed,
    /// Requests whose replies were large.
    pub(crate) large_replies: LargeReplies,
    /// Scripts of which an end was seen.
    pub(crate) trials: Trials,
    /// Silent clients (`CLIENT REPLY`) with requests for long replies.
    pub(crate) silence: Silence,
    /// What requests that are not plain have cost in this turn.
    pub(crate) slow: SlowTurn,
    /// Clients that wait for a turn of the worker (`Hold::Turn`): a line for small requests and a line for large requests. respool passes over clients that are gone.
    pub(crate) lines: [Waiting; 2],
    /// Cost of messages and invalidations in this turn.
    pub(crate) fan: FanTurn,
    /// Questions to all workers that are not given on yet.
    pub(crate) questions: Questions,
}

impl Grants {
    /// This client is not read.
    pub(crate) fn watch(&mut self, id: ClientId) {
        self.watched.insert(id);
    }

    /// Whether it is this client's turn at this upstream; then it may write one request.
    pub(crate) fn takes_turn(&mut self, upstream: UpstreamId, client: ClientId) -> bool {
        let is_its = |turn: &&mut Turn| turn.upstream == upstream && turn.client == client;
        self.turn.as_mut().filter(is_its).is_some_and(|turn| turn.take())
    }

    /// When [`Engine::run_grants`] has something to do.
    pub(crate) fn at(&self) -> Option<Time> {
        self.look_at
    }
}

impl Engine {
    /// Looks, once in a stall timeout, at those that are not read.
    pub(crate) fn run_grants(&mut self, now: Time) {
        if self.grants.look_at.is_some_and(|at| at > now) {
            return;
        }
        if self.grants.look_at.take().is_some() {
            self.look_at_unread(now);
        }
        if !self.grants.watched.is_empty() {
            self.grants.look_at = Some(now.plus_ms(self.settings.timeouts.stall_ms.max(1)));
        }
    }

    #[cold]
    fn look_at_unread(&mut self, now: Time) {
        let mut watched = core::mem::take(&mut self.grants.watched);
        watched.retain(|id| {
            let Some(client) = self.clients.get_mut(*id).filter(|client| is_unread(client)) else {
                return false;
            };
            let untaken_us = now.since(client.untaken_since());
            if untaken_us >= self.settings.timeouts.stall_ms.saturating_mul(1_000)
                && is_full(client, &self.settings.limits)
            {
                client.granted = client.waiting_out().saturating_mul(2);
                self.settle(*id);
            }
            true
        });
        self.grants.watched.append(&mut watched);
    }

    /// A client asks for the first time.
    #[cold]
    pub(crate) fn begin_probe(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.sizes = match self.grants.probing < PROBES_MAX {
                true => Sizes::Probing,
                false => Sizes::Wary,
            };
            self.grants.probing += u32::from(client.sizes == Sizes::Probing);
        }
    }

    /// Of what it asked nothing comes from a server that would tell, or not soon.
    #[cold]
    pub(crate) fn end_probe_of_nothing(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id)
            && client.sizes != Sizes::Known
            && (client.places.open() == 0 || client.lease.is_some())
        {
            self.grants.probing -= u32::from(client.sizes == Sizes::Probing);
            client.sizes = match client.lease {
                None => Sizes::Unknown,
                // It keeps nobody waiting there, and is as one that found out what most do.
                Some(_) => Sizes::Known,
            };
        }
    }

    /// Checks the invariants; for debug builds.
    pub(crate) fn check_grants(&self) {
        self.grants.silence.check();
        let probing = self.clients.iter().filter(|(_, one)| one.sizes == Sizes::Probing).count();
        assert_eq!(self.grants.probing as usize, probing, "clients that find out");
        let limits = &self.settings.limits;
        for (id, client) in self.clients.iter().filter(|(_, client)| is_unread(client)) {
            let watched = !is_full(client, limits) || self.grants.watched.contains(&id);
            assert!(watched, "a client is not read for its output and nobody looks at it");
        }
    }
}

/// Whether more may come of it that we do not take.
fn is_unread(client: &Client) -> bool {
    !client.reading && !client.eof && !client.closing
}

/// Whether its own output is what its requests or their replies wait for.
fn is_full(client: &Client, limits: &Limits) -> bool {
    let half = (limits.client_out_high_bytes + client.granted) / 2;
    client.out.pending() > 0
        && (!client.stalls.is_empty()
            || (client.hold == Hold::Output && client.waiting_out() > half))
}
