//! Rates and quantiles of the time between the last two answers, and how they went.
//!
//! Invariant: counters that began again (a restart, `CONFIG RESETSTAT`) give no rate for one frame, and never a huge one.

use super::source::{Answer, Times};
use std::collections::VecDeque;

/// How many frames the small charts go back.
const HISTORY: usize = 240;

/// The last answers, and what they tell together.
#[derive(Default)]
pub(super) struct Figures {
    before: Option<Answer>,
    pub(super) now: Option<Answer>,
    /// Requests in a second, the oldest first.
    pub(super) requests: VecDeque<u64>,
    /// p99 in microseconds, likewise.
    pub(super) p99_us: VecDeque<u64>,
}

impl Figures {
    /// Takes in what was just told.
    pub(super) fn take(&mut self, answer: Answer) {
        self.before = self.now.replace(answer);
        if self.before.is_some() {
            let requests = self.rate(|answer| answer.stats.total.requests);
            push(&mut self.requests, requests.round() as u64);
            let p99_us = self.quantile_us(0.99);
            push(&mut self.p99_us, p99_us.unwrap_or(0));
        }
    }

    /// How much a counter grew in a second.
    pub(super) fn rate(&self, counter: impl Fn(&Answer) -> u64) -> f64 {
        let Some((before, now)) = self.both() else { return 0.0 };
        let grown = counter(now).saturating_sub(counter(before)) as f64;
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        if seconds > 0.0 { grown / seconds } else { 0.0 }
    }

    /// The same of the row of a list that has this name; rows may come and go.
    pub(super) fn row_rate<T>(
        &self,
        rows: impl Fn(&Answer) -> &[T],
        is_it: impl Fn(&T) -> bool,
        counter: impl Fn(&T) -> u64,
    ) -> f64 {
        self.rate(|answer| rows(answer).iter().find(|row| is_it(row)).map_or(0, &counter))
    }

    /// The first counter's growth for each of the second's.
    pub(super) fn ratio(
        &self,
        counter: impl Fn(&Answer) -> u64,
        of: impl Fn(&Answer) -> u64,
    ) -> Option<f64> {
        let of = self.rate(of);
        (of > 0.0).then(|| self.rate(counter) / of)
    }

    /// Of the requests between the last two answers this share took no longer; in microseconds. `None`: there were none.
    pub(super) fn quantile_us(&self, q: f64) -> Option<u64> {
        let (before, now) = self.both()?;
        quantile(&before.stats.latency, &now.stats.latency, q)
    }

    fn both(&self) -> Option<(&Answer, &Answer)> {
        Some((self.before.as_ref()?, self.now.as_ref()?))
    }
}

fn push(history: &mut VecDeque<u64>, value: u64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value);
}

/// The end of the bucket where the quantile of what came in between lies.
fn quantile(before: &Times, now: &Times, q: f64) -> Option<u64> {
    let was = |end: &Option<u64>| {
        before.buckets.iter().find(|(other, _)| other == end).map_or(0, |(_, count)| *count)
    };
    let came: Vec<(Option<u64>, u64)> =
        now.buckets.iter().map(|(end, count)| (*end, count.saturating_sub(was(end)))).collect();
    let total: u64 = came.iter().map(|(_, count)| count).sum();
    let rank = (q * total as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    let at = came.iter().find(|(_, count)| {
        seen += count;
        seen >= rank
    });
    // A bucket without an end begins with the longest time that is told apart.
    at.filter(|_| total > 0).map(|(end, _)| end.unwrap_or(67_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(buckets: &[(u64, u64)]) -> Times {
        Times { buckets: buckets.iter().map(|(end, count)| (Some(*end), *count)).collect() }
    }

    #[test]
    fn a_quantile_is_of_what_came_in_between() {
        let before = times(&[(10, 1_000)]);
        let now = times(&[(10, 1_000), (50, 98), (900, 2)]);
        assert_eq!(quantile(&before, &now, 0.5), Some(50));
        assert_eq!(quantile(&before, &now, 0.99), Some(900));
        assert_eq!(quantile(&now, &now, 0.5), None);
        assert_eq!(quantile(&times(&[]), &before, 0.999), Some(10));
    }

    #[test]
    fn a_history_has_an_end() {
        let mut history = VecDeque::new();
        (0..1_000).for_each(|value| push(&mut history, value));
        assert_eq!((history.len(), history.front()), (HISTORY, Some(&760)));
    }
}
