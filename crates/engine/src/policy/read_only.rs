//! `policies.read_only`: what writes is refused, in a replica's words unless others are set.
//!
//! A script writes unless it says otherwise (`flags=no-writes`, `EVAL_RO`, a function that is known to read only); what servers only pass on
//! (`PUBLISH`) is no write, as at a replica (`processCommand` in Redis' server.c).

use super::{Common, Kind, Look, Policies, Refusal};
use crate::command::{Flags, Learned};
use crate::reject;

impl Policies {
    /// Why a request that writes is refused.
    pub(super) fn read_only(&self) -> Option<Refusal> {
        let rules = &self.rules;
        let common = Common { name: "", error: rules.read_only_error.as_deref() };
        rules.read_only.then(|| common.refusal(Kind::ReadOnly, || reject::READ_ONLY.into()))
    }
}

impl Look<'_> {
    /// Whether it writes. `script_writes`: what is known of it if it is a script.
    pub(super) fn writes(&self, learned: Option<&Learned>, script_writes: bool) -> bool {
        match self.row {
            Some(row) if row.row().is_script() => script_writes,
            Some(row) => row.row().flags.has(Flags::WRITE),
            None => {
                let learned = learned.and_then(|learned| learned.lookup(self.args[0]));
                learned.is_none_or(|command| !command.flags.has(Flags::READONLY))
            }
        }
    }
}
