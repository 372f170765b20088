//! When requests are due in an open loop, and which of them still wait: numbers only, no sockets and no clock.
//!
//! Requests are due at fixed intervals, spread over the connections in turn. Fixed and not Poisson: bursts of the
//! load's own making would stand in every latency, and two runs would differ by them.
//!
//! ```text
//!   due:        0     1     2     3     4     5     6  …      request k is due at first + k × interval
//!   connection  a     b     c     a     b     c     a         and belongs to connection k mod 3
//! ```
//!
//! A request that is due while its connection has its pipeline in flight waits. Nothing is stored for it: how many of
//! a connection's requests became due and how many were sent are two counters, and each one's time follows from its
//! number. So the backlog has no bound to guard, however long the target stalls, and none of the time that a request
//! waited is lost (the error known as coordinated omission).
//!
//! Invariant: a [`Lane`] hands out each of its requests once, in order, and never one that is not due.

/// The times at which one thread's requests are due, in nanoseconds of the load's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    first_ns: u64,
    interval_ns: f64,
}

impl Schedule {
    /// For thread `thread` of `threads`, which has its share of `rate` per second over all. `share` is the thread's
    /// part of the connections (0 to 1], so that every connection has the same rate.
    pub(super) fn new(start_ns: u64, rate: f64, share: f64, thread: u32, threads: u32) -> Self {
        let interval_ns = 1e9 / (rate * share);
        // Threads begin shifted, else all of them would send at the same moment.
        let shift = interval_ns * f64::from(thread) / f64::from(threads);
        Self { first_ns: start_ns + shift as u64, interval_ns }
    }

    /// When request `number` is due.
    pub(super) fn due_ns(&self, number: u64) -> u64 {
        self.first_ns + (number as f64 * self.interval_ns) as u64
    }

    /// How many requests are due at `now_ns`, from the beginning.
    pub(super) fn due(&self, now_ns: u64) -> u64 {
        let Some(since) = now_ns.checked_sub(self.first_ns) else { return 0 };
        let mut due = (since as f64 / self.interval_ns) as u64;
        // The division rounds; the answer must agree with `due_ns`.
        while self.due_ns(due) <= now_ns {
            due += 1;
        }
        while due > 0 && self.due_ns(due - 1) > now_ns {
            due -= 1;
        }
        due
    }
}

/// One connection's requests: which became due, and which were taken to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lane {
    due: u64,
    taken: u64,
}

impl Lane {
    /// One more became due.
    pub(super) fn release(&mut self) {
        self.due += 1;
    }

    /// How many wait.
    pub(super) fn backlog(&self) -> u64 {
        self.due - self.taken
    }

    /// Takes the oldest that waits and says when it was due. `lane` of `lanes` is this lane's place in the schedule.
    pub(super) fn take(&mut self, schedule: &Schedule, lane: u64, lanes: u64) -> Option<u64> {
        if self.taken == self.due {
            return None;
        }
        let due_ns = schedule.due_ns(self.taken * lanes + lane);
        self.taken += 1;
        Some(due_ns)
    }
}

/// How many bytes a slow reader may read: a bucket that fills at a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    bytes_per_s: u64,
    /// In billionths of a byte, so that slow rates do not round to nothing.
    level_nb: u128,
    at_ns: u64,
}

/// The bucket holds what flows in within this time, so that a reader that paused does not gulp.
const BUCKET_NS: u64 = 20_000_000;

impl Bucket {
    /// An empty one.
    pub(super) fn new(bytes_per_s: u64, now_ns: u64) -> Self {
        Self { bytes_per_s, level_nb: 0, at_ns: now_ns }
    }

    /// How many bytes may be read now.
    pub(super) fn allowance(&mut self, now_ns: u64) -> usize {
        let since = now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
        let rate = u128::from(self.bytes_per_s);
        // At least one byte, or a rate below 50 bytes per second would never read any.
        let full = (rate * u128::from(BUCKET_NS)).max(1_000_000_000);
        self.level_nb = (self.level_nb + rate * u128::from(since)).min(full);
        usize::try_from(self.level_nb / 1_000_000_000).unwrap_or(usize::MAX)
    }

    /// So many were read.
    pub(super) fn take(&mut self, bytes: usize) {
        self.level_nb = self.level_nb.saturating_sub(bytes as u128 * 1_000_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::super::latency::Recorder;
    use super::*;
    use std::collections::VecDeque;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    #[test]
    fn requests_are_due_at_even_intervals() {
        let schedule = Schedule::new(SECOND, 1000.0, 1.0, 0, 1);
        assert_eq!(schedule.due(SECOND - 1), 0);
        assert_eq!(schedule.due(SECOND), 1, "the first at once");
        assert_eq!(schedule.due(SECOND + MS - 1), 1);
        assert_eq!(schedule.due(SECOND + MS), 2);
        assert_eq!(schedule.due(61 * SECOND), 60_001);
        assert_eq!(schedule.due_ns(60_000), 61 * SECOND);
    }

    #[test]
    fn threads_have_their_share_and_are_shifted() {
        let second = Schedule::new(0, 1000.0, 0.5, 1, 2);
        assert_eq!((second.due_ns(0), second.due_ns(1)), (MS, 3 * MS));
        let odd = Schedule::new(5, 3.0, 1.0, 0, 1);
        for number in 0..10_000 {
            let at = odd.due_ns(number);
            assert_eq!((odd.due(at), odd.due(at - 1)), (number + 1, number), "request {number}");
        }
    }

    #[test]
    fn a_lane_hands_out_what_is_due_once_and_in_order() {
        let schedule = Schedule::new(0, 1000.0, 1.0, 0, 1);
        let mut lane = Lane::default();
        assert_eq!(lane.take(&schedule, 2, 3), None);
        lane.release();
        lane.release();
        assert_eq!(lane.backlog(), 2);
        assert_eq!(lane.take(&schedule, 2, 3), Some(2 * MS));
        assert_eq!(lane.take(&schedule, 2, 3), Some(5 * MS));
        assert_eq!((lane.take(&schedule, 2, 3), lane.backlog()), (None, 0));
    }

    /// A server that answers each request 100 µs after it came, but nothing between second 4 and 5. Returns the 99th
    /// percentile in microseconds: counted from when requests were due, and from when they were sent.
    fn with_a_stall(pipeline: usize) -> (f64, f64) {
        const SERVICE: u64 = MS / 10;
        let schedule = Schedule::new(0, 1000.0, 1.0, 0, 1);
        let (mut lane, mut released) = (Lane::default(), 0);
        let mut in_flight: VecDeque<(u64, u64, u64)> = VecDeque::new();
        let (mut from_due, mut from_sent) = (Recorder::new(), Recorder::new());
        let mut now = 0;
        while now < 10 * SECOND {
            while released < schedule.due(now) {
                lane.release();
                released += 1;
            }
            while let Some((due, sent, _)) =
                in_flight.pop_front_if(|(_, _, answered)| *answered <= now)
            {
                from_due.record(now - due);
                from_sent.record(now - sent);
            }
            while in_flight.len() < pipeline
                && let Some(due) = lane.take(&schedule, 0, 1)
            {
                let stalled = (4 * SECOND..5 * SECOND).contains(&(now + SERVICE));
                let answered = if stalled { 5 * SECOND + SERVICE } else { now + SERVICE };
                in_flight.push_back((due, now, answered));
            }
            now += SERVICE;
        }
        let p99 = |recorder: &Recorder| recorder.latency().at(99.0).expect("p99");
        (p99(&from_due), p99(&from_sent))
    }

    #[test]
    fn a_stall_of_a_second_counts_for_all_requests_that_it_delayed() {
        // One request in ten meets the stall, and they waited 0 to 1 s evenly; with the backlog's later decay (at
        // 10 000 per second it is gone after 111 ms) the worst hundredth waited about 0.9 s and more.
        let (from_due, from_sent) = with_a_stall(1);
        assert!((890_000.0..930_000.0).contains(&from_due), "{from_due} µs");
        // Counted from the send only the one that was in flight saw it: the mistake that this avoids.
        assert!(from_sent < 1_000.0, "{from_sent} µs");
        // With room for all in flight nothing waits in the backlog, and both ways agree.
        let (deep, deep_sent) = with_a_stall(100_000);
        assert!((880_000.0..920_000.0).contains(&deep), "{deep} µs");
        assert!((deep - deep_sent).abs() < 1_000.0);
    }

    #[test]
    fn a_bucket_gives_its_rate_and_does_not_save_up() {
        let mut bucket = Bucket::new(1_000_000, 0);
        let mut read = 0;
        for ms in 1..=1000 {
            let allowance = bucket.allowance(ms * MS);
            bucket.take(allowance);
            read += allowance;
        }
        assert_eq!(read, 1_000_000);
        assert_eq!(bucket.allowance(100 * SECOND), 20_000, "a pause is worth 20 ms of reading");
        let mut slow = Bucket::new(3, 0);
        assert_eq!(slow.allowance(SECOND / 4), 0);
        assert_eq!(slow.allowance(SECOND / 2), 1, "a slow one reads at all");
    }
}
