//! A request's way in: from a client's bytes to an upstream's out buffer, or to a local answer.
//!
//! Two speeds. [`Engine::forward_run`] takes the plain case: consecutive whole requests that go over the client's shared
//! upstream are scanned where they lie, get their places, and leave as *one* copy into the out buffer. Whatever is
//! not plain stops it, and [`Engine::dispatch`] looks at that one request properly.
//!
//! ```text
//!  input:  GET… SET… GET… PING… GET… SE
//!          └── one run ──┘  │    │    └ unfinished: stays in the client's tail
//!            forward_run    │    └ forward_run again
//!                        dispatch
//! ```
//! Not here: replies (`reply`), large requests (`transfer`).
//!
//! Invariant: a request is either processed once (it has its place, or needs none) or stays in the tail untouched.

use crate::beside::Beside;
use crate::client::{Access, Client, Hold, ReplyMode, Sizes};
use crate::coalesce::Sharing;
use crate::command::ids::{CLIENT_UNPAUSE, CLUSTER, EXEC, FUNCTION_STATS, PING, SLOWLOG};
use crate::command::{self, CommandId};
use crate::connect::Availability;
use crate::delimiter::breaks_lines;
use crate::engine::Engine;
use crate::grants::Grants;
use crate::ids::{ClientId, NodeId};
use crate::local::{Call, arity_fits, config, slowlog};
use crate::permit::{charge, permits};
use crate::plain::{Parts, PlainRun, ShortPaths, ShortReads, plain_command};
use crate::reject;
use crate::route::{self, Known, Way};
use crate::scatter::{Wish, counted, row_of};
use crate::settings::Limits;
use crate::slow::SlowTurn;
use crate::speed::Speed;
use crate::time::Time;
use crate::upstream::inflight::{Owner, Run};
use crate::upstream::{Lane, UpstreamKey};
use alloc::vec::Vec;
use resp::{
    Args, Form, Like, Protocol, Request, RequestError, RequestLimits, Scan, encode, inline,
};

/// Why a run of plain requests ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The input is used up, or its rest is no whole request.
    Input,
    /// This request is not plain.
    Slow(Request),
    /// The unfinished request at the end is too large to be kept.
    Large,
    /// Nothing more of this client may be taken in now.
    Full,
    /// Not the protocol.
    Fault(RequestError),
}

/// What became of one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was processed.
    Done,
    /// It must wait, untouched.
    Hold(Hold),
    /// It must be whole before it can be processed.
    More,
    /// It is not the protocol after all (an inline request with unbalanced quotes).
    Fault(RequestError),
    /// The client is gone.
    Gone,
}

impl Engine {
    /// Processes input of a client that begins at a request; returns how many bytes are done with. `sizes` are the client's.
    pub(crate) fn process(&mut self, now: Time, id: ClientId, sizes: Sizes, input: &[u8]) -> usize {
        if sizes != Sizes::Unknown {
            return self.process_input(now, id, input);
        }
        self.begin_probe(id);
        let used = self.process_input(now, id, input);
        self.end_probe_of_nothing(id);
        used
    }

    fn process_input(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        let mut pos = 0;
        loop {
            let Some(client) = self.clients.get(id) else { return input.len() };
            if client.closing {
                return input.len();
            }
            match client.hold {
                Hold::No => {}
                Hold::Streaming(_) | Hold::Skipping => {
                    let (used, finished) = self.stream(now, id, &input[pos..]);
                    self.grow_wary(id, &[]);
                    pos += used;
                    if !finished {
                        return pos;
                    }
                    continue;
                }
                _ => return pos,
            }
            let (used, stop) = match (self.looks_at_reads, self.grants.large_replies.is_empty()) {
                (false, true) => self.forward_run::<false, false, false>(now, id, &input[pos..]),
                (false, false) => self.forward_beside_large(now, id, &input[pos..]),
                (true, _) => self.forward_looking(now, id, &input[pos..]),
            };
            pos += used;
            let step = match stop {
                Stop::Input => return pos,
                Stop::Full => Step::Hold(Hold::Output),
                Stop::Fault(error) => Step::Fault(error),
                Stop::Slow(request) => match self.process_slow(now, id, &input[pos..], &request) {
                    Ok(used) => {
                        pos += used;
                        continue;
                    }
                    Err(step) => {
                        if step == Step::Done {
                            pos += request.len as usize;
                        }
                        step
                    }
                },
                Stop::Large if self.waits_for_exec(id) => Step::Hold(Hold::Drained),
                Stop::Large => {
                    let (used, step) = self.begin_large(now, id, &input[pos..]);
                    self.grow_wary(id, &[]);
                    pos += used;
                    if self.policy.is_some() {
                        self.end_judging(now, id, &step);
                    }
                    step
                }
            };
            match step {
                Step::Done => {}
                Step::Gone => return input.len(),
                Step::More => return pos,
                Step::Fault(error) => {
                    self.protocol_error(id, &error);
                    return input.len();
                }
                Step::Hold(hold) => {
                    self.hold(id, hold);
                    return pos;
                }
            }
        }
    }

    /// The request at the begin of `input` is not forwarded as it comes. How many bytes are done with after all, or what became of it alone.
    fn process_slow(
        &mut self,
        now: Time,
        id: ClientId,
        input: &[u8],
        request: &Request,
    ) -> Result<usize, Step> {
        if !self.grants.slow.take(id, request.args as usize, request.len as usize) {
            return Err(Step::Hold(Hold::Turn(SlowTurn::is_large(request.args as usize))));
        }
        if self.is_confined(id) && self.near.is_none() {
            let permitted = match self.namespace().is_some() {
                true => self.forward_prefixed(now, id, input),
                false => self.forward_permitted(now, id, input),
            };
            if permitted > 0 {
                return Ok(permitted);
            }
        }
        if self.waits_for_exec(id) || self.stands_behind_own(id, request) {
            return Err(Step::Hold(Hold::Drained));
        }
        let frame = &input[..request.len as usize];
        let step = match self.forward_whole(now, id, input, request) {
            Some(Ok(used)) => {
                self.end_caching(id, &[]);
                self.grow_wary(id, &[]);
                return Ok(used);
            }
            Some(Err(step)) => step,
            None => self.dispatch(now, id, frame, request),
        };
        if self.policy.is_some() {
            self.end_judging(now, id, &step);
        }
        if self.near.is_some() {
            self.grow_wary_by(id, request, frame);
        }
        Err(step)
    }

    /// Forwards plain requests from the begin of `input` on; returns the bytes forwarded and why it stopped. `COALESCES`: reads may be shared.
    /// `CONFINED`: each is looked at whether the client's user allows it. `BESIDE`: some may have large replies.
    #[inline(always)]
    fn forward_run<const COALESCES: bool, const CONFINED: bool, const BESIDE: bool>(
        &mut self,
        now: Time,
        id: ClientId,
        input: &[u8],
    ) -> (usize, Stop) {
        let reads = ShortReads::of(&self.settings.reads, &self.router);
        let Self {
            clients,
            upstreams,
            pool,
            stats,
            dirty_upstreams,
            settings,
            router,
            nodes,
            bigkeys,
            coalescer,
            hotkeys,
            elsewhere,
            grants,
            ..
        } = self;
        let Some(client) = clients.get_mut(id) else { return (input.len(), Stop::Input) };
        let (limits, Grants { speed, large_replies, .. }) = (&settings.limits, grants);
        let short = self.pause.is_none()
            && self.watches.is_empty()
            && client.is_plain_with(if CONFINED { Access::Confined } else { Access::Everything });
        let (epoch, large) = (self.route_epoch, BESIDE.then_some(&*large_replies));
        let paths = ShortPaths::of(client, router, nodes, epoch, reads, large).filter(|_| short);
        let (mut room, bounds) = (room(client, limits, speed), request_limits(client, limits));
        let mut parts = Parts { id, client, now, limits, upstreams, pool, stats, dirty_upstreams };
        let mut sharing = Sharing { coalescer, hotkeys };
        let (mut run, mut pos) = (PlainRun::default(), 0);
        let stop = loop {
            let offset = parts.client.scanner.position() as usize;
            let Some(rest) = input.get(pos + offset..).filter(|rest| !rest.is_empty()) else {
                // What is scanned to its last byte may be a large request that was held: no more of it comes while the client is not read.
                break if offset == 0 { Stop::Input } else { partial(parts.client, limits) };
            };
            if room == 0 {
                break Stop::Full;
            }
            let request = match parts.client.scanner.scan(rest, &bounds) {
                Ok(Scan::Complete { frame, .. }) => frame,
                Ok(Scan::Partial { .. }) => break partial(parts.client, limits),
                Err(error) => break Stop::Fault(error),
            };
            let (frame, holds) = (&input[pos..], || run.holds(&parts, speed, request.len));
            let command = plain_command(&request, frame, bigkeys, holds).filter(|id| {
                !CONFINED || permits(settings, elsewhere, &parts, *id, (&request, frame))
            });
            let (Some(paths), Some(command)) = (&paths, command) else {
                break Stop::Slow(request);
            };
            let end = pos + request.len as usize;
            let shares = COALESCES && command.row().is_shareable;
            let taken = |upstream| match shares {
                false => run.take(&mut parts, upstream, command, &input[..pos]),
                true => sharing.take(&mut run, &mut parts, (upstream, command), (input, pos, end)),
            };
            if !paths.upstream(command, &request, frame).is_some_and(taken) {
                break Stop::Slow(request);
            }
            charge::<CONFINED>(settings, &parts, command, &request, frame);
            room -= 1;
            pos = end;
            // In a pipeline most requests are like the one before.
            if pos < input.len()
                && !(shares || CONFINED)
                && let Some(like) = Like::of(&request, frame, &bounds)
            {
                let (count, end) = run.take_alike(&mut parts, paths, &like, (input, pos), room);
                room -= count;
                pos = end;
            }
        };
        run.write(&mut parts, &input[..pos]);
        (pos, stop)
    }

    /// The same, and reads may be shared, or are kept. A path of its own, so that the other one is as it was.
    #[inline(never)]
    fn forward_looking(&mut self, now: Time, id: ClientId, input: &[u8]) -> (usize, Stop) {
        if self.near.is_some() {
            return self.forward_cached(now, id, input);
        }
        self.enter_short_way(id);
        let outcome = self.forward_run::<true, false, true>(now, id, input);
        self.look_at_shared(now);
        outcome
    }

    /// [`Self::forward_run`] while large replies are known. A path of its own, so that the usual one has no look at them.
    #[inline(never)]
    fn forward_beside_large(&mut self, now: Time, id: ClientId, input: &[u8]) -> (usize, Stop) {
        self.forward_run::<false, false, true>(now, id, input)
    }

    /// The same for a client whose user may do some of it only. How many bytes were forwarded.
    #[inline(never)]
    fn forward_permitted(&mut self, now: Time, id: ClientId, input: &[u8]) -> usize {
        match self.grants.large_replies.is_empty() {
            true => self.forward_run::<false, true, false>(now, id, input).0,
            false => self.forward_run::<false, true, true>(now, id, input).0,
        }
    }

    /// Whether a server would turn to others before this request, if its client had a connection of its own.
    fn stands_behind_own(&self, id: ClientId, request: &Request) -> bool {
        self.clients.get(id).is_some_and(|client| {
            client.lease.is_none() && self.grants.speed.holds(client.places.open(), request.len)
        })
    }

    fn is_confined(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|client| client.access == Access::Confined)
    }

    /// Processes one whole request that is not plain.
    fn dispatch(&mut self, now: Time, id: ClientId, frame: &[u8], request: &Request) -> Step {
        if request.args == 0 {
            return Step::Done;
        }
        if request.form != Form::Inline {
            // Their number is known, but no iterator over bytes of a peer promises it.
            let mut args: Vec<&[u8]> = Vec::with_capacity(request.args as usize);
            args.extend(Args::new(frame));
            return self.dispatch_words(now, id, frame, &args);
        }
        let words = match inline::split(frame) {
            Ok(words) => words,
            Err(error) => return Step::Fault(error),
        };
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        if args.is_empty() {
            return Step::Done;
        }
        let mut whole = Vec::new();
        encode::request(&mut whole, &args);
        self.dispatch_words(now, id, &whole, &args)
    }

    fn dispatch_words(&mut self, now: Time, id: ClientId, frame: &[u8], args: &[&[u8]]) -> Step {
        let was_caching = self.is_caching(id);
        let step = self.dispatch_named(now, id, frame, args);
        if was_caching && step == Step::Done {
            self.end_caching(id, args);
        }
        step
    }

    /// The same, and shows it to those that watch.
    pub(crate) fn dispatch_shown(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
    ) -> Step {
        if self.watches.is_empty() {
            return self.dispatch_args(now, id, frame, args);
        }
        let line = self.line_of(id, args).filter(|line| line.fits(args.len()));
        let sent = self.sent_inside(id);
        let step = self.dispatch_args(now, id, frame, args);
        if let Some(line) = line.filter(|_| step == Step::Done) {
            self.show_processed(now, sent, frame, args, line);
        }
        step
    }

    fn dispatch_args(&mut self, now: Time, id: ClientId, frame: &[u8], args: &[&[u8]]) -> Step {
        match self.changes_requests() {
            true => self.dispatch_changed(now, id, frame, args),
            false => self.dispatch_as_is(now, id, frame, args),
        }
    }

    /// The same in the words of the servers.
    pub(crate) fn dispatch_as_is(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
    ) -> Step {
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        let client = self.clients.get(id);
        let is_mute = client.is_some_and(|client| client.reply_mode != ReplyMode::On);
        let caches = client.is_some_and(|client| client.tracking.is_some());
        if is_mute && let Some(hold) = self.waits_in_silence(now, id, &known, args) {
            return Step::Hold(hold);
        }
        // EXEC is the proxy's only without a transaction.
        if !caches || (known.way == Way::Local && known.id != Some(EXEC)) {
            return self.dispatch_known(now, id, frame, args, known);
        }
        if let Some(step) = self.feed_wait(now, id) {
            return step;
        }
        if known.id == Some(EXEC)
            && let Some(step) = self.marks_wait(id)
        {
            return step;
        }
        let Some(client) = self.clients.get(id) else { return Step::Gone };
        // The request may end the dedicated connection of the client, and choose another connection.
        let (seq, is_apart) = (client.places.next(), self.holds_apart(client, known.way));
        let step = self.dispatch_known(now, id, frame, args, known);
        let Some(client) = self.clients.get(id) else { return step };
        let apart = is_apart || (known.way == Way::Shared && client.reads_unheard());
        if step == Step::Done && client.places.next() != seq {
            let wish = Wish { id, frame, args, row: known.id, silent: false };
            self.track_request(now, &wish, seq, apart);
        }
        step
    }

    /// What becomes of a request before it is looked at closer: it comes without a password, or in a pause, or where topics are listened to.
    pub(crate) fn not_now(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        (frame, args): (&[u8], &[&[u8]]),
    ) -> Option<Step> {
        if self.was_judged() {
            return None;
        }
        self.note_long(now, known.id);
        let Some(client) = self.clients.get_mut(id) else { return Some(Step::Gone) };
        client.last_command = known.id;
        let access = client.access;
        match access {
            Access::Nothing if known.before_auth => {}
            Access::Nothing => {
                self.refuse_before_auth(id, known, args);
                return Some(Step::Done);
            }
            // A server looks the command up before it asks whether this client may call it.
            _ if matches!(known.way, Way::Unknown | Way::Apart)
                && let Some(step) = self.unless_apart(now, id, known, args) =>
            {
                return Some(step);
            }
            Access::Everything => {}
            Access::Confined => {
                if let Some(step) = self.unless_permitted(now, id, known, args) {
                    return Some(step);
                }
            }
        }
        if self.settings.policies.is_some()
            && let Some(step) = self.unless_ruled_out(now, id, known, frame.len(), args)
        {
            return Some(step);
        }
        if self.is_paused_for(id, known, args) {
            self.ask_functions(now, known.id);
            return Some(Step::Hold(Hold::Paused));
        }
        match self.clients.get(id).is_some_and(Client::listens_in_resp2) {
            true => self.while_listening(id, known, args),
            false => None,
        }
    }

    fn dispatch_known(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
        mut known: Known,
    ) -> Step {
        if let Some(step) = self.not_now(now, id, &known, (frame, args)) {
            return step;
        }
        // Servers were asked of what is unknown still, and did not say what it is.
        known.way = known.way.or_apart();
        let Some(client) = self.clients.get_mut(id) else { return Step::Gone };
        let silent = client.reply_mode != ReplyMode::On;
        let (goes_beside, is_leased) = (client.beside != Beside::No, client.lease.is_some());
        let queueing = client.lease.as_ref().is_some_and(|lease| lease.is_transaction());
        if !queueing && config::is_of_proxy(known.id, args) {
            return self.config_of_proxy(id, &known, args, silent);
        }
        let wish = Wish { id, frame, args, row: known.id, silent };
        let is_hidden = self.hides_cluster(known.id);
        let goes_apart = known.way == Way::Apart || known.way == Way::Leased && !is_hidden;
        if (is_leased || goes_apart)
            && let Some(step) = self.over_own_connection(now, &wish, &known, is_leased)
        {
            return step;
        }
        if (goes_beside || self.may_go_beside(&known))
            && let Some(step) = self.take_conn(now, &wish, &known)
        {
            return step;
        }
        let step = match known.way {
            Way::Local | Way::Shared if let Some(node) = self.busy_node(now, id, &known, args) => {
                self.past_busy(now, &wish, node)
            }
            Way::Shared | Way::Leased if is_hidden => {
                self.cluster_command(id, &known, args, silent)
            }
            Way::Shared
                if self.elsewhere.is_some()
                    && let Some(step) = self.reads_elsewhere(now, &wish, &known) =>
            {
                step
            }
            Way::Shared if self.has_mirrors() && self.is_mirrored(known.id, args) => {
                self.forward_mirrored(now, id, frame, args, (&known, silent))
            }
            Way::Shared if self.collects_alone(&known) => self.forward_in_order(now, &wish),
            Way::Shared if self.has_mirrors() && self.is_shadowed(now, &wish) => {
                self.forward_shadowed(now, &wish, &known)
            }
            Way::Shared | Way::Control if !self.is_one() => {
                self.scatter(now, id, frame, args, &known, silent)
            }
            Way::Shared if known.counts_listeners() => self.count_listeners_of_one(now, &wish),
            Way::Shared => self.forward(now, id, Lane::Shared, frame, known.id, silent),
            Way::Control => self.forward(now, id, Lane::Control, frame, known.id, silent),
            Way::Local if slowlog::is_of_servers(known.id, args) => {
                self.kept_by_servers(now, id, &known, &slowlog::for_server(args), silent)
            }
            Way::Local if self.asks_servers_of_users(known.id, args) => {
                self.kept_by_servers(now, id, &known, frame, silent)
            }
            Way::Local if known.id == Some(PING) && self.goes_with_changes(id, args.len()) => {
                self.forward(now, id, Lane::Shared, frame, known.id, silent)
            }
            Way::Local => return self.answer_locally(now, id, &known, args, silent),
            Way::Http => return self.close_http(id),
            Way::Refused | Way::Leased | Way::Unknown | Way::Apart => {
                self.refuse_row(id, known.id, args.len(), silent)
            }
        };
        if step == Step::Done {
            self.note_given_on(now, &wish, &known);
        }
        step
    }

    /// A request was given on, or refused in a server's place.
    fn note_given_on(&mut self, now: Time, wish: &Wish<'_>, known: &Known) {
        self.note_if_big(now, wish.id, known, wish.frame, wish.args.len());
        self.overhear(known, wish.args);
        self.note_flags(known.id, wish.args);
        self.end_skip(wish.id, wish.silent);
        if known.id == Some(FUNCTION_STATS) {
            // Over the control lane: what comes behind it must not overtake it.
            self.bar(wish.id);
        }
    }

    /// Over a connection of the client's own, which it has or is to have; `None`: this request has nothing to do with it.
    fn over_own_connection(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        known: &Known,
        is_leased: bool,
    ) -> Option<Step> {
        let step = match is_leased {
            true => self.in_lease(now, wish, known.way),
            false => None,
        };
        let step = match (step, known.way) {
            (None, Way::Leased) => self.begin_leased(now, wish),
            (None, Way::Apart) => self.send_apart(now, wish),
            (step, _) => step?,
        };
        if step == Step::Done {
            // Line breaks in a reply would look like replies to whoever gets the connection next.
            if known.way == Way::Apart || breaks_lines(known.id) {
                self.spoil_lease(wish.id);
            }
            self.note_if_big(now, wish.id, known, wish.frame, wish.args.len());
            self.end_skip(wish.id, wish.silent);
        }
        Some(step)
    }

    /// Whether a PING of this client goes to the server: behind its reply there is nothing older to be heard of the keys that it has.
    fn goes_with_changes(&self, id: ClientId, count: usize) -> bool {
        self.is_one()
            && arity_fits(PING, count)
            && self.clients.get(id).is_some_and(Client::asks_with_ping)
    }

    /// Whether CLIENT PAUSE holds this request back. What would be refused before it is looked at is not held (`processCommand` in Redis'
    /// server.c).
    pub(crate) fn is_paused_for(&self, id: ClientId, known: &Known, args: &[&[u8]]) -> bool {
        let Some(pause) = self.pause else { return false };
        let is_local = known.way == Way::Local;
        if is_local && pause.writes_only {
            return known.id == Some(EXEC) && self.queues_writes(id);
        }
        // Who has still to say who it is has a bound of time for that, which a server has not.
        if is_local && self.clients.get(id).is_some_and(|client| !client.is_authenticated()) {
            return false;
        }
        // A container alone is a subcommand that nobody knows. To let go is not held, unlike at a server, where nobody could.
        let call = known.id.map(|row| row_of(row, args));
        let is_call = |row: CommandId| !is_local || !row.row().is_container();
        let fits = call.is_none_or(|row| arity_fits(row, args.len()) && is_call(row));
        fits && call != Some(CLIENT_UNPAUSE) && (!pause.writes_only || self.writes(known.id, args))
    }

    /// Whether this is a CLUSTER command that the proxy answers: those of several servers would lead clients past it.
    pub(crate) fn hides_cluster(&self, id: Option<CommandId>) -> bool {
        let rows = CLUSTER.index()..=CLUSTER.index() + usize::from(CLUSTER.row().subcommand_count);
        id.is_some_and(|id| rows.contains(&id.index()))
            && (!self.is_one() || self.settings.facade.on)
    }

    /// `SLOWLOG SERVER …`, `ACL SERVER …`: given on without that word.
    fn kept_by_servers(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        frame: &[u8],
        silent: bool,
    ) -> Step {
        let words: Vec<&[u8]> = Args::new(frame).collect();
        let container = known.id.unwrap_or(SLOWLOG);
        let command = command::lookup_sub(container, words[1]).unwrap_or(container);
        if self.is_one() {
            return self.forward(now, id, Lane::Shared, frame, Some(command), silent);
        }
        let known =
            Known { id: Some(command), way: Way::Shared, writes: false, before_auth: false };
        self.scatter(now, id, frame, &words, &known, silent)
    }

    fn cluster_command(
        &mut self,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
        silent: bool,
    ) -> Step {
        let container = known.id.unwrap_or(CLUSTER);
        let sub = args.get(1).and_then(|word| command::lookup_sub(CLUSTER, word));
        let command = sub.unwrap_or(container);
        self.stats.command(Some(command)).calls += 1;
        self.answer_cluster(&Call::new(id, command, args, silent))
    }

    /// What came before gets its replies; then the client is closed.
    pub(crate) fn close_http(&mut self, id: ClientId) -> Step {
        self.tell_closed(id, "it spoke HTTP");
        self.begin_close(id);
        Step::Done
    }

    /// `CLIENT REPLY SKIP` covers one command; that was it.
    pub(crate) fn end_skip(&mut self, id: ClientId, was_silent: bool) {
        if was_silent
            && let Some(client) = self.clients.get_mut(id)
            && client.reply_mode == ReplyMode::SkipNext
        {
            client.reply_mode = ReplyMode::On;
        }
    }

    /// Redis looks a command up and counts its arguments before it asks for a password (`processCommand`).
    fn refuse_before_auth(&mut self, id: ClientId, known: &Known, args: &[&[u8]]) {
        self.stats.command(known.id).rejected += 1;
        let arity = known.id.map(|row| i64::from(row.row().arity));
        let count = args.len() as i64;
        let mut unknown = Vec::new();
        if matches!(known.way, Way::Unknown | Way::Apart) || known.id.is_none() {
            self.write_unknown(&mut unknown, known, args);
        }
        self.reply(id, false, |out| match (known.id, arity) {
            _ if !unknown.is_empty() => out.extend_from_slice(&unknown),
            (Some(row), Some(arity)) if (arity > 0 && count != arity) || count < -arity => {
                match row {
                    EXEC => reject::write(out, reject::EXEC_ARITY),
                    _ => reject::arity(out, row.name()),
                }
            }
            (Some(EXEC), _) => reject::write(out, reject::EXEC_NOAUTH),
            _ => reject::write(out, reject::NOAUTH),
        });
    }

    /// Gives one request on over the upstream of this lane.
    pub(crate) fn forward(
        &mut self,
        now: Time,
        id: ClientId,
        lane: Lane,
        frame: &[u8],
        command: Option<CommandId>,
        silent: bool,
    ) -> Step {
        debug_assert!(self.may_share(&Args::new(frame).collect::<Vec<_>>()), "a stranger");
        let Some(client) = self.clients.get(id) else { return Step::Gone };
        let key = client.key_to(self.first_node, lane);
        let upstream_id = match self.upstream_in_turn(now, key, id) {
            Availability::Ready(upstream) => upstream,
            Availability::Wait(upstream) => return Step::Hold(Hold::Upstream(upstream)),
            Availability::Down(error) => {
                self.stats.command(command).rejected += 1;
                self.reply_failure(id, silent, &error);
                return Step::Done;
            }
        };
        let Self { clients, upstreams, pool, stats, dirty_upstreams, .. } = self;
        let (Some(client), Some(upstream)) = (clients.get_mut(id), upstreams.get_mut(upstream_id))
        else {
            return Step::Gone;
        };
        let command = counted(command, frame);
        if lane != Lane::Control && client.upstream != Some(upstream_id) {
            if client.places.open() > 0 {
                // Its earlier requests are on another connection to the same node and could be overtaken.
                return Step::Hold(Hold::Drained);
            }
            client.upstream = Some(upstream_id);
        }
        let seq = client.places.reserve(1);
        let owner = Owner::Client { id, seq, silent };
        let at = upstream.append(pool, frame);
        upstream.inflight.push(Run::new(owner, 1, command, now, at));
        stats.requests += 1;
        stats.command(command).calls += 1;
        dirty_upstreams.push(upstream_id, upstream);
        self.delimit(now, upstream_id, command);
        Step::Done
    }

    /// Answers what is not the protocol with Redis' text; the client is closed when that and all before it is out.
    pub(crate) fn protocol_error(&mut self, id: ClientId, error: &RequestError) {
        self.stats.protocol_errors += 1;
        self.reply(id, false, |out| error.write_reply(out));
        self.begin_close(id);
    }
}

impl Client {
    /// The key of the connection to this node over which its requests go that would take this lane.
    #[inline]
    pub(crate) fn key_to(&self, node: NodeId, lane: Lane) -> UpstreamKey {
        let lane = if self.beside.is_unheard() { lane } else { self.lane(lane) };
        UpstreamKey {
            node,
            resp3: self.protocol == Protocol::Resp3,
            // What ends a script needs no database, and while one runs the server answers SELECT with BUSY, so a connection to another
            // one could not be made when it is needed.
            db: if lane == Lane::Control { 0 } else { self.db },
            lane,
            // Only of the shared ones there are several.
            conn: match lane {
                Lane::Shared => self.beside.conn(self.conn),
                _ => 0,
            },
            owner: self.owner(lane),
        }
    }
}

/// What a request of this client may be.
#[inline]
pub(crate) fn request_limits(client: &Client, limits: &Limits) -> RequestLimits {
    RequestLimits {
        bulk_bytes_max: limits.bulk_bytes_max,
        authenticated: client.is_authenticated(),
        ..RequestLimits::default()
    }
}

/// How many more requests this client may have unanswered.
pub(crate) fn room(client: &Client, limits: &Limits, speed: &Speed) -> u32 {
    if client.waiting_out() > limits.client_out_high_bytes + client.granted {
        return 0;
    }
    client.window(speed.window.min(limits.client_inflight_max)).saturating_sub(client.places.open())
}

/// The rest of the input is no whole request: kept, unless it is or will be too large for that.
pub(crate) fn partial(client: &Client, limits: &Limits) -> Stop {
    if client.scanner.position() + client.scanner.missing() > limits.large_request_bytes {
        Stop::Large
    } else {
        Stop::Input
    }
}
