//! The three phases of a row, and what is written down meanwhile.
//!
//! ```text
//!   0 ────────── begun ─────── healed ──────────── ended ── quiet
//!     before          fault           after              no load
//! ```
//! `healed` is the moment from which a recovery is counted: the fault is lifted, or the cluster has a
//! new primary and says that it is whole. Nothing is judged here.
//!
//! Invariant: when [`run`] returns no client is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::checker::Losses;
use testkit::process::Process;
use testkit::{Respool, Verdict, wait};

use crate::load::{Group, Load};
use crate::stage::Scale;

/// How often memory and descriptors are read.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);
/// How long memory may take to go back when the load is over (I5).
const MEMORY_BACK: Duration = Duration::from_secs(30);
/// How much memory may stay: a tenth of what was used before, and some MiB for the allocator's own
/// pools, which are not given back to the system.
const MEMORY_LEFT_BYTES: u64 = 8 << 20;
/// How long descriptors may take to go back: spare connections for large requests are kept for ten
/// seconds.
const DESCRIPTORS_BACK: Duration = Duration::from_secs(12);
/// How long the idle proxy is watched (I8).
const QUIET: Duration = Duration::from_secs(3);

/// The proxy as the kernel sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When.
    pub(crate) at: Instant,
    /// Resident memory.
    pub(crate) rss_bytes: u64,
    /// Open descriptors.
    pub(crate) fds: usize,
    /// CPU time used so far.
    pub(crate) cpu: Duration,
}

/// What a fault tells of itself while it happens.
#[derive(Debug)]
pub(crate) struct Story {
    /// When the fault began.
    pub(crate) begun: Instant,
    /// When it was lifted, once it is.
    healed: Option<Instant>,
    /// To be begun and ended around moments in which the servers may lose writes.
    pub(crate) losses: Losses,
}

impl Story {
    /// From now on the recovery counts. Without it that is the end of the fault.
    pub(crate) fn healed(&mut self) {
        self.healed = Some(Instant::now());
    }
}

/// All that a row has shown.
#[derive(Debug)]
pub(crate) struct Report {
    /// Length of a phase.
    pub(crate) phase: Duration,
    /// When the load began, the fault began, it was lifted, the load ended.
    pub(crate) start: Instant,
    pub(crate) begun: Instant,
    pub(crate) healed: Instant,
    pub(crate) ended: Instant,
    /// What each group came to.
    pub(crate) groups: Vec<(Group, Verdict)>,
    /// From `start` to `ended`.
    pub(crate) samples: Vec<Sample>,
    /// Connections of clients meanwhile.
    pub(crate) conns: usize,
    /// After the load, when memory was back or the time for that was over.
    pub(crate) last: Sample,
    /// How long memory took to go back.
    pub(crate) settled_after: Duration,
    /// CPU time of the idle proxy, and in how long.
    pub(crate) idle: (Duration, Duration),
}

/// Memory before the fault: the greatest in the second half of that phase, when the load is steady.
pub(crate) fn steady(samples: &[Sample], start: Instant, begun: Instant) -> u64 {
    let half = start + begun.saturating_duration_since(start) / 2;
    let steady = samples.iter().filter(|sample| (half..=begun).contains(&sample.at));
    steady.map(|sample| sample.rss_bytes).max().unwrap_or(0)
}

/// Descriptors before the fault, those of all clients among them.
pub(crate) fn fds_before(samples: &[Sample], begun: Instant) -> usize {
    let before = samples.iter().filter(|sample| sample.at <= begun);
    before.map(|sample| sample.fds).max().unwrap_or(0)
}

/// Share of a core that the proxy took between two moments.
pub(crate) fn cpu_share(samples: &[Sample], from: Instant, to: Instant) -> f64 {
    let mut within = samples.iter().filter(|sample| (from..=to).contains(&sample.at));
    match (within.next(), within.next_back()) {
        (Some(first), Some(last)) => {
            (last.cpu - first.cpu).as_secs_f64() / (last.at - first.at).as_secs_f64()
        }
        _ => 0.0,
    }
}

/// What may be left of this much memory.
pub(crate) fn left_bytes_max(steady: u64) -> u64 {
    (steady + steady / 10).max(steady + MEMORY_LEFT_BYTES)
}

/// Runs the load while `fault` does something to the servers.
pub(crate) fn run(
    proxy: &mut Respool,
    load: Load,
    scale: Scale,
    fault: impl FnOnce(&mut Story),
) -> Report {
    let stop = AtomicBool::new(false);
    let conns = load.conns();
    let mut story = Story { begun: Instant::now(), healed: None, losses: load.losses.clone() };
    let start = Instant::now();
    let process = proxy.process();
    let (verdicts, samples, healed, ended) = thread::scope(|scope| {
        let runs: Vec<_> =
            load.groups.iter().map(|group| scope.spawn(|| group.checker.run())).collect();
        let samples = scope.spawn(|| watch(process, &stop));
        // A fault that fails must not leave the clients running.
        let end = End { groups: &load.groups, stop: &stop };
        thread::sleep(scale.phase);
        story.begun = Instant::now();
        fault(&mut story);
        let healed = story.healed.unwrap_or_else(Instant::now);
        story.losses.end();
        thread::sleep(scale.phase);
        drop(end);
        let ended = Instant::now();
        let join = |run: thread::ScopedJoinHandle<'_, Verdict>| {
            run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let verdicts: Vec<Verdict> = runs.into_iter().map(join).collect();
        (verdicts, samples.join().unwrap_or_default(), healed, ended)
    });
    let before = steady(&samples, start, story.begun);
    let settling = Instant::now();
    wait::poll(MEMORY_BACK, || (process.rss_bytes() <= left_bytes_max(before)).then_some(()));
    let settled_after = settling.elapsed();
    let own_fds = fds_before(&samples, story.begun).saturating_sub(conns);
    wait::poll(DESCRIPTORS_BACK, || (process.fds() <= own_fds).then_some(()));
    let cpu = process.cpu_time();
    let quiet = Instant::now();
    thread::sleep(QUIET);
    let idle = (process.cpu_time() - cpu, quiet.elapsed());
    let last = sample(process);
    proxy.assert_alive();
    Report {
        phase: scale.phase,
        start,
        begun: story.begun,
        healed,
        ended,
        groups: load.groups.iter().cloned().zip(verdicts).collect(),
        samples,
        conns,
        last,
        settled_after,
        idle,
    }
}

struct End<'a> {
    groups: &'a [Group],
    stop: &'a AtomicBool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for group in self.groups {
            group.checker.stop.store(true, Ordering::Release);
        }
    }
}

fn sample(process: &Process) -> Sample {
    Sample {
        at: Instant::now(),
        rss_bytes: process.rss_bytes(),
        fds: process.fds(),
        cpu: process.cpu_time(),
    }
}

fn watch(process: &Process, stop: &AtomicBool) -> Vec<Sample> {
    let mut samples = Vec::new();
    while !stop.load(Ordering::Acquire) {
        samples.push(sample(process));
        thread::sleep(SAMPLE_EVERY);
    }
    samples
}
