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

use crate::beside::Beside;
use crate::client::{Client, Hold};
use crate::command::options::{Pattern, patterns};
use crate::command::spread::{self, Gather};
use crate::command::{self, Command, CommandId, Flags, Learned, RequestPolicy, ids};
use crate::connect::Availability;
use crate::delimiter::breaks_lines;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{PAGE_QUESTIONS_MAX, POOLED_BUFFER_BYTES, SPLIT_KEYS_MAX};
use crate::merge::{How, Merge, scan};
use crate::plain::takes_plain;
use crate::reject;
use crate::request::Step;
use crate::route::Known;
use crate::server_loss::Failure;
use crate::settings::ReadPolicy;
use crate::time::Time;
use crate::topology::Place;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use crate::upstream::{Lane, UpstreamKey};
use alloc::vec::Vec;
use resp::{Args, Protocol, encode};

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

/// One part of a request that goes to several nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    node: NodeId,
    /// Which of the ordered units are in it.
    from: u32,
    to: u32,
}

/// What the parts of a request say.
enum Body<'a> {
    /// All the same.
    Same(&'a [u8]),
    /// Each its own units, in the order of their places.
    Units(Unit, &'a [&'a [u8]], &'a [Placed]),
}

/// Where one unit lies, in one number so that sorting is cheap: by place, and units of one place in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Placed(u64);

impl Placed {
    #[inline]
    fn new(Place { pool, slot }: Place, unit: u32) -> Self {
        Self(u64::from(pool) << 48 | u64::from(slot) << 32 | u64::from(unit))
    }

    #[inline]
    fn place(self) -> Place {
        Place { pool: (self.0 >> 48) as u16, slot: (self.0 >> 32) as u16 }
    }

    #[inline]
    fn unit(self) -> u32 {
        self.0 as u32
    }
}

/// Lists that each split request needs, kept so that none is allocated for it.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    order: Vec<Placed>,
    parts: Vec<Part>,
    ways: Vec<Result<UpstreamId, Failure>>,
    pub(crate) merged: Vec<u8>,
}

/// A list whose memory is used again for the next request, unless it is large: then its memory is given back.
pub(crate) fn if_small<T>(list: Vec<T>) -> Vec<T> {
    let bytes = list.capacity().saturating_mul(size_of::<T>());
    if bytes <= POOLED_BUFFER_BYTES { list } else { Vec::new() }
}

/// The row of the subcommand, where the row of the container says nothing.
pub(crate) fn row_of(id: CommandId, args: &[&[u8]]) -> CommandId {
    let sub = args.get(1).filter(|_| id.row().is_container());
    sub.and_then(|word| command::lookup_sub(id, word)).unwrap_or(id)
}

/// Which row a request counts as: that of the subcommand, as Redis 7 counts.
#[inline]
pub(crate) fn counted(command: Option<CommandId>, frame: &[u8]) -> Option<CommandId> {
    let container = command.filter(|id| id.row().is_container());
    let sub = container.and_then(|id| command::lookup_sub(id, Args::new(frame).nth(1)?));
    sub.or(command)
}

/// Index and text of every key of a call.
pub(crate) fn keys_of<'a>(args: &[&'a [u8]], learned: Option<&Learned>) -> Vec<(usize, &'a [u8])> {
    let mut found = Vec::with_capacity(args.len());
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

/// Which connection to a node it takes.
fn lane_of(row: Option<CommandId>) -> Lane {
    match row.map(|row| row.row().class) {
        Some(command::Class::Control) => Lane::Control,
        _ => Lane::Shared,
    }
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
        let step = self.scatter_wish(now, &wish, known);
        // One that has to wait comes again, and the digest of a long script is dear.
        if step == Step::Done {
            self.note_script(&wish);
        }
        step
    }

    fn scatter_wish(&mut self, now: Time, wish: &Wish<'_>, known: &Known) -> Step {
        let Wish { id, args, row, silent, .. } = *wish;
        if known.counts_listeners() {
            return self.count_listeners(now, wish);
        }
        if let Some(text) = self.leaves_database(row, args) {
            return self.refuse_wish(wish, text);
        }
        let keys = keys_of(args, self.learned.as_ref());
        let Some((_, first)) = keys.first() else { return self.without_keys(now, wish) };
        if let Some(key) = self.router.without_route(&keys) {
            self.stats.command(row).rejected += 1;
            self.reply(id, silent, |out| out.extend_from_slice(&reject::no_route(Some(key))));
            return Step::Done;
        }
        let place = self.router.place(first);
        if self.lacks_replica(id, place, row) {
            return self.refuse_wish(wish, reject::NO_REPLICA);
        }
        if matches!(row, Some(ids::SORT | ids::SORT_RO)) && !self.sorts_at(place, args) {
            return self.refuse_wish(wish, reject::SORT_PATTERN);
        }
        if keys.len() > 1 {
            self.bar_if_unsettled(now, id);
        }
        if keys.iter().skip(1).all(|(_, key)| self.router.place_beside(place, key) == place) {
            return match self.node_for(id, place, row) {
                Some(node) => self.forward_to(now, wish, node, Lane::Shared),
                None => self.unserved_step(now, id, place.pool, silent),
            };
        }
        match row.map(CommandId::row) {
            Some(row) if spread::splits(row) => self.split(now, wish, row, place, &keys),
            _ => self.refuse_wish(wish, reject::CROSSSLOT),
        }
    }

    /// Whether the keys that the patterns of SORT stand for lie where its key does; elsewhere they would silently count as missing.
    fn sorts_at(&self, place: Place, args: &[&[u8]]) -> bool {
        // Without a star it names no key: BY nosort, GET #.
        patterns(ids::SORT.row(), args.iter().copied())
            .filter(Pattern::names_keys)
            .all(|pattern| self.router.is_pattern_beside(place, pattern.text))
    }

    /// The node that serves this command at this place.
    fn node_for(&self, id: ClientId, place: Place, row: Option<CommandId>) -> Option<NodeId> {
        if self.may_be_copy(id, row)
            && let Some(reader) = self.router.reader(place, self.router.next_turn())
        {
            return Some(reader);
        }
        self.router.node(place)
    }

    /// Whether a copy may answer this command. Clients that cache are told of changes by primaries.
    fn may_be_copy(&self, id: ClientId, row: Option<CommandId>) -> bool {
        if self.clients.get(id).is_some_and(|client| client.tracking.is_some()) {
            return false;
        }
        let primary_only = &self.settings.reads.primary_commands;
        self.reads_spread()
            && row.is_some_and(|row| row.row().reads() && !primary_only.contains(&row))
    }

    /// Whether the policy wants a replica for this command and there is none that is fit.
    fn lacks_replica(&self, id: ClientId, place: Place, row: Option<CommandId>) -> bool {
        self.settings.reads.policy == ReadPolicy::Replica
            && self.may_be_copy(id, row)
            && self.router.node(place).is_some()
            && self.router.reader(place, 0).is_none()
    }

    fn refuse_wish(&mut self, wish: &Wish<'_>, text: &str) -> Step {
        self.stats.command(wish.row).rejected += 1;
        self.reply(wish.id, wish.silent, |out| reject::write(out, text));
        Step::Done
    }

    /// A request that names no key.
    fn without_keys(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let Some(row) = wish.row else { return self.forward_to_any(now, wish) };
        let to_all =
            matches!(row.row().request_policy, RequestPolicy::AllShards | RequestPolicy::AllNodes);
        if (to_all || row == ids::SCAN) && self.must_come_last(wish.id, row) {
            return Step::Hold(Hold::Drained);
        }
        if row == ids::SCAN {
            return self.scan(now, wish);
        }
        match spread::gather(row).filter(|_| to_all) {
            Some(gather) => self.send_to_all(now, wish, How::All(gather)),
            None => self.forward_to_any(now, wish),
        }
    }

    /// Whether it is about the keys of all nodes of a cluster and its client waits for replies: a `SET` that a node sends on would else come to
    /// the next one behind the `FLUSHALL` that follows it.
    fn must_come_last(&self, id: ClientId, row: CommandId) -> bool {
        let flags = row.row().flags;
        let is_about_keys = flags.has(Flags::WRITE) || flags.has(Flags::READONLY);
        is_about_keys && self.waits_for_replies(id) && self.router.has_cluster()
    }

    /// Whether requests of this client are under way.
    pub(crate) fn waits_for_replies(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|client| client.places.open() > 0)
    }

    pub(crate) fn forward_to_any(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        match self.router.any_node() {
            Some(node) => self.forward_to(now, wish, node, lane_of(wish.row)),
            None => self.unserved_step(now, wish.id, 0, wish.silent),
        }
    }

    /// Sends the request to every primary.
    fn send_to_all(&mut self, now: Time, wish: &Wish<'_>, how: How) -> Step {
        if let Some(pool) = self.router.uncovered() {
            return self.unserved_step(now, wish.id, pool, wish.silent);
        }
        let nodes = self.router.primaries();
        let parts: Vec<Part> =
            nodes.into_iter().map(|node| Part { node, from: 0, to: 0 }).collect();
        self.send_parts(now, wish, lane_of(wish.row), how, &parts, &Body::Same(wish.frame))
    }

    /// The request as it is to one node, as a merge of one part.
    pub(crate) fn send_whole(&mut self, now: Time, wish: &Wish<'_>, node: NodeId) -> Step {
        self.send_to(now, wish, How::All(Gather::AllOk), &[node])
    }

    /// The same request to each of these nodes, over the shared connections.
    pub(crate) fn send_to(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        how: How,
        nodes: &[NodeId],
    ) -> Step {
        let parts: Vec<Part> =
            nodes.iter().map(|node| Part { node: *node, from: 0, to: 0 }).collect();
        self.send_parts(now, wish, Lane::Shared, how, &parts, &Body::Same(wish.frame))
    }

    /// A request past what the server is busy with. PONG to a client in RESP2 that listens is a
    /// message, and comes as something else over a connection that others share.
    pub(crate) fn past_busy(&mut self, now: Time, wish: &Wish<'_>, node: NodeId) -> Step {
        if !self.clients.get(wish.id).is_some_and(Client::listens_in_resp2) {
            return self.forward_to(now, wish, node, Lane::Control);
        }
        let part = Part { node, from: 0, to: 0 };
        self.send_parts(now, wish, Lane::Control, How::Pong, &[part], &Body::Same(wish.frame))
    }

    /// SCAN goes from one primary to the next; the cursor says where it is.
    fn scan(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        if let Some(pool) = self.router.uncovered() {
            return self.unserved_step(now, wish.id, pool, wish.silent);
        }
        let Some(given) = wish.args.get(1).and_then(|cursor| scan::read(cursor)) else {
            // Not a cursor at all, or no argument: the server has the words for it.
            return self.forward_to_any(now, wish);
        };
        let pages = self.pages();
        let nodes = pages.nodes.len();
        let place = scan::resume(given, nodes, pages.mark);
        let node = pages.nodes[place.index];
        let mut args = wish.args.to_vec();
        let cursor = scan::text(place.cursor);
        args[1] = &cursor;
        let mut bytes = Vec::new();
        encode::request(&mut bytes, &args);
        let asked = self.ask_before_page(now, wish, node);
        let part = Part { node, from: 0, to: 0 };
        let how = How::Scan { place, nodes, asked };
        self.send_parts(now, wish, Lane::Shared, how, &[part], &Body::Same(&bytes))
    }

    /// No node says MOVED to a SCAN, so an iteration would not notice keys that went from a node that it has before it to one that it has
    /// behind it. The node that lost them knows: each page comes behind its own word of who owns what and of what it gives away
    /// just now (`merge::scan`). Pages that leave in one batch stand behind one question, and beyond [`PAGE_QUESTIONS_MAX`] that are not answered they
    /// stand behind the last one: each answer costs as much as the table is large. Returns false for such a page: slots may have begun to move since.
    fn ask_before_page(&mut self, now: Time, wish: &Wish<'_>, node: NodeId) -> bool {
        let Some(client) = self.clients.get(wish.id) else { return true };
        let key = client.key_to(node, Lane::Shared);
        let in_cluster = |node: &crate::node::Node| self.router.is_cluster(node.pool);
        if !self.nodes.get(node).is_some_and(in_cluster) {
            return true;
        }
        let Availability::Ready(id) = self.upstream_for(now, key, wish.id) else { return true };
        let Some(upstream) = self.upstreams.get_mut(id) else { return true };
        let in_batch =
            upstream.paged.begins_at.is_some_and(|begin| begin >= upstream.out.untouched_from());
        if in_batch || upstream.paged.open >= PAGE_QUESTIONS_MAX {
            return in_batch;
        }
        upstream.paged.begins_at = Some(upstream.out.position());
        self.write_topology_question(now, id);
        self.say_own(now, id, OwnCommand::Nodes, &[b"CLUSTER", b"NODES"]);
        true
    }

    /// Splits a request by the places of its keys.
    fn split(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        row: &Command,
        first: Place,
        keys: &[(usize, &[u8])],
    ) -> Step {
        let Some(unit) = Unit::of(wish.args.len(), keys) else {
            // Arguments are missing. A node would look at the slots first and say CROSSSLOT.
            let name = wish.row.map_or("command", CommandId::name);
            self.stats.command(wish.row).rejected += 1;
            self.reply(wish.id, wish.silent, |out| reject::arity(out, name));
            return Step::Done;
        };
        if keys.len() > SPLIT_KEYS_MAX {
            return self.refuse_wish(wish, reject::TOO_LARGE_TO_SPLIT);
        }
        let mut scratch = core::mem::take(&mut self.scratch_parts);
        scratch.order.clear();
        let places = keys.iter().map(|(_, key)| self.router.place_beside(first, key));
        scratch.order.extend(places.zip(0..).map(|(place, unit)| Placed::new(place, unit)));
        scratch.order.sort_unstable();
        let step = match self.parts_of(wish, &mut scratch) {
            Err(place) if self.lacks_replica(wish.id, place, wish.row) => {
                self.refuse_wish(wish, reject::NO_REPLICA)
            }
            Err(place) => self.unserved_step(now, wish.id, place.pool, wish.silent),
            Ok(()) => {
                let how = match spread::gather_parts(row) {
                    Gather::InOrder => How::Elements {
                        units: self.spare.list(scratch.order.iter().map(|placed| placed.unit())),
                        ends: self.spare.list(scratch.parts.iter().map(|part| part.to)),
                    },
                    gather => How::All(gather),
                };
                let body = Body::Units(unit, wish.args, &scratch.order);
                let parts = core::mem::take(&mut scratch.parts);
                let step = self.send_parts(now, wish, Lane::Shared, how, &parts, &body);
                scratch.parts = parts;
                step
            }
        };
        self.scratch_parts.order = if_small(scratch.order);
        self.scratch_parts.parts = if_small(scratch.parts);
        step
    }

    /// Makes a part of each group of units with one place; the place that nobody has, or no copy that the policy wants, if there is one.
    fn parts_of(&self, wish: &Wish<'_>, scratch: &mut Scratch) -> Result<(), Place> {
        scratch.parts.clear();
        let copies = self.may_be_copy(wish.id, wish.row);
        let replica_only = copies && self.settings.reads.policy == ReadPolicy::Replica;
        let mut from = 0;
        for group in scratch.order.chunk_by(|left, right| left.place() == right.place()) {
            let place = group[0].place();
            let node = match copies {
                true => self.node_for(wish.id, place, wish.row),
                false => self.router.node(place),
            };
            let node = node
                .filter(|_| !(replica_only && self.lacks_replica(wish.id, place, wish.row)))
                .ok_or(place)?;
            let to = from + group.len() as u32;
            scratch.parts.push(Part { node, from, to });
            from = to;
        }
        Ok(())
    }

    /// Writes the parts of a request to their nodes, or holds the client before the first is written.
    fn send_parts(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        lane: Lane,
        how: How,
        parts: &[Part],
        body: &Body<'_>,
    ) -> Step {
        debug_assert!(self.may_share(wish.args), "a stranger among shared requests");
        let mut ways = core::mem::take(&mut self.scratch_parts.ways);
        ways.clear();
        let step = match self.ways_of(now, wish, lane, parts, &mut ways) {
            Some(step) => step,
            None => self.write_parts(now, wish, how, parts, &ways, body),
        };
        self.scratch_parts.ways = if_small(ways);
        step
    }

    /// Finds the upstream of each part; `Some`: the client must wait.
    fn ways_of(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        lane: Lane,
        parts: &[Part],
        ways: &mut Vec<Result<UpstreamId, Failure>>,
    ) -> Option<Step> {
        let Some(client) = self.clients.get(wish.id) else { return Some(Step::Gone) };
        let like = client.key_to(self.first_node, lane);
        for (index, part) in parts.iter().enumerate() {
            // Parts of one node often stand side by side; their way is the same.
            if index > 0 && parts[index - 1].node == part.node {
                let same = ways[index - 1].clone();
                ways.push(same);
                continue;
            }
            if like.lane == Lane::Shared
                && let Some(upstream) = self.short_way(wish.id, part.node)
            {
                ways.push(Ok(upstream));
                continue;
            }
            let key = UpstreamKey { node: part.node, ..like };
            match self.upstream_for(now, key, wish.id) {
                Availability::Ready(upstream) => ways.push(Ok(upstream)),
                Availability::Wait(upstream) => return Some(Step::Hold(Hold::Upstream(upstream))),
                Availability::Down(error) => match self.hold_for_failover(now, part.node) {
                    Some(hold) => return Some(Step::Hold(hold)),
                    None => ways.push(Err(error)),
                },
            }
        }
        None
    }

    /// The client's shared connection to this node, if it can be used as it is.
    #[inline]
    fn short_way(&self, id: ClientId, node: NodeId) -> Option<UpstreamId> {
        let client = self.clients.get(id).filter(|client| client.beside == Beside::No)?;
        let resp3 = usize::from(client.protocol == Protocol::Resp3);
        let upstream = self.nodes.get(node)?.shared_at(client.conn, resp3)?;
        takes_plain(self.upstreams.get(upstream), client, &self.settings.limits).then_some(upstream)
    }

    /// The same request to each of these nodes, over connections that were chosen.
    pub(crate) fn send_everywhere(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        how: How,
        nodes: &[NodeId],
        ways: &[Result<UpstreamId, Failure>],
    ) -> Step {
        let parts: Vec<Part> =
            nodes.iter().map(|node| Part { node: *node, from: 0, to: 0 }).collect();
        self.write_parts(now, wish, how, &parts, ways, &Body::Same(wish.frame))
    }

    fn write_parts(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        how: How,
        parts: &[Part],
        ways: &[Result<UpstreamId, Failure>],
        body: &Body<'_>,
    ) -> Step {
        if let Body::Same(frame) = body
            && parts.len() > 1
        {
            self.grants.slow.pay_parts(wish.args.len(), parts.len(), frame.len());
        }
        if self.is_mirroring() {
            let each = (0..).zip(parts.iter().zip(ways));
            let sent = each.filter_map(|(index, (part, way))| {
                let mut frame = Vec::new();
                body.write(part, &mut frame);
                Some((index, *way.as_ref().ok()?, frame))
            });
            if let Some(hold) = self.draft_parts(wish.id, sent) {
                return Step::Hold(hold);
            }
        }
        let Some(client) = self.clients.get_mut(wish.id) else { return Step::Gone };
        let (seq, protocol) = (client.places.reserve(1), client.protocol);
        self.stats.requests += 1;
        self.stats.command(wish.row).calls += 1;
        let count = parts.len() as u32;
        let room = self.spare.room();
        let merge = Merge::new(wish.id, seq, wish.silent, protocol, how, count, room);
        let merge = self.insert_merge(merge);
        if self.is_mirroring() {
            self.note_drafts(merge);
        }
        self.note_changed(merge);
        if self.elsewhere.is_some() {
            self.note_backed(now, wish, merge, seq);
        }
        let (mut last, breaks_lines) = (None, breaks_lines(wish.row));
        for (index, (part, way)) in (0..).zip(parts.iter().zip(ways)) {
            let upstream_id = match way {
                Ok(upstream) => *upstream,
                Err(error) => {
                    self.note_lost_part(merge, error);
                    self.part_reply(now, merge, index, error);
                    continue;
                }
            };
            let Some(upstream) = self.upstreams.get_mut(upstream_id) else {
                // This connection made room for the connection of a later part.
                let error = Failure::loss(reject::node("of a part", "is gone"));
                self.note_lost_part(merge, &error);
                self.part_reply(now, merge, index, &error);
                continue;
            };
            let at = upstream.out.position();
            body.write(part, upstream.out.buf(&mut self.pool));
            upstream.inflight.push(Run::new(
                Owner::Part { merge, part: index },
                1,
                wish.row,
                now,
                at,
            ));
            if last != Some(upstream_id) {
                last = Some(upstream_id);
                self.touch_upstream(upstream_id);
            }
            if breaks_lines {
                self.delimit_last(now, upstream_id);
            }
        }
        self.account_merge(merge);
        Step::Done
    }

    /// Writes one request to this connection.
    pub(crate) fn write_part(
        &mut self,
        now: Time,
        id: UpstreamId,
        owner: Owner,
        command: Option<CommandId>,
        bytes: &[u8],
    ) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let at = upstream.append(&mut self.pool, bytes);
        upstream.inflight.push(Run::new(owner, 1, command, now, at));
        self.touch_upstream(id);
        self.delimit(now, id, command);
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
        let key = client.key_to(node, lane);
        if self.concerns_mirrors() || self.changes_reply() || self.is_backing() {
            return self.forward_current(now, wish, node, lane);
        }
        let upstream = match self.upstream_in_turn(now, key, wish.id) {
            Availability::Ready(upstream) => upstream,
            Availability::Wait(upstream) => return Step::Hold(Hold::Upstream(upstream)),
            Availability::Down(error) => {
                if let Some(hold) = self.hold_for_failover(now, node) {
                    return Step::Hold(hold);
                }
                return self.refuse_failure(wish, &error);
            }
        };
        self.load_script_before(now, upstream, wish.row, wish.frame);
        let Some(client) = self.clients.get_mut(wish.id) else { return Step::Gone };
        let seq = client.places.reserve(1);
        self.stats.requests += 1;
        self.stats.command(wish.row).calls += 1;
        let owner = Owner::Client { id: wish.id, seq, silent: wish.silent };
        self.write_part(now, upstream, owner, wish.row, wish.frame);
        Step::Done
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

    /// Writes a request of these units.
    fn write(&self, args: &[&[u8]], units: impl ExactSizeIterator<Item = u32>, out: &mut Vec<u8>) {
        let rest = args.get(self.end..).unwrap_or_default();
        encode::array(out, self.first + units.len() * self.step + rest.len());
        args[..self.first].iter().for_each(|word| encode::bulk(out, word));
        for unit in units {
            let begin = self.first + unit as usize * self.step;
            args[begin..begin + self.step].iter().for_each(|word| encode::bulk(out, word));
        }
        rest.iter().for_each(|word| encode::bulk(out, word));
    }
}

impl Body<'_> {
    fn write(&self, part: &Part, out: &mut Vec<u8>) {
        match self {
            Self::Same(frame) => out.extend_from_slice(frame),
            Self::Units(unit, args, order) => {
                let units = &order[part.from as usize..part.to as usize];
                unit.write(args, units.iter().map(|placed| placed.unit()), out);
            }
        }
    }
}
