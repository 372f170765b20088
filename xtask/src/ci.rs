//! `cargo xtask ci`: what must hold before a change goes in, in the order of cheapest failure.
//!
//! `make test` runs the same steps, all of them even if one fails, and beside them what needs other
//! programs (client libraries, cargo-deny). This is the part that needs nothing but the toolchain.
//!
//! Invariant: the first failing step ends the run, and its output is the last on the screen.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tidy;

/// The steps that are cargo's own.
const FORMAT: &[&str] = &["fmt", "--all", "--check"];
const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
const TEST: &[&str] = &["test", "--workspace"];

/// Runs all steps.
pub(crate) fn run(root: &Path) -> Result<()> {
    tidy::run(root)?;
    cargo(root, FORMAT)?;
    cargo(root, CLIPPY)?;
    cargo(root, TEST)
}

/// Runs cargo in the root and fails when it does.
pub(crate) fn cargo(root: &Path, words: &[&str]) -> Result<()> {
    println!("cargo {}", words.join(" "));
    // Inside `cargo run` this variable names the very cargo that runs us, so that the toolchain
    // does not change half way.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(words)
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo {} failed", words.join(" "));
    }
    Ok(())
}
