//! Shards that fail are left out while they do, where that is configured.

use crate::words::Story;
use crate::words::cluster::lost;
use engine::Notice;
use engine::settings::Eject;

const EJECT: Eject = Eject { failures: 3, window_ms: 10_000, probe_ms: 1_000 };

/// Three single servers; `d` lies on n1, `a` on n2, `l` on n3.
fn shards() -> Story {
    let mut story = Story::shards_with(|shards| shards.eject = Some(EJECT));
    story.client("a").says(["GET d", "GET a", "GET l"]);
    for (node, key) in [("n1", "d"), ("n2", "a"), ("n3", "l")] {
        story.node(node).gets(&*format!("GET {key}")).answers("nil").gets_nothing();
    }
    story.client("a").gets(["nil", "nil", "nil"]);
    story.notices.clear();
    story
}

/// What the operator was told of shards since this was last looked at.
fn told(story: &mut Story) -> Vec<(String, bool)> {
    let notices = std::mem::take(&mut story.notices).into_iter();
    notices
        .filter_map(|notice| match notice {
            Notice::Shard { name, out } => Some((name, out)),
            _ => None,
        })
        .collect()
}

/// Who gets `GET d` now.
fn owner_of_d(story: &mut Story) -> Option<&'static str> {
    story.client("probe").says("GET d");
    for node in ["n1", "n2", "n3"] {
        if story.open_conns_to(node) > 0
            && let Some(line) = story.node(node).takes_one()
        {
            assert_eq!(line, "GET d");
            story.node(node).answers("nil");
            story.client("probe").gets("nil");
            return Some(node);
        }
    }
    story.client("probe").takes();
    None
}

#[test]
fn a_dead_shards_keys_go_to_the_others_until_a_probe_is_answered() {
    let mut story = shards();
    story.crashes("n1");
    assert_eq!(owner_of_d(&mut story), None, "one failure is not enough");
    story.after_ms(500);
    assert_eq!(told(&mut story), [("n1".to_string(), true)]);
    let heir = owner_of_d(&mut story).expect("another one has its keys");
    assert_ne!(heir, "n1");
    story.is_up("n1").after_ms(1_100);
    story.node("n1").gets("PING");
    assert_eq!(owner_of_d(&mut story), Some(heir), "a greeting is no proof");
    story.node("n1").answers("+PONG");
    assert_eq!(told(&mut story), [("n1".to_string(), false)]);
    assert_eq!(owner_of_d(&mut story), Some("n1"));
}

#[test]
fn a_server_that_loads_answers_no_probe() {
    let mut story = shards();
    story.crashes("n1").after_ms(500);
    story.is_up("n1").after_ms(1_100);
    story.node("n1").gets("PING").answers("-LOADING Redis is loading the dataset in memory");
    assert_ne!(owner_of_d(&mut story), Some("n1"));
    story.after_ms(1_000).node("n1").gets("PING").answers("+PONG");
    assert_eq!(owner_of_d(&mut story), Some("n1"));
}

#[test]
fn idle_closes_and_old_failures_do_not_add_up() {
    let mut story = shards();
    for _ in 0..20 {
        story.node("n1").dies("closed the connection");
        story.after_ms(2_000);
        story.client("a").says("GET d");
        story.node("n1").gets("GET d").answers("nil");
        story.client("a").gets("nil");
    }
    // Two within the window, again and again, with somebody waiting.
    for _ in 0..5 {
        for _ in 0..2 {
            story.client("a").says("SET d 1");
            story.node("n1").gets("SET d 1").dies("connection reset");
            story.client("a").gets(&*lost("n1", "connection reset"));
            story.after_ms(2_000);
        }
        story.after_ms(10_000);
    }
    assert_eq!(told(&mut story), []);
    assert_eq!(owner_of_d(&mut story), Some("n1"));
}

#[test]
fn a_server_that_hangs_is_left_out_as_well() {
    let mut story = shards();
    for _ in 0..3 {
        story.client("a").says("GET d");
        story.node("n1").gets("GET d");
        // The timeout, with a new connection behind it each time.
        story.after_ms(10_000).client("a").takes();
        story.engine.check_invariants();
    }
    assert_eq!(told(&mut story), [], "three within thirty seconds are not three within ten");
    story.lets_connects_hang("n1");
    story.client("a").says("GET d");
    story.node("n1").gets("GET d");
    story.after_ms(13_000);
    assert_eq!(told(&mut story), [("n1".to_string(), true)]);
}

#[test]
fn without_the_option_keys_stay_where_they_are() {
    let mut story = Story::warm_shards();
    story.crashes("n1").after_ms(10_000);
    assert_eq!(owner_of_d(&mut story), None);
}

#[test]
fn with_all_shards_dead_requests_get_errors_and_nothing_moves() {
    let mut story = shards();
    story.crashes("n1").crashes("n2").crashes("n3").after_ms(1_000);
    assert_eq!(told(&mut story).len(), 3);
    let got = story.client("a").says("GET d").takes_text();
    assert!(got.contains("upstream n1:7000"), "{got}");
    story.is_up("n2").after_ms(2_000);
    story.node("n2").gets("PING").answers("+PONG");
    assert_eq!(owner_of_d(&mut story), Some("n2"));
}

#[test]
fn one_worker_counts_for_all_and_they_leave_the_same_out() {
    let with = |worker: u32| {
        let mut settings = engine::Settings::default();
        settings.shards = Story::shards_with(|shards| shards.eject = Some(EJECT))
            .engine
            .settings()
            .shards
            .clone();
        (settings.worker, settings.workers) = (worker, 2);
        Story::with(settings)
    };
    let (mut first, mut second) = (with(0), with(1));
    second.is_down("n1").client("a").says("GET d").takes();
    second.after_ms(500);
    let failures = second.tells();
    assert!(failures.len() >= 3, "{failures:?}");
    assert_ne!(owner_of_d(&mut second), Some("n2"));
    for (_, news) in failures {
        first.hears(news);
    }
    for (_, news) in first.tells() {
        second.hears(news);
    }
    assert_eq!(told(&mut first), [("n1".to_string(), true)]);
    assert_eq!(told(&mut second), [("n1".to_string(), true)]);
    assert_eq!(owner_of_d(&mut first), owner_of_d(&mut second));
}
