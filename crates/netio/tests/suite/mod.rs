//! What every driver must do, as stories that are told once and run on each: a driver under test, and
//! scripted peers of whatever network it lives in ([`World`]).
//!
//! Waiting is bounded in turns of at most [`TURN_US`] each ([`Stage::until`]), in real time and in
//! virtual time alike; nothing here sleeps for a fixed time.

use netio::sim::SimRng;
use netio::{Accepted, Address, CloseReason, ConnId, Driver, Event, ListenerId, Token, Wait};

/// Longest wait of one turn.
pub(crate) const TURN_US: u64 = 5_000;

/// Turns until a story gives up: ten seconds.
const TURNS_MAX: u32 = 2_000;

/// A network with one driver that listens, and means to play the other ends.
pub(crate) trait World {
    type D: Driver<Socket: std::fmt::Debug>;
    type Peer;

    fn new() -> Self;
    fn driver(&mut self) -> &mut Self::D;
    /// A second driver of the same network, without listeners.
    fn second_driver(&mut self) -> Self::D;
    /// Lets up to [`TURN_US`] pass, and waits once.
    fn turn(&mut self, on_event: &mut impl FnMut(Event<'_, <Self::D as Driver>::Socket>));
    /// The same for another driver of this network.
    fn turn_of(
        &mut self,
        driver: &mut Self::D,
        on_event: &mut impl FnMut(Event<'_, <Self::D as Driver>::Socket>),
    );
    fn waker(&mut self) -> netio::Waker;

    /// A scripted client of the driver's listener.
    fn dial(&mut self) -> Self::Peer;
    /// Opens a scripted server.
    fn serve(&mut self) -> Address;
    /// The next connection to the scripted server.
    fn take(&mut self) -> Option<Self::Peer>;
    /// An address where nobody listens.
    fn dead(&mut self) -> Address;

    /// Writes all of a few bytes.
    fn write(&mut self, peer: &mut Self::Peer, bytes: &[u8]);
    /// What has come since the last call. A peer reads only here.
    fn read(&mut self, peer: &mut Self::Peer) -> Vec<u8>;
    fn shutdown(&mut self, peer: &mut Self::Peer);
    fn close(&mut self, peer: Self::Peer);
    fn reset(&mut self, peer: Self::Peer);
    /// Whether the driver has reset this connection. The call drops unread bytes of the peer.
    fn is_reset(&mut self, peer: &mut Self::Peer) -> bool;
}

/// An event that outlives its callback.
#[derive(Debug)]
pub(crate) enum Seen<S> {
    Accepted(Accepted<S>),
    Connected(Token),
    Received(Token, Vec<u8>),
    Eof(Token),
    Sent(Token, Vec<u8>),
    Closed(Token, CloseReason),
    Woken,
}

impl<S> Seen<S> {
    pub(crate) fn keep(event: Event<'_, S>) -> Self {
        match event {
            Event::Accepted(accepted) => Self::Accepted(accepted),
            Event::AcceptFailed(error) => panic!("no story runs out of descriptors ({error})"),
            Event::Connected(token) => Self::Connected(token),
            Event::Received(token, bytes) => {
                assert!(!bytes.is_empty(), "an empty Received");
                Self::Received(token, bytes.to_vec())
            }
            Event::Eof(token) => Self::Eof(token),
            Event::Sent(token, buf) => Self::Sent(token, buf),
            Event::Closed(token, why) => Self::Closed(token, why),
            Event::Woken => Self::Woken,
        }
    }

    fn token(&self) -> Option<Token> {
        match self {
            Self::Connected(token)
            | Self::Received(token, _)
            | Self::Eof(token)
            | Self::Sent(token, _)
            | Self::Closed(token, _) => Some(*token),
            Self::Accepted(_) | Self::Woken => None,
        }
    }
}

type SocketOf<W> = <<W as World>::D as Driver>::Socket;

/// A world with all events that its driver gave, but for the ones a story has taken.
pub(crate) struct Stage<W: World> {
    pub(crate) world: W,
    pub(crate) seen: Vec<Seen<SocketOf<W>>>,
    closed: Vec<Token>,
}

impl<W: World> Stage<W> {
    pub(crate) fn new() -> Self {
        let mut world = W::new();
        world.driver().accept(true);
        Self { world, seen: Vec::new(), closed: Vec::new() }
    }

    pub(crate) fn turn(&mut self) {
        let mut fresh = Vec::new();
        self.world.turn(&mut |event| fresh.push(Seen::keep(event)));
        for event in fresh {
            if let Some(token) = event.token() {
                assert!(!self.closed.contains(&token), "{event:?} after the end of {token:?}");
            }
            if let Seen::Closed(token, _) = event {
                self.closed.push(token);
            }
            self.seen.push(event);
        }
    }

    /// Takes turns until `done` gives something.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        for _ in 0..TURNS_MAX {
            if let Some(result) = done(self) {
                return result;
            }
            self.turn();
        }
        panic!("{what}: did not come about; unhandled events: {:?}", self.seen);
    }

    /// Waits for the first event that `pick` wants, and takes it.
    pub(crate) fn event<T>(
        &mut self,
        what: &str,
        pick: impl Fn(&Seen<SocketOf<W>>) -> Option<T>,
    ) -> T {
        self.until(what, |stage| {
            let (at, picked) =
                stage.seen.iter().enumerate().find_map(|(at, seen)| Some((at, pick(seen)?)))?;
            stage.seen.remove(at);
            Some(picked)
        })
    }

    pub(crate) fn accepted(&mut self) -> Accepted<SocketOf<W>> {
        self.until("a connection is accepted", |stage| {
            let at = stage.seen.iter().position(|seen| matches!(seen, Seen::Accepted(_)))?;
            match stage.seen.remove(at) {
                Seen::Accepted(accepted) => Some(accepted),
                _ => None,
            }
        })
    }

    /// A client that is connected and adopted.
    pub(crate) fn client(&mut self, token: Token) -> (W::Peer, ConnId) {
        let peer = self.world.dial();
        let accepted = self.accepted();
        let conn = self.world.driver().adopt(accepted, token);
        (peer, conn)
    }

    /// A connection of the driver's own to a scripted server.
    pub(crate) fn upstream(&mut self, token: Token) -> (W::Peer, ConnId) {
        let to = self.world.serve();
        let conn = self.world.driver().connect(&to, token);
        self.event("the connect is done", |seen| {
            matches!(seen, Seen::Connected(got) if *got == token).then_some(())
        });
        let peer = self.until("the server takes it", |stage| stage.world.take());
        (peer, conn)
    }

    /// Collects what is received under `token` until it is `wanted`.
    pub(crate) fn receives(&mut self, token: Token, wanted: &[u8]) {
        let mut got = Vec::new();
        self.until(&format!("{} bytes come", wanted.len()), |stage| {
            stage.seen.retain(|seen| match seen {
                Seen::Received(from, bytes) if *from == token => {
                    got.extend_from_slice(bytes);
                    false
                }
                _ => true,
            });
            assert!(wanted.starts_with(&got), "received {got:?}, wanted {wanted:?}");
            (got.len() == wanted.len()).then_some(())
        });
    }

    /// Waits until the peer has read exactly `wanted` more bytes.
    pub(crate) fn peer_reads(&mut self, peer: &mut W::Peer, wanted: &[u8]) {
        let mut got = Vec::new();
        self.until(&format!("the peer reads {} bytes", wanted.len()), |stage| {
            got.extend(stage.world.read(peer));
            assert!(wanted.starts_with(&got), "the peer read other bytes than were sent");
            (got.len() == wanted.len()).then_some(())
        });
    }

    pub(crate) fn closed(&mut self, token: Token) -> CloseReason {
        self.event("the connection ends", |seen| match seen {
            Seen::Closed(got, why) if *got == token => Some(why.clone()),
            _ => None,
        })
    }

    pub(crate) fn eof(&mut self, token: Token) {
        self.event("the stream ends", |seen| {
            matches!(seen, Seen::Eof(got) if *got == token).then_some(())
        });
    }

    /// Takes turns and asserts that `token` has nothing to tell.
    pub(crate) fn stays_quiet(&mut self, token: Token) {
        for _ in 0..10 {
            self.turn();
        }
        let told = self.seen.iter().find(|seen| seen.token() == Some(token));
        assert!(told.is_none(), "unexpected {told:?}");
    }
}

const A: Token = Token(1);
const B: Token = Token(2);

pub(crate) fn echo<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.client(A);
    for round in 0..20u8 {
        let bytes = vec![round; 1 + usize::from(round) * 37];
        stage.world.write(&mut peer, &bytes);
        stage.receives(A, &bytes);
        let sent = stage.world.driver().send(conn, bytes.clone());
        assert_eq!(sent.as_ref(), Some(&bytes), "a small send is taken at once, content untouched");
        stage.peer_reads(&mut peer, &bytes);
    }
}

pub(crate) fn names_of_both_ends<W: World>() {
    let mut stage = Stage::<W>::new();
    let _peer = stage.world.dial();
    let accepted = stage.accepted();
    let port = |text: &str| text.rsplit_once(':').map(|(_, port)| port.parse::<u16>().unwrap());
    assert!(accepted.peer.starts_with("127.0.0.1:"), "{}", accepted.peer);
    assert!(accepted.local.starts_with("127.0.0.1:"), "{}", accepted.local);
    assert_ne!(port(&accepted.peer), port(&accepted.local));
    assert_eq!(accepted.ip, Some([127, 0, 0, 1].into()));
    assert_eq!(accepted.listener, ListenerId(0));
}

pub(crate) fn another_token_takes_over<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.client(A);
    stage.world.write(&mut peer, b"head");
    stage.receives(A, b"head");
    stage.world.driver().rename(conn, B);
    stage.world.write(&mut peer, b"body");
    stage.receives(B, b"body");
    assert!(stage.world.driver().send(conn, b"reply".to_vec()).is_some());
    stage.peer_reads(&mut peer, b"reply");
    stage.world.shutdown(&mut peer);
    stage.eof(B);
    stage.stays_quiet(A);
    stage.world.driver().close(conn);
    stage.world.driver().rename(conn, A);
    stage.stays_quiet(A);
}

pub(crate) fn send_under_backpressure_comes_back_whole<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.client(A);
    // More than any socket buffer between the two (the kernel's grow to some MiB).
    let bytes: Vec<u8> =
        (0..32u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(stage.world.driver().send(conn, bytes.clone()), None, "it cannot fit");
    stage.stays_quiet(A);
    // Receiving goes on beside a blocked send.
    stage.world.write(&mut peer, b"meanwhile");
    stage.receives(A, b"meanwhile");
    stage.peer_reads(&mut peer, &bytes);
    let sent = stage.event("the send is told", |seen| match seen {
        Seen::Sent(A, buf) => Some(buf.clone()),
        _ => None,
    });
    assert!(sent == bytes, "the buffer came back changed");
    // And the connection is as good as before.
    assert!(stage.world.driver().send(conn, b"more".to_vec()).is_some());
    stage.peer_reads(&mut peer, b"more");
}

pub(crate) fn after_eof_sends_still_go<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.client(A);
    stage.world.write(&mut peer, b"last words");
    stage.world.shutdown(&mut peer);
    stage.receives(A, b"last words");
    stage.eof(A);
    stage.stays_quiet(A);
    assert!(stage.world.driver().send(conn, b"answer".to_vec()).is_some());
    stage.peer_reads(&mut peer, b"answer");
    // Arming again brings no second end of the stream.
    stage.world.driver().recv(conn, true);
    stage.stays_quiet(A);
}

pub(crate) fn reset_is_told_once<W: World>() {
    for recv_on in [true, false] {
        let mut stage = Stage::<W>::new();
        let (peer, conn) = stage.client(A);
        stage.world.driver().recv(conn, recv_on);
        stage.stays_quiet(A);
        stage.world.reset(peer);
        assert_eq!(stage.closed(A), CloseReason::Broken(libc::ECONNRESET), "recv {recv_on}");
        stage.stays_quiet(A);
        assert_eq!(stage.world.driver().send(conn, b"late".to_vec()), None);
        stage.stays_quiet(A);
    }
}

pub(crate) fn reset_during_a_send<W: World>() {
    let mut stage = Stage::<W>::new();
    let (peer, conn) = stage.client(A);
    stage.world.driver().recv(conn, false);
    assert_eq!(stage.world.driver().send(conn, vec![7; 32 << 20]), None);
    stage.stays_quiet(A);
    stage.world.reset(peer);
    assert!(matches!(stage.closed(A), CloseReason::Broken(_)));
    stage.stays_quiet(A);
}

pub(crate) fn bytes_before_a_close_are_told_first<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.upstream(A);
    stage.world.driver().recv(conn, false);
    stage.world.write(&mut peer, b"-ERR max number of clients reached\r\n");
    stage.world.close(peer);
    stage.stays_quiet(A);
    stage.world.driver().recv(conn, true);
    stage.receives(A, b"-ERR max number of clients reached\r\n");
    stage.eof(A);
}

pub(crate) fn a_reset_drops_what_the_peer_has_not_taken<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.client(A);
    while stage.world.driver().send(conn, vec![b'x'; 1 << 20]).is_some() {
        stage.turn();
    }
    stage.world.driver().reset(conn);
    stage.until("the reset", |stage| stage.world.is_reset(&mut peer).then_some(()));
    stage.stays_quiet(A);
    // A stale id is ignored.
    stage.world.driver().reset(conn);
    stage.stays_quiet(A);
}

pub(crate) fn sending_to_a_closed_peer_breaks<W: World>() {
    let mut stage = Stage::<W>::new();
    let (peer, conn) = stage.client(A);
    stage.world.close(peer);
    stage.eof(A);
    // The first send may still succeed: only its answer, a reset, tells that nobody is there.
    let why = stage.until("the end is noticed", |stage| {
        if let Some(Seen::Closed(A, why)) = stage.seen.first() {
            return Some(why.clone());
        }
        let _ = stage.world.driver().send(conn, b"hello?".to_vec());
        None
    });
    assert!(matches!(why, CloseReason::Broken(_)), "{why:?}");
}

pub(crate) fn receiving_stops_and_goes_on<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.client(A);
    stage.world.driver().recv(conn, false);
    stage.world.write(&mut peer, b"held back");
    stage.stays_quiet(A);
    stage.world.driver().recv(conn, true);
    stage.receives(A, b"held back");
}

pub(crate) fn stale_ids_are_ignored<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut first_peer, first) = stage.client(A);
    stage.world.write(&mut first_peer, b"never seen");
    stage.world.driver().close(first);
    let (mut peer, second) = stage.client(B);
    assert_eq!(first.index, second.index, "the place is used again");
    stage.world.driver().close(first);
    stage.world.driver().recv(first, false);
    assert_eq!(stage.world.driver().send(first, b"to nobody".to_vec()), None);
    stage.world.write(&mut peer, b"still here");
    stage.receives(B, b"still here");
    stage.stays_quiet(A);
    assert_eq!(stage.world.read(&mut peer), b"", "a stale send reached a stranger");
}

pub(crate) fn refused_connect<W: World>() {
    let mut stage = Stage::<W>::new();
    let to = stage.world.dead();
    let conn = stage.world.driver().connect(&to, A);
    assert_eq!(stage.closed(A), CloseReason::ConnectFailed(libc::ECONNREFUSED));
    stage.world.driver().close(conn);
    stage.stays_quiet(A);
}

pub(crate) fn closing_during_a_connect<W: World>() {
    let mut stage = Stage::<W>::new();
    let (dead, live) = (stage.world.dead(), stage.world.serve());
    for (to, token) in [(dead, A), (live, B)] {
        let conn = stage.world.driver().connect(&to, token);
        stage.world.driver().close(conn);
        stage.stays_quiet(token);
    }
}

pub(crate) fn sending_during_a_connect<W: World>() {
    let mut stage = Stage::<W>::new();
    let to = stage.world.serve();
    let conn = stage.world.driver().connect(&to, A);
    assert_eq!(stage.world.driver().send(conn, b"greeting".to_vec()), None);
    let connected = |seen: &Seen<SocketOf<W>>| matches!(seen, Seen::Connected(A)).then_some(());
    stage.event("connected", connected);
    let buf = stage.event("the send is told", |seen| match seen {
        Seen::Sent(A, buf) => Some(buf.clone()),
        _ => None,
    });
    assert_eq!(buf, b"greeting");
    let mut peer = stage.until("the server takes it", |stage| stage.world.take());
    stage.peer_reads(&mut peer, b"greeting");
}

pub(crate) fn upstream_talks_both_ways<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut peer, conn) = stage.upstream(A);
    assert!(stage.world.driver().send(conn, b"PING\r\n".to_vec()).is_some());
    stage.peer_reads(&mut peer, b"PING\r\n");
    stage.world.write(&mut peer, b"+PONG\r\n");
    stage.receives(A, b"+PONG\r\n");
}

pub(crate) fn accepted_connections_travel<W: World>() {
    let mut stage = Stage::<W>::new();
    let mut peer = stage.world.dial();
    // Sent before anybody adopts it, so nothing may be lost on the way.
    stage.world.write(&mut peer, b"early");
    let accepted = stage.accepted();
    let mut other = stage.world.second_driver();
    let conn = other.adopt(accepted, B);
    let mut got = Vec::new();
    stage.until("the other driver receives", |stage| {
        stage.world.turn_of(&mut other, &mut |event| match event {
            Event::Received(B, bytes) => got.extend_from_slice(bytes),
            event => panic!("unexpected {event:?}"),
        });
        (got == b"early").then_some(())
    });
    assert!(other.send(conn, b"answer".to_vec()).is_some());
    // A driver may send what it gave back only with its next wait.
    stage.world.turn_of(&mut other, &mut |event| panic!("unexpected {event:?}"));
    stage.peer_reads(&mut peer, b"answer");
}

pub(crate) fn dropped_unadopted_is_closed<W: World>() {
    let mut stage = Stage::<W>::new();
    let (mut live, _conn) = stage.client(A);
    let refused = stage.world.dial();
    drop(stage.accepted());
    stage.turn();
    // Nothing of it is left in the driver, and the other one is untouched.
    stage.world.close(refused);
    stage.world.write(&mut live, b"fine");
    stage.receives(A, b"fine");
}

pub(crate) fn accepting_stops_and_goes_on<W: World>() {
    let mut stage = Stage::<W>::new();
    stage.world.driver().accept(false);
    let _peer = stage.world.dial();
    for _ in 0..10 {
        stage.turn();
    }
    assert!(stage.seen.is_empty(), "{:?}", stage.seen);
    stage.world.driver().accept(true);
    stage.accepted();
}

pub(crate) fn wakes_are_told_together<W: World>() {
    let mut stage = Stage::<W>::new();
    let waker = stage.world.waker();
    for _ in 0..3 {
        for _ in 0..5 {
            waker.wake();
        }
        stage.event("woken", |seen| matches!(seen, Seen::Woken).then_some(()));
        stage.turn();
        assert!(stage.seen.is_empty(), "five wakes are one event: {:?}", stage.seen);
    }
}

pub(crate) fn many_connections_keep_their_streams<W: World>() {
    let mut stage = Stage::<W>::new();
    let mut conns = Vec::new();
    for at in 0..100 {
        conns.push(stage.client(Token(at)));
    }
    for (at, (peer, _)) in conns.iter_mut().enumerate() {
        stage.world.write(peer, format!("I am {at}").as_bytes());
    }
    for at in 0..conns.len() {
        stage.receives(Token(at as u64), format!("I am {at}").as_bytes());
    }
    // Every second one goes; the others do not notice.
    for (at, (_, conn)) in conns.iter().enumerate().step_by(2) {
        stage.world.driver().close(*conn);
        assert!(stage.seen.is_empty(), "closing {at} told {:?}", stage.seen);
    }
    for (at, (peer, conn)) in conns.iter_mut().enumerate().skip(1).step_by(2) {
        let text = format!("you are {at}").into_bytes();
        assert!(stage.world.driver().send(*conn, text.clone()).is_some());
        stage.peer_reads(peer, &text);
    }
}

pub(crate) fn waits_end_at_their_time<W: World>() {
    let mut stage = Stage::<W>::new();
    let driver = stage.world.driver();
    let nothing = &mut |event: Event<'_, _>| panic!("unexpected {event:?}");
    assert_eq!(driver.wait(Wait::Poll, nothing), 0);
    // A time in the past is no wait at all.
    assert_eq!(driver.wait(Wait::Until(0), nothing), 0);
    assert_eq!(driver.wait(Wait::Gather { until_us: 0, completions: 1 }, nothing), 0);
}

/// Twenty connections echo a few hundred KiB each, in pieces of random size and with peers that read
/// when they please, so that sends are often partial on many connections at once.
pub(crate) fn crossing_streams_arrive_whole<W: World>() {
    let mut rng = SimRng::new(7);
    let mut stage = Stage::<W>::new();
    let mut talks = Vec::new();
    for at in 0..20u64 {
        let (peer, conn) = stage.client(Token(at));
        let bytes = (0..300_000u64).map(|pos| ((pos ^ (at * 77)) % 251) as u8).collect();
        talks.push(Talk {
            peer,
            conn,
            bytes,
            written: 0,
            waiting: Vec::new(),
            sending: false,
            read: 0,
        });
    }
    stage.until("all streams are whole", |stage| {
        for event in std::mem::take(&mut stage.seen) {
            match event {
                Seen::Received(Token(at), bytes) => talks[at as usize].waiting.extend(bytes),
                Seen::Sent(Token(at), _) => talks[at as usize].sending = false,
                event => panic!("unexpected {event:?}"),
            }
        }
        for talk in &mut talks {
            // At most 64 KiB are between the peer's pen and its eye, which any socket can hold, so
            // the peer's own writes are never partial.
            let room = (64 << 10) - (talk.written - talk.read);
            let piece =
                (rng.between(1, 30_000) as usize).min(talk.bytes.len() - talk.written).min(room);
            stage.world.write(&mut talk.peer, &talk.bytes[talk.written..talk.written + piece]);
            talk.written += piece;
            if !talk.sending && !talk.waiting.is_empty() {
                let buf = std::mem::take(&mut talk.waiting);
                talk.sending = stage.world.driver().send(talk.conn, buf).is_none();
            }
            if rng.chance(300_000) {
                let got = stage.world.read(&mut talk.peer);
                assert!(talk.bytes[talk.read..].starts_with(&got), "other bytes came back");
                talk.read += got.len();
            }
        }
        talks.iter().all(|talk| talk.read == talk.bytes.len()).then_some(())
    });
}

struct Talk<P> {
    peer: P,
    conn: ConnId,
    bytes: Vec<u8>,
    written: usize,
    /// Received and to be sent back.
    waiting: Vec<u8>,
    sending: bool,
    read: usize,
}

/// One test per story, for a world.
#[macro_export]
macro_rules! stories {
    ($world:ty: $($story:ident),+ $(,)?) => {
        $(#[test]
        fn $story() {
            suite::$story::<$world>();
        })+
    };
    ($world:ty) => {
        stories!($world:
            echo,
            names_of_both_ends,
            send_under_backpressure_comes_back_whole,
            after_eof_sends_still_go,
            reset_is_told_once,
            reset_during_a_send,
            bytes_before_a_close_are_told_first,
            sending_to_a_closed_peer_breaks,
            a_reset_drops_what_the_peer_has_not_taken,
            receiving_stops_and_goes_on,
            stale_ids_are_ignored,
            refused_connect,
            closing_during_a_connect,
            sending_during_a_connect,
            upstream_talks_both_ways,
            accepted_connections_travel,
            another_token_takes_over,
            dropped_unadopted_is_closed,
            accepting_stops_and_goes_on,
            wakes_are_told_together,
            many_connections_keep_their_streams,
            waits_end_at_their_time,
            crossing_streams_arrive_whole,
        );
    };
}
