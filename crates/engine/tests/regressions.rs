//! Bugs that the simulation of the whole worker found (`server/tests/sim`), each as the shortest story that shows it.
//!
//! They stand here and not as seeds, since what a seed means changes with the simulator.
//!
//! Invariant: each story failed before its fix.

use engine::settings::Limits;
use engine::{Action, ClientId, Engine, Settings, Time, UpstreamId};

const HELLO: &[u8] = b"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.4\r\n$5\r\nproto\r\n:2\r\n\
    $2\r\nid\r\n:5\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

/// An engine, the time, and what it asked for.
struct Bench {
    engine: Engine,
    now: Time,
    actions: Vec<Action>,
}

impl Bench {
    /// With these limits, its first upstream ready and all that it knows learnt.
    fn new(change: impl FnOnce(&mut Limits)) -> (Self, UpstreamId) {
        let mut settings = Settings::default();
        change(&mut settings.limits);
        let now = Time(1_000_000);
        let mut engine = Engine::new(settings, 1, now);
        engine.warm_up(now);
        let mut bench = Self { engine, now, actions: Vec::new() };
        let upstream = bench.connected();
        bench.engine.handle_upstream_bytes(now, upstream, b"*0\r\n");
        (bench, upstream)
    }

    /// Carries out the connect that is asked for, greeting included.
    fn connected(&mut self) -> UpstreamId {
        self.turn();
        let wanted = self.actions.iter().rev().find_map(|action| match action {
            Action::Connect(id) => Some(*id),
            _ => None,
        });
        let id = wanted.expect("a connect is asked for");
        self.engine.handle_upstream_connected(self.now, id);
        self.sent_to(id);
        self.engine.handle_upstream_bytes(self.now, id, HELLO);
        self.sent_to(id);
        self.turn();
        id
    }

    fn client(&mut self) -> ClientId {
        let opened = self.engine.handle_client_open(self.now, "a:1".into(), "b:2".into());
        opened.expect("there is room for a client")
    }

    fn says(&mut self, client: ClientId, bytes: &[u8]) {
        self.engine.handle_client_bytes(self.now, client, bytes);
        self.turn();
    }

    fn turn(&mut self) {
        self.engine.handle_timeout(self.now);
        while let Some(action) = self.engine.poll_action() {
            self.actions.push(action);
        }
        while self.engine.poll_notice().is_some() {}
    }

    /// Everything that goes to an upstream by now.
    fn sent_to(&mut self, id: UpstreamId) -> Vec<u8> {
        while self.engine.poll_dirty_upstream().is_some() {}
        let mut sent = Vec::new();
        while let Some(buf) = self.engine.begin_upstream_send(id) {
            sent.extend_from_slice(&buf);
            self.engine.handle_upstream_sent(self.now, id, buf);
        }
        sent
    }

    /// Everything that goes to a client by now.
    fn sent_to_client(&mut self, id: ClientId) -> Vec<u8> {
        while self.engine.poll_dirty_client().is_some() {}
        let mut sent = Vec::new();
        while let Some(buf) = self.engine.begin_client_send(id) {
            sent.extend_from_slice(&buf);
            self.engine.handle_client_sent(self.now, id, buf);
        }
        sent
    }

    /// Whether the client is read, by the last word about it.
    fn reads(&self, client: ClientId) -> bool {
        let word = self.actions.iter().rev().find_map(|action| match action {
            Action::ReadClient(id, on) if *id == client => Some(*on),
            _ => None,
        });
        word.unwrap_or(true)
    }
}

fn large_set(key: &str, bytes: usize) -> Vec<u8> {
    let mut request =
        format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${bytes}\r\n", key.len()).into_bytes();
    request.resize(request.len() + bytes, b'x');
    request.extend_from_slice(b"\r\n");
    request
}

/// The end of a stream and the end of a send can be told in one wait: the send belonged to the connection that is gone.
#[test]
fn late_events_of_a_lost_connection_do_not_touch_the_next_one() {
    let (mut bench, upstream) = Bench::new(|_| {});
    let client = bench.client();
    bench.says(client, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    while bench.engine.poll_dirty_upstream().is_some() {}
    let in_flight = bench.engine.begin_upstream_send(upstream).expect("the request goes out");
    bench.engine.handle_upstream_closed(bench.now, upstream, "closed the connection");
    bench.engine.handle_upstream_sent(bench.now, upstream, in_flight);
    bench.engine.handle_upstream_bytes(bench.now, upstream, b"$1\r\nv\r\n");
    assert!(bench.sent_to_client(client).starts_with(b"-ERR respool: upstream"));
    let again = bench.connected();
    assert_eq!(again, upstream, "it connects again at once and is not down");
    bench.says(client, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert!(bench.sent_to(upstream).ends_with(b"$3\r\nGET\r\n$1\r\nk\r\n"));
    bench.engine.check_invariants();
}

/// A bound for kept input below the one for large requests is allowed; a request between the two must still come in.
#[test]
fn a_request_above_the_input_mark_is_read_to_its_end() {
    let (mut bench, upstream) = Bench::new(|limits| limits.client_in_high_bytes = 4_096);
    let client = bench.client();
    let request = large_set("k", 6_000);
    bench.says(client, &request[..5_000]);
    assert!(bench.reads(client), "half a request, and its rest is not read");
    bench.says(client, &request[5_000..]);
    assert_eq!(bench.sent_to(upstream).len(), request.len());
}

/// The upstream of a large request is full, so its client is not read; then that upstream goes.
#[test]
fn a_stopped_large_request_is_read_on_when_its_upstream_is_lost() {
    let (mut bench, _) = Bench::new(|limits| {
        limits.large_request_bytes = 1_000;
        limits.upstream_out_high_bytes = 2_000;
    });
    let client = bench.client();
    let request = large_set("k", 50_000);
    bench.says(client, &request[..1_500]);
    let transfer = bench.connected();
    bench.says(client, &request[1_500..20_000]);
    assert!(!bench.reads(client), "its upstream is full");
    bench.engine.handle_upstream_closed(bench.now, transfer, "closed the connection");
    bench.turn();
    assert!(bench.sent_to_client(client).starts_with(b"-ERR respool: upstream"));
    assert!(bench.reads(client), "the rest of its request must be dropped, so it must be read");
    bench.says(client, &request[20_000..]);
    bench.says(client, b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(bench.sent_to_client(client), b"+PONG\r\n");
}

/// Who is woken for a free place among the transfers may not need it any more; the next must get it then.
#[test]
fn a_free_transfer_place_goes_to_the_next_when_the_first_does_not_take_it() {
    let (mut bench, shared) = Bench::new(|limits| {
        limits.large_request_bytes = 1_000;
        limits.large_transfers_max = 1;
    });
    let (first, second, third) = (bench.client(), bench.client(), bench.client());
    let request = large_set("k", 5_000);
    bench.says(first, &request[..2_000]);
    let transfer = bench.connected();
    bench.says(second, &request[..2_000]);
    bench.says(third, &request[..2_000]);
    // The second's request becomes whole while it waits: it needs no place any more.
    bench.says(second, &request[2_000..]);
    bench.says(first, &request[2_000..]);
    bench.sent_to(transfer);
    bench.engine.handle_upstream_bytes(bench.now, transfer, b"+OK\r\n");
    for _ in 0..4 {
        bench.turn();
    }
    assert_eq!(bench.sent_to(shared).len(), request.len(), "the second goes the ordinary way");
    assert_eq!(bench.sent_to(transfer).len(), 2_000, "the third has the place");
}
