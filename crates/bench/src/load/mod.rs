//! The load: drives one endpoint as a [`LoadPlan`] says, and counts.
//!
//! ```text
//!   drive ─► conduct: threads, phases ─► worker: closed, open, slow  ─► supply: requests ◄─ requests ◄─ keys
//!      │                              └► storm: connect … close       └► conn: replies   ◄─ stream: TCP, unix, TLS
//!      └───► tool: redis-benchmark, valkey-benchmark
//!   idle: clients that stay connected beside any of them and ask nothing
//! ```
//!
//! What it costs itself: a `GET` over 50 connections of one thread took 0.54 times the CPU (user and system) that
//! redis-benchmark 7.0.15 took for it without a pipeline, and 0.56 times with a pipeline of 20 (medians of five rounds,
//! both in turn against one server; Linux 6.18, two virtual cores; some 3.8 and 0.24 µs there). `tests/load/cost.rs`
//! measures it again.
//!
//! It knows nothing of clusters, starts no servers, and reads no CPU: it says when to ([`Phase`]).
//!
//! Invariant: a figure is made of whole, error-free replies only. The first error reply ends the load.
//!
//! Read next: `worker` for the loop, `schedule` for the open loop's arithmetic, `tool` for what other programs can do.

mod conduct;
mod conn;
mod control;
mod greet;
mod idle;
mod keys;
mod latency;
mod poll;
mod requests;
mod schedule;
mod storm;
mod stream;
mod supply;
mod tool;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use crate::plan::{Distribution, KeyPlan, LoadPlan, Shape, Stop, Tool};
use crate::record::Latency;
use crate::template::Template;

pub use idle::IdleClients;

/// Connections that write the keys before a run, and how many requests each has in flight.
const FILL_CLIENTS: u32 = 4;
const FILL_PIPELINE: u32 = 50;

/// Where a load goes and how it logs in.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where, user, password, database.
    pub url: config::UpstreamUrl,
    /// Speak TLS, with this configuration and this server name.
    pub tls: Option<(Arc<rustls::ClientConfig>, String)>,
}

/// What a running load tells to whoever watches it from another thread.
#[derive(Debug, Default)]
pub struct Live {
    /// Replies so far, warm-up included; not moved by an external tool.
    pub replies: AtomicU64,
    /// Set by the watcher: end as soon as possible with [`LoadError::Cancelled`].
    pub cancel: AtomicBool,
}

/// Moments of a load, told to the thread that called [`drive`], on that thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// An external tool runs as this process; the built-in generator is this process and says nothing.
    Started(u32),
    /// Connections stand, warm-up is over: from here on requests count. Read the CPU of everybody now.
    MeasureBegins(Instant),
    /// The last request that counts was answered. Read the CPU again.
    MeasureEnds(Instant),
}

/// What a load counted between `MeasureBegins` and `MeasureEnds`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Length of that time in seconds.
    pub seconds: f64,
    /// Requests answered in it.
    pub requests: u64,
    /// Of them, replies that were a null.
    pub nulls: u64,
    /// Requests of an open loop that were due before the end and not answered by then. They are not in `requests`, but
    /// each counts in `latency` with its age at the end, so that a target which stopped does not look well.
    pub unanswered: u64,
    /// Latency of all of them.
    pub latency: Latency,
}

/// Why a load failed. No figure is made of it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The endpoint does not take connections, or took them away.
    #[error("{0}")]
    Connection(String),
    /// The endpoint answered an error.
    #[error("the reply to `{command}` was an error: {text}")]
    ErrorReply {
        /// The request in words.
        command: String,
        /// The server's text.
        text: String,
    },
    /// The plan itself cannot be carried out, on this machine or at all.
    #[error("{0}")]
    Plan(String),
    /// What came is no RESP.
    #[error("{0}")]
    Protocol(String),
    /// An external tool failed or its output was not understood.
    #[error("{0}")]
    Tool(String),
    /// Told to end.
    #[error("interrupted")]
    Cancelled,
}

/// Drives `endpoint` until the plan's end. Blocks; `on` is called on this thread.
///
/// A cancelled load ends within some 50 ms, unless it is just waiting for a connect or for an external tool's start.
///
/// # Errors
/// On the first error reply or lost connection, when the plan cannot be carried out, and when cancelled.
pub fn drive(
    endpoint: &Endpoint,
    plan: &LoadPlan,
    live: &Live,
    on: &mut dyn FnMut(Phase),
) -> Result<Outcome, LoadError> {
    match plan.tool {
        Tool::Builtin => conduct::conduct(endpoint, plan, live, on),
        Tool::RedisBenchmark | Tool::ValkeyBenchmark => tool::drive(endpoint, plan, live, on),
    }
}

/// Writes every key that the plan's reads expect (with the type they need), through `endpoint`. What the reads of the
/// mix have in common is written once. Writing again what is there already is harmless.
///
/// # Errors
/// As [`drive`].
pub fn fill(endpoint: &Endpoint, plan: &LoadPlan) -> Result<(), LoadError> {
    let mut writes: Vec<Template> = Vec::new();
    for write in plan.mix.iter().flat_map(|(template, _)| template.creates()) {
        if !writes.contains(&write) {
            writes.push(write);
        }
    }
    for write in writes {
        // In sequence and by one thread: each key exactly once.
        let keys = if write.has_keys() { plan.keys.count } else { 1 };
        let fill = LoadPlan {
            tool: Tool::Builtin,
            shape: Shape::Closed,
            mix: vec![(write, 1)],
            clients: FILL_CLIENTS,
            pipeline: FILL_PIPELINE,
            threads: 1,
            keys: KeyPlan { distribution: Distribution::Sequential, hit_ratio: 1.0, ..plan.keys },
            stop: Stop::AfterRequests(keys),
            warmup_ms: 0,
            ..plan.clone()
        };
        conduct::conduct(endpoint, &fill, &Live::default(), &mut |_| {})?;
    }
    Ok(())
}

/// Sends one command in words, split as a shell does, and returns its reply as text (of an array: one element a line).
/// For INFO, CLUSTER and the like.
///
/// # Errors
/// As [`drive`].
pub fn ask(endpoint: &Endpoint, command: &str) -> Result<String, LoadError> {
    let words = shlex::split(command).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| LoadError::Plan(format!("`{command}` is no command")))?;
    let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    let mut request = Vec::new();
    resp::encode::request(&mut request, &args);
    let address = greet::find(endpoint, 2)?;
    let mut stream = greet::connect(endpoint, &address, 2, None)?;
    let reply = greet::exchange(endpoint, &mut stream, &request)?;
    greet::refuse_error(command, &reply)?;
    match resp::value::parse(&reply) {
        Ok(Some((value, _))) => Ok(greet::text(&value)),
        // `exchange` returns whole replies only.
        _ => Err(LoadError::Protocol(format!("the reply to `{command}` is no RESP"))),
    }
}
