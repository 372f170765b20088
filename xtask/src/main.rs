//! Chores of the repository, run as `cargo xtask NAME`.
//!
//! `tidy` checks what the compiler and clippy cannot see: which crate may know which, sizes, words.
//! `docs` writes the generated pages under `docs/reference`. `counts` compares instruction counts. `ci` runs the
//! checks in the order in which they fail fastest.
//!
//! It is not a build system: building is cargo's, installing is `scripts/install`'s. It uses no
//! parser crate and no network, so that it builds in a second and its verdict does not change
//! with a dependency.
//!
//! Invariant: only `docs` and `counts --write` change a file of the repository.

mod ci;
mod counts;
mod docs;
mod repo;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask <command>

  tidy  check arrows between crates, sizes, words, heads of modules, dependency list
  docs  write the generated pages under docs/reference
  counts [--write]
        count the instructions of the hot path under callgrind and compare them with
        docs/internals/instruction-counts.txt, or write them there
  ci    tidy, format check, clippy, tests";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root = repo::root()?;
    match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["docs"] => docs::write(&root),
        ["counts"] => counts::run(&root, false),
        ["counts", "--write"] => counts::run(&root, true),
        ["ci"] => ci::run(&root),
        _ => bail!("{USAGE}"),
    }
}
