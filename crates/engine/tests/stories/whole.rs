//! Transactions that come whole in one packet: over the shared connection, and never half.

use crate::words::{Story, request};
use engine::Settings;

const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.";
const QUEUED: &str = "+QUEUED";
const LOST: &str = "-ERR respool: upstream 127.0.0.1:6379: connection reset";

/// One packet of these.
fn packet(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| request(line)).collect()
}

#[test]
fn it_shares_the_connection_and_nothing_stands_in_between() {
    let mut story = Story::new();
    story.client("b").says("GET b");
    story.conn(1).gets("GET b").answers("nil");
    story.client("b").gets("nil");
    story
        .client("a")
        .sends_at_once(&packet(&["SET k 0", "MULTI", "INCR k", "INCR k", "EXEC", "GET k"]));
    story.client("b").sends_at_once(&packet(&["MULTI", "GET k", "EXEC"]));
    story.client("a").says("PING");
    story.conn(1).gets(["SET k 0", "MULTI", "INCR k", "INCR k", "EXEC", "GET k"]);
    story.conn(1).gets(["MULTI", "GET k", "EXEC"]);
    let done = "*2\r\n:1\r\n:2\r\n";
    story.conn(1).answers(["+OK", "+OK", QUEUED, QUEUED, done, "\"2\""]);
    story.client("a").gets(["+OK", "+OK", QUEUED, QUEUED, done, "\"2\"", "+PONG"]);
    story.client("b").gets_nothing();
    story.conn(1).answers(["+OK", QUEUED, "*1\r\n$1\r\n2\r\n"]);
    story.client("b").gets(["+OK", QUEUED, "*1\r\n$1\r\n2\r\n"]);
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn of_those_whose_replies_nobody_knows_yet_each_shares_the_connection_with_what_answers_little() {
    let mut story = Story::new();
    story.client("first").says("GET b");
    story.client("second").says("GET b");
    story.conn(1).gets(["GET b", "GET b"]);
    let many: Vec<&str> = ["MULTI"].into_iter().chain(["INCR k"; 40]).chain(["EXEC"]).collect();
    for (name, lines) in [
        ("a", vec!["MULTI", "GET k", "EXEC"]),
        ("b", vec!["MULTI", "GET k", "INCR k", "SET k 1", "GET k", "EXEC"]),
        ("c", many),
    ] {
        story.client(name).sends(&packet(&lines));
        story.conn(1).gets(lines);
        assert_eq!(story.connects_made(), 1, "{name}");
    }
    // Three long answers are too many as long as none is known.
    story.client("d").sends(&packet(&["MULTI", "GET k", "GET k", "GET k", "EXEC"]));
    story.conn(1).gets_nothing();
    assert_eq!(story.connects_made(), 2);
}

#[test]
fn what_the_server_refuses_leaves_the_connection_clean() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "SET k", "INCR k", "EXEC"]);
    story.conn(1).gets(["MULTI", "SET k", "INCR k", "EXEC"]);
    story.conn(1).answers(["+OK", "-ERR wrong number of arguments", QUEUED, ABORT]);
    story.client("a").gets(["+OK", "-ERR wrong number of arguments", QUEUED, ABORT]);
    story.client("b").says("GET k");
    story.conn(1).gets("GET k");
}

#[test]
fn what_is_not_whole_or_not_plain_takes_a_connection_of_its_own() {
    let large = format!("SET k {}", "x".repeat(70 << 10));
    let more_than_a_window = ["MULTI"; 1].into_iter().chain(["INCR k"; 100]).chain(["EXEC"]);
    let cases: [Vec<&str>; 9] = [
        vec!["MULTI", "SET k 1"],
        vec!["MULTI", "SET k 1", "DISCARD"],
        vec!["MULTI", "SET k 1", "PING", "EXEC"],
        vec!["MULTI", "BLPOP k 0", "EXEC"],
        vec!["MULTI", "SELECT 0", "EXEC"],
        vec!["MULTI", "MULTI", "EXEC"],
        vec!["MULTI", "SET k 1", "NOSUCH", "EXEC"],
        vec!["MULTI", &large, "EXEC"],
        more_than_a_window.collect(),
    ];
    for lines in cases {
        let mut story = Story::new();
        story.client("b").says("GET b");
        story.conn(1).gets("GET b").answers("nil");
        story.client("a").sends(&packet(&lines));
        story.conn(1).gets_nothing();
        assert_eq!(story.connects_made(), 2, "{:?}", lines[1]);
        story.conn(2).gets("MULTI");
    }
    let mut story = Story::new();
    story.client("a").says("WATCH k");
    story.conn(1).gets("WATCH k").answers("+OK");
    story.client("a").gets("+OK").says(["MULTI", "SET k 1", "EXEC"]);
    story.conn(1).gets(["MULTI", "SET k 1", "EXEC"]);
    assert_eq!(story.connects_made(), 1, "over the one that watches");
}

#[test]
fn a_connection_lost_in_the_middle_answers_each_of_it() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "GET k", "INCR k", "EXEC"]);
    story.conn(1).gets(["MULTI", "GET k", "INCR k", "EXEC"]).answers(["+OK", QUEUED]);
    story.conn(1).dies("connection reset");
    story.client("a").gets(["+OK", QUEUED, LOST, LOST]).says(["EXEC", "GET k"]);
    story.conn(2).gets("GET k").answers("nil");
    story.client("a").gets(["-ERR EXEC without MULTI", "nil"]);
}

#[test]
fn what_never_left_a_broken_connection_goes_out_whole_over_the_next() {
    let mut story = Story::new();
    story.client("a").says("GET a");
    story.conn(1).gets("GET a").answers("nil");
    story.client("a").gets("nil");
    story.conn(1).stops_taking();
    story.client("b").says("GET b");
    story.client("a").says(["MULTI", "INCR k", "EXEC"]);
    story.conn(1).dies("connection reset");
    story.conn(2).gets(["MULTI", "INCR k", "EXEC"]).answers(["+OK", QUEUED, "*1\r\n:1\r\n"]);
    story.client("a").gets(["+OK", QUEUED, "*1\r\n:1\r\n"]);
    story.client("b").gets(LOST);
}

#[test]
fn a_node_that_is_down_is_told_and_nothing_runs_alone() {
    let mut story = Story::with(Settings::default()).by_hand();
    story.client("a").says("GET a");
    story.connect_fails("connect: Connection refused");
    story.client("a").takes();
    story.client("a").says(["MULTI", "INCR k", "EXEC"]);
    let down = "-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused";
    story.client("a").gets(["+OK", down, ABORT]);
}

#[test]
fn on_a_cluster_it_goes_to_the_node_of_its_keys() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "MULTI", "SET b4 1", "MGET b4 b4", "EXEC", "GET a4"]);
    story.node_conn("n1", 1).gets(["GET a4", "GET a4"]);
    story.node_conn("n2", 1).gets(["MULTI", "SET b4 1", "MGET b4 b4", "EXEC"]);
    let done = "*2\r\n+OK\r\n*2\r\n$1\r\n1\r\n$1\r\n1\r\n";
    story.node_conn("n2", 1).answers(["+OK", QUEUED, QUEUED, done]);
    story.client("a").gets_nothing();
    story.node_conn("n1", 1).answers(["\"0\"", "\"1\""]);
    story.client("a").gets(["\"0\"", "+OK", QUEUED, QUEUED, done, "\"1\""]);
    assert_eq!(story.open_conns(), 3);
}

#[test]
fn a_redirect_of_the_first_command_sends_all_of_it_on() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "INCR a4", "INCR a4", "GET a4", "EXEC", "GET a4"]);
    story.node_conn("n1", 1).gets(["MULTI", "INCR a4", "INCR a4", "GET a4", "EXEC", "GET a4"]);
    story.node_conn("n1", 1).answers("+OK").moved("a4", "n3");
    story.client("a").gets("+OK");
    // What the first node still says of it is of no use; the request behind it goes on as any other.
    story.node_conn("n3", 1).gets_nothing();
    story.node_conn("n1", 1).moved("a4", "n3").moved("a4", "n3").answers(ABORT).moved("a4", "n3");
    story.node_conn("n3", 1).gets(["MULTI", "INCR a4", "INCR a4", "GET a4", "EXEC", "GET a4"]);
    story.client("a").gets_nothing();
    let done = "*3\r\n:1\r\n:2\r\n$1\r\n2\r\n";
    story.node_conn("n3", 1).answers(["+OK", QUEUED, QUEUED, QUEUED, done, "\"2\""]);
    story.client("a").gets([QUEUED, QUEUED, QUEUED, done, "\"2\""]);
    assert_eq!(story.open_conns(), 3, "no connection of its own");
}

#[test]
fn a_redirect_of_a_later_command_is_an_error_and_nothing_is_sent_on() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "INCR a4", "GET a4", "EXEC"]);
    story.node_conn("n1", 1).gets(["MULTI", "INCR a4", "GET a4", "EXEC"]);
    story.node_conn("n1", 1).answers(["+OK", QUEUED]).moved("a4", "n2").answers(ABORT);
    story.node_conn("n2", 1).gets_nothing();
    let error = "-ERR respool: the keys of this transaction went to another node in its middle, nothing of it was done";
    story.client("a").gets(["+OK", QUEUED, error, ABORT]);
    // And when EXEC is told so.
    story.client("a").says(["MULTI", "INCR b4", "EXEC"]);
    story.node_conn("n2", 1).gets(["MULTI", "INCR b4", "EXEC"]).answers(["+OK", QUEUED]);
    story.node_conn("n2", 1).moved("b4", "n3");
    story.node_conn("n3", 1).gets_nothing();
    story.client("a").gets(["+OK", QUEUED, ABORT]);
}

#[test]
fn a_slot_under_way_is_waited_for_by_all_of_it() {
    for said in ["-TRYAGAIN Multiple keys", "-CLUSTERDOWN Hash slot not served"] {
        let mut story = Story::warm_cluster();
        story.client("a").says(["MULTI", "INCR a4", "EXEC"]);
        story.node_conn("n1", 1).gets(["MULTI", "INCR a4", "EXEC"]);
        story.node_conn("n1", 1).answers(["+OK", said, ABORT]);
        story.client("a").gets("+OK");
        story.after_ms(5);
        // CLUSTERDOWN, and the doubt about who owns what, bring questions of the proxy's own.
        while story.node_conn("n1", 1).takes_one().expect("it comes again") != "MULTI" {}
        story.node_conn("n1", 1).gets(["INCR a4", "EXEC"]).answers(["+OK", QUEUED, "*1\r\n:1\r\n"]);
        story.client("a").gets([QUEUED, "*1\r\n:1\r\n"]);
    }
}

#[test]
fn on_a_cluster_a_lost_connection_sends_nothing_of_it_again() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "GET a4", "GET a4", "EXEC", "GET a4"]);
    story.node_conn("n1", 1).gets(["MULTI", "GET a4", "GET a4", "EXEC", "GET a4"]);
    story.node_conn("n1", 1).answers(["+OK", QUEUED]).dies("connection reset");
    // The one behind it only reads, and is asked again.
    story.node_conn("n1", 2).gets("GET a4").answers("\"1\"");
    let texts = story.client("a").takes_text();
    let texts: Vec<&str> = texts.split("\r\n").collect();
    assert_eq!(texts[..2], ["+OK", QUEUED]);
    assert!(texts[2..4].iter().all(|text| text.ends_with("connection reset")), "{texts:?}");
    assert_eq!(texts[4..], ["$1", "1", ""]);
}

#[test]
fn nobody_takes_it_and_each_of_it_is_told() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "INCR a4", "INCR a4", "EXEC"]);
    story.node_conn("n1", 1).gets(["MULTI", "INCR a4", "INCR a4", "EXEC"]);
    let refused = ["+OK", "-TRYAGAIN a", "-TRYAGAIN b", ABORT];
    story.node_conn("n1", 1).answers(refused);
    for _ in 0..40 {
        story.after_ms(100);
        let mut conn = story.node_conn("n1", 1);
        if conn.takes_requests() == 4 {
            conn.answers(refused);
        }
    }
    let text = story.client("a").takes_text();
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[1].starts_with("-ERR respool") && lines[1] == lines[2], "{text}");
    assert_eq!((lines[0], lines[3]), ("+OK", ABORT));
}
