//! The small pictures, one a test: CPU per request, throughput, latency.
//!
//! They only choose and name figures; the arithmetic is `stats`, the drawing `bars` and `lines`.
//!
//! Invariant: a figure that was not measured is not drawn, and no picture is made of nothing.

use super::bars::{self, Bar, Row};
use super::lines::{self, Labels, Point, Series};
use super::picture::Picture;
use super::scale::Spread;
use super::text;
use super::view::View;
use crate::plan::Figure;
use crate::record::Test;
use crate::stats::{self, Summary};

/// Percentiles that the latency pictures show, as far as the tool gave them.
pub(super) const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// CPU per request of server and proxy, side by side.
pub(super) fn cpu(view: &View, test: &Test) -> Option<Picture> {
    let server = [Figure::ServerCpu, Figure::ServerUser, Figure::ServerSystem];
    let proxy = [Figure::ProxyCpu, Figure::ProxyUser, Figure::ProxySystem];
    let rows: Vec<Row> = view
        .targets(test)
        .map(|target| Row {
            name: target.name.clone(),
            class: view.class(&target.name),
            bars: vec![
                cpu_bar(test, &target.name, "server", server),
                cpu_bar(test, &target.name, "proxy", proxy),
            ],
        })
        .collect();
    let any = rows.iter().any(|r| r.bars.iter().any(Option::is_some));
    any.then(|| bars::draw(&test.name, "µs per request", &["server", "proxy"], &rows))
}

fn cpu_bar(test: &Test, target: &str, role: &str, figures: [Figure; 3]) -> Option<Bar> {
    let all = stats::summary(test, target, figures[0])?;
    let part = |figure| stats::summary(test, target, figure).map(|s| s.median);
    // Without a split everything is drawn in the full tone.
    let system = part(figures[2]).unwrap_or(0.0).clamp(0.0, all.median);
    let split = match (part(figures[1]), part(figures[2])) {
        (Some(user), Some(system)) => {
            format!(", user {} and system {}", text::sig3(user), text::sig3(system))
        }
        _ => String::new(),
    };
    Some(Bar {
        user: all.median - system,
        system,
        range: (all.min, all.max),
        value: text::sig3(all.median),
        aside: String::new(),
        title: format!(
            "{target}, CPU of the {role}: {} µs per request{split}{}",
            text::sig3(all.median),
            range_words(&all, text::sig3)
        ),
    })
}

/// Requests per second, with the ratio to the base.
pub(super) fn throughput(view: &View, test: &Test) -> Option<Picture> {
    let base = view.run.base.as_str();
    let bar = |name: &str| {
        let all = stats::summary(test, name, Figure::Throughput)?;
        let ratio = stats::ratio(test, name, base, Figure::Throughput).filter(|_| name != base);
        Some(Bar {
            user: all.median,
            system: 0.0,
            range: (all.min, all.max),
            value: text::si(all.median),
            aside: ratio.map_or(String::new(), |r| format!("{}×", text::ratio(r.median))),
            title: format!(
                "{name}: {} requests per second{}",
                text::si(all.median),
                range_words(&all, text::si)
            ),
        })
    };
    let rows: Vec<Row> = view
        .targets(test)
        .map(|t| Row { name: t.name.clone(), class: view.class(&t.name), bars: vec![bar(&t.name)] })
        .collect();
    let any = rows.iter().any(|r| r.bars[0].is_some());
    any.then(|| bars::draw(&test.name, "requests per second", &[""], &rows))
}

fn range_words(summary: &Summary, number: fn(f64) -> String) -> String {
    if summary.rounds < 2 {
        return String::new();
    }
    format!("; {} to {} in {} rounds", number(summary.min), number(summary.max), summary.rounds)
}

/// Latency percentiles, medians over the rounds.
pub(super) fn latency(view: &View, test: &Test) -> Option<Picture> {
    let series: Vec<Series> = view
        .targets(test)
        .map(|target| Series {
            name: target.name.clone(),
            class: view.class(&target.name),
            points: PERCENTILES.iter().filter_map(|p| percentile(test, &target.name, *p)).collect(),
        })
        .collect();
    // A single percentile is no curve.
    if series.iter().all(|s| s.points.len() < 2) {
        return None;
    }
    let labels = Labels { x_name: "percentile", x: &percent, y: &text::micros };
    lines::draw((&test.name, "latency"), (Spread::Nines, Spread::Log), &labels, &series)
}

/// A percentile of a target, the median over the rounds.
fn percentile(test: &Test, target: &str, percentile: f64) -> Option<Point> {
    let values: Vec<f64> =
        stats::visits(test, target).filter_map(|v| v.latency.at(percentile)).collect();
    let all = Summary::of(&values)?;
    // No whiskers: those of a tail are as wide as the plot, and would hide the curves.
    Some(Point { x: percentile, y: all.median, range: (all.median, all.median) })
}

/// `p50`, `p99.99`.
fn percent(p: f64) -> String {
    format!("p{p}")
}
