//! `policies.own`: programs of the operator's own that look at requests, and answer, refuse or rewrite them.
//!
//! ```text
//!   rule ─▶ Program (one for the process, made of a file) ─▶ Judge (one for each worker, made at its first request, and anew after a failure)
//!                                                             request(View) ─▶ Judgement: Pass, Answer, Refuse, Rewrite, Read, Upstream, or a Failure
//! ```
//! The engine knows programs by these two traits only. What they are made of, and how what they do is bounded (fuel, memory, stack), is the
//! business of whoever implements them (the crate `extension`); that what they say is used as nothing but what it may be is ours (`frames`).
//!
//! A rule that fails costs its judge: the next request finds a fresh one, so nothing that a failure left behind is seen again. A rule that failed
//! [`crate::limits::OWN_FAILURES_MAX`] times in a row rests for [`crate::limits::OWN_REST_MS`]: its requests get what a failure gets, and nothing is
//! run for them.
//!
//! Files: `judge` asks the programs, `state` keeps judges and counts, `frames` looks at what they say. Not here: files and sandboxes.
//!
//! Invariant: a program sees no request that users' rules or an earlier policy refuse, and what it rewrites is judged by both like any request.

mod frames;
mod judge;
mod state;

use super::What;
use crate::command::{Class, CommandId, lookup, lookup_sub};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

pub use state::OwnReport;
pub(crate) use state::State;

/// A rule's program and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Path of the file that the program is made of, as the configuration has it.
    pub file: String,
    /// What one call may cost, in units of the program's kind; see the crate `extension`.
    pub fuel: u64,
    /// What its memory may grow to, in bytes.
    pub memory_max_bytes: usize,
    /// A request of which the program could not say anything goes on; else it is refused.
    pub passes_on_failure: bool,
}

/// What a program is shown of a request.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The request as an array of bulk strings (RESP), its command under its real name as the client wrote it.
    pub request: &'a [u8],
    /// Name of the client's user.
    pub user: &'a [u8],
    /// The client's address as `CLIENT LIST` shows it.
    pub client_address: &'a str,
    /// `CLIENT SETNAME`; empty: none.
    pub client_name: &'a [u8],
    /// The client's number.
    pub client: u64,
    /// Number of its database.
    pub db: u32,
    /// 2 or 3.
    pub protocol: u8,
    /// It stands between MULTI and EXEC.
    pub is_inside: bool,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// Another number for each request, of the engine's own generator.
    pub random: u64,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// This is its reply, and no server sees it. One whole reply (RESP).
    Answer(Vec<u8>),
    /// It gets an error with this text, without `-` and line end. Without a code in capitals at its begin it gets `ERR`.
    Refuse(Vec<u8>),
    /// This goes on instead. One whole request, an array of bulk strings.
    Rewrite(Vec<u8>),
    /// It is a read that goes on, and the read target of this name is asked first.
    Read(Vec<u8>),
    /// It goes on to the upstream, and no read target is asked.
    Upstream,
}

/// Why a program said nothing that could be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It took more than its fuel.
    Fuel,
    /// It wanted more memory than it may have.
    Memory,
    /// It called itself too often.
    Stack,
    /// It did what no program may, or gave up by itself.
    Trap,
    /// What it said is nothing that could be said.
    Verdict,
    /// It has no room for the request.
    Room,
    /// It could not be begun.
    Start,
    /// The request is too large to be shown at all (`limits.large_request_bytes`).
    Large,
}

/// The failures, as figures call them, in the order of [`Failure`].
pub const FAILURES: [&str; 8] =
    ["fuel", "memory", "stack", "trap", "verdict", "room", "start", "large"];

/// What a judge says, and what that took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What becomes of the request.
    pub verdict: Result<Verdict, Failure>,
    /// How much fuel it took.
    pub fuel: u64,
    /// A line for the log, as the program wrote it.
    pub line: Option<String>,
}

/// Something that judges can be made of; all workers share it.
pub trait Program: fmt::Debug + Send + Sync {
    /// Makes a judge, in a time and memory that are bounded.
    ///
    /// # Errors
    /// It cannot begin.
    fn judge(&self) -> Result<Box<dyn Judge>, Failure>;
}

/// A program at work, for one worker. After a failure it is not asked again.
pub trait Judge: Send {
    /// What becomes of this request. Must end in bounded time, whatever the program does, and must not panic.
    fn request(&mut self, view: &View<'_>) -> Judgement;
}

/// The programs of rules, in their order; `None`: nobody has made one, and the rule fails.
pub type Programs = Vec<Option<Arc<dyn Program>>>;

/// Whether these are the same, one by one.
pub(super) fn are_same(one: &Programs, other: &Programs) -> bool {
    let is_same = |(one, other): (&Option<_>, &Option<_>)| match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// Looks at the words by which a rule names commands: none may be one that no program is ever asked about, because respool answers it itself, or it
/// begins or ends a transaction, or changes what a connection is.
///
/// # Errors
/// The first word that is such a command.
pub fn check_words(words: &[&str]) -> Result<(), String> {
    let named = |word: &&&str| !word.starts_with('@') && !word.contains('.');
    let row = |word: &str| match word.split_once('|') {
        Some((container, sub)) => lookup_sub(lookup(container.as_bytes())?, sub.as_bytes()),
        None => lookup(word.as_bytes()),
    };
    let wrong = |word: &&&str| row(word).is_some_and(|row| !may_be_asked_about(row));
    words.iter().filter(named).find(wrong).map_or(Ok(()), |word| Err(word.to_string()))
}

/// Whether a program may be asked about calls of this command.
fn may_be_asked_about(row: CommandId) -> bool {
    matches!(
        row.row().class,
        Class::Pass | Class::Beside | Class::Counted | Class::Noted | Class::Blocking
    ) || crate::blocking::blocks(row)
}

/// A rule for tests of others: about these commands.
#[doc(hidden)]
pub fn rule_about(words: &[&str], own: Own) -> super::Rule<Own> {
    let what = What::new(words, Vec::new(), false).unwrap_or_default();
    super::Rule { what, name: "own".into(), error: None, detail: own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_is_asked_about_what_is_the_proxys_or_a_connections() {
        assert_eq!(
            check_words(&["get", "MSET", "object|freq", "@all", "ft.search", "blpop"]),
            Ok(())
        );
        assert_eq!(check_words(&["xread", "publish", "eval", "fcall", "no-such"]), Ok(()));
        for word in ["auth", "hello", "multi", "exec", "watch", "client", "acl|setuser", "shutdown"]
        {
            assert_eq!(check_words(&["get", word]), Err(word.into()));
        }
    }
}
