//! Instruction counts of a worker's turn in front of a cluster, under callgrind: fifty clients send, every node gets one write,
//! every node answers at once, the merged and ordered replies go out.
//!
//! Run `cargo bench -p engine --bench cluster` as `instructions`, which has the same for one server. An `MGET` of thirty keys
//! becomes a part a slot; a pipeline of thirty `GET`s goes to the owners of its keys and its replies wait for their turn. The last case is that
//! pipeline in front of shards with routes, of which the prefix of each key chooses one.
//!
//! Not here: the system calls, of which a turn makes two a node and two a client whatever stands in it.
//!
//! Invariant: the keys of every turn are the same, so what the nodes answer is known from the turns before.

// The macros make public items of their own, which have no documentation.
#![allow(missing_docs)]

use std::fmt::Write as _;
use std::hint::black_box;

use engine::node::Address;
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution, Route, Routes, Shard, Sharding};
use engine::settings::{Node, Pool, ShardSettings, ShardsSettings};
use engine::{Action, ClientId, Engine, Settings, Time, UpstreamId};
use gungraun::{library_benchmark, library_benchmark_group, main};
use resp::{RequestLimits, RequestScanner, Scan};

const CLIENTS: usize = 50;
const KEYS: usize = 30;
/// Routes of the last case.
const ROUTES: usize = 100;
const VALUE: &[u8] = b"$30\r\nabcdefghijklmnopqrstuvwxyz0123\r\n";

/// What each client asks for in a turn.
#[derive(Clone, Copy)]
enum Load {
    Mget,
    Pipeline,
}

/// A warm engine, and what its nodes answer in a turn.
struct Warm {
    engine: Engine,
    now: Time,
    inputs: Vec<(ClientId, Vec<u8>)>,
    answers: Vec<(UpstreamId, Vec<u8>)>,
}

impl Warm {
    fn new(load: Load, nodes: usize) -> Self {
        let seeds = vec![Address::tcp("n0", 7_000)];
        let mut settings = Settings { pool: Pool::Cluster { seeds }, ..Settings::default() };
        settings.node.address = Address::tcp("n0", 7_000);
        Self::behind(settings, load, nodes)
    }

    /// Single servers that share the keys by what these begin with.
    fn routed(load: Load, nodes: usize) -> Self {
        let node = |node: usize| Address::tcp(format!("n{node}"), 7_000);
        let child = |index: usize| ShardSettings {
            shard: Shard { name: format!("n{index}"), weight: 1 },
            node: Node { address: node(index), ..Settings::default().node },
            pool: Pool::Standalone,
        };
        let route = |index: usize| Route {
            prefix: format!("key:{index}").into_bytes(),
            shards: vec![(index % nodes) as u16],
            removes: false,
        };
        let rest = Route { prefix: Vec::new(), shards: vec![0], removes: false };
        let list = (0..ROUTES).map(route).chain([rest]).collect();
        let sharding = Sharding {
            compat: Compat::Twemproxy,
            distribution: Distribution::Ketama,
            hash: Hash::Fnv1a64,
            tag: None,
            routes: Some(Routes { ignore_case: false, list }),
        };
        let children = (0..nodes).map(child).collect();
        let shards = Some(ShardsSettings { sharding, children, eject: None });
        let mut settings = Settings { shards, ..Settings::default() };
        settings.node.address = node(0);
        Self::behind(settings, load, nodes)
    }

    fn behind(settings: Settings, load: Load, nodes: usize) -> Self {
        let now = Time(1_000_000);
        let mut engine = Engine::new(settings, 1, now);
        let inputs = (0..CLIENTS)
            .filter_map(|_| engine.handle_client_open(now, String::new(), String::new()))
            .enumerate()
            .map(|(number, id)| (id, input(load, number)))
            .collect();
        let mut warm = Self { engine, now, inputs, answers: Vec::new() };
        warm.engine.warm_up(now);
        let table = table(nodes);
        // The first turns connect and greet; the last one's answers are kept.
        for _ in 0..50 {
            warm.now = warm.now + 1_000;
            warm.requests_in();
            warm.talk(&table);
        }
        warm.requests_in();
        warm.answers =
            warm.asked().into_iter().map(|(id, out)| (id, answer(&out, &table))).collect();
        assert_eq!(warm.answers.len(), nodes, "each node has its part");
        warm.answers_back();
        warm
    }

    fn requests_in(&mut self) {
        for (client, input) in &self.inputs {
            self.engine.handle_client_bytes(self.now, *client, black_box(input));
        }
        self.engine.handle_timeout(self.now);
    }

    /// What is written to each upstream.
    fn asked(&mut self) -> Vec<(UpstreamId, Vec<u8>)> {
        let mut asked = Vec::new();
        while let Some(id) = self.engine.poll_dirty_upstream() {
            let mut out = Vec::new();
            while let Some(buf) = self.engine.begin_upstream_send(id) {
                out.extend_from_slice(&buf);
                self.engine.handle_upstream_sent(self.now, id, buf);
            }
            asked.push((id, out));
        }
        asked
    }

    /// Connects and answers until there is nothing left to say.
    fn talk(&mut self, table: &[u8]) {
        loop {
            while let Some(action) = self.engine.poll_action() {
                if let Action::Connect(id) = action {
                    self.engine.handle_upstream_connected(self.now, id);
                }
            }
            let asked = self.asked();
            if asked.is_empty() {
                break;
            }
            for (id, out) in asked {
                self.engine.handle_upstream_bytes(self.now, id, &answer(&out, table));
            }
            self.engine.handle_timeout(self.now);
        }
        self.flush_clients();
    }

    fn flush_clients(&mut self) {
        while let Some(id) = self.engine.poll_dirty_client() {
            while let Some(buf) = self.engine.begin_client_send(id) {
                self.engine.handle_client_sent(self.now, id, black_box(buf));
            }
        }
    }

    fn answers_back(&mut self) {
        for (id, bytes) in &self.answers {
            self.engine.handle_upstream_bytes(self.now, *id, black_box(bytes));
        }
        self.engine.handle_timeout(self.now);
        self.flush_clients();
    }

    fn turn(&mut self) {
        self.now = self.now + 10;
        self.requests_in();
        while let Some(id) = self.engine.poll_dirty_upstream() {
            while let Some(buf) = self.engine.begin_upstream_send(id) {
                self.engine.handle_upstream_sent(self.now, id, black_box(buf));
            }
        }
        self.answers_back();
    }
}

/// The requests of one client in a turn.
fn input(load: Load, client: usize) -> Vec<u8> {
    let keys: Vec<String> =
        (0..KEYS).map(|key| format!("key:{}", client * 7_919 + key * 101)).collect();
    let mut out = Vec::new();
    match load {
        Load::Mget => {
            let mut args: Vec<&[u8]> = vec![b"MGET"];
            args.extend(keys.iter().map(|key| key.as_bytes()));
            resp::encode::request(&mut out, &args);
        }
        Load::Pipeline => {
            for key in &keys {
                resp::encode::request(&mut out, &[b"GET", key.as_bytes()]);
            }
        }
    }
    out
}

/// The reply to CLUSTER SLOTS: so many primaries with as many slots each.
fn table(nodes: usize) -> Vec<u8> {
    let mut out = format!("*{nodes}\r\n");
    for node in 0..nodes {
        let (first, last) = (16_384 * node / nodes, 16_384 * (node + 1) / nodes - 1);
        let name = format!("n{node}");
        let _ = write!(
            out,
            "*3\r\n:{first}\r\n:{last}\r\n*3\r\n${}\r\n{name}\r\n:7000\r\n$2\r\nid\r\n",
            name.len()
        );
    }
    out.into_bytes()
}

/// What a node says to these requests.
fn answer(requests: &[u8], table: &[u8]) -> Vec<u8> {
    let mut scanner = RequestScanner::default();
    let (mut rest, mut out) = (requests, Vec::new());
    while !rest.is_empty() {
        let Ok(Scan::Complete { frame, .. }) = scanner.scan(rest, &RequestLimits::default()) else {
            break;
        };
        let (frame, after) = rest.split_at(frame.len as usize);
        rest = after;
        let args: Vec<&[u8]> = resp::Args::new(frame).collect();
        match args[..] {
            [b"GET", _] => out.extend_from_slice(VALUE),
            [b"MGET", ref keys @ ..] => {
                resp::encode::array(&mut out, keys.len());
                keys.iter().for_each(|_| out.extend_from_slice(VALUE));
            }
            [b"CLUSTER", b"SLOTS"] => out.extend_from_slice(table),
            [b"CLUSTER", ..] => {
                resp::encode::bulk(&mut out, b"cluster_state:ok\r\ncluster_known_nodes:3\r\n");
            }
            [b"COMMAND" | b"HELLO", ..] => out.extend_from_slice(b"*0\r\n"),
            _ => out.extend_from_slice(b"+OK\r\n"),
        }
    }
    out
}

#[library_benchmark]
#[bench::mget_3_nodes(Warm::new(Load::Mget, 3))]
#[bench::mget_15_nodes(Warm::new(Load::Mget, 15))]
#[bench::pipeline_3_nodes(Warm::new(Load::Pipeline, 3))]
#[bench::pipeline_15_nodes(Warm::new(Load::Pipeline, 15))]
#[bench::pipeline_routes(Warm::routed(Load::Pipeline, 3))]
fn turn(mut warm: Warm) {
    warm.turn();
    // Freeing is no part of it.
    std::mem::forget(black_box(warm));
}

library_benchmark_group!(name = cluster, benchmarks = [turn]);
main!(library_benchmark_groups = cluster);
