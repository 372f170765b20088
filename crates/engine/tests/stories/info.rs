//! INFO: the proxy's own sections, the server's where they are the server's.

use crate::namespace;
use crate::words::{HELLO_2, Story};

/// What a server says of itself.
fn says_of_itself(lines: &[&str]) -> String {
    format!("\"{}\"", lines.iter().map(|line| format!("{line}\r\n")).collect::<String>())
}

fn info(story: &mut Story, line: &str) -> String {
    story.client("a").says(line);
    story.client("a").takes_text()
}

#[test]
fn info_has_the_proxys_figures_and_the_servers_version() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
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
        "# Keyspace\r\n\r\n",
        "# CPU\r\n",
        "# Workers\r\nworkers:1\r\nworker_0:clients=1,upstreams=1,requests=2,",
        "# Upstreams\r\nnode_0:127.0.0.1:6379\r\nnode_0_state:ready\r\nupstream_connections:1\r\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("cmdstat_"), "commandstats are not part of the default");
}

// A client that came in the first milliseconds read an empty version, and libraries that ask for it first gave up.
#[test]
fn the_version_is_awaited_unless_the_server_is_away() {
    let mut story = Story::new().by_hand();
    for line in ["INFO server", "INFO cpu server"] {
        story.client(line).says(line).gets_nothing();
    }
    // What tells no version waits for nobody.
    assert!(info(&mut story, "INFO clients").contains("# Clients"));
    story.connects();
    story.server().gets("HELLO 2").answers(HELLO_2);
    for line in ["INFO server", "INFO cpu server"] {
        let text = story.client(line).takes_text();
        assert!(text.contains("redis_version:7.2.5\r\n"), "{line}: {text}");
    }
    let mut story = Story::new().by_hand();
    story.client("a").says("INFO server").gets_nothing();
    story.connect_fails("Connection refused");
    assert!(story.client("a").takes_text().contains("redis_version:\r\n"));
    assert!(
        info(&mut story, "INFO server").contains("redis_version:\r\n"),
        "it is known to be away"
    );
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
        ("INFO upstream keyspace", "INFO keyspace"),
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

#[test]
fn keys_of_several_servers_are_summed_and_stand_where_those_of_a_server_do() {
    let mut story = Story::warm_shards();
    let (db0, db3) =
        ("db0:keys=3,expires=1,avg_ttl=400,subexpiry=0", "db3:keys=7,expires=0,avg_ttl=0");
    story.node_says_to("n1", "INFO", &says_of_itself(&["# Keyspace", db0, db3]));
    story.node_says_to("n2", "INFO", "=16\r\ntxt:# Keyspace\r\n\r\n");
    story.node_says_to("n3", "INFO", &says_of_itself(&["db0:keys=4,expires=3,avg_ttl=800"]));
    let sums = "# Keyspace\r\ndb0:keys=7,expires=4,avg_ttl=700,subexpiry=0\r\ndb3:keys=7,expires=0,avg_ttl=0\r\n";
    let text = info(&mut story, "INFO KeySpace");
    assert!(text.ends_with(&format!("{sums}\r\n")) && text.matches("# ").count() == 1, "{text}");
    for line in ["INFO", "INFO all", "INFO everything", "INFO default", "INFO cpu keyspace"] {
        let text = info(&mut story, line);
        assert!(text.contains(sums), "{line}: {text}");
    }
    assert!(!info(&mut story, "INFO server").contains("Keyspace"));
}

#[test]
fn keys_are_those_behind_what_the_client_sent_before() {
    let mut story = Story::new();
    let says = says_of_itself(&["db0:keys=1,expires=0"]);
    story.node_says_to("127.0.0.1", "INFO", &says);
    story.client("a").says(["SET k 1", "INFO", "DEL k"]);
    story.server().gets("SET k 1").answers("+OK");
    let text = story.client("a").takes_text();
    story.server().gets("DEL k").answers(":1");
    assert!(text.contains("# Keyspace\r\ndb0:keys=1,expires=0\r\n"), "{text}");
    story.client("a").gets(":1");
}

#[test]
fn without_the_answer_of_a_server_there_is_no_sum() {
    let mut story = Story::warm_shards();
    story.node_says_to("n1", "INFO", &says_of_itself(&["db0:keys=3,expires=0"]));
    story.node_says_to("n2", "INFO", "-NOPERM no");
    story.client("a").says("INFO keyspace").gets("-NOPERM no");
    let text = info(&mut story, "INFO");
    assert!(text.contains("# Keyspace\r\nkeyspace_unanswered:1\r\n"), "{text}");
    assert!(!text.contains("db0"), "{text}");
}

#[test]
fn a_server_that_is_lost_over_info_costs_the_client_nothing_but_its_figures() {
    let mut story = Story::by_hand(Story::new());
    story.client("a").says("INFO").gets_nothing();
    story.connect_fails("connect: Connection refused");
    let text = story.client("a").takes_text();
    assert!(text.contains("keyspace_unanswered:1\r\n") && text.contains("loading:0"), "{text}");
    let text = info(&mut story, "INFO");
    assert!(text.contains("keyspace_unanswered:1\r\n"), "{text}");
}

#[test]
fn a_client_that_leaves_over_info_leaves_nothing_behind() {
    let mut story = Story::new();
    story.client("b").says("GET k");
    story.server().gets("GET k");
    story.client("a").says("INFO");
    story.client("a").dies();
    story.server().gets("INFO").answers(["nil", "\"x\""]);
    story.client("b").gets("nil").says("INFO").takes_text();
}

#[test]
fn a_server_that_loads_is_told_as_directly() {
    let loads = [
        "loading:1",
        "loading_start_time:1700000000",
        "loading_total_bytes:1000",
        "loading_loaded_bytes:250",
        "loading_loaded_perc:25.00",
        "loading_eta_seconds:7",
    ];
    let mut story = Story::new();
    story.node_says_to("127.0.0.1", "INFO", &says_of_itself(&loads));
    let persistence = format!("# Persistence\r\n{}\r\n", loads.join("\r\n"));
    let text = info(&mut story, "INFO");
    assert!(text.contains(&persistence), "{text}");
    // Of several one is enough: what is asked for its keys is answered with an error.
    let mut story = Story::warm_shards();
    story.node_says_to("n1", "INFO", &says_of_itself(&["loading:0"]));
    story.node_says_to("n2", "INFO", &says_of_itself(&loads));
    story.node_says_to("n3", "INFO", &says_of_itself(&["loading:0"]));
    let text = info(&mut story, "INFO");
    assert!(text.contains(&persistence), "{text}");
}

#[test]
fn a_replica_tells_whether_it_has_its_primary() {
    let mut story = Story::new();
    story.server_says_to(
        "HELLO 2",
        &HELLO_2.replace("role\r\n$6\r\nmaster", "role\r\n$7\r\nreplica"),
    );
    let says =
        says_of_itself(&["role:slave", "master_link_status:down", "master_sync_in_progress:1"]);
    story.node_says_to("127.0.0.1", "INFO", &says);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    let text = info(&mut story, "INFO");
    let link = "role:slave\r\nmaster_link_status:down\r\nmaster_sync_in_progress:1\r\n";
    assert!(text.contains(link), "{text}");
}

#[test]
fn in_a_namespace_nobody_learns_how_many_keys_others_have() {
    let mut story = namespace::story();
    let rule = says_of_itself(&["# Keyspace", "db0:keys=9,expires=0"]);
    story.node_says_to("127.0.0.1", "INFO", &rule);
    for line in ["INFO keyspace", "INFO all", "INFO", "INFO keyspace server"] {
        let text = info(&mut story, line);
        assert!(text.contains("# Keyspace\r\n") && !text.contains("db0"), "{line}: {text}");
    }
    let refused = "-ERR respool: 'info' is about whole databases, and this client lives in a part of one (policies.namespace)";
    for line in [
        "INFO upstream",
        "INFO UPSTREAM cpu KEYSPACE",
        "INFO upstream all",
        "INFO upstream keysizes",
        "INFO upstream stats some_module",
    ] {
        story.client("a").says(line).gets(refused);
    }
    let text = info(&mut story, "INFO upstream stats");
    assert!(text.contains("keys=9"), "another section goes to the server: {text}");
    let mut story = namespace::story();
    story.client("a").says(["MULTI", "SET k 1", "INFO keyspace", "EXEC"]);
    story.conn(1).gets(["MULTI", "SET t:k 1", "DISCARD"]).answers(["+OK", "+QUEUED", "+OK"]);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    story.client("a").gets(["+OK", "+QUEUED", refused, aborted]);
}

#[test]
fn a_subcommand_counts_by_its_name_whoever_answers_and_wherever() {
    let mut one = Story::new();
    one.client("a").says(["CONFIG GET save", "CLIENT ID"]);
    one.server().gets("CONFIG GET save").answers("*0");
    let mut several = Story::warm_shards();
    several.client("a").says(["CONFIG GET save", "CLIENT ID"]).takes();
    for story in [&mut one, &mut several] {
        story.client("b").says("INFO commandstats");
        let text = story.client("b").takes_text();
        for line in ["cmdstat_config|get:calls=1,", "cmdstat_client|id:calls=1,"] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(!text.contains("cmdstat_config:") && !text.contains("cmdstat_client:"), "{text}");
    }
}
