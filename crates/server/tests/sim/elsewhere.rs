//! Reads from other deployments on the simulated network: each server has the same keys with values of its own, and while some are in trouble the others answer.
//!
//! ```text
//!   clients ─▶ two workers ─┬▶ the upstream      k:1 = up:1
//!                           ├▶ a target          k:1 = one:1       GET k:1 is up:1, one:1 or other:1, and no other key's
//!                           └▶ another one       k:1 = other:1     SET own:… is the upstream's alone
//! ```
//! Either the upstream is sound and both targets are in trouble, or the upstream is in trouble and one target is sound; so somebody can always answer.
//!
//! Invariant: each request has one reply, in its order, by a value that one of the three has for that very key; and in the end nothing is left over.

use std::sync::Arc;

use engine::elsewhere::Order;
use engine::policy::own::{Failure, Judge, Judgement, Own, Program, Verdict, View, rule_about};
use engine::policy::{Policies, Rules};
use engine::settings::{Node, Pool, ReadTargetSettings, ReadsElsewhere};
use engine::{Settings, node};
use netio::Address;
use netio::sim::{SimDriver, SimFaults, SimNet, SimPeer, SimRng};
use resp::{ReplyScanner, Scan, encode};
use server::worker::Worker;
use testkit::Model;

use crate::crew::{self, Terms};
use crate::plan::{Trouble, pick};
use crate::upstream::{Planted, Server};

const WORKERS: u32 = 2;
const KEYS: u64 = 9;
const NAMES: [&str; 3] = ["up", "one", "other"];

/// What a client waits for.
enum Wanted {
    Ok,
    /// A map, or why there is none.
    Hello,
    /// The value of this key.
    Value(u64),
    /// The values of these.
    Values([u64; 2]),
}

struct Client {
    peer: SimPeer,
    wanted: std::collections::VecDeque<Wanted>,
    input: Vec<u8>,
    rounds: u32,
}

/// A program that says by chance who is asked.
#[derive(Debug)]
struct ByChance {
    /// Also that it is the upstream alone, which is not in trouble then.
    says_upstream: bool,
}

impl Program for ByChance {
    fn judge(&self) -> Result<Box<dyn Judge>, Failure> {
        Ok(Box::new(Self { ..*self }))
    }
}

impl Judge for ByChance {
    fn request(&mut self, view: &View<'_>) -> Judgement {
        let verdict = match view.random >> 32 & 3 {
            0 => Verdict::Pass,
            1 if self.says_upstream => Verdict::Upstream,
            at => Verdict::Read(NAMES[1 + (at & 1) as usize].as_bytes().to_vec()),
        };
        Judgement { verdict: Ok(verdict), fuel: 1, line: None }
    }
}

/// The same as a policy about reads.
fn by_chance(says_upstream: bool) -> Option<Arc<Policies>> {
    let file = "chance.wasm".to_owned();
    let own = Own { file, fuel: 1_000, memory_max_bytes: 1 << 16, passes_on_failure: false };
    let rules = Rules { own: vec![rule_about(&["get", "mget"], own)], ..Rules::default() };
    let program: Arc<dyn Program> = Arc::new(ByChance { says_upstream });
    Some(Arc::new(Policies::new(rules)?.with_programs(vec![Some(program)])))
}

struct World {
    net: SimNet,
    workers: Vec<Worker<SimDriver>>,
    /// The upstream and the targets.
    servers: Vec<Server>,
    /// Which of them are never in trouble.
    sound: usize,
    clients: Vec<Client>,
    rng: SimRng,
    only_reads: bool,
    /// Replies by who gave them.
    seen: [u64; 3],
}

fn at(number: u64) -> Address {
    Address::Tcp(([10, 0, 0, 1 + number as u8], 6379).into())
}

/// A server's data before anybody came.
fn values(name: &str) -> Model {
    let mut model = Model::new();
    let mut conn = model.conn();
    let mut out = Vec::new();
    for key in 0..KEYS {
        let mut set = Vec::new();
        let value = format!("{name}:{key}");
        encode::request(&mut set, &[b"SET", format!("k:{key}").as_bytes(), value.as_bytes()]);
        let _ = model.feed(&mut conn, &set, &mut out);
    }
    model.leave(&conn);
    model
}

fn options(rng: &mut SimRng, order: Order) -> ReadsElsewhere {
    let target = |number: u64| {
        let address = node::Address::tcp(format!("10.0.0.{}", 1 + number), 6379);
        let node = Node { address, ..Settings::default().node };
        let name = NAMES[number as usize].to_owned();
        ReadTargetSettings { name, node, pool: Pool::Standalone, outer_db: 0 }
    };
    // What the upstream is asked first must have somebody behind it, as it may be in trouble for good.
    let main = order == Order::Main;
    ReadsElsewhere {
        targets: vec![target(1), target(2)],
        order,
        percent: if main { 100 } else { pick(rng, &[100, 100, 50]) as u8 },
        hot_per_s: if main { 0 } else { pick(rng, &[0, 0, 0, 5]) },
        timeout_ms: if main { 500 } else { pick(rng, &[20, 100, 500]) },
        hedge_after_ms: if main { pick(rng, &[0, 5]) } else { 0 },
        hedge_percent: 50,
        inflight_max_bytes: if main { 4 << 20 } else { pick(rng, &[100, 4 << 20]) as usize },
        ..ReadsElsewhere::default()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        Self::with(seed, false)
    }

    /// `by_program`: a program says who is asked.
    fn with(seed: u64, by_program: bool) -> Self {
        let mut rng = SimRng::new(seed);
        let order = Order::ALL[(seed % 3) as usize];
        let only_reads = order == Order::Main;
        let net = SimNet::new(seed, SimFaults::none());
        let listen = Address::Tcp(([127, 0, 0, 1], 6380).into());
        net.set_faults_at(&listen, SimFaults::cutting(&mut rng));
        let sound = if only_reads { 1 + (seed / 3 % 2) as usize } else { 0 };
        let servers: Vec<Server> = (0..3)
            .map(|number| {
                let faults = match number == sound {
                    true => SimFaults::cutting(&mut rng),
                    false => SimFaults::breaking(&mut rng),
                };
                net.set_faults_at(&at(number as u64), faults);
                let mut server = Server::new(&net, at(number as u64), false, Planted::Nothing);
                server.swap_model(&mut values(NAMES[number]));
                server
            })
            .collect();
        let mut settings = Settings { workers: WORKERS, ..Settings::default() };
        settings.node.address = node::Address::tcp("10.0.0.1", 6379);
        settings.limits.shared_conns = pick(&mut rng, &[1, 1, 3]) as u16;
        settings.timeouts.request_ms = 1_000;
        settings.elsewhere = options(&mut rng, order);
        settings.policies = if by_program { by_chance(!only_reads) } else { None };
        let workers = workers(&net, &listen, seed, &settings);
        let clients = (0..6)
            .map(|number| {
                let peer = net.connect(&listen);
                let mut wanted = std::collections::VecDeque::new();
                if number % 2 == 1 {
                    peer.send(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
                    wanted.push_back(Wanted::Hello);
                }
                Client { peer, wanted, input: Vec::new(), rounds: 20 }
            })
            .collect();
        Self { net, workers, servers, sound, clients, rng, only_reads, seen: [0; 3] }
    }

    /// Something happens to one of those that are not sound.
    fn suffer(&mut self) {
        let kinds = [
            Trouble::Dead,
            Trouble::Frozen,
            Trouble::Mute,
            Trouble::Full,
            Trouble::HalfReplies,
            Trouble::Reset,
            Trouble::Well,
            Trouble::Well,
        ];
        let kind = kinds[self.rng.between(0, kinds.len() as u64 - 1) as usize];
        let number = self.rng.between(0, 2) as usize;
        if number != self.sound {
            self.servers[number].host().suffer(kind);
        }
    }

    /// A client with nothing open says some more.
    fn speak(&mut self, number: usize) {
        let Self { clients, rng, only_reads, .. } = self;
        let client = &mut clients[number];
        if client.rounds == 0 || !client.wanted.is_empty() {
            return;
        }
        client.rounds -= 1;
        let mut bytes = Vec::new();
        for _ in 0..rng.between(1, 8) {
            let [one, other] = [rng.between(0, KEYS - 1), rng.between(0, KEYS - 1)];
            let (key, more) = (format!("k:{one}"), format!("k:{other}"));
            match rng.between(0, 5) {
                0 | 1 if !*only_reads => {
                    let own = format!("own:{number}");
                    encode::request(&mut bytes, &[b"SET", own.as_bytes(), b"1"]);
                    client.wanted.push_back(Wanted::Ok);
                }
                2 => {
                    encode::request(&mut bytes, &[b"MGET", key.as_bytes(), more.as_bytes()]);
                    client.wanted.push_back(Wanted::Values([one, other]));
                }
                _ => {
                    encode::request(&mut bytes, &[b"GET", key.as_bytes()]);
                    client.wanted.push_back(Wanted::Value(one));
                }
            }
        }
        client.peer.send(&bytes);
    }

    /// Looks at the replies that are there.
    fn listen(&mut self, number: usize) -> Result<(), String> {
        let Self { clients, seen, .. } = self;
        let client = &mut clients[number];
        client.input.extend(client.peer.received());
        loop {
            let mut scanner = ReplyScanner::default();
            if client.input.is_empty() {
                return Ok(());
            }
            let scan = scanner.scan(&client.input).map_err(|error| error.to_string())?;
            let Scan::Complete { consumed, .. } = scan else { return Ok(()) };
            let reply: Vec<u8> = client.input.drain(..consumed).collect();
            let text = reply.escape_ascii().to_string();
            let Some(wanted) = client.wanted.pop_front() else {
                return Err(format!("client {number} asked nothing and gets {text}"));
            };
            let value = |key: u64| {
                let from = |name: &str| {
                    let value = format!("{name}:{key}");
                    let mut bulk = Vec::new();
                    encode::bulk(&mut bulk, value.as_bytes());
                    bulk
                };
                NAMES.map(from)
            };
            let found = match wanted {
                Wanted::Ok => reply == b"+OK\r\n",
                // It asks the upstream, which may be away: then the client stays as it is.
                Wanted::Hello => matches!(reply[0], b'%' | b'*' | b'-'),
                Wanted::Value(key) => {
                    let from = value(key).iter().position(|value| *value == reply);
                    from.inspect(|from| seen[*from] += 1).is_some()
                }
                // Both of one deployment: they are one read.
                Wanted::Values([one, other]) => {
                    let both = value(one).into_iter().zip(value(other));
                    both.into_iter()
                        .any(|(one, other)| [b"*2\r\n", &one[..], &other].concat() == reply)
                }
            };
            if !found {
                return Err(format!("client {number} gets {text}"));
            }
        }
    }

    fn turn(&mut self) {
        for _ in 0..4 {
            self.workers.iter_mut().for_each(Worker::turn);
            self.servers.iter_mut().for_each(Server::pump);
        }
    }

    fn advance(&mut self, until_us: u64) {
        let deadlines = self.workers.iter().filter_map(Worker::deadline).map(|at| at.0);
        let next_us = self.net.next_wakeup().into_iter().chain(deadlines).min();
        let now_us = self.net.now_us();
        let next_us = next_us.unwrap_or(until_us).clamp(now_us, until_us);
        self.net.advance_to(next_us.max(now_us + 1));
    }

    /// Everything that clients say, with troubles on the way; then peace.
    fn run(&mut self) -> Result<(), String> {
        let end_us = self.net.now_us() + 120_000_000;
        let mut trouble_us = self.net.now_us() + self.rng.between(0, 50_000);
        while self.clients.iter().any(|client| client.rounds > 0 || !client.wanted.is_empty()) {
            if self.net.now_us() > end_us {
                let open = self.clients.iter().map(|client| client.wanted.len());
                return Err(format!("some wait for ever: {:?}", open.collect::<Vec<_>>()));
            }
            if self.net.now_us() >= trouble_us {
                self.suffer();
                trouble_us += self.rng.between(1_000, 100_000);
            }
            for number in 0..self.clients.len() {
                self.listen(number)?;
                self.speak(number);
            }
            self.turn();
            self.advance(trouble_us);
        }
        for number in 0..self.servers.len() {
            self.servers[number].host().suffer(Trouble::Well);
            self.net.set_faults_at(&at(number as u64), SimFaults::none());
            self.net.reset_all_to(&at(number as u64));
        }
        // All are back, and late answers are nobody's.
        let until_us = self.net.now_us() + 5_000_000;
        while self.net.now_us() < until_us {
            self.turn();
            self.advance(until_us);
        }
        for number in 0..self.clients.len() {
            self.listen(number)?;
            self.clients[number].peer.close();
        }
        for _ in 0..100 {
            self.turn();
            let until_us = self.net.now_us() + 10_000;
            self.advance(until_us);
        }
        for worker in &self.workers {
            let report = worker.engine().report(engine::Time(self.net.now_us()));
            let is_back =
                |target: &engine::elsewhere::ReadTargetReport| !target.is_out && target.open == 0;
            if !worker.engine().is_quiet() || !report.read_targets.iter().all(is_back) {
                return Err(format!("something is left: {:?}", report.read_targets));
            }
        }
        Ok(())
    }
}

fn workers(
    net: &SimNet,
    listen: &Address,
    seed: u64,
    settings: &Settings,
) -> Vec<Worker<SimDriver>> {
    let settings = |index| (Settings { worker: index as u32, ..settings.clone() }, Vec::new());
    crew::hire(net, listen, WORKERS, Terms::plain(seed), settings).workers
}

/// How many seeds are run, `usual` or with `RESPOOL_LONG=1` more: a multiple of the three orders of read targets.
fn seeds(usual: u64) -> u64 {
    if super::is_long() { 60 } else { usual }
}

#[test]
fn whoever_is_in_trouble_every_read_is_answered_once_by_somebody_who_has_the_key() {
    let mut seen = [[0; 3]; 3];
    for seed in 0..seeds(30) {
        let mut world = World::new(seed);
        let outcome = world.run();
        assert_eq!(outcome, Ok(()), "seed {seed}");
        for (sum, count) in seen[(seed % 3) as usize].iter_mut().zip(world.seen) {
            *sum += count;
        }
    }
    // In every order all three have answered, or the seeds show too little.
    assert!(seen.iter().flatten().all(|count| *count > 100), "{seen:?}");
}

#[test]
fn whoever_a_program_names_every_read_is_answered_once_by_somebody_who_has_the_key() {
    let mut seen = [[0; 3]; 3];
    for seed in 0..seeds(12) {
        let mut world = World::with(seed, true);
        let outcome = world.run();
        assert_eq!(outcome, Ok(()), "seed {seed}");
        let of = |worker: &Worker<SimDriver>| worker.engine().report(engine::Time(0)).own;
        let reports: Vec<_> = world.workers.iter().flat_map(of).collect();
        assert!(reports.iter().map(|report| report.routed).sum::<u64>() > 50, "{reports:?}");
        assert_eq!(reports.iter().map(|report| report.outcomes()[4].1).sum::<u64>(), 0);
        for (sum, count) in seen[(seed % 3) as usize].iter_mut().zip(world.seen) {
            *sum += count;
        }
    }
    assert!(seen.iter().flatten().all(|count| *count > 100), "{seen:?}");
}

#[test]
fn a_run_with_read_targets_is_the_same_again() {
    let digest = |seed| {
        let mut world = World::new(seed);
        world.run().expect("a run that is right");
        world.net.digest()
    };
    assert!((0..3).all(|seed| digest(seed) == digest(seed)));
}
