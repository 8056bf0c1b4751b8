//! Erases: one operation on each die of a block, announced before they are issued.

use std::collections::VecDeque;
use std::ops::Range;

/// Number of an erase, in the order of announcement; wraps at 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EraseId(pub(crate) u32);

const NUMBER_MASK: u32 = u32::MAX >> 1;

impl EraseId {
    /// Returns how many erases later than `other` this one was announced; a large number if it was announced earlier.
    pub fn announced_after(self, other: EraseId) -> u32 {
        self.0.wrapping_sub(other.0) & NUMBER_MASK
    }
}

/// An erase of a block, with its part on each die.
#[derive(Clone, Debug)]
struct Erase {
    first_die: u32,
    dies: u32,
    /// One bit for each die, set until the die has erased its part.
    pending: Vec<u64>,
    dies_left: u32,
    is_issued: bool,
}

/// All erases that were announced and are not complete, and complete ones announced between those.
#[derive(Clone, Debug, Default)]
pub(crate) struct Erases {
    erases: VecDeque<Erase>,
    /// Number of the first erase.
    first: u32,
}

impl Erases {
    pub(crate) fn announce(&mut self, dies: Range<u32>) -> EraseId {
        let count = dies.end - dies.start;
        self.erases.push_back(Erase {
            first_die: dies.start,
            dies: count,
            pending: vec![u64::MAX; count.div_ceil(64) as usize],
            dies_left: count,
            is_issued: false,
        });
        EraseId(self.first.wrapping_add(self.erases.len() as u32 - 1) & NUMBER_MASK)
    }

    fn index_of(&self, id: EraseId) -> usize {
        id.announced_after(EraseId(self.first)) as usize
    }

    /// Issues an erase and returns its dies.
    pub(crate) fn issue(&mut self, id: EraseId) -> Range<u32> {
        let place = self.index_of(id);
        let erase = &mut self.erases[place];
        assert!(!erase.is_issued, "an erase is issued once");
        erase.is_issued = true;
        erase.first_die..erase.first_die + erase.dies
    }

    /// Returns true if a die's part of the block is not erased yet.
    pub(crate) fn is_pending(&self, id: EraseId, die: u32) -> bool {
        self.erases.get(self.index_of(id)).is_some_and(|erase| {
            let place = die - erase.first_die;
            erase.pending[place as usize / 64] >> (place % 64) & 1 != 0
        })
    }

    /// Notes that a die has erased its part. Returns true if that was the last part.
    pub(crate) fn note_erased(&mut self, id: EraseId, die: u32) -> bool {
        let place = self.index_of(id);
        let erase = &mut self.erases[place];
        let bit = die - erase.first_die;
        erase.pending[bit as usize / 64] &= !(1 << (bit % 64));
        erase.dies_left -= 1;
        let is_over = erase.dies_left == 0;
        while self.erases.front().is_some_and(|erase| erase.dies_left == 0) {
            self.erases.pop_front();
            self.first = self.first.wrapping_add(1) & NUMBER_MASK;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_announcements_is_known_also_where_numbers_wrap() {
        let ids = [NUMBER_MASK - 1, NUMBER_MASK, 0, 1].map(EraseId);
        for (place, &id) in ids.iter().enumerate() {
            assert_eq!(id.announced_after(ids[0]), place as u32);
            assert!(place == 0 || ids[0].announced_after(id) > NUMBER_MASK / 2);
        }
    }
}
