//! Time as the engine sees it: a number that the caller hands in.
//!
//! Nothing here reads a clock. One `now` is read per turn of a worker, so everything in a turn happens "at once".

use core::ops::Add;

/// Microseconds since some start that the caller chose; never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// Microseconds from `earlier` to this; 0 if `earlier` lies ahead.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Milliseconds from this to `later`; 0 if `later` lies behind.
    pub const fn until_ms(self, later: Self) -> u64 {
        later.since(self) / 1_000
    }

    /// This time and so many milliseconds more.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Whole seconds since the start.
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Add<u64> for Time {
    type Output = Self;
    fn add(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }
}
