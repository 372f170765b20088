//! Everything that only tests need: real servers and proxies as child processes, a blocking client,
//! networks and men in the middle that misbehave on purpose, a model of the server, and the checker
//! that judges a run.
//!
//! It is used by `server/tests/e2e` (real processes over loopback) and `server/tests/sim` (the
//! model under a simulated network). Nothing here is part of the product, and no fault lives in the
//! product: faults are made by [`relay`] and [`mutant`], from outside.
//!
//! Functions of this crate panic with a sentence where a test cannot go on (no server on PATH, a
//! process that does not come up). Where failing is part of what a test looks at, they return a
//! `Result`.
//!
//! Invariant: nothing waits without a deadline, and every process and thread that is started here
//! ends with the value that owns it.
//!
//! Read next: [`redis`] and [`respool`] for processes, [`cluster`], [`sentinel`] and [`shards`] for
//! several servers at once, [`conn`] for talking to them, [`checker`] for the invariants I1–I4.

#![forbid(unsafe_code)]

pub mod admin;
pub mod cache;
pub mod checker;
pub mod cluster;
pub mod conn;
pub mod endpoint;
pub mod frames;
pub mod listen;
pub mod model;
pub mod mutant;
pub mod ports;
pub mod process;
pub mod redis;
pub mod relay;
pub mod respool;
pub mod sentinel;
pub mod shards;
pub mod tls;
pub mod wait;
pub mod xml;

pub use admin::Login;
pub use cache::Cache;
pub use checker::{Checker, Verdict};
pub use cluster::RedisCluster;
pub use conn::Conn;
pub use endpoint::Endpoint;
pub use model::{Model, ModelConn};
pub use mutant::{Mutant, Mutation};
pub use redis::RedisServer;
pub use relay::Relay;
pub use respool::{Respool, set_driver};
pub use sentinel::SentinelGroup;
pub use shards::Shards;
