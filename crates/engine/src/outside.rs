//! Bytes that somebody else holds for the connections of an engine: whoever carries its bytes over TLS.
//!
//! They are told here whenever they change, and count as if they were the engine's: in what is reported, and against `Limits::memory_max_bytes`.
//!
//! Not here: what the engine holds itself (`lifecycle`), which connections that somebody gives up for want of room.
//!
//! Invariant: that of `lifecycle`: `accounted_bytes` has these in it.

use crate::engine::Engine;

impl Engine {
    /// From now on so many bytes are held outside. How many there are too many, with what the engine holds.
    pub fn note_outside(&mut self, bytes: usize) -> usize {
        self.accounted_bytes = self.accounted_bytes - self.outside_bytes + bytes;
        self.outside_bytes = bytes;
        self.memory_over()
    }

    /// Closes the clients that hold most, as long as there is too much and somebody holds much. How many bytes are still too many.
    pub fn make_room_for_outside(&mut self) -> usize {
        self.bound_memory();
        self.memory_over()
    }

    fn memory_over(&self) -> usize {
        self.accounted_bytes.saturating_sub(self.settings.limits.memory_max_bytes)
    }
}
