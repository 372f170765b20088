//! How long to leave a node alone after a failed connect.
//!
//! Exponential with jitter: the wait doubles with each failure up to the maximum, and a random half of it is taken off, so that
//! the workers of many proxies do not come back at the same instant. It counts from the beginning of the attempt: one to a server that
//! takes connections and says nothing was a wait itself, and with another one behind it the server would be well for long before it is asked.
//!
//! Invariant: the wait lies between half of the minimum and the maximum, whatever is put in.

use crate::settings::Timeouts;

/// Milliseconds to wait after `failures` failed connects in a row (1 after the first), the last of which took `spent_ms`; `random` is any
/// number.
pub fn wait_ms(timeouts: &Timeouts, failures: u32, spent_ms: u64, random: u64) -> u64 {
    let wait_ms = |failures| jittered_ms(timeouts, failures, random);
    wait_ms(failures).saturating_sub(spent_ms).max(wait_ms(1))
}

fn jittered_ms(timeouts: &Timeouts, failures: u32, random: u64) -> u64 {
    let doublings = failures.saturating_sub(1).min(20);
    let full = timeouts
        .reconnect_min_ms
        .saturating_mul(1 << doublings)
        .clamp(1, timeouts.reconnect_max_ms.max(1));
    let half = full / 2;
    full - random % (half + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_and_stays_in_its_bounds() {
        let timeouts = Timeouts::default();
        assert_eq!(wait_ms(&timeouts, 1, 0, 0), 50);
        assert_eq!(wait_ms(&timeouts, 3, 0, 0), 200);
        for failures in 0..100 {
            for random in [0, 1, 12_345, u64::MAX] {
                for spent in [0, 70, 1_000_000] {
                    let wait = wait_ms(&timeouts, failures, spent, random);
                    assert!((25..=1_000).contains(&wait), "{failures} failures: {wait} ms");
                }
            }
        }
    }

    #[test]
    fn the_time_of_the_attempt_counts() {
        let timeouts = Timeouts::default();
        assert_eq!(wait_ms(&timeouts, 4, 150, 0), 250);
        assert_eq!(wait_ms(&timeouts, 4, 399, 0), 50, "but there is a pause");
    }
}
