//! When things happened: one record for each batch, for tests that compare the time before a fault
//! with the time of it and the time after it.
//!
//! Nothing is judged here. What a throughput has to be, and when errors must have ended, only the
//! test knows, because it knows what it did to the servers and when.
//!
//! Invariant: a batch is recorded once, when its last request is settled.

use std::time::{Duration, Instant};

/// One write of some requests, and what became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// When it was sent.
    pub begun: Instant,
    /// How long its last reply took, or the end of its connection.
    pub took: Duration,
    /// Its requests.
    pub requests: u32,
    /// Those that got an error or no reply.
    pub failed: u32,
}

impl Batch {
    /// When its last request was settled.
    pub fn ended(&self) -> Instant {
        self.begun + self.took
    }
}
