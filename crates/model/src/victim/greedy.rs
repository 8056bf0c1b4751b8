//! Greedy policy: a bucket per number of valid units; the victim comes from the lowest that is not empty.

use super::lists::Lists;

/// Closed blocks by valid units. Losing a unit and finding the block with the fewest both cost
/// O(1): the lowest bucket is remembered, and moves up only past buckets that emptied.
#[derive(Clone, Debug)]
pub(super) struct Greedy {
    lists: Lists,
    lowest: usize,
}

impl Greedy {
    pub(super) fn new(blocks: u32, units_per_block: u32) -> Self {
        let buckets = units_per_block as usize + 1;
        Greedy { lists: Lists::new(blocks, buckets), lowest: buckets }
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, block: u32, valid: u32) {
        let bucket = valid as usize;
        self.lists.link(block, bucket);
        self.lowest = self.lowest.min(bucket);
    }

    #[inline(always)]
    pub(super) fn invalidate_unit(&mut self, block: u32, valid: u32) {
        self.lists.unlink(block);
        self.insert(block, valid - 1);
    }

    pub(super) fn remove(&mut self, block: u32) {
        self.lists.unlink(block);
    }

    /// Removes and returns the block with the fewest valid units, and that number. The queue must not be empty.
    pub(super) fn take(&mut self) -> (u32, u32) {
        while self.lists.is_empty(self.lowest) {
            self.lowest += 1;
        }
        let block = self.lists.first(self.lowest);
        self.lists.unlink(block);
        (block, self.lowest as u32)
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.blocks()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, block: u32) {
        self.lists.prefetch(block);
    }
}
