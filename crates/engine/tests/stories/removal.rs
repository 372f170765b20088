//! Routes that remove their prefix: servers know keys without it, and clients never see that.
//!
//! `o:` is n1's, who does not see it; `o:a:` is n2's and `` is n3's, who see keys as they are. With a cluster, `c:` is that of c1 and c2, who do not see it either.

use crate::tracking::{ALL, caches, changed};
use crate::words::cluster::{ask, list, lost, moved};
use crate::words::shards::{child_of, route};
use crate::words::{Story, large_set, request, wire};
use engine::node::Address;
use engine::policy::{Namespace, Policies, Rules};
use engine::route::shard::{Route, Routes};
use engine::route::slot::slot;
use engine::settings::{Pool, Settings};
use std::sync::Arc;

const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.";
const CROSSSLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";
const QUEUED: &str = "+QUEUED";

fn removed(prefix: &str, shards: &[u16]) -> Route {
    Route { removes: true, ..route(prefix, shards) }
}

fn routes() -> Vec<Route> {
    vec![removed("o:", &[0]), route("o:a:", &[1]), route("", &[2])]
}

fn single() -> Story {
    Story::shards_with(|shards| {
        shards.sharding.routes = Some(Routes { ignore_case: false, list: routes() });
    })
}

/// c1 has the lower half of the slots.
fn cluster() -> Story {
    let mut story = Story::shards_with(|shards| {
        let seeds = vec![Address::tcp("c1", 7_000)];
        shards.children[1] = child_of("cache", Pool::Cluster { seeds });
        let list = vec![removed("o:", &[0]), removed("c:", &[1]), route("", &[2])];
        shards.sharding.routes = Some(Routes { ignore_case: false, list });
    });
    story.cluster_is("0-8191 c1, 8192-16383 c2");
    story
}

/// A key of the cluster that lies at c1 (or at c2) under its servers' name, and elsewhere under the clients'.
fn of_half(lower: bool, nth: usize) -> String {
    let fits = |key: &String| {
        let of = |text: &str| slot(text.as_bytes()) < 8_192;
        of(key) == lower && of(&format!("c:{key}")) != lower
    };
    (0..).map(|n| format!("k{n}")).filter(fits).nth(nth).expect("one of all")
}

#[test]
fn a_server_sees_keys_without_the_prefix_and_its_neighbours_see_theirs() {
    let mut story = single();
    story.client("a").says(["SET o:1 o:x", "GET o:a:1", "GET o:", "GET x", "STRLEN o:1"]);
    story.node("n1").gets(["SET 1 o:x", "GET ", "STRLEN 1"]).answers(["+OK", "\"e\"", ":3"]);
    story.node("n2").gets("GET o:a:1").answers("\"2\"");
    story.node("n3").gets("GET x").answers("nil");
    story.client("a").gets(["+OK", "\"2\"", "\"e\"", "nil", ":3"]);
    // What begins otherwise is none of n1's, whatever n1 calls it.
    story.client("a").says("GET 1");
    story.node("n3").gets("GET 1").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn requests_are_split_over_routes_that_remove_and_others() {
    let mut story = single();
    story.client("a").says(["MGET o:1 x o:2 o:a:1", "MSET o:1 a x b", "DEL o:1 o:2 y"]);
    story.node("n1").gets(["MGET 1 2", "MSET 1 a", "DEL 1 2"]);
    story.node("n1").answers([&*list(["\"1\"", "\"2\""]), "+OK", ":2"]);
    story.node("n2").gets("MGET o:a:1").answers(&list("nil"));
    story.node("n3").gets(["MGET x", "MSET x b", "DEL y"]).answers([&*list("\"x\""), "+OK", ":1"]);
    let values = list(["\"1\"", "\"x\"", "\"2\"", "nil"]);
    story.client("a").gets([&*values, "+OK", ":3"]);
    story.client("a").says(["RENAME o:1 o:2", "RENAME o:1 x", "COPY o:1 o:a:1", "LCS o:1 o:2"]);
    story.node("n1").gets(["RENAME 1 2", "LCS 1 2"]).answers(["+OK", "\"\""]);
    story.client("a").gets(["+OK", CROSSSLOT, CROSSSLOT, "\"\""]);
}

#[test]
fn scripts_sort_and_streams_name_keys_as_the_server_does() {
    let mut story = single();
    story.client("a").says([
        "EVAL ret 2 o:1 o:2 o:3",
        "SORT o:l BY o:w* GET # GET o:v*->f STORE o:d",
        "OBJECT ENCODING o:1",
        "XGROUP CREATE o:s g $",
    ]);
    let lines = ["EVAL ret 2 1 2 o:3", "SORT l BY w* GET # GET v*->f STORE d"];
    story.node("n1").gets(lines).gets(["OBJECT ENCODING 1", "XGROUP CREATE s g $"]);
    let nogroup = |key: &str| format!("-NOGROUP No such key '{key}' or consumer group 'g'");
    story.node("n1").answers(["\"1\"", ":3", "\"int\"", &nogroup("s")]);
    story.client("a").gets(["\"1\"", ":3", "\"int\"", &nogroup("o:s")]);
    const REFUSED: &str = "-ERR respool: BY and GET of SORT name keys that may lie on other shards; give them the hash tag of the sorted key";
    story.client("a").says(["SORT o:l BY w*", "SORT o:l GET o:*", "SORT o:l GET *"]);
    story.client("a").gets([REFUSED; 3]);
}

#[test]
fn replies_name_keys_as_clients_do() {
    let mut story = single();
    let head = |key: &str| list([&*format!("\"{key}\""), "\"v\""]);
    story.client("a").says("BLPOP o:1 o:2 0");
    story.node("n1").gets("BLPOP 1 2 0").answers(&head("2"));
    story.client("a").gets(&head("o:2"));
    let popped = |key: &str| list([&*format!("\"{key}\""), &*list("\"v\"")]);
    story.client("a").says("LMPOP 2 o:1 o:2 LEFT");
    story.node("n1").gets("LMPOP 2 1 2 LEFT").answers(&popped("1"));
    story.client("a").gets(&popped("o:1"));
    let read = |key: &str| {
        list(&*list([
            &*format!("\"{key}\""),
            &*list(&*list(["\"1-0\"", &*list(["\"f\"", "\"v\""])])),
        ]))
    };
    story.client("a").says("XREAD STREAMS o:s 0");
    story.node("n1").gets("XREAD STREAMS s 0").answers(&read("s"));
    story.client("a").gets(&read("o:s"));
    story.client("a").says("XREADGROUP GROUP g c BLOCK 0 STREAMS o:s >");
    let line = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >";
    story.node_conn("n1", 1).gets(line).answers("*-1");
    story.client("a").gets("*-1");
}

#[test]
fn in_a_transaction_each_answer_names_keys_as_clients_do() {
    let mut story = single();
    let popped = |key: &str| list([&*format!("\"{key}\""), &*list("\"v\"")]);
    let done = |key: &str| list(["+OK", &*popped(key), ":1"]);
    let lines = ["MULTI", "SET o:1 x", "LMPOP 1 o:l LEFT", "DEL o:1", "EXEC"];
    let sent = ["MULTI", "SET 1 x", "LMPOP 1 l LEFT", "DEL 1", "EXEC"];
    let queued = ["+OK", QUEUED, QUEUED, QUEUED];
    // In one packet, and then bit by bit behind a WATCH.
    story.client("a").says(lines);
    story.node("n1").gets(sent).answers(queued).answers(&*done("l"));
    story.client("a").gets([queued[0], QUEUED, QUEUED, QUEUED, &*done("o:l")]);
    story.client("a").says("WATCH o:1");
    story.node("n1").gets("WATCH 1").answers("+OK");
    story.client("a").gets("+OK").says("MULTI");
    story.node("n1").gets("MULTI").answers("+OK");
    story.client("a").gets("+OK");
    for (line, sent) in lines.into_iter().zip(sent).skip(1).take(3) {
        story.client("a").says(line);
        story.node("n1").gets(sent).answers(QUEUED);
        story.client("a").gets(QUEUED);
    }
    story.client("a").says("EXEC");
    story.node("n1").gets("EXEC").answers(&*done("l"));
    story.client("a").gets(&*done("o:l"));
    story.client("a").says("MULTI").gets("+OK").says("SET o:1 x");
    story.node("n1").gets(["MULTI", "SET 1 x"]).answers(["+OK", QUEUED]);
    story.client("a").gets(QUEUED).says(["SET x 1", "EXEC"]);
    story.client("a").gets([CROSSSLOT, ABORT]);
}

#[test]
fn keys_are_listed_as_clients_know_them_and_only_those_that_fit() {
    let mut story = single();
    for (pattern, sent, own, shown) in [
        ("*", "*", "\"1\" \"\"", "\"o:1\" \"o:\""),
        ("o:1*", "1*", "\"1\" \"12\"", "\"o:1\" \"o:12\""),
        ("o*2", "*", "\"1\" \"12\" \"2\"", "\"o:12\" \"o:2\""),
        ("*a:*", "*", "\"1\" \"a:7\"", "\"o:a:7\""),
        ("x*", "[]", "", ""),
    ] {
        let all = |names: &str| {
            let names: Vec<&str> = names.split_whitespace().collect();
            format!("*{}\r\n", names.len())
                + &names
                    .iter()
                    .map(|name| String::from_utf8(wire(name)).unwrap())
                    .collect::<String>()
        };
        story.client("a").says(&*format!("KEYS {pattern}"));
        // Over the connection for large replies.
        story.node_conn("n1", 1).gets(&*format!("KEYS {sent}")).answers(&*all(own));
        for node in ["n2", "n3"] {
            story.node_conn(node, 1).gets(&*format!("KEYS {pattern}")).answers("*0");
        }
        story.client("a").gets(&*all(shown));
        story.client("a").says(&*format!("SCAN 0 MATCH {pattern} COUNT 7"));
        story.node("n1").gets(&*format!("SCAN 0 MATCH {sent} COUNT 7"));
        story.node("n1").answers(&*list(["\"0\"", &*all(own)]));
        let got = story.client("a").takes_text();
        assert!(got.ends_with(&all(shown)), "{got}");
    }
    story.client("a").says("RANDOMKEY");
    story.node("n1").gets("RANDOMKEY").answers("\"1\"");
    story.node("n2").gets("RANDOMKEY").answers("nil");
    story.node("n3").gets("RANDOMKEY").answers("nil");
    story.client("a").gets("\"o:1\"").says("DBSIZE");
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("DBSIZE").answers(":2");
    }
    story.client("a").gets(":6");
}

/// Client `a` has `o:1` of n1 in its cache.
fn with_a_cached_key(options: &str) -> Story {
    let mut story = single();
    caches(&mut story, "a", options);
    story.client("a").says("GET o:1");
    story.node("n1").gets(format!("CLIENT TRACKING ON {options}").trim_end()).answers("+OK");
    story.node("n1").gets("GET 1").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story
}

#[test]
fn who_caches_is_told_the_clients_names() {
    let mut story = with_a_cached_key("");
    story.node("n1").answers(&*changed("1"));
    story.client("a").gets(&*changed("o:1"));
    story.client("a").says("GET o:1");
    story.node("n1").gets("GET 1").answers("\"w\"");
    story.client("a").gets("\"w\"");
    story.node("n1").answers(ALL);
    story.client("a").gets(ALL);
}

/// `a` runs a script at n1 and `b` pops behind it on the same connection: the word of the delimiter between both.
fn script_and_pop(story: &mut Story) -> String {
    story.client("a").says("EVAL ret 1 o:1");
    story.client("b").says("LMPOP 1 o:l LEFT");
    let mut conn = story.node("n1");
    assert_eq!(conn.takes_requests(), 2);
    conn.takes_delimiter()
}

const POPPED: &str = "*2\r\n$1\r\nl\r\n*1\r\n$1\r\nv\r\n";

fn popped() -> String {
    list(["\"o:l\"", &*list("\"v\"")])
}

#[test]
fn an_error_with_line_breaks_ends_at_its_delimiter_and_others_go_on() {
    let mut story = single();
    story.client("w").says("GET o:w");
    story.node("n1").gets("GET w").answers("nil");
    for text in ["-ERR x\r\n$500\r\n+y", "+x\r\n*9\r\n:1", "-x\r\n-y\r\n$9", "-x\r\n>9\r\n:1"] {
        let length = text.len() + 2 + 31 + POPPED.len();
        for cut in 1..length {
            let word = script_and_pop(&mut story);
            let all = format!("{text}\r\n$24\r\n{word}\r\n{POPPED}");
            story.node("n1").sends(&all.as_bytes()[..cut]);
            story.node("n1").sends(&all.as_bytes()[cut..]);
            if let Some(second) = story.node("n1").takes_one() {
                story.node("n1").answers(&*format!("-ERR unknown command '{second}'"));
            }
            let line = text.replace(['\r', '\n'], " ");
            assert_eq!(story.client("a").takes_text(), format!("{line}\r\n"), "{text:?} {cut}");
            story.client("b").gets(&*popped());
        }
    }
    assert_eq!(story.connects_to("n1"), 1);
}

#[test]
fn where_echo_is_refused_names_get_their_prefix_too() {
    let mut story = single();
    story.client("w").says("GET o:w");
    story.node("n1").gets("GET w").answers("nil");
    for _ in 0..2 {
        script_and_pop(&mut story);
        story.node("n1").sends(format!("+OK\r\n-NOPERM no echo\r\n{POPPED}").as_bytes());
        let second = story.node("n1").takes_one().expect("a second word");
        story.client("b").gets_nothing();
        story.node("n1").answers(&*format!("-ERR unknown command '{second}', with"));
        story.client("a").gets("+OK");
        story.client("b").gets(&*popped());
    }
    script_and_pop(&mut story);
    story.node("n1").sends(format!("-x\r\n+y\r\n-NOPERM no echo\r\n{POPPED}").as_bytes());
    let second = story.node("n1").takes_one().expect("a second word");
    story.node("n1").answers(&*format!("-ERR unknown command '{second}', with"));
    assert!(!story.client("b").takes_text().contains('y'));
    story.client("w").says("GET o:w");
    assert_eq!(story.connects_to("n1"), 2, "nobody knows which reply is whose");
}

#[test]
fn what_changed_between_a_reply_and_its_delimiter_is_told_in_clients_names() {
    // Scripts of other clients that cache do not take connections that tell of changes.
    let mut story = with_a_cached_key("NOLOOP");
    story.client("a").says("EVAL ret 1 o:1");
    assert_eq!(story.node("n1").takes_requests(), 1);
    let word = story.node("n1").takes_delimiter();
    let push = wire(&changed("1"));
    let all = [b"*1\r\n:1\r\n", &push[..], format!("$24\r\n{word}\r\n").as_bytes()].concat();
    story.node("n1").sends(&all);
    let told = [b"*1\r\n:1\r\n".to_vec(), wire(&changed("o:1"))].concat();
    assert_eq!(story.client("a").takes_text().into_bytes(), told);
}

#[test]
fn who_wants_prefixes_hears_of_them_where_they_can_be() {
    let mut story = single();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST PREFIX o:1 PREFIX x");
    let line = "CLIENT TRACKING ON BCAST PREFIX";
    story.node("n1").gets(&*format!("{line} 1")).answers("+OK");
    story.node("n2").gets(&*format!("{line} o:1 PREFIX x")).answers("+OK");
    story.node("n3").gets(&*format!("{line} o:1 PREFIX x")).answers("+OK");
    story.client("a").gets("+OK");
    story.node("n1").answers(&*changed("12"));
    story.client("a").gets(&*changed("o:12"));
    story.node("n3").answers(&*changed("x"));
    story.client("a").gets(&*changed("x"));
    // No key of n1 begins with `x`.
    let mut story = single();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST PREFIX x");
    story.node("n1").gets("PING").answers("+PONG");
    story.node("n2").gets(&*format!("{line} x")).answers("+OK");
    story.node("n3").gets(&*format!("{line} x")).answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn what_is_not_known_is_refused_in_its_turn() {
    let refused = |name: &str| {
        format!(
            "-ERR respool: '{name}' cannot be used where the route removes its prefix, since it is not known here what it tells of keys (sharding.remove_prefix)"
        )
    };
    let mut story = single();
    story.server_says_to(
        "COMMAND",
        &list(&*list(["\"my.get\"", ":2", &*list("+readonly"), ":1", ":1", ":1"])),
    );
    story.client("a").says("GET o:1");
    story.node("n1").gets("GET 1").answers("\"1\"");
    story.client("a").gets("\"1\"").says(["MY.GET o:1", "GET o:2"]);
    story.node("n1").gets(["respool-refused", "GET 2"]);
    story.node("n1").answers(["-ERR unknown command 'respool-refused'", "\"2\""]);
    story.client("a").gets([&*refused("my.get"), "\"2\""]);
    story.client("a").says("MULTI").gets("+OK").says("MY.GET o:1");
    story.node("n1").gets(["MULTI", "respool-refused"]).answers(["+OK", "-ERR unknown command"]);
    story.client("a").gets(&*refused("my.get")).says("EXEC");
    story.node("n1").gets("EXEC").answers(ABORT);
    story.client("a").gets(ABORT);
}

#[test]
fn events_are_refused_and_who_hears_all_hears_none_of_them() {
    const REFUSED: &str = "-ERR respool: keyspace notifications tell the servers' names of keys, and cannot be had where routes remove prefixes (sharding.remove_prefix)";
    let mut story = single();
    story.client("a").says(["SUBSCRIBE __keyspace@0__:o:1", "PSUBSCRIBE __keyevent@*__:del"]);
    story.client("a").gets([REFUSED; 2]);
    story.client("a").says("PSUBSCRIBE *");
    let confirmed = list(["\"psubscribe\"", "\"*\"", ":1"]);
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("psubscribe *").answers(&*confirmed);
    }
    story.client("a").gets(&*confirmed);
    let message =
        |channel: &str| list(["\"pmessage\"", "\"*\"", &*format!("\"{channel}\""), "\"set\""]);
    story.node("n1").sends(message("__keyspace@0__:1").as_bytes());
    story.client("a").gets_nothing();
    story.node("n3").sends(message("__keyspace@0__:x").as_bytes());
    story.client("a").gets(&*message("__keyspace@0__:x"));
    // Channels keep their names.
    story.client("b").says("PUBLISH o:news hi");
    story.node("n1").gets("PUBLISH o:news hi").answers(":1");
    story.client("b").gets(":1");
}

#[test]
fn a_large_request_is_streamed_and_a_large_reply_too() {
    let mut story = single();
    let large = large_set("o:1", 3 << 20);
    story.client("a").sends(&large[..1 << 20]).gets_nothing();
    story.client("a").sends(&large[1 << 20..]);
    assert_eq!(story.node("n1").takes_last_argument().len(), 3 << 20);
    story.node("n1").takes_one();
    story.node("n1").answers("+OK");
    story.client("a").gets("+OK");
    story.client("a").says("GET o:1");
    story.node("n1").gets("GET 1");
    let value = wire(&format!("\"{}\"", "x".repeat(200_000)));
    story.node("n1").sends(&value[..100_000]);
    assert_eq!(story.client("a").takes(), &value[..100_000]);
    story.node("n1").sends(&value[100_000..]);
    assert_eq!(story.client("a").takes(), &value[100_000..]);
}

#[test]
fn a_reply_that_is_too_large_becomes_an_error_and_one_without_names_streams() {
    let mut story = Story::shards_with(|shards| {
        shards.sharding.routes = Some(Routes { ignore_case: false, list: routes() });
    });
    story.client("a").says(["BLPOP o:1 0", "GET o:1"]);
    story.node("n1").gets("BLPOP 1 0");
    let value = list(["\"1\"", &*format!("\"{}\"", "x".repeat(17 << 20))]);
    story.node("n1").sends(value.as_bytes());
    let got = story.client("a").takes_text();
    assert!(got.starts_with("-ERR respool: the reply is too large for its keys"), "{got:.100}");
    // The rest of the large reply is dropped, and the next reply has its names.
    story.node("n1").gets("GET 1").answers("nil");
    story.client("a").says("GET o:1").takes_text();
    story.client("b").says(["LMPOP 1 o:l LEFT", "LMPOP 1 o:l LEFT"]);
    assert_eq!(story.node("n1").takes_requests(), 3);
    let large = list(["\"l\"", &*list(&*format!("\"{}\"", "x".repeat(17 << 20)))]);
    let all = [b"$1\r\nv\r\n", large.as_bytes(), POPPED.as_bytes()].concat();
    for piece in all.chunks(1 << 20) {
        story.node("n1").sends(piece);
        assert!(story.report().buffered_bytes < 20 << 20);
    }
    story.client("a").gets("\"v\"");
    let got = story.client("b").takes_text();
    assert!(got.starts_with("-ERR respool: the reply is too large for its keys"), "{got:.100}");
    assert!(got.ends_with(&String::from_utf8_lossy(&wire(&popped()))[..]), "{got:.300}");
}

#[test]
fn a_slot_is_that_of_the_servers_name() {
    let mut story = cluster();
    let (low, high) = (of_half(true, 0), of_half(false, 0));
    story.client("a").says([
        &*format!("SET c:{low} 1"),
        &*format!("GET c:{high}"),
        &*format!("MGET c:{low} o:1 c:{high}"),
    ]);
    story.node("c1").gets([&*format!("SET {low} 1"), &*format!("MGET {low}")]);
    story.node("c1").answers(["+OK", &*list("\"l\"")]);
    story.node("c2").gets([&*format!("GET {high}"), &*format!("MGET {high}")]);
    story.node("c2").answers(["nil", &*list("\"h\"")]);
    story.node("n1").gets("MGET 1").answers(&*list("\"1\""));
    story.client("a").gets(["+OK", "nil", &*list(["\"l\"", "\"1\"", "\"h\""])]);
    // A tag that begins in the prefix is none for the servers.
    story.client("a").says("RENAME c:{x}1 c:{x}2");
    let owner = if slot(b"x") < 8_192 { "c1" } else { "c2" };
    story.node(owner).gets("RENAME {x}1 {x}2").answers("+OK");
    story.client("a").gets("+OK");
    // Channels keep their names, and so their slots.
    let owner = if slot(b"c:news") < 8_192 { "c1" } else { "c2" };
    story.client("a").says("SPUBLISH c:news hi");
    story.node(owner).gets("SPUBLISH c:news hi").answers(":0");
    story.client("a").gets(":0");
}

#[test]
fn what_is_sent_on_is_sent_in_the_words_of_the_next_server() {
    let mut story = cluster();
    let low = of_half(true, 0);
    story.client("a").says([&*format!("INCR c:{low}"), &*format!("GET c:{low}")]);
    story.node("c1").gets([&*format!("INCR {low}"), &*format!("GET {low}")]);
    story.node("c1").answers([&*moved(&low, "c2"), &*moved(&low, "c2")]);
    story
        .node("c2")
        .gets([&*format!("INCR {low}"), &*format!("GET {low}")])
        .answers([":1", "\"1\""]);
    story.client("a").gets([":1", "\"1\""]);
    let next = of_half(true, 1);
    story.client("a").says(&*format!("LPUSH c:{next} v"));
    story.node("c1").gets(&*format!("LPUSH {next} v")).answers(&*ask(&next, "c2"));
    story.node("c2").gets(["ASKING", &*format!("LPUSH {next} v")]).answers(["+OK", ":1"]);
    story.client("a").gets(":1");
    // A transaction that came whole begins again as one.
    let third = of_half(true, 2);
    let lines =
        ["MULTI", &*format!("SET c:{third} 1"), &*format!("LMPOP 1 c:{third} LEFT"), "EXEC"];
    let sent = ["MULTI", &*format!("SET {third} 1"), &*format!("LMPOP 1 {third} LEFT"), "EXEC"];
    story.client("a").says(lines);
    let error = moved(&third, "c2");
    story.node("c1").gets(sent).answers(["+OK", &*error, &*error, ABORT]);
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    story.node("c2").gets(sent).answers(["+OK", QUEUED, QUEUED, &*list(["+OK", wrong])]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, &*list(["+OK", wrong])]);
}

#[test]
fn what_reads_is_asked_again_and_what_wrote_is_not_when_a_connection_breaks() {
    let mut story = single();
    story.client("a").says("GET o:1");
    story.node("n1").gets("GET 1").answers("nil");
    story.client("a").gets("nil").says(["GET o:1", "SET o:2 x", "BLPOP o:l 0"]);
    story.node("n1").gets(["GET 1", "SET 2 x"]);
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.node("n1").gets("GET 1").answers("\"1\"");
    let error = lost("n1", "connection reset");
    story.client("a").gets(["\"1\"", &*error]);
    // The new connection knows nothing of the old one's transaction or half reply.
    story.node("n1").gets("BLPOP l 0").answers(&*list(["\"l\"", "\"v\""]));
    story.client("a").gets(&*list(["\"o:l\"", "\"v\""]));
}

#[test]
fn a_change_of_removal_is_one_of_servers_and_mixes_no_names() {
    let mut story = single();
    story.server_says_to("COMMAND", "*0");
    story.client("a").says(["SET o:1 x", "BLPOP o:l 0"]);
    story.node("n1").gets("SET 1 x");
    story.client("b").says("BLPOP o:m 0");
    story.node("n1").gets("BLPOP m 0");
    story.reconfigures(|settings| {
        let sharding = &mut settings.shards.as_mut().expect("there are shards").sharding;
        for route in &mut sharding.routes.as_mut().expect("there are routes").list {
            route.removes = false;
        }
    });
    let left = "is no server of the configuration any more";
    story.client("b").gets(&*lost("n1", left));
    story.client("b").says("GET o:1");
    story.node("n1").gets("GET o:1").answers("nil");
    story.client("b").gets("nil");
    story.node_conn("n1", 1).answers("+OK");
    story.node("n1").gets("BLPOP o:l 0").answers(&*list(["\"o:l\"", "\"v\""]));
    story.client("a").gets(["+OK", &*list(["\"o:l\"", "\"v\""])]);
}

#[test]
fn a_namespace_stands_in_front_of_routes_and_is_removed_with_them() {
    let namespace = Some(Namespace::new(b"o:", false).expect("a prefix"));
    let mut story = Story::with(Settings {
        policies: Policies::new(Rules { namespace, ..Rules::default() }).map(Arc::new),
        ..single().engine.settings().clone()
    });
    story.client("a").says("BLPOP q 0");
    story.node("n1").gets("BLPOP q 0").answers(&*list(["\"q\"", "\"v\""]));
    story.client("a").gets(&*list(["\"q\"", "\"v\""]));
    story.client("a").says("SCAN 0 MATCH 1*");
    story.node("n1").gets("SCAN 0 MATCH * MATCH 1*").answers(&*list(["\"0\"", &*list("\"12\"")]));
    let got = story.client("a").takes_text();
    assert!(got.ends_with(&list("\"12\"")), "{got}");
}

#[test]
fn a_line_for_people_is_changed_like_any_other() {
    let mut story = single();
    story.client("a").sends(b"SET o:1 x\r\n").sends(&request("GET o:1"));
    story.node("n1").gets(["SET 1 x", "GET 1"]).answers(["+OK", "\"x\""]);
    story.client("a").gets(["+OK", "\"x\""]);
}

#[test]
fn a_mirror_is_told_the_clients_names() {
    let settings = Settings {
        mirrors: vec![crate::mirror::mirror("b")],
        ..single().engine.settings().clone()
    };
    let mut story = Story::with(settings);
    story.server_says_to("COMMAND", "*0");
    for (question, answer) in [("EXISTS", ":1"), ("DBSIZE", ":1")] {
        story.node_says_to("b", question, answer);
    }
    story.client("a").says(["SET o:1 x", "LMPOP 2 o:1 o:2 LEFT COUNT 2"]);
    story.node("n1").gets(["SET 1 x", "LMPOP 2 1 2 LEFT COUNT 2"]);
    let popped = |key: &str| list([&*format!("\"{key}\""), &*list(["\"v\"", "\"w\""])]);
    story.node("n1").answers(["+OK", &*popped("2")]);
    story.client("a").gets(["+OK", &*popped("o:2")]);
    story.node("b").gets(["SET o:1 x", "LPOP o:2 2"]);
}

#[test]
fn what_a_transaction_has_to_change_is_counted() {
    let kind = engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "upstreams").unwrap();
    let mut story = single();
    story.client("a").says(["MULTI", "SET o:1 x"]);
    story.node("n1").gets(["MULTI", "SET 1 x"]).answers(["+OK", QUEUED]);
    let before = story.report().memory[kind];
    for _ in 0..1_000 {
        story.client("a").says("LMPOP 1 o:l LEFT");
        story.node("n1").gets("LMPOP 1 l LEFT").answers(QUEUED);
    }
    let held = story.report().memory[kind] - before;
    assert!(held > 1_000 * 40, "{held}");
    story.client("a").says("DISCARD");
    story.node("n1").gets("DISCARD").answers("+OK");
    story.client("a").takes_text();
    assert!(story.report().memory[kind] < before + 10_000);
}
