//! From the bytes of a file to a program that judges can be made of: what cannot be run is told here, with its reason, and not by the first request.
//!
//! A module is checked, translated whole and begun once for a try, so that a worker has nothing left to do but to make its instance. Modules are
//! binary, or text (WAT).
//!
//! Not here: what an instance does (`judge`), what it may ask for (`host`).
//!
//! Invariant: a [`Program`] has all exports in the right shape, and began at least once.

use crate::host::{self, FUNCTIONS, Host, MODULE};
use crate::judge::Running;
use engine::policy::own::{FAILURES, Failure, Judge, Own, Program};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wasmi::errors::{ErrorKind, InstantiationError};
use wasmi::{
    CompilationMode, Config, EnforcedLimits, Engine, ExternType, Linker, Module, Store,
    StoreLimits, StoreLimitsBuilder, ValType,
};

/// Longest file of a program, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 4 << 20;

/// How deep calls of a program may go.
const DEPTH_MAX: usize = 512;
/// Bytes of their values.
const STACK_BYTES_MAX: usize = 256 << 10;
/// Elements of all tables: functions that are called by a number.
const TABLE_ELEMENTS_MAX: usize = 10_000;
/// How much of an error's text is told: of text modules it quotes the source.
const TEXT_BYTES_MAX: usize = 300;

/// Why bytes are no program. Each goes on after the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It is too long.
    #[error("is longer than {PROGRAM_BYTES_MAX} bytes")]
    TooLong,
    /// No module of WebAssembly, or one that needs what is not there.
    #[error("is no module of WebAssembly that can be run: {0}")]
    NoModule(String),
    /// It asks for something that nobody gives it.
    #[error("imports `{0}`; allowed: functions of the module `{MODULE}`: {list}", list = FUNCTIONS.join(", "))]
    Import(String),
    /// An imported function has another shape here.
    #[error("imports functions of `{MODULE}` with other arguments or results than they have: {0}")]
    ImportShape(String),
    /// Something is missing, or has another shape.
    #[error("does not export {0}")]
    Export(&'static str),
    /// It did not begin.
    #[error(
        "cannot begin ({reason}): its start function and first memory must do with {fuel} of fuel and {memory_max_bytes} bytes"
    )]
    Start {
        /// One of `FAILURES`.
        reason: &'static str,
        /// What it had.
        fuel: u64,
        /// What it had.
        memory_max_bytes: usize,
    },
}

/// A program of these bytes, binary or text. `own` says what it may use; its other values do not matter.
///
/// # Errors
/// What keeps it from being run.
pub fn load(bytes: &[u8], own: &Own) -> Result<Arc<dyn Program>, LoadError> {
    if bytes.len() > PROGRAM_BYTES_MAX {
        return Err(LoadError::TooLong);
    }
    let made = catch_unwind(AssertUnwindSafe(|| Loaded::new(bytes, own)));
    let loaded =
        made.unwrap_or_else(|_| Err(LoadError::NoModule("its translation failed".into())))?;
    let loaded = Arc::new(loaded);
    match Running::begin(&loaded) {
        Ok(_) => Ok(Arc::new(Shared(loaded))),
        Err(failure) => {
            let Own { fuel, memory_max_bytes, .. } = *own;
            Err(LoadError::Start { reason: FAILURES[failure as usize], fuel, memory_max_bytes })
        }
    }
}

/// What instances are made of.
pub(crate) struct Loaded {
    engine: Engine,
    pub(crate) module: Module,
    pub(crate) linker: Linker<Host>,
    pub(crate) fuel: u64,
    memory_max_bytes: usize,
    /// It asks for texts about the client.
    pub(crate) wants_texts: bool,
}

struct Shared(Arc<Loaded>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a module of WebAssembly")
    }
}

impl Program for Shared {
    fn judge(&self) -> Result<Box<dyn Judge>, Failure> {
        Ok(Box::new(Running::begin(&self.0)?))
    }
}

impl Loaded {
    fn new(bytes: &[u8], own: &Own) -> Result<Self, LoadError> {
        let mut config = Config::default();
        config
            .consume_fuel(true)
            .compilation_mode(CompilationMode::Eager)
            .enforced_limits(EnforcedLimits::strict())
            .set_max_recursion_depth(DEPTH_MAX)
            .set_min_stack_height(1 << 10)
            .set_max_stack_height(STACK_BYTES_MAX)
            .set_max_cached_stacks(1)
            // Each would be one more thing to bound.
            .wasm_multi_memory(false)
            .wasm_custom_page_sizes(false)
            .wasm_tail_call(false);
        let engine = Engine::new(&config);
        let module = Module::new(&engine, bytes)
            .map_err(|error| LoadError::NoModule(on_one_line(&error.to_string())))?;
        let linker = host::linker(&engine)
            .map_err(|error| LoadError::NoModule(on_one_line(&error.to_string())))?;
        let mut wants_texts = false;
        for import in module.imports() {
            let is_ours = import.module() == MODULE && import.ty().func().is_some();
            let at = FUNCTIONS.iter().position(|name| is_ours && *name == import.name());
            let at = at.ok_or_else(|| {
                LoadError::Import(on_one_line(&format!("{}.{}", import.module(), import.name())))
            })?;
            wants_texts |= at < 3;
        }
        check_exports(&module)?;
        let loaded = Self {
            engine,
            module,
            linker,
            fuel: own.fuel,
            memory_max_bytes: own.memory_max_bytes,
            wants_texts,
        };
        // What its start function does is looked at by whoever begins it.
        match loaded.linker.instantiate_and_start(&mut loaded.store(), &loaded.module) {
            Err(error) if has_other_imports(error.kind()) => {
                Err(LoadError::ImportShape(on_one_line(&error.to_string())))
            }
            _ => Ok(loaded),
        }
    }

    /// For one instance, with its bounds and the fuel of one call.
    pub(crate) fn store(&self) -> Store<Host> {
        let limits: StoreLimits = StoreLimitsBuilder::new()
            .memory_size(self.memory_max_bytes)
            .table_elements(TABLE_ELEMENTS_MAX)
            .instances(1)
            .tables(8)
            .memories(1)
            // Else a program that cannot grow goes on as if nothing were, and nobody is told.
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&self.engine, Host::with(limits));
        store.limiter(|host| &mut host.limits);
        // The engine counts fuel, so this cannot fail; without any, nothing runs.
        let _ = store.set_fuel(self.fuel);
        store
    }
}

fn check_exports(module: &Module) -> Result<(), LoadError> {
    let is_function = |name: &str, params: &[ValType], results: &[ValType]| {
        matches!(module.get_export(name), Some(ExternType::Func(shape))
            if shape.params() == params && shape.results() == results)
    };
    if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
        return Err(LoadError::Export("its memory as `memory`"));
    }
    if !is_function("respool_buffer", &[ValType::I32], &[ValType::I32]) {
        return Err(LoadError::Export(
            "a function `respool_buffer` that takes an i32 and returns one",
        ));
    }
    if !is_function("respool_request", &[ValType::I32, ValType::I32], &[ValType::I64]) {
        let wanted = "a function `respool_request` that takes two i32 and returns an i64";
        return Err(LoadError::Export(wanted));
    }
    Ok(())
}

/// Whether this says that imports are other than what there is.
fn has_other_imports(kind: &ErrorKind) -> bool {
    use InstantiationError::{FuncTypeMismatch, ImportTypeMismatch, MismatchedNumberOfImports};
    matches!(
        kind,
        ErrorKind::Linker(_)
            | ErrorKind::Instantiation(
                FuncTypeMismatch { .. }
                    | ImportTypeMismatch { .. }
                    | MismatchedNumberOfImports { .. }
            )
    )
}

/// The begin of a text, without line ends.
fn on_one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while line.len() > TEXT_BYTES_MAX {
        line.pop();
    }
    line
}
