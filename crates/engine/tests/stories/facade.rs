//! respool shown as a cluster of its own, or as a server that is none.

use crate::words::cluster::{list, seeds};
use crate::words::{HELLO_3, Story, request};
use engine::Settings;
use engine::node::Address;
use engine::settings::Facade;
use std::sync::LazyLock;

const DISABLED: &str = "-ERR This instance has cluster support disabled";

/// What a copy in a cluster says to HELLO 3.
static CLUSTER_REPLICA: LazyLock<String> = LazyLock::new(|| {
    let mode = HELLO_3.replace("mode\r\n$10\r\nstandalone", "mode\r\n$7\r\ncluster");
    mode.replace("role\r\n$6\r\nmaster", "role\r\n$7\r\nreplica")
});

/// A facade with these nodes; none: the address that the client connected to.
fn facade(announce: &[(&str, u16)]) -> Facade {
    let announce = announce.iter().map(|(host, port)| Address::tcp(*host, *port)).collect();
    Facade { on: true, announce }
}

/// A cluster that is shown as one.
fn shown(announce: &[(&str, u16)]) -> Story {
    Story::cluster_with(|settings| settings.facade = facade(announce))
}

/// The id of the node that a client is connected to.
fn my_id(story: &mut Story) -> String {
    let got = story.client("a").says("CLUSTER MYID").takes_text();
    let id = got.split("\r\n").nth(1).expect("a bulk").to_string();
    assert!(id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    id
}

/// The replies of a bulk: its text.
fn text(got: &str) -> &str {
    let (_, rest) = got.split_once("\r\n").expect("a head");
    rest.strip_suffix("\r\n").expect("an end")
}

#[test]
fn without_it_clients_get_what_a_server_says_that_is_no_cluster() {
    let mut story = Story::warm_cluster();
    for word in
        ["SLOTS", "SHARDS", "NODES", "INFO", "MYID", "KEYSLOT k", "COUNTKEYSINSLOT 1", "FORGET x"]
    {
        story.client("a").says(&format!("CLUSTER {word}")).gets(DISABLED);
        story.client("a").sends(&request(&format!("cluster {}", word.to_lowercase())));
        story.client("a").gets(DISABLED);
    }
    story.client("a").says(["READONLY", "READWRITE", "ASKING"]);
    story.client("a").gets([DISABLED, DISABLED, DISABLED]);
    story.client("a").says(["CLUSTER NONSENSE", "CLUSTER"]).gets([
        "-ERR unknown subcommand 'NONSENSE'. Try CLUSTER HELP.",
        "-ERR wrong number of arguments for 'cluster' command",
    ]);
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets_nothing();
    }
}

#[test]
fn slots_are_all_at_the_address_that_the_client_connected_to() {
    let mut story = shown(&[]);
    let id = my_id(&mut story);
    story.client("a").says("CLUSTER SLOTS").gets(&format!(
        "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$8\r\n10.0.0.9\r\n:6380\r\n$40\r\n{id}\r\n*0\r\n"
    ));
}

#[test]
fn what_a_slots_reply_tells_besides_is_a_map_in_resp3() {
    let mut story = shown(&[]);
    let two = story.client("a").says("CLUSTER SLOTS").takes_text();
    assert!(two.ends_with("\r\n*0\r\n"), "{two}");
    story.client("a").says("HELLO 3").takes();
    let three = story.client("a").says("CLUSTER SLOTS").takes_text();
    assert!(three.ends_with("\r\n%0\r\n"), "{three}");
}

#[test]
fn one_announced_address_is_the_whole_cluster_whoever_is_asked() {
    // A balancer's, say, in front of several respools.
    let mut story = shown(&[("10.0.0.100", 7_000)]);
    let id = my_id(&mut story);
    story.client("a").says("CLUSTER SLOTS").gets(&format!(
        "*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$10\r\n10.0.0.100\r\n:7000\r\n$40\r\n{id}\r\n*0\r\n"
    ));
    let nodes = story.client("a").says("CLUSTER NODES").takes_text();
    let line = format!("{id} 10.0.0.100:7000@17000 myself,master - 0 0 1 connected 0-16383");
    assert_eq!(text(&nodes).lines().collect::<Vec<_>>(), [line]);
}

#[test]
fn announced_nodes_share_the_slots_and_each_client_hears_the_same() {
    let mut story = shown(&[("10.0.0.8", 7_001), ("10.0.0.9", 6_380), ("10.0.0.10", 7_003)]);
    let slots = story.client("a").says("CLUSTER SLOTS").takes_text();
    let numbers: Vec<u32> =
        slots.split("\r\n").filter_map(|line| line.strip_prefix(':')?.parse().ok()).collect();
    let mut wanted = Vec::new();
    for (first, last, port) in [(0, 5_460, 7_001), (5_461, 10_921, 6_380), (10_922, 16_383, 7_003)]
    {
        wanted.extend([first, last, port]);
    }
    assert_eq!(numbers, wanted);
    assert_eq!(story.client("b").says("CLUSTER SLOTS").takes_text(), slots);
    // The one that this client is connected to is the second.
    let id = my_id(&mut story);
    let nodes = story.client("a").says("CLUSTER NODES").takes_text();
    let lines: Vec<&str> = text(&nodes).lines().collect();
    assert_eq!(lines.len(), 3, "{nodes}");
    let me = format!("{id} 10.0.0.9:6380@16380 myself,master - 0 0 1 connected 5461-10921");
    assert_eq!(lines[1], me);
    assert!(lines[0].ends_with(" 10.0.0.8:7001@17001 master - 0 0 1 connected 0-5460"), "{nodes}");
    assert!(slots.contains(&id));
}

#[test]
fn shards_are_maps_in_resp3_and_flat_in_resp2() {
    let mut story = shown(&[]);
    let id = my_id(&mut story);
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let reply = |map: fn(usize) -> String| {
        let mut out = format!("*1\r\n{}", map(2));
        out += &format!("{}*2\r\n:0\r\n:16383\r\n{}*1\r\n{}", bulk("slots"), bulk("nodes"), map(7));
        out += &format!("{}{}{}:6380\r\n", bulk("id"), bulk(&id), bulk("port"));
        for (name, value) in [("ip", "10.0.0.9"), ("endpoint", "10.0.0.9"), ("role", "master")] {
            out += &format!("{}{}", bulk(name), bulk(value));
        }
        out + &format!("{}:0\r\n{}{}", bulk("replication-offset"), bulk("health"), bulk("online"))
    };
    story.client("a").says("CLUSTER SHARDS").gets(&reply(|count| format!("*{}\r\n", 2 * count)));
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLUSTER SHARDS").gets(&reply(|count| format!("%{count}\r\n")));
}

#[test]
fn the_state_is_that_of_a_whole_cluster() {
    let mut story = shown(&[("a", 1), ("b", 2)]);
    let got = story.client("a").says("CLUSTER INFO").takes_text();
    for line in [
        "cluster_state:ok",
        "cluster_slots_assigned:16384",
        "cluster_slots_ok:16384",
        "cluster_known_nodes:2",
        "cluster_size:2",
    ] {
        assert!(text(&got).lines().any(|told| told == line), "{line} is not in {got}");
    }
    assert!(!got.contains("cluster_enabled"), "a server has this in INFO only: {got}");
    let got = story.client("a").says("INFO cluster").takes_text();
    assert!(got.contains("cluster_enabled:1"), "{got}");
}

#[test]
fn info_without_it_tells_of_no_cluster() {
    let mut story = Story::warm_cluster();
    story.server_says_to("HELLO 3", &CLUSTER_REPLICA).client("b").says("HELLO 3").takes();
    let got = story.client("a").says("INFO").takes_text();
    for line in ["cluster_enabled:0", "redis_mode:standalone", "role:master"] {
        assert!(got.contains(line), "{line} is not in {got}");
    }
}

#[test]
fn one_server_tells_itself_whether_it_is_in_a_cluster() {
    let mut story = Story::new();
    story.client("a").says("INFO cluster");
    story.server().gets("INFO cluster");
}

#[test]
fn the_slot_of_a_key_is_the_clusters() {
    let mut story = shown(&[]);
    story.client("a").says(["CLUSTER KEYSLOT foo", "CLUSTER KEYSLOT {foo}bar", "CLUSTER KEYSLOT"]);
    let arity = "-ERR wrong number of arguments for 'cluster|keyslot' command";
    story.client("a").gets([":12182", ":12182", arity]);
}

#[test]
fn readonly_readwrite_and_asking_are_taken_and_change_nothing() {
    let mut story = Story::warm_cluster_with(|settings| settings.facade = facade(&[]));
    story.client("a").says(["READONLY", "GET a4", "ASKING", "GET b4", "READWRITE"]);
    story.node("n1").gets("GET a4").gets_nothing().answers("\"a\"");
    story.node("n2").gets("GET b4").gets_nothing().answers("\"b\"");
    story.client("a").gets(["+OK", "\"a\"", "+OK", "\"b\"", "+OK"]);
}

#[test]
fn a_client_that_believes_it_is_never_redirected() {
    let mut story = Story::warm_cluster_with(|settings| {
        settings.facade = facade(&[("10.0.0.8", 1), ("10.0.0.9", 6_380)]);
    });
    // c1 is in the last third; this client asks the node with the second half as well as the first.
    story.client("a").says(["GET c1", "GET a4", "MGET a4 c1"]);
    story.node("n3").gets(["GET c1", "MGET c1"]).answers(["\"c\"", &*list("\"c\"")]);
    story.node("n1").gets(["GET a4", "MGET a4"]).answers(["\"a\"", &*list("\"a\"")]);
    story.client("a").gets(["\"c\"", "\"a\"", &*list(["\"a\"", "\"c\""])]);
}

#[test]
fn subcommands_that_change_a_cluster_are_not_there() {
    let mut story = Story::warm_cluster_with(|settings| settings.facade = facade(&[]));
    for word in ["FORGET", "RESET", "FAILOVER", "MEET"] {
        story
            .client("a")
            .says(&format!("CLUSTER {word} x y"))
            .gets(&format!("-ERR unknown subcommand '{word}'. Try CLUSTER HELP."));
    }
    story.client("a").says("CLUSTER").gets("-ERR wrong number of arguments for 'cluster' command");
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets_nothing();
    }
}

#[test]
fn the_nodes_have_no_links_and_no_replicas() {
    let mut story = shown(&[("a", 1), ("b", 2)]);
    let id = my_id(&mut story);
    story.client("a").says("CLUSTER LINKS").gets("*0\r\n");
    for word in ["REPLICAS", "SLAVES"] {
        story.client("a").says(&format!("CLUSTER {word} {id}")).gets("*0\r\n");
        story.client("a").says(&format!("CLUSTER {word} abc")).gets("-ERR Unknown node abc");
    }
    story.client("a").says(&format!("CLUSTER COUNT-FAILURE-REPORTS {id}")).gets(":0");
    story.client("a").says("CLUSTER COUNT-FAILURE-REPORTS abc").gets("-ERR Unknown node abc");
}

#[test]
fn a_wrong_number_of_arguments_is_told_as_servers_tell_it() {
    let mut story = shown(&[]);
    for (request, name) in [
        ("CLUSTER SLOTS x", "slots"),
        ("CLUSTER SHARDS x", "shards"),
        ("CLUSTER NODES x", "nodes"),
        ("CLUSTER INFO x", "info"),
        ("CLUSTER MYID x", "myid"),
        ("CLUSTER LINKS x", "links"),
        ("CLUSTER HELP x", "help"),
        ("CLUSTER KEYSLOT a b", "keyslot"),
        ("CLUSTER REPLICAS", "replicas"),
    ] {
        story
            .client("a")
            .says(request)
            .gets(&format!("-ERR wrong number of arguments for 'cluster|{name}' command"));
    }
}

#[test]
fn help_names_what_is_answered_and_nothing_else() {
    let mut story = shown(&[]);
    let help = story.client("a").says("CLUSTER HELP").takes_text();
    let lines: Vec<&str> = help.split("\r\n").filter_map(|line| line.strip_prefix('+')).collect();
    assert!(help.starts_with(&format!("*{}\r\n", lines.len())), "{help}");
    assert!(lines[0].starts_with("CLUSTER <subcommand>"), "{help}");
    for word in ["SLOTS", "KEYSLOT <key>", "REPLICAS <node-id>", "HELP"] {
        assert!(lines.contains(&word), "{word} is not in {help}");
    }
    for line in lines.iter().filter(|line| line.chars().all(|letter| letter.is_ascii_uppercase())) {
        let got = story.client("a").says(&format!("CLUSTER {line}")).takes_text();
        assert!(!got.starts_with('-'), "{line}: {got}");
    }
}

#[test]
fn one_server_is_shown_as_a_cluster_of_one() {
    let mut story = Story::with(Settings { facade: facade(&[]), ..Settings::default() });
    story.client("a").says(["CLUSTER KEYSLOT k", "READONLY", "GET k"]);
    story.server().gets("GET k").gets_nothing().answers("\"v\"");
    story.client("a").gets([":7629", "+OK", "\"v\""]);
    let got = story.client("a").says("CLUSTER SLOTS").takes_text();
    assert!(
        got.starts_with("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$8\r\n10.0.0.9\r\n:6380\r\n"),
        "{got}"
    );
}

#[test]
fn one_server_without_it_answers_for_itself() {
    let mut story = Story::new();
    story.client("a").says(["CLUSTER INFO", "READONLY"]);
    story.server().gets("CLUSTER INFO").gets_nothing().answers(DISABLED);
    story.client("a").gets([DISABLED, DISABLED]);
}

#[test]
fn it_answers_before_any_server_does_and_after_the_password() {
    let mut settings = Settings { facade: facade(&[]), ..seeds(&["n1"]) };
    settings.password = Some(engine::settings::Password::new("secret"));
    let mut story = Story::with(settings);
    story.is_down("n1").client("a").says(["CLUSTER SLOTS", "READONLY"]);
    let refused = "-NOAUTH Authentication required.";
    story.client("a").gets([refused, refused]).says("AUTH secret").gets("+OK");
    assert!(story.client("a").says("CLUSTER SLOTS").takes_text().starts_with("*1\r\n"));
}

#[test]
fn its_answers_keep_their_place_in_a_pipeline() {
    let mut story = Story::warm_cluster_with(|settings| settings.facade = facade(&[]));
    story.client("a").says(["GET a4", "CLUSTER KEYSLOT foo", "GET b4"]);
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.client("a").gets_nothing();
    story.node("n1").gets("GET a4").answers("\"a\"");
    story.client("a").gets(["\"a\"", ":12182", "\"b\""]);
    story.client("a").says(["CLIENT REPLY SKIP", "CLUSTER SLOTS", "PING"]).gets("+PONG");
}
