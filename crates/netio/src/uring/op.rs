//! What an operation in the kernel is about, in the 64 bits that come back with its completion.
//!
//! ```text
//!   63  60 59            32 31             0
//!   │ kind │ index         │ generation    │     index and generation of a connection or of a flight
//! ```
//!
//! Not here: what to do about a completion.
//!
//! Invariant: at most one operation of a kind is in the kernel for one id, so kind and id name it; a completion that comes after its connection is
//! gone carries a generation that nobody has any more.

use crate::driver::ConnId;

/// An operation. The place of a listener stands where others have their id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Receiving of a connection.
    Recv(ConnId),
    /// Waiting for the outcome of a connect, or for an error while nothing is received.
    Watch(ConnId),
    /// Sending of a flight.
    Send(ConnId),
    /// Waiting for clients at a listener; the generation grows when the listeners are closed.
    Listen(ConnId),
    /// Waiting for a waker.
    Wake,
    /// Stopping another one. It is heard of only when there was nothing to stop.
    Cancel,
    /// Nothing, to try the ring.
    Nop,
}

impl Op {
    /// The operation as user data.
    pub(super) fn data(self) -> u64 {
        let (kind, id) = match self {
            Self::Nop => (0, NOBODY),
            Self::Recv(id) => (1, id),
            Self::Watch(id) => (2, id),
            Self::Send(id) => (3, id),
            Self::Listen(id) => (4, id),
            Self::Wake => (5, NOBODY),
            Self::Cancel => (6, NOBODY),
        };
        debug_assert!(id.index >> INDEX_BITS == 0, "more connections than descriptors can exist");
        kind << (32 + INDEX_BITS) | u64::from(id.index) << 32 | u64::from(id.generation)
    }

    /// The operation of which this is the user data.
    pub(super) fn of(data: u64) -> Self {
        let index = (data >> 32) as u32 & ((1 << INDEX_BITS) - 1);
        let id = ConnId { index, generation: data as u32 };
        match data >> (32 + INDEX_BITS) {
            1 => Self::Recv(id),
            2 => Self::Watch(id),
            3 => Self::Send(id),
            4 => Self::Listen(id),
            5 => Self::Wake,
            6 => Self::Cancel,
            _ => Self::Nop,
        }
    }
}

/// Bits of an index: a quarter of a thousand million, far above any limit of descriptors (2^20 by default).
const INDEX_BITS: u32 = 28;

const NOBODY: ConnId = ConnId { index: 0, generation: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_comes_back_as_it_went() {
        for id in [NOBODY, ConnId { index: (1 << INDEX_BITS) - 1, generation: u32::MAX }] {
            let ops = [Op::Recv(id), Op::Watch(id), Op::Send(id), Op::Listen(id)];
            for op in ops.into_iter().chain([Op::Wake, Op::Cancel, Op::Nop]) {
                assert_eq!(Op::of(op.data()), op);
            }
        }
    }
}
