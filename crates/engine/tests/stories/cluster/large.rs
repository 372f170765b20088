//! Large requests in front of several nodes.

use crate::words::cluster::{list, lost};
use crate::words::{Story, large_set};

/// Over the bound from which on a request is streamed.
const LARGE: usize = 400_000;

#[test]
fn a_large_request_is_streamed_to_the_node_of_its_key() {
    let mut story = Story::warm_cluster();
    let bytes = large_set("b4", LARGE);
    story.client("a").sends(&bytes[..300_000]);
    assert_eq!(story.connects_to("n2"), 2, "over a connection of its own");
    assert!(story.node("n2").bytes_of_unfinished() > 200_000, "before it is whole");
    story.client("a").sends(&bytes[300_000..]);
    assert!(story.node("n2").takes_one().is_some_and(|line| line.starts_with("SET b4 xxx")));
    story.node("n2").answers("+OK");
    story.client("a").gets("+OK").says("GET b4");
    story.node_conn("n2", 1).gets("GET b4");
}

#[test]
fn requests_before_and_behind_a_large_one_keep_their_order() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SET b4 1").sends(&large_set("b4", LARGE)).says(["GET b4", "GET a4"]);
    story.node("n1").gets_nothing();
    story.node("n2").gets("SET b4 1").gets_nothing().answers("+OK");
    story.client("a").gets("+OK");
    // It waited until it was whole, so it goes as any other, and those behind it with it.
    let large = story.node("n2").takes_one().expect("the large one");
    assert!(large.starts_with("SET b4 xxx"), "{large}");
    story.node("n2").gets("GET b4").answers(["+OK", "\"b\""]);
    story.node("n1").gets("GET a4").answers("\"a\"");
    story.client("a").gets(["+OK", "\"b\"", "\"a\""]);
}

#[test]
fn what_comes_behind_a_streamed_request_waits_for_its_reply() {
    let mut story = Story::warm_cluster();
    let bytes = large_set("b4", LARGE);
    story.client("a").sends(&bytes[..300_000]).sends(&bytes[300_000..]);
    story.client("a").says(["GET b4", "GET a4"]);
    story.node_conn("n2", 1).gets_nothing();
    story.node("n1").gets_nothing();
    assert_eq!(story.node_conn("n2", 2).takes_requests(), 1);
    story.node_conn("n2", 2).answers("+OK");
    story.node_conn("n2", 1).gets("GET b4").answers("\"b\"");
    story.node("n1").gets("GET a4").answers("\"a\"");
    story.client("a").gets(["+OK", "\"b\"", "\"a\""]);
}

#[test]
fn an_idle_connection_for_large_requests_serves_only_its_own_node() {
    let mut story = Story::warm_cluster();
    for (node, key) in [("n1", "a4"), ("n2", "b4"), ("n1", "a8"), ("n2", "b8")] {
        story.client("a").sends(&large_set(key, LARGE));
        assert_eq!(story.node_conn(node, 2).takes_requests(), 1);
        story.node_conn(node, 2).answers("+OK");
        story.client("a").gets("+OK");
    }
    assert_eq!((story.connects_to("n1"), story.connects_to("n2")), (2, 2));
}

#[test]
fn a_large_request_for_a_slot_that_moved_never_shows_it_and_the_next_one_goes_right() {
    let mut story = Story::warm_cluster();
    story.client("a").sends(&large_set("b4", LARGE));
    story.node_conn("n2", 2).takes_requests();
    story.node_conn("n2", 2).moved("b4", "n1");
    let got = story.client("a").takes_text();
    // Its bytes are gone, so it cannot be sent on; but it was not done, and the client learns no addresses.
    assert!(got.starts_with("-ERR respool: "), "{got}");
    story.client("a").sends(&large_set("b4", LARGE));
    assert_eq!(story.node("n1").takes_requests(), 1);
    story.node("n1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_large_request_waits_for_a_failover_as_a_small_one_does() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 5_000);
    story.after_ms(2_000).crashes("n2");
    story.client("a").sends(&large_set("b4", LARGE)).gets_nothing();
    story.cluster_is("0-10922 n1, 10923-16383 n3").after_ms(1_000);
    assert_eq!(story.node("n1").takes_requests(), 1);
    story.node("n1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_large_request_to_a_node_that_is_down_is_answered_and_skipped() {
    let mut story = Story::warm_cluster();
    story.after_ms(2_000).crashes("n2");
    story.client("a").sends(&large_set("b4", LARGE)).says("GET a4");
    story.client("a").gets(&lost("n2", "connect: Connection refused"));
    story.node("n1").gets("GET a4").answers("\"a\"");
    story.client("a").gets("\"a\"");
}

#[test]
fn a_large_mset_is_split_when_it_is_whole() {
    let mut story = Story::warm_cluster();
    let value = "x".repeat(LARGE);
    let bytes = crate::words::request(&format!("MSET a4 {value} b4 2 c1 {value}"));
    for part in bytes.chunks(100_000) {
        story.node("n1").gets_nothing();
        story.node("n3").gets_nothing();
        story.client("a").sends(part);
    }
    for node in ["n1", "n2", "n3"] {
        let line = story.node(node).takes_one().expect("its part");
        assert!(line.starts_with("MSET "), "{line}");
        story.node(node).answers("+OK");
    }
    story.client("a").gets("+OK").says("MGET a4 b4");
    story.node("n1").answers(&list("nil"));
    story.node("n2").answers(&list("nil"));
    story.client("a").gets(&list(["nil", "nil"]));
}

#[test]
fn what_is_too_large_to_be_split_is_refused_and_skipped() {
    let mut story = Story::warm_cluster();
    // The header tells the size; most of it never has to come.
    story.client("a").sends(b"*5\r\n$4\r\nMSET\r\n$2\r\na4\r\n$67108864\r\n");
    story.client("a").gets("-ERR respool: this request is too large to be split between nodes");
    story.client("a").sends(&vec![b'x'; 67_108_864]).sends(b"\r\n$2\r\nb4\r\n$1\r\n1\r\n");
    story.client("a").says("PING").gets("+PONG");
}

#[test]
fn a_large_reply_in_a_pipeline_over_nodes_waits_for_its_turn_within_its_bound() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "GET b4"]);
    let large = [&b"$200000\r\n"[..], &[b'y'; 200_000], b"\r\n"].concat();
    story.node("n2").gets("GET b4").sends(&large);
    story.client("a").gets_nothing();
    story.node("n1").gets("GET a4").answers("\"a\"");
    let got = story.client("a").takes();
    assert_eq!(got.len(), 7 + large.len());
    assert!(got.starts_with(b"$1\r\na\r\n$200000\r\nyyy"));
}

#[test]
fn a_value_of_any_size_is_cut_through_when_it_is_its_turn() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "GET b4"]);
    let half = [&b"$200000\r\n"[..], &[b'y'; 100_000]].concat();
    story.node("n1").gets("GET a4").sends(&half);
    assert_eq!(story.client("a").takes().len(), half.len());
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.node("n1").sends(&[&[b'y'; 100_000][..], b"\r\n"].concat());
    let got = story.client("a").takes();
    assert!(got.ends_with(b"yyy\r\n$1\r\nb\r\n"));
}
