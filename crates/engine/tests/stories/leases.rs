//! Connections of clients' own as a stock: how many there are, whose turn it is, and which are kept ready.

use crate::words::Story;

const PONG: &str = "*1\r\n+PONG\r\n";

/// Cycles of a run in `make test`; with `RESPOOL_LONG=1` ten times as many.
const CYCLES: usize = 100_000;

/// One transaction over a connection of its own, as its server sees it.
fn transaction(story: &mut Story, client: &str, conn: usize) {
    story.client(client).says(["MULTI", "PING", "EXEC"]);
    story.conn(conn).gets(["MULTI", "PING", "EXEC"]).answers(["+OK", "+QUEUED", PONG]);
    story.client(client).gets(["+OK", "+QUEUED", PONG]);
}

#[test]
fn a_million_cycles_keep_to_the_bound() {
    let mut story = Story::with_limits(|limits| {
        limits.leases_max = 3;
        limits.leases_min = 1;
    });
    let cycles = if std::env::var_os("RESPOOL_LONG").is_some() { 10 * CYCLES } else { CYCLES };
    transaction(&mut story, "a", 1);
    for cycle in 0..cycles {
        match cycle % 3 {
            0 => transaction(&mut story, "a", 1),
            1 => {
                story.client("b").says("BLPOP l 0");
                story.conn(1).gets("BLPOP l 0").answers("nil");
                story.client("b").gets("nil");
            }
            _ => {
                story.client("c").says(["WATCH k", "UNWATCH"]);
                story.conn(1).gets(["WATCH k", "UNWATCH"]).answers(["+OK", "+OK"]);
                story.client("c").gets(["+OK", "+OK"]);
            }
        }
    }
    // The one that is used and the one that is kept ready.
    assert_eq!((story.connects_made(), story.open_conns()), (2, 2));
}

#[test]
fn clients_that_die_in_the_middle_cost_one_connection_each_and_never_more_at_once() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 2);
    for cycle in 1..200 {
        for name in ["a", "b", "c"] {
            story.client(&format!("{name}{cycle}")).says("BLPOP l 0");
        }
        assert!(story.open_conns() <= 2, "{} in cycle {cycle}", story.open_conns());
        for name in ["a", "b", "c"] {
            story.client(&format!("{name}{cycle}")).dies();
        }
        assert_eq!(story.open_conns(), 0);
    }
}

#[test]
fn an_idle_one_of_another_kind_does_not_lift_the_bound() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 1);
    story.client("a").says("BLPOP a 0");
    story.conn(1).gets("BLPOP a 0").answers("nil");
    story.client("a").gets("nil");
    story.client("b").says("SELECT 3").gets("+OK").says("BLPOP b 0");
    let taken = story.connects_made();
    story.conn(taken).gets("BLPOP b 0");
    // One is idle that would fit, but as many as may be are in use.
    story.client("a").says("BLPOP a 0");
    story.conn(1).gets_nothing();
    story.conn(taken).answers("nil");
    story.conn(1).gets("BLPOP a 0");
}

#[test]
fn whoever_comes_later_does_not_overtake_those_that_wait() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 1);
    for name in ["a", "b", "c"] {
        story.client(name).says(&format!("BLPOP {name} 0"));
    }
    // The reply that frees it and a new wish come in one turn.
    story.client("d").sends_at_once(&crate::words::request("BLPOP d 0"));
    story.conn(1).gets("BLPOP a 0").answers("nil");
    for name in ["b", "c", "d"] {
        story.conn(1).gets(&format!("BLPOP {name} 0")).gets_nothing().answers("nil");
    }
}

#[test]
fn so_many_are_kept_ready_from_the_first_one_on() {
    let mut story = Story::with_limits(|limits| limits.leases_min = 2);
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    assert_eq!(story.connects_made(), 1, "nobody wanted one yet");
    story.client("a").gets("nil").says("BLPOP a 0");
    assert_eq!(story.open_conns(), 4);
    story.conn(2).gets("BLPOP a 0");
    story.client("b").says("BLPOP b 0");
    story.conn(3).gets("BLPOP b 0");
    assert_eq!(story.open_conns(), 5, "another one for the next");
    story.conn(3).answers("nil");
    story.conn(2).answers("nil");
    // Idle for long: two stay and are asked whether they live, the others go.
    for _ in 0..3 {
        story.after_ms(10_000);
        assert_eq!(story.open_conns(), 3);
        story.conn(4).gets("PING").answers("+PONG");
        story.conn(5).gets("PING").answers("+PONG");
    }
}

// Else the next client would wait for a connect that begins later, and others would go on for longer meanwhile.
#[test]
fn one_that_is_on_its_way_is_taken_before_another_one_is_made() {
    let mut story = Story::with_limits(|limits| limits.leases_min = 1);
    story.client("a").says("BLPOP a 0");
    story.conn(1).gets("BLPOP a 0");
    assert_eq!(story.connects_made(), 2, "the next one's");
    story.lets_connects_hang("127.0.0.1");
    story.client("b").says("BLPOP b 0");
    story.conn(2).gets("BLPOP b 0");
    assert_eq!(story.connects_made(), 3, "made when that was taken");
    story.client("c").says("BLPOP c 0");
    assert_eq!(story.connects_made(), 3, "it is on its way already");
    story.client("d").says("BLPOP d 0");
    assert_eq!(story.connects_made(), 4);
    story.lets_connect("127.0.0.1");
    story.conn(3).gets("BLPOP c 0");
    story.conn(4).gets("BLPOP d 0");
    assert_eq!(story.connects_made(), 5, "and one is kept ready again");
}

#[test]
fn in_another_database_one_is_kept_ready_while_a_client_is_there() {
    let mut story = Story::with_limits(|limits| limits.leases_min = 1);
    story.client("a").says("SELECT 3").gets("+OK").says("BLPOP a 0");
    let taken = story.connects_made() - 1;
    story.conn(taken).gets("BLPOP a 0").answers("nil");
    story.client("a").gets("nil");
    let (shared, made) = (taken - 1, story.connects_made());
    for _ in 0..3 {
        story.after_ms(10_000);
        assert_eq!(story.open_conns(), shared + 1, "one is idle");
        story.conn(made).gets("PING").answers("+PONG");
    }
    // The next one waits for no connect.
    story.lets_connects_hang("127.0.0.1");
    story.client("a").says("BLPOP a 0");
    story.conn(made).gets("BLPOP a 0").answers("nil");
    story.client("a").gets("nil").dies();
    story.lets_connect("127.0.0.1");
    for _ in 0..3 {
        story.after_ms(10_000);
    }
    assert_eq!(story.open_conns(), shared, "nobody is there who could want one");
}

#[test]
fn one_that_is_kept_ready_and_died_silently_is_noticed() {
    let mut story = Story::with_limits(|limits| limits.leases_min = 1);
    story.client("a").says("BLPOP a 0");
    story.conn(1).gets("BLPOP a 0").answers("nil");
    story.client("a").gets("nil");
    // One goes, as another one is idle. That one is asked.
    story.after_ms(10_000);
    story.conn(1).is_closed();
    story.conn(2).gets("PING");
    // While it owes the answer it is given to nobody.
    story.client("a").says("BLPOP a 0");
    story.conn(3).gets("BLPOP a 0");
    story.after_ms(10_000);
    story.conn(2).is_closed();
}

// Found by fault row 2: each transaction of a pipeline waited for the whole time, over one connection after the other.
#[test]
fn of_a_server_that_leaves_one_request_without_a_reply_no_quiet_connection_is_used() {
    let mut story = Story::with_limits(|limits| limits.leases_min = 1);
    story.client("b").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.client("b").gets("nil").says("BLPOP b 0");
    story.conn(2).gets("BLPOP b 0");
    story.after_ms(1_000);
    story.client("a").says("WATCH k");
    story.conn(3).gets("WATCH k").answers("+OK");
    story.client("a").gets("+OK");
    story.after_ms(1_000);
    assert_eq!(story.open_conns(), 4, "one is kept ready");
    story.lets_connects_hang("127.0.0.1");
    story.client("a").says(["GET k", "UNWATCH", "WATCH k", "GET k"]);
    story.after_ms(10_000);
    assert!(story.client("a").takes_text().contains("gave no reply for 10000 ms"));
    // Neither the one that is kept ready nor the shared one, which have said nothing for as long.
    story.conn(1).is_closed();
    story.conn(4).is_closed();
    story.after_ms(1_000);
    let text = story.client("a").takes_text();
    assert!(text.contains("connect: timed out"), "{text}");
    story.client("a").gets_nothing();
    // Who is blocked waits on.
    story.conn(2).answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn a_server_that_is_down_is_not_stormed_for_the_sake_of_readiness() {
    let mut story = Story::with_limits(|limits| limits.leases_min = 4).by_hand();
    story.client("a").says("BLPOP a 0");
    story.connect_fails("connect: Connection refused");
    story.client("a").takes();
    assert_eq!(story.connects_made(), 1);
}

// A thousand clients that begin to wait at once would overflow the server's queue of new connections.
#[test]
fn connections_are_opened_some_at_a_time() {
    let mut story = Story::new();
    story.lets_connects_hang("127.0.0.1");
    let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    for name in &names {
        story.client(name).says(&*format!("BLPOP l{name} 0"));
    }
    let at_first = story.connects_made();
    assert!((100..=200).contains(&at_first), "{at_first}");
    // When those are there the next ones are opened, in the order in which the clients came.
    story.lets_connect("127.0.0.1");
    assert_eq!(story.connects_made(), names.len());
    for number in 1..=names.len() {
        story.conn(number).gets(&*format!("BLPOP l{} 0", number - 1));
    }
}
