//! `list` and `show`: what scenarios there are and what each does.
//!
//! Invariant: what `show` says of tests and times is computed from the plan that `run` would carry out.

use std::fmt::Write as _;

use super::args::ShowArgs;
use super::{Failure, say, scenario_text};
use crate::plan::{Plan, Stop, TargetKind, TargetPlan, TestPlan};
use crate::scenario::{self, BUILT_IN, Changes};

/// `list`.
pub(super) fn list() -> Result<(), Failure> {
    let width = BUILT_IN.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, toml) in BUILT_IN {
        let plan = scenario::load(name, toml, &Changes::default()).map_err(Failure::usage)?;
        let _ = writeln!(text, "{name:width$}  {}", plan.about);
    }
    say(&text);
    Ok(())
}

/// `show`.
pub(super) fn show(args: &ShowArgs) -> Result<(), Failure> {
    let toml = scenario_text(&args.scenario)?;
    let changes = Changes { short: args.short, ..Changes::default() };
    let plan = scenario::load(&args.scenario, &toml, &changes).map_err(Failure::usage)?;
    say(&if args.toml { toml } else { describe(&plan) });
    Ok(())
}

/// A plan in words.
fn describe(plan: &Plan) -> String {
    let mut text = format!("{}: {}\n", plan.name, plan.about);
    if let Some(source) = &plan.source {
        let _ = writeln!(text, "After: {source}");
    }
    let _ = writeln!(text, "\nTargets (ratios are taken to {}):", plan.base);
    for target in &plan.targets {
        let _ = writeln!(text, "  {}", describe_target(target));
    }
    let _ = writeln!(text, "\nTests ({} rounds):", plan.rounds);
    let width = plan.tests.iter().map(|test| test.name.chars().count()).max().unwrap_or(0);
    for test in &plan.tests {
        let _ = writeln!(text, "  {:width$}  {}", test.name, describe_test(test));
    }
    match seconds(plan) {
        Some(seconds) => {
            let _ = writeln!(
                text,
                "\n{} visits, about {} if every target takes part",
                visits(plan),
                length(seconds)
            );
        }
        None => {
            let _ = writeln!(text, "\n{} visits", visits(plan));
        }
    }
    text
}

fn describe_target(target: &TargetPlan) -> String {
    let mut text = target.name.clone();
    if let Some(driver) = target.driver {
        let _ = write!(text, "  over {}", driver.name());
    }
    if !target.options.is_empty() {
        let _ = write!(text, "  {}", target.options.join(" "));
    }
    for beside in &target.beside {
        let _ = write!(text, "  + {} every {} ms", beside.question, beside.every_ms);
    }
    if target.idle > 0 {
        let _ = write!(text, "  + {} idle clients", target.idle);
    }
    if target.optional {
        text.push_str(match target.kind {
            TargetKind::Floor(_) => "  (left out where its driver is not to be had)",
            _ if target.driver.is_some() => {
                "  (left out when its program is not here, or its driver not to be had)"
            }
            _ => "  (left out when its program is not here)",
        });
    }
    text
}

fn describe_test(test: &TestPlan) -> String {
    let load = &test.load;
    let requests: Vec<String> = load.mix.iter().map(|(request, _)| request.to_string()).collect();
    let mut text = format!(
        "{}  on `{}`, {} clients, pipeline {}, {} keys, values of {}",
        requests.join(" | "),
        test.topology,
        load.clients,
        load.pipeline,
        load.keys.count,
        scenario::values::size(load.value_bytes),
    );
    if !test.targets.is_empty() {
        let _ = write!(text, "; for {}", test.targets.join(", "));
    }
    text
}

/// Visits of the whole run when every target takes part.
fn visits(plan: &Plan) -> usize {
    let rounds = usize::try_from(plan.rounds).unwrap_or(usize::MAX);
    plan.tests.iter().map(|test| rounds.saturating_mul(visitors(plan, test))).sum()
}

fn visitors(plan: &Plan, test: &TestPlan) -> usize {
    if test.targets.is_empty() { plan.targets.len() } else { test.targets.len() }
}

/// Seconds of the whole run, without what starting takes; `None` when a test ends after a number of requests.
fn seconds(plan: &Plan) -> Option<f64> {
    let mut all_ms = 0.0;
    for test in &plan.tests {
        let Stop::AfterMs(ms) = test.load.stop else { return None };
        let visit_ms = ms + test.load.warmup_ms + plan.pause_ms;
        all_ms += visit_ms as f64 * visitors(plan, test) as f64 * f64::from(plan.rounds);
    }
    Some(all_ms / 1000.0)
}

fn length(seconds: f64) -> String {
    if seconds < 90.0 {
        return format!("{seconds:.0} seconds");
    }
    format!("{:.0} minutes", seconds / 60.0)
}
