//! Program units of gc copies: each waits for the senses that fill it, and for the program units before it.

use std::collections::VecDeque;

use crate::pool::NONE;

/// Number of a program unit of copies, in the order in which they were begun; wraps at 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct CopyNumber(pub(crate) u32);

const NUMBER_MASK: u32 = u32::MAX >> 1;

impl CopyNumber {
    /// Returns the number of program units that were begun before this one, modulo 2^31.
    pub fn index(self) -> u32 {
        self.0
    }

    /// Returns true if this program unit was begun before `other`, or is the same. Both must be among the 2^30 latest.
    pub fn is_not_after(self, other: CopyNumber) -> bool {
        other.0.wrapping_sub(self.0) & NUMBER_MASK <= NUMBER_MASK / 2
    }
}

/// A program unit that is being filled, or waits for its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingProgram {
    pub(crate) die: u16,
    /// The erase that the program waits for, or [`NONE`].
    pub(crate) after: u32,
    pub(crate) duration: u32,
    pub(crate) codewords: u16,
    /// Number of senses that have not delivered their data, plus one until the program unit is declared
    /// complete.
    outstanding: u32,
}

/// Program units of copies that are not yet on the way to their dies, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct GcCopies {
    pending: VecDeque<PendingProgram>,
    /// Number of the first program unit.
    first: u32,
    /// Last program unit that the host waits for, with all before it. `None` if there is none among the
    /// latest.
    urgent: Option<CopyNumber>,
}

/// The program units of copies in flight at a time are fewer than this.
const MAX_IN_FLIGHT: u32 = 1 << 24;

impl GcCopies {
    pub(crate) fn begin(
        &mut self,
        die: u16,
        after: u32,
        duration: u32,
        codewords: u16,
    ) -> CopyNumber {
        self.pending.push_back(PendingProgram { die, after, duration, codewords, outstanding: 1 });
        let number = self.first.wrapping_add(self.pending.len() as u32 - 1) & NUMBER_MASK;
        let is_late = |it: &CopyNumber| number.wrapping_sub(it.0) & NUMBER_MASK <= MAX_IN_FLIGHT;
        self.urgent = self.urgent.filter(is_late);
        CopyNumber(number)
    }

    #[inline(always)]
    fn pending_mut(&mut self, number: u32) -> &mut PendingProgram {
        &mut self.pending[(number.wrapping_sub(self.first) & NUMBER_MASK) as usize]
    }

    /// Adds a sense that will deliver to a program unit, and to `second` if there is one.
    #[inline(always)]
    pub(crate) fn add_sense(&mut self, first: CopyNumber, second: Option<CopyNumber>) {
        self.pending_mut(first.0).outstanding += 1;
        self.pending_mut(second.unwrap_or(first).0).outstanding += u32::from(second.is_some());
    }

    /// Notes that a sense has delivered to program unit `first`, and to `second` unless that is [`NONE`].
    /// Returns true if the oldest program unit is complete.
    #[inline(always)]
    pub(crate) fn note_sensed(&mut self, first: u32, second: u32) -> bool {
        let has_second = second != NONE;
        self.pending_mut(first).outstanding -= 1;
        self.pending_mut(if has_second { second } else { first }).outstanding -=
            u32::from(has_second);
        self.pending[0].outstanding == 0
    }

    /// Declares that a program unit gets no more senses. Returns true if the oldest program unit is
    /// complete.
    #[inline(always)]
    pub(crate) fn complete(&mut self, number: CopyNumber) -> bool {
        self.note_sensed(number.0, NONE)
    }

    /// Removes and returns the oldest program unit, if it is complete.
    #[inline(always)]
    pub(crate) fn take_complete(&mut self) -> Option<(u32, PendingProgram)> {
        let oldest = self.pending.front()?;
        if oldest.outstanding > 0 {
            return None;
        }
        let oldest = self.pending.pop_front()?;
        let number = self.first;
        self.first = self.first.wrapping_add(1) & NUMBER_MASK;
        Some((number, oldest))
    }

    /// Returns the program units that wait for their data, with their dies.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (CopyNumber, u16)> {
        let number = |place| CopyNumber(self.first.wrapping_add(place) & NUMBER_MASK);
        (0..).zip(&self.pending).map(move |(place, it)| (number(place), it.die))
    }

    /// Makes all program units up to `through` urgent.
    pub(crate) fn prioritise(&mut self, through: CopyNumber) {
        if self.urgent.is_none_or(|urgent| urgent.is_not_after(through)) {
            self.urgent = Some(through);
        }
    }

    /// Returns true if the host waits for a program unit.
    #[inline(always)]
    pub(crate) fn is_urgent(&self, number: u32) -> bool {
        self.urgent.is_some_and(|urgent| CopyNumber(number).is_not_after(urgent))
    }
}
