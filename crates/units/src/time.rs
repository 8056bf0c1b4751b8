//! Spans and instants of time, in whole nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A span of simulated or measured time, in whole nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanoseconds(u64);

impl Nanoseconds {
    /// Zero nanoseconds.
    pub const ZERO: Nanoseconds = Nanoseconds(0);

    /// Returns a span of `ns` nanoseconds.
    #[inline]
    pub const fn new(ns: u64) -> Self {
        Nanoseconds(ns)
    }

    /// Returns a span of `us` microseconds.
    #[inline]
    pub const fn from_micros(us: u64) -> Self {
        Nanoseconds(us * 1_000)
    }

    /// Returns a span of `ms` milliseconds.
    #[inline]
    pub const fn from_millis(ms: u64) -> Self {
        Nanoseconds(ms * 1_000_000)
    }

    /// Returns a span of `s` seconds.
    #[inline]
    pub const fn from_secs(s: u64) -> Self {
        Nanoseconds(s * 1_000_000_000)
    }

    /// Returns a span of `s` seconds, rounded to the nearest nanosecond; negative and NaN give zero.
    #[inline]
    pub fn from_secs_f64(s: f64) -> Self {
        Nanoseconds((s * 1e9).round() as u64)
    }

    /// Returns the number of nanoseconds.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the span in microseconds.
    #[inline]
    pub fn micros(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the span in seconds.
    #[inline]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns `self - other`, or zero if `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0.saturating_sub(other.0))
    }
}

impl From<std::time::Duration> for Nanoseconds {
    /// Converts a duration; one longer than 584 years becomes the longest span.
    #[inline]
    fn from(duration: std::time::Duration) -> Self {
        Nanoseconds(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanoseconds> for std::time::Duration {
    #[inline]
    fn from(span: Nanoseconds) -> Self {
        std::time::Duration::from_nanos(span.0)
    }
}

impl Add for Nanoseconds {
    type Output = Nanoseconds;
    #[inline]
    fn add(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0 + other.0)
    }
}

impl AddAssign for Nanoseconds {
    #[inline]
    fn add_assign(&mut self, other: Nanoseconds) {
        self.0 += other.0;
    }
}

impl Sub for Nanoseconds {
    type Output = Nanoseconds;
    #[inline]
    fn sub(self, other: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.0 - other.0)
    }
}

impl SubAssign for Nanoseconds {
    #[inline]
    fn sub_assign(&mut self, other: Nanoseconds) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Nanoseconds {
    type Output = Nanoseconds;
    #[inline]
    fn mul(self, factor: u64) -> Nanoseconds {
        Nanoseconds(self.0 * factor)
    }
}

impl Div<u64> for Nanoseconds {
    type Output = Nanoseconds;
    #[inline]
    fn div(self, divisor: u64) -> Nanoseconds {
        Nanoseconds(self.0 / divisor)
    }
}

impl Sum for Nanoseconds {
    #[inline]
    fn sum<I: Iterator<Item = Nanoseconds>>(spans: I) -> Nanoseconds {
        spans.fold(Nanoseconds::ZERO, Add::add)
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} ms", self.0 as f64 / 1e6),
            _ => write!(f, "{:.2} s", self.0 as f64 / 1e9),
        }
    }
}

/// An instant of a drive's own time: nanoseconds since the drive was made or opened.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The instant at which a drive's time begins.
    pub const START: Instant = Instant(0);

    /// Returns the instant `ns` nanoseconds after the start.
    #[inline]
    pub const fn from_nanos(ns: u64) -> Self {
        Instant(ns)
    }

    /// Returns the nanoseconds since the start.
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the later of two instants, without a branch: on the hot path either may be later, which cannot be
    /// predicted.
    #[inline(always)]
    pub fn later(self, other: Instant) -> Instant {
        std::hint::select_unpredictable(self > other, self, other)
    }

    /// Returns the span from `earlier` to this instant.
    ///
    /// # Panics
    /// Panics if `earlier` is later than this instant: a time that runs backwards is an error.
    #[inline(always)]
    pub fn since(self, earlier: Instant) -> Nanoseconds {
        let since = self.0.checked_sub(earlier.0);
        Nanoseconds(since.expect("an instant lies before the one it is measured from"))
    }
}

impl Add<Nanoseconds> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, span: Nanoseconds) -> Instant {
        Instant(self.0 + span.0)
    }
}

impl AddAssign<Nanoseconds> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Nanoseconds) {
        self.0 += span.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_with_their_unit() {
        assert_eq!(Nanoseconds::new(7).to_string(), "7 ns");
        assert_eq!(Nanoseconds::from_micros(60).to_string(), "60.0 us");
        assert_eq!(Nanoseconds::from_millis(3).to_string(), "3.00 ms");
        assert_eq!(Nanoseconds::from_secs(90).to_string(), "90.00 s");
    }

    #[test]
    #[should_panic(expected = "before the one it is measured from")]
    fn time_cannot_run_backwards() {
        Instant::START.since(Instant::from_nanos(1));
    }
}
