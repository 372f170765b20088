//! Writes over a connection of the client's own: blocking commands, what stands behind WATCH, transactions.
//!
//! What is written by itself is a merge of one part, as on the shared connections. What stands between MULTI and EXEC is kept with the lease, and becomes
//! a transaction of mirrors when EXEC was done; each command by its own element of the answer.
//!
//! Not here: the lease (`lease`), what becomes of the answer to EXEC (`inside`).
//!
//! Invariant: a transaction stands at the gates of its keys from the sending of EXEC until its lease is over, or EXEC is answered.

use super::told::{Told, told_of};
use super::{Queued, Ticket, hashes};
use crate::blocking::blocks;
use crate::client::Client;
use crate::command::spread::Gather;
use crate::command::{CommandId, ids};
use crate::engine::Engine;
use crate::ids::{ClientId, MergeId};
use crate::lease::State;
use crate::merge::{How, Merge};
use crate::scatter::{Wish, keys_of};
use crate::time::Time;
use crate::upstream::inflight::Owner;
use alloc::boxed::Box;
use alloc::vec::Vec;
use resp::{Args, ReplyScanner, Scan};

impl Engine {
    /// Who gets the reply to a request over a connection of the client's own.
    pub(crate) fn owner_for_mirrors(
        &mut self,
        id: ClientId,
        seq: u32,
        silent: bool,
        command: Option<CommandId>,
        frame: &[u8],
    ) -> Owner {
        let plain = Owner::Client { id, seq, silent };
        let args: Vec<&[u8]> = Args::new(frame).collect();
        let Some(client) = self.clients.get(id) else { return plain };
        let state = client.lease.as_ref().map(|lease| &lease.state);
        let is_alone = !matches!(state, Some(State::Queueing(_) | State::Ending));
        if !is_alone || !self.is_mirrored(command, &args) {
            return plain;
        }
        let protocol = client.protocol;
        let room = self.spare.room();
        let how = How::All(Gather::AllOk);
        let merge = self.insert_merge(Merge::new(id, seq, silent, protocol, how, 1, room));
        self.note_leased(id, merge, frame, command.is_none_or(blocks));
        Owner::Part { merge, part: 0 }
    }

    /// A command that waits at the server, or one over a connection of the client's own, is written as the only part of this request.
    pub(crate) fn note_leased(&mut self, id: ClientId, merge: MergeId, frame: &[u8], waits: bool) {
        let Self { mirrors, clients, learned, .. } = self;
        let Some(mirrors) = mirrors else { return };
        let client = clients.get(id);
        let db = client.map_or(0, |client| client.db);
        let args: Vec<&[u8]> = Args::new(frame).collect();
        let keys: Vec<&[u8]> =
            keys_of(&args, learned.as_ref()).into_iter().map(|(_, key)| key).collect();
        let upstream = client.and_then(|client| client.lease.as_ref()?.upstream);
        let pending = mirrors.pending(frame, &keys, db, !waits && upstream.is_some());
        match upstream.filter(|_| pending.is_gated) {
            Some(upstream) => mirrors.enter(&pending.keys, upstream),
            None => mirrors.begin_write(&pending.keys),
        }
        mirrors.pending.insert((merge, 0), pending);
    }

    /// Whether a write over the client's own connection must wait for others of its keys; then it is woken.
    pub(crate) fn waits_at_gate(&mut self, wish: &Wish<'_>) -> bool {
        if self.waits_for_before(wish.id) {
            return true;
        }
        let Self { mirrors, clients, learned, .. } = self;
        let (Some(mirrors), Some(client)) = (mirrors, clients.get(wish.id)) else { return false };
        let keys: Vec<&[u8]> =
            keys_of(wish.args, learned.as_ref()).into_iter().map(|(_, key)| key).collect();
        let keys = hashes(client.db, &keys);
        let upstream = client.lease.as_ref().and_then(|lease| lease.upstream);
        let lets = upstream.map_or_else(
            || mirrors.gates.is_free(&keys),
            |upstream| mirrors.gates.lets(&keys, upstream),
        );
        if !lets {
            mirrors.gates.close(&keys);
            mirrors.gates.wait(wish.id);
        }
        !lets
    }

    /// A command was queued in a transaction.
    pub(crate) fn queue_for_mirrors(&mut self, wish: &Wish<'_>, index: usize) {
        let selects = wish.row == Some(ids::SELECT);
        if !selects && !self.is_mirrored(wish.row, wish.args) {
            return;
        }
        let Self { mirrors: Some(mirrors), clients, learned, .. } = self else { return };
        let Some(client) = clients.get_mut(wish.id) else { return };
        let db = client.db;
        let Some(lease) = client.lease.as_mut() else { return };
        let epoch = mirrors.epoch;
        let queued =
            lease.mirrored.get_or_insert_with(|| Box::new(Queued { epoch, ..Queued::default() }));
        if selects {
            queued.unsaid = Some("it selects a database in a transaction");
            return;
        }
        let keys: Vec<&[u8]> =
            keys_of(wish.args, learned.as_ref()).into_iter().map(|(_, key)| key).collect();
        let bytes = Queued::cost(wish.frame, keys.len());
        if mirrors.pending_bytes + bytes > mirrors.pending_bytes_max {
            // Mirrors are told nothing of it, so nothing has to be in order with it.
            queued.unsaid = Some("there was no room to keep it");
            return;
        }
        queued.keys.extend(hashes(db, &keys));
        mirrors.pending_bytes += bytes;
        queued.bytes += bytes;
        queued.commands.push((index, wish.frame.to_vec()));
    }

    /// EXEC is about to be sent over this connection: whether it must wait.
    pub(crate) fn exec_waits_at_gate(&mut self, id: ClientId) -> bool {
        let tells =
            |client: &Client| client.lease.as_ref().is_some_and(|lease| lease.mirrored.is_some());
        if self.clients.get(id).is_some_and(tells) && self.waits_for_before(id) {
            return true;
        }
        let Self { mirrors, clients, .. } = self;
        let (Some(mirrors), Some(client)) = (mirrors, clients.get_mut(id)) else { return false };
        let Some(lease) = client.lease.as_mut() else { return false };
        let (Some(queued), Some(upstream)) = (lease.mirrored.as_mut(), lease.upstream) else {
            return false;
        };
        if queued.is_gated {
            return false;
        }
        if !mirrors.gates.lets(&queued.keys, upstream) {
            mirrors.gates.close(&queued.keys);
            mirrors.gates.wait(id);
            return true;
        }
        mirrors.enter(&queued.keys, upstream);
        queued.is_gated = true;
        false
    }

    /// The whole answer to EXEC came.
    pub(crate) fn mirror_exec(&mut self, now: Time, id: ClientId, seq: u32, reply: &[u8]) {
        let queued = self.take_queued(id);
        let Some(queued) = queued else { return };
        let unix_ms = (now.0 + self.settings.unix_ahead_us) / 1_000;
        let db = self.clients.get(id).map_or(0, |client| client.db);
        let Some(mut elements) = elements_of(reply) else {
            return self.end_queued(now, &queued);
        };
        let ticket = Some(Ticket::Exec(id, seq));
        let mut words = Vec::new();
        let mut unsaid = queued.unsaid;
        let mut unsure = Vec::new();
        let mut next = 0;
        for (index, frame) in queued.commands.iter() {
            // They stand in the order in which they were queued.
            let Some(element) = elements.nth(*index - next) else { break };
            next = *index + 1;
            let script = self.script_of(Some(frame));
            match told_of(Some(frame), element, unix_ms, script) {
                Told::Words(told) => words.extend(told),
                Told::Unsure => unsure.push(frame),
                Told::Unsaid(why) => unsaid = Some(why),
            }
        }
        if let Some(mirrors) = &mut self.mirrors {
            unsure.into_iter().for_each(|frame| mirrors.count_unsure(Some(frame)));
            match unsaid {
                Some(why) => mirrors.drop_from(None, why, (ticket, queued.epoch)),
                None if words.is_empty() => {}
                None => mirrors.enqueue_from(now, db, &words, (ticket, queued.epoch)),
            }
        }
        self.end_queued(now, &queued);
    }

    fn take_queued(&mut self, id: ClientId) -> Option<Box<Queued>> {
        let queued = self.clients.get_mut(id)?.lease.as_mut()?.mirrored.take();
        self.account_rest(id);
        queued
    }

    /// A transaction is over.
    fn end_queued(&mut self, now: Time, queued: &Queued) {
        if let Some(mirrors) = &mut self.mirrors {
            mirrors.pending_bytes -= queued.bytes;
        }
        if queued.is_gated {
            self.leave_gates(now, &queued.keys);
        }
        self.run_mirrors(now);
    }

    /// A lease ends, whatever it was for. `is_lost`: with its connection, so nobody knows whether EXEC was done.
    pub(crate) fn drop_queued(&mut self, queued: Option<Box<Queued>>, is_lost: bool) {
        let Some(queued) = queued else { return };
        if is_lost
            && queued.is_gated
            && let Some(mirrors) = &mut self.mirrors
        {
            mirrors.count_unsure(None);
        }
        let now = self.mirrors.as_ref().map_or(Time::default(), |mirrors| mirrors.now);
        self.end_queued(now, &queued);
    }
}

/// What an answer to EXEC consists of, each as it came; `None`: it is no list.
fn elements_of(reply: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let end = reply.iter().position(|byte| *byte == b'\n')? + 1;
    let (line, mut rest) = reply.split_at(end);
    let count = line.strip_prefix(b"*")?.strip_suffix(b"\r\n")?;
    let count = usize::try_from(resp::number::parse_i64(count)?).ok()?;
    let mut scanner = ReplyScanner::default();
    Some((0..count).map_while(move |_| match scanner.scan(rest) {
        Ok(Scan::Complete { consumed, .. }) => {
            let (element, after) = rest.split_at(consumed);
            rest = after;
            Some(element)
        }
        _ => None,
    }))
}
