//! Several shared connections to one server: clients are spread evenly, and each keeps to its own.

use crate::words::Story;
use engine::settings::Settings;

/// One server with so many connections.
fn several(conns: u16) -> Story {
    Story::with_limits(|limits| limits.shared_conns = conns)
}

fn two(settings: &mut Settings) {
    settings.limits.shared_conns = 2;
}

#[test]
fn without_the_option_all_clients_share_one() {
    let mut story = Story::new();
    for client in ["a", "b", "c"] {
        story.client(client).says("GET k");
        story.server().gets("GET k").answers("nil");
        story.client(client).gets("nil");
    }
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn clients_are_spread_evenly_and_keep_their_connection() {
    let mut story = several(3);
    for _ in 0..3 {
        for (client, conn) in [("a", 1), ("b", 2), ("c", 3), ("d", 1), ("e", 2)] {
            story.client(client).says(["SET k 1", "GET k"]);
            story.conn(conn).gets(["SET k 1", "GET k"]).gets_nothing().answers(["+OK", "\"1\""]);
            story.client(client).gets(["+OK", "\"1\""]);
        }
    }
    assert_eq!(story.connects_made(), 3);
}

#[test]
fn who_comes_takes_the_connection_with_the_fewest_clients() {
    let mut story = several(2);
    for (client, conn) in [("a", 1), ("b", 2), ("c", 1), ("d", 2)] {
        story.client(client).says("GET k");
        story.conn(conn).gets("GET k").answers("nil");
        story.client(client).gets("nil");
    }
    // Both of the first connection leave, so the next two come there.
    story.client("a").ends();
    story.client("c").dies();
    for client in ["e", "f"] {
        story.client(client).says("GET k");
        story.conn(1).gets("GET k").answers("nil");
        story.client(client).gets("nil");
    }
    story.client("g").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.client("h").says("GET k");
    story.conn(2).gets("GET k").answers("nil");
}

#[test]
fn a_lost_connection_costs_its_own_clients_only() {
    let mut story = several(2);
    story.client("a").says("SET k a");
    story.client("b").says("SET k b");
    story.conn(1).gets("SET k a").dies("reset");
    assert!(story.client("a").takes_text().starts_with("-ERR respool: upstream"));
    story.client("b").gets_nothing();
    story.conn(2).gets("SET k b").answers("+OK");
    story.client("b").gets("+OK");
    // Its place is taken by another one, for the same clients.
    story.client("a").says("GET k");
    story.conn(3).gets("GET k").answers("\"b\"");
    story.client("a").gets("\"b\"");
}

#[test]
fn a_client_that_does_not_take_its_reply_holds_up_those_on_its_connection_only() {
    let mut story = several(2);
    story.client("a").says("GET big").stops_taking();
    story.client("b").says("GET k");
    story.client("c").says("GET k");
    let big = format!("${}\r\n{}\r\n", 40 << 20, "x".repeat(40 << 20));
    story.conn(1).gets(["GET big", "GET k"]).sends(big.as_bytes()).answers("\"c\"").is_not_read();
    story.conn(2).gets("GET k").answers("\"b\"");
    story.client("b").gets("\"b\"");
    story.client("c").gets_nothing();
}

#[test]
fn databases_and_protocols_have_as_many_each() {
    let mut story = several(2);
    for (client, conns) in [("a", [1, 2]), ("b", [3, 4])] {
        story.client(client).says("GET k");
        story.conn(conns[0]).gets("GET k").answers("nil");
        story.client(client).gets("nil").says(["SELECT 3", "GET k"]);
        // Whether the database is there is asked over the first connection of the database.
        let conn = story.connects_made();
        story.conn(conn).gets("GET k").answers("nil");
        assert_eq!(story.conn(conn).key().db, 3);
    }
    let numbers = |story: &mut Story| -> Vec<(u32, u16)> {
        (1..=story.connects_made())
            .map(|n| (story.conn(n).key().db, story.conn(n).key().conn))
            .collect()
    };
    let mut found = numbers(&mut story);
    found.sort_unstable();
    assert_eq!(found, [(0, 0), (0, 1), (3, 0), (3, 1)]);
}

#[test]
fn in_a_cluster_a_client_has_the_same_number_at_every_node() {
    let mut story = Story::warm_cluster_with(two);
    story.client("b").says(["GET a4", "GET b4", "GET c1", "MGET a4 b4"]);
    for (node, key) in [("n1", "a4"), ("n2", "b4"), ("n3", "c1")] {
        story.node(node).gets(&*format!("GET {key}")).answers("nil");
        assert_eq!((story.open_conns_to(node), story.node(node).key().conn), (2, 1), "{node}");
    }
    for (node, key) in [("n1", "a4"), ("n2", "b4")] {
        story.node(node).gets(&*format!("MGET {key}")).gets_nothing().answers("*1\r\n$-1\r\n");
    }
    story.client("b").gets(["nil", "nil", "nil", "*2\r\n$-1\r\n$-1\r\n"]);
    // The first client is where it was.
    story.client("a").says("GET a4");
    story.node_conn("n1", 1).gets("GET a4").answers("nil");
    story.client("a").gets("nil");
}

/// What was sent on and what is sent after it take the same connection, or a read could overtake its write.
#[test]
fn a_redirected_pipeline_stays_in_order_on_the_connections_of_its_client() {
    let mut story = Story::warm_cluster_with(two);
    story.client("b").says(["GET a4", "GET b4"]);
    story.node("n1").gets("GET a4").answers("nil");
    story.node("n2").gets("GET b4").answers("nil");
    story.client("b").gets(["nil", "nil"]);
    story.client("b").says(["SET a4 1", "GET a4"]);
    story.node_conn("n1", 2).gets(["SET a4 1", "GET a4"]).moved("a4", "n2").moved("a4", "n2");
    story.client("b").says("GET a4");
    story.node_conn("n2", 1).gets_nothing();
    story.node_conn("n2", 2).gets(["SET a4 1", "GET a4"]).answers(["+OK", "\"1\""]);
    story.node_conn("n2", 2).gets("GET a4").answers("\"1\"");
    story.client("b").gets(["+OK", "\"1\"", "\"1\""]);
    // ASK as well: ASKING and the request it is for stand side by side.
    story.client("b").says("GET c1");
    story.node("n3").gets("GET c1").ask("c1", "n2");
    story.node_conn("n2", 2).gets(["ASKING", "GET c1"]).answers(["+OK", "nil"]);
    story.client("b").gets("nil");
}

#[test]
fn a_read_that_lost_its_connection_is_sent_again_on_the_one_of_its_client() {
    let mut story = Story::warm_cluster_with(two);
    story.client("b").says("GET a4");
    story.node_conn("n1", 2).gets("GET a4").dies("reset");
    story.node_conn("n1", 1).gets_nothing();
    assert_eq!(story.node("n1").key().conn, 1);
    story.node("n1").gets("GET a4").answers("\"v\"");
    story.client("b").gets("\"v\"");
}

#[test]
fn copies_are_told_readonly_on_each_connection() {
    let mut story = Story::cluster_with(|settings| {
        two(settings);
        settings.reads.policy = engine::settings::ReadPolicy::Replica;
    });
    story.cluster_is("0-16383 n1 r1");
    story.node_says_to("n1", "ROLE", "*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n");
    story.node_says_to(
        "r1",
        "ROLE",
        "*5\r\n$5\r\nslave\r\n$2\r\nn1\r\n:7000\r\n$9\r\nconnected\r\n:1\r\n",
    );
    for (client, conn) in [("a", 0), ("b", 1)] {
        story.client(client).says("GET k");
        assert_eq!(story.node("r1").key().conn, conn);
        story.node("r1").gets(["READONLY", "GET k"]).answers(["+OK", "nil"]);
        story.client(client).gets("nil");
    }
    // One of the two is lost and the server refuses: it counts as down for the reads of everybody.
    story.is_down("r1").node_conn("r1", 2).dies("reset");
    story.client("a").says("GET k");
    assert_eq!(
        story.client("a").takes_text(),
        "-ERR respool: no replica is fit to read from (reads.policy is replica)\r\n"
    );
}

/// Large requests have connections of their own, which are nobody's number.
#[test]
fn a_large_request_does_not_take_a_shared_connection() {
    let mut story = several(2);
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.client("b").says("GET k");
    story.conn(2).gets("GET k").answers("nil");
    let large = crate::words::large_set("k", 300_000);
    story.client("b").gets("nil").sends(&large);
    story.conn(3).takes_requests();
    story.conn(3).answers("+OK");
    story.client("b").gets("+OK").says("GET k");
    story.conn(2).gets("GET k").answers("\"v\"");
    story.client("b").gets("\"v\"");
}
