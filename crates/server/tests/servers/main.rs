//! What respool knows of commands, keys and permissions, compared with real servers of several versions.
//!
//! ```text
//!   grammar ─ calls ─┬─ keys     engine::command::keys  beside  COMMAND GETKEYS
//!                    ├─ dryrun   respool's ACL DRYRUN   beside  that of the server, with the same rules
//!                    └─ effects  a restricted user's calls through respool: what it may not touch stays as it is
//! waits     WAIT and WAITAOF  beside  a direct connection
//! lines     replies with line breaks that a client puts into the text of a script or a function
//! ```
//! The servers are those of `tests/servers/install`. One that is not on this machine is skipped by name, on standard error. A test runs
//! a slice of the calls; `RESPOOL_LONG=1` a hundred times as many, and `SERVERS_SEED=N` others.
//!
//! Invariant: whatever a server says is a key, or denies, respool takes for a key, or refuses.

mod dryrun;
mod effects;
mod grammar;
mod keys;
mod lines;
mod waits;

use std::io::Write;

use testkit::{Conn, RedisServer, frames};

use grammar::Call;

/// The binary under test, built by cargo for this test.
const RESPOOL: &str = env!("CARGO_BIN_EXE_respool");

/// Calls that are asked about at once.
const BATCH: usize = 200;

/// How many calls a test makes of so many.
fn calls(few: usize) -> usize {
    if std::env::var_os("RESPOOL_LONG").is_some() { few * 100 } else { few }
}

/// With which calls it begins.
fn seed() -> u64 {
    std::env::var("SERVERS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// The server of this name; without it the test is skipped, and says so where nothing captures it.
fn server(name: &str, args: &[&str]) -> Option<RedisServer> {
    match RedisServer::start_named(name, args) {
        Ok(server) => Some(server),
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
            None
        }
    }
}

/// Asks about each of these calls, by the words before it.
fn asked(conn: &mut Conn, before: &[&str], calls: &[Call]) -> Vec<Vec<u8>> {
    let request = |call: &Call| {
        let before = before.iter().map(|word| word.as_bytes());
        frames::request(&before.chain(call.iter().map(Vec::as_slice)).collect::<Vec<_>>())
    };
    let requests: Vec<Vec<u8>> = calls.iter().map(request).collect();
    conn.pipeline(&requests).expect("replies")
}

/// A test of each server that there is.
macro_rules! each_server {
    ($($name:ident: $server:literal),* $(,)?) => {
        mod keys_are_those_of { $(#[test] fn $name() { crate::keys::compare($server) })* }
        mod denies_what_is_denied_by { $(#[test] fn $name() { crate::dryrun::compare($server) })* }
        mod restricted_users_stay_within_at { $(#[test] fn $name() { crate::effects::look($server) })* }

        mod lines_break_only_behind_delimiters_at { $(#[test] fn $name() { crate::lines::compare($server) })* }
        mod broken_lines_reach_nobody_else_at { $(#[test] fn $name() { crate::lines::look($server) })* }
        mod wait_counts_replicas_as_directly_at { $(#[test] fn $name() { crate::waits::compare($server) })* }

        #[test]
        fn every_server_is_here() {
            assert_eq!(testkit::redis::NAMES, [$($server),*]);
        }
    };
}

each_server! {
    redis_6_2: "redis-6.2",
    redis_7_0: "redis-7.0",
    redis_8_2: "redis-8.2",
    valkey_8_1: "valkey-8.1",
    valkey_9_1: "valkey-9.1",
}
