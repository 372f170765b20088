//! How clients go: of their own accord, for a fault of theirs, for idleness, and when the proxy stops.

use crate::words::{Story, request};

#[test]
fn quit_answers_all_before_it_and_nothing_behind_it() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "QUIT", "PING"]).gets_nothing().is_open();
    story.server().answers("\"v\"");
    story.client("a").gets(["\"v\"", "+OK"]).is_closed();
    assert!(!story.was_told("ClientClosed"), "that is no news");
}

#[test]
fn what_comes_after_quit_is_not_looked_at() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "QUIT"]).says("SET k 1");
    story.server().gets("GET k").gets_nothing();
}

#[test]
fn a_client_that_ends_gets_what_it_is_owed() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "PING"]).ends().is_open();
    story.server().answers("\"v\"");
    story.client("a").gets(["\"v\"", "+PONG"]).is_closed();
}

#[test]
fn a_client_that_ends_while_it_is_held_still_gets_all() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "SELECT 1", "GET l", "GET m"]).ends().is_open();
    story.conn(1).answers("\"k\"");
    story.conn(2).gets(["GET l", "GET m"]).answers(["\"l\"", "\"m\""]);
    story.client("a").gets(["\"k\"", "+OK", "\"l\"", "\"m\""]).is_closed();
}

#[test]
fn a_client_that_ends_before_the_connect_still_gets_its_reply() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k").ends().is_open();
    story.connect_fails("connect: Connection refused");
    story
        .client("a")
        .gets("-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused")
        .is_closed();
}

#[test]
fn half_a_request_at_the_end_is_dropped() {
    let mut story = Story::new();
    story.client("a").sends(&request("GET key")[..10]).ends().gets_nothing().is_closed();
}

#[test]
fn a_slow_client_that_ended_is_closed_when_it_has_all() {
    let mut story = Story::new();
    story.client("a").stops_taking().says("ECHO hi").ends().is_open();
    story.client("a").takes_all().gets("\"hi\"").is_closed();
}

#[test]
fn a_protocol_error_comes_behind_the_good_requests_and_closes() {
    let mut story = Story::new();
    story.client("a").sends(&[request("GET k"), request("PING"), b"*x\r\n".to_vec()].concat());
    story.server().gets("GET k").answers("\"v\"");
    story
        .client("a")
        .gets(["\"v\"", "+PONG", "-ERR Protocol error: invalid multibulk length"])
        .is_closed();
    assert_eq!(story.engine.stats().protocol_errors, 1);
}

#[test]
fn protocol_errors_have_redis_words() {
    for (bytes, error) in [
        (&b"*1\r\n+PING\r\n"[..], "-ERR Protocol error: expected '$', got '+'"),
        (b"*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"PING \"x\r\n", "-ERR Protocol error: unbalanced quotes in request"),
        (&[b'a'; 70_000], "-ERR Protocol error: too big inline request"),
    ] {
        let mut story = Story::new();
        story.client("a").sends(bytes).gets(error).is_closed();
    }
}

#[test]
fn idle_clients_are_closed_and_busy_ones_are_not() {
    let mut story = Story::with_timeouts(|timeouts| {
        timeouts.client_idle_ms = 5_000;
        timeouts.request_ms = 0;
    });
    story.client("idle").says("PING").gets("+PONG");
    story.client("waits").says("GET k");
    for _ in 0..3 {
        story.after_ms(2_000).client("speaks").says("PING").gets("+PONG");
    }
    story.client("idle").is_closed();
    story.client("waits").is_open();
    story.client("speaks").is_open();
}

#[test]
fn clients_that_sleep_are_left_alone_until_the_first_can_be_idle_for_too_long() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.client_idle_ms = 640_000);
    story.client("first").says("PING").gets("+PONG");
    story.after_ms(100_000).client("second").says("PING").gets("+PONG");
    // Not every tenth of a second, and not every second either: until then there is nothing to be found.
    let due = |story: &Story| story.engine.poll_timeout(story.now).expect("a sweep").0 / 1000;
    let now_ms = |story: &Story| story.now.0 / 1000;
    let first_ms = now_ms(&story) + 540_000;
    assert_eq!(due(&story), first_ms);
    story.after_ms(539_000).client("first").is_open();
    // It is closed a second late at the most, and then the next one is waited for.
    story.after_ms(2_000).client("first").is_closed();
    story.client("second").is_open();
    assert_eq!(due(&story), first_ms + 100_000);
    story.after_ms(100_000).client("second").is_closed();
}

#[test]
fn a_client_that_waits_for_a_reply_when_its_time_comes_is_closed_after_it() {
    let mut story = Story::with_timeouts(|timeouts| {
        timeouts.client_idle_ms = 5_000;
        timeouts.request_ms = 0;
    });
    story.client("a").says("GET k");
    story.after_ms(20_000).client("a").is_open();
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.after_ms(200).client("a").is_closed();
}

#[test]
fn without_an_idle_timeout_nobody_is_closed() {
    let mut story = Story::new();
    story.client("a").says("PING").gets("+PONG");
    story.after_ms(86_400_000).client("a").is_open();
}

#[test]
fn a_drain_closes_the_idle_and_lets_the_others_finish() {
    let mut story = Story::new();
    story.client("idle").says("PING").gets("+PONG");
    story.client("busy").says(["GET k", "PING"]);
    story.engine.drain();
    story.after_ms(20);
    story.client("idle").is_closed();
    story.client("late").is_closed();
    story.client("busy").is_open();
    assert!(!story.engine.is_quiet());
    story.server().answers("\"v\"");
    story.client("busy").gets(["\"v\"", "+PONG"]);
    story.after_ms(20);
    story.client("busy").is_closed();
    assert!(story.engine.is_quiet() && story.engine.is_draining());
}

#[test]
fn a_drain_answers_a_pipeline_that_is_held() {
    let mut story = Story::with_limits(|limits| limits.client_inflight_max = 1);
    story.client("a").says(["GET k", "GET l"]);
    story.engine.drain();
    story.after_ms(20).server().gets("GET k").answers("\"k\"");
    story.after_ms(20).server().gets("GET l").answers("\"l\"");
    story.after_ms(20).client("a").gets(["\"k\"", "\"l\""]).is_closed();
}

#[test]
fn a_drain_does_not_make_lost_connections_again() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.engine.drain();
    story.server().dies("connection reset");
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: connection reset");
    story.after_ms(20).client("a").is_closed();
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn nothing_is_left_of_those_who_went() {
    let mut story = Story::new();
    for round in 0..50 {
        let name = format!("client-{round}");
        story.client(&name).says(["GET k", "SELECT 1", "GET l", "CLIENT LIST"]);
        story.client(&name).dies();
    }
    let owed = story.conn(1).takes_requests();
    story.conn(1).sends(&b"$-1\r\n".repeat(owed));
    for number in 2..=story.connects_made() {
        let owed = story.conn(number).takes_requests();
        story.conn(number).sends(&b"$-1\r\n".repeat(owed));
    }
    assert_eq!(story.engine.client_count(), 0);
    assert!(story.engine.is_quiet());
}
