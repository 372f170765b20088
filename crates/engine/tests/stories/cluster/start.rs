//! How the table of slots is found out, and when it is asked for again.

use crate::words::Story;
use crate::words::cluster::seeds;
use engine::Notice;
use engine::limits::CLUSTER_NODES_MAX;
use engine::route::slot::slot;

const UNSERVED: &str =
    "-CLUSTERDOWN Hash slot not served (respool: no node of the cluster owns it)";

#[test]
fn one_seed_of_six_that_lives_is_enough() {
    let mut story = Story::with(seeds(&["n6", "n5", "n4", "n3", "n2", "n1"]));
    story.cluster_is("0-16383 n1");
    for dead in ["n6", "n5", "n4", "n3", "n2"] {
        story.is_down(dead);
    }
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").answers("\"v\"");
    story.client("a").gets("\"v\"");
    assert_eq!(story.asked_for_the_table(), ["n1"]);
}

#[test]
fn the_first_requests_wait_for_the_table() {
    let mut story = Story::cluster();
    story.holds_the_table();
    story.client("a").says(["GET a4", "GET b4"]).gets_nothing();
    story.client("b").says("DBSIZE").gets_nothing();
    story.cluster_is("0-16383 n1");
    story.client("c").says("PING").gets("+PONG");
    story.node("n1").gets(["GET a4", "GET b4", "DBSIZE"]).answers(["nil", "nil", ":0"]);
    story.client("a").gets(["nil", "nil"]);
    story.client("b").gets(":0");
}

#[test]
fn with_all_seeds_dead_requests_wait_a_while_and_then_fail_with_node_and_cause() {
    let mut story = Story::with(seeds(&["n1", "n2"]));
    story.is_down("n1").is_down("n2");
    story.client("a").says(["GET a4", "PING"]);
    story.after_ms(1_999).client("a").gets_nothing();
    story.after_ms(1);
    let got = story.client("a").takes_text();
    let cause = ":7000: connect: Connection refused)\r\n+PONG\r\n";
    assert!(got.starts_with("-CLUSTERDOWN Hash slot not served (respool: n"), "{got}");
    assert!(got.ends_with(cause), "{got}");
    // From now on it is known.
    let again = story.client("a").says("GET a4").takes_text();
    assert!(again.starts_with("-CLUSTERDOWN"), "{again}");
}

#[test]
fn a_cluster_that_comes_late_is_found_without_a_request() {
    let mut story = Story::with(seeds(&["n1", "n2"]));
    story.cluster_is("0-16383 n2").is_down("n1").is_down("n2");
    story.client("a").says("GET a4");
    story.after_ms(5_000).client("a").takes();
    story.is_up("n2").after_ms(6_000);
    assert_eq!(story.asked_for_the_table(), ["n2"]);
    story.client("a").says("GET a4");
    story.node("n2").gets("GET a4");
}

#[test]
fn a_slot_without_an_owner_waits_for_one() {
    let mut story = Story::cluster();
    story.cluster_is("0-5460 n1, 10923-16383 n3");
    story.client("a").says(["GET a4", "GET b4"]);
    story.client("b").says("GET b4");
    story.node("n1").gets("GET a4").answers("nil");
    story.client("a").gets("nil");
    story.after_ms(400).client("a").gets_nothing();
    story.cluster_is("0-10922 n1, 10923-16383 n3").after_ms(200);
    story.node("n1").gets(["GET b4", "GET b4"]).answers(["\"x\"", "\"y\""]);
    story.client("a").gets("\"x\"");
    story.client("b").gets("\"y\"");
}

#[test]
fn a_slot_that_finds_none_is_told_as_a_server_tells_it() {
    let mut story = Story::cluster();
    story.cluster_is("0-5460 n1, 10923-16383 n3");
    story.client("a").says(["GET b4", "GET a4"]);
    story.after_ms(1_999).client("a").gets_nothing();
    story.after_ms(1).client("a").gets(UNSERVED);
    story.node("n1").gets("GET a4").answers("nil");
    story.client("a").gets("nil").says("GET b4").gets(UNSERVED);
    // Nor is anything that all nodes must be asked for told from some of them.
    story.client("a").says(["DBSIZE", "SCAN 0", "MGET a4 b4"]);
    story.client("a").gets([UNSERVED, UNSERVED, UNSERVED]);
    story.node("n1").gets_nothing();
}

#[test]
fn a_hole_in_the_table_is_an_error_until_a_better_table_is_there() {
    let mut story = Story::warm_cluster();
    story.cluster_is("0-5460 n1, 10923-16383 n3").after_ms(12_000);
    story.client("a").says("GET b4").gets(UNSERVED);
    // A hole in the table is a sign by itself: nobody has to ask for it again.
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3").after_ms(1_100);
    story.client("a").says("GET b4");
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.client("a").gets("\"b\"");
}

#[test]
fn the_table_is_asked_for_by_one_question_at_a_time() {
    let mut story = Story::cluster();
    story.holds_the_table();
    for name in ["a", "b", "c", "d"] {
        story.client(name).says(["GET a4", "GET b4", "GET c1"]);
    }
    story.after_ms(400);
    let asked: usize = ["n1", "n2", "n3"].into_iter().map(|node| story.connects_to(node)).sum();
    assert_eq!(asked, 1, "one node is asked");
    story.node("n1").gets(["CLUSTER INFO", "CLUSTER SLOTS"]).gets_nothing();
}

#[test]
fn a_node_that_does_not_answer_is_not_waited_for_as_long_as_for_a_request() {
    let mut story = Story::cluster();
    story.holds_the_table();
    story.client("a").says("GET a4");
    story.node("n1").gets(["CLUSTER INFO", "CLUSTER SLOTS"]);
    // A server that was stopped (SIGSTOP) keeps its connections and says nothing.
    story.cluster_is("0-16383 n3").after_ms(1_500);
    assert_eq!(story.asked_for_the_table().len(), 1, "nobody else was asked");
    story.node("n3").gets("GET a4").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn without_a_timeout_of_requests_a_silent_node_is_passed_over_too() {
    let mut story = Story::cluster_with(|settings| settings.timeouts.request_ms = 0);
    story.holds_the_table();
    story.client("a").says("GET a4");
    story.node("n1").gets(["CLUSTER INFO", "CLUSTER SLOTS"]);
    story.cluster_is("0-16383 n3").after_ms(1_500);
    story.node("n3").gets("GET a4");
}

#[test]
fn many_redirects_ask_for_the_table_at_most_twice_a_second() {
    let mut story = Story::warm_cluster();
    story.asked_for_the_table();
    for _ in 0..100 {
        story.client("a").says("GET a4");
        story.node("n1").gets("GET a4").moved("a4", "n2");
        story.node("n2").gets("GET a4").moved("a4", "n1");
        story.node("n1").gets("GET a4").answers("nil");
        story.after_ms(50).client("a").gets("nil");
    }
    let asked = story.asked_for_the_table();
    assert!((8..=11).contains(&asked.len()), "{} times in five seconds", asked.len());
}

// Simulator, seed 1001266: each connection broke with the question in it, was made anew, and the question was the first thing in it.
#[test]
fn the_table_is_not_asked_for_over_and_over_where_connections_break_of_it() {
    let mut story = wants_the_table();
    let mut asked = 0;
    for _ in 0..1_000 {
        asked += break_of_the_question(&mut story);
        story.after_ms(5);
    }
    assert!((9..=54).contains(&asked), "{asked} times in five seconds");
}

#[test]
fn one_whose_connection_breaks_with_the_question_is_passed_over_at_once() {
    let mut story = wants_the_table();
    let asked = break_of_the_question(&mut story) + break_of_the_question(&mut story);
    assert_eq!(asked, 3, "each once, and no time went by");
    story.after_ms(299);
    assert_eq!(break_of_the_question(&mut story), 0, "a pause for each");
    story.after_ms(1);
    assert!(break_of_the_question(&mut story) > 0);
}

/// A cluster with a sign that its table is stale, whose nodes leave the answer to the story.
fn wants_the_table() -> Story {
    let mut story = Story::warm_cluster();
    story.after_ms(2_000).holds_the_table();
    // A write, which is not sent once more when its connection breaks too.
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").moved("a4", "n2");
    story
}

/// Whichever node was asked for the table resets that connection; how many that were.
fn break_of_the_question(story: &mut Story) -> usize {
    let mut asked = 0;
    for node in ["n1", "n2", "n3"] {
        if story.node(node).takes_requests() > 0 {
            asked += 1;
            story.node(node).dies("connection reset");
        }
    }
    asked
}

#[test]
fn the_next_question_goes_to_another_node() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    story.asked_for_the_table();
    story.after_ms(10_000);
    let asked = story.asked_for_the_table();
    for node in ["n1", "n2", "n3"] {
        assert!(asked.iter().any(|name| name == node), "{node} is never asked: {asked:?}");
    }
    assert!(asked.windows(2).all(|pair| pair[0] != pair[1]), "{asked:?}");
}

#[test]
fn a_node_that_knows_nothing_is_asked_again_after_another_one() {
    let mut story = Story::cluster();
    story.holds_the_table();
    story.client("a").says("GET a4");
    story
        .node("n1")
        .gets(["CLUSTER INFO", "CLUSTER SLOTS"])
        .answers(["-ERR This instance has cluster support disabled"; 2]);
    story.after_ms(100);
    story.node("n2").gets(["CLUSTER INFO", "CLUSTER SLOTS"]).answers(["+", "*0"]);
    story.after_ms(100);
    story.node("n3").gets(["CLUSTER INFO", "CLUSTER SLOTS"]);
    story.after_ms(2_000);
    let got = story.client("a").takes_text();
    assert!(got.starts_with("-CLUSTERDOWN Hash slot not served (respool: n"), "{got}");
}

#[test]
fn the_table_is_asked_for_once_in_a_while_without_a_sign() {
    let mut story = Story::warm_cluster();
    story.asked_for_the_table();
    story.after_ms(9_000);
    assert_eq!(story.asked_for_the_table().len(), 0);
    story.after_ms(2_500);
    assert_eq!(story.asked_for_the_table().len(), 1);
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 0);
    story.asked_for_the_table();
    story.after_ms(60_000);
    assert_eq!(story.asked_for_the_table().len(), 0, "and only when there is a period");
}

#[test]
fn a_question_that_finds_its_node_lost_goes_to_the_next_one_at_once() {
    let mut story = Story::warm_cluster();
    story.holds_the_table();
    story.after_ms(12_000);
    let asked = ["n1", "n2", "n3"].into_iter().find(|node| story.node(node).waiting() > 0);
    let asked = asked.expect("nobody was asked");
    story.asked_for_the_table();
    story.cluster_is("0-16383 n1");
    story.crashes(asked).after_ms(0);
    let next = story.asked_for_the_table();
    assert!(next.len() == 1 && next[0] != asked, "{asked} was lost, then {next:?} was asked");
}

#[test]
fn hello_as_the_first_word_waits_for_the_table() {
    let mut story = Story::with(seeds(&["n1", "n2"]));
    story.is_down("n1").cluster_is("0-16383 n2");
    let got = story.client("a").says("HELLO 3").takes_text();
    assert!(got.starts_with("%7\r\n"), "{got}");
    story.client("a").says("GET a4");
    story.node("n2").gets("GET a4").answers("_");
    story.client("a").gets("_");
}

#[test]
fn the_first_answer_that_has_no_slots_does_not_empty_the_table() {
    let mut story = Story::warm_cluster();
    story.cluster_is("").after_ms(12_000);
    story.client("a").says("GET b4");
    story.node("n2").gets("GET b4").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

/// A table of so many primaries, all of which are called by this name and a number.
fn table_of(name: &str, nodes: usize) -> String {
    let first = |node: usize| node * 16_384 / nodes;
    let ranges = (0..nodes).map(|n| format!("{}-{} {name}{n}", first(n), first(n + 1) - 1));
    ranges.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_table_that_names_too_many_nodes_is_left_out() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    story.cluster_is(&table_of("m", CLUSTER_NODES_MAX + 1)).after_ms(3_000);
    story.client("a").says("GET b4");
    story.node("n2").gets("GET b4").answers("nil");
    story.client("a").gets("nil");
    let failed = story.notices.iter().find_map(|notice| match notice {
        Notice::TopologyFailed { cause } => Some(cause.clone()),
        _ => None,
    });
    let words = format!("names {} nodes, more than {CLUSTER_NODES_MAX}", CLUSTER_NODES_MAX + 1);
    assert!(failed.as_ref().is_some_and(|cause| cause.contains(&words)), "{failed:?}");
}

// Found by an attack: with 2,000 nodes each table took seconds, as each node was looked for among all.
#[test]
fn tables_of_a_large_cluster_that_are_all_new_cost_little() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    for name in ["one", "other", "third"] {
        story.cluster_is(&table_of(name, CLUSTER_NODES_MAX)).after_ms(3_000);
    }
    story.client("a").says("GET b4");
    let owner = format!("third{}", usize::from(slot(b"b4")) / (16_384 / CLUSTER_NODES_MAX));
    story.node(&owner).gets("GET b4").answers("nil");
    story.client("a").gets("nil");
}

// Found by an attack: each of 3,000 names that nobody resolves was asked before the configured node was.
#[test]
fn a_table_of_nodes_that_do_not_exist_is_replaced_by_what_a_configured_node_tells() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    for node in 0..300 {
        story.lets_connects_hang(&format!("x{node}"));
    }
    story.cluster_is(&table_of("x", 300)).after_ms(10_000);
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3").after_ms(10_000);
    story.client("b").says("GET a4");
    story.node("n1").gets("GET a4").answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn a_node_that_is_cut_off_is_not_believed_while_another_one_answers() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    // The three are whole without n1, whose own view is older and goes on being told by it alone.
    story.cluster_is("0-10922 n2, 10923-16383 n3").after_ms(2_000);
    story.is_cut_off("n1").node_tells("n1", "0-5460 n1, 5461-10922 n2, 10923-16383 n3");
    story.after_ms(5_000);
    story.client("a").says("GET a4");
    story.node("n2").gets("GET a4").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn when_all_nodes_say_that_the_cluster_is_down_they_are_believed() {
    let mut story = Story::cluster();
    story.is_cut_off("n1").is_cut_off("n2").is_cut_off("n3");
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").answers("\"v\"");
    story.client("a").gets("\"v\"");
    assert_eq!(story.asked_for_the_table().len(), 3, "each is asked once");
}

#[test]
fn clients_get_the_begin_of_a_long_error_about_the_table() {
    let mut story = Story::cluster();
    story.holds_the_table();
    story.client("a").says("GET a4");
    let long = format!("-ERR {}", "x".repeat(1 << 20));
    story.node("n1").gets(["CLUSTER INFO", "CLUSTER SLOTS"]).answers(["+", &long]);
    story.after_ms(100);
    story.after_ms(2_000);
    let got = story.client("a").takes_text();
    assert!(got.starts_with("-CLUSTERDOWN Hash slot not served (respool: n1:"), "{got:.200}");
    assert!(got.len() < 512, "{} bytes", got.len());
}

#[test]
fn a_table_of_more_ranges_than_there_are_slots_is_none() {
    let mut story = Story::cluster();
    story.holds_the_table();
    story.client("a").says("GET a4");
    let range = "*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nh\r\n:1\r\n";
    let table = format!("*{}\r\n{}", 16_385, range.repeat(16_385));
    story.node("n1").gets(["CLUSTER INFO", "CLUSTER SLOTS"]).answers(["+", &table]);
    story.after_ms(100);
    story.after_ms(2_000);
    let got = story.client("a").takes_text();
    assert!(got.contains("tells 16385 ranges of slots, of which there are 16384"), "{got:.200}");
}
