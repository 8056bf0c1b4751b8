//! A small journalling file system over a simulated drive, in virtual time.
//!
//! Data that programs write is kept in memory, in a page cache that never evicts a page. The drive gets the
//! requests at the places and in the order in which ext4 would send them: data first, then the journal, a
//! flush, the commit block, a flush (ordered mode). The number of flushes of a system call and the number
//! of blocks of a commit were measured on ext4 of Linux 6.18, and the tests compare the model with them.
//!
//! The host's own time is passed in ([`FileSystem::spend`]); commits and writeback happen in that time, in
//! the background.
//!
//! ```
//! use ssdlab_drive::simulated::SimulatedDrive;
//! use ssdlab_fs_model::{FileSystem, MountOptions};
//! use ssdlab_model::profile::Profile;
//! use ssdlab_units::MIB;
//!
//! let mut profile = Profile::named("generic-tlc")?;
//! profile.set("scale", "1/64")?;
//! let mut drive = SimulatedDrive::new("sim:generic-tlc", profile.configuration()?)?;
//! let mut files = FileSystem::new(&mut drive, MIB * 256, MountOptions::default())?;
//!
//! let root = files.root();
//! let file = files.create(root, "note")?;
//! files.write(file, 0, b"kept")?;
//! let before = files.sent().flushes;
//! files.fsync(file)?;
//! assert_eq!(files.sent().flushes - before, 2, "one before the commit block, one behind it");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allocation;
mod directories;
mod discard;
mod files;
mod inodes;
mod journal;
mod layout;
mod queue;
mod writeback;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ssdlab_drive::simulated::SimulatedDrive;
use ssdlab_error::{DriveError, ErrorKind};
use ssdlab_units::{ByteLength, Instant, MIB, Nanoseconds};

use allocation::BlockAllocator;
use inodes::Inode;
use journal::Journal;
use layout::Layout;
use queue::RequestQueue;

pub use inodes::FileNumber;

/// Mount options of the file system, and parameters of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MountOptions {
    /// True if commits and syncs flush the drive's cache (`barrier=1`, ext4's default).
    pub barrier: bool,
    /// True if freed extents are trimmed when the transaction that freed them has committed (`discard`).
    pub discard: bool,
    /// True if commit blocks are written with force unit access. Linux does not use it on Serial ATA unless
    /// told to (`libata.fua=1`), and sends a flush after the block instead.
    pub force_unit_access: bool,
    /// Age at which a transaction is committed without a sync (`commit=5`, ext4's default).
    pub commit_interval: Nanoseconds,
    /// Age at which dirty pages are written back (`vm.dirty_expire_centisecs`).
    pub dirty_expire: Nanoseconds,
    /// Amount of dirty data above which writeback begins immediately (`vm.dirty_background_ratio`, of the
    /// host's memory).
    pub dirty_background: ByteLength,
}

impl Default for MountOptions {
    /// ext4's and Linux's defaults, on a host with some 5 GiB of memory available.
    fn default() -> Self {
        MountOptions {
            barrier: true,
            discard: false,
            force_unit_access: false,
            commit_interval: Nanoseconds::from_secs(5),
            dirty_expire: Nanoseconds::from_secs(30),
            dirty_background: MIB * 512,
        }
    }
}

/// Requests that the file system has sent to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of writes of data, of the journal and of metadata in their place.
    pub writes: u64,
    /// Bytes of these writes.
    pub written: ByteLength,
    /// Number of flushes, including those that the drive does not receive.
    pub flushes: u64,
    /// Number of transactions committed.
    pub commits: u64,
    /// Number of extents trimmed.
    pub trims: u64,
    /// Bytes of these extents.
    pub trimmed: ByteLength,
}

/// A file system that is mounted.
pub struct FileSystem<'d> {
    options: MountOptions,
    queue: RequestQueue<'d>,
    now: Instant,
    layout: Layout,
    allocator: BlockAllocator,
    inodes: BTreeMap<u64, Inode>,
    /// For each group, a number below which none of its inodes is free.
    inode_hints: Vec<u64>,
    journal: Journal,
    flusher: writeback::Flusher,
}

/// Granularity of the time stamps of files: the tick of a kernel with `CONFIG_HZ=250`. A write in the same
/// tick leaves the time stamp, and so the inode, unchanged.
const TICK: Nanoseconds = Nanoseconds::from_millis(4);

impl<'d> FileSystem<'d> {
    /// Makes a file system on the first `length` bytes of `drive`, with an empty root directory, and mounts
    /// it. Making it sends no requests that are counted.
    ///
    /// # Errors
    /// Returns an error if `length` is more than the drive holds, or less than 64 MiB.
    pub fn new(
        drive: &'d mut SimulatedDrive,
        length: ByteLength,
        options: MountOptions,
    ) -> Result<Self, DriveError> {
        let layout = Layout::new(length)?;
        let queue = RequestQueue::new(drive, length)?;
        let allocator = BlockAllocator::new(&layout);
        let now = queue.drive_time();
        let mut made = FileSystem {
            options,
            queue,
            now,
            journal: Journal::new(layout.journal()),
            flusher: writeback::Flusher::new(now),
            layout,
            allocator,
            inodes: BTreeMap::new(),
            inode_hints: (0..layout.groups()).map(|group| Layout::inodes(group).start).collect(),
        };
        made.make_root();
        Ok(made)
    }

    /// Returns the host's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the requests sent to the drive so far.
    pub fn sent(&self) -> Sent {
        self.queue.sent
    }

    /// Returns the drive below the file system.
    pub fn drive(&self) -> &SimulatedDrive {
        self.queue.drive()
    }

    /// Lets the host compute for `duration`. Background work that is due in that time is done.
    ///
    /// # Errors
    /// Returns an error if the file system is full.
    pub fn spend(&mut self, duration: Nanoseconds) -> Result<(), DriveError> {
        self.run_background_until(self.now + duration)
    }

    /// Does all background work that is due until `until`.
    fn run_background_until(&mut self, until: Instant) -> Result<(), DriveError> {
        while let Some((at, what)) = self.next_event().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            match what {
                Event::Commit => self.step_commit()?,
                Event::Timer => self.start_commit(),
                Event::Flusher => self.step_flusher()?,
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Returns the moment of the next background event, or `NEVER` if there is none.
    fn next_background_instant(&self) -> Instant {
        self.next_event().map_or(queue::NEVER, |(at, _)| at)
    }

    /// Returns the next background event and its moment.
    fn next_event(&self) -> Option<(Instant, Event)> {
        let commit = self.journal.commit_ready().map(|at| (at, Event::Commit));
        let timer = (self.journal.commit_ready().is_none())
            .then(|| self.journal.started().map(|at| at + self.options.commit_interval))
            .flatten()
            .map(|at| (at, Event::Timer));
        let flusher = self.flusher_ready().map(|at| (at, Event::Flusher));
        [commit, timer, flusher].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// A background event.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The commit in progress continues.
    Commit,
    /// The running transaction has reached the commit interval.
    Timer,
    /// Dirty pages are written back.
    Flusher,
}

/// Returns the error of a file system that is full.
fn no_space() -> DriveError {
    DriveError::new(ErrorKind::NoSpace, "the simulated file system is full; use a larger drive")
}
