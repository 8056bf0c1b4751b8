//! Program units of copies: which are under way, and which of them units of one read go into.

use std::collections::VecDeque;

use ssdlab_nand::{CopyNumber, ProgramLog};

use crate::media::SequenceNumber;
use crate::units::PhysicalUnit;

/// A program unit of copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) first: PhysicalUnit,
    /// Its number, once it is full; the largest before.
    pub(super) number: SequenceNumber,
    /// Copies in it, once it is full.
    pub(super) units: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    log: ProgramLog,
    under_way: VecDeque<Copy>,
    /// The one being filled, and the one begun last.
    filling: Option<CopyNumber>,
    latest: Option<CopyNumber>,
    /// The program units that the read under consideration goes into.
    into: [Option<CopyNumber>; 2],
    /// Those that are full with it.
    full: [Option<CopyNumber>; 2],
}

impl Copies {
    /// The number that the next one begun will have.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.log.next()
    }

    #[inline(always)]
    pub(super) fn latest(&self) -> Option<CopyNumber> {
        self.latest
    }

    /// Returns true if all before number `number` are over.
    #[inline(always)]
    pub(super) fn are_over_before(&self, number: u64) -> bool {
        self.log.low_water() >= number
    }

    /// Another read is considered.
    #[inline(always)]
    pub(super) fn begin_read(&mut self) {
        self.into = [self.filling, None];
        self.full = [None; 2];
    }

    /// One is begun with units of the read.
    #[inline(always)]
    pub(super) fn begin(&mut self, number: CopyNumber, first: PhysicalUnit) {
        self.log.begin();
        let open = SequenceNumber(u64::MAX);
        self.under_way.push_back(Copy { first, number: open, units: 0 });
        (self.filling, self.latest) = (Some(number), Some(number));
        let place = usize::from(self.into[0].is_some());
        self.into[place] = Some(number);
    }

    /// The one being filled is full, with `units` copies, and takes this number. Returns where it starts.
    #[inline(always)]
    pub(super) fn fill(&mut self, units: u32, sequence: SequenceNumber) -> PhysicalUnit {
        let copy = self.under_way.back_mut().expect("one is being filled");
        (copy.units, copy.number) = (units, sequence);
        let first = copy.first;
        let place = usize::from(self.full[0].is_some());
        self.full[place] = self.filling.take();
        first
    }

    /// The program units that the read goes into.
    #[inline(always)]
    pub(super) fn of_read(&self) -> [Option<CopyNumber>; 2] {
        self.into
    }

    /// Takes out those that are full.
    #[inline(always)]
    pub(super) fn take_full(&mut self) -> [Option<CopyNumber>; 2] {
        std::mem::take(&mut self.full)
    }

    /// One is over. Returns it, and whether more are over now with all before them.
    #[inline(always)]
    pub(super) fn end(&mut self, number: CopyNumber) -> (Copy, bool) {
        let low = self.log.low_water();
        let place = self.place_of(number);
        let copy = self.under_way[place as usize];
        let is_later = self.log.end(low + u64::from(place));
        for _ in low..self.log.low_water() {
            self.under_way.pop_front();
        }
        (copy, is_later)
    }

    #[inline(always)]
    fn place_of(&self, number: CopyNumber) -> u32 {
        number.index().wrapping_sub(self.log.low_water() as u32) & (u32::MAX >> 1)
    }

    /// The place of one that is not over.
    pub(super) fn first_of(&self, number: CopyNumber) -> PhysicalUnit {
        self.under_way[self.place_of(number) as usize].first
    }

    /// The smallest number of those that are full and not over.
    pub(super) fn oldest_full(&self) -> Option<SequenceNumber> {
        self.under_way.front().map(|copy| copy.number)
    }

    /// Returns true if one is being filled or is not over.
    pub(super) fn is_any(&self) -> bool {
        self.log.low_water() < self.log.next()
    }
}
