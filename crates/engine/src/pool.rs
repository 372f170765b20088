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

    /// Gives all of them back to the allocator.
    pub fn clear(&mut self) {
        *self = Self::default();
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

/// Appends a piece of something that is kept until it is whole, of which so many bytes were missing before.
///
/// A vector that grows by doubling leaves a hole behind with each step, and half of it may be room that nobody uses but that takes memory. So there is room at
/// once for what is known to come, and what is no more small, or will not be, gets so much that the allocator maps it by itself: that takes only what is written to, and grows
/// where it is.
#[inline]
pub fn append_piece(buf: &mut Vec<u8>, piece: &[u8], missing: u64) {
    if buf.len() >= PART_BYTES && buf.capacity() - buf.len() < piece.len() {
        let more = match (buf.len(), usize::try_from(missing).unwrap_or(usize::MAX)) {
            (MAPPED_BYTES.., _) => buf.len() / 4,
            (MIDDLE_BYTES.., _) | (_, PART_ROOM_BYTES..) => MAPPED_BYTES,
            (len, missing) => len.max(missing),
        };
        buf.reserve_exact(piece.len().max(more));
    }
    buf.extend_from_slice(piece);
}

/// What such a buffer takes.
#[inline]
pub fn taken_bytes(buf: &Vec<u8>) -> usize {
    if buf.capacity() > MAPPED_BYTES { buf.len() } else { buf.capacity() }
}

/// From here on the allocator takes a buffer from the system by itself (`netio::sys::return_large_buffers`).
const MAPPED_BYTES: usize = 1 << 20;

/// From here on a buffer gets so much.
const MIDDLE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

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
    fn what_comes_in_pieces_has_little_room_to_spare() {
        let (mut buf, mut grown) = (Vec::new(), 0);
        for _ in 0..1_000 {
            let before = buf.capacity();
            append_piece(&mut buf, &[b'x'; 4_096], 0);
            grown += usize::from(buf.capacity() != before);
            assert!(taken_bytes(&buf) <= 2 * buf.len().max(PART_BYTES));
        }
        assert!(grown < 30 && buf.capacity() < 6 << 20, "it grew {grown} times");
        let mut buf = vec![b'x'; PART_BYTES];
        append_piece(&mut buf, &[b'x'; 4_096], 200_000);
        assert_eq!(buf.capacity(), PART_BYTES + 200_000);
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
