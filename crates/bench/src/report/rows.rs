//! The cells that the terminal's table and the Markdown have in common: what a column holds and how a number reads.
//!
//! A cell is a text and, where it compares, a verdict; how either looks is the matter of the form that shows it.
//!
//! Invariant: what was not measured is [`NONE`].

use crate::plan::Figure;
use crate::record::{Cores, Run, Test};
use crate::stats::noise::Verdict;
use crate::stats::{self, Role};

/// Stands for what was not measured.
pub(crate) const NONE: &str = "—";
/// Follows a ratio whose difference from 1 may be chance.
pub(crate) const WITHIN_NOISE: &str = "~";

/// A column of a test's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Target,
    Throughput,
    ThroughputRatio,
    P50,
    P99,
    P999,
    Spread,
    ProxyCpu,
    ProxyRatio,
    TimesFloor,
    ProxyCores,
    ProxyRss,
    IdleRss,
    ServerCpu,
    ServerRatio,
    ServerCores,
}

/// How fast.
pub(crate) const SPEED: [Column; 7] = [
    Column::Target,
    Column::Throughput,
    Column::ThroughputRatio,
    Column::P50,
    Column::P99,
    Column::P999,
    Column::Spread,
];

/// At what cost: [`proxy_cost`] and [`SERVER_COST`] in one.
pub(crate) fn cost(run: &Run) -> Vec<Column> {
    let mut columns = proxy_cost(run);
    columns.extend(&SERVER_COST[1..]);
    columns
}

/// The proxy's part. The multiple of the base is there when that is a proxy itself, that of the floor when a floor is; memory where it is at stake, since a terminal has few columns:
/// beside idle clients, and with large values. Documents in HTML have it always.
pub(crate) fn proxy_cost(run: &Run) -> Vec<Column> {
    let mut columns = vec![Column::Target, Column::ProxyCpu];
    let of_base = |test| stats::summary(test, &run.base, Figure::ProxyCpu).is_some();
    if Some(run.base.as_str()) != stats::floor(run) && run.tests.iter().any(of_base) {
        columns.push(Column::ProxyRatio);
    }
    columns.extend(stats::floor(run).map(|_| Column::TimesFloor));
    columns.push(Column::ProxyCores);
    let has_idle = run.tests.iter().flat_map(|test| &test.visits).any(|visit| visit.idle.is_some());
    let is_large = |(name, value): &(String, f64)| name == "value_bytes" && *value >= LARGE_BYTES;
    if has_idle || run.tests.iter().flat_map(|test| &test.axes).any(is_large) {
        columns.push(Column::ProxyRss);
    }
    columns.extend(has_idle.then_some(Column::IdleRss));
    columns
}

/// Values of so many bytes are large: more than a proxy reads at once.
const LARGE_BYTES: f64 = 65_536.0;

/// The servers' part of [`cost`].
pub(crate) const SERVER_COST: [Column; 4] =
    [Column::Target, Column::ServerCpu, Column::ServerRatio, Column::ServerCores];

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) verdict: Option<Verdict>,
}

impl Cell {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), verdict: None }
    }
}

impl Column {
    pub(crate) fn header(self, run: &Run) -> String {
        match self {
            Self::Target => "target".to_owned(),
            Self::Throughput => "k req/s".to_owned(),
            // Each ratio stands beside what it is the ratio of.
            Self::ThroughputRatio | Self::ProxyRatio | Self::ServerRatio => {
                format!("× {}", run.base)
            }
            Self::TimesFloor => format!("× {}", stats::floor(run).unwrap_or(NONE)),
            Self::P50 => "p50 µs".to_owned(),
            Self::P99 => "p99 µs".to_owned(),
            Self::P999 => "p99.9 µs".to_owned(),
            Self::Spread => "spread: req/s, CPU".to_owned(),
            Self::ProxyCpu => "proxy µs/req".to_owned(),
            Self::ProxyCores => "proxy cores".to_owned(),
            Self::ProxyRss => "proxy MiB".to_owned(),
            Self::IdleRss => "KiB/idle client".to_owned(),
            Self::ServerCpu => "server µs/req".to_owned(),
            Self::ServerCores => "server cores".to_owned(),
        }
    }

    pub(crate) fn cell(self, run: &Run, test: &Test, target: &str) -> Cell {
        let figure = |figure, show: fn(f64) -> String| {
            let summary = stats::summary(test, target, figure);
            Cell::plain(summary.map_or_else(|| NONE.to_owned(), |summary| show(summary.median)))
        };
        match self {
            Self::Target => Cell::plain(target),
            Self::Throughput => figure(Figure::Throughput, |per_s| digits(per_s / 1000.0)),
            Self::P50 => figure(Figure::P50, digits),
            Self::P99 => figure(Figure::P99, digits),
            Self::P999 => figure(Figure::P999, digits),
            Self::ThroughputRatio => ratio(run, test, target, Figure::Throughput),
            Self::ProxyRatio => ratio(run, test, target, Figure::ProxyCpu),
            Self::ServerRatio => ratio(run, test, target, Figure::ServerCpu),
            Self::Spread => Cell::plain(spread(test, target)),
            Self::ProxyCpu => Cell::plain(split(test, target, PROXY)),
            Self::TimesFloor => times_floor(run, test, target),
            Self::ServerCpu => Cell::plain(split(test, target, SERVER)),
            Self::ProxyCores => Cell::plain(cores(stats::cores(test, target, Role::Proxy))),
            Self::ProxyRss => figure(Figure::ProxyRss, digits),
            Self::IdleRss => figure(Figure::IdleRss, digits),
            Self::ServerCores => Cell::plain(cores(stats::cores(test, target, Role::Server))),
        }
    }
}

/// The targets of a test in the order of the run, those first visited elsewhere last. Every visit's target is there.
pub(crate) fn targets<'a>(run: &'a Run, test: &'a Test) -> Vec<&'a str> {
    let visited = |name: &str| stats::visits(test, name).next().is_some();
    let mut names: Vec<&str> = run
        .targets
        .iter()
        .map(|target| target.name.as_str())
        .filter(|name| visited(name))
        .collect();
    for visit in &test.visits {
        if !names.contains(&visit.target.as_str()) {
            names.push(&visit.target);
        }
    }
    names
}

/// The load of a test in words: `SET {key} {value}; closed; pipeline 1, clients 50; one server; by respool-bench`.
pub(crate) fn load_in_words(test: &Test) -> String {
    let axes: Vec<String> = test
        .axes
        .iter()
        .map(|(name, value)| format!("{} {value}", name.replace('_', " ")))
        .collect();
    let mut parts = vec![test.requests.clone(), test.shape.clone()];
    parts.push(axes.join(", "));
    parts.push(test.topology.clone());
    parts.push(format!("by {}", test.tool));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Three significant digits, but never less than the whole number: 0.0123, 4.86, 181, 15230.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 9) as usize;
    format!("{value:.decimals$}")
}

/// Seconds as a person says them: `12 s`, `3 min 20 s`, `1 h 05 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// The published form: `0.986 (0.252 user 0.734 sys)`.
fn cores(cores: Option<Cores>) -> String {
    cores.map_or_else(
        || NONE.to_owned(),
        |cores| format!("{:.3} ({:.3} user {:.3} sys)", cores.used(), cores.user, cores.system),
    )
}

const PROXY: [Figure; 3] = [Figure::ProxyCpu, Figure::ProxyUser, Figure::ProxySystem];
const SERVER: [Figure; 3] = [Figure::ServerCpu, Figure::ServerUser, Figure::ServerSystem];

/// `4.86 (0.55 + 4.31)`; without the parentheses when no tick fell into the visits.
fn split(test: &Test, target: &str, figures: [Figure; 3]) -> String {
    let [both, user, system] =
        figures.map(|figure| stats::summary(test, target, figure).map(|summary| summary.median));
    match (both, user, system) {
        (Some(both), Some(user), Some(system)) => {
            format!("{} ({user:.2} + {system:.2})", digits(both))
        }
        (Some(both), ..) => digits(both),
        _ => NONE.to_owned(),
    }
}

fn ratio(run: &Run, test: &Test, target: &str, figure: Figure) -> Cell {
    if target == run.base {
        return Cell::plain("1");
    }
    let Some(ratio) = stats::ratio(test, target, &run.base, figure) else {
        return Cell::plain(NONE);
    };
    let verdict =
        stats::change(test, target, &run.base, figure).map_or(Verdict::Same, |c| c.verdict(figure));
    let mark = if verdict == Verdict::Same { WITHIN_NOISE } else { "" };
    Cell { text: format!("{:.2}{mark}", ratio.median), verdict: Some(verdict) }
}

/// `1.24 (3.10 + 1.13)`: of all the proxy's CPU, and of its user and its system part.
fn times_floor(run: &Run, test: &Test, target: &str) -> Cell {
    let (floor, times) = (stats::floor(run), stats::times_floor(run, test, target));
    let (Some(floor), Some(times)) = (floor, times) else {
        return Cell::plain(NONE);
    };
    if target == floor {
        return Cell::plain("1");
    }
    let change = stats::change(test, target, floor, Figure::ProxyCpu);
    let verdict = change.map_or(Verdict::Same, |change| change.verdict(Figure::ProxyCpu));
    let mark = if verdict == Verdict::Same { WITHIN_NOISE } else { "" };
    let parts = match (times.user, times.system) {
        (Some(user), Some(system)) => format!(" ({user:.2} + {system:.2})"),
        _ => String::new(),
    };
    // Nothing is better than the floor, and to be dearer is no fault: the number stands without a colour.
    Cell::plain(format!("{:.2}{mark}{parts}", times.cpu))
}

/// Of throughput, and of the CPU per request of the proxy or, without one, of the server.
fn spread(test: &Test, target: &str) -> String {
    let of = |figure| stats::summary(test, target, figure).map(|summary| summary.spread());
    let percent = |spread: Option<f64>| {
        spread.map_or_else(|| NONE.to_owned(), |spread| format!("{:.0} %", spread * 100.0))
    };
    let cpu = of(Figure::ProxyCpu).or_else(|| of(Figure::ServerCpu));
    format!("{}, {}", percent(of(Figure::Throughput)), percent(cpu))
}
