//! The section about the servers: first all together, then one line for each.
//!
//! Not here: what a server says of itself (`INFO upstream`).
//!
//! Invariant: in the line of a server each field is `name=value` and no value has a comma, as clients split it there.

use super::{Source, line};
use crate::report::{CONN_ROLES, NodeReport};
use alloc::format;
use alloc::string::String;

pub(super) fn upstreams(out: &mut String, source: &Source<'_>) {
    let (stats, sum) = (&source.sum.stats, &source.sum);
    line(out, "node_0", source.settings.node.address.label());
    let state = source.reports.first().map_or("idle", |report| report.node_state.as_str());
    line(out, "node_0_state", state);
    line(out, "upstream_connections", sum.upstreams);
    line(out, "upstream_inflight", sum.inflight);
    line(out, "upstream_writes", stats.upstream_writes);
    line(out, "upstream_in_bytes", stats.upstream_in_bytes);
    line(out, "upstream_out_bytes", stats.upstream_out_bytes);
    line(out, "upstream_connects", stats.upstream_connects);
    line(out, "upstream_reconnects", stats.upstream_reconnects);
    line(out, "upstream_failures", stats.upstream_failures);
    line(out, "upstream_losses", stats.upstream_losses);
    line(out, "upstream_timeouts", stats.upstream_timeouts);
    line(out, "upstream_protocol_errors", stats.upstream_protocol_errors);
    line(out, "leases_taken", sum.leases_taken);
    line(out, "leases_waiting", sum.leases_waiting);
    line(out, "leases_idle", sum.leases_idle);
    for (index, node) in sum.nodes.iter().enumerate() {
        line(out, &format!("upstream_{index}"), of_node(node));
    }
}

fn of_node(node: &NodeReport) -> String {
    let (stats, traffic) = (&node.stats, &node.stats.traffic);
    let (latency, quantile) = (&stats.latency, |q| stats.latency.quantile(q));
    let mut text = format!(
        "address={},pool={},role={},state={},since_seconds={},requests={},replies={},error_replies={},in_bytes={},out_bytes={},writes={},\
         connects={},failures={},losses={},timeouts={},inflight={},queued_bytes={},usec={},p50={},p99={},p99.9={}",
        node.label,
        node.pool,
        node.role,
        node.state,
        node.since_us.unwrap_or(0) / 1_000_000,
        traffic.requests,
        latency.count(),
        traffic.errors,
        traffic.in_bytes,
        traffic.out_bytes,
        traffic.writes,
        stats.connects,
        stats.failures,
        stats.losses,
        stats.timeouts,
        node.inflight,
        node.queued_bytes,
        latency.sum_us(),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
    );
    for (role, count) in CONN_ROLES.iter().zip(node.conns) {
        text.push_str(&format!(",conns_{role}={count}"));
    }
    if !node.cause.is_empty() {
        // A server's own words could end the line, or look like a further field.
        let cause = node.cause.replace(|letter: char| letter.is_control(), " ").replace(',', ";");
        text.push_str(&format!(",last_failure={cause}"));
    }
    text
}
