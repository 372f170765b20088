//! Medians, spreads and ratios of what was recorded.
//!
//! The arithmetic of every report: [`figure`] reads one visit, [`summary`] takes the rounds together, [`ratio`] sets a
//! target against another. [`noise`] says when a difference is more than chance, [`warnings`](fn@warnings) what a
//! reader must know before believing any of it. Nothing here prints, and nothing is stored: an old run file gets the
//! benefit of better arithmetic.
//!
//! Two lessons stand behind it. Machines, virtual ones above all, change their speed from one minute to the next, so
//! ratios pair visits of the same round, which saw the same minute. And the split of CPU into user and system is
//! sampled by the clock tick, so the shares of all rounds are added up before anything is divided.
//!
//! Invariant: a figure that was not measured is `None`, never 0; and `min <= median <= max` in each [`Summary`].

mod floor;
pub mod noise;
mod warn;

pub(crate) use floor::is_floor;
pub use floor::{all_times_floor, floor, times_floor};
pub use warn::{SPREAD_MAX, all_warnings, warnings};

use crate::plan::Figure;
use crate::record::{Cores, Test, Usage, Visit};

/// A figure over the rounds of one target in one test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Median over the rounds.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// Rounds.
    pub rounds: usize,
}

impl Summary {
    /// Of these values; `None` when there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let median = median(values)?;
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median, min, max, rounds: values.len() })
    }

    /// (max - min) / median; 0 with one round.
    #[must_use]
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / self.median }
    }

    /// The same extremes around another median. A median from pooled shares may lie outside what single rounds gave,
    /// so the extremes give way to it.
    fn around(self, median: f64) -> Self {
        Self { median, min: self.min.min(median), max: self.max.max(median), ..self }
    }
}

/// Whose CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The proxy.
    Proxy,
    /// All servers.
    Server,
    /// The load.
    Load,
}

impl Role {
    /// What the role used in a visit; `None` when nothing was counted: a role that answered requests used some CPU.
    #[must_use]
    pub fn usage(self, visit: &Visit) -> Option<&Usage> {
        let usage = match self {
            Self::Proxy => &visit.proxy,
            Self::Server => &visit.server,
            Self::Load => &visit.load,
        };
        (usage.cpu_s > 0.0).then_some(usage)
    }
}

/// Which part of a role's CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Both,
    User,
    System,
}

impl Part {
    /// The part of `both` that is this one, given the user's share; `None` when there is no share to split by.
    fn of(self, user_share: Option<f64>) -> Option<f64> {
        match self {
            Self::Both => Some(1.0),
            Self::User => user_share,
            Self::System => user_share.map(|share| 1.0 - share),
        }
    }
}

/// The role and part that a figure of CPU speaks of.
fn cpu(figure: Figure) -> Option<(Role, Part)> {
    match figure {
        Figure::ProxyCpu => Some((Role::Proxy, Part::Both)),
        Figure::ProxyUser => Some((Role::Proxy, Part::User)),
        Figure::ProxySystem => Some((Role::Proxy, Part::System)),
        Figure::ServerCpu => Some((Role::Server, Part::Both)),
        Figure::ServerUser => Some((Role::Server, Part::User)),
        Figure::ServerSystem => Some((Role::Server, Part::System)),
        Figure::Throughput
        | Figure::P50
        | Figure::P99
        | Figure::P999
        | Figure::ProxyRss
        | Figure::IdleRss => None,
    }
}

/// Every figure, in the order of the tables.
pub const FIGURES: [Figure; 12] = [
    Figure::Throughput,
    Figure::P50,
    Figure::P99,
    Figure::P999,
    Figure::ProxyCpu,
    Figure::ProxyUser,
    Figure::ProxySystem,
    Figure::ServerCpu,
    Figure::ServerUser,
    Figure::ServerSystem,
    Figure::ProxyRss,
    Figure::IdleRss,
];

/// What a figure is called, with its unit: `proxy CPU, µs/req`.
#[must_use]
pub fn label(figure: Figure) -> &'static str {
    match figure {
        Figure::Throughput => "throughput, req/s",
        Figure::ProxyCpu => "proxy CPU, µs/req",
        Figure::ProxyUser => "proxy user, µs/req",
        Figure::ProxySystem => "proxy system, µs/req",
        Figure::ServerCpu => "server CPU, µs/req",
        Figure::ServerUser => "server user, µs/req",
        Figure::ServerSystem => "server system, µs/req",
        Figure::P50 => "latency p50, µs",
        Figure::P99 => "latency p99, µs",
        Figure::P999 => "latency p99.9, µs",
        Figure::ProxyRss => "proxy memory, MiB",
        Figure::IdleRss => "memory per idle client, KiB",
    }
}

/// What a figure is called, without its unit, as for a ratio: `proxy CPU`.
#[must_use]
pub fn name(figure: Figure) -> &'static str {
    let label = label(figure);
    label.split_once(", ").map_or(label, |(name, _)| name)
}

/// The unit of a figure: `µs/req`.
#[must_use]
pub fn unit(figure: Figure) -> &'static str {
    label(figure).split_once(", ").map_or("", |(_, unit)| unit)
}

/// The figure of one visit; `None` when it has none (the proxy's CPU of a direct connection, a percentile the tool does
/// not give). Units as [`label`] says.
#[must_use]
pub fn figure(visit: &Visit, figure: Figure) -> Option<f64> {
    let value = match figure {
        Figure::Throughput => (visit.seconds > 0.0).then(|| visit.requests as f64 / visit.seconds),
        Figure::P50 => visit.latency.at(50.0),
        Figure::P99 => visit.latency.at(99.0),
        Figure::P999 => visit.latency.at(99.9),
        Figure::ProxyRss => Role::Proxy
            .usage(visit)
            .filter(|usage| usage.rss_bytes_max > 0)
            .map(|usage| usage.rss_bytes_max as f64 / f64::from(1 << 20)),
        Figure::IdleRss => visit.idle.and_then(|idle| idle.bytes_per_client()).map(|b| b / 1024.0),
        _ => cpu(figure).and_then(|(role, part)| {
            Some(per_request_us(visit, role)? * part.of(user_share([visit], role))?)
        }),
    };
    // A run file may have been written by hand: whatever cannot be compared is not there.
    value.filter(|value| value.is_finite())
}

/// The figure of a target over its rounds.
///
/// The user and system parts are the median of the whole, split by the share over all rounds; their extremes are those
/// of single rounds.
#[must_use]
pub fn summary(test: &Test, target: &str, figure: Figure) -> Option<Summary> {
    let values: Vec<f64> =
        visits(test, target).filter_map(|visit| self::figure(visit, figure)).collect();
    let summary = Summary::of(&values)?;
    match cpu(figure) {
        Some((role, part)) if part != Part::Both => {
            let whole: Vec<f64> =
                visits(test, target).filter_map(|visit| per_request_us(visit, role)).collect();
            let share = part.of(user_share(visits(test, target), role))?;
            Some(summary.around(median(&whole)? * share))
        }
        _ => Some(summary),
    }
}

/// Median of the ratios `target / base` within each round, with their extremes.
///
/// For the user and system parts it is the median ratio of the whole, times the ratio of the shares over all rounds.
/// `None` when no round has the figure for both.
#[must_use]
pub fn ratio(test: &Test, target: &str, base: &str, figure: Figure) -> Option<Summary> {
    let summary = Summary::of(&ratios(test, (target, figure), (base, figure)))?;
    let Some((role, part)) = cpu(figure).filter(|&(_, part)| part != Part::Both) else {
        return Some(summary);
    };
    let whole = match role {
        Role::Proxy => Figure::ProxyCpu,
        Role::Server | Role::Load => Figure::ServerCpu,
    };
    let share = |name| part.of(user_share(visits(test, name), role));
    let shares = share(target)? / share(base)?;
    Some(summary.around(median(&ratios(test, (target, whole), (base, whole)))? * shares))
        .filter(|summary| summary.median.is_finite())
}

/// The ratios within each round, in order of the rounds. Each side is a target and its figure, because a proxy's CPU
/// has no counterpart in a direct connection and may be set against the CPU of that one's server.
#[must_use]
pub fn ratios(test: &Test, above: (&str, Figure), below: (&str, Figure)) -> Vec<f64> {
    let mut pairs: Vec<(u32, f64)> = visits(test, above.0)
        .filter_map(|visit| {
            let partner = visits(test, below.0).find(|other| other.round == visit.round)?;
            let ratio = figure(visit, above.1)? / figure(partner, below.1)?;
            ratio.is_finite().then_some((visit.round, ratio))
        })
        .collect();
    pairs.sort_by_key(|&(round, _)| round);
    pairs.into_iter().map(|(_, ratio)| ratio).collect()
}

/// The change of a target against another, from the rounds they share, with what the noise leaves of it. `None` when no
/// round has the figure for both. Its factor is a mean, that of [`ratio`] a median: show the median, judge by this.
#[must_use]
pub fn change(test: &Test, target: &str, base: &str, figure: Figure) -> Option<noise::Change> {
    noise::paired(&ratios(test, (target, figure), (base, figure)))
}

/// Cores that a role used: median over the rounds of its CPU time by the time of the visit, split by the share over all
/// rounds. This is the published form `0.986 (0.252 user 0.734 sys)`.
#[must_use]
pub fn cores(test: &Test, target: &str, role: Role) -> Option<Cores> {
    let used: Vec<f64> = visits(test, target)
        .filter(|visit| visit.seconds > 0.0)
        .filter_map(|visit| Some(role.usage(visit)?.cpu_s / visit.seconds))
        .collect();
    let used = median(&used)?;
    let share = user_share(visits(test, target), role)?;
    Some(Cores { user: used * share, system: used * (1.0 - share) })
}

/// Greatest resident memory of a role over all rounds, in bytes.
#[must_use]
pub fn rss_bytes_max(test: &Test, target: &str, role: Role) -> Option<u64> {
    visits(test, target).filter_map(|visit| Some(role.usage(visit)?.rss_bytes_max)).max()
}

/// The visits of one target, in the order they happened.
pub fn visits<'a>(test: &'a Test, target: &'a str) -> impl Iterator<Item = &'a Visit> {
    test.visits.iter().filter(move |visit| visit.target == target)
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn per_request_us(visit: &Visit, role: Role) -> Option<f64> {
    let usage = role.usage(visit)?;
    (visit.requests > 0).then(|| usage.cpu_s / visit.requests as f64 * 1e6)
}

/// The user's share of a role's CPU over all these visits, 0 to 1. `None` when no tick fell into them.
fn user_share<'a>(visits: impl IntoIterator<Item = &'a Visit>, role: Role) -> Option<f64> {
    let (mut user_s, mut both_s) = (0.0, 0.0);
    for usage in visits.into_iter().filter_map(|visit| role.usage(visit)) {
        user_s += usage.user_s;
        both_s += usage.user_s + usage.system_s;
    }
    (both_s > 0.0).then(|| user_s / both_s)
}
