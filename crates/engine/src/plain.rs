//! Plain requests on their short way: where they go without a second look, and how many leave with one copy.
//!
//! ```text
//!   GET a  GET b  SET c        one upstream: a run; of each command an entry in the FIFO, and one copy of all bytes
//!   └──── alike ┘             what begins as the one before is found by comparing (`resp::Like`)
//! ```
//! Not here: the loop over a client's input (`request`), everything that must be looked at closer.
//!
//! Invariant: a request that was taken in has its place when [`PlainRun::write`] returns, in the order of the input.

use crate::bigkeys::BigKeys;
use crate::client::Client;
use crate::command::{self, CommandId};
use crate::dirty::DirtyUpstreams;
use crate::ids::{ClientId, NodeKind, Slab, UpstreamId, UpstreamKind};
use crate::large_replies::LargeReplies;
use crate::node::Node;
use crate::pool::BufferPool;
use crate::settings::{Limits, ReadPolicy, Reads};
use crate::speed::Speed;
use crate::stats::Stats;
use crate::time::Time;
use crate::topology::Router;
use crate::upstream::inflight::{Owner, Run};
use crate::upstream::{Role, Upstream};
use resp::{Form, HEAD_ARGS, Like, Protocol, Request};

/// Where plain requests go that only read.
#[derive(Clone, Copy)]
pub(crate) enum ShortReads {
    /// To the primary, as writes do.
    Primary,
    /// To the copy whose turn it is.
    Turn(u32),
    /// Some commands are kept to the primary: each needs a look.
    Look,
}

impl ShortReads {
    #[inline]
    pub(crate) fn of(reads: &Reads, router: &Router) -> Self {
        match (reads.policy, reads.primary_commands.is_empty()) {
            (ReadPolicy::Primary, _) => Self::Primary,
            (_, true) => Self::Turn(router.next_turn()),
            (_, false) => Self::Look,
        }
    }
}

/// Where plain requests of a client go without a second look, but those whose replies were large.
pub(crate) struct ShortPaths<'a> {
    nodes: ShortNodes<'a>,
    /// `None`: none was.
    large: Option<&'a LargeReplies>,
}

/// The upstreams of plain requests, whatever the size of their replies.
enum ShortNodes<'a> {
    /// All to the same upstream.
    One(UpstreamId),
    /// Each to the owner of its key.
    Routed {
        router: &'a Router,
        nodes: &'a Slab<NodeKind, Node>,
        conn: u16,
        resp3: usize,
        reads: ShortReads,
    },
}

impl<'a> ShortPaths<'a> {
    /// `None`: each request must be looked at.
    #[inline]
    pub(crate) fn of(
        client: &mut Client,
        router: &'a Router,
        nodes: &'a Slab<NodeKind, Node>,
        route_epoch: u32,
        reads: ShortReads,
        large: Option<&'a LargeReplies>,
    ) -> Option<Self> {
        let large = large.filter(|large| !large.is_empty());
        if router.is_one() {
            return client.upstream.map(|id| Self { nodes: ShortNodes::One(id), large });
        }
        if client.may_overtake(route_epoch) {
            return None;
        }
        client.route_epoch = route_epoch;
        let resp3 = usize::from(client.protocol == Protocol::Resp3);
        let nodes = ShortNodes::Routed { router, nodes, conn: client.conn, resp3, reads };
        Some(Self { nodes, large })
    }

    /// Whether all plain requests go to the same upstream, whatever their keys.
    #[inline]
    fn is_one(&self) -> bool {
        matches!(self.nodes, ShortNodes::One(_)) && self.large.is_none()
    }

    /// The upstream of a request, if the head of the request tells it.
    #[inline]
    pub(crate) fn upstream(
        &self,
        command: CommandId,
        request: &Request,
        frame: &[u8],
    ) -> Option<UpstreamId> {
        if let ShortNodes::One(upstream) = self.nodes
            && (self.large.is_none() || !command.row().reads())
        {
            return Some(upstream);
        }
        let index = command.row().only_key_at()?;
        if index >= request.args.min(HEAD_ARGS as u32) as usize {
            return None;
        }
        self.upstream_of(command, request.head[index].of(frame))
    }

    /// Whether the first key of such a request tells its upstream: among several servers it must be the only one.
    #[inline]
    pub(crate) fn tells_upstream_of(&self, command: CommandId) -> bool {
        self.is_one() || command.row().only_key_at().is_some()
    }

    /// The upstream of a request with this one key.
    #[inline]
    pub(crate) fn upstream_of(&self, command: CommandId, key: &[u8]) -> Option<UpstreamId> {
        if let Some(large) = self.large
            && command.row().reads()
            && large.has_key(command, key)
        {
            return None;
        }
        match &self.nodes {
            ShortNodes::One(upstream) => Some(*upstream),
            ShortNodes::Routed { router, nodes, conn, resp3, reads } => {
                let place = router.place(key);
                let node = match reads {
                    // Nobody just now: the second look decides what that means.
                    ShortReads::Turn(turn) if command.row().reads() => {
                        router.reader(place, *turn)?
                    }
                    ShortReads::Look if command.row().reads() => return None,
                    _ => router.node(place)?,
                };
                nodes.get(node)?.shared_at(*conn, *resp3)
            }
        }
    }
}

/// Whether this upstream takes plain requests of this client just now.
#[inline]
pub(crate) fn takes_plain(upstream: Option<&Upstream>, client: &Client, limits: &Limits) -> bool {
    upstream.is_some_and(|upstream| {
        upstream.is_ready()
            && upstream.role == Role::Shared
            && upstream.stall.is_none()
            && upstream.key.db == client.db
            && upstream.key.resp3 == (client.protocol == Protocol::Resp3)
            // Who waits has its turn on the long way, and nobody passes it here.
            && upstream.waiters.is_empty()
            && upstream.has_room(limits.upstream_out_high_bytes)
    })
}

/// What plain requests are given on with, borrowed from the engine piece by piece.
pub(crate) struct Parts<'a> {
    /// The client.
    pub(crate) id: ClientId,
    /// The same.
    pub(crate) client: &'a mut Client,
    pub(crate) now: Time,
    pub(crate) limits: &'a Limits,
    pub(crate) upstreams: &'a mut Slab<UpstreamKind, Upstream>,
    pub(crate) pool: &'a mut BufferPool,
    pub(crate) stats: &'a mut Stats,
    pub(crate) dirty_upstreams: &'a mut DirtyUpstreams,
}

/// Plain requests that go to one upstream with one copy, of which the last so many are of one command.
#[derive(Default)]
pub(crate) struct PlainRun {
    upstream: Option<UpstreamId>,
    command: Option<CommandId>,
    count: u32,
    /// Where the bytes begin that are not copied yet, and those of the last command.
    from: usize,
    command_from: usize,
}

impl PlainRun {
    /// Takes the request behind `input` in, if its upstream takes it just now.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        parts: &mut Parts<'_>,
        upstream: UpstreamId,
        command: CommandId,
        input: &[u8],
    ) -> bool {
        if self.upstream != Some(upstream) {
            if !takes_plain(parts.upstreams.get(upstream), parts.client, parts.limits) {
                return false;
            }
            self.write(parts, input);
            self.upstream = Some(upstream);
        } else if self.command != Some(command) {
            self.push(parts, input);
        }
        self.command = Some(command);
        self.count += 1;
        true
    }

    /// A run of one request begins, to an upstream that takes it ([`takes_plain`]); all before was written.
    pub(crate) fn begin(&mut self, upstream: UpstreamId, command: CommandId) {
        debug_assert!(self.count == 0, "a run begins and the one before was not written");
        self.upstream = Some(upstream);
        self.command = Some(command);
        self.count = 1;
    }

    /// Takes those in that stand behind the last request, which ends at `pos`, and begin as it does, at most so many. How many, and where the last
    /// of them ends.
    pub(crate) fn take_alike(
        &mut self,
        parts: &mut Parts<'_>,
        paths: &ShortPaths<'_>,
        like: &Like,
        (input, mut pos): (&[u8], usize),
        room: u32,
    ) -> (u32, usize) {
        if paths.is_one() {
            let (count, len) = like.scan_all(&input[pos..], room);
            self.count += count;
            return (count, pos + len);
        }
        let mut count = 0;
        let Some(command) = self.command.filter(|id| id.row().only_key_at() == Some(1)) else {
            return (count, pos);
        };
        while count < room
            && let Some(alike) = like.scan(&input[pos..])
            && let Some(upstream) = paths.upstream_of(command, alike.first.of(&input[pos..]))
            && self.take(parts, upstream, command, &input[..pos])
        {
            count += 1;
            pos += alike.len;
        }
        (count, pos)
    }

    /// Whether some of its requests go to this upstream and have no place yet.
    #[inline]
    pub(crate) fn has_unwritten(&self, upstream: UpstreamId) -> bool {
        self.upstream == Some(upstream) && self.count > 0
    }

    /// How many of its requests have no place yet.
    pub(crate) fn waiting(&self) -> u32 {
        self.count
    }

    /// Whether a long request behind it must wait until those before are answered.
    pub(crate) fn holds(&self, parts: &Parts<'_>, speed: &Speed, bytes: u64) -> bool {
        speed.holds(parts.client.places.open() + self.count, bytes)
    }

    /// How many of its requests will have places before the last one, which begins at `pos`, and how many of its bytes will be written before it.
    #[inline]
    pub(crate) fn stands_behind(&self, pos: usize) -> (u32, usize) {
        (self.count - 1, pos - self.from)
    }

    /// What stands in the input up to here is done with otherwise; all before was written.
    #[inline]
    pub(crate) fn skip_to(&mut self, end: usize) {
        debug_assert!(self.count == 0 && self.from <= end, "what has no place yet is skipped");
        self.from = end;
        self.command_from = end;
    }

    /// The requests of the last command take their places.
    #[inline(always)]
    fn push(&mut self, parts: &mut Parts<'_>, input: &[u8]) {
        let upstream = self.upstream.and_then(|upstream| parts.upstreams.get_mut(upstream));
        let Some(upstream) = upstream.filter(|_| self.count > 0) else { return };
        let seq = parts.client.places.reserve(self.count);
        let owner = Owner::Client { id: parts.id, seq, silent: false };
        let at = upstream.out.position() + (self.command_from - self.from) as u64;
        upstream.inflight.push(Run::new(owner, self.count, self.command, parts.now, at));
        parts.stats.command(self.command).calls += u64::from(self.count);
        parts.stats.requests += u64::from(self.count);
        parts.client.last_command = self.command;
        self.count = 0;
        self.command_from = input.len();
    }

    /// All of `input` that is not copied yet goes into the upstream's output.
    #[inline(always)]
    pub(crate) fn write(&mut self, parts: &mut Parts<'_>, input: &[u8]) {
        self.push(parts, input);
        if let Some(upstream_id) = self.upstream
            && self.from < input.len()
            && let Some(upstream) = parts.upstreams.get_mut(upstream_id)
        {
            upstream.out.buf(parts.pool).extend_from_slice(&input[self.from..]);
            parts.dirty_upstreams.push(upstream_id, upstream);
        }
        self.from = input.len();
        self.command_from = input.len();
    }
}

/// The command, if it is one that needs no second look. `holds`: if it is long, whether those before it must be answered first ([`Speed::holds`]).
#[inline]
pub(crate) fn plain_command(
    request: &Request,
    frame: &[u8],
    bigkeys: &BigKeys,
    holds: impl FnOnce() -> bool,
) -> Option<CommandId> {
    if request.form != Form::Ordinary
        && (request.form != Form::Long
            || bigkeys.is_big(request.len, request.args.into())
            || holds())
    {
        return None;
    }
    let id = command::lookup(request.head[0].of(frame))?;
    id.row().is_plain.then_some(id)
}
