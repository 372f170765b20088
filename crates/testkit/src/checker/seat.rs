//! What all kinds of clients of the checker have in common: a place in the run, a pace, greeted connections, and the
//! verdict that they fill.
//!
//! Not here: what they ask and what the answers must be (`client`, `transactions`, `queues`, `subscribers`).
//!
//! Invariant: between [`Seat::begin`] and [`Seat::end`] lies one batch, whatever happens to its connections.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::timeline::Batch;
use super::{Checker, Rule, Verdict, Violation};
use crate::conn::{Conn, is_gone};
use crate::frames::quote;

/// Pause after a failed connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// One client's place in a run.
pub(super) struct Seat<'a> {
    pub(super) checker: &'a Checker,
    /// `seed:client`, with which all names and values of this client begin.
    pub(super) owner: String,
    pub(super) verdict: Verdict,
    seed: u64,
    /// Whether it speaks RESP3.
    pub(super) resp3: bool,
    ends: Instant,
    batches: u32,
}

/// A batch that is under way.
pub(super) struct Begun {
    at: Instant,
    requests: usize,
    failed_before: u64,
}

impl<'a> Seat<'a> {
    /// The place of client `number`, when its turn to begin has come.
    pub(super) fn new(checker: &'a Checker, number: u32) -> Self {
        let ends = Instant::now() + checker.duration;
        thread::sleep(checker.pace * number / checker.clients.max(1));
        Self {
            checker,
            owner: checker.owner(number),
            verdict: Verdict::default(),
            seed: checker.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number)),
            resp3: checker.mixed_protocols && number % 2 == 1,
            ends,
            batches: 0,
        }
    }

    /// The chance of this client: the same in each run with this seed.
    pub(super) fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.seed)
    }

    /// Whether the run is not over for this client.
    pub(super) fn goes_on(&self) -> bool {
        Instant::now() < self.ends && !self.checker.stopped()
    }

    /// Ends the run of all if there was a violation, and waits until the next batch may begin.
    pub(super) fn pause(&self, begun: Instant) {
        if !self.verdict.violations.is_empty() {
            self.checker.stop.store(true, Ordering::Release);
        }
        thread::sleep(self.checker.pace.saturating_sub(begun.elapsed()));
    }

    /// A greeted connection, or `None` after a short pause.
    pub(super) fn connect(&mut self) -> Option<Conn> {
        let greeted = Conn::open(&self.checker.endpoint).and_then(|mut conn| {
            conn.set_timeout(self.checker.deadline);
            let greeting: &[u8] = if self.resp3 { b"%" } else { b"*" };
            let reply = conn.command(&["HELLO", if self.resp3 { "3" } else { "2" }])?;
            if reply.starts_with(greeting) {
                return Ok(conn);
            }
            Err(std::io::Error::other(quote(&reply, 80)))
        });
        if greeted.is_err() {
            self.verdict.connect_failures += 1;
            thread::sleep(CONNECT_PAUSE);
        }
        greeted.ok()
    }

    /// Whether the client leaves in the middle of the batch that comes now.
    pub(super) fn leaves(&mut self) -> bool {
        self.batches = self.batches.wrapping_add(1);
        let every = self.checker.leaves_every;
        let leaves = every > 0 && self.batches.is_multiple_of(every);
        self.verdict.left += u64::from(leaves);
        leaves
    }

    /// So many requests are about to be sent.
    pub(super) fn begin(&mut self, requests: usize) -> Begun {
        self.verdict.requests += requests as u64;
        let failed_before = self.verdict.errors + self.verdict.unknown;
        Begun { at: Instant::now(), requests, failed_before }
    }

    /// Another part of the batch begins, with its own time to end in.
    pub(super) fn begin_part(&mut self, begun: Begun, requests: usize) -> Begun {
        self.verdict.slowest = self.verdict.slowest.max(begun.at.elapsed());
        let next = self.begin(requests);
        let requests = begun.requests + next.requests;
        Begun { requests, failed_before: begun.failed_before, ..next }
    }

    /// What is left of the time in which a batch must end.
    pub(super) fn left(&self, begun: &Begun) -> Duration {
        self.checker.deadline.saturating_sub(begun.at.elapsed())
    }

    /// All requests of the batch are settled.
    pub(super) fn end(&mut self, begun: &Begun) {
        let took = begun.at.elapsed();
        self.verdict.slowest = self.verdict.slowest.max(took);
        if self.checker.timeline {
            let failed = self.verdict.errors + self.verdict.unknown - begun.failed_before;
            // A batch has at most some thousand requests, so both fit.
            let (requests, failed) = (begun.requests as u32, failed as u32);
            self.verdict.batches.push(Batch { begun: begun.at, took, requests, failed });
        }
    }

    /// A request got this error reply.
    pub(super) fn note_error(&mut self, reply: &[u8]) {
        self.verdict.errors += 1;
        self.verdict.note_error(quote(reply, 160), 1);
    }

    /// A connection ended in the middle of a batch, or did not in time.
    pub(super) fn note_end(&mut self, error: &std::io::Error, requests: usize) {
        if is_gone(error) {
            self.verdict.closed += 1;
        } else if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) {
            let words = format!(
                "a batch of {requests} requests had neither all replies nor an end after {:?}",
                self.checker.deadline
            );
            self.violate(Rule::Hang, words);
        } else {
            self.violate(Rule::ForeignReply, format!("bytes that are no reply: {error}"));
        }
    }

    /// There are bytes behind the last reply.
    pub(super) fn note_surplus(&mut self, conn: &Conn) {
        let words = format!("a reply to no request: {}", quote(conn.surplus(), 120));
        self.violate(Rule::ForeignReply, words);
    }

    /// A rule is broken.
    pub(super) fn violate(&mut self, rule: Rule, words: String) {
        let words = format!("client {}: {words}", self.owner);
        self.verdict.violations.push(Violation { rule, words });
    }
}
