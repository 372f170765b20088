//! Mirrors and read targets that come, go and change while clients write and read, with real servers.
//!
//! Invariant: no client sees an error, whatever comes or goes.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Conn, RedisServer, Respool, wait};

use crate::admin::Looked;
use crate::mirrors::{content, figure, url, wait_told};
use crate::setup::{RESPOOL, SOON, direct, info_field};

/// Has an option changed; returns when all workers work by it.
#[track_caller]
fn set(looked: &Looked, option: &str, value: Value) {
    let (status, said) = looked.patch("/config", &json!({ option: value }));
    assert_eq!(status, 200, "{said}");
}

/// Clients that write in phases until they are told to stop; half of them over connections of another protocol.
struct Writers {
    phase: AtomicU64,
    stops: AtomicBool,
    /// Rounds that each has done.
    rounds: Vec<AtomicU64>,
}

const WRITERS: usize = 8;

impl Writers {
    fn new() -> Self {
        let rounds = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
        Self { phase: AtomicU64::new(0), stops: AtomicBool::new(false), rounds }
    }

    fn run(&self, number: usize, mut conn: Conn) {
        if number.is_multiple_of(2) {
            conn.ask("HELLO 3");
        }
        while !self.stops.load(Ordering::Acquire) {
            let (phase, round) =
                (self.phase.load(Ordering::Acquire), self.rounds[number].load(Ordering::Relaxed));
            let (key, value) = (format!("p{phase}:{}", round % 5), format!("{number}-{round}"));
            let lines = [
                format!("SET {key} {value}"),
                format!("APPEND {key} +{number}"),
                format!("INCR p{phase}:count"),
                format!("RPUSH p{phase}:list {value}"),
                format!("SET s:{phase}:{} {value}", round % 7),
            ];
            let transaction = [
                "MULTI".to_owned(),
                format!("INCR p{phase}:count"),
                format!("SET {key} {number}-m"),
                "EXEC".to_owned(),
            ];
            let whole = if round.is_multiple_of(8) { &transaction[..] } else { &[] };
            for line in lines.iter().chain(whole) {
                let reply = conn.ask(line);
                assert!(!reply.starts_with('-'), "{line}: {reply}");
            }
            self.rounds[number].fetch_add(1, Ordering::Release);
        }
    }

    /// From now on; returns when nobody is in the phase before.
    fn enter(&self, phase: u64) {
        self.phase.store(phase, Ordering::Release);
        self.pass(1);
    }

    /// Waits until each has begun and ended so many rounds more.
    fn pass(&self, rounds: u64) {
        let count = |at: usize| self.rounds[at].load(Ordering::Acquire);
        let before: Vec<u64> = (0..WRITERS).map(count).collect();
        wait::until_true("all go on", SOON, || {
            (0..WRITERS).all(|at| count(at) > before[at] + rounds)
        });
    }
}

/// The keys of a phase with their values.
fn of_phase(conn: &mut Conn, phase: u64) -> BTreeMap<Vec<u8>, String> {
    let heads = [format!("p{phase}:"), format!("s:{phase}:")];
    let is_of = |key: &[u8]| heads.iter().any(|head| key.starts_with(head.as_bytes()));
    content(conn).into_iter().filter(|(key, _)| is_of(key)).collect()
}

#[test]
fn a_mirror_comes_and_goes_while_clients_write() {
    if direct() {
        return;
    }
    let looked = Looked::of(1, &[]);
    let mirror = RedisServer::start();
    let mut conn = looked.proxy.connect();
    wait::until_true("the server is reached", SOON, || conn.ask("SET before 1") == "+OK\r\n");
    let writers = Writers::new();
    thread::scope(|scope| {
        for number in 0..WRITERS {
            let (writers, conn) = (&writers, looked.proxy.connect());
            scope.spawn(move || writers.run(number, conn));
        }
        writers.pass(5);
        for phase in [1, 3] {
            set(&looked, "mirrors.targets", json!([format!("{} name=new", url(&mirror))]));
            writers.enter(phase);
            writers.pass(40);
            // Other options, while they write; the queue and the connections stay.
            let all = format!("{} name=new mode=all shadow_reads=50", url(&mirror));
            set(&looked, "mirrors.targets", json!([all]));
            writers.pass(20);
            writers.enter(phase + 1);
            set(&looked, "mirrors.targets", json!([]));
            writers.pass(20);
        }
        writers.stops.store(true, Ordering::Release);
    });
    let gone = "it is no mirror any more, and has got every write";
    wait::until_true("it has everything", SOON, || {
        looked.proxy.process().log().matches(gone).count() == 2
    });
    assert_eq!(info_field(&mut conn, "mirrors", "mirrors").as_deref(), Some("0"));
    for phase in [1, 3] {
        let expected = of_phase(&mut looked.server.connect(), phase);
        assert!(expected.len() >= 14, "{expected:?}");
        assert_eq!(of_phase(&mut mirror.connect(), phase), expected, "phase {phase}");
    }
    assert_eq!(mirror.connect().ask("EXISTS before"), ":0\r\n", "nobody told it of that");
}

#[test]
fn a_mirror_that_goes_while_it_hangs_is_told_of_in_the_log_and_stops_nobody() {
    if direct() {
        return;
    }
    let looked = Looked::of(1, &["--timeouts-drain-ms", "300"]);
    let mirror = RedisServer::start();
    set(&looked, "mirrors.targets", json!([format!("{} name=new mode=all", url(&mirror))]));
    let mut conn = looked.proxy.connect();
    assert_eq!(conn.ask("SET first 1"), "+OK\r\n");
    wait_told(&mut conn);
    mirror.pause();
    conn.send_command(&["SET", "k", "1"]).expect("sent");
    let mut other = looked.proxy.connect();
    wait::until_true("it is queued", SOON, || figure(&mut other, "queued") == 1);
    // Who waits for it has its reply when it is a mirror no more, or is waited for no more.
    set(&looked, "mirrors.targets", json!([format!("{} name=new", url(&mirror))]));
    assert_eq!(conn.reply().expect("a reply"), b"+OK\r\n");
    assert_eq!(conn.ask("SET k 2"), "+OK\r\n");
    set(&looked, "mirrors.targets", json!([]));
    let upstream = RedisServer::start();
    let (status, said) = looked.patch("/config", &json!({ "upstream": upstream.endpoint().url() }));
    assert!(status != 200 && said.to_string().contains("it needs a restart"), "{said}");
    let gone = "it is no mirror any more, and did not get every write";
    wait::until_true("it is given up", SOON, || looked.proxy.process().log().contains(gone));
    assert!(looked.proxy.process().log().contains("a mirror did not get every write"));
    wait::until_true("other servers may be named then", SOON, || {
        looked.patch("/config", &json!({ "upstream": upstream.endpoint().url() })).0 == 200
    });
    mirror.resume();
    assert_eq!(conn.ask("SET k 3"), "+OK\r\n");
    assert_eq!(upstream.connect().ask("GET k"), "$1\r\n3\r\n");
}

#[test]
fn with_several_workers_a_mirror_is_refused_unless_that_is_allowed() {
    if direct() {
        return;
    }
    let looked = Looked::of(2, &[]);
    let mirror = RedisServer::start();
    let targets = json!([format!("{} name=new", url(&mirror))]);
    let (status, said) = looked.patch("/config", &json!({ "mirrors.targets": targets }));
    let said = said.to_string();
    assert!(status != 200 && said.contains("with mirrors it must be 1"), "{status} {said}");
    let both = json!({ "mirrors.targets": targets, "mirrors.across_workers": true });
    let (status, said) = looked.patch("/config", &both);
    assert_eq!(status, 200, "{said}");
    for number in 0..6 {
        assert_eq!(looked.proxy.connect().ask(&format!("SET k{number} v")), "+OK\r\n");
    }
    wait_told(&mut looked.proxy.connect());
    assert_eq!(mirror.connect().ask("DBSIZE"), ":6\r\n");
    let (status, said) = looked.patch("/config", &json!({ "mirrors.across_workers": false }));
    assert!(status != 200, "{said}");
}

#[test]
fn a_file_that_swaps_upstream_and_mirror_changes_neither() {
    if direct() {
        return;
    }
    let (one, other) = (RedisServer::start(), RedisServer::start());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    let text = |upstream: &RedisServer, mirror: &RedisServer, more: &str| {
        format!(
            "upstream = \"{}\"\n[mirrors]\ntargets = \"{} name=new\"\n{more}",
            url(upstream),
            url(mirror)
        )
    };
    fs::write(&file, text(&one, &other, "")).expect("the file");
    let proxy = Respool::with_config(RESPOOL, &file).workers(1).start();
    let mut conn = proxy.connect();
    wait::until_true("the server is reached", SOON, || conn.ask("INCR n") == ":1\r\n");
    fs::write(&file, text(&other, &one, "flush = true\n")).expect("the file");
    proxy.process().signal(Signal::HUP);
    let done = "every worker works by what was read";
    wait::until_true("it is read", SOON, || proxy.process().log().contains(done));
    assert!(proxy.process().log().contains("this option needs a restart"), "and says so");
    for expected in [":2\r\n", ":3\r\n"] {
        assert_eq!(conn.ask("INCR n"), expected);
    }
    wait_told(&mut conn);
    for server in [&one, &other] {
        assert_eq!(server.connect().ask("GET n"), "$1\r\n3\r\n", "once each");
    }
}

#[test]
fn read_targets_come_and_go_while_clients_read() {
    if direct() {
        return;
    }
    let looked = Looked::of(2, &[]);
    let targets = [RedisServer::start(), RedisServer::start()];
    let names = ["main", "one", "two"];
    let servers = [&looked.server, &targets[0], &targets[1]];
    for (server, name) in servers.into_iter().zip(names) {
        for key in 0..20 {
            server.connect().ask(&format!("SET k:{key} {name}"));
        }
    }
    let stops = AtomicBool::new(false);
    let seen: Vec<AtomicU64> = names.iter().map(|_| AtomicU64::new(0)).collect();
    let count = |at: usize| seen[at].load(Ordering::Acquire);
    let answers = |at: usize| {
        let before = count(at);
        wait::until_true(names[at], SOON, || count(at) > before + 50);
    };
    thread::scope(|scope| {
        for number in 0..6usize {
            let (stops, seen, mut conn) = (&stops, &seen, looked.proxy.connect());
            scope.spawn(move || {
                for round in 0.. {
                    if stops.load(Ordering::Acquire) {
                        break;
                    }
                    let reply = conn.ask(&format!("GET k:{}", (round + number) % 20));
                    let who = names.iter().position(|name| reply.contains(name));
                    let who = who.unwrap_or_else(|| panic!("nobody says {reply}"));
                    seen[who].fetch_add(1, Ordering::Release);
                    assert_eq!(conn.ask(&format!("SET own:{number} {round}")), "+OK\r\n");
                }
            });
        }
        let [one, two] = [0, 1].map(|at| format!("{} name={}", url(&targets[at]), names[at + 1]));
        answers(0);
        for _ in 0..3 {
            set(&looked, "read_targets.targets", json!([one]));
            answers(1);
            set(&looked, "read_targets.targets", json!([two, one]));
            answers(2);
            set(&looked, "read_targets.keys", json!(["other:*"]));
            answers(0);
            set(&looked, "read_targets.keys", json!([]));
            set(&looked, "read_targets.targets", json!([]));
            answers(0);
        }
        // One goes while reads are under way to it, and hangs.
        set(&looked, "read_targets.timeout_ms", json!(60_000));
        set(&looked, "read_targets.targets", json!([one]));
        answers(1);
        targets[0].pause();
        set(&looked, "read_targets.targets", json!([two]));
        answers(2);
        targets[0].resume();
        stops.store(true, Ordering::Release);
    });
}
