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

/// A request and when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The request.
    pub operation: Operation,
    /// Whether it is sent when the one before is answered; otherwise right after that was sent.
    pub waits: bool,
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
            0..8 => Operation::Write { first, units },
            8 => Operation::WriteFua { first, units },
            9..11 => Operation::Trim { first, units },
            11 => Operation::Read { first, units },
            12..15 => Operation::Flush,
            _ => Operation::Rest(Nanoseconds::from_micros(generator.random_range(1..300_000))),
        }
    }
}

impl Step {
    /// A request of any kind; one in two does not wait for the one before.
    pub fn random(generator: &mut impl Rng, units: u32) -> Step {
        let operation = Operation::random(generator, units);
        Step { operation, waits: generator.random_range(0..2) == 0 }
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
