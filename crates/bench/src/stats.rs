//! Medians, spreads and ratios of what was recorded.
use crate::plan::Figure;
use crate::record::{Test, Visit};

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
    /// (max - min) / median; 0 with one round.
    #[must_use]
    pub fn spread(&self) -> f64 {
        todo!()
    }
}

/// The figure of one visit; `None` when it has none (the proxy's CPU of a direct connection, a percentile the tool does not give).
#[must_use]
pub fn figure(_visit: &Visit, _figure: Figure) -> Option<f64> {
    todo!()
}

/// The figure of a target over its rounds.
#[must_use]
pub fn summary(_test: &Test, _target: &str, _figure: Figure) -> Option<Summary> {
    todo!()
}

/// Median of the ratios `target / base` within each round, with their extremes.
#[must_use]
pub fn ratio(_test: &Test, _target: &str, _base: &str, _figure: Figure) -> Option<Summary> {
    todo!()
}

/// What a reader must be warned of, from the visits alone: generator saturated, machine busy, spread too wide to claim anything.
#[must_use]
pub fn warnings(_tests: &[Test]) -> Vec<String> {
    todo!()
}
