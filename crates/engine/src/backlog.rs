//! Who stands behind a client that asked for far more than it was thought to.
//!
//! How much a client may have asked for and not got follows the size of its replies (`Client::window`), which is known once they come. A
//! client whose replies were small, or that had none, may have asked for a thousand large values at once; and its replies stand before those of
//! everybody who asked over the same connection since, for as long as they take to come. So do those of many clients with a few each. When one of them begins to come and others wait behind, a fresh
//! connection is made. As soon as it is ready, others go on over it, the one with the backlog is retired, and what they have asked for already is asked for there once more, if it only reads.
//!
//! ```text
//!   retired:  [a: GET big ×50][b: GET][c: SET][a: …][d: GET ×2][e: GET big]     a's first reply is large
//!   fresh:    [b: GET][d: GET ×2]                                               c waits for its own, e for what is large too
//! ```
//!
//! Each request that is asked for again costs its server twice. So none is a second time, and none that equals the one whose reply is large. Clients
//! whose replies were small go first, those of whom nothing is known behind them.
//!
//! Many clients with a few replies of some KB each, which are not given on in parts, are a backlog as well. So as many requests wait for replies over a connection as
//! bring [`BACKLOG_BYTES`] by the mean of the last replies; further clients wait for their turns (`turns`). Large replies that respool keeps until they
//! are whole, as a part of a merge, have this bound too, since reads of merges are not asked for again elsewhere.
//!
//! Not here: clients that do not take their replies (`reply::stall_for`), how long a script may hold a connection up (`busy`).
//!
//! Invariant: no write is sent twice, no read more than twice, and nothing of a client overtakes what it sent before: its requests go over together or not at all.

use crate::beside::Beside;
use crate::client::{Client, ReplyMode};
use crate::engine::Engine;
use crate::ids::{ClientId, ClientKind, NodeId, Slab, UpstreamId};
use crate::limits::{
    BACKLOG_BYTES, BACKLOG_RUNS_MAX, CUT_THROUGH_BYTES, DESERTED_BYTES, EQUAL_LOOKS_MAX,
    LARGE_INFLIGHT_MAX, MOVED_BYTES_MAX, PACE_LOOK_BYTES, PACE_REPLIES, RETIRED_MAX,
    TURN_REPLY_BYTES, WINDOW_MIN,
};
use crate::redirect::{find_request, find_request_bytes, reads};
use crate::time::Time;
use crate::upstream::inflight::{Bond, NOBODY, OwnCommand, Owner, Run};
use crate::upstream::{Carried, Lane, Role, State, Upstream, UpstreamKey};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// How large the replies of a connection are on average, as of the last look: what it had brought then, in bytes and in replies.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    bytes: u64,
    replies: u64,
    mean: u64,
    /// Which reply was looked at last, and how large it was known to be.
    seen: (u64, u64),
    /// The place of the last reply that was noted as a large one (see `large_replies`).
    pub(crate) large_at: Option<u64>,
}

/// Requests that may wait for replies of this mean size over a connection. Larger replies go out in
/// parts and others get a fresh connection, unless respool keeps replies until they are whole.
pub(crate) fn requests_max(key: &UpstreamKey, mean: u64, keeps_whole: bool) -> usize {
    match usize::try_from(mean) {
        _ if key.beside() == Beside::Large => LARGE_INFLIGHT_MAX,
        _ if key.beside().is_trial() => 1,
        Ok(mean @ 1..CUT_THROUGH_BYTES) => BACKLOG_BYTES as usize / mean,
        Ok(mean) if keeps_whole && mean > 0 => (BACKLOG_BYTES as usize / mean).max(1),
        _ => usize::MAX,
    }
}

impl Upstream {
    /// About how many bytes are to come over this connection, if its replies stay as large as they recently were on average.
    #[cold]
    pub(crate) fn note_pace(&mut self) -> u64 {
        let (bytes, replies) = (self.traffic.in_bytes, self.inflight.place());
        let since = replies - self.pace.replies;
        if since >= PACE_REPLIES {
            let mean = bytes.saturating_sub(self.pace.bytes) / since;
            self.pace = Pace { bytes, replies, mean, ..self.pace };
            let mut next = self.inflight.runs().take(PACE_REPLIES as usize);
            let keeps_whole = next.any(|run| matches!(run.owner, Owner::Part { .. }));
            self.requests_max = requests_max(&self.key, mean, keeps_whole);
        }
        self.pace.mean.saturating_mul(self.inflight.len() as u64)
    }

    /// How many requests one client may write in its turn (see `turns`).
    pub(crate) fn turn_requests(&self) -> u64 {
        match self.pace.mean {
            0 => u64::MAX,
            mean => (TURN_REPLY_BYTES / mean).max(u64::from(WINDOW_MIN)),
        }
    }

    /// How large the front reply is at least, as far as it has come; `None` if it is hardly larger than when it was looked at last.
    fn front_grew(&mut self) -> Option<u64> {
        let (place, bytes) =
            (self.inflight.place(), self.scanner.position() + self.scanner.missing());
        let (seen, before) = self.pace.seen;
        let grew = seen != place || bytes.saturating_sub(before) >= before / 4;
        if grew {
            self.pace.seen = (place, bytes);
        }
        grew.then_some(bytes)
    }

    /// How many requests near the front are the one in front, itself included.
    fn equal_to_front(&self) -> u64 {
        let mut runs = self.inflight.runs().take(EQUAL_LOOKS_MAX);
        let front = runs.next().and_then(|run| find_request(self, run, run.done));
        let Some((_, front)) = front else { return 1 };
        let first = |run: &Run| find_request_bytes(self, run, run.done).map(|(_, bytes)| bytes);
        1 + runs
            .filter(|run| first(run) == Some(&front))
            .map(|run| u64::from(run.count))
            .sum::<u64>()
    }
}

impl Engine {
    /// Computes the mean size of replies again after a read of [`PACE_LOOK_BYTES`] or more.
    #[inline]
    pub(crate) fn look_at_pace(&mut self, id: UpstreamId, bytes: usize) {
        if bytes >= PACE_LOOK_BYTES
            && let Some(upstream) = self.upstreams.get_mut(id)
        {
            upstream.note_pace();
        }
    }

    /// A part of a large reply for this client came over this connection.
    #[cold]
    pub(crate) fn look_at_backlog(&mut self, now: Time, id: UpstreamId, client: ClientId) {
        // One that is gone asked for this all the same.
        let open = self.clients.get(client).map_or(1, |owner| owner.places.open());
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let is_shared = upstream.role == Role::Shared
            && upstream.key.lane == Lane::Shared
            && upstream.key.owner.is_none();
        if !is_shared || upstream.inflight.others_since(client).is_none() {
            return;
        }
        // If only clients wait that take no replies, a fresh connection would have the server make a few more large replies for nobody.
        if upstream.key.beside() == Beside::Large && !others_wait(upstream, &self.clients, client) {
            return;
        }
        let Some(bytes) = upstream.front_grew() else { return };
        let alike = match bytes >= BACKLOG_BYTES / EQUAL_LOOKS_MAX as u64 {
            true => upstream.equal_to_front(),
            false => 1,
        };
        let of_alike = bytes.saturating_mul(alike.max(u64::from(open)));
        let backlog = of_alike.max(upstream.note_pace());
        if backlog < BACKLOG_BYTES {
            return;
        }
        self.begin_relief(now, id);
    }

    /// Opens a connection for clients behind the request that holds this one up, unless such a connection is on its way.
    pub(crate) fn begin_relief(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let (key, relief) = (upstream.key, upstream.relief);
        let is_coming = |up: &Upstream| matches!(up.role, Role::Spare(_)) && !up.is_ready();
        let is_coming = relief.and_then(|id| self.upstreams.get(id)).is_some_and(is_coming);
        if is_coming || self.roles.retired.len() >= RETIRED_MAX {
            return;
        }
        let Some(fresh) = self.new_upstream(key, Role::Spare(now)) else { return };
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.relief = Some(fresh);
        }
        self.connect(now, fresh);
    }

    /// This connection is ready. If it was made for those behind a backlog, it takes the place of the one that has it.
    pub(crate) fn relieve(&mut self, now: Time, id: UpstreamId) {
        let Some(key) = self.upstreams.get(id).map(|upstream| upstream.key) else { return };
        let keeps = self.keeps_output_of(&key);
        let Some(from) = self.by_key.get(&key).copied() else { return };
        let Some(upstream) = self.upstreams.get(from).filter(|up| up.relief == Some(id)) else {
            return;
        };
        let Some(front) = upstream.inflight.front().map(|run| run.owner) else { return };
        self.note_wait(now, from);
        self.set_role(from, Role::Retired);
        self.unlist(&key);
        self.set_role(id, Role::Shared);
        self.list(key, id);
        let pace = self.upstreams.get(from).map(|up| (up.pace.mean, up.requests_max));
        if let (Some(upstream), Some((mean, requests_max))) = (self.upstreams.get_mut(id), pace) {
            upstream.out.keeps = keeps;
            // Its clients are the former ones, and so are the sizes of their replies.
            upstream.pace.mean = mean;
            upstream.requests_max = requests_max;
        }
        self.move_readers(now, from, id, self.client_of(front));
        self.sweep.looks_at_deserted = true;
        self.wake_waiters(from);
    }

    /// Whether this connection, which has not greeted yet, is made for those behind a backlog that is still there. Its server may be busy with
    /// what was asked for there, for longer than a greeting takes otherwise.
    pub(crate) fn is_relief(&self, id: UpstreamId) -> bool {
        let Some(key) = self.upstreams.get(id).map(|upstream| upstream.key) else { return false };
        let from = self.by_key.get(&key).and_then(|from| self.upstreams.get(*from));
        from.is_some_and(|from| from.relief == Some(id) && !from.inflight.is_empty())
    }

    /// Whether this connection, which is connected and has not greeted yet, is waited for as long as for a reply (`timeouts.request_ms`): a server greets
    /// nobody while a script or another slow command keeps it busy, and a client without a proxy would wait for it. That the server lives is known
    /// from a shared connection to it that stands; one that owes a reply for too long is lost, and then new ones have `timeouts.connect_ms` again.
    /// Connections for what servers answer while a script runs (from `busy-reply-threshold` on, 5 seconds) are waited for in any case.
    pub(crate) fn may_greet_late(&self, now: Time, id: UpstreamId) -> bool {
        let Some(upstream) = self.upstreams.get(id) else { return false };
        let request_ms = self.settings.timeouts.request_ms;
        let connected_at = upstream.progress_at;
        (request_ms == 0 || now < connected_at.plus_ms(request_ms))
            && (upstream.key.lane == Lane::Control || self.has_shared_connection(upstream.key.node))
    }

    /// Whether a shared connection to this node stands.
    fn has_shared_connection(&self, node: NodeId) -> bool {
        let is_ready = |id| self.upstreams.get(id).is_some_and(Upstream::is_ready);
        self.nodes.get(node).is_some_and(|node| node.all_shared().any(is_ready))
    }

    /// Extends the greeting by `timeouts.connect_ms`, up to `timeouts.request_ms` in all. A connection for clients behind a backlog has no such bound.
    pub(crate) fn greets_later(&mut self, now: Time, id: UpstreamId) {
        let is_relief = self.is_relief(id);
        let (request_ms, connect_ms) =
            (self.settings.timeouts.request_ms, self.settings.timeouts.connect_ms);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let is_bounded = request_ms > 0 && !is_relief;
        let more_ms = request_ms.saturating_sub(connect_ms);
        let latest = is_bounded.then(|| upstream.progress_at.plus_ms(more_ms));
        upstream.state = State::Greeting(latest.map_or(now, |latest| latest.min(now)));
    }

    /// Fails new connections to this node with a greeting of more than `timeouts.connect_ms`: the last shared connection to the node is lost.
    pub(crate) fn end_late_greetings(&mut self, now: Time, node: NodeId) {
        let connect_ms = self.settings.timeouts.connect_ms;
        let is_late = |id: UpstreamId, up: &Upstream| {
            up.key.node == node
                && matches!(up.state, State::Greeting(_))
                && up.progress_at.plus_ms(connect_ms) <= now
                && !self.is_relief(id)
                && !self.may_greet_late(now, id)
        };
        let late = self.upstreams.iter().filter(|(id, up)| is_late(*id, up));
        for id in late.map(|(id, _)| id).collect::<Vec<_>>() {
            self.fail_upstream(now, id, "the greeting timed out", None);
        }
    }

    /// Retired connections whose clients are all gone end, and shared ones on which much is to come for such clients: their servers need not send what nobody
    /// takes. Those that write may still have to be read by their servers.
    pub(crate) fn end_deserted(&mut self) {
        if !core::mem::take(&mut self.sweep.looks_at_deserted) {
            return;
        }
        let is_deserted = |id: UpstreamId, up: &Upstream| {
            let mut runs = up.inflight.runs();
            !up.inflight.has_sharers()
                && runs.all(|run| reads(run.command) && self.is_leaving(id, up, run.owner))
        };
        let comes_in_vain = |up: &Upstream| match up.role {
            Role::Retired => true,
            Role::Shared => up.key.owner.is_none() && up.scanner.missing() >= DESERTED_BYTES,
            _ => false,
        };
        let deserted = self.upstreams.iter();
        let deserted = deserted.filter(|(id, up)| comes_in_vain(up) && is_deserted(*id, up));
        for id in deserted.map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(upstream) = self.upstreams.get(id) else { continue };
            let owners = upstream.inflight.runs().filter_map(|run| self.client_of(run.owner));
            for owner in owners.collect::<BTreeSet<_>>() {
                self.close_client(owner, None);
            }
            self.retire(id);
            self.remove_upstream(id);
        }
    }

    /// Whether the client that is owed this over a connection is gone. One that has closed its connection looks as if it only sends no more until it is sent
    /// something; a server closes it either way. Of what is large it gets no reply that has not begun. One that takes no replies is sent nothing, and a server
    /// does all that it has asked for.
    fn is_leaving(&self, from: UpstreamId, upstream: &Upstream, owner: Owner) -> bool {
        let is_for_large = upstream.key.beside() == Beside::Large;
        let leaves = |client: &Client| is_for_large && client.eof && client.mid_reply != Some(from);
        match owner {
            Owner::Client { id, silent, .. } => {
                self.clients.get(id).is_none_or(|client| !silent && leaves(client))
            }
            Owner::Part { .. } | Owner::Own(_) => self.is_unowned(owner),
        }
    }

    /// Whether the client that is owed this is gone. Answers to questions of respool's own may be owed to several clients.
    pub(crate) fn is_unowned(&self, owner: Owner) -> bool {
        let id = match owner {
            Owner::Client { id, .. } => id,
            Owner::Part { merge, .. } => match self.merges.get(merge) {
                Some(merge) if merge.info_ticket().is_some() => return false,
                Some(merge) => merge.client,
                None => return true,
            },
            Owner::Own(_) => return false,
        };
        self.clients.get(id).is_none()
    }

    /// What others than the one in front have asked for over the one connection, and only reads, is asked for over the other.
    fn move_readers(&mut self, now: Time, from: UpstreamId, to: UpstreamId, but: Option<ClientId>) {
        let moved = self.movable(from, but);
        if moved.is_empty() {
            return;
        }
        let Some(upstream) = self.upstreams.get_mut(from) else { return };
        let mut runs = upstream.inflight.disown(|id| moved.contains(&id));
        let clients = &self.clients;
        let is_known = |owner| match owner {
            Owner::Client { id, .. } => clients.get(id).is_some_and(Client::is_size_known),
            _ => false,
        };
        runs.sort_by_key(|run| !is_known(run.owner));
        let until = now.plus_ms(self.settings.timeouts.failover_hold_ms);
        let mut carried = Carried { bytes: Vec::new(), runs: Vec::new() };
        for run in runs {
            let at = carried.bytes.len() as u64;
            for index in 0..run.count {
                let found = find_request(upstream, &run, run.done + index);
                debug_assert!(found.is_some(), "a request that was found a moment ago");
                carried.bytes.extend(found.into_iter().flat_map(|(_, bytes)| bytes));
            }
            carried.runs.push(Run { at, done: 0, tries: 1, until, ..run });
        }
        if let Some(fresh) = self.upstreams.get_mut(to) {
            fresh.carried = Some(carried);
        }
        self.send_carried(to);
    }

    /// The clients behind whose requests on this connection can go over another one.
    fn movable(&self, id: UpstreamId, but: Option<ClientId>) -> BTreeSet<ClientId> {
        let Some(upstream) = self.upstreams.get(id) else { return BTreeSet::new() };
        // All replies there are large: to ask again would cost the server as much again.
        let is_for_large = upstream.key.beside() == Beside::Large;
        if is_for_large || upstream.inflight.has_sharers() || upstream.is_watched() {
            return BTreeSet::new();
        }
        let large = upstream.inflight.front().and_then(|run| find_request(upstream, run, run.done));
        let is_large = |request: &[u8]| large.as_ref().is_some_and(|(_, large)| large == request);
        let mut bytes = 0;
        let mut seen: BTreeMap<ClientId, bool> = BTreeMap::new();
        for run in upstream.inflight.runs().take(BACKLOG_RUNS_MAX) {
            let Some(client) = self.client_of(run.owner).filter(|client| Some(*client) != but)
            else {
                continue;
            };
            let may = seen
                .entry(client)
                .or_insert_with(|| self.clients.get(client).is_some_and(Client::asks_for_little));
            *may = *may && bytes < MOVED_BYTES_MAX && goes_alone(run);
            for index in 0..if *may { run.count } else { 0 } {
                match find_request_bytes(upstream, run, run.done + index) {
                    Some((_, request)) if !is_large(request) => bytes += request.len(),
                    _ => *may = false,
                }
            }
        }
        // Of those behind nobody knows whose they are.
        let unseen = upstream.inflight.runs().skip(BACKLOG_RUNS_MAX);
        for client in unseen.filter_map(|run| self.client_of(run.owner)) {
            seen.remove(&client);
        }
        seen.into_iter().filter_map(|(client, may)| may.then_some(client)).collect()
    }
}

/// Whether anybody else than this client waits for a reply over this connection, or for a place on it. Who takes no replies does not.
fn others_wait(upstream: &Upstream, clients: &Slab<ClientKind, Client>, client: ClientId) -> bool {
    let takes_replies = |client: &Client| client.reply_mode == ReplyMode::On;
    let is_owed = |run: &Run| match run.owner {
        Owner::Client { id, silent, .. } => id != client && id != NOBODY && !silent,
        Owner::Own(own) => !matches!(own, OwnCommand::Delimiter(_)),
        Owner::Part { .. } => true,
    };
    let mut waiters = upstream.waiters.iter().filter(|id| *id != client);
    upstream.inflight.waiting().any(is_owed)
        || waiters.any(|id| clients.get(id).is_some_and(takes_replies))
}

/// Whether a run can be asked again by itself.
fn goes_alone(run: &Run) -> bool {
    matches!(run.owner, Owner::Client { .. })
        && reads(run.command)
        && run.tries == 0
        && run.bond == Bond::None
        && !run.shares
        // What would be asked again is the request alone, without its delimiter.
        && !run.marks.is_delimited()
}
