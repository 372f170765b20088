//! What an engine keeps for its policies: whose requests wait, what was decided for them, what was done.
//!
//! ```text
//!   judged:   client ─▶ until when its next request waits, and what it gets then        delayed: (when, client), in that order
//! ```
//! All of it is in one box beside the engine, which is not there before the first policy is. Its timer stands among the deadlines of upstreams
//! under a name that no upstream has ([`WAKE`]), so that whoever looks for the next deadline finds it without asking.
//!
//! Invariant: who is in `delayed` is in `judged` with the same time; `wake_at` is not after the first thing to do.

use super::change::Changing;
use super::delayed::Delayed;
use super::double_delete::Queue;
use super::{Kind, Namespace, Refusal, own};
use crate::client::Hold;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::POLICY_NAMES_MAX;
use crate::request::Step;
use crate::settings::Settings;
use crate::shares::Group;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// The deadline of policies among those of upstreams. No slab has so many places.
pub(crate) const WAKE: UpstreamId = UpstreamId::new(u32::MAX, 0);

/// What became of requests, as figures call it.
pub const OUTCOMES: [&str; 5] = ["refused", "delayed", "repeated", "dropped", "failed"];

/// What became of a request; an index of [`OUTCOMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It got an error.
    Refused,
    /// It waited.
    Delayed,
    /// A key of it was deleted once more.
    Repeated,
    /// That, or a delay, was left out, as too many wait.
    Dropped,
    /// Deleting once more was given up.
    Failed,
}

/// What the rules of one name did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Which policy.
    pub kind: Kind,
    /// The name of the rule; empty: rules without one.
    pub name: String,
    /// How often, by [`OUTCOMES`].
    pub counts: [u64; OUTCOMES.len()],
}

/// What was decided for a client's next request.
#[derive(Default)]
pub(super) struct Judged {
    /// It goes on then.
    pub(super) at: Time,
    /// And gets this.
    pub(super) refusal: Option<Refusal>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct State {
    pub(super) judged: BTreeMap<ClientId, Judged>,
    pub(super) delayed: Delayed,
    /// Whose request is under way just now, after it was judged.
    pub(super) current: Option<ClientId>,
    pub(super) deletes: Queue,
    pub(super) wake_at: Option<Time>,
    pub(super) own: own::State,
    pub(super) changing: Changing,
    counts: BTreeMap<(Kind, String), [u64; OUTCOMES.len()]>,
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} delayed", self.delayed.len())
    }
}

impl State {
    /// Bytes kept for requests that wait, and for keys that are to be deleted once more.
    pub(crate) fn held_bytes(&self) -> usize {
        self.deletes.held_bytes() + self.own.held_bytes() + self.changing.held_bytes()
    }

    pub(super) fn count(&mut self, kind: Kind, name: &str, outcome: Outcome) {
        self.count_times(kind, name, outcome, 1);
    }

    /// A rule of this name had this outcome for so many keys.
    pub(super) fn count_times(&mut self, kind: Kind, name: &str, outcome: Outcome, times: u64) {
        let is_full = self.counts.len() >= POLICY_NAMES_MAX;
        let mut key = (kind, String::from(name));
        if is_full && !self.counts.contains_key(&key) {
            key.1.clear();
        }
        self.counts.entry(key).or_default()[outcome as usize] += times;
    }

    /// What was decided for the client's request is of no account any more.
    pub(super) fn end_judged(&mut self, id: ClientId) {
        if let Some(judged) = self.judged.remove(&id) {
            self.delayed.remove(judged.at, id);
        }
    }

    fn forget(&mut self, id: ClientId) {
        self.end_judged(id);
        self.deletes.forget(id);
        self.own.forget(id);
    }

    /// When there is something to do next.
    fn next_at(&self) -> Option<Time> {
        self.delayed.next_at().into_iter().chain(self.deletes.next_at()).min()
    }
}

impl Engine {
    /// What policies did so far.
    pub(crate) fn policy_outcomes(&self) -> Vec<Outcomes> {
        let counts = self.policy.iter().flat_map(|state| &state.counts);
        counts
            .map(|((kind, name), counts)| Outcomes {
                kind: *kind,
                name: name.clone(),
                counts: *counts,
            })
            .collect()
    }

    /// The client is gone.
    #[inline]
    pub(crate) fn forget_judged(&mut self, id: ClientId) {
        if let Some(state) = &mut self.policy {
            state.forget(id);
        }
    }

    /// What became of a request that went the long way: what was decided for it holds until it is done.
    pub(crate) fn end_judging(&mut self, now: Time, id: ClientId, step: &Step) {
        let Some(state) = &mut self.policy else { return };
        let is_current = state.current.take() == Some(id);
        if matches!(step, Step::Hold(_) | Step::More) {
            state.own.keep(id);
        }
        state.own.end_request();
        match step {
            Step::Done => {
                state.end_judged(id);
                state.own.forget(id);
                self.keep_deletes(now, id);
            }
            Step::Hold(_) | Step::More if is_current => {
                state.judged.entry(id).or_insert(Judged { at: now, refusal: None });
                state.deletes.unmark();
            }
            _ => state.deletes.unmark(),
        }
    }

    /// The request of this client goes on then and not before.
    pub(super) fn delay(&mut self, id: ClientId, at: Time, refusal: Option<Refusal>) {
        let client = self.clients.get(id);
        let group = client.map(|client| Group::of(client, &self.settings.users));
        let group = group.unwrap_or_default();
        let Some(state) = &mut self.policy else { return };
        state.judged.insert(id, Judged { at, refusal });
        state.delayed.add(at, id, group);
        self.wake_policies();
    }

    /// The next thing to do is looked at in time.
    pub(super) fn wake_policies(&mut self) {
        let Some(state) = &mut self.policy else { return };
        let Some(at) = state.next_at() else { return };
        if state.wake_at.is_some_and(|wake_at| wake_at <= at) {
            return;
        }
        if let Some(before) = state.wake_at.replace(at) {
            self.deadlines.remove(&(before, WAKE));
        }
        self.deadlines.insert((at, WAKE));
    }

    /// Does what is due.
    pub(crate) fn policies_due(&mut self, now: Time) {
        let Some(state) = &mut self.policy else { return };
        if let Some(wake_at) = state.wake_at.take_if(|wake_at| *wake_at <= now) {
            self.deadlines.remove(&(wake_at, WAKE));
        }
        while let Some(id) = state.delayed.take_due(now) {
            if let Some(client) = self.clients.get_mut(id)
                && client.hold == Hold::Delayed
                && !client.queued
            {
                client.queued = true;
                self.resume.push_back(id);
            }
        }
        self.run_deletes(now);
        self.wake_policies();
    }

    /// Other policies: who may go the shortest way, and nobody waits any longer for what may not be wanted any more.
    pub(crate) fn change_policies(&mut self, now: Time, old: &Settings) {
        let before = old.policies.as_ref().and_then(|one| one.rules().namespace.as_ref());
        if self.namespace().map(Namespace::prefix) != before.map(Namespace::prefix) {
            self.leave_namespace();
        }
        if self.settings.policies.is_some() && self.policy.is_none() {
            self.policy = Some(Box::default());
        }
        self.renew_access();
        self.close_who_awaits_in_vain();
        let Some(state) = &mut self.policy else { return };
        let programs = self.settings.policies.as_deref().map(|policies| &policies.programs);
        state.own.change(programs.unwrap_or(&Vec::new()));
        for judged in state.judged.values_mut() {
            *judged = Judged { at: judged.at.min(now), refusal: None };
        }
        state.delayed.end_all(now);
        self.policies_due(now);
    }

    /// See the module.
    pub(crate) fn check_policies(&self) {
        self.check_changed();
        assert!(self.settings.policies.is_none() || self.policy.is_some(), "policies in force");
        let Some(state) = &self.policy else { return };
        for (at, id) in state.delayed.iter() {
            let judged = state.judged.get(&id).map(|judged| judged.at);
            assert_eq!(judged, Some(at), "a request that waits and nobody knows why");
        }
        if let Some(at) = state.next_at() {
            assert!(state.wake_at.is_some_and(|wake_at| wake_at <= at), "policies sleep");
        }
        for (id, client) in self.clients.iter().filter(|(_, client)| client.hold == Hold::Delayed) {
            let waits = state.judged.get(&id).is_some_and(|judged| {
                client.queued || self.resume.contains(&id) || state.delayed.contains(judged.at, id)
            });
            assert!(waits, "a delayed client that nobody will wake");
        }
    }

    /// Whether the timer of policies stands among the deadlines.
    pub(crate) fn policies_sleep(&self) -> bool {
        self.policy.as_ref().is_some_and(|state| state.wake_at.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn further_names_are_counted_together() {
        let mut state = State::default();
        for number in 0..2 * POLICY_NAMES_MAX {
            state.count(Kind::Rate, &format!("r{number}"), Outcome::Refused);
        }
        assert_eq!(state.counts.len(), POLICY_NAMES_MAX + 1);
        let rest = state.counts[&(Kind::Rate, String::new())];
        assert_eq!(rest[Outcome::Refused as usize], POLICY_NAMES_MAX as u64);
        state.count(Kind::Rate, "r0", Outcome::Delayed);
        assert_eq!(state.counts[&(Kind::Rate, "r0".into())], [1, 1, 0, 0, 0]);
    }
}
