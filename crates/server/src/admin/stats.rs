//! `/stats`: totals of the process and of each worker, for whoever asks again and takes the difference.
//!
//! Not here: what is counted of each command or server (`latency`, `upstreams`), and all of it by name (`metrics`).
//!
//! Invariant: `total` is the sum of `workers`, and times are of all commands together.

use super::shadow::Compared;
use super::{App, Refusal};
use axum::Json;
use axum::extract::State;
use engine::elsewhere::{ReadTargetReport, read_targets_of};
use engine::fleet::Report;
use engine::histogram::Histogram;
use engine::mirror::{MirrorReport, mirrors_of};
use engine::report::{by_tenant, listeners_of};
use engine::stats::Refused;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The process at this moment.
#[derive(Serialize, ToSchema)]
pub(super) struct Stats {
    /// Version of respool.
    version: String,
    /// Its process id.
    pid: u32,
    /// Microseconds since it started.
    uptime_us: u64,
    /// When it started, in seconds since 1970.
    started_unix_s: u64,
    /// CPU time of the process in its own code, in microseconds.
    cpu_user_us: u64,
    /// The same in the kernel.
    cpu_system_us: u64,
    /// Resident memory, in bytes.
    rss_bytes: u64,
    /// The most that was ever resident.
    rss_max_bytes: u64,
    /// How many clients there may be.
    clients_max: u64,
    /// Where clients come in.
    listeners: Vec<ListenerClients>,
    /// Clients that were turned away, by reason.
    refused: BTreeMap<&'static str, u64>,
    /// All workers together.
    total: Totals,
    /// Each worker.
    workers: Vec<Worker>,
    /// Each tenant; not there, where there is only the default one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tenants: Vec<Tenant>,
    /// Times of all commands.
    latency: Times,
    /// Other deployments that get what clients write.
    mirrors: Vec<Mirror>,
    /// Other deployments that answer what clients read.
    read_targets: Vec<ReadTarget>,
}

/// A read target, and what became of what it was asked; of all workers together.
#[derive(Serialize, ToSchema)]
pub(super) struct ReadTarget {
    /// Its name.
    name: String,
    /// The tenant whose reads it answers, if there are tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// `ready`, or `out` if a worker leaves it out: it failed and has not answered since.
    state: &'static str,
    /// Reads under way, also those that nobody waits for any more.
    open: u64,
    /// Bytes of them.
    open_bytes: u64,
    /// Reads that it answered.
    answered: u64,
    /// Those that it could not answer, as its servers were not there, or not ready.
    failed: u64,
    /// Those that it had not answered in time.
    late: u64,
    /// Those that it answered with an error that another deployment may not have.
    refused: u64,
    /// Those that were not sent, as too much was under way.
    full: u64,
    /// Those that it was asked since the upstream took long.
    hedged: u64,
    /// How often it was left out.
    outages: u64,
}

/// A mirror, and what became of what it was sent.
#[derive(Serialize, ToSchema)]
pub(super) struct Mirror {
    /// Its name.
    name: String,
    /// The tenant whose writes it gets, if there are tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// `first`, `all` or `all-checked`.
    mode: &'static str,
    /// `ready`, `waiting` (it does not answer), `idle` (nothing was sent yet) or `leaving` (it is no mirror any more, and gets what waits for it).
    state: &'static str,
    /// How long ago the primary did the oldest write that it has not answered, in milliseconds.
    lag_ms: u64,
    /// Writes that it has not answered.
    queued: u64,
    /// Bytes of them.
    queued_bytes: u64,
    /// Writes that it did.
    done: u64,
    /// Those that it refused, or of which nobody knows whether it did them.
    failed: u64,
    /// Those that were never sent.
    dropped: u64,
    /// Those of which nobody knows whether the primary did them.
    unsure: u64,
    /// Its error replies by their first word.
    errors: BTreeMap<String, u64>,
    /// Reads that were to be compared with what it says; `null`: none are. `/shadow` has more.
    shadow: Option<Compared>,
}

/// A listener and its clients.
#[derive(Serialize, ToSchema)]
pub(super) struct ListenerClients {
    /// Its name, or its address.
    name: String,
    /// Clients now.
    clients: u64,
}

/// A worker.
#[derive(Serialize, ToSchema)]
pub(super) struct Worker {
    /// Its number, from 0.
    worker: u32,
    /// What it has.
    #[serde(flatten)]
    totals: Totals,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(super) struct Tenant {
    /// Its name.
    tenant: String,
    /// What it has. Of the time that workers are busy the default tenant has all, as it is not counted by tenant.
    #[serde(flatten)]
    totals: Totals,
}

/// Counters since the start or `CONFIG RESETSTAT`, and what is at this moment.
#[derive(Clone, Default, Serialize, ToSchema)]
pub(super) struct Totals {
    /// CPU time of the workers' threads in their own code, in microseconds. How busy a worker is: this and the next against the time that passed.
    busy_user_us: u64,
    /// The same in the kernel.
    busy_system_us: u64,
    /// Requests of clients.
    requests: u64,
    /// Those of them that the near cache answered.
    cache_hits: u64,
    /// Those of them that it might have answered, and did not.
    cache_misses: u64,
    /// Error replies that clients got.
    errors: u64,
    /// Bytes from clients.
    client_in_bytes: u64,
    /// Bytes to clients.
    client_out_bytes: u64,
    /// Requests that were written to servers, those of respool itself too.
    upstream_requests: u64,
    /// Writes to servers; `upstream_requests` ÷ this is the size of a batch.
    upstream_writes: u64,
    /// Replies that sent a request on to another server, or to the same one later.
    redirects: u64,
    /// Clients now.
    clients: u64,
    /// Requests that wait for a reply now.
    inflight: u64,
    /// Bytes buffered for clients and servers now.
    buffered_bytes: u64,
    /// Replies in the near cache now.
    cache_entries: u64,
}

/// How long requests took, from being sent to their replies.
#[derive(Serialize, ToSchema)]
pub(super) struct Times {
    /// How many were counted.
    count: u64,
    /// All together.
    sum_us: u64,
    /// Buckets that are not empty, in the order of time: what is shorter than so many microseconds (`null`: no end) and in no bucket before, and its
    /// count. Each is an eighth wide, so quantiles are that exact.
    buckets: Vec<(Option<u64>, u64)>,
}

/// Totals of the process and its workers
///
/// Cheap to ask once a second: rates, and quantiles of the time between, are the difference of two answers.
#[utoipa::path(get, path = "/stats", tag = "metrics", responses(
    (status = 200, description = "Totals", body = Stats),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn stats(State(app): State<App>) -> Result<Json<Stats>, Refusal> {
    let (reports, facts) = (app.reports().await?, app.facts());
    let mut workers: Vec<Worker> = Vec::new();
    for report in &reports {
        let totals = Totals::of(report);
        match workers.iter_mut().find(|worker| worker.worker == report.worker) {
            Some(worker) => worker.totals.add(&totals),
            None => workers.push(Worker { worker: report.worker, totals }),
        }
    }
    workers.sort_by_key(|worker| worker.worker);
    let mut total = Totals::default();
    workers.iter().for_each(|worker| total.add(&worker.totals));
    let (listeners, refused) = (listeners(&reports), refused(&reports));
    let (tenants, latency) = (tenants(&reports), Times::of(&reports));
    let (mut mirrors, mut read_targets) = (Vec::new(), Vec::new());
    for (tenant, reports) in by_tenant(reports) {
        let tenant = tenant.as_deref();
        mirrors.extend(mirrors_of(&reports).iter().map(|one| Mirror::of(tenant, one)));
        let targets = read_targets_of(&reports).into_iter();
        read_targets.extend(targets.map(|one| ReadTarget::of(tenant, one)));
    }
    let uptime_us = u64::try_from(app.process.started.elapsed().as_micros());
    Ok(Json(Stats {
        version: facts.version,
        pid: facts.pid,
        uptime_us: uptime_us.unwrap_or(u64::MAX),
        started_unix_s: facts.started_unix_s,
        cpu_user_us: facts.cpu_user_us,
        cpu_system_us: facts.cpu_system_us,
        rss_bytes: facts.rss_bytes,
        rss_max_bytes: facts.rss_max_bytes,
        clients_max: facts.clients_max,
        listeners,
        refused,
        total,
        workers,
        tenants,
        latency,
        mirrors,
        read_targets,
    }))
}

fn tenants(reports: &[Report]) -> Vec<Tenant> {
    let mut tenants: Vec<Tenant> = Vec::new();
    for (name, report) in reports.iter().filter_map(|r| Some((r.tenant.as_deref()?, r))) {
        let totals = Totals::of(report);
        match tenants.iter_mut().find(|tenant| tenant.tenant == name) {
            Some(tenant) => tenant.totals.add(&totals),
            None => tenants.push(Tenant { tenant: name.to_owned(), totals }),
        }
    }
    tenants
}

fn listeners(reports: &[Report]) -> Vec<ListenerClients> {
    let each = listeners_of(reports).into_iter();
    each.map(|(label, clients)| ListenerClients { name: label.to_string(), clients }).collect()
}

fn refused(reports: &[Report]) -> BTreeMap<&'static str, u64> {
    let of = |why: Refused| reports.iter().map(|report| report.stats.refused[why as usize]).sum();
    Refused::ALL.into_iter().map(|why| (why.word(), of(why))).collect()
}

impl ReadTarget {
    fn of(tenant: Option<&str>, report: ReadTargetReport) -> Self {
        let counts = report.counts;
        Self {
            name: report.name,
            tenant: tenant.map(str::to_owned),
            state: if report.is_out { "out" } else { "ready" },
            open: report.open,
            open_bytes: report.open_bytes,
            answered: counts.answered,
            failed: counts.failed,
            late: counts.late,
            refused: counts.refused,
            full: counts.full,
            hedged: counts.hedged,
            outages: counts.outages,
        }
    }
}

impl Mirror {
    fn of(tenant: Option<&str>, report: &MirrorReport) -> Self {
        let counts = &report.counts;
        Self {
            name: report.name.clone(),
            tenant: tenant.map(str::to_owned),
            mode: report.mode,
            state: report.state,
            lag_ms: report.lag_us / 1_000,
            queued: report.queued,
            queued_bytes: report.queued_bytes,
            done: counts.done,
            failed: counts.failed,
            dropped: counts.dropped,
            unsure: counts.unsure,
            errors: counts.errors.iter().cloned().collect(),
            shadow: report.shadow.map(Compared::of),
        }
    }
}

impl Totals {
    fn of(report: &Report) -> Self {
        let stats = &report.stats;
        Self {
            busy_user_us: report.cpu_user_us,
            busy_system_us: report.cpu_system_us,
            requests: stats.requests,
            cache_hits: stats.cache_hits,
            cache_misses: stats.cache_misses + stats.cache_bypassed,
            errors: stats.errors.iter().map(|(_, count)| count).sum(),
            client_in_bytes: stats.client_in_bytes,
            client_out_bytes: stats.client_out_bytes,
            upstream_requests: report.nodes.iter().map(|node| node.stats.traffic.requests).sum(),
            upstream_writes: report.nodes.iter().map(|node| node.stats.traffic.writes).sum(),
            redirects: stats.redirects,
            clients: report.clients,
            inflight: report.inflight,
            buffered_bytes: report.buffered_bytes,
            cache_entries: report.cache_entries,
        }
    }

    fn add(&mut self, other: &Self) {
        self.busy_user_us += other.busy_user_us;
        self.busy_system_us += other.busy_system_us;
        self.requests += other.requests;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.errors += other.errors;
        self.client_in_bytes += other.client_in_bytes;
        self.client_out_bytes += other.client_out_bytes;
        self.upstream_requests += other.upstream_requests;
        self.upstream_writes += other.upstream_writes;
        self.redirects += other.redirects;
        self.clients += other.clients;
        self.inflight += other.inflight;
        self.buffered_bytes += other.buffered_bytes;
        self.cache_entries += other.cache_entries;
    }
}

impl Times {
    fn of(reports: &[Report]) -> Self {
        let mut all = Histogram::default();
        reports.iter().flat_map(|report| &report.stats.latencies).for_each(|one| all.merge(one));
        let buckets = all.buckets().filter(|(_, count)| *count > 0).collect();
        Self { count: all.count(), sum_us: all.sum_us(), buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::histogram::Sample;

    #[test]
    fn times_of_all_commands_and_workers_are_in_one_histogram() {
        let mut reports = [Report::default(), Report::default()];
        reports[0].stats.latencies[1].record(Sample::new(3), 2);
        reports[1].stats.latencies[1].record(Sample::new(3), 1);
        reports[1].stats.latencies[7].record(Sample::new(u64::from(u32::MAX)), 1);
        let times = Times::of(&reports);
        assert_eq!(times.buckets, [(Some(4), 3), (None, 1)]);
        assert_eq!((times.count, times.sum_us), (4, 9 + u64::from(u32::MAX)));
    }

    #[test]
    fn the_total_is_the_sum_of_every_field() {
        let one = Totals {
            busy_user_us: 1,
            busy_system_us: 2,
            requests: 3,
            errors: 4,
            client_in_bytes: 5,
            client_out_bytes: 6,
            upstream_requests: 7,
            upstream_writes: 8,
            redirects: 9,
            clients: 10,
            inflight: 11,
            buffered_bytes: 12,
            cache_hits: 13,
            cache_misses: 14,
            cache_entries: 15,
        };
        let mut sum = one.clone();
        sum.add(&one);
        let numbers = |totals: &Totals| -> Vec<u64> {
            let value = serde_json::to_value(totals).expect("an object");
            value.as_object().expect("it").values().filter_map(serde_json::Value::as_u64).collect()
        };
        let doubled: Vec<u64> = numbers(&one).iter().map(|number| number * 2).collect();
        assert_eq!(numbers(&sum), doubled);
        assert_eq!(doubled.len(), 15);
    }
}
