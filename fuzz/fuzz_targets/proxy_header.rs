//! What a connection begins with on a listener with `proxy_protocol=on`, in pieces, against the oracle.
//!
//! The body is `netio::proxy_header::fuzzing::proxy_header`, so that `cargo test -p netio` replays `fuzz/seeds/proxy_header` with
//! the same code. This file only connects it with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| netio::proxy_header::fuzzing::proxy_header(data));
