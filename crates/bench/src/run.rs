//! Visits every target in turn and records.
//!
//! ```text
//!   for each test:                       keys of the test before are deleted
//!     start what its targets need        (servers once per topology, proxies once per topology)
//!     fill the keys that are read        (once; with shards through each target, since each spreads keys its own way)
//!     for each round:
//!       for each target: A B C A B C     a virtual machine changes its speed from one minute to the next: neighbours
//!         pause, visit, record           in time are what can be compared
//! ```
//!
//! Parts: `course` decides who is visited and who is left out, before anything is started; `visit` does one visit;
//! `words` describes a test for the record.
//!
//! What it is not: the arithmetic of results (`stats`), and no second chance: the first visit that fails ends the run, as
//! a run with a hole would be compared with one without.
//!
//! Invariant: on every way out, also when interrupted, everything that was started is ended before [`run`] returns.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::account::{Account, machine};
use crate::plan::{Plan, TargetKind, TargetPlan};
use crate::record::{FORMAT, Run, Target, Test, Tick};
use crate::target::{Fleet, INTERRUPTED, Station, pin};
use crate::{load, stats};

mod course;
mod page;
mod visit;
mod words;

use course::{Course, Leg};
use visit::{Visit, Visited};

/// What whoever watches a run is told.
pub trait Watch {
    /// The run begins: so many visits in all.
    fn begins(&mut self, visits: usize);
    /// Something is started or prepared.
    fn prepares(&mut self, what: &str);
    /// A visit begins: test, target, round (from 1), how long it will take if that is known.
    fn visit_begins(&mut self, test: &str, target: &str, round: u32, seconds: Option<f64>);
    /// About once a second within a visit.
    fn tick(&mut self, tick: &crate::record::Tick);
    /// It ended.
    fn visit_ends(&mut self, visit: &crate::record::Visit);
    /// A notice for the reader: something was left out.
    fn notice(&mut self, text: &str);
}

/// How a plan is carried out.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Start the servers and proxies that the plan names.
    pub spawn: bool,
    /// Where the program of a target kind is, when not beside this program or on PATH: (`respool`, path).
    pub programs: Vec<(String, PathBuf)>,
    /// The command line without secrets, for the record.
    pub command: String,
    /// How targets that speak TLS are trusted (the roots of `--tls-ca`). Without it a target with TLS is refused.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// Runs.
///
/// Process death signals of what is started hang on the calling thread, so it must not end before this returns; and only
/// one run at a time makes sense in a process, since the CPU of the load is that of the process.
///
/// # Errors
/// The first thing that makes a figure impossible, in words for a person.
pub fn run(
    plan: &Plan,
    options: &Options,
    watch: &mut dyn Watch,
    interrupted: &AtomicBool,
) -> Result<Run> {
    let began = Instant::now();
    let began_at = jiff::Timestamp::now();
    // Whole seconds are enough for a person, and nothing is computed from it.
    let began_at = began_at.round(jiff::Unit::Second).unwrap_or(began_at);
    pin::check(&plan.pins).map_err(|why| anyhow!(why))?;
    let course = Course::new(plan, options).map_err(|why| anyhow!(why))?;
    course.left_out.iter().for_each(|sentence| watch.notice(sentence));
    raise_file_limit();
    let mut runner = Runner::new(plan, options, &course, interrupted, began)?;
    watch.begins(course.visits(plan.rounds));
    for (number, leg) in course.legs.iter().enumerate() {
        runner.test(number, leg, watch)?;
        runner.release_after(number);
    }
    Ok(runner.into_run(options, began_at.to_string()))
}

/// Everything of a run that goes on.
struct Runner<'a> {
    plan: &'a Plan,
    course: &'a Course<'a>,
    interrupted: &'a AtomicBool,
    began: Instant,
    fleet: Fleet<'a>,
    targets: Vec<Target>,
    tests: Vec<Test>,
    timeline: Vec<Tick>,
    warnings: Vec<String>,
    /// Least memory that a proxy, by its processes, was seen with before idle clients came.
    rss_least: BTreeMap<Vec<u32>, u64>,
}

impl<'a> Runner<'a> {
    fn new(
        plan: &'a Plan,
        options: &Options,
        course: &'a Course<'a>,
        interrupted: &'a AtomicBool,
        began: Instant,
    ) -> Result<Self> {
        let fleet =
            Fleet::new(course.programs.clone(), &plan.pins, options.tls.clone(), interrupted);
        let fleet = fleet.map_err(|why| anyhow!(why))?;
        let mut targets = Vec::new();
        for target in course.targets() {
            let what = match &target.kind {
                TargetKind::External(external) => fleet
                    .check(external)
                    .map_err(|why| anyhow!("target `{}`: {why}", target.name))?,
                _ => course.in_words(target),
            };
            let floor = matches!(target.kind, TargetKind::Floor(_));
            targets.push(Target {
                name: target.name.clone(),
                what,
                axis: target.axis.clone(),
                floor,
            });
        }
        Ok(Self {
            plan,
            course,
            interrupted,
            began,
            fleet,
            targets,
            tests: Vec::new(),
            timeline: Vec::new(),
            warnings: Vec::new(),
            rss_least: BTreeMap::new(),
        })
    }

    fn test(&mut self, number: usize, leg: &Leg<'_>, watch: &mut dyn Watch) -> Result<()> {
        let stations = self.prepare(leg, watch)?;
        self.tests.push(words::test(leg));
        for round in 1..=self.plan.rounds {
            for (target, station) in leg.targets.iter().zip(&stations) {
                self.pause()?;
                let seconds = words::expected_seconds(&leg.test.load);
                watch.visit_begins(&leg.test.name, &target.name, round, seconds);
                let visited = self.visit(number, leg, target, station, round, watch);
                let place = || format!("{}, {}, round {round}", leg.test.name, target.name);
                let visited = visited.map_err(|why| self.explain(&place(), &why))?;
                watch.visit_ends(&visited.record);
                self.warn_of_unanswered(&place(), visited.unanswered);
                // `test` was pushed above, so there is a last one.
                self.tests[number].visits.push(visited.record);
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        number: usize,
        leg: &Leg<'_>,
        target: &TargetPlan,
        station: &Station,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Visited, String> {
        let timeline = &mut self.timeline;
        let mut on_tick = |tick: Tick| {
            watch.tick(&tick);
            timeline.push(tick);
        };
        let visit = Visit {
            test: number,
            target: &target.name,
            round,
            endpoint: &station.endpoint,
            load: &leg.test.load,
            beside: &target.beside,
            admin: station.admin.as_deref(),
            idle: target.idle,
            is_ours: !matches!(target.kind, TargetKind::External(_)),
            proxy: Account::new(&station.proxy),
            server: Account::new(&station.server),
            load_cores: &self.plan.pins.load,
            began: self.began,
            interrupted: self.interrupted,
        };
        let mut visited = visit.carry_out(&mut on_tick)?;
        if let Some(idle) = &mut visited.record.idle {
            // A process may keep what the idle clients of an earlier visit had; then their next visit would cost nothing.
            let least = self.rss_least.entry(station.proxy.clone());
            let least = least.or_insert(idle.rss_before_bytes);
            *least = idle.rss_before_bytes.min(*least);
            idle.rss_before_bytes = *least;
        }
        Ok(visited)
    }

    /// Starts what is missing and fills the keys.
    fn prepare(&mut self, leg: &Leg<'_>, watch: &mut dyn Watch) -> Result<Vec<Station>> {
        // A test starts from empty servers, whatever the one before left: the same figures come out when it runs alone.
        if let Some(topology) = leg.topology {
            let flushed = self.fleet.flush(topology);
            flushed.map_err(|why| self.explain(&leg.test.name, &why))?;
        }
        let mut stations = Vec::new();
        for target in &leg.targets {
            self.stop_if_interrupted()?;
            watch.prepares(&format!("{} for {}", target.name, leg.test.name));
            let station = self.fleet.station(target, leg.topology, leg.test.load.value_bytes);
            let place = || format!("{}, {}", leg.test.name, target.name);
            stations.push(station.map_err(|why| self.explain(&place(), &why))?);
        }
        let mut filled = false;
        let stores = |target: &TargetPlan| !matches!(target.kind, TargetKind::Floor(_));
        for (target, station) in leg.targets.iter().zip(&stations).filter(|(it, _)| stores(it)) {
            let own_keys = matches!(target.kind, TargetKind::External(_))
                || !leg.topology.is_some_and(Fleet::places_are_common);
            if own_keys || !filled {
                self.stop_if_interrupted()?;
                watch.prepares(&format!("keys of {} through {}", leg.test.name, target.name));
                let place = || format!("{}, {}, writing its keys", leg.test.name, target.name);
                load::fill(&station.endpoint, &leg.test.load)
                    .map_err(|error| self.explain(&place(), &error.to_string()))?;
                filled |= !own_keys;
            }
        }
        Ok(stations)
    }

    /// The cause of a failure: that we were told to end, or what is known with the last words of a process that ended.
    fn explain(&mut self, place: &str, why: &str) -> anyhow::Error {
        if self.interrupted.load(Ordering::Relaxed) {
            return anyhow!(INTERRUPTED);
        }
        match self.last_words() {
            // A start that failed tells it all itself.
            ended if ended.is_empty() || why.contains(&ended) => anyhow!("{place}: {why}"),
            ended => anyhow!("{place}: {why}\n{ended}"),
        }
    }

    /// Of processes that ended. A connection is reset some moments before the process can be seen to have ended.
    fn last_words(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_millis(200);
        loop {
            let ended = self.fleet.ended();
            if !ended.is_empty() || Instant::now() >= deadline {
                return ended;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn warn_of_unanswered(&mut self, place: &str, unanswered: u64) {
        if unanswered > 0 {
            self.warnings.push(format!(
                "{place}: {unanswered} requests were due and not answered when the visit ended; the target does not keep up \
                 with this rate."
            ));
        }
    }

    fn stop_if_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!(INTERRUPTED);
        }
        Ok(())
    }

    /// Lets what the visit before left behind settle.
    fn pause(&self) -> Result<()> {
        let end = Instant::now() + Duration::from_millis(self.plan.pause_ms);
        loop {
            self.stop_if_interrupted()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(INTERRUPT_LATENCY));
        }
    }

    fn release_after(&mut self, number: usize) {
        if let Some(topology) = self.course.last_use(number) {
            self.fleet.release(topology);
        }
    }

    fn into_run(self, options: &Options, began: String) -> Run {
        let mut warnings = stats::warnings(&self.tests, &self.targets);
        warnings.extend(self.warnings);
        warnings.extend(machine::governor_warning());
        if !Account::new(&[]).exact() {
            warnings.push(
                "This kernel keeps no scheduler statistics: CPU times are sums of clock ticks (10 ms), good to a percent \
                 only over long visits."
                    .to_owned(),
            );
        }
        let mut machine = machine::describe();
        machine.pinned = pin::in_words(&self.plan.pins);
        let mut run = Run {
            format: FORMAT,
            bench_version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: self.plan.name.clone(),
            about: self.plan.about.clone(),
            source: self.plan.source.clone(),
            command: options.command.clone(),
            began,
            seconds: self.began.elapsed().as_secs_f64(),
            rounds: self.plan.rounds,
            base: self.plan.base.clone(),
            machine,
            targets: self.targets,
            tests: self.tests,
            times_floor: Vec::new(),
            timeline: self.timeline,
            warnings,
            left_out: self.course.left_out.clone(),
        };
        run.times_floor = stats::all_times_floor(&run);
        run
    }
}

/// Raises the limit of open files to what is allowed: a test with many clients needs it here, in the proxy and in the
/// server, which inherit it. Where that is not enough the one that runs out of files says so.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Some systems allow a thousand million, and some programs make a table of that size.
    let wanted = limit.maximum.map_or(FILES_MAX, |most| most.min(FILES_MAX));
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        // Raising up to the hard limit is always allowed; should it fail nevertheless, nothing is lost.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// How many files a process of a run may have open: clients and upstreams of the largest tests.
const FILES_MAX: u64 = 65_536;
/// How long a wait goes on after an interrupt, at most.
const INTERRUPT_LATENCY: Duration = Duration::from_millis(20);
