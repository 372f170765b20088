//! Equal reads of several clients that wait together are sent once, and nobody can tell.

use crate::words::cluster::{lost, moved};
use crate::words::{Story, bulk, request, wire};
use engine::limits::{SHARED_READ_BYTES_MAX, SHARERS_MAX};
use engine::settings::Limits;
use engine::{Settings, hotkeys, observed, slowlog};

const MIB: usize = 1 << 20;
const OVERTAKEN: &str = "-ERR respool: not done: while slots or nodes were on the move, the server did what \
                         this client sent behind it";
const RESET: &str = "-ERR respool: upstream 127.0.0.1:6379: connection reset";

/// One server, connected; equal reads are sent once.
fn story() -> Story {
    story_with(|_| {})
}

/// The same with other settings.
fn story_with(change: impl FnOnce(&mut Settings)) -> Story {
    let mut settings = Settings { coalesce_reads: true, ..Settings::default() };
    change(&mut settings);
    let mut story = Story::with(settings);
    story.client("warm").says("GET warm");
    story.server().gets("GET warm").answers("nil");
    story.client("warm").gets("nil");
    story
}

/// Each of these clients says these lines, all in one turn and in this order.
fn at_once(story: &mut Story, said: &[(&str, &[&str])]) {
    // They are there already, and clients are read by the order of their names.
    for (name, lines) in said {
        let bytes: Vec<u8> = lines.iter().flat_map(|line| request(line)).collect();
        story.client(name).sends_at_once(&bytes);
    }
    story.turn();
}

#[test]
fn equal_reads_of_a_turn_are_sent_once_and_each_client_gets_the_reply() {
    let mut story = story();
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"]), ("c", &["GET k"])]);
    story.server().gets("GET k").gets_nothing().answers("\"v\"");
    for name in ["a", "b", "c"] {
        story.client(name).gets("\"v\"");
    }
    let stats = story.engine.stats();
    assert_eq!((stats.requests, stats.coalesced), (4, 2));
    let get = engine::command::ids::GET;
    assert_eq!(stats.commands[get.index()].calls, 4);
    assert_eq!(stats.latencies[get.index()].count(), 4);
}

#[test]
fn without_the_option_each_is_sent() {
    let mut story = story_with(|settings| settings.coalesce_reads = false);
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"])]);
    story.server().gets(["GET k", "GET k"]);
    assert_eq!(story.engine.stats().coalesced, 0);
}

#[test]
fn the_option_changes_while_it_runs() {
    let mut story = story_with(|settings| settings.coalesce_reads = false);
    story.reconfigures(|settings| settings.coalesce_reads = true);
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"])]);
    story.server().gets("GET k").gets_nothing();
    story.reconfigures(|settings| settings.coalesce_reads = false);
    story.server().answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.client("b").gets("\"v\"");
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"])]);
    story.server().gets(["GET k", "GET k"]);
}

#[test]
fn what_was_sent_already_is_not_shared() {
    let mut story = story();
    story.client("a").says("GET k");
    story.client("b").says("GET k");
    story.server().gets(["GET k", "GET k"]).answers(["\"1\"", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("b").gets("\"2\"");
}

#[test]
fn what_waits_behind_a_full_socket_is_shared() {
    let mut story = story();
    story.server().stops_taking();
    story.client("a").says("GET k");
    story.client("b").says("GET k");
    story.client("c").says("GET k");
    story.server().takes_all();
    // The driver had the first one.
    story.server().gets(["GET k", "GET k"]).gets_nothing().answers(["\"1\"", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("b").gets("\"2\"");
    story.client("c").gets("\"2\"");
}

/// Simulation seed 746: nothing more is to be sent, so the connection was not weighed again.
#[test]
fn a_shared_read_that_waits_behind_a_large_request_counts_as_memory() {
    let mut story = story();
    story.server().stops_taking();
    let value = "x".repeat(MIB / 8);
    story.client("a").says(&format!("SET big {value}"));
    story.client("b").says("GET k");
    story.client("c").says("GET k");
    story.server().takes_all();
    assert_eq!(story.server().takes_requests(), 2);
    story.server().answers("+OK").answers("\"1\"");
    story.client("a").gets("+OK");
    story.client("b").gets("\"1\"");
    story.client("c").gets("\"1\"");
}

#[test]
fn only_equal_bytes_of_pure_reads_are_shared() {
    let mut story = story();
    let lines = ["GET k", "get k", "GET l", "TTL k", "SRANDMEMBER s", "INCR n", "HGET h f"];
    at_once(&mut story, &[("a", &lines), ("b", &lines)]);
    let of_b = ["TTL k", "SRANDMEMBER s", "INCR n"];
    story.server().gets([&lines[..], &of_b].concat()).gets("HGET h f").gets_nothing();
}

#[test]
fn a_long_read_is_sent_by_itself() {
    let mut story = story();
    let long = "k".repeat(SHARED_READ_BYTES_MAX);
    let line = format!("GET {long}");
    at_once(&mut story, &[("a", &[&line]), ("b", &[&line])]);
    assert_eq!((story.server().waiting(), story.engine.stats().coalesced), (2, 0));
}

#[test]
fn a_pipeline_of_reads_shares_them_in_its_order() {
    let mut story = story();
    let lines = ["GET k", "GET l", "MGET k l", "HGETALL h"];
    at_once(&mut story, &[("a", &lines), ("b", &lines), ("c", &["GET l", "GET k"])]);
    // To share the first one as well would let the later read of `c` see an older state than its earlier one.
    story.server().gets(lines.to_vec()).gets("GET k").gets_nothing();
    story.server().answers(["\"1\"", "\"2\"", "*0", "*0", "\"3\""]);
    story.client("a").gets(["\"1\"", "\"2\"", "*0", "*0"]);
    story.client("b").gets(["\"1\"", "\"2\"", "*0", "*0"]);
    story.client("c").gets(["\"2\"", "\"3\""]);
}

#[test]
fn a_client_sees_what_it_wrote_itself() {
    let mut story = story();
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k", "SET k 2", "GET k", "GET k"])]);
    story.server().gets(["GET k", "SET k 2", "GET k", "GET k"]).gets_nothing();
    story.server().answers(["\"1\"", "+OK", "\"2\"", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("b").gets(["\"1\"", "+OK", "\"2\"", "\"2\""]);
}

#[test]
fn a_write_by_any_way_stands_between() {
    // On the short way, over the closer look (`SET` of an inline request), and of a transaction in one packet.
    let writes: [&[u8]; 3] = [
        &request("SET k 2"),
        b"SET k 2\r\n",
        &[request("MULTI"), request("SET k 2"), request("EXEC")].concat(),
    ];
    for write in writes {
        let mut story = story();
        story.client("a").sends_at_once(&request("GET k"));
        story.client("b").sends_at_once(&[write, &request("GET k")].concat());
        story.turn();
        let requests: Vec<String> = std::iter::from_fn(|| story.server().takes_one()).collect();
        assert_eq!(requests.iter().filter(|line| *line == "GET k").count(), 2, "{requests:?}");
    }
}

#[test]
fn a_read_behind_a_write_is_shared_by_others() {
    let mut story = story();
    let of_b = ["SET k 2", "GET k"];
    at_once(&mut story, &[("a", &["GET k"]), ("b", &of_b), ("c", &["GET k"])]);
    // What was remembered last is the one behind the write.
    story.server().gets(["GET k", "SET k 2", "GET k"]).gets_nothing();
    story.server().answers(["\"1\"", "+OK", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("b").gets(["+OK", "\"2\""]);
    story.client("c").gets("\"2\"");
}

#[test]
fn protocols_and_databases_are_not_mixed() {
    let mut story = story();
    story.client("c").says("HELLO 3").takes();
    story.client("d").says("SELECT 2").gets("+OK");
    let line: &[&str] = &["GET k"];
    at_once(&mut story, &[("a", line), ("b", line), ("c", line), ("d", line)]);
    for conn in 1..=3 {
        story.conn(conn).gets("GET k").gets_nothing().answers(&format!("\"{conn}\""));
    }
    for (name, value) in [("a", "\"1\""), ("b", "\"1\""), ("c", "\"2\""), ("d", "\"3\"")] {
        story.client(name).gets(value);
    }
}

#[test]
fn clients_with_a_state_of_their_own_do_not_share() {
    let mut story = story();
    story.client("m").says("MULTI");
    story.client("s").says(["CLIENT REPLY OFF"]).gets_nothing();
    story.client("t").says("HELLO 3").takes();
    story.client("t").says("CLIENT TRACKING ON").takes();
    let line: &[&str] = &["GET k"];
    at_once(&mut story, &[("a", line), ("m", line), ("s", line), ("t", line)]);
    assert_eq!(story.engine.stats().coalesced, 0);
    story.conn(1).gets(["GET k", "GET k"]).gets_nothing();
}

#[test]
fn nothing_is_shared_while_somebody_watches() {
    let mut story = story();
    story.client("m").says("MONITOR").takes();
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"])]);
    story.server().gets(["GET k", "GET k"]);
    assert_eq!(story.client("m").takes_text().matches("\"GET\" \"k\"").count(), 2);
}

#[test]
fn only_so_many_share_one_and_the_next_is_shared_in_its_turn() {
    let mut story = story();
    let names: Vec<String> = (0..SHARERS_MAX * 2 + 10).map(|n| format!("c{n:03}")).collect();
    let said: Vec<(&str, &[&str])> =
        names.iter().map(|name| (name.as_str(), &["GET k"][..])).collect();
    at_once(&mut story, &said);
    story.server().gets(["GET k", "GET k", "GET k"]).gets_nothing();
    story.server().answers(["\"1\"", "\"2\"", "\"3\""]);
    for (at, name) in names.iter().enumerate() {
        story.client(name).gets(&format!("\"{}\"", at / (SHARERS_MAX + 1) + 1));
    }
}

#[test]
fn who_leaves_disturbs_nobody_be_it_the_first_one() {
    for leaver in ["a", "b", "c"] {
        let mut story = story();
        let line: &[&str] = &["GET k"];
        at_once(&mut story, &[("a", line), ("b", line), ("c", line)]);
        story.client(leaver).dies();
        story.server().gets("GET k").answers("\"v\"");
        for name in ["a", "b", "c"].into_iter().filter(|name| *name != leaver) {
            story.client(name).gets("\"v\"").says("GET l");
            story.server().gets("GET l").answers("\"w\"");
            story.client(name).gets("\"w\"");
        }
    }
}

#[test]
fn an_error_is_everybodys() {
    let mut story = story();
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"])]);
    story.server().answers("-WRONGTYPE no");
    story.client("a").gets("-WRONGTYPE no");
    story.client("b").gets("-WRONGTYPE no");
    let stats = story.engine.stats();
    assert_eq!(stats.commands[engine::command::ids::GET.index()].failed, 2);
    assert_eq!(stats.errors.iter().collect::<Vec<_>>(), [("WRONGTYPE", 2)]);
}

#[test]
fn replies_split_at_any_byte_are_the_same() {
    let lines = ["GET k", "GET l", "GET m"];
    let replies = [wire("\"one\""), wire("-ERR two"), wire("\"three\"")].concat();
    for split in 1..replies.len() {
        let mut story = story();
        at_once(&mut story, &[("a", &lines), ("b", &["GET l"]), ("c", &["GET m"])]);
        story.server().gets(lines.to_vec()).gets_nothing();
        story.server().sends(&replies[..split]).sends(&replies[split..]);
        story.client("a").gets(["\"one\"", "-ERR two", "\"three\""]);
        story.client("b").gets("-ERR two");
        story.client("c").gets("\"three\"");
    }
}

#[test]
fn a_lost_connection_is_an_error_for_each() {
    let mut story = story();
    at_once(&mut story, &[("a", &["SET x 1", "GET k", "GET l"]), ("b", &["GET k"])]);
    story.server().takes_requests();
    story.after_ms(2_000).server().dies("connection reset");
    story.client("a").gets([RESET, RESET, RESET]).is_open();
    story.client("b").gets(RESET).is_open();
}

#[test]
fn what_never_left_goes_out_over_the_next_connection_and_is_shared_there() {
    let mut story = story();
    story.after_ms(2_000).server().stops_taking();
    story.client("w").says("SET w 1");
    at_once(
        &mut story,
        &[("a", &["GET j", "GET k", "GET l"]), ("b", &["GET k"]), ("c", &["GET l"])],
    );
    story.server().dies("connection reset");
    story.client("w").gets(RESET);
    story.server().gets(["GET j", "GET k", "GET l"]).gets_nothing();
    story.server().answers(["\"1\"", "\"2\"", "\"3\""]);
    story.client("a").gets(["\"1\"", "\"2\"", "\"3\""]);
    story.client("b").gets("\"2\"");
    story.client("c").gets("\"3\"");
}

#[test]
fn what_is_carried_to_a_connection_that_does_not_come_is_an_error_for_each() {
    let mut story = story().by_hand();
    story.after_ms(2_000).server().stops_taking();
    story.client("w").says("SET w 1");
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"])]);
    story.server().dies("connection reset");
    story.connect_fails("connect: Connection refused");
    let refused = "-ERR respool: upstream 127.0.0.1:6379: the connection broke before the request was sent: connect: Connection refused";
    story.client("a").gets(refused);
    story.client("b").gets(refused);
}

#[test]
fn a_read_that_a_node_of_a_cluster_lost_is_asked_again_for_each() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    at_once(&mut story, &[("a", &["GET a4", "GET a8"]), ("b", &["GET a8", "SET a12 1"])]);
    story.node("n1").gets(["GET a4", "GET a8", "SET a12 1"]);
    story.after_ms(2_000).node("n1").dies("connection reset");
    story.node_conn("n1", 2).gets(["GET a4", "GET a8", "GET a8"]).gets_nothing();
    story.node_conn("n1", 2).answers(["\"4\"", "\"8\"", "\"8\""]);
    story.client("a").gets(["\"4\"", "\"8\""]);
    story.client("b").gets(["\"8\"", &lost("n1", "connection reset")]);
}

#[test]
fn a_read_before_a_lost_write_of_its_client_is_not_asked_again() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET a4", "SET a4 1"])]);
    story.node("n1").gets(["GET a4", "SET a4 1"]);
    story.after_ms(2_000).node("n1").dies("connection reset");
    // Asked again, the read of `b` could see what `b` wrote behind it.
    story.node_conn("n1", 2).gets("GET a4").gets_nothing().answers("\"v\"");
    story.client("a").gets("\"v\"");
    let lost = lost("n1", "connection reset");
    story.client("b").gets([&*lost, &*lost]);
}

#[test]
fn a_redirect_sends_each_on_by_itself() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET a4"]), ("c", &["GET a4"])]);
    story.client("b").dies();
    story.node("n1").gets("GET a4").gets_nothing().moved("a4", "n2");
    story.node("n2").gets(["GET a4", "GET a4"]).gets_nothing().answers(["\"1\"", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("c").gets("\"2\"");
    assert_eq!(story.engine.stats().redirects, 3);
}

#[test]
fn asking_stands_before_each() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET a4"])]);
    story.node("n1").gets("GET a4").ask("a4", "n2");
    // A read of the same bytes does not share one that stands behind ASKING.
    story.client("c").says("GET a4");
    story.node("n1").gets("GET a4").answers("nil");
    story.client("c").gets("nil");
    story.node("n2").gets(["ASKING", "GET a4", "ASKING", "GET a4"]);
    story.node("n2").answers(["+OK", "\"1\"", "+OK", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("b").gets("\"2\"");
}

#[test]
fn later_is_later_for_each() {
    let said = [
        "-TRYAGAIN x",
        "-LOADING Redis is loading the dataset in memory",
        "-CLUSTERDOWN The cluster is down",
    ];
    for word in said {
        let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
        at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET a4"])]);
        story.node("n1").gets("GET a4").answers(word);
        story.after_ms(20).node("n1").gets(["GET a4", "GET a4"]).answers(["\"1\"", "\"2\""]);
        story.client("a").gets("\"1\"");
        story.client("b").gets("\"2\"");
    }
}

#[test]
fn a_pipeline_that_moves_keeps_the_order_of_each() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    let of_b = ["GET a4", "SET a4 2", "GET a4"];
    at_once(&mut story, &[("a", &["GET a4"]), ("b", &of_b)]);
    story.node("n1").gets(["GET a4", "SET a4 2", "GET a4"]);
    let moved = moved("a4", "n2");
    story.node("n1").answers([&*moved, &*moved, &*moved]);
    story.node("n2").gets(["GET a4", "GET a4", "SET a4 2", "GET a4"]);
    story.node("n2").answers(["\"1\"", "\"1\"", "+OK", "\"2\""]);
    story.client("a").gets("\"1\"");
    story.client("b").gets(["\"1\"", "+OK", "\"2\""]);
}

#[test]
fn what_is_asked_again_for_the_first_one_is_answered_for_the_others() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    let of_a = ["MSET {a4}x 1 {a4}y 1", "GET {a4}x"];
    at_once(&mut story, &[("a", &of_a), ("b", &["GET {a4}x"])]);
    story.node("n1").gets(of_a).gets_nothing().answers(["-TRYAGAIN x", "\"old\""]);
    // `b` wrote nothing.
    story.client("b").gets("\"old\"");
    story.client("a").gets_nothing();
    story.after_ms(20).node("n1").gets(of_a).answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
}

#[test]
fn who_shares_sees_what_was_put_off() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    // `a` writes; later, while that is not answered, `b` reads what was written, and `a` shares that read.
    story.client("a").says("MSET {a4}x 1 {a4}y 1");
    story.node("n1").stops_taking();
    story.client("w").says("GET {a4}w");
    story.client("b").says("GET {a4}y");
    story.client("a").says("GET {a4}y");
    assert_eq!(story.engine.stats().coalesced, 1);
    story.node("n1").takes_all();
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "GET {a4}w", "GET {a4}y"]).gets_nothing();
    story.node("n1").answers(["-TRYAGAIN x", "nil", "\"old\""]);
    story.client("b").gets("\"old\"");
    story.client("a").gets_nothing();
    story
        .after_ms(20)
        .node("n1")
        .gets(["MSET {a4}x 1 {a4}y 1", "GET {a4}y"])
        .answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
}

#[test]
fn a_write_behind_a_shared_read_that_was_put_off_is_seen() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET a4", "SET a4 2"])]);
    story.node("n1").gets(["GET a4", "SET a4 2"]).answers(["-TRYAGAIN x", "+OK"]);
    // Asked again, the read of `b` would see what `b` wrote behind it.
    story.after_ms(20).node("n1").gets("GET a4").gets_nothing().answers("\"2\"");
    story.client("a").gets("\"2\"");
    story.client("b").gets([OVERTAKEN, "+OK"]);
}

#[test]
fn reads_are_shared_at_the_owner_of_their_key() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    let lines = ["GET a4", "GET b4", "GET a8", "GET c1"];
    at_once(&mut story, &[("a", &lines), ("b", &lines), ("c", &["GET b4", "GET x", "GET a8"])]);
    story.node("n1").gets(["GET a4", "GET a8"]).gets_nothing().answers(["\"4\"", "\"8\""]);
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.node("n3").takes_requests();
    story.node("n3").answers(["\"c\"", "\"x\""]);
    for name in ["a", "b"] {
        story.client(name).gets(["\"4\"", "\"b\"", "\"8\"", "\"c\""]);
    }
    story.client("c").gets(["\"b\"", "\"x\"", "\"8\""]);
}

#[test]
fn a_large_reply_goes_to_all_as_it_comes() {
    let mut story = story();
    at_once(&mut story, &[("a", &["GET big", "GET k"]), ("b", &["GET big"]), ("c", &["GET big"])]);
    story.server().gets(["GET big", "GET k"]).gets_nothing();
    let reply = bulk(MIB);
    story.server().sends(&reply[..40_000]);
    for name in ["a", "b", "c"] {
        assert_eq!(story.client(name).takes().len(), 40_000);
    }
    story.client("b").dies();
    story.server().sends(&[&reply[40_000..], b"$-1\r\n"].concat());
    assert!(story.client("a").takes() == [&reply[40_000..], b"$-1\r\n"].concat());
    assert!(story.client("c").takes() == reply[40_000..]);
    // Their next replies are whole ones of their own.
    at_once(&mut story, &[("a", &["GET k"]), ("c", &["GET k"])]);
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.client("c").gets("\"v\"");
}

#[test]
fn a_large_reply_goes_on_when_the_first_one_left() {
    for at in [0, 40_000] {
        let mut story = story();
        at_once(&mut story, &[("a", &["GET big"]), ("b", &["GET big"])]);
        let reply = bulk(MIB);
        story.server().sends(&reply[..at]);
        story.client("a").dies();
        story.server().sends(&reply[at..]);
        assert!(story.client("b").takes() == reply);
    }
}

#[test]
fn a_large_reply_that_nobody_wants_any_more_is_dropped_as_it_comes() {
    let mut story = story();
    at_once(&mut story, &[("a", &["GET big"]), ("b", &["GET big"]), ("c", &["GET k"])]);
    story.client("a").dies();
    story.client("b").dies();
    story.server().is_read().sends(&[bulk(8 * MIB), wire("nil")].concat());
    story.client("c").gets("nil");
}

#[test]
fn a_large_reply_cut_at_any_place_is_the_same_reply() {
    let nested = [&b"*3\r\n"[..], &bulk(50_000), b":1\r\n", &bulk(3), b"+OK\r\n"].concat();
    let cuts = (1..60).chain(32_700..32_800).chain(49_990..50_040);
    for cut in cuts.filter(|cut| *cut < nested.len()) {
        let mut story = story();
        let line = "LRANGE l 0 2";
        at_once(&mut story, &[("a", &[line, "SET k v"]), ("b", &[line])]);
        story.server().sends(&nested[..cut]).sends(&nested[cut..]);
        assert!(story.client("a").takes() == nested, "cut at {cut}");
        assert!(story.client("b").takes() == nested[..nested.len() - 5], "cut at {cut}");
    }
}

#[test]
fn who_has_half_of_a_reply_is_closed_when_the_rest_is_lost() {
    for cluster in [false, true] {
        let mut story = match cluster {
            false => story(),
            true => Story::warm_cluster_with(|settings| settings.coalesce_reads = true),
        };
        at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET a4"]), ("c", &["SET a8 1"])]);
        let reply = bulk(MIB);
        let conn = |story: &mut Story| if cluster { story.connects_to("n1") } else { 1 };
        assert_eq!(conn(&mut story), 1);
        story.conn(1).takes_requests();
        match cluster {
            true => drop(story.node("n1").sends(&reply[..100_000])),
            false => drop(story.server().sends(&reply[..100_000])),
        }
        story.after_ms(2_000);
        match cluster {
            true => story.node("n1").dies("connection reset"),
            false => story.server().dies("connection reset"),
        }
        story.client("a").is_closed();
        story.client("b").is_closed();
        story.client("c").is_open();
    }
}

#[test]
fn a_slow_one_gets_room_and_then_the_others_go_on_without_it() {
    for slow in ["a", "b"] {
        let limits = Limits { client_out_max_bytes: 8 * MIB, ..Limits::default() };
        let mut story = story_with(|settings| settings.limits = limits);
        at_once(&mut story, &[("a", &["GET big"]), ("b", &["GET big"]), ("c", &["GET big"])]);
        story.client(slow).stops_taking();
        let reply = bulk(16 * MIB);
        story.server().sends(&reply[..6 * MIB]).is_read();
        story.server().sends(&reply[6 * MIB..]).is_not_read();
        story.after_ms(19).server().is_not_read();
        story.after_ms(1);
        for name in ["a", "b", "c"].into_iter().filter(|name| *name != slow) {
            assert!(story.client(name).is_open().takes() == reply, "{name} beside {slow}");
        }
        story.client(slow).is_open().takes_all();
        assert!(story.client(slow).takes() == reply, "the slow one, {slow}");
    }
}

#[test]
fn all_are_slow_and_one_after_the_other_goes_on() {
    let mut story = story();
    at_once(&mut story, &[("a", &["GET big"]), ("b", &["GET big"])]);
    story.client("a").stops_taking();
    story.client("b").stops_taking();
    let reply = bulk(40 * MIB);
    story.server().sends(&reply).is_not_read();
    story.after_ms(900).client("a").takes_all();
    story.after_ms(900).client("b").takes_all();
    story.after_ms(10).server().is_read();
    assert!(story.client("a").takes() == reply && story.client("b").takes() == reply);
}

#[test]
fn a_large_reply_waits_until_it_is_everybodys_turn() {
    let mut story = Story::warm_cluster_with(|settings| settings.coalesce_reads = true);
    at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET b4", "GET a4"])]);
    let reply = bulk(MIB);
    story.node("n1").gets("GET a4").sends(&reply[..100_000]);
    story.client("a").gets_nothing();
    story.client("b").gets_nothing();
    story.node("n2").gets("GET b4").answers("\"b\"");
    story.client("b").gets("\"b\"");
    story.node("n1").sends(&reply[100_000..]);
    assert!(story.client("a").takes() == reply && story.client("b").takes() == reply);
}

#[test]
fn whose_turn_has_not_come_gets_its_reply_then() {
    let mut story = Story::warm_cluster_with(|settings| {
        settings.coalesce_reads = true;
        settings.limits.client_out_max_bytes = 2 * MIB;
    });
    at_once(&mut story, &[("a", &["GET a4"]), ("b", &["GET b4", "GET a4"])]);
    let reply = bulk(4 * MIB);
    story.node("n1").gets("GET a4").sends(&reply);
    assert!(story.client("a").takes() == reply);
    story.client("b").gets_nothing();
    story.node("n2").gets("GET b4").answers("\"b\"");
    assert!(story.client("b").takes() == [b"$1\r\nb\r\n", &reply[..]].concat());
}

#[test]
fn observers_see_each_request() {
    let options = hotkeys::Options { enabled: true, sample: 1, ..hotkeys::Options::default() };
    let access = observed::Access { sample: 1, ..observed::Access::default() };
    let mut story = story_with(|settings| {
        settings.hotkeys = options;
        settings.slowlog = slowlog::Options { slower_than_us: 1_000, max_len: 10 };
        settings.observed = observed::Options { access, ..observed::Options::default() };
    });
    while story.engine.poll_observed().is_some() {}
    at_once(&mut story, &[("a", &["GET hot"]), ("b", &["GET hot"]), ("c", &["GET hot"])]);
    story.after_ms(5).server().gets("GET hot").answers("\"v\"");
    let observed = || story.engine.poll_observed();
    let told: Vec<String> = std::iter::from_fn(observed).map(|one| one.key).collect();
    assert_eq!(told, ["hot", "hot", "hot"]);
    story.client("a").takes();
    story.client("a").says("SLOWLOG LEN").gets(":1");
    story.client("a").says("TOPKEYS GET");
    let text = story.client("a").takes_text();
    assert!(text.contains("hot\r\n$10\r\nper_second\r\n:3\r\n$5\r\ncount\r\n:3\r\n"), "{text}");
    story.client("a").says("INFO stats");
    assert!(story.client("a").takes_text().contains("coalesced_reads:2\r\n"));
}

#[test]
fn a_drain_waits_for_all_that_share() {
    let mut story = story();
    at_once(&mut story, &[("a", &["GET k"]), ("b", &["GET k"])]);
    story.engine.drain();
    story.after_ms(100).client("b").is_open();
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.client("b").gets("\"v\"");
    story.after_ms(100).client("b").is_closed();
    assert!(story.engine.is_quiet());
}
