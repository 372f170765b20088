//! The io_uring driver on real sockets of the loopback: the common stories, and what is its own: buffers that run out, copies that are on
//! their way when a connection is closed, completions that come late, a kernel that forbids it.
//!
//! Where the kernel forbids io_uring each test says so and does nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use netio::{
    Accepted, Address, CloseReason, ConnId, Driver, Event, ListenOptions, Listener, Stream, Token,
    UringDriver, UringOptions, Wait, sys, uring,
};
use rustix::net::sockopt;

mod suite;

use suite::{TURN_US, World};

struct Real {
    driver: UringDriver,
    listening: Address,
    server: Option<TcpListener>,
}

fn loopback() -> Address {
    Address::Tcp("127.0.0.1:0".parse().unwrap())
}

fn nonblocking(stream: TcpStream) -> TcpStream {
    stream.set_nonblocking(true).unwrap();
    stream
}

impl Real {
    fn with(options: &UringOptions) -> Self {
        let listener = Listener::bind(&loopback(), &ListenOptions::default()).unwrap();
        let listening = listener.local_addr().clone();
        let driver = UringDriver::new(options, vec![listener]).unwrap();
        Self { driver, listening, server: None }
    }
}

impl World for Real {
    type D = UringDriver;
    type Peer = TcpStream;

    fn new() -> Self {
        Self::with(&UringOptions::default())
    }

    fn driver(&mut self) -> &mut UringDriver {
        &mut self.driver
    }

    fn second_driver(&mut self) -> UringDriver {
        UringDriver::new(&UringOptions::default(), Vec::new()).unwrap()
    }

    fn turn(&mut self, on_event: &mut impl FnMut(Event<'_, Stream>)) {
        let until_us = self.driver.now_us() + TURN_US;
        self.driver.wait(Wait::Until(until_us), on_event);
    }

    fn turn_of(&mut self, driver: &mut UringDriver, on_event: &mut impl FnMut(Event<'_, Stream>)) {
        let until_us = driver.now_us() + TURN_US;
        driver.wait(Wait::Until(until_us), on_event);
    }

    fn waker(&mut self) -> netio::Waker {
        self.driver.waker()
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

/// Whether io_uring can be used here; says why where it cannot.
fn usable() -> bool {
    match uring::probe() {
        Ok(()) => true,
        Err(unfit) => {
            eprintln!("skipped: {unfit}");
            false
        }
    }
}

/// The stories of the suite, each only where the kernel lets it run.
macro_rules! stories_if_usable {
    ($($story:ident),+ $(,)?) => {
        $(#[test]
        fn $story() {
            if usable() {
                suite::$story::<Real>();
            }
        })+
    };
}

stories_if_usable!(
    echo,
    names_of_both_ends,
    send_under_backpressure_comes_back_whole,
    after_eof_sends_still_go,
    reset_is_told_once,
    reset_during_a_send,
    bytes_before_a_close_are_told_first,
    sending_to_a_closed_peer_breaks,
    receiving_stops_and_goes_on,
    stale_ids_are_ignored,
    refused_connect,
    closing_during_a_connect,
    sending_during_a_connect,
    upstream_talks_both_ways,
    accepted_connections_travel,
    dropped_unadopted_is_closed,
    accepting_stops_and_goes_on,
    wakes_are_told_together,
    many_connections_keep_their_streams,
    waits_end_at_their_time,
    crossing_streams_arrive_whole,
);
