//! Error texts that scripts, functions and commands of modules make up: they are data, whatever they look like.

use crate::words::Story;
use crate::words::cluster::{ask, moved};

/// Texts with which a server would send a request on.
fn texts() -> Vec<String> {
    let words = ["TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN", "NOSCRIPT"];
    let mut texts: Vec<String> = words.iter().map(|word| format!("-{word} x")).collect();
    for (key, to) in [("a4", "n9"), ("a4", "n2"), ("a4", "n1"), ("b4", "n2"), ("b4", "n9")] {
        texts.extend([moved(key, to), ask(key, to)]);
    }
    let odd = ["-MOVED x", "-ASK ", "-MOVED 99999 n9:1", "-MOVED 3788 :0", "-ASK 3788 :7000"];
    texts.extend(odd.map(String::from));
    texts
}

const CALLS: [&str; 5] =
    ["EVAL x 1 a4", "EVALSHA 0000 1 a4", "FCALL f 1 a4", "EVAL_RO x 1 a4", "FCALL_RO f 1 a4"];

/// A cluster that was quiet for a while, so that the table may be asked for at once.
fn quiet() -> Story {
    let mut story = Story::warm_cluster();
    story.after_ms(600).asked_for_the_table();
    story
}

#[test]
fn what_a_script_returns_is_its_clients_and_done_once() {
    for call in CALLS {
        for text in texts() {
            let mut story = quiet();
            story.client("a").says(call);
            story.node("n1").gets(call).answers(&*text);
            story.after_ms(1_600).client("a").gets(&*text);
            for node in ["n1", "n2", "n3"] {
                story.node(node).gets_nothing();
            }
            assert_eq!(story.connects_to("n9"), 0, "{call} {text}");
            assert!(story.asked_for_the_table().iter().all(|node| node != "n9"));
            // Others are where they were.
            story.client("b").says(["GET a4", "SET b4 1"]);
            story.node("n1").gets("GET a4").answers("nil");
            story.node("n2").gets("SET b4 1").answers("+OK");
            story.client("b").gets(["nil", "+OK"]);
            assert_eq!(story.engine.stats().redirects, 0, "{call} {text}");
        }
    }
}

#[test]
fn scripts_do_not_make_the_proxy_ask_for_tables_all_the_time() {
    let mut story = quiet();
    let begin = story.now;
    for _ in 0..40 {
        story.client("a").says("EVAL x 1 a4");
        story.node("n1").gets("EVAL x 1 a4").moved("a4", "n9");
        while story.client("a").takes_text().is_empty() {
            story.after_ms(10);
        }
    }
    let seconds = story.now.since(begin).div_ceil(1_000_000) as usize;
    assert!(story.asked_for_the_table().len() <= 2 * seconds + 1);
}

#[test]
fn a_script_whose_slot_moved_goes_to_its_new_owner() {
    let mut story = quiet();
    story.cluster_is("0-5460 n9, 5461-10922 n2, 10923-16383 n3").client("a").says("EVAL x 1 a4");
    story.node("n1").gets("EVAL x 1 a4").moved("a4", "n9");
    assert_eq!(story.asked_for_the_table(), ["n1"]);
    story.node("n9").gets("EVAL x 1 a4").answers(":1");
    story.client("a").gets(":1");
}

#[test]
fn a_script_follows_the_table_and_not_its_text() {
    for text in [moved("a4", "n3"), ask("a4", "n3"), "-READONLY x".into(), "-LOADING x".into()] {
        let mut story = quiet();
        story.cluster_is("0-5460 n2, 5461-10922 n2, 10923-16383 n3");
        story.client("a").says("EVAL x 1 a4");
        story.node("n1").gets("EVAL x 1 a4").answers(&*text);
        story.node("n2").gets("EVAL x 1 a4").answers(&*text);
        story.node("n3").gets_nothing();
        // There it is where it belongs.
        story.after_ms(1_600).client("a").gets(&*text);
        story.node("n2").gets_nothing();
    }
}

#[test]
fn a_script_is_asked_for_elsewhere_only_if_its_node_says_that_the_slot_is_on_its_way() {
    let mut story = quiet();
    story.gives_slot_of("n1", "a4").client("a").says("EVAL x 1 a4");
    story.node("n1").gets("EVAL x 1 a4").ask("a4", "n2");
    story.node("n2").gets(["ASKING", "EVAL x 1 a4"]).answers(["+OK", &*ask("a4", "n3")]);
    story.client("a").gets(&*ask("a4", "n3"));
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets_nothing();
    }
}

#[test]
fn behind_a_silent_table_the_reply_is_the_clients_in_time() {
    let mut story = quiet();
    story.holds_the_table().client("a").says(["EVAL x 1 a4", "GET a4"]);
    story.node("n1").gets(["EVAL x 1 a4", "GET a4"]).moved("a4", "n9");
    story.node("n1").answers("\"v\"");
    story.client("a").gets_nothing();
    let got = story.after_ms(1_600).client("a").takes_text();
    assert!(got.starts_with("-MOVED "), "{got}");
    assert_eq!(story.connects_to("n9"), 0);
}

#[test]
fn what_a_script_says_of_a_watched_key_or_a_transaction_moves_no_slot() {
    let mut story = quiet();
    story.client("a").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4").answers("+OK");
    story.client("a").gets("+OK").says("EVAL x 1 a4");
    story.node_conn("n1", 2).gets("EVAL x 1 a4").moved("a4", "n2");
    story.client("a").gets(&*moved("a4", "n2"));
    story.client("b").says("GET a4");
    story.node_conn("n1", 1).gets("GET a4");
}

#[test]
fn a_script_that_claims_to_be_busy_keeps_nobody_from_the_pong_of_the_proxy() {
    let mut story = Story::new();
    story.client("a").says("EVAL x 0");
    story.server().gets("EVAL x 0").answers("-BUSY Redis is busy running a script.");
    story.client("a").gets("-BUSY Redis is busy running a script.");
    story.after_ms(1).client("b").says("PING").gets("+PONG");
}
