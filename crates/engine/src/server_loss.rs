//! The loss of a server as its clients see it: an error reply, or the end of their connections.
//!
//! A client that is connected to a server directly sees its connection end when the server goes. Client libraries know that error as one to reconnect and
//! try again after; an error reply they give to the application. So with [`OnLoss::Close`] a client whose request went with a server, or finds
//! none, is closed behind the replies to what it asked before:
//!
//! ```text
//!   GET a   INCR b   GET c        INCR b was sent to the server that is lost
//!   "1"     ─ end                 GET c goes wherever it goes: nobody reads its reply
//! ```
//! Not here: errors that a server said (a wrong password, LOADING), slots that nobody owns, bounds of the configuration: these stay replies.
//!
//! A connection for topics that is lost has lost what was published since. Who listened over it alone is closed, too (`pubsub::close_listeners`); with
//! [`OnLoss::Error`] the subscriptions go on at the next server.
//!
//! Invariant: a client with `lost_at` is `closing`, and the place there never gets its reply.

use crate::engine::Engine;
use crate::ids::{ClientId, MergeId, UpstreamId};
use crate::reject;
use crate::settings::OnLoss;
use crate::stats::samples::Source;
use crate::time::Time;
use crate::upstream::UpstreamKey;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use alloc::vec::Vec;
use core::ops::Deref;

/// Why a request cannot be sent, or went without a reply: the error reply that says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    text: Vec<u8>,
    is_loss: bool,
}

impl Failure {
    /// A server is lost, or cannot be reached.
    pub(crate) fn loss(text: Vec<u8>) -> Self {
        Self { text, is_loss: true }
    }

    /// Something else is in the way: a bound, or what the server said.
    pub(crate) fn refusal(text: Vec<u8>) -> Self {
        Self { text, is_loss: false }
    }
}

impl Deref for Failure {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.text
    }
}

impl Engine {
    /// Whether a failure ends the connection of whoever waits for the reply.
    pub(crate) fn ends_by(&self, failure: &Failure) -> bool {
        failure.is_loss && self.settings.on_upstream_loss == OnLoss::Close
    }

    /// Answers the request that is looked at, in its client's order.
    pub(crate) fn reply_failure(&mut self, id: ClientId, silent: bool, failure: &Failure) {
        if !self.ends_by(failure) {
            return self.reply(id, silent, |out| out.extend_from_slice(failure));
        }
        if let Some(client) = self.clients.get(id) {
            self.stats.note_own_error(Source::of_client(id, client), failure, 1);
            let next = client.places.next();
            self.lose_client(id, next);
        }
    }

    /// Answers requests that have places.
    pub(crate) fn deliver_failure(
        &mut self,
        id: ClientId,
        seq: u32,
        count: u32,
        silent: bool,
        failure: &Failure,
    ) {
        match self.ends_by(failure) {
            true => self.lose_client(id, seq),
            false => self.deliver(id, seq, count, silent, &failure.repeat(count as usize)),
        }
    }

    /// Answers all requests of a lost connection.
    pub(crate) fn answer_lost(
        &mut self,
        now: Time,
        id: UpstreamId,
        key: UpstreamKey,
        runs: &[Run],
        half_given: bool,
        cause: &str,
    ) {
        let error = Failure::loss(reject::node(self.label(key.node), cause));
        self.answer_runs(now, id, runs, half_given, &error);
    }

    /// Answers these requests of a connection with an error.
    pub(crate) fn answer_runs(
        &mut self,
        now: Time,
        id: UpstreamId,
        runs: &[Run],
        half_given: bool,
        error: &Failure,
    ) {
        for (index, run) in runs.iter().enumerate() {
            if !matches!(run.owner, Owner::Own(_)) {
                let source = Source::own(now, run.command, self.client_of(run.owner));
                self.stats.note_own_error(source, error, run.count.into());
            }
            if let Owner::Part { merge, part } = run.owner {
                let errors = error.repeat(run.count as usize);
                self.note_lost_part(merge, error);
                self.part_replies(now, merge, part, run.count, &errors);
                continue;
            }
            let Owner::Client { id: client, seq, silent } = run.owner else {
                match run.owner {
                    Owner::Own(OwnCommand::Learn) => self.learning_lost(now),
                    Owner::Own(OwnCommand::Lookup(round)) => self.lookup_answered(round, None),
                    Owner::Own(OwnCommand::Unblock) => self.unblock_answered(id, None),
                    Owner::Own(OwnCommand::Word) => self.word_lost(now, id, error),
                    Owner::Own(OwnCommand::Functions) => self.functions_lost(),
                    Owner::Own(OwnCommand::Shadow(ticket)) => {
                        self.shadow_answered(now, ticket, crate::near::Answer::None);
                    }
                    _ => {}
                }
                continue;
            };
            self.stats.command(run.command).failed += u64::from(run.count);
            if (index == 0 || run.shares)
                && half_given
                && self.clients.get(client).is_some_and(|c| c.mid_reply == Some(id))
            {
                // The client has the first half of a reply. Only a close tells the client that the rest will not come.
                self.close_client(client, Some("its upstream was lost in the middle of a reply"));
                continue;
            }
            self.stop_streaming(client, id);
            match run.command {
                // A transaction that was just begun ends with EXECABORT: servers must not execute the requests behind its MULTI by themselves.
                Some(crate::command::ids::MULTI) if !self.ends_by(error) => {
                    let replies = b"+OK\r\n".repeat(run.count as usize);
                    self.deliver(client, seq, run.count, silent, &replies);
                }
                _ => self.deliver_failure(client, seq, run.count, silent, error),
            }
        }
    }

    /// A part of this reply will not come: neither will the whole.
    pub(crate) fn note_lost_part(&mut self, id: MergeId, failure: &Failure) {
        let ends = self.ends_by(failure);
        if let Some(merge) = self.merges.get_mut(id) {
            merge.is_lost |= ends;
        }
    }

    /// The client gets what is owed to it before this place, and then its connection ends.
    #[cold]
    pub(crate) fn lose_client(&mut self, id: ClientId, seq: u32) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let head = client.places.head();
        let is_before = |at: u32| at.wrapping_sub(head) <= seq.wrapping_sub(head);
        if client.lost_at.is_none() {
            self.stats.clients_lost += 1;
        }
        client.lost_at = client.lost_at.filter(|at| is_before(*at)).or(Some(seq));
        client.closing = true;
        self.settle(id);
    }
}
