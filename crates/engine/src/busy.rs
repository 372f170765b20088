//! Whether the server is busy with a script, so that `PING` says so as it does directly.
//!
//! A server that runs a script for longer than `busy-reply-threshold` answers everybody else with `-BUSY …`, and `PING` too. The proxy answers
//! `PING` itself; but while a script (or an `EXEC`, in which one may stand) is without a reply for so long, the server is asked, on the way that
//! `SCRIPT KILL` takes. Before that the server would say nothing at all, so nobody's `PING` waits.
//!
//! ```text
//!   EVAL, FCALL, EXEC given on ─▶ look_at ── the time has come: still without a reply? ─▶ is_busy here, News::Busy to the other workers
//!   PING ─▶ is_busy, here or elsewhere? ── yes ─▶ the server
//!                                       └─ no ──▶ PONG
//! ```
//! Of a script that somebody runs past the proxy the servers tell with the same error, to whatever else is sent on: for a second after one of those
//! `PING` asks the server, too, and what it is told counts again.
//!
//! What scripts and module commands return does not count for that: it may be a text of their own.
//!
//! A shared connection is held up if a script or a command of a module is under way there and nothing was answered for [`SCRIPT_RELIEF_MS`]. Clients then go on over a fresh connection
//! (`backlog`), where the server answers with `-BUSY` as it does directly. Requests behind the script would have no answer until its end, and some of them are
//! scripts that never end, too. If the server greets the fresh connection while a command of a module has no reply, this command blocks its client (`RedisModule_BlockClient`) without the
//! flag `blocking`: further calls of it take dedicated connections.
//!
//! `PING` asks only where there is one primary: of several one may be busy while the others serve.
//!
//! Not here: the way past a script (`Lane::Control`).
//!
//! Invariant: whoever is asked without need answers `PONG`; so it does no harm when `is_busy` is late to end.

use crate::command::CommandId;
use crate::command::ids::{EXEC, PING};
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{BUSY_TOLD_MS, SCRIPT_BUSY_MS, SCRIPT_RELIEF_MS};
use crate::local::arity_fits;
use crate::news::What;
use crate::overtaken::is_script;
use crate::redirect::find_request_bytes;
use crate::route::Known;
use crate::time::Time;
use crate::upstream::inflight::{Inflight, Owner, Run};
use crate::upstream::{Lane, Role};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use resp::Args;

/// See the module.
#[derive(Debug)]
pub(crate) struct Busy {
    /// From when on a server that runs a script says that it is busy.
    after_ms: u64,
    /// When it is to be seen whether a script runs for so long.
    look_at: Option<Time>,
    /// One does, on a connection of this worker.
    here: bool,
    /// Workers of which the same is known.
    elsewhere: BTreeSet<u32>,
    /// How many replies of servers had said so when that was last looked at.
    told: u64,
    /// So long a server that said so is asked, though no script of ours runs there.
    told_until: Time,
}

impl Busy {
    /// The time between two looks, in milliseconds.
    fn look_ms(&self) -> u64 {
        self.after_ms.clamp(1, SCRIPT_RELIEF_MS)
    }

    /// There are other servers now, of which nobody runs a script yet.
    pub(crate) fn forget(&mut self) {
        *self = Self { after_ms: self.after_ms, told: self.told, ..Self::default() };
    }
}

impl Default for Busy {
    fn default() -> Self {
        Self {
            after_ms: SCRIPT_BUSY_MS,
            look_at: None,
            here: false,
            elsewhere: BTreeSet::new(),
            told: 0,
            told_until: Time::default(),
        }
    }
}

impl Engine {
    /// A request was given on: it may be one that the server is busy with for long.
    #[inline]
    pub(crate) fn note_long(&mut self, now: Time, command: Option<CommandId>) {
        if (command.is_none() || may_take_long(command)) && self.busy.look_at.is_none() {
            self.busy.look_at = Some(now.plus_ms(self.busy.look_ms()));
        }
    }

    /// When it is to be looked after.
    pub(crate) fn busy_at(&self) -> Option<Time> {
        self.busy.look_at
    }

    /// Sees whether the server is busy.
    pub(crate) fn look_busy(&mut self, now: Time) {
        let told = self.stats.errors.busy();
        if told > self.busy.told {
            self.busy.told_until = now.plus_ms(BUSY_TOLD_MS);
        }
        self.busy.told = told;
        if self.busy.look_at.is_none_or(|at| at > now) {
            return;
        }
        let after_ms = self.busy.after_ms;
        let upstreams = || self.upstreams.iter().map(|(_, upstream)| &upstream.inflight);
        let is_busy = upstreams().any(|inflight| runs_long(inflight, now, after_ms));
        let waits = is_busy || upstreams().any(|inflight| inflight.runs().any(may_hold_up));
        self.busy.look_at = waits.then(|| now.plus_ms(self.busy.look_ms()));
        self.relieve_of_scripts(now);
        if is_busy != self.busy.here {
            self.busy.here = is_busy;
            self.tell_others(0, What::Busy { worker: self.settings.worker, is_busy });
        }
    }

    /// Clients leave shared connections on which a script is under way and nothing was answered for [`SCRIPT_RELIEF_MS`].
    fn relieve_of_scripts(&mut self, now: Time) {
        let mut held_up = Vec::new();
        for (id, up) in self.upstreams.iter_mut() {
            let is_shared = up.role == Role::Shared && up.key.lane == Lane::Shared;
            let runs_script =
                is_shared && up.key.owner.is_none() && up.inflight.runs().any(may_hold_up);
            let place = runs_script.then(|| up.inflight.place());
            up.script_seen = place.map(|place| match up.script_seen {
                Some((seen, since)) if seen == place => (seen, since),
                _ => (place, now),
            });
            if up.script_seen.is_some_and(|(_, since)| since.plus_ms(SCRIPT_RELIEF_MS) <= now) {
                held_up.push(id);
            }
        }
        for id in held_up {
            self.try_scripts_anew(id);
            self.begin_relief(now, id);
        }
    }

    /// The server has greeted a connection that was made because this one is held up. A command of a module in front here blocks its client and not the server, so
    /// this command takes dedicated connections from now on, as commands with the flag `blocking` do.
    pub(crate) fn note_wait(&mut self, now: Time, id: UpstreamId) {
        let Some(up) = self.upstreams.get(id) else { return };
        let is_held_up = up.script_seen.is_some_and(|(place, since)| {
            place == up.inflight.place() && since.plus_ms(SCRIPT_RELIEF_MS) <= now
        });
        let front = up.inflight.front().filter(|run| run.command.is_none() && may_hold_up(run));
        let Some(run) = front.filter(|_| is_held_up && up.tail.is_empty()) else { return };
        let Some((_, request)) = find_request_bytes(up, run, run.done) else { return };
        let call: Vec<&[u8]> = Args::new(request).take(2).collect();
        if let Some(learned) = &mut self.learned {
            learned.note_wait(&call);
        }
    }

    /// Another worker's script is what the server is busy with, or is it no more.
    pub(crate) fn hear_of_busy(&mut self, worker: u32, is_busy: bool) {
        match is_busy {
            true => self.busy.elsewhere.insert(worker),
            false => self.busy.elsewhere.remove(&worker),
        };
    }

    /// A client told the servers from when on they are to say that they are busy.
    pub(crate) fn set_busy_after(&mut self, after_ms: u64) {
        self.busy.after_ms = after_ms;
        self.busy.look_at = self.busy.look_at.map(|_| Time::default());
    }

    /// The server that this request is for, past what it is busy with; `None`: it goes the usual way.
    #[inline]
    pub(crate) fn busy_node(
        &self,
        now: Time,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
    ) -> Option<NodeId> {
        if known.id != Some(PING) || !self.is_busy(now) || !self.ping_goes_past(id, args.len()) {
            return None;
        }
        match *self.router.primaries() {
            [primary] => Some(primary),
            _ => None,
        }
    }

    /// Whether the server is busy with a script of ours, or said lately that it is with somebody else's.
    fn is_busy(&self, now: Time) -> bool {
        self.busy.here || !self.busy.elsewhere.is_empty() || self.busy.told_until > now
    }

    /// Whether a PING can tell something of a server that is busy. Behind what its client sent before it is about a later time: a server does not look at
    /// it before.
    fn ping_goes_past(&self, id: ClientId, count: usize) -> bool {
        let client = self.clients.get(id).filter(|client| client.places.open() == 0);
        client.is_some_and(|client| arity_fits(PING, count) && !client.asks_with_ping())
    }
}

/// Whether a script has had no reply over a connection for `ms`. A server keeps replies back that it made before the script in one go, so the script need
/// not be the first without one.
fn runs_long(inflight: &Inflight, now: Time, ms: u64) -> bool {
    let is_late = |run: &Run| run.sent_at.plus_ms(ms) <= now;
    inflight.front().is_some_and(is_late)
        && inflight.runs().any(|run| may_take_long(run.command) && is_late(run))
}

/// Whether the server may be busy with this command for long.
pub(crate) fn may_take_long(command: Option<CommandId>) -> bool {
    command == Some(EXEC) || is_script(command)
}

/// Whether this may hold a connection up for long: a command of a module, which the table does not have, may block its client without the flag `blocking`.
fn may_hold_up(run: &Run) -> bool {
    may_take_long(run.command) || run.command.is_none() && matches!(run.owner, Owner::Client { .. })
}
