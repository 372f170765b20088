//! Requests that somebody wants to be told of: lines of the access log, and what goes further.
//!
//! Not here: which requests those are (`engine::observed`), how lines are written without waiting (`log`).
//!
//! Invariant: at the end of a turn none is left.

use super::Worker;
use crate::log::ACCESS;
use engine::observed::Observed;
use netio::Driver;

impl<D: Driver> Worker<D> {
    /// Tells of the requests of this turn.
    pub(super) fn tell_observed(&mut self) {
        while let Some(observed) = self.engine.poll_observed() {
            if observed.wanted.access {
                write(self.index, &observed);
            }
            if observed.wanted.trace || observed.wanted.slow {
                self.outlet.observed(self.index, observed);
            }
        }
    }
}

/// As texts in quotes: what clients name is no part of the line's form.
fn write(worker: usize, observed: &Observed) {
    let Observed { client, addr, command, key, node, error, .. } = observed;
    let name = observed.name.escape_ascii().to_string();
    let (queued_us, upstream_us) = (observed.queued_us, observed.upstream_us);
    tracing::info!(
        target: ACCESS,
        worker,
        tenant = observed.tenant.as_deref(),
        client,
        addr = addr.as_str(),
        name = name.as_str(),
        command = command.as_str(),
        key = key.as_str(),
        node = node.as_str(),
        queued_us,
        upstream_us,
        total_us = queued_us.saturating_add(upstream_us),
        bytes = observed.reply_bytes,
        error = error.as_str(),
        left_out = observed.left_out,
        "request"
    );
}
