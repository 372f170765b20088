//! Reads that copies answer: whom a policy takes, whom it passes over, and what never goes to a copy.

use crate::words::cluster::{list, lost, moved};
use crate::words::{HELLO_2, Story};
use engine::limits::HEALTH_CONNECTS_MAX;
use engine::settings::{ReadPolicy, Reads, Settings};

const NO_REPLICA: &str = "-ERR respool: no replica is fit to read from (reads.policy is replica)";

/// The answer of a primary to ROLE that has written so many bytes.
fn primary_at(offset: u64) -> String {
    format!("*3\r\n$6\r\nmaster\r\n:{offset}\r\n*0\r\n")
}

/// The answer of a copy of n1.
fn copy_at(state: &str, offset: i64) -> String {
    let state_bytes = state.len();
    format!("*5\r\n$5\r\nslave\r\n$2\r\nn1\r\n:7000\r\n${state_bytes}\r\n{state}\r\n:{offset}\r\n")
}

/// The primary n1 with its copies r1 and r2, which answer ROLE and READONLY by themselves, and clients that read by this policy.
fn copies(policy: ReadPolicy) -> Story {
    copies_with(policy, |_| {})
}

fn copies_with(policy: ReadPolicy, change: impl FnOnce(&mut Settings)) -> Story {
    let mut story = Story::cluster_with(|settings| {
        settings.reads = Reads { policy, ..Reads::default() };
        change(settings);
    });
    story.cluster_is("0-16383 n1 r1 r2");
    roles(&mut story);
    story
}

fn roles(story: &mut Story) {
    story.node_says_to("n1", "ROLE", &primary_at(1_000));
    for copy in ["r1", "r2"] {
        story.node_says_to(copy, "ROLE", &copy_at("connected", 1_000));
        story.node_says_to(copy, "READONLY", "+OK");
    }
}

/// One read after the other, so many; who got how many of them. Each is answered.
fn who_reads(story: &mut Story, reads: usize) -> [usize; 3] {
    let mut counts = [0; 3];
    for _ in 0..reads {
        story.client("reader").says("GET k");
        for (node, count) in ["n1", "r1", "r2"].into_iter().zip(&mut counts) {
            if story.open_conns_to(node) > 0 && story.node(node).waiting() > 0 {
                story.node(node).gets("GET k").answers("\"v\"");
                *count += 1;
            }
        }
        story.client("reader").gets("\"v\"");
    }
    assert_eq!(counts.iter().sum::<usize>(), reads);
    counts
}

#[test]
fn each_policy_takes_those_it_names() {
    for (policy, wanted) in [
        (ReadPolicy::Primary, [12, 0, 0]),
        (ReadPolicy::PreferReplica, [0, 6, 6]),
        (ReadPolicy::Replica, [0, 6, 6]),
        (ReadPolicy::Any, [4, 4, 4]),
        // No zone is configured: then it is as prefer-replica.
        (ReadPolicy::Zone, [0, 6, 6]),
    ] {
        let mut story = copies(policy);
        assert_eq!(who_reads(&mut story, 12), wanted, "{policy:?}");
        story.after_ms(3_000);
        assert_eq!(who_reads(&mut story, 12), wanted, "{policy:?} after a while");
    }
}

#[test]
fn many_replicas_are_connected_to_little_by_little() {
    let replicas: Vec<String> = (0..3 * HEALTH_CONNECTS_MAX).map(|n| format!("c{n}")).collect();
    let mut story = copies(ReadPolicy::PreferReplica);
    for replica in &replicas {
        story.node_says_to(replica, "ROLE", &copy_at("connected", 1_000));
        story.node_says_to(replica, "READONLY", "+OK");
    }
    story.cluster_is(&format!("0-16383 n1 {}", replicas.join(" ")));
    story.client("a").says("SET k v");
    story.node("n1").gets("SET k v").answers("+OK");
    let connected =
        |story: &Story| replicas.iter().filter(|replica| story.connects_to(replica) > 0).count();
    assert!((1..=HEALTH_CONNECTS_MAX).contains(&connected(&story)), "{}", connected(&story));
    story.after_ms(1_500);
    assert!(connected(&story) < 3 * HEALTH_CONNECTS_MAX);
    story.after_ms(5_000);
    assert_eq!(connected(&story), replicas.len());
}

#[test]
fn writes_always_go_to_the_primary() {
    for policy in [ReadPolicy::PreferReplica, ReadPolicy::Replica, ReadPolicy::Any] {
        let mut story = copies(policy);
        let lines =
            ["SET k v", "EVAL x 1 k", "GETEX k", "APPEND k v", "MSET k 1 {k}2 2", "GETDEL k"];
        story.client("a").says(lines);
        story.node("n1").gets(lines).answers(["+OK"; 6]);
        story.client("a").gets(["+OK"; 6]);
    }
}

#[test]
fn scripts_that_say_that_they_only_read_may_go_to_a_copy() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story.is_down("r2").client("a").says(["EVAL_RO x 1 k", "FCALL_RO f 1 k", "SORT_RO k"]);
    story.node("r1").gets(["EVAL_RO x 1 k", "FCALL_RO f 1 k", "SORT_RO k"]);
}

#[test]
fn commands_that_are_kept_to_the_primary_stay_there() {
    let mut story = copies_with(ReadPolicy::Replica, |settings| {
        settings.reads.primary_commands = vec![engine::command::lookup(b"GET").expect("known")];
    });
    story.client("a").says(["GET k", "STRLEN k", "GET k"]);
    story.node("n1").gets(["GET k", "GET k"]).gets_nothing().answers(["\"1\"", "\"2\""]);
    let copy = if story.node("r1").waiting() > 0 { "r1" } else { "r2" };
    story.node(copy).gets("STRLEN k").answers(":1");
    story.client("a").gets(["\"1\"", ":1", "\"2\""]);
}

#[test]
fn what_concerns_all_keys_goes_to_primaries() {
    let mut story = copies(ReadPolicy::Replica);
    story.client("a").says(["DBSIZE", "KEYS *", "RANDOMKEY"]);
    for (conn, line, reply) in
        [(1, "DBSIZE", ":0"), (2, "KEYS *", "*0\r\n"), (1, "RANDOMKEY", "nil")]
    {
        story.node_conn("n1", conn).gets(line).answers(reply);
    }
    story.node("r1").gets_nothing();
    story.node("r2").gets_nothing();
}

#[test]
fn replies_of_copies_and_primary_keep_the_order_of_the_requests() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story.client("a").says(["GET k", "SET k 1", "GET k", "PING"]);
    story.node("n1").gets("SET k 1").answers("+OK");
    story.client("a").gets_nothing();
    let copy = if story.node("r1").waiting() > 0 { "r1" } else { "r2" };
    story.node(copy).gets(["GET k", "GET k"]).answers("\"0\"");
    story.client("a").gets(["\"0\"", "+OK"]);
    story.node(copy).answers("\"1\"");
    story.client("a").gets(["\"1\"", "+PONG"]);
}

#[test]
fn reads_of_one_batch_go_to_one_copy_in_one_write() {
    let mut story = copies(ReadPolicy::PreferReplica);
    who_reads(&mut story, 4);
    let writes = ["r1", "r2"].map(|node| story.node(node).writes());
    story.client("reader").says(vec!["GET k"; 20]);
    let waiting = ["r1", "r2"].map(|node| story.node(node).takes_requests());
    let more = ["r1", "r2"].map(|node| story.node(node).writes());
    assert!(waiting == [20, 0] || waiting == [0, 20], "{waiting:?}");
    assert_eq!(writes.iter().sum::<usize>() + 1, more.iter().sum::<usize>());
}

#[test]
fn copies_of_a_cluster_are_told_readonly_before_the_first_read_and_primaries_are_not() {
    let mut story = Story::cluster_with(|settings| {
        settings.reads.policy = ReadPolicy::PreferReplica;
    });
    story.cluster_is("0-16383 n1 r1").node_says_to("n1", "ROLE", &primary_at(0));
    story.client("a").says(["GET k", "SET k 1"]);
    story.node("r1").gets(["READONLY", "GET k"]).answers(["+OK", "\"v\""]);
    story.node("n1").gets("SET k 1").gets_nothing().answers("+OK");
    story.client("a").gets(["\"v\"", "+OK"]);
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("HGETALL k");
    assert!(story.node("r1").gets(["READONLY", "HGETALL k"]).key().resp3);
}

#[test]
fn a_copy_that_refuses_readonly_does_no_harm_to_the_order() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story.is_down("r2").node_says_to(
        "r1",
        "READONLY",
        "-ERR This instance has cluster support disabled",
    );
    story.client("a").says("GET k");
    story.node("r1").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn a_primary_that_becomes_a_copy_is_told_readonly_on_the_connections_that_stand() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story.client("a").says("SET k 1");
    story.node("n1").gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    // Between MULTI and EXEC READONLY would be part of the transaction.
    story.client("b").says(["MULTI", "INCR k"]);
    story.node_conn("n1", 2).gets(["MULTI", "INCR k"]).answers(["+OK", "+QUEUED"]);
    story.client("b").gets(["+OK", "+QUEUED"]);
    // r1 takes over; r2 is gone.
    story.cluster_is("0-16383 r1 n1").after_ms(12_000);
    story.node_conn("n1", 1).gets("READONLY").answers("+OK").gets_nothing();
    story.node_conn("n1", 2).gets_nothing();
    story.client("a").says(["GET k", "SET k 2"]);
    story.node_conn("n1", 1).gets("GET k").answers("\"1\"");
    story.node("r1").gets("SET k 2").answers("+OK");
    story.client("a").gets(["\"1\"", "+OK"]);
    // n1 takes over again. A connection that said READONLY redirects scripts and serves EXISTS.
    story.client("a").says("EVAL x 1 k");
    let to_n1 = moved("k", "n1");
    story.node("r1").gets("EVAL x 1 k").answers(&*to_n1);
    story.node("r1").gets(["READWRITE", "EXISTS k", "READONLY"]);
    story.node("r1").answers(["+OK", &*to_n1, "+OK"]);
    story.node_conn("n1", 1).gets("EVAL x 1 k").answers(":1");
    story.client("a").gets(":1");
}

#[test]
fn a_copy_that_is_restarted_without_its_data_answers_no_read() {
    let mut story = copies(ReadPolicy::PreferReplica);
    let counts = who_reads(&mut story, 4);
    assert_eq!(counts, [0, 2, 2]);
    story.node_says_to("r1", "ROLE", &copy_at("sync", 0)).crashes("r1").after_ms(50);
    story.is_up("r1");
    let before = story.connects_to("r1");
    while story.connects_to("r1") == before {
        story.after_ms(10);
    }
    assert_eq!(who_reads(&mut story, 6), [0, 0, 6]);
    story.node_says_to("r1", "ROLE", &copy_at("connected", 1_000)).after_ms(1_100);
    assert_eq!(who_reads(&mut story, 4), [0, 2, 2]);
    // respool asks the replica as soon as it is connected again.
    story.crashes("r1").after_ms(50).is_up("r1");
    let before = story.connects_to("r1");
    while story.connects_to("r1") == before {
        story.after_ms(10);
    }
    assert_eq!(who_reads(&mut story, 4), [0, 2, 2]);
}

#[test]
fn a_copy_that_is_not_connected_to_its_primary_is_passed_over() {
    for state in ["connect", "connecting", "sync", "handshake"] {
        let mut story = copies(ReadPolicy::PreferReplica);
        story.node_says_to("r1", "ROLE", &copy_at(state, 1_000));
        who_reads(&mut story, 1);
        story.after_ms(1_100);
        assert_eq!(who_reads(&mut story, 6), [0, 0, 6], "{state}");
        story.node_says_to("r1", "ROLE", &copy_at("connected", 1_000)).after_ms(1_100);
        assert_eq!(who_reads(&mut story, 6), [0, 3, 3], "{state} is over");
    }
}

#[test]
fn a_copy_that_lags_by_more_than_the_bound_is_passed_over() {
    for (bound, offset, wanted) in
        [(100, 899, [0, 0, 6]), (100, 900, [0, 3, 3]), (0, 0, [0, 3, 3]), (100, -1, [0, 0, 6])]
    {
        let mut story = copies_with(ReadPolicy::PreferReplica, |settings| {
            settings.reads.lag_bytes_max = bound;
        });
        story.node_says_to("r1", "ROLE", &copy_at("connected", offset));
        who_reads(&mut story, 1);
        // The primary's own offset is known after the first round of questions.
        story.after_ms(2_100);
        assert_eq!(who_reads(&mut story, 6), wanted, "bound {bound}, offset {offset}");
    }
}

#[test]
fn a_copy_whose_answer_to_role_is_an_error_is_passed_over() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story.node_says_to("r2", "ROLE", "-LOADING Redis is loading the dataset in memory");
    who_reads(&mut story, 1);
    story.after_ms(1_100);
    assert_eq!(who_reads(&mut story, 4), [0, 4, 0]);
}

#[test]
fn a_copy_that_is_down_is_passed_over_until_it_is_back() {
    let mut story = copies(ReadPolicy::PreferReplica);
    who_reads(&mut story, 2);
    story.after_ms(2_000).crashes("r1");
    assert_eq!(who_reads(&mut story, 4), [0, 0, 4]);
    story.after_ms(100).crashes("r2");
    assert_eq!(who_reads(&mut story, 4), [4, 0, 0]);
    story.is_up("r1").after_ms(6_000);
    assert_eq!(who_reads(&mut story, 4), [0, 4, 0]);
}

#[test]
fn a_read_that_a_copy_cannot_answer_is_answered_by_the_primary() {
    for error in [
        "-LOADING Redis is loading the dataset in memory",
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    ] {
        let mut story = copies(ReadPolicy::PreferReplica);
        story.is_down("r2").client("a").says(["GET k", "SET k 1", "GET j"]);
        story.node("r1").gets(["GET k", "GET j"]).answers([error, "\"j\""]);
        story.node("n1").gets(["SET k 1", "GET k"]).answers(["+OK", "\"v\""]);
        story.client("a").gets(["\"v\"", "+OK", "\"j\""]);
        // It is left alone until it says that it is well.
        assert_eq!(who_reads(&mut story, 3), [3, 0, 0]);
        story.after_ms(1_100);
        assert_eq!(who_reads(&mut story, 3), [0, 3, 0]);
    }
}

// Fault matrix, row 6: respool sent the read to the hung replica again, over a connection that was not greeted, and the client waited for `connect_ms`, too.
#[test]
fn a_read_that_a_hung_replica_does_not_answer_goes_elsewhere_after_the_timeout() {
    let mut story = copies_with(ReadPolicy::PreferReplica, |settings| {
        settings.timeouts.request_ms = 1_000;
    });
    who_reads(&mut story, 1);
    story.crashes("r2").is_down("r2").after_ms(10);
    assert_eq!(who_reads(&mut story, 2), [0, 2, 0]);
    story.client("reader").says("GET j");
    story.node("r1").gets("GET j");
    story.lets_connects_hang("r1").after_ms(999).client("reader").gets_nothing();
    story.after_ms(2);
    story.node("n1").gets("GET j").answers("\"j\"");
    story.client("reader").gets("\"j\"").says("GET k");
    story.node("n1").gets("GET k");
}

#[test]
fn a_copy_that_dies_with_a_read_under_way_costs_the_client_nothing() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story.is_down("r2").client("a").says(["GET k", "GET j"]);
    story.node("r1").gets(["GET k", "GET j"]).answers("\"k\"");
    story.crashes("r1").after_ms(10);
    story.node("n1").gets("GET j").answers("\"j\"");
    story.client("a").gets(["\"k\"", "\"j\""]);
}

#[test]
fn the_policy_replica_is_an_error_while_no_copy_is_fit() {
    let mut story = copies(ReadPolicy::Replica);
    for copy in ["r1", "r2"] {
        story.node_says_to(copy, "ROLE", &copy_at("connect", 0));
    }
    who_reads(&mut story, 1);
    story.after_ms(1_100).client("a").says(["GET k", "MGET k {k}2", "SET k 1", "GET k"]);
    story.node("n1").gets("SET k 1").gets_nothing().answers("+OK");
    story.client("a").gets([NO_REPLICA, NO_REPLICA, "+OK", NO_REPLICA]);
}

#[test]
fn parts_of_a_split_read_go_to_copies() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story
        .cluster_is("0-8191 n1 r1, 8192-16383 n2 r2")
        .client("a")
        .says(["MGET a4 c1", "MSET a4 1 c1 2"]);
    story.node("r1").gets("MGET a4").gets_nothing().answers(&list("\"a\""));
    story.node("r2").gets("MGET c1").gets_nothing().answers(&list("\"c\""));
    story.node("n1").gets("MSET a4 1").gets_nothing().answers("+OK");
    story.node("n2").gets("MSET c1 2").gets_nothing().answers("+OK");
    story.client("a").gets([&*list(["\"a\"", "\"c\""]), "+OK"]);
}

#[test]
fn a_part_for_which_no_copy_is_fit_goes_to_the_primary_or_is_the_policys_error() {
    let both = list(["\"a\"", "\"c\""]);
    for (policy, reply) in [(ReadPolicy::PreferReplica, &*both), (ReadPolicy::Replica, NO_REPLICA)]
    {
        // Whichever part it is.
        for down in ["r1", "r2"] {
            let mut story = copies(policy);
            story.cluster_is("0-8191 n1 r1, 8192-16383 n2 r2").is_down(down);
            story.client("a").says("SET a4 1");
            story.node("n1").gets("SET a4 1").answers("+OK");
            story.client("a").gets("+OK").says("MGET a4 c1");
            for (node, key) in [("r1", "a4"), ("r2", "c1"), ("n1", "a4"), ("n2", "c1")] {
                if node != down && story.node(node).waiting() > 0 {
                    assert!(policy != ReadPolicy::Replica || node.starts_with('r'), "{node}");
                    story.node(node).gets(&format!("MGET {key}"));
                    story.node(node).answers(&list(&*format!("\"{}\"", &key[..1])));
                }
            }
            story.client("a").gets(reply);
        }
    }
}

#[test]
fn the_nearest_is_the_one_that_answers_our_questions_fastest() {
    let mut story = Story::cluster_with(|settings| settings.reads.policy = ReadPolicy::Nearest);
    story.cluster_is("0-16383 n1 r1 r2");
    for copy in ["r1", "r2"] {
        story.node_says_to(copy, "READONLY", "+OK");
    }
    story.client("a").says("SET k 1");
    // This one was connected first, to be asked for the table.
    story.node("n1").gets(["ROLE", "SET k 1"]).answers([&*primary_at(0), "+OK"]);
    story.client("a").gets("+OK");
    for (delays, nearest) in [([3, 2, 1], "r2"), ([9, 1, 9], "r1"), ([1, 90, 90], "n1")] {
        // Means follow by a quarter, so the last delays win after some rounds.
        for _ in 0..12 {
            while story.node("n1").waiting() == 0 {
                story.after_ms(1);
            }
            let begin = story.now;
            let mut order: Vec<(u64, &str)> = delays.into_iter().zip(["n1", "r1", "r2"]).collect();
            order.sort_unstable();
            for (delay_ms, node) in order {
                let passed_ms = story.now.since(begin) / 1_000;
                story.after_ms(delay_ms - passed_ms);
                let reply = if node == "n1" { primary_at(0) } else { copy_at("connected", 0) };
                story.node(node).gets("ROLE").answers(&reply);
            }
        }
        story.client("a").says("GET k");
        story.node(nearest).gets("GET k").answers("\"v\"");
        story.client("a").gets("\"v\"");
    }
}

#[test]
fn reads_stay_in_the_zone_that_is_configured() {
    let zones = |zones: &[(&str, &str)]| {
        let zones = zones.iter().map(|(node, zone)| (format!("{node}:7000"), zone.to_string()));
        let zones = zones.collect::<Vec<_>>();
        copies_with(ReadPolicy::Zone, |settings| {
            settings.reads.zone = "here".to_string();
            settings.reads.zones = zones;
        })
    };
    let mut story = zones(&[("n1", "here"), ("r1", "there"), ("r2", "here")]);
    assert_eq!(who_reads(&mut story, 4), [0, 0, 4]);
    story.after_ms(2_000).crashes("r2");
    assert_eq!(who_reads(&mut story, 4), [4, 0, 0], "the primary is here");
    let mut story = zones(&[("n1", "there"), ("r1", "there"), ("r2", "elsewhere")]);
    assert_eq!(who_reads(&mut story, 4), [0, 2, 2], "nobody is here");
}

#[test]
fn a_zone_that_the_server_tells_counts_unless_the_configuration_knows_better() {
    for (known, wanted) in [(false, [0, 4, 0]), (true, [0, 0, 4])] {
        let mut story = copies_with(ReadPolicy::Zone, |settings| {
            settings.reads.zone = "here".to_string();
            if known {
                let zone = |node: &str, zone: &str| (format!("{node}:7000"), zone.to_string());
                settings.reads.zones = vec![zone("r1", "there"), zone("r2", "here")];
            }
        });
        let told = "$17\r\navailability_zone\r\n$4\r\nhere\r\n";
        let hello = HELLO_2.replacen("*14", "*16", 1) + told;
        story.node_says_to("r1", "HELLO 2", &hello);
        assert_eq!(who_reads(&mut story, 4), wanted);
    }
}

#[test]
fn replicas_that_sentinels_tell_of_answer_reads_and_are_not_told_readonly() {
    let mut story =
        Story::sentinels_with(|settings| settings.reads.policy = ReadPolicy::PreferReplica);
    story.node_says_to("n1", "ROLE", &primary_at(10));
    for copy in ["n2", "n3"] {
        story.node_says_to(copy, "ROLE", &copy_at("connected", 10));
    }
    story.sentinels_say("n1 n2 n3").is_told_dead("n3").client("a").says(["GET k", "SET k 1"]);
    story.node("n1").gets("SET k 1").gets_nothing().answers("+OK");
    story.node("n2").gets("GET k").gets_nothing().answers("\"v\"");
    story.client("a").gets(["\"v\"", "+OK"]);
    assert_eq!(story.connects_to("n3"), 0, "the sentinels know that it is dead");
}

#[test]
fn a_former_primary_that_still_says_so_answers_no_reads() {
    let mut story =
        Story::sentinels_with(|settings| settings.reads.policy = ReadPolicy::PreferReplica);
    for node in ["n1", "n2", "n3"] {
        story.node_says_to(node, "ROLE", &copy_at("connected", 1_000));
    }
    story.node_says_to("n1", "ROLE", &primary_at(1_000));
    story.sentinels_say("n1 n2 n3").client("a").says("SET k 1");
    story.node("n1").gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    // A planned failover: sentinels list n1 as a replica before they demote it.
    story.node_says_to("n2", "ROLE", &primary_at(1_000));
    story.sentinels_say("n2 n1 n3").after_ms(3_500);
    for _ in 0..6 {
        story.client("a").says("GET k");
        story.node("n3").gets("GET k").answers("\"1\"");
        story.client("a").gets("\"1\"");
    }
    story.node_says_to("n1", "ROLE", &copy_at("connected", 1_000)).after_ms(1_100);
    for node in ["n1", "n3"] {
        story.client("a").says("GET k");
        story.node(node).gets("GET k").answers("\"1\"");
        story.client("a").gets("\"1\"");
    }
}

#[test]
fn a_replica_that_joins_the_list_of_sentinels_is_read_after_its_first_role() {
    let mut story =
        Story::sentinels_with(|settings| settings.reads.policy = ReadPolicy::PreferReplica);
    story.node_says_to("n1", "ROLE", &primary_at(1_000));
    story.node_says_to("n2", "ROLE", &copy_at("connected", 1_000));
    // This one lost its data and its primary.
    story.node_says_to("n3", "ROLE", &primary_at(0));
    story.sentinels_say("n1 n2").client("a").says("SET k 1");
    story.node("n1").gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    story.after_ms(2_500).sentinels_say("n1 n3");
    let mut readers = Vec::new();
    for _ in 0..30 {
        story.after_ms(100).client("a").says("GET k");
        let reader =
            ["n1", "n2", "n3"].into_iter().find(|node| story.node(node).takes_one().is_some());
        let reader = reader.expect("a node gets it");
        story.node(reader).answers("\"1\"");
        story.client("a").gets("\"1\"");
        readers.push(reader);
    }
    assert!(readers.ends_with(&["n1"]) && !readers.contains(&"n3"), "{readers:?}");
    // Its data has come.
    story.node_says_to("n3", "ROLE", &copy_at("connected", 1_000)).after_ms(2_500);
    story.client("a").says("GET k");
    story.node("n3").gets("GET k");
}

#[test]
fn after_a_failover_behind_sentinels_the_new_primary_gets_writes_and_the_old_one_reads() {
    let mut story =
        Story::sentinels_with(|settings| settings.reads.policy = ReadPolicy::PreferReplica);
    story.node_says_to("n1", "ROLE", &primary_at(10));
    story.node_says_to("n2", "ROLE", &copy_at("connected", 10));
    story.client("a").says(["GET k", "SET k 1"]);
    story.node("n1").gets("SET k 1").answers("+OK");
    story.node("n2").gets("GET k").answers("\"v\"");
    story.client("a").gets(["\"v\"", "+OK"]);
    story.node_says_to("n2", "ROLE", &primary_at(20));
    story.node_says_to("n1", "ROLE", &copy_at("connected", 20));
    story.sentinels_say("n2 n1").switch_master("s1").client("a").says(["GET k", "SET k 2"]);
    // The former primary has not answered ROLE yet.
    story.node("n2").gets(["GET k", "SET k 2"]).gets_nothing().answers(["\"1\"", "+OK"]);
    story.client("a").gets(["\"1\"", "+OK"]);
    story.after_ms(2_100).client("a").says("GET k");
    story.node("n1").gets("GET k").gets_nothing().answers("\"2\"");
    story.client("a").gets("\"2\"");
}

#[test]
fn without_a_policy_for_copies_nobody_asks_them_anything() {
    let mut story = copies(ReadPolicy::Primary);
    story.client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.after_ms(5_000);
    assert_eq!((story.connects_to("r1"), story.connects_to("r2")), (0, 0));
    story.client("a").gets("nil");
}

#[test]
fn one_server_answers_its_reads_whatever_the_policy() {
    let mut settings = Settings::default();
    settings.reads.policy = ReadPolicy::Replica;
    let mut story = Story::with(settings);
    story.client("a").says(["GET k", "SET k 1"]);
    story.server().gets(["GET k", "SET k 1"]).gets_nothing();
}

#[test]
fn shards_that_are_single_servers_answer_their_reads() {
    for policy in [ReadPolicy::PreferReplica, ReadPolicy::Any, ReadPolicy::Nearest] {
        let mut settings = Settings::default();
        settings.reads.policy = policy;
        settings.shards = Story::shards().engine.settings().shards.clone();
        let mut story = Story::with(settings);
        story.client("a").says(["GET d", "GET a", "MGET d a"]);
        story.node("n1").gets(["GET d", "MGET d"]).answers(["\"d\"", &*list("\"d\"")]);
        story.node("n2").gets(["GET a", "MGET a"]).answers(["\"a\"", &*list("\"a\"")]);
        story.client("a").gets(["\"d\"", "\"a\"", &*list(["\"d\"", "\"a\""])]);
    }
}

#[test]
fn a_primary_that_is_down_leaves_reads_of_its_copies_alone() {
    let mut story = copies(ReadPolicy::PreferReplica);
    story.client("a").says("SET k 1");
    story.node("n1").gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    story.after_ms(2_000).crashes("n1");
    assert_eq!(who_reads(&mut story, 4), [0, 2, 2]);
    story.client("a").says("SET k 2").gets(&lost("n1", "connect: Connection refused"));
}

#[test]
fn a_zone_can_be_that_of_a_host_and_an_address_knows_better() {
    let mut story = copies_with(ReadPolicy::Zone, |settings| {
        settings.reads.zone = "here".to_string();
        settings.reads.zones =
            [("n1", "there"), ("r1", "here"), ("r2", "here"), ("r1:7000", "there")]
                .map(|(node, zone)| (node.to_string(), zone.to_string()))
                .to_vec();
    });
    assert_eq!(who_reads(&mut story, 4), [0, 0, 4]);
}

#[test]
fn after_a_failover_reads_have_a_replica_before_the_table_is_asked_for() {
    let mut story = copies(ReadPolicy::Replica);
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").answers("+OK");
    story.holds_the_table().client("a").gets("+OK").says("SET a4 2");
    story.node("n1").gets("SET a4 2").moved("a4", "r1");
    story.node("r1").gets("SET a4 2").answers("+OK");
    story.client("a").gets("+OK").says("GET a4");
    story.client("a").gets_nothing();
    let asks = |story: &mut Story, node: &str| {
        let mut node = story.node(node);
        std::iter::from_fn(|| node.takes_one()).any(|line| line == "GET a4")
    };
    // The former primary is a copy now.
    assert!(["n1", "r2"].into_iter().any(|node| asks(&mut story, node)));
}

#[test]
fn reads_are_shared_by_weight_and_0_is_a_last_resort() {
    let weights = |all: &[(&str, u16)]| -> Vec<(String, u16)> {
        all.iter().map(|(name, weight)| ((*name).to_string(), *weight)).collect()
    };
    let mut story = copies_with(ReadPolicy::PreferReplica, |settings| {
        settings.reads.weights = weights(&[("r1:7000", 3)]);
    });
    assert_eq!(who_reads(&mut story, 12), [0, 9, 3]);
    let mut story = copies_with(ReadPolicy::Replica, |settings| {
        settings.reads.weights = weights(&[("r2", 0)]);
    });
    assert_eq!(who_reads(&mut story, 12), [0, 12, 0]);
    story.crashes("r1").after_ms(1_000);
    assert_eq!(who_reads(&mut story, 6), [0, 0, 6]);
}
