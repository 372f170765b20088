//! A transaction that came whole in one packet, as client libraries send their pipelines: over the shared connection.
//!
//! Between MULTI and EXEC a connection is one client's, and so a transaction takes one of its own (`lease`). But when all of it is here, it is
//! written at once, nobody else's request stands in between, and with the reply to EXEC the connection is as it was. It costs then what as
//! many plain requests cost.
//!
//! ```text
//!   input:     MULTI SET a INCR a EXEC           all here, all plain, all keys at one place; else: a lease
//!   upstream:  … GET x │ MULTI SET a INCR a EXEC │ GET y …
//! ```
//! On a cluster the first command may meet a redirect. Then nothing of it was done, EXEC here will be EXECABORT, and all of it is sent on
//! to the other node as one; the replies that are still to come here are of no use. A redirect of a later command is an error, as the
//! client has seen QUEUED before it: EXEC is EXECABORT, from the server or from us. A single command is never sent on.
//!
//! Not here: transactions that come bit by bit, with WATCH, or with what needs a second look (`transaction`), and all while somebody
//! watches (`monitor`).
//!
//! Invariant: the requests of a transaction stand side by side in one upstream's output and in its FIFO; those that are parked are one
//! entry.

use crate::client::{Client, Hold, Sizes};
use crate::command::ids::{EXEC, MULTI};
use crate::command::{self, Class, CommandId, Flags};
use crate::connect::Availability;
use crate::delimiter::breaks_lines;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{WHOLE_BYTES_MAX, WINDOW_START};
use crate::redirect::{NOSCRIPT, Sent, find_request};
use crate::reject;
use crate::request::{Step, room};
use crate::scatter::keys_of;
use crate::time::Time;
use crate::topology::Place;
use crate::upstream::inflight::{Bond, Owner, Run};
use crate::upstream::{Lane, Upstream};
use alloc::vec::Vec;
use resp::{Args, Form, HEAD_ARGS, Request, RequestLimits, RequestScanner, Scan};

/// Consecutive requests of one command in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    command: CommandId,
    /// Where the first stands, from MULTI on.
    at: usize,
    count: u32,
}

/// A whole transaction at the begin of a client's input.
struct Whole {
    bytes: usize,
    /// Its requests, MULTI and EXEC too.
    count: u32,
    /// Where its keys lie, if that matters.
    place: Option<Place>,
}

impl Engine {
    /// The client's input begins with this request: if that is MULTI and all up to EXEC is here and plain, gives it on; the bytes done with,
    /// or what is to be done first. `None`: it is to be looked at as any other request.
    pub(crate) fn forward_whole(
        &mut self,
        now: Time,
        id: ClientId,
        input: &[u8],
        first: &Request,
    ) -> Option<Result<usize, Step>> {
        let is_multi = first.args == 1 && command_of(first, input) == Some(MULTI);
        // Those that watch are shown what goes the slow way (`monitor`).
        if !is_multi || self.pause.is_some() || !self.watches.is_empty() {
            return None;
        }
        let mut groups = core::mem::take(&mut self.scratch_groups);
        groups.clear();
        let client = self.clients.get(id).filter(|client| client.is_plain());
        let whole =
            client.and_then(|client| self.find_whole((id, client), input, first, &mut groups));
        let outcome = whole.and_then(|whole| self.give_on(now, id, input, &whole, &groups));
        self.scratch_groups = groups;
        outcome
    }

    /// Looks for EXEC. `None`: not here, or what stands before it is not plain.
    fn find_whole(
        &self,
        (id, client): (ClientId, &Client),
        input: &[u8],
        multi: &Request,
        groups: &mut Vec<Group>,
    ) -> Option<Whole> {
        let limits = RequestLimits {
            bulk_bytes_max: self.settings.limits.bulk_bytes_max,
            ..RequestLimits::default()
        };
        let input = &input[..input.len().min(WHOLE_BYTES_MAX)];
        let (room, reads_max) = self.room_for_whole(client);
        let mut scanner = RequestScanner::default();
        let mut whole = Whole { bytes: multi.len as usize, count: 1, place: None };
        let mut reads = 0;
        groups.push(Group { command: MULTI, at: 0, count: 1 });
        loop {
            let rest = input.get(whole.bytes..).filter(|rest| !rest.is_empty())?;
            let Ok(Scan::Complete { frame: request, .. }) = scanner.scan(rest, &limits) else {
                return None;
            };
            let command = command_of(&request, rest)?;
            if request.form == Form::Long && self.bigkeys.is_big(request.len, request.args.into()) {
                // It is to be noted, which the long way does.
                return None;
            }
            let ends = command == EXEC && request.args == 1;
            if !ends {
                if self.grants.trials.would_be_due(command, rest) && self.others_run_scripts(id) {
                    return None;
                }
                let row = command.row();
                if row.class != Class::Pass || row.is_container() || command.names_database() {
                    return None;
                }
                reads += u32::from(!row.flags.has(Flags::WRITE));
                if !self.is_one() {
                    // Were MULTI refused, a first command that runs a script could answer with what looks like a redirect.
                    if row.is_script() && whole.count == 1 {
                        return None;
                    }
                    let place = self.place_in_whole(command, &request, rest)?;
                    if whole.place.is_some_and(|other| other != place) {
                        return None;
                    }
                    whole.place = Some(place);
                }
            }
            match groups.last_mut() {
                Some(group) if group.command == command => group.count += 1,
                _ => groups.push(Group { command, at: whole.bytes, count: 1 }),
            }
            whole.bytes += request.len as usize;
            whole.count += 1;
            if whole.count > room || reads > reads_max {
                return None;
            }
            if ends {
                let may_be_large = reads > 0 && self.grants.large_replies.has_transaction();
                return Some(whole).filter(|_| !may_be_large);
            }
        }
    }

    /// Requests that a transaction of this client may have here, and how many of them may answer at length. Of what a client may ask for before anything
    /// is known of its replies, MULTI, EXEC and commands that write are no part: what those answer is small.
    fn room_for_whole(&self, client: &Client) -> (u32, u32) {
        let limits = &self.settings.limits;
        match (client.sizes, room(client, limits, &self.grants.speed)) {
            (Sizes::Wary, 0) => (0, 0),
            (Sizes::Wary, reads) => (WINDOW_START.min(limits.client_inflight_max), reads),
            (_, room) => (room, room),
        }
    }

    /// Where all keys of a request lie; `None`: not together, or there are none.
    fn place_in_whole(&self, command: CommandId, request: &Request, frame: &[u8]) -> Option<Place> {
        if let Some(index) = command.row().only_key_at()
            && index < request.args.min(HEAD_ARGS as u32) as usize
        {
            return Some(self.router.place(request.head[index].of(frame)));
        }
        let args: Vec<&[u8]> = Args::new(&frame[..request.len as usize]).collect();
        let keys = keys_of(&args, self.learned.as_ref());
        let mut places = keys.iter().map(|(_, key)| self.router.place(key));
        let first = places.next()?;
        places.all(|place| place == first).then_some(first)
    }

    /// Writes it to its node, in one piece.
    fn give_on(
        &mut self,
        now: Time,
        id: ClientId,
        input: &[u8],
        whole: &Whole,
        groups: &[Group],
    ) -> Option<Result<usize, Step>> {
        let epoch = self.route_epoch;
        let client = self.clients.get(id)?;
        let node = match (self.is_one(), whole.place) {
            (true, _) => self.first_node,
            (false, Some(_)) if client.may_overtake(epoch) => {
                return Some(Err(Step::Hold(Hold::Drained)));
            }
            (false, place) => self.router.node(place?)?,
        };
        let key = client.key_to(node, Lane::Shared);
        let upstream_id = match self.upstream_in_turn(now, key, id) {
            Availability::Ready(upstream) => upstream,
            Availability::Wait(upstream) => return Some(Err(Step::Hold(Hold::Upstream(upstream)))),
            // It is told bit by bit what becomes of it (`transaction`).
            Availability::Down(_) => return None,
        };
        let is_one = self.is_one();
        let client = self.clients.get_mut(id)?;
        if is_one && client.upstream != Some(upstream_id) {
            if client.places.open() > 0 {
                // Its earlier requests are on another connection to the same node and could be overtaken.
                return Some(Err(Step::Hold(Hold::Drained)));
            }
            client.upstream = Some(upstream_id);
        }
        client.route_epoch = epoch;
        if !is_one {
            self.bar_if_unsettled(now, id);
        }
        self.write_whole(now, id, upstream_id, &input[..whole.bytes], groups);
        Some(Ok(whole.bytes))
    }

    fn write_whole(
        &mut self,
        now: Time,
        id: ClientId,
        upstream_id: UpstreamId,
        bytes: &[u8],
        groups: &[Group],
    ) {
        let Self { clients, upstreams, pool, stats, .. } = self;
        let (Some(client), Some(upstream)) = (clients.get_mut(id), upstreams.get_mut(upstream_id))
        else {
            return;
        };
        let base = upstream.append(pool, bytes);
        for (index, group) in groups.iter().enumerate() {
            let seq = client.places.reserve(group.count);
            let owner = Owner::Client { id, seq, silent: false };
            let bond = match group.command {
                EXEC => Bond::Later,
                _ if index == 1 => Bond::First,
                _ => Bond::Later,
            };
            let at = base + group.at as u64;
            let run = Run::new(owner, group.count, Some(group.command), now, at);
            upstream.inflight.push(Run { bond, ..run });
            stats.command(Some(group.command)).calls += u64::from(group.count);
            stats.requests += u64::from(group.count);
        }
        let breaks_lines = groups.iter().any(|group| breaks_lines(Some(group.command)));
        client.last_command = Some(EXEC);
        self.note_long(now, Some(EXEC));
        self.touch_upstream(upstream_id);
        if breaks_lines {
            self.delimit_last(now, upstream_id);
        }
    }

    /// A server did not serve this request of a transaction, and it cannot begin again: the transaction will not be done.
    pub(crate) fn end_whole(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        place: Option<Place>,
        reply: &[u8],
    ) -> Sent {
        self.believe(id, run, place, reply);
        let moved =
            [&b"-MOVED "[..], b"-ASK ", b"-TRYAGAIN "].iter().any(|word| reply.starts_with(word));
        let mut instead = Vec::new();
        match (moved, run.command == Some(EXEC)) {
            (true, true) => reject::write(&mut instead, reject::EXECABORT),
            (true, false) => reject::write(&mut instead, reject::MOVED_INSIDE),
            // The server's own words tell more.
            (false, _) => instead.extend_from_slice(reply),
        }
        self.pass_error(now, id, run, &instead);
        Sent::On
    }

    /// No server took a transaction that was to begin again: what is behind its first command gets its answers, too.
    pub(crate) fn give_up_rest(&mut self, rest: &[Run], error: &[u8]) {
        let mut abort = Vec::new();
        reject::write(&mut abort, reject::EXECABORT);
        for run in rest {
            let Owner::Client { id, seq, silent } = run.owner else { continue };
            let replies = match run.command {
                Some(EXEC) => abort.clone(),
                _ => error.repeat(run.count as usize),
            };
            self.stats.command(run.command).failed += u64::from(run.count);
            self.deliver(id, seq, run.count, silent, &replies);
        }
    }
}

/// Whether a transaction whose request got this reply begins again as a whole: its first command was not taken, and nothing was answered
/// with QUEUED.
pub(crate) fn begins_again(run: &Run, reply: &[u8]) -> bool {
    run.bond == Bond::First && run.done == 0 && !reply.starts_with(NOSCRIPT)
}

/// The bytes from a transaction's first command to EXEC; `None` while the driver has them.
pub(crate) fn bytes_behind_multi(upstream: &Upstream, first: &Run) -> Option<Vec<u8>> {
    let exec = upstream.inflight.end_of_transaction()?;
    let (at, frame) = find_request(upstream, exec, 0)?;
    let bytes = (at - first.at) as usize + frame.len();
    Some(upstream.out.bytes_at(first.at)?.get(..bytes)?.to_vec())
}

fn command_of(request: &Request, frame: &[u8]) -> Option<CommandId> {
    if matches!(request.form, Form::Nothing | Form::Inline) {
        return None;
    }
    command::lookup(request.head[0].of(frame))
}
