//! Clients that count, for faults in which Redis itself may lose an acknowledged write.
//!
//! The checker of `testkit` calls any lost write a violation, and rightly so where the servers keep
//! what they acknowledge. A primary that is killed has perhaps not told its replica of its last
//! writes; a forced successor has perhaps not seen them. So these clients count what was lost
//! beside what was executed twice, and when and for how long they were not served.
//!
//! ```text
//!   one client, one request at a time:   INCR a:n  GET a:n   INCR b:n  GET b:n   INCR c:n  GET c:n  …
//!                                        └ of the first primary    └ of the second     └ of the third
//! ```
//! Invariant: a counter belongs to one client, which therefore knows what each reply may be.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Respool, wait};

use super::key_on;
use crate::setup::SOON;

/// How long one client pauses between two requests, so that a few of them leave the machine to the
/// servers.
const PAUSE: Duration = Duration::from_millis(1);

/// What happened on the keys of one primary of the start, to all clients together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Requests that were answered as they should be.
    pub(super) served: u64,
    /// Acknowledged INCRs that were gone later.
    pub(super) lost: u64,
    /// When each write got an error, and which.
    pub(super) write_errors: Vec<(Instant, String)>,
    /// When each read got an error, and which.
    pub(super) read_errors: Vec<(Instant, String)>,
    /// The longest time that one request took.
    pub(super) slowest: Duration,
    /// Answers that cannot be, in words.
    pub(super) wrong: Vec<String>,
}

impl Tally {
    /// Both kinds of errors.
    pub(super) fn errors(&self) -> impl Iterator<Item = &(Instant, String)> {
        self.write_errors.iter().chain(&self.read_errors)
    }

    /// When the last error came, after `begin`.
    pub(super) fn last_error_after(&self, begin: Instant) -> Duration {
        let last = self.errors().map(|(at, _)| *at).max();
        last.map_or(Duration::ZERO, |at| at.saturating_duration_since(begin))
    }

    /// Fails the test if anything was answered that cannot be.
    #[track_caller]
    pub(super) fn assert_sound(&self) {
        assert!(self.wrong.is_empty(), "{:?}", self.wrong);
        assert!(self.served > 0, "nothing was served");
    }

    /// As [`Tally::assert_sound`], and nothing failed or was lost.
    #[track_caller]
    pub(super) fn assert_untouched(&self) {
        self.assert_sound();
        assert!(self.errors().next().is_none(), "{:?}", self.errors().next());
        assert_eq!(self.lost, 0, "acknowledged writes are gone");
    }

    fn add(&mut self, other: Self) {
        self.served += other.served;
        self.lost += other.lost;
        self.write_errors.extend(other.write_errors);
        self.read_errors.extend(other.read_errors);
        self.slowest = self.slowest.max(other.slowest);
        self.wrong.extend(other.wrong);
    }
}

/// One counter, by its only client.
#[derive(Default)]
struct Counter {
    key: String,
    /// Its value is between these, unless writes were lost.
    least: u64,
    most: u64,
    /// INCRs that got an error and have not been seen executed: their bytes may lie in front of a server that hangs, and be
    /// executed when it goes on, behind whatever was read over another connection meanwhile.
    unknown: u64,
    tally: Tally,
}

impl Counter {
    /// Judges a number that was read, or that INCR gave.
    fn read(&mut self, value: u64) {
        if value > self.most {
            // Every INCR that was ever sent was counted: one of them was executed twice.
            self.tally.wrong.push(format!("{} is {value}, above {}", self.key, self.most));
        }
        self.tally.lost += self.least.saturating_sub(value);
        let late = value.saturating_sub(self.least).min(self.unknown);
        self.unknown -= late;
        (self.least, self.most) = (value, value + self.unknown);
        self.tally.served += 1;
    }

    fn reply(&mut self, writes: bool, reply: &str, took: Duration) {
        self.tally.slowest = self.tally.slowest.max(took);
        let digits = reply.trim_end().rsplit(['\n', ':']).next().unwrap_or_default();
        match (reply.as_bytes().first(), digits.parse()) {
            (Some(b'-'), _) => {
                self.unknown += u64::from(writes);
                let errors =
                    if writes { &mut self.tally.write_errors } else { &mut self.tally.read_errors };
                errors.push((Instant::now(), reply.trim_end().to_owned()));
            }
            (Some(b':' | b'$'), Ok(value)) if reply != "$-1\r\n" => {
                // It was executed, so the value is one more than the least that was known.
                self.least += u64::from(writes);
                self.read(value);
            }
            // A counter that a primary lost before it told of it.
            _ if reply == "$-1\r\n" => self.read(0),
            _ => self.tally.wrong.push(format!("{}: {reply:?}", self.key)),
        }
    }
}

/// Runs so many clients while `act` does something to the servers. Gives a tally for the keys of
/// each of the three primaries of the start.
pub(super) fn watch<T>(proxy: &Respool, clients: u16, act: impl FnOnce() -> T) -> ([Tally; 3], T) {
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (stop, begun) = (&stop, &begun);
        let runs: Vec<_> = (0..clients)
            .map(|client| scope.spawn(move || run(proxy, client, stop, begun)))
            .collect();
        let ended = Stop(stop);
        thread::sleep(Duration::from_millis(200));
        // On a busy machine that is not enough for all of them.
        wait::until_true("all clients to have begun", SOON, || {
            begun.load(Ordering::Acquire) >= usize::from(clients)
        });
        let done = act();
        drop(ended);
        let mut tallies: [Tally; 3] = Default::default();
        for run in runs {
            let counters = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            for (tally, counter) in tallies.iter_mut().zip(counters) {
                tally.add(counter.tally);
            }
        }
        for (nth, tally) in tallies.iter().enumerate() {
            println!(
                "keys of primary {nth}: {} served, {} + {} errors, {} lost, slowest {:?}, {:?}",
                tally.served,
                tally.write_errors.len(),
                tally.read_errors.len(),
                tally.lost,
                tally.slowest,
                tally.errors().map(|(_, text)| text).next(),
            );
        }
        (tallies, done)
    })
}

/// A test that fails must not leave its clients running.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// One client, to the end.
fn run(proxy: &Respool, client: u16, stop: &AtomicBool, begun: &AtomicUsize) -> [Counter; 3] {
    let mut conn = proxy.connect();
    let mut counters = [0, 1, 2].map(|nth| Counter {
        key: format!("{{{}}}:{client}", key_on(nth, 200 + client)),
        ..Counter::default()
    });
    for counter in &counters {
        // An earlier run may have counted there.
        conn.ask(&format!("DEL {}", counter.key));
    }
    for round in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        begun.fetch_add(usize::from(round == 1), Ordering::Release);
        for counter in &mut counters {
            for writes in [true, false] {
                let sent = Instant::now();
                counter.most += u64::from(writes);
                let word = if writes { "INCR" } else { "GET" };
                let reply = conn.ask(&format!("{word} {}", counter.key));
                counter.reply(writes, &reply, sent.elapsed());
            }
        }
        thread::sleep(PAUSE);
    }
    counters
}
