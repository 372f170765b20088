//! A send that the kernel has, or that goes on where the last one ended.
//!
//! ```text
//!   new ─launch─▶ in the kernel ─completion─▶ landed ── all sent ──▶ buffer is free again
//!                       ▲                        │
//!                       └──── launch again ──────┘ the kernel took a part
//! ```
//!
//! Not here: the operation itself (`ring`), and what became of the connection.
//!
//! Invariant: the bytes are neither moved, changed nor freed from the launch until the completion: the buffer can be had only by
//! [`Flight::land`], which a flight in the kernel refuses.

use std::os::fd::OwnedFd;

use crate::driver::ConnId;

/// Bytes on their way out. See the module.
#[derive(Debug)]
pub(super) struct Flight {
    buf: Vec<u8>,
    sent: usize,
    in_kernel: bool,
    /// The bytes are a copy of what the caller has got back: nobody is told when they are out.
    pub(super) copied: bool,
    /// Whose they are. It may be gone.
    pub(super) conn: ConnId,
    /// The connection was closed, and these bytes count as sent.
    pub(super) linger: Option<Linger>,
}

/// What is left of a closed connection that still has bytes to send.
#[derive(Debug)]
pub(super) struct Linger {
    /// The socket, closed when the bytes are out.
    pub(super) fd: OwnedFd,
    /// Bytes that follow those in flight.
    pub(super) rest: Vec<u8>,
    /// When it is given up, by the driver's clock.
    pub(super) until_us: u64,
}

impl Flight {
    /// Bytes of a connection of which the first `sent` are out.
    pub(super) const fn new(conn: ConnId, buf: Vec<u8>, sent: usize, copied: bool) -> Self {
        Self { buf, sent, in_kernel: false, copied, conn, linger: None }
    }

    /// The bytes that are still to be sent.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buf[self.sent..]
    }

    /// Memory that its caller does not know of.
    pub(super) const fn copy_bytes(&self) -> usize {
        if self.copied { self.buf.capacity() } else { 0 }
    }

    /// The kernel has them from here on.
    pub(super) const fn launched(&mut self) {
        self.in_kernel = true;
    }

    /// The completion came, with so many bytes sent.
    pub(super) fn completed(&mut self, bytes: usize) {
        self.in_kernel = false;
        self.sent += bytes;
        assert!(self.sent <= self.buf.len(), "more was sent than there was");
    }

    /// Whether the kernel may read the bytes.
    pub(super) const fn is_in_kernel(&self) -> bool {
        self.in_kernel
    }

    /// The buffer, for other use.
    pub(super) fn land(self) -> Vec<u8> {
        // In release, too: what the kernel reads must not be written over or freed.
        assert!(!self.in_kernel, "a buffer was taken from the kernel before its completion");
        self.buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ConnId = ConnId { index: 0, generation: 0 };

    #[test]
    fn a_short_send_goes_on_where_it_ended() {
        let mut flight = Flight::new(ID, b"0123456789".to_vec(), 2, false);
        flight.launched();
        flight.completed(3);
        assert_eq!(flight.rest(), b"56789");
        flight.launched();
        flight.completed(5);
        assert_eq!(flight.rest(), b"");
        assert_eq!(flight.land(), b"0123456789");
    }

    #[test]
    #[should_panic(expected = "before its completion")]
    fn a_buffer_in_the_kernel_cannot_be_had() {
        let mut flight = Flight::new(ID, b"kernel's".to_vec(), 0, true);
        flight.launched();
        drop(flight.land());
    }
}
