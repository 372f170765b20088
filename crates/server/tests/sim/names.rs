//! A server behind a name, which comes to mean another server while the old one still answers.
//!
//! Here the test is the resolver: it takes the worker's questions and answers them with what the name means at that moment.
//!
//! Invariant: the client is one connection from begin to end, and no request of it fails.

use std::sync::mpsc::Receiver;

use engine::Settings;
use engine::node;
use netio::Address;
use netio::sim::{SimDriver, SimFaults, SimNet, SimPeer, SimSocket};
use server::worker::Worker;
use server::worker::mailbox::{Message, Post, Resolve};

use crate::crew::{self, Crew, Terms};
use crate::upstream::{Planted, Server};

const RESOLVE_MS: u64 = 1_000;

/// A worker before two servers, of which a name means one.
struct Moving {
    net: SimNet,
    worker: Worker<SimDriver>,
    post: Post<SimSocket>,
    questions: Receiver<Resolve>,
    /// What the name means; `None`: the resolver is silent.
    meaning: Option<Vec<Address>>,
    servers: [Server; 2],
    client: SimPeer,
    asked: usize,
}

fn address(text: &str) -> Address {
    Address::Tcp(text.parse().expect("a literal address"))
}

fn at(server: usize) -> Address {
    address(["10.0.0.1:6379", "10.0.0.2:6379"][server])
}

impl Moving {
    fn new(resolve_ms: u64) -> Self {
        let net = SimNet::new(7, SimFaults::none());
        let listen = address("127.0.0.1:6380");
        let servers = [0, 1].map(|server| Server::new(&net, at(server), false, Planted::Nothing));
        let mut settings = Settings::default();
        settings.node.address = node::Address::tcp("db.example", 6379);
        settings.timeouts.resolve_ms = resolve_ms;
        let settings = |_| (settings.clone(), Vec::new());
        let Crew { mut workers, mut posts, questions, .. } =
            crew::hire(&net, &listen, 1, Terms::plain(7), settings);
        let (worker, post) = (workers.remove(0), posts.remove(0));
        let client = net.connect(&listen);
        let meaning = Some(vec![at(0)]);
        Self { net, worker, post, questions, meaning, servers, client, asked: 0 }
    }

    /// Lets time pass, everybody doing what can be done.
    fn pass(&mut self, ms: u64) {
        let until_us = self.net.now_us() + ms * 1_000;
        loop {
            for _ in 0..4 {
                self.worker.turn();
                self.servers.iter_mut().for_each(Server::pump);
                self.resolve();
            }
            let deadline = self.worker.deadline().map(|at| at.0);
            let next_us = self.net.next_wakeup().into_iter().chain(deadline).min();
            let next_us = next_us.unwrap_or(until_us).clamp(self.net.now_us(), until_us);
            if next_us == until_us && self.net.now_us() == until_us {
                return;
            }
            self.net.advance_to(next_us.max(self.net.now_us() + 1).min(until_us));
        }
    }

    fn resolve(&mut self) {
        while let Ok(Resolve { asker, name }) = self.questions.try_recv() {
            self.asked += 1;
            assert_eq!((name.host.as_str(), name.port), ("db.example", 6379));
            let first = |all: &Vec<Address>| all[0].clone();
            self.post.send(match asker.upstream {
                Some(id) => Message::Resolved(
                    id,
                    self.meaning.as_ref().map(first).ok_or_else(|| "no answer".to_owned()),
                ),
                None => Message::Renewed(name, self.meaning.clone()),
            });
        }
    }

    /// One INCR; which server counted it, and to what.
    fn count(&mut self) -> (usize, String) {
        let before = self.servers.each_ref().map(|server| server.model().executed());
        self.client.send(b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n");
        self.pass(5);
        let reply = String::from_utf8(self.client.received()).expect("a number");
        let after = self.servers.each_ref().map(|server| server.model().executed());
        let counted = (0..2).find(|server| after[*server] > before[*server]);
        (counted.unwrap_or_else(|| panic!("nobody got it; the client got {reply:?}")), reply)
    }
}

#[test]
fn requests_follow_a_name_to_where_it_leads_now() {
    let mut world = Moving::new(RESOLVE_MS);
    world.pass(10);
    assert_eq!(world.count(), (0, ":1\r\n".to_owned()));
    world.pass(5_000);
    assert_eq!(world.count(), (0, ":2\r\n".to_owned()));
    assert!((4..=8).contains(&world.asked), "asked {} times in five seconds", world.asked);
    world.meaning = Some(vec![at(1)]);
    world.pass(RESOLVE_MS + 10);
    assert_eq!(world.count(), (1, ":1\r\n".to_owned()));
    assert_eq!(world.servers[0].open_conns(), 0, "the connection to the old one is kept");
    assert!(!world.client.is_over());
}

#[test]
fn one_address_more_moves_nobody() {
    let mut world = Moving::new(RESOLVE_MS);
    world.pass(10);
    assert_eq!(world.count().0, 0);
    world.meaning = Some(vec![at(1), at(0)]);
    world.pass(5_000);
    assert_eq!(world.count(), (0, ":2\r\n".to_owned()));
}

#[test]
fn a_resolver_that_fails_changes_nothing() {
    let mut world = Moving::new(RESOLVE_MS);
    world.pass(10);
    assert_eq!(world.count().0, 0);
    world.meaning = None;
    world.pass(10_000);
    assert_eq!(world.count(), (0, ":2\r\n".to_owned()));
}

#[test]
fn where_it_is_off_a_connection_lasts_as_long_as_its_server() {
    let mut world = Moving::new(0);
    world.pass(10);
    assert_eq!(world.count().0, 0);
    world.meaning = Some(vec![at(1)]);
    world.pass(10_000);
    assert_eq!(world.count(), (0, ":2\r\n".to_owned()));
    // The next connect finds the new one, as it always does.
    world.servers[0].close();
    world.pass(100);
    assert_eq!(world.count(), (1, ":1\r\n".to_owned()));
}
