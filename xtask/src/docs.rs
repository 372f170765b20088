//! `cargo xtask docs`: writes the pages that are made from tables.
//!
//! The tables belong to the crates, and the binary writes what it would also print (reference of
//! the options, commented example, man page). So this only runs it; a test of the `server` crate
//! fails while a written page is not what the tables say.
//!
//! Invariant: nothing generated is ever edited by hand; each such file says so in its first line.

use std::path::Path;

use anyhow::Result;

use crate::ci::cargo;

/// How the binary is asked; hidden from its `--help`, as users have no need of it.
const GENERATE: &[&str] =
    &["run", "--quiet", "--package", "server", "--bin", "respool", "--", "generate-docs", "."];

/// Writes all generated pages.
pub(crate) fn write(root: &Path) -> Result<()> {
    cargo(root, GENERATE)
}
