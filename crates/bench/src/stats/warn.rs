//! What a reader must know before believing a figure, found in the visits themselves.
//!
//! Each rule looks at one target in one test over all its rounds, and yields a *place* when it applies. All places of a
//! rule make one sentence, so that a run of a hundred visits is not followed by a hundred lines. Thresholds are the
//! constants at the end. Nothing here changes a figure or takes one out.
//!
//! Invariant: each warning is a whole sentence that names at least one test.

use super::{Role, is_floor, median, summary, visits};
use crate::plan::Figure;
use crate::record::{Run, Target, Test, Usage, Visit};

/// What a reader must be warned of, from the visits and from which of the targets are floors: generator saturated, machine busy, spread too wide to claim
/// anything.
#[must_use]
pub fn warnings(tests: &[Test], targets: &[Target]) -> Vec<String> {
    let mut found = vec![
        all_places(tests, load_saturated).sentence(
            "The load generator was at its limit, and neither proxy nor server was, in",
            "the throughput there is the generator's and latency contains its own queue (a redis-benchmark of one \
             thread without a pipeline always ends so); read the CPU per request instead.",
        ),
        all_places(tests, strangers).sentence(
            "Other programs used the machine during",
            "a proxy that is pushed off its core finds more requests waiting when it returns, and looks cheaper than it \
             is.",
        ),
        all_places(tests, stolen).sentence(
            "The host took processor time away during",
            "every figure there is worse than the software is.",
        ),
    ];
    found.extend(WATCHED.iter().map(|&(figure, name)| {
        all_places(tests, |test, target| spread(test, target, figure)).sentence(
            &format!("The rounds differ too much in {name} to claim anything small, in"),
            "use more rounds, longer visits or a quieter machine.",
        )
    }));
    found.extend([
        all_places(tests, few_rounds).sentence(
            "There are too few rounds to tell a difference from chance, in",
            &format!("{ROUNDS_MIN} are the least."),
        ),
        all_places(tests, sampled_seldom).sentence(
            "The split into user and system is sampled by the clock tick, too seldom to be trusted in",
            "longer visits or more rounds make it better; the sum of both is exact.",
        ),
        all_places(tests, |test, target| {
            // Behind a floor there is no server.
            server_unknown(test, target).filter(|_| !is_floor(targets, target))
        })
        .sentence(
            "The servers' CPU is not known in",
            "no process of theirs was named, so its columns are empty.",
        ),
        all_places(tests, mostly_nulls).sentence(
            "More than half of the replies were nulls in",
            "these figures are of reads that find nothing.",
        ),
    ]);
    found.into_iter().flatten().collect()
}

/// The warnings of a whole run: those it was recorded with, those of its visits, and those of its machine. No sentence
/// comes twice. This is what reports show.
#[must_use]
pub fn all_warnings(run: &Run) -> Vec<String> {
    let machine = all_places(&run.tests, |test, target| machine_full(test, target, run.machine.cores))
        .sentence(
            "All cores of the machine were in use in",
            "throughput and latency show how the scheduler shared them, not what the target can do alone; read the CPU \
             per request.",
        );
    let mut all = run.warnings.clone();
    for warning in warnings(&run.tests, &run.targets).into_iter().chain(machine) {
        if !all.contains(&warning) {
            all.push(warning);
        }
    }
    all
}

/// A rule: what is to be said of one target in one test. The text may be empty; `None` when the rule does not apply.
type Said = Option<String>;

fn load_saturated(test: &Test, target: &str) -> Said {
    let share = typical(test, target, |visit| {
        cores(&visit.load, visit).map(|used| used / f64::from(visit.load_threads.max(1)))
    })?;
    let busiest = typical(test, target, |visit| {
        let of = |role: Role| role.usage(visit).and_then(|usage| cores(usage, visit));
        // Unknown processes may have been at their limit, so nothing can be said of them.
        Some(of(Role::Server)?.max(of(Role::Proxy).unwrap_or(0.0)))
    })?;
    (share >= BUSY && busiest < BUSY).then(String::new)
}

fn strangers(test: &Test, target: &str) -> Said {
    cores_above(test, target, |visit| visit.other_cores, OTHER_CORES_MAX)
}

fn stolen(test: &Test, target: &str) -> Said {
    cores_above(test, target, |visit| visit.stolen_cores, STOLEN_CORES_MAX)
}

fn cores_above(test: &Test, target: &str, of: fn(&Visit) -> f64, limit: f64) -> Said {
    let most = visits(test, target).map(of).fold(0.0, f64::max);
    (most > limit).then(|| format!("{most:.1} cores"))
}

fn spread(test: &Test, target: &str, figure: Figure) -> Said {
    let spread = summary(test, target, figure)?.spread();
    (spread > SPREAD_MAX).then(|| format!("{:.0} %", spread * 100.0))
}

fn few_rounds(test: &Test, target: &str) -> Said {
    let rounds = visits(test, target).count();
    (rounds < ROUNDS_MIN).then(|| format!("{rounds}"))
}

fn sampled_seldom(test: &Test, target: &str) -> Said {
    let of = |role: Role| {
        let used =
            visits(test, target).filter_map(|visit| role.usage(visit)).map(|used| used.cpu_s);
        let sum_s: f64 = used.sum();
        sum_s > 0.0 && sum_s < SPLIT_CPU_S_MIN
    };
    (of(Role::Proxy) || of(Role::Server)).then(String::new)
}

fn server_unknown(test: &Test, target: &str) -> Said {
    visits(test, target).all(|visit| Role::Server.usage(visit).is_none()).then(String::new)
}

fn mostly_nulls(test: &Test, target: &str) -> Said {
    let (nulls, requests) = visits(test, target)
        .fold((0, 0), |(nulls, requests), visit| (nulls + visit.nulls, requests + visit.requests));
    (nulls > requests / 2).then(String::new)
}

fn machine_full(test: &Test, target: &str, machine_cores: u32) -> Said {
    let used = typical(test, target, |visit| {
        let roles: Option<f64> = [&visit.proxy, &visit.server, &visit.load]
            .iter()
            .map(|usage| cores(usage, visit))
            .sum();
        Some(roles? + visit.other_cores + visit.stolen_cores)
    })?;
    (machine_cores > 0 && used >= MACHINE_FULL * f64::from(machine_cores)).then(String::new)
}

/// The median over the visits, so that one odd round neither makes nor hides a warning.
fn typical(test: &Test, target: &str, of: impl Fn(&Visit) -> Option<f64>) -> Option<f64> {
    median(&visits(test, target).filter_map(of).collect::<Vec<_>>())
}

fn cores(usage: &Usage, visit: &Visit) -> Option<f64> {
    (visit.seconds > 0.0).then(|| usage.cpu_s / visit.seconds)
}

/// Where a rule applies: per test, the targets and what is said of each.
struct Places<'a>(Vec<(&'a str, Vec<String>)>);

fn all_places(tests: &[Test], rule: impl Fn(&Test, &str) -> Said) -> Places<'_> {
    let of_test = |test: &Test| -> Vec<String> {
        let mut seen: Vec<&str> = Vec::new();
        for visit in &test.visits {
            if !seen.contains(&visit.target.as_str()) {
                seen.push(&visit.target);
            }
        }
        let named = |target: &str, said: String| {
            if said.is_empty() { target.to_owned() } else { format!("{target}: {said}") }
        };
        seen.iter().filter_map(|target| Some(named(target, rule(test, target)?))).collect()
    };
    let tests = tests.iter().map(|test| (test.name.as_str(), of_test(test)));
    Places(tests.filter(|(_, targets)| !targets.is_empty()).collect())
}

impl Places<'_> {
    /// `<lead> SET P=1 (direct, respool: 34 %), ... and 3 more tests: <tail>`; `None` when there is no place.
    fn sentence(&self, lead: &str, tail: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut shown: Vec<String> = self
            .0
            .iter()
            .take(PLACES_MAX)
            .map(|(test, targets)| format!("{test} ({})", targets.join(", ")))
            .collect();
        match self.0.len().saturating_sub(PLACES_MAX) {
            0 => {}
            1 => shown.push("one more test".to_owned()),
            more => shown.push(format!("{more} more tests")),
        }
        let last = shown.pop()?;
        let joined =
            if shown.is_empty() { last } else { format!("{} and {last}", shown.join(", ")) };
        Some(format!("{lead} {joined}: {tail}"))
    }
}

/// Share of its cores from which a process counts as being at its limit. Less than 1, because the visit's edges and
/// the scheduler cost some.
const BUSY: f64 = 0.9;
/// Share of all cores from which the machine counts as full.
const MACHINE_FULL: f64 = 0.95;
/// Cores that strangers may use.
const OTHER_CORES_MAX: f64 = 0.2;
/// Cores that the host may take.
const STOLEN_CORES_MAX: f64 = 0.1;
/// Distance of the extremes, relative to the median, above which nothing small can be claimed.
pub const SPREAD_MAX: f64 = 0.3;
/// Fewest rounds from which a median means something.
const ROUNDS_MIN: usize = 3;
/// CPU that must have been sampled for the split to have two digits: 100 ticks of a hundredth of a second.
const SPLIT_CPU_S_MIN: f64 = 1.0;
/// Tests that a sentence names before it counts the rest.
const PLACES_MAX: usize = 6;
/// Figures whose spread is watched. The user and system parts are sampled, and p99.9 of a short visit is a handful of
/// requests: both always spread.
const WATCHED: [(Figure, &str); 5] = [
    (Figure::Throughput, "throughput"),
    (Figure::P50, "the median latency"),
    (Figure::P99, "the 99th percentile of the latency"),
    (Figure::ProxyCpu, "the proxy's CPU per request"),
    (Figure::ServerCpu, "the servers' CPU per request"),
];
