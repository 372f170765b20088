//! `policies.size`: requests that are too large, in bytes or in arguments.
//!
//! Of a request that would be streamed the size is told by its first arguments, so it is refused before anything of it goes out, and its bytes
//! are dropped as they come. How large replies are is only noted (`bigkeys`).

use super::{Kind, Look, Policies, Refusal};
use crate::reject;

/// How much a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the whole request as it came; `u64::MAX`: any.
    pub bytes_max: u64,
    /// Its arguments, the command's name too; `u64::MAX`: any number.
    pub args_max: u64,
}

impl Size {
    pub(super) fn is_exceeded(&self, bytes: u64, args: u64) -> bool {
        bytes > self.bytes_max || args > self.args_max
    }
}

impl Policies {
    /// Why a request of this size is refused.
    pub(super) fn oversized(&self, look: &Look<'_>) -> Option<Refusal> {
        let too_large = |size: &Size| size.is_exceeded(look.bytes, look.args_count);
        let rule = look.first(&self.rules.size, |rule| too_large(&rule.detail))?;
        Some(rule.refusal(Kind::Size, || reject::OVERSIZED.into()))
    }
}
