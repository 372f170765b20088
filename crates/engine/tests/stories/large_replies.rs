//! Large replies are cut through; a client that takes them slowly disturbs nobody for long.

use crate::words::Story;

const MIB: usize = 1 << 20;

/// A bulk of so many bytes.
fn bulk(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::bulk(&mut out, &vec![b'v'; bytes]);
    out
}

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
fn a_slow_reader_with_others_behind_it_gets_more_room_and_is_then_closed() {
    let mut story = Story::with_limits(|limits| limits.client_out_max_bytes = 8 * MIB);
    story.client("a").says("GET big");
    story.client("b").says("GET k");
    story.client("a").stops_taking();
    let reply = [bulk(16 * MIB), b"$-1\r\n".to_vec()].concat();
    story.server().sends(&reply[..6 * MIB]).is_read();
    story.server().sends(&reply[6 * MIB..]).is_not_read();
    story.client("b").gets_nothing();
    story.after_ms(999).client("a").is_open();
    story.after_ms(1).client("a").is_closed();
    story.client("b").gets("nil");
    assert!(story.was_told("it took its replies too slowly while others waited behind it"));
    assert_eq!(story.engine.stats().clients_evicted, 1);
}

#[test]
fn a_slow_reader_that_moves_is_not_closed() {
    let mut story = Story::with_limits(|limits| limits.client_out_max_bytes = 8 * MIB);
    story.client("a").says("GET big");
    story.client("b").says("GET k");
    story.client("a").stops_taking();
    let reply = [bulk(16 * MIB), b"$-1\r\n".to_vec()].concat();
    story.server().sends(&reply);
    for _ in 0..10 {
        story.after_ms(900).client("a").takes_one_send().is_open();
    }
    story.client("a").takes_all();
    story.client("b").gets("nil");
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
fn a_slow_reader_that_dies_frees_its_connection() {
    let mut story = Story::new();
    story.client("a").says("GET big");
    story.client("a").stops_taking();
    story.server().sends(&bulk(16 * MIB)).is_not_read();
    story.client("a").dies();
    story.server().is_read().is_open();
    story.client("b").says("GET k");
    story.server().gets(["GET big", "GET k"]).answers("nil");
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
fn only_so_many_connections_are_retired_for_slow_readers() {
    let mut story = Story::new();
    let names: Vec<String> = (0..20).map(|number| format!("slow-{number}")).collect();
    for name in &names {
        story.client(name).says("GET big").stops_taking();
        if story.server().waiting() > 0 {
            story.server().gets("GET big").sends(&bulk(8 * MIB)).is_not_read();
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
