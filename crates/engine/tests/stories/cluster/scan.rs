//! SCAN: one cursor over all nodes.

use crate::words::Story;

/// Asks for the page at `cursor`; returns who was asked with what.
fn asks(story: &mut Story, cursor: &str) -> (&'static str, String) {
    story.client("a").says(&format!("SCAN {cursor} COUNT 10"));
    let asked = ["n1", "n2", "n3"].into_iter().filter(|node| story.node(node).waiting() > 0);
    let asked: Vec<&str> = asked.collect::<Vec<_>>();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let line = story.node(asked[0]).takes_one().expect("it waits");
    (asked[0], line)
}

/// The node gives a page of one key; returns the cursor that the client gets.
fn page(story: &mut Story, node: &str, cursor: &str, key: &str) -> String {
    let (cursor_len, key_len) = (cursor.len(), key.len());
    story
        .node(node)
        .answers(&format!("*2\r\n${cursor_len}\r\n{cursor}\r\n*1\r\n${key_len}\r\n{key}\r\n"));
    let got = story.client("a").takes_text();
    let lines: Vec<&str> = got.split("\r\n").collect();
    assert_eq!((lines[0], lines[3], lines[5]), ("*2", "*1", key), "{got}");
    lines[2].to_string()
}

#[test]
fn an_iteration_visits_every_node_to_its_end() {
    let mut story = Story::warm_cluster();
    let mut cursor = "0".to_string();
    let mut visited = Vec::new();
    for round in 0..6 {
        let (node, line) = asks(&mut story, &cursor);
        visited.push(format!("{node} {line}"));
        let next = if round % 2 == 0 { "549755813887" } else { "0" };
        cursor = page(&mut story, node, next, "k");
        assert_eq!(cursor == "0", round == 5, "round {round}: {cursor}");
    }
    let (first, second) = ("SCAN 0 COUNT 10", "SCAN 549755813887 COUNT 10");
    let wanted =
        ["n1", "n2", "n3"].map(|node| [format!("{node} {first}"), format!("{node} {second}")]);
    assert_eq!(visited, wanted.concat());
}

#[test]
fn options_go_along_on_every_page() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SCAN 0 MATCH a* TYPE string");
    story.node("n1").gets("SCAN 0 MATCH a* TYPE string");
    let cursor = page(&mut story, "n1", "0", "k");
    story.client("a").says(&format!("SCAN {cursor} MATCH a* TYPE string"));
    story.node("n2").gets("SCAN 0 MATCH a* TYPE string");
}

#[test]
fn an_iteration_begins_again_when_slots_moved_so_that_no_key_is_missed() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    let (node, _) = asks(&mut story, "0");
    let cursor = page(&mut story, node, "0", "k");
    // A slot goes from n3, which was to come, to n1, which is done.
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16382 n3, 16383-16383 n1").after_ms(2_000);
    let (node, line) = asks(&mut story, &cursor);
    assert_eq!((node, &*line), ("n1", "SCAN 0 COUNT 10"));
    // And when it moves while a page is on its way.
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3").after_ms(2_000);
    let cursor = page(&mut story, node, "7", "k");
    assert_ne!(cursor, "0");
    let (node, line) = asks(&mut story, &cursor);
    assert_eq!((node, &*line), ("n1", "SCAN 0 COUNT 10"));
}

#[test]
fn the_last_page_of_an_iteration_is_not_its_end_when_slots_moved_under_it() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    let mut cursor = "0".to_string();
    for _ in 0..2 {
        let (node, _) = asks(&mut story, &cursor);
        cursor = page(&mut story, node, "0", "k");
    }
    let (node, _) = asks(&mut story, &cursor);
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16382 n3, 16383-16383 n1").after_ms(2_000);
    let cursor = page(&mut story, node, "0", "k");
    assert_ne!(cursor, "0");
}

#[test]
fn while_a_slot_is_on_its_way_every_node_is_visited_once_more() {
    let mut story = Story::warm_cluster();
    // n3 gives keys to n1, which is done by then, and still owns their slot at the end.
    story.gives_slots("n3");
    let mut cursor = "0".to_string();
    let mut visited = Vec::new();
    loop {
        let (node, _) = asks(&mut story, &cursor);
        visited.push(node);
        cursor = page(&mut story, node, "0", "k");
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(visited, ["n1", "n2", "n3", "n1", "n2", "n3"]);
}

#[test]
fn two_iterations_at_once_do_not_know_of_each_other() {
    let mut story = Story::warm_cluster();
    let (node, _) = asks(&mut story, "0");
    let first = page(&mut story, node, "11", "k");
    let (node, _) = asks(&mut story, "0");
    let second = page(&mut story, node, "22", "k");
    assert_eq!(asks(&mut story, &first).1, "SCAN 11 COUNT 10");
    page(&mut story, "n1", "0", "k");
    assert_eq!(asks(&mut story, &second).1, "SCAN 22 COUNT 10");
}

#[test]
fn what_is_no_cursor_is_the_servers_matter() {
    let mut story = Story::warm_cluster();
    for line in ["SCAN x", "SCAN -1", "SCAN 99999999999999999999"] {
        story.client("a").says(line);
        story.node("n1").gets(line).answers("-ERR invalid cursor");
        story.client("a").gets("-ERR invalid cursor");
    }
    story.client("a").says("SCAN 0 COUNT x");
    story.node("n1").gets("SCAN 0 COUNT x").answers("-ERR value is not an integer or out of range");
    story.client("a").gets("-ERR value is not an integer or out of range");
}

#[test]
fn a_node_that_is_down_is_an_error_and_no_end() {
    let mut story = Story::warm_cluster();
    let (node, _) = asks(&mut story, "0");
    let cursor = page(&mut story, node, "0", "k");
    story.after_ms(2_000).crashes("n2");
    story.client("a").says(&format!("SCAN {cursor}"));
    story.client("a").gets("-ERR respool: upstream n2:7000: connect: Connection refused");
}

#[test]
fn a_made_up_cursor_does_no_harm() {
    let mut story = Story::warm_cluster();
    for cursor in ["1", "255", "65535", "18446744073709551615"] {
        let (node, _) = asks(&mut story, cursor);
        story.node(node).answers("*2\r\n$1\r\n0\r\n*0\r\n");
        let got = story.client("a").takes_text();
        assert!(got.starts_with("*2\r\n"), "{got}");
    }
}

#[test]
fn the_scans_of_one_key_go_to_its_node_untouched() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["HSCAN b4 77", "SSCAN a4 0", "ZSCAN c1 5"]);
    story.node("n2").gets("HSCAN b4 77");
    story.node("n1").gets("SSCAN a4 0");
    story.node("n3").gets("ZSCAN c1 5");
}

/// The word of who owns what must come before the page, so both take the same connection.
#[test]
fn the_question_before_a_page_takes_the_connection_of_its_client() {
    let mut story = Story::warm_cluster_with(|settings| settings.limits.shared_conns = 2);
    story.client("b").says("GET a4");
    story.node_conn("n1", 2).gets("GET a4").answers("nil");
    story.holds_the_table().client("b").gets("nil").says("SCAN 0");
    story.node_conn("n1", 1).gets_nothing();
    story.node_conn("n1", 2).gets(["CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER NODES", "SCAN 0"]);
}

// Each answer costs every worker as much as the table is large.
#[test]
fn pages_that_leave_together_stand_behind_one_question() {
    let mut story = Story::warm_cluster();
    story.holds_the_table();
    for name in ["a", "b", "c"] {
        story.client(name).sends_at_once(&crate::words::request("SCAN 0"));
    }
    story.turn();
    let questions = ["CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER NODES"];
    story.node("n1").gets(questions).gets(["SCAN 0"; 3]);
    story.client("d").says("SCAN 0");
    story.node("n1").gets(questions).gets("SCAN 0");
}

#[test]
fn a_server_that_holds_its_answers_back_is_asked_only_so_often() {
    let mut story = Story::warm_cluster();
    story.holds_the_table();
    let most = engine::limits::PAGE_QUESTIONS_MAX as usize;
    let mut asked = 0;
    for number in 0..most + 20 {
        story.client(&format!("c{number}")).says("SCAN 0");
        while let Some(line) = story.node("n1").takes_one() {
            asked += usize::from(line == "CLUSTER SLOTS");
        }
    }
    assert_eq!(asked, most);
}
