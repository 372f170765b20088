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
    Facade { on: true, announce, ..Facade::default() }
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
    settings.users = engine::acl::Users::with_password(b"secret").into();
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

/// Three respools p1, p2 and p3, of which this is none; its clients come over an address that is not announced.
fn with_peers() -> Story {
    let mut story = shown(&[("p1", 1), ("p2", 2), ("p3", 3)]);
    for peer in ["p1", "p2", "p3"] {
        story.node_says_to(peer, "PING", "+PONG");
    }
    story.after_ms(0);
    story
}

/// Who has slots, in the words of CLUSTER SLOTS: `p1 0-5460, …`.
fn shares(story: &mut Story) -> String {
    shares_seen_by(story, "a")
}

fn shares_seen_by(story: &mut Story, client: &str) -> String {
    let got = story.client(client).says("CLUSTER SLOTS").takes_text();
    let mut words = got.split("\r\n").skip(1);
    let mut shares = Vec::new();
    while words.next().is_some_and(|word| word == "*3") {
        let mut number =
            || words.next().and_then(|word| word.strip_prefix(':')).unwrap().to_string();
        let (first, last) = (number(), number());
        let host = words.nth(2).unwrap();
        shares.push(format!("{host} {first}-{last}"));
        words.nth(3);
    }
    shares.join(", ")
}

fn info_line(story: &mut Story, name: &str) -> String {
    let got = story.client("a").says("CLUSTER INFO").takes_text();
    let line = got.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {got}")).to_string()
}

const ALL: &str = "p1 0-5460, p2 5461-10921, p3 10922-16383";

#[test]
fn a_respool_that_is_dead_gets_no_slots_until_it_answers_again() {
    let mut story = with_peers();
    assert_eq!(shares(&mut story), ALL);
    assert_eq!(info_line(&mut story, "cluster_current_epoch"), "1");
    story.crashes("p2");
    assert_eq!(shares(&mut story), ALL, "one failure may be a restart");
    story.after_ms(1_000);
    assert_eq!(shares(&mut story), "p1 0-8191, p3 8192-16383");
    assert_eq!(info_line(&mut story, "cluster_current_epoch"), "2");
    assert_eq!(info_line(&mut story, "cluster_known_nodes"), "3");
    assert_eq!(info_line(&mut story, "cluster_size"), "2");
    assert!(story.was_told("Peer { address: \"p2:2\", down: true }"));
    let shards = story.client("a").says("CLUSTER SHARDS").takes_text();
    assert!(shards.starts_with("*2\r\n") && !shards.contains("p2"), "{shards}");
    let nodes = story.client("a").says("CLUSTER NODES").takes_text();
    let lines: Vec<&str> = text(&nodes).lines().collect();
    let ends = [
        " p1:1@10001 myself,master - 0 0 1 connected 0-8191",
        " p2:2@10002 master,fail - 0 0 1 disconnected",
        " p3:3@10003 master - 0 0 1 connected 8192-16383",
    ];
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{nodes}");
    story.is_up("p2").after_ms(1_000);
    assert_eq!(shares(&mut story), ALL);
    assert_eq!(info_line(&mut story, "cluster_current_epoch"), "3");
}

#[test]
fn who_lives_is_asked_once_a_second_with_nothing_but_ping() {
    let mut story = shown(&[("p1", 1), ("p2", 2)]);
    story.after_ms(0);
    for peer in ["p1", "p2"] {
        story.node(peer).gets("PING").gets_nothing().answers("+PONG");
    }
    for _ in 0..5 {
        story.after_ms(999).node("p1").gets_nothing();
        story.after_ms(1);
        for peer in ["p1", "p2"] {
            story.node(peer).gets("PING").gets_nothing().answers("+PONG");
        }
    }
    assert_eq!((story.connects_to("p1"), story.connects_to("p2")), (1, 1));
}

#[test]
fn no_password_goes_to_a_peer_and_an_error_is_a_sign_of_life() {
    let mut story = Story::cluster_with(|settings| {
        settings.facade = facade(&[("p1", 1), ("p2", 2)]);
        settings.node.password = Some(engine::settings::Password::new("secret"));
        settings.node.client_name = b"respool".to_vec();
        settings.node.db = 3;
    });
    for _ in 0..10 {
        story.after_ms(1_000);
        story.node("p1").gets("PING").gets_nothing().answers("-NOAUTH Authentication required.");
        story.node("p2").gets("PING").gets_nothing().answers("-LOADING x");
    }
    assert_eq!(shares(&mut story), "p1 0-8191, p2 8192-16383");
}

#[test]
fn one_that_is_full_says_so_and_hangs_up_but_lives() {
    let mut story = with_peers();
    story.node_says_to("p2", "PING", "-ERR max number of clients reached");
    for _ in 0..10 {
        story.node("p2").dies("closed the connection");
        story.after_ms(1_000);
        assert_eq!(shares(&mut story), ALL);
    }
}

#[test]
fn one_that_hangs_is_dead_after_two_connects_or_answers_that_did_not_come() {
    let mut story = shown(&[("p1", 1), ("p2", 2), ("p3", 3)]);
    story.node_says_to("p1", "PING", "+PONG");
    story.lets_connects_hang("p3");
    story.after_ms(0).node("p2").gets("PING");
    // The second question goes out with the second that follows; only one is under way.
    story.after_ms(1_999);
    assert_eq!(shares(&mut story), ALL);
    story.after_ms(1_001);
    assert_eq!(shares(&mut story), "p1 0-16383");
    assert_eq!((story.open_conns_to("p2"), story.open_conns_to("p3")), (1, 1));
    story.node("p2").gets("PING").answers("+PONG");
    assert_eq!(shares(&mut story), "p1 0-8191, p2 8192-16383");
    story.lets_connect("p3").node("p3").gets("PING").answers("+PONG");
    assert_eq!(shares(&mut story), ALL);
}

#[test]
fn one_that_answered_before_and_hangs_now_is_asked_again_over_a_new_connection() {
    let mut story = shown(&[("p1", 1), ("p2", 2)]);
    story.node_says_to("p1", "PING", "+PONG");
    story.after_ms(0).node("p2").gets("PING").answers("+PONG");
    story.after_ms(1_000).node("p2").gets("PING");
    story.after_ms(999).node("p2").is_open();
    story.after_ms(1).node_conn("p2", 1).is_closed();
    story.after_ms(999).node_conn("p2", 2).gets("PING").gets_nothing();
    assert_eq!(shares(&mut story), "p1 0-8191, p2 8192-16383");
    story.after_ms(1);
    assert_eq!(shares(&mut story), "p1 0-16383");
    // It is asked for as long as it takes, and its answer counts at once.
    story.after_ms(60_000);
    story.node_says_to("p2", "PING", "+PONG").after_ms(2_000);
    assert_eq!(shares(&mut story), "p1 0-8191, p2 8192-16383");
}

#[test]
fn the_address_that_a_client_is_connected_to_lives_whatever_is_thought_of_it() {
    let mut story = shown(&[("10.0.0.8", 1), ("10.0.0.9", 6_380), ("10.0.0.10", 3)]);
    story.node_says_to("10.0.0.8", "PING", "+PONG");
    story.is_down("10.0.0.9").is_down("10.0.0.10").after_ms(1_000);
    assert_eq!(shares(&mut story), "10.0.0.8 0-8191, 10.0.0.9 8192-16383");
    // Beside us nobody lives.
    story.crashes("10.0.0.8").after_ms(1_000);
    assert_eq!(shares(&mut story), "10.0.0.9 0-16383");
}

#[test]
fn where_nobody_would_be_left_all_are_shown() {
    let mut story = with_peers();
    story.crashes("p1").crashes("p2").crashes("p3").after_ms(1_000);
    assert_eq!(shares(&mut story), ALL);
    assert!(!story.client("a").says("CLUSTER NODES").takes_text().contains("fail"));
}

#[test]
fn our_own_address_is_not_asked_and_one_alone_is_not_either() {
    let mut settings =
        Settings { facade: facade(&[("10.0.0.9", 6_380), ("p2", 2)]), ..seeds(&["n1"]) };
    settings.facade.listens = vec![Address::tcp("10.0.0.9", 6_380)];
    let mut story = Story::with(settings);
    story.after_ms(5_000);
    assert_eq!((story.connects_to("10.0.0.9"), story.open_conns_to("p2")), (0, 1));
    let mut story = shown(&[("p1", 1)]);
    story.after_ms(5_000);
    assert_eq!(story.connects_to("p1"), 0);
    let mut story = Story::cluster_with(|settings| {
        settings.facade = Facade { on: false, ..facade(&[("p1", 1), ("p2", 2)]) };
    });
    story.after_ms(5_000);
    assert_eq!(story.connects_to("p1"), 0, "nobody is shown");
}

#[test]
fn two_respools_that_see_the_same_alive_tell_the_same() {
    let list = [("p1", 1), ("p2", 2), ("p3", 3), ("p4", 4)];
    let see = |dead: &[&str]| {
        let mut story = shown(&list);
        for (peer, _) in list {
            story.node_says_to(peer, "PING", "+PONG");
        }
        for peer in dead {
            story.after_ms(700).crashes(peer);
        }
        story.after_ms(2_000);
        let nodes = story.client("a").says("CLUSTER NODES").takes_text();
        (shares(&mut story), nodes)
    };
    let (one, other) = (see(&["p4", "p1"]), see(&["p1", "p4"]));
    assert_eq!(one.0, "p2 0-8191, p3 8192-16383");
    assert_eq!(one, other);
}

#[test]
fn the_first_worker_asks_and_the_others_hear() {
    let with = |worker: u32| {
        Story::cluster_with(|settings| {
            settings.facade = facade(&[("p1", 1), ("p2", 2)]);
            (settings.worker, settings.workers) = (worker, 2);
        })
    };
    let (mut first, mut second) = (with(0), with(1));
    first.node_says_to("p2", "PING", "+PONG").is_down("p1").after_ms(1_000);
    second.after_ms(5_000);
    assert_eq!((second.connects_to("p1"), second.connects_to("p2")), (0, 0));
    let both = "p1 0-8191, p2 8192-16383";
    assert_eq!((shares(&mut first), shares(&mut second)), ("p2 0-16383".into(), both.into()));
    for (_, news) in first.tells() {
        second.hears(news);
    }
    assert_eq!(shares(&mut second), "p2 0-16383");
    assert_eq!(info_line(&mut second, "cluster_current_epoch"), "2");
    first.is_up("p1").node_says_to("p1", "PING", "+PONG").after_ms(1_000);
    for (_, news) in first.tells() {
        second.hears(news);
    }
    assert_eq!((shares(&mut first), shares(&mut second)), (both.into(), both.into()));
    assert_eq!(info_line(&mut second, "cluster_current_epoch"), "3");
}

#[test]
fn peers_are_no_servers() {
    let mut story = Story::warm_cluster_with(|settings| {
        settings.facade = facade(&[("p1", 1), ("p2", 2)]);
        settings.pool = seeds(&["n1"]).pool;
    });
    for peer in ["p1", "p2"] {
        story.node(peer).gets("PING").answers("+PONG");
        story.node_says_to(peer, "PING", "+PONG");
    }
    let got = story.client("a").says("INFO upstreams").takes_text();
    for line in ["upstream_connections:3", "upstream_connects:3", "upstream_inflight:0"] {
        assert!(got.contains(line), "{line} is not in {got}");
    }
    story.client("a").says(["DBSIZE", "SCAN 0"]);
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("DBSIZE").answers(":1");
    }
    story.node("n1").gets("SCAN 0").answers("*2\r\n$1\r\n0\r\n*0\r\n");
    assert!(story.client("a").takes_text().starts_with(":3\r\n*2\r\n"));
    // New tables, and failures of peers, change nothing of that.
    story.crashes("p2").after_ms(20_000);
    assert!(story.asked_for_the_table().iter().all(|node| node.starts_with('n')));
    story.cluster_is("0-16383 n1").after_ms(20_000);
    assert_eq!((story.open_conns_to("p1"), story.open_conns_to("n2")), (1, 0));
    assert_eq!(shares(&mut story), "p1 0-16383");
    let got = story.client("a").says("INFO upstreams").takes_text();
    for line in ["upstream_connections:1", "upstream_failures:0", "upstream_losses:0"] {
        assert!(got.contains(line), "{line} is not in {got}");
    }
    assert!(!story.was_told("NodeDown") && !story.was_told("UpstreamLost"));
}

#[test]
fn one_server_with_peers_is_told_of_as_itself() {
    let mut story =
        Story::with(Settings { facade: facade(&[("p1", 1), ("p2", 2)]), ..Settings::default() });
    story.is_down("p1").after_ms(3_000);
    let got = story.client("a").says("INFO upstreams").takes_text();
    assert!(got.contains("node_0_state:idle"), "{got}");
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    let got = story.client("a").says("INFO upstreams").takes_text();
    assert!(got.contains("node_0_state:ready"), "{got}");
}

#[test]
fn a_peer_that_stays_dead_holds_up_no_pipeline() {
    let mut story =
        Story::warm_cluster_with(|settings| settings.facade = facade(&[("p1", 1), ("p2", 2)]));
    story.crashes("p1").after_ms(3_000);
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4");
    story.after_ms(2_000);
    // While the first is under way the second goes out as well, to the same connection.
    story.client("a").says("GET a8");
    story.node("n1").gets("GET a8").answers(["nil", "nil"]);
    story.client("a").gets(["nil", "nil"]);
}

#[test]
fn one_that_drains_asks_nobody() {
    let mut story = with_peers();
    story.engine.drain();
    story.node_says_to("p1", "PING", "-ERR not answered").after_ms(1_000);
    let before = story.node("p1").writes();
    story.after_ms(10_000);
    assert_eq!(story.node("p1").writes(), before);
    assert!(story.engine.is_quiet());
}

#[test]
fn hello_says_that_it_is_a_cluster() {
    let mode = |mode: &str| format!("$4\r\nmode\r\n${}\r\n{mode}\r\n", mode.len());
    for protocol in ["HELLO 2", "HELLO 3"] {
        let settings = Settings { facade: facade(&[]), ..Settings::default() };
        let got = Story::with(settings).client("a").says(protocol).takes_text();
        assert!(
            got.contains(&mode("cluster")) && got.contains("$4\r\nrole\r\n$6\r\nmaster"),
            "{got}"
        );
        let got = Story::new().client("a").says(protocol).takes_text();
        assert!(got.contains(&mode("standalone")), "{got}");
    }
}
