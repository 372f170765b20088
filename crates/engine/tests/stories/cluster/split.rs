//! Requests with keys of several slots: what goes where, and how the replies become one.

use crate::words::cluster::{list, lost};
use crate::words::{Story, wire};

const WRONGTYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn mget_comes_back_in_the_order_of_its_keys() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MGET c1 a4 b4 a4 c1 a8");
    story.node("n1").gets(["MGET a4 a4", "MGET a8"]);
    story.node("n2").gets("MGET b4").answers(&list("\"b4\""));
    story.node("n3").gets("MGET c1 c1").answers(&list(["\"c1\"", "\"c1\""]));
    story.client("a").gets_nothing();
    story.node("n1").answers([&*list(["\"a4\"", "\"a4\""]), &*list("nil")]);
    story.client("a").gets(&list(["\"c1\"", "\"a4\"", "\"b4\"", "\"a4\"", "\"c1\"", "nil"]));
}

#[test]
fn all_parts_of_a_node_are_one_write() {
    let mut story = Story::warm_cluster();
    let before = story.node("n1").writes();
    story.client("a").says("MGET a4 a8 a12 a16 b4");
    assert_eq!(story.node("n1").waiting(), 4);
    assert_eq!(story.node("n1").writes() - before, 1);
}

#[test]
fn the_replies_of_the_parts_may_come_in_pieces() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET a4 b4", "DEL a8 b8"]);
    for node in ["n1", "n2"] {
        story.node(node).takes_requests();
        for byte in [list("\"v\"").as_bytes(), b":1\r\n"].concat() {
            story.node(node).sends(&[byte]);
        }
    }
    story.client("a").gets([&*list(["\"v\"", "\"v\""]), ":2"]);
}

#[test]
fn a_null_is_a_null_and_empty_is_empty() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MGET a4 b4 c1");
    story.node("n1").answers(&list("nil"));
    story.node("n2").answers(&list("\"\""));
    story.node("n3").answers(&list("nil"));
    story.client("a").gets(&list(["nil", "\"\"", "nil"]));
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("MGET a4 b4");
    story.node("n1").answers("*1\r\n_\r\n");
    story.node("n2").answers(&list("\"x\""));
    story.client("a").gets("*2\r\n_\r\n$1\r\nx\r\n");
}

#[test]
fn mset_sets_all_pairs_also_those_that_come_twice() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MSET a4 1 b4 2 a4 3 c1 '' {a4}x 4");
    story.node("n1").gets("MSET a4 1 a4 3 {a4}x 4").answers("+OK");
    story.node("n2").gets("MSET b4 2").answers("+OK");
    story.node("n3").gets("MSET c1 ").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn counts_are_added_up() {
    for command in ["DEL", "UNLINK", "EXISTS", "TOUCH"] {
        let mut story = Story::warm_cluster();
        story.client("a").says(&format!("{command} a4 b4 c1 a4 a8"));
        story.node("n1").gets([&*format!("{command} a4 a4"), &*format!("{command} a8")]);
        story.node("n1").answers([":2", ":0"]);
        story.node("n2").gets(&format!("{command} b4")).answers(":1");
        story.node("n3").gets(&format!("{command} c1")).answers(":1");
        story.client("a").gets(":4");
    }
}

#[test]
fn an_error_of_a_part_is_told_and_never_left_out() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["DEL a4 b4 c1", "MGET a4 b4", "MSET a4 1 b4 2"]);
    story.node("n1").answers([":1", &*list("\"v\""), "+OK"]);
    story.node("n2").answers([WRONGTYPE, WRONGTYPE, "-OOM command not allowed"]);
    story.node("n3").answers(":1");
    story.client("a").gets([WRONGTYPE, WRONGTYPE, "-OOM command not allowed"]);
}

#[test]
fn of_several_errors_the_first_by_slot_is_told() {
    let mut story = Story::warm_cluster();
    story.client("a").says("DEL c1 b4 a4");
    story.node("n3").answers("-ERR three");
    story.node("n2").answers("-ERR two");
    story.node("n1").answers("-ERR one");
    story.client("a").gets("-ERR one");
}

#[test]
fn a_value_of_the_wrong_type_inside_a_part_is_its_null() {
    // MGET gives null for what is no string; that is the server's answer, not ours.
    let mut story = Story::warm_cluster();
    story.client("a").says("MGET a4 b4");
    story.node("n1").answers(&list("nil"));
    story.node("n2").answers(&list("\"b\""));
    story.client("a").gets(&list(["nil", "\"b\""]));
}

#[test]
fn a_part_that_answers_something_else_is_an_error_and_not_a_guess() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET a4 b4", "DEL a4 b4"]);
    story.node("n1").answers([&*list(["\"1\"", "\"2\""]), "+OK"]);
    story.node("n2").answers([&*list("\"b\""), ":1"]);
    let error = "-ERR respool: the replies of the nodes do not fit together";
    story.client("a").gets([error, error]).says("PING").gets("+PONG");
}

#[test]
fn a_node_that_is_down_is_named_and_the_others_do_their_part() {
    let mut story = Story::warm_cluster();
    story.after_ms(2_000).crashes("n1");
    story.client("a").says("MSET a4 1 b4 2");
    story.node("n2").gets("MSET b4 2").answers("+OK");
    story.client("a").gets(&lost("n1", "connect: Connection refused"));
}

#[test]
fn keys_of_one_slot_go_as_they_are_and_come_as_they_are() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET a4 {a4}x a4", "DEL a4 a4"]);
    story.node("n1").gets(["MGET a4 {a4}x a4", "DEL a4 a4"]);
    story.node("n1").answers([WRONGTYPE, ":1"]);
    story.client("a").gets([WRONGTYPE, ":1"]);
}

#[test]
fn missing_arguments_are_the_servers_matter() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET", "DEL", "MSET a4", "MSET"]);
    let error = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    story.node("n1").gets(["MGET", "DEL", "MSET a4", "MSET"]);
    let errors = [error("mget"), error("del"), error("mset"), error("mset")];
    let errors = errors.each_ref().map(String::as_str);
    story.node("n1").answers(errors);
    story.client("a").gets(errors);
}

#[test]
fn a_last_pair_without_a_value_sets_nothing_at_all() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MSET a4 1 b4");
    story.client("a").gets("-ERR wrong number of arguments for 'mset' command");
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets_nothing();
    }
}

#[test]
fn split_requests_and_plain_ones_keep_their_order() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "MGET a4 b4", "SET b4 2", "MGET a4 b4", "PING"]);
    story.node("n1").gets(["SET a4 1", "MGET a4", "MGET a4"]);
    story.node("n2").gets(["MGET b4", "SET b4 2", "MGET b4"]);
    story.node("n2").answers([&*list("nil"), "+OK", &*list("\"2\"")]);
    story.client("a").gets_nothing();
    story.node("n1").answers(["+OK", &*list("\"1\""), &*list("\"1\"")]);
    let (first, second) = (list(["\"1\"", "nil"]), list(["\"1\"", "\"2\""]));
    story.client("a").gets(["+OK", &*first, "+OK", &*second, "+PONG"]);
}

#[test]
fn a_hundred_keys_over_three_nodes_and_many_slots() {
    let mut story = Story::warm_cluster();
    let keys: Vec<String> = (0..100).map(|n| format!("key{n}")).collect();
    story.client("a").says(&format!("MGET {}", keys.join(" ")));
    for node in ["n1", "n2", "n3"] {
        while let Some(line) = story.node(node).takes_one() {
            let values: Vec<String> =
                line.split(' ').skip(1).map(|key| format!("\"of {key}\"")).collect();
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            story.node(node).answers(&list(values));
        }
    }
    let wanted: Vec<String> = keys.iter().map(|key| format!("\"of {key}\"")).collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    story.client("a").gets(&list(wanted));
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_merge_leaves_nothing_behind() {
    let mut story = Story::warm_cluster();
    story.client("b").says("MGET a4 b4 c1");
    story.node("n1").gets("MGET a4").answers(&list("\"a\""));
    story.client("b").dies();
    story.node("n2").gets("MGET b4").answers(&list("\"b\""));
    story.client("c").says("MGET c1 c5");
    story.node("n3").gets(["MGET c1", "MGET c1", "MGET c5"]);
    story.node("n3").answers([&*list("\"b\""), &*list("\"1\""), &*list("\"5\"")]);
    story.client("c").gets(&list(["\"1\"", "\"5\""])).dies();
    story.client("a").dies();
    assert!(story.engine.is_quiet());
}

#[test]
fn a_reply_of_large_parts_is_put_together_within_the_memory_of_all() {
    let mut story = Story::warm_cluster_with(|settings| {
        settings.limits.client_out_max_bytes = 100_000;
        settings.limits.memory_max_bytes = 4 << 20;
    });
    let value = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
    let (one, other) = (value(150_000), value(200_000));
    story.client("b").says("MGET a4 b4");
    let reply = wire(&list(&*one));
    story.node("n1").gets("MGET a4").sends(&reply[..140_000]).sends(&reply[140_000..]);
    story.node("n2").gets("MGET b4").answers(&list(&*other));
    story.client("b").gets(&list([&*one, &*other]));
    // Beyond it the client goes that causes most.
    story.client("b").says("MGET a4 b4");
    story.client("a").says("GET a8");
    let reply = wire(&list(&*value(6 << 20)));
    story.node("n1").gets(["MGET a4", "GET a8"]).sends(&reply[..5 << 20]);
    story.client("b").is_closed();
    story.node("n1").sends(&reply[5 << 20..]).answers("\"8\"");
    story.client("a").gets("\"8\"");
    story.node("n2").gets("MGET b4").answers(&list("nil"));
}
