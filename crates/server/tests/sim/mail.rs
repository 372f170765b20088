//! News of another worker that come while a worker takes its events.
//!
//! Invariant: a request of a client is judged by all that was told to its worker before.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{Settings, node};
use netio::Address;
use netio::sim::{SimFaults, SimNet};

use crate::crew::{self, Crew, Terms};
use crate::upstream::{Planted, Server};

const SUBSCRIBE: &[u8] = b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n";
const PUBLISH: &[u8] = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1\r\nm\r\n";

// Seen with two workers on a busy machine: PUBLISH answered 0 behind the confirmation of a SUBSCRIBE, since the worker woke with both at once.
#[test]
fn publish_counts_a_listener_of_another_worker_that_came_in_the_same_turn() {
    let net = SimNet::new(1, SimFaults::none());
    let address = |text: &str| Address::Tcp(text.parse().expect("a literal address"));
    let listen = address("127.0.0.1:6380");
    let mut server = Server::new(&net, address("10.0.0.1:6379"), false, Planted::Nothing);
    let settings = |index| {
        let mut settings = Settings { worker: index as u32, workers: 2, ..Settings::default() };
        settings.node.address = node::Address::tcp("10.0.0.1", 6379);
        (settings, Vec::new())
    };
    let terms = Terms::plain(1);
    let meanwhile = Rc::clone(&terms.meanwhile);
    let Crew { mut workers, .. } = crew::hire(&net, &listen, 2, terms, settings);

    let clients: Vec<_> = (0..6).map(|_| net.connect(&listen)).collect();
    crew::pass(&net, &mut workers, 100, || server.pump());
    let mut received = Vec::new();
    for client in &clients {
        let before = workers[0].engine().stats().requests;
        client.send(b"*1\r\n$4\r\nPING\r\n");
        crew::pass(&net, &mut workers, 10, || server.pump());
        assert_eq!(client.received(), b"+PONG\r\n");
        received.push(workers[0].engine().stats().requests > before);
    }
    let of_worker = |first: bool| {
        let zipped = clients.iter().zip(&received);
        zipped.filter(move |(_, is_first)| **is_first == first).map(|(client, _)| client)
    };
    let publisher = of_worker(true).next().expect("a client of the first worker");
    let listeners: Vec<_> = of_worker(false).take(2).collect();
    assert_eq!(listeners.len(), 2, "clients of the second worker");

    // The server sees one listener. Only the second worker knows that there are two.
    listeners[0].send(SUBSCRIBE);
    crew::pass(&net, &mut workers, 100, || server.pump());
    listeners[1].send(SUBSCRIBE);
    publisher.send(PUBLISH);
    net.advance_to(net.now_us() + 1_000);
    let second = Rc::new(RefCell::new(workers.pop().expect("two workers")));
    let other = Rc::clone(&second);
    meanwhile.set(Some(Box::new(move || other.borrow_mut().turn())));
    workers[0].turn();
    assert!(meanwhile.take().is_none(), "the second worker had its turn within that of the first");
    for _ in 0..5 {
        server.pump();
        workers[0].turn();
        second.borrow_mut().turn();
        net.advance_to(net.now_us() + 1_000);
    }
    assert_eq!(String::from_utf8_lossy(&publisher.received()), ":2\r\n");
}
