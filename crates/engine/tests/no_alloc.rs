//! The steady state allocates nothing: requests in, replies out, turn after turn.
//!
//! Fifty clients send pipelines of GET or SET over one connection, in RESP2 or RESP3; each turn is cut at other odd places,
//! on both sides, so that tails and kept halves are part of it. After a warm-up that lets every buffer reach its size, ten
//! thousand turns are counted by an allocator that counts for this thread.
//!
//! Not here: how fast it is (`benches/instructions.rs`), and what may allocate (local commands behind others, connects).
//!
//! Invariant: the count is 0, not "few": one allocation a turn would already be one that nobody asked for.

use engine::{Action, ClientId, Engine, Settings, Time, UpstreamId};

const CLIENTS: usize = 50;
const TURNS: usize = 10_000;

/// Turns before the count begins: every buffer has its size by then, and the clients' windows follow their replies.
const WARM_UP: usize = 100;

/// What every client sends in a turn and what it gets.
struct Traffic {
    request: Vec<u8>,
    replies: &'static [u8],
    pipeline: usize,
    resp3: bool,
}

/// An engine with its clients and one ready upstream.
struct Steady {
    engine: Engine,
    clients: Vec<ClientId>,
    upstream: UpstreamId,
    now: Time,
    pipeline: Vec<u8>,
    /// The replies for all clients of a turn.
    batch: Vec<u8>,
    turns: usize,
}

impl Steady {
    fn new(traffic: &Traffic) -> Self {
        let now = Time(1_000_000);
        let mut engine = Engine::new(Settings::default(), 1, now);
        let clients: Vec<ClientId> = (0..CLIENTS)
            .map(|_| {
                engine.handle_client_open(now, String::new(), String::new()).expect("there is room")
            })
            .collect();
        for client in &clients {
            let mut first = Vec::new();
            if traffic.resp3 {
                resp::encode::request(&mut first, &[b"HELLO", b"3"]);
            }
            first.extend_from_slice(&traffic.request);
            engine.handle_client_bytes(now, *client, &first);
        }
        let Some(Action::Connect(upstream)) = engine.poll_action() else {
            panic!("the first request did not connect");
        };
        engine.handle_upstream_connected(now, upstream);
        let hello: &[u8] = if traffic.resp3 { b"%1\r\n$5\r\nproto\r\n:3\r\n" } else { b"*0\r\n" };
        engine.handle_upstream_bytes(now, upstream, hello);
        engine.handle_upstream_bytes(now, upstream, b"*0\r\n");
        engine.handle_timeout(now);
        engine.handle_upstream_bytes(now, upstream, &traffic.replies.repeat(CLIENTS));
        let mut steady = Self {
            engine,
            clients,
            upstream,
            now,
            pipeline: traffic.request.repeat(traffic.pipeline),
            batch: traffic.replies.repeat(traffic.pipeline * CLIENTS),
            turns: 0,
        };
        steady.flush();
        while steady.engine.poll_notice().is_some() {}
        steady
    }

    /// One turn; returns the bytes that went up and down.
    fn turn(&mut self) -> (usize, usize) {
        self.turns += 1;
        self.now = self.now + 10;
        // Any place but the ends; primes, so that the places wander over the turns.
        let cut = 1 + self.turns * 7 % (self.pipeline.len() - 1);
        for index in 0..self.clients.len() {
            let client = self.clients[index];
            if (index + self.turns).is_multiple_of(3) {
                self.engine.handle_client_bytes(self.now, client, &self.pipeline[..cut]);
                self.engine.handle_client_bytes(self.now, client, &self.pipeline[cut..]);
            } else {
                self.engine.handle_client_bytes(self.now, client, &self.pipeline);
            }
        }
        self.engine.handle_timeout(self.now);
        let (up, none) = self.flush();
        assert_eq!(none, 0, "a reply before the server answered");
        let first = 1 + self.turns * 13 % (self.batch.len() / 2);
        let second = first + 1 + self.turns * 29 % (self.batch.len() - first - 1);
        for part in [&self.batch[..first], &self.batch[first..second], &self.batch[second..]] {
            self.engine.handle_upstream_bytes(self.now, self.upstream, part);
        }
        self.engine.handle_timeout(self.now);
        let (_, down) = self.flush();
        (up, down)
    }

    fn flush(&mut self) -> (usize, usize) {
        let (mut up, mut down) = (0, 0);
        while let Some(id) = self.engine.poll_dirty_upstream() {
            while let Some(buf) = self.engine.begin_upstream_send(id) {
                up += buf.len();
                self.engine.handle_upstream_sent(self.now, id, buf);
            }
        }
        while let Some(id) = self.engine.poll_dirty_client() {
            while let Some(buf) = self.engine.begin_client_send(id) {
                down += buf.len();
                self.engine.handle_client_sent(self.now, id, buf);
            }
        }
        assert_eq!(self.engine.poll_action(), None, "nothing is to be done in the steady state");
        (up, down)
    }
}

fn allocates_nothing(args: &[&[u8]], replies: &'static [u8]) {
    let mut request = Vec::new();
    resp::encode::request(&mut request, args);
    for (pipeline, resp3) in [(1, false), (1, true), (20, false), (20, true)] {
        let traffic = Traffic { request: request.clone(), replies, pipeline, resp3 };
        let mut steady = Steady::new(&traffic);
        for _ in 0..WARM_UP {
            steady.turn();
        }
        let expected = (steady.pipeline.len() * CLIENTS, steady.batch.len());
        let mut moved = (0, 0);
        let counted = allocation_counter::measure(|| {
            for _ in 0..TURNS {
                let (up, down) = steady.turn();
                moved = (moved.0 + up, moved.1 + down);
            }
        });
        steady.engine.check_invariants();
        assert_eq!(moved, (expected.0 * TURNS, expected.1 * TURNS), "all of it went through");
        assert_eq!(counted.count_total, 0, "pipeline {pipeline}, RESP3 {resp3}: {counted:?}");
    }
}

#[test]
fn get_allocates_nothing() {
    allocates_nothing(&[b"GET", b"key:000000000001"], b"$3\r\nxxx\r\n");
}

#[test]
fn set_allocates_nothing() {
    allocates_nothing(&[b"SET", b"key:000000000001", b"xxx"], b"+OK\r\n");
}

/// The counter counts: a reply that must be kept for its turn is known to allocate.
#[test]
fn a_kept_reply_is_counted() {
    let mut request = Vec::new();
    resp::encode::request(&mut request, &[b"GET", b"k"]);
    let traffic = Traffic { request, replies: b"$-1\r\n", pipeline: 1, resp3: false };
    let mut steady = Steady::new(&traffic);
    steady.turn();
    resp::encode::request(&mut steady.pipeline, &[b"PING"]);
    let counted = allocation_counter::measure(|| {
        let (now, client) = (steady.now, steady.clients[0]);
        steady.engine.handle_client_bytes(now, client, &steady.pipeline);
    });
    assert!(counted.count_total > 0);
}
