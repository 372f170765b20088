//! `policies.block`: commands and keys that are refused for as long as an incident lasts.
//!
//! All keys of a request are looked at, so of one that will be split between servers no part goes, and channels count as keys.

use super::{Kind, Look, Policies, Refusal};
use crate::reject;

impl Policies {
    /// Why this request is refused just now.
    pub(super) fn blocked(&self, look: &Look<'_>) -> Option<Refusal> {
        let rule = look.first(&self.rules.block, |_| true)?;
        Some(rule.refusal(Kind::Block, || reject::BLOCKED.into()))
    }
}
