//! The three or four numbers that a run comes down to, and the sentence of what was measured.
//!
//! Each number is a ratio within the rounds, over all tests: the least and the greatest, with the tests that gave them,
//! because one picked test would say whatever one likes. A run with a single target has no ratios and shows its own
//! figures.
//!
//! Invariant: every number names what it is compared with.

use super::text;
use super::view::View;
use crate::plan::Figure;
use crate::record::{Run, Test};
use crate::stats;

/// One number.
#[derive(Debug, PartialEq)]
pub(super) struct Card {
    pub label: String,
    /// `0.31–0.92`.
    pub value: String,
    /// After the value: `× direct`.
    pub unit: String,
    /// From which tests.
    pub note: String,
}

/// At most four.
pub(super) fn cards(view: &View) -> Vec<Card> {
    let run = view.run;
    let Some(subject) = view.subject() else { return absolute(run) };
    let (name, base) = (subject.name.as_str(), run.base.as_str());
    let mut cards = vec![
        card(run, "Server CPU per request", name, base, Figure::ServerCpu),
        rival(view, name)
            .and_then(|r| card(run, "Proxy CPU per request", name, &r, Figure::ProxyCpu)),
        card(run, "Throughput", name, base, Figure::Throughput),
        card(run, "Latency, 99th percentile", name, base, Figure::P99),
    ];
    cards.retain(Option::is_some);
    cards.into_iter().flatten().collect()
}

/// The other proxy that costs least CPU: with it the comparison is hardest. A floor is no proxy.
fn rival(view: &View, subject: &str) -> Option<String> {
    let ours = view.run.targets.iter().find(|t| t.name == subject)?;
    let cost = |name: &str| {
        let all: Vec<f64> = view
            .run
            .tests
            .iter()
            .filter_map(|t| stats::ratio(t, name, subject, Figure::ProxyCpu))
            .map(|r| r.median)
            .collect();
        stats::median(&all)
    };
    // Other forms of the same program (more workers) are no rivals.
    let program = |what: &str| what.split(' ').next().unwrap_or_default().to_owned();
    let rivals =
        view.run.targets.iter().filter(|t| !t.floor && program(&t.what) != program(&ours.what));
    rivals
        .filter_map(|t| Some((cost(&t.name)?, t.name.clone())))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn card(run: &Run, label: &str, target: &str, base: &str, figure: Figure) -> Option<Card> {
    let mut all: Vec<(f64, &Test)> = run
        .tests
        .iter()
        .filter_map(|t| Some((stats::ratio(t, target, base, figure)?.median, t)))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = (all.first()?, all.last()?);
    let (value, note) = if all.len() == 1 || text::ratio(low.0) == text::ratio(high.0) {
        (text::ratio(low.0), format!("{target}, {}", tests_words(all.len(), low.1)))
    } else {
        (
            format!("{}–{}", text::ratio(low.0), text::ratio(high.0)),
            format!("{target}; least in {}, most in {}", low.1.name, high.1.name),
        )
    };
    Some(Card { label: label.to_owned(), value, unit: format!("× {base}"), note })
}

fn tests_words(count: usize, test: &Test) -> String {
    if count == 1 { test.name.clone() } else { format!("in all {count} tests") }
}

/// Figures of a run that has nothing to compare with: the greatest throughput, and CPU and latency in that test.
fn absolute(run: &Run) -> Vec<Card> {
    let base = run.base.as_str();
    let rate = |t: &Test| stats::summary(t, base, Figure::Throughput).map(|s| s.median);
    let best = run
        .tests
        .iter()
        .filter(|t| rate(t).is_some())
        .max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)));
    let Some(test) = best else { return Vec::new() };
    let figures = [
        ("Throughput", Figure::Throughput, "requests per second"),
        ("Server CPU per request", Figure::ServerCpu, "µs"),
        ("Proxy CPU per request", Figure::ProxyCpu, "µs"),
        ("Latency, 99th percentile", Figure::P99, "µs"),
    ];
    let of = |(label, figure, unit): (&str, Figure, &str)| {
        let median = stats::summary(test, base, figure)?.median;
        let value =
            if figure == Figure::Throughput { text::si(median) } else { text::sig3(median) };
        Some(Card {
            label: label.to_owned(),
            value,
            unit: unit.to_owned(),
            note: format!("{base}, {}", test.name),
        })
    };
    figures.into_iter().filter_map(of).collect()
}

/// `4 targets in 8 tests, 3 rounds each; took 12 min on …`.
pub(super) fn sentence(run: &Run) -> String {
    let many =
        |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let machine = if run.machine.cpu.is_empty() {
        String::new()
    } else {
        format!(" on {} ({})", run.machine.cpu, many(run.machine.cores as usize, "core"))
    };
    format!(
        "{}, {}, {}, visited in turn within {}{machine}.",
        many(run.targets.len(), "target"),
        many(run.tests.len(), "test"),
        many(run.rounds as usize, "round"),
        text::length(run.seconds)
    )
}
