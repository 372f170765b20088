//! Completions at moments that cannot be brought about from outside: the kernel has completed, and nobody has looked yet.
//!
//! Where the kernel forbids io_uring each test says so and does nothing.

use super::close::LINGERING_MAX;
use super::*;
use std::io::Write;
use std::os::unix::net::UnixStream;

const A: Token = Token(1);
const B: Token = Token(2);

fn driver() -> Option<UringDriver> {
    let driver = UringDriver::new(&UringOptions::default(), Vec::new());
    driver.inspect_err(|unfit| eprintln!("skipped: {unfit}")).ok()
}

fn adopt(driver: &mut UringDriver, token: Token) -> (UnixStream, ConnId) {
    let (peer, ours) = UnixStream::pair().unwrap();
    let socket = Stream(ours.into());
    let (peer_text, local) = (String::new(), String::new());
    let listener = crate::driver::ListenerId::default();
    let accepted =
        Accepted { socket, peer: peer_text, local, ip: None, listener, is_surplus: false };
    (peer, driver.adopt(accepted, token))
}

/// Hands over and completes, without taking the completions.
fn complete(driver: &mut UringDriver) {
    driver.flush();
    driver.ring.enter(0, None);
    driver.ring.enter(0, None);
}

fn poll(driver: &mut UringDriver) -> Vec<String> {
    let mut told = Vec::new();
    driver.wait(Wait::Poll, &mut |event| told.push(format!("{event:?}")));
    told
}

fn received(driver: &mut UringDriver, token: Token, wanted: &[u8]) {
    let mut got = Vec::new();
    let until_us = driver.now_us() + 10_000_000;
    while got.len() < wanted.len() && driver.now_us() < until_us {
        driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Received(from, bytes) if from == token => got.extend_from_slice(bytes),
            event => panic!("unexpected {event:?}"),
        });
    }
    assert_eq!(got, wanted);
}

#[test]
fn bytes_that_came_before_receiving_was_stopped_are_kept_in_order() {
    let Some(mut driver) = driver() else { return };
    let (mut peer, conn) = adopt(&mut driver, A);
    complete(&mut driver);
    peer.write_all(b"one ").unwrap();
    complete(&mut driver);
    driver.recv(conn, false);
    assert!(poll(&mut driver).is_empty(), "receiving was off");
    peer.write_all(b"two ").unwrap();
    assert!(poll(&mut driver).is_empty());
    driver.recv(conn, true);
    // And off and on again before anybody looks.
    driver.recv(conn, false);
    driver.recv(conn, true);
    peer.write_all(b"three").unwrap();
    received(&mut driver, A, b"one two three");
    assert!(poll(&mut driver).is_empty());
}

#[test]
fn the_end_that_came_before_receiving_was_stopped_is_told_when_it_goes_on() {
    let Some(mut driver) = driver() else { return };
    let (mut peer, conn) = adopt(&mut driver, A);
    complete(&mut driver);
    peer.write_all(b"last words").unwrap();
    drop(peer);
    complete(&mut driver);
    driver.recv(conn, false);
    for _ in 0..3 {
        assert!(poll(&mut driver).is_empty());
    }
    driver.recv(conn, true);
    let told = [poll(&mut driver), poll(&mut driver)].concat();
    assert_eq!(
        told,
        [format!("{:?}", Event::<Stream>::Received(A, b"last words")), "Eof(Token(1))".into()]
    );
    assert!(poll(&mut driver).is_empty(), "it is told once");
}

#[test]
fn completions_of_a_closed_connection_are_nobodys() {
    let Some(mut driver) = driver() else { return };
    let (mut peer, first) = adopt(&mut driver, A);
    complete(&mut driver);
    peer.write_all(b"never told").unwrap();
    complete(&mut driver);
    driver.close(first);
    let (mut peer, second) = adopt(&mut driver, B);
    assert_eq!(first.index, second.index, "the place is used again");
    assert!(poll(&mut driver).is_empty());
    peer.write_all(b"told").unwrap();
    received(&mut driver, B, b"told");
    // The buffer that came with it is the kernel's again.
    for _ in 0..1000 {
        peer.write_all(b"round and round").unwrap();
        received(&mut driver, B, b"round and round");
    }
    assert_eq!(driver.counts().no_buffers, 0);
}

#[test]
fn the_buffer_of_a_dropped_send_stays_until_its_completion() {
    let Some(mut driver) = driver() else { return };
    let (_peer, conn) = adopt(&mut driver, A);
    assert_eq!(driver.send(conn, vec![7; 8 << 20]), None);
    complete(&mut driver);
    let flight = driver.live(conn).unwrap().flight.expect("nobody reads");
    driver.close(conn);
    assert!(driver.ring.flight_mut(flight).is_some_and(|flight| flight.is_in_kernel()));
    let until_us = driver.now_us() + 10_000_000;
    while driver.ring.flight_mut(flight).is_some() && driver.now_us() < until_us {
        assert!(poll(&mut driver).is_empty());
    }
    assert!(
        driver.ring.flight_mut(flight).is_none(),
        "it was stopped, and freed when it came back"
    );
    assert_eq!(driver.conns(), 0);
}

/// More comes than a wait may tell of one connection: whoever is to stop it can say so only between waits.
#[test]
fn one_connection_tells_a_bounded_share_in_each_wait() {
    let Some(mut driver) = driver() else { return };
    let (mut peer, conn) = adopt(&mut driver, A);
    peer.set_nonblocking(true).unwrap();
    let sent: Vec<u8> = (0..150_000u32).map(|at| (at % 251) as u8).collect();
    let sent = &sent[..peer.write(&sent).unwrap()];
    let mut got = Vec::new();
    let until_us = driver.now_us() + 10_000_000;
    while got.len() < sent.len() && driver.now_us() < until_us {
        let before = got.len();
        driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Received(A, bytes) => got.extend_from_slice(bytes),
            event => panic!("unexpected {event:?}"),
        });
        assert!(got.len() - before <= 128 << 10, "{} bytes at once", got.len() - before);
    }
    assert!(got == sent, "{} of {} bytes came", got.len(), sent.len());
    assert!(driver.live(conn).is_some());
}

#[test]
fn a_wake_that_came_before_the_wait_is_told() {
    let Some(mut driver) = driver() else { return };
    let waker = driver.waker();
    waker.wake();
    let mut woken = 0;
    driver.wait(Wait::Until(driver.now_us() + 10_000_000), &mut |event| {
        assert!(matches!(event, Event::Woken));
        woken += 1;
    });
    assert_eq!(woken, 1);
}

/// More connections in bulk than large buffers, with bytes at each at every moment: who found no buffer comes first next time. In the order of completion
/// the same ones would come first again, and the others never.
#[test]
fn who_found_no_buffer_comes_first_next_time() {
    const CONNS: u64 = 8;
    const ROUNDS: u64 = 400;
    let options = UringOptions { large_buffers: (2, 2), ..UringOptions::default() };
    let driver = UringDriver::new(&options, Vec::new());
    let Ok(mut driver) = driver.inspect_err(|unfit| eprintln!("skipped: {unfit}")) else { return };
    let mut peers: Vec<_> = (0..CONNS).map(|at| adopt(&mut driver, Token(at)).0).collect();
    for peer in &peers {
        peer.set_nonblocking(true).unwrap();
    }
    let mut came = [0; CONNS as usize];
    for round in 0..ROUNDS {
        // As much as the sockets hold: nobody's receive waits for bytes.
        for peer in &mut peers {
            while peer.write(&[5; 16 << 10]).is_ok() {}
        }
        driver.wait(Wait::Poll, &mut |event| match event {
            // Before that they become connections of large buffers.
            Event::Received(Token(at), _) => came[at as usize] += u64::from(round >= ROUNDS / 2),
            event => panic!("unexpected {event:?}"),
        });
    }
    assert!(driver.counts().no_buffers > ROUNDS, "{:?}", driver.counts());
    let fair = came.iter().sum::<u64>() / CONNS;
    assert!(came.iter().all(|came| *came >= fair / 2), "{came:?}");
}

/// The kernel completes twenty operations in a system call (6.13). A poll that told only those would cut batches in pieces.
#[test]
fn a_poll_tells_all_that_is_there() {
    let Some(mut driver) = driver() else { return };
    let mut peers: Vec<_> = (0..120).map(|at| adopt(&mut driver, Token(at)).0).collect();
    complete(&mut driver);
    for round in 0..5 {
        for peer in &mut peers {
            peer.write_all(&[round; 36]).unwrap();
        }
        let told = poll(&mut driver);
        assert_eq!(told.len(), peers.len(), "round {round}: {told:?}");
        assert!(poll(&mut driver).is_empty());
    }
    assert_eq!(driver.counts().no_buffers, 0, "buffers go back in between");
}

/// Connections in bulk, with more bytes there than a wait hands out.
#[test]
fn one_wait_hands_out_a_bounded_number_of_bytes() {
    const CONNS: u64 = 100;
    let Some(mut driver) = driver() else { return };
    let mut peers: Vec<_> = (0..CONNS).map(|at| adopt(&mut driver, Token(at)).0).collect();
    let wait = |driver: &mut UringDriver| {
        let mut bytes = 0;
        driver.wait(Wait::Poll, &mut |event| match event {
            Event::Received(_, piece) => bytes += piece.len(),
            event => panic!("unexpected {event:?}"),
        });
        bytes
    };
    let (mut most, mut sent, mut came) = (0, 0, 0);
    for _ in 0..8 {
        for peer in &mut peers {
            peer.set_nonblocking(true).unwrap();
            while let Ok(bytes) = peer.write(&[5; 64 << 10]) {
                sent += bytes;
            }
        }
        let until_us = driver.now_us() + 10_000_000;
        while came < sent && driver.now_us() < until_us {
            let bytes = wait(&mut driver);
            (most, came) = (most.max(bytes), came + bytes);
        }
    }
    assert_eq!(came, sent);
    // What is fetched by one call comes on top: twenty buffers of 64 KiB, and what was kept of the connections.
    assert!(most <= INPUT_PER_WAIT_BYTES + (2 << 20), "{most} bytes in one wait of {sent}");
}

/// Their clients take nothing, and have gone for everybody else.
#[test]
fn of_closed_connections_only_so_many_linger() {
    let Some(mut driver) = driver() else { return };
    let mut peers = Vec::new();
    for at in 0..LINGERING_MAX as u64 + 40 {
        let (peer, conn) = adopt(&mut driver, Token(at));
        peers.push(peer);
        complete(&mut driver);
        // Until the socket is full and a send is not given back.
        while driver.send(conn, vec![1; 1_000]).is_some() {
            assert!(poll(&mut driver).is_empty());
        }
        driver.close(conn);
        poll(&mut driver);
        assert!(driver.lingering.len() <= LINGERING_MAX);
    }
    assert_eq!(driver.lingering.len(), LINGERING_MAX);
}

/// More than one wait fetches (`FETCHES_MAX`): the rest comes with the next one.
#[test]
fn what_one_wait_leaves_comes_with_the_next() {
    let Some(mut driver) = driver() else { return };
    let (mut peer, _) = adopt(&mut driver, A);
    let (mut bell, heard) = UnixStream::pair().unwrap();
    for index in 0..1000 {
        // A listener of a generation that is gone: nobody's.
        let op = Op::Listen(ConnId { index, generation: u32::MAX });
        driver.ring.poll(heard.as_fd(), libc::POLLIN as u32, op);
    }
    complete(&mut driver);
    bell.write_all(b"!").unwrap();
    peer.write_all(b"behind them").unwrap();
    let told = [poll(&mut driver), poll(&mut driver)].concat();
    assert_eq!(told, [format!("{:?}", Event::<Stream>::Received(A, b"behind them"))]);
}

#[test]
fn more_operations_than_the_queue_has_room_for_are_all_handed_over_before_a_wait() {
    let options = UringOptions { sq_entries: 8, ..UringOptions::default() };
    let driver = UringDriver::new(&options, Vec::new());
    let Ok(mut driver) = driver.inspect_err(|unfit| eprintln!("skipped: {unfit}")) else { return };
    // Nothing ends the receives of those in front.
    let silent: Vec<_> = (0..50).map(|_| adopt(&mut driver, A)).collect();
    let (mut peer, _) = adopt(&mut driver, B);
    peer.write_all(b"the last one").unwrap();
    let until_us = driver.now_us() + 2_000_000;
    let mut told = Vec::new();
    driver.wait(Wait::Until(until_us), &mut |event| told.push(format!("{event:?}")));
    assert_eq!(told.len(), 1, "the wait ended by its time");
    drop(silent);
}

#[test]
fn copies_for_those_who_do_not_read_are_bounded_and_the_others_are_not_copied() {
    let Some(mut driver) = driver() else { return };
    driver.copies_bytes_max = 64 << 10;
    let conns: Vec<_> = (0..40).map(|_| adopt(&mut driver, A)).collect();
    // As much as the socket has room for, and more: from here on nothing goes out.
    for (_, conn) in &conns {
        assert!(driver.send(*conn, vec![b'x'; 4 << 20]).is_none());
    }
    poll(&mut driver);
    let (mut reader, to_reader) = adopt(&mut driver, B);
    let idle: Vec<_> = (0..40).map(|_| adopt(&mut driver, A)).collect();
    for (peer, conn) in &idle {
        rustix::net::sockopt::set_socket_send_buffer_size(peer, 4096).unwrap();
        let fd = driver.live(*conn).unwrap().fd.try_clone().unwrap();
        while rustix::net::send(&fd, &[b'x'; 4096], rustix::net::SendFlags::DONTWAIT).is_ok() {}
        drop(driver.send(*conn, vec![b'y'; 8 << 10]));
        poll(&mut driver);
        assert!(driver.ring.copies_bytes() <= 64 << 10);
    }
    assert!(driver.ring.copies_bytes() > 32 << 10, "some are copied");
    // Who reads has what it is sent, copied or not.
    assert!(driver.send(to_reader, vec![b'z'; 8 << 10]).is_some());
    poll(&mut driver);
    let mut got = vec![0; 8 << 10];
    std::io::Read::read_exact(&mut reader, &mut got).unwrap();
    assert!(got.iter().all(|byte| *byte == b'z'));
    // When the others are gone there is room again.
    for (_, conn) in conns.iter().chain(&idle) {
        driver.close(*conn);
    }
    drop((conns, idle));
    let until_us = driver.now_us() + 10_000_000;
    while driver.ring.copies_bytes() > 0 && driver.now_us() < until_us {
        poll(&mut driver);
    }
    assert_eq!(driver.ring.copies_bytes(), 0);
}

#[test]
fn a_connection_that_has_nothing_to_send_holds_no_memory_for_it() {
    let Some(mut driver) = driver() else { return };
    let conns: Vec<_> = (0..8).map(|_| adopt(&mut driver, A)).collect();
    for round in 0..4 {
        for (_, conn) in &conns {
            assert!(driver.send(*conn, vec![b'x'; 1 << 10]).is_some(), "{round}");
        }
        poll(&mut driver);
        poll(&mut driver);
        let held = |id| {
            driver.conns.get(id).map(|entry| match entry {
                Entry::Live(conn) => conn.out.capacity(),
                Entry::Stillborn(..) => 0,
            })
        };
        assert!(conns.iter().all(|(_, conn)| held(*conn) == Some(0)), "{round}");
    }
}
