//! `on_upstream_loss = "close"`: whoever waits for a server that is lost sees its connection end, and nobody else does.

use crate::words::{HELLO_2, Story, large_set};
use engine::Settings;
use engine::settings::OnLoss;

/// With connections that end.
fn closing(settings: Settings) -> Story {
    Story::with(Settings { on_upstream_loss: OnLoss::Close, ..settings })
}

fn one() -> Story {
    closing(Settings::default())
}

#[test]
fn what_was_answered_comes_first_and_then_the_connection_ends() {
    let mut story = one();
    story.client("a").says(["GET k", "INCR n", "PING", "GET j"]);
    story.client("b").says("PING").gets("+PONG");
    story.server().gets(["GET k", "INCR n", "GET j"]).answers("\"v\"");
    story.server().dies("connection reset");
    story.client("a").gets("\"v\"").is_closed();
    story.client("b").is_open().says("GET k");
    story.conn(2).gets("GET k").answers("\"v\"");
    story.client("b").gets("\"v\"").is_open();
    assert_eq!(story.engine.stats().clients_lost, 1);
}

#[test]
fn replies_that_the_client_has_not_taken_are_still_given() {
    let mut story = one();
    story.client("a").says(["GET k", "GET j"]).stops_taking();
    story.server().gets(["GET k", "GET j"]).answers("\"v\"").dies("connection reset");
    story.client("a").takes_all().gets("\"v\"").is_closed();
}

#[test]
fn a_server_that_cannot_be_reached_closes_whoever_asks_for_it() {
    let mut story = one().by_hand();
    story.client("a").says(["PING", "GET k", "PING"]);
    story.connect_fails("connect: Connection refused");
    story.client("a").gets("+PONG").is_closed();
    story.client("b").says("PING").gets("+PONG").says("GET k").is_closed();
    for line in ["BLPOP l 0", "WATCH k", "SELECT 1", "SUBSCRIBE c"] {
        let name = format!("with {line}");
        story.client(&name).says(line);
        if line == "SELECT 1" {
            // Connections of another database are tried by themselves.
            story.connect_fails("connect: Connection refused");
        }
        match line.starts_with("SUB") {
            true => drop(story.client(&name).is_open()),
            false => drop(story.client(&name).gets_nothing().is_closed()),
        }
    }
    story.client("m").says(["MULTI", "SET k 1", "EXEC"]).is_closed();
    story.client("large").sends(&large_set("k", 300_000)[..100_000]).is_closed();
}

#[test]
fn whoever_waits_or_watches_there_sees_the_end_too() {
    let mut story = one();
    story.client("a").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0");
    story.client("w").says("WATCH k");
    story.conn(2).gets("WATCH k").answers("+OK");
    story.client("w").gets("+OK");
    story.client("m").says(["MULTI", "SET k 1"]);
    story.conn(3).gets(["MULTI", "SET k 1"]).answers(["+OK", "+QUEUED"]);
    story.client("m").gets(["+OK", "+QUEUED"]);
    for number in 1..=3 {
        story.conn(number).dies("connection reset");
    }
    for name in ["a", "w", "m"] {
        story.client(name).gets_nothing().is_closed();
    }
}

#[test]
fn a_reply_of_parts_ends_with_any_of_its_servers() {
    let mut story = Story::warm_shards();
    story.reconfigures(|settings| settings.on_upstream_loss = OnLoss::Close);
    story.client("a").says(["GET a", "DEL d a l", "GET l"]);
    story.node("n2").gets(["GET a", "DEL a"]).answers(["nil", ":1"]);
    story.node("n3").gets(["DEL l", "GET l"]).answers([":1", "nil"]);
    story.node("n1").gets("DEL d").dies("connection reset");
    story.client("a").gets("nil").is_closed();
    // Whoever asks the others is as before.
    story.client("b").says("GET a");
    story.node("n2").gets("GET a").answers("nil");
    story.client("b").gets("nil").is_open();
}

#[test]
fn what_the_server_says_stays_a_reply() {
    let mut story = one().by_hand();
    story.client("a").says("GET k");
    story.connects();
    story
        .server()
        .gets("HELLO 2")
        .answers("-NOAUTH HELLO must be called with the client already authenticated");
    let text = story.client("a").is_open().takes_text();
    assert!(text.starts_with("-") && text.contains("NOAUTH"), "{text}");
    let mut story = one();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("-LOADING Redis is loading the dataset in memory");
    story.client("a").gets("-LOADING Redis is loading the dataset in memory").is_open();
}

#[test]
fn a_subscriber_that_may_have_missed_something_sees_the_end() {
    let confirmed = |name: &str| format!("*3\r\n$9\r\nsubscribe\r\n$1\r\n{name}\r\n:1\r\n");
    let mut story = one();
    story.client("s").says("SUBSCRIBE c");
    let topics = story.connects_made();
    story.conn(topics).gets("subscribe c").answers(confirmed("c").as_str());
    story.client("s").gets(confirmed("c").as_str());
    // It is not answered yet: nothing was promised to it.
    story.client("w").says("SUBSCRIBE d");
    story.conn(topics).gets("subscribe d").dies("connection reset");
    story.client("s").gets_nothing().is_closed();
    story.after_ms(100).client("w").is_open();
    let topics = story.connects_made();
    story.conn(topics).gets("subscribe d").answers(confirmed("d").as_str());
    story.client("w").gets(confirmed("d").as_str());
}

#[test]
fn with_error_replies_a_subscriber_stays() {
    let confirmed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    let mut story = Story::new();
    story.client("s").says("SUBSCRIBE c");
    let topics = story.connects_made();
    story.conn(topics).gets("subscribe c").answers(confirmed);
    story.client("s").gets(confirmed);
    story.conn(topics).dies("connection reset");
    story.after_ms(100).client("s").is_open();
}

#[test]
fn requests_that_never_left_go_over_the_next_connection() {
    let mut story = one().by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.server().gets("HELLO 2").answers(HELLO_2);
    story.server().gets(["COMMAND", "GET k"]).answers(["*0", "nil"]);
    story.client("a").gets("nil").is_open();
}

#[test]
fn without_it_the_error_names_the_server() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").dies("connection reset");
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: connection reset").is_open();
    assert_eq!(story.engine.stats().clients_lost, 0);
}

// Found by a test from outside: a client whose PSUBSCRIBE was on its way got an error, stayed connected and heard nothing.
#[test]
fn a_client_whose_subscribe_goes_with_the_connection_is_closed() {
    let subscribes = |story: Story| {
        let mut story = story.by_hand();
        story.client("a").says("SUBSCRIBE news");
        story.connect_fails("Broken pipe");
        story
    };
    subscribes(closing(Settings::default())).client("a").is_closed();
    let mut story = subscribes(Story::new());
    let text = story.client("a").is_open().takes_text();
    assert!(text.starts_with("-ERR respool: upstream "), "{text}");
}
