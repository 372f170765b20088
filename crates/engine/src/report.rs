//! What a worker tells of itself when it is asked: counters as they stand, and gauges, which are looked up now.
//!
//! Nothing of this is kept up to date between two questions, so it costs the data path nothing; a question costs a walk over all clients
//! and connections of the worker.
//!
//! Not here: the sum over the workers and how it is shown (`local::info`, the server's metrics).
//!
//! Invariant: a report is complete but for the processor time, which only the caller knows ([`Report::cpu_user_us`]).

use crate::client::{Client, Hold};
use crate::elsewhere::Elsewhere;
use crate::engine::Engine;
use crate::fleet::Report;
use crate::hotkeys::HotReport;
use crate::ids::NodeId;
use crate::inside::Assembly;
use crate::limits::HOTKEYS_TOP_MAX;
use crate::local::info::policies;
use crate::mirror::Mirrors;
use crate::monitor::Watch;
use crate::near::Near;
use crate::node::Node;
use crate::policy;
use crate::replace;
use crate::stats::Stats;
use crate::stats::node::NodeStats;
use crate::time::Time;
use crate::topology::Topology;
use crate::upstream::{Lane, Role, State, Upstream};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What connections are for, in the order of [`NodeReport::conns`].
pub const CONN_ROLES: [&str; 10] = [
    "shared",
    "control",
    "sentinel",
    "tracking",
    "subscribing",
    "noloop",
    "leased",
    "transfer",
    "idle",
    "retired",
];

/// Why clients wait, in the order of [`Report::waiting`]: for their own replies, a server, room for replies, the end of a pause, an owner of a
/// slot, a place among large requests, a connection of their own, the end of a delay that a policy set, another write of the same key (only with
/// mirrors).
pub const WAITS: [&str; 9] = [
    "drained", "upstream", "output", "paused", "topology", "transfer", "lease", "delayed", "mirror",
];

/// Where bytes are held, in the order of [`Report::memory`]: for clients and what they ask all workers, on the way to servers and from them, in spare buffers, in requests that
/// were sent and are not answered, in those that wait for another server, in known scripts, in names of topics, in names of keys that clients cache,
/// in the slow log, in replies that are kept, in collected parts of replies, in answers to EXEC, for mirrors, for read targets, for policies, in lines of MONITOR
/// on their way to other workers, for connections with TLS. All of it counts against `Limits::memory_max_bytes` (see `account`).
pub const MEMORY_KINDS: [&str; 17] = [
    "clients",
    "upstreams",
    "pool",
    "kept",
    "parked",
    "scripts",
    "subscriptions",
    "caches",
    "slowlog",
    "near_cache",
    "parts",
    "transactions",
    "mirrors",
    "read_targets",
    "policies",
    "monitors",
    "tls",
];

/// One server, as one worker sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Its address.
    pub label: String,
    /// Which of several pools it belongs to, from 0.
    pub pool: u16,
    /// `primary`, `replica`, `sentinel`, or `seed` if nobody told what it is.
    pub role: &'static str,
    /// `ready`, `connecting`, `down` or `idle`: no connection is wanted.
    pub state: &'static str,
    /// Why it is down, or was last; empty: it never was.
    pub cause: String,
    /// How long it can be reached, or cannot, in microseconds; `None`: nobody tried.
    pub since_us: Option<u64>,
    /// Counters.
    pub stats: NodeStats,
    /// Requests that wait for a reply.
    pub inflight: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: u64,
    /// Open connections by [`CONN_ROLES`].
    pub conns: [u64; CONN_ROLES.len()],
}

impl NodeReport {
    /// Adds what another worker sees of the same server. Of its state the worse is told.
    pub fn add(&mut self, other: &Self) {
        let rank =
            |state: &str| ["", "idle", "ready", "connecting"].iter().position(|s| *s == state);
        // What is not in the list is worst: down.
        if rank(other.state).unwrap_or(usize::MAX) > rank(self.state).unwrap_or(usize::MAX) {
            (self.state, self.since_us) = (other.state, other.since_us);
            self.cause.clone_from(&other.cause);
        }
        self.stats.add(&other.stats);
        self.inflight += other.inflight;
        self.queued_bytes += other.queued_bytes;
        for (own, other) in self.conns.iter_mut().zip(other.conns) {
            *own += other;
        }
    }
}

impl Report {
    /// Adds what the engine of a login at the same servers and of the same worker tells. How the servers are, its tenant's tells.
    pub fn absorb_login(&mut self, other: &Self) {
        self.logins += 1;
        self.stats.add(&other.stats);
        self.clients += other.clients;
        for (label, count) in &other.listeners {
            add_to(&mut self.listeners, label, *count);
        }
        self.blocked_clients += other.blocked_clients;
        self.tracking_clients += other.tracking_clients;
        self.upstreams += other.upstreams;
        self.inflight += other.inflight;
        self.buffered_bytes += other.buffered_bytes;
        let gauges = self.waiting.iter_mut().chain(&mut self.memory);
        for (own, other) in gauges.zip(other.waiting.iter().chain(&other.memory)) {
            *own += other;
        }
        self.client_out_bytes_max = self.client_out_bytes_max.max(other.client_out_bytes_max);
        self.client_in_bytes_max = self.client_in_bytes_max.max(other.client_in_bytes_max);
        self.leases_taken += other.leases_taken;
        self.leases_waiting += other.leases_waiting;
        self.leases_idle += other.leases_idle;
        self.slowlog_entries += other.slowlog_entries;
        let same = |node: &NodeReport, other: &NodeReport| {
            (&node.label, node.pool) == (&other.label, other.pool)
        };
        for other in &other.nodes {
            if let Some(node) = self.nodes.iter_mut().find(|node| same(node, other)) {
                let said = (node.state, node.since_us, core::mem::take(&mut node.cause));
                node.add(other);
                (node.state, node.since_us, node.cause) = said;
            }
        }
        let hotkeys = [core::mem::take(&mut self.hotkeys), other.hotkeys.clone()];
        self.hotkeys = HotReport::merged(hotkeys, HOTKEYS_TOP_MAX);
        self.big_seen.add(&other.big_seen);
        self.big_keys += other.big_keys;
        policies::add(&mut self.policies, &other.policies);
        policies::add_own(&mut self.own, &other.own);
    }
}

/// The servers that all workers see, each once, in the order of the first worker that knows it.
pub fn nodes_of(reports: &[Report]) -> Vec<NodeReport> {
    let all = reports.iter().flat_map(|report| &report.nodes);
    summed(all, |one, other| one.label == other.label && one.pool == other.pool, NodeReport::add)
}

/// What several workers say, with what is said of the `same` added up; in the order in which it comes first.
pub fn summed<'a, T: Clone + 'a>(
    all: impl Iterator<Item = &'a T>,
    same: fn(&T, &T) -> bool,
    add: fn(&mut T, &T),
) -> Vec<T> {
    let mut sums: Vec<T> = Vec::new();
    for one in all {
        match sums.iter_mut().find(|seen| same(seen, one)) {
            Some(seen) => add(seen, one),
            None => sums.push(one.clone()),
        }
    }
    sums
}

/// The reports of each tenant by themselves, that of the default one first; one group, where there are no tenants.
pub fn by_tenant(reports: Vec<Report>) -> Vec<(Option<Arc<str>>, Vec<Report>)> {
    let mut groups: Vec<(Option<Arc<str>>, Vec<Report>)> = Vec::new();
    for report in reports {
        match groups.iter_mut().find(|(tenant, _)| *tenant == report.tenant) {
            Some((_, group)) => group.push(report),
            None => groups.push((report.tenant.clone(), alloc::vec![report])),
        }
    }
    groups
}

/// The clients of each listener over all workers, in the order of the first worker that tells of it.
pub fn listeners_of(reports: &[Report]) -> Vec<(Arc<str>, u64)> {
    let mut listeners: Vec<(Arc<str>, u64)> = Vec::new();
    for (label, count) in reports.iter().flat_map(|report| &report.listeners) {
        add_to(&mut listeners, label, *count);
    }
    listeners
}

/// So many clients more of a listener.
fn add_to(listeners: &mut Vec<(Arc<str>, u64)>, label: &Arc<str>, count: u64) {
    match listeners.iter_mut().find(|(seen, _)| seen == label) {
        Some((_, sum)) => *sum += count,
        None => listeners.push((Arc::clone(label), count)),
    }
}

impl Engine {
    /// The engine of a login at our servers ends: what it counted is counted here, so that no counter gets less.
    pub fn inherit(&mut self, from: &Self) {
        self.stats.add(&from.stats);
        for (_, other) in from.nodes.iter() {
            let own = self.nodes.iter_mut().map(|(_, node)| node);
            let mut same = own.filter(|own| own.label == other.label && own.pool == other.pool);
            if let Some(node) = same.next() {
                node.stats.add(&other.stats);
            }
        }
    }

    /// The counters, with the last errors' clients and servers by name.
    fn named_stats(&self) -> Stats {
        let identity = |id| self.clients.get(id).map(|client| &*client.identity);
        let label = |node| self.label(node).to_string();
        Stats { samples: self.stats.samples.named(identity, label), ..self.stats.clone() }
    }

    /// Counters and gauges of this worker at this moment.
    #[must_use]
    pub fn report(&self, now: Time) -> Report {
        let clients = || self.clients.iter().map(|(_, client)| client);
        let nodes = self.node_reports(now);
        let told = self.router.pools.iter().filter_map(|pool| pool.refresh.told_at).min();
        let memory = self.memory();
        let [cache_entries, cache_feeds] = self.near.as_deref().map_or([0; 2], Near::gauges);
        let mut listeners = Vec::new();
        clients()
            .filter_map(|client| client.identity.listener.as_ref())
            .for_each(|label| add_to(&mut listeners, label, 1));
        Report {
            worker: self.settings.worker,
            server: self.facts.clone(),
            stats: self.named_stats(),
            clients: self.clients.len() as u64,
            listeners,
            blocked_clients: self.blocked_clients(),
            tracking_clients: clients().filter(|client| client.tracking.is_some()).count() as u64,
            cache_entries,
            cache_feeds,
            waiting: waiting(clients()),
            upstreams: self.of_servers().filter(|up| up.is_ready()).count() as u64,
            inflight: nodes.iter().map(|node| node.inflight).sum(),
            buffered_bytes: memory.iter().sum(),
            memory,
            client_out_bytes_max: clients().map(|c| c.out.pending() as u64).max().unwrap_or(0),
            client_in_bytes_max: clients().map(|c| c.tail.len() as u64).max().unwrap_or(0),
            leases_taken: self.roles.leases() as u64,
            leases_waiting: self.lease_waiters.len() as u64,
            leases_idle: self.roles.spare_count() as u64,
            slowlog_entries: self.slowlog.len() as u64,
            topology_age_us: told.map(|told| now.since(told)),
            node_state: self.node_state(),
            nodes,
            cpu_user_us: 0,
            ring: None,
            tls: None,
            cpu_system_us: 0,
            hotkeys: HotReport::default(),
            big_seen: self.bigkeys.seen(),
            big_keys: self.bigkeys.len() as u64,
            monitors: self.settings.monitors.clone(),
            policies: self.policy_outcomes(),
            own: self.policy.as_deref().map(policy::State::own_reports).unwrap_or_default(),
            mirrors: self.mirror_reports(now),
            read_targets: self.read_target_reports(),
            reads_elsewhere: self.reads_elsewhere_counts(),
            logins: 0,
            tenant: self.settings.tenancy.as_ref().map(|tenancy| tenancy.name.clone()),
        }
    }

    /// Connections to servers: a peer is no server of anyone's requests.
    fn of_servers(&self) -> impl Iterator<Item = &Upstream> {
        self.upstreams.iter().map(|(_, up)| up).filter(|up| up.key.lane != Lane::Peer)
    }

    /// State of a server as [`NodeReport`] has it, and why it is down or was last.
    pub(crate) fn node_standing(&self, id: NodeId) -> (&'static str, String) {
        let shared =
            || self.of_servers().filter(move |up| up.key.node == id && up.role == Role::Shared);
        let cause = shared().map(|up| &up.cause).find(|cause| !cause.is_empty());
        (shared().fold("idle", worse), cause.cloned().unwrap_or_default())
    }

    fn memory(&self) -> [u64; MEMORY_KINDS.len()] {
        let of_upstream = |up: &Upstream| {
            let (own, common) = up.weights();
            own + common - up.out.kept_bytes()
        };
        [
            self.clients.iter().map(|(_, client)| client.held_bytes()).sum::<usize>()
                + self.asked.bytes(),
            self.of_servers().map(of_upstream).sum(),
            self.pool.bytes(),
            self.of_servers().map(|up| up.out.kept_bytes()).sum(),
            self.parked.bytes(),
            self.scripts.bytes(),
            self.subscriptions.bytes() + self.subscriptions.told_bytes(),
            self.caches.bytes(),
            self.slowlog.bytes(),
            self.near.as_deref().map_or(0, Near::bytes),
            self.merges.iter().map(|(_, merge)| merge.held_bytes()).sum(),
            self.assemblies.iter().map(Assembly::held_bytes).sum(),
            self.mirrors.as_deref().map_or(0, Mirrors::held_bytes),
            self.elsewhere.as_deref().map_or(0, Elsewhere::held_bytes),
            self.policy.as_deref().map_or(0, policy::State::held_bytes),
            self.watches.iter().map(Watch::held_bytes).sum(),
            self.outside_bytes,
        ]
        .map(|bytes: usize| bytes as u64)
    }

    fn node_reports(&self, now: Time) -> Vec<NodeReport> {
        let nodes = self.nodes.iter().filter(|(_, node)| node.pool < replace::LEFT);
        let mut reports: Vec<(NodeId, NodeReport)> =
            nodes.map(|(id, node)| (id, self.node_report(now, id, node))).collect();
        let places: alloc::collections::BTreeMap<NodeId, usize> =
            reports.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
        for up in self.of_servers() {
            if let Some(at) = places.get(&up.key.node) {
                enter(&mut reports[*at].1, up);
            }
        }
        reports.into_iter().map(|(_, report)| report).collect()
    }

    fn node_report(&self, now: Time, id: NodeId, node: &Node) -> NodeReport {
        let since = node.standing.since;
        NodeReport {
            label: node.label.clone(),
            pool: node.pool,
            role: self.node_role(id, node),
            state: "idle",
            since_us: (since != Time::default()).then(|| now.since(since)),
            stats: node.stats.clone(),
            ..NodeReport::default()
        }
    }

    pub(crate) fn node_role(&self, id: NodeId, node: &Node) -> &'static str {
        let Some(pool) = self.router.pools.get(usize::from(node.pool)) else { return "seed" };
        let (is_primary, is_replica, is_sentinel) = match &pool.topology {
            Topology::One(one) => (*one == id, false, false),
            Topology::Cluster(cluster) => (cluster.is_primary(id), cluster.is_replica(id), false),
            Topology::Sentinel(group) => {
                let is_sentinel = group.candidates().contains(&id);
                (group.primary == Some(id), group.replicas.contains(&id), is_sentinel)
            }
        };
        match (is_primary, is_replica, is_sentinel) {
            (true, ..) => "primary",
            (_, true, _) => "replica",
            (.., true) => "sentinel",
            _ => "seed",
        }
    }

    fn node_state(&self) -> String {
        if let Some(state) = self.topology_state() {
            return state;
        }
        let is_main =
            |up: &&Upstream| up.role == Role::Shared && up.key.db == self.settings.node.db;
        match self.of_servers().find(is_main) {
            None => "idle".to_string(),
            Some(up) => match state(up) {
                "down" => format!("down ({})", up.cause),
                state => state.to_string(),
            },
        }
    }
}

/// Adds one of its connections.
fn enter(report: &mut NodeReport, up: &Upstream) {
    report.stats.traffic.add(&up.traffic());
    report.inflight += up.inflight.len() as u64;
    report.queued_bytes += up.out.pending() as u64;
    if up.is_ready() {
        report.conns[conn_role(up)] += 1;
    }
    if up.role == Role::Shared {
        report.state = worse(report.state, up);
        if !up.cause.is_empty() {
            report.cause.clone_from(&up.cause);
        }
    }
}

/// The state of a server whose other connections are in this one. Down is told before connecting, and that before ready: what is wrong is to be
/// seen.
fn worse(others: &'static str, up: &Upstream) -> &'static str {
    match (others, state(up)) {
        (_, "down") | ("ready" | "idle", "connecting") | ("idle", "ready") => state(up),
        (state, _) => state,
    }
}

fn state(up: &Upstream) -> &'static str {
    match &up.state {
        State::Idle => "idle",
        State::Connecting(_) | State::Greeting(_) => "connecting",
        State::Ready => "ready",
        // That it refuses what a client asked for is an answer of one that lives.
        State::Down(down) if down.refused.is_some() => "ready",
        State::Down(_) => "down",
    }
}

/// The index in [`CONN_ROLES`].
fn conn_role(up: &Upstream) -> usize {
    match (up.role, up.key.lane) {
        (Role::Leased(_) | Role::Errand(_), _) => 6,
        (Role::Transfer(_), _) => 7,
        (Role::Spare(_), _) => 8,
        (Role::Retired, _) => 9,
        (Role::Shared, _) if up.key.owner.is_some() => 5,
        (Role::Shared, Lane::Shared | Lane::Login | Lane::Peer) => 0,
        (Role::Shared, Lane::Control) => 1,
        (Role::Shared, Lane::Sentinel) => 2,
        (Role::Shared, Lane::Tracked | Lane::Broadcast | Lane::Feed) => 3,
        (Role::Shared, Lane::Messages) => 4,
    }
}

fn waiting<'a>(clients: impl Iterator<Item = &'a Client>) -> [u64; WAITS.len()] {
    let mut waiting = [0; WAITS.len()];
    for client in clients {
        let at = match client.hold {
            Hold::No | Hold::Turn(_) | Hold::Streaming(_) | Hold::Skipping | Hold::Moving => {
                continue;
            }
            Hold::Drained => 0,
            Hold::Upstream(_) | Hold::Word | Hold::Lookup => 1,
            Hold::Output | Hold::SilentPlace => 2,
            Hold::Paused => 3,
            Hold::Topology => 4,
            Hold::TransferSlot => 5,
            Hold::Lease => 6,
            Hold::Delayed => 7,
            Hold::Mirror => 8,
        };
        waiting[at] += 1;
    }
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_several_workers_see_is_one_and_its_worst_state_is_told() {
        let node = |label: &str, state, inflight| NodeReport {
            label: label.into(),
            state,
            inflight,
            cause: if state == "down" { "no route".into() } else { String::new() },
            ..NodeReport::default()
        };
        let report = |nodes: &[NodeReport]| Report { nodes: nodes.to_vec(), ..Report::default() };
        let nodes = nodes_of(&[
            report(&[node("a", "ready", 1), node("b", "idle", 2)]),
            report(&[node("b", "ready", 4), node("a", "down", 8)]),
            report(&[node("a", "connecting", 16), node("c", "ready", 32)]),
        ]);
        let seen: Vec<_> =
            nodes.iter().map(|n| (&*n.label, n.state, n.inflight, &*n.cause)).collect();
        assert_eq!(
            seen,
            [("a", "down", 25, "no route"), ("b", "ready", 6, ""), ("c", "ready", 32, "")]
        );
    }
}
