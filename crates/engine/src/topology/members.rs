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
        if !cluster.is_missing_home(id) {
            cluster.members = addresses;
            return;
        }
        // A cluster may have thousands of such homes, which all answer in one turn: addresses are found, and not compared with those of all nodes.
        let told = addresses.iter().filter_map(|address| self.nodes.find(pool, address));
        let told: BTreeSet<NodeId> = told.collect();
        // Every node names itself, so a reply without an address is an error.
        if !addresses.is_empty() && !cluster.is_any_named(&told) {
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
            self.sweep.forgets_nodes = true;
        }
    }
}
