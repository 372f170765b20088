//! The section `policies`: what policies did, a line for each rule that has a name, and one for all others of a policy; and what operators'
//! programs did, a line for each.
//!
//! Not here: what is counted (`policy::state`).
//!
//! Invariant: nobody has a line who has done nothing.

use super::{Source, line};
use crate::policy::own::FAILURES;
use crate::policy::{OUTCOMES, Outcomes, OwnReport};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Adds what another worker has counted.
pub(crate) fn add(sum: &mut Vec<Outcomes>, more: &[Outcomes]) {
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

/// The same of operators' programs.
pub(crate) fn add_own(sum: &mut Vec<OwnReport>, more: &[OwnReport]) {
    for report in more {
        match sum.iter_mut().find(|own| own.name == report.name) {
            Some(own) => own.add(report),
            None => sum.push(report.clone()),
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
    for report in &source.sum.own {
        let failures = FAILURES.iter().copied().zip(report.failures);
        let failures = failures.map(|(word, count)| format!("failed_{word}={count}"));
        let counts = report.outcomes().into_iter().map(|(word, count)| format!("{word}={count}"));
        let counts: Vec<String> = counts.chain(failures).collect();
        let counts = format!("{},fuel={}", counts.join(","), report.fuel);
        line(out, &format!("extension_{}", report.name), counts);
    }
}
