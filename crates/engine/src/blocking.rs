//! Commands that wait at the server until something comes: each goes over a connection of its own.
//!
//! The client is held until the reply, as it is at a server; other clients go on. How long the reply may take is what the client said: our own
//! timeout of requests begins only behind that. When the client goes, its connection goes at once, and nothing is popped for
//! nobody.
//!
//! WAIT and WAITAOF count copies of the client's writes over another connection (`write_offset`).
//!
//! A server that becomes a replica cuts all waits short (`-UNBLOCKED force …`) and ends the connections. It took nothing for them, so such a command
//! begins again at the new primary, as after `MOVED`, and its time anew.
//!
//! Not here: the lease itself (`lease`), how a request is sent on (`redirect`).
//!
//! Invariant: a client has at most one blocking command under way, and nothing else beside it.

use crate::client::Hold;
use crate::command::waits::{Waits, may_wait, waits};
use crate::command::{Class, CommandId, Flags, ids};
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::lease::{Use, Way};
use crate::parked::Parked;
use crate::reject;
use crate::request::Step;
use crate::scatter::Wish;
use crate::server_loss::Failure;
use crate::time::Time;
use crate::trust::Verdict;
use crate::upstream::Role;
use crate::upstream::inflight::Run;
use alloc::collections::BTreeSet;
use resp::Args;

/// How a server that becomes a replica ends a wait. What `CLIENT UNBLOCK` ends begins otherwise.
pub(crate) const CUT_SHORT: &[u8] = b"-UNBLOCKED force unblock from blocking operation";

/// Whether this command waits at the server.
pub(crate) fn blocks(command: CommandId) -> bool {
    may_wait(command)
}

/// Whether this command counts the replicas that have the writes of a connection.
pub(crate) fn counts_copies(row: Option<CommandId>) -> bool {
    matches!(row, Some(ids::WAIT | ids::WAITAOF))
}

impl Engine {
    /// A blocking command.
    pub(crate) fn block(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        if let Some(step) = self.unless_there(wish.id) {
            return step;
        }
        let waits = counts_copies(wish.row);
        if waits && let Some(failure) = self.unconfirmed(now, wish.id) {
            return self.refuse_failure(wish, &failure);
        }
        if waits && !self.is_one() && self.router.primaries().len() != 1 {
            return self.wait_everywhere(now, wish);
        }
        let node = match self.node_of(now, wish) {
            Ok(node) => node,
            Err(step) => return step,
        };
        match self.lease_to(now, wish.id, node, Use::Blocking) {
            Way::Hold(hold) => Step::Hold(hold),
            Way::Down(error) => self.refuse_leased(now, wish, node, &error),
            Way::Ready(upstream) => {
                if waits {
                    self.move_write_offset(now, upstream);
                }
                self.write_blocking(now, wish, upstream);
                Step::Done
            }
        }
    }

    /// A blocking command of a client that watches keys: over the connection that it has, which is one of those that wait from now on.
    pub(crate) fn block_over_own(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        upstream: crate::UpstreamId,
    ) -> Step {
        if let Some(step) =
            self.unless_there(wish.id).or_else(|| self.unless_beside_watched(wish, upstream))
        {
            return step;
        }
        match self.begin_blocking(now, wish.id, upstream) {
            None | Some(Way::Ready(_)) => {
                if counts_copies(wish.row) {
                    self.move_write_offset(now, upstream);
                }
                self.write_blocking(now, wish, upstream);
                Step::Done
            }
            Some(Way::Hold(hold)) => Step::Hold(hold),
            Some(Way::Down(error)) => self.refuse_failure(wish, &error),
        }
    }

    /// Closes a client that has ended its stream, or was told to go, before its blocking command began: the element that the command would wait for must go
    /// to another client.
    fn unless_there(&mut self, id: crate::ClientId) -> Option<Step> {
        let ended = self.clients.get(id).is_none_or(|client| client.eof || client.closing);
        ended.then(|| {
            self.begin_close(id);
            Step::Gone
        })
    }

    /// Refuses a blocking command with keys at another server than the watched ones: the client has one dedicated connection, and the watch ends with it.
    fn unless_beside_watched(
        &mut self,
        wish: &Wish<'_>,
        watching: crate::UpstreamId,
    ) -> Option<Step> {
        let place = match self.place_together(wish) {
            Ok(place) => place?,
            Err(refusal) => return Some(self.refuse_inside(wish, refusal)),
        };
        let node = self.upstreams.get(watching)?.key.node;
        let is_there =
            self.lease_place(wish.id) == Some(place) || self.router.node(place) == Some(node);
        (!is_there).then(|| self.refuse_text(wish, |out| reject::write(out, reject::CROSSSLOT)))
    }

    /// What the end of a wait is that its server cut short: the client's reply, or a redirect to a server that is still to be found.
    pub(crate) fn judge_cut(&self, asked: NodeId, run: &Run, request: &[u8]) -> Verdict {
        let place = self.place_of(request).filter(|_| may_begin_again(run.command, request));
        match place.is_some_and(|place| self.may_find_another_owner(place, asked)) {
            true => Verdict::Server,
            false => Verdict::Data,
        }
    }

    /// Writes a command that may wait; its client is held until the reply.
    pub(crate) fn write_blocking(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        upstream_id: crate::UpstreamId,
    ) {
        self.write_leased(now, wish.id, upstream_id, wish.frame, wish.row, wish.silent);
        self.note_awaited(wish.id, wish.frame);
        self.expect_late(now, upstream_id, wish.row, wish.args);
        if let Some(client) = self.clients.get_mut(wish.id) {
            debug_assert!(!client.eof, "a client that has ended its stream waits at a server");
            client.hold = Hold::Drained;
        }
    }

    /// Whether this client waits for the reply to a blocking command, which is at a server or on its way to another one.
    pub(crate) fn is_blocked(&self, id: crate::ClientId) -> bool {
        let Some(client) = self.clients.get(id) else { return false };
        let upstream = client.lease.as_ref().and_then(|lease| lease.upstream);
        let upstream = upstream.and_then(|upstream| self.upstreams.get(upstream));
        client.places.open() > 0
            && (upstream.is_some_and(|up| up.no_reply_before.is_some())
                || self.is_on_errands(id)
                || self.has_parked_wait(id))
    }

    /// Whether a blocking command of this client is parked. A command inside a transaction does not block its client.
    fn has_parked_wait(&self, id: crate::ClientId) -> bool {
        let blocks = |parked: &Parked| match (parked.command, Args::new(&parked.bytes).next()) {
            (Some(row), _) => blocks(row),
            (None, Some(name)) => self.is_learned_and_leased(name),
            (None, None) => false,
        };
        !self.is_queueing(id)
            && self.parked.of(Some(id)).any(|one| one.leased && one.rest.is_empty() && blocks(one))
    }

    /// Whether the servers' own table has this command, and respool gives it a connection of its own, on which it may wait.
    fn is_learned_and_leased(&self, name: &[u8]) -> bool {
        let learned = self.learned.as_ref().and_then(|learned| learned.lookup(name));
        learned.is_some_and(|command| command.class == Class::Leased)
    }

    /// How many clients are blocked as a server counts them: they wait for the reply to a blocking command, or for the end
    /// of a pause. One pass, whatever their number.
    pub(crate) fn blocked_clients(&self) -> u64 {
        let waits = |up: &crate::upstream::Upstream| match up.role {
            Role::Leased(id) | Role::Errand(id) if up.no_reply_before.is_some() => Some(id),
            _ => None,
        };
        let clients: BTreeSet<_> = self.upstreams.iter().filter_map(|(_, up)| waits(up)).collect();
        let open = |id: &crate::ClientId| {
            self.clients.get(*id).is_some_and(|client| client.places.open() > 0)
        };
        (clients.iter().filter(|id| open(id)).count() + self.paused_clients.len()) as u64
    }

    /// The timeout of requests begins behind what the client said.
    pub(crate) fn expect_late(
        &mut self,
        now: Time,
        upstream_id: crate::UpstreamId,
        row: Option<CommandId>,
        args: &[&[u8]],
    ) {
        let may_wait = match row {
            Some(row) => blocks(row),
            None => self.is_learned_and_leased(args[0]),
        };
        if !may_wait {
            return;
        }
        let until = match row.map(|command| waits(command, args.iter().copied())) {
            Some(Waits::No) => now,
            Some(Waits::For(ms)) => now.plus_ms(ms),
            // Of one that the table does not know nobody knows how long it may take.
            Some(Waits::Forever) | None => Time(u64::MAX),
        };
        if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            upstream.no_reply_before = Some(until);
        }
    }

    /// The node of a command that takes a connection of its own; `Err`: what becomes of it instead.
    pub(crate) fn node_of(&mut self, now: Time, wish: &Wish<'_>) -> Result<crate::NodeId, Step> {
        let place = self.place_of_wish(wish)?;
        let (node, pool) = match place {
            Some(place) => (self.router.node(place), place.pool),
            None => (self.router.any_node(), 0),
        };
        node.ok_or(()).map_err(|()| self.unserved_step(now, wish.id, pool, wish.silent))
    }

    /// There is no connection for this command.
    pub(crate) fn refuse_leased(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        node: crate::NodeId,
        error: &Failure,
    ) -> Step {
        if !self.is_one()
            && let Some(hold) = self.hold_for_failover(now, node)
        {
            return Step::Hold(hold);
        }
        self.refuse_failure(wish, error)
    }
}

/// Whether a wait that was cut short can begin again without missing anything. From `$` on, `XREAD` would miss what came to the new primary
/// meanwhile.
fn may_begin_again(command: Option<CommandId>, request: &[u8]) -> bool {
    let reads_on = command == Some(ids::XREAD) && Args::new(request).any(|arg| arg == b"$");
    command.is_some_and(|command| command.row().flags.has(Flags::BLOCKING)) && !reads_on
}
