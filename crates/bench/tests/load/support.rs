//! Plans and endpoints for the tests of the load.

use bench::load::{Endpoint, Live, LoadError, Outcome, drive};
use bench::plan::{Distribution, KeyPlan, LoadPlan, Shape, Stop, Tool};
use bench::template::Template;
use testkit::RedisServer;

/// Where a server listens.
pub(crate) fn endpoint(server: &RedisServer) -> Endpoint {
    at(&server.endpoint().url())
}

/// An endpoint by its URL.
pub(crate) fn at(url: &str) -> Endpoint {
    Endpoint { url: config::UpstreamUrl::parse(url).expect("URL"), tls: None }
}

/// 5 connections, pipeline 3, 1000 requests, 100 keys.
pub(crate) fn plan(mix: &[(&str, u32)]) -> LoadPlan {
    LoadPlan {
        tool: Tool::Builtin,
        shape: Shape::Closed,
        mix: mix
            .iter()
            .map(|(text, weight)| (Template::parse(text).expect("template"), *weight))
            .collect(),
        clients: 5,
        pipeline: 3,
        threads: 2,
        keys: KeyPlan {
            count: 100,
            distribution: Distribution::Uniform,
            bytes_min: 16,
            bytes_max: 16,
            hit_ratio: 1.0,
        },
        value_bytes: 30,
        resp: 2,
        stop: Stop::AfterRequests(1000),
        warmup_ms: 0,
        seed: 42,
    }
}

/// Drives without watching.
pub(crate) fn run(endpoint: &Endpoint, plan: &LoadPlan) -> Result<Outcome, LoadError> {
    drive(endpoint, plan, &Live::default(), &mut |_| {})
}

/// How often the server says it was asked `command` (in lower case).
pub(crate) fn calls(server: &RedisServer, command: &str) -> u64 {
    let text = bench::load::ask(&endpoint(server), "INFO commandstats").expect("INFO");
    text.lines()
        .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))
        .and_then(|rest| rest.split(',').next()?.parse().ok())
        .unwrap_or(0)
}
