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
//! In the steady state (one upstream, which answers in order) nothing is ever ready early: the two counters are all there is,
//! and nothing is stored or allocated per request.
//!
//! Not here: who will answer a place (`upstream::inflight` on the other side).
//!
//! Invariant: `ready` is sorted by place, its entries do not overlap, and none begins at `head` between two calls.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Replies that came before their turn: `count` of them, one after the other, from place `seq` on.
#[derive(Debug)]
struct Ready {
    seq: u32,
    count: u32,
    bytes: Vec<u8>,
}

/// See the module. Places are counted modulo 2^32; at most [`crate::settings::Limits::client_inflight_max`] are open.
#[derive(Debug, Default)]
pub struct Places {
    head: u32,
    tail: u32,
    ready: VecDeque<Ready>,
    ready_bytes: usize,
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
    }

    /// Keeps replies whose turn has not come.
    pub fn keep(&mut self, seq: u32, count: u32, bytes: Vec<u8>) {
        let distance = seq.wrapping_sub(self.head);
        debug_assert!(distance > 0 && distance + count <= self.open(), "a reply for no open place");
        self.ready_bytes += bytes.len();
        let at = self.ready.partition_point(|r| r.seq.wrapping_sub(self.head) < distance);
        self.ready.insert(at, Ready { seq, count, bytes });
    }

    /// Replies whose turn has come by now, to be sent after what was answered at the head; call until `None`.
    #[inline]
    pub fn next_ready(&mut self) -> Option<Vec<u8>> {
        if self.ready.front()?.seq != self.head {
            return None;
        }
        let ready = self.ready.pop_front()?;
        self.ready_bytes -= ready.bytes.len();
        self.pass(ready.count);
        Some(ready.bytes)
    }

    /// Takes a place at the end for a reply that is there already, and keeps it: joined to the one before if that is ready
    /// as well, so that a thousand PINGs behind one GET cost one entry.
    pub fn append_ready(&mut self, reply: &[u8]) {
        let seq = self.reserve(1);
        debug_assert!(self.open() > 1, "a reply at the head goes out at once");
        self.ready_bytes += reply.len();
        match self.ready.back_mut() {
            Some(last) if last.seq.wrapping_add(last.count) == seq => {
                last.count += 1;
                last.bytes.extend_from_slice(reply);
            }
            _ => self.ready.push_back(Ready { seq, count: 1, bytes: reply.to_vec() }),
        }
    }

    /// Checks the invariant; for debug builds.
    pub fn check(&self) {
        let mut next = self.head;
        for (index, ready) in self.ready.iter().enumerate() {
            let distance = ready.seq.wrapping_sub(next);
            assert!(
                distance < 1 << 31 && (index > 0 || distance > 0),
                "ready replies out of order"
            );
            next = ready.seq.wrapping_add(ready.count);
        }
        assert!(next.wrapping_sub(self.head) <= self.open(), "a ready reply behind the last place");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(places: &mut Places) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(bytes) = places.next_ready() {
            out.extend(bytes);
        }
        places.check();
        out
    }

    #[test]
    fn replies_before_their_turn_wait_for_it() {
        let mut places = Places { head: u32::MAX - 1, tail: u32::MAX - 1, ..Places::default() };
        let first = places.reserve(2);
        places.append_ready(b"c");
        places.append_ready(b"d");
        let last = places.reserve(1);
        places.keep(last, 1, b"e".to_vec());
        assert!(drain(&mut places).is_empty());
        places.keep(first.wrapping_add(1), 1, b"b".to_vec());
        assert!(drain(&mut places).is_empty());
        places.pass(1);
        assert_eq!(drain(&mut places), b"bcde");
        assert_eq!((places.open(), places.ready_bytes()), (0, 0));
    }
}
