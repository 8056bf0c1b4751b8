//! Blocks in doubly linked lists through arrays: one list per bucket, each step O(1).

use crate::prefetch::prefetch;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    previous: u32,
}

/// Lists of blocks. What is added comes first. `ENDS` says whether the last of a list is asked
/// for; where it is not, nothing is spent on it.
#[derive(Clone, Debug)]
pub(super) struct Lists<const ENDS: bool> {
    heads: Vec<u32>,
    tails: Vec<u32>,
    links: Vec<Links>,
}

impl<const ENDS: bool> Lists<ENDS> {
    /// `buckets` empty lists for `blocks` blocks.
    pub(super) fn new(blocks: u32, buckets: usize) -> Self {
        Lists {
            heads: vec![NONE; buckets],
            tails: vec![NONE; if ENDS { buckets } else { 0 }],
            links: vec![Links { next: NONE, previous: NONE }; blocks as usize],
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self, bucket: usize) -> bool {
        self.heads[bucket] == NONE
    }

    /// The block that was added last.
    #[inline(always)]
    pub(super) fn first(&self, bucket: usize) -> u32 {
        self.heads[bucket]
    }

    /// The block that was added longest ago, or [`NONE`].
    #[inline(always)]
    pub(super) fn last(&self, bucket: usize) -> u32 {
        self.tails[bucket]
    }

    /// Adds a block in front.
    #[inline(always)]
    pub(super) fn link(&mut self, block: u32, bucket: usize) {
        let head = self.heads[bucket];
        self.links[block as usize] = Links { next: head, previous: NONE };
        if head != NONE {
            self.links[head as usize].previous = block;
        } else if ENDS {
            self.tails[bucket] = block;
        }
        self.heads[bucket] = block;
    }

    /// Puts back a block that was the last.
    pub(super) fn link_last(&mut self, block: u32, bucket: usize) {
        let tail = self.tails[bucket];
        self.links[block as usize] = Links { next: NONE, previous: tail };
        if tail != NONE {
            self.links[tail as usize].next = block;
        } else {
            self.heads[bucket] = block;
        }
        self.tails[bucket] = block;
    }

    /// Takes a block out.
    #[inline(always)]
    pub(super) fn unlink(&mut self, block: u32, bucket: usize) {
        let Links { next, previous } = self.links[block as usize];
        if previous == NONE {
            assert!(self.heads[bucket] == block, "a block is in the bucket of its valid count");
            self.heads[bucket] = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        } else if ENDS {
            self.tails[bucket] = previous;
        }
    }

    /// All blocks, list by list, each from its first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        let some = |block: u32| (block != NONE).then_some(block);
        self.heads.iter().flat_map(move |&head| {
            std::iter::successors(some(head), move |&it| some(self.links[it as usize].next))
        })
    }

    /// The blocks of a list from its last, which is the one that was added longest ago.
    pub(super) fn blocks_from_last(&self, bucket: usize) -> impl Iterator<Item = u32> + '_ {
        let some = |block: u32| (block != NONE).then_some(block);
        let before = move |&it: &u32| some(self.links[it as usize].previous);
        std::iter::successors(some(self.last(bucket)), before)
    }

    /// Asks for the memory that taking `block` out will touch.
    #[inline(always)]
    pub(super) fn prefetch(&self, block: u32) {
        prefetch(&self.links, block as usize);
    }
}
