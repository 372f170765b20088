//! `WAIT` and `WAITAOF` of clients that were connected when a primary was lost.

use crate::waits::MOVES_OFFSET;
use crate::words::{HELLO_2, Story};
use engine::Settings;
use engine::settings::OnLoss;

const LOST: &str = "-ERR respool: a primary was lost: it may have acknowledged writes of this client that nobody can confirm now";
const WAIT: [&str; 2] = [MOVES_OFFSET, "WAIT 1 0"];

/// The client `a` has written.
fn with_a_write() -> Story {
    let mut story = Story::new();
    story.client("a").says("SET k 1");
    story.conn(1).gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    story
}

#[test]
fn a_client_that_was_idle_when_its_server_was_lost_gets_an_error_once() {
    let mut story = Story::new();
    story.client("a").says("SET k 1");
    story.client("b").says("PING").gets("+PONG");
    story.conn(1).gets("SET k 1").answers("+OK").dies("connection reset");
    story.client("a").gets("+OK").says(["WAIT 1 0", "GET k"]);
    story.conn(2).gets("GET k").answers("\"1\"");
    story.client("a").gets([LOST, "\"1\""]).says("WAIT 1 0");
    story.conn(3).gets(WAIT).answers(["+PONG", ":1"]);
    story.client("a").gets(":1");
    story.client("b").says("WAITAOF 1 0 0").gets(LOST);
    // A client that connects afterwards has written nothing to the lost server.
    story.after_ms(1).client("c").says("WAIT 1 0");
    story.conn(3).gets(WAIT);
}

// Found by an attack: WAIT counted the replicas of the new server.
#[test]
fn servers_that_a_configuration_replaces_confirm_nothing_of_the_former_ones() {
    let mut story = with_a_write();
    story.reconfigures(|settings| settings.node.address = engine::node::Address::tcp("new", 7000));
    story.client("a").says("WAIT 1 0").gets(LOST).says("WAIT 1 0");
    story.node("new").gets(WAIT).answers(["+OK", ":1"]);
    story.client("a").gets(":1");
}

#[test]
fn a_transaction_with_wait_is_not_executed_behind_a_lost_server() {
    for wait in ["WAIT 1 0", "WAITAOF 1 0 0"] {
        let mut story = Story::new();
        // Later servers count nothing inside of MULTI (`waits.rs`).
        story.server_says_to("HELLO", &HELLO_2.replace("7.2.5", "7.0.5"));
        story.client("a").says("SET k 1");
        story.conn(1).gets("SET k 1").answers("+OK").dies("connection reset");
        story.client("a").gets("+OK").says(["MULTI", wait]);
        story.conn(3).gets(["MULTI", wait]).answers(["+OK", "+QUEUED"]);
        story.client("a").gets(["+OK", "+QUEUED"]).says("EXEC").gets(LOST);
        story.conn(3).gets("DISCARD").answers("+OK");
        // respool gives the failure once: the server executes the next transaction.
        story.client("a").says(["MULTI", wait, "EXEC"]);
        story.conn(3).gets(["MULTI", wait, "EXEC"]);
    }
}

#[test]
fn where_several_servers_are_a_transaction_with_wait_alone_is_not_executed_either() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK").says(["MULTI", "WAIT 1 0"]).gets(["+OK", "+QUEUED"]);
    story.cluster_is("0-5000 n4, 5001-10922 n2, 10923-16383 n3").after_ms(61_000);
    story.client("a").says("EXEC").gets(LOST);
}

#[test]
fn where_a_lost_server_closes_clients_wait_does_so_too() {
    let mut story =
        Story::with(Settings { on_upstream_loss: OnLoss::Close, ..Settings::default() });
    story.client("a").says("SET k 1");
    story.conn(1).gets("SET k 1").answers("+OK").dies("connection reset");
    story.client("a").gets("+OK").is_open().says("WAIT 1 0").is_closed();
}

#[test]
fn a_wait_behind_a_new_primary_of_sentinels_is_told_though_no_connection_was_lost() {
    let mut story = Story::warm_sentinels();
    story.client("a").says("SET k 1");
    story.node("n1").gets("SET k 1").answers("+OK");
    story.client("a").gets("+OK");
    story.sentinels_say("n2 n1").after_ms(1_100);
    story.client("a").says("WAIT 1 0").gets(LOST);
    assert_eq!(story.connects_to("n2"), 0);
}

#[test]
fn in_a_cluster_a_primary_that_owns_nothing_any_more_is_lost_and_one_with_fewer_slots_is_not() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK");
    story.cluster_is("0-5000 n1, 5001-10922 n2, 10923-16383 n3").after_ms(61_000);
    story.client("a").says("WAIT 1 0");
    for node in ["n1", "n2", "n3"] {
        story.node_conn(node, 2).gets(WAIT).answers(["+PONG", ":1"]);
    }
    story.client("a").gets(":1");
    story.cluster_is("0-5000 n4, 5001-10922 n2, 10923-16383 n3").after_ms(61_000);
    story.client("a").says("WAIT 1 0").gets(LOST);
}

#[test]
fn a_connection_that_one_client_alone_used_is_no_sign_for_others() {
    let mut story = with_a_write();
    story.client("b").says("BLPOP q 0");
    story.conn(2).gets("BLPOP q 0").dies("connection reset");
    story.client("a").says("WAIT 1 0");
    story.conn(3).gets(WAIT);
}
