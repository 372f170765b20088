//! A node is lost: who gets an error, what goes on elsewhere, and who waits for a successor.

use crate::words::Story;
use crate::words::cluster::lost;

const RESET: &str = "-ERR respool: upstream n1:7000: connection reset";
const REFUSED: &str = "-ERR respool: upstream n1:7000: connect: Connection refused";

#[test]
fn a_write_that_was_sent_gets_one_error_with_node_and_cause_and_is_not_sent_again() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "SET b4 1", "INCR a8"]);
    story.node("n2").gets("SET b4 1").answers("+OK");
    story.node("n1").gets(["SET a4 1", "INCR a8"]);
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.client("a").gets([RESET, "+OK", RESET]).is_open();
    assert_eq!(story.connects_to("n1"), 2);
    story.node("n1").gets_nothing();
}

#[test]
fn a_read_that_was_sent_goes_on_over_the_next_connection() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "SET a8 1", "GET a12"]);
    story.node("n1").gets(["GET a4", "SET a8 1", "GET a12"]);
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.node_conn("n1", 2).gets(["GET a4", "GET a12"]).answers(["\"4\"", "\"12\""]);
    story.client("a").gets(["\"4\"", RESET, "\"12\""]);
}

#[test]
fn a_read_goes_to_the_successor_when_there_is_one() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 3_000);
    story.client("a").says(["GET a4", "SET a8 1"]);
    story.node("n1").gets(["GET a4", "SET a8 1"]);
    story.after_ms(2_000).crashes("n1").after_ms(1_000);
    story.cluster_is("0-5460 n4, 5461-10922 n2, 10923-16383 n3").after_ms(600);
    story.node("n4").gets("GET a4").gets_nothing().answers("\"4\"");
    story.client("a").gets(["\"4\"", RESET]);
}

#[test]
fn what_never_left_goes_on_even_if_it_writes() {
    let mut story = Story::warm_cluster();
    story.node("n1").stops_taking();
    story.client("a").says("SET a4 1");
    // The driver has the first; these wait behind it.
    story.after_ms(1).client("a").says(["SET a8 2", "SET a12 3"]);
    story.client("b").says("MSET a16 4 b4 5");
    story.node("n1").gets("SET a4 1").gets_nothing();
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.node_conn("n1", 2).gets(["SET a8 2", "SET a12 3", "MSET a16 4"]);
    story.node_conn("n1", 2).answers(["+OK", "+OK", "+OK"]);
    story.node("n2").gets("MSET b4 5").answers("+OK");
    story.client("a").gets([RESET, "+OK", "+OK"]);
    story.client("b").gets("+OK");
}

#[test]
fn what_a_client_sends_behind_a_rescued_request_does_not_overtake_it() {
    let mut story = Story::warm_cluster();
    story.node("n1").stops_taking();
    story.client("a").says("SET a4 0");
    story.after_ms(1).client("a").says("MSET a8 1 b8 1");
    story.lets_connects_hang("n1").after_ms(2_000).node("n1").dies("connection reset");
    story.client("a").says("SET a8 2");
    story.node("n2").gets("MSET b8 1").answers("+OK");
    story.lets_connect("n1");
    story.node_conn("n1", 2).gets("MSET a8 1").gets_nothing().answers("+OK");
    story.node_conn("n1", 2).gets("SET a8 2");
}

#[test]
fn a_lost_part_is_an_error_of_the_whole_and_of_no_other_request() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET a4 1 b4 1", "DEL a8 c1", "GET b8"]);
    story.node("n2").gets(["MSET b4 1", "GET b8"]).answers(["+OK", "\"b\""]);
    story.node("n3").gets("DEL c1").answers(":1");
    story.node("n1").gets(["MSET a4 1", "DEL a8"]);
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.client("a").gets([RESET, RESET, "\"b\""]);
}

#[test]
fn a_lost_part_that_reads_goes_on() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET a4 b4 a4", "EXISTS a8 c1"]);
    story.node("n2").gets("MGET b4").answers("*1\r\n$1\r\nb\r\n");
    story.node("n3").gets("EXISTS c1").answers(":1");
    story.node("n1").gets(["MGET a4 a4", "EXISTS a8"]);
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.node_conn("n1", 2).gets(["MGET a4 a4", "EXISTS a8"]);
    story.node_conn("n1", 2).answers(["*2\r\n$1\r\na\r\n$1\r\na\r\n", ":1"]);
    story.client("a").gets(["*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\na\r\n", ":2"]);
}

#[test]
fn a_read_that_is_never_answered_gets_its_error_and_is_not_sent_for_ever() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "PING"]);
    for _ in 0..40 {
        story.after_ms(1_000);
        if story.node("n1").waiting() > 0 {
            story.node("n1").takes_requests();
        }
    }
    let got = story.client("a").takes_text();
    assert!(got.starts_with("-ERR respool: ") && got.ends_with("\r\n+PONG\r\n"), "{got:?}");
    assert!(story.connects_to("n1") <= 4, "{} connects", story.connects_to("n1"));
}

#[test]
fn a_read_that_breaks_each_connection_gets_its_error() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "PING"]);
    for _ in 0..20 {
        story.after_ms(2_000);
        if story.node("n1").waiting() > 0 {
            story.node("n1").gets("GET a4").dies("connection reset");
        }
    }
    let got = story.client("a").takes_text();
    assert!(got.starts_with("-ERR respool: ") && got.ends_with("\r\n+PONG\r\n"), "{got:?}");
}

#[test]
fn a_node_that_is_down_fails_at_once_and_the_others_serve() {
    let mut story = Story::warm_cluster();
    story.after_ms(2_000).crashes("n1");
    story.client("a").says(["GET a4", "GET b4", "MGET a4 b4"]);
    story.node("n2").gets(["GET b4", "MGET b4"]).answers(["\"b\"", "*1\r\n$-1\r\n"]);
    story.client("a").gets([REFUSED, "\"b\"", REFUSED]);
}

#[test]
fn the_table_is_asked_for_when_a_node_is_lost() {
    let mut story = Story::warm_cluster();
    story.cluster_is("0-5460 n4, 5461-10922 n2, 10923-16383 n3");
    story.after_ms(2_000).asked_for_the_table();
    story.crashes("n1").after_ms(10);
    assert_eq!(story.asked_for_the_table().len(), 1);
    story.client("a").says("SET a4 1");
    story.node("n4").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn an_idle_close_loses_nothing() {
    let mut story = Story::warm_cluster();
    story.after_ms(60_000).node("n1").dies("closed the connection");
    assert!(!story.was_told("UpstreamLost") && !story.was_told("NodeDown"));
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn with_a_hold_clients_see_a_pause_and_no_error() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 5_000);
    story.after_ms(2_000).crashes("n1");
    story.client("a").says(["SET a4 1", "GET a8", "GET b4"]).gets_nothing();
    story.client("b").says(["MSET a4 2 b4 2"]);
    story.client("c").says("GET b8");
    story.node("n2").gets("GET b8").answers("\"c\"");
    story.client("c").gets("\"c\"");
    story.after_ms(3_000).client("a").gets_nothing();
    story.cluster_is("0-5460 n4, 5461-10922 n2, 10923-16383 n3").after_ms(600);
    let mut lines = [story.node("n4").waiting(), story.node("n2").waiting()];
    lines.sort_unstable();
    assert_eq!(lines, [2, 3]);
    story.node("n4").takes_requests();
    story.node("n4").answers(["+OK", "\"8\"", "+OK"]);
    story.node("n2").takes_requests();
    story.node("n2").answers(["\"4\"", "+OK"]);
    let (a, b) = (story.client("a").takes_text(), story.client("b").takes_text());
    assert!(!a.contains("-ERR") && b == "+OK\r\n", "{a:?} {b:?}");
}

#[test]
fn the_pause_is_bounded() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 1_500);
    story.after_ms(2_000).crashes("n1");
    story.client("a").says("SET a4 1");
    story.after_ms(1_499).client("a").gets_nothing();
    story.after_ms(2).client("a").gets(REFUSED);
    story.client("a").says("SET a4 1").gets(REFUSED);
    story.after_ms(5_000).client("a").says("SET a4 1").gets(REFUSED);
}

#[test]
fn the_pause_is_bounded_also_while_other_connections_come() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 1_500);
    story.after_ms(2_000).crashes("n1");
    story.client("a").says("SET a4 1");
    let begin = story.now;
    for _ in 0..10 {
        // A connection of another node that comes and goes says nothing of this one.
        story.after_ms(500).node("n2").dies("closed the connection");
        let got = story.client("a").takes_text();
        if !got.is_empty() {
            assert_eq!(got, format!("{REFUSED}\r\n"));
            return;
        }
        assert!(story.now.since(begin) <= 2_000_000, "the pause goes on");
    }
}

#[test]
fn a_node_that_comes_back_itself_ends_the_pause() {
    let mut story =
        Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 20_000);
    story.after_ms(2_000).crashes("n1");
    story.client("a").says("SET a4 1");
    story.is_up("n1").after_ms(200);
    story.node("n1").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_client_that_is_held_can_go() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 5_000);
    story.after_ms(2_000).crashes("n1");
    story.client("b").says("SET a4 1").dies();
    story.cluster_is("0-5460 n4, 5461-10922 n2, 10923-16383 n3").after_ms(1_000);
    assert_eq!(story.connects_to("n4"), 0);
    assert!(story.engine.is_quiet() || story.engine.client_count() == 1);
}

#[test]
fn a_node_that_left_the_cluster_is_forgotten_when_it_owes_nothing() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    story.is_up("n4").cluster_is("0-16383 n2");
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4");
    story.after_ms(2_000);
    // It was a seed, which is never forgotten; n4 is no seed.
    story.cluster_is("0-8191 n4, 8192-16383 n2").after_ms(2_000);
    story.node("n1").is_open().answers("nil");
    story.client("a").gets("nil").says(["GET a4", "GET a8"]);
    story.node("n4").gets(["GET a4", "GET a8"]).answers("\"4\"");
    story.cluster_is("0-16383 n2").after_ms(2_000);
    // It still owes a reply.
    story.node("n4").is_open().answers("\"8\"");
    story.client("a").gets(["\"4\"", "\"8\""]);
    story.node("n4").is_closed();
    story.client("a").says("GET a4");
    story.node("n2").gets("GET a4");
}

#[test]
fn a_forgotten_node_that_comes_back_is_served_again() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    for round in 1..4 {
        story.cluster_is("0-8191 n4, 8192-16383 n2").after_ms(2_000);
        story.client("a").says("GET a4");
        story.node("n4").gets("GET a4").answers("nil");
        story.client("a").gets("nil");
        story.cluster_is("0-16383 n2").after_ms(2_000);
        assert_eq!((story.connects_to("n4"), story.open_conns_to("n4")), (round, 0));
    }
}

#[test]
fn an_overdue_reply_closes_the_connection_of_that_node_alone() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "SET b4 1"]);
    story.node("n2").gets("SET b4 1").answers("+OK");
    story.after_ms(10_000);
    let cause = "gave no reply for 10000 ms, its connection was closed";
    story.client("a").gets([&*lost("n1", cause), "+OK"]);
    assert_eq!((story.connects_to("n1"), story.connects_to("n2")), (2, 1));
}

#[test]
fn half_a_reply_that_was_given_closes_the_client_and_no_other_reply_is_lost() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    story.client("b").says("GET a8");
    story.node("n1").gets(["GET a4", "GET a8"]);
    story.node("n1").sends(&[&b"$100000\r\n"[..], &[b'x'; 60_000]].concat());
    story.client("a").takes();
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.client("a").is_closed();
    story.node_conn("n1", 2).gets("GET a8").answers("\"8\"");
    story.client("b").gets("\"8\"");
}

#[test]
fn clients_can_greet_while_the_first_node_is_away() {
    let mut story = Story::warm_cluster();
    story.crashes("n1").after_ms(10);
    for hello in ["HELLO 2", "HELLO 3"] {
        story.client("b").says(hello);
        let got = story.client("b").takes_text();
        assert!(got.contains("server"), "{hello}: {got}");
    }
    story.client("b").says("GET b4");
    story.node("n2").gets("GET b4");
}

#[test]
fn a_read_is_not_asked_again_behind_a_write_that_may_have_been_done() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "SET a4 new", "GET a4"]);
    story.client("b").says("GET a4");
    story.node("n1").gets(["GET a4", "SET a4 new", "GET a4", "GET a4"]).dies("connection reset");
    let lost = lost("n1", "connection reset");
    // Of the first client only the last read can be asked again; the other client did not write.
    story.node("n1").gets(["GET a4", "GET a4"]).answers(["\"new\"", "\"new\""]);
    story.client("a").gets([&*lost, &*lost, "\"new\""]);
    story.client("b").gets("\"new\"");
}

#[test]
fn thousands_of_refused_parts_are_found_one_after_the_other() {
    let mut story = Story::warm_cluster();
    // Keys of n1 in slots of their own, so that each is a part.
    let keys: Vec<String> = (0..20_000)
        .map(|number| format!("k{number}"))
        .filter(|key| engine::route::slot::slot(key.as_bytes()) <= 5_460)
        .collect();
    let mut request = Vec::new();
    let mut args: Vec<&[u8]> = vec![b"MGET"];
    args.extend(keys.iter().map(String::as_bytes));
    resp::encode::request(&mut request, &args);
    let begun = std::time::Instant::now();
    story.client("a").sends(&request);
    let parts = story.node("n1").takes_requests();
    assert!(parts > 3_000, "{parts} parts");
    story.node("n1").dies("connection reset");
    // Looked for from the begin each time it would take minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    story.client("a").takes();
}
