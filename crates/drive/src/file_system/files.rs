//! Files and directories: what programs do with them, and which metadata that changes.

use std::collections::BTreeMap;

use ssdlab_model::units::{ByteLength, Instant};

use super::layout::{BLOCK, Extent, GROUP_BLOCKS, Layout};
use super::queue::Queue;
use super::{FileSystem, TICK, full};
use crate::error::{DriveError, ErrorKind};
use crate::phase::Region;

/// A file or directory: its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNumber(pub(super) u64);

/// The root directory. (Its number on ext4 is 2; here inodes are counted from 0.)
const ROOT: FileNumber = FileNumber(0);

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
    block: usize,
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
    fn new(kind: Kind) -> Node {
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
    pub(super) fn make_root(&mut self) {
        let mut root = Node::new(Kind::Directory { entries: BTreeMap::new(), filled: vec![24] });
        let group = self.layout.journal().end() / GROUP_BLOCKS;
        let block = self.space.take(group, None, 1, 1).expect("a new file system has room");
        root.map(0, block);
        (root.size, root.size_noted) = (BLOCK.bytes(), BLOCK.bytes());
        self.nodes.insert(ROOT.0, root);
    }

    /// The root directory.
    pub fn root(&self) -> FileNumber {
        ROOT
    }

    pub(super) fn node(&self, file: FileNumber) -> &Node {
        self.nodes.get(&file.0).expect("a file that exists")
    }

    pub(super) fn node_mut(&mut self, file: FileNumber) -> &mut Node {
        self.nodes.get_mut(&file.0).expect("a file that exists")
    }

    /// What is called `name` in a directory.
    ///
    /// # Panics
    /// When `directory` is none, or was removed.
    pub fn find(&self, directory: FileNumber, name: &str) -> Option<FileNumber> {
        let Kind::Directory { entries, .. } = &self.node(directory).kind else {
            panic!("not a directory")
        };
        entries.get(name).map(|entry| entry.file)
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// When the name is taken, or there is no room.
    ///
    /// # Panics
    /// When `directory` is none, or was removed.
    pub fn create(&mut self, directory: FileNumber, name: &str) -> Result<FileNumber, DriveError> {
        let kind = Kind::File { content: Vec::new() };
        self.add(directory, name, kind, Layout::group_of_inode(directory.0))
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// When the name is taken, or there is no room.
    ///
    /// # Panics
    /// When `parent` is no directory, or was removed.
    pub fn create_directory(
        &mut self,
        parent: FileNumber,
        name: &str,
    ) -> Result<FileNumber, DriveError> {
        // Directories of the root are spread (Orlov's allocator); others stay with their parent.
        let group = if parent == ROOT {
            let groups = 0..self.layout.groups();
            let best = groups.rev().max_by_key(|&group| self.space.free_in(group));
            best.expect("some group")
        } else {
            Layout::group_of_inode(parent.0)
        };
        let kind = Kind::Directory { entries: BTreeMap::new(), filled: vec![24] };
        let made = self.add(parent, name, kind, group)?;
        let group = Layout::group_of_inode(made.0);
        let block = self.space.take(group, None, 1, 1).ok_or_else(full)?;
        self.note_taken(block);
        self.change(block.first);
        let node = self.node_mut(made);
        node.map(0, block);
        (node.size, node.size_noted) = (BLOCK.bytes(), BLOCK.bytes());
        Ok(made)
    }

    fn add(
        &mut self,
        directory: FileNumber,
        name: &str,
        kind: Kind,
        group: u64,
    ) -> Result<FileNumber, DriveError> {
        if self.find(directory, name).is_some() {
            let message = format!("{name} exists in the simulated file system");
            return Err(DriveError::new(ErrorKind::Usage, message));
        }
        let file = self.free_inode(group)?;
        self.nodes.insert(file.0, Node::new(kind));
        let group = Layout::group_of_inode(file.0);
        self.change(self.layout.inode_bitmap(group));
        self.change(self.layout.descriptor(group));
        self.change_inode(file, true);
        self.enter(directory, name, file)?;
        Ok(file)
    }

    fn free_inode(&mut self, group: u64) -> Result<FileNumber, DriveError> {
        let groups = self.layout.groups();
        for step in 0..groups {
            let group = (group + step) % groups;
            let hint = self.inode_hints[group as usize];
            let inodes = hint..Layout::inodes(group).end;
            // Inodes in use, in order: the first that is missing is free.
            let mut free = hint;
            for (&used, _) in self.nodes.range(inodes.clone()) {
                if used != free {
                    break;
                }
                free += 1;
            }
            if free < inodes.end {
                self.inode_hints[group as usize] = free + 1;
                return Ok(FileNumber(free));
            }
        }
        Err(full())
    }

    /// Puts a name into a directory.
    fn enter(
        &mut self,
        directory: FileNumber,
        name: &str,
        file: FileNumber,
    ) -> Result<(), DriveError> {
        let bytes = entry_bytes(name);
        let Kind::Directory { entries, filled } = &mut self.node_mut(directory).kind else {
            panic!("not a directory")
        };
        let found = filled.iter().rposition(|used| used + bytes <= BLOCK.bytes());
        let block = found.unwrap_or(filled.len());
        if found.is_none() {
            filled.push(0);
        }
        filled[block] += bytes;
        entries.insert(name.into(), Entry { file, block });
        if found.is_none() {
            self.grow_directory(directory, block as u64)?;
        }
        self.change_entry(directory, block);
        Ok(())
    }

    fn grow_directory(&mut self, directory: FileNumber, block: u64) -> Result<(), DriveError> {
        let after = self.node(directory).extents.last().map(|last| last.extent.end() - 1);
        let group = Layout::group_of_inode(directory.0);
        let taken = self.space.take(group, after, 1, 1).ok_or_else(full)?;
        self.note_taken(taken);
        let node = self.node_mut(directory);
        node.map(block, taken);
        node.size += BLOCK.bytes();
        node.size_noted = node.size;
        self.change_inode(directory, false);
        Ok(())
    }

    fn change_entry(&mut self, directory: FileNumber, block: usize) {
        let places = self.node(directory).places(block as u64, block as u64 + 1);
        if let [(_, _, Some(place))] = places[..] {
            self.change(place);
        }
        self.stamp(directory);
    }

    /// Removes a file, or a directory that is empty.
    ///
    /// # Errors
    /// When there is no such name, or it is a directory that is not empty.
    ///
    /// # Panics
    /// When `directory` is none, or was removed.
    pub fn remove(&mut self, directory: FileNumber, name: &str) -> Result<(), DriveError> {
        let wrong = |what: &str| Err(DriveError::new(ErrorKind::Usage, format!("{name} {what}")));
        let Some(file) = self.find(directory, name) else { return wrong("does not exist") };
        if let Kind::Directory { entries, .. } = &self.node(file).kind
            && !entries.is_empty()
        {
            return wrong("is not empty");
        }
        let Kind::Directory { entries, filled } = &mut self.node_mut(directory).kind else {
            panic!("not a directory")
        };
        let entry = entries.remove(name).expect("it was there");
        filled[entry.block] -= entry_bytes(name);
        self.change_entry(directory, entry.block);
        // Until its blocks are freed it is an orphan, in a list that begins in the superblock.
        self.change(self.layout.superblock());
        self.change_inode(file, true);
        self.free_from(file, 0);
        self.forget_dirty(file);
        self.nodes.remove(&file.0);
        let group = Layout::group_of_inode(file.0);
        let hint = &mut self.inode_hints[group as usize];
        *hint = file.0.min(*hint);
        self.change(self.layout.inode_bitmap(group));
        self.change(self.layout.descriptor(group));
        Ok(())
    }

    /// Makes a file shorter; nothing happens to one that is no longer than `size`.
    ///
    /// # Errors
    /// None so far; those of a file system that is full may come.
    pub fn truncate(&mut self, file: FileNumber, size: ByteLength) -> Result<(), DriveError> {
        let node = self.node_mut(file);
        if node.size <= size.bytes() {
            return Ok(());
        }
        node.size = size.bytes();
        node.size_noted = node.size_noted.min(node.size);
        if let Kind::File { content } = &mut node.kind {
            content.truncate(size.bytes() as usize);
        }
        let blocks = size.covering(BLOCK);
        // Pages beyond the end are dropped.
        let _ = node.dirty.split_off(&blocks);
        if let Some(mut last) = node.dirty.last_entry() {
            let end = (*last.get()).min(blocks);
            last.insert(end);
        }
        self.change(self.layout.superblock());
        self.free_from(file, blocks);
        self.change_inode(file, true);
        self.recount_dirty(file);
        Ok(())
    }

    /// Frees the blocks of a file from its block `from` on.
    fn free_from(&mut self, file: FileNumber, from: u64) {
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
    fn stamp(&mut self, file: FileNumber) {
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

    /// How long a file is.
    ///
    /// # Panics
    /// When it was removed.
    pub fn size(&self, file: FileNumber) -> ByteLength {
        ByteLength::new(self.node(file).size)
    }

    /// Where a file lies on the drive, in the order of the file.
    ///
    /// # Panics
    /// When it was removed.
    pub fn places(&self, file: FileNumber) -> Vec<Region> {
        self.node(file).extents.iter().map(|mapped| Queue::region(mapped.extent)).collect()
    }

    /// Reads a region of the drive past the files; returns how many blocks of 4 KiB the drive knew to
    /// lie nowhere, because they were trimmed.
    ///
    /// # Errors
    /// When it does not lie on blocks of the drive.
    pub fn read_past(&mut self, region: Region) -> Result<u64, DriveError> {
        let (end, nowhere) = self.queue.read(self.now, region)?;
        self.pass_until(end)?;
        Ok(nowhere)
    }

    /// Reads what was written; returns how many bytes there were.
    ///
    /// # Panics
    /// When `file` is a directory, or was removed.
    pub fn read(&self, file: FileNumber, offset: u64, buffer: &mut [u8]) -> usize {
        let Kind::File { content } = &self.node(file).kind else { panic!("a directory") };
        let there = content.get(offset as usize..).unwrap_or(&[]);
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        count
    }

    /// Writes `bytes` at `offset`, into memory.
    ///
    /// # Errors
    /// When writing back finds no room.
    ///
    /// # Panics
    /// When `file` is a directory, or was removed.
    pub fn write(&mut self, file: FileNumber, offset: u64, bytes: &[u8]) -> Result<(), DriveError> {
        let Kind::File { content } = &mut self.node_mut(file).kind else { panic!("a directory") };
        let end = offset as usize + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(bytes);
        self.soil(file, offset, bytes.len() as u64)
    }

    /// Writes `length` bytes at the end, whatever they are.
    ///
    /// # Errors
    /// When writing back finds no room.
    ///
    /// # Panics
    /// When it was removed.
    pub fn append(&mut self, file: FileNumber, length: ByteLength) -> Result<(), DriveError> {
        let size = self.node(file).size;
        self.soil(file, size, length.bytes())
    }

    /// Pages become dirty.
    fn soil(&mut self, file: FileNumber, offset: u64, length: u64) -> Result<(), DriveError> {
        if length == 0 {
            return Ok(());
        }
        let (first, end) = (offset / BLOCK.bytes(), (offset + length).div_ceil(BLOCK.bytes()));
        let now = self.now;
        let node = self.node_mut(file);
        node.size = node.size.max(offset + length);
        let was_clean = node.dirty.is_empty();
        if was_clean {
            node.dirty_since = now;
        }
        insert_range(&mut node.dirty, first, end);
        self.stamp(file);
        self.recount_dirty(file);
        if self.flusher.dirty_bytes() > self.options.dirty_background {
            self.flusher.wake(now);
        }
        Ok(())
    }
}

/// Bytes that a name takes in a directory: 8 and the name, on a multiple of 4.
fn entry_bytes(name: &str) -> u64 {
    (8 + name.len() as u64).next_multiple_of(4)
}

/// Adds `first..end` to ranges that do not touch.
fn insert_range(ranges: &mut BTreeMap<u64, u64>, mut first: u64, mut end: u64) {
    if let Some((&before, &its_end)) = ranges.range(..=first).next_back()
        && its_end >= first
    {
        first = before;
        end = end.max(its_end);
    }
    let covered: Vec<u64> = ranges.range(first..=end).map(|(&start, _)| start).collect();
    for start in covered {
        end = end.max(ranges.remove(&start).expect("it was listed"));
    }
    ranges.insert(first, end);
}
