//! Large requests: streamed over an upstream of their own instead of being kept.
//!
//! A request that will not fit the bound for kept input (a `SET` of 512 MiB) cannot share a connection: it would block everyone for
//! as long as its client takes to send it, and a client that dies in its middle would poison the connection. So it waits
//! until its client's earlier requests are answered, takes an idle upstream (or a new one), and its bytes go through as they come.
//!
//! ```text
//!   Large found ─▶ Drained? ─▶ slot free? ─▶ upstream ready? ─▶ Streaming ─▶ end of request ─▶ reply ─▶ next request
//!      └ answered here, refused, node down: error reply, and Skipping to the end of the request
//! ```
//! Not here: large replies; they are cut through on whatever connection they come (`reply`).
//!
//! Invariant: what a rule must see of a request is here before any byte of it goes on: where users' rules, policies, routes or mirrors look at its keys
//! it is streamed only if its one key stands in its head ([`tells_all`]). Any other is kept until it is whole, up to [`WHOLE_REQUEST_BYTES_MAX`], and
//! refused beyond.
//!
//! Invariant: an upstream with [`Role::Transfer`] has at most one request in flight, and its client exists.

use crate::account::Kind;
use crate::client::{Client, Hold};
use crate::command::{Class, CommandId, NAME_BYTES_MAX};
use crate::connect::Availability;
use crate::engine::{Action, Engine};
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{SPARES_MAX, TRANSFER_IDLE_MS, WHOLE_REQUEST_BYTES_MAX};
use crate::pubsub;
use crate::reject;
use crate::request::Step;
use crate::route::{self, Way};
use crate::server_loss::Failure;
use crate::shares::Group;
use crate::time::Time;
use crate::unknown::Lookup;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use crate::upstream::{Lane, Role};
use crate::waiters::Line;
use alloc::vec::Vec;
use resp::{Args, RequestLimits, Scan};

impl Engine {
    /// The unfinished request at the begin of `input` is too large to be kept. Returns the bytes done with.
    #[cold]
    pub(crate) fn begin_large(&mut self, now: Time, id: ClientId, input: &[u8]) -> (usize, Step) {
        let Some(client) = self.clients.get(id) else { return (0, Step::Gone) };
        let scanned = client.scanner.position() as usize;
        let head: Vec<&[u8]> = client.scanner.head().iter().map(|span| span.of(input)).collect();
        if head.is_empty() {
            return self.large_without_name(id, &input[..scanned]);
        }
        if client.eof {
            // It will never be whole.
            self.begin_close(id);
            return (input.len(), Step::Gone);
        }
        let known = route::classify(head.len(), |n| head[n], self.learned.as_ref());
        if let Some(outcome) = self.unless_named(now, id, &known, (&head, &input[..scanned])) {
            return outcome;
        }
        if let Some(outcome) = self.rule_on_large(id, &known, &head, scanned) {
            return outcome;
        }
        let Some(client) = self.clients.get(id) else { return (0, Step::Gone) };
        let apart = self.goes_apart(client, &known, &head, scanned);
        if apart || !self.permits_head(client, &known, &head) {
            // It goes where the others go, or all of it decides whether it may; it must be whole for that.
            return self.whole_or_skipped(id, scanned, reject::TOO_LARGE_TO_LOOK_AT);
        }
        if !client.is_authenticated() && !known.before_auth {
            self.stats.command(known.id).rejected += 1;
            return self.skip_large(id, scanned, |out| reject::write(out, reject::NOAUTH));
        }
        if let Some(outcome) = self.unless_streamed(id, &known, (scanned, head[0]), input) {
            return outcome;
        }
        let Some(client) = self.clients.get(id) else { return (0, Step::Gone) };
        if client.places.open() > 0 {
            return (0, Step::Hold(Hold::Drained));
        }
        if self.pause.is_some_and(|pause| known.writes || !pause.writes_only) {
            return (0, Step::Hold(Hold::Paused));
        }
        if let Some(outcome) = self.judge_large(now, id, &known, &head, scanned) {
            return outcome;
        }
        let begin = &input[..scanned];
        let changed = self.change_large(&known, &head, begin);
        let (shown, begin) = (head.clone(), changed.as_ref().map_or(begin, |(_, bytes)| bytes));
        let head = match &changed {
            Some((words, _)) => words.iter().map(Vec::as_slice).collect(),
            None => head,
        };
        let node = match self.node_for_large(now, id, &known, &head, scanned) {
            Ok(node) => node,
            Err(way) => return self.end_unplaced(id, known.id, scanned, way),
        };
        match self.transfer_upstream(now, id, node) {
            Ok(upstream) => {
                let line = if self.watches.is_empty() { None } else { self.line_of(id, &shown) };
                self.note_stream(id, upstream, known.id, &head);
                self.note_unkept(now, known.id, &head);
                self.start_stream(now, id, upstream, known.id, begin);
                self.note_sending(id, &shown);
                if let Some(mut line) = line {
                    line.end_open();
                    self.show(now, &shown, &line);
                }
                (scanned, Step::Done)
            }
            Err(TransferWait::Hold(hold)) => (0, Step::Hold(hold)),
            Err(TransferWait::Down(error)) => {
                if let Some(hold) = self.hold_for_failover(now, node) {
                    return (0, Step::Hold(hold));
                }
                self.stats.command(known.id).rejected += 1;
                if self.ends_by(&error) {
                    self.reply_failure(id, false, &error);
                    return (0, Step::Gone);
                }
                self.skip_large(id, scanned, |out| out.extend_from_slice(&error))
            }
        }
    }

    /// No node is known for a large request.
    fn end_unplaced(
        &mut self,
        id: ClientId,
        command: Option<CommandId>,
        scanned: usize,
        way: LargeWay,
    ) -> (usize, Step) {
        match way {
            LargeWay::More => (0, Step::More),
            LargeWay::Hold(hold) => (0, Step::Hold(hold)),
            LargeWay::Refuse(error) => {
                self.stats.command(command).rejected += 1;
                self.skip_large(id, scanned, |out| out.extend_from_slice(&error))
            }
        }
    }

    /// A large request of which the name is not here. Longer than any name, it is that of no command; else more of it must come.
    fn large_without_name(&mut self, id: ClientId, begun: &[u8]) -> (usize, Step) {
        let missing = self.clients.get(id).map_or(0, |client| client.scanner.bulk_missing());
        if missing <= NAME_BYTES_MAX as u64 {
            return (0, Step::More);
        }
        let known = route::classify(1, |_| &b""[..], None);
        self.skip_unknown(id, &known, &[], begun)
    }

    /// A large request whose command, or subcommand, nobody knows: servers are asked for it before anything of it is sent. `None`: it is known.
    fn unless_named(
        &mut self,
        now: Time,
        id: ClientId,
        known: &route::Known,
        (head, begun): (&[&[u8]], &[u8]),
    ) -> Option<(usize, Step)> {
        let is_user = self.clients.get(id).is_some_and(Client::is_authenticated);
        if (head.len() == 1 && self.is_container(known, head[0]))
            || (is_user && self.is_renamed(head[0]))
        {
            // The server looks its second word up as it does a name; a new name is changed when the request is whole.
            return Some(self.whole_or_skipped(id, begun.len(), reject::TOO_LARGE_TO_LOOK_AT));
        }
        if !matches!(known.way, Way::Unknown | Way::Apart) {
            return None;
        }
        let lookup = match is_user {
            true => self.look_up(now, id, known, head),
            false => Lookup::Absent,
        };
        Some(match lookup {
            Lookup::Wait => (0, Step::Hold(Hold::Lookup)),
            // Over a connection that is closed afterwards, which is not one of those that stream.
            Lookup::Apart => self.whole_or_skipped(id, begun.len(), reject::TOO_LARGE_TO_LOOK_AT),
            Lookup::Absent => self.skip_unknown(id, known, head, begun),
        })
    }

    /// The error quotes as much of the arguments as is here.
    fn skip_unknown(
        &mut self,
        id: ClientId,
        known: &route::Known,
        head: &[&[u8]],
        begun: &[u8],
    ) -> (usize, Step) {
        let mut args = begun_args(begun);
        if args.len() < head.len().max(1) {
            args = if head.is_empty() { alloc::vec![&b""[..]] } else { head.to_vec() };
        }
        let mut error = Vec::new();
        self.stats.command(known.id).rejected += 1;
        self.write_unknown(&mut error, known, &args);
        self.skip_large(id, begun.len(), |out| out.extend_from_slice(&error))
    }

    /// What becomes of a large request that no server gets from here.
    fn unless_streamed(
        &mut self,
        id: ClientId,
        known: &route::Known,
        (scanned, given): (usize, &[u8]),
        input: &[u8],
    ) -> Option<(usize, Step)> {
        let listens = self.clients.get(id).is_some_and(Client::listens_in_resp2);
        if listens && !pubsub::is_said_while_listening(known.id) {
            self.stats.command(known.id).rejected += 1;
            let write = |out: &mut Vec<u8>| reject::while_listening(out, known.id, given);
            return Some(self.skip_large(id, scanned, write));
        }
        let name = known.id.map_or("command", CommandId::name);
        match known.way {
            Way::Shared => None,
            Way::Leased => {
                let write = |out: &mut Vec<u8>| reject::needs_own_connection(out, name);
                Some(self.skip_large(id, scanned, write))
            }
            Way::Refused => Some(self.skip_large(id, scanned, |out| reject::refused(out, name))),
            Way::Http => Some((input.len(), self.close_http(id))),
            // Of many channels, say.
            Way::Local if known.id.and_then(pubsub::verb).is_some() => {
                Some(self.whole_or_skipped(id, scanned, reject::LOCAL_TOO_LARGE))
            }
            // Dealt with before.
            Way::Unknown | Way::Apart => {
                Some(self.whole_or_skipped(id, scanned, reject::LOCAL_TOO_LARGE))
            }
            Way::Local | Way::Control => {
                let write = |out: &mut Vec<u8>| reject::write(out, reject::LOCAL_TOO_LARGE);
                Some(self.skip_large(id, scanned, write))
            }
        }
    }

    /// What is known of a large request at once: its size, and whether all of it must be looked at.
    fn rule_on_large(
        &mut self,
        id: ClientId,
        known: &route::Known,
        head: &[&[u8]],
        scanned: usize,
    ) -> Option<(usize, Step)> {
        self.settings.policies.as_ref()?;
        let client = self.clients.get(id)?;
        if !client.is_authenticated() && !known.before_auth {
            return None;
        }
        let bytes = scanned as u64 + client.scanner.missing();
        if let Some(error) = self.unless_oversized(known, bytes, head) {
            return Some(self.skip_large(id, scanned, |out| out.extend_from_slice(&error)));
        }
        let is_kept = self.must_be_whole(known, head);
        is_kept.then(|| self.whole_or_skipped(id, scanned, reject::TOO_LARGE_TO_LOOK_AT))
    }

    /// What policies have against a large request that could be streamed, or how long it must wait.
    fn judge_large(
        &mut self,
        now: Time,
        id: ClientId,
        known: &route::Known,
        head: &[&[u8]],
        scanned: usize,
    ) -> Option<(usize, Step)> {
        let bytes = scanned as u64 + self.clients.get(id)?.scanner.missing();
        Some(match self.unless_large_ruled_out(now, id, known, bytes, head)? {
            Ok(step) => (0, step),
            Err(error) => self.skip_large(id, scanned, |out| out.extend_from_slice(&error)),
        })
    }

    /// Whether a large request with these first arguments goes another way than over a connection for it.
    fn goes_apart(
        &self,
        client: &Client,
        known: &route::Known,
        head: &[&[u8]],
        scanned: usize,
    ) -> bool {
        let bytes = scanned as u64 + client.scanner.missing();
        client.lease.is_some()
            || client.tracking.is_some()
            || known_leased(known.id)
            || self.keeps_whole(known.id, head, bytes)
    }

    /// A request that must be whole to be processed is kept as it comes, if it is not too large even for that.
    fn whole_or_skipped(
        &mut self,
        id: ClientId,
        scanned: usize,
        error: &'static str,
    ) -> (usize, Step) {
        let missing = self.clients.get(id).map_or(0, |client| client.scanner.missing());
        match scanned as u64 + missing <= WHOLE_REQUEST_BYTES_MAX {
            true => (0, Step::More),
            false => self.skip_large(id, scanned, |out| reject::write(out, error)),
        }
    }

    /// Answers a large request at once and drops its bytes to its end.
    fn skip_large(
        &mut self,
        id: ClientId,
        scanned: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> (usize, Step) {
        let silent = self.is_silent(id);
        // What is missing in a transaction is not to be left out of it.
        self.mark_refused(id);
        self.reply(id, silent, write);
        self.end_skip(id, silent);
        if let Some(client) = self.clients.get_mut(id) {
            client.hold = Hold::Skipping;
        }
        (scanned, Step::Done)
    }

    /// The ready upstream of this client's transfer: the one it got before, an idle one, or a new one that must connect first.
    fn transfer_upstream(
        &mut self,
        now: Time,
        id: ClientId,
        node: NodeId,
    ) -> Result<UpstreamId, TransferWait> {
        let Some(client) = self.clients.get(id) else { return Err(TransferWait::Hold(Hold::No)) };
        let key = self.shared_key(node, client.protocol, client.db);
        let line = (Group::of(client, &self.settings.users), node);
        let upstream_id = match self.transfer_of(id) {
            Some(upstream) => upstream,
            None if !self.may_transfer_now(id, &line) => {
                self.transfer_waiters.enter(id, line, now);
                return Err(TransferWait::Hold(Hold::TransferSlot));
            }
            None => {
                self.transfer_waiters.served(id);
                match self.spare(&key) {
                    Some(spare) => spare,
                    None => {
                        self.make_room_at(now, node, id);
                        let made = self.new_private(key, Role::Transfer(id));
                        made.map_err(TransferWait::Down)?
                    }
                }
            }
        };
        self.set_role(upstream_id, Role::Transfer(id));
        if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            // It may have been a lease, and what is streamed must not be kept.
            upstream.out.keeps = false;
        }
        match self.availability(now, upstream_id) {
            Availability::Ready(upstream) => Ok(upstream),
            Availability::Wait(upstream) => Err(TransferWait::Hold(Hold::Upstream(upstream))),
            Availability::Down(error) => {
                // It may be tried again just now, and then its greeting still waits for an answer.
                self.remove_upstream(upstream_id);
                Err(TransferWait::Down(error))
            }
        }
    }

    /// The node of a large request. One whose only key stands in its head can be streamed; any other must be whole first, since its
    /// keys decide where it goes.
    fn node_for_large(
        &mut self,
        now: Time,
        id: ClientId,
        known: &route::Known,
        head: &[&[u8]],
        scanned: usize,
    ) -> Result<NodeId, LargeWay> {
        if self.is_one() {
            return Ok(self.first_node);
        }
        let key = known.id.and_then(|row| head.get(row.row().only_key_at()?));
        let Some(key) = key else {
            let missing = self.clients.get(id).map_or(0, |client| client.scanner.missing());
            if scanned as u64 + missing <= WHOLE_REQUEST_BYTES_MAX {
                return Err(LargeWay::More);
            }
            let mut error = Vec::new();
            reject::write(&mut error, reject::TOO_LARGE_TO_SPLIT);
            return Err(LargeWay::Refuse(error));
        };
        if let Some(key) = self.router.without_route(&[(0, key)]) {
            return Err(LargeWay::Refuse(reject::no_route(Some(key))));
        }
        let place = self.router.place(key);
        match self.router.node(place) {
            Some(node) => Ok(node),
            None => {
                Err(self.unserved(now, place.pool).map_or_else(LargeWay::Refuse, LargeWay::Hold))
            }
        }
    }

    /// The upstream that streams this client's large request.
    fn transfer_of(&self, client: ClientId) -> Option<UpstreamId> {
        let streams = |id: &UpstreamId| {
            self.upstreams.get(*id).is_some_and(|up| up.role == Role::Transfer(client))
        };
        self.roles.owned(client).find(streams)
    }

    fn start_stream(
        &mut self,
        now: Time,
        id: ClientId,
        upstream_id: UpstreamId,
        command: Option<CommandId>,
        begin: &[u8],
    ) {
        let silent = self.is_silent(id);
        let key = command.and_then(|row| Args::new(begin).nth(row.row().only_key_at()?));
        let place = key.map(|key| self.router.place(key));
        let Some(client) = self.clients.get_mut(id) else { return };
        let (seq, missing) = (client.places.reserve(1), client.scanner.missing());
        client.hold = Hold::Streaming(upstream_id);
        self.stats.requests += 1;
        self.stats.command(command).calls += 1;
        if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
            let owner = Owner::Client { id, seq, silent };
            upstream.streamed_place = place;
            let at = upstream.out.position();
            upstream.inflight.push(Run::new(owner, 1, command, now, at));
        }
        self.end_skip(id, silent);
        self.send_upstream(upstream_id, begin, missing);
    }

    /// Takes more of a large request; returns the bytes done with and whether the request ended in them.
    pub(crate) fn stream(&mut self, now: Time, id: ClientId, input: &[u8]) -> (usize, bool) {
        let Some(client) = self.clients.get_mut(id) else { return (input.len(), false) };
        let limits = RequestLimits {
            bulk_bytes_max: self.settings.limits.bulk_bytes_max,
            ..RequestLimits::default()
        };
        let hold = client.hold;
        let (used, whole) = match client.scanner.scan(input, &limits) {
            Ok(Scan::Complete { consumed, frame }) => (consumed, Some(frame)),
            Ok(Scan::Partial { consumed }) => (consumed, None),
            Err(error) => {
                // Half of the request is on its way: that upstream is of no use any more, and the client neither. Of a
                // request that is skipped nothing is on its way, and the replies before it are still owed.
                if matches!(hold, Hold::Streaming(_)) {
                    let waits = client.places.open();
                    client.places.pass(waits);
                    self.drop_transfer_of(id);
                }
                self.protocol_error(id, &error);
                return (input.len(), false);
            }
        };
        let (finished, missing) = (whole.is_some(), client.scanner.missing());
        if finished {
            client.identity.awaited = None;
            client.hold = if client.places.open() > 0 { Hold::Drained } else { Hold::No };
        }
        if let Hold::Streaming(upstream_id) = hold {
            if let Some(upstream) = self.upstreams.get_mut(upstream_id) {
                upstream.progress_at = now;
            }
            self.send_upstream(upstream_id, &input[..used], missing);
            if let Some(request) = whole {
                self.note_streamed(now, id, request.len, request.args.into());
                self.delimit_streamed(now, upstream_id);
                self.after_replies(now, upstream_id);
            }
        }
        (used, finished)
    }

    /// All of a large request is written.
    fn delimit_streamed(&mut self, now: Time, id: UpstreamId) {
        let run = self.upstreams.get(id).and_then(|upstream| upstream.inflight.back());
        if let Some(command) = run.map(|run| run.command) {
            self.delimit(now, id, command);
        }
    }

    /// The transfer's reply came: its upstream serves the next large request, or goes.
    pub(crate) fn release_transfer(&mut self, now: Time, id: UpstreamId, client: ClientId) {
        let streams = |client: &crate::client::Client| client.hold == Hold::Streaming(id);
        if self.clients.get(client).is_some_and(streams) {
            // It was answered before its end; the rest must still go there.
            return;
        }
        let left = self.upstreams.get(id).is_some_and(|up| self.is_left(up.key.node));
        if left || self.roles.spare_count() >= SPARES_MAX {
            self.remove_upstream(id);
        } else {
            self.set_role(id, Role::Spare(now));
        }
        self.wake_transfer_waiter();
    }

    /// Whether a group may stream one more to this node.
    fn may_transfer(&self, (group, node): &Line<NodeId>) -> bool {
        let (transfers, max) = (&self.roles.transfers, self.settings.limits.large_transfers_max);
        match self.is_one() {
            true => transfers.has_room(*group, max),
            false => transfers.has_room_at(*group, *node, max),
        }
    }

    /// Whether it is the turn of this client.
    fn may_transfer_now(&self, id: ClientId, line: &Line<NodeId>) -> bool {
        let max = self.settings.limits.large_transfers_max;
        let room = max.saturating_sub(self.roles.transfers.total());
        let may = |line: &Line<NodeId>| self.may_transfer(line);
        may(line) && self.transfer_waiters.is_among_first(id, line, room, may)
    }

    /// Whether a client waits for a place among the transfers although one is free. Whoever was woken for it may not have taken it: its
    /// request can have become whole meanwhile and go the ordinary way, or its client be gone.
    pub(crate) fn transfer_place_is_free(&self) -> bool {
        self.transfer_waiters.any(|line| self.may_transfer(line))
    }

    /// When a client that streams has sent nothing for so long that it makes room for those who wait.
    pub(crate) fn idle_transfers_at(&self) -> Option<Time> {
        if self.transfer_waiters.is_empty() {
            return None;
        }
        self.idle_transfers().map(|(at, _)| at).min()
    }

    /// Clients in the middle of a large request of which all that came is sent on, and until when each may be silent.
    fn idle_transfers(&self) -> impl Iterator<Item = (Time, ClientId)> {
        self.upstreams.iter().filter_map(|(id, upstream)| {
            let Role::Transfer(client) = upstream.role else { return None };
            let streams = self.clients.get(client)?.hold == Hold::Streaming(id);
            let is_idle = streams && upstream.is_ready() && upstream.out.pending() == 0;
            is_idle.then(|| (upstream.progress_at.plus_ms(TRANSFER_IDLE_MS), client))
        })
    }

    /// Clients that began large requests and send no more of them give their places to those who wait. A server would
    /// wait for them, but has no places.
    pub(crate) fn end_idle_transfers(&mut self, now: Time) {
        let mut idle: Vec<_> = self.idle_transfers().filter(|(at, _)| *at <= now).collect();
        idle.sort_unstable();
        for (_, client) in idle.into_iter().take(self.transfer_waiters.len()) {
            self.evict(
                client,
                "it sent no more of its large request while others waited for its place",
            );
        }
    }

    /// A place among the transfers became free.
    pub(crate) fn wake_transfer_waiter(&mut self) {
        while let Some(id) =
            self.transfer_waiters.first(1, |line| self.may_transfer(line)).first().copied()
        {
            match self.clients.get_mut(id).filter(|client| client.hold == Hold::TransferSlot) {
                Some(client) => {
                    if !core::mem::replace(&mut client.queued, true) {
                        self.resume.push_back(id);
                    }
                    return;
                }
                // It waits for something else by now.
                None => self.transfer_waiters.forget(id),
            }
        }
    }

    /// Sends a piece of a large request, of which so many bytes are missing.
    fn send_upstream(&mut self, id: UpstreamId, bytes: &[u8], missing: u64) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if bytes.is_empty() {
            return;
        }
        upstream.out.append_part(bytes, missing, &mut self.pool);
        self.dirty_upstreams.push(id, upstream);
    }

    /// The transfer of a client that is gone: whatever was written is half a request, so the connection goes with it.
    pub(crate) fn drop_transfer_of(&mut self, client: ClientId) {
        if let Some(id) = self.transfer_of(client) {
            self.remove_upstream(id);
        }
    }

    /// Nothing of what was under way on this connection counts for the next one.
    pub(crate) fn reset_upstream(&mut self, id: UpstreamId) {
        self.scripts.delimiters.forget(id);
        self.grants.fan.forget(id);
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.reset(&mut self.pool);
        }
    }

    /// Removes an upstream for good, and its socket.
    pub(crate) fn remove_upstream(&mut self, id: UpstreamId) {
        self.wake_waiters(id);
        self.opening.remove(id);
        self.scripts.delimiters.forget(id);
        self.grants.fan.forget(id);
        let Some(mut upstream) = self.upstreams.remove(id) else { return };
        // Its own greeting, or what is of no use to a client that is gone. Everyone else was told before.
        let mut parts = Vec::new();
        while let Some(run) = upstream.inflight.abandon() {
            let of_one = matches!(upstream.role, Role::Transfer(_)) || upstream.role.is_private();
            let is_own = matches!(run.owner, Owner::Own(_));
            debug_assert!(of_one || is_own || self.is_unowned(run.owner), "somebody still waits");
            if let Owner::Part { merge, part } = run.owner {
                parts.push((merge, part, run.count));
            }
            if let Owner::Own(OwnCommand::Lookup(round)) = run.owner {
                self.learning.lookups.is_lost(round);
            }
        }
        self.words_removed(id);
        if let Some(node) = self.nodes.get_mut(upstream.key.node) {
            node.stats.traffic.add(&upstream.traffic());
        }
        if upstream.has_socket() {
            self.actions.push_back(Action::CloseUpstream(id));
        }
        upstream.reset(&mut self.pool);
        self.account.release(Kind::Private, &mut upstream.charge_own);
        self.account.release(Kind::Shared, &mut upstream.charge);
        self.roles.leave(id, &upstream);
        self.forget_deadline(id, upstream.wake_at);
        if let Role::Leased(client) = upstream.role {
            self.lease_gone(id, upstream.key.node, client);
        }
        if upstream.key.lane == Lane::Messages {
            self.listening_lost(id);
        }
        if upstream.is_ready() {
            self.feed_lost(id, upstream.key);
        }
        self.caches.late.remove(&id);
        self.dirty_upstreams.forget(id);
        if self.by_key.get(&upstream.key) == Some(&id) {
            self.unlist(&upstream.key);
        }
        if let Role::Transfer(client) = upstream.role {
            // It may have been answered before its end; then it is in nobody's FIFO any more.
            self.stop_streaming(client, id);
            self.wake_transfer_waiter();
        }
        self.forget_if_left(upstream.key.node);
        for (merge, part, count) in parts {
            // A merge ends with its last part, wanted or not.
            self.part_replies(Time::default(), merge, part, count, &[]);
        }
    }
}

/// Whether the first arguments of a large request tell all its keys: it has exactly one, at an argument that is here to its end. Whoever must see the
/// keys of a request that is streamed asks this first, and has the request kept until it is whole otherwise.
pub(crate) fn tells_all(command: Option<CommandId>, head: &[&[u8]]) -> bool {
    let key_at = command.and_then(|id| id.row().only_key_at());
    key_at.is_some_and(|at| at < head.len())
}

/// Whether this command goes over a connection of its client's own.
fn known_leased(command: Option<CommandId>) -> bool {
    use crate::command::ids;
    command.is_some_and(|row| {
        matches!(row, ids::MULTI | ids::WATCH)
            || row.row().class == Class::Leased && crate::blocking::blocks(row)
    })
}

/// The arguments of a request whose end is not here, the last of them as far as it is; no more than an error quotes.
fn begun_args(begun: &[u8]) -> Vec<&[u8]> {
    let line_end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\r').map(|at| at + 2);
    let mut args = Vec::new();
    let Some(mut at) = line_end(begun) else { return args };
    while args.len() < QUOTED_ARGS_MAX
        && let Some(rest) = begun.get(at..)
        && let Some(line) = line_end(rest)
        && let Some(len) = rest.get(1..line - 2).and_then(resp::number::parse_i64)
        && let Ok(len) = usize::try_from(len)
    {
        let arg = rest.get(line..).unwrap_or_default();
        args.push(&arg[..arg.len().min(len)]);
        at = at.saturating_add(line).saturating_add(len).saturating_add(2);
    }
    args
}

/// More arguments than an error for an unknown command quotes: each takes three bytes of its 128.
const QUOTED_ARGS_MAX: usize = 64;

/// Why a large request is not streamed to a node.
enum LargeWay {
    /// It must be whole to tell where it goes.
    More,
    /// Not yet.
    Hold(Hold),
    /// Not at all; the error reply.
    Refuse(Vec<u8>),
}

/// Why a transfer does not start.
enum TransferWait {
    /// Not yet.
    Hold(Hold),
    /// Not at all.
    Down(Failure),
}
