//! The poison rule: a connection with an overdue, malformed or unasked reply is closed and never used again.

use crate::words::Story;

#[test]
fn an_overdue_reply_closes_the_connection_and_is_never_delivered() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.client("b").says("GET l");
    story.after_ms(9_999);
    story.client("a").gets_nothing();
    story.after_ms(1);
    let error = "-ERR respool: upstream 127.0.0.1:6379: gave no reply for 10000 ms, its connection was closed";
    story.client("a").gets(error).is_open();
    story.client("b").gets(error).is_open();
    story.conn(1).is_closed();
    // The next request has a connection on which nothing is late.
    story.client("a").says("GET m");
    story.conn(2).gets("GET m").answers("\"m\"");
    story.client("a").gets("\"m\"");
}

#[test]
fn a_reply_that_is_still_coming_is_not_overdue() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().sends(b"$8\r\n");
    for byte in b"slowlyss\r\n" {
        story.after_ms(9_000).server().sends(&[*byte]);
    }
    story.client("a").gets("\"slowlyss\"");
}

#[test]
fn each_request_has_its_own_time() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.after_ms(9_000).client("b").says("GET l");
    story.server().answers("\"k\"");
    story.after_ms(9_000).server().is_open().answers("\"l\"");
    story.client("b").gets("\"l\"");
}

#[test]
fn without_a_timeout_replies_may_take_for_ever() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 0);
    story.client("a").says("GET k");
    story.after_ms(86_400_000).server().is_open().answers("\"k\"");
    story.client("a").gets("\"k\"");
}

#[test]
fn a_timeout_shorter_than_a_short_life_is_no_reason_to_leave_the_node_alone() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 100);
    for number in 1..=4 {
        story.client("a").says("GET k");
        story.conn(number).gets("GET k");
        story.after_ms(100).conn(number).is_closed();
        assert!(story.client("a").takes_text().contains("gave no reply for 100 ms"));
    }
}

#[test]
fn a_malformed_reply_is_an_error_for_all_who_wait() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.client("b").says("GET l");
    story.after_ms(2_000).server().sends(b"$1\r\nv\r\nHTTP/1.1 400\r\n");
    story.client("a").gets("\"v\"").is_open();
    story.client("b").gets(
        "-ERR respool: upstream 127.0.0.1:6379: sent a malformed reply (reply: unexpected byte 'H')",
    );
    story.conn(1).is_closed();
    assert_eq!(story.connects_made(), 2);
}

#[test]
fn a_reply_that_nobody_asked_for_closes_the_connection() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.after_ms(2_000).server().answers(["\"v\"", "\"foreign\""]);
    story.client("a").gets("\"v\"").is_open();
    story.conn(1).is_closed();
    // Whoever asks next gets its own reply and not that one.
    story.client("a").says("GET l");
    story.conn(2).gets("GET l").answers("\"l\"");
    story.client("a").gets("\"l\"");
}

#[test]
fn a_parting_word_of_the_server_is_no_reply_to_the_next_request() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().answers("nil");
    story.client("a").gets("nil");
    story.after_ms(2_000).server().answers("-ERR server is shutting down");
    story.conn(1).is_closed();
    story.client("a").says("GET k").gets_nothing();
    story.conn(2).gets("GET k");
}

#[test]
fn a_malformed_answer_to_the_greeting_is_a_failed_connect() {
    let mut story = Story::new();
    story.server_says_to("HELLO", "HTTP/1.1 400 Bad Request");
    story.client("a").says("GET k").gets(
        "-ERR respool: upstream 127.0.0.1:6379: the greeting failed: sent a malformed reply (reply: unexpected byte 'H')",
    );
    story.conn(1).is_closed();
}

#[test]
fn a_greeting_without_an_end_is_not_kept() {
    let mut story = Story::new();
    let long = [&b"$100000000\r\n"[..], &vec![b'x'; 70 << 10]].concat();
    story.server_says_to("HELLO 3", std::str::from_utf8(&long).unwrap_or_default());
    story.client("a").says(["HELLO 3", "GET k"]);
    let text = story.client("a").takes_text();
    assert!(text.contains("sent too long a reply to a command of the proxy"), "{text}");
}

#[test]
fn too_long_a_list_of_commands_is_not_kept() {
    let mut story = Story::new();
    let long = [&b"$9000000\r\n"[..], &vec![b'x'; 8_600_000]].concat();
    story.server_says_to("COMMAND", std::str::from_utf8(&long).unwrap_or_default());
    story.client("a").says("GET k");
    let text = story.client("a").takes_text();
    assert!(text.contains("sent too long a reply to a command of the proxy"), "{text}");
    assert_eq!(story.connects_made(), 2, "the server is not stormed");
}
