//! What observers did not get, counted over the life of the process where it is lost: by the log, the threads of the outlet, workers.
//!
//! The log tells of losses, too, but begins anew with each line; these only grow.
//!
//! What it deliberately is not: on the path of a request. A counter is touched when something is lost.
//!
//! Invariant: what is lost is counted once, before anybody is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::losses::{LOSSES, Loss};

/// The counters; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Losses(Arc<[AtomicU64; LOSSES]>);

impl Losses {
    /// So much more was lost there.
    pub(crate) fn add(&self, loss: Loss, count: u64) {
        // Nothing else is told by these numbers, so they need no order among each other.
        self.0[loss as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// How much was lost there.
    #[cfg(test)]
    pub(crate) fn get(&self, loss: Loss) -> u64 {
        self.counts()[loss as usize]
    }

    /// All of them at this moment, by [`Loss`].
    pub(crate) fn counts(&self) -> [u64; LOSSES] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))
    }
}
