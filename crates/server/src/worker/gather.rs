//! How long a worker waits for more input before it flushes.
//!
//! The size of an upstream batch decides what a small request costs: each write wakes the server once, however many requests are in it.
//! Three means, all bounded:
//!
//! - *Poll again*: after a wait that brought input, look again without sleeping, up to `polls` times, while more comes.
//! - *Hold*: what is to be sent to servers stays until half of the active clients have sent something, while turns go on: replies are taken and given
//!   to clients, who send the next requests. A few that come late are not sent alone, but with those of the many that follow.
//! - *Sleep*: in front of several servers, when that half is there, sleep a few tens of microseconds, then take all that came at once. What goes
//!   to `n` servers leaves in as many writes, so then `n / (n + 1)` of the clients are waited for.
//!
//! ```text
//!   input      3    5    19   16 | 2   9  │ 24 …          active: 50, two servers
//!   upstreams  held held held  sleep      all written
//!   clients    their replies are written in each turn
//! ```
//! The gate: clients active lately are at least `clients_min`, and the last waits paid. A hold that ends before half of the clients came
//! was in vain, a sleep is judged by the input that it brought; after some in a row that were poor there are none for a while. A hold lasts for `gather_us`
//! at most, in front of `n` servers for log₂ `n` times as long; a sleep as long as the sleeps before needed for what is missing, at most
//! `gather_us`. `completions` for each server are always enough.
//!
//! While many clients are active the first replies of a pipeline wait for those behind them (`engine`'s module `cork`).
//!
//! Not here: what the input is. Pure arithmetic over counts and times, so the simulator and the tests see the same decisions.
//!
//! Invariant: nothing waits for longer than the longest hold and the longest sleep; a turn sleeps at most once.

use engine::{Engine, Time};
use netio::Wait;

/// The span over which active clients are counted, in microseconds. Long enough that every busy client sends in it, short enough to follow a
/// change of load.
const EPOCH_US: u64 = 5_000;

/// A sleep that brings fewer inputs than this (or than its goal, if that is less) was not worth its wake-up and the delay.
const GAIN_MIN: u64 = 6;

/// So many poor waits in a row make a pause. One says little: the load may just have been preempted.
const POOR_WAITS_MAX: u32 = 4;

/// Turns of a pause.
const PAUSE_TURNS: u32 = 64;

/// Configured bounds.
#[derive(Clone, Copy, Debug)]
pub struct GatherOptions {
    /// Longest hold in front of one server, and longest sleep, in microseconds; 0 turns gathering off.
    pub gather_us: u64,
    /// Inputs that are enough, for each server.
    pub completions: u64,
    /// Fewer active clients than this: never wait.
    pub clients_min: u64,
    /// Polls without sleeping, at most.
    pub polls: u32,
}

/// Whether one kind of wait paid lately.
#[derive(Debug, Default)]
struct Record {
    poor: u32,
    pause_turns: u32,
}

impl Record {
    fn begin_turn(&mut self) {
        self.pause_turns = self.pause_turns.saturating_sub(1);
    }

    fn pays(&self) -> bool {
        self.pause_turns == 0
    }

    fn judge(&mut self, paid: bool) {
        self.poor = if paid { 0 } else { self.poor + 1 };
        if self.poor >= POOR_WAITS_MAX {
            (self.poor, self.pause_turns) = (0, PAUSE_TURNS);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Gather {
    options: GatherOptions,
    polls_left: u32,
    /// When this turn's sleep began, and what it was to bring.
    sleep: Option<(Time, u64)>,
    sleeps: Record,
    /// Until when what is to be sent is held.
    hold_until: Option<Time>,
    holds: Record,
    /// What came since the last flush.
    input: u64,
    /// How long one input takes to come, lately, in nanoseconds.
    ns_per_input: u64,
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
            sleeps: Record::default(),
            hold_until: None,
            holds: Record::default(),
            input: 0,
            ns_per_input: 0,
            epoch_began: Time::default(),
            active_clients: 0,
        }
    }

    /// Other bounds hold from the next wait on.
    pub(super) fn change(&mut self, options: GatherOptions) {
        self.options = options;
    }

    /// A turn begins.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.polls_left = self.options.polls;
        self.sleep = None;
        self.sleeps.begin_turn();
        self.holds.begin_turn();
    }

    /// A wait brought so much `input`; `None`: go on with the turn.
    #[inline]
    pub fn next_wait(&mut self, now: Time, input: u64, engine: &mut Engine) -> Option<Wait> {
        if now.since(self.epoch_began) >= EPOCH_US {
            self.epoch_began = now;
            self.active_clients = engine.end_epoch();
            engine.cork_replies_us(self.cork_us());
        }
        self.decide(now, input, engine.shared_upstreams_dirty() as u64)
    }

    /// Until when what is to be sent is held, if it is.
    pub fn hold_until(&self) -> Option<Time> {
        self.hold_until
    }

    /// All input of the turn is in, and something is to be sent to so many servers: whether it waits for more.
    #[inline]
    pub fn holds(&mut self, now: Time, upstreams: u64) -> bool {
        if !self.is_early(upstreams) {
            if self.hold_until.is_some() {
                self.holds.judge(true);
            }
            self.flushed();
            return false;
        }
        let longest_us = self.options.gather_us * u64::from(upstreams.ilog2().max(1));
        let until = *self.hold_until.get_or_insert(now + longest_us);
        if now < until {
            return true;
        }
        self.holds.judge(false);
        self.flushed();
        false
    }

    fn flushed(&mut self) {
        (self.input, self.hold_until) = (0, None);
    }

    /// Whether many clients are active.
    fn is_crowded(&self) -> bool {
        self.options.gather_us > 0 && self.active_clients >= self.options.clients_min
    }

    /// Whether so few have sent something that it is worth to hold it back.
    fn is_early(&self, upstreams: u64) -> bool {
        let half = self.enough(1, upstreams);
        upstreams > 0 && self.input < half && self.is_crowded() && self.holds.pays()
    }

    /// Input that is enough where it leaves in so many writes a batch.
    fn enough(&self, writes: u64, upstreams: u64) -> u64 {
        (self.active_clients * writes / (writes + 1)).min(self.options.completions * upstreams)
    }

    /// While many clients are active their early replies may wait as long as input may (see `engine::cork`).
    fn cork_us(&self) -> u64 {
        if self.is_crowded() { self.options.gather_us } else { 0 }
    }

    fn decide(&mut self, now: Time, input: u64, upstreams: u64) -> Option<Wait> {
        self.input += input;
        if let Some((began, goal)) = self.sleep {
            self.end_sleep(now.since(began), input, goal);
            return None;
        }
        if input > 0 && self.polls_left > 0 {
            self.polls_left -= 1;
            return Some(Wait::Poll);
        }
        let goal = self.enough(upstreams, upstreams).saturating_sub(self.input);
        let sleeps =
            goal > 0 && self.is_crowded() && self.sleeps.pays() && !self.is_early(upstreams);
        if !sleeps {
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
    fn end_sleep(&mut self, slept_us: u64, input: u64, goal: u64) {
        self.sleeps.judge(input >= GAIN_MIN.min(goal));
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

    /// A turn without polls: whether it ends with a sleep, and if not, with a hold.
    fn turn(gather: &mut Gather, now: u64, input: u64, upstreams: u64) -> (Option<Wait>, bool) {
        gather.begin_turn();
        gather.polls_left = 0;
        match gather.decide(Time(now), input, upstreams) {
            Some(sleep) => (Some(sleep), false),
            None => (None, gather.holds(Time(now), upstreams)),
        }
    }

    const HELD: (Option<Wait>, bool) = (None, true);
    const FLUSHED: (Option<Wait>, bool) = (None, false);

    #[test]
    fn it_polls_while_input_comes_and_never_waits_with_few_clients() {
        let mut gather = gather(8);
        assert_eq!(gather.decide(Time(0), 3, 1), Some(Wait::Poll));
        assert_eq!(gather.decide(Time(0), 1, 1), Some(Wait::Poll));
        assert_eq!(gather.decide(Time(0), 1, 1), None);
        assert!(!gather.holds(Time(0), 1));
    }

    #[test]
    fn what_few_of_many_clients_sent_is_held_until_half_of_them_have() {
        let mut gather = gather(40);
        assert_eq!(turn(&mut gather, 100, 3, 1), HELD);
        assert_eq!(gather.hold_until(), Some(Time(160)));
        assert_eq!(turn(&mut gather, 110, 0, 1), HELD);
        assert_eq!(turn(&mut gather, 120, 16, 1), HELD);
        assert_eq!(turn(&mut gather, 130, 1, 1), FLUSHED);
        assert_eq!(gather.hold_until(), None);
        assert_eq!(turn(&mut gather, 140, 3, 1), HELD, "the next batch counts from the begin");
    }

    #[test]
    fn enough_for_a_server_is_not_held_whatever_is_active() {
        let mut gather = gather(500);
        assert_eq!(turn(&mut gather, 0, 23, 1), HELD);
        assert_eq!(turn(&mut gather, 0, 1, 1), FLUSHED);
    }

    #[test]
    fn a_hold_is_the_longer_the_more_servers_there_are() {
        let until = |upstreams| {
            let mut gather = gather(50);
            assert_eq!(turn(&mut gather, 100, 1, upstreams), HELD);
            gather.hold_until()
        };
        assert_eq!([1, 2, 3, 4, 15].map(until), [160, 160, 160, 220, 280].map(|us| Some(Time(us))));
    }

    #[test]
    fn holds_in_vain_make_it_pause() {
        let mut gather = gather(50);
        for _ in 0..POOR_WAITS_MAX {
            assert_eq!(turn(&mut gather, 0, 1, 1), HELD);
            assert_eq!(turn(&mut gather, 59, 1, 1), HELD);
            let (sleep, held) = turn(&mut gather, 60, 1, 1);
            assert!(sleep.is_none() && !held);
        }
        // Then a sleep is tried.
        assert!(matches!(turn(&mut gather, 60, 1, 1), (Some(Wait::Gather { .. }), false)));
        for _ in 0..PAUSE_TURNS {
            gather.begin_turn();
        }
        assert_eq!(turn(&mut gather, 100, 0, 1), HELD);
    }

    #[test]
    fn with_nothing_to_send_nothing_waits() {
        assert_eq!(turn(&mut gather(50), 0, 0, 0), FLUSHED);
    }

    #[test]
    fn in_front_of_several_servers_it_sleeps_once_for_the_rest() {
        let mut gather = gather(64);
        assert_eq!(turn(&mut gather, 0, 10, 3), HELD);
        let sleep = |completions| (Some(Wait::Gather { until_us: 160, completions }), false);
        assert_eq!(turn(&mut gather, 100, 30, 3), sleep(8));
        assert_eq!(gather.decide(Time(160), 8, 3), None);
        assert!(!gather.holds(Time(160), 3));
    }

    #[test]
    fn the_length_of_a_sleep_follows_the_rate_of_input() {
        let mut gather = gather(60);
        for _ in 0..30 {
            let (Some(Wait::Gather { until_us, .. }), _) = turn(&mut gather, 0, 30, 2) else {
                panic!("it does not sleep")
            };
            // One input a microsecond.
            gather.decide(Time(until_us), until_us, 2);
            gather.holds(Time(until_us), 2);
        }
        let sleep = turn(&mut gather, 0, 35, 2);
        assert_eq!(sleep, (Some(Wait::Gather { until_us: 5, completions: 5 }), false));
    }

    #[test]
    fn sleeps_that_bring_little_make_it_pause() {
        let mut gather = gather(60);
        for _ in 0..POOR_WAITS_MAX {
            assert!(matches!(turn(&mut gather, 0, 31, 2), (Some(Wait::Gather { .. }), _)));
            assert_eq!(gather.decide(Time(60), 1, 2), None);
            assert!(!gather.holds(Time(60), 2));
        }
        for _ in 0..PAUSE_TURNS - 1 {
            assert_eq!(turn(&mut gather, 100, 31, 2), FLUSHED);
        }
        assert!(matches!(turn(&mut gather, 100, 31, 2), (Some(Wait::Gather { .. }), _)));
    }
}
