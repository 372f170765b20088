//! Keys that begin alike go to shards of their own.
//!
//! `u:` is n1's, `u:vip:` n3's, and n2 and n3 share `o:`.

use crate::words::cluster::list;
use crate::words::shards::{child_of, route};
use crate::words::{Story, large_set};
use engine::node::Address;
use engine::route::shard::{Distribution, Routes, Shards};
use engine::settings::Pool;

const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.";
const CROSSSLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";
const QUEUED: &str = "+QUEUED";

fn nowhere(key: &str) -> String {
    format!("-ERR respool: no route for the key '{key}' (see sharding.routes)")
}

/// The first key of this form that lies on the shard.
fn key_on(story: &Story, shard: usize, begin: &str) -> String {
    let settings = story.engine.settings().shards.clone().expect("there are shards");
    let names = settings.children.iter().map(|child| child.shard.clone()).collect();
    let shards = Shards::new(settings.sharding, names).expect("they can be laid out");
    let mut keys = (0..).map(|n| format!("{begin}{n}"));
    keys.find(|key| shards.of(key.as_bytes(), || 0) == shard).expect("one of all")
}

fn silence(story: &mut Story) {
    for node in ["n1", "n2", "n3"] {
        if story.connects_to(node) > 0 {
            story.node(node).gets_nothing();
        }
    }
}

#[test]
fn each_key_goes_where_its_longest_prefix_leads() {
    let mut story = Story::routes(true);
    let (two, three) = (key_on(&story, 1, "o:"), key_on(&story, 2, "o:"));
    story.client("a").says([
        "SET u:1 x",
        "GET u:vip:1",
        &format!("GET {two}"),
        &format!("GET {three}"),
        "GET other",
        "GET u:vip",
    ]);
    story.node("n1").gets(["SET u:1 x", "GET u:vip"]).answers(["+OK", "\"1\""]);
    story.node("n2").gets([&*format!("GET {two}"), "GET other"]).answers(["\"2\"", "\"rest\""]);
    story.node("n3").gets(["GET u:vip:1", &*format!("GET {three}")]).answers(["\"v\"", "\"3\""]);
    story.client("a").gets(["+OK", "\"v\"", "\"2\"", "\"3\"", "\"rest\"", "\"1\""]);
}

#[test]
fn requests_with_keys_of_several_routes_are_split_and_merged() {
    let mut story = Story::routes(true);
    story.client("a").says(["MGET u:1 u:vip:1 x u:2", "MSET u:1 a x b", "DEL u:1 u:vip:1"]);
    story.node("n1").gets(["MGET u:1 u:2", "MSET u:1 a", "DEL u:1"]);
    story.node("n1").answers([&*list(["\"1\"", "\"2\""]), "+OK", ":1"]);
    story.node("n2").gets(["MGET x", "MSET x b"]).answers([&*list("nil"), "+OK"]);
    story.node("n3").gets(["MGET u:vip:1", "DEL u:vip:1"]).answers([&*list("\"v\""), ":1"]);
    let values = list(["\"1\"", "\"v\"", "nil", "\"2\""]);
    story.client("a").gets([&*values, "+OK", ":2"]);
    // What cannot be split, and what need not be.
    story.client("a").says(["RENAME u:1 u:vip:1", "MSETNX u:1 a x b", "RENAME u:1 u:2"]);
    story.node("n1").gets("RENAME u:1 u:2").answers("+OK");
    story.client("a").gets([CROSSSLOT, CROSSSLOT, "+OK"]);
}

#[test]
fn a_key_without_a_route_is_an_error_and_nothing_is_sent_of_its_request() {
    let mut story = Story::routes(false);
    story.client("a").says(["GET x", "MGET u:1 y u:vip:1", "RENAME u:1 z"]);
    story.client("a").gets([&*nowhere("x"), &*nowhere("y"), &*nowhere("z")]);
    silence(&mut story);
    // Its neighbours in the pipeline are as ever.
    story.client("a").says(["GET u:1", "GET x", "GET u:2"]);
    story.node("n1").gets(["GET u:1", "GET u:2"]).answers(["\"1\"", "\"2\""]);
    story.client("a").gets(["\"1\"", &*nowhere("x"), "\"2\""]);
}

#[test]
fn blocking_commands_and_large_requests_without_a_route_get_the_same() {
    let mut story = Story::routes(false);
    let lines = ["BLPOP x 0", "BLPOP u:1 x 0", "WATCH x", "EVAL ret 1 x", "SPOP x", "HSCAN x 0"];
    story.client("a").says(lines);
    story.client("a").gets([&*nowhere("x"); 6]);
    silence(&mut story);
    let mut story = Story::routes(false);
    story.client("a").sends(&large_set("x", 3 << 20)).gets(&*nowhere("x"));
    story.client("a").says("GET u:1");
    story.node("n1").gets("GET u:1").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn in_a_transaction_a_key_without_a_route_aborts_it() {
    let mut story = Story::routes(false);
    story.client("a").says("MULTI").gets("+OK").says(["SET x 1", "EXEC"]);
    story.client("a").gets([&*nowhere("x"), ABORT]);
    story.client("a").says("MULTI").gets("+OK").says("SET u:1 1");
    story.node("n1").gets(["MULTI", "SET u:1 1"]).answers(["+OK", QUEUED]);
    story.client("a").gets(QUEUED).says(["SET x 1", "EXEC"]);
    story.client("a").gets([&*nowhere("x"), ABORT]);
    // In one packet, too.
    story.client("a").says(["MULTI", "SET u:1 1", "SET x 1", "EXEC"]);
    story.node("n1").gets(["MULTI", "SET u:1 1"]).answers(["+OK", QUEUED]);
    story.client("a").gets(["+OK", QUEUED, &*nowhere("x"), ABORT]);
}

#[test]
fn a_transaction_lies_in_one_route() {
    let mut story = Story::routes(true);
    story.client("a").says(["MULTI", "SET u:1 1", "INCR u:2", "EXEC"]);
    let done = "*2\r\n+OK\r\n:1\r\n";
    story.node("n1").gets(["MULTI", "SET u:1 1", "INCR u:2", "EXEC"]);
    story.node("n1").answers(["+OK", QUEUED, QUEUED, done]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, done]);
    story.client("a").says("MULTI").gets("+OK").says("SET u:1 1");
    story.node("n1").gets(["MULTI", "SET u:1 1"]).answers(["+OK", QUEUED]);
    story.client("a").gets(QUEUED).says("SET u:vip:1 1").gets(CROSSSLOT);
}

#[test]
fn a_blocking_command_waits_at_its_route() {
    let mut story = Story::routes(true);
    story.client("a").says("BLPOP u:1 u:2 0");
    story.node("n1").gets("BLPOP u:1 u:2 0").answers(&list(["\"u:2\"", "\"v\""]));
    story.client("a").gets(&list(["\"u:2\"", "\"v\""]));
    story.client("a").says("BLPOP u:1 x 0").gets(CROSSSLOT);
}

#[test]
fn what_names_no_key_goes_over_all_shards() {
    let mut story = Story::routes(false);
    story.client("a").says("DBSIZE");
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("DBSIZE").answers(":2");
    }
    story.client("a").gets(":6");
    let (mut cursor, mut keys) = ("0".to_string(), Vec::new());
    for (node, key) in [("n1", "u:1"), ("n2", "o:1"), ("n3", "u:vip:1")] {
        story.client("a").says(&format!("SCAN {cursor} MATCH u:*"));
        story.node(node).gets("SCAN 0 MATCH u:*");
        story.node(node).answers(&list(["\"0\"", &*list(&*format!("\"{key}\""))]));
        let got = story.client("a").takes_text();
        let lines: Vec<&str> = got.split("\r\n").collect();
        (cursor, keys) = (lines[2].to_string(), [keys, vec![lines[5].to_string()]].concat());
    }
    assert_eq!((&*cursor, keys), ("0", ["u:1", "o:1", "u:vip:1"].map(str::to_string).to_vec()));
}

#[test]
fn a_channel_belongs_where_a_key_of_its_name_would_lie_or_to_the_first_shard() {
    let mut story = Story::routes(false);
    for (channel, node) in [("u:vip:news", "n3"), ("u:news", "n1"), ("news", "n1")] {
        story.client("a").says(&format!("PUBLISH {channel} hi"));
        story.node(node).gets(&*format!("PUBLISH {channel} hi")).answers(":0");
        story.client("a").gets(":0");
        story.client("a").says(&format!("SPUBLISH {channel} hi"));
        story.node(node).gets(&*format!("SPUBLISH {channel} hi")).answers(":0");
        story.client("a").gets(":0");
    }
    story.client("b").says("SUBSCRIBE news");
    story.node("n1").gets("subscribe news");
}

#[test]
fn patterns_of_sort_must_stay_in_the_route_of_the_key() {
    const REFUSED: &str = "-ERR respool: BY and GET of SORT name keys that may lie on other shards; give them the hash tag of the sorted key";
    let mut story = Story::routes(true);
    // Behind `u:` could stand `vip:`, and `x*` is n2's.
    for line in ["SORT u:1 BY u:*", "SORT u:1 BY x*", "SORT u:1 GET u:vip:*", "SORT u:1 BY *"] {
        story.client("a").says(line).gets(REFUSED);
    }
    for (node, line) in [
        ("n1", "SORT u:1 BY u:w*"),
        ("n3", "SORT u:vip:1 BY u:vip:w:* GET #"),
        ("n2", "SORT x BY w*->f GET y*"),
    ] {
        story.client("a").says(line);
        story.node(node).gets(line).answers("*0");
        story.client("a").gets("*0");
    }
}

#[test]
fn chance_chooses_among_the_shards_of_a_route_once_for_a_request() {
    let mut story = Story::shards_with(|shards| {
        shards.sharding.distribution = Distribution::Random;
        let list = vec![route("r:", &[0, 1]), route("", &[2])];
        shards.sharding.routes = Some(Routes { ignore_case: false, list });
    });
    for _ in 0..8 {
        // Both hold the same.
        story.client("a").says(["MGET r:1 r:2 r:3", "RENAME r:1 r:2"]);
    }
    let mut found = [0, 0];
    for (node, count) in ["n1", "n2"].into_iter().zip(&mut found) {
        while let Some(line) = story.node(node).takes_one() {
            assert!(["MGET r:1 r:2 r:3", "RENAME r:1 r:2"].contains(&&*line), "{line}");
            *count += 1;
        }
    }
    assert!(found[0] > 0 && found[1] > 0 && found[0] + found[1] == 16, "{found:?}");
    assert_eq!(story.connects_to("n3"), 0);
}

#[test]
fn a_route_can_lead_to_a_cluster() {
    let mut story = Story::shards_with(|shards| {
        let seeds = vec![Address::tcp("c1", 7_000)];
        shards.children[2] = child_of("cache", Pool::Cluster { seeds });
        let list = vec![route("c:", &[2]), route("", &[0, 1])];
        shards.sharding.routes = Some(Routes { ignore_case: true, list });
    });
    story.cluster_is("0-16383 c1 c2").client("a").says(["SET C:{x}1 1", "MGET c:{x}1 c:{x}2"]);
    story.node("c1").gets("SET C:{x}1 1").answers("+OK");
    story.node("c1").gets("MGET c:{x}1 c:{x}2").answers(&list(["nil", "nil"]));
    story.client("a").gets(["+OK", &*list(["nil", "nil"])]);
    // A redirect stays in it.
    story.client("a").says("GET c:{x}1");
    let error = crate::words::cluster::moved("c:{x}1", "c2");
    story.node("c1").gets("GET c:{x}1").answers(&*error);
    story.node("c2").gets("GET c:{x}1").answers("\"1\"");
    story.client("a").gets("\"1\"");
}

#[test]
fn other_routes_take_over_while_clients_are_connected_and_nothing_is_overtaken() {
    let mut story = Story::routes(true);
    story.server_says_to("COMMAND", "*0");
    story.client("a").says(["SET u:1 x", "GET x"]);
    story.node("n1").gets("SET u:1 x");
    story.node("n2").gets("GET x").answers("nil");
    story.reconfigures(|settings| {
        let sharding = &mut settings.shards.as_mut().expect("there are shards").sharding;
        sharding.routes.as_mut().expect("there are routes").list =
            vec![route("x", &[0]), route("u:", &[2]), route("o:", &[1])];
    });
    // What is under way is answered by whoever has it; what comes behind waits for that.
    story.client("a").says(["GET u:1", "GET gone"]);
    silence(&mut story);
    story.node("n1").answers("+OK");
    story.node("n3").gets("GET u:1").answers("\"x\"");
    story.client("a").gets(["+OK", "nil", "\"x\"", &*nowhere("gone")]);
    story.client("b").says("GET x1");
    story.node("n1").gets("GET x1");
}
