//! Requests too large to be kept: streamed over a connection of their own.

use crate::pubsub::listens;
use crate::words::{Story, large_set, request};

const MIB: usize = 1 << 20;
const RESET: &str = "-ERR respool: upstream 127.0.0.1:6379: connection reset";

#[test]
fn a_large_request_is_streamed_beside_the_traffic_of_others() {
    let mut story = Story::new();
    story.client("b").says("GET k");
    let set = large_set("big", 2 * MIB);
    story.client("a").sends(&set[..MIB]);
    assert_eq!(story.connects_made(), 2, "it has a connection of its own");
    assert!(story.conn(2).bytes_of_unfinished() > MIB - 100, "what came went on at once");
    story.conn(1).gets("GET k").answers("nil");
    story.client("b").gets("nil");
    story.client("a").sends(&set[MIB..]);
    assert_eq!(story.conn(2).waiting(), 1);
    story.conn(2).answers("+OK");
    story.client("a").gets("+OK").says("GET k");
    story.conn(1).gets("GET k");
}

#[test]
fn a_large_request_waits_for_the_replies_before_it_and_the_next_for_its() {
    let mut story = Story::new();
    let large = large_set("big", 4 * MIB);
    story.client("a").sends(&[request("GET k"), large, request("GET l"), request("PING")].concat());
    assert_eq!(story.connects_made(), 1);
    story.conn(1).gets("GET k").gets_nothing().answers("\"k\"");
    story.client("a").gets("\"k\"");
    assert_eq!(story.conn(2).waiting(), 1);
    story.conn(1).gets_nothing();
    story.conn(2).answers("+OK");
    story.client("a").gets("+OK");
    story.conn(1).gets("GET l").answers("\"l\"");
    story.client("a").gets(["\"l\"", "+PONG"]);
}

#[test]
fn a_large_request_split_at_any_of_its_first_bytes_is_the_same() {
    let set = large_set("big", 300_000);
    for split in 1..40 {
        let mut story = Story::new();
        story.client("a").sends(&set[..split]).sends(&set[split..]);
        assert_eq!(story.server().waiting(), 1, "split at {split}");
        assert_eq!(story.server().bytes_of_unfinished(), 0);
        story.server().answers("+OK");
        story.client("a").gets("+OK").is_open();
    }
}

#[test]
fn the_connection_is_kept_for_the_next_large_request_and_let_go_when_idle() {
    let mut story = Story::new();
    for _ in 0..3 {
        story.client("a").sends(&large_set("big", MIB));
        assert_eq!(story.connects_made(), 1);
        story.server().answers("+OK");
        story.client("a").gets("+OK");
    }
    story.after_ms(9_999).server().is_open();
    story.after_ms(1).server().is_closed();
    assert_eq!(story.open_conns(), 0);
}

#[test]
fn only_some_idle_connections_are_kept() {
    let mut story = Story::with_limits(|limits| limits.large_transfers_max = 40);
    for name in 0..40 {
        story.client(&format!("{name}@10.0.1.{name}")).sends(&large_set("big", MIB));
    }
    assert_eq!(story.open_conns(), 40);
    for number in 1..=40 {
        story.conn(number).answers("+OK");
    }
    assert_eq!(story.open_conns(), engine::limits::SPARES_MAX);
}

#[test]
fn one_more_large_request_than_the_bound_waits_its_turn() {
    let mut story = Story::with_limits(|limits| limits.large_transfers_max = 2);
    for name in ["a", "b@10.0.0.2", "c"] {
        story.client(name).sends(&large_set(name, MIB));
    }
    assert_eq!(story.connects_made(), 2);
    story.conn(1).answers("+OK");
    story.client("a").gets("+OK");
    assert_eq!(story.connects_made(), 2, "the third takes the connection that became free");
    assert_eq!(story.conn(1).waiting(), 2);
    story.conn(1).answers("+OK");
    story.client("c").gets("+OK");
    story.conn(2).answers("+OK");
    story.client("b@10.0.0.2").gets("+OK");
}

// Found by an attack: forty clients that begin a large request and send no more of it. Others waited until it was overdue.
#[test]
fn who_sends_no_more_of_a_large_request_makes_room_for_who_waits() {
    let mut story = Story::with_limits(|limits| limits.large_transfers_max = 2);
    story.client("a").sends(&large_set("a", MIB)[..600_000]);
    story.after_ms(5_000).client("b@10.0.0.2").sends(&large_set("b", MIB)[..600_000]);
    // Nobody waits.
    story.client("a").is_open();
    let rest = &large_set("c", MIB)[..];
    story.client("c@10.0.0.3").sends(rest);
    story.client("a").is_closed();
    story.client("b@10.0.0.2").is_open();
    story.conn(1).is_closed();
    story.conn(3).answers("+OK");
    story.client("c@10.0.0.3").gets("+OK");
    // With a byte now and then it keeps its place.
    story.client("d@10.0.0.4").sends(&large_set("d", MIB));
    story.client("e@10.0.0.5").sends(&large_set("e", MIB));
    let b = large_set("b", MIB);
    for at in 0..3 {
        story.after_ms(900).client("b@10.0.0.2").sends(&b[600_000 + at..600_001 + at]).is_open();
    }
    story.after_ms(1_001).client("b@10.0.0.2").is_closed();
}

#[test]
fn one_who_waits_for_a_turn_and_goes_leaves_the_turn_to_the_next() {
    let mut story = Story::with_limits(|limits| limits.large_transfers_max = 1);
    for name in ["a", "b", "c"] {
        story.client(name).sends(&large_set(name, MIB));
    }
    story.client("b").dies();
    story.conn(1).answers("+OK");
    story.client("a").gets("+OK");
    story.server().answers("+OK");
    story.client("c").gets("+OK");
}

#[test]
fn a_client_that_dies_half_way_takes_its_connection_with_it() {
    let mut story = Story::with_limits(|limits| limits.large_transfers_max = 1);
    story.client("a").sends(&large_set("big", MIB)[..MIB / 2]);
    story.client("b").sends(&large_set("next", MIB));
    story.client("a").dies();
    story.conn(1).is_closed();
    // The next one gets the turn, on a connection that has seen no half request.
    assert_eq!(story.conn(2).waiting(), 1);
    story.conn(2).answers("+OK");
    story.client("b").gets("+OK");
}

#[test]
fn a_client_that_ends_half_way_is_closed() {
    let mut story = Story::new();
    story.client("a").sends(&large_set("big", MIB)[..MIB / 2]).ends().is_closed();
    story.conn(1).is_closed();
}

#[test]
fn a_client_that_ended_before_its_half_request_began_to_flow_is_closed() {
    let mut story = Story::new();
    story
        .client("a")
        .sends(&[request("GET k"), large_set("big", MIB)[..600_000].to_vec()].concat());
    story.client("a").ends().is_open();
    story.conn(1).gets("GET k").answers("\"k\"");
    story.client("a").gets("\"k\"").is_closed();
    assert_eq!(story.open_conns(), 1);
}

#[test]
fn a_server_that_dies_half_way_is_one_error_and_the_rest_is_skipped() {
    let mut story = Story::new();
    let set = large_set("big", MIB);
    story.client("a").sends(&set[..MIB / 2]);
    story.conn(1).dies("connection reset");
    story.client("a").gets(RESET).sends(&set[MIB / 2..]).gets_nothing();
    story.client("a").says(["PING", "GET k"]).gets("+PONG");
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn a_node_that_is_down_is_one_error_and_the_request_is_skipped() {
    let mut story = Story::new().by_hand();
    let set = large_set("big", MIB);
    story.client("a").sends(&set[..MIB / 2]);
    story.connect_fails("connect: Connection refused");
    story
        .client("a")
        .gets("-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused")
        .sends(&[set[MIB / 2..].to_vec(), request("PING")].concat())
        .gets("+PONG");
}

#[test]
fn an_answer_before_the_end_is_given_and_the_rest_still_goes_there() {
    let mut story = Story::new();
    let set = large_set("big", MIB);
    story.client("a").sends(&set[..MIB / 2]);
    let before = story.server().bytes();
    story.server().answers("-OOM command not allowed when used memory > 'maxmemory'.");
    story.client("a").gets("-OOM command not allowed when used memory > 'maxmemory'.");
    story.client("a").sends(&[set[MIB / 2..].to_vec(), request("GET k")].concat());
    assert_eq!(story.conn(1).is_open().bytes() - before, set.len() - MIB / 2);
    story.conn(2).gets("GET k");
}

#[test]
fn a_large_command_that_the_proxy_answers_itself_is_refused_and_skipped() {
    let mut story = Story::new();
    let text = "x".repeat(MIB);
    let echo = request(&format!("ECHO {text}"));
    let error =
        "-ERR respool: this command is answered by the proxy and its arguments are too large";
    story.client("a").sends(&echo[..MIB / 2]).gets(error);
    story.client("a").sends(&echo[MIB / 2..]).says("PING").gets("+PONG");
    story.client("a").sends(&request(&format!("SHUTDOWN {text}")));
    story.client("a").gets("-ERR respool: 'shutdown' is not given on to the server by the proxy: it would stop the server for all");
    story.client("a").sends(&request(&format!("SYNC {text}")));
    assert!(story.client("a").takes_text().contains("needs a connection of its own"));
    story.client("a").says("PING").gets("+PONG");
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn a_large_refusal_behind_other_requests_keeps_its_place() {
    let mut story = Story::new();
    let echo = request(&format!("ECHO {}", "x".repeat(MIB)));
    story.client("a").sends(&[request("GET k"), echo, request("PING")].concat()).gets_nothing();
    story.server().answers("\"k\"");
    let error =
        "-ERR respool: this command is answered by the proxy and its arguments are too large";
    story.client("a").gets(["\"k\"", error, "+PONG"]);
}

#[test]
fn a_protocol_error_inside_a_large_request_closes_client_and_connection() {
    let mut story = Story::new();
    story.client("a").sends(b"*3\r\n$3\r\nSET\r\n$400000\r\n");
    story.client("a").sends(&vec![b'x'; 400_000]).sends(b"\r\n+oops\r\n");
    story.client("a").gets("-ERR Protocol error: expected '$', got '+'").is_closed();
    story.conn(1).is_closed();
}

#[test]
fn a_protocol_error_in_a_skipped_request_comes_behind_what_is_owed() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.client("a").sends(b"*3\r\n$4\r\nECHO\r\n$400000\r\n");
    story.client("a").sends(&vec![b'x'; 400_000]).sends(b"\r\n+oops\r\n").gets_nothing();
    story.server().gets("GET k").answers("\"k\"");
    let error =
        "-ERR respool: this command is answered by the proxy and its arguments are too large";
    let oops = "-ERR Protocol error: expected '$', got '+'";
    story.client("a").gets(["\"k\"", error, oops]).is_closed();
}

#[test]
fn reply_skip_covers_a_large_request() {
    let mut story = Story::new();
    let pipeline = [request("CLIENT REPLY SKIP"), large_set("big", MIB), request("PING")].concat();
    story.client("a").sends(&pipeline).gets_nothing();
    story.server().answers("+OK");
    story.client("a").gets("+PONG");
}

#[test]
fn a_pause_holds_a_large_write() {
    let mut story = Story::new();
    story.client("b").says("CLIENT PAUSE 100 WRITE").gets("+OK");
    story.client("a").sends(&large_set("big", MIB));
    assert_eq!(story.connects_made(), 0);
    story.after_ms(100);
    assert_eq!(story.server().waiting(), 1);
}

#[test]
fn a_large_request_goes_to_the_selected_database_and_protocol() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("SELECT 5").gets("+OK").sends(&large_set("big", MIB));
    let key = story.server().key();
    assert_eq!((key.db, key.resp3, story.server().waiting()), (5, true, 1));
}

#[test]
fn a_slow_server_slows_the_client_down() {
    let mut story = Story::new();
    let set = large_set("big", 32 * MIB);
    story.client("a").sends(&set[..MIB]);
    story.server().stops_taking();
    story.client("a").sends(&set[MIB..]).is_not_read();
    let unread = story.client("a").unread();
    assert!(unread > 26 * MIB, "only {unread} bytes were left in the socket");
    story.server().takes_all();
    story.client("a").is_read();
    assert_eq!(story.server().waiting(), 1);
    story.server().answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_large_request_that_filled_the_mark_while_it_waited_goes_on() {
    let mut story = Story::with_limits(|limits| limits.client_inflight_max = 1);
    // The second GET holds what comes behind it, until more than the mark waits and the client is not read.
    story.client("a").says("GET k");
    story.client("a").sends(&[request("GET l"), large_set("big", 4 * MIB)].concat()).is_not_read();
    story.server().gets("GET k").answers("\"k\"");
    // Now the large request has been looked at, and waits for this reply.
    story.server().gets("GET l").answers("\"l\"");
    story.client("a").gets(["\"k\"", "\"l\""]);
    assert_eq!(story.connects_made(), 2, "it flows");
    assert_eq!(story.conn(2).waiting(), 1);
}

#[test]
fn a_slow_sender_is_given_up_and_its_next_request_works() {
    let mut story = Story::new();
    let set = large_set("big", MIB);
    story.client("a").sends(&set[..MIB / 2]);
    story.after_ms(10_000);
    story.client("a").gets(
        "-ERR respool: upstream 127.0.0.1:6379: gave no reply for 10000 ms, its connection was closed",
    );
    story.client("a").sends(&set[MIB / 2..]).says("PING").gets("+PONG");
}

#[test]
fn an_idle_connection_of_another_database_is_not_used() {
    let mut story = Story::new();
    story.client("a").sends(&large_set("big", MIB));
    story.server().answers("+OK");
    story.client("b").says("SELECT 3").gets("+OK").sends(&large_set("big", MIB));
    assert_eq!((story.server().key().db, story.server().waiting()), (3, 1));
    assert_eq!(story.connects_made(), 3);
}

#[test]
fn the_name_of_a_large_request_may_come_late() {
    let mut story = Story::new();
    // The first argument alone is larger than what is kept, so there is no name to look up.
    story.client("a").sends(b"*2\r\n$400000\r\n").sends(&vec![b'x'; 400_000]);
    let text = story.client("a").takes_text();
    assert!(text.starts_with("-ERR unknown command ''"), "{text}");
    story.client("a").sends(b"\r\n$1\r\nk\r\n").says("PING").gets("+PONG");
}

#[test]
fn a_connection_that_is_tried_again_when_its_client_gives_it_up_is_dropped_with_its_greeting() {
    let mut story = Story::new().by_hand();
    story.client("a").sends(&large_set("big", MIB)[..MIB]);
    // It looks away while its connection fails and is tried again, so it finds one that is being greeted.
    story.client("b").says("CLIENT PAUSE 60000 WRITE").gets("+OK");
    story.after_ms(100).connect_fails("connect: Connection refused");
    story.after_ms(200).connects();
    story.client("b").says("CLIENT UNPAUSE").gets("+OK");
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused");
}

#[test]
fn who_listens_in_resp2_may_say_no_large_request_and_no_command_of_a_module() {
    let mut story = Story::new();
    story.client("w").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    listens(&mut story, "a", "news", 2);
    let large = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$300000\r\n{}\r\n", "x".repeat(300_000));
    let (begin, rest) = large.as_bytes().split_at(100_000);
    story.client("a").sends(begin);
    story.client("a").sends(rest);
    let refused = |name: &str| {
        format!(
            "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"
        )
    };
    story.client("a").gets(&*refused("set"));
    let command = "*6\r\n$5\r\nm.get\r\n:-2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n";
    story.server_says_to("COMMAND INFO m.get", &format!("*1\r\n{command}"));
    story.client("a").says("M.GET k").gets(&*refused("m.get"));
    assert_eq!(story.connects_made(), 2);
}
