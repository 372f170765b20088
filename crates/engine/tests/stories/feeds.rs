//! Connections that tell of changed keys, and servers that refuse or lose them.

use crate::tracking::{ALL, caches, number_of};
use crate::words::Story;

const BUSY: &str =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

// Found by an attack: the client was closed.
#[test]
fn a_busy_server_refuses_to_track_and_the_client_gets_its_error() {
    for words in ["", "OPTOUT", "NOLOOP"] {
        let mut story = Story::new();
        caches(&mut story, "a", words);
        story.client("a").says("GET k");
        let conn = story.conn_with(&tracking_on(words));
        story.conn(conn).gets(&*tracking_on(words)).answers(BUSY);
        story.client("a").gets(BUSY).says("GET k").gets(BUSY);
        story.after_ms(60).client("a").says("GET k").gets_nothing();
        let conn = story.conn_with(&tracking_on(words));
        story.conn(conn).gets(&*tracking_on(words)).answers("+OK");
        story.conn(conn).gets("GET k").answers("\"v\"");
        story.client("a").gets("\"v\"");
    }
}

#[test]
fn a_client_in_resp2_with_noloop_gets_the_error_of_a_busy_server_as_well() {
    let mut story = Story::new();
    let id = number_of(&mut story, "ear");
    story.client("ear").says("HELLO 3").takes();
    story.client("a").says(&*format!("CLIENT TRACKING ON NOLOOP REDIRECT {id}")).gets("+OK");
    story.client("a").says("GET k");
    story.after_ms(1);
    let conn = story.conn_with("CLIENT TRACKING ON NOLOOP REDIRECT 991");
    story.conn(conn).gets("CLIENT TRACKING ON NOLOOP REDIRECT 991").answers(BUSY);
    story.client("a").gets(BUSY).says("GET k").gets(BUSY);
}

#[test]
fn a_feed_that_a_busy_server_refused_is_asked_for_again_and_tells_of_all_changes_then() {
    for (words, asks) in [
        ("BCAST", "CLIENT TRACKING ON BCAST PREFIX "),
        ("BCAST NOLOOP", "CLIENT TRACKING ON NOLOOP BCAST PREFIX "),
    ] {
        let mut story = Story::new();
        story.client("a").says("HELLO 3").takes();
        story.client("a").says(&*format!("CLIENT TRACKING ON {words}")).gets_nothing();
        let conn = story.conn_with(asks);
        story.conn(conn).gets(asks).answers(BUSY);
        story.client("a").gets("+OK");
        // No request of the client is needed for it.
        story.after_ms(2_000);
        let conn = story.conn_with(asks);
        story.conn(conn).gets(asks).answers("+OK");
        story.client("a").gets(ALL);
    }
}

#[test]
fn keys_that_a_client_in_resp2_reads_before_its_feed_is_there_are_told_as_changed_then() {
    let mut story = Story::new();
    let asks = "CLIENT TRACKING ON BCAST PREFIX ";
    let id = number_of(&mut story, "ear");
    story.client("ear").says("HELLO 3").takes();
    story.client("a").says(&*format!("CLIENT TRACKING ON REDIRECT {id}")).gets("+OK");
    story.client("a").says("GET k").gets_nothing();
    let feed = story.conn_with(asks);
    story.conn(feed).gets(asks).answers("-NOPERM no");
    let reads = story.conn_with("GET k");
    story.conn(reads).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.client("ear").gets_nothing();
    story.after_ms(2_000);
    let feed = story.conn_with(asks);
    story.conn(feed).gets(asks).answers("+OK");
    story.client("ear").gets(ALL);
}

fn tracking_on(words: &str) -> String {
    let words = if words == "NOLOOP" { " NOLOOP" } else { "" };
    format!("CLIENT TRACKING ON{words}")
}
