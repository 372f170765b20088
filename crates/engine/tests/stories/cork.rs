//! The first replies of a pipeline wait for those behind them while many clients are active, a short time at most.

use crate::words::Story;
use crate::words::cluster::list;

/// Whose replies wait two milliseconds: of three primaries twice as long as is said.
fn corking() -> Story {
    let mut story = Story::warm_cluster();
    story.engine.cork_replies_us(1_000);
    story
}

#[test]
fn replies_of_several_nodes_leave_in_one_write() {
    let mut story = corking();
    story.client("a").says(["GET a4", "GET b4", "GET c1"]);
    let before = story.client("a").sends_seen();
    story.node("n1").gets("GET a4").answers("\"1\"");
    story.node("n2").gets("GET b4").answers("\"2\"");
    story.client("a").gets_nothing();
    story.node("n3").gets("GET c1").answers("\"3\"");
    assert_eq!(story.client("a").sends_seen() - before, 1);
    story.client("a").gets(["\"1\"", "\"2\"", "\"3\""]);
}

#[test]
fn nobody_waits_longer_than_that() {
    let mut story = corking();
    story.client("a").says(["GET a4", "GET b4"]);
    story.node("n1").gets("GET a4").answers("\"1\"");
    story.after_ms(1).client("a").gets_nothing();
    story.after_ms(1).client("a").gets("\"1\"");
    // And from then on the time runs anew.
    story.client("a").says("GET c1");
    story.node("n2").gets("GET b4").answers("\"2\"");
    story.client("a").gets_nothing();
    story.after_ms(2).client("a").gets("\"2\"");
}

#[test]
fn a_later_reply_does_not_make_the_first_wait_longer() {
    let mut story = corking();
    story.client("a").says(["GET a4", "GET b4", "GET c1"]);
    story.node("n1").gets("GET a4").answers("\"1\"");
    story.after_ms(1).node("n2").gets("GET b4").answers("\"2\"");
    story.client("a").gets_nothing();
    story.after_ms(1).client("a").gets(["\"1\"", "\"2\""]);
}

#[test]
fn who_is_owed_nothing_more_waits_for_nobody() {
    let mut story = corking();
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").answers("\"1\"");
    story.client("a").gets("\"1\"");
    story.client("a").says("MGET a4 b4");
    story.node("n1").answers(&list("\"1\""));
    story.node("n2").answers(&list("\"2\""));
    story.client("a").gets(&list(["\"1\"", "\"2\""]));
}

#[test]
fn much_leaves_at_once() {
    let mut story = corking();
    story.client("a").says(["GET a4", "GET b4"]);
    let large = format!("\"{}\"", "x".repeat(20_000));
    story.node("n1").gets("GET a4").answers(&large);
    story.client("a").gets(&large);
}

#[test]
fn a_client_that_is_to_be_closed_gets_its_replies_as_they_come() {
    let mut story = corking();
    story.client("a").says(["GET a4", "GET b4", "QUIT"]);
    story.node("n1").gets("GET a4").answers("\"1\"");
    story.client("a").gets("\"1\"");
    story.node("n2").gets("GET b4").answers("\"2\"");
    story.client("a").gets(["\"2\"", "+OK"]).is_closed();
}

#[test]
fn a_client_that_goes_while_its_replies_wait_leaves_nothing() {
    let mut story = corking();
    story.client("a").says(["GET a4", "GET b4"]);
    story.node("n1").gets("GET a4").answers("\"1\"");
    story.client("a").dies();
    story.after_ms(5);
    story.node("n2").gets("GET b4").answers("\"2\"");
    assert!(story.engine.is_quiet());
}

#[test]
fn in_front_of_one_server_nothing_waits() {
    let mut story = Story::new();
    story.engine.cork_replies_us(2_000);
    story.client("a").says(["GET x", "GET y"]);
    story.server().gets(["GET x", "GET y"]).answers("\"1\"");
    story.client("a").gets("\"1\"");
}

#[test]
fn of_more_servers_the_last_is_awaited_longer() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    story.cluster_is(
        "0-5460 n1, 5461-10922 n2, 10923-11000 n3, 11001-11100 n4, 11101-11200 n5, 11201-11300 n6, \
         11301-11400 n7, 11401-16383 n8",
    );
    story.after_ms(2_000);
    story.engine.cork_replies_us(2_000);
    story.client("a").says(["GET a4", "GET b4"]);
    story.node("n1").gets("GET a4").answers("\"1\"");
    story.after_ms(7).client("a").gets_nothing();
    story.after_ms(1).client("a").gets("\"1\"");
}
