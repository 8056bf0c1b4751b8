//! Blocks in doubly linked rings through one array: a ring per bucket, each step O(1).
//!
//! A ring goes through an entry for its bucket, behind the entries of the blocks. So no list has an end, and removing
//! or adding a block takes the same few accesses wherever it is: the block that the host overwrites next is random,
//! and a branch on it would be mispredicted.

use crate::prefetch::prefetch;

/// Index that stands for no block.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    previous: u32,
}

/// Lists of blocks, the last added first.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// Links of the blocks, then of the buckets: the next of a bucket is its first block, the previous its last.
    links: Vec<Links>,
    blocks: u32,
}

impl Lists {
    /// Returns `buckets` empty lists for `blocks` blocks.
    pub(super) fn new(blocks: u32, buckets: usize) -> Self {
        let places = 0..blocks + buckets as u32;
        Lists { links: places.map(|it| Links { next: it, previous: it }).collect(), blocks }
    }

    /// Returns the number of lists.
    pub(super) fn buckets(&self) -> usize {
        self.links.len() - self.blocks as usize
    }

    #[inline(always)]
    fn place_of(&self, bucket: usize) -> u32 {
        self.blocks + bucket as u32
    }

    #[inline(always)]
    pub(super) fn is_empty(&self, bucket: usize) -> bool {
        self.first(bucket) == NONE
    }

    /// Returns the block that was added last, or [`NONE`].
    #[inline(always)]
    pub(super) fn first(&self, bucket: usize) -> u32 {
        self.block_at(self.links[self.place_of(bucket) as usize].next)
    }

    /// Returns the block that was added longest ago, or [`NONE`].
    #[inline(always)]
    pub(super) fn last(&self, bucket: usize) -> u32 {
        self.block_at(self.links[self.place_of(bucket) as usize].previous)
    }

    fn block_at(&self, place: u32) -> u32 {
        if place < self.blocks { place } else { NONE }
    }

    /// Adds a block at the front of a list.
    #[inline(always)]
    pub(super) fn link(&mut self, block: u32, bucket: usize) {
        let bucket = self.place_of(bucket);
        let first = self.links[bucket as usize].next;
        self.links[bucket as usize].next = block;
        self.links[first as usize].previous = block;
        self.links[block as usize] = Links { next: first, previous: bucket };
    }

    /// Adds a block directly behind the block `before`.
    pub(super) fn link_behind(&mut self, block: u32, before: u32) {
        let next = self.links[before as usize].next;
        self.links[before as usize].next = block;
        self.links[next as usize].previous = block;
        self.links[block as usize] = Links { next, previous: before };
    }

    /// Adds a block at the end of a list.
    pub(super) fn link_last(&mut self, block: u32, bucket: usize) {
        let bucket = self.place_of(bucket);
        let last = self.links[bucket as usize].previous;
        self.links[bucket as usize].previous = block;
        self.links[last as usize].next = block;
        self.links[block as usize] = Links { next: bucket, previous: last };
    }

    /// Removes a block from its list. The links of the removed block itself keep their old values until it is linked
    /// again.
    #[inline(always)]
    pub(super) fn unlink(&mut self, block: u32) {
        let Links { next, previous } = self.links[block as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
    }

    /// Iterates over all blocks, list by list, each from its first block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.buckets())
            .flat_map(move |bucket| self.some_from(self.first(bucket), |links| links.next))
    }

    /// Iterates over the blocks of a list from its last block, which was added longest ago.
    pub(super) fn blocks_from_last(&self, bucket: usize) -> impl Iterator<Item = u32> + '_ {
        self.some_from(self.last(bucket), |links| links.previous)
    }

    /// Iterates over the blocks from `block` on; `further` selects the link to follow.
    fn some_from(&self, block: u32, further: fn(Links) -> u32) -> impl Iterator<Item = u32> + '_ {
        let some = |block: u32| (block != NONE).then_some(block);
        let after = move |&it: &u32| some(self.block_at(further(self.links[it as usize])));
        std::iter::successors(some(block), after)
    }

    /// Prefetches the links of `block`.
    #[inline(always)]
    pub(super) fn prefetch(&self, block: u32) {
        prefetch(&self.links, block as usize);
    }
}
