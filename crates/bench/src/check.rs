//! Judges a run by the limits of its plan.
//!
//! A limit is a ratio of two targets in one run, or of one in two of its tests, so it holds on fast machines and slow ones. A comparison whose partner
//! is absent is *skipped and said*: a check that was not made must not look like one that passed. A figure that should
//! be there and is not fails.
//!
//! Invariant: every limit yields at least one verdict.

use std::fmt;

use crate::plan::Limit;
use crate::record::{Run, Test};
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
    /// It holds: the median of the ratios.
    Ok(f64),
    /// It is missed: the median of the ratios.
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
            Outcome::Ok(_) => "ok",
            Outcome::Missed(_) | Outcome::NotMeasured => "FAIL",
            Outcome::Skipped(_) => "skip",
        };
        write!(f, "{word:<5} ")?;
        if let Some(test) = &self.test {
            write!(f, "{test}: ")?;
        }
        let Limit { figure, target, at_most, .. } = &self.limit;
        let of = match &self.limit.of_test {
            Some(test) => format!("{}'s in {test}", self.limit.of),
            None => format!("{}'s", self.limit.of),
        };
        let name = stats::name(*figure);
        match &self.outcome {
            Outcome::Ok(ratio) | Outcome::Missed(ratio) => {
                write!(f, "{name} of {target} is {ratio:.3} × {of} (at most {at_most})")
            }
            Outcome::NotMeasured => {
                write!(f, "{name} of {target} was not measured (at most {at_most} × {of})")
            }
            Outcome::Skipped(why) => {
                write!(f, "{name} of {target} (at most {at_most} × {of}): {why}")
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
    let other = match &limit.of_test {
        Some(name) => run.tests.iter().find(|other| other.name == *name),
        None => Some(test),
    };
    let Some(other) = other else {
        return Outcome::Skipped("the test to compare with is not in the run".to_owned());
    };
    for (name, test) in [(&limit.target, test), (&limit.of, other)] {
        if stats::visits(test, name).next().is_none() {
            return Outcome::Skipped(format!("{name} was not visited in this test"));
        }
    }
    match ratio(limit, test, other) {
        Some(ratio) if ratio <= limit.at_most => Outcome::Ok(ratio),
        Some(ratio) => Outcome::Missed(ratio),
        None => Outcome::NotMeasured,
    }
}

/// Rounds of two tests are not beside each other in time, so their medians are compared.
fn ratio(limit: &Limit, test: &Test, other: &Test) -> Option<f64> {
    if limit.of_test.is_none() {
        let ratio = stats::ratio(test, &limit.target, &limit.of, limit.figure)?;
        return Some(ratio.median);
    }
    let above = stats::summary(test, &limit.target, limit.figure)?;
    let below = stats::summary(other, &limit.of, limit.figure)?;
    Some(above.median / below.median).filter(|ratio| ratio.is_finite())
}
