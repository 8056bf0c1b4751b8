//! Files: reads and writes of programs, and the pages that become dirty by them.

use std::collections::BTreeMap;

use ssdlab_drive::phase::Region;
use ssdlab_error::DriveError;
use ssdlab_units::ByteLength;

use super::FileSystem;
use super::inodes::{FileNumber, Kind};
use super::layout::BLOCK;
use super::queue::RequestQueue;

impl FileSystem<'_> {
    /// Truncates a file to `size`. Does nothing if the file is not longer than that.
    ///
    /// # Errors
    /// Returns no error at present. A later version may return one if the file system is full.
    pub fn truncate(&mut self, file: FileNumber, size: ByteLength) -> Result<(), DriveError> {
        let inode = self.inode_mut(file);
        if inode.size <= size.bytes() {
            return Ok(());
        }
        inode.size = size.bytes();
        inode.disk_size = inode.disk_size.min(inode.size);
        if let Kind::File { content } = &mut inode.kind {
            content.truncate(size.bytes() as usize);
        }
        let blocks = size.covering(BLOCK);
        // Pages beyond the end are dropped.
        let _ = inode.dirty.split_off(&blocks);
        if let Some(mut last) = inode.dirty.last_entry() {
            let end = (*last.get()).min(blocks);
            last.insert(end);
        }
        self.add_to_transaction(self.layout.superblock());
        self.free_blocks_from(file, blocks);
        self.mark_inode_dirty(file, true);
        self.recount_dirty(file);
        Ok(())
    }

    /// Returns the size of a file.
    ///
    /// # Panics
    /// Panics if the file was removed.
    pub fn size(&self, file: FileNumber) -> ByteLength {
        ByteLength::new(self.inode(file).size)
    }

    /// Returns the regions of the drive that hold a file, in the order of the file.
    ///
    /// # Panics
    /// Panics if the file was removed.
    pub fn places(&self, file: FileNumber) -> Vec<Region> {
        self.inode(file).extents.iter().map(|mapped| RequestQueue::region(mapped.extent)).collect()
    }

    /// Reads a region of the drive directly, not through a file. Returns the number of blocks of 4 KiB that
    /// are not mapped by the drive, because they were trimmed.
    ///
    /// # Errors
    /// Returns an error if the region does not lie on blocks of the drive.
    pub fn read_past(&mut self, region: Region) -> Result<u64, DriveError> {
        let (end, unmapped) = self.queue.read(self.now, region)?;
        self.run_background_until(end)?;
        Ok(unmapped)
    }

    /// Reads the written content of a file into `buffer`; returns the number of bytes read.
    ///
    /// # Panics
    /// Panics if `file` is a directory, or was removed.
    pub fn read(&self, file: FileNumber, offset: u64, buffer: &mut [u8]) -> usize {
        let Kind::File { content } = &self.inode(file).kind else { panic!("a directory") };
        let there = content.get(offset as usize..).unwrap_or(&[]);
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        count
    }

    /// Writes `bytes` at `offset`, into the page cache.
    ///
    /// # Errors
    /// Returns an error if writeback finds the file system full.
    ///
    /// # Panics
    /// Panics if `file` is a directory, or was removed.
    pub fn write(&mut self, file: FileNumber, offset: u64, bytes: &[u8]) -> Result<(), DriveError> {
        let Kind::File { content } = &mut self.inode_mut(file).kind else { panic!("a directory") };
        let end = offset as usize + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(bytes);
        self.mark_dirty(file, offset, bytes.len() as u64)
    }

    /// Appends `length` bytes, whose content is not recorded.
    ///
    /// # Errors
    /// Returns an error if writeback finds the file system full.
    ///
    /// # Panics
    /// Panics if the file was removed.
    pub fn append(&mut self, file: FileNumber, length: ByteLength) -> Result<(), DriveError> {
        let size = self.inode(file).size;
        self.mark_dirty(file, size, length.bytes())
    }

    /// Marks the pages of a range of the file as dirty.
    fn mark_dirty(&mut self, file: FileNumber, offset: u64, length: u64) -> Result<(), DriveError> {
        if length == 0 {
            return Ok(());
        }
        let (first, end) = (offset / BLOCK.bytes(), (offset + length).div_ceil(BLOCK.bytes()));
        let now = self.now;
        let inode = self.inode_mut(file);
        inode.size = inode.size.max(offset + length);
        let was_clean = inode.dirty.is_empty();
        if was_clean {
            inode.dirty_since = now;
        }
        insert_range(&mut inode.dirty, first, end);
        self.update_time_stamp(file);
        self.recount_dirty(file);
        if self.flusher.dirty_bytes() > self.options.dirty_background {
            self.flusher.wake(now);
        }
        Ok(())
    }
}

/// Adds `first..end` to ranges that do not touch each other.
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
