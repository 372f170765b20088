//! Memory that writes under way to mirrors take, their records included.
//!
//! Not here: the bounds and the sums, which are those of the mirrors together.
//!
//! Invariant: a record costs as much when it is forgotten as when it was kept.

use super::{KeyHash, Late, Pending, Queued, Words};
use crate::account::kept_bytes;
use crate::ids::MergeId;
use alloc::vec::Vec;

/// A key of a write under way: its hash with the write, and an entry of a tree each at its gate and among what reads are not compared with.
const KEY_BYTES: usize = size_of::<KeyHash>() + 48 + 24;

impl Pending {
    /// Bytes of one with so many of the request and so many keys, and of its place in the tree.
    pub(super) fn cost(frame_bytes: usize, keys: usize) -> usize {
        size_of::<((MergeId, u32), Self)>() + frame_bytes + keys * KEY_BYTES
    }
}

impl Queued {
    /// Bytes of one more command, and of the gates that it will stand at.
    pub(super) fn cost(frame: &[u8], keys: usize) -> usize {
        kept_bytes::<(usize, Vec<u8>)>(frame.len()) + keys * (KEY_BYTES - size_of::<KeyHash>())
    }
}

/// Bytes of what a blocking command took, with its keys.
pub(super) fn late_bytes(pending: &Pending, words: &[Words]) -> usize {
    let each = words.iter().flatten().map(|word| size_of::<Vec<u8>>() + word.len());
    size_of::<Late>() + pending.keys.len() * KEY_BYTES + each.sum::<usize>()
}
