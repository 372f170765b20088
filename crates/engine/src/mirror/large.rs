//! Large requests that mirrors may want: kept until they are whole, or counted as missing.
//!
//! Not here: what becomes of them when they are whole (`super`), and which requests are large (`transfer`).
//!
//! Invariant: a large request that a mirror wants reaches it, or is counted.

use super::target::Target;
use crate::command::CommandId;
use crate::engine::Engine;
use crate::limits::WHOLE_REQUEST_BYTES_MAX;
use crate::time::Time;
use crate::transfer::tells_all;

impl Engine {
    /// Whether a large request with these first arguments is to be kept whole, for mirrors.
    pub(crate) fn keeps_whole(&self, row: Option<CommandId>, head: &[&[u8]], bytes: u64) -> bool {
        let max = self.mirrors.as_ref().map_or(0, |mirrors| mirrors.pending_bytes_max as u64);
        bytes <= max.min(WHOLE_REQUEST_BYTES_MAX) && self.may_be_mirrored(row, head)
    }

    /// Whether a large request of which only the first arguments are here may be for a mirror: a key that one wants may stand behind them.
    fn may_be_mirrored(&self, row: Option<CommandId>, head: &[&[u8]]) -> bool {
        let may_write = |row: CommandId| {
            let row = row.row();
            row.writes() || row.is_script() || row.is_container()
        };
        let is_live = || {
            let mirrors = self.mirrors.as_ref();
            mirrors.is_some_and(|mirrors| mirrors.targets.iter().any(Target::is_live))
        };
        self.is_mirrored(row, head)
            || (!tells_all(row, head) && row.is_none_or(may_write) && is_live())
    }

    /// A large request is streamed: if mirrors wanted it they do not get it.
    pub(crate) fn note_unkept(&mut self, now: Time, row: Option<CommandId>, head: &[&[u8]]) {
        if self.may_be_mirrored(row, head) {
            self.tell_mirrors(now, |mirrors| {
                mirrors.drop_one(None, "it was too large to be kept", None);
            });
        }
    }
}
