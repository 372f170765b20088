//! The account of an engine: all bytes that it holds, by kind, and which client goes when they are too many.
//!
//! ```text
//!   Client, Upstream, Merge, Assembly ──[Charge]──▶ Account (sums)  ┐
//!   kinds with a counter of their own (parked, subscriptions, …) ───┴▶ Engine::holdings ─▶ Engine::memory_over ─▶ bound_memory
//! ```
//! A holder of which there are many stands in the sums with its [`Charge`], which only the account changes. Small holders are not added up
//! (`Account::counted_from_bytes`): the sums find the large ones, and a request of a small one costs nothing here.
//!
//! What a client causes is its own (`Holdings::own`): its buffers, its connections, the reply that an upstream has in part for it, collected parts, parked
//! requests, topics. It is free when the client is closed. The rest is common (near cache, tracked keys, mirrors, unsent requests of shared connections): each
//! of these has a bound of its own within a share of `Limits::memory_max_bytes`, and together they never take more of it than `COMMON_SHARE`, so a common
//! kind never closes everybody.
//!
//! At the bound spare buffers and the near cache go first, then clients: the one that caused most of what is held first. Connections that others use stay.
//!
//! Not here: bounds of single buffers (`client`, `reply`, `push`); bytes that others hold for connections (`outside`).
//!
//! Invariant: each charge is what its holder holds, or 0 if that is little, and the sums are those of all charges. `Engine::check_account` recounts
//! them. `Engine::holdings` names every field of the engine, so one that is added does not compile before it is judged.

use crate::client::Client;
use crate::engine::Engine;
use crate::ids::{ClientId, MergeId, UpstreamId};
use crate::inside::Assembly;
use crate::limits::{UNTAKEN_UNIT_MS, UNTAKEN_UNITS_MAX};
use crate::merge::Merge;
use crate::near::Near;
use crate::pool::taken_bytes;
use crate::settings::Limits;
use crate::time::Time;
use crate::upstream::inflight::{Owner, Run};
use crate::upstream::{Role, Upstream};
use alloc::collections::{VecDeque, vec_deque};
use alloc::vec::Vec;

/// Clients that hold less are not added up, whatever the limits are.
const FROM_BYTES_MAX: usize = 16 << 10;

/// Those that hold more are added up, whatever the limits are.
const FROM_BYTES_MIN: usize = 2 << 10;

/// So many times the bound of a client that is not added up fits the memory, with all clients that may come.
const SMALL_PARTS: usize = 6;

/// What the common kinds take of the memory at most, as numerator and denominator: the rest is for clients, whatever the common kinds hold.
const COMMON_SHARE: (usize, usize) = (3, 4);

/// The kinds with counters of their own are added up so often, in milliseconds, and whenever one of them took much.
const COUNT_EVERY_MS: u64 = 10;

/// What became free at once is given back to the system from so many bytes on.
const FREED_BYTES: usize = 16 << 20;

/// While buffers grow they leave smaller ones behind: these are given back to the system for each so many bytes more that are held.
const GROWN_BYTES: usize = 32 << 20;

/// At the bound this part of the memory is freed, and not each byte that is too much by itself.
const BOUND_PART: usize = 32;

/// Most bytes that a block of the allocator takes beside those that were asked for: its head, and the rest of the last unit (with glibc 1 byte takes 32).
const BLOCK_BYTES: usize = 32;

/// Memory for so many bytes in a block of their own, and for the record that holds them. A record of a few bytes takes several times these, and clients
/// can make many: whoever counts such records counts them by this.
pub(crate) const fn kept_bytes<Record>(bytes: usize) -> usize {
    bytes + size_of::<Record>() + BLOCK_BYTES
}

/// Frames that are kept in their order, each with what is known of it.
#[derive(Debug)]
pub(crate) struct KeptFrames<T> {
    all: VecDeque<(T, Vec<u8>)>,
    /// Bytes of the frames.
    frame_bytes: usize,
}

impl<T> Default for KeptFrames<T> {
    fn default() -> Self {
        Self { all: VecDeque::new(), frame_bytes: 0 }
    }
}

impl<T> KeptFrames<T> {
    pub(crate) fn push(&mut self, known: T, frame: Vec<u8>) {
        self.frame_bytes += frame.len();
        self.all.push_back((known, frame));
    }

    pub(crate) fn pop_front(&mut self) -> Option<(T, Vec<u8>)> {
        let first = self.all.pop_front()?;
        self.frame_bytes -= first.1.len();
        Some(first)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(T, Vec<u8>)> {
        self.all.iter()
    }

    /// Bytes of the frames alone: a bound that clients see is one of these.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Memory for the frames beside their bytes.
    pub(crate) fn record_bytes(&self) -> usize {
        self.all.len() * kept_bytes::<(T, Vec<u8>)>(0)
    }

    /// Memory for all of it.
    pub(crate) fn held_bytes(&self) -> usize {
        self.frame_bytes + self.record_bytes()
    }
}

impl<T> IntoIterator for KeptFrames<T> {
    type Item = (T, Vec<u8>);
    type IntoIter = vec_deque::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

/// What one holder has in the sums of an account.
#[derive(Debug, Default)]
pub struct Charge(usize);

impl Charge {
    /// Whether it stands in the sums.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0 > 0
    }
}

/// Which sum a charge is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Clients.
    Clients,
    /// What upstreams hold of single clients.
    Private,
    /// Parts of replies.
    Merges,
    /// Answers to EXEC.
    Assemblies,
    /// What upstreams hold of nobody in particular.
    Shared,
}

const KINDS: usize = 5;

/// See the module.
#[derive(Debug)]
pub(crate) struct Account {
    sums: [usize; KINDS],
    /// A holder stands in the sums when it holds more.
    from_bytes: usize,
    /// The kinds with counters of their own, when they were last added up.
    counted: usize,
    /// When they are added up again.
    count_at: Time,
    /// Clients are being closed for memory just now.
    is_bounding: bool,
    /// The most that was held since the allocator was last asked to give back what is free.
    peak: usize,
    /// Bytes that were held when free memory was last given back.
    given_back: usize,
    /// Much became free.
    has_freed: bool,
}

/// What an engine holds. Both parts together are the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// Free when clients go.
    pub(crate) own: usize,
    /// Nobody's in particular.
    pub(crate) common: usize,
}

impl Account {
    pub(crate) fn new(limits: &Limits, workers: u32) -> Self {
        let from_bytes = from_bytes(limits, workers);
        let count_at = Time::default();
        let (sums, counted, peak, given_back) = ([0; KINDS], 0, 0, 0);
        let (is_bounding, has_freed) = (false, false);
        Self { sums, from_bytes, counted, count_at, is_bounding, peak, given_back, has_freed }
    }

    /// The largest holder that is not added up.
    #[inline]
    pub(crate) fn counted_from_bytes(&self) -> usize {
        self.from_bytes
    }

    /// The holder of this charge holds so much now. Whether it stands for more than before.
    fn set(&mut self, kind: Kind, charge: &mut Charge, held: usize) -> bool {
        let before = core::mem::replace(&mut charge.0, self.count(kind, held));
        let sum = &mut self.sums[kind as usize];
        debug_assert!(*sum >= before, "a charge of another account");
        *sum = *sum + charge.0 - before;
        charge.0 > before
    }

    /// The holder is gone.
    pub(crate) fn release(&mut self, kind: Kind, charge: &mut Charge) {
        self.set(kind, charge, 0);
    }

    /// What stands in the sums. One client can have thousands of replies that come in parts, each of them small.
    fn count(&self, kind: Kind, held: usize) -> usize {
        if kind == Kind::Merges || held > self.from_bytes { held } else { 0 }
    }

    /// Whether memory became free at once since this was asked last.
    pub(crate) fn take_freed(&mut self) -> bool {
        core::mem::take(&mut self.has_freed)
    }

    /// When to look whether much became free: nothing may happen here behind clients that left.
    pub(crate) fn looks_at(&self) -> Option<Time> {
        self.has_fallen(self.own() + self.counted).then_some(self.count_at)
    }

    /// Whether so much is little beside what was held.
    fn has_fallen(&self, held: usize) -> bool {
        held <= self.peak / 2 && self.peak - held >= FREED_BYTES
    }

    /// So much is held now.
    fn note_held(&mut self, held: usize) {
        self.peak = self.peak.max(held);
        if self.has_fallen(held) {
            (self.peak, self.given_back, self.has_freed) = (held, held, true);
        }
        // Buffers that grew left smaller ones behind.
        if held >= self.given_back + GROWN_BYTES {
            (self.given_back, self.has_freed) = (held, true);
        }
    }

    fn own(&self) -> usize {
        self.sums.iter().sum::<usize>() - self.sums[Kind::Shared as usize]
    }
}

/// See `Account::counted_from_bytes`. `Limits::memory_max_bytes` is the worker's, `clients_max` that of all workers.
fn from_bytes(limits: &Limits, workers: u32) -> usize {
    let in_all = limits.memory_max_bytes.saturating_mul(workers.max(1) as usize);
    let each = in_all / SMALL_PARTS / limits.clients_max.max(1);
    each.clamp(FROM_BYTES_MIN, FROM_BYTES_MAX)
}

impl Client {
    /// Bytes of the client in the sums: all of it, with the room of its output, if either its buffers or the rest hold much.
    fn weight(&self, from_bytes: usize) -> usize {
        let (flows, rest) = (self.flow_bytes(), self.rest_bytes());
        if flows.max(rest) > from_bytes { flows + self.out.spare_bytes() + rest } else { 0 }
    }
}

impl Upstream {
    /// Bytes in its buffers, and what is known of those that wait for replies.
    #[inline]
    pub(crate) fn flow_bytes(&self) -> usize {
        self.out.pending() + self.out.kept_bytes() + self.tail_bytes() + self.inflight.bytes()
    }

    /// What the begin of a reply takes. An empty buffer that waits for the next one is small (`POOLED_BUFFER_BYTES`).
    #[inline]
    fn tail_bytes(&self) -> usize {
        if self.tail.is_empty() { 0 } else { taken_bytes(&self.tail) }
    }

    /// Whether it stands in the sums.
    #[inline]
    pub(crate) fn is_weighed(&self) -> bool {
        (self.charge_own.0 | self.charge.0) > 0
    }

    /// Whether replies change what it has in the sums: of all that it holds they add the begin of one that is not whole.
    #[inline]
    pub(crate) fn weighs_by_replies(&self) -> bool {
        (self.tail.len() | self.charge_own.0 | self.charge.0) > 0
    }

    /// What it holds of single clients, and what of all that use it.
    pub(crate) fn weights(&self) -> (usize, usize) {
        let carried = self
            .carried
            .as_ref()
            .map_or(0, |carried| carried.bytes.len() + carried.runs.len() * size_of::<Run>());
        let all = self.flow_bytes() + self.edge_bytes() + carried;
        let own = match self.role.owner().or(self.key.owner) {
            Some(_) => all,
            None if self.key.lane.carries_requests() => self.tail_bytes(),
            None => 0,
        };
        (own, all - own)
    }
}

impl Engine {
    /// Looks at what a client holds, and whether all together is too much.
    pub(crate) fn account_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let held = client.weight(self.account.from_bytes);
        if self.account.set(Kind::Clients, &mut client.charge, held) {
            self.bound_if_over();
        }
    }

    /// The same where it rarely holds much beside its buffers.
    #[inline]
    pub(crate) fn account_rest(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(id) else { return };
        if client.charge.is_any() || client.rest_bytes() > self.account.from_bytes {
            self.account_client(id);
        }
    }

    /// Looks at what an upstream holds, if it is much or was.
    #[inline]
    pub(crate) fn weigh_upstream(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        if upstream.is_weighed()
            || upstream.edge.is_some()
            || upstream.carried.is_some()
            || upstream.flow_bytes() > self.account.from_bytes
        {
            self.account_upstream(id);
        }
    }

    #[cold]
    fn account_upstream(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.edge.iter_mut().for_each(|edge| edge.settle());
        let (own, common) = upstream.weights();
        let more = self.account.set(Kind::Private, &mut upstream.charge_own, own);
        if self.account.set(Kind::Shared, &mut upstream.charge, common) | more {
            self.bound_if_over();
        }
    }

    /// Looks at what is collected of the parts of a reply.
    pub(crate) fn account_merge(&mut self, id: MergeId) {
        let Some(merge) = self.merges.get_mut(id) else { return };
        let held = merge.held_bytes();
        if self.account.set(Kind::Merges, &mut merge.charge, held) {
            self.bound_if_over();
        }
    }

    /// Takes in a request whose parts are under way.
    pub(crate) fn insert_merge(&mut self, mut merge: Merge) -> MergeId {
        let held = merge.held_bytes();
        self.account.set(Kind::Merges, &mut merge.charge, held);
        self.merges.insert(merge)
    }

    /// Takes the parts of a reply out.
    pub(crate) fn remove_merge(&mut self, id: MergeId) -> Option<Merge> {
        let mut merge = self.merges.remove(id)?;
        self.account.release(Kind::Merges, &mut merge.charge);
        Some(merge)
    }

    /// Looks at an answer to EXEC that is being put together.
    pub(crate) fn account_assembly(&mut self, id: ClientId, seq: u32) {
        let Self { assemblies, account, .. } = self;
        let Some(one) = assemblies.get_mut(id, seq) else { return };
        let held = one.held_bytes();
        if account.set(Kind::Assemblies, &mut one.charge, held) {
            self.bound_if_over();
        }
    }

    /// It was given on, or is wanted no more.
    pub(crate) fn release_assembly(&mut self, mut assembly: Assembly) {
        self.account.release(Kind::Assemblies, &mut assembly.charge);
    }

    /// The kinds that count by themselves may hold more than before.
    pub(crate) fn account_counted(&mut self) {
        let Holdings { own, common } = self.holdings();
        self.account.counted = own + common - self.account.own();
        self.account.note_held(own + common);
        self.bound_if_over();
    }

    /// Once in a while: some of these kinds grow little by little.
    #[inline]
    pub(crate) fn account_due(&mut self, now: Time) {
        if now >= self.account.count_at {
            self.account.count_at = now.plus_ms(COUNT_EVERY_MS);
            self.account_counted();
        }
    }

    /// Other limits hold: others are small.
    pub(crate) fn account_anew(&mut self) {
        self.account.from_bytes = from_bytes(&self.settings.limits, self.settings.workers);
        let Self { clients, upstreams, merges, assemblies, account, .. } = self;
        for (_, client) in clients.iter_mut() {
            let held = client.weight(account.from_bytes);
            account.set(Kind::Clients, &mut client.charge, held);
        }
        for (_, upstream) in upstreams.iter_mut() {
            let (own, common) = upstream.weights();
            account.set(Kind::Private, &mut upstream.charge_own, own);
            account.set(Kind::Shared, &mut upstream.charge, common);
        }
        for (_, merge) in merges.iter_mut() {
            let held = merge.held_bytes();
            account.set(Kind::Merges, &mut merge.charge, held);
        }
        for assembly in assemblies.iter_mut() {
            let held = assembly.held_bytes();
            account.set(Kind::Assemblies, &mut assembly.charge, held);
        }
        self.account_counted();
    }

    #[inline]
    fn bound_if_over(&mut self) {
        if self.account.own() + self.account.counted > self.settings.limits.memory_max_bytes {
            self.bound_memory();
        }
    }

    /// How many bytes are too many.
    pub(crate) fn memory_over(&self) -> usize {
        let Holdings { own, common } = self.holdings();
        let max = self.settings.limits.memory_max_bytes;
        let (part, of) = COMMON_SHARE;
        (own + common.min(max / of * part)).saturating_sub(max)
    }

    /// All that is held. Every field is named here: one that is added must be judged first. A kind that clients can make grow has a counter, or a
    /// bound beside which nobody notices it.
    #[rustfmt::skip] // Fields of one judgement stand together.
    pub(crate) fn holdings(&self) -> Holdings {
        let Self {
            // These charge the account.
            account, clients: _, upstreams: _, merges: _, assemblies: _,
            // These count by themselves, for clients.
            parked, subscriptions, asked, outside_bytes,
            // The same, for nobody in particular.
            pool, scripts, caches, slowlog, near, mirrors, elsewhere, policy, watches,
            // As many ids as there are clients or upstreams, or fewer.
            dirty_clients: _, dirty_upstreams: _, cork: _, topology_waiters: _, paused_clients: _, transfer_waiters: _,
            lease_waiters: _, resume: _, grants: _, roles: _, opening: _, deadlines: _, conn_clients: _, by_key: _, numbers: _, unblocks: _,
            // Given on in the turn in which they come.
            actions: _, notices: _,
            // One buffer each, of which a large one is given back (`POOLED_BUFFER_BYTES`, `SPANS_MAX`).
            scratch: _, scratch_parts: _, scratch_groups: _, spare: _,
            // As many as servers and their slots.
            nodes: _, first_node: _, router: _, peers: _, facts: _, learned: _, learning: _, readers: _, busy: _,
            // Tables with a number of entries of bounded length: `HOTKEYS_TOP_MAX`, `BIGKEYS_ENTRIES_MAX`, `OBSERVED_MAX`, `UNSENT_READS_MAX`,
            // `ACL_LOG_ENTRIES`, `LATENCY_MONITORS_MAX`, `ERROR_KINDS_MAX`, `ERROR_SAMPLES_MAX`, `LOGINS_TRIED_MAX`, `LOGINS_FAILED_MAX`.
            hotkeys: _, bigkeys: _, observer: _, coalescer: _, acl: _, monitors: _, stats: _, tally: _, words: _,
            // What the operator configured.
            settings: _, slowlog_told: _,
            // Numbers.
            generation: _, route_epoch: _, unsettled_until: _, pause: _, next_ticket: _, random: _, draining: _,
            sweep: _, next_question: _, own_asked_at: _, input_events: _, epoch: _, epoch_clients: _, gone_clients: _, looks_at_reads: _,
        } = self;
        let common = pool.bytes()
            + scripts.bytes()
            + subscriptions.told_bytes()
            + caches.bytes()
            + slowlog.bytes()
            + near.as_deref().map_or(0, Near::bytes)
            + mirrors.as_deref().map_or(0, |mirrors| mirrors.held_bytes())
            + elsewhere.as_deref().map_or(0, |elsewhere| elsewhere.held_bytes())
            + policy.as_deref().map_or(0, |policy| policy.held_bytes())
            + watches.iter().map(|watch| watch.held_bytes()).sum::<usize>()
            + account.sums[Kind::Shared as usize];
        let counted = parked.bytes() + subscriptions.bytes() + asked.bytes() + outside_bytes;
        let own = account.own() + counted;
        Holdings { own, common }
    }

    /// Closes the clients that caused most of what is held until all together is no more than it may be, or none of them holds much.
    #[cold]
    pub(crate) fn bound_memory(&mut self) {
        if self.account.is_bounding || self.shed() == 0 {
            return;
        }
        self.account.is_bounding = true;
        let mut before = usize::MAX;
        loop {
            let over = self.memory_over();
            let part = self.settings.limits.memory_max_bytes / BOUND_PART;
            if over == 0 || over >= before || !self.close_largest(over + part) {
                break;
            }
            before = over;
        }
        self.account.is_bounding = false;
        let Holdings { own, common } = self.holdings();
        self.account.counted = own + common - self.account.own();
    }

    /// Frees so many bytes, as far as clients hold much.
    pub(crate) fn free_memory(&mut self, bytes: usize) {
        self.account.is_bounding = true;
        self.pool.clear();
        self.close_largest(bytes);
        self.account.is_bounding = false;
    }

    /// Gives up what costs nobody a connection. How many bytes are still too many.
    fn shed(&mut self) -> usize {
        let Holdings { own, common } = self.holdings();
        // The near cache gives way for all that is held, also for more of the common kinds than counts against clients.
        let over = (own + common).saturating_sub(self.settings.limits.memory_max_bytes);
        if over == 0 {
            return 0;
        }
        self.pool.clear();
        self.shed_cached(over);
        self.memory_over()
    }

    /// Closes those that hold most and take nothing, until so much should be free. Whether there was any.
    fn close_largest(&mut self, over: usize) -> bool {
        let (mut claims, from_bytes) = (self.claims(), self.account.from_bytes);
        claims.retain(|(bytes, _)| *bytes > from_bytes);
        let latest = self.clients.iter().map(|(_, client)| client.untaken_since()).max();
        let mut claims: Vec<_> = claims
            .into_iter()
            .map(|(bytes, id)| (self.blame(id, bytes, latest.unwrap_or_default()), bytes, id))
            .collect();
        claims.sort_unstable_by(|left, right| right.cmp(left));
        let mut free = 0;
        for (_, bytes, id) in claims {
            if free >= over {
                break;
            }
            self.evict_unread(id, "it held the most memory when the limit was reached");
            free += bytes;
        }
        self.drop_unwanted();
        self.pool.clear();
        self.account.has_freed |= free > 0;
        free > 0
    }

    /// What a client holds, times for how long it has taken nothing of its output. One that reads all it is sent holds a
    /// large reply for a moment, and others a little each for minutes, of which there may be thousands.
    fn blame(&self, id: ClientId, bytes: usize, latest: Time) -> usize {
        let client = self.clients.get(id).filter(|client| client.out.in_flight());
        let untaken_ms = client.map_or(0, |client| latest.since(client.untaken_since()) / 1_000);
        let times = 1 + (untaken_ms / UNTAKEN_UNIT_MS).min(UNTAKEN_UNITS_MAX);
        bytes.saturating_mul(times as usize)
    }

    /// What each client causes to be held, wherever that is; of topics that several listen to each has the whole.
    fn claims(&self) -> Vec<(usize, ClientId)> {
        let mut claims: Vec<(usize, ClientId)> = Vec::with_capacity(self.clients.len());
        let mut places: Vec<usize> = Vec::new();
        for (id, client) in self.clients.iter() {
            let at = id.index as usize;
            if places.len() <= at {
                places.resize(at + 1, usize::MAX);
            }
            places[at] = claims.len();
            let topics = client.listening.as_ref().map_or(0, |listening| listening.held_bytes());
            claims.push((client.held_bytes() + topics, id));
        }
        let mut add = |id: ClientId, bytes: usize| {
            let at = places.get(id.index as usize).copied().unwrap_or(usize::MAX);
            if let Some(claim) = claims.get_mut(at).filter(|claim| claim.1 == id) {
                claim.0 += bytes;
            }
        };
        for (_, upstream) in self.upstreams.iter() {
            let owner = upstream.role.owner().or(upstream.key.owner);
            if let Some(id) = owner.or_else(|| self.waits_first(upstream)) {
                add(id, upstream.weights().0);
            }
        }
        self.merges.iter().for_each(|(_, merge)| add(merge.client, merge.held_bytes()));
        self.assemblies.iter().for_each(|one| add(one.client(), one.held_bytes()));
        self.parked.by_client().for_each(|(id, bytes)| add(id, bytes));
        self.asked.by_client().for_each(|(id, bytes)| add(id, bytes));
        claims
    }

    /// Whose reply comes next over a connection, if it is a client's.
    fn waits_first(&self, upstream: &Upstream) -> Option<ClientId> {
        match upstream.inflight.front()?.owner {
            Owner::Client { id, .. } => Some(id),
            Owner::Part { merge, .. } => self.merges.get(merge).map(|merge| merge.client),
            Owner::Own(_) => None,
        }
    }

    /// Lets go what is kept for clients that are gone: parts of replies, the begin of a reply in a tail, requests that wait for another server.
    fn drop_unwanted(&mut self) {
        let Self { clients, merges, account, .. } = self;
        for (_, merge) in merges.iter_mut().filter(|(_, one)| clients.get(one.client).is_none()) {
            merge.forget_replies();
            let held = merge.held_bytes();
            account.set(Kind::Merges, &mut merge.charge, held);
        }
        for id in self.upstreams.ids() {
            self.drop_unwanted_tail(id);
        }
        self.drop_unwanted_parked();
    }

    /// What has come of a reply that nobody waits for any more is dropped, as what comes later of it will be. A reply that is looked at just now is in no
    /// tail.
    fn drop_unwanted_tail(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let is_wanted = match upstream.inflight.front().map(|run| run.owner) {
            Some(Owner::Client { id, .. }) => self.clients.get(id).is_some(),
            Some(Owner::Part { merge, .. }) => {
                self.merges.get(merge).is_none_or(|merge| self.clients.get(merge.client).is_some())
            }
            Some(Owner::Own(_)) | None => true,
        };
        if is_wanted
            || upstream.tail_bytes() <= self.account.from_bytes
            || upstream.waits_for_buffer
            || upstream.in_push
            || upstream.inflight.has_sharers()
            || !upstream.key.lane.carries_requests()
        {
            return;
        }
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let scanned = (upstream.scanner.position() - upstream.forwarded) as usize;
        if scanned <= upstream.tail.len() {
            upstream.forwarded += scanned as u64;
            upstream.tail = upstream.tail.split_off(scanned);
        }
        self.account_upstream(id);
    }

    /// Recounts; for debug builds.
    ///
    /// # Panics
    /// When a holder did not tell the account.
    pub(crate) fn check_account(&self) {
        let account = &self.account;
        let mut sums = [0; KINDS];
        let mut see = |kind: Kind, charge: &Charge, held: usize| {
            assert_eq!(
                charge.0,
                account.count(kind, held),
                "{kind:?}: a holder that was not accounted"
            );
            sums[kind as usize] += charge.0;
        };
        for (_, client) in self.clients.iter() {
            see(Kind::Clients, &client.charge, client.weight(account.from_bytes));
        }
        for (_, merge) in self.merges.iter() {
            see(Kind::Merges, &merge.charge, merge.held_bytes());
        }
        for assembly in self.assemblies.iter() {
            see(Kind::Assemblies, &assembly.charge, assembly.held_bytes());
        }
        for (_, upstream) in self.upstreams.iter() {
            let (own, common) = upstream.weights();
            // What is still to be sent is looked at when it is.
            let (own, common) = match upstream.out.dirty {
                true => (upstream.charge_own.0, upstream.charge.0),
                false => (own, common),
            };
            see(Kind::Private, &upstream.charge_own, own);
            see(Kind::Shared, &upstream.charge, common);
        }
        assert_eq!(sums, account.sums, "sums of the account");
        assert!(!account.is_bounding);
        self.parked.check();
        self.check_subscribed();
    }
}

impl Role {
    /// The one client whose connection it is.
    fn owner(self) -> Option<ClientId> {
        match self {
            Self::Transfer(id) | Self::Leased(id) | Self::Errand(id) => Some(id),
            Self::Shared | Self::Retired | Self::Spare(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_frame_counts_with_its_record_until_it_is_taken_out() {
        let mut frames = KeptFrames::default();
        let each = size_of::<(usize, Vec<u8>)>() + BLOCK_BYTES;
        for number in 0..3_usize {
            frames.push(number, alloc::vec![0; number]);
        }
        assert_eq!((frames.frame_bytes(), frames.held_bytes()), (3, 3 + 3 * each));
        assert_eq!(frames.held_bytes(), frames.iter().map(|one| one.1.len() + each).sum());
        while let Some((number, frame)) = frames.pop_front() {
            assert_eq!(frame.len(), number);
        }
        assert_eq!((frames.len(), frames.held_bytes()), (0, 0));
    }

    #[test]
    fn a_charge_follows_its_holder_and_small_ones_count_nothing() {
        let mut account = Account::new(&Limits::default(), 1);
        let (mut one, mut other) = (Charge::default(), Charge::default());
        assert!(!account.set(Kind::Clients, &mut one, FROM_BYTES_MAX));
        assert!(account.set(Kind::Clients, &mut one, 100_000));
        assert!(account.set(Kind::Shared, &mut other, 50_000));
        assert!(!account.set(Kind::Clients, &mut one, 90_000));
        assert_eq!((account.own(), account.sums.iter().sum::<usize>()), (90_000, 140_000));
        account.release(Kind::Clients, &mut one);
        assert_eq!((account.own(), one.is_any()), (0, false));
    }

    #[test]
    fn all_small_clients_together_hold_a_part_of_the_memory() {
        for (memory_max_bytes, workers, clients_max) in
            [(1 << 30, 1, 10_000), (8 << 20, 8, 10_000), (64 << 20, 1, 1_000), (1 << 30, 4, 100)]
        {
            let limits = Limits { memory_max_bytes, clients_max, ..Limits::default() };
            let from = from_bytes(&limits, workers);
            assert!((FROM_BYTES_MIN..=FROM_BYTES_MAX).contains(&from));
            // Buffers and the rest each.
            let small = 2 * from * clients_max;
            assert!(small <= memory_max_bytes * workers as usize / 2 || from == FROM_BYTES_MIN);
        }
    }
}
