//! A node that is down, goes down, or comes back.

use crate::words::{HELLO_2, HELLO_3, Story, large_set};
use engine::Settings;

const REFUSED: &str = "-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused";
const RESET: &str = "-ERR respool: upstream 127.0.0.1:6379: connection reset";

fn greet(story: &mut Story) {
    story.connects();
    story.server().gets("HELLO 2").answers(HELLO_2);
}

#[test]
fn the_first_requests_wait_for_the_connect_and_then_fail_with_node_and_cause() {
    let mut story = Story::new().by_hand();
    story.client("a").says(["GET k", "GET l", "PING"]).gets_nothing();
    story.connect_fails("connect: Connection refused");
    story.client("a").gets([REFUSED, REFUSED, "+PONG"]).is_open();
    assert!(story.was_told("NodeDown"));
}

#[test]
fn a_node_known_to_be_down_fails_at_once() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connect_fails("connect: Connection refused");
    story.client("a").gets(REFUSED).says("GET k").gets(REFUSED);
    assert_eq!(story.connects_made(), 1, "it is left alone for a while");
}

#[test]
fn a_request_that_finds_a_refusing_node_down_has_it_tried_again() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.reconnect_max_ms = 5_000).by_hand();
    story.client("a").says("GET k");
    for _ in 0..8 {
        story.connect_fails("connect: Connection refused");
        story.client("a").gets(REFUSED);
        let connects = story.connects_made();
        story.after_ms(50).client("a").says("GET k").gets_nothing();
        assert_eq!(story.connects_made(), connects + 1);
    }
    // It is back: nobody waits until it is tried again by itself.
    greet(&mut story);
    story.server().gets(["COMMAND", "GET k"]).answers(["*0", "\"v\""]);
    story.client("a").gets("\"v\"");
}

#[test]
fn a_node_that_fails_slowly_is_tried_again_by_no_request() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.after_ms(100).connect_fails("connect: Connection refused");
    story.client("a").gets(REFUSED);
    story.after_ms(60);
    assert_eq!(story.connects_made(), 2);
    story.client("a").says("GET k").gets(REFUSED);
}

#[test]
fn a_node_that_is_down_is_tried_again_with_growing_waits() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.reconnect_max_ms = 5_000).by_hand();
    story.client("a").says("GET k");
    let mut waits = Vec::new();
    for _ in 0..12 {
        story.connect_fails("connect: Connection refused");
        let (connects, before) = (story.connects_made(), story.now);
        while story.connects_made() == connects {
            story.after_ms(1);
            assert!(story.now.since(before) <= 5_001_000, "it is not tried again");
        }
        waits.push(story.now.since(before) / 1_000);
    }
    assert!(waits[0] <= 51 && waits[11] >= 2_500, "{waits:?}");
    assert_eq!(
        story.notices.iter().filter(|notice| format!("{notice:?}").contains("NodeDown")).count(),
        1,
        "the operator is told once"
    );
    greet(&mut story);
    story.client("a").takes();
    story.client("a").says("GET k");
    story.server().gets(["COMMAND", "GET k"]).answers(["*0", "\"v\""]);
    story.client("a").gets("\"v\"");
}

// Fault matrix, rows 13 and 15: a node that takes connections and says nothing is well again, and nobody tells of it. It must be served
// within two seconds, so the time that a greeting took in vain is no reason to wait as long again.
#[test]
fn a_node_that_hangs_is_tried_again_each_second() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connects();
    for attempt in 0..30 {
        let (connects, before) = (story.connects_made(), story.now);
        while story.connects_made() == connects {
            story.after_ms(1);
        }
        let waited_ms = story.now.since(before) / 1_000;
        assert!((1_000..=1_101).contains(&waited_ms), "attempt {attempt} after {waited_ms} ms");
        story.connects();
    }
    story.server().gets("HELLO 2").answers(HELLO_2);
    story.client("a").takes();
    story.client("a").says("GET k");
    story.server().gets(["COMMAND", "GET k"]);
}

// Simulator, seed 1001266: where connections do not last, nothing but the long reply to COMMAND travelled.
#[test]
fn commands_are_learnt_after_a_pause_when_their_reply_was_lost_twice() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    for _ in 0..2 {
        greet(&mut story);
        story.server().gets("COMMAND");
        story.server().takes_requests();
        story.after_ms(1_500).server().dies("connection reset");
        story.client("a").takes();
    }
    greet(&mut story);
    story.server().gets_nothing();
    story.after_ms(999).server().gets_nothing();
    story.after_ms(1).server().gets("COMMAND");
}

#[test]
fn the_connect_and_the_greeting_have_one_time_together() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.after_ms(600).connects();
    story.after_ms(399).client("a").gets_nothing();
    story.after_ms(1);
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: the greeting timed out");
}

#[test]
fn when_one_connection_is_back_the_others_to_its_node_are_tried_at_once() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    greet(&mut story);
    story.conn(1).gets(["COMMAND", "GET k"]).answers(["*0", "nil"]);
    story.client("b").says("HELLO 3");
    story.connects();
    story.conn(2).gets("HELLO 3").answers(HELLO_3);
    story.after_ms(2_000);
    for number in [1, 2] {
        story.conn(number).dies("connection reset");
        story.connect_fails("connect: Connection refused");
    }
    assert_eq!(story.connects_made(), 4);
    while story.connects_made() == 4 {
        story.after_ms(1);
    }
    assert_eq!(story.connects_made(), 5, "the other one has its time still before it");
    story.connects();
    let hello = if story.server().key().resp3 { HELLO_3 } else { HELLO_2 };
    story.server().answers(hello);
    assert_eq!(story.connects_made(), 6);
}

#[test]
fn nobody_makes_a_connection_of_its_own_to_a_node_that_is_known_to_be_down() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connect_fails("connect: Connection refused");
    story.client("a").gets(REFUSED);
    for name in ["b", "c"] {
        story.client(name).says("BLPOP l 0").gets(REFUSED);
        story.client(name).says("WATCH k").gets(REFUSED);
        story.client(name).sends(&large_set("big", 1 << 20)).gets(REFUSED);
    }
    assert_eq!(story.connects_made(), 1, "each of them would be tried in vain");
    story.after_ms(50);
    greet(&mut story);
    story.client("b").says("BLPOP l 0");
    assert_eq!(story.connects_made(), 3);
}

#[test]
fn a_connect_that_takes_too_long_is_given_up() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.after_ms(999).client("a").gets_nothing();
    story.after_ms(1);
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: connect: timed out");
    story.conn(1).is_closed();
}

#[test]
fn a_lost_connection_answers_each_owed_request_once() {
    let mut story = Story::new();
    story.client("a").says(["GET a", "PING", "GET b"]);
    story.client("b").says("GET c");
    story.server().answers("\"a\"");
    story.after_ms(2_000).server().dies("connection reset");
    story.client("a").gets(["\"a\"", "+PONG", RESET]).is_open();
    story.client("b").gets(RESET).is_open();
    assert!(story.was_told(
        "UpstreamLost { node: \"127.0.0.1:6379\", cause: \"connection reset\", requests: 2 }"
    ));
}

#[test]
fn a_lost_pipeline_of_one_command_is_one_error_each_and_leaves_no_place_open() {
    let mut story = Story::new();
    story.client("a").says(["GET a", "GET b", "GET c"]);
    story.server().answers("\"a\"").dies("connection reset");
    story.client("a").gets(["\"a\"", RESET, RESET]).says("PING").gets("+PONG");
    story.client("a").says("GET d");
    story.server().gets("GET d").answers("\"d\"");
    story.client("a").gets("\"d\"");
}

#[test]
fn after_a_loss_the_connection_is_made_again_at_once() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.after_ms(2_000).server().dies("connection reset");
    assert_eq!(story.connects_made(), 2);
    story.client("a").gets(RESET).says("GET k");
    story.conn(2).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn those_who_wait_for_a_database_go_on_after_a_loss() {
    let mut story = Story::new();
    story.client("a").says(["GET a", "SELECT 1", "GET b"]);
    story.conn(1).gets("GET a").dies("connection reset");
    story.client("a").gets([RESET, "+OK"]);
    story.conn(2).gets("GET b").answers("\"b\"");
    story.client("a").gets("\"b\"");
}

#[test]
fn an_idle_close_is_no_failure() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().answers("nil");
    story.client("a").gets("nil");
    story.after_ms(300_000).server().dies("closed the connection");
    assert!(!story.was_told("UpstreamLost") && !story.was_told("NodeDown"));
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn a_server_that_greets_and_hangs_up_is_not_stormed() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    for _ in 0..2 {
        story.server().dies("closed the connection");
    }
    let error = "-ERR respool: upstream 127.0.0.1:6379: closed the connection";
    story.client("a").gets(error).says("GET k");
    // This one was not sent.
    story.client("a").gets(
        "-ERR respool: upstream 127.0.0.1:6379: the connection broke before the request was sent: closed the connection",
    );
    assert_eq!(story.connects_made(), 2, "the third connect waits");
    story.after_ms(50);
    assert_eq!(story.connects_made(), 3);
}

#[test]
fn half_a_reply_that_was_kept_becomes_an_error() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().sends(b"$100\r\nhalf");
    story.client("a").gets_nothing();
    story.server().dies("connection reset");
    story.client("a").gets(RESET).is_open();
}

#[test]
fn half_a_reply_that_was_given_closes_the_client() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "GET l"]);
    story.client("b").says("GET m");
    story.server().sends(&[&b"$100000\r\n"[..], &[b'x'; 60_000]].concat());
    assert!(story.client("a").takes().starts_with(b"$100000\r\nxxx"));
    story.server().dies("connection reset");
    story.client("a").gets_nothing().is_closed();
    story.client("b").gets(RESET).is_open();
    assert!(story.was_told("its upstream was lost in the middle of a reply"));
}

#[test]
fn a_loss_during_the_greeting_is_a_failed_connect() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.server().dies("closed the connection");
    // By these words the client knows that its request was not sent.
    story
        .client("a")
        .gets("-ERR respool: upstream 127.0.0.1:6379: the greeting failed: closed the connection");
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn the_error_has_the_label_of_the_configuration() {
    let mut settings = Settings::default();
    settings.node.address = engine::node::Address::tcp("cache-1.example", 7000);
    let mut story = Story::with(settings).by_hand();
    story.client("a").says("GET k");
    story.connect_fails("connect: No route to host");
    story
        .client("a")
        .gets("-ERR respool: upstream cache-1.example:7000: connect: No route to host");
}

#[test]
fn what_the_server_was_not_told_of_is_told_the_next_connection() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    greet(&mut story);
    // It dies while it owes the list of its commands: the next one is asked.
    story.server().gets(["COMMAND", "GET k"]).dies("connection reset");
    story.client("a").gets(RESET).says("GET k");
    greet(&mut story);
    story.server().gets(["COMMAND", "GET k"]);
}

#[test]
fn a_frame_that_the_server_refuses_is_counted_and_told_by_its_shape() {
    let mut story = Story::new();
    story.client("a").says("SET k secret");
    story.server().gets("SET k secret").answers("-ERR Protocol error: invalid bulk length");
    story.server().dies("closed the connection");
    assert_eq!(story.engine.stats().upstream_protocol_errors, 1);
    let told = story.notices.iter().map(|notice| format!("{notice:?}"));
    let told: Vec<String> = told.filter(|notice| notice.starts_with("FrameRefused")).collect();
    assert_eq!(told.len(), 1);
    assert!(!told[0].contains("secret"), "{told:?}");
    // A script may say so, too; then further replies come.
    let mut story = Story::new();
    story.client("a").says(["EVAL x 0", "GET k"]);
    story.server().takes_requests();
    story.server().answers("-ERR Protocol error: invalid bulk length").answers("nil");
    story.server().dies("closed the connection");
    assert_eq!(story.engine.stats().upstream_protocol_errors, 0);
}
