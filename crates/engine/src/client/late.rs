//! How long a client's input waited here before it was given on, for the slow log.
//!
//! ```text
//!   bytes come ─▶ [tail │ since … next] ─ hold over ─▶ sent at T: they waited T − since
//! ```
//! Input that can be given on at once never comes here. Of the rest it is known when its first byte came, and when some byte behind that did; so what is
//! left over of it when a part was given on counts from one of these two.
//!
//! Not here: the tail itself (`client`).
//!
//! Invariant: at most [`LATE_MAX`] waits are kept, the last ones; a wait is never told longer than the first byte of the tail was here.

use crate::limits::LATE_MAX;
use crate::time::Time;
use alloc::vec::Vec;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// When the first byte of the tail came.
    since: Time,
    /// So many bytes further there is one that came later, and when.
    next: (usize, Time),
    /// When some of the tail was given on, and since when that had waited.
    waits: Vec<(Time, Time)>,
}

impl Late {
    /// An empty tail gets so many bytes.
    pub(crate) fn begin(&mut self, now: Time, len: usize) {
        self.since = now;
        self.next = (len, now);
    }

    /// `used` bytes of the tail were processed, and so many are left.
    pub(crate) fn advance(&mut self, now: Time, used: usize, left: usize) {
        match self.next.0.checked_sub(used) {
            Some(ahead) if ahead > 0 => self.next.0 = ahead,
            _ => {
                self.since = self.next.1;
                self.next = (left, now);
            }
        }
    }

    /// What held it is over: what the tail begins with is given on now.
    pub(crate) fn resume(&mut self, now: Time) {
        if self.since < now && self.waits.last().is_none_or(|(sent_at, _)| *sent_at != now) {
            if self.waits.len() == LATE_MAX {
                self.waits.remove(0);
            }
            self.waits.push((now, self.since));
        }
    }

    /// How long that had waited which was given on at this time, in microseconds; 0 where it had not, or where that is not known any more.
    pub(crate) fn waited_us(&self, sent_at: Time) -> u64 {
        let wait = self.waits.iter().find(|(at, _)| *at == sent_at);
        wait.map_or(0, |(at, since)| at.since(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_is_known_by_the_time_when_it_was_sent() {
        let mut late = Late::default();
        late.begin(Time(10), 100);
        late.resume(Time(50));
        late.advance(Time(50), 40, 60);
        assert_eq!((late.waited_us(Time(50)), late.waited_us(Time(51))), (40, 0));
        // The rest came with it.
        late.resume(Time(70));
        assert_eq!(late.waited_us(Time(70)), 60);
    }

    #[test]
    fn a_tail_that_is_never_empty_does_not_grow_old() {
        let mut late = Late::default();
        late.begin(Time(0), 10);
        for turn in 1..1_000 {
            let now = Time(turn * 100);
            // Ten more came, ten are given on: a byte is here for one turn, and is told to be here for two at most.
            late.resume(now);
            late.advance(now, 10, 10);
            assert!((100..=200).contains(&late.waited_us(now)), "{turn}");
            assert!(late.waits.len() <= LATE_MAX);
        }
        assert_eq!(late.waited_us(Time(100)), 0, "forgotten");
    }
}
