//! The load: drives one endpoint as a [`LoadPlan`] says, and counts.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use crate::plan::LoadPlan;
use crate::record::Latency;

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
    /// Latency of them.
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
/// # Errors
/// On the first error reply or lost connection.
pub fn drive(
    _endpoint: &Endpoint,
    _plan: &LoadPlan,
    _live: &Live,
    _on: &mut dyn FnMut(Phase),
) -> Result<Outcome, LoadError> {
    todo!()
}

/// Writes every key that the plan's reads expect (with the type they need), through `endpoint`.
///
/// # Errors
/// As [`drive`].
pub fn fill(_endpoint: &Endpoint, _plan: &LoadPlan) -> Result<(), LoadError> {
    todo!()
}

/// Sends one inline command and returns its reply as text (of an array: one element a line). For INFO, CLUSTER and the like.
///
/// # Errors
/// As [`drive`].
pub fn ask(_endpoint: &Endpoint, _command: &str) -> Result<String, LoadError> {
    todo!()
}
