//! The layer over the simulated network: streams cut anywhere, peers that break off, lie, flood or say nothing.

mod sources;
mod weights;

use super::*;
use netio::CloseReason;
use netio::sim::{SimDriver, SimFaults, SimListener, SimNet, SimPeer, SimRng, SimSocket};
use std::net::SocketAddr;
use std::sync::Arc;
use testkit::tls::{Authority, Speaker};

/// Turns until a story gives up.
const TURNS_MAX: u32 = 100_000;

const HANDSHAKE_MS: u64 = 700;

/// An event that outlives its callback.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Connected(Token),
    Eof(Token),
    Sent(Token, Vec<u8>),
    Closed(Token, CloseReason),
}

/// A driver with TLS on its first listener and none on the second, and what its caller has seen.
struct World {
    net: SimNet,
    driver: Secured<SimDriver>,
    accepted: Vec<Accepted<SimSocket>>,
    seen: Vec<Seen>,
    received: Vec<(Token, Vec<u8>)>,
}

fn address(port: u16) -> Address {
    Address::Tcp(SocketAddr::from(([10, 0, 0, 1], port)))
}

impl World {
    fn new(seed: u64, faults: SimFaults, settings: TlsSettings) -> Self {
        let net = SimNet::new(seed, faults);
        let driver = net.driver(&[address(1), address(2)]);
        let mut driver = Secured::new(driver, settings);
        driver.accept(true);
        Self { net, driver, accepted: Vec::new(), seen: Vec::new(), received: Vec::new() }
    }

    /// One wait, and then as much time as it takes until somebody has something to do.
    fn turn(&mut self) {
        let Self { driver, accepted, seen, received, .. } = self;
        driver.wait(Wait::Forever, &mut |event| match event {
            Event::Accepted(client) => accepted.push(client),
            Event::Connected(token) => seen.push(Seen::Connected(token)),
            Event::Received(token, bytes) => {
                assert!(!bytes.is_empty(), "an empty Received");
                let closed = |seen: &Seen| matches!(seen, Seen::Closed(of, _) | Seen::Eof(of) if *of == token);
                assert!(!seen.iter().any(closed), "bytes after the end");
                match received.iter_mut().find(|(of, _)| *of == token) {
                    Some((_, all)) => all.extend_from_slice(bytes),
                    None => received.push((token, bytes.to_vec())),
                }
            }
            Event::Eof(token) => seen.push(Seen::Eof(token)),
            Event::Sent(token, buf) => seen.push(Seen::Sent(token, buf)),
            Event::Closed(token, why) => seen.push(Seen::Closed(token, why)),
            Event::AcceptFailed(_) | Event::Woken => {}
        });
        self.driver.layer.check_weights();
    }

    fn report(&self) -> TlsReport {
        self.driver.report().expect("TLS is spoken")
    }

    fn pass_time(&mut self) {
        if let Some(at_us) = self.net.next_wakeup() {
            self.net.advance_to(at_us);
        }
    }

    /// A client of the listener with TLS, adopted.
    fn client(&mut self, token: Token) -> (SimPeer, ConnId) {
        let peer = self.net.connect(&address(1));
        let accepted = self.accept();
        let conn = self.driver.adopt_secured(accepted, token);
        (peer, conn)
    }

    fn accept(&mut self) -> Accepted<SimSocket> {
        for _ in 0..TURNS_MAX {
            if let Some(accepted) = self.accepted.pop() {
                return accepted;
            }
            self.turn();
            self.pass_time();
        }
        panic!("nobody was accepted");
    }

    fn received_of(&self, token: Token) -> &[u8] {
        self.received.iter().find(|(of, _)| *of == token).map_or(&[], |(_, all)| all)
    }

    /// Lets the peer and the driver go on until `done`.
    fn until(
        &mut self,
        what: &str,
        peer: &mut Peer,
        mut done: impl FnMut(&mut Self, &mut Peer) -> bool,
    ) {
        for _ in 0..TURNS_MAX {
            if done(self, peer) {
                return;
            }
            peer.carry();
            self.turn();
            self.pass_time();
        }
        panic!(
            "{what}: did not come about; {:?}, heard {}, trouble {:?}",
            self.seen,
            peer.heard.len(),
            peer.trouble
        );
    }

    fn closed(&self, token: Token) -> Option<String> {
        self.seen.iter().find_map(|seen| match seen {
            Seen::Closed(of, why) if *of == token => Some(format!("{why:?}")),
            _ => None,
        })
    }
}

/// The other end of a connection, with what it has heard.
struct Peer {
    sim: SimPeer,
    speaker: Speaker,
    heard: Vec<u8>,
    trouble: Option<String>,
}

impl Peer {
    fn new(sim: SimPeer, speaker: Speaker) -> Self {
        Self { sim, speaker, heard: Vec::new(), trouble: None }
    }

    fn carry(&mut self) {
        match self.speaker.hear(&self.sim.received()) {
            Ok(said) => self.heard.extend(said),
            Err(trouble) => self.trouble = Some(trouble),
        }
        let wire = self.speaker.wire();
        if !wire.is_empty() {
            self.sim.send(&wire);
        }
    }
}

fn authority() -> Authority {
    Authority::new("test")
}

fn settings(authority: &Authority) -> TlsSettings {
    let own = authority.issue("proxy", &["localhost"]);
    TlsSettings {
        clients: Some(ForClients(Arc::new(authority.server(&own, false)))),
        upstreams: Some(ForUpstreams { config: Arc::new(authority.client(None)), name: None }),
        handshake_ms: HANDSHAKE_MS,
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8 ^ seed).collect()
}

/// What is sent, in pieces with one in flight at a time, as a worker does it.
struct Outbox {
    conn: ConnId,
    token: Token,
    rest: Vec<Vec<u8>>,
    in_flight: Option<Vec<u8>>,
}

impl Outbox {
    fn go_on(&mut self, world: &mut World) {
        if let Some(sent) = &self.in_flight {
            let is_it = |seen: &Seen| matches!(seen, Seen::Sent(of, _) if *of == self.token);
            let Some(at) = world.seen.iter().position(is_it) else { return };
            let Seen::Sent(_, buf) = world.seen.remove(at) else { return };
            assert!(buf == *sent, "another buffer came back");
            self.in_flight = None;
        }
        while let Some(next) = self.rest.pop() {
            match world.driver.send(self.conn, next.clone()) {
                Some(buf) => assert!(buf == next, "another buffer came back"),
                None => {
                    self.in_flight = Some(next);
                    return;
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.in_flight.is_none()
    }
}

const A: Token = Token(7);
const B: Token = Token(8 | 1 << 31 | 5 << 32);

/// Both directions at once, with pieces beyond what is sealed at once, over sound networks and over such that cut everywhere.
#[test]
fn what_either_side_says_arrives_however_the_stream_is_cut() {
    let authority = authority();
    for seed in 0..24 {
        let mut rng = SimRng::new(seed);
        let faults = if seed == 0 { SimFaults::none() } else { SimFaults::cutting(&mut rng) };
        // A slow network is what this is about, and no reason to give anybody up.
        let settings = TlsSettings { handshake_ms: 3_600_000, ..settings(&authority) };
        let mut world = World::new(seed, faults, settings);
        let (sim, conn) = world.client(A);
        let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
        // A network that gives single bytes takes a turn for each.
        let (up, down) = if seed == 0 { (300_000, SEAL_BYTES + 70_000) } else { (40_000, 50_000) };
        let (up, down) = (pattern(up, 1), pattern(down, 2));
        let mut rest: Vec<Vec<u8>> =
            [&down[..10], &down[10..5000], &down[5000..]].map(<[u8]>::to_vec).to_vec();
        rest.reverse();
        let mut outbox = Outbox { conn, token: A, rest, in_flight: None };
        let mut said = false;
        world.until("both have heard everything", &mut peer, |world, peer| {
            if peer.speaker.is_ready() && !said {
                peer.speaker.say(&up);
                said = true;
            }
            outbox.go_on(world);
            assert!(up.starts_with(world.received_of(A)) && down.starts_with(&peer.heard));
            world.received_of(A).len() == up.len() && peer.heard.len() == down.len()
        });
        assert!(outbox.is_empty() && peer.trouble.is_none(), "{:?}", peer.trouble);
        let report = world.report();
        assert_eq!((report.clients.open, report.clients.handshakes), (1, 1));
        peer.speaker.say_end();
        world.until("the end is told once", &mut peer, |world, _| {
            world.seen.contains(&Seen::Eof(A))
        });
        let _ = world.driver.send(conn, b"late".to_vec());
        world.until("what is sent behind its end arrives", &mut peer, |_, peer| {
            peer.heard.ends_with(b"late")
        });
        world.until("nothing is in flight", &mut peer, |world, _| {
            let closed = world.seen.iter().any(|seen| matches!(seen, Seen::Closed(..)));
            assert!(!closed, "{:?}", world.seen);
            world.net.next_event_at().is_none()
        });
        world.driver.close(conn);
        if seed == 0 {
            // Where writes are cut, the last word may find no room.
            world.until("our end is told", &mut peer, |_, peer| peer.speaker.is_ended());
        }
        assert_eq!((world.driver.inner().conns(), world.report().clients.open), (0, 0));
    }
}

/// The server's end of a connection of ours.
fn upstream(world: &mut World, host: &str) -> (SimListener, ConnId) {
    let listener = world.net.listen(&address(9));
    let conn = world.driver.connect_secured(&address(9), B, host);
    (listener, conn)
}

fn take(world: &mut World, listener: &SimListener) -> SimPeer {
    for _ in 0..TURNS_MAX {
        if let Some(peer) = listener.accept() {
            return peer;
        }
        world.turn();
        world.pass_time();
    }
    panic!("nobody connects");
}

#[test]
fn a_connect_is_told_when_the_server_is_known() {
    let authority = authority();
    let theirs = authority.issue("server", &["db.example"]);
    for seed in 0..12 {
        let mut rng = SimRng::new(seed);
        let mut world = World::new(seed, SimFaults::cutting(&mut rng), settings(&authority));
        let (listener, conn) = upstream(&mut world, "db.example");
        let sim = take(&mut world, &listener);
        world.turn();
        assert!(world.seen.is_empty(), "told before the handshake: {:?}", world.seen);
        let mut peer = Peer::new(sim, Speaker::server(authority.server(&theirs, false)));
        world.until("connected", &mut peer, |world, _| world.seen.contains(&Seen::Connected(B)));
        let _ = world.driver.send(conn, b"hello".to_vec());
        world.until("heard", &mut peer, |_, peer| peer.heard == b"hello");
        peer.speaker.say(b"and back");
        world.until("heard", &mut peer, |world, _| world.received_of(B) == b"and back");
        assert_eq!(world.report().upstreams.handshakes, 1);
    }
}

#[test]
fn a_server_that_is_not_trusted_gets_nothing_and_the_cause_says_why() {
    let (authority, stranger) = (authority(), Authority::new("stranger"));
    let right = authority.issue("right", &["db.example"]);
    let expired = authority.issue_until("old", &["db.example"], 2001);
    let strange = stranger.issue("strange", &["db.example"]);
    for (host, pair, of, word, reason) in [
        ("db.other", &right, &authority, "db.other", Reason::Certificate),
        ("db.example", &expired, &authority, "expired", Reason::Certificate),
        ("db.example", &strange, &stranger, "UnknownIssuer", Reason::Certificate),
        ("no name", &right, &authority, "no name that a certificate can have", Reason::Certificate),
    ] {
        let mut world = World::new(1, SimFaults::none(), settings(&authority));
        let (listener, _) = upstream(&mut world, host);
        let sim = take(&mut world, &listener);
        let mut peer = Peer::new(sim, Speaker::server(of.server(pair, false)));
        world.until("given up", &mut peer, |world, _| world.closed(B).is_some());
        let cause = world.closed(B).unwrap();
        assert!(cause.contains(word) && cause.contains("TLS: "), "{cause}");
        assert_eq!(world.seen.len(), 1, "{:?}", world.seen);
        let failures = world.report().upstreams.failures;
        assert_eq!((failures[reason as usize], failures.iter().sum::<u64>()), (1, 1));
        assert!(peer.heard.is_empty() && world.driver.inner().conns() == 0);
    }
}

/// With TLS 1.3 our end of the handshake is over before the server has looked at our certificate.
#[test]
fn a_server_that_wants_a_certificate_and_gets_none_is_told_as_that() {
    let authority = authority();
    let theirs = authority.issue("server", &["db.example"]);
    let mut world = World::new(3, SimFaults::none(), settings(&authority));
    let (listener, _) = upstream(&mut world, "db.example");
    let sim = take(&mut world, &listener);
    let mut peer = Peer::new(sim, Speaker::server(authority.server(&theirs, true)));
    world.until("given up", &mut peer, |world, _| world.closed(B).is_some());
    let cause = world.closed(B).unwrap();
    assert!(cause.contains("certificate of ours"), "{cause}");
    assert!(peer.trouble.is_some());
}

#[test]
fn a_connection_that_breaks_during_the_handshake_is_told_once() {
    let authority = authority();
    let theirs = authority.issue("server", &["db.example"]);
    for carried in 0..3 {
        for how in ["reset", "close", "shutdown"] {
            let mut world = World::new(5, SimFaults::none(), settings(&authority));
            let (listener, _) = upstream(&mut world, "db.example");
            let sim = take(&mut world, &listener);
            let mut server = Peer::new(sim, Speaker::server(authority.server(&theirs, false)));
            let (sim, _) = world.client(A);
            let mut client = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
            for _ in 0..carried {
                world.turn();
                world.pass_time();
                // One of the server's answers would end the handshake.
                let _ = (server.sim.received(), client.sim.received());
                client.sim.send(&client.speaker.wire());
            }
            for peer in [&server, &client] {
                match how {
                    "reset" => peer.sim.reset(),
                    "close" => peer.sim.close(),
                    _ => peer.sim.shutdown(),
                }
            }
            world.until("both are told", &mut server, |world, _| {
                world.closed(A).is_some() && world.closed(B).is_some()
            });
            world.turn();
            assert_eq!(world.seen.len(), 2, "{how}: {:?}", world.seen);
            for token in [A, B] {
                let cause = world.closed(token).unwrap();
                assert!(cause.contains("during the handshake"), "{how}: {cause}");
            }
            assert_eq!(world.driver.inner().conns(), 0);
            let report = world.report();
            assert_eq!(report.clients.failures[Reason::Closed as usize], 1);
            assert_eq!(report.upstreams.failures[Reason::Closed as usize], 1);
        }
    }
}

#[test]
fn who_speaks_something_else_is_told_apart() {
    let authority = authority();
    for (bytes, reason) in [
        (&b"*1\r\n$4\r\nPING\r\n"[..], Reason::NotTls),
        (b"GET / HTTP/1.1\r\n\r\n", Reason::NotTls),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\xff", Reason::NotTls),
        (&[0x16; 40_000], Reason::NotTls),
        (b"\x17\x03\x03\x00\x01x", Reason::Protocol),
    ] {
        let mut world = World::new(1, SimFaults::none(), settings(&authority));
        let (sim, _) = world.client(A);
        sim.send(bytes);
        let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
        // What it would say itself is not carried.
        let _ = peer.speaker.wire();
        world.until("given up", &mut peer, |world, _| world.closed(A).is_some());
        let failures = world.report().clients.failures;
        assert_eq!(failures[reason as usize], 1, "{bytes:?}: {failures:?}");
        assert_eq!((world.seen.len(), world.driver.inner().conns()), (1, 0));
    }
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let (listener, _) = upstream(&mut world, "db.example");
    let sim = take(&mut world, &listener);
    sim.send(b"-ERR unknown command\r\n");
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    let _ = peer.speaker.wire();
    world.until("given up", &mut peer, |world, _| world.closed(B).is_some());
    assert!(world.closed(B).unwrap().contains("does not speak TLS"));
}

#[test]
fn who_does_not_finish_the_handshake_is_closed_in_time_and_nobody_else() {
    let authority = authority();
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let (sim, _) = world.client(A);
    let mut through = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    world.until("through", &mut through, |world, _| world.report().clients.open == 1);
    let begun_us = world.net.now_us();
    let (silent, _) = world.client(B);
    silent.send(b"\x16\x03\x01");
    world.until("given up", &mut through, |world, _| world.closed(B).is_some());
    let took_us = world.net.now_us() - begun_us;
    assert!((HANDSHAKE_MS * 1000..HANDSHAKE_MS * 1000 + 20_000).contains(&took_us), "{took_us}");
    assert_eq!(world.report().clients.failures[Reason::Timeout as usize], 1);
    assert_eq!(world.closed(A), None);
}

/// A storm of clients: a wait makes no more than its share of handshakes, and a client without TLS is heard in each.
#[test]
fn handshakes_go_on_in_turn_and_keep_nobody_waiting() {
    const CLIENTS: usize = 40;
    let authority = authority();
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let plain = world.net.connect(&address(2));
    let accepted = world.accept();
    world.driver.adopt(accepted, B);
    let mut peers: Vec<Peer> = (0..CLIENTS)
        .map(|n| {
            let (sim, _) = world.client(Token(100 + n as u64));
            Peer::new(sim, Speaker::client(authority.client(None), "localhost"))
        })
        .collect();
    peers.iter_mut().for_each(Peer::carry);
    let (mut heard, mut done, mut waits) = (0, 0, 0);
    while done < CLIENTS {
        plain.send(b"x");
        if let Some(at_us) = world.net.next_event_at() {
            world.net.advance_to(at_us);
        }
        world.turn();
        waits += 1;
        assert!(world.received_of(B).len() > heard, "the plain client was kept waiting");
        heard = world.received_of(B).len();
        let now_done = world.report().clients.handshakes as usize;
        assert!(now_done - done <= STEPS_PER_WAIT, "{} in one wait", now_done - done);
        done = now_done;
        peers.iter_mut().for_each(Peer::carry);
        assert!(waits < TURNS_MAX);
    }
    // Each takes two steps.
    assert!(waits as usize >= CLIENTS * 2 / STEPS_PER_WAIT, "{waits}");
    assert!(peers.iter().all(|peer| peer.trouble.is_none()));
    assert_eq!(world.report().clients.open as usize, CLIENTS);
}

/// Also what was decrypted already, and what comes right behind the handshake.
#[test]
fn a_caller_that_wants_nothing_gets_nothing_and_the_peer_is_held_back() {
    let authority = authority();
    for stop_early in [true, false] {
        let faults = SimFaults { socket_bytes_max: 32 << 10, ..SimFaults::none() };
        let mut world = World::new(1, faults, settings(&authority));
        let (sim, conn) = world.client(A);
        let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
        if stop_early {
            world.driver.recv(conn, false);
        }
        world.until("through", &mut peer, |_, peer| peer.speaker.is_ready());
        let said = pattern(1 << 20, 3);
        peer.speaker.say(&said);
        if !stop_early {
            world.until("some came", &mut peer, |world, _| !world.received_of(A).is_empty());
            world.driver.recv(conn, false);
        }
        let before = world.received_of(A).len();
        for _ in 0..200 {
            peer.carry();
            world.turn();
            world.pass_time();
        }
        assert_eq!(world.received_of(A).len(), before, "bytes that nobody wanted");
        assert!(peer.sim.unsent() > said.len() / 2, "all of it went somewhere");
        assert_eq!(world.report().clients.open, 1);
        world.driver.recv(conn, true);
        world.until("all came", &mut peer, |world, _| {
            assert!(said.starts_with(world.received_of(A)));
            world.received_of(A).len() == said.len()
        });
    }
}

#[test]
fn a_peer_that_does_not_read_holds_one_send_and_no_more() {
    let authority = authority();
    let faults = SimFaults { socket_bytes_max: 16 << 10, ..SimFaults::none() };
    let mut world = World::new(1, faults, settings(&authority));
    let (sim, conn) = world.client(A);
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    world.until("through", &mut peer, |world, _| world.report().clients.open == 1);
    peer.sim.pause_reading(true);
    let said = pattern(2 << 20, 4);
    assert!(world.driver.send(conn, said.clone()).is_none());
    for _ in 0..200 {
        world.turn();
        world.pass_time();
    }
    assert!(world.seen.is_empty(), "sent, to a peer that reads nothing: {:?}", world.seen);
    peer.sim.pause_reading(false);
    world.until("all came", &mut peer, |world, peer| {
        peer.heard.len() == said.len() && world.seen == [Seen::Sent(A, said.clone())]
    });
    assert_eq!(peer.heard, said);
}

/// Thousands of records that say next to nothing.
#[test]
fn tiny_records_are_taken() {
    let authority = authority();
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let (sim, _) = world.client(A);
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    world.until("through", &mut peer, |world, _| world.report().clients.open == 1);
    let mut wire = Vec::new();
    for byte in 0..1000u32 {
        peer.speaker.say(&[byte as u8]);
        wire.extend(peer.speaker.wire());
    }
    peer.sim.send(&wire);
    world.until("all came", &mut peer, |world, _| world.received_of(A).len() == 1000);
    assert_eq!(world.closed(A), None);
}
