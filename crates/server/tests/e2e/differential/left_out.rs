//! What the differential run leaves out, by name, with the reason.
//!
//! The corpus simply does not contain such commands; this list is for the run over all of the
//! server's own commands, and it is the place where a reader sees what "equal to a direct
//! connection" does not cover yet.
//!
//! Invariant: a name here is a command (or `command|subcommand`) of the server; a test shows that
//! none is stale.

/// Why a command is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It needs an upstream connection of its own for as long as its client lives (subscriptions,
    /// tracking, MONITOR, replication), and has none.
    OwnConnection,
    /// It would stop, block or reconfigure the server for good, and is refused by the proxy or not
    /// sent by this test.
    Dangerous,
    /// It tells of the one who answers, and that is the proxy: its own text, ids, statistics.
    AnsweredByProxy,
}

use Reason::{AnsweredByProxy, Dangerous, OwnConnection};

/// All that is left out.
pub(super) static LEFT_OUT: &[(&str, Reason)] = &[
    ("subscribe", OwnConnection),
    ("unsubscribe", OwnConnection),
    ("psubscribe", OwnConnection),
    ("punsubscribe", OwnConnection),
    ("ssubscribe", OwnConnection),
    ("sunsubscribe", OwnConnection),
    ("monitor", AnsweredByProxy),
    // It turns the connection into a debugger's.
    ("script|debug", OwnConnection),
    ("sync", OwnConnection),
    ("psync", OwnConnection),
    ("replconf", OwnConnection),
    ("client|tracking", OwnConnection),
    ("client|caching", OwnConnection),
    ("client|reply", OwnConnection),
    ("debug", Dangerous),
    ("shutdown", Dangerous),
    ("failover", Dangerous),
    ("replicaof", Dangerous),
    ("slaveof", Dangerous),
    ("bgsave", Dangerous),
    ("save", Dangerous),
    ("bgrewriteaof", Dangerous),
    ("restore-asking", Dangerous),
    ("migrate", Dangerous),
    ("pfselftest", Dangerous),
    ("config|rewrite", Dangerous),
    ("config|set", Dangerous),
    ("client|pause", AnsweredByProxy),
    ("client|unpause", AnsweredByProxy),
    ("client|kill", AnsweredByProxy),
    ("client|list", AnsweredByProxy),
    ("client|info", AnsweredByProxy),
    ("client|id", AnsweredByProxy),
    ("client|unblock", AnsweredByProxy),
    ("client|getredir", AnsweredByProxy),
    ("client|trackinginfo", AnsweredByProxy),
    ("acl|help", AnsweredByProxy),
    ("client|help", AnsweredByProxy),
    ("slowlog|get", AnsweredByProxy),
    ("slowlog|len", AnsweredByProxy),
    ("slowlog|help", AnsweredByProxy),
    ("config|get", AnsweredByProxy),
    ("config|help", AnsweredByProxy),
    ("config|resetstat", AnsweredByProxy),
    ("info", AnsweredByProxy),
    ("hello", AnsweredByProxy),
    ("quit", AnsweredByProxy),
];

/// Whether so many arguments of a command are left out.
pub(super) fn leaves_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|(left_out, _)| *left_out == name)
}

/// Commands whose reply, with arguments that are accepted, tells of time, chance or the process.
/// Their errors are compared, their other replies by type only.
pub(super) static BY_TYPE: &[&str] = &[
    "time",
    "randomkey",
    "lastsave",
    "latency|doctor",
    "latency|graph",
    "latency|histogram",
    "lolwut",
    "memory|doctor",
    "memory|stats",
    "memory|malloc-stats",
    "acl|genpass",
    "acl|log",
    "module|list",
    "object|idletime",
    "command",
    "command|list",
    "command|docs",
    "command|info",
];
