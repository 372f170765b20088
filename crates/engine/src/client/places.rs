//! The order in which one client gets its replies.
//!
//! A client's requests take numbered places in the order they came in; replies go out in that order, whichever upstream or
//! local command they come from and whenever they come.
//!
//! ```text
//!        head                     tail
//!          ▼                        ▼
//!   … 41 | 42   43   44   45   46 |          42, 43 wait for an upstream; 44–45 are ready (a PING answered here);
//!          wait wait rdy  rdy  wait          46 waits. When 42 and 43 come they go out, and 44–45 with them.
//! ```
//! In the steady state in front of one server, which answers in order, nothing is ever ready early: the two counters are all there is,
//! and nothing is stored. Of several servers each answers when it likes: what is early stands in one buffer of the pool, which goes
//! back when the last of it went out, so that nothing is allocated per request then either.
//!
//! Not here: who will answer a place (`upstream::inflight` on the other side).
//!
//! Invariant: `ready` has an entry for each place from `head` on, up to the last one that is ready; the first is not ready between two
//! calls, and those behind one that stands for several are empty. Their bytes lie in `store`, of which at most half, or some kilobytes, is done with.

use crate::pool::{BufferPool, append_piece, taken_bytes};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// So many bytes of the store may be done with, or as many as are not, before the rest is moved together.
const DEAD_BYTES_MAX: usize = 16 << 10;

/// So many entries are kept for the next early reply.
const KEPT_ENTRIES_MAX: usize = 256;

/// Replies that came before their turn: `count` of them, one after the other, from this place on; their bytes in the store. 0: not here yet, or
/// with those of a place before.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    count: u32,
    start: usize,
    len: usize,
}

/// See the module. Places are counted modulo 2^32; at most [`crate::settings::Limits::client_inflight_max`] are open.
#[derive(Debug, Default)]
pub struct Places {
    head: u32,
    tail: u32,
    ready: VecDeque<Ready>,
    /// How many of them are not empty.
    filled: usize,
    ready_bytes: usize,
    store: Vec<u8>,
}

impl Places {
    /// The place whose reply goes out next.
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The place that the next request takes.
    #[inline]
    pub fn next(&self) -> u32 {
        self.tail
    }

    /// Number of places that wait for their turn or for their reply.
    #[inline]
    pub fn open(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether no place was taken after this one.
    pub fn is_last(&self, seq: u32) -> bool {
        seq.wrapping_add(1) == self.tail
    }

    /// Bytes of replies that came before their turn.
    pub fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// What they take.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        taken_bytes(&self.store) + self.ready.len() * size_of::<Ready>()
    }

    /// What they take at the most.
    #[inline]
    pub(crate) fn room_bytes(&self) -> usize {
        self.store.capacity() + self.ready.len() * size_of::<Ready>()
    }

    /// Takes `count` places at the end and returns the first.
    #[inline]
    pub fn reserve(&mut self, count: u32) -> u32 {
        let seq = self.tail;
        self.tail = self.tail.wrapping_add(count);
        seq
    }

    /// The next `count` places were answered at the head.
    #[inline]
    pub fn pass(&mut self, count: u32) {
        debug_assert!(count <= self.open(), "more replies than places");
        self.head = self.head.wrapping_add(count);
        if !self.ready.is_empty() {
            self.skip(count as usize);
        }
    }

    /// The first `count` places are behind us.
    #[inline]
    fn skip(&mut self, count: usize) {
        match count {
            1 => drop(self.ready.pop_front()),
            _ => drop(self.ready.drain(..count.min(self.ready.len()))),
        }
    }

    /// A reply, or several, for the place so many behind the head.
    #[inline]
    fn fill(&mut self, distance: usize, ready: Ready) {
        if distance >= self.ready.len() {
            self.ready.resize(distance + 1, Ready::default());
        }
        self.ready[distance] = ready;
        self.filled += 1;
    }

    /// Keeps replies whose turn has not come.
    pub fn keep(&mut self, seq: u32, count: u32, bytes: &[u8], pool: &mut BufferPool) {
        let distance = seq.wrapping_sub(self.head);
        debug_assert!(distance > 0 && distance + count <= self.open(), "a reply for no open place");
        let start = self.put(bytes, pool);
        self.fill(distance as usize, Ready { count, start, len: bytes.len() });
    }

    /// Copies into the store; returns where it stands there.
    fn put(&mut self, bytes: &[u8], pool: &mut BufferPool) -> usize {
        if self.store.capacity() == 0 {
            self.store = pool.take();
        } else if self.store.len() - self.ready_bytes > DEAD_BYTES_MAX.max(self.ready_bytes) {
            self.move_together();
        }
        let start = self.store.len();
        append_piece(&mut self.store, bytes, 0);
        self.ready_bytes += bytes.len();
        start
    }

    #[cold]
    fn move_together(&mut self) {
        let mut store = Vec::with_capacity(2 * self.ready_bytes);
        for ready in self.ready.iter_mut().filter(|ready| ready.count > 0) {
            let start = store.len();
            store.extend_from_slice(&self.store[ready.start..ready.start + ready.len]);
            ready.start = start;
        }
        self.store = store;
    }

    /// Replies whose turn has come by now, to be sent after what was answered at the head; call until `None`.
    #[inline]
    pub fn next_ready(&mut self, pool: &mut BufferPool) -> Option<&[u8]> {
        if self.filled == 0 {
            if self.store.capacity() > 0 {
                self.forget_store(pool);
            }
            return None;
        }
        let Ready { count, start, len } = *self.ready.front().filter(|ready| ready.count > 0)?;
        self.filled -= 1;
        self.ready_bytes -= len;
        self.pass(count);
        self.store.get(start..start + len)
    }

    /// Nothing is early any more.
    fn forget_store(&mut self, pool: &mut BufferPool) {
        pool.give(core::mem::take(&mut self.store));
        self.ready.clear();
        if self.ready.capacity() > KEPT_ENTRIES_MAX {
            self.ready = VecDeque::new();
        }
    }

    /// Takes a place at the end for a reply that is there already, and keeps it: joined to the one before if that is ready
    /// as well, so that a thousand PINGs behind one GET cost one entry.
    pub fn append_ready(&mut self, reply: &[u8], pool: &mut BufferPool) {
        let distance = self.reserve(1).wrapping_sub(self.head) as usize;
        debug_assert!(distance > 0, "a reply at the head goes out at once");
        let start = self.put(reply, pool);
        let at = self.ready.len().wrapping_sub(1);
        match self.ready.back_mut() {
            Some(last)
                if at + last.count as usize == distance && last.start + last.len == start =>
            {
                last.count += 1;
                last.len += reply.len();
            }
            _ => self.fill(distance, Ready { count: 1, start, len: reply.len() }),
        }
    }

    /// Checks the invariant; for debug builds.
    pub fn check(&self) {
        let mut free = 1;
        for (distance, ready) in self.ready.iter().enumerate().filter(|(_, r)| r.count > 0) {
            assert!(distance >= free, "ready replies overlap, or the first is at the head");
            free = distance + ready.count as usize;
        }
        assert!(free <= self.open().max(1) as usize, "a ready reply behind the last place");
        assert!(self.ready.back().is_none_or(|last| last.count > 0), "an empty entry at the end");
        assert_eq!(self.filled, self.ready.iter().filter(|ready| ready.count > 0).count());
        assert_eq!(self.ready_bytes, self.ready.iter().map(|ready| ready.len).sum::<usize>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(places: &mut Places, pool: &mut BufferPool) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(bytes) = places.next_ready(pool) {
            out.extend_from_slice(bytes);
        }
        places.check();
        out
    }

    #[test]
    fn replies_before_their_turn_wait_for_it() {
        let mut pool = BufferPool::default();
        let mut places = Places { head: u32::MAX - 1, tail: u32::MAX - 1, ..Places::default() };
        let first = places.reserve(2);
        places.append_ready(b"c", &mut pool);
        places.append_ready(b"d", &mut pool);
        let last = places.reserve(1);
        places.keep(last, 1, b"e", &mut pool);
        assert!(drain(&mut places, &mut pool).is_empty());
        places.keep(first.wrapping_add(1), 1, b"b", &mut pool);
        assert!(drain(&mut places, &mut pool).is_empty());
        places.pass(1);
        assert_eq!(drain(&mut places, &mut pool), b"bcde");
        assert_eq!((places.open(), places.ready_bytes()), (0, 0));
        assert_eq!(places.store.capacity(), 0, "the buffer went back");
        assert!(pool.bytes() > 0);
    }

    #[test]
    fn what_is_done_with_does_not_pile_up() {
        let mut pool = BufferPool::default();
        let mut places = Places::default();
        let reply = |seq: u32| alloc::vec![seq as u8; 1_000 + seq as usize % 7];
        // Of two places the later is always answered first, so the store never becomes empty by itself.
        let mut seq = places.reserve(2);
        places.keep(seq + 1, 1, &reply(seq + 1), &mut pool);
        for _ in 0..10_000 {
            places.reserve(2);
            places.keep(seq + 3, 1, &reply(seq + 3), &mut pool);
            places.pass(1);
            assert_eq!(drain(&mut places, &mut pool), reply(seq + 1));
            seq += 2;
        }
        assert!(places.store.capacity() <= 4 * DEAD_BYTES_MAX, "{}", places.store.capacity());
    }
}
