//! What a request costs the generator, beside redis-benchmark. A measurement and no test of right or wrong, so it is
//! ignored; it says where the figures in `load`'s documentation come from:
//!
//! ```text
//! cargo test --profile quick -p bench --test load -- --ignored --nocapture --test-threads 1 cost
//! ```

use bench::load::{Live, Phase, drive, fill};
use bench::plan::{LoadPlan, Stop, Tool};
use testkit::RedisServer;

use crate::support::{endpoint, plan};

/// Clock ticks of this process and of its ended children, as proc(5) counts them: 10 ms each.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("proc");
    let fields = stat.rsplit(')').next().expect("fields").split_whitespace();
    fields.skip(11).take(4).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum()
}

/// Microseconds of CPU per request, user and system.
fn cost(server: &RedisServer, plan: &LoadPlan) -> f64 {
    let mut begin = 0;
    let outcome = drive(&endpoint(server), plan, &Live::default(), &mut |phase| {
        if let Phase::MeasureBegins(_) = phase {
            begin = ticks();
        }
    });
    // The tool's time is known when it is reaped, which is before `drive` returns.
    (ticks() - begin) as f64 * 1e4 / outcome.expect("load").requests as f64
}

#[test]
#[ignore = "a measurement; see the module's documentation"]
fn cost_of_a_request() {
    let server = RedisServer::start();
    for (pipeline, requests) in [(1, 300_000), (20, 4_000_000)] {
        let mut own = plan(&[("GET {key}", 1)]);
        (own.clients, own.threads, own.value_bytes) = (50, 1, 3);
        (own.pipeline, own.keys.count, own.stop) = (pipeline, 3000, Stop::AfterRequests(requests));
        fill(&endpoint(&server), &own).expect("fill");
        let tool = LoadPlan { tool: Tool::RedisBenchmark, ..own.clone() };
        for round in 1..=5 {
            let (own, tool) = (cost(&server, &own), cost(&server, &tool));
            println!(
                "P={pipeline} round {round}: {own:.3} µs, redis-benchmark {tool:.3} µs, ratio {:.2}",
                own / tool
            );
        }
    }
}
