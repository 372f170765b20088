//! Open loop, storm and slow readers.

use std::time::Duration;

use bench::load::{ask, fill};
use bench::plan::{Shape, Stop};
use testkit::RedisServer;

use crate::support::{calls, endpoint, plan, run};

fn info(server: &RedisServer, field: &str) -> u64 {
    let text = ask(&endpoint(server), "INFO").expect("INFO");
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{field} in INFO"))
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = RedisServer::start();
    for threads in [1, 2] {
        let mut plan = plan(&[("GET {key}", 1)]);
        (plan.shape, plan.threads, plan.clients) = (Shape::Open { rate: 2000.0 }, threads, 7);
        (plan.stop, plan.warmup_ms) = (Stop::AfterMs(1000), 100);
        let outcome = run(&endpoint(&server), &plan).expect("load");
        let rate = outcome.requests as f64 / outcome.seconds;
        assert!((1900.0..2100.0).contains(&rate), "{rate} per second with {threads} threads");
    }
    let mut counted = plan(&[("GET {key}", 1)]);
    (counted.shape, counted.stop) = (Shape::Open { rate: 2000.0 }, Stop::AfterRequests(500));
    let before = calls(&server, "get");
    let outcome = run(&endpoint(&server), &counted).expect("load");
    assert_eq!((outcome.requests, calls(&server, "get") - before), (500, 500));
    assert!((0.2..0.4).contains(&outcome.seconds), "{}", outcome.seconds);
}

#[test]
fn a_stall_counts_for_every_request_that_it_delayed() {
    let server = RedisServer::start();
    let mut plan = plan(&[("GET {key}", 1)]);
    // One connection and one request in flight: all but one wait outside.
    (plan.shape, plan.clients, plan.pipeline, plan.threads) =
        (Shape::Open { rate: 1000.0 }, 1, 1, 1);
    plan.stop = Stop::AfterMs(1200);
    let outcome = std::thread::scope(|scope| {
        let place = endpoint(&server);
        let plan = &plan;
        let load = scope.spawn(move || run(&place, plan));
        std::thread::sleep(Duration::from_millis(300));
        server.pause();
        std::thread::sleep(Duration::from_millis(500));
        server.resume();
        load.join().expect("thread").expect("load")
    });
    // 500 of some 1200 requests were delayed, evenly by 0 to 500 ms: 17 % of all by more than 300 ms.
    let p90 = outcome.latency.at(90.0).expect("p90");
    assert!((300_000.0..480_000.0).contains(&p90), "p90 {p90} µs");
    assert!(outcome.latency.at(50.0).expect("p50") < 200_000.0);
}

#[test]
fn a_target_that_stopped_does_not_look_well() {
    let server = RedisServer::start();
    let mut plan = plan(&[("GET {key}", 1)]);
    (plan.shape, plan.clients, plan.pipeline) = (Shape::Open { rate: 1000.0 }, 2, 5);
    (plan.stop, plan.threads) = (Stop::AfterMs(800), 1);
    let outcome = std::thread::scope(|scope| {
        let place = endpoint(&server);
        let plan = &plan;
        let load = scope.spawn(move || run(&place, plan));
        std::thread::sleep(Duration::from_millis(200));
        server.pause();
        let outcome = load.join().expect("thread").expect("load");
        server.resume();
        outcome
    });
    let all = outcome.requests + outcome.unanswered;
    // One each millisecond of the time that the load took, which is longer than asked for on a busy machine.
    let due = (outcome.seconds * 1000.0) as u64 + 1;
    assert!(outcome.seconds >= 0.8 && (due - 20..=due).contains(&all), "{all} of {due} were due");
    assert!((500..=due - 100).contains(&outcome.unanswered), "{}", outcome.unanswered);
    assert!(outcome.latency.at(99.0).expect("p99") > 400_000.0);
}

#[test]
fn a_storm_connects_once_per_request() {
    let server = RedisServer::start_with(&["--requirepass", "secret"]);
    let mut place = endpoint(&server);
    place.url.password = Some(config::Secret::new("secret"));
    let count = |field: &str| {
        let text = ask(&place, "INFO").expect("INFO");
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse::<u64>().ok()).expect(field)
    };
    let before = count("total_connections_received");
    let mut plan = plan(&[("SET {key} {value}", 1)]);
    (plan.shape, plan.clients, plan.stop) = (Shape::Storm, 20, Stop::AfterRequests(2000));
    let outcome = run(&place, &plan).expect("load");
    assert_eq!(outcome.requests, 2000);
    // Besides: one to find the address, and two for each INFO (one finds, one asks).
    assert_eq!(count("total_connections_received") - before, 2000 + 1 + 2);
    assert!(outcome.latency.min_us > 0.0);
    for protocol in [2, 3] {
        plan.resp = protocol;
        plan.stop = Stop::AfterMs(300);
        assert!(run(&place, &plan).expect("load").requests > 100, "RESP{protocol}");
    }
}

#[test]
fn slow_readers_read_slowly_and_the_server_feels_it() {
    let server = RedisServer::start();
    let mut plan = plan(&[("GET {key}", 1)]);
    (plan.value_bytes, plan.keys.count, plan.clients, plan.pipeline) = (500_000, 4, 4, 20);
    fill(&endpoint(&server), &plan).expect("fill");
    plan.shape = Shape::SlowReader { bytes_per_s: 2_000_000 };
    plan.stop = Stop::AfterRequests(48);
    let (outcome, waited) = std::thread::scope(|scope| {
        let place = endpoint(&server);
        let plan = &plan;
        let load = scope.spawn(move || run(&place, plan));
        let mut waited = 0;
        while !load.is_finished() {
            waited = waited.max(info(&server, "mem_clients_normal"));
            std::thread::sleep(Duration::from_millis(20));
        }
        (load.join().expect("thread").expect("load"), waited)
    });
    // Each of 4 connections takes 6 MB at 2 MB/s, and some 4 MB of these fit into the server's socket.
    assert_eq!(outcome.requests, 48);
    assert!(outcome.seconds > 2.5, "48 replies in {} s", outcome.seconds);
    assert!(waited > 2_000_000, "replies pile up at the server: {waited} bytes");
}
