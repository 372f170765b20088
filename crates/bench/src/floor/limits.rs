//! Every bound of the floor, with what happens there.
//!
//! What it is not: the bounds of requests, which are those of [`resp::limits`], as a server has them.
//!
//! Invariant: what one client makes the floor keep is at most one of each of these, one reply, and what the driver
//! hands over in one wait.

/// Replies that may wait for one client to read, in bytes. With more the floor answers, and reads, no further request of
/// that client until they went out.
pub(super) const OUT_BYTES_MAX: usize = 256 << 10;

/// Bytes of an unfinished request that are kept to answer it: the command's name and its first arguments lie there. What
/// is behind is counted and dropped, so that a large value is not copied.
pub(super) const KEPT_BYTES_MAX: usize = 1 << 10;

/// Memory of an out buffer that is kept for the next replies, in bytes; a larger one is given back.
pub(super) const OUT_BYTES_KEPT_MAX: usize = 1 << 20;

/// Longest reply, in bytes: that of a server's longest value. A request for more values at once is answered by an error.
pub(super) const REPLY_BYTES_MAX: usize = 512 << 20;
