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
mod reads;

use super::Span;
use super::suspend::{SuspendParameters, Suspended, Suspender};
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

    /// One of the latest, by its age.
    #[inline(always)]
    fn latest(&self, age: u32) -> Span {
        self.booked.spans[self.bookings.wrapping_sub(age) as usize % LATEST]
    }
}
