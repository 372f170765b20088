//! What is kept for a cluster has a bound, and what happens there.

use crate::words::cluster::{ask, list, moved};
use crate::words::{Story, request};
use engine::limits::{KEPT_BYTES_MAX, PARKED_BYTES_MAX};

/// A value as large as an ordinary request may have.
const VALUE_BYTES: usize = 200_000;

#[test]
fn a_connection_that_owes_too_much_takes_no_more_until_it_has_answered() {
    let mut story = Story::warm_cluster();
    let set = format!("SET a4 {}", "x".repeat(VALUE_BYTES));
    let fits = KEPT_BYTES_MAX / VALUE_BYTES;
    // Of several clients, since one alone may not have so much unanswered.
    for n in 0..fits + 5 {
        story.client(&format!("c{n}")).says(&set);
    }
    let taken = story.node("n1").takes_requests();
    assert!(taken.abs_diff(fits) <= 1, "{taken} of {fits}");
    story.client("a").says(["GET b4", "GET a8"]);
    story.node("n2").gets("GET b4").answers("nil");
    story.client("a").gets("nil");
    story.node("n1").gets_nothing();
    // The oldest are answered: there is room for the others.
    story.node("n1").answers(vec!["+OK"; 20]);
    assert_eq!(story.node("n1").takes_requests() + taken, fits + 5 + 1);
}

#[test]
fn requests_that_wait_for_another_node_beyond_the_bound_get_an_error() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    let set = format!("SET a4 {}", "x".repeat(VALUE_BYTES));
    // One user at one address gets seven eighths, and others find room then.
    let fits = PARKED_BYTES_MAX / 8 * 7 / request(&set).len();
    // A packet for each eighty, so that the connection to n1 never owes too much.
    let names: Vec<String> = (0..fits + 3).map(|n| format!("c{n}")).collect();
    let ask = ask("a4", "n9");
    for names in names.chunks(KEPT_BYTES_MAX / VALUE_BYTES - 4) {
        names.iter().for_each(|name| drop(story.client(name).says(&set)));
        assert_eq!(story.node("n1").takes_requests(), names.len());
        story.node("n1").answers(vec![&*ask; names.len()]);
    }
    for (n, name) in names.iter().enumerate() {
        let got = story.client(name).takes_text();
        assert_eq!(got.is_empty(), n < fits, "{name} of {fits} got {got}");
        let full =
            "-ERR respool: given up after 1 tries, the last answer was: ASK 3788 n9:7000\r\n";
        assert!(got.is_empty() || got == full, "{got}");
    }
    story.client("other@10.0.0.2").says(&set);
    assert_eq!(story.node("n1").takes_requests(), 1);
    story.node("n1").answers(&*ask);
    story.client("other@10.0.0.2").gets_nothing();
    // Those that fit are served when the node is there.
    story.lets_connect("n9");
    let mut served = 0;
    while let Some(line) = story.node("n9").takes_one() {
        served += usize::from(line.starts_with("SET a4"));
        story.node("n9").answers("+OK");
    }
    assert_eq!(served, fits + 1);
    for name in ["c0", "other@10.0.0.2"] {
        assert_eq!(story.client(name).takes_text(), "+OK\r\n");
    }
}

#[test]
fn a_client_that_sends_no_more_gets_what_is_parked_and_is_closed_then() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    story.client("a").says(["GET a4", "MGET a8 b8"]);
    let (first, second) = (moved("a4", "n9"), moved("a8", "n9"));
    story.node("n1").gets(["GET a4", "MGET a8"]).answers([&*first, &*second]);
    story.node("n2").gets("MGET b8").answers(&list("\"b\""));
    story.client("a").ends().is_open();
    story.lets_connect("n9");
    story.node("n9").gets(["GET a4", "MGET a8"]).answers(["\"4\"", &*list("\"8\"")]);
    story.client("a").gets(["\"4\"", &*list(["\"8\"", "\"b\""])]).is_closed();
    assert!(story.engine.is_quiet());
}

#[test]
fn a_drain_waits_for_what_is_parked() {
    let mut story = Story::warm_cluster_beside("n9");
    story.lets_connects_hang("n9");
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").moved("a4", "n9");
    story.engine.drain();
    story.after_ms(100).client("a").gets_nothing().is_open();
    assert!(!story.engine.is_quiet());
    story.lets_connect("n9");
    story.node("n9").gets("GET a4").answers("\"v\"");
    story.after_ms(100).client("a").gets("\"v\"").is_closed();
    assert!(story.engine.is_quiet());
}

#[test]
fn a_pause_of_writes_holds_the_parts_as_well() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["CLIENT PAUSE 200 WRITE", "MGET a4 b4", "MSET a4 1 b4 2"]);
    story.node("n1").gets("MGET a4").gets_nothing().answers(&list("nil"));
    story.node("n2").gets("MGET b4").gets_nothing().answers(&list("nil"));
    story.client("a").gets(["+OK", &*list(["nil", "nil"])]);
    story.after_ms(200).node("n1").gets("MSET a4 1").answers("+OK");
    story.node("n2").gets("MSET b4 2").answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn a_slow_reader_delays_only_the_node_it_reads_from() {
    let mut story = Story::warm_cluster();
    story.client("slow").stops_taking().says("GET a4");
    let value = [&b"$30000000\r\n"[..], &vec![b'x'; 8 << 20]].concat();
    story.node("n1").gets("GET a4").sends(&value);
    assert!(story.node("n1").unread() > 0, "the node is not read while nobody takes its reply");
    story.client("a").says(["GET a8", "GET b4", "MGET a8 b4"]);
    // Whoever wants that node goes on over another connection.
    story.node_conn("n1", 2).gets(["GET a8", "MGET a8"]).answers(["\"8\"", &*list("\"8\"")]);
    story.node("n2").gets(["GET b4", "MGET b4"]).answers(["\"b\"", &*list("\"b\"")]);
    story.client("a").gets(["\"8\"", "\"b\"", &*list(["\"8\"", "\"b\""])]);
    story.client("slow").is_open();
}

#[test]
fn without_the_password_nothing_reaches_a_node() {
    let mut story = Story::cluster_with(|settings| {
        settings.users = engine::acl::Users::with_password(b"secret").into();
    });
    story.client("a").says(["GET a4", "MGET a4 b4", "DBSIZE", "AUTH secret", "GET a4"]);
    let refused = "-NOAUTH Authentication required.";
    story.client("a").gets([refused, refused, refused, "+OK"]);
    story.node("n1").gets("GET a4").gets_nothing();
}
