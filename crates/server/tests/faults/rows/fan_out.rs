//! Row 26: requests for a hundred thousand keys over all nodes, while one of the nodes dies and comes
//! back.
//!
//! Invariant: each request has one reply: all of it, or an error; after it the next reply is that of
//! the next request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::RedisCluster;
use testkit::frames::{quote, request};
use testkit::{Conn, Endpoint, wait};

use crate::judge::Expect;
use crate::load::Load;
use crate::run::run;
use crate::stage::{IMPATIENT, SOON, Scale, clients, front, key_on, served, three_that_persist};

/// Keys in one request.
const KEYS: usize = 100_000;
/// Clients that send such requests, and how long each of them pauses after three of them.
const CLIENTS: usize = 2;
const PAUSE: Duration = Duration::from_millis(1_500);
/// Such a request takes part of a second by itself, on each node, and more when two of them meet.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a recovery may take.
const RECOVERY: Duration = Duration::from_secs(2);

/// What the clients with many keys have seen.
#[derive(Debug, Default)]
struct Seen {
    whole: AtomicU64,
    errors: AtomicU64,
}

/// One client: MSET, MGET, DEL of its own keys, and a request behind each.
fn many(front: &Endpoint, client: usize, stop: &AtomicBool, seen: &Seen) {
    let keys: Vec<String> = (0..KEYS).map(|n| format!("many:{client}:{n}")).collect();
    let mut conn = Conn::to(front);
    conn.set_timeout(TIMEOUT + Duration::from_secs(1));
    for round in (0_u64..).take_while(|_| !stop.load(Ordering::Acquire)) {
        let value = format!("{client}:{round}");
        let mut mset = vec!["MSET"];
        keys.iter().for_each(|key| mset.extend([key.as_str(), &value]));
        let whole = format!("${}\r\n{value}\r\n", value.len()).repeat(KEYS);
        for (word, expected) in [
            ("MSET", "+OK\r\n".to_owned()),
            ("MGET", format!("*{KEYS}\r\n{whole}")),
            ("DEL", format!(":{KEYS}\r\n")),
        ] {
            let mut args = vec![word];
            args.extend(keys.iter().map(String::as_str));
            let request = if word == "MSET" { request(&mset) } else { request(&args) };
            let reply = one_reply(&mut conn, &request);
            if reply.starts_with(b"-") {
                seen.errors.fetch_add(1, Ordering::Relaxed);
                // What was done of it nobody knows: the next round begins anew.
                break;
            }
            assert!(
                reply == expected.as_bytes(),
                "{word}, neither whole nor an error: {}",
                quote(&reply, 200)
            );
            seen.whole.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(PAUSE);
    }
}

/// The reply to a request, which must be followed by that to the next one.
fn one_reply(conn: &mut Conn, request: &[u8]) -> Vec<u8> {
    conn.send(request).expect("sent");
    conn.send_command(&["ECHO", "behind"]).expect("sent");
    let reply = conn.reply().expect("one reply");
    assert_eq!(conn.reply().expect("the next one"), b"$6\r\nbehind\r\n");
    reply
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_26_a_node_dies_under_requests_for_all_nodes() {
    let scale = Scale::long();
    let mut cluster = three_that_persist();
    let timeout_ms = TIMEOUT.as_millis().to_string();
    let options = ["--timeouts-request-ms", &timeout_ms, "--timeouts-reconnect-max-ms", "500"];
    let mut proxy = front(&cluster, &options);
    let load = Load::usual(&proxy, &cluster, 0, scale)
        .each(|checker| checker.deadline = TIMEOUT + Duration::from_secs(1));
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let (stop, seen) = (AtomicBool::new(false), Seen::default());
    let endpoint = proxy.endpoint().clone();
    let report = thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (endpoint, stop, seen) = (&endpoint, &stop, &seen);
                scope.spawn(move || many(endpoint, client, stop, seen))
            })
            .collect();
        let stopped = Stop(&stop);
        let report = run(&mut proxy, load, scale, |_| {
            for _ in 0..2 {
                cluster.kill(1);
                thread::sleep(scale.phase / 2);
                cluster.restart(1);
                cluster.wait_ok();
                let took = served(&mut conns, &[1]);
                assert!(took < RECOVERY, "{took:?}");
            }
            stop.store(true, Ordering::Release);
        });
        drop(stopped);
        all.into_iter().for_each(|client| client.join().expect("a client with many keys"));
        report
    });
    println!("{seen:?}");
    let [whole, errors] = [&seen.whole, &seen.errors].map(|count| count.load(Ordering::Relaxed));
    assert!(whole > 3 && errors > 0, "{whole} whole, {errors} errors");
    let texts = vec!["-ERR respool: ", "-CLUSTERDOWN"];
    Expect { texts, ..Expect::hits(&[1]) }.judge(&report);
}

// Every part of the request is refused and tried again. However many they are, the worker has other
// clients.
#[test]
#[ignore = "with the rows: make test-faults"]
fn row_26_a_large_request_that_is_refused_does_not_stop_its_worker() {
    let mut cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &IMPATIENT);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    cluster.kill(1);
    let mut direct = cluster.node(0).connect();
    wait::until_true("the cluster to be down", SOON, || {
        direct.ask(&format!("GET {}", key_on(0, 7))).starts_with("-CLUSTERDOWN")
    });
    let keys: Vec<String> = (0..KEYS).map(|n| format!("many:{n}")).collect();
    let mut mget = vec!["MGET"];
    mget.extend(keys.iter().map(String::as_str));
    let mut large = proxy.connect();
    large.send_command(&mget).expect("sent");
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(4) {
        for conn in &mut conns {
            let asked = Instant::now();
            assert_eq!(conn.ask("PING"), "+PONG\r\n");
            slowest = slowest.max(asked.elapsed());
        }
        thread::sleep(Duration::from_millis(10));
    }
    println!("the slowest PING took {slowest:?}");
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    assert!(large.reply().expect("one reply").starts_with(b"-"));
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
