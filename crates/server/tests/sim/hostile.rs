//! Hostile clients beside honest ones: names with a NUL that a server finds all the same, floods of names that no server has, malformed and unfinished
//! requests, options with a NUL, scripts whose errors look like replies to others, clients that write and never read.
//!
//! The server is the model, which finds a command by its name up to the first NUL (a real one finds some of these names). On every third seed it refuses
//! `COMMAND`, so that nobody knows its commands and unknown ones go to it over connections of their own. Judged all along:
//!
//! - each honest request gets its own reply, which the client can tell before it comes: its key is nobody else's, and its value tells the request;
//! - it comes within [`SERVED_MS`] of virtual time, whatever the hostile ones do;
//! - no data of an honest client changes by somebody else's request, and none is closed;
//! - after all are gone no client and no connection beside the shared ones is left.
//!
//! Not here: what a hostile client gets itself, which is its own affair.
//!
//! Invariant: a seed gives the same run.

use std::collections::VecDeque;

use engine::{Settings, node};
use netio::Address;
use netio::sim::{SimDriver, SimFaults, SimNet, SimPeer, SimRng};
use server::worker::Worker;
use testkit::frames::{Replies, request};

use crate::crew::{self, Terms};
use crate::upstream::{Planted, Server};

/// Seeds from here on are of this kind.
pub(crate) const HOSTILE_FROM: u64 = 5_000_000;

/// Seeds without `SIM_SEEDS`.
const SEEDS: usize = 24;

/// An honest request is answered within this time.
const SERVED_MS: u64 = 500;

/// Honest clients.
const HONEST: usize = 4;

/// What would change a connection for all that share it, or what is there for all, if a server took it for what it begins with.
const STATEFUL: &[&[&str]] = &[
    &["SELECT", "1"],
    &["MULTI"],
    &["EXEC"],
    &["DISCARD"],
    &["WATCH", "h0"],
    &["SUBSCRIBE", "c"],
    &["PSUBSCRIBE", "*"],
    &["HELLO", "3"],
    &["QUIT"],
    &["RESET"],
    &["FLUSHALL"],
    &["FLUSHDB"],
    &["BLPOP", "nobody", "0"],
    &["SET", "h0", "stolen"],
    &["INCR", "h1"],
];

/// The same, with the NUL in the second word.
const STATEFUL_SUBS: &[&[&str]] = &[
    &["CLIENT", "REPLY", "OFF"],
    &["CLIENT", "REPLY", "SKIP"],
    &["CLIENT", "TRACKING", "ON"],
    &["CLIENT", "SETNAME", "x"],
    &["COMMAND", "COUNT"],
    &["SLOWLOG", "RESET"],
    &["CONFIG", "RESETSTAT"],
];

fn one_of<T: Copy>(rng: &mut SimRng, of: &[T]) -> T {
    of[rng.between(0, of.len() as u64 - 1) as usize]
}

fn address(text: &str) -> Address {
    Address::Tcp(text.parse().expect("a literal address"))
}

/// An honest client, what it waits for, and what it has written.
struct Honest {
    peer: SimPeer,
    replies: Replies,
    expected: VecDeque<Vec<u8>>,
    key: String,
    counter: String,
    count: u64,
    said: u64,
    value: String,
}

impl Honest {
    fn new(net: &SimNet, to: &Address, number: usize) -> Self {
        Self {
            peer: net.connect(to),
            replies: Replies::default(),
            expected: VecDeque::new(),
            key: format!("h{number}"),
            counter: format!("n{number}"),
            count: 0,
            said: 0,
            value: String::new(),
        }
    }

    /// Some requests, of which each has one right reply.
    fn speak(&mut self, rng: &mut SimRng) {
        let mut bytes = Vec::new();
        for _ in 0..rng.between(1, 8) {
            self.said += 1;
            match rng.between(0, 2) {
                0 => {
                    self.value = format!("{}-{}", self.key, self.said);
                    bytes.extend(request(&["SET", &self.key, &self.value]));
                    self.expected.push_back(b"+OK\r\n".to_vec());
                }
                1 => {
                    self.count += 1;
                    bytes.extend(request(&["INCR", &self.counter]));
                    self.expected.push_back(format!(":{}\r\n", self.count).into_bytes());
                }
                _ => {
                    bytes.extend(request(&["GET", &self.key]));
                    let value = match self.value.as_str() {
                        "" => "$-1\r\n".to_owned(),
                        value => format!("${}\r\n{value}\r\n", value.len()),
                    };
                    self.expected.push_back(value.into_bytes());
                }
            }
        }
        self.peer.send(&bytes);
    }

    /// Takes in what came.
    fn hear(&mut self) -> Result<(), String> {
        self.replies.push(&self.peer.received());
        while let Some(reply) = self.replies.pop()? {
            let expected = self.expected.pop_front();
            if expected.as_ref() != Some(&reply) {
                return Err(format!(
                    "{} got {} in the place of {:?}",
                    self.key,
                    reply.escape_ascii(),
                    expected.map(|bytes| bytes.escape_ascii().to_string())
                ));
            }
        }
        match self.peer.is_over() {
            true => Err(format!("{} was closed", self.key)),
            false => Ok(()),
        }
    }
}

/// A hostile client; it comes again when it is closed.
struct Hostile {
    peer: SimPeer,
    number: u64,
    names: u64,
}

impl Hostile {
    fn act(&mut self, rng: &mut SimRng, net: &SimNet, to: &Address) {
        if self.peer.is_over() {
            self.peer.close();
            self.peer = net.connect(to);
        }
        match rng.between(0, 13) {
            0..=2 => {
                for _ in 0..rng.between(1, 30) {
                    self.peer.send(&with_nul(rng));
                }
            }
            3..=4 => self.flood(rng),
            5 => self.peer.send(malformed(rng)),
            6 => {
                let bytes = request(&["SET", &format!("x{}", self.number), "half a request"]);
                self.peer.send(&bytes[..rng.between(1, bytes.len() as u64 - 1) as usize]);
                if rng.chance(500_000) {
                    self.peer.reset();
                } else {
                    self.peer.close();
                }
            }
            7 => self.never_reads(rng),
            8 => {
                // An option with a NUL, of a key of its own.
                let key = format!("x{}", self.number);
                let option: &[u8] = one_of(rng, &[&b"GET\0"[..], b"EX\0", b"NX\0x"]);
                self.peer.send(&request(&[&b"SET"[..], key.as_bytes(), b"v", option, b"10"]));
            }
            9 => {
                // People's form has escapes for any byte.
                let name = one_of(rng, &["SELECT", "CLIENT", "MULTI", "QUIT"]);
                let line = format!("\"{name}\\x00{}\" 1 OFF\r\n", rng.between(0, 99));
                self.peer.send(line.as_bytes());
            }
            10..=11 => self.breaks_lines(rng),
            12 => {
                let name = self.name();
                let words = [&["MULTI"][..], &[name.as_str(), "x"], &["EXEC"]];
                words.iter().for_each(|words| self.peer.send(&request(words)));
            }
            _ => {
                let mode = one_of(rng, &["SKIP", "OFF", "ON"]);
                self.peer.send(&request(&["CLIENT", "REPLY", mode]));
                self.peer.send(&with_nul(rng));
            }
        }
        if rng.chance(700_000) {
            self.peer.received();
        }
    }

    /// Scripts whose errors hold line breaks, alone and in transactions.
    fn breaks_lines(&mut self, rng: &mut SimRng) {
        let key = format!("x{}", self.number);
        let mut text = String::from("x");
        for _ in 0..rng.between(1, 4) {
            let piece = one_of(
                rng,
                &[
                    "\r\n+y",
                    "\r\n$9\r\n",
                    "\r\n*3",
                    "\r\n-NOPERM y",
                    "\r",
                    "\n",
                    "\r\n:7",
                    "\r\n>1\r\n+y",
                    "\r\n$-1",
                ],
            );
            text.push_str(piece);
        }
        let script = request(&["EVAL", "count", "1", &key, &text]);
        let around = rng.between(0, 2);
        if around > 0 {
            self.peer.send(&request(&["MULTI"]));
        }
        if around == 2 {
            // A transaction in pieces has a connection of its own.
            self.peer.received();
        }
        for _ in 0..rng.between(1, 5) {
            self.peer.send(&script);
        }
        if around > 0 {
            self.peer.send(&request(&["EXEC"]));
        }
    }

    /// A name that nobody had before.
    fn name(&mut self) -> String {
        self.names += 1;
        format!("no.such-{}-{}", self.number, self.names)
    }

    fn flood(&mut self, rng: &mut SimRng) {
        let mut bytes = Vec::new();
        for _ in 0..one_of(rng, &[1_u32, 10, 200]) {
            let name = match rng.between(0, 3) {
                0 => "no.such".to_owned(),
                1 => "n".repeat(rng.between(100, 300) as usize),
                _ => self.name(),
            };
            bytes.extend(request(&[name.as_str(), "a", "b c"]));
        }
        self.peer.send(&bytes);
    }

    fn never_reads(&mut self, rng: &mut SimRng) {
        self.peer.pause_reading(true);
        let key = format!("x{}", self.number);
        let mut bytes = request(&[&b"SET"[..], key.as_bytes(), &[b'x'; 10_000]]);
        for _ in 0..rng.between(10, 200) {
            bytes.extend(request(&["GET", &key]));
        }
        self.peer.send(&bytes);
    }
}

/// A call whose name, or second word, goes on behind a NUL.
fn with_nul(rng: &mut SimRng) -> Vec<u8> {
    let in_sub = rng.chance(400_000);
    let list = if in_sub { STATEFUL_SUBS } else { STATEFUL };
    let mut words: Vec<Vec<u8>> =
        one_of(rng, list).iter().map(|word| word.as_bytes().to_vec()).collect();
    // A container's name may have one, too.
    let at = usize::from(in_sub && rng.chance(700_000));
    words[at].push(0);
    let suffix = format!("{}", rng.between(0, 9_999));
    words[at].extend_from_slice(&suffix.as_bytes()[..rng.between(0, suffix.len() as u64) as usize]);
    if rng.chance(300_000) {
        words[at].make_ascii_lowercase();
    }
    request(&words)
}

/// What is no request.
fn malformed(rng: &mut SimRng) -> &'static [u8] {
    one_of(
        rng,
        &[
            &b"*3\r\n$-5\r\nx\r\n"[..],
            b"*99999999999\r\n",
            b"*2\r\n$3\r\nGET\r\n:1\r\n",
            b"*1\r\n$x\r\n",
            b"GET \"unbalanced\r\n",
            b"*0\r\n*-1\r\n\r\n",
            b"POST / HTTP/1.1\r\n",
        ],
    )
}

/// The workers, the server and all clients.
struct Siege {
    net: SimNet,
    listen: Address,
    workers: Vec<Worker<SimDriver>>,
    server: Server,
    honest: Vec<Honest>,
    hostile: Vec<Hostile>,
}

impl Siege {
    fn new(seed: u64, rng: &mut SimRng) -> Self {
        let net = SimNet::new(seed, SimFaults::none());
        let listen = address("127.0.0.1:6380");
        if rng.chance(500_000) {
            net.set_faults_at(&listen, SimFaults::cutting(rng));
        }
        let mut server = Server::new(&net, address("10.0.0.1:6379"), false, Planted::Nothing);
        if seed.is_multiple_of(3) {
            server.model_mut().refuse_command();
        }
        let count = rng.between(1, 2) as u32;
        let crew = crew::hire(&net, &listen, count, Terms::plain(seed), |index| {
            let mut settings =
                Settings { worker: index as u32, workers: count, ..Settings::default() };
            settings.node.address = node::Address::tcp("10.0.0.1", 6379);
            settings.timeouts.request_ms = 1_000;
            (settings, Vec::new())
        });
        let honest = (0..HONEST).map(|number| Honest::new(&net, &listen, number)).collect();
        let hostile = (0..rng.between(1, 5))
            .map(|number| Hostile { peer: net.connect(&listen), number, names: 0 })
            .collect();
        Self { net, listen, workers: crew.workers, server, honest, hostile }
    }

    fn pass(&mut self, ms: u64) {
        let Self { net, workers, server, .. } = self;
        crew::pass(net, workers, ms, || server.pump());
    }

    fn hear(&mut self) -> Result<(), String> {
        self.honest.iter_mut().try_for_each(Honest::hear)
    }

    /// Lets time pass until each honest client has its replies.
    fn serve(&mut self) -> Result<(), String> {
        for _ in 0..SERVED_MS / 5 {
            self.pass(5);
            self.hear()?;
            if self.honest.iter().all(|client| client.expected.is_empty()) {
                return Ok(());
            }
        }
        let waits = self.honest.iter().filter(|client| !client.expected.is_empty());
        let waits: Vec<&str> = waits.map(|client| client.key.as_str()).collect();
        Err(format!("{waits:?} wait for more than {SERVED_MS} ms"))
    }

    /// Everybody is gone: what was written is there, and nothing is left.
    fn judge(&mut self) -> Result<(), String> {
        for client in &self.honest {
            let text = self.server.model().text(0, client.key.as_bytes()).unwrap_or_default();
            if text != client.value.as_bytes() {
                let text = text.escape_ascii();
                return Err(format!("{} is {text}, and not {}", client.key, client.value));
            }
        }
        self.honest.iter().for_each(|client| client.peer.close());
        for client in &self.hostile {
            client.peer.pause_reading(false);
            client.peer.close();
        }
        self.pass(10_000);
        let clients: usize = self.workers.iter().map(|one| one.house().client_count()).sum();
        let (conns, workers) = (self.server.open_conns(), self.workers.len());
        // Of each worker the shared one, that of RESP3 and some that are kept ready.
        match clients == 0 && conns <= workers * CONNS_LEFT_MAX {
            true => Ok(()),
            false => Err(format!("{clients} clients and {conns} connections are left")),
        }
    }
}

/// Connections that a worker may keep when its clients are gone.
const CONNS_LEFT_MAX: usize = 8;

/// One seed; how many requests the server executed, and how many rounds there were.
fn run(seed: u64) -> Result<(u64, u64), String> {
    let mut rng = SimRng::new(seed ^ 0x686f_7374_696c_6500);
    let mut siege = Siege::new(seed, &mut rng);
    siege.pass(20);
    let rounds = rng.between(4, 12);
    for round in 0..rounds {
        let begun = |why| format!("round {round}: {why}");
        // Whoever acts first: some rounds find the honest requests already on their way.
        let honest_first = rng.chance(500_000);
        for first in [honest_first, !honest_first] {
            match first {
                true => siege.honest.iter_mut().for_each(|client| client.speak(&mut rng)),
                false => {
                    let Siege { hostile, net, listen, .. } = &mut siege;
                    hostile.iter_mut().for_each(|client| client.act(&mut rng, net, listen));
                }
            }
            siege.pass(rng.between(0, 2));
        }
        siege.serve().map_err(begun)?;
    }
    siege.judge()?;
    Ok((siege.server.model().executed(), rounds))
}

fn how_to_replay(seed: u64) -> String {
    format!("replay: SIM_SEED={seed} cargo test -p server --test sim replay -- --nocapture")
}

/// The seed of `SIM_SEED`, where it is one of these.
pub(crate) fn replay(seed: u64) {
    let outcome = run(seed);
    println!("seed {seed}: {outcome:?}");
    outcome.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
}

#[test]
fn hostile_clients_reach_nobody_else() {
    let usual = if super::is_long() { 2 * SEEDS } else { SEEDS };
    let count = super::number("SIM_SEEDS").map_or(usual, |count| count as usize);
    let goes_on = std::env::var_os("SIM_GO_ON").is_some();
    let (mut executed, mut rounds, mut failures) = (0, 0, Vec::new());
    for seed in (HOSTILE_FROM..).take(count) {
        match run(seed) {
            Ok((requests, passed)) => {
                executed += requests;
                rounds += passed;
            }
            Err(why) if goes_on => {
                println!("seed {seed}: {why}\n{}", how_to_replay(seed));
                failures.push(seed);
            }
            Err(why) => panic!("seed {seed}: {why}\n{}", how_to_replay(seed)),
        }
    }
    assert!(failures.is_empty(), "{} of {count} seeds failed: {failures:?}", failures.len());
    println!("{count} seeds, {rounds} rounds, {executed} requests executed");
    assert!(executed > rounds, "the seeds do not come to what they are for");
}

#[test]
fn the_same_siege_is_the_same_run() {
    for seed in HOSTILE_FROM..HOSTILE_FROM + 3 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
