//! `respool-bench`: measures proxies for Redis the way the field does, and shows it.
//!
//! ```text
//!   scenario (TOML) ─► plan ─► run ──► record (run.json) ─► stats ─► report: terminal, Markdown, HTML
//!                              │ ▲                            └────► compare, check
//!                     target ◄─┤ └─ account: /proc of proxy, servers, load
//!               (spawn, pin)   └──► load: the generator, or redis-benchmark
//! ```
//!
//! What it is: a load generator that is cheap enough not to be what is measured, an account of the CPU that proxy and
//! servers spent (user and system), and pictures of both. It works against any RESP endpoint.
//!
//! What it is not: a conformance test, and no part of the proxy; it shares only `resp`, the URLs of `config` and, for the floor that
//! proxies are measured against, the drivers of `netio` with it.
//!
//! Invariant: no figure is computed from error replies. A target that answers one ends the run with a message and a
//! non-zero exit code.
//!
//! Read next: [`plan`] (what is to be measured), [`record`] (what was), `run` (the visits in turn).
#![forbid(unsafe_code)]

pub mod account;
pub mod check;
pub mod cli;
pub mod compare;
pub mod floor;
pub mod load;
pub mod plan;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod stats;
pub mod target;
pub mod template;
