//! The section `policies`: what policies did, a line for each rule that has a name, and one for all others of a policy.
//!
//! Not here: what is counted (`policy::state`).
//!
//! Invariant: nobody has a line who has done nothing.

use super::{Source, line};
use crate::policy::{OUTCOMES, Outcomes};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Adds what another worker has counted.
pub(super) fn add(sum: &mut Vec<Outcomes>, more: &[Outcomes]) {
    for outcomes in more {
        let is_same =
            |own: &&mut Outcomes| (own.kind, &own.name) == (outcomes.kind, &outcomes.name);
        match sum.iter_mut().find(is_same) {
            Some(own) => {
                own.counts.iter_mut().zip(outcomes.counts).for_each(|(own, more)| *own += more);
            }
            None => sum.push(outcomes.clone()),
        }
    }
}

pub(super) fn policies(out: &mut String, source: &Source<'_>) {
    for Outcomes { kind, name, counts } in &source.sum.policies {
        let dash = if name.is_empty() { "" } else { "-" };
        let counts: Vec<String> =
            OUTCOMES.iter().zip(counts).map(|(word, count)| format!("{word}={count}")).collect();
        line(out, &format!("policy_{}{dash}{name}", kind.name()), counts.join(","));
    }
}
