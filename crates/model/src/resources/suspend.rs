//! A program or erase in progress that a read interrupts.
//!
//! The die stops it, which takes a while, serves the reads that wait, and resumes it, which takes
//! a while more. What was left of it is then work like any that has not begun: reads go before it
//! and push it back (see `die.rs`). An operation is interrupted only so often, and only
//! when the read gets its turn earlier that way. A page that is being sensed, for a copy, is not.

use serde::Deserialize;

use crate::units::Nanoseconds;

/// What a read may interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspendable {
    /// Nothing.
    #[default]
    Off,
    /// Programs.
    Program,
    /// Erases.
    Erase,
    /// Programs and erases.
    Both,
}

/// How a die suspends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuspendParameters {
    /// What a read may interrupt.
    pub operations: Suspendable,
    /// From the command to suspend until the die can sense; the operation makes no progress.
    pub suspend: Nanoseconds,
    /// What resuming adds to the rest of the operation.
    pub resume: Nanoseconds,
    /// How often one operation can be interrupted.
    pub most: u32,
}

/// What a booking is that is no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoProgram {
    Erase,
    /// Flash has no command that stops a page from being sensed.
    Sense,
}

/// Bookings of which it is remembered what they are: as many as a die remembers.
const REMEMBERED: usize = super::die::BOOKED;

/// What a die that suspends has to know of its bookings.
#[derive(Clone, Debug)]
pub(crate) struct Suspender {
    parameters: SuspendParameters,
    /// The latest bookings that are no programs, each at its number modulo `REMEMBERED`.
    no_programs: [Option<(u32, NoProgram)>; REMEMBERED],
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

    /// Booking number `booking` is an erase.
    pub(crate) fn note_erase(&mut self, booking: u32) {
        self.no_programs[booking as usize % REMEMBERED] = Some((booking, NoProgram::Erase));
    }

    /// Booking number `booking` senses a page for the drive itself.
    pub(crate) fn note_sense(&mut self, booking: u32) {
        self.no_programs[booking as usize % REMEMBERED] = Some((booking, NoProgram::Sense));
    }

    fn is_no_program(&self, booking: u32) -> Option<NoProgram> {
        let noted = self.no_programs[booking as usize % REMEMBERED];
        noted.filter(|noted| noted.0 == booking).map(|noted| noted.1)
    }

    /// Whether booking number `booking`, which would go on for `left`, is interrupted once more;
    /// then how long stopping and resuming take.
    pub(crate) fn interrupt(
        &mut self,
        booking: u32,
        left: Nanoseconds,
    ) -> Option<(Nanoseconds, Nanoseconds)> {
        let operations = self.parameters.operations;
        let allowed = match self.is_no_program(booking) {
            None => matches!(operations, Suspendable::Program | Suspendable::Both),
            Some(NoProgram::Erase) => matches!(operations, Suspendable::Erase | Suspendable::Both),
            Some(NoProgram::Sense) => false,
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
