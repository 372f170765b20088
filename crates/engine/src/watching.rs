//! Requests of a client that watches keys.
//!
//! Requests for the place of the watched keys go over the connection of the watch. Others (keys at several servers, `FLUSHALL`, `DBSIZE`) go over other connections:
//!
//! ```text
//!   WATCH {t}w   SET {t}k 1   FLUSHALL         SET {t}k 2
//!   connection of the watch ┐ └ waits for it ┐ └ waits for FLUSHALL of all servers
//!                           └─ SET {t}k 1    └ all servers
//! ```
//! Not here: the transaction behind (`transaction`), the connection (`lease`).
//!
//! Invariant: a request goes over another connection than the request before only when the client has all replies.

use crate::client::Hold;
use crate::command::ids;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::lease::State;
use crate::local::arity_fits;
use crate::reject;
use crate::request::Step;
use crate::route::Way;
use crate::scatter::Wish;
use crate::time::Time;
use crate::transaction::Queueing;
use crate::upstream::inflight::OwnCommand;

impl Engine {
    /// Sends a request of a client that watches keys over the connection of the watch. Returns `None` for the ordinary way.
    pub(crate) fn while_watching(&mut self, now: Time, wish: &Wish<'_>, way: Way) -> Option<Step> {
        let row = wish.row;
        let ends = matches!(row, Some(ids::UNWATCH | ids::MULTI | ids::WATCH));
        if ends && row.is_some_and(|row| !arity_fits(row, wish.args.len())) {
            return row.map(|row| self.refuse_arity(wish, row));
        }
        match row {
            Some(ids::SELECT) => return self.select_while_watching(now, wish),
            Some(ids::HELLO) if self.hello_changes_protocol(wish) => {
                return Some(self.refuse_text(wish, |out| reject::not_inside(out, "hello")));
            }
            _ if way == Way::Local && row != Some(ids::UNWATCH) => return None,
            _ => {}
        }
        let bound = self.lease_place(wish.id);
        // Split requests go the ordinary way.
        let same_place = self.is_one()
            || self.place_together(wish).is_ok_and(|place| place.is_some() && place == bound);
        let leased = ends
            || way == Way::Apart
            || (same_place && matches!(way, Way::Shared))
            || row.is_none_or(crate::blocking::blocks) && way == Way::Leased;
        if row == Some(ids::WATCH) && !same_place {
            let step = self.place_of_wish(wish).err();
            return step.or_else(|| {
                Some(self.refuse_text(wish, |out| reject::write(out, reject::CROSSSLOT)))
            });
        }
        if !leased {
            return self.goes_beside_watched(wish.id);
        }
        if self.waits_for_beside(wish.id) {
            return Some(Step::Hold(Hold::Drained));
        }
        let upstream = match self.lease_ready(now, wish) {
            Ok(upstream) => upstream,
            Err(step) => return Some(step),
        };
        if way == Way::Shared && self.is_mirrored(row, wish.args) && self.waits_at_gate(wish) {
            return Some(Step::Hold(Hold::Mirror));
        }
        if row.is_none_or(crate::blocking::blocks) && way == Way::Leased {
            return Some(self.block_over_own(now, wish, upstream));
        }
        self.write_leased(now, wish.id, upstream, wish.frame, wish.row, wish.silent);
        match row {
            Some(ids::UNWATCH) => self.set_lease_state(wish.id, State::Ending),
            Some(ids::MULTI) => {
                self.set_lease_state(wish.id, State::Queueing(Queueing::behind_watch()));
            }
            _ => {}
        }
        Some(Step::Done)
    }

    /// A request goes over other connections, and not before the requests under way on this one.
    fn goes_beside_watched(&mut self, id: ClientId) -> Option<Step> {
        let client = self.clients.get_mut(id)?;
        if client.places.open() > 0 {
            return Some(Step::Hold(Hold::Drained));
        }
        client.lease.as_mut()?.has_beside = true;
        None
    }

    /// Whether requests of this client are under way over other connections: a request over this one would overtake these.
    fn waits_for_beside(&mut self, id: ClientId) -> bool {
        let Some(client) = self.clients.get_mut(id) else { return false };
        let is_open = client.places.open() > 0;
        let Some(lease) = client.lease.as_mut().filter(|lease| lease.has_beside) else {
            return false;
        };
        lease.has_beside = is_open;
        is_open
    }

    /// Moves the dedicated connection of the client to another database. The watched keys stay watched.
    fn select_while_watching(&mut self, now: Time, wish: &Wish<'_>) -> Option<Step> {
        let client = self.clients.get(wish.id)?;
        if client.places.open() > 0 {
            return Some(Step::Hold(Hold::Drained));
        }
        let before = client.db;
        let call = crate::local::Call::new(wish.id, ids::SELECT, wish.args, wish.silent);
        if !arity_fits(ids::SELECT, wish.args.len()) {
            return Some(self.refuse_arity(wish, ids::SELECT));
        }
        let step = self.select(now, &call);
        let client = self.clients.get_mut(wish.id)?;
        let db = client.db;
        if db != before
            && let Some(lease) = client.lease.as_mut()
            && let Some(upstream) = lease.upstream
        {
            lease.unclean = true;
            let text = alloc::string::ToString::to_string(&db);
            self.say_own(now, upstream, OwnCommand::State, &[b"SELECT", text.as_bytes()]);
        }
        Some(step)
    }
}
