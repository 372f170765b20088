//! Subscriptions: many clients listen, the server sees one listener.

use crate::homes::listens_at_n2;
use crate::words::Story;
use crate::words::cluster::{list, lost, moved};
use engine::limits::UNANSWERED_TOPICS_BYTES_MAX;

/// What confirms: `subscribe news 1`.
pub(crate) fn confirms(words: &str) -> String {
    let mut words = words.split(' ');
    let (verb, name, count) = (words.next(), words.next(), words.next());
    let text = |word: Option<&str>| match word {
        Some("nil") => String::from("nil"),
        word => format!("\"{}\"", word.unwrap()),
    };
    list([&*text(verb), &*text(name), &*format!(":{}", count.unwrap())])
}

/// `message news hello`.
pub(crate) fn message(words: &str) -> String {
    let words: Vec<String> = words.split(' ').map(|word| format!("\"{word}\"")).collect();
    list(words.iter().map(|word| &**word).collect::<Vec<&str>>())
}

/// The answer to PING where one listens.
pub(crate) fn pong() -> String {
    list([r#""pong""#, r#""""#])
}

pub(crate) fn push(frame: &str) -> String {
    frame.replacen('*', ">", 1)
}

/// A client listens to a channel over connection `conn`.
pub(crate) fn listens(story: &mut Story, client: &str, channel: &str, conn: usize) {
    story.client(client).says(&*format!("SUBSCRIBE {channel}"));
    story
        .conn(conn)
        .gets(&*format!("subscribe {channel}"))
        .answers(&*confirms(&format!("subscribe {channel} 1")));
    story.client(client).gets(&*confirms(&format!("subscribe {channel} 1")));
}

#[test]
fn who_wants_no_replies_gets_no_errors_while_listening() {
    let mut story = Story::new();
    story.client("a").says(["CLIENT REPLY OFF", "SUBSCRIBE c"]);
    story.conn(1).gets("subscribe c").sends(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    assert!(story.client("a").takes_text().starts_with("*3\r\n$9\r\nsubscribe\r\n"));
    story.client("a").says(["GET k", "GET", "NOPE"]).gets_nothing();
}

// A server closes the connection that all clients share if more than 32 MiB of confirmations wait for respool (`client-output-buffer-limit pubsub`).
#[test]
fn a_server_owes_no_more_confirmations_than_a_few_megabytes() {
    let mut story = Story::new();
    let names: Vec<String> = (0..40).map(|n| format!("{n:02}{}", "x".repeat(500_000))).collect();
    let [one, other] = [0..20, 20..40].map(|part| format!("SUBSCRIBE {}", names[part].join(" ")));
    story.client("a").says(&*one);
    story.client("b").says(&*other);
    let (mut asked, mut confirmed) = (0, 0);
    while confirmed < names.len() {
        asked += story.conn(1).takes_requests();
        let owed: usize = names[confirmed..asked].iter().map(String::len).sum();
        assert!(owed > 0 && owed < UNANSWERED_TOPICS_BYTES_MAX + 600_000, "{owed} of {asked}");
        story.conn(1).answers(&*confirms(&format!("subscribe {} 1", names[confirmed])));
        confirmed += 1;
    }
    for client in ["a", "b"] {
        assert_eq!(story.client(client).takes_text().matches("\r\nsubscribe\r\n").count(), 20);
    }
    // A client that leaves all of them is bounded likewise.
    story.client("a").says("UNSUBSCRIBE");
    let said = story.conn(1).takes_requests();
    assert!((1..=9).contains(&said), "{said}");
}

// Found by a test from outside: clients with names of 1 MB at a node that hangs kept all others from SUBSCRIBE and UNSUBSCRIBE at the other nodes.
#[test]
fn a_node_that_does_not_confirm_keeps_no_client_from_topics_of_other_nodes() {
    let mut story = Story::warm_cluster();
    for client in ["b", "c"] {
        story.client(client).says("SUBSCRIBE b4");
    }
    story.node("n1").gets("subscribe b4").answers(&*confirms("subscribe b4 1"));
    for client in ["b", "c"] {
        story.client(client).gets(&*confirms("subscribe b4 1"));
    }
    let feed = story.connects_to("n1");
    for hog in 0..40 {
        let name = format!("{{b4}}{hog}{}", "x".repeat(500_000));
        story.client(&format!("hog{hog}")).says(&*format!("SSUBSCRIBE {name}"));
    }
    story.client("late").says("SSUBSCRIBE {b4}late");
    assert!((8..40).contains(&story.node("n2").takes_requests()));
    story.client("d").says("SUBSCRIBE b4").gets(&*confirms("subscribe b4 1"));
    story.client("c").says("UNSUBSCRIBE").gets_nothing();
    story.node_conn("n1", feed).gets("PING").answers(&*pong());
    story.client("c").gets(&*confirms("unsubscribe b4 0"));
    story.client("late").gets_nothing();
}

#[test]
fn the_first_who_listens_asks_the_server_and_the_others_join() {
    let mut story = Story::new();
    story.client("a").says("SUBSCRIBE news");
    story.conn(1).gets("subscribe news");
    story.client("a").gets_nothing();
    story.conn(1).answers(&*confirms("subscribe news 1"));
    story.client("a").gets(&*confirms("subscribe news 1"));
    for name in ["b", "c"] {
        story.client(name).says("SUBSCRIBE news").gets(&*confirms("subscribe news 1"));
    }
    story.conn(1).gets_nothing().answers(&*message("message news hello"));
    for name in ["a", "b", "c"] {
        story.client(name).gets(&*message("message news hello"));
    }
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn counts_are_those_of_the_client() {
    let mut story = Story::new();
    story.client("a").says("SUBSCRIBE x y x");
    story.conn(1).gets(["subscribe x", "subscribe y"]);
    story.conn(1).answers([&*confirms("subscribe x 1"), &*confirms("subscribe y 2")]);
    story.client("a").gets(
        ["subscribe x 1", "subscribe y 2", "subscribe x 2"].map(confirms).each_ref().map(|w| &**w),
    );
    story.client("a").says("PSUBSCRIBE p*");
    story.conn(1).gets("psubscribe p*").answers(&*confirms("psubscribe p* 3"));
    story.client("a").gets(&*confirms("psubscribe p* 3"));
    story.client("a").says("SSUBSCRIBE s");
    story.conn(1).gets("ssubscribe s").answers(&*confirms("ssubscribe s 1"));
    story.client("a").gets(&*confirms("ssubscribe s 1"));
    story.client("a").says("UNSUBSCRIBE");
    story.conn(1).gets(["unsubscribe x", "unsubscribe y"]);
    story.conn(1).answers([&*confirms("unsubscribe x 2"), &*confirms("unsubscribe y 1")]);
    story.client("a").gets([&*confirms("unsubscribe x 2"), &*confirms("unsubscribe y 1")]);
    story.client("a").says("UNSUBSCRIBE").gets(&*confirms("unsubscribe nil 1"));
    story.client("a").says("UNSUBSCRIBE other").gets(&*confirms("unsubscribe other 1"));
    story.client("a").says(["PUNSUBSCRIBE", "SUNSUBSCRIBE", "SUNSUBSCRIBE"]);
    story.conn(1).gets("punsubscribe p*").answers(&*confirms("punsubscribe p* 0"));
    story.conn(1).gets("sunsubscribe s").answers(&*confirms("sunsubscribe s 0"));
    story.client("a").gets([
        &*confirms("punsubscribe p* 0"),
        &*confirms("sunsubscribe s 0"),
        &*confirms("sunsubscribe nil 0"),
    ]);
}

#[test]
fn a_resp3_client_gets_pushes_and_goes_on_with_its_requests() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("SUBSCRIBE news");
    story.conn(2).gets("subscribe news").answers(&*confirms("subscribe news 1"));
    story.client("a").gets(&*push(&confirms("subscribe news 1")));
    story.client("a").says("GET k");
    story.conn(1).gets("GET k");
    story.conn(2).answers(&*message("message news hello"));
    story.client("a").gets(&*push(&message("message news hello")));
    story.conn(1).answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn a_message_waits_for_the_reply_to_the_exec_that_may_have_published_it() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("SUBSCRIBE news");
    story.conn(2).gets("subscribe news").answers(&*confirms("subscribe news 1"));
    story.client("a").gets(&*push(&confirms("subscribe news 1")));
    let lines = ["MULTI", "PUBLISH news hello", "EXEC"];
    for (answer, end) in [("*1\r\n:1", "*1\r\n:1\r\n"), ("_", "_\r\n")] {
        story.client("a").says(lines).says("GET k");
        story.conn(3).gets(lines);
        story.conn(2).answers([&*message("message news hello"), &*message("message news more")]);
        story.client("a").gets_nothing();
        story.conn(3).answers(["+OK", "+QUEUED"]);
        story.client("a").gets("+OK\r\n+QUEUED\r\n");
        story.conn(3).answers(answer);
        let pushes = ["message news hello", "message news more"].map(|words| push(&message(words)));
        story.client("a").gets(&*format!("{end}{}{}", pushes[0], pushes[1]));
        story.conn(1).gets("GET k").answers("\"v\"");
        story.client("a").gets("\"v\"");
    }
    // A transaction that has not ended holds up nothing.
    story.client("a").says([lines[0], lines[1]]);
    story.conn(3).gets([lines[0], lines[1]]);
    story.conn(2).answers(&*message("message news hello"));
    story.client("a").gets(&*push(&message("message news hello")));
}

#[test]
fn a_message_never_stands_inside_a_reply() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("SUBSCRIBE news");
    story.conn(2).gets("subscribe news").answers(&*confirms("subscribe news 1"));
    story.client("a").takes();
    story.client("a").says("GET big");
    let half = "x".repeat(100_000);
    story.conn(1).gets("GET big").sends(format!("$200000\r\n{half}").as_bytes());
    story.conn(2).answers(&*message("message news hello"));
    assert_eq!(story.client("a").takes().len(), 100_009);
    story.conn(1).sends(format!("{half}\r\n").as_bytes());
    let rest = story.client("a").takes_text();
    assert_eq!(rest, format!("{half}\r\n{}", push(&message("message news hello"))));
}

#[test]
fn while_it_listens_a_resp2_client_can_say_little() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("a").says(["GET k", "NOSUCH", "GET", "PING", "PING x", "EXEC"]);
    let may_not =
        "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
    story.conn(2).gets("NOSUCH").answers("-ERR unknown");
    story.client("a").gets([
        &*format!("-ERR Can't execute 'get': {may_not}"),
        "-ERR unknown",
        "-ERR wrong number of arguments for 'get' command",
        &*list(["\"pong\"", "\"\""]),
        &*list(["\"pong\"", "\"x\""]),
        &*format!("-EXECABORT Transaction discarded because of: Can't execute 'exec': {may_not}"),
    ]);
    story.client("a").says("RESET").gets_nothing();
    story.conn(1).gets("unsubscribe news").answers(&*confirms("unsubscribe news 0"));
    story.client("a").gets("+RESET");
    story
        .client("a")
        .says(["PING", "UNSUBSCRIBE"])
        .gets(["+PONG", &*confirms("unsubscribe nil 0")]);
}

#[test]
fn what_came_before_is_answered_first_and_what_comes_behind_waits() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "SUBSCRIBE news", "PING"]);
    story.conn(1).gets("GET k").gets_nothing();
    assert_eq!(story.connects_made(), 1);
    story.conn(1).answers("\"v\"");
    story.conn(2).gets("subscribe news");
    story.client("a").gets("\"v\"");
    story.conn(2).answers(&*confirms("subscribe news 1"));
    story.client("a").gets([&*confirms("subscribe news 1"), &*list(["\"pong\"", "\"\""])]);
}

#[test]
fn a_pattern_and_its_channel_are_two_messages() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("a").says("PSUBSCRIBE n*");
    story.conn(1).gets("psubscribe n*").answers(&*confirms("psubscribe n* 2"));
    story.client("a").gets(&*confirms("psubscribe n* 2"));
    let both = [message("message news x"), message("pmessage n* news x")];
    story.conn(1).answers(both.each_ref().map(|w| &**w));
    story.client("a").gets(both.each_ref().map(|w| &**w));
}

#[test]
fn a_lost_connection_is_made_again_and_nobody_sees_it() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("b").says("SUBSCRIBE news").takes();
    story.after_ms(2_000);
    story.conn(1).dies("Connection reset by peer");
    story.turn();
    story.conn(2).gets("subscribe news").answers(&*confirms("subscribe news 1"));
    story.conn(2).answers(&*message("message news again"));
    for name in ["a", "b"] {
        story.client(name).gets(&*message("message news again"));
    }
}

#[test]
fn a_server_that_is_down_is_told_and_one_that_comes_back_is_asked_again() {
    let mut story = Story::new().by_hand();
    story.client("a").says("SUBSCRIBE news");
    story.connect_fails("connect: Connection refused");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("-ERR respool: upstream"), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
    story.client("a").says("PING").gets("+PONG");
}

#[test]
fn a_refusal_is_the_servers_own() {
    let mut story = Story::new();
    story.client("a").says("SUBSCRIBE closed open");
    story.conn(1).gets(["subscribe closed", "subscribe open"]);
    story
        .conn(1)
        .answers(["-NOPERM No permissions to access a channel", &*confirms("subscribe open 1")]);
    story.client("a").gets("-NOPERM No permissions to access a channel");
    story.conn(1).gets("unsubscribe open");
    story.client("a").says("PING").gets("+PONG");
}

#[test]
fn no_confirmation_is_an_error_in_time() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 500);
    story.client("a").says("SUBSCRIBE news");
    story.conn(1).gets("subscribe news");
    story.after_ms(2_000);
    let text = story.client("a").takes_text();
    assert!(text.starts_with("-ERR respool:"), "{text}");
}

#[test]
fn whoever_takes_messages_too_slowly_is_closed_and_the_others_go_on() {
    let mut story = Story::with_limits(|limits| limits.client_out_max_bytes = 100_000);
    listens(&mut story, "slow", "news", 1);
    story.client("fast").says("SUBSCRIBE news").takes();
    story.client("slow").stops_taking();
    let text = "x".repeat(10_000);
    for _ in 0..20 {
        story.conn(1).answers(&*message(&format!("message news {text}")));
        assert!(story.client("fast").takes().len() > 10_000);
    }
    story.client("slow").is_closed();
    story.client("fast").is_open();
}

#[test]
fn a_message_larger_than_any_output_is_dropped_with_those_it_was_for() {
    let mut story = Story::with_limits(|limits| limits.client_out_max_bytes = 100_000);
    listens(&mut story, "a", "big", 1);
    listens(&mut story, "b", "small", 1);
    let text = "x".repeat(300_000);
    story.conn(1).answers(&*message(&format!("message big {text}")));
    story.conn(1).answers(&*message("message small hello"));
    story.client("a").is_closed();
    story.client("b").gets(&*message("message small hello"));
}

#[test]
fn publish_tells_how_many_clients_listen() {
    let mut story = Story::new();
    listens(&mut story, "a", "news", 1);
    story.client("b").says(["SUBSCRIBE news", "PING"]).takes();
    story.client("b").says("PSUBSCRIBE n?ws");
    story.conn(1).gets("psubscribe n?ws").answers(&*confirms("psubscribe n?ws 2"));
    story.client("c").says("PSUBSCRIBE n?ws").takes();
    story.client("d").says([
        "PUBLISH news hello",
        "GET k",
        "PUBSUB NUMSUB news other",
        "PUBLISH quiet x",
    ]);
    story.conn(2).gets([
        "PUBLISH news hello",
        "GET k",
        "PUBSUB NUMSUB news other",
        "PUBLISH quiet x",
    ]);
    story.conn(2).answers([":2", "nil", &*list(["\"news\"", ":1", "\"other\"", ":0"]), ":0"]);
    story.client("d").gets([":4", "nil", &*list(["\"news\"", ":2", "\"other\"", ":0"]), ":0"]);
}

#[test]
fn a_quiet_connection_is_asked_whether_it_lives_and_closed_when_nobody_listens() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.ping_ms = 1_000);
    listens(&mut story, "a", "news", 1);
    story.after_ms(1_000);
    story.conn(1).gets("PING").answers(&*list(["\"pong\"", "\"\""]));
    story.client("a").says("UNSUBSCRIBE");
    story.conn(1).gets("unsubscribe news").answers(&*confirms("unsubscribe news 0"));
    story.client("a").takes();
    story.after_ms(1_000);
    story.conn(1).is_closed();
}

// To match patterns with a channel is what a server does, too; here it must not hold up everybody else.
#[test]
fn patterns_that_take_too_long_are_not_counted() {
    let mut story = Story::new();
    let long = "a".repeat(10_000);
    let patterns = (0..4).map(|number| format!("*{long}{number}*")).chain([String::from("a*")]);
    for (number, pattern) in patterns.enumerate() {
        for name in ["x", "y"] {
            story.client(&format!("{name}{number}")).says(&*format!("PSUBSCRIBE {pattern}"));
            if name == "x" {
                story.conn(1).takes_one().expect("psubscribe");
                let confirmed = confirms(&format!("psubscribe {pattern} {}", number + 1));
                story.conn(1).answers(&*confirmed);
            }
        }
    }
    story.client("a").says("PUBLISH abc m");
    story.conn(2).gets("PUBLISH abc m").answers(":1");
    story.client("a").gets(":2").says(&*format!("PUBLISH {long}{long} m"));
    assert!(story.conn(2).takes_one().expect("publish").starts_with("PUBLISH aaa"));
    story.conn(2).answers(":1");
    story.client("a").gets(":1");
}

#[test]
fn each_channel_of_a_cluster_has_a_home_and_publish_goes_there() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SUBSCRIBE a4 b4");
    story.node("n2").gets("subscribe a4").answers(&*confirms("subscribe a4 1"));
    story.client("a").gets_nothing();
    story.node("n1").gets("subscribe b4").answers(&*confirms("subscribe b4 1"));
    story.client("a").gets([&*confirms("subscribe a4 1"), &*confirms("subscribe b4 2")]);
    story.client("b").says("PUBLISH b4 x");
    story.node_conn("n1", 1).gets("PUBLISH b4 x").answers(":1");
    story.client("b").gets(":1");
}

#[test]
fn events_of_keys_come_from_every_primary_and_other_messages_once() {
    let mut story = Story::warm_cluster();
    story.client("a").says("PSUBSCRIBE *");
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("psubscribe *").answers(&*confirms("psubscribe * 1"));
    }
    story.client("a").gets(&*confirms("psubscribe * 1"));
    for node in ["n1", "n2", "n3"] {
        story.node(node).answers(&*message("pmessage * news x"));
    }
    story.client("a").gets(&*message("pmessage * news x")).gets_nothing();
    for node in ["n1", "n2", "n3"] {
        let event = message(&format!("pmessage * __keyevent@0__:set {node}"));
        story.node(node).answers(&*event);
        story.client("a").gets(&*event);
    }
}

#[test]
fn a_shard_channel_follows_its_slot() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SSUBSCRIBE b4");
    story.node("n2").gets("ssubscribe b4").answers(&*confirms("ssubscribe b4 1"));
    story.client("a").gets(&*confirms("ssubscribe b4 1"));
    // The slot goes to n1, and n2 says so.
    story.cluster_is("0-10922 n1, 10923-16383 n3");
    story.node("n2").answers(&*confirms("sunsubscribe b4 0"));
    story.node("n2").gets("ssubscribe b4").answers(&*moved("b4", "n1"));
    story.after_ms(30);
    story.node("n1").gets("ssubscribe b4").answers(&*confirms("ssubscribe b4 1"));
    story.node("n1").answers(&*message("smessage b4 hello"));
    story.client("a").gets(&*message("smessage b4 hello")).gets_nothing();
}

// Simulator, seed 1000459: a primary that hands over serves its shard's channels on as a copy, and both tell the same.
#[test]
fn what_a_former_primary_tells_of_a_shard_channel_is_not_told_again() {
    let mut story = Story::warm_cluster_beside("n9");
    story.client("a").says("SSUBSCRIBE b4");
    story.node("n2").gets("ssubscribe b4").answers(&*confirms("ssubscribe b4 1"));
    story.client("a").gets(&*confirms("ssubscribe b4 1"));
    story.cluster_is("0-5460 n1, 5461-10922 n9 n2, 10923-16383 n3");
    story.client("b").says("GET b4");
    story.node_conn("n2", 1).gets("GET b4").moved("b4", "n9");
    story.node("n9").gets("GET b4").answers("nil");
    story.after_ms(700);
    story.node("n9").gets("ssubscribe b4").answers(&*confirms("ssubscribe b4 1"));
    let [one, two, three] = ["1", "2", "3"].map(|text| message(&format!("smessage b4 {text}")));
    story.node("n9").answers([&*one, &*two]);
    story.client("a").gets_nothing();
    let gone = confirms("sunsubscribe b4 0");
    story.node("n2").gets(["sunsubscribe b4", "PING"]).answers([&*one, &*gone, &*pong()]);
    story.client("a").gets([&*one, &*two]);
    story.node("n9").gets("ssubscribe b4").answers([&*three, &*confirms("ssubscribe b4 1")]);
    story.client("a").gets(&*three).gets_nothing();
}

// A server whose slot goes away says that we have left, and answers our SUNSUBSCRIBE besides.
#[test]
fn a_channel_that_is_left_while_its_slot_moves_is_left_once() {
    let mut story = Story::warm_cluster();
    for (n, channel) in [(1, "b4"), (2, "{b4}")] {
        story.client("a").says(&*format!("SSUBSCRIBE {channel}"));
        story.node("n2").gets(&*format!("ssubscribe {channel}"));
        story.node("n2").answers(&*confirms(&format!("ssubscribe {channel} {n}")));
    }
    story.client("a").takes();
    story.client("a").says(["SUNSUBSCRIBE b4", "SSUBSCRIBE {b4}1"]);
    story.node("n2").gets(["sunsubscribe b4", "PING"]);
    story.node("n2").answers(&*confirms("sunsubscribe b4 1"));
    story.client("a").gets(&*confirms("sunsubscribe b4 1"));
    story.node("n2").gets("ssubscribe {b4}1");
    story.cluster_is("0-10922 n1, 10923-16383 n3");
    story.node("n2").answers([&*confirms("sunsubscribe {b4} 0"), &*moved("b4", "n1")]);
    // Behind the answer to our PING, what is refused is what we asked afterwards.
    story.node("n2").answers([&*pong(), &*moved("b4", "n1")]);
    story.after_ms(30);
    story.node("n1").gets(["ssubscribe {b4}", "ssubscribe {b4}1"]);
    story.node("n1").answers([&*confirms("ssubscribe {b4} 1"), &*confirms("ssubscribe {b4}1 2")]);
    story.client("a").gets(&*confirms("ssubscribe {b4}1 2"));
}

#[test]
fn a_home_that_moves_is_kept_until_the_new_one_has_confirmed() {
    let mut story = listens_at_n2("news140");
    story.cluster_is("0-10922 n1, 10923-16383 n3");
    story.redirects("b4", "n2", "n1");
    story.after_ms(600).after_ms(30);
    story.node("n3").gets("subscribe news140");
    story.node("n2").answers(&*message("message news140 one"));
    story.client("a").gets(&*message("message news140 one"));
    story.node("n3").answers(&*confirms("subscribe news140 1"));
    story.node("n2").gets_nothing();
    story.after_ms(engine::limits::HANDOVER_LINGER_MS);
    story.node("n2").gets("unsubscribe news140");
    // One may be behind the other: each message goes out once, and in order.
    story
        .node("n3")
        .answers([&*message("message news140 three"), &*message("message news140 four")]);
    story.client("a").gets_nothing();
    story.node("n2").answers(&*message("message news140 two"));
    story.node("n2").answers(&*message("message news140 three"));
    story.client("a").gets([&*message("message news140 two"), &*message("message news140 three")]);
    story.node("n2").answers(&*confirms("unsubscribe news140 0"));
    story.client("a").gets(&*message("message news140 four"));
    story.node("n3").gets("subscribe news140").answers(&*confirms("subscribe news140 1"));
    story.node("n3").answers(&*message("message news140 three"));
    story.client("a").gets(&*message("message news140 three"));
}

/// A channel that moves from n2 to n4, a copy that comes and has just confirmed it.
pub(crate) fn lingers() -> Story {
    let mut story = listens_at_n2("news140");
    story.cluster_is("0-10900 n1, 10901-10922 n2, 10923-16383 n3 n4");
    story.redirects("b4", "n2", "n1");
    story.after_ms(600).after_ms(30);
    story.node("n4").gets("subscribe news140").answers(&*confirms("subscribe news140 1"));
    story
}

/// The same when n2 is told that it ends.
fn handed_over() -> Story {
    let mut story = lingers();
    story.after_ms(engine::limits::HANDOVER_LINGER_MS);
    story.node("n2").gets("unsubscribe news140");
    story
}

// Nodes pass messages on in their own time: what another worker published at the old home before it heard of the move may come to the new one
// behind what was published there.
#[test]
fn what_is_published_at_both_homes_comes_in_order_and_once() {
    let mut story = lingers();
    let [five, six, seven] =
        ["five", "six", "seven"].map(|text| message(&format!("message news140 {text}")));
    story.node("n2").answers(&*five);
    story.client("a").gets(&*five);
    story.node("n4").answers(&*six);
    story.client("a").gets_nothing();
    story.node("n2").answers(&*six);
    story.client("a").gets(&*six);
    story.node("n4").answers([&*five, &*seven]);
    story.after_ms(engine::limits::HANDOVER_LINGER_MS);
    story
        .node("n2")
        .gets("unsubscribe news140")
        .answers([&*seven, &*confirms("unsubscribe news140 0")]);
    story.client("a").gets(&*seven);
    story.node("n4").gets("subscribe news140").answers(&*confirms("subscribe news140 1"));
    story.client("a").gets_nothing();
}

// Found by row 10 of the fault matrix: the new home was asked before the old one's last message had reached it over the cluster's bus.
#[test]
fn what_was_heard_before_the_move_is_not_told_again_by_the_new_home_that_is_behind() {
    for is_shard in [false, true] {
        let mut story = Story::warm_cluster();
        let (verb, word, channel, next) = match is_shard {
            true => ("ssubscribe", "smessage", "b4", "n1"),
            false => ("subscribe", "message", "news140", "n3"),
        };
        story.client("a").says(&*format!("{verb} {channel}"));
        let confirmed = confirms(&format!("{verb} {channel} 1"));
        story.node("n2").gets(&*format!("{verb} {channel}")).answers(&*confirmed);
        story.client("a").gets(&*confirmed);
        let [one, two] = ["one", "two"].map(|text| message(&format!("{word} {channel} {text}")));
        story.after_ms(600).cluster_is("0-10922 n1, 10923-16383 n3");
        story.node("n2").answers([&*one, &*one]);
        story.client("a").gets([&*one, &*one]);
        story.client("b").says("GET b4");
        story.node_conn("n2", 1).gets("GET b4").answers(&*moved("b4", "n1"));
        story.after_ms(20).node(next).gets(&*format!("{verb} {channel}"));
        story.node(next).answers([&*confirmed, &*one, &*two, &*one]);
        story.node("n2").answers(&*two);
        story.after_ms(engine::limits::HANDOVER_LINGER_MS);
        let ends = format!("un{verb} {channel}").replace("unssub", "sunsub");
        story.node("n2").gets(&*ends).answers(&*confirms(&format!("{ends} 0")));
        story.client("a").gets(&*two).gets_nothing();
        // And later the same may be said again.
        story.node(next).gets(&*format!("{verb} {channel}")).answers([&*confirmed, &*one]);
        story.client("a").gets(&*one);
    }
}

#[test]
fn a_worker_that_listens_at_both_homes_is_counted_once() {
    let mut story = lingers();
    story.client("b").says("PUBSUB NUMSUB news140");
    for (node, conn, count) in [("n1", 1, 0), ("n2", 1, 1), ("n3", 1, 0), ("n4", 2, 1)] {
        let reply = format!("*2\r\n$7\r\nnews140\r\n:{count}\r\n");
        story.node_conn(node, conn).gets("PUBSUB NUMSUB news140").answers(&*reply);
    }
    story.client("b").gets("*2\r\n$7\r\nnews140\r\n:1\r\n");
}

#[test]
fn what_the_old_home_told_is_not_told_again_by_the_new_one_that_is_behind() {
    let mut story = handed_over();
    story.node("n2").answers([&*message("message news140 x"), &*message("message news140 x")]);
    story.client("a").gets([&*message("message news140 x"), &*message("message news140 x")]);
    story.node("n2").answers(&*confirms("unsubscribe news140 0"));
    story.node("n4").answers(&*message("message news140 x"));
    story.node("n4").answers(&*message("message news140 x"));
    story.client("a").gets_nothing();
    story.node("n4").gets("subscribe news140");
    story.node("n4").answers(&*message("message news140 y"));
    story.client("a").gets(&*message("message news140 y"));
}

#[test]
fn an_old_home_that_is_lost_holds_nothing_up() {
    let mut story = handed_over();
    story.node("n4").answers([&*message("message news140 one"), &*message("message news140 two")]);
    story.node("n2").answers(&*message("message news140 one"));
    story.client("a").gets(&*message("message news140 one"));
    story.crashes("n2");
    story.client("a").gets(&*message("message news140 two"));
    story.node("n4").answers(&*message("message news140 two"));
    story.client("a").gets(&*message("message news140 two"));
}

// Found by the simulation: both of the old homes were heard.
#[test]
fn a_home_that_moves_on_in_the_middle_waits_until_it_has_moved() {
    let mut story = handed_over();
    story.cluster_is("0-5460 n1, 5461-7000 n2, 7001-16383 n3 n4 n5");
    story.client("b").says("GET b4");
    story.node_conn("n1", 1).gets("GET b4").answers(&*moved("b4", "n3"));
    story.node_conn("n3", 1).gets("GET b4").answers("nil");
    story.after_ms(600);
    for node in ["n4", "n2"] {
        story.node(node).answers(&*message("message news140 one"));
    }
    story.client("a").gets(&*message("message news140 one"));
    story.node("n2").answers(&*confirms("unsubscribe news140 0"));
    story.node("n4").gets("subscribe news140").answers(&*confirms("subscribe news140 1"));
    story.client("a").gets_nothing();
    story.after_ms(engine::limits::RECENT_MS).after_ms(30);
    story.node("n5").gets("subscribe news140").answers(&*confirms("subscribe news140 1"));
    story.after_ms(engine::limits::HANDOVER_LINGER_MS);
    story.node("n4").gets("unsubscribe news140").answers(&*confirms("unsubscribe news140 0"));
    story.node("n5").answers(&*message("message news140 two"));
    story.client("a").gets(&*message("message news140 two"));
}

#[test]
fn what_waits_of_a_channel_that_moves_is_bounded() {
    let mut story = handed_over();
    let long = "x".repeat(100_000);
    for _ in 0..engine::limits::HANDOVER_BYTES_MAX / 100_000 {
        story.node("n4").answers(&*message(&format!("message news140 {long}")));
        story.client("a").gets_nothing();
    }
    story.node("n4").answers(&*message(&format!("message news140 {long}")));
    assert!(story.client("a").takes().len() > engine::limits::HANDOVER_BYTES_MAX);
    story.node("n4").answers(&*message("message news140 x"));
    story.client("a").gets(&*message("message news140 x"));
}

/// A cluster with a replica that is the home of patterns; client `a` has sent `PSUBSCRIBE *`. Returns the name of the replica, too.
pub(crate) fn asks_for_all_at_a_copy() -> (Story, String) {
    let copies = (0..99).map(|number| format!("copy{number}"));
    let mut with_home_there = copies.filter_map(|copy| {
        let mut story = Story::warm_cluster_beside(&copy);
        story.client("a").says("PSUBSCRIBE *");
        (story.connects_to(&copy) == 1).then_some((story, copy))
    });
    with_home_there.next().expect("a copy that is the home of patterns")
}

// A copy tells of the keys of its primary again.
#[test]
fn a_copy_at_which_a_pattern_is_heard_tells_of_no_keys() {
    let (mut story, copy) = asks_for_all_at_a_copy();
    for node in ["n1", "n2", "n3", &copy] {
        story.node(node).gets("psubscribe *").answers(&*confirms("psubscribe * 1"));
    }
    story.client("a").gets(&*confirms("psubscribe * 1"));
    let event = message("pmessage * __keyevent@0__:set c1");
    story.node(&copy).answers(&*event);
    story.client("a").gets_nothing();
    story.node("n3").answers(&*event);
    story.client("a").gets(&*event);
    for node in ["n1", "n2", "n3", &copy] {
        story.node(node).answers(&*message("pmessage * news x"));
    }
    story.client("a").gets(&*message("pmessage * news x")).gets_nothing();
}

#[test]
fn a_node_that_is_down_is_named_to_whoever_asks() {
    let mut story = Story::warm_cluster();
    story.crashes("n2");
    story.after_ms(50);
    story.client("a").says("SSUBSCRIBE b4");
    let text = story.client("a").takes_text();
    assert_eq!(text, format!("{}\r\n", lost("n2", "connect: Connection refused")));
}

#[test]
fn the_other_workers_hear_how_many_listen() {
    let mut one = Story::with(engine::Settings { workers: 2, worker: 0, ..Default::default() });
    let mut two = Story::with(engine::Settings { workers: 2, worker: 1, ..Default::default() });
    listens(&mut one, "a", "news", 1);
    assert!(one.tells().is_empty(), "the server sees that one");
    for name in ["b", "c"] {
        one.client(name).says("SUBSCRIBE news").takes();
    }
    let told = one.tells();
    assert!(!told.is_empty());
    told.into_iter().for_each(|(_, news)| {
        two.hears(news);
    });
    two.client("x").says("PUBLISH news hello");
    two.conn(1).gets("PUBLISH news hello").answers(":1");
    two.client("x").gets(":3");
    for name in ["a", "b", "c"] {
        one.client(name).dies();
    }
    one.tells().into_iter().for_each(|(_, news)| {
        two.hears(news);
    });
    two.client("x").says("PUBLISH news hello");
    two.conn(1).gets("PUBLISH news hello").answers(":0");
    two.client("x").gets(":0");
}

// A server closes a connection for an argument that is longer than its `proto-max-bulk-len`, which is 1 MiB or more, and all listen over one connection.
#[test]
fn a_name_that_some_server_would_not_take_is_refused() {
    let mut story = Story::new();
    for verb in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
        let long = "c".repeat((1 << 20) + 1);
        story.client("a").says(&*format!("{verb} {long}"));
        let text = story.client("a").takes_text();
        assert!(text.starts_with("-ERR respool: names of channels"), "{text}");
        assert_eq!(story.connects_made(), 0);
    }
    story.client("a").says(&*format!("SUBSCRIBE {}", "c".repeat(1 << 20)));
    assert_eq!(story.conn(1).takes_requests(), 1);
}
