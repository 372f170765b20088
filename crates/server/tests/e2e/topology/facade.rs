//! respool shown as a cluster of several: who is gone is not told of, whatever took it away.
//!
//! Invariant: as in the module above.

use std::time::{Duration, Instant};

use testkit::ports::Port;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON};

/// Two failures, a second apart, and what a busy machine adds.
const KNOWN: Duration = Duration::from_secs(6);

/// Three respools that announce each other and let nobody in without a password.
struct Three {
    server: RedisServer,
    ends: Vec<Endpoint>,
}

impl Three {
    fn start() -> (Self, Vec<Respool>) {
        let server = RedisServer::start_with(&["--requirepass", "upstreams"]);
        // All three are held before one is used, so that they differ.
        let ports: Vec<Port> = (0..3).map(|_| Port::v4()).collect();
        let ends = ports.into_iter().map(|port| Endpoint::Tcp(port.release())).collect();
        let three = Self { server, ends };
        let respools = (0..3).map(|number| three.respool(number)).collect();
        (three, respools)
    }

    fn respool(&self, number: usize) -> Respool {
        let announce: Vec<String> = self.ends.iter().map(Endpoint::listen_value).collect();
        Respool::to_url(RESPOOL, &format!("redis://:upstreams@{}", self.server.endpoint().tcp()))
            .workers(2)
            .listen_at(&self.ends[number])
            .args(&["--password", "clients", "--facade-cluster", "true"])
            .args(&["--facade-announce", &announce.join(",")])
            .start()
    }
}

/// More clients than workers: each worker must tell the same.
fn clients(respool: &Respool) -> Vec<Conn> {
    let mut conns: Vec<Conn> = (0..4).map(|_| respool.connect()).collect();
    for conn in &mut conns {
        assert_eq!(conn.ask("AUTH clients"), "+OK\r\n");
    }
    conns
}

/// Waits until all of them say that so many have slots, and that these are the same ones.
fn until_shared_by(count: usize, conns: &mut [Conn]) {
    let begun = Instant::now();
    wait::until_true(&format!("{count} with slots"), SOON, || {
        let mut told: Vec<String> =
            conns.iter_mut().map(|conn| conn.ask("CLUSTER SLOTS")).collect();
        told.dedup();
        told.len() == 1 && told[0].starts_with(&format!("*{count}\r\n"))
    });
    assert!(begun.elapsed() < KNOWN, "known after {:?}", begun.elapsed());
}

#[test]
fn a_respool_that_is_gone_gives_its_slots_to_the_others_until_it_is_back() {
    let (three, mut respools) = Three::start();
    let mut conns: Vec<Conn> = clients(&respools[1]);
    conns.extend(clients(&respools[2]));
    until_shared_by(3, &mut conns);

    respools[0].kill();
    until_shared_by(2, &mut conns);
    let nodes = conns[0].ask("CLUSTER NODES");
    let dead = format!(" {}@", three.ends[0].listen_value());
    let line = nodes.lines().find(|line| line.contains(&dead)).expect("it is listed");
    assert!(line.ends_with(" master,fail - 0 0 1 disconnected"), "{nodes}");
    assert_eq!(nodes.matches(" connected ").count(), 2, "{nodes}");
    respools[0] = three.respool(0);
    until_shared_by(3, &mut conns);

    // It accepts and says nothing, as one that hangs.
    respools[0].process().pause();
    until_shared_by(2, &mut conns);
    respools[0].process().resume();
    until_shared_by(3, &mut conns);

    // Asked to end, it is gone for new clients at once.
    respools[0].signal_terminate();
    until_shared_by(2, &mut conns);
}

#[test]
fn one_that_is_left_alone_shows_itself_with_all_slots() {
    let (_three, mut respools) = Three::start();
    let mut conns = clients(&respools[2]);
    until_shared_by(3, &mut conns);
    respools[0].kill();
    respools[1].kill();
    until_shared_by(1, &mut conns);
    let info = conns[0].ask("CLUSTER INFO");
    for line in ["cluster_slots_ok:16384", "cluster_known_nodes:3", "cluster_size:1"] {
        assert!(info.contains(line), "{line} is not in {info}");
    }
    assert_eq!(conns[0].ask("SET k v"), "+OK\r\n");
}
