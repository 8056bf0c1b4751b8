//! Collection's work on one die, as debt.
//!
//! Operations wait here in order. They are done as soon as the die would otherwise be idle
//! (which is worked out when something next looks at the die), and one by one when more than
//! `debt_max` of them wait: then they are booked like host work, and the host pays. So a read
//! never waits behind work that is booked for the future, and debt cannot grow without end.

use crate::units::{BlockIndex, Instant};

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
    /// Program the program unit with this number.
    Program {
        /// Number of the program unit, counted through the drive.
        program: u32,
        /// Its place in the order of collection's programs.
        sequence: u32,
    },
    /// Erase the die's part of a collection unit.
    Erase {
        /// The collection unit.
        block: BlockIndex,
        /// It does not begin before: until then what replaces the data is not durable.
        from: Instant,
    },
}

/// The operations waiting on one die, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundQueue {
    ring: [Operation; DEBT_LIMIT],
    first: usize,
    len: usize,
    debt_max: usize,
    erases: u32,
    /// The oldest operation starts no earlier: nothing is done before it was decided.
    not_before: Instant,
}

impl BackgroundQueue {
    /// An empty queue that pacing keeps at `debt_max` operations.
    pub(crate) fn new(debt_max: u32) -> Self {
        assert!((debt_max as usize) < DEBT_LIMIT, "pacing lets at most {DEBT_LIMIT} wait");
        BackgroundQueue {
            ring: [Operation::Read { units: 0, programs: 0, sequence: 0 }; DEBT_LIMIT],
            first: 0,
            len: 0,
            debt_max: debt_max as usize,
            erases: 0,
            not_before: Instant::START,
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether pacing demands that the oldest operation be done now.
    #[inline(always)]
    pub(crate) fn is_over_limit(&self) -> bool {
        self.len > self.debt_max
    }

    /// Adds an operation that can begin at `from`. Whatever could be done before was carried out
    /// already, so only the first operation of an empty list needs to remember it.
    #[inline(always)]
    pub(crate) fn push(&mut self, operation: Operation, from: Instant) {
        assert!(self.len < DEBT_LIMIT, "debt is paid before more is made");
        if self.len == 0 {
            self.not_before = from;
        }
        self.ring[(self.first + self.len) % DEBT_LIMIT] = operation;
        self.len += 1;
        self.erases += u32::from(matches!(operation, Operation::Erase { .. }));
    }

    #[inline(always)]
    pub(crate) fn front(&self) -> Option<Operation> {
        (self.len > 0).then(|| self.ring[self.first])
    }

    /// The instant before which the oldest operation does not start.
    #[inline(always)]
    pub(crate) fn not_before(&self) -> Instant {
        self.not_before
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) {
        self.erases -= u32::from(matches!(self.ring[self.first], Operation::Erase { .. }));
        self.first = (self.first + 1) % DEBT_LIMIT;
        self.len -= 1;
    }

    /// Whether the erase of `block` waits here.
    #[inline(always)]
    pub(crate) fn waits_to_erase(&self, block: BlockIndex) -> bool {
        self.erases > 0
            && (0..self.len).any(|age| {
                matches!(self.ring[(self.first + age) % DEBT_LIMIT],
                    Operation::Erase { block: waiting, .. } if waiting == block)
            })
    }

    /// Whether anything waits here that programs up to `sequence` depend on.
    pub(crate) fn waits_to_copy(&self, sequence: u32) -> bool {
        (0..self.len).any(|age| match self.ring[(self.first + age) % DEBT_LIMIT] {
            Operation::Read { sequence: first, .. }
            | Operation::Program { sequence: first, .. } => {
                first.wrapping_sub(sequence) as i32 <= 0
            }
            Operation::Erase { .. } => false,
        })
    }
}
