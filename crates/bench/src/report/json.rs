//! The run file, written and read.
//!
//! Pretty-printed, because it is kept in repositories, where differences are read by people. Reading tells apart what can be wrong: no
//! file, no JSON, JSON of something else, a run of a later version.
//!
//! Invariant: what [`read`] returns has a format that this program knows, and [`write()`] followed by [`read`] gives the
//! same run.

use std::io::Write;
use std::path::Path;

use crate::record::{FORMAT, Run};

/// Why a run file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system said no.
    #[error("{path}: {why}")]
    Io {
        /// The file.
        path: String,
        /// Its words.
        why: std::io::Error,
    },
    /// The text is not JSON, or was cut off.
    #[error("{path}: this is no JSON: {why}")]
    NotJson {
        /// The file.
        path: String,
        /// Where and what.
        why: serde_json::Error,
    },
    /// JSON, but not of a run.
    #[error("{path}: this is no run of respool-bench: {why}")]
    NotARun {
        /// The file.
        path: String,
        /// The first field that is missing or of the wrong kind.
        why: String,
    },
    /// Written by a later version, whose meaning is not known here.
    #[error(
        "{path}: its format is {format}, this respool-bench reads up to {FORMAT}: use the one that wrote it, or a newer one"
    )]
    TooNew {
        /// The file.
        path: String,
        /// Its format.
        format: u64,
    },
}

/// Writes the run. An old file is replaced at once or not at all.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn write(run: &Run, path: &Path) -> Result<(), FileError> {
    write_whole(path, &to_text(run)).map_err(|why| FileError::Io { path: shown(path), why })
}

/// The text of the file.
#[must_use]
pub fn to_text(run: &Run) -> String {
    // Maps with keys that are no strings are all that serde_json refuses, and a run has no map.
    let mut text = serde_json::to_string_pretty(run).expect("a run has no maps");
    text.push('\n');
    text
}

/// Reads a run.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn read(path: &Path) -> Result<Run, FileError> {
    let text =
        std::fs::read_to_string(path).map_err(|why| FileError::Io { path: shown(path), why })?;
    from_text(&text, &shown(path))
}

/// Reads the text of a run file; `path` is for messages.
///
/// # Errors
/// As [`read`].
pub fn from_text(text: &str, path: &str) -> Result<Run, FileError> {
    let path = path.to_owned();
    let value: serde_json::Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(why) => return Err(FileError::NotJson { path, why }),
    };
    // Before the fields are looked at: a later format may have others, and saying so helps more than naming the first.
    match value.get("format").and_then(serde_json::Value::as_u64) {
        None => {
            let why = "it has no number called `format`".to_owned();
            return Err(FileError::NotARun { path, why });
        }
        Some(format) if format > u64::from(FORMAT) => {
            return Err(FileError::TooNew { path, format });
        }
        Some(_) => {}
    }
    let run: Run = serde_json::from_value(value)
        .map_err(|why| FileError::NotARun { path: path.clone(), why: why.to_string() })?;
    match broken_tick(&run) {
        Some(why) => Err(FileError::NotARun { path, why }),
        None => Ok(run),
    }
}

/// Reports index the tests by the ticks' numbers, so a file that was edited by hand must not lead them astray.
fn broken_tick(run: &Run) -> Option<String> {
    let tick = run.timeline.iter().find(|tick| tick.test >= run.tests.len())?;
    Some(format!(
        "a tick at {} s belongs to test number {}, which is not there",
        tick.at_s, tick.test
    ))
}

fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new().permissions(ordinary()).tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A temporary file is for its owner only; a run file is for whoever the umask lets.
fn ordinary() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
