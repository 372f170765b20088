//! Mirrors that come, go and change while clients are connected.

use crate::mirror::{mirror, story_with};
use crate::words::Story;
use engine::limits::{MIRROR_BEFORE_MAX_MS, MIRRORS_MAX};
use engine::mirror::Mode;
use engine::settings::{MirrorSettings, Settings};

/// Without mirrors; the one that may come, "b", answers what is asked before anything is sent. The upstream's connection is the first.
fn story() -> Story {
    let mut story = Story::with(Settings { unix_ahead_us: 999_000_000, ..Settings::default() });
    story.server_says_to("COMMAND", "*0");
    for name in ["b", "c"] {
        for (question, answer) in [("EXISTS", ":1"), ("DBSIZE", ":1")] {
            story.node_says_to(name, question, answer);
        }
    }
    story.client("a").says("SET begin 1");
    story.server().gets("SET begin 1").answers("+OK");
    story.client("a").gets("+OK");
    story
}

/// The settings name these from now on.
fn changes(story: &mut Story, mirrors: Vec<MirrorSettings>) {
    story.reconfigures(|settings| settings.mirrors = mirrors);
}

/// Done, failed, dropped, unsure of the one of this number.
fn counts(story: &Story, number: usize) -> [u64; 4] {
    let counts = story.report().mirrors[number].counts.clone();
    [counts.done, counts.failed, counts.dropped, counts.unsure]
}

#[test]
fn one_that_comes_gets_what_begins_then_and_one_that_goes_what_waits_for_it() {
    let mut story = story();
    changes(&mut story, vec![mirror("b")]);
    story.client("a").says(["SET k 1", "GET k"]);
    story.conn(1).gets(["SET k 1", "GET k"]).answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
    story.conn(2).gets("SET k 1");
    changes(&mut story, Vec::new());
    assert_eq!(story.report().mirrors[0].state, "leaving");
    assert!(!story.engine.mirrors_are_idle());
    story.client("a").says("SET k 2");
    story.conn(1).gets("SET k 2").answers("+OK");
    story.client("a").gets("+OK");
    story.conn(2).gets_nothing().answers("+OK").is_closed();
    assert!(story.report().mirrors.is_empty());
    assert!(story.was_told("MirrorGone { name: \"b\", done: 1, missed: 0 }"));
    // And again, as another one.
    changes(&mut story, vec![mirror("b")]);
    story.client("a").says("INCR n");
    story.conn(1).gets("INCR n").answers(":1");
    story.client("a").gets(":1");
    story.conn(3).gets("INCR n").answers(":1");
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
}

#[test]
fn a_write_waits_for_those_that_were_under_way_when_the_mirror_came() {
    let mut story = story();
    story.client("b").says("HELLO 3").takes_text();
    story.client("a").says("SET k old");
    story.conn(1).gets("SET k old");
    changes(&mut story, vec![mirror("b")]);
    // Over another connection, where it could be done first.
    story.client("b").says(["SET k new", "GET other"]);
    story.conn(2).gets_nothing();
    story.after_ms(100);
    story.conn(1).answers("+OK");
    story.client("a").gets("+OK");
    story.after_ms(1);
    story.conn(2).gets(["SET k new", "GET other"]).answers(["+OK", "_"]);
    story.client("b").gets(["+OK", "_"]);
    story.conn(3).gets("SET k new").answers("+OK");
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
}

#[test]
fn it_does_not_wait_for_ever_nor_for_who_is_gone_or_blocks() {
    let mut story = story();
    story.client("z").says("BLPOP l 0");
    story.conn(2).gets("BLPOP l 0");
    story.client("gone").says("SET g 1");
    story.conn(1).gets("SET g 1");
    story.client("gone").dies();
    changes(&mut story, vec![mirror("b")]);
    // What is under way of it still is.
    story.client("a").says("SET k 1");
    story.conn(1).gets_nothing();
    story.after_ms(MIRROR_BEFORE_MAX_MS + 1);
    story.conn(1).gets("SET k 1").answers(["+OK", "+OK"]);
    story.client("a").gets("+OK");
    story.conn(3).gets("SET k 1").answers("+OK");
    // What the blocking command takes nobody tells, and that is said.
    assert_eq!(counts(&story, 0), [1, 0, 0, 1]);
    assert!(story.was_told("a blocking command waited"));
    changes(&mut story, Vec::new());
    changes(&mut story, vec![mirror("c")]);
    story.client("a").says("SET k 2");
    story.conn(1).gets("SET k 2").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_transaction_that_began_before_is_not_told_in_part() {
    let mut story = story();
    let queued = "+QUEUED";
    story.client("a").says(["MULTI", "SET x 1"]);
    story.conn(2).gets(["MULTI", "SET x 1"]).answers(["+OK", queued]);
    changes(&mut story, vec![mirror("b")]);
    story.client("a").says(["SET y 1", "EXEC"]);
    story.conn(2).gets(["SET y 1", "EXEC"]).answers([queued, "*2\r\n+OK\r\n+OK\r\n"]);
    story.client("a").gets(["+OK", queued, queued, "*2\r\n+OK\r\n+OK\r\n"]);
    story.conn(3).gets_nothing();
    // With a second one that comes in the middle the first gets all of it.
    story.client("a").says(["MULTI", "SET x 2"]);
    story.conn(2).gets(["MULTI", "SET x 2"]).answers(["+OK", queued]);
    changes(&mut story, vec![mirror("b"), mirror("c")]);
    story.client("a").says(["SET y 2", "EXEC"]);
    story.conn(2).gets(["SET y 2", "EXEC"]).answers([queued, "*2\r\n+OK\r\n+OK\r\n"]);
    story.conn(3).gets(["MULTI", "SET x 2", "SET y 2", "EXEC"]);
    story.conn(4).gets_nothing();
    story.client("a").takes();
    story.client("a").says("SET z 1");
    story.conn(1).gets("SET z 1").answers("+OK");
    story.conn(4).gets("SET z 1");
}

#[test]
fn options_change_and_queue_and_connection_stay() {
    let mut story = story_with(vec![MirrorSettings { mode: Mode::All, ..mirror("b") }]);
    story.client("a").says("SET k 1");
    story.conn(2).gets("SET k 1").answers("+OK");
    story.client("a").gets_nothing();
    // Nobody waits any longer, not even who waits already.
    changes(&mut story, vec![mirror("b")]);
    story.client("a").gets("+OK");
    story.conn(1).gets("SET k 1");
    assert_eq!(story.report().mirrors[0].queued, 1);
    let some =
        MirrorSettings { mode: Mode::AllChecked, keys: vec![b"app:*".to_vec()], ..mirror("b") };
    changes(&mut story, vec![some]);
    story.client("a").says(["SET k 2", "SET app:1 v"]);
    story.conn(2).gets(["SET k 2", "SET app:1 v"]).answers(["+OK", "+OK"]);
    story.client("a").gets("+OK");
    story.conn(1).gets("SET app:1 v").answers(["+OK", "-OOM no room"]);
    story.client("a").gets("-OOM no room");
    assert_eq!((counts(&story, 0), story.report().mirrors[0].mode), ([1, 1, 0, 0], "all-checked"));
    assert_eq!(story.connects_made(), 2);
}

#[test]
fn what_it_does_not_get_in_time_is_counted_and_its_clients_have_their_replies() {
    let all = MirrorSettings { mode: Mode::AllChecked, ..mirror("b") };
    let mut story = story_with(vec![all]);
    story.client("a").says(["SET k 1", "SET l 1"]);
    story.conn(2).gets(["SET k 1", "SET l 1"]).answers(["+OK", "+OK"]);
    story.conn(1).gets(["SET k 1", "SET l 1"]);
    story.client("a").gets_nothing();
    story.reconfigures(|settings| {
        settings.mirrors = Vec::new();
        settings.timeouts.drain_ms = 300;
    });
    story.client("a").gets(["+OK", "+OK"]);
    story.conn(1).answers("+OK");
    story.after_ms(299);
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
    story.after_ms(1);
    story.conn(1).is_closed();
    assert!(story.report().mirrors.is_empty());
    assert!(story.was_told("Mirror { name: \"b\", failed: 1, dropped: 0"), "nobody knows of it");
    assert!(story.was_told("MirrorGone { name: \"b\", done: 1, missed: 1 }"));
    assert!(story.engine.mirrors_are_idle());
}

#[test]
fn at_the_end_of_the_process_what_it_did_not_get_is_told() {
    let mut story = story_with(vec![mirror("b"), mirror("c")]);
    story.client("a").says("SET k 1");
    story.conn(3).gets("SET k 1").answers("+OK");
    story.conn(1).gets("SET k 1").answers("+OK");
    story.conn(2).gets("SET k 1");
    story.engine.end_mirrors(story.now);
    story.turn();
    assert!(story.was_told("MirrorGone { name: \"c\", done: 0, missed: 1 }"));
    assert!(!story.was_told("MirrorGone { name: \"b\""), "it has everything");
}

#[test]
fn who_waits_at_a_gate_goes_on_when_the_last_mirror_goes() {
    let mut story = story_with(vec![mirror("b")]);
    story.client("a").says("SET k 1");
    story.conn(2).gets("SET k 1");
    story.client("b").says("HELLO 3").takes_text();
    story.client("b").says("SET k 2");
    changes(&mut story, Vec::new());
    story.conn(3).gets("SET k 2").answers("+OK");
    story.client("b").gets("+OK");
    // What was under way is answered, though nobody is told of it any more.
    story.conn(2).answers("+OK");
    story.client("a").gets("+OK");
    changes(&mut story, vec![mirror("c")]);
    story.client("a").says("SET k 3");
    story.conn(2).gets("SET k 3").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn another_server_of_the_same_name_is_another_mirror() {
    let mut story = story_with(vec![mirror("b")]);
    story.node_says_to("c", "EXISTS", ":1");
    story.client("a").says("SET k 1");
    story.conn(2).gets("SET k 1").answers("+OK");
    story.conn(1).gets("SET k 1");
    let other = MirrorSettings { name: "b".into(), ..mirror("c") };
    changes(&mut story, vec![other]);
    story.client("a").says("SET k 2");
    story.conn(2).gets("SET k 2").answers("+OK");
    story.conn(1).gets_nothing().answers("+OK").is_closed();
    story.conn(3).gets("SET k 2").answers("+OK");
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
}

#[test]
fn reads_are_compared_from_then_on_and_writes_under_way_are_known() {
    let mut story = story_with(vec![mirror("b")]);
    story.client("a").says("SET k 1");
    story.conn(2).gets("SET k 1");
    let shadow = || MirrorSettings { shadow_percent: 100, ..mirror("b") };
    changes(&mut story, vec![shadow()]);
    story.client("c").says("GET k");
    story.conn(2).gets("GET k").answers(["+OK", "\"1\""]);
    story.client("c").gets("\"1\"").says("GET k");
    story.conn(2).gets("GET k").answers("\"1\"");
    story.conn(1).gets(["SET k 1", "GET k"]).answers(["+OK", "\"1\""]);
    let compared = |story: &Story| story.report().mirrors[0].shadow.expect("it compares");
    assert_eq!((compared(&story).racing, compared(&story).equal), (1, 1));
    // Off and on again while one is under way: its reply is nothing to the next one.
    story.client("c").says("GET k");
    story.conn(2).gets("GET k");
    changes(&mut story, vec![mirror("b")]);
    assert_eq!(story.report().mirrors[0].shadow, None);
    story.after_ms(1);
    changes(&mut story, vec![shadow()]);
    story.client("a").says("GET l");
    story.conn(2).gets("GET l").answers(["\"1\"", "\"2\""]);
    story.conn(1).gets("GET l").answers("\"2\"");
    assert_eq!((compared(&story).racing, compared(&story).equal), (1, 2));
}

#[test]
fn there_are_only_so_many_that_go_and_the_first_of_them_ends_for_one_that_comes() {
    let mut story = story();
    let name = |at: usize| format!("m{at}");
    for at in 0..2 * MIRRORS_MAX + 1 {
        for (question, answer) in [("EXISTS", ":1"), ("DBSIZE", ":1")] {
            story.node_says_to(&name(at), question, answer);
        }
    }
    let wave =
        |from: usize, count: usize| (from..from + count).map(|at| mirror(&name(at))).collect();
    changes(&mut story, wave(0, MIRRORS_MAX));
    story.client("a").says("SET k 1");
    story.server().gets_nothing();
    story.conn(1).gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    // None of them has answered when all are others.
    changes(&mut story, wave(MIRRORS_MAX, MIRRORS_MAX));
    assert_eq!(story.report().mirrors.len(), MIRRORS_MAX);
    assert!(story.was_told("MirrorGone { name: \"m0\", done: 0, missed: 1 }"));
    story.client("a").says("SET k 2");
    story.conn(1).gets("SET k 2").answers("+OK");
    story.client("a").gets("+OK");
    let first = 2 + MIRRORS_MAX;
    for conn in first..first + MIRRORS_MAX {
        story.conn(conn).gets("SET k 2").answers("+OK");
    }
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
}

/// A write of `k` for mirrors: the upstream does it.
fn writes(story: &mut Story, value: &str) {
    story.client("a").says(format!("SET k {value}").as_str());
    story.conn(1).gets(format!("SET k {value}").as_str()).answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn one_that_comes_waits_for_one_that_goes_and_has_its_server() {
    for other_name in [false, true] {
        let mut story = story();
        changes(&mut story, vec![mirror("b")]);
        writes(&mut story, "old");
        story.conn(2).gets("SET k old");
        let again = match other_name {
            true => MirrorSettings { name: "renamed".into(), ..mirror("b") },
            false => {
                changes(&mut story, Vec::new());
                mirror("b")
            }
        };
        changes(&mut story, vec![again]);
        writes(&mut story, "new");
        // An older value must not arrive behind it.
        story.conn(3).gets_nothing();
        assert_eq!(counts(&story, 0), [0; 4]);
        story.conn(2).answers("+OK").is_closed();
        story.conn(3).gets("SET k new").answers("+OK");
        assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
    }
}

#[test]
fn those_that_go_one_after_the_other_are_told_in_that_order() {
    let mut story = story();
    for (value, name) in [("1", "first"), ("2", "second"), ("3", "third")] {
        changes(&mut story, vec![MirrorSettings { name: name.into(), ..mirror("b") }]);
        writes(&mut story, value);
    }
    story.conn(3).gets_nothing();
    story.conn(4).gets_nothing();
    for (conn, value) in [(2, "1"), (3, "2"), (4, "3")] {
        story.conn(conn).gets(format!("SET k {value}").as_str()).answers("+OK");
    }
}

#[test]
fn one_that_comes_waits_no_longer_than_one_that_goes_has() {
    let mut story = story();
    changes(&mut story, vec![mirror("b")]);
    writes(&mut story, "old");
    story.conn(2).gets("SET k old");
    story.reconfigures(|settings| {
        settings.mirrors = Vec::new();
        settings.timeouts.drain_ms = 300;
    });
    changes(&mut story, vec![mirror("b")]);
    writes(&mut story, "new");
    story.after_ms(299).conn(3).gets_nothing();
    story.after_ms(1).conn(3).gets("SET k new").answers("+OK");
    assert!(story.was_told("MirrorGone { name: \"b\", done: 0, missed: 1 }"));
}

#[test]
fn one_that_comes_waits_for_what_another_tenants_mirror_was_to_get() {
    let mut story = story();
    let servers = |story: &mut Story, leavers| {
        let now = story.now;
        story.engine.set_mirror_leavers(now, leavers);
    };
    let mut other = self::story();
    changes(&mut other, vec![mirror("b")]);
    writes(&mut other, "old");
    let busy = other.engine.busy_mirror_servers();
    assert_eq!(busy.len(), 1);
    changes(&mut story, vec![mirror("b"), mirror("c")]);
    servers(&mut story, busy);
    writes(&mut story, "new");
    story.conn(2).gets_nothing();
    story.conn(3).gets("SET k new").answers("+OK");
    servers(&mut story, Vec::new());
    story.after_ms(1).conn(2).gets("SET k new").answers("+OK");
    other.conn(2).gets("SET k old").answers("+OK");
    assert!(other.engine.busy_mirror_servers().is_empty());
}
