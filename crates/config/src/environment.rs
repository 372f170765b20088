//! Variables of the environment that were meant for an option and miss its name.
//!
//! Orchestrators put variables of their own into the environment (Kubernetes: `RESPOOL_PORT`, `RESPOOL_SERVICE_HOST` for
//! a service named respool), and a configuration may name further ones for passwords. So a variable is refused only if
//! its name is close to that of an option.
//!
//! Not here: the values of variables that have the name of an option (`compile`).
//!
//! Invariant: no message repeats a value; it may be a password.

use crate::compile::Sources;
use crate::options::{ENVIRONMENT_PREFIX, OPTIONS, OptionSpec};
use crate::problem::{Origin, Problem};
use crate::suggest::closest;

/// Variables that are read and are no options.
const OTHERS: [&str; 2] = ["RESPOOL_CONFIG", "RESPOOL_LOG"];

/// A problem for each variable whose name nearly is that of an option.
pub(crate) fn mistyped(sources: &Sources<'_>) -> Vec<Problem> {
    let names: Vec<String> = OPTIONS.iter().map(OptionSpec::environment).collect();
    let suffixes = || names.iter().filter_map(|name| name.strip_prefix(ENVIRONMENT_PREFIX));
    let mut problems = Vec::new();
    for (name, value) in sources.environment {
        let Some(suffix) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        if names.contains(name) || OTHERS.contains(&name.as_str()) || value.is_empty() {
            continue;
        }
        if is_of_kubernetes(suffix, value) || is_named(name, sources) {
            continue;
        }
        if let Some(meant) = closest(suffix, suffixes()) {
            let message =
                format!("no option has this name; did you mean {ENVIRONMENT_PREFIX}{meant}?");
            let origin = Origin::Environment(name.clone());
            problems.push(Problem { origin, key: None, message, excerpt: None });
        }
    }
    problems
}

/// Whether Kubernetes makes such a variable of a service that is named `respool`, or begins so.
fn is_of_kubernetes(suffix: &str, value: &str) -> bool {
    suffix.contains("SERVICE_")
        || suffix.contains("PORT_")
        || suffix.ends_with("PORT") && value.contains("://")
}

/// Whether the configuration itself names it, as one that holds a password.
fn is_named(name: &str, sources: &Sources<'_>) -> bool {
    let given = sources.arguments.iter().chain(sources.changes).flat_map(|(_, words)| words);
    sources.file.is_some_and(|file| file.text.contains(name))
        || given.into_iter().any(|word| word.contains(name))
}
