//! CLIENT UNBLOCK: ends the wait of a client's blocking command, at the server that it waits at.
//!
//! The server decides, so that nothing is lost: it is told `CLIENT UNBLOCK` with the id that the client's own connection has there, over
//! the shared connection to the same node, and either ends the wait (the client gets what the server says) or had ended it already. Its
//! answer is the answer.
//!
//! ```text
//!   asker ─ CLIENT UNBLOCK 7 ─▶ question to every worker ─▶ the worker of client 7
//!                                                              │ shared connection: CLIENT UNBLOCK <id at the server>
//!   asker ◀──────── 1 or 0 ──────── answer ◀───────────────────┘
//! ```
//! A server that knows no HELLO told no id, and a client whose command has not reached its server yet waits at none: both are answered 0.
//!
//! Not here: the command's words (`local::client_command`).
//!
//! Invariant: while the server has not answered, the connection that is to be unblocked serves no other client.

use crate::connect::Availability;
use crate::engine::{Action, Engine};
use crate::fleet::{Answer, ReplyTo};
use crate::ids::{ClientId, UpstreamId};
use crate::time::Time;
use crate::upstream::Role;
use crate::upstream::inflight::OwnCommand;
use alloc::string::ToString;
use alloc::vec::Vec;
use resp::Protocol;

/// One connection whose wait is to end.
#[derive(Debug)]
pub(crate) struct Unblock {
    /// Who asked; a client on several servers (WAIT) has an entry for each, and the answer is one.
    to: ReplyTo,
    /// Whose wait.
    client: ClientId,
    /// The connection that waits.
    of: UpstreamId,
    /// The client is to get an error and not what it gets when its time is up.
    error: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The connection to say it on is not ready.
    Unsent,
    /// Said there.
    Sent(UpstreamId),
    /// Answered: whether the wait was ended.
    Done(bool),
}

impl Engine {
    /// Ends the wait of the client with this number, if it is one of ours that waits. `None`: the answer comes later.
    pub(crate) fn unblock(
        &mut self,
        now: Time,
        to: ReplyTo,
        number: u64,
        error: bool,
    ) -> Option<Answer> {
        let id = self.client_numbered(number).filter(|id| self.is_blocked(*id));
        let waits = self.upstreams.iter().filter(|(_, up)| {
            id.is_some_and(|id| up.role == Role::Leased(id) || up.role == Role::Errand(id))
                && up.server_id.is_some()
        });
        let waits: Vec<UpstreamId> = waits.map(|(upstream, _)| upstream).collect();
        let Some(client) = id.filter(|_| !waits.is_empty()) else {
            return Some(Answer::Unblocked(false));
        };
        let each = |of| Unblock { to, client, of, error, stage: Stage::Unsent };
        self.unblocks.extend(waits.into_iter().map(each));
        self.run_unblocks(now);
        None
    }

    /// Says what is not said yet and can be, and gives the answers that are whole.
    pub(crate) fn run_unblocks(&mut self, now: Time) {
        for index in 0..self.unblocks.len() {
            self.unblocks[index].stage = match self.unblocks[index].stage {
                Stage::Unsent => self.say_unblock(now, index),
                Stage::Sent(via) if self.upstreams.get(via).is_none() => Stage::Done(false),
                stage => stage,
            };
        }
        while let Some(to) = self.whole_unblock() {
            let done =
                self.unblocks.iter().any(|one| one.to == to && one.stage == Stage::Done(true));
            self.unblocks.retain(|one| one.to != to);
            self.actions.push_back(Action::Answer(to, Answer::Unblocked(done)));
        }
    }

    fn whole_unblock(&self) -> Option<ReplyTo> {
        let is_done = |one: &Unblock| matches!(one.stage, Stage::Done(_));
        let whole = |to: ReplyTo| self.unblocks.iter().filter(|one| one.to == to).all(is_done);
        self.unblocks.iter().map(|one| one.to).find(|to| whole(*to))
    }

    fn say_unblock(&mut self, now: Time, index: usize) -> Stage {
        let Unblock { client, of, error, .. } = self.unblocks[index];
        let waits = self
            .upstreams
            .get(of)
            .filter(|up| up.role == Role::Leased(client) || up.role == Role::Errand(client));
        let told = waits.and_then(|up| Some((up.key.node, up.server_id?)));
        let Some((node, server_id)) = told.filter(|_| self.is_blocked(client)) else {
            return Stage::Done(false);
        };
        let key = self.shared_key(node, Protocol::Resp2, self.settings.node.db);
        match self.upstream_for(now, key, client) {
            Availability::Wait(_) => Stage::Unsent,
            Availability::Down(_) => Stage::Done(false),
            Availability::Ready(via) => {
                let how: &[u8] = if error { b"ERROR" } else { b"TIMEOUT" };
                let id = server_id.to_string();
                let words = [&b"CLIENT"[..], b"UNBLOCK", id.as_bytes(), how];
                self.say_own(now, via, OwnCommand::Unblock, &words);
                Stage::Sent(via)
            }
        }
    }

    /// The server's answer over this connection to the first that was said there; `None`: the connection was lost.
    pub(crate) fn unblock_answered(&mut self, via: UpstreamId, reply: Option<&[u8]>) {
        let first = self.unblocks.iter_mut().find(|one| one.stage == Stage::Sent(via));
        if let Some(one) = first {
            one.stage = Stage::Done(reply == Some(b":1\r\n"));
        }
    }

    /// Whether a server may still end what waits on this connection: who uses it next would be hit.
    pub(crate) fn is_unblocking(&self, id: UpstreamId) -> bool {
        self.unblocks.iter().any(|one| one.of == id && !matches!(one.stage, Stage::Done(_)))
    }
}
