//! How often log lines of one kind are written: a server that comes and goes must not fill a disk, nor hide everything else.
//!
//! ```text
//!   line of a kind ─▶ window of the kind, from its first line on: `burst` pass ─▶ written
//!                                                                 └ the others are counted ─ window over ─▶ "log lines left out", how many
//! ```
//! A kind is a place in the program that logs, which has one level. The last line of a window that was too full comes from [`Limit::run`], also where no
//! further line of the kind follows.
//!
//! Not here: which levels are written (the filter), the access log, which has bounds of its own.
//!
//! Invariant: at most `burst` lines of a kind in a window, and one that tells of the others; each line that is not written is counted in one of those.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::losses::Loss;
use tokio::sync::Notify;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::ACCESS;
use crate::losses::Losses;

/// Kinds that are looked after; the program has some hundred places that log. Lines of further ones are all written.
const KINDS_MAX: usize = 1024;

/// Bytes of a message by which its kind is told.
const MESSAGE_BYTES: usize = 120;

/// The layer, and what tells how many lines were left out. Clones share their counts.
#[derive(Clone)]
pub struct Limit(Arc<Shared>);

struct Shared {
    began: Instant,
    kinds: Mutex<Kinds<Identifier>>,
    /// A line was left out, of a kind of which none was.
    owed: Notify,
    losses: Losses,
}

impl Limit {
    pub(super) fn new(burst: usize, window_s: u64, losses: Losses) -> Self {
        let kinds = Mutex::new(Kinds::new(burst, window_s * 1000));
        Self(Arc::new(Shared { began: Instant::now(), kinds, owed: Notify::new(), losses }))
    }

    /// Other bounds hold, at once for windows that run.
    pub(super) fn change(&self, burst: usize, window_s: u64) {
        let mut kinds = self.kinds();
        (kinds.burst, kinds.window_ms) = (burst, window_s * 1000);
    }

    /// Tells of what was left out, as soon as each window is over. Never ends.
    pub async fn run(self) {
        loop {
            match self.tell(self.now_ms()) {
                Some(next_ms) => {
                    let wait_ms = next_ms.saturating_sub(self.now_ms());
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                }
                None => self.0.owed.notified().await,
            }
        }
    }

    /// Tells of all that was left out: the program ends.
    pub fn finish(&self) {
        self.tell(u64::MAX);
    }

    /// Tells of what is due at this time; when the next is.
    fn tell(&self, now_ms: u64) -> Option<u64> {
        // The lock is not held while lines are written, as those come here, too.
        let (due, next_ms) = self.kinds().due(now_ms);
        for LeftOut { level, message, lines } in due {
            let message = message.as_str();
            match level {
                Level::ERROR => tracing::error!(message, lines, "{LEFT_OUT}"),
                Level::WARN => tracing::warn!(message, lines, "{LEFT_OUT}"),
                Level::INFO => tracing::info!(message, lines, "{LEFT_OUT}"),
                Level::DEBUG => tracing::debug!(message, lines, "{LEFT_OUT}"),
                Level::TRACE => tracing::trace!(message, lines, "{LEFT_OUT}"),
            }
        }
        next_ms
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds<Identifier>> {
        // Whoever panicked while it held the lock left counts behind, which are right or one too few.
        self.0.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// What the last line of a window says.
const LEFT_OUT: &str = "log lines left out: they came too often";

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if metadata.target() == ACCESS || metadata.target() == module_path!() {
            return true;
        }
        let (kind, level) = (metadata.callsite(), *metadata.level());
        let passes = self.kinds().passes(kind, level, self.now_ms(), || Message::of(event));
        if passes != Passes::Yes {
            self.0.losses.add(Loss::LogBurst, 1);
        }
        if passes == Passes::NotAndTell {
            self.0.owed.notify_one();
        }
        passes == Passes::Yes
    }
}

/// The message of an event.
#[derive(Default)]
struct Message(String);

impl Message {
    fn of(event: &Event<'_>) -> String {
        let mut message = Self::default();
        event.record(&mut message);
        let end = message.0.floor_char_boundary(MESSAGE_BYTES);
        message.0.truncate(end);
        message.0
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // A String takes all.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Yes,
    /// The first one of its kind that is not, so that somebody must tell.
    NotAndTell,
    No,
}

/// Lines of one kind that were left out.
#[derive(Debug, PartialEq, Eq)]
struct LeftOut {
    level: Level,
    message: String,
    lines: u64,
}

/// The windows of all kinds. Without a clock of its own.
struct Kinds<K> {
    burst: usize,
    window_ms: u64,
    /// In the order in which they came first.
    all: Vec<Kind>,
    places: HashMap<K, usize>,
}

struct Kind {
    level: Level,
    /// Of the first line that was left out.
    message: String,
    began_ms: u64,
    written: usize,
    left_out: u64,
    /// When that is told.
    tell_at_ms: u64,
}

impl<K: Hash + Eq> Kinds<K> {
    fn new(burst: usize, window_ms: u64) -> Self {
        Self { burst, window_ms, all: Vec::new(), places: HashMap::new() }
    }

    /// One more line of this kind.
    fn passes(
        &mut self,
        kind: K,
        level: Level,
        now_ms: u64,
        message: impl FnOnce() -> String,
    ) -> Passes {
        if self.burst == 0 || (self.all.len() == KINDS_MAX && !self.places.contains_key(&kind)) {
            return Passes::Yes;
        }
        let all = &mut self.all;
        let place = *self.places.entry(kind).or_insert_with(|| {
            let (message, began_ms) = (String::new(), now_ms);
            all.push(Kind { level, message, began_ms, written: 0, left_out: 0, tell_at_ms: 0 });
            all.len() - 1
        });
        let kind = &mut all[place];
        if now_ms >= kind.began_ms.saturating_add(self.window_ms) {
            (kind.began_ms, kind.written) = (now_ms, 0);
        }
        if kind.written < self.burst {
            kind.written += 1;
            return Passes::Yes;
        }
        kind.left_out += 1;
        if kind.left_out > 1 {
            return Passes::No;
        }
        kind.message = message();
        kind.tell_at_ms = kind.began_ms.saturating_add(self.window_ms);
        Passes::NotAndTell
    }

    /// What is to be told at this time, and when there is more to tell.
    fn due(&mut self, now_ms: u64) -> (Vec<LeftOut>, Option<u64>) {
        let (mut due, mut next_ms) = (Vec::new(), None);
        for kind in self.all.iter_mut().filter(|kind| kind.left_out > 0) {
            if kind.tell_at_ms <= now_ms {
                let (message, lines) =
                    (std::mem::take(&mut kind.message), std::mem::take(&mut kind.left_out));
                due.push(LeftOut { level: kind.level, message, lines });
            } else {
                next_ms = next_ms.into_iter().chain([kind.tell_at_ms]).min();
            }
        }
        (due, next_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(
        kinds: &mut Kinds<&'static str>,
        kind: &'static str,
        at_ms: u64,
        count: usize,
    ) -> usize {
        let passes = |kinds: &mut Kinds<_>| {
            kinds.passes(kind, Level::WARN, at_ms, || format!("message of {kind}")) == Passes::Yes
        };
        (0..count).filter(|_| passes(kinds)).count()
    }

    fn left_out(kind: &str, lines: u64) -> LeftOut {
        LeftOut { level: Level::WARN, message: format!("message of {kind}"), lines }
    }

    #[test]
    fn what_comes_too_often_is_left_out_and_told_when_the_window_is_over() {
        let mut kinds = Kinds::new(20, 10_000);
        assert_eq!(lines(&mut kinds, "a", 5_000, 30), 20);
        assert_eq!(lines(&mut kinds, "a", 14_999, 5), 0);
        assert_eq!(lines(&mut kinds, "b", 14_999, 3), 3, "another kind has its own window");
        assert_eq!(kinds.due(14_999), (vec![], Some(15_000)));
        assert_eq!(kinds.due(15_000), (vec![left_out("a", 15)], None));
        assert_eq!(kinds.due(99_000), (vec![], None), "told once");
        assert_eq!(lines(&mut kinds, "a", 15_000, 30), 20);
    }

    #[test]
    fn lines_of_the_next_window_lose_no_count_of_the_last_one() {
        let mut kinds = Kinds::new(2, 1_000);
        assert_eq!(lines(&mut kinds, "a", 0, 5), 2);
        // Nobody has looked what is due yet.
        assert_eq!(lines(&mut kinds, "a", 1_500, 4), 2);
        assert_eq!(kinds.due(1_500), (vec![left_out("a", 5)], None));
        assert_eq!(lines(&mut kinds, "a", 1_600, 1), 0);
        assert_eq!(kinds.due(1_600), (vec![], Some(2_500)));
    }

    #[test]
    fn zero_is_no_bound_and_another_bound_holds_at_once() {
        let mut kinds = Kinds::new(0, 1_000);
        assert_eq!(lines(&mut kinds, "a", 0, 1_000), 1_000);
        kinds.burst = 3;
        assert_eq!(lines(&mut kinds, "a", 1, 10), 3);
        kinds.burst = 5;
        assert_eq!(lines(&mut kinds, "a", 2, 10), 2);
    }

    #[test]
    fn beyond_the_bound_of_kinds_all_is_written() {
        let mut kinds = Kinds::new(1, 1_000);
        for kind in 0..KINDS_MAX + 5 {
            let passed =
                (0..3).filter(|_| kinds.passes(kind, Level::INFO, 0, String::new) == Passes::Yes);
            assert_eq!(passed.count(), if kind < KINDS_MAX { 1 } else { 3 });
        }
        assert_eq!(kinds.all.len(), KINDS_MAX);
    }
}
