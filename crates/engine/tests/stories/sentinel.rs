//! Sentinels tell who the primary is, and who it is next.

use crate::words::cluster::lost;
use crate::words::sentinel::behind;
use crate::words::{HELLO_2, HELLO_3, Story};
use engine::limits::SENTINEL_NODES_MAX;
use engine::settings::{OnLoss, Password, Pool};

/// What a server says to HELLO 2 that is a copy of another one.
fn hello_of_replica() -> String {
    HELLO_2.replace("role\r\n$6\r\nmaster", "role\r\n$7\r\nreplica")
}

/// Makes n2 the primary of a story whose client has spoken to n1.
fn fail_over(story: &mut Story) {
    story.sentinels_say("n2 n1").after_ms(1_100);
}

#[test]
fn the_primary_is_asked_for_before_the_first_request_goes_anywhere() {
    let mut story = Story::sentinels();
    story.client("a").says(["SET k 1", "GET k"]);
    story.node("n1").gets(["SET k 1", "GET k"]).answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
    assert_eq!(story.asked_sentinels(), ["s1"]);
    assert_eq!(story.connects_to("n2"), 0, "a replica that nobody reads from");
}

#[test]
fn the_five_questions_and_the_subscription_go_out_in_one_write() {
    let mut story = Story::sentinels();
    story.is_mute("s1").client("a").says("GET k");
    assert!(story.node("s1").key().resp3, "messages and answers are told apart");
    let name = "mymaster";
    story.node("s1").gets(["SUBSCRIBE +switch-master"]);
    story.node("s1").gets("SENTINEL MYID");
    for word in ["MASTER", "GET-MASTER-ADDR-BY-NAME", "SLAVES", "SENTINELS"] {
        story.node("s1").gets(&format!("SENTINEL {word} {name}"));
    }
    assert_eq!(story.node("s1").gets_nothing().writes(), 2, "the greeting, and all questions");
}

#[test]
fn a_name_that_no_sentinel_knows_is_an_error_that_says_so_after_a_while() {
    let mut story = Story::sentinels();
    story.sentinels_say("").client("a").says(["GET k", "PING"]);
    story.after_ms(1_900).client("a").gets_nothing();
    story.after_ms(200);
    let got = story.client("a").takes_text();
    let begin = "-ERR respool: the primary is not known: s";
    assert!(got.starts_with(begin), "{got}");
    assert!(got.contains(":26379: knows no primary `mymaster`\r\n+PONG\r\n"), "{got}");
    // Later requests fail at once, and both sentinels go on being asked.
    story.asked_sentinels();
    story.client("a").says("GET k");
    assert!(story.client("a").takes_text().starts_with(begin));
    story.after_ms(1_000);
    let asked = story.asked_sentinels();
    assert!(asked.contains(&"s1".into()) && asked.contains(&"s2".into()), "{asked:?}");
    assert!(asked.len() <= 12, "they are stormed: {}", asked.len());
}

#[test]
fn a_name_that_becomes_known_serves_those_who_wait() {
    let mut story = Story::sentinels();
    story.sentinels_say("").client("a").says("GET k");
    story.after_ms(500).sentinels_say("n1").after_ms(200);
    story.node("n1").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn a_sentinel_that_did_not_hear_of_the_last_failover_moves_nobody() {
    let mut story = Story::sentinels_with(|settings| *settings = behind(&["s1", "s2", "s3"]));
    story.sentinels_are("s1 s2 s3").client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    for lagging in ["s1", "s2", "s3"] {
        story.sentinels_say("n1 n2").after_ms(3_500);
        story.sentinels_lag(lagging, "n2 n1").after_ms(3_500).asked_sentinels();
        for _ in 0..8 {
            story.after_ms(500).client("a").says("GET k");
            story.node("n2").gets("GET k").answers("nil");
            story.client("a").gets("nil");
        }
        assert!(story.asked_sentinels().contains(&lagging.to_string()));
        assert!(story.was_told("names n1:7000, while later news name n2:7000"));
    }
}

/// GETs of the client `a` for so many half seconds, each of which the primary n2 gets.
fn stays_at_n2(story: &mut Story, half_seconds: usize) {
    for _ in 0..half_seconds {
        story.after_ms(500).client("a").says("GET k");
        story.node("n2").gets("GET k").answers("nil");
        story.client("a").gets("nil");
    }
}

/// A story behind the configured ones of five sentinels, whose client has spoken to n1.
fn one_of_five(configured: &[&str]) -> Story {
    let mut story = Story::sentinels_with(|settings| *settings = behind(configured));
    story.sentinels_are("s1 s2 s3 s4 s5").client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.after_ms(7_000);
    story
}

#[test]
fn a_configured_sentinel_that_is_cut_off_does_not_hide_the_others() {
    let mut story = Story::sentinels_with(|settings| *settings = behind(&["s1"]));
    story.sentinels_are("s1 s2 s3").sentinels_are_cut_off("s1").client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.sentinels_lag("s1", "n2 n1").after_ms(2_500);
    stays_at_n2(&mut story, 20);
    assert!(["s1", "s2", "s3"].map(String::from).iter().all(|name| story.connects_to(name) == 1));
}

#[test]
fn sentinels_that_are_cut_off_together_have_no_majority() {
    for with_epochs in [true, false] {
        let mut story = one_of_five(&["s1", "s2", "s3"]);
        if !with_epochs {
            story.forgets_epochs();
        }
        story.sentinels_are_cut_off("s1 s2").sentinels_lag("s1 s2", "n2 n1").after_ms(6_500);
        stays_at_n2(&mut story, 60);
    }
}

#[test]
fn a_majority_that_did_not_hear_of_the_last_failover_moves_nobody() {
    let mut story = one_of_five(&["s1", "s2", "s3", "s4", "s5"]);
    story.sentinels_lag("s1 s2 s3", "n2 n1").after_ms(6_000);
    stays_at_n2(&mut story, 60);
    // respool does not reach the two that know better: the others are all there is.
    story.crashes("s4").crashes("s5").after_ms(7_000).client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
}

#[test]
fn the_sender_of_a_message_is_asked_at_once_while_another_sentinel_is_silent() {
    let mut story = one_of_five(&["s1", "s2", "s3", "s4", "s5"]);
    story.is_mute("s1").is_mute("s2").is_mute("s4").is_mute("s5").after_ms(1_500);
    story.asked_sentinels();
    story.sentinels_say("n2 n1").switch_master("s3");
    assert_eq!(story.asked_sentinels(), ["s3"]);
    story.client("a").says("GET k");
    story.node("n2").gets("GET k");
}

#[test]
fn where_no_epoch_is_told_more_than_half_of_the_sentinels_must_name_another_primary() {
    let mut story = Story::sentinels_with(|settings| *settings = behind(&["s1", "s2", "s3"]));
    story.forgets_epochs().sentinels_are("s1 s2 s3").client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.sentinel_says("s2", "n3").after_ms(4_500);
    story.client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.sentinel_says("s3", "n3").after_ms(3_500);
    story.client("a").says("GET k");
    story.node("n3").gets("GET k").answers("nil");
}

// Found by a test from outside: a sentinel that is configured by its name and told of by its address had two votes.
#[test]
fn a_sentinel_with_two_names_has_one_vote() {
    let mut story = Story::sentinels_with(|settings| *settings = behind(&["name1", "s2", "s3"]));
    story.is_also("name1", "s1").forgets_epochs().sentinels_are("s1 s2 s3");
    story.client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.crashes("s3").after_ms(7_000);
    assert!(story.connects_to("s1") > 0, "the others told of it");
    story.sentinel_says("s1", "n3").sentinel_says("name1", "n3").after_ms(7_000);
    story.client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
}

#[test]
fn sentinels_that_are_gone_for_good_have_no_vote() {
    let mut story = Story::sentinels_with(|settings| *settings = behind(&["s1", "s2", "s3"]));
    story.sentinels_are("s1 s2 s3 s4 s5 s6").client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.after_ms(7_000).sentinels_are("s4 s5 s6");
    for gone in ["s1", "s2", "s3"] {
        story.crashes(gone);
    }
    story.after_ms(5_000).sentinels_begin_anew("n3").after_ms(7_000);
    story.client("a").says("GET k");
    story.node("n3").gets("GET k").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn the_only_sentinel_that_answers_of_several_moves_nobody_to_an_older_primary() {
    let mut story = Story::sentinels_with(|settings| *settings = behind(&["s1", "s2", "s3"]));
    story.sentinels_are("s1 s2 s3").client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.sentinels_lag("s1", "n2 n1").after_ms(4_000).crashes("s2").crashes("s3");
    story.after_ms(7_000).client("a").says("GET k");
    story.node("n2").gets("GET k");
}

#[test]
fn a_configuration_that_was_made_anew_is_believed_when_more_than_half_tell_it() {
    let mut story = Story::sentinels_with(|settings| *settings = behind(&["s1", "s2", "s3"]));
    story.sentinels_are("s1 s2 s3").sentinels_say("n2 n1").client("a").says("GET k");
    story.node("n2").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.sentinels_begin_anew("n1 n2").after_ms(3_500);
    story.client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
}

#[test]
fn without_an_answer_the_error_says_that_none_came() {
    let mut story = Story::with(behind(&["s1"]));
    story.lets_connects_hang("s1").client("a").says("GET k");
    story.after_ms(2_100);
    let got = story.client("a").takes_text();
    assert_eq!(got, "-ERR respool: the primary is not known: s1:26379: connect: timed out\r\n");
}

#[test]
fn a_sentinel_that_is_down_is_passed_over_at_once() {
    let mut story = Story::sentinels();
    story.is_down("s1").client("a").says("GET k");
    story.node("n1").gets("GET k");
    assert_eq!(story.asked_sentinels(), ["s2"]);
}

#[test]
fn a_sentinel_that_is_silent_is_passed_over_after_a_second() {
    let mut story = Story::sentinels();
    story.is_mute("s1").client("a").says("GET k");
    story.after_ms(999);
    assert_eq!(story.connects_to("n1"), 0);
    story.after_ms(2).node("n1").gets("GET k").answers("nil");
    assert_eq!(story.asked_sentinels(), ["s2"]);
    story.client("a").gets("nil");
}

#[test]
fn one_that_does_not_know_the_name_is_passed_over_for_one_that_does() {
    let mut story = Story::sentinels();
    story.sentinel_says("s1", "").client("a").says("GET k");
    story.after_ms(150).node("n1").gets("GET k");
}

#[test]
fn sentinels_that_were_told_of_are_asked_in_their_turn_over_one_connection_each() {
    let mut story = Story::with(behind(&["s1"]));
    story.sentinels_are("s1 s2 s3").sentinels_say("n1");
    story.client("a").says("GET k");
    story.after_ms(12_000);
    let asked = story.asked_sentinels();
    for sentinel in ["s1", "s2", "s3"] {
        assert!(asked.iter().filter(|name| *name == sentinel).count() >= 2, "{asked:?}");
        assert_eq!(story.connects_to(sentinel), 1, "{sentinel} is connected to again and again");
    }
}

#[test]
fn sentinels_of_which_nobody_tells_any_more_are_forgotten_and_seeds_are_not() {
    let mut story = Story::sentinels();
    story.sentinels_are("s1 s2 s3").client("a").says("GET k");
    story.after_ms(5_000);
    assert_eq!(story.open_conns_to("s3"), 1);
    story.sentinels_are("s1").after_ms(5_000);
    assert_eq!(story.open_conns_to("s3"), 0);
    story.asked_sentinels();
    story.after_ms(5_000);
    let asked = story.asked_sentinels();
    assert!(asked.contains(&"s2".into()) && !asked.contains(&"s3".into()), "{asked:?}");
}

#[test]
fn of_very_many_sentinels_that_are_told_of_some_count() {
    let mut story = Story::with(behind(&["s1"]));
    let names: Vec<String> = (1..=4_000).map(|number| format!("s{number}")).collect();
    story.sentinels_are(&names.join(" ")).sentinels_say("n1");
    story.client("a").says("GET k");
    story.after_ms(30_000);
    assert!(story.asked_sentinels().len() > 10);
    assert!(
        story.engine.report(story.now).nodes.len() <= SENTINEL_NODES_MAX + 3,
        "{}",
        story.engine.report(story.now).nodes.len()
    );
    assert!(story.was_told("instances of which 256 count"));
}

#[test]
fn when_the_seeds_are_gone_those_that_were_told_of_go_on() {
    let mut story = Story::with(behind(&["s1"]));
    story.sentinels_are("s1 s2 s3").sentinels_say("n1 n2").client("a").says("GET k");
    story.after_ms(3_500).crashes("s1");
    story.node("n1").gets("GET k").answers("nil");
    story.sentinels_say("n2 n1").after_ms(2_500);
    story.client("a").gets("nil").says("GET k");
    story.node("n2").gets("GET k");
}

#[test]
fn a_message_of_a_new_primary_is_a_sign_to_ask_at_once() {
    let mut story = Story::warm_sentinels();
    story.after_ms(100).asked_sentinels();
    story.sentinels_say("n2 n1").switch_master("s1");
    assert_eq!(story.asked_sentinels().len(), 1);
    story.client("a").says("GET k");
    story.node("n2").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.node("n1").is_closed();
}

#[test]
fn a_message_during_a_question_is_not_lost() {
    let mut story = Story::with(behind(&["s1"]));
    story.sentinels_are("s1").sentinels_say("n1").client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    // The answer that is under way was made before the change.
    story.is_mute("s1").after_ms(1_100);
    story.node("s1").gets("SENTINEL MYID");
    let questions = ["MASTER", "GET-MASTER-ADDR-BY-NAME", "SLAVES", "SENTINELS"];
    story.node("s1").gets(
        questions.map(|word| format!("SENTINEL {word} mymaster")).each_ref().map(|line| &**line),
    );
    story.switch_master("s1");
    let epoch = |epoch: u8| format!("%1\r\n$12\r\nconfig-epoch\r\n$1\r\n{epoch}\r\n");
    story
        .node("s1")
        .answers("-ERR unknown subcommand")
        .answers(&*epoch(1))
        .answers("*2\r\n$2\r\nn1\r\n$4\r\n7000\r\n");
    story.node("s1").answers(["*0", "*0"]);
    story.node("s1").gets("SENTINEL MYID").answers("-ERR unknown subcommand");
    story.node("s1").gets("SENTINEL MASTER mymaster").answers(&*epoch(2));
    story.node("s1").gets("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
    story.node("s1").answers("*2\r\n$2\r\nn2\r\n$4\r\n7000\r\n");
    story.client("a").gets("nil").says("GET k");
    story.node("n2").gets("GET k");
}

#[test]
fn a_new_primary_is_found_without_a_message_within_about_a_second() {
    let mut story = Story::warm_sentinels();
    fail_over(&mut story);
    story.client("a").says("SET k 1");
    story.node("n2").gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn connections_to_the_old_primary_are_closed_when_they_owe_nothing() {
    let mut story = Story::warm_sentinels();
    story.client("b").says("HELLO 3").takes();
    assert_eq!(story.open_conns_to("n1"), 2);
    story.client("a").says("INCR k");
    story.node_conn("n1", 1).gets("INCR k");
    fail_over(&mut story);
    story.node_conn("n1", 1).is_open();
    story.node_conn("n1", 2).is_closed();
    story.node_conn("n1", 1).answers(":1").is_closed();
    story.client("a").gets(":1");
}

// Found by an attack: respool began a new transaction at the new primary with the commands that came then.
#[test]
fn a_transaction_that_was_begun_at_the_old_primary_is_lost_as_a_whole() {
    for loss in [OnLoss::Error, OnLoss::Close] {
        for (watches, rest) in [false, true].into_iter().flat_map(|watches| {
            [["SET w 2", "EXEC"], ["PING", "EXEC"], ["PING", "DISCARD"]].map(|rest| (watches, rest))
        }) {
            let mut story = Story::warm_sentinels_with(|settings| settings.on_upstream_loss = loss);
            if watches {
                story.client("b").says("WATCH w");
                story.node_conn("n1", 2).gets("WATCH w").answers("+OK");
            }
            story.client("b").says(["MULTI", "SET w 1"]);
            story.node_conn("n1", 2).gets(["MULTI", "SET w 1"]).answers(["+OK", "+QUEUED"]);
            story.client("b").takes();
            fail_over(&mut story);
            story.node_conn("n1", 2).is_closed();
            if loss == OnLoss::Close {
                story.client("b").is_closed();
                continue;
            }
            story.client("b").says(rest);
            let got = story.client("b").takes_text();
            let end = match rest[1] {
                "DISCARD" => "+OK\r\n",
                _ => "-EXECABORT Transaction discarded because of previous errors.\r\n",
            };
            assert!(got.contains("is not the client's server any more"), "{rest:?}: {got}");
            assert!(got.ends_with(end), "{rest:?}: {got}");
            assert_eq!(story.open_conns_to("n2"), 0, "{rest:?}");
        }
    }
}

// Found by an attack: a client with watched keys waited forever.
#[test]
fn keys_that_were_watched_at_the_old_primary_are_lost() {
    for (rest, node, first) in [
        ("GET w", Some("nil"), "nil"),
        ("UNWATCH", None, "+OK"),
        ("PING", None, "+PONG"),
        ("MULTI", None, "+OK"),
    ] {
        let mut story =
            Story::warm_sentinels_with(|settings| settings.on_upstream_loss = OnLoss::Error);
        story.client("b").says("WATCH w");
        story.node_conn("n1", 2).gets("WATCH w").answers("+OK");
        story.client("b").gets("+OK");
        fail_over(&mut story);
        story.client("b").says(rest);
        if let Some(answer) = node {
            story.node("n2").gets(rest).answers(answer);
        }
        story.client("b").gets(first).says("EXEC");
        story.client("b").gets(match rest {
            "MULTI" => "-EXECABORT Transaction discarded because of previous errors.",
            _ => "-ERR EXEC without MULTI",
        });
    }
}

#[test]
fn a_pipeline_keeps_its_order_over_the_change() {
    let mut story = Story::warm_sentinels();
    story.client("a").says(["INCR k", "INCR k"]);
    story.node("n1").gets(["INCR k", "INCR k"]);
    fail_over(&mut story);
    // What comes now must not overtake the two that are on the way to the old one.
    story.client("a").says(["INCR k", "PING"]);
    story.client("b").says("GET k");
    story.node("n2").gets("GET k").gets_nothing().answers("nil");
    story.client("b").gets("nil");
    story.node_conn("n1", 1).answers([":1", ":2"]);
    story.node("n2").gets("INCR k").answers(":3");
    story.client("a").gets([":1", ":2", ":3", "+PONG"]);
}

#[test]
fn a_write_that_meets_a_demoted_primary_is_sent_to_the_new_one() {
    let mut story = Story::warm_sentinels();
    story.after_ms(600).client("a").says(["SET k 1", "SET k 2", "GET k"]);
    story.sentinels_say("n2 n1");
    let readonly = "-READONLY You can't write against a read only replica.";
    story.node("n1").gets(["SET k 1", "SET k 2", "GET k"]);
    story.node("n1").answers([readonly, readonly, "\"0\""]);
    story.client("a").gets_nothing();
    // The read would not see what was written before it, so it goes along.
    story.after_ms(50).node("n2").gets(["SET k 1", "SET k 2", "GET k"]);
    story.node("n2").answers(["+OK", "+OK", "\"2\""]);
    story.client("a").gets(["+OK", "+OK", "\"2\""]);
    assert_eq!(story.node_conn("n1", 1).is_closed().waiting(), 0);
}

#[test]
fn a_server_that_is_named_and_says_that_it_is_a_replica_is_not_used_and_asked_for_again() {
    let mut story = Story::sentinels();
    story.node_says_to("n1", "HELLO 2", &hello_of_replica());
    story.client("a").says("SET k 1");
    story.client("a").gets(&lost("n1", "is no primary any more"));
    assert_eq!(story.node("n1").gets_nothing().is_closed().writes(), 1);
    // The sentinels know better a moment later.
    story.sentinels_say("n2 n1").after_ms(600);
    story.client("a").says("SET k 1");
    story.node("n2").gets("SET k 1");
}

// An attack: sentinels announced themselves as the primary.
#[test]
fn a_sentinel_that_is_named_as_the_primary_is_not_used() {
    let mut story = Story::sentinels();
    let hello = HELLO_2.replace("mode\r\n$10\r\nstandalone", "mode\r\n$8\r\nsentinel");
    assert_ne!(hello, HELLO_2);
    story.node_says_to("n1", "HELLO 2", &hello);
    story.client("a").says("SET k 1").gets(&lost("n1", "is no primary any more"));
    story.node("n1").gets_nothing();
}

#[test]
fn with_the_failover_hold_a_server_that_is_no_primary_yet_is_only_a_wait() {
    let mut story = Story::sentinels_with(|settings| settings.timeouts.failover_hold_ms = 3_000);
    let replica = hello_of_replica();
    story.node_says_to("n1", "HELLO 2", &replica).client("a").says("SET k 1");
    story.after_ms(1_500).client("a").gets_nothing();
    story.node_says_to("n1", "HELLO 2", HELLO_2).after_ms(1_000);
    story.node("n1").gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn when_all_sentinels_are_gone_the_known_primary_goes_on() {
    let mut story = Story::warm_sentinels();
    story.after_ms(2_100).crashes("s1").crashes("s2");
    story.after_ms(20_000).client("a").says("GET k");
    story.node("n1").gets("GET k").answers("\"v\"").dies("connection reset");
    story.client("a").gets("\"v\"").says("GET k");
    story.node("n1").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    // One that comes back is heard again.
    story.sentinels_say("n2 n1").is_up("s2").after_ms(6_000);
    story.client("a").says("GET k");
    story.node("n2").gets("GET k");
}

#[test]
fn a_sentinel_that_speaks_no_resp3_is_asked_in_resp2() {
    for refusal in ["-NOPROTO unsupported protocol version", "-ERR unknown command `HELLO`"] {
        let mut story = Story::with(behind(&["s1"]));
        story.sentinels_are("s1").sentinels_say("n1 n2");
        story.node_says_to("s1", "HELLO 3", refusal).client("a").says("GET k");
        story.node("n1").gets("GET k").answers("nil");
        assert!(!story.node("s1").gets_nothing().key().resp3);
        // Without messages the poll finds the next one.
        fail_over(&mut story);
        story.client("a").gets("nil").says("GET k");
        story.node("n2").gets("GET k");
        assert_eq!(story.connects_to("s1"), 2);
    }
}

#[test]
fn a_sentinel_that_knows_no_hello_at_all_is_asked_as_well() {
    let mut story = Story::with(behind(&["s1"]));
    story.sentinels_are("s1").sentinels_say("n1");
    story.node_says_to("s1", "HELLO", "-ERR unknown command `HELLO`").client("a").says("GET k");
    story.node("n1").gets("GET k");
}

#[test]
fn sentinels_and_servers_get_their_own_credentials() {
    let mut story = Story::sentinels_with(|settings| {
        settings.node.user = Some(b"app".to_vec());
        settings.node.password = Some(Password::new("server"));
        settings.node.db = 3;
        if let Pool::Sentinel { greeting, .. } = &mut settings.pool {
            greeting.user = Some(b"watch".to_vec());
            greeting.password = Some(Password::new("sentinel"));
        }
    });
    // A greeting that is not exactly this is left unanswered.
    story.node_says_to("s1", "HELLO", "-WRONGPASS other words");
    story.node_says_to("s1", "HELLO 3 AUTH watch sentinel", HELLO_3);
    story.node_says_to("n1", "HELLO", "-WRONGPASS other words");
    story.node_says_to("n1", "HELLO 2 AUTH app server", HELLO_2);
    story.client("a").says("GET k");
    story.node("n1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    assert_eq!((story.node("n1").key().db, story.node("s1").key().db), (3, 0));
}

#[test]
fn a_refused_password_of_a_sentinel_is_told_in_the_error() {
    let mut story = Story::with(behind(&["s1"]));
    story.node_says_to("s1", "HELLO", "-NOAUTH HELLO must be called with the client authenticated");
    story.client("a").says("GET k");
    story.after_ms(2_100);
    let got = story.client("a").takes_text();
    assert!(got.contains("s1:26379: refused the greeting: NOAUTH HELLO"), "{got}");
}

#[test]
fn a_primary_that_died_is_an_error_at_once_without_the_hold() {
    let mut story = Story::warm_sentinels();
    story.after_ms(2_000).crashes("n1").client("a").says("GET k");
    story.client("a").gets(&lost("n1", "connect: Connection refused"));
}

#[test]
fn with_the_failover_hold_clients_see_a_pause_and_no_error() {
    let mut story =
        Story::warm_sentinels_with(|settings| settings.timeouts.failover_hold_ms = 5_000);
    story.after_ms(2_000).crashes("n1");
    story.client("a").says(["SET k 1", "GET k"]);
    story.client("b").says("SET j 1");
    story.after_ms(3_000).client("a").gets_nothing();
    story.sentinels_say("n2").switch_master("s1");
    story.node("n2").gets(["SET k 1", "GET k", "SET j 1"]).answers(["+OK", "\"1\"", "+OK"]);
    story.client("a").gets(["+OK", "\"1\""]);
    story.client("b").gets("+OK");
}

#[test]
fn the_failover_hold_ends() {
    let mut story =
        Story::warm_sentinels_with(|settings| settings.timeouts.failover_hold_ms = 1_000);
    story.after_ms(2_000).crashes("n1").client("a").says("SET k 1");
    story.after_ms(990).client("a").gets_nothing();
    story.after_ms(50).client("a").gets(&lost("n1", "connect: Connection refused"));
}

#[test]
fn a_write_whose_reply_is_unknown_is_not_sent_to_the_new_primary() {
    let mut story =
        Story::warm_sentinels_with(|settings| settings.timeouts.failover_hold_ms = 5_000);
    story.client("a").says(["INCR k", "GET k"]);
    story.node("n1").gets(["INCR k", "GET k"]);
    story.after_ms(2_000).crashes("n1").sentinels_say("n2").switch_master("s1");
    story.after_ms(10).node("n2").gets("GET k").gets_nothing().answers("\"1\"");
    story.client("a").gets([&*lost("n1", "connection reset"), "\"1\""]);
}

#[test]
fn one_sentinel_that_lags_behind_does_not_bring_the_old_primary_back() {
    let mut story = Story::warm_sentinels();
    story.after_ms(3_100);
    // The failover is done; s2 has not heard of it for two seconds.
    story.node_says_to("n1", "HELLO 2", &hello_of_replica());
    story.sentinels_say("n2 n1").sentinel_says("s2", "n1 n2").switch_master("s1");
    let mut errors = Vec::new();
    for _ in 0..40 {
        story.after_ms(50).client("a").says("SET k 1");
        while story.node("n2").takes_one().is_some() {
            story.node("n2").answers("+OK");
        }
        let got = story.client("a").takes_text();
        if got.starts_with('-') {
            errors.push(got);
        }
    }
    assert!(errors.is_empty(), "{} errors, {}", errors.len(), errors[0]);
}

#[test]
fn databases_work_as_with_one_server() {
    let mut story = Story::warm_sentinels();
    story.client("a").says(["SELECT 2", "GET k"]).gets("+OK");
    assert_eq!(story.node("n1").gets("GET k").answers("nil").key().db, 2);
    fail_over(&mut story);
    story.client("a").gets("nil").says("GET k");
    assert_eq!(story.node("n2").gets("GET k").key().db, 2);
}

#[test]
fn requests_with_several_keys_are_not_taken_apart() {
    let mut story = Story::warm_sentinels();
    story.client("a").says(["MGET a b c", "MSETNX a 1 b 2", "DBSIZE", "SCAN 0"]);
    story.node("n1").gets(["MGET a b c", "MSETNX a 1 b 2", "DBSIZE", "SCAN 0"]).gets_nothing();
    assert_eq!(story.connects_to("n2"), 0);
}

#[test]
fn a_message_of_a_sentinel_in_pieces_is_one() {
    let mut story = Story::warm_sentinels();
    story.after_ms(100).asked_sentinels();
    for byte in b">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n" {
        story.node("s1").sends(&[*byte]);
    }
    assert_eq!(story.asked_sentinels().len(), 1);
}

#[test]
fn sections_of_info_that_are_the_servers_come_from_the_primary() {
    let mut story = Story::warm_sentinels();
    story.client("a").says("INFO keyspace");
    story.node("n1").gets("INFO keyspace").answers("\"# Keyspace\"");
    story.client("a").gets("\"# Keyspace\"");
    fail_over(&mut story);
    story.client("a").says(["INFO upstream stats", "INFO replication"]);
    story.node("n2").gets(["INFO stats", "INFO replication"]);
}

#[test]
fn a_script_goes_to_the_new_primary_and_one_that_only_claims_readonly_stays() {
    let readonly = "-READONLY You can't write against a read only replica.";
    let mut story = Story::warm_sentinels();
    story.after_ms(600).client("a").says("EVAL x 1 k");
    story.node("n1").gets("EVAL x 1 k").answers(readonly);
    story.after_ms(1_600).client("a").gets(readonly);
    story.sentinels_say("n2 n1").client("a").says("EVAL x 1 k");
    story.node("n1").gets("EVAL x 1 k").answers(readonly);
    story.after_ms(50).node("n2").gets("EVAL x 1 k").answers(":1");
    story.client("a").gets(":1");
}

#[test]
fn a_wait_that_the_old_primary_cuts_short_goes_on_at_the_new_one() {
    let cut = "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    let mut story = Story::warm_sentinels();
    story.client("a").says("BLPOP list 0");
    story.node_conn("n1", 2).gets("BLPOP list 0");
    story.after_ms(60_600).sentinels_say("n2 n1");
    story.node_conn("n1", 2).answers(cut).is_closed();
    story.client("a").gets_nothing();
    story.after_ms(5).node_conn("n2", 1).gets("BLPOP list 0").answers("+done");
    story.client("a").gets("+done");
}
