//! Reads from other deployments: what clients read is answered by other servers, in front of the upstream, beside it, or when it fails.
//!
//! ```text
//!   client ─▶ dispatch ─▶ choice: is it such a read? ─▶ [asked]: it has its place in the client ─▶ target ─▶ reply ─▶ deliver at that place
//!                              no: its usual way            │ failed, late, refused: the next target, and at last
//!                                                           └────────────▶ the upstream, as a request that was sent on (`parked`)
//!   order "main": the upstream first, as a merge of one part; what it does not answer, or not soon, is asked of targets; the first answer counts
//! ```
//! While there are targets every client is looked at as one with a restricted user is ([`Access::Confined`](crate::client::Access)): what may go elsewhere
//! leaves the short way there, and all else stays on it. Without targets nothing of this is on the way of a request.
//!
//! Each target is an [`Engine`] of its own inside this one, as mirrors are, and its connections have ids as theirs (`mirror::outer`).
//!
//! Not here: the configuration (`settings`).
//!
//! Invariant: a read that is asked elsewhere has an open place in its client, and leaves the table with its one answer, or with the way to the upstream that
//! will give it.

mod change;
mod choice;
mod outer;
mod target;

pub use choice::commands;
pub(crate) use outer::FIRST;
pub use target::{ReadTargetCounts, ReadTargetReport, read_targets_of};

use crate::client::Client;
use crate::command::CommandId;
use crate::engine::Engine;
use crate::histogram::Sample;
use crate::ids::{ClientId, MergeId};
use crate::limits::{READ_TARGET_OPEN_MAX, READ_TARGETS_MAX, REDIRECT_WAIT_MS};
use crate::mirror::Numbers;
use crate::parked::{self, Parked};
use crate::request::Step;
use crate::route::{self, Known};
use crate::scatter::{Wish, keys_of, row_of};
use crate::settings::{ReadsElsewhere, Settings};
use crate::stats::samples::Source;
use crate::time::Time;
use crate::topology::Place;
use crate::upstream::Lane;
use crate::upstream::inflight::{Owner, Run};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use choice::Choice;
use resp::{Args, Protocol};
use target::{Heard, Sending, Target, Verdict, verdict, words_of};

/// Who is asked first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The targets as they stand in the configuration, and at last the upstream.
    #[default]
    Targets,
    /// A target by chance, then the others, and at last the upstream.
    Random,
    /// The upstream, and targets when it fails.
    Main,
}

impl Order {
    /// All, in the order of [`Order::NAMES`].
    pub const ALL: [Self; 3] = [Self::Targets, Self::Random, Self::Main];
    /// Their names in the configuration.
    pub const NAMES: [&'static str; 3] = ["targets", "random", "main"];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Who is asked first for one request, if somebody said so: a program of the operator's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The upstream, and no target.
    Upstream,
    /// The target at this place of the list, then the others, and at last the upstream.
    Target(usize),
}

/// Of all targets together, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadsElsewhereCounts {
    /// Reads that were asked of the upstream since no target answered them.
    pub back: u64,
    /// Reads that took as long as `hedge_after_ms` and were not asked of a target, as there were too many of them.
    pub unhedged: u64,
}

/// A read that is kept, beside its request: the record, and an entry in each of three trees, of which a third may be free.
const ASKED_BYTES: usize =
    (size_of::<(u32, Asked)>() + size_of::<(Time, u32)>() + size_of::<(MergeId, u32)>()) * 3 / 2;

/// A read that somebody else may answer.
#[derive(Debug)]
struct Asked {
    client: ClientId,
    seq: u32,
    command: CommandId,
    db: u32,
    protocol: Protocol,
    conn: u16,
    frame: Vec<u8>,
    /// The target that is to be asked first, if that was said.
    first: Option<usize>,
    sent_at: Time,
    /// Targets that were asked, a bit for each.
    tried: u32,
    /// Those of them that have not answered.
    pending: u32,
    /// Its request at the upstream, if that is under way.
    merge: Option<MergeId>,
    /// What the upstream said, which was no answer.
    error: Option<Vec<u8>>,
    /// The next deadline is that of `hedge_after_ms`.
    may_hedge: bool,
    /// As it stands in the list.
    due: Time,
}

impl Asked {
    /// Bytes of what it holds, and of its entries: with its ticket, its deadline and its request at the upstream.
    fn bytes(&self) -> usize {
        self.frame.len() + ASKED_BYTES
    }

    fn is_main_tried(&self) -> bool {
        self.merge.is_some() || self.error.is_some()
    }
}

/// Hedged reads are at most so many of a hundred, with some in advance: each read brings `percent`, each that is hedged costs a hundred.
#[derive(Debug)]
struct Budget {
    percent: u32,
    left: u32,
}

impl Budget {
    /// What may be saved up: so many hedged reads in a row.
    const ADVANCE: u32 = 10;

    fn earn(&mut self) {
        self.left = (self.left + self.percent).min(Self::ADVANCE * 100);
    }

    fn spend(&mut self) -> bool {
        let has_enough = self.left >= 100;
        self.left -= if has_enough { 100 } else { 0 };
        has_enough
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    order: Order,
    timeout_ms: u64,
    hedge_after_ms: u64,
    choice: Choice,
    targets: Vec<Target>,
    asked: BTreeMap<u32, Asked>,
    /// Bytes of them.
    asked_bytes: usize,
    merges: BTreeMap<MergeId, u32>,
    deadlines: BTreeSet<(Time, u32)>,
    next_ticket: u32,
    budget: Budget,
    counts: ReadsElsewhereCounts,
    /// The request that is written just now is to have targets behind it.
    is_backing: bool,
    /// When something last happened here.
    now: Time,
    /// When the first of `deadlines` stands in the outer engine's list.
    listed_at: Option<Time>,
}

impl Elsewhere {
    /// `None`: there are no targets.
    pub(crate) fn new(settings: &Settings, seed: u64, now: Time) -> Option<Box<Self>> {
        Self::numbered(settings, None, seed, now)
    }

    /// The same while clients are connected; `which` is no other's.
    fn numbered(
        settings: &Settings,
        which: Option<u64>,
        seed: u64,
        now: Time,
    ) -> Option<Box<Self>> {
        let options: &ReadsElsewhere = &settings.elsewhere;
        if options.targets.is_empty() {
            return None;
        }
        let numbers = |number| match which {
            None => Numbers::first(FIRST + number),
            Some(which) => {
                Numbers::new(FIRST + number, which * READ_TARGETS_MAX as u64 + number as u64)
            }
        };
        let targets = options.targets.iter().enumerate();
        let targets = targets
            .map(|(number, target)| Target::new(settings, target, numbers(number), seed, now));
        Some(Box::new(Self {
            order: options.order,
            timeout_ms: options.timeout_ms,
            hedge_after_ms: options.hedge_after_ms,
            choice: Choice::new(options, seed, now),
            targets: targets.collect(),
            asked: BTreeMap::new(),
            asked_bytes: 0,
            merges: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_ticket: 0,
            budget: Budget { percent: u32::from(options.hedge_percent), left: 0 },
            counts: ReadsElsewhereCounts::default(),
            is_backing: false,
            now,
            listed_at: None,
        }))
    }

    /// A request of the short way: whether it is to be looked at closer. Counts it, if only keys that come often go elsewhere.
    pub(crate) fn wants(&mut self, now: Time, command: CommandId, frame: &[u8]) -> bool {
        if !self.choice.takes_command(command) {
            return false;
        }
        let key = choice::deciding(command, Args::new(frame));
        self.choice.counts(now, command, key)
            && (self.order == Order::Main || self.targets.iter().any(|target| !target.is_out()))
    }

    /// The target that is to be asked next; `None`: there is none.
    fn next_for(&mut self, asked: &Asked) -> Option<usize> {
        let args: Vec<&[u8]> = Args::new(&asked.frame).collect();
        let count = self.targets.len();
        if count == 0 {
            return None;
        }
        let first = asked.first.unwrap_or_else(|| self.choice.first(self.order, count));
        let mut all = (0..count).map(|turn| (first + turn) % count);
        all.find(|at| {
            asked.tried & self.targets[*at].bit() == 0
                && self.targets[*at].can_take(asked.db, &args, asked.frame.len())
        })
    }

    /// Bytes of reads that are under way, and of what the targets hold.
    pub(crate) fn held_bytes(&self) -> usize {
        self.asked_bytes + self.targets.iter().map(Target::held_bytes).sum::<usize>()
    }

    /// Whether more reads are kept than targets could take if the upstream failed.
    fn is_full(&self) -> bool {
        self.asked.len() >= self.targets.len() * READ_TARGET_OPEN_MAX
    }

    /// Keeps a read that is asked; its ticket.
    fn begin(&mut self, asked: Asked) -> u32 {
        // Of those that are open there are far fewer than numbers.
        while self.asked.contains_key(&self.next_ticket) {
            self.next_ticket = self.next_ticket.wrapping_add(1);
        }
        let ticket = self.next_ticket;
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.deadlines.insert((asked.due, ticket));
        self.merges.extend(asked.merge.map(|merge| (merge, ticket)));
        self.asked_bytes += asked.bytes();
        self.asked.insert(ticket, asked);
        ticket
    }

    /// It is done with.
    fn end(&mut self, ticket: u32) -> Option<Asked> {
        let asked = self.asked.remove(&ticket)?;
        self.asked_bytes -= asked.bytes();
        self.deadlines.remove(&(asked.due, ticket));
        if let Some(merge) = asked.merge {
            self.merges.remove(&merge);
        }
        Some(asked)
    }

    /// It is looked at again then.
    fn put_off(&mut self, ticket: u32, due: Time) {
        if let Some(asked) = self.asked.get_mut(&ticket) {
            self.deadlines.remove(&(asked.due, ticket));
            asked.due = due;
            self.deadlines.insert((due, ticket));
        }
    }

    /// Asks the next target; whether there was one.
    fn ask_next(&mut self, now: Time, ticket: u32) -> bool {
        loop {
            let Some(asked) = self.asked.remove(&ticket) else { return false };
            let next = self.next_for(&asked);
            self.asked.insert(ticket, asked);
            match next {
                Some(at) if self.ask(now, ticket, at) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// Asks this target; whether that could be said.
    fn ask(&mut self, now: Time, ticket: u32, at: usize) -> bool {
        let Some(asked) = self.asked.get_mut(&ticket) else { return false };
        let bit = self.targets[at].bit();
        asked.tried |= bit;
        let args: Vec<&[u8]> = Args::new(&asked.frame).collect();
        let sending = Sending {
            ticket,
            db: asked.db,
            protocol: asked.protocol,
            conn: asked.conn,
            key: crate::scatter::first_key(&args).unwrap_or_default(),
            frame: &asked.frame,
        };
        let is_sent = self.targets[at].send(now, &sending);
        if is_sent {
            asked.pending |= bit;
            asked.may_hedge = false;
            self.put_off(ticket, now.plus_ms(self.timeout_ms));
        }
        is_sent
    }

    /// This target did not answer this read.
    fn fail(&mut self, now: Time, at: usize, ticket: u32, cause: &str) {
        let Some(asked) = self.asked.get(&ticket) else { return };
        let args: Vec<&[u8]> = Args::new(&asked.frame).collect();
        let key = crate::scatter::first_key(&args).unwrap_or_default();
        self.targets[at].fail(now, (asked.db, asked.protocol), key, cause);
    }
}

impl Engine {
    /// Gives a read to another deployment, if it is one of those that go there; else it goes its usual way.
    pub(crate) fn reads_elsewhere(
        &mut self,
        now: Time,
        wish: &Wish<'_>,
        known: &Known,
    ) -> Option<Step> {
        let command = row_of(wish.row?, wish.args);
        if wish.silent || self.changes_reply() || !self.is_fit_for_others(wish.id) {
            return None;
        }
        let keys: Vec<&[u8]> = keys_of(wish.args, None).into_iter().map(|(_, key)| key).collect();
        let asks = self.asks_whom();
        let elsewhere = self.elsewhere.as_mut()?;
        let goes = match asks {
            None => elsewhere.choice.takes(now, command, &keys),
            Some(Asks::Target(_)) => elsewhere.choice.takes_command(command),
            Some(Asks::Upstream) => false,
        };
        if !goes || !self.lie_at_one(&keys) {
            return None;
        }
        let elsewhere = self.elsewhere.as_mut()?;
        if elsewhere.order == Order::Main && asks.is_none() {
            elsewhere.is_backing = true;
            let step = self.read_with_backing(now, wish, known);
            if let Some(elsewhere) = &mut self.elsewhere {
                elsewhere.is_backing = false;
            }
            self.run_elsewhere(now);
            return Some(step);
        }
        let client = self.clients.get_mut(wish.id)?;
        let mut asked = asked_of(now, wish, command, client);
        asked.first = match asks {
            Some(Asks::Target(at)) => Some(at),
            _ => None,
        };
        let at = elsewhere.next_for(&asked)?;
        asked.seq = client.places.reserve(1);
        asked.due = now.plus_ms(elsewhere.timeout_ms);
        self.stats.requests += 1;
        self.stats.command(Some(command)).calls += 1;
        let ticket = elsewhere.begin(asked);
        if !elsewhere.ask(now, ticket, at) && !elsewhere.ask_next(now, ticket) {
            self.go_back(now, ticket);
        }
        self.run_elsewhere(now);
        Some(Step::Done)
    }

    /// The place of the target that is called so, if this request may be asked of one at all.
    pub(crate) fn read_target_named(&self, name: &[u8], args: &[&[u8]]) -> Option<usize> {
        let known = route::classify(args.len(), |n| args[n], None);
        let may_go = known.id.is_some_and(|row| choice::may_go(row_of(row, args)));
        if !may_go || self.elsewhere.is_none() || keys_of(args, None).is_empty() {
            return None;
        }
        let mut targets = self.settings.elsewhere.targets.iter();
        targets.position(|target| target.name.as_bytes() == name)
    }

    /// Whether reads of this client may be answered by anybody: not in a transaction, nor where it was told that it would hear of changes.
    fn is_fit_for_others(&self, id: ClientId) -> bool {
        self.clients
            .get(id)
            .is_some_and(|client| client.lease.is_none() && client.tracking.is_none())
    }

    /// Whether these keys have one server at the upstream, which can be asked for them when nobody else answers.
    fn lie_at_one(&self, keys: &[&[u8]]) -> bool {
        let Some((first, rest)) = keys.split_first() else { return false };
        if self.is_one() {
            return true;
        }
        let place = self.router.place(first);
        rest.iter().all(|key| self.router.place_beside(place, key) == place)
    }

    fn read_with_backing(&mut self, now: Time, wish: &Wish<'_>, known: &Known) -> Step {
        match self.is_one() {
            true => self.forward_in_order(now, wish),
            false => self.scatter(now, wish.id, wish.frame, wish.args, known, wish.silent),
        }
    }

    /// Whether the request that is written just now is to have targets behind it.
    #[inline]
    pub(crate) fn is_backing(&self) -> bool {
        self.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.is_backing)
    }

    /// It is written as this merge, for that place.
    pub(crate) fn note_backed(&mut self, now: Time, wish: &Wish<'_>, merge: MergeId, seq: u32) {
        let Self { elsewhere: Some(elsewhere), clients, .. } = self else { return };
        if !core::mem::take(&mut elsewhere.is_backing) || elsewhere.is_full() {
            return;
        }
        let (Some(client), Some(row)) = (clients.get(wish.id), wish.row) else { return };
        elsewhere.budget.earn();
        let (hedge_ms, timeout_ms) = (elsewhere.hedge_after_ms, elsewhere.timeout_ms);
        let may_hedge = hedge_ms > 0 && hedge_ms < timeout_ms;
        let due = now.plus_ms(if may_hedge { hedge_ms } else { timeout_ms });
        let asked = asked_of(now, wish, row_of(row, wish.args), client);
        elsewhere.begin(Asked { seq, merge: Some(merge), may_hedge, due, ..asked });
    }

    /// The upstream answered such a request. Whether its place is filled by somebody else: a target that is asked now, or is asked already.
    pub(crate) fn is_backed(&mut self, now: Time, merge: MergeId, reply: &[u8]) -> bool {
        let Some(elsewhere) = &mut self.elsewhere else { return false };
        let Some(ticket) = elsewhere.merges.remove(&merge) else { return false };
        let Some(asked) = elsewhere.asked.get_mut(&ticket) else { return false };
        asked.merge = None;
        if verdict(reply) != Verdict::Away {
            elsewhere.end(ticket);
            self.list_asked();
            return false;
        }
        asked.error = Some(reply.to_vec());
        let waits = asked.pending != 0;
        if elsewhere.ask_next(now, ticket) || waits {
            self.run_elsewhere(now);
            return true;
        }
        elsewhere.end(ticket);
        self.list_asked();
        false
    }

    /// A target has answered a read, or will not.
    fn answered_elsewhere(&mut self, now: Time, at: usize, ticket: u32, heard: &Heard) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        // Somebody else may have answered before.
        let Some(asked) = elsewhere.asked.get_mut(&ticket) else { return };
        let bit = elsewhere.targets[at].bit();
        if asked.pending & bit == 0 {
            // It was an earlier read of the same number.
            return;
        }
        asked.pending &= !bit;
        let counts = &mut elsewhere.targets[at].counts;
        let (verdict, reply) = match heard {
            Heard::Reply(reply) => (verdict(reply), &reply[..]),
            Heard::TooLong => {
                // The upstream's goes on as it comes.
                asked.tried = u32::MAX;
                (Verdict::Refused, &[][..])
            }
            Heard::Lost => (Verdict::Away, &b"-its connection was lost"[..]),
        };
        match verdict {
            Verdict::Answer => {
                counts.answered += 1;
                return self.give_answer(now, ticket, reply);
            }
            Verdict::Refused => counts.refused += 1,
            Verdict::Away => {
                counts.failed += 1;
                elsewhere.fail(now, at, ticket, &words_of(reply));
            }
        }
        self.ask_on(now, ticket);
    }

    /// Nobody of those that were asked answers in time, or at all: somebody else is asked.
    fn ask_on(&mut self, now: Time, ticket: u32) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        if elsewhere.ask_next(now, ticket) {
            return;
        }
        let Some(asked) = elsewhere.asked.get(&ticket) else { return };
        match (&asked.error, asked.is_main_tried()) {
            (_, false) => self.go_back(now, ticket),
            // All have said that they cannot.
            (Some(error), true) if asked.pending == 0 => {
                let error = error.clone();
                self.give_answer(now, ticket, &error);
            }
            // Somebody will answer, or be lost.
            _ => elsewhere.put_off(ticket, now.plus_ms(elsewhere.timeout_ms)),
        }
    }

    /// This is the reply.
    fn give_answer(&mut self, now: Time, ticket: u32, reply: &[u8]) {
        let Some(asked) = self.elsewhere.as_mut().and_then(|elsewhere| elsewhere.end(ticket))
        else {
            return;
        };
        if let Some(merge) = asked.merge.and_then(|merge| self.remove_merge(merge)) {
            // What the upstream says is dropped when it comes.
            self.pool.give(self.spare.take_apart(merge));
        }
        let waited_us = now.since(asked.sent_at);
        self.stats.latency(Some(asked.command)).record(Sample::new(waited_us), 1);
        if reply.first() == Some(&b'-') {
            self.stats.command(Some(asked.command)).failed += 1;
            let source = Source::own(now, Some(asked.command), Some(asked.client));
            self.stats.note_error(source, reply, 1);
        }
        self.deliver(asked.client, asked.seq, 1, false, reply);
    }

    /// No target answers this read: the upstream is asked, at the same place of the client.
    fn go_back(&mut self, now: Time, ticket: u32) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        let Some(asked) = elsewhere.end(ticket) else { return };
        elsewhere.counts.back += 1;
        let Some(client) = self.clients.get(asked.client) else { return };
        let like = client.key_to(self.first_node, Lane::Shared);
        let owner = Owner::Client { id: asked.client, seq: asked.seq, silent: false };
        let run = Run::new(owner, 1, Some(asked.command), now, 0);
        let hold_ms = self.settings.timeouts.failover_hold_ms.max(REDIRECT_WAIT_MS);
        let times = (now, now.plus_ms(hold_ms));
        // It has a key, or it would not have gone elsewhere.
        let place = self.place_of(&asked.frame).unwrap_or(Place { pool: 0, slot: 0 });
        let parked =
            Parked::to_place(like, &run, asked.frame, place, times, "no read target answered");
        let parked = match self.is_one() {
            true => Parked { target: parked::Target::Node(self.first_node), place: None, ..parked },
            false => parked,
        };
        self.park(now, parked);
        self.run_parked(now);
    }

    /// The time of some reads is over: others are asked beside those that were.
    fn asked_due(&mut self, now: Time) {
        loop {
            let Some(elsewhere) = &mut self.elsewhere else { return };
            let Some((due, ticket)) = elsewhere.deadlines.first().copied() else { return };
            if due > now {
                return;
            }
            let Some(asked) = elsewhere.asked.get_mut(&ticket) else {
                elsewhere.deadlines.remove(&(due, ticket));
                continue;
            };
            if core::mem::take(&mut asked.may_hedge) {
                let rest_ms = elsewhere.timeout_ms - elsewhere.hedge_after_ms;
                self.hedge(now, ticket, rest_ms);
                continue;
            }
            let late = asked.pending;
            for at in 0..elsewhere.targets.len() {
                if late & elsewhere.targets[at].bit() != 0 && !elsewhere.targets[at].is_out() {
                    elsewhere.targets[at].counts.late += 1;
                    elsewhere.fail(now, at, ticket, "it gave no answer in time");
                }
            }
            self.ask_on(now, ticket);
        }
    }

    /// The upstream takes long: a target is asked, too, if that does not happen too often.
    fn hedge(&mut self, now: Time, ticket: u32, rest_ms: u64) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        if !elsewhere.budget.spend() {
            elsewhere.counts.unhedged += 1;
        } else if elsewhere.ask_next(now, ticket) {
            let pending = elsewhere.asked.get(&ticket).map_or(0, |asked| asked.pending);
            let is_it = |target: &&mut Target| target.bit() & pending != 0;
            if let Some(target) = elsewhere.targets.iter_mut().find(is_it) {
                target.counts.hedged += 1;
            }
            return;
        }
        elsewhere.put_off(ticket, now.plus_ms(rest_ms));
    }

    /// How the targets are.
    pub(crate) fn read_target_reports(&self) -> Vec<ReadTargetReport> {
        let targets = self.elsewhere.iter().flat_map(|elsewhere| &elsewhere.targets);
        targets.map(Target::report).collect()
    }

    /// What is counted of all targets together; `None`: there are none.
    pub(crate) fn reads_elsewhere_counts(&self) -> Option<ReadsElsewhereCounts> {
        self.elsewhere.as_ref().map(|elsewhere| elsewhere.counts)
    }
}

/// A read of this client as it is kept.
fn asked_of(now: Time, wish: &Wish<'_>, command: CommandId, client: &Client) -> Asked {
    Asked {
        client: wish.id,
        seq: 0,
        command,
        db: client.db,
        protocol: client.protocol,
        conn: client.conn,
        frame: wish.frame.to_vec(),
        first: None,
        sent_at: now,
        tried: 0,
        pending: 0,
        merge: None,
        error: None,
        may_hedge: false,
        due: now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_hundred_are_hedged() {
        let mut budget = Budget { percent: 5, left: 0 };
        let mut hedged = 0;
        for _ in 0..1_000 {
            budget.earn();
            hedged += u32::from(budget.spend());
        }
        assert_eq!(hedged, 50);
        // What was not used serves a burst, but not for ever.
        (0..100_000).for_each(|_| budget.earn());
        let burst = (0..100).filter(|_| budget.spend()).count() as u32;
        assert_eq!(burst, Budget::ADVANCE);
        let mut none = Budget { percent: 0, left: 0 };
        none.earn();
        assert!(!none.spend());
    }
}
