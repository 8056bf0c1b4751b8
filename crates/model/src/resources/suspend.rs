//! A program or erase in progress that a read interrupts.
//!
//! The die stops it, which takes a while, serves the reads that wait, and resumes it, which takes
//! a while more. What was left of it is then work like any that has not begun: reads go before it
//! and push it back (see `die.rs`). An operation is interrupted only so often, and only
//! when the read gets its turn earlier that way. A page that is being sensed, for a copy, is not.

pub use ssdlab_nand::suspend::{SuspendParameters, Suspendable};

use crate::units::Nanoseconds;

/// What a die does that a read comes upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspended {
    Program,
    Erase,
    /// Flash has no command that stops a page from being sensed.
    Sense,
}

/// Bookings of which it is remembered what they are: those that a die has places for.
const REMEMBERED: usize = super::die::LATEST;

/// What a die that suspends has to know of its bookings.
#[derive(Clone, Debug)]
pub(crate) struct Suspender {
    parameters: SuspendParameters,
    /// The latest bookings that are no programs, each at its number modulo `REMEMBERED`.
    no_programs: [Option<(u32, Suspended)>; REMEMBERED],
    /// The booking that was interrupted last, and how often.
    interrupted: (u32, u32),
}

impl Suspender {
    pub(crate) fn parameters(&self) -> SuspendParameters {
        self.parameters
    }

    /// For a die that can suspend; none for one that cannot.
    pub(crate) fn new(parameters: SuspendParameters) -> Option<Box<Suspender>> {
        (parameters.operations != Suspendable::Off).then(|| {
            Box::new(Suspender { parameters, no_programs: [None; REMEMBERED], interrupted: (0, 0) })
        })
    }

    /// Booking number `booking` is no program.
    pub(super) fn note(&mut self, booking: u32, what: Suspended) {
        self.no_programs[booking as usize % REMEMBERED] = Some((booking, what));
    }

    /// What booking number `booking` is, one of the latest.
    pub(super) fn what_is(&self, booking: u32) -> Suspended {
        let noted = self.no_programs[booking as usize % REMEMBERED];
        noted.filter(|noted| noted.0 == booking).map_or(Suspended::Program, |noted| noted.1)
    }

    /// Whether booking number `booking`, which is `what` and would go on for `left`, is interrupted
    /// once more; then how long stopping and resuming take.
    pub(super) fn interrupt(
        &mut self,
        booking: u32,
        what: Suspended,
        left: Nanoseconds,
    ) -> Option<(Nanoseconds, Nanoseconds)> {
        let operations = self.parameters.operations;
        let allowed = match what {
            Suspended::Program => matches!(operations, Suspendable::Program | Suspendable::Both),
            Suspended::Erase => matches!(operations, Suspendable::Erase | Suspendable::Both),
            Suspended::Sense => false,
        };
        let (latest, times) = self.interrupted;
        let times = if latest == booking { times } else { 0 };
        if !allowed || times >= self.parameters.most || left <= self.parameters.suspend {
            return None;
        }
        self.interrupted = (booking, times + 1);
        Some((self.parameters.suspend, self.parameters.resume))
    }
}
