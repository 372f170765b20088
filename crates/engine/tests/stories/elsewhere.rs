//! Reads from other deployments: in front of the upstream, beside it, behind it, and what becomes of them when one fails.

use crate::words::cluster::seeds;
use crate::words::{Story, bulk, request, wire};
use engine::elsewhere::{Order, ReadTargetCounts};
use engine::limits::{BACKLOG_BYTES, WINDOW_MIN};
use engine::node::Address;
use engine::settings::{Limits, Node, Pool, ReadTargetSettings, ReadsElsewhere, Settings};

/// A target at a server of this name.
fn target(name: &str) -> ReadTargetSettings {
    let node = Node { address: Address::tcp(name, 6379), ..Settings::default().node };
    ReadTargetSettings { name: name.into(), node, pool: Pool::Standalone, outer_db: 0 }
}

fn options(order: Order, names: &[&str]) -> ReadsElsewhere {
    let targets = names.iter().map(|name| target(name)).collect();
    ReadsElsewhere { targets, order, ..ReadsElsewhere::default() }
}

fn story_with(elsewhere: ReadsElsewhere) -> Story {
    let mut story = Story::with(Settings { elsewhere, ..Settings::default() });
    story.server_says_to("COMMAND", "*0");
    story
}

/// One target, "b", that is asked first. Its connection is the first; the upstream's is the second.
fn story() -> Story {
    let mut story = story_with(options(Order::Targets, &["b"]));
    begin(&mut story);
    story
}

/// The same within these limits.
fn story_within(limits: Limits) -> Story {
    let elsewhere = options(Order::Targets, &["b"]);
    let mut story = Story::with(Settings { elsewhere, limits, ..Settings::default() });
    story.server_says_to("COMMAND", "*0");
    begin(&mut story);
    story
}

/// The upstream has a connection, and so has the client "a".
fn begin(story: &mut Story) {
    story.client("a").says("SET begin 1");
    story.server().gets("SET begin 1").answers("+OK");
    story.client("a").gets("+OK");
}

fn counts(story: &Story, number: usize) -> ReadTargetCounts {
    story.report().read_targets[number].counts
}

fn is_out(story: &Story, number: usize) -> bool {
    story.report().read_targets[number].is_out
}

fn back(story: &Story) -> u64 {
    story.report().reads_elsewhere.expect("there are targets").back
}

#[test]
fn reads_go_to_the_target_and_writes_to_the_upstream() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets_nothing();
    story.conn(1).gets("GET k").answers("\"there\"");
    story.client("a").gets("\"there\"").says("SET k 1");
    story.conn(1).gets_nothing();
    story.conn(2).gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    assert_eq!((counts(&story, 0).answered, back(&story)), (1, 0));
    assert!(story.engine.is_quiet() || story.engine.client_count() == 1);
}

#[test]
fn replies_of_a_pipeline_stay_in_its_order_whoever_is_faster() {
    let mut story = story();
    story.client("a").says(["SET x 1", "GET k", "INCR n", "MGET a b", "GET l", "SET y 2"]);
    story.conn(2).gets(["SET x 1", "INCR n", "SET y 2"]);
    story.conn(1).gets(["GET k", "MGET a b", "GET l"]).answers(["\"k\"", "*2\r\n:1\r\n:2\r\n"]);
    story.client("a").gets_nothing();
    story.conn(2).answers("+OK");
    story.client("a").gets(["+OK", "\"k\""]);
    story.conn(2).answers([":1", "+OK"]);
    story.client("a").gets([":1", "*2\r\n:1\r\n:2\r\n"]);
    story.conn(1).answers("\"l\"");
    story.client("a").gets(["\"l\"", "+OK"]);
}

#[test]
fn each_client_gets_its_own_reply() {
    let mut story = story();
    for name in ["b", "c", "d"] {
        story.client(name).says([&*format!("GET {name}1"), &*format!("GET {name}2")]);
    }
    story.conn(1).gets(["GET b1", "GET b2", "GET c1", "GET c2", "GET d1", "GET d2"]);
    story.client("c").dies();
    story.conn(1).answers(["\"b1\"", "\"b2\"", "\"c1\"", "\"c2\"", "\"d1\"", "\"d2\""]);
    story.client("b").gets(["\"b1\"", "\"b2\""]);
    story.client("d").gets(["\"d1\"", "\"d2\""]);
}

#[test]
fn what_is_no_plain_read_stays() {
    let mut story = story();
    let lines = ["GETEX k", "TOUCH k", "HSCAN h 0", "PFCOUNT p", "DBSIZE", "SCAN 0"];
    for line in lines {
        story.client("a").says(line);
        story.conn(1).gets_nothing();
        story.conn(2).gets(line).answers(":1");
        story.client("a").gets(":1");
    }
    // In a transaction, and while a key is watched, all is the upstream's.
    story.client("a").says("WATCH k");
    story.server().gets("WATCH k").answers("+OK");
    story.client("a").gets("+OK").says("GET k");
    story.server().gets("GET k").answers("\"1\"");
    story.client("a").gets("\"1\"").says(["MULTI", "GET k", "EXEC"]);
    story.server().gets(["MULTI", "GET k", "EXEC"]);
    story.server().answers(["+OK", "+QUEUED", "*1\r\n:1\r\n"]);
    story.client("a").gets(["+OK", "+QUEUED", "*1\r\n:1\r\n"]);
    story.conn(1).gets_nothing();
}

#[test]
fn a_target_that_breaks_is_left_out_until_it_answers_and_nobody_sees_an_error() {
    let mut story = story();
    story.client("a").says(["GET k", "SET x 1", "GET l"]);
    story.conn(1).gets(["GET k", "GET l"]);
    story.conn(2).gets("SET x 1").answers("+OK");
    story.conn(1).dies("reset by peer");
    // Both are asked of the upstream, at their places.
    story.conn(2).gets(["GET k", "GET l"]).answers(["\"k\"", "\"l\""]);
    story.client("a").gets(["\"k\"", "+OK", "\"l\""]);
    assert_eq!((back(&story), is_out(&story, 0)), (2, true));
    assert!(story.was_told("ReadTarget"));
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    story.client("a").gets("\"1\"");
    // It is asked for the key that failed; while it loads it stays out.
    story.after_ms(100);
    story.server().gets("EXISTS k").answers("-LOADING Redis is loading the dataset in memory");
    story.after_ms(199);
    story.server().gets_nothing();
    story.after_ms(1);
    story.server().gets("EXISTS k").answers(":0");
    assert!(!is_out(&story, 0));
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("\"2\"");
    story.client("a").gets("\"2\"");
    assert_eq!(counts(&story, 0).outages, 1);
}

#[test]
fn the_next_target_is_asked_before_the_upstream() {
    let mut story = story_with(options(Order::Targets, &["b", "c"]));
    begin(&mut story);
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("-LOADING Redis is loading the dataset in memory");
    story.conn(2).gets("GET k").answers("\"c\"");
    story.client("a").gets("\"c\"").says("GET k");
    // The first is out, so it is not even asked.
    story.conn(1).gets_nothing();
    story.conn(2).gets("GET k").answers("-ERR unknown command 'GET'");
    // What one target does not know, another one may; it stays in.
    story.conn(3).gets("GET k").answers("\"up\"");
    story.client("a").gets("\"up\"");
    assert!(is_out(&story, 0) && !is_out(&story, 1));
    assert_eq!((counts(&story, 0).failed, counts(&story, 1).refused), (1, 1));
}

#[test]
fn an_error_of_the_data_is_an_answer() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("-WRONGTYPE Operation against a key");
    story.client("a").gets("-WRONGTYPE Operation against a key");
    story.conn(2).gets_nothing();
    // What all say is the client's; the upstream's word counts.
    story.client("a").says("GETRANGE k a b");
    story.conn(1).gets("GETRANGE k a b").answers("-ERR value is not an integer or out of range");
    story.conn(2).gets("GETRANGE k a b").answers("-ERR value is not an integer or out of range!");
    story.client("a").gets("-ERR value is not an integer or out of range!");
}

#[test]
fn a_target_that_hangs_is_left_after_its_time_and_its_late_answer_is_nobodys() {
    let mut story = story();
    story.client("a").says(["GET k", "GET l"]);
    story.conn(1).gets(["GET k", "GET l"]);
    story.after_ms(499);
    story.conn(2).gets_nothing();
    story.after_ms(1);
    story.conn(2).gets(["GET k", "GET l"]).answers(["\"k\"", "\"l\""]);
    story.client("a").gets(["\"k\"", "\"l\""]);
    assert!(is_out(&story, 0));
    story.client("a").says("GET m");
    story.conn(2).gets("GET m").answers("\"m\"");
    story.client("a").gets("\"m\"");
    story.after_ms(100);
    // The question stands behind what it owes.
    story.conn(1).gets("EXISTS k").answers(["\"late\"", "\"late\"", ":1"]);
    story.client("a").gets_nothing();
    assert!(!is_out(&story, 0));
    story.client("a").says("GET n");
    story.conn(1).gets("GET n").answers("\"n\"");
    story.client("a").gets("\"n\"");
}

#[test]
fn by_chance_both_targets_are_asked_alike() {
    let mut story = story_with(options(Order::Random, &["b", "c"]));
    story.node_says_to("b", "GET", ":1").node_says_to("c", "GET", ":2");
    for _ in 0..200 {
        story.client("a").says("GET k");
        story.client("a").takes();
    }
    let [one, other] = [counts(&story, 0).answered, counts(&story, 1).answered];
    assert!(one + other == 200 && (60..=140).contains(&one), "{one} and {other}");
}

#[test]
fn keys_and_percent_say_which_reads() {
    let mut some = options(Order::Targets, &["b"]);
    some.keys = vec![b"user:*".to_vec()];
    let mut story = story_with(some.clone());
    begin(&mut story);
    story.client("a").says(["GET user:1", "GET x", "MGET user:1 x", "MGET user:1 user:2"]);
    story.conn(1).gets(["GET user:1", "MGET user:1 user:2"]).answers(["\"1\"", "*0"]);
    story.conn(2).gets(["GET x", "MGET user:1 x"]).answers(["\"x\"", "*0"]);
    story.client("a").gets(["\"1\"", "\"x\"", "*0", "*0"]);
    some.percent = 20;
    let mut story = story_with(some);
    story.node_says_to("b", "GET", ":1").node_says_to("127.0.0.1", "GET", ":2");
    for _ in 0..300 {
        story.client("a").says("GET user:1");
        story.client("a").takes();
    }
    let answered = counts(&story, 0).answered;
    assert!((30..=90).contains(&answered), "{answered}");
}

#[test]
fn only_a_key_that_comes_often_goes_there() {
    let mut story = story_with(ReadsElsewhere { hot_per_s: 50, ..options(Order::Targets, &["b"]) });
    begin(&mut story);
    story.node_says_to("b", "GET", ":1").node_says_to("127.0.0.1", "GET", ":2");
    let mut replies = Vec::new();
    for n in 0..100 {
        let cold = format!("GET cold{n}");
        story.client("a").says(["GET hot", &*cold]);
        replies.push(story.client("a").takes_text());
    }
    assert_eq!(replies[48], ":2\r\n:2\r\n");
    assert!(replies[50..].iter().all(|reply| reply == ":1\r\n:2\r\n"), "{replies:?}");
    // After two seconds without it, it is like others.
    story.after_ms(2_100);
    story.client("a").says("GET hot").gets(":2");
}

#[test]
fn the_other_protocol_goes_over_a_connection_that_speaks_it() {
    let mut story = story();
    story.client("c").says("HELLO 3");
    story.client("c").takes();
    story.client("c").says(["HGETALL h", "GET nosuch"]);
    let key = story.server().key();
    assert!(key.resp3);
    story.server().gets(["HGETALL h", "GET nosuch"]).answers(["%1\r\n+a\r\n:1\r\n", "_"]);
    story.client("c").gets(["%1\r\n+a\r\n:1\r\n", "_"]);
    story.client("a").says("HGETALL h");
    story.conn(1).gets("HGETALL h").answers("*0");
    story.client("a").gets("*0");
}

#[test]
fn another_database_is_the_same_there() {
    let mut story = story();
    story.client("a").says("SELECT 3");
    story.client("a").takes();
    story.client("a").says("GET k");
    assert_eq!(story.server().key().db, 3);
    story.server().gets("GET k").answers("\"3\"");
    story.client("a").gets("\"3\"");
    story.conn(1).gets_nothing();
    // The target begins in database 5, so what is 0 here is 5 there.
    let mut options = options(Order::Targets, &["b"]);
    options.targets[0].node.db = 5;
    let mut story = story_with(options);
    story.client("a").says("GET k");
    assert_eq!(story.server().key().db, 5);
}

#[test]
fn a_large_reply_comes_whole_and_one_beyond_the_bound_comes_from_the_upstream() {
    let limits = Limits { client_out_max_bytes: 1 << 20, ..Limits::default() };
    let mut story = story_within(limits);
    let large = "x".repeat(900_000);
    story.client("a").says(["GET k", "GET l"]);
    story.conn(1).gets(["GET k", "GET l"]);
    story.conn(1).sends(&wire(&format!("\"{large}\""))).answers("\"l\"");
    let mut whole = wire(&format!("\"{large}\""));
    whole.extend_from_slice(&wire("\"l\""));
    assert!(story.client("a").takes() == whole);
    let larger = "y".repeat(3 << 20);
    story.client("a").says(["GET k", "GET l"]);
    story.conn(1).gets(["GET k", "GET l"]);
    story.conn(1).sends(&wire(&format!("\"{larger}\""))).answers("\"l\"");
    story.client("a").gets_nothing();
    story.conn(2).gets("GET k").sends(&wire(&format!("\"{larger}\"")));
    let mut whole = wire(&format!("\"{larger}\""));
    whole.extend_from_slice(&wire("\"l\""));
    assert!(story.client("a").takes() == whole);
    assert!(!is_out(&story, 0), "a large reply is no failure");
}

#[test]
fn replies_that_come_from_many_servers_at_once_have_a_bound_together() {
    let limits = Limits { memory_max_bytes: 16 << 20, ..Limits::default() };
    let mut story = story_within(limits);
    let reply = wire(&format!("\"{}\"", "x".repeat(1 << 20)));
    let (begun, end) = reply.split_at(reply.len() - 1);
    let names: Vec<String> = (1..=12).map(|db| db.to_string()).collect();
    let mut conns = Vec::new();
    for name in &names {
        story.client(name).says(&format!("SELECT {name}"));
        story.client(name).takes();
        story.client(name).says("GET k");
        conns.push(story.connects_made());
        story.server().gets("GET k").sends(begun);
        let held = story.report().buffered_bytes;
        assert!(held < 6 << 20, "{held} bytes are held, of which a target may have a quarter");
    }
    let mut dropped = 0;
    for (name, conn) in names.iter().zip(conns) {
        story.conn(conn).sends(end);
        for number in 1..=story.connects_made() {
            if story.conn(number).waiting() > 0 {
                // The target's reply was dropped as it came.
                story.conn(number).gets("GET k").answers("nil");
                dropped += 1;
            }
        }
        assert!(!story.client(name).takes().is_empty(), "no reply in database {name}");
    }
    assert!((8..12).contains(&dropped), "{dropped} replies were dropped");
    assert!(!is_out(&story, 0), "a large reply is no failure");
}

#[test]
fn what_does_not_fit_goes_to_the_upstream() {
    let bound = ReadsElsewhere { inflight_max_bytes: 100, ..options(Order::Targets, &["b"]) };
    let mut story = story_with(bound);
    begin(&mut story);
    let keys: Vec<String> = (0..6).map(|n| format!("GET key{n}")).collect();
    story.client("a").says(keys.iter().map(String::as_str).collect::<Vec<_>>());
    // Each is 23 bytes.
    story.conn(1).gets(["GET key0", "GET key1", "GET key2", "GET key3"]);
    story.conn(2).gets(["GET key4", "GET key5"]).answers([":4", ":5"]);
    story.client("a").gets_nothing();
    story.conn(1).answers([":0", ":1", ":2", ":3"]);
    story.client("a").gets([":0", ":1", ":2", ":3", ":4", ":5"]);
    assert_eq!(counts(&story, 0).full, 2);
}

#[test]
fn the_upstream_first_and_a_target_when_it_fails() {
    let mut story = story_with(options(Order::Main, &["b"]));
    begin(&mut story);
    story.client("a").says(["GET k", "SET x 1", "GET l"]);
    story.conn(1).gets_nothing();
    story.conn(2).gets(["GET k", "SET x 1", "GET l"]).answers(["\"k\"", "+OK"]);
    story.client("a").gets(["\"k\"", "+OK"]);
    story.conn(2).answers("-LOADING Redis is loading the dataset in memory");
    story.client("a").gets_nothing();
    story.conn(1).gets("GET l").answers("\"l\"");
    story.client("a").gets("\"l\"").says(["GET m", "SET y 1", "GET n"]);
    // It breaks: reads have an answer all the same, and a write has not.
    story.conn(2).gets(["GET m", "SET y 1", "GET n"]).dies("reset by peer");
    story.conn(1).gets(["GET m", "GET n"]).answers(["\"m\"", "\"n\""]);
    let text = story.client("a").takes_text();
    assert!(
        text.starts_with("$1\r\nm\r\n-ERR respool: upstream ") && text.ends_with("$1\r\nn\r\n")
    );
}

// Found by a test from outside: 800 clients that asked for 200 kB each kept a SET of another client waiting for 25 s.
#[test]
fn large_reads_of_the_upstream_first_leave_turns_to_others() {
    let mut story = story_with(options(Order::Main, &["b"]));
    begin(&mut story);
    let reply = bulk(200_000);
    let names: Vec<String> = (0..40).map(|number| format!("large-{number}")).collect();
    for name in &names {
        story.client(name).says("GET v");
        story.conn(2).gets("GET v").sends(&reply);
        story.client(name).takes();
    }
    for name in &names {
        story.client(name).says(["GET v"; 20]);
    }
    let fits = BACKLOG_BYTES as usize / 200_000;
    let asked = story.conn(2).waiting();
    assert!(asked <= fits + 1, "{asked} replies of 200 kB are to come first");
    story.client("a").says("SET k 1");
    let (mut conn, mut answered) = (2, 0);
    loop {
        match story.conn(conn).takes_one().as_deref() {
            Some("SET k 1") => break,
            Some(_) => drop(story.conn(conn).sends(&reply)),
            // All others went on over a fresh connection.
            None => conn = story.connects_made(),
        }
        answered += 1;
        names.iter().for_each(|name| drop(story.client(name).takes()));
        assert!(answered < 800, "all others had all of their replies first");
    }
    // Those under way, and a turn of each client that waited before.
    assert!(answered <= fits + 40 * WINDOW_MIN as usize, "{answered} replies came first");
}

#[test]
fn reads_of_the_upstream_first_go_in_turn() {
    let limits = Limits { upstream_out_high_bytes: 64 << 10, ..Limits::default() };
    let elsewhere = options(Order::Main, &["b"]);
    let mut story = Story::with(Settings { elsewhere, limits, ..Settings::default() });
    story.server_says_to("COMMAND", "*0");
    begin(&mut story);
    story.conn(2).stops_taking();
    story.client("a").sends(&request(&format!("MGET {}", "key ".repeat(9_000).trim_end())));
    for waits in ["b1", "b2"] {
        story.client(waits).says(format!("GET {waits}").as_str());
    }
    // There is room again, and another client comes at that moment.
    story.client("c").sends_at_once(&request("GET c"));
    story.conn(2).takes_all();
    assert_eq!(story.conn(2).takes_one().map(|line| line.len() > 9_000), Some(true));
    story.conn(2).gets(["GET b1", "GET b2", "GET c"]);
}

#[test]
fn a_connection_with_large_reads_of_clients_that_are_gone_ends() {
    let mut story = story_with(options(Order::Main, &["b"]));
    begin(&mut story);
    let names: Vec<String> = (0..5).map(|number| number.to_string()).collect();
    for name in &names {
        story.client(name).says("GET v");
    }
    story.conn(2).gets(["GET v"; 5]).sends(&bulk(40 << 20)[..40_000]).is_open();
    names.iter().for_each(|name| story.client(name).dies());
    story.conn(2).is_closed();
    assert!(story.engine.is_quiet() || story.engine.client_count() == 1);
    story.client("a").says("SET k 1");
    story.conn(3).gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_read_that_is_kept_counts_with_its_record() {
    let kind =
        engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "read_targets").unwrap();
    for (order, conn) in [(Order::Main, 2), (Order::Targets, 1)] {
        let mut story = story_with(options(order, &["b"]));
        begin(&mut story);
        let before = story.report().memory[kind];
        story.client("a").says(["GET k"; 20]);
        let held = story.report().memory[kind] - before;
        assert!(held > 20 * 200, "{held}");
        story.conn(conn).gets(["GET k"; 20]).answers([":0"; 20]);
        story.client("a").gets([":0"; 20]);
        assert!(story.report().memory[kind] <= before + 1_000);
    }
}

#[test]
fn when_nobody_answers_the_upstreams_word_counts() {
    let mut story = story_with(options(Order::Main, &["b"]));
    begin(&mut story);
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("-LOADING the upstream");
    story.conn(1).gets("GET k").answers("-LOADING the target");
    story.client("a").gets("-LOADING the upstream");
    // Targets first: the last word is the upstream's, too.
    let mut story = story_with(options(Order::Targets, &["b"]));
    begin(&mut story);
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("-LOADING the target");
    story.conn(2).gets("GET k").answers("-LOADING the upstream");
    story.client("a").gets("-LOADING the upstream");
}

#[test]
fn a_slow_read_is_hedged_and_the_first_answer_counts() {
    let hedged =
        ReadsElsewhere { hedge_after_ms: 20, hedge_percent: 50, ..options(Order::Main, &["b"]) };
    let mut story = story_with(hedged);
    begin(&mut story);
    for _ in 0..4 {
        // Each that is answered in time brings half of one that is not.
        story.client("a").says("GET k");
        story.conn(2).gets("GET k").answers(":0");
        story.client("a").gets(":0");
    }
    story.client("a").says(["GET k", "GET l"]);
    story.conn(2).gets(["GET k", "GET l"]);
    story.after_ms(19);
    story.conn(1).gets_nothing();
    story.after_ms(1);
    story.conn(1).gets(["GET k", "GET l"]).answers(":1");
    story.client("a").gets(":1");
    // The upstream is faster for the second; what the others say later is nobody's.
    story.conn(2).answers([":2", ":3"]);
    story.client("a").gets(":3");
    story.conn(1).answers(":4");
    story.client("a").gets_nothing().says("SET x 1");
    story.conn(2).gets("SET x 1").answers("+OK");
    story.client("a").gets("+OK");
    assert_eq!((counts(&story, 0).hedged, counts(&story, 0).answered), (2, 1));
    // Not more than the share.
    story.client("a").says(["GET a", "GET b", "GET c", "GET d"]);
    story.conn(2).gets(["GET a", "GET b", "GET c", "GET d"]);
    story.after_ms(20);
    assert_eq!(story.conn(1).waiting(), 3);
    assert_eq!(story.report().reads_elsewhere.unwrap().unhedged, 1);
    story.conn(1).takes_requests();
    story.conn(1).answers([":1", ":2", ":3"]);
    story.client("a").gets([":1", ":2", ":3"]);
    story.conn(2).answers([":0", ":0", ":0", ":4"]);
    story.client("a").gets(":4");
}

#[test]
fn in_front_of_a_cluster_reads_go_back_to_the_owner() {
    let mut story = Story::cluster_with(|settings| {
        settings.elsewhere = options(Order::Targets, &["b"]);
    });
    story.server_says_to("COMMAND", "*0");
    let sets = ["SET a4 1", "SET b4 1", "SET c1 1"];
    story.client("a").says(sets);
    for (node, set) in ["n1", "n2", "n3"].into_iter().zip(sets) {
        story.node(node).gets(set).answers("+OK");
    }
    story.client("a").gets(["+OK", "+OK", "+OK"]).says(["GET a4", "SET a4 2"]);
    story.node("b").gets("GET a4").answers("\"1\"");
    story.node("n1").gets("SET a4 2").answers("+OK");
    story.client("a").gets(["\"1\"", "+OK"]);
    // Two owners: nobody could be asked for it in the place of the target.
    story.client("a").says("MGET a4 b4");
    story.node("b").gets_nothing();
    story.node("n1").gets("MGET a4").answers("*1\r\n:1\r\n");
    story.node("n2").gets("MGET b4").answers("*1\r\n:2\r\n");
    story.client("a").gets("*2\r\n:1\r\n:2\r\n").says(["GET a4", "GET b4"]);
    story.node("b").gets(["GET a4", "GET b4"]).dies("reset by peer");
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.client("a").gets_nothing();
    story.node("n1").gets("GET a4").answers("\"a\"");
    story.client("a").gets(["\"a\"", "\"b\""]);
}

#[test]
fn a_cluster_is_a_target_and_one_server_of_it_that_hangs_holds_up_its_own_keys_only() {
    let cluster = seeds(&["n1", "n2", "n3"]);
    let mut elsewhere = options(Order::Targets, &["b"]);
    (elsewhere.targets[0].pool, elsewhere.targets[0].node) = (cluster.pool, cluster.node);
    let mut story = story_with(elsewhere);
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    begin(&mut story);
    story.client("c").says("SET begin 1");
    story.node("127.0.0.1").gets("SET begin 1").answers("+OK");
    story.client("c").gets("+OK");
    story.client("a").says(["GET a4", "GET b4"]);
    story.node("n1").gets("GET a4");
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.client("c").says(["GET b4", "MGET a4 b4", "GET b8"]);
    story.node("n2").gets(["GET b4", "GET b8"]).answers(["\"b\"", "\"8\""]);
    // What it would have to put together is asked of the upstream.
    story.node("127.0.0.1").gets("MGET a4 b4").answers("*0");
    story.client("c").gets(["\"b\"", "*0", "\"8\""]);
    story.node("n1").answers("\"a\"");
    story.client("a").gets(["\"a\"", "\"b\""]);
    // A slot moves: the target's own ways follow it.
    story.client("a").says("GET a8");
    story.node("n1").gets("GET a8").moved("a8", "n2");
    story.node("n2").gets("GET a8").answers("\"8\"");
    story.client("a").gets("\"8\"");
}

#[test]
fn targets_come_and_go_and_no_client_sees_it() {
    let mut story = Story::new();
    story.server_says_to("COMMAND", "*0");
    begin(&mut story);
    let targets = |story: &mut Story, elsewhere: ReadsElsewhere| {
        story.reconfigures(|settings| settings.elsewhere = elsewhere);
    };
    targets(&mut story, options(Order::Targets, &["b"]));
    story.client("a").says(["GET k", "GET l"]);
    story.conn(2).gets(["GET k", "GET l"]).answers("\"there\"");
    story.client("a").gets("\"there\"");
    // The one goes while it is asked: the other is asked instead.
    targets(&mut story, options(Order::Targets, &["c"]));
    story.conn(2).is_closed();
    story.conn(3).gets("GET l").answers("\"c\"");
    story.client("a").gets("\"c\"").says(["GET m", "SET x 1"]);
    story.conn(3).gets("GET m");
    story.conn(1).gets("SET x 1").answers("+OK");
    // All go: the upstream answers, at the same place.
    targets(&mut story, ReadsElsewhere::default());
    story.conn(3).is_closed();
    story.conn(1).gets("GET m").answers("\"main\"");
    story.client("a").gets(["\"main\"", "+OK"]).says("GET n");
    story.conn(1).gets("GET n").answers("nil");
    story.client("a").gets("nil");
    assert!(story.report().read_targets.is_empty() && story.report().reads_elsewhere.is_none());
}

#[test]
fn a_target_that_stays_keeps_what_it_is_asked_wherever_it_stands() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(1).gets("GET k");
    let keys = vec![b"p:*".to_vec()];
    story.reconfigures(|settings| {
        settings.elsewhere = ReadsElsewhere { keys, ..options(Order::Targets, &["c", "b"]) };
    });
    story.conn(1).is_open().answers("\"b\"");
    story.client("a").gets("\"b\"").says(["GET k", "GET p:1"]);
    story.conn(2).gets("GET k").answers("\"main\"");
    story.conn(3).gets("GET p:1").answers("\"c\"");
    story.client("a").gets(["\"main\"", "\"c\""]);
    assert_eq!((counts(&story, 0).answered, counts(&story, 1).answered), (1, 1));
}

#[test]
fn behind_the_upstream_they_go_without_a_word_being_lost() {
    let mut story =
        story_with(ReadsElsewhere { hedge_after_ms: 20, ..options(Order::Main, &["b"]) });
    begin(&mut story);
    story.client("a").says(["GET k", "GET l"]);
    story.conn(2).gets(["GET k", "GET l"]);
    story.after_ms(10);
    story.reconfigures(|settings| settings.elsewhere = ReadsElsewhere::default());
    story.after_ms(50);
    story.conn(2).answers(["\"1\"", "-LOADING Redis is loading"]);
    story.client("a").gets(["\"1\"", "-LOADING Redis is loading"]);
}
