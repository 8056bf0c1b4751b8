//! One die: what is booked on it, and how a read finds its place.
//!
//! Programs and erases are served in the order they are booked. A read goes before all of them
//! that have not started, waits for the one that has, and pushes the rest back; reads among
//! themselves keep their order. Where the die can suspend, a read interrupts the one in progress
//! ([`super::suspend`]). One that comes at the very instant at which the die begins a program comes
//! too late: the die has taken up what was there.
//!
//! The promises given to earlier programs are not changed when a read pushes them back: their
//! callers have gone. What is booked later sees the die's true backlog, and the write buffer asks
//! again before it counts on a program's end ([`Die::end_of`]). A write that has to wait for that
//! end is told what to expect if reads go on overtaking as they lately have
//! ([`Die::expected_end`]): those that will are not known yet.

mod earlier;
mod expected;

use super::Span;
use super::suspend::{SuspendParameters, Suspended, Suspender};
use crate::attribution::Blocked;
use crate::units::{Instant, Nanoseconds};
use earlier::Earlier;

/// The latest bookings, each of which has its place. Those before them are remembered elsewhere as
/// long as they are not over: a large write buffer, or debt that comes due at once, books more.
pub(super) const LATEST: usize = 256;

/// The latest programs, erases and pages sensed for copies: each at its number modulo [`LATEST`].
#[derive(Clone, Debug)]
struct Booked {
    spans: [Span; LATEST],
    /// Which of them are background work. A byte each: to change one needs no look at it.
    is_background: [bool; LATEST],
}

impl Default for Booked {
    fn default() -> Self {
        let span = Span { start: Instant::START, end: Instant::START };
        Booked { spans: [span; LATEST], is_background: [false; LATEST] }
    }
}

/// When a die without debt can do more of it.
pub(crate) const NO_DEBT: Instant = Instant::from_nanos(u64::MAX);

/// One die. What a read looks at comes first, and lies together. Its size is a power of two, so that
/// a read finds its die by a shift.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub(crate) struct Die {
    booked_until: Instant,
    reads_until: Instant,
    /// The latest end of a program or erase that a read waited for, and whether that was
    /// background work. Reads behind that one waited for it as well.
    blocked: (Instant, bool),
    /// All the time that reads took.
    read_time: Nanoseconds,
    /// When it can do more of its debt at the earliest.
    debt_due: Instant,
    /// The channel that it sits on.
    channel: u32,
    /// How many were booked so far; wraps.
    bookings: u32,
    booked: Box<Booked>,
    earlier: Box<Earlier>,
    /// When the share of time that reads take was last worked out, and all that they had taken.
    seen: (Instant, Nanoseconds),
    /// The share of time that reads take, lately, in 1/256.
    read_share: u64,
    /// Where reads can interrupt what is in progress.
    suspender: Option<Box<Suspender>>,
}

impl Default for Die {
    fn default() -> Self {
        Die {
            booked_until: Instant::START,
            reads_until: Instant::START,
            bookings: 0,
            booked: Box::default(),
            earlier: Box::default(),
            blocked: (Instant::START, false),
            read_time: Nanoseconds::ZERO,
            seen: (Instant::START, Nanoseconds::ZERO),
            read_share: 0,
            suspender: None,
            debt_due: NO_DEBT,
            channel: 0,
        }
    }
}

const _: () = assert!(size_of::<Die>() == 128);

impl Die {
    /// An idle die.
    pub(crate) fn new(suspend: SuspendParameters) -> Die {
        Die { suspender: Suspender::new(suspend), ..Die::default() }
    }

    /// The same on that channel.
    pub(crate) fn on_channel(mut self, channel: usize) -> Die {
        self.channel = channel as u32;
        self
    }

    /// Notes when it can do more of its debt at the earliest.
    #[inline(always)]
    pub(crate) fn set_debt_due(&mut self, due: Instant) {
        self.debt_due = due;
    }

    /// Whether it could have done some of its debt before `now`.
    #[inline(always)]
    pub(crate) fn owes_before(&self, now: Instant) -> bool {
        self.debt_due < now
    }

    /// The channel that it sits on.
    #[inline(always)]
    pub(crate) fn channel(&self) -> usize {
        self.channel as usize
    }

    /// How it suspends.
    pub(crate) fn suspend_parameters(&self) -> SuspendParameters {
        self.suspender.as_ref().map_or_else(SuspendParameters::default, |it| it.parameters())
    }

    /// The end of all that is booked.
    #[inline(always)]
    pub(crate) fn booked_until(&self) -> Instant {
        self.booked_until
    }

    /// Books a program or an erase behind all that is booked. No read will be asked for before
    /// `now`.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        now: Instant,
        earliest: Instant,
        duration: Nanoseconds,
        is_background: bool,
    ) -> Span {
        let place = self.bookings.wrapping_add(1) as usize % LATEST;
        if self.booked.spans[place].end > now {
            return self.append_keeping(now, earliest, duration, is_background);
        }
        self.append_at(place, earliest, duration, is_background)
    }

    #[inline(always)]
    fn append_at(
        &mut self,
        place: usize,
        earliest: Instant,
        duration: Nanoseconds,
        is_background: bool,
    ) -> Span {
        let start = self.booked_until.later(earliest);
        let span = Span { start, end: start + duration };
        self.booked_until = span.end;
        self.bookings = self.bookings.wrapping_add(1);
        self.booked.spans[place] = span;
        self.booked.is_background[place] = is_background;
        span
    }

    /// Notes that the latest booking is an erase.
    #[inline(always)]
    pub(crate) fn note_erase(&mut self) {
        if let Some(suspender) = &mut self.suspender {
            suspender.note(self.bookings, Suspended::Erase);
        }
    }

    /// Notes that the latest booking senses a page: no read interrupts that.
    #[inline(always)]
    pub(crate) fn note_sense(&mut self) {
        if self.suspender.is_some() {
            self.note_sense_to_suspender();
        }
    }

    /// Out of the way of dies that do not suspend.
    #[cold]
    #[inline(never)]
    fn note_sense_to_suspender(&mut self) {
        if let Some(suspender) = &mut self.suspender {
            suspender.note(self.bookings, Suspended::Sense);
        }
    }

    /// The number of the latest booking.
    #[inline(always)]
    pub(crate) fn latest_booking(&self) -> u32 {
        self.bookings
    }

    /// The span of booking number `booking`, with the reads that have pushed it back so far; what
    /// it was promised, if it is no longer remembered.
    pub(crate) fn span_of(&self, booking: u32, promised: Span) -> Span {
        self.known(booking).unwrap_or(promised)
    }

    /// The span of booking number `booking`, if it is remembered.
    #[inline(always)]
    fn known(&self, booking: u32) -> Option<Span> {
        let age = self.bookings.wrapping_sub(booking);
        if age < LATEST as u32 {
            return Some(self.booked.spans[booking as usize % LATEST]);
        }
        self.known_earlier(age)
    }

    /// When booking number `booking` is over, reads that have pushed it back so far included;
    /// what it was promised then, if it is no longer remembered.
    #[inline(always)]
    pub(crate) fn end_of(&self, booking: u32, promised: Instant) -> Instant {
        self.known(booking).map_or(promised, |it| it.end)
    }

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

    /// Interrupts what is in progress at `at`, the booking of this `age`, if that can be; returns
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

    /// One of the latest, by its age.
    #[inline(always)]
    fn latest(&self, age: u32) -> Span {
        self.booked.spans[self.bookings.wrapping_sub(age) as usize % LATEST]
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
    use super::super::suspend::Suspendable;
    use super::*;

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
