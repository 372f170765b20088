//! A new mirror waits for leaving mirrors that share a server with it: their queues hold older writes.
//!
//! ```text
//!   goes:   older writes ─▶ server          for `timeouts.drain_ms` at most
//!   comes:                       ◀─ its queue, when the other one is gone
//! ```
//! Two queues to one server would be sent side by side, and an older value would replace a newer one. Leaving mirrors are those of this engine, and those of
//! leaving tenants of this worker. The caller names their servers ([`Engine::set_mirror_leavers`]).
//!
//! Not here: when a mirror leaves (`change`); two names of one server, as servers are compared by the addresses of the configuration.
//!
//! Invariant: a mirror to which respool has sent something waits for no other mirror.

use super::Mirrors;
use crate::engine::Engine;
use crate::node::Address;
use crate::settings::{Node, Pool, Settings};
use crate::time::Time;
use alloc::vec::Vec;

/// The addresses that settings name.
fn addresses(settings: &Settings) -> Vec<&Address> {
    let children = settings.shards.iter().flat_map(|shards| &shards.children);
    let pools = children.map(|child| (&child.node, &child.pool));
    let pools = pools.chain([(&settings.node, &settings.pool)]);
    pools.flat_map(|(node, pool)| addresses_of(node, pool)).collect()
}

fn addresses_of<'a>(node: &'a Node, pool: &'a Pool) -> Vec<&'a Address> {
    match pool {
        Pool::Standalone => Vec::from([&node.address]),
        Pool::Cluster { seeds } | Pool::Sentinel { seeds, .. } => seeds.iter().collect(),
    }
}

impl Mirrors {
    /// Whether the mirror at this index waits for an earlier, leaving mirror of this engine, or for a mirror of a leaving tenant.
    fn is_behind(&self, at: usize) -> bool {
        let Some(target) = self.targets.get(at) else { return false };
        let own = addresses(target.engine.settings());
        let earlier = self.targets.iter().filter(|one| !one.is_live() && one.since < target.since);
        let going = earlier.flat_map(|one| addresses(one.engine.settings()));
        let mut going = going.chain(&self.leavers);
        going.any(|address| own.contains(&address))
    }
}

impl Engine {
    /// Names the servers of mirrors of leaving tenants: new mirrors of this engine wait until a later call names them no more. The caller names them after each change of
    /// settings, before the next request.
    pub fn set_mirror_leavers(&mut self, now: Time, leavers: Vec<Address>) {
        let Some(mirrors) = &mut self.mirrors else { return };
        if mirrors.leavers != leavers {
            mirrors.leavers = leavers;
            self.run_mirrors(now);
        }
    }

    /// Returns the servers of the mirrors that have queued writes.
    pub fn busy_mirror_servers(&self) -> Vec<Address> {
        let targets = self.mirrors.iter().flat_map(|mirrors| &mirrors.targets);
        let busy = targets.filter(|target| !target.is_idle());
        busy.flat_map(|target| addresses(target.engine.settings())).cloned().collect()
    }

    /// Checks again whether the mirror at this index waits for a leaving one.
    pub(super) fn look_at_leavers(&mut self, at: usize) {
        let Some(mirrors) = &mut self.mirrors else { return };
        if !mirrors.targets.get(at).is_some_and(|target| target.is_fresh) {
            return;
        }
        let is_behind = mirrors.is_behind(at);
        if let Some(target) = mirrors.targets.get_mut(at) {
            target.is_behind = is_behind;
        }
    }

    /// Mirrors that waited for a mirror which is gone start to send.
    pub(super) fn run_successors(&mut self, now: Time) {
        let waits = |mirrors: &Mirrors| mirrors.targets.iter().any(|target| target.is_behind);
        if self.mirrors.as_deref().is_some_and(waits) {
            self.run_mirrors(now);
        }
    }
}
