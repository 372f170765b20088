//! Users of a server whose keys have nothing in common, and clients that become the one and the other in the middle of pipelines, while bytes are cut, connections
//! break and a user is removed and comes back.
//!
//! Judged for each client: every request gets one reply, in its order, with the rights of the user that it is at this point of its stream; and what it counts is what it
//! has sent as that user, once. Where connections break replies may be errors, or missing at the end; but nobody ever counts with another one's rights.
//!
//! Invariant: after all clients are gone, and their time is over, no engine of a login is left.

use std::sync::Arc;

use engine::acl::Users;
use engine::{Settings, node};
use netio::Address;
use netio::sim::{SimDriver, SimFaults, SimNet, SimPeer, SimRng};
use server::worker::Worker;
use testkit::frames::{Replies, request};
use testkit::model::Model;

use crate::crew::{self, Terms};
use crate::upstream::{Planted, Server};

const WORKERS: u32 = 2;
const NAMES: [&str; 2] = ["ann", "bob"];
const SERVER: &str = "10.0.0.1:6379";
const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";

fn address(text: &str) -> Address {
    Address::Tcp(text.parse().expect("a literal address"))
}

/// Two workers in front of a server with two users.
struct Town {
    net: SimNet,
    listen: Address,
    workers: Vec<Worker<SimDriver>>,
    server: Server,
}

impl Town {
    fn new(seed: u64, faults: SimFaults) -> Self {
        let net = SimNet::new(seed, SimFaults::none());
        let listen = address("127.0.0.1:6380");
        net.set_faults_at(&listen, faults);
        let mut server = Server::new(&net, address(SERVER), false, Planted::Nothing);
        server.swap_model(&mut model(&NAMES));
        let mut users = Users::default();
        users.set(b"default", &[b"off"]).expect("rules");
        let users = Arc::new(users);
        let settings = |index: usize| {
            let mut settings = Settings {
                worker: index as u32,
                workers: WORKERS,
                users: Arc::clone(&users),
                pass_through: true,
                ..Settings::default()
            };
            settings.node.address = node::Address::tcp("10.0.0.1", 6379);
            (settings, Vec::new())
        };
        let crew = crew::hire(&net, &listen, WORKERS, Terms::plain(seed), settings);
        let mut town = Self { net, listen, workers: crew.workers, server };
        town.pass(50);
        town
    }

    /// Lets time pass, everybody doing what can be done.
    fn pass(&mut self, ms: u64) {
        crew::pass(&self.net, &mut self.workers, ms, || self.server.pump());
    }

    fn clients(&self) -> usize {
        self.workers.iter().map(|worker| worker.house().client_count()).sum()
    }

    fn engines(&self) -> usize {
        self.workers.iter().map(|worker| worker.house().engines().count()).sum()
    }

    fn count(&self, key: &str) -> u64 {
        let text = self.server.model().text(0, key.as_bytes());
        text.map_or(0, |text| String::from_utf8_lossy(text).parse().expect("a number"))
    }
}

/// A server with these users, whose passwords are `pw-` and their names.
fn model(names: &[&str]) -> Model {
    let mut model = Model::new();
    for name in names {
        model.add_user(name.as_bytes(), format!("pw-{name}").as_bytes());
    }
    model
}

/// What a client says, and what must come of it.
struct Script {
    bytes: Vec<Vec<u8>>,
    replies: Vec<String>,
    /// What it counts as each user.
    counts: [u64; 2],
    moves: usize,
}

fn script(rng: &mut SimRng, number: usize) -> Script {
    let mut script = Script { bytes: Vec::new(), replies: Vec::new(), counts: [0; 2], moves: 0 };
    let mut user: Option<usize> = None;
    for _ in 0..rng.between(5, 40) {
        let at = rng.between(0, 1) as usize;
        let (key, password) = (format!("{}:n{number}", NAMES[at]), format!("pw-{}", NAMES[at]));
        let (words, reply): (Vec<&str>, String) = match rng.between(0, 9) {
            0 | 1 => {
                script.moves += usize::from(user != Some(at));
                user = Some(at);
                (vec!["AUTH", NAMES[at], &password], "+OK\r\n".to_owned())
            }
            2 => {
                let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
                (vec!["AUTH", NAMES[at], NAMES[1 - at]], wrong.to_owned())
            }
            3 => {
                user = None;
                (vec!["RESET"], "+RESET\r\n".to_owned())
            }
            4 if user.is_some() => (vec!["PING"], "+PONG\r\n".to_owned()),
            4 => (vec!["PING"], NOAUTH.to_owned()),
            _ => {
                let reply = match user {
                    None => NOAUTH.to_owned(),
                    Some(own) if own == at => {
                        script.counts[at] += 1;
                        format!(":{}\r\n", script.counts[at])
                    }
                    Some(_) => Model::NOPERM.to_owned(),
                };
                (vec!["INCR", &key], reply)
            }
        };
        script.bytes.push(request(&words));
        script.replies.push(reply);
    }
    script
}

/// The replies that came, each by itself.
fn replies(client: &SimPeer) -> Vec<String> {
    let mut scanner = Replies::default();
    scanner.push(&client.received());
    let mut list = Vec::new();
    while let Ok(Some(reply)) = scanner.pop() {
        list.push(String::from_utf8_lossy(&reply).into_owned());
    }
    list
}

/// All of them gone, and the logins with them.
fn ends(town: &mut Town, seed: u64) {
    town.pass(30_000);
    assert_eq!(town.clients(), 0, "seed {seed}");
    assert_eq!(town.engines(), WORKERS as usize, "seed {seed}: logins that nobody uses");
}

#[test]
fn each_request_is_done_with_the_rights_of_the_user_that_it_was_said_as() {
    let mut moves = 0;
    for seed in 0..60 {
        let mut rng = SimRng::new(seed);
        let faults = SimFaults::cutting(&mut rng);
        let mut town = Town::new(seed, faults);
        let mut clients = Vec::new();
        for number in 0..8 {
            let script = script(&mut rng, number);
            clients.push((town.net.connect(&town.listen), script));
        }
        let mut next = 0;
        while clients.iter().any(|(_, script)| next < script.bytes.len()) {
            let count = rng.between(1, 12) as usize;
            for (client, script) in &clients {
                let end = (next + count).min(script.bytes.len());
                if next < end {
                    client.send(&script.bytes[next..end].concat());
                }
            }
            next += count;
            town.pass(rng.between(0, 3));
        }
        town.pass(20_000);
        for (number, (client, script)) in clients.iter().enumerate() {
            assert_eq!(replies(client), script.replies, "seed {seed}: client {number}");
            for (at, count) in script.counts.into_iter().enumerate() {
                let key = format!("{}:n{number}", NAMES[at]);
                assert_eq!(town.count(&key), count, "seed {seed}: {key}");
            }
            moves += script.moves;
            client.close();
        }
        ends(&mut town, seed);
    }
    assert!(moves > 500, "the seeds do not come to what they are for: {moves}");
}

/// What breaks: connections on both sides, and a user that is removed and comes back.
#[test]
fn whatever_breaks_nobody_has_the_rights_of_another_user() {
    let (mut checked, mut refused, mut closed) = (0, 0, 0);
    for seed in 0..if super::is_long() { 240 } else { 24 } {
        let mut rng = SimRng::new(seed);
        let faults = SimFaults::breaking(&mut rng);
        let mut town = Town::new(seed, SimFaults::none());
        town.net.set_faults_at(&town.listen, faults);
        let mut has_bob = true;
        for round in 0..4 {
            let mut clients = Vec::new();
            for number in 0..8 {
                let at = number % 2;
                let client = town.net.connect(&town.listen);
                client.send(&request(&["AUTH", NAMES[at], &format!("pw-{}", NAMES[at])]));
                for _ in 0..rng.between(1, 20) {
                    client.send(&request(&["GET", &format!("{}:mine", NAMES[at])]));
                    client.send(&request(&["SET", &format!("{}:stolen", NAMES[1 - at]), "x"]));
                }
                clients.push((client, at));
            }
            town.pass(rng.between(0, 5));
            match rng.between(0, 2) {
                0 => {
                    has_bob = !has_bob;
                    // As a server does that removes a user: its connections go, and with them here all.
                    town.server.swap_model(&mut model(&NAMES[..1 + usize::from(has_bob)]));
                    town.net.reset_all_to(&address(SERVER));
                }
                1 => drop(town.net.reset_all_to(&address(SERVER))),
                _ => clients[rng.between(0, 7) as usize].0.reset(),
            }
            town.pass(rng.between(0, 3_000));
            for (client, at) in &clients {
                let got = replies(client);
                for (place, reply) in got.iter().enumerate() {
                    let is_error = reply.starts_with("-ERR respool: ");
                    let expected = match place {
                        0 => ["+OK\r\n", "-WRONGPASS"],
                        _ if place % 2 == 1 => ["$-1\r\n", NOAUTH],
                        _ => [Model::NOPERM, NOAUTH],
                    };
                    let is_expected = expected.iter().any(|text| reply.starts_with(text));
                    assert!(is_error || is_expected, "seed {seed}, round {round}: {got:?}");
                    refused += usize::from(*reply == Model::NOPERM);
                }
                checked += got.len();
                closed += usize::from(client.is_over());
                for name in NAMES {
                    assert_eq!(
                        town.server.model().text(0, format!("{name}:stolen").as_bytes()),
                        None
                    );
                }
                let _ = at;
                client.close();
            }
        }
        ends(&mut town, seed);
    }
    assert!(
        checked > 3_000 && refused > 500 && closed > 50,
        "the seeds do not come to what they are for: {checked} {refused} {closed}"
    );
}
