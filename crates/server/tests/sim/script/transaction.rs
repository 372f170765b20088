//! Transactions in a script: all of their writes are done or none.
//!
//! Each is about one key, so that it has one place on a cluster; its writes are tags, which tell whether they were done. Sometimes
//! the key is watched before, sometimes the end is DISCARD, sometimes a PING stands inside, which the proxy does not send over its shared
//! connections. Whoever was told QUEUED and then an array has its writes; whoever was told EXECABORT or null has none; whoever was told of
//! a lost connection, or nothing, has all or none.
//!
//! Not here: what the writes are to be (`ledger`).
//!
//! Invariant: between two transactions of a client there is at least one reply, so what was heard is of one.

use netio::sim::SimRng;
use resp::value::{Value, parse};
use testkit::frames::request;

use super::{Expected, Key, Reply, Script};
use crate::ledger::{Keeps, TAG_BYTES, Use};
use crate::site::Site;

/// The key of a transaction and the numbers of its writes.
pub(super) type Writes = (Key, Vec<u64>);

/// What is said in a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Watch,
    Multi,
    /// One of the writes.
    Write(Key, u64),
    /// A PING.
    Aside,
    Exec(Writes, usize),
    Discard(Writes),
}

/// What was heard since WATCH or MULTI.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The key is watched, or may be.
    watched: bool,
    /// MULTI was answered with OK.
    begun: bool,
    /// Something inside was refused.
    refused: bool,
}

impl Script {
    /// A transaction, in one pipeline with what stands around it.
    pub(super) fn transaction(&mut self, out: &mut Vec<u8>) {
        let used = if self.rng.chance(500_000) { Use::Log } else { Use::List };
        let key = self.key(used);
        if chance(&mut self.rng, 3) {
            self.word(out, &[b"WATCH", &key.1], Word::Watch);
        }
        self.word(out, &[b"MULTI"], Word::Multi);
        let mut writes = Vec::new();
        let mut others = 0;
        for _ in 0..self.rng.between(1, 4) {
            let (tag, nth) = self.tag(&key);
            let name: &[u8] = if used == Use::Log { b"APPEND" } else { b"LPUSH" };
            self.word(out, &[name, &key.1, &tag], Word::Write(key.clone(), nth));
            writes.push(nth);
            if chance(&mut self.rng, 8) {
                self.word(out, &[b"PING"], Word::Aside);
                others += 1;
            }
        }
        if chance(&mut self.rng, 5) {
            self.word(out, &[b"DISCARD"], Word::Discard((key, writes)));
        } else {
            self.word(out, &[b"EXEC"], Word::Exec((key, writes), others));
        }
    }

    /// What a write of this key adds, and its number.
    pub(super) fn tag(&mut self, key: &Key) -> (Vec<u8>, u64) {
        self.seq += 1;
        let tag = format!("c{:04}:{:06};", self.number % 10_000, self.seq).into_bytes();
        debug_assert_eq!(tag.len(), TAG_BYTES);
        let nth = self.ledger(key).send(tag.clone());
        (tag, nth)
    }

    fn word(&mut self, out: &mut Vec<u8>, args: &[&[u8]], word: Word) {
        self.say(out, &request(args), Reply::InTransaction(word), true);
    }

    /// One of these was answered.
    pub(super) fn hear_transaction(
        &mut self,
        word: &Word,
        expected: &Expected,
        reply: &[u8],
        failing: bool,
    ) -> Result<(), String> {
        let failed = reply.starts_with(b"-");
        let is_left = self.may_be_left(expected, reply);
        let has_cause = failing && expected.fallible || self.may_move(reply) || is_left;
        if failed && !has_cause {
            return Err("an error without a cause".to_owned());
        }
        match word {
            Word::Watch => self.heard = Heard { watched: true, ..Heard::default() },
            Word::Multi => {
                let watched = self.heard.watched;
                self.heard = Heard { watched, begun: reply == b"+OK\r\n", refused: false };
            }
            // MULTI failed: what stands behind it is no transaction.
            Word::Write(key, nth) if !self.heard.begun && !failed => {
                let result = super::integer(reply)?;
                return self.ledger(&key.clone()).added(*nth, result);
            }
            Word::Aside if !self.heard.begun => {}
            Word::Write(..) | Word::Aside => {
                self.heard.refused |= failed;
                if !failed && reply != b"+QUEUED\r\n" {
                    return Err("must be QUEUED".to_owned());
                }
            }
            Word::Exec(writes, others) => self.exec_heard(writes, *others, reply)?,
            Word::Discard(writes) => {
                if self.heard.begun {
                    self.none_of(writes);
                }
                self.heard = Heard::default();
            }
        }
        if failed && !self.is_failure(reply) {
            self.errors_seen += 1;
        }
        Ok(())
    }

    fn exec_heard(&mut self, writes: &Writes, others: usize, reply: &[u8]) -> Result<(), String> {
        let heard = std::mem::take(&mut self.heard);
        // An EXEC that was sent is answered; what was to be sent to a server that is named no more is not done.
        let is_undone = reply.starts_with(b"-EXECABORT ") || super::tells_of_left(reply);
        if is_undone || (heard.watched && is_null(reply)) {
            self.none_of(writes);
            return Ok(());
        }
        if reply.starts_with(b"-") {
            // What becomes of it is asked at the end (`unknown`).
            if heard.begun {
                self.doubtful.push(writes.clone());
            }
            return Ok(());
        }
        if !heard.begun || heard.refused {
            return Err("EXEC was done in spite of an error before it".to_owned());
        }
        let Ok(Some((Value::Array(results), _))) = parse(reply) else {
            return Err("must be an array".to_owned());
        };
        let (key, numbers) = writes;
        if results.len() != numbers.len() + others {
            return Err(format!("{} results", results.len()));
        }
        let results: Vec<i64> = results
            .iter()
            .filter_map(|result| match result {
                Value::Integer(number) => Some(*number),
                _ => None,
            })
            .collect();
        let step = results.windows(2).map(|pair| pair[1] - pair[0]);
        let unit = if super::use_of(&key.1) == Use::Log { TAG_BYTES as i64 } else { 1 };
        if results.len() != numbers.len() || step.into_iter().any(|step| step != unit) {
            return Err("somebody else came in between".to_owned());
        }
        for (nth, result) in numbers.iter().zip(results) {
            self.ledger(key).added(*nth, result)?;
        }
        self.transactions += 1;
        Ok(())
    }

    /// Whether this is what a transaction is told whose slot goes to another node in its middle, or whose primary hands over.
    pub(super) fn may_move(&self, reply: &[u8]) -> bool {
        let words = ["-ERR respool: the keys of this transaction", "-EXECABORT "];
        self.moves() && words.iter().any(|word| reply.starts_with(word.as_bytes()))
    }

    fn none_of(&mut self, (key, numbers): &Writes) {
        numbers.iter().for_each(|nth| self.ledger(key).never(*nth));
    }

    /// The client went before it was answered.
    pub(super) fn transaction_unknown(&mut self, word: &Word) {
        if let Word::Exec(writes, _) = word
            && self.heard.begun
        {
            self.doubtful.push(writes.clone());
        }
        if matches!(word, Word::Exec(..) | Word::Discard(_) | Word::Multi) {
            self.heard = Heard::default();
        }
    }

    /// All or none of each that nobody told of.
    pub(super) fn judge_transactions(&self, site: &Site) -> Result<(), String> {
        // What a cache did is told server by server.
        let doubtful = self.doubtful.iter().filter(|_| self.keeps != Keeps::Perhaps);
        for ((db, key), numbers) in doubtful {
            let effects = site.effects(*db, key, false)?;
            let Some(ledger) = self.ledgers.get(&(*db, key.clone())) else { continue };
            let done = ledger.done_of(numbers, &effects);
            if done != 0 && done != numbers.len() {
                let key = String::from_utf8_lossy(key);
                return Err(format!("{key}: {done} of {} writes of a transaction", numbers.len()));
            }
        }
        Ok(())
    }
}

fn chance(rng: &mut SimRng, one_in: u32) -> bool {
    rng.chance(1_000_000 / one_in)
}

fn is_null(reply: &[u8]) -> bool {
    reply == b"*-1\r\n" || reply == b"_\r\n"
}
