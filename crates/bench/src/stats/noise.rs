//! When is a difference more than chance?
//!
//! A figure has 3 to 9 rounds, so the question is one of small samples. The method is Student's: the logarithms of the
//! values have a mean, and its 95 % confidence interval tells which factors the data can bear. A difference is *beyond
//! the noise* when that interval excludes 1 **and** the factor is at least [`FLOOR`] away from 1.
//!
//! - Pairs of the same round ([`paired`]): one sample, the logarithms of the ratios.
//! - Two runs ([`unpaired`]): Welch's form, which does not ask both runs to be equally noisy.
//!
//! Why so: Georges, Buytaert and Eeckhout, "Statistically Rigorous Java Performance Evaluation" (OOPSLA 2007), section
//! 3, ask for such intervals with Student's t below 30 measurements; Fleming and Wallace, "How not to lie with
//! statistics" (CACM 29(3), 1986), for the geometric mean, which is the mean of logarithms, where ratios are averaged. A
//! sign or rank test needs no assumption of a form, but cannot reach 5 % with fewer than six pairs (or four against
//! four), so it would never claim anything from the usual three rounds. One wild round widens Student's interval, so it
//! hides a difference rather than invents one.
//!
//! What it is not: a promise. Of twenty equal figures one may be called different; and rounds of one run share the mood
//! of the machine, so [`unpaired`] of absolute values claims too much: `compare` prefers ratios for that reason.
//!
//! Invariant: fewer than two values on a side never claim a difference.

use std::fmt;

use crate::plan::Figure;

/// A difference below this share is not claimed however often it repeats: the layout of the binary, which no change of
/// the source controls, moves figures by about so much.
pub const FLOOR: f64 = 0.02;

/// Which side of the noise a figure fell on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better, beyond the noise.
    Better,
    /// Worse, beyond the noise.
    Worse,
    /// No difference that the rounds can bear out.
    Same,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
        })
    }
}

/// A factor between two figures, and how far the data can bear it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Geometric mean of the ratios: 1.1 is ten percent more.
    pub factor: f64,
    /// Lower end of its 95 % interval; 0 when there are too few rounds.
    pub low: f64,
    /// Upper end; infinite when there are too few rounds.
    pub high: f64,
}

impl Change {
    /// What it means for this figure: more throughput is better, less of all others is.
    #[must_use]
    pub fn verdict(&self, figure: Figure) -> Verdict {
        let rose = self.low > 1.0 && self.factor >= 1.0 + FLOOR;
        let fell = self.high < 1.0 && self.factor <= 1.0 - FLOOR;
        match (rose, fell, figure == Figure::Throughput) {
            (false, false, _) => Verdict::Same,
            (true, _, true) | (_, true, false) => Verdict::Better,
            _ => Verdict::Worse,
        }
    }

    fn from_logs(mean: f64, standard_error: f64, freedom: f64) -> Self {
        let reach = t_975(freedom) * standard_error;
        Self { factor: mean.exp(), low: (mean - reach).exp(), high: (mean + reach).exp() }
    }

    fn unknown(mean: f64) -> Self {
        Self { factor: mean.exp(), low: 0.0, high: f64::INFINITY }
    }
}

/// The change that ratios of the same rounds show. `None` without a ratio above 0.
#[must_use]
pub fn paired(ratios: &[f64]) -> Option<Change> {
    let logs = Logs::of(ratios)?;
    let Some(variance) = logs.variance else { return Some(Change::unknown(logs.mean)) };
    Some(Change::from_logs(logs.mean, (variance / logs.count).sqrt(), logs.count - 1.0))
}

/// The change from the values `before` to the values `after`, which have no partners. `None` when a side is empty.
#[must_use]
pub fn unpaired(before: &[f64], after: &[f64]) -> Option<Change> {
    let (a, b) = (Logs::of(before)?, Logs::of(after)?);
    let mean = b.mean - a.mean;
    let (Some(variance_a), Some(variance_b)) = (a.variance, b.variance) else {
        return Some(Change::unknown(mean));
    };
    let (part_a, part_b) = (variance_a / a.count, variance_b / b.count);
    let both = part_a + part_b;
    // Degrees of freedom after Welch and Satterthwaite. Values that never vary leave 0 / 0: any number serves, as the
    // interval is a point then.
    let freedom = if both == 0.0 {
        1.0
    } else {
        both * both / (part_a * part_a / (a.count - 1.0) + part_b * part_b / (b.count - 1.0))
    };
    Some(Change::from_logs(mean, both.sqrt(), freedom))
}

struct Logs {
    mean: f64,
    /// Of the sample; `None` of a single value.
    variance: Option<f64>,
    count: f64,
}

impl Logs {
    /// Values of 0 or below have no logarithm; no figure of a recorded visit is one.
    fn of(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> =
            values.iter().filter(|&&v| v > 0.0 && v.is_finite()).map(|v| v.ln()).collect();
        if logs.is_empty() {
            return None;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Some(Self { mean, variance: (logs.len() > 1).then(|| squares / (count - 1.0)), count })
    }
}

/// Student's t that 97.5 % lie below. A broken number of degrees of freedom is rounded down, which widens the interval.
fn t_975(freedom: f64) -> f64 {
    let index = (freedom.floor().max(1.0) as usize).min(T_975.len());
    T_975[index - 1]
}

/// For 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2). Beyond, the last
/// one serves: it is 4 % too wide at most.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
