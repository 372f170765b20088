//! Double writes: what clients write is written to other deployments as well, when the primary has done it.
//!
//! ```text
//!   client ─▶ dispatch ─▶ gate ─▶ scatter: a merge ─▶ primary ─▶ reply ─▶ part_replies ─┬─▶ the client (`all`: when mirrors have answered, too)
//!                          ▲ keys of what is under way                   `reply_came` │
//!                          └──────────────────────────────────────────── free ◀───────┤
//!                                                                         `rewrite`   ▼
//!                                              another engine, with servers of its own ◀─ queue of each mirror (`target`)
//! ```
//! While there are mirrors every client is looked at as one with a restricted user is ([`Access::Confined`](crate::client::Access)): reads go the short
//! way, writes come here. A write is a merge, of one part if it is not split; a transaction is kept beside its lease and told when EXEC was done; what a
//! blocking command took is told when it is served. Without mirrors nothing of this is on the way of a request.
//!
//! Each mirror is an [`Engine`] of its own inside this one. Its connections have ids beyond `FIRST_INDEX`, so the caller sees one engine with some more
//! connections (`outer`).
//!
//! Not here: the configuration (`settings`), what is kept of a transaction (`inside`).
//!
//! Invariant: a pending write has its part open, or its client's connection is gone with it; its gates are entered until then.

mod answers;
mod change;
pub(crate) mod cost;
mod gate;
mod large;
mod leased;
mod outer;
mod report;
pub(crate) mod rewrite;
pub(crate) mod shadow;
mod share;
mod successor;
pub(crate) mod target;
mod told;
mod waits;

pub(crate) use outer::{Numbers, is_mirrors, marker};
pub use report::{MirrorCounts, MirrorReport, mirrors_of};
pub use shadow::{
    ShadowCounts, ShadowReport, ShadowRow, ShadowSample, compared_commands, shadows_of,
};
pub(crate) use waits::Kept;

use crate::client::Hold;
use crate::command::word;
use crate::command::{CommandId, Flags, ids};
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, MergeId, NodeId, UpstreamId};
use crate::limits::{CONN_INDEX_BITS, MIRROR_PART};
use crate::node::Address;
use crate::request::Step;
use crate::route::Known;
use crate::scatter::{Wish, keys_of, row_of};
use crate::settings::{MirrorSettings, Settings};
use crate::time::Time;
use crate::upstream::Lane;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use gate::{Gates, KeyHash};
use resp::{Args, ReplyScanner, Scan, encode};
use rewrite::Words;
use shadow::Shadow;
use share::{APART, Share, share_of};
use target::{Entry, Target};
use told::{Told, told_of, vec_of};
use waits::{Reply, Waits};

/// Connections with this index and above are a mirror's. Whoever holds several engines has the bits above the next one.
pub(crate) const FIRST_INDEX: u32 = 1 << (CONN_INDEX_BITS - 1);

/// What clients wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The primary alone.
    #[default]
    First,
    /// Until the mirror has answered, whatever it said; the reply is the primary's.
    All,
    /// The same, and an error of the mirror is the reply.
    AllChecked,
}

impl Mode {
    /// All, in the order of [`Mode::NAMES`].
    pub const ALL: [Self; 3] = [Self::First, Self::All, Self::AllChecked];
    /// Their names in the configuration.
    pub const NAMES: [&'static str; 3] = ["first", "all", "all-checked"];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The request that waits for mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ticket {
    Merge(MergeId),
    /// With the place of EXEC.
    Exec(ClientId, u32),
}

/// A write that the primary was sent.
#[derive(Debug)]
struct Pending {
    /// The request; `None`: there was no room to keep it.
    frame: Option<Vec<u8>>,
    /// None without the request: nobody is told of it, so nothing has to be in order with it.
    keys: Vec<KeyHash>,
    /// Bytes that it holds.
    bytes: usize,
    db: u32,
    /// It stands at the gates of its keys.
    is_gated: bool,
}

/// A write that is about to be sent, by part.
#[derive(Debug)]
struct Draft {
    part: u32,
    pending: Pending,
}

/// What a blocking command took while something of its keys was under way.
#[derive(Debug)]
struct Late {
    pending: Pending,
    words: Vec<Words>,
    bytes: usize,
}

/// Commands of a transaction that are told to mirrors when EXEC was done.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    /// Each with its index among those that were queued.
    commands: Vec<(usize, Vec<u8>)>,
    /// Bytes of them, and of their keys.
    bytes: usize,
    keys: Vec<KeyHash>,
    /// Why it cannot be told.
    unsaid: Option<&'static str>,
    /// EXEC was sent: it stands at its gates.
    is_gated: bool,
    /// The latest of the mirrors that were there when it began: those that came later are not told of it.
    epoch: u64,
}

impl Queued {
    /// Bytes of the hashes of its keys. Those of its commands the mirrors have among what is pending.
    pub(crate) fn held_bytes(&self) -> usize {
        self.keys.len() * size_of::<KeyHash>()
    }

    /// Whether there is anything to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.unsaid.is_none()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Mirrors {
    targets: Vec<Target>,
    /// Servers of mirrors of leaving tenants.
    leavers: Vec<Address>,
    pending: BTreeMap<(MergeId, u32), Pending>,
    /// Bytes of them and of what transactions queue, and the most that there may be.
    pending_bytes: usize,
    pending_bytes_max: usize,
    gates: Gates,
    late: VecDeque<Late>,
    /// Bytes of them, at most `pending_bytes_max`.
    late_bytes: usize,
    drafts: Vec<Draft>,
    /// Grows with each mirror that comes.
    epoch: u64,
    /// What was under way when one came.
    before: Option<change::Before>,
    /// What the request that is looked at just now is to mirrors.
    current: Current,
    waits: Waits,
    flushes: bool,
    /// When something last happened here.
    now: Time,
    /// Some want reads as well.
    shadow: Option<Shadow>,
}

/// What the request that is looked at just now is to mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    No,
    /// It is told to them when it was done.
    Write,
    /// They are asked the same.
    Read,
}

impl Mirrors {
    /// `None`: there are none.
    pub(crate) fn new(settings: &Settings, seed: u64, now: Time) -> Option<Box<Self>> {
        if settings.mirrors.is_empty() {
            return None;
        }
        let mut mirrors = Self::without_targets(now);
        for (number, mirror) in settings.mirrors.iter().enumerate() {
            let numbers = Numbers::first(number);
            mirrors.targets.push(target_of(settings, mirror, numbers, seed, now));
        }
        mirrors.take_options(settings);
        mirrors.shadow = Shadow::new(settings, now);
        Some(Box::new(mirrors))
    }

    /// Bytes of writes on their way, of replies that wait for mirrors, and of what those hold.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pending_bytes
            + self.late_bytes
            + self.waits.held_bytes()
            + self.targets.iter().map(Target::held_bytes).sum::<usize>()
    }

    fn without_targets(now: Time) -> Self {
        Self {
            targets: Vec::new(),
            leavers: Vec::new(),
            pending: BTreeMap::new(),
            pending_bytes: 0,
            pending_bytes_max: 0,
            gates: Gates::default(),
            late: VecDeque::new(),
            late_bytes: 0,
            drafts: Vec::new(),
            epoch: 0,
            before: None,
            current: Current::No,
            shadow: None,
            waits: Waits::default(),
            flushes: false,
            now,
        }
    }

    /// What follows from the settings of all of them.
    fn take_options(&mut self, settings: &Settings) {
        let bytes = settings.mirrors.iter().map(|mirror| mirror.queue_max_bytes);
        self.pending_bytes_max = bytes.max().unwrap_or(0);
        self.flushes = settings.mirrors.iter().any(|mirror| mirror.flush);
    }

    fn wants_any(&self, keys: &[&[u8]]) -> bool {
        self.targets.iter().any(|target| target.wants_any(keys))
    }

    /// What a blocking command took waits until nothing of its keys is under way, if there is room.
    fn keep_late(&mut self, mut pending: Pending, words: Vec<Words>) {
        let bytes = cost::late_bytes(&pending, &words);
        if self.late_bytes + bytes > self.pending_bytes_max {
            self.drop_one(pending.frame.as_deref(), "there was no room to keep it", None);
            return self.end_write(&pending.keys);
        }
        self.gates.close(&pending.keys);
        self.late_bytes += bytes;
        // Its words say it all.
        pending.frame = None;
        self.late.push_back(Late { pending, words, bytes });
    }

    /// What came late is told where nothing of its keys is under way any more.
    fn tell_late(&mut self, now: Time) {
        for _ in 0..self.late.len() {
            let Some(late) = self.late.pop_front() else { break };
            if !self.gates.is_free(&late.pending.keys) {
                self.late.push_back(late);
                continue;
            }
            self.late_bytes -= late.bytes;
            self.enqueue(now, late.pending.db, &late.words, None);
            self.end_write(&late.pending.keys);
        }
    }

    /// Keeps a copy of a request that is sent, if there is room.
    fn pending(&mut self, frame: &[u8], keys: &[&[u8]], db: u32, is_gated: bool) -> Pending {
        let bytes = Pending::cost(frame.len(), keys.len());
        let has_room = self.pending_bytes + bytes <= self.pending_bytes_max;
        let (frame, keys, bytes) = match has_room {
            true => (Some(frame.to_vec()), hashes(db, keys), bytes),
            false => (None, Vec::new(), Pending::cost(0, 0)),
        };
        self.pending_bytes += bytes;
        Pending { frame, keys, bytes, db, is_gated }
    }

    /// One that was kept is done with.
    fn forget(&mut self, pending: &Pending) {
        self.pending_bytes -= pending.bytes;
    }

    /// A write that those mirrors do not get that would have got it.
    fn drop_one(&mut self, frame: Option<&[u8]>, why: &str, ticket: Option<Ticket>) {
        self.drop_from(frame, why, (ticket, self.epoch));
    }

    /// The same of what those do not get that came later than `epoch`.
    fn drop_from(
        &mut self,
        frame: Option<&[u8]>,
        why: &str,
        (ticket, epoch): (Option<Ticket>, u64),
    ) {
        for index in self.concerned(frame, epoch) {
            self.enter_wait(index, ticket);
            self.targets[index].drop_one(why, ticket);
        }
    }

    fn count_unsure(&mut self, frame: Option<&[u8]>) {
        for index in self.concerned(frame, self.epoch) {
            self.targets[index].count_unsure();
        }
    }

    /// The mirrors that get this request; all, if nobody knows it. None that came after `epoch`.
    fn concerned(&self, frame: Option<&[u8]>, epoch: u64) -> Vec<usize> {
        let args: Vec<&[u8]> = frame.map(|frame| Args::new(frame).collect()).unwrap_or_default();
        let keys: Vec<&[u8]> = keys_of(&args, None).into_iter().map(|(_, key)| key).collect();
        let gets = |target: &Target| {
            target.takes_from(epoch)
                && (frame.is_none() || keys.is_empty() || target.wants_any(&keys))
        };
        let all = self.targets.iter().enumerate();
        all.filter(|(_, target)| gets(target)).map(|(index, _)| index).collect()
    }

    /// A client waits for this mirror, if that is its mode.
    fn enter_wait(&mut self, index: usize, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket
            && self.targets[index].settings.mode != Mode::First
        {
            self.waits.enter(ticket);
        }
    }

    /// Gives commands to all mirrors that want them; several are one transaction.
    fn enqueue(&mut self, now: Time, db: u32, commands: &[Words], ticket: Option<Ticket>) {
        self.enqueue_from(now, db, commands, (ticket, self.epoch));
    }

    /// The same, but to those that came later than `epoch`.
    fn enqueue_from(
        &mut self,
        now: Time,
        db: u32,
        commands: &[Words],
        (ticket, epoch): (Option<Ticket>, u64),
    ) {
        for index in 0..self.targets.len() {
            let target = &self.targets[index];
            if !target.takes_from(epoch) {
                continue;
            }
            let mut words: Vec<Words> = Vec::with_capacity(commands.len());
            let mut is_whole = true;
            for command in commands {
                match share_of(target, command) {
                    Share::Nothing => {}
                    Share::Words(share) => words.push(share),
                    Share::Apart => is_whole = false,
                }
            }
            if !is_whole {
                self.enter_wait(index, ticket);
                self.targets[index].drop_one(APART, ticket);
            }
            if words.is_empty() {
                continue;
            }
            let target = &self.targets[index];
            let entry = entry_of(now, target, db, &words, ticket);
            self.enter_wait(index, ticket);
            self.targets[index].enqueue(entry);
        }
    }
}

/// A mirror, with an engine that begins to connect to it.
fn target_of(
    outer: &Settings,
    mirror: &MirrorSettings,
    numbers: Numbers,
    seed: u64,
    now: Time,
) -> Target {
    let mut engine = Engine::new(inner_settings(outer, mirror), seed, now);
    engine.warm_up(now);
    Target::new(mirror.clone(), engine, numbers)
}

/// What is sent to this mirror of one command, or of a transaction.
fn entry_of(now: Time, target: &Target, db: u32, words: &[Words], ticket: Option<Ticket>) -> Entry {
    let db = target.db_for(db);
    let mut entry = Entry {
        bytes: Vec::new(),
        replies: words.len() as u32,
        db,
        keys: Vec::new(),
        probe: None,
        repeats: true,
        at: now,
        ticket,
        read: None,
    };
    let args: Vec<Vec<&[u8]>> =
        words.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
    for args in &args {
        let keys: Vec<&[u8]> = keys_of(args, None).into_iter().map(|(_, key)| key).collect();
        entry.repeats &= !keys.is_empty() && rewrite::repeats(args[0]);
        entry.probe = entry.probe.or_else(|| keys.first().map(|key| key.to_vec()));
        entry.keys.extend(hashes(db, &keys));
    }
    // Where the keys of a transaction lie on several servers it is not one any more.
    let is_whole = words.len() > 1 && target.engine.lie_together(&args);
    if is_whole {
        entry.replies += 2;
        encode::request(&mut entry.bytes, &[b"MULTI"]);
    }
    args.iter().for_each(|args| encode::request(&mut entry.bytes, args));
    if is_whole {
        encode::request(&mut entry.bytes, &[b"EXEC"]);
    }
    entry
}

fn hashes(db: u32, keys: &[&[u8]]) -> Vec<KeyHash> {
    let spread = u64::from(db).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    keys.iter().map(|key| rapidhash::v3::rapidhash_v3(key) ^ spread).collect()
}

/// What a mirror's engine is told: its servers, and our times and bounds.
fn inner_settings(outer: &Settings, mirror: &MirrorSettings) -> Settings {
    let mut limits = outer.limits.clone();
    limits.clients_max = 2;
    limits.shared_conns = 1;
    limits.leases_min = 0;
    // Its engine has one write more than the window allows, and replies that wait for those of slower servers.
    let replies_bytes = outer.limits.memory_max_bytes / MIRROR_PART / outer.mirrors.len().max(1);
    limits.memory_max_bytes = mirror.queue_max_bytes.saturating_add(replies_bytes);
    limits.client_inflight_max = u32::MAX;
    let mut timeouts = outer.timeouts.clone();
    timeouts.client_idle_ms = 0;
    Settings {
        node: mirror.node.clone(),
        pool: mirror.pool.clone(),
        address_map: outer.address_map.clone(),
        limits,
        timeouts,
        unix_ahead_us: outer.unix_ahead_us,
        ..Settings::default()
    }
}

/// Whether a command of this row is told to mirrors.
fn is_told(row: CommandId, flushes: bool) -> bool {
    let flags = row.row().flags;
    match row {
        ids::FLUSHALL | ids::FLUSHDB => flushes,
        ids::SCRIPT_LOAD | ids::SCRIPT_FLUSH | ids::PUBLISH | ids::SPUBLISH => true,
        _ if flags.has(Flags::ADMIN) => false,
        _ => flags.has(Flags::WRITE) || (row.row().is_script() && !row.row().reads()),
    }
}

/// A message, which has no key and goes to all.
fn publishes(row: CommandId) -> bool {
    matches!(row, ids::PUBLISH | ids::SPUBLISH)
}

impl Engine {
    /// Whether there are mirrors.
    #[inline]
    pub(crate) fn has_mirrors(&self) -> bool {
        self.mirrors.is_some()
    }

    /// Whether this request is told to mirrors when it was done.
    pub(crate) fn is_mirrored(&self, row: Option<CommandId>, args: &[&[u8]]) -> bool {
        let Some(mirrors) = &self.mirrors else { return false };
        let writes = match row.map(|row| row_of(row, args)) {
            Some(row) => is_told(row, mirrors.flushes) && self.writes_or_publishes(row, args),
            None => {
                let learned = self.learned.as_ref().and_then(|all| all.lookup(args[0]));
                learned.is_some_and(|command| command.flags.has(Flags::WRITE))
            }
        };
        if !writes {
            return false;
        }
        if row.is_some_and(publishes) {
            return mirrors.targets.iter().any(Target::is_live);
        }
        let keys: Vec<&[u8]> =
            keys_of(args, self.learned.as_ref()).into_iter().map(|(_, key)| key).collect();
        match keys.is_empty() {
            true => mirrors.targets.iter().any(Target::is_live),
            false => mirrors.wants_any(&keys),
        }
    }

    fn writes_or_publishes(&self, row: CommandId, args: &[&[u8]]) -> bool {
        !row.row().is_script() || self.writes(Some(row), args)
    }

    /// Gives a request on that is told to mirrors.
    pub(crate) fn forward_mirrored(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
        (known, silent): (&Known, bool),
    ) -> Step {
        let row = known.id.map(|row| row_of(row, args));
        let publishes = row.is_some_and(publishes);
        self.set_current(if publishes { Current::No } else { Current::Write });
        let wish = Wish { id, frame, args, row, silent };
        let step = match (self.is_one(), publishes) {
            (true, true) => self.count_listeners_of_one(now, &wish),
            (true, false) => self.forward_in_order(now, &wish),
            (false, _) => self.scatter(now, id, frame, args, known, silent),
        };
        self.set_current(Current::No);
        if publishes && step == Step::Done {
            // Who listens there hears it; that it was heard here is nothing that has to be awaited.
            let words: Words = args.iter().map(|word| word.to_vec()).collect();
            let db = self.clients.get(id).map_or(0, |client| client.db);
            self.tell_mirrors(now, |mirrors| mirrors.enqueue(now, db, &[words], None));
        }
        step
    }

    fn set_current(&mut self, current: Current) {
        if let Some(mirrors) = &mut self.mirrors {
            mirrors.current = current;
        }
    }

    /// Whether the request that is looked at just now is told to mirrors.
    pub(crate) fn is_mirroring(&self) -> bool {
        self.mirrors.as_ref().is_some_and(|mirrors| mirrors.current == Current::Write)
    }

    /// Whether it concerns them at all.
    pub(crate) fn concerns_mirrors(&self) -> bool {
        self.mirrors.as_ref().is_some_and(|mirrors| mirrors.current != Current::No)
    }

    /// Writes such a request to a node, one whose reply becomes another (`policy::change`; never with mirrors), or a read that
    /// others may answer (`elsewhere`).
    pub(crate) fn forward_current(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        node: NodeId,
        lane: Lane,
    ) -> Step {
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        let (key, seq) = (client.key_to(node, lane), client.places.next());
        if !self.is_mirroring() && !self.changes_reply() && !self.is_backing() {
            self.set_current(Current::No);
            let step = self.forward_to(now, wish, node, lane);
            if step == Step::Done
                && let Some(upstream) = self.by_key.get(&key)
            {
                self.follow(now, wish, seq, *upstream);
            }
            return step;
        }
        if let Availability::Ready(upstream) = self.upstream_for(now, key, wish.id) {
            self.load_script_before(now, upstream, wish.row, wish.frame);
        }
        self.send_whole(now, wish, node)
    }

    /// To the only server, behind what the client sent it over another connection.
    pub(crate) fn forward_in_order(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        let key = client.key_to(self.first_node, Lane::Shared);
        let availability = self.upstream_in_turn(now, key, wish.id);
        if let Availability::Wait(upstream) = availability {
            return Step::Hold(Hold::Upstream(upstream));
        }
        if let Availability::Ready(upstream) = availability
            && let Some(client) = self.clients.get_mut(wish.id)
            && client.upstream != Some(upstream)
        {
            if client.places.open() > 0 {
                return Step::Hold(Hold::Drained);
            }
            client.upstream = Some(upstream);
        }
        let step = self.send_whole(now, wish, self.first_node);
        if step == Step::Done {
            // For a later call by its digest.
            self.note_script(wish);
        }
        step
    }

    /// A request is about to be written in these parts, over these connections. `Some`: it must wait.
    pub(crate) fn draft_parts(
        &mut self,
        id: ClientId,
        parts: impl Iterator<Item = (u32, UpstreamId, Vec<u8>)>,
    ) -> Option<Hold> {
        if self.is_mirroring() && self.waits_for_before(id) {
            return Some(Hold::Mirror);
        }
        let Self { mirrors, clients, learned, .. } = self;
        let mirrors = mirrors.as_mut().filter(|mirrors| mirrors.current == Current::Write)?;
        let db = clients.get(id).map_or(0, |client| client.db);
        let parts: Vec<(u32, UpstreamId, Vec<u8>)> = parts.collect();
        let keys_in = |frame: &[u8]| {
            let args: Vec<&[u8]> = Args::new(frame).collect();
            let keys: Vec<Vec<u8>> =
                keys_of(&args, learned.as_ref()).iter().map(|(_, key)| key.to_vec()).collect();
            keys
        };
        let keys: Vec<Vec<Vec<u8>>> = parts.iter().map(|(_, _, frame)| keys_in(frame)).collect();
        for ((_, upstream, _), keys) in parts.iter().zip(&keys) {
            let keys = hashes(db, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>());
            if !mirrors.gates.lets(&keys, *upstream) {
                mirrors.gates.close(&keys);
                mirrors.gates.wait(id);
                return Some(Hold::Mirror);
            }
        }
        mirrors.drafts.clear();
        // What all servers get is told once.
        let is_same = parts.len() > 1 && keys.iter().all(Vec::is_empty);
        let count = if is_same { 1 } else { parts.len() };
        for ((part, upstream, frame), keys) in parts.into_iter().zip(keys).take(count) {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let pending = mirrors.pending(&frame, &keys, db, true);
            mirrors.enter(&pending.keys, upstream);
            mirrors.drafts.push(Draft { part, pending });
        }
        None
    }

    /// They are written as parts of this request.
    pub(crate) fn note_drafts(&mut self, merge: MergeId) {
        let Some(mirrors) = &mut self.mirrors else { return };
        for Draft { part, pending } in mirrors.drafts.drain(..) {
            mirrors.pending.insert((merge, part), pending);
        }
    }

    /// Replies for parts of a request came.
    pub(crate) fn mirror_replies(
        &mut self,
        now: Time,
        merge: MergeId,
        part: u32,
        count: u32,
        bytes: &[u8],
    ) {
        let mut rest = bytes;
        for at in part..part + count {
            let len = match count {
                1 => rest.len(),
                _ => match ReplyScanner::default().scan(rest) {
                    Ok(Scan::Complete { consumed, .. }) => consumed,
                    _ => 0,
                },
            };
            let (reply, after) = rest.split_at(len);
            rest = after;
            let pending =
                self.mirrors.as_mut().and_then(|mirrors| mirrors.pending.remove(&(merge, at)));
            if let Some(pending) = pending {
                self.write_answered(now, pending, reply, Ticket::Merge(merge));
            }
        }
    }

    /// The primary has answered a write.
    fn write_answered(&mut self, now: Time, pending: Pending, reply: &[u8], ticket: Ticket) {
        let unix_ms = (now.0 + self.settings.unix_ahead_us) / 1_000;
        let scripts = self.script_of(pending.frame.as_deref());
        let Some(mirrors) = &mut self.mirrors else { return };
        mirrors.forget(&pending);
        let frame = pending.frame.as_deref();
        let words = match told_of(frame, reply, unix_ms, scripts) {
            Told::Words(words) => vec_of(words),
            Told::Unsure => {
                mirrors.count_unsure(frame);
                Vec::new()
            }
            Told::Unsaid(why) => {
                mirrors.drop_one(frame, why, Some(ticket));
                Vec::new()
            }
        };
        if !pending.is_gated && !words.is_empty() && !mirrors.gates.is_free(&pending.keys) {
            return mirrors.keep_late(pending, words);
        }
        if !words.is_empty() {
            mirrors.enqueue(now, pending.db, &words, Some(ticket));
        }
        match pending.is_gated {
            true => self.leave_gates(now, &pending.keys),
            false => mirrors.end_write(&pending.keys),
        }
        self.run_mirrors(now);
    }

    /// A write of these keys is answered: who waited goes on, and what came late is told.
    fn leave_gates(&mut self, now: Time, keys: &[KeyHash]) {
        let Some(mirrors) = &mut self.mirrors else { return };
        mirrors.end_write(keys);
        if !mirrors.gates.leave(keys) {
            return;
        }
        mirrors.tell_late(now);
        self.wake_gate_waiters();
    }

    /// Whoever waits for a gate looks again.
    fn wake_gate_waiters(&mut self) {
        let Some(mirrors) = &mut self.mirrors else { return };
        for id in mirrors.gates.take_waiters() {
            if let Some(client) = self.clients.get_mut(id)
                && client.hold == Hold::Mirror
                && !client.queued
            {
                client.queued = true;
                self.resume.push_back(id);
            }
        }
    }

    /// For a script that is called by its digest: the script, if it is known.
    fn script_of(&self, frame: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut args = Args::new(frame?);
        let name = args.next()?;
        let digest = args.next().filter(|_| word::same_name(name, "evalsha"))?;
        self.scripts.text(digest).map(<[u8]>::to_vec)
    }

    /// The reply to this request is here: whether it waits for mirrors.
    pub(crate) fn keep_for_mirrors(
        &mut self,
        now: Time,
        ticket: Ticket,
        (id, seq, silent): (ClientId, u32, bool),
        reply: &[u8],
    ) -> Kept {
        let until = now.plus_ms(self.patience_ms());
        let Some(mirrors) = &mut self.mirrors else { return Kept::No };
        let copy = || Reply { client: id, seq, silent, bytes: reply.to_vec() };
        let kept = mirrors.waits.keep(ticket, until, copy);
        self.list_waits();
        kept
    }
}
