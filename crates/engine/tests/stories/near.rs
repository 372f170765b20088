//! Replies that are kept: nobody is given one that he might know to be old, and whoever wrote reads what he wrote.

use crate::tracking::{ALL, changed};
use crate::words::cluster::moved;
use crate::words::{Story, request};
use engine::acl::Users;
use engine::near::Options;
use engine::{Settings, hotkeys};

const ARM: &str = "CLIENT TRACKING ON REDIRECT 991 OPTIN";
const CACHING: &str = "CLIENT CACHING YES";

/// The shared connection of clients in RESP2, and the feed.
const SHARED: usize = 1;
const FEED: usize = 2;

fn options(min_reads: u32) -> Options {
    Options { enabled: true, min_reads, ..Options::default() }
}

/// One server, a feed of it, and nothing kept yet.
fn story() -> Story {
    story_with(|_| {})
}

pub(crate) fn story_with(change: impl FnOnce(&mut Settings)) -> Story {
    let mut settings = Settings { cache: options(1), ..Settings::default() };
    change(&mut settings);
    let mut story = Story::with(settings);
    // The first read finds no feed and wants one.
    story.client("warm").says("GET warm");
    story.conn(SHARED).gets("GET warm").answers("nil");
    story.client("warm").gets("nil");
    assert_eq!(story.connects_made(), 2);
    story
}

/// The client's read is kept; the first one of all tells the server of the feed.
pub(crate) fn keeps(story: &mut Story, client: &str, line: &str, reply: &str, arms: bool) {
    story.client(client).says(line);
    if arms {
        story.conn(SHARED).gets(ARM).answers("+OK");
    }
    story.conn(SHARED).gets([CACHING, line]).answers(["+OK", reply]);
    story.client(client).gets(reply);
}

/// The client is given what is kept.
#[track_caller]
fn hits(story: &mut Story, client: &str, line: &str, reply: &str) {
    story.client(client).says(line).gets(reply);
    story.conn(SHARED).gets_nothing();
}

/// The client's request goes to the server, and is no read that is to be kept.
#[track_caller]
fn goes(story: &mut Story, client: &str, line: &str, reply: &str) {
    story.client(client).says(line);
    let asked = story.conn(SHARED).gets(line).takes_one();
    match asked.as_deref() {
        None => {
            story.conn(SHARED).answers(reply);
        }
        // With a round that begins the shared connection is asked whether it lives.
        asked => {
            assert_eq!(asked, Some("PING"));
            story.conn(SHARED).gets_nothing().answers([reply, "+PONG"]);
        }
    }
    story.client(client).gets(reply);
}

/// The feed is asked whether it told everything, and says so.
#[track_caller]
fn feed_told_all(story: &mut Story) {
    story.conn(FEED).gets("PING").answers("+PONG");
}

/// A story in which `GET k` is kept as `1`.
fn kept() -> Story {
    let mut story = story();
    keeps(&mut story, "a", "GET k", "\"1\"", true);
    story
}

#[test]
fn what_one_read_all_are_given_until_it_changes() {
    let mut story = kept();
    for client in ["a", "b", "c"] {
        hits(&mut story, client, "GET k", "\"1\"");
    }
    story.conn(FEED).answers(&*changed("other k"));
    keeps(&mut story, "b", "GET k", "\"2\"", false);
    hits(&mut story, "a", "GET k", "\"2\"");
    let stats = story.engine.stats();
    assert_eq!((stats.cache_hits, stats.cache_kept, stats.cache_dropped_changed), (4, 2, 1));
    assert_eq!((stats.cache_misses, stats.requests), (3, 7));
    let get = engine::command::ids::GET;
    assert_eq!(stats.commands[get.index()].calls, 7);
}

#[test]
fn a_hit_stands_at_its_place_among_what_the_server_answers() {
    let mut story = kept();
    story.client("b").says(["GET x", "GET k", "GET y", "GET k"]);
    story.conn(SHARED).gets([CACHING, "GET x", CACHING, "GET y"]);
    story.client("b").gets_nothing();
    story.conn(SHARED).answers(["+OK", "\"x\""]);
    story.client("b").gets(["\"x\"", "\"1\""]);
    story.conn(SHARED).answers(["+OK", "\"y\""]);
    story.client("b").gets(["\"y\"", "\"1\""]);
}

#[test]
fn who_wrote_reads_what_he_wrote_also_before_the_feed_tells() {
    let mut story = kept();
    story.client("a").says(["SET k 2", "GET k"]);
    story.conn(SHARED).gets(["SET k 2", CACHING, "GET k"]);
    story.conn(SHARED).answers(["+OK", "+OK", "\"2\""]);
    story.client("a").gets(["+OK", "\"2\""]);
    hits(&mut story, "a", "GET k", "\"2\"");
    hits(&mut story, "b", "GET k", "\"2\"");
    // The news of that write costs a read, and nothing else.
    story.conn(FEED).answers(&*changed("k"));
    keeps(&mut story, "b", "GET k", "\"2\"", false);
}

#[test]
fn a_read_that_was_sent_before_a_write_is_not_kept_behind_it() {
    let mut story = kept();
    story.client("b").says("GET other");
    story.conn(SHARED).gets([CACHING, "GET other"]);
    story.client("a").says("MSET other 2 k 3");
    story.conn(SHARED).answers(["+OK", "\"1\""]).gets("MSET other 2 k 3").answers("+OK");
    story.client("b").gets("\"1\"");
    story.client("a").gets("+OK");
    keeps(&mut story, "a", "GET other", "\"2\"", false);
    keeps(&mut story, "a", "GET k", "\"3\"", false);
}

#[test]
fn a_change_that_is_told_while_a_read_is_on_its_way_spoils_it() {
    let mut story = kept();
    story.client("a").says("GET l");
    story.conn(SHARED).gets([CACHING, "GET l"]);
    story.conn(FEED).answers(&*changed("l"));
    story.conn(SHARED).answers(["+OK", "\"old\""]);
    story.client("a").gets("\"old\"");
    keeps(&mut story, "a", "GET l", "\"new\"", false);
    // One that is told behind the reply drops it.
    story.conn(FEED).answers(&*changed("l"));
    keeps(&mut story, "a", "GET l", "\"newer\"", false);
}

#[test]
fn a_flush_drops_all_also_what_is_on_its_way() {
    let mut story = kept();
    story.client("b").says("GET l");
    story.conn(SHARED).gets([CACHING, "GET l"]);
    story.conn(FEED).answers(ALL);
    story.conn(SHARED).answers(["+OK", "\"l\""]);
    story.client("b").gets("\"l\"");
    keeps(&mut story, "b", "GET k", "nil", false);
    keeps(&mut story, "b", "GET l", "nil", false);
    hits(&mut story, "a", "GET l", "nil");
}

#[test]
fn a_lost_feed_drops_all_and_the_next_one_is_told_to_the_server() {
    let mut story = kept();
    story.client("b").says("GET l");
    story.conn(SHARED).gets([CACHING, "GET l"]);
    story.after_ms(2_000).conn(FEED).dies("connection reset");
    story.conn(SHARED).answers(["+OK", "\"l\""]);
    story.client("b").gets("\"l\"");
    assert_eq!(story.connects_made(), 3);
    // This server gives all connections the same number, so the shared one is told nothing new; the feed is there again.
    keeps(&mut story, "a", "GET k", "\"2\"", false);
    keeps(&mut story, "a", "GET l", "\"3\"", false);
    assert_eq!(story.engine.stats().cache_dropped_lost, 2);
}

#[test]
fn without_a_feed_all_goes_to_the_server() {
    let mut story = Story::with(Settings { cache: options(1), ..Settings::default() });
    story.server_says_to("HELLO 3", "-NOPROTO unsupported protocol version");
    for _ in 0..5 {
        goes(&mut story, "a", "GET k", "\"1\"");
    }
    assert_eq!((story.engine.stats().cache_hits, story.engine.stats().cache_kept), (0, 0));
}

#[test]
fn a_lost_shared_connection_drops_what_was_read_over_it() {
    let mut story = kept();
    story.after_ms(2_000).conn(SHARED).dies("connection reset");
    story.client("a").says("GET k");
    story.conn(3).gets([ARM, CACHING, "GET k"]).answers(["+OK", "+OK", "\"2\""]);
    story.client("a").gets("\"2\"");
    story.client("b").says("GET k").gets("\"2\"");
    story.conn(3).gets_nothing();
}

#[test]
fn a_server_that_refuses_to_tell_is_asked_again_later_and_nothing_is_kept() {
    let mut story = story();
    let refused = "-NOPERM this user has no permissions to run the 'client|tracking' command";
    story.client("a").says("GET k");
    story.conn(SHARED).gets([ARM, CACHING, "GET k"]);
    story.conn(SHARED).answers([refused, "-ERR no tracking", "\"1\""]);
    story.client("a").gets("\"1\"");
    goes(&mut story, "a", "GET k", "\"2\"");
    assert_eq!((story.engine.stats().cache_refused, story.engine.stats().cache_kept), (2, 0));
    story.after_ms(10_001);
    keeps(&mut story, "a", "GET k", "\"3\"", true);
    hits(&mut story, "b", "GET k", "\"3\"");
}

#[test]
fn an_entry_serves_no_longer_than_its_time() {
    let mut story = kept();
    story.after_ms(4_999);
    hits(&mut story, "b", "GET k", "\"1\"");
    story.after_ms(1);
    keeps(&mut story, "b", "GET k", "\"2\"", false);
    assert_eq!(story.engine.stats().cache_dropped_expired, 1);
    // The time counts from the question and not from the answer.
    story.client("b").says("GET l");
    story.conn(SHARED).gets([CACHING, "GET l"]);
    story.after_ms(3_000).conn(SHARED).answers(["+OK", "\"l\""]);
    story.client("b").gets("\"l\"");
    story.after_ms(2_000);
    keeps(&mut story, "b", "GET l", "\"m\"", false);
}

#[test]
fn only_what_comes_often_is_kept() {
    let mut story = story_with(|settings| settings.cache = options(3));
    goes(&mut story, "a", "GET k", "\"1\"");
    goes(&mut story, "a", "GET rare", "\"1\"");
    goes(&mut story, "b", "GET k", "\"1\"");
    keeps(&mut story, "b", "GET k", "\"1\"", true);
    hits(&mut story, "a", "GET k", "\"1\"");
    goes(&mut story, "a", "GET rare", "\"1\"");
    // Reads of long ago do not count.
    story.after_ms(10_000);
    goes(&mut story, "a", "GET rare", "\"1\"");
}

#[test]
fn only_keys_of_the_patterns_are_kept() {
    let mut story = story_with(|settings| settings.cache.keys = vec![b"hot:*".to_vec()]);
    for _ in 0..2 {
        goes(&mut story, "a", "GET cold:1", "\"1\"");
        goes(&mut story, "a", "MGET hot:1 cold:1", "*0\r\n");
    }
    keeps(&mut story, "a", "GET hot:1", "\"1\"", true);
    hits(&mut story, "a", "GET hot:1", "\"1\"");
    keeps(&mut story, "a", "MGET hot:1 hot:2", "*0\r\n", false);
}

#[test]
fn what_has_too_many_keys_is_not_kept() {
    let mut story = kept();
    let many = format!("MGET{}", " x".repeat(engine::limits::CACHE_KEYS_MAX + 1));
    for _ in 0..2 {
        goes(&mut story, "b", &many, "*0\r\n");
    }
}

#[test]
fn large_replies_and_errors_are_not_kept_and_nobody_is_wary_for_them() {
    let mut story = story_with(|settings| settings.cache.value_max_bytes = 20);
    let large = "\"0123456789abcdefghij\"";
    keeps(&mut story, "a", "GET k", "\"1\"", true);
    keeps(&mut story, "a", "GET large", large, false);
    goes(&mut story, "a", "GET large", large);
    keeps(&mut story, "a", "GET list", "-WRONGTYPE not a string", false);
    goes(&mut story, "a", "GET list", "-WRONGTYPE not a string");
    hits(&mut story, "a", "GET k", "\"1\"");
    // One that is given on in parts is none either.
    let bytes = 100 << 10;
    story.client("a").says("GET huge");
    let head = format!("+OK\r\n${bytes}\r\n");
    story.conn(SHARED).gets([CACHING, "GET huge"]).sends(head.as_bytes());
    let body = vec![b'x'; bytes];
    story.conn(SHARED).sends(&body[..bytes / 2]).sends(&body[bytes / 2..]).sends(b"\r\n");
    assert_eq!(story.client("a").takes().len(), bytes + 2 + head.len() - 5);
    story.client("a").says("GET huge");
    story.conn(SHARED).gets("GET huge").gets_nothing();
    assert_eq!(story.engine.stats().cache_kept, 1);
}

#[test]
fn memory_is_bounded_and_what_nobody_asks_for_goes() {
    let mut story = story_with(|settings| settings.cache.memory_max_bytes = 1_200);
    keeps(&mut story, "a", "GET hot", "\"1\"", true);
    for n in 0..50 {
        hits(&mut story, "b", "GET hot", "\"1\"");
        keeps(&mut story, "a", &format!("GET k{n}"), "\"1\"", false);
    }
    let report = story.engine.report(story.now);
    let near = engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "near_cache");
    assert!((1..=1_200).contains(&report.memory[near.expect("a kind of memory")]));
    assert!((3..=6).contains(&report.cache_entries), "{} entries", report.cache_entries);
    assert!(story.engine.stats().cache_dropped_evicted >= 44);
}

#[test]
fn it_gives_way_before_a_client_is_closed_for_memory() {
    let mut story = story_with(|settings| {
        settings.limits.memory_max_bytes = 260_000;
        settings.cache.memory_max_bytes = 1 << 20;
    });
    let value = format!("\"{}\"", "v".repeat(10_000));
    keeps(&mut story, "a", "GET k0", &value, true);
    (1..10).for_each(|n| keeps(&mut story, "a", &format!("GET k{n}"), &value, false));
    assert_eq!(story.report().cache_entries, 10);
    let echo = request(&format!("ECHO {}", "x".repeat(1_000)));
    story.client("slow").stops_taking().sends(&echo.repeat(150)).is_open();
    assert!((1..7).contains(&story.report().cache_entries), "{:?}", story.report().memory);
    story.client("slow").sends(&echo.repeat(140)).is_closed();
    assert_eq!(story.engine.stats().clients_evicted, 1);
}

#[test]
fn who_ran_a_script_is_given_nothing_until_the_feeds_have_told_all() {
    let mut story = kept();
    story.client("a").says("EVAL script 0");
    story.conn(SHARED).gets("EVAL script 0");
    // It is under way, and then answered, but a feed may be late.
    story.client("a").says("GET k");
    story.conn(SHARED).gets("GET k").answers([":1", "\"1\""]);
    story.client("a").gets([":1", "\"1\""]);
    story.client("a").says("GET k");
    story.conn(SHARED).gets(["GET k", "PING"]);
    // Others are not concerned.
    hits(&mut story, "b", "GET k", "\"1\"");
    // If it sees another value, nobody is given the old one any more.
    story.conn(SHARED).answers(["\"2\"", "+PONG"]);
    story.client("a").gets("\"2\"");
    keeps(&mut story, "b", "GET k", "\"2\"", false);
    assert_eq!(story.engine.stats().cache_bypassed, 2);
}

#[test]
fn a_shared_connection_that_may_be_dead_keeps_a_client_wary() {
    let mut story = kept();
    story.client("a").says("EVAL script 0");
    story.conn(SHARED).gets("EVAL script 0").answers(":1");
    story.client("a").gets(":1").says("GET k");
    story.conn(SHARED).gets(["GET k", "PING"]);
    // The feed has nothing to tell of a connection that the server has closed meanwhile.
    feed_told_all(&mut story);
    story.client("a").says("GET k");
    story.conn(SHARED).gets("GET k");
    story.after_ms(2_000).conn(SHARED).dies("connection reset");
    let error = "-ERR respool: upstream 127.0.0.1:6379: connection reset";
    story.client("a").gets([error, error]).says("GET k");
    story.conn(3).gets([ARM, CACHING, "GET k"]);
}

#[test]
fn a_client_that_was_wary_is_given_again_when_the_feeds_have_told_all() {
    for line in ["EVAL script 0", "FLUSHDB", "DBSIZE", "FCALL f 0", "GETEX k PERSIST"] {
        let mut story = kept();
        story.client("w").says("GET k").gets("\"1\"");
        story.client("w").says(line);
        let conn = if line == "FLUSHDB" { story.connects_made() } else { SHARED };
        story.conn(conn).gets(line).answers(":1");
        story.client("w").gets(":1");
        if line.starts_with("GETEX") {
            // It names its key, so that goes and nothing else is in doubt.
            keeps(&mut story, "w", "GET k", "\"1\"", false);
            continue;
        }
        goes(&mut story, "w", "GET k", "\"1\"");
        if line == "FLUSHDB" {
            // The one before went the long way, from one connection to another, and is in doubt itself.
            goes(&mut story, "w", "GET k", "\"1\"");
        }
        feed_told_all(&mut story);
        hits(&mut story, "w", "GET k", "\"1\"");
    }
}

#[test]
fn a_round_that_began_before_does_not_count() {
    let mut story = kept();
    for client in ["b", "c"] {
        goes(&mut story, client, "DBSIZE", ":1");
    }
    goes(&mut story, "b", "GET k", "\"1\"");
    story.conn(FEED).gets("PING");
    // `c` was answered after that PING, and what it saw may be told after it.
    goes(&mut story, "c", "DBSIZE", ":1");
    goes(&mut story, "c", "GET k", "\"1\"");
    story.conn(FEED).gets_nothing().answers("+PONG");
    story.conn(SHARED).gets("PING").answers("+PONG");
    hits(&mut story, "b", "GET k", "\"1\"");
    goes(&mut story, "c", "GET k", "\"1\"");
    feed_told_all(&mut story);
    hits(&mut story, "c", "GET k", "\"1\"");
    story.conn(FEED).gets_nothing();
}

#[test]
fn who_reads_a_kept_key_otherwise_does_not_go_back_in_time() {
    let mut story = kept();
    keeps(&mut story, "a", "GET l", "\"1\"", false);
    goes(&mut story, "a", "TTL k", ":9");
    goes(&mut story, "a", "GET k", "\"1\"");
    hits(&mut story, "a", "GET l", "\"1\"");
    feed_told_all(&mut story);
    hits(&mut story, "a", "GET k", "\"1\"");
    // Also when the other read is kept itself.
    keeps(&mut story, "b", "STRLEN k", ":1", false);
    goes(&mut story, "b", "GET k", "\"1\"");
    feed_told_all(&mut story);
    hits(&mut story, "b", "GET k", "\"1\"");
    hits(&mut story, "b", "STRLEN k", ":1");
    // A read of something else says nothing of it.
    goes(&mut story, "a", "TTL other", ":9");
    hits(&mut story, "a", "GET k", "\"1\"");
}

#[test]
fn who_reads_while_the_reply_to_another_is_on_its_way_does_not_go_back_in_time() {
    let mut story = kept();
    story.client("a").says("GET l");
    story.client("b").says("GET l");
    story.conn(SHARED).gets([CACHING, "GET l", "GET l"]).answers(["+OK", "\"1\"", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("b").gets("\"2\"");
    // The feed is late: what `b` saw tells that the kept one is old.
    keeps(&mut story, "a", "GET l", "\"2\"", false);
    hits(&mut story, "b", "GET l", "\"2\"");
    hits(&mut story, "b", "GET k", "\"1\"");
}

// The reply to the first read is on its way, and may be newer than what is kept meanwhile.
#[test]
fn who_pipelines_reads_of_one_key_does_not_go_back_in_time() {
    for other in ["get k", "GETRANGE k 0 -1", "STRLEN k"] {
        let mut story = story();
        keeps(&mut story, "b", other, "\"1\"", true);
        // `a` asks for what somebody else has asked for, and then for what is kept.
        story.client("b").says("GET k");
        story.client("a").says("GET k");
        story.client("a").says(other);
        story.conn(SHARED).gets([CACHING, "GET k", "GET k", other]);
    }
    let mut story = story();
    keeps(&mut story, "a", "GET x", "\"1\"", true);
    story.client("a").says("GET k");
    story.client("b").says("GET k");
    story.conn(SHARED).gets([CACHING, "GET k", "GET k"]).answers(["+OK", "\"1\""]);
    story.client("a").gets("\"1\"");
    // The cache keeps the reply that `a` got, and the next reply to `b` may be newer.
    story.client("b").says("GET k");
    story.conn(SHARED).gets("GET k").answers(["\"2\"", "\"2\""]);
    story.client("b").gets(["\"2\"", "\"2\""]);
    // No round of the feeds is needed where that was all.
    keeps(&mut story, "b", "GET k", "\"2\"", false);
    hits(&mut story, "b", "GET k", "\"2\"");
}

// The cache keeps both replies, since no client has seen one before. The feed tells late that the earlier reply is stale.
#[test]
fn a_reply_that_is_kept_beside_an_earlier_one_serves_when_the_feeds_have_told_all() {
    let mut story = kept();
    keeps(&mut story, "b", "GETRANGE k 0 -1", "\"2\"", false);
    goes(&mut story, "c", "GETRANGE k 0 -1", "\"2\"");
    story.conn(FEED).gets("PING");
    hits(&mut story, "d", "GET k", "\"1\"");
    story.conn(FEED).answers(&*changed("k")).answers("+PONG");
    keeps(&mut story, "d", "GET k", "\"2\"", false);
    // Where nothing changed, both serve.
    let mut story = kept();
    keeps(&mut story, "b", "GETRANGE k 0 -1", "\"1\"", false);
    goes(&mut story, "c", "GETRANGE k 0 -1", "\"1\"");
    feed_told_all(&mut story);
    hits(&mut story, "d", "GETRANGE k 0 -1", "\"1\"");
    hits(&mut story, "d", "GET k", "\"1\"");
}

#[test]
fn what_the_proxy_answers_itself_makes_nobody_wary() {
    let mut story = kept();
    story.client("a").says("PING").gets("+PONG");
    story.client("a").says("CLIENT SETNAME me").gets("+OK");
    hits(&mut story, "a", "GET k", "\"1\"");
}

#[test]
fn in_and_behind_a_transaction_nothing_is_given() {
    let mut story = kept();
    story.client("a").says(["MULTI", "GET k", "SET k 2", "EXEC"]);
    story.conn(SHARED).gets(["MULTI", "GET k", "SET k 2", "EXEC"]);
    story.conn(SHARED).answers(["+OK", "+QUEUED", "+QUEUED", "*2\r\n$1\r\n1\r\n+OK\r\n"]);
    story.client("a").takes();
    goes(&mut story, "a", "GET k", "\"2\"");
    story.conn(FEED).gets("PING").answers(&*changed("k")).answers("+PONG");
    keeps(&mut story, "a", "GET k", "\"2\"", false);
    // Over a connection of its own, one by one.
    story.client("a").says("WATCH k");
    let own = story.connects_made();
    story.conn(own).gets("WATCH k").answers("+OK");
    story.client("a").gets("+OK").says("GET k");
    story.conn(own).gets("GET k").answers("\"2\"");
    story.client("a").gets("\"2\"").says("UNWATCH");
    story.conn(own).gets("UNWATCH").answers("+OK");
    story.client("a").gets("+OK");
    goes(&mut story, "a", "GET k", "\"2\"");
    feed_told_all(&mut story);
    hits(&mut story, "a", "GET k", "\"2\"");
}

#[test]
fn many_keys_are_one_reply_and_each_of_them_drops_it() {
    let mut story = kept();
    let reply = "*2\r\n$1\r\n1\r\n$-1\r\n";
    keeps(&mut story, "b", "MGET k l", reply, false);
    // It may have seen a later `k` than the one that is kept.
    goes(&mut story, "b", "GET k", "\"1\"");
    feed_told_all(&mut story);
    hits(&mut story, "b", "GET k", "\"1\"");
    hits(&mut story, "b", "MGET k l", reply);
    story.conn(FEED).answers(&*changed("l"));
    keeps(&mut story, "c", "MGET k l", reply, false);
    story.client("c").says("DEL l");
    story.conn(SHARED).gets("DEL l").answers(":0");
    story.client("c").gets(":0");
    keeps(&mut story, "d", "MGET k l", reply, false);
}

#[test]
fn reads_of_one_key_in_all_their_kinds_are_kept() {
    let mut story = kept();
    let reads = [
        ("HGET h f", "\"1\""),
        ("HMGET h1 f g", "*2\r\n$1\r\n1\r\n$-1\r\n"),
        ("HGETALL h2", "*0\r\n"),
        ("ZSCORE z m", "\"1.5\""),
        ("SMEMBERS s", "*0\r\n"),
        ("LRANGE l 0 -1", "*0\r\n"),
        ("EXISTS e", ":1"),
        ("SISMEMBER s2 m", ":0"),
    ];
    for (line, reply) in reads {
        keeps(&mut story, "a", line, reply, false);
    }
    for (line, reply) in reads {
        hits(&mut story, "b", line, reply);
    }
    // What draws by chance or tells a time is not.
    for line in ["SRANDMEMBER s3", "TTL t", "HRANDFIELD h3", "PFCOUNT p", "TOUCH k2"] {
        goes(&mut story, "b", line, ":1");
        goes(&mut story, "b", line, ":2");
    }
}

#[test]
fn each_protocol_and_each_database_has_replies_of_its_own() {
    let mut story = kept();
    story.client("three").says("HELLO 3").takes();
    let third = story.connects_made();
    story.client("three").says("GET k");
    story.conn(third).gets("GET k").answers("_");
    story.client("three").gets("_").says("GET k");
    story.conn(third).gets([ARM, CACHING, "GET k"]).answers(["+OK", "+OK", "_"]);
    story.client("three").gets("_").says("GET k");
    // Its first request took the long way, so it is wary at first.
    story.conn(third).gets(["GET k", "PING"]).gets_nothing().answers(["_", "+PONG"]);
    story.conn(SHARED).gets("PING").answers("+PONG");
    feed_told_all(&mut story);
    story.client("three").gets("_").says("GET k").gets("_");
    story.conn(third).gets_nothing();
    hits(&mut story, "a", "GET k", "\"1\"");
    story.client("b").says("SELECT 4");
    let fourth = story.connects_made();
    story.client("b").gets("+OK").says("GET k");
    story.conn(fourth).gets("GET k").answers("\"4\"");
    story.client("b").gets("\"4\"").says("GET k");
    story.conn(fourth).gets([ARM, CACHING, "GET k"]).answers(["+OK", "+OK", "\"4\""]);
    story.client("b").gets("\"4\"").says("GET k");
    story.conn(fourth).gets(["GET k", "PING"]).gets_nothing().answers(["\"4\"", "+PONG"]);
    story.conn(SHARED).gets("PING").answers("+PONG");
    story.conn(third).gets("PING").answers("+PONG");
    feed_told_all(&mut story);
    story.client("b").gets("\"4\"").says("GET k").gets("\"4\"");
    // A change is told by the name of the key alone.
    story.conn(FEED).answers(&*changed("k"));
    keeps(&mut story, "a", "GET k", "\"2\"", false);
    story.client("three").says("GET k");
    story.conn(third).gets([CACHING, "GET k"]);
}

#[test]
fn who_goes_on_in_another_protocol_does_not_go_back_in_time() {
    let mut story = kept();
    story.client("d").says("HELLO 3").takes();
    let third = story.connects_made();
    story.client("d").says("GET y");
    story.conn(third).gets("GET y").answers("\"1\"");
    story.client("d").gets("\"1\"").says("GET y");
    story.conn(third).gets([ARM, CACHING, "GET y"]).answers(["+OK", "+OK", "\"1\""]);
    story.client("d").gets("\"1\"").says("GET y");
    story.conn(third).gets(["GET y", "PING"]).answers(["\"1\"", "+PONG"]);
    story.conn(SHARED).gets("PING").answers("+PONG");
    feed_told_all(&mut story);
    // The key changes, and the feed is late. What is read over the other connection is newer than what was read over the first.
    story.client("d").gets("\"1\"");
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("GET k");
    story.conn(third).gets("GET k").answers("\"2\"");
    story.client("b").gets("\"2\"").says("GET k");
    story.conn(third).gets([CACHING, "GET k"]).answers(["+OK", "\"2\""]);
    story.client("b").gets("\"2\"");
    story.client("d").says("GET k").gets("\"2\"");
    story.conn(third).gets_nothing();
    story.client("d").says("HELLO 2").takes();
    goes(&mut story, "d", "GET k", "\"2\"");
}

#[test]
fn a_change_that_comes_in_pieces_is_one_change() {
    let mut story = kept();
    for byte in changed("k").as_bytes() {
        hits(&mut story, "a", "GET k", "\"1\"");
        story.conn(FEED).sends(&[*byte]);
    }
    keeps(&mut story, "a", "GET k", "\"2\"", false);
}

#[test]
fn clients_that_cache_themselves_or_watch_all_are_given_nothing() {
    let mut story = kept();
    story.client("t").says("HELLO 3").takes();
    story.client("t").says("CLIENT TRACKING ON").gets("+OK").says("GET k");
    let own = story.connects_made();
    story.conn(own).gets("CLIENT TRACKING ON").answers("+OK");
    story.conn(own).gets("GET k").answers("\"1\"");
    // While somebody is shown what is asked for, all goes to the server.
    story.client("m").says("MONITOR").gets("+OK");
    story.client("a").says("GET k");
    story.conn(SHARED).gets("GET k").answers("\"1\"");
    story.client("a").gets("\"1\"");
}

#[test]
fn who_may_not_read_a_key_is_not_given_it() {
    let mut users = Users::default();
    let rules: [&[u8]; 5] = [b"on", b"nopass", b"~other", b"+get", b"+set"];
    users.set(b"eve", &rules).expect("rules");
    let mut story = story_with(|settings| settings.users = users.into());
    keeps(&mut story, "a", "GET k", "\"1\"", true);
    keeps(&mut story, "a", "GET other", "\"2\"", false);
    story.client("e").says("AUTH eve x").gets("+OK").says("GET other").gets("\"2\"");
    story.client("e").says("GET k");
    assert!(story.client("e").takes_text().starts_with("-NOPERM"));
    story.client("e").says(["SET other 3", "GET other"]);
    story.conn(SHARED).gets(["SET other 3", CACHING, "GET other"]);
}

#[test]
fn switched_off_nothing_is_kept_and_the_server_may_forget() {
    let mut story = kept();
    story.reconfigures(|settings| settings.cache.enabled = false);
    story.conn(SHARED).gets("CLIENT TRACKING OFF").answers("+OK");
    story.conn(FEED).is_closed();
    goes(&mut story, "a", "GET k", "\"2\"");
    story.reconfigures(|settings| settings.cache.enabled = true);
    goes(&mut story, "a", "GET k", "\"3\"");
    story.client("a").says("GET k");
    story.conn(SHARED).gets([ARM, CACHING, "GET k"]).answers(["+OK", "+OK", "\"4\""]);
    story.client("a").gets("\"4\"");
    hits(&mut story, "b", "GET k", "\"4\"");
    // Other options: what was kept by the former ones goes.
    story.reconfigures(|settings| settings.cache.ttl_ms = 100);
    keeps(&mut story, "b", "GET k", "\"5\"", false);
    story.after_ms(100);
    keeps(&mut story, "b", "GET k", "\"6\"", false);
}

#[test]
fn hot_keys_are_seen_also_where_the_server_sees_nothing() {
    let hot = hotkeys::Options { enabled: true, sample: 1, ..hotkeys::Options::default() };
    let mut story = story_with(|settings| settings.hotkeys = hot);
    keeps(&mut story, "a", "GET k", "\"1\"", true);
    for _ in 0..7 {
        hits(&mut story, "b", "GET k", "\"1\"");
    }
    story.client("a").says("TOPKEYS GET");
    let shown = story.client("a").takes_text();
    assert!(shown.contains("$1\r\nk\r\n") && shown.contains(":8\r\n"), "{shown}");
}

#[test]
fn reads_that_are_not_kept_are_still_sent_once() {
    let mut story = story_with(|settings| {
        settings.coalesce_reads = true;
        settings.cache.min_reads = 100;
    });
    for client in ["a", "b"] {
        story.client(client).sends_at_once(&request("GET k"));
    }
    story.turn();
    story.conn(SHARED).gets("GET k").gets_nothing().answers("\"1\"");
    story.client("a").gets("\"1\"");
    story.client("b").gets("\"1\"");
}

#[test]
fn a_client_that_does_not_read_is_not_filled_with_hits() {
    let mut story = story_with(|settings| settings.limits.client_out_high_bytes = 4_000);
    let value = "v".repeat(1_000);
    keeps(&mut story, "a", "GET k", &format!("\"{value}\""), true);
    story.client("b").stops_taking().says(vec!["GET k"; 100]);
    let held = story.engine.report(story.now).client_out_bytes_max;
    assert!(held <= 3 * 4_000, "{held} bytes wait");
    story.client("b").takes_all();
    assert_eq!(story.client("b").takes().len(), 100 * (1_000 + 9));
}

/// A cluster in which `GET a4` is kept at n1, whose second connection is the feed.
fn cluster() -> Story {
    let mut story = Story::warm_cluster();
    story.reconfigures(|settings| settings.cache = options(1));
    story.client("a").says("GET a4");
    story.node_conn("n1", 1).gets("GET a4").answers("\"1\"");
    story.client("a").gets("\"1\"");
    assert_eq!(story.connects_to("n1"), 2);
    story.client("a").says("GET a4");
    story.node_conn("n1", 1).gets([ARM, CACHING, "GET a4"]).answers(["+OK", "+OK", "\"1\""]);
    story.client("a").gets("\"1\"").says("GET a4").gets("\"1\"");
    story.node_conn("n1", 1).gets_nothing();
    story
}

#[test]
fn each_node_of_a_cluster_has_a_feed_and_a_lost_one_drops_its_keys() {
    let mut story = cluster();
    story.client("b").says("GET a4").gets("\"1\"");
    story.node_conn("n1", 2).answers(&*changed("a4"));
    story.client("b").says("GET a4");
    story.node_conn("n1", 1).gets([CACHING, "GET a4"]).answers(["+OK", "\"2\""]);
    story.client("b").gets("\"2\"");
    story.after_ms(1_500).node_conn("n1", 2).dies("connection reset");
    story.client("b").says("GET a4");
    story.node_conn("n1", 1).gets([CACHING, "GET a4"]).answers(["+OK", "\"3\""]);
    story.client("b").gets("\"3\"");
}

#[test]
fn what_is_split_between_nodes_is_not_kept_and_makes_wary_of_its_keys_only() {
    let mut story = cluster();
    story.client("a").says("MGET a8 b4");
    story.node_conn("n1", 1).gets("MGET a8").answers("*1\r\n$1\r\nv\r\n");
    story.node("n2").gets("MGET b4").answers("*1\r\n$1\r\nv\r\n");
    story.client("a").gets("*2\r\n$1\r\nv\r\n$1\r\nv\r\n").says("GET a4").gets("\"1\"");
}

#[test]
fn a_read_that_is_sent_on_is_not_kept_and_while_slots_move_nothing_is_given() {
    let mut story = cluster();
    story.client("b").says("GET a8");
    story.node_conn("n1", 1).gets([CACHING, "GET a8"]).answers(["+OK", &*moved("a8", "n2")]);
    story.node("n2").gets("GET a8").answers("\"8\"");
    story.client("b").gets("\"8\"");
    for client in ["a", "b"] {
        story.client(client).says("GET a4");
        story.node_conn("n1", 1).gets("GET a4").gets_nothing().answers("\"1\"");
        story.client(client).gets("\"1\"");
    }
    assert_eq!(story.engine.report(story.now).cache_entries, 0);
    // A second later it is again.
    story.after_ms(1_001).client("c").says("GET a4");
    story.node_conn("n1", 1).gets([CACHING, "GET a4"]).answers(["+OK", "\"2\""]);
    story.client("c").gets("\"2\"").says("GET a4").gets("\"2\"");
}

#[test]
fn a_node_that_is_lost_takes_what_was_read_there_along() {
    let mut story = cluster();
    story.client("b").says("GET a12");
    story.node_conn("n1", 1).gets([CACHING, "GET a12"]);
    story.after_ms(1_500).node_conn("n1", 1).dies("connection reset");
    // The read goes on over the next connection, for its client and for nobody else.
    story.node_conn("n1", 3).gets("GET a12").answers("\"12\"");
    story.client("b").gets("\"12\"");
    assert_eq!(story.engine.report(story.now).cache_entries, 0);
}
