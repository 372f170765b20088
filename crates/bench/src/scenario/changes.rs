//! What the command line changes in a scenario, on top of a file that was found to be right.
//!
//! Stronger wins: a flag over `[short]`, `[short]` over the rest of the file.
//!
//! Invariant: what is taken away leaves no dangling name: a limit only names tests that are left, and the base is one of
//! the targets.

use super::Short;
use super::limits::{DURATION_S_MAX, DURATION_S_MIN};
use super::reader::{Notes, shown};
use super::unfold::tool_can;
use super::values::milliseconds;
use crate::plan::{Pins, Plan, Stop, TargetPlan, TestPlan, Tool};

/// What the command line changes in a scenario.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Use the file's `[short]` values.
    pub short: bool,
    /// Rounds instead of the file's; at least 1.
    pub rounds: Option<u32>,
    /// Seconds of each visit instead of the file's. A warm-up that is longer shrinks to it.
    pub duration_s: Option<f64>,
    /// Only tests whose name contains one of these (case-insensitive).
    pub only: Vec<String>,
    /// Only these of the file's targets, or families of them; one that is named is not optional any more.
    pub visit: Vec<String>,
    /// The load's tool instead of the file's.
    pub tool: Option<Tool>,
    /// Targets instead of the file's (from `--target`): they are visited with the first topology's tests only, because
    /// what stands behind them is not known. Where the file has a test for certain targets, a name that the file knows
    /// keeps the file's meaning, and one that it does not know is visited everywhere.
    pub targets: Vec<TargetPlan>,
    /// Pins instead of the file's.
    pub pins: Option<Pins>,
}

/// A plan as the file says it.
pub(super) struct Draft {
    pub(super) plan: Plan,
    /// (target, its family); see `parts`.
    pub(super) families: Vec<(String, String)>,
}

impl Changes {
    /// Applies everything.
    pub(super) fn apply(&self, notes: &mut Notes<'_>, draft: Draft, short: &Short) -> Plan {
        let Draft { mut plan, families } = draft;
        self.apply_visit(notes, &mut plan, &families);
        self.apply_targets(notes, &mut plan, &families);
        if self.short {
            plan.rounds = short.rounds.unwrap_or(plan.rounds);
            plan.pause_ms = short.pause_ms.unwrap_or(plan.pause_ms);
            shorten(&mut plan.tests, short);
            // Who asks for certain tests gets them, in their short form.
            if self.only.is_empty() {
                keep(notes, &mut plan, &short.only, "short.only");
            }
        }
        keep(notes, &mut plan, &self.only, "--only");
        self.apply_numbers(notes, &mut plan);
        if let Some(tool) = self.tool {
            set_tool(notes, &mut plan.tests, tool);
        }
        if let Some(pins) = &self.pins {
            plan.pins = pins.clone();
        }
        plan
    }

    fn apply_numbers(&self, notes: &mut Notes<'_>, plan: &mut Plan) {
        match self.rounds {
            Some(0) => notes.argument("--rounds", "found 0; allowed: at least 1"),
            Some(rounds) => plan.rounds = rounds,
            None => {}
        }
        let Some(duration_s) = self.duration_s else { return };
        if !(DURATION_S_MIN..=DURATION_S_MAX).contains(&duration_s) {
            let allowed = format!("allowed: seconds from {DURATION_S_MIN} to {DURATION_S_MAX}");
            return notes.argument("--duration-s", format!("found {duration_s}; {allowed}"));
        }
        let duration_ms = milliseconds(duration_s);
        for test in &mut plan.tests {
            test.load.stop = Stop::AfterMs(duration_ms);
            test.load.warmup_ms = test.load.warmup_ms.min(duration_ms);
        }
    }

    /// Takes away the targets that were not named, and the tests that are for none of the others.
    fn apply_visit(&self, notes: &mut Notes<'_>, plan: &mut Plan, families: &[(String, String)]) {
        if self.visit.is_empty() {
            return;
        }
        for name in &self.visit {
            if !families.iter().any(|(member, family)| name == member || name == family) {
                let there: Vec<&str> = families.iter().map(|(member, _)| member.as_str()).collect();
                let message = format!(
                    "no target is called `{}`; there are: {}",
                    shown(name),
                    there.join(", ")
                );
                notes.argument("--visit", message);
            }
        }
        let named = |target: &String| {
            families.iter().any(|(member, family)| {
                member == target && (self.visit.contains(member) || self.visit.contains(family))
            })
        };
        plan.targets.retain(|target| named(&target.name));
        plan.targets.iter_mut().for_each(|target| target.optional = false);
        plan.tests.retain_mut(|test| {
            let for_all = test.targets.is_empty();
            test.targets.retain(named);
            for_all || !test.targets.is_empty()
        });
        if plan.tests.is_empty() {
            notes.argument("--visit", "no test of this scenario is for these targets");
        }
        if let Some(first) = plan.targets.first().filter(|_| !named(&plan.base)) {
            plan.base.clone_from(&first.name);
        }
        drop_limits(plan);
    }

    /// Puts endpoints that run already in the place of the file's targets.
    fn apply_targets(&self, notes: &mut Notes<'_>, plan: &mut Plan, families: &[(String, String)]) {
        let Some(first) = self.targets.first() else { return };
        let names: Vec<&str> = self.targets.iter().map(|target| target.name.as_str()).collect();
        let topology = plan.topologies.first().map(|topology| topology.name.clone());
        plan.topologies.truncate(1);
        let mut kept: Vec<TestPlan> = Vec::new();
        for mut test in std::mem::take(&mut plan.tests) {
            let visited = who_visits(&names, &test.targets, families);
            // A file has the same load twice for different targets of its own; of strangers it says nothing new.
            let again = |earlier: &TestPlan| {
                earlier.load == test.load
                    && (earlier.targets.is_empty()
                        || visited.iter().all(|name| earlier.targets.contains(name)))
            };
            if Some(&test.topology) != topology.as_ref()
                || visited.is_empty()
                || kept.iter().any(again)
            {
                continue;
            }
            test.targets = if visited.len() == names.len() { Vec::new() } else { visited };
            kept.push(test);
        }
        if kept.is_empty() {
            let message =
                "no test of this scenario is for targets of such names; give them other names";
            notes.argument("--target", message);
        }
        plan.tests = kept;
        plan.targets.clone_from(&self.targets);
        if !names.contains(&plan.base.as_str()) {
            plan.base.clone_from(&first.name);
        }
        drop_limits(plan);
    }
}

/// Which of the given targets a test of the file is for. A name that the file knows has the file's meaning: `respool`
/// is visited where the file visits respool. A name that it does not know is visited everywhere.
fn who_visits(given: &[&str], listed: &[String], families: &[(String, String)]) -> Vec<String> {
    let wanted = |name: &str| {
        let known = families.iter().any(|(member, family)| name == member || name == family);
        let in_list = families
            .iter()
            .any(|(member, family)| (name == member || name == family) && listed.contains(member));
        listed.is_empty() || !known || in_list
    };
    given.iter().filter(|name| wanted(name)).map(|name| (*name).to_owned()).collect()
}

/// Applies what `[short]` says of each load.
fn shorten(tests: &mut [TestPlan], short: &Short) {
    for test in tests {
        test.load.stop = short.stop.unwrap_or(test.load.stop);
        test.load.warmup_ms = short.warmup_ms.unwrap_or(test.load.warmup_ms);
    }
}

/// Keeps the tests whose name contains one of the texts; all when there is none.
fn keep(notes: &mut Notes<'_>, plan: &mut Plan, only: &[String], flag: &str) {
    if only.is_empty() {
        return;
    }
    let contains = |name: &str, text: &String| name.to_lowercase().contains(&text.to_lowercase());
    let names = plan.tests.iter().map(|test| test.name.clone()).collect::<Vec<_>>();
    for text in only {
        if !names.iter().any(|name| contains(name, text)) {
            let there = names.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>();
            let more = if names.len() > NAMES_SHOWN_MAX { ", ..." } else { "" };
            notes.argument(
                flag,
                format!(
                    "no test's name contains `{}`; there are: {}{more}",
                    shown(text),
                    there.join(", ")
                ),
            );
        }
    }
    plan.tests.retain(|test| only.iter().any(|text| contains(&test.name, text)));
    drop_limits(plan);
}

/// Forgets limits of tests that are not run.
fn drop_limits(plan: &mut Plan) {
    let names: Vec<&String> = plan.tests.iter().map(|test| &test.name).collect();
    plan.limits.retain_mut(|limit| {
        let for_all = limit.tests.is_empty();
        limit.tests.retain(|test| names.contains(&test));
        for_all || !limit.tests.is_empty()
    });
}

/// Lets another tool make the load.
fn set_tool(notes: &mut Notes<'_>, tests: &mut [TestPlan], tool: Tool) {
    for test in tests {
        test.load.tool = tool;
        if let Err(message) = tool_can(&test.load) {
            notes.argument(
                "--tool",
                format!("test `{}`: {message}; leave such tests out with --only", test.name),
            );
        }
    }
}

/// Names that a message lists.
const NAMES_SHOWN_MAX: usize = 20;
