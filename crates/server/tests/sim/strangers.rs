//! Clients that must log in and do not, on whole workers: floods of them are bounded by the maximum of clients and end in time.
//!
//! Invariant: whatever they send, who has logged in stays, and every place is free again when their time is up.

use std::sync::Arc;

use config::{FileText, load_file};
use engine::stats::Refused;
use engine::{Settings, node};
use netio::Address;
use netio::sim::{SimDriver, SimFaults, SimNet, SimPeer, SimRng};
use server::worker::Worker;

use crate::crew::{self, Crew, Terms};
use crate::upstream::{Planted, Server};

const WORKERS: u32 = 2;
const AUTH_MS: u64 = 500;
const AUTH: &[u8] = b"*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

struct Front {
    net: SimNet,
    listen: Address,
    workers: Vec<Worker<SimDriver>>,
    server: Server,
}

impl Front {
    fn new(seed: u64, faults: SimFaults, clients_max: usize) -> Self {
        let net = SimNet::new(seed, SimFaults::none());
        let listen = Address::Tcp("127.0.0.1:6380".parse().expect("an address"));
        net.set_faults_at(&listen, faults);
        let at = Address::Tcp("10.0.0.1:6379".parse().expect("an address"));
        let server = Server::new(&net, at, false, Planted::Nothing);
        let text = "upstream = \"redis://10.0.0.1\"\npassword = \"pw\"\n";
        let no_files = |_: config::Place<'_>| Err(std::io::ErrorKind::NotFound.into());
        let config = load_file(FileText { name: "r.toml", text }, &no_files);
        let users = config.unwrap_or_else(|wrong| panic!("{wrong}")).users;
        let settings = |index| {
            let mut settings = Settings {
                worker: index as u32,
                workers: WORKERS,
                users: Arc::clone(&users),
                ..Settings::default()
            };
            settings.node.address = node::Address::tcp("10.0.0.1", 6379);
            settings.timeouts.auth_ms = AUTH_MS;
            (settings, Vec::new())
        };
        let terms = Terms { clients_max, ..Terms::plain(seed) };
        let Crew { workers, .. } = crew::hire(&net, &listen, WORKERS, terms, settings);
        Self { net, listen, workers, server }
    }

    fn client(&self, bytes: &[u8]) -> SimPeer {
        let client = self.net.connect(&self.listen);
        client.send(bytes);
        client
    }

    fn pass(&mut self, ms: u64) {
        crew::pass(&self.net, &mut self.workers, ms, || self.server.pump());
    }

    fn clients(&self) -> usize {
        self.workers.iter().map(|worker| worker.engine().client_count()).sum()
    }

    fn refused(&self, why: Refused) -> u64 {
        self.workers.iter().map(|worker| worker.engine().stats().refused[why as usize]).sum()
    }
}

#[test]
fn a_flood_of_strangers_is_bounded_and_ends() {
    for seed in 0..6 {
        let mut rng = SimRng::new(seed);
        let mut front = Front::new(seed, SimFaults::cutting(&mut rng), 60);
        let mut there = front.client(AUTH);
        front.pass(200);
        let strangers: Vec<SimPeer> = (0..200)
            .map(|at| {
                // Nothing, a beginning, what is refused, and a wrong password.
                let wrong = b"*2\r\n$4\r\nAUTH\r\n$2\r\nno\r\n";
                front.client([&b""[..], &AUTH[..9], PING, wrong][at % 4])
            })
            .collect();
        front.pass(AUTH_MS / 2);
        assert_eq!(front.clients(), 60, "seed {seed}");
        assert_eq!(front.refused(Refused::MaxClients), 141, "seed {seed}");
        // One byte more does not give them more time.
        strangers.iter().for_each(|client| client.send(b"*"));
        front.pass(AUTH_MS + 2_000);
        assert_eq!((front.clients(), front.refused(Refused::AuthLate)), (1, 59), "seed {seed}");
        assert!(strangers.iter().all(SimPeer::is_over), "seed {seed}");
        let _ = there.received();
        there.send(PING);
        front.pass(400);
        assert!(there.received().ends_with(b"+PONG\r\n"), "seed {seed}");
        there = front.client(&[AUTH, PING].concat());
        front.pass(400);
        assert_eq!(there.received(), b"+OK\r\n+PONG\r\n", "seed {seed}");
    }
}
