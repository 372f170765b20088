//! The plan of `load`: one test, no scenario.
//!
//! Invariant: what comes out satisfies the same rules as a scenario's test.

use super::args::LoadArgs;
use super::endpoint;
use crate::plan::{
    Distribution, KeyPlan, LoadPlan, Pins, Plan, Shape, Stop, TestPlan, Topology, TopologyKind,
};
use crate::scenario::{limits, values};
use crate::template::Template;

/// Makes the plan.
///
/// # Errors
/// The first thing that is wrong, in words.
pub(super) fn plan(args: &LoadArgs, pins: Pins) -> Result<Plan, String> {
    let targets = endpoint::targets(&args.endpoints.target)?;
    let Some(first) = targets.first() else {
        return Err(
            "nothing to measure: name an endpoint, such as --target 127.0.0.1:6379".to_owned()
        );
    };
    let load = load(args)?;
    let names: Vec<&str> = load.mix.iter().map(|(request, _)| request.command()).collect();
    let test =
        TestPlan { name: names.join("+"), topology: "given".to_owned(), targets: Vec::new(), load };
    Ok(Plan {
        name: "load".to_owned(),
        about: "One load against endpoints that were running already.".to_owned(),
        source: None,
        rounds: args.rounds,
        pause_ms: 200,
        base: first.name.clone(),
        topologies: vec![Topology {
            name: "given".to_owned(),
            kind: TopologyKind::Single,
            nodes: 1,
        }],
        targets,
        tests: vec![test],
        limits: Vec::new(),
        pins,
    })
}

fn load(args: &LoadArgs) -> Result<LoadPlan, String> {
    let load = LoadPlan {
        tool: args.tool,
        shape: shape(args)?,
        mix: mix(args)?,
        clients: args.clients,
        pipeline: args.pipeline,
        threads: args.threads,
        keys: KeyPlan {
            count: args.keys,
            distribution: distribution(args)?,
            bytes_min: args.key_bytes.0,
            bytes_max: args.key_bytes.1,
            hit_ratio: within("--hit-ratio", args.hit_ratio, 0.0, 1.0)?,
        },
        value_bytes: args.value_bytes,
        resp: args.resp,
        stop: stop(args)?,
        warmup_ms: values::milliseconds(within(
            "--warmup-s",
            args.warmup_s,
            0.0,
            limits::DURATION_S_MAX,
        )?),
        seed: args.seed,
    };
    crate::scenario::check_load(&load)?;
    Ok(load)
}

/// The requests with their weights, 1 each if none are given.
fn mix(args: &LoadArgs) -> Result<Vec<(Template, u32)>, String> {
    if !args.weight.is_empty() && args.weight.len() != args.request.len() {
        return Err(format!(
            "--weight stands {} times and --request {} times; give each request its weight, or none",
            args.weight.len(),
            args.request.len()
        ));
    }
    let weights = args.weight.iter().copied().chain(std::iter::repeat(1));
    args.request
        .iter()
        .zip(weights)
        .map(|(text, weight)| {
            let request = Template::parse(text).map_err(|why| format!("--request: {why}"))?;
            Ok((request, weight))
        })
        .collect()
}

fn shape(args: &LoadArgs) -> Result<Shape, String> {
    let text = match (args.rate, args.slow_reader) {
        (Some(rate), _) => format!("open:{rate}"),
        (None, Some(bytes)) => format!("slow-reader:{bytes}"),
        (None, None) if args.storm => "storm".to_owned(),
        (None, None) => "closed".to_owned(),
    };
    // The forms of scenarios are not those of flags, so the flag is named and not the form.
    values::shape(&text).map_err(|_| {
        "--rate and --slow-reader take a number above 0 (at most a thousand million requests per second)"
            .to_owned()
    })
}

fn distribution(args: &LoadArgs) -> Result<Distribution, String> {
    match args.zipf {
        Some(exponent) => values::distribution(&format!("zipf:{exponent}"))
            .map_err(|_| format!("--zipf: found {exponent}; allowed: above 0, at most 10")),
        None if args.sequential => Ok(Distribution::Sequential),
        None => Ok(Distribution::Uniform),
    }
}

fn stop(args: &LoadArgs) -> Result<Stop, String> {
    if let Some(requests) = args.requests {
        return Ok(Stop::AfterRequests(requests));
    }
    let (low, high) = (limits::DURATION_S_MIN, limits::DURATION_S_MAX);
    let seconds = within("--duration-s", args.duration_s.unwrap_or(5.0), low, high)?;
    Ok(Stop::AfterMs(values::milliseconds(seconds)))
}

fn within(flag: &str, value: f64, low: f64, high: f64) -> Result<f64, String> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(format!("{flag}: found {value}; allowed: {low} to {high}"))
}
