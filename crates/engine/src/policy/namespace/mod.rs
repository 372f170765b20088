//! `policies.namespace`: all that clients name stands behind a prefix at the servers, and they do not see it.
//!
//! ```text
//!   client                servers                            client
//!   GET k             ─▶  GET team-a:k
//!   SCAN 0            ─▶  SCAN 0 MATCH team-a:*      ─▶      *2 0 *1 k
//!   BLPOP q 0         ─▶  BLPOP team-a:q 0           ─▶      *2 q v
//!   SUBSCRIBE c       ─▶  SUBSCRIBE team-a:c         ─▶      >3 message c v
//!   FLUSHALL          ─▶  an error: it is about more than the namespace
//! ```
//! Users' rules and all other policies are about the names that clients say; routes, slots, slow log, hot and large keys about those of the servers.
//!
//! Not here: how a request goes on when it was changed (`super::change`), what becomes of replies (`super::outward`).
//!
//! Invariant: a request goes on with all its names changed, or it does not go on.

mod inward;
mod rows;
mod short;

pub(crate) use inward::{patterns_of_scan, patterns_of_sort, prefixes_of_tracking};
pub(crate) use rows::Within;

use super::{Kind, Look, Refusal};
use crate::command::{CommandId, Learned, ids};
use crate::local::info::servers::tells_of_all_keys;
use crate::local::slowlog;
use crate::reject;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::encode;

/// Longest prefix.
pub const PREFIX_BYTES_MAX: usize = 64;

/// The names that clients say are those that begin with this.
#[derive(Clone, Debug)]
pub struct Namespace {
    prefix: Arc<[u8]>,
    /// Commands about whole databases go on as they are.
    allows_whole: bool,
    /// What it has to do with each row of the command table.
    rows: Vec<Within>,
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.prefix == other.prefix && self.allows_whole == other.allows_whole
    }
}

impl Eq for Namespace {}

impl Namespace {
    /// One with this prefix; `allows_whole`: commands about whole databases (`FLUSHALL`, `DBSIZE`) are not refused.
    ///
    /// # Errors
    /// What is wrong with the prefix, to go on after "which".
    pub fn new(prefix: &[u8], allows_whole: bool) -> Result<Self, String> {
        let fits = (1..=PREFIX_BYTES_MAX).contains(&prefix.len());
        if !fits || !prefix.iter().all(|byte| is_plain(*byte)) || prefix.starts_with(b"__") {
            return Err(allowed());
        }
        let rows = CommandId::all().map(Within::of).collect();
        Ok(Self { prefix: prefix.into(), allows_whole, rows })
    }

    /// What stands before each name at the servers.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Whether requests of this row may have to be changed or refused.
    pub(super) fn concerns(&self, id: CommandId) -> bool {
        self.rows[id.index()] != Within::Free || id == ids::INFO
    }

    /// Whether commands about whole databases are the clients' to use.
    pub(crate) fn allows_whole(&self) -> bool {
        self.allows_whole
    }

    /// The name as clients know it.
    pub(crate) fn outward<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        name.strip_prefix(&*self.prefix).unwrap_or(name)
    }

    /// Why a request is refused; `None`: it goes on, changed.
    pub(super) fn outside(&self, look: &Look<'_>, learned: Option<&Learned>) -> Option<Refusal> {
        let name = String::from_utf8_lossy(look.args[0]).to_ascii_lowercase();
        let error = match look.row {
            Some(row) if slowlog::is_of_servers(Some(row), look.args) && !self.allows_whole => {
                reject::beyond_namespace(row.name())
            }
            Some(row @ ids::INFO) if !self.allows_whole && tells_of_all_keys(look.args) => {
                reject::beyond_namespace(row.name())
            }
            Some(row) => match self.rows[row.index()] {
                Within::Whole if !self.allows_whole => reject::beyond_namespace(row.name()),
                Within::Closed => reject::not_in_namespace(row.name()),
                Within::Names(1, _) if self.is_event(row, look.args) => {
                    reject::NO_EVENTS_IN_NAMESPACE.into()
                }
                _ => return None,
            },
            // What no server knows either gets the server's error.
            None if learned.is_some_and(|learned| learned.lookup(look.args[0]).is_none()) => {
                return None;
            }
            None => reject::not_in_namespace(&name),
        };
        let mut reply = Vec::new();
        encode::error(&mut reply, error.as_bytes());
        Some(Refusal { kind: Kind::Namespace, name: String::new(), reply })
    }

    /// Whether somebody wants to hear what happens to keys: the channels' names have those of all keys in them, or the messages do.
    fn is_event(&self, row: CommandId, args: &[&[u8]]) -> bool {
        crate::pubsub::verb(row).is_some()
            && args[1..]
                .iter()
                .any(|name| name.starts_with(b"__key") || name.starts_with(b"__subkey"))
    }
}

/// What a prefix is made of: nothing that means something in a pattern, in a hash tag or between words.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":._-/@#+=".contains(&byte)
}

/// What a prefix may be.
#[must_use]
pub fn allowed() -> String {
    alloc::format!(
        "1 to {PREFIX_BYTES_MAX} letters, digits and `:._-/@#+=`, and no `__` at the begin (braces would decide the slots of all keys, stars mean something in patterns)"
    )
}
