//! Writeback of dirty pages: when a program waits for them (`fsync`, `fdatasync`, `sync`), and in the
//! background. Blocks are allocated at writeback, not when a program writes (delayed allocation).

use std::collections::{BTreeSet, VecDeque};

use ssdlab_error::DriveError;
use ssdlab_units::{ByteLength, Instant, Nanoseconds};

use super::inodes::FileNumber;
use super::layout::{BLOCK, Extent, Layout};
use super::queue::{Batch, merge_into_runs, split_into_requests};
use super::{FileSystem, no_space};

/// Interval at which writeback looks for pages that are old (`vm.dirty_writeback_centisecs`).
const WRITEBACK_INTERVAL: Nanoseconds = Nanoseconds::from_secs(5);

/// Background writeback.
pub(super) struct Flusher {
    /// Files with dirty pages, by the moment at which the first of these became dirty.
    files: BTreeSet<(Instant, FileNumber)>,
    /// Total number of dirty pages.
    dirty_blocks: u64,
    /// For each file, its dirty pages as counted in `dirty_blocks`.
    dirty_by_file: std::collections::BTreeMap<FileNumber, (Instant, u64)>,
    /// Requests that wait to be sent.
    waiting: VecDeque<Extent>,
    /// Moment at which writeback next runs.
    next: Instant,
}

impl Flusher {
    pub(super) fn new(now: Instant) -> Flusher {
        Flusher {
            files: BTreeSet::new(),
            dirty_blocks: 0,
            dirty_by_file: Default::default(),
            waiting: VecDeque::new(),
            next: now + WRITEBACK_INTERVAL,
        }
    }

    pub(super) fn dirty_bytes(&self) -> ByteLength {
        BLOCK * self.dirty_blocks
    }

    /// Has writeback run immediately, unless it has requests waiting.
    pub(super) fn wake(&mut self, now: Instant) {
        if self.waiting.is_empty() {
            self.next = self.next.min(now);
        }
    }

    fn set_dirty(&mut self, file: FileNumber, dirty: Option<(Instant, u64)>) {
        if let Some((since, blocks)) = self.dirty_by_file.remove(&file) {
            self.files.remove(&(since, file));
            self.dirty_blocks -= blocks;
        }
        if let Some((since, blocks)) = dirty {
            self.files.insert((since, file));
            self.dirty_by_file.insert(file, (since, blocks));
            self.dirty_blocks += blocks;
        }
    }
}

impl FileSystem<'_> {
    /// Counts a file's dirty pages again.
    pub(super) fn recount_dirty(&mut self, file: FileNumber) {
        let inode = self.inode(file);
        let blocks: u64 = inode.dirty.iter().map(|(first, end)| end - first).sum();
        let dirty = (blocks > 0).then_some((inode.dirty_since, blocks));
        self.flusher.set_dirty(file, dirty);
    }

    /// Stops counting a file's dirty pages.
    pub(super) fn forget_dirty(&mut self, file: FileNumber) {
        self.flusher.set_dirty(file, None);
    }

    /// Allocates blocks for a file's dirty pages and returns the requests that write them. The pages are
    /// clean from now on.
    fn start_writeback(&mut self, file: FileNumber) -> Result<Vec<Extent>, DriveError> {
        let dirty = std::mem::take(&mut self.inode_mut(file).dirty);
        self.flusher.set_dirty(file, None);
        let (mut runs, mut taken): (Vec<Extent>, bool) = (Vec::new(), false);
        let mut add = |extent: Extent| match runs.last_mut() {
            Some(last) if last.end() == extent.first => last.count += extent.count,
            _ => runs.push(extent),
        };
        for (first, end) in dirty {
            for (at, count, place) in self.inode(file).places(first, end) {
                if let Some(place) = place {
                    add(Extent { first: place, count });
                    continue;
                }
                taken = true;
                for extent in self.allocate(file, at, count)? {
                    add(extent);
                }
            }
        }
        let inode = self.inode_mut(file);
        let has_grown = inode.disk_size < inode.size;
        inode.disk_size = inode.size;
        if taken {
            self.make_leaf(file)?;
        }
        if taken || has_grown {
            self.mark_inode_dirty(file, true);
        }
        Ok(runs.into_iter().flat_map(split_into_requests).collect())
    }

    fn allocate(
        &mut self,
        file: FileNumber,
        at: u64,
        count: u64,
    ) -> Result<Vec<Extent>, DriveError> {
        let (mut at, end, mut taken) = (at, at + count, Vec::new());
        let group = Layout::group_of_inode(file.0);
        while at < end {
            let inode = self.inode(file);
            let before = inode.extents.iter().rfind(|mapped| mapped.file_block < at);
            let after = before.map(|mapped| mapped.extent.end() - 1);
            let file_blocks = ByteLength::new(inode.size).covering(BLOCK);
            let extent = self
                .allocator
                .allocate(group, after, end - at, file_blocks)
                .ok_or_else(no_space)?;
            self.mark_bitmap_dirty(extent);
            self.inode_mut(file).map(at, extent);
            at += extent.count;
            taken.push(extent);
        }
        Ok(taken)
    }

    /// Sends requests as the queue has room for them, as a part of `batch`.
    fn write_out(&mut self, requests: Vec<Extent>, batch: Batch) -> Result<(), DriveError> {
        for request in requests {
            self.wait_for_slot()?;
            self.queue.write(self.now, request, false, batch)?;
        }
        Ok(())
    }

    /// Waits until all of `batch` is answered. Background work that is due meanwhile is done.
    fn wait_for_batch(&mut self, batch: Batch) -> Result<(), DriveError> {
        loop {
            let until = self.next_background_instant().max(self.now);
            match self.queue.wait_for_batch_until(batch, until) {
                Some(end) => return self.run_background_until(end),
                None => self.run_background_until(until)?,
            }
        }
    }

    /// Flushes the drive, and waits for its answer.
    fn flush_drive(&mut self) -> Result<(), DriveError> {
        let batch = self.queue.batch(self.now);
        self.queue.flush_in(self.now, batch)?;
        self.wait_for_batch(batch)
    }

    fn wait_for_slot(&mut self) -> Result<(), DriveError> {
        loop {
            let slot = self.queue.next_free_slot(self.now);
            if slot <= self.now {
                return Ok(());
            }
            self.run_background_until(slot)?;
        }
    }

    /// Sends the requests that wait in the background immediately, and waits for them: a caller may wait
    /// for pages among them.
    fn write_waiting(&mut self) -> Result<(), DriveError> {
        let waiting = std::mem::take(&mut self.flusher.waiting);
        self.flusher.next = self.flusher.next.max(self.now);
        let batch = self.queue.batch(self.now);
        self.write_out(waiting.into(), batch)?;
        self.wait_for_batch(batch)
    }

    /// `fsync`: returns when the file's data and all its metadata are durable.
    ///
    /// # Errors
    /// Returns an error if the file system is full.
    ///
    /// # Panics
    /// Panics if the file was removed.
    pub fn fsync(&mut self, file: FileNumber) -> Result<(), DriveError> {
        self.sync_file(file, false)
    }

    /// `fdatasync`: as `fsync`, without metadata that is not needed to find the data (its time stamp).
    ///
    /// # Errors
    /// Returns an error if the file system is full.
    ///
    /// # Panics
    /// Panics if the file was removed.
    pub fn fdatasync(&mut self, file: FileNumber) -> Result<(), DriveError> {
        self.sync_file(file, true)
    }

    fn sync_file(&mut self, file: FileNumber, data_only: bool) -> Result<(), DriveError> {
        if !self.flusher.waiting.is_empty() {
            self.write_waiting()?;
        }
        let requests = self.start_writeback(file)?;
        let batch = self.queue.batch(self.now);
        self.write_out(requests, batch)?;
        self.wait_for_batch(batch)?;
        let inode = self.inode(file);
        let transaction =
            if data_only { inode.data_sync_transaction } else { inode.sync_transaction };
        if !self.is_committed(transaction) {
            return self.wait_for_commit(transaction);
        }
        // Measured: a directory whose last change has committed costs no flush of its own.
        if self.options.barrier && !self.inode(file).is_directory() {
            self.flush_drive()?;
        }
        Ok(())
    }

    /// `sync`: makes all files and metadata durable, and writes the metadata to its place.
    ///
    /// # Errors
    /// Returns an error if the file system is full.
    pub fn sync(&mut self) -> Result<(), DriveError> {
        self.write_waiting()?;
        let files: Vec<FileNumber> = self.flusher.files.iter().map(|(_, file)| *file).collect();
        let batch = self.queue.batch(self.now);
        for file in files {
            let requests = self.start_writeback(file)?;
            self.write_out(requests, batch)?;
        }
        self.wait_for_batch(batch)?;
        let running = self.journal.running();
        if self.journal.started().is_some() || self.journal.commit_ready().is_some() {
            let last = if self.journal.started().is_some() { running } else { running - 1 };
            self.wait_for_commit(last)?;
        } else if self.options.barrier {
            self.flush_drive()?;
        }
        if !self.journal.uncheckpointed.is_empty() {
            let end = self.checkpoint(self.now)?;
            self.run_background_until(end)?;
        }
        Ok(())
    }

    /// Returns the moment at which background writeback continues, or `None` if it has no work.
    pub(super) fn flusher_ready(&self) -> Option<Instant> {
        let has_work = !self.flusher.waiting.is_empty()
            || !self.flusher.files.is_empty()
            || !self.journal.uncheckpointed.is_empty();
        has_work.then_some(self.flusher.next)
    }

    pub(super) fn step_flusher(&mut self) -> Result<(), DriveError> {
        if self.flusher.waiting.is_empty() {
            self.collect_expired()?;
        }
        while !self.flusher.waiting.is_empty() {
            let slot = self.queue.next_free_slot(self.now);
            if slot > self.now {
                self.flusher.next = slot;
                return Ok(());
            }
            let request = self.flusher.waiting.pop_front().expect("some wait");
            let batch = self.queue.background();
            self.queue.write(self.now, request, false, batch)?;
        }
        self.flusher.next = self.now + WRITEBACK_INTERVAL;
        Ok(())
    }

    /// Collects pages and metadata that have waited long enough; all pages if there is too much dirty data.
    fn collect_expired(&mut self) -> Result<(), DriveError> {
        let now = self.now;
        let all = self.flusher.dirty_bytes() > self.options.dirty_background;
        let expire = self.options.dirty_expire;
        let is_old = |since: Instant| all || since + expire <= now;
        let old: Vec<FileNumber> = (self.flusher.files.iter())
            .take_while(|(since, _)| is_old(*since))
            .map(|(_, file)| *file)
            .collect();
        for file in old {
            let requests = self.start_writeback(file)?;
            self.flusher.waiting.extend(requests);
        }
        if !self.journal.uncheckpointed.is_empty()
            && self.journal.uncheckpointed_since + expire <= now
        {
            let blocks = std::mem::take(&mut self.journal.uncheckpointed);
            self.flusher
                .waiting
                .extend(merge_into_runs(blocks).into_iter().flat_map(split_into_requests));
        }
        Ok(())
    }
}
