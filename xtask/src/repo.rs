//! Where the repository is and which files belong to it.
//!
//! Files are what git would see: tracked, or new and not ignored. So a build folder or an
//! installed client library is never judged, and a file is judged before it is committed.
//!
//! Invariant: paths are relative to the root, with `/`, sorted, and exist.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder of the workspace. Cargo tells where this crate lay when it was built, and the
/// workspace is its parent.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask has no parent folder")
}

/// All files of the repository; see the module's invariant.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files: Vec<String> = text
        .split('\0')
        // A tracked file that was deleted is still listed until the deletion is staged.
        .filter(|path| !path.is_empty() && root.join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
