//! Progress of a rewrite beside other load: ends a rewrite that would take hours.

use std::time::{Duration, Instant};

/// Time over which the rate is measured.
const MEASURE_TIME: Duration = Duration::from_secs(15);

/// Number of times as long as alone that a rewrite may take.
const SLOWDOWN_MAX: u32 = 20;

/// Time that a rewrite may take in any case.
const TIME_LIMIT_MIN: Duration = Duration::from_secs(120);

/// Counts bytes done, and estimates from their rate how long the rest would take.
#[derive(Debug)]
pub struct OverrunGuard {
    /// Bytes left to rewrite.
    left: u64,
    /// Longest time that the rest may take.
    time_limit: Duration,
    /// Beginning of the current measurement.
    since: Instant,
    /// Bytes done since then.
    done: u64,
    /// True if the rest would take too long.
    is_overrun: bool,
}

impl OverrunGuard {
    /// Expects `bytes` in all, which would take `alone` without other load.
    pub fn new(bytes: u64, alone: Duration) -> OverrunGuard {
        let time_limit = alone.saturating_mul(SLOWDOWN_MAX).max(TIME_LIMIT_MIN);
        OverrunGuard { left: bytes, time_limit, since: Instant::now(), done: 0, is_overrun: false }
    }

    /// Counts bytes that are done, or left out for good.
    pub fn advance(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.done += bytes;
    }

    /// Restarts the measurement, after a pause that other load is not to blame for.
    pub fn restart(&mut self) {
        (self.since, self.done) = (Instant::now(), 0);
    }

    /// Returns true if the rest would take too long at the rate of the last 15 seconds or more.
    pub fn is_overrun(&mut self) -> bool {
        self.is_overrun_at(Instant::now())
    }

    fn is_overrun_at(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < MEASURE_TIME || self.is_overrun {
            return self.is_overrun;
        }
        // Bytes that could be done in the time that is allowed.
        let reachable = self.done as f64 * (self.time_limit.as_secs_f64() / elapsed.as_secs_f64());
        self.is_overrun = reachable < self.left as f64;
        (self.since, self.done) = (now, 0);
        self.is_overrun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_gets_on_is_not_overrun_and_what_stands_still_is_after_a_while() {
        let mut overrun_guard = OverrunGuard::new(1200, SECOND);
        let start = overrun_guard.since;
        assert!(!overrun_guard.is_overrun_at(start + SECOND * 14), "too early to tell");
        overrun_guard.advance(150);
        // 1050 bytes are left, at 10 a second.
        assert!(!overrun_guard.is_overrun_at(start + SECOND * 15));
        overrun_guard.advance(15);
        // 1035 left, at one a second: 120 could be done.
        assert!(overrun_guard.is_overrun_at(start + SECOND * 30));
        overrun_guard.advance(1000);
        assert!(overrun_guard.is_overrun_at(start + SECOND * 31), "it stays so");
    }

    #[test]
    fn what_takes_long_on_its_own_may_take_long() {
        let day = SECOND * 86_400;
        let mut overrun_guard = OverrunGuard::new(1 << 40, day);
        let start = overrun_guard.since;
        overrun_guard.advance(15 << 20);
        assert!(
            !overrun_guard.is_overrun_at(start + SECOND * 15),
            "it takes 12 days, and may take 20"
        );
    }

    #[test]
    fn time_that_others_are_not_to_blame_for_does_not_count() {
        let mut overrun_guard = OverrunGuard::new(1 << 30, SECOND);
        overrun_guard.since =
            overrun_guard.since.checked_sub(SECOND * 100).unwrap_or(overrun_guard.since);
        overrun_guard.restart();
        assert!(!overrun_guard.is_overrun());
    }
}
