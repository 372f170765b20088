//! Scenarios as data: TOML in, a checked [`Plan`] out.
use crate::plan::Plan;

/// What the command line changes in a scenario.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Use the file's `[short]` values.
    pub short: bool,
    /// Rounds instead of the file's.
    pub rounds: Option<u32>,
    /// Seconds of each visit instead of the file's.
    pub duration_s: Option<f64>,
    /// Only tests whose name contains one of these (case-insensitive).
    pub only: Vec<String>,
    /// The load's tool instead of the file's.
    pub tool: Option<crate::plan::Tool>,
    /// Targets instead of the file's (from `--target`): they are visited with the first topology's tests only.
    pub targets: Vec<crate::plan::TargetPlan>,
    /// Pins instead of the file's.
    pub pins: Option<crate::plan::Pins>,
}

/// (name, text) of every scenario that is built in.
pub const BUILT_IN: &[(&str, &str)] = &[];

/// Reads a scenario: `name` for messages and (without folder and `.toml`) as the plan's name.
///
/// # Errors
/// All problems at once, each with file, line, key and what is allowed.
pub fn load(_name: &str, _text: &str, _changes: &Changes) -> Result<Plan, config::Problems> {
    todo!()
}
