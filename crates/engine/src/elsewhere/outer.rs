//! How the engines of targets reach the network: as those of mirrors do, by numbers behind theirs (`mirror::outer`).
//!
//! Not here: what they are asked (`super`).
//!
//! Invariant: each deadline stands in the list once, where `listed_at` says.

use super::target::Target;
use super::{Elsewhere, Engine};
use crate::ids::UpstreamId;
use crate::limits::MIRRORS_MAX;
use crate::mirror::marker;
use crate::time::Time;

/// The number of the first target, where mirrors have theirs.
pub(crate) const FIRST: usize = MIRRORS_MAX;

/// The number of no target: the deadline of the first read stands in the list by it.
const ASKED: usize = 29;

/// What stands in the list of deadlines for it.
pub(super) fn asked_marker() -> UpstreamId {
    marker(ASKED as u32)
}

impl Elsewhere {
    /// The target whose connections have this number, if there is one.
    pub(crate) fn target(&self, number: usize) -> Option<&Target> {
        self.targets.iter().find(|target| target.numbers.number == number)
    }

    pub(crate) fn target_mut(&mut self, number: usize) -> Option<&mut Target> {
        self.targets.iter_mut().find(|target| target.numbers.number == number)
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// How many deadlines stand in the list.
    pub(crate) fn listed(&self) -> usize {
        let listed = self.targets.iter().filter(|target| target.listed_at.is_some());
        listed.count() + usize::from(self.listed_at.is_some())
    }

    /// Whether clients wait for something here.
    pub(crate) fn owes_clients(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Checks what must hold; for debug builds.
    pub(crate) fn check(&self) {
        self.targets.iter().for_each(Target::check);
        assert!(!self.is_backing, "a read that was not written");
        assert_eq!(self.deadlines.len(), self.asked.len(), "a read without a deadline");
        for (ticket, asked) in &self.asked {
            assert!(self.deadlines.contains(&(asked.due, *ticket)), "a deadline of another time");
            let merge = asked.merge.map(|merge| self.merges.get(&merge));
            assert!(merge.is_none_or(|known| known == Some(ticket)), "a merge of another read");
            assert!(asked.pending != 0 || asked.merge.is_some(), "a read that nobody answers");
        }
        let merges = self.asked.values().filter(|asked| asked.merge.is_some()).count();
        assert_eq!(self.merges.len(), merges, "a merge of no read");
        assert_eq!(self.listed_at, self.deadlines.first().map(|(at, _)| *at), "not listed in time");
    }
}

impl Engine {
    /// Something happened to a connection of the target with this number.
    pub(crate) fn read_target_event(
        &mut self,
        now: Time,
        (number, id): (usize, UpstreamId),
        event: &mut dyn FnMut(&mut Self, UpstreamId),
    ) {
        let target = self.elsewhere.as_mut().and_then(|elsewhere| elsewhere.target_mut(number));
        let Some(target) = target else { return };
        let id = target.numbers.inner(id);
        target.is_touched = true;
        core::hint::black_box(event)(&mut target.engine, id);
        self.run_elsewhere(now);
    }

    /// A deadline has come, and stands in the list no more.
    pub(crate) fn read_target_due(&mut self, now: Time, number: usize) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        if number == ASKED {
            elsewhere.listed_at = None;
            self.asked_due(now);
        } else if let Some(target) = elsewhere.target_mut(number) {
            target.listed_at = None;
            target.is_touched = true;
            core::hint::black_box(Self::handle_timeout)(&mut target.engine, now);
        }
        self.run_elsewhere(now);
    }

    /// All targets go on with what they can do, until there is nothing more.
    pub(crate) fn run_elsewhere(&mut self, now: Time) {
        while let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.now = elsewhere.now.max(now);
            let now = elsewhere.now;
            let Some(at) = elsewhere.targets.iter().position(|target| target.is_touched) else {
                break;
            };
            let target = &mut elsewhere.targets[at];
            let (numbers, wishes) = (target.numbers, target.run(now));
            let next = target.poll_timeout(now);
            let before = core::mem::replace(&mut target.listed_at, next);
            self.list_again(marker(numbers.number as u32), before, next);
            self.carry_out(numbers, wishes.actions, wishes.dirty);
            self.notices.extend(wishes.notices);
            for (ticket, heard) in wishes.answers {
                self.answered_elsewhere(now, at, ticket, &heard);
            }
        }
        self.list_asked();
    }

    /// When the first read has waited for too long stands in the list.
    pub(super) fn list_asked(&mut self) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        let at = elsewhere.deadlines.first().map(|(at, _)| *at);
        let before = core::mem::replace(&mut elsewhere.listed_at, at);
        self.list_again(asked_marker(), before, at);
    }
}
