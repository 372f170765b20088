//! From files of programs (`policies.own`) to what workers run.
//!
//! Files are read with the configuration, each time it is: at the start, by SIGHUP, when one of them changed. One that holds what it held before, under
//! the same limits, stays the program that it is, so that workers go on with theirs across a reload that is about something else. What is wrong with one is a
//! problem of the configuration as any other, and changes nothing.
//!
//! Not here: what a program is (`extension`), who asks it (`engine::policy::own`).
//!
//! Invariant: only programs of the configuration that was loaded last are remembered.

use crate::sources::read_program;
use config::{Config, Finding, Loaded};
use engine::policy::own::{Own, Program};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The programs that were loaded last. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Arc<Mutex<Vec<One>>>);

#[derive(Clone, Debug)]
struct One {
    own: Own,
    bytes: Vec<u8>,
    program: Arc<dyn Program>,
}

impl Known {
    /// Gives a configuration its programs; what is wrong with their files.
    pub(crate) fn take_into(&self, loaded: &mut Loaded) -> Vec<Finding> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now: Vec<One> = Vec::new();
        let found = loaded.take_programs(&mut |own| {
            let bytes = read_program(Path::new(&own.file))
                .map_err(|error| format!("cannot be read: {error}"))?;
            let is_same = |one: &&One| {
                (one.own.fuel, one.own.memory_max_bytes) == (own.fuel, own.memory_max_bytes)
                    && one.own.file == own.file
                    && one.bytes == bytes
            };
            let program = match now.iter().chain(&*known).find(is_same) {
                Some(one) => Arc::clone(&one.program),
                None => extension::load(&bytes, own).map_err(|error| error.to_string())?,
            };
            now.push(One { own: own.clone(), bytes, program: Arc::clone(&program) });
            Ok(program)
        });
        // What is in force while a wrong configuration is refused must be found again.
        if found.is_empty() {
            *known = now;
        }
        found
    }

    /// See [`crate::sources::Sources::have_programs_changed`].
    pub(crate) fn have_changed(&self, config: &Config) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files(config).any(|file| {
            let bytes = read_program(file).ok();
            let one = known.iter().find(|one| Path::new(&one.own.file) == file);
            one.map(|one| &one.bytes) != bytes.as_ref()
        })
    }
}

/// The files of programs that a configuration names.
pub(super) fn files(config: &Config) -> impl Iterator<Item = &Path> {
    let tenants = config.tenants.iter().map(|tenant| &tenant.config);
    let all = std::iter::once(config).chain(tenants);
    let rules =
        all.flat_map(|config| &config.intercepts).flat_map(|policies| &policies.rules().own);
    rules.map(|rule| Path::new(&rule.detail.file))
}
