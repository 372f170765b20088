//! Which copy of a place answers a read.
//!
//! ```text
//!   policy            order in which nodes are taken (a node that is not fit is passed over)
//!   primary           the primary
//!   prefer-replica    replicas in turn, then the primary
//!   replica           replicas in turn
//!   any               primary and replicas in turn
//!   nearest           the one that answered our last questions fastest
//!   zone              as prefer-replica, nodes of our own zone first
//! ```
//! Among those that take turns a node of weight 3 stands three times; one of weight 0 only where there is no other.
//!
//! A node is fit while its connection is not known to be down and its last answer to `ROLE` was good: connected to its primary, not behind by
//! more than the bound. Replicas are asked once a second, and only while a policy needs them. respool asks a replica for `ROLE` after a failed
//! connection and before further reads: the replica may have restarted without its data.
//!
//! Reads of one client go to one copy as long as one batch lasts, so that batches stay whole. Two batches may see two copies, one of them older:
//! that is what the operator accepts with any policy but `primary`. Writes, and reads of a client in a transaction, always go to the
//! primary.
//!
//! Not here: saying READONLY (`connect`).
//!
//! Invariant: `readers` of a place is empty or names nodes that were fit when it was made.

use super::Topology;
use crate::engine::Engine;
use crate::ids::{NodeId, UpstreamId};
use crate::limits::{HEALTH_CONNECTS_MAX, ROLE_EVERY_MS};
use crate::settings::ReadPolicy;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, Role, State, UpstreamKey};
use alloc::vec::Vec;
use resp::value::Value;

/// What is known of a node for reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// It is a copy.
    pub is_replica: bool,
    /// It said itself that it cannot answer now, or is too far behind.
    pub unfit: bool,
    /// Up to where it has the stream of writes: its own offset.
    pub offset: u64,
    /// Mean time to an answer, in microseconds; 0 until it answered.
    pub latency_us: u64,
    /// When it was last asked.
    pub asked_at: Option<Time>,
}

/// One node that could answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) node: NodeId,
    pub(super) is_primary: bool,
    pub(super) latency_us: u64,
    pub(super) in_zone: bool,
    pub(super) weight: u16,
}

/// The nodes that reads go to in turn, of those that are fit.
pub(super) fn readers(policy: ReadPolicy, fit: &[Reader]) -> Vec<NodeId> {
    let replicas = |zone: bool| {
        in_turn(fit.iter().filter(|reader| !reader.is_primary && (!zone || reader.in_zone)))
    };
    match policy {
        ReadPolicy::Primary => Vec::new(),
        ReadPolicy::PreferReplica | ReadPolicy::Replica => replicas(false),
        ReadPolicy::Any => in_turn(fit.iter()),
        ReadPolicy::Nearest => {
            // One that never answered is not near.
            let near = fit.iter().min_by_key(|reader| match reader.latency_us {
                0 => u64::MAX,
                latency_us => latency_us,
            });
            near.map(|reader| reader.node).into_iter().collect()
        }
        ReadPolicy::Zone => {
            let own = in_turn(fit.iter().filter(|reader| reader.in_zone));
            let own_replicas = replicas(true);
            match (own_replicas.is_empty(), own.is_empty()) {
                (false, _) => own_replicas,
                (true, false) => own,
                (true, true) => replicas(false),
            }
        }
    }
}

/// Each as often as its weight says; of weight 0 only where there is no other.
fn in_turn<'a>(readers: impl Iterator<Item = &'a Reader> + Clone) -> Vec<NodeId> {
    let all = |least: u16| {
        let times = readers.clone().map(move |reader| (reader.node, reader.weight.max(least)));
        times.flat_map(|(node, times)| core::iter::repeat_n(node, times.into())).collect()
    };
    let weighted: Vec<NodeId> = all(0);
    if weighted.is_empty() { all(1) } else { weighted }
}

impl Engine {
    /// Whether reads may go elsewhere than to primaries.
    #[inline]
    pub(crate) fn reads_spread(&self) -> bool {
        self.settings.reads.policy != ReadPolicy::Primary && !self.is_one()
    }

    /// Whom each place's reads go to, made anew: after the topology or the health of a node changed.
    pub(crate) fn renew_readers(&mut self) {
        self.router.readers_stale = false;
        if !self.reads_spread() {
            return;
        }
        let mut marked: Vec<(NodeId, bool)> = Vec::new();
        for pool in 0..self.router.pools.len() {
            let groups = self.router.pools[pool].copies();
            let lists: Vec<Vec<NodeId>> = groups
                .iter()
                .map(|(primary, replicas)| {
                    marked.push((*primary, false));
                    marked.extend(replicas.iter().map(|replica| (*replica, true)));
                    readers(self.settings.reads.policy, &self.fit(*primary, replicas))
                })
                .collect();
            self.router.pools[pool].set_readers(lists);
        }
        for (node, is_replica) in marked {
            self.mark_replica(node, is_replica);
        }
    }

    fn fit(&self, primary: NodeId, replicas: &[NodeId]) -> Vec<Reader> {
        let all = [(primary, true)].into_iter().chain(replicas.iter().map(|node| (*node, false)));
        let fit = all.filter_map(|(id, is_primary)| {
            let node = self.nodes.get(id)?;
            let down = node.all_shared().any(|up| self.is_down(up));
            let zone = &self.settings.reads.zone;
            (!down && (is_primary || !node.health.unfit)).then(|| Reader {
                node: id,
                is_primary,
                latency_us: node.health.latency_us,
                weight: self.settings.reads.weight_of(node),
                in_zone: !zone.is_empty() && self.settings.reads.zone_of(node) == zone,
            })
        });
        fit.collect()
    }

    /// Whether this connection could not be made, and is tried again at most.
    pub(crate) fn is_down(&self, id: UpstreamId) -> bool {
        self.upstreams.get(id).is_some_and(|up| match up.state {
            State::Down(_) => true,
            State::Connecting(_) | State::Greeting(_) => up.failures > 0,
            State::Idle | State::Ready => false,
        })
    }

    /// A node became a copy, or a primary. A connection that stands tells the server that reads of a copy are wanted.
    fn mark_replica(&mut self, id: NodeId, is_replica: bool) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        let became = is_replica && !node.health.is_replica;
        node.health.is_replica = is_replica;
        if !became {
            return;
        }
        // Not those of single clients, which are not listed: between MULTI and EXEC it would be part of their transaction.
        let first =
            UpstreamKey { node: id, resp3: false, db: 0, lane: Lane::Shared, conn: 0, owner: None };
        let of_node = self.by_key.range(first..).take_while(|(key, _)| key.node == id);
        let shared = of_node.filter(|(key, _)| key.lane == Lane::Shared).map(|(_, id)| *id);
        let is_ready = |id: &UpstreamId| {
            self.upstreams.get(*id).is_some_and(|up| up.role == Role::Shared && up.is_ready())
        };
        let ready: Vec<UpstreamId> = shared.filter(is_ready).collect();
        for upstream in ready {
            self.say_readonly(upstream);
        }
    }

    /// Whether connections to this node say READONLY: copies of a cluster send reads away otherwise.
    pub(crate) fn needs_readonly(&self, key: &UpstreamKey) -> bool {
        let node = self.nodes.get(key.node);
        key.lane == Lane::Shared
            && node.is_some_and(|node| {
                let pool = self.router.pools.get(usize::from(node.pool));
                node.health.is_replica
                    && matches!(pool.map(|pool| &pool.topology), Some(Topology::Cluster(_)))
            })
    }

    pub(crate) fn say_readonly(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.readonly = true;
        let now = upstream.progress_at;
        self.say_own(now, id, OwnCommand::ReadOnly, &[b"READONLY"]);
    }

    /// When the copies are to be asked how they are.
    pub(crate) fn health_at(&self) -> Option<Time> {
        (self.reads_spread() && self.router.is_covered()).then_some(self.router.health_at)
    }

    /// Asks every node that could answer reads how it is.
    pub(crate) fn ask_health(&mut self, now: Time) {
        if self.health_at().is_none_or(|at| at > now) {
            return;
        }
        self.router.health_at = now.plus_ms(ROLE_EVERY_MS);
        let groups: Vec<(NodeId, Vec<NodeId>)> =
            self.router.pools.iter().flat_map(super::PoolState::copies).collect();
        // A table may name many nodes that nobody has read from yet.
        let mut connects = 0;
        for node in
            groups.into_iter().flat_map(|(primary, replicas)| [primary].into_iter().chain(replicas))
        {
            connects += usize::from(self.ask_role(now, node, connects < HEALTH_CONNECTS_MAX));
        }
        self.renew_readers();
    }

    /// Asks one node; whether a connection is made for that first.
    pub(crate) fn ask_role(&mut self, now: Time, node: NodeId, may_connect: bool) -> bool {
        let key = self.shared_key(node, resp::Protocol::Resp2, self.settings.node.db);
        let listed = self.by_key.get(&key).copied();
        let id = match listed {
            None if may_connect => self.new_upstream(key, Role::Shared),
            listed => listed,
        };
        let Some((id, upstream)) = id.and_then(|id| Some((id, self.upstreams.get(id)?))) else {
            return false;
        };
        match upstream.state {
            State::Idle if may_connect => {
                self.connect(now, id);
                return true;
            }
            State::Ready => {
                self.say_own(now, id, OwnCommand::Role, &[b"ROLE"]);
                if let Some(node) = self.nodes.get_mut(node) {
                    node.health.asked_at = Some(now);
                }
            }
            _ => {}
        }
        false
    }

    /// A node's answer to ROLE: `[master, offset, …]` or `[slave, host, port, state, offset]`.
    pub(crate) fn role_reply(&mut self, now: Time, id: UpstreamId, reply: &[u8]) {
        let Some(node_id) = self.upstreams.get(id).map(|upstream| upstream.key.node) else {
            return;
        };
        let parsed = resp::value::parse(reply).ok().flatten();
        let fields = parsed.as_ref().and_then(|(value, _)| value.as_list()).unwrap_or_default();
        let number = |value: Option<&Value<'_>>| match value {
            Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let ahead = self.primary_offset(node_id);
        let is_former = self.is_former_primary(node_id);
        let Some(node) = self.nodes.get_mut(node_id) else { return };
        let health = &mut node.health;
        let before = *health;
        if let Some(asked_at) = health.asked_at.take() {
            let took_us = now.since(asked_at).max(1);
            health.latency_us = match health.latency_us {
                0 => took_us,
                mean => mean - mean / 4 + took_us / 4,
            };
        }
        match fields.first().and_then(Value::as_text) {
            Some(b"master") => (health.offset, health.unfit) = (number(fields.get(1)), is_former),
            Some(b"slave") => {
                health.offset = number(fields.get(4));
                let connected = fields.get(3).and_then(Value::as_text) == Some(b"connected");
                let max = self.settings.reads.lag_bytes_max;
                let behind = ahead.saturating_sub(health.offset);
                health.unfit = !connected || (max > 0 && behind > max);
            }
            _ => health.unfit = true,
        }
        let changed = before.unfit != health.unfit;
        if changed || self.settings.reads.policy == ReadPolicy::Nearest {
            self.router.readers_stale = true;
        }
    }

    /// Whether sentinels list this node as a replica. After a planned failover the former primary keeps its role for some seconds, and its data grows old.
    fn is_former_primary(&self, node: NodeId) -> bool {
        self.router.pools.iter().any(|pool| match &pool.topology {
            Topology::Sentinel(group) => {
                group.primary != Some(node) && group.replicas.contains(&node)
            }
            Topology::One(_) | Topology::Cluster(_) => false,
        })
    }

    /// Up to where the primary of this copy has written, as it last said.
    fn primary_offset(&self, replica: NodeId) -> u64 {
        let primary = self.router.pools.iter().find_map(|pool| match &pool.topology {
            Topology::One(_) => None,
            Topology::Cluster(cluster) => cluster.primary_of(replica),
            Topology::Sentinel(group) if group.replicas.contains(&replica) => group.primary,
            Topology::Sentinel(_) => None,
        });
        primary.and_then(|primary| self.nodes.get(primary)).map_or(0, |node| node.health.offset)
    }

    /// Stops reads from a replica that refused to answer (it loads, or lost its primary), gave no reply for `timeouts.request_ms` or failed to connect, until its next `ROLE`. Returns whether the node is a replica.
    pub(crate) fn set_unfit(&mut self, id: NodeId) -> bool {
        let Some(node) = self.nodes.get_mut(id) else { return false };
        if !node.health.is_replica {
            return false;
        }
        if !core::mem::replace(&mut node.health.unfit, true) {
            self.router.readers_stale = true;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn reader(index: u32, is_primary: bool, latency_us: u64, in_zone: bool) -> Reader {
        Reader { node: NodeId::new(index, 1), is_primary, latency_us, in_zone, weight: 1 }
    }

    fn indexes(policy: ReadPolicy, fit: &[Reader]) -> Vec<u32> {
        readers(policy, fit).into_iter().map(|node| node.index).collect()
    }

    #[test]
    fn policies_choose_among_those_that_are_fit() {
        let fit =
            [reader(0, true, 300, true), reader(1, false, 100, false), reader(2, false, 0, true)];
        assert_eq!(indexes(ReadPolicy::Primary, &fit), vec![]);
        assert_eq!(indexes(ReadPolicy::PreferReplica, &fit), vec![1, 2]);
        assert_eq!(indexes(ReadPolicy::Replica, &fit), vec![1, 2]);
        assert_eq!(indexes(ReadPolicy::Any, &fit), vec![0, 1, 2]);
        assert_eq!(indexes(ReadPolicy::Nearest, &fit), vec![1]);
        assert_eq!(indexes(ReadPolicy::Zone, &fit), vec![2]);
    }

    #[test]
    fn a_weight_is_a_share_and_0_a_last_resort() {
        let weighted =
            |index: u32, weight: u16| Reader { weight, ..reader(index, false, 1, false) };
        let fit = [weighted(1, 3), weighted(2, 1), weighted(3, 0)];
        assert_eq!(indexes(ReadPolicy::PreferReplica, &fit), vec![1, 1, 1, 2]);
        assert_eq!(indexes(ReadPolicy::PreferReplica, &fit[2..]), vec![3]);
    }

    #[test]
    fn without_a_replica_in_the_zone_the_primary_there_or_any_replica_answers() {
        let primary_here = [reader(0, true, 1, true), reader(1, false, 1, false)];
        assert_eq!(indexes(ReadPolicy::Zone, &primary_here), vec![0]);
        let nobody_here = [reader(0, true, 1, false), reader(1, false, 1, false)];
        assert_eq!(indexes(ReadPolicy::Zone, &nobody_here), vec![1]);
        assert_eq!(indexes(ReadPolicy::PreferReplica, &nobody_here[..1]), vec![]);
    }
}
