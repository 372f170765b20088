//! What a worker keeps of its operator's programs: a judge for each rule, what was said about requests that wait, and counts.
//!
//! Not here: what is asked (`judge`).
//!
//! Invariant: what is kept for waiting requests has at most `limits::OWN_KEPT_BYTES_MAX`, and is gone with the request.

use super::{FAILURES, Failure, Judge, Judgement, Program, Programs, Verdict, View};
use crate::elsewhere::Asks;
use crate::ids::ClientId;
use crate::limits::{
    OWN_FAILURES_MAX, OWN_KEPT_BYTES_MAX, OWN_LINES_MAX, OWN_REST_MS, POLICY_NAMES_MAX,
};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What the program of the rules of one name did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnReport {
    /// The name.
    pub name: String,
    /// Requests that it let pass.
    pub passed: u64,
    /// That it answered.
    pub answered: u64,
    /// That it refused.
    pub refused: u64,
    /// That it rewrote.
    pub rewritten: u64,
    /// Of which it said who is asked.
    pub routed: u64,
    /// Of which it said nothing that could be used, by [`FAILURES`].
    pub failures: [u64; FAILURES.len()],
    /// It was not asked about, as it rested.
    pub rested: u64,
    /// What all that took.
    pub fuel: u64,
}

impl OwnReport {
    /// Adds what the rules of the same name did at another worker.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.answered += other.answered;
        self.refused += other.refused;
        self.rewritten += other.rewritten;
        self.routed += other.routed;
        self.failures.iter_mut().zip(other.failures).for_each(|(own, more)| *own += more);
        self.rested += other.rested;
        self.fuel += other.fuel;
    }

    /// What came of requests, each with its name for figures. Failures by themselves: [`Self::failures`].
    #[must_use]
    pub fn outcomes(&self) -> [(&'static str, u64); 7] {
        [
            ("passed", self.passed),
            ("answered", self.answered),
            ("refused", self.refused),
            ("rewritten", self.rewritten),
            ("failed", self.failures.iter().sum()),
            ("rested", self.rested),
            ("routed", self.routed),
        ]
    }
}

/// One rule's program at work.
#[derive(Default)]
struct Slot {
    program: Option<Arc<dyn Program>>,
    /// `None`: none was needed yet, or the last one failed.
    judge: Option<Box<dyn Judge>>,
    failures_in_row: u32,
    rests_until: Time,
}

/// What was said about a request that waits for something else.
#[derive(Clone)]
pub(super) enum Kept {
    Passed,
    Rewritten(Vec<u8>),
    Answered(Vec<u8>),
    Routed(Asks),
}

impl Kept {
    fn bytes(&self) -> usize {
        match self {
            Self::Passed | Self::Routed(_) => 0,
            Self::Rewritten(bytes) | Self::Answered(bytes) => bytes.len(),
        }
    }
}

/// What a rule says about a request.
pub(super) enum Said {
    /// See [`Verdict`].
    Verdict(Verdict),
    /// It failed; the first time in a row.
    Failed(Failure, bool),
    /// It rests.
    Rests,
}

/// See the module.
#[derive(Default)]
pub(crate) struct State {
    slots: Vec<Slot>,
    kept: BTreeMap<ClientId, Kept>,
    kept_bytes: usize,
    /// What was said about the request that is under way just now.
    pub(super) fresh: Option<Kept>,
    /// Who is asked for the request that is under way just now.
    pub(super) asks: Option<Asks>,
    reports: BTreeMap<String, OwnReport>,
    /// Lines of this second that were told.
    lines: (u64, u32),
}

impl State {
    /// Other programs: a judge of one that stays goes on.
    pub(in crate::policy) fn change(&mut self, programs: &Programs) {
        let mut before = core::mem::take(&mut self.slots);
        self.slots.extend(programs.iter().map(|program| {
            let is_same = |slot: &Slot| match (&slot.program, program) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                _ => false,
            };
            match before.iter().position(is_same) {
                Some(at) => before.swap_remove(at),
                None => Slot { program: program.clone(), ..Slot::default() },
            }
        }));
        self.kept.clear();
        self.kept_bytes = 0;
        self.fresh = None;
    }

    /// Asks one rule's program.
    pub(super) fn ask(
        &mut self,
        now: Time,
        at: usize,
        programs: &Programs,
        view: &View<'_>,
    ) -> (Said, u64, Option<String>) {
        if self.slots.len() != programs.len() {
            self.change(programs);
        }
        let Some(slot) = self.slots.get_mut(at) else { return (Said::Rests, 0, None) };
        if slot.rests_until > now {
            return (Said::Rests, 0, None);
        }
        if slot.judge.is_none() {
            let made = slot.program.as_ref().map_or(Err(Failure::Start), |program| program.judge());
            slot.judge = made.ok();
        }
        let failed = Judgement { verdict: Err(Failure::Start), fuel: 0, line: None };
        let judgement = slot.judge.as_mut().map_or(failed, |judge| judge.request(view));
        let said = match judgement.verdict {
            Ok(verdict) => {
                slot.failures_in_row = 0;
                Said::Verdict(verdict)
            }
            Err(failure) => Said::Failed(failure, self.fail(now, at)),
        };
        (said, judgement.fuel, judgement.line)
    }

    /// A program failed: its judge is not asked again. Whether it is the first time in a row.
    pub(super) fn fail(&mut self, now: Time, at: usize) -> bool {
        let Some(slot) = self.slots.get_mut(at) else { return true };
        slot.judge = None;
        slot.failures_in_row += 1;
        let is_first = slot.failures_in_row == 1;
        if slot.failures_in_row >= OWN_FAILURES_MAX {
            slot.failures_in_row = 0;
            slot.rests_until = now.plus_ms(OWN_REST_MS);
        }
        is_first
    }

    /// The counts of this name; those of all others together, when there are too many names.
    pub(super) fn report(&mut self, name: &str) -> &mut OwnReport {
        let is_full = self.reports.len() >= POLICY_NAMES_MAX && !self.reports.contains_key(name);
        let name = if is_full { "" } else { name };
        let report = self.reports.entry(name.into()).or_default();
        report.name = name.into();
        report
    }

    /// Whether one more line may be told in this second.
    pub(super) fn may_tell(&mut self, now: Time) -> bool {
        let second = now.0 / 1_000_000;
        if self.lines.0 != second {
            self.lines = (second, 0);
        }
        self.lines.1 += 1;
        self.lines.1 <= OWN_LINES_MAX
    }

    pub(in crate::policy) fn held_bytes(&self) -> usize {
        self.kept_bytes + self.kept.len() * size_of::<(ClientId, Kept)>()
    }

    pub(super) fn kept(&self, id: ClientId) -> Option<Kept> {
        self.kept.get(&id).cloned()
    }

    /// No request is under way any more.
    pub(in crate::policy) fn end_request(&mut self) {
        self.fresh = None;
    }

    /// The request under way must wait: what was said about it holds until it is done.
    pub(in crate::policy) fn keep(&mut self, id: ClientId) {
        let Some(fresh) = self.fresh.take() else { return };
        if self.kept_bytes + fresh.bytes() <= OWN_KEPT_BYTES_MAX {
            self.forget(id);
            self.kept_bytes += fresh.bytes();
            self.kept.insert(id, fresh);
        }
    }

    /// The request is done, or its client gone.
    pub(in crate::policy) fn forget(&mut self, id: ClientId) {
        if let Some(kept) = self.kept.remove(&id) {
            self.kept_bytes -= kept.bytes();
        }
    }

    pub(in crate::policy) fn reports(&self) -> Vec<OwnReport> {
        self.reports.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_requests_that_wait_is_bounded() {
        let mut state = State::default();
        let half = OWN_KEPT_BYTES_MAX / 2 + 1;
        for index in 0..3 {
            state.fresh = Some(Kept::Rewritten(alloc::vec![b'x'; half]));
            state.keep(ClientId::new(index, 0));
        }
        assert!(
            state.kept(ClientId::new(0, 0)).is_some() && state.kept(ClientId::new(1, 0)).is_none()
        );
        state.forget(ClientId::new(0, 0));
        assert_eq!(state.kept_bytes, 0);
        state.fresh = Some(Kept::Answered(alloc::vec![b'x'; half]));
        state.keep(ClientId::new(1, 0));
        assert!(state.kept(ClientId::new(1, 0)).is_some());
    }

    #[test]
    fn a_program_that_fails_again_and_again_rests_and_is_tried_again() {
        let mut state = State::default();
        state.change(&alloc::vec![None]);
        let view = View {
            request: b"*1\r\n$4\r\nPING\r\n",
            user: b"default",
            client_address: "",
            client_name: b"",
            client: 1,
            db: 0,
            protocol: 2,
            is_inside: false,
            unix_ms: 0,
            random: 0,
        };
        let mut ask =
            |ms: u64| state.ask(Time::default().plus_ms(ms), 0, &alloc::vec![None], &view).0;
        for round in 0..2 {
            let at = round * OWN_REST_MS;
            for count in 0..OWN_FAILURES_MAX {
                let said = ask(at);
                assert!(
                    matches!(said, Said::Failed(Failure::Start, first) if first == (count == 0))
                );
            }
            assert!(matches!(ask(at), Said::Rests));
            assert!(matches!(ask(at + OWN_REST_MS - 1), Said::Rests));
        }
    }

    #[test]
    fn lines_of_one_second_are_bounded() {
        let mut state = State::default();
        let told = (0..100).filter(|_| state.may_tell(Time(5))).count();
        assert_eq!(told, OWN_LINES_MAX as usize);
        assert!(state.may_tell(Time(1_000_000)));
    }

    #[test]
    fn further_names_are_counted_together() {
        let mut state = State::default();
        for number in 0..2 * POLICY_NAMES_MAX {
            state.report(&alloc::format!("r{number}")).passed += 1;
        }
        assert_eq!(state.reports().len(), POLICY_NAMES_MAX + 1);
        assert_eq!(state.report("").passed, POLICY_NAMES_MAX as u64);
    }
}
