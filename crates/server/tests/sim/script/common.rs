//! What all clients write and read: counters that only grow, and a large value that is always the same.
//!
//! So many ask for the same at the same moment, which the proxy may answer together. Every client checks what it is told by itself: a counter is never
//! less than it was told before, and more than that after its own INCRBY; each counter has a step of its own, so that the value of one is not taken for
//! that of another; and the large value is whole, and there for ever once it was seen.
//!
//! Not here: the keys that a client has for itself (the module above, `ledger`).
//!
//! Invariant: what is demanded holds in any order in which the servers could have taken the clients' requests.

use std::collections::{BTreeMap, BTreeSet};

use testkit::frames::request;

use super::parts::{bulk, integer};
use super::{Reply, Script};
use crate::plan::{Layout, Plan};

/// What the counters are raised by.
const STEPS: [i64; 3] = [1_009, 1_013, 1_019];

/// The large value has so many bytes at most.
const LARGE_BYTES_MAX: u64 = 60_000;

/// What was asked for, and in which database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    db: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A counter was raised.
    Raise(usize),
    /// A counter was read.
    Counter(usize),
    /// The large value was written.
    Write,
    /// It was read.
    Large,
}

/// What one client knows of them.
#[derive(Debug)]
pub(super) struct Common {
    on: bool,
    /// No server forgets, or has an older state than another.
    keeps: bool,
    large_bytes: usize,
    /// The last value of each counter, by database.
    counters: BTreeMap<(u32, usize), i64>,
    /// Where the large value was seen.
    seen: BTreeSet<u32>,
}

impl Common {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            on: plan.settings.coalesce_reads || plan.settings.cache.enabled,
            keeps: !plan.changes() && (plan.layout == Layout::One || plan.is_as_direct()),
            large_bytes: plan.value_bytes_max.min(LARGE_BYTES_MAX) as usize,
            counters: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Whether its client takes part.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    fn large(&self) -> Vec<u8> {
        (0..self.large_bytes).map(|at| b'a' + (at % 23) as u8).collect()
    }

    /// Whether a reply to this may be given in parts.
    pub(super) fn is_much(&self, word: Word) -> bool {
        matches!(word.what, What::Large) && self.large_bytes > super::CUT_THROUGH_BYTES / 2
    }

    /// Takes a reply that is no failure.
    pub(super) fn hear(&mut self, Word { db, what }: Word, reply: &[u8]) -> Result<(), String> {
        match what {
            What::Raise(counter) => self.told(db, counter, integer(reply)?, 1),
            What::Counter(counter) => {
                let value = match bulk(reply)? {
                    None => Some(0),
                    Some(digits) => resp::number::parse_i64(digits),
                };
                self.told(db, counter, value.ok_or("must be a number")?, 0)
            }
            What::Write if reply == b"+OK\r\n" => {
                self.seen.insert(db);
                Ok(())
            }
            What::Write => Err("must be OK".to_owned()),
            What::Large => match bulk(reply)? {
                Some(value) if value == self.large() => {
                    self.seen.insert(db);
                    Ok(())
                }
                None if !self.keeps || !self.seen.contains(&db) => Ok(()),
                _ => Err("must be the large value".to_owned()),
            },
        }
    }

    /// A counter has this value, after it was raised so often since this client last heard of it.
    fn told(&mut self, db: u32, counter: usize, value: i64, raised: i64) -> Result<(), String> {
        if value % STEPS[counter] != 0 {
            return Err(format!("counter {counter} has another one's value"));
        }
        let last = self.counters.insert((db, counter), value).unwrap_or_default();
        let least = last + raised * STEPS[counter];
        if self.keeps && value < least {
            return Err(format!("counter {counter} must be {least} at least"));
        }
        Ok(())
    }
}

impl Script {
    /// Something that others say, too.
    pub(super) fn of_common(&mut self, out: &mut Vec<u8>) {
        let counter = self.rng.between(0, STEPS.len() as u64 - 1) as usize;
        let (key, step) = (format!("common:{counter}"), STEPS[counter].to_string());
        let (what, bytes) = match self.rng.between(0, 19) {
            0 | 1 => (What::Raise(counter), request(&["INCRBY", &key, &step])),
            2 if self.common.large_bytes <= self.bytes_left => {
                let large = self.common.large();
                (What::Write, request(&[&b"SET"[..], b"common:large", &large]))
            }
            3..=6 if self.common.large_bytes <= self.bytes_left => {
                self.spend(self.common.large_bytes);
                (What::Large, request(&["GET", "common:large"]))
            }
            _ => (What::Counter(counter), request(&["GET", &key])),
        };
        let word = Word { db: self.db, what };
        self.say(out, &bytes, Reply::Common(word), true);
    }
}
