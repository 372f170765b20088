//! Clients that wait in blocking commands cost the others nothing and are not overtaken within a turn, and a transaction that comes whole
//! allocates nothing.
//!
//! A thousand clients wait in `BLPOP`, each on its own connection; one client goes on with GETs. The time of its turns is compared with that
//! of the same turns with nobody waiting: nothing but the engine runs in them, and of many short runs the best counts, so that a busy
//! machine does not judge.
//!
//! Not here: the same through the real worker (`e2e/leases.rs`).
//!
//! Invariant: a turn is what the worker makes of it, `poll_timeout` included.

use std::time::Instant;

use engine::{Action, ClientId, Engine, Settings, Time, UpstreamId};

const PARKED: usize = 1_000;
const TURNS: usize = 200;
const RUNS: usize = 1_000;

/// So many times as much may a turn cost with a thousand that wait. When each of them was looked at in each turn it was seventy.
const FACTOR: f64 = 2.0;

struct Proxy {
    engine: Engine,
    now: Time,
    upstreams: Vec<UpstreamId>,
    clients: u32,
}

fn request(line: &str) -> Vec<u8> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut out = Vec::new();
    resp::encode::request(&mut out, &args);
    out
}

impl Proxy {
    fn new() -> Self {
        let now = Time(1_000_000);
        let mut settings = Settings::default();
        // One in eight is not for blocking commands.
        settings.limits.leases_max = 2_048;
        Self { engine: Engine::new(settings, 1, now), now, upstreams: Vec::new(), clients: 0 }
    }

    /// A client of its own machine, since one machine gets no more than its share of dedicated connections.
    fn client(&mut self) -> ClientId {
        self.clients += 1;
        let [.., high, low] = self.clients.to_be_bytes();
        let addr = format!("10.0.{high}.{low}:1000");
        self.engine.handle_client_open(self.now, addr, String::new()).expect("room")
    }

    /// Requests of a client; a connection that is made for them is greeted.
    fn says(&mut self, client: ClientId, bytes: &[u8]) {
        self.engine.handle_client_bytes(self.now, client, bytes);
        while let Some(action) = self.engine.poll_action() {
            let Action::Connect(id) = action else { panic!("{action:?}") };
            self.engine.handle_upstream_connected(self.now, id);
            self.flush();
            self.engine.handle_upstream_bytes(self.now, id, b"*0\r\n");
            if self.upstreams.is_empty() {
                // It is asked for its commands.
                self.engine.handle_upstream_bytes(self.now, id, b"*0\r\n");
            }
            self.upstreams.push(id);
            self.engine.handle_timeout(self.now);
        }
        self.flush();
    }

    fn answers(&mut self, upstream: UpstreamId, bytes: &[u8]) {
        self.engine.handle_upstream_bytes(self.now, upstream, bytes);
        self.engine.handle_timeout(self.now);
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(id) = self.engine.poll_dirty_upstream() {
            while let Some(buf) = self.engine.begin_upstream_send(id) {
                self.engine.handle_upstream_sent(self.now, id, buf);
            }
        }
        while let Some(id) = self.engine.poll_dirty_client() {
            while let Some(buf) = self.engine.begin_client_send(id) {
                self.engine.handle_client_sent(self.now, id, buf);
            }
        }
    }

    /// What goes to servers, in its order, when all of this comes in one turn.
    fn sends_in_one_turn<'a>(
        &mut self,
        lines: impl Iterator<Item = (&'a ClientId, &'a Vec<u8>)>,
    ) -> Vec<u8> {
        for (client, line) in lines {
            self.engine.handle_client_bytes(self.now, *client, line);
        }
        self.engine.handle_timeout(self.now);
        let mut sent = Vec::new();
        while let Some(id) = self.engine.poll_dirty_upstream() {
            while let Some(buf) = self.engine.begin_upstream_send(id) {
                sent.extend_from_slice(&buf);
                self.engine.handle_upstream_sent(self.now, id, buf);
            }
        }
        sent
    }

    /// A request and its reply, each in a turn of its own.
    fn turns(&mut self, client: ClientId, bytes: &[u8], reply: &[u8]) {
        let upstream = self.upstreams[0];
        for _ in 0..TURNS {
            self.now = self.now + 10;
            self.engine.handle_client_bytes(self.now, client, bytes);
            self.engine.handle_timeout(self.now);
            self.flush();
            std::hint::black_box(self.engine.poll_timeout(self.now));
            self.answers(upstream, reply);
            std::hint::black_box(self.engine.poll_timeout(self.now));
        }
    }
}

/// A proxy with so many that wait, and the client that goes on.
fn with_parked(parked: usize) -> (Proxy, ClientId) {
    let mut proxy = Proxy::new();
    let client = proxy.client();
    proxy.says(client, &request("GET key"));
    let first = proxy.upstreams[0];
    proxy.answers(first, b"$-1\r\n");
    for index in 0..parked {
        let waiting = proxy.client();
        proxy.says(waiting, &request(&format!("BLPOP list{index} 0")));
    }
    assert_eq!(proxy.upstreams.len(), 1 + parked, "each waits on its own connection");
    proxy.engine.check_invariants();
    (proxy, client)
}

#[test]
fn a_thousand_that_wait_cost_the_others_nothing() {
    let get = request("GET key");
    let mut proxies = [with_parked(0), with_parked(PARKED)];
    let mut best = [f64::MAX; 2];
    // In turn, so that both meet the same machine.
    for _ in 0..RUNS {
        for ((proxy, client), best) in proxies.iter_mut().zip(&mut best) {
            let begun = Instant::now();
            proxy.turns(*client, &get, b"$-1\r\n");
            *best = best.min(begun.elapsed().as_nanos() as f64 / TURNS as f64);
        }
    }
    let [alone, beside] = best;
    println!("{alone:.0} ns a turn alone, {beside:.0} ns beside {PARKED} that wait");
    assert!(beside <= alone * FACTOR, "{alone:.0} ns a turn, {beside:.0} ns beside {PARKED}");
}

// Each of these costs as much as all may in one turn. The others are not even looked at before it is their turn.
#[test]
fn hundreds_of_large_requests_that_wait_for_their_turn_cost_nothing_until_then() {
    // Wrong, so that it needs no server.
    let mut large = Vec::new();
    let args = core::iter::once(&b"ECHO"[..]).chain(core::iter::repeat_n(&b"a"[..], 30_000));
    resp::encode::request(&mut large, &args.collect::<Vec<_>>());
    let turn = |waiting: usize| {
        let mut proxy = Proxy::new();
        for _ in 0..waiting + 20 {
            let client = proxy.client();
            proxy.engine.handle_client_bytes(proxy.now, client, &large);
        }
        let mut best = f64::MAX;
        for _ in 0..20 {
            let begun = Instant::now();
            proxy.engine.handle_timeout(proxy.now);
            best = best.min(begun.elapsed().as_nanos() as f64);
            proxy.flush();
        }
        best
    };
    let (few, many) = (turn(1), turn(400));
    println!("{few:.0} ns a turn with few that wait, {many:.0} ns with many");
    assert!(many <= few * 8.0, "{few:.0} ns a turn with few that wait, {many:.0} ns with many");
}

// Who sends a BLPOP goes on without a reply: what is sent afterwards, over whatever connection, must find it waiting.
#[test]
fn who_begins_to_wait_is_sent_first_and_in_the_order_of_coming() {
    let mut proxy = Proxy::new();
    let names = ["early", "one", "two", "late"];
    let clients = names.map(|_| proxy.client());
    proxy.says(clients[0], &request("GET key"));
    proxy.answers(proxy.upstreams[0], b"$-1\r\n");
    for client in &clients[1..3] {
        proxy.says(*client, &request("BLPOP list 0"));
    }
    for lease in [1, 2] {
        proxy.answers(proxy.upstreams[lease], b"*-1\r\n");
    }
    let lines = ["SET key 1", "BLPOP one 0", "BLPOP two 0", "RPUSH one x"].map(request);
    let sent = proxy.sends_in_one_turn(clients.iter().zip(&lines));
    let order = [1, 2, 0, 3].map(|line: usize| lines[line].clone()).concat();
    assert_eq!(sent.escape_ascii().to_string(), order.escape_ascii().to_string());
    assert_eq!(proxy.upstreams.len(), 3, "over the connections that were idle");
}

// Redis' own suite: what was published right behind another client's UNSUBSCRIBE counted that client.
#[test]
fn who_leaves_a_channel_is_sent_before_what_is_published_then() {
    let mut proxy = Proxy::new();
    let (speaks, listens) = (proxy.client(), proxy.client());
    proxy.says(speaks, &request("GET key"));
    proxy.answers(proxy.upstreams[0], b"$-1\r\n");
    proxy.says(listens, &request("SUBSCRIBE news"));
    proxy.answers(proxy.upstreams[1], b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let lines = ["UNSUBSCRIBE news", "PUBLISH news hello"].map(request);
    let sent = proxy.sends_in_one_turn([listens, speaks].iter().zip(&lines));
    let order = [request("unsubscribe news"), lines[1].clone()].concat();
    assert_eq!(sent.escape_ascii().to_string(), order.escape_ascii().to_string());
}

#[test]
fn a_whole_transaction_allocates_nothing() {
    let mut proxy = Proxy::new();
    let client = proxy.client();
    let bytes = ["MULTI", "SET a 1", "INCR a", "INCR a", "GET a", "EXEC"].map(request).concat();
    let reply =
        b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n+OK\r\n:2\r\n:3\r\n$1\r\n3\r\n";
    proxy.says(client, &bytes);
    let first = proxy.upstreams[0];
    proxy.answers(first, reply);
    assert_eq!(proxy.upstreams.len(), 1, "over the shared connection");
    proxy.turns(client, &bytes, reply);
    while proxy.engine.poll_notice().is_some() {}
    let counted = allocation_counter::measure(|| proxy.turns(client, &bytes, reply));
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
