//! Row 25: what a node says of its own accord, because of its limits or its state.
//!
//! OOM, BUSY, NOREPLICAS and READONLY are answers to a request and go to its client as they are.
//! `max number of clients` and NOAUTH meet the proxy while it connects: they must end up with those
//! who wait for that node and never shift anybody's replies. LOADING and MASTERDOWN are waited out,
//! or another node is asked.
//!
//! Invariant: an error comes in the node's own words, to the clients of that node.

use std::thread;
use std::time::Duration;

use testkit::cluster::RedisCluster;
use testkit::{Conn, RedisServer, Verdict, wait};

use crate::judge::Expect;
use crate::load::Load;
use crate::run::run;
use crate::stage::{IMPATIENT, SOON, Scale, clients, front, front_of, key_on, served};

/// How long a recovery may take.
const RECOVERY: Duration = Duration::from_secs(2);
/// What the limits of this test are told of by, each of which must come.
const LIMITS: [&str; 5] = ["OOM ", "BUSY ", "NOREPLICAS ", "NOAUTH ", "max number of clients"];

/// Closes all connections of clients to a node but this one.
fn cut_clients(admin: &mut Conn) {
    admin.ask("CLIENT KILL TYPE normal SKIPME yes");
}

/// A script without an end, until it is killed.
fn busy(cluster: &RedisCluster, node: usize, how_long: Duration) {
    let mut looping = cluster.node(node).connect();
    let key = key_on(node, 4_600);
    looping.send_command(&["EVAL", "while true do end", "1", &key]).expect("script");
    let mut killer = cluster.node(node).connect();
    wait::until_true("the script to run", SOON, || killer.ask("PING").starts_with("-BUSY"));
    thread::sleep(how_long);
    assert_eq!(killer.ask("SCRIPT KILL"), "+OK\r\n");
}

/// Lets a node write its data and read it again, in a second or so.
fn load_again(admin: &mut Conn) {
    let keys = admin.ask("DBSIZE");
    let keys: u64 = keys.trim_start_matches(':').trim_end().parse().expect("a number");
    let delay_us = 1_000_000 / keys.max(1);
    admin.ask(&format!("CONFIG SET key-load-delay {delay_us}"));
    assert_eq!(admin.ask("DEBUG RELOAD"), "+OK\r\n");
    admin.ask("CONFIG SET key-load-delay 0");
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_25_a_node_at_its_limits() {
    let scale = Scale::long();
    let cluster = RedisCluster::with(3, 0)
        .node_timeout_ms(15_000)
        .args(&["--enable-debug-command", "yes", "--busy-reply-threshold", "50"])
        .args(&["--loading-process-events-interval-bytes", "1024"])
        .start();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 0, scale);
    let mut conns = clients(&proxy);
    let mut admin = cluster.node(1).connect();
    let each = scale.phase / 3;
    let report = run(&mut proxy, load, scale, |_| {
        let mut again = |what: &str| {
            let took = served(&mut conns, &[1]);
            println!("served {took:?} after {what}");
            assert!(took < RECOVERY, "{what}: {took:?}");
        };
        for (option, bad, good) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
            admin.ask(&format!("CONFIG SET {option} {bad}"));
            thread::sleep(each);
            admin.ask(&format!("CONFIG SET {option} {good}"));
            again(option);
        }
        busy(&cluster, 1, each);
        again("a script");
        load_again(&mut admin);
        again("loading");
        for (option, bad, good) in [("maxclients", "1", "10000"), ("requirepass", "new", "")] {
            assert_eq!(admin.command(&["CONFIG", "SET", option, bad]).expect("reply"), b"+OK\r\n");
            cut_clients(&mut admin);
            thread::sleep(each);
            assert_eq!(admin.command(&["CONFIG", "SET", option, good]).expect("reply"), b"+OK\r\n");
            again(option);
        }
    });
    let texts = [&LIMITS[..], &["LOADING ", "-ERR respool: upstream "]].concat();
    Expect { texts, ..Expect::hits(&[1]) }.judge(&report);
    for limit in LIMITS {
        let told = |verdict: &Verdict| verdict.error_texts.keys().any(|text| text.contains(limit));
        assert!(report.groups.iter().any(|(_, verdict)| told(verdict)), "nobody was told: {limit}");
    }
}

/// A read of what this primary has, and so its replica.
fn read_of(primary: usize) -> Vec<u8> {
    format!("GET {}\r\n", key_on(primary, 4_600)).into_bytes()
}

/// Replicas that lose their primary all the time and say so (`MASTERDOWN`).
fn masterdown(scale: Scale) {
    let cluster = RedisCluster::with(3, 1)
        .node_timeout_ms(15_000)
        .args(&["--replica-serve-stale-data", "no"])
        .start();
    let options = [&IMPATIENT[..], &["--reads-policy", "prefer-replica"]].concat();
    let mut proxy = front(&cluster, &options);
    let load = Load::usual(&proxy, &cluster, 0, scale).each(|checker| checker.stale_reads = true);
    let report = run(&mut proxy, load, scale, |story| {
        let mut replicas: Vec<Conn> = (3..6).map(|node| cluster.node(node).connect()).collect();
        let mut seen = 0;
        for replica in &mut replicas {
            assert_eq!(replica.ask("READONLY"), "+OK\r\n");
        }
        while story.begun.elapsed() < scale.phase {
            for (nth, replica) in replicas.iter_mut().enumerate() {
                // In one piece: a millisecond later the replica has its primary again.
                let lost = [b"CLIENT KILL TYPE master\r\n".to_vec(), read_of(nth)];
                let said = replica.pipeline(&lost).expect("replies");
                seen += u32::from(said[1].starts_with(b"-MASTERDOWN"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        assert!(seen > 3, "{seen}: the replicas kept their primaries");
        cluster.wait_ok();
    });
    // The primaries are there all the time.
    Expect::default().judge(&report);
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_25_replicas_that_have_lost_their_primary() {
    masterdown(Scale::long());
}

#[test]
fn short_row_25_replicas_that_have_lost_their_primary() {
    masterdown(Scale::short());
}

// A server that became a replica behind the proxy's back.
#[test]
fn short_row_25_a_replica_refuses_writes_in_its_own_words() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let proxy = front_of(&server.endpoint().url(), &IMPATIENT);
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    let at = other.endpoint().tcp();
    assert_eq!(server.connect().ask(&format!("REPLICAOF {} {}", at.ip(), at.port())), "+OK\r\n");
    let mut direct = server.connect();
    let own_words = direct.ask("SET k w");
    assert!(own_words.starts_with("-READONLY "), "{own_words}");
    // In the middle of a pipeline, with right answers around it.
    for word in ["ECHO", "PING"] {
        conn.send_command(&["SET", "k", "w"]).expect("sent");
        conn.send_command(&[word, "after"]).expect("sent");
        assert_eq!(conn.reply().expect("a reply"), own_words.as_bytes());
        assert_eq!(conn.reply().expect("a reply"), b"$5\r\nafter\r\n");
    }
    assert_eq!(server.connect().ask("REPLICAOF NO ONE"), "+OK\r\n");
    wait::until_true("writes", SOON, || conn.ask("SET k w") == "+OK\r\n");
}

// Row 25 of the end-to-end tests has the other limits. This one meets the proxy while it connects.
#[test]
fn short_row_25_a_server_without_room_for_clients_is_quoted() {
    let server = RedisServer::start();
    let proxy = front_of(&server.endpoint().url(), &IMPATIENT);
    let mut conns = clients(&proxy);
    let mut admin = server.connect();
    assert_eq!(admin.ask("CONFIG SET maxclients 1"), "+OK\r\n");
    for _ in 0..5 {
        cut_clients(&mut admin);
        for conn in &mut conns {
            wait::until_true("the reason", SOON, || {
                // A request, a failed one, and one that the proxy answers itself: each its own.
                conn.send_command(&["INCR", "n"]).expect("sent");
                conn.send_command(&["ECHO", "after"]).expect("sent");
                let error = String::from_utf8(conn.reply().expect("a reply")).expect("text");
                assert_eq!(conn.reply().expect("a reply").last(), Some(&b'\n'));
                error.contains("max number of clients reached")
            });
        }
    }
    assert_eq!(admin.ask("CONFIG SET maxclients 1000"), "+OK\r\n");
    for conn in &mut conns {
        wait::until_true("service", SOON, || conn.ask("INCR n").starts_with(':'));
        assert_eq!(conn.ask("ECHO mine"), "$4\r\nmine\r\n");
    }
}
