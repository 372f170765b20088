//! The simulated network: the common stories, and what it promises itself (determinism, faults).

use netio::sim::{SimDriver, SimFaults, SimListener, SimNet, SimPeer, SimRng, SimSocket};
use netio::{Address, CloseReason, ConnId, Driver, Event, Token, Wait};

mod suite;

use suite::{TURN_US, World};

struct Simulated {
    net: SimNet,
    driver: SimDriver,
    server: Option<SimListener>,
}

fn tcp(text: &str) -> Address {
    Address::Tcp(text.parse().unwrap())
}

impl World for Simulated {
    type D = SimDriver;
    type Peer = SimPeer;

    fn new() -> Self {
        let net = SimNet::new(1, SimFaults::none());
        let driver = net.driver(&[tcp("127.0.0.1:6380")]);
        Self { net, driver, server: None }
    }

    fn driver(&mut self) -> &mut SimDriver {
        &mut self.driver
    }

    fn second_driver(&mut self) -> SimDriver {
        self.net.driver(&[])
    }

    fn turn(&mut self, on_event: &mut impl FnMut(Event<'_, SimSocket>)) {
        let until_us = self.net.now_us() + TURN_US;
        let next_us = self.net.next_wakeup().unwrap_or(until_us);
        self.net.advance_to(next_us.min(until_us));
        self.driver.wait(Wait::Until(until_us), on_event);
    }

    fn turn_of(&mut self, driver: &mut SimDriver, on_event: &mut impl FnMut(Event<'_, SimSocket>)) {
        self.net.advance_to(self.net.now_us() + TURN_US);
        driver.wait(Wait::Poll, on_event);
    }

    fn waker(&mut self) -> netio::Waker {
        self.driver.waker()
    }

    fn dial(&mut self) -> SimPeer {
        let peer = self.net.connect(&tcp("127.0.0.1:6380"));
        peer.pause_reading(true);
        peer
    }

    fn serve(&mut self) -> Address {
        self.server = None;
        let at = tcp("127.0.0.1:7000");
        self.server = Some(self.net.listen(&at));
        at
    }

    fn take(&mut self) -> Option<SimPeer> {
        let peer = self.server.as_ref()?.accept()?;
        peer.pause_reading(true);
        Some(peer)
    }

    fn dead(&mut self) -> Address {
        tcp("127.0.0.1:7999")
    }

    fn write(&mut self, peer: &mut SimPeer, bytes: &[u8]) {
        peer.send(bytes);
    }

    fn read(&mut self, peer: &mut SimPeer) -> Vec<u8> {
        // Paused again at once, so that it reads only here, as the suite says.
        peer.pause_reading(false);
        peer.pause_reading(true);
        peer.received()
    }

    fn shutdown(&mut self, peer: &mut SimPeer) {
        peer.shutdown();
    }

    fn close(&mut self, peer: SimPeer) {
        peer.close();
    }

    fn reset(&mut self, peer: SimPeer) {
        peer.reset();
    }

    fn is_reset(&mut self, peer: &mut SimPeer) -> bool {
        peer.is_reset()
    }
}

stories!(Simulated);

const A: Token = Token(1);

fn listening() -> Address {
    tcp("127.0.0.1:6380")
}

fn upstream_address() -> Address {
    tcp("127.0.0.1:7000")
}

/// A worker that echoes: the smallest program with backpressure in both directions.
struct Echo {
    driver: SimDriver,
    talks: Vec<Talk>,
    accept_failures: u32,
    longest_received: usize,
}

struct Talk {
    conn: ConnId,
    waiting: Vec<u8>,
    sending: bool,
    eof: bool,
    over: bool,
}

impl Echo {
    fn new(net: &SimNet) -> Self {
        let mut driver = net.driver(&[listening()]);
        driver.accept(true);
        Self { driver, talks: Vec::new(), accept_failures: 0, longest_received: 0 }
    }

    fn turn(&mut self) {
        let mut accepted = Vec::new();
        let (talks, longest) = (&mut self.talks, &mut self.longest_received);
        let failures = &mut self.accept_failures;
        self.driver.wait(Wait::Forever, &mut |event| match event {
            Event::Accepted(client) => accepted.push(client),
            Event::AcceptFailed(_) => *failures += 1,
            Event::Received(Token(at), bytes) => {
                *longest = bytes.len().max(*longest);
                talks[at as usize].waiting.extend_from_slice(bytes);
            }
            Event::Sent(Token(at), _) => talks[at as usize].sending = false,
            Event::Eof(Token(at)) => talks[at as usize].eof = true,
            Event::Closed(Token(at), _) => talks[at as usize].over = true,
            event => panic!("unexpected {event:?}"),
        });
        for client in accepted {
            let conn = self.driver.adopt(client, Token(self.talks.len() as u64));
            let (sending, eof, over) = (false, false, false);
            self.talks.push(Talk { conn, waiting: Vec::new(), sending, eof, over });
        }
        for talk in self.talks.iter_mut().filter(|talk| !talk.over) {
            if !talk.sending && !talk.waiting.is_empty() {
                let buf = std::mem::take(&mut talk.waiting);
                talk.sending = self.driver.send(talk.conn, buf).is_none();
            }
            if talk.eof && !talk.sending && talk.waiting.is_empty() {
                self.driver.close(talk.conn);
                talk.over = true;
            }
        }
    }
}

/// Moves the time on until nothing is due any more, with a turn of each worker at each moment.
fn run(net: &SimNet, workers: &mut [Echo]) {
    for _ in 0..2_000_000 {
        for worker in &mut *workers {
            worker.turn();
        }
        match net.next_wakeup() {
            Some(next_us) => net.advance_to(next_us),
            None => return,
        }
    }
    panic!("the network does not come to rest");
}

fn text_of(at: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|pos| (pos.wrapping_mul(31) ^ at) as u8).collect()
}

/// A client, and what it sent.
type Client = (Vec<u8>, SimPeer);

/// Clients talk to two echoing workers and half-close.
fn echo_run(seed: u64, faults: SimFaults) -> (SimNet, Vec<Echo>, Vec<Client>) {
    let mut rng = SimRng::new(seed);
    let net = SimNet::new(seed, faults);
    let mut workers = vec![Echo::new(&net), Echo::new(&net)];
    let mut clients = Vec::new();
    for at in 0..rng.between(1, 12) {
        let text = text_of(at, rng.between(1, 3_000) as usize);
        let peer = net.connect(&listening());
        peer.send(&text);
        peer.shutdown();
        clients.push((text, peer));
    }
    run(&net, &mut workers);
    (net, workers, clients)
}

#[test]
fn cuts_and_delays_lose_nothing() {
    for seed in 0..200 {
        let faults = SimFaults::cutting(&mut SimRng::new(seed));
        let (net, workers, clients) = echo_run(seed, faults);
        for (text, peer) in &clients {
            assert_eq!(peer.received(), *text, "seed {seed}");
            assert!(peer.is_eof(), "seed {seed}");
        }
        assert!(workers.iter().all(|worker| worker.driver.conns() == 0), "seed {seed}");
        drop(clients);
        assert_eq!(net.open_ends(), 0, "seed {seed}");
    }
}

#[test]
fn broken_connections_deliver_a_prefix_and_end() {
    let (mut whole, mut broken) = (0, 0);
    for seed in 0..300 {
        let faults = SimFaults::breaking(&mut SimRng::new(seed));
        let (net, mut workers, clients) = echo_run(seed, faults);
        for (text, peer) in &clients {
            let got = peer.received();
            assert!(text.starts_with(&got), "seed {seed}: bytes that were never sent");
            match got == *text {
                true => whole += 1,
                false => broken += 1,
            }
            // What never connected (a connect that hangs) may wait for ever; everything else is over.
            assert!(peer.is_over() || !peer.is_connected(), "seed {seed}: left hanging");
        }
        drop(clients);
        run(&net, &mut workers);
        assert!(workers.iter().all(|worker| worker.driver.conns() == 0), "seed {seed}");
        assert_eq!(net.open_ends(), 0, "seed {seed}");
    }
    assert!(whole > 100 && broken > 100, "the faults are tame or deadly: {whole} and {broken}");
}

#[test]
fn a_seed_is_a_run() {
    let run_of = |seed: u64, faults_seed: u64| {
        let net = SimNet::new(seed, SimFaults::breaking(&mut SimRng::new(faults_seed)));
        net.record_trace();
        let mut workers = vec![Echo::new(&net), Echo::new(&net)];
        let peers: Vec<SimPeer> = (0..5).map(|_| net.connect(&listening())).collect();
        for (at, peer) in peers.iter().enumerate() {
            peer.send(&text_of(at as u64, 500));
            peer.shutdown();
        }
        run(&net, &mut workers);
        (net.digest(), net.take_trace())
    };
    let mut digests = Vec::new();
    for seed in 0..20 {
        let (digest, trace) = run_of(seed, 3);
        assert_eq!((digest, &trace), (run_of(seed, 3).0, &run_of(seed, 3).1), "seed {seed}");
        assert!(trace.len() > 10, "an eventful run");
        digests.push(digest);
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 20, "every seed is another run");
}

#[test]
fn every_byte_for_itself() {
    let faults = SimFaults { read_bytes_max: 1, write_bytes_max: 1, ..SimFaults::none() };
    let (_net, workers, clients) = echo_run(5, faults);
    assert!(workers.iter().all(|worker| worker.longest_received <= 1));
    for (text, peer) in clients {
        assert_eq!(peer.received(), text);
    }
}

#[test]
fn a_connection_is_named_once_per_wait() {
    let faults = SimFaults { read_bytes_max: 10, segment_bytes_max: 3, ..SimFaults::none() };
    let net = SimNet::new(3, faults);
    let server = net.listen(&upstream_address());
    let mut driver = net.driver(&[]);
    driver.connect(&upstream_address(), A);
    events(&net, &mut driver);
    let peer = server.accept().unwrap();
    peer.send(&[1; 500]);
    while net.step() {}
    let (mut received, mut waits) = (0, 0);
    while received < 500 {
        let told = driver.wait(Wait::Poll, &mut |event| match event {
            Event::Received(A, bytes) => received += bytes.len(),
            event => panic!("unexpected {event:?}"),
        });
        assert_eq!(told, 1, "although many segments came");
        waits += 1;
    }
    assert!(waits >= 50, "{waits} reads of at most 10 bytes");
}

#[test]
fn workers_share_a_listener() {
    let net = SimNet::new(9, SimFaults::none());
    let mut workers: Vec<Echo> = (0..4).map(|_| Echo::new(&net)).collect();
    let _peers: Vec<SimPeer> = (0..200).map(|_| net.connect(&listening())).collect();
    run(&net, &mut workers);
    let shares: Vec<usize> = workers.iter().map(|worker| worker.driver.conns()).collect();
    assert_eq!(shares.iter().sum::<usize>(), 200);
    assert!(shares.iter().all(|share| (25..=75).contains(share)), "{shares:?}");
}

#[test]
fn a_worker_that_stops_accepting_leaves_its_share_to_others() {
    let net = SimNet::new(9, SimFaults::none());
    let mut workers = vec![Echo::new(&net), Echo::new(&net)];
    let _peers: Vec<SimPeer> = (0..20).map(|_| net.connect(&listening())).collect();
    // They have reached the listener, and chance has given some of them to each worker.
    net.advance_to(net.now_us() + 1_000);
    workers[0].driver.accept(false);
    run(&net, &mut workers);
    assert_eq!(workers[0].driver.conns(), 0);
    assert_eq!(workers[1].driver.conns(), 20);
}

#[test]
fn a_peer_that_does_not_read_bounds_what_is_taken() {
    let socket_bytes_max = 1000;
    let net = SimNet::new(3, SimFaults { socket_bytes_max, ..SimFaults::none() });
    let mut workers = [Echo::new(&net)];
    let peer = net.connect(&listening());
    peer.pause_reading(true);
    let text = text_of(0, 10_000);
    peer.send(&text);
    run(&net, &mut workers);
    assert_eq!(peer.unread(), socket_bytes_max);
    assert!(workers[0].talks[0].sending, "the echo waits for room");
    peer.stall(5_000);
    peer.pause_reading(false);
    assert_eq!(peer.received(), b"", "stalled is not reading either");
    run(&net, &mut workers);
    assert_eq!(peer.received(), text);
}

/// A worker that does not read bounds what a scripted peer can send, too.
#[test]
fn a_driver_that_does_not_receive_bounds_the_peer() {
    let net = SimNet::new(3, SimFaults { socket_bytes_max: 1000, ..SimFaults::none() });
    let server = net.listen(&upstream_address());
    let mut driver = net.driver(&[]);
    let conn = driver.connect(&upstream_address(), A);
    while net.step() {}
    driver.wait(Wait::Poll, &mut |event| assert!(matches!(event, Event::Connected(A))));
    driver.recv(conn, false);
    let peer = server.accept().unwrap();
    peer.send(&[1; 5000]);
    while net.step() {}
    assert_eq!(driver.wait(Wait::Poll, &mut |event| panic!("unexpected {event:?}")), 0);
    assert_eq!(peer.unsent(), 4000);
    driver.recv(conn, true);
    let mut got = 0;
    while got < 5000 {
        driver.wait(Wait::Poll, &mut |event| match event {
            Event::Received(A, bytes) => got += bytes.len(),
            event => panic!("unexpected {event:?}"),
        });
        assert!(net.step() || got == 5000, "stuck at {got}");
    }
    assert_eq!(peer.unsent(), 0);
}

/// The events of `driver` until the network rests.
fn events(net: &SimNet, driver: &mut SimDriver) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        driver.wait(Wait::Forever, &mut |event| seen.push(format!("{event:?}")));
        match net.next_wakeup() {
            Some(next_us) => net.advance_to(next_us),
            None => return seen,
        }
    }
}

#[test]
fn servers_refuse_hang_and_come_back() {
    let net = SimNet::new(4, SimFaults::none());
    let mut driver = net.driver(&[]);
    let refused = format!("Closed({A:?}, ConnectFailed({}))", libc::ECONNREFUSED);

    driver.connect(&upstream_address(), A);
    assert_eq!(events(&net, &mut driver), [refused.as_str()], "nobody listens");

    let server = net.listen(&upstream_address());
    driver.connect(&upstream_address(), A);
    assert_eq!(events(&net, &mut driver), [format!("Connected({A:?})")]);
    let peer = server.accept().unwrap();
    drop((server, peer));
    assert_eq!(events(&net, &mut driver), [format!("Eof({A:?})")]);

    let always = 1_000_000;
    let faults = SimFaults { connect_refused_ppm: always, ..SimFaults::none() };
    net.set_faults_at(&upstream_address(), faults);
    let server = net.listen(&upstream_address());
    driver.connect(&upstream_address(), A);
    assert_eq!(events(&net, &mut driver), [refused.as_str()], "refused by chance");

    let faults = SimFaults { connect_hangs_ppm: always, ..SimFaults::none() };
    net.set_faults_at(&upstream_address(), faults);
    let hanging = driver.connect(&upstream_address(), A);
    assert!(events(&net, &mut driver).is_empty(), "never answered");
    driver.close(hanging);

    net.set_faults_at(&upstream_address(), SimFaults::none());
    driver.connect(&upstream_address(), A);
    assert_eq!(events(&net, &mut driver), [format!("Connected({A:?})")]);
    assert!(server.accept().is_some());
}

#[test]
fn all_connections_to_an_address_are_reset_on_command() {
    let net = SimNet::new(4, SimFaults::none());
    let mut driver = net.driver(&[]);
    let server = net.listen(&upstream_address());
    driver.connect(&upstream_address(), A);
    events(&net, &mut driver);
    let peer = server.accept().unwrap();
    assert_eq!(net.reset_all_to(&upstream_address()), 2, "both ends");
    let broken = CloseReason::Broken(libc::ECONNRESET);
    assert_eq!(events(&net, &mut driver), [format!("Closed({A:?}, {broken:?})")]);
    assert!(peer.is_reset());
    assert_eq!(driver.conns(), 0);
}

#[test]
fn closing_with_unread_bytes_is_a_reset() {
    let net = SimNet::new(4, SimFaults::none());
    let mut driver = net.driver(&[]);
    let server = net.listen(&upstream_address());
    let conn = driver.connect(&upstream_address(), A);
    events(&net, &mut driver);
    let peer = server.accept().unwrap();
    peer.pause_reading(true);
    assert!(driver.send(conn, b"unread".to_vec()).is_some());
    events(&net, &mut driver);
    peer.close();
    let broken = CloseReason::Broken(libc::ECONNRESET);
    assert_eq!(events(&net, &mut driver), [format!("Closed({A:?}, {broken:?})")]);
}

#[test]
fn failed_accepts_pause_and_pass() {
    let faults = SimFaults { accept_failed_ppm: 500_000, ..SimFaults::none() };
    let net = SimNet::new(4, faults);
    let mut workers = [Echo::new(&net)];
    let _peers: Vec<SimPeer> = (0..20).map(|_| net.connect(&listening())).collect();
    let begin_us = net.now_us();
    run(&net, &mut workers);
    assert_eq!(workers[0].driver.conns(), 20, "all come in the end");
    let failures = workers[0].accept_failures;
    assert!(failures > 3, "{failures} failures at one in two");
    assert!(net.now_us() - begin_us >= u64::from(failures) * 100_000, "each one pauses");
}

#[test]
fn deadlines_of_drivers_are_wake_ups() {
    let net = SimNet::new(4, SimFaults::none());
    let mut driver = net.driver(&[]);
    assert_eq!(net.next_wakeup(), None);
    let nothing = &mut |event: Event<'_, SimSocket>| panic!("unexpected {event:?}");
    let until_us = net.now_us() + 777;
    driver.wait(Wait::Until(until_us), nothing);
    assert_eq!(net.next_wakeup(), Some(until_us));
    driver.wait(Wait::Gather { until_us: until_us - 1, completions: 9 }, nothing);
    assert_eq!(net.next_wakeup(), Some(until_us - 1));
    driver.wait(Wait::Forever, nothing);
    assert_eq!(net.next_wakeup(), None);
    let waker = driver.waker();
    waker.wake();
    assert_eq!(net.next_wakeup(), Some(net.now_us()));
    drop(driver);
    waker.wake();
    assert_eq!(net.next_wakeup(), None, "a driver that is gone wants nothing");
}

#[test]
#[should_panic(expected = "a second send while one is in flight")]
fn a_second_send_is_a_bug_of_the_caller() {
    let net = SimNet::new(4, SimFaults::none());
    let _server = net.listen(&upstream_address());
    let mut driver = net.driver(&[]);
    let conn = driver.connect(&upstream_address(), A);
    assert_eq!(driver.send(conn, b"first".to_vec()), None);
    let _ = driver.send(conn, b"second".to_vec());
}
