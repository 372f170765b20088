//! Servers tell addresses that are not theirs from where we stand: what the operator mapped is connected to, and nothing else.

use crate::words::Story;
use crate::words::cluster::seeds;
use engine::Settings;
use engine::address_map::AddressMap;
use engine::node::Address;

/// Port of every node in the words of `cluster`.
const PORT: u16 = 7_000;

/// The cluster calls its nodes t1, t2 and t3; they are n1, n2 and n3.
fn map(settings: &mut Settings) {
    let map = &mut settings.address_map;
    map.map_address("t1", PORT, Address::tcp("n1", PORT));
    map.map_address("t2", PORT, Address::tcp("n2", PORT));
    // The port is not another one, so the host is enough.
    map.map_host("t3", "n3");
    map.map_host("t4", "n4");
}

/// A cluster behind the map, to which the client `a` has spoken.
fn mapped() -> Story {
    let mut settings = seeds(&["n1"]);
    map(&mut settings);
    let mut story = Story::with(settings);
    story.cluster_is("0-5460 t1, 5461-10922 t2, 10923-16383 t3");
    story.warm_up();
    story
}

/// Nobody connected to an address that a server told.
fn assert_nobody_was_believed(story: &Story) {
    for told in ["t1", "t2", "t3", "t4"] {
        assert_eq!(story.connects_to(told), 0, "{told}");
    }
}

#[test]
fn the_nodes_of_the_table_are_where_the_map_says() {
    let mut story = mapped();
    assert_nobody_was_believed(&story);
    // The seed and the first node of the table are one and the same.
    assert_eq!(story.open_conns_to("n1"), 1);
    story.client("a").says("MGET a4 b4 c1");
    for (node, key) in [("n1", "a4"), ("n2", "b4"), ("n3", "c1")] {
        story.node(node).gets(&*format!("MGET {key}")).answers("*1\r\n$1\r\nv\r\n");
    }
    story.client("a").gets("*3\r\n$1\r\nv\r\n$1\r\nv\r\n$1\r\nv\r\n");
}

#[test]
fn redirects_lead_where_the_map_says() {
    let mut story = mapped();
    story.client("a").says(["SET a4 1", "GET a4"]);
    story.node("n1").gets(["SET a4 1", "GET a4"]).moved("a4", "t2").ask("a4", "t3");
    // The second goes another way than the first, and not before that is done.
    story.node("n2").gets("SET a4 1").answers("+OK");
    story.after_ms(10).node("n3").gets(["ASKING", "GET a4"]).answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
    assert_nobody_was_believed(&story);
}

#[test]
fn a_large_request_that_was_sent_to_the_wrong_node_teaches_the_mapped_address() {
    let mut story = mapped();
    let large = crate::words::large_set("a4", 300_000);
    story.client("a").sends(&large);
    let conn = story.connects_to("n1");
    story.node_conn("n1", conn).takes_requests();
    story.node_conn("n1", conn).moved("a4", "t2");
    assert!(story.client("a").takes_text().starts_with("-ERR"));
    story.client("a").says("GET a4");
    story.node("n2").gets("GET a4").answers("nil");
    story.client("a").gets("nil");
    assert_nobody_was_believed(&story);
}

#[test]
fn where_no_host_is_named_the_one_that_was_asked_counts() {
    let mut story = Story::cluster_with(|settings| {
        settings.address_map.map_address("n1", PORT, Address::tcp("n3", PORT));
    });
    story.cluster_is("0-5460 n2, 5461-16383 n3");
    story.client("a").says("GET a4");
    story.node("n2").gets("GET a4").answers("nil");
    story.client("a").gets("nil").says("GET a4");
    // n2 says "my own host": that is not mapped.
    story.node("n2").gets("GET a4").moved("a4", "").gets("GET a4").moved("a4", "n1");
    story.node("n3").gets("GET a4").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn configured_addresses_are_used_as_they_are() {
    let mut story = Story::cluster_with(|settings| {
        for seed in ["n1", "n2", "n3"] {
            settings.address_map.map_host(seed, "nowhere");
        }
        settings.address_map.map_host("t", "n9");
    });
    story.cluster_is("0-16383 t");
    story.client("a").says("GET k");
    story.node("n9").gets("GET k").answers("nil");
    story.client("a").gets("nil");
    assert!(story.connects_to("n1") > 0, "the seed was asked");
    assert_eq!(story.connects_to("nowhere"), 0);
}

#[test]
fn one_server_is_where_it_was_configured() {
    let mut address_map = AddressMap::default();
    address_map.map_host("127.0.0.1", "nowhere");
    let mut story = Story::with(Settings { address_map, ..Settings::default() });
    story.client("a").says("GET k");
    story.node("127.0.0.1").gets("GET k").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn what_sentinels_tell_is_looked_up_as_well() {
    let mut story = Story::sentinels_with(|settings| {
        map(settings);
        settings.address_map.map_host("told", "s2");
        settings.reads.policy = engine::settings::ReadPolicy::PreferReplica;
    });
    story.sentinels_are("s1 told").sentinels_say("t1 t2");
    story.node_says_to(
        "n2",
        "ROLE",
        "*5\r\n$5\r\nslave\r\n$2\r\nt1\r\n:7000\r\n$9\r\nconnected\r\n:1\r\n",
    );
    story.node_says_to("n1", "ROLE", "*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n");
    story.client("a").says(["SET k 1", "GET k"]);
    story.node("n1").gets("SET k 1").answers("+OK");
    story.node("n2").gets("GET k").answers("\"1\"");
    story.client("a").gets(["+OK", "\"1\""]);
    // The message is only a sign; what the sentinel then answers is looked up.
    story.sentinels_say("t3 t1").switch_master("s1").after_ms(100);
    story.client("a").says("SET k 2");
    story.node("n3").gets("SET k 2").answers("+OK");
    story.client("a").gets("+OK");
    assert_nobody_was_believed(&story);
    assert_eq!(story.connects_to("told"), 0);
}
