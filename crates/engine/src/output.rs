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
//! A connection of a cluster *keeps* what it sent until it is answered (`keeps`), since a server may answer that it must be sent to
//! another one. Buffers that went out then wait in the log instead of being used again at once; nothing is copied for it.
//!
//! ```text
//!   position:   trimmed ──▶ [log][log] ── finished ──▶ in flight ──▶ [chunk]… [filling] ◀── position()
//! ```
//! Not here: when to send (the end of a turn) and what happens at a bound (`client`, `upstream`).
//!
//! Invariant: at most one buffer is in flight, bytes leave in the order of filling, and `pending()` counts every byte that
//! the driver has not reported as sent.

use crate::limits::POOLED_BUFFER_BYTES;
use crate::pool::{BufferPool, make_room, taken_bytes};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A buffer with more than this is queued as a chunk and another one is filled.
const CHUNK_BYTES: usize = 256 << 10;

/// A buffer with more than this has hardly any room left, and another one is filled: small pieces do not make it double once more, which of thousands of slow peers would be most of the memory.
const FULL_BYTES: usize = POOLED_BUFFER_BYTES - ROOM_BYTES;

/// See [`FULL_BYTES`].
const ROOM_BYTES: usize = 4 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Output {
    chunks: VecDeque<Vec<u8>>,
    filling: Vec<u8>,
    /// Bytes in `chunks` and in flight.
    queued_bytes: usize,
    flight_bytes: usize,
    /// Room beside these in the buffer that is in flight, if it was being filled.
    flight_spare: usize,
    /// Bytes ever reported as sent: the position of the first that is not.
    finished: u64,
    /// What was sent and is kept, oldest first; the last one ends at `finished`.
    log: VecDeque<Vec<u8>>,
    log_bytes: usize,
    /// Sent bytes are kept until [`Output::trim`].
    pub keeps: bool,
    /// Whether the connection stands on its list of those to be flushed; kept here so that it is on it once.
    pub dirty: bool,
}

impl Output {
    /// The buffer to append to. It is another one when this one is full: a place in it means nothing to the next call.
    #[inline]
    pub fn buf(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.filling.capacity() == 0 {
            self.filling = pool.take();
        } else if self.filling.len() >= FULL_BYTES && self.is_chunk() {
            self.queued_bytes += self.filling.len();
            let mut chunk = core::mem::replace(&mut self.filling, pool.take());
            // It doubled when it was full, and a slow peer may have many.
            chunk.shrink_to_fit();
            self.chunks.push_back(chunk);
        }
        &mut self.filling
    }

    fn is_chunk(&self) -> bool {
        let len = self.filling.len();
        len >= CHUNK_BYTES || self.filling.capacity() - len <= ROOM_BYTES
    }

    /// Appends a large buffer without a copy.
    pub(crate) fn push(&mut self, buf: Vec<u8>) {
        if !self.filling.is_empty() {
            self.queued_bytes += self.filling.len();
            self.chunks.push_back(core::mem::take(&mut self.filling));
        }
        self.queued_bytes += buf.len();
        self.chunks.push_back(buf);
    }

    /// Appends a piece of a large request, of which so many bytes are missing: they will follow. Replies are appended as they are: what comes of one
    /// in a turn mostly fits a pooled buffer, which is warm.
    pub fn append_part(&mut self, piece: &[u8], missing: u64, pool: &mut BufferPool) {
        let buf = self.buf(pool);
        make_room(buf, piece.len(), missing);
        buf.extend_from_slice(piece);
    }

    /// Bytes that the driver has not reported as sent.
    #[inline]
    pub fn pending(&self) -> usize {
        self.filling.len() + self.queued_bytes
    }

    /// Room beside these in buffers: it takes memory, too.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.flight_spare + taken_bytes(&self.filling) - self.filling.len()
    }

    /// Whether the driver has a buffer.
    pub fn in_flight(&self) -> bool {
        self.flight_bytes > 0
    }

    /// Takes the next buffer, to be handed to the driver; `None` if there is nothing or a send is still in flight.
    #[inline]
    pub fn begin_send(&mut self) -> Option<Vec<u8>> {
        if self.in_flight() {
            return None;
        }
        let buf = match self.chunks.pop_front() {
            Some(chunk) => chunk,
            None if self.filling.is_empty() => return None,
            None => {
                self.queued_bytes += self.filling.len();
                self.flight_spare = taken_bytes(&self.filling) - self.filling.len();
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
    pub fn finish_send_and_keep(&mut self, buf: Vec<u8>, pool: &mut BufferPool) {
        self.end_flight(&buf);
        if self.keeps {
            self.log_bytes += buf.len();
            self.log.push_back(buf);
            return;
        }
        self.use_again(buf, pool);
    }

    #[inline]
    fn use_again(&mut self, mut buf: Vec<u8>, pool: &mut BufferPool) {
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
        self.finished += self.flight_bytes as u64;
        (self.flight_bytes, self.flight_spare) = (0, 0);
    }

    /// Where the next byte that is appended will stand, counted from the connection's first.
    #[inline]
    pub fn position(&self) -> u64 {
        self.finished + self.pending() as u64
    }

    /// Where the first byte stands that the driver was not given yet: from here on nothing can have reached the server.
    pub fn untouched_from(&self) -> u64 {
        self.finished + self.flight_bytes as u64
    }

    /// Sent bytes that are kept.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        self.log_bytes
    }

    /// What was sent before `position` is needed no more.
    #[inline]
    pub fn trim(&mut self, position: u64, pool: &mut BufferPool) {
        while let Some(first) = self.log.front()
            && self.finished - self.log_bytes as u64 + first.len() as u64 <= position
        {
            self.log_bytes -= first.len();
            if let Some(first) = self.log.pop_front() {
                self.use_again(first, pool);
            }
        }
    }

    /// The bytes from `position` to the end of the buffer that holds it: what was appended at once lies in one. `None` if the driver has
    /// them just now.
    pub fn bytes_at(&self, position: u64) -> Option<&[u8]> {
        let mut start = self.finished - self.log_bytes as u64;
        for buf in &self.log {
            let end = start + buf.len() as u64;
            if (start..end).contains(&position) {
                return buf.get((position - start) as usize..);
            }
            start = end;
        }
        start += self.flight_bytes as u64;
        for buf in self.chunks.iter().chain([&self.filling]) {
            let end = start + buf.len() as u64;
            if (start..end).contains(&position) {
                return buf.get((position - start) as usize..);
            }
            start = end;
        }
        None
    }

    /// The same of what the driver was not given yet; `None` if it was.
    #[inline]
    pub fn untouched_at(&self, position: u64) -> Option<&[u8]> {
        let mut start = self.untouched_from();
        for buf in self.chunks.iter().chain([&self.filling]) {
            let skip = position.checked_sub(start)?;
            if let Some(bytes) = buf.get(skip as usize..).filter(|bytes| !bytes.is_empty()) {
                return Some(bytes);
            }
            start += buf.len() as u64;
        }
        None
    }

    /// All that is there from `position` on, which the driver was not given yet.
    pub fn untouched_bytes(&self, position: u64) -> Vec<u8> {
        let mut start = self.untouched_from();
        let mut bytes = Vec::new();
        for buf in self.chunks.iter().chain([&self.filling]) {
            let skip = position.saturating_sub(start).min(buf.len() as u64);
            bytes.extend_from_slice(&buf[skip as usize..]);
            start += buf.len() as u64;
        }
        bytes
    }

    /// Drops everything, for a connection that is gone.
    pub fn clear(&mut self, pool: &mut BufferPool) {
        self.finished = self.position();
        pool.give(core::mem::take(&mut self.filling));
        self.chunks.clear();
        self.log.clear();
        self.log_bytes = 0;
        self.queued_bytes = 0;
        (self.flight_bytes, self.flight_spare) = (0, 0);
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
    fn what_is_kept_is_found_by_its_position_until_it_is_trimmed() {
        let mut pool = BufferPool::default();
        let mut out = Output { keeps: true, ..Output::default() };
        let mut flight = None;
        for text in [b"first", b"secnd", b"third"] {
            if let Some(sent) = flight.take() {
                out.finish_send_and_keep(sent, &mut pool);
            }
            out.buf(&mut pool).extend_from_slice(text);
            flight = out.begin_send();
        }
        out.buf(&mut pool).extend_from_slice(b"fourth");
        assert_eq!((out.position(), out.untouched_from(), out.kept_bytes()), (21, 15, 10));
        assert_eq!(out.bytes_at(0), Some(&b"first"[..]));
        assert_eq!(out.bytes_at(7), Some(&b"cnd"[..]));
        assert_eq!(out.bytes_at(12), None, "the driver has it");
        assert_eq!(out.bytes_at(15), Some(&b"fourth"[..]));
        let untouched = [7, 12, 15, 20, 21].map(|position| out.untouched_at(position));
        assert_eq!(untouched, [None, None, Some(&b"fourth"[..]), Some(b"h"), None]);
        assert_eq!(
            (out.untouched_bytes(15), out.untouched_bytes(18)),
            (b"fourth".to_vec(), b"rth".to_vec())
        );
        out.trim(9, &mut pool);
        assert_eq!((out.bytes_at(0), out.bytes_at(9)), (None, Some(&b"d"[..])));
        out.trim(10, &mut pool);
        assert_eq!(out.kept_bytes(), 0);
        out.clear(&mut pool);
        assert_eq!(out.position(), 21);
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
