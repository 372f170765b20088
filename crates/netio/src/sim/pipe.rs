//! One direction of a simulated connection: bytes between the writer's send and the reader's recv.
//!
//! ```text
//!   write ──► [ on the way ............ | arrived ] ──► read
//!              back of `bytes`            front of `bytes`
//! ```
//!
//! Not here: when something arrives (that is scheduled by [`super::net`]) and who reads.
//!
//! Invariant: `arrived <= bytes.len()`, and the end of the stream arrives after the last byte.

use std::collections::VecDeque;

/// Bytes that travel to one end, with the end of the stream behind them.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    bytes: VecDeque<u8>,
    /// How many of `bytes`, from the front, the reader can have now.
    arrived: usize,
    /// The end of the stream has arrived.
    pub(super) ended: bool,
    /// When the last thing that was put on the way arrives: nothing overtakes it.
    pub(super) last_arrival_us: u64,
}

impl Pipe {
    /// Bytes written and not read.
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that the reader can have now.
    pub(super) const fn readable(&self) -> usize {
        self.arrived
    }

    /// Puts bytes on the way.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Lets up to `count` more bytes arrive; fewer if a reset took some of them off the way.
    pub(super) fn arrive(&mut self, count: usize) {
        self.arrived = (self.arrived + count).min(self.bytes.len());
    }

    /// Takes up to `count` arrived bytes.
    pub(super) fn read(&mut self, count: usize) -> Vec<u8> {
        let count = count.min(self.arrived);
        self.arrived -= count;
        self.bytes.drain(..count).collect()
    }

    /// Loses what is still on the way.
    pub(super) fn cut_off(&mut self) {
        self.bytes.truncate(self.arrived);
    }

    /// Loses everything.
    pub(super) fn clear(&mut self) {
        self.bytes = VecDeque::new();
        self.arrived = 0;
    }
}
