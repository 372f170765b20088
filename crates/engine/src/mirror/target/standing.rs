//! How one mirror stands to the configuration: it is one, gets other options, or goes and gets what waits for it.
//!
//! Not here: which of them stay (`mirror::change`).
//!
//! Invariant: one that goes takes nothing new, and nobody waits for it.

use super::super::KeyHash;
use super::super::Mode;
use super::super::shadow::Fate;
use super::{Entry, Target, What, Wishes};
use crate::engine::{Engine, Notice};
use crate::ids::UpstreamId;
use crate::settings::{MirrorSettings, Settings};
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;

impl Entry {
    /// Bytes that it holds.
    pub(super) fn cost(&self) -> usize {
        let probe = self.probe.as_ref().map_or(0, Vec::len);
        let keys = self.keys.len() * size_of::<KeyHash>();
        self.bytes.len() + keys + probe + size_of::<Self>()
    }
}

impl Target {
    /// Whether it is one of the configuration's, and does not only get what it was to get.
    pub(crate) fn is_live(&self) -> bool {
        self.leaves_at.is_none()
    }

    /// It among several.
    pub(in crate::mirror) fn bit(&self) -> u32 {
        1 << self.numbers.number
    }

    /// Whether it is told of what began in this epoch.
    pub(in crate::mirror) fn takes_from(&self, epoch: u64) -> bool {
        self.is_live() && self.since <= epoch
    }

    /// Whether it is to go, and has what it was to get, or has had its time.
    pub(in crate::mirror) fn is_over(&self, now: Time) -> bool {
        self.leaves_at.is_some_and(|at| at <= now || self.is_idle())
    }

    /// Other settings of the same servers.
    pub(in crate::mirror) fn change(
        &mut self,
        settings: MirrorSettings,
        inner: Settings,
        now: Time,
    ) {
        self.settings = settings;
        if self.settings.mode == Mode::First {
            self.release_waiters();
        }
        let inner = Settings { users: self.engine.settings().users.clone(), ..inner };
        core::hint::black_box(Engine::reconfigure)(&mut self.engine, now, inner);
    }

    /// It gets what waits for it, until then, and nothing more.
    pub(in crate::mirror) fn leave(&mut self, now: Time, until: Time) {
        self.leaves_at = Some(until);
        self.release_waiters();
        let (reads, writes) = self.queue.drain(..).partition(|entry| entry.read.is_some());
        self.queue = writes;
        let reads: VecDeque<Entry> = reads;
        for read in reads.into_iter().filter_map(|entry| entry.read) {
            self.end_read(now, &read, Fate::Void);
        }
    }

    /// Nobody waits for it any more.
    fn release_waiters(&mut self) {
        let window = self.window.iter_mut().filter_map(|sent| match &mut sent.what {
            What::Entry(entry) => Some(entry),
            What::Probe | What::Select(_) => None,
        });
        let all = window.chain(&mut self.again).chain(&mut self.queue);
        let tickets = all.filter_map(|entry| entry.ticket.take());
        self.wishes.answered.extend(tickets.map(|ticket| (ticket, None)));
    }

    /// Its time is up: what it has not got is counted. Its connections, which are to be closed.
    pub(in crate::mirror) fn end(&mut self, now: Time) -> (Wishes, Vec<UpstreamId>) {
        self.release_waiters();
        let sent =
            core::mem::take(&mut self.window).into_iter().filter_map(|sent| match sent.what {
                What::Entry(entry) => Some(entry),
                What::Probe | What::Select(_) => None,
            });
        let (sent, waiting): (Vec<Entry>, Vec<Entry>) = (
            sent.collect(),
            core::mem::take(&mut self.again).into_iter().chain(self.queue.drain(..)).collect(),
        );
        for (entry, was_sent) in sent
            .into_iter()
            .map(|one| (one, true))
            .chain(waiting.into_iter().map(|one| (one, false)))
        {
            if let Some(read) = entry.read {
                self.end_read(now, &read, Fate::Void);
                continue;
            }
            self.queue_bytes -= entry.cost();
            // Nobody knows what became of what was sent.
            match was_sent {
                true => self.counts.failed += 1,
                false => self.counts.dropped += 1,
            }
            self.told.sample = "it is no mirror any more".to_string();
        }
        self.told.at = None;
        self.tell(now);
        let counts = &self.counts;
        self.wishes.notices.push(Notice::MirrorGone {
            name: self.settings.name.clone(),
            done: counts.done,
            missed: counts.failed + counts.dropped + counts.unsure,
        });
        (core::mem::take(&mut self.wishes), self.engine.upstreams.ids())
    }

    /// A blocking command waited at the primary when there was no mirror yet, and may take something that is not told.
    pub(in crate::mirror) fn note_blocked(&mut self) {
        self.counts.unsure += 1;
        self.told.sample = "a blocking command waited before it was a mirror".to_string();
    }
}
