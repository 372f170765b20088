//! Which node a request goes to, and that its client sees nothing of it.

use crate::words::Story;

#[test]
fn each_key_goes_to_the_owner_of_its_slot() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a8 1", "SET b8 2", "SET c5 3"]);
    story.node("n1").gets("SET a8 1").gets_nothing();
    story.node("n2").gets("SET b8 2").gets_nothing();
    story.node("n3").gets("SET c5 3").gets_nothing();
}

#[test]
fn a_hash_tag_decides_the_slot() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET {b4}.a", "GET x{c1}", "GET {}b4", "MGET {a4}x {a4}y b{a4}"]);
    story.node("n2").gets("GET {b4}.a");
    story.node("n3").gets("GET x{c1}");
    // An empty tag is none, so the whole key counts.
    let whole = engine::route::slot::slot(b"{}b4");
    let owner = ["n1", "n2", "n3"][usize::from(whole / 5461).min(2)];
    story.node(owner).gets("GET {}b4");
    story.node("n1").gets("MGET {a4}x {a4}y b{a4}");
}

#[test]
fn a_pipeline_over_all_nodes_comes_back_in_order_whoever_answers_first() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "GET b4", "GET c1", "GET a8", "PING", "GET b8"]);
    story.node("n3").gets("GET c1").answers("\"c1\"");
    story.node("n2").gets(["GET b4", "GET b8"]).answers(["\"b4\"", "\"b8\""]);
    story.client("a").gets_nothing();
    story.node("n1").gets("GET a4").answers("\"a4\"");
    story.client("a").gets(["\"a4\"", "\"b4\"", "\"c1\""]);
    story.node("n1").gets("GET a8").answers("\"a8\"");
    story.client("a").gets(["\"a8\"", "+PONG", "\"b8\""]);
}

#[test]
fn a_pipeline_that_alternates_is_one_write_to_each_node() {
    let mut story = Story::warm_cluster();
    let before: Vec<usize> = ["n1", "n2"].map(|node| story.node(node).writes()).into();
    let line: Vec<&str> = (0..40).map(|n| ["SET a4 1", "SET b4 2"][n % 2]).collect();
    story.client("a").says(line);
    for (node, before) in ["n1", "n2"].into_iter().zip(before) {
        assert_eq!(story.node(node).takes_requests(), 20);
        assert_eq!(story.node(node).writes() - before, 1);
        story.node(node).answers(vec!["+OK"; 20]);
    }
    story.client("a").gets(vec!["+OK"; 40]);
}

#[test]
fn clients_share_the_connections_of_the_nodes() {
    let mut story = Story::warm_cluster();
    for name in ["a", "b", "c"] {
        story.client(name).says(["GET a4", "GET b4"]);
    }
    story.node("n1").gets(["GET a4", "GET a4", "GET a4"]).answers(["\"1\"", "\"2\"", "\"3\""]);
    story.node("n2").gets(["GET b4", "GET b4", "GET b4"]).answers(["\"4\"", "\"5\"", "\"6\""]);
    story.client("a").gets(["\"1\"", "\"4\""]);
    story.client("b").gets(["\"2\"", "\"5\""]);
    story.client("c").gets(["\"3\"", "\"6\""]);
    assert_eq!(story.open_conns(), 3);
}

#[test]
fn a_slow_node_delays_only_those_who_asked_it() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    story.client("b").says(["GET b4", "GET c1"]);
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.node("n3").gets("GET c1").answers("\"c\"");
    story.client("b").gets(["\"b\"", "\"c\""]);
    story.client("a").gets_nothing();
}

#[test]
fn keys_of_one_slot_pass_as_they_came() {
    let mut story = Story::warm_cluster();
    story.client("a").says([
        "MGET {a4}1 {a4}2",
        "MSETNX {a4}1 x {a4}2 y",
        "EVAL return 2 {a4}1 {a4}2",
        "RENAME {a4}1 {a4}2",
        "ZUNIONSTORE {a4}d 2 {a4}1 {a4}2",
    ]);
    story.node("n1").gets([
        "MGET {a4}1 {a4}2",
        "MSETNX {a4}1 x {a4}2 y",
        "EVAL return 2 {a4}1 {a4}2",
        "RENAME {a4}1 {a4}2",
        "ZUNIONSTORE {a4}d 2 {a4}1 {a4}2",
    ]);
}

#[test]
fn what_cannot_be_split_is_refused_as_a_server_does() {
    let crossslot = "-CROSSSLOT Keys in request don't hash to the same slot";
    let mut story = Story::warm_cluster();
    for line in [
        "MSETNX a4 1 b4 2",
        "RENAME a4 b4",
        "EVAL return 2 a4 b4",
        "SUNION a4 b4",
        // The same node, but two slots: a server refuses that as well.
        "RENAME a4 a8",
    ] {
        story.client("a").says(line).gets(crossslot);
    }
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets_nothing();
    }
}

#[test]
fn what_names_no_key_goes_to_one_node() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["TIME", "EVAL return 0", "SET"]);
    story.node("n1").gets(["TIME", "EVAL return 0", "SET"]);
}

#[test]
fn there_is_but_one_database() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SELECT 0", "SELECT 1"]);
    story.client("a").gets(["+OK", "-ERR SELECT is not allowed in cluster mode"]);
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4");
}

#[test]
fn a_pipeline_may_change_the_protocol_in_its_middle() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "GET b4", "HELLO 3", "GET a4", "GET b4"]);
    story.node_conn("n2", 1).gets("GET b4").gets_nothing().answers("\"2\"");
    story.node_conn("n1", 1).gets("GET a4").gets_nothing().answers("\"1\"");
    let got = story.client("a").takes_text();
    assert!(got.starts_with("$1\r\n1\r\n$1\r\n2\r\n%7\r\n"), "{got}");
    assert_eq!((story.connects_to("n1"), story.connects_to("n2")), (2, 2));
    assert!(story.node("n2").key().resp3);
    story.node("n2").gets("GET b4").answers("_");
    story.node("n1").gets("GET a4").answers("_");
    story.client("a").gets(["_", "_"]);
}

#[test]
fn an_inline_request_finds_its_node_too() {
    let mut story = Story::warm_cluster();
    story.client("a").sends(b"get b4\r\nmget a4 b4\r\n");
    story.node("n2").gets(["get b4", "mget b4"]);
    story.node("n1").gets("mget a4");
}

#[test]
fn commands_of_a_cluster_client_are_refused_as_by_a_server_that_is_none() {
    let mut story = Story::warm_cluster();
    for line in ["ASKING", "READONLY", "READWRITE"] {
        story.client("a").says(line).gets("-ERR This instance has cluster support disabled");
    }
}
