//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: on a connection of the client's own, at the node of its keys.
//!
//! What stands between MULTI and EXEC goes to the server as it comes, so each `QUEUED` and each refusal is the server's. With one server that
//! is all. With several the node is known with the first key:
//!
//! ```text
//!   MULTI      +OK     here; no node yet
//!   PING       +QUEUED here; kept
//!   SET a 1            node of a ─▶ MULTI, PING, SET a 1 in one write; the reply to SET is awaited: it may be a redirect, and then
//!                      nothing has happened and all goes to another node
//!   SET b 2            the same node, or CROSSSLOT, and EXEC is EXECABORT
//!   EXEC               over the same connection, which is free again with the reply
//! ```
//! What only the proxy answers (CLIENT, HELLO, SUBSCRIBE) it does with EXEC (`inside`).
//! SELECT is the server's, and when EXEC was done the client is in that database.
//!
//! A lost connection takes the transaction along: what follows gets the error, EXEC is EXECABORT. Of watched keys the next MULTI tells it. When the
//! watched keys moved to another node EXEC answers null, as if they had changed: the client begins again and finds them.
//!
//! Not here: the connection (`lease`).
//!
//! Invariant: a client whose lease is `Queueing` without an upstream has nothing at any server.

mod answers;

use crate::account::KeptFrames;
use crate::client::Hold;
use crate::command::{CommandId, Flags, ids};
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::inside::Standing;
use crate::lease::{Lease, State, Use, Way as LeaseWay};
use crate::limits::UNSENT_BYTES_MAX;
use crate::local::arity_fits;
use crate::reject;
use crate::request::Step;
use crate::route::{self, Way};
use crate::scatter::{Wish, counted, keys_of};
use crate::server_loss::Failure;
use crate::time::Time;
use crate::topology::Place;
use crate::upstream::inflight::OwnCommand;
use alloc::boxed::Box;
use alloc::vec::Vec;
use resp::encode;

/// Between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Queueing {
    /// What was answered with QUEUED here, as no key has told the node yet.
    unsent: KeptFrames<()>,
    /// Commands that stand in it.
    pub(crate) queued: u32,
    /// Something was refused here: EXEC is EXECABORT.
    pub(crate) refused: bool,
    /// What its user may do is other than when this was queued, and it is not looked at again: EXEC is EXECABORT.
    rules_changed: bool,
    /// Keys were watched before.
    watched: bool,
    /// What is queued writes.
    writes: bool,
    /// `WAIT` or `WAITAOF` is queued.
    waits: bool,
}

impl Queueing {
    /// `MULTI` of a client that watches keys.
    pub(crate) fn behind_watch() -> Self {
        Self { watched: true, ..Self::default() }
    }

    /// Memory for the commands that were not sent.
    pub(crate) fn held_bytes(&self) -> usize {
        self.unsent.held_bytes()
    }

    /// See [`Lease::holds`].
    pub(crate) fn holds(&self) -> (i64, u8) {
        (i64::from(self.queued), u8::from(self.watched))
    }
}

/// What was refused in a transaction, for its error.
pub(crate) enum Refusal {
    Text(&'static str),
    /// The whole error, as it is sent.
    Error(Vec<u8>),
    Arity(&'static str),
    Unknown,
    NotInside(&'static str),
    /// A command with the servers' flag `no_multi`: `EXEC` is `EXECABORT`.
    NoMulti(&'static str),
    OwnConnection(&'static str),
    UnknownSub(&'static str),
    Never(&'static str),
}

impl Engine {
    /// A command that takes a connection of its own, of a client that has none.
    pub(crate) fn begin_leased(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        if let Some(row) = wish.row.filter(|row| !arity_fits(*row, wish.args.len())) {
            return self.refuse_arity(wish, row);
        }
        // A lease begins after the replies to all earlier requests of its client, such as a whole transaction (`whole`).
        if self.clients.get(wish.id).is_some_and(|client| client.places.open() > 0) {
            return Step::Hold(Hold::Drained);
        }
        // Learnt from the server: it blocks.
        let Some(row) = wish.row else { return self.block(now, wish) };
        match row {
            ids::MULTI => self.begin_multi(now, wish),
            ids::WATCH => self.begin_watch(now, wish),
            _ if crate::blocking::blocks(row) => self.block(now, wish),
            _ => {
                self.stats.command(wish.row).rejected += 1;
                self.reply(wish.id, wish.silent, |out| {
                    reject::needs_own_connection(out, row.name());
                });
                Step::Done
            }
        }
    }

    pub(crate) fn refuse_arity(&mut self, wish: &Wish<'_>, row: CommandId) -> Step {
        self.stats.command(wish.row).rejected += 1;
        self.reply(wish.id, wish.silent, |out| reject::arity(out, row.name()));
        Step::Done
    }

    fn begin_multi(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let state = State::Queueing(Queueing::default());
        if !self.is_one() {
            self.stats.command(wish.row).calls += 1;
            self.set_lease_state(wish.id, state);
            return self.say_ok(wish);
        }
        self.open_lease(now, wish, None, state)
    }

    /// A transaction that cannot be done. MULTI is accepted, and EXEC is EXECABORT: requests behind MULTI in one packet would be done by themselves if MULTI were refused.
    fn begin_in_vain(&mut self, wish: &Wish<'_>, error: Vec<u8>) -> Step {
        self.set_lease_state(wish.id, State::Lost { error, queueing: true });
        self.say_ok(wish)
    }

    fn begin_watch(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let place = match self.place_of_wish(wish) {
            Ok(place) => place,
            Err(step) => return step,
        };
        let step = self.open_lease(now, wish, place, State::Watching);
        if step == Step::Done && !self.is_one() {
            self.await_replies(wish.id);
        }
        step
    }

    /// Takes a connection for the client and sends its first request over it.
    fn open_lease(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        place: Option<Place>,
        state: State,
    ) -> Step {
        let node = match self.node_of(now, wish) {
            Ok(node) => node,
            Err(step) => return step,
        };
        match self.lease_to(now, wish.id, node, Use::Short) {
            LeaseWay::Hold(hold) => Step::Hold(hold),
            LeaseWay::Down(error) => {
                self.drop_lease(wish.id);
                match wish.row {
                    Some(ids::MULTI) if !self.ends_by(&error) => {
                        self.begin_in_vain(wish, error.to_vec())
                    }
                    _ => self.refuse_leased(now, wish, node, &error),
                }
            }
            LeaseWay::Ready(upstream) => {
                self.renew_lease(wish.id);
                self.write_leased(now, wish.id, upstream, wish.frame, wish.row, wish.silent);
                self.set_lease_state(wish.id, state);
                self.set_lease_place(wish.id, place);
                Step::Done
            }
        }
    }

    /// A request of a client that has a lease. `None`: it is not concerned.
    pub(crate) fn in_lease(&mut self, now: Time, wish: &Wish<'_>, way: Way) -> Option<Step> {
        if wish.row == Some(ids::QUIT) {
            return None;
        }
        let client = self.clients.get(wish.id)?;
        let open = client.places.open() > 0;
        if wish.row == Some(ids::RESET) && arity_fits(ids::RESET, wish.args.len()) {
            if open {
                // With the connection the replies would go that are still to come over it.
                return Some(Step::Hold(Hold::Drained));
            }
            self.drop_lease(wish.id);
            return None;
        }
        match &client.lease.as_ref()?.state {
            // Its own connection may still be busy: what comes next must not overtake that.
            State::Once | State::Ending if open => Some(Step::Hold(Hold::Drained)),
            State::Once | State::Ending => {
                self.end_answered_lease(wish.id);
                None
            }
            State::Watching => self.while_watching(now, wish, way),
            State::Queueing(_) => Some(self.while_queueing(now, wish, way)),
            State::Lost { error, queueing } => {
                let (error, queueing) = (error.clone(), *queueing);
                self.after_loss(wish, &error, queueing)
            }
        }
    }

    /// Whether this client's EXEC is not answered yet. Nothing behind it is looked at: with EXEC the client may become another user, or stop wanting replies.
    #[inline]
    pub(crate) fn waits_for_exec(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|client| {
            client.lease.as_ref().is_some_and(|lease| lease.is_ending()) && client.places.open() > 0
        })
    }

    fn while_queueing(&mut self, now: Time, wish: &Wish<'_>, way: Way) -> Step {
        if let Some(row @ (ids::EXEC | ids::DISCARD | ids::MULTI | ids::WATCH | ids::RESET)) =
            wish.row
            && !arity_fits(row, wish.args.len())
        {
            if row == ids::EXEC {
                self.abandon(now, wish.id);
                return self.refuse_text(wish, |out| reject::write(out, reject::EXEC_ARITY));
            }
            return self.refuse_inside(wish, Refusal::Arity(row.name()));
        }
        match wish.row {
            Some(ids::EXEC) => return self.exec(now, wish),
            Some(ids::DISCARD) => return self.discard(now, wish),
            _ if self.own(wish.id).is_some_and(|own| own.changes_user) => {
                // The rights of the user that the client is with EXEC would not be looked at.
                return self.refuse_inside(wish, Refusal::Text(reject::BEHIND_AUTH));
            }
            _ => {}
        }
        let (frame, is_own) = match self.stand_in(now, wish) {
            Ok(Standing::StandIn(frame)) => (frame, true),
            Ok(Standing::Reworded(frame)) => (frame, false),
            Ok(Standing::Servers) => {
                return match self.not_inside(wish, way) {
                    Some(refusal) => self.refuse_inside(wish, refusal),
                    None => self.queue_inside(now, wish, None),
                };
            }
            Err(step) => return step,
        };
        let args: Vec<&[u8]> = resp::Args::new(&frame).collect();
        let row = crate::command::lookup(args[0]);
        let sent = Wish { frame: &frame, args: &args, row, ..*wish };
        self.queue_inside(now, &sent, is_own.then_some(wish))
    }

    /// One more command for a transaction. `own`: what it stands in for.
    fn queue_inside(&mut self, now: Time, wish: &Wish<'_>, own: Option<&Wish<'_>>) -> Step {
        let place = match self.place_inside(wish) {
            Ok(place) => place,
            Err(refusal) => return self.refuse_inside(wish, refusal),
        };
        let selected = match self.selected_inside(now, wish) {
            Ok(selected) => selected,
            Err(step) => return step,
        };
        let bound = self.clients.get(wish.id).and_then(|client| client.lease.as_ref()?.upstream);
        let step = match (bound, place) {
            (Some(_), _) if self.is_placed(wish.id) => self.queue(now, wish),
            (_, Some(place)) => self.bind(now, wish, place),
            (_, None) => self.keep_unsent(wish),
        };
        if step == Step::Done && wish.row == Some(ids::SELECT) {
            self.note_selected(wish.id, selected);
        }
        let writes = self.writes(wish.row, wish.args);
        if step == Step::Done
            && !matches!(wish.row, Some(ids::MULTI | ids::WATCH))
            && let Some(State::Queueing(queueing)) = self.lease_state(wish.id)
            && !queueing.refused
        {
            let index = queueing.queued as usize;
            queueing.queued += 1;
            queueing.writes |= writes;
            queueing.waits |= crate::blocking::counts_copies(wish.row);
            if self.has_mirrors() && own.is_none() {
                self.queue_for_mirrors(wish, index);
            }
            self.queued_inside(own.unwrap_or(wish), index, own.is_some());
        }
        step
    }

    /// The database that a SELECT in a transaction leads to when EXEC comes; `None`: it is no SELECT, or will be an error of the server's.
    /// Nobody looks into the answer to EXEC, which may be large, so it is found out before.
    fn selected_inside(&mut self, now: Time, wish: &Wish<'_>) -> Result<Option<u32>, Step> {
        let (Some(ids::SELECT), [_, db]) = (wish.row, wish.args) else { return Ok(None) };
        let db = resp::number::parse_i64(db).filter(|db| i32::try_from(*db).is_ok());
        let Some(db) = db.and_then(|db| u32::try_from(db).ok()) else { return Ok(None) };
        let Some(client) = self.clients.get(wish.id) else { return Err(Step::Gone) };
        if self.router.has_cluster() || db == client.db {
            return Ok((db == client.db).then_some(db));
        }
        let protocol = client.protocol;
        match self.probe(now, protocol, db, wish.id) {
            Availability::Ready(_) => Ok(Some(db)),
            Availability::Wait(upstream) => Err(Step::Hold(Hold::Upstream(upstream))),
            Availability::Down(_) if self.forget_refused(protocol, db) => Ok(None),
            Availability::Down(error) => {
                self.mark_refused(wish.id);
                Err(self.refuse_failure(wish, &error))
            }
        }
    }

    /// What cannot be between MULTI and EXEC.
    fn not_inside(&self, wish: &Wish<'_>, way: Way) -> Option<Refusal> {
        let row = wish.row;
        let name = row.map_or("command", CommandId::name);
        match row {
            Some(ids::PING | ids::ECHO | ids::INFO | ids::UNWATCH | ids::SELECT) => None,
            // The server's own errors, without harm to the transaction.
            Some(ids::MULTI | ids::WATCH) if self.is_placed(wish.id) => None,
            // Valkey 8.0 gave both the flag `no_multi`.
            Some(ids::MULTI | ids::WATCH) if self.facts.is_valkey_since(8, 0) => {
                Some(Refusal::NoMulti(name))
            }
            Some(ids::MULTI) => Some(Refusal::Text(reject::NESTED_MULTI)),
            Some(ids::WATCH) => Some(Refusal::Text(reject::WATCH_INSIDE)),
            _ if self.hides_cluster(row) => Some(Refusal::NotInside(name)),
            // Blocking commands do not wait in a transaction, those of modules included.
            row if way == Way::Leased && row.is_none_or(crate::blocking::blocks) => None,
            // Known before the server is.
            Some(row) if row.row().flags.has(Flags::NO_MULTI) => Some(Refusal::NoMulti(name)),
            _ => match way {
                Way::Shared | Way::Control => None,
                // The connection is its own, and nobody else gets it afterwards.
                Way::Apart => None,
                Way::Unknown => Some(Refusal::Unknown),
                Way::Refused => Some(Refusal::Never(name)),
                Way::Leased => Some(Refusal::OwnConnection(name)),
                Way::Local | Way::Http => Some(Refusal::NotInside(name)),
            },
        }
    }

    /// Where the keys of a command in a transaction lie: with the others.
    fn place_inside(&self, wish: &Wish<'_>) -> Result<Option<Place>, Refusal> {
        let place = self.place_together(wish)?;
        let bound = self.lease_place(wish.id);
        match (place, bound) {
            (Some(place), Some(bound)) if place != bound => Err(Refusal::Text(reject::CROSSSLOT)),
            _ => Ok(place),
        }
    }

    /// Whether the transaction is at its node.
    fn is_placed(&self, id: ClientId) -> bool {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        lease.is_some_and(|lease| {
            // A connection that was just made may wait for its greeting: nothing was said over it.
            let is_begun = lease.place.is_some() || (self.is_one() && lease.sent > 0);
            lease.upstream.is_some() && is_begun
        })
    }

    /// One more command for a transaction that is at its node.
    fn queue(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        match self.lease_ready(now, wish) {
            Ok(upstream) => {
                self.write_leased(now, wish.id, upstream, wish.frame, wish.row, wish.silent);
                Step::Done
            }
            Err(step) => step,
        }
    }

    /// The first command that tells the node: all goes there.
    fn bind(&mut self, now: Time, wish: &Wish<'_>, place: Place) -> Step {
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        if client.places.open() > 0 {
            return Step::Hold(Hold::Drained);
        }
        let Some(node) = self.router.node(place) else {
            let step = self.unserved_step(now, wish.id, place.pool, wish.silent);
            if step == Step::Done {
                self.mark_refused(wish.id);
            }
            return step;
        };
        match self.lease_to(now, wish.id, node, Use::Short) {
            LeaseWay::Hold(hold) => Step::Hold(hold),
            LeaseWay::Down(error) => {
                let step = self.refuse_leased(now, wish, node, &error);
                if step == Step::Done {
                    self.mark_refused(wish.id);
                }
                step
            }
            LeaseWay::Ready(upstream) => {
                self.begin_at(now, wish.id, upstream);
                self.write_leased(now, wish.id, upstream, wish.frame, wish.row, wish.silent);
                self.set_lease_place(wish.id, Some(place));
                self.await_replies(wish.id);
                Step::Done
            }
        }
    }

    /// MULTI and what was kept, to the node that is known now.
    pub(crate) fn begin_at(&mut self, now: Time, id: ClientId, upstream: UpstreamId) {
        self.say_own(now, upstream, OwnCommand::Multi, &[b"MULTI"]);
        if let Some(lease) = self.clients.get_mut(id).and_then(|client| client.lease.as_mut()) {
            // A refused MULTI of respool loses the connection and the lease (`own_reply`).
            lease.queues = true;
        }
        let Some(State::Queueing(queueing)) = self.lease_state(id) else { return };
        let frames: Vec<Vec<u8>> = queueing.unsent.iter().map(|(_, frame)| frame.clone()).collect();
        for frame in frames {
            let Some(up) = self.upstreams.get_mut(upstream) else { return };
            let at = up.append(&mut self.pool, &frame);
            self.sent_own(now, upstream, at, &[OwnCommand::Aside]);
        }
    }

    /// No key has told the node yet.
    fn keep_unsent(&mut self, wish: &Wish<'_>) -> Step {
        let known = wish.row.is_some()
            || self.learned.as_ref().is_some_and(|learned| learned.lookup(wish.args[0]).is_some());
        if !known {
            return self.refuse_inside(wish, Refusal::Unknown);
        }
        if let Some(row) = wish.row.filter(|row| !arity_fits(*row, wish.args.len())) {
            return self.refuse_inside(wish, Refusal::Arity(row.name()));
        }
        let Some(State::Queueing(queueing)) = self.lease_state(wish.id) else { return Step::Gone };
        if queueing.unsent.frame_bytes() + wish.frame.len() > UNSENT_BYTES_MAX {
            return self.refuse_inside(wish, Refusal::Text(reject::UNSENT_MAX));
        }
        queueing.unsent.push((), wish.frame.to_vec());
        self.account_rest(wish.id);
        self.stats.command(counted(wish.row, wish.frame)).calls += 1;
        self.reply(wish.id, wish.silent, |out| encode::simple(out, b"QUEUED"));
        Step::Done
    }

    fn exec(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let placed = self.is_placed(wish.id);
        let Some(State::Queueing(queueing)) = self.lease_state(wish.id) else { return Step::Gone };
        let (refused, waits) = (queueing.refused, queueing.waits);
        let empty = queueing.unsent.is_empty();
        let rules_changed = queueing.rules_changed && queueing.queued > 0;
        if rules_changed && !refused {
            self.abandon(now, wish.id);
            return self.refuse_text(wish, |out| reject::write(out, reject::EXEC_RULES_CHANGED));
        }
        if refused {
            self.abandon(now, wish.id);
            return self.refuse_text(wish, |out| reject::write(out, reject::EXECABORT));
        }
        if waits && let Some(failure) = self.refuses_count(now, wish.id) {
            self.abandon(now, wish.id);
            return self.refuse_failure(wish, &failure);
        }
        if placed {
            return self.end_over(now, wish);
        }
        if empty {
            self.drop_lease(wish.id);
            self.stats.command(wish.row).calls += 1;
            self.reply(wish.id, wish.silent, |out| encode::array(out, 0));
            return Step::Done;
        }
        // Nothing in it has a key: any node will do.
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        if client.places.open() > 0 {
            return Step::Hold(Hold::Drained);
        }
        let Some(node) = self.router.any_node() else {
            let step = self.unserved_step(now, wish.id, 0, wish.silent);
            if step == Step::Done {
                self.drop_lease(wish.id);
            }
            return step;
        };
        match self.lease_to(now, wish.id, node, Use::Short) {
            LeaseWay::Hold(hold) => Step::Hold(hold),
            LeaseWay::Down(error) => {
                let step = self.refuse_leased(now, wish, node, &error);
                if step == Step::Done {
                    self.drop_lease(wish.id);
                }
                step
            }
            LeaseWay::Ready(upstream) => {
                self.begin_at(now, wish.id, upstream);
                self.end_over(now, wish)
            }
        }
    }

    fn discard(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        if self.is_placed(wish.id) {
            return self.end_over(now, wish);
        }
        self.drop_lease(wish.id);
        self.stats.command(wish.row).calls += 1;
        self.say_ok(wish)
    }

    /// EXEC or DISCARD goes to the server; with the reply the lease ends.
    fn end_over(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        if wish.row == Some(ids::EXEC) && self.exec_waits_at_gate(wish.id) {
            return Step::Hold(Hold::Mirror);
        }
        let step = self.queue(now, wish);
        if step == Step::Done {
            let watched = matches!(
                self.lease_state(wish.id),
                Some(State::Queueing(Queueing { watched: true, .. }))
            );
            self.set_lease_state(wish.id, State::Ending);
            if let Some(lease) =
                self.clients.get_mut(wish.id).and_then(|client| client.lease.as_mut())
            {
                lease.watched = watched;
            }
        }
        step
    }

    /// What was queued at the server is thrown away.
    pub(crate) fn abandon(&mut self, now: Time, id: ClientId) {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        let queues = lease.is_some_and(|lease| lease.queues);
        match lease.and_then(|lease| lease.upstream) {
            Some(upstream) if self.is_placed(id) => {
                self.renew_lease(id);
                // The error for a nested MULTI may arrive later.
                if let Some(lease) = self.clients.get_mut(id).and_then(|one| one.lease.as_mut()) {
                    lease.queues = queues;
                }
                self.say_own(now, upstream, OwnCommand::State, &[b"DISCARD"]);
            }
            _ => self.drop_lease(id),
        }
    }

    /// Whether this client is between MULTI and EXEC.
    pub(crate) fn is_queueing(&self, id: ClientId) -> bool {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        lease.is_some_and(|lease| matches!(lease.state, State::Queueing(_)))
    }

    /// Whether EXEC of this client would write.
    pub(crate) fn queues_writes(&self, id: ClientId) -> bool {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        lease.is_some_and(|lease| match &lease.state {
            State::Queueing(queueing) => queueing.writes,
            _ => false,
        })
    }

    /// The request of a lease begins again over this connection.
    pub(crate) fn begin_again_at(
        &mut self,
        now: Time,
        id: ClientId,
        upstream: UpstreamId,
        command: Option<CommandId>,
        request: &[u8],
    ) {
        let args: Vec<&[u8]> = resp::Args::new(request).collect();
        if self.is_queueing(id) {
            self.begin_at(now, id, upstream);
        }
        if let Some(lease) = self.clients.get_mut(id).and_then(|client| client.lease.as_mut()) {
            lease.sent = 1;
        }
        let key = keys_of(&args, self.learned.as_ref()).first().map(|(_, key)| *key);
        self.set_lease_place(id, key.map(|key| self.router.place(key)));
        self.expect_late(now, upstream, command, &args);
    }

    /// No server took the request of a lease: what it was for is over.
    pub(crate) fn lease_given_up(&mut self, id: ClientId) {
        match self.lease_state(id) {
            Some(State::Queueing(queueing)) => queueing.refused = true,
            Some(_) => self.drop_lease(id),
            None => {}
        }
    }

    /// What a client gets whose connection was lost.
    fn after_loss(&mut self, wish: &Wish<'_>, error: &[u8], queueing: bool) -> Option<Step> {
        match (queueing, wish.row) {
            (true, Some(ids::EXEC)) => {
                self.drop_lease(wish.id);
                return Some(self.refuse_text(wish, |out| reject::write(out, reject::EXECABORT)));
            }
            (true, Some(ids::DISCARD)) | (false, Some(ids::UNWATCH)) => {
                self.drop_lease(wish.id);
                return Some(self.say_ok(wish));
            }
            (true, _) => {}
            // What was watched is not any more, and a transaction must not go on as if it were.
            (false, Some(ids::MULTI)) => return Some(self.begin_in_vain(wish, error.to_vec())),
            (false, Some(ids::WATCH)) => self.drop_lease(wish.id),
            (false, _) => return None,
        }
        Some(self.refuse_text(wish, |out| out.extend_from_slice(error)))
    }

    /// The client's own connection, if it takes another request now.
    pub(crate) fn lease_ready(&mut self, now: Time, wish: &Wish<'_>) -> Result<UpstreamId, Step> {
        let upstream = self.clients.get(wish.id).and_then(|client| client.lease.as_ref()?.upstream);
        let Some(upstream) = upstream else { return Err(Step::Gone) };
        match self.availability(now, upstream) {
            Availability::Ready(upstream) => Ok(upstream),
            Availability::Wait(upstream) => Err(Step::Hold(Hold::Upstream(upstream))),
            Availability::Down(error) => Err(self.refuse_failure(wish, &error)),
        }
    }

    pub(crate) fn refuse_inside(&mut self, wish: &Wish<'_>, refusal: Refusal) -> Step {
        // As in a server: these two are told and change nothing.
        if !matches!(refusal, Refusal::Text(reject::NESTED_MULTI | reject::WATCH_INSIDE)) {
            self.mark_refused(wish.id);
        }
        let names_no_multi = self.facts.is_valkey_since(9, 1);
        let mut unknown = Vec::new();
        if matches!(refusal, Refusal::Unknown) {
            let learned = self.learned.as_ref();
            let known = route::classify(wish.args.len(), |n| wish.args[n], learned);
            self.write_unknown(&mut unknown, &known, wish.args);
        }
        self.refuse_text(wish, |out| match refusal {
            Refusal::Text(text) => reject::write(out, text),
            Refusal::Error(error) => out.extend_from_slice(&error),
            Refusal::Arity(name) => reject::arity(out, name),
            Refusal::Unknown => out.extend_from_slice(&unknown),
            Refusal::NotInside(name) => reject::not_inside(out, name),
            Refusal::NoMulti(name) if names_no_multi => reject::no_multi(out, name),
            Refusal::NoMulti(_) => reject::write(out, reject::NO_MULTI),
            Refusal::OwnConnection(name) => reject::needs_own_connection(out, name),
            Refusal::UnknownSub(name) => reject::unknown_subcommand(out, name, wish.args[1]),
            Refusal::Never(name) => reject::refused(out, name),
        })
    }

    pub(crate) fn refuse_text(
        &mut self,
        wish: &Wish<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Step {
        self.stats.command(wish.row).rejected += 1;
        self.reply(wish.id, wish.silent, write);
        Step::Done
    }

    pub(crate) fn refuse_failure(&mut self, wish: &Wish<'_>, failure: &Failure) -> Step {
        self.stats.command(wish.row).rejected += 1;
        self.reply_failure(wish.id, wish.silent, failure);
        Step::Done
    }

    fn say_ok(&mut self, wish: &Wish<'_>) -> Step {
        self.reply(wish.id, wish.silent, |out| encode::simple(out, b"OK"));
        Step::Done
    }

    pub(crate) fn mark_refused(&mut self, id: ClientId) {
        if let Some(State::Queueing(queueing)) = self.lease_state(id) {
            queueing.refused = true;
        }
    }

    /// The rules for its user are other than when its transaction began.
    pub(crate) fn mark_rules_changed(&mut self, id: ClientId) {
        if let Some(State::Queueing(queueing)) = self.lease_state(id) {
            queueing.rules_changed = true;
        }
    }

    /// Nothing more of the client goes out before what is under way is answered.
    fn await_replies(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.hold = Hold::Drained;
        }
    }

    fn lease_state(&mut self, id: ClientId) -> Option<&mut State> {
        Some(&mut self.clients.get_mut(id)?.lease.as_mut()?.state)
    }

    pub(crate) fn lease_place(&self, id: ClientId) -> Option<Place> {
        self.clients.get(id)?.lease.as_ref()?.place
    }

    pub(crate) fn set_lease_state(&mut self, id: ClientId, state: State) {
        let Some(client) = self.clients.get_mut(id) else { return };
        match &mut client.lease {
            Some(lease) => lease.state = state,
            None => client.lease = Some(Box::new(Lease::new(state))),
        }
        self.account_rest(id);
    }

    fn set_lease_place(&mut self, id: ClientId, place: Option<Place>) {
        if let Some(lease) = self.clients.get_mut(id).and_then(|client| client.lease.as_mut()) {
            lease.place = place;
        }
    }
}
