//! What processes cost, read from /proc.
use crate::record::{Cores, Usage};

/// Reads the CPU of a group of processes (one role).
#[derive(Debug)]
pub struct Account {}
/// The counts of a group at one moment.
#[derive(Clone, Debug)]
pub struct Reading {}

impl Account {
    /// Of these processes.
    pub fn new(_pids: &[u32]) -> Self {
        todo!()
    }
    /// Counts now.
    ///
    /// # Errors
    /// When a process is gone: names it.
    pub fn read(&self) -> Result<Reading, String> {
        todo!()
    }
}

impl Reading {
    /// What was used since `earlier`.
    pub fn since(&self, _earlier: &Self) -> Usage {
        todo!()
    }
    /// As cores in use over `seconds`.
    pub fn cores_since(&self, _earlier: &Self, _seconds: f64) -> Cores {
        todo!()
    }
}
