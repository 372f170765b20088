//! Nodes learn of a change one after the other: who is asked for the table, and what becomes of one that is behind.

use crate::words::Story;
use crate::words::cluster::lost;
use engine::news::Audience;

/// n1 has a copy, n4, and n2 has two.
const COPIES: &str = "0-5460 n1 n4, 5461-10922 n2 n5 n6, 10923-16383 n3";
/// n4 took over.
const TAKEN_OVER: &str = "0-5460 n4 n1, 5461-10922 n2 n5 n6, 10923-16383 n3";

/// The table was known for a while, and nobody has asked for it since.
fn with_copies() -> Story {
    let mut story = Story::cluster();
    story.cluster_is(COPIES).warm_up();
    story.after_ms(600).asked_for_the_table();
    story
}

#[test]
fn whoever_a_redirect_names_is_asked_first() {
    let mut story = with_copies();
    story.node_tells("n4", TAKEN_OVER);
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").moved("a4", "n4");
    assert_eq!(story.asked_for_the_table(), ["n4"]);
    story.node("n4").gets("SET a4 1").answers("+OK");
    // The other slots went with this one.
    story.client("a").gets("+OK").says("SET a8 1");
    story.node("n4").gets("SET a8 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn the_copy_of_a_primary_that_is_lost_is_asked_first() {
    let mut story = with_copies();
    story.node_tells("n4", TAKEN_OVER);
    story.crashes("n1").after_ms(1);
    assert_eq!(story.asked_for_the_table(), ["n4"]);
    story.client("a").says("SET a4 1");
    story.node("n4").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK");
}

// A copy may be cut off from the cluster, and another one may have taken over.
#[test]
fn its_copies_and_all_others_take_turns() {
    let mut story = with_copies();
    story.crashes("n2");
    for _ in 0..100 {
        story.client("a").says("GET b4");
        story.client("a").gets(&*lost("n2", "connect: Connection refused"));
        story.after_ms(100);
    }
    let asked = story.asked_for_the_table();
    let of = |node: &str| asked.iter().filter(|name| *name == node).count();
    let copies = of("n5") + of("n6");
    assert!(copies * 2 >= asked.len(), "{asked:?}");
    for node in ["n1", "n3", "n4", "n5", "n6"] {
        assert!(of(node) > 0, "{node} is never asked: {asked:?}");
    }
}

#[test]
fn a_table_that_is_behind_gives_nothing_back_to_a_node_that_is_gone() {
    let mut story = with_copies();
    story.node_tells("n4", TAKEN_OVER);
    story.crashes("n1").after_ms(1);
    assert_eq!(story.asked_for_the_table(), ["n4"]);
    // Each of the others is asked, and none has heard of it.
    for _ in 0..12 {
        story.client("a").says("SET b4 1");
        story.node("n2").gets("SET b4 1").moved("b4", "n3");
        story.node("n3").gets("SET b4 1").answers("+OK");
        story.client("a").gets("+OK").says("SET a4 1");
        story.node("n4").gets("SET a4 1").answers("+OK");
        story.client("a").gets("+OK");
        story.after_ms(600);
    }
    assert!(story.asked_for_the_table().iter().any(|node| node != "n4"));
}

#[test]
fn a_node_that_has_given_its_slots_away_says_so_itself() {
    let mut story = with_copies();
    story.node_tells("n4", TAKEN_OVER);
    story.crashes("n1").after_ms(1);
    story.client("a").says("SET a4 1");
    story.node("n4").gets("SET a4 1").answers("+OK");
    // n1 has come back and taken over, and dies again.
    story.node_tells("n4", COPIES);
    story.client("a").gets("+OK").says("SET a4 2");
    story.node("n4").gets("SET a4 2").moved("a4", "n1");
    story.after_ms(5_000).client("a").gets(&*lost("n1", "connect: Connection refused"));
    story.is_up("n1").after_ms(2_000).client("a").says("SET a8 3");
    story.node("n4").gets("SET a8 3").moved("a8", "n1");
    story.node("n1").gets("SET a8 3").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn the_first_worker_asks_whom_another_one_heard_of() {
    let (mut first, mut second) = super::workers::two();
    first.node_tells("n1", "0-16383 n9");
    first.after_ms(600).asked_for_the_table();
    second.client("a").says("SET a4 1");
    second.node("n1").gets("SET a4 1").moved("a4", "n9");
    let told = second.tells();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, Audience::First);
    first.hears(told[0].1.clone());
    // n9 may be anything: it is n1 that is asked.
    assert_eq!((first.asked_for_the_table(), first.connects_to("n9")), (vec!["n1".into()], 0));
    first.client("a").says("GET b4");
    first.node("n9").gets("GET b4");
}
