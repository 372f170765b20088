//! What a server sends, in pieces, against the oracle; and the tree against the scanner.
//!
//! The body is `resp::fuzzing::reply`, so that `cargo test -p resp` replays `fuzz/seeds/reply` with the same code.
//! This file only connects it with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp::fuzzing::reply(data));
