//! CLIENT UNBLOCK: the server ends the wait, and nothing else is hit.

use crate::waits::MOVES_OFFSET;
use crate::words::Story;

/// One client that waits over connection 1, which the server knows as 991.
fn waiting() -> Story {
    let mut story = Story::new();
    story.client("a").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0");
    story
}

#[test]
fn the_server_is_told_over_another_connection_and_its_answer_is_the_answer() {
    for (line, told, reply) in [
        ("CLIENT UNBLOCK 1", "CLIENT UNBLOCK 991 TIMEOUT", "*-1\r\n"),
        ("CLIENT UNBLOCK 1 timeout", "CLIENT UNBLOCK 991 TIMEOUT", "*-1\r\n"),
        (
            "CLIENT UNBLOCK 1 ERROR",
            "CLIENT UNBLOCK 991 ERROR",
            "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
        ),
    ] {
        let mut story = waiting();
        story.client("b").says([line, "PING"]).gets_nothing();
        story.conn(2).gets(told).answers(":1");
        story.client("b").gets([":1", "+PONG"]);
        story.conn(1).answers(reply);
        story.client("a").gets(reply).is_open();
    }
}

#[test]
fn what_was_served_already_is_not_unblocked_and_not_lost() {
    let mut story = waiting();
    story.client("b").says("CLIENT UNBLOCK 1");
    story.conn(1).answers("*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    story.client("a").gets("*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    story.conn(2).gets("CLIENT UNBLOCK 991 TIMEOUT").answers(":0");
    story.client("b").gets(":0");
}

#[test]
fn a_connection_that_may_still_be_unblocked_serves_no_other_client() {
    let mut story = waiting();
    story.client("b").says("CLIENT UNBLOCK 1");
    story.conn(1).answers("*-1\r\n").is_closed();
    story.client("c").says("BLPOP list 0");
    story.conn(3).gets("BLPOP list 0");
    story.conn(2).gets("CLIENT UNBLOCK 991 TIMEOUT").answers(":1");
    story.client("c").gets_nothing();
}

#[test]
fn a_client_that_does_not_wait_is_not_unblocked() {
    let mut story = Story::new();
    story.client("a").says("SET k 1");
    story.client("b").says(["CLIENT UNBLOCK 1", "CLIENT UNBLOCK 2", "CLIENT UNBLOCK 77"]);
    story.client("b").gets([":0", ":0", ":0"]);
    // Watching over a connection of its own is no wait, also behind one.
    story.client("w").says(["WATCH k"]);
    story.conn(1).gets("SET k 1").answers("+OK");
    story.conn(2).gets("WATCH k").answers("+OK");
    story.client("w").says("BLPOP list 0");
    story.conn(2).gets("BLPOP list 0").answers("*-1\r\n");
    story.client("w").says("GET k");
    story.client("b").says("CLIENT UNBLOCK 3").gets(":0");
    story.conn(2).gets("GET k").answers("\"1\"");
}

#[test]
fn a_lost_connection_answers_that_nobody_was_unblocked() {
    let mut story = waiting();
    story.client("b").says("CLIENT UNBLOCK 1");
    story.conn(2).gets("CLIENT UNBLOCK 991 TIMEOUT").dies("connection reset");
    story.client("b").gets(":0");
    let mut story = waiting().by_hand();
    story.client("b").says("CLIENT UNBLOCK 1").gets_nothing();
    story.connect_fails("connect: Connection refused").client("b").gets(":0");
}

#[test]
fn one_that_went_while_its_server_was_connected_to_is_not_unblocked() {
    let mut story = waiting().by_hand();
    story.client("b").says("CLIENT UNBLOCK 1").gets_nothing();
    story.client("a").dies();
    story.client("b").gets(":0");
}

#[test]
fn a_wait_on_every_primary_ends_on_every_primary() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WAIT 1 0");
    for node in ["n1", "n2", "n3"] {
        story.node_conn(node, 2).gets([MOVES_OFFSET, "WAIT 1 0"]).answers("+PONG");
    }
    story.node_conn("n2", 2).answers(":1");
    story.client("b").says("CLIENT UNBLOCK 1").gets_nothing();
    for node in ["n1", "n3"] {
        story.node_conn(node, 1).gets("CLIENT UNBLOCK 991 TIMEOUT").answers(":1");
        story.node_conn(node, 2).answers(":0");
    }
    story.client("b").gets(":1");
    story.client("a").gets(":0");
}

#[test]
fn the_list_tells_who_waits_and_who_is_in_a_transaction() {
    let mut story = waiting();
    story.client("m").says(["MULTI", "SET k 1", "INCR k"]);
    story.client("w").says("WATCH k");
    story.client("b").says("CLIENT LIST");
    let text = story.client("b").takes_text();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("id=")).collect();
    for (line, flags, multi, command) in [
        (lines[0], "flags=b", "multi=-1 watch=0", "cmd=blpop"),
        (lines[1], "flags=x", "multi=2 watch=0", "cmd=incr"),
        (lines[2], "flags=N", "multi=-1 watch=1", "cmd=watch"),
        (lines[3], "flags=N", "multi=-1 watch=0", "cmd=client|list"),
    ] {
        for field in [flags, multi, command] {
            assert!(line.contains(&format!(" {field} ")), "{field}: {line}");
        }
    }
}
