//! Instruction counts of a request's way in and a reply's way back, under callgrind: the same on every machine.
//!
//! Run `cargo bench -p engine` (needs valgrind and `cargo install gungraun-runner --version 0.20.0`). The numbers stand in
//! `docs/internals/instruction-counts.md`. Wall time is deliberately not measured here.
//!
//! `request_in` is scan, route, place, copy to the upstream's buffer and the entry in the FIFO: everything that
//! `handle_client_bytes` does with a read of plain requests. `reply_back` is scan, pairing with the client and the copy to its
//! buffer. `whole_turn` is both with the sends between, for fifty clients, which is what a worker does in a turn. `hot_keys` is a hundred such
//! turns without and with a look at some of the requests, as not every turn has one of those.

// The macros make public items of their own, which have no documentation.
#![allow(missing_docs)]

use std::hint::black_box;

use engine::{Action, ClientId, Engine, Settings, Time, UpstreamId};
use gungraun::{library_benchmark, library_benchmark_group, main};

const GET: (&[&[u8]], &[u8]) = (&[b"GET", b"key:000000000001"], b"$3\r\nxxx\r\n");
const SET: (&[&[u8]], &[u8]) = (&[b"SET", b"key:000000000001", b"xxx"], b"+OK\r\n");

/// A warm engine: its clients are connected, its upstream is ready, its buffers have their size.
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
    fn new(what: (&[&[u8]], &[u8]), pipeline: usize, clients: usize) -> Self {
        Self::with(Settings::default(), what, pipeline, clients)
    }

    /// The same, with hot keys looked for.
    fn hot(what: (&[&[u8]], &[u8]), pipeline: usize, clients: usize) -> Self {
        let hotkeys = engine::hotkeys::Options { enabled: true, ..Default::default() };
        Self::with(Settings { hotkeys, ..Settings::default() }, what, pipeline, clients)
    }

    fn with(
        settings: Settings,
        (args, reply): (&[&[u8]], &[u8]),
        pipeline: usize,
        clients: usize,
    ) -> Self {
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
        let batch = reply.repeat(pipeline * clients.len());
        let pipeline = request.repeat(pipeline);
        let mut warm = Self { engine, clients, upstream, now, pipeline, batch };
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

    fn flush_clients(&mut self) {
        while let Some(id) = self.engine.poll_dirty_client() {
            while let Some(buf) = self.engine.begin_client_send(id) {
                self.engine.handle_client_sent(self.now, id, black_box(buf));
            }
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

/// Ready for its requests.
fn before_request(what: (&[&[u8]], &[u8]), pipeline: usize) -> Warm {
    Warm::new(what, pipeline, 1)
}

/// The requests are on their way, the replies are next.
fn before_reply(what: (&[&[u8]], &[u8]), pipeline: usize) -> Warm {
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
fn request_in(mut warm: Warm) {
    warm.requests_in();
    // Freeing is no part of it.
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::get(before_reply(GET, 1))]
#[bench::set(before_reply(SET, 1))]
#[bench::get_20(before_reply(GET, 20))]
#[bench::set_20(before_reply(SET, 20))]
fn reply_back(mut warm: Warm) {
    warm.replies_back();
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::get_50_clients(Warm::new(GET, 1, 50))]
#[bench::set_50_clients(Warm::new(SET, 1, 50))]
#[bench::get_20_50_clients(Warm::new(GET, 20, 50))]
#[bench::set_20_50_clients(Warm::new(SET, 20, 50))]
fn whole_turn(mut warm: Warm) {
    warm.turn();
    std::mem::forget(black_box(warm));
}

#[library_benchmark]
#[bench::off_get(Warm::new(GET, 1, 50))]
#[bench::on_get(Warm::hot(GET, 1, 50))]
#[bench::off_get_20(Warm::new(GET, 20, 50))]
#[bench::on_get_20(Warm::hot(GET, 20, 50))]
fn hot_keys(mut warm: Warm) {
    for _ in 0..100 {
        warm.turn();
    }
    std::mem::forget(black_box(warm));
}

library_benchmark_group!(name = path, benchmarks = [request_in, reply_back, whole_turn, hot_keys]);
main!(library_benchmark_groups = path);
