//! Doubt: whether a read that differed at every look differed because a key of it expired.
//!
//! A mirror does a `SET … PX` a moment after the primary, so the mirror keeps the key that moment longer. A key that is
//! written again and again and lives for some milliseconds may be seen within that moment at every look. So both
//! sides are asked for the lifetime (`PTTL`) of each key, at once behind the last look:
//!
//! ```text
//!   GET k differs ─▶ PTTL k at the primary ─▶ PTTL k at the mirror
//!                       ├─▶ k expires within SHADOW_LATE_MS, or has expired at both: racing
//!                       └─▶ the next key; no key expires: different
//! ```
//! The moment is at most [`SHADOW_LATE_MS`] long, since a mirror that is further behind is not asked. If a side refuses
//! the question (`NOPERM`), the read counts as different.
//!
//! Not here: when a read is asked again (`super`); lifetimes of hash fields, since HPTTL needs their names.
//!
//! Invariant: there are no more questions than keys of the read.

use super::Fate;
use crate::limits::{SHADOW_LATE_MS, SHADOW_SAMPLE_BYTES};
use alloc::boxed::Box;
use alloc::vec::Vec;
use resp::encode;
use resp::value::{Value, parse};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    /// The begins of both replies at the last look, the primary's first.
    pub(crate) replies: Box<[Vec<u8>; 2]>,
    /// Keys that both sides are still to be asked for, the next one last.
    keys: Vec<Vec<u8>>,
    /// No key so far was at either side.
    are_gone: bool,
}

impl Doubt {
    /// Of a read with these keys, of which there is one at least.
    pub(crate) fn new(keys: Vec<Vec<u8>>, replies: [&[u8]; 2]) -> Self {
        debug_assert!(!keys.is_empty(), "a read without keys is not compared");
        let begin = |reply: &[u8]| reply[..reply.len().min(SHADOW_SAMPLE_BYTES)].to_vec();
        Self { replies: Box::new(replies.map(begin)), keys, are_gone: true }
    }

    /// The question for the next key.
    pub(crate) fn question(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        encode::array(&mut frame, 2);
        encode::bulk(&mut frame, b"PTTL");
        encode::bulk(&mut frame, self.keys.last().map_or(&[], Vec::as_slice));
        frame
    }

    /// Both sides answered it, the primary first. `None`: there is one more question.
    pub(crate) fn answered(&mut self, replies: [&[u8]; 2]) -> Option<Fate> {
        let lifetimes = replies.map(lifetime_ms);
        let late_ms = i64::try_from(SHADOW_LATE_MS).unwrap_or(i64::MAX);
        if lifetimes.iter().flatten().any(|ms| (0..=late_ms).contains(ms)) {
            return Some(Fate::Racing);
        }
        self.are_gone &= lifetimes == [Some(GONE); 2];
        self.keys.pop();
        let fate = if self.are_gone { Fate::Racing } else { Fate::Different };
        self.keys.is_empty().then_some(fate)
    }

    /// Bytes that it holds.
    pub(crate) fn cost(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| key.len() + size_of::<Vec<u8>>()).sum();
        keys + self.replies.iter().map(Vec::len).sum::<usize>() + size_of::<[Vec<u8>; 2]>()
    }
}

/// The reply of PTTL for a key that does not exist (since Redis 2.8).
const GONE: i64 = -2;

fn lifetime_ms(reply: &[u8]) -> Option<i64> {
    match parse(reply) {
        Ok(Some((Value::Integer(ms), _))) => Some(ms),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fate_of(answers: &[[&str; 2]]) -> Option<Fate> {
        let keys = answers.iter().map(|_| b"k".to_vec()).collect();
        let mut doubt = Doubt::new(keys, [b"", b""]);
        answers.iter().find_map(|both| doubt.answered(both.map(str::as_bytes)))
    }

    #[test]
    fn a_lifetime_that_ends_within_the_bound_or_has_ended_says_nothing() {
        let rows: &[(&[[&str; 2]], Fate)] = &[
            (&[[":-2\r\n", ":0\r\n"]], Fate::Racing),
            (&[[":-2\r\n", ":1000\r\n"]], Fate::Racing),
            (&[[":1000\r\n", ":-2\r\n"]], Fate::Racing),
            (&[[":-2\r\n", ":1001\r\n"]], Fate::Different),
            (&[[":-2\r\n", ":-1\r\n"]], Fate::Different),
            (&[[":-1\r\n", ":-1\r\n"]], Fate::Different),
            (&[[":-2\r\n", ":-2\r\n"]], Fate::Racing),
            (&[[":-2\r\n", "-NOPERM no\r\n"]], Fate::Different),
            // One expiring key of several is enough; a key that neither side has excuses no other key.
            (&[[":-1\r\n", ":-1\r\n"], [":-2\r\n", ":7\r\n"]], Fate::Racing),
            (&[[":-2\r\n", ":-2\r\n"], [":-1\r\n", ":-1\r\n"]], Fate::Different),
            (&[[":-1\r\n", ":-1\r\n"], [":-2\r\n", ":-2\r\n"]], Fate::Different),
            (&[[":-2\r\n", ":-2\r\n"], [":-2\r\n", ":-2\r\n"]], Fate::Racing),
        ];
        for (answers, fate) in rows {
            assert_eq!(fate_of(answers), Some(*fate), "{answers:?}");
        }
    }

    #[test]
    fn one_key_is_asked_for_at_a_time() {
        let mut doubt = Doubt::new([b"a".to_vec(), b"b".to_vec()].into(), [b"1", b"2"]);
        assert_eq!(doubt.question(), b"*2\r\n$4\r\nPTTL\r\n$1\r\nb\r\n");
        assert_eq!(doubt.answered([b":-1\r\n", b":-1\r\n"]), None);
        assert_eq!(doubt.question(), b"*2\r\n$4\r\nPTTL\r\n$1\r\na\r\n");
        assert_eq!(doubt.answered([b":-1\r\n", b":-1\r\n"]), Some(Fate::Different));
    }
}
