//! Requests that concern every node.

use crate::words::Story;
use crate::words::cluster::list;

/// Says it, checks that every node gets it, and lets n1, n2 and n3 answer in the order n3, n1, n2.
fn told(story: &mut Story, line: &str, replies: [&str; 3], wanted: &str) {
    story.client("a").says(line);
    for (node, reply) in [("n3", replies[2]), ("n1", replies[0]), ("n2", replies[1])] {
        story.client("a").gets_nothing();
        story.node(node).gets(line).answers(reply);
    }
    story.client("a").gets(wanted);
}

#[test]
fn keys_are_those_of_all_nodes() {
    let mut story = Story::warm_cluster();
    let replies = [list(["\"a4\"", "\"a8\""]), list([""; 0]), list("\"c1\"")];
    let replies = replies.each_ref().map(String::as_str);
    told(&mut story, "KEYS *", replies, &list(["\"a4\"", "\"a8\"", "\"c1\""]));
    let error = "-ERR unknown command 'KEYS', it was renamed";
    told(&mut story, "KEYS *", [replies[0], error, replies[2]], error);
}

#[test]
fn the_size_is_that_of_all_nodes() {
    let mut story = Story::warm_cluster();
    told(&mut story, "DBSIZE", [":4", ":0", ":38"], ":42");
}

#[test]
fn a_flush_is_done_when_every_node_has_done_it() {
    let mut story = Story::warm_cluster();
    told(&mut story, "FLUSHALL ASYNC", ["+OK", "+OK", "+OK"], "+OK");
    told(&mut story, "FLUSHDB", ["+OK", "-NOPERM no", "+OK"], "-NOPERM no");
}

#[test]
fn scripts_are_loaded_everywhere_and_are_there_when_every_node_has_them() {
    let mut story = Story::warm_cluster();
    let sha = "\"e0e1f9fabfc9d4800c877a703b823ac0578ff8db\"";
    told(&mut story, "SCRIPT LOAD x", [sha, sha, sha], sha);
    let replies = [list([":1", ":1"]), list([":1", ":0"]), list([":1", ":1"])];
    let replies = replies.each_ref().map(String::as_str);
    told(&mut story, "SCRIPT EXISTS x y", replies, &list([":1", ":0"]));
    told(&mut story, "SCRIPT FLUSH", ["+OK", "+OK", "+OK"], "+OK");
}

#[test]
fn a_script_is_killed_wherever_it_runs() {
    let none = "-NOTBUSY No scripts in execution right now.";
    for replies in [[none, "+OK", none], [none, none, none]] {
        let mut story = Story::warm_cluster();
        story.client("a").says("SCRIPT KILL");
        for (node, reply) in ["n1", "n2", "n3"].into_iter().zip(replies) {
            // Over a lane of its own: the script may hold the ordinary one up.
            story.node_conn(node, 1).gets_nothing();
            story.node_conn(node, 2).gets("SCRIPT KILL").answers(reply);
        }
        story.client("a").gets(replies[1]);
    }
}

#[test]
fn a_random_key_is_one_of_any_node_and_null_only_if_there_is_none() {
    let mut story = Story::warm_cluster();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..9 {
        story.client("a").says("RANDOMKEY");
        for (node, key) in [("n1", "\"a4\""), ("n2", "nil"), ("n3", "\"c1\"")] {
            story.node(node).gets("RANDOMKEY").answers(key);
        }
        let got = story.client("a").takes_text();
        assert!(["$2\r\na4\r\n", "$2\r\nc1\r\n"].contains(&&*got), "{got}");
        seen.insert(got);
    }
    assert_eq!(seen.len(), 2, "always the same node's key: {seen:?}");
    told(&mut story, "RANDOMKEY", ["nil", "nil", "nil"], "nil");
}

#[test]
fn a_node_that_is_down_is_an_error_and_no_smaller_number() {
    let mut story = Story::warm_cluster();
    story.after_ms(2_000).crashes("n2");
    story.client("a").says("DBSIZE");
    story.node("n1").gets("DBSIZE").answers(":1");
    story.node("n3").gets("DBSIZE").answers(":1");
    story.client("a").gets("-ERR respool: upstream n2:7000: connect: Connection refused");
}

#[test]
fn they_keep_their_place_in_a_pipeline() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "DBSIZE", "GET a4", "KEYS x*"]);
    story.node("n1").gets("SET a4 1").answers("+OK").gets(["DBSIZE", "GET a4"]);
    story.node("n1").answers([":1", "\"1\""]);
    story.client("a").gets("+OK");
    for (line, reply) in [("DBSIZE", ":0"), ("KEYS x*", "*0\r\n")] {
        story.node("n2").gets(line).answers(reply);
        story.node("n3").gets(line).answers(reply);
    }
    story.node("n1").gets("KEYS x*").answers("*0\r\n");
    story.client("a").gets([":1", "\"1\"", "*0\r\n"]);
}

// Sent at once, it would be with n2 before what n1 sends there.
#[test]
fn what_is_about_all_keys_comes_behind_what_a_node_sends_on() {
    let mut story = Story::warm_cluster();
    for (line, reply, done) in [("FLUSHALL", "+OK", "+OK"), ("DBSIZE", ":1", ":3")] {
        story.client("a").says(["SET a4 1", line]);
        story.node_conn("n1", 1).gets("SET a4 1").gets_nothing().ask("a4", "n2");
        story
            .node_conn("n2", 1)
            .gets(["ASKING", "SET a4 1"])
            .gets_nothing()
            .answers(["+OK", "+OK"]);
        for node in ["n1", "n2", "n3"] {
            match line {
                "FLUSHALL" => story.node_conn(node, 2).gets(line).answers(reply),
                _ => story.node_conn(node, 1).gets(line).answers(reply),
            };
        }
        story.client("a").gets(["+OK", done]);
    }
    story.client("a").says(["SCAN 0", "SCRIPT FLUSH"]).says("GET a4");
    story.node_conn("n1", 1).gets(["SCAN 0", "SCRIPT FLUSH", "GET a4"]);
}
