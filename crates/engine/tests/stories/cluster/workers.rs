//! Several workers with one topology: the first one asks, the others hear.

use crate::words::Story;
use engine::news::{Audience, News};

/// The first of two workers, and the second, which knows what the first was told.
pub(super) fn two() -> (Story, Story) {
    let mut first = Story::cluster_with(|settings| settings.workers = 2);
    let mut second = Story::cluster_with(|settings| {
        (settings.workers, settings.worker) = (2, 1);
    });
    first.engine.warm_up(first.now);
    second.engine.warm_up(second.now);
    first.after_ms(0);
    second.after_ms(0);
    pass(&mut first, &mut second);
    (first, second)
}

/// What the first tells the others reaches the second; returns how many pieces of news.
fn pass(first: &mut Story, second: &mut Story) -> usize {
    let news: Vec<(Audience, News)> = first.tells();
    for (audience, news) in &news {
        assert_eq!(*audience, Audience::Others);
        second.hears(news.clone());
    }
    news.len()
}

#[test]
fn the_second_worker_routes_by_what_the_first_was_told() {
    let (first, mut second) = two();
    drop(first);
    assert!(second.asked_for_the_table().is_empty(), "the second asks for itself");
    second.client("a").says("GET b4");
    second.node("n2").gets("GET b4").answers("\"v\"");
    second.client("a").gets("\"v\"");
    second.after_ms(60_000);
    assert!(second.asked_for_the_table().is_empty(), "the second asks for itself");
}

#[test]
fn a_sign_that_the_second_sees_makes_the_first_ask_once() {
    let (mut first, mut second) = two();
    first.asked_for_the_table();
    first.cluster_is("0-16383 n1");
    for _ in 0..50 {
        second.client("a").says("GET b4");
        second.node("n2").gets("GET b4").moved("b4", "n3");
        second.node("n3").gets("GET b4").moved("b4", "n2");
        second.node("n2").gets("GET b4").answers("nil");
        second.client("a").gets("nil");
    }
    let told = second.tells();
    assert_eq!(told.len(), 1, "a wish is passed on once until it is answered");
    assert_eq!(told[0].0, Audience::First);
    first.after_ms(500);
    first.hears(told[0].1.clone());
    assert_eq!(first.asked_for_the_table().len(), 1);
    assert!(pass(&mut first, &mut second) > 0);
    second.client("a").says("GET b4");
    second.node("n1").gets("GET b4");
}

#[test]
fn while_nobody_answers_the_second_knows_why() {
    let mut first = Story::cluster_with(|settings| settings.workers = 2);
    for node in ["n1", "n2", "n3"] {
        first.is_down(node);
    }
    let mut second = Story::cluster_with(|settings| {
        (settings.workers, settings.worker) = (2, 1);
    });
    second.client("a").says("GET a4").gets_nothing();
    first.engine.warm_up(first.now);
    first.after_ms(100);
    assert!(pass(&mut first, &mut second) > 0);
    second.after_ms(2_000);
    let got = second.client("a").takes_text();
    assert!(got.starts_with("-CLUSTERDOWN") && got.contains("Connection refused"), "{got}");
}

#[test]
fn a_worker_alone_tells_nobody() {
    let mut story = Story::warm_cluster();
    story.after_ms(60_000);
    assert!(story.tells().is_empty());
}

// `PUBLISH` behind the confirmation, over another worker, answered 0 in some of a hundred cases.
#[test]
fn a_listener_counts_at_other_workers_before_it_is_confirmed() {
    let (mut first, mut second) = two();
    second.tells();
    second.client("b").says("PSUBSCRIBE news*").gets_nothing();
    let counted = |first: &mut Story, second: &mut Story| {
        pass(second, first);
        first.client("a").says("PUBLISH news1 x");
        let conns = first.connects_made();
        let is_it =
            |conn: &usize| first.conn(*conn).takes_one().as_deref() == Some("PUBLISH news1 x");
        let conn = (1..=conns).find(is_it).expect("a node gets it");
        first.conn(conn).answers(":0");
        first.client("a").takes_text()
    };
    assert_eq!(counted(&mut first, &mut second), ":1\r\n");
    // The servers did not confirm the pattern.
    second.after_ms(60_000);
    assert!(second.client("b").takes_text().starts_with("-ERR respool: "));
    assert_eq!(counted(&mut first, &mut second), ":0\r\n");
}
