//! A resource that serves one transfer after the other: a channel, a direction of the host link.
//!
//! Transfers are reserved as soon as they are known, not when they begin, and dies finish out of
//! order, so a later call often asks for an earlier time. A lane therefore keeps its busy times
//! from now on as a sorted list, and a transfer takes the first stretch that is long enough. The
//! list is short: neighbours are merged, and what lies before the present is dropped.

use super::Span;
use crate::units::{Instant, Nanoseconds};

/// Busy stretches that are told apart. There are about as many as transfers in flight; when
/// there are more, the oldest two are taken for one.
const STRETCHES: usize = 64;

/// Room in which the list moves along before it is brought back to the front.
const ROOM: usize = 4 * STRETCHES;

/// One lane.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The busy stretches are `busy[first..behind]`, sorted, apart from each other.
    busy: Box<[Span; ROOM]>,
    first: usize,
    behind: usize,
    free_from: Instant,
}

impl Default for Lane {
    fn default() -> Self {
        let none = Span { start: Instant::START, end: Instant::START };
        Lane { busy: Box::new([none; ROOM]), first: 0, behind: 0, free_from: Instant::START }
    }
}

impl Lane {
    /// The end of all that is booked.
    pub(crate) fn free_from(&self) -> Instant {
        self.free_from
    }

    /// Takes the lane for `duration`, not before `earliest`. No later call will ask for a time
    /// before `now`.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        now: Instant,
        earliest: Instant,
        duration: Nanoseconds,
    ) -> Span {
        if earliest > self.free_from || self.first == self.behind {
            let start = earliest.max(self.free_from);
            self.free_from = start + duration;
            let span = Span { start, end: self.free_from };
            if self.behind == ROOM {
                self.make_room();
            }
            self.busy[self.behind] = span;
            self.behind += 1;
            self.forget_before(now);
            span
        } else if earliest == self.free_from {
            self.extend_last(duration)
        } else {
            self.reserve_early(earliest, duration)
        }
    }

    #[inline(always)]
    fn extend_last(&mut self, duration: Nanoseconds) -> Span {
        let start = self.free_from;
        self.free_from += duration;
        self.busy[self.behind - 1].end = self.free_from;
        Span { start, end: self.free_from }
    }

    #[inline(always)]
    fn forget_before(&mut self, now: Instant) {
        while self.busy[self.first].end <= now && self.first + 1 < self.behind {
            self.first += 1;
        }
    }

    /// Brings the list back to the front of its room.
    #[inline(never)]
    fn make_room(&mut self) {
        if self.behind - self.first > STRETCHES {
            self.first = self.behind - STRETCHES;
        }
        self.busy.copy_within(self.first..self.behind, 0);
        self.behind -= self.first;
        self.first = 0;
    }

    /// A transfer that may go before others that are booked.
    #[inline(always)]
    fn reserve_early(&mut self, earliest: Instant, duration: Nanoseconds) -> Span {
        // The last stretch that begins no later than `earliest`, searched from the end.
        let mut place = self.behind;
        while place > self.first && self.busy[place - 1].start > earliest {
            place -= 1;
        }
        let mut start = earliest;
        if place > self.first {
            start = start.max(self.busy[place - 1].end);
        }
        while place < self.behind && start + duration > self.busy[place].start {
            start = self.busy[place].end;
            place += 1;
        }
        let span = Span { start, end: start + duration };
        self.insert(place, span);
        span
    }

    /// Inserts a stretch before `busy[place]`, merging it with neighbours that it touches.
    #[inline(always)]
    fn insert(&mut self, place: usize, span: Span) {
        let joins_previous = place > self.first && self.busy[place - 1].end == span.start;
        let joins_next = place < self.behind && self.busy[place].start == span.end;
        match (joins_previous, joins_next) {
            (true, true) => {
                self.busy[place - 1].end = self.busy[place].end;
                self.busy.copy_within(place + 1..self.behind, place);
                self.behind -= 1;
            }
            (true, false) => self.busy[place - 1].end = span.end,
            (false, true) => self.busy[place].start = span.start,
            (false, false) => {
                let mut place = place;
                if self.behind == ROOM {
                    let before = self.behind - place;
                    self.make_room();
                    place = self.behind - before.min(self.behind);
                }
                self.busy.copy_within(place..self.behind, place + 1);
                self.busy[place] = span;
                self.behind += 1;
            }
        }
        self.free_from = self.busy[self.behind - 1].end;
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
        let mut reserve = |earliest, duration| {
            lane.reserve(at(0), at(earliest), Nanoseconds::new(duration)).start
        };
        assert_eq!(reserve(100, 10), at(100));
        assert_eq!(reserve(100, 10), at(110));
        assert_eq!(reserve(50, 10), at(50));
        assert_eq!(reserve(55, 10), at(60));
        assert_eq!(reserve(95, 10), at(120));
        assert_eq!(reserve(0, 50), at(0));
        assert_eq!(reserve(0, 30), at(70), "the gap from 70 to 100 fits exactly");
        assert_eq!(reserve(0, 1), at(130), "all gaps are used up");
    }

    #[test]
    fn it_agrees_with_a_plain_search_and_nothing_overlaps() {
        use rand::{RngExt, SeedableRng};
        let mut generator = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let mut lane = Lane::default();
        let mut taken: Vec<Span> = Vec::new();
        for step in 0..3_000u64 {
            let now = step * 20;
            let earliest = at(now + generator.random_range(0..400));
            let duration = Nanoseconds::new(generator.random_range(1..30));
            let span = lane.reserve(at(now), earliest, duration);
            let mut start = earliest;
            while let Some(other) =
                taken.iter().find(|other| other.start < start + duration && other.end > start)
            {
                start = other.end;
            }
            assert_eq!(span, Span { start, end: start + duration }, "step {step}");
            taken.push(span);
        }
    }
}
