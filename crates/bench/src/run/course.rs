//! Who is visited in which test, and who is left out: decided before anything is started.
//!
//! What it is not: a check of the plan's own rules, which `scenario` made.
//!
//! Invariant: each leg has at least one target, there is at least one leg, the program of each target is known, and each
//! target that a test would have but for its kind, a missing program or driver has a sentence in `left_out`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::floor;
use crate::plan::{NetDriver, Plan, TargetKind, TargetPlan, TestPlan, Topology};
use crate::target::program::Program;
use crate::target::{Fleet, SERVER, serves};

use super::Options;

/// Why a driver cannot be had here, if it cannot.
type Unfit = fn(NetDriver) -> Option<String>;

/// The whole way.
#[derive(Debug)]
pub(super) struct Course<'a> {
    /// Tests in order.
    pub(super) legs: Vec<Leg<'a>>,
    /// Programs by what `Fleet::needs` says, and that of servers.
    pub(super) programs: BTreeMap<String, Program>,
    /// What was left out and why, each a whole sentence.
    pub(super) left_out: Vec<String>,
}

/// A test with the targets that it visits.
#[derive(Debug)]
pub(super) struct Leg<'a> {
    pub(super) test: &'a TestPlan,
    pub(super) topology: Option<&'a Topology>,
    pub(super) targets: Vec<&'a TargetPlan>,
}

impl<'a> Course<'a> {
    /// Plans it.
    ///
    /// # Errors
    /// In words: a target that must be started and may not, a program that is missing, nothing left to visit.
    pub(super) fn new(plan: &'a Plan, options: &Options) -> Result<Self, String> {
        Self::with(plan, options, floor::unfit)
    }

    /// The same, with what a driver cannot be had for as `unfit` says.
    fn with(plan: &'a Plan, options: &Options, unfit: Unfit) -> Result<Self, String> {
        let mut course = Self { legs: Vec::new(), programs: BTreeMap::new(), left_out: Vec::new() };
        let mut present = Vec::new();
        for target in &plan.targets {
            if course.has_program(target, options, unfit)? {
                present.push(target);
            }
        }
        for test in &plan.tests {
            let topology = plan.topologies.iter().find(|topology| topology.name == test.topology);
            let mut targets = present.clone();
            targets.retain(|target| course.visits_in(target, test, topology));
            if !targets.is_empty() {
                course.legs.push(Leg { test, topology, targets });
            }
        }
        if course.legs.is_empty() {
            let mut text = vec!["nothing is left to visit.".to_owned()];
            text.append(&mut course.left_out);
            return Err(text.join(" "));
        }
        if course.legs.iter().any(Leg::spawns) {
            course.programs.insert(SERVER.to_owned(), Fleet::find_server(&options.programs)?);
        }
        Ok(course)
    }

    /// Visits in all.
    pub(super) fn visits(&self, rounds: u32) -> usize {
        let targets: usize = self.legs.iter().map(|leg| leg.targets.len()).sum();
        targets * rounds as usize
    }

    /// Every target that is visited, once, in the order of the first visits.
    pub(super) fn targets(&self) -> Vec<&'a TargetPlan> {
        let mut targets: Vec<&TargetPlan> = Vec::new();
        for &target in self.legs.iter().flat_map(|leg| &leg.targets) {
            if !targets.iter().any(|known| known.name == target.name) {
                targets.push(target);
            }
        }
        targets
    }

    /// The topology that nobody needs after this leg.
    pub(super) fn last_use(&self, leg: usize) -> Option<&'a str> {
        let name = |leg: &Leg<'a>| leg.topology.map(|topology| topology.name.as_str());
        let used = name(self.legs.get(leg)?)?;
        let later = self.legs[leg + 1..].iter().any(|leg| name(leg) == Some(used));
        (!later).then_some(used)
    }

    /// What a target that is started here is: `respool 0.1.0, 1 worker, before Redis 7.0.15`.
    pub(super) fn in_words(&self, target: &TargetPlan) -> String {
        let server = self.programs.get(SERVER).map(Program::in_words).unwrap_or_default();
        let Some(program) = Fleet::needs(target).and_then(|name| self.programs.get(name)) else {
            return server;
        };
        let program = match &target.kind {
            TargetKind::Floor(driver) => {
                return format!("floor over {}, of {}", driver.name(), program.in_words());
            }
            TargetKind::Command(_) => {
                program.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            _ => program.in_words(),
        };
        let over = target.driver.map(|driver| format!(" over {}", driver.name()));
        let program = program + &over.unwrap_or_default();
        let plural = if target.workers == 1 { "" } else { "s" };
        let idle = match target.idle {
            0 => String::new(),
            idle => format!(", beside {idle} idle clients"),
        };
        format!("{program}, {} worker{plural}, before {server}{idle}", target.workers)
    }

    /// Whether the program of a target is here; one that may be missing is left out.
    fn has_program(
        &mut self,
        target: &TargetPlan,
        options: &Options,
        unfit: Unfit,
    ) -> Result<bool, String> {
        if matches!(target.kind, TargetKind::External(_)) {
            return Ok(true);
        }
        if !options.spawn {
            return Err(format!(
                "target `{}` has to be started: say --spawn, or name endpoints that run with --target NAME=URL",
                target.name
            ));
        }
        let driver = match target.kind {
            TargetKind::Floor(driver) => Some(driver),
            _ => target.driver,
        };
        // A respool would go on with another one and say so in its log only.
        if let Some(driver) = driver
            && let Some(why) = unfit(driver)
        {
            return self.absent(target, &why);
        }
        let Some(name) = Fleet::needs(target) else { return Ok(true) };
        let Entry::Vacant(entry) = self.programs.entry(name.to_owned()) else { return Ok(true) };
        let found = match target.kind {
            TargetKind::Command(_) => Program::find_unasked(name, &options.programs),
            _ => Program::find(name, &options.programs),
        };
        match found {
            Ok(program) => {
                entry.insert(program);
                Ok(true)
            }
            Err(why) => self.absent(target, &why),
        }
    }

    /// Leaves out a target that may be missing.
    fn absent(&mut self, target: &TargetPlan, why: &str) -> Result<bool, String> {
        if !target.optional {
            return Err(format!("target `{}`: {why}", target.name));
        }
        self.left_out.push(format!("`{}` was left out: {why}.", target.name));
        Ok(false)
    }

    fn visits_in(
        &mut self,
        target: &TargetPlan,
        test: &TestPlan,
        topology: Option<&Topology>,
    ) -> bool {
        let named = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        if !named(&test.targets, &target.name) || !named(&target.topologies, &test.topology) {
            return false;
        }
        let Some(sentence) = topology.and_then(|topology| serves::refusal(target, topology)) else {
            return true;
        };
        // The same for many tests: said once.
        if !self.left_out.contains(&sentence) {
            self.left_out.push(sentence);
        }
        false
    }
}

impl Leg<'_> {
    /// Whether servers are started for it.
    pub(super) fn spawns(&self) -> bool {
        let alone =
            |kind: &TargetKind| matches!(kind, TargetKind::External(_) | TargetKind::Floor(_));
        self.targets.iter().any(|target| !alone(&target.kind))
    }
}

#[cfg(test)]
pub(super) mod tests;
