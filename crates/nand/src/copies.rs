//! Program units of gc copies: each waits for the senses that fill it, and for the program units before it.

use std::collections::VecDeque;

use crate::pool::NONE;

/// Number of a program unit of copies, in the order in which they were begun; wraps at 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct CopyNumber(pub(crate) u32);

const NUMBERS: u32 = u32::MAX >> 1;

impl CopyNumber {
    /// Returns the number of program units that were begun before this one, modulo 2^31.
    pub fn index(self) -> u32 {
        self.0
    }

    /// Returns true if this program unit was begun before `other`, or is the same. Both must be among the 2^30 latest.
    pub fn is_not_after(self, other: CopyNumber) -> bool {
        other.0.wrapping_sub(self.0) & NUMBERS <= NUMBERS / 2
    }
}

/// A program unit that is being filled, or waits for its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    pub(crate) die: u16,
    /// The erase that the program waits for, or [`NONE`].
    pub(crate) after: u32,
    pub(crate) duration: u32,
    pub(crate) codewords: u16,
    /// Number of senses that have not delivered their data, plus one until the program unit is declared
    /// complete.
    waits_for: u32,
}

/// Program units of copies that are not yet on the way to their dies, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    filling: VecDeque<Filling>,
    /// Number of the first program unit.
    first: u32,
    /// Last program unit that the host waits for, with all before it. `None` if there is none among the
    /// latest.
    urgent: Option<CopyNumber>,
}

/// The program units of copies in flight at a time are fewer than this.
const UNDER_WAY_MOST: u32 = 1 << 24;

impl Copies {
    pub(crate) fn begin(
        &mut self,
        die: u16,
        after: u32,
        duration: u32,
        codewords: u16,
    ) -> CopyNumber {
        self.filling.push_back(Filling { die, after, duration, codewords, waits_for: 1 });
        let number = self.first.wrapping_add(self.filling.len() as u32 - 1) & NUMBERS;
        let is_late = |it: &CopyNumber| number.wrapping_sub(it.0) & NUMBERS <= UNDER_WAY_MOST;
        self.urgent = self.urgent.filter(is_late);
        CopyNumber(number)
    }

    #[inline(always)]
    fn at(&mut self, number: u32) -> &mut Filling {
        &mut self.filling[(number.wrapping_sub(self.first) & NUMBERS) as usize]
    }

    /// Adds a sense that will deliver to a program unit, and to `second` if there is one.
    #[inline(always)]
    pub(crate) fn await_sense(&mut self, first: CopyNumber, second: Option<CopyNumber>) {
        self.at(first.0).waits_for += 1;
        self.at(second.unwrap_or(first).0).waits_for += u32::from(second.is_some());
    }

    /// Notes that a sense has delivered to program unit `first`, and to `second` unless that is [`NONE`].
    /// Returns true if the oldest program unit is complete.
    #[inline(always)]
    pub(crate) fn sensed(&mut self, first: u32, second: u32) -> bool {
        let has_second = second != NONE;
        self.at(first).waits_for -= 1;
        self.at(if has_second { second } else { first }).waits_for -= u32::from(has_second);
        self.filling[0].waits_for == 0
    }

    /// Declares that a program unit gets no more senses. Returns true if the oldest program unit is
    /// complete.
    #[inline(always)]
    pub(crate) fn complete(&mut self, number: CopyNumber) -> bool {
        self.sensed(number.0, NONE)
    }

    /// Removes and returns the oldest program unit, if it is complete.
    #[inline(always)]
    pub(crate) fn take_complete(&mut self) -> Option<(u32, Filling)> {
        let oldest = self.filling.front()?;
        if oldest.waits_for > 0 {
            return None;
        }
        let oldest = self.filling.pop_front()?;
        let number = self.first;
        self.first = self.first.wrapping_add(1) & NUMBERS;
        Some((number, oldest))
    }

    /// Returns the program units that wait for their data, with their dies.
    pub(crate) fn filling(&self) -> impl Iterator<Item = (CopyNumber, u16)> {
        let number = |place| CopyNumber(self.first.wrapping_add(place) & NUMBERS);
        (0..).zip(&self.filling).map(move |(place, it)| (number(place), it.die))
    }

    /// Makes all program units up to `through` urgent.
    pub(crate) fn hurry(&mut self, through: CopyNumber) {
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
