//! INFO: the proxy's own figures in Redis' form, with what the server said of itself where clients look for it.
//!
//! | asked | answered by |
//! |---|---|
//! | `INFO`, `INFO default`, `all`, `everything` | the proxy: the sections below |
//! | `INFO server` … one or more of the sections below | the proxy |
//! | `INFO latency NAME` | the proxy: the latency monitor of this name, in its buckets |
//! | `INFO keyspace` in front of one server, and other sections of the server only | the server |
//! | `INFO keyspace` in front of several | the proxy: sums over all primaries |
//! | `INFO upstream [section …]` | the server, whole |
//!
//! `redis_version`, `redis_mode`, `role` are the server's, as client libraries decide by them what they may use; several servers are shown
//! as one primary, and with the facade as a cluster. `loading` is 1 while a primary loads. Numbers are sums over all workers at one moment each.
//!
//! Files: this one decides who answers and with which sections; `process` has the sections about the process and its clients, `commands` those about
//! commands and errors, `upstreams` those about servers, `keys` those about keys, `cache` the near cache, `latency` the monitors, `tls` connections with TLS,
//! `policies` what policies did, `mirrors` mirrors, `read_targets` read targets, `servers` what the servers' own INFO says.
//!
//! Invariant: every line is `field:value` or a `# Section` head, lines end in CRLF, as Redis writes them.

mod cache;
mod commands;
mod keys;
mod latency;
mod mirrors;
pub(crate) mod policies;
mod process;
mod read_targets;
pub(crate) mod servers;
mod tls;
mod upstreams;

use super::Call;
use crate::client::Hold;
use crate::connect::Availability;
use crate::engine::Engine;
use crate::fleet::{Answer, InfoWish, ProcessFacts, Purpose, Question, Report};
use crate::request::Step;
use crate::scatter::Wish;
use crate::settings::{Pool, Settings};
use crate::time::Time;
use crate::upstream::Lane;
use crate::upstream::greeting::ServerFacts;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use resp::{Protocol, encode};

/// Writes a section, but for its head.
type WriteSection = fn(&mut String, &Source<'_>);

/// The proxy's sections in the order of the reply, and whether each is part of the default.
const SECTIONS: [(&str, bool, WriteSection); 23] = [
    ("server", true, process::server),
    ("proxy", true, process::proxy),
    ("clients", true, process::clients),
    ("memory", true, process::memory),
    ("persistence", true, servers::persistence),
    ("stats", true, process::stats),
    ("replication", true, process::replication),
    ("cpu", true, process::cpu),
    ("errorstats", true, commands::errorstats),
    ("cluster", true, process::cluster),
    ("keyspace", true, servers::keyspace),
    ("workers", true, process::workers),
    ("upstreams", true, upstreams::upstreams),
    ("hotkeys", false, keys::hotkeys),
    ("bigkeys", false, keys::bigkeys),
    ("policies", false, policies::policies),
    ("cache", false, cache::cache),
    ("commandstats", false, commands::commandstats),
    ("latencystats", false, commands::latencystats),
    ("latency", false, latency::list),
    ("tls", false, tls::tls),
    ("mirrors", false, mirrors::mirrors),
    ("read_targets", false, read_targets::read_targets),
];

/// Sections that the server has, too, and answers better when it is asked for them alone.
const SERVERS_OWN: [&str; 2] = ["persistence", "replication"];

impl Engine {
    pub(super) fn info(&mut self, now: Time, call: &Call<'_>) -> Step {
        let asked: Vec<String> =
            call.args[1..].iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        if latency::asked_for(&asked, &self.settings).is_some() {
            return self.ask_report(call, asked);
        }
        let asked: Vec<String> = asked.iter().map(|name| name.to_ascii_lowercase()).collect();
        if let Some(hold) = self.hold_for_version(now, call, &asked) {
            return Step::Hold(hold);
        }
        // Whether there is a cluster is ours to say, unless there is but the server.
        let servers_cluster = self.is_one() && !self.settings.facade.on;
        // A single server has its keys in its own words, unless the client may know of some of them only.
        let is_alone = self.is_one() || self.router.is_one_sentinel_group();
        let servers_keyspace = is_alone && !self.hides_keyspace();
        let ours = |name: &String| match name.as_str() {
            "default" | "all" | "everything" => true,
            "cluster" => !servers_cluster,
            "keyspace" => !servers_keyspace,
            name if SERVERS_OWN.contains(&name) => false,
            name => SECTIONS.iter().any(|(own, ..)| *own == name),
        };
        let rest = match asked.first().map(String::as_str) {
            Some("upstream") => &call.args[2..],
            Some(_) if !asked.iter().any(ours) => &call.args[1..],
            _ if servers::are_needed(&asked) => return self.info_with_servers(now, call, asked),
            _ => return self.ask_report(call, asked),
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

    /// While no server has ever greeted this worker the client waits for the first one, unless it is known to be away: a
    /// library that reads an empty version gives up.
    fn hold_for_version(&mut self, now: Time, call: &Call<'_>, asked: &[String]) -> Option<Hold> {
        let tells = |name: &String| matches!(&**name, "default" | "all" | "everything" | "server");
        let is_told = asked.is_empty() || asked.iter().any(tells);
        if !is_told || !self.facts.version.is_empty() || call.inside.is_some() {
            return None;
        }
        if self.router.any_node().is_none() {
            return self.unserved(now, 0).ok();
        }
        match self.probe(now, Protocol::Resp2, self.settings.node.db, call.id) {
            Availability::Wait(upstream) => Some(Hold::Upstream(upstream)),
            Availability::Ready(_) | Availability::Down(_) => None,
        }
    }

    /// Asks the workers only.
    fn ask_report(&mut self, call: &Call<'_>, sections: Vec<String>) -> Step {
        let wish = InfoWish { sections, ..InfoWish::default() };
        self.ask(call, Question::Report, Purpose::Info(wish.into()))
    }

    /// The text of the wanted sections.
    fn info_text(&self, wish: &InfoWish, answers: Vec<Answer>, process: &ProcessFacts) -> String {
        let mut reports: Vec<Report> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Answer::Report(report) => Some(*report),
                _ => None,
            })
            .collect();
        reports.sort_by_key(|report| report.worker);
        // A worker that no server has greeted yet knows it from the others.
        let is_known = |facts: &&ServerFacts| !facts.version.is_empty();
        let others = reports.iter().map(|report| &report.server);
        let server = core::iter::once(&self.facts).chain(others).find(is_known);
        text(
            &wish.sections,
            &Source {
                reports: &reports,
                sum: sum(&reports),
                process,
                server: server.unwrap_or(&self.facts),
                settings: &self.settings,
                servers: wish.servers.as_ref(),
                hides_keyspace: self.hides_keyspace(),
            },
        )
    }
}

/// What the sections are written from.
struct Source<'a> {
    reports: &'a [Report],
    sum: Report,
    process: &'a ProcessFacts,
    server: &'a ServerFacts,
    settings: &'a Settings,
    /// `None`: they were not asked.
    servers: Option<&'a servers::Summary>,
    hides_keyspace: bool,
}

impl Source<'_> {
    fn is_one(&self) -> bool {
        self.settings.pool == Pool::Standalone && self.settings.shards.is_none()
    }
}

fn text(asked: &[String], source: &Source<'_>) -> String {
    let mut out = String::new();
    if let Some(at) = latency::asked_for(asked, source.settings) {
        latency::monitor(&mut out, source, at);
        return out;
    }
    let all = asked.iter().any(|name| name == "all" || name == "everything");
    let default = asked.is_empty() || asked.iter().any(|name| name == "default");
    for (name, by_default, write) in SECTIONS {
        if all || (default && by_default) || asked.iter().any(|wanted| wanted == name) {
            if !out.is_empty() {
                out.push_str("\r\n");
            }
            head(&mut out, name);
            write(&mut out, source);
        }
    }
    out
}

fn sum(reports: &[Report]) -> Report {
    let mut sum = Report { nodes: crate::report::nodes_of(reports), ..Report::default() };
    for report in reports {
        sum.stats.add(&report.stats);
        sum.clients += report.clients;
        sum.blocked_clients += report.blocked_clients;
        sum.logins += report.logins;
        sum.tracking_clients += report.tracking_clients;
        sum.cache_entries += report.cache_entries;
        sum.cache_feeds += report.cache_feeds;
        sum.upstreams += report.upstreams;
        sum.inflight += report.inflight;
        sum.buffered_bytes += report.buffered_bytes;
        sum.client_out_bytes_max = sum.client_out_bytes_max.max(report.client_out_bytes_max);
        sum.client_in_bytes_max = sum.client_in_bytes_max.max(report.client_in_bytes_max);
        sum.leases_taken += report.leases_taken;
        sum.leases_waiting += report.leases_waiting;
        sum.leases_idle += report.leases_idle;
        sum.slowlog_entries += report.slowlog_entries;
        sum.big_seen.add(&report.big_seen);
        sum.big_keys += report.big_keys;
        policies::add(&mut sum.policies, &report.policies);
        policies::add_own(&mut sum.own, &report.own);
        sum.topology_age_us = sum.topology_age_us.max(report.topology_age_us);
        let gauges = sum.waiting.iter_mut().chain(&mut sum.memory);
        for (own, other) in gauges.zip(report.waiting.iter().chain(&report.memory)) {
            *own += other;
        }
    }
    sum
}

fn head(out: &mut String, name: &str) {
    let title = match name {
        "cpu" | "tls" => name.to_ascii_uppercase(),
        _ => format!("{}{}", name[..1].to_ascii_uppercase(), &name[1..]),
    };
    let _ = write!(out, "# {title}\r\n");
}

fn line(out: &mut String, field: &str, value: impl core::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{field}:{value}\r\n");
}

/// Seconds with six places.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// A part of a whole in percent, with two places.
fn percent(part: u64, whole: u64) -> String {
    let hundredths = (u128::from(part) * 10_000).checked_div(u128::from(whole)).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// A mean with two places, as Redis prints them.
fn mean(sum: u64, count: u64) -> String {
    let hundredths = (u128::from(sum) * 100).checked_div(u128::from(count)).unwrap_or(0);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
