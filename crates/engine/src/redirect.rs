//! Requests that a server did not serve and that go on to another one, or to the same one a little later.
//!
//! `MOVED` and `ASK` name the server that has the slot; `TRYAGAIN`, `CLUSTERDOWN`, `LOADING`, `MASTERDOWN` and `READONLY` say that this
//! one cannot serve it now, `NOSCRIPT` that it must be taught first (`scripts`), `UNBLOCKED` that it cut a wait short (`blocking`). In all these
//! cases the server did nothing, so the request may be sent again; its bytes are still in the output of the connection that it went out on. A connection that breaks is another matter: what was written may have been done, so only
//! what never left or what only reads goes on.
//!
//! ```text
//!   reply -MOVED ─▶ [parked] ── node of the slot ready ──▶ its output, FIFO ─▶ the client's place, as if nothing had been
//!                      └ not before `due`, not after `until`, slower each time
//! ```
//! Not here: finding the owner (`topology`), what waits for its turn (`parked`), and whether a server said it at all (`trust`).
//!
//! Invariant: what a server says that did nothing is never taken for a reply, and never more than one server has a request.

use crate::blocking::CUT_SHORT;
use crate::client::{Client, Hold};
use crate::command::{CommandId, Learned, ids};
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::lease::State;
use crate::limits::{
    ASK_HOLDS_US, REDIRECT_WAIT_MS, RETRY_FIRST_MS, RETRY_MAX_MS, SENT_ON_AT_ONCE, SHORT_LIFE_US,
};
use crate::node::Address;
use crate::parked::{Parked, Target};
use crate::reject;
use crate::server_loss::Failure;
use crate::settings::Limits;
use crate::shares::Group;
use crate::stats::samples::Source;
use crate::time::Time;
use crate::topology::Place;
use crate::topology::refresh::Sign;
use crate::topology::slots::parse_redirect;
use crate::trust::{Verdict, speaks_freely};
use crate::upstream::UpstreamKey;
use crate::upstream::inflight::{Bond, Marks, OwnCommand, Owner, Run};
use crate::upstream::{Role, Upstream};
use crate::whole;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Args, RequestLimits, RequestScanner, Scan, encode};

/// What a server says that does not serve a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// That one has the slot.
    Moved(u16, Address),
    /// That one has this key, the slot is on its way there.
    Ask(u16, Address),
    /// Not now.
    Later,
}

impl Redirect {
    /// The slot that it names.
    pub(crate) fn slot(&self) -> Option<u16> {
        match self {
            Self::Moved(slot, _) | Self::Ask(slot, _) => Some(*slot),
            Self::Later => None,
        }
    }
}

/// What became of a reply that may send its request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The request is this connection's no more.
    On,
    /// The driver has the bytes of the request just now: look again when they are back.
    NotYet,
    /// It is a reply as others are.
    Data,
}

/// How a server says that it does not know a script.
pub(crate) const NOSCRIPT: &[u8] = b"-NOSCRIPT ";

/// Whether a redirect came over a client's own connection, and what becomes of it then.
enum Leased {
    /// It did not.
    No,
    /// The request begins again, over another one.
    Again,
    /// It was answered.
    Answered,
}

/// Whether a reply may be one that sends its request on. Cheap: most errors are told from it by their second byte.
#[inline]
pub(crate) fn sends_on(reply: &[u8]) -> bool {
    let Some((b'-', text)) = reply.split_first() else { return false };
    let words: [&[u8]; 9] = [
        b"MOVED ",
        b"ASK ",
        b"TRYAGAIN ",
        b"CLUSTERDOWN ",
        b"LOADING ",
        b"MASTERDOWN ",
        b"READONLY ",
        b"NOSCRIPT ",
        b"UNBLOCKED force ",
    ];
    words.iter().any(|word| text.starts_with(word))
}

pub(crate) fn classify(reply: &[u8], asked_host: &str) -> Redirect {
    let text = reply.strip_prefix(b"-").unwrap_or(reply);
    let text = text.strip_suffix(b"\r\n").unwrap_or(text);
    let after = |word: &[u8]| parse_redirect(text.strip_prefix(word)?, asked_host);
    if let Some((slot, address)) = after(b"MOVED ") {
        Redirect::Moved(slot, address)
    } else if let Some((slot, address)) = after(b"ASK ") {
        Redirect::Ask(slot, address)
    } else {
        Redirect::Later
    }
}

/// The slot and its owner that a MOVED tells.
pub(crate) fn moved_to(reply: &[u8], asked_host: &str) -> Option<(u16, Address)> {
    match classify(reply, asked_host) {
        Redirect::Moved(slot, address) => Some((slot, address)),
        _ => None,
    }
}

/// The begin of an error reply, in words.
fn said(reply: &[u8]) -> String {
    String::from_utf8_lossy(&reply[1..reply.len().min(128)]).trim_end().into()
}

impl Engine {
    /// The front request of this upstream got `reply`, which [`sends_on`].
    pub(crate) fn redirect(&mut self, now: Time, id: UpstreamId, run: &Run, reply: &[u8]) -> Sent {
        let Some(upstream) = self.upstreams.get_mut(id) else { return Sent::On };
        if !upstream.out.keeps {
            return self.redirect_streamed(now, id, run, reply);
        }
        let bytes = match run.bond {
            Bond::None => request_of(upstream, run, run.done),
            _ if whole::begins_again(run, reply) => whole::bytes_behind_multi(upstream, run),
            _ => {
                let request = request_of(upstream, run, run.done);
                let place = request.and_then(|request| self.place_of(&request));
                return self.end_whole(now, id, run, place, reply);
            }
        };
        let Some(bytes) = bytes else { return Sent::NotYet };
        let key = upstream.key;
        let question = match self.judge_redirect(now, id, run, &bytes, reply) {
            Verdict::Data => return Sent::Data,
            Verdict::Server => None,
            Verdict::Open(question) => Some(question),
        };
        let place = self.place_at(id, &bytes);
        let leased = match self.redirect_of_lease(now, id, run, place, reply) {
            Leased::No => false,
            Leased::Again => true,
            Leased::Answered => return Sent::On,
        };
        let Some(upstream) = self.upstreams.get_mut(id) else { return Sent::On };
        let rest = match run.bond {
            Bond::None => Vec::new(),
            _ => behind_first(upstream.inflight.disown_transaction()),
        };
        leave_queue(upstream, run);
        // What a script may have said is no sign for anybody else.
        if !speaks_freely(run.command) {
            self.note_unsettled(now);
        }
        let behind = self.watch_behind(now, id, run.owner);
        let said = said(reply);
        let (target, named, wait_ms) = match (&question, place) {
            (None, _) => {
                self.stats.note_redirect(reply);
                self.way_on(now, id, run, reply, place)
            }
            (Some(question), _) => {
                self.ask_known_nodes(question, place);
                let target = place.map_or(Target::Node(key.node), Target::Place);
                (target, None, now.until_ms(question.until()))
            }
        };
        let until = self.sent_on_until(now, run, reply, key.node, leased);
        self.park(
            now,
            Parked {
                owner: run.owner,
                command: run.command,
                bytes,
                rest,
                tries: run.tries.saturating_add(1),
                target,
                place,
                named,
                forgot: false,
                like: key,
                due: now.plus_ms(wait_ms),
                until,
                leased,
                waits_for: None,
                behind,
                said,
                question,
                group: Group::default(),
            },
        );
        if leased {
            // A server ends the connection of a client whose wait it cut short.
            self.leave_lease(now, id, reply.starts_with(CUT_SHORT));
        }
        Sent::On
    }

    /// Until when a request is sent on that got `reply` from this node.
    fn sent_on_until(
        &mut self,
        now: Time,
        run: &Run,
        reply: &[u8],
        node: NodeId,
        leased: bool,
    ) -> Time {
        let hold_ms = self.settings.timeouts.failover_hold_ms.max(REDIRECT_WAIT_MS);
        // One whose connection was lost was sent again without any time to be sent on in.
        let had_time = run.tries > 0 && run.until > run.sent_at;
        let mut until = if had_time { run.until } else { now.plus_ms(hold_ms) };
        // One that waited at the server for something may have waited for hours, which are not counted.
        if had_time && leased {
            until = until + now.since(run.sent_at);
        }
        if reply.starts_with(b"-CLUSTERDOWN ") && !speaks_freely(run.command) {
            let pool = self.nodes.get(node).map_or(0, |node| node.pool);
            until = until.min(self.outage_ends(now, pool, hold_ms));
        }
        until
    }

    /// A server redirected a request of a lease. `first`: nothing else of the client was sent, so it may begin again elsewhere. Returns what
    /// the client gets instead; `None`: it begins again.
    pub(crate) fn lease_redirected(
        &mut self,
        id: ClientId,
        first: bool,
        command: Option<CommandId>,
        reply: &[u8],
    ) -> Option<Vec<u8>> {
        let client = self.clients.get_mut(id)?;
        let (protocol, lease) = (client.protocol, client.lease.as_mut()?);
        let moved =
            [&b"-MOVED "[..], b"-ASK ", b"-TRYAGAIN "].iter().any(|word| reply.starts_with(word));
        let mut instead = Vec::new();
        match &mut lease.state {
            State::Once | State::Watching | State::Queueing(_) if lease.sent == 1 && first => {
                return None;
            }
            // What was sent before it may still be on its way, and gets its own words.
            State::Ending if moved && command == Some(ids::EXEC) => match lease.watched {
                true => encode::null_array(&mut instead, protocol),
                false => reject::write(&mut instead, reject::EXECABORT),
            },
            state => {
                if let State::Queueing(queueing) = state {
                    queueing.refused = true;
                }
                match moved {
                    true => reject::write(&mut instead, reject::MOVED_INSIDE),
                    // The server's own words tell more.
                    false => instead.extend_from_slice(reply),
                }
            }
        }
        Some(instead)
    }

    /// The front request, which only reads, was answered too early: it is asked again behind what its client has parked.
    pub(crate) fn park_read(&mut self, now: Time, id: UpstreamId, run: &Run) -> bool {
        let Some(upstream) = self.upstreams.get(id) else { return false };
        let Some((_, bytes)) = find_request(upstream, run, run.done) else { return false };
        let (key, Some(place)) = (upstream.key, self.place_of(&bytes)) else { return false };
        if let Some(upstream) = self.upstreams.get_mut(id) {
            leave_queue(upstream, run);
        }
        let behind = self.watch_behind(now, id, run.owner);
        let hold_ms = self.settings.timeouts.failover_hold_ms.max(REDIRECT_WAIT_MS);
        let until = now.plus_ms(hold_ms);
        let said = "what it waited for was put off";
        let parked =
            Parked { behind, ..Parked::to_place(key, run, bytes, place, (now, until), said) };
        self.park(now, parked);
        true
    }

    /// What a redirect means on a client's own connection.
    fn redirect_of_lease(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        place: Option<Place>,
        reply: &[u8],
    ) -> Leased {
        let Some(Role::Leased(client)) = self.upstreams.get(id).map(|up| up.role) else {
            return Leased::No;
        };
        let seq = match run.owner {
            Owner::Client { seq, .. } => Some(seq),
            // A write that mirrors are told of.
            Owner::Part { merge, .. } => self.merges.get(merge).map(|merge| merge.seq),
            Owner::Own(_) => None,
        };
        let Some(seq) = seq else { return Leased::No };
        let places = self.clients.get(client).map(|client| &client.places);
        let first = places.is_some_and(|places| places.open() == 1 && places.is_last(seq));
        match self.lease_redirected(client, first, run.command, reply) {
            None => Leased::Again,
            Some(instead) => {
                self.believe(id, run, place, reply);
                self.pass_error(now, id, run, &instead);
                Leased::Answered
            }
        }
    }

    /// A request with this place is not sent on. If a server said that the slot is at another node of the table, the next request goes there;
    /// else known nodes are asked.
    pub(crate) fn believe(
        &mut self,
        id: UpstreamId,
        run: &Run,
        place: Option<Place>,
        reply: &[u8],
    ) {
        let Some(node) = self.upstreams.get(id).map(|upstream| upstream.key.node) else { return };
        if self.is_left(node) {
            return;
        }
        let pool = self.nodes.get(node).map_or(0, |node| node.pool);
        match (classify(reply, &self.host_of(node)), place) {
            (Redirect::Moved(slot, address), Some(place))
                if place == (Place { pool, slot })
                    && !speaks_freely(run.command)
                    && let Some(owner) = self.known_node(pool, &address) =>
            {
                self.patch_slot(place, owner);
            }
            (Redirect::Later, _) => self.want_topology(pool),
            _ => self.heed_sign(pool, Sign::Named(node)),
        }
    }

    /// respool looks at the reply at `pos` again when the driver gives back the buffer with its request.
    #[cold]
    pub(crate) fn wait_for_buffer(&mut self, id: UpstreamId, pos: usize) -> usize {
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.waits_for_buffer = true;
        }
        pos
    }

    /// It is an error as others are.
    pub(crate) fn pass_error(&mut self, now: Time, id: UpstreamId, run: &Run, reply: &[u8]) {
        if let Some(upstream) = self.upstreams.get_mut(id) {
            leave_queue(upstream, run);
            upstream.traffic.errors += 1;
            self.stats.note_error(Source::of_run(upstream, run), reply, 1);
        }
        self.stats.command(run.command).failed += 1;
        self.answer_owner(now, run.owner, reply);
    }

    /// Where a request goes on that got `reply`, who was named for it, and how long it waits before.
    fn way_on(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        reply: &[u8],
        place: Option<Place>,
    ) -> (Target, Option<NodeId>, u64) {
        let asked = self.upstreams.get(id).map_or(self.first_node, |upstream| upstream.key.node);
        if self.is_left(asked) {
            let anybody = || Target::Node(self.router.any_node().unwrap_or(self.first_node));
            return (place.map_or_else(anybody, Target::Place), None, 0);
        }
        let pool = self.nodes.get(asked).map_or(0, |node| node.pool);
        // Two servers may send a request to each other until they agree; then it goes slower and slower.
        let later_ms = (1 << run.tries.min(10)).min(RETRY_MAX_MS);
        let at_once_ms = if run.tries < SENT_ON_AT_ONCE { 0 } else { later_ms };
        let again = place.map_or(Target::Node(asked), Target::Place);
        if speaks_freely(run.command) {
            // The table has another owner, whatever the text names.
            return (again, None, at_once_ms);
        }
        let redirect = classify(reply, &self.host_of(asked));
        if !matches!(redirect, Redirect::Moved(..)) {
            self.want_topology(pool);
        }
        let named = match &redirect {
            Redirect::Moved(_, address) | Redirect::Ask(_, address) => {
                self.known_node(pool, address)
            }
            Redirect::Later => None,
        };
        match (redirect, named, place) {
            (Redirect::Moved(..), Some(node), Some(place)) => {
                self.patch_slot(place, node);
                if node == asked {
                    self.leave_stale_connection(now, id);
                }
                (again, Some(node), at_once_ms)
            }
            // respool follows an ASK at once. Where servers disagree, every second ASK has the owner asked again, later.
            (Redirect::Ask(..), Some(node), _)
                if at_once_ms == 0 || run.tries.is_multiple_of(2) =>
            {
                (Target::Asking(node, now), None, 0)
            }
            // A copy that cannot answer: its primary can.
            (Redirect::Later, ..) if place.is_some() && self.set_unfit(asked) => {
                (again, None, at_once_ms)
            }
            _ => (again, None, later_ms),
        }
    }

    /// This connection's own node says that the slot is at the address that we connected to: behind that address (of a load balancer, or
    /// a name) there is another server by now, which only a new connection reaches. One that is new itself is not left, so that a
    /// server which means it costs one connect a second.
    fn leave_stale_connection(&mut self, now: Time, id: UpstreamId) {
        let is_old = |up: &Upstream| now.since(up.ready_at) >= SHORT_LIFE_US;
        if self.upstreams.get(id).is_some_and(|up| up.role == Role::Shared && is_old(up)) {
            self.retire(id);
        }
    }

    /// A redirect of a large request, whose bytes are gone: it was not done, and its client is told so. What the server said of the slot
    /// is believed, so that the next one goes right.
    pub(crate) fn redirect_streamed(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        reply: &[u8],
    ) -> Sent {
        let place = self.upstreams.get(id).and_then(|upstream| upstream.streamed_place);
        self.believe(id, run, place, reply);
        if speaks_freely(run.command) {
            return Sent::Data;
        }
        let Some(upstream) = self.upstreams.get_mut(id) else { return Sent::On };
        leave_queue(upstream, run);
        self.stats.note_redirect(reply);
        let error = reject::gave_up(1, &said(reply));
        let source = Source::own(now, run.command, self.client_of(run.owner));
        self.stats.note_own_error(source, &error, 1);
        self.answer_owner(now, run.owner, &error);
        Sent::On
    }

    /// Gives a reply of the proxy's own to whoever waits for it.
    pub(crate) fn answer_owner(&mut self, now: Time, owner: Owner, reply: &[u8]) {
        match owner {
            Owner::Client { id, seq, silent } => self.deliver(id, seq, 1, silent, reply),
            Owner::Part { merge, part } => self.part_reply(now, merge, part, reply),
            Owner::Own(_) => {}
        }
    }

    /// The same where there is none, as its server is lost.
    fn fail_owner(&mut self, now: Time, owner: Owner, failure: &Failure) {
        match owner {
            Owner::Client { id, seq, silent } => self.deliver_failure(id, seq, 1, silent, failure),
            Owner::Part { merge, part } => {
                self.note_lost_part(merge, failure);
                self.part_reply(now, merge, part, failure);
            }
            Owner::Own(_) => {}
        }
    }

    /// Where a request's first key lies; `None` if it has none.
    pub(crate) fn place_of(&self, request: &[u8]) -> Option<Place> {
        let args: Vec<&[u8]> = Args::new(request).collect();
        crate::scatter::first_key(&args).map(|key| self.router.place(key))
    }

    /// Who waits for the reply in the end.
    pub(crate) fn client_of(&self, owner: Owner) -> Option<crate::ClientId> {
        match owner {
            Owner::Client { id, .. } => Some(id),
            Owner::Part { merge, .. } => self.merges.get(merge).map(|merge| merge.client),
            Owner::Own(_) => None,
        }
    }

    /// Sends a parked request; `Some`: it must wait, look again then (or when `waits_for` says).
    pub(crate) fn send_parked(&mut self, now: Time, parked: &mut Parked) -> Option<Time> {
        let later = now.plus_ms(RETRY_FIRST_MS);
        if let (Target::Asking(_, since), Some(place)) = (parked.target, parked.place)
            && now.since(since) > ASK_HOLDS_US
        {
            parked.target = Target::Place(place);
        }
        let node = match parked.target {
            Target::Asking(node, _) | Target::Node(node) => Some(node),
            Target::Place(place) => {
                let named = parked.named.or_else(|| self.named_behind(parked));
                named.or_else(|| self.router.node(place))
            }
        };
        let Some(node) = node.filter(|node| self.nodes.get(*node).is_some()) else {
            if let Target::Place(place) = parked.target {
                self.want_topology(place.pool);
            }
            if parked.until < now {
                self.give_up(now, parked);
                return None;
            }
            return Some(later);
        };
        let key = UpstreamKey { node, ..parked.like };
        let availability = match (parked.leased, self.client_of(parked.owner)) {
            (false, _) => self.upstream_for(now, key, crate::ClientId::new(u32::MAX, 0)),
            (true, Some(client)) if self.clients.get(client).is_some() => {
                match self.lease_to(now, client, node, self.use_of_lease(client)) {
                    crate::lease::Way::Ready(upstream) => Availability::Ready(upstream),
                    crate::lease::Way::Hold(Hold::Upstream(upstream)) => {
                        Availability::Wait(upstream)
                    }
                    crate::lease::Way::Hold(_) => return Some(later),
                    crate::lease::Way::Down(error) => Availability::Down(error),
                }
            }
            // Nobody waits for it any more.
            (true, _) => return None,
        };
        match availability {
            Availability::Ready(id) if self.could_overtake(parked, id) => Some(later),
            Availability::Ready(id) => {
                self.write_parked(now, id, parked);
                self.note_sent_on(parked, id);
                None
            }
            Availability::Wait(id) => {
                parked.waits_for = Some(id);
                Some(now)
            }
            Availability::Down(error) => {
                self.want_topology_without(node);
                self.forget_named(parked, node);
                if matches!(parked.target, Target::Place(_))
                    && now < parked.until
                    && !self.refuses_login(node)
                {
                    return Some(later);
                }
                self.leave_parked_lease(parked);
                self.fail_owner(now, parked.owner, &error);
                self.give_up_rest(&parked.rest, &error);
                None
            }
        }
    }

    /// The node that was named for this request is down: it goes by the table from now on, and so does what its client has parked behind it for that
    /// node. By the old way that would overtake it when the node is there again.
    fn forget_named(&mut self, parked: &mut Parked, node: NodeId) {
        let client = self.client_of(parked.owner);
        let behind = self.parked.of_mut(client).filter(|other| other.named == Some(node));
        for other in behind.chain([parked]) {
            (other.named, other.forgot) = (None, true);
        }
    }

    /// Who was named since to what stands behind it: they go the same way.
    fn named_behind(&self, parked: &Parked) -> Option<NodeId> {
        let mut behind = self.parked.of(self.client_of(parked.owner));
        let goes_with = |other: &Parked| parked.forgot && other.target == parked.target;
        behind.find_map(|other| other.named.filter(|_| goes_with(other)))
    }

    pub(crate) fn leave_parked_lease(&mut self, parked: &Parked) {
        if parked.leased
            && let Some(client) = self.client_of(parked.owner)
        {
            self.lease_given_up(client);
        }
    }

    fn write_parked(&mut self, now: Time, id: UpstreamId, parked: &Parked) {
        // `SCRIPT LOAD` stands before MULTI, which would queue it, and before ASKING, which holds for the next request or transaction.
        self.load_script_before(now, id, parked.command, &parked.bytes);
        let asks = matches!(parked.target, Target::Asking(..));
        if asks {
            self.say_own(now, id, OwnCommand::Asking, &[b"ASKING"]);
        }
        if parked.leased
            && let Some(client) = self.client_of(parked.owner)
        {
            self.begin_again_at(now, client, id, parked.command, &parked.bytes);
            self.set_lease_asks(client, asks);
        }
        let marks = Marks::behind_asking(asks);
        let bond = if parked.rest.is_empty() { Bond::None } else { Bond::First };
        if bond == Bond::First {
            self.say_own(now, id, OwnCommand::Multi, &[b"MULTI"]);
        }
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let (owner, command, tries, until) =
            (parked.owner, parked.command, parked.tries, parked.until);
        let at = upstream.append(&mut self.pool, &parked.bytes);
        let run = Run::new(owner, 1, command, now, at);
        upstream.inflight.push(Run { tries, until, bond, marks, ..run });
        for run in &parked.rest {
            upstream.inflight.push(Run { at: at + run.at, sent_at: now, ..*run });
        }
        self.touch_upstream(id);
        match parked.rest.last() {
            // Its own connection is nobody else's afterwards.
            _ if parked.leased => {}
            Some(exec) if exec.marks.is_delimited() => self.delimit_last(now, id),
            Some(_) => {}
            None => self.delimit(now, id, parked.command),
        }
    }
}

/// The front request is the connection's no more. Of one that shared it that was done before.
fn leave_queue(upstream: &mut Upstream, run: &Run) {
    if !run.shares {
        upstream.answered(1);
    }
}

/// Whether a command only reads.
pub(crate) fn reads(command: Option<CommandId>) -> bool {
    command.is_some_and(|command| command.row().flags.has(crate::command::Flags::READONLY))
}

/// The keys of a request; `None` stands for all of them.
pub(crate) fn keys_in(request: &[u8], learned: Option<&Learned>) -> Vec<Option<Vec<u8>>> {
    let args: Vec<&[u8]> = Args::new(request).collect();
    let keys = crate::scatter::keys_of(&args, learned);
    match keys.is_empty() {
        true => alloc::vec![None],
        false => keys.iter().map(|(_, key)| Some(key.to_vec())).collect(),
    }
}

/// The same of one that is on its way.
pub(crate) fn keys_of_run(
    upstream: &Upstream,
    run: &Run,
    skip: u32,
    learned: Option<&Learned>,
) -> Vec<Option<Vec<u8>>> {
    match find_request(upstream, run, skip) {
        Some((_, bytes)) => keys_in(&bytes, learned),
        None => alloc::vec![None],
    }
}

/// The runs of a transaction without its first command, counted from where that stands.
fn behind_first(mut runs: Vec<Run>) -> Vec<Run> {
    let begin = runs.first().map_or(0, |run| run.at);
    if let Some(first) = runs.first_mut() {
        *first = Run { count: first.count - 1, done: 1, bond: Bond::Later, ..nth(first, 1) };
    }
    runs.retain(|run| run.count > 0);
    for run in &mut runs {
        (run.at, run.tries) = (run.at - begin, 0);
    }
    runs
}

/// The run of the `index`-th request of `run` alone.
pub(crate) fn nth(run: &Run, index: u32) -> Run {
    let mut owner = run.owner;
    match &mut owner {
        Owner::Client { seq, .. } => *seq = seq.wrapping_add(index),
        Owner::Part { part, .. } => *part += index,
        Owner::Own(_) => {}
    }
    Run { owner, count: 1, done: run.done + index, ..*run }
}

/// The bytes of a run's request, `skip` requests after its first; `None` while the driver has them.
pub(crate) fn request_of(upstream: &Upstream, run: &Run, skip: u32) -> Option<Vec<u8>> {
    find_request_bytes(upstream, run, skip).map(|(_, bytes)| bytes.to_vec())
}

/// The same with its position.
pub(crate) fn find_request(upstream: &Upstream, run: &Run, skip: u32) -> Option<(u64, Vec<u8>)> {
    find_request_bytes(upstream, run, skip).map(|(at, bytes)| (at, bytes.to_vec()))
}

/// The same where it lies.
pub(crate) fn find_request_bytes<'a>(
    upstream: &'a Upstream,
    run: &Run,
    skip: u32,
) -> Option<(u64, &'a [u8])> {
    let limits = RequestLimits {
        bulk_bytes_max: Limits::default().bulk_bytes_max.max(u64::from(u32::MAX)),
        ..RequestLimits::default()
    };
    // They are looked for one after the other: the next one begins where the last one was found, or thousands would cost millions of scans.
    let (mut at, mut skipped) = match upstream.found.get() {
        (begin, skipped, at) if begin == run.at && skipped <= skip => (at, skipped),
        _ => (run.at, 0),
    };
    loop {
        let bytes = upstream.out.bytes_at(at)?;
        let mut scanner = RequestScanner::default();
        let Ok(Scan::Complete { consumed, .. }) = scanner.scan(bytes, &limits) else { return None };
        if skipped == skip {
            upstream.found.set((run.at, skip, at));
            return Some((at, &bytes[..consumed]));
        }
        skipped += 1;
        at += consumed as u64;
    }
}

impl Client {
    /// Whether what it sends now could overtake what it sent when the slots had other owners.
    #[inline]
    pub(crate) fn may_overtake(&self, route_epoch: u32) -> bool {
        self.route_epoch != route_epoch && self.places.open() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_servers_are_told_apart() {
        for text in
            ["-MOVED 1 a:1\r\n", "-ASK 1 a:1\r\n", "-TRYAGAIN x\r\n", "-UNBLOCKED force x\r\n"]
        {
            assert!(sends_on(text.as_bytes()), "{text}");
        }
        for text in
            ["-ERR MOVED 1 a:1\r\n", "-MOVEDx 1\r\n", "+MOVED 1 a:1\r\n", "-WRONGTYPE x\r\n", "-"]
        {
            assert!(!sends_on(text.as_bytes()), "{text}");
        }
        assert_eq!(classify(b"-MOVED 7 h:9\r\n", ""), Redirect::Moved(7, Address::tcp("h", 9)));
        assert_eq!(classify(b"-ASK 7 :9\r\n", "x"), Redirect::Ask(7, Address::tcp("x", 9)));
        assert_eq!(classify(b"-MOVED nonsense\r\n", "x"), Redirect::Later);
    }
}
