//! Instruction counts of asking a program: the guide's, which reads the command's name and the first key, and what a worker pays besides.
//!
//! `asked` is one call, `begun` an instance, which a worker makes once and after each failure.

// The macros make public items of their own, which have no documentation.
#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use engine::policy::own::{Judge, Own, Program, Verdict, View};
use gungraun::{library_benchmark, library_benchmark_group, main};

const GUARD: &str = include_str!("../../../docs/guides/own-policies/guard.wat");
const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n";
const DEL: &[u8] = b"*2\r\n$3\r\nDEL\r\n$16\r\nkey:000000000001\r\n";

fn program() -> Arc<dyn Program> {
    let own = Own {
        file: String::new(),
        fuel: 100_000,
        memory_max_bytes: 1 << 20,
        passes_on_failure: false,
    };
    extension::load(GUARD.as_bytes(), &own).expect("the guide's program")
}

fn view(request: &[u8]) -> View<'_> {
    View {
        request,
        user: b"default",
        client_address: "10.0.0.1:5000",
        client_name: b"",
        client: 7,
        db: 0,
        protocol: 2,
        is_inside: false,
        unix_ms: 1_700_000_000_123,
        random: 42,
    }
}

/// One that was asked before.
fn warm(request: &'static [u8]) -> (Box<dyn Judge>, &'static [u8]) {
    let mut judge = program().judge().expect("it begins");
    assert!(judge.request(&view(GET)).verdict == Ok(Verdict::Pass));
    (judge, request)
}

#[library_benchmark]
#[bench::passes(warm(GET))]
#[bench::rewrites(warm(DEL))]
fn asked((mut judge, request): (Box<dyn Judge>, &'static [u8])) {
    let judgement = judge.request(&view(request));
    std::mem::forget(black_box((judge, judgement)));
}

#[library_benchmark]
#[bench::guard(program())]
fn begun(program: Arc<dyn Program>) {
    let judge = program.judge();
    std::mem::forget(black_box((program, judge)));
}

library_benchmark_group!(name = sandbox, benchmarks = [asked, begun]);
main!(library_benchmark_groups = sandbox);
