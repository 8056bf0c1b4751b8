//! Blocks in doubly linked rings through one array: a ring per bucket, each step O(1).
//!
//! A ring goes through its bucket's own place, which stands behind those of the blocks. So no list
//! ends anywhere, and to take a block out or put one in is the same few accesses wherever it lies:
//! which block the host overwrites next is chance, and no branch.

use crate::prefetch::prefetch;

/// No block.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    previous: u32,
}

/// Lists of blocks. What is added comes first.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// Of the blocks, then of the buckets: a bucket is followed by its first block, and comes behind
    /// its last.
    links: Vec<Links>,
    blocks: u32,
}

impl Lists {
    /// `buckets` empty lists for `blocks` blocks.
    pub(super) fn new(blocks: u32, buckets: usize) -> Self {
        let places = 0..blocks + buckets as u32;
        Lists { links: places.map(|it| Links { next: it, previous: it }).collect(), blocks }
    }

    /// Returns how many lists there are.
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

    /// The block that was added last, or [`NONE`].
    #[inline(always)]
    pub(super) fn first(&self, bucket: usize) -> u32 {
        self.block_at(self.links[self.place_of(bucket) as usize].next)
    }

    /// The block that was added longest ago, or [`NONE`].
    #[inline(always)]
    pub(super) fn last(&self, bucket: usize) -> u32 {
        self.block_at(self.links[self.place_of(bucket) as usize].previous)
    }

    fn block_at(&self, place: u32) -> u32 {
        if place < self.blocks { place } else { NONE }
    }

    /// Adds a block in front.
    #[inline(always)]
    pub(super) fn link(&mut self, block: u32, bucket: usize) {
        let bucket = self.place_of(bucket);
        let first = self.links[bucket as usize].next;
        self.links[bucket as usize].next = block;
        self.links[first as usize].previous = block;
        self.links[block as usize] = Links { next: first, previous: bucket };
    }

    /// Adds a block directly behind `before`.
    pub(super) fn link_behind(&mut self, block: u32, before: u32) {
        let next = self.links[before as usize].next;
        self.links[before as usize].next = block;
        self.links[next as usize].previous = block;
        self.links[block as usize] = Links { next, previous: before };
    }

    /// Puts back a block that was the last.
    pub(super) fn link_last(&mut self, block: u32, bucket: usize) {
        let bucket = self.place_of(bucket);
        let last = self.links[bucket as usize].previous;
        self.links[bucket as usize].previous = block;
        self.links[last as usize].next = block;
        self.links[block as usize] = Links { next: bucket, previous: last };
    }

    /// Takes a block out of its list. What is linked to it is left as it is: it is linked again
    /// before it is taken out again.
    #[inline(always)]
    pub(super) fn unlink(&mut self, block: u32) {
        let Links { next, previous } = self.links[block as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
    }

    /// All blocks, list by list, each from its first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.buckets())
            .flat_map(move |bucket| self.some_from(self.first(bucket), |links| links.next))
    }

    /// The blocks of a list from its last, which is the one that was added longest ago.
    pub(super) fn blocks_from_last(&self, bucket: usize) -> impl Iterator<Item = u32> + '_ {
        self.some_from(self.last(bucket), |links| links.previous)
    }

    /// The blocks from `block` on, each followed by the one that `further` says.
    fn some_from(&self, block: u32, further: fn(Links) -> u32) -> impl Iterator<Item = u32> + '_ {
        let some = |block: u32| (block != NONE).then_some(block);
        let after = move |&it: &u32| some(self.block_at(further(self.links[it as usize])));
        std::iter::successors(some(block), after)
    }

    /// Asks for the memory that taking `block` out will touch.
    #[inline(always)]
    pub(super) fn prefetch(&self, block: u32) {
        prefetch(&self.links, block as usize);
    }
}
