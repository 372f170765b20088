//! What one client may see at one of its keys, and what the server may have done to it.
//!
//! A request that was answered with an error, or not at all, may have been executed, may be executed later (the server can
//! still have it in a socket that the proxy has closed), or never. So a key has no one value but a set of possible ones; while
//! nothing fails the set has one member.
//!
//! Invariant: what was acknowledged is in `effects` of the model exactly once, what was not at most once, in the order of
//! the acknowledgements.

use std::collections::{BTreeMap, BTreeSet};

use testkit::frames::quote;
use testkit::model::Effect;

use crate::world::Epochs;

/// Bytes of one APPEND: `c0012:000345;`.
pub(crate) const TAG_BYTES: usize = 13;

/// How a key is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// SET and GET of values that name their request.
    Text,
    /// INCR.
    Counter,
    /// APPEND of tags.
    Log,
    /// LPUSH of tags.
    List,
}

/// How faithful what is behind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// What was acknowledged is read by whoever reads later.
    All,
    /// As `All`, but a read may be as old as the moment it was sent: copies answer.
    UpToAsking,
    /// What was acknowledged is there; of several requests that were under way together any may have been the last one done.
    InAnyOrder,
    /// As `All`, but a read on a connection that was lost is sent again, and may then find what its client pipelined behind it.
    AllButReadAgain,
    /// A cache: any key may be gone at any time, or have an old value again.
    Perhaps,
}

/// What a client knew of a key when it sent a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Writes sent.
    pub(crate) sent: u64,
    /// The number of the last SET that was acknowledged.
    set: u64,
    /// The highest result that was seen.
    low: u64,
}

impl Known {
    /// Whether the key surely exists: nothing here deletes.
    pub(crate) fn exists(self) -> bool {
        self.set > 0 || self.low > 0
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ledger {
    used: Use,
    keeps: Keeps,
    /// The number of the last acknowledged SET; 0: none.
    last_nth: u64,
    /// The value of the last acknowledged SET.
    last: Option<Vec<u8>>,
    /// Values of SETs that may be executed at any time.
    maybe: Vec<Vec<u8>>,
    /// The highest result that was seen of INCR, APPEND (in tags), LPUSH.
    low: u64,
    /// All of them, and the number of the write.
    results: BTreeMap<u64, u64>,
    /// How many of these were sent.
    sent: u64,
    /// Everything that was sent, in order, and whether it was acknowledged.
    writes: Vec<(Vec<u8>, bool)>,
    /// The numbers of writes that the server said it would not do.
    never: BTreeSet<u64>,
    /// For each write how often servers had been replaced when it was sent, and when it was acknowledged.
    spans: Vec<(usize, Option<usize>)>,
    /// How often servers were replaced so far; its owner's to keep up.
    pub(crate) epochs: Epochs,
}

impl Ledger {
    /// A key that nobody has touched.
    pub(crate) fn new(used: Use, keeps: Keeps) -> Self {
        Self {
            used,
            keeps,
            last_nth: 0,
            last: None,
            maybe: Vec::new(),
            low: 0,
            results: BTreeMap::new(),
            sent: 0,
            writes: Vec::new(),
            never: BTreeSet::new(),
            spans: Vec::new(),
            epochs: Epochs::default(),
        }
    }

    /// What is known of it now.
    pub(crate) fn known(&self) -> Known {
        Known { sent: self.sent, set: self.last_nth, low: self.low }
    }

    /// The value is about to be written; returns the number of this write.
    pub(crate) fn send(&mut self, value: Vec<u8>) -> u64 {
        self.writes.push((value, false));
        self.spans.push((self.epochs.settled, None));
        self.sent += 1;
        self.sent
    }

    /// Nobody will tell what became of the write `nth`.
    pub(crate) fn unknown(&mut self, nth: u64) {
        let value = self.writes[nth as usize - 1].0.clone();
        self.maybe.push(value);
    }

    /// The server said that write `nth` is not done.
    pub(crate) fn never(&mut self, nth: u64) {
        self.never.insert(nth);
    }

    /// How many of these writes were done, of which nobody told.
    pub(crate) fn done_of(&self, writes: &[u64], effects: &[Effect]) -> usize {
        let done = |nth: &&u64| {
            let value = &self.writes[**nth as usize - 1].0;
            effects.iter().any(|effect| {
                matches!(effect, Effect::Set(v) | Effect::Append(v) | Effect::Push(v) if v == value)
            })
        };
        writes.iter().filter(done).count()
    }

    /// SET number `nth` was acknowledged.
    pub(crate) fn set(&mut self, nth: u64) {
        let write = &mut self.writes[nth as usize - 1];
        write.1 = true;
        self.last = Some(write.0.clone());
        self.last_nth = nth;
        self.spans[nth as usize - 1].1 = Some(self.epochs.begun);
    }

    /// How often servers had been replaced when the write of this effect was sent, and when it was acknowledged; `None`: nobody knows which
    /// write it was. `at`: how many effects the key had before.
    pub(crate) fn span(&self, at: usize, effect: &Effect) -> Option<(usize, Option<usize>)> {
        let nth = match (self.used, effect) {
            (Use::Counter, _) => *self.results.get(&(at as u64 + 1))? as usize,
            (_, Effect::Set(value) | Effect::Append(value) | Effect::Push(value)) => {
                1 + self.writes.iter().position(|(write, _)| write == value)?
            }
            _ => return None,
        };
        self.spans.get(nth - 1).copied()
    }

    /// INCR, APPEND or LPUSH number `nth` was answered with this result.
    pub(crate) fn added(&mut self, nth: u64, result: i64) -> Result<(), String> {
        let unit = if self.used == Use::Log { TAG_BYTES as i64 } else { 1 };
        let count = u64::try_from(result / unit).unwrap_or(0);
        let again = match self.keeps {
            Keeps::All | Keeps::AllButReadAgain | Keeps::UpToAsking => count <= self.low,
            Keeps::InAnyOrder => self.results.contains_key(&count),
            Keeps::Perhaps => false,
        };
        let most = if self.keeps == Keeps::InAnyOrder { self.sent } else { nth };
        if result % unit != 0 || count == 0 || again || count > most {
            return Err(format!(
                "{:?}: result {result} of write {nth}, {} seen before",
                self.used, self.low
            ));
        }
        self.low = count.max(self.low);
        self.results.insert(count, nth);
        self.writes[nth as usize - 1].1 = true;
        self.spans[nth as usize - 1].1 = Some(self.epochs.begun);
        Ok(())
    }

    /// The key reads as this; the read was sent when so much was known.
    pub(crate) fn reads(&self, value: Option<&[u8]>, asked: Known) -> Result<(), String> {
        // The lowest that a counter may be, and the oldest of the acknowledged values that a text may have.
        let (low, oldest) = match self.keeps {
            Keeps::All | Keeps::AllButReadAgain => (self.low, self.last_nth),
            Keeps::UpToAsking => (asked.low, asked.set),
            // It exists, that is all.
            Keeps::InAnyOrder => (asked.low.min(1), asked.set.min(1)),
            Keeps::Perhaps => (0, 0),
        };
        // A copy may be late in reading what was written behind the read.
        let most = if self.keeps == Keeps::All { asked.sent } else { self.sent };
        let fits = match (self.used, value) {
            (Use::Text, None) => oldest == 0,
            (Use::Text, Some(value)) => {
                let is_last = self.keeps == Keeps::All && self.last.as_deref() == Some(value);
                let not_older = || self.writes.iter().skip(oldest.saturating_sub(1) as usize);
                is_last
                    || self.maybe.iter().any(|maybe| maybe == value)
                    || (self.keeps != Keeps::All && not_older().any(|(write, _)| write == value))
            }
            (Use::List, _) => true,
            (_, None) => low == 0,
            (Use::Counter, Some(value)) => {
                let number =
                    resp::number::parse_i64(value).and_then(|number| u64::try_from(number).ok());
                number.is_some_and(|number| number >= low && number <= most)
            }
            (Use::Log, Some(value)) => {
                let tags = value.chunks(TAG_BYTES);
                let count = tags.len() as u64;
                let known = |tag: &[u8]| self.writes.iter().any(|(write, _)| write == tag);
                count >= low && count <= most && tags.into_iter().all(known)
            }
        };
        if fits {
            return Ok(());
        }
        let value = value.map(|value| quote(value, 60));
        let last = self.last.as_deref().map(|last| quote(last, 60));
        Err(format!(
            "{:?} key reads {value:?}; acknowledged last {last:?}, {} possible, {} seen, {} sent",
            self.used,
            self.maybe.len(),
            self.low,
            asked.sent
        ))
    }

    /// The largest value that a read may bring, in bytes.
    pub(crate) fn bytes_max(&self) -> usize {
        match self.used {
            Use::Counter => 20,
            Use::Log => self.sent as usize * TAG_BYTES,
            _ => self.writes.iter().map(|(value, _)| value.len()).max().unwrap_or(0),
        }
    }

    /// Compares with what the server did, when all is over.
    pub(crate) fn judge(&self, effects: &[Effect], db: u32, key: &[u8]) -> Result<(), String> {
        let what = || format!("db {db} key {}", quote(key, 40));
        if self.used == Use::Counter {
            let acked = self.writes.iter().filter(|(_, acked)| *acked).count();
            let sent = self.sent - self.never.len() as u64;
            if effects.len() < acked || effects.len() as u64 > sent {
                return Err(format!(
                    "{}: {} INCR done, {acked} acknowledged, {sent} sent",
                    what(),
                    effects.len()
                ));
            }
            return Ok(());
        }
        // Values are different from each other, so each effect has one write, and the acknowledged ones keep their order.
        let mut done = vec![false; self.writes.len()];
        let mut last_acked = None;
        for effect in effects {
            let (Effect::Set(value) | Effect::Append(value) | Effect::Push(value)) = effect else {
                return Err(format!("{}: {effect:?} was never asked for", what()));
            };
            let found = self.writes.iter().position(|(write, _)| write == value);
            let Some(at) = found else {
                return Err(format!(
                    "{}: holds {}, which its client never wrote",
                    what(),
                    quote(value, 60)
                ));
            };
            if self.never.contains(&(at as u64 + 1)) {
                let value = quote(value, 60);
                return Err(format!("{}: {value} was done in spite of an error", what()));
            }
            if std::mem::replace(&mut done[at], true) {
                return Err(format!("{}: {} was done twice", what(), quote(value, 60)));
            }
            if self.writes[at].1 {
                // What a cache did is told server by server, so the order is not to be seen.
                let in_order = !matches!(self.keeps, Keeps::InAnyOrder | Keeps::Perhaps);
                if in_order && last_acked.is_some_and(|last| last > at) {
                    return Err(format!("{}: {} was done out of order", what(), quote(value, 60)));
                }
                last_acked = Some(at);
            }
        }
        let lost = self.writes.iter().zip(&done).find(|((_, acked), done)| *acked && !**done);
        match lost {
            Some(((value, _), _)) => {
                Err(format!("{}: {} was acknowledged and not done", what(), quote(value, 60)))
            }
            None => Ok(()),
        }
    }
}
