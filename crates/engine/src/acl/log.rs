//! What was refused to whom (`ACL LOG`).
//!
//! Each worker keeps its own; they are put together when somebody asks. What is refused again within a minute raises the count of its entry
//! instead of making another one, as in Redis.
//!
//! Invariant: at most [`ACL_LOG_ENTRIES`] entries, the newest first, each with at most [`ACL_LOG_OBJECT_BYTES`] of a name in memory.

use super::Denied;
use crate::limits::{ACL_LOG_ENTRIES, ACL_LOG_OBJECT_BYTES};
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// So long after the last time the same makes a new entry.
const GROUPED_US: u64 = 60_000_000;
/// So many entries are looked at for the same.
const LOOKED_AT: usize = 10;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The command is not allowed.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// Name or password was wrong.
    Auth,
}

impl Reason {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
        }
    }
}

impl From<Denied> for Reason {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Command | Denied::Script => Self::Command,
            Denied::Key(_) | Denied::SortBy | Denied::SortGet => Self::Key,
            Denied::Channel(_) => Self::Channel,
        }
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Greater than those of earlier entries of the same worker, and no other worker's.
    pub id: u64,
    /// How often.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// In a transaction.
    pub is_inside: bool,
    /// Which command, key or channel.
    pub object: Vec<u8>,
    /// Whose request it was, or who somebody wanted to be.
    pub user: Vec<u8>,
    /// When it first happened.
    pub first_at: Time,
    /// When it last happened.
    pub at: Time,
    /// The client's line in `CLIENT LIST`.
    pub client: String,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    /// Entries that were ever made.
    made: u64,
}

impl Log {
    /// It happened (again). `worker` of so many keeps this log.
    pub(crate) fn add(&mut self, mut entry: Entry, (worker, workers): (u32, u32)) {
        (entry.object, entry.user) = (shortened(&entry.object), shortened(&entry.user));
        let is_same = |known: &Entry| {
            known.reason == entry.reason
                && known.is_inside == entry.is_inside
                && entry.at.since(known.at) <= GROUPED_US
                && known.object == entry.object
                && known.user == entry.user
        };
        let at = self.entries.iter().take(LOOKED_AT).position(is_same);
        if let Some(known) = at.and_then(|at| self.entries.remove(at)) {
            entry.count += known.count;
            (entry.id, entry.first_at) = (known.id, known.first_at);
        } else {
            entry.id = self.made * u64::from(workers.max(1)) + u64::from(worker);
            self.made += 1;
        }
        self.entries.push_front(entry);
        self.entries.truncate(ACL_LOG_ENTRIES);
    }

    /// The newest, at most so many.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.iter().take(count).cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// The first [`ACL_LOG_OBJECT_BYTES`], in memory of that size: `Vec::truncate` keeps the memory of the whole.
fn shortened(text: &[u8]) -> Vec<u8> {
    text[..text.len().min(ACL_LOG_OBJECT_BYTES)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn an_entry_keeps_no_more_memory_than_it_shows() {
        let mut log = Log::default();
        for number in 0..=u8::MAX {
            let (object, user) = (vec![number; 1 << 20], vec![number; 1 << 20]);
            let (first_at, at, client) = (Time::default(), Time::default(), String::new());
            let (id, count, reason, is_inside) = (0, 1, Reason::Key, false);
            let entry = Entry { id, count, reason, is_inside, object, user, first_at, at, client };
            log.add(entry, (0, 1));
        }
        assert_eq!(log.entries.len(), ACL_LOG_ENTRIES);
        for entry in &log.entries {
            assert!(entry.object.len() == ACL_LOG_OBJECT_BYTES && entry.user[0] == entry.object[0]);
            assert!(entry.object.capacity() <= 2 * ACL_LOG_OBJECT_BYTES);
            assert!(entry.user.capacity() <= 2 * ACL_LOG_OBJECT_BYTES);
        }
    }
}
