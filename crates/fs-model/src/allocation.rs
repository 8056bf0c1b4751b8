//! Block allocation: a bitmap for each block group, and ext4's two methods of choosing blocks.
//!
//! Small files are packed into windows of 2 MiB (locality groups). Large files begin at a multiple of the
//! power of two that would hold them, at most 8 MiB, so that they can grow contiguously.

use super::layout::{Extent, GROUP_BLOCKS, Layout};

/// Maximum size of files that are packed, in blocks (`mb_stream_req`: 64 KiB).
const SMALL_FILE_BLOCKS: u64 = 16;

/// Size in blocks of the windows that small files are packed into (`mb_group_prealloc`: 2 MiB).
const WINDOW_BLOCKS: u64 = 512;

/// Maximum alignment of large files in blocks: 8 MiB.
const MAX_ALIGNMENT: u64 = 2048;

const BITMAP_WORDS: usize = (GROUP_BLOCKS / 64) as usize;

/// Blocks of one group that are taken.
struct Group {
    /// One bit for each block; empty if no block of the group is taken.
    allocated: Vec<u64>,
    blocks: u64,
    free: u64,
    /// True if all free blocks of the group were trimmed, and none was freed since.
    trimmed: bool,
}

impl Group {
    fn is_allocated(&self, place: u64) -> bool {
        self.allocated.get((place / 64) as usize).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    fn set(&mut self, place: u64, allocated: bool) {
        if self.allocated.is_empty() {
            self.allocated = vec![0; BITMAP_WORDS];
        }
        let bit = 1 << (place % 64);
        let word = &mut self.allocated[(place / 64) as usize];
        assert!((*word & bit != 0) != allocated, "block {place} changes hands");
        *word ^= bit;
        self.free = if allocated { self.free - 1 } else { self.free + 1 };
    }

    /// Returns the first run of free blocks from `from` on: its first block and its length.
    fn next_free_run(&self, from: u64) -> Option<(u64, u64)> {
        if self.allocated.is_empty() {
            return (from < self.blocks).then(|| (from, self.blocks - from));
        }
        let mut first = from;
        while first < self.blocks {
            if first.is_multiple_of(64) && self.allocated[(first / 64) as usize] == u64::MAX {
                first += 64;
            } else if self.is_allocated(first) {
                first += 1;
            } else {
                break;
            }
        }
        if first >= self.blocks {
            return None;
        }
        let mut end = first + 1;
        while end < self.blocks && !self.is_allocated(end) {
            end += 1;
        }
        Some((first, end - first))
    }
}

/// All blocks, taken and free.
pub(super) struct BlockAllocator {
    groups: Vec<Group>,
    /// Rest of the window that small files are packed into.
    window: Extent,
}

impl BlockAllocator {
    pub(super) fn new(layout: &Layout) -> BlockAllocator {
        let group = |number: u64| {
            let blocks = layout.group(number).count;
            Group { allocated: Vec::new(), blocks, free: blocks, trimmed: true }
        };
        let mut allocator = BlockAllocator {
            groups: (0..layout.groups()).map(group).collect(),
            window: Extent { first: 0, count: 0 },
        };
        for extent in layout.reserved() {
            allocator.set_allocated(extent, true);
        }
        allocator
    }

    fn set_allocated(&mut self, extent: Extent, allocated: bool) {
        for block in extent.first..extent.end() {
            self.groups[(block / GROUP_BLOCKS) as usize].set(block % GROUP_BLOCKS, allocated);
        }
    }

    /// Returns the number of free blocks of a group.
    pub(super) fn free_blocks(&self, group: u64) -> u64 {
        self.groups[group as usize].free
    }

    /// Takes up to `wanted` contiguous blocks for a file of `file_blocks` blocks in all, near `group`, or
    /// right behind the block `after` if that place is free. `None` if no block is free.
    pub(super) fn allocate(
        &mut self,
        group: u64,
        after: Option<u64>,
        wanted: u64,
        file_blocks: u64,
    ) -> Option<Extent> {
        let found = (after.and_then(|after| self.adjacent(after, wanted)))
            .or_else(|| {
                (file_blocks <= SMALL_FILE_BLOCKS).then(|| self.in_window(group, wanted)).flatten()
            })
            .or_else(|| self.aligned(group, wanted, file_blocks))
            .or_else(|| self.longest_free_run(group, wanted))?;
        self.set_allocated(found, true);
        if found.first == self.window.first {
            let count = self.window.count.saturating_sub(found.count);
            self.window = Extent { first: found.end(), count };
        }
        Some(found)
    }

    /// Returns up to `wanted` free blocks right behind a block of the file.
    fn adjacent(&self, after: u64, wanted: u64) -> Option<Extent> {
        let (group, place) = (after / GROUP_BLOCKS, after % GROUP_BLOCKS + 1);
        let (first, count) = self.groups[group as usize].next_free_run(place)?;
        (first == place).then(|| Extent { first: after + 1, count: count.min(wanted) })
    }

    fn in_window(&mut self, group: u64, wanted: u64) -> Option<Extent> {
        if self.window.count < wanted || self.window.first / GROUP_BLOCKS != group {
            self.window = self.find(group, WINDOW_BLOCKS, WINDOW_BLOCKS.min(64))?;
        }
        let place = self.window.first % GROUP_BLOCKS;
        let (first, count) =
            self.groups[(self.window.first / GROUP_BLOCKS) as usize].next_free_run(place)?;
        // Another file may have grown into the window from before it: then the window is given up.
        let is_free = first == place && count >= wanted;
        if !is_free {
            self.window.count = 0;
            return None;
        }
        Some(Extent { first: self.window.first, count: wanted })
    }

    fn aligned(&self, group: u64, wanted: u64, file_blocks: u64) -> Option<Extent> {
        let alignment = file_blocks.next_power_of_two().min(MAX_ALIGNMENT);
        self.find(group, wanted, alignment)
    }

    /// Returns a run of `count` free blocks at a multiple of `alignment`, from `group` on.
    fn find(&self, group: u64, count: u64, alignment: u64) -> Option<Extent> {
        for number in self.groups_with_free_blocks(group) {
            let mut place = 0;
            while let Some((first, length)) = self.groups[number].next_free_run(place) {
                let start = first.next_multiple_of(alignment);
                if start + count <= first + length {
                    return Some(Extent { first: number as u64 * GROUP_BLOCKS + start, count });
                }
                place = first + length;
            }
        }
        None
    }

    /// Returns the longest run of free blocks, up to `wanted`: the fallback if there is no better place.
    fn longest_free_run(&self, group: u64, wanted: u64) -> Option<Extent> {
        let mut best: Option<Extent> = None;
        for number in self.groups_with_free_blocks(group) {
            let mut place = 0;
            while let Some((first, length)) = self.groups[number].next_free_run(place) {
                let count = length.min(wanted);
                if best.is_none_or(|best| best.count < count) {
                    best = Some(Extent { first: number as u64 * GROUP_BLOCKS + first, count });
                }
                place = first + length;
            }
        }
        best
    }

    /// Returns the groups with free blocks, beginning at `group` and wrapping around.
    fn groups_with_free_blocks(&self, group: u64) -> impl Iterator<Item = usize> {
        let count = self.groups.len();
        (0..count)
            .map(move |step| (group as usize + step) % count)
            .filter(|&number| self.groups[number].free > 0)
    }

    /// Frees blocks, which can be taken again from now on.
    pub(super) fn free(&mut self, extent: Extent, trimmed: bool) {
        self.set_allocated(extent, false);
        let group = &mut self.groups[(extent.first / GROUP_BLOCKS) as usize];
        group.trimmed &= trimmed;
    }

    /// Returns free runs of at least `least` blocks in groups in which blocks were freed since they were
    /// last trimmed. The groups count as trimmed from now on.
    pub(super) fn take_untrimmed(&mut self, least: u64) -> Vec<Extent> {
        let mut runs = Vec::new();
        for (number, group) in self.groups.iter_mut().enumerate() {
            if std::mem::replace(&mut group.trimmed, true) {
                continue;
            }
            let mut place = 0;
            while let Some((first, count)) = group.next_free_run(place) {
                if count >= least {
                    runs.push(Extent { first: number as u64 * GROUP_BLOCKS + first, count });
                }
                place = first + count;
            }
        }
        runs
    }
}
