//! One deployment that answers clients' reads: the engine that brings them there, what is under way, and whether it is left out.
//!
//! ```text
//!   send ─▶ [feeder]: a client of the inner engine for each database, protocol, server and connection ─▶ its servers, whatever their topology
//!              └ waiting: whose reply comes next        hear ─▶ answers
//!   fail ─▶ out ─▶ after a while EXISTS of the key that failed ─▶ answered: in again; not answered: a longer while
//! ```
//! A feeder's reads all go to one server of the target, so that a server which hangs holds up nobody who wants another one.
//!
//! Not here: which read goes to which target, and what becomes of one that was not answered (`super`).
//!
//! Invariant: each read that was sent stands in the list of one feeder until its reply is here or the feeder is lost; `open` and `open_bytes` are what
//! these lists hold.

use super::outer::FIRST;
use crate::client::{Client, Sizes};
use crate::engine::{Action, Engine, Notice};
use crate::fleet::Report;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{
    READ_TARGET_FEEDERS_MAX, READ_TARGET_OPEN_MAX, READ_TARGET_PART, READ_TARGET_RETRY_MAX_MS,
    READ_TARGET_RETRY_MIN_MS,
};
use crate::mirror::Numbers;
use crate::report::summed;
use crate::settings::{Pool, ReadTargetSettings, Settings};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::{Protocol, ReplyScanner, Scan, encode};

/// What a target was asked and what came of it, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTargetCounts {
    /// Reads that it answered, and whose clients got that.
    pub answered: u64,
    /// Those that it could not answer: its servers were not there, or not ready.
    pub failed: u64,
    /// Those that it had not answered in time.
    pub late: u64,
    /// Those that it answered with an error that another deployment may not have.
    pub refused: u64,
    /// Those that were not sent, as too much was under way.
    pub full: u64,
    /// Those that it was asked since another deployment took long (`hedge_after_ms`).
    pub hedged: u64,
    /// How often it was left out.
    pub outages: u64,
}

/// A target as a report shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadTargetReport {
    /// Its name.
    pub name: String,
    /// It is left out, as it failed and has not answered since.
    pub is_out: bool,
    /// Reads under way, also those that nobody waits for any more.
    pub open: u64,
    /// Bytes of them.
    pub open_bytes: u64,
    /// What became of the others.
    pub counts: ReadTargetCounts,
}

impl ReadTargetReport {
    /// Adds what another worker says of the same target. It is left out if any worker leaves it out.
    fn add(&mut self, other: &Self) {
        self.is_out |= other.is_out;
        self.open += other.open;
        self.open_bytes += other.open_bytes;
        let (to, from) = (&mut self.counts, &other.counts);
        to.answered += from.answered;
        to.failed += from.failed;
        to.late += from.late;
        to.refused += from.refused;
        to.full += from.full;
        to.hedged += from.hedged;
        to.outages += from.outages;
    }
}

/// The read targets of all workers, each once.
pub fn read_targets_of(reports: &[Report]) -> Vec<ReadTargetReport> {
    let all = reports.iter().flat_map(|report| &report.read_targets);
    summed(all, |one, other| one.name == other.name, ReadTargetReport::add)
}

/// Which feeder takes a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    db: u32,
    is_resp3: bool,
    node: Option<NodeId>,
    conn: u16,
}

/// Whose reply comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Read(u32),
    Probe,
}

/// See the module.
#[derive(Debug)]
struct Feeder {
    client: ClientId,
    /// With the bytes of the request.
    waiting: VecDeque<(Whose, usize)>,
    scanner: ReplyScanner,
    input: Vec<u8>,
    /// Bytes of the reply at its begin that are not kept, as it is too long.
    skipped: usize,
}

impl Feeder {
    /// Bytes of the reply at its begin that are here.
    fn front_bytes(&self) -> usize {
        self.scanner.position() as usize - self.skipped
    }

    /// Drops these bytes. Returns how many they were.
    fn skip_front(&mut self) -> usize {
        let bytes = self.front_bytes();
        self.skipped += bytes;
        self.input.drain(..bytes);
        self.input.shrink_to_fit();
        bytes
    }
}

/// What came of a read.
#[derive(Debug)]
pub(crate) enum Heard {
    Reply(Vec<u8>),
    /// It is longer than what is kept.
    TooLong,
    /// Nobody will answer.
    Lost,
}

/// A read, for the one who sends it.
#[derive(Clone, Copy)]
pub(crate) struct Sending<'a> {
    pub(crate) ticket: u32,
    pub(crate) db: u32,
    pub(crate) protocol: Protocol,
    pub(crate) conn: u16,
    pub(crate) key: &'a [u8],
    pub(crate) frame: &'a [u8],
}

/// Whether it is left out, and when it is asked whether it is back.
#[derive(Debug, Default)]
struct Health {
    is_out: bool,
    failures: u32,
    is_probing: bool,
    probe_at: Time,
    /// What failed last: database, protocol and key.
    probe: (u32, bool, Vec<u8>),
}

/// What the outer engine has to do.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) actions: Vec<Action>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) dirty: Vec<UpstreamId>,
    pub(crate) answers: Vec<(u32, Heard)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Target {
    name: String,
    pub(crate) numbers: Numbers,
    outer_db: u32,
    has_dbs: bool,
    pub(crate) engine: Box<Engine>,
    pub(crate) counts: ReadTargetCounts,
    feeders: BTreeMap<Lane, Feeder>,
    lanes: BTreeMap<ClientId, Lane>,
    open: usize,
    open_bytes: usize,
    open_bytes_max: usize,
    reply_bytes_max: usize,
    /// Bytes of replies that are not whole yet, and how many these may be.
    input_bytes: usize,
    input_bytes_max: usize,
    health: Health,
    wishes: Wishes,
    /// Something happened, and it was not run since.
    pub(crate) is_touched: bool,
    /// When its deadline stands in the outer engine's list.
    pub(crate) listed_at: Option<Time>,
}

impl Target {
    pub(crate) fn new(
        outer: &Settings,
        settings: &ReadTargetSettings,
        numbers: Numbers,
        seed: u64,
        now: Time,
    ) -> Self {
        let mut engine = Engine::new(inner_settings(outer, settings), seed, now);
        engine.warm_up(now);
        Self {
            name: settings.name.clone(),
            numbers,
            outer_db: settings.outer_db,
            has_dbs: !matches!(settings.pool, Pool::Cluster { .. }),
            engine: Box::new(engine),
            counts: ReadTargetCounts::default(),
            feeders: BTreeMap::new(),
            lanes: BTreeMap::new(),
            open: 0,
            open_bytes: 0,
            open_bytes_max: outer.elsewhere.inflight_max_bytes,
            reply_bytes_max: outer.limits.client_out_max_bytes,
            input_bytes: 0,
            input_bytes_max: replies_bytes_max(outer),
            health: Health::default(),
            wishes: Wishes::default(),
            is_touched: true,
            listed_at: None,
        }
    }

    /// Bytes of replies that come, and of what its engine holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let inner = self.engine.holdings();
        self.input_bytes + inner.own + inner.common
    }

    /// Whether it is the one that these settings name, if it has the same servers.
    pub(super) fn is(&self, settings: &ReadTargetSettings) -> bool {
        (&self.name, self.outer_db) == (&settings.name, settings.outer_db)
    }

    /// It among several.
    pub(super) fn bit(&self) -> u32 {
        1 << (self.numbers.number - FIRST)
    }

    /// Other settings of the same servers.
    pub(super) fn change(&mut self, outer: &Settings, settings: &ReadTargetSettings, now: Time) {
        self.open_bytes_max = outer.elsewhere.inflight_max_bytes;
        self.reply_bytes_max = outer.limits.client_out_max_bytes;
        self.input_bytes_max = replies_bytes_max(outer);
        self.is_touched = true;
        let users = self.engine.settings().users.clone();
        let inner = Settings { users, ..inner_settings(outer, settings) };
        core::hint::black_box(Engine::reconfigure)(&mut self.engine, now, inner);
    }

    pub(crate) fn is_out(&self) -> bool {
        self.health.is_out
    }

    /// The database there for what clients do in this one; `None`: there is none.
    fn db_for(&self, db: u32) -> Option<u32> {
        if db == self.outer_db {
            return Some(self.engine.settings().node.db);
        }
        self.has_dbs.then_some(db)
    }

    /// Whether it can be asked this now.
    pub(crate) fn can_take(&mut self, db: u32, args: &[&[u8]], len: usize) -> bool {
        if self.health.is_out || self.db_for(db).is_none() {
            return false;
        }
        if self.open >= READ_TARGET_OPEN_MAX || self.open_bytes + len > self.open_bytes_max {
            self.counts.full += 1;
            return false;
        }
        // Parts of a reply would wait for each other.
        self.engine.lie_together(&[args.to_vec()])
    }

    /// Asks it; whether that could be said.
    pub(crate) fn send(&mut self, now: Time, read: &Sending<'_>) -> bool {
        let whose = Whose::Read(read.ticket);
        let is_resp3 = read.protocol == Protocol::Resp3;
        let Some(lane) = self.lane(read.db, is_resp3, read.conn, read.key) else { return false };
        self.say(now, lane, whose, read.frame)
    }

    fn lane(&self, db: u32, is_resp3: bool, conn: u16, key: &[u8]) -> Option<Lane> {
        let node = self.engine.node_of_key(key);
        Some(Lane { db: self.db_for(db)?, is_resp3, node, conn })
    }

    fn say(&mut self, now: Time, lane: Lane, whose: Whose, frame: &[u8]) -> bool {
        self.is_touched = true;
        if !self.feeders.contains_key(&lane) && !self.open_feeder(now, lane) {
            return false;
        }
        let Some(feeder) = self.feeders.get_mut(&lane) else { return false };
        feeder.waiting.push_back((whose, frame.len()));
        self.open += 1;
        self.open_bytes += frame.len();
        // By a pointer, see `Engine::mirror_event`.
        core::hint::black_box(Engine::handle_client_bytes)(
            &mut self.engine,
            now,
            feeder.client,
            frame,
        );
        true
    }

    fn open_feeder(&mut self, now: Time, lane: Lane) -> bool {
        if self.feeders.len() >= READ_TARGET_FEEDERS_MAX {
            let idle: Vec<Lane> = self
                .feeders
                .iter()
                .filter(|(_, feeder)| feeder.waiting.is_empty())
                .map(|(lane, _)| *lane)
                .collect();
            for lane in idle {
                if let Some(feeder) = self.feeders.remove(&lane) {
                    self.input_bytes -= feeder.input.len();
                    self.lanes.remove(&feeder.client);
                    self.engine.handle_client_closed(now, feeder.client);
                }
            }
        }
        let addr = alloc::format!("reads:{}", self.name);
        let Some(client) = self.engine.open_hidden(now, addr, lane.db, lane.is_resp3, lane.conn)
        else {
            return false;
        };
        self.lanes.insert(client, lane);
        let feeder = Feeder {
            client,
            waiting: VecDeque::new(),
            scanner: ReplyScanner::default(),
            input: Vec::new(),
            skipped: 0,
        };
        self.feeders.insert(lane, feeder);
        true
    }

    /// It did not answer this: it is left out until it answers a question of the same key.
    pub(crate) fn fail(
        &mut self,
        now: Time,
        (db, protocol): (u32, Protocol),
        key: &[u8],
        cause: &str,
    ) {
        if self.health.is_out {
            return;
        }
        self.health.is_out = true;
        self.health.failures = 0;
        self.health.probe = (db, protocol == Protocol::Resp3, key.to_vec());
        self.counts.outages += 1;
        self.is_touched = true;
        self.probe_later(now);
        self.wishes.notices.push(Notice::ReadTarget {
            name: self.name.clone(),
            out: true,
            cause: cause.to_string(),
        });
    }

    fn probe_later(&mut self, now: Time) {
        let wait_ms = READ_TARGET_RETRY_MIN_MS << self.health.failures.min(8);
        self.health.probe_at = now.plus_ms(wait_ms.min(READ_TARGET_RETRY_MAX_MS));
        self.health.failures = self.health.failures.saturating_add(1);
        self.health.is_probing = false;
    }

    /// When it is to be looked at again if nothing happens before.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let probes = self.health.is_out && !self.health.is_probing;
        let probe = probes.then_some(self.health.probe_at);
        self.engine.poll_timeout(now).into_iter().chain(probe).min()
    }

    /// Goes on with what can be done: to be called after everything that happens to its engine.
    pub(crate) fn run(&mut self, now: Time) -> Wishes {
        self.is_touched = false;
        if self.health.is_out && !self.health.is_probing && self.health.probe_at <= now {
            self.probe(now);
        }
        self.hear(now);
        self.collect(now);
        core::mem::take(&mut self.wishes)
    }

    fn probe(&mut self, now: Time) {
        let (db, is_resp3, key) = self.health.probe.clone();
        let mut frame = Vec::new();
        encode::request(&mut frame, &[b"EXISTS", &key]);
        self.health.is_probing = true;
        let lane = self.lane(db, is_resp3, 0, &key);
        if !lane.is_some_and(|lane| self.say(now, lane, Whose::Probe, &frame)) {
            self.probe_later(now);
        }
        self.is_touched = false;
    }

    /// Takes replies in.
    fn hear(&mut self, now: Time) {
        while let Some(id) = self.engine.poll_dirty_client() {
            let lane = self.lanes.get(&id).copied();
            while let Some(buf) = self.engine.begin_client_send(id) {
                if let Some(feeder) = lane.and_then(|lane| self.feeders.get_mut(&lane)) {
                    feeder.input.extend_from_slice(&buf);
                    self.input_bytes += buf.len();
                }
                self.engine.handle_client_sent(now, id, buf);
            }
            if let Some(lane) = lane {
                self.hear_feeder(now, lane);
            }
        }
        self.bound_input();
    }

    /// When replies that are not whole are too many bytes, the longest ones are dropped: they count as too long.
    fn bound_input(&mut self) {
        while self.input_bytes > self.input_bytes_max
            && let Some(feeder) = self.feeders.values_mut().max_by_key(|one| one.front_bytes())
            && feeder.front_bytes() > 0
        {
            self.input_bytes -= feeder.skip_front();
        }
    }

    fn hear_feeder(&mut self, now: Time, lane: Lane) {
        let bound = self.reply_bytes_max;
        let Some(feeder) = self.feeders.get_mut(&lane) else { return };
        let mut heard = Vec::new();
        let mut pos = 0;
        loop {
            let scanned = feeder.scanner.position() as usize - feeder.skipped;
            let Some(rest) = feeder.input.get(pos + scanned..).filter(|rest| !rest.is_empty())
            else {
                break;
            };
            let Ok(Scan::Complete { consumed, .. }) = feeder.scanner.scan(rest) else { break };
            let end = pos + scanned + consumed;
            let is_whole = core::mem::take(&mut feeder.skipped) == 0;
            let reply = match is_whole {
                true => Heard::Reply(feeder.input[pos..end].to_vec()),
                false => Heard::TooLong,
            };
            pos = end;
            let Some((whose, bytes)) = feeder.waiting.pop_front() else {
                debug_assert!(false, "a target answers what nobody asked");
                break;
            };
            self.open -= 1;
            self.open_bytes -= bytes;
            heard.push((whose, reply));
        }
        feeder.input.drain(..pos);
        self.input_bytes -= pos;
        if feeder.front_bytes() > bound {
            self.input_bytes -= feeder.skip_front();
        }
        for (whose, reply) in heard {
            self.take_reply(now, whose, reply);
        }
    }

    fn take_reply(&mut self, now: Time, whose: Whose, reply: Heard) {
        match whose {
            Whose::Read(ticket) => self.wishes.answers.push((ticket, reply)),
            Whose::Probe => match reply {
                Heard::Reply(reply) if verdict(&reply) == Verdict::Away => self.probe_later(now),
                Heard::Lost => self.probe_later(now),
                Heard::Reply(_) | Heard::TooLong => self.come_back(),
            },
        }
    }

    fn come_back(&mut self) {
        self.health = Health::default();
        self.wishes.notices.push(Notice::ReadTarget {
            name: self.name.clone(),
            out: false,
            cause: String::new(),
        });
    }

    /// Of its engine's wishes those that are the caller's to do.
    fn collect(&mut self, now: Time) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Connect(_) | Action::CloseUpstream(_) | Action::ReadUpstream(..) => {
                    self.wishes.actions.push(action);
                }
                Action::CloseClient(id) | Action::ResetClient(id) => self.lose_feeder(now, id),
                // What is under way has a bound; its engine has no clients that ask, and no workers beside it.
                Action::ReadClient(..)
                | Action::Ask(..)
                | Action::Answer(..)
                | Action::Tell(..)
                | Action::Move(..)
                | Action::LogIn(..) => {}
            }
        }
        while let Some(id) = self.engine.poll_dirty_upstream() {
            self.wishes.dirty.push(id);
        }
        while let Some(notice) = self.engine.poll_notice() {
            self.wishes.notices.extend(named(notice, &self.name));
        }
    }

    /// The inner engine closed a client of ours: nobody will answer what it asked.
    fn lose_feeder(&mut self, now: Time, id: ClientId) {
        let Some(feeder) = self.lanes.remove(&id).and_then(|lane| self.feeders.remove(&lane))
        else {
            return;
        };
        self.input_bytes -= feeder.input.len();
        for (whose, bytes) in feeder.waiting {
            self.open -= 1;
            self.open_bytes -= bytes;
            self.take_reply(now, whose, Heard::Lost);
        }
    }

    /// As a report shows it.
    pub(crate) fn report(&self) -> ReadTargetReport {
        ReadTargetReport {
            name: self.name.clone(),
            is_out: self.health.is_out,
            open: self.open as u64,
            open_bytes: self.open_bytes as u64,
            counts: self.counts,
        }
    }

    /// See the module.
    pub(crate) fn check(&self) {
        let all = || self.feeders.values().flat_map(|feeder| &feeder.waiting);
        assert_eq!(all().count(), self.open, "reads under way to a target");
        assert_eq!(all().map(|(_, bytes)| bytes).sum::<usize>(), self.open_bytes);
        assert_eq!(self.feeders.len(), self.lanes.len(), "feeders of a target");
        let input: usize = self.feeders.values().map(|feeder| feeder.input.len()).sum();
        assert_eq!(input, self.input_bytes, "replies of a target that are not whole");
        assert!(!self.is_touched, "a target that was not run");
        self.engine.check_invariants();
    }
}

/// What a reply to a read says of the deployment that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is what the client asked for.
    Answer,
    /// An error that another deployment may not have.
    Refused,
    /// Its servers are not there, or not ready.
    Away,
}

/// Judges a reply.
pub(crate) fn verdict(reply: &[u8]) -> Verdict {
    const AWAY: [&[u8]; 11] = [
        b"-ERR respool: upstream ",
        b"-ERR respool: the primary is not known",
        b"-ERR respool: given up after",
        b"-ERR respool: no connection of its own",
        b"-ERR max number of clients",
        b"-CLUSTERDOWN ",
        b"-LOADING ",
        b"-MASTERDOWN ",
        b"-BUSY ",
        b"-NOAUTH ",
        b"-WRONGPASS ",
    ];
    match reply.first() {
        Some(b'-') if AWAY.iter().any(|word| reply.starts_with(word)) => Verdict::Away,
        Some(b'-') if reply.starts_with(b"-WRONGTYPE ") => Verdict::Answer,
        Some(b'-' | b'!') | None => Verdict::Refused,
        Some(_) => Verdict::Answer,
    }
}

/// The begin of an error, for the log.
pub(crate) fn words_of(error: &[u8]) -> String {
    let text = error.strip_prefix(b"-").unwrap_or(error);
    let text = text.strip_suffix(b"\r\n").unwrap_or(text);
    crate::reject::quoted(text)
}

impl Engine {
    /// A client that no network has, in this database, over this one of the shared connections.
    fn open_hidden(
        &mut self,
        now: Time,
        addr: String,
        db: u32,
        is_resp3: bool,
        conn: u16,
    ) -> Option<ClientId> {
        let id = self.handle_client_open(now, addr, String::new())?;
        let Self { clients, conn_clients, .. } = self;
        let client: &mut Client = clients.get_mut(id)?;
        client.db = db;
        client.sizes = Sizes::Known;
        client.protocol = if is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let (from, to) = (usize::from(client.conn), usize::from(conn) % conn_clients.len().max(1));
        if let Some(clients) = conn_clients.get_mut(from) {
            *clients -= 1;
        }
        if let Some(clients) = conn_clients.get_mut(to) {
            *clients += 1;
            client.conn = to as u16;
        }
        Some(id)
    }

    /// The server that has this key; `None`: nobody, just now.
    fn node_of_key(&self, key: &[u8]) -> Option<NodeId> {
        match self.is_one() {
            true => Some(self.first_node),
            false => self.router.node(self.router.place(key)),
        }
    }
}

/// Bytes of replies that a target, and its engine, hold at most.
fn replies_bytes_max(outer: &Settings) -> usize {
    outer.limits.memory_max_bytes / READ_TARGET_PART / outer.elsewhere.targets.len().max(1)
}

/// What a target's engine is told: its servers, and our times and bounds.
pub(super) fn inner_settings(outer: &Settings, target: &ReadTargetSettings) -> Settings {
    let mut limits = outer.limits.clone();
    limits.clients_max = READ_TARGET_FEEDERS_MAX;
    limits.leases_min = 0;
    limits.memory_max_bytes = replies_bytes_max(outer);
    limits.client_inflight_max = u32::MAX;
    let mut timeouts = outer.timeouts.clone();
    timeouts.client_idle_ms = 0;
    // Another deployment can answer meanwhile.
    timeouts.failover_hold_ms = 0;
    Settings {
        node: target.node.clone(),
        pool: target.pool.clone(),
        address_map: outer.address_map.clone(),
        limits,
        timeouts,
        unix_ahead_us: outer.unix_ahead_us,
        ..Settings::default()
    }
}

/// What is told of the inner engine, so that it is seen which it is.
fn named(notice: Notice, name: &str) -> Option<Notice> {
    let of = |node: String| alloc::format!("read target {name}: {node}");
    match notice {
        Notice::NodeReady { node, key, server, main } => {
            Some(Notice::NodeReady { node: of(node), key, server, main })
        }
        Notice::NodeDown { node, key, cause } => {
            Some(Notice::NodeDown { node: of(node), key, cause })
        }
        Notice::UpstreamLost { node, cause, requests } => {
            Some(Notice::UpstreamLost { node: of(node), cause, requests })
        }
        Notice::FrameRefused { node, shape } => {
            Some(Notice::FrameRefused { node: of(node), shape })
        }
        Notice::TopologyTold { node, state, changed } => {
            Some(Notice::TopologyTold { node: of(node), state, changed })
        }
        Notice::TopologyFailed { cause } => Some(Notice::TopologyFailed { cause: of(cause) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeders_have_a_bound_and_idle_ones_make_room() {
        let outer = Settings::default();
        let settings = ReadTargetSettings {
            name: "b".to_string(),
            node: outer.node.clone(),
            pool: Pool::Standalone,
            outer_db: 0,
        };
        let mut target = Target::new(&outer, &settings, Numbers::first(FIRST), 7, Time(0));
        let lane = |db| Lane { db, is_resp3: false, node: None, conn: 0 };
        let most = READ_TARGET_FEEDERS_MAX as u32;
        for db in 0..most + 5 {
            assert!(target.open_feeder(Time(0), lane(db)));
        }
        // When there was no room, those went by which nothing was asked.
        assert_eq!(target.feeders.len(), 5);
        for db in most + 5..2 * most {
            assert!(target.open_feeder(Time(0), lane(db)));
        }
        for feeder in target.feeders.values_mut() {
            feeder.waiting.push_back((Whose::Read(1), 0));
        }
        assert!(!target.open_feeder(Time(0), lane(5 * most)));
        assert_eq!(target.engine.client_count(), READ_TARGET_FEEDERS_MAX);
    }

    #[test]
    fn errors_of_the_server_are_told_from_those_of_the_data() {
        for away in ["-LOADING Redis is loading\r\n", "-CLUSTERDOWN x\r\n", "-BUSY x\r\n"] {
            assert_eq!(verdict(away.as_bytes()), Verdict::Away, "{away}");
        }
        for other in ["-ERR unknown command\r\n", "-NOPERM x\r\n", "!3\r\nERR\r\n"] {
            assert_eq!(verdict(other.as_bytes()), Verdict::Refused, "{other}");
        }
        for answer in ["-WRONGTYPE x\r\n", "$-1\r\n", "_\r\n", "*0\r\n", ":1\r\n"] {
            assert_eq!(verdict(answer.as_bytes()), Verdict::Answer, "{answer}");
        }
    }
}
