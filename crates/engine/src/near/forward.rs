//! A client's input while replies are kept: what is answered from here, what is asked for to be kept, and the rest on its usual short way.
//!
//! A loop of its own beside `Engine::forward_run`, so that that one is as it was while there is no cache. It does the same: consecutive plain
//! requests get their places in the order of the input, and leave with one copy wherever nothing stands between them.
//!
//! ```text
//!   input:  GET a   GET hot   SET b   GET hotter
//!           └ run ┘  hit: its  └ run ┘  miss: CLIENT CACHING YES, GET hotter; the reply is shared with the cache (`upstream::sharers`)
//!                    reply at its place
//! ```
//! Not here: what may be given to whom (`near`), the rest of the way of a request (`request`).
//!
//! Invariant: as in `plain`, a request that was taken in has its place when the loop ends, in the order of the input.

use super::table::{Found, Hashes, Kept, Wanted};
use super::{Armed, Near};
use crate::client::{Access, Client};
use crate::coalesce::{SampledRead, Sharing};
use crate::command::ids::{EXEC, HELLO, RESET};
use crate::command::{self, Class, Command, CommandId, KeyFlags};
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{CACHE_KEYS_MAX, SHARED_READ_BYTES_MAX};
use crate::permit::{charge, permits};
use crate::plain::{Parts, PlainRun, ShortPaths, ShortReads, plain_command, takes_plain};
use crate::pool::BufferPool;
use crate::request::{Stop, partial, request_limits, room};
use crate::time::Time;
use crate::upstream::inflight::{NearCommand, OwnCommand, Owner, Run};
use crate::upstream::{Role, Upstream};
use alloc::string::ToString;
use alloc::vec::Vec;
use resp::{Args, Form, Protocol, Request, Scan, encode};

/// What became of a plain request.
enum Taken {
    /// It is answered; so many bytes more wait for the client.
    Hit,
    /// It was given on.
    Given,
    /// It needs a second look.
    No,
}

/// What is looked at for each request beside [`Parts`].
struct Around<'a> {
    near: &'a mut Near,
    sharing: Sharing<'a>,
    coalesces: bool,
    dirty_clients: &'a mut Vec<ClientId>,
    /// Replies may be kept and given out just now.
    serves: bool,
}

impl Engine {
    /// As `forward_run`, with the cache.
    #[inline(never)]
    pub(crate) fn forward_cached(
        &mut self,
        now: Time,
        id: ClientId,
        input: &[u8],
    ) -> (usize, Stop) {
        self.enter_short_way(id);
        let serves = self.cache_serves(now);
        let moved = self.near.as_deref().is_some_and(|near| near.route_epoch != self.route_epoch);
        if moved || !serves {
            self.drop_cached();
        }
        let done = self.cached_run(now, id, input, serves);
        self.look_at_shared(now);
        self.settle_if_needed(id);
        let wants = |near: &Near| !near.wanted.is_empty() || near.rounds.wanted;
        if self.near.as_deref().is_some_and(wants) {
            self.follow_feeds(now);
        }
        done
    }

    /// This request of a client did not take the short way (rule 3). What the proxy answers itself tells nothing of the servers, but with another protocol
    /// the client comes to another connection, whose server may have told less.
    #[inline(never)]
    pub(crate) fn grow_wary_by(&mut self, id: ClientId, request: &Request, frame: &[u8]) {
        let is_framed = request.form != Form::Inline && request.args > 0;
        let row = is_framed.then(|| command::lookup(request.head[0].of(frame))).flatten();
        if row.is_some_and(|row| {
            row.row().class == Class::Local && ![EXEC, HELLO, RESET].contains(&row)
        }) {
            return;
        }
        let Some(near) = self.near.as_deref() else { return };
        let mut keys = Vec::new();
        let of_keys = row.is_some_and(|row| {
            row.row().is_plain && keys_of(&near.hashes, (row.row(), request, frame), &mut keys)
        });
        if !of_keys || keys.len() > CACHE_KEYS_MAX {
            keys.clear();
        }
        self.grow_wary(id, &keys);
    }

    fn cached_run(&mut self, now: Time, id: ClientId, input: &[u8], serves: bool) -> (usize, Stop) {
        let reads = ShortReads::of(&self.settings.reads, &self.router);
        let Self {
            clients,
            upstreams,
            pool,
            stats,
            dirty_upstreams,
            dirty_clients,
            settings,
            router,
            nodes,
            bigkeys,
            coalescer,
            hotkeys,
            near,
            elsewhere,
            grants,
            ..
        } = self;
        let (Some(client), Some(near)) = (clients.get_mut(id), near.as_deref_mut()) else {
            return (input.len(), Stop::Input);
        };
        near.route_epoch = self.route_epoch;
        let limits = &settings.limits;
        let mut room_left = room(client, limits, &grants.speed);
        let is_confined = client.access == Access::Confined;
        let access = if is_confined { Access::Confined } else { Access::Everything };
        let short = self.pause.is_none() && self.watches.is_empty() && client.is_plain_with(access);
        let (epoch, large) = (self.route_epoch, Some(&grants.large_replies));
        let paths = ShortPaths::of(client, router, nodes, epoch, reads, large).filter(|_| short);
        let request_limits = request_limits(client, limits);
        let mut parts = Parts { id, client, now, limits, upstreams, pool, stats, dirty_upstreams };
        let sharing = Sharing { coalescer, hotkeys };
        let coalesces = settings.coalesce_reads && !is_confined;
        let mut around = Around { near, sharing, coalesces, dirty_clients, serves };
        let mut run = PlainRun::default();
        let mut pos = 0;
        let stop = loop {
            let offset = parts.client.scanner.position() as usize;
            let Some(rest) = input.get(pos + offset..).filter(|rest| !rest.is_empty()) else {
                // As in `forward_run`.
                break if offset == 0 { Stop::Input } else { partial(parts.client, limits) };
            };
            if room_left == 0 {
                break Stop::Full;
            }
            let request = match parts.client.scanner.scan(rest, &request_limits) {
                Ok(Scan::Complete { frame, .. }) => frame,
                Ok(Scan::Partial { .. }) => break partial(parts.client, limits),
                Err(error) => break Stop::Fault(error),
            };
            let frame = &input[pos..];
            let command = plain_command(&request, frame, bigkeys, || {
                run.holds(&parts, &grants.speed, request.len)
            })
            .filter(|id| {
                !is_confined || permits(settings, elsewhere, &parts, *id, (&request, frame))
            });
            let (Some(paths), Some(command)) = (&paths, command) else {
                break Stop::Slow(request);
            };
            let end = pos + request.len as usize;
            let Some(upstream) = paths.upstream(command, &request, frame) else {
                break Stop::Slow(request);
            };
            let asks = Asks { upstream, command, request: &request, input, pos, end };
            room_left = match around.take(&mut run, &mut parts, &asks) {
                Taken::Hit => room(parts.client, limits, &grants.speed),
                Taken::Given => room_left - 1,
                Taken::No => break Stop::Slow(request),
            };
            if is_confined {
                charge::<true>(settings, &parts, command, &request, frame);
            }
            pos = end;
        };
        run.write(&mut parts, &input[..pos]);
        (pos, stop)
    }
}

/// One plain request in a client's input.
struct Asks<'a> {
    upstream: UpstreamId,
    command: CommandId,
    request: &'a Request,
    input: &'a [u8],
    pos: usize,
    end: usize,
}

impl<'a> Asks<'a> {
    fn frame(&self) -> &'a [u8] {
        &self.input[self.pos..self.end]
    }

    fn row(&self) -> &'static Command {
        self.command.row()
    }

    /// The hash of each key; whether the request names them all.
    fn keys(&self, hashes: &Hashes, keys: &mut Vec<u64>) -> bool {
        keys_of(hashes, (self.row(), self.request, self.frame()), keys)
    }
}

/// The hash of each key of a request; whether it names them all.
fn keys_of(
    hashes: &Hashes,
    (row, request, frame): (&Command, &Request, &[u8]),
    keys: &mut Vec<u64>,
) -> bool {
    keys.clear();
    if let Some(at) = row.only_key_at()
        && at < request.head.len().min(request.args as usize)
    {
        keys.push(hashes.key(request.head[at].of(frame)));
        return true;
    }
    let mut names_all = true;
    command::keys(row, Args::new(frame), |_, key, flags| {
        names_all &= !flags.has(KeyFlags::NOT_KEY) && !flags.has(KeyFlags::INCOMPLETE);
        keys.push(hashes.key(key));
    });
    names_all && !keys.is_empty()
}

impl Around<'_> {
    fn take(&mut self, run: &mut PlainRun, parts: &mut Parts<'_>, asks: &Asks<'_>) -> Taken {
        let row = asks.row();
        if !row.reads() {
            self.note_write(run, parts, asks);
            return self.give(run, parts, asks);
        }
        let frame = asks.frame();
        let is_kept = self.serves
            && row.is_shareable
            && frame.len() <= SHARED_READ_BYTES_MAX
            && parts.upstreams.get(asks.upstream).is_some_and(|up| serves(up, parts.client));
        if !is_kept {
            self.note_read(run, parts, asks);
            return self.give(run, parts, asks);
        }
        let wanted = self.near.hashes.wanted(asks.upstream, frame);
        let Near { table, wary, rounds, .. } = &mut *self.near;
        let (found, is_over) = table.look(wanted, parts.now);
        parts.stats.cache_dropped_expired += u64::from(is_over);
        match found {
            Found::Kept(kept)
                if !rounds.is_young(kept)
                    && Near::trusts((wary, rounds), (parts.id, &*parts.client), kept.keys) =>
            {
                run.write(parts, &asks.input[..asks.pos]);
                answer(parts, self.dirty_clients, asks.command, kept.reply);
                run.skip_to(asks.end);
                self.sample(asks);
                return Taken::Hit;
            }
            Found::Kept(Kept { rounds: since, .. }) => {
                // A round that began after this reply came has dropped older replies to other requests.
                let round = wary.get(&parts.id).and_then(|own| own.round);
                let is_covered = round.is_some_and(|round| since < round);
                parts.stats.cache_bypassed += 1;
                return self.check(run, parts, asks, (wanted, is_covered));
            }
            Found::Asked => {
                parts.stats.cache_misses += 1;
                return self.check(run, parts, asks, (wanted, false));
            }
            Found::Unfit => parts.stats.cache_misses += 1,
            Found::Nothing => {
                parts.stats.cache_misses += 1;
                if self.ask(run, parts, asks, wanted) {
                    return Taken::Given;
                }
            }
        }
        self.note_read(run, parts, asks);
        self.give(run, parts, asks)
    }

    /// On its usual way.
    fn give(&mut self, run: &mut PlainRun, parts: &mut Parts<'_>, asks: &Asks<'_>) -> Taken {
        let Asks { upstream, command, input, pos, end, .. } = *asks;
        let taken = match self.coalesces && asks.row().is_shareable {
            true => self.sharing.take(run, parts, (upstream, command), (input, pos, end)),
            false => run.take(parts, upstream, command, &input[..pos]),
        };
        if taken { Taken::Given } else { Taken::No }
    }

    /// A write goes: what is kept of its keys is old (rule 2). What it does not name its client may see before a feed tells of it (rule 3).
    fn note_write(&mut self, run: &PlainRun, parts: &mut Parts<'_>, asks: &Asks<'_>) {
        if self.near.table.is_empty() {
            return;
        }
        let mut keys = core::mem::take(&mut self.near.keys);
        if !asks.keys(&self.near.hashes, &mut keys) {
            self.near.make_wary(parts.id, place_behind(run, parts), &[]);
        }
        for key in &keys {
            parts.stats.cache_dropped_changed += self.near.table.drop_key(*key);
        }
        self.near.keys = keys;
    }

    /// A read goes to the server. Of keys that are kept, its client may see what no feed has told (rule 3).
    fn note_read(&mut self, run: &PlainRun, parts: &Parts<'_>, asks: &Asks<'_>) {
        if self.near.table.is_empty() {
            return;
        }
        let mut keys = core::mem::take(&mut self.near.keys);
        let until = place_behind(run, parts);
        if !asks.keys(&self.near.hashes, &mut keys) {
            self.near.make_wary(parts.id, until, &[]);
        } else if keys.iter().any(|key| self.near.table.knows(*key)) {
            self.near.make_wary(parts.id, until, &keys);
        }
        self.near.keys = keys;
    }

    /// Gives a read on of which something is known here; its reply is compared with what is kept by then (rule 1).
    fn check(
        &mut self,
        run: &mut PlainRun,
        parts: &mut Parts<'_>,
        asks: &Asks<'_>,
        (wanted, is_covered): (Wanted<'_>, bool),
    ) -> Taken {
        if !takes_plain(parts.upstreams.get(asks.upstream), parts.client, parts.limits) {
            return Taken::No;
        }
        if let Some(place) = give_alone(run, parts, asks, NearCommand::Check) {
            self.near.table.check_at(wanted, place);
        }
        self.note_check(parts, asks, wanted, is_covered);
        Taken::Given
    }

    /// Makes the client wary of the keys of such a read (rule 3): until its reply is here, kept replies may be older. Replies to other requests with these keys may be older
    /// afterwards, too, unless a round that the client waits for covers them.
    fn note_check(
        &mut self,
        parts: &Parts<'_>,
        asks: &Asks<'_>,
        wanted: Wanted<'_>,
        is_covered: bool,
    ) {
        let mut keys = core::mem::take(&mut self.near.keys);
        let until = parts.client.places.next();
        if !asks.keys(&self.near.hashes, &mut keys) {
            self.near.make_wary(parts.id, until, &[]);
        } else if !is_covered && keys.iter().any(|key| self.near.table.knows_beside(*key, wanted)) {
            self.near.make_wary(parts.id, until, &keys);
        } else {
            self.near.make_wary_until(parts.id, until, &keys);
        }
        self.near.keys = keys;
    }

    /// Gives a read on whose reply is to be kept, if it comes often enough and its server tells of changes.
    fn ask(
        &mut self,
        run: &mut PlainRun,
        parts: &mut Parts<'_>,
        asks: &Asks<'_>,
        wanted: Wanted<'_>,
    ) -> bool {
        let Some(node) = parts.upstreams.get(asks.upstream).map(|up| up.key.node) else {
            return false;
        };
        if !self.near.feeds.contains_key(&node) {
            self.near.wanted.insert(node);
            return false;
        }
        if !self.near.is_hot(parts.now, wanted.hash)
            || !self.may_keep(asks)
            || !takes_plain(parts.upstreams.get(asks.upstream), parts.client, parts.limits)
        {
            return false;
        }
        run.write(parts, &asks.input[..asks.pos]);
        let Some(upstream) = parts.upstreams.get_mut(asks.upstream) else { return false };
        if !self.near.arm(parts.now, parts.pool, (asks.upstream, &mut *upstream)) {
            return false;
        }
        // What is ours may fill the room that was there. The request behind it goes all the same.
        let caching: [&[u8]; 3] = [b"CLIENT", b"CACHING", b"YES"];
        say(parts.now, parts.pool, upstream, NearCommand::Caching, &caching);
        let Some(place) = give_alone(run, parts, asks, NearCommand::Fill) else { return true };
        let near = &mut *self.near;
        let keys = core::mem::take(&mut near.keys);
        if keys.iter().any(|key| near.table.knows(*key)) {
            // What else is kept of these keys may be older than the reply to this.
            near.make_wary(parts.id, parts.client.places.next(), &keys);
        }
        near.table.ask(wanted, node, place, &keys, parts.now.plus_ms(near.options.ttl_ms));
        near.keys = keys;
        true
    }

    /// Whether all keys of this read may be kept; they are noted.
    fn may_keep(&mut self, asks: &Asks<'_>) -> bool {
        let near = &mut *self.near;
        let mut may = true;
        if !near.options.keys.is_empty() {
            command::keys(asks.row(), Args::new(asks.frame()), |_, key, _| {
                may &= near.options.may_keep(key);
            });
        }
        may && asks.keys(&near.hashes, &mut near.keys) && near.keys.len() <= CACHE_KEYS_MAX
    }

    /// The hot keys want to look at some of what they would not see otherwise.
    fn sample(&mut self, asks: &Asks<'_>) {
        if self.sharing.hotkeys.takes_one() {
            let (upstream, command) = (asks.upstream, asks.command);
            let request = asks.frame().to_vec();
            self.sharing.coalescer.sampled.push(SampledRead { upstream, command, request });
        }
    }
}

impl Near {
    /// Whether the server tells a feed of what is read next over this connection: it is asked to if it was not.
    fn arm(
        &mut self,
        now: Time,
        pool: &mut BufferPool,
        (id, upstream): (UpstreamId, &mut Upstream),
    ) -> bool {
        let Some(feed) = self.feeds.get(&upstream.key.node) else { return false };
        let number = feed.number;
        match self.armed.get(&id) {
            Some(Armed::For(told)) if *told == number => return true,
            Some(Armed::Refused(until)) if now < *until => return false,
            _ => {}
        }
        let text = number.to_string();
        let words: [&[u8]; 6] =
            [b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", text.as_bytes(), b"OPTIN"];
        say(now, pool, upstream, NearCommand::Arm, &words);
        self.armed.insert(id, Armed::For(number));
        true
    }
}

/// The place behind that of the request which is looked at.
fn place_behind(run: &PlainRun, parts: &Parts<'_>) -> u32 {
    parts.client.places.next().wrapping_add(run.waiting() + 1)
}

/// Gives a request on by itself, to a connection that takes it; something of ours shares its reply. Its place there.
fn give_alone(
    run: &mut PlainRun,
    parts: &mut Parts<'_>,
    asks: &Asks<'_>,
    own: NearCommand,
) -> Option<u64> {
    run.write(parts, &asks.input[..asks.pos]);
    run.begin(asks.upstream, asks.command);
    run.write(parts, &asks.input[..asks.end]);
    let upstream = parts.upstreams.get_mut(asks.upstream)?;
    let place = upstream.inflight.end() - 1;
    let at = upstream.out.position() - asks.frame().len() as u64;
    let shared = Run::new(Owner::Own(OwnCommand::Near(own)), 1, Some(asks.command), parts.now, at);
    upstream.inflight.share(place, Run { shares: true, ..shared });
    Some(place)
}

/// Writes a command of ours right before the next request, which makes the connection known as one with something to send.
fn say(
    now: Time,
    pool: &mut BufferPool,
    upstream: &mut Upstream,
    own: NearCommand,
    words: &[&[u8]],
) {
    let at = upstream.out.position();
    encode::request(upstream.out.buf(pool), words);
    upstream.inflight.push(Run::new(Owner::Own(OwnCommand::Near(own)), 1, None, now, at));
}

/// Whether what was read over this connection is what this client would read.
#[inline]
fn serves(upstream: &Upstream, client: &Client) -> bool {
    upstream.is_ready()
        && upstream.role == Role::Shared
        && upstream.key.db == client.db
        && upstream.key.resp3 == (client.protocol == Protocol::Resp3)
}

/// The client gets this reply, at the place of this request.
#[inline]
fn answer(
    parts: &mut Parts<'_>,
    dirty_clients: &mut Vec<ClientId>,
    command: CommandId,
    reply: &[u8],
) {
    let Parts { client, pool, .. } = parts;
    if client.places.open() > 0 {
        client.places.append_ready(reply, pool);
    } else {
        client.out.buf(pool).extend_from_slice(reply);
        if !client.out.dirty {
            client.out.dirty = true;
            dirty_clients.push(parts.id);
        }
    }
    client.last_command = Some(command);
    parts.stats.command(Some(command)).calls += 1;
    parts.stats.requests += 1;
    parts.stats.cache_hits += 1;
}
