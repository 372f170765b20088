//! Requests in front of several servers: to the one that has the keys, in parts to those that have them, or to all.
//!
//! ```text
//!   MGET a b c ─▶ keys ─▶ places ┬ one place ────▶ its node, the request as it is
//!                                ├ several ──────▶ one part a place, all parts of a node in one write ─▶ merge
//!                                └ several, and the command cannot be split ─▶ the server's CROSSSLOT
//!   KEYS *, FLUSHALL, DBSIZE ────▶ every primary ─▶ merge          TIME, PUBLISH ─▶ any one
//! ```
//! Which commands may be split, and how their replies become one, is data: the policies of the command table.
//!
//! What a part failed to do is told by an error and never left out of a sum or an array. Parts of one request are independent: of an
//! `MSET` whose one part failed the others have happened, as they would have for a client that split it itself.
//!
//! Not here: how replies become one (`merge`), who owns what (`topology`).
//!
//! Invariant: either every part of a request is in a FIFO (or answered), or none is and the client is held.

use crate::client::Hold;
use crate::command::{self, Command, CommandId, Learned, RequestPolicy, ResponsePolicy, ids};
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::merge::{How, Merge, scan};
use crate::reject;
use crate::request::Step;
use crate::route::Known;
use crate::time::Time;
use crate::topology::Place;
use crate::upstream::inflight::{Owner, Run};
use crate::upstream::{Lane, UpstreamKey};
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// One request on its way through here.
pub(crate) struct Wish<'a> {
    /// Whose.
    pub(crate) id: ClientId,
    /// The whole request, as RESP.
    pub(crate) frame: &'a [u8],
    /// Its arguments, the command first.
    pub(crate) args: &'a [&'a [u8]],
    /// Its row, of the subcommand where there is one.
    pub(crate) row: Option<CommandId>,
    /// No reply is wanted.
    pub(crate) silent: bool,
}

/// One part of a request that is split.
struct Part {
    node: NodeId,
    bytes: Vec<u8>,
    /// Which of the request's units (keys, or keys with what belongs to them) are in it.
    units: Vec<u32>,
}

/// The row of the subcommand, where the row of the container says nothing.
fn row_of(id: CommandId, args: &[&[u8]]) -> CommandId {
    let sub = args.get(1).filter(|_| id.row().is_container());
    sub.and_then(|word| command::lookup_sub(id, word)).unwrap_or(id)
}

/// Index and text of every key of a call.
fn keys_of<'a>(args: &[&'a [u8]], learned: Option<&Learned>) -> Vec<(usize, &'a [u8])> {
    let mut found = Vec::new();
    let Some(name) = args.first() else { return found };
    match command::lookup(name) {
        Some(id) => {
            let row = row_of(id, args).row();
            command::keys(row, args.iter().copied(), |index, key, _| found.push((index, key)));
        }
        None => {
            if let Some(row) = learned.and_then(|learned| learned.lookup(name)) {
                row.keys(args.iter().copied(), |index, key| found.push((index, key)));
            }
        }
    }
    found
}

/// The first key of a call that the table knows.
pub(crate) fn first_key<'a>(args: &[&'a [u8]]) -> Option<&'a [u8]> {
    keys_of(args, None).first().map(|(_, key)| *key)
}

impl Engine {
    /// Gives a request on, to whoever has its keys.
    pub(crate) fn scatter(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
        known: &Known,
        silent: bool,
    ) -> Step {
        let epoch = self.route_epoch;
        let Some(client) = self.clients.get_mut(id) else { return Step::Gone };
        if client.may_overtake(epoch) {
            return Step::Hold(Hold::Drained);
        }
        client.route_epoch = epoch;
        let row = known.id.map(|id| row_of(id, args));
        let wish = Wish { id, frame, args, row, silent };
        let keys = keys_of(args, self.learned.as_ref());
        let Some((_, first)) = keys.first() else { return self.without_keys(now, &wish) };
        let place = self.router.place(first);
        if keys.iter().skip(1).all(|(_, key)| self.router.place(key) == place) {
            return match self.node_for(place, row) {
                Some(node) => self.forward_to(now, &wish, node, Lane::Shared),
                None => self.unserved_step(now, id, place.pool, silent),
            };
        }
        match row.map(CommandId::row) {
            Some(row) if row.request_policy == RequestPolicy::MultiShard => {
                self.split(now, &wish, row, &keys)
            }
            _ => self.refuse_wish(&wish, reject::CROSSSLOT),
        }
    }

    /// The node that serves this command at this place.
    fn node_for(&self, place: Place, row: Option<CommandId>) -> Option<NodeId> {
        let reads = row.is_some_and(|row| {
            row.row().reads() && !self.settings.reads.primary_commands.contains(&row)
        });
        if reads && self.reads_spread() {
            return self.router.reader(place, self.router.next_turn());
        }
        self.router.node(place)
    }

    fn refuse_wish(&mut self, wish: &Wish<'_>, text: &str) -> Step {
        self.stats.command(wish.row).rejected += 1;
        self.reply(wish.id, wish.silent, |out| reject::write(out, text));
        Step::Done
    }

    /// A request that names no key.
    fn without_keys(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let Some(row) = wish.row else { return self.to_any(now, wish) };
        if row == ids::SCAN {
            return self.scan(now, wish);
        }
        match row.row().request_policy {
            RequestPolicy::AllShards | RequestPolicy::AllNodes => match how_of(row, wish.args) {
                Some(how) => self.to_all(now, wish, how),
                None => self.to_any(now, wish),
            },
            _ => self.to_any(now, wish),
        }
    }

    fn to_any(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        match self.router.any_node() {
            Some(node) => self.forward_to(now, wish, node, Lane::Shared),
            None => self.unserved_step(now, wish.id, 0, wish.silent),
        }
    }

    /// Sends the request to every primary.
    fn to_all(&mut self, now: Time, wish: &Wish<'_>, how: How) -> Step {
        let nodes = self.router.primaries();
        if nodes.is_empty() || !self.router.is_covered() {
            return self.unserved_step(now, wish.id, 0, wish.silent);
        }
        let parts = nodes.into_iter().map(|node| Part {
            node,
            bytes: wish.frame.to_vec(),
            units: Vec::new(),
        });
        let parts: Vec<Part> = parts.collect();
        let lane = match wish.row.map(|row| row.row().class) {
            Some(command::Class::Control) => Lane::Control,
            _ => Lane::Shared,
        };
        self.send_parts(now, wish, lane, how, parts)
    }

    /// SCAN goes from one primary to the next; the cursor says where it is.
    fn scan(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let nodes = self.router.primaries();
        if nodes.is_empty() || !self.router.is_covered() {
            return self.unserved_step(now, wish.id, 0, wish.silent);
        }
        let Some(given) = wish.args.get(1).and_then(|cursor| scan::read(cursor)) else {
            // Not a cursor at all, or no argument: the server has the words for it.
            return self.to_any(now, wish);
        };
        let place = scan::resume(given, nodes.len(), self.topology_mark());
        let mut args = wish.args.to_vec();
        let cursor = scan::text(place.cursor);
        args[1] = &cursor;
        let mut bytes = Vec::new();
        encode::request(&mut bytes, &args);
        let part = Part { node: nodes[place.index], bytes, units: Vec::new() };
        let how = How::Scan { place, nodes: nodes.len() };
        self.send_parts(now, wish, Lane::Shared, how, alloc::vec![part])
    }

    /// Splits a request by the places of its keys.
    fn split(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        row: &Command,
        keys: &[(usize, &[u8])],
    ) -> Step {
        let Some(unit) = Unit::of(wish.args.len(), keys) else {
            // Arguments are missing; the server has the words for it.
            return self.to_any(now, wish);
        };
        let places = keys.iter().map(|(_, key)| self.router.place(key));
        let mut order: Vec<(Place, u32)> = places.zip(0..).collect();
        order.sort_unstable();
        let mut parts: Vec<Part> = Vec::new();
        for group in order.chunk_by(|left, right| left.0 == right.0) {
            let place = group[0].0;
            let Some(node) = self.node_for(place, wish.row) else {
                return self.unserved_step(now, wish.id, place.pool, wish.silent);
            };
            let units: Vec<u32> = group.iter().map(|(_, unit)| *unit).collect();
            let bytes = unit.request(wish.args, &units);
            parts.push(Part { node, bytes, units });
        }
        let how = match row.response_policy {
            ResponsePolicy::AggSum => How::Sum,
            ResponsePolicy::AllSucceeded => How::AllOk,
            _ => How::Elements { units: parts.iter().map(|part| part.units.clone()).collect() },
        };
        self.send_parts(now, wish, Lane::Shared, how, parts)
    }

    /// Writes the parts of a request to their nodes, or holds the client before the first is written.
    fn send_parts(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        lane: Lane,
        how: How,
        parts: Vec<Part>,
    ) -> Step {
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        let (protocol, db) = (client.protocol, client.db);
        let resp3 = protocol == Protocol::Resp3;
        let mut ways: Vec<Result<UpstreamId, Vec<u8>>> = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            // Parts of one node often stand side by side; their way is the same.
            if index > 0 && parts[index - 1].node == part.node {
                let same = ways[index - 1].clone();
                ways.push(same);
                continue;
            }
            let key = UpstreamKey { node: part.node, resp3, db, lane };
            match self.upstream_for(now, key, wish.id) {
                Availability::Ready(upstream) => ways.push(Ok(upstream)),
                Availability::Wait(upstream) => return Step::Hold(Hold::Upstream(upstream)),
                Availability::Down(error) => match self.hold_for_failover(now, part.node) {
                    Some(hold) => return Step::Hold(hold),
                    None => ways.push(Err(error)),
                },
            }
        }
        let Some(client) = self.clients.get_mut(wish.id) else { return Step::Gone };
        let seq = client.places.reserve(1);
        self.stats.requests += 1;
        self.stats.command(wish.row).calls += 1;
        let count = parts.len() as u32;
        let merge = self.merges.insert(Merge::new(wish.id, seq, wish.silent, protocol, how, count));
        for (index, (part, way)) in (0..).zip(parts.iter().zip(ways)) {
            match way {
                Ok(upstream) => {
                    let owner = Owner::Part { merge, part: index };
                    self.write_part(now, upstream, owner, wish.row, &part.bytes);
                }
                Err(error) => self.part_reply(now, merge, index, &error),
            }
        }
        Step::Done
    }

    fn write_part(
        &mut self,
        now: Time,
        id: UpstreamId,
        owner: Owner,
        command: Option<CommandId>,
        bytes: &[u8],
    ) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let at = upstream.append(&mut self.pool, bytes);
        upstream.inflight.push(Run {
            owner,
            count: 1,
            command,
            sent_at: now,
            at,
            done: 0,
            tries: 0,
            until: Time::default(),
        });
        self.touch_upstream(id);
    }

    /// Writes one request to a node.
    pub(crate) fn forward_to(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        node: NodeId,
        lane: Lane,
    ) -> Step {
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        let key =
            UpstreamKey { node, resp3: client.protocol == Protocol::Resp3, db: client.db, lane };
        let upstream = match self.upstream_for(now, key, wish.id) {
            Availability::Ready(upstream) => upstream,
            Availability::Wait(upstream) => return Step::Hold(Hold::Upstream(upstream)),
            Availability::Down(error) => {
                if let Some(hold) = self.hold_for_failover(now, node) {
                    return Step::Hold(hold);
                }
                self.stats.command(wish.row).rejected += 1;
                self.reply(wish.id, wish.silent, |out| out.extend_from_slice(&error));
                return Step::Done;
            }
        };
        let Some(client) = self.clients.get_mut(wish.id) else { return Step::Gone };
        let seq = client.places.reserve(1);
        self.stats.requests += 1;
        self.stats.command(wish.row).calls += 1;
        let owner = Owner::Client { id: wish.id, seq, silent: wish.silent };
        self.write_part(now, upstream, owner, wish.row, wish.frame);
        Step::Done
    }

    /// One or several replies for parts of a request came.
    pub(crate) fn part_replies(
        &mut self,
        now: Time,
        id: crate::ids::MergeId,
        part: u32,
        count: u32,
        bytes: &[u8],
    ) {
        let Some(merge) = self.merges.get_mut(id) else { return };
        let wanted = self.clients.get(merge.client).is_some();
        merge.take(part, count, if wanted { bytes } else { &[] });
        let (client, held) = (merge.client, merge.held_bytes());
        if wanted && held > self.settings.limits.client_out_max_bytes {
            self.evict(client, "the parts of a reply grew too large");
        }
        self.finish_merge(now, id);
    }

    /// One reply for one part.
    pub(crate) fn part_reply(
        &mut self,
        now: Time,
        id: crate::ids::MergeId,
        part: u32,
        reply: &[u8],
    ) {
        self.part_replies(now, id, part, 1, reply);
    }

    fn finish_merge(&mut self, _now: Time, id: crate::ids::MergeId) {
        if self.merges.get(id).is_none_or(|merge| !merge.is_whole()) {
            return;
        }
        let mark = self.topology_mark();
        let Some(merge) = self.merges.remove(id) else { return };
        let mut out = Vec::new();
        merge.write(&mut out, mark);
        self.deliver(merge.client, merge.seq, 1, merge.silent, &out);
    }
}

/// How the replies of all nodes become one; `None`: the reply of one node is as good.
fn how_of(row: CommandId, args: &[&[u8]]) -> Option<How> {
    if row == ids::RANDOMKEY {
        return Some(How::AnyOfSome);
    }
    match row.row().response_policy {
        ResponsePolicy::AggSum => Some(How::Sum),
        ResponsePolicy::AggMin => Some(How::Min),
        ResponsePolicy::AggMax => Some(How::Max),
        ResponsePolicy::AllSucceeded => Some(How::AllOk),
        ResponsePolicy::OneSucceeded => Some(How::OneOk),
        ResponsePolicy::AggLogicalAnd => Some(How::And),
        ResponsePolicy::AggLogicalOr => Some(How::Or),
        ResponsePolicy::Default if args.len() < 64 => Some(How::Join),
        ResponsePolicy::Default | ResponsePolicy::Special => None,
    }
}

/// How the arguments of a request that can be split belong together: so many before the first key, then units of `step`, then a rest
/// that belongs to every part.
struct Unit {
    first: usize,
    step: usize,
    end: usize,
}

impl Unit {
    /// `None` if the last unit is not whole.
    fn of(count: usize, keys: &[(usize, &[u8])]) -> Option<Self> {
        let first = keys.first()?.0;
        let step = keys.get(1).map_or(1, |second| second.0 - first);
        let end = first + step * keys.len();
        (end <= count).then_some(Self { first, step, end })
    }

    fn request(&self, args: &[&[u8]], units: &[u32]) -> Vec<u8> {
        let rest = args.get(self.end..).unwrap_or_default();
        let mut words: Vec<&[u8]> =
            Vec::with_capacity(self.first + units.len() * self.step + rest.len());
        words.extend_from_slice(&args[..self.first]);
        for unit in units {
            let begin = self.first + *unit as usize * self.step;
            words.extend_from_slice(&args[begin..begin + self.step]);
        }
        words.extend_from_slice(rest);
        let mut out = Vec::with_capacity(words.iter().map(|word| word.len() + 16).sum());
        encode::request(&mut out, &words);
        out
    }
}
