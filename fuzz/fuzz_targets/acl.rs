//! Rules of a user, and requests that are looked at by them.
//!
//! The body is `engine::acl::fuzzing::acl`, so that `cargo test -p engine` replays `fuzz/seeds/acl` with the same code.
//! This file only connects it with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::acl::fuzzing::acl(data));
