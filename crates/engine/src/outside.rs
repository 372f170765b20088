//! Bytes that somebody else holds for the connections of an engine: whoever carries its bytes over TLS.
//!
//! They are told here whenever they change, and count as if they were the engine's: in what is reported, and against `Limits::memory_max_bytes`.
//!
//! Not here: what the engine holds itself (`lifecycle`), which connections that somebody gives up for want of room.
//!
//! Invariant: that of `account`, which has these in it.

use crate::engine::Engine;

impl Engine {
    /// From now on so many bytes are held outside. How many there are too many, with what the engine holds.
    pub fn note_outside(&mut self, bytes: usize) -> usize {
        self.outside_bytes = bytes;
        self.memory_over()
    }

    /// What counts against `Limits::memory_max_bytes`.
    pub fn held_bytes(&self) -> usize {
        let held = self.holdings();
        held.own + held.common
    }

    /// Whether much became free since this was asked last, as clients left or were closed for memory: the allocator has it to give back.
    pub fn take_freed(&mut self) -> bool {
        self.account.take_freed()
    }

    /// Somebody else needs so many bytes: closes the clients that hold most until these are free, or none holds much. How many are.
    pub fn make_room(&mut self, bytes: usize) -> usize {
        let before = self.held_bytes();
        self.free_memory(bytes);
        before.saturating_sub(self.held_bytes())
    }

    /// Closes the clients that hold most, as long as there is too much and somebody holds much. How many bytes are still too many.
    pub fn make_room_for_outside(&mut self) -> usize {
        self.bound_memory();
        self.memory_over()
    }
}
