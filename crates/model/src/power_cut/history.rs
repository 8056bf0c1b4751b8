//! What a host does before power is cut.

use rand::{Rng, RngExt};

use crate::units::{Instant, LogicalUnit, Nanoseconds};

/// A request, or a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a range of units.
    Write {
        /// The first.
        first: LogicalUnit,
        /// How many.
        units: u32,
    },
    /// Writes a range of units but for a sector at an end of it, or at both. Of a unit of one sector
    /// nothing can be left out, and a drive that takes whole units only is sent all of them.
    WritePart {
        /// The first.
        first: LogicalUnit,
        /// How many.
        units: u32,
        /// Which sectors are left out.
        without: LeftOut,
        /// True if with FUA.
        fua: bool,
    },
    /// Writes a range of units with FUA.
    WriteFua {
        /// The first.
        first: LogicalUnit,
        /// How many.
        units: u32,
    },
    /// Trims a range of units.
    Trim {
        /// The first.
        first: LogicalUnit,
        /// How many.
        units: u32,
    },
    /// Reads a range of units.
    Read {
        /// The first.
        first: LogicalUnit,
        /// How many.
        units: u32,
    },
    /// Flushes.
    Flush,
    /// Leaves the drive alone for so long.
    Rest(Nanoseconds),
}

/// Sectors at the ends of a range of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The first.
    First,
    /// The last.
    Last,
    /// Both.
    Both,
}

/// When a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When all requests before it are answered.
    Answered,
    /// So long after the one before was sent, whatever is answered by then.
    Later(Nanoseconds),
}

/// A request and when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The request.
    pub operation: Operation,
    /// When it is sent.
    pub when: When,
}

impl Operation {
    /// A request of any kind to a drive of `units` units. Half of them go to few units, so that
    /// they meet each other.
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
    /// A request that is sent when those before it are answered.
    pub fn answered(operation: Operation) -> Step {
        Step { operation, when: When::Answered }
    }

    /// A request that is sent right after the one before.
    pub fn at_once(operation: Operation) -> Step {
        Step { operation, when: When::Later(Nanoseconds::ZERO) }
    }

    /// A request of any kind; one in two does not wait for those before, but is sent at once, while
    /// they are being dealt with, or while what they have begun goes on.
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
    /// Which step of the history it is, counted from 1.
    pub step: u32,
    /// When it was sent.
    pub at: Instant,
    /// When it is answered.
    pub answered: Instant,
}
