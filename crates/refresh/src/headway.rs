//! Progress of a rewrite beside other load: ends a rewrite that would take hours.

use std::time::{Duration, Instant};

/// Time over which the rate is measured.
const SPELL: Duration = Duration::from_secs(15);

/// Number of times as long as alone that a rewrite may take.
const PATIENCE: u32 = 20;

/// Time that a rewrite may take in any case.
const PATIENCE_MIN: Duration = Duration::from_secs(120);

/// Counts bytes done, and estimates from their rate how long the rest would take.
#[derive(Debug)]
pub struct Headway {
    /// Bytes left to rewrite.
    left: u64,
    /// Longest time that the rest may take.
    patience: Duration,
    /// Beginning of the current measurement.
    since: Instant,
    /// Bytes done since then.
    done: u64,
    /// True if the rest would take too long.
    is_lost: bool,
}

impl Headway {
    /// Expects `bytes` in all, which would take `alone` without other load.
    pub fn new(bytes: u64, alone: Duration) -> Headway {
        let patience = alone.saturating_mul(PATIENCE).max(PATIENCE_MIN);
        Headway { left: bytes, patience, since: Instant::now(), done: 0, is_lost: false }
    }

    /// Counts bytes that are done, or left out for good.
    pub fn advance(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.done += bytes;
    }

    /// Restarts the measurement, after a pause that other load is not to blame for.
    pub fn rest(&mut self) {
        (self.since, self.done) = (Instant::now(), 0);
    }

    /// Returns true if the rest would take too long at the rate of the last 15 seconds or more.
    pub fn is_lost(&mut self) -> bool {
        self.is_lost_at(Instant::now())
    }

    fn is_lost_at(&mut self, now: Instant) -> bool {
        let spell = now.saturating_duration_since(self.since);
        if spell < SPELL || self.is_lost {
            return self.is_lost;
        }
        // Bytes that could be done in the time that is allowed.
        let reach = self.done as f64 * (self.patience.as_secs_f64() / spell.as_secs_f64());
        self.is_lost = reach < self.left as f64;
        (self.since, self.done) = (now, 0);
        self.is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_gets_on_is_not_lost_and_what_stands_still_is_after_a_spell() {
        let mut headway = Headway::new(1200, SECOND);
        let start = headway.since;
        assert!(!headway.is_lost_at(start + SECOND * 14), "too early to tell");
        headway.advance(150);
        // 1050 bytes are left, at 10 a second.
        assert!(!headway.is_lost_at(start + SECOND * 15));
        headway.advance(15);
        // 1035 left, at one a second: 120 could be done.
        assert!(headway.is_lost_at(start + SECOND * 30));
        headway.advance(1000);
        assert!(headway.is_lost_at(start + SECOND * 31), "it stays so");
    }

    #[test]
    fn what_takes_long_on_its_own_may_take_long() {
        let day = SECOND * 86_400;
        let mut headway = Headway::new(1 << 40, day);
        let start = headway.since;
        headway.advance(15 << 20);
        assert!(!headway.is_lost_at(start + SECOND * 15), "it takes 12 days, and may take 20");
    }

    #[test]
    fn time_that_others_are_not_to_blame_for_does_not_count() {
        let mut headway = Headway::new(1 << 30, SECOND);
        headway.since = headway.since.checked_sub(SECOND * 100).unwrap_or(headway.since);
        headway.rest();
        assert!(!headway.is_lost());
    }
}
