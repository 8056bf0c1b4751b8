//! A resource that serves one transfer after the other: a channel, a direction of the host link.
//!
//! Transfers are reserved as soon as they are known, not when they begin, so a later call may ask
//! for an earlier time. A lane therefore remembers the last few gaps it left and fills them.

use super::Span;
use crate::units::{Instant, Nanoseconds};

/// Gaps remembered. Two dies of a channel that finish out of order leave one; more than a few
/// at a time are rare (measured against the event-queue reference).
const GAPS: usize = 4;

/// One lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    free_from: Instant,
    gaps: [Gap; GAPS],
    next_gap: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    start: Instant,
    end: Instant,
}

impl Lane {
    /// The end of all that is booked.
    pub(crate) fn free_from(&self) -> Instant {
        self.free_from
    }

    /// Takes the lane for `duration`, not before `earliest`.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, earliest: Instant, duration: Nanoseconds) -> Span {
        let start = if earliest >= self.free_from {
            if earliest > self.free_from {
                self.gaps[self.next_gap] = Gap { start: self.free_from, end: earliest };
                self.next_gap = (self.next_gap + 1) % GAPS;
            }
            self.free_from = earliest + duration;
            earliest
        } else {
            self.reserve_early(earliest, duration)
        };
        Span { start, end: start + duration }
    }

    fn reserve_early(&mut self, earliest: Instant, duration: Nanoseconds) -> Instant {
        let mut best: Option<(usize, Instant)> = None;
        for (index, gap) in self.gaps.iter().enumerate() {
            let start = gap.start.max(earliest);
            if start + duration <= gap.end && best.is_none_or(|(_, found)| start < found) {
                best = Some((index, start));
            }
        }
        match best {
            Some((index, start)) => {
                let gap = self.gaps[index];
                let before = Gap { start: gap.start, end: start };
                let after = Gap { start: start + duration, end: gap.end };
                // One gap becomes two; the one that is still ahead of the caller is worth more.
                self.gaps[index] = after;
                if before.end.since(before.start) > duration {
                    self.gaps[self.next_gap] = before;
                    self.next_gap = (self.next_gap + 1) % GAPS;
                }
                start
            }
            None => {
                let start = self.free_from;
                self.free_from += duration;
                start
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn transfers_queue_and_a_gap_is_used() {
        let mut lane = Lane::default();
        assert_eq!(lane.reserve(at(100), Nanoseconds::new(10)).start, at(100));
        assert_eq!(lane.reserve(at(100), Nanoseconds::new(10)).start, at(110));
        assert_eq!(lane.reserve(at(50), Nanoseconds::new(10)).start, at(50));
        assert_eq!(lane.reserve(at(55), Nanoseconds::new(10)).start, at(60));
        assert_eq!(lane.reserve(at(95), Nanoseconds::new(10)).start, at(120));
        assert_eq!(lane.free_from(), at(130));
    }

    #[test]
    fn no_two_transfers_overlap() {
        use rand::{RngExt, SeedableRng};
        let mut generator = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let mut lane = Lane::default();
        let mut taken: Vec<Span> = Vec::new();
        for step in 0..2_000u64 {
            let earliest = at(step * 20 + generator.random_range(0..200));
            let duration = Nanoseconds::new(generator.random_range(1..30));
            let span = lane.reserve(earliest, duration);
            assert!(span.start >= earliest);
            for other in &taken {
                assert!(span.end <= other.start || span.start >= other.end);
            }
            taken.push(span);
        }
    }
}
