//! Drives redis-benchmark or valkey-benchmark instead of the built-in generator, for figures comparable with
//! published ones.
//!
//! ```text
//!   ask each thing once ─► pilot: some thousand requests, how fast is it? ─► the run: so many requests as fill the time
//! ```
//!
//! These tools know a number of requests and no time, hence the pilot, which is the warm-up as well. What a plan says
//! and a tool cannot do (mixes, open loops, zipf, TLS with a configuration of ours) is refused with its name and never
//! approximated; `args` holds that list.
//!
//! Errors: redis-benchmark since 7.0 ends with exit code 1 at the first error reply, and older ones print it and go
//! on counting. So the request is asked once by ourselves before, and a word of an error in the tool's output fails
//! the run even when its exit code is 0.
//!
//! A password is given with `-a`, since the tools do not take it from the environment as redis-cli does (7.0.15);
//! while it runs, other users of this machine can read it in the list of processes.
//!
//! Invariant: the child is dead and reaped when this module returns, and it never runs longer than three times the
//! time asked for.

mod args;
mod child;
mod csv;

use std::time::{Duration, Instant};

use super::keys::Chooser;
use super::requests::Requests;
use super::{Endpoint, Live, LoadError, Outcome, Phase, greet};
use crate::plan::{LoadPlan, Stop, Tool};
use child::Child;

/// Requests of the pilot run.
const PILOT_REQUESTS: u64 = 20_000;

/// Longest time of a run whose length is a number of requests, and of the pilot.
const UNTIMED_MAX: Duration = Duration::from_secs(600);
const PILOT_MAX: Duration = Duration::from_secs(60);

/// How many times the time asked for a run may take.
const OVERTIME: u32 = 3;

/// Least allowance: starting the tool takes time of its own.
const TIME_MIN: Duration = Duration::from_secs(5);

/// Runs the tool that the plan names.
pub(super) fn drive(
    endpoint: &Endpoint,
    plan: &LoadPlan,
    live: &Live,
    on: &mut dyn FnMut(Phase),
) -> Result<Outcome, LoadError> {
    let name = match plan.tool {
        Tool::ValkeyBenchmark => "valkey-benchmark",
        Tool::RedisBenchmark | Tool::Builtin => "redis-benchmark",
    };
    let program = child::find(name)?;
    // What the tool is told holds the password, so messages name the tool only.
    let args = |requests: u64| {
        args::args(endpoint, plan, requests)
            .map_err(|what| LoadError::Tool(format!("{name} {what}")))
    };
    args(1)?;
    ask_once(endpoint, plan)?;
    let run = |requests: u64, limit: Duration, on: &mut dyn FnMut(Phase)| {
        let child = Child::start(name, &program, &args(requests)?)?;
        let pid = child.pid();
        on(Phase::Started(pid));
        let began = Instant::now();
        on(Phase::MeasureBegins(began));
        let output = child.wait(limit, live, || on(Phase::MeasureEnds(Instant::now())))?;
        csv::read(name, &output, requests)
    };
    let (requests, limit) = match plan.stop {
        Stop::AfterRequests(requests) => (requests, UNTIMED_MAX),
        Stop::AfterMs(ms) => {
            // A tool sends whole pipelines; it counts the number it was told, and would leave some out.
            let whole = |requests: u64| {
                requests
                    .max(u64::from(plan.clients))
                    .next_multiple_of(u64::from(plan.pipeline.max(1)))
            };
            let pilot = run(whole(PILOT_REQUESTS), PILOT_MAX, &mut |_| {})?;
            let rate = pilot.requests as f64 / pilot.seconds.max(1e-6);
            let limit = (Duration::from_millis(ms) * OVERTIME).max(TIME_MIN);
            (whole((rate * ms as f64 / 1e3).ceil() as u64), limit)
        }
    };
    run(requests, limit, on)
}

/// Sends each request of the plan once and refuses an error, before a tool counts a million of them.
fn ask_once(endpoint: &Endpoint, plan: &LoadPlan) -> Result<(), LoadError> {
    let mut chooser = Chooser::new(&plan.keys, plan.seed, 0, 1).map_err(LoadError::Plan)?;
    let value = chooser.value(plan.value_bytes);
    let address = greet::find(endpoint, plan.resp)?;
    let mut stream = greet::connect(endpoint, &address, plan.resp, None)?;
    for (template, _) in &plan.mix {
        let once = LoadPlan { mix: vec![(template.clone(), 1)], ..plan.clone() };
        let mut request = Vec::new();
        Requests::new(&once, &value).map_err(LoadError::Plan)?.write(&mut chooser, &mut request);
        let reply = greet::exchange(endpoint, &mut stream, &request)?;
        greet::refuse_error(&template.to_string(), &reply)?;
    }
    Ok(())
}
