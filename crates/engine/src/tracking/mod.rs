//! Client-side caching: which client may hold which key in its own cache, and who tells it when the key changed.
//!
//! Clients that cache share connections of their own, on which the server tracks what is read (`CLIENT TRACKING ON`):
//!
//! ```text
//!   client a ─ GET k ─┐                        ┌── GET k ──▶ server, which remembers: k was read over this connection
//!   client b ─ GET k ─┴─▶ keys[k] = {a, b} ────┤
//!   client a ◀─ invalidate k ─┬── keys[k] ◀────┴── invalidate k ◀── server, when k changes
//!   client b ◀─ invalidate k ─┘
//! ```
//! Replies and invalidations come over the same connection, in the server's order, so a client never caches a value after it was told that it
//! changed. Where that order is not given (a reply that waits for another server's or for mirrors, a script, a read inside a transaction, a large value), the client is
//! told once more behind the reply: it caches a little less, never something stale.
//!
//! Scripts take other connections (`beside`): one without an end would keep all waiting that share the connection.
//!
//! | mode | whose connection | who is told |
//! |---|---|---|
//! | RESP3, default | the lane `Tracked`, in the server's default mode | those that read the key |
//! | RESP3, BCAST | the lane `Broadcast`, with the prefixes of all such clients | those with a prefix of the key |
//! | RESP3, NOLOOP | the same lanes, but a connection of its own to each server (`own`) | as above, but for its own changes |
//! | RESP2 with REDIRECT | the usual one; changes come over the lane `Broadcast` with every key | the client that is redirected to |
//! | RESP2 with REDIRECT, NOLOOP | two of its own to each server, the first redirected to the second (`own`) | the same, but for its own changes |
//!
//! A lost connection means that changes may have been missed, so everybody whose keys it told of is told to drop all.
//!
//! Files: `commands` CLIENT TRACKING and its kin, `feed` the connections, `own` those of one client, `order` what is read and told while a
//! request is under way elsewhere, `reading` which keys are read just now, `again` those that are told once more, `broadcast` those that hear of all keys with a prefix, `telling` the message to a client, `wire` that of a server. Here: the table, and the way of an invalidation.
//!
//! Not here: the connections' lives (`connect`).
//!
//! Invariant: a key that a client was given over a tracked connection stands in the table for it, or an invalidation of it is on its way.

mod again;
mod broadcast;
mod commands;
mod feed;
mod order;
mod own;
mod prefixes;
mod readers;
mod reading;
mod telling;
pub(crate) mod wire;

use crate::blocking::blocks;
use crate::client::Client;
use crate::command::{self, CommandId, Flags, ids};
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{
    FAN_KEY_COST, FAN_READER_COST, RELINK_MS, TRACKED_BYTES_MAX, TRACKED_KEYS_MAX, TRACKED_PART,
    TRACKED_REQUEST_KEYS_MAX,
};
use crate::overtaken::is_script;
use crate::reply::Fault;
use crate::route::Way;
use crate::scatter::{Wish, keys_of, row_of};
use crate::time::Time;
use crate::upstream::{Lane, UpstreamKey};
use again::Again;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use order::{Asked, Marks, State, Waiting};
use readers::{ReadKeys, Readers};
use reading::{Reading, keys_bytes};
use resp::Protocol;

/// A key's name, held once however many cache it.
type Name = Arc<[u8]>;

/// The database of the connection by which clients in RESP2 hear of changes. Servers tell of a key whichever database it changes in
/// (`trackingInvalidateKey` in Redis' tracking.c), so one to each node is enough.
pub(crate) const FEED_DB: u32 = 0;

/// What a prefix of a client takes beside its name.
const PREFIX_BYTES: usize = 64;

/// What a key takes beside its name that is read in a transaction.
const WAITING_BYTES: usize = 64;

/// What all clients of one worker may have in their caches.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    keys: ReadKeys,
    /// Clients in BCAST mode, and those in RESP2, which hear of every key.
    broadcast: BTreeSet<ClientId>,
    /// All clients that track.
    clients: BTreeSet<ClientId>,
    /// The owners of slots for which connections of the lane `Broadcast` were made.
    route_epoch: u32,
    /// When the keys are looked at for those whose owner changed.
    pub(crate) look_at: Option<Time>,
    /// Connections of the lane `Broadcast` that come although clients heard before: an owner changed, the former connection was lost, or an attempt
    /// failed. Keys may have changed before they tell of changes.
    pub(crate) late: BTreeSet<UpstreamId>,
    /// New clients, and clients that hear over other connections now. respool looks at the connections of these clients alone, so the cost of a command does
    /// not depend on the number of other clients.
    changed: BTreeSet<ClientId>,
    /// A client in BCAST mode left a shared connection and may have been its last one.
    left: bool,
    /// Time of the last search for remaining clients. The search looks at all clients, at most once in [`RELINK_MS`].
    looked_at: Option<Time>,
    /// The prefixes that shared connections of the lane `Broadcast` were asked for, in order.
    prefixes: Vec<Name>,
    /// Grows when they are all forgotten.
    prefix_round: u64,
    /// What is asked over connections of these lanes for clients that have something under way elsewhere.
    asked: BTreeMap<UpstreamId, VecDeque<Asked>>,
    /// How many of these are marks, by client.
    marks: Marks,
    /// The number of the last fence.
    next_fence: u64,
    /// What was answered of them in this turn.
    fenced: Vec<(ClientId, u64)>,
    /// CLIENT TRACKING in BCAST mode with a client of another worker to be told, of which the servers do not tell yet: one of a client at the most.
    begun: Vec<crate::fleet::Asked>,
    /// Clients that read keys, or hear of prefixes, and could not be told of changes before they took RESP3, by the place of their HELLO. respool tells these
    /// clients to drop all keys when the servers tell of changes and every earlier reply was delivered.
    were_deaf: BTreeMap<ClientId, u32>,
    /// respool is telling a client the changes that waited for its replies. A message settles the client that gets it, and that client may be due for more.
    /// respool tells those in a loop, as each message would lie one call deeper otherwise.
    is_telling: bool,
    /// Clients that were settled meanwhile, which come next.
    settled: BTreeSet<ClientId>,
}

impl Caches {
    /// Time of the next look at connections, if one is due.
    pub(crate) fn look_at_conns(&self, now: Time) -> Option<Time> {
        match self.changed.is_empty() {
            false => Some(now),
            true => self.left.then(|| self.may_look_at(now)),
        }
    }

    fn may_look_at(&self, now: Time) -> Time {
        self.looked_at.map_or(now, |at| at.plus_ms(RELINK_MS).max(now))
    }

    /// Bytes of the names of keys, and of what each client takes.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes()
    }
}

/// What one client asked for with CLIENT TRACKING.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    /// With NOLOOP: the client itself, as the owner of its connections.
    owner: Option<ClientId>,
    /// The number of the client that is told instead; 0: itself.
    redirect: u64,
    /// No two of them overlap.
    prefixes: BTreeSet<Name>,
    /// What these take.
    prefixes_bytes: usize,
    /// In this round ([`Caches::prefix_round`]) the prefixes that shared connections ask for cover its own.
    covered_in: Option<u64>,
    /// CLIENT CACHING was said for the next command.
    caching: bool,
    /// What its latest requests read, until a later one is answered.
    reading: Reading,
    /// Keys that were read where nobody tracks, to be told of behind the reply at this place.
    again: Again,
    /// Requests with more keys than are tracked (`limits::TRACKED_REQUEST_KEYS_MAX`): these are told behind the reply, too.
    vast: VecDeque<Vast>,
    /// Bytes of these.
    vast_bytes: usize,
    /// Keys that are read in an open transaction.
    inside: BTreeMap<Name, State>,
    /// Bytes of these.
    inside_bytes: usize,
    /// The place of the latest EXEC or script with marked keys, until the client has its reply.
    exec: Option<u32>,
    /// The keys of the blocking command that is under way, and its place.
    blocked: Option<(u32, BTreeSet<Name>)>,
    /// What changed while EXEC or a blocking command is under way: told behind its reply, as a server does that did it.
    later: Waiting,
    /// The ways it heard by before it took another protocol or database, or NOLOOP: what it read then is still told by them.
    earlier: BTreeSet<Ear>,
    /// In BCAST mode: when it hears by one way alone again.
    leaving: Option<Leaving>,
    /// CLIENT TRACKING is not answered yet: the connections are not ready.
    beginning: bool,
    /// The client read keys while it could not be told of changes (RESP2 without REDIRECT).
    read_unheard: bool,
    /// respool told the client to drop all keys, and the client read no key since then.
    holds_none: bool,
    /// The client that it is redirected to was gone when it was to be told.
    broken: bool,
}

/// A request that reads more keys than are tracked of one.
#[derive(Clone, Debug)]
struct Vast {
    /// Its place.
    place: u32,
    keys: Arc<[Name]>,
    bytes: usize,
}

/// Connections that tell a client of changes, at every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ear {
    lane: Lane,
    db: u32,
    /// They are its own.
    owner: Option<ClientId>,
    /// Each of them tells for another one (`own`).
    pairs: bool,
}

impl Ear {
    fn of(key: &UpstreamKey) -> Self {
        Self { lane: key.lane, db: key.db, owner: key.owner, pairs: own::is_of_pair(key) }
    }

    /// The connection at this node that tells.
    fn at(self, node: NodeId) -> UpstreamKey {
        let Self { lane, db, owner, pairs } = self;
        let conn = if pairs { own::TELLS } else { 0 };
        UpstreamKey { node, resp3: true, db, lane, conn, owner }
    }
}

/// A client hears by this way alone as soon as the others have told all.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    ear: Ear,
    /// Connections that have not.
    waits: usize,
    /// Which question that is.
    number: u64,
}

/// The keys that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// These keys.
    Keys(Arc<[Name]>),
    /// These keys, with their list as the message to each of many clients has it.
    Listed(Arc<[Name]>, Arc<[u8]>),
    /// Any: all of them are to be dropped.
    All,
}

impl Changed {
    /// The keys. `None`: all of them.
    pub(crate) fn keys(&self) -> Option<&Arc<[Name]>> {
        match self {
            Self::Keys(keys) | Self::Listed(keys, _) => Some(keys),
            Self::All => None,
        }
    }
}

impl Tracking {
    /// Bytes of what is read in a transaction, of what is read just now, of what is told later or again, and of prefixes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.inside_bytes
            + self.prefixes_bytes
            + self.reading.held_bytes()
            + self.vast_bytes
            + self.later.held_bytes()
            + self.again.held_bytes()
    }

    /// The one of its prefixes that this key begins with.
    fn prefix_of(&self, key: &[u8]) -> Option<&Name> {
        // If one does, all between the two would begin with that one, too.
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let nearest = self.prefixes.range::<[u8], _>(up_to).next_back();
        nearest.filter(|prefix| key.starts_with(prefix))
    }

    /// Whether what the next command reads is to be cached.
    fn caches_next(&self) -> bool {
        match (self.opt_in, self.opt_out) {
            (true, _) => self.caching,
            (_, true) => !self.caching,
            _ => true,
        }
    }

    /// EXEC at this place was answered, and these keys were read in it behind a CLIENT TRACKING.
    pub(crate) fn end_of_transaction(&mut self, seq: u32, keys: Vec<Vec<u8>>) {
        self.caching = false;
        self.again.extend(keys.into_iter().map(|key| (seq, Name::from(key))));
    }

    /// It hears of all keys with its prefixes, read or not.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.broadcast
    }

    /// The client that it is redirected to was gone when it was to be told.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}

fn is_before(seq: u32, head: u32) -> bool {
    seq != head && head.wrapping_sub(seq) < 1 << 31
}

impl Client {
    /// The place of an EXEC, or of a script with marked keys, until the client has the reply. A reply of the server may still wait for mirrors.
    fn exec_under_way(&self) -> Option<u32> {
        let head = self.places.head();
        let exec = self.tracking.as_ref()?.exec;
        exec.filter(|seq| self.places.open() > 0 && !is_before(*seq, head))
    }

    /// What tells it of the changes of what it reads now. `None`: it does not want to know, or cannot be told (RESP2 without REDIRECT).
    fn ear(&self) -> Option<Ear> {
        let tracking = self.tracking.as_ref()?;
        let (lane, db) = match self.protocol {
            Protocol::Resp2 if tracking.redirect == 0 => return None,
            Protocol::Resp2 if !self.has_pairs() => (Lane::Broadcast, FEED_DB),
            _ => (self.lane(Lane::Shared), self.db),
        };
        Some(Ear { lane, db, owner: self.owner(lane), pairs: self.has_pairs() })
    }

    /// Whether it has two connections of its own to each server, since it cannot hear of changes over the one that its requests take: RESP2 with
    /// REDIRECT and NOLOOP.
    fn has_pairs(&self) -> bool {
        let redirects = |tracking: &Tracking| tracking.owner.is_some() && tracking.redirect != 0;
        self.protocol == Protocol::Resp2 && self.tracking.as_deref().is_some_and(redirects)
    }

    /// Whose the connections of this lane are that its requests take.
    #[inline]
    pub(crate) fn owner(&self, lane: Lane) -> Option<ClientId> {
        match (&self.tracking, lane) {
            (Some(tracking), Lane::Tracked | Lane::Broadcast) => tracking.owner,
            _ => None,
        }
    }

    /// Whether the server tells its writes from those of others.
    pub(crate) fn has_own(&self) -> bool {
        self.ear().is_some_and(|ear| ear.owner.is_some())
    }

    /// Whether it may ask with PING whether it has heard of everything: then that must come the way of the changes.
    pub(crate) fn asks_with_ping(&self) -> bool {
        self.tracking.is_some() && self.protocol == Protocol::Resp3
    }

    /// Over which lane its requests go that would go over this one: what it reads must be tracked where it is read.
    #[inline]
    pub(crate) fn lane(&self, lane: Lane) -> Lane {
        match (&self.tracking, lane) {
            (Some(tracking), Lane::Shared)
                if self.protocol == Protocol::Resp3 || self.has_pairs() =>
            {
                if tracking.broadcast {
                    Lane::Broadcast
                } else {
                    Lane::Tracked
                }
            }
            _ => lane,
        }
    }
}

impl Engine {
    /// Whether the next request of this client takes a connection that the client holds, or takes for a command that waits, and that tells it of no changes.
    pub(crate) fn holds_apart(&self, client: &Client, way: Way) -> bool {
        let lease = client.lease.as_ref();
        // A client with NOLOOP gets invalidations for reads over its own connections. The client may hold another connection since before CLIENT TRACKING.
        let is_own = |held: UpstreamId| {
            let owner = self.upstreams.get(held).and_then(|up| up.key.owner);
            owner.is_some() && owner == client.ear().and_then(|ear| ear.owner)
        };
        let held = lease.and_then(|lease| lease.upstream);
        let hears = client.has_own() && held.is_none_or(is_own);
        (lease.is_some() || way == Way::Leased) && !hears
    }

    /// A request of a client that caches was given on, and took this place. `apart`: over a connection that tells it of no changes.
    pub(crate) fn track_request(&mut self, now: Time, wish: &Wish<'_>, seq: u32, apart: bool) {
        let keys = self.names_in(wish);
        let reads = self.is_tracked(wish);
        let queueing = self.is_queueing(wish.id);
        let Some(client) = self.clients.get_mut(wish.id) else { return };
        let is_unheard = (reads || wish.row.is_none()) && client.ear().is_none();
        let Some(tracking) = client.tracking.as_mut() else { return };
        tracking.read_unheard |= is_unheard;
        let caches = tracking.caches_next() && !tracking.broadcast;
        if queueing {
            // What it reads comes with EXEC.
            if reads && (caches || tracking.broadcast) {
                self.reads_inside(now, wish.id, keys);
                self.account_rest(wish.id);
            }
            return;
        }
        let inside = core::mem::take(&mut tracking.inside);
        tracking.inside_bytes = 0;
        if wish.row == Some(ids::EXEC) || apart && is_script(wish.row) && !inside.is_empty() {
            self.exec_reads(wish.id, seq, inside, caches, apart);
            return self.account_rest(wish.id);
        }
        if apart && wish.row.is_some_and(blocks) {
            tracking.blocked = Some((seq, keys.iter().cloned().collect()));
        }
        let is_vast = keys.len() > TRACKED_REQUEST_KEYS_MAX;
        if reads && (caches || tracking.broadcast) && is_vast {
            let bytes = keys_bytes(&keys);
            tracking.vast_bytes += bytes;
            tracking.vast.push_back(Vast { place: seq, keys: keys.into(), bytes });
            return self.account_rest(wish.id);
        }
        if reads && caches && apart {
            tracking.again.extend(keys.iter().map(|key| (seq, key.clone())));
        }
        // In BCAST mode it is told of all keys, and of these perhaps again.
        let told = caches || tracking.broadcast;
        if !keys.is_empty() && reads && told {
            tracking.reading.begin(seq, keys.clone());
        }
        if reads && caches {
            keys.iter().for_each(|key| self.remember(wish.id, key));
        }
        self.account_rest(wish.id);
    }

    /// The keys that a request names.
    fn names_in(&self, wish: &Wish<'_>) -> Vec<Name> {
        let names = keys_of(wish.args, self.learned.as_ref());
        names.iter().map(|(_, key)| Arc::from(*key)).collect()
    }

    /// Whether servers track the keys of this request: the flag `readonly` of the command, or of the subcommand, decides (`call` in Redis' server.c), and
    /// of a script each command that it calls.
    fn is_tracked(&self, wish: &Wish<'_>) -> bool {
        match wish.row.map(|row| row_of(row, wish.args)) {
            Some(row) => row.row().reads() || runs_script(row),
            None => {
                let learned = self.learned.as_ref().and_then(|all| all.lookup(wish.args[0]));
                learned.is_some_and(|command| command.flags.has(Flags::READONLY))
            }
        }
    }

    /// Whether `CLIENT CACHING` was said for the next command of this client.
    pub(crate) fn is_caching(&self, id: ClientId) -> bool {
        let client = self.clients.get(id).and_then(|client| client.tracking.as_ref());
        client.is_some_and(|tracking| tracking.caching)
    }

    /// Ends `CLIENT CACHING` behind a processed request. `CLIENT CACHING` applies to the next command or transaction, also if a server refuses that command, and
    /// another `CLIENT` command may stand between (`resetClient` in Redis' networking.c).
    pub(crate) fn end_caching(&mut self, id: ClientId, args: &[&[u8]]) {
        let is_client = args.first().is_some_and(|name| command::lookup(name) == Some(ids::CLIENT));
        let is_known = is_client && row_of(ids::CLIENT, args) != ids::CLIENT;
        if is_known || self.is_queueing(id) {
            return;
        }
        if let Some(tracking) = self.clients.get_mut(id).and_then(|c| c.tracking.as_mut()) {
            tracking.caching = false;
        }
    }

    fn remember(&mut self, id: ClientId, key: &Name) {
        let node = self.owner_of(key);
        if let Some(tracking) = self.clients.get_mut(id).and_then(|c| c.tracking.as_mut()) {
            tracking.holds_none = false;
        }
        while let Some(former) = self.caches.keys.add(id, key, node) {
            self.tell_readers(key, former);
        }
        let bytes_max = TRACKED_BYTES_MAX.min(self.settings.limits.memory_max_bytes / TRACKED_PART);
        while self.caches.keys.len() > TRACKED_KEYS_MAX || self.caches.keys.bytes() > bytes_max {
            // As a server at its `tracking-table-max-keys`: any of them goes, and who may have it is told.
            let Some((key, readers)) = self.caches.keys.pop() else { return };
            self.tell_readers(&key, readers);
        }
    }

    /// The node that tells of changes of this key; none where there is one server, or nobody has it just now.
    fn owner_of(&self, key: &[u8]) -> Option<NodeId> {
        if self.is_one() { None } else { self.router.node(self.router.steady_place(key)) }
    }

    /// Sends an invalidation of a key that respool tracks no more to the clients that read the key.
    fn tell_readers(&mut self, key: &Name, readers: Readers) {
        for client in readers.clients {
            self.key_changed(None, client, key);
        }
    }

    /// Keys went to other owners, who know nothing of who read them: the clients of some of these keys are told. The others follow in the next turns.
    pub(crate) fn look_at_owners(&mut self) {
        let mut read = core::mem::take(&mut self.caches.keys);
        let moved = read.look_on(|key, readers| readers.node != self.owner_of(key));
        self.caches.keys = read;
        for key in moved {
            if let Some(readers) = self.caches.keys.remove(&key) {
                self.tell_readers(&key, readers);
            }
        }
    }

    /// Whether owners of keys are to be looked at.
    pub(crate) fn looks_at_owners(&self) -> bool {
        self.caches.keys.is_looking()
    }

    /// A frame came between the replies of a connection on which the server tracks.
    pub(crate) fn invalidated(
        &mut self,
        now: Time,
        id: UpstreamId,
        frame: &[u8],
    ) -> Result<(), Fault> {
        let Some(upstream) = self.upstreams.get(id) else { return Ok(()) };
        let (key, edge) = (upstream.key, upstream.edge.as_deref());
        if edge.is_none()
            && let Some(owner) = self.hears_as_told(key, frame)
        {
            self.push(owner, |out| out.extend_from_slice(frame));
            return Ok(());
        }
        let Some((changed, _)) = wire::whole_push(frame) else {
            return Err(String::from("sent a malformed push"));
        };
        let changed = match (changed, edge) {
            (None, _) => return Ok(()),
            (Some(Changed::Keys(keys)), Some(edge)) => {
                Changed::Keys(keys.iter().map(|key| edge.at_clients(key)).collect())
            }
            (Some(changed), _) => changed,
        };
        if key.lane == Lane::Feed {
            self.cache_changed(key.node, &changed);
            return Ok(());
        }
        match changed.keys() {
            None => self.flush_caches(key),
            Some(keys) => self.keys_changed((now, id), key, keys),
        }
        Ok(())
    }

    fn keys_changed(&mut self, by: (Time, UpstreamId), from: UpstreamKey, keys: &Arc<[Name]>) {
        for key in keys.iter() {
            let Some(readers) = self.caches.keys.get(key) else { continue };
            let may_have = |id: ClientId| self.caches.keys.may_have(id, key);
            let hears = |id: &&ClientId| may_have(**id) && self.hears(**id, from);
            // A connection of one client tells of changes for that client alone, however many clients have the key.
            let clients: Vec<ClientId> = match &from.owner {
                Some(owner) => {
                    readers.clients.get(owner).filter(hears).copied().into_iter().collect()
                }
                None => readers.clients.iter().filter(hears).copied().collect(),
            };
            for id in clients {
                self.grants.fan.pay(FAN_READER_COST, false);
                self.key_changed(Some(by), id, key);
            }
        }
        if from.lane == Lane::Broadcast {
            self.tell_broadcast(by, from, keys);
        }
    }

    /// Whether what this connection tells is for this client: each hears of changes over one connection to each node.
    fn hears(&self, id: ClientId, from: UpstreamKey) -> bool {
        let Some(client) = self.clients.get(id) else { return false };
        let ear = Ear::of(&from);
        client.ear() == Some(ear)
            || client.tracking.as_ref().is_some_and(|tracking| tracking.earlier.contains(&ear))
    }

    /// Whether this connection tells any client of changes.
    pub(crate) fn is_heard(&self, key: UpstreamKey) -> bool {
        self.hearing(key).next().is_some()
    }

    /// One client may have this key, which changed; `by` whom that was told, and when.
    fn key_changed(&mut self, by: Option<(Time, UpstreamId)>, id: ClientId, key: &Name) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let head = client.places.head();
        let Some(tracking) = client.tracking.as_mut() else { return };
        if tracking.broadcast {
            // What it read before it changed to this mode (`trackingInvalidateKey` in Redis' tracking.c).
            return;
        }
        tracking.changed_inside(key);
        match tracking.reading.place_of(key, head) {
            // The reply may be older than the change, or newer: it is told again behind it.
            Some(seq) => {
                tracking.again.insert(seq, key.clone());
                self.account_rest(id);
            }
            None => self.caches.keys.remove_reader(id, key),
        }
        self.tell_in_order(by, id, Changed::Keys([key.clone()].into()));
    }

    /// A client takes this protocol and database. What it read before is still told when it changes, as at a server.
    pub(crate) fn take_way(&mut self, id: ClientId, protocol: Protocol, db: u32) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let before = client.ear();
        (client.protocol, client.db) = (protocol, db);
        let hears_now = before.is_none() && client.ear().is_some();
        // A client in BCAST mode may read before the servers tell of changes.
        if hears_now
            && let Some(tracking) = client.tracking.as_mut()
            && (core::mem::take(&mut tracking.read_unheard) || tracking.broadcast)
        {
            self.caches.were_deaf.insert(id, client.places.next());
        }
        self.take_ear(id, before);
    }

    /// What tells this client of changes may be another one than before.
    fn take_ear(&mut self, id: ClientId, before: Option<Ear>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let after = client.ear();
        let Some(tracking) = client.tracking.as_mut().filter(|_| before != after) else { return };
        self.caches.changed.insert(id);
        if after.is_some_and(|ear| ear.lane == Lane::Broadcast) {
            self.caches.broadcast.insert(id);
        }
        // In BCAST mode until all of the others tell of changes (`leave_earlier`).
        tracking.earlier.extend(before);
    }

    /// A server dropped all keys (`trackingInvalidateKeysOnFlush` in Redis' tracking.c): all clients that hear over this connection drop all keys.
    fn flush_caches(&mut self, from: UpstreamKey) {
        let clients = self.hearing(from).collect();
        self.drop_caches_of(clients);
    }

    /// Invalidations of this connection may be missing: all clients that hear over the connection and may hold a key drop all keys.
    pub(crate) fn drop_caches(&mut self, from: UpstreamKey) {
        let may_hold = |id: &ClientId| {
            let tracking = self.clients.get(*id).and_then(|client| client.tracking.as_ref());
            tracking.is_some_and(|tracking| !tracking.holds_none || tracking.broadcast)
        };
        let clients = self.hearing(from).filter(may_hold).collect();
        self.drop_caches_of(clients);
    }

    /// The clients that hear of changes over this connection.
    fn hearing(&self, from: UpstreamKey) -> impl Iterator<Item = ClientId> {
        self.caches.clients.iter().copied().filter(move |id| self.hears(*id, from))
    }

    fn drop_caches_of(&mut self, clients: Vec<ClientId>) {
        // Keys whose replies may still come to a client stay. A server tells of thousands of changes in a row, and few replies come between two of them.
        let mut on_the_way: BTreeMap<ClientId, BTreeSet<Name>> = BTreeMap::new();
        for id in &clients {
            let Some(client) = self.clients.get_mut(*id) else { continue };
            let head = client.places.head();
            let Some(tracking) = client.tracking.as_mut() else { continue };
            tracking.holds_none = !tracking.reading.is_open(head);
            tracking.inside.values_mut().for_each(State::change);
            if !tracking.reading.settle() {
                continue;
            }
            let again: Vec<(u32, Name)> = tracking.reading.all(head).collect();
            self.grants.fan.pay(again.len() * FAN_KEY_COST, false);
            on_the_way.insert(*id, again.iter().map(|(_, key)| key.clone()).collect());
            tracking.again.extend(again);
            self.account_rest(*id);
        }
        if !on_the_way.is_empty() {
            self.caches.keys.keep(on_the_way);
        }
        for id in clients {
            self.tell_in_order(None, id, Changed::All);
        }
    }

    /// Whether keys are to be removed that clients had dropped.
    pub(crate) fn has_dropped_keys(&self) -> bool {
        self.caches.keys.is_dropping()
    }

    /// Removes some of the keys that clients had dropped.
    pub(crate) fn remove_dropped_keys(&mut self) {
        if self.has_dropped_keys() {
            self.caches.keys.drop_some();
        }
    }

    /// Replies went to a client that caches: what waited for them is told.
    pub(crate) fn track_delivered(&mut self, id: ClientId) {
        if self.clients.get(id).is_none_or(|client| client.tracking.is_none()) {
            return;
        }
        if self.caches.is_telling {
            self.caches.settled.insert(id);
            return;
        }
        self.caches.is_telling = true;
        self.tell_due(id);
        while let Some(next) = self.caches.settled.pop_first() {
            self.tell_due(next);
        }
        self.caches.is_telling = false;
    }

    fn tell_due(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let head = client.places.head();
        let Some(tracking) = client.tracking.as_mut() else { return };
        tracking.exec = tracking.exec.filter(|seq| !is_before(*seq, head));
        // The last one that was answered stays: what it changed is told right behind its reply.
        tracking.reading.end_before(head.wrapping_sub(1));
        self.tell_vast(id);
        self.tell_later(id);
        self.tell_again(id);
        self.account_rest(id);
    }

    fn tell_again(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let head = client.places.head();
        let Some(tracking) = client.tracking.as_mut() else { return };
        let due = tracking.again.take_due(head);
        if !due.is_empty() {
            self.tell_changed(id, &Changed::Keys(due.into_iter().collect()));
        }
    }

    /// What was read with more keys than are tracked is to be dropped: the replies went out.
    fn tell_vast(&mut self, id: ClientId) {
        while let Some(client) = self.clients.get_mut(id)
            && let head = client.places.head()
            && let Some(tracking) = client.tracking.as_mut()
            && let Some(vast) = tracking.vast.pop_front_if(|one| is_before(one.place, head))
        {
            tracking.vast_bytes -= vast.bytes;
            self.tell_changed(id, &Changed::Keys(vast.keys));
        }
    }
}

/// Whether a command reads what it says only itself, its declared keys at the least.
fn runs_script(row: CommandId) -> bool {
    matches!(row, ids::EVAL | ids::EVALSHA | ids::FCALL)
}
