//! The proxy as a process: workers, what runs beside them, and the boot order.
//!
//! ```text
//!   run ─┬─ worker 0 ─┐  each: mailbox → driver.wait → engine → driver.send, on one thread
//!        ├─ worker 1 ─┤
//!        ├─ resolver  │  names, off the workers
//!        └─ control ──┘  signals, other settings, drain, stop; beside it the admin listener
//! ```
//! Not here: what a request becomes (`engine`), sockets (`netio`), the reading of a configuration (`config`), the command line (the binary
//! beside this library).
//!
//! Invariant: only `worker` knows both the engine and the driver. Where to read next: `run` for the boot order, `worker::turn` for what a
//! worker does all day.

#![forbid(unsafe_code)]

pub mod admin;
pub mod control;
mod descriptors;
pub mod export;
mod flame;
mod hire;
mod listeners;
pub mod log;
pub mod losses;
mod machine;
pub mod metrics;
pub mod run;
pub mod settings;
pub mod sources;
mod tenants;
pub mod worker;
