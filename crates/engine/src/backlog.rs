//! Who stands behind a client that asked for far more than it was thought to.
//!
//! How much a client may have asked for and not got follows the size of its replies (`Client::window`), which is known once they come. A
//! client whose replies were small, or that had none, may have asked for a thousand large values at once; and its replies stand before those of
//! everybody who asked over the same connection since, for as long as they take to come. So do those of many clients with a few each. When one of them begins to come and others wait behind, a fresh
//! connection is made. As soon as it is ready, others go on over it, the one with the backlog is retired, and what they have asked for already is asked for there once more, if it only reads.
//!
//! ```text
//!   retired:  [a: GET ×50][b: GET][c: SET][a: …][d: GET ×2]        a's first reply is large
//!   fresh:    [b: GET][d: GET ×2]                                   c waits for its own
//! ```
//! Not here: clients that do not take their replies (`reply::stall_for`).
//!
//! Invariant: no write is sent twice, and nothing of a client overtakes what it sent before: its requests go over together or not at all.

use crate::client::Client;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{BACKLOG_BYTES, BACKLOG_RUNS_MAX, MOVED_BYTES_MAX, PACE_REPLIES, RETIRED_MAX};
use crate::redirect::{find_request, reads};
use crate::time::Time;
use crate::upstream::inflight::{Bond, Owner, Run};
use crate::upstream::{Carried, Lane, Role, Upstream};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// How large the replies of a connection are on average, as of the last look: what it had brought then, in bytes and in replies.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    bytes: u64,
    replies: u64,
    mean: u64,
}

impl Upstream {
    /// About how many bytes are to come over this connection, if its replies stay as large as they recently were on average.
    fn note_pace(&mut self) -> u64 {
        let (bytes, replies) = (self.traffic.in_bytes, self.inflight.place());
        let since = replies - self.pace.replies;
        if since >= PACE_REPLIES {
            let mean = bytes.saturating_sub(self.pace.bytes) / since;
            self.pace = Pace { bytes, replies, mean };
        }
        self.pace.mean.saturating_mul(self.inflight.len() as u64)
    }
}

impl Engine {
    /// A large reply for this client begins to come over this connection.
    #[cold]
    pub(crate) fn look_at_backlog(&mut self, now: Time, id: UpstreamId, client: ClientId) {
        let (Some(upstream), Some(owner)) = (self.upstreams.get_mut(id), self.clients.get(client))
        else {
            return;
        };
        let is_shared = upstream.role == Role::Shared
            && upstream.key.lane == Lane::Shared
            && upstream.key.owner.is_none();
        let bytes = upstream.scanner.position() + upstream.scanner.missing();
        let of_client = bytes.saturating_mul(u64::from(owner.places.open()));
        let backlog = of_client.max(upstream.note_pace());
        if !is_shared || backlog < BACKLOG_BYTES || upstream.inflight.others_since(client).is_none()
        {
            return;
        }
        let (key, relief) = (upstream.key, upstream.relief);
        let is_coming = |up: &Upstream| matches!(up.role, Role::Spare(_)) && !up.is_ready();
        let is_coming = relief.and_then(|id| self.upstreams.get(id)).is_some_and(is_coming);
        if is_coming || self.roles.retired >= RETIRED_MAX {
            return;
        }
        let Some(fresh) = self.new_upstream(key, Role::Spare(now)) else { return };
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.relief = Some(fresh);
        }
        self.connect(now, fresh);
    }

    /// This connection is ready. If it was made for those behind a backlog, it takes the place of the one that has it.
    pub(crate) fn relieve(&mut self, id: UpstreamId) {
        let keeps = self.keeps_output();
        let Some(key) = self.upstreams.get(id).map(|upstream| upstream.key) else { return };
        let Some(from) = self.by_key.get(&key).copied() else { return };
        let Some(upstream) = self.upstreams.get(from).filter(|up| up.relief == Some(id)) else {
            return;
        };
        let Some(front) = upstream.inflight.front().map(|run| run.owner) else { return };
        self.set_role(from, Role::Retired);
        self.unlist(&key);
        self.set_role(id, Role::Shared);
        self.list(key, id);
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.out.keeps = keeps;
        }
        self.move_readers(from, id, self.client_of(front));
        self.wake_waiters(from);
    }

    /// What others than the one in front have asked for over the one connection, and only reads, is asked for over the other.
    fn move_readers(&mut self, from: UpstreamId, to: UpstreamId, but: Option<ClientId>) {
        let moved = self.movable(from, but);
        if moved.is_empty() {
            return;
        }
        let Some(upstream) = self.upstreams.get_mut(from) else { return };
        let runs = upstream.inflight.disown(|id| moved.contains(&id));
        let mut carried = Carried { bytes: Vec::new(), runs: Vec::new() };
        for run in runs {
            let at = carried.bytes.len() as u64;
            for index in 0..run.count {
                let found = find_request(upstream, &run, run.done + index);
                debug_assert!(found.is_some(), "a request that was found a moment ago");
                carried.bytes.extend(found.into_iter().flat_map(|(_, bytes)| bytes));
            }
            carried.runs.push(Run { at, done: 0, ..run });
        }
        if let Some(fresh) = self.upstreams.get_mut(to) {
            fresh.carried = Some(carried);
        }
        self.send_carried(to);
    }

    /// The clients behind whose requests on this connection can go over another one.
    fn movable(&self, id: UpstreamId, but: Option<ClientId>) -> BTreeSet<ClientId> {
        let Some(upstream) = self.upstreams.get(id) else { return BTreeSet::new() };
        if upstream.inflight.has_sharers() || upstream.is_watched() {
            return BTreeSet::new();
        }
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
                match find_request(upstream, run, run.done + index) {
                    Some((_, request)) => bytes += request.len(),
                    None => *may = false,
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

/// Whether a run can be asked again by itself.
fn goes_alone(run: &Run) -> bool {
    matches!(run.owner, Owner::Client { .. })
        && reads(run.command)
        && run.tries == 0
        && run.bond == Bond::None
        && !run.shares
}
