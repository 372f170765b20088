//! Values far larger than what the proxy may hold, and pipelines far deeper.
//!
//! A value of 512 MiB, the largest that the server takes, passes in both directions while the
//! proxy's memory hardly grows. A client that sends a million requests and reads nothing is slowed
//! down, not cut and not buffered. `RESPOOL_LONG=1` makes it ten million.
//!
//! Invariant: another client is served meanwhile, at every moment.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::frames::{Replies, quote, request};
use testkit::{Conn, Endpoint};

use crate::setup::{Stack, direct, long};

const MIB: usize = 1024 * 1024;
/// The server's own limit (`proto-max-bulk-len`).
const VALUE_BYTES: usize = 512 * MIB;
/// What the proxy's memory may grow by.
const GROWTH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A pattern in which no two aligned places of a value look alike, so that a shifted or doubled
/// piece shows.
fn pattern(chunk: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MIB);
    for word in 0..MIB / 8 {
        let number = (chunk * MIB / 8 + word) as u64;
        bytes.extend_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
    bytes
}

/// A client that sends small requests until it is told to stop; returns how many it made and the
/// longest wait.
fn bystander(front: &Endpoint, stop: &AtomicBool) -> (u64, Duration) {
    let mut conn = Conn::to(front);
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Acquire) {
        let begun = Instant::now();
        assert_eq!(conn.ask("SET bystander here"), "+OK\r\n");
        assert_eq!(conn.ask("GET bystander"), "$4\r\nhere\r\n");
        longest = longest.max(begun.elapsed());
        count += 1;
        thread::sleep(Duration::from_millis(2));
    }
    (count, longest)
}

// A proxy that collects a value before it passes it on needs its size in memory, in each direction.
#[test]
fn half_a_gigabyte_passes_both_ways_in_little_memory() {
    // A client behind whose reply others wait may hold `client_out_max_bytes`, 64 MiB by default;
    // then it is given a time to read on, which must not end because this test's machine is busy.
    let mut stack = Stack::with(&[
        "--limits-client-out-max-bytes",
        "16MiB",
        "--timeouts-stall-ms",
        "30000",
        "--timeouts-request-ms",
        "60000",
    ]);
    let before = stack.rss_bytes();
    let stop = AtomicBool::new(false);
    let (count, longest) = thread::scope(|scope| {
        let other = scope.spawn(|| bystander(stack.front(), &stop));
        let mut conn = stack.connect();
        conn.set_timeout(Duration::from_secs(60));
        set_huge(&mut conn);
        let growth_of_set = stack.rss_bytes().saturating_sub(before);
        assert_eq!(stack.server.connect().ask("STRLEN huge"), format!(":{VALUE_BYTES}\r\n"));
        get_huge(&mut conn);
        // The same connection goes on with small things.
        assert_eq!(conn.ask("STRLEN huge"), format!(":{VALUE_BYTES}\r\n"));
        stop.store(true, Ordering::Release);
        println!("growth after SET {} KiB", growth_of_set / 1024);
        other.join().expect("the other client")
    });
    println!("the other client made {count} rounds meanwhile, the longest {longest:?}");
    assert!(count > 10, "the other client made {count} rounds");
    if let Some(proxy) = &stack.proxy {
        let growth = proxy.process().rss_peak_bytes().saturating_sub(before);
        println!("peak growth of the proxy {} KiB", growth / 1024);
        assert!(growth < GROWTH_BYTES_MAX, "the proxy grew by {growth} bytes");
    }
    stack.assert_alive();
}

fn set_huge(conn: &mut Conn) {
    conn.send(format!("*3\r\n$3\r\nSET\r\n$4\r\nhuge\r\n${VALUE_BYTES}\r\n").as_bytes())
        .expect("header");
    for chunk in 0..VALUE_BYTES / MIB {
        conn.send(&pattern(chunk)).expect("value");
    }
    conn.send(b"\r\n").expect("end");
    assert_eq!(conn.reply().expect("reply"), b"+OK\r\n");
}

fn get_huge(conn: &mut Conn) {
    conn.send_command(&["GET", "huge"]).expect("request");
    let stream = conn.stream();
    stream.set_read_timeout(Duration::from_secs(60)).expect("timeout");
    let head = format!("${VALUE_BYTES}\r\n");
    let mut got = vec![0; head.len()];
    stream.read_exact(&mut got).expect("header");
    assert_eq!(got, head.as_bytes());
    let mut got = vec![0; MIB];
    for chunk in 0..VALUE_BYTES / MIB {
        stream.read_exact(&mut got).expect("value");
        assert!(got == pattern(chunk), "MiB {chunk} of the value differs");
    }
    let mut end = [0; 2];
    stream.read_exact(&mut end).expect("end");
    assert_eq!(&end, b"\r\n");
}

// INCR makes the replies count themselves: one that is lost, doubled or out of order shows at once.
/// Where something in the proxy ends or changes: receive buffers, pooled buffers, cut-through, chunks, streamed requests, marks of
/// clients and of upstreams.
const BOUNDARIES: [usize; 8] =
    [4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20];

#[test]
fn values_at_every_boundary_come_back_whole_beside_small_ones() {
    let stack = Stack::start();
    let (mut conn, mut other) = (stack.connect(), stack.connect());
    for boundary in BOUNDARIES {
        // The value alone, with its header, with the whole request, and with a reply before it ends at the boundary or beside it.
        let nears = [0, 1, 2, 3, 7, 12, 13, 14, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 46, 50];
        let few = boundary > 256 << 10;
        for near in nears.iter().copied().filter(|near| !few || near % 6 < 2) {
            for size in [boundary - near, boundary + near % 5] {
                let value: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
                let sent = [
                    request(&[&b"SET"[..], b"k", &value]),
                    request(&["ECHO", "x"]),
                    request(&["GET", "k"]),
                    request(&["STRLEN", "k"]),
                ]
                .concat();
                // In one piece, and cut right beside the boundary.
                let cut = boundary.min(sent.len());
                for piece in [&sent[..cut], &sent[cut..]] {
                    conn.send(piece).expect("sent");
                }
                assert_eq!(other.ask("PING"), "+PONG\r\n");
                assert_eq!(conn.reply().expect("SET"), b"+OK\r\n", "{size} bytes");
                assert_eq!(conn.reply().expect("ECHO"), b"$1\r\nx\r\n", "{size} bytes");
                let mut expected = format!("${size}\r\n").into_bytes();
                expected.extend_from_slice(&value);
                expected.extend_from_slice(b"\r\n");
                assert!(conn.reply().expect("GET") == expected, "{size} bytes came back otherwise");
                let length = format!(":{size}\r\n");
                assert_eq!(conn.reply().expect("STRLEN"), length.as_bytes());
            }
        }
    }
    assert!(conn.surplus().is_empty());
}

#[test]
fn a_pipeline_that_is_not_read_is_slowed_and_then_answered_in_order() {
    let total: u64 = if long() { 10_000_000 } else { 1_000_000 };
    let mut stack = Stack::start();
    let before = stack.rss_bytes();
    let stop = AtomicBool::new(false);
    let may_wait = AtomicBool::new(true);
    let (count, longest) = thread::scope(|scope| {
        let other = scope.spawn(|| bystander(stack.front(), &stop));
        let mut stream = stack.front().connect().expect("connect");
        let writer = stream.try_clone().expect("second handle");
        // Short, so that both sides look around: a peer that does not move is what is tested here.
        stream.set_read_timeout(Duration::from_millis(100)).expect("timeout");
        writer.set_write_timeout(Duration::from_millis(100)).expect("timeout");
        let writing = scope.spawn(|| write_increments(writer, total, &may_wait));
        // Nothing is read until the writer can write no more or is done.
        testkit::wait::until_true("the writer to get stuck", Duration::from_secs(60), || {
            !may_wait.load(Ordering::Acquire)
        });
        if !direct() {
            let growth = stack.rss_bytes().saturating_sub(before);
            println!("growth with nothing read: {} KiB", growth / 1024);
            assert!(growth < GROWTH_BYTES_MAX, "the proxy grew by {growth} bytes");
        }
        read_increments(&mut stream, total);
        writing.join().expect("writer");
        stop.store(true, Ordering::Release);
        other.join().expect("the other client")
    });
    println!("{total} requests; the other client made {count} rounds, the longest {longest:?}");
    assert!(count > 10, "the other client made {count} rounds");
    stack.assert_alive();
}

/// Writes all requests. Clears `may_wait` when the peer has not taken a byte for a second, or at
/// the end.
fn write_increments(mut stream: impl Write, total: u64, may_wait: &AtomicBool) {
    const BATCH: u64 = 1000;
    let batch = b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n".repeat(BATCH as usize);
    let end = Instant::now() + Duration::from_secs(120);
    let mut moved = Instant::now();
    for _ in 0..total / BATCH {
        let mut rest = &batch[..];
        while !rest.is_empty() {
            assert!(Instant::now() < end, "the writer is stuck for good");
            match stream.write(rest) {
                Ok(count) => {
                    rest = &rest[count..];
                    moved = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("the client was cut: {error}"),
            }
            if moved.elapsed() > Duration::from_secs(1) {
                may_wait.store(false, Ordering::Release);
            }
        }
    }
    may_wait.store(false, Ordering::Release);
}

/// Reads the replies `:1` to `:total`, each in its place.
fn read_increments(stream: &mut impl Read, total: u64) {
    let mut replies = Replies::default();
    let mut chunk = vec![0; 256 * 1024];
    let mut expected = 0;
    let end = Instant::now() + Duration::from_secs(120);
    while expected < total {
        assert!(Instant::now() < end, "{expected} of {total} replies in two minutes");
        match stream.read(&mut chunk) {
            Ok(0) => panic!("closed after {expected} replies"),
            Ok(count) => replies.push(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("after {expected} replies: {error}"),
        }
        while let Some(reply) = replies.pop().expect("RESP") {
            expected += 1;
            let right = format!(":{expected}\r\n");
            assert!(reply == right.as_bytes(), "{} instead of {right}", quote(&reply, 80));
        }
    }
    assert!(replies.rest().is_empty(), "more replies than requests");
}
