//! The configuration of respool: what can be set, how it is written, what is allowed.
//!
//! [`options::OPTIONS`] is the one table. The reader of `respool.toml`, the command line, the environment names, the
//! reference page, the commented example file, the man page and the shell completions all come from it. A new option is
//! a field in [`schema`] and a row in that table; then `cargo run -p server --bin respool -- generate-docs .` writes the
//! documents again (a test of the `server` crate fails while they are stale).
//!
//! This crate does no IO: the caller hands in the texts and, for password files, a function that reads them. It does not
//! know clap or sockets, and of the engine the rules of sharding only, so that they are written once.
//!
//! Invariant: a [`Config`] that [`load`] returns satisfies every rule, and no text made here contains a password.
//! Read next: [`schema`] (the values), then `options`, then `compile` (the rules between values).
#![forbid(unsafe_code)]

pub mod address;
mod compile;
pub mod convert;
pub mod documents;
mod environment;
mod file;
mod kind;
mod listen;
mod loaded;
mod mirrors;
mod network;
pub mod options;
mod policies;
pub mod problem;
mod read_targets;
mod rewrite;
mod rules;
pub mod schema;
mod secret;
mod sharding;
pub mod suggest;
mod tenants;
mod tls;
mod users;
mod values;

pub use address::{ListenAddress, PoolKind, UpstreamAddress, UpstreamUrl};
pub use compile::{FileText, Given, Place, Sources, load, load_file};
pub use listen::Listen;
pub use loaded::{Change, Loaded, MadeProgram, OptionValue, TenantChange, TenantFate};
pub use mirrors::{MirrorLine, Mirrors};
pub use network::{ClientRules, Network};
pub use policies::{Policies, RuleLine};
pub use problem::{Origin, Problem, Problems};
pub use read_targets::{ReadTargetLine, ReadTargets};
pub use rewrite::rewrite;
pub use rules::Finding;
pub use schema::{
    AccessLog, Admin, Alarms, Batching, BigKeys, Cache, Config, Facade, HotKeys, Limits, Log,
    LogFormat, LogLevel, MappedAddress, NetDriver, Reads, ReadyUpstreams, Timeouts, Tracing,
    Upstream,
};
pub use secret::{Secret, SecretUrl};
pub use sharding::{Eject, ShardUrl, Sharding};
pub use tenants::{DEFAULT_TENANT, TENANTS_MAX, Tenant};
pub use tls::{AdminTls, CertFiles, ClientAuth, ReceiverTls, Tls, TlsVersion, UpstreamTls};
pub use users::{Acl, ClientChanges, UserLine, read_users};
pub use values::KeyLine;
