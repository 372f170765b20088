//! What the threads of one load share: its clock, its phases, how many requests are left, and its end.
//!
//! Threads look at it once per wake-up and take requests by the batch, so it costs them nothing that can be measured.
//! It starts no threads and knows no sockets.
//!
//! ```text
//!   threads connect │ warm-up │ measured …………………│          `begin_ns` and `end_ns` are u64::MAX until they are known
//!                   open      begin_ns            end_ns
//! ```
//!
//! Invariant: the first failure is the one that is kept, and after it (or `stop`, or the end) no thread goes on for
//! longer than one wake-up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::latency::Recorder;
use super::{Live, LoadError};
use crate::plan::Stop;

/// Not yet known.
const NEVER: u64 = u64::MAX;

/// Shared by all threads of a load.
#[derive(Debug)]
pub(super) struct Control<'a> {
    origin: Instant,
    live: &'a Live,
    /// `None`: time, not a number, ends the load.
    requests: Option<u64>,
    taken: AtomicU64,
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<LoadError>>,
    open: Mutex<bool>,
    opened: Condvar,
}

impl<'a> Control<'a> {
    pub(super) fn new(stop: Stop, live: &'a Live) -> Self {
        let requests = match stop {
            Stop::AfterRequests(requests) => Some(requests),
            Stop::AfterMs(_) => None,
        };
        Self {
            origin: Instant::now(),
            live,
            requests,
            taken: AtomicU64::new(0),
            begin_ns: AtomicU64::new(NEVER),
            end_ns: AtomicU64::new(NEVER),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
            open: Mutex::new(false),
            opened: Condvar::new(),
        }
    }

    /// Nanoseconds since the load began.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        // 584 years fit.
        self.origin.elapsed().as_nanos() as u64
    }

    /// The moment that `now_ns` named.
    pub(super) fn instant(&self, ns: u64) -> Instant {
        self.origin + Duration::from_nanos(ns)
    }

    /// From `now_ns` on replies count.
    pub(super) fn begin(&self, now_ns: u64) {
        self.begin_ns.store(now_ns, Relaxed);
    }

    /// From `now_ns` on they do not, and the threads end.
    pub(super) fn end(&self, now_ns: u64) {
        self.end_ns.store(now_ns, Relaxed);
    }

    /// When it ended, if it has.
    pub(super) fn ended_at(&self) -> Option<u64> {
        Some(self.end_ns.load(Relaxed)).filter(|end| *end != NEVER)
    }

    /// Whether a reply that is read at `now_ns` counts.
    #[inline]
    pub(super) fn counts(&self, now_ns: u64) -> bool {
        (self.begin_ns.load(Relaxed)..self.end_ns.load(Relaxed)).contains(&now_ns)
    }

    /// Whether threads must end.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.end_ns.load(Relaxed) != NEVER
    }

    /// Whether only the number of requests ends the load.
    pub(super) fn ends_by_count(&self) -> bool {
        self.requests.is_some()
    }

    /// Takes up to `wanted` requests to send; 0 when all are taken.
    #[inline]
    pub(super) fn take(&self, wanted: u32) -> u32 {
        let Some(requests) = self.requests else { return wanted };
        let before = self.taken.fetch_add(u64::from(wanted), Relaxed);
        requests.saturating_sub(before).min(u64::from(wanted)) as u32
    }

    /// Tells the watcher of so many replies.
    pub(super) fn add_live(&self, replies: u64) {
        self.live.replies.fetch_add(replies, Relaxed);
    }

    /// Whether the watcher wants the load to end.
    pub(super) fn is_cancelled(&self) -> bool {
        self.live.cancel.load(Relaxed)
    }

    /// Ends all threads for this reason, unless there is one already.
    pub(super) fn fail(&self, error: LoadError) {
        lock(&self.failure).get_or_insert(error);
        self.stop.store(true, Relaxed);
        self.open_gate();
    }

    /// The reason that ended the load early.
    pub(super) fn take_failure(&self) -> Option<LoadError> {
        lock(&self.failure).take()
    }

    /// Lets the threads go that wait until all are connected.
    pub(super) fn open_gate(&self) {
        *lock(&self.open) = true;
        self.opened.notify_all();
    }

    /// Waits until all are connected.
    pub(super) fn wait_gate(&self) {
        let mut open = lock(&self.open);
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A thread that panicked has failed the load already; what it guarded is whole, since both are set in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one thread counted.
#[derive(Debug)]
pub(super) struct Tally {
    /// Replies within the time that counts.
    pub(super) requests: u64,
    /// Of them, nulls.
    pub(super) nulls: u64,
    /// Requests that were due and not answered at the end (open loop).
    pub(super) unanswered: u64,
    /// Their latencies.
    pub(super) latency: Recorder,
    /// When the last reply was read.
    pub(super) last_ns: u64,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { requests: 0, nulls: 0, unanswered: 0, latency: Recorder::new(), last_ns: 0 }
    }

    /// Counts one reply.
    #[inline]
    pub(super) fn count(&mut self, latency_ns: u64, null: bool) {
        self.requests += 1;
        self.nulls += u64::from(null);
        self.latency.record(latency_ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.nulls += other.nulls;
        self.unanswered += other.unanswered;
        self.latency.add(&other.latency);
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_handed_out_exactly_once() {
        let live = Live::default();
        let control = Control::new(Stop::AfterRequests(1_000), &live);
        let total: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        std::iter::from_fn(|| Some(control.take(7)).filter(|got| *got > 0))
                            .sum::<u32>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("thread")).sum()
        });
        assert_eq!((total, control.take(1)), (1_000, 0));
        assert_eq!(
            Control::new(Stop::AfterMs(1), &live).take(50),
            50,
            "time ends it, not a number"
        );
    }

    #[test]
    fn only_the_measured_time_counts() {
        let live = Live::default();
        let control = Control::new(Stop::AfterMs(1), &live);
        assert!(!control.counts(5));
        control.begin(10);
        assert!(!control.counts(9) && control.counts(10) && control.counts(1_000_000));
        control.end(20);
        assert!(control.counts(19) && !control.counts(20) && control.is_over());
    }

    #[test]
    fn the_first_failure_is_kept_and_opens_the_gate() {
        let live = Live::default();
        let control = Control::new(Stop::AfterMs(1), &live);
        control.fail(LoadError::Protocol("first".into()));
        control.fail(LoadError::Cancelled);
        control.wait_gate();
        assert!(control.is_over());
        assert!(
            matches!(control.take_failure(), Some(LoadError::Protocol(text)) if text == "first")
        );
    }
}
