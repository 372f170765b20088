//! Clients behind a balancer that says who they are: headers in all pieces, wrong ones, none, and floods of halves.
//!
//! Two workers share a listener, so that half of the connections go to the one that did not accept them.
//!
//! Invariant: whatever comes, every seat of the listener is free again when the connections are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use config::{ClientRules, FileText, load_file};
use engine::stats::{REFUSALS, Refused};
use engine::{Settings, node};
use netio::sim::{SimDriver, SimFaults, SimNet, SimPeer, SimRng, SimSocket};
use netio::{Address, ListenerId};
use server::worker::Worker;
use server::worker::entrance::{Entrance, Entrances};
use server::worker::mailbox::{Message, Post};

use crate::crew::{self, Crew, Terms};
use crate::upstream::{Planted, Server};

const WORKERS: u32 = 2;
const HEADER_MS: u64 = 500;
const INFO: &[u8] = b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const V1: &[u8] = b"PROXY TCP4 10.1.2.3 10.0.0.1 50000 6379\r\n";

/// Two workers behind a balancer, which the test plays.
struct Front {
    net: SimNet,
    listen: Address,
    workers: Vec<Worker<SimDriver>>,
    posts: Vec<Post<SimSocket>>,
    server: Server,
    seats: Arc<AtomicUsize>,
}

fn address(text: &str) -> Address {
    Address::Tcp(text.parse().expect("a literal address"))
}

/// Rules as a configuration has them.
fn rules(text: &str) -> ClientRules {
    let text = format!("upstream = \"redis://10.0.0.9\"\n{text}");
    let no_files = |_: config::Place<'_>| Err(std::io::ErrorKind::NotFound.into());
    let config = load_file(FileText { name: "r.toml", text: &text }, &no_files);
    config.unwrap_or_else(|wrong| panic!("{wrong}")).client_rules
}

impl Front {
    fn new(seed: u64, faults: SimFaults, clients_max: usize, rules: ClientRules) -> Self {
        let net = SimNet::new(seed, SimFaults::none());
        let listen = address("127.0.0.1:6380");
        net.set_faults_at(&listen, faults);
        let server = Server::new(&net, address("10.0.0.1:6379"), false, Planted::Nothing);
        let entrance = Entrance { proxy_protocol: true, ..Entrance::open(ListenerId(0), "lb") };
        let seats = Arc::clone(&entrance.clients);
        let entrances =
            Entrances { list: vec![entrance], rules, header_ms: HEADER_MS, ..Entrances::default() };
        let settings = |index| {
            let mut settings =
                Settings { worker: index as u32, workers: WORKERS, ..Settings::default() };
            settings.node.address = node::Address::tcp("10.0.0.1", 6379);
            (settings, Vec::new())
        };
        let terms = Terms { clients_max, entrances, ..Terms::plain(seed) };
        let Crew { workers, posts, .. } = crew::hire(&net, &listen, WORKERS, terms, settings);
        Self { net, listen, workers, posts, server, seats }
    }

    fn kind() -> Self {
        Self::new(7, SimFaults::none(), 1_000, ClientRules::default())
    }

    fn client(&self, bytes: &[u8]) -> SimPeer {
        let client = self.net.connect(&self.listen);
        client.send(bytes);
        client
    }

    /// Lets time pass, everybody doing what can be done.
    fn pass(&mut self, ms: u64) {
        crew::pass(&self.net, &mut self.workers, ms, || self.server.pump());
    }

    fn refused(&self, why: Refused) -> u64 {
        self.workers.iter().map(|worker| worker.engine().stats().refused[why as usize]).sum()
    }

    fn refused_at_all(&self) -> u64 {
        (0..REFUSALS.len()).map(|at| self.refused(Refused::ALL[at])).sum()
    }

    fn clients(&self) -> usize {
        self.workers.iter().map(|worker| worker.engine().client_count()).sum()
    }

    fn conns(&self) -> usize {
        self.workers.iter().map(|worker| worker.driver().conns()).sum()
    }

    /// Bytes of buffers, by the engines' own account.
    fn held(&self) -> u64 {
        let report = |worker: &Worker<SimDriver>| worker.engine().report(engine::Time::default());
        self.workers.iter().map(|worker| report(worker).buffered_bytes).sum()
    }

    fn seats(&self) -> usize {
        self.seats.load(Ordering::Relaxed)
    }
}

fn text(client: &SimPeer) -> String {
    String::from_utf8(client.received()).expect("what is said here is text")
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).expect("a short body").to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len, body].concat()
}

#[test]
fn headers_in_all_pieces_name_the_client() {
    for seed in 0..60 {
        let mut rng = SimRng::new(seed);
        let faults = SimFaults::cutting(&mut rng);
        let mut front = Front::new(seed, faults, 1_000, ClientRules::default());
        let mut clients = Vec::new();
        for number in 0..8u8 {
            let four = [10, 1, 2, number, 10, 0, 0, 1, 0, 80, 0, 81, 4, 0, 1, 0];
            let (header, addr) = match rng.between(0, 4) {
                0 => (V1.to_vec(), "10.1.2.3:50000".to_owned()),
                1 => (b"PROXY TCP6 2001:db8::1 ::1 7 8\r\n".to_vec(), "[2001:db8::1]:7".to_owned()),
                2 => (v2(0x21, 0x11, &four), format!("10.1.2.{number}:80")),
                3 => (v2(0x20, 0, b""), String::new()),
                _ => (b"PROXY UNKNOWN\r\n".to_vec(), String::new()),
            };
            let requests = [INFO, &PING.repeat(50), b"*1\r\n$4\r\nQUIT\r\n"].concat();
            let client = front.client(&[header, requests].concat());
            // The balancer itself, where it says nothing of anybody.
            let addr = if addr.is_empty() { client.local() } else { addr };
            clients.push((client, addr, String::new()));
        }
        // Bytes one by one take their time, but for the headers there is enough of it.
        front.pass(400);
        front.pass(10_000);
        for (client, addr, got) in &mut clients {
            got.push_str(&text(client));
            assert!(got.contains(&format!(" addr={addr} ")), "seed {seed}: {addr}: {got:?}");
            assert!(got.ends_with(&format!("{}+OK\r\n", "+PONG\r\n".repeat(50))), "seed {seed}");
            assert!(client.is_over(), "seed {seed}");
        }
        assert_eq!((front.clients(), front.seats(), front.refused_at_all()), (0, 0, 0), "{seed}");
    }
}

#[test]
fn what_does_not_begin_with_a_header_is_closed_and_counted() {
    let mut front = Front::kind();
    let none = [PING, b"GET / HTTP/1.1\r\n", b"PROXYING\r\n"].map(|bytes| front.client(bytes));
    let wrong = [&b"PROXY TCP4 1.2.3.4 1.2.3.4 1 x\r\n"[..], b"PROXY UNKNOWN\n"]
        .map(|bytes| front.client(&[bytes, PING].concat()));
    let dgram = front.client(&[v2(0x21, 0x12, &[0; 12]), PING.to_vec()].concat());
    let right = front.client(&[V1, PING].concat());
    front.pass(10);
    for client in none.iter().chain(&wrong).chain([&dgram]) {
        assert!(client.is_over() && client.received().is_empty(), "what came was no RESP");
    }
    assert_eq!(text(&right), "+PONG\r\n");
    let counts = [Refused::HeaderMissing, Refused::HeaderBroken].map(|why| front.refused(why));
    assert_eq!((counts, front.refused_at_all()), ([3, 3], 6));
    assert_eq!((front.clients(), front.seats()), (1, 1));
}

/// Halves are bounded by the maximum of clients, hold next to nothing, and go when their time is up.
#[test]
fn a_flood_of_half_headers_is_bounded_and_ends() {
    let mut front = Front::new(3, SimFaults::none(), 100, ClientRules::default());
    front.pass(10);
    let (before, held) = (front.conns(), front.held());
    let halves: Vec<SimPeer> = (0..300)
        .map(|at| front.client(if at % 2 == 0 { &V1[..20] } else { b"\r\n\r\n\0\r\nQUIT\n\x21" }))
        .collect();
    front.pass(HEADER_MS / 2);
    assert_eq!((front.clients(), front.seats(), front.conns() - before), (0, 100, 100));
    assert_eq!(front.refused(Refused::MaxClients), 200);
    let away = halves.iter().filter(|client| client.is_over()).map(text);
    assert!(away.into_iter().all(|said| said == "-ERR max number of clients reached\r\n"));
    assert_eq!(front.held(), held, "halves hold no buffers");
    // One byte more does not give them more time.
    halves.iter().for_each(|client| client.send(b" "));
    front.pass(HEADER_MS / 2 + 10);
    assert!(halves.iter().all(SimPeer::is_over));
    assert_eq!((front.seats(), front.conns() - before), (0, 0));
    let late = front.refused(Refused::HeaderLate) + front.refused(Refused::HeaderBroken);
    assert_eq!(late, 100);
    let client = front.client(&[V1, PING].concat());
    front.pass(10);
    assert_eq!(text(&client), "+PONG\r\n");
}

#[test]
fn the_address_of_the_header_counts_for_the_rules() {
    let only = rules(
        "allow_clients = [\"10.0.0.0/8\", \"2001:db8::/32\"]\ndeny_clients = \"10.9.0.0/16\"",
    );
    let mut front = Front::new(5, SimFaults::none(), 100, only);
    let header = |from: &str| format!("PROXY TCP4 {from} 10.0.0.1 1 2\r\n").into_bytes();
    let from = |front: &Front, header: Vec<u8>| front.client(&[&header[..], PING].concat());
    let welcome = [
        from(&front, header("10.1.2.3")),
        from(&front, b"PROXY TCP6 ::ffff:10.1.2.3 ::1 1 2\r\n".to_vec()),
        from(&front, b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n".to_vec()),
    ];
    let denied = [
        from(&front, header("10.9.2.3")),
        from(&front, header("11.1.2.3")),
        from(&front, b"PROXY TCP6 ::ffff:10.9.0.1 ::1 1 2\r\n".to_vec()),
        // The balancer itself is no client that may come.
        from(&front, b"PROXY UNKNOWN\r\n".to_vec()),
        from(&front, v2(0x21, 0x31, &[0; 216])),
    ];
    front.pass(10);
    welcome.iter().for_each(|client| assert_eq!(text(client), "+PONG\r\n"));
    for client in &denied {
        let said = text(client);
        assert!(said.starts_with("-DENIED ") && said.ends_with("\r\n"), "{said:?}");
        assert!(client.is_over());
    }
    assert_eq!((front.refused(Refused::Address), front.seats()), (5, 3));
}

#[test]
fn who_ends_early_leaves_nothing_behind() {
    let mut front = Front::kind();
    let before = front.conns();
    // Requests and the end of the stream, all at once: they are answered.
    let quick = front.client(&[V1, PING].concat());
    quick.shutdown();
    let half = front.client(&V1[..7]);
    half.shutdown();
    let torn = front.client(&V1[..7]);
    let silent = front.client(b"");
    silent.shutdown();
    front.pass(10);
    torn.reset();
    front.pass(10);
    assert_eq!(text(&quick), "+PONG\r\n");
    assert!([quick, half, silent].iter().all(SimPeer::is_over));
    assert_eq!((front.clients(), front.seats(), front.refused_at_all()), (0, 0, 0));
    assert_eq!(front.conns(), before);
}

#[test]
fn a_drain_does_not_wait_for_headers() {
    let mut front = Front::kind();
    let half = front.client(&V1[..7]);
    front.pass(10);
    assert_eq!(front.seats(), 1);
    front.posts.iter().for_each(|post| post.send(Message::Drain(60_000)));
    front.pass(10);
    assert!(half.is_over() && front.workers.iter().all(Worker::is_done));
    assert_eq!(front.seats(), 0);
}

#[test]
fn a_run_of_cut_headers_is_the_same_again() {
    let digest = |seed| {
        let faults = SimFaults::cutting(&mut SimRng::new(seed));
        let mut front = Front::new(seed, faults, 1_000, ClientRules::default());
        let clients: Vec<SimPeer> =
            (0..10).map(|_| front.client(&[V1, INFO, PING].concat())).collect();
        front.pass(2_000);
        clients.iter().for_each(|client| client.close());
        front.net.digest()
    };
    assert!((0..5).all(|seed| digest(seed) == digest(seed)));
    assert_ne!(digest(0), digest(1));
}
