//! Writes that `WAIT` and `WAITAOF` cannot confirm: those from before the loss of a primary.
//!
//! A server answers by how far its replicas have copied its log. A replica that took over, and a server that was started again, have another log, which says
//! nothing of the writes that the former primary acknowledged. A client with a direct connection loses it together with the primary and never asks. A client of
//! respool may have been idle then, and its connection stays. So its next `WAIT` fails as a request that was under way does (`server_loss`).
//!
//! ```text
//!   RPUSH q x   :1        the primary is killed, a replica without x takes over        WAIT 1 0   ─ end of the connection, or an error
//! ```
//! Not here: a `WAIT` whose own connection is lost (`connect`), watched keys (`lease`).
//!
//! Invariant: a client that was connected when a primary was lost gets that failure before a server answers another `WAIT` of it, once.

use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::reject;
use crate::server_loss::Failure;
use crate::time::Time;
use crate::upstream::{Lane, Role};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Engine {
    /// This connection is lost. A leased one concerns its own client alone: the server may have closed it for what that client did.
    pub(crate) fn note_lost_writes(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let carried = matches!(upstream.role, Role::Shared | Role::Spare(_))
            && matches!(upstream.key.lane, Lane::Shared | Lane::Tracked | Lane::Control);
        if carried && self.router.primaries().contains(&upstream.key.node) {
            self.writes_lost_at = Some(now);
        }
    }

    /// A table is known anew; these were the primaries before.
    pub(crate) fn note_lost_primaries(&mut self, now: Time, before: Vec<NodeId>) {
        let primaries: BTreeSet<NodeId> = self.router.primaries().into_iter().collect();
        if before.iter().any(|node| !primaries.contains(node)) {
            self.writes_lost_at = Some(now);
        }
    }

    /// Why no server can confirm the earlier writes of this client, if that is so and the client was not told yet.
    pub(crate) fn unconfirmed(&mut self, now: Time, id: ClientId) -> Option<Failure> {
        let client = self.clients.get_mut(id)?;
        let since = client.identity.told_of_loss_at.unwrap_or(client.opened_at);
        self.writes_lost_at.filter(|lost_at| *lost_at >= since)?;
        client.identity.told_of_loss_at = Some(now + 1);
        Some(Failure::loss(reject::unconfirmed()))
    }
}
