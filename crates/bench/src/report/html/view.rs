//! A run, and which colour each of its targets has.
//!
//! The base of the ratios is grey, because it is what the others are seen against. The target that the report speaks of
//! has the first colour of the palette, so that it looks the same in every report; the others follow in the order of the
//! run. A target has one colour in every picture of a report.
//!
//! Invariant: [`View::class`] gives a class that `pictures.css` has, for every name.

use std::collections::HashMap;

use super::picture::Key;
use crate::record::{Run, Target, Test};

/// Colours besides the grey of the base; with more targets than that they are used again.
pub(super) const COLOURS: usize = 8;

/// A run with colours.
pub(super) struct View<'a> {
    pub run: &'a Run,
    colours: HashMap<&'a str, usize>,
}

impl<'a> View<'a> {
    pub(super) fn new(run: &'a Run) -> Self {
        let mut view = Self { run, colours: HashMap::from([(run.base.as_str(), 0)]) };
        let subject = view.subject().into_iter();
        for target in subject.chain(&run.targets) {
            // The subject comes twice and the base has its colour already: neither takes another.
            let next = (view.colours.len() - 1) % COLOURS + 1;
            view.colours.entry(target.name.as_str()).or_insert(next);
        }
        view
    }

    /// The class of a target's colour: `c0` to `c8`.
    pub(super) fn class(&self, target: &str) -> String {
        format!("c{}", self.colours.get(target).copied().unwrap_or(0))
    }

    /// Targets that were visited in this test, in the order of the run.
    pub(super) fn targets(&self, test: &'a Test) -> impl Iterator<Item = &'a Target> {
        let visited = |t: &&Target| test.visits.iter().any(|v| v.target == t.name);
        self.run.targets.iter().filter(visited)
    }

    /// The target that the report speaks of: this project's own when it is there, else the first that is neither the base nor a floor.
    pub(super) fn subject(&self) -> Option<&'a Target> {
        let others = || self.run.targets.iter().filter(|t| t.name != self.run.base && !t.floor);
        others().find(|t| t.name.starts_with("respool")).or_else(|| others().next())
    }

    /// Names of all targets with their colours.
    pub(super) fn key(&self, tones: bool) -> Key {
        let named = |t: &Target| (t.name.clone(), self.class(&t.name));
        Key { targets: self.run.targets.iter().map(named).collect(), tones }
    }
}
