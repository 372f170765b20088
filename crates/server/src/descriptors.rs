//! How the descriptors of the process are shared out among clients, servers, the admin listener and files.
//!
//! ```text
//!   limit of open files ─┬─ files: what was open at the start, listeners, what is opened later (log, configuration, resolver, receivers)
//!                        ├─ admin listener ─▶ Bounds
//!                        ├─ on the way out: accepted beyond the bound, closed a moment later ─▶ Tuning
//!                        ├─ connections to servers ─▶ limits.{upstream_conns,leases,noloop_conns,large_transfers}_max of every tenant
//!                        └─ clients ─▶ max_clients
//! ```
//! Where the limit has room for all that is configured, nothing is lowered. Else each part has a bound, and the bounds together are the limit: a
//! client can never get the descriptor that a lost connection to a server leaves. Clusters may have more nodes than anybody knows at the start; so
//! the last descriptors of the process ([`SPARE`]) are for no client besides, and beside other tenants each has a bound on connections to all its servers
//! (`limits.shared_conns_max`): the table of a tenant's cluster may name thousands of nodes, and must not take the descriptors of others.
//!
//! Not here: who is turned away (`worker::accept`), how limits are kept (`engine`).
//!
//! Invariant: the parts of a [`Allotment`] are together not above the limit.

use crate::admin::listen::Bounds;
use config::{Config, Limits, PoolKind, UpstreamUrl};
use netio::{ACCEPTS_MAX, sys};

/// Descriptors that were open when nobody had connected, beside listeners, if the system does not tell.
const OPEN_AT_START: usize = 48;

/// Descriptors for what is opened later: the log anew, the configuration and what it names, pipes of a command, the resolver's sockets, those of
/// receivers of spans and alarms, a file of /proc.
const LATER: usize = 12;

/// Those that no client gets, by the kernel's own count.
const SPARE: usize = LATER;

/// Kinds of connections that single clients have: leases, those of NOLOOP, large transfers.
const PRIVATE_KINDS: usize = 3;

/// Connections of a worker to a server that serve all: for each protocol, and for messages.
const SHARED_LEAST: usize = 3;

/// Nodes of a large cluster.
const LARGE_CLUSTER_NODES: usize = 1_000;

/// What was open at the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    /// Beside listeners.
    open: usize,
}

/// What each part gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allotment {
    /// The limit that it was made for.
    pub(crate) limit: usize,
    /// Clients at the same time.
    pub(crate) clients: usize,
    /// Connections to servers.
    pub(crate) upstreams: usize,
    /// Connections of the admin listener.
    pub(crate) admin: Bounds,
    /// Everything else.
    pub(crate) files: usize,
    /// Connections accepted at a time.
    accepts: u32,
    /// There is less than what is configured.
    pub(crate) is_scarce: bool,
}

/// There is not enough to serve anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of open files is {limit}, and at least {needed} are needed: {files} for files and listeners, {admin} for the admin listener, \
     {upstreams} for connections to servers, 1 for a client; raise it (`ulimit -n`, LimitNOFILE=)"
)]
pub struct Scarce {
    /// The limit.
    pub limit: usize,
    /// What would do.
    pub needed: usize,
    files: usize,
    admin: usize,
    upstreams: usize,
}

impl Descriptors {
    /// Counts what is open now, with the listeners of this configuration and a share of them for each worker.
    pub(crate) fn count(config: &Config) -> Self {
        let open = sys::open_files().map(|open| open.saturating_sub(of_listeners(config)));
        Self { open: open.unwrap_or(OPEN_AT_START) }
    }

    /// Shares out what the system allows for this configuration.
    pub(crate) fn share(self, config: &Config) -> Result<Allotment, Scarce> {
        let wanted = wanted(config, self.open.max(OPEN_AT_START)) + of_clusters(config);
        let limit = sys::raise_open_files(wanted);
        self.share_of(usize::try_from(limit).unwrap_or(usize::MAX), config)
    }

    fn share_of(self, limit: usize, config: &Config) -> Result<Allotment, Scarce> {
        let (wanted, clients_max) = (upstreams_wanted(config), config.max_clients);
        let files = self.open + of_listeners(config) + LATER;
        let admin = if config.admin.listen.is_empty() { 0 } else { Bounds::FULL.descriptors() };
        let passing = in_passing(config, ACCEPTS_MAX);
        let full = files + admin + passing + wanted + clients_max;
        if full <= limit {
            let (clients, upstreams, admin) = (clients_max, wanted, Bounds::FULL);
            let accepts = ACCEPTS_MAX;
            let files = files + passing;
            let is_scarce = false;
            return Ok(Allotment { limit, clients, upstreams, admin, files, accepts, is_scarce });
        }
        let accepts = |limit: usize| {
            (limit / 32 / config.workers.max(1)).clamp(1, ACCEPTS_MAX as usize) as u32
        };
        let fixed = |limit| files + in_passing(config, accepts(limit));
        let conns =
            |limit: usize| if admin == 0 { 0 } else { (limit / 8).clamp(ADMIN_LEAST, admin) };
        let least = upstreams_least(config);
        if fixed(limit) + conns(limit) + least >= limit {
            // Some parts grow with the limit, all of them together more slowly than it.
            let enough = |limit: &usize| fixed(*limit) + conns(*limit) + least < *limit;
            let needed = (limit..).find(enough).unwrap_or(usize::MAX);
            let (files, admin) = (fixed(needed), conns(needed));
            return Err(Scarce { limit, needed, files, admin, upstreams: least });
        }
        let (accepts, files, conns) = (accepts(limit), fixed(limit), conns(limit));
        let reserve = conns.div_ceil(8);
        let admin = Bounds { conns: conns - reserve, reserve };
        let rest = limit - files - conns;
        let upstreams = (rest / 3).clamp(least, wanted.max(least));
        let clients = (rest - upstreams).min(clients_max);
        // What clients may not use servers may.
        let upstreams = (rest - clients).min(wanted.max(least));
        Ok(Allotment { limit, clients, upstreams, admin, files, accepts, is_scarce: true })
    }
}

/// Connections of the admin listener at least: one of them is the reserve.
const ADMIN_LEAST: usize = 4;

/// Has the system allow as many descriptors as the configuration needs, as far as it does.
pub(crate) fn raise(config: &Config) {
    sys::raise_open_files(wanted(config, OPEN_AT_START) + of_clusters(config));
}

/// Connections to nodes of clusters that nobody knows at the start: as many as a large cluster has, if the system allows so many descriptors.
fn of_clusters(config: &Config) -> u64 {
    let is_cluster = |url: &&UpstreamUrl| matches!(url.pool, PoolKind::Cluster { .. });
    let clusters = config.urls().filter(is_cluster).count();
    (clusters * config.workers.max(1) * SHARED_LEAST * LARGE_CLUSTER_NODES) as u64
}

/// What everything that is configured takes, beside so many that are open anyway.
fn wanted(config: &Config, open: usize) -> u64 {
    let files = open + LATER + of_listeners(config) + in_passing(config, ACCEPTS_MAX);
    let admin = Bounds::FULL.descriptors();
    (config.max_clients + upstreams_wanted(config) + files + admin) as u64
}

/// Each worker has its share of each.
fn of_listeners(config: &Config) -> usize {
    config.listen.len() * (config.workers + 1)
}

/// Connections that are accepted and not judged, and, with io_uring, closed and not gone.
fn in_passing(config: &Config, accepts: u32) -> usize {
    config.workers.max(1) * accepts as usize * 2
}

/// The default tenant and the others.
fn tenants(config: &Config) -> impl Iterator<Item = &Config> {
    std::iter::once(config).chain(config.tenants.iter().map(|tenant| &tenant.config))
}

/// Deployments of a tenant beside its own: each has an engine, with limits as its own has them.
fn others(config: &Config) -> usize {
    config.mirrors.targets.len() + config.read_targets.targets.len()
}

/// Connections to servers at most, as far as servers are known. Each worker's share of a bound is rounded up, hence the number of workers on top.
fn upstreams_wanted(config: &Config) -> usize {
    let of_one = |config: &Config| {
        let Limits { upstream_conns_max, leases_max, noloop_conns_max, .. } = config.limits;
        let to_each = upstream_conns_max + config.workers;
        let private = leases_max + noloop_conns_max + config.limits.large_transfers_max;
        to_each * (config.upstream.urls().count() + others(config)) + private
    };
    tenants(config).map(of_one).sum()
}

/// Connections to servers without which some client would be refused whatever others do.
fn upstreams_least(config: &Config) -> usize {
    let workers = config.workers.max(1);
    workers * (servers(config) * SHARED_LEAST + engines(config) * PRIVATE_KINDS)
}

fn servers(config: &Config) -> usize {
    tenants(config).map(|config| config.upstream.urls().count() + others(config)).sum()
}

fn engines(config: &Config) -> usize {
    tenants(config).map(|config| 1 + others(config)).sum()
}

impl Allotment {
    /// The configuration with what it can have, for workers.
    pub(crate) fn fit(&self, config: &Config) -> Config {
        let mut fit = config.clone();
        if self.is_scarce {
            self.lower(config, &mut fit);
        }
        if !fit.tenants.is_empty() {
            self.part_servers(&mut fit);
        }
        fit
    }

    /// Bounds the connections to all servers of each tenant, by the number of its servers in the configuration.
    fn part_servers(&self, fit: &mut Config) {
        let workers = fit.workers.max(1);
        let admin = if fit.admin.listen.is_empty() { 0 } else { self.admin.descriptors() };
        let room = self.limit.saturating_sub(self.files + admin + self.clients);
        // Few of the connections of single clients are in use at a time, and clients are seldom as many as they may be.
        let each = room / servers(fit).max(1);
        let part = |config: &mut Config| {
            // Each deployment has the bound for itself.
            let (urls, others) = (config.upstream.urls().count(), others(config));
            let even = each * (urls + others) / (1 + others);
            config.limits.shared_conns_max = even.max(SHARED_LEAST * workers * urls);
        };
        part(fit);
        fit.tenants.iter_mut().for_each(|tenant| part(&mut tenant.config));
    }

    /// Lowers the configured limits to the descriptors that there are.
    fn lower(&self, config: &Config, fit: &mut Config) {
        fit.max_clients = self.clients.min(config.max_clients);
        let workers = config.workers.max(1);
        // Bounds are divided among workers, each of which gets one at least: what is a multiple of them is kept exactly.
        let even = |conns: usize| (conns / workers).max(1) * workers;
        let private_least = engines(config) * PRIVATE_KINDS * workers;
        let servers = servers(config).max(1);
        // Half for what serves all, half for single clients.
        let shared = (self.upstreams / 2 / servers).max(SHARED_LEAST * workers);
        let shared = even(shared.min(self.upstreams.saturating_sub(private_least) / servers));
        let private = self.upstreams.saturating_sub(shared * servers);
        let private = even(private / engines(config) / PRIVATE_KINDS);
        let lower = |limits: &mut Limits| {
            let at_most = |bound: &mut usize, max: usize| *bound = (*bound).min(max);
            at_most(&mut limits.upstream_conns_max, shared);
            at_most(&mut limits.conns_per_node, shared);
            at_most(&mut limits.leases_max, private);
            at_most(&mut limits.noloop_conns_max, private);
            at_most(&mut limits.large_transfers_max, private);
        };
        lower(&mut fit.limits);
        fit.tenants.iter_mut().for_each(|tenant| lower(&mut tenant.config.limits));
    }

    /// How drivers accept.
    pub(crate) fn accepting(&self) -> (u32, u32) {
        let max = self.limit.saturating_sub(SPARE);
        let max = if self.is_scarce { u32::try_from(max).unwrap_or(u32::MAX) } else { u32::MAX };
        (self.accepts, max)
    }

    /// Tells the log, unless it is as before.
    pub(crate) fn tell(&self, config: &Config, before: Option<&Self>) {
        if !self.is_scarce || before == Some(self) {
            return;
        }
        tracing::warn!(
            open_files = self.limit,
            wanted = wanted(config, OPEN_AT_START),
            max_clients = config.max_clients,
            clients = self.clients,
            upstream_conns = self.upstreams,
            admin_conns = self.admin.descriptors(),
            files = self.files,
            "the limit of open files is too low (see `ulimit -n`): max_clients is lowered from {} to {}, and connections to servers to {}",
            config.max_clients,
            self.clients,
            self.upstreams
        );
    }

    /// Why there cannot be so many clients as somebody asks for; `None`: there can.
    pub(crate) fn lacks(&self, config: &Config) -> Option<String> {
        (config.max_clients > self.clients).then(|| {
            format!(
                "{} clients are more than the limit of open files ({}) has room for beside servers, admin listener and files: at most {}",
                config.max_clients, self.limit, self.clients
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{FileText, load_file};

    fn config(text: &str) -> Config {
        let no_files = |_: config::Place<'_>| Err(std::io::ErrorKind::NotFound.into());
        let file = FileText { name: "r.toml", text };
        load_file(file, &no_files).unwrap_or_else(|wrong| panic!("{text}\n{wrong}"))
    }

    fn configs() -> Vec<Config> {
        let one = "upstream = \"redis://127.0.0.1:6379\"\n";
        let admin = "[admin]\nlisten = \"127.0.0.1:6390\"\n";
        let more = "[mirrors]\ntargets = [\"redis://127.0.0.1:1\"]\n[read_targets]\ntargets = [\"redis://127.0.0.1:2\"]\n[tenants.t]\nupstream = \"redis://127.0.0.1:3\"\nclient_names = [\"t-*\"]\n";
        [1, 2, 16]
            .iter()
            .flat_map(|workers| {
                let one = format!("workers = {workers}\n{one}");
                let some = format!("max_clients = 30\n{one}{admin}");
                let mirrors = format!(
                    "{one}{admin}{}",
                    more.replace("[mirrors]\n", "[mirrors]\nacross_workers = true\n")
                );
                [one.clone(), format!("{one}{admin}"), some, mirrors]
            })
            .map(|text| config(&text))
            .collect()
    }

    /// What workers may hold by these limits, rounded as `settings` rounds.
    fn upstreams_of(config: &Config) -> usize {
        let workers = config.workers;
        let all = |bound: usize| bound.div_ceil(workers) * workers;
        let of_one = |config: &Config| {
            let limits = &config.limits;
            let private = all(limits.leases_max)
                + all(limits.noloop_conns_max)
                + all(limits.large_transfers_max);
            let servers = config.upstream.urls().count() + others(config);
            all(limits.upstream_conns_max) * servers + private * (1 + others(config))
        };
        tenants(config).map(of_one).sum()
    }

    /// For every limit: the parts are together not above it, each configured bound holds, and what is refused is refused with a number that does.
    #[test]
    fn parts_are_together_not_above_the_limit() {
        for config in configs() {
            let descriptors = Descriptors { open: 17 };
            let mut served = 0;
            for limit in (0..3_000).chain([4_096, 10_000, 20_000, 65_536, 1 << 20]) {
                let share = match descriptors.share_of(limit, &config) {
                    Ok(share) => share,
                    Err(scarce) => {
                        assert_eq!(served, 0, "{limit}: less did");
                        assert!(scarce.needed > limit, "{scarce}");
                        assert!(descriptors.share_of(scarce.needed, &config).is_ok(), "{scarce}");
                        assert!(scarce.to_string().contains(&limit.to_string()), "{scarce}");
                        continue;
                    }
                };
                served += 1;
                let Allotment { clients, upstreams, admin, files, .. } = share;
                let admin = if config.admin.listen.is_empty() { 0 } else { admin.descriptors() };
                assert!(clients + upstreams + admin + files <= limit, "{share:?}");
                assert!((1..=config.max_clients).contains(&clients), "{share:?}");
                let fit = share.fit(&config);
                assert_eq!(fit.max_clients, clients);
                assert!(
                    !share.is_scarce || upstreams_of(&fit) <= upstreams,
                    "{share:?}: {:?}",
                    fit.limits
                );
                let least = fit.limits.upstream_conns_max.min(fit.limits.leases_max);
                assert!(least >= config.workers, "{share:?}: {:?}", fit.limits);
                assert_eq!(share.lacks(&config).is_some(), clients < config.max_clients);
            }
            assert!(served > 1_000);
            let ample = descriptors.share_of(1 << 20, &config).unwrap();
            assert!(!ample.is_scarce && ample.clients == config.max_clients);
            let mut fit = ample.fit(&config);
            let no_bounds = |config: &mut Config| config.limits.shared_conns_max = usize::MAX;
            no_bounds(&mut fit);
            fit.tenants.iter_mut().for_each(|tenant| no_bounds(&mut tenant.config));
            assert_eq!(fit, config);
        }
    }

    /// Shared connections to servers by the bounds of all tenants.
    fn all_conns(fit: &Config) -> usize {
        tenants(fit).map(|config| config.limits.shared_conns_max * (1 + others(config))).sum()
    }

    // Found by an attack: the table of one tenant's cluster named 2,000 nodes, and no client of any tenant found a descriptor.
    #[test]
    fn servers_of_one_tenant_leave_descriptors_for_clients_and_for_other_tenants() {
        let mut bounded = 0;
        for config in configs() {
            // Below, the least that each server needs may be more.
            for limit in [1_024, 4_096, 20_000, 65_536, 1 << 20] {
                let descriptors = Descriptors { open: 17 };
                let Ok(share) = descriptors.share_of(limit, &config) else { continue };
                let fit = share.fit(&config);
                if config.tenants.is_empty() {
                    assert_eq!(fit.limits.shared_conns_max, usize::MAX);
                    continue;
                }
                let Allotment { clients, admin, files, .. } = share;
                let all = clients + admin.descriptors() + files + all_conns(&fit);
                assert!(all <= limit, "{limit}: {share:?} {all}");
                bounded += 1;
            }
        }
        assert!(bounded > 6, "{bounded}");
    }

    #[test]
    fn little_is_enough_for_few() {
        let config = config(
            "workers = 1\nupstream = \"redis://127.0.0.1:6379\"\n[admin]\nlisten = \"127.0.0.1:1\"\n",
        );
        let clients =
            |limit| Descriptors { open: 14 }.share_of(limit, &config).map(|share| share.clients);
        assert!(clients(120).unwrap() >= 40, "{:?}", clients(120));
        assert!(clients(1_024).unwrap() >= 500, "{:?}", clients(1_024));
        assert!(clients(64).unwrap() >= 10, "{:?}", clients(64));
        let scarce = clients(32).unwrap_err();
        assert!(scarce.needed < 50, "{scarce}");
    }
}
