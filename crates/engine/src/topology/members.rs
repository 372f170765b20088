//! Reads answers to `CLUSTER NODES`: the members of a cluster, and whether a node that the table does not name is a member.
//!
//! Not here: when nodes are asked (`refresh`), how an answer is read (`slots`).
//!
//! Invariant: the answer of a node that the table does not name changes only the state of that node.

use super::{Topology, slots};
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::node::Address;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use resp::value::Value;

impl Engine {
    /// Takes an answer to CLUSTER NODES.
    pub(crate) fn note_members(&mut self, id: NodeId, value: &Value<'_>) {
        let members = slots::members(value, &self.host_of(id));
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.gives = members.gives;
        let (pool, map) = (node.pool, &self.settings.address_map);
        let at = |told: Address| map.at(&told).unwrap_or(told);
        let addresses: BTreeSet<Address> = members.addresses.into_iter().map(at).collect();
        let Some(state) = self.router.pool_mut(pool).filter(|state| state.knows(id)) else {
            return;
        };
        let Topology::Cluster(cluster) = &mut state.topology else { return };
        if !cluster.missing_homes().any(|home| home == id) {
            cluster.members = addresses;
            return;
        }
        let missing: BTreeSet<NodeId> = cluster.missing_homes().collect();
        let named = cluster.homes().filter(|home| !missing.contains(home));
        let others: Vec<NodeId> = named.collect();
        let names = |node: &NodeId| {
            self.nodes.get(*node).is_some_and(|node| addresses.contains(&node.address))
        };
        // Every node names itself, so a reply without an address is an error.
        if !addresses.is_empty() && !others.iter().any(names) {
            self.drop_missing_home(pool, id);
        }
    }

    /// Removes a home that left the cluster: its answer names no node of the table. Channels move to
    /// other homes.
    fn drop_missing_home(&mut self, pool: u16, node: NodeId) {
        let Some(state) = self.router.pool_mut(pool) else { return };
        let Topology::Cluster(cluster) = &mut state.topology else { return };
        if cluster.drop_missing_home(node) {
            self.route_epoch = self.route_epoch.wrapping_add(1);
            self.forget_nodes();
        }
    }
}
