//! Equal reads of several clients that wait to be sent together are sent once, and each client gets the reply.
//!
//! ```text
//!   one turn:   a: GET k    b: SET l 1    c: GET k    d: GET k    d: SET k 2    d: GET k
//!   out:        GET k       SET l 1                               SET k 2      GET k          one write
//!   sharers:      └──────────────────────── c, d
//! ```
//! The rule: a read may share an equal one that was not given to the driver yet, on the same connection, if *nothing of its own client* stands on
//! that connection at that one's place or behind. Then the server might as well have got the two one after the other: all that stands between is
//! of other clients, who are not answered yet and so cannot have told anybody of it, and which of the sockets a worker reads first in a turn is nobody's
//! business. What a client sent before its read stands before the read that it shares, and what it sends after it stands behind, so for the client
//! nothing has moved. ([Decision 20](../../../../docs/internals/decisions/0020-equal-reads-are-sent-once.md).)
//!
//! A connection is of one server, user, protocol and database, so equal bytes mean the same. Only requests on the short way (`plain`) share or are
//! shared: nothing of a client in a transaction, with a watch or a lease, that caches, or that wants no replies; nothing that is sent on or
//! asked again, and nothing while somebody watches with `MONITOR` or `CLIENT PAUSE` holds.
//!
//! Files: this one finds what can be shared, `answer` gives the replies to all. Not here: who shares what (`upstream::sharers`).
//!
//! Invariant: an entry speaks of a connection by where bytes stand that it counts once and for ever. Whether they still wait there is looked up, and
//! the bytes are compared, so that an old entry, or one of a connection that is gone, finds nothing.

mod answer;

use crate::client::Client;
use crate::command::CommandId;
use crate::engine::Engine;
use crate::hotkeys::HotKeys;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{SHARED_READ_BYTES_MAX, UNSENT_READS_MAX};
use crate::plain::{Parts, PlainRun, takes_plain};
use crate::upstream::inflight::{Owner, Run};
use crate::upstream::{Lane, Upstream};
use alloc::vec::Vec;
use rapidhash::v3::rapidhash_v3;

/// A read that was written and perhaps not sent yet.
#[derive(Clone, Copy, Debug)]
struct Unsent {
    upstream: UpstreamId,
    /// Its place in the queue of the connection.
    place: u64,
    /// Where it stands in the output.
    at: u64,
}

/// A request that shares another one's reply and that the hot keys want to look at.
#[derive(Debug)]
pub(crate) struct SampledRead {
    pub(crate) upstream: UpstreamId,
    pub(crate) command: CommandId,
    pub(crate) request: Vec<u8>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    /// Empty until the first read is remembered; then [`UNSENT_READS_MAX`] entries.
    unsent: Vec<Option<Unsent>>,
    /// To be looked at when the input is worked off.
    pub(crate) sampled: Vec<SampledRead>,
}

/// What a request is looked up by: where it goes, and its bytes.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    upstream: UpstreamId,
    frame: &'a [u8],
    entry: usize,
}

impl<'a> Wanted<'a> {
    /// `None`: it is too long.
    fn new(upstream: UpstreamId, frame: &'a [u8]) -> Option<Self> {
        if frame.len() > SHARED_READ_BYTES_MAX {
            return None;
        }
        // The same key often goes to all connections; they should not drive each other out.
        let spread = u64::from(upstream.index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = rapidhash_v3(frame) ^ spread;
        // The remainder by a power of two, so it fits.
        Some(Self { upstream, frame, entry: (hash % UNSENT_READS_MAX as u64) as usize })
    }
}

impl Coalescer {
    /// It is off: nothing is kept.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// An equal read that still waits to be sent on this connection.
    fn find(&self, wanted: Wanted<'_>, upstream: &Upstream) -> Option<Unsent> {
        let unsent = self.unsent.get(wanted.entry).copied().flatten()?;
        let bytes = upstream.out.untouched_at(unsent.at)?;
        (unsent.upstream == wanted.upstream && bytes.starts_with(wanted.frame)).then_some(unsent)
    }

    /// This read stands there from now on.
    fn remember(&mut self, wanted: Wanted<'_>, place: u64, at: u64) {
        if self.unsent.is_empty() {
            self.unsent.resize(UNSENT_READS_MAX, None);
        }
        self.unsent[wanted.entry] = Some(Unsent { upstream: wanted.upstream, place, at });
    }

    fn sample(&mut self, hotkeys: &mut HotKeys, wanted: Wanted<'_>, command: CommandId) {
        if hotkeys.takes_one() {
            let request = wanted.frame.to_vec();
            self.sampled.push(SampledRead { upstream: wanted.upstream, command, request });
        }
    }
}

impl Engine {
    /// A client that has not sent anything yet has no upstream, and its first request would take the long way. Of many short connections each has only
    /// that one, so it gets its upstream here if that is there.
    pub(crate) fn enter_short_way(&mut self, id: ClientId) {
        if !self.is_one() {
            return;
        }
        let Some(client) = self.clients.get_mut(id) else { return };
        if client.upstream.is_none() && client.is_plain() && client.places.open() == 0 {
            let key = client.key_to(self.first_node, Lane::Shared);
            client.upstream = self.by_key.get(&key).copied();
        }
    }
}

/// What reads are shared with, borrowed from the engine piece by piece.
pub(crate) struct Sharing<'a> {
    pub(crate) coalescer: &'a mut Coalescer,
    pub(crate) hotkeys: &'a mut HotKeys,
}

impl Sharing<'_> {
    /// Takes the request in that stands in `input` from `pos` to `end`, as [`PlainRun::take`] does, but if it can share another one nothing is written
    /// for it. Kept apart, so that the loop over a client's input stays small while it is off.
    #[inline(never)]
    pub(crate) fn take(
        &mut self,
        run: &mut PlainRun,
        parts: &mut Parts<'_>,
        (upstream, command): (UpstreamId, CommandId),
        (input, pos, end): (&[u8], usize, usize),
    ) -> bool {
        let Some(wanted) = Wanted::new(upstream, &input[pos..end]) else {
            return run.take(parts, upstream, command, &input[..pos]);
        };
        if !run.has_unwritten(upstream)
            && let Some(unsent) = find_shareable(parts, self.coalescer, wanted)
        {
            run.write(parts, &input[..pos]);
            share(parts, unsent, command);
            self.coalescer.sample(self.hotkeys, wanted, command);
            run.skip_to(end);
            return true;
        }
        if !run.take(parts, upstream, command, &input[..pos]) {
            return false;
        }
        if let Some(upstream) = parts.upstreams.get(upstream) {
            let (before, bytes) = run.stands_behind(pos);
            let place = upstream.inflight.end() + u64::from(before);
            self.coalescer.remember(wanted, place, upstream.out.position() + bytes as u64);
        }
        true
    }
}

/// The read that this one may share.
fn find_shareable(parts: &Parts<'_>, coalescer: &Coalescer, wanted: Wanted<'_>) -> Option<Unsent> {
    let upstream = parts.upstreams.get(wanted.upstream)?;
    if !takes_plain(Some(upstream), parts.client, parts.limits) {
        return None;
    }
    let unsent = coalescer.find(wanted, upstream)?;
    let is_idle = parts.client.places.open() == 0;
    upstream.inflight.may_share(unsent.place, parts.id, is_idle).then_some(unsent)
}

/// The client's next request gets the reply to this one.
fn share(parts: &mut Parts<'_>, unsent: Unsent, command: CommandId) {
    let Some(upstream) = parts.upstreams.get_mut(unsent.upstream) else { return };
    let owner = next_place(parts.id, parts.client);
    let run = Run::new(owner, 1, Some(command), parts.now, unsent.at);
    upstream.inflight.share(unsent.place, Run { shares: true, ..run });
    // Nothing more is to be sent, but the connection has one more client to remember.
    parts.dirty_upstreams.push(unsent.upstream, upstream);
    parts.client.last_command = Some(command);
    parts.stats.command(Some(command)).calls += 1;
    parts.stats.requests += 1;
    parts.stats.coalesced += 1;
}

fn next_place(id: ClientId, client: &mut Client) -> Owner {
    Owner::Client { id, seq: client.places.reserve(1), silent: false }
}
