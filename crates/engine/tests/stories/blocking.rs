//! Commands that wait at the server: each on a connection of its own.

use crate::waits::MOVES_OFFSET;
use crate::words::cluster::lost;
use crate::words::{Story, large_set};

#[test]
fn a_client_that_waits_holds_up_nobody_else() {
    let mut story = Story::new();
    story.client("a").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0");
    story.client("b").says("GET k");
    story.conn(2).gets("GET k").answers("\"v\"");
    story.client("b").gets("\"v\"");
    story.conn(1).answers("*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
    story.client("a").gets("*2\r\n$4\r\nlist\r\n$1\r\nx\r\n");
}

#[test]
fn streams_are_waited_for_apart_in_any_order_of_the_options() {
    for line in [
        "XREAD BLOCK\0 0 STREAMS s $",
        "XREAD COUNT\0x 1 block 0 STREAMS s $",
        "XREADGROUP NOACK GROUP streams c BLOCK 0 STREAMS s >",
        "XREADGROUP COUNT 1 GROUP streams c BLOCK 0 STREAMS s >",
        "XREADGROUP GROUP\0 streams c BLOCK 0 STREAMS s >",
        "XREADGROUP BLOCK 0 NOACK GROUP g streams STREAMS\0 s >",
    ] {
        let mut story = Story::new();
        story.client("b").says("GET k");
        story.conn(1).gets("GET k").answers("\"v\"");
        story.client("b").gets("\"v\"");
        story.client("a").says(line);
        story.conn(2).gets(line);
        story.client("b").says("GET k");
        story.conn(1).gets("GET k").answers("\"v\"");
        story.client("b").gets("\"v\"");
        // It waits for ever, as it was told.
        story.after_ms(86_400_000);
        story.conn(2).answers("*-1");
        story.client("a").gets("*-1");
    }
}

#[test]
fn what_waits_for_replicas_holds_up_nobody_else() {
    let mut story = Story::new();
    story.client("a").says("CLUSTER SETSLOT 1 STABLE TIMEOUT 0");
    story.conn(1).gets("CLUSTER SETSLOT 1 STABLE TIMEOUT 0");
    story.client("b").says("GET k");
    story.conn(2).gets("GET k").answers("\"v\"");
    story.client("b").gets("\"v\"");
    story.conn(1).answers("+OK");
    story.client("a").gets("+OK");
    // In front of several servers respool answers CLUSTER itself.
    let mut story = Story::warm_cluster();
    story.client("a").says("CLUSTER SETSLOT 1 STABLE");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("-ERR"), "{text}");
    assert_eq!(story.node("n1").waiting(), 0);
}

#[test]
fn a_group_called_block_makes_nobody_wait() {
    let mut story = Story::new();
    let line = "XREADGROUP COUNT 1 GROUP block block STREAMS s >";
    story.client("a").says([line, "GET k"]);
    story.conn(1).gets([line, "GET k"]);
}

#[test]
fn what_stands_before_and_behind_it_keeps_its_order() {
    let mut story = Story::new();
    story.client("a").says(["SET k 1", "BLPOP list 0", "GET k", "PING"]);
    story.conn(1).gets("SET k 1").gets_nothing();
    assert_eq!(story.connects_made(), 1, "it waits for the reply to what was sent before");
    story.conn(1).answers("+OK");
    story.client("a").gets("+OK");
    story.conn(2).gets("BLPOP list 0");
    story.conn(1).gets_nothing();
    story.conn(2).answers("nil");
    story.conn(1).gets("GET k").answers("\"1\"");
    story.client("a").gets(["nil", "\"1\"", "+PONG"]);
}

#[test]
fn its_connection_serves_the_next_one() {
    let mut story = Story::new();
    for number in 0..100 {
        let name = number.to_string();
        story.client(&name).says("BLPOP list 0");
        story.conn(1).gets("BLPOP list 0").answers("nil");
        story.client(&name).gets("nil");
    }
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn its_own_timeout_counts_and_not_ours() {
    let mut story = Story::new();
    story.client("a").says("BLPOP list 0");
    story.client("b").says("BLPOP list 60");
    // Of several the last one counts.
    story.client("c").says("XREAD BLOCK 0 BLOCK 60000 STREAMS s $");
    story.after_ms(60_000);
    story.conn(2).gets("BLPOP list 60").answers("nil");
    story.client("b").gets("nil");
    // This server does not keep to what it was asked.
    story.client("c").gets_nothing();
    story.after_ms(10_000);
    let text = story.client("c").takes_text();
    assert!(text.contains("gave no reply for 10000 ms"), "{text}");
    story.after_ms(86_400_000);
    story.conn(1).gets("BLPOP list 0").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn a_client_that_goes_takes_its_connection_along() {
    let mut story = Story::new();
    story.client("a").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0");
    story.client("a").dies();
    story.conn(1).is_closed();
    // A client that closes its socket is seen to end first.
    story.client("b").says("BLPOP list 0");
    story.conn(2).gets("BLPOP list 0");
    story.client("b").ends().is_closed();
    story.conn(2).is_closed();
}

#[test]
fn a_lost_connection_is_an_error_and_never_asked_again() {
    let mut story = Story::new();
    story.client("a").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0").dies("connection reset");
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: connection reset").is_open();
    assert_eq!(story.connects_made(), 1);
    story.client("a").says("GET k");
    story.conn(2).gets("GET k");
}

#[test]
fn wait_counts_from_now_as_the_client_wrote_elsewhere() {
    let mut story = Story::new();
    story.client("a").says(["SET k 1", "WAIT 1 100"]);
    story.conn(1).gets("SET k 1").answers("+OK");
    story.conn(2).gets([MOVES_OFFSET, "WAIT 1 100"]).answers(["+PONG", ":1"]);
    story.client("a").gets(["+OK", ":1"]);
}

#[test]
fn beyond_the_bound_a_client_waits_its_turn_but_not_for_ever() {
    // One is left for transactions, and one for clients from elsewhere.
    let mut story = Story::with_limits(|limits| limits.leases_max = 4);
    for name in ["a", "b", "c", "d"] {
        story.client(name).says(&format!("BLPOP {name} 0"));
    }
    assert_eq!(story.connects_made(), 2);
    story.after_ms(5_000);
    story.conn(1).gets("BLPOP a 0").answers("nil");
    story.client("a").gets("nil");
    story.conn(1).gets("BLPOP c 0");
    story.after_ms(5_000);
    let text = story.client("d").takes_text();
    assert!(
        text.starts_with("-ERR respool: no connection of its own became free within 10000 ms"),
        "{text}"
    );
    story.client("d").is_open().says("PING").gets("+PONG");
    assert_eq!(story.connects_made(), 2);
}

#[test]
fn one_that_goes_while_it_waits_its_turn_leaves_nothing() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 1);
    for name in ["a", "b", "c"] {
        story.client(name).says(&format!("BLPOP {name} 0"));
    }
    story.client("b").dies();
    story.conn(1).gets("BLPOP a 0").answers("nil");
    story.conn(1).gets("BLPOP c 0");
}

#[test]
fn on_a_cluster_it_goes_to_the_node_of_its_keys_and_follows_a_redirect() {
    let mut story = Story::warm_cluster();
    story.client("a").says("BLPOP b4 0");
    story.node_conn("n2", 2).gets("BLPOP b4 0").moved("b4", "n3");
    story.node_conn("n3", 2).gets("BLPOP b4 0").answers("nil");
    story.client("a").gets("nil").says("BLPOP b4 0");
    story.node_conn("n3", 2).gets("BLPOP b4 0").ask("b4", "n1");
    story.node_conn("n1", 2).gets(["ASKING", "BLPOP b4 0"]).answers(["+OK", "nil"]);
    story.client("a").gets("nil");
    story
        .client("a")
        .says("BLPOP a4 b4 0")
        .gets("-CROSSSLOT Keys in request don't hash to the same slot");
}

#[test]
fn reading_a_stream_blocks_only_when_told() {
    let mut story = Story::new();
    story
        .client("a")
        .says(["XREAD COUNT 2 STREAMS s 0", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"]);
    story.conn(1).gets("XREAD COUNT 2 STREAMS s 0").gets_nothing().answers("nil");
    story.conn(2).gets("XREADGROUP GROUP g c BLOCK 0 STREAMS s >").answers("nil");
    story.client("a").gets(["nil", "nil"]);
}

#[test]
fn arity_errors_cost_no_connection() {
    let mut story = Story::new();
    story.client("a").says(["BLPOP k", "WAIT 1", "MULTI x", "WATCH"]).gets([
        "-ERR wrong number of arguments for 'blpop' command",
        "-ERR wrong number of arguments for 'wait' command",
        "-ERR wrong number of arguments for 'multi' command",
        "-ERR wrong number of arguments for 'watch' command",
    ]);
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn a_node_that_is_down_is_told() {
    let mut story = Story::warm_cluster();
    story.crashes("n2").client("a").says("BLPOP b4 0");
    story.client("a").gets(&*lost("n2", "connect: Connection refused"));
    story.client("a").says(["GET a4", "PING"]);
    story.node("n1").gets("GET a4").answers("nil");
    story.client("a").gets(["nil", "+PONG"]);
}

// The lease whose connection could not be made was kept, and the client counted as busy for ever.
#[test]
fn one_that_got_no_connection_is_owed_nothing_when_the_proxy_ends() {
    let mut story = Story::new().by_hand();
    story.client("a").says("BLPOP list 0");
    story.connect_fails("connect: Connection refused");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("-ERR respool: upstream "), "{text}");
    story.engine.drain();
    story.after_ms(200);
    story.client("a").is_closed();
}

#[test]
fn a_large_request_behind_it_is_still_streamed() {
    let mut story = Story::new();
    story.client("a").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0");
    story.client("a").sends(&large_set("k", 3 << 20));
    story.conn(1).answers("nil");
    story.client("a").gets("nil");
    story.conn(1).answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn one_that_has_gone_before_its_connection_is_made_waits_for_nothing() {
    let mut story = Story::new().by_hand();
    story.client("a").says("BLPOP list 0").ends();
    story.connects();
    story.conn(1).answers(crate::words::HELLO_2);
    story.conn(1).gets("HELLO 2").gets_nothing();
    story.client("a").is_closed();
}

// Found by a test from outside: with io_uring the end of the stream comes before the connection for WATCH is made, and the command waited at the server for ever.
#[test]
fn a_client_that_watches_and_has_gone_waits_for_nothing() {
    for line in ["BLPOP list 0", "XREAD BLOCK 0 STREAMS list $"] {
        let mut story = Story::new().by_hand();
        story.client("a").says(["WATCH k", line]).ends();
        story.connects();
        story.conn(1).answers(crate::words::HELLO_2);
        story.conn(1).gets(["HELLO 2", "COMMAND", "WATCH k"]).answers(["-ERR no", "+OK"]);
        story.conn(1).gets_nothing().is_closed();
        story.client("a").gets("+OK").is_closed();
    }
}

// Found by a test from outside: the command was sent on after its client had closed, waited for good, and took elements of others.
#[test]
fn a_command_on_its_way_to_another_node_ends_with_its_client() {
    for reply in ["-TRYAGAIN x", "-CLUSTERDOWN Hash slot not served", "-LOADING x"] {
        for command in ["BLPOP a4 0", "XREAD BLOCK 0 STREAMS a4 0-1", "BLMOVE a4 a4 LEFT RIGHT 0"] {
            let mut story = Story::warm_cluster();
            story.client("b").says(command);
            story.node_conn("n1", 2).gets(command).answers(reply);
            story.client("b").ends().is_closed();
            story.after_ms(30_000);
            story.node("n1").gets_nothing();
        }
    }
}

// As above, where the node that has the slot now is not connected yet.
#[test]
fn a_command_that_waits_for_a_connection_elsewhere_ends_with_its_client() {
    let mut story = Story::warm_cluster();
    story.client("b").says("BLPOP a4 0");
    story.node_conn("n1", 2).gets("BLPOP a4 0");
    let mut story = story.by_hand();
    story.node_conn("n1", 2).ask("a4", "n2");
    story.client("b").ends().is_closed();
    assert_eq!(story.engine.report(engine::Time::default()).clients, 1);
}

#[test]
fn a_transaction_on_its_way_to_another_node_outlives_the_end_of_its_clients_stream() {
    let mut story = Story::warm_cluster();
    story.client("b").says(["MULTI", "BLPOP a4 0", "EXEC"]);
    story.node("n1").gets(["MULTI", "BLPOP a4 0"]).answers(["+OK", "-TRYAGAIN x"]);
    story.client("b").ends().is_open();
    story.after_ms(100);
    story.node("n1").gets(["MULTI", "BLPOP a4 0"]).answers(["+OK", "+QUEUED"]);
    story.node("n1").gets("EXEC").answers("*1\r\n*-1\r\n");
    story.client("b").gets(["+OK", "+QUEUED", "*1\r\n*-1\r\n"]).is_closed();
}

// Found by a test from outside: a client that was killed went on waiting if an answer of the workers to it was open.
#[test]
fn a_killed_client_that_waits_is_closed_though_an_answer_to_it_is_open() {
    let mut story = Story::new();
    story.client("a").says("CLIENT ID").gets(":1");
    story.holds_questions();
    story.client("a").says(["WATCH k", "SLOWLOG GET -1", "BLPOP list 0"]);
    story.conn(1).gets(["WATCH k", "BLPOP list 0"]).answers("+OK");
    story.client("a").gets("+OK");
    story.client("b").says("CLIENT KILL ID 1");
    story.workers_answer_newest();
    story.client("b").gets(":1");
    story.client("a").is_closed();
    story.conn(1).is_closed();
}

#[test]
fn one_that_waits_is_sent_on_when_its_slot_moves() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "INCR a4"]).says("EXEC");
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4"]).answers(["+OK", "+QUEUED"]);
    story.node_conn("n1", 2).gets("EXEC").answers("*1\r\n:1\r\n");
    story.client("b").says("BLPOP a4 0");
    story.node_conn("n1", 2).gets("BLPOP a4 0");
    story.after_ms(60_000).node_conn("n1", 2).moved("a4", "n2");
    story.node_conn("n2", 2).gets("BLPOP a4 0");
    story.after_ms(60_000).node_conn("n2", 2).moved("a4", "n3");
    story.node_conn("n3", 2).gets("BLPOP a4 0").answers("*2\r\n$2\r\na4\r\n$1\r\nx\r\n");
    story.client("b").gets("*2\r\n$2\r\na4\r\n$1\r\nx\r\n");
}

#[test]
fn wait_asks_every_primary_and_the_least_number_is_the_answer() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "WAIT 1 1000", "WAITAOF 1 0 1000", "PING"]);
    story.node_conn("n1", 1).gets("SET a4 1").answers("+OK");
    for (node, copies) in [("n1", ":2"), ("n2", ":1"), ("n3", ":3")] {
        story.node_conn(node, 2).gets([MOVES_OFFSET, "WAIT 1 1000"]).answers(["+PONG", copies]);
    }
    story.client("a").gets(["+OK", ":1"]);
    for (node, copies) in
        [("n1", "*2\r\n:1\r\n:2\r\n"), ("n2", "*2\r\n:0\r\n:9\r\n"), ("n3", "*2\r\n:1\r\n:1\r\n")]
    {
        story
            .node_conn(node, 2)
            .gets([MOVES_OFFSET, "WAITAOF 1 0 1000"])
            .answers(["+PONG", copies]);
    }
    story.client("a").gets(["*2\r\n:0\r\n:1\r\n", "+PONG"]);
    // The connections serve the next one.
    story.client("b").says("BLPOP a4 0");
    story.node_conn("n1", 2).gets("BLPOP a4 0");
}

#[test]
fn a_wait_that_is_lost_or_left_leaves_nothing_behind() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WAIT 1 0");
    for node in ["n1", "n2", "n3"] {
        story.node_conn(node, 2).gets([MOVES_OFFSET, "WAIT 1 0"]).answers("+PONG");
    }
    story.after_ms(600_000);
    story.node_conn("n1", 2).answers(":1");
    story.node_conn("n2", 2).dies("connection reset");
    story.node_conn("n3", 2).answers(":1");
    story.client("a").gets(&*lost("n2", "connection reset"));
    story.client("a").says("WAIT 1 0");
    story.node_conn("n1", 2).gets([MOVES_OFFSET, "WAIT 1 0"]);
    story.client("a").ends().is_closed();
    for (node, number) in [("n1", 2), ("n2", 3), ("n3", 2)] {
        story.node_conn(node, number).is_closed();
    }
    assert!(story.engine.is_quiet());
}

/// How a server that becomes a replica ends the wait of its clients; it closes their connections then.
const CUT: &str =
    "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

#[test]
fn a_wait_that_a_failover_cuts_short_goes_on_at_the_new_primary() {
    for wait in ["BLPOP a4 0", "BLMOVE a4 a4 LEFT RIGHT 0", "XREAD BLOCK 0 STREAMS a4 0-1"] {
        let mut story = Story::warm_cluster();
        story.client("a").says(wait);
        story.node_conn("n1", 2).gets(wait);
        story.after_ms(60_000).node_conn("n1", 2).answers(CUT).is_closed();
        story.client("a").gets_nothing();
        // It is a replica by now, and knows the new primary.
        story.after_ms(5).node_conn("n1", 3).gets(wait).moved("a4", "n2");
        story.node_conn("n2", 2).gets(wait).answers("+done");
        story.client("a").gets("+done");
    }
}

#[test]
fn a_wait_goes_on_only_where_nothing_can_be_missed() {
    for wait in ["XREAD BLOCK 0 STREAMS a4 $", "XREAD BLOCK 0 STREAMS {a4}x a4 0 $"] {
        let mut story = Story::warm_cluster();
        story.client("a").says(wait);
        story.node_conn("n1", 2).gets(wait).answers(CUT);
        story.client("a").gets(CUT).is_open();
    }
    // There is no other server, and the wait is over there.
    let mut story = Story::new();
    story.client("a").says("BLPOP list 0");
    story.conn(1).gets("BLPOP list 0").answers(CUT);
    story.client("a").gets(CUT).is_open();
}

#[test]
fn a_wait_that_somebody_ended_does_not_go_on() {
    let ended = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";
    let mut story = Story::warm_cluster();
    story.client("a").says("BLPOP a4 0");
    story.node_conn("n1", 2).gets("BLPOP a4 0").answers(ended);
    story.client("a").gets(ended).is_open();
}
