//! Instruction counts of a request's way in and a reply's way back, under callgrind: the same on every machine.
//!
//! Run `cargo bench -p engine` (needs valgrind and `cargo install gungraun-runner --version 0.20.0`). The numbers stand in
//! `docs/internals/instruction-counts.md`. Wall time is deliberately not measured here.
//!
//! `request_in` is scan, route, place, copy to the upstream's buffer and the entry in the FIFO: everything that
//! `handle_client_bytes` does with a read of plain requests. `reply_back` is scan, pairing with the client and the copy to its
//! buffer. `whole_turn` is both with the sends between, for fifty clients, which is what a worker does in a turn; `cache_hits` is the same turn when all of it is
//! answered from the near cache. `watching` is a hundred such
//! turns with nobody watching, and with each kind of watching by itself and all together, as not every turn has a request that is looked at. `ruled` is a turn
//! with policies in force. `broadcast` is a turn of one client that switches tracking off and on, beside 10 and beside 2,000 other
//! clients in BCAST mode: both cost nearly as much. `leave` is a client that leaves ten channels, of which the server confirms one in each turn, beside 10 and
//! beside 10,000 channels of another client: both cost nearly as much.

// The macros make public items of their own, which have no documentation.
#![allow(missing_docs)]

use std::hint::black_box;

use std::sync::Arc;

use engine::command::CommandId;
use engine::policy::own::{Failure, Judge, Judgement, Own, Program, Verdict, View};
use engine::policy::{
    Again, Fault, Namespace, Per, Policies, Rate, Renaming, Rule, Rules, Size, Unit, Values,
    Wanted, What,
};
use engine::stats::monitors::MonitorOptions;
use engine::{Action, ClientId, Engine, Settings, Time, UpstreamId};
use gungraun::{library_benchmark, library_benchmark_group, main};

const GET: (&[&[u8]], &[u8]) = (&[b"GET", b"key:000000000001"], b"$3\r\nxxx\r\n");
const SET: (&[&[u8]], &[u8]) = (&[b"SET", b"key:000000000001", b"xxx"], b"+OK\r\n");

/// A warm engine: its clients are connected, its upstream is ready, its buffers have their size. In a box, as what is counted would else begin
/// with moving it.
struct Warm {
    engine: Engine,
    clients: Vec<ClientId>,
    upstream: UpstreamId,
    now: Time,
    /// What one client sends, and the replies for all clients.
    pipeline: Vec<u8>,
    batch: Vec<u8>,
}

impl Warm {
    fn new(what: (&[&[u8]], &[u8]), pipeline: usize, clients: usize) -> Box<Self> {
        Self::with(Settings::default(), what, pipeline, clients)
    }

    /// The same, watched in this way.
    fn watched(watch: fn(&mut Settings), pipeline: usize) -> Box<Self> {
        let mut settings = Settings::default();
        nobody(&mut settings);
        watch(&mut settings);
        Self::with(settings, GET, pipeline, 50)
    }

    fn with(
        settings: Settings,
        (args, reply): (&[&[u8]], &[u8]),
        pipeline: usize,
        clients: usize,
    ) -> Box<Self> {
        let now = Time(1_000_000);
        let mut engine = Engine::new(settings, 1, now);
        let mut request = Vec::new();
        resp::encode::request(&mut request, args);
        let clients: Vec<ClientId> = (0..clients)
            .filter_map(|_| engine.handle_client_open(now, String::new(), String::new()))
            .collect();
        engine.warm_up(now);
        let Some(Action::Connect(upstream)) = engine.poll_action() else {
            panic!("a warm-up connects");
        };
        engine.handle_upstream_connected(now, upstream);
        // The greeting's answer, and that to COMMAND.
        engine.handle_upstream_bytes(now, upstream, b"*0\r\n*0\r\n");
        let singles = reply.repeat(clients.len());
        let mut warm =
            Box::new(Self { engine, clients, upstream, now, pipeline: request, batch: singles });
        // A client of whose replies nothing is known has a window of a few requests, so each has one answered first.
        warm.turn();
        warm.pipeline = warm.pipeline.repeat(pipeline);
        warm.batch = warm.batch.repeat(pipeline);
        // Replies of this size for the windows, and buffers for the pool.
        for _ in 0..50 {
            warm.turn();
        }
        warm
    }

    fn requests_in(&mut self) {
        for client in &self.clients {
            self.engine.handle_client_bytes(self.now, *client, black_box(&self.pipeline));
        }
    }

    fn flush_upstreams(&mut self) {
        while let Some(id) = self.engine.poll_dirty_upstream() {
            while let Some(buf) = self.engine.begin_upstream_send(id) {
                self.engine.handle_upstream_sent(self.now, id, black_box(buf));
            }
        }
    }

    fn replies_back(&mut self) {
        self.engine.handle_upstream_bytes(self.now, self.upstream, black_box(&self.batch));
    }

    /// Sends all output for clients. Returns the number of bytes.
    fn flush_clients(&mut self) -> usize {
        let mut sent = 0;
        while let Some(id) = self.engine.poll_dirty_client() {
            while let Some(buf) = self.engine.begin_client_send(id) {
                sent += buf.len();
                self.engine.handle_client_sent(self.now, id, black_box(buf));
            }
        }
        sent
    }

    /// Connects and greets the feeds that the engine asks for. `replies` answers the commands behind the greeting.
    fn connect_feeds(&mut self, replies: &[u8]) {
        while let Some(action) = self.engine.poll_action() {
            let Action::Connect(feed) = action else { continue };
            self.engine.handle_upstream_connected(self.now, feed);
            self.flush_upstreams();
            let hello = b"%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n";
            self.engine.handle_upstream_bytes(self.now, feed, hello);
            self.flush_upstreams();
            self.engine.handle_upstream_bytes(self.now, feed, replies);
        }
    }

    /// A worker's turn, without the system calls.
    fn turn(&mut self) {
        self.now = self.now + 10;
        self.requests_in();
        self.engine.handle_timeout(self.now);
        self.flush_upstreams();
        self.replies_back();
        self.engine.handle_timeout(self.now);
        self.flush_clients();
    }
}

/// Its reads are answered from the near cache.
fn hitting(pipeline: usize) -> Box<Warm> {
    let mut settings = Settings::default();
    settings.cache.enabled = true;
    settings.cache.min_reads = 1;
    settings.cache.ttl_ms = 3_600_000;
    let mut warm = Warm::with(settings, GET, pipeline, 50);
    // The first reads found no connection over which the server tells of changes, and wanted one.
    warm.connect_feeds(b"");
    let mut request = Vec::new();
    resp::encode::request(&mut request, GET.0);
    warm.engine.handle_client_bytes(warm.now, warm.clients[0], &request);
    warm.flush_upstreams();
    // CLIENT TRACKING, CLIENT CACHING YES, and the read.
    let replies = [b"+OK\r\n+OK\r\n", GET.1].concat();
    warm.engine.handle_upstream_bytes(warm.now, warm.upstream, &replies);
    warm.flush_clients();
    warm.batch.clear();
    warm.turn();
    assert_eq!(warm.engine.stats().cache_hits, 50 * pipeline as u64, "no hits");
    warm
}

/// `clients` clients in BCAST mode (`CLIENT TRACKING ON BCAST`). The first client switches tracking off and on, ten times a turn.
fn broadcasting(clients: usize) -> Box<Warm> {
    let mut warm = Warm::with(Settings::default(), GET, 1, clients);
    let says = |words: &[&[u8]]| {
        let mut request = Vec::new();
        resp::encode::request(&mut request, words);
        request
    };
    let on = says(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]);
    warm.batch.clear();
    for request in [says(&[b"HELLO", b"3"]), on.clone()] {
        warm.pipeline = request;
        warm.turn();
    }
    warm.connect_feeds(b"+OK\r\n");
    warm.flush_clients();
    warm.pipeline = [says(&[b"CLIENT", b"TRACKING", b"OFF"]), on].concat().repeat(10);
    warm.clients.truncate(1);
    for _ in 0..10 {
        warm.turn();
    }
    warm.requests_in();
    assert_eq!(warm.flush_clients(), 20 * b"+OK\r\n".len(), "one of them is not answered");
    warm
}

/// The first client listens to ten channels, the second one to so many others. The first client's request is to leave its own, and the batch has the
/// server's ten confirmations.
fn leaving(others: usize) -> Box<Warm> {
    let mut warm = Warm::with(Settings::default(), GET, 1, 2);
    let names = |first: usize, count: usize| -> Vec<Vec<u8>> {
        (first..first + count).map(|number| format!("channel:{number:08}").into()).collect()
    };
    let confirms = |word: &str, names: &[Vec<u8>]| -> Vec<u8> {
        let frame = |name: &Vec<u8>| {
            let head = format!("*3\r\n${}\r\n{word}\r\n${}\r\n", word.len(), name.len());
            [head.as_bytes(), name, b"\r\n:1\r\n"].concat()
        };
        names.iter().flat_map(frame).collect()
    };
    let own = names(0, 10);
    let mut listener = None;
    for (client, names) in [(0, &own), (1, &names(10, others))] {
        for names in names.chunks(500) {
            let words: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let mut request = Vec::new();
            resp::encode::request(&mut request, &[&[&b"SUBSCRIBE"[..]], &words[..]].concat());
            warm.engine.handle_client_bytes(warm.now, warm.clients[client], &request);
            if let Some(Action::Connect(id)) = warm.engine.poll_action() {
                warm.engine.handle_upstream_connected(warm.now, id);
                warm.flush_upstreams();
                warm.engine.handle_upstream_bytes(warm.now, id, b"*0\r\n");
                listener = Some(id);
            }
            warm.upstream = listener.expect("a connection for channels");
            warm.flush_upstreams();
            let confirms = confirms("subscribe", names);
            warm.engine.handle_upstream_bytes(warm.now, warm.upstream, &confirms);
            warm.engine.handle_timeout(warm.now);
            assert!(warm.flush_clients() >= confirms.len(), "they are not confirmed");
        }
    }
    warm.pipeline.clear();
    let words: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
    let request = [&[&b"UNSUBSCRIBE"[..]], &words[..]].concat();
    resp::encode::request(&mut warm.pipeline, &request);
    warm.batch = confirms("unsubscribe", &own);
    warm
}

/// Ready for its requests.
fn before_request(what: (&[&[u8]], &[u8]), pipeline: usize) -> Box<Warm> {
    Warm::new(what, pipeline, 1)
}

/// The requests are on their way, the replies are next.
fn before_reply(what: (&[&[u8]], &[u8]), pipeline: usize) -> Box<Warm> {
    let mut warm = Warm::new(what, pipeline, 1);
    warm.requests_in();
    warm.flush_upstreams();
    warm
}

#[library_benchmark]
#[bench::get(before_request(GET, 1))]
#[bench::set(before_request(SET, 1))]
#[bench::get_20(before_request(GET, 20))]
#[bench::set_20(before_request(SET, 20))]
fn request_in(mut warm: Box<Warm>) {
    warm.requests_in();
    // Freeing is no part of it.
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::get(before_reply(GET, 1))]
#[bench::set(before_reply(SET, 1))]
#[bench::get_20(before_reply(GET, 20))]
#[bench::set_20(before_reply(SET, 20))]
fn reply_back(mut warm: Box<Warm>) {
    warm.replies_back();
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::get_50_clients(Warm::new(GET, 1, 50))]
#[bench::set_50_clients(Warm::new(SET, 1, 50))]
#[bench::get_20_50_clients(Warm::new(GET, 20, 50))]
#[bench::set_20_50_clients(Warm::new(SET, 20, 50))]
fn whole_turn(mut warm: Box<Warm>) {
    warm.turn();
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::get_50_clients(hitting(1))]
#[bench::get_20_50_clients(hitting(20))]
fn cache_hits(mut warm: Box<Warm>) {
    warm.turn();
    std::mem::forget(black_box(warm));
}

/// Nobody watches: the slow log and big keys, which are on by default, are off.
fn nobody(settings: &mut Settings) {
    (settings.slowlog.max_len, settings.bigkeys.max_len) = (0, 0);
}

fn slow_and_big(settings: &mut Settings) {
    (settings.slowlog, settings.bigkeys) = Default::default();
}

fn hot_keys(settings: &mut Settings) {
    settings.hotkeys.enabled = true;
}

fn monitors(settings: &mut Settings) {
    let commands = (0..=engine::command::COUNT).map(CommandId::from_index).collect();
    let bounds_us = vec![100, 200, 500, 1_000, 5_000, 10_000];
    settings.monitors = vec![MonitorOptions { name: "all".into(), commands, bounds_us }];
}

fn access_log(settings: &mut Settings) {
    settings.observed.access.sample = 1_000;
}

fn all(settings: &mut Settings) {
    [slow_and_big, hot_keys, monitors, access_log].iter().for_each(|watch| watch(settings));
}

#[library_benchmark]
#[bench::nobody(Warm::watched(nobody, 1))]
#[bench::slow_and_big(Warm::watched(slow_and_big, 1))]
#[bench::hot_keys(Warm::watched(hot_keys, 1))]
#[bench::monitors(Warm::watched(monitors, 1))]
#[bench::access_log(Warm::watched(access_log, 1))]
#[bench::all(Warm::watched(all, 1))]
#[bench::nobody_20(Warm::watched(nobody, 20))]
#[bench::slow_and_big_20(Warm::watched(slow_and_big, 20))]
#[bench::hot_keys_20(Warm::watched(hot_keys, 20))]
#[bench::monitors_20(Warm::watched(monitors, 20))]
#[bench::access_log_20(Warm::watched(access_log, 20))]
#[bench::all_20(Warm::watched(all, 20))]
fn watching(mut warm: Box<Warm>) {
    for _ in 0..100 {
        warm.turn();
        while let Some(observed) = warm.engine.poll_observed() {
            black_box(observed);
        }
    }
    std::mem::forget(black_box(warm));
}

/// Policies that are about none of the requests, a rate that none of them exceeds, and a rate for each client.
fn policies(rules: fn(&mut Rules), pipeline: usize) -> Box<Warm> {
    let mut wanted = Rules::default();
    rules(&mut wanted);
    let policies = Policies::new(wanted).map(Arc::new);
    Warm::with(Settings { policies, ..Settings::default() }, GET, pipeline, 50)
}

fn rule<T>(commands: &[&str], key: &str, detail: T) -> Rule<T> {
    let keys = if key.is_empty() { Vec::new() } else { vec![key.as_bytes().into()] };
    let what = What::new(commands, keys, false).expect("commands");
    Rule { what, name: String::new(), error: None, detail }
}

fn deny(rules: &mut Rules) {
    rules.deny = vec![rule(&["keys"], "", ())];
}

fn block(rules: &mut Rules) {
    rules.block = vec![rule(&["get"], "other:*", ())];
}

fn rate(rules: &mut Rules, per: Per) {
    let detail = Rate { unit: Unit::Requests, per_s: 1 << 40, burst: 1 << 40, per, delay_ms: 0 };
    rules.rate = vec![rule(&[], "", detail)];
}

fn rate_of_all(rules: &mut Rules) {
    rate(rules, Per::All);
}

fn rate_of_each(rules: &mut Rules) {
    rate(rules, Per::Client);
}

/// Lets everything pass at once: what is left is what a program costs that costs nothing itself.
#[derive(Debug)]
struct Passes;

impl Program for Passes {
    fn judge(&self) -> Result<Box<dyn Judge>, Failure> {
        Ok(Box::new(Self))
    }
}

impl Judge for Passes {
    fn request(&mut self, view: &View<'_>) -> Judgement {
        black_box(view);
        Judgement { verdict: Ok(Verdict::Pass), fuel: 1, line: None }
    }
}

fn with_program(commands: &[&str], pipeline: usize) -> Box<Warm> {
    let file = String::new();
    let own = Own { file, fuel: 1_000, memory_max_bytes: 1 << 16, passes_on_failure: false };
    let wanted = Rules { own: vec![rule(commands, "", own)], ..Rules::default() };
    let program: Arc<dyn Program> = Arc::new(Passes);
    let policies =
        Policies::new(wanted).map(|policies| policies.with_programs(vec![Some(program)]));
    let policies = policies.map(Arc::new);
    Warm::with(Settings { policies, ..Settings::default() }, GET, pipeline, 50)
}

fn namespace(rules: &mut Rules) {
    rules.namespace = Namespace::new(b"team-a:", false).ok();
}

fn rename(rules: &mut Rules) {
    let (from, to) = (b"config"[..].into(), b"config-1b7f"[..].into());
    rules.rename = vec![Renaming { from, to }];
}

fn read_only(rules: &mut Rules) {
    rules.read_only = true;
}

fn size(rules: &mut Rules) {
    rules.size = vec![rule(&[], "", Size { bytes_max: 1 << 20, args_max: 10_000 })];
}

fn fault(rules: &mut Rules) {
    rules.fault =
        vec![rule(&["get"], "other:*", Fault { per_million: 1_000, delay_ms: 50, fails: false })];
}

fn double_delete(rules: &mut Rules) {
    rules.double_delete = vec![rule(&["del", "unlink"], "", Again { delay_ms: 500 })];
}

fn values_of(pattern: &str) -> Option<Values> {
    let compress = vec![pattern.as_bytes().into()];
    Values::new(Wanted { compress, strings: true, ..Wanted::default() })
}

fn values_of_others(rules: &mut Rules) {
    rules.values = values_of("other:*");
}

fn values(rules: &mut Rules) {
    rules.values = values_of("*");
}

#[library_benchmark]
#[bench::rename(policies(rename, 1))]
#[bench::rename_20(policies(rename, 20))]
#[bench::read_only(policies(read_only, 1))]
#[bench::read_only_20(policies(read_only, 20))]
#[bench::size(policies(size, 1))]
#[bench::size_20(policies(size, 20))]
#[bench::fault(policies(fault, 1))]
#[bench::fault_20(policies(fault, 20))]
#[bench::double_delete(policies(double_delete, 1))]
#[bench::double_delete_20(policies(double_delete, 20))]
#[bench::values(policies(values, 1))]
#[bench::values_20(policies(values, 20))]
#[bench::values_of_others(policies(values_of_others, 1))]
#[bench::values_of_others_20(policies(values_of_others, 20))]
#[bench::own_of_others(with_program(&["set"], 1))]
#[bench::own_passes(with_program(&["get"], 1))]
#[bench::own_of_others_20(with_program(&["set"], 20))]
#[bench::own_passes_20(with_program(&["get"], 20))]
#[bench::deny(policies(deny, 1))]
#[bench::block(policies(block, 1))]
#[bench::rate(policies(rate_of_all, 1))]
#[bench::rate_of_each(policies(rate_of_each, 1))]
#[bench::deny_20(policies(deny, 20))]
#[bench::block_20(policies(block, 20))]
#[bench::rate_20(policies(rate_of_all, 20))]
#[bench::rate_of_each_20(policies(rate_of_each, 20))]
#[bench::namespace(policies(namespace, 1))]
#[bench::namespace_20(policies(namespace, 20))]
fn ruled(mut warm: Box<Warm>) {
    warm.turn();
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::beside_10(broadcasting(10))]
#[bench::beside_2000(broadcasting(2_000))]
fn broadcast(mut warm: Box<Warm>) {
    warm.turn();
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::beside_10(leaving(10))]
#[bench::beside_10000(leaving(10_000))]
fn leave(mut warm: Box<Warm>) {
    let client = warm.clients[0];
    warm.engine.handle_client_bytes(warm.now, client, black_box(&warm.pipeline));
    warm.flush_upstreams();
    let confirms = std::mem::take(&mut warm.batch);
    for confirm in confirms.chunks(confirms.len() / 10) {
        warm.engine.handle_upstream_bytes(warm.now, warm.upstream, black_box(confirm));
        warm.engine.handle_timeout(warm.now);
    }
    warm.flush_clients();
    std::mem::forget(black_box(warm));
}

library_benchmark_group!(
    name = path,
    benchmarks =
        [request_in, reply_back, whole_turn, cache_hits, watching, ruled, broadcast, leave]
);
main!(library_benchmark_groups = path);
