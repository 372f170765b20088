//! INFO: the proxy's own sections, the server's where they are the server's.

use crate::words::{HELLO_2, Story};

fn info(story: &mut Story, line: &str) -> String {
    story.client("a").says(line);
    story.client("a").takes_text()
}

#[test]
fn info_has_the_proxys_figures_and_the_servers_version() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().answers("nil");
    story.client("a").gets("nil");
    let text = info(&mut story, "INFO");
    for line in [
        "# Server\r\nredis_version:7.2.5\r\nredis_mode:standalone\r\n",
        "proxy:respool\r\nproxy_version:0.0.1\r\n",
        "# Clients\r\nconnected_clients:1\r\n",
        "# Memory\r\n",
        "# Persistence\r\nloading:0\r\n",
        "# Stats\r\ntotal_connections_received:1\r\n",
        "# Replication\r\nrole:master\r\n",
        "# CPU\r\n",
        "# Workers\r\nworkers:1\r\nworker_0:clients=1,upstreams=1,requests=2,",
        "# Upstreams\r\nnode_0:127.0.0.1:6379\r\nnode_0_state:ready\r\nupstream_connections:1\r\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("cmdstat_"), "commandstats are not part of the default");
}

#[test]
fn in_front_of_valkey_versions_stand_where_valkey_has_them() {
    let mut story = Story::new();
    let hello = HELLO_2.replace("$5\r\nredis", "$6\r\nvalkey").replace("7.2.5", "9.1.2");
    story.server_says_to("HELLO 2", &hello);
    story.client("a").says("GET k");
    story.server().answers("nil");
    story.client("a").gets("nil");
    let text = info(&mut story, "INFO server");
    let begin = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:standalone\r\n";
    assert!(text.contains(begin), "{text}");
    assert!(!text.contains("redis_mode"), "{text}");
}

#[test]
fn sections_are_given_by_name_and_together() {
    let mut story = Story::new();
    let text = info(&mut story, "INFO CPU clients");
    assert_eq!(text.matches("# ").count(), 2, "{text}");
    assert!(text.contains("# Clients") && text.contains("# CPU"), "{text}");
    assert!(info(&mut story, "INFO everything").contains("# Commandstats"));
}

#[test]
fn commandstats_count_calls_errors_and_refusals() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "GET l", "INCR k", "SYNC", "PING", "NOSUCH\0"]);
    story.after_ms(2);
    story.server().answers(["nil", "\"v\"", "-ERR no"]);
    story.client("a").takes();
    let text = info(&mut story, "INFO commandstats");
    for line in [
        "cmdstat_get:calls=2,usec=4000,usec_per_call=2000.00,rejected_calls=0,failed_calls=0\r\n",
        "cmdstat_incr:calls=1,usec=2000,usec_per_call=2000.00,rejected_calls=0,failed_calls=1\r\n",
        "cmdstat_sync:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0\r\n",
        "cmdstat_unknown:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,",
        "cmdstat_ping:calls=1,",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn the_servers_own_sections_come_from_the_server() {
    let mut story = Story::new();
    for (line, asked) in [
        ("INFO keyspace", "INFO keyspace"),
        ("INFO replication", "INFO replication"),
        ("INFO keyspace modules", "INFO keyspace modules"),
        ("INFO upstream", "INFO"),
        ("INFO upstream stats", "INFO stats"),
    ] {
        story.client("a").says(line);
        story.server().gets(asked).answers("\"# Keyspace\"");
        story.client("a").gets("\"# Keyspace\"");
    }
}

#[test]
fn a_node_that_is_down_is_told_with_its_cause() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connect_fails("connect: Connection refused");
    story.client("a").takes();
    let text = info(&mut story, "INFO upstreams");
    assert!(text.contains("node_0_state:down (connect: Connection refused)\r\n"), "{text}");
    assert!(text.contains("upstream_failures:1\r\n"), "{text}");
}

#[test]
fn clients_that_wait_at_the_server_are_counted_while_they_do() {
    let mut story = Story::new();
    story.client("b").says("BLPOP list 0");
    story.client("c").says("GET k");
    assert!(info(&mut story, "INFO clients").contains("\r\nblocked_clients:1\r\n"));
    story.conn(1).gets("BLPOP list 0").answers("nil");
    story.client("b").gets("nil");
    assert!(info(&mut story, "INFO clients").contains("\r\nblocked_clients:0\r\n"));
}

#[test]
fn one_that_watches_keys_waits_only_as_long_as_its_blocking_command() {
    let mut story = Story::new();
    story.client("b").says("WATCH k");
    story.conn(1).gets("WATCH k").answers("+OK");
    story.client("b").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0");
    assert!(info(&mut story, "INFO clients").contains("\r\nblocked_clients:1\r\n"));
    story.conn(1).answers("nil");
    story.client("b").gets(["+OK", "nil"]);
    story.client("b").says("GET k");
    assert!(info(&mut story, "INFO clients").contains("\r\nblocked_clients:0\r\n"));
    // And the server has to answer as soon as to anybody.
    story.after_ms(10_001);
    let text = story.client("b").takes_text();
    assert!(text.contains("gave no reply for 10000 ms"), "{text}");
}

#[test]
fn clients_that_a_pause_holds_are_counted_as_blocked() {
    let mut story = Story::new();
    story.client("b").says("CLIENT PAUSE 60000 WRITE").gets("+OK");
    story.client("b").says(["GET k", "SET k 1"]);
    assert!(info(&mut story, "INFO clients").contains("\r\nblocked_clients:1\r\n"));
    story.client("a").says("CLIENT UNPAUSE").gets("+OK");
    assert!(info(&mut story, "INFO clients").contains("\r\nblocked_clients:0\r\n"));
}

#[test]
fn config_resetstat_sets_the_proxys_counters_to_zero_too() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "CONFIG RESETSTAT"]);
    story.server().gets(["GET k", "CONFIG RESETSTAT"]).answers(["nil", "+OK"]);
    story.client("a").gets(["nil", "+OK"]).says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    let text = info(&mut story, "INFO commandstats stats");
    assert!(text.contains("cmdstat_get:calls=1,"), "{text}");
    assert!(text.contains("total_connections_received:0\r\n"), "{text}");
}
