//! What a program may ask of respool while it looks at a request: functions of the module `respool`.
//!
//! ```text
//!   user(at, room) client_address(at, room) client_name(at, room) → i32     as much of the text as there is room for is written at `at`; its length
//!   client_id() now_ms() random() → i64                    database() protocol() in_transaction() → i32
//!   log(at, len)                                           the last one of a call becomes a line of the log
//! ```
//! Texts are only put together for programs that import one of their functions.
//!
//! Invariant: what a function reads or writes lies in the program's own memory, and is no longer than [`TEXT_BYTES_MAX`].

use engine::policy::own::View;
use wasmi::{Caller, Error, Extern, Linker, Memory, StoreLimits, TrapCode};

/// The module that programs import functions from.
pub(crate) const MODULE: &str = "respool";
/// Its functions.
pub(crate) const FUNCTIONS: [&str; 10] = [
    "user",
    "client_address",
    "client_name",
    "client_id",
    "database",
    "protocol",
    "in_transaction",
    "now_ms",
    "random",
    "log",
];
/// Longest text that goes over, in bytes; of longer ones the begin.
pub(crate) const TEXT_BYTES_MAX: usize = 1_024;

/// What stands behind a running program.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) limits: StoreLimits,
    texts: [Vec<u8>; 3],
    client: u64,
    db: u32,
    protocol: u8,
    is_inside: bool,
    unix_ms: u64,
    random: u64,
    pub(crate) line: Option<String>,
}

impl Host {
    /// Behind a program with these bounds.
    pub(crate) fn with(limits: StoreLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The request that is looked at is this one.
    pub(crate) fn show(&mut self, view: &View<'_>, with_texts: bool) {
        self.line = None;
        (self.client, self.db, self.protocol) = (view.client, view.db, view.protocol);
        (self.unix_ms, self.random) = (view.unix_ms, view.random);
        self.is_inside = view.is_inside;
        if with_texts {
            let told = [view.user, view.client_address.as_bytes(), view.client_name];
            for (text, told) in self.texts.iter_mut().zip(told) {
                text.clear();
                text.extend_from_slice(&told[..told.len().min(TEXT_BYTES_MAX)]);
            }
        }
    }
}

/// The functions.
pub(crate) fn linker(engine: &wasmi::Engine) -> Result<Linker<Host>, Error> {
    let mut linker = Linker::new(engine);
    for (which, name) in FUNCTIONS.into_iter().take(3).enumerate() {
        let write =
            move |caller: Caller<'_, Host>, at: u32, room: u32| text(caller, which, at, room);
        linker.func_wrap(MODULE, name, write)?;
    }
    linker
        .func_wrap(MODULE, "client_id", |caller: Caller<'_, Host>| caller.data().client)?
        .func_wrap(MODULE, "database", |caller: Caller<'_, Host>| caller.data().db)?
        .func_wrap(MODULE, "protocol", |caller: Caller<'_, Host>| {
            u32::from(caller.data().protocol)
        })?
        .func_wrap(MODULE, "in_transaction", |caller: Caller<'_, Host>| {
            u32::from(caller.data().is_inside)
        })?
        .func_wrap(MODULE, "now_ms", |caller: Caller<'_, Host>| caller.data().unix_ms)?
        .func_wrap(MODULE, "random", |caller: Caller<'_, Host>| caller.data().random)?
        .func_wrap(MODULE, "log", log)?;
    Ok(linker)
}

fn text(mut caller: Caller<'_, Host>, which: usize, at: u32, room: u32) -> Result<u32, Error> {
    let memory = memory(&caller)?;
    let (bytes, host) = memory.data_and_store_mut(&mut caller);
    let text = &host.texts[which];
    let len = text.len().min(room as usize);
    let to = bytes.get_mut(at as usize..).and_then(|bytes| bytes.get_mut(..len));
    to.ok_or(TrapCode::MemoryOutOfBounds)?.copy_from_slice(&text[..len]);
    Ok(text.len() as u32)
}

fn log(mut caller: Caller<'_, Host>, at: u32, len: u32) -> Result<(), Error> {
    let memory = memory(&caller)?;
    let (bytes, host) = memory.data_and_store_mut(&mut caller);
    let len = (len as usize).min(TEXT_BYTES_MAX);
    let text = bytes.get(at as usize..).and_then(|bytes| bytes.get(..len));
    let text = String::from_utf8_lossy(text.ok_or(TrapCode::MemoryOutOfBounds)?);
    // One line, whatever stands in it.
    host.line = Some(text.chars().filter(|c| !c.is_control()).collect());
    Ok(())
}

fn memory(caller: &Caller<'_, Host>) -> Result<Memory, Error> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    memory.ok_or_else(|| TrapCode::MemoryOutOfBounds.into())
}
