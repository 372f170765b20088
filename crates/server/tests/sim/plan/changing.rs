//! The plans in which the configuration changes while clients are connected: other settings, other servers, both at once.
//!
//! What is named is one of several deployments ([`Plan::deployments`]) at a time: a server for another one, a cluster for another one, one for
//! the other, and back.
//!
//! Not here: the moment at which a worker takes a change (`world::changes`), what all plans have (`plan`).
//!
//! Invariant: on kinds where nothing fails no setting is planned that costs anybody an error, but for what a replaced server takes along.

use engine::command::lookup;
use engine::observed::Access;
use engine::settings::{Limits, Pool, ReadPolicy};
use engine::stats::monitors::MonitorOptions;
use engine::{Settings, node};
use netio::Address;
use netio::sim::SimRng;

use super::several::{coarsen, layout, reads, times, troubles};
use super::{FIRST_PORT, Kind, Layout, Plan, pick};

/// Ports of two deployments are so far apart.
const PORTS_APART: u16 = 100;

/// A change of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// When, in microseconds after the begin.
    pub(crate) at_us: u64,
    /// What is in force from then on.
    pub(crate) settings: Settings,
    /// So long a worker gathers, in microseconds.
    pub(crate) gather_us: u64,
    /// Which deployment these settings name.
    pub(crate) deployment: usize,
    /// They name it otherwise than those before, or name another one.
    pub(crate) replaces: bool,
    /// So many workers hear of it a turn before the others.
    pub(crate) first: usize,
}

/// Makes a plan whose configuration changes.
pub(super) fn make_changing(plan: &mut Plan, rng: &mut SimRng) {
    if rng.chance(850_000) {
        coarsen(plan);
    }
    plan.clients = plan.clients.min(16);
    plan.deployments = deployments(plan, rng);
    plan.layout = match plan.deployments.iter().find(|(layout, _)| *layout != Layout::One) {
        Some((layout, _)) => *layout,
        None => Layout::One,
    };
    plan.one_database = plan.is_cluster();
    if plan.is_cluster() {
        plan.reorders = rng.chance(500_000);
        times(plan, rng);
    }
    if !plan.kind.server_fails() {
        // A large request cannot be sent on, so where slots move it may fail.
        plan.settings.limits.large_request_bytes = Limits::default().large_request_bytes;
    }
    let deployment = rng.between(0, plan.deployments.len() as u64 - 1) as usize;
    name(plan, deployment, rng).put_into(&mut plan.settings);
    plan.deployment = deployment;
    changes(plan, rng);
    let servers = plan.addresses().len();
    plan.troubles = troubles(plan, servers, rng);
}

fn deployments(plan: &Plan, rng: &mut SimRng) -> Vec<(Layout, Vec<Address>)> {
    let cluster = layout(plan, rng);
    let layouts = match rng.between(0, 9) {
        0..=3 => vec![Layout::One; rng.between(2, 3) as usize],
        4..=6 => vec![cluster, layout(plan, rng)],
        _ => vec![Layout::One, cluster],
    };
    let addresses = |number: usize, layout: &Layout| {
        let nodes = match layout {
            Layout::Cluster(restless) => restless.shards * (1 + restless.replicas),
            _ => 1,
        };
        let port = |node: usize| FIRST_PORT + number as u16 * PORTS_APART + node as u16;
        (0..nodes).map(|node| Address::Tcp(([127, 0, 0, 1], port(node)).into())).collect()
    };
    let placed = |(number, layout): (usize, Layout)| (layout, addresses(number, &layout));
    layouts.into_iter().enumerate().map(placed).collect()
}

/// How settings name a deployment.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    first: node::Address,
    pool: Pool,
}

impl Name {
    fn put_into(self, settings: &mut Settings) {
        settings.node.address = self.first;
        settings.pool = self.pool;
    }
}

fn name(plan: &Plan, deployment: usize, rng: &mut SimRng) -> Name {
    let (layout, at) = &plan.deployments[deployment];
    let address = |at: &Address| match at {
        Address::Tcp(at) => node::Address::tcp("127.0.0.1", at.port()),
        Address::Unix(path) => panic!("a simulated server has a port, {path:?} has none"),
    };
    let all: Vec<node::Address> = at.iter().map(address).collect();
    let first = all[0].clone();
    let pool = match layout {
        Layout::Cluster(_) => {
            let skipped = rng.between(0, all.len() as u64 - 1) as usize;
            let count = rng.between(1, all.len() as u64) as usize;
            Pool::Cluster { seeds: all.into_iter().cycle().skip(skipped).take(count).collect() }
        }
        _ => Pool::Standalone,
    };
    Name { first, pool }
}

fn changes(plan: &mut Plan, rng: &mut SimRng) {
    let (mut settings, mut deployment) = (plan.settings.clone(), plan.deployment);
    let has_copies = |(layout, _): &(Layout, Vec<Address>)| match layout {
        Layout::Cluster(restless) => restless.replicas > 0,
        _ => true,
    };
    // A cluster without copies would have nobody for reads.
    let may_spread = plan.is_cluster() && plan.deployments.iter().all(has_copies);
    let spreads = rng.chance(300_000) && may_spread;
    let gap_us = pick(rng, &[2_000, 20_000, 200_000]);
    let mut at_us = 0;
    for _ in 0..rng.between(1, 12) {
        at_us += rng.between(0, gap_us);
        let replaces = rng.chance(600_000);
        if replaces {
            deployment = rng.between(0, plan.deployments.len() as u64 - 1) as usize;
        }
        if !replaces || rng.chance(500_000) {
            vary(plan, &mut settings, rng);
            if spreads {
                settings.reads = reads(rng);
            }
        }
        let before = Name { first: settings.node.address.clone(), pool: settings.pool.clone() };
        let name = if replaces { name(plan, deployment, rng) } else { before };
        name.put_into(&mut settings);
        // By turns, where it is on at the begin.
        settings.coalesce_reads ^= plan.settings.coalesce_reads;
        settings.policies = match settings.policies {
            Some(_) => None,
            None => super::policies(plan),
        };
        settings.cache.enabled ^= plan.settings.cache.enabled;
        plan.changes.push(Change {
            at_us,
            settings: settings.clone(),
            gather_us: pick(rng, &[0, 60, 400]),
            deployment,
            replaces,
            first: rng.between(0, plan.workers as u64) as usize,
        });
    }
}

/// Other settings. Those that are not here stay as the plan has them: what clients must say to be let in, and how many there may be.
fn vary(plan: &Plan, settings: &mut Settings, rng: &mut SimRng) {
    match rng.between(0, 5) {
        0 => limits(plan, &mut settings.limits, rng),
        1 => timeouts(plan, settings, rng),
        2 => watched(settings, rng),
        3 => settings.limits.shared_conns = rng.between(1, 4) as u16,
        4 if rng.chance(500_000) => {
            let name = if settings.node.client_name.is_empty() { &b"another"[..] } else { b"" };
            settings.node.client_name = name.to_vec();
        }
        4 => {
            let host = ["here", "there"][rng.between(0, 1) as usize];
            settings.address_map.map_host("nowhere", host);
        }
        _ => {
            limits(plan, &mut settings.limits, rng);
            timeouts(plan, settings, rng);
            watched(settings, rng);
        }
    }
}

fn limits(plan: &Plan, limits: &mut Limits, rng: &mut SimRng) {
    limits.client_out_high_bytes = pick(rng, &[1_000, 16_000, 1 << 20]) as usize;
    limits.client_out_max_bytes = pick(rng, &[100_000, 64 << 20]) as usize;
    limits.client_in_high_bytes = pick(rng, &[4_096, 70_000, 1 << 20]) as usize;
    limits.client_inflight_max = pick(rng, &[1, 7, 64, 16_384]) as u32;
    limits.upstream_out_high_bytes = pick(rng, &[1_000, 30_000, 4 << 20]) as usize;
    limits.large_transfers_max = pick(rng, &[1, 2, 16]) as usize;
    limits.leases_max = pick(rng, &[64, 1_024]) as usize;
    limits.leases_min = pick(rng, &[0, 1, 4]) as usize;
    if plan.kind.server_fails() || plan.layout == Layout::One {
        limits.large_request_bytes = pick(rng, &[1_000, 4_096, 40_000, 256 << 10]);
    }
}

fn timeouts(plan: &Plan, settings: &mut Settings, rng: &mut SimRng) {
    let timeouts = &mut settings.timeouts;
    timeouts.ping_ms = pick(rng, &[0, 100]);
    timeouts.topology_period_ms = pick(rng, &[0, 300, 10_000]);
    timeouts.stall_ms = pick(rng, &[300, 1_000]);
    timeouts.resolve_ms = pick(rng, &[0, 1_000]);
    timeouts.reconnect_max_ms = pick(rng, &[50, 200]);
    if plan.kind.server_fails() {
        timeouts.request_ms = pick(rng, &[200, 1_000]);
        timeouts.connect_ms = pick(rng, &[100, 200]);
        timeouts.failover_hold_ms = pick(rng, &[0, 100, 1_500]);
        timeouts.topology_wait_ms = pick(rng, &[50, 2_000]);
    }
}

/// What is looked at while requests pass by.
fn watched(settings: &mut Settings, rng: &mut SimRng) {
    settings.slowlog.slower_than_us = pick(rng, &[0, 100, 10_000]);
    settings.slowlog.max_len = pick(rng, &[0, 1, 128]) as usize;
    settings.hotkeys.enabled = rng.chance(500_000);
    settings.hotkeys.sample = rng.between(1, 3) as u32;
    settings.hotkeys.window_s = rng.between(1, 3);
    settings.bigkeys.bytes_min = pick(rng, &[100, 10 << 10]);
    settings.bigkeys.max_len = pick(rng, &[0, 1, 128]) as usize;
    settings.observed.traces_sample = pick(rng, &[0, 1, 10]) as u32;
    settings.observed.slow_over_us = pick(rng, &[0, 1_000]);
    settings.observed.access = Access {
        sample: pick(rng, &[0, 1, 7]) as u32,
        commands: lookup(b"get").into_iter().filter(|_| rng.chance(300_000)).collect(),
        key_prefix: if rng.chance(300_000) { b"t1".to_vec() } else { Vec::new() },
        client: if rng.chance(300_000) { b"127.*".to_vec() } else { Vec::new() },
        slower_than_us: pick(rng, &[0, 500]),
    };
    let monitor = |number: u64| MonitorOptions {
        name: format!("monitor-{number}"),
        commands: vec![None, lookup(b"set")],
        bounds_us: vec![100 * (number + 1), 10_000],
    };
    settings.monitors = (0..rng.between(0, 2)).map(monitor).collect();
}

impl Plan {
    /// Settings that are in force at some time.
    fn all_settings(&self) -> impl Iterator<Item = &Settings> {
        [&self.settings].into_iter().chain(self.changes.iter().map(|change| &change.settings))
    }

    /// Whether this policy for reads is in force at some time.
    pub(crate) fn reads_by(&self, policy: ReadPolicy) -> bool {
        self.all_settings().any(|settings| settings.reads.policy == policy)
    }

    /// Whether copies may answer reads at some time.
    pub(crate) fn spreads_reads(&self) -> bool {
        self.all_settings().any(|settings| settings.reads.policy != ReadPolicy::Primary)
    }

    /// The bounds as wide as they ever are: what was let in by one that is lower now is still there.
    pub(crate) fn widest(&self) -> Limits {
        let mut widest = self.settings.limits.clone();
        for Limits {
            client_out_max_bytes,
            client_in_high_bytes,
            large_request_bytes,
            upstream_out_high_bytes,
            ..
        } in self.all_settings().map(|settings| &settings.limits)
        {
            widest.client_out_max_bytes = widest.client_out_max_bytes.max(*client_out_max_bytes);
            widest.client_in_high_bytes = widest.client_in_high_bytes.max(*client_in_high_bytes);
            widest.large_request_bytes = widest.large_request_bytes.max(*large_request_bytes);
            widest.upstream_out_high_bytes =
                widest.upstream_out_high_bytes.max(*upstream_out_high_bytes);
        }
        widest
    }

    /// Which deployment is in force after so many replacements.
    pub(crate) fn in_force(&self) -> Vec<usize> {
        let replaced = self.changes.iter().filter(|change| change.replaces);
        [self.deployment].into_iter().chain(replaced.map(|change| change.deployment)).collect()
    }

    /// Whether the configuration changes.
    pub(crate) fn changes(&self) -> bool {
        matches!(
            self.kind,
            Kind::Reconfigured | Kind::TroubledReconfigured | Kind::ReconfiguredAndAll
        )
    }
}
