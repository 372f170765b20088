//! Judges a run by the limits of its plan.
//!
//! A limit is mostly a ratio of two targets in one run, or of one in two of its tests, so it holds on fast machines and slow ones; memory
//! is judged by itself. A comparison whose partner
//! is absent is *skipped and said*: a check that was not made must not look like one that passed. A figure that should
//! be there and is not fails.
//!
//! Invariant: every limit yields at least one verdict.

use std::fmt;

use crate::plan::Limit;
use crate::record::{Run, Test};
use crate::report::digits;
use crate::stats;

/// What came of one limit in one test.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Name of the test; `None` when the run has none of the tests that the limit names.
    pub test: Option<String>,
    /// The limit.
    pub limit: Limit,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It holds: the median of the ratios, or of the figure.
    Ok(f64),
    /// The ratio is missed or was not to be had, but the figure itself, which this is, is enough.
    Enough(f64),
    /// It is missed: the median of the ratios, or of the figure.
    Missed(f64),
    /// It is missed, because a target that was visited has no such figure.
    NotMeasured,
    /// It was not judged; why, in words.
    Skipped(String),
}

impl Verdict {
    /// Whether it was judged and missed.
    #[must_use]
    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Missed(_) | Outcome::NotMeasured)
    }
}

/// As `ok    SET P=1: proxy CPU of respool is 0.812 × nutcracker's (at most 0.85)`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.outcome {
            Outcome::Ok(_) | Outcome::Enough(_) => "ok",
            Outcome::Missed(_) | Outcome::NotMeasured => "FAIL",
            Outcome::Skipped(_) => "skip",
        };
        write!(f, "{word:<5} ")?;
        if let Some(test) = &self.test {
            write!(f, "{test}: ")?;
        }
        let Limit { figure, target, bound, enough, .. } = &self.limit;
        let of = match (&self.limit.of, &self.limit.of_test) {
            (Some(of), Some(test)) => Some(format!("{of}'s in {test}")),
            (Some(of), None) => Some(format!("{of}'s")),
            (None, _) => None,
        };
        let (name, unit) = (stats::name(*figure), stats::unit(*figure));
        let (side, value) = (bound.in_words(), bound.value());
        // What would have been enough is said where it was not.
        let or = enough.map_or_else(String::new, |enough| format!(", or {enough} {unit}"));
        match (&self.outcome, of) {
            (Outcome::Ok(ratio), Some(of)) => {
                write!(f, "{name} of {target} is {ratio:.3} × {of} ({side} {value})")
            }
            (Outcome::Missed(ratio), Some(of)) => {
                write!(f, "{name} of {target} is {ratio:.3} × {of} ({side} {value}{or})")
            }
            (Outcome::Ok(figure) | Outcome::Missed(figure), None) => {
                let shown = digits(*figure);
                write!(f, "{name} of {target} is {shown} {unit} ({side} {value})")
            }
            (Outcome::Enough(figure), _) => {
                let (shown, enough) = (digits(*figure), enough.unwrap_or_default());
                write!(f, "{name} of {target} is {shown} {unit} ({enough} is enough)")
            }
            (Outcome::NotMeasured, of) => {
                let of = of.map_or_else(|| format!(" {unit}"), |of| format!(" × {of}"));
                write!(f, "{name} of {target} was not measured ({side} {value}{of})")
            }
            (Outcome::Skipped(why), of) => {
                let of = of.map_or_else(|| format!(" {unit}"), |of| format!(" × {of}"));
                write!(f, "{name} of {target} ({side} {value}{of}): {why}")
            }
        }
    }
}

/// Judges each limit in each test that it is for, in order of the limits.
#[must_use]
pub fn judge(plan_limits: &[Limit], run: &Run) -> Vec<Verdict> {
    plan_limits.iter().flat_map(|limit| judge_one(limit, run)).collect()
}

/// Whether the check is passed: nothing failed and, unless there was nothing to judge, something was judged.
#[must_use]
pub fn held(verdicts: &[Verdict]) -> bool {
    let judged = |verdict: &Verdict| !matches!(verdict.outcome, Outcome::Skipped(_));
    verdicts.is_empty() || (verdicts.iter().any(judged) && !verdicts.iter().any(Verdict::failed))
}

fn judge_one(limit: &Limit, run: &Run) -> Vec<Verdict> {
    let named = |test: &Test| limit.tests.contains(&test.name);
    let verdict = |test: Option<String>, outcome| Verdict { test, limit: limit.clone(), outcome };
    let mut verdicts: Vec<Verdict> = run
        .tests
        .iter()
        .filter(|test| limit.tests.is_empty() || named(test))
        .map(|test| verdict(Some(test.name.clone()), outcome(limit, run, test)))
        .collect();
    // Tests that `--only` took out are named, one by one; a limit for all tests of a run without tests, once.
    for name in limit.tests.iter().filter(|name| run.tests.iter().all(|test| test.name != **name)) {
        let why = Outcome::Skipped("this test is not in the run".to_owned());
        verdicts.push(verdict(Some(name.clone()), why));
    }
    if verdicts.is_empty() {
        verdicts.push(verdict(None, Outcome::Skipped("the run has no tests".to_owned())));
    }
    verdicts
}

fn outcome(limit: &Limit, run: &Run, test: &Test) -> Outcome {
    let outcome = outcome_of_bound(limit, run, test);
    let figure = stats::summary(test, &limit.target, limit.figure).map(|summary| summary.median);
    match (limit.enough, figure) {
        (Some(enough), Some(figure))
            if !matches!(outcome, Outcome::Ok(_)) && limit.bound.holds_for(figure, enough) =>
        {
            Outcome::Enough(figure)
        }
        _ => outcome,
    }
}

fn outcome_of_bound(limit: &Limit, run: &Run, test: &Test) -> Outcome {
    let other = match &limit.of_test {
        Some(name) => run.tests.iter().find(|other| other.name == *name),
        None => Some(test),
    };
    let Some(other) = other else {
        return Outcome::Skipped("the test to compare with is not in the run".to_owned());
    };
    let of = limit.of.as_ref().map(|of| (of, other));
    for (name, test) in [Some((&limit.target, test)), of].into_iter().flatten() {
        if stats::visits(test, name).next().is_none() {
            return Outcome::Skipped(format!("{name} was not visited in this test"));
        }
    }
    match value(limit, test, of) {
        Some(value) if limit.bound.holds(value) => Outcome::Ok(value),
        Some(value) => Outcome::Missed(value),
        None => Outcome::NotMeasured,
    }
}

/// What is judged. Rounds of two tests are not beside each other, so their medians are compared.
fn value(limit: &Limit, test: &Test, of: Option<(&String, &Test)>) -> Option<f64> {
    let figure = |test, target| Some(stats::summary(test, target, limit.figure)?.median);
    match of {
        None => figure(test, &limit.target),
        Some((of, _)) if limit.of_test.is_none() => {
            Some(stats::ratio(test, &limit.target, of, limit.figure)?.median)
        }
        Some((of, other)) => {
            let ratio = figure(test, &limit.target)? / figure(other, of)?;
            Some(ratio).filter(|ratio| ratio.is_finite())
        }
    }
}
