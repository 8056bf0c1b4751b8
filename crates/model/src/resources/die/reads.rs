//! How a read finds its place among what is booked on a die.

use super::{Die, LATEST};
use crate::attribution::Blocked;
use crate::resources::Span;
use crate::units::{Instant, Nanoseconds};

impl Die {
    /// Books a read as early as can be; adds to `blocked` what it waits for that is no read.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        earliest: Instant,
        duration: Nanoseconds,
        blocked: &mut Blocked,
    ) -> Span {
        self.read_time += duration;
        if self.blocked.0 > earliest {
            self.note_blocked(earliest, blocked);
        }
        // Idle, or nothing but reads ahead: one test, because which of the two is a coin toss.
        if self.reads_until.later(earliest) >= self.booked_until {
            let start = self.booked_until.later(earliest);
            let span = Span { start, end: start + duration };
            self.booked_until = span.end;
            self.reads_until = span.end;
            return span;
        }
        self.read_before_booked(earliest, duration, blocked)
    }

    /// Whether nothing has taken the page registers, at `at`, since the read that is over at `sensed`:
    /// no other read, and nothing that was booked behind it and has begun.
    pub(crate) fn holds_read_of(&self, sensed: Instant, at: Instant) -> bool {
        self.reads_until == sensed && (at < sensed || self.booked_until == sensed)
    }

    /// When a read that is asked for at `earliest` would begin, if it interrupts nothing.
    pub(crate) fn read_start(&self, earliest: Instant) -> Instant {
        if self.reads_until.later(earliest) >= self.booked_until {
            self.booked_until.later(earliest)
        } else if self.reads_until > earliest {
            self.reads_until
        } else {
            self.in_progress_until(earliest)
        }
    }

    #[inline(never)]
    fn read_before_booked(
        &mut self,
        earliest: Instant,
        duration: Nanoseconds,
        blocked: &mut Blocked,
    ) -> Span {
        let start = if self.reads_until > earliest {
            // Behind other waiting reads, the die takes this one before any program.
            self.reads_until
        } else {
            let age = self.in_progress(earliest);
            let start = match self.interrupt(earliest, age) {
                Some(stopped) => stopped,
                None => age.map_or(earliest, |age| self.booking(age).end),
            };
            if let Some(age) = age {
                self.blocked = (start, self.is_background(age));
                self.note_blocked(earliest, blocked);
            }
            start
        };
        let end = start + duration;
        self.reads_until = end;
        self.push_back(start, end);
        Span { start, end }
    }

    /// Notes that a read asked for at `earliest` waits for what the reads before it waited for.
    #[inline(never)]
    fn note_blocked(&mut self, earliest: Instant, blocked: &mut Blocked) {
        let (until, background) = self.blocked;
        let waits = until.since(earliest);
        if background {
            blocked.collection += waits;
        } else {
            blocked.program += waits;
        }
    }

    /// Interrupts what is in progress at `at`, the booking of this `precondition`, if that can be; returns
    /// when the die has stopped.
    fn interrupt(&mut self, at: Instant, age: Option<u32>) -> Option<Instant> {
        self.suspender.as_ref()?;
        let age = age?;
        let booking = self.bookings.wrapping_sub(age);
        let left = self.booking(age).end.since(at);
        let earlier = (age >= LATEST as u32).then(|| self.what_earlier(age));
        let suspender = self.suspender.as_mut()?;
        let what = earlier.unwrap_or_else(|| suspender.what_is(booking));
        let (suspend, resume) = suspender.interrupt(booking, what, left)?;
        self.read_time += suspend + resume;
        let stopped = at + suspend;
        // The read that comes now pushes it back, with all behind it.
        let rest = Span { start: stopped, end: stopped + resume + left };
        *self.booking_mut(age) = rest;
        Some(stopped)
    }

    /// The program or erase that is in progress at `at`, by its age.
    fn in_progress(&self, at: Instant) -> Option<u32> {
        for age in 0..LATEST as u32 {
            let span = self.latest(age);
            if span.end <= at {
                return None;
            }
            if span.start <= at {
                return Some(age);
            }
        }
        self.earlier_in_progress(at)
    }

    /// The end of the program or erase that is in progress at `at`, or `at` where none is.
    fn in_progress_until(&self, at: Instant) -> Instant {
        self.in_progress(at).map_or(at, |age| self.booking(age).end)
    }

    /// Makes room for `start..end`: what was booked to begin at or after `start` begins later.
    fn push_back(&mut self, start: Instant, end: Instant) {
        let waits = |span: Span| span.start >= start && span.end > start;
        let waiting = (0..LATEST as u32).take_while(|&age| waits(self.latest(age))).count() as u32;
        let mut free = end;
        if waiting == LATEST as u32 {
            free = self.push_back_earlier(start, end);
        }
        for age in (0..waiting).rev() {
            let place = self.bookings.wrapping_sub(age) as usize % LATEST;
            let span = self.booked.spans[place];
            if span.start >= free {
                free = span.start;
                break;
            }
            let end = free + span.end.since(span.start);
            self.booked.spans[place] = Span { start: free, end };
            free = end;
        }
        self.booked_until = self.booked_until.max(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::suspend::{SuspendParameters, Suspendable};

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    fn us(us: u64) -> Nanoseconds {
        Nanoseconds::from_micros(us)
    }

    #[test]
    fn a_read_waits_for_the_program_in_progress_and_overtakes_the_rest() {
        let mut die = Die::default();
        for _ in 0..3 {
            die.append(at(0), at(0), us(600), false);
        }
        let read = die.read(at(300), us(60), &mut Blocked::default());
        assert_eq!((read.start, read.end), (at(600), at(660)));
        assert_eq!(die.booked_until(), at(1860));
        // The second program now runs from 660 to 1260.
        let read = die.read(at(700), us(60), &mut Blocked::default());
        assert_eq!(read.start, at(1260));
        let read = die.read(at(700), us(60), &mut Blocked::default());
        assert_eq!(read.start, at(1320), "reads keep their order");
        assert_eq!(die.booked_until(), at(1980));
    }

    #[test]
    fn a_read_interrupts_a_program_as_often_as_it_may() {
        let mut die = Die::new(SuspendParameters {
            operations: Suspendable::Program,
            suspend: us(20),
            resume: us(10),
            most: 2,
        });
        die.append(at(0), at(0), us(600), false);
        die.append(at(0), at(0), us(600), false);
        assert_eq!(die.read(at(100), us(60), &mut Blocked::default()).start, at(120));
        // 500 us are left, and 10 us go by until it goes on.
        assert_eq!((die.booked_until(), die.end_of(1, at(0))), (at(180 + 510 + 600), at(690)));
        assert_eq!(
            die.read(at(150), us(60), &mut Blocked::default()).start,
            at(180),
            "another one before it goes on"
        );
        assert_eq!(die.end_of(1, at(0)), at(750));
        assert_eq!(
            die.read(at(700), us(60), &mut Blocked::default()).start,
            at(720),
            "the second interruption"
        );
        assert_eq!(die.end_of(1, at(0)), at(780 + 10 + 50));
        assert_eq!(
            die.read(at(800), us(60), &mut Blocked::default()).start,
            at(840),
            "it is not interrupted again"
        );
        assert_eq!(die.booked_until(), at(900 + 600));
        assert_eq!(
            die.read(at(1490), us(60), &mut Blocked::default()).start,
            at(1500),
            "its end is nearer"
        );
    }

    #[test]
    fn only_what_may_be_interrupted_is() {
        for (operations, erase, start) in [
            (Suspendable::Off, true, 600),
            (Suspendable::Program, true, 600),
            (Suspendable::Erase, true, 120),
            (Suspendable::Erase, false, 600),
            (Suspendable::Both, true, 120),
            (Suspendable::Both, false, 120),
        ] {
            let suspend = us(20);
            let mut die =
                Die::new(SuspendParameters { operations, suspend, resume: us(0), most: 1 });
            die.append(at(0), at(0), us(600), false);
            if erase {
                die.note_erase();
            }
            assert_eq!(
                die.read(at(100), us(60), &mut Blocked::default()).start,
                at(start),
                "{operations:?}, {erase}"
            );
        }
    }

    #[test]
    fn a_page_that_is_being_sensed_for_a_copy_is_not_interrupted() {
        let (suspend, operations) = (us(20), Suspendable::Both);
        let mut die = Die::new(SuspendParameters { operations, suspend, resume: us(0), most: 1 });
        die.append(at(0), at(0), us(60), true);
        die.note_sense();
        die.append(at(0), at(0), us(600), true);
        assert_eq!(die.read(at(10), us(60), &mut Blocked::default()).start, at(60));
        assert_eq!(die.booked_until(), at(120 + 600));
        assert_eq!(die.read(at(200), us(60), &mut Blocked::default()).start, at(220));
    }

    #[test]
    fn a_read_that_comes_as_the_die_begins_a_program_comes_too_late() {
        let mut die = Die::default();
        die.append(at(0), at(100), us(600), false);
        die.append(at(0), at(100), us(600), false);
        assert_eq!(die.read(at(100), us(60), &mut Blocked::default()).start, at(700));
        // What was suspended goes on as soon as the read before is over.
        let (suspend, operations) = (us(20), Suspendable::Both);
        let mut die = Die::new(SuspendParameters { operations, suspend, resume: us(10), most: 2 });
        die.append(at(0), at(0), us(600), false);
        assert_eq!(die.read(at(100), us(60), &mut Blocked::default()).end, at(180));
        assert_eq!(die.read(at(180), us(60), &mut Blocked::default()).start, at(200));
        assert_eq!(die.booked_until(), at(260 + 10 + 10 + 500));
    }

    #[test]
    fn a_read_uses_the_time_before_a_program_that_has_not_begun() {
        let mut die = Die::default();
        die.append(at(0), at(1000), us(600), false);
        let read = die.read(at(100), us(60), &mut Blocked::default());
        assert_eq!(read.start, at(100));
        assert_eq!(die.booked_until(), at(1600), "the program is not in its way");
        let read = die.read(at(960), us(60), &mut Blocked::default());
        assert_eq!(read.start, at(960));
        assert_eq!(die.booked_until(), at(1620), "this one pushes it back");
    }
}
