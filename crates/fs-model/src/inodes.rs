//! Inodes: what a file or directory is, where its blocks lie, and which metadata a change of that changes.

use std::collections::BTreeMap;

use ssdlab_error::DriveError;
use ssdlab_units::Instant;

use super::layout::{Extent, GROUP_BLOCKS, Layout};
use super::{FileSystem, TICK, full};

/// A file or directory: its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNumber(pub(super) u64);

/// Extents that fit into an inode; more of them need a block of their own.
const EXTENTS_IN_INODE: usize = 4;

/// What an inode stands for.
pub(super) enum Kind {
    File {
        /// What programs wrote; shorter than the file where they did not say what.
        content: Vec<u8>,
    },
    Directory {
        entries: BTreeMap<Box<str>, Entry>,
        /// Bytes of each block that entries take.
        filled: Vec<u64>,
    },
}

/// A name in a directory.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) file: FileNumber,
    /// Which block of the directory holds it.
    pub(super) block: usize,
}

/// A run of a file's blocks.
#[derive(Clone, Copy)]
pub(super) struct Mapped {
    /// Its first block, counted from the start of the file.
    pub(super) at: u64,
    pub(super) extent: Extent,
}

/// An inode.
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) size: u64,
    /// The size that the inode on the drive will have after the next commit.
    pub(super) size_noted: u64,
    pub(super) extents: Vec<Mapped>,
    /// The block of the extent tree, where the inode is too small for it.
    leaf: Option<u64>,
    /// Pages that the drive does not have: first to end, by their first.
    pub(super) dirty: BTreeMap<u64, u64>,
    pub(super) dirty_since: Instant,
    /// The tick of the time stamp.
    stamp: u64,
    /// The transactions that hold what `fsync` and what `fdatasync` wait for.
    pub(super) sync_transaction: u64,
    pub(super) data_sync_transaction: u64,
}

impl Node {
    pub(super) fn new(kind: Kind) -> Node {
        Node {
            kind,
            size: 0,
            size_noted: 0,
            extents: Vec::new(),
            leaf: None,
            dirty: BTreeMap::new(),
            dirty_since: Instant::START,
            stamp: u64::MAX,
            sync_transaction: 0,
            data_sync_transaction: 0,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory { .. })
    }

    /// Blocks on the drive that `first..end` of the file lie on, in runs; `None` for a run that
    /// has no place yet.
    pub(super) fn places(&self, first: u64, end: u64) -> Vec<(u64, u64, Option<u64>)> {
        let (mut runs, mut at) = (Vec::new(), first);
        for mapped in &self.extents {
            let (from, to) = (mapped.at, mapped.at + mapped.extent.count);
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

    /// Notes that a run of the file has a place now.
    pub(super) fn map(&mut self, at: u64, extent: Extent) {
        let index = self.extents.partition_point(|mapped| mapped.at < at);
        if let Some(before) = index.checked_sub(1).map(|index| &mut self.extents[index])
            && before.at + before.extent.count == at
            && before.extent.end() == extent.first
            && before.extent.first / GROUP_BLOCKS == extent.first / GROUP_BLOCKS
        {
            before.extent.count += extent.count;
            return;
        }
        self.extents.insert(index, Mapped { at, extent });
    }
}

impl FileSystem<'_> {
    pub(super) fn node(&self, file: FileNumber) -> &Node {
        self.nodes.get(&file.0).expect("a file that exists")
    }

    pub(super) fn node_mut(&mut self, file: FileNumber) -> &mut Node {
        self.nodes.get_mut(&file.0).expect("a file that exists")
    }

    /// Frees the blocks of a file from its block `from` on.
    pub(super) fn free_from(&mut self, file: FileNumber, from: u64) {
        let node = self.node_mut(file);
        let mut freed = Vec::new();
        while let Some(last) = node.extents.last_mut() {
            if last.at + last.extent.count <= from {
                break;
            }
            let keep = from.saturating_sub(last.at);
            freed.push(Extent { first: last.extent.first + keep, count: last.extent.count - keep });
            last.extent.count = keep;
            if keep > 0 {
                break;
            }
            node.extents.pop();
        }
        if node.extents.len() <= EXTENTS_IN_INODE
            && let Some(leaf) = node.leaf.take()
        {
            freed.push(Extent { first: leaf, count: 1 });
        }
        for extent in freed {
            self.note_taken(extent);
            self.journal.free(extent);
        }
    }

    /// The bitmaps of blocks that were taken or freed change.
    pub(super) fn note_taken(&mut self, extent: Extent) {
        let group = extent.first / GROUP_BLOCKS;
        self.change(self.layout.block_bitmap(group));
        self.change(self.layout.descriptor(group));
    }

    /// The inode changes; `for_data` where the data cannot be found without the change.
    pub(super) fn change_inode(&mut self, file: FileNumber, for_data: bool) {
        self.change(self.layout.inode_block(file.0));
        let transaction = self.journal.running();
        let node = self.node_mut(file);
        node.sync_transaction = transaction;
        if for_data {
            node.data_sync_transaction = transaction;
        }
    }

    /// A new time stamp.
    pub(super) fn stamp(&mut self, file: FileNumber) {
        let tick = self.now.nanos() / TICK.nanos();
        if self.node(file).stamp != tick {
            self.node_mut(file).stamp = tick;
            self.change_inode(file, false);
        }
    }

    /// Gives the file a block for its extents, where the inode has become too small.
    pub(super) fn make_leaf(&mut self, file: FileNumber) -> Result<(), DriveError> {
        let node = self.node(file);
        if let Some(leaf) = node.leaf {
            self.change(leaf);
        } else if node.extents.len() > EXTENTS_IN_INODE {
            let group = Layout::group_of_inode(file.0);
            let taken = self.space.take(group, None, 1, 1).ok_or_else(full)?;
            self.note_taken(taken);
            self.change(taken.first);
            self.node_mut(file).leaf = Some(taken.first);
        }
        Ok(())
    }
}
