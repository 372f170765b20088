//! The io_uring driver on real sockets of the loopback: the common stories, and what is its own: buffers that run out, copies that are on
//! their way when a connection is closed, completions that come late, a kernel that forbids it.
//!
//! Where the kernel forbids io_uring each test says so and does nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use netio::{
    Accepted, Address, CloseReason, ConnId, Driver, Event, ListenOptions, Listener, Stream, Token,
    UringDriver, UringOptions, Wait, sys, uring,
};

mod sockets;
mod suite;

use sockets::{RealDriver, loopback};
use suite::{TURN_US, World};

impl RealDriver for UringDriver {
    fn over(listeners: Vec<Listener>) -> Self {
        Self::new(&UringOptions::default(), listeners).unwrap()
    }

    fn waker(&self) -> netio::Waker {
        Self::waker(self)
    }
}

type Real = sockets::Real<UringDriver>;

/// With these options.
fn real_with(options: &UringOptions) -> Real {
    Real::with(|listeners| UringDriver::new(options, listeners).unwrap())
}

/// Whether io_uring can be used here; says why where it cannot.
fn usable() -> bool {
    match uring::probe() {
        Ok(()) => true,
        Err(unfit) => {
            eprintln!("skipped: {unfit}");
            false
        }
    }
}

/// The stories of the suite, each only where the kernel lets it run.
macro_rules! stories_if_usable {
    ($($story:ident),+ $(,)?) => {
        $(#[test]
        fn $story() {
            if usable() {
                suite::$story::<Real>();
            }
        })+
    };
}

stories_if_usable!(
    echo,
    names_of_both_ends,
    send_under_backpressure_comes_back_whole,
    after_eof_sends_still_go,
    reset_is_told_once,
    reset_during_a_send,
    bytes_before_a_close_are_told_first,
    sending_to_a_closed_peer_breaks,
    a_reset_drops_what_the_peer_has_not_taken,
    receiving_stops_and_goes_on,
    stale_ids_are_ignored,
    refused_connect,
    closing_during_a_connect,
    sending_during_a_connect,
    upstream_talks_both_ways,
    accepted_connections_travel,
    another_token_takes_over,
    dropped_unadopted_is_closed,
    accepting_stops_and_goes_on,
    wakes_are_told_together,
    many_connections_keep_their_streams,
    waits_end_at_their_time,
    crossing_streams_arrive_whole,
);

const A: Token = Token(1);

fn driver(listeners: Vec<Listener>) -> UringDriver {
    let mut driver = UringDriver::new(&UringOptions::default(), listeners).unwrap();
    driver.accept(true);
    driver
}

/// Waits until `pick` takes an event, ten seconds at most. For moments at which only one can come:
/// another one behind it in the same batch is a failure, as it would be lost.
fn event<T>(driver: &mut UringDriver, mut pick: impl FnMut(Event<'_, Stream>) -> Option<T>) -> T {
    let until_us = driver.now_us() + 10_000_000;
    let mut picked = None;
    while picked.is_none() && driver.now_us() < until_us {
        driver.wait(Wait::Until(until_us), &mut |event| {
            assert!(picked.is_none(), "{event:?} came in the same batch");
            picked = pick(event);
        });
    }
    picked.expect("the event comes within ten seconds")
}

fn accepted(driver: &mut UringDriver) -> Accepted<Stream> {
    event(driver, |event| match event {
        Event::Accepted(accepted) => Some(accepted),
        _ => None,
    })
}

fn client(world: &mut Real, token: Token) -> (TcpStream, ConnId) {
    let peer = world.dial();
    let accepted = accepted(&mut world.driver);
    (peer, world.driver.adopt(accepted, token))
}

/// Waits for `ms` with nothing to do, and asserts that it took next to no processor time: a spin would
/// take all of it.
fn rests(driver: &mut UringDriver, ms: u64) {
    let before = sys::thread_cpu();
    let until_us = driver.now_us() + ms * 1000;
    let told = driver.wait(Wait::Until(until_us), &mut |event| panic!("unexpected {event:?}"));
    assert_eq!(told, 0);
    assert!(driver.now_us() >= until_us, "the wait ended early");
    let after = sys::thread_cpu();
    let used_us = after.user_us + after.system_us - before.user_us - before.system_us;
    assert!(used_us < ms * 1000 / 3, "{used_us} µs of processor time in {ms} ms of waiting");
}

/// Waits a millisecond in the kernel, so that all that is asked for is there.
fn idles(driver: &mut UringDriver) {
    let until_us = driver.now_us() + 1000;
    driver.wait(Wait::Until(until_us), &mut |event| panic!("unexpected {event:?}"));
}

/// Takes turns until the peer has the wanted bytes and then the end of the stream.
fn reads_to_the_end(driver: &mut UringDriver, peer: &mut TcpStream, wanted: &[u8]) {
    let until_us = driver.now_us() + 10_000_000;
    let (mut got, mut buf) = (Vec::new(), vec![0; 1 << 20]);
    while driver.now_us() < until_us {
        match peer.read(&mut buf) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&buf[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let until_us = driver.now_us() + TURN_US;
                driver.wait(Wait::Until(until_us), &mut |event| panic!("unexpected {event:?}"));
            }
            Err(error) => panic!("the peer cannot read: {error}"),
        }
    }
    assert!(got == wanted, "{} bytes came, {} were sent", got.len(), wanted.len());
}

/// Fills everything between the driver and a peer that does not read, until a send is not taken.
fn block(world: &mut Real, conn: ConnId) -> Vec<u8> {
    let mut given_back = Vec::new();
    for at in 0..100_000u32 {
        let piece = vec![(at % 251) as u8; 1000];
        if world.driver.send(conn, piece.clone()).is_none() {
            return given_back;
        }
        given_back.extend(piece);
        world.driver.wait(Wait::Poll, &mut |event| panic!("unexpected {event:?}"));
    }
    panic!("the socket never was full");
}

#[test]
fn what_was_given_back_goes_out_before_a_close() {
    if !usable() {
        return;
    }
    let mut world = Real::new();
    world.driver.accept(true);
    let (mut peer, conn) = client(&mut world, A);
    assert!(world.driver.send(conn, b"-ERR max number of clients ".to_vec()).is_some());
    assert!(world.driver.send(conn, b"reached\r\n".to_vec()).is_some());
    world.driver.close(conn);
    // Without a wait in between.
    peer.set_nonblocking(false).unwrap();
    let mut got = [0; 36];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"-ERR max number of clients reached\r\n");
    peer.set_nonblocking(true).unwrap();
    reads_to_the_end(&mut world.driver, &mut peer, b"");
}

/// The socket is full when the connection is closed. The copies linger; the send that was not given back is dropped.
#[test]
fn copies_of_a_closed_connection_linger_until_they_are_out() {
    if !usable() {
        return;
    }
    let mut world = Real::new();
    world.driver.accept(true);
    let (mut peer, conn) = client(&mut world, A);
    let given_back = block(&mut world, conn);
    world.driver.close(conn);
    assert_eq!(world.driver.conns(), 0);
    rests(&mut world.driver, 50);
    reads_to_the_end(&mut world.driver, &mut peer, &given_back);
}

/// A worker that drains closes its last client and goes.
#[test]
fn copies_that_linger_go_out_before_the_driver_goes() {
    if !usable() {
        return;
    }
    let mut world = Real::new();
    world.driver.accept(true);
    let (mut peer, conn) = client(&mut world, A);
    let given_back = block(&mut world, conn);
    world.driver.close(conn);
    let reader = std::thread::spawn(move || {
        peer.set_nonblocking(false).unwrap();
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        got
    });
    drop(world);
    assert!(reader.join().unwrap() == given_back);
}

#[test]
fn a_peer_that_never_reads_is_given_up_in_the_end() {
    if !usable() {
        return;
    }
    let mut world = real_with(&UringOptions { linger_us: 50_000, ..UringOptions::default() });
    world.driver.accept(true);
    let (mut peer, conn) = client(&mut world, A);
    // Its kernel would else find room for the copies while they linger.
    rustix::net::sockopt::set_socket_recv_buffer_size(&peer, 4096).unwrap();
    let given_back = block(&mut world, conn);
    world.driver.close(conn);
    rests(&mut world.driver, 200);
    // What the socket had taken comes, and the end; the copies are lost.
    peer.set_nonblocking(false).unwrap();
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert!(got.len() < given_back.len() && given_back.starts_with(&got));
}

/// Fewer buffers than clients that send at the same moment: receives end for want of them and are begun again.
#[test]
fn buffers_that_run_out_lose_nothing() {
    if !usable() {
        return;
    }
    for (buffers, buffers_max) in [(1, 1), (2, 64)] {
        let small_buffers = (buffers, buffers_max);
        let options =
            UringOptions { small_buffers, large_buffers: (1, 1), ..UringOptions::default() };
        let mut world = real_with(&options);
        world.driver.accept(true);
        let mut peers: Vec<_> = (0..40).map(|at| client(&mut world, Token(at)).0).collect();
        let mut got = vec![Vec::new(); peers.len()];
        for round in 1..=20 {
            for (at, peer) in peers.iter_mut().enumerate() {
                let piece = [at as u8; 777];
                assert_eq!(peer.write(&piece).unwrap(), piece.len());
            }
            let until_us = world.driver.now_us() + 10_000_000;
            while got.iter().any(|got| got.len() < round * 777) && world.driver.now_us() < until_us
            {
                world.driver.wait(Wait::Until(until_us), &mut |event| match event {
                    Event::Received(Token(at), bytes) => got[at as usize].extend_from_slice(bytes),
                    event => panic!("unexpected {event:?}"),
                });
            }
            for (at, got) in got.iter().enumerate() {
                assert!(*got == vec![at as u8; round * 777], "round {round}, {at}: {}", got.len());
            }
        }
        let counts = world.driver.counts();
        assert!(counts.no_buffers > 0, "{counts:?}");
        let grown = counts.small_buffers;
        assert!(if buffers_max == 1 { grown == 1 } else { grown >= 32 }, "{counts:?}");
    }
}

/// More connections in bulk than large buffers: each comes to its turn.
#[test]
fn nobody_starves_for_want_of_buffers() {
    if !usable() {
        return;
    }
    let options = UringOptions { large_buffers: (2, 2), ..UringOptions::default() };
    let mut world = real_with(&options);
    world.driver.accept(true);
    let talks: Vec<_> = (0..8).map(|at| client(&mut world, Token(at))).collect();
    let (peers, conns): (Vec<_>, Vec<_>) = talks.into_iter().unzip();
    let writers = peers.into_iter().map(|mut peer| {
        std::thread::spawn(move || {
            peer.set_nonblocking(false).unwrap();
            // Until the other end is closed.
            while peer.write_all(&[5; 256 << 10]).is_ok() {}
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut got = [0; 8];
    let until_us = world.driver.now_us() + 20_000_000;
    while got.iter().sum::<usize>() < 128 << 20 && world.driver.now_us() < until_us {
        world.driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Received(Token(at), bytes) => got[at as usize] += bytes.len(),
            event => panic!("unexpected {event:?}"),
        });
    }
    conns.into_iter().for_each(|conn| world.driver.close(conn));
    world.turn(&mut |event| panic!("unexpected {event:?}"));
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(world.driver.counts().no_buffers > 0, "{:?}", world.driver.counts());
    assert!(got.iter().all(|got| *got > 4 << 20), "{got:?}");
}

/// Far more completions at once than the queue holds.
#[test]
fn completions_that_overflow_lose_nothing() {
    if !usable() {
        return;
    }
    let options = UringOptions { sq_entries: 2, cq_entries: 4, ..UringOptions::default() };
    let mut world = real_with(&options);
    world.driver.accept(true);
    let mut talks: Vec<_> = (0..60).map(|at| client(&mut world, Token(at))).collect();
    for round in 0..10u8 {
        for (peer, _) in &mut talks {
            assert_eq!(peer.write(&[round; 5]).unwrap(), 5);
        }
        let mut got = vec![Vec::new(); talks.len()];
        let until_us = world.driver.now_us() + 10_000_000;
        while got.iter().any(|got| got.len() < 5) && world.driver.now_us() < until_us {
            world.driver.wait(Wait::Until(until_us), &mut |event| match event {
                Event::Received(Token(at), bytes) => got[at as usize].extend_from_slice(bytes),
                event => panic!("unexpected {event:?}"),
            });
        }
        assert!(got.iter().all(|got| *got == [round; 5]), "round {round}: {got:?}");
        for (_, conn) in &talks {
            assert!(world.driver.send(*conn, vec![round; 7]).is_some());
        }
        for (peer, _) in &mut talks {
            let mut answer = Vec::new();
            while answer.len() < 7 {
                answer.extend(world.read(peer));
                world.turn(&mut |event| panic!("unexpected {event:?}"));
            }
            assert_eq!(answer, [round; 7]);
        }
    }
    assert!(world.driver.counts().overflows > 0, "{:?}", world.driver.counts());
}

/// From small buffers to large ones and back, both ways, while the peer writes as fast as it can.
#[test]
fn bulk_and_talk_take_turns_on_one_connection() {
    if !usable() {
        return;
    }
    let mut world = Real::new();
    world.driver.accept(true);
    let (peer, conn) = client(&mut world, A);
    peer.set_nonblocking(false).unwrap();
    let sent: Vec<u8> =
        (0..24u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let expected = sent.clone();
    let writer = std::thread::spawn(move || {
        let mut peer = peer;
        for half in sent.chunks(12 << 20) {
            peer.write_all(&half[..(12 << 20) - 4000]).unwrap();
            for talk in half[(12 << 20) - 4000..].chunks(50) {
                peer.write_all(talk).unwrap();
                std::thread::yield_now();
            }
        }
        peer
    });
    let (mut got, mut waits) = (Vec::with_capacity(expected.len()), 0);
    let until_us = world.driver.now_us() + 30_000_000;
    while got.len() < expected.len() && world.driver.now_us() < until_us {
        world.driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Received(A, bytes) => got.extend_from_slice(bytes),
            event => panic!("unexpected {event:?}"),
        });
        waits += 1;
        // Stopped and begun again in the middle of it.
        if waits % 7 == 0 {
            world.driver.recv(conn, false);
            world.driver.wait(Wait::Poll, &mut |event| panic!("unexpected {event:?}"));
            world.driver.recv(conn, true);
        }
    }
    assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
    drop(writer.join().unwrap());
    event(&mut world.driver, |event| matches!(event, Event::Eof(A)).then_some(()));
}

#[test]
fn half_closed_clients_do_not_spin() {
    if !usable() {
        return;
    }
    let mut world = Real::new();
    world.driver.accept(true);
    let (peer, conn) = client(&mut world, A);
    peer.shutdown(Shutdown::Write).unwrap();
    event(&mut world.driver, |event| matches!(event, Event::Eof(A)).then_some(()));
    rests(&mut world.driver, 50);
    // Blocked both ways: nothing comes, and the peer does not read.
    assert_eq!(world.driver.send(conn, vec![0; 32 << 20]), None);
    rests(&mut world.driver, 50);
    let reader = std::thread::spawn(move || {
        let mut peer = peer;
        peer.set_nonblocking(false).unwrap();
        peer.read_exact(&mut vec![0; 32 << 20]).unwrap();
        peer
    });
    event(&mut world.driver, |event| matches!(event, Event::Sent(A, _)).then_some(()));
    let _peer = reader.join().unwrap();
    rests(&mut world.driver, 50);
}

mod unix {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// A unix peer that closes hangs up at once, also while its bytes are still to be read.
    #[test]
    fn a_hang_up_while_not_reading_neither_spins_nor_loses() {
        if !usable() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = Listener::bind(&Address::Unix(path.clone()), &ListenOptions::default());
        let mut driver = driver(vec![listener.unwrap()]);
        let mut peer = UnixStream::connect(&path).unwrap();
        let client = accepted(&mut driver);
        assert_eq!(client.peer, format!("{}:0", path.display()));
        let conn = driver.adopt(client, A);
        driver.recv(conn, false);
        peer.write_all(b"last words").unwrap();
        drop(peer);
        rests(&mut driver, 50);
        driver.recv(conn, true);
        let mut told = Vec::new();
        while told.len() < 2 {
            let until_us = driver.now_us() + 10_000_000;
            let count =
                driver.wait(Wait::Until(until_us), &mut |event| told.push(format!("{event:?}")));
            assert!(count > 0, "only {told:?}");
        }
        let words = format!("{:?}", Event::<Stream>::Received(A, b"last words"));
        assert_eq!(told, [words, "Eof(Token(1))".to_owned()]);
        // The end has been told; the hang-up goes on.
        rests(&mut driver, 50);
        // It was taken, as a socket with room would have; the failure comes after it.
        assert!(driver.send(conn, b"to nobody".to_vec()).is_some());
        event(&mut driver, |event| match event {
            Event::Closed(A, why) => {
                assert_eq!(why, CloseReason::Broken(libc::EPIPE));
                Some(())
            }
            event => panic!("unexpected {event:?}"),
        });
        assert_eq!(driver.conns(), 0);
    }

    /// A server that turns us away often says why and closes before our greeting is out.
    #[test]
    fn what_was_said_before_a_failed_send_is_told_first() {
        if !usable() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let server = UnixListener::bind(&path).unwrap();
        for greeting in [100, 100_000] {
            let mut driver = driver(Vec::new());
            let conn = driver.connect(&Address::Unix(path.clone()), A);
            event(&mut driver, |event| matches!(event, Event::Connected(A)).then_some(()));
            let (mut peer, _) = server.accept().unwrap();
            peer.write_all(b"-ERR go away\r\n").unwrap();
            drop(peer);
            let _ = driver.send(conn, vec![b'x'; greeting]);
            let (mut heard, mut why) = (Vec::new(), None);
            let until_us = driver.now_us() + 10_000_000;
            while why.is_none() && driver.now_us() < until_us {
                driver.wait(Wait::Until(until_us), &mut |event| match event {
                    Event::Received(A, bytes) => heard.extend_from_slice(bytes),
                    Event::Eof(A) => {}
                    Event::Closed(A, reason) => why = Some(reason),
                    event => panic!("unexpected {event:?}"),
                });
            }
            assert_eq!(heard, b"-ERR go away\r\n");
            assert_eq!(why, Some(CloseReason::Broken(libc::EPIPE)));
        }
    }

    #[test]
    fn a_known_failure_of_a_connect_is_told_at_once() {
        if !usable() {
            return;
        }
        let mut driver = driver(Vec::new());
        driver.connect(&Address::Unix("/nowhere/at/all".into()), A);
        let begin_us = driver.now_us();
        event(&mut driver, |event| match event {
            Event::Closed(A, why) => {
                assert_eq!(why, CloseReason::ConnectFailed(libc::ENOENT));
                Some(())
            }
            event => panic!("unexpected {event:?}"),
        });
        assert!(driver.now_us() - begin_us < 5_000_000, "it was slept over");
    }
}

#[test]
fn until_keeps_microseconds() {
    if !usable() {
        return;
    }
    let mut driver = driver(Vec::new());
    let shortest_us = (0..50)
        .map(|_| {
            let begin_us = driver.now_us();
            driver.wait(Wait::Until(begin_us + 200), &mut |event| panic!("unexpected {event:?}"));
            driver.now_us() - begin_us
        })
        .min()
        .unwrap();
    assert!(shortest_us >= 200, "woke up after {shortest_us} µs of 200");
    // With whole milliseconds it could never be below 1000; the best of fifty on a busy machine is.
    assert!(shortest_us < 900, "woke up after {shortest_us} µs of 200");
}

#[test]
fn a_gather_sleeps_until_enough_has_come_or_its_time_is_over() {
    if !usable() {
        return;
    }
    let mut world = Real::new();
    world.driver.accept(true);
    let mut talks: Vec<_> = (0..3).map(|at| client(&mut world, Token(at))).collect();
    world.driver.wait(Wait::Poll, &mut |event| panic!("unexpected {event:?}"));
    for (completions, early) in [(100, false), (3, true)] {
        // Sends complete, too; they are no input.
        for (peer, conn) in &mut talks {
            assert!(world.driver.send(*conn, b"beside".to_vec()).is_some());
            assert_eq!(peer.write(b"input").unwrap(), 5);
        }
        let until_us = world.driver.now_us() + if early { 10_000_000 } else { 20_000 };
        let mut received = 0;
        world.driver.wait(Wait::Gather { until_us, completions }, &mut |event| {
            assert!(matches!(event, Event::Received(..)), "unexpected {event:?}");
            received += 1;
        });
        assert_eq!(world.driver.now_us() < until_us, early);
        assert_eq!(received, 3, "all of it comes in one batch");
    }
}

#[test]
fn a_waker_ends_a_wait_from_another_thread() {
    if !usable() {
        return;
    }
    let mut driver = driver(Vec::new());
    let waker = driver.waker();
    let (post, mailbox) = std::sync::mpsc::channel();
    let messages = 300_000;
    let sender = std::thread::spawn(move || {
        for message in 0..messages {
            post.send(message).unwrap();
            waker.wake();
        }
    });
    let mut expected = 0;
    while expected < messages {
        let until_us = driver.now_us() + 5_000_000;
        let told =
            driver.wait(Wait::Until(until_us), &mut |event| assert!(matches!(event, Event::Woken)));
        // The sender is done in less: a wait that ends by its time has lost a wake-up.
        assert!(told > 0, "a wake-up was lost at message {expected}");
        for message in mailbox.try_iter() {
            assert_eq!(message, expected);
            expected += 1;
        }
    }
    sender.join().unwrap();
}

#[test]
fn listeners_come_and_go() {
    if usable() {
        sockets::listeners_come_and_go::<UringDriver>();
    }
}

#[test]
fn shares_of_a_listener_are_independent() {
    if !usable() {
        return;
    }
    let listener = Listener::bind(&loopback(), &ListenOptions::default()).unwrap();
    let Address::Tcp(addr) = *listener.local_addr() else { panic!("bound to TCP") };
    let mut first = driver(vec![listener.try_clone().unwrap()]);
    let mut second = driver(vec![listener]);
    // Both wait in the kernel.
    idles(&mut first);
    idles(&mut second);
    first.close_listeners();
    let _peer = TcpStream::connect(addr).unwrap();
    // The kernel's socket lives on in the second share; the first must not hear of it.
    rests(&mut first, 30);
    accepted(&mut second);
    second.wait(Wait::Poll, &mut |event| panic!("unexpected {event:?}"));
    second.close_listeners();
    assert!(TcpStream::connect(addr).is_err(), "nobody listens any more");
    // And the port can be had again at once.
    Listener::bind(&Address::Tcp(addr), &ListenOptions::default()).unwrap();
}

/// The kernel lets go of a ring only after its last operation: the port must not stay taken.
#[test]
fn a_driver_that_goes_gives_its_port_back() {
    if !usable() {
        return;
    }
    for _ in 0..20 {
        let listener = Listener::bind(&loopback(), &ListenOptions::default()).unwrap();
        let at = listener.local_addr().clone();
        let mut driver = driver(vec![listener]);
        idles(&mut driver);
        drop(driver);
        Listener::bind(&at, &ListenOptions::default()).unwrap();
    }
}

#[test]
fn a_flood_of_connects_comes_in_bounded_batches() {
    if !usable() {
        return;
    }
    let mut world = Real::new();
    let peers: Vec<TcpStream> = (0..100).map(|_| world.dial()).collect();
    world.driver.accept(true);
    let mut batches = Vec::new();
    while batches.iter().sum::<usize>() < peers.len() {
        let mut accepted = Vec::new();
        let until_us = world.driver.now_us() + 10_000_000;
        let told = world.driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Accepted(client) => accepted.push(client),
            event => panic!("unexpected {event:?}"),
        });
        assert!(told > 0, "connections wait and none came");
        batches.push(told);
    }
    assert!(batches.iter().all(|batch| *batch <= 64), "{batches:?}");
}

/// Clients come, send and go in all orders, while others use their places.
#[test]
fn connections_that_come_and_go_disturb_nobody() {
    if !usable() {
        return;
    }
    let mut rng = netio::sim::SimRng::new(11);
    let mut world = Real::new();
    world.driver.accept(true);
    let (mut faithful, _) = client(&mut world, A);
    let mut heard = Vec::new();
    for at in 0..300u64 {
        let (mut peer, conn) = client(&mut world, Token(1000 + at));
        if rng.chance(500_000) {
            assert!(peer.write(&vec![1; rng.between(1, 9000) as usize]).unwrap() > 0);
        }
        if rng.chance(300_000) {
            let _ = world.driver.send(conn, vec![2; rng.between(1, 40_000) as usize]);
        }
        match rng.between(0, 3) {
            0 => drop(peer),
            1 => world.reset(peer),
            _ => {}
        }
        assert_eq!(faithful.write(&[at as u8; 10]).unwrap(), 10);
        let mut gone = false;
        let until_us = world.driver.now_us() + 10_000_000;
        while heard.len() < (at as usize + 1) * 10 && world.driver.now_us() < until_us {
            world.driver.wait(Wait::Until(until_us), &mut |event| match event {
                Event::Received(A, bytes) => heard.extend_from_slice(bytes),
                Event::Received(..) | Event::Eof(_) | Event::Sent(..) => {}
                Event::Closed(..) => gone = true,
                event => panic!("unexpected {event:?}"),
            });
        }
        assert!(heard.ends_with(&[at as u8; 10]));
        world.driver.close(conn);
        assert_eq!(world.driver.conns(), 1, "round {at}, gone {gone}");
    }
}
