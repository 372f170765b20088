//! `policies.fault`: some requests fail or take longer on purpose, to see what applications do then.
//!
//! Which ones is said by the engine's own generator, so that a simulation with the same seed hits the same ones. A request is drawn for once,
//! also if it has to wait for something else afterwards.

use super::{Common, Kind, Look, Policies, Refusal};
use crate::reject;

/// What happens, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How many of a million requests.
    pub per_million: u32,
    /// They go on after so many milliseconds; 0: at once.
    pub delay_ms: u64,
    /// They get an error instead of being given on.
    pub fails: bool,
}

/// What was drawn for one request.
pub(super) struct Drawn {
    pub(super) name: alloc::string::String,
    pub(super) delay_ms: u64,
    pub(super) refusal: Option<Refusal>,
}

impl Policies {
    /// Draws for a request: the first fault that hits it.
    pub(super) fn fault(&self, look: &Look<'_>, mut random: impl FnMut() -> u64) -> Option<Drawn> {
        let rule = look.first(&self.rules.fault, |rule| {
            let drawn = (u128::from(random()) * u128::from(MILLION)) >> 64;
            drawn < u128::from(rule.detail.per_million)
        })?;
        let common = Common { name: &rule.name, error: rule.error.as_deref() };
        let refusal = || common.refusal(Kind::Fault, || reject::FAULT.into());
        let Fault { delay_ms, fails, .. } = rule.detail;
        Some(Drawn { name: rule.name.clone(), delay_ms, refusal: fails.then(refusal) })
    }
}

/// The whole of [`Fault::per_million`].
pub const MILLION: u32 = 1_000_000;
