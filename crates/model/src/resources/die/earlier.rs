//! What was booked on a die before the latest, and is not over: found and pushed back like those, more
//! slowly.

use std::collections::VecDeque;

use super::{Die, LATEST};
use crate::resources::Span;
use crate::resources::suspend::Suspended;
use crate::units::{Instant, Nanoseconds};

/// What was booked before the latest [`LATEST`] and was not over when it lost its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    /// In order, without a gap.
    bookings: VecDeque<EarlierBooking>,
    /// The number of the last of them. They count only if it is the one before the latest: otherwise
    /// some were over when they lost their places, and so were all before.
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct EarlierBooking {
    span: Span,
    is_background: bool,
    what: Suspended,
}

impl Die {
    /// The same where what loses its place is not over. A function of its own as a whole, so that
    /// the other keeps nothing ready for it.
    #[cold]
    #[inline(never)]
    pub(super) fn append_keeping(
        &mut self,
        now: Instant,
        earliest: Instant,
        duration: Nanoseconds,
        is_background: bool,
    ) -> Span {
        let number = self.bookings.wrapping_add(1);
        self.keep_earlier(number.wrapping_sub(LATEST as u32), now);
        self.append_at(number as usize % LATEST, earliest, duration, is_background)
    }

    /// Keeps booking number `number`, the first of the latest, and what is not over at `now`.
    fn keep_earlier(&mut self, number: u32, now: Instant) {
        let place = number as usize % LATEST;
        let Earlier { bookings, last } = &mut *self.earlier;
        if last.wrapping_add(1) != number {
            bookings.clear();
        }
        while bookings.front().is_some_and(|it| it.span.end <= now) {
            bookings.pop_front();
        }
        bookings.push_back(EarlierBooking {
            span: self.booked.spans[place],
            is_background: self.booked.is_background[place],
            what: self.suspender.as_ref().map_or(Suspended::Program, |it| it.what_is(number)),
        });
        *last = number;
    }

    /// How many are remembered: all that are not over, and some that are.
    fn remembered(&self) -> u32 {
        let is_next = self.bookings.wrapping_sub(LATEST as u32) == self.earlier.last;
        (LATEST + if is_next { self.earlier.bookings.len() } else { 0 }) as u32
    }

    /// The booking of this age, at least [`LATEST`]: its place among the earlier ones.
    fn earlier_place(&self, age: u32) -> usize {
        self.earlier.bookings.len() + LATEST - 1 - age as usize
    }

    /// What can be interrupted of it, for the same.
    pub(super) fn what_earlier(&self, age: u32) -> Suspended {
        self.earlier.bookings[self.earlier_place(age)].what
    }

    #[cold]
    #[inline(never)]
    pub(super) fn known_earlier(&self, age: u32) -> Option<Span> {
        (age < self.remembered()).then(|| self.booking(age))
    }

    pub(super) fn booking(&self, age: u32) -> Span {
        if age < LATEST as u32 {
            self.latest(age)
        } else {
            self.earlier.bookings[self.earlier_place(age)].span
        }
    }

    pub(super) fn booking_mut(&mut self, age: u32) -> &mut Span {
        if age < LATEST as u32 {
            &mut self.booked.spans[self.bookings.wrapping_sub(age) as usize % LATEST]
        } else {
            let place = self.earlier_place(age);
            &mut self.earlier.bookings[place].span
        }
    }

    pub(super) fn is_background(&self, age: u32) -> bool {
        if age < LATEST as u32 {
            self.booked.is_background[self.bookings.wrapping_sub(age) as usize % LATEST]
        } else {
            self.earlier.bookings[self.earlier_place(age)].is_background
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn earlier_in_progress(&self, at: Instant) -> Option<u32> {
        (LATEST as u32..self.remembered())
            .take_while(|&age| self.booking(age).end > at)
            .find(|&age| self.booking(age).start <= at)
    }

    /// The same for those before the latest; returns when the first of these can begin.
    #[cold]
    #[inline(never)]
    pub(super) fn push_back_earlier(&mut self, start: Instant, end: Instant) -> Instant {
        let waits = |span: Span| span.start >= start && span.end > start;
        let waiting =
            (LATEST as u32..self.remembered()).take_while(|&age| waits(self.booking(age)));
        let mut free = end;
        for age in (LATEST as u32..LATEST as u32 + waiting.count() as u32).rev() {
            let span = self.booking(age);
            if span.start >= free {
                return span.start;
            }
            let end = free + span.end.since(span.start);
            *self.booking_mut(age) = Span { start: free, end };
            free = end;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Blocked;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    fn us(us: u64) -> Nanoseconds {
        Nanoseconds::from_micros(us)
    }

    #[test]
    fn a_read_finds_the_program_in_progress_among_any_number_of_bookings() {
        let mut die = Die::default();
        for _ in 0..1000 {
            die.append(at(0), at(0), us(600), false);
        }
        let promised = at(1000 * 600);
        let read = die.read(at(300), us(60), &mut Blocked::default());
        assert_eq!((read.start, read.end), (at(600), at(660)));
        assert_eq!(die.booked_until(), promised + us(60));
        assert_eq!(die.end_of(2, at(1200)), at(1260), "the first that is pushed back");
        assert_eq!(die.end_of(1000, promised), promised + us(60));
        // What is over need not be remembered, and no more is then.
        let kept = die.remembered();
        for number in 0..2000 {
            let now = at((500 + number) * 600);
            die.append(now, now, us(600), false);
        }
        assert!(die.remembered() < kept, "{} of {kept}", die.remembered());
        assert_eq!(die.end_of(1, at(600)), at(600), "as it was promised");
        let now = at(4000 * 600);
        die.append(now, now, us(600), true);
        assert_eq!(die.read(now + us(60), us(60), &mut Blocked::default()).start, now + us(600));
    }
}
