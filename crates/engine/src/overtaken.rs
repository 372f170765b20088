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
//! What was parked goes on in order, but not all to the same node: a transaction, which cannot go behind `ASKING`, asks the old owner of its slot
//! again while an `INCR` behind it is sent to the new one. So a parked request waits until one that went before it, of the same place and over
//! another connection, is answered ([`SentOn`]).
//!
//! Not here: what becomes of a parked request otherwise (`parked`, `redirect`).
//!
//! Invariant: of what its client sent behind a parked request nothing was done that it could still undo.

use crate::command::{CommandId, Flags};
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{BEHIND_LOOK_MS, BEHIND_LOOKS_MAX, UNSETTLED_MS};
use crate::parked::Parked;
use crate::redirect::{find_request, keys_in, reads};
use crate::time::Time;
use crate::topology::Place;
use crate::upstream::inflight::{Bond, Owner, Run};
use alloc::vec::Vec;

/// What stood behind a request when a server did not serve it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    /// The connection to that server.
    upstream: UpstreamId,
    /// The place there behind all of them.
    end: u64,
    /// One of them was done that should have come after it.
    overtook: bool,
    /// When those that are not answered yet are looked at one by one: they may not concern it.
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

/// A request that stood behind a parked one.
struct Later {
    command: Option<CommandId>,
    place: Option<Place>,
    /// Its keys, if it has any.
    keys: Vec<Option<Vec<u8>>>,
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
        let upstream = self.upstreams.get_mut(id)?;
        upstream.watched_until = upstream.watched_until.max(end);
        let look_at = now.plus_ms(BEHIND_LOOK_MS);
        Some(Behind { upstream: id, end, overtook: false, look_at })
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
        later.0 == first.0 && later.1 != first.1 && later.1.wrapping_sub(first.1) < 1 << 31
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

    /// Whether this request waits for what stands behind it on this connection, and that is among it.
    fn waits_behind(&self, parked: &Parked, id: UpstreamId, later: Owner) -> bool {
        parked.behind.is_some_and(|behind| behind.upstream == id)
            && self.is_behind(later, parked.owner)
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
        let (client, begins) = (self.client_of(run.owner), first.is_some());
        if !self.parked.of(client).any(|parked| self.waits_behind(parked, id, run.owner)) {
            return Seen::Reply;
        }
        let later = self.later(id, run, run.done);
        let is_away = self.upstreams.get(id).is_some_and(|upstream| upstream.out.in_flight());
        if later.is_none() && begins && is_away {
            return Seen::NotYet;
        }
        let overtaken = self.overtaken_by(id, run, later.as_ref());
        if overtaken.is_empty() {
            return Seen::Reply;
        }
        let reads = reads(run.command) && run.bond == Bond::None;
        if reads && begins && self.park_read(now, id, run) {
            return Seen::Again;
        }
        self.note_overtaken(client, &overtaken);
        Seen::Reply
    }

    /// Which parked requests of its client this one overtakes if it is done over this connection.
    fn overtaken_by(&self, id: UpstreamId, run: &Run, later: Option<&Later>) -> Vec<Owner> {
        let parked = self.parked.of(self.client_of(run.owner));
        parked
            .filter(|parked| self.waits_behind(parked, id, run.owner))
            .filter(|parked| later.is_none_or(|later| self.conflicts(parked, later)))
            .map(|parked| parked.owner)
            .collect()
    }

    fn note_overtaken(&mut self, client: Option<ClientId>, owners: &[Owner]) {
        for parked in self.parked.of_mut(client) {
            if let Some(behind) = &mut parked.behind {
                behind.overtook |= owners.contains(&parked.owner);
            }
        }
    }

    /// This request of a run that is on its way; `None` while the driver has its bytes.
    fn later(&self, id: UpstreamId, run: &Run, skip: u32) -> Option<Later> {
        let (_, bytes) = find_request(self.upstreams.get(id)?, run, skip)?;
        let keys = keys_in(&bytes, self.learned.as_ref());
        Some(Later { command: run.command, place: self.place_of(&bytes), keys })
    }

    /// Whether it matters which of them is done first.
    fn conflicts(&self, parked: &Parked, later: &Later) -> bool {
        let is_whole = !parked.rest.is_empty();
        if reads(parked.command) && reads(later.command) && !is_whole {
            return false;
        }
        match (parked.place, later.place) {
            (Some(place), Some(other)) if place != other => false,
            // A transaction: any key of its place.
            (Some(_), Some(_)) if is_whole => true,
            (Some(_), Some(_)) => {
                let own = keys_in(&parked.bytes, self.learned.as_ref());
                own.iter().any(|key| later.keys.contains(key))
            }
            (None, Some(_)) => touches_all(parked.command),
            (_, None) => touches_all(later.command),
        }
    }

    /// A connection is gone, and with it the replies of these.
    pub(crate) fn lost_behind(&mut self, id: UpstreamId, lost: &[Run]) {
        for run in lost.iter().filter(|run| !reads(run.command)) {
            let client = self.client_of(run.owner);
            if self.parked.of(client).any(|parked| self.waits_behind(parked, id, run.owner)) {
                let later = self.later(id, run, run.done);
                let overtaken = self.overtaken_by(id, run, later.as_ref());
                self.note_overtaken(client, &overtaken);
            }
        }
    }

    /// What becomes of a parked request by what stood behind it.
    pub(crate) fn look_behind(&self, now: Time, parked: &mut Parked) -> Look {
        let Some(behind) = &mut parked.behind else { return Look::Go };
        if behind.overtook {
            return Look::Overtaken;
        }
        let (id, end) = (behind.upstream, behind.end);
        let Some(upstream) = self.upstreams.get(id) else { return Look::Go };
        if upstream.inflight.place() < end {
            if now < behind.look_at {
                return Look::Wait;
            }
            behind.look_at = now.plus_ms(BEHIND_LOOK_MS);
            if self.is_contended(parked, id) {
                return Look::Wait;
            }
        }
        parked.behind = None;
        Look::Go
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

    /// Whether something that stands behind it on this connection and is not answered yet could overtake it.
    fn is_contended(&self, parked: &Parked, id: UpstreamId) -> bool {
        let Some(upstream) = self.upstreams.get(id) else { return false };
        let overtakes = |run: &Run, nth: u32| {
            let later = self.later(id, run, run.done + nth);
            later.is_none_or(|later| self.conflicts(parked, &later))
        };
        let mut behind =
            upstream.inflight.waiting().filter(|run| self.is_behind(run.owner, parked.owner));
        behind.any(|run| (0..run.count).any(|nth| overtakes(run, nth)))
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
