//! For debug builds: whether each part of a request that is not answered is on its way.
//!
//! Invariant: the open parts of a merge are those that wait on connections, or to be sent to one.

use crate::engine::Engine;
use crate::ids::MergeId;
use crate::upstream::inflight::Owner;
use alloc::collections::BTreeMap;

impl Engine {
    /// Counts the parts that wait somewhere.
    ///
    /// # Panics
    /// When a merge waits for more parts than those, or for fewer.
    pub(crate) fn check_merges(&self) {
        let mut parts: BTreeMap<MergeId, u32> = BTreeMap::new();
        let mut see = |owner: Owner, count: u32| {
            if let Owner::Part { merge, .. } = owner {
                *parts.entry(merge).or_default() += count;
            }
        };
        for (_, upstream) in self.upstreams.iter() {
            upstream.inflight.waiting().for_each(|run| see(run.owner, run.count));
            let carried = upstream.carried.iter().flat_map(|carried| &carried.runs);
            carried.for_each(|run| see(run.owner, run.count));
        }
        for parked in self.parked.all() {
            see(parked.owner, 1);
            parked.rest.iter().for_each(|run| see(run.owner, run.count));
        }
        for (id, merge) in self.merges.iter() {
            let waiting = parts.remove(&id).unwrap_or_default();
            assert_eq!(merge.open, waiting, "parts of {:?} without a reply", merge.client);
        }
        // Parts that are left belong to reads that another server answered first (see `elsewhere`).
    }
}
