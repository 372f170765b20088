//! What a person sees while a run goes on: a bar in a terminal, plain lines elsewhere.
//!
//! The bar counts visits and foretells the end from how long visits took so far, pauses and preparations included, as
//! those are often longer than the load. Both forms write to standard error, so that standard output holds the report
//! alone. Nothing here is recorded.
//!
//! Invariant: every notice is shown, in both forms, and stays.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::rows;
use crate::plan::Figure;
use crate::record::{Cores, Tick, Visit};
use crate::run::Watch;
use crate::stats;

/// The form that standard error wants.
#[must_use]
pub fn on_stderr() -> Box<dyn Watch> {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        Box::new(Bar::new(ProgressDrawTarget::stderr()))
    } else {
        Box::new(Lines::new(stderr))
    }
}

/// A bar with what happens now below it.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    clock: Clock,
    now: String,
}

impl Bar {
    /// Draws to `target`.
    #[must_use]
    pub fn new(target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template(TEMPLATE)
            // The template is a constant, and the test of this form reads it.
            .expect("a valid template");
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        Self { bar, clock: Clock::default(), now: String::new() }
    }

    fn show(&self, what: &str) {
        self.bar.set_prefix(self.clock.left_in_words());
        self.bar.set_message(what.to_owned());
    }
}

impl Watch for Bar {
    fn begins(&mut self, visits: usize) {
        self.clock.begin(visits);
        self.bar.set_length(visits as u64);
        // Without it the time stands still between two ticks of an external tool.
        self.bar.enable_steady_tick(Duration::from_millis(500));
    }

    fn prepares(&mut self, what: &str) {
        self.show(what);
    }

    fn visit_begins(&mut self, test: &str, target: &str, round: u32, seconds: Option<f64>) {
        self.clock.visit_begins(seconds);
        self.now = format!("{test}, {target}, round {round}");
        self.show(&self.now);
    }

    fn tick(&mut self, tick: &Tick) {
        self.show(&format!("{}: {}", self.now, live(tick)));
    }

    fn visit_ends(&mut self, _visit: &Visit) {
        self.clock.visit_ends();
        self.bar.inc(1);
        self.show(&self.now);
    }

    fn notice(&mut self, text: &str) {
        self.bar.suspend(|| eprintln!("note: {text}"));
    }
}

/// The run may end in an error or an interrupt: the terminal is left clean either way.
impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// One line per visit, for files and build logs.
#[derive(Debug)]
pub struct Lines<W> {
    to: W,
    clock: Clock,
    test: String,
}

impl<W: Write> Lines<W> {
    /// Writes to `to`. What it cannot write is lost: a full disk must not end a measurement.
    pub fn new(to: W) -> Self {
        Self { to, clock: Clock::default(), test: String::new() }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.to, "{text}");
    }
}

impl<W: Write> Watch for Lines<W> {
    fn begins(&mut self, visits: usize) {
        self.clock.begin(visits);
    }

    fn prepares(&mut self, what: &str) {
        self.line(what);
    }

    fn visit_begins(&mut self, test: &str, _target: &str, _round: u32, seconds: Option<f64>) {
        self.clock.visit_begins(seconds);
        test.clone_into(&mut self.test);
    }

    fn tick(&mut self, _tick: &Tick) {}

    fn visit_ends(&mut self, visit: &Visit) {
        self.clock.visit_ends();
        let text = format!(
            "{} {}, {}, round {}: {}",
            self.clock.count(),
            self.test,
            visit.target,
            visit.round,
            figures(visit)
        );
        self.line(&text);
    }

    fn notice(&mut self, text: &str) {
        self.line(&format!("note: {text}"));
    }
}

/// When a run will end, from how long its visits took.
#[derive(Debug, Default)]
struct Clock {
    visits: usize,
    done: usize,
    began: Option<Instant>,
    /// What a visit is said to take, for the time before the first one is over.
    said: Option<Duration>,
}

impl Clock {
    fn begin(&mut self, visits: usize) {
        self.visits = visits;
        self.began = Some(Instant::now());
    }

    fn visit_begins(&mut self, seconds: Option<f64>) {
        self.said = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    }

    fn visit_ends(&mut self) {
        self.done += 1;
    }

    /// `[3/42]`.
    fn count(&self) -> String {
        format!("[{}/{}]", self.done, self.visits)
    }

    fn left_in_words(&self) -> String {
        let elapsed = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        match left(self.visits, self.done, elapsed, self.said) {
            Some(left) => format!("{} left", rows::duration(left.as_secs_f64())),
            None => String::new(),
        }
    }
}

/// Time left. Before the first visit is over it is what visits are said to take; `None` when they don't say.
fn left(visits: usize, done: usize, elapsed: Duration, said: Option<Duration>) -> Option<Duration> {
    let visits = u32::try_from(visits).unwrap_or(u32::MAX);
    let done = u32::try_from(done).unwrap_or(u32::MAX).min(visits);
    let whole = if done == 0 { said? * visits } else { elapsed / done * visits };
    Some(whole.saturating_sub(elapsed))
}

/// `181 k req/s; cores: proxy 0.99, server 0.47, load 0.80`.
fn live(tick: &Tick) -> String {
    let rate = tick.requests_per_s.map(|rate| format!("{} k req/s; ", rows::digits(rate / 1000.0)));
    let cores: Vec<String> = [("proxy", tick.proxy), ("server", tick.server), ("load", tick.load)]
        .into_iter()
        .filter(|(_, cores)| *cores != Cores::default())
        .map(|(role, cores)| format!("{role} {:.2}", cores.used()))
        .collect();
    format!("{}cores: {}", rate.unwrap_or_default(), cores.join(", "))
}

/// `181 k req/s, p99 812 µs, proxy 4.86 µs/req, server 2.34 µs/req`; what was not measured is not there.
fn figures(visit: &Visit) -> String {
    let figure = |figure, show: fn(f64) -> String| stats::figure(visit, figure).map(show);
    let parts = [
        figure(Figure::Throughput, |rate| format!("{} k req/s", rows::digits(rate / 1000.0))),
        figure(Figure::P99, |us| format!("p99 {} µs", rows::digits(us))),
        figure(Figure::ProxyCpu, |us| format!("proxy {} µs/req", rows::digits(us))),
        figure(Figure::ServerCpu, |us| format!("server {} µs/req", rows::digits(us))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Bar, visits and time above; what happens now below, cut at the terminal's edge.
const TEMPLATE: &str = "{bar:40} {pos}/{len} visits, {prefix}\n{wide_msg}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_foretold_from_the_visits_that_are_over() {
        let seconds = Duration::from_secs;
        // 2 of 6 visits took 20 s together, so the other four take 40.
        assert_eq!(left(6, 2, seconds(20), Some(seconds(4))), Some(seconds(40)));
        assert_eq!(left(6, 6, seconds(60), None), Some(seconds(0)));
        // Before the first is over there is only what was said, less what is gone.
        assert_eq!(left(6, 0, seconds(3), Some(seconds(4))), Some(seconds(21)));
        assert_eq!(left(6, 0, seconds(3), None), None);
        // More visits than were announced must not make the time left run backwards.
        assert_eq!(left(2, 3, seconds(30), None), Some(seconds(0)));
    }

    #[test]
    fn a_tick_of_an_external_tool_shows_no_rate() {
        let tick = Tick {
            at_s: 1.0,
            test: 0,
            target: "direct".to_owned(),
            requests_per_s: None,
            proxy: Cores::default(),
            server: Cores { user: 0.25, system: 0.5 },
            load: Cores { user: 0.3, system: 0.6 },
        };
        assert_eq!(live(&tick), "cores: server 0.75, load 0.90");
        let known = Tick { requests_per_s: Some(181_234.0), ..tick };
        assert_eq!(live(&known), "181 k req/s; cores: server 0.75, load 0.90");
    }

    #[test]
    fn the_bar_takes_a_whole_run() {
        let mut bar = Bar::new(ProgressDrawTarget::hidden());
        bar.begins(2);
        bar.prepares("starting redis-server");
        bar.visit_begins("SET P=1", "direct", 1, Some(2.0));
        assert_eq!(bar.bar.message(), "SET P=1, direct, round 1");
        assert_eq!(bar.bar.prefix(), "4 s left");
        assert_eq!((bar.bar.position(), bar.bar.length()), (0, Some(2)));
    }
}
