//! What a new connection to the server says first, and what the server may answer.

use crate::words::{HELLO_2, Story};
use engine::settings::{Password, Settings};

/// A node that wants all that a greeting can give.
fn full() -> Settings {
    let mut settings = Settings::default();
    settings.node.user = Some(b"proxy".to_vec());
    settings.node.password = Some(Password::new("pw"));
    settings.node.client_name = b"respool".to_vec();
    settings.node.db = 3;
    settings
}

#[test]
fn the_greeting_authenticates_names_and_selects_before_any_request() {
    let mut story = Story::with(full()).by_hand();
    story.client("a").says("GET k").gets_nothing();
    story.connects();
    story.server().gets(["HELLO 2 AUTH proxy pw SETNAME respool", "SELECT 3"]).gets_nothing();
    story.server().answers(HELLO_2).gets_nothing();
    story.server().answers("+OK").gets(["COMMAND", "GET k"]);
}

#[test]
fn without_a_user_the_default_user_is_meant() {
    let mut settings = Settings::default();
    settings.node.password = Some(Password::new("pw"));
    let mut story = Story::with(settings).by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.server().gets("HELLO 2 AUTH default pw");
}

#[test]
fn a_server_without_hello_is_greeted_the_old_way() {
    let mut story = Story::with(full()).by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.server().gets(["HELLO 2 AUTH proxy pw SETNAME respool", "SELECT 3"]);
    story.server().answers(["-ERR unknown command `HELLO`", "-NOAUTH Authentication required."]);
    story.server().gets(["AUTH pw", "SELECT 3", "CLIENT SETNAME respool"]).gets_nothing();
    story.server().answers(["+OK", "+OK", "-ERR not allowed"]).gets(["COMMAND", "GET k"]);
}

#[test]
fn a_server_without_hello_and_without_more_to_say_is_ready_at_once() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.server().gets("HELLO 2").answers("-ERR unknown command 'HELLO'");
    story.server().gets(["COMMAND", "GET k"]).answers(["*0", "nil"]);
    story.client("a").gets("nil");
    // Such a server's clients cannot have HELLO either, in its own words.
    story
        .client("a")
        .says("HELLO")
        .gets("-ERR unknown command 'HELLO', with args beginning with: ");
}

#[test]
fn a_refused_password_is_an_error_that_names_the_node() {
    let mut story = Story::with(full());
    story.server_says_to("HELLO", "-WRONGPASS invalid username-password pair or user is disabled.");
    story.client("a").says("GET k").gets(
        "-ERR respool: upstream 127.0.0.1:6379: refused the greeting: \
         WRONGPASS invalid username-password pair or user is disabled.",
    );
    story.conn(1).is_closed();
    assert!(story.was_told("NodeDown"));
}

#[test]
fn a_refused_password_of_an_old_server_is_an_error_too() {
    let mut story = Story::with(full());
    story.server_says_to("HELLO", "-ERR unknown command 'HELLO'");
    story.server_says_to("AUTH", "-ERR invalid password");
    story
        .client("a")
        .says("GET k")
        .gets("-ERR respool: upstream 127.0.0.1:6379: refused the greeting: ERR invalid password");
}

#[test]
fn a_server_that_speaks_no_resp3_answers_hello_3_in_its_own_words() {
    let mut story = Story::new();
    story.server_says_to("HELLO 3", "-NOPROTO unsupported protocol version");
    story.client("a").says("HELLO 3").gets("-NOPROTO unsupported protocol version").is_open();
    story.client("a").says("CLIENT GETNAME").gets("nil");
    story.client("a").says("HELLO 2");
    assert!(story.client("a").takes_text().starts_with("*14\r\n"));
}

#[test]
fn a_server_that_is_full_is_down_and_tried_again() {
    let full = "-ERR max number of clients reached";
    let mut story = Story::new();
    story.server_says_to("HELLO", full);
    story.client("a").says("GET k");
    assert!(story.client("a").takes_text().contains("max number of clients reached"));
    story.server_says_to("HELLO", HELLO_2);
    story.after_ms(60);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn a_greeting_that_gets_no_answer_times_out() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.after_ms(999).client("a").gets_nothing();
    story.after_ms(1);
    story
        .client("a")
        .gets("-ERR respool: upstream 127.0.0.1:6379: the greeting timed out")
        .is_open();
    story.conn(1).is_closed();
}

/// A story in which a server has just answered a request, and now greets nobody, as while a script runs.
fn busy_server() -> Story {
    let mut story = Story::new();
    story.client("s").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.client("s").gets("nil").says("EVAL long 0");
    story.conn(1).gets("EVAL long 0");
    story.servers_are_busy(true);
    story
}

#[test]
fn whoever_needs_a_new_connection_to_a_busy_server_waits_as_it_would_directly() {
    for line in ["BLPOP list 0", "WATCH k", "SELECT 3", "subscribe news"] {
        let mut story = busy_server();
        story.client("a").says(line);
        story.after_ms(9_900).client("a").gets_nothing().is_open();
        // The third is for clients behind the script.
        assert_eq!(story.connects_made(), 3, "{line}");
        story.servers_are_busy(false);
        if line == "SELECT 3" {
            story.client("a").gets("+OK");
        } else {
            story.conn(2).gets(line);
        }
    }
}

#[test]
fn a_greeting_is_not_awaited_for_longer_than_a_reply() {
    let mut story = Story::new();
    story.client("s").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.servers_are_busy(true);
    story.client("a").says("WATCH k");
    story.after_ms(9_999).client("a").gets_nothing().is_open();
    story.after_ms(1);
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: the greeting timed out");
    story.conn(2).is_closed();
}

#[test]
fn a_server_that_left_a_request_without_a_reply_has_to_greet_at_once_again() {
    let mut story = busy_server();
    // The script's reply is overdue behind 10,000 ms, and the connection is closed.
    story.after_ms(9_500);
    story.client("a").says("WATCH k");
    story.after_ms(499).client("a").gets_nothing().is_open();
    story.after_ms(501);
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: the greeting timed out");
}

#[test]
fn a_late_greeting_ends_with_the_shared_connection_that_stood() {
    let mut story = busy_server();
    story.after_ms(5_300);
    story.client("a").says("WATCH k");
    // The engine extended the greeting by a second 500 ms ago.
    story.after_ms(4_699).client("a").gets_nothing().is_open();
    story.after_ms(1);
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: the greeting timed out");
}

#[test]
fn a_greeting_has_no_more_time_than_a_reply_where_connects_have_a_part_of_it() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 2_500);
    story.client("s").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.servers_are_busy(true);
    story.client("a").says("WATCH k");
    story.after_ms(2_499).client("a").gets_nothing().is_open();
    story.after_ms(1);
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: the greeting timed out");
}

#[test]
fn commands_that_the_table_does_not_know_are_learnt() {
    let mut story = Story::new();
    story.server_says_to(
        "COMMAND",
        "*2\r\n\
         *6\r\n$8\r\nmod.wait\r\n:-2\r\n*1\r\n+blocking\r\n:1\r\n:1\r\n:1\r\n\
         *6\r\n$7\r\nmod.get\r\n:2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n",
    );
    // The first request is on its way before the server has told of its commands.
    story.client("a").says("GET k");
    story.server().answers("nil");
    story.client("a").gets("nil").says(["MOD.WAIT k", "mod.get k"]);
    story.conn(1).gets("GET k").gets_nothing();
    // One that blocks gets a connection of its own.
    story.conn(2).gets("MOD.WAIT k").answers(":1");
    story.conn(1).gets("mod.get k").gets_nothing().answers("\"v\"");
    story.client("a").gets([":1", "\"v\""]);
}

#[test]
fn a_server_that_refuses_command_is_used_without() {
    let mut story = Story::new();
    story.server_says_to(
        "COMMAND",
        "-NOPERM this user has no permissions to run the 'command' command",
    );
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn the_connection_can_be_made_before_the_first_request() {
    let mut story = Story::new();
    story.engine.warm_up(story.now);
    story.turn();
    assert_eq!(story.connects_made(), 1);
    story.client("a").says("GET k");
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn a_long_refusal_is_quoted_in_part() {
    let mut story = Story::with(full());
    story.server_says_to("HELLO", &format!("-WRONGPASS {}", "x".repeat(5_000)));
    story.client("a").says("GET k");
    let text = story.client("a").takes_text();
    assert!(text.contains("WRONGPASS xxx") && text.len() < 400, "{} bytes", text.len());
}
