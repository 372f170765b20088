//! How long a worker waits for more input before it flushes.
//!
//! The size of an upstream batch decides what a small request costs: each write wakes the server once, however many requests are in it.
//! Two means, both bounded:
//!
//! - *Poll again*: after a wait that brought input, look again without sleeping, up to `polls` times, while more comes.
//! - *Gather*: sleep a few tens of microseconds, then take all that came at once. Worth much when many clients send one request each at
//!   different moments; harmful with few clients, where everyone would wait for nobody.
//!
//! The gate: clients active lately are at least `clients_min`, and the last sleeps paid: each is judged by the input that it brought, and
//! after some in a row that brought too little gathering pauses for a while. The length: the goal is half of the active clients (the other half has
//! its replies to read meanwhile), at most `completions`; how long that takes is known from the sleeps before, and `gather_us` bounds it.
//! What goes to several servers leaves in as many writes, so then more is waited for: of `n` servers `n / (n + 1)` of the clients, and
//! `completions` for each.
//!
//! Under the same gate, and for as long at most, the first replies of a pipeline wait for those behind them (`engine`'s module `cork`).
//!
//! Not here: what the input is. Pure arithmetic over counts and times, so the simulator and the tests see the same decisions.
//!
//! Invariant: a turn sleeps at most once, for at most `gather_us`.

use engine::{Engine, Time};
use netio::Wait;

/// The span over which active clients are counted, in microseconds. Long enough that every busy client sends in it, short enough to follow a
/// change of load.
const EPOCH_US: u64 = 5_000;

/// A sleep that brings fewer inputs than this (or than its goal, if that is less) was not worth its wake-up and the delay.
const GAIN_MIN: u64 = 6;

/// So many poor sleeps in a row make gathering pause. One says little: the load may just have been preempted.
const POOR_SLEEPS_MAX: u32 = 4;

/// Turns without sleeping after too many poor sleeps.
const PAUSE_TURNS: u32 = 64;

/// Configured bounds.
#[derive(Clone, Copy, Debug)]
pub struct GatherOptions {
    /// Longest sleep, in microseconds; 0 turns gathering off.
    pub gather_us: u64,
    /// Inputs of one turn that are enough.
    pub completions: u64,
    /// Fewer active clients than this: never sleep.
    pub clients_min: u64,
    /// Polls without sleeping, at most.
    pub polls: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Gather {
    options: GatherOptions,
    polls_left: u32,
    /// When this turn's sleep began, and what it was to bring.
    sleep: Option<(Time, u64)>,
    input: u64,
    /// How long one input takes to come, lately, in nanoseconds.
    ns_per_input: u64,
    poor_sleeps: u32,
    pause_turns: u32,
    epoch_began: Time,
    active_clients: u64,
}

impl Gather {
    /// One that has seen nothing.
    pub fn new(options: GatherOptions) -> Self {
        Self {
            options,
            polls_left: 0,
            sleep: None,
            input: 0,
            ns_per_input: 0,
            poor_sleeps: 0,
            pause_turns: 0,
            epoch_began: Time::default(),
            active_clients: 0,
        }
    }

    /// A turn begins.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.polls_left = self.options.polls;
        self.sleep = None;
        self.input = 0;
        self.pause_turns = self.pause_turns.saturating_sub(1);
    }

    /// A wait brought so much `input`; `None`: flush now.
    #[inline]
    pub fn next_wait(&mut self, now: Time, input: u64, engine: &mut Engine) -> Option<Wait> {
        if now.since(self.epoch_began) >= EPOCH_US {
            self.epoch_began = now;
            self.active_clients = engine.end_epoch();
            engine.cork_replies_us(self.cork_us());
        }
        self.decide(now, input, engine.dirty_upstream_count() as u64)
    }

    /// While many clients are active their early replies may wait as long as input may (see `engine::cork`).
    fn cork_us(&self) -> u64 {
        if self.active_clients >= self.options.clients_min { self.options.gather_us } else { 0 }
    }

    fn decide(&mut self, now: Time, input: u64, upstreams: u64) -> Option<Wait> {
        self.input += input;
        if let Some((began, goal)) = self.sleep {
            self.judge(now.since(began), input, goal);
            return None;
        }
        if input > 0 && self.polls_left > 0 {
            self.polls_left -= 1;
            return Some(Wait::Poll);
        }
        let goal = (self.active_clients * upstreams / (upstreams + 1))
            .min(self.options.completions * upstreams)
            .saturating_sub(self.input);
        let gathers = self.options.gather_us > 0
            && goal > 0
            && self.pause_turns == 0
            && self.active_clients >= self.options.clients_min;
        if !gathers {
            return None;
        }
        self.sleep = Some((now, goal));
        // A rate that is not known yet, or has become too slow, is tried with the full length.
        let wanted_us = goal * self.ns_per_input / 1_000;
        let sleep_us = match wanted_us {
            0 => self.options.gather_us,
            _ => wanted_us.min(self.options.gather_us),
        };
        Some(Wait::Gather { until_us: now.0 + sleep_us, completions: goal as u32 })
    }

    /// A sleep of `slept_us` brought `input` of the `goal`.
    fn judge(&mut self, slept_us: u64, input: u64, goal: u64) {
        self.poor_sleeps = if input < GAIN_MIN.min(goal) { self.poor_sleeps + 1 } else { 0 };
        if self.poor_sleeps >= POOR_SLEEPS_MAX {
            self.poor_sleeps = 0;
            self.pause_turns = PAUSE_TURNS;
        }
        let now = slept_us * 1_000 / input.max(1);
        // A mean over some eight sleeps.
        self.ns_per_input = match self.ns_per_input {
            0 => now,
            mean => mean - mean / 8 + now / 8,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(active_clients: u64) -> Gather {
        let options = GatherOptions { gather_us: 60, completions: 24, clients_min: 32, polls: 2 };
        let mut gather = Gather::new(options);
        gather.active_clients = active_clients;
        gather.begin_turn();
        gather
    }

    #[test]
    fn it_polls_while_input_comes_and_never_sleeps_with_few_clients() {
        let mut gather = gather(8);
        assert_eq!(gather.decide(Time(0), 3, 1), Some(Wait::Poll));
        assert_eq!(gather.decide(Time(0), 1, 1), Some(Wait::Poll));
        assert_eq!(gather.decide(Time(0), 1, 1), None);
    }

    #[test]
    fn with_many_clients_and_a_small_batch_it_sleeps_once() {
        let mut gather = gather(50);
        assert_eq!(gather.decide(Time(100), 3, 1), Some(Wait::Poll));
        let sleep = gather.decide(Time(100), 0, 1);
        assert_eq!(sleep, Some(Wait::Gather { until_us: 160, completions: 21 }));
        assert_eq!(gather.decide(Time(160), 18, 1), None);
    }

    #[test]
    fn the_length_of_a_sleep_follows_the_rate_of_input() {
        let mut gather = gather(50);
        for _ in 0..30 {
            gather.begin_turn();
            let Some(Wait::Gather { until_us, .. }) = gather.decide(Time(0), 0, 1) else {
                panic!("it does not sleep")
            };
            // One input a microsecond.
            gather.decide(Time(until_us), until_us, 1);
        }
        gather.begin_turn();
        let sleep = gather.decide(Time(0), 4, 1).and_then(|_| gather.decide(Time(0), 0, 1));
        assert_eq!(sleep, Some(Wait::Gather { until_us: 20, completions: 20 }));
    }

    #[test]
    fn a_large_batch_or_nothing_to_send_does_not_wait() {
        assert_eq!(gather(50).decide(Time(0), 0, 0), None);
        let mut large = gather(50);
        large.polls_left = 0;
        assert_eq!(large.decide(Time(0), 24, 1), None);
    }

    #[test]
    fn the_goal_is_no_more_than_half_of_the_clients() {
        let sleep = gather(32).decide(Time(0), 0, 1);
        assert_eq!(sleep, Some(Wait::Gather { until_us: 60, completions: 16 }));
    }

    #[test]
    fn in_front_of_several_servers_more_is_waited_for() {
        let wanted = |upstreams| match gather(64).decide(Time(0), 0, upstreams) {
            Some(Wait::Gather { completions, .. }) => completions,
            other => panic!("{other:?}"),
        };
        assert_eq!([1, 2, 3, 15].map(wanted), [24, 42, 48, 60]);
    }

    #[test]
    fn sleeps_that_bring_little_make_it_pause() {
        let mut gather = gather(50);
        for _ in 0..POOR_SLEEPS_MAX {
            gather.begin_turn();
            assert!(matches!(gather.decide(Time(0), 0, 1), Some(Wait::Gather { .. })));
            assert_eq!(gather.decide(Time(60), 1, 1), None);
        }
        for _ in 0..PAUSE_TURNS - 1 {
            gather.begin_turn();
            assert_eq!(gather.decide(Time(100), 0, 1), None);
        }
        gather.begin_turn();
        assert!(matches!(gather.decide(Time(100), 0, 1), Some(Wait::Gather { .. })));
    }
}
