//! Client-side caching with NOLOOP: a client has connections of its own, and what it is told the server judges.

use crate::pubsub::confirms;
use crate::tracking::{ALL, caches, changed, number_of};
use crate::words::Story;
use crate::words::cluster::moved;
use engine::Settings;

const LIMIT: &str = "-ERR respool: with CLIENT TRACKING NOLOOP a client has a connection of its own to each server, and there are limits.noloop_conns_max of them";

/// A request over this connection, and its reply.
fn asks(story: &mut Story, client: &str, conn: usize, line: &str, reply: &str) {
    story.client(client).says(line);
    story.conn(conn).gets(line).answers(reply);
    story.client(client).gets(reply);
}

/// The first read of a client with NOLOOP opens its connection, which is this one.
fn opens_own(story: &mut Story, client: &str, conn: usize) {
    story.client(client).says("GET k");
    story.conn(conn).gets("CLIENT TRACKING ON NOLOOP").answers("+OK");
    story.conn(conn).gets("GET k").answers("\"v\"");
    story.client(client).gets("\"v\"");
}

#[test]
fn each_client_has_a_connection_of_its_own_and_hears_over_no_other() {
    let mut story = Story::new();
    for client in ["a", "b"] {
        caches(&mut story, client, "NOLOOP");
    }
    caches(&mut story, "c", "");
    opens_own(&mut story, "a", 2);
    opens_own(&mut story, "b", 3);
    story.client("c").says("GET k");
    story.conn(4).gets("CLIENT TRACKING ON").answers("+OK").gets("GET k").answers("\"v\"");
    story.client("c").gets("\"v\"");
    // What a writes the server tells over the others, and what others write over its own.
    asks(&mut story, "a", 2, "SET k 1", "+OK");
    story.conn(3).answers(&*changed("k"));
    story.conn(4).answers(&*changed("k"));
    story.client("a").gets_nothing();
    story.client("b").gets(&*changed("k"));
    story.client("c").gets(&*changed("k"));
    asks(&mut story, "a", 2, "GET k", "\"1\"");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
    story.client("b").gets_nothing();
    story.client("c").gets_nothing();
}

// The proxy took the change for the client's own, and its cache was stale.
#[test]
fn a_write_that_changed_nothing_hides_no_change_of_others() {
    let mut story = Story::new();
    caches(&mut story, "a", "NOLOOP");
    opens_own(&mut story, "a", 2);
    asks(&mut story, "a", 2, "SET k 1 NX", "nil");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
}

// Redis' own suite: a client was told of what its own script changed, and of its own transactions.
#[test]
fn scripts_transactions_and_blocking_commands_take_it_too() {
    let mut story = Story::new();
    caches(&mut story, "a", "NOLOOP");
    opens_own(&mut story, "a", 2);
    asks(&mut story, "a", 2, "EVAL return 1 k", ":1");
    story.client("a").says(["MULTI", "INCR k", "GET other", "EXEC"]);
    story.conn(2).gets(["MULTI", "INCR k", "GET other", "EXEC"]);
    story.conn(2).answers(["+OK", "+QUEUED", "+QUEUED", "*2\r\n:1\r\n$1\r\nv\r\n"]);
    story.client("a").gets(["+OK", "+QUEUED", "+QUEUED", "*2\r\n:1\r\n$1\r\nv\r\n"]);
    // What was read in it is tracked where it was read.
    story.conn(2).answers(&*changed("other"));
    story.client("a").gets(&*changed("other"));
    // While it waits it hears of what others change.
    asks(&mut story, "a", 2, "GET k", "\"2\"");
    story.client("a").says("BLPOP list 0");
    story.conn(2).gets("BLPOP list 0");
    story.conn(2).sends(changed("k").as_bytes());
    story.client("a").gets(&*changed("k"));
    let popped = "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n";
    story.conn(2).answers(popped);
    story.client("a").gets(popped);
    asks(&mut story, "a", 2, "GET k", "\"2\"");
    asks(&mut story, "a", 2, "WATCH k", "+OK");
    asks(&mut story, "a", 2, "UNWATCH", "+OK");
    asks(&mut story, "a", 2, "GET k", "\"2\"");
    assert_eq!(story.connects_made(), 2);
}

// What EXEC read is told when it changes, also if it changed just before.
#[test]
fn what_changed_before_exec_is_told_again_behind_it() {
    let mut story = Story::new();
    caches(&mut story, "a", "NOLOOP");
    opens_own(&mut story, "a", 2);
    story.client("a").says(["MULTI", "GET k", "EXEC"]);
    story.conn(2).gets(["MULTI", "GET k", "EXEC"]).answers(["+OK", "+QUEUED"]);
    story.client("a").gets(["+OK", "+QUEUED"]);
    let reply = "*1\r\n$1\r\nw\r\n";
    story.conn(2).answers([&*changed("k"), reply]);
    let got = story.client("a").takes_text();
    assert!(got.starts_with(reply) && got.ends_with(&changed("k")), "{got}");
    // The server tracks what EXEC read.
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
}

#[test]
fn its_connection_goes_with_the_client_and_with_off() {
    let mut story = Story::new();
    caches(&mut story, "a", "NOLOOP");
    caches(&mut story, "b", "NOLOOP");
    opens_own(&mut story, "a", 2);
    opens_own(&mut story, "b", 3);
    story.client("a").says("CLIENT TRACKING OFF").gets("+OK");
    story.conn(2).is_closed();
    asks(&mut story, "a", 1, "GET k", "\"v\"");
    // What it asked for last is done all the same.
    story.client("b").says("SET k 2");
    story.client("b").dies();
    story.conn(3).is_open().gets("SET k 2").answers("+OK").is_closed();
    for end in ["RESET", "QUIT"] {
        caches(&mut story, end, "NOLOOP");
        let own = story.connects_made() + 1;
        opens_own(&mut story, end, own);
        story.client(end).says(end);
        story.conn(own).is_closed();
    }
    // In the middle of a transaction.
    caches(&mut story, "c", "NOLOOP");
    let own = story.connects_made() + 1;
    opens_own(&mut story, "c", own);
    asks(&mut story, "c", own, "MULTI", "+OK");
    story.client("c").dies();
    story.conn(own).is_closed();
    caches(&mut story, "d", "NOLOOP");
    let own = story.connects_made() + 1;
    opens_own(&mut story, "d", own);
    story.client("d").says(["MULTI", "CLIENT TRACKING OFF", "EXEC"]);
    story.conn(own).gets(["MULTI", "ECHO ", "EXEC"]);
    story.conn(own).answers(["+OK", "+QUEUED", "*1\r\n$0\r\n\r\n"]).is_closed();
    story.client("d").gets(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
}

#[test]
fn without_noloop_it_drops_what_it_read_and_shares_a_connection_again() {
    let mut story = Story::new();
    caches(&mut story, "a", "NOLOOP");
    opens_own(&mut story, "a", 2);
    story.client("a").says("CLIENT TRACKING ON").gets([ALL, "+OK"]);
    story.conn(2).is_closed();
    story.client("a").says("GET k");
    story.conn(3).gets("CLIENT TRACKING ON").answers("+OK").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    // The other way round it goes on hearing of what it read before.
    story.client("a").says("CLIENT TRACKING ON NOLOOP").gets("+OK");
    opens_own(&mut story, "a", 4);
    story.conn(3).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
}

#[test]
fn what_was_read_in_another_protocol_or_database_is_told() {
    let mut story = Story::new();
    caches(&mut story, "a", "NOLOOP");
    opens_own(&mut story, "a", 2);
    story.client("a").says("SELECT 1").gets("+OK");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
    // NOLOOP can be asked for in RESP2, where nobody is told anything.
    story.client("b").says("CLIENT TRACKING ON NOLOOP").gets("+OK");
    story.client("b").says("HELLO 3").takes();
    let own = story.connects_made() + 1;
    opens_own(&mut story, "b", own);
    story.conn(own).answers(&*changed("k"));
    story.client("b").gets(&*changed("k"));
}

#[test]
fn a_lost_connection_drops_everything_and_comes_back() {
    let mut story = Story::new();
    caches(&mut story, "a", "NOLOOP");
    caches(&mut story, "b", "NOLOOP");
    opens_own(&mut story, "a", 2);
    opens_own(&mut story, "b", 3);
    story.after_ms(2_000);
    story.conn(2).dies("Connection reset by peer");
    story.turn();
    story.client("a").gets(ALL);
    story.client("b").gets_nothing();
    opens_own(&mut story, "a", 4);
    // In a transaction as well.
    asks(&mut story, "a", 4, "MULTI", "+OK");
    story.conn(4).dies("Connection reset by peer");
    story.turn();
    story.client("a").gets(ALL);
    story.client("a").says("EXEC");
    assert!(story.client("a").takes_text().starts_with("-EXECABORT"));
    opens_own(&mut story, "a", 5);
}

#[test]
fn the_limit_is_told_and_what_others_leave_is_free_again() {
    let mut story = Story::with_limits(|limits| {
        limits.noloop_conns_max = 1;
        limits.upstreams_max = 4;
    });
    caches(&mut story, "a", "NOLOOP");
    opens_own(&mut story, "a", 2);
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("CLIENT TRACKING ON NOLOOP").gets(LIMIT);
    story.client("b").says("CLIENT TRACKINGINFO");
    assert!(story.client("b").takes_text().contains("off"));
    // It takes nothing from what has another limit.
    asks(&mut story, "b", 1, "GET k", "\"v\"");
    asks(&mut story, "b", 3, "WATCH k", "+OK");
    asks(&mut story, "b", 3, "UNWATCH", "+OK");
    // Who has one may ask again.
    story.client("a").says("CLIENT TRACKING ON NOLOOP OPTIN").gets("+OK");
    story.client("a").dies();
    story.client("b").says("CLIENT TRACKING ON NOLOOP").gets("+OK");
    let own = story.connects_made() + 1;
    opens_own(&mut story, "b", own);
    // One that said it in RESP2 has none yet.
    story.client("c").says("CLIENT TRACKING ON NOLOOP").gets("+OK");
    story.client("c").says("HELLO 3").takes();
    story.client("c").says("GET k").gets(LIMIT);
}

#[test]
fn in_bcast_mode_each_asks_for_its_own_prefixes() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST NOLOOP PREFIX user:").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX user:").answers("+OK");
    story.client("a").gets("+OK");
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("CLIENT TRACKING ON BCAST PREFIX u").gets_nothing();
    story.conn(3).gets("CLIENT TRACKING ON BCAST PREFIX u").answers("+OK");
    story.client("b").gets("+OK");
    story.client("a").says("CLIENT TRACKING ON BCAST NOLOOP PREFIX item:").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX item:").answers("+OK");
    story.client("a").gets("+OK");
    asks(&mut story, "a", 2, "SET user:1 x", "+OK");
    story.conn(3).answers(&*changed("user:1"));
    story.client("a").gets_nothing();
    story.client("b").gets(&*changed("user:1"));
    story.conn(2).answers(&*changed("item:1"));
    story.client("a").gets(&*changed("item:1"));
    // A lost one is there again without being asked for, and what changed meanwhile is not known.
    story.after_ms(2_000);
    asks(&mut story, "a", 2, "MULTI", "+OK");
    story.conn(2).dies("Connection reset by peer");
    story.turn();
    story.client("a").gets(ALL);
    story.after_ms(1);
    story.conn(4).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX item: PREFIX user:").answers("+OK");
    // The shared one goes with the last that shares it.
    story.client("b").dies();
    story.after_ms(1);
    story.conn(3).is_closed();
    story.client("a").dies();
    story.conn(4).is_closed();
}

// Redis' own suite: with HELLO 3 the one that it is redirected to was told to drop everything.
#[test]
fn in_bcast_mode_another_connection_misses_nothing_and_drops_nothing() {
    let mut story = Story::new();
    let id = number_of(&mut story, "ear");
    story.client("ear").says("HELLO 3").takes();
    let line = format!("CLIENT TRACKING ON BCAST NOLOOP REDIRECT {id}");
    story.client("a").says(&*line).gets_nothing();
    let asks_there = story.connects_made();
    let tells = asks_there - 1;
    let words = "CLIENT TRACKING ON NOLOOP REDIRECT 991 BCAST PREFIX ";
    story.conn(asks_there).gets(words).answers("+OK");
    story.client("a").gets("+OK");
    story.client("a").says("HELLO 3").takes();
    story.after_ms(1);
    let own = story.connects_made();
    assert_eq!(own, asks_there + 1);
    // It hears the old way until the new one is there, and what is on its way then as well.
    story.conn(own).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX ");
    story.conn(tells).answers(&*changed("k"));
    story.client("ear").gets(&*changed("k"));
    story.conn(own).answers("+OK");
    story.conn(tells).gets("PING").answers([&*changed("late"), "+PONG"]);
    story.client("ear").gets(&*changed("late"));
    story.after_ms(1);
    story.conn(tells).is_closed();
    story.conn(asks_there).is_closed();
    story.client("ear").gets_nothing();
    asks(&mut story, "a", own, "SET k 1", "+OK");
    story.conn(own).answers(&*changed("k"));
    story.client("ear").gets(&*changed("k"));
    // And back.
    story.client("a").says("HELLO 2").takes();
    story.after_ms(1);
    let asks_there = story.connects_made();
    // One of them is for HELLO.
    assert_eq!(asks_there, own + 3);
    story.conn(asks_there).gets(words).answers("+OK");
    story.conn(own).gets("PING").answers("+PONG").is_closed();
    story.client("ear").gets_nothing();
}

/// A client in RESP2 with NOLOOP that is redirected to "ear", and its pair: the connection that tells, and the one that asks.
fn has_a_pair(story: &mut Story, options: &str) -> (usize, usize) {
    let id = number_of(story, "ear");
    story.client("ear").says("HELLO 3").takes();
    let line = format!("CLIENT TRACKING ON NOLOOP REDIRECT {id}{options}");
    story.client("a").says(&*line).gets("+OK");
    opens_pair(story)
}

fn opens_pair(story: &mut Story) -> (usize, usize) {
    let before = story.connects_made();
    story.client("a").says("GET k");
    story.after_ms(1);
    let pair = (before + 1, before + 2);
    assert_eq!(story.connects_made(), pair.1);
    story.conn(pair.1).gets("CLIENT TRACKING ON NOLOOP REDIRECT 991").answers("+OK");
    story.conn(pair.1).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    pair
}

// The proxy took the change for the client's own, and what was told of it was held back.
#[test]
fn in_resp2_the_server_judges_as_well() {
    let mut story = Story::new();
    let (tells, asks_there) = has_a_pair(&mut story, "");
    asks(&mut story, "a", asks_there, "SET k 1 NX", "nil");
    story.conn(tells).answers(&*changed("k"));
    story.client("ear").gets(&*changed("k"));
    story.client("a").gets_nothing();
    // What it does in a transaction is its own doing, too.
    for (line, reply) in [("MULTI", "+OK"), ("SET k 2", "+QUEUED"), ("EXEC", "*1\r\n+OK\r\n")] {
        asks(&mut story, "a", asks_there, line, reply);
    }
    asks(&mut story, "a", asks_there, "GET k", "\"2\"");
    story.client("ear").gets_nothing();
    story.client("a").dies();
    story.after_ms(1);
    story.conn(tells).is_closed();
    story.conn(asks_there).is_closed();
}

// Message and reply come over two connections, as those of two clients do.
#[test]
fn in_resp2_what_changes_while_it_is_read_is_told_behind_the_reply() {
    let mut story = Story::new();
    let (tells, asks_there) = has_a_pair(&mut story, "");
    story.client("a").says("GET k");
    story.conn(asks_there).gets("GET k");
    story.conn(tells).answers(&*changed("k"));
    story.client("ear").gets(&*changed("k"));
    story.conn(asks_there).answers("\"old\"");
    story.client("a").gets("\"old\"");
    story.client("ear").gets(&*changed("k"));
}

#[test]
fn a_pair_that_lost_the_connection_that_tells_is_made_anew() {
    let mut story = Story::new();
    let (tells, asks_there) = has_a_pair(&mut story, "");
    story.after_ms(2_000).conn(tells).dies("Connection reset by peer");
    story.turn();
    // Both connections are lost, and the client read nothing in between.
    story.client("ear").gets(ALL);
    story.after_ms(1);
    story.conn(asks_there).is_closed();
    // The one that tells is made at once.
    let tells = story.connects_made();
    story.client("a").says("GET k");
    story.after_ms(1);
    let asks_there = story.connects_made();
    assert_eq!(asks_there, tells + 1);
    story.conn(asks_there).gets("CLIENT TRACKING ON NOLOOP REDIRECT 991").answers("+OK");
    story.conn(asks_there).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    // Within a transaction it goes when that is over.
    story.after_ms(2_000);
    asks(&mut story, "a", asks_there, "MULTI", "+OK");
    asks(&mut story, "a", asks_there, "GET k", "+QUEUED");
    story.conn(tells).dies("Connection reset by peer");
    story.turn();
    story.client("ear").gets(ALL);
    asks(&mut story, "a", asks_there, "EXEC", "*1\r\n$1\r\nv\r\n");
    story.after_ms(1);
    story.conn(asks_there).is_closed();
    assert!(story.client("ear").takes_text().contains("invalidate"), "of what it read there");
}

#[test]
fn in_resp2_a_node_that_has_just_come_gets_a_pair_as_well() {
    let mut story = Story::warm_cluster_beside("n9");
    let id = number_of(&mut story, "ear");
    story.client("ear").says("HELLO 3").takes();
    story.client("a").says(&*format!("CLIENT TRACKING ON NOLOOP REDIRECT {id}")).gets("+OK");
    story.client("a").says("GET a4");
    story.after_ms(1);
    let asks_there = story.conn_with("CLIENT TRACKING ON NOLOOP REDIRECT 991");
    story.conn(asks_there).gets("CLIENT TRACKING ON NOLOOP REDIRECT 991").answers("+OK");
    story.conn(asks_there).gets("GET a4").ask("a4", "n9");
    story.after_ms(50);
    let asks_there = story.conn_with("CLIENT TRACKING ON NOLOOP REDIRECT 991");
    story.conn(asks_there).gets("CLIENT TRACKING ON NOLOOP REDIRECT 991").answers("+OK");
    story.conn(asks_there).gets(["ASKING", "GET a4"]).answers(["+OK", "\"v\""]);
    story.client("a").gets("\"v\"");
}

#[test]
fn a_pair_counts_twice() {
    let mut story = Story::with_limits(|limits| limits.noloop_conns_max = 1);
    let id = number_of(&mut story, "ear");
    story.client("a").says(&*format!("CLIENT TRACKING ON NOLOOP REDIRECT {id}")).gets(LIMIT);
    story.client("a").says("CLIENT TRACKING ON NOLOOP").gets("+OK");
}

#[test]
fn a_moved_slot_leads_to_a_connection_of_its_own_there() {
    let mut story = Story::warm_cluster();
    caches(&mut story, "a", "NOLOOP");
    story.client("a").says("GET b4");
    story.node("n2").gets("CLIENT TRACKING ON NOLOOP").answers("+OK");
    story.node("n2").gets("GET b4").answers(&*moved("b4", "n1"));
    story.node("n1").gets("CLIENT TRACKING ON NOLOOP").answers("+OK");
    story.node("n1").gets("GET b4").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.node("n1").answers(&*changed("b4"));
    story.client("a").gets(&*changed("b4"));
    // Parts of one request, each over its own.
    story.client("a").says("MGET a4 c1");
    story.node("n3").gets("CLIENT TRACKING ON NOLOOP").answers("+OK").gets("MGET c1");
    story.node("n1").gets("MGET a4").answers("*1\r\n$1\r\na\r\n");
    story.node("n3").answers("*1\r\n$1\r\nc\r\n");
    story.client("a").gets("*2\r\n$1\r\na\r\n$1\r\nc\r\n");
    story.node("n3").answers(&*changed("c1"));
    story.client("a").gets(&*changed("c1"));
}

// A part that goes on to another server for a client that has gone must make no connection for nobody.
#[test]
fn a_client_that_is_gone_gets_no_connection_any_more() {
    let mut story = Story::warm_cluster();
    caches(&mut story, "a", "NOLOOP");
    // A connection with nothing but reads would end with the client.
    story.client("a").says("DEL a4 c1");
    for node in ["n1", "n3"] {
        story.node(node).gets("CLIENT TRACKING ON NOLOOP").answers("+OK");
    }
    story.node("n3").gets("DEL c1").answers(":1");
    story.node("n1").gets("DEL a4");
    let before = story.connects_made();
    story.client("a").dies();
    story.node("n1").answers(&*moved("a4", "n2"));
    story.after_ms(5_000);
    assert_eq!(story.connects_made(), before);
}

/// Two servers have all slots, and so many connections may be clients' own.
fn two_of_three(limit: usize) -> Story {
    two_of_three_with(|settings| settings.limits.noloop_conns_max = limit)
}

fn two_of_three_with(change: impl FnOnce(&mut Settings)) -> Story {
    let mut story = Story::warm_cluster_with(change);
    story.cluster_is("0-10922 n1, 10923-16383 n3");
    story.client("plain").says("GET b4");
    story.node_conn("n2", 1).gets("GET b4").answers(&*moved("b4", "n1"));
    story.node_conn("n1", 1).gets("GET b4").answers("nil");
    story.client("plain").gets("nil");
    story.after_ms(2_000);
    story
}

/// The third has some again.
fn third_comes(story: &mut Story) {
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    story.client("plain").says("GET b4");
    story.node_conn("n1", 1).gets("GET b4").answers(&*moved("b4", "n2"));
    story.node("n2").gets("GET b4").answers("nil");
    story.client("plain").gets("nil");
    story.after_ms(50);
}

#[test]
fn without_room_a_request_to_a_server_that_comes_later_is_an_error() {
    let mut story = two_of_three(4);
    for client in ["a", "c@10.0.0.2"] {
        caches(&mut story, client, "NOLOOP");
        for (key, node) in [("a4", "n1"), ("c1", "n3")] {
            story.client(client).says(&*format!("GET {key}"));
            story.node(node).gets("CLIENT TRACKING ON NOLOOP").answers("+OK");
            story.node(node).gets(&*format!("GET {key}")).answers("nil");
            story.client(client).gets("nil");
        }
    }
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("CLIENT TRACKING ON NOLOOP").gets(LIMIT);
    third_comes(&mut story);
    for request in ["GET b4", "MULTI"] {
        story.client("a").says(request);
        let got = story.client("a").takes_text();
        assert_eq!(got, if request == "MULTI" { "+OK\r\n".into() } else { format!("{LIMIT}\r\n") });
    }
    story.client("a").says(["GET b4", "EXEC"]);
    let got = story.client("a").takes_text();
    assert!(got.starts_with(LIMIT) && got.contains("-EXECABORT"), "{got}");
    // The others go on, and with one client gone there is room.
    story.client("c@10.0.0.2").dies();
    story.client("a").says("GET b4");
    story.node("n2").gets("CLIENT TRACKING ON NOLOOP").answers("+OK").gets("GET b4").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn without_room_a_client_in_bcast_mode_is_closed_when_a_server_comes() {
    let mut story = two_of_three(2);
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("CLIENT TRACKING ON BCAST NOLOOP").gets_nothing();
    for node in ["n1", "n3"] {
        story.node(node).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX ").answers("+OK");
    }
    story.client("b").gets("+OK").is_open();
    third_comes(&mut story);
    story.client("b").is_closed();
}

const NO_ROOM: &str = "the limit of open files has no room for so many servers of one tenant";

// Found by a review: connections that cannot end counted in the bound, so clients that listen could take all of it.
#[test]
fn clients_that_listen_at_all_servers_leave_half_of_the_room_to_requests() {
    let mut story = Story::cluster_with(|settings| settings.limits.shared_conns_max = 4);
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    let mut refused = 0;
    for key in ["a4", "b4", "c1"] {
        story.client(key).says(&*format!("SSUBSCRIBE {key}"));
        if story.client(key).takes_text().contains(NO_ROOM) {
            refused += 1;
            continue;
        }
        let asked = story.conn_with(&format!("ssubscribe {key}"));
        story.conn(asked).gets(&*format!("ssubscribe {key}"));
        story.conn(asked).answers(&*confirms(&format!("ssubscribe {key} 1")));
        story.client(key).gets(&*confirms(&format!("ssubscribe {key} 1")));
    }
    assert_eq!(refused, 1);
    for words in ["BCAST", "BCAST PREFIX a"] {
        story.client(words).says("HELLO 3").takes();
        story.client(words).says(&*format!("CLIENT TRACKING ON {words}"));
        assert!(story.client(words).takes_text().contains(NO_ROOM));
    }
    for key in ["a4", "b4", "c1", "a4"] {
        story.client("reader").says(&*format!("GET {key}"));
        let asked = story.conn_with(&format!("GET {key}"));
        story.conn(asked).gets(&*format!("GET {key}")).answers("\"v\"");
        story.client("reader").gets("\"v\"");
    }
    assert!(story.open_conns() <= 4, "{}", story.open_conns());
}

// Found by a review: connections that send invalidations to clients in RESP2 had no bound.
#[test]
fn without_room_clients_of_shared_invalidations_are_refused_or_closed_when_a_server_comes() {
    for (words, protocol) in [("BCAST", "3"), ("BCAST REDIRECT 1", "2")] {
        let mut story = two_of_three_with(|settings| settings.limits.shared_conns_max = 6);
        let id = number_of(&mut story, "ear");
        story.client("ear").says("HELLO 3").takes();
        story.client("b").says(&*format!("HELLO {protocol}")).takes();
        let words = words.replace('1', &id.to_string());
        story.client("b").says(&*format!("CLIENT TRACKING ON {words}")).gets_nothing();
        for node in ["n1", "n3"] {
            story.node(node).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
        }
        story.client("b").gets("+OK");
        story.client("x").says("SSUBSCRIBE c1");
        story.node("n3").gets("ssubscribe c1").answers(&*confirms("ssubscribe c1 1"));
        story.client("b").is_open();
        story.client("ear").is_open();
        third_comes(&mut story);
        story.client("b").is_closed();
        story.client("b2").says(&*format!("HELLO {protocol}")).takes();
        story.client("b2").says(&*format!("CLIENT TRACKING ON {words}"));
        assert!(story.client("b2").takes_text().contains(NO_ROOM));
    }
}

// Found by an attack: the client was never told of `k`.
#[test]
fn a_connection_that_a_client_holds_since_before_it_tracks_tells_it_of_nothing() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("WATCH w");
    let held = story.conn_with("WATCH w");
    story.conn(held).gets("WATCH w").answers("+OK");
    story.client("a").gets("+OK").says("CLIENT TRACKING ON NOLOOP").gets("+OK");
    story.client("a").says("GET k");
    story.conn(held).gets("GET k").answers("+v");
    story.client("a").gets(&*format!("+v\r\n{}", changed("k")));
    story.client("a").says(["MULTI", "GET i", "EXEC"]);
    story.conn(held).gets(["MULTI", "GET i", "EXEC"]).answers(["+OK", "+QUEUED", "*1\r\n+v"]);
    let text = story.client("a").takes_text();
    assert!(text.ends_with(&format!("*1\r\n+v\r\n{}", changed("i"))), "{text}");
}
