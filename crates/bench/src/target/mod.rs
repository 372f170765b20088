//! Starts, pins and stops what a plan names.
//!
//! ```text
//!   TargetPlan, Topology ──► Fleet ── station(target, topology) ──► Station: endpoint, pids of proxy and servers, words
//!                             │
//!                             ├── servers   redis-server (or valkey-server) alone, as shards, as a cluster
//!                             ├── proxy     respool, nutcracker, predixy, haproxy, the floor, any command: files and arguments
//!                             ├── external  what somebody else started: looked at, never touched but for pins
//!                             └── process   a child, its output in a file, its end with its owner
//! ```
//!
//! The servers of a topology are started when a test first needs them and serve all targets of all its tests. So does a
//! proxy: it stays until its topology is done, each round meets the same process, as in production, and no start falls
//! into a measurement. The idle ones cost next to nothing (measured, in microseconds of CPU a second: respool and nutcracker
//! 0, predixy 180, a redis-server 960). What visits would share unfairly, the keys, is deleted between tests
//! ([`Fleet::flush`]).
//!
//! What it is not: a judge whether the figures are fair; a program's configuration is its own default wherever possible.
//!
//! Invariant: every process that is started here is dead and waited for when its [`Fleet`] is gone, whatever the way out;
//! when this process is killed, the kernel ends them (where `setpriv` exists). External processes are never signalled.

mod external;
mod fleet;
pub mod pin;
mod ports;
mod probe;
mod process;
pub mod program;
mod proxy;
mod servers;
pub mod serves;

pub use fleet::{Fleet, SERVER, Station};

/// Why preparing stopped when nothing else went wrong.
pub const INTERRUPTED: &str = "interrupted";
