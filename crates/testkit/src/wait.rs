//! Waiting for something to become true, always with a deadline.
//!
//! A test that sleeps "long enough" is slow on a fast machine and fails on a slow one. So nothing
//! in this crate sleeps blindly: it asks again every few milliseconds and gives up, in words, at a
//! limit that is generous.
//!
//! Invariant: [`poll`] asks at least once, also after the limit has passed, so that a starved test
//! thread does not report a failure of something that has long happened.

use std::thread;
use std::time::{Duration, Instant};

/// Pause between two questions. Short beside every limit, long enough to leave the cores to the
/// processes under test.
const PAUSE: Duration = Duration::from_millis(5);

/// Asks `question` until it answers `Some`, for at most `limit`. `None` means that the limit
/// passed.
pub fn poll<T>(limit: Duration, mut question: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        // The time is read before the question: the last question comes after the deadline.
        let late = Instant::now() >= deadline;
        if let Some(answer) = question() {
            return Some(answer);
        }
        if late {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

/// As [`poll`], and fails the test in words when the limit passes. `what` completes "waited … for".
#[track_caller]
pub fn until<T>(what: &str, limit: Duration, question: impl FnMut() -> Option<T>) -> T {
    match poll(limit, question) {
        Some(answer) => answer,
        None => panic!("waited {limit:?} in vain for {what}"),
    }
}

/// As [`until`] for a condition that is true or false.
#[track_caller]
pub fn until_true(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until(what, limit, || condition().then_some(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_until_it_is_answered() {
        let mut asked = 0;
        let answer = poll(Duration::from_secs(5), || {
            asked += 1;
            (asked == 3).then_some("there")
        });
        assert_eq!(answer, Some("there"));
        assert_eq!(asked, 3);
    }

    #[test]
    fn gives_up_at_the_limit_but_asks_once_more() {
        let mut asked = 0;
        let answer: Option<()> = poll(Duration::ZERO, || {
            asked += 1;
            None
        });
        assert_eq!(answer, None);
        assert_eq!(asked, 1);
    }

    #[test]
    #[should_panic(expected = "in vain for the moon")]
    fn names_what_did_not_come() {
        until_true("the moon", Duration::from_millis(1), || false);
    }
}
