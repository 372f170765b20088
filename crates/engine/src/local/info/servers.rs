//! Facts that INFO needs from the servers: their keys, whether they load, whether a replica has its primary.
//!
//! ```text
//!   INFO ─▶ every primary: its own INFO ─▶ every worker: a report ─▶ one text, at the place that INFO reserved
//! ```
//! The servers come first: reports of workers are large, and none is kept while a server takes its time.
//!
//! Counts of keys are sums over all primaries. If one of them does not answer there are no counts, as a sum without its keys would be
//! wrong without a word; `keyspace_unanswered` says how many are missing.
//!
//! Not here: sections that a single server answers alone (`INFO keyspace`): these are forwarded.
//!
//! Invariant: a [`Merge`] of [`How::Info`] ends in [`Engine::servers_told`] exactly once, and only then is the question answered.

use super::{Source, line};
use crate::client::Hold;
use crate::command::ids;
use crate::connect::Availability;
use crate::engine::Engine;
use crate::fleet::{Answer, InfoWish, ProcessFacts, Purpose, Question};
use crate::limits::{INFO_BYTES_MAX, QUOTED_ERROR_BYTES};
use crate::local::Call;
use crate::merge::{How, Merge};
use crate::reject;
use crate::request::Step;
use crate::time::Time;
use crate::upstream::Lane;
use crate::upstream::inflight::Owner;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// Sections of the proxy's that are written from the servers' own INFO.
const FROM_SERVERS: [&str; 3] = ["keyspace", "persistence", "replication"];

/// Sums over the primaries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// By number of the database.
    databases: BTreeMap<u32, Database>,
    /// Servers without an answer, and slots without a server.
    unanswered: usize,
    /// The first error in place of an answer.
    error: Option<Vec<u8>>,
    is_loading: bool,
    /// Of those that load.
    loading: Loading,
    /// Fields about the primary of a replica, as they came.
    link: Vec<(&'static str, String)>,
}

/// Figures of one database in the order in which servers write them.
#[derive(Clone, Debug, Default)]
struct Database {
    figures: Vec<(String, u64)>,
    /// Of all keys that expire, the sum of `avg_ttl`.
    ttl_sum: u128,
}

#[derive(Clone, Debug, Default)]
struct Loading {
    start_time: Option<u64>,
    total_bytes: u64,
    loaded_bytes: u64,
    eta_seconds: u64,
}

/// Whether one of these sections needs an answer of the servers.
pub(super) fn are_needed(asked: &[String]) -> bool {
    let is_whole = |name: &str| matches!(name, "default" | "all" | "everything");
    asked.is_empty() || asked.iter().any(|name| is_whole(name) || FROM_SERVERS.contains(&&**name))
}

impl Summary {
    /// From the reply of each primary; a part without a reply is empty.
    pub(crate) fn of(replies: &[&[u8]]) -> Self {
        let mut summary = Self::default();
        for reply in replies {
            let is_text = matches!(reply.first(), Some(b'$' | b'='));
            let readable = is_text && reply.len() <= INFO_BYTES_MAX;
            let value = readable.then(|| resp::value::parse(reply)).and_then(Result::ok).flatten();
            match value.as_ref().and_then(|(value, _)| value.as_text()) {
                Some(text) => summary.add(&String::from_utf8_lossy(text)),
                None => {
                    summary.unanswered += 1;
                    summary.error.get_or_insert_with(|| quoted(reply));
                }
            }
        }
        summary
    }

    /// Takes the INFO of one server in.
    fn add(&mut self, text: &str) {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        let mut loading = Loading::default();
        let mut loads = false;
        for (field, value) in fields {
            let number = value.parse().ok();
            match field {
                "loading" => loads = value == "1",
                "loading_start_time" => loading.start_time = number,
                "loading_total_bytes" => loading.total_bytes = number.unwrap_or(0),
                "loading_loaded_bytes" => loading.loaded_bytes = number.unwrap_or(0),
                "loading_eta_seconds" => loading.eta_seconds = number.unwrap_or(0),
                "master_link_status" => self.link.push(("master_link_status", value.into())),
                "master_sync_in_progress" => {
                    self.link.push(("master_sync_in_progress", value.into()));
                }
                _ => {
                    let db = field.strip_prefix("db").and_then(|number| number.parse().ok());
                    if let Some(db) = db {
                        self.databases.entry(db).or_default().add(value);
                    }
                }
            }
        }
        if loads {
            self.is_loading = true;
            self.loading.add(&loading);
        }
    }
}

/// The error of a server as it is given on; in place of one that is too long, or of no error, one of the proxy's.
fn quoted(reply: &[u8]) -> Vec<u8> {
    if reply.starts_with(b"-") && reply.len() <= QUOTED_ERROR_BYTES {
        return reply.to_vec();
    }
    let mut error = Vec::new();
    reject::write(&mut error, reject::NOT_MERGED);
    error
}

impl Database {
    /// `keys=2,expires=1,avg_ttl=1000`, and what later versions count.
    fn add(&mut self, text: &str) {
        let figures = text.split(',').filter_map(|figure| figure.split_once('='));
        let (mut expires, mut ttl) = (0_u64, 0_u64);
        for (name, value) in figures {
            let value: u64 = value.parse().unwrap_or(0);
            match name {
                "expires" => expires = value,
                "avg_ttl" => ttl = value,
                _ => {}
            }
            match self.figures.iter_mut().find(|(own, _)| own == name) {
                Some((_, sum)) => *sum = sum.saturating_add(value),
                None => self.figures.push((name.into(), value)),
            }
        }
        self.ttl_sum = self.ttl_sum.saturating_add(u128::from(expires) * u128::from(ttl));
    }

    fn text(&self) -> String {
        let expires = self.figures.iter().find(|(name, _)| name == "expires");
        let expires = u128::from(expires.map_or(0, |(_, count)| *count));
        let figures = self.figures.iter().map(|(name, sum)| match &**name {
            "avg_ttl" => format!("avg_ttl={}", self.ttl_sum.checked_div(expires).unwrap_or(0)),
            _ => format!("{name}={sum}"),
        });
        figures.collect::<Vec<String>>().join(",")
    }
}

impl Loading {
    /// All that load are one: begun with the first of them, over with the last.
    fn add(&mut self, other: &Self) {
        self.start_time = [self.start_time, other.start_time].into_iter().flatten().min();
        self.total_bytes += other.total_bytes;
        self.loaded_bytes += other.loaded_bytes;
        self.eta_seconds = self.eta_seconds.max(other.eta_seconds);
    }
}

pub(super) fn persistence(out: &mut String, source: &Source<'_>) {
    let servers = source.servers;
    line(out, "loading", u8::from(servers.is_some_and(|servers| servers.is_loading)));
    let Some(servers) = servers.filter(|servers| servers.is_loading) else { return };
    let Loading { start_time, total_bytes, loaded_bytes, eta_seconds } = servers.loading;
    let Some(start_time) = start_time else { return };
    line(out, "loading_start_time", start_time);
    line(out, "loading_total_bytes", total_bytes);
    line(out, "loading_loaded_bytes", loaded_bytes);
    line(out, "loading_loaded_perc", super::percent(loaded_bytes, total_bytes));
    line(out, "loading_eta_seconds", eta_seconds);
}

pub(super) fn keyspace(out: &mut String, source: &Source<'_>) {
    let Some(servers) = source.servers.filter(|_| !source.hides_keyspace) else { return };
    if servers.unanswered > 0 {
        return line(out, "keyspace_unanswered", servers.unanswered);
    }
    for (db, figures) in &servers.databases {
        line(out, &format!("db{db}"), figures.text());
    }
}

/// Of a replica: whether it has its primary.
pub(super) fn link(out: &mut String, source: &Source<'_>) {
    for (field, value) in source.servers.iter().flat_map(|servers| &servers.link) {
        line(out, field, value);
    }
}

impl Engine {
    /// Asks the primaries, and then the workers.
    pub(super) fn info_with_servers(
        &mut self,
        now: Time,
        call: &Call<'_>,
        sections: Vec<String>,
    ) -> Step {
        if self.waits_for_answer(call) {
            return Step::Hold(Hold::Drained);
        }
        let nodes = self.router.primaries();
        let mut ways = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(client) = self.clients.get(call.id) else { return Step::Gone };
            let key = client.key_to(node, Lane::Shared);
            match self.upstream_for(now, key, call.id) {
                Availability::Ready(upstream) => ways.push(Ok(upstream)),
                Availability::Wait(upstream) => return Step::Hold(Hold::Upstream(upstream)),
                Availability::Down(error) => ways.push(Err(error)),
            }
        }
        let ticket = self.next_ticket;
        let wish = InfoWish { sections, waits: true, ..InfoWish::default() };
        let step = self.ask(call, Question::Report, Purpose::Info(wish.into()));
        let Some(asked) = self.asked.get_mut(ticket) else {
            return step;
        };
        if ways.is_empty() {
            let summary = Summary { unanswered: 1, ..Summary::default() };
            self.servers_told(ticket, summary);
            return step;
        }
        let (seq, protocol, parts) = (asked.seq, asked.protocol, ways.len() as u32);
        let room = self.spare.room();
        let merge = Merge::new(call.id, seq, false, protocol, How::Info { ticket }, parts, room);
        let merge = self.insert_merge(merge);
        let mut frame = Vec::new();
        encode::request(&mut frame, &[b"INFO"]);
        for (part, way) in (0..).zip(ways) {
            let owner = Owner::Part { merge, part };
            match way {
                Ok(upstream) => self.write_part(now, upstream, owner, Some(ids::INFO), &frame),
                Err(error) => self.part_reply(now, merge, part, &error),
            }
        }
        step
    }

    /// All primaries have answered, or will not.
    pub(crate) fn servers_told(&mut self, ticket: u64, mut summary: Summary) {
        summary.unanswered += usize::from(self.router.uncovered().is_some());
        let asked = self.asked.get_mut(ticket);
        let Some(Purpose::Info(wish)) = asked.map(|asked| &mut asked.purpose) else { return };
        wish.waits = false;
        wish.servers = Some(summary);
        self.ask_workers(ticket, Question::Report);
    }

    /// Everything that this INFO needs is there.
    pub(in crate::local) fn write_info(
        &self,
        out: &mut Vec<u8>,
        wish: &InfoWish,
        answers: Vec<Answer>,
        facts: &ProcessFacts,
        protocol: Protocol,
    ) {
        let error = wish.servers.as_ref().and_then(|servers| servers.error.as_ref());
        let only_keyspace = wish.sections.iter().all(|name| name == "keyspace");
        match error {
            // As for DBSIZE, the error of a server is the answer.
            Some(error) if only_keyspace && !wish.sections.is_empty() => {
                out.extend_from_slice(error);
            }
            _ => {
                let text = self.info_text(wish, answers, facts);
                encode::verbatim(out, *b"txt", text.as_bytes(), protocol);
            }
        }
    }

    /// Whether clients must not know how many keys the servers hold: theirs are some of them.
    pub(crate) fn hides_keyspace(&self) -> bool {
        self.namespace().is_some_and(|namespace| !namespace.allows_whole())
    }
}

/// Sections of a server's INFO that tell nothing of its keys (Redis 8.6, Valkey 9.1).
const BESIDE_KEYS: [&[u8]; 14] = [
    b"server",
    b"clients",
    b"memory",
    b"persistence",
    b"stats",
    b"replication",
    b"sentinel",
    b"cpu",
    b"modules",
    b"commandstats",
    b"errorstats",
    b"latencystats",
    b"cluster",
    b"threads",
];

/// Whether this call of INFO is forwarded and answered with what a server knows of all its keys: with a section that is not known to be another.
pub(crate) fn tells_of_all_keys(args: &[&[u8]]) -> bool {
    let mut words = args.iter().skip(1).map(|word| word.to_ascii_lowercase());
    if words.next().is_none_or(|word| word != b"upstream") {
        return false;
    }
    let sections: Vec<Vec<u8>> = words.collect();
    sections.is_empty() || sections.iter().any(|name| !BESIDE_KEYS.contains(&&**name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_info_has_no_end_counts_as_one_that_did_not_answer() {
        let info = |len: usize| {
            let text = format!("loading:1\r\n#{}", "x".repeat(len));
            format!("${}\r\n{text}\r\n", text.len())
        };
        let array = format!("*300000\r\n{}", ":1\r\n".repeat(300_000));
        let long_error = format!("-ERR {}\r\n", "x".repeat(10_000));
        for odd in [info(INFO_BYTES_MAX), array, long_error] {
            let summary = Summary::of(&[odd.as_bytes()]);
            assert_eq!((summary.unanswered, summary.is_loading), (1, false));
            let error = summary.error.expect("one of the proxy's");
            assert!(error.starts_with(b"-ERR respool: ") && error.len() < 256);
        }
        assert!(Summary::of(&[info(100).as_bytes()]).is_loading);
        let summary = Summary::of(&[b"-NOPERM no\r\n".as_slice()]);
        assert_eq!(summary.error.as_deref(), Some(b"-NOPERM no\r\n".as_slice()));
    }
}
