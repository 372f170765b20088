//! Shadow reads: some of what clients read is asked of mirrors, too, and both replies are held against each other.
//!
//! ```text
//!   client ─▶ GET k ─▶ primary ─▶ reply ─┬─▶ the client, as without mirrors
//!                                        └─▶ shares it (`upstream::sharers`) ─▶ the mirror's queue, behind the writes of k ─▶ its reply ─▶ `compare`
//! ```
//! When a comparison says something. The read is in the mirror's queue behind every write of its keys that the primary had answered, and the mirror does what is
//! in its queue in order. So if no write of its keys was under way at the primary from before the read was sent until it was answered, both sides were asked
//! about the same state. Else it is counted as racing. What the mirror answers late, or with something before it undone, says nothing either: a key may have
//! run out meanwhile. If the replies still differ, respool asks both sides twice more after a while, since
//! clocks differ, replicas lag, and other writers change keys past respool. A read counts as different if the replies differ every time and none of its keys expires just then (`doubt`).
//!
//! Nobody waits for any of it: a client gets its reply as ever, and a mirror that is behind or away is not asked.
//!
//! Files: this one finds and follows reads, `compare` compares, `doubt` asks for lifetimes, `tally` counts. Not here: the queue (`target`).
//!
//! Invariant: a key is counted in `reading` once for each read of it that is under way at the primary; as many writes end as begin.

mod compare;
mod doubt;
mod tally;

pub use compare::compared_commands;
pub(crate) use doubt::Doubt;
pub(crate) use tally::{Fate, Tally};
pub use tally::{ShadowCounts, ShadowReport, ShadowRow, ShadowSample, shadows_of};

use super::gate::KeyHash;
use super::target::Target;
use super::{Current, Mirrors, hashes};
use crate::command::CommandId;
use crate::command::ids::PTTL;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{
    CUT_THROUGH_BYTES, SHADOW_AGAIN_MS, SHADOW_LATE_MS, SHADOW_OPEN_MAX, SHARED_READ_BYTES_MAX,
};
use crate::near::Answer;
use crate::request::Step;
use crate::route::Known;
use crate::scatter::{Wish, first_key, keys_of, row_of};
use crate::settings::Settings;
use crate::time::Time;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use crate::upstream::{Lane, UpstreamKey};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use compare::Shapes;
use resp::Args;

/// Whose second looks are: no client has this id.
const NOBODY: ClientId = ClientId::new(u32::MAX, 0);

/// Another part of the reads is looked at in each slice of time of 2 to the power of so many microseconds.
const SLICE_BITS: u32 = 10;

/// A read that is to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) command: CommandId,
    /// The request, which is at most [`SHARED_READ_BYTES_MAX`] long.
    pub(crate) frame: Vec<u8>,
    /// The database of the clients.
    pub(crate) db: u32,
    /// When the primary was asked.
    pub(crate) sent_at: Time,
    /// What it said; empty until then.
    pub(crate) reply: Vec<u8>,
    /// How often both sides differed.
    pub(crate) differed: u8,
    /// Both sides differed at every look, and are now asked for the lifetimes of its keys.
    pub(crate) doubt: Option<Doubt>,
}

impl Read {
    /// Its first key.
    pub(crate) fn key(&self) -> Vec<u8> {
        let args: Vec<&[u8]> = Args::new(&self.frame).collect();
        first_key(&args).unwrap_or_default().to_vec()
    }

    /// Each of its keys.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let args: Vec<&[u8]> = Args::new(&self.frame).collect();
        keys_of(&args, None).into_iter().map(|(_, key)| key.to_vec()).collect()
    }

    /// The request that both sides get, and its command.
    pub(crate) fn question(&self) -> (CommandId, Vec<u8>) {
        match &self.doubt {
            Some(doubt) => (PTTL, doubt.question()),
            None => (self.command, self.frame.clone()),
        }
    }

    /// What it costs while it waits for a mirror.
    pub(crate) fn cost(&self) -> usize {
        let doubt = self.doubt.as_ref().map_or(0, Doubt::cost);
        self.frame.len() * 2 + self.reply.len() + size_of::<Self>() + doubt
    }
}

/// A read that the primary has not answered.
#[derive(Debug)]
struct Asked {
    read: Read,
    keys: Vec<KeyHash>,
    /// The mirrors that are to be asked, a bit for each.
    targets: u32,
    /// The number of the last write before it.
    after: u64,
}

#[derive(Debug, Default)]
struct Reading {
    count: u32,
    /// The number of the last write of this key that began meanwhile.
    wrote: u64,
}

/// A read that differed and is to be asked again.
#[derive(Debug)]
struct Look {
    due: Time,
    target: usize,
    read: Read,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shadow {
    shapes: Shapes,
    asked: BTreeMap<u32, Asked>,
    next: u32,
    reading: BTreeMap<KeyHash, Reading>,
    /// Writes that are under way, by key.
    writing: BTreeMap<KeyHash, u32>,
    /// Writes under way of which nobody knows the keys, and the number of the last of them.
    wild: u32,
    wild_wrote: u64,
    /// How many writes began, ever.
    writes: u64,
    looks: VecDeque<Look>,
    /// When the first of them is due, as it stands in the list of deadlines.
    pub(super) listed_at: Option<Time>,
}

impl Shadow {
    /// `None`: no mirror wants reads.
    pub(super) fn new(settings: &Settings, now: Time) -> Option<Self> {
        let wants = settings.mirrors.iter().any(|mirror| mirror.shadow_percent > 0);
        wants.then(|| Self {
            shapes: Shapes::new(),
            asked: BTreeMap::new(),
            // What was asked before this one came has smaller numbers: there are fewer reads than microseconds.
            next: now.0 as u32,
            reading: BTreeMap::new(),
            writing: BTreeMap::new(),
            wild: 0,
            wild_wrote: 0,
            writes: 0,
            looks: VecDeque::new(),
            listed_at: None,
        })
    }

    /// A write of these keys goes to the primary; none: nobody knows which.
    pub(super) fn begin_write(&mut self, keys: &[KeyHash]) {
        self.writes += 1;
        if keys.is_empty() {
            (self.wild, self.wild_wrote) = (self.wild + 1, self.writes);
        }
        for key in keys {
            *self.writing.entry(*key).or_default() += 1;
            if let Some(reading) = self.reading.get_mut(key) {
                reading.wrote = self.writes;
            }
        }
    }

    /// It is answered, and what mirrors get of it is in their queues.
    pub(super) fn end_write(&mut self, keys: &[KeyHash]) {
        debug_assert!(!keys.is_empty() || self.wild > 0, "more writes end than began");
        self.wild = self.wild.saturating_sub(u32::from(keys.is_empty()));
        for key in keys {
            let Some(count) = self.writing.get_mut(key) else {
                debug_assert!(false, "more writes of a key end than began");
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.writing.remove(key);
            }
        }
    }

    /// This mirror is one no more.
    pub(super) fn forget(&mut self, number: usize) {
        self.asked.values_mut().for_each(|asked| asked.targets &= !(1 << number));
        self.looks.retain(|look| look.target != number);
    }

    fn is_written(&self, keys: &[KeyHash]) -> bool {
        self.wild > 0 || keys.iter().any(|key| self.writing.contains_key(key))
    }

    /// A read of these keys goes to the primary.
    fn begin(&mut self, read: Read, keys: Vec<KeyHash>, targets: u32) -> u32 {
        for key in &keys {
            self.reading.entry(*key).or_default().count += 1;
        }
        let ticket = self.next;
        self.next = self.next.wrapping_add(1);
        self.asked.insert(ticket, Asked { read, keys, targets, after: self.writes });
        ticket
    }

    /// It is answered; whether one of its keys was written meanwhile.
    fn end(&mut self, ticket: u32) -> Option<(Asked, bool)> {
        let asked = self.asked.remove(&ticket)?;
        let mut is_racing = self.wild_wrote > asked.after;
        for key in &asked.keys {
            let Some(reading) = self.reading.get_mut(key) else { continue };
            is_racing |= reading.wrote > asked.after;
            reading.count -= 1;
            if reading.count == 0 {
                self.reading.remove(key);
            }
        }
        Some((asked, is_racing))
    }

    fn check(&self) {
        let keys = self.asked.values().flat_map(|asked| &asked.keys);
        let counts: usize = self.reading.values().map(|reading| reading.count as usize).sum();
        assert_eq!(keys.count(), counts, "keys of reads under way");
        assert!(self.asked.len() + self.looks.len() <= SHADOW_OPEN_MAX + 1, "too many reads");
        assert!(self.writing.values().all(|count| *count > 0), "a write that ended");
    }
}

/// Of a hundred reads that are alike in time so many come before this one. The same word at the same moment always comes to the same.
fn share_of(now: Time, word: &[u8]) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let slice = (now.0 >> SLICE_BITS).wrapping_mul(SPREAD);
    ((rapidhash::v3::rapidhash_v3(word) ^ slice).wrapping_mul(SPREAD) >> 32) % 100
}

/// The word of a read that decides whether it is looked at.
fn deciding<'a>(command: CommandId, mut args: impl Iterator<Item = &'a [u8]>) -> &'a [u8] {
    args.nth(command.row().only_key_at().unwrap_or(1)).unwrap_or_default()
}

/// Whether this read of the short way may be one to be compared, and is looked at closer.
#[cold]
#[inline(never)]
pub(crate) fn may_be_compared(
    settings: &Settings,
    now: Time,
    command: CommandId,
    frame: &[u8],
) -> bool {
    let most = settings.mirrors.iter().map(|mirror| mirror.shadow_percent).max().unwrap_or(0);
    most > 0 && share_of(now, deciding(command, Args::new(frame))) < u64::from(most)
}

impl Mirrors {
    /// A write of these keys goes over this connection.
    pub(super) fn enter(&mut self, keys: &[KeyHash], upstream: UpstreamId) {
        self.gates.enter(keys, upstream);
        self.begin_write(keys);
    }

    pub(super) fn begin_write(&mut self, keys: &[KeyHash]) {
        if let Some(shadow) = &mut self.shadow {
            shadow.begin_write(keys);
        }
    }

    pub(super) fn end_write(&mut self, keys: &[KeyHash]) {
        if let Some(shadow) = &mut self.shadow {
            shadow.end_write(keys);
        }
    }

    /// Which mirrors are to be asked what this read says, a bit for each.
    fn shadows(&self, now: Time, command: CommandId, args: &[&[u8]]) -> u32 {
        let Some(shadow) = &self.shadow else { return 0 };
        if shadow.shapes.of(command).is_none() {
            return 0;
        }
        let keys = keys_of(args, None);
        let share = share_of(now, deciding(command, args.iter().copied()));
        let wants = |target: &&Target| {
            share < u64::from(target.settings.shadow_percent)
                && !keys.is_empty()
                && keys.iter().all(|(_, key)| target.wants(key))
        };
        self.targets.iter().filter(wants).fold(0, |all, one| all | one.bit())
    }

    fn count(&mut self, now: Time, targets: u32, read: (CommandId, &[u8]), fate: Fate) {
        for target in &mut self.targets {
            if targets & target.bit() != 0 {
                target.tally.add(now, read.0, read.1, fate);
            }
        }
    }

    /// Reads that are not done with.
    fn open_reads(&self) -> usize {
        let waiting: usize = self.targets.iter().map(|target| target.reads).sum();
        let shadow = self.shadow.as_ref();
        shadow.map_or(0, |shadow| shadow.asked.len() + shadow.looks.len()) + waiting
    }

    /// Why a read is not looked at, which is to be sent just now.
    fn unless_fit(&self, len: usize, keys: &[KeyHash]) -> Option<Fate> {
        let shadow = self.shadow.as_ref()?;
        if len > SHARED_READ_BYTES_MAX {
            return Some(Fate::Large);
        }
        if self.open_reads() >= SHADOW_OPEN_MAX {
            return Some(Fate::Dropped);
        }
        shadow.is_written(keys).then_some(Fate::Racing)
    }

    /// What is reported of shadow reads, of each mirror that has some.
    pub(super) fn shadow_reports(&self) -> impl Iterator<Item = ShadowReport> {
        let wants = |target: &&Target| target.is_live() && target.settings.shadow_percent > 0;
        let wants = self.targets.iter().filter(wants);
        wants.map(|target| target.tally.report(&target.settings.name))
    }

    pub(super) fn check_shadow(&self) {
        self.shadow.iter().for_each(Shadow::check);
    }
}

impl Engine {
    /// Whether mirrors are asked what this request asks.
    pub(crate) fn is_shadowed(&self, now: Time, wish: &Wish<'_>) -> bool {
        let (Some(mirrors), Some(row)) = (&self.mirrors, wish.row) else { return false };
        let is_fit = |id| {
            self.clients.get(id).is_some_and(|client| {
                client.lease.is_none() && client.tracking.is_none() && !wish.silent
            })
        };
        mirrors.shadow.is_some() && is_fit(wish.id) && mirrors.shadows(now, row, wish.args) != 0
    }

    /// Gives such a read on as ever, and notes it.
    pub(crate) fn forward_shadowed(&mut self, now: Time, wish: &Wish<'_>, known: &Known) -> Step {
        let Wish { id, frame, args, silent, .. } = *wish;
        if !self.is_one() {
            // It comes to `forward_current` if it goes to one server.
            self.set_current(Current::Read);
            let step = self.scatter(now, id, frame, args, known, silent);
            self.set_current(Current::No);
            return step;
        }
        let seq = self.clients.get(id).map_or(0, |client| client.places.next());
        let step = self.forward(now, id, Lane::Shared, frame, wish.row, silent);
        if step == Step::Done
            && let Some(upstream) = self.clients.get(id).and_then(|client| client.upstream)
        {
            self.follow(now, wish, seq, upstream);
        }
        step
    }

    /// The request of this place was the last that was written to this connection, if it was not answered at once: its reply is for mirrors as well.
    pub(crate) fn follow(&mut self, now: Time, wish: &Wish<'_>, seq: u32, upstream_id: UpstreamId) {
        let Self { mirrors: Some(mirrors), upstreams, clients, .. } = self else { return };
        let (Some(upstream), Some(client)) = (upstreams.get_mut(upstream_id), clients.get(wish.id))
        else {
            return;
        };
        let is_it = |run: &Run| match run.owner {
            Owner::Client { id, seq: first, .. } => {
                id == wish.id && first.wrapping_add(run.count - 1) == seq
            }
            _ => false,
        };
        let Some(command) = wish.row.map(|row| row_of(row, wish.args)) else { return };
        if !upstream.inflight.back().is_some_and(is_it) {
            return;
        }
        let targets = mirrors.shadows(now, command, wish.args);
        let keys: Vec<&[u8]> = keys_of(wish.args, None).into_iter().map(|(_, key)| key).collect();
        let hashes = hashes(client.db, &keys);
        if let Some(fate) = mirrors.unless_fit(wish.frame.len(), &hashes) {
            return mirrors.count(now, targets, (command, keys[0]), fate);
        }
        let read = Read {
            command,
            frame: wish.frame.to_vec(),
            db: client.db,
            sent_at: now,
            reply: Vec::new(),
            differed: 0,
            doubt: None,
        };
        let Some(shadow) = &mut mirrors.shadow else { return };
        let ticket = shadow.begin(read, hashes, targets);
        let (place, at) = (upstream.inflight.end() - 1, upstream.out.position());
        let owner = Owner::Own(OwnCommand::Shadow(ticket));
        let run = Run::new(owner, 1, Some(command), now, at - wish.frame.len() as u64);
        upstream.inflight.share(place, Run { shares: true, ..run });
    }

    /// The primary answered such a read, or will not.
    #[cold]
    pub(crate) fn shadow_answered(&mut self, now: Time, ticket: u32, answer: Answer<'_>) {
        let Some(mirrors) = &mut self.mirrors else { return };
        let ended = mirrors.shadow.as_mut().and_then(|shadow| shadow.end(ticket));
        let Some((Asked { mut read, targets, .. }, is_racing)) = ended else { return };
        let fate = match answer {
            _ if is_racing => Some(Fate::Racing),
            Answer::None => Some(Fate::Void),
            Answer::InParts => Some(Fate::Large),
            Answer::Whole(reply) if reply.len() > CUT_THROUGH_BYTES => Some(Fate::Large),
            Answer::Whole(reply) if read.doubt.is_some() && reply.starts_with(b"-NOPERM ") => {
                read.reply = reply.to_vec();
                None
            }
            Answer::Whole(reply) if is_of_the_server(reply) => Some(Fate::Void),
            Answer::Whole(reply) => {
                read.reply = reply.to_vec();
                None
            }
        };
        if let Some(fate) = fate {
            return mirrors.count(now, targets, (read.command, &read.key()), fate);
        }
        for target in &mut mirrors.targets {
            if targets & target.bit() != 0 {
                target.ask(now, read.clone());
            }
        }
        self.run_mirrors(now);
    }

    /// These replies of a mirror differ from the primary's: both are asked again, for a lifetime at once.
    pub(super) fn look_again(&mut self, now: Time, target: usize, reads: Vec<Read>) {
        let Some(mirrors) = &mut self.mirrors else { return };
        let Some(shadow) = &mut mirrors.shadow else { return };
        let later = now.plus_ms(SHADOW_AGAIN_MS);
        for read in reads {
            let read = Read { reply: Vec::new(), ..read };
            match read.doubt {
                Some(_) => shadow.looks.push_front(Look { due: now, target, read }),
                None => shadow.looks.push_back(Look { due: later, target, read }),
            }
        }
        self.list_looks();
    }

    fn list_looks(&mut self) {
        let shadow = self.mirrors.as_mut().and_then(|mirrors| mirrors.shadow.as_mut());
        let Some(shadow) = shadow else { return };
        let at = shadow.looks.front().map(|look| look.due);
        let before = core::mem::replace(&mut shadow.listed_at, at);
        self.list_again(super::outer::looks(), before, at);
    }

    /// It is time to ask again.
    pub(super) fn looks_due(&mut self, now: Time) {
        loop {
            let shadow = self.mirrors.as_mut().and_then(|mirrors| mirrors.shadow.as_mut());
            let look = shadow.and_then(|shadow| shadow.looks.pop_front_if(|look| look.due <= now));
            let Some(Look { target, read, .. }) = look else { break };
            self.ask_primary(now, target, read);
        }
        self.list_looks();
    }

    /// Asks the primary once more, over a connection that is there.
    fn ask_primary(&mut self, now: Time, target: usize, read: Read) {
        let (command, frame) = read.question();
        let args: Vec<&[u8]> = Args::new(&frame).collect();
        let keys: Vec<&[u8]> = keys_of(&args, None).into_iter().map(|(_, key)| key).collect();
        let hashes = hashes(read.db, &keys);
        let upstream = self.primary_of(&keys).and_then(|node| self.ready_to(node, read.db));
        let Some(mirrors) = &mut self.mirrors else { return };
        let Some(shadow) = &mut mirrors.shadow else { return };
        let fate = match (upstream, shadow.is_written(&hashes)) {
            (None, _) => Some(Fate::Void),
            (_, true) => Some(Fate::Racing),
            _ => None,
        };
        let (Some(upstream_id), None) = (upstream, fate) else {
            let fate = fate.unwrap_or(Fate::Void);
            return mirrors.count(now, 1 << target, (read.command, &read.key()), fate);
        };
        let ticket = shadow.begin(Read { sent_at: now, ..read }, hashes, 1 << target);
        let owner = Owner::Client { id: NOBODY, seq: 0, silent: true };
        self.write_part(now, upstream_id, owner, Some(command), &frame);
        let Some(upstream) = self.upstreams.get_mut(upstream_id) else { return };
        let (place, at) = (upstream.inflight.end() - 1, upstream.out.position());
        let owner = Owner::Own(OwnCommand::Shadow(ticket));
        let run = Run::new(owner, 1, Some(command), now, at - frame.len() as u64);
        upstream.inflight.share(place, Run { shares: true, ..run });
    }

    /// The primary of these keys; `None`: they have none, or several.
    fn primary_of(&self, keys: &[&[u8]]) -> Option<NodeId> {
        if self.draining {
            return None;
        }
        if self.is_one() {
            return Some(self.first_node);
        }
        let place = self.router.place(keys.first()?);
        let is_there = |key: &&[u8]| self.router.place(key) == place;
        self.router.node(place).filter(|_| keys.iter().all(is_there))
    }

    /// A connection to this node that takes one more request at once.
    fn ready_to(&self, node: NodeId, db: u32) -> Option<UpstreamId> {
        let conns = 0..self.settings.limits.shared_conns.max(1);
        let mut ways = conns.flat_map(|conn| [(conn, false), (conn, true)]);
        ways.find_map(|(conn, resp3)| {
            let key = UpstreamKey { node, resp3, db, lane: Lane::Shared, conn, owner: None };
            let id = *self.by_key.get(&key)?;
            let upstream = self.upstreams.get(id)?;
            let has_room = upstream.out.pending() < self.settings.limits.upstream_out_high_bytes;
            (upstream.is_ready() && has_room).then_some(id)
        })
    }

    /// What is reported of shadow reads.
    pub(crate) fn shadow_reports(&self) -> Vec<ShadowReport> {
        let tenant = self.settings.tenancy.as_ref().map(|tenancy| tenancy.name.clone());
        let reports = self.mirrors.iter().flat_map(|mirrors| mirrors.shadow_reports());
        reports.map(|report| ShadowReport { tenant: tenant.clone(), ..report }).collect()
    }

    /// What was counted is forgotten.
    pub(crate) fn reset_shadow(&mut self) {
        let targets = self.mirrors.iter_mut().flat_map(|mirrors| &mut mirrors.targets);
        targets.for_each(|target| target.tally = Tally::default());
    }
}

/// Whether this error tells of the server and not of the data.
fn is_of_the_server(reply: &[u8]) -> bool {
    reply.starts_with(b"-")
        && (reply.starts_with(b"-ERR respool: ")
            || !(reply.starts_with(b"-ERR ") || reply.starts_with(b"-WRONGTYPE ")))
}

/// Whether a mirror's reply that comes now is too late to be compared with this one.
pub(super) fn is_late(now: Time, answered_at: Time) -> bool {
    now > answered_at.plus_ms(SHADOW_LATE_MS)
}

/// Whether both replies mean the same. `ttl_ms`: how far times may lie apart, beside the time that passed between the two.
pub(super) fn agree(now: Time, read: &Read, reply: &[u8], ttl_ms: u64) -> bool {
    let args: Vec<&[u8]> = Args::new(&read.frame).collect();
    let Some(shape) = Shapes::of_one(read.command) else { return true };
    let ms = ttl_ms + now.since(read.sent_at).div_ceil(1_000);
    compare::are_equal(shape, &args, &read.reply, reply, ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_hundred_are_looked_at_and_others_in_each_moment() {
        let taken = |now: u64, percent: u64| {
            let words = (0..10_000u32).map(|n| n.to_le_bytes());
            words.filter(|word| share_of(Time(now), word) < percent).count()
        };
        for percent in [1, 10, 50] {
            let about = taken(7, percent) as u64;
            assert!(about.abs_diff(percent * 100) < 60 + percent * 5, "{about} of {percent} %");
        }
        assert_eq!((taken(7, 100), taken(7, 0)), (10_000, 0));
        // One key is not always or never among them.
        let moments = (0..1_000).filter(|slice| share_of(Time(slice << SLICE_BITS), b"k") < 10);
        assert!((50..200).contains(&moments.count()));
        // Within a moment it is the same for all who ask.
        assert_eq!(share_of(Time(1), b"k"), share_of(Time(2), b"k"));
    }
}
