//! From a value to a place on an axis, and where its ticks stand.
//!
//! Not a plotting library: three axes (even, logarithmic, nines of a percentile) are all that the report has.
//!
//! Invariant: [`Axis::at`] gives a finite number for every input; values beyond the ends are clamped to them.

use super::text;

/// How an axis spreads its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    /// Evenly.
    Linear,
    /// By their logarithm. Values must be greater than 0.
    Log,
    /// Percentiles by the number of nines, so that 99 to 99.9 takes as much room as 99.9 to 99.99.
    Nines,
}

impl Spread {
    fn apply(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(f64::MIN_POSITIVE).ln(),
            Self::Nines => -(100.0 - value.min(99.9999)).log10(),
        }
    }
}

/// An axis: values `low` to `high` on pixels `from` to `to` (a y axis has `from` > `to`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub spread: Spread,
    pub low: f64,
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl Axis {
    /// The pixel of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.spread.apply(self.low), self.spread.apply(self.high));
        let share = (self.spread.apply(value) - low) / (high - low);
        // All values equal: the middle. A value that is no number: the beginning.
        let share = if high <= low {
            0.5
        } else if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from + share * (self.to - self.from)
    }
}

/// The end of an axis from 0 that holds `max`, and its ticks (0 and the end among them), some `about` steps.
pub(super) fn linear_ticks(max: f64, about: f64) -> (f64, Vec<f64>) {
    let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
    let raw = max / about;
    let power = 10f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let steps = (max / step - 1e-6).ceil().max(1.0);
    // `steps` is at most a few more than `about`.
    let ticks = (0..=steps as u32).map(|i| f64::from(i) * step).collect();
    (steps * step, ticks)
}

/// Ends of a logarithmic axis that holds `low..=high`, and its ticks: decades, or 1-2-5 when there are few decades.
pub(super) fn log_ticks(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
    let high = if high.is_finite() && high > low { high } else { low * 2.0 };
    let fine = (high / low).log10() < 1.8;
    let marks: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let all: Vec<f64> =
        (first..=last).flat_map(|e| marks.iter().map(move |m| m * 10f64.powi(e))).collect();
    let begin = all.iter().copied().rfind(|t| *t <= low * 1.001).unwrap_or(low);
    let end = all.iter().copied().find(|t| *t >= high * 0.999).unwrap_or(high);
    (begin, end, all.into_iter().filter(|t| *t >= begin && *t <= end).collect())
}

/// Ticks of an x axis at the measured values themselves; a label that would touch its left neighbour is left out.
pub(super) fn labels_that_fit(
    values: &[f64],
    axis: &Axis,
    font: f64,
    label: impl Fn(f64) -> String,
) -> Vec<(f64, String)> {
    let mut free_from = f64::NEG_INFINITY;
    let mut kept = Vec::new();
    for &value in values {
        let (x, text) = (axis.at(value), label(value));
        let half = text::width(&text, font) / 2.0;
        if x - half >= free_from {
            free_from = x + half + font * 0.4;
            kept.push((x, text));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_hold_the_greatest_value_and_are_round() {
        assert_eq!(linear_ticks(0.986, 4.0), (1.0, vec![0.0, 0.25, 0.5, 0.75, 1.0]));
        let (end, ticks) = linear_ticks(1_708_000.0, 3.0);
        assert!(end >= 1_708_000.0 && ticks.len() <= 6, "{end} {ticks:?}");
        assert_eq!(linear_ticks(f64::NAN, 3.0).1.len(), linear_ticks(1.0, 3.0).1.len());
        assert_eq!(log_ticks(80.0, 21_000.0), (10.0, 100_000.0, vec![10.0, 100.0, 1e3, 1e4, 1e5]));
        assert_eq!(log_ticks(110.0, 900.0), (100.0, 1000.0, vec![100.0, 200.0, 500.0, 1000.0]));
        assert!(log_ticks(0.0, f64::NAN).2.len() >= 2);
    }

    #[test]
    fn each_nine_takes_the_same_room() {
        let axis = Axis { spread: Spread::Nines, low: 90.0, high: 99.99, from: 0.0, to: 300.0 };
        let places: Vec<f64> =
            [90.0, 99.0, 99.9, 99.99].iter().map(|p| axis.at(*p).round()).collect();
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0]);
    }

    #[test]
    fn a_place_is_always_finite() {
        for spread in [Spread::Linear, Spread::Log, Spread::Nines] {
            for (low, high) in [(1.0, 1.0), (1.0, 8.0)] {
                let axis = Axis { spread, low, high, from: 10.0, to: 90.0 };
                for value in [0.0, -1.0, 1.0, 100.0, f64::NAN, f64::INFINITY] {
                    let x = axis.at(value);
                    assert!((10.0..=90.0).contains(&x), "{spread:?} {value} {x}");
                }
            }
        }
    }

    #[test]
    fn labels_never_touch() {
        let axis = Axis { spread: Spread::Linear, low: 1.0, high: 200.0, from: 0.0, to: 300.0 };
        let kept = labels_that_fit(&[1.0, 2.0, 3.0, 50.0, 100.0, 200.0], &axis, 12.0, text::tick);
        let texts: Vec<&str> = kept.iter().map(|(_, t)| t.as_str()).collect();
        assert_eq!(texts, ["1", "50", "100", "200"]);
    }
}
