//! A client leaves channels: the server is told when the last one leaves, and messages that were
//! published before come first.

use crate::pubsub::{confirms, lingers, listens, message, pong, push};
use crate::words::cluster::moved;
use crate::words::{Story, wire};
use engine::limits::{
    GONE_TOPICS_PER_TURN, LEAVE_SETTLE_MS, LEFT_TOPICS_AT_ONCE, LEFT_TOPICS_PER_TURN,
};

#[test]
fn the_last_who_leaves_ends_it() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("b").says("SUBSCRIBE news").gets(&*confirms("subscribe news 1"));
    story.client("a").says("UNSUBSCRIBE news").gets_nothing();
    story.conn(1).gets("PING").answers(&*pong());
    story.client("a").gets(&*confirms("unsubscribe news 0"));
    story.client("b").dies();
    story.conn(1).gets("unsubscribe news").answers(&*confirms("unsubscribe news 0"));
    // A message that was under way is nobody's.
    story.conn(1).answers(&*message("message news late")).gets_nothing();
    story.client("a").gets_nothing();
}

// Else a PUBLISH that is sent right after the reply would count us.
#[test]
fn the_last_who_leaves_is_answered_when_the_server_knows() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("a").says(["UNSUBSCRIBE news", "PING"]).gets_nothing();
    story.conn(1).gets("unsubscribe news");
    // A message that the server sent before it knew still counted this client. A client that
    // subscribes meanwhile asks again, and gets nothing of that.
    story.conn(1).answers(&*message("message news late"));
    story.client("a").gets(&*message("message news late"));
    story.client("b").says("SUBSCRIBE news");
    story.conn(1).gets("subscribe news");
    story.client("a").gets_nothing();
    story.conn(1).answers(&*confirms("unsubscribe news 0"));
    story.client("a").gets([&*confirms("unsubscribe news 0"), "+PONG"]);
    story.client("b").gets_nothing();
    story.conn(1).answers(&*confirms("subscribe news 1"));
    story.client("b").gets(&*confirms("subscribe news 1"));
}

// A PUBLISH that was answered before UNSUBSCRIBE was sent: its message may still be in the socket.
#[test]
fn what_was_published_before_a_client_leaves_comes_before_the_confirmation() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    for name in ["b", "c"] {
        story.client(name).says("SUBSCRIBE news").gets(&*confirms("subscribe news 1"));
    }
    let [one, two, three] =
        ["one", "two", "three"].map(|text| message(&format!("message news {text}")));
    story.client("b").says(["UNSUBSCRIBE news", "PING"]).gets_nothing();
    story.client("c").says("UNSUBSCRIBE").gets_nothing();
    // One PING of a turn would do for both; here each came in a turn of its own.
    story.conn(1).gets(["PING", "PING"]).answers(&*one);
    for name in ["a", "b", "c"] {
        story.client(name).gets(&*one);
    }
    story.conn(1).answers([&*pong(), &*two]);
    story.client("b").gets([&*confirms("unsubscribe news 0"), "+PONG"]);
    story.client("c").gets(&*two).gets_nothing();
    // The last one leaves while another one still does: its own end is behind everything, too.
    story.client("a").gets(&*two).says("UNSUBSCRIBE").gets_nothing();
    story.conn(1).gets("unsubscribe news").answers([&*pong(), &*three]);
    story.client("c").gets(&*confirms("unsubscribe news 0"));
    story.client("a").gets(&*three).gets_nothing();
    story.conn(1).answers(&*confirms("unsubscribe news 0"));
    story.client("a").gets(&*confirms("unsubscribe news 0"));
    // Nothing is left of it.
    listens(&mut story, "b", "news", 1);
}

#[test]
fn clients_that_leave_in_one_turn_share_a_fence() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    for name in ["b", "c"] {
        story.client(name).says("SUBSCRIBE news other").takes();
    }
    story.conn(1).gets("subscribe other").answers(&*confirms("subscribe other 2"));
    for name in ["b", "c"] {
        story.client(name).takes();
        story.client(name).sends_at_once(b"UNSUBSCRIBE news\r\n");
    }
    story.turn();
    story.conn(1).gets("PING").answers(&*pong());
    for name in ["b", "c"] {
        story.client(name).gets(&*confirms("unsubscribe news 1"));
    }
}

// RESET ends subscriptions without confirming it.
#[test]
fn what_was_published_before_a_reset_comes_before_its_reply() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("b").says("SUBSCRIBE news").gets(&*confirms("subscribe news 1"));
    story.client("b").says("PSUBSCRIBE n*").gets_nothing();
    story.conn(1).gets("psubscribe n*").answers(&*confirms("psubscribe n* 2"));
    story.client("b").gets(&*confirms("psubscribe n* 2"));
    story.client("b").says(["RESET", "GET k"]).gets_nothing();
    let [one, two] = [message("message news one"), message("pmessage n* news one")];
    story.conn(1).gets(["punsubscribe n*", "PING"]);
    story.conn(1).answers([&*one, &*two, &*confirms("punsubscribe n* 1")]);
    story.client("b").gets([&*one, &*two]).gets_nothing();
    story.conn(1).answers(&*pong());
    story.client("b").gets("+RESET");
    story.conn(2).gets("GET k").answers("nil");
    story.client("b").gets("nil");
}

// Found by an attack: the server got the end of the subscription before the PUBLISH, and the reply to PUBLISH was 0.
#[test]
fn a_client_does_not_leave_before_its_own_publish_is_answered() {
    let left = push(&confirms("unsubscribe news 0"));
    let ends = [
        ("UNSUBSCRIBE news", &*left),
        ("UNSUBSCRIBE", &*left),
        ("RESET", "+RESET"),
        ("QUIT", "+OK"),
    ];
    for (end, reply) in ends {
        let mut story = Story::new();
        story.client("a").says("HELLO 3").takes();
        listens(&mut story, "b", "news", 2);
        story.client("a").says("SUBSCRIBE news");
        story.client("a").gets(&*push(&confirms("subscribe news 1")));
        story.client("a").says(["PUBLISH news m", end]);
        story.conn(1).gets("PUBLISH news m");
        story.conn(2).gets_nothing();
        story.conn(2).answers(&*message("message news m"));
        story.client("b").gets(&*message("message news m"));
        story.client("a").gets(&*push(&message("message news m")));
        story.conn(1).answers(":1");
        story.client("a").gets(":2").gets_nothing();
        story.conn(2).gets("PING").answers(&*pong());
        story.client("a").gets(reply);
    }
}

#[test]
fn a_client_leaves_at_once_when_the_connection_is_lost_and_in_time_when_it_is_silent() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 500);
    listens(&mut story, "a", "news", 1);
    story.client("b").says("SUBSCRIBE news").gets(&*confirms("subscribe news 1"));
    story.client("b").says("UNSUBSCRIBE").gets_nothing();
    story.after_ms(10);
    story.conn(1).gets("PING").dies("Connection reset by peer");
    story.turn();
    story.client("b").gets(&*confirms("unsubscribe news 0"));
    story.conn(2).gets("subscribe news").answers(&*confirms("subscribe news 1"));
    story.client("b").says("SUBSCRIBE news").gets(&*confirms("subscribe news 1"));
    story.client("b").says("UNSUBSCRIBE").gets_nothing();
    story.conn(2).gets("PING");
    story.after_ms(600);
    story.client("b").gets(&*confirms("unsubscribe news 0"));
}

// A topic that only clients that leave are told of goes nowhere else.
#[test]
fn a_topic_that_ends_does_not_move() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SUBSCRIBE news140");
    story.node("n2").gets("subscribe news140").answers(&*confirms("subscribe news140 1"));
    story.client("a").takes();
    story.client("a").says("UNSUBSCRIBE").gets_nothing();
    story.node("n2").gets("unsubscribe news140");
    story.cluster_is("0-10922 n1, 10923-16383 n3");
    story.client("b").says("GET b4");
    story.node_conn("n2", 1).gets("GET b4").answers(&*moved("b4", "n1"));
    story.after_ms(600);
    let one = message("message news140 one");
    story.node("n2").answers([&*one, &*confirms("unsubscribe news140 0")]);
    story.client("a").gets([&*one, &*confirms("unsubscribe news140 0")]);
    story.node_conn("n1", 1).gets("GET b4").answers("nil");
    story.client("b").gets("nil").says("SUBSCRIBE news140");
    story.node("n3").gets("subscribe news140").answers(&*confirms("subscribe news140 1"));
    story.client("b").gets(&*confirms("subscribe news140 1"));
}

// What waits of a channel that moves was published before, too.
#[test]
fn a_client_that_leaves_a_channel_that_moves_gets_what_waits() {
    let mut story = lingers();
    story.client("c").says("SUBSCRIBE news140").gets(&*confirms("subscribe news140 1"));
    let one = message("message news140 one");
    story.node("n4").answers(&*one);
    story.client("c").gets_nothing().says("UNSUBSCRIBE").gets_nothing();
    story.after_ms(LEAVE_SETTLE_MS);
    story.node("n4").gets("PING").answers(&*pong());
    story.client("c").gets_nothing();
    story.node("n2").gets("PING").answers(&*pong());
    story.client("c").gets([&*one, &*confirms("unsubscribe news140 0")]);
    story.node("n2").answers(&*one);
    story.client("a").gets(&*one);
}

#[test]
fn of_several_that_end_all_are_awaited() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SUBSCRIBE a4 b4");
    story.node("n2").gets("subscribe a4").answers(&*confirms("subscribe a4 1"));
    story.node("n1").gets("subscribe b4").answers(&*confirms("subscribe b4 1"));
    story.client("a").takes();
    story.client("a").says("UNSUBSCRIBE a4 other b4");
    story.node("n1").gets("unsubscribe b4").answers(&*confirms("unsubscribe b4 0"));
    story.client("a").gets_nothing();
    story.node("n2").gets("unsubscribe a4").answers(&*confirms("unsubscribe a4 0"));
    let words = ["unsubscribe a4 1", "unsubscribe other 1", "unsubscribe b4 0"];
    story.client("a").gets(words.map(confirms).each_ref().map(|word| &**word));
}

#[test]
fn leaving_ends_when_the_server_is_lost_refuses_or_says_nothing() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 500);
    listens(&mut story, "a", "news", 1);
    story.client("a").says("UNSUBSCRIBE");
    story.conn(1).gets("unsubscribe news").answers("-NOPERM not you");
    story.client("a").gets(&*confirms("unsubscribe news 0"));
    listens(&mut story, "a", "news", 1);
    story.after_ms(2_000);
    story.client("a").says(["UNSUBSCRIBE", "PING"]).gets_nothing();
    story.conn(1).gets("unsubscribe news").dies("Connection reset by peer");
    story.turn();
    story.client("a").gets([&*confirms("unsubscribe news 0"), "+PONG"]);
    listens(&mut story, "a", "news", 2);
    story.client("a").says("UNSUBSCRIBE").gets_nothing();
    story.conn(2).gets("unsubscribe news");
    story.after_ms(600);
    story.client("a").gets(&*confirms("unsubscribe news 0"));
}

// The time of the last word counted as that of the question, so the answer was overdue when it was asked.
#[test]
fn a_connection_that_was_quiet_for_long_is_not_lost_when_somebody_leaves() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 500);
    listens(&mut story, "a", "news", 1);
    listens(&mut story, "b", "other", 1);
    listens(&mut story, "c", "third", 1);
    story.after_ms(2_000);
    story.client("a").says("UNSUBSCRIBE");
    story.client("c").dies();
    story.after_ms(100);
    story.conn(1).gets(["unsubscribe news", "unsubscribe third"]);
    story.conn(1).answers([&*confirms("unsubscribe news 1"), &*confirms("unsubscribe third 1")]);
    story.client("a").gets(&*confirms("unsubscribe news 0"));
    story.conn(1).answers(&*message("message other hello"));
    story.client("b").gets(&*message("message other hello"));
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn one_that_goes_while_it_leaves_costs_nothing() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("a").says("UNSUBSCRIBE").gets_nothing();
    story.client("a").dies();
    story.conn(1).gets("unsubscribe news").answers(&*confirms("unsubscribe news 0"));
    listens(&mut story, "b", "news", 1);
}

/// Client "a" listens to so many channels over connection 1. Returns their names in their order.
fn listens_to_many(story: &mut Story, count: usize) -> Vec<String> {
    let all: Vec<String> = (0..count).map(|number| format!("c{number:06}")).collect();
    for names in all.chunks(1_000) {
        story.client("a").says(&format!("SUBSCRIBE {}", names.join(" ")));
        assert_eq!(story.conn(1).takes_requests(), names.len());
        story.conn(1).sends(&confirmed("subscribe", names));
        let text = story.client("a").takes_text();
        assert_eq!(text.matches("$9\r\nsubscribe").count(), names.len(), "{text:.300}");
    }
    all
}

fn confirmed(word: &str, names: &[String]) -> Vec<u8> {
    names.iter().flat_map(|name| wire(&confirms(&format!("{word} {name} 1")))).collect()
}

#[test]
fn a_client_with_very_many_channels_that_goes_leaves_all_of_them_in_the_end() {
    let mut story = Story::new();
    let names = listens_to_many(&mut story, 2 * GONE_TOPICS_PER_TURN + 10);
    listens(&mut story, "b", "other", 1);
    story.client("a").dies();
    story.after_ms(1);
    assert_eq!(story.conn(1).takes_requests(), names.len(), "each is told to the server");
    story.conn(1).answers(&*message("message other hello"));
    story.client("b").gets(&*message("message other hello"));
}

/// Runs turns until client "b", which asks once in each turn, was answered so often.
fn answers_b_in_each_turn(story: &mut Story, turns: usize) -> usize {
    let mut told = 0;
    for _ in 0..turns {
        story.client("b").sends_at_once(b"PING\r\n");
        assert!(story.turn_once(), "parts are left for later turns");
        story.client("b").gets("+PONG");
        let part = story.conn(1).takes_requests();
        assert!(part <= LEFT_TOPICS_AT_ONCE + LEFT_TOPICS_PER_TURN, "{part} in one turn");
        told += part;
    }
    told
}

// Found by a test from outside: clients of other servers waited until a client had left 100,000 channels.
#[test]
fn a_client_leaves_very_many_channels_in_parts_and_others_are_served_in_between() {
    for request in ["UNSUBSCRIBE", "RESET"] {
        let mut story = Story::new();
        let parts = 5;
        let names = listens_to_many(&mut story, parts * LEFT_TOPICS_PER_TURN + 10);
        story.client("b").says("PING").gets("+PONG");
        story.client("a").sends_at_once(format!("{request}\r\n").as_bytes());
        let first = answers_b_in_each_turn(&mut story, 2);
        // The server answers all that it was told, and there is more to tell.
        story.conn(1).is_read_at_once(&confirmed("unsubscribe", &names[..first]));
        let mut told = first + answers_b_in_each_turn(&mut story, parts - 3);
        // A channel that the client has not left yet still delivers its messages.
        let last = names.last().expect("names");
        let late = message(&format!("message {last} late"));
        story.conn(1).is_read_at_once(&wire(&late));
        told += answers_b_in_each_turn(&mut story, 1);
        story.client("a").gets(&*late);
        assert_eq!(told, names.len());
        story.client("a").gets_nothing();
        let (last, others) = names[first..].split_last().expect("names");
        story.conn(1).sends(&confirmed("unsubscribe", others));
        story.client("a").gets_nothing();
        story.conn(1).is_read_at_once(&confirmed("unsubscribe", std::slice::from_ref(last)));
        answers_b_in_each_turn(&mut story, parts - 1);
        story.client("a").gets_nothing();
        story.turn();
        let text = story.client("a").takes_text();
        match request {
            "RESET" => assert_eq!(text, "+RESET\r\n"),
            _ => assert_eq!(text.matches("$11\r\nunsubscribe").count(), names.len()),
        }
        listens(&mut story, "a", last, 1);
    }
}

#[test]
fn a_client_that_goes_between_two_parts_leaves_the_rest() {
    for parts in [0, 2] {
        let mut story = Story::new();
        let names = listens_to_many(&mut story, 3 * LEFT_TOPICS_PER_TURN);
        story.client("b").says("PING").gets("+PONG");
        story.client("a").sends_at_once(b"UNSUBSCRIBE\r\n");
        let told = answers_b_in_each_turn(&mut story, 1 + parts);
        story.client("a").dies();
        assert_eq!(told + story.conn(1).takes_requests(), names.len());
        let (left, rest) = names.split_at(told);
        // respool takes a client that is gone out of its last channel first.
        let rest: Vec<String> = rest.iter().rev().cloned().collect();
        story.conn(1).sends(&confirmed("unsubscribe", left));
        story.conn(1).sends(&confirmed("unsubscribe", &rest));
        listens(&mut story, "b", "c000000", 1);
        assert_eq!(story.engine.stats().messages, 0);
    }
}

// The confirmations of names to which the client does not listen are memory, too.
#[test]
fn replies_that_wait_for_servers_are_counted() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    let before = story.engine.held_bytes();
    story.client("a").says(&format!("UNSUBSCRIBE news {}", "x ".repeat(10_000).trim_end()));
    assert!(story.engine.held_bytes() > before + 300_000);
    story.conn(1).gets("unsubscribe news").answers(&*confirms("unsubscribe news 0"));
    story.client("a").takes();
    assert!(story.engine.held_bytes() <= before);
}

#[test]
fn one_client_listens_to_so_many_channels_and_no_more() {
    let mut story = Story::new();
    let names = "c ".repeat(engine::limits::CLIENT_TOPICS_MAX + 1);
    let line = format!("SUBSCRIBE {}", names.trim_end());
    for part in crate::words::request(&line).chunks(100_000) {
        story.client("a").sends(part);
    }
    let error = "-ERR respool: a client may listen to 131072 channels and patterns at most";
    story.client("a").gets(error).says("PING").gets("+PONG");
}
