//! Tells when the configuration file may have changed.
//!
//! The folder is watched and not the file, since editors and configuration systems put a new file in its place (Kubernetes swaps a link two
//! folders up, which the folder of the link sees as well). What happens there is only a hint: whether the text is another one is looked at
//! by whoever is told.
//!
//! Invariant: one order for each bunch of changes, after nothing has happened for [`QUIET`].

use super::{Order, Orders};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A file is written in several steps; the last one is what counts.
const QUIET: Duration = Duration::from_millis(100);

/// Watches until it is dropped.
pub(super) struct Watch(
    #[expect(dead_code, reason = "it watches for as long as it lives")] RecommendedWatcher,
);

impl Watch {
    /// Watches the folder of this file.
    ///
    /// # Errors
    /// A text for a person: the system does not watch it.
    pub(super) fn begin(file: &Path, orders: Orders) -> Result<Self, String> {
        let failed = |error: notify::Error| format!("cannot watch {}: {error}", file.display());
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let (hint, hints) = channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                if event.is_ok_and(|event| !event.kind.is_access()) {
                    // Nobody is left to be told when the proxy ends.
                    let _ = hint.send(());
                }
            })
            .map_err(failed)?;
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(failed)?;
        let builder = std::thread::Builder::new().name("respool-watch".to_owned());
        let told = builder.spawn(move || tell_when_quiet(&hints, &orders));
        told.map_err(|error| format!("cannot start the watching thread: {error}"))?;
        Ok(Self(watcher))
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
