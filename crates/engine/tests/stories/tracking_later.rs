//! Client-side caching: invalidations that wait for a reply, and EXEC that waits for marks, where these are many.

use crate::mirror::{mirror, story_with};
use crate::pubsub::confirms;
use crate::tracking::{ALL, caches, number_of, opens};
use crate::words::{HELLO_3, Story};
use engine::mirror::Mode;
use engine::settings::MirrorSettings;

/// More than fit a stack if each of them were told one call deeper than the one before.
const MANY: usize = 20_000;

/// The client says EXEC, which stays unanswered; its connection for transactions is the third one, the tracked one is the second.
fn begins_exec(story: &mut Story) {
    caches(story, "a", "");
    story.client("a").says("GET k");
    story.conn(2).gets("CLIENT TRACKING ON").answers("+OK");
    story.conn(2).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"").says(["MULTI", "INCR k", "EXEC"]);
    story.conn(3).gets(["MULTI", "INCR k", "EXEC"]).answers(["+OK", "+QUEUED"]);
    story.client("a").takes();
}

/// What the client holds, as CLIENT LIST says.
fn memory_of(story: &mut Story, number: &str) -> usize {
    story.client("looks").says(&*format!("CLIENT LIST ID {number}"));
    let line = story.client("looks").takes_text();
    let (_, rest) = line.split_once("tot-mem=").expect("tot-mem");
    let end = rest.find(|c: char| !c.is_ascii_digit()).expect("a number");
    rest[..end].parse().expect("a number")
}

#[test]
fn twenty_thousand_flushes_that_waited_for_exec_are_told_in_a_loop() {
    let mut story = Story::new();
    begins_exec(&mut story);
    story.conn(2).sends(ALL.repeat(MANY).as_bytes());
    story.client("a").gets_nothing();
    story.conn(3).answers("*1\r\n:1\r\n");
    let wanted = format!("*1\r\n:1\r\n{}", ALL.repeat(MANY));
    story.client("a").gets(&wanted);
    // The next one is told at once.
    story.conn(2).answers(ALL);
    story.client("a").gets(ALL);
}

#[test]
fn flushes_that_wait_for_exec_are_in_the_clients_account() {
    let mut story = Story::new();
    let number = number_of(&mut story, "a");
    begins_exec(&mut story);
    let before = memory_of(&mut story, &number);
    story.conn(2).sends(ALL.repeat(MANY).as_bytes());
    let waiting = memory_of(&mut story, &number);
    assert!(waiting >= before + MANY * 32, "{before} and {waiting}");
    story.conn(3).answers("*1\r\n:1\r\n");
    story.client("a").takes();
    let after = memory_of(&mut story, &number);
    assert!(after < before + MANY, "{before} and {after}");
}

#[test]
fn exec_of_many_clients_goes_as_soon_as_the_marks_of_its_own_client_are_answered() {
    let mut story = Story::new();
    begins_exec(&mut story);
    story.conn(3).answers("*1\r\n:1\r\n");
    story.client("a").takes();
    for client in ["a", "b", "c"] {
        if client != "a" {
            caches(&mut story, client, "");
        }
        story.client(client).says(["MULTI", &format!("GET {client}1"), &format!("GET {client}2")]);
        story.client(client).says("EXEC");
    }
    story.conn(2).gets(["EXISTS a1", "EXISTS a2", "EXISTS b1", "EXISTS b2"]);
    story.conn(2).gets(["EXISTS c1", "EXISTS c2"]);
    for (conn, client) in [(3, "a"), (4, "b"), (5, "c")] {
        let gets = ["MULTI", &format!("GET {client}1"), &format!("GET {client}2")];
        story.conn(conn).gets(gets).answers(["+OK", "+QUEUED", "+QUEUED"]);
        story.client(client).takes();
    }
    for (conn, client) in [(3, "a"), (4, "b"), (5, "c")] {
        story.conn(2).answers(":1");
        story.conn(conn).gets_nothing();
        story.conn(2).answers(":1");
        for other in conn + 1..=5 {
            story.conn(other).gets_nothing();
        }
        story.conn(conn).gets("EXEC").answers("*2\r\n:1\r\n:2\r\n");
        story.client(client).gets("*2\r\n:1\r\n:2\r\n");
    }
}

/// The answer to its mark comes all the same.
#[test]
fn a_client_that_goes_while_exec_waits_for_its_marks_keeps_nobody() {
    let mut story = Story::new();
    begins_exec(&mut story);
    story.conn(3).answers("*1\r\n:1\r\n");
    story.client("a").takes();
    story.client("a").says(["MULTI", "GET x", "EXEC"]);
    caches(&mut story, "b", "");
    story.client("b").says(["MULTI", "GET y", "EXEC"]);
    story.conn(2).gets(["EXISTS x", "EXISTS y"]);
    story.client("a").dies();
    story.conn(4).gets(["MULTI", "GET y"]).answers(["+OK", "+QUEUED"]);
    story.client("b").gets(["+OK", "+QUEUED"]);
    story.conn(2).answers(":1");
    story.conn(4).gets_nothing();
    story.conn(2).answers(":1");
    story.conn(4).gets("EXEC").answers("*1\r\n:2\r\n");
    story.client("b").gets("*1\r\n:2\r\n");
}

// A server tells a RESP2 client only of redirected keys. Outside of a transaction a listening client cannot turn tracking on.
#[test]
fn a_resp2_client_that_listens_is_not_told_of_keys_without_a_redirection() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "SUBSCRIBE c", "CLIENT TRACKING ON", "GET e", "EXEC"]);
    story.conn(1).gets(["MULTI", "ECHO ", "ECHO ", "GET e", "EXEC"]);
    let whole = "*3\r\n$0\r\n\r\n$0\r\n\r\n$1\r\nv\r\n";
    story.conn(1).answers(["+OK", "+QUEUED", "+QUEUED", "+QUEUED", whole]);
    story.conn(2).gets("subscribe c").answers(&*confirms("subscribe c 1"));
    assert!(story.client("a").takes_text().ends_with("+OK\r\n$1\r\nv\r\n"));
    story.client("b").says("FLUSHALL");
    let conn = story.connects_made();
    story.conn(conn).gets("FLUSHALL").answers("+OK");
    story.client("b").gets("+OK");
    story.client("a").gets_nothing();
}

// An attack: respool reconnected 26 times a second, without end.
#[test]
fn a_server_that_cannot_track_any_more_is_asked_with_growing_waits() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.server_says_to("CLIENT", "-NOPERM no");
    story.conn(2).dies("closed the connection");
    let before = story.connects_made();
    story.after_ms(10_000);
    let connects = story.connects_made() - before;
    assert!((5..=25).contains(&connects), "{connects} connects in 10 s");
}

// Redis' suite turns tracking on in RESP2 and takes RESP3 then.
#[test]
fn a_client_that_read_nothing_before_it_takes_resp3_is_told_nothing() {
    let mut story = Story::new();
    story.client("a").says("CLIENT TRACKING ON").gets("+OK");
    story.client("a").says("SET k v");
    story.conn(1).gets("SET k v").answers("+OK");
    story.client("a").gets("+OK").says("HELLO 3");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("%7\r\n") && !text.contains("invalidate"), "{text}");
}

// An attack: the message preceded the reply to an earlier GET, and the old value stayed in the cache.
#[test]
fn a_client_that_takes_resp3_is_told_to_drop_all_behind_earlier_replies() {
    let mut story = Story::new();
    story.client("a").says("CLIENT TRACKING ON").gets("+OK");
    story.client("a").says(["GET k", "HELLO 3", "PING"]).gets_nothing();
    story.conn(1).gets("GET k").answers("\"v\"");
    let text = story.client("a").takes_text();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"));
    assert!(text.starts_with("$1\r\nv\r\n%7\r\n"), "{text}");
    assert!(at("%7\r\n") < at(ALL), "{text}");
}

// The number in a REDIRECT of the lost connection would name any client of the new server process.
#[test]
fn a_connection_that_is_made_anew_switches_tracking_on_once() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    let mut story = story.by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.conn(2).gets("HELLO 3").answers(HELLO_3).gets("CLIENT TRACKING ON");
    story.conn(2).sends_and_dies(b"+OK\r\n", "closed the connection");
    story.connects();
    story.conn(3).gets("HELLO 3").answers(HELLO_3);
    story.conn(3).gets("CLIENT TRACKING ON").gets_nothing().answers("+OK");
    story.conn(3).gets("GET k").gets_nothing();
}

// Found by a test from outside: with the mode `all` of mirrors a client kept the old value of a key that it had read in a transaction.
#[test]
fn a_change_is_told_behind_an_exec_whose_reply_waits_for_the_mirror() {
    for mode in [Mode::All, Mode::AllChecked] {
        let mut story = story_with(vec![MirrorSettings { mode, ..mirror("b") }]);
        caches(&mut story, "a", "");
        story.client("a").says("GET x");
        let tracked = story.conn_with("CLIENT TRACKING ON");
        story.conn(tracked).gets("CLIENT TRACKING ON").answers("+OK");
        story.conn(tracked).gets("GET x").answers("\"x\"");
        story.client("a").gets("\"x\"").says(["MULTI", "SET o 1", "GET k", "EXEC"]);
        story.conn(tracked).gets("EXISTS k").answers(":1");
        let lease = story.conn_with("MULTI");
        story.conn(lease).gets(["MULTI", "SET o 1", "GET k", "EXEC"]);
        story.conn(lease).answers(["+OK", "+QUEUED", "+QUEUED", "*2\r\n+OK\r\n$3\r\nold\r\n"]);
        story.client("a").gets(["+OK", "+QUEUED", "+QUEUED"]);
        let changed = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        story.conn(tracked).answers(changed);
        story.client("a").gets_nothing();
        let told = story.conn_with("SET o 1");
        story.conn(told).gets("SET o 1").answers("+OK");
        story.client("a").gets(&*format!("*2\r\n+OK\r\n$3\r\nold\r\n{changed}"));
        // The next one is told at once.
        story.client("a").says("GET k");
        story.conn(tracked).gets("GET k").answers("\"new\"");
        story.client("a").gets("\"new\"");
        story.conn(tracked).answers(changed);
        story.client("a").gets(changed);
    }
}
