//! A small journalling file system over a simulated drive, in virtual time.
//!
//! What programs write is kept in memory, as a page cache that never has to give a page up; the
//! drive gets the requests, at the places and in the order that ext4 would send them: data first,
//! then the journal, a flush, the commit block, a flush (ordered mode). How many flushes a system
//! call costs and how many blocks a commit has was measured on ext4 of Linux 6.18 and is what the
//! tests hold it to.
//!
//! The host's own time is passed in ([`FileSystem::spend`]); what the file system does in the
//! background (commits, writing back) happens in it.
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

use allocation::Space;
use inodes::Node;
use journal::Journal;
use layout::Layout;
use queue::Queue;

pub use inodes::FileNumber;

/// How the file system is mounted, and on what host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MountOptions {
    /// True if commits and syncs flush the drive's cache (`barrier=1`, ext4's default).
    pub barrier: bool,
    /// True if freed extents are trimmed when the transaction that freed them has committed
    /// (`discard`).
    pub discard: bool,
    /// True if commit blocks are written with force unit access. Linux does not use it on Serial
    /// ATA unless told to (`libata.fua=1`), and sends a flush after the block instead.
    pub force_unit_access: bool,
    /// After so long a transaction is committed by itself (`commit=5`, ext4's default).
    pub commit_interval: Nanoseconds,
    /// Pages that have been dirty for so long are written back (`vm.dirty_expire_centisecs`).
    pub dirty_expire: Nanoseconds,
    /// When so much is dirty, writing back begins at once (`vm.dirty_background_ratio`, of the
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

/// What the file system has sent to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Writes of data, of the journal and of metadata in their place.
    pub writes: u64,
    /// Bytes in these.
    pub written: ByteLength,
    /// Flushes, whether or not the drive hears of them.
    pub flushes: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Extents trimmed.
    pub trims: u64,
    /// Bytes in these.
    pub trimmed: ByteLength,
}

/// A file system that is mounted.
pub struct FileSystem<'d> {
    options: MountOptions,
    queue: Queue<'d>,
    now: Instant,
    layout: Layout,
    space: Space,
    nodes: BTreeMap<u64, Node>,
    /// No inode of a group is free below this one.
    inode_hints: Vec<u64>,
    journal: Journal,
    flusher: writeback::Flusher,
}

/// How far apart time stamps of files are: the tick of a kernel with `CONFIG_HZ=250`. A write in
/// the same tick leaves the time stamp, and so the inode, as it is.
const TICK: Nanoseconds = Nanoseconds::from_millis(4);

impl<'d> FileSystem<'d> {
    /// Makes a file system on the first `length` bytes of `drive`, with an empty root directory,
    /// and mounts it. Making it writes nothing that is counted: it happened before.
    ///
    /// # Errors
    /// When `length` is more than the drive holds, or less than 64 MiB.
    pub fn new(
        drive: &'d mut SimulatedDrive,
        length: ByteLength,
        options: MountOptions,
    ) -> Result<Self, DriveError> {
        let layout = Layout::new(length)?;
        let queue = Queue::new(drive, length)?;
        let space = Space::new(&layout);
        let now = queue.drive_time();
        let mut made = FileSystem {
            options,
            queue,
            now,
            journal: Journal::new(layout.journal()),
            flusher: writeback::Flusher::new(now),
            layout,
            space,
            nodes: BTreeMap::new(),
            inode_hints: (0..layout.groups()).map(|group| Layout::inodes(group).start).collect(),
        };
        made.make_root();
        Ok(made)
    }

    /// The host's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns what was sent to the drive so far.
    pub fn sent(&self) -> Sent {
        self.queue.sent
    }

    /// The drive below.
    pub fn drive(&self) -> &SimulatedDrive {
        self.queue.drive()
    }

    /// The host computes for `duration`; what is due in the background happens meanwhile.
    ///
    /// # Errors
    /// When the file system is full.
    pub fn spend(&mut self, duration: Nanoseconds) -> Result<(), DriveError> {
        self.pass_until(self.now + duration)
    }

    /// Lets what is due in the background until `until` happen.
    fn pass_until(&mut self, until: Instant) -> Result<(), DriveError> {
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

    /// Returns when something happens next in the background; long after all else if nothing will.
    fn next_instant(&self) -> Instant {
        self.next_event().map_or(queue::NEVER, |(at, _)| at)
    }

    /// Returns what happens next in the background, and when.
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

/// What happens in the background.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The commit under way goes on.
    Commit,
    /// The running transaction is old enough.
    Timer,
    /// Dirty pages are written back.
    Flusher,
}

/// The error of a file system that has no room.
fn full() -> DriveError {
    DriveError::new(ErrorKind::NoSpace, "the simulated file system is full; use a larger drive")
}
