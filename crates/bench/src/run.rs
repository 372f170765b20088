//! Visits every target in turn and records.
use crate::plan::Plan;
use crate::record::Run;
use std::sync::atomic::AtomicBool;

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
#[derive(Clone, Debug)]
pub struct Options {
    /// Start the servers and proxies that the plan names.
    pub spawn: bool,
    /// Where the program of a target kind is, when not beside this program or on PATH: (`respool`, path).
    pub programs: Vec<(String, std::path::PathBuf)>,
    /// The command line without secrets, for the record.
    pub command: String,
}

/// Runs.
///
/// # Errors
/// The first thing that makes a figure impossible, in words for a person.
pub fn run(
    _plan: &Plan,
    _options: &Options,
    _watch: &mut dyn Watch,
    _interrupted: &AtomicBool,
) -> anyhow::Result<Run> {
    todo!()
}
