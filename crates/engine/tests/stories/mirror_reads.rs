//! Shadow reads: what clients read is asked of mirrors, too, and compared.

use crate::mirror::{mirror, story_with};
use crate::words::Story;
use engine::fleet::{Answer, Question, Questioner, ReplyTo};
use engine::mirror::{ShadowCounts, ShadowReport};
use engine::settings::MirrorSettings;
use engine::tenancy::TenantId;

fn shadowed() -> MirrorSettings {
    MirrorSettings { shadow_percent: 100, ..mirror("b") }
}

/// One mirror, "b", that is asked everything. Its connection is the first, the primary's the second.
fn story() -> Story {
    story_with(vec![shadowed()])
}

/// Equal, different, racing, void, large, dropped.
fn counts(story: &Story) -> [u64; 6] {
    let shadow = story.engine.report(story.now).mirrors[0].shadow.expect("reads are compared");
    let ShadowCounts { equal, different, racing, void, large, dropped } = shadow;
    [equal, different, racing, void, large, dropped]
}

fn asked(story: &mut Story, question: &Question) -> Option<Answer> {
    let to =
        ReplyTo { who: Questioner::Worker(0), tenant: TenantId::DEFAULT, login: None, ticket: 1 };
    story.engine.answer(story.now, to, question)
}

fn report(story: &mut Story) -> ShadowReport {
    match asked(story, &Question::Shadow) {
        Some(Answer::Shadow(mut reports)) => reports.remove(0),
        other => panic!("no report: {other:?}"),
    }
}

/// Both sides are asked at once how long the key lives, and say this.
fn lives(story: &mut Story, key: &str, primary: &str, at_mirror: &str) {
    story.after_ms(0);
    let question = format!("PTTL {key}");
    story.conn(2).gets(&*question).answers(primary);
    story.conn(1).gets(&*question).answers(at_mirror);
}

#[test]
fn a_read_goes_to_the_mirror_behind_the_writes_before_it_and_nobody_waits() {
    let mut story = story();
    story.client("a").says(["SET k 1", "GET k"]);
    story.conn(2).gets(["SET k 1", "GET k"]).answers(["+OK"]);
    story.client("a").gets("+OK");
    story.conn(1).gets("SET k 1").gets_nothing();
    story.conn(2).answers("\"1\"");
    story.client("a").gets("\"1\"");
    // The write was under way when the read was sent.
    story.conn(1).gets_nothing().answers("+OK");
    assert_eq!(counts(&story), [0, 0, 1, 0, 0, 0]);
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    story.client("a").gets("\"1\"");
    story.conn(1).gets("GET k").answers("\"1\"");
    assert_eq!(counts(&story), [1, 0, 1, 0, 0, 0]);
}

#[test]
fn what_differs_three_times_is_different_and_told() {
    let mut story = story_with(vec![MirrorSettings { shadow_samples: true, ..shadowed() }]);
    story.client("a").says("GET user:1");
    story.conn(2).gets("GET user:1").answers("\"x\"");
    story.client("a").gets("\"x\"");
    story.conn(1).gets("GET user:1").answers("\"y\"");
    for _ in 0..2 {
        assert_eq!(counts(&story), [0; 6]);
        story.after_ms(499);
        story.conn(2).gets_nothing();
        story.after_ms(1);
        // Both are asked again; no client hears of it.
        story.conn(2).gets("GET user:1").answers("\"x\"");
        story.conn(1).gets("GET user:1").answers("\"y\"");
    }
    assert_eq!(counts(&story), [0; 6]);
    lives(&mut story, "user:1", ":-1", ":-1");
    assert_eq!(counts(&story), [0, 1, 0, 0, 0, 0]);
    story.after_ms(2_000);
    story.conn(2).gets_nothing();
    story.client("a").gets_nothing();
    let report = report(&mut story);
    assert_eq!((report.mirror.as_str(), report.commands[0].name.as_str()), ("b", "get"));
    assert_eq!(
        (report.prefixes[0].name.as_str(), report.prefixes[0].counts.different),
        ("user", 1)
    );
    assert!(
        report.prefixes[0].first.is_some() && report.prefixes[0].first == report.prefixes[0].last
    );
    let sample = &report.samples[0];
    assert_eq!((sample.command, sample.key.text().as_str()), ("get", "user:1"));
    let replies = sample.replies.as_ref().expect("values are shown");
    assert_eq!((&replies[0][..], &replies[1][..]), (&b"$1\r\nx\r\n"[..], &b"$1\r\ny\r\n"[..]));
    asked(&mut story, &Question::ShadowReset);
    assert_eq!(counts(&story), [0; 6]);
}

#[test]
fn values_are_not_kept_unless_they_are_wanted() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"secret\"");
    story.conn(1).gets("GET k").answers("nil");
    for _ in 0..2 {
        story.after_ms(500);
        story.conn(2).gets("GET k").answers("\"secret\"");
        story.conn(1).gets("GET k").answers("nil");
    }
    lives(&mut story, "k", ":-1", ":-2");
    let report = report(&mut story);
    assert_eq!((report.counts.different, report.samples[0].replies.as_ref()), (1, None));
    assert!(!format!("{report:?}").contains("secret"));
}

#[test]
fn a_difference_that_was_but_a_moment_is_none() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    // It ran out at the mirror a moment later.
    story.conn(1).gets("GET k").answers("nil");
    story.after_ms(500);
    story.conn(2).gets("GET k").answers("nil");
    story.conn(1).gets("GET k").answers("nil");
    assert_eq!(counts(&story), [1, 0, 0, 0, 0, 0]);
}

/// A read that differs at each of its three looks.
fn differs_thrice(story: &mut Story, read: &str, primary: &str, at_mirror: &str) {
    story.client("a").says(read);
    story.conn(2).gets(read).answers(primary);
    story.client("a").gets(primary);
    story.conn(1).gets(read).answers(at_mirror);
    for _ in 0..2 {
        story.after_ms(500);
        story.conn(2).gets(read).answers(primary);
        story.conn(1).gets(read).answers(at_mirror);
    }
}

#[test]
fn a_key_that_runs_out_at_one_side_first_is_no_difference() {
    let mut story = story();
    differs_thrice(&mut story, "GET k", "nil", "\"1\"");
    lives(&mut story, "k", ":-2", ":12");
    assert_eq!(counts(&story), [0, 0, 1, 0, 0, 0]);
    // Both have it no more by now.
    differs_thrice(&mut story, "PTTL k", ":5", ":-2");
    lives(&mut story, "k", ":-2", ":-2");
    assert_eq!(counts(&story), [0, 0, 2, 0, 0, 0]);
    // A write of it is under way.
    differs_thrice(&mut story, "GET k", "nil", "\"1\"");
    story.client("b").says("SET k 2");
    story.conn(2).gets(["PTTL k", "SET k 2"]).answers([":-2", "+OK"]);
    story.conn(1).gets("SET k 2").answers("+OK").gets_nothing();
    assert_eq!(counts(&story), [0, 0, 3, 0, 0, 0]);
}

#[test]
fn a_key_that_lives_on_at_one_side_is_a_difference() {
    let mut story = story();
    differs_thrice(&mut story, "GET k", "nil", "\"1\"");
    lives(&mut story, "k", ":-2", ":60000");
    assert_eq!(counts(&story), [0, 1, 0, 0, 0, 0]);
    // The servers do not tell.
    differs_thrice(&mut story, "GET k", "nil", "\"1\"");
    lives(&mut story, "k", "-NOPERM no permission", "-NOPERM no permission");
    assert_eq!(counts(&story), [0, 2, 0, 0, 0, 0]);
}

#[test]
fn each_key_of_a_read_that_differs_is_asked_for() {
    let mut story = story();
    differs_thrice(
        &mut story,
        "MGET j k",
        "*2\r\n$-1\r\n$1\r\n1\r\n",
        "*2\r\n$1\r\n1\r\n$1\r\n1\r\n",
    );
    lives(&mut story, "k", ":-1", ":-1");
    assert_eq!(counts(&story), [0; 6]);
    lives(&mut story, "j", ":-2", ":3");
    assert_eq!(counts(&story), [0, 0, 1, 0, 0, 0]);
    differs_thrice(
        &mut story,
        "MGET j k",
        "*2\r\n$-1\r\n$1\r\n1\r\n",
        "*2\r\n$1\r\n1\r\n$1\r\n1\r\n",
    );
    lives(&mut story, "k", ":-1", ":-1");
    lives(&mut story, "j", ":-2", ":-1");
    assert_eq!(counts(&story), [0, 1, 1, 0, 0, 0]);
    assert!(story.engine.mirrors_are_idle());
}

#[test]
fn a_write_that_comes_while_the_primary_reads_makes_it_void() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k");
    story.client("b").says(["SET other 1", "SET k 2"]);
    story.conn(2).gets(["SET other 1", "SET k 2"]).answers(["\"1\"", "+OK", "+OK"]);
    story.client("a").gets("\"1\"");
    story.conn(1).gets(["SET other 1", "SET k 2"]).gets_nothing();
    assert_eq!(counts(&story), [0, 0, 1, 0, 0, 0]);
    // One of another key does not; and one behind the reply stands behind the read at the mirror.
    story.client("a").says("GET k");
    story.conn(2).gets("GET k");
    story.client("b").says("SET other 2");
    story.conn(2).gets("SET other 2").answers(["\"2\""]);
    story.client("b").says("SET k 3");
    story.conn(2).gets("SET k 3").answers(["+OK", "+OK"]);
    story.conn(1).gets(["GET k", "SET other 2", "SET k 3"]);
    story.conn(1).answers(["+OK", "+OK", "\"2\"", "+OK", "+OK"]);
    assert_eq!(counts(&story), [1, 0, 1, 0, 0, 0]);
}

#[test]
fn a_blocking_command_or_a_transaction_of_its_key_makes_it_void() {
    let mut story = story();
    story.client("w").says("BLPOP l 0");
    story.conn(2).gets("BLPOP l 0");
    story.client("a").says(["LLEN l", "LLEN m"]);
    story.conn(3).gets(["LLEN l", "LLEN m"]).answers([":0", ":0"]);
    story.conn(1).gets("LLEN m").answers(":0");
    assert_eq!(counts(&story), [1, 0, 1, 0, 0, 0]);
    story.conn(2).answers("*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    story.conn(1).gets("LREM l 1 x").answers(":1");
    story.client("a").says("LLEN l");
    story.conn(3).gets("LLEN l").answers(":0");
    story.conn(1).gets("LLEN l").answers(":0");
    assert_eq!(counts(&story), [2, 0, 1, 0, 0, 0]);
}

#[test]
fn a_mirror_that_is_away_is_not_asked_and_reads_are_not_sent_twice() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    story.conn(1).gets("GET k").dies("closed the connection");
    assert_eq!(counts(&story), [0, 0, 0, 1, 0, 0]);
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    story.client("a").gets(["\"1\"", "\"1\""]);
    assert_eq!(counts(&story), [0, 0, 0, 1, 0, 1]);
    assert!(story.engine.mirrors_are_idle(), "nobody waits for reads");
    let errors = story.engine.report(story.now).mirrors[0].counts.clone();
    assert_eq!((errors.failed, errors.dropped), (0, 0), "they are no writes");
}

#[test]
fn what_the_mirror_answers_late_says_nothing() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    story.conn(1).gets("GET k");
    story.after_ms(1_001);
    // And while it is behind it is not asked.
    story.client("a").says("GET j");
    story.conn(2).gets("GET j").answers("\"1\"");
    story.conn(1).gets_nothing().answers("\"2\"");
    assert_eq!(counts(&story), [0, 0, 0, 1, 0, 1]);
}

#[test]
fn what_is_in_a_transaction_or_draws_by_chance_is_not_compared() {
    let mut story = story();
    story.client("a").says(["SRANDMEMBER s", "OBJECT ENCODING s", "SCAN 0"]);
    story.conn(2).gets(["SRANDMEMBER s", "OBJECT ENCODING s", "SCAN 0"]);
    story.conn(2).answers(["\"m\"", "\"intset\"", "*2\r\n$1\r\n0\r\n*0\r\n"]);
    story.client("a").says(["MULTI", "GET k", "EXEC"]);
    story.conn(3).gets(["MULTI", "GET k", "EXEC"]);
    story.conn(3).answers(["+OK", "+QUEUED", "*1\r\n$1\r\nx\r\n"]);
    story.conn(1).gets_nothing();
    assert_eq!(counts(&story), [0; 6]);
}

#[test]
fn large_requests_and_replies_are_not_compared_and_go_out_as_they_come() {
    let mut story = story();
    story.client("a").says(["GET k", &format!("GET {}", "k".repeat(2_000))]);
    story.conn(2).takes_requests();
    let half = format!("${}\r\n{}", 100_000, "x".repeat(50_000));
    story.conn(2).sends(half.as_bytes());
    let got = story.client("a").takes_text();
    assert!(got.len() > 30_000, "the begin is there before the end: {}", got.len());
    let rest = format!("{}\r\n$-1\r\n", "x".repeat(50_000));
    story.conn(2).sends(rest.as_bytes());
    story.conn(1).gets_nothing();
    assert_eq!(counts(&story), [0, 0, 0, 0, 2, 0]);
}

#[test]
fn a_huge_reply_of_the_mirror_is_not_kept() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    for look in 0..3 {
        // Over the connection for large replies, once it is known to be one.
        let conn = if look == 0 { 1 } else { 3 };
        story.conn(conn).gets("GET k");
        story.conn(conn).sends(b"$3000000\r\n");
        for _ in 0..30 {
            story.conn(conn).sends(&[b'y'; 100_000]);
        }
        story.conn(conn).sends(b"\r\n");
        if look < 2 {
            story.after_ms(500);
            story.conn(2).gets("GET k").answers("\"1\"");
        }
    }
    lives(&mut story, "k", ":-1", ":-1");
    assert_eq!(counts(&story), [0, 1, 0, 0, 0, 0]);
    // What comes behind it is found where it begins.
    story.client("a").says("SET j 1");
    story.conn(2).gets("SET j 1").answers("+OK");
    story.conn(1).gets("SET j 1").answers("+OK");
    assert!(story.engine.mirrors_are_idle());
}

#[test]
fn protocols_and_orders_make_no_difference_and_only_keys_of_the_mirror_count() {
    let app = MirrorSettings { keys: vec![b"app:*".to_vec()], ..shadowed() };
    let mut story = story_with(vec![app]);
    story.client("a").says("HELLO 3").takes_text();
    story.client("a").says(["HGETALL app:h", "HGETALL other", "MGET app:1 other"]);
    let conn = 2;
    story.conn(conn).gets(["HGETALL app:h", "HGETALL other", "MGET app:1 other"]);
    let map = "%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n";
    story.conn(conn).answers([map, "%0\r\n", "*2\r\n_\r\n_\r\n"]);
    story.conn(1).gets("HGETALL app:h");
    story.conn(1).answers("*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\n1\r\n").gets_nothing();
    assert_eq!(counts(&story), [1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_connection_that_is_lost_with_the_read_says_nothing() {
    let mut story = story();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").dies("closed the connection");
    story.client("a").takes_text();
    assert_eq!(counts(&story), [0, 0, 0, 1, 0, 0]);
    story.conn(1).gets_nothing();
    story.client("a").dies();
    assert!(story.engine.is_quiet());
}

#[test]
fn what_a_blocking_command_took_is_bounded_while_it_waits() {
    let mut story = story_with(vec![MirrorSettings { queue_max_bytes: 600, ..mirror("b") }]);
    story.client("a").says("BLPOP l 0");
    story.conn(2).gets("BLPOP l 0");
    story.client("b").says("RPUSH l x");
    story.conn(3).gets("RPUSH l x");
    // Told only behind the push; and larger than there is room for.
    let value = "v".repeat(300);
    story.conn(2).sends(format!("*2\r\n$1\r\nl\r\n$300\r\n{value}\r\n").as_bytes());
    story.client("a").takes_text();
    story.conn(3).answers(":1");
    story.conn(1).gets("RPUSH l x").gets_nothing();
    let counts = story.engine.report(story.now).mirrors[0].counts.clone();
    assert_eq!((counts.failed, counts.dropped), (0, 1));
}

#[test]
fn so_many_reads_wait_for_a_mirror_and_no_more() {
    let mut story = story();
    let value = format!("${}\r\n{}\r\n", 30_000, "v".repeat(30_000));
    let mut sent = 0;
    while counts(&story)[5] == 0 {
        story.client("a").says("GET k");
        story.conn(2).gets("GET k").sends(value.as_bytes());
        story.client("a").takes_text();
        sent += 1;
        assert!(sent < 200, "nothing bounds them");
    }
    // 4 MiB of some 30 KiB each.
    assert!(sent > 130, "{sent}");
    story.client("a").says("SET k 1");
    story.conn(2).gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    assert_eq!(story.engine.report(story.now).mirrors[0].counts.dropped, 0, "writes have room");
}
