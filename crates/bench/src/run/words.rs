//! A test in words and numbers, for the record.
//!
//! Invariant: nothing of a URL gets in here.

use crate::plan::{LoadPlan, Shape, Stop, Tool, TopologyKind};
use crate::record::Test;

use super::course::Leg;

/// The record of a test without visits yet.
pub(super) fn test(leg: &Leg<'_>) -> Test {
    let load = &leg.test.load;
    Test {
        name: leg.test.name.clone(),
        requests: requests(load),
        tool: tool(load.tool).to_owned(),
        shape: shape(load.shape),
        topology: topology(leg),
        axes: axes(leg),
        visits: Vec::new(),
    }
}

/// How long a visit will take, when the plan says so.
pub(super) fn expected_seconds(load: &LoadPlan) -> Option<f64> {
    match load.stop {
        Stop::AfterMs(ms) => Some((ms + load.warmup_ms) as f64 / 1e3),
        Stop::AfterRequests(_) => None,
    }
}

fn requests(load: &LoadPlan) -> String {
    if let [(only, _)] = load.mix.as_slice() {
        return only.to_string();
    }
    let total: u64 = load.mix.iter().map(|&(_, weight)| u64::from(weight)).sum();
    let parts = load.mix.iter().map(|(template, weight)| {
        format!("{:.3} % {template}", f64::from(*weight) * 100.0 / total as f64)
            .replace(".000 %", " %")
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn tool(tool: Tool) -> &'static str {
    match tool {
        Tool::Builtin => "built-in",
        Tool::RedisBenchmark => "redis-benchmark",
        Tool::ValkeyBenchmark => "valkey-benchmark",
    }
}

fn shape(shape: Shape) -> String {
    match shape {
        Shape::Closed => "closed".to_owned(),
        Shape::Open { rate } => format!("open, {rate}/s"),
        Shape::Storm => "storm".to_owned(),
        Shape::SlowReader { bytes_per_s } => format!("slow reader, {bytes_per_s} B/s"),
    }
}

fn topology(leg: &Leg<'_>) -> String {
    let Some(topology) = leg.topology.filter(|_| leg.spawns()) else {
        return "as it was found".to_owned();
    };
    match (topology.kind, topology.nodes) {
        (TopologyKind::Single, _) | (TopologyKind::Shards, 1) => "one server".to_owned(),
        (TopologyKind::Shards, nodes) => format!("{nodes} shards"),
        (TopologyKind::Cluster, nodes) => format!("cluster of {nodes}"),
    }
}

fn axes(leg: &Leg<'_>) -> Vec<(String, f64)> {
    let load = &leg.test.load;
    let mut axes = vec![
        ("pipeline".to_owned(), f64::from(load.pipeline)),
        ("clients".to_owned(), f64::from(load.clients)),
        ("value_bytes".to_owned(), f64::from(load.value_bytes)),
        ("keys".to_owned(), load.keys.count as f64),
    ];
    if let Some(topology) = leg.topology.filter(|_| leg.spawns()) {
        axes.push(("nodes".to_owned(), f64::from(topology.nodes)));
    }
    if let Shape::Open { rate } = load.shape {
        axes.push(("rate".to_owned(), rate));
    }
    axes
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::{load, target, test as plan_test, topology as plan_topology};
    use super::*;
    use crate::plan::TargetKind;
    use crate::template::Template;

    #[test]
    fn mixes_and_shapes() {
        let mut load = load();
        assert_eq!(requests(&load), "SET {key} {value}");
        let template = |text| Template::parse(text).unwrap();
        load.mix = vec![(template("GET {key}"), 4), (template("SET {key} {value}"), 1)];
        assert_eq!(requests(&load), "80 % GET {key}, 20 % SET {key} {value}");
        load.mix[1].1 = 2;
        assert_eq!(requests(&load), "66.667 % GET {key}, 33.333 % SET {key} {value}");
        assert_eq!(shape(Shape::Open { rate: 10_000.0 }), "open, 10000/s");
        assert_eq!(shape(Shape::SlowReader { bytes_per_s: 9 }), "slow reader, 9 B/s");
    }

    #[test]
    fn topologies_and_axes() {
        let (test, direct) = (plan_test("t", "one"), target("direct", TargetKind::Direct));
        let words = |kind, nodes| {
            let topology = plan_topology("one", kind, nodes);
            let leg = Leg { test: &test, topology: Some(&topology), targets: vec![&direct] };
            (super::topology(&leg), super::axes(&leg))
        };
        let (text, axes) = words(TopologyKind::Shards, 3);
        assert_eq!(text, "3 shards");
        assert_eq!(axes.last().unwrap(), &("nodes".to_owned(), 3.0));
        assert_eq!(axes[0], ("pipeline".to_owned(), 1.0));
        assert_eq!(words(TopologyKind::Single, 1).0, "one server");
        assert_eq!(words(TopologyKind::Cluster, 6).0, "cluster of 6");
        let leg = Leg { test: &test, topology: None, targets: vec![&direct] };
        assert_eq!(super::topology(&leg), "as it was found");
    }

    #[test]
    fn lengths_include_the_warm_up() {
        let mut load = load();
        load.stop = Stop::AfterMs(1500);
        load.warmup_ms = 500;
        assert_eq!(expected_seconds(&load), Some(2.0));
        load.stop = Stop::AfterRequests(9);
        assert_eq!(expected_seconds(&load), None);
    }
}
