//! One line, split into words, against the oracle.
//!
//! The body is `resp::fuzzing::inline`, so that `cargo test -p resp` replays `fuzz/seeds/inline` with the same code.
//! This file only connects it with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp::fuzzing::inline(data));
