//! What TLS holds counts with what the engines hold: who goes when it is too much.
//!
//! Each engine is told what the connections of its tenant hold, and says how much too much that is. Who has not even finished a handshake goes first,
//! those from addresses with most of them before others, and of them those that came last, so that a flood keeps nobody out but itself. Then it is the engine's turn, which closes who holds most, and
//! last that of clients of whom TLS alone holds something.
//!
//! Not here: what connections hold (`tls/weights`), what clients hold (`engine`).
//!
//! Invariant: after this no tenant holds more than its `limits.memory_max_bytes` by its clients; connections to servers are never given up for it.

use super::Worker;
use netio::{Driver, sys};

/// So often it is looked what the engines of a tenant's logins hold together, in milliseconds. Each of them bounds itself at once.
const LOGINS_EVERY_MS: u64 = 10;

/// After clients left that held much, or were closed for it, the allocator gives back what it has, at most so often, in milliseconds: what stands between buffers that stay
/// would else count as resident until somebody needs it.
const TRIM_EVERY_MS: u64 = 100;

impl<D: Driver> Worker<D> {
    /// Weighs what TLS holds, if anything has changed.
    #[inline]
    pub(super) fn weigh(&mut self) {
        if self.driver.take_weighed() {
            self.bound_memory();
        }
        if self.last_now >= self.logins_weighed_at {
            self.logins_weighed_at = self.last_now.plus_ms(LOGINS_EVERY_MS);
            self.engine.bound_logins();
        }
        self.has_freed |= self.engine.take_freed();
        if self.has_freed && self.last_now >= self.trimmed_at.plus_ms(TRIM_EVERY_MS) {
            (self.has_freed, self.trimmed_at) = (false, self.last_now);
            sys::trim_heap();
        }
    }

    #[cold]
    fn bound_memory(&mut self) {
        for place in 0..self.driver.weights().len() {
            let over = self.note_weight(place);
            if over == 0 {
                continue;
            }
            self.driver.shed_unfinished(place, over);
            if self.note_weight(place) > 0 {
                let over = self.engine.make_room_for_outside(place);
                self.driver.shed_open(place, over);
                self.note_weight(place);
            }
        }
    }

    /// Tells an engine; how much too much there is.
    fn note_weight(&mut self, place: usize) -> usize {
        let weight = self.driver.weights().get(place).copied().unwrap_or_default();
        self.engine.note_outside(place, weight)
    }
}
