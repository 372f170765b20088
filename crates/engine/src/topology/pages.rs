//! How an iteration over all nodes (SCAN) sees the tables of all pools.
//!
//! Not here: cursors (`merge::scan`), and the question for the table before each page (`scatter`).
//!
//! Invariant: what is kept is what would be found now, since each change of a table begins an epoch (`route_epoch`).

use super::Topology;
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::merge::scan;
use alloc::vec::Vec;

/// See [`Engine::pages`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// The nodes in the order of an iteration.
    pub(crate) nodes: Vec<NodeId>,
    /// The mark of the table ([`Engine::topology_mark`]).
    pub(crate) mark: u16,
}

impl Engine {
    /// How an iteration over all nodes sees the table: made once for each epoch of it, since thousands of pages may come between two changes.
    pub(crate) fn pages(&mut self) -> &Pages {
        let epoch = self.route_epoch;
        let known = self.router.pages.take().filter(|(of, _)| *of == epoch);
        let pages = known.map_or_else(|| self.pages_now(), |(_, pages)| pages);
        debug_assert_eq!(pages, self.pages_now(), "a table that changed within an epoch");
        &self.router.pages.insert((epoch, pages)).1
    }

    fn pages_now(&self) -> Pages {
        Pages { nodes: self.router.primaries(), mark: self.topology_mark() }
    }

    /// A mark of what owns what, for cursors, 1 to [`scan::MARK_MAX`]: it differs with the primaries and where their ranges begin.
    fn topology_mark(&self) -> u16 {
        // FNV-1a.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        for pool in &self.router.pools {
            let runs = match &pool.topology {
                Topology::Cluster(cluster) => cluster.runs(),
                _ => pool.primaries().into_iter().map(|node| (0, Some(node))).collect(),
            };
            for (slot, node) in runs {
                slot.to_le_bytes().into_iter().for_each(&mut add);
                node.map_or("", |node| self.label(node)).bytes().for_each(&mut add);
            }
        }
        (hash % u64::from(scan::MARK_MAX)) as u16 + 1
    }
}
