//! Instruction counts of the hot path, under callgrind: the same on every machine, noise or not.
//!
//! Run `cargo bench -p resp` (needs valgrind and `cargo install gungraun-runner --version 0.20.0`). Wall time
//! is deliberately not measured here; a scan takes a few nanoseconds and CI machines cannot see them.
//!
//! Each count is of the benchmark function itself, with its call and its `black_box`: some ten instructions
//! more than the scan alone.

// The macros make public items of their own, which have no documentation.
#![allow(missing_docs)]

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use resp::{ReplyScanner, RequestLimits, RequestScanner, Scan, encode};

const GET: &[&[u8]] = &[b"GET", b"key:000000000001"];
const SET: &[&[u8]] = &[b"SET", b"key:000000000001", b"xxx"];

/// So many of the same request, one behind the other, and a scanner for them.
fn requests(args: &[&[u8]], count: usize) -> (RequestScanner, RequestLimits, Vec<u8>) {
    let mut bytes = Vec::new();
    for _ in 0..count {
        encode::request(&mut bytes, args);
    }
    (RequestScanner::default(), RequestLimits::default(), bytes)
}

fn replies(reply: &[u8], count: usize) -> (ReplyScanner, Vec<u8>) {
    (ReplyScanner::default(), reply.repeat(count))
}

// Scans to the end of the bytes; returns the frames found, so that nothing is optimised away.
#[library_benchmark]
#[bench::get(requests(GET, 1))]
#[bench::set(requests(SET, 1))]
#[bench::get_20(requests(GET, 20))]
#[bench::ping(requests(&[b"PING"], 1))]
#[bench::mget_100(requests(&[b"key:000000000001".as_slice(); 100], 1))]
#[bench::set_16_kib(requests(&[b"SET", b"key", &[b'x'; 16 * 1024]], 1))]
fn scan_requests(input: (RequestScanner, RequestLimits, Vec<u8>)) -> usize {
    let (mut scanner, limits, bytes) = black_box(input);
    let (mut at, mut frames) = (0, 0);
    while let Ok(Scan::Complete { consumed, frame }) = scanner.scan(&bytes[at..], &limits) {
        at += consumed;
        frames += black_box(frame.args) as usize;
    }
    // Freeing is no part of the scan.
    std::mem::forget(bytes);
    frames
}

#[library_benchmark]
#[bench::ok(replies(b"+OK\r\n", 1))]
#[bench::bulk_3(replies(b"$3\r\nxxx\r\n", 1))]
#[bench::null(replies(b"$-1\r\n", 1))]
#[bench::bulk_3_20(replies(b"$3\r\nxxx\r\n", 20))]
#[bench::integer(replies(b":1234567\r\n", 1))]
#[bench::array_100(replies(&[&b"*100\r\n"[..], &b"$3\r\nxxx\r\n".repeat(100)].concat(), 1))]
fn scan_replies(input: (ReplyScanner, Vec<u8>)) -> usize {
    let (mut scanner, bytes) = black_box(input);
    let (mut at, mut frames) = (0, 0);
    while let Ok(Scan::Complete { consumed, .. }) = scanner.scan(&bytes[at..]) {
        at += consumed;
        frames += 1;
    }
    std::mem::forget((scanner, bytes));
    frames
}

library_benchmark_group!(name = scans, benchmarks = [scan_requests, scan_replies]);
main!(library_benchmark_groups = scans);
