//! INFO: the proxy's own figures in Redis' form, with what the server said of itself where clients look for it.
//!
//! | asked | answered by |
//! |---|---|
//! | `INFO`, `INFO default`, `all`, `everything` | the proxy: the sections below |
//! | `INFO server` … one or more of the sections below | the proxy |
//! | `INFO keyspace` and other sections of the server only | the server |
//! | `INFO upstream [section …]` | the server, whole |
//!
//! `redis_version`, `redis_mode`, `role` are the server's, as client libraries decide by them what they may use; several servers are shown
//! as one primary, and with the facade as a cluster. `loading` is 0 while the node answers. Numbers are sums over all workers at one moment each.
//!
//! Invariant: every line is `field:value` or a `# Section` head, lines end in CRLF, as Redis writes them.

use super::Call;
use crate::command::{COUNT, CommandId};
use crate::engine::Engine;
use crate::fleet::{Answer, ProcessFacts, Purpose, Question, Report};
use crate::hotkeys::HotReport;
use crate::request::Step;
use crate::scatter::Wish;
use crate::settings::{Pool, Settings};
use crate::stats::CommandStats;
use crate::time::Time;
use crate::upstream::greeting::ServerFacts;
use crate::upstream::{Lane, Role, State, Upstream};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use resp::encode;

/// The proxy's sections, in the order of the reply. Those marked are not part of the default.
const SECTIONS: [(&str, bool); 13] = [
    ("server", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("cluster", true),
    ("workers", true),
    ("upstreams", true),
    ("hotkeys", false),
    ("bigkeys", false),
    ("commandstats", false),
];

/// Sections that the server has, too, and answers better when it is asked for them alone.
const SERVERS_OWN: [&str; 2] = ["persistence", "replication"];

impl Engine {
    pub(super) fn info(&mut self, now: Time, call: &Call<'_>) -> Step {
        let asked: Vec<String> = call.args[1..]
            .iter()
            .map(|arg| String::from_utf8_lossy(arg).to_ascii_lowercase())
            .collect();
        // Whether there is a cluster is ours to say, unless there is but the server.
        let servers_cluster = self.is_one() && !self.settings.facade.on;
        let ours = |name: &String| {
            matches!(name.as_str(), "default" | "all" | "everything")
                || SECTIONS.iter().any(|(own, _)| own == name)
                    && !SERVERS_OWN.contains(&name.as_str())
                    && !(name == "cluster" && servers_cluster)
        };
        let rest = match asked.first().map(String::as_str) {
            Some("upstream") => &call.args[2..],
            Some(_) if !asked.iter().any(ours) => &call.args[1..],
            _ => return self.ask(call, Question::Report, Purpose::Info(asked)),
        };
        let mut frame = Vec::new();
        let args: Vec<&[u8]> = core::iter::once(&b"INFO"[..]).chain(rest.iter().copied()).collect();
        encode::request(&mut frame, &args);
        if self.is_one() {
            let command = Some(call.command);
            return self.forward(now, call.id, Lane::Shared, &frame, command, call.silent);
        }
        let (id, silent, row) = (call.id, call.silent, Some(call.command));
        self.forward_to_any(now, &Wish { id, frame: &frame, args: call.args, row, silent })
    }

    /// Counters and gauges of this worker at this moment, as INFO adds them up.
    #[must_use]
    pub fn report(&self) -> Report {
        let clients = || self.clients.iter().map(|(_, client)| client);
        // A peer is no server of anyone's requests.
        let of_servers = |up: &&Upstream| up.key.lane != Lane::Peer;
        let upstreams = || self.upstreams.iter().map(|(_, upstream)| upstream).filter(of_servers);
        let buffered = clients().map(|client| client.held_bytes()).sum::<usize>()
            + upstreams().map(|up| up.out.pending() + up.tail.len()).sum::<usize>();
        Report {
            worker: self.settings.worker,
            stats: self.stats.clone(),
            clients: self.clients.len() as u64,
            blocked_clients: self.blocked_clients(),
            upstreams: upstreams().filter(|up| up.is_ready()).count() as u64,
            inflight: upstreams().map(|up| up.inflight.len() as u64).sum(),
            buffered_bytes: (buffered + self.pool.bytes()) as u64,
            client_out_bytes_max: clients().map(|c| c.out.pending() as u64).max().unwrap_or(0),
            client_in_bytes_max: clients().map(|c| c.tail.len() as u64).max().unwrap_or(0),
            node_state: self.node_state(),
            hotkeys: HotReport::default(),
            big_seen: self.bigkeys.seen(),
            big_keys: self.bigkeys.len() as u64,
        }
    }

    fn node_state(&self) -> String {
        if let Some(state) = self.topology_state() {
            return state;
        }
        let shared = self
            .upstreams
            .iter()
            .filter(|(_, up)| up.key.lane != Lane::Peer)
            .find(|(_, up)| up.role == Role::Shared && up.key.db == self.settings.node.db);
        match shared.map(|(_, upstream)| upstream) {
            None => "idle".to_string(),
            Some(upstream) => match &upstream.state {
                State::Idle => "idle".to_string(),
                State::Connecting(_) | State::Greeting(_) => "connecting".to_string(),
                State::Ready => "ready".to_string(),
                State::Down(_) => format!("down ({})", upstream.cause),
            },
        }
    }
}

/// What the sections are written from.
struct Source<'a> {
    reports: &'a [Report],
    sum: Report,
    process: &'a ProcessFacts,
    server: &'a ServerFacts,
    settings: &'a Settings,
}

impl Source<'_> {
    fn is_one(&self) -> bool {
        self.settings.pool == Pool::Standalone && self.settings.shards.is_none()
    }

    /// As what respool shows itself, which decides how tools go on to talk to it.
    fn mode(&self) -> &str {
        match (self.settings.facade.on, self.is_one()) {
            (true, _) => "cluster",
            (false, true) => &self.server.mode,
            (false, false) => "standalone",
        }
    }
}

/// The text of the wanted sections.
pub(super) fn text(
    asked: &[String],
    answers: Vec<Answer>,
    process: &ProcessFacts,
    server: &ServerFacts,
    settings: &Settings,
) -> String {
    let mut reports: Vec<Report> = answers
        .into_iter()
        .filter_map(|answer| match answer {
            Answer::Report(report) => Some(*report),
            _ => None,
        })
        .collect();
    reports.sort_by_key(|report| report.worker);
    let sum = sum(&reports);
    let source = Source { reports: &reports, sum, process, server, settings };
    let all = asked.iter().any(|name| name == "all" || name == "everything");
    let default = asked.is_empty() || asked.iter().any(|name| name == "default");
    let mut out = String::new();
    for (name, by_default) in SECTIONS {
        if all || (default && by_default) || asked.iter().any(|wanted| wanted == name) {
            if !out.is_empty() {
                out.push_str("\r\n");
            }
            section(&mut out, name, &source);
        }
    }
    out
}

fn sum(reports: &[Report]) -> Report {
    let mut sum = Report::default();
    for report in reports {
        sum.stats.add(&report.stats);
        sum.clients += report.clients;
        sum.blocked_clients += report.blocked_clients;
        sum.upstreams += report.upstreams;
        sum.inflight += report.inflight;
        sum.buffered_bytes += report.buffered_bytes;
        sum.client_out_bytes_max = sum.client_out_bytes_max.max(report.client_out_bytes_max);
        sum.client_in_bytes_max = sum.client_in_bytes_max.max(report.client_in_bytes_max);
        sum.big_seen.add(&report.big_seen);
        sum.big_keys += report.big_keys;
    }
    sum
}

fn section(out: &mut String, name: &str, source: &Source<'_>) {
    let title = match name {
        "cpu" => "CPU".to_string(),
        _ => format!("{}{}", name[..1].to_ascii_uppercase(), &name[1..]),
    };
    let _ = write!(out, "# {title}\r\n");
    match name {
        "server" => server(out, source),
        "clients" => clients(out, source),
        "memory" => memory(out, source),
        "persistence" => line(out, "loading", 0),
        "stats" => stats(out, source),
        "replication" => {
            // Of several servers it was perhaps a copy that told last.
            let is_copy = source.is_one() && source.server.role == "replica";
            line(out, "role", if is_copy { "slave" } else { "master" });
        }
        "cpu" => cpu(out, source),
        "cluster" => line(out, "cluster_enabled", u8::from(source.settings.facade.on)),
        "workers" => workers(out, source),
        "upstreams" => upstreams(out, source),
        "hotkeys" => hotkeys(out, source),
        "bigkeys" => bigkeys(out, source),
        _ => commandstats(out, source),
    }
}

fn line(out: &mut String, field: &str, value: impl core::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{field}:{value}\r\n");
}

fn server(out: &mut String, source: &Source<'_>) {
    let process = source.process;
    line(out, "redis_version", &source.server.version);
    line(out, "redis_mode", source.mode());
    line(out, "server_name", &source.server.server);
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

fn clients(out: &mut String, source: &Source<'_>) {
    line(out, "connected_clients", source.sum.clients);
    line(out, "maxclients", source.process.clients_max);
    line(out, "client_recent_max_input_buffer", source.sum.client_in_bytes_max);
    line(out, "client_recent_max_output_buffer", source.sum.client_out_bytes_max);
    line(out, "blocked_clients", source.sum.blocked_clients);
    line(out, "tracking_clients", 0);
}

fn memory(out: &mut String, source: &Source<'_>) {
    line(out, "used_memory", source.process.rss_bytes);
    line(out, "used_memory_rss", source.process.rss_bytes);
    line(out, "used_memory_peak", source.process.rss_max_bytes);
    line(out, "buffered_bytes", source.sum.buffered_bytes);
    let ceiling = source.settings.limits.memory_max_bytes * source.settings.workers as usize;
    line(out, "buffered_bytes_max", ceiling);
}

fn stats(out: &mut String, source: &Source<'_>) {
    let stats = &source.sum.stats;
    line(out, "total_connections_received", stats.clients_accepted);
    line(out, "rejected_connections", stats.clients_rejected);
    line(out, "evicted_clients", stats.clients_evicted);
    line(out, "total_commands_processed", stats.requests);
    line(out, "total_net_input_bytes", stats.client_in_bytes);
    line(out, "total_net_output_bytes", stats.client_out_bytes);
    let failed: u64 = stats.commands.iter().map(|command| command.failed + command.rejected).sum();
    line(out, "total_error_replies", failed);
    line(out, "protocol_errors", stats.protocol_errors);
}

fn cpu(out: &mut String, source: &Source<'_>) {
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    line(out, "used_cpu_sys", seconds(source.process.cpu_system_us));
    line(out, "used_cpu_user", seconds(source.process.cpu_user_us));
}

fn workers(out: &mut String, source: &Source<'_>) {
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

fn upstreams(out: &mut String, source: &Source<'_>) {
    let stats = &source.sum.stats;
    line(out, "node_0", source.settings.node.address.label());
    let state = source.reports.first().map_or("idle", |report| report.node_state.as_str());
    line(out, "node_0_state", state);
    line(out, "upstream_connections", source.sum.upstreams);
    line(out, "upstream_inflight", source.sum.inflight);
    line(out, "upstream_writes", stats.upstream_writes);
    line(out, "upstream_in_bytes", stats.upstream_in_bytes);
    line(out, "upstream_out_bytes", stats.upstream_out_bytes);
    line(out, "upstream_connects", stats.upstream_connects);
    line(out, "upstream_failures", stats.upstream_failures);
    line(out, "upstream_losses", stats.upstream_losses);
    line(out, "upstream_timeouts", stats.upstream_timeouts);
}

fn hotkeys(out: &mut String, source: &Source<'_>) {
    let options = &source.settings.hotkeys;
    let reports = source.reports.iter().map(|report| report.hotkeys.clone());
    let hot = HotReport::merged(reports, super::hotkeys::SHOWN);
    line(out, "hotkeys_enabled", u8::from(hot.on));
    line(out, "hotkeys_sample", options.sample);
    line(out, "hotkeys_window_s", options.window_s);
    for (index, key) in hot.keys.iter().enumerate() {
        let (per_1000_s, count, writes) = (key.per_1000_s, key.count(), key.writes);
        let reads = count.saturating_sub(writes);
        let rate = per_1000_s.div_ceil(1_000);
        // The key stands last, as it may have a comma.
        let value = format!(
            "per_second={rate},count={count},reads={reads},writes={writes},key={}",
            key.name.text()
        );
        line(out, &format!("hotkey_{index}"), value);
    }
}

fn bigkeys(out: &mut String, source: &Source<'_>) {
    let options = &source.settings.bigkeys;
    line(out, "bigkeys_bytes_min", options.bytes_min);
    line(out, "bigkeys_elements_min", options.elements_min);
    line(out, "bigkeys_entries", source.sum.big_keys);
    line(out, "bigkeys_requests", source.sum.big_seen.requests);
    line(out, "bigkeys_replies", source.sum.big_seen.replies);
}

fn commandstats(out: &mut String, source: &Source<'_>) {
    for index in 0..=COUNT {
        let counters = source.sum.stats.commands.get(index).copied().unwrap_or_default();
        if counters == CommandStats::default() {
            continue;
        }
        let name = CommandId::from_index(index).map_or("unknown", CommandId::name);
        let CommandStats { calls, usec, rejected, failed } = counters;
        // Hundredths, as Redis prints them.
        let mean = (usec * 100).checked_div(calls).unwrap_or(0);
        let value = format!(
            "calls={calls},usec={usec},usec_per_call={}.{:02},rejected_calls={rejected},failed_calls={failed}",
            mean / 100,
            mean % 100
        );
        line(out, &format!("cmdstat_{name}"), value);
    }
}
