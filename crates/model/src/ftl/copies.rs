//! Program units of gc copies: those in flight, and those that the units of one read go into.

use std::collections::VecDeque;

use ssdlab_nand::{CopyNumber, ProgramLog};

use crate::media::SequenceNumber;
use crate::units::PhysicalUnit;

/// A program unit of copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) first: PhysicalUnit,
    /// Sequence number of the program unit, once it is full; the largest number before.
    pub(super) number: SequenceNumber,
    /// Number of copies in the program unit, once it is full.
    pub(super) units: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    log: ProgramLog,
    in_flight: VecDeque<Copy>,
    /// Program unit being filled, and (`latest`) the one that was begun last.
    filling: Option<CopyNumber>,
    latest: Option<CopyNumber>,
    /// Program units that the units of the present read go into.
    into: [Option<CopyNumber>; 2],
    /// Program units that are full with the units of the present read.
    full: [Option<CopyNumber>; 2],
}

impl Copies {
    /// Returns the number of the program unit that begins next.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.log.next()
    }

    #[inline(always)]
    pub(super) fn latest(&self) -> Option<CopyNumber> {
        self.latest
    }

    /// Returns true if all program units before number `number` have completed.
    #[inline(always)]
    pub(super) fn are_complete_before(&self, number: u64) -> bool {
        self.log.low_water() >= number
    }

    /// Begins another read.
    #[inline(always)]
    pub(super) fn begin_read(&mut self) {
        self.into = [self.filling, None];
        self.full = [None; 2];
    }

    /// Notes that a program unit is begun with units of the read.
    #[inline(always)]
    pub(super) fn begin(&mut self, number: CopyNumber, first: PhysicalUnit) {
        self.log.begin();
        let open = SequenceNumber(u64::MAX);
        self.in_flight.push_back(Copy { first, number: open, units: 0 });
        (self.filling, self.latest) = (Some(number), Some(number));
        let place = usize::from(self.into[0].is_some());
        self.into[place] = Some(number);
    }

    /// Notes that the program unit being filled is full, with `units` copies, and gives it its sequence number.
    /// Returns its first physical unit.
    #[inline(always)]
    pub(super) fn fill(&mut self, units: u32, sequence: SequenceNumber) -> PhysicalUnit {
        let copy = self.in_flight.back_mut().expect("one is being filled");
        (copy.units, copy.number) = (units, sequence);
        let first = copy.first;
        let place = usize::from(self.full[0].is_some());
        self.full[place] = self.filling.take();
        first
    }

    /// Returns the program units that the units of the read go into.
    #[inline(always)]
    pub(super) fn of_read(&self) -> [Option<CopyNumber>; 2] {
        self.into
    }

    /// Takes out the program units that the read has filled.
    #[inline(always)]
    pub(super) fn take_full(&mut self) -> [Option<CopyNumber>; 2] {
        std::mem::take(&mut self.full)
    }

    /// Ends a program unit. Returns it, and true if more program units than before have completed with all
    /// before them.
    #[inline(always)]
    pub(super) fn end(&mut self, number: CopyNumber) -> (Copy, bool) {
        let low = self.log.low_water();
        let place = self.place_of(number);
        let copy = self.in_flight[place as usize];
        let is_later = self.log.end(low + u64::from(place));
        for _ in low..self.log.low_water() {
            self.in_flight.pop_front();
        }
        (copy, is_later)
    }

    #[inline(always)]
    fn place_of(&self, number: CopyNumber) -> u32 {
        number.index().wrapping_sub(self.log.low_water() as u32) & (u32::MAX >> 1)
    }

    /// Returns the first physical unit of a program unit in flight.
    pub(super) fn first_of(&self, number: CopyNumber) -> PhysicalUnit {
        self.in_flight[self.place_of(number) as usize].first
    }

    /// Returns the smallest sequence number of a program unit in flight, which is `u64::MAX` if none is full;
    /// `None` if none is in flight.
    pub(super) fn oldest_in_flight(&self) -> Option<SequenceNumber> {
        self.in_flight.front().map(|copy| copy.number)
    }

    /// Returns true if a program unit is being filled or in flight.
    pub(super) fn is_any(&self) -> bool {
        self.log.low_water() < self.log.next()
    }
}
