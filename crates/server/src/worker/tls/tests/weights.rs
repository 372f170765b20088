//! What connections hold, and who goes when it is too much. That the sums are right is looked at in each turn of every story here.

use super::*;
use engine::limits::CONN_INDEX_BITS;

/// Through its handshake.
fn open(world: &mut World, authority: &Authority, token: Token) -> (Peer, ConnId) {
    let (sim, conn) = world.client(token);
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    let before = world.report().clients.open;
    world.until("open", &mut peer, |world, peer| {
        world.report().clients.open > before && peer.speaker.is_ready()
    });
    (peer, conn)
}

#[test]
fn what_waits_in_either_direction_weighs_and_is_given_back() {
    let authority = authority();
    let mut world = World::new(3, SimFaults::none(), settings(&authority));
    let (sim, conn) = world.client(A);
    assert_eq!(world.driver.weights(), [CONN_BYTES]);
    assert!(world.driver.take_weighed() && !world.driver.take_weighed());

    // What came in with the end of the handshake and is not wanted.
    world.driver.recv(conn, false);
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    peer.speaker.say(&pattern(10_000, 1));
    world.until("it is open", &mut peer, |world, _| world.report().clients.open == 1);
    assert_eq!(world.driver.weights(), [CONN_BYTES + 10_000]);
    world.driver.recv(conn, true);
    world.until("all is told", &mut peer, |world, _| world.received_of(A).len() == 10_000);
    assert_eq!(world.driver.weights(), [CONN_BYTES]);

    // What went out and is not taken: records of one part and no more.
    assert!(world.driver.send(conn, pattern(8 << 20, 2)).is_none(), "all of it fits");
    let weight = world.driver.weights()[0];
    assert!(weight > CONN_BYTES + 60_000 && weight < CONN_BYTES + 2 * SEAL_BYTES, "{weight}");
    world.until("all is sent", &mut peer, |_, peer| peer.heard.len() == 8 << 20);
    world.until("it is back", &mut peer, |world, _| {
        world.seen.iter().any(|seen| matches!(seen, Seen::Sent(A, _)))
    });
    assert_eq!(world.driver.weights(), [CONN_BYTES]);
    world.driver.close(conn);
    assert_eq!(world.driver.weights(), [0]);
}

#[test]
fn each_tenant_has_its_own_sum_and_a_client_that_goes_over_takes_its_weight_along() {
    let authority = authority();
    let mut world = World::new(4, SimFaults::none(), settings(&authority));
    let of_another = Token(3 << CONN_INDEX_BITS | 5);
    let (_peer, conn) = open(&mut world, &authority, A);
    let _waits = world.client(of_another);
    assert_eq!(world.driver.weights(), [CONN_BYTES, 0, 0, CONN_BYTES]);
    world.driver.rename(conn, Token(3 << CONN_INDEX_BITS | 7));
    assert_eq!(world.driver.weights(), [0, 0, 0, 2 * CONN_BYTES]);
    assert_eq!(world.driver.shed_unfinished(0, 1), 0, "of a tenant that has none");
}

#[test]
fn who_is_not_through_goes_first_and_of_them_who_came_last() {
    let authority = authority();
    let mut world = World::new(5, SimFaults::none(), settings(&authority));
    let (mut peer, _) = open(&mut world, &authority, A);
    let (first, last) = (Token(20), Token(21));
    let (_one, _) = world.client(first);
    let (_two, _) = world.client(last);
    let three = 3 * CONN_BYTES;
    assert_eq!(world.driver.weights(), [three]);
    assert_eq!(world.driver.shed_unfinished(0, 1), CONN_BYTES);
    assert_eq!(world.driver.weights(), [2 * CONN_BYTES], "it counts no more");
    world.until("the last one is closed", &mut peer, |world, _| world.closed(last).is_some());
    assert!(world.closed(last).is_some_and(|cause| cause.contains("no memory is left")));
    assert!(world.closed(first).is_none() && world.closed(A).is_none());
    assert_eq!(world.driver.shed_unfinished(0, three), CONN_BYTES, "of two one is through");
    assert_eq!(world.driver.shed_open(0, 1), CONN_BYTES);
    world.until("all are closed", &mut peer, |world, _| world.closed(A).is_some());
    assert_eq!(world.report().clients.failures[Reason::Memory as usize], 3);
    assert_eq!((world.driver.weights(), world.driver.inner().conns()), (&[0][..], 0));
}

#[test]
fn a_flood_makes_room_for_those_of_other_addresses() {
    let authority = authority();
    let mut world = World::new(6, SimFaults::none(), settings(&authority));
    let mut peers = Vec::new();
    let mut open = |from: [u8; 4], token| {
        peers.push(world.net.connect(&address(1)));
        let mut accepted = world.accept();
        accepted.ip = Some(from.into());
        world.driver.adopt_secured(accepted, Token(token));
    };
    for token in 100..140 {
        open([10, 9, 9, 9], token);
    }
    // These came last.
    open([10, 0, 0, 7], 7);
    open([10, 0, 0, 8], 8);
    assert_eq!(world.driver.shed_unfinished(0, 3 * CONN_BYTES), 3 * CONN_BYTES);
    world.turn();
    for token in 137..140 {
        assert!(world.closed(Token(token)).is_some(), "{token} came last of the flood");
    }
    assert_eq!(world.report().clients.unfinished, 39);
    assert_eq!(world.driver.shed_unfinished(0, 36 * CONN_BYTES), 36 * CONN_BYTES);
    world.turn();
    assert!(world.closed(Token(7)).is_none() && world.closed(Token(8)).is_none());
    assert_eq!(world.driver.shed_unfinished(0, usize::MAX), 3 * CONN_BYTES);
    world.turn();
    assert_eq!((world.driver.weights(), world.driver.inner().conns()), (&[0][..], 0));
}

// Found by an attack: newcomers were closed, since each of the large handshakes came from another address.
#[test]
fn large_handshakes_without_an_end_go_before_those_that_came_last() {
    let authority = authority();
    let mut world = World::new(7, SimFaults::none(), settings(&authority));
    let mut peers = Vec::new();
    // A record with the begin of a ClientHello of 60,000 bytes.
    let record = [&[22, 3, 1, 0x3f, 0xff, 1, 0, 0xea, 0x60][..], &[0; 0x3ffb]].concat();
    for token in 20..24 {
        let (sim, _) = world.client(Token(token));
        sim.send(&record);
        sim.send(&[22, 3, 1, 0x3f, 0xff]);
        sim.send(&[0; 0x3fff]);
        peers.push(sim);
    }
    for _ in 0..200 {
        world.turn();
    }
    let each = world.driver.weights()[0] / 4;
    assert!(each > CONN_BYTES + (16 << 10), "{each}");
    let (_newcomer, _) = world.client(Token(30));
    assert!(world.driver.shed_unfinished(0, each) >= each);
    for _ in 0..10 {
        world.turn();
    }
    assert!(world.closed(Token(30)).is_none());
    let closed = (20..24).filter(|token| world.closed(Token(*token)).is_some()).count();
    assert!((1..4).contains(&closed), "{closed}");
}
