//! What the load counts is what the server was asked.

use std::sync::atomic::Ordering;

use bench::load::{Live, Phase, ask, drive, fill};
use bench::plan::{Distribution, Stop};
use testkit::RedisServer;

use crate::support::{calls, endpoint, plan, run};

#[test]
fn a_number_of_requests_is_exactly_that_number() {
    let server = RedisServer::start();
    for (clients, pipeline, threads, requests) in
        [(1, 1, 1, 1), (5, 3, 2, 1000), (50, 20, 2, 12_345), (3, 100, 8, 50)]
    {
        let mut plan = plan(&[("SET {key} {value}", 1)]);
        (plan.clients, plan.pipeline, plan.threads) = (clients, pipeline, threads);
        plan.stop = Stop::AfterRequests(requests);
        let before = calls(&server, "set");
        let live = Live::default();
        let mut phases = Vec::new();
        let outcome =
            drive(&endpoint(&server), &plan, &live, &mut |phase| phases.push(phase)).expect("load");
        assert_eq!(outcome.requests, requests);
        assert_eq!(calls(&server, "set") - before, requests);
        assert_eq!(live.replies.load(Ordering::Relaxed), requests);
        let [Phase::MeasureBegins(begin), Phase::MeasureEnds(end)] = phases[..] else {
            panic!("{phases:?}")
        };
        assert!((end.duration_since(begin).as_secs_f64() - outcome.seconds).abs() < 1e-6);
        assert!(
            outcome.latency.min_us > 0.0 && outcome.latency.max_us < 1e6 * outcome.seconds + 1.0
        );
        assert_eq!(outcome.unanswered, 0);
    }
}

#[test]
fn a_mix_by_time_counts_what_came_after_the_warm_up() {
    let server = RedisServer::start();
    let mut plan = plan(&[("GET {key}", 9), ("SET {key} {value}", 1)]);
    (plan.stop, plan.warmup_ms) = (Stop::AfterMs(500), 300);
    let live = Live::default();
    let outcome = drive(&endpoint(&server), &plan, &live, &mut |_| {}).expect("load");
    assert!((0.5..0.8).contains(&outcome.seconds), "{}", outcome.seconds);
    let asked = calls(&server, "get") + calls(&server, "set");
    let replies = live.replies.load(Ordering::Relaxed);
    assert!(
        outcome.requests < replies && replies <= asked,
        "{} {replies} {asked}",
        outcome.requests
    );
    let share = calls(&server, "get") as f64 / asked as f64;
    assert!((0.85..0.95).contains(&share), "{share}");
}

#[test]
fn reads_find_what_was_filled_and_miss_what_should_be_missed() {
    let server = RedisServer::start();
    let reads = [
        ("GET {key}", 1),
        ("MGET {keys:5}", 1),
        ("HGET h:{key} name", 1),
        ("LRANGE l:{key} 0 4", 1),
        ("SISMEMBER s:{key} member", 1),
        ("ZSCORE z:{key} member", 1),
    ];
    let mut plan = plan(&reads);
    plan.keys.bytes_min = 9;
    fill(&endpoint(&server), &plan).expect("fill");
    fill(&endpoint(&server), &plan).expect("fill again");
    assert_eq!(ask(&endpoint(&server), "DBSIZE").expect("DBSIZE"), "500");
    let outcome = run(&endpoint(&server), &plan).expect("load");
    assert_eq!((outcome.requests, outcome.nulls), (1000, 0));
    let key = ask(&endpoint(&server), "KEYS l:*").expect("KEYS");
    let key = key.lines().next().expect("a list");
    assert_eq!(
        ask(&endpoint(&server), &format!("LLEN {key}")).expect("LLEN"),
        "5",
        "no longer by the second fill"
    );

    plan.mix.truncate(1);
    plan.keys.hit_ratio = 0.7;
    plan.stop = Stop::AfterRequests(10_000);
    let outcome = run(&endpoint(&server), &plan).expect("load");
    assert!((2700..3300).contains(&outcome.nulls), "{} of 10000", outcome.nulls);
    plan.resp = 3;
    plan.keys.hit_ratio = 0.0;
    assert_eq!(
        run(&endpoint(&server), &plan).expect("load").nulls,
        10_000,
        "RESP3 has another null"
    );
}

#[test]
fn sequential_keys_are_all_visited() {
    let server = RedisServer::start();
    let mut plan = plan(&[("SET {key} {value}", 1)]);
    plan.keys.distribution = Distribution::Sequential;
    (plan.keys.count, plan.threads) = (1000, 1);
    run(&endpoint(&server), &plan).expect("load");
    assert_eq!(ask(&endpoint(&server), "DBSIZE").expect("DBSIZE"), "1000");
    assert_eq!(ask(&endpoint(&server), "STRLEN key:000000000999").expect("STRLEN"), "30");
}

#[test]
fn large_values_pass_in_both_directions() {
    let server = RedisServer::start();
    let mut plan = plan(&[("SET {key} {value}", 1), ("GET {key}", 1)]);
    (plan.value_bytes, plan.pipeline, plan.keys.count) = (1 << 20, 8, 4);
    plan.stop = Stop::AfterRequests(300);
    fill(&endpoint(&server), &plan).expect("fill");
    let outcome = run(&endpoint(&server), &plan).expect("load");
    assert_eq!((outcome.requests, outcome.nulls), (300, 0));
}

#[test]
fn unix_sockets_and_log_ins() {
    let server = RedisServer::start_unix(&["--requirepass", "secret"]);
    let mut place = endpoint(&server);
    place.url.password = Some(config::Secret::new("secret"));
    place.url.db = 3;
    for protocol in [2, 3] {
        let mut plan = plan(&[("SET {key} {value}", 1)]);
        plan.resp = protocol;
        assert_eq!(run(&place, &plan).expect("load").requests, 1000, "RESP{protocol}");
    }
    let keyspace = ask(&place, "INFO keyspace").expect("INFO");
    assert!(keyspace.contains("db3:keys=100") && !keyspace.contains("db0"), "{keyspace}");
}
