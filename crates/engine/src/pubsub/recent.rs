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
//! Messages are kept by their hashes, of all topics of a worker together, so what has the same text counts as the same. Where one text is
//! published over and over, one of them may be missing right after a move; servers promise no delivery.
//!
//! Not here: what both servers tell while both are listened to (`handover`), and when a topic moved (`Topic::moved`).
//!
//! Invariant: at most [`RECENT_MAX`] hashes.

use crate::limits::{RECENT_MAX, RECENT_MS};
use crate::time::Time;
use alloc::collections::VecDeque;
use rapidhash::v3::rapidhash_v3;

/// What went out, and when, oldest first; `None`: it came again.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(Time, Option<u64>)>);

impl Recent {
    /// This message goes out.
    pub(super) fn note(&mut self, now: Time, frame: &[u8]) {
        // So long it may be asked for: as long before a move as after it.
        let is_old = |(at, _): &(Time, Option<u64>)| at.plus_ms(2 * RECENT_MS) < now;
        while self.0.front().is_some_and(is_old) || self.0.len() >= RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, Some(rapidhash_v3(frame))));
    }

    /// The new server of a topic that moved at this time tells this: whether it was heard before. Then that counts no more.
    pub(super) fn was_heard(&mut self, now: Time, moved: Option<Time>, frame: &[u8]) -> bool {
        let Some(moved) = moved.filter(|moved| moved.plus_ms(RECENT_MS) >= now) else {
            return false;
        };
        let hash = Some(rapidhash_v3(frame));
        let counts = |at: Time| at <= moved && at.plus_ms(RECENT_MS) >= moved;
        let heard = self.0.iter_mut().find(|(at, of)| *of == hash && counts(*at));
        heard.is_some_and(|(_, of)| of.take().is_some())
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
        assert!(!recent.was_heard(at(RECENT_MS + 1), None, b"a"), "it has not moved");
        let (moved, now) = (Some(at(RECENT_MS + 10)), at(RECENT_MS + 20));
        assert!(!recent.was_heard(now, moved, b"old"));
        for (frame, again) in
            [(b"b", true), (b"a", true), (b"b", true), (b"b", false), (b"a", false)]
        {
            assert_eq!(recent.was_heard(now, moved, frame), again, "{frame:?}");
        }
        recent.note(now, b"c");
        assert!(!recent.was_heard(now, moved, b"c"), "it came behind the move");
        assert!(!recent.was_heard(at(RECENT_MS * 2 + 21), Some(now), b"c"), "too late");
        assert!(recent.was_heard(at(RECENT_MS * 2 + 20), Some(now), b"c"));
    }

    #[test]
    fn their_number_is_bounded() {
        let mut recent = Recent::default();
        for number in 0..RECENT_MAX as u64 + 1 {
            recent.note(at(1), &number.to_le_bytes());
        }
        assert_eq!(recent.0.len(), RECENT_MAX);
        assert!(!recent.was_heard(at(1), Some(at(1)), &0u64.to_le_bytes()));
        assert!(recent.was_heard(at(1), Some(at(1)), &1u64.to_le_bytes()));
    }
}
