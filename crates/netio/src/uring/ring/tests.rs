//! The queues and the memory behind them, on pairs of unix sockets.
//!
//! Where the kernel forbids io_uring each test says so and does nothing.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::*;

const SMALLEST: RingOptions = RingOptions {
    sq_entries: 4,
    cq_entries: 8,
    small: GroupOptions { buffer_bytes: 4096, buffers: 2, buffers_max: 4 },
    large: GroupOptions { buffer_bytes: 8192, buffers: 1, buffers_max: 1 },
};

const ID: ConnId = ConnId { index: 3, generation: 5 };

fn ring() -> Option<Ring> {
    Ring::new(&SMALLEST).inspect_err(|unfit| eprintln!("skipped: {unfit}")).ok()
}

/// Enters until so many completions have come, ten seconds at most.
fn completions(ring: &mut Ring, count: usize) -> Vec<Completion> {
    let begin = Instant::now();
    let mut done = Vec::new();
    while done.len() < count && begin.elapsed().as_secs() < 10 {
        ring.enter(1, Some(100_000));
        ring.take(&mut done);
    }
    assert_eq!(done.len(), count, "{done:?}");
    done
}

#[test]
fn buffers_come_back_with_what_was_sent() {
    let Some(mut ring) = ring() else { return };
    let (mut peer, ours) = UnixStream::pair().unwrap();
    ring.recv(ours.as_fd(), ID, Buffers::Small);
    // Each of the two buffers goes round several times.
    for round in 0..10u8 {
        let sent = vec![round; 100 + usize::from(round)];
        peer.write_all(&sent).unwrap();
        let mut done = completions(&mut ring, 1);
        let Some(Completion { op, result, more, filled: Some(filled) }) = done.pop() else {
            panic!("bytes came without a buffer")
        };
        assert_eq!((op, result, more), (Op::Recv(ID), Ok(sent.len() as u32), true));
        assert_eq!(ring.bytes(&filled), sent);
        ring.recycle(filled);
    }
    // A large buffer is asked for once.
    ring.cancel(Op::Recv(ID));
    assert_eq!(completions(&mut ring, 1)[0].result, Err(Errno::CANCELED));
    ring.recv(ours.as_fd(), ID, Buffers::Large);
    peer.write_all(&[9; 8192]).unwrap();
    let done = completions(&mut ring, 1).pop().unwrap();
    assert!(!done.more);
    assert_eq!(ring.bytes(&done.filled.unwrap()), [9; 8192]);
}

/// Both buffers are with us when a third receive wants one.
#[test]
fn without_buffers_receiving_ends_and_nothing_is_lost() {
    let Some(mut ring) = ring() else { return };
    let (mut peer, ours) = UnixStream::pair().unwrap();
    peer.write_all(&[1; 4096]).unwrap();
    peer.write_all(&[2; 4096]).unwrap();
    peer.write_all(&[3; 4096]).unwrap();
    ring.recv(ours.as_fd(), ID, Buffers::Small);
    let mut done = completions(&mut ring, 3);
    let last = done.pop().unwrap();
    assert_eq!((last.result, last.more), (Err(Errno::NOBUFS), false));
    assert!(last.filled.is_none());
    for completion in done {
        ring.recycle(completion.filled.unwrap());
    }
    ring.grow(false);
    assert_eq!(ring.buffers(), (4, 1));
    ring.recv(ours.as_fd(), ID, Buffers::Small);
    let filled = completions(&mut ring, 1).pop().unwrap().filled.unwrap();
    assert_eq!(ring.bytes(&filled), [3; 4096], "what found no buffer came when there was one");
}

#[test]
fn a_full_queue_is_flushed_and_goes_on() {
    let Some(mut ring) = ring() else { return };
    for _ in 0..100 {
        ring.push(opcode::Nop::new().build(), Op::Nop);
    }
    assert_eq!(ring.open, 100);
    let done = completions(&mut ring, 100);
    assert!(done.iter().all(|done| done.result == Ok(0)));
    assert!(ring.is_submitted());
    assert_eq!(ring.open, 0);
}

#[test]
fn more_completions_than_room_are_kept() {
    let Some(mut ring) = ring() else { return };
    let pairs: Vec<_> = (0..20).map(|_| UnixStream::pair().unwrap()).collect();
    for (at, (_, ours)) in pairs.iter().enumerate() {
        let id = ConnId { index: at as u32, generation: 0 };
        ring.poll(ours.as_fd(), libc::POLLIN as u32, Op::Watch(id));
    }
    ring.enter(0, None);
    for (peer, _) in &pairs {
        (&mut &*peer).write_all(b"x").unwrap();
    }
    // The queue has room for eight, and nobody takes any.
    ring.enter(8, Some(1_000_000));
    ring.enter(0, None);
    let mut seen: Vec<u32> = completions(&mut ring, 20)
        .iter()
        .map(|done| match done.op {
            Op::Watch(id) => id.index,
            op => panic!("unexpected {op:?}"),
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..20).collect::<Vec<u32>>());
    assert!(ring.overflows() > 0, "it is counted");
}

#[test]
fn a_wait_for_completions_ends_by_its_time() {
    let Some(mut ring) = ring() else { return };
    let begin_us = sys::monotonic_us();
    ring.enter(1, Some(20_000));
    let slept_us = sys::monotonic_us() - begin_us;
    assert!((20_000..2_000_000).contains(&slept_us), "slept {slept_us} µs of 20 000");
    // Nothing to hand over and nothing to wait for: no system call, and no error.
    ring.enter(0, None);
    let mut done = Vec::new();
    ring.take(&mut done);
    assert!(done.is_empty());
}

#[test]
fn a_cancelled_send_gives_its_buffer_back_only_then() {
    let Some(mut ring) = ring() else { return };
    let (_peer, ours) = UnixStream::pair().unwrap();
    let id = ring.launch(ours.as_raw_fd(), Flight::new(ID, vec![7; 8 << 20], 0, false));
    ring.enter(0, None);
    let mut done = Vec::new();
    ring.take(&mut done);
    assert!(done.is_empty(), "nobody reads: {done:?}");
    assert!(ring.flight_mut(id).unwrap().is_in_kernel());
    ring.cancel(Op::Send(id));
    let done = completions(&mut ring, 1).pop().unwrap();
    assert_eq!(done.op, Op::Send(id));
    // What the socket had room for is out.
    let sent = done.result.unwrap() as usize;
    assert!(sent > 0 && sent < 8 << 20, "{sent} bytes");
    let flight = ring.land(id).unwrap();
    assert_eq!(flight.rest().len(), (8 << 20) - sent);
    assert!(ring.land(id).is_none(), "the id is stale");
}

#[test]
#[should_panic(expected = "before its completion")]
fn a_flight_in_the_kernel_cannot_be_taken() {
    let Some(mut ring) = ring() else { panic!("skipped, before its completion") };
    let (_peer, ours) = UnixStream::pair().unwrap();
    let id = ring.launch(ours.as_raw_fd(), Flight::new(ID, vec![7; 8 << 20], 0, false));
    ring.enter(0, None);
    let _ = ring.land(id);
}

#[test]
fn a_ring_goes_with_operations_in_flight() {
    let Some(mut ring) = ring() else { return };
    let (mut peer, ours) = UnixStream::pair().unwrap();
    let (_silent, other) = UnixStream::pair().unwrap();
    ring.recv(other.as_fd(), ID, Buffers::Small);
    ring.poll(ours.as_fd(), 0, Op::Watch(ID));
    ring.launch(ours.as_raw_fd(), Flight::new(ID, vec![7; 8 << 20], 0, false));
    ring.enter(0, None);
    // And some that the kernel has not seen.
    ring.recv(ours.as_fd(), ID, Buffers::Large);
    assert_eq!(ring.open, 4);
    assert!(ring.settle(), "each of them has ended");
    let begin = Instant::now();
    drop(ring);
    assert!(begin.elapsed().as_millis() < 500, "nothing was waited for");
    // No operation holds the socket open.
    drop(ours);
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert!(got.iter().all(|byte| *byte == 7));
}

#[test]
fn a_ring_is_found_by_its_place_and_gives_it_back() {
    // The kernel has sixteen places for each thread.
    for _ in 0..40 {
        let Some(ring) = ring() else { return };
        assert_ne!(ring.enter_flags & ENTER_REGISTERED_RING, 0, "places ran out");
    }
}
