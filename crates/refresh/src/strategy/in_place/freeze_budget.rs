//! Amount that is rewritten in one freeze, by the times of recent ones.

use std::collections::VecDeque;
use std::time::Duration;

use crate::freeze::FreezeTimes;

/// Largest chunk in bytes that is read and written back at once.
pub(super) const CHUNK_MAX: u64 = 1 << 20;

/// Smallest chunk in bytes.
const CHUNK_MIN: u64 = 64 << 10;

/// Number of recent chunks and thaws by whose times the next one is judged.
const HISTORY: usize = 16;

/// Factor by which the next chunk may exceed the longest of them.
const SAFETY_FACTOR: f64 = 1.5;

/// Share of the longest allowed freeze that is aimed at: the rest is for delays that cannot be predicted.
const TARGET_SHARE: f64 = 0.5;

/// Least share that is aimed at, after freezes that were too long.
const TARGET_SHARE_MIN: f64 = 0.125;

/// Growth of that share after a freeze that was not too long.
const TARGET_SHARE_STEP: f64 = 0.03125;

/// Decides how much fits into a freeze.
#[derive(Debug)]
pub(super) struct FreezeBudget {
    /// Longest allowed freeze.
    max: Duration,
    /// Share of that time that is aimed at.
    target_share: f64,
    /// Bytes of the next chunk.
    chunk: u64,
    /// Seconds and bytes of recent chunks.
    chunks: VecDeque<(f64, u64)>,
    /// Seconds of recent thaws.
    thaws: VecDeque<f64>,
    /// Number of freezes that were too long.
    pub(super) too_long: u64,
}

fn push_recent<T>(recent: &mut VecDeque<T>, next: T) {
    if recent.len() == HISTORY {
        recent.pop_front();
    }
    recent.push_back(next);
}

impl FreezeBudget {
    /// Allows freezes of at most `max`.
    pub(super) fn new(max: Duration) -> FreezeBudget {
        let (chunks, thaws) = (VecDeque::new(), VecDeque::new());
        FreezeBudget {
            max,
            target_share: TARGET_SHARE,
            chunk: CHUNK_MIN,
            chunks,
            thaws,
            too_long: 0,
        }
    }

    /// Returns the longest allowed freeze.
    pub(super) fn max(&self) -> Duration {
        self.max
    }

    /// Returns the bytes of the next chunk.
    pub(super) fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Returns the expected time of a chunk of this many bytes and of the thaw after it. The part of the
    /// time that does not depend on the size is not known, so a small chunk may take as long as a larger
    /// one did.
    fn expected(&self, bytes: u64) -> Duration {
        let times =
            self.chunks.iter().map(|&(took, of)| took * (bytes as f64 / of as f64).max(1.0));
        let longest = times.fold(0.0, f64::max);
        let thaw = self.thaws.iter().copied().fold(0.0, f64::max);
        Duration::from_secs_f64((longest + thaw) * SAFETY_FACTOR)
    }

    /// Returns true if a chunk of this many bytes may be begun when the freeze has lasted for `elapsed`.
    /// The first chunk of a freeze may take the whole allowed time, so that the rewrite comes to an end.
    pub(super) fn allows(&self, elapsed: Duration, bytes: u64, is_first: bool) -> bool {
        let limit = if is_first { self.max } else { self.max.mul_f64(self.target_share) };
        elapsed.saturating_add(self.expected(bytes)) <= limit
    }

    /// Records the time of a chunk.
    pub(super) fn record_chunk(&mut self, took: Duration, bytes: u64) {
        push_recent(&mut self.chunks, (took.as_secs_f64(), bytes));
    }

    /// Doubles the chunk if the time allows, when the freeze has lasted for `elapsed`: data that is
    /// written in small pieces is laid out less well in the flash.
    pub(super) fn grow(&mut self, elapsed: Duration) {
        let twice = (self.chunk * 2).min(CHUNK_MAX);
        if elapsed.saturating_add(self.expected(twice) * 4) <= self.max.mul_f64(self.target_share) {
            self.chunk = twice;
        }
    }

    /// Records a freeze. Returns true if it was too long.
    pub(super) fn record_freeze(&mut self, times: FreezeTimes) -> bool {
        push_recent(&mut self.thaws, times.thawing.as_secs_f64());
        let is_too_long = times.total > self.max;
        if is_too_long {
            self.too_long += 1;
            self.target_share = (self.target_share / 2.0).max(TARGET_SHARE_MIN);
        } else {
            self.target_share = (self.target_share + TARGET_SHARE_STEP).min(TARGET_SHARE);
        }
        if times.total > self.max.mul_f64(TARGET_SHARE) {
            self.chunk = (self.chunk / 2).max(CHUNK_MIN);
        }
        if self.chunks.len() == HISTORY {
            // One slow chunk must not block everything for ever.
            self.chunks.pop_front();
        }
        is_too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(50);

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn times(total: u64) -> FreezeTimes {
        FreezeTimes { freezing: millis(1), thawing: millis(1), total: millis(total) }
    }

    #[test]
    fn a_chunk_is_not_begun_when_the_freeze_could_get_too_long() {
        let mut budget = FreezeBudget::new(MAX);
        assert!(budget.allows(millis(24), CHUNK_MIN, false));
        budget.record_chunk(millis(10), CHUNK_MAX);
        assert_eq!(budget.expected(CHUNK_MIN), millis(15));
        assert_eq!(budget.expected(2 * CHUNK_MAX), millis(30));
        assert!(budget.allows(millis(10), CHUNK_MAX, false));
        assert!(!budget.allows(millis(11), CHUNK_MAX, false), "half of the time is kept free");
        assert!(budget.allows(millis(35), CHUNK_MAX, true), "but something is done");
        assert!(!budget.allows(millis(36), CHUNK_MAX, true));
        // The time of thaws counts as well.
        budget.record_freeze(FreezeTimes { thawing: millis(4), ..times(20) });
        assert_eq!(budget.expected(CHUNK_MAX), millis(21));
    }

    #[test]
    fn chunks_grow_while_there_is_time_and_shrink_at_once() {
        let mut budget = FreezeBudget::new(MAX);
        assert_eq!(budget.chunk(), CHUNK_MIN);
        for _ in 0..10 {
            budget.record_chunk(millis(1), CHUNK_MAX);
            budget.grow(millis(1));
        }
        assert_eq!(budget.chunk(), CHUNK_MAX);
        assert!(!budget.record_freeze(times(30)), "not too long, but over half");
        assert_eq!(budget.chunk(), CHUNK_MAX / 2);
        assert!(budget.record_freeze(times(51)));
        assert_eq!((budget.chunk(), budget.too_long), (CHUNK_MAX / 4, 1));
        assert!(!budget.allows(millis(12), 1, false), "a quarter is aimed at now");
    }
}
