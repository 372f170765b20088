//! Connections to servers that are quiet: asked whether they still are connections.

use crate::words::Story;

fn story() -> Story {
    let mut settings = engine::Settings::default();
    settings.timeouts.ping_ms = 5_000;
    settings.timeouts.request_ms = 1_000;
    let mut story = Story::with(settings);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story
}

#[test]
fn a_quiet_connection_is_asked_and_its_answer_goes_to_nobody() {
    let mut story = story();
    story.after_ms(4_999).server().gets_nothing();
    story.after_ms(1).server().gets("PING").answers("+PONG");
    story.client("a").gets_nothing();
    story.after_ms(4_999).server().gets_nothing();
    story.after_ms(1).server().gets("PING");
    // A request behind it gets its own reply.
    story.client("a").says("GET k");
    story.server().gets("GET k").answers(["+PONG", "\"v\""]);
    story.client("a").gets("\"v\"");
}

#[test]
fn a_connection_in_use_is_not_asked() {
    let mut story = story();
    for _ in 0..20 {
        story.after_ms(1_000).client("a").says("GET k");
        story.server().gets("GET k").answers("nil");
        story.client("a").gets("nil");
    }
    story.server().gets_nothing();
}

#[test]
fn a_peer_that_is_gone_without_a_word_is_found_before_a_request_is() {
    let mut story = story();
    story.after_ms(5_000).server().gets("PING");
    // Nothing comes back. The next request already goes over a new connection.
    story.after_ms(1_000);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn an_error_is_an_answer_too() {
    let mut story = story();
    story.after_ms(5_000).server().gets("PING").answers("-MISCONF no");
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}
