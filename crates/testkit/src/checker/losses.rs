//! Times in which Redis itself may lose what it acknowledged, and whether a loss is one of those.
//!
//! A primary acknowledges before its replicas have the write, so what it acknowledged in the moment
//! before its death may be gone, with any client and any proxy. A test that kills a primary brackets
//! that moment: it begins when the replica had everything so far (`WAIT`), and ends when the primary
//! can acknowledge nothing more. Everything acknowledged outside of the bracket must be there.
//!
//! ```text
//!   acknowledged:   a   b   c │ d   e  x                     f   g
//!                             └ bracket ┘ kill      new primary
//!   may be gone:                d   e      must be there:  a b c f g
//! ```
//! Invariant: a loss is excused by the times of the acknowledgements alone, and never by how it
//! looks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use resp::Value;

use super::book::{Book, Log, Retired, Text};
use super::client::Plan;
use super::judge::{Answer, bulk, log_content, number_in};

/// From when, and till when if it has ended.
type Bracket = (Instant, Option<Instant>);

/// Brackets of time, shared between the test and all its clients.
#[derive(Clone, Debug, Default)]
pub struct Losses(Arc<Mutex<Vec<Bracket>>>);

impl Losses {
    /// Begins a bracket now.
    pub fn begin(&self) {
        self.brackets().push((Instant::now(), None));
    }

    /// Ends the bracket that is open, if there is one.
    pub fn end(&self) {
        if let Some((_, end @ None)) = self.brackets().last_mut() {
            *end = Some(Instant::now());
        }
    }

    fn brackets(&self) -> std::sync::MutexGuard<'_, Vec<Bracket>> {
        // Plain data: a thread that panicked has not left it half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what was acknowledged then may be gone.
    pub(super) fn excuse(&self, at: Instant) -> bool {
        let within = |(begin, end): &Bracket| *begin <= at && end.is_none_or(|end| at <= end);
        self.brackets().iter().any(within)
    }

    /// Whether a reply from which acknowledged writes are missing is excused. If so their keys are
    /// tainted, since nothing can be said of them any more before the end; gives how many writes
    /// are known to be gone.
    pub(super) fn excuse_reply(&self, book: &mut Book, plan: &Plan, reply: &[u8]) -> Option<u64> {
        let (value, _) = resp::value::parse(reply).ok().flatten()?;
        match (plan, &value) {
            (Plan::Get(at, _), value) => {
                let lost = self.text(&book.texts[*at], bulk(value)?)?;
                book.texts[*at].tainted = true;
                Some(lost)
            }
            (Plan::Mget(keys), Value::Array(items)) => {
                let mut lost = 0;
                for ((at, expected), item) in keys.iter().zip(items) {
                    let got = bulk(item)?;
                    if got != expected.as_deref() {
                        lost += self.text(&book.texts[*at], got)?;
                        book.texts[*at].tainted = true;
                    }
                }
                Some(lost)
            }
            (Plan::Incr(at, expected), Value::Integer(got)) => {
                let counter = &mut book.counters[*at];
                let missing = expected.checked_sub(u64::try_from(*got).ok()?)?;
                let lost = self.counter(&counter.acks, missing)?;
                counter.tainted = true;
                Some(lost)
            }
            // Which tokens are missing shows in the content, after the run.
            (Plan::Append(at, ..) | Plan::ReadLog(at, _), _) => {
                let log = &mut book.logs[*at];
                let some = log.acks.iter().any(|at| self.excuse(*at));
                log.tainted |= some;
                some.then_some(0)
            }
            _ => None,
        }
    }

    /// As [`Losses::excuse_reply`] for a final value.
    pub(super) fn excuse_final(&self, key: &Retired, got: Option<&[u8]>) -> Option<u64> {
        match key {
            Retired::Text(text) => self.text(text, got),
            Retired::Counter(counter) => {
                let got =
                    got.map_or(Some(0), |text| std::str::from_utf8(text).ok()?.parse().ok())?;
                self.counter(&counter.acks, counter.acked.checked_sub(got)?)
            }
            Retired::Log(log) => self.log(log, got.unwrap_or_default()),
        }
    }

    /// Every acknowledged value that is newer than the one that is there must be excused.
    fn text(&self, text: &Text, got: Option<&[u8]>) -> Option<u64> {
        let there = got.map_or(Some(0), number_in)?;
        let newer = text.acks.iter().filter(|(number, _)| *number > there);
        let mut count = 0;
        for (_, at) in newer {
            if !self.excuse(*at) {
                return None;
            }
            count += 1;
        }
        Some(count)
    }

    /// No more may be missing than were acknowledged in a bracket.
    fn counter(&self, acks: &[Instant], missing: u64) -> Option<u64> {
        let excused = acks.iter().filter(|at| self.excuse(**at)).count() as u64;
        (missing <= excused).then_some(missing)
    }

    /// A log without the tokens that are missing and excused must be right.
    pub(super) fn log(&self, log: &Log, got: &[u8]) -> Option<u64> {
        let text = String::from_utf8_lossy(got);
        let mut rest =
            Log { name: log.name.clone(), unknown: log.unknown.clone(), ..Log::default() };
        let mut lost = 0;
        for (token, at) in log.acked.iter().zip(&log.acks) {
            if !text.contains(token.as_str()) && self.excuse(*at) {
                lost += 1;
            } else {
                rest.acked.push(token.clone());
            }
        }
        (log_content(&rest, got) == Answer::Right).then_some(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::book::Counter;
    use std::time::Duration;

    /// A bracket around the second of three acknowledgements, and their times.
    fn bracketed() -> (Losses, [Instant; 3]) {
        let begin = Instant::now();
        let times = [0, 10, 20].map(|ms| begin + Duration::from_millis(ms));
        let bracket = (times[1], Some(times[1] + Duration::from_millis(5)));
        (Losses(Arc::new(Mutex::new(vec![bracket]))), times)
    }

    #[test]
    fn brackets_open_and_close() {
        let losses = Losses::default();
        assert!(!losses.excuse(Instant::now()));
        losses.begin();
        assert!(losses.excuse(Instant::now()));
        losses.end();
        std::thread::sleep(Duration::from_millis(1));
        assert!(!losses.excuse(Instant::now()));
        losses.end();
        assert_eq!(losses.brackets().len(), 1);
    }

    #[test]
    fn a_text_may_fall_back_over_excused_values_only() {
        let (losses, times) = bracketed();
        let mut text = Text { acks: vec![(1, times[0]), (2, times[1])], ..Text::default() };
        let judged = |text: &Text, got: &[u8]| losses.text(text, Some(got));
        assert_eq!(judged(&text, b"1:1:t0:1:0:"), Some(1), "the second one is gone");
        assert_eq!(losses.text(&text, None), None, "the first one must not be");
        text.acks.push((3, times[2]));
        assert_eq!(judged(&text, b"1:1:t0:2:0:"), None, "the third one must not be");
        assert_eq!(judged(&text, b"1:1:t0:3:0:"), Some(0));
    }

    #[test]
    fn a_counter_may_miss_as_many_as_were_excused() {
        let (losses, times) = bracketed();
        let counter =
            Retired::Counter(Counter { acked: 3, acks: times.into(), ..Counter::default() });
        let judged = [&b"3"[..], b"2", b"1"].map(|got| losses.excuse_final(&counter, Some(got)));
        assert_eq!(judged, [Some(0), Some(1), None]);
        assert_eq!(losses.excuse_final(&counter, None), None);
    }

    #[test]
    fn a_log_may_miss_excused_tokens_in_the_middle() {
        let (losses, times) = bracketed();
        let acked = ["a#1;", "a#2;", "a#3;"].map(str::to_owned).to_vec();
        let log = Log { acked, acks: times.into(), ..Log::default() };
        assert_eq!(losses.log(&log, b"a#1;a#3;"), Some(1));
        assert_eq!(losses.log(&log, b"a#1;a#2;"), None);
        assert_eq!(losses.log(&log, b"a#1;a#3;a#3;"), None, "a loss does not excuse a replay");
    }

    #[test]
    fn a_reply_without_an_excused_write_taints_its_key() {
        let (losses, times) = bracketed();
        let mut book = Book::new(1, 1);
        book.counters[0].acks = vec![times[0], times[1]];
        book.texts[0].acks = vec![(1, times[1])];
        assert_eq!(losses.excuse_reply(&mut book, &Plan::Incr(0, 3), b":2\r\n"), Some(1));
        assert_eq!(losses.excuse_reply(&mut book, &Plan::Incr(0, 4), b":2\r\n"), None, "two");
        let get = Plan::Get(0, Some(b"1:1:t0:1:0:".to_vec()));
        assert_eq!(losses.excuse_reply(&mut book, &get, b"$-1\r\n"), Some(1));
        assert!(book.counters[0].tainted && book.texts[0].tainted);
    }
}
