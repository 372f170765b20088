//! Double writes: what clients write is written to other deployments as well.

use crate::words::Story;
use crate::words::cluster::seeds;
use engine::mirror::Mode;
use engine::node::Address;
use engine::settings::{Limits, MirrorSettings, Node, Pool, Settings};

/// A mirror at a server of this name.
pub(crate) fn mirror(name: &str) -> MirrorSettings {
    let node = Node { address: Address::tcp(name, 6379), ..Settings::default().node };
    MirrorSettings {
        name: name.into(),
        node,
        pool: Pool::Standalone,
        outer_db: 0,
        mode: Mode::First,
        keys: Vec::new(),
        percent: 100,
        queue_max_bytes: 1 << 20,
        flush: false,
        shadow_percent: 0,
        shadow_samples: false,
        shadow_ttl_ms: 1_000,
    }
}

/// With mirrors, which answer what is asked before anything is sent.
pub(crate) fn story_with(mirrors: Vec<MirrorSettings>) -> Story {
    let names: Vec<String> = mirrors.iter().map(|mirror| mirror.name.clone()).collect();
    // A second of the calendar that is easy to tell.
    let settings = Settings { mirrors, unix_ahead_us: 999_000_000, ..Settings::default() };
    let mut story = Story::with(settings);
    story.server_says_to("COMMAND", "*0");
    for name in names {
        for (question, answer) in [("EXISTS", ":1"), ("DBSIZE", ":1")] {
            story.node_says_to(&name, question, answer);
        }
    }
    story
}

/// One mirror, "b". Its connection is the first, the primary's the second.
fn story() -> Story {
    story_with(vec![mirror("b")])
}

/// What the mirror of this number came to: done, failed, dropped, unsure.
fn counts(story: &Story, number: usize) -> [u64; 4] {
    let counts = story.engine.report(story.now).mirrors[number].counts.clone();
    [counts.done, counts.failed, counts.dropped, counts.unsure]
}

fn lag_us(story: &Story) -> u64 {
    story.engine.report(story.now).mirrors[0].lag_us
}

#[test]
fn what_was_done_goes_to_the_mirror_and_nobody_waits_for_it() {
    let mut story = story();
    story.client("a").says(["SET k 1", "GET k", "INCR k"]);
    story.conn(1).gets_nothing();
    story.conn(2).gets(["SET k 1", "GET k", "INCR k"]).answers(["+OK", "\"1\"", ":2"]);
    story.client("a").gets(["+OK", "\"1\"", ":2"]);
    story.conn(1).gets(["SET k 1", "INCR k"]);
    story.after_ms(500);
    assert_eq!(lag_us(&story), 500_000);
    story.conn(1).answers(["+OK", ":2"]);
    assert_eq!((counts(&story, 0), lag_us(&story)), ([2, 0, 0, 0], 0));
    assert!(story.engine.mirrors_are_idle());
}

#[test]
fn options_are_read_as_the_primary_read_them() {
    let mut story = story();
    let asked = [
        "XADD s *\0 f v",
        "SORT l STORE\0 d",
        "SORT store BY store",
        "XREADGROUP NOACK GROUP streams block STREAMS s >",
        "COPY a b DB\0 1",
        "LMPOP 1 left RIGHT",
    ];
    story.client("a").says(asked);
    story.conn(2).gets(asked).answers([
        "\"5-1\"",
        ":1",
        "*0",
        "*1\r\n*0\r\n",
        ":1",
        "*2\r\n$4\r\nleft\r\n*1\r\n$1\r\nx\r\n",
    ]);
    story.conn(1).gets(["XADD s 5-1 f v", "SORT l STORE\0 d", asked[3], "LREM left -1 x"]);
    assert_eq!(counts(&story, 0)[2], 1, "a copy to another database cannot be said");
}

#[test]
fn what_was_not_done_does_not() {
    let mut story = story();
    story.client("a").says(["SET k 1 NX", "LPUSH k 1", "SETNX k 2", "DEL k"]);
    story.conn(2).gets(["SET k 1 NX", "LPUSH k 1", "SETNX k 2", "DEL k"]);
    story.conn(2).answers(["nil", "-WRONGTYPE no", ":0", ":1"]);
    story.client("a").gets(["nil", "-WRONGTYPE no", ":0", ":1"]);
    story.conn(1).gets("DEL k").gets_nothing();
}

#[test]
fn time_and_chance_are_taken_out() {
    let mut story = story();
    story.client("a").says(["EXPIRE k 10", "SPOP s 2", "XADD x * f v"]);
    story.conn(2).gets(["EXPIRE k 10", "SPOP s 2", "XADD x * f v"]);
    story.conn(2).answers([":1", "*2\r\n$1\r\nm\r\n$1\r\nn\r\n", "\"7-0\""]);
    story.conn(1).gets(["PEXPIREAT k 1010000", "SREM s m n", "XADD x 7-0 f v"]);
}

#[test]
fn two_connections_write_one_key_one_after_the_other() {
    let mut story = story();
    story.client("a").says("SET k 1");
    story.conn(2).gets("SET k 1");
    story.client("b").says("HELLO 3").takes_text();
    story.client("b").says(["SET k 2", "SET j 2"]);
    story.client("c").says("SET k 3");
    story.conn(3).gets_nothing();
    story.conn(2).gets_nothing();
    // Who comes over the same connection stands behind the one that waits.
    story.conn(2).answers("+OK");
    story.conn(3).gets("SET k 2");
    story.conn(2).gets_nothing();
    story.conn(3).answers("+OK").gets("SET j 2").answers("+OK");
    story.conn(2).gets("SET k 3").answers("+OK");
    story.client("b").gets(["+OK", "+OK"]);
    story.client("c").gets("+OK");
    let sent = ["SET k 1", "SET k 2", "SET j 2", "SET k 3"];
    story.conn(1).gets(sent).answers(["+OK"; 4]);
    assert_eq!(counts(&story, 0), [4, 0, 0, 0]);
}

// An attack: no counter included a script that wrote and then failed in a transaction.
#[test]
fn a_script_that_fails_in_a_transaction_is_unsure() {
    let mut story = story();
    let requests = ["MULTI", "EVAL s 1 k", "EVAL t 1 k", "SET k 1", "EXEC"];
    story.client("a").says(requests);
    story.conn(2).gets(requests);
    story.conn(2).answers(["+OK", "+QUEUED", "+QUEUED", "+QUEUED"]);
    let answer = "*3\r\n-ERR Unknown Redis command\r\n-NOPERM no\r\n+OK\r\n";
    story.conn(2).answers(answer);
    story.client("a").takes();
    story.conn(1).gets("SET k 1").answers("+OK");
    assert_eq!(counts(&story, 0), [1, 0, 0, 1], "a script without a right did nothing");
}

#[test]
fn a_transaction_is_one_there_when_exec_was_done() {
    let mut story = story();
    story.client("a").says(["MULTI", "SPOP s", "GET k", "EXPIRE k 5", "SET k 1", "EXEC"]);
    story.conn(2).gets(["MULTI", "SPOP s", "GET k", "EXPIRE k 5", "SET k 1", "EXEC"]);
    let queued = "+QUEUED";
    story.conn(2).answers(["+OK", queued, queued, queued, queued]);
    story.client("a").gets(["+OK", queued, queued, queued, queued]);
    story.conn(1).gets_nothing();
    let answer = "*4\r\n$1\r\nm\r\n$-1\r\n:0\r\n+OK\r\n";
    story.conn(2).answers(answer);
    story.client("a").gets(answer);
    story.conn(1).gets(["MULTI", "SREM s m", "SET k 1", "EXEC"]);
    story.conn(1).answers(["+OK", queued, queued, "*2\r\n:1\r\n+OK\r\n"]);
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
    // One that was not done, or discarded, is not told.
    story.client("a").says(["WATCH k", "MULTI", "SET k 2", "EXEC"]);
    story.conn(2).gets("WATCH k").answers("+OK").gets(["MULTI", "SET k 2", "EXEC"]);
    story.conn(2).answers(["+OK", queued, "*-1\r\n"]);
    story.client("a").says(["MULTI", "SET k 3", "DISCARD"]);
    story.conn(2).gets(["MULTI", "SET k 3", "DISCARD"]).answers(["+OK", queued, "+OK"]);
    story.client("a").gets(["+OK", "+OK", queued, "*-1\r\n", "+OK", queued, "+OK"]);
    story.conn(1).gets_nothing();
}

#[test]
fn exec_waits_for_other_writes_of_its_keys_and_they_for_it() {
    let mut story = story();
    story.client("b").says("SET k 0");
    story.conn(2).gets("SET k 0");
    story.client("a").says(["MULTI", "INCR k", "EXEC"]);
    story.conn(3).gets(["MULTI", "INCR k"]).answers(["+OK", "+QUEUED"]).gets_nothing();
    story.conn(2).answers("+OK");
    story.conn(3).gets("EXEC");
    story.client("b").says("SET k 5");
    story.conn(2).gets_nothing();
    story.conn(3).answers("*1\r\n:1\r\n");
    story.conn(2).gets("SET k 5").answers("+OK");
    // One command is no transaction any more.
    story.conn(1).gets(["SET k 0", "INCR k", "SET k 5"]);
}

#[test]
fn what_a_blocking_command_took_behind_an_aborted_transaction_is_told() {
    let mut story = story();
    story.client("a").says("MULTI");
    story.conn(2).gets("MULTI").answers("+OK");
    story.client("a").gets("+OK").says(["EXEC x", "EXEC", "BLPOP l 0"]).takes();
    story.conn(2).gets(["DISCARD", "BLPOP l 0"]);
    story.conn(2).answers(["+OK", "*2\r\n$1\r\nl\r\n$1\r\nx\r\n"]);
    story.client("a").gets("*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    story.conn(1).gets("LREM l 1 x");
}

#[test]
fn what_a_blocking_command_took_is_told_behind_the_push_that_woke_it() {
    let mut story = story();
    story.client("a").says("BLPOP l 0");
    story.conn(2).gets("BLPOP l 0");
    story.client("b").says("RPUSH l x y");
    story.conn(3).gets("RPUSH l x y");
    // The server answers both at once, and the reply to the push comes later.
    story.conn(2).answers("*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    story.client("a").gets("*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
    story.conn(1).gets_nothing();
    story.conn(3).answers(":2");
    story.conn(1).gets(["RPUSH l x y", "LREM l 1 x"]);
}

#[test]
fn a_client_that_goes_while_it_waits_leaves_nothing_behind() {
    let mut story = story();
    story.client("a").says("BLPOP l 0");
    story.conn(2).gets("BLPOP l 0");
    story.client("a").dies();
    story.conn(2).is_closed();
    assert!(story.engine.is_quiet());
}

#[test]
fn a_mirror_that_is_away_holds_nobody_up_and_gets_everything_later() {
    let mut story = story();
    story.client("a").says("SET k 0");
    story.conn(2).gets("SET k 0").answers("+OK");
    story.conn(1).gets("SET k 0");
    story.client("a").says("INCR n");
    story.conn(2).gets("INCR n").answers(":1");
    story.conn(1).gets("INCR n").dies("closed the connection");
    // SET may be done twice, INCR may not.
    story.client("a").says(["SET k 1", "INCR k"]);
    story.conn(2).gets(["SET k 1", "INCR k"]).answers(["+OK", ":2"]);
    story.client("a").gets(["+OK", ":1", "+OK", ":2"]);
    story.after_ms(2_000);
    story.server().gets(["SET k 0", "SET k 1", "INCR k"]).answers(["+OK", "+OK", ":2"]);
    assert_eq!(counts(&story, 0), [3, 1, 0, 0]);
    assert!(story.was_told("Mirror { name: \"b\", failed: 1"), "{:?}", story.notices);
}

#[test]
fn writes_that_never_left_for_a_hung_mirror_wait_for_it() {
    let mut story = story();
    story.client("a").says("SET w 0");
    story.conn(2).gets("SET w 0").answers("+OK");
    story.client("a").gets("+OK");
    story.conn(1).gets("SET w 0").answers("+OK").stops_taking();
    // The driver has the first, the second waits behind it.
    for (line, reply) in [("INCR n", ":1"), ("LPUSH m 1", ":1")] {
        story.client("a").says(line);
        story.conn(2).gets(line).answers(reply);
        story.client("a").gets(reply);
    }
    story.lets_connects_hang("b").conn(1).dies("gave no reply");
    story.after_ms(30_000);
    assert_eq!(counts(&story, 0), [1, 1, 0, 0]);
    story.lets_connect("b").after_ms(2_000);
    story.node("b").gets("LPUSH m 1").answers(":1");
    assert_eq!(counts(&story, 0), [2, 1, 0, 0]);
}

#[test]
fn what_its_queue_has_no_room_for_is_dropped_and_told() {
    let mut story = story_with(vec![MirrorSettings { queue_max_bytes: 450, ..mirror("b") }]);
    for _ in 0..4 {
        story.client("a").says("SET key value");
        story.conn(2).gets("SET key value").answers("+OK");
    }
    story.client("a").gets(["+OK"; 4]);
    story.conn(1).gets(["SET key value"; 2]).answers(["+OK"; 2]);
    assert_eq!(counts(&story, 0), [2, 0, 2, 0]);
    assert!(story.was_told("dropped: 1") && story.was_told("its queue is full"));
    story.after_ms(10_000);
    let told = |notice: &&engine::Notice| format!("{notice:?}").starts_with("Mirror");
    assert_eq!(story.notices.iter().filter(told).count(), 2, "the rest is told together");
}

#[test]
fn writes_under_way_are_counted_with_their_keys_and_bounded() {
    let kind = engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "mirrors").unwrap();
    let mut story = story_with(vec![MirrorSettings { queue_max_bytes: 400_000, ..mirror("b") }]);
    let keys: Vec<String> = (0..1_000).map(|n| format!("{n}")).collect();
    let asked = format!("DEL {}", keys.join(" "));
    let before = story.report().memory[kind];
    let held: Vec<u64> = (0..8)
        .map(|_| {
            story.client("a").says(asked.as_str());
            story.report().memory[kind] - before
        })
        .collect();
    // Some 10 KB of words, and 80 for each key at its gate.
    assert!(held[0] > 80_000 && held[3] > 320_000, "{held:?}");
    assert!(held[7] < 410_000, "beyond the bound: {held:?}");
    story.conn(2).gets([asked.as_str(); 8]).answers([":0"; 8]);
    story.client("a").gets([":0"; 8]);
    story.conn(1).gets([asked.as_str(); 4]).answers([":0"; 4]);
    assert_eq!(counts(&story, 0), [4, 0, 4, 0]);
    // A transaction likewise.
    story.client("a").says("MULTI");
    (0..8).for_each(|_| drop(story.client("a").says(asked.as_str())));
    let queued = story.report().memory[kind] - before;
    assert!(queued > 300_000 && queued < 410_000, "{queued}");
    story.client("a").dies();
    assert!(story.engine.mirrors_are_idle());
}

#[test]
fn with_all_the_reply_waits_for_the_mirror() {
    for (mode, answer, gets) in [
        (Mode::All, "+OK", "+OK"),
        (Mode::All, "-OOM no", "+OK"),
        (Mode::AllChecked, "+OK", "+OK"),
        (Mode::AllChecked, "-OOM no", "-OOM no"),
    ] {
        let mut story = story_with(vec![MirrorSettings { mode, ..mirror("b") }]);
        story.client("a").says(["SET k 1", "GET k"]);
        story.conn(2).gets(["SET k 1", "GET k"]).answers(["+OK", "\"1\""]);
        story.client("a").gets_nothing();
        story.conn(1).gets("SET k 1").answers(answer);
        story.client("a").gets([gets, "\"1\""]);
        // A transaction likewise.
        story.client("a").says(["MULTI", "SET k 2", "EXEC"]);
        story.server().gets(["MULTI", "SET k 2", "EXEC"]);
        story.server().answers(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
        story.client("a").gets(["+OK", "+QUEUED"]);
        story.conn(1).gets("SET k 2").answers("+OK");
        story.client("a").gets("*1\r\n+OK\r\n").ends().is_closed();
        assert!(story.engine.is_quiet() && story.engine.mirrors_are_idle());
    }
}

#[test]
fn an_error_among_what_a_script_answers_is_data() {
    let mut story = story_with(vec![MirrorSettings { mode: Mode::AllChecked, ..mirror("b") }]);
    let reply = "*2\r\n+a\r\n-MOVED 1 127.0.0.1:9\r\n";
    story.client("a").says("EVAL return 1 k");
    story.conn(2).gets("EVAL return 1 k").answers(reply);
    story.conn(1).gets("EVAL return 1 k").answers(reply);
    story.client("a").gets(reply);
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
}

#[test]
fn a_huge_reply_to_a_write_is_not_kept() {
    let kind = engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "mirrors").unwrap();
    let mut story = story();
    for (at, (begin, end)) in
        [("$30000000\r\n", "\r\n"), ("*2\r\n$30000000\r\n", "\r\n-ERR\r\n")].into_iter().enumerate()
    {
        story.client("a").says("EVAL return 1 k");
        // Over the connection for large replies, once it is known to be one.
        let conn = if at == 0 { 1 } else { 3 };
        story.conn(2).gets("EVAL return 1 k").answers(":1");
        story.conn(conn).gets("EVAL return 1 k").sends(begin.as_bytes());
        for _ in 0..300 {
            story.conn(conn).sends(&[b'y'; 100_000]);
            let held = story.report().memory[kind];
            assert!(held < 2 << 20, "{held} bytes are held");
        }
        story.conn(conn).sends(end.as_bytes());
        story.client("a").gets(":1").says("SET j 1");
        // What comes behind it is found where it begins.
        story.conn(2).gets("SET j 1").answers("+OK");
        story.conn(1).gets("SET j 1").answers("+OK");
        story.client("a").gets("+OK");
    }
    assert_eq!(counts(&story, 0), [4, 0, 0, 0]);
    assert!(story.engine.mirrors_are_idle());
}

// The replies of a cluster's servers come in any order; the client of the mirror's engine takes them in the order of its writes.
#[test]
fn a_huge_reply_behind_a_write_that_is_not_answered_is_not_kept() {
    let kind = engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "mirrors").unwrap();
    for begin in ["$30000000\r\n", "*2\r\n$30000000\r\n"] {
        let cluster = seeds(&["n1", "n2", "n3"]);
        let to = MirrorSettings { pool: cluster.pool, node: cluster.node, ..mirror("b") };
        let limits = Limits { memory_max_bytes: 16 << 20, ..Limits::default() };
        let mut story = Story::with(Settings { mirrors: vec![to], limits, ..Settings::default() });
        story.server_says_to("COMMAND", "*0");
        for node in ["n1", "n2", "n3"] {
            story.node_says_to(node, "EXISTS", ":1");
        }
        story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
        story.client("a").says(["SET a4 1", "SET b4 1"]);
        story.node("127.0.0.1").gets(["SET a4 1", "SET b4 1"]).answers(["+OK", "+OK"]);
        story.client("a").gets(["+OK", "+OK"]);
        story.node("n1").gets("SET a4 1");
        story.node("n2").gets("SET b4 1").sends(begin.as_bytes());
        for _ in 0..300 {
            story.node("n2").sends(&[b'y'; 100_000]);
            let held = story.report().memory[kind];
            assert!(held < 4 << 20, "{held} bytes are held");
        }
        // Each write goes once more, over the connections that stand.
        story.node("n1").answers("+OK");
        story.node("n2").sends(if begin.len() > 12 { b"\r\n+OK\r\n" } else { b"\r\n" });
        story.after_ms(2_000);
        story.node("n1").gets("SET a4 1").answers("+OK");
        story.node("n2").gets("SET b4 1").answers("+OK");
        story.client("a").gets_nothing();
        assert_eq!(counts(&story, 0), [2, 0, 0, 0]);
        assert!(story.engine.mirrors_are_idle());
    }
}

#[test]
fn with_all_nobody_waits_for_ever() {
    for (mode, gets) in [
        (Mode::All, "+OK"),
        (
            Mode::AllChecked,
            "-ERR respool: done at the primary, but a mirror has not confirmed it for 10000 ms",
        ),
    ] {
        let mut story = story_with(vec![MirrorSettings { mode, ..mirror("b") }]);
        story.client("z").says("SET j 1");
        story.conn(2).gets("SET j 1").answers("+OK");
        story.conn(1).gets("SET j 1").answers("+OK");
        story.node_says_to("b", "HELLO", "-LOADING wait");
        story.conn(1).dies("closed the connection");
        story.client("a").says("SET k 1");
        story.conn(2).gets("SET k 1").answers("+OK");
        story.client("a").gets_nothing();
        story.after_ms(10_000);
        story.client("a").gets(gets);
    }
}

#[test]
fn some_keys_of_one_mirror_and_a_part_of_them_of_another() {
    let some = MirrorSettings { keys: vec![b"app:*".to_vec()], ..mirror("b") };
    let part = MirrorSettings { percent: 50, ..mirror("c") };
    let mut story = story_with(vec![some, part]);
    let mut parts = [0, 0];
    for number in 0..100 {
        let line = format!("SET {number} v");
        story.client("a").says(&line);
        story.conn(3).gets(&line).answers("+OK");
        story.conn(1).gets_nothing();
        let [done, ..] = counts(&story, 1);
        let before = story.engine.report(story.now).mirrors[1].queued;
        if before > 0 {
            story.conn(2).gets(&line).answers("+OK");
            assert_eq!(counts(&story, 1)[0], done + 1);
        }
        parts[usize::from(before > 0)] += 1;
    }
    assert!(parts.iter().all(|count| *count > 25), "{parts:?}");
    story.client("a").says("MSET app:1 a other b");
    story.conn(3).gets("MSET app:1 a other b").answers("+OK");
    story.conn(1).gets("MSET app:1 a");
}

#[test]
fn a_command_that_reads_keys_which_a_mirror_lacks_is_counted_and_not_sent_to_it() {
    let some = || MirrorSettings { keys: vec![b"app:*".to_vec()], ..mirror("b") };
    // The mirror gets: all of it, nothing as it concerns other keys, nothing and that is counted.
    for (line, reply, [done, dropped]) in [
        ("SMOVE app:s app:t m", ":1", [1, 0]),
        ("PFMERGE app:p app:q", "+OK", [1, 0]),
        ("EVAL script 2 app:a app:b", ":1", [1, 0]),
        ("BITOP NOT other app:b", ":1", [0, 0]),
        ("ZUNIONSTORE other 1 app:z", ":1", [0, 0]),
        ("ZUNIONSTORE app:z 1 other", ":1", [0, 1]),
        ("SMOVE other app:t m", ":1", [0, 1]),
        ("PFMERGE app:p other", "+OK", [0, 1]),
        ("SORT other ALPHA STORE app:l", ":1", [0, 1]),
        ("RENAME other app:r", "+OK", [0, 1]),
        ("RENAME app:r other", "+OK", [0, 1]),
        ("COPY other app:c", ":1", [0, 1]),
        ("EVAL script 2 app:a other", ":1", [0, 1]),
    ] {
        let mut story = story_with(vec![some()]);
        story.client("a").says(line);
        story.conn(2).gets(line).answers(reply);
        story.client("a").gets(reply);
        if done == 1 {
            story.conn(1).gets(line).answers(reply);
        }
        story.conn(1).gets_nothing();
        assert_eq!(counts(&story, 0), [done, 0, dropped, 0], "{line}");
    }
    // Of a transaction the rest is told.
    let mut story = story_with(vec![some()]);
    story.client("a").says(["MULTI", "SET app:1 a", "COPY other app:2", "EXEC"]);
    story.conn(2).gets(["MULTI", "SET app:1 a", "COPY other app:2", "EXEC"]);
    story.conn(2).answers(["+OK", "+QUEUED", "+QUEUED", "*2\r\n+OK\r\n:1\r\n"]);
    story.conn(1).gets("SET app:1 a").answers("+OK");
    assert_eq!(counts(&story, 0), [1, 0, 1, 0]);
}

#[test]
fn with_all_checked_a_client_is_told_of_a_command_that_its_mirror_does_not_get() {
    let some =
        MirrorSettings { keys: vec![b"app:*".to_vec()], mode: Mode::AllChecked, ..mirror("b") };
    let mut story = story_with(vec![some]);
    story.client("a").says("COPY other app:c");
    story.conn(2).gets("COPY other app:c").answers(":1");
    let why = "it has keys that this mirror does not get";
    story.client("a").gets(format!("-ERR respool: mirror b has not got it: {why}").as_str());
}

#[test]
fn what_the_primary_may_have_done_is_counted() {
    let mut story = story();
    story.client("a").says("SET k 1");
    story.conn(2).gets("SET k 1").dies("closed the connection");
    assert!(story.client("a").takes_text().contains("respool: upstream"));
    story.conn(1).gets_nothing();
    assert_eq!(counts(&story, 0), [0, 0, 0, 1]);
    // Its key is free again, over whatever connection.
    story.client("a").says("SET k 2");
    story.conn(3).gets("SET k 2").answers("+OK");
    story.conn(1).gets("SET k 2");
}

#[test]
fn a_database_of_its_own_and_those_of_the_same_number() {
    let mut node = mirror("b").node;
    node.db = 4;
    let mut story = story_with(vec![MirrorSettings { node, ..mirror("b") }]);
    story.client("a").says(["SET k 1", "SELECT 2", "SET k 2"]);
    story.conn(2).gets("SET k 1").answers("+OK");
    story.conn(3).gets("SET k 2").answers("+OK");
    story.client("a").gets(["+OK", "+OK", "+OK"]);
    story.conn(1).gets("SET k 1").answers("+OK");
    // The inner engine takes another connection for another database.
    story.server().gets("SET k 2").answers("+OK");
    assert_eq!(counts(&story, 0), [2, 0, 0, 0]);
}

#[test]
fn what_empties_all_goes_only_where_that_is_wanted_and_messages_go_to_all() {
    let flushed = MirrorSettings { flush: true, ..mirror("c") };
    let mut story = story_with(vec![mirror("b"), flushed]);
    story.client("a").says(["FLUSHALL", "PUBLISH ch m"]);
    story.conn(3).gets("FLUSHALL").answers("+OK");
    story.conn(4).gets("PUBLISH ch m").answers(":0");
    story.client("a").gets(["+OK", ":0"]);
    story.conn(1).gets("PUBLISH ch m").gets_nothing();
    story.conn(2).gets_nothing();
    story.conn(5).gets("FLUSHALL").gets_nothing().answers("+OK");
    story.conn(2).gets("PUBLISH ch m");
}

#[test]
fn a_large_write_is_kept_whole_and_one_that_is_too_large_is_told() {
    let mut settings = Settings { mirrors: vec![mirror("b")], ..Settings::default() };
    settings.limits.large_request_bytes = 1_000;
    let mut story = Story::with(settings);
    story.server_says_to("COMMAND", "*0");
    story.node_says_to("b", "EXISTS", ":1");
    story.client("a").sends(&crate::words::large_set("k", 5_000));
    assert!(story.conn(2).takes_one().is_some_and(|line| line.starts_with("SET k x")));
    story.conn(2).answers("+OK");
    story.client("a").gets("+OK");
    assert!(story.conn(1).takes_one().is_some_and(|line| line.starts_with("SET k x")));
    story.conn(1).answers("+OK");
    assert_eq!(counts(&story, 0), [1, 0, 0, 0]);
    story.client("a").sends(&crate::words::large_set("k", 2 << 20));
    assert!(story.server().takes_one().is_some_and(|line| line.starts_with("SET k x")));
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    assert_eq!(counts(&story, 0), [1, 0, 1, 0]);
}

#[test]
fn what_a_script_says_at_a_mirror_holds_nothing_up_and_is_not_run_again() {
    for text in
        ["-LOADING x", "-READONLY x", "-CLUSTERDOWN x", "-ERR respool: the primary is not known"]
    {
        let mut story = story();
        story.client("a").says(["EVAL x 1 k", "SET k 1"]);
        story.conn(2).gets(["EVAL x 1 k", "SET k 1"]).answers([":1", "+OK"]);
        story.client("a").gets([":1", "+OK"]);
        story.conn(1).gets(["EVAL x 1 k", "SET k 1"]).answers([text, "+OK"]);
        story.after_ms(2_000).conn(1).gets_nothing();
        assert_eq!(counts(&story, 0), [1, 1, 0, 0], "{text}");
    }
}

// Its client is gone, but writers of the key wait for the mirror as long as the request is not over.
#[test]
fn a_script_whose_reply_has_no_end_keeps_no_writer_of_its_key() {
    let mut story = story();
    story.client("a").says("EVAL return 1 k");
    story.conn(2).gets("EVAL return 1 k");
    let word = story.conn(2).takes_delimiter();
    story.client("a").dies();
    let begin = format!("*3\r\n$200000\r\n{}", "x".repeat(200_000));
    story.conn(2).sends(begin.as_bytes());
    let rest = format!("\r\n-x\r\n$5000\r\n$1\r\nz\r\n$24\r\n{word}\r\n");
    story.conn(2).sends(rest.as_bytes());
    assert!(story.engine.is_quiet());
    story.client("b").says("SET k 1");
    story.conn(2).gets("SET k 1").answers("+OK");
    story.client("b").gets("+OK");
}
