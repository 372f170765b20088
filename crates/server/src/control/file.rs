//! Tells when the configuration file, or one that it names, may have changed.
//!
//! Folders are watched and not files, since editors and configuration systems put a new file in its place (Kubernetes swaps a link two
//! folders up, which the folder of the link sees as well). Where a link leads to another folder, that one is watched, too. What happens there is only a hint: whether the text is another one is looked at
//! by whoever is told.
//!
//! Invariant: one order for each bunch of changes, after nothing has happened for [`QUIET`].

use super::{Order, Orders};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A file is written in several steps; the last one is what counts.
const QUIET: Duration = Duration::from_millis(100);

/// Watches until it is dropped.
pub(super) struct Watch {
    folders: Vec<PathBuf>,
    #[expect(dead_code, reason = "it watches for as long as it lives")]
    watcher: RecommendedWatcher,
}

/// The folders of these files, each once.
pub(super) fn folders(files: Vec<&Path>) -> Vec<PathBuf> {
    let folder = |file: &Path| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let real = |file: &&Path| file.canonicalize().ok().map(|real| folder(&real));
    let mut folders: Vec<PathBuf> = files.iter().filter_map(real).collect();
    folders.extend(files.into_iter().map(folder));
    folders.sort();
    folders.dedup();
    folders
}

impl Watch {
    /// Watches these folders.
    ///
    /// # Errors
    /// A text for a person: the system does not watch one of them.
    pub(super) fn begin(folders: Vec<PathBuf>, orders: Orders) -> Result<Self, String> {
        let failed = |error: notify::Error| format!("cannot watch {folders:?}: {error}");
        let (hint, hints) = channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                if event.is_ok_and(|event| !event.kind.is_access()) {
                    // Nobody is left to be told when the proxy ends.
                    let _ = hint.send(());
                }
            })
            .map_err(failed)?;
        for folder in &folders {
            watcher.watch(folder, RecursiveMode::NonRecursive).map_err(failed)?;
        }
        let builder = std::thread::Builder::new().name("respool-watch".to_owned());
        let told = builder.spawn(move || tell_when_quiet(&hints, &orders));
        told.map_err(|error| format!("cannot start the watching thread: {error}"))?;
        Ok(Self { folders, watcher })
    }

    /// What it watches.
    pub(super) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }
}

/// Ends when the watcher is gone.
fn tell_when_quiet(hints: &Receiver<()>, orders: &Orders) {
    while hints.recv().is_ok() {
        loop {
            match hints.recv_timeout(QUIET) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if orders.send(Order::FileChanged).is_err() {
            return;
        }
    }
}
