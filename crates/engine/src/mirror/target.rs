//! One mirror: what waits for it, what is under way to it, and the engine that brings it there.
//!
//! ```text
//!   enqueue ─▶ [queue] ─▶ [window] ─▶ client of the inner engine ─▶ its servers, whatever their topology
//!                 ▲          │ answered: counted, and whoever waits for it is told
//!                 └──────────┘ not reached: put back if it may be sent twice, and a question goes ahead of it until one is answered
//! ```
//! All of it goes through one client, so it is done in the order in which it was enqueued: the inner engine keeps what one client sends for one key
//! in order whatever happens to its servers. A change of the database waits for what is before it.
//!
//! When servers fail, nothing more is sent until all of the window is answered. What may be done twice (`rewrite::repeats`), or surely was not done, goes
//! again in the old order, unless something newer of the same key was done meanwhile. The rest is counted as failed.
//!
//! Not here: who gets what (`super`), how it comes, changes and goes (`standing`).
//!
//! Invariant: an entry is in the queue, in the window or in `again`, or it is counted; `queue_bytes` is what the three hold of writes, and
//! `reads_bytes` what reads cost that are to be compared (`shadow`).

mod standing;

use super::answers::{error_of, is_unreached, may_be_done, runs_scripts};
use super::gate::KeyHash;
use super::report::{IDLE, LEAVING, MirrorCounts, MirrorReport, READY, WAITING};
use super::shadow::{Doubt, Fate, Read, Tally, agree, is_late};
use super::{Mode, Numbers, Ticket};
use crate::client::Sizes;
use crate::engine::{Action, Engine, Notice};
use crate::glob;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{
    MIRROR_ERROR_KINDS_MAX, MIRROR_REPLY_BYTES, MIRROR_RETRY_MAX_MS, MIRROR_RETRY_MIN_MS,
    MIRROR_TOLD_EVERY_MS, MIRROR_WINDOW_BYTES, MIRROR_WINDOW_MAX, SHADOW_LOOKS, SHADOW_QUEUE_BYTES,
};
use crate::settings::MirrorSettings;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::{Args, ReplyScanner, Scan, encode};

/// What goes to a mirror as one: a command, or a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) bytes: Vec<u8>,
    /// So many replies come.
    pub(crate) replies: u32,
    pub(crate) db: u32,
    pub(crate) keys: Vec<KeyHash>,
    /// A key of it, to ask for its server.
    pub(crate) probe: Option<Vec<u8>>,
    /// It may be done twice.
    pub(crate) repeats: bool,
    /// When the primary had done it.
    pub(crate) at: Time,
    /// Who waits for it.
    pub(crate) ticket: Option<Ticket>,
    /// It is no write but a read that is to be compared.
    pub(crate) read: Option<Box<Read>>,
}

/// What is under way.
#[derive(Debug)]
enum What {
    Entry(Entry),
    /// Whether the server of the next entry answers.
    Probe,
    /// The next entries are of this database.
    Select(u32),
}

#[derive(Debug)]
struct Sent {
    what: What,
    left: u32,
    /// The first error among its replies.
    error: Option<Vec<u8>>,
}

impl Sent {
    /// Whether the next reply is that to EXEC, the last one of a transaction.
    fn awaits_exec(&self) -> bool {
        self.left == 1 && matches!(&self.what, What::Entry(entry) if entry.replies > 1)
    }
}

/// What the outer engine has to do for a mirror.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) actions: Vec<Action>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) dirty: Vec<UpstreamId>,
    /// Who need not wait for it any more, and what it said if that was an error.
    pub(crate) answered: Vec<(Ticket, Option<Vec<u8>>)>,
    /// Reads whose replies differ.
    pub(crate) again: Vec<Read>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) settings: MirrorSettings,
    pub(crate) numbers: Numbers,
    /// It is told of what began in this epoch or later.
    pub(super) since: u64,
    /// It gets nothing new, and until then what it has in its queue.
    pub(super) leaves_at: Option<Time>,
    /// Whether respool has sent nothing to this mirror yet, and whether the mirror waits for a leaving one (`successor`).
    pub(super) is_fresh: bool,
    pub(super) is_behind: bool,
    pub(crate) engine: Box<Engine>,
    pub(crate) counts: MirrorCounts,
    queue: VecDeque<Entry>,
    window: VecDeque<Sent>,
    /// What was not reached, in order.
    again: Vec<Entry>,
    /// Keys of what was done since something was not reached.
    passed: BTreeSet<KeyHash>,
    /// Of writes.
    queue_bytes: usize,
    window_bytes: usize,
    /// Reads in the queue and in the window, and what they cost.
    pub(crate) reads: usize,
    reads_bytes: usize,
    pub(crate) tally: Tally,
    client: Option<ClientId>,
    scanner: ReplyScanner,
    input: Vec<u8>,
    /// Bytes of the reply at its begin that are not kept, as it is too long.
    skipped: usize,
    db: u32,
    /// The server must answer a question first.
    is_probing: bool,
    probed: bool,
    /// Nothing is sent before.
    hold_until: Time,
    failures: u32,
    wishes: Wishes,
    told: Told,
    /// When its deadline stands in the outer engine's list.
    pub(crate) listed_at: Option<Time>,
}

/// What the log was told, and when.
#[derive(Debug, Default)]
struct Told {
    at: Option<Time>,
    failed: u64,
    dropped: u64,
    unsure: u64,
    sample: String,
}

impl Target {
    pub(crate) fn new(settings: MirrorSettings, engine: Engine, numbers: Numbers) -> Self {
        let db = engine.settings().node.db;
        Self {
            settings,
            numbers,
            since: 0,
            leaves_at: None,
            is_fresh: true,
            is_behind: false,
            engine: Box::new(engine),
            counts: MirrorCounts::default(),
            queue: VecDeque::new(),
            window: VecDeque::new(),
            again: Vec::new(),
            passed: BTreeSet::new(),
            queue_bytes: 0,
            window_bytes: 0,
            reads: 0,
            reads_bytes: 0,
            tally: Tally::default(),
            client: None,
            scanner: ReplyScanner::default(),
            input: Vec::new(),
            skipped: 0,
            db,
            is_probing: true,
            probed: false,
            hold_until: Time::default(),
            failures: 0,
            wishes: Wishes::default(),
            told: Told::default(),
            listed_at: None,
        }
    }

    /// Whether it gets writes of this key.
    pub(crate) fn wants(&self, key: &[u8]) -> bool {
        let settings = &self.settings;
        let in_part = settings.percent >= 100 || part_of(key) < u64::from(settings.percent);
        let fits = |pattern: &Vec<u8>| glob::means(pattern, key);
        self.is_live() && in_part && (settings.keys.is_empty() || settings.keys.iter().any(fits))
    }

    /// Whether it gets a write of these keys; one without keys it gets if it gets all of them.
    pub(crate) fn wants_any(&self, keys: &[&[u8]]) -> bool {
        match keys {
            [] => self.is_live() && self.settings.keys.is_empty() && self.settings.percent >= 100,
            keys => keys.iter().any(|key| self.wants(key)),
        }
    }

    /// Takes one more. At the bound it is dropped and counted.
    pub(crate) fn enqueue(&mut self, mut entry: Entry) {
        if self.queue_bytes + entry.cost() > self.settings.queue_max_bytes {
            self.drop_one("its queue is full", entry.ticket);
            return;
        }
        self.queue_bytes += entry.cost();
        if self.settings.mode == Mode::First {
            entry.ticket = None;
        }
        self.queue.push_back(entry);
    }

    /// A write is not sent to it.
    pub(crate) fn drop_one(&mut self, why: &str, ticket: Option<Ticket>) {
        self.counts.dropped += 1;
        self.told.sample = why.to_string();
        if let Some(ticket) = ticket.filter(|_| self.settings.mode != Mode::First) {
            let mut error = Vec::new();
            let text =
                alloc::format!("ERR respool: mirror {} has not got it: {why}", self.settings.name);
            encode::error(&mut error, text.as_bytes());
            self.wishes.answered.push((ticket, Some(error)));
        }
    }

    /// Nobody knows whether the primary did something that it would have got.
    pub(crate) fn count_unsure(&mut self) {
        self.counts.unsure += 1;
        self.told.sample = "the primary was lost in the middle of a write".to_string();
    }

    /// No write waits and none is under way. Nobody waits for reads.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue_bytes == 0
    }

    /// The database there for what clients do in this one.
    pub(crate) fn db_for(&self, db: u32) -> u32 {
        if db == self.settings.outer_db { self.engine.settings().node.db } else { db }
    }

    /// When it is to be looked at again if nothing happens before.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let held = (!self.queue.is_empty() && self.hold_until > now).then_some(self.hold_until);
        let tells = self.has_untold().then(|| self.tells_at()).flatten();
        let own = [held, tells, self.leaves_at].into_iter().flatten();
        self.engine.poll_timeout(now).into_iter().chain(own).min()
    }

    /// Goes on with what can be done: to be called after everything that happens to its engine.
    pub(crate) fn run(&mut self, now: Time) -> Wishes {
        loop {
            let sent = self.feed(now);
            let heard = self.hear(now);
            if !(sent || heard) {
                break;
            }
        }
        self.collect(now);
        self.tell(now);
        core::mem::take(&mut self.wishes)
    }

    /// Sends what may be sent; whether that was anything.
    fn feed(&mut self, now: Time) -> bool {
        let mut fed = false;
        if self.window.is_empty() && !self.again.is_empty() {
            self.put_back(now);
        }
        while !self.is_behind
            && now >= self.hold_until
            && self.again.is_empty()
            && self.window_bytes < MIRROR_WINDOW_BYTES
            && self.window.len() < MIRROR_WINDOW_MAX
            && let Some(next) = self.queue.front()
        {
            let (what, bytes, left) = if self.is_probing {
                if !self.window.is_empty() {
                    break;
                }
                (What::Probe, probe(next), 1)
            } else if next.db != self.db {
                if !self.window.is_empty() {
                    break;
                }
                let mut bytes = Vec::new();
                encode::request(&mut bytes, &[b"SELECT", next.db.to_string().as_bytes()]);
                (What::Select(next.db), bytes, 1)
            } else if self.window.back().is_some_and(|last| !matches!(last.what, What::Entry(_))) {
                break;
            } else {
                let Some(entry) = self.queue.pop_front() else { break };
                let bytes = entry.bytes.clone();
                let replies = entry.replies;
                (What::Entry(entry), bytes, replies)
            };
            let Some(client) = self.client(now) else {
                self.not_reached(now, what);
                break;
            };
            self.is_fresh = false;
            self.window_bytes += bytes.len();
            self.window.push_back(Sent { what, left, error: None });
            // By a pointer, see `Engine::mirror_event`.
            core::hint::black_box(Engine::handle_client_bytes)(
                &mut self.engine,
                now,
                client,
                &bytes,
            );
            fed = true;
        }
        fed
    }

    /// The client of the inner engine.
    fn client(&mut self, now: Time) -> Option<ClientId> {
        if self.client.is_none() {
            let addr = alloc::format!("mirror:{}", self.settings.name);
            self.client = self.engine.handle_client_open(now, addr, String::new());
            if let Some(client) = self.client.and_then(|id| self.engine.clients.get_mut(id)) {
                client.sizes = Sizes::Known;
            }
            self.db = self.engine.settings().node.db;
            self.scanner = ReplyScanner::default();
            self.input.clear();
            self.skipped = 0;
        }
        self.client
    }

    /// Takes replies in; whether there were any.
    fn hear(&mut self, now: Time) -> bool {
        while let Some(id) = self.engine.poll_dirty_client() {
            while let Some(buf) = self.engine.begin_client_send(id) {
                if Some(id) == self.client {
                    self.input.extend_from_slice(&buf);
                }
                self.engine.handle_client_sent(now, id, buf);
            }
        }
        let input = core::mem::take(&mut self.input);
        let mut pos = 0;
        let mut heard = false;
        loop {
            let scanned = self.scanner.position() as usize - self.skipped;
            let Some(rest) = input.get(pos + scanned..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let Ok(Scan::Complete { consumed, .. }) = self.scanner.scan(rest) else { break };
            let end = pos + scanned + consumed;
            let is_whole = core::mem::take(&mut self.skipped) == 0;
            self.answered(now, is_whole.then_some(&input[pos..end]));
            (pos, heard) = (end, true);
        }
        let scanned = self.scanner.position() as usize - self.skipped;
        if scanned > MIRROR_REPLY_BYTES {
            if self.skipped == 0 {
                self.note_begin(&input[pos..]);
            }
            self.skipped += scanned;
            pos += scanned;
        }
        self.input = input;
        self.input.drain(..pos);
        heard
    }

    /// The begin of a reply that is too long to be kept.
    fn note_begin(&mut self, begin: &[u8]) {
        if let Some(sent) = self.window.front_mut().filter(|sent| sent.error.is_none()) {
            sent.error = error_of(begin, sent.awaits_exec());
        }
    }

    /// One reply came. `None`: it was too long to be kept.
    fn answered(&mut self, now: Time, whole: Option<&[u8]>) {
        let reply = whole.unwrap_or_default();
        let Some(sent) = self.window.front_mut() else {
            debug_assert!(false, "a mirror answers what nobody asked");
            return;
        };
        if sent.error.is_none() {
            sent.error = error_of(reply, sent.awaits_exec());
        }
        sent.left -= 1;
        if sent.left > 0 {
            return;
        }
        let Some(sent) = self.window.pop_front() else { return };
        match sent.what {
            What::Entry(mut entry) => {
                self.window_bytes -= entry.bytes.len();
                match entry.read.take() {
                    Some(read) => self.read_answered(now, *read, entry.at, whole, sent.error),
                    None => self.entry_answered(now, entry, sent.error),
                }
            }
            What::Probe => {
                self.window_bytes = 0;
                match sent.error.filter(|error| is_unreached(error)) {
                    None => {
                        (self.is_probing, self.probed, self.failures) = (false, true, 0);
                    }
                    Some(_) => self.hold(now),
                }
            }
            What::Select(db) => {
                self.window_bytes = 0;
                match sent.error {
                    None => self.db = db,
                    Some(error) if is_unreached(&error) => {
                        self.is_probing = true;
                        self.hold(now);
                    }
                    Some(error) => self.fail_database(now, db, &error),
                }
            }
        }
    }

    fn entry_answered(&mut self, now: Time, entry: Entry, error: Option<Vec<u8>>) {
        match error {
            // A script may say anything: neither is it run again, nor do others wait for what it says.
            Some(error) if runs_scripts(&entry.bytes) => self.fail(now, entry, error),
            Some(error) if is_unreached(&error) => {
                if entry.repeats || !may_be_done(&error) {
                    self.note_error(&error);
                    self.not_reached(now, What::Entry(entry));
                } else {
                    self.hold(now);
                    self.fail(now, entry, error);
                }
                self.is_probing = true;
            }
            Some(error) => self.fail(now, entry, error),
            None => {
                if !self.again.is_empty() {
                    self.passed.extend(&entry.keys);
                }
                self.counts.done += 1;
                self.queue_bytes -= entry.cost();
                self.wishes.answered.extend(entry.ticket.map(|ticket| (ticket, None)));
            }
        }
    }

    /// It will be sent again, when all of the window is answered.
    fn not_reached(&mut self, now: Time, what: What) {
        match what {
            What::Entry(Entry { read: Some(read), .. }) => self.end_read(now, &read, Fate::Void),
            What::Entry(entry) => self.again.push(entry),
            What::Probe | What::Select(_) => {}
        }
        self.hold(now);
    }

    fn fail(&mut self, now: Time, entry: Entry, error: Vec<u8>) {
        if let Some(read) = entry.read {
            return self.end_read(now, &read, Fate::Void);
        }
        self.counts.failed += 1;
        self.note_error(&error);
        self.queue_bytes -= entry.cost();
        self.wishes.answered.extend(entry.ticket.map(|ticket| (ticket, Some(error))));
    }

    /// There is no such database at the mirror: what waits for it has failed, up to the first entry of another one.
    fn fail_database(&mut self, now: Time, db: u32, error: &[u8]) {
        while self.queue.front().is_some_and(|entry| entry.db == db) {
            let Some(entry) = self.queue.pop_front() else { return };
            self.fail(now, entry, error.to_vec());
        }
    }

    /// A read is to be compared, unless the mirror is behind or away.
    pub(crate) fn ask(&mut self, now: Time, read: Read) {
        let (_, frame) = read.question();
        let args: Vec<&[u8]> = Args::new(&frame).collect();
        let oldest = self.window.front().map(|sent| &sent.what);
        let oldest = match oldest {
            Some(What::Entry(entry)) => Some(entry),
            _ => self.queue.front(),
        };
        let is_behind = oldest.is_some_and(|entry| is_late(now, entry.at));
        let is_away =
            self.is_behind || self.failures > 0 || !self.again.is_empty() || self.hold_until > now;
        let is_full = self.reads_bytes + read.cost() > SHADOW_QUEUE_BYTES;
        let is_apart = !self.engine.lie_together(core::slice::from_ref(&args));
        self.reads += 1;
        self.reads_bytes += read.cost();
        if is_behind || is_away || is_full {
            return self.end_read(now, &read, Fate::Dropped);
        }
        if is_apart {
            // Parts of a reply wait for each other, and what holds them up would hold writes up.
            return self.end_read(now, &read, Fate::Void);
        }
        self.queue.push_back(Entry {
            db: self.db_for(read.db),
            bytes: frame,
            replies: 1,
            keys: Vec::new(),
            probe: Some(read.key()),
            repeats: true,
            at: now,
            ticket: None,
            read: Some(Box::new(read)),
        });
    }

    /// The mirror answered a read.
    fn read_answered(
        &mut self,
        now: Time,
        mut read: Read,
        asked_at: Time,
        reply: Option<&[u8]>,
        error: Option<Vec<u8>>,
    ) {
        if error.is_some_and(|error| is_unreached(&error)) {
            self.is_probing = true;
            self.hold(now);
            return self.end_read(now, &read, Fate::Void);
        }
        // What was not reached before it goes again behind it.
        if !self.again.is_empty() || is_late(now, asked_at) {
            return self.end_read(now, &read, Fate::Void);
        }
        if read.doubt.is_some() {
            return self.lifetime_told(now, read, reply.unwrap_or_default());
        }
        let ttl_ms = self.settings.shadow_ttl_ms;
        if reply.is_some_and(|reply| agree(now, &read, reply, ttl_ms)) {
            return self.end_read(now, &read, Fate::Equal);
        }
        if !self.is_live() {
            return self.end_read(now, &read, Fate::Void);
        }
        self.unlist_read(&read);
        read.differed += 1;
        if read.differed >= SHADOW_LOOKS {
            let replies = [read.reply.as_slice(), reply.unwrap_or(b"(too long)")];
            read.doubt = Some(Doubt::new(read.keys(), replies));
        }
        self.wishes.again.push(read);
    }

    /// The mirror told how long a key of a read lives that differed at every look.
    fn lifetime_told(&mut self, now: Time, mut read: Read, reply: &[u8]) {
        self.unlist_read(&read);
        let Some(mut doubt) = read.doubt.take() else { return };
        let Some(fate) = doubt.answered([&read.reply, reply]) else {
            return self.wishes.again.push(Read { doubt: Some(doubt), ..read });
        };
        if fate == Fate::Different {
            let [primary, mirror] = &*doubt.replies;
            let shown = self.settings.shadow_samples.then_some([&primary[..], &mirror[..]]);
            self.tally.sample(now, read.command, &read.key(), shown);
        }
        self.tally.add(now, read.command, &read.key(), fate);
    }

    /// A read is done with.
    fn end_read(&mut self, now: Time, read: &Read, fate: Fate) {
        self.unlist_read(read);
        self.tally.add(now, read.command, &read.key(), fate);
    }

    /// A read waits here no more.
    fn unlist_read(&mut self, read: &Read) {
        self.reads -= 1;
        self.reads_bytes -= read.cost();
    }

    /// Nothing is sent for a while.
    fn hold(&mut self, now: Time) {
        if self.hold_until > now {
            return;
        }
        let wait_ms = MIRROR_RETRY_MIN_MS << self.failures.min(8);
        self.hold_until = now.plus_ms(wait_ms.min(MIRROR_RETRY_MAX_MS));
        self.failures = self.failures.saturating_add(1);
    }

    /// What was not reached goes again, before everything that came since; but nothing behind what was done after it.
    fn put_back(&mut self, now: Time) {
        for entry in core::mem::take(&mut self.again).into_iter().rev() {
            if entry.keys.iter().any(|key| self.passed.contains(key)) {
                let mut error = Vec::new();
                encode::error(&mut error, b"ERR respool: something newer of its key was done");
                self.fail(now, entry, error);
            } else {
                self.queue.push_front(entry);
            }
        }
        self.passed.clear();
        self.is_probing = true;
        self.hold(now);
    }

    /// Of its engine's wishes those that are the caller's to do.
    fn collect(&mut self, now: Time) {
        let mut is_lost = false;
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Connect(_) | Action::CloseUpstream(_) | Action::ReadUpstream(..) => {
                    self.wishes.actions.push(action);
                }
                Action::CloseClient(id) | Action::ResetClient(id) => {
                    is_lost |= self.client == Some(id);
                }
                // The window bounds what it is given; its engine has no clients that ask, and no workers beside it.
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
            self.wishes.notices.extend(named(notice, &self.settings.name));
        }
        if is_lost {
            self.client = None;
            self.client_lost(now);
        }
    }

    /// The inner engine closed its client: nobody knows what became of what was under way.
    fn client_lost(&mut self, now: Time) {
        self.window_bytes = 0;
        for sent in core::mem::take(&mut self.window) {
            let What::Entry(mut entry) = sent.what else { continue };
            if entry.repeats && entry.read.is_none() {
                // The reply to one of these may be more than the engine may hold.
                entry.repeats = false;
                self.again.push(entry);
            } else {
                let mut error = Vec::new();
                encode::error(&mut error, b"ERR respool: upstream (unknown): lost");
                self.fail(now, entry, error);
            }
        }
        self.is_probing = true;
        self.hold(now);
    }

    fn note_error(&mut self, error: &[u8]) {
        let text = error.strip_prefix(b"-").unwrap_or(error);
        let text = text.strip_suffix(b"\r\n").unwrap_or(text);
        self.told.sample = crate::reject::quoted(text);
        let word = match is_unreached(error) {
            true => "UNREACHED",
            false => self.told.sample.split(' ').next().unwrap_or_default(),
        };
        let errors = &mut self.counts.errors;
        if let Some((_, count)) = errors.iter_mut().find(|(known, _)| known == word) {
            *count += 1;
        } else if errors.len() < MIRROR_ERROR_KINDS_MAX {
            errors.push((word.to_string(), 1));
        }
    }

    fn has_untold(&self) -> bool {
        let (told, counts) = (&self.told, &self.counts);
        (told.failed, told.dropped, told.unsure) != (counts.failed, counts.dropped, counts.unsure)
    }

    fn tells_at(&self) -> Option<Time> {
        self.told.at.map(|at| at.plus_ms(MIRROR_TOLD_EVERY_MS))
    }

    /// Tells the log what went wrong, once in a while.
    fn tell(&mut self, now: Time) {
        if !self.has_untold() || self.tells_at().is_some_and(|at| at > now) {
            return;
        }
        let (told, counts) = (&mut self.told, &self.counts);
        self.wishes.notices.push(Notice::Mirror {
            name: self.settings.name.clone(),
            failed: counts.failed - told.failed,
            dropped: counts.dropped - told.dropped,
            unsure: counts.unsure - told.unsure,
            sample: core::mem::take(&mut told.sample),
        });
        (told.failed, told.dropped, told.unsure) = (counts.failed, counts.dropped, counts.unsure);
        told.at = Some(now);
    }

    /// As a report shows it.
    pub(crate) fn report(&self, now: Time) -> MirrorReport {
        let entries = self.window.iter().filter_map(|sent| match &sent.what {
            What::Entry(entry) => Some(entry),
            What::Probe | What::Select(_) => None,
        });
        let is_write = |entry: &&Entry| entry.read.is_none();
        let all = || entries.clone().chain(&self.again).chain(&self.queue).filter(is_write);
        MirrorReport {
            name: self.settings.name.clone(),
            mode: self.settings.mode.name(),
            state: match (self.probed, self.is_probing) {
                _ if !self.is_live() => LEAVING,
                (_, true) if self.failures > 0 => WAITING,
                (false, _) => IDLE,
                _ => READY,
            },
            queued: all().count() as u64,
            queued_bytes: self.queue_bytes as u64,
            lag_us: all().map(|entry| now.since(entry.at)).max().unwrap_or(0),
            counts: self.counts.clone(),
            shadow: (self.settings.shadow_percent > 0).then(|| self.tally.counts()),
        }
    }

    /// Bytes of what it is told, and of what its engine holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let inner = self.engine.holdings();
        self.queue_bytes + self.reads_bytes + self.input.len() + inner.own + inner.common
    }

    /// See the module.
    pub(crate) fn check(&self) {
        let window = self.window.iter().filter_map(|sent| match &sent.what {
            What::Entry(entry) => Some(entry),
            What::Probe | What::Select(_) => None,
        });
        let all = window.chain(&self.again).chain(&self.queue);
        let (reads, writes): (Vec<&Entry>, Vec<&Entry>) = all.partition(|one| one.read.is_some());
        let bytes: usize = writes.iter().map(|entry| entry.cost()).sum();
        assert_eq!(bytes, self.queue_bytes, "bytes of a mirror");
        let cost: usize = reads.iter().filter_map(|one| Some(one.read.as_ref()?.cost())).sum();
        assert_eq!((reads.len(), cost), (self.reads, self.reads_bytes), "reads of a mirror");
        self.engine.check_invariants();
    }
}

/// From 0 to 99, the same for a key for ever and everywhere.
fn part_of(key: &[u8]) -> u64 {
    rapidhash::v3::rapidhash_v3(key) % 100
}

/// A question that goes where this entry goes.
fn probe(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    match &entry.probe {
        Some(key) => encode::request(&mut bytes, &[b"EXISTS", key]),
        None => encode::request(&mut bytes, &[b"DBSIZE"]),
    }
    bytes
}

/// What is told of the inner engine, so that it is seen which it is.
fn named(notice: Notice, name: &str) -> Option<Notice> {
    let of = |node: String| alloc::format!("mirror {name}: {node}");
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
