//! Figures against whatever number a scenario varies: pipeline, clients, value size, nodes, or a target's workers.
//!
//! Tests belong together when they differ in one axis only; targets when they are one program unfolded over an axis.
//! Nothing has to be declared for that, it follows from the record.
//!
//! Invariant: each picture has at least two different values on its x axis.

use super::lines::{self, Labels, Point, Series};
use super::picture::Picture;
use super::scale::Spread;
use super::text;
use super::view::View;
use crate::plan::Figure;
use crate::record::{Target, Test};
use crate::stats;

/// Pictures over one axis.
pub(super) struct Ladder {
    /// The axis as the record names it.
    pub axis: String,
    /// Pictures of one group of tests (or of one test) each; none is empty.
    pub groups: Vec<Vec<Picture>>,
    /// Whether it belongs to targets and not to tests: then some targets do not depend on it and are dashed.
    pub of_targets: bool,
}

/// What is drawn against an axis, and what the picture calls it.
const FIGURES: [(Figure, &str); 3] = [
    (Figure::Throughput, "requests per second"),
    (Figure::ServerCpu, "server CPU, µs per request"),
    (Figure::ProxyCpu, "proxy CPU, µs per request"),
];

/// All of a run.
pub(super) fn all(view: &View) -> Vec<Ladder> {
    let mut ladders = of_tests(view);
    ladders.extend(of_targets(view));
    for ladder in &mut ladders {
        ladder.groups.retain(|g| !g.is_empty());
    }
    ladders.retain(|l| !l.groups.is_empty());
    ladders
}

/// An axis' name in words.
pub(super) fn words(axis: &str) -> &str {
    match axis {
        "pipeline" => "requests in a pipeline",
        "clients" => "client connections",
        "value_bytes" => "bytes of a value",
        "keys" => "different keys",
        "nodes" => "servers",
        "workers" => "worker threads of the proxy",
        "rate" => "requests per second offered",
        other => other,
    }
}

fn of_tests(view: &View) -> Vec<Ladder> {
    let mut axes: Vec<&str> = Vec::new();
    for (name, _) in view.run.tests.iter().flat_map(|t| &t.axes) {
        if !axes.contains(&name.as_str()) {
            axes.push(name);
        }
    }
    let one = |axis: &str| Ladder {
        axis: axis.to_owned(),
        groups: groups(&view.run.tests, axis)
            .iter()
            .map(|group| pictures_of_group(view, group, axis))
            .collect(),
        of_targets: false,
    };
    axes.into_iter().map(one).collect()
}

/// Groups of at least two tests that differ in `axis` only, ascending by it.
fn groups<'a>(tests: &'a [Test], axis: &str) -> Vec<Vec<(f64, &'a Test)>> {
    let mut groups: Vec<Vec<(f64, &Test)>> = Vec::new();
    for test in tests {
        let Some(value) = value(test, axis) else { continue };
        let home = groups.iter_mut().find(|g| alike(g[0].1, test, axis));
        match home {
            Some(group) if group.iter().any(|(v, _)| *v == value) => {}
            Some(group) => group.push((value, test)),
            None => groups.push(vec![(value, test)]),
        }
    }
    groups.retain(|g| g.len() > 1);
    for group in &mut groups {
        group.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    groups
}

fn value(test: &Test, axis: &str) -> Option<f64> {
    test.axes.iter().find(|(name, _)| name == axis).map(|(_, v)| *v).filter(|v| v.is_finite())
}

/// Whether two tests differ in nothing but `axis`. The topology in words follows from the axis `nodes`, the shape from `rate`.
fn alike(a: &Test, b: &Test, axis: &str) -> bool {
    let others = |t: &Test| {
        let mut others: Vec<_> = t.axes.iter().filter(|(name, _)| name != axis).cloned().collect();
        others.sort_by(|x, y| x.0.cmp(&y.0));
        others
    };
    a.requests == b.requests
        && a.tool == b.tool
        && (axis == "nodes" || a.topology == b.topology)
        && (axis == "rate" || a.shape == b.shape)
        && others(a) == others(b)
}

fn pictures_of_group(view: &View, group: &[(f64, &Test)], axis: &str) -> Vec<Picture> {
    let series = |figure| -> Vec<Series> {
        let of = |target: &Target| Series {
            name: target.name.clone(),
            class: view.class(&target.name),
            points: group.iter().filter_map(|(x, t)| point(t, &target.name, figure, *x)).collect(),
        };
        // A target that was visited once says nothing about the axis.
        view.run.targets.iter().map(of).filter(|s| s.points.len() > 1).collect()
    };
    let name = common_name(group);
    FIGURES.iter().filter_map(|(f, unit)| draw(&name, unit, axis, *f, &series(*f))).collect()
}

/// What the names of all tests of a group begin with: `SET` of `SET P=1` and `SET P=20`; else the requests in words.
fn common_name(group: &[(f64, &Test)]) -> String {
    let words = |t: &Test| t.name.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let all: Vec<Vec<String>> = group.iter().map(|(_, t)| words(t)).collect();
    let common = |word: &&String| all.iter().all(|words| words.contains(word));
    let kept: Vec<&str> = all[0].iter().filter(common).map(String::as_str).collect();
    if kept.is_empty() { group[0].1.requests.clone() } else { kept.join(" ") }
}

/// Targets over the axis that unfolded them, in each test.
fn of_targets(view: &View) -> Vec<Ladder> {
    let mut axes: Vec<&str> = Vec::new();
    for (name, _) in view.run.targets.iter().filter_map(|t| t.axis.as_ref()) {
        if !axes.contains(&name.as_str()) {
            axes.push(name);
        }
    }
    let one = |axis: &str| Ladder {
        axis: axis.to_owned(),
        groups: view.run.tests.iter().map(|t| pictures_of_test(view, t, axis)).collect(),
        of_targets: true,
    };
    axes.into_iter().map(one).collect()
}

fn pictures_of_test(view: &View, test: &Test, axis: &str) -> Vec<Picture> {
    let families = families(view, test, axis);
    // Only worth a picture when some program was measured with two values at least.
    if families.iter().all(|(_, members)| members.len() < 2) {
        return Vec::new();
    }
    let series = |figure| -> Vec<Series> {
        let of = |(name, members): &(String, Vec<(f64, &Target)>)| Series {
            name: name.clone(),
            class: view.class(&members[0].1.name),
            points: members.iter().filter_map(|(x, t)| point(test, &t.name, figure, *x)).collect(),
        };
        families.iter().map(of).collect()
    };
    FIGURES.iter().filter_map(|(f, unit)| draw(&test.name, unit, axis, *f, &series(*f))).collect()
}

/// Targets of a test by program: (`respool`, [(1, respool), (2, respool w=2)]). One that has no such axis is alone.
fn families<'a>(
    view: &View<'a>,
    test: &'a Test,
    axis: &str,
) -> Vec<(String, Vec<(f64, &'a Target)>)> {
    let mut families: Vec<(String, Vec<(f64, &Target)>)> = Vec::new();
    for target in view.targets(test) {
        let (x, family) = match &target.axis {
            Some((name, x)) if name == axis && x.is_finite() => (*x, family_name(&target.name, *x)),
            _ => (f64::NAN, target.name.clone()),
        };
        match families.iter_mut().find(|(name, _)| *name == family) {
            Some((_, members)) => members.push((x, target)),
            None => families.push((family, vec![(x, target)])),
        }
    }
    let first = families.iter().flat_map(|(_, m)| m).map(|m| m.0).filter(|x| x.is_finite());
    let first = first.fold(f64::INFINITY, f64::min);
    for (_, members) in &mut families {
        members.iter_mut().filter(|m| m.0.is_nan()).for_each(|m| m.0 = first);
        members.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    families
}

/// `respool` of `respool w=2`: the name without a last word that ends with the axis' value.
fn family_name(name: &str, value: f64) -> String {
    match name.rsplit_once(' ') {
        Some((family, last)) if last.ends_with(&value.to_string()) => family.to_owned(),
        _ => name.to_owned(),
    }
}

fn point(test: &Test, target: &str, figure: Figure, x: f64) -> Option<Point> {
    let all = stats::summary(test, target, figure)?;
    Some(Point { x, y: all.median, range: (all.min, all.max) })
}

fn draw(name: &str, unit: &str, axis: &str, figure: Figure, series: &[Series]) -> Option<Picture> {
    let xs = || series.iter().flat_map(|s| &s.points).map(|p| p.x);
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    // Without two values there is no axis; with wide ones even steps would press the small ones together.
    let steps = (low < high)
        .then(|| if low > 0.0 && high / low >= 8.0 { Spread::Log } else { Spread::Linear })?;
    let x: &dyn Fn(f64) -> String =
        if axis == "value_bytes" { &text::bytes } else { &text::si_tick };
    let y: &dyn Fn(f64) -> String =
        if figure == Figure::Throughput { &text::si_tick } else { &text::tick };
    lines::draw(
        (name, unit),
        (steps, Spread::Linear),
        &Labels { x_name: words(axis), x, y },
        series,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, axes: &[(&str, f64)]) -> Test {
        Test {
            name: name.to_owned(),
            requests: "SET {key} {value}".to_owned(),
            tool: "respool-bench".to_owned(),
            shape: "closed".to_owned(),
            topology: "one server".to_owned(),
            axes: axes.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
            visits: Vec::new(),
        }
    }

    #[test]
    fn tests_that_differ_in_one_axis_belong_together() {
        let tests = [
            test("SET P=20 c=50", &[("pipeline", 20.0), ("clients", 50.0)]),
            test("SET P=1 c=50", &[("pipeline", 1.0), ("clients", 50.0)]),
            test("SET P=1 c=1", &[("pipeline", 1.0), ("clients", 1.0)]),
        ];
        let by_pipeline = groups(&tests, "pipeline");
        assert_eq!(by_pipeline.len(), 1);
        let values: Vec<f64> = by_pipeline[0].iter().map(|(v, _)| *v).collect();
        assert_eq!(values, [1.0, 20.0]);
        assert_eq!(common_name(&by_pipeline[0]), "SET c=50");
        assert_eq!(groups(&tests, "clients")[0].len(), 2);
        assert!(groups(&tests, "keys").is_empty());
    }

    #[test]
    fn a_family_is_named_without_its_value() {
        assert_eq!(family_name("respool w=2", 2.0), "respool");
        assert_eq!(family_name("respool", 1.0), "respool");
        assert_eq!(family_name("my proxy", 2.0), "my proxy");
    }
}
