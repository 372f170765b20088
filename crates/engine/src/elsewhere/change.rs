//! Other read targets while clients are connected: one comes, another gets other options, a third goes.
//!
//! A target that stays (same name, same servers) keeps its connections, what is under way, and whether it is left out. What is under way to one that goes
//! is asked of the next one, or of the upstream, at the same place among the client's replies, and what the old one still says is dropped with its connections.
//!
//! Not here: the settings of clients (`permit`).
//!
//! Invariant: targets stand in the order of the settings; each number is that of one target.

use super::outer::FIRST;
use super::target::{Target, inner_settings};
use super::{Budget, Choice, Elsewhere};
use crate::engine::{Action, Engine};
use crate::limits::READ_TARGETS_MAX;
use crate::mirror::{Numbers, marker};
use crate::replace::same_servers;
use crate::settings::{ReadTargetSettings, Settings};
use crate::time::Time;
use alloc::vec::Vec;

impl Engine {
    /// The settings name these targets, and options for them, from now on.
    pub(crate) fn change_elsewhere(&mut self, now: Time, old: &Settings) {
        if self.elsewhere.is_none() && self.settings.elsewhere.targets.is_empty() {
            return;
        }
        if self.elsewhere.is_none() {
            let which = self.next_ticket;
            self.next_ticket += 1;
            self.elsewhere = Elsewhere::numbered(&self.settings, Some(which), self.random, now);
            return self.run_elsewhere(now);
        }
        let (which, seed) = (self.next_ticket, self.random);
        self.next_ticket += 1;
        let Self { elsewhere: Some(elsewhere), settings, .. } = self else { return };
        let now = now.max(elsewhere.now);
        elsewhere.now = now;
        if settings.elsewhere != old.elsewhere {
            elsewhere.take_options(settings, seed, now);
        }
        let gone = elsewhere.replace(settings, which, seed, now);
        let (mut unasked, mut closed): (Vec<u32>, Vec<Target>) = (Vec::new(), Vec::new());
        for target in gone {
            let bit = target.bit();
            for (ticket, asked) in &mut elsewhere.asked {
                // Its number may be another one's by now.
                asked.tried &= !bit;
                if asked.pending & bit != 0 {
                    asked.pending &= !bit;
                    unasked.push(*ticket);
                }
            }
            closed.push(target);
        }
        closed.into_iter().for_each(|target| self.close_target(target));
        unasked.sort_unstable();
        unasked.dedup();
        unasked.into_iter().for_each(|ticket| self.ask_on(now, ticket));
        self.run_elsewhere(now);
        self.drop_elsewhere_if_over();
    }

    fn close_target(&mut self, target: Target) {
        self.list_again(marker(target.numbers.number as u32), target.listed_at, None);
        let closes = target.engine.upstreams.ids().into_iter().map(Action::CloseUpstream).collect();
        self.carry_out(target.numbers, closes, Vec::new());
    }

    /// There are no targets any more, and nobody waits for one: what the upstream is asked it answers as ever.
    fn drop_elsewhere_if_over(&mut self) {
        let Some(elsewhere) = self.elsewhere.take_if(|one| one.targets.is_empty()) else { return };
        debug_assert!(
            elsewhere.asked.values().all(|asked| asked.merge.is_some() && asked.pending == 0),
            "a read that nobody answers"
        );
        self.list_again(super::outer::asked_marker(), elsewhere.listed_at, None);
    }
}

impl Elsewhere {
    /// What is new of the options, but for the targets.
    fn take_options(&mut self, settings: &Settings, seed: u64, now: Time) {
        let options = &settings.elsewhere;
        (self.order, self.timeout_ms) = (options.order, options.timeout_ms);
        self.hedge_after_ms = options.hedge_after_ms;
        self.choice = Choice::new(options, seed, now);
        self.budget = Budget { percent: u32::from(options.hedge_percent), left: 0 };
        if self.hedge_after_ms == 0 {
            self.asked.values_mut().for_each(|asked| asked.may_hedge = false);
        }
    }

    /// Takes these targets; those that are there no more.
    fn replace(&mut self, settings: &Settings, which: u64, seed: u64, now: Time) -> Vec<Target> {
        let mut before = core::mem::take(&mut self.targets);
        let mut found: Vec<(&ReadTargetSettings, Option<Target>)> = Vec::new();
        for target in &settings.elsewhere.targets {
            let inner = inner_settings(settings, target);
            let is_it =
                |known: &Target| known.is(target) && same_servers(known.engine.settings(), &inner);
            let known = before.iter().position(is_it).map(|at| before.remove(at));
            found.push((target, known));
        }
        let numbers = |known: &Option<Target>| known.as_ref().map(|one| one.numbers.number);
        let mut taken: Vec<usize> = found.iter().filter_map(|(_, known)| numbers(known)).collect();
        let free = |taken: &[usize]| {
            (FIRST..FIRST + READ_TARGETS_MAX).find(|number| !taken.contains(number))
        };
        for (at, (target, known)) in found.into_iter().enumerate() {
            self.targets.push(match known {
                Some(mut known) => {
                    known.change(settings, target, now);
                    known
                }
                None => {
                    let number = free(&taken).unwrap_or(FIRST);
                    taken.push(number);
                    let which = which * READ_TARGETS_MAX as u64 + at as u64;
                    let numbers = Numbers::new(number, which);
                    Target::new(settings, target, numbers, seed ^ which, now)
                }
            });
        }
        before
    }
}
