//! `cargo xtask tidy`: the house rules that a machine can check, so that no reviewer has to.
//!
//! One file a family of rules: `arrows` (who may know whom), `sizes`, `heads` (what a file opens
//! with, where `unsafe` may stand), `words`, `tables` (of Markdown), `options` (how arguments of requests are compared),
//! `manifest` (dependencies and their reasons).
//! It judges text, not meaning: what clippy or rustc can see is theirs.
//!
//! Invariant: all problems are reported in one run, each with path and line.

mod arrows;
mod heads;
mod manifest;
mod options;
mod sizes;
mod source;
mod tables;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::repo;
use source::Source;

/// Inputs of fuzz targets are bytes with no meaning here, even where they happen to be text.
const NOT_TEXT: &str = "fuzz/seeds/";

/// Folders with workspaces of their own: what they depend on is no dependency of respool.
const OTHER_WORKSPACES: [&str; 2] = ["fuzz/", "tests/clients/rust/"];

/// Reads the repository and reports every problem.
pub(crate) fn run(root: &Path) -> Result<()> {
    let files = repo::files(root)?;
    let mut problems = Problems::default();
    let mut sources = Vec::new();
    let mut manifests = Vec::new();
    let mut reasons = String::new();
    for path in files.iter().filter(|path| !path.starts_with(NOT_TEXT)) {
        let bytes = std::fs::read(root.join(path)).with_context(|| path.clone())?;
        // A picture, say: nothing to read in it.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        words::check_paths(path, &text, &mut problems);
        if path.ends_with(".md") {
            tables::check(path, &text, &mut problems);
        }
        if path.ends_with(".rs") {
            sources.push(Source::new(path, &text));
        } else if path.ends_with("Cargo.toml")
            && !OTHER_WORKSPACES.iter().any(|folder| path.starts_with(folder))
        {
            manifests.push((path.clone(), text));
        } else if path == manifest::REASONS {
            reasons = text;
        }
    }
    check(&sources, &manifests, &reasons, &mut problems);
    if problems.count() > 0 {
        print!("{problems}");
        bail!("tidy: {} problems", problems.count());
    }
    println!("tidy: {} files, no problem", files.len());
    Ok(())
}

fn check(
    sources: &[Source],
    manifests: &[(String, String)],
    reasons: &str,
    problems: &mut Problems,
) {
    arrows::check_manifests(manifests, problems);
    arrows::check_sources(sources, problems);
    manifest::check(manifests, reasons, problems);
    sizes::check(sources, problems);
    heads::check(sources, problems);
    options::check(sources, problems);
    for source in sources {
        words::check_identifiers(source, problems);
    }
}

/// What was found, to be shown all at once.
#[derive(Default)]
pub(crate) struct Problems {
    found: Vec<String>,
}

impl Problems {
    /// Adds a problem; `line` counts from 1, and 0 means the whole file.
    pub(crate) fn add(&mut self, path: &str, line: usize, what: impl fmt::Display) {
        self.found.push(match line {
            0 => format!("{path}: {what}"),
            line => format!("{path}:{line}: {what}"),
        });
    }

    /// How many were found.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.found.iter().try_for_each(|problem| writeln!(f, "{problem}"))
    }
}
