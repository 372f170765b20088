//! MULTI, EXEC, WATCH: on a connection of the client's own.

use crate::words::cluster::moved;
use crate::words::{HELLO_2, Story, large_set};
use engine::Settings;
use engine::acl::Users;

const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.";
const CROSSSLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";
const QUEUED: &str = "+QUEUED";

#[test]
fn each_answer_is_the_servers_and_others_go_on_meanwhile() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "SET k 1", "GET", "PING"]);
    story.conn(1).gets(["MULTI", "SET k 1", "GET", "PING"]);
    story.conn(1).answers(["+OK", QUEUED, "-ERR wrong number of arguments", QUEUED]);
    story.client("a").gets(["+OK", QUEUED, "-ERR wrong number of arguments", QUEUED]);
    story.client("b").says("GET k");
    story.conn(2).gets("GET k").answers("nil");
    story.client("b").gets("nil");
    story.client("a").says("EXEC");
    story.conn(1).gets("EXEC").answers(ABORT);
    story.client("a").gets(ABORT);
    // The connection is free again.
    story.client("c").says("MULTI");
    story.conn(1).gets("MULTI");
}

#[test]
fn a_transaction_of_its_own_is_between_what_stands_around_it() {
    let mut story = Story::new();
    story.client("a").says(["SET k 0", "MULTI", "PING", "EXEC", "GET k"]);
    story.conn(1).gets("SET k 0").gets_nothing().answers("+OK");
    story.conn(2).gets(["MULTI", "PING", "EXEC"]).answers(["+OK", QUEUED]);
    story.conn(1).gets_nothing();
    story.conn(2).answers("*1\r\n+PONG\r\n");
    story.conn(1).gets("GET k").answers("\"1\"");
    story.client("a").gets(["+OK", "+OK", QUEUED, "*1\r\n+PONG\r\n", "\"1\""]);
}

#[test]
fn watched_keys_and_the_transaction_share_a_connection() {
    let mut story = Story::new();
    story.client("a").says("WATCH k");
    story.conn(1).gets("WATCH k").answers("+OK");
    story.client("a").gets("+OK").says(["GET k", "PING"]);
    story.conn(1).gets("GET k").answers("\"1\"");
    story.client("a").gets(["\"1\"", "+PONG"]).says(["MULTI", "SET k 2", "EXEC"]);
    story.conn(1).gets(["MULTI", "SET k 2", "EXEC"]).answers(["+OK", QUEUED, "*-1\r\n"]);
    story.client("a").gets(["+OK", QUEUED, "*-1\r\n"]);
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn unwatch_and_discard_give_the_connection_back() {
    let mut story = Story::new();
    for (first, second) in [("WATCH k", "UNWATCH"), ("MULTI", "DISCARD")] {
        for name in ["a", "b"] {
            story.client(name).says([first, second]);
            story.conn(1).gets([first, second]).answers(["+OK", "+OK"]);
            story.client(name).gets(["+OK", "+OK"]);
        }
    }
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn reset_and_a_client_that_goes_leave_nothing_half_done() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "SET k 1"]);
    story.conn(1).gets(["MULTI", "SET k 1"]).answers(["+OK", QUEUED]);
    story.client("a").gets(["+OK", QUEUED]).says("RESET").gets("+RESET");
    story.conn(1).is_closed();
    story.client("a").says("EXEC").gets("-ERR EXEC without MULTI");
    story.client("b").says("WATCH k");
    story.conn(2).gets("WATCH k").answers("+OK");
    story.client("b").gets("+OK").dies();
    story.conn(2).is_closed();
    story.client("c").says(["MULTI", "QUIT"]);
    story.conn(3).gets("MULTI").answers("+OK");
    story.client("c").gets(["+OK", "+OK"]).is_closed();
    story.conn(3).is_closed();
}

#[test]
fn reset_behind_a_transaction_in_one_packet_waits_for_its_replies() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "PING", "RESET", "EXEC"]);
    story.conn(1).gets(["MULTI", "PING"]).is_open().answers(["+OK", QUEUED]);
    story.conn(1).is_closed();
    story.client("a").gets(["+OK", QUEUED, "+RESET", "-ERR EXEC without MULTI"]);
}

#[test]
fn what_cannot_be_inside_is_refused() {
    let mut story = Story::new();
    story.client("a").says([
        "MULTI",
        "DEBUG SLEEP 0",
        "SHUTDOWN",
        "PSYNC ? -1",
        "REPLCONF x",
        "INCR k",
        "EXEC",
    ]);
    story.conn(1).gets(["MULTI", "INCR k", "DISCARD"]).answers(["+OK", QUEUED, "+OK"]);
    story.client("a").gets([
        "+OK",
        "-ERR respool: 'debug' is not given on to the server by the proxy: it would stop the server for all",
        "-ERR Command not allowed inside a transaction",
        "-ERR Command not allowed inside a transaction",
        "-ERR respool: 'replconf' needs a connection of its own, which respool does not give yet; connect to the server directly for it",
        QUEUED,
        ABORT,
    ]);
    story.client("a").says("GET k");
    story.conn(2).gets("GET k");
}

#[test]
fn a_transaction_without_a_request_that_was_too_large_is_not_done() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "INCR k"]);
    story.conn(1).gets(["MULTI", "INCR k"]).answers(["+OK", QUEUED]);
    story.client("a").takes();
    let large = large_set("k", engine::limits::WHOLE_REQUEST_BYTES_MAX as usize + 1);
    story.client("a").sends(&large).says("EXEC");
    story.conn(1).gets("DISCARD").answers("+OK");
    let error = "-ERR respool: this request is too large: all of it must be seen before it is forwarded, and at most 64 MiB are kept for that";
    story.client("a").gets([error, ABORT]);
}

#[test]
fn on_a_cluster_the_first_key_tells_the_node() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "PING", "TIME"]).gets(["+OK", QUEUED, QUEUED]);
    assert_eq!(story.open_conns(), 3, "no connection before the first key");
    story.client("a").says(["INCR b4", "INCR b4", "EXEC"]);
    story.node_conn("n2", 2).gets(["MULTI", "PING", "TIME", "INCR b4"]).gets_nothing();
    story.node_conn("n2", 2).answers(["+OK", QUEUED, QUEUED, QUEUED]);
    story.node_conn("n2", 2).gets(["INCR b4", "EXEC"]).answers([QUEUED, "*0\r\n"]);
    story.client("a").gets([QUEUED, QUEUED, "*0\r\n"]);
}

#[test]
fn keys_elsewhere_are_refused_and_nothing_is_done() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "INCR a4", "INCR b4", "MGET a4 b4", "EXEC"]);
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4"]).answers(["+OK", QUEUED]);
    story.node_conn("n1", 2).gets("DISCARD").answers("+OK");
    story.client("a").gets(["+OK", QUEUED, CROSSSLOT, CROSSSLOT, ABORT]);
    story.client("a").says("GET a4");
    story.node_conn("n1", 1).gets("GET a4");
}

#[test]
fn a_transaction_without_a_key_or_a_command_is_one_too() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "EXEC", "MULTI", "DISCARD", "EXEC"]);
    story.client("a").gets(["+OK", "*0\r\n", "+OK", "+OK", "-ERR EXEC without MULTI"]);
    story.client("a").says(["MULTI", "PING", "PUBLISH c m", "EXEC"]);
    story.node_conn("n1", 2).gets(["MULTI", "PING", "PUBLISH c m", "EXEC"]);
    story.node_conn("n1", 2).answers(["+OK", QUEUED, QUEUED, "*2\r\n+PONG\r\n:0\r\n"]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, "*2\r\n+PONG\r\n:0\r\n"]);
    story.client("a").says(["MULTI", "NOSUCH", "GET", "MULTI", "WATCH k", "EXEC"]).gets([
        "+OK",
        "-ERR unknown command 'NOSUCH', with args beginning with: ",
        "-ERR wrong number of arguments for 'get' command",
        "-ERR MULTI calls can not be nested",
        "-ERR WATCH inside MULTI is not allowed",
        ABORT,
    ]);
}

#[test]
fn a_redirect_of_the_first_command_begins_again_at_the_other_node() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "PING", "INCR a4", "INCR a4", "EXEC"]);
    story.node_conn("n1", 2).gets(["MULTI", "PING", "INCR a4"]).answers(["+OK", QUEUED]);
    story.node_conn("n1", 2).moved("a4", "n3");
    story.node_conn("n1", 2).is_closed();
    story.node_conn("n3", 2).gets(["MULTI", "PING", "INCR a4"]).answers(["+OK", QUEUED, QUEUED]);
    story.node_conn("n3", 2).gets(["INCR a4", "EXEC"]).answers([QUEUED, "*0\r\n"]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, QUEUED, "*0\r\n"]);
}

// Simulator, seed 1003391: with our DISCARD (or READONLY) still under way what came next was taken for part of the transaction before: it was
// refused for its keys, or done at once.
#[test]
fn what_follows_a_refused_transaction_is_one_of_its_own() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "INCR a4"]);
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4"]).answers(["+OK", QUEUED]);
    story.client("a").gets(["+OK", QUEUED]).says(["INCR b4", "EXEC"]).gets([CROSSSLOT, ABORT]);
    story.node_conn("n1", 2).gets("DISCARD");
    story.client("a").says(["MULTI", "INCR b4", "PING", "EXEC"]);
    story.node_conn("n2", 2).gets(["MULTI", "INCR b4"]).answers(["+OK", QUEUED]);
    story.node_conn("n2", 2).gets(["PING", "EXEC"]).answers([QUEUED, "*0\r\n"]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, "*0\r\n"]);
    // The connection of before serves others when it has answered.
    story.node_conn("n1", 2).answers("+OK").is_open();
    story.client("b").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4");
}

/// Over each connection of a client's own that node says of the key `a4` that it is at the other one. How often it did.
fn redirects_leases(story: &mut Story, node: &str, other: &str) -> usize {
    let mut count = 0;
    for number in 2..=story.connects_to(node) {
        while let Some(line) = story.node_conn(node, number).takes_one() {
            let begins = line == "MULTI";
            let reply = if begins { "+OK".to_string() } else { moved("a4", other) };
            story.node_conn(node, number).answers(&*reply);
            count += usize::from(!begins);
        }
    }
    count
}

// Nodes that stay of two minds kept a transaction, and its client, for ever.
#[test]
fn a_first_command_that_two_nodes_send_to_each_other_is_given_up() {
    for lines in [&["WATCH a4"][..], &["MULTI", "INCR a4"], &["BLPOP a4 0"]] {
        let mut story = Story::warm_cluster();
        story.client("a").says(lines.to_vec());
        let (begin, mut rounds) = (story.now, 0);
        let got = loop {
            for (node, other) in [("n1", "n2"), ("n2", "n1")] {
                rounds += redirects_leases(&mut story, node, other);
            }
            let got = story.client("a").takes_text();
            if got.contains('-') {
                break got;
            }
            story.after_ms(1);
            assert!(story.now.since(begin) < 3_000_000, "it goes on for ever");
        };
        assert!(got.contains("-ERR respool: given up after "), "{got}");
        assert!((5..40).contains(&rounds), "{rounds} rounds");
        story.client("a").says("PING");
        if lines[0] == "MULTI" {
            story.client("a").gets(QUEUED).says("EXEC").gets(ABORT);
        } else {
            story.client("a").gets("+PONG");
        }
    }
}

// Fault matrix, row 4: with EXEC sent right behind them, queued commands were answered with EXEC's null.
#[test]
fn what_was_queued_in_a_slot_that_moves_is_told_so_with_exec_in_the_same_packet() {
    let gone = "-ERR respool: the keys of this transaction went to another node in its middle, nothing of it was done";
    let mut story = Story::warm_cluster();
    story.client("a").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4").answers("+OK");
    story.client("a").gets("+OK").says(["MULTI", "INCR a4", "INCR a4", "EXEC"]);
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4", "INCR a4", "EXEC"]);
    story.node_conn("n1", 2).answers(["+OK", QUEUED, &moved("a4", "n2"), ABORT]);
    story.client("a").gets(["+OK", QUEUED, gone, ABORT]);
}

#[test]
fn a_slot_that_moves_in_the_middle_ends_in_an_error_and_never_in_half_of_it() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "INCR a4"]);
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4"]).answers(["+OK", QUEUED]);
    story.client("a").gets(["+OK", QUEUED]).says("INCR a4");
    story.node_conn("n1", 2).gets("INCR a4").moved("a4", "n2");
    let text = story.client("a").takes_text();
    assert!(
        text.starts_with("-ERR respool: the keys of this transaction went to another node"),
        "{text}"
    );
    story.client("a").says("EXEC");
    story.node_conn("n1", 2).gets("DISCARD").answers("+OK");
    story.client("a").gets(ABORT);
    // And when EXEC itself is told so.
    story.client("a").says(["MULTI", "INCR b4"]);
    story.node_conn("n2", 2).gets(["MULTI", "INCR b4"]).answers(["+OK", QUEUED]);
    story.client("a").gets(["+OK", QUEUED]).says("EXEC");
    story.node_conn("n2", 2).gets("EXEC").moved("b4", "n3");
    story.client("a").gets(ABORT);
}

#[test]
fn a_slot_that_moves_behind_a_watch_is_told_to_each_in_its_place() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4").answers("+OK");
    story.client("a").gets("+OK").says(["MULTI", "INCR a4", "EXEC"]);
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4", "EXEC"]).answers("+OK");
    story.node_conn("n1", 2).moved("a4", "n2").answers(ABORT);
    let error = "-ERR respool: the keys of this transaction went to another node in its middle, nothing of it was done";
    story.client("a").gets(["+OK", error, ABORT]);
}

#[test]
fn a_slot_that_nobody_has_ends_the_transaction_and_not_later() {
    let mut story = Story::cluster();
    story.cluster_is("0-5460 n1");
    story.client("a").says(["MULTI", "INCR b4", "PING", "EXEC", "PING"]);
    story.after_ms(60_000);
    let text = story.client("a").takes_text();
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert!(lines[1].starts_with("-CLUSTERDOWN Hash slot not served"), "{text}");
    assert_eq!((lines[0], &lines[2..]), ("+OK", &[QUEUED, ABORT, "+PONG", ""][..]));
}

#[test]
fn watched_keys_that_moved_count_as_changed() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4").answers("+OK");
    story.client("a").gets("+OK").says(["MULTI", "INCR a4"]);
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4"]).answers(["+OK", QUEUED]);
    story.client("a").gets(["+OK", QUEUED]).says("EXEC");
    story.node_conn("n1", 2).gets("EXEC").moved("a4", "n2");
    story.client("a").gets("*-1\r\n");
    // The next try finds them.
    story.client("a").says("WATCH a4");
    story.node_conn("n2", 2).gets("WATCH a4");
}

#[test]
fn reads_of_other_nodes_go_on_while_keys_are_watched() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4").answers("+OK");
    story.client("a").gets("+OK").says(["GET a4", "GET b4", "MGET a4 c1"]);
    story.node_conn("n1", 2).gets("GET a4").answers("\"1\"");
    story.node_conn("n2", 1).gets("GET b4").answers("\"2\"");
    story.node_conn("n1", 1).gets("MGET a4").answers("*1\r\n$1\r\n1\r\n");
    story.node_conn("n3", 1).gets("MGET c1").answers("*1\r\n$1\r\n3\r\n");
    story.client("a").gets(["\"1\"", "\"2\"", "*2\r\n$1\r\n1\r\n$1\r\n3\r\n"]);
    story.client("a").says("WATCH b4").gets(CROSSSLOT);
}

#[test]
fn a_lost_connection_takes_the_transaction_along() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "INCR k"]);
    story.conn(1).gets(["MULTI", "INCR k"]).answers("+OK").dies("connection reset");
    let lost = "-ERR respool: upstream 127.0.0.1:6379: connection reset";
    story.client("a").gets(["+OK", lost]).says(["INCR k", "EXEC", "PING"]);
    story.client("a").gets([lost, ABORT, "+PONG"]);
    story.client("a").says("EXEC").gets("-ERR EXEC without MULTI");
}

#[test]
fn a_lost_watch_is_told_by_the_next_transaction() {
    let mut story = Story::new();
    story.client("a").says("WATCH k");
    story.conn(1).gets("WATCH k").answers("+OK").dies("connection reset");
    let lost = "-ERR respool: upstream 127.0.0.1:6379: connection reset";
    story.client("a").gets("+OK").says(["GET k", "MULTI", "INCR k", "EXEC"]);
    story.conn(2).gets("GET k").gets_nothing().answers("nil");
    story.client("a").gets(["nil", "+OK", lost, ABORT]);
    story.client("a").says("MULTI");
    story.conn(3).gets("MULTI");
}

// Fault matrix, row 27: what stands behind MULTI in a packet must not be done by itself because MULTI failed.
#[test]
fn multi_is_accepted_without_a_server_and_exec_is_refused() {
    let mut story = Story::new().by_hand();
    let refused = "-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused";
    story.client("a").says(["MULTI", "INCR k", "EXEC", "INCR k"]);
    story.connect_fails("connect: Connection refused");
    // Known to be down from here on.
    story.client("a").gets(["+OK", refused, ABORT, refused]);
    story.client("a").says(["MULTI", "INCR k", "EXEC"]).gets(["+OK", refused, ABORT]);
    story.client("a").says(["MULTI", "DISCARD", "GET k"]).gets(["+OK", "+OK", refused]);
}

#[test]
fn a_multi_that_was_lost_on_its_way_begins_a_transaction_that_is_refused() {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "INCR k"]);
    story.conn(1).gets(["MULTI", "INCR k"]).dies("connection reset");
    let lost = "-ERR respool: upstream 127.0.0.1:6379: connection reset";
    story.client("a").gets(["+OK", lost]).says(["INCR k", "EXEC", "GET k"]);
    story.conn(2).gets("GET k").gets_nothing();
    story.client("a").gets([lost, ABORT]);
}

#[test]
fn large_values_go_along_in_a_transaction() {
    let mut story = Story::new();
    story.client("a").says("MULTI");
    story.conn(1).gets("MULTI").answers("+OK");
    story.client("a").gets("+OK").sends(&crate::words::large_set("k", 300_000));
    assert_eq!(story.connects_made(), 1);
    story.conn(1).answers(QUEUED);
    story.client("a").gets(QUEUED).says("EXEC");
    story.conn(1).answers("*1\r\n+OK\r\n");
    story.client("a").gets("*1\r\n+OK\r\n");
}

#[test]
fn a_watch_stays_with_the_database_of_its_key() {
    let mut story = Story::new();
    story.client("a").says("WATCH k");
    story.conn(1).gets("WATCH k").answers("+OK");
    story.client("a").gets("+OK").says("SELECT 3").gets("+OK");
    story.client("a").says(["MULTI", "GET k", "EXEC"]);
    // SELECT was answered by the server of the story itself.
    story.conn(1).gets(["MULTI", "GET k", "EXEC"]).answers(["+OK", QUEUED, "*1\r\n$-1\r\n"]);
    story.client("a").gets(["+OK", QUEUED, "*1\r\n$-1\r\n"]);
    story.conn(1).is_closed();
}

/// A transaction with SELECT that ends so; returns the connection that the client's next request takes.
fn after_select(end: &str, answer: &str) -> (Story, usize) {
    let mut story = Story::new();
    story.client("a").says(["MULTI", "SELECT 3", "SET k 1"]);
    story.conn(1).gets(["MULTI", "SELECT 3", "SET k 1"]).answers(["+OK", QUEUED, QUEUED]);
    story.client("a").gets(["+OK", QUEUED, QUEUED]).says([end, "GET k"]);
    story.conn(1).gets(end).gets_nothing().answers(answer);
    story.client("a").gets(answer);
    let conn = story.connects_made();
    story.conn(conn).gets("GET k").answers("nil");
    story.client("a").gets("nil");
    (story, conn)
}

#[test]
fn select_inside_counts_when_exec_was_done() {
    let (mut story, conn) = after_select("EXEC", "*2\r\n+OK\r\n+OK\r\n");
    assert_eq!(story.conn(conn).key().db, 3);
    story.conn(1).is_closed();
    for (end, answer) in [("EXEC", ABORT), ("DISCARD", "+OK"), ("EXEC", "*-1\r\n")] {
        let (mut story, conn) = after_select(end, answer);
        assert_eq!(story.conn(conn).key().db, 0, "{end} {answer}");
        // Whatever became of it, nobody else gets the connection.
        story.conn(1).is_closed();
    }
}

#[test]
fn select_inside_of_what_does_not_exist_is_the_servers_error() {
    let mut story = Story::new();
    story.server_says_to("SELECT 99", "-ERR DB index is out of range");
    story.client("a").says(["MULTI", "SELECT 99", "SELECT x", "SELECT 3", "SELECT -1", "EXEC"]);
    story.conn(1).gets(["MULTI", "SELECT 99", "SELECT x", "SELECT 3", "SELECT -1", "EXEC"]);
    let done = "*4\r\n-ERR DB index is out of range\r\n-ERR value\r\n+OK\r\n-ERR DB\r\n";
    story.conn(1).answers(["+OK", QUEUED, QUEUED, QUEUED, QUEUED, done]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, QUEUED, QUEUED, done]).says("GET k");
    assert_eq!(story.server().gets("GET k").key().db, 3);
}

#[test]
fn on_a_cluster_select_inside_is_the_servers_error() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "SELECT 1", "INCR b4", "EXEC"]);
    story
        .node_conn("n2", 2)
        .gets(["MULTI", "SELECT 1", "INCR b4"])
        .answers(["+OK", QUEUED, QUEUED]);
    let done = "*2\r\n-ERR SELECT is not allowed in cluster mode\r\n:1\r\n";
    story.node_conn("n2", 2).gets("EXEC").answers(done);
    story.client("a").gets(["+OK", QUEUED, QUEUED, done]).says("GET b4");
    story.node_conn("n2", 1).gets("GET b4");
}

// Valkey 9 may have several databases in a cluster.
#[test]
fn a_connection_in_another_database_of_a_cluster_is_nobody_elses() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "SELECT 1", "GET b4", "EXEC"]);
    story.node_conn("n2", 2).gets(["MULTI", "SELECT 1", "GET b4"]);
    story.node_conn("n2", 2).answers(["+OK", QUEUED, QUEUED]);
    let done = "*2\r\n+OK\r\n$-1\r\n";
    story.node_conn("n2", 2).gets("EXEC").answers(done).is_closed();
    story.client("a").gets(["+OK", QUEUED, QUEUED, done]);
    story.client("b").says(["MULTI", "GET b4"]);
    story.node_conn("n2", 3).gets(["MULTI", "GET b4"]);
}

// The greeting of the connection that finds out whether the database exists fails for another reason than that it does not.
#[test]
fn a_select_inside_whose_database_could_not_be_found_out_leaves_the_connection_to_nobody() {
    let mut story = Story::new();
    story.server_says_to("SELECT 3", "-BUSY Redis is busy running a script.");
    story.client("a").says(["MULTI", "SELECT 3", "GET k", "EXEC"]);
    story.conn(1).gets(["MULTI", "SELECT 3", "GET k", "EXEC"]);
    let done = "*2\r\n+OK\r\n$-1\r\n";
    story.conn(1).answers(["+OK", QUEUED, QUEUED, done]).is_closed();
    story.client("a").gets(["+OK", QUEUED, QUEUED, done]);
}

#[test]
fn what_no_server_takes_inside_is_refused_before_there_is_one() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "SAVE", "CLUSTER SLOTS", "EXEC"]).gets([
        "+OK",
        "-ERR Command not allowed inside a transaction",
        "-ERR respool: 'cluster|slots' is not possible in a transaction, the proxy answers it and not the server",
        ABORT,
    ]);
}

// Valkey gave MULTI and WATCH the flag `no_multi` in 8.0. In front of a cluster respool answered as Redis does, and EXEC did the rest.
#[test]
fn multi_and_watch_inside_a_transaction_end_it_where_the_servers_do() {
    let redis = ["-ERR MULTI calls can not be nested", "-ERR WATCH inside MULTI is not allowed"];
    let named = ["multi", "watch"]
        .map(|name| format!("-ERR Command '{name}' not allowed inside a transaction"));
    for (server, version, errors, ends) in [
        ("redis", "8.2.3", redis, false),
        ("valkey", "7.2.9", redis, false),
        ("valkey", "8.1.8", ["-ERR Command not allowed inside a transaction"; 2], true),
        ("valkey", "9.1.2", named.each_ref().map(String::as_str), true),
    ] {
        let mut story = Story::cluster_with(|_| {});
        let bytes = (server.len(), version.len());
        let hello = HELLO_2
            .replace("$5\r\nredis", &format!("${}\r\n{server}", bytes.0))
            .replace("$5\r\n7.2.5", &format!("${}\r\n{version}", bytes.1));
        story.server_says_to("HELLO 2", &hello).cluster_is("0-16383 n1");
        story.client("a").says("GET k");
        story.node("n1").gets("GET k").answers("nil");
        story.client("a").gets("nil");
        for (line, error) in ["MULTI", "WATCH k"].into_iter().zip(errors) {
            story.client("a").says(["MULTI", line]).gets(["+OK", error]).says("EXEC");
            story.client("a").gets(if ends { ABORT } else { "*0\r\n" });
        }
    }
}

// Its user may not say it, or the operator renamed it.
#[test]
fn a_server_that_refuses_to_end_it_keeps_the_connection_from_others() {
    for end in ["UNWATCH", "DISCARD", "EXEC"] {
        let mut story = Story::new();
        story.client("a").says("WATCH k");
        story.conn(1).gets("WATCH k").answers("+OK");
        story.client("a").gets("+OK");
        if end != "UNWATCH" {
            story.client("a").says("MULTI");
            story.conn(1).gets("MULTI").answers("+OK");
            story.client("a").gets("+OK");
        }
        story.client("a").says(end);
        let error = "-NOPERM this user has no permissions to run the command";
        story.conn(1).gets(end).answers(error).is_closed();
        story.client("a").gets(error).is_open();
    }
}

// As a client that asks the server directly: what stands behind MULTI is done as it comes, and there is no transaction.
#[test]
fn a_server_that_refuses_to_begin_it_does_what_comes_and_keeps_the_connection_from_others() {
    let refused = "-NOPERM this user has no permissions to run the 'multi' command";
    let mut story = Story::new();
    story.client("a").says(["MULTI", "SET k 1"]);
    story.conn(1).gets(["MULTI", "SET k 1"]).answers([refused, "+OK"]).is_closed();
    story.client("a").gets([refused, "+OK"]);
    story.client("a").says(["WATCH k", "EXEC"]);
    story.conn(2).gets("WATCH k").answers("+OK");
    story.client("a").gets(["+OK", "-ERR EXEC without MULTI"]).is_open();
}

#[test]
fn a_multi_inside_of_a_transaction_does_not_end_it() {
    let nested = "-ERR MULTI calls can not be nested";
    let mut story = Story::new();
    story.client("a").says(["MULTI", "MULTI", "GET a4"]);
    story.conn(1).gets(["MULTI", "MULTI", "GET a4"]).answers(["+OK", nested, QUEUED]);
    story.client("a").says("EXEC").gets(["+OK", nested, QUEUED]);
    story.conn(1).gets("EXEC").answers("*0\r\n").is_open();

    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "GET a4"]);
    story.node_conn("n1", 2).gets(["MULTI", "GET a4"]).answers(["+OK", QUEUED]);
    story.client("a").says("MULTI").gets(["+OK", QUEUED]);
    story.node_conn("n1", 2).gets("MULTI").answers(nested);
    story.client("a").says("EXEC").gets(nested);
    story.node_conn("n1", 2).gets("EXEC").answers("*0\r\n").is_open();
}

#[test]
fn a_reset_with_arguments_ends_no_transaction() {
    let error = "-ERR wrong number of arguments for 'reset' command\r\n";
    let mut story = Story::new();
    story.client("a").says(["MULTI", "SET k 1", "RESET x", "SET l 1", "EXEC"]);
    story.server().gets("MULTI").answers("+OK");
    while let Some(line) = story.server().takes_one() {
        let reply = if line == "DISCARD" { "+OK" } else { "+QUEUED" };
        assert!(line == "DISCARD" || line.starts_with("SET "), "{line}");
        story.server().answers(reply);
    }
    let got = story.client("a").takes_text();
    let begin = format!("+OK\r\n+QUEUED\r\n{error}+QUEUED\r\n");
    assert!(got.starts_with(&begin) && got[begin.len()..].starts_with("-EXECABORT "), "{got}");
}

#[test]
fn nothing_stands_behind_a_login_as_another_user_in_a_transaction() {
    let mut users = Users::default();
    users.set(b"default", &[b"reset", b"on", b"nopass", b"+@all", b"~*", b"&*"]).expect("rules");
    users.set(b"low", &[b"on", b">p", b"+@all", b"-set", b"~a*", b"&a*"]).expect("rules");
    let settings = Settings { users: users.into(), ..Settings::default() };
    for login in ["AUTH low p", "HELLO 2 AUTH low p", "HELLO 2 SETNAME x AUTH low p"] {
        for behind in ["SET b 1", "SUBSCRIBE b", "EVAL script 0", "CLIENT ID", "AUTH low p"] {
            let mut story = Story::with(settings.clone());
            story.client("a").says(["MULTI", login, behind, "EXEC"]);
            story.server().gets("MULTI").answers("+OK");
            while let Some(line) = story.server().takes_one() {
                let is_behind = line.split(' ').next() == behind.split(' ').next();
                assert!(!is_behind, "{login}, {behind}: {line}");
                story.server().answers(if line == "DISCARD" { "+OK" } else { "+QUEUED" });
            }
            let got = story.client("a").takes_text();
            let error = "-ERR respool: between MULTI and EXEC nothing may stand behind AUTH";
            assert!(got.contains(error) && got.contains("-EXECABORT "), "{login}, {behind}: {got}");
        }
    }
    // Nobody becomes another user by these.
    for login in ["AUTH x", "AUTH default x", "AUTH nobody p"] {
        let mut story = Story::with(settings.clone());
        story.client("a").says(["MULTI", login, "SET b 1"]);
        story.server().gets("MULTI").answers("+OK");
        assert_eq!(story.server().takes_requests(), 2, "{login}");
    }
}
