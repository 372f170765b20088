//! `policies.deny`: commands that nobody may send here.
//!
//! Not here: who may do what (`acl`, which comes before).

use super::{Kind, Look, Policies, Refusal};
use crate::reject;

impl Policies {
    /// Why the operator does not want this command.
    pub(super) fn denied(&self, look: &Look<'_>) -> Option<Refusal> {
        let rule = look.first(&self.rules.deny, |_| true)?;
        let name = look.row.map_or(look.args[0], |row| row.name().as_bytes());
        Some(rule.refusal(Kind::Deny, || reject::denied(name)))
    }
}
