//! `policies.rate` with `connections=`: so many clients may come in a second.
//!
//! Who comes too early gets an error and is closed before it has said anything. It is not kept waiting: a connection that waits takes a descriptor and a
//! place among the clients, which is what a rush of them must not have, and a client learns from an error that it should come later.
//!
//! Not here: how many there may be at a time (`lifecycle`), who asks (the worker, before it opens a client), requests (`judge`).
//!
//! Invariant: who is refused by one rule has cost nothing of any.

use super::state::Outcome;
use super::{Kind, Per, rate, shared_ns};
use crate::engine::Engine;
use crate::reject;
use crate::time::Time;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Engine {
    /// Whether a client with this address, as Redis prints it, comes too early: the error that it gets, as it is sent. Else it is counted as one that comes.
    #[must_use]
    pub fn unless_too_many_come(&mut self, now: Time, addr: &str) -> Option<Vec<u8>> {
        let policies = self.settings.policies.as_ref()?;
        if policies.newcomers.is_empty() || !self.has_room() {
            return None;
        }
        let policies = Arc::clone(policies);
        let now_ns = shared_ns(&self.settings, now);
        let rules = || policies.rules.connections.iter().zip(&policies.newcomers);
        let tag = |per: Per| if per == Per::Address { rate::hash_of_address(addr) } else { 1 };
        for (rule, buckets) in rules() {
            let (rate, cost) = (&rule.detail, rule.detail.cost(0));
            if buckets.wait(rate, tag(rate.per), now_ns, cost) > 0 {
                if let Some(state) = &mut self.policy {
                    state.count(Kind::Rate, &rule.name, Outcome::Refused);
                }
                let refusal = rule.refusal(Kind::Rate, || reject::TOO_MANY_CONNECTIONS.into());
                return Some(refusal.reply);
            }
        }
        rules().for_each(|(rule, buckets)| {
            buckets.charge(tag(rule.detail.per), now_ns, rule.detail.cost(0));
        });
        None
    }
}
