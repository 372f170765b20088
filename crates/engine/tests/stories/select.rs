//! Databases: each has its connection, and no request overtakes an earlier one of its client on the way there.

use crate::words::Story;

#[test]
fn a_selected_database_has_its_own_connection() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.client("b").says("SELECT 4").gets("+OK").says("GET k");
    assert_eq!((story.conn(1).key().db, story.conn(2).key().db), (0, 4));
    story.conn(2).gets("GET k").answers("\"four\"");
    story.conn(1).gets("GET k").answers("\"zero\"");
    story.client("a").gets("\"zero\"");
    story.client("b").gets("\"four\"");
}

#[test]
fn a_request_behind_select_waits_for_the_replies_before_it() {
    let mut story = Story::new();
    story.client("a").says(["SET k 1", "SELECT 4", "SET k 2", "PING"]);
    story.conn(1).gets("SET k 1");
    story.conn(2).gets_nothing();
    story.conn(1).answers("+OK");
    story.client("a").gets(["+OK", "+OK"]);
    story.conn(2).gets("SET k 2").answers("+OK");
    story.client("a").gets(["+OK", "+PONG"]);
}

#[test]
fn there_and_back_again_in_one_packet() {
    let mut story = Story::new();
    story.client("a").says(["GET a", "SELECT 1", "GET b", "SELECT 0", "GET c"]);
    story.conn(1).gets("GET a").answers("\"a\"");
    story.conn(2).gets("GET b").answers("\"b\"");
    story.conn(1).gets("GET c").answers("\"c\"");
    story.client("a").gets(["\"a\"", "+OK", "\"b\"", "+OK", "\"c\""]);
    assert_eq!(story.connects_made(), 2);
}

#[test]
fn a_database_that_does_not_exist_is_refused_in_the_servers_words() {
    let mut story = Story::new();
    story.server_says_to("SELECT 99", "-ERR DB index is out of range");
    story.client("a").says("SELECT 99").gets("-ERR DB index is out of range").is_open();
    story.client("a").says("GET k");
    assert_eq!(story.server().gets("GET k").key().db, 0, "it is still where it was");
    // It is asked again each time, so nothing of it stays.
    story.client("b").says("SELECT 99").gets("-ERR DB index is out of range");
    assert_eq!(story.open_conns(), 1);
}

#[test]
fn several_who_ask_for_a_missing_database_at_once_are_all_answered() {
    let mut story = Story::new();
    story.server_says_to("SELECT 99", "-ERR DB index is out of range");
    for name in ["a", "b", "c"] {
        story.client(name).sends_at_once(&crate::words::request("SELECT 99"));
    }
    story.turn();
    for name in ["a", "b", "c"] {
        story.client(name).gets("-ERR DB index is out of range");
    }
}

#[test]
fn what_is_no_index_is_refused_here() {
    let mut story = Story::new();
    story.client("a").says(["SELECT x", "SELECT 1.5", "SELECT -1", "SELECT 99999999999", "SELECT"]);
    story.client("a").gets([
        "-ERR value is not an integer or out of range",
        "-ERR value is not an integer or out of range",
        "-ERR DB index is out of range",
        "-ERR value is not an integer or out of range",
        "-ERR wrong number of arguments for 'select' command",
    ]);
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn clients_start_in_the_nodes_database() {
    let mut settings = engine::Settings::default();
    settings.node.db = 7;
    let mut story = Story::with(settings);
    story.client("a").says("GET k");
    assert_eq!(story.server().key().db, 7);
    story.client("a").says("SELECT 0").gets_nothing();
    story.conn(1).answers("nil");
    story.client("a").gets(["nil", "+OK"]);
}

#[test]
fn a_database_that_vanished_is_tried_again_with_backoff() {
    let mut story = Story::new();
    story.client("a").says("SELECT 4").gets("+OK");
    story.after_ms(5_000);
    story.server_says_to("SELECT 4", "-ERR DB index is out of range");
    story.server().dies("reset");
    story.client("a").says("GET k").gets("-ERR DB index is out of range");
    // The operator put it right; nobody says SELECT again.
    story.server_says_to("SELECT 4", "+OK");
    story.after_ms(1_000).client("a").says("GET k");
    story.client("a").takes();
    story.client("a").says("GET k");
    story.server().gets("GET k");
}

#[test]
fn the_bound_on_connections_refuses_one_more_database() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 2);
    story.client("a").says("GET k");
    story.client("b").says("SELECT 1").gets("+OK").says("GET k");
    story
        .client("c")
        .says("SELECT 2")
        .gets("-ERR respool: no upstream connection free (limits.upstream_conns_max)");
}

// Found by an attack: the table of a cluster named thousands of nodes, and connections to them took all descriptors.
#[test]
fn connections_to_all_servers_together_have_a_bound() {
    let mut story = Story::cluster_with(|settings| settings.limits.shared_conns_max = 4);
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    let mut refused = 0;
    for key in ["a4", "b4", "c1"] {
        for protocol in ["2", "3"] {
            let client = format!("{key}{protocol}");
            story.client(&client).says(&*format!("HELLO {protocol}")).takes();
            story.client(&client).says(&*format!("GET {key}"));
            let got = story.client(&client).takes_text();
            refused += usize::from(got.contains("the limit of open files has no room"));
        }
    }
    assert!((1..6).contains(&refused), "{refused}");
    assert!(story.open_conns() <= 4, "{}", story.open_conns());
    for number in 1..=story.connects_made() {
        while story.conn(number).takes_one().is_some() {
            story.conn(number).answers("nil");
        }
    }
    // An idle connection ends for a new one.
    for key in ["a4", "b4", "c1"] {
        let client = format!("{key}3");
        story.client(&client).takes_text();
        story.client(&client).says(&*format!("GET {key}"));
        let asked = story.conn_with(&format!("GET {key}"));
        story.conn(asked).gets(&*format!("GET {key}")).answers("\"v\"");
        story.client(&client).gets("\"v\"");
    }
    assert!(story.open_conns() <= 4, "{}", story.open_conns());
}

// Found by a review: the idle connection ended, and the new connection was not made.
#[test]
fn an_idle_connection_to_another_server_stays_where_the_server_itself_has_no_room() {
    let mut story = Story::cluster_with(|settings| {
        settings.limits.upstreams_max = 2;
        settings.limits.shared_conns_max = 3;
    });
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    for (client, words) in [("a", "GET b4"), ("a", "GET a4"), ("b", "HELLO 3"), ("b", "GET a4")] {
        story.client(client).says(words);
        story.client(client).takes();
    }
    story.node("n2").gets("GET b4").answers("nil");
    story.client("a").gets("nil");
    story.client("c").says("HELLO 3").takes();
    story.client("c").says("CLIENT TRACKING ON").gets("+OK").says("GET a4");
    story.client("c").gets("-ERR respool: no upstream connection free (limits.upstream_conns_max)");
    story.node("n2").is_open();
    assert_eq!(story.open_conns(), 3);
}

// Found by a review: the request ended its own connections in turn.
#[test]
fn a_request_to_more_servers_than_the_bound_has_room_for_is_an_error() {
    let mut story = Story::cluster_with(|settings| settings.limits.shared_conns_max = 2);
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    story.client("a").says("MGET a4 b4 c1");
    for _ in 0..20 {
        answer_all(&mut story);
        story.after_ms(5);
    }
    assert!(story.client("a").takes_text().contains("the limit of open files has no room"));
    assert!(story.connects_made() < 6, "{}", story.connects_made());
}

// Found by an attack: no connection ended, so the client never reached a part of the keys.
#[test]
fn a_client_reaches_one_server_after_the_other_of_more_than_the_bound_has_room_for() {
    let mut story = Story::cluster_with(|settings| settings.limits.shared_conns_max = 2);
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    for key in ["a4", "b4", "c1", "a4", "c1", "b4"] {
        story.client("a").says(&*format!("GET {key}"));
        story.after_ms(1);
        answer_all(&mut story);
        story.after_ms(1).client("a").gets("\"v\"");
        assert!(story.open_conns() <= 2, "{}", story.open_conns());
    }
}

#[test]
fn a_request_to_all_servers_takes_the_places_of_idle_connections_and_is_answered() {
    let mut story = Story::cluster_with(|settings| settings.limits.shared_conns_max = 4);
    for (client, hello) in [("old", "HELLO 2"), ("new", "HELLO 3"), ("old", "HELLO 2")] {
        story.client(client).says(hello);
        for _ in 0..20 {
            answer_all(&mut story);
            story.after_ms(5);
        }
        story.client(client).takes();
        story.client(client).says("MGET a4 b4 c1");
        for _ in 0..20 {
            answer_all(&mut story);
            story.after_ms(5);
        }
        let got = story.client(client).takes_text();
        assert_eq!(got.matches("$1\r\nv\r\n").count(), 3, "{got}");
        assert!(story.open_conns() <= 4, "{}", story.open_conns());
    }
    assert!(story.connects_made() < 30, "{}", story.connects_made());
}

/// Every server answers each request for one key with `v`.
fn answer_all(story: &mut Story) {
    for number in 1..=story.connects_made() {
        while let Some(line) = story.conn(number).takes_one() {
            let reply = if line.starts_with("MGET") { "*1\r\n$1\r\nv\r\n" } else { "\"v\"" };
            story.conn(number).answers(reply);
        }
    }
}

// Found by an attack: HELLO was refused, and a client that went on got replies in RESP2.
#[test]
fn hello_3_without_room_for_a_connection_is_taken_where_the_server_has_agreed_before() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 3);
    story.client("a").says("GET k");
    story.client("b").says("SELECT 1").gets("+OK").says("HELLO 3").takes();
    story.client("b").says("GET k");
    story.client("c").says("SELECT 2").gets("+OK").says("GET k");
    story.client("d").says("HELLO 3");
    assert!(story.client("d").takes_text().starts_with("%7"));
    // respool has no RESP3 connection to this database.
    story.client("d").says("GET k");
    story.client("d").gets("-ERR respool: no upstream connection free (limits.upstream_conns_max)");
}

// Found by an attack: whoever walked through the databases kept others out of theirs, also when it had gone.
#[test]
fn an_idle_connection_of_another_database_makes_room() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 3);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    for db in 1..16 {
        story.after_ms(1).client("a").says(&format!("SELECT {db}")).gets("+OK");
    }
    assert_eq!(story.open_conns(), 3);
    story.client("b").says("SELECT 1").gets("+OK").says("GET k");
    story.server().gets("GET k").answers("\"v\"");
    story.client("b").gets("\"v\"");
    // That of the last database was used later than the others.
    story.client("a").says("GET k");
    story.conn(16).gets("GET k");
    assert_eq!(story.open_conns(), 3);
}

#[test]
fn the_database_one_is_in_can_be_selected_without_the_server() {
    let mut story = Story::new();
    story.client("a").says("SELECT 0").gets("+OK");
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn select_on_a_node_that_is_down_says_so_and_changes_nothing() {
    let mut story = Story::new().by_hand();
    story.client("a").says("SELECT 3").gets_nothing();
    story.connect_fails("connect: Connection refused");
    story
        .client("a")
        .gets("-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused")
        .says("SELECT 0")
        .gets("+OK");
}

#[test]
fn in_front_of_a_cluster_no_key_goes_to_a_database_that_nobody_reaches() {
    let moved = "-ERR MOVE is not allowed in cluster mode";
    let copied = "-ERR Copying to another database is not allowed in cluster mode";
    let mut story = Story::warm_cluster();
    for (line, reply) in [
        ("MOVE a4 4", moved),
        ("MOVE a4 0", moved),
        ("COPY a4 a4 DB 4", copied),
        ("COPY a4 {a4}b REPLACE db\0 0 Db 4", copied),
        ("MOVE a4", "-ERR wrong number of arguments for 'move' command"),
    ] {
        if line == "MOVE a4" {
            story.client("a").says(line);
            continue;
        }
        story.client("a").says(line).gets(reply);
    }
    let goes = ["COPY a4 {a4}b DB 0", "COPY a4 {a4}b DB 4 DB 0", "COPY a4 {a4}b DB x"];
    story.client("b").says(goes);
    story.node("n1").gets("MOVE a4").gets(goes);
    // In a transaction it is queued, and an error in the answer.
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "SET a4 1", "MOVE a4 4", "COPY a4 a4 DB 4", "EXEC"]);
    let mut begin = story.node_conn("n1", 2).gets(["MULTI", "SET a4 1"]);
    assert_eq!(begin.waiting(), 0);
    story.node_conn("n1", 2).answers(["+OK", "+QUEUED"]).gets(["PING", "PING", "EXEC"]);
    let executed = "*3\r\n+OK\r\n+PONG\r\n+PONG\r\n";
    story.node_conn("n1", 2).answers(["+QUEUED", "+QUEUED", executed]);
    let done = format!("*3\r\n+OK\r\n{moved}\r\n{copied}\r\n");
    story.client("a").gets(["+OK", "+QUEUED", "+QUEUED", "+QUEUED", &*done]);
}

#[test]
fn in_front_of_one_server_databases_are_the_servers_to_refuse() {
    let mut story = Story::new();
    let lines = ["MOVE k 4", "COPY k k DB 4"];
    story.client("a").says(lines);
    story.server().gets(lines);
}

// Found by an attack: two hundred clients one after the other, of which each used a database and left. Connections that
// nobody used any more were in the way of others.
#[test]
fn a_connection_that_waits_for_a_client_makes_room_for_a_database() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 2);
    story.client("a").says("GET k").sends(&crate::words::large_set("big", 1 << 20));
    story.conn(1).gets("GET k").answers("nil");
    story.conn(2).gets_large_and_answers();
    story.client("a").gets(["nil", "+OK"]);
    story.client("b").says("SELECT 1").gets("+OK").says("GET k");
    story.conn(2).is_closed();
    story.conn(3).gets("GET k").answers("nil");
    story.client("b").gets("nil");
    // While it is used it stays.
    story.client("a").sends(&crate::words::large_set("big", 1 << 20));
    story.client("c").says("SELECT 2");
    assert!(
        story.client("c").takes_text().starts_with("-ERR respool: no upstream connection free")
    );
}
