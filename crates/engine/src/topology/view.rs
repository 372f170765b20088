//! What this worker knows of the servers, for a person: pools, nodes, who owns what, who answers, and whether all of it is served.
//!
//! Made when somebody asks, never kept. Counters of nodes are not here (`stats`).
//!
//! Invariant: no text made here has a user or a password.

use super::{PoolState, Topology};
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::peers;
use crate::time::Time;
use crate::upstream::Role;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::Protocol;

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Name of the shard; empty where keys are not sharded.
    pub shard: String,
    /// `standalone`, `cluster` or `sentinel`.
    pub kind: &'static str,
    /// Why not every key of it can be served just now; `None`: it can.
    pub not_ready: Option<String>,
    /// Its nodes, each primary before its copies, then those that are only asked for the topology.
    pub nodes: Vec<NodeView>,
    /// Whose pool it is; `None`: there are no tenants.
    pub tenant: Option<Arc<str>>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// As error texts name it.
    pub address: String,
    /// `primary`, `replica`, `sentinel`, or `seed`: nobody told what it is, and it is asked for the topology.
    pub role: &'static str,
    /// Whose copy it is, by address; empty for all others.
    pub copy_of: String,
    /// Its slots as ranges, first and last; empty where there are none.
    pub slots: Vec<(u16, u16)>,
    /// `ready`, `connecting`, `down`, or `idle`: no connection is wanted.
    pub state: &'static str,
    /// Why it is down, or was last; empty: it never was.
    pub cause: String,
    /// Its zone, as configured or told; empty if none is known.
    pub zone: String,
    /// How many bytes of writes it is behind its primary, where that is watched.
    pub behind_bytes: u64,
    /// It takes no reads for now: it loads, lost its primary, or is too far behind.
    pub unfit: bool,
}

impl Engine {
    /// All pools as they are known now.
    #[must_use]
    pub fn view(&self) -> Vec<PoolView> {
        let shards = self.settings.shards.as_ref().map(|shards| &shards.children);
        let pools = self.router.pools.iter().enumerate();
        pools
            .map(|(index, state)| {
                let shard = shards.and_then(|children| children.get(index));
                let nodes = self.nodes_of(state);
                PoolView {
                    shard: shard.map(|child| child.shard.name.clone()).unwrap_or_default(),
                    kind: match state.topology {
                        Topology::One(_) => "standalone",
                        Topology::Cluster(_) => "cluster",
                        Topology::Sentinel(_) => "sentinel",
                    },
                    not_ready: not_ready(state, &nodes),
                    nodes,
                    tenant: self.settings.tenancy.as_ref().map(|tenancy| tenancy.name.clone()),
                }
            })
            .collect()
    }

    /// Connects to primaries that nobody has asked for anything yet.
    pub(crate) fn connect_idle(&mut self, now: Time) {
        for node in self.router.primaries() {
            let key = self.shared_key(node, Protocol::Resp2, self.settings.node.db);
            if self.shared_of(node).next().is_none()
                && let Some(upstream) = self.new_upstream(key, Role::Shared)
            {
                self.connect(now, upstream);
            }
        }
    }

    fn nodes_of(&self, state: &PoolState) -> Vec<NodeView> {
        let groups = match &state.topology {
            Topology::One(node) => alloc::vec![(*node, Vec::new())],
            _ => state.copies(),
        };
        let slots = match &state.topology {
            Topology::Cluster(cluster) => cluster.runs(),
            Topology::One(_) | Topology::Sentinel(_) => Vec::new(),
        };
        let mut nodes = Vec::new();
        let mut seen: Vec<NodeId> = Vec::new();
        for (primary, copies) in groups {
            nodes.extend(self.node_view(primary, None, &slots));
            let offset = self.nodes.get(primary).map_or(0, |node| node.health.offset);
            let of = Some((primary, offset));
            nodes.extend(copies.iter().filter_map(|copy| self.node_view(*copy, of, &[])));
            seen.push(primary);
            seen.extend(copies);
        }
        let others = state.topology.candidates();
        let others = others.iter().filter(|node| !seen.contains(node));
        nodes.extend(others.filter_map(|node| self.node_view(*node, None, &[])));
        nodes
    }

    fn node_view(
        &self,
        id: NodeId,
        copy_of: Option<(NodeId, u64)>,
        runs: &[(u16, Option<NodeId>)],
    ) -> Option<NodeView> {
        let node = self.nodes.get(id)?;
        debug_assert!(node.pool != peers::POOL, "a peer in a pool");
        let (state, cause) = self.node_standing(id);
        let watched = copy_of.filter(|_| node.health.offset > 0);
        Some(NodeView {
            address: node.label.clone(),
            role: self.node_role(id, node),
            copy_of: copy_of
                .map(|(primary, _)| self.label(primary).to_string())
                .unwrap_or_default(),
            slots: ranges_of(id, runs),
            state,
            cause,
            zone: self.settings.reads.zone_of(node).to_string(),
            behind_bytes: watched.map_or(0, |(_, ahead)| ahead.saturating_sub(node.health.offset)),
            unfit: node.health.unfit,
        })
    }
}

/// The slots of a node, from the table as runs: where each begins, and whose it is.
fn ranges_of(id: NodeId, runs: &[(u16, Option<NodeId>)]) -> Vec<(u16, u16)> {
    let ends =
        runs.iter().skip(1).map(|(first, _)| first - 1).chain([crate::route::slot::SLOTS - 1]);
    let own = runs.iter().zip(ends).filter(|((_, owner), _)| *owner == Some(id));
    own.map(|((first, _), last)| (*first, last)).collect()
}

fn not_ready(state: &PoolState, nodes: &[NodeView]) -> Option<String> {
    if !state.is_covered() {
        let cause = &state.refresh.cause;
        let what = match &state.topology {
            Topology::Sentinel(_) => "no primary is known",
            _ => "not every slot has an owner",
        };
        return Some(match cause.is_empty() {
            true => what.to_string(),
            false => alloc::format!("{what}: {cause}"),
        });
    }
    let down = nodes.iter().find(|node| node.role == "primary" && node.state == "down")?;
    Some(alloc::format!("{} is down: {}", down.address, down.cause))
}
