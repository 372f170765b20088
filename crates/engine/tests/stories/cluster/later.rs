//! A server that cannot serve a request just now: it is tried again, and given up in time with one error.

use crate::words::Story;

const WORDS: [&str; 5] = [
    "-TRYAGAIN Multiple keys request during rehashing of slot",
    "-CLUSTERDOWN The cluster is down",
    "-LOADING Redis is loading the dataset in memory",
    "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "-READONLY You can't write against a read only replica.",
];

#[test]
fn it_is_tried_again_a_little_later() {
    for word in WORDS {
        let mut story = Story::warm_cluster();
        story.client("a").says(["SET a4 1", "GET b4"]);
        story.node("n2").gets("GET b4").answers("\"b\"");
        story.node("n1").gets("SET a4 1").answers(word).gets_nothing();
        story.after_ms(1).node("n1").gets("SET a4 1").answers(word).gets_nothing();
        story.after_ms(2).node("n1").gets("SET a4 1").answers("+OK");
        story.client("a").gets(["+OK", "\"b\""]);
    }
}

#[test]
fn it_is_given_up_in_time_with_one_error() {
    for word in WORDS {
        let mut story = Story::warm_cluster();
        story.client("a").says(["SET a4 1", "PING"]);
        let (begin, mut tries) = (story.now, 0);
        let got = loop {
            if story.node("n1").waiting() > 0 {
                tries += 1;
                story.node("n1").gets("SET a4 1").answers(word);
            }
            let got = story.client("a").takes_text();
            if !got.is_empty() {
                break got;
            }
            story.after_ms(1);
            assert!(story.now.since(begin) <= 2_300_000, "it is not given up");
        };
        assert!(story.now.since(begin) >= 1_700_000, "given up too soon");
        let wanted = format!(
            "-ERR respool: given up after {tries} tries, the last answer was: {}\r\n+PONG\r\n",
            &word[1..]
        );
        assert_eq!(got, wanted);
        assert!((10..30).contains(&tries), "{tries} tries");
    }
}

#[test]
fn the_wait_for_a_failover_is_the_wait_here_too() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 6_000);
    story.client("a").says("SET a4 1");
    for _ in 0..5_000 {
        if story.node("n1").waiting() > 0 {
            story.node("n1").gets("SET a4 1").answers("-CLUSTERDOWN The cluster is down");
        }
        story.after_ms(1).client("a").gets_nothing();
    }
    story.after_ms(200).node("n1").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_demoted_primary_is_left_when_the_table_names_its_successor() {
    let mut story = Story::warm_cluster();
    story.after_ms(600).cluster_is("0-5460 n4 n1, 5461-10922 n2, 10923-16383 n3");
    story.client("a").says("SET a4 1");
    story.node("n1").gets("SET a4 1").answers(WORDS[4]);
    story.after_ms(1).node("n4").gets("SET a4 1").answers("+OK");
    story.node("n1").gets_nothing();
    story.client("a").gets("+OK");
}

#[test]
fn a_request_without_a_key_is_tried_again_at_its_own_node() {
    let mut story = Story::warm_cluster();
    story.client("a").says("DBSIZE");
    story.node("n1").gets("DBSIZE").answers(":1");
    story.node("n3").gets("DBSIZE").answers(":3");
    story.node("n2").gets("DBSIZE").answers("-LOADING Redis is loading the dataset in memory");
    story.after_ms(1).node("n2").gets("DBSIZE").answers(":2");
    story.client("a").gets(":6");
}

#[test]
fn a_script_that_finds_none_running_at_a_loading_node_stays_on_its_lane() {
    let mut story = Story::warm_cluster();
    story.client("a").says("SCRIPT KILL");
    let control = |story: &mut Story, node: &str| {
        let mut conn = story.node_conn(node, 2);
        assert_eq!(conn.key().lane, engine::upstream::Lane::Control);
        conn.takes_requests()
    };
    for node in ["n1", "n2", "n3"] {
        assert_eq!(control(&mut story, node), 1);
    }
    let none = "-NOTBUSY No scripts in execution right now.";
    story.node_conn("n1", 2).answers(none);
    story.node_conn("n3", 2).answers(none);
    story.node_conn("n2", 2).answers("-LOADING Redis is loading the dataset in memory");
    story.after_ms(1);
    story.node_conn("n2", 1).gets_nothing();
    assert_eq!(control(&mut story, "n2"), 1);
    story.node_conn("n2", 2).answers("+OK");
    story.client("a").gets("+OK");
}

// Primaries fail one after the other, a few seconds apart.
#[test]
fn each_outage_has_its_own_time_whatever_the_one_before_took() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.failover_hold_ms = 8_000);
    for _ in 0..5 {
        story.client("a").says("SET a4 1");
        for _ in 0..8 {
            story.client("a").gets_nothing();
            while story.node("n1").takes_requests() > 0 {
                story.node("n1").answers("-CLUSTERDOWN The cluster is down");
            }
            story.after_ms(100);
        }
        story.after_ms(300).node("n1").gets("SET a4 1").answers("+OK");
        story.client("a").gets("+OK");
        story.after_ms(3_000);
    }
}

#[test]
fn while_a_cluster_is_down_only_the_first_requests_wait() {
    let mut story = Story::warm_cluster();
    let down = "-CLUSTERDOWN The cluster is down";
    story.client("a").says("SET a4 1");
    while story.client("a").takes_text().is_empty() {
        if story.node("n1").waiting() > 0 {
            story.node("n1").gets("SET a4 1").answers(down);
        }
        story.after_ms(50);
    }
    for _ in 0..20 {
        story.client("b").says("SET a4 1");
        story.node("n1").gets("SET a4 1").answers(down);
        let text = story.client("b").takes_text();
        assert!(text.starts_with('-') && text.contains("CLUSTERDOWN"), "{text}");
        story.after_ms(500);
    }
    // It is whole again; the next outage is a new one.
    story.client("b").says("SET a4 1");
    story.node("n1").gets("SET a4 1").answers("+OK");
    story.client("b").gets("+OK");
    story.after_ms(5_000).client("b").says("SET a4 1");
    story.node("n1").gets("SET a4 1").answers(down);
    story.client("b").gets_nothing();
    story.after_ms(100).node("n1").gets("SET a4 1").answers("+OK");
    story.client("b").gets("+OK");
}
