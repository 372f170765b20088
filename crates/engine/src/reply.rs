//! A reply's way back: from an upstream's bytes to the clients whose turn it is.
//!
//! Replies are scanned where they lie. As many as belong to one client in a row are handed over with one copy. A reply that is
//! not whole stays in the upstream's tail while it is small; a large one is *cut through*: its part goes out to the client at
//! once, so that memory is bounded by water marks and not by the size of values.
//!
//! A client that takes a reply more slowly than the server gives it stops the reading of that upstream (see
//! [`Engine::stall_for`]); whoever wants it meanwhile goes on over a fresh one.
//!
//! Not here: what a reply means. Only the proxy's own commands are looked into (`connect`).
//!
//! Invariant: bytes are consumed exactly up to the end of the last whole reply, or up to what was cut through.

use crate::bigkeys::BigKeys;
use crate::client::{Client, Sizes};
use crate::command::CommandId;
use crate::command::ids;
use crate::defect::is_protocol_error;
use crate::engine::Engine;
use crate::ids::{ClientId, MergeId, UpstreamId};
use crate::inside::Own;
use crate::limits::{CUT_THROUGH_BYTES, OWN_LIST_BYTES, POOLED_BUFFER_BYTES};
use crate::observed::Replies;
use crate::output::Output;
use crate::overtaken::Seen;
use crate::pool::{BufferPool, append_piece};
use crate::push::end_of_cut_through;
use crate::redirect::{Sent, sends_on};
use crate::stats::Stats;
use crate::stats::samples::Source;
use crate::time::Time;
use crate::trust::speaks_freely;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use crate::upstream::{Lane, Role, Upstream};
use alloc::format;
use alloc::string::String;
use resp::{LongReply, ReplyError, ReplyScanner, Scan};

/// Why a connection cannot be used any more; in words for the error texts.
pub(crate) type Fault = String;

/// What is known of the connection when the first reply of a run is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Front {
    /// Bytes of that reply that were given on already.
    pub(crate) forwarded: u64,
    /// [`Upstream::is_watched`]
    pub(crate) is_watched: bool,
}

impl Front {
    #[inline]
    pub(crate) fn of(upstream: &Upstream) -> Self {
        Self { forwarded: upstream.forwarded, is_watched: upstream.is_watched() }
    }

    /// Whether the first byte that is here is the first of the reply.
    pub(crate) fn begins(self) -> bool {
        self.forwarded == 0
    }
}

/// What was found at the begin of the input.
pub(crate) enum Piece {
    /// So many whole replies of the front run, in so many bytes, and whether an unfinished one follows.
    Replies { count: u32, bytes: usize, partial: bool },
    /// The same, and the last of them is large, with none behind it looked at.
    Big { count: u32, bytes: usize, reply: LongReply },
    /// A whole reply to a command of the proxy's own.
    Own(OwnCommand, usize),
    /// So many bytes that send the front request on to another server.
    Redirect(usize),
    /// Nothing whole.
    Nothing,
}

impl Engine {
    /// Bytes came from an upstream.
    pub fn handle_upstream_bytes(&mut self, now: Time, id: UpstreamId, bytes: &[u8]) {
        let Some(upstream) = self.upstreams.get_mut(id) else {
            return self.mirror_event(now, id, &mut |engine, id| {
                engine.handle_upstream_bytes(now, id, bytes);
            });
        };
        if !upstream.is_open() {
            return;
        }
        upstream.progress_at = now;
        self.stats.upstream_in_bytes += bytes.len() as u64;
        upstream.traffic.in_bytes += bytes.len() as u64;
        let has_tail = !upstream.tail.is_empty();
        self.take_from_upstream(now, id, bytes, has_tail);
    }

    /// The same in the clients' words. `has_tail`: the begin of a reply is there already.
    #[inline]
    pub(crate) fn take_from_upstream(
        &mut self,
        now: Time,
        id: UpstreamId,
        bytes: &[u8],
        has_tail: bool,
    ) {
        let outcome = if !has_tail {
            self.take_in(now, id, bytes).map(|used| self.keep_upstream_tail(id, &bytes[used..]))
        } else {
            let Some(upstream) = self.upstreams.get_mut(id) else { return };
            let missing = upstream.scanner.missing();
            let mut tail = core::mem::take(&mut upstream.tail);
            // It is not there while it is looked at, and what becomes of it counts elsewhere.
            self.weigh_upstream(id);
            append_piece(&mut tail, bytes, missing);
            let outcome = self.take_in(now, id, &tail);
            outcome.map(|used| self.put_back_upstream_tail(id, tail, used))
        };
        if let Err(cause) = outcome {
            self.lose_upstream(now, id, &cause, true);
        }
        self.look_at_pace(id, bytes.len());
        self.after_replies(now, id);
        self.schedule(id);
    }

    /// Takes in what is whole; returns the bytes done with.
    #[inline]
    fn take_in(&mut self, now: Time, id: UpstreamId, input: &[u8]) -> Result<usize, Fault> {
        match self.upstreams.get(id) {
            Some(upstream) if upstream.key.lane == Lane::Messages && upstream.is_ready() => {
                self.listened(now, id, input)
            }
            _ => self.replies(now, id, input),
        }
    }

    fn keep_upstream_tail(&mut self, id: UpstreamId, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        if let Some(upstream) = self.upstreams.get_mut(id).filter(|up| up.has_socket()) {
            if upstream.tail.capacity() == 0 {
                upstream.tail = self.pool.take();
            }
            upstream.tail.extend_from_slice(rest);
        }
    }

    fn put_back_upstream_tail(
        &mut self,
        id: UpstreamId,
        mut tail: alloc::vec::Vec<u8>,
        used: usize,
    ) {
        match self.upstreams.get_mut(id).filter(|up| up.has_socket()) {
            // Emptied it stays, for the reason of `Output::finish_send_and_keep`, where there are few.
            Some(upstream)
                if used < tail.len()
                    || upstream.role == Role::Shared && tail.capacity() <= POOLED_BUFFER_BYTES =>
            {
                tail.drain(..used);
                upstream.tail = tail;
            }
            _ => self.pool.give(tail),
        }
    }

    /// Hands over all whole replies at the begin of `input`; returns the bytes done with.
    #[inline]
    fn replies(&mut self, now: Time, id: UpstreamId, input: &[u8]) -> Result<usize, Fault> {
        let outcome = self.whole_replies(now, id, input);
        self.end_tally();
        outcome
    }

    fn whole_replies(&mut self, now: Time, id: UpstreamId, input: &[u8]) -> Result<usize, Fault> {
        let mut pos = 0;
        // What a server that is left does not do is done by those that took its place.
        let watch = !self.is_one() || (self.generation > 0 && self.comes_from_left(id));
        while pos < input.len() {
            let Some(upstream) = self.upstreams.get_mut(id).filter(|up| up.has_socket()) else {
                return Ok(input.len());
            };
            if begins_push(upstream, &input[pos..])
                && !self.scripts.delimiters.may_be_text(id, upstream)
            {
                if upstream.key.lane.tells() && self.grants.fan.is_spent() {
                    self.fan_out_later(id);
                    return Ok(pos);
                }
                let used = skip_push(upstream, &input[pos..])?;
                if used == 0 {
                    return Ok(pos);
                }
                pos += used;
                if upstream.key.lane.tells() {
                    self.invalidated(now, id, &input[pos - used..pos])?;
                    continue;
                }
                // What confirms our subscription ends with a number, a message with a text.
                let is_message = !input[..pos].ends_with(b":1\r\n");
                if upstream.key.lane == Lane::Sentinel && !upstream.in_push && is_message {
                    self.sentinel_message(now, id);
                }
                continue;
            }
            let Some(run) = upstream.inflight.front().copied() else {
                return Err(unasked(&input[pos..]));
            };
            let rest = &input[pos..];
            let (used, goes_on) = match upstream.inflight.has_sharers() || upstream.edge.is_some() {
                _ if run.command == Some(ids::EXEC) && self.exec_waits_for_turn(id) => (0, false),
                _ if run.marks.is_delimited() => self.next_delimited(now, id, &run, watch, rest)?,
                false => self.next_replies(now, id, &run, watch, rest)?,
                true => self.next_beside_sharers(now, id, &run, watch, rest)?,
            };
            pos += used;
            if !goes_on {
                return Ok(pos);
            }
        }
        Ok(pos)
    }

    /// Hands over what is whole of the front run, or of one reply the part that is here. Returns the bytes done with, and whether there may be more to do.
    #[inline(always)]
    fn next_replies(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        watch: bool,
        input: &[u8],
    ) -> Result<(usize, bool), Fault> {
        let Some(upstream) = self.upstreams.get_mut(id) else { return Ok((input.len(), false)) };
        let front = Front::of(upstream);
        let piece = next_piece(upstream, &mut self.stats, &self.bigkeys, run, watch, input)?;
        let piece = match piece {
            Piece::Nothing => return Ok((0, false)),
            Piece::Redirect(bytes) => match self.redirect(now, id, run, &input[..bytes]) {
                Sent::On => return Ok((bytes, true)),
                Sent::NotYet => return Ok((self.wait_for_buffer(id, 0), false)),
                Sent::Data => {
                    self.count_data(id, run, &input[..bytes]);
                    (1, bytes, false)
                }
            },
            Piece::Own(own, bytes) => {
                upstream.answered(1);
                self.own_asked_at = run.sent_at;
                self.own_reply(now, id, own, &input[..bytes]);
                return Ok((bytes, true));
            }
            Piece::Big { count, bytes, reply } => {
                self.note_big_reply(now, id, run, count - 1, reply);
                (count, bytes, false)
            }
            Piece::Replies { count, bytes, partial } => (count, bytes, partial),
        };
        Ok(self.replies_of_run(now, id, run, front, piece, input))
    }

    /// An error that looked like a redirect is a reply as others are.
    #[cold]
    pub(crate) fn count_data(&mut self, id: UpstreamId, run: &Run, reply: &[u8]) {
        if let Some(upstream) = self.upstreams.get_mut(id) {
            count_failed(upstream, &mut self.stats, run, 1, reply);
        }
    }

    /// As [`Self::next_replies`], where some requests on this connection are shared, or its servers have other names for keys.
    #[cold]
    pub(crate) fn next_beside_sharers(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        watch: bool,
        input: &[u8],
    ) -> Result<(usize, bool), Fault> {
        if self.upstreams.get(id).is_some_and(|upstream| upstream.edge.is_some()) {
            return self.next_at_edge(now, id, run, watch, input);
        }
        self.next_whole_or_part(now, id, run, watch, input)
    }

    /// As [`Self::next_replies`], with names as clients say them. The front request may be shared.
    #[cold]
    pub(crate) fn next_whole_or_part(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        watch: bool,
        input: &[u8],
    ) -> Result<(usize, bool), Fault> {
        let Some(upstream) = self.upstreams.get_mut(id) else { return Ok((input.len(), false)) };
        let (count, is_shared) = upstream.inflight.alike(run.count);
        let run = &Run { count, ..*run };
        if !is_shared {
            return self.next_replies(now, id, run, watch, input);
        }
        let front = Front::of(upstream);
        let piece = next_piece(upstream, &mut self.stats, &self.bigkeys, run, watch, input)?;
        Ok(self.shared_piece(now, id, run, front, piece, input))
    }

    /// Hands over replies of the front run: so many in so many bytes, and whether an unfinished one follows. Returns the bytes done with, and
    /// whether there may be more to do.
    #[inline(always)]
    pub(crate) fn replies_of_run(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        Front { forwarded, is_watched }: Front,
        (count, bytes, partial): (u32, usize, bool),
        input: &[u8],
    ) -> (usize, bool) {
        let begins = forwarded == 0;
        let client = match run.owner {
            Owner::Client { id, .. } => Some(id),
            Owner::Part { merge, .. } if count == 0 => {
                return (self.bound_part(now, id, merge, input.len()), false);
            }
            Owner::Part { .. } => None,
            Owner::Own(_) => return (0, false),
        };
        let ends_lease = self.may_end_lease(id, run.command);
        let of_lease = client.filter(|_| ends_lease).and_then(|id| self.clients.get(id));
        let completes = Own::completes_exec(of_lease, run.command);
        if completes && count == 0 {
            return (self.bound_whole(now, id, client, input.len()), false);
        }
        if is_watched && count == 1 {
            match self.seen_behind(now, id, run, begins.then_some(input[0])) {
                Seen::Reply => {}
                Seen::Again => return (bytes, true),
                Seen::NotYet => return (self.wait_for_buffer(id, 0), false),
            }
        }
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.answered(count);
        }
        self.count_wait(now, id, run, Replies { count, forwarded, rest: &input[..bytes] });
        let (client, seq, silent) = match run.owner {
            Owner::Client { id, seq, silent } => (id, seq, silent),
            Owner::Part { merge, part } => {
                self.part_replies(now, merge, part, count, &input[..bytes]);
                return (bytes, true);
            }
            Owner::Own(_) => return (0, false),
        };
        if begins && ends_lease {
            self.end_answered(now, (client, seq), run.command, input);
        }
        if completes {
            self.complete_exec(now, client, seq, silent, &input[..bytes]);
            return (bytes, true);
        }
        if count > 0 {
            self.deliver(client, seq, count, silent, &input[..bytes]);
            self.check_stall(now, id, client);
        }
        if !partial {
            return (bytes, true);
        }
        let seq = seq.wrapping_add(count);
        (bytes + self.cut_through(now, id, client, seq, silent, &input[bytes..]), false)
    }

    /// The next replies of this run came.
    #[inline(always)]
    pub(crate) fn count_wait(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        replies: Replies<'_>,
    ) {
        if replies.count == 0 {
            return;
        }
        let waited_us = now.since(run.sent_at);
        self.tally(id, run, waited_us, replies.count);
        if waited_us >= self.observer.look_from_us
            && (waited_us >= self.slowlog.from_us || !self.observer.skips_unseen(replies.count))
        {
            self.look_closer(now, id, run, replies);
        }
    }

    /// Gives the client `count` replies for its places from `seq` on: at once if it is their turn, else they are kept.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        id: ClientId,
        seq: u32,
        count: u32,
        silent: bool,
        bytes: &[u8],
    ) {
        let Some(client) = self.clients.get_mut(id) else { return };
        // The server made them all the same, also those that are dropped here.
        if client.sizes == Sizes::Known {
            client.note_replies(count, bytes.len());
        } else {
            self.grants.probing -= u32::from(client.sizes == Sizes::Probing && count > 0);
            client.note_first_replies(count, bytes.len());
        }
        let bytes = if silent { &[][..] } else { bytes };
        if seq == client.places.head() {
            let cut = client.mid_reply.take().is_some();
            client.places.pass(count);
            append(&mut client.out, &mut self.pool, bytes);
            if cut {
                end_of_cut_through(client, &mut self.pool);
            }
            let Client { places, out, .. } = client;
            while let Some(ready) = places.next_ready(&mut self.pool) {
                append(out, &mut self.pool, ready);
            }
            if !client.out.dirty && client.out.pending() > 0 {
                client.out.dirty = true;
                self.dirty_clients.push(id);
            }
        } else {
            client.places.keep(seq, count, bytes, &mut self.pool);
        }
        self.settle_if_needed(id);
    }

    /// As [`Self::deliver`] of one large reply, which is not copied if it is its turn.
    pub(crate) fn deliver_large(
        &mut self,
        id: ClientId,
        seq: u32,
        silent: bool,
        reply: alloc::vec::Vec<u8>,
    ) {
        let Some(client) = self.clients.get_mut(id) else { return };
        if silent || seq != client.places.head() {
            return self.deliver(id, seq, 1, silent, &reply);
        }
        client.note_part(reply.len());
        client.out.push(reply);
        self.deliver(id, seq, 1, silent, &[]);
    }

    /// Writes a reply of the proxy's own: at its place behind everything that the client waits for.
    pub(crate) fn reply(
        &mut self,
        id: ClientId,
        silent: bool,
        write: impl FnOnce(&mut alloc::vec::Vec<u8>),
    ) {
        self.stats.requests += 1;
        let Some(client) = self.clients.get_mut(id) else { return };
        if client.places.open() > 0 {
            self.scratch.clear();
            if !silent {
                write(&mut self.scratch);
            }
            if self.scratch.first() == Some(&b'-') {
                self.stats.note_own_error(Source::of_client(id, client), &self.scratch, 1);
            }
            self.observer.note_own(id, &self.scratch);
            client.places.append_ready(&self.scratch, &mut self.pool);
        } else if !silent {
            let source = Source::of_client(id, client);
            let out = client.out.buf(&mut self.pool);
            let from = out.len();
            write(out);
            let written = &out[from..];
            self.observer.note_own(id, written);
            if written.first() == Some(&b'-') {
                self.stats.note_own_error(source, written, 1);
            }
            if !client.out.dirty {
                client.out.dirty = true;
                self.dirty_clients.push(id);
            }
        }
        self.settle_if_needed(id);
    }

    /// The part of a large reply that is here goes out at once; returns the bytes taken.
    fn cut_through(
        &mut self,
        now: Time,
        upstream_id: UpstreamId,
        id: ClientId,
        seq: u32,
        silent: bool,
        rest: &[u8],
    ) -> usize {
        let Some(upstream) = self.upstreams.get_mut(upstream_id) else { return 0 };
        let scanned = (upstream.scanner.position() - upstream.forwarded) as usize;
        if upstream.forwarded == 0 && scanned < CUT_THROUGH_BYTES {
            return 0;
        }
        match self.clients.get(id) {
            Some(client) if !silent && seq != client.places.head() => {
                // Another upstream's reply is due first. The bytes wait here, and are the client's in the account.
                return 0;
            }
            Some(_) if !silent => self.give_part(id, upstream_id, &rest[..scanned]),
            // Nobody wants it: dropped as it comes. It counts for the size of the client's replies.
            _ => {
                if let Some(client) = self.clients.get_mut(id) {
                    client.note_part(scanned);
                }
            }
        }
        if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            upstream.forwarded += scanned as u64;
        }
        self.settle_if_needed(id);
        self.note_if_large(now, upstream_id);
        self.look_at_backlog(now, upstream_id, id);
        self.check_stall(now, upstream_id, id);
        scanned
    }

    /// A part of the reply whose turn it is goes out to this client.
    pub(crate) fn give_part(&mut self, id: ClientId, upstream_id: UpstreamId, part: &[u8]) {
        let Some(client) = self.clients.get_mut(id) else { return };
        append(&mut client.out, &mut self.pool, part);
        client.mid_reply = Some(upstream_id);
        client.note_part(part.len());
        if !client.out.dirty {
            client.out.dirty = true;
            self.dirty_clients.push(id);
        }
    }

    /// A part of a reply that is not whole waits in the tail, where it is its client's in the account; that of a client that is gone is dropped as it comes.
    /// Returns the bytes dropped.
    fn bound_part(
        &mut self,
        now: Time,
        upstream_id: UpstreamId,
        merge: MergeId,
        waiting: usize,
    ) -> usize {
        let client = self.merges.get(merge).map(|merge| merge.client);
        self.bound_whole(now, upstream_id, client, waiting)
    }

    /// The same for any reply that is wanted whole.
    pub(crate) fn bound_whole(
        &mut self,
        now: Time,
        upstream_id: UpstreamId,
        client: Option<ClientId>,
        waiting: usize,
    ) -> usize {
        let client = client.filter(|client| self.clients.get(*client).is_some());
        if waiting < CUT_THROUGH_BYTES {
            return 0;
        }
        self.note_if_large(now, upstream_id);
        if let Some(client) = client {
            self.look_at_backlog(now, upstream_id, client);
            return 0;
        }
        let Some(upstream) = self.upstreams.get_mut(upstream_id) else { return 0 };
        let scanned = upstream.scanner.position() - upstream.forwarded;
        upstream.forwarded += scanned;
        scanned as usize
    }

    /// Bytes that wait in the tail can be looked at: a buffer is back, or a turn begins.
    pub(crate) fn input_again(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let tail = core::mem::take(&mut upstream.tail);
        let outcome = self.take_in(now, id, &tail);
        match outcome {
            Ok(used) => self.put_back_upstream_tail(id, tail, used),
            Err(cause) => self.lose_upstream(now, id, &cause, true),
        }
        self.after_replies(now, id);
        self.schedule(id);
    }

    /// What follows a batch of replies: an upstream that has done its work goes.
    pub(crate) fn after_replies(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.slow.beat(now, upstream.inflight.place());
        if upstream.out.kept_bytes() > 0 {
            let was_full = upstream.out.kept_bytes() >= upstream.kept_max_bytes;
            let from = upstream.inflight.kept_from().unwrap_or(u64::MAX);
            upstream.out.trim(from, &mut self.pool);
            if was_full && upstream.out.kept_bytes() < upstream.kept_max_bytes {
                self.note_room(id);
            }
        }
        let Some(mut upstream) = self.upstreams.get(id) else { return };
        if !upstream.waiters.is_empty() || self.waits_parked(id) {
            self.note_room(id);
            let Some(noted) = self.upstreams.get(id) else { return };
            upstream = noted;
        }
        if upstream.weighs_by_replies() {
            self.weigh_upstream(id);
            let Some(weighed) = self.upstreams.get(id) else { return };
            upstream = weighed;
        }
        if !upstream.inflight.is_empty() || !upstream.is_ready() {
            return;
        }
        match upstream.role {
            Role::Shared | Role::Spare(_) => {}
            Role::Retired => self.remove_upstream(id),
            Role::Transfer(client) => self.release_transfer(now, id, client),
            Role::Leased(client) => self.lease_answered(now, id, client),
            Role::Errand(_) => self.give_back(now, id, false),
        }
    }
}

#[inline]
fn append(out: &mut Output, pool: &mut BufferPool, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.buf(pool).extend_from_slice(bytes);
    }
}

/// Whether a RESP3 push stands here, or the rest of one, which is no answer to anything on a shared connection.
#[inline]
fn begins_push(upstream: &Upstream, input: &[u8]) -> bool {
    upstream.in_push || input[0] == b'>' && upstream.scanner.is_fresh()
}

/// Skips a push; 0: it is not whole. One that tells of changed keys is skipped as a whole, others as they come.
fn skip_push(upstream: &mut Upstream, input: &[u8]) -> Result<usize, Fault> {
    upstream.in_push = true;
    let tells = upstream.key.lane.tells();
    let begun = if tells { upstream.scanner.position() as usize } else { 0 };
    let Some(rest) = input.get(begun..).filter(|rest| !rest.is_empty()) else { return Ok(0) };
    match upstream.scanner.scan(rest).map_err(|error| malformed(&error))? {
        Scan::Complete { consumed, .. } => {
            upstream.in_push = false;
            Ok(begun + consumed)
        }
        Scan::Partial { .. } if tells && input.len() > OWN_LIST_BYTES => {
            Err(String::from("sent too long a list of changed keys"))
        }
        Scan::Partial { .. } if tells => Ok(0),
        Scan::Partial { consumed } => Ok(consumed),
    }
}

/// Scans replies of the front run until it is done, the input ends, or a push comes.
#[inline(always)]
fn next_piece(
    upstream: &mut Upstream,
    stats: &mut Stats,
    bigkeys: &BigKeys,
    run: &Run,
    watch: bool,
    input: &[u8],
) -> Result<Piece, Fault> {
    // Of a reply whose begin was cut through the rest comes by itself, so that `end` is the first byte of a reply in all other cases.
    let whole = upstream.forwarded == 0;
    // What is watched is looked at one by one.
    let one_by_one = upstream.is_watched() || !whole;
    let (owner, wanted) = (run.owner, if one_by_one { 1 } else { run.count });
    // Arrays are looked at one by one.
    let (mut count, mut end) = match (wanted, input[0]) {
        (1, _) | (_, b'*') => (0, 0),
        _ => upstream.scanner.pass_short(input, wanted),
    };
    let (mut failed, mut partial) = (0, false);
    // Of the first reply some bytes may be scanned already: those that stand in the tail.
    let mut offset = (upstream.scanner.position() - upstream.forwarded) as usize;
    while count < wanted {
        let Some(rest) = input.get(end + offset..).filter(|rest| !rest.is_empty()) else { break };
        if rest[0] == b'>' && upstream.scanner.is_fresh() {
            break;
        }
        let consumed = match upstream.scanner.scan_short(rest) {
            Some(consumed) => consumed,
            None => match upstream.scanner.scan_any(rest).map_err(|error| malformed(&error))? {
                Scan::Complete { consumed, frame: Some(reply) }
                    if bigkeys.is_big(reply.bytes, reply.elements)
                        && !matches!(owner, Owner::Own(_)) =>
                {
                    // Nothing that sends a request on is as large.
                    let (count, bytes) = (count + 1, end + offset + consumed);
                    failed += u64::from(whole && input[end] == b'-');
                    count_failed(upstream, stats, run, failed, &input[..bytes]);
                    upstream.forwarded = 0;
                    return Ok(Piece::Big { count, bytes, reply });
                }
                Scan::Complete { consumed, .. } => consumed,
                Scan::Partial { .. } => {
                    partial = true;
                    break;
                }
            },
        };
        if watch
            && whole
            && input[end] == b'-'
            && !matches!(owner, Owner::Own(_))
            && sends_on(&input[end..end + offset + consumed])
        {
            // Those before it first; then it is looked at again.
            match count {
                0 => return Ok(Piece::Redirect(offset + consumed)),
                _ => break,
            }
        }
        failed += u64::from(whole && input[end] == b'-');
        end += offset + consumed;
        offset = 0;
        upstream.forwarded = 0;
        count += 1;
    }
    if failed > 0 && !matches!(owner, Owner::Own(_)) {
        count_failed(upstream, stats, run, failed, &input[..end]);
    }
    match owner {
        Owner::Own(own) if count > 0 => Ok(Piece::Own(own, end)),
        Owner::Own(own) if input.len() > own.reply_bytes_max() => {
            Err(String::from("sent too long a reply to a command of the proxy"))
        }
        Owner::Own(_) => Ok(Piece::Nothing),
        Owner::Client { .. } | Owner::Part { .. } if count == 0 && !partial => Ok(Piece::Nothing),
        Owner::Client { .. } | Owner::Part { .. } => {
            Ok(Piece::Replies { count, bytes: end, partial })
        }
    }
}

/// So many of these replies are errors.
fn count_failed(
    upstream: &mut Upstream,
    stats: &mut Stats,
    run: &Run,
    failed: u64,
    replies: &[u8],
) {
    if failed > 0 {
        stats.command(run.command).failed += failed;
        upstream.traffic.errors += failed;
        let source = Source::of_run(upstream, run);
        if let Some(index) = note_errors(stats, run.command, source, replies) {
            upstream.note_refused(run, index);
        }
    }
}

/// Some of these whole replies are errors. They are looked for once more, so that those who have none need not look closer. Returns which of them says that
/// its request is no protocol.
#[cold]
fn note_errors(
    stats: &mut Stats,
    command: Option<CommandId>,
    source: Source,
    replies: &[u8],
) -> Option<u32> {
    let is_servers = !speaks_freely(command);
    let (mut scanner, mut rest) = (ReplyScanner::default(), replies);
    let (mut index, mut refused) = (0, None);
    while let Ok(Scan::Complete { consumed, .. }) = scanner.scan(rest) {
        let (reply, behind) = rest.split_at(consumed);
        if reply.starts_with(b"-") {
            stats.note_error(source, reply, 1);
            if is_servers {
                stats.errors.note_server(reply);
            }
            if is_protocol_error(reply) {
                refused = Some(index);
            }
        }
        if behind.is_empty() {
            break;
        }
        rest = behind;
        index += 1;
    }
    refused
}

pub(crate) fn malformed(error: &ReplyError) -> Fault {
    format!("sent a malformed reply ({error})")
}

/// A server that closes a connection of its own accord says why first (`-ERR max number of clients reached`).
pub(crate) fn unasked(input: &[u8]) -> Fault {
    let line = input.split(|byte| *byte == b'\r').next().unwrap_or_default();
    format!("sent a reply that nobody asked for: {}", crate::reject::quoted(line))
}
