//! What one client sends for one slot arrives in the order it was sent, whatever happens to the slot meanwhile.

use crate::words::Story;
use crate::words::cluster::moved;

#[test]
fn what_comes_behind_a_parked_request_does_not_overtake_it() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").moved("a4", "n9");
    story.client("a").says(["SET a4 2", "GET a8", "PING"]).gets_nothing();
    story.client("b").says("GET a8");
    story.node("n1").gets("GET a8").gets_nothing().answers("\"b\"");
    story.client("b").gets("\"b\"");
    story.lets_connect("n9");
    story.node("n9").gets("SET a4 1").gets_nothing().answers("+OK");
    story.client("a").gets("+OK");
    story.node("n9").gets("SET a4 2").answers("+OK");
    story.node("n1").gets("GET a8").answers("nil");
    story.client("a").gets(["+OK", "nil", "+PONG"]);
}

#[test]
fn what_comes_behind_a_request_on_its_way_to_the_old_owner_does_not_overtake_it() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1");
    // Another client finds out that the slot is elsewhere.
    story.client("b").says("GET a4");
    story.node("n1").gets("GET a4");
    story.client("c").says("GET {a4}x");
    story.node("n1").gets("GET {a4}x");
    story.node("n1").answers("+OK").moved("a4", "n2");
    story.client("a").gets("+OK").says(["SET a4 2", "SET a4 3"]);
    story.node("n2").gets(["GET a4", "SET a4 2", "SET a4 3"]);
}

#[test]
fn a_new_table_holds_a_client_until_the_old_owner_has_answered() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1");
    story.cluster_is("0-10922 n2, 10923-16383 n3").after_ms(2_000);
    story.client("a").says("SET a4 2");
    story.client("b").says("SET a4 b");
    story.node("n2").gets("SET a4 b").gets_nothing();
    story.node("n1").answers("+OK");
    story.client("a").gets("+OK");
    story.node("n2").gets("SET a4 2");
}

#[test]
fn what_comes_behind_an_asked_request_does_not_overtake_it() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").ask("a4", "n9");
    story.client("a").says("SET a4 2");
    story.node("n1").gets_nothing();
    story.lets_connect("n9");
    story.node("n9").gets(["ASKING", "SET a4 1"]).answers(["+OK", "+OK"]);
    story.node("n1").gets("SET a4 2").ask("a4", "n9");
    story.node("n9").gets(["ASKING", "SET a4 2"]).answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK"]);
}

#[test]
fn what_comes_behind_a_part_that_is_tried_again_does_not_overtake_it() {
    for word in
        ["-TRYAGAIN Multiple keys request during rehashing of slot", "-LOADING Redis is loading"]
    {
        let mut story = Story::warm_cluster();
        story.client("a").says("MSET a4 1 b4 1");
        story.node("n2").gets("MSET b4 1").answers("+OK");
        story.node("n1").gets("MSET a4 1").answers(word);
        story.client("a").says("SET a4 2");
        story.node("n1").gets_nothing();
        story.after_ms(1).node("n1").gets("MSET a4 1").gets_nothing().answers("+OK");
        story.node("n1").gets("SET a4 2").answers("+OK");
        story.client("a").gets(["+OK", "+OK"]);
    }
}

#[test]
fn what_comes_behind_a_part_that_was_asked_for_does_not_overtake_it() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    story.client("a").says("MSET a4 1 b4 1");
    story.node("n2").gets("MSET b4 1").answers("+OK");
    story.node("n1").gets("MSET a4 1").ask("a4", "n9");
    story.client("a").says("SET a4 2");
    story.node("n1").gets_nothing();
    story.lets_connect("n9");
    story.node("n9").gets(["ASKING", "MSET a4 1"]).answers(["+OK", "+OK"]);
    story.node("n1").gets("SET a4 2");
}

#[test]
fn a_pipeline_of_which_the_first_is_tried_later_goes_in_order() {
    let mut story = Story::warm_cluster();
    let lines = ["SET a4 1", "SET a4 2", "SET a4 3"];
    story.client("a").says(lines);
    let moved = moved("a4", "n2");
    story.node("n1").gets(lines).answers(["-TRYAGAIN x", &*moved, &*moved]);
    // The second could go at once, the first must wait: so they all do.
    story.node("n2").gets_nothing();
    story.after_ms(1).node("n2").gets(lines).answers(["+OK", "+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK", "+OK"]);
}

#[test]
fn clients_that_do_not_wait_go_on() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").moved("a4", "n9");
    story.client("b").says(["SET a8 1", "SET b4 1"]);
    story.node("n1").gets("SET a8 1").answers("+OK");
    story.node("n2").gets("SET b4 1").answers("+OK");
    story.client("b").gets(["+OK", "+OK"]);
}

#[test]
fn an_older_table_does_not_send_a_request_back_behind_those_that_follow_it() {
    let mut story = Story::warm_cluster_beside_with("n9", |settings| {
        settings.timeouts.connect_ms = 5_000;
    });
    story.after_ms(600).lets_connects_hang("n9").asked_for_the_table();
    story.client("a").says(["SET a4 1", "SET a4 2"]);
    story.node("n1").gets(["SET a4 1", "SET a4 2"]).moved("a4", "n9");
    // The new owner, who is asked first, is silent; the next one has not heard of it yet: it still names n1, where the second one waits.
    assert_eq!(story.after_ms(1_000).asked_for_the_table().len(), 1);
    story.node("n1").gets_nothing().moved("a4", "n9");
    story.lets_connect("n9").after_ms(10);
    story.node("n9").gets(["SET a4 1", "SET a4 2"]).answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK"]);
}

// Nothing that it could undo stands behind it any more.
#[test]
fn a_write_that_was_sent_on_and_did_not_leave_goes_on_when_that_connection_is_lost() {
    let mut story = Story::warm_cluster();
    story.node("n2").stops_taking();
    story.client("b").says("GET b4");
    story.after_ms(1).client("a").says(["SET a4 1", "SET a4 2"]);
    // They wait for room in the socket of n2.
    story.node("n1").gets(["SET a4 1", "SET a4 2"]).ask("a4", "n2").ask("a4", "n2");
    story.after_ms(1_000).node("n2").dies("connection reset");
    story.node_conn("n1", 1).gets(["SET a4 1", "SET a4 2"]).answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK"]);
}
