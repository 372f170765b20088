//! Scarce things are shared: no machine takes all dedicated connections, transfers, waits, checks of passwords or room for subscriptions, and clients
//! that wait are served in turn.

use crate::pubsub::{confirms, listens};
use crate::words::{Story, large_set, request};
use engine::Settings;
use engine::acl::Users;
use engine::limits::LEASES_OPENING_MAX;
use engine::policy::{Per, Policies, Rate, Rule, Rules, Unit, What};

const MIB: usize = 1 << 20;

/// So many clients from this address that wait for ever; how many of them have a connection.
fn block(story: &mut Story, host: &str, count: usize) -> usize {
    let before = story.open_conns();
    for number in 0..count {
        story.client(&format!("blocked{number}@{host}")).says("BLPOP none 0");
    }
    story.open_conns() - before
}

#[test]
fn one_machine_that_waits_on_all_leaves_the_others_theirs() {
    let mut users = Users::default();
    users.set(b"app", &[b"on", b"nopass", b"allkeys", b"+@all"]).expect("rules");
    let mut settings = Settings { users: users.into(), ..Settings::default() };
    settings.limits.leases_max = 16;
    let mut story = Story::with(settings);
    assert_eq!(block(&mut story, "10.0.0.1", 40), 12, "three quarters");
    // Transactions go on, also those of that machine.
    for (client, lines) in [
        ("same@10.0.0.1", ["WATCH k", "UNWATCH"]),
        ("other@10.0.0.2", ["WATCH k", "UNWATCH"]),
        ("same@10.0.0.1", ["MULTI", "DISCARD"]),
    ] {
        story.client(client).says(lines);
        story.server().gets(lines).answers(["+OK", "+OK"]);
        story.client(client).gets(["+OK", "+OK"]);
    }
    // And so do commands that wait, of another address and of another user.
    story.client("b@10.0.0.2").says("BLPOP l 0");
    story.conn(13).gets("BLPOP l 0");
    story.client("c@10.0.0.1").says(["AUTH app x", "BLPOP l 0"]).gets("+OK");
    story.conn(14).gets("BLPOP l 0");
    // Now only transactions find one.
    story.client("d@10.0.0.3").says("BLPOP l 0");
    assert_eq!(story.open_conns(), 14);
    story.client("e@10.0.0.3").says("MULTI");
    story.conn(15).gets("MULTI");
    // The first that becomes free is not for the machine that has most.
    story.conn(1).gets("BLPOP none 0").answers("nil");
    story.conn(1).gets("BLPOP l 0").answers("nil");
    story.client("d@10.0.0.3").gets("nil");
}

// Found by an attack: respool judged transactions and commands that wait each by themselves, and one machine had all connections.
#[test]
fn one_machine_that_waits_and_has_transactions_leaves_the_others_theirs() {
    for lines in [["WATCH k", "BLPOP none 0"], ["BLPOP none 0", "WATCH k"]] {
        let mut story = Story::with_limits(|limits| limits.leases_max = 32);
        for (kind, line) in lines.into_iter().enumerate() {
            for number in 0..40 {
                story.client(&format!("{kind}.{number}@10.0.0.1")).says(line);
            }
        }
        let taken = story.open_conns();
        assert!((28..=29).contains(&taken), "{taken} for {lines:?}");
        for (number, line) in ["WATCH k", "BLPOP l 0"].into_iter().enumerate() {
            story.client(&format!("other@10.0.0.{}", number + 2)).says(line);
            story.conn(taken + 1 + number).gets(line);
        }
    }
}

#[test]
fn one_machine_that_subscribes_to_all_that_fits_leaves_room_for_the_others() {
    let mut story = Story::with_limits(|limits| limits.memory_max_bytes = 2 << 30);
    // Names of half a MiB: one user at one address takes seven eighths of 256 MiB, with any number of connections.
    let mut taken = 0;
    loop {
        let client = format!("a{}@10.0.0.1", taken / 100);
        let topic = format!("{taken}.{}", "x".repeat(MIB / 2));
        story.client(&client).says(&*format!("SUBSCRIBE {topic}"));
        let error = story.client(&client).takes_text();
        if !error.is_empty() {
            assert!(error.contains("there is no room for more"), "{error}");
            break;
        }
        let confirms = confirms(&format!("subscribe {topic} 1"));
        assert_eq!(story.conn(1).takes_requests(), 1);
        story.conn(1).answers(&*confirms);
        assert!(story.client(&client).takes_text().len() > MIB / 2);
        taken += 1;
    }
    assert!((440..=448).contains(&taken), "{taken} of 512");
    listens(&mut story, "b@10.0.0.2", "news", 1);
}

#[test]
fn who_waits_is_served_in_turn_by_address_and_the_others_get_their_error_in_time() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 1);
    for name in ["a1@10.0.0.1", "a2@10.0.0.1", "a3@10.0.0.1", "b1@10.0.0.2", "c1@10.0.0.3"] {
        story.client(name).says(&*format!("BLPOP {name} 0"));
        story.after_ms(1);
    }
    for name in ["a1@10.0.0.1", "a2@10.0.0.1", "b1@10.0.0.2", "c1@10.0.0.3"] {
        story.conn(1).gets(&*format!("BLPOP {name} 0")).gets_nothing();
        if !name.starts_with('c') {
            story.conn(1).answers("nil");
        }
    }
    story.client("d@10.0.0.4").says("BLPOP d 0");
    story.after_ms(9_998);
    let error = "-ERR respool: no connection of its own became free within 10000 ms (see limits.leases_max)";
    story.client("a3@10.0.0.1").gets(error);
    story.client("d@10.0.0.4").gets_nothing();
    story.after_ms(10).client("d@10.0.0.4").gets(error);
}

#[test]
fn who_watches_counts_among_those_that_wait_when_it_waits() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 2);
    story.client("a").says("BLPOP a 0");
    story.conn(1).gets("BLPOP a 0");
    story.client("b").says("WATCH k");
    story.conn(2).gets("WATCH k").answers("+OK");
    story.client("b").gets("+OK").says(["GET k", "BLPOP b 0"]);
    story.conn(2).gets("GET k").answers("nil");
    // Only one of two may wait; its own connection is no way around that.
    story.conn(2).gets_nothing();
    story.client("b").gets("nil");
    story.conn(1).answers("nil");
    story.conn(2).gets("BLPOP b 0").answers("nil");
    story.client("b").gets("nil").says("GET k");
    story.conn(2).gets("GET k").answers("nil");
    // What it waited for is over, and the next may wait.
    story.client("a").gets("nil").says("BLPOP a 0");
    story.conn(1).gets("BLPOP a 0");
    // It gives up as any other.
    story.client("b").gets("nil").says("BLPOP b 0");
    story.after_ms(10_000);
    assert!(story.client("b").takes_text().contains("limits.leases_max"));
}

#[test]
fn one_machine_that_streams_on_all_leaves_the_others_theirs() {
    let mut story = Story::with_limits(|limits| limits.large_transfers_max = 4);
    let begun = &large_set("big", MIB)[..MIB / 2];
    for number in 0..6 {
        story.client(&format!("a{number}")).sends(begun);
    }
    assert_eq!(story.open_conns(), 3);
    story.client("b@10.0.0.2").sends(begun);
    assert_eq!(story.open_conns(), 4);
    story.client("c@10.0.0.3").sends(begun);
    assert_eq!(story.open_conns(), 4);
    // The next one that is free is for who has none.
    story.client("a0").sends(&large_set("big", MIB)[MIB / 2..]);
    story.conn(1).gets_large_and_answers();
    story.client("a0").gets("+OK");
    assert!(story.conn(1).bytes_of_unfinished() > 0, "the next one uses its connection");
    story.client("c@10.0.0.3").sends(&large_set("big", MIB)[MIB / 2..]);
    story.conn(1).gets_large_and_answers();
    story.client("c@10.0.0.3").gets("+OK");
}

// Found by a test from outside: large requests to a node that hangs held all places, and requests to the other nodes waited for `request_ms`.
#[test]
fn a_node_that_hangs_leaves_places_for_large_requests_to_other_nodes() {
    let mut story = Story::warm_cluster_with(|settings| settings.limits.large_transfers_max = 16);
    let before = story.connects_to("n1");
    for number in 0..20 {
        story.client(&format!("a{number}")).sends(&large_set("a4", MIB));
    }
    assert_eq!(story.connects_to("n1") - before, 12);
    let before = story.connects_to("n2");
    story.client("b").sends(&large_set("b4", MIB));
    assert_eq!(story.connects_to("n2") - before, 1);
    assert!(story.node("n2").takes_one().is_some_and(|line| line.starts_with("SET b4 xxx")));
    story.node("n2").answers("+OK");
    story.client("b").gets("+OK");
}

#[test]
fn a_node_that_hangs_leaves_connections_for_transactions_at_other_nodes() {
    let mut story = Story::warm_cluster_with(|settings| settings.limits.leases_max = 16);
    let before = story.connects_to("n1");
    for number in 0..20 {
        story.client(&format!("a{number}")).says("WATCH a4");
    }
    assert_eq!(story.connects_to("n1") - before, 12);
    story.client("b").says("WATCH b4");
    story.node("n2").gets("WATCH b4").answers("+OK");
    story.client("b").gets("+OK");
}

// Found by a test from outside: 300 clients a second that began to wait at a node that hangs, and left, kept all others from connections to the other nodes.
#[test]
fn a_node_that_accepts_no_connection_leaves_others_theirs() {
    let mut story = Story::warm_cluster().by_hand();
    let before = ["n1", "n2"].map(|node| story.connects_to(node));
    for number in 0..2 * LEASES_OPENING_MAX {
        story.client(&format!("a{number}@10.0.{}.1", number % 8)).says("BLPOP a4 0");
    }
    story.client("b").says("BLPOP b4 0");
    story.client("c").says("WATCH b4");
    let after = ["n1", "n2"].map(|node| story.connects_to(node));
    assert_eq!([after[0] - before[0], after[1] - before[1]], [LEASES_OPENING_MAX, 2]);
}

#[test]
fn one_machine_that_waits_for_a_rate_leaves_others_room_to_wait() {
    let detail =
        Rate { unit: Unit::Requests, per_s: 1, burst: 1, per: Per::Address, delay_ms: 60_000 };
    let what = What::new(&["get"], Vec::new(), false).expect("a command");
    let rate = vec![Rule { what, name: String::new(), error: None, detail }];
    let rules = Rules { rate, waiting_max: 8, ..Rules::default() };
    let settings =
        Settings { policies: Policies::new(rules).map(Into::into), ..Settings::default() };
    let mut story = Story::with(settings);
    let mut refused = 0;
    for number in 0..12 {
        let name = format!("a{number}");
        story.client(&name).says("GET k");
        refused += usize::from(story.client(&name).takes_text().contains("too many requests"));
    }
    // One went, and of those that wait one place at least is left.
    assert_eq!(refused, 12 - 1 - 7);
    story.client("b@10.0.0.2").says(["GET k", "GET k"]).gets_nothing();
    story.after_ms(1_100);
    let all: Vec<String> = std::iter::from_fn(|| story.conn(1).takes_one()).collect();
    assert_eq!(all.len(), 2 + 2, "{all:?}");
}

#[test]
fn one_machine_that_caches_with_noloop_leaves_the_others_theirs() {
    let mut story = Story::with_limits(|limits| limits.noloop_conns_max = 4);
    let mut taken = 0;
    for (number, host) in ["10.0.0.1"; 4].into_iter().chain(["10.0.0.2"]).enumerate() {
        let name = format!("n{number}@{host}");
        story.client(&name).says(["HELLO 3", "CLIENT TRACKING ON NOLOOP", "GET k"]);
        let text = story.client(&name).takes_text();
        let ok = text.ends_with("+OK\r\n");
        assert!(ok || text.ends_with("-ERR respool: with CLIENT TRACKING NOLOOP as many clients as may have a connection of their own (limits.noloop_conns_max)\r\n") || text.contains("NOLOOP"), "{text}");
        taken += usize::from(ok);
        assert!(ok || host == "10.0.0.1", "{text}");
    }
    assert_eq!(taken, 3 + 1);
    story.client("plain").sends(&request("PING")).gets("+PONG");
}

// Found end to end: users stand in the order of their names, so a new one took the place, and the share, of another.
#[test]
fn a_user_that_comes_later_is_somebody_else() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 8);
    assert_eq!(block(&mut story, "10.0.0.1", 10), 6);
    let mut users = Users::default();
    for name in [&b"app"[..], b"zoe"] {
        users.set(name, &[b"on", b"nopass", b"allkeys", b"+@all"]).expect("rules");
    }
    story.reconfigures(|settings| settings.users = users.into());
    story.client("a").says(["AUTH app x", "BLPOP l 0"]).gets("+OK");
    story.server().gets("BLPOP l 0");
    assert_eq!(story.open_conns(), 7);
}

/// So many clients at an address ask for much, each in a database of its own, and do not read.
fn keep_connections(story: &mut Story, host: &str, dbs: std::ops::Range<usize>) {
    let big = [b"$6000000\r\n", vec![b'v'; 6_000_000].as_slice(), b"\r\n"].concat();
    for db in dbs {
        let name = format!("big{db}@{host}");
        story.client(&name).says(&format!("SELECT {db}")).gets("+OK").stops_taking();
        story.client(&name).says(["GET big", "GET big"]);
        story.server().gets("GET big").sends(&big[..5_900_000]);
        story.after_ms(1);
    }
}

// Found by an attack: clients that did not read kept all connections to a server, one in each database.
#[test]
fn connections_that_only_slow_readers_wait_for_make_room() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 4);
    keep_connections(&mut story, "10.0.0.1", 1..5);
    assert_eq!(story.open_conns(), 4);
    // The one that has read nothing for the longest time goes, and its connection.
    story.client("b@10.0.0.2").says("SELECT 9").gets("+OK").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("b@10.0.0.2").gets("nil");
    assert_eq!(story.open_conns(), 4);
    story.client("big1@10.0.0.1").is_closed();
    story.client("big2@10.0.0.1").is_open();
    // So it is when they are in the same database.
    story.client("c@10.0.0.3").says("SELECT 2").gets("+OK").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("c@10.0.0.3").gets("nil");
    // And when what needs it is a large request.
    let large = format!("*3\r\n$3\r\nSET\r\n$1\r\nL\r\n$600000\r\n{}\r\n", "x".repeat(600_000));
    story.client("d@10.0.0.4").sends(&large.as_bytes()[..300_000]);
    story.client("d@10.0.0.4").sends(&large.as_bytes()[300_000..]);
    assert_eq!(story.server().takes_requests(), 1);
    story.server().answers("+OK");
    story.client("d@10.0.0.4").gets("+OK");
}

#[test]
fn of_slow_readers_those_of_the_group_with_most_connections_go_first() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 5);
    keep_connections(&mut story, "10.0.0.7", 1..2);
    story.after_ms(5);
    keep_connections(&mut story, "10.0.0.1", 2..6);
    for (db, gone) in [(8, 2), (9, 3)] {
        let name = format!("b{db}@10.0.0.2");
        story.client(&name).says(&format!("SELECT {db}")).gets("+OK").says("GET k");
        story.server().gets("GET k").answers("nil");
        story.client(&name).gets("nil").says("GET l");
        story.client(&format!("big{gone}@10.0.0.1")).is_closed();
    }
    story.client("big1@10.0.0.7").is_open();
    // Whoever asks has most itself: one of its own goes.
    story.client("d@10.0.0.1").says("SELECT 10").gets("+OK");
    story.client("big1@10.0.0.7").is_open();
    story.client("big4@10.0.0.1").is_closed();
}

#[test]
fn whoever_waits_behind_a_slow_reader_keeps_the_connection() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 1);
    story.client("a").says("GET big").stops_taking();
    story.client("b").says("GET b");
    let big = [b"$6000000\r\n", vec![b'v'; 6_000_000].as_slice(), b"\r\n"].concat();
    story.server().sends(&big[..5_900_000]);
    let full = "-ERR respool: no upstream connection free (limits.upstream_conns_max)";
    story.client("c@10.0.0.2").says("SELECT 1").gets(full);
    story.server().sends(&[&big[5_900_000..], b"$1\r\nb\r\n"].concat());
    story.after_ms(30).client("b").gets("\"b\"");
    story.client("a").is_open();
}
