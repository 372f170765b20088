//! The plans with several servers behind: a cluster, one whose copies answer reads, or shards.
//!
//! Not here: what all plans have (`plan`).
//!
//! Invariant: on kinds where nothing fails nothing is planned that costs a well-made proxy an error; what waits there, waits long enough.

use engine::node;
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution, Route, Routes, Shard, Sharding};
use engine::settings::{
    Eject, Limits, Pool, ReadPolicy, Reads, ShardSettings, ShardsSettings, Timeouts,
};
use netio::sim::SimRng;

use super::{FIRST_PORT, Kind, Layout, Plan, Trouble, pick};
use crate::cluster::Restless;

/// The finest pieces of most runs.
const CUT_BYTES_MIN: usize = 40;

/// Longer than any run, in milliseconds: what waits so long waits for ever.
const FOR_EVER_MS: u64 = 3_000_000;

/// Makes several servers of the one of a plan.
pub(super) fn make_several(plan: &mut Plan, rng: &mut SimRng) {
    let spread = matches!(plan.kind, Kind::Replicas | Kind::TroubledReplicas);
    if spread || rng.chance(850_000) {
        coarsen(plan);
    }
    plan.layout = layout(plan, rng);
    plan.reorders = plan.is_cluster() && rng.chance(500_000);
    let addresses = addresses(plan);
    // A handful of clients on one machine's worth of servers: what many clients do is the concern of the other kinds.
    plan.clients = plan.clients.min(16);
    plan.settings.limits.shared_conns = pick(rng, &[1, 1, 3]) as u16;
    if !plan.kind.server_fails() {
        // A large request cannot be sent on, so where slots move it may fail.
        let large_request_bytes = Limits::default().large_request_bytes;
        plan.settings.limits.large_request_bytes = large_request_bytes;
    }
    times(plan, rng);
    match plan.layout {
        Layout::One => {}
        Layout::Cluster(_) => {
            let first = rng.between(0, addresses.len() as u64 - 1) as usize;
            let count = rng.between(1, addresses.len() as u64) as usize;
            let seeds = addresses.iter().cycle().skip(first).take(count).cloned().collect();
            plan.settings.pool = Pool::Cluster { seeds };
        }
        Layout::Shards { cache, .. } => {
            plan.settings.shards = Some(shards(plan, &addresses, cache, rng));
        }
    }
    if spread {
        plan.settings.reads = reads(rng);
    }
    plan.troubles = troubles(plan, addresses.len(), rng);
}

/// Tables, and what nodes tell of themselves every second, are long: in single bytes they would be all that most runs do.
pub(super) fn coarsen(plan: &mut Plan) {
    for faults in [&mut plan.client_faults, &mut plan.server_faults] {
        faults.read_bytes_max = faults.read_bytes_max.max(CUT_BYTES_MIN);
        faults.write_bytes_max = faults.write_bytes_max.max(CUT_BYTES_MIN);
        faults.segment_bytes_max = faults.segment_bytes_max.max(CUT_BYTES_MIN);
        faults.socket_bytes_max = faults.socket_bytes_max.max(CUT_BYTES_MIN);
    }
}

pub(super) fn layout(plan: &Plan, rng: &mut SimRng) -> Layout {
    let kind = plan.kind;
    let spread = matches!(kind, Kind::Replicas | Kind::TroubledReplicas);
    // Each moved slot makes every table longer, and single bytes take long for it.
    let steps: &[u64] = match plan.finest_cut() {
        ..CUT_BYTES_MIN => &[0, 12, 25],
        _ if plan.is_slow() => &[0, 20, 60, 200],
        _ => &[0, 60, 400, 1_500],
    };
    match kind {
        Kind::Shards => Layout::Shards { count: rng.between(2, 3) as usize, cache: false },
        Kind::TroubledShards => {
            Layout::Shards { count: rng.between(2, 3) as usize, cache: rng.chance(500_000) }
        }
        _ => Layout::Cluster(Restless {
            shards: rng.between(2, 4) as usize,
            replicas: rng.between(u64::from(spread), 2) as usize,
            gap_us: pick(rng, &[100, 1_000, 5_000]),
            steps: pick(rng, steps) as u32,
            // While requests are in a connection to the source the slot must not come back, or those behind them are served there at once
            // and no proxy can help it.
            again_us: if plan.is_slow() { u64::MAX } else { 30_000 },
            detect_us: pick(rng, &[5_000, 50_000, 300_000]),
        }),
    }
}

fn addresses(plan: &Plan) -> Vec<node::Address> {
    let count = plan.addresses().len() as u16;
    (0..count).map(|index| node::Address::tcp("127.0.0.1", FIRST_PORT + index)).collect()
}

pub(super) fn times(plan: &mut Plan, rng: &mut SimRng) {
    let timeouts = &mut plan.settings.timeouts;
    if plan.kind.server_fails() {
        *timeouts = Timeouts {
            topology_wait_ms: pick(rng, &[50, 2_000]),
            topology_period_ms: pick(rng, &[0, 300, 10_000]),
            failover_hold_ms: pick(rng, &[0, 100, 1_500]),
            ping_ms: pick(rng, &[0, 100]),
            ..timeouts.clone()
        };
    } else {
        *timeouts = Timeouts {
            topology_wait_ms: FOR_EVER_MS,
            topology_period_ms: pick(rng, &[0, 300, 10_000]),
            failover_hold_ms: FOR_EVER_MS,
            ..timeouts.clone()
        };
    }
}

fn shards(
    plan: &Plan,
    addresses: &[node::Address],
    cache: bool,
    rng: &mut SimRng,
) -> ShardsSettings {
    let hashes = [Hash::Fnv1a64, Hash::Crc16, Hash::Md5, Hash::Murmur];
    let ketama = rng.chance(500_000);
    let sharding = Sharding {
        compat: Compat::Twemproxy,
        distribution: if ketama { Distribution::Ketama } else { Distribution::Modula },
        hash: hashes[rng.between(0, hashes.len() as u64 - 1) as usize],
        tag: rng.chance(500_000).then_some(*b"{}"),
        routes: rng.chance(400_000).then(|| routes(addresses.len() as u16, rng)),
    };
    let child = |(index, address): (usize, &node::Address)| ShardSettings {
        shard: Shard { name: format!("shard-{index}"), weight: 1 },
        node: engine::settings::Node { address: address.clone(), ..plan.settings.node.clone() },
        pool: Pool::Standalone,
    };
    let eject = cache.then(|| Eject {
        failures: rng.between(1, 3) as u32,
        window_ms: pick(rng, &[100, 1_000]),
        probe_ms: pick(rng, &[50, 300]),
    });
    ShardsSettings { sharding, children: addresses.iter().enumerate().map(child).collect(), eject }
}

/// Routes by what the scripts' keys begin with, and one for all others, each to a shard or to all. In half of the runs one prefix has a shard to itself,
/// which does not see it.
fn routes(shards: u16, rng: &mut SimRng) -> Routes {
    let prefixes = ["", "t", "t1", "t{", "n", "l{2", "p", "p2:", "d", "d3", "common:", "q:"];
    let removes = shards > 1 && rng.chance(500_000);
    let removed = removes.then(|| {
        let at = rng.between(1, prefixes.len() as u64 - 1) as usize;
        (prefixes[at], rng.between(0, u64::from(shards) - 1) as u16)
    });
    let is_free = |shard: &u16| removed.is_none_or(|(_, its)| its != *shard);
    let others: Vec<u16> = (0..shards).filter(is_free).collect();
    let mut list = Vec::new();
    for prefix in prefixes {
        match removed {
            Some((its, shard)) if its == prefix => {
                list.push(Route { prefix: prefix.into(), shards: vec![shard], removes: true });
            }
            _ if prefix.is_empty() || rng.chance(600_000) => {
                let one = others[rng.between(0, others.len() as u64 - 1) as usize];
                let shards = if rng.chance(600_000) { vec![one] } else { others.clone() };
                list.push(Route { prefix: prefix.into(), shards, removes: false });
            }
            _ => {}
        }
    }
    Routes { ignore_case: removed.is_none() && rng.chance(300_000), list }
}

pub(super) fn reads(rng: &mut SimRng) -> Reads {
    let policies = [
        ReadPolicy::PreferReplica,
        ReadPolicy::Replica,
        ReadPolicy::Any,
        ReadPolicy::Nearest,
        ReadPolicy::Zone,
    ];
    let policy = policies[rng.between(0, policies.len() as u64 - 1) as usize];
    let zones = [("127.0.0.1:7000", "here"), ("127.0.0.1:7003", "here")];
    Reads {
        policy,
        zone: "here".to_owned(),
        zones: zones.map(|(node, zone)| (node.to_owned(), zone.to_owned())).to_vec(),
        ..Reads::default()
    }
}

/// Each node suffers alone, so that often others are well, and sometimes none is.
pub(super) fn troubles(
    plan: &Plan,
    servers: usize,
    rng: &mut SimRng,
) -> Vec<(u64, usize, Trouble)> {
    const ANY: [Trouble; 6] = [
        Trouble::Dead,
        Trouble::Frozen,
        Trouble::Mute,
        Trouble::Full,
        Trouble::HalfReplies,
        Trouble::Reset,
    ];
    // Nothing breaks by these.
    const KIND: [Trouble; 2] = [Trouble::FailOver, Trouble::InTheDark];
    const OF_NODES: [Trouble; 3] = [Trouble::Down, Trouble::Loading, Trouble::ReadOnly];
    let mut of: Vec<Trouble> = Vec::new();
    if plan.kind.server_fails() {
        of.extend(ANY);
    }
    if plan.is_cluster() {
        of.extend(KIND);
        of.extend(OF_NODES.iter().filter(|_| plan.kind.server_fails() && plan.reorders));
    }
    let mut list = Vec::new();
    if of.is_empty() {
        return list;
    }
    for _ in 0..rng.between(1, 7) {
        let node = rng.between(0, servers as u64 - 1) as usize;
        let begin_us = rng.between(0, 800_000);
        let trouble = of[rng.between(0, of.len() as u64 - 1) as usize];
        list.push((begin_us, node, trouble));
        if trouble != Trouble::FailOver {
            list.push((begin_us + rng.between(1_000, 700_000), node, Trouble::Well));
        }
    }
    list.sort_by_key(|(at_us, ..)| *at_us);
    list
}
