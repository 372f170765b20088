//! The proxy that tests of the bench run.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// `RESPOOL_PROGRAM`, or else built by the same cargo into the same folder as this test. That alone would be enough, but cargo chooses other
/// features for one package than for the whole workspace, and then compiles for a minute what is there already.
pub(crate) fn respool() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| std::env::var_os("RESPOOL_PROGRAM").map_or_else(build, PathBuf::from))
        .clone()
}

fn build() -> PathBuf {
    // TARGET/debug/deps/run-0123: this test.
    let own = std::env::current_exe().expect("this test");
    let target = own.ancestors().nth(3).expect("a folder for what is built");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "server", "--bin", "respool"]);
    cargo.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().expect("cargo").success(), "respool does not build");
    target.join("debug/respool")
}
