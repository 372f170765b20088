//! Spare buffers of a worker.
//!
//! A connection owns a buffer only while it has bytes to send; after the send the buffer returns here and serves the next
//! connection. So ten thousand idle clients own none, and the steady state allocates nothing. Upstreams, which are few, keep theirs
//! (`Output::finish_send_and_keep`): their batches are large, and every buffer here would in time grow to that size.
//!
//! Not here: receive buffers (the driver's) and the unfinished tails of connections.
//!
//! Invariant: every buffer in the pool is empty, has capacity, and at most [`POOLED_BUFFER_BYTES`] of it; together they
//! have at most [`POOL_BYTES`].

use crate::limits::{PART_BYTES, PART_ROOM_BYTES, POOL_BYTES, POOLED_BUFFER_BYTES};
use alloc::vec::Vec;

/// See the module.
#[derive(Debug, Default)]
pub struct BufferPool {
    free: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// An empty buffer, used before if there is one.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        match self.free.pop() {
            Some(buf) => {
                self.bytes -= buf.capacity();
                buf
            }
            None => Vec::with_capacity(4096),
        }
    }

    /// Takes a buffer back and forgets its content.
    #[inline]
    pub fn give(&mut self, mut buf: Vec<u8>) {
        let capacity = buf.capacity();
        if capacity == 0 || capacity > POOLED_BUFFER_BYTES || self.bytes + capacity > POOL_BYTES {
            return;
        }
        buf.clear();
        self.bytes += capacity;
        self.free.push(buf);
    }

    /// Capacity of all spare buffers together, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Makes room for a piece of something of which so much is missing.
#[inline]
pub fn make_room(buf: &mut Vec<u8>, piece: usize, missing: u64) {
    if piece >= PART_BYTES && buf.capacity() - buf.len() < piece {
        let rest = missing.min(PART_ROOM_BYTES as u64) as usize;
        buf.reserve_exact(piece + rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_the_rest_of_something_large_is_made_once_and_within_a_bound() {
        let mut buf = Vec::with_capacity(4096);
        make_room(&mut buf, PART_BYTES - 1, 1 << 20);
        assert_eq!(buf.capacity(), 4096, "what is small grows as it comes");
        make_room(&mut buf, PART_BYTES, 100_000);
        let room = buf.capacity();
        assert_eq!(room, PART_BYTES + 100_000);
        buf.resize(PART_BYTES, b'x');
        make_room(&mut buf, 100_000, 0);
        assert_eq!(buf.capacity(), room, "the rest fits");
        let mut announced = Vec::new();
        make_room(&mut announced, PART_BYTES, u64::MAX);
        assert_eq!(announced.capacity(), PART_BYTES + PART_ROOM_BYTES);
    }

    #[test]
    fn large_buffers_and_those_beyond_the_bound_are_let_go() {
        let mut pool = BufferPool::default();
        pool.give(Vec::with_capacity(POOLED_BUFFER_BYTES + 1));
        assert_eq!(pool.bytes(), 0);
        for _ in 0..2 * POOL_BYTES / POOLED_BUFFER_BYTES {
            pool.give(Vec::with_capacity(POOLED_BUFFER_BYTES));
        }
        assert!(pool.bytes() <= POOL_BYTES);
        let before = pool.bytes();
        assert!(pool.take().is_empty());
        assert!(pool.bytes() < before);
    }
}
