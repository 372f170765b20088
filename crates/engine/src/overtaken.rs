//! Requests that a server put off while it did what stood behind them.
//!
//! A server that says `TRYAGAIN` (or `LOADING`, …) to one request of a pipeline goes on with the next one. Asked again, the first would then be
//! done behind the second: an `MSET` would undo a later `SET` that its client was told of. So a request that was put off waits until
//! those behind it are answered. A read of the same key is asked again behind it. If a write of the same key was done, the first is not asked
//! again: its client gets the error.
//!
//! ```text
//!   MSET a b ─▶ -TRYAGAIN ─▶ [parked]
//!   GET a    ─▶ "old"  ─────▶ [parked, MSET]               asked again, in this order
//!   SET a    ─▶ +OK    ─────▶ MSET gets its error          if that came behind
//! ```
//! That happens where nobody could know that a server would put something off. While it is known, what a client sends behind a request with
//! several keys waits for its reply (`bar_if_unsettled`), so that nothing is overtaken.
//!
//! Not here: what becomes of a parked request otherwise (`redirect`). `MOVED` and `ASK` are about a key's whole slot, or about a key that the
//! server has not, so it says the same to what stands behind.
//!
//! Invariant: of what its client sent behind a parked request nothing was done that it could still undo.

use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::UNSETTLED_MS;
use crate::redirect::{Parked, keys_in, keys_of_run, reads};
use crate::time::Time;
use crate::upstream::inflight::{Bond, Owner, Run};

/// What stood behind a request when a server put it off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    /// The connection to that server.
    upstream: UpstreamId,
    /// One of them was done that should have come after it.
    overtook: bool,
    /// Some were answered since it was last looked at.
    pub is_due: bool,
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

impl Engine {
    /// A request of this owner was put off over this connection; `None`: nothing of its client stands behind it there.
    pub(crate) fn watch_behind(&mut self, id: UpstreamId, owner: Owner) -> Option<Behind> {
        let any = self.any_behind(id, owner);
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.is_watched |= any;
        }
        any.then_some(Behind { upstream: id, overtook: false, is_due: false })
    }

    fn any_behind(&self, id: UpstreamId, owner: Owner) -> bool {
        let upstream = self.upstreams.get(id);
        upstream.is_some_and(|up| up.inflight.runs().any(|run| self.is_behind(run.owner, owner)))
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

    /// A whole reply came over a watched connection to a read that should have seen what was put off: it is asked again behind that. False: it
    /// stays as it is.
    #[cold]
    pub(crate) fn reads_again(&mut self, now: Time, id: UpstreamId, run: &Run) -> bool {
        let waits_for = |parked: &Parked| {
            parked.behind.is_some_and(|behind| behind.upstream == id && !behind.overtook)
                && self.is_behind(run.owner, parked.owner)
                && self.overtakes(id, run, 0, parked)
        };
        let reads = reads(run.command) && run.bond == Bond::None;
        if !reads || !self.parked.iter().any(waits_for) {
            return false;
        }
        self.park_read(now, id, run)
    }

    /// The front request of a connection was answered and nothing done.
    pub(crate) fn answered_behind_if_watched(&mut self, id: UpstreamId, run: &Run) {
        if self.upstreams.get(id).is_some_and(|upstream| upstream.is_watched) {
            self.answered_behind(id, run, 1, false);
        }
    }

    /// So many requests of the front run of a watched connection are answered, `done` or not.
    #[cold]
    pub(crate) fn answered_behind(&mut self, id: UpstreamId, run: &Run, count: u32, done: bool) {
        let mut parked = core::mem::take(&mut self.parked);
        let mut is_watched = false;
        for other in &mut parked {
            let owner = other.owner;
            let Some(mut behind) = other.behind.filter(|behind| behind.upstream == id) else {
                continue;
            };
            is_watched = true;
            if !self.is_behind(last_of(run, count), owner) {
                continue;
            }
            behind.is_due = true;
            behind.overtook |= done && (0..count).any(|nth| self.overtakes(id, run, nth, other));
            other.behind = Some(behind);
        }
        self.parked = parked;
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.is_watched = is_watched;
        }
    }

    /// Whether this request of the run has a key in common with the parked one, and it matters which is done first.
    fn overtakes(&self, id: UpstreamId, run: &Run, nth: u32, parked: &Parked) -> bool {
        let Some(upstream) = self.upstreams.get(id) else { return true };
        if reads(run.command) && reads(parked.command) && parked.rest.is_empty() {
            return false;
        }
        let own = match parked.rest.is_empty() {
            true => keys_in(&parked.bytes, self.learned.as_ref()),
            // A transaction: any.
            false => alloc::vec![None],
        };
        let other = keys_of_run(upstream, run, run.done + nth, self.learned.as_ref());
        own.contains(&None) || other.contains(&None) || own.iter().any(|key| other.contains(key))
    }

    /// A connection is gone, and with it the replies of these.
    pub(crate) fn lost_behind(&mut self, id: UpstreamId, lost: &[Run]) {
        let mut parked = core::mem::take(&mut self.parked);
        for other in &mut parked {
            let Some(mut behind) = other.behind.filter(|behind| behind.upstream == id) else {
                continue;
            };
            let may_be_done =
                |run: &Run| !reads(run.command) && self.is_behind(run.owner, other.owner);
            behind.is_due = true;
            behind.overtook |= lost.iter().any(may_be_done);
            other.behind = Some(behind);
        }
        self.parked = parked;
    }

    /// What becomes of a parked request by what stood behind it.
    pub(crate) fn look_behind(&self, parked: &mut Parked) -> Look {
        let Some(behind) = &mut parked.behind else { return Look::Go };
        if behind.overtook {
            return Look::Overtaken;
        }
        if self.any_behind(behind.upstream, parked.owner) {
            behind.is_due = false;
            return Look::Wait;
        }
        parked.behind = None;
        Look::Go
    }

    /// A server sent a request on, or put one off: slots or nodes are on the move.
    pub(crate) fn note_unsettled(&mut self, now: Time) {
        self.unsettled_until = now.plus_ms(UNSETTLED_MS);
    }

    /// While slots or nodes are on the move: what this client sends next waits for the reply to what it sends now.
    pub(crate) fn bar_if_unsettled(&mut self, now: Time, id: ClientId) {
        let epoch = self.route_epoch;
        if now < self.unsettled_until
            && let Some(client) = self.clients.get_mut(id)
        {
            client.route_epoch = epoch.wrapping_sub(1);
        }
    }
}

/// Who gets the reply of the last of so many requests.
fn last_of(run: &Run, count: u32) -> Owner {
    match run.owner {
        Owner::Client { id, seq, silent } => {
            Owner::Client { id, seq: seq.wrapping_add(count.saturating_sub(1)), silent }
        }
        owner => owner,
    }
}
