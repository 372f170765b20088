//! An instance of a program, which one worker asks about its requests.
//!
//! ```text
//!   respool_buffer(len) → at            the request is written there
//!   respool_request(at, len) → 0        it goes on
//!                            → at << 32 | len      what is there says it: `A` and a reply, `E` and a text, `W` and a request, `R` and a name, `U`
//! ```
//! Not here: whether what is said is a reply or a request at all (`engine::policy::own`).
//!
//! Invariant: each call has the same fuel, whatever the one before left; nothing that the program says is believed before it was looked at.

use crate::host::Host;
use crate::program::Loaded;
use engine::limits::OWN_FRAME_BYTES_MAX;
use engine::policy::own::{Failure, Judge, Judgement, Verdict, View};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use wasmi::errors::{ErrorKind, InstantiationError, MemoryError};
use wasmi::{Error, Memory, Store, TrapCode, TypedFunc};

/// See the module.
pub(crate) struct Running {
    program: Arc<Loaded>,
    store: Store<Host>,
    memory: Memory,
    buffer: TypedFunc<u32, u32>,
    request: TypedFunc<(u32, u32), u64>,
}

impl Running {
    /// Makes an instance, and has its start function run.
    ///
    /// # Errors
    /// It did more than it may.
    pub(crate) fn begin(program: &Arc<Loaded>) -> Result<Self, Failure> {
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let mut store = program.store();
            let instance = program.linker.instantiate_and_start(&mut store, &program.module);
            let instance = instance.map_err(|error| reason(&error))?;
            let missing = |_: Error| Failure::Start;
            let memory = instance.get_memory(&store, "memory").ok_or(Failure::Start)?;
            let buffer = instance.get_typed_func(&store, "respool_buffer").map_err(missing)?;
            let request = instance.get_typed_func(&store, "respool_request").map_err(missing)?;
            Ok(Self { program: Arc::clone(program), store, memory, buffer, request })
        }));
        begun.unwrap_or(Err(Failure::Trap))
    }

    fn ask(&mut self, view: &View<'_>) -> Result<Verdict, Failure> {
        let trapped = |error: Error| reason(&error);
        let len = u32::try_from(view.request.len()).map_err(|_| Failure::Room)?;
        let at = self.buffer.call(&mut self.store, len).map_err(trapped)?;
        let room = self.memory.data_mut(&mut self.store).get_mut(at as usize..);
        let room = room.and_then(|room| room.get_mut(..view.request.len()));
        room.filter(|_| at != 0).ok_or(Failure::Room)?.copy_from_slice(view.request);
        let said = self.request.call(&mut self.store, (at, len)).map_err(trapped)?;
        if said == 0 {
            return Ok(Verdict::Pass);
        }
        let (at, len) = ((said >> 32) as usize, (said & u64::from(u32::MAX)) as usize);
        if len > OWN_FRAME_BYTES_MAX + 1 {
            return Err(Failure::Verdict);
        }
        let said = self.memory.data(&self.store).get(at..).and_then(|said| said.get(..len));
        match said.and_then(<[u8]>::split_first) {
            Some((b'A', reply)) => Ok(Verdict::Answer(reply.to_vec())),
            Some((b'E', text)) => Ok(Verdict::Refuse(text.to_vec())),
            Some((b'W', request)) => Ok(Verdict::Rewrite(request.to_vec())),
            Some((b'R', name)) => Ok(Verdict::Read(name.to_vec())),
            Some((b'U', [])) => Ok(Verdict::Upstream),
            _ => Err(Failure::Verdict),
        }
    }
}

impl Judge for Running {
    fn request(&mut self, view: &View<'_>) -> Judgement {
        let fuel = self.program.fuel;
        // It counts fuel, so these do not fail; if one did, the program would have none.
        let _ = self.store.set_fuel(fuel);
        self.store.data_mut().show(view, self.program.wants_texts);
        let asked = catch_unwind(AssertUnwindSafe(|| self.ask(view)));
        let verdict = asked.unwrap_or(Err(Failure::Trap));
        let left = self.store.get_fuel().unwrap_or(0);
        let line = self.store.data_mut().line.take();
        Judgement { verdict, fuel: fuel.saturating_sub(left), line }
    }
}

/// What a trap means for figures.
fn reason(error: &Error) -> Failure {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Failure::Fuel,
        Some(TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory) => Failure::Memory,
        Some(TrapCode::StackOverflow) => Failure::Stack,
        Some(_) => Failure::Trap,
        None => match error.kind() {
            ErrorKind::Fuel(_) | ErrorKind::Memory(MemoryError::OutOfFuel { .. }) => Failure::Fuel,
            ErrorKind::Memory(_)
            | ErrorKind::Table(_)
            | ErrorKind::Instantiation(
                InstantiationError::FailedToInstantiateMemory(_)
                | InstantiationError::FailedToInstantiateTable(_)
                | InstantiationError::TooManyMemories
                | InstantiationError::TooManyTables,
            ) => Failure::Memory,
            _ => Failure::Start,
        },
    }
}
