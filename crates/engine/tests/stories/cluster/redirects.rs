//! MOVED and ASK: a server names the one that has the slot, and the client hears nothing of it.

use crate::words::cluster::{ask, moved};
use crate::words::{Story, request};

#[test]
fn a_moved_request_goes_to_the_node_that_was_named_and_so_do_later_ones() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").moved("a4", "n2");
    story.client("a").gets_nothing();
    story.node("n2").gets("GET a4").answers("\"v\"");
    story.client("a").gets("\"v\"").says(["GET a4", "GET a8"]);
    story.node("n2").gets("GET a4").gets_nothing();
    story.node("n1").gets("GET a8").gets_nothing();
    assert_eq!(story.engine.stats().redirects, 1);
}

#[test]
fn a_redirect_at_any_place_of_a_pipeline_keeps_the_order() {
    for place in 0..4 {
        let mut story = Story::warm_cluster();
        story.client("a").says(["GET {a4}0", "GET {a4}1", "GET {a4}2", "GET {a4}3"]);
        let ask = ask("a4", "n2");
        let mut replies = vec!["\"0\"", "\"1\"", "\"2\"", "\"3\""];
        replies[place] = &ask;
        story.node("n1").takes_requests();
        story.node("n1").answers(replies);
        story
            .client("a")
            .gets(["\"0\"", "\"1\"", "\"2\""].into_iter().take(place).collect::<Vec<_>>());
        let line = format!("GET {{a4}}{place}");
        story.node("n2").gets(["ASKING", &line]).answers(["+OK", &format!("\"{place}\"")]);
        let rest = ["\"0\"", "\"1\"", "\"2\"", "\"3\""].into_iter().skip(place);
        story.client("a").gets(rest.collect::<Vec<_>>());
    }
}

#[test]
fn a_whole_pipeline_that_moved_arrives_in_the_order_it_was_sent() {
    let mut story = Story::warm_cluster();
    let lines: Vec<String> = (0..50).map(|n| format!("APPEND a4 {n}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    story.client("a").says(lines.clone());
    story.node("n1").gets(lines.clone());
    let moved = moved("a4", "n2");
    // The answers come in three packets, so the first are with the next node when the last are not.
    for count in [1, 30, 19] {
        story.node("n1").answers(vec![&*moved; count]);
    }
    story.node("n2").gets(lines).answers(vec![":1"; 50]);
    story.client("a").gets(vec![":1"; 50]);
}

#[test]
fn pipelines_of_two_clients_that_move_at_once_get_their_own_replies() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 a", "GET a4"]);
    story.client("b").says(["SET a4 b", "GET a4"]);
    story.node("n1").takes_requests();
    let moved = moved("a4", "n3");
    story.node("n1").answers(vec![&*moved; 4]);
    story.node("n3").gets(["SET a4 a", "GET a4", "SET a4 b", "GET a4"]);
    story.node("n3").answers(["+OK", "\"a\"", "+OK", "\"b\""]);
    story.client("a").gets(["+OK", "\"a\""]);
    story.client("b").gets(["+OK", "\"b\""]);
}

#[test]
fn a_request_that_was_asked_for_goes_right_behind_asking() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SET a4 1");
    story.client("b").says(["GET b4", "GET b8"]);
    story.node("n1").gets("SET a4 1").ask("a4", "n2");
    story.client("b").says("GET b11");
    story.node("n2").gets(["GET b4", "GET b8", "ASKING", "SET a4 1", "GET b11"]);
    story.node("n2").answers(["\"4\"", "\"8\"", "+OK", "+OK", "\"11\""]);
    story.client("a").gets("+OK");
    story.client("b").gets(["\"4\"", "\"8\"", "\"11\""]);
    // The slot itself is where it was.
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4");
}

#[test]
fn an_asking_that_fails_does_no_harm_to_the_order() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "GET b4"]);
    story.node("n1").gets("GET a4").ask("a4", "n2");
    story.node("n2").gets(["GET b4", "ASKING", "GET a4"]);
    story.node("n2").answers(["\"b\"", "-ERR This instance has cluster support disabled", "\"a\""]);
    story.client("a").gets(["\"a\"", "\"b\""]);
}

#[test]
fn an_unknown_node_that_is_named_is_connected_to_when_a_known_one_tells_of_it() {
    let mut story = Story::warm_cluster();
    story.after_ms(600).asked_for_the_table();
    story
        .cluster_is("0-5460 n9, 5461-10922 n2, 10923-16383 n3")
        .client("a")
        .says(["GET a4", "GET a8"]);
    story.node("n1").gets(["GET a4", "GET a8"]).moved("a4", "n9").answers("\"8\"");
    assert_eq!(story.asked_for_the_table(), ["n1"]);
    story.node("n9").gets("GET a4").answers("\"4\"");
    story.client("a").gets(["\"4\"", "\"8\""]);
}

#[test]
fn a_node_that_only_a_redirect_names_is_never_connected_to() {
    for named in ["-MOVED 3788 n9:7000", "-ASK 3788 n9:7000"] {
        let mut story = Story::warm_cluster();
        story.client("a").says("GET a4");
        let begin = story.now;
        let got = loop {
            if story.node("n1").waiting() > 0 {
                story.node("n1").gets("GET a4").answers(named);
            }
            let got = story.client("a").takes_text();
            if !got.is_empty() {
                break got;
            }
            story.after_ms(1);
            assert!(story.now.since(begin) < 5_000_000, "it goes on for ever");
        };
        assert!(got.starts_with("-ERR respool: given up after "), "{got}");
        assert_eq!(story.connects_to("n9"), 0);
        assert!(story.asked_for_the_table().iter().all(|node| node != "n9"));
    }
}

#[test]
fn a_redirect_for_another_slot_than_the_requests_is_no_redirect() {
    for text in ["-MOVED 3789 n2:7000", "-ASK 1 n2:7000"] {
        let mut story = Story::warm_cluster();
        story.client("a").says("GET a4");
        story.node("n1").gets("GET a4").answers(text);
        story.client("a").gets(text).says("GET a4");
        story.node("n1").gets("GET a4");
        story.node("n2").gets_nothing();
    }
}

#[test]
fn a_node_that_owns_nothing_yet_is_not_forgotten_while_a_request_is_on_its_way_there() {
    let mut story = Story::warm_cluster();
    // The first slot moves to a fresh node: no table names it, but the nodes know that there is one.
    story.after_ms(600).lets_connects_hang("n9").has_member("n9").asked_for_the_table();
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").ask("a4", "n9");
    story.after_ms(3);
    assert_eq!(story.asked_for_the_table().len(), 1);
    story.lets_connect("n9").after_ms(10);
    story.node("n9").gets(["ASKING", "GET a4"]).answers(["+OK", "\"v\""]);
    story.client("a").gets("\"v\"");
}

#[test]
fn a_server_that_does_not_know_its_own_address_means_the_host_that_was_asked() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").answers("-MOVED 3788 :7000");
    story.node("n1").gets("GET a4").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn the_bytes_that_go_on_are_those_that_came() {
    let mut story = Story::warm_cluster();
    let value = "x".repeat(20_000);
    let bytes = request(&format!("SET a4 {value}"));
    let before = story.node("n2").bytes();
    story.client("a").says(["GET a8"]).sends(&bytes).says("GET a12");
    story.node("n1").takes_requests();
    story.node("n1").answers(["\"8\"", &moved("a4", "n2"), "\"12\""]);
    assert_eq!(story.node("n2").bytes() - before, bytes.len());
    story.node("n2").answers("+OK");
    story.client("a").gets(["\"8\"", "+OK", "\"12\""]);
}

#[test]
fn an_inline_request_is_sent_on_as_well() {
    let mut story = Story::warm_cluster();
    story.client("a").sends(b"SET a4 'x y'\r\n");
    story.node("n1").gets("SET a4 x y").moved("a4", "n2");
    story.node("n2").gets("SET a4 x y").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn redirects_are_the_same_in_resp3() {
    let mut story = Story::warm_cluster();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("HGETALL a4");
    story.node("n1").gets("HGETALL a4").moved("a4", "n2");
    assert!(story.node("n2").key().resp3);
    story.node("n2").gets("HGETALL a4").answers("%0\r\n");
    story.client("a").gets("%0\r\n");
}

#[test]
fn two_nodes_that_name_each_other_are_not_believed_for_ever() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    let (begin, mut rounds) = (story.now, 0);
    let got = loop {
        for (node, other) in [("n1", "n2"), ("n2", "n1")] {
            if story.node(node).waiting() > 0 {
                rounds += 1;
                story.node(node).gets("GET a4").moved("a4", other);
            }
        }
        let got = story.client("a").takes_text();
        if !got.is_empty() {
            break got;
        }
        story.after_ms(1);
        assert!(story.now.since(begin) < 3_000_000, "it goes on for ever");
    };
    assert!(got.starts_with("-ERR respool: given up after "), "{got}");
    assert!(got.contains("the last answer was: MOVED 3788 n"), "{got}");
    assert!((5..40).contains(&rounds), "{rounds} rounds");
    story.client("a").says("PING").gets("+PONG");
}

#[test]
fn two_nodes_that_name_each_other_for_a_moment_do_no_harm() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "SET a4 2"]);
    for (node, other) in [("n1", "n2"), ("n2", "n1"), ("n1", "n2")] {
        let moved = moved("a4", other);
        story.node(node).gets(["SET a4 1", "SET a4 2"]).answers([&*moved, &*moved]);
    }
    story.node("n2").gets(["SET a4 1", "SET a4 2"]).answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK"]);
}

#[test]
fn texts_that_only_look_like_a_redirect_are_the_clients() {
    let mut story = Story::warm_cluster();
    for text in [
        "-ERR MOVED 3788 n2:7000",
        "-MOVEDX 3788 n2:7000",
        "-moved 3788 n2:7000",
        "+MOVED 3788 n2:7000",
        "\"-MOVED 3788 n2:7000\"",
        "*1\r\n-MOVED 3788 n2:7000\r\n",
        "-ASKING 3788 n2:7000",
        "-READONLYX x",
        "-NOREPLICAS x",
    ] {
        story.client("a").says("GET a4");
        story.node("n1").gets("GET a4").answers(text);
        story.client("a").gets(text);
    }
    story.node("n2").gets_nothing();
    assert_eq!(story.engine.stats().redirects, 0);
}

#[test]
fn a_redirect_that_cannot_be_read_is_tried_again_and_given_up() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    let begin = story.now;
    loop {
        if story.node("n1").waiting() > 0 {
            story.node("n1").gets("GET a4").answers("-MOVED to the country");
        }
        let got = story.client("a").takes_text();
        if !got.is_empty() {
            assert!(got.ends_with("the last answer was: MOVED to the country\r\n"), "{got}");
            return;
        }
        story.after_ms(1);
        assert!(story.now.since(begin) < 3_000_000, "it goes on for ever");
    }
}

#[test]
fn a_redirect_that_comes_in_pieces_is_one() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a8", "GET a4", "GET a12"]);
    story.node("n1").gets(["GET a8", "GET a4", "GET a12"]);
    for byte in b"$1\r\n8\r\n-MOVED 3788 n2:7000\r\n$2\r\n12\r\n" {
        story.node("n1").sends(&[*byte]);
    }
    story.client("a").gets("\"8\"");
    story.node("n2").gets("GET a4").answers("\"4\"");
    story.client("a").gets(["\"4\"", "\"12\""]);
}

#[test]
fn a_reply_that_comes_before_the_driver_gave_the_buffer_back_waits_for_it() {
    let mut story = Story::warm_cluster();
    story.node("n1").stops_taking();
    story.client("a").says(["GET a8", "GET a4", "GET a12"]);
    story.node("n1").gets(["GET a8", "GET a4", "GET a12"]);
    story.node("n1").answers(["\"8\"", &moved("a4", "n2"), "\"12\""]);
    story.client("a").gets("\"8\"");
    story.node("n2").gets_nothing();
    story.node("n1").takes_all();
    story.node("n2").gets("GET a4").answers("\"4\"");
    story.client("a").gets(["\"4\"", "\"12\""]);
}

#[test]
fn a_connection_that_breaks_while_a_redirect_waits_for_the_buffer_answers_once() {
    let mut story = Story::warm_cluster();
    story.node("n1").stops_taking();
    story.client("a").says(["GET a4", "PING"]);
    story.node("n1").gets("GET a4").moved("a4", "n2");
    story.after_ms(2_000).node("n1").dies("connection reset");
    let got = story.client("a").takes_text();
    assert_eq!(got, "-ERR respool: upstream n1:7000: connection reset\r\n+PONG\r\n");
    story.node("n2").gets_nothing();
}

#[test]
fn a_client_that_wants_no_replies_gets_none_from_redirected_requests() {
    let mut story = Story::warm_cluster();
    story.client("a").says([
        "CLIENT REPLY OFF",
        "SET a4 1",
        "SET a4 2",
        "CLIENT REPLY ON",
        "GET b4",
    ]);
    let moved = moved("a4", "n2");
    story.node("n1").gets(["SET a4 1", "SET a4 2"]).answers([&*moved, &*moved]);
    story.node("n2").gets(["GET b4", "SET a4 1", "SET a4 2"]).answers(["\"b\"", "+OK", "+OK"]);
    story.client("a").gets(["+OK", "\"b\""]);
    story.client("a").says(["CLIENT REPLY SKIP", "MSET a8 1 b8 2", "GET c1"]);
    story.node("n1").gets("MSET a8 1").moved("a8", "n3");
    story.node("n2").gets("MSET b8 2").answers("+OK");
    story.node("n3").gets("MSET a8 1").gets_nothing().answers("+OK");
    story.node("n3").gets("GET c1").answers("\"c\"");
    story.client("a").gets("\"c\"");
}

#[test]
fn a_client_that_is_gone_leaves_nothing_behind() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    story.client("b").says(["GET a4", "MGET a8 b8"]);
    story.node("n1").gets(["GET a4", "MGET a8"]).moved("a4", "n9").moved("a8", "n9");
    story.client("b").dies();
    story.node("n2").gets("MGET b8").answers("*1\r\n$-1\r\n");
    story.lets_connect("n9").after_ms(10);
    while story.node("n9").takes_one().is_some() {
        story.node("n9").answers("*1\r\n$-1\r\n");
    }
    story.client("a").says("GET a4");
    story.node("n9").gets("GET a4").answers("\"v\"");
    story.client("a").gets("\"v\"").dies();
    assert!(story.engine.is_quiet());
}

#[test]
fn what_a_client_left_behind_at_one_node_does_not_reach_the_next_client() {
    let mut story = Story::warm_cluster();
    story.client("b").says(["GET a4", "GET a8"]);
    story.node("n1").gets(["GET a4", "GET a8"]);
    story.client("b").dies();
    story.client("c").says("GET a12");
    story.node("n1").moved("a4", "n2").answers("\"8\"").gets("GET a12").answers("\"12\"");
    story.client("c").gets("\"12\"");
    story.node("n2").gets_nothing();
    assert!(story.engine.is_quiet() || story.engine.client_count() == 2);
}

#[test]
fn a_part_that_moved_is_merged_as_if_nothing_had_been() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET a4 b4 c1", "MSET a8 1 b8 2", "DEL a4 b4 c1"]);
    story.node("n1").gets(["MGET a4", "MSET a8 1", "DEL a4"]);
    let (first, second) = (moved("a4", "n3"), moved("a8", "n3"));
    story.node("n1").answers([&*first, &*second, &*first]);
    story.node("n2").gets(["MGET b4", "MSET b8 2", "DEL b4"]);
    story.node("n2").answers(["*1\r\n$1\r\nb\r\n", "+OK", ":1"]);
    story.node("n3").gets(["MGET c1", "DEL c1", "MGET a4", "MSET a8 1", "DEL a4"]);
    story.node("n3").answers(["*1\r\n$1\r\nc\r\n", ":1", "*1\r\n$1\r\na\r\n", "+OK", ":1"]);
    story.client("a").gets(["*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", "+OK", ":3"]);
}

#[test]
fn a_moved_request_waits_for_room_at_its_node_and_goes_when_there_is() {
    let mut story =
        Story::warm_cluster_with(|settings| settings.limits.upstream_out_high_bytes = 10_000);
    story.node("n2").stops_taking();
    let value = "x".repeat(12_000);
    story.client("b").says(&format!("SET b4 {value}"));
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").moved("a4", "n2");
    // Nobody else waits for this connection.
    story.node("n2").takes_all();
    story.after_ms(1);
    assert_eq!(story.node("n2").takes_requests(), 2);
    story.node("n2").answers(["+OK", "\"v\""]);
    story.client("b").gets("+OK");
    story.client("a").gets("\"v\"");
}

// The first went back to the old owner, behind the second, and came to the new one after it.
#[test]
fn one_that_goes_back_to_its_old_owner_is_not_overtaken_there() {
    let mut story = Story::warm_cluster_beside("n9");
    story.is_down("n9");
    story.client("a").says(["SET a4 1", "SET a4 2"]);
    story.node("n1").gets(["SET a4 1", "SET a4 2"]).moved("a4", "n9");
    // The table still names the old owner.
    story.after_ms(1_000).node_conn("n1", 1).gets_nothing();
    story.is_up("n9").after_ms(700).node_conn("n1", 1).moved("a4", "n9");
    story.node("n9").gets(["SET a4 1", "SET a4 2"]).answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK"]);
}

#[test]
fn a_node_that_was_named_and_is_down_is_an_error_in_the_end() {
    let mut story = Story::warm_cluster_beside("n9");
    story.is_down("n9");
    story.client("a").says(["GET a4", "GET b4"]);
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.node("n1").gets("GET a4").moved("a4", "n9");
    // The table still names n1, and that is believed when it comes.
    story.cluster_is("0-5460 n9, 5461-10922 n2, 10923-16383 n3");
    story.after_ms(1_990).client("a").gets_nothing();
    story.after_ms(20);
    story
        .client("a")
        .gets(["-ERR respool: upstream n9:7000: connect: Connection refused", "\"b\""]);
}

#[test]
fn what_is_kept_for_redirects_does_not_grow() {
    let mut story = Story::warm_cluster();
    let value = "x".repeat(10_000);
    for _ in 0..400 {
        story.client("a").says([&*format!("SET a4 {value}"), "GET a8"]);
        assert_eq!(story.node("n1").takes_requests(), 2);
        story.node("n1").answers(["+OK", "nil"]);
    }
    story.client("a").gets(["+OK", "nil"].repeat(400));
    // Without the trimming this would be beyond what a connection may keep, and the request would wait.
    for _ in 0..2_000 {
        story.client("a").says(&format!("SET a4 {value}"));
        story.node("n1").takes_requests();
        story.node("n1").answers("+OK");
    }
    story.client("a").gets(vec!["+OK"; 2_000]);
}
