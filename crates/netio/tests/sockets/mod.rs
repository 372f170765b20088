//! The common stories' world of real sockets on the loopback, for whichever driver of the kernel's.
//!
//! Not here: what only one of these drivers shows.
//!
//! Invariant: peers never block; what is not there yet is read in a later turn.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use netio::{Address, Driver, Event, ListenOptions, Listener, Stream, Wait, Waker};
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
}
