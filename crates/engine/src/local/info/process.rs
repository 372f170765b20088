//! The sections about the process, its clients and its workers.
//!
//! Names of fields that Redis has are Redis' (7.0), as tools read them: exporters ask for `used_memory` and `maxclients` whoever answers.
//!
//! Not here: what is counted (`stats`, `report`).
//!
//! Invariant: a field that Redis has means here what it means there, of the proxy.

use super::{Source, line, seconds, servers};
use crate::losses;
use crate::report::{MEMORY_KINDS, WAITS, listeners_of};
use crate::stats::errors::Cause;
use crate::stats::{REDIRECT_KINDS, REFUSALS};
use alloc::format;
use alloc::string::String;

/// The Redis that Valkey is compatible with (`REDIS_VERSION` in version.h, Valkey 8.0 to 9.1).
const REDIS_VERSION_OF_VALKEY: &str = "7.2.4";

pub(super) fn server(out: &mut String, source: &Source<'_>) {
    let process = source.process;
    match source.server.server.as_str() {
        // `genValkeyInfoString` in Valkey 8.1, which says `redis` in HELLO if it is to look like one.
        "valkey" => {
            line(out, "redis_version", REDIS_VERSION_OF_VALKEY);
            line(out, "server_name", &source.server.server);
            line(out, "valkey_version", &source.server.version);
            line(out, "server_mode", mode(source));
        }
        name => {
            line(out, "redis_version", &source.server.version);
            line(out, "redis_mode", mode(source));
            line(out, "server_name", name);
        }
    }
    line(out, "proxy", "respool");
    line(out, "proxy_version", &process.version);
    line(out, "os", &process.os);
    line(out, "arch_bits", usize::BITS);
    line(out, "multiplexing_api", &process.driver);
    line(out, "process_id", process.pid);
    line(out, "tcp_port", process.tcp_port);
    line(out, "server_time_usec", process.unix_us);
    line(out, "uptime_in_seconds", process.uptime_s);
    line(out, "uptime_in_days", process.uptime_s / 86_400);
    line(out, "executable", &process.executable);
    line(out, "config_file", &process.config_file);
}

/// As what respool shows itself, which decides how tools go on to talk to it.
fn mode<'a>(source: &Source<'a>) -> &'a str {
    match (source.settings.facade.on, source.is_one()) {
        (true, _) => "cluster",
        (false, true) => &source.server.mode,
        (false, false) => "standalone",
    }
}

pub(super) fn proxy(out: &mut String, source: &Source<'_>) {
    let (process, sum) = (source.process, &source.sum);
    line(out, "proxy_name", "respool");
    line(out, "proxy_version", &process.version);
    line(out, "proxy_config_file", &process.config_file);
    line(out, "proxy_driver", &process.driver);
    line(out, "proxy_driver_wanted", &process.driver_wanted);
    if !process.driver_reason.is_empty() {
        line(out, "proxy_driver_reason", &process.driver_reason);
    }
    line(out, "proxy_workers", process.workers);
    if !source.settings.pending.is_empty() {
        line(out, "proxy_config_pending", source.settings.pending.join(","));
    }
    if let Some(tenancy) = &source.settings.tenancy {
        line(out, "tenant", &tenancy.name);
    }
    for report in source.reports {
        let value =
            format!("sys={},user={}", seconds(report.cpu_system_us), seconds(report.cpu_user_us));
        line(out, &format!("proxy_cpu_worker_{}", report.worker), value);
    }
    for report in source.reports {
        let Some(ring) = report.ring else { continue };
        let [small, large] = ring.buffers;
        let (none, over) = (ring.no_buffers, ring.overflows);
        let value = format!(
            "no_buffers={none},overflows={over},small_buffers={small},large_buffers={large}"
        );
        line(out, &format!("proxy_ring_worker_{}", report.worker), value);
    }
    // What is not the workers': the thread that resolves names, the start, the log.
    let of_workers = |of: fn(&crate::fleet::Report) -> u64| source.reports.iter().map(of).sum();
    let system_us = process.cpu_system_us.saturating_sub(of_workers(|report| report.cpu_system_us));
    let user_us = process.cpu_user_us.saturating_sub(of_workers(|report| report.cpu_user_us));
    line(out, "proxy_cpu_other", format!("sys={},user={}", seconds(system_us), seconds(user_us)));
    line(out, "proxy_slowlog_entries", sum.slowlog_entries);
    if let Some(age_us) = sum.topology_age_us {
        line(out, "proxy_topology_age_seconds", age_us / 1_000_000);
    }
    for (what, cause, count) in losses::all(&process.losses, &sum.stats) {
        line(out, &format!("proxy_telemetry_dropped_{what}_{cause}"), count);
    }
}

pub(super) fn clients(out: &mut String, source: &Source<'_>) {
    line(out, "connected_clients", source.sum.clients);
    line(out, "maxclients", source.process.clients_max);
    line(out, "client_recent_max_input_buffer", source.sum.client_in_bytes_max);
    line(out, "client_recent_max_output_buffer", source.sum.client_out_bytes_max);
    line(out, "blocked_clients", source.sum.blocked_clients);
    line(out, "tracking_clients", source.sum.tracking_clients);
    line(out, "logins", source.sum.logins);
    for (why, count) in WAITS.iter().zip(source.sum.waiting) {
        line(out, &format!("waiting_clients_{why}"), count);
    }
    for (at, (label, count)) in listeners_of(source.reports).iter().enumerate() {
        line(out, &format!("listener_{at}"), format!("name={label},clients={count}"));
    }
}

pub(super) fn memory(out: &mut String, source: &Source<'_>) {
    line(out, "used_memory", source.process.rss_bytes);
    line(out, "used_memory_rss", source.process.rss_bytes);
    line(out, "used_memory_peak", source.process.rss_max_bytes);
    line(out, "buffered_bytes", source.sum.buffered_bytes);
    let ceiling = source.settings.limits.memory_max_bytes * source.settings.workers as usize;
    line(out, "buffered_bytes_max", ceiling);
    for (kind, bytes) in MEMORY_KINDS.iter().zip(source.sum.memory) {
        line(out, &format!("memory_{kind}_bytes"), bytes);
    }
}

pub(super) fn stats(out: &mut String, source: &Source<'_>) {
    let stats = &source.sum.stats;
    line(out, "total_connections_received", stats.clients_accepted);
    line(out, "rejected_connections", stats.clients_rejected());
    for (why, count) in REFUSALS.iter().zip(stats.refused) {
        line(out, &format!("refused_clients_{why}"), count);
    }
    line(out, "evicted_clients", stats.clients_evicted);
    line(out, "upstream_lost_clients", stats.clients_lost);
    line(out, "total_commands_processed", stats.requests);
    line(out, "coalesced_reads", stats.coalesced);
    line(out, "total_net_input_bytes", stats.client_in_bytes);
    line(out, "total_net_output_bytes", stats.client_out_bytes);
    let failed: u64 = stats.commands.iter().map(|command| command.failed + command.rejected).sum();
    line(out, "total_error_replies", failed);
    line(out, "logins_accepted", stats.logins_accepted);
    line(out, "logins_refused", stats.logins_refused);
    line(out, "logins_revoked", stats.logins_revoked);
    line(out, "protocol_errors", stats.protocol_errors);
    for cause in Cause::ALL {
        line(out, &format!("proxy_errors_{}", cause.name()), stats.own_errors[cause as usize]);
    }
    line(out, "redirects", stats.redirects);
    for (kind, count) in REDIRECT_KINDS.iter().zip(stats.redirect_kinds) {
        line(out, &format!("redirects_{}", kind.to_ascii_lowercase()), count);
    }
    line(out, "messages_delivered", stats.messages);
}

pub(super) fn replication(out: &mut String, source: &Source<'_>) {
    // Of several servers it was perhaps a copy that told last.
    let is_copy = source.is_one() && source.server.role == "replica";
    line(out, "role", if is_copy { "slave" } else { "master" });
    if is_copy {
        servers::link(out, source);
    }
}

pub(super) fn cpu(out: &mut String, source: &Source<'_>) {
    line(out, "used_cpu_sys", seconds(source.process.cpu_system_us));
    line(out, "used_cpu_user", seconds(source.process.cpu_user_us));
}

pub(super) fn cluster(out: &mut String, source: &Source<'_>) {
    line(out, "cluster_enabled", u8::from(source.settings.facade.on));
}

pub(super) fn workers(out: &mut String, source: &Source<'_>) {
    line(out, "workers", source.reports.len());
    for report in source.reports {
        let stats = &report.stats;
        let value = format!(
            "clients={},upstreams={},requests={},inflight={},accepted={}",
            report.clients,
            report.upstreams,
            stats.requests,
            report.inflight,
            stats.clients_accepted
        );
        line(out, &format!("worker_{}", report.worker), value);
    }
}
