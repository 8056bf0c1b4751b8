//! Limits the rate of reads and writes (`--rate`), so that other load does not suffer.

use std::time::{Duration, Instant};

use ssdlab_units::ByteLength;

/// Keeps the sum of reads and writes below a rate.
#[derive(Debug)]
pub struct RateLimiter {
    /// Bytes per second; `None` for no limit.
    rate: Option<u64>,
    /// Moment at which the bytes so far would be done at that rate.
    due: Instant,
}

/// Longest pause that later requests may make up for, so that a pause is not followed by a burst.
const CATCH_UP: Duration = Duration::from_millis(100);

impl RateLimiter {
    /// Limits to `rate` per second; `None` or 0 for no limit.
    pub fn new(rate: Option<ByteLength>) -> RateLimiter {
        let rate = rate.map(ByteLength::bytes).filter(|&rate| rate > 0);
        RateLimiter { rate, due: Instant::now() }
    }

    /// Returns how long to wait after another `bytes`.
    fn wait_after(&mut self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.due.saturating_duration_since(now)
    }

    /// Waits as long as needed after `bytes` were read or written.
    pub fn throttle(&mut self, bytes: u64) {
        let wait = self.wait_after(bytes, Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_pauses_are_not_caught_up() {
        let mut limiter = RateLimiter::new(Some(ByteLength::new(1000)));
        let start = limiter.due;
        assert_eq!(limiter.wait_after(500, start), Duration::from_millis(500));
        assert_eq!(limiter.wait_after(500, start), Duration::from_secs(1));
        let later = start + Duration::from_secs(100);
        assert_eq!(limiter.wait_after(1000, later), Duration::from_millis(900));
        assert_eq!(RateLimiter::new(None).wait_after(u64::MAX, start), Duration::ZERO);
    }
}
