//! Requests that a server did not serve while it did what stood behind them.
//!
//! A server that says `TRYAGAIN` (or `LOADING`, …) to one request of a pipeline goes on with the next one. Asked again, the first would then be
//! done behind the second: an `MSET` would undo a later `SET` that its client was told of. The same where a server says `MOVED` and its slot
//! comes back to it before it gets to the next request. So a request that was not served waits until
//! those behind it are answered, which they mostly are at once. A read of the same key is asked again behind it. If a write of the same key was
//! done, the first is not asked again: its client gets an error.
//!
//! ```text
//!   MSET a b ─▶ -TRYAGAIN ─▶ [parked]
//!   GET a    ─▶ "old"  ─────▶ [parked, MSET]               asked again, in this order
//!   SET a    ─▶ +OK    ─────▶ MSET gets its error          if that came behind
//! ```
//! That happens where nobody could know that a server would put something off. While it is known, what a client sends behind a request with
//! several keys waits for its reply (`bar_if_unsettled`), so that nothing is overtaken.
//!
//! Parked requests continue in order, but to different nodes: an `MSET` of which some keys are at the next owner of its slot already asks the old
//! owner again while an `INCR` behind it is sent to the next one. So a parked request waits until an earlier request, of the same place and over
//! another connection, is answered ([`SentOn`]).
//!
//! Not here: what becomes of a parked request otherwise (`parked`, `redirect`), and how those are found that a request overtakes (`behind`).
//!
//! Invariant: of what its client sent behind a parked request nothing was done that it could still undo.

use crate::behind::{Ahead, Ticket, Touches, is_behind};
use crate::command::{CommandId, Flags};
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{
    BEHIND_LOOK_MS, BEHIND_LOOK_REST, BEHIND_LOOKS_AHEAD_MS, BEHIND_LOOKS_MAX, UNSETTLED_MS,
};
use crate::parked::Parked;
use crate::redirect::{find_request_bytes, reads};
use crate::time::Time;
use crate::topology::Place;
use crate::upstream::inflight::{Bond, Owner, Run};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use resp::Args;

/// What stood behind a request when a server did not serve it.
#[derive(Debug)]
pub(crate) struct Behind {
    /// The connection to that server.
    pub(crate) upstream: UpstreamId,
    pub(crate) client: ClientId,
    /// Which of the client's requests it is.
    pub(crate) ticket: Ticket,
    /// What it touches; known when it is parked.
    pub(crate) touches: Option<Touches>,
    /// The place there behind all of them, or behind those that concern it.
    end: u64,
    /// One of them was done that should have come after it.
    overtook: bool,
    /// Those that are not answered yet were looked at one by one, and `end` is the place behind the last that concerns it.
    is_settled: bool,
    /// When they are looked at.
    look_at: Time,
}

/// A request that was parked, and went on over this connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentOn {
    /// Where its first key lies; `None`: it has none, or nobody knows.
    place: Option<Place>,
    upstream: UpstreamId,
    /// The place of its reply, or of that to the EXEC of its transaction.
    seq: u32,
}

/// What becomes of a parked request by what stood behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It may be asked again.
    Go,
    /// That is not known yet.
    Wait,
    /// It must not be.
    Overtaken,
}

/// What a whole reply over a watched connection comes to.
pub(crate) enum Seen {
    /// It is as others are.
    Reply,
    /// Its request, which only reads, is asked again: it should have seen what a parked one does.
    Again,
    /// That is not known before the driver gives the request's bytes back.
    NotYet,
}

impl Engine {
    /// A request of this owner was not served over this connection; `None`: nothing of its client stands behind it there.
    pub(crate) fn watch_behind(
        &mut self,
        now: Time,
        id: UpstreamId,
        owner: Owner,
    ) -> Option<Behind> {
        let end = self.end_behind(id, owner)?;
        let (client, seq) = self.place_in_client(owner)?;
        let part = match owner {
            Owner::Part { part, .. } => part,
            _ => 0,
        };
        let upstream = self.upstreams.get_mut(id)?;
        upstream.watched_until = upstream.watched_until.max(end);
        let look_at = now.plus_ms(BEHIND_LOOK_MS);
        Some(Behind {
            upstream: id,
            client,
            ticket: (seq, part),
            touches: None,
            end,
            overtook: false,
            is_settled: false,
            look_at,
        })
    }

    fn end_behind(&self, id: UpstreamId, owner: Owner) -> Option<u64> {
        let (client, seq) = self.place_in_client(owner)?;
        // Most send one request at a time.
        if self.clients.get(client)?.places.is_last(seq) {
            return None;
        }
        let inflight = &self.upstreams.get(id)?.inflight;
        inflight.place_behind(BEHIND_LOOKS_MAX, |run| self.is_behind(run.owner, owner))
    }

    /// Whether a parked request, sent over this connection, could be done before one of the same client that went before it over another one.
    pub(crate) fn could_overtake(&mut self, parked: &Parked, upstream: UpstreamId) -> bool {
        let Some((id, seq)) = self.place_in_client(parked.owner) else { return false };
        let Some(client) = self.clients.get(id) else { return false };
        let (head, open) = (client.places.head(), client.places.open());
        let Some(sent_on) = self.parked.sent_on.get_mut(&id) else { return false };
        sent_on.retain(|sent| sent.seq.wrapping_sub(head) < open);
        if sent_on.is_empty() {
            self.parked.sent_on.remove(&id);
            return false;
        }
        sent_on.iter().any(|sent| {
            let meets = |one: Place| parked.place.is_none_or(|other| other == one);
            // A part of its own request, or what its client sent behind it, has not gone before it.
            let is_before = sent.seq != seq && seq.wrapping_sub(sent.seq) < 1 << 31;
            is_before && sent.upstream != upstream && sent.place.is_none_or(meets)
        })
    }

    /// A parked request was sent over this connection.
    pub(crate) fn note_sent_on(&mut self, parked: &Parked, upstream: UpstreamId) {
        let last = parked.rest.last().map_or(parked.owner, |run| run.owner);
        let Some((id, seq)) = self.place_in_client(last) else { return };
        if self.clients.get(id).is_none() {
            return;
        }
        let sent_on = self.parked.sent_on.entry(id).or_default();
        let place = parked.place;
        // Of one place and connection the last one is answered last.
        let is_known = |sent: &SentOn| (sent.place, sent.upstream) == (place, upstream);
        sent_on.retain(|sent| !is_known(sent) && sent.seq != seq);
        sent_on.push(SentOn { place, upstream, seq });
    }

    /// Where in the order of its client a parked request stands.
    pub(crate) fn goes_before(&self, parked: &Parked, other: &Parked) -> bool {
        self.is_behind(other.owner, parked.owner)
    }

    /// Whether one belongs to the same client as the other and was sent after it.
    fn is_behind(&self, later: Owner, first: Owner) -> bool {
        let (Some(later), Some(first)) = (self.place_in_client(later), self.place_in_client(first))
        else {
            return false;
        };
        later.0 == first.0 && is_behind(later.1, first.1)
    }

    fn place_in_client(&self, owner: Owner) -> Option<(ClientId, u32)> {
        match owner {
            Owner::Client { id, seq, .. } => Some((id, seq)),
            Owner::Part { merge, .. } => {
                self.merges.get(merge).map(|merge| (merge.client, merge.seq))
            }
            Owner::Own(_) => None,
        }
    }

    /// What this parked request touches, from its bytes.
    pub(crate) fn touches_of(&self, parked: &Parked) -> Touches {
        let (reads, is_whole) = (reads(parked.command), !parked.rest.is_empty());
        let words = (reads, is_whole, touches_all(parked.command));
        let keys = self.keys_named(&parked.bytes);
        Touches::parked(parked.place, words, &keys)
    }

    /// The keys of a request; `None` stands for one that nobody knows.
    fn keys_named<'a>(&self, request: &'a [u8]) -> Vec<Option<&'a [u8]>> {
        let args: Vec<&[u8]> = Args::new(request).collect();
        let keys = crate::scatter::keys_of(&args, self.learned.as_ref());
        match keys.is_empty() {
            true => alloc::vec![None],
            false => keys.into_iter().map(|(_, key)| Some(key)).collect(),
        }
    }

    /// The reply to the front request of a watched connection came, with this first byte, unless some of it was given on already.
    #[cold]
    pub(crate) fn seen_behind(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        first: Option<u8>,
    ) -> Seen {
        if first == Some(b'-') && !is_script(run.command) {
            // Nothing was done.
            return Seen::Reply;
        }
        let begins = first.is_some();
        let Some((client, seq)) = self.place_in_client(run.owner) else { return Seen::Reply };
        let Some(watch) = self.parked.watch(id, client) else { return Seen::Reply };
        if !watch.has_before(seq) {
            return Seen::Reply;
        }
        let later = self.later(id, run, run.done);
        let is_away = self.upstreams.get(id).is_some_and(|upstream| upstream.out.in_flight());
        if later.is_none() && begins && is_away {
            return Seen::NotYet;
        }
        let later = later.unwrap_or_else(Touches::unknown);
        if !watch.is_overtaken(&later, seq) {
            return Seen::Reply;
        }
        let reads = reads(run.command) && run.bond == Bond::None;
        if reads && begins && self.park_read(now, id, run) {
            return Seen::Again;
        }
        self.note_overtaken(id, (client, seq), &later);
        Seen::Reply
    }

    /// This request of a client is done over this connection, or may be.
    fn note_overtaken(&mut self, id: UpstreamId, (client, seq): (ClientId, u32), later: &Touches) {
        for ticket in self.parked.overtake((id, client), seq, later) {
            // In the order of their client, so that nobody looks at all of them for each.
            let is_before = |parked: &Parked| {
                let at = self.place_in_client(parked.owner);
                at.is_some_and(|(_, seq)| is_behind(ticket.0, seq))
            };
            let from = self.parked.partition_point(client, is_before);
            let is_it = |behind: &&mut Behind| behind.upstream == id && behind.ticket == ticket;
            for from in [from, 0] {
                let mut rest = self.parked.of_mut(Some(client)).skip(from);
                if let Some(behind) = rest.find_map(|parked| parked.behind.as_mut().filter(is_it)) {
                    behind.overtook = true;
                    break;
                }
            }
        }
    }

    /// This request of a run that is on its way; `None` while the driver has its bytes.
    fn later(&self, id: UpstreamId, run: &Run, skip: u32) -> Option<Touches> {
        let (_, bytes) = find_request_bytes(self.upstreams.get(id)?, run, skip)?;
        let words = (reads(run.command), touches_all(run.command));
        Some(Touches::later(self.place_of(bytes), words, &self.keys_named(bytes)))
    }

    /// A connection is gone, and with it the replies of these.
    pub(crate) fn lost_behind(&mut self, id: UpstreamId, lost: &[Run]) {
        for run in lost.iter().filter(|run| !reads(run.command)) {
            let Some((client, seq)) = self.place_in_client(run.owner) else { continue };
            if self.parked.watch(id, client).is_some_and(|watch| watch.has_before(seq)) {
                let later = self.later(id, run, run.done).unwrap_or_else(Touches::unknown);
                self.note_overtaken(id, (client, seq), &later);
            }
        }
    }

    /// What becomes of a parked request by what stood behind it.
    pub(crate) fn look_behind(&mut self, parked: &mut Parked) -> Look {
        let Some(behind) = &parked.behind else { return Look::Go };
        if behind.overtook {
            return Look::Overtaken;
        }
        let upstream = self.upstreams.get(behind.upstream);
        if upstream.is_some_and(|upstream| upstream.inflight.place() < behind.end) {
            return Look::Wait;
        }
        self.parked.unwatch(parked);
        Look::Go
    }

    /// Looks at what stands behind the first request that this client has parked, if it is time to.
    pub(crate) fn look_if_due(&mut self, now: Time, client: ClientId) {
        let early_us =
            self.parked.looks_from.since(now).saturating_sub(BEHIND_LOOKS_AHEAD_MS * 1_000);
        let Some(first) = self.parked.first_mut(client) else { return };
        let Some(behind) = first.behind.as_mut().filter(|_| first.question.is_none()) else {
            return;
        };
        let id = behind.upstream;
        let Some(upstream) = self.upstreams.get(id) else { return };
        if behind.overtook || now < behind.look_at || upstream.inflight.place() >= behind.end {
            return;
        }
        if behind.is_settled {
            // Nothing new can be found.
            behind.look_at = first.until.max(now.plus_ms(BEHIND_LOOK_MS));
            return;
        }
        if early_us > 0 {
            behind.look_at = now + early_us;
            return;
        }
        let cost_us = self.look_at_all(now, id);
        let from = self.parked.looks_from.max(now);
        self.parked.looks_from = from + cost_us * BEHIND_LOOK_REST;
    }

    /// Looks at what is on its way over a connection, once for all that is parked and waits for it. Returns about how many microseconds that took.
    fn look_at_all(&mut self, now: Time, id: UpstreamId) -> u64 {
        let Some(upstream) = self.upstreams.get(id) else { return 0 };
        let mut ahead: BTreeMap<ClientId, Ahead> =
            self.parked.unsettled(id).map(|client| (client, Ahead::default())).collect();
        // Some 50 ns each.
        let mut steps = 0;
        for (place, run) in upstream.inflight.waiting_at() {
            steps += 1;
            let Some((client, seq)) = self.place_in_client(run.owner) else { continue };
            let Some(ahead) = ahead.get_mut(&client) else { continue };
            for nth in 0..run.count {
                let seq = match run.owner {
                    Owner::Client { .. } => seq.wrapping_add(nth),
                    _ => seq,
                };
                let later = self.later(id, run, run.done + nth);
                steps += 10 + later.as_ref().map_or(0, |later| 2 * later.len());
                ahead.add((place + u64::from(nth), seq), later.as_ref());
            }
        }
        let again_at = now.plus_ms(BEHIND_LOOK_MS);
        for (client, mut ahead) in ahead {
            ahead.sort();
            let watched = self.parked.of_mut(Some(client)).filter_map(|one| one.behind.as_mut());
            for behind in watched.filter(|one| one.upstream == id && !one.is_settled) {
                let Some(touches) = &behind.touches else { continue };
                steps += 2 + touches.len();
                behind.end = behind.end.min(ahead.end(behind.ticket.0, touches));
                (behind.is_settled, behind.look_at) = (!ahead.is_unknown, again_at);
            }
            self.parked.settle((id, client), !ahead.is_unknown);
        }
        steps as u64 / 20
    }

    /// When it is looked at again.
    pub(crate) fn look_at(&self, parked: &Parked) -> Time {
        let passed = |behind: &Behind| {
            let upstream = self.upstreams.get(behind.upstream);
            behind.overtook || upstream.is_none_or(|up| up.inflight.place() >= behind.end)
        };
        match &parked.behind {
            Some(behind) if !passed(behind) => parked.due.max(behind.look_at),
            _ => parked.due,
        }
    }

    /// A server sent a request on, or put one off: slots or nodes are on the move.
    pub(crate) fn note_unsettled(&mut self, now: Time) {
        self.unsettled_until = now.plus_ms(UNSETTLED_MS);
    }

    /// While slots or nodes are on the move: what this client sends next waits for the reply to what it sends now.
    pub(crate) fn bar_if_unsettled(&mut self, now: Time, id: ClientId) {
        if now < self.unsettled_until {
            self.bar(id);
        }
    }

    /// What this client sends next waits for the replies to all before.
    pub(crate) fn bar(&mut self, id: ClientId) {
        let epoch = self.route_epoch;
        if let Some(client) = self.clients.get_mut(id) {
            client.route_epoch = epoch.wrapping_sub(1);
            client.upstream = None;
        }
    }
}

/// Whether a request without keys may concern any key: it writes, or it is a script.
fn touches_all(command: Option<CommandId>) -> bool {
    is_script(command) || command.is_none_or(|command| command.row().flags.has(Flags::WRITE))
}

/// Whether it may have done something before it failed.
pub(crate) fn is_script(command: Option<CommandId>) -> bool {
    command.is_some_and(|command| command.row().is_script())
}
