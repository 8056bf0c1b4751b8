//! Collection's work on one die, as debt.
//!
//! Operations wait here in order. They are done as soon as the die would otherwise be idle
//! (which is worked out when something next looks at the die), and one by one when more than
//! `debt_max` of them wait: then they are booked like host work, and the host pays. So a read
//! never waits behind work that is booked for the future, and debt cannot grow without end.

use crate::units::{BlockIndex, Instant, PhysicalUnit};

/// Most operations that a queue can hold, whatever the policy asks for.
pub(crate) const DEBT_LIMIT: usize = 32;

/// One operation of collection on a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Sense one page (or one of each plane) and move `units` units over the channel.
    Read {
        /// Units to transfer.
        units: u16,
        /// How many of collection's programs they go into.
        programs: u16,
        /// The first of those programs, by its place in their order.
        sequence: u32,
    },
    /// Program a program unit.
    Program {
        /// Its first unit.
        first: PhysicalUnit,
        /// Its place in the order of collection's programs.
        sequence: u32,
    },
    /// Erase the die's part of a collection unit.
    Erase {
        /// The collection unit.
        block: BlockIndex,
    },
}

/// An operation that waits, and the instant from which on it can be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) operation: Operation,
    pub(crate) from: Instant,
}

/// The operations waiting on one die, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundQueue {
    ring: [Owed; DEBT_LIMIT],
    first: usize,
    len: usize,
    debt_max: usize,
}

impl BackgroundQueue {
    /// An empty queue that pacing keeps at `debt_max` operations.
    pub(crate) fn new(debt_max: u32) -> Self {
        assert!((debt_max as usize) < DEBT_LIMIT, "pacing lets at most {DEBT_LIMIT} wait");
        let operation = Operation::Read { units: 0, programs: 0, sequence: 0 };
        let nothing = Owed { operation, from: Instant::START };
        BackgroundQueue {
            ring: [nothing; DEBT_LIMIT],
            first: 0,
            len: 0,
            debt_max: debt_max as usize,
        }
    }

    pub(crate) fn debt_max(&self) -> u32 {
        self.debt_max as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether pacing demands that the oldest operation be done now.
    #[inline(always)]
    pub(crate) fn is_over_limit(&self) -> bool {
        self.len > self.debt_max
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, owed: Owed) {
        assert!(self.len < DEBT_LIMIT, "debt is paid before more is made");
        self.ring[(self.first + self.len) % DEBT_LIMIT] = owed;
        self.len += 1;
    }

    /// From when on the oldest operation can be done, if any waits.
    #[inline(always)]
    pub(crate) fn oldest_from(&self) -> Option<Instant> {
        if self.len > 0 { Some(self.ring[self.first % DEBT_LIMIT].from) } else { None }
    }

    /// Takes out the oldest operation.
    ///
    /// # Panics
    /// When none waits.
    #[inline(always)]
    pub(crate) fn take_oldest(&mut self) -> &Owed {
        assert!(self.len > 0, "there is debt to pay");
        let place = self.first % DEBT_LIMIT;
        self.first = place + 1;
        self.len -= 1;
        &self.ring[place]
    }

    /// Whether the erase of `block` waits here.
    #[inline(always)]
    pub(crate) fn waits_to_erase(&self, block: BlockIndex) -> bool {
        (0..self.len).any(|age| {
            matches!(self.ring[(self.first + age) % DEBT_LIMIT].operation,
                Operation::Erase { block: waiting } if waiting == block)
        })
    }

    /// Whether anything waits here that programs up to `sequence` depend on.
    pub(crate) fn waits_to_copy(&self, sequence: u32) -> bool {
        (0..self.len).any(|age| match self.ring[(self.first + age) % DEBT_LIMIT].operation {
            Operation::Read { sequence: first, .. }
            | Operation::Program { sequence: first, .. } => {
                first.wrapping_sub(sequence) as i32 <= 0
            }
            Operation::Erase { .. } => false,
        })
    }
}
