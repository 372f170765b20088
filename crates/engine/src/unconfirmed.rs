//! Writes that `WAIT` and `WAITAOF` cannot confirm: those from before the loss of a primary.
//!
//! A server answers `WAIT` by how far its replicas have copied its log. A promoted replica and a restarted server have another log, which says nothing about
//! writes that the former primary acknowledged. A direct connection ends together with the primary, so its client never asks. The connection of an idle client
//! to respool stays open. So the next `WAIT` of this client, or the next transaction with a `WAIT`, fails like a request that was under way (`server_loss`).
//!
//! ```text
//!   RPUSH q x   :1        the primary is killed, a replica without x takes over        WAIT 1 0   ─ end of the connection, or an error
//! ```
//! Not here: loss of the connection of a `WAIT` under way (`connect`), watched keys (`lease`).
//!
//! Invariant: a client that was connected when a primary was lost gets that failure before a server answers another `WAIT` of it, in or outside a
//! transaction, once.

use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::reject;
use crate::server_loss::Failure;
use crate::time::Time;
use crate::upstream::{Lane, Role};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Engine {
    /// Records the loss of a connection to a primary. A dedicated connection does not count: the server may have closed it because of its own client.
    pub(crate) fn note_lost_writes(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let carried = matches!(upstream.role, Role::Shared | Role::Spare(_))
            && matches!(upstream.key.lane, Lane::Shared | Lane::Tracked | Lane::Control);
        if carried && self.router.primaries().contains(&upstream.key.node) {
            self.router.primary_lost_at = Some(now);
        }
    }

    /// Compares the primaries with those before the last change of the topology.
    pub(crate) fn note_lost_primaries(&mut self, now: Time, before: Vec<NodeId>) {
        let primaries: BTreeSet<NodeId> = self.router.primaries().into_iter().collect();
        if before.iter().any(|node| !primaries.contains(node)) {
            self.router.primary_lost_at = Some(now);
        }
    }

    /// The error for the next `WAIT` of a client that was connected when a primary was lost, once for each loss.
    pub(crate) fn unconfirmed(&mut self, now: Time, id: ClientId) -> Option<Failure> {
        let client = self.clients.get_mut(id)?;
        let since = client.identity.told_of_loss_at.unwrap_or(client.opened_at);
        self.router.primary_lost_at.filter(|lost_at| *lost_at >= since)?;
        client.identity.told_of_loss_at = Some(now + 1);
        Some(Failure::loss(reject::unconfirmed()))
    }
}
