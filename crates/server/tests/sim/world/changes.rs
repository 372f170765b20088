//! The control thread of a world: it has the workers change, some of them a turn before the others, and hears when all have.
//!
//! Not here: what changes and when (`plan::changing`), what a worker does with it (`server::worker`).
//!
//! Invariant: a change begins when all workers have made the one before, as in the product.

use std::sync::mpsc::Receiver;

use engine::fleet::{Answer, Questioner, ReplyTo};
use netio::Tuning;
use server::worker::mailbox::{Change as WorkerChange, Message, Upward};
use server::worker::tls::TlsSettings;

use super::{World, gather};
use crate::crew::entrances;

/// How often servers were replaced so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// In all workers: nobody sends anything to those before.
    pub(crate) settled: usize,
    /// In any worker, perhaps.
    pub(crate) begun: usize,
}

/// What a run came to by its changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changed {
    /// Changes of the configuration.
    pub(crate) changes: u64,
    /// Those by which another deployment was named.
    pub(crate) replaced: u64,
    /// Requests that were under way then.
    pub(crate) under_way: u64,
}

/// See the module.
pub(super) struct Changes {
    pub(super) epochs: Epochs,
    pub(super) came_to: Changed,
    /// What workers say to the control thread.
    told: Receiver<Upward>,
    /// Changes that have begun.
    begun: usize,
    /// Workers that have not been told of the last one.
    untold: Vec<usize>,
    /// Workers that have not answered.
    unanswered: usize,
}

impl Changes {
    pub(super) fn new(told: Receiver<Upward>) -> Self {
        Self {
            epochs: Epochs::default(),
            came_to: Changed::default(),
            told,
            begun: 0,
            untold: Vec::new(),
            unanswered: 0,
        }
    }
}

impl World {
    /// Whether all planned changes were made by all workers.
    pub(super) fn has_changed(&self) -> bool {
        self.changes.begun == self.plan.changes.len() && self.changes.unanswered == 0
    }

    /// When the next change begins, or the last one goes on.
    pub(super) fn next_change_us(&self) -> Option<u64> {
        if self.draining {
            return None;
        }
        if !self.changes.untold.is_empty() {
            return Some(self.net.now_us());
        }
        let next = self.plan.changes.get(self.changes.begun);
        next.filter(|_| self.changes.unanswered == 0).map(|change| self.begun_us + change.at_us)
    }

    /// Has the workers change as far as it is time; to be called before their turns.
    pub(super) fn change(&mut self) {
        if self.draining {
            return;
        }
        for worker in std::mem::take(&mut self.changes.untold) {
            self.tell_change(worker);
        }
        let due = self.changes.unanswered == 0
            && self.next_change_us().is_some_and(|at_us| at_us <= self.net.now_us());
        if !due {
            return;
        }
        let change = &self.plan.changes[self.changes.begun];
        let (first, replaces) = (change.first, change.replaces);
        self.changes.came_to.changes += 1;
        if replaces && self.plan.settings.node.address != change.settings.node.address {
            let reports = self.workers.iter().flatten().map(|worker| worker.engine());
            let under_way = reports.map(|engine| engine.report(engine::Time::default()).inflight);
            self.changes.came_to.replaced += 1;
            self.changes.came_to.under_way += under_way.sum::<u64>();
        }
        self.plan.settings = change.settings.clone();
        self.changes.begun += 1;
        self.changes.epochs.begun += usize::from(replaces);
        self.changes.unanswered = self.workers.len();
        // Which of them are first is another one each time.
        let count = self.workers.len();
        let at = |worker: usize| (worker + self.changes.begun) % count;
        let (now, later): (Vec<_>, Vec<_>) = (0..count).partition(|worker| at(*worker) < first);
        now.into_iter().for_each(|worker| self.tell_change(worker));
        self.changes.untold = later;
    }

    fn tell_change(&mut self, worker: usize) {
        let change = &self.plan.changes[self.changes.begun - 1];
        let change = WorkerChange {
            settings: engine::Settings {
                worker: worker as u32,
                workers: self.plan.workers as u32,
                ..change.settings.clone()
            },
            tenants: Vec::new(),
            leave_ms: 0,
            gather: gather(change.gather_us),
            clients_max: self.plan.clients_max,
            entrances: entrances(),
            listeners: Vec::new(),
            tuning: Tuning::default(),
            tls: TlsSettings::default(),
        };
        let to = ReplyTo {
            who: Questioner::Control,
            tenant: engine::tenancy::TenantId::DEFAULT,
            login: None,
            ticket: self.changes.begun as u64,
        };
        self.posts[worker].send(Message::Configure(to, Box::new(change)));
    }

    /// Hears who has changed; to be called behind the workers' turns.
    pub(super) fn hear_of_changes(&mut self) -> Result<(), String> {
        while let Ok(word) = self.changes.told.try_recv() {
            let Upward::Answer(ticket, Answer::Done) = &word else { continue };
            if *ticket != self.changes.begun as u64 || self.changes.unanswered == 0 {
                return Err(format!("a worker answers change {ticket} once more"));
            }
            self.changes.unanswered -= 1;
            if self.changes.unanswered == 0 {
                self.changes.epochs.settled = self.changes.epochs.begun;
            }
        }
        Ok(())
    }

    /// All is quiet: nobody is connected any more to servers that are not named.
    pub(super) fn check_replaced(&self) -> Result<(), String> {
        let open = self.site.open_conns_of_each();
        let named = self.plan.in_force()[self.changes.epochs.begun];
        match open.iter().enumerate().find(|(number, open)| *number != named && **open > 0) {
            Some((number, open)) => Err(format!(
                "{open} connections to deployment {number}, and the settings name {named}\n{}",
                self.describe()
            )),
            None => Ok(()),
        }
    }
}
