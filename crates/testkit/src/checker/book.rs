//! What one checker client knows of its keys, and so what each reply has to be.
//!
//! Three kinds of keys: texts (SET, GET, MGET), counters (INCR) and logs (APPEND of numbered
//! tokens). While all writes of a key are acknowledged its value is known exactly. Once the outcome
//! of a write is unknown the key is *tainted*: from there to the end of the batch replies on it are
//! held against what is possible, and then the key is retired. A retired key is never touched
//! again, because the unknown write may still be on its way to the server; after the run its value
//! is read once and held against what is possible.
//!
//! ```text
//!   fresh ──acknowledged write──► exact ──unknown write──► tainted ──end of batch──► retired ──end of run──► judged
//! ```
//!
//! Invariant: a live key outside of a batch is exact.

use std::time::Instant;

use rand::Rng;
use rand::rngs::StdRng;

/// Live keys of each kind per client. Few, so that requests of one batch often meet on the same
/// key.
const KEYS: usize = 6;
/// A log is retired, exact as it is, when it holds so many tokens.
const LOG_TOKENS_MAX: usize = 300;
/// Retired keys remembered; beyond it they are forgotten unjudged, which bounds the memory of a
/// long soak.
const RETIRED_MAX: usize = 50_000;

/// A key with a text value.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    pub(super) name: String,
    /// The value after the requests planned so far, if none of them fails.
    pub(super) value: Option<Vec<u8>>,
    /// Values that may be there, once the key is tainted.
    pub(super) possible: Vec<Option<Vec<u8>>>,
    pub(super) tainted: bool,
    /// The number in each acknowledged value, and when it was acknowledged (see [`Book::timed`]).
    pub(super) acks: Vec<(u64, Instant)>,
}

/// A counter.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    pub(super) name: String,
    /// The value after the requests planned so far, if none of them fails.
    pub(super) planned: u64,
    pub(super) acked: u64,
    pub(super) unknown: u64,
    pub(super) tainted: bool,
    /// When each INCR was acknowledged.
    pub(super) acks: Vec<Instant>,
}

/// A key that only grows, by numbered tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) name: String,
    /// Tokens appended by the requests planned so far.
    pub(super) planned: Vec<String>,
    pub(super) acked: Vec<String>,
    pub(super) unknown: Vec<String>,
    pub(super) tainted: bool,
    /// When each token of `acked` was acknowledged; empty in a book that is not timed.
    pub(super) acks: Vec<Instant>,
}

impl Log {
    pub(super) fn planned_len(&self) -> usize {
        self.planned.iter().map(String::len).sum()
    }
}

/// A key that is no more used.
#[derive(Clone, Debug)]
pub(super) enum Retired {
    Text(Text),
    Counter(Counter),
    Log(Log),
}

impl Retired {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Text(text) => &text.name,
            Self::Counter(counter) => &counter.name,
            Self::Log(log) => &log.name,
        }
    }
}

/// All keys of one client.
#[derive(Debug)]
pub(super) struct Book {
    /// `seed:client`, with which all names and values of this client begin.
    pub(super) owner: String,
    /// Hash tags of the keys by their place, around again; empty for none.
    tags: Vec<String>,
    /// Whether the times of acknowledgements are kept, for a run in which some may be lost.
    pub(super) timed: bool,
    made: u64,
    sequence: u64,
    pub(super) texts: Vec<Text>,
    pub(super) counters: Vec<Counter>,
    pub(super) logs: Vec<Log>,
    retired: Vec<Retired>,
}

impl Book {
    /// Without a hash tag.
    #[cfg(test)]
    pub(super) fn new(seed: u64, client: u32) -> Self {
        Self::with_tags(seed, client, Vec::new())
    }

    /// Fresh keys, with these hash tags in turn if there are any. A key that takes the place of another
    /// one has its tag, so that keys do not drift away from a server that fails.
    pub(super) fn with_tags(seed: u64, client: u32, tags: Vec<String>) -> Self {
        let mut book = Self {
            owner: format!("{seed}:{client}"),
            tags,
            timed: false,
            made: 0,
            sequence: 0,
            texts: Vec::new(),
            counters: Vec::new(),
            logs: Vec::new(),
            retired: Vec::new(),
        };
        for at in 0..KEYS {
            let (text, counter, log) = (book.new_text(at), book.new_counter(at), book.new_log(at));
            book.texts.push(text);
            book.counters.push(counter);
            book.logs.push(log);
        }
        book
    }

    /// A number that this client never used before.
    pub(super) fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// A value that names its owner, its purpose and a sequence number, padded to at most
    /// `bytes_max`.
    pub(super) fn tagged(&mut self, purpose: &str, bytes_max: usize, rng: &mut StdRng) -> Vec<u8> {
        let number = self.next();
        // Mostly short; sometimes up to the maximum, at lengths that are no round numbers.
        let len = match rng.random_range(0..20) {
            0 => rng.random_range(0..=bytes_max),
            1..4 => rng.random_range(0..=bytes_max.min(4096)),
            _ => rng.random_range(0..=bytes_max.min(64)),
        };
        let mut value = format!("{}:{purpose}:{number}:{len}:", self.owner).into_bytes();
        // The padding depends on the number, so that the middle of a value is somebody's as well.
        let pad = [b'a' + (number % 26) as u8, b'A' + (number / 26 % 26) as u8];
        value.extend(pad.iter().cycle().take(len.saturating_sub(value.len())));
        value
    }

    /// Ends a batch: tainted keys are retired and replaced, and so are logs that are long.
    pub(super) fn end_batch(&mut self) {
        for at in 0..KEYS {
            if self.texts[at].tainted {
                let fresh = self.new_text(at);
                let old = std::mem::replace(&mut self.texts[at], fresh);
                self.retire(Retired::Text(old));
            }
            if self.counters[at].tainted {
                let fresh = self.new_counter(at);
                let old = std::mem::replace(&mut self.counters[at], fresh);
                self.retire(Retired::Counter(old));
            }
            if self.logs[at].tainted || self.logs[at].planned.len() > LOG_TOKENS_MAX {
                let fresh = self.new_log(at);
                let old = std::mem::replace(&mut self.logs[at], fresh);
                self.retire(Retired::Log(old));
            }
        }
    }

    /// Every key ever used, for the last judgement.
    pub(super) fn into_keys(self) -> Vec<Retired> {
        let mut keys = self.retired;
        keys.extend(self.texts.into_iter().map(Retired::Text));
        keys.extend(self.counters.into_iter().map(Retired::Counter));
        keys.extend(self.logs.into_iter().map(Retired::Log));
        keys
    }

    fn retire(&mut self, key: Retired) {
        if self.retired.len() < RETIRED_MAX {
            self.retired.push(key);
        }
    }

    fn name(&mut self, kind: &str, at: usize) -> String {
        self.made += 1;
        let tag = self.tags.get(at % self.tags.len().max(1));
        let tag = tag.map_or(String::new(), |tag| format!("{{{tag}}}"));
        format!("{tag}{}:{kind}{}", self.owner, self.made)
    }

    fn new_text(&mut self, at: usize) -> Text {
        Text { name: self.name("text", at), ..Text::default() }
    }

    fn new_counter(&mut self, at: usize) -> Counter {
        Counter { name: self.name("counter", at), ..Counter::default() }
    }

    fn new_log(&mut self, at: usize) -> Log {
        Log { name: self.name("log", at), ..Log::default() }
    }
}
