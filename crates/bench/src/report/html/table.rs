//! The table with every figure of the run, for those who want to calculate themselves.
//!
//! Medians over the rounds; the spread beside the throughput says how far the rounds were apart. CPU is given twice, as
//! µs per request and as cores in use, because published tables have the second.
//!
//! Invariant: a figure that was not measured is a dash.

use maud::{Markup, html};

use super::plots::PERCENTILES;
use super::text;
use super::view::View;
use crate::plan::Figure;
use crate::record::{Test, Usage, Visit};
use crate::stats::{self, Role, Summary};

/// The table of all tests.
pub(super) fn draw(view: &View) -> Markup {
    let floor = stats::floor(view.run);
    let columns = COLUMNS + if floor.is_some() { FLOOR_COLUMNS } else { 0 };
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="All figures" {
            table {
                (heads(floor))
                @for test in &view.run.tests {
                    tbody {
                        tr class="test" {
                            th scope="rowgroup" { span { (test.name) } }
                            td colspan=(columns - 1) { (about(test)) }
                        }
                        @for target in view.targets(test) {
                            (row(view, test, &target.name))
                        }
                    }
                }
            }
        }
    }
}

/// Columns, the first (names) included.
const COLUMNS: usize = 21;
/// Columns of the multiples, where there is a floor.
const FLOOR_COLUMNS: usize = 3;

fn heads(floor: Option<&str>) -> Markup {
    html! {
        thead {
            tr {
                th rowspan="2" scope="col" { "target" }
                th colspan="3" scope="colgroup" { "requests per second" }
                th colspan="5" scope="colgroup" { "latency, µs" }
                th colspan="3" scope="colgroup" { "server CPU, µs per request" }
                th colspan="3" scope="colgroup" { "proxy CPU, µs per request" }
                @if let Some(floor) = floor {
                    th colspan=(FLOOR_COLUMNS) scope="colgroup" { "proxy CPU, × " (floor) }
                }
                th scope="colgroup" { "server" }
                th scope="colgroup" { "proxy" }
                th colspan="2" scope="colgroup" { "switches per 1000 requests" }
                th colspan="2" scope="colgroup" { "memory, greatest" }
            }
            tr {
                th scope="col" { "median" } th scope="col" { "× base" } th scope="col" { "spread" }
                @for p in PERCENTILES { th scope="col" { "p" (p) } }
                @for _ in 0..(2 + usize::from(floor.is_some())) {
                    th scope="col" { "all" } th scope="col" { "user" } th scope="col" { "system" }
                }
                th scope="col" { "cores (user, system)" } th scope="col" { "cores (user, system)" }
                @for _ in 0..2 { th scope="col" { "server" } th scope="col" { "proxy" } }
            }
        }
    }
}

/// What a test did, in words.
fn about(test: &Test) -> String {
    let axes = test
        .axes
        .iter()
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), text::si_tick(*value)));
    let words =
        [test.requests.clone(), test.shape.clone(), test.topology.clone(), test.tool.clone()];
    words.into_iter().filter(|w| !w.is_empty()).chain(axes).collect::<Vec<_>>().join(" · ")
}

fn row(view: &View, test: &Test, target: &str) -> Markup {
    let figure = |f| stats::summary(test, target, f);
    let throughput = figure(Figure::Throughput);
    let ratio = stats::ratio(test, target, &view.run.base, Figure::Throughput);
    let spread = throughput.filter(|t| t.rounds > 1).map(|t| t.spread() * 100.0);
    let spread = spread.filter(|s| s.is_finite());
    html! {
        tr {
            th scope="row" { span class={ "dot " (view.class(target)) } {} (target) }
            td { (or_none(throughput.map(|t| text::si(t.median)))) }
            td { (or_none(ratio.map(|r| text::ratio(r.median)))) }
            td { (or_none(spread.map(|s| format!("{s:.0} %")))) }
            @for p in PERCENTILES { td { (or_none(percentile(test, target, p))) } }
            @for f in [Figure::ServerCpu, Figure::ServerUser, Figure::ServerSystem,
                       Figure::ProxyCpu, Figure::ProxyUser, Figure::ProxySystem] {
                td { (or_none(figure(f).map(|s| text::sig3(s.median)))) }
            }
            @if stats::floor(view.run).is_some() {
                @for times in times_floor(view, test, target) { td { (or_none(times.map(text::ratio))) } }
            }
            @for role in [Role::Server, Role::Proxy] { td { (or_none(cores(test, target, role))) } }
            @for role in [Role::Server, Role::Proxy] { td { (or_none(switches(test, target, role))) } }
            @for role in [Role::Server, Role::Proxy] {
                td { (or_none(stats::rss_bytes_max(test, target, role).filter(|b| *b > 0).map(|b| text::bytes(b as f64)))) }
            }
        }
    }
}

/// Of all of the proxy's CPU, of its user and of its system part.
fn times_floor(view: &View, test: &Test, target: &str) -> [Option<f64>; FLOOR_COLUMNS] {
    match stats::times_floor(view.run, test, target) {
        Some(times) => [Some(times.cpu), times.user, times.system],
        None => [None; FLOOR_COLUMNS],
    }
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| text::NONE.to_owned())
}

fn percentile(test: &Test, target: &str, percentile: f64) -> Option<String> {
    median_of(test, target, |v| v.latency.at(percentile)).map(text::sig3)
}

/// `0.986 (0.252, 0.734)`.
fn cores(test: &Test, target: &str, role: Role) -> Option<String> {
    let cores = stats::cores(test, target, role).filter(|c| c.used().is_finite())?;
    Some(format!("{:.3} ({:.3}, {:.3})", cores.used(), cores.user, cores.system))
}

/// Both kinds together: each is a change of thread that the role paid for.
fn switches(test: &Test, target: &str, role: Role) -> Option<String> {
    let count = |u: &Usage| (u.voluntary_switches + u.involuntary_switches) as f64;
    let per_thousand = |v: &Visit| {
        let counted = role.usage(v)?;
        (v.requests > 0).then(|| count(counted) / v.requests as f64 * 1e3)
    };
    median_of(test, target, per_thousand).map(text::sig3)
}

fn median_of(test: &Test, target: &str, of: impl Fn(&Visit) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = stats::visits(test, target).filter_map(of).collect();
    Summary::of(&values).map(|s| s.median).filter(|m| m.is_finite())
}
