//! The proxy as a state machine: which reply goes to whom, when, and over which connection.
//!
//! It has no sockets, no clock and no threads. The caller (a worker, or a test) tells what happened and what time it is, and
//! then asks what to do:
//!
//! | kind | methods | meaning |
//! |---|---|---|
//! | events | [`Engine::handle_client_open`] and the other `handle_*` | something came in, `now` is when |
//! | what to do | [`Engine::poll_action`], [`Engine::poll_notice`], `begin_*_send` over the dirty lists, [`Engine::poll_timeout`] | to be drained after each batch of events |
//! | commands | [`Engine::drain`], [`Engine::answer`] | the worker's own wishes |
//! | getters | the rest | no change |
//!
//! ```text
//!  client bytes ─▶ request ─▶ route ──────────────▶ upstream.out ═══════▶ server
//!                    │  place reserved               run pushed on inflight   ║
//!                    ▼                                                        ║
//!                  client.places ◀── deliver ◀── inflight.front ◀── scanner ◀═╝
//!                    │ in order
//!                    ▼
//!                  client.out ═══════▶ client
//! ```
//! Order within a turn: all events, then [`Engine::handle_timeout`], then upstream sends, then client sends, then actions. Only
//! the first rule is needed for correctness; the rest makes the batches large.
//!
//! What it deliberately is not: a protocol library (`resp`) or a network (`netio`); it never logs.
//!
//! Invariant: every request that took a place gets exactly one reply at that place, or its client is closed. Where to read next:
//! `request` (a request's way in), `reply` (a reply's way back), `connect` (an upstream's life), `local` (what is answered here).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod account;
pub mod acl;
pub mod address_map;
mod awaited;
mod backlog;
mod behind;
mod beside;
pub mod bigkeys;
mod blocking;
mod busy;
pub mod client;
mod coalesce;
pub mod command;
mod configure;
mod connect;
mod cork;
mod databases;
mod defect;
pub mod delimiter;
mod dirty;
pub mod elsewhere;
mod engine;
mod errand;
mod fan_turn;
pub mod fleet;
mod functions;
pub mod glob;
mod grants;
pub mod histogram;
pub mod hotkeys;
pub mod ids;
mod inside;
pub mod key_name;
mod large_replies;
mod learn;
mod lease;
mod lifecycle;
pub mod limits;
mod local;
pub mod login;
pub mod losses;
pub mod merge;
pub mod mirror;
pub mod monitor;
pub mod near;
pub mod news;
pub mod node;
pub mod observed;
pub mod output;
mod outside;
mod overheard;
mod overtaken;
mod parked;
mod peers;
mod permit;
mod plain;
pub mod policy;
pub mod pool;
pub mod pubsub;
mod push;
mod questions;
mod redact;
mod redirect;
pub mod reject;
mod removal;
mod replace;
mod reply;
pub mod report;
mod request;
mod rescue;
mod retire;
mod room;
pub mod route;
mod scatter;
mod scripts;
mod server_loss;
pub mod settings;
pub mod shares;
mod silence;
mod slow;
pub mod slowlog;
mod speed;
mod stall;
pub mod stats;
pub mod tenancy;
pub mod time;
mod timers;
mod together;
pub mod topology;
pub mod tracking;
mod transaction;
mod transfer;
mod trials;
mod trust;
mod turns;
mod unblock;
mod unconfirmed;
mod unknown;
pub mod upstream;
mod waiters;
mod waiting;
mod watching;
mod whole;
mod write_offset;

pub use engine::{Action, Engine, Notice};
pub use ids::{ClientId, NodeId, UpstreamId};
pub use settings::Settings;
pub use time::Time;
