//! The pool of free blocks, from which write frontiers take their open blocks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::geometry::Geometry;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::BlockIndex;

/// Pool of erased blocks, per group of dies.
///
/// The block that was erased longest ago is taken first, which spreads wear over the blocks that are rewritten at
/// all. With dynamic wear levelling the block that was erased least often is taken first.
#[derive(Clone, Debug)]
pub(crate) struct FreeBlockPool {
    groups: Vec<FreeGroup>,
    len: u32,
}

#[derive(Clone, Debug)]
struct FreeGroup {
    /// Blocks that were never used, as a range: a new drive keeps no list of them.
    unused: std::ops::Range<u32>,
    recycled: Recycled,
}

/// Free blocks that were used before.
#[derive(Clone, Debug)]
enum Recycled {
    OldestFirst(VecDeque<u32>),
    /// Ordered by erases, and of equal ones by the order in which they came: erases, a growing number, the block.
    LeastWornFirst(BinaryHeap<Reverse<(u32, u64, u32)>>, u64),
}

impl Recycled {
    fn put(&mut self, block: u32, erases: u32) {
        match self {
            Recycled::OldestFirst(blocks) => blocks.push_back(block),
            Recycled::LeastWornFirst(blocks, next) => {
                blocks.push(Reverse((erases, *next, block)));
                *next += 1;
            }
        }
    }

    fn len(&self) -> u32 {
        let len = match self {
            Recycled::OldestFirst(blocks) => blocks.len(),
            Recycled::LeastWornFirst(blocks, _) => blocks.len(),
        };
        len as u32
    }

    fn take(&mut self) -> Option<u32> {
        match self {
            Recycled::OldestFirst(blocks) => blocks.pop_front(),
            Recycled::LeastWornFirst(blocks, _) => blocks.pop().map(|Reverse((_, _, it))| it),
        }
    }

    /// Returns all blocks, in the order in which they would be taken.
    fn blocks(&self) -> Vec<u32> {
        match self {
            Recycled::OldestFirst(blocks) => blocks.iter().copied().collect(),
            Recycled::LeastWornFirst(blocks, _) => {
                let mut sorted: Vec<_> = blocks.iter().map(|Reverse(it)| *it).collect();
                sorted.sort_unstable();
                sorted.into_iter().map(|(_, _, block)| block).collect()
            }
        }
    }

    /// Returns an empty list with the same order.
    fn empty_like(&self) -> Recycled {
        match self {
            Recycled::OldestFirst(_) => Recycled::OldestFirst(VecDeque::new()),
            Recycled::LeastWornFirst(..) => Recycled::LeastWornFirst(BinaryHeap::new(), 0),
        }
    }
}

impl FreeBlockPool {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let size = geometry.blocks_per_group();
        let groups = (0..geometry.groups())
            .map(|group| FreeGroup {
                unused: group * size..(group + 1) * size,
                recycled: Recycled::OldestFirst(VecDeque::new()),
            })
            .collect();
        FreeBlockPool { groups, len: geometry.blocks() }
    }

    /// Makes the pool take the least worn block first. For a pool of blocks that were never used.
    pub(crate) fn least_worn_first(mut self) -> Self {
        for group in &mut self.groups {
            group.recycled = Recycled::LeastWornFirst(BinaryHeap::new(), 0);
        }
        self
    }

    /// Returns an empty pool with the same order.
    pub(crate) fn empty_like(&self) -> Self {
        // The range of never used blocks is empty; restoring a saved pool sets its beginning.
        let used = |it: &FreeGroup| it.unused.end..it.unused.end;
        let group =
            |it: &FreeGroup| FreeGroup { unused: used(it), recycled: it.recycled.empty_like() };
        FreeBlockPool { groups: self.groups.iter().map(group).collect(), len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of free blocks of a group of dies.
    #[inline(always)]
    pub(crate) fn len_of(&self, group: u32) -> u32 {
        let FreeGroup { unused, recycled } = &self.groups[group as usize];
        unused.len() as u32 + recycled.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of blocks that were never taken since the drive was made.
    pub(crate) fn never_used(&self) -> u32 {
        self.groups.iter().map(|group| group.unused.len() as u32).sum()
    }

    pub(crate) fn take(&mut self, group: u32) -> Option<BlockIndex> {
        let group = &mut self.groups[group as usize];
        let block = group.unused.next().or_else(|| group.recycled.take())?;
        self.len -= 1;
        Some(BlockIndex(block))
    }

    /// Adds a block that was erased `erases` times.
    pub(crate) fn put(&mut self, group: u32, block: BlockIndex, erases: u32) {
        self.groups[group as usize].recycled.put(block.0, erases);
        self.len += 1;
    }

    /// Iterates over all free blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        let of_group = |it: &FreeGroup| it.unused.clone().chain(it.recycled.blocks());
        self.groups.iter().flat_map(of_group).map(BlockIndex)
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let FreeBlockPool { groups, len: _ } = self;
        for FreeGroup { unused, recycled } in groups {
            to.word(unused.start)?;
            to.list(recycled.blocks().into_iter())?;
        }
        Ok(())
    }

    /// Restores a saved pool into a new one; `erases` returns the number of times a block was erased. The caller
    /// checks that the blocks are free and listed once.
    pub(crate) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        erases: impl Fn(BlockIndex) -> u32,
    ) -> Result<(), SnapshotError> {
        self.len = 0;
        for FreeGroup { unused, recycled } in &mut self.groups {
            let all = unused.clone();
            unused.start = from.at_most(all.end, "the first block never used")?;
            let listed = from.list(all.len() as u32, all.end, "the list of free blocks")?;
            if unused.start < all.start || listed.iter().any(|block| !all.contains(block)) {
                return damaged("a free block is in a group that is not its own");
            }
            self.len += (unused.len() + listed.len()) as u32;
            for block in listed {
                recycled.put(block, erases(BlockIndex(block)));
            }
        }
        Ok(())
    }
}
