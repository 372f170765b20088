//! Rows 18–24 and 28 of the fault matrix, scaled to seconds: bytes that come in pieces, connections
//! that are cut, clients that vanish, do not read, send a byte now and then, come in thousands, and
//! the proxy's own end.
//!
//! The rows on dead and failing-over nodes come with cluster and sentinel. Row 23, malformed input,
//! is compared byte for byte in `differential`; here is its bound on memory.
//!
//! Invariant: the checker's rules I1–I4 hold in every one of these tests; what else must hold is
//! stated in each.

mod clients;
mod drain;
mod network;
