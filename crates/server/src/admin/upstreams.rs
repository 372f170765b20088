//! `/upstreams`: the servers with their figures, as `INFO upstreams` has them, of all workers together.
//!
//! Invariant: each server stands there once for each tenant that it serves.

use super::{App, Refusal};
use axum::Json;
use axum::extract::State;
use engine::fleet::Report;
use engine::report::{CONN_ROLES, NodeReport, by_tenant, nodes_of};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// All servers.
#[derive(Serialize, ToSchema)]
pub(super) struct Upstreams {
    /// Each of them.
    upstreams: Vec<Upstream>,
}

/// One server.
#[derive(Serialize, ToSchema)]
pub(super) struct Upstream {
    /// Where it is.
    address: String,
    /// Which of several pools it belongs to, from 0.
    pool: u16,
    /// `primary`, `replica`, `sentinel`, or `seed`: nobody told what it is.
    role: &'static str,
    /// `ready`, `connecting`, `down`, or `idle`: no connection is wanted. The worst of all workers.
    state: &'static str,
    /// Why it is down, or was last; empty: it never was.
    cause: String,
    /// How long it can be reached, or cannot, in microseconds; `null`: nobody tried.
    since_us: Option<u64>,
    /// Requests that were written to it, those of respool itself too.
    requests: u64,
    /// Replies to clients' requests.
    replies: u64,
    /// Those of them that were errors.
    error_replies: u64,
    /// Bytes from it.
    in_bytes: u64,
    /// Bytes to it.
    out_bytes: u64,
    /// Writes; `requests` ÷ this is the size of a batch.
    writes: u64,
    /// Connects that succeeded.
    connects: u64,
    /// Connects and greetings that failed.
    failures: u64,
    /// Connections that broke or were closed by it while in use.
    losses: u64,
    /// Connections closed because a reply was overdue.
    timeouts: u64,
    /// Requests that wait for a reply.
    inflight: u64,
    /// Bytes that wait to be sent.
    queued_bytes: u64,
    /// Time from sending a client's request to its reply.
    latency: Latency,
    /// Open connections by what they are for.
    conns: BTreeMap<&'static str, u64>,
    /// Whose server it is; not there, where there are no tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

/// Times in microseconds.
#[derive(Serialize, ToSchema)]
pub(super) struct Latency {
    /// How many were counted.
    count: u64,
    /// All together.
    sum_us: u64,
    /// Half took no longer.
    p50_us: u64,
    /// 99 of 100 took no longer.
    p99_us: u64,
    /// 999 of 1000 took no longer.
    p999_us: u64,
}

/// Servers and their figures
#[utoipa::path(get, path = "/upstreams", tag = "servers", responses(
    (status = 200, description = "Each server once", body = Upstreams),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn upstreams(State(app): State<App>) -> Result<Json<Upstreams>, Refusal> {
    let groups = by_tenant(app.reports().await?);
    let of_one = |(tenant, reports): &(Option<Arc<str>>, Vec<Report>)| {
        let tenant = tenant.as_deref().map(str::to_owned);
        let nodes = nodes_of(reports);
        nodes
            .iter()
            .map(|node| Upstream { tenant: tenant.clone(), ..Upstream::from(node) })
            .collect::<Vec<_>>()
    };
    Ok(Json(Upstreams { upstreams: groups.iter().flat_map(of_one).collect() }))
}

impl Latency {
    pub(super) fn of(histogram: &engine::histogram::Histogram) -> Self {
        Self {
            count: histogram.count(),
            sum_us: histogram.sum_us(),
            p50_us: histogram.quantile(0.5),
            p99_us: histogram.quantile(0.99),
            p999_us: histogram.quantile(0.999),
        }
    }
}

impl From<&NodeReport> for Upstream {
    fn from(node: &NodeReport) -> Self {
        let (stats, traffic) = (&node.stats, &node.stats.traffic);
        Self {
            address: node.label.clone(),
            pool: node.pool,
            role: node.role,
            state: node.state,
            cause: node.cause.clone(),
            since_us: node.since_us,
            requests: traffic.requests,
            replies: stats.latency.count(),
            error_replies: traffic.errors,
            in_bytes: traffic.in_bytes,
            out_bytes: traffic.out_bytes,
            writes: traffic.writes,
            connects: stats.connects,
            failures: stats.failures,
            losses: stats.losses,
            timeouts: stats.timeouts,
            inflight: node.inflight,
            queued_bytes: node.queued_bytes,
            latency: Latency::of(&stats.latency),
            conns: CONN_ROLES.into_iter().zip(node.conns).collect(),
            tenant: None,
        }
    }
}
