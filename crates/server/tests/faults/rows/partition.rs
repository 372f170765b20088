//! Rows 13 to 17: what lies between the proxy and one of three nodes, as a relay makes it.
//!
//! The node itself and its cluster are whole all the time, so nothing that was acknowledged may be
//! lost, and the proxy is alone with the fault.
//!
//! Invariant: one node that is out of reach, or slow, takes its own keys away and nobody else's.

use std::thread;
use std::time::{Duration, Instant};

use testkit::Conn;
use testkit::frames::{quote, request};
use testkit::relay::{End, Faults};

use crate::judge::Expect;
use crate::load::Load;
use crate::run::run;
use crate::stage::{IMPATIENT, Scale, clients, front, key_on, served, three_behind_relays};

/// How long a recovery may take.
const RECOVERY: Duration = Duration::from_secs(2);
/// How soon a node that refuses is told of.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Attempts to connect in a second, to one node.
const ATTEMPTS_EACH_SECOND: u64 = 10;
/// What errors say.
const NODE: [&str; 1] = ["-ERR respool: upstream "];

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_13_a_silent_partition() {
    let scale = Scale::long();
    let cluster = three_behind_relays();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 0, scale);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let relay = cluster.node(1).relay();
    let report = run(&mut proxy, load, scale, |story| {
        relay.set(|faults| faults.blackhole = true);
        thread::sleep(scale.phase);
        relay.set(|faults| faults.blackhole = false);
        story.healed();
        let took = served(&mut conns, &[1]);
        assert!(took < RECOVERY, "{took:?}");
    });
    Expect { texts: NODE.to_vec(), ..Expect::hits(&[1]) }.judge(&report);
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_14_a_partition_with_resets() {
    let scale = Scale::long();
    let cluster = three_behind_relays();
    // The longest wait between attempts is what a recovery takes: nobody tells of it.
    let options = [&IMPATIENT[..], &["--timeouts-reconnect-max-ms", "1000"]].concat();
    let mut proxy = front(&cluster, &options);
    let load = Load::usual(&proxy, &cluster, 0, scale);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let relay = cluster.node(1).relay();
    let report = run(&mut proxy, load, scale, |story| {
        relay.set(|faults| faults.refuse = true);
        relay.end_all(End::Reset);
        let times = error_times(&mut conns[0], &key_on(1, 4_500), scale.phase);
        let attempts = relay.refused() as u64;
        relay.set(|faults| faults.refuse = false);
        story.healed();
        let took = served(&mut conns, &[1]);
        assert!(took < RECOVERY, "{took:?}");

        let (middle, last) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{} errors, half of them after {middle:?}, p99 {last:?}", times.len());
        assert!(middle < AT_ONCE, "{middle:?}");
        println!("{attempts} attempts to connect in {:?}", scale.phase);
        // At the beginning each worker tries more often than later on.
        let most = ATTEMPTS_EACH_SECOND * (scale.phase.as_secs() + 1);
        assert!(attempts <= most, "{attempts} attempts, at most {most}");
    });
    Expect { texts: NODE.to_vec(), ..Expect::hits(&[1]) }.judge(&report);
}

/// How long errors take, sorted; asked for twenty times a second.
fn error_times(conn: &mut Conn, key: &str, how_long: Duration) -> Vec<Duration> {
    let end = Instant::now() + how_long;
    let mut times = Vec::new();
    while Instant::now() < end {
        let asked = Instant::now();
        // The first ones may be asked before the loss is known.
        if conn.ask(&format!("GET {key}")).starts_with('-') {
            times.push(asked.elapsed());
        }
        thread::sleep(Duration::from_millis(50));
    }
    times.sort();
    times
}

/// First replies are held back, so requests are executed and nobody hears of it; then requests are.
fn one_way(scale: Scale) {
    let cluster = three_behind_relays();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 0, scale);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let relay = cluster.node(1).relay();
    let report = run(&mut proxy, load, scale, |story| {
        relay.set(|faults| faults.hold_replies = true);
        thread::sleep(scale.phase);
        relay.set(|faults| faults.hold_replies = false);
        let took = served(&mut conns, &[1]);
        assert!(took < RECOVERY, "{took:?}");
        relay.set(|faults| faults.hold_requests = true);
        thread::sleep(scale.phase);
        relay.set(|faults| faults.hold_requests = false);
        story.healed();
        let took = served(&mut conns, &[1]);
        assert!(took < RECOVERY, "{took:?}");
    });
    Expect { texts: NODE.to_vec(), ..Expect::hits(&[1]) }.judge(&report);
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_15_one_direction_is_cut() {
    one_way(Scale::long());
}

#[test]
fn short_row_15_one_direction_is_cut() {
    one_way(Scale::short());
}

// A read may be asked again when its reply does not come, since that changes nothing; but not when
// its client has sent a write of the same key behind it, which may have been executed meanwhile.
#[test]
#[ignore = "with the rows: make test-faults"]
fn row_15_a_read_is_not_asked_again_behind_a_later_write() {
    let cluster = three_behind_relays();
    let proxy = front(&cluster, &["--timeouts-request-ms", "500", "--timeouts-connect-ms", "500"]);
    let key = key_on(1, 7);
    let mut conn = proxy.connect();
    assert_eq!(conn.ask(&format!("SET {key} old")), "+OK\r\n");
    let relay = cluster.node(1).relay();
    relay.set(|faults| faults.hold_replies = true);
    let requests = [["GET", &key, ""], ["SET", &key, "new"]];
    let requests = requests.map(|words| request(&words[..if words[2].is_empty() { 2 } else { 3 }]));
    conn.send(&requests.concat()).expect("sent");
    // The proxy gives the connection up after 500 ms and makes a new one, whose greeting waits too.
    thread::sleep(Duration::from_millis(700));
    relay.set(|faults| *faults = Faults::default());
    let read = conn.reply().expect("one reply");
    let write = conn.reply().expect("another one");
    assert!(write.starts_with(b"-"), "its fate is unknown");
    assert!(read == b"$3\r\nold\r\n" || read.starts_with(b"-"), "{}", quote(&read, 80));
}

// A connection for a large request that is made and does not come to its greeting is wanted by nobody
// when its client has been refused; it must go without taking its worker with it.
#[test]
#[ignore = "with the rows: make test-faults"]
fn row_15_large_requests_for_a_node_that_does_not_greet() {
    let cluster = three_behind_relays();
    let mut proxy = front(&cluster, &IMPATIENT);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let relay = cluster.node(1).relay();
    relay.set(|faults| faults.hold_replies = true);
    let (key, value) = (key_on(1, 7), "x".repeat(300 * 1024));
    let end = Instant::now() + Duration::from_secs(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            let (mut conn, key, value) = (proxy.connect(), &key, &value);
            scope.spawn(move || {
                while Instant::now() < end {
                    let reply = conn.command(&["SET", key, value]).expect("one reply");
                    assert!(reply.starts_with(b"-"), "nothing comes back from there");
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    proxy.assert_alive();
    relay.set(|faults| *faults = Faults::default());
    let took = served(&mut conns, &[1]);
    assert!(took < RECOVERY, "{took:?}");
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_16_one_node_is_far_away() {
    let scale = Scale::long();
    let cluster = three_behind_relays();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 0, scale);
    let relay = cluster.node(2).relay();
    let report = run(&mut proxy, load, scale, |_| {
        // There and back, so half of it in each direction.
        relay.set(|faults| {
            faults.line_delay = Duration::from_millis(100);
            faults.line_jitter = Duration::from_millis(25);
        });
        thread::sleep(scale.phase);
        relay.set(|faults| *faults = Faults::default());
    });
    // Later, but without an error and in order.
    Expect { slow: vec![2], ..Expect::default() }.judge(&report);
}

/// One node takes 50 KB a second, and its clients have values of a megabyte for it.
fn narrow(scale: Scale) {
    let cluster = three_behind_relays();
    // The bytes that wait need the time that they need; it is the memory that is judged.
    let timeout = scale.phase + Duration::from_secs(60);
    let timeout_ms = timeout.as_millis().to_string();
    let mut proxy = front(&cluster, &["--timeouts-request-ms", &timeout_ms]);
    let load = Load::usual(&proxy, &cluster, 1, scale)
        .each(|checker| checker.deadline = timeout + Duration::from_secs(1))
        .home(0, |checker| checker.value_bytes_max = 1024 * 1024);
    let relay = cluster.node(0).relay();
    let report = run(&mut proxy, load, scale, |_| {
        relay.set(|faults| faults.bandwidth_bytes_per_s = 50_000);
        thread::sleep(scale.phase);
        relay.set(|faults| *faults = Faults::default());
    });
    Expect { slow: vec![0], ..Expect::default() }.judge(&report);
}

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_17_a_narrow_line_and_large_values() {
    narrow(Scale::long());
}

#[test]
fn short_row_17_a_narrow_line_and_large_values() {
    narrow(Scale::short());
}
