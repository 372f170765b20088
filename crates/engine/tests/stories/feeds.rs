//! Connections that tell of changed keys, and servers that refuse or lose them.

use crate::tracking::{ALL, caches, changed, number_of};
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

// Found by an attack: clients with requests behind the refused command were closed.
#[test]
fn a_busy_server_that_refuses_a_further_prefix_closes_no_client() {
    let mut story = Story::new();
    let first = "CLIENT TRACKING ON BCAST PREFIX a";
    for client in ["a", "b"] {
        story.client(client).says("HELLO 3").takes();
    }
    story.client("a").says("CLIENT TRACKING ON BCAST PREFIX a").gets_nothing();
    let feed = story.conn_with(first);
    story.conn(feed).gets(first).answers("+OK");
    story.client("a").gets("+OK");
    story.client("b").says("CLIENT TRACKING ON BCAST PREFIX b");
    story.client("a").says("GET a1");
    story.conn(feed).gets(["CLIENT TRACKING ON BCAST PREFIX b", "GET a1"]).answers(BUSY);
    // The next one asks for all prefixes.
    let both = "CLIENT TRACKING ON BCAST PREFIX a PREFIX b";
    let next = story.conn_with(both);
    story.conn(next).gets(both).answers(BUSY);
    story.client("b").gets("+OK");
    story.conn(feed).answers(BUSY).is_closed();
    story.client("a").gets(&*format!("{BUSY}\r\n{ALL}"));
    story.client("b").gets(ALL);
    story.after_ms(2_000);
    let next = story.conn_with(both);
    story.conn(next).gets(both).answers("+OK");
    for client in ["a", "b"] {
        story.client(client).gets(ALL);
    }
}

// Found by an attack: the client kept `k`, although it had changed before the new connection told of changes.
#[test]
fn keys_that_are_read_over_other_connections_before_a_lost_feed_is_back_are_told_as_changed_then() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    let feed = hears_all(&mut story, "a");
    story.conn(feed).dies("Connection reset by peer");
    story.turn();
    story.client("a").gets(ALL).says(["MULTI", "GET k", "EXEC"]);
    let leased = story.conn_with("MULTI");
    story.conn(leased).gets(["MULTI", "GET k", "EXEC"]).answers(["+OK", "+QUEUED", "*1\r\n+v"]);
    story.client("a").gets("+OK\r\n+QUEUED\r\n*1\r\n+v");
    let feed = story.conn_with(HEARS);
    story.conn(feed).gets(HEARS).answers("+OK");
    story.client("a").gets(ALL);
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

// Found by an attack: what the client read behind the second command was not tracked.
#[test]
fn client_caching_ends_with_the_command_behind_it_whatever_becomes_of_that() {
    for (words, answer) in [
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
        ("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."),
        ("EXEC", ""),
        ("DISCARD", ""),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("ECHO x", ""),
        ("WATCH w", "+OK"),
        ("PING", "+PONG"),
        ("GET o", "nil"),
    ] {
        let mut story = Story::new();
        caches(&mut story, "a", "OPTOUT");
        story.client("a").says("GET first");
        let conn = story.conn_with("CLIENT TRACKING ON");
        story.conn(conn).gets("CLIENT TRACKING ON").answers("+OK");
        story.conn(conn).gets("GET first").answers("nil");
        story.client("a").gets("nil").says("CLIENT CACHING NO").gets("+OK").says(words);
        for conn in 1..=story.connects_made() {
            if story.conn(conn).is_next(words) {
                story.conn(conn).gets(words).answers(answer);
            }
        }
        assert!(!story.client("a").takes_text().is_empty(), "{words}");
        story.client("a").says("GET k");
        let reads = story.conn_with("GET k");
        story.conn(reads).gets("GET k").answers("+v");
        // Over the connection of WATCH it is told behind the reply.
        let behind = if words == "WATCH w" { changed("k") } else { String::new() };
        story.client("a").gets(&*format!("+v\r\n{behind}"));
        story.conn(conn).answers(&*changed("k"));
        let told = story.client("a").takes_text();
        assert!(words == "WATCH w" || told == changed("k"), "{words}: {told}");
    }
}

/// How servers are asked to tell of all changes.
const HEARS: &str = "CLIENT TRACKING ON BCAST PREFIX ";

/// A client begins to hear of all changes. Returns the connection that tells.
fn hears_all(story: &mut Story, client: &str) -> usize {
    story.client(client).says("CLIENT TRACKING ON BCAST").gets_nothing();
    let feed = story.conn_with(HEARS);
    story.conn(feed).gets(HEARS).answers("+OK");
    story.client(client).gets("+OK");
    feed
}

fn tracking_on(words: &str) -> String {
    let words = if words == "NOLOOP" { " NOLOOP" } else { "" };
    format!("CLIENT TRACKING ON{words}")
}

// Found by an attack: clients in other databases got no connection, also after the clients that had cached there were gone.
#[test]
fn an_idle_connection_that_tells_of_keys_of_a_seldom_database_makes_room() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 2);
    story.client("a").says("HELLO 3").takes();
    caches(&mut story, "a", "");
    story.client("a").says("SELECT 5").gets("+OK").says("GET k");
    let tracked = story.conn_with("CLIENT TRACKING ON");
    story.conn(tracked).gets("CLIENT TRACKING ON").answers("+OK");
    story.conn(tracked).gets("GET k").answers("+v");
    story.client("a").gets("+v");
    story.client("b").says("SELECT 7").gets("+OK");
    // Its keys are told to be dropped, as nothing tells of their changes any more.
    story.client("a").gets(ALL);
    story.client("b").says("GET k");
    let reads = story.conn_with("GET k");
    story.conn(reads).gets("GET k").answers("+v");
    story.client("b").gets("+v");
}

// Found by an attack: a few clients in many databases had respool tell a thousand idle clients again and again.
#[test]
fn a_lost_connection_is_told_to_clients_that_read_a_key_since_the_last_one() {
    let mut story = Story::new();
    for client in ["a", "b"] {
        caches(&mut story, client, "");
    }
    for readers in ["ab", "a", "b"] {
        let mut conn = None;
        for client in readers.split_inclusive(|_: char| true) {
            story.client(client).says(&*format!("GET {client}"));
            let tracked = *conn.get_or_insert_with(|| {
                let tracked = story.conn_with("CLIENT TRACKING ON");
                story.conn(tracked).gets("CLIENT TRACKING ON").answers("+OK");
                tracked
            });
            story.conn(tracked).gets(&*format!("GET {client}")).answers("+v");
            story.client(client).gets("+v");
        }
        let conn = conn.expect("a client read");
        story.conn(conn).dies("Connection reset by peer");
        story.after_ms(60);
        for client in ["a", "b"] {
            match readers.contains(client) {
                true => story.client(client).gets(ALL),
                false => story.client(client).gets_nothing(),
            };
        }
    }
}

// A server tells all clients of FLUSHALL, whether they read or not.
#[test]
fn a_server_that_drops_all_keys_is_told_to_clients_without_keys() {
    let mut story = Story::new();
    for client in ["a", "b"] {
        caches(&mut story, client, "");
    }
    story.client("a").says("GET k");
    let conn = story.conn_with("CLIENT TRACKING ON");
    story.conn(conn).gets("CLIENT TRACKING ON").answers("+OK");
    story.conn(conn).gets("GET k").answers("+v");
    story.client("a").gets("+v");
    for _ in 0..2 {
        story.conn(conn).answers(ALL);
        for client in ["a", "b"] {
            story.client(client).gets(ALL);
        }
    }
}

// Found by an attack: with room for two connections the first one and one that told nobody of changes were left for good.
#[test]
fn a_connection_that_tells_no_client_of_changes_makes_room_in_the_first_database_as_well() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 2);
    story.client("z").says("GET z");
    let first = story.conn_with("GET z");
    story.conn(first).gets("GET z").answers("nil");
    story.client("z").gets("nil");
    let mut tracked = Vec::new();
    for (client, stays) in [("a", false), ("b", true)] {
        // HELLO of a client that connects now takes the connection's place, too.
        story.client(client).says("HELLO 3").takes();
        caches(&mut story, client, "");
        story.client(client).says("GET k");
        let conn = story.conn_with("CLIENT TRACKING ON");
        story.conn(conn).gets("CLIENT TRACKING ON").answers("+OK");
        story.conn(conn).gets("GET k").answers("+v");
        story.client(client).gets("+v");
        tracked.push(conn);
        if !stays {
            story.client(client).dies();
            story.client("c").says("SELECT 7").gets("+OK");
            story.conn(conn).is_closed();
        }
    }
    // A connection by which a client hears stays in the first database.
    story.client("d").says("SELECT 8").takes_text();
    story.conn(tracked[1]).is_open();
}

#[test]
fn clients_in_resp2_hear_of_all_databases_over_one_connection() {
    let mut story = Story::new();
    let asks = "CLIENT TRACKING ON BCAST PREFIX ";
    let id = number_of(&mut story, "ear");
    story.client("ear").says("HELLO 3").takes();
    for db in ["0", "1", "2"] {
        story.client(db).says(&*format!("SELECT {db}")).gets("+OK");
        story.client(db).says(&*format!("CLIENT TRACKING ON BCAST REDIRECT {id}"));
        if db == "0" {
            let feed = story.conn_with(asks);
            story.conn(feed).gets(asks).answers("+OK");
        }
        story.client(db).gets("+OK");
    }
    assert_eq!(story.conns_of("Broadcast").len(), 1);
}

#[test]
fn feeds_have_a_bound_of_their_own_and_end_with_the_last_client_in_their_database() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 8);
    for db in ["1", "2"] {
        story.client(db).says("HELLO 3").takes();
        story.client(db).says(&*format!("SELECT {db}")).gets("+OK");
        hears_all(&mut story, db);
    }
    story.client("3").says("HELLO 3").takes();
    story.client("3").says("SELECT 3").gets("+OK");
    story.client("3").says("CLIENT TRACKING ON BCAST");
    let text = story.client("3").takes_text();
    assert!(text.starts_with("-ERR respool: CLIENT TRACKING BCAST needs a connection"), "{text}");
    // A feed goes with the last client that hears over it, while others hear over another feed.
    let former = story.conns_of("Broadcast");
    story.client("2").dies();
    story.after_ms(1_000);
    assert_eq!(story.conns_of("Broadcast"), former[..1]);
    hears_all(&mut story, "3");
}
