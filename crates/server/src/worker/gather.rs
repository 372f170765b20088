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
//! The gate: clients active lately are at least `clients_min`, servers have a *queue*, what clients send lately promises that the wait brings something, and the last
//! waits paid. Each is judged by the input that it brought; after some in a row that were poor there are none for a while. A queue is several inputs at servers at one
//! time in the mean, without those that wait here. Below it a wait would only add to the time of each request.
//!
//! A hold lasts for a quarter of a *round*, the time in which each active client sends once, in front of `n` servers for 1 + log₂ `n` times as long; and for
//! `gather_us` at most, in front of `n` > 3 servers log₂ `n` times that. Shorter ones make small batches; longer ones end with all clients waiting for us, and then their processor and the servers' are idle. In a hold
//! the worker naps, half of it at a time, or all of it where clients pipeline. A sleep is as long as the sleeps before needed for what is missing, at most `gather_us`. `completions` for each server are
//! always enough.
//!
//! While many clients are active the first replies of a pipeline wait for those behind them (`engine`'s module `cork`).
//!
//! Not here: what the input is. Pure arithmetic over counts and times, so the simulator and the tests see the same decisions.
//!
//! Invariant: nothing waits for longer than the longest hold and the longest sleep; a turn sleeps at most once beside its nap.

use super::house::{House, Load};
use engine::Time;
use netio::Wait;

/// The span over which active clients are counted, in microseconds. Long enough that every busy client sends in it, short enough to follow a
/// change of load.
const EPOCH_US: u64 = 5_000;

/// A hold lasts for one part of a round in so many. Of holds of 60, 80, 100 and 200 µs 60 was best for 32 clients, 80 for 50, 100 for 64, 200 for 200 and 500
/// (decision 5).
const HOLDS_PER_ROUND: u64 = 4;

/// Sleeps that fill a hold. One brings larger batches, but then all clients may wait for us at once, which costs throughput where each sends one request at a time.
const NAPS_PER_HOLD: u64 = 2;

/// From so many requests in an input on clients pipeline: a hold is one nap, since each wake-up means less than a larger batch.
const PIPELINE_MIN: u64 = 4;

/// No hold is begun that will bring fewer inputs than this, as far as the rate tells.
const HOLD_GAIN_MIN: u64 = 4;

/// A sleep that brings fewer inputs than this (or than its goal, if that is less) was not worth its wake-up and the delay.
const SLEEP_GAIN_MIN: u64 = 6;

/// So many poor waits in a row make a pause. One says little: the load may just have been preempted.
const POOR_WAITS_MAX: u32 = 4;

/// Turns of a pause.
const PAUSE_TURNS: u32 = 64;

/// From so many inputs at servers at one time on, in thousandths of one, these have a queue. 50 clients that wait for each reply had 4.5 there, on a
/// machine that nothing held back; 50,000 a second of an open loop, which is half of that, had 1.5 (decision 5).
const QUEUE_BEGINS_MILLI: u64 = 4_000;

/// Below so many the queue is gone. Holding makes batches, and of a batch all wait for the last: these loads had 5 and 2.5 then.
const QUEUE_ENDS_MILLI: u64 = 3_500;

/// No epoch counts for more: in one in which a processor was taken from us everything waits.
const QUEUE_MAX_MILLI: u64 = 2 * QUEUE_BEGINS_MILLI;

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
    hold: Option<Hold>,
    holds: Record,
    /// What came since the last flush.
    input: u64,
    /// When that was looked at last.
    looked_at: Time,
    /// How long one input takes to come, lately, in nanoseconds.
    ns_per_input: u64,
    lately: Lately,
}

/// What is to be sent waits.
#[derive(Clone, Copy, Debug)]
struct Hold {
    until: Time,
    /// Longest sleep in it.
    nap_us: u64,
    /// Input that ends it.
    enough: u64,
    /// What had come when it began.
    began_with: u64,
}

/// What clients did in the last epochs.
#[derive(Debug, Default)]
struct Lately {
    epoch_began: Time,
    epoch_input: u64,
    /// Requests of all clients, from the start to the end of the last epoch.
    requests: u64,
    /// Of the last epoch, for each input.
    requests_per_input: u64,
    active_clients: u64,
    /// Between two inputs of whichever client, in nanoseconds; a mean over some four epochs.
    ns_per_input: u64,
    /// From writing a request to its reply, over all of them, from the start to the end of the last epoch.
    waited_us: u64,
    /// The part of it that inputs of this epoch waited here.
    held_us: u64,
    /// How many inputs were at servers at one time, in thousandths; a mean over some eight epochs.
    at_servers_milli: u64,
    /// Whether these were so many that servers have a queue.
    is_queued: bool,
}

impl Lately {
    fn is_over(&self, now: Time) -> bool {
        now.since(self.epoch_began) >= EPOCH_US
    }

    fn end_epoch(&mut self, now: Time, active_clients: u64, load: Load) {
        let input = self.epoch_input.max(1);
        self.requests_per_input = load.requests.saturating_sub(self.requests) / input;
        self.requests = load.requests;
        self.look_for_queue(now, load.waited_us);
        let ns = now.since(self.epoch_began).saturating_mul(1_000) / input;
        self.ns_per_input = match self.ns_per_input {
            mean if ns / 4 > mean => ns,
            mean => mean - mean / 4 + ns / 4,
        };
        (self.epoch_began, self.epoch_input, self.active_clients) = (now, 0, active_clients);
    }

    /// By Little's law: what all requests together waited for servers in a time is how many of them were there, times that time.
    fn look_for_queue(&mut self, now: Time, waited_us: u64) {
        let requests_us = waited_us.saturating_sub(self.waited_us);
        let input_us = requests_us / self.requests_per_input.max(1);
        let at_servers_us = input_us.saturating_sub(core::mem::take(&mut self.held_us));
        self.waited_us = waited_us;
        let milli = at_servers_us.saturating_mul(1_000) / now.since(self.epoch_began).max(1);
        let milli = milli.min(QUEUE_MAX_MILLI);
        self.at_servers_milli = self.at_servers_milli - self.at_servers_milli / 8 + milli / 8;
        let bound = if self.is_queued { QUEUE_ENDS_MILLI } else { QUEUE_BEGINS_MILLI };
        self.is_queued = self.at_servers_milli >= bound;
    }

    /// The time in which each active client sends once, in microseconds.
    fn round_us(&self) -> u64 {
        self.active_clients.saturating_mul(self.ns_per_input) / 1_000
    }

    /// How many inputs come in so many microseconds.
    fn input_in(&self, us: u64) -> u64 {
        us * 1_000 / self.ns_per_input.max(1)
    }
}

impl Gather {
    /// One that has seen nothing.
    pub fn new(options: GatherOptions) -> Self {
        Self {
            options,
            polls_left: 0,
            sleep: None,
            sleeps: Record::default(),
            hold: None,
            holds: Record::default(),
            input: 0,
            looked_at: Time::default(),
            ns_per_input: 0,
            lately: Lately::default(),
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
    pub fn next_wait(&mut self, now: Time, input: u64, engine: &mut House) -> Option<Wait> {
        if self.lately.is_over(now) {
            let active_clients = engine.end_epoch();
            self.lately.end_epoch(now, active_clients, engine.load());
            engine.cork_replies_us(self.cork_us());
        }
        self.decide(now, input, engine.shared_upstreams_dirty() as u64)
    }

    /// Until when what is to be sent is held, if it is.
    pub fn hold_until(&self) -> Option<Time> {
        self.hold.map(|hold| hold.until)
    }

    /// How a turn begins that has nothing to do before `deadline`, while something is held: with a sleep from `now` on that no single input ends, as each
    /// would cost the wake-up, and the sender's processor the call to us.
    #[inline]
    pub fn nap(&self, now: Time, deadline: Time) -> Option<Wait> {
        let hold = self.hold?;
        let completions = hold.enough.saturating_sub(self.input).max(1) as u32;
        let until_us = deadline.0.min(now.0 + hold.nap_us);
        Some(Wait::Gather { until_us, completions })
    }

    /// All input of the turn is in, and something is to be sent to so many servers: whether it waits for more.
    #[inline]
    pub fn holds(&mut self, now: Time, upstreams: u64) -> bool {
        if !self.is_early(upstreams) {
            if self.hold.is_some() {
                self.holds.judge(true);
            }
            self.flushed();
            return false;
        }
        let hold = self.hold.unwrap_or_else(|| self.new_hold(now, upstreams));
        if now < hold.until {
            self.hold = Some(hold);
            return true;
        }
        self.holds.judge(self.input - hold.began_with >= HOLD_GAIN_MIN);
        self.flushed();
        false
    }

    fn new_hold(&self, now: Time, upstreams: u64) -> Hold {
        let hold_us = self.hold_us(upstreams);
        let naps = if self.lately.requests_per_input < PIPELINE_MIN { NAPS_PER_HOLD } else { 1 };
        Hold {
            until: now + hold_us,
            nap_us: hold_us / naps,
            enough: self.enough(1, upstreams),
            began_with: self.input,
        }
    }

    /// How long what goes to so many servers, at least one, is held at most.
    fn hold_us(&self, upstreams: u64) -> u64 {
        let log = u64::from(upstreams.ilog2());
        (log.max(1) * self.options.gather_us)
            .min((log + 1) * self.lately.round_us() / HOLDS_PER_ROUND)
    }

    fn flushed(&mut self) {
        (self.input, self.hold) = (0, None);
    }

    /// Whether many clients are active.
    fn is_crowded(&self) -> bool {
        self.options.gather_us > 0 && self.lately.active_clients >= self.options.clients_min
    }

    /// Whether they wait for servers anyway.
    fn is_busy(&self) -> bool {
        self.is_crowded() && self.lately.is_queued
    }

    /// Whether so few have sent something that it is worth to hold it back.
    fn is_early(&self, upstreams: u64) -> bool {
        upstreams > 0
            && self.input < self.enough(1, upstreams)
            && self.is_busy()
            && self.lately.input_in(self.hold_us(upstreams)) >= HOLD_GAIN_MIN
            && self.holds.pays()
    }

    /// Input that is enough where it leaves in so many writes a batch.
    fn enough(&self, writes: u64, upstreams: u64) -> u64 {
        (self.lately.active_clients * writes / (writes + 1))
            .min(self.options.completions * upstreams)
    }

    /// While many clients are active their early replies may wait as long as input may (see `engine::cork`).
    fn cork_us(&self) -> u64 {
        if self.is_crowded() { self.options.gather_us } else { 0 }
    }

    fn decide(&mut self, now: Time, input: u64, upstreams: u64) -> Option<Wait> {
        self.lately.held_us += self.input * now.since(self.looked_at);
        self.looked_at = now;
        self.input += input;
        self.lately.epoch_input += input;
        if let Some((began, goal)) = self.sleep {
            self.end_sleep(now.since(began), input, goal);
            return None;
        }
        if input > 0 && self.polls_left > 0 {
            self.polls_left -= 1;
            return Some(Wait::Poll);
        }
        let goal = self.enough(upstreams, upstreams).saturating_sub(self.input);
        let sleeps = goal > 0
            && self.is_busy()
            && self.sleeps.pays()
            && self.lately.input_in(self.options.gather_us) >= SLEEP_GAIN_MIN.min(goal)
            && !self.is_early(upstreams);
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
        self.sleeps.judge(input >= SLEEP_GAIN_MIN.min(goal));
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
        gather.lately.active_clients = active_clients;
        gather.lately.ns_per_input = 10_000;
        gather.lately.is_queued = true;
        gather.begin_turn();
        gather
    }

    /// After so many epochs in each of which inputs waited so long together, of it `held_us` here.
    fn epochs(gather: &mut Gather, count: u64, waited_us: u64, held_us: u64) {
        let lately = &mut gather.lately;
        let mut load = Load { requests: lately.requests, waited_us: 0 };
        for _ in 0..count {
            (lately.epoch_input, lately.held_us) = (500, held_us);
            load.requests += 500;
            load.waited_us = lately.waited_us + waited_us;
            lately.end_epoch(lately.epoch_began + EPOCH_US, 50, load);
        }
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
    fn a_hold_lasts_for_a_part_of_the_time_in_which_all_clients_send_once() {
        let mut gather = gather(48);
        gather.lately.ns_per_input = 3_000;
        assert_eq!(turn(&mut gather, 100, 3, 1), HELD);
        assert_eq!(gather.hold_until(), Some(Time(100 + 48 * 3 / 4)));
    }

    #[test]
    fn in_front_of_several_servers_a_hold_is_a_larger_part_of_that_time() {
        let until = |upstreams| {
            let mut gather = gather(48);
            gather.lately.ns_per_input = 1_000;
            assert_eq!(turn(&mut gather, 100, 1, upstreams), HELD);
            gather.hold_until()
        };
        assert_eq!([1, 2, 3, 4, 15].map(until), [112, 124, 124, 136, 148].map(|us| Some(Time(us))));
    }

    #[test]
    fn a_hold_is_slept_through_in_naps() {
        let mut gather = gather(40);
        assert_eq!(gather.nap(Time(0), Time(500)), None);
        assert_eq!(turn(&mut gather, 100, 3, 1), HELD);
        let nap = |until_us, completions| Some(Wait::Gather { until_us, completions });
        assert_eq!(gather.nap(Time(100), Time(160)), nap(130, 17));
        assert_eq!(turn(&mut gather, 130, 9, 1), HELD);
        assert_eq!(gather.nap(Time(130), Time(160)), nap(160, 8));
        assert_eq!(
            gather.nap(Time(130), Time(140)),
            nap(140, 8),
            "what is due by time is not late"
        );
    }

    #[test]
    fn where_clients_pipeline_a_hold_is_one_nap() {
        let mut gather = gather(40);
        gather.lately.requests_per_input = PIPELINE_MIN;
        assert_eq!(turn(&mut gather, 100, 3, 1), HELD);
        let whole = Wait::Gather { until_us: 160, completions: 17 };
        assert_eq!(gather.nap(Time(100), Time(500)), Some(whole));
    }

    #[test]
    fn a_hold_that_brought_something_was_not_in_vain_though_half_did_not_come() {
        let mut gather = gather(50);
        for _ in 0..3 * POOR_WAITS_MAX {
            assert_eq!(turn(&mut gather, 0, 1, 1), HELD);
            assert_eq!(turn(&mut gather, 60, HOLD_GAIN_MIN, 1), FLUSHED);
        }
    }

    #[test]
    fn where_clients_send_rarely_nothing_is_held() {
        let mut gather = gather(50);
        gather.lately.ns_per_input = 60_000 / HOLD_GAIN_MIN;
        assert_eq!(turn(&mut gather, 0, 1, 1), HELD);
        gather.flushed();
        gather.lately.ns_per_input += 1;
        assert_eq!(turn(&mut gather, 0, 1, 1), FLUSHED);
    }

    #[test]
    fn while_servers_have_no_queue_nothing_is_held() {
        let mut gather = gather(50);
        gather.lately.is_queued = false;
        assert_eq!(turn(&mut gather, 0, 3, 1), FLUSHED);
        epochs(&mut gather, 30, 3 * EPOCH_US, 0);
        assert_eq!(turn(&mut gather, 0, 3, 1), FLUSHED, "three at a time are none");
        epochs(&mut gather, 30, 5 * EPOCH_US, 0);
        assert_eq!(turn(&mut gather, 0, 3, 1), HELD);
        gather.flushed();
        epochs(&mut gather, 30, 10 * EPOCH_US, 6 * EPOCH_US);
        assert!(gather.lately.is_queued, "four at servers, and six that waited here");
        epochs(&mut gather, 30, 10 * EPOCH_US, 7 * EPOCH_US);
        assert_eq!(turn(&mut gather, 0, 3, 1), FLUSHED, "what waited here was no queue there");
    }

    #[test]
    fn an_epoch_in_which_all_stood_still_makes_no_queue() {
        let mut gather = gather(50);
        gather.lately.is_queued = false;
        epochs(&mut gather, 30, EPOCH_US, 0);
        epochs(&mut gather, 1, 1_000 * EPOCH_US, 0);
        assert!(!gather.lately.is_queued);
    }

    #[test]
    fn what_waits_here_is_counted_until_it_is_sent() {
        let mut gather = gather(50);
        assert_eq!(turn(&mut gather, 100, 3, 1), HELD);
        assert_eq!(turn(&mut gather, 110, 2, 1), HELD);
        assert_eq!(turn(&mut gather, 160, 1, 1), FLUSHED);
        assert_eq!(turn(&mut gather, 900, 1, 1), HELD);
        assert_eq!(gather.lately.held_us, 3 * 10 + 5 * 50);
    }

    #[test]
    fn the_rate_follows_the_epochs_and_a_silence_at_once() {
        let mut lately = Lately::default();
        let mut epoch = |until_us, input| {
            lately.epoch_input = input;
            assert!(lately.is_over(Time(until_us)));
            let requests = lately.requests + 3 * input;
            lately.end_epoch(Time(until_us), 40, Load { requests, waited_us: 0 });
            assert_eq!(lately.requests_per_input, 3);
            (lately.ns_per_input, lately.round_us())
        };
        assert_eq!(epoch(5_000, 500), (10_000, 400));
        assert_eq!(epoch(10_000, 250), (12_500, 500));
        assert_eq!(epoch(1_010_000, 1), (1_000_000_000, 40_000_000));
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
