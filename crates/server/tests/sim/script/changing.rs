//! What a script knows of servers that others take the place of.
//!
//! What was tied to the former ones ends with an error: a transaction, and the cursor of an iteration. Everything else goes on as if nothing had
//! happened; whoever did a write must be named between the request and its reply, or ever after if there was none.
//!
//! Not here: who is named when (`plan::changing`).
//!
//! Invariant: an error is forgiven only to a request that was under way, or may have been, when servers were replaced.

use testkit::frames::quote;

use super::{Expected, Key, Reply, Script};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::site::Site;

/// What somebody is told who is tied to a server that is named no more.
const LEFT: &str = "is no server of the configuration any more";

/// What a script must know of a plan in which servers are replaced.
#[derive(Debug, Default)]
pub(super) struct Changing {
    /// Which deployment is named after so many replacements.
    in_force: Vec<usize>,
    /// Not all of them have more databases than one.
    pub(super) one_database: bool,
}

/// Whether this is what somebody is told who is tied to a server that is named no more.
pub(crate) fn tells_of_left(reply: &[u8]) -> bool {
    reply.starts_with(b"-ERR respool: upstream ")
        && reply.windows(LEFT.len()).any(|part| part == LEFT.as_bytes())
}

impl Changing {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { in_force: plan.in_force(), one_database: plan.one_database }
    }
}

impl Script {
    /// Whether servers may have been replaced since this was said.
    pub(super) fn has_changed_since(&self, said: usize) -> bool {
        said < self.epochs.begun
    }

    /// Whether this is what a transaction is told whose server is named no more.
    pub(super) fn may_be_left(&self, expected: &Expected, reply: &[u8]) -> bool {
        let words = tells_of_left(reply) || reply.starts_with(b"-EXECABORT ");
        words && self.has_changed_since(expected.said)
    }

    /// Whether this is an answer to the cursor of an iteration that began at other servers.
    pub(super) fn is_lost_page(&self, expected: &Expected, reply: &[u8]) -> bool {
        matches!(expected.reply, Reply::Page)
            && reply.starts_with(b"-")
            && self
                .iteration
                .as_ref()
                .is_none_or(|iteration| self.has_changed_since(iteration.begun))
            && self.has_changed_since(0)
    }

    /// Whether each write was done by those who were named then.
    pub(super) fn judge_doers(
        &self,
        site: &Site,
        (db, key): &Key,
        ledger: &Ledger,
    ) -> Result<(), String> {
        let Some(doers) = site.doers(*db, key) else { return Ok(()) };
        let effects = site.effects(*db, key, false)?;
        for ((at, effect), doer) in effects.iter().enumerate().zip(doers) {
            let Some((from, to)) = ledger.span(at, effect) else { continue };
            let to = to.map_or(self.changing.in_force.len(), |to| to + 1);
            let named = &self.changing.in_force[from..to];
            if !named.contains(doer) {
                return Err(format!(
                    "db {db} key {}: {effect:?} was done by deployment {doer}, named were {named:?}",
                    quote(key, 40)
                ));
            }
        }
        Ok(())
    }
}
