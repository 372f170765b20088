//! What waits to be sent on one connection: full chunks, one that is being filled, and one that may be in flight.
//!
//! ```text
//!   engine ── buf() ──▶ [filling] ── full ──▶ [chunk][chunk]… ── begin_send ──▶ driver ──▶ kernel
//!                                                 finish_send: the buffer comes back to the pool
//! ```
//! While one buffer is in flight another is filled, so that a send never waits for a copy. Chunks bound the size of one send,
//! so that the progress of a slow peer is seen, and spare the doubling of a large vector. With small traffic there are
//! no chunks, and the queue of them allocates nothing.
//!
//! Not here: when to send (the end of a turn) and what happens at a bound (`client`, `upstream`).
//!
//! Invariant: at most one buffer is in flight, bytes leave in the order of filling, and `pending()` counts every byte that
//! the driver has not reported as sent.

use crate::limits::POOLED_BUFFER_BYTES;
use crate::pool::BufferPool;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A buffer with more than this is queued as a chunk and another one is filled.
const CHUNK_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Output {
    chunks: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    /// Bytes in `chunks` and in flight.
    queued_bytes: usize,
    flight_bytes: usize,
    /// Whether the connection stands on its list of those to be flushed; kept here so that it is on it once.
    pub dirty: bool,
}

impl Output {
    /// The buffer to append to.
    #[inline]
    pub fn buf(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.filling.capacity() == 0 {
            self.filling = pool.take();
        } else if self.filling.len() >= CHUNK_BYTES {
            self.queued_bytes += self.filling.len();
            self.chunks.push_back(core::mem::replace(&mut self.filling, pool.take()));
        }
        &mut self.filling
    }

    /// Bytes that the driver has not reported as sent.
    #[inline]
    pub fn pending(&self) -> usize {
        self.filling.len() + self.queued_bytes
    }

    /// Takes the next buffer, to be handed to the driver; `None` if there is nothing or a send is still in flight.
    #[inline]
    pub fn begin_send(&mut self) -> Option<Vec<u8>> {
        if self.flight_bytes > 0 {
            return None;
        }
        let buf = match self.chunks.pop_front() {
            Some(chunk) => chunk,
            None if self.filling.is_empty() => return None,
            None => {
                self.queued_bytes += self.filling.len();
                core::mem::take(&mut self.filling)
            }
        };
        self.flight_bytes = buf.len();
        Some(buf)
    }

    /// The driver gives the buffer back: all of it went out.
    #[inline]
    pub fn finish_send(&mut self, buf: Vec<u8>, pool: &mut BufferPool) {
        self.end_flight(&buf);
        pool.give(buf);
    }

    /// As [`Self::finish_send`], but the buffer stays here for the next fill. For upstreams: they are few and always busy, and
    /// their batches are large. Handed round through the pool, their large buffers would end up with the many clients.
    #[inline]
    pub fn finish_send_and_keep(&mut self, mut buf: Vec<u8>, pool: &mut BufferPool) {
        self.end_flight(&buf);
        if self.filling.capacity() == 0 && buf.capacity() <= POOLED_BUFFER_BYTES {
            buf.clear();
            self.filling = buf;
        } else {
            pool.give(buf);
        }
    }

    #[inline]
    fn end_flight(&mut self, buf: &[u8]) {
        debug_assert_eq!(self.flight_bytes, buf.len(), "a buffer came back that was not in flight");
        self.queued_bytes -= self.flight_bytes;
        self.flight_bytes = 0;
    }

    /// Drops everything, for a connection that is gone.
    pub fn clear(&mut self, pool: &mut BufferPool) {
        pool.give(core::mem::take(&mut self.filling));
        self.chunks.clear();
        self.queued_bytes = 0;
        self.flight_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn filling_goes_on_while_a_send_is_in_flight() {
        let mut pool = BufferPool::default();
        let mut out = Output::default();
        out.buf(&mut pool).extend_from_slice(b"first");
        let first = out.begin_send().unwrap();
        out.buf(&mut pool).extend_from_slice(b"second");
        assert!(out.begin_send().is_none());
        assert_eq!(out.pending(), 11);
        out.finish_send(first, &mut pool);
        assert_eq!(out.begin_send().unwrap(), b"second");
    }

    #[test]
    fn a_kept_buffer_is_filled_again_and_a_huge_one_is_let_go() {
        let mut pool = BufferPool::default();
        let mut out = Output::default();
        for bytes in [10_000, POOLED_BUFFER_BYTES + 1] {
            out.buf(&mut pool).resize(bytes, b'x');
            let sent = out.begin_send().unwrap();
            out.finish_send_and_keep(sent, &mut pool);
            assert_eq!((out.pending(), pool.bytes()), (0, 0));
            assert_eq!(out.filling.capacity() >= 10_000, bytes == 10_000);
            assert!(out.begin_send().is_none(), "what was sent is not sent again");
        }
    }

    #[test]
    fn much_is_sent_in_chunks_and_in_order() {
        let mut pool = BufferPool::default();
        let mut out = Output::default();
        for n in 0..40u8 {
            out.buf(&mut pool).extend_from_slice(&vec![n; 50_000]);
        }
        assert_eq!(out.pending(), 2_000_000);
        let mut sent = Vec::new();
        while let Some(buf) = out.begin_send() {
            assert!(buf.len() < CHUNK_BYTES + 50_001);
            sent.extend_from_slice(&buf);
            out.finish_send(buf, &mut pool);
        }
        assert_eq!(out.pending(), 0);
        assert!(sent.chunks(50_000).enumerate().all(|(n, part)| part == vec![n as u8; 50_000]));
    }
}
