//! redis-benchmark as the load.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bench::load::{Live, LoadError, Phase, ask, drive};
use bench::plan::{Distribution, LoadPlan, Shape, Stop, Tool};
use testkit::RedisServer;

use crate::support::{calls, endpoint, plan, run};

fn tool_plan(mix: &[(&str, u32)]) -> Option<LoadPlan> {
    if testkit::process::find_on_path("redis-benchmark").is_none() {
        eprintln!("skipped: redis-benchmark is not on PATH");
        return None;
    }
    Some(LoadPlan { tool: Tool::RedisBenchmark, threads: 1, ..plan(mix) })
}

#[test]
fn its_requests_and_figures_are_the_servers() {
    let Some(mut plan) = tool_plan(&[("SET {key} {value}", 1)]) else { return };
    let server = RedisServer::start_with(&["--requirepass", "secret"]);
    let mut place = endpoint(&server);
    place.url.password = Some(config::Secret::new("secret"));
    plan.stop = Stop::AfterRequests(30_000);
    let outcome = run(&place, &plan).expect("load");
    assert_eq!(outcome.requests, 30_000);
    let stats = ask(&place, "INFO commandstats").expect("INFO");
    // One more: it was asked once before.
    assert!(stats.contains("cmdstat_set:calls=30001,"), "{stats}");
    assert!(outcome.latency.at(50.0).expect("p50") > 0.0 && outcome.latency.at(99.9).is_none());
    assert_eq!(ask(&place, "STRLEN key:000000000007").expect("STRLEN"), "30");
}

#[test]
fn a_time_becomes_a_number_and_its_process_can_be_read_to_the_end() {
    let Some(mut plan) = tool_plan(&[("MGET {keys:3}", 1)]) else { return };
    let server = RedisServer::start_unix(&[]);
    plan.stop = Stop::AfterMs(500);
    let (mut phases, mut pid, mut readable) = (Vec::new(), 0, false);
    let outcome = drive(&endpoint(&server), &plan, &Live::default(), &mut |phase| {
        phases.push(phase);
        match phase {
            Phase::Started(started) => pid = started,
            Phase::MeasureEnds(_) => {
                readable = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok();
            }
            Phase::MeasureBegins(_) => {}
        }
    });
    let outcome = outcome.expect("load");
    let [Phase::Started(_), Phase::MeasureBegins(begin), Phase::MeasureEnds(end)] = phases[..]
    else {
        panic!("{phases:?}")
    };
    assert!(readable, "its CPU can be read when it has ended");
    assert!(end > begin && outcome.seconds > 0.1 && outcome.seconds < 3.0, "{}", outcome.seconds);
    // Besides: the pilot of 20 000, in whole pipelines of 3, and the one that was asked before.
    assert_eq!(calls(&server, "mget"), outcome.requests + 20_001 + 1);
}

#[test]
fn errors_and_what_it_cannot_do_are_no_figures() {
    let Some(plan) = tool_plan(&[("LPUSH a {value}", 1)]) else { return };
    let server = RedisServer::start();
    let place = endpoint(&server);
    ask(&place, "SET a text").expect("SET");
    assert!(
        matches!(run(&place, &plan), Err(LoadError::ErrorReply { .. })),
        "asked before it starts"
    );
    // Not with the first request, so only the tool itself can meet it.
    let later = "EVAL 'if redis.call(\"INCR\", \"n\") > 100 then return redis.error_reply(\"ERR late\") end return 1' 0";
    let late = tool_plan(&[(later, 1)]).expect("tool");
    let error = run(&place, &late).expect_err("late error");
    assert!(matches!(&error, LoadError::Tool(text) if text.contains("ERR late")), "{error}");

    let good = tool_plan(&[("GET {key}", 1)]).expect("tool");
    let mut cannot = vec![LoadPlan { shape: Shape::Open { rate: 5.0 }, ..good.clone() }];
    cannot.push(LoadPlan { mix: [good.mix.clone(), good.mix.clone()].concat(), ..good.clone() });
    let mut keys = good.clone();
    keys.keys.distribution = Distribution::Zipf { exponent: 1.0 };
    cannot.push(keys.clone());
    keys.keys = good.keys;
    keys.keys.bytes_max = 20;
    cannot.push(keys.clone());
    keys.keys = good.keys;
    keys.keys.hit_ratio = 0.5;
    cannot.push(keys);
    for plan in cannot {
        let error = run(&place, &plan).expect_err("cannot");
        assert!(matches!(&error, LoadError::Tool(text) if text.contains("builtin")), "{error}");
    }
    if testkit::process::find_on_path("valkey-benchmark").is_none() {
        let error =
            run(&place, &LoadPlan { tool: Tool::ValkeyBenchmark, ..good }).expect_err("missing");
        assert!(error.to_string().contains("package valkey-tools"), "{error}");
    }
}

#[test]
fn it_is_killed_when_cancelled() {
    let Some(mut plan) = tool_plan(&[("PING", 1)]) else { return };
    let server = RedisServer::start();
    plan.stop = Stop::AfterRequests(1_000_000_000);
    let live = Live::default();
    let mut pid = 0;
    let began = Instant::now();
    let result = drive(&endpoint(&server), &plan, &live, &mut |phase| {
        if let Phase::Started(started) = phase {
            pid = started;
            live.cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(result, Err(LoadError::Cancelled)), "{result:?}");
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "dead and reaped");
}
