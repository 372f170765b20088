//! Connections of their own for clients whose commands hold state there: transactions, watched keys, blocking commands.
//!
//! A lease is one upstream connection that serves one client. It is taken when the first such command comes, from the idle ones or a
//! new one, and given back when nothing of the client is left on it; a client that goes in the middle takes it along, and the
//! server forgets what was half done with it.
//!
//! ```text
//!   shared connection ─▶ [Drained] ─▶ lease ─▶ MULTI … EXEC ─▶ answered ─▶ idle again ─▶ the next client's
//!                          └ what the client sent before is answered first: nothing is overtaken
//! ```
//! While a connection is being opened other clients go on, and what they send then is done before the command that waits for it. So once a
//! client needed one, the next is kept ready for as long as anybody may want it (`keep_ready`, `spare_due`).
//!
//! There are only so many. A command that waits at the server may hold one for ever, so some are left for what goes on by itself ([`Use`]); of both kinds
//! no group of clients takes all (`shares`), and those that wait are served in turn by group (`waiters`).
//!
//! Not here: what the commands mean (`transaction`, `blocking`).
//!
//! Invariant: an upstream with [`Role::Leased`] is named by the lease of its client, and by no other.

use crate::client::{Client, Hold};
use crate::command::CommandId;
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::inside::Own;
use crate::limits::{LEASES_OPENING_MAX, SPARES_MAX};
use crate::mirror::Queued;
use crate::monitor::Kept;
use crate::reject;
use crate::scatter::counted;
use crate::server_loss::Failure;
use crate::shares::{Group, for_blocking};
use crate::time::Time;
use crate::topology::Place;
use crate::transaction::Queueing;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use crate::upstream::{Lane, Role, Upstream, UpstreamKey};
use crate::waiters::Line;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The reason in the error when respool closes a connection with queued commands or watched keys.
const LEFT: &str = "is not the client's server any more";

/// What a client has a connection of its own for.
#[derive(Debug)]
pub struct Lease {
    /// Which; `None`: not taken yet, as nothing told the node.
    pub(crate) upstream: Option<UpstreamId>,
    /// Where its keys lie: all others are refused while it lasts.
    pub(crate) place: Option<Place>,
    pub(crate) state: State,
    /// The connection is not as it was taken (another database): it is closed and not given back.
    pub(crate) unclean: bool,
    /// The server accepted MULTI.
    pub(crate) queues: bool,
    /// Requests of the client that were sent over it.
    pub(crate) sent: u32,
    /// The slot of the keys still migrates to this node: respool sends `ASKING` before each request of the client, and once before `MULTI` for a transaction.
    pub(crate) asks: bool,
    /// Behind WATCH the client sent a request over other connections. This request may be under way.
    pub(crate) has_beside: bool,
    /// It ends a transaction that depended on watched keys.
    pub(crate) watched: bool,
    /// The database that the client is in when EXEC was done: the last SELECT of the transaction.
    pub(crate) db_after: Option<u32>,
    /// EXEC was done.
    pub(crate) done: bool,
    /// What the proxy does itself of a transaction.
    pub(crate) own: Own,
    /// What is shown of it to those that watch.
    pub(crate) kept: Kept,
    /// What mirrors are told of it when EXEC was done.
    pub(crate) mirrored: Option<Box<Queued>>,
}

/// See [`Lease`].
#[derive(Debug)]
pub(crate) enum State {
    /// One command is under way; with its reply the lease ends.
    Once,
    /// Keys are watched.
    Watching,
    /// Between MULTI and EXEC.
    Queueing(Queueing),
    /// What ends it was sent.
    Ending,
    /// Its connection was lost in the middle. The error for whatever depends on it, and whether that was a transaction.
    Lost { error: Vec<u8>, queueing: bool },
}

impl Lease {
    /// One without a connection.
    pub(crate) fn new(state: State) -> Self {
        Self {
            upstream: None,
            place: None,
            state,
            unclean: false,
            queues: false,
            sent: 0,
            asks: false,
            has_beside: false,
            watched: false,
            db_after: None,
            done: false,
            own: Own::default(),
            kept: Kept::default(),
            mirrored: None,
        }
    }

    /// Drops all but the connection. The pattern names every field, so that a new field must be judged here.
    fn renew(&mut self) {
        let Self {
            upstream,
            place,
            unclean,
            sent,
            state: _,
            asks: _,
            has_beside: _,
            queues: _,
            watched: _,
            db_after: _,
            done: _,
            own: _,
            kept: _,
            mirrored: _,
        } = self;
        let (upstream, place, unclean, sent) = (*upstream, *place, *unclean, *sent);
        *self = Self { upstream, place, unclean, sent, ..Self::new(State::Ending) };
    }

    /// Bytes kept of its transaction. Every field is named: one that is added must be judged first.
    pub(crate) fn held_bytes(&self) -> usize {
        let Self {
            state,
            own,
            kept,
            mirrored,
            upstream: _,
            place: _,
            unclean: _,
            queues: _,
            sent: _,
            asks: _,
            has_beside: _,
            watched: _,
            db_after: _,
            done: _,
        } = self;
        let state = match state {
            State::Queueing(queueing) => queueing.held_bytes(),
            State::Lost { error, .. } => error.len(),
            State::Once | State::Watching | State::Ending => 0,
        };
        let mirrored = mirrored.as_ref().map_or(0, |queued| queued.held_bytes());
        state + own.held_bytes() + kept.held_bytes() + mirrored
    }

    /// Between MULTI and EXEC, whatever became of the connection.
    pub(crate) fn is_transaction(&self) -> bool {
        matches!(self.state, State::Queueing(_) | State::Lost { queueing: true, .. })
    }

    /// What ends it is under way.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending)
    }

    /// The server queues what comes over it, or has got what ends that.
    pub(crate) fn is_queueing_or_ending(&self) -> bool {
        matches!(self.state, State::Queueing(_) | State::Ending)
    }

    /// As CLIENT LIST tells it: commands queued (-1: no transaction), and whether keys are watched.
    pub(crate) fn holds(&self) -> (i64, u8) {
        match &self.state {
            State::Watching => (-1, 1),
            State::Queueing(queueing) => queueing.holds(),
            State::Once | State::Ending | State::Lost { .. } => (-1, 0),
        }
    }
}

/// What a connection of its own is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// A transaction or watched keys: it is over when the client says so, and each of its commands is answered at once.
    Short,
    /// A command that waits at the server, for ever if need be.
    Blocking,
    /// Such a command over a connection that the client has already.
    Begun,
}

/// What became of the wish for a connection.
pub(crate) enum Way {
    /// Here it is.
    Ready(UpstreamId),
    /// The client is to be held.
    Hold(Hold),
    /// There is none.
    Down(Failure),
}

impl Engine {
    /// The client's own connection to this node: the one it has, an idle one, or a new one that must connect first.
    pub(crate) fn lease_to(&mut self, now: Time, id: ClientId, node: NodeId, wanted: Use) -> Way {
        let Some(client) = self.clients.get(id) else { return Way::Hold(Hold::No) };
        let key = match client.key_to(node, Lane::Shared) {
            // What it changes over any other the server would not know for its own.
            key if key.owner.is_some() => key,
            _ => self.shared_key(node, client.protocol, client.db),
        };
        let own = client.lease.as_ref().and_then(|lease| lease.upstream);
        let own = own.filter(|own| self.upstreams.get(*own).is_some_and(|up| up.key == key));
        let role = Role::Leased(id);
        match own.map_or_else(|| self.private_conn(now, id, key, role, wanted), Ok) {
            Ok(upstream) => {
                self.set_lease(id, upstream);
                self.way_of(now, upstream)
            }
            Err(way) => way,
        }
    }

    /// A connection of this key that serves nobody else: an idle one, or a new one, if it is the client's turn.
    pub(crate) fn private_conn(
        &mut self,
        now: Time,
        id: ClientId,
        key: UpstreamKey,
        role: Role,
        wanted: Use,
    ) -> Result<UpstreamId, Way> {
        if key.owner.is_some() {
            return self.lease_own(now, key, role);
        }
        let Some(client) = self.clients.get(id) else { return Err(Way::Hold(Hold::No)) };
        let line = (Group::of(client, &self.settings.users), (wanted, key.node));
        let may = |line: &Line<(Use, NodeId)>| self.may_lease_now(line);
        let is_its_turn = self.lease_waiters.is_among_first(id, &line, self.lease_room(), may);
        if !may(&line) || !is_its_turn {
            return Err(self.wait_for_lease(now, id, line));
        }
        let upstream_id = match self.spare(&key) {
            Some(upstream_id) => {
                self.set_role(upstream_id, role);
                upstream_id
            }
            None => {
                let upstream_id = match self.spare_to_come(&key) {
                    Some(upstream_id) => {
                        self.set_role(upstream_id, role);
                        upstream_id
                    }
                    None => self.new_private(key, role).map_err(Way::Down)?,
                };
                self.opening.insert(key.node, upstream_id);
                upstream_id
            }
        };
        if wanted == Use::Blocking {
            self.set_blocking(upstream_id, true);
        }
        let keeps = self.keeps_output();
        if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            upstream.out.keeps = keeps;
        }
        Ok(upstream_id)
    }

    /// Whether a group may have one more connection to this node for this.
    fn may_lease(&self, (group, (wanted, node)): &Line<(Use, NodeId)>) -> bool {
        let (roles, max) = (&self.roles, self.settings.limits.leases_max);
        // A group has its share of both uses together, and one connection for each use wherever there is one.
        let may_block = || roles.blocking.has_room(*group, 1, for_blocking(max));
        match wanted {
            Use::Short => {
                let has_room = roles.has_room_for_lease(*group, roles.short.of(*group), max);
                let max = max.saturating_sub(roles.blocking.total());
                has_room && (self.is_one() || roles.short.has_room_at(*group, *node, max))
            }
            Use::Blocking => {
                roles.has_room_for_lease(*group, roles.blocking.of(*group), max) && may_block()
            }
            Use::Begun => may_block(),
        }
    }

    /// A client that has a connection of its own wants to wait over it: it counts as one that waits. `None`: it may.
    pub(crate) fn begin_blocking(
        &mut self,
        now: Time,
        id: ClientId,
        upstream_id: UpstreamId,
    ) -> Option<Way> {
        let upstream = self.upstreams.get(upstream_id)?;
        if upstream.key.owner.is_some() || upstream.blocks {
            return None;
        }
        let (group, node) = (upstream.group, upstream.key.node);
        let max = for_blocking(self.settings.limits.leases_max);
        if !self.roles.blocking.has_room(group, 1, max) {
            return Some(self.wait_for_lease(now, id, (group, (Use::Begun, node))));
        }
        self.lease_waiters.served(id);
        self.set_blocking(upstream_id, true);
        None
    }

    /// What the client's connection is for.
    pub(crate) fn use_of_lease(&self, id: ClientId) -> Use {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        match lease.map(|lease| &lease.state) {
            Some(State::Once) | None => Use::Blocking,
            Some(_) => Use::Short,
        }
    }

    /// Makes another one of this kind, so that the next client need not wait for a connect.
    fn keep_ready(&mut self, now: Time, like: UpstreamId) {
        let key = self.upstreams.get(like).map(|upstream| upstream.key);
        let Some(key) = key.filter(|key| key.owner.is_none()) else { return };
        let min = self.settings.limits.leases_min;
        for _ in self.roles.spares(&key).take(min).count()..min {
            let spares = self.roles.spare_count();
            if spares >= SPARES_MAX
                || self.roles.leases() + spares >= self.settings.limits.leases_max
            {
                return;
            }
            // At the bound another idle one makes room, so the number may stay as it is.
            let Some(upstream_id) = self.new_upstream(key, Role::Spare(now)) else { return };
            self.connect(now, upstream_id);
        }
    }

    /// Nobody wanted this idle connection for a while. What is to be kept ready is asked whether it still is one, the others go.
    pub(crate) fn spare_due(&mut self, now: Time, upstream_id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(upstream_id) else { return };
        let key = upstream.key;
        if !upstream.inflight.is_empty() {
            return self.lose_upstream(now, upstream_id, "gave no answer to PING", true);
        }
        let min = self.settings.limits.leases_min;
        let more = self.roles.spares(&key).take(min + 1).count() > min;
        if more || self.draining || !self.may_be_wanted(&key) {
            return self.remove_upstream(upstream_id);
        }
        self.set_role(upstream_id, Role::Spare(now));
        self.ask_whether_alive(now, upstream_id);
    }

    /// Whether a client could take an idle connection of this key: one in the database that all begin in, or any that is there already.
    fn may_be_wanted(&self, key: &UpstreamKey) -> bool {
        let is_there = |client: &Client| client.db == key.db && client.protocol == key.protocol();
        key.db == self.settings.node.db || self.clients.iter().any(|(_, client)| is_there(client))
    }

    /// One that is on its way to be kept ready: it is there sooner than one that is begun now.
    fn spare_to_come(&self, key: &UpstreamKey) -> Option<UpstreamId> {
        let comes = |id: &UpstreamId| self.upstreams.get(*id).is_some_and(Upstream::is_coming);
        self.roles.spares(key).find(comes)
    }

    /// An idle connection of this key that can be used at once.
    pub(crate) fn spare(&self, key: &UpstreamKey) -> Option<UpstreamId> {
        let fits = |id: &UpstreamId| {
            self.upstreams.get(*id).is_some_and(|up| up.is_ready() && up.inflight.is_empty())
        };
        self.roles.spares(key).find(fits)
    }

    /// Whether this connection can be used already.
    pub(crate) fn way_of(&mut self, now: Time, upstream_id: UpstreamId) -> Way {
        match self.availability(now, upstream_id) {
            Availability::Ready(upstream) => {
                self.keep_ready(now, upstream);
                Way::Ready(upstream)
            }
            Availability::Wait(upstream) => Way::Hold(Hold::Upstream(upstream)),
            Availability::Down(error) => {
                self.remove_upstream(upstream_id);
                Way::Down(error)
            }
        }
    }

    fn set_lease(&mut self, id: ClientId, upstream_id: UpstreamId) {
        self.lease_waiters.served(id);
        let lease = self.clients.get_mut(id).map(|client| {
            client.lease.get_or_insert_with(|| alloc::boxed::Box::new(Lease::new(State::Once)))
        });
        if let Some(lease) = lease {
            lease.upstream = Some(upstream_id);
        }
    }

    /// All that its group may have are taken: the client waits its turn, but not for ever.
    fn wait_for_lease(&mut self, now: Time, id: ClientId, line: Line<(Use, NodeId)>) -> Way {
        let since = self.lease_waiters.enter(id, line, now);
        let patience_ms = self.patience_ms();
        if now < since.plus_ms(patience_ms) {
            return Way::Hold(Hold::Lease);
        }
        self.forget_lease_waiter(id);
        Way::Down(Failure::refusal(reject::no_lease(patience_ms)))
    }

    /// How long a client waits for something that is not a reply.
    pub(crate) fn patience_ms(&self) -> u64 {
        match self.settings.timeouts.request_ms {
            0 => self.settings.timeouts.topology_wait_ms,
            request_ms => request_ms,
        }
    }

    /// When the first of those that wait for a connection has waited long enough.
    pub(crate) fn lease_wait_ends(&self) -> Option<Time> {
        let (since, _) = self.lease_waiters.oldest().next()?;
        Some(since.plus_ms(self.patience_ms()))
    }

    /// Whether somebody waits for a connection of its own and there is room.
    pub(crate) fn lease_is_free(&self) -> bool {
        self.lease_room() > 0 && self.lease_waiters.any(|line| self.may_lease_now(line))
    }

    /// How many clients may take connections of their own now.
    fn lease_room(&self) -> usize {
        let in_all = self.settings.limits.leases_max.saturating_sub(self.roles.leases());
        in_all.min(LEASES_OPENING_MAX)
    }

    /// Whether a group may have one more connection to this node for this, and one more may be opened.
    fn may_lease_now(&self, line: &Line<(Use, NodeId)>) -> bool {
        let (_, (_, node)) = *line;
        !self.opening.is_full(node) && self.may_lease(line)
    }

    /// Lets those look again that wait: the first ones while there is room, and those whose patience ends.
    pub(crate) fn wake_lease_waiters(&mut self, now: Time) {
        let patience_ms = self.patience_ms();
        let is_over = |(since, _): &(Time, ClientId)| since.plus_ms(patience_ms) <= now;
        let over = self.lease_waiters.oldest().take_while(is_over).map(|(_, id)| id);
        let mut ids: Vec<ClientId> = over.collect();
        let room = self.lease_room();
        ids.extend(self.lease_waiters.first(room, |line| self.may_lease_now(line)));
        for id in ids {
            match self.clients.get_mut(id).filter(|client| client.hold == Hold::Lease) {
                Some(client) => {
                    if !core::mem::replace(&mut client.queued, true) {
                        self.resume.push_back(id);
                    }
                }
                // It waits for something else by now, and must not keep others from their turn.
                None => self.forget_lease_waiter(id),
            }
        }
    }

    pub(crate) fn forget_lease_waiter(&mut self, id: ClientId) {
        self.lease_waiters.forget(id);
    }

    /// Writes a request to a client's own connection, and takes its place.
    pub(crate) fn write_leased(
        &mut self,
        now: Time,
        id: ClientId,
        upstream_id: UpstreamId,
        frame: &[u8],
        command: Option<CommandId>,
        silent: bool,
    ) {
        self.forget_lease_waiter(id);
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        if !self.is_one() && !lease.is_some_and(|lease| lease.is_transaction()) {
            self.load_script_before(now, upstream_id, command, frame);
        }
        if self.lease_asks(id) {
            self.say_own(now, upstream_id, OwnCommand::Asking, &[b"ASKING"]);
        }
        let Some(client) = self.clients.get_mut(id) else { return };
        if let Some(lease) = &mut client.lease {
            lease.sent = lease.sent.saturating_add(1);
        }
        let seq = client.places.reserve(1);
        self.stats.requests += 1;
        self.stats.command(counted(command, frame)).calls += 1;
        let owner = match self.has_mirrors() {
            false if self.changes_reply() => self.owner_for_changed(id, seq, silent),
            true => self.owner_for_mirrors(id, seq, silent, command, frame),
            false => Owner::Client { id, seq, silent },
        };
        let Some(upstream) = self.upstreams.get_mut(upstream_id) else { return };
        // What waited there before is over.
        upstream.no_reply_before = None;
        let at = upstream.append(&mut self.pool, frame);
        upstream.inflight.push(Run::new(owner, 1, counted(command, frame), now, at));
        self.touch_upstream(upstream_id);
    }

    /// Whether respool sends `ASKING` before the next request of this client. The `ASKING` before `MULTI` holds until `EXEC`.
    fn lease_asks(&self, id: ClientId) -> bool {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        lease.is_some_and(|lease| lease.asks && !lease.is_queueing_or_ending())
    }

    /// Records whether the lease begins again behind `ASKING`.
    pub(crate) fn set_lease_asks(&mut self, id: ClientId, asks: bool) {
        if let Some(lease) = self.clients.get_mut(id).and_then(|client| client.lease.as_mut()) {
            lease.asks = asks;
        }
    }

    /// Everything that was sent over this connection is answered.
    pub(crate) fn lease_answered(&mut self, now: Time, upstream_id: UpstreamId, id: ClientId) {
        // The next request over it (the client may watch keys) is overdue as any other.
        if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            upstream.no_reply_before = None;
            let watches = |client: &Client| {
                client.lease.as_ref().is_some_and(|lease| matches!(lease.state, State::Watching))
            };
            if upstream.blocks && self.clients.get(id).is_some_and(watches) {
                self.set_blocking(upstream_id, false);
            }
        }
        let Some(client) = self.clients.get_mut(id) else {
            return self.remove_upstream(upstream_id);
        };
        let Some(lease) = client.lease.as_ref().filter(|own| own.upstream == Some(upstream_id))
        else {
            return self.give_back(now, upstream_id, false);
        };
        // With nothing sent only its greeting was answered; what it is for comes now.
        if lease.sent > 0 && matches!(lease.state, State::Once | State::Ending) {
            let unclean = self.end_lease(id);
            self.give_back(now, upstream_id, unclean);
        } else if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            // What is watched stays, but nobody waits any more.
            upstream.no_reply_before = None;
        }
    }

    /// Ends the transaction of a lease and keeps the connection. The client's next transaction must find nothing of the ended one.
    pub(crate) fn renew_lease(&mut self, id: ClientId) {
        self.forget_deletes_inside(id);
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(lease) = client.lease.as_mut() else { return };
        let mirrored = lease.mirrored.take();
        lease.renew();
        self.account_rest(id);
        self.drop_queued(mirrored, false);
    }

    /// The client has this lease no more, and is in the database that its transaction selected. Whether the connection is not as it was taken.
    fn end_lease(&mut self, id: ClientId) -> bool {
        self.forget_deletes_inside(id);
        let Some(client) = self.clients.get_mut(id) else { return false };
        let Some(mut lease) = client.lease.take() else { return false };
        client.identity.awaited = None;
        let mirrored = lease.mirrored.take();
        let selected = lease.db_after.filter(|_| lease.done);
        let unclean = lease.unclean;
        let (protocol, db) = (client.protocol, selected.unwrap_or(client.db));
        self.take_way(id, protocol, db);
        self.account_rest(id);
        self.drop_queued(mirrored, false);
        unclean
    }

    /// The client got its last reply over this lease: what is still under way there is ours. It ends now, since what comes next is not part of
    /// it; the connection is given back with our replies. In front of one server the client keeps the connection,
    /// and its next request is no part of a transaction there either.
    pub(crate) fn end_answered_lease(&mut self, id: ClientId) {
        let Some(lease) = self.clients.get(id).and_then(|client| client.lease.as_ref()) else {
            return;
        };
        let (upstream, sent) = (lease.upstream, lease.sent);
        let Some(upstream) = upstream else { return self.drop_lease(id) };
        if sent > 0 && !self.is_one() && self.end_lease(id) {
            self.remove_upstream(upstream);
        }
        if let Some(lease) = self.clients.get_mut(id).and_then(|client| client.lease.as_mut()) {
            lease.state = State::Once;
        }
    }

    /// Nobody has this connection any more: it serves the next client, or goes.
    pub(crate) fn give_back(&mut self, now: Time, upstream_id: UpstreamId, unclean: bool) {
        let keeps =
            !unclean && self.roles.spare_count() < SPARES_MAX && !self.is_unblocking(upstream_id);
        let Some(upstream) = self.upstreams.get_mut(upstream_id) else { return };
        if let Some(owner) = upstream.key.owner {
            let unclean = unclean || self.is_unblocking(upstream_id);
            return self.end_lease_of_own(upstream_id, owner, unclean);
        }
        let (node, busy) = (upstream.key.node, !upstream.inflight.is_empty());
        if !keeps || busy || upstream.stall.is_some() || self.is_left(node) {
            return self.remove_upstream(upstream_id);
        }
        if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            upstream.no_reply_before = None;
        }
        self.set_role(upstream_id, Role::Spare(now));
        self.wake_lease_waiters(now);
    }

    /// The lease ends now, whatever is half done on its connection: the server forgets it with the connection.
    pub(crate) fn drop_lease(&mut self, id: ClientId) {
        self.forget_lease_waiter(id);
        let Some(mut lease) = self.clients.get_mut(id).and_then(|client| client.lease.take())
        else {
            return;
        };
        self.forget_deletes_inside(id);
        self.account_rest(id);
        self.drop_queued(lease.mirrored.take(), true);
        let Some(upstream_id) = lease.upstream else { return };
        let of_client = |up: &Upstream| up.role == Role::Leased(id);
        if self.upstreams.get(upstream_id).is_some_and(of_client) {
            self.remove_upstream(upstream_id);
        }
    }

    /// A connection was taken for a request that does not go over it after all: no reply would end the lease.
    pub(crate) fn drop_unused_lease(&mut self, id: ClientId) {
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        if lease.is_some_and(|lease| lease.sent == 0 && matches!(lease.state, State::Once)) {
            self.drop_lease(id);
        }
    }

    /// The request that was under way on this connection begins again over another one. `ends`: the server is about to close this one.
    pub(crate) fn leave_lease(&mut self, now: Time, upstream_id: UpstreamId, ends: bool) {
        let Some(Role::Leased(id)) = self.upstreams.get(upstream_id).map(|up| up.role) else {
            return;
        };
        // With MULTI said there it is no good to anybody.
        let mut unclean = ends || self.is_queueing(id);
        if let Some(lease) = self.clients.get_mut(id).and_then(|client| client.lease.as_mut()) {
            unclean |= lease.unclean;
            (lease.upstream, lease.place, lease.sent) = (None, None, 0);
        }
        self.give_back(now, upstream_id, unclean);
    }

    /// Handles the removal of this client's connection to this node. A lease for one command ends with it; queued commands and watched keys are lost, as with
    /// a connection that broke.
    pub(crate) fn lease_gone(&mut self, upstream_id: UpstreamId, node: NodeId, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(lease) = client.lease.as_mut().filter(|lease| lease.upstream == Some(upstream_id))
        else {
            return;
        };
        let is_state_lost = lease.sent > 0 && !matches!(lease.state, State::Once | State::Ending);
        if is_state_lost {
            let failure = Failure::loss(reject::node(self.label(node), LEFT));
            return self.lease_lost(upstream_id, id, &failure);
        }
        lease.upstream = None;
        if matches!(lease.state, State::Once) {
            client.lease = None;
        }
        self.account_rest(id);
    }

    /// The connection of a lease broke; what was under way on it got its errors.
    pub(crate) fn lease_lost(&mut self, upstream_id: UpstreamId, id: ClientId, failure: &Failure) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(lease) = client.lease.as_mut().filter(|lease| lease.upstream == Some(upstream_id))
        else {
            return;
        };
        lease.upstream = None;
        let mirrored = lease.mirrored.take();
        match lease.state {
            State::Once | State::Ending => client.lease = None,
            State::Watching => {
                lease.state = State::Lost { error: failure.to_vec(), queueing: false }
            }
            State::Queueing(_) => {
                lease.state = State::Lost { error: failure.to_vec(), queueing: true };
            }
            State::Lost { .. } => {}
        }
        let next = client.places.next();
        let is_in_vain = client.lease.is_some();
        self.account_rest(id);
        self.drop_queued(mirrored, true);
        if is_in_vain && self.ends_by(failure) {
            self.lose_client(id, next);
        }
    }
}
