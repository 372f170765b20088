//! The common stories' world of real sockets on the loopback, for whichever driver of the kernel's.
//!
//! Not here: what only one of these drivers shows.
//!
//! Invariant: peers never block; what is not there yet is read in a later turn.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use netio::{Address, Driver, Event, ListenOptions, Listener, ListenerId, Stream, Wait, Waker};
use rustix::net::sockopt;

use crate::suite::{TURN_US, World};

/// A driver over real sockets.
pub(crate) trait RealDriver: Driver<Socket = Stream> {
    /// With its usual options.
    fn over(listeners: Vec<Listener>) -> Self;

    /// A waker of it.
    fn waker(&self) -> Waker;
}

/// A driver with a listener, and a server that it may connect to.
pub(crate) struct Real<D> {
    pub(crate) driver: D,
    pub(crate) listening: Address,
    server: Option<TcpListener>,
}

pub(crate) fn loopback() -> Address {
    Address::Tcp("127.0.0.1:0".parse().unwrap())
}

pub(crate) fn nonblocking(stream: TcpStream) -> TcpStream {
    stream.set_nonblocking(true).unwrap();
    stream
}

impl<D> Real<D> {
    /// With the driver that is made for its listener.
    pub(crate) fn with(make: impl FnOnce(Vec<Listener>) -> D) -> Self {
        let listener = Listener::bind(&loopback(), &ListenOptions::default()).unwrap();
        let listening = listener.local_addr().clone();
        Self { driver: make(vec![listener]), listening, server: None }
    }
}

/// A listener with this id, and where it is.
pub(crate) fn bound(id: u32, to: &Address) -> (Listener, std::net::SocketAddr) {
    let options = ListenOptions { id: ListenerId(id), ..ListenOptions::default() };
    let listener = Listener::bind(to, &options).unwrap();
    let Address::Tcp(at) = *listener.local_addr() else { panic!("bound to TCP") };
    (listener, at)
}

/// Listeners are added and closed while the others go on, and clients that wait at those are not lost.
pub(crate) fn listeners_come_and_go<D: RealDriver>() {
    let ((first, first_at), (second, second_at)) = (bound(1, &loopback()), bound(2, &loopback()));
    let mut driver = D::over(vec![first, second]);
    driver.accept(true);
    driver.wait(Wait::Poll, &mut |event| panic!("unexpected {event:?}"));
    let waiting = TcpStream::connect(second_at).unwrap();
    let (third, third_at) = bound(3, &loopback());
    driver.listen(&|id| id != ListenerId(1), vec![third]);
    assert!(TcpStream::connect(first_at).is_err(), "nobody listens there any more");
    // Its port is free at once.
    drop(bound(1, &Address::Tcp(first_at)));
    let late = TcpStream::connect(third_at).unwrap();
    let mut came = Vec::new();
    let until_us = driver.now_us() + 10_000_000;
    while came.len() < 2 && driver.now_us() < until_us {
        driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Accepted(client) => came.push((client.listener, client.peer)),
            event => panic!("unexpected {event:?}"),
        });
    }
    came.sort_by_key(|(listener, _)| listener.0);
    let expected = [(2, &waiting), (3, &late)]
        .map(|(id, peer)| (ListenerId(id), peer.local_addr().unwrap().to_string()));
    assert_eq!(came, expected);
    // One that does not accept has others all the same, and begins with them.
    driver.accept(false);
    let (fourth, fourth_at) = bound(4, &loopback());
    driver.listen(&|_| true, vec![fourth]);
    let _peer = TcpStream::connect(fourth_at).unwrap();
    driver.wait(Wait::Poll, &mut |event| panic!("unexpected {event:?}"));
    driver.accept(true);
    let mut ids = Vec::new();
    while ids.is_empty() && driver.now_us() < until_us {
        driver.wait(Wait::Until(until_us), &mut |event| {
            if let Event::Accepted(client) = event {
                ids.push(client.listener);
            }
        });
    }
    assert_eq!(ids, [ListenerId(4)]);
    driver.close_listeners();
    assert!(TcpStream::connect(third_at).is_err() && TcpStream::connect(fourth_at).is_err());
}

impl<D: RealDriver> World for Real<D> {
    type D = D;
    type Peer = TcpStream;

    fn new() -> Self {
        Self::with(D::over)
    }

    fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    fn second_driver(&mut self) -> D {
        D::over(Vec::new())
    }

    fn turn(&mut self, on_event: &mut impl FnMut(Event<'_, Stream>)) {
        let until_us = self.driver.now_us() + TURN_US;
        self.driver.wait(Wait::Until(until_us), on_event);
    }

    fn turn_of(&mut self, driver: &mut D, on_event: &mut impl FnMut(Event<'_, Stream>)) {
        let until_us = driver.now_us() + TURN_US;
        driver.wait(Wait::Until(until_us), on_event);
    }

    fn waker(&mut self) -> netio::Waker {
        D::waker(&self.driver)
    }

    fn dial(&mut self) -> TcpStream {
        let Address::Tcp(addr) = self.listening else { panic!("a TCP world") };
        nonblocking(TcpStream::connect(addr).unwrap())
    }

    fn serve(&mut self) -> Address {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let addr = server.local_addr().unwrap();
        self.server = Some(server);
        Address::Tcp(addr)
    }

    fn take(&mut self) -> Option<TcpStream> {
        let (stream, _) = self.server.as_ref()?.accept().ok()?;
        Some(nonblocking(stream))
    }

    fn dead(&mut self) -> Address {
        // Bound and closed: the kernel will not give the port to another soon.
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Address::Tcp(addr)
    }

    fn write(&mut self, peer: &mut TcpStream, bytes: &[u8]) {
        assert_eq!(peer.write(bytes).unwrap(), bytes.len());
    }

    fn read(&mut self, peer: &mut TcpStream) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        match peer.read(&mut bytes) {
            Ok(count) => bytes.truncate(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => bytes.clear(),
            Err(error) => panic!("the peer cannot read: {error}"),
        }
        bytes
    }

    fn shutdown(&mut self, peer: &mut TcpStream) {
        peer.shutdown(Shutdown::Write).unwrap();
    }

    fn close(&mut self, peer: TcpStream) {
        drop(peer);
    }

    fn reset(&mut self, peer: TcpStream) {
        // Zero linger makes close(2) a reset.
        sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    }

    fn is_reset(&mut self, peer: &mut TcpStream) -> bool {
        let mut bytes = vec![0; 1 << 20];
        loop {
            match peer.read(&mut bytes) {
                Ok(0) => panic!("an orderly end"),
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}
