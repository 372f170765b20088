//! Keys spread over several pools by the proxy itself.

use crate::words::cluster::{list, lost, moved};
use crate::words::sentinel::behind;
use crate::words::shards::{child, child_of};
use crate::words::{HELLO_2, Story};
use engine::node::Address;
use engine::route::hash::Hash;
use engine::route::shard::Distribution;
use engine::settings::{Password, Pool};

#[test]
fn each_key_goes_to_its_shard_and_replies_come_in_the_order_of_the_requests() {
    let mut story = Story::warm_shards();
    story.client("a").says(["SET l 1", "SET a 2", "SET d 3", "GET l", "PING"]);
    story.node("n1").gets("SET d 3").gets_nothing().answers("-ERR d");
    story.node("n2").gets("SET a 2").gets_nothing().answers("-ERR a");
    story.client("a").gets_nothing();
    story.node("n3").gets(["SET l 1", "GET l"]).gets_nothing().answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "-ERR a", "-ERR d", "\"1\"", "+PONG"]);
}

#[test]
fn a_ring_spreads_keys_too() {
    let mut story = Story::shards_with(|shards| {
        shards.sharding.distribution = Distribution::Ketama;
        shards.sharding.hash = Hash::Md5;
    });
    let keys: Vec<String> = (0..60).map(|n| format!("key{n}")).collect();
    let lines: Vec<String> = keys.iter().map(|key| format!("GET {key}")).collect();
    story.client("a").says(lines.iter().map(String::as_str).collect::<Vec<_>>());
    let mut counts = Vec::new();
    for node in ["n1", "n2", "n3"] {
        let mut count = 0;
        while let Some(line) = story.node(node).takes_one() {
            let value = format!("\"of {}\"", &line["GET ".len()..]);
            story.node(node).answers(&value);
            count += 1;
        }
        counts.push(count);
    }
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    let wanted: Vec<String> = keys.iter().map(|key| format!("\"of {key}\"")).collect();
    story.client("a").gets(wanted.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn hash_tags_bring_keys_together_if_they_are_heeded() {
    let mut story = Story::warm_shards();
    story.client("a").says(["MGET {d}1 {d}2 d", "RENAME {l}1 l"]);
    story.node("n1").gets("MGET {d}1 {d}2 d").answers(&list(["nil", "nil", "nil"]));
    story.node("n3").gets("RENAME {l}1 l").answers("+OK");
    story.client("a").gets([&*list(["nil", "nil", "nil"]), "+OK"]);
    let mut story = Story::shards_with(|shards| shards.sharding.tag = Some(*b"<>"));
    story.client("a").says(["GET <d>1", "GET <a>1", "GET <l>1"]);
    for (node, line) in [("n1", "GET <d>1"), ("n2", "GET <a>1"), ("n3", "GET <l>1")] {
        story.node(node).gets(line);
    }
}

#[test]
fn keys_of_one_shard_go_as_they_are() {
    // A shard is no slot: what lies on the same server needs no part of its own.
    let mut story = Story::warm_shards();
    story.client("a").says(["MGET d e f", "MSETNX d 1 e 2", "RENAME d e", "SINTER d e"]);
    story.node("n1").gets(["MGET d e f", "MSETNX d 1 e 2", "RENAME d e", "SINTER d e"]);
}

#[test]
fn requests_with_several_keys_are_split_and_merged() {
    let mut story = Story::warm_shards();
    story.client("a").says(["MGET a d l b", "MSET d 1 a 2 l 3", "DEL a d l b", "EXISTS a d"]);
    story.node("n1").gets(["MGET d", "MSET d 1", "DEL d", "EXISTS d"]);
    story.node("n1").answers([&*list("\"d\""), "+OK", ":1", ":0"]);
    story.node("n2").gets(["MGET a b", "MSET a 2", "DEL a b", "EXISTS a"]);
    story.node("n2").answers([&*list(["\"a\"", "\"b\""]), "+OK", ":2", ":1"]);
    story.node("n3").gets(["MGET l", "MSET l 3", "DEL l"]);
    story.node("n3").answers([&*list("nil"), "+OK", ":0"]);
    let values = list(["\"a\"", "\"d\"", "nil", "\"b\""]);
    story.client("a").gets([&*values, "+OK", ":3", ":1"]);
}

#[test]
fn patterns_of_sort_must_be_sure_to_lie_with_the_key() {
    const REFUSED: &str = "-ERR respool: BY and GET of SORT name keys that may lie on other shards; give them the hash tag of the sorted key";
    let mut story = Story::warm_shards();
    for line in
        ["SORT d BY w*", "SORT d GET # GET w*", "SORT_RO d by w*->f", "SORT d LIMIT 0 1 BY d*"]
    {
        story.client("a").says(line).gets(REFUSED);
    }
    for line in [
        "SORT d",
        "SORT d BY nosort GET # DESC",
        "SORT_RO d LIMIT 0 1 ALPHA",
        "SORT d STORE e",
        "SORT {d}l BY {d}w:* GET x{d}*",
    ] {
        story.client("a").says(line);
        story.node("n1").gets(line).answers("*0");
        story.client("a").gets("*0");
    }
}

#[test]
fn what_cannot_be_split_is_crossslot() {
    let mut story = Story::warm_shards();
    let error = "-CROSSSLOT Keys in request don't hash to the same slot";
    story.client("a").says(["MSETNX a 1 d 2", "RENAME a d", "SUNIONSTORE a d l"]);
    story.client("a").gets([error, error, error]);
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets_nothing();
    }
}

#[test]
fn a_dead_shard_fails_its_own_keys_only_and_is_named() {
    let mut story = Story::warm_shards();
    story.after_ms(2_000).crashes("n2");
    let error = lost("n2", "connect: Connection refused");
    story.client("a").says(["GET d", "GET a", "GET l", "MGET d a", "MGET d l"]);
    story.node("n1").gets(["GET d", "MGET d", "MGET d"]);
    story.node("n1").answers(["\"d\"", &*list("\"d\""), &*list("\"d\"")]);
    story.node("n3").gets(["GET l", "MGET l"]).answers(["\"l\"", &*list("\"l\"")]);
    let both = list(["\"d\"", "\"l\""]);
    story.client("a").gets(["\"d\"", &*error, "\"l\"", &*error, &*both]);
    // It comes back to the same keys.
    story.is_up("n2").after_ms(200).client("a").says("GET a");
    story.node("n2").gets("GET a").answers("\"a\"");
    story.client("a").gets("\"a\"");
}

#[test]
fn what_concerns_all_keys_goes_to_all_shards() {
    let mut story = Story::warm_shards();
    story.client("a").says(["DBSIZE", "FLUSHALL", "KEYS *"]);
    let nodes = [("n1", ":3", "d"), ("n2", ":4", "a"), ("n3", ":5", "l")];
    for (node, size, _) in nodes {
        story.node_conn(node, 1).gets("DBSIZE").gets_nothing().answers(size);
    }
    for (node, ..) in nodes {
        story.node_conn(node, 2).gets("FLUSHALL").answers("+OK");
    }
    for (node, _, key) in nodes {
        story.node_conn(node, 2).gets("KEYS *").answers(&*list(&*format!("\"{key}\"")));
    }
    story.client("a").gets([":12", "+OK", &*list(["\"d\"", "\"a\"", "\"l\""])]);
    story.after_ms(2_000).crashes("n3").client("a").says("DBSIZE");
    story.node_conn("n1", 1).gets("DBSIZE").answers(":3");
    story.node_conn("n2", 1).gets("DBSIZE").answers(":4");
    story.client("a").gets(&lost("n3", "connect: Connection refused"));
}

#[test]
fn one_cursor_goes_over_all_shards() {
    let mut story = Story::warm_shards();
    let (mut cursor, mut keys) = ("0".to_string(), Vec::new());
    for (node, key) in [("n1", "d"), ("n2", "a"), ("n3", "l")] {
        story.client("a").says(&format!("SCAN {cursor} COUNT 5"));
        story.node(node).gets("SCAN 0 COUNT 5");
        story.node(node).answers(&format!("*2\r\n$1\r\n0\r\n*1\r\n$1\r\n{key}\r\n"));
        let got = story.client("a").takes_text();
        let lines: Vec<&str> = got.split("\r\n").collect();
        (cursor, keys) = (lines[2].to_string(), [keys, vec![lines[5].to_string()]].concat());
    }
    assert_eq!((&*cursor, keys), ("0", ["d", "a", "l"].map(str::to_string).to_vec()));
}

#[test]
fn databases_are_selected_on_every_shard() {
    let mut story = Story::warm_shards();
    story.client("a").says(["SELECT 3", "GET d", "GET a"]).gets("+OK");
    for (node, line) in [("n1", "GET d"), ("n2", "GET a")] {
        assert_eq!(story.node(node).gets(line).answers("nil").key().db, 3);
    }
    story.client("a").gets(["nil", "nil"]);
}

#[test]
fn a_database_that_a_shard_does_not_have_is_its_own_error() {
    let mut story = Story::warm_shards();
    story.node_says_to("n2", "SELECT 9", "-ERR DB index is out of range");
    story.client("a").says(["SELECT 9", "GET d", "GET a"]).gets("+OK");
    story.node("n1").gets("GET d").answers("nil");
    story.client("a").gets(["nil", "-ERR DB index is out of range"]);
}

#[test]
fn with_a_cluster_among_them_there_is_but_database_0() {
    let mut story = Story::shards_with(|shards| {
        let seeds = vec![Address::tcp("c1", 7_000)];
        shards.children[2] = child_of("cache", Pool::Cluster { seeds });
    });
    story.cluster_is("0-16383 c1").client("a").says(["SELECT 1", "SELECT 0"]);
    story.client("a").gets(["-ERR SELECT is not allowed in cluster mode", "+OK"]);
}

#[test]
fn a_shard_can_be_a_cluster_with_its_slots() {
    let mut story = Story::shards_with(|shards| {
        let seeds = vec![Address::tcp("c1", 7_000)];
        shards.children[2] = child_of("cache", Pool::Cluster { seeds });
    });
    story.cluster_is("0-8191 c1, 8192-16383 c2");
    // The slot of l decides which of the two has it.
    story.client("a").says(["GET l", "MGET d l"]);
    let owner = if engine::route::slot::slot(b"l") < 8_192 { "c1" } else { "c2" };
    let other = if owner == "c1" { "c2" } else { "c1" };
    story.node("n1").gets("MGET d").answers(&list("\"d\""));
    story.node(owner).gets(["GET l", "MGET l"]).answers(["\"l\"", &*list("\"l\"")]);
    story.client("a").gets(["\"l\"", &*list(["\"d\"", "\"l\""])]);
    // A redirect stays inside the shard.
    story.client("a").says(["GET l", "GET d"]);
    story.node(owner).gets("GET l").moved("l", other);
    story.node(other).gets("GET l").answers("\"l\"");
    story.node("n1").gets("GET d").answers("\"d\"");
    story.client("a").gets(["\"l\"", "\"d\""]);
    assert!(moved("l", other).starts_with("-MOVED "));
}

#[test]
fn keys_of_two_slots_of_one_cluster_shard_are_two_parts() {
    let mut story = Story::shards_with(|shards| {
        let seeds = vec![Address::tcp("c1", 7_000)];
        shards.children[2] = child_of("cache", Pool::Cluster { seeds });
    });
    story.cluster_is("0-16383 c1").client("a").says(["MGET l m d", "RENAME l m"]);
    story.node("n1").gets("MGET d").answers(&list("\"d\""));
    let mut parts = [story.node("c1").takes_one(), story.node("c1").takes_one()];
    parts.sort();
    assert_eq!(parts, ["MGET l", "MGET m"].map(|line| Some(line.to_string())));
    story.node("c1").gets_nothing().answers([&*list("\"x\""), &*list("\"x\"")]);
    let crossslot = "-CROSSSLOT Keys in request don't hash to the same slot";
    story.client("a").gets([&*list(["\"x\"", "\"x\"", "\"d\""]), crossslot]);
}

#[test]
fn a_shard_can_be_behind_sentinels() {
    let mut story = Story::shards_with(|shards| {
        shards.children[2] = child_of("cache", behind(&["s1"]).pool);
    });
    story.sentinels_are("s1").sentinels_say("p1 p2").client("a").says(["GET l", "GET d"]);
    story.node("p1").gets("GET l").answers("\"l\"");
    story.node("n1").gets("GET d").answers("\"d\"");
    story.client("a").gets(["\"l\"", "\"d\""]);
    story.sentinels_say("p2 p1").after_ms(1_100).client("a").says(["GET l", "GET d"]);
    story.node("p2").gets("GET l");
    story.node("n1").gets("GET d");
    assert_eq!(story.connects_to("n1"), 1);
}

#[test]
fn a_shard_whose_primary_nobody_tells_stops_neither_the_others_nor_hides_why() {
    let mut story = Story::shards_with(|shards| {
        shards.children[2] = child_of("cache", behind(&["s1"]).pool);
    });
    story.sentinels_are("s1").sentinels_say("").client("a").says(["GET d", "GET l", "GET e"]);
    story.client("b").says(["GET e", "DBSIZE"]);
    story.node("n1").gets(["GET d", "GET e"]).answers(["\"d\"", "\"e\""]);
    story.client("a").gets("\"d\"");
    story.after_ms(2_100).node("n1").gets("GET e").answers("\"e\"");
    let error = "-ERR respool: the primary is not known: s1:26379: knows no primary `mymaster`";
    story.client("a").gets([error, "\"e\""]);
    story.client("b").gets(["\"e\"", error]);
}

#[test]
fn each_shard_gets_its_own_credentials() {
    let mut story = Story::shards_with(|shards| {
        shards.children[0].node.password = Some(Password::new("one"));
        shards.children[1].node.user = Some(b"app".to_vec());
        shards.children[1].node.password = Some(Password::new("two"));
    });
    for (node, hello) in
        [("n1", "HELLO 2 AUTH default one"), ("n2", "HELLO 2 AUTH app two"), ("n3", "HELLO 2")]
    {
        story.node_says_to(node, "HELLO", "-WRONGPASS other words");
        story.node_says_to(node, hello, HELLO_2);
    }
    story.client("a").says(["GET d", "GET a", "GET l"]);
    story.node("n1").gets("GET d").answers("\"d\"");
    story.node("n2").gets("GET a").answers("\"a\"");
    story.node("n3").gets("GET l").answers("\"l\"");
    story.client("a").gets(["\"d\"", "\"a\"", "\"l\""]);
}

#[test]
fn one_shard_takes_every_key() {
    let mut story = Story::shards_with(|shards| shards.children = vec![child("n1")]);
    story.client("a").says(["GET d", "MSETNX a 1 l 2", "DBSIZE"]);
    story.node("n1").gets(["GET d", "MSETNX a 1 l 2", "DBSIZE"]).answers(["nil", ":1", ":2"]);
    story.client("a").gets(["nil", ":1", ":2"]);
}

#[test]
fn the_random_distribution_uses_every_shard() {
    let mut story =
        Story::shards_with(|shards| shards.sharding.distribution = Distribution::Random);
    story.client("a").says(vec!["GET k"; 60]);
    let counts = ["n1", "n2", "n3"].map(|node| story.node(node).takes_requests());
    assert_eq!(counts.iter().sum::<usize>(), 60);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn the_random_distribution_takes_all_keys_of_one_request_to_one_shard() {
    let mut story =
        Story::shards_with(|shards| shards.sharding.distribution = Distribution::Random);
    // One after the other, so that none is held for a connect.
    for _ in 0..30 {
        story.client("a").says("MSETNX a 1 b 2 c 3");
        let nodes: Vec<&str> = ["n1", "n2", "n3"]
            .into_iter()
            .filter(|node| story.connects_to(node) > 0 && story.node(node).waiting() > 0)
            .collect();
        assert_eq!(nodes.len(), 1, "{nodes:?}");
        story.node(nodes[0]).gets("MSETNX a 1 b 2 c 3").answers(":1");
        story.client("a").gets(":1");
    }
}

#[test]
fn a_request_without_a_key_goes_to_the_first_shard() {
    let mut story = Story::warm_shards();
    story.client("a").says(["TIME", "LASTSAVE"]);
    story.node("n1").gets(["TIME", "LASTSAVE"]).gets_nothing();
}

#[test]
fn resp3_clients_have_connections_of_their_own_to_each_shard() {
    let mut story = Story::warm_shards();
    story.client("b").says("HELLO 3").takes();
    story.client("b").says(["HGETALL d", "MGET a l"]);
    assert!(story.node("n1").gets("HGETALL d").answers("%0\r\n").key().resp3);
    story.node("n2").gets("MGET a").answers(&list("_\r\n"));
    story.node("n3").gets("MGET l").answers(&list("_\r\n"));
    story.client("b").gets(["%0\r\n", &*list(["_\r\n", "_\r\n"])]);
}

#[test]
fn a_request_with_more_keys_than_are_split_is_refused() {
    let mut story = Story::warm_shards();
    let keys = engine::limits::SPLIT_KEYS_MAX + 1;
    let mut mget = format!("*{}\r\n$4\r\nMGET\r\n", keys + 1).into_bytes();
    mget.extend(b"$1\r\nd\r\n");
    mget.extend(b"$1\r\na\r\n".repeat(keys - 1));
    for part in mget.chunks(100_000) {
        story.client("a").sends(part);
    }
    story
        .client("a")
        .gets("-ERR respool: this request is too large to be split between nodes")
        .is_open()
        .says("GET a");
    story.node("n2").gets("GET a").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn a_script_is_noted_when_its_call_was_sent() {
    let kind = engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "scripts").unwrap();
    let mut story = Story::shards().by_hand();
    for call in ["EVAL return:1 1 k", "SCRIPT LOAD return:2"] {
        let before = story.report().memory[kind];
        story.client("a").says(call);
        // The servers are not reached yet: it will be looked at again, and again.
        assert_eq!(story.report().memory[kind], before, "{call}");
        story.client("a").dies();
    }
}

// An attack: the command waited at the shard of the watched key, and the element came to another shard.
#[test]
fn a_blocking_command_beside_a_watch_does_not_wait_at_another_shard() {
    let crossslot = "-CROSSSLOT Keys in request don't hash to the same slot";
    let mut story = Story::warm_shards();
    story.client("a").says("WATCH a");
    story.node("n2").gets("WATCH a").answers("+OK");
    story.client("a").gets("+OK").says(["BLPOP l 0", "BLPOP a l 0"]);
    story.client("a").gets([crossslot, crossslot]).says("BLPOP a 0");
    story.node("n2").gets("BLPOP a 0").answers("*2\r\n$1\r\na\r\n$1\r\nv\r\n");
    story.client("a").gets("*2\r\n$1\r\na\r\n$1\r\nv\r\n").says(["GET l", "UNWATCH"]);
    story.node("n3").gets("GET l").answers("nil");
    story.node("n2").gets("UNWATCH").answers("+OK");
    story.client("a").gets(["nil", "+OK"]).says("BLPOP l 0");
    story.node("n3").gets("BLPOP l 0");
}

#[test]
fn a_watch_that_is_refused_ties_its_client_to_no_shard() {
    let mut story = Story::warm_shards();
    story.client("a").says(["WATCH a", "BLPOP l 0"]);
    story.node("n2").gets("WATCH a").answers("-NOPERM no");
    story.client("a").gets("-NOPERM no");
    story.node("n3").gets("BLPOP l 0").answers("*-1\r\n");
    story.client("a").gets("*-1").says(["WATCH l", "WATCH a"]);
    story.node("n3").gets("WATCH l").answers("+OK");
    story.client("a").gets(["+OK", "-CROSSSLOT Keys in request don't hash to the same slot"]);
}
