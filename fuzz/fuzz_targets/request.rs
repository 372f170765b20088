//! What a client sends, in pieces, against the oracle.
//!
//! The body is `resp::fuzzing::request`, so that `cargo test -p resp` replays `fuzz/seeds/request` with the same code.
//! This file only connects it with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp::fuzzing::request(data));
