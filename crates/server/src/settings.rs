//! From a configuration to what an engine and a worker are told.
//!
//! Process-wide bounds are divided by the number of workers here, rounded up, and nowhere else.

use crate::admin::AdminSettings;
use crate::control::certificates::Certificates;
use crate::worker::gather::GatherOptions;
use config::{
    ClientAuth, Config, ListenAddress, MappedAddress, PoolKind, Secret, ShardUrl, Sharding,
    Upstream, UpstreamAddress, UpstreamUrl,
};
use engine::address_map::AddressMap;
use engine::node::Address;
use engine::settings::{
    Eject, Facade, Limits, MirrorSettings, Node, Password, Pool, ReadTargetSettings, Reads,
    ReadsElsewhere, Settings, ShardSettings, ShardsSettings, Timeouts,
};
use std::net::SocketAddr;

/// How a server is greeted. `client_name` is the name that our connections get there.
fn node(url: &UpstreamUrl, client_name: &str) -> Node {
    Node {
        address: address(&url.address),
        user: url.user.as_ref().map(|user| user.clone().into_bytes()),
        password: url.password.as_ref().map(password),
        db: url.db,
        client_name: client_name.as_bytes().to_vec(),
        tls: url.tls,
    }
}

/// How the servers of a URL belong together.
fn pool(url: &UpstreamUrl, client_name: &str) -> Pool {
    let seeds = || url.addresses().map(address).collect();
    match &url.pool {
        PoolKind::Standalone => Pool::Standalone,
        PoolKind::Cluster { .. } => Pool::Cluster { seeds: seeds() },
        PoolKind::Sentinel { name, user, password: secret, tls, .. } => {
            let greeting = Node {
                address: address(&url.address),
                user: user.as_ref().map(|user| user.clone().into_bytes()),
                password: secret.as_ref().map(password),
                // Sentinels have no databases.
                db: 0,
                client_name: client_name.as_bytes().to_vec(),
                tls: *tls,
            };
            Pool::Sentinel { seeds: seeds(), name: name.clone().into_bytes(), greeting }
        }
    }
}

/// The pools that share the keys.
fn shards(sharding: &Sharding, client_name: &str) -> ShardsSettings {
    let child = |ShardUrl { url, shard }: &ShardUrl| ShardSettings {
        shard: shard.clone(),
        node: node(url, client_name),
        pool: pool(url, client_name),
    };
    ShardsSettings {
        sharding: sharding.rules.clone(),
        children: sharding.shards.iter().map(child).collect(),
        eject: sharding.eject.map(|eject| Eject {
            failures: u32::try_from(eject.failures).unwrap_or(u32::MAX),
            window_ms: eject.window_ms,
            probe_ms: eject.probe_ms,
        }),
    }
}

/// A password as an engine keeps it.
fn password(secret: &Secret) -> Password {
    Password::new(secret.reveal())
}

/// Where a server is, as an engine names it.
fn address(address: &UpstreamAddress) -> Address {
    match address {
        UpstreamAddress::Tcp { host, port } => Address::tcp(host.clone(), *port),
        UpstreamAddress::Unix(path) => Address::Unix(path.to_string_lossy().into_owned()),
    }
}

/// What to connect to instead of addresses that servers tell.
fn address_map(config: &Config) -> AddressMap {
    let mut map = AddressMap::default();
    for entry in config.address_map.iter().cloned() {
        match entry {
            MappedAddress::Port { host, port, to_host, to_port } => {
                map.map_address(host, port, Address::tcp(to_host, to_port));
            }
            MappedAddress::Host { host, to_host } => map.map_host(host, to_host),
        }
    }
    map
}

/// Shared connections of one worker to one server: as many for each worker, and one at least.
fn shared_conns(per_node: usize, workers: usize) -> u16 {
    u16::try_from(per_node.div_ceil(workers).max(1)).unwrap_or(u16::MAX)
}

/// How respool shows itself to clients that know clusters.
fn facade(config: &Config) -> Facade {
    let tcp = |address: &SocketAddr| Address::tcp(address.ip().to_string(), address.port());
    let listens = config.listen.iter().map(|entry| match &entry.address {
        ListenAddress::Tcp(address) => tcp(address),
        ListenAddress::Unix(path) => Address::Unix(path.to_string_lossy().into_owned()),
    });
    Facade {
        on: config.facade.cluster,
        announce: config.facade.announce.iter().map(tcp).collect(),
        listens: listens.collect(),
        tls: config.has_tls_peers(),
    }
}

/// The settings of one worker's engine.
pub fn engine(config: &Config, index: usize) -> Settings {
    let workers = config.workers.max(1);
    let name = &config.client_name_upstream;
    // Of several shards each has its own greeting; credentials of one must not come into reach of another.
    let first = |url| Node { user: None, password: None, ..node(url, name) };
    let (node, pool, shards) = match &config.upstream {
        Upstream::One(url) => (node(url, name), pool(url, name), None),
        Upstream::Shards(sharding) => {
            let start = config.upstream.urls().next().map(first);
            let start = start.unwrap_or_else(|| Settings::default().node);
            (start, Pool::Standalone, Some(shards(sharding, name)))
        }
    };
    let limits = &config.limits;
    Settings {
        worker: index as u32,
        // Only whoever compares with the file knows them.
        pending: Vec::new(),
        workers: workers as u32,
        node,
        pool,
        address_map: address_map(config),
        reads: Reads {
            policy: config.reads.policy,
            lag_bytes_max: config.reads.lag_max as u64,
            zone: config.reads.zone.clone().unwrap_or_default(),
            zones: config.reads.zones.clone(),
            weights: config.reads.weights.clone(),
            primary_commands: config.reads.primary_commands.clone(),
        },
        on_upstream_loss: config.on_upstream_loss,
        facade: facade(config),
        shards,
        users: config.users.clone(),
        limits: Limits {
            clients_max: config.max_clients,
            client_out_high_bytes: limits.client_out_high_bytes,
            client_out_max_bytes: limits.client_out_max_bytes,
            client_in_high_bytes: limits.client_in_high_bytes,
            client_inflight_max: u32::try_from(limits.client_inflight_max).unwrap_or(u32::MAX),
            upstream_out_high_bytes: limits.upstream_out_high_bytes,
            memory_max_bytes: limits.memory_max_bytes / workers,
            large_request_bytes: limits.large_request_bytes as u64,
            large_reply_bytes: limits.large_reply_bytes as u64,
            large_transfers_max: limits.large_transfers_max.div_ceil(workers),
            upstreams_max: limits.upstream_conns_max.div_ceil(workers),
            shared_conns_max: (limits.shared_conns_max / workers).max(1),
            leases_max: limits.leases_max.div_ceil(workers),
            leases_min: limits.leases_min,
            noloop_conns_max: limits.noloop_conns_max.div_ceil(workers),
            shared_conns: shared_conns(limits.conns_per_node, workers),
            bulk_bytes_max: limits.bulk_bytes_max as u64,
        },
        timeouts: timeouts(&config.timeouts),
        coalesce_reads: config.batching.coalesce_reads,
        cache: cache(&config.cache),
        slowlog: engine::slowlog::Options {
            slower_than_us: config.slowlog.slower_than_us,
            max_len: config.slowlog.max_len,
        },
        monitors: config.latency_monitors.clone(),
        hotkeys: hotkeys(&config.hotkeys),
        bigkeys: engine::bigkeys::Options {
            bytes_min: config.bigkeys.bytes_min as u64,
            elements_min: config.bigkeys.elements_min as u64,
            max_len: config.bigkeys.max_len,
        },
        observed: observed(config),
        policies: config.intercepts.clone(),
        mirrors: mirrors(config),
        elsewhere: reads_elsewhere(config),
        // The worker knows its clock, and `tenants` whose engine it is.
        unix_ahead_us: 0,
        tenancy: None,
        pass_through: config.acl.pass_through,
        login: None,
    }
}

/// How long things may take.
fn timeouts(timeouts: &config::Timeouts) -> Timeouts {
    Timeouts {
        connect_ms: timeouts.connect_ms,
        request_ms: timeouts.request_ms,
        auth_ms: timeouts.auth_ms,
        client_idle_ms: timeouts.client_idle_ms,
        stall_ms: timeouts.stall_ms,
        topology_wait_ms: timeouts.topology_wait_ms,
        topology_period_ms: timeouts.topology_period_ms,
        failover_hold_ms: timeouts.failover_hold_ms,
        ping_ms: timeouts.ping_ms,
        resolve_ms: timeouts.resolve_ms,
        reconnect_min_ms: timeouts.reconnect_min_ms,
        reconnect_max_ms: timeouts.reconnect_max_ms,
        drain_ms: timeouts.drain_ms,
    }
}

/// Other deployments that get what clients write.
fn mirrors(config: &Config) -> Vec<MirrorSettings> {
    // All shards agree in it.
    let outer_db = config.upstream.db();
    let (mirrors, name) = (&config.mirrors, &config.client_name_upstream);
    // Their queues are nobody's, and clients are to have room beside them.
    let all = config.limits.memory_max_bytes / config.workers.max(1) / 2;
    let queue_max_bytes = mirrors.queue_max_bytes.min(all / mirrors.targets.len().max(1));
    let each = mirrors.targets.iter().map(|mirror| MirrorSettings {
        name: mirror.name(),
        node: node(mirror.url(), name),
        pool: pool(mirror.url(), name),
        outer_db,
        mode: mirror.mode,
        keys: mirror.keys.iter().map(|pattern| pattern.clone().into_bytes()).collect(),
        percent: mirror.percent,
        queue_max_bytes,
        flush: mirrors.flush,
        shadow_percent: mirror.shadow_percent,
        shadow_samples: mirrors.shadow_samples,
        shadow_ttl_ms: mirrors.shadow_ttl_tolerance_ms,
    });
    each.collect()
}

/// Other deployments that answer what clients read.
fn reads_elsewhere(config: &Config) -> ReadsElsewhere {
    let (targets, name) = (&config.read_targets, &config.client_name_upstream);
    // All shards agree in it.
    let outer_db = config.upstream.db();
    let each = targets.targets.iter().map(|target| ReadTargetSettings {
        name: target.name(),
        node: node(target.url(), name),
        pool: pool(target.url(), name),
        outer_db,
    });
    // Their bounds are far below.
    let percent = |percent: usize| u8::try_from(percent).unwrap_or(100);
    ReadsElsewhere {
        targets: each.collect(),
        order: targets.order,
        keys: targets.keys.iter().map(|pattern| pattern.clone().into_bytes()).collect(),
        percent: percent(targets.percent),
        hot_per_s: targets.hot_per_s as u64,
        timeout_ms: targets.timeout_ms,
        hedge_after_ms: targets.hedge_after_ms,
        hedge_percent: percent(targets.hedge_percent),
        inflight_max_bytes: targets.inflight_max_bytes,
    }
}

/// What holds for the admin listener.
pub(crate) fn admin(config: &Config, certificates: &Certificates) -> AdminSettings {
    AdminSettings {
        token: config.admin.token.as_ref().map(password),
        workers: config.workers,
        clients_max: config.max_clients,
        tls: certificates.admin(),
        wants_certificates: config.admin.tls.client_auth == ClientAuth::Required,
        ready_upstreams: config.admin.ready_upstreams,
    }
}

fn cache(config: &config::Cache) -> engine::near::Options {
    engine::near::Options {
        enabled: config.enabled,
        memory_max_bytes: config.memory_max_bytes,
        value_max_bytes: config.value_max_bytes,
        ttl_ms: config.ttl_ms,
        keys: config.keys.iter().map(|pattern| pattern.clone().into_bytes()).collect(),
        // Its bound is far below.
        min_reads: u32::try_from(config.min_reads).unwrap_or(u32::MAX),
    }
}

fn hotkeys(config: &config::HotKeys) -> engine::hotkeys::Options {
    engine::hotkeys::Options {
        enabled: config.enabled,
        // Its bounds are far below.
        sample: u32::try_from(config.sample).unwrap_or(u32::MAX),
        top: config.top,
        window_s: config.window_s,
        min_per_s: config.min_per_s as u64,
    }
}

/// Requests that are told one by one: what nobody would take is not looked for.
fn observed(config: &Config) -> engine::observed::Options {
    let (access, tracing, alarms) = (&config.access_log, &config.tracing, &config.alarms);
    let bytes = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    // Their bounds are far below.
    let count = |sample: usize| u32::try_from(sample).unwrap_or(u32::MAX);
    let tells_slow = alarms.webhook.is_some() && alarms.kinds.contains(&"slow");
    engine::observed::Options {
        access: engine::observed::Access {
            sample: count(access.sample),
            commands: access.commands.clone(),
            key_prefix: bytes(&access.key_prefix),
            client: bytes(&access.client),
            slower_than_us: access.slower_than_us,
        },
        traces_sample: if tracing.endpoint.is_some() { count(tracing.sample) } else { 0 },
        slow_over_us: if tells_slow { alarms.slow_over_us } else { 0 },
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

#[cfg(test)]
mod tests {
    use super::*;
    use config::{FileText, load_file};

    fn settings(text: &str) -> Settings {
        let no_files = |_: config::Place<'_>| Err(std::io::ErrorKind::NotFound.into());
        let file = FileText { name: "r.toml", text };
        engine(&load_file(file, &no_files).unwrap_or_else(|wrong| panic!("{text}\n{wrong}")), 0)
    }

    fn greeting(user: Option<&str>, secret: Option<&str>) -> (Option<Vec<u8>>, Option<Password>) {
        (user.map(|user| user.as_bytes().to_vec()), secret.map(Password::new))
    }

    #[test]
    fn sentinels_are_greeted_as_themselves_and_the_server_as_itself() {
        let settings = settings(
            "upstream = \"redis-sentinel://u:p@s1,s2:7/main?db=3&sentinel_user=w&sentinel_password=q\"\n\
             client_name_upstream = \"me\"",
        );
        let node = settings.node;
        assert_eq!((node.user, node.password), greeting(Some("u"), Some("p")));
        assert_eq!((node.db, node.client_name.as_slice()), (3, &b"me"[..]));
        assert_eq!(settings.shards, None);
        let Pool::Sentinel { seeds, name, greeting: to } = settings.pool else {
            panic!("no sentinels")
        };
        assert_eq!(seeds, [Address::tcp("s1", 26379), Address::tcp("s2", 7)]);
        assert_eq!((name.as_slice(), to.db), (&b"main"[..], 0));
        assert_eq!((to.user, to.password), greeting(Some("w"), Some("q")));
        assert_eq!(to.client_name, b"me");
    }

    /// The password of the servers is none of the sentinels' business.
    #[test]
    fn sentinels_get_no_password_of_the_server() {
        let settings = settings("upstream = \"redis-sentinel://s/m\"\nupstream_password = \"p\"");
        assert_eq!((settings.node.user, settings.node.password), greeting(None, Some("p")));
        let Pool::Sentinel { greeting: to, .. } = settings.pool else { panic!("no sentinels") };
        assert_eq!((to.user, to.password), greeting(None, None));
    }

    #[test]
    fn a_cluster_has_all_its_seeds() {
        let settings = settings("upstream = \"redis-cluster://:p@a,b:7,[::1]\"");
        let seeds = vec![Address::tcp("a", 6379), Address::tcp("b", 7), Address::tcp("::1", 6379)];
        assert_eq!(settings.pool, Pool::Cluster { seeds });
        assert_eq!((settings.node.user, settings.node.password), greeting(None, Some("p")));
    }

    #[test]
    fn each_shard_has_its_own_greeting_and_clients_start_where_all_are() {
        let settings = settings(
            r#"
            [sharding]
            compat = "overlord"
            shards = [
                "redis://u:p@a/2 weight=5",
                "redis-sentinel://:q@s1,s2/main?db=2",
                "redis+unix:///run/r.sock?db=2 name=local",
            ]"#,
        );
        assert_eq!(settings.node.db, 2);
        assert_eq!((settings.node.user, settings.node.password), greeting(None, None));
        let shards = settings.shards.expect("it is sharded");
        assert_eq!(shards.sharding.compat.name(), "overlord");
        assert_eq!(shards.eject, None);
        let [a, main, local] = &shards.children[..] else { panic!("three shards") };
        assert_eq!((a.shard.name.as_str(), a.shard.weight), ("a:6379", 5));
        assert_eq!((a.node.user.clone(), a.node.password.clone()), greeting(Some("u"), Some("p")));
        assert_eq!((a.node.address.clone(), &a.pool), (Address::tcp("a", 6379), &Pool::Standalone));
        assert_eq!(main.node.password, Some(Password::new("q")));
        let Pool::Sentinel { seeds, .. } = &main.pool else { panic!("no sentinels") };
        assert_eq!(seeds.len(), 2);
        assert_eq!(local.node.address, Address::Unix("/run/r.sock".into()));
        assert_eq!((local.node.password.clone(), local.node.db), (None, 2));
    }

    #[test]
    fn times_and_ejection_reach_the_engine() {
        let settings = settings(
            "[sharding]\nshards = [\"a:1:1\"]\n[sharding.eject]\nfailures = 5\nwindow_ms = 6\nprobe_ms = 70\n\
             [timeouts]\nping_ms = 8\nresolve_ms = 0",
        );
        let eject = Eject { failures: 5, window_ms: 6, probe_ms: 70 };
        assert_eq!(settings.shards.and_then(|shards| shards.eject), Some(eject));
        assert_eq!((settings.timeouts.ping_ms, settings.timeouts.resolve_ms), (8, 0));
    }
}
