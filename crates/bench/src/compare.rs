//! Two runs: what got better or worse beyond the noise.
//!
//! Tests and targets are matched by name. Each figure is compared twice:
//!
//! - *absolute*: the values of one run against those of the other. Between two runs the machine may have become faster
//!   or slower, and every figure with it.
//! - *relative*: the ratios to the base target within the rounds of each run, against each other. The base saw the same
//!   minutes of the same machine, so its changes cancel out. This is the robust one, and the verdict follows it wherever
//!   it exists. A proxy's CPU has no counterpart in a direct connection; its yardstick is the CPU of the base's server,
//!   which pays for the same kernel and the same clock rate.
//!
//! The base itself has no relative figure; its verdict is absolute, and when it moved much there is a warning, as then
//! the machine or the server is another than it was. Rounds of different runs are no pairs, so both use
//! [`noise::unpaired`].
//!
//! Invariant: a verdict other than *same* has at least two rounds on each side.

use std::path::Path;

use crate::plan::Figure;
use crate::record::{Run, Test};
use crate::report::json::{self, FileError};
use crate::stats::noise::{self, Change, Verdict};
use crate::stats::{self, Summary};

/// What two runs have to say to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The two runs in words: file or name, and when each began.
    pub runs: [String; 2],
    /// The target that relative figures are taken to; `None` when the runs have none in common.
    pub base: Option<String>,
    /// One line per figure of each target in each test that both runs have.
    pub rows: Vec<Row>,
    /// What a reader must know before believing a row, each a whole sentence.
    pub warnings: Vec<String>,
    /// What differs on purpose, most likely: versions of the targets. Each a whole sentence.
    pub notes: Vec<String>,
    /// What only one run has, each a whole sentence.
    pub only_in_one: Vec<String>,
}

/// One figure of one target in one test.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the test.
    pub test: String,
    /// Name of the target.
    pub target: String,
    /// Which figure.
    pub figure: Figure,
    /// It in the first run.
    pub before: Summary,
    /// It in the second.
    pub after: Summary,
    /// How the values changed.
    pub absolute: Change,
    /// How the ratios to the base changed; `None` for the base itself, or without one.
    pub relative: Option<Change>,
    /// By the relative change where there is one.
    pub verdict: Verdict,
}

impl Comparison {
    /// Rows with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }
}

/// Reads two run files and compares them.
///
/// # Errors
/// When one of them cannot be read or is no run: names it.
pub fn files(before: &Path, after: &Path) -> Result<Comparison, FileError> {
    let (a, b) = (json::read(before)?, json::read(after)?);
    let named = |path: &Path, run: &Run| format!("{}, {}", path.display(), described(run));
    let runs = [named(before, &a), named(after, &b)];
    Ok(Comparison { runs, ..compare(&a, &b) })
}

/// Compares two runs, the older one first.
#[must_use]
pub fn compare(before: &Run, after: &Run) -> Comparison {
    let mut comparison = Comparison {
        runs: [described(before), described(after)],
        base: (before.base == after.base).then(|| before.base.clone()),
        rows: Vec::new(),
        warnings: differences(before, after),
        notes: versions(before, after),
        only_in_one: only_in_one(before, after),
    };
    for test in &before.tests {
        if let Some(other) = find_test(after, &test.name) {
            comparison.warnings.extend(load_differs(test, other));
            comparison.rows.extend(rows(test, other, comparison.base.as_deref()));
        }
    }
    comparison.warnings.extend(base_moved(&comparison));
    for (which, run) in ["first", "second"].iter().zip([before, after]) {
        let count = stats::all_warnings(run).len();
        if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            comparison.warnings.push(format!(
                "The {which} run has {count} warning{s} of its own; see its report."
            ));
        }
    }
    comparison
}

/// Figures that are compared. p99.9 is left out: of a visit of some seconds it is a handful of requests.
fn compared() -> impl Iterator<Item = Figure> {
    stats::FIGURES.into_iter().filter(|&figure| figure != Figure::P999)
}

fn rows(before: &Test, after: &Test, base: Option<&str>) -> Vec<Row> {
    let mut rows = Vec::new();
    for target in targets(before) {
        for figure in compared() {
            rows.extend(row(before, after, target, base, figure));
        }
    }
    rows
}

/// `None` when one of the runs has no such figure.
fn row(
    before: &Test,
    after: &Test,
    target: &str,
    base: Option<&str>,
    figure: Figure,
) -> Option<Row> {
    let values = |test| -> Vec<f64> {
        stats::visits(test, target).filter_map(|visit| stats::figure(visit, figure)).collect()
    };
    let absolute = noise::unpaired(&values(before), &values(after))?;
    let relative = base
        .filter(|&base| base != target)
        .and_then(|base| relative(before, after, target, base, figure));
    Some(Row {
        test: before.name.clone(),
        target: target.to_owned(),
        figure,
        before: stats::summary(before, target, figure)?,
        after: stats::summary(after, target, figure)?,
        absolute,
        relative,
        verdict: relative.unwrap_or(absolute).verdict(figure),
    })
}

fn relative(
    before: &Test,
    after: &Test,
    target: &str,
    base: &str,
    figure: Figure,
) -> Option<Change> {
    let measure = yardstick(before, after, base, figure);
    let of = |test| stats::ratios(test, (target, figure), (base, measure));
    noise::unpaired(&of(before), &of(after))
}

/// The base's figure that another target's is divided by.
fn yardstick(before: &Test, after: &Test, base: &str, figure: Figure) -> Figure {
    let both = [before, after].iter().all(|test| stats::summary(test, base, figure).is_some());
    match figure {
        Figure::ProxyCpu | Figure::ProxyUser | Figure::ProxySystem if !both => Figure::ServerCpu,
        _ => figure,
    }
}

/// Names of the targets of a test, in order of their first visit.
fn targets(test: &Test) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for visit in &test.visits {
        if !names.contains(&visit.target.as_str()) {
            names.push(&visit.target);
        }
    }
    names
}

fn find_test<'a>(run: &'a Run, name: &str) -> Option<&'a Test> {
    run.tests.iter().find(|test| test.name == name)
}

fn described(run: &Run) -> String {
    format!("{} of {}", run.scenario, run.began)
}

/// What makes two runs hard to compare.
fn differences(a: &Run, b: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, a: &dyn ToString, b: &dyn ToString, so: &str| {
        let (a, b) = (a.to_string(), b.to_string());
        if a != b {
            let or_none = |text: String| if text.is_empty() { "nothing".to_owned() } else { text };
            found.push(format!("{what} differs: {} then {}; {so}", or_none(a), or_none(b)));
        }
    };
    let relative_only = "only the relative changes mean something.";
    differ("The scenario", &a.scenario, &b.scenario, "tests of the same name may not be the same.");
    differ("The machine's CPU", &a.machine.cpu, &b.machine.cpu, relative_only);
    differ(
        "The number of cores",
        &a.machine.cores,
        &b.machine.cores,
        "neither kind of change is safe.",
    );
    differ(
        "The kernel",
        &a.machine.kernel,
        &b.machine.kernel,
        "it is most of what a request costs.",
    );
    differ("The pinning", &a.machine.pinned, &b.machine.pinned, "neither kind of change is safe.");
    differ("The base", &a.base, &b.base, "there are no relative changes.");
    differ(
        "The version of respool-bench",
        &a.bench_version,
        &b.bench_version,
        "its load may cost another amount.",
    );
    found
}

fn versions(a: &Run, b: &Run) -> Vec<String> {
    let changed = |target: &crate::record::Target| {
        let other = b.targets.iter().find(|other| other.name == target.name)?;
        (other.what != target.what)
            .then(|| format!("{} was {}, and is {}.", target.name, target.what, other.what))
    };
    a.targets.iter().filter_map(changed).collect()
}

fn load_differs(a: &Test, b: &Test) -> Option<String> {
    let mut what = Vec::new();
    for (name, x, y) in [
        ("requests", &a.requests, &b.requests),
        ("tool", &a.tool, &b.tool),
        ("shape", &a.shape, &b.shape),
        ("servers", &a.topology, &b.topology),
    ] {
        if x != y {
            what.push(format!("{name} ({x} then {y})"));
        }
    }
    if a.axes != b.axes {
        what.push(format!("numbers ({} then {})", axes(a), axes(b)));
    }
    (!what.is_empty()).then(|| {
        format!(
            "The load of {} is not the same in both runs: {}; its rows compare different things.",
            a.name,
            what.join(", ")
        )
    })
}

fn axes(test: &Test) -> String {
    let words: Vec<String> =
        test.axes.iter().map(|(name, value)| format!("{name} {value}")).collect();
    words.join(", ")
}

/// One sentence when the base's throughput or its server's CPU moved: where, and how far at most.
fn base_moved(comparison: &Comparison) -> Option<String> {
    let base = comparison.base.as_deref()?;
    let moved: Vec<&Row> = comparison
        .rows
        .iter()
        .filter(|row| row.target == base && row.verdict != Verdict::Same)
        .filter(|row| matches!(row.figure, Figure::Throughput | Figure::ServerCpu))
        .filter(|row| (row.absolute.factor - 1.0).abs() > BASE_MOVED)
        .collect();
    let distance = |row: &&&Row| row.absolute.factor.ln().abs();
    let most = moved.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    // Ratios to a base that was disturbed itself carry its disturbance.
    let spread = most.before.spread().max(most.after.spread());
    let so = if spread > stats::SPREAD_MAX {
        format!(
            "It also varied by {:.0} % within a run, so neither kind of change is safe.",
            spread * 100.0
        )
    } else {
        format!(
            "The machine or the server changed between the runs, so believe the changes relative to {base}."
        )
    };
    Some(format!(
        "The base moved: {} of {base} in {} is {:.2} times what it was. {so}",
        stats::name(most.figure),
        most.test,
        most.absolute.factor,
    ))
}

fn only_in_one(before: &Run, after: &Run) -> Vec<String> {
    let mut found = Vec::new();
    for (which, run, other) in [("first", before, after), ("second", after, before)] {
        for test in &run.tests {
            let Some(twin) = find_test(other, &test.name) else {
                found.push(format!("Only the {which} run has the test {}.", test.name));
                continue;
            };
            let there = targets(twin);
            for target in targets(test).iter().filter(|target| !there.contains(target)) {
                found.push(format!("Only the {which} run visits {target} in {}.", test.name));
            }
        }
    }
    found
}

/// Share from which a change of the base is worth a warning: what virtual machines do from one minute to the next.
const BASE_MOVED: f64 = 0.1;
