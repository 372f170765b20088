//! Runs made by hand for tests: every figure is what the test says, and nothing is left to chance.
#![allow(dead_code, reason = "each test file uses some of these words")]

use bench::record::{FORMAT, Latency, Machine, Run, Target, Test, Usage, Visit};

/// A visit of one second and 100 000 requests: 2 µs of proxy (a quarter user), 4 µs of server (half user).
pub(crate) fn visit(target: &str, round: u32) -> Visit {
    Visit {
        target: target.to_owned(),
        round,
        began_s: f64::from(round),
        seconds: 1.0,
        requests: 100_000,
        nulls: 0,
        latency: Latency {
            mean_us: 210.0,
            min_us: 50.0,
            max_us: 9000.0,
            percentiles: vec![(50.0, 200.0), (99.0, 800.0)],
        },
        proxy: if target == "direct" { Usage::default() } else { usage(0.2, 0.25) },
        server: usage(0.4, 0.5),
        load: usage(0.5, 0.3),
        idle: None,
        load_threads: 1,
        other_cores: 0.0,
        stolen_cores: 0.0,
    }
}

/// CPU of which `user_share` is user.
pub(crate) fn usage(cpu_s: f64, user_share: f64) -> Usage {
    Usage {
        cpu_s,
        user_s: cpu_s * user_share,
        system_s: cpu_s * (1.0 - user_share),
        voluntary_switches: 1000,
        involuntary_switches: 10,
        rss_bytes_max: 8 << 20,
    }
}

/// A test with these visits.
pub(crate) fn test(name: &str, visits: Vec<Visit>) -> Test {
    Test {
        name: name.to_owned(),
        requests: "SET {key} {value}".to_owned(),
        tool: "respool-bench".to_owned(),
        shape: "closed".to_owned(),
        topology: "one server".to_owned(),
        axes: vec![("pipeline".to_owned(), 1.0), ("value_bytes".to_owned(), 3.0)],
        visits,
    }
}

/// One visit per round and target, changed by `change(visit, target, round)`.
pub(crate) fn rounds(targets: &[&str], rounds: u32, change: impl Fn(&mut Visit)) -> Vec<Visit> {
    let mut visits = Vec::new();
    for round in 1..=rounds {
        for target in targets {
            let mut visit = visit(target, round);
            change(&mut visit);
            visits.push(visit);
        }
    }
    visits
}

/// A run of these tests, with `direct` as its base.
pub(crate) fn run(tests: Vec<Test>) -> Run {
    let target = |name: &str| Target {
        name: name.to_owned(),
        what: format!("{name} 1.0"),
        axis: None,
        floor: false,
    };
    Run {
        format: FORMAT,
        bench_version: "0.1.0".to_owned(),
        scenario: "made".to_owned(),
        about: "A run made by hand.".to_owned(),
        source: None,
        command: "respool-bench run made".to_owned(),
        began: "2026-11-21T10:00:00Z".to_owned(),
        seconds: 75.0,
        rounds: 3,
        base: "direct".to_owned(),
        machine: Machine {
            cpu: "Example CPU".to_owned(),
            cores: 8,
            memory_bytes: 16 << 30,
            kernel: "6.12".to_owned(),
            pinned: String::new(),
        },
        targets: vec![target("direct"), target("respool")],
        tests,
        times_floor: Vec::new(),
        timeline: Vec::new(),
        warnings: Vec::new(),
        left_out: Vec::new(),
    }
}
