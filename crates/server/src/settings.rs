//! From a configuration to what an engine and a worker are told.
//!
//! Process-wide bounds are divided by the number of workers here, rounded up, and nowhere else.

use crate::worker::gather::GatherOptions;
use config::{Config, PoolKind, UpstreamAddress};
use engine::node::Address;
use engine::settings::{Facade, Limits, Node, Password, Pool, Reads, Settings, Timeouts};

/// How the servers belong together.
fn pool(config: &Config) -> Pool {
    match &config.upstream.pool {
        PoolKind::Standalone => Pool::Standalone,
        PoolKind::Cluster { more_seeds } => {
            let seeds = [&config.upstream.address].into_iter().chain(more_seeds);
            Pool::Cluster { seeds: seeds.map(address).collect() }
        }
    }
}

/// Where a server is, as an engine names it.
fn address(address: &UpstreamAddress) -> Address {
    match address {
        UpstreamAddress::Tcp { host, port } => Address::tcp(host.clone(), *port),
        UpstreamAddress::Unix(path) => Address::Unix(path.to_string_lossy().into_owned()),
    }
}

/// The settings of one worker's engine.
pub fn engine(config: &Config, index: usize) -> Settings {
    let workers = config.workers.max(1);
    let limits = &config.limits;
    let timeouts = &config.timeouts;
    Settings {
        worker: index as u32,
        workers: workers as u32,
        node: Node {
            address: address(&config.upstream.address),
            user: config.upstream.user.as_ref().map(|user| user.clone().into_bytes()),
            password: config
                .upstream
                .password
                .as_ref()
                .map(|secret| Password::new(secret.reveal())),
            db: config.upstream.db,
            client_name: config.client_name_upstream.clone().into_bytes(),
        },
        pool: pool(config),
        reads: Reads::default(),
        facade: Facade::default(),
        shards: None,
        password: config.password.as_ref().map(|secret| Password::new(secret.reveal())),
        limits: Limits {
            clients_max: config.max_clients,
            client_out_high_bytes: limits.client_out_high_bytes,
            client_out_max_bytes: limits.client_out_max_bytes,
            client_in_high_bytes: limits.client_in_high_bytes,
            client_inflight_max: u32::try_from(limits.client_inflight_max).unwrap_or(u32::MAX),
            upstream_out_high_bytes: limits.upstream_out_high_bytes,
            memory_max_bytes: limits.memory_max_bytes / workers,
            large_request_bytes: limits.large_request_bytes as u64,
            large_transfers_max: limits.large_transfers_max.div_ceil(workers),
            upstreams_max: limits.upstream_conns_max.div_ceil(workers),
            bulk_bytes_max: limits.bulk_bytes_max as u64,
        },
        timeouts: Timeouts {
            connect_ms: timeouts.connect_ms,
            request_ms: timeouts.request_ms,
            client_idle_ms: timeouts.client_idle_ms,
            stall_ms: timeouts.stall_ms,
            topology_wait_ms: timeouts.topology_wait_ms,
            topology_period_ms: timeouts.topology_period_ms,
            failover_hold_ms: timeouts.failover_hold_ms,
            reconnect_min_ms: timeouts.reconnect_min_ms,
            reconnect_max_ms: timeouts.reconnect_max_ms,
        },
    }
}

/// How a worker makes batches.
pub fn gather(config: &Config) -> GatherOptions {
    let batching = &config.batching;
    GatherOptions {
        gather_us: batching.gather_us,
        completions: batching.gather_completions as u64,
        clients_min: batching.gather_clients_min as u64,
        polls: u32::try_from(batching.polls).unwrap_or(u32::MAX),
    }
}
