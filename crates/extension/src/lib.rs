//! The sandbox of operators' programs (`policies.own`): modules of WebAssembly, run by an interpreter with bounds on everything.
//!
//! ```text
//!   file ─ load ─▶ Module, checked and translated whole ─ judge ─▶ instance of a worker ─ request ─▶ Judgement
//!          once, on the control thread                     its own memory, no lock          with fresh fuel
//! ```
//! What a program can reach is its own memory and the functions of `host`; there is no file, no clock, no network and no thread in it. What a call
//! may cost is counted in *fuel*, roughly one for each instruction that is executed; memory, tables, the depth of calls and the size of what is said are bounded
//! as well. After any failure the instance is thrown away.
//!
//! How a program is written stands in `docs/guides/own-policies.md`. Not here: which requests it is asked about and what comes of what it says
//! (`engine::policy::own`), where files come from (`server`).
//!
//! Invariant: whatever the bytes of a program are, loading and running it ends in bounded time and memory, with a result, and without a panic.

#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod host;
mod judge;
mod program;

pub use program::{LoadError, PROGRAM_BYTES_MAX, load};
