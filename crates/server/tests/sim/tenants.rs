//! Two tenants behind one listener, and clients that go from one to the other in the middle of pipelines, while bytes are cut, connections break and tenants come
//! and go.
//!
//! Each tenant has a server that says whose it is (`GET who`), and a counter for each client. Judged for each client: every request gets one reply, in its order,
//! by the server of the tenant that it belongs to at this point of its stream; and what it counts at each server is what it has sent there, once.
//!
//! Invariant: after all clients are gone no seat is taken, and no engine has anything of theirs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::acl::Users;
use engine::fleet::{Questioner, ReplyTo};
use engine::tenancy::{Members, Tenancy, TenantId};
use engine::{Settings, node};
use netio::sim::{SimDriver, SimFaults, SimNet, SimPeer, SimRng, SimSocket};
use netio::{Address, Tuning};
use server::worker::Worker;
use server::worker::entrance::Seats;
use server::worker::house::TenantSettings;
use server::worker::mailbox::{Change, Message, Post};
use server::worker::tls::TlsSettings;
use testkit::frames::{Replies, request};

use crate::crew::{self, Terms};
use crate::upstream::{Planted, Server};

const WORKERS: u32 = 2;
const RED: usize = 0;
const BLUE: usize = 1;
const NAMES: [&str; 2] = ["red", "blue"];

fn address(text: &str) -> Address {
    Address::Tcp(text.parse().expect("a literal address"))
}

/// Two workers in front of two servers.
struct Town {
    net: SimNet,
    listen: Address,
    workers: Vec<Worker<SimDriver>>,
    posts: Vec<Post<SimSocket>>,
    servers: [Server; 2],
    seats: Seats,
    users: Arc<Users>,
    /// The number of the tenant `blue`, another one each time that it comes.
    blue: u32,
    ticket: u64,
}

impl Town {
    fn new(seed: u64, faults: SimFaults) -> Self {
        let net = SimNet::new(seed, SimFaults::none());
        let listen = address("127.0.0.1:6380");
        net.set_faults_at(&listen, faults);
        let server = |at: &str| Server::new(&net, address(at), false, Planted::Nothing);
        let servers = [server("10.0.0.1:6379"), server("10.0.0.2:6379")];
        let mut users = Users::default();
        users.set(b"ann", &[b"on", b">pw", b"~*", b"&*", b"+@all"]).expect("rules");
        users.set(b"bob", &[b"on", b">pw", b"~*", b"&*", b"+@all"]).expect("rules");
        let mut town = Self {
            net,
            listen,
            workers: Vec::new(),
            posts: Vec::new(),
            servers,
            seats: Seats { max: usize::MAX, taken: Arc::new(AtomicUsize::new(0)) },
            users: Arc::new(users),
            blue: 1,
            ticket: 0,
        };
        let crew = crew::hire(&town.net, &town.listen, WORKERS, Terms::plain(seed), |index| {
            town.settings(index as u32, true)
        });
        (town.workers, town.posts) = (crew.workers, crew.posts);
        town.pass(50);
        // Each server says whose it is.
        for (at, name) in NAMES.into_iter().enumerate() {
            let user = if at == BLUE { "bob" } else { "ann" };
            let client = town.net.connect(&town.listen);
            client.send(&request(&["AUTH", user, "pw"]));
            client.send(&request(&["SET", "who", name]));
            town.pass(2_000);
            assert_eq!(client.received(), b"+OK\r\n+OK\r\n", "seed {seed}: {name}");
            client.close();
        }
        town
    }

    fn settings(&self, worker: u32, has_blue: bool) -> (Settings, Vec<TenantSettings>) {
        let blue = TenantId(self.blue);
        let mut users = Vec::new();
        let mut names = Vec::new();
        if has_blue {
            users.push((b"bob".to_vec(), blue));
            names.push((b"blue-*".to_vec(), blue));
        }
        let members = Arc::new(Members::new(users, names));
        let of = |own: TenantId, name: &str, host: &str| {
            let mut settings = Settings {
                worker,
                workers: WORKERS,
                users: Arc::clone(&self.users),
                tenancy: Some(Tenancy { own, name: name.into(), members: Arc::clone(&members) }),
                ..Settings::default()
            };
            settings.node.address = node::Address::tcp(host, 6379);
            settings
        };
        let tenant =
            || TenantSettings { settings: of(blue, "blue", "10.0.0.2"), seats: self.seats.clone() };
        let tenants = has_blue.then(tenant).into_iter().collect();
        (of(TenantId::DEFAULT, "default", "10.0.0.1"), tenants)
    }

    /// The tenant goes, or comes back.
    fn change(&mut self, has_blue: bool) {
        self.ticket += 1;
        self.blue += u32::from(has_blue);
        let to = ReplyTo {
            who: Questioner::Control,
            tenant: TenantId::DEFAULT,
            login: None,
            ticket: self.ticket,
        };
        for (worker, post) in self.posts.iter().enumerate() {
            let (settings, tenants) = self.settings(worker as u32, has_blue);
            let terms = Terms::plain(0);
            let change = Change {
                settings,
                tenants,
                leave_ms: 200,
                gather: terms.gather,
                clients_max: terms.clients_max,
                entrances: terms.entrances,
                listeners: Vec::new(),
                tuning: Tuning::default(),
                tls: TlsSettings::default(),
            };
            post.send(Message::Configure(to, Box::new(change)));
        }
    }

    /// Lets time pass, everybody doing what can be done.
    fn pass(&mut self, ms: u64) {
        let Self { net, workers, servers, .. } = self;
        crew::pass(net, workers, ms, || servers.iter_mut().for_each(Server::pump));
    }

    fn clients(&self) -> usize {
        self.workers.iter().map(|worker| worker.house().client_count()).sum()
    }

    fn count(&self, tenant: usize, key: &str) -> u64 {
        let text = self.servers[tenant].model().text(0, key.as_bytes());
        text.map_or(0, |text| String::from_utf8_lossy(text).parse().expect("a number"))
    }
}

/// A client with all that it will say, and what must come of it.
struct Script {
    bytes: Vec<Vec<u8>>,
    replies: Vec<String>,
    /// What it counts at each server.
    counts: [u64; 2],
    /// How often it goes over.
    moves: usize,
}

fn script(rng: &mut SimRng, key: &str) -> Script {
    let mut script = Script { bytes: Vec::new(), replies: Vec::new(), counts: [0; 2], moves: 0 };
    let (mut user, mut named) = ("default", false);
    let home = |user: &str, named: bool| if user == "bob" || named { BLUE } else { RED };
    for _ in 0..rng.between(5, 40) {
        let at = home(user, named);
        let (words, reply): (Vec<&str>, String) = match rng.between(0, 11) {
            0 => {
                user = "bob";
                (vec!["AUTH", "bob", "pw"], "+OK\r\n".to_owned())
            }
            1 => {
                user = "ann";
                (vec!["AUTH", "ann", "pw"], "+OK\r\n".to_owned())
            }
            2 => {
                let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
                (vec!["AUTH", "bob", "wrong"], wrong.to_owned())
            }
            3 => {
                named = true;
                (vec!["CLIENT", "SETNAME", "blue-1"], "+OK\r\n".to_owned())
            }
            4 => {
                named = false;
                (vec!["CLIENT", "SETNAME", "plain"], "+OK\r\n".to_owned())
            }
            5 => {
                (user, named) = ("default", false);
                (vec!["RESET"], "+RESET\r\n".to_owned())
            }
            6..=8 => {
                script.counts[at] += 1;
                (vec!["INCR", key], format!(":{}\r\n", script.counts[at]))
            }
            9 => (vec!["PING"], "+PONG\r\n".to_owned()),
            _ => {
                let name = NAMES[at];
                (vec!["GET", "who"], format!("${}\r\n{name}\r\n", name.len()))
            }
        };
        script.moves += usize::from(home(user, named) != at);
        script.bytes.push(request(&words));
        script.replies.push(reply);
    }
    script
}

/// The replies that came, each by itself.
fn replies(client: &SimPeer, so_far: &mut Vec<u8>) -> Vec<String> {
    so_far.extend(client.received());
    let mut scanner = Replies::default();
    scanner.push(so_far);
    let mut list = Vec::new();
    while let Ok(Some(reply)) = scanner.pop() {
        list.push(String::from_utf8_lossy(&reply).into_owned());
    }
    list
}

#[test]
fn each_reply_is_of_the_tenant_that_its_request_belonged_to() {
    let mut moves = 0;
    for seed in 0..60 {
        let mut rng = SimRng::new(seed);
        let faults = SimFaults::cutting(&mut rng);
        let mut town = Town::new(seed, faults);
        let mut clients = Vec::new();
        for number in 0..8 {
            let key = format!("n{number}");
            let script = script(&mut rng, &key);
            let client = town.net.connect(&town.listen);
            clients.push((client, script, key, Vec::new()));
        }
        // In packets of some requests, all clients at once.
        let mut next = 0;
        while clients.iter().any(|(_, script, ..)| next < script.bytes.len()) {
            let count = rng.between(1, 12) as usize;
            for (client, script, ..) in &clients {
                let end = (next + count).min(script.bytes.len());
                if next < end {
                    client.send(&script.bytes[next..end].concat());
                }
            }
            next += count;
            town.pass(rng.between(0, 3));
        }
        town.pass(20_000);
        for (client, script, key, so_far) in &mut clients {
            let got = replies(client, so_far);
            assert_eq!(got, script.replies, "seed {seed}: client {key}");
            for (tenant, count) in script.counts.into_iter().enumerate() {
                assert_eq!(town.count(tenant, key), count, "seed {seed}: {key} {}", NAMES[tenant]);
            }
            moves += script.moves;
            client.close();
        }
        town.pass(2_000);
        assert_eq!(
            (town.clients(), town.seats.taken.load(Ordering::Relaxed)),
            (0, 0),
            "seed {seed}"
        );
    }
    assert!(moves > 500, "the seeds do not come to what they are for: {moves}");
}

/// What breaks: connections of clients, servers, the tenant itself. Then replies may be missing at the end, or be errors; never another one's.
#[test]
fn whatever_breaks_nobody_gets_the_reply_of_another_tenant() {
    let (mut checked, mut closed) = (0, 0);
    for seed in 0..60 {
        let mut rng = SimRng::new(seed);
        let faults = SimFaults::breaking(&mut rng);
        let mut town = Town::new(seed, SimFaults::none());
        town.net.set_faults_at(&town.listen, faults);
        let mut has_blue = true;
        for round in 0..4 {
            let mut clients = Vec::new();
            for number in 0..8 {
                let user = if number % 2 == 0 { "ann" } else { "bob" };
                let client = town.net.connect(&town.listen);
                client.send(&request(&["AUTH", user, "pw"]));
                for at in 0..rng.between(1, 20) {
                    client.send(&request(&["GET", "who"]));
                    client.send(&request(&["ECHO", &format!("{number}-{at}")]));
                }
                clients.push((client, number));
            }
            town.pass(rng.between(0, 5));
            match rng.between(0, 3) {
                0 => {
                    has_blue = !has_blue;
                    town.change(has_blue);
                }
                1 => drop(town.net.reset_all_to(&address("10.0.0.2:6379"))),
                _ => clients[rng.between(0, 7) as usize].0.reset(),
            }
            town.pass(rng.between(0, 300));
            for (client, number) in &clients {
                let got = replies(client, &mut Vec::new());
                let red = format!("${}\r\nred\r\n", 3);
                for (at, reply) in got.iter().enumerate().skip(1) {
                    let is_error = reply.starts_with("-ERR respool: ");
                    match at % 2 {
                        0 => assert_eq!(
                            reply.lines().nth(1),
                            Some(&*format!("{number}-{}", at / 2 - 1)),
                            "seed {seed}, round {round}: {got:?}"
                        ),
                        _ if number % 2 == 0 => {
                            assert!(
                                is_error || *reply == red,
                                "seed {seed}, round {round}: {got:?}"
                            );
                        }
                        // While there is no such tenant, its user is everybody's.
                        _ => assert!(
                            is_error || reply.contains("blue") || *reply == red,
                            "seed {seed}, round {round}: {got:?}"
                        ),
                    }
                }
                let of = |name: &str| got.iter().any(|reply| reply.contains(name));
                assert!(!(of("\r\nred") && of("\r\nblue")), "seed {seed}: {got:?}");
                checked += got.len();
                closed += usize::from(client.is_over());
                client.close();
            }
        }
        town.pass(5_000);
        assert_eq!(
            (town.clients(), town.seats.taken.load(Ordering::Relaxed)),
            (0, 0),
            "seed {seed}"
        );
    }
    assert!(
        checked > 5_000 && closed > 50,
        "the seeds do not come to what they are for: {checked} {closed}"
    );
}

/// A bound on the clients of a tenant holds over all workers.
#[test]
fn no_more_clients_than_a_tenant_may_have() {
    let mut town = Town::new(3, SimFaults::none());
    town.seats.max = 5;
    town.change(true);
    town.pass(10);
    let clients: Vec<SimPeer> = (0..20)
        .map(|_| {
            let client = town.net.connect(&town.listen);
            client.send(&[request(&["AUTH", "bob", "pw"]), request(&["GET", "who"])].concat());
            client
        })
        .collect();
    town.pass(1_000);
    let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for client in &clients {
        *counts.entry(client.received()).or_default() += 1;
    }
    let full = b"-ERR max number of clients of the tenant reached\r\n$3\r\nred\r\n".to_vec();
    assert_eq!(counts, BTreeMap::from([(b"+OK\r\n$4\r\nblue\r\n".to_vec(), 5), (full, 15)]));
    assert_eq!(town.seats.taken.load(Ordering::Relaxed), 5);
    clients.iter().for_each(SimPeer::close);
    town.pass(1_000);
    assert_eq!((town.clients(), town.seats.taken.load(Ordering::Relaxed)), (0, 0));
}
