//! Histories: the requests of a host before a power cut.

use rand::{Rng, RngExt};

use crate::units::{Instant, LogicalUnit, Nanoseconds};

/// A request, or an idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a range of units.
    Write {
        /// First unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
    },
    /// Writes a range of units without a sector at one end or at both. A unit of one sector is written whole, and so
    /// is the range on a drive that takes whole units only.
    WritePart {
        /// First unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
        /// Sectors that are left out.
        without: LeftOut,
        /// True for a write with FUA.
        fua: bool,
    },
    /// Writes a range of units with FUA.
    WriteFua {
        /// First unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
    },
    /// Trims a range of units.
    Trim {
        /// First unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
    },
    /// Reads a range of units.
    Read {
        /// First unit.
        first: LogicalUnit,
        /// Number of units.
        units: u32,
    },
    /// Flushes.
    Flush,
    /// Leaves the drive idle for this time.
    Rest(Nanoseconds),
}

/// Sectors at the ends of a range of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The first sector.
    First,
    /// The last sector.
    Last,
    /// Both sectors.
    Both,
}

/// Moment at which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After all requests before it are answered.
    Answered,
    /// This time after the request before it was sent, answered or not.
    Later(Nanoseconds),
}

/// A request and the moment at which it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The request.
    pub operation: Operation,
    /// Moment at which the request is sent.
    pub when: When,
}

impl Operation {
    /// Returns a random request to a drive of `units` units. Half of them go to few units, so that they overlap.
    pub fn random(generator: &mut impl Rng, units: u32) -> Operation {
        let near = generator.random_range(0..2) == 0;
        let first = generator.random_range(0..if near { units.min(12) } else { units });
        let most = [1, 4, 40][generator.random_range(0..3)];
        let units = generator.random_range(1..=most).min(units - first);
        let first = LogicalUnit(first);
        match generator.random_range(0..16) {
            0..6 => Operation::Write { first, units },
            kind @ 6..9 => {
                let without = [LeftOut::First, LeftOut::Last, LeftOut::Both];
                let without = without[generator.random_range(0..3)];
                match (kind == 8, generator.random_range(0..2) == 0) {
                    (true, true) => Operation::WriteFua { first, units },
                    (fua, _) => Operation::WritePart { first, units, without, fua },
                }
            }
            9..11 => Operation::Trim { first, units },
            11 => Operation::Read { first, units },
            12..15 => Operation::Flush,
            _ => Operation::Rest(Nanoseconds::from_micros(generator.random_range(1..300_000))),
        }
    }
}

impl Step {
    /// Returns a request that is sent when all requests before it are answered.
    pub fn answered(operation: Operation) -> Step {
        Step { operation, when: When::Answered }
    }

    /// Returns a request that is sent right after the one before it.
    pub fn at_once(operation: Operation) -> Step {
        Step { operation, when: When::Later(Nanoseconds::ZERO) }
    }

    /// Returns a random request. Half of them do not wait for the answers before them: they are sent immediately,
    /// while earlier requests are in flight, or during the background work that these have started.
    pub fn random(generator: &mut impl Rng, units: u32) -> Step {
        let operation = Operation::random(generator, units);
        let micros = match generator.random_range(0..8) {
            0..4 => return Step::answered(operation),
            4 | 5 => return Step::at_once(operation),
            6 => generator.random_range(1..100),
            _ => generator.random_range(1..3_000),
        };
        Step { operation, when: When::Later(Nanoseconds::from_micros(micros)) }
    }
}

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Step of the history, counted from 1.
    pub step: u32,
    /// Moment at which the request was sent.
    pub at: Instant,
    /// Moment at which the request is answered.
    pub answered: Instant,
}
