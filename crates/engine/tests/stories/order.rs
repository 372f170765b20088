//! Replies come in the order of requests, whoever answers them; what belongs together leaves together.

use crate::words::{Story, request};

#[test]
fn a_request_reaches_the_server_and_its_reply_the_client() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"").is_open();
    assert!(story.was_told("NodeReady"));
}

#[test]
fn a_local_command_waits_for_the_replies_of_the_requests_before_it() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "PING", "ECHO two", "GET l", "PING last"]).gets_nothing();
    story.server().gets(["GET k", "GET l"]).answers("\"v\"");
    story.client("a").gets(["\"v\"", "+PONG", "\"two\""]);
    story.server().answers("nil");
    story.client("a").gets(["nil", "\"last\""]);
}

#[test]
fn a_local_command_alone_needs_no_server() {
    let mut story = Story::new();
    story.client("a").says(["PING", "ECHO hi"]).gets(["+PONG", "\"hi\""]);
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn an_answer_of_the_workers_keeps_its_place() {
    let mut story = Story::new();
    story.holds_questions();
    story.client("a").says(["GET k", "CLIENT LIST TYPE pubsub", "PING", "GET l"]);
    story.server().gets(["GET k", "GET l"]).answers(["\"1\"", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.workers_answer();
    story.client("a").gets(["\"\"", "+PONG", "\"2\""]);
}

#[test]
fn an_answer_of_the_workers_that_comes_early_waits_for_the_server() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "CLIENT LIST TYPE pubsub"]).gets_nothing();
    story.server().answers("\"1\"");
    story.client("a").gets(["\"1\"", "\"\""]);
}

#[test]
fn pipelines_of_many_clients_leave_in_one_write_and_come_back_in_one_each() {
    let mut story = Story::new();
    story.client("warm").says("GET k");
    story.server().gets("GET k").answers("nil");
    let before = story.server().writes();
    for (name, key) in [("a", "1"), ("b", "2"), ("c", "3")] {
        let line = format!("GET {key}");
        let pipeline = [request(&line), request(&line)].concat();
        story.client(name).sends_at_once(&pipeline);
    }
    story.turn();
    assert_eq!(story.server().writes(), before + 1);
    story.server().gets(["GET 1", "GET 1", "GET 2", "GET 2", "GET 3", "GET 3"]);
    story.server().answers(["\"1\"", "\"1\"", "\"2\"", "\"2\"", "\"3\"", "\"3\""]);
    for (name, value) in [("a", "\"1\""), ("b", "\"2\""), ("c", "\"3\"")] {
        assert_eq!(story.client(name).gets([value, value]).sends_seen(), 1);
    }
}

#[test]
fn a_request_split_at_any_byte_is_the_same_request() {
    let bytes = [request("SET key value"), request("PING"), request("GET key")].concat();
    for split in 1..bytes.len() {
        let mut story = Story::new();
        story.client("a").sends(&bytes[..split]).sends(&bytes[split..]);
        story.server().gets(["SET key value", "GET key"]).gets_nothing();
        story.server().answers(["+OK", "\"value\""]);
        story.client("a").gets(["+OK", "+PONG", "\"value\""]);
    }
}

#[test]
fn requests_that_come_byte_by_byte_are_the_same_requests() {
    let mut story = Story::new();
    for byte in [request("SET key value"), request("GET key")].concat() {
        story.client("a").sends(&[byte]);
    }
    story.server().gets(["SET key value", "GET key"]);
}

#[test]
fn a_reply_split_at_any_byte_is_the_same_reply() {
    let replies = b"*2\r\n$3\r\nabc\r\n:12\r\n-ERR no\r\n$5\r\nvalue\r\n";
    for split in 1..replies.len() {
        let mut story = Story::new();
        story.client("a").says(["LRANGE l 0 1", "INCR l"]);
        story.client("b").says("GET k");
        story.server().sends(&replies[..split]).sends(&replies[split..]);
        story.client("a").gets(["*2\r\n$3\r\nabc\r\n:12\r\n", "-ERR no"]);
        story.client("b").gets("\"value\"");
    }
}

#[test]
fn inline_requests_are_given_on_as_arrays() {
    let mut story = Story::new();
    story.client("a").sends(b"set  key \"a b\"\r\n\r\nPING\r\n");
    story.server().gets("set key a b").answers("+OK");
    story.client("a").gets(["+OK", "+PONG"]);
}

#[test]
fn requests_of_nothing_get_nothing() {
    let mut story = Story::new();
    story.client("a").sends(b"*0\r\n*-1\r\n\r\n*1\r\n$4\r\nPING\r\n").gets("+PONG");
}

#[test]
fn replies_for_a_client_that_is_gone_reach_nobody() {
    let mut story = Story::new();
    story.client("a").says(["GET a", "GET b"]);
    story.client("a").dies();
    story.client("b").says("GET c");
    story.server().gets(["GET a", "GET b", "GET c"]).answers(["\"a\"", "\"b\"", "\"c\""]);
    story.client("b").gets("\"c\"");
}

#[test]
fn a_push_is_skipped_wherever_it_comes() {
    let push = ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n";
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.server().answers(push);
    story.client("a").says(["GET k", "GET l"]);
    story.server().answers(["\"1\"", push, "\"2\""]);
    story.client("a").gets(["\"1\"", "\"2\""]).is_open();
}

#[test]
fn a_push_that_comes_byte_by_byte_is_skipped() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says(["GET k", "GET l"]);
    for byte in b"$1\r\n1\r\n>2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$1\r\n2\r\n" {
        story.server().sends(&[*byte]);
    }
    story.client("a").gets(["\"1\"", "\"2\""]).is_open();
}

#[test]
fn an_attribute_belongs_to_the_reply_behind_it() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("GET k");
    story.client("b").says("HELLO 3").takes();
    let reply = "|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n";
    story.server().answers(reply);
    story.client("a").gets(reply);
}

// Found by an attack: SET overtook FLUSHALL of its client, and was lost.
#[test]
fn a_request_over_the_connection_of_a_watch_does_not_overtake_one_over_others() {
    for (beside, parts) in [
        ("FLUSHALL", ["FLUSHALL"; 3]),
        ("DEL a4 b4 c1", ["DEL a4", "DEL b4", "DEL c1"]),
        ("MSET a4 1 b4 1 c1 1", ["MSET a4 1", "MSET b4 1", "MSET c1 1"]),
    ] {
        for behind in ["SET a4 2", "MULTI", "UNWATCH", "EVAL x 1 a4"] {
            let mut story = Story::warm_cluster();
            story.client("a").says("WATCH a4");
            story.node_conn("n1", 2).gets("WATCH a4").answers("+OK");
            story.client("a").gets("+OK").says([beside, behind]);
            let reply = if beside.starts_with("DEL") { ":1" } else { "+OK" };
            for (node, part) in ["n1", "n2", "n3"].into_iter().zip(parts) {
                story.node_conn("n1", 2).gets_nothing();
                // FLUSHALL goes over a connection beside the shared one.
                let number = if part == "FLUSHALL" { story.connects_to(node) } else { 1 };
                story.node_conn(node, number).gets(part).answers(reply);
            }
            let reply = if beside.starts_with("DEL") { ":3" } else { "+OK" };
            story.client("a").gets(reply);
            story.node_conn("n1", 2).gets(behind).answers("+OK");
            story.client("a").gets("+OK");
        }
    }
}
