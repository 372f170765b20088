//! Other servers in the place of those that there were, while clients are connected.

use crate::tracking::{ALL, caches};
use crate::words::cluster::{list, lost, seeds};
use crate::words::{HELLO_2, Story, large_set};
use engine::node::Address;
use engine::settings::{Password, Pool, Settings};

const LEFT: &str = "is no server of the configuration any more";

fn at(name: &str) -> Address {
    Address::tcp(name, 7000)
}

/// The only server is this one.
fn one(settings: &mut Settings, name: &str) {
    settings.pool = Pool::Standalone;
    settings.node.address = at(name);
}

/// A story that begins with one server, `old`.
fn old() -> Story {
    let mut settings = Settings::default();
    one(&mut settings, "old");
    let mut story = Story::with(settings);
    story.server_says_to("COMMAND", "*0");
    story
}

/// `new` takes the place of whatever there is.
fn new_comes(story: &mut Story) {
    story.reconfigures(|settings| one(settings, "new"));
}

fn confirmed(channel: &str) -> String {
    list(["\"subscribe\"", &format!("\"{channel}\""), ":1"])
}

#[test]
fn what_was_sent_is_answered_there_and_what_comes_goes_elsewhere() {
    let mut story = old();
    story.client("a").says(["SET k 1", "GET k"]);
    story.client("b").says("GET other");
    story.node("old").gets(["SET k 1", "GET k", "GET other"]);
    new_comes(&mut story);
    // Behind what is under way, not before it.
    story.client("a").says("GET k");
    story.client("c").says("GET k");
    story.node("new").gets("GET k").gets_nothing().answers("\"new\"");
    story.client("c").gets("\"new\"");
    story.node("old").answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
    story.node("new").gets("GET k").answers("\"new\"");
    story.client("a").gets("\"new\"");
    story.node("old").is_open().answers("\"o\"").is_closed();
    story.client("b").gets("\"o\"");
    assert_eq!(story.open_conns_to("old"), 0);
}

#[test]
fn what_waited_for_the_next_connection_to_a_former_server_gets_an_error() {
    let mut story = old();
    story.client("a").says("GET k");
    story.node("old").gets("GET k").answers("nil").stops_taking();
    story.client("a").gets("nil");
    story.client("b").says("GET b");
    story.client("a").says("INCR k");
    let mut story = story.by_hand();
    story.node("old").dies("connection reset");
    story.client("a").gets_nothing();
    new_comes(&mut story);
    story.client("a").gets(&*lost("old", LEFT));
}

#[test]
fn one_that_owes_nothing_is_left_at_once() {
    let mut story = old();
    story.client("a").says("GET k");
    story.node("old").gets("GET k").answers("nil");
    new_comes(&mut story);
    assert_eq!((story.open_conns_to("old"), story.open_conns_to("new")), (0, 1));
    story.client("a").gets("nil");
}

#[test]
fn a_cluster_takes_the_place_of_one_server_and_the_other_way_round() {
    let mut story = old();
    story.client("a").says("SET k 1");
    story.node("old").gets("SET k 1");
    story.reconfigures(|settings| {
        let cluster = seeds(&["n1"]);
        (settings.node, settings.pool) = (cluster.node, cluster.pool);
    });
    story.cluster_is("0-8191 n1, 8192-16383 n2");
    story.node("old").answers("+OK");
    story.client("a").gets("+OK").says(["MSET a 1 b 2", "GET a"]);
    story.node("n1").gets("MSET b 2").answers("+OK");
    story.node("n2").gets(["MSET a 1", "GET a"]).answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
    // Parts that are under way come together.
    story.client("a").says("MGET a b");
    story.node("n1").gets("MGET b");
    story.node("n2").gets("MGET a");
    new_comes(&mut story);
    story.node("n2").answers("*1\r\n$1\r\n1\r\n");
    story.node("n1").answers("*1\r\n$1\r\n2\r\n");
    let both = list(["\"1\"", "\"2\""]);
    story.client("a").gets(&both).says("MGET a b");
    story.node("new").gets("MGET a b").answers(&both);
    story.client("a").gets(&both);
    assert_eq!(story.open_conns_to("n1") + story.open_conns_to("n2"), 0);
}

#[test]
fn a_request_that_was_sent_on_in_that_moment_finds_its_server() {
    let mut story = Story::warm_cluster();
    story.server_says_to("COMMAND", "*0");
    story.client("a").says("GET a");
    story.node("n3").gets("GET a");
    new_comes(&mut story);
    // It was not done there, so it is done where it belongs now.
    story.node("n3").moved("a", "n1");
    story.node("new").gets("GET a").answers("\"v\"");
    story.client("a").gets("\"v\"");
    assert_eq!(story.open_conns_to("n3"), 0);
}

#[test]
fn whoever_waits_is_told_and_goes_on() {
    let mut story = old();
    story.client("a").says(["BLPOP list 0", "PING"]);
    story.node("old").gets("BLPOP list 0");
    new_comes(&mut story);
    story.client("a").gets([&*lost("old", LEFT), "+PONG"]);
    assert_eq!(story.open_conns_to("old"), 0);
    story.client("a").says("BLPOP list 0");
    story.node("new").gets("BLPOP list 0").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn a_transaction_that_was_not_ended_is_not_done() {
    let mut story = old();
    story.client("a").says(["MULTI", "SET k 1"]);
    story.node("old").gets(["MULTI", "SET k 1"]).answers(["+OK", "+QUEUED"]);
    story.client("a").gets(["+OK", "+QUEUED"]);
    story.client("w").says("WATCH k");
    story.node("old").gets("WATCH k").answers("+OK");
    story.client("w").gets("+OK");
    new_comes(&mut story);
    // As where a connection is lost in the middle.
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    story.client("a").says(["INCR n", "EXEC"]).gets([&*lost("old", LEFT), abort]);
    story.client("w").says(["MULTI", "SET k 2", "EXEC"]);
    story.client("w").gets(["+OK", &*lost("old", LEFT), abort]);
    for client in ["a", "w"] {
        story.client(client).says(["MULTI", "INCR n", "EXEC"]);
        story.node("new").gets(["MULTI", "INCR n", "EXEC"]);
        story.node("new").answers(["+OK", "+QUEUED", "*1\r\n:1\r\n"]);
        story.client(client).gets(["+OK", "+QUEUED", "*1\r\n:1\r\n"]);
    }
    assert_eq!(story.open_conns_to("old"), 0);
}

#[test]
fn a_transaction_that_no_server_of_a_cluster_has_seen_is_done_by_the_one_that_comes() {
    let mut story = Story::cluster();
    story.server_says_to("COMMAND", "*0");
    story.cluster_is("0-16383 n1");
    story.client("a").says("MULTI").gets("+OK");
    new_comes(&mut story);
    story.client("a").says("SET k 1").gets("+QUEUED");
    // The connection is a new one: that it is there does not mean that MULTI was said over it.
    story.client("a").says("EXEC");
    story.node("new").gets(["MULTI", "SET k 1", "EXEC"]);
    story.node("new").answers(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    story.client("a").gets("*1\r\n+OK\r\n");
}

#[test]
fn an_exec_that_was_sent_is_answered() {
    let mut story = old();
    story.client("a").says(["WATCH k", "MULTI", "SET k 1", "EXEC"]);
    story.node("old").gets(["WATCH k", "MULTI", "SET k 1", "EXEC"]);
    new_comes(&mut story);
    story.node("old").answers(["+OK", "+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    story.client("a").gets(["+OK", "+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    assert_eq!(story.open_conns_to("old"), 0, "it is not kept for the next one");
}

#[test]
fn subscriptions_go_over_by_themselves() {
    let mut story = old();
    story.client("a").says("SUBSCRIBE news");
    story.node("old").gets("subscribe news").answers(&confirmed("news"));
    story.client("a").gets(&confirmed("news"));
    new_comes(&mut story);
    story.after_ms(100);
    story.node("new").gets("subscribe news").answers(&confirmed("news"));
    story.client("a").gets_nothing();
    let message = list(["\"message\"", "\"news\"", "\"x\""]);
    story.node("new").answers(&message);
    story.client("a").gets(&message);
    assert_eq!(story.open_conns_to("old"), 0);
}

#[test]
fn whoever_begins_to_listen_before_the_new_servers_are_known_is_not_led_to_the_former_ones() {
    let mut story = old();
    story.client("a").says("SUBSCRIBE news");
    story.node("old").gets("subscribe news").answers(&confirmed("news"));
    story.client("a").gets(&confirmed("news"));
    story.client("c").says("GET k");
    story.node("old").gets("GET k");
    story.reconfigures(|settings| {
        let cluster = seeds(&["n1"]);
        (settings.node, settings.pool) = (cluster.node, cluster.pool);
    });
    assert_eq!(story.open_conns_to("old"), 1, "what it owes is awaited");
    story.client("b").says("SUBSCRIBE news").gets_nothing();
    assert_eq!(story.open_conns_to("old"), 1);
    story.node("old").answers("nil");
    story.client("c").gets("nil");
    story.cluster_is("0-16383 n1").after_ms(2_000);
    story.node("n1").gets("subscribe news").answers(&confirmed("news"));
    story.client("b").gets(&confirmed("news"));
}

#[test]
fn caches_are_flushed() {
    let mut story = old();
    caches(&mut story, "a", "");
    story.client("a").says("GET k");
    story.node("old").gets("CLIENT TRACKING ON").answers("+OK");
    story.node("old").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    new_comes(&mut story);
    story.client("a").gets(ALL).says("GET k");
    story.node("new").gets("CLIENT TRACKING ON").answers("+OK");
    story.node("new").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn a_large_request_goes_to_its_end_where_it_began() {
    let mut story = old();
    let set = large_set("k", 1 << 20);
    story.client("a").sends(&set[..600_000]);
    new_comes(&mut story);
    story.client("a").sends(&set[600_000..]);
    story.node("old").answers("+OK");
    story.client("a").gets("+OK").says("GET k");
    story.node("new").gets("GET k");
    assert_eq!(story.open_conns_to("old"), 0);
}

#[test]
fn clients_begin_in_the_new_database_and_keep_one_that_they_selected() {
    let mut story = old();
    story.client("begun").says("GET k");
    story.node("old").gets("GET k").answers("nil");
    story.client("begun").gets("nil");
    story.client("chose").says(["SELECT 7", "GET k"]);
    story.node("old").gets("GET k").answers("nil");
    story.client("chose").gets(["+OK", "nil"]);
    story.reconfigures(|settings| {
        one(settings, "new");
        settings.node.db = 3;
    });
    for (client, db) in [("begun", 3), ("chose", 7)] {
        story.client(client).says("GET k");
        let mut words = story.node("new").gets("GET k").answers("nil");
        assert_eq!(words.key().db, db);
        story.client(client).gets("nil");
    }
}

#[test]
fn no_server_hears_the_password_of_another() {
    let mut story = old().by_hand();
    story.reconfigures(|settings| {
        one(settings, "new");
        settings.node.password = Some(Password::new("of-new"));
    });
    // The connect to the former one ends only now.
    story.connects();
    story.node("new").gets("HELLO 2 AUTH default of-new").answers(HELLO_2);
    assert_eq!(story.open_conns_to("old"), 0);
}

#[test]
fn what_other_workers_tell_of_other_servers_is_not_believed() {
    let mut teller = Story::cluster_with(|settings| settings.workers = 2);
    teller.engine.warm_up(teller.now);
    teller.after_ms(0);
    let news = teller.tells();
    assert!(!news.is_empty(), "an answer to be told");
    let mut hearer = Story::cluster_with(|settings| (settings.worker, settings.workers) = (1, 2));
    hearer.reconfigures(|settings| {
        let cluster = seeds(&["other"]);
        (settings.node, settings.pool) = (cluster.node, cluster.pool);
    });
    for (_, news) in news {
        hearer.hears(news);
    }
    hearer.client("a").says("GET k");
    assert_eq!(hearer.open_conns_to("n1"), 0);
}

#[test]
fn many_changes_leave_nothing_behind() {
    let mut story = old();
    for round in 0..50 {
        for name in ["one", "two"] {
            story.reconfigures(|settings| one(settings, name));
            story.client("a").says("INCR k");
            story.node(name).gets("INCR k").answers(&format!(":{round}"));
            story.client("a").gets(&format!(":{round}"));
        }
    }
    assert_eq!(story.open_conns(), 1);
}
