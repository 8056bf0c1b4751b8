//! Which block to collect: closed blocks in buckets by their number of valid units.
//!
//! Each bucket is a doubly linked list through arrays, so that taking a unit away from a block
//! and choosing the block with the fewest valid units both cost O(1): the lowest non-empty bucket
//! is remembered, and moves up only past buckets that emptied.

use crate::prefetch::prefetch;
use crate::units::BlockIndex;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    previous: u32,
}

/// The closed blocks of a drive, ordered by valid units.
#[derive(Clone, Debug)]
pub(crate) struct VictimQueue {
    heads: Vec<u32>,
    links: Vec<Links>,
    lowest: usize,
    len: u32,
}

impl VictimQueue {
    /// An empty queue for `blocks` blocks of `units_per_block` units.
    pub(crate) fn new(blocks: u32, units_per_block: u32) -> Self {
        VictimQueue {
            heads: vec![NONE; units_per_block as usize + 1],
            links: vec![Links { next: NONE, previous: NONE }; blocks as usize],
            lowest: units_per_block as usize + 1,
            len: 0,
        }
    }

    /// Closed blocks in the queue.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a block that holds `valid` units. Of equals the one whose count changed last
    /// is chosen first.
    pub(crate) fn insert(&mut self, block: BlockIndex, valid: u32) {
        self.link(block.0, valid as usize);
        self.len += 1;
    }

    #[inline(always)]
    fn link(&mut self, block: u32, bucket: usize) {
        let head = self.heads[bucket];
        self.links[block as usize] = Links { next: head, previous: NONE };
        if head != NONE {
            self.links[head as usize].previous = block;
        }
        self.heads[bucket] = block;
        if bucket < self.lowest {
            self.lowest = bucket;
        }
    }

    #[inline(always)]
    fn unlink(&mut self, block: u32, bucket: usize) {
        let Links { next, previous } = self.links[block as usize];
        if previous == NONE {
            assert!(self.heads[bucket] == block, "a block is in the bucket of its valid count");
            self.heads[bucket] = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
    }

    /// Moves a block that held `valid` units to the bucket below.
    #[inline(always)]
    pub(crate) fn lose_unit(&mut self, block: BlockIndex, valid: u32) {
        self.unlink(block.0, valid as usize);
        self.link(block.0, valid as usize - 1);
    }

    /// Takes out the block with the fewest valid units (greedy collection).
    pub(crate) fn take_fewest(&mut self) -> Option<BlockIndex> {
        if self.len == 0 {
            return None;
        }
        while self.heads[self.lowest] == NONE {
            self.lowest += 1;
        }
        let block = self.heads[self.lowest];
        self.unlink(block, self.lowest);
        self.len -= 1;
        Some(BlockIndex(block))
    }

    /// The fewest valid units any closed block holds.
    pub(crate) fn fewest(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        while self.heads[self.lowest] == NONE {
            self.lowest += 1;
        }
        Some(self.lowest as u32)
    }

    /// Asks for the memory that [`VictimQueue::lose_unit`] of `block` will touch.
    #[inline(always)]
    pub(crate) fn prefetch(&self, block: BlockIndex) {
        prefetch(&self.links, block.0 as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn the_block_with_the_fewest_valid_units_comes_first() {
        let mut queue = VictimQueue::new(3, 8);
        assert_eq!(queue.take_fewest(), None);
        for block in 0..3 {
            queue.insert(BlockIndex(block), 8);
        }
        queue.lose_unit(BlockIndex(1), 8);
        assert_eq!(queue.fewest(), Some(7));
        assert_eq!(queue.take_fewest(), Some(BlockIndex(1)));
        assert_eq!(queue.len(), 2);
    }

    #[test]
    fn it_agrees_with_a_plain_search() {
        let mut generator = Pcg64Mcg::seed_from_u64(7);
        let mut queue = VictimQueue::new(64, 32);
        let mut valid: Vec<Option<u32>> = vec![None; 64];
        for _ in 0..20_000 {
            let block = generator.random_range(0..64usize);
            match (generator.random_range(0..10u32), valid[block]) {
                (0..=7, Some(count)) if count > 0 => {
                    queue.lose_unit(BlockIndex(block as u32), count);
                    valid[block] = Some(count - 1);
                }
                (_, None) => {
                    queue.insert(BlockIndex(block as u32), 32);
                    valid[block] = Some(32);
                }
                (9, _) => {
                    let fewest = valid.iter().flatten().min().copied();
                    let taken = queue.take_fewest();
                    assert_eq!(taken.map(|block| valid[block.0 as usize].unwrap()), fewest);
                    if let Some(block) = taken {
                        valid[block.0 as usize] = None;
                    }
                }
                _ => {}
            }
        }
    }
}
