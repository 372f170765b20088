//! What was heard of a topic a moment ago, for the case that its next server tells it again.
//!
//! The nodes of a cluster pass messages on in their own time: one that was published at a topic's server, and heard there, reaches the others some
//! milliseconds later (40, where a cluster bus waits for an acknowledgement). When the topic is subscribed to at another one in between, it is
//! told a second time, before anything that `handover` could compare it with.
//!
//! ```text
//!   old server  ─ 1 ─ 2 ─┐ it moves                    what goes out: 1 2 3
//!   new server           └ subscribed ─ 2 ─ 3
//! ```
//! Messages are kept by their hashes, so what has the same text counts as the same. Where one text is published over and over, one of them may be
//! missing right after a move; servers promise no delivery.
//!
//! Not here: what both servers tell while both are listened to (`handover`).
//!
//! Invariant: at most [`RECENT_MAX`] hashes, none older than [`RECENT_MS`] counts.

use crate::limits::{RECENT_MAX, RECENT_MS};
use crate::time::Time;
use alloc::collections::{BTreeMap, VecDeque};
use rapidhash::v3::rapidhash_v3;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// What went out, and when, oldest first.
    heard: VecDeque<(Time, u64)>,
    /// Of these, what a new server may tell again, and how often.
    before: BTreeMap<u64, u32>,
    /// Until when it may.
    until: Time,
}

impl Recent {
    /// This message goes out.
    pub(super) fn note(&mut self, now: Time, frame: &[u8]) {
        let is_old = |(at, _): &(Time, u64)| at.plus_ms(RECENT_MS) < now;
        while self.heard.front().is_some_and(is_old) || self.heard.len() >= RECENT_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back((now, rapidhash_v3(frame)));
    }

    /// From now on the topic is told by another server.
    pub(super) fn moves(&mut self, now: Time) {
        let heard = self.heard.drain(..).filter(|(at, _)| at.plus_ms(RECENT_MS) >= now);
        self.before.clear();
        for (_, hash) in heard {
            *self.before.entry(hash).or_default() += 1;
        }
        self.until = now.plus_ms(RECENT_MS);
    }

    /// The new server tells this: whether it was heard before it was asked. Then that counts no more.
    pub(super) fn was_heard(&mut self, now: Time, frame: &[u8]) -> bool {
        if self.before.is_empty() {
            return false;
        }
        if now > self.until {
            self.before.clear();
            return false;
        }
        let hash = rapidhash_v3(frame);
        let Some(count) = self.before.get_mut(&hash) else { return false };
        *count -= 1;
        if *count == 0 {
            self.before.remove(&hash);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::default().plus_ms(ms)
    }

    #[test]
    fn what_was_heard_counts_once_for_each_time_and_for_a_while() {
        let mut recent = Recent::default();
        recent.note(at(0), b"old");
        for frame in [b"a", b"b", b"b"] {
            recent.note(at(RECENT_MS + 1), frame);
        }
        assert!(!recent.was_heard(at(RECENT_MS + 1), b"a"), "it has not moved");
        recent.moves(at(RECENT_MS + 10));
        let now = at(RECENT_MS + 20);
        assert!(!recent.was_heard(now, b"old"));
        for (frame, again) in
            [(b"b", true), (b"a", true), (b"b", true), (b"b", false), (b"a", false)]
        {
            assert_eq!(recent.was_heard(now, frame), again, "{frame:?}");
        }
        recent.note(now, b"c");
        recent.moves(now);
        assert!(!recent.was_heard(at(RECENT_MS * 2 + 21), b"c"), "too late");
    }

    #[test]
    fn their_number_is_bounded() {
        let mut recent = Recent::default();
        for number in 0..RECENT_MAX as u64 + 1 {
            recent.note(at(1), &number.to_le_bytes());
        }
        assert_eq!(recent.heard.len(), RECENT_MAX);
        recent.moves(at(1));
        assert!(!recent.was_heard(at(1), &0u64.to_le_bytes()));
        assert!(recent.was_heard(at(1), &1u64.to_le_bytes()));
    }
}
