//! A program of the operator's own, binary or as text: loaded, and asked about requests.
//!
//! The body is `extension::fuzzing::program`, so that `cargo test -p extension` replays `fuzz/seeds/program` with the same code.
//! This file only connects it with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| extension::fuzzing::program(data));
