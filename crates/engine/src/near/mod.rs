//! The near cache: replies to reads that come often are kept here and given to whoever asks the same, without asking the server.
//!
//! ```text
//!   client a ─ GET k ──▶ [miss]  CLIENT CACHING YES, GET k ──▶ shared connection ──▶ server, which remembers: k was read there
//!                         keep ◀───────── "v" ◀──────────────                            │
//!   client b ─ GET k ──▶ [hit] "v"                                                       │ when k changes
//!   table    ◀─ drop k ◀───── invalidate k ◀── feed: a connection in RESP3 that only hears ◀─┘  (CLIENT TRACKING ON REDIRECT feed OPTIN)
//! ```
//! Clients' requests go where they always go; what is kept is the reply to one of them, and it serves only requests that would take *the same
//! connection*. So the server's order on that connection is the order of all that the clients of an entry see, but for one thing: what the feed
//! tells comes over another connection and may be late. Four rules make that harmless:
//!
//! 1. What is told while a read is on its way spoils it: its reply is not kept. And of a read that goes to the server though its reply is kept, the
//!    reply is compared with that: if it is another one, the feed is late, and the keys are dropped at once.
//! 2. A write drops its keys here when it is given on. What reads them behind it, on the same connection, sees it.
//!    Of two replies with one key the later one serves when a round of `PING`s behind it is over: the earlier one is gone then, if it was older.
//! 3. A client of which a request went out that may show it more than the feed has told yet (a script, a transaction, another command for
//!    a key that is kept …) is *wary*: it is given nothing from here, or nothing of that key, until that is answered and, after it, every feed, and every connection that was read over, has answered a `PING`. By then the
//!    feeds have told everything that the client can have seen ([decision 26](../../../../docs/internals/decisions/0026-near-cache.md)).
//! 4. When a feed, or the connection that read, is lost, or slots move, all that was read there goes.
//!
//! Files: `table` what is kept, `forward` a client's input, `feeds` the connections that tell. Here: the state, and who is wary.
//!
//! Not here: clients that cache by themselves (`tracking`).
//!
//! Invariant: of an entry that serves, the server was told to tell of its keys before it was read, over a feed that has not been lost since.

mod feeds;
mod forward;
mod table;

use crate::client::Client;
use crate::engine::Engine;
use crate::glob;
use crate::hotkeys::sketch::Sketch;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{CACHE_KEYS_MAX, CACHE_REFUSED_MS, CACHE_WINDOW_MS, NEAR_PART};
use crate::settings::ReadPolicy;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
pub(crate) use table::Answer;
use table::{Hashes, Kept, Table};

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether there is one.
    pub enabled: bool,
    /// What all entries of a worker may cost, in bytes. Beyond it those go that nobody asks for.
    pub memory_max_bytes: usize,
    /// Bytes of the largest reply that is kept; at most `limits::CACHE_VALUE_BYTES_MAX`.
    pub value_max_bytes: usize,
    /// So long an entry serves from when it was asked for, in milliseconds, whatever is told or not told of it.
    pub ttl_ms: u64,
    /// Patterns of keys that may be kept; none: any.
    pub keys: Vec<Vec<u8>>,
    /// A request is kept when it came so often within `limits::CACHE_WINDOW_MS`, by estimate; 1: the first time.
    pub min_reads: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: false,
            memory_max_bytes: 64 << 20,
            value_max_bytes: 16 << 10,
            ttl_ms: 5_000,
            keys: Vec::new(),
            min_reads: 4,
        }
    }
}

impl Options {
    fn may_keep(&self, key: &[u8]) -> bool {
        self.keys.is_empty() || self.keys.iter().any(|pattern| glob::means(pattern, key))
    }
}

/// A connection that tells of changes at its node.
#[derive(Clone, Copy, Debug)]
struct Feed {
    upstream: UpstreamId,
    /// Its number at the server.
    number: u64,
}

/// What the server was told of a shared connection.
#[derive(Clone, Copy, Debug)]
enum Armed {
    /// To tell the feed with this number of what is read there.
    For(u64),
    /// It refused that. It is asked again from then on.
    Refused(Time),
}

/// See rule 3 of the module.
#[derive(Clone, Debug)]
struct Wary {
    /// All places of the client before this one must be answered.
    until: u32,
    /// And then this round must be over; `None`: nobody looked since.
    round: Option<u64>,
    /// The client needs no round: it is wary of replies on their way only, and the cache compares each of them with the kept reply (rule 1).
    is_compared: bool,
    /// Of which keys alone, at most `limits::CACHE_KEYS_MAX`; none: of all.
    keys: Vec<u64>,
}

/// Every feed is asked whether it has told everything, all in one round.
#[derive(Debug, Default)]
struct Rounds {
    begun: u64,
    done: u64,
    /// Feeds, and connections that were read over, that have not answered.
    waits_for: BTreeSet<UpstreamId>,
    /// Another one is to follow.
    wanted: bool,
}

impl Rounds {
    /// Whether this reply came while others with its keys were kept, and no round since is over. The function asks for such a round.
    fn is_young(&mut self, kept: Kept<'_>) -> bool {
        let is_young = kept.is_beside && self.done <= kept.rounds;
        self.wanted |= is_young && self.begun <= kept.rounds;
        is_young
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Near {
    options: Options,
    table: Table,
    hashes: Hashes,
    /// How often requests come that are not kept.
    sketch: Sketch,
    window_began: Time,
    random: u64,
    feeds: BTreeMap<NodeId, Feed>,
    armed: BTreeMap<UpstreamId, Armed>,
    /// Nodes at which there should be a feed and is none.
    wanted: BTreeSet<NodeId>,
    wary: BTreeMap<ClientId, Wary>,
    rounds: Rounds,
    /// The owners of slots that all entries go by.
    route_epoch: u32,
    /// Keys of the request that is looked at.
    keys: Vec<u64>,
}

impl Near {
    pub(crate) fn new(options: &Options, seed: u64, now: Time) -> Option<Box<Self>> {
        options.enabled.then(|| {
            Box::new(Self {
                options: options.clone(),
                table: Table::default(),
                hashes: Hashes::new(seed),
                sketch: Sketch::new(),
                window_began: now,
                // Xorshift knows no way out of 0.
                random: seed | 1,
                feeds: BTreeMap::new(),
                armed: BTreeMap::new(),
                wanted: BTreeSet::new(),
                wary: BTreeMap::new(),
                rounds: Rounds::default(),
                route_epoch: 0,
                keys: Vec::new(),
            })
        })
    }

    /// Whether this client may be given what is kept of these keys. If only a round of the feeds is missing, that is wanted.
    fn trusts(
        (wary, rounds): (&mut BTreeMap<ClientId, Wary>, &mut Rounds),
        (id, client): (ClientId, &Client),
        keys: &[u64],
    ) -> bool {
        if wary.is_empty() {
            return true;
        }
        let Some(own) = wary.get_mut(&id) else { return true };
        if !own.keys.is_empty() && !keys.iter().any(|key| own.keys.contains(key)) {
            return true;
        }
        let left = own.until.wrapping_sub(client.places.head());
        if left != 0 && left < 1 << 31 {
            return false;
        }
        let round = *own.round.get_or_insert(rounds.begun + 1);
        if own.is_compared || rounds.done >= round {
            wary.remove(&id);
            return true;
        }
        rounds.wanted |= rounds.begun < round;
        false
    }

    /// What this client has under way before this place may show it more of these keys than the feeds have told; none: of all keys.
    fn make_wary(&mut self, id: ClientId, until: u32, keys: &[u64]) {
        let own = self.entry_of_wary(id, until, keys);
        (own.round, own.is_compared) = (None, false);
        Self::add_keys(own, keys);
    }

    /// Makes the client wary of these keys until the reply before this place is here: it may be newer than the kept reply to the same request. No other request with
    /// these keys has a kept reply.
    fn make_wary_until(&mut self, id: ClientId, until: u32, keys: &[u64]) {
        let own = self.entry_of_wary(id, until, keys);
        Self::add_keys(own, keys);
    }

    fn entry_of_wary(&mut self, id: ClientId, until: u32, keys: &[u64]) -> &mut Wary {
        let fresh = || Wary { until, round: None, is_compared: true, keys: keys.to_vec() };
        let own = self.wary.entry(id).or_insert_with(fresh);
        own.until = until;
        own
    }

    fn add_keys(own: &mut Wary, keys: &[u64]) {
        if own.keys.is_empty() || keys.is_empty() {
            return own.keys.clear();
        }
        own.keys.extend_from_slice(keys);
        own.keys.sort_unstable();
        own.keys.dedup();
        if own.keys.len() > CACHE_KEYS_MAX {
            own.keys.clear();
        }
    }

    /// Whether this request, by its hash, came often enough.
    fn is_hot(&mut self, now: Time, hash: u64) -> bool {
        if self.options.min_reads <= 1 {
            return true;
        }
        if now.since(self.window_began) >= CACHE_WINDOW_MS * 1_000 {
            self.sketch.clear();
            self.window_began = now;
        }
        let Self { sketch, random, .. } = self;
        let count = sketch.add(hash, || {
            *random ^= *random >> 12;
            *random ^= *random << 25;
            *random ^= *random >> 27;
            (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
        });
        count >= self.options.min_reads
    }

    fn refuse(&mut self, now: Time, upstream: UpstreamId) {
        self.armed.insert(upstream, Armed::Refused(now.plus_ms(CACHE_REFUSED_MS)));
    }

    /// Entries, and feeds.
    pub(crate) fn gauges(&self) -> [u64; 2] {
        [self.table.len() as u64, self.feeds.len() as u64]
    }

    /// Whether dropped entries are to be removed.
    pub(crate) fn has_dropped(&self) -> bool {
        self.table.has_dropped()
    }

    /// What all entries cost.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Checks the invariants; for debug builds.
    pub(crate) fn check(&self) {
        self.table.check();
        assert!(self.rounds.done <= self.rounds.begun, "a round that never began");
    }
}

impl Engine {
    /// Whether replies may be kept and given out: not while servers send requests on, or one waits for its server, as what stands behind
    /// such a request then goes before it.
    fn cache_serves(&self, now: Time) -> bool {
        self.settings.reads.policy == ReadPolicy::Primary
            && now >= self.unsettled_until
            && self.parked.is_empty()
    }

    /// A request of this client did not take the short way, and names these keys; none: any (rule 3).
    #[inline]
    pub(crate) fn grow_wary(&mut self, id: ClientId, keys: &[u64]) {
        if let Some(near) = self.near.as_deref_mut()
            && let Some(client) = self.clients.get(id)
        {
            near.make_wary(id, client.places.next(), keys);
            if near.wary.len() > self.clients.len() * 2 {
                near.wary.retain(|id, _| self.clients.get(*id).is_some());
            }
        }
    }

    /// Gives up so many bytes of replies that are kept, or all.
    pub(crate) fn shed_cached(&mut self, bytes: usize) {
        if let Some(near) = self.near.as_deref_mut() {
            let left = near.table.bytes().saturating_sub(bytes);
            self.stats.cache_dropped_evicted += near.table.make_room(left);
        }
    }

    /// Removes some of the replies that a change dropped.
    pub(crate) fn remove_dropped_cached(&mut self) {
        if let Some(near) = self.near.as_deref_mut().filter(|near| near.has_dropped()) {
            near.table.remove_dropped();
            self.account_counted();
        }
    }

    /// What `cache_serves` or the owners of slots say no to is not kept either.
    fn drop_cached(&mut self) {
        if let Some(near) = self.near.as_deref_mut() {
            self.stats.cache_dropped_lost += near.table.drop_all();
        }
    }

    /// A reply came, or will not, to what was asked for to be kept, at the last place of this connection that was answered.
    pub(crate) fn cached_answer(&mut self, id: UpstreamId, reply: Answer<'_>) {
        let Some(place) = self.upstreams.get(id).map(|up| up.inflight.place()) else { return };
        let Some(near) = self.near.as_deref_mut() else { return };
        let bytes_max = near.options.value_max_bytes;
        let place = (id, place.wrapping_sub(1));
        self.stats.cache_dropped_changed += near.table.checked(place, reply);
        if near.table.answered(place, reply, (bytes_max, near.rounds.begun)) {
            self.stats.cache_kept += 1;
            let part = self.settings.limits.memory_max_bytes / NEAR_PART;
            let gone = near.table.make_room(near.options.memory_max_bytes.min(part));
            self.stats.cache_dropped_evicted += gone;
            self.account_counted();
        }
    }

    /// Other options: what was kept by the former ones goes.
    pub(crate) fn change_cache(&mut self, now: Time, old: &Options) {
        if self.settings.cache == *old {
            return self.drop_cached();
        }
        self.drop_cached();
        let seed = self.next_random();
        match (self.near.as_deref_mut(), self.settings.cache.enabled) {
            (Some(near), true) => near.options = self.settings.cache.clone(),
            (None, true) => self.near = Near::new(&self.settings.cache, seed, now),
            (Some(_), false) => self.end_cache(now),
            (None, false) => {}
        }
    }
}
