//! Bounds: what waits is bounded, and at each bound somebody is slowed or closed, and nobody else.

use crate::words::{Story, request};
use engine::stats::Refused;

const MIB: usize = 1 << 20;

#[test]
fn a_pipeline_without_end_is_slowed_by_the_window() {
    let mut story = Story::new();
    story.client("a").sends(&request("GET k").repeat(100_000)).is_not_read();
    assert_eq!(story.server().takes_requests(), 64, "nothing is known of the replies yet");
    let mut answered = 0;
    let mut owed = 64;
    while owed > 0 {
        story.server().sends(&b"$-1\r\n".repeat(owed));
        answered += owed;
        owed = story.server().takes_requests();
        assert!(owed <= 16_384);
    }
    assert_eq!(answered, 100_000);
    assert_eq!(story.client("a").is_read().takes().len(), 500_000);
}

#[test]
fn the_window_shrinks_with_large_replies() {
    let mut story = Story::new();
    story.client("a").sends(&request("GET k").repeat(1_000));
    let mut reply = Vec::new();
    resp::encode::bulk(&mut reply, &vec![b'v'; MIB]);
    let mut unanswered = story.server().takes_requests();
    for _ in 0..100 {
        story.server().sends(&reply);
        story.client("a").takes();
        unanswered = unanswered - 1 + story.server().takes_requests();
        assert!(unanswered <= 64, "{unanswered} unanswered");
    }
    assert!(unanswered <= 16, "{unanswered} unanswered although each reply has a MiB");
}

#[test]
fn the_configured_bound_on_unanswered_requests_holds() {
    let mut story = Story::with_limits(|limits| limits.client_inflight_max = 5);
    story.client("a").sends(&request("GET k").repeat(20));
    assert_eq!(story.server().takes_requests(), 5);
    story.server().sends(&b"$-1\r\n".repeat(5));
    assert_eq!(story.server().takes_requests(), 5);
    // Local commands take places as well.
    story.client("b").sends(&[request("GET k"), request("PING").repeat(20)].concat());
    story.client("b").gets_nothing();
    story.server().sends(&b"$-1\r\n".repeat(6));
    assert_eq!(story.client("b").takes().len(), 5 + 20 * 7);
}

#[test]
fn a_client_that_does_not_read_costs_bounded_memory_and_disturbs_nobody() {
    let mut story = Story::new();
    story
        .client("a")
        .stops_taking()
        .sends(&request("ECHO 0123456789").repeat(400_000))
        .is_not_read();
    assert!(story.client("a").unread() > 8 * MIB, "it was read on and on");
    story.client("b").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("b").gets("nil");
    story.client("a").takes_all();
    assert_eq!(story.client("a").is_read().takes().len(), 400_000 * 17);
}

#[test]
fn local_replies_behind_an_unanswered_request_are_bounded_too() {
    let mut story = Story::new();
    // Small replies open the window wide.
    story.client("a").says("GET k");
    story.server().answers("nil");
    story.client("a").sends(&request("GET k").repeat(40));
    story.server().sends(&b"$-1\r\n".repeat(40));
    story.client("a").takes();
    let echo = request(&format!("ECHO {}", "x".repeat(100_000)));
    story.client("a").sends(&[request("GET k"), echo.repeat(500)].concat()).is_not_read();
    let unread = story.client("a").unread();
    assert!(unread > 40 * MIB, "only {unread} bytes were left in the socket");
    story.server().answers("nil");
    assert_eq!(story.client("a").takes().len(), 5 + 500 * (100_000 + 11));
}

#[test]
fn the_memory_ceiling_closes_the_largest_client() {
    let mut story = Story::with_limits(|limits| {
        limits.memory_max_bytes = 3 * MIB;
        limits.client_out_high_bytes = 16 * MIB;
    });
    let kib = request(&format!("ECHO {}", "x".repeat(1_000)));
    for (name, count) in [("small", 600), ("large", 1_500), ("middle", 900)] {
        story.client(name).stops_taking().sends(&kib.repeat(count)).is_open();
        if name == "large" {
            story.client("small").is_open();
        }
    }
    story.client("other").stops_taking().sends(&kib.repeat(600));
    story.client("large").is_closed();
    for name in ["small", "middle", "other"] {
        story.client(name).is_open();
    }
    assert!(story.was_told("it held the most memory when the limit was reached"));
    assert_eq!(story.engine.stats().clients_evicted, 1);
}

// Found by an attack: a thousand clients that held a little and read nothing. Whoever read a large reply just then held the
// most of all, and was closed.
#[test]
fn who_reads_nothing_goes_before_who_holds_more_for_a_moment() {
    let mut story = Story::with_limits(|limits| {
        limits.memory_max_bytes = 3 * MIB;
        limits.client_out_high_bytes = 16 * MIB;
    });
    let kib = request(&format!("ECHO {}", "x".repeat(1_000)));
    for name in ["idle1", "idle2", "idle3"] {
        story.client(name).stops_taking().sends(&kib.repeat(600)).is_open();
    }
    story.after_ms(2_000).client("busy").stops_taking().sends(&kib.repeat(1_500)).is_open();
    assert!(story.engine.stats().clients_evicted > 0, "nobody made room");
    assert_eq!(story.client("busy").is_open().takes_all().takes().len(), 1_500 * 1_009);
}

#[test]
fn what_is_held_outside_counts_against_the_ceiling() {
    let mut story = Story::with_limits(|limits| {
        limits.memory_max_bytes = 3 * MIB;
        limits.client_out_high_bytes = 16 * MIB;
    });
    let kib = request(&format!("ECHO {}", "x".repeat(1_000)));
    for (name, count) in [("small", 600), ("large", 1_500)] {
        story.client(name).stops_taking().sends(&kib.repeat(count)).is_open();
    }
    assert_eq!(story.engine.note_outside(MIB / 2), 0);
    assert!(story.engine.note_outside(MIB) > 0);
    // Whoever told decides whether clients are to go.
    story.client("large").is_open();
    assert_eq!(story.engine.make_room_for_outside(), 0);
    story.turn();
    story.client("large").is_closed();
    story.client("small").is_open();
    // With nobody left who holds much it is the other side's turn, and clients stay who hold nothing.
    story.client("idle").says("ECHO x").gets("\"x\"");
    assert!(story.engine.note_outside(5 * MIB) > 2 * MIB + 600_000);
    assert_eq!(story.engine.make_room_for_outside(), 2 * MIB);
    story.turn();
    story.client("small").is_closed();
    story.client("idle").is_open();
    assert_eq!(story.engine.note_outside(0), 0);
    let tls = engine::report::MEMORY_KINDS.iter().position(|kind| *kind == "tls");
    assert_eq!(tls, Some(engine::report::MEMORY_KINDS.len() - 1));
}

#[test]
fn a_congested_server_holds_clients_and_lets_them_go_on() {
    let mut story = Story::with_limits(|limits| limits.upstream_out_high_bytes = 1_000);
    story.client("warm").says("GET k");
    story.server().gets("GET k").answers("nil").stops_taking();
    let line = format!("SET k {}", "x".repeat(600));
    for name in ["a", "b", "c", "d"] {
        story.client(name).says([line.as_str(), "PING"]);
    }
    // One is in flight and one behind it; the others wait in their clients.
    let held = story.server().bytes();
    assert!(held < 1_300, "{held}");
    story.server().takes_all();
    assert_eq!(story.server().takes_requests(), 4);
    story.server().answers(["+OK", "+OK", "+OK", "+OK"]);
    for name in ["a", "b", "c", "d"] {
        story.client(name).gets(["+OK", "+PONG"]);
    }
}

#[test]
fn a_held_client_is_not_read_beyond_the_mark() {
    let mut story = Story::new();
    story.client("b").says("CLIENT PAUSE 1000").gets("+OK");
    let set = request(&format!("SET k {}", "x".repeat(1_000)));
    story.client("a").sends(&set.repeat(10_000)).is_not_read();
    let unread = story.client("a").unread();
    assert!(unread > 8 * MIB, "only {unread} bytes were left in the socket");
    story.after_ms(1_000);
    let mut owed = story.server().takes_requests();
    let mut answered = 0;
    while owed > 0 {
        answered += owed;
        story.server().sends(&b"+OK\r\n".repeat(owed));
        owed = story.server().takes_requests();
    }
    assert_eq!(answered, 10_000);
    story.client("a").is_read();
}

#[test]
fn one_client_too_many_is_turned_away() {
    let mut story = Story::with_limits(|limits| limits.clients_max = 2);
    story.client("a").says("PING").gets("+PONG");
    story.client("b").says("PING").gets("+PONG");
    story.client("c").is_closed();
    let said = engine::Engine::turn_away(Refused::MaxClients);
    assert_eq!(said.as_deref(), Some(&b"-ERR max number of clients reached\r\n"[..]));
    assert_eq!(story.engine.stats().clients_rejected(), 1);
    story.client("a").dies();
    story.client("d").says("PING").gets("+PONG");
}

#[test]
fn too_long_an_argument_is_a_protocol_error() {
    let mut story = Story::with_limits(|limits| limits.bulk_bytes_max = 1_000);
    story.client("a").says("GET k").sends(b"*2\r\n$3\r\nGET\r\n$1001\r\n").gets_nothing();
    story.server().answers("nil");
    story.client("a").gets(["nil", "-ERR Protocol error: invalid bulk length"]).is_closed();
}

#[test]
fn the_tail_of_an_idle_client_holds_no_buffer() {
    let mut story = Story::new();
    for name in ["a", "b"] {
        story.client(name).says("CLIENT INFO");
        let text = story.client(name).takes_text();
        assert!(text.contains(" qbuf=0 ") && text.contains(" omem=0 "), "{text}");
    }
}
