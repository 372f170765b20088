//! Floods of hellos: what one address sends is its own wait and nobody else's, and nobody signs for those who are gone.

use super::*;

/// More than a wait makes steps for, by far.
const FLOOD: u64 = 300;

impl World {
    /// A client from this address, adopted.
    fn client_from(&mut self, ip: [u8; 4], token: Token) -> (SimPeer, ConnId) {
        let peer = self.net.connect(&address(1));
        let mut accepted = self.accept();
        accepted.ip = Some(ip.into());
        (peer, self.driver.adopt_secured(accepted, token))
    }

    /// Clients of one address, each with its hello on the way.
    fn flood(&mut self, authority: &Authority) -> Vec<Peer> {
        let mut flood: Vec<Peer> = (0..FLOOD)
            .map(|n| {
                let (sim, _) = self.client_from([10, 9, 9, 9], Token(100 + n));
                Peer::new(sim, Speaker::client(authority.client(None), "localhost"))
            })
            .collect();
        flood.iter_mut().for_each(Peer::carry);
        flood
    }

    /// So many turns, and the time between them.
    fn turns(&mut self, count: u64) {
        for _ in 0..count {
            self.turn();
            self.pass_time();
        }
    }

    fn failures(&self, reason: Reason) -> u64 {
        self.report().clients.failures[reason as usize]
    }
}

#[test]
fn an_address_with_many_hellos_keeps_no_other_one_waiting() {
    let authority = authority();
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let flood = world.flood(&authority);
    world.turns(3);
    let (sim, _) = world.client_from([10, 0, 0, 7], A);
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    let mut waits = 0;
    world.until("through", &mut peer, |world, _| {
        waits += 1;
        world.report().clients.open == 1
    });
    // Three ways of the network, a step of its own in the wait behind each.
    assert!(waits <= 12, "{waits} waits");
    let answered = flood.iter().filter(|peer| !peer.sim.received().is_empty()).count();
    assert!(answered < FLOOD as usize / 4, "{answered} were before it or beside it");
    // The others have their turns all the same.
    world.turns(FLOOD);
    assert!(world.driver.layer.is_settled(), "some are forgotten");
}

#[test]
fn nobody_signs_for_those_who_are_gone() {
    let authority = authority();
    for how in ["shutdown", "reset"] {
        let mut world = World::new(1, SimFaults::none(), settings(&authority));
        let flood = world.flood(&authority);
        for peer in &flood {
            match how {
                "shutdown" => peer.sim.shutdown(),
                _ => peer.sim.reset(),
            }
        }
        // As long as the network takes, and not a wait for every two of them.
        world.turns(20);
        assert_eq!(world.failures(Reason::Closed), FLOOD, "{how}");
        let answered = flood.iter().filter(|peer| !peer.sim.received().is_empty()).count();
        assert!(answered <= 20 * STEPS_PER_WAIT, "{how}: {answered} were signed for");
        assert!(world.driver.layer.is_settled() && world.driver.inner().conns() == 0, "{how}");
        assert_eq!(world.driver.weights(), [0], "{how}");
    }
}

/// All that was missing is there, and the end behind it.
#[test]
fn who_ends_its_stream_with_its_last_words_is_heard() {
    let authority = authority();
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let (sim, conn) = world.client(A);
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    peer.speaker.say(b"PING\r\n");
    world.until("its end of it is through", &mut peer, |_, peer| peer.speaker.is_ready());
    // Others of the address are in front of what it says now.
    let _flood = world.flood(&authority);
    peer.carry();
    peer.sim.shutdown();
    world.until("the end is told", &mut peer, |world, _| world.seen.contains(&Seen::Eof(A)));
    assert_eq!(world.received_of(A), b"PING\r\n");
    let _ = world.driver.send(conn, b"+PONG\r\n".to_vec());
    world.until("the answer is there", &mut peer, |_, peer| peer.heard == b"+PONG\r\n");
}

#[test]
fn who_speaks_something_else_and_goes_is_told_as_that() {
    let authority = authority();
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let (sim, _) = world.client(A);
    sim.send(b"PING\r\n");
    sim.shutdown();
    world.turns(10);
    assert_eq!((world.failures(Reason::NotTls), world.failures(Reason::Closed)), (1, 0));
}

#[test]
fn what_waits_for_a_turn_is_bounded() {
    let authority = authority();
    let mut world = World::new(1, SimFaults::none(), settings(&authority));
    let mut flood = world.flood(&authority);
    // Before an answer there is nothing to say but a hello.
    let talker = flood.pop().unwrap();
    talker.sim.send(&vec![22; 4 * INPUT_BYTES_MAX]);
    let of_talker = Token(100 + FLOOD - 1);
    let mut waits = 0;
    while world.closed(of_talker).is_none() {
        world.turns(1);
        waits += 1;
        assert!(waits < FLOOD / 4, "it was heard to its end");
    }
    assert!(world.closed(of_talker).unwrap().contains("more than a hello"));
    assert_eq!(world.failures(Reason::Protocol), 1);

    // Behind an answer the rest waits in the socket, and comes when it is its turn.
    let (sim, _) = world.client_from([10, 0, 0, 7], A);
    let mut peer = Peer::new(sim, Speaker::client(authority.client(None), "localhost"));
    let said = pattern(1 << 20, 3);
    peer.speaker.say(&said);
    let mut most = 0;
    world.until("all came", &mut peer, |world, _| {
        let waiting = world.driver.layer.conns.iter().map(|(_, conn)| conn.input.len());
        most = waiting.max().unwrap_or_default().max(most);
        world.received_of(A).len() == said.len()
    });
    assert!(most < 2 * INPUT_BYTES_MAX, "{most}");
    assert!(world.received_of(A) == said);
}
