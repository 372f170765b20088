//! When a cluster's table is asked for again, and whom.
//!
//! Wanted on every sign that it is stale (a redirect, a lost node, a slot without an owner) and once in a while; asked one at a
//! time, at most so often, of one node after the other, those that are known to be down left out. Whoever answers first with a usable table
//! ends the round.
//!
//! Not here: what the answer says (`slots`) and what becomes of it (`Engine::apply_topology`).
//!
//! Invariant: `asking` names an upstream that was asked or is to be asked when it is ready.

use super::{Topology, slots};
use crate::engine::Engine;
use crate::ids::{NodeId, UpstreamId};
use crate::limits::{TOPOLOGY_AGAIN_MS, TOPOLOGY_EVERY_MS};
use crate::node::Address;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Role, State};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    wanted: bool,
    asking: Option<UpstreamId>,
    /// Not before this.
    not_before: Time,
    /// When it is wanted without a sign.
    again_at: Option<Time>,
    /// Whose turn it is.
    turn: usize,
    /// Why the last question brought nothing, for error texts; empty: it did.
    pub(crate) cause: String,
}

impl Engine {
    /// There was a sign that the table is stale.
    pub(crate) fn want_topology(&mut self) {
        if let Topology::Cluster(cluster) = &mut self.topology {
            cluster.refresh.wanted = true;
        }
    }

    /// When the table is to be asked for.
    pub(crate) fn refresh_at(&self) -> Option<Time> {
        let Topology::Cluster(cluster) = &self.topology else { return None };
        let refresh = &cluster.refresh;
        match refresh.asking {
            Some(_) => None,
            None if refresh.wanted => Some(refresh.not_before),
            None => refresh.again_at,
        }
    }

    /// Asks the next node that is not known to be down.
    pub(crate) fn refresh_topology(&mut self, now: Time) {
        let Topology::Cluster(cluster) = &mut self.topology else { return };
        cluster.refresh.wanted = true;
        let mut candidates: Vec<NodeId> = cluster
            .owners
            .iter()
            .flat_map(|own| [own.primary].into_iter().chain(own.replicas.iter().copied()))
            .collect();
        candidates.extend(
            cluster
                .seeds
                .iter()
                .filter(|seed| !candidates.contains(seed))
                .copied()
                .collect::<Vec<_>>(),
        );
        let turn = cluster.refresh.turn;
        cluster.refresh.turn = turn.wrapping_add(1);
        for step in 0..candidates.len() {
            let node = candidates[turn.wrapping_add(step) % candidates.len()];
            if self.ask_for_topology(now, node) {
                return;
            }
        }
        self.refresh_failed(now, None);
    }

    /// Asks one node; false if it is known to be down, or if there is no room for a connection to it.
    fn ask_for_topology(&mut self, now: Time, node: NodeId) -> bool {
        let key = self.shared_key(node, Protocol::Resp2, self.settings.node.db);
        let listed = self.by_key.get(&key).copied();
        let Some(id) = listed.or_else(|| self.new_upstream(key, Role::Shared)) else {
            return false;
        };
        let Some(upstream) = self.upstreams.get(id) else { return false };
        let state = upstream.state.clone();
        let failing = upstream.failures > 0;
        match state {
            State::Down(_) => return false,
            State::Connecting(_) | State::Greeting(_) if failing => return false,
            State::Idle => self.connect(now, id),
            State::Connecting(_) | State::Greeting(_) => {}
            State::Ready if upstream.stall.is_some() => return false,
            State::Ready => self.write_topology_question(now, id),
        }
        if let Topology::Cluster(cluster) = &mut self.topology {
            cluster.refresh.asking = Some(id);
        }
        true
    }

    fn write_topology_question(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let at = upstream.out.position();
        encode::request(upstream.out.buf(&mut self.pool), &[b"CLUSTER", b"SLOTS"]);
        self.sent_own(now, id, at, &[OwnCommand::Topology]);
    }

    /// This upstream became ready; perhaps it is the one that was to be asked.
    pub(crate) fn refresh_upstream_ready(&mut self, now: Time, id: UpstreamId) {
        if self.is_asking(id) {
            self.write_topology_question(now, id);
        }
    }

    /// This upstream is gone; if it was asked, another one is.
    pub(crate) fn refresh_upstream_lost(&mut self, now: Time, id: UpstreamId, cause: &str) {
        if self.is_asking(id) {
            let node = self.upstreams.get(id).map(|up| self.label(up.key.node).to_string());
            let cause = alloc::format!("{}: {cause}", node.unwrap_or_default());
            self.refresh_failed(now, Some(cause));
            if let Topology::Cluster(cluster) = &mut self.topology {
                // The next one is asked at once: this one is known to be down now.
                cluster.refresh.not_before = now;
            }
        }
    }

    fn is_asking(&self, id: UpstreamId) -> bool {
        matches!(&self.topology, Topology::Cluster(cluster) if cluster.refresh.asking == Some(id))
    }

    fn refresh_failed(&mut self, now: Time, cause: Option<String>) {
        let Topology::Cluster(cluster) = &mut self.topology else { return };
        let refresh = &mut cluster.refresh;
        refresh.asking = None;
        refresh.wanted = true;
        refresh.not_before = now.plus_ms(TOPOLOGY_AGAIN_MS);
        if let Some(cause) = cause {
            refresh.cause = cause;
        }
    }

    /// The answer to the question.
    pub(crate) fn topology_reply(&mut self, now: Time, id: UpstreamId, reply: &[u8]) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let node = upstream.key.node;
        let host = match self.nodes.get(node).map(|node| &node.address) {
            Some(Address::Tcp { host, .. }) => host.clone(),
            _ => String::from("127.0.0.1"),
        };
        let parsed = resp::value::parse(reply).ok().flatten();
        let ranges = parsed.as_ref().and_then(|(value, _)| slots::parse(value, &host));
        match ranges {
            Some(ranges) if !ranges.is_empty() => {
                let random = self.next_random() % 1_000;
                if let Topology::Cluster(cluster) = &mut self.topology {
                    let refresh = &mut cluster.refresh;
                    refresh.asking = None;
                    refresh.wanted = false;
                    refresh.cause.clear();
                    refresh.not_before = now.plus_ms(TOPOLOGY_EVERY_MS);
                    let period_ms = self.settings.timeouts.topology_period_ms;
                    refresh.again_at = (period_ms > 0).then(|| now.plus_ms(period_ms + random));
                }
                self.apply_topology(now, &ranges);
            }
            _ => {
                let words = match &parsed {
                    Some((value, _)) if value.as_error().is_some() => {
                        String::from_utf8_lossy(value.as_error().unwrap_or_default()).into_owned()
                    }
                    _ => String::from("knows no slots"),
                };
                let cause = alloc::format!("{}: {words}", self.label(node));
                self.refresh_failed(now, Some(cause));
            }
        }
    }
}
