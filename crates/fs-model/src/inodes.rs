//! Inodes: content and extents of files and directories, and the metadata blocks that change with them.

use std::collections::BTreeMap;

use ssdlab_error::DriveError;
use ssdlab_units::Instant;

use super::layout::{Extent, GROUP_BLOCKS, Layout};
use super::{FileSystem, TICK, no_space};

/// A file or directory, named by its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNumber(pub(super) u64);

/// Number of extents that fit into an inode; more need a block of their own.
const EXTENTS_IN_INODE: usize = 4;

/// Kind of object that an inode describes.
pub(super) enum Kind {
    File {
        /// Content that programs wrote; shorter than the file where they did not give the content.
        content: Vec<u8>,
    },
    Directory {
        entries: BTreeMap<Box<str>, Entry>,
        /// Bytes of each block that entries occupy.
        used_bytes: Vec<u64>,
    },
}

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) file: FileNumber,
    /// Index of the directory's block that holds the name.
    pub(super) block: usize,
}

/// A run of a file's blocks.
#[derive(Clone, Copy)]
pub(super) struct FileExtent {
    /// First block of the run, counted from the start of the file.
    pub(super) file_block: u64,
    pub(super) extent: Extent,
}

/// An inode.
pub(super) struct Inode {
    pub(super) kind: Kind,
    pub(super) size: u64,
    /// Size that the inode on the drive will have after the next commit.
    pub(super) disk_size: u64,
    pub(super) extents: Vec<FileExtent>,
    /// The block of the extent tree, if the inode is too small for it.
    leaf: Option<u64>,
    /// Dirty pages, which the drive does not have: the end of each range by its first page.
    pub(super) dirty: BTreeMap<u64, u64>,
    pub(super) dirty_since: Instant,
    /// Clock tick of the time stamp.
    time_stamp_tick: u64,
    /// Transactions that `fsync` and `fdatasync` wait for.
    pub(super) sync_transaction: u64,
    pub(super) data_sync_transaction: u64,
}

impl Inode {
    pub(super) fn new(kind: Kind) -> Inode {
        Inode {
            kind,
            size: 0,
            disk_size: 0,
            extents: Vec::new(),
            leaf: None,
            dirty: BTreeMap::new(),
            dirty_since: Instant::START,
            time_stamp_tick: u64::MAX,
            sync_transaction: 0,
            data_sync_transaction: 0,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory { .. })
    }

    /// Returns the blocks on the drive for the blocks `first..end` of the file, in runs of first block in
    /// the file, length, and first block on the drive; `None` for a run that has no place yet.
    pub(super) fn places(&self, first: u64, end: u64) -> Vec<(u64, u64, Option<u64>)> {
        let (mut runs, mut at) = (Vec::new(), first);
        for mapped in &self.extents {
            let (from, to) = (mapped.file_block, mapped.file_block + mapped.extent.count);
            if to <= at {
                continue;
            }
            if from >= end {
                break;
            }
            if from > at {
                runs.push((at, from - at, None));
                at = from;
            }
            let count = to.min(end) - at;
            runs.push((at, count, Some(mapped.extent.first + at - from)));
            at += count;
        }
        if at < end {
            runs.push((at, end - at, None));
        }
        runs
    }

    /// Maps a run of the file, from its block `at` on, to `extent`.
    pub(super) fn map(&mut self, at: u64, extent: Extent) {
        let index = self.extents.partition_point(|mapped| mapped.file_block < at);
        if let Some(before) = index.checked_sub(1).map(|index| &mut self.extents[index])
            && before.file_block + before.extent.count == at
            && before.extent.end() == extent.first
            && before.extent.first / GROUP_BLOCKS == extent.first / GROUP_BLOCKS
        {
            before.extent.count += extent.count;
            return;
        }
        self.extents.insert(index, FileExtent { file_block: at, extent });
    }
}

impl FileSystem<'_> {
    pub(super) fn inode(&self, file: FileNumber) -> &Inode {
        self.inodes.get(&file.0).expect("a file that exists")
    }

    pub(super) fn inode_mut(&mut self, file: FileNumber) -> &mut Inode {
        self.inodes.get_mut(&file.0).expect("a file that exists")
    }

    /// Frees the blocks of a file from its block `from` on.
    pub(super) fn free_blocks_from(&mut self, file: FileNumber, from: u64) {
        let inode = self.inode_mut(file);
        let mut freed = Vec::new();
        while let Some(last) = inode.extents.last_mut() {
            if last.file_block + last.extent.count <= from {
                break;
            }
            let keep = from.saturating_sub(last.file_block);
            freed.push(Extent { first: last.extent.first + keep, count: last.extent.count - keep });
            last.extent.count = keep;
            if keep > 0 {
                break;
            }
            inode.extents.pop();
        }
        if inode.extents.len() <= EXTENTS_IN_INODE
            && let Some(leaf) = inode.leaf.take()
        {
            freed.push(Extent { first: leaf, count: 1 });
        }
        for extent in freed {
            self.mark_bitmap_dirty(extent);
            self.journal.free_after_commit(extent);
        }
    }

    /// Notes that blocks were taken or freed: their bitmap and group descriptor change.
    pub(super) fn mark_bitmap_dirty(&mut self, extent: Extent) {
        let group = extent.first / GROUP_BLOCKS;
        self.add_to_transaction(self.layout.block_bitmap(group));
        self.add_to_transaction(self.layout.descriptor(group));
    }

    /// Notes that an inode changes; `for_data` is true if the data cannot be found without the change.
    pub(super) fn mark_inode_dirty(&mut self, file: FileNumber, for_data: bool) {
        self.add_to_transaction(self.layout.inode_block(file.0));
        let transaction = self.journal.running();
        let inode = self.inode_mut(file);
        inode.sync_transaction = transaction;
        if for_data {
            inode.data_sync_transaction = transaction;
        }
    }

    /// Updates the time stamp of a file.
    pub(super) fn update_time_stamp(&mut self, file: FileNumber) {
        let tick = self.now.nanos() / TICK.nanos();
        if self.inode(file).time_stamp_tick != tick {
            self.inode_mut(file).time_stamp_tick = tick;
            self.mark_inode_dirty(file, false);
        }
    }

    /// Gives the file a block for its extents, if they do not fit into the inode any more.
    pub(super) fn make_leaf(&mut self, file: FileNumber) -> Result<(), DriveError> {
        let inode = self.inode(file);
        if let Some(leaf) = inode.leaf {
            self.add_to_transaction(leaf);
        } else if inode.extents.len() > EXTENTS_IN_INODE {
            let group = Layout::group_of_inode(file.0);
            let taken = self.allocator.allocate(group, None, 1, 1).ok_or_else(no_space)?;
            self.mark_bitmap_dirty(taken);
            self.add_to_transaction(taken.first);
            self.inode_mut(file).leaf = Some(taken.first);
        }
        Ok(())
    }
}
