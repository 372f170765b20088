//! Large replies are cut through; a client that takes them slowly disturbs nobody for long.

use crate::words::{Story, bulk, request};
use engine::settings::{Settings, Timeouts};
use engine::slowlog::Options;

const MIB: usize = 1 << 20;

#[test]
fn a_large_reply_goes_out_as_it_comes() {
    let mut story = Story::new();
    story.client("a").says(["GET big", "GET k"]);
    let reply = bulk(MIB);
    story.server().sends(&reply[..40_000]);
    assert_eq!(story.client("a").takes().len(), 40_000);
    story.server().sends(&reply[40_000..MIB]);
    assert_eq!(story.client("a").takes().len(), MIB - 40_000);
    story.server().sends(&[&reply[MIB..], b"$-1\r\n"].concat());
    assert!(story.client("a").takes().ends_with(b"vv\r\n$-1\r\n"));
}

#[test]
fn a_reply_below_the_cut_is_kept_until_it_is_whole() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    let reply = bulk(20_000);
    story.server().sends(&reply[..19_999]);
    story.client("a").gets_nothing();
    story.server().sends(&reply[19_999..]);
    assert_eq!(story.client("a").takes(), reply);
}

#[test]
fn a_large_reply_cut_at_any_place_is_the_same_reply() {
    let nested = [&b"*3\r\n"[..], &bulk(50_000), b":1\r\n", &bulk(3), b"+OK\r\n"].concat();
    let cuts = (1..60).chain(32_700..32_800).chain(49_990..50_040);
    for cut in cuts.filter(|cut| *cut < nested.len()) {
        let mut story = Story::new();
        story.client("a").says(["LRANGE l 0 2", "SET k v"]);
        story.server().sends(&nested[..cut]).sends(&nested[cut..]);
        assert!(story.client("a").takes() == nested, "cut at {cut}");
    }
}

#[test]
fn a_large_reply_for_a_client_that_is_gone_is_dropped_as_it_comes() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("b").says("GET k");
    let reply = bulk(8 * MIB);
    story.server().sends(&reply[..MIB]);
    story.client("a").dies();
    story.server().is_read().sends(&[&reply[MIB..], b"$-1\r\n"].concat());
    story.client("b").gets("nil");
}

#[test]
fn a_silent_large_reply_is_dropped_as_it_comes() {
    let mut story = Story::new();
    story.client("a").says(["CLIENT REPLY SKIP", "GET big", "GET k"]);
    story.server().sends(&[bulk(8 * MIB), b"$-1\r\n".to_vec()].concat());
    story.client("a").gets("nil");
}

#[test]
fn a_slow_reader_alone_stops_the_reading_of_its_server_and_may_take_its_time() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("a").stops_taking();
    story.server().sends(&bulk(32 * MIB)).is_not_read();
    let unread = story.server().unread();
    assert!(unread > 26 * MIB, "only {unread} bytes were left in the socket");
    story.after_ms(600_000).client("a").is_open();
    story.server().is_open();
    story.client("a").takes_all();
    assert_eq!(story.client("a").takes(), bulk(32 * MIB));
    story.server().is_read();
}

#[test]
fn who_comes_while_a_slow_reader_holds_the_connection_gets_a_fresh_one() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("a").stops_taking();
    story.server().sends(&bulk(32 * MIB)).is_not_read();
    story.client("b").says("GET k");
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET k").answers("\"v\"");
    story.client("b").gets("\"v\"");
    // The old connection serves what it owes, and goes.
    story.client("a").takes_all();
    assert_eq!(story.client("a").takes().len(), bulk(32 * MIB).len());
    story.conn(1).is_closed();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k");
}

#[test]
fn the_slow_readers_own_next_request_stays_behind_its_reply() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("a").stops_taking();
    story.server().sends(&bulk(16 * MIB));
    story.client("b").says("GET k");
    story.client("a").says("GET l");
    story.conn(2).gets("GET k").gets_nothing();
    story.client("a").takes_all();
    story.conn(2).gets("GET l");
}

#[test]
fn a_slow_reader_with_others_behind_it_gets_more_room_and_then_they_are_served() {
    let mut story = Story::with_limits(|limits| limits.client_out_max_bytes = 8 * MIB);
    story.client("a").says("GET big");
    story.client("b").says("SET k v");
    story.client("a").stops_taking();
    let reply = [bulk(15 * MIB), b"+OK\r\n".to_vec()].concat();
    story.server().sends(&reply[..6 * MIB]).is_read();
    story.server().sends(&reply[6 * MIB..]).is_not_read();
    story.client("b").gets_nothing();
    story.after_ms(19).server().is_not_read();
    story.after_ms(1).server().is_read();
    story.client("b").gets("+OK");
    // As a server does, we keep what it does not take.
    story.after_ms(60_000).client("a").is_open().takes_all();
    assert!(story.client("a").takes() == bulk(15 * MIB));
}

#[test]
fn what_is_kept_for_others_sake_is_bounded_by_the_memory_of_all() {
    let mut story = Story::with_limits(|limits| {
        limits.client_out_max_bytes = 8 * MIB;
        limits.memory_max_bytes = 12 * MIB;
    });
    story.client("a").says("GET big");
    story.client("b").says("SET k v");
    story.client("a").stops_taking();
    story.server().sends(&[bulk(15 * MIB), b"+OK\r\n".to_vec()].concat());
    story.after_ms(20).client("b").gets("+OK");
    story.client("a").is_closed();
    assert!(story.was_told("it held the most memory when the limit was reached"));
}

#[test]
fn many_slow_readers_before_one_hold_it_up_no_longer_than_one() {
    let mut story = Story::with_limits(|limits| limits.client_out_max_bytes = 4 * MIB);
    let slow: Vec<String> = (0..10).map(|number| format!("slow-{number}")).collect();
    for name in &slow {
        story.client(name).stops_taking().says("GET big");
    }
    story.client("b").says("SET k v");
    for _ in &slow {
        story.conn(1).sends(&bulk(8 * MIB));
    }
    story.conn(1).answers("+OK");
    story.after_ms(20 + 10);
    story.client("b").gets("+OK");
}

#[test]
fn a_slow_reader_that_moves_is_waited_for() {
    let mut settings = Settings::default();
    settings.limits.client_out_max_bytes = 8 * MIB;
    settings.timeouts.stall_ms = 1_000;
    let mut story = Story::with(settings);
    story.client("a").says("GET big");
    story.client("b").says("SET k v");
    story.client("a").stops_taking();
    let reply = [bulk(15 * MIB), b"+OK\r\n".to_vec()].concat();
    story.server().sends(&reply);
    for _ in 0..10 {
        story.after_ms(900).client("a").takes_one_send().is_open();
        assert!(story.server().unread() > 6 * MIB, "it was not waited for");
    }
    story.client("a").takes_all();
    story.client("b").gets("+OK");
}

#[test]
fn one_that_takes_too_little_while_others_wait_for_the_request_timeout_goes() {
    let mut settings = Settings::default();
    settings.limits.client_out_max_bytes = 8 * MIB;
    settings.timeouts = Timeouts { stall_ms: 1_000, request_ms: 3_000, ..Timeouts::default() };
    let mut story = Story::with(settings);
    story.client("a").says("GET big");
    story.client("b").says("SET k v");
    story.client("a").stops_taking();
    story.server().sends(&[bulk(15 * MIB), b"+OK\r\n".to_vec()].concat());
    for _ in 0..3 {
        story.after_ms(900).client("a").takes_one_send().is_open();
    }
    story.after_ms(300).client("a").is_closed();
    story.client("b").gets("+OK");
    assert!(story.was_told("it took its replies too slowly while others waited behind it"));
    assert_eq!(story.engine.stats().clients_evicted, 1);
}

#[test]
fn reads_behind_a_backlog_are_asked_again_over_a_fresh_connection() {
    let slowlog = Options { slower_than_us: 10_000, max_len: 10 };
    let settings = Settings { slowlog, ..Settings::default() };
    let mut story = Story::with(settings);
    for name in ["a", "b", "c", "d", "e"] {
        story.client(name).says("GET k");
        story.server().gets("GET k").answers("nil");
        story.client(name).gets("nil");
    }
    story.client("a").sends(&request("GET big").repeat(20)).stops_taking();
    story.client("b").says(["GET b1", "GET b2"]);
    story.client("c").says("SET k c");
    story.client("d").says(["GET d", "SET k d"]);
    story.client("e").dies();
    let reply = bulk(MIB);
    story.conn(1).sends(&reply[..40_000]);
    assert_eq!(story.connects_made(), 2);
    // Those that only read go over; whoever writes stays, with what it read before.
    story.conn(2).gets(["GET b1", "GET b2"]).gets_nothing().answers(["\"1\"", "\"2\""]);
    story.client("b").gets(["\"1\"", "\"2\""]);
    story.client("d").says("GET later").gets_nothing();
    story.client("f").says("GET f");
    story.conn(2).gets("GET f").gets_nothing();
    let rest =
        [&reply[40_000..], &reply.repeat(19), b"$1\r\nx\r\n$1\r\ny\r\n+OK\r\n$1\r\nd\r\n+OK\r\n"];
    story.conn(1).sends(&rest.concat());
    story.after_ms(30);
    story.client("b").gets_nothing();
    story.client("c").gets("+OK");
    story.client("d").gets(["\"d\"", "+OK"]);
    story.conn(2).gets("GET later");
    story.conn(1).is_closed();
    story.client("a").takes_all();
    assert!(story.client("a").takes() == reply.repeat(20));
}

#[test]
fn many_clients_with_a_few_large_replies_each_are_a_backlog_too() {
    let slowlog = Options { slower_than_us: 10_000, max_len: 10 };
    let settings = Settings { slowlog, ..Settings::default() };
    let mut story = Story::with(settings);
    let reply = bulk(MIB);
    for number in 0..40 {
        let name = number.to_string();
        story.client(&name).says(&format!("GET big-{name}"));
        story.conn(1).gets(&format!("GET big-{name}")).sends(&reply);
        story.client(&name).takes();
    }
    for number in 40..80 {
        story.client(&(number - 40).to_string()).says([&format!("GET big-{number}")[..]; 2]);
    }
    story.client("b").says("GET b");
    assert_eq!(story.connects_made(), 1);
    story.conn(1).sends(&reply);
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET b").gets_nothing().answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn those_who_ask_for_what_is_large_stay_behind() {
    let mut story = Story::new();
    for number in 0..20 {
        story.client(&number.to_string()).says("GET big").stops_taking();
    }
    story.client("b").says("GET b");
    story.conn(1).sends(&bulk(40 * MIB)[..40_000]);
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET b").gets_nothing().answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn an_array_that_turns_out_to_be_large_is_a_backlog() {
    let mut story = Story::new();
    story.client("a").says("LRANGE l 0 -1");
    story.client("b").says("GET b");
    let element = bulk(1 << 10);
    story.conn(1).sends(&[b"*40000\r\n".to_vec(), element.repeat(100)].concat());
    assert_eq!(story.connects_made(), 1);
    story.conn(1).sends(&element.repeat(20_000));
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET b").answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn several_equal_requests_for_a_large_reply_are_a_backlog() {
    let mut story = Story::new();
    for number in 0..5 {
        story.client(&number.to_string()).says("GET big");
    }
    story.client("b").says("GET b");
    story.conn(1).sends(&bulk(4 * MIB)[..40_000]);
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET b").gets_nothing();
}

#[test]
fn what_clients_that_are_gone_asked_for_is_a_backlog_too() {
    let mut story = Story::new();
    story.client("a").says("GET big").dies();
    story.client("b").says("GET b");
    story.conn(1).sends(&bulk(40 * MIB)[..40_000]);
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET b").answers("nil");
    story.client("b").gets("nil");
    story.conn(1).is_closed();
}

#[test]
fn who_comes_when_a_large_reply_has_begun_gets_a_fresh_connection() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.conn(1).sends(&bulk(40 * MIB)[..40_000]);
    assert_eq!(story.connects_made(), 1);
    story.client("b").says("GET b");
    story.conn(1).sends(&bulk(40 * MIB)[40_000..80_000]);
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET b");
}

#[test]
fn a_large_reply_for_a_client_that_left_is_given_up() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.conn(1).sends(&bulk(40 * MIB)[..40_000]).is_open();
    story.client("a").dies();
    story.conn(1).is_closed();
    story.client("b").says("GET b");
    story.conn(2).gets("GET b").answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn a_large_reply_that_is_collected_for_its_renaming_is_a_backlog_too() {
    let mut story = crate::namespace::story();
    for number in 0..5 {
        story.client(&number.to_string()).says("LMPOP 1 l LEFT COUNT 1000000");
    }
    story.client("b").says("GET b");
    let list = b"*2\r\n$3\r\nt:l\r\n*1000000\r\n";
    story.conn(1).sends(&[list.to_vec(), b"$8\r\nt:abcdef\r\n".repeat(400_000)].concat());
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET t:b").gets_nothing();
}

#[test]
fn what_was_asked_again_once_is_not_asked_a_third_time() {
    let mut story = Story::new();
    story.client("known").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("known").gets("nil");
    for number in 0..10 {
        story.client(&number.to_string()).says(&format!("GET big{number}")).stops_taking();
    }
    story.client("known").says("GET k");
    let reply = bulk(40 * MIB);
    story.conn(1).sends(&reply[..40_000]);
    assert_eq!(story.connects_made(), 2);
    // It had small replies, so its request is the first.
    story.conn(2).gets("GET k").gets("GET big1").answers("nil");
    story.client("known").gets("nil");
    story.conn(2).sends(&reply[..40_000]);
    assert_eq!(story.connects_made(), 3);
    story.client("c").says("GET c");
    story.conn(3).gets("GET c").gets_nothing().answers("nil");
    story.client("c").gets("nil");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_read() {
    let mut story = Story::new();
    for number in 0..3 {
        story.client(&number.to_string()).says("GET big").stops_taking();
    }
    story.client("b").says("GET b");
    story.conn(1).sends(&bulk(40 * MIB)[..40_000]);
    story.conn(2).gets("GET b").answers("nil");
    story.client("b").gets("nil");
    for number in 0..3 {
        story.conn(1).is_open();
        story.client(&number.to_string()).dies();
    }
    story.conn(1).is_closed();
}

#[test]
fn a_write_that_nobody_waits_for_any_more_is_waited_for() {
    let mut story = Story::new();
    story.client("a").says("GET big").stops_taking();
    story.client("b").says("SET k b");
    story.conn(1).sends(&bulk(40 * MIB)[..40_000]);
    assert_eq!(story.connects_made(), 2);
    story.client("a").dies();
    story.client("b").dies();
    story.after_ms(10);
    story.conn(1).is_open();
    story.conn(1).sends(&bulk(40 * MIB)[40_000..]).answers("+OK");
    story.conn(1).is_closed();
}

#[test]
fn a_busy_server_may_greet_late_over_the_connection_that_relieves() {
    let mut story = Story::new();
    story.client("a").says("GET big").stops_taking();
    story.client("b").says("GET b");
    story.servers_are_busy(true);
    story.conn(1).sends(&bulk(40 * MIB)[..40_000]);
    assert_eq!(story.connects_made(), 2);
    story.after_ms(2_500);
    assert_eq!(story.connects_made(), 2);
    story.servers_are_busy(false);
    story.conn(2).gets("GET b").answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn one_large_reply_among_many_small_ones_is_no_backlog() {
    let mut story = Story::new();
    for round in 0..40 {
        for number in 0..60 {
            let line = if number == round { format!("GET {round}") } else { "GET k".to_string() };
            story.client(&number.to_string()).says(&line);
        }
        for number in 0..60 {
            let reply = if number == round { bulk(MIB) } else { b"$-1\r\n".to_vec() };
            story.conn(1).sends(&reply);
        }
    }
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn a_fresh_connection_that_does_not_come_is_not_waited_for() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").answers("nil");
    story.client("a").gets("nil").sends(&request("GET a4").repeat(20)).stops_taking();
    story.client("b").says("GET a8");
    story.lets_connects_hang("n1");
    let reply = bulk(MIB);
    story.node("n1").sends(&reply[..40_000]);
    story.client("c").says("GET a8");
    story.after_ms(2_000);
    story.client("c").gets_nothing();
    let rest = [&reply[40_000..], &reply.repeat(19), b"$1\r\nb\r\n$1\r\nc\r\n"].concat();
    story.node_conn("n1", 1).sends(&rest);
    story.after_ms(30);
    story.client("b").gets("\"b\"");
    story.client("c").gets("\"c\"");
}

#[test]
fn a_backlog_without_room_for_another_connection_is_waited_for() {
    let mut story = Story::with_limits(|limits| limits.upstreams_max = 1);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").sends(&request("GET big").repeat(20)).stops_taking();
    story.client("b").says("GET b");
    story.server().sends(&[bulk(MIB).repeat(20), b"$1\r\nb\r\n".to_vec()].concat());
    story.after_ms(30);
    story.client("b").gets("\"b\"").says("GET b");
    story.server().answers("nil");
    story.client("b").gets("nil");
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn new_clients_do_not_all_ask_for_much_at_once() {
    let mut story = Story::new();
    for number in 0..100 {
        story.client(&number.to_string()).sends(&request("GET k").repeat(50));
    }
    let asked = story.server().takes_requests();
    assert!(asked <= 2 * 50 + 98 * 2, "{asked} replies of which nothing is known");
    // Once the size of its replies is known, each goes on as before.
    let mut owed = asked;
    let mut answered = 0;
    while owed > 0 {
        answered += owed;
        story.server().sends(&b"$-1\r\n".repeat(owed));
        owed = story.server().takes_requests();
    }
    assert_eq!(answered, 100 * 50);
}

#[test]
fn clients_that_ask_no_server_or_wait_for_long_do_not_keep_others_small() {
    let mut story = Story::new();
    for name in ["a", "b", "c"] {
        story.client(name).says("PING").gets("+PONG").says("BLPOP l 0");
    }
    story.client("d").dies();
    story.client("e").sends(&request("GET k").repeat(100));
    let shared = story.connects_made();
    assert_eq!(story.conn(shared).takes_requests(), 64);
}

#[test]
fn a_slow_reader_of_two_servers_stops_both_and_lets_both_go_on() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "GET b4"]).stops_taking();
    story.node("n1").sends(&bulk(12 * MIB)).is_not_read();
    story.node("n2").sends(&bulk(12 * MIB)).is_not_read();
    story.client("a").takes_all();
    story.node("n1").is_read();
    story.node("n2").is_read();
    assert!(story.client("a").takes() == [bulk(12 * MIB), bulk(12 * MIB)].concat());
}

#[test]
fn a_slow_reader_of_two_servers_that_dies_frees_both() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["GET a4", "GET b4"]).stops_taking();
    story.node("n1").sends(&bulk(12 * MIB)).is_not_read();
    story.node("n2").sends(&bulk(MIB)).is_not_read();
    story.client("a").dies();
    story.node("n1").is_read();
    story.node("n2").is_read();
}

#[test]
fn a_slow_reader_that_dies_takes_its_connection_with_it() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("a").stops_taking();
    story.server().sends(&bulk(16 * MIB)).is_not_read();
    story.client("a").dies();
    story.conn(1).is_closed();
    story.client("b").says("GET k");
    story.conn(2).gets("GET k").answers("nil");
    story.client("b").gets("nil");
}

#[test]
fn a_stopped_connection_is_not_overdue() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("a").stops_taking();
    story.server().sends(&bulk(16 * MIB));
    story.after_ms(60_000).server().is_open();
    story.client("a").takes_all();
    story.after_ms(1).client("a").is_open();
}

#[test]
fn a_loss_in_the_middle_of_a_reply_for_a_client_that_is_gone_is_an_error_for_the_others() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("b").says("GET k");
    story.server().sends(&bulk(MIB)[..100_000]);
    story.client("a").dies();
    story.server().dies("connection reset");
    story.client("b").gets("-ERR respool: upstream 127.0.0.1:6379: connection reset").is_open();
}

#[test]
fn at_the_bound_of_retired_connections_others_are_served_all_the_same() {
    let mut story = Story::new();
    for number in 0..engine::limits::RETIRED_MAX + 2 {
        let name = format!("slow-{number}");
        let line = format!("GET {number}");
        story.client(&name).says(&line).stops_taking();
        let conn = story.connects_made();
        story.conn(conn).gets(&line).sends(&bulk(8 * MIB)).is_not_read();
        if number > engine::limits::RETIRED_MAX {
            story.client("b").says("GET k");
            story.after_ms(20).conn(conn).is_read().gets("GET k").answers("nil");
            story.client("b").gets("nil");
            return;
        }
    }
    panic!("there is no bound");
}

#[test]
fn only_so_many_connections_are_retired_for_slow_readers() {
    let mut story = Story::new();
    let names: Vec<String> = (0..20).map(|number| format!("slow-{number}")).collect();
    for name in &names {
        let line = format!("GET {name}");
        story.client(name).says(&line).stops_taking();
        if story.server().waiting() > 0 {
            story.server().gets(&line).sends(&bulk(8 * MIB)).is_not_read();
        }
    }
    // Sixteen are retired, the next is held up with those behind it, until the slow one is closed.
    assert_eq!(story.open_conns(), engine::limits::RETIRED_MAX + 1);
    story.after_ms(60_000);
    for name in &names {
        story.client(name).takes_all();
    }
    assert_eq!(story.open_conns(), 1, "those that were retired have gone");
}
