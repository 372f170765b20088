//! The long form of the fault matrix: rows 1 to 17, 20 and 25 to 27, each with load before, during and after
//! its fault, all judged by the same invariants.
//!
//! ```text
//!   stage   a cluster, a proxy, the length of a phase
//!   load    fifty clients in groups: at home on one primary, on all of them, with large values
//!   direct  clients of the plainest kind, to compare with
//!   run     before ─► fault ─► after, watched from outside                 = a report
//!   judge   I1 to I8, read off the report; what a row expects beyond them is an `Expect`
//!   rows    what is done to the servers, and the expectation
//! ```
//! They take a minute or two each, so `make test` passes over them and `make test-faults` runs them;
//! `RESPOOL_FAULT_S` is the length of a phase in seconds (30 if not set). The short forms are among
//! the end-to-end tests, and those of rows 15, 17 and of what row 25 needs beyond them here. The
//! table of all of them is `docs/internals/faults.md`.
//!
//! Row 9 has only a short form, among the end-to-end tests.
//!
//! Invariant: a row says what it does and what it allows; that nothing else happens is for the judge.

mod direct;
mod judge;
mod load;
mod rows;
mod run;
mod stage;
