//! Requests to file systems and the kernel that no library wraps, each with its number and its record, as
//! in the kernel's headers.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::window::Span;

/// `struct fiemap` without its extents (linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct FiemapHead {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) flags: u32,
    pub(crate) mapped: u32,
    pub(crate) count: u32,
    pub(crate) reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct FiemapExtent {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) length: u64,
    pub(crate) reserved64: [u64; 2],
    pub(crate) flags: u32,
    pub(crate) reserved: [u32; 3],
}

/// Number of extents requested at a time.
pub(crate) const BATCH: usize = 256;

#[repr(C)]
pub(crate) struct Fiemap {
    pub(crate) head: FiemapHead,
    pub(crate) extents: [FiemapExtent; BATCH],
}

/// `struct move_extent` (fs/ext4/ext4.h); all in blocks of the file system.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MoveExtent {
    reserved: u32,
    donor: u32,
    start: u64,
    donor_start: u64,
    length: u64,
    moved: u64,
}

/// `struct btrfs_ioctl_defrag_range_args` (linux/btrfs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DefragRange {
    start: u64,
    length: u64,
    flags: u64,
    extent_threshold: u32,
    compression: u32,
    unused: [u32; 4],
}

/// `struct xfs_fsop_geom` as of its fifth version (fs/xfs/libxfs/xfs_fs.h); only the flags are used.
#[repr(C)]
struct XfsGeometry {
    before: [u32; 23],
    flags: u32,
    after: [u64; 20],
}

/// `struct xfs_commit_range` (fs/xfs/libxfs/xfs_fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct XfsCommitRange {
    donor: i32,
    padding: u32,
    donor_start: u64,
    start: u64,
    length: u64,
    flags: u64,
    freshness: [u64; 6],
}

/// `struct procmap_query` (linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcmapQuery {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    map_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: u32 = 0xC020_660B;
/// `_IOWR('f', 15, struct move_extent)`.
const EXT4_IOC_MOVE_EXT: u32 = 0xC028_660F;
/// `_IOW(0x94, 16, struct btrfs_ioctl_defrag_range_args)`.
const BTRFS_IOC_DEFRAG_RANGE: u32 = 0x4030_9410;
/// `_IOR('X', 126, struct xfs_fsop_geom)`.
const XFS_IOC_FSGEOMETRY: u32 = 0x8100_587E;
/// `_IOR('X', 130, struct xfs_commit_range)`.
const XFS_IOC_START_COMMIT: u32 = 0x8058_5882;
/// `_IOW('X', 131, struct xfs_commit_range)`.
const XFS_IOC_COMMIT_RANGE: u32 = 0x4058_5883;
/// `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`.
const BTRFS_IOC_FS_INFO: u32 = 0x8400_941F;
/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u32 = 0xC068_6611;
/// `_IOR('f', 1, long)`.
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
/// `_IOWR('X', 119, int)`.
const FIFREEZE: u32 = 0xC004_5877;
/// `_IOWR('X', 120, int)`.
const FITHAW: u32 = 0xC004_5878;

/// Flags for maps that are writable, shared, and of a file (linux/fs.h).
const PROCMAP_QUERY_SHARED_WRITABLE_FILE: u64 = 0x02 | 0x08 | 0x20;
/// Flag for the map at the address, or the next one.
const PROCMAP_QUERY_COVERING_OR_NEXT_VMA: u64 = 0x10;

/// Flag to start write-back of the data that was moved.
const BTRFS_DEFRAG_RANGE_START_IO: u64 = 2;
/// Flag to write the data without compression. With it, btrfs also rewrites extents that cannot be merged
/// with others (Linux 6.16).
const BTRFS_DEFRAG_RANGE_NOCOMPRESS: u64 = 8;

/// Flag of a file system that can exchange ranges of files.
const XFS_FSOP_GEOM_FLAGS_EXCHANGE_RANGE: u32 = 1 << 24;
/// Flag to check everything and exchange nothing.
const XFS_EXCHANGE_RANGE_DRY_RUN: u64 = 1 << 2;

fn request<T>(fd: RawFd, number: u32, argument: *mut T) -> io::Result<()> {
    // SAFETY: the caller passes the record that the number names, and the record outlives the call.
    let outcome = unsafe { libc::ioctl(fd, number as _, argument) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Fills `map` with extents of a file.
pub(crate) fn fiemap(file: &File, map: &mut Fiemap) -> io::Result<()> {
    request(file.as_raw_fd(), FS_IOC_FIEMAP, map)
}

/// Returns the attributes of a file (`FS_*_FL`).
pub(crate) fn flags(file: &File) -> io::Result<u32> {
    // The kernel writes an int, whatever the number says; the variable has the size of a long.
    let mut flags: u64 = 0;
    request(file.as_raw_fd(), FS_IOC_GETFLAGS, &mut flags)?;
    Ok(flags as u32)
}

/// Exchanges `blocks` blocks of two files of ext4. Their content moves along, so that both files read as
/// before. Returns the number of blocks exchanged, also after an error.
pub(crate) fn move_extent(
    file: &File,
    start: u64,
    donor: &File,
    donor_start: u64,
    blocks: u64,
) -> (u64, io::Result<()>) {
    let mut argument = MoveExtent {
        donor: donor.as_raw_fd() as u32,
        start,
        donor_start,
        length: blocks,
        ..MoveExtent::default()
    };
    let outcome = request(file.as_raw_fd(), EXT4_IOC_MOVE_EXT, &mut argument);
    (argument.moved.min(blocks), outcome)
}

/// Has btrfs rewrite a range of bytes.
pub(crate) fn defragment(file: &File, start: u64, length: u64) -> io::Result<()> {
    let mut argument = DefragRange {
        start,
        length,
        flags: BTRFS_DEFRAG_RANGE_START_IO | BTRFS_DEFRAG_RANGE_NOCOMPRESS,
        extent_threshold: u32::MAX,
        ..DefragRange::default()
    };
    request(file.as_raw_fd(), BTRFS_IOC_DEFRAG_RANGE, &mut argument)
}

/// Returns true if the xfs that a file lies on was made with the ability to exchange ranges of files.
pub(crate) fn xfs_exchanges_ranges(file: &File) -> io::Result<bool> {
    let mut geometry = XfsGeometry { before: [0; 23], flags: 0, after: [0; 20] };
    request(file.as_raw_fd(), XFS_IOC_FSGEOMETRY, &mut geometry)?;
    Ok(geometry.flags & XFS_FSOP_GEOM_FLAGS_EXCHANGE_RANGE != 0)
}

/// Stamp by which xfs recognises that a file has not changed.
#[derive(Debug)]
pub(crate) struct Freshness([u64; 6]);

/// Takes the stamp of a file on xfs.
pub(crate) fn start_commit(file: &File) -> io::Result<Freshness> {
    let mut argument = XfsCommitRange::default();
    request(file.as_raw_fd(), XFS_IOC_START_COMMIT, &mut argument)?;
    Ok(Freshness(argument.freshness))
}

/// Kind of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// A trial: everything before the exchange is done, so that writes under way are waited for.
    DryRun,
    /// An exchange.
    Exchange,
}

/// Exchanges a part of a file on xfs with the bytes of the donor from `donor_start` on, if the file has
/// not changed since `fresh` was taken.
pub(crate) fn commit_range(
    file: &File,
    part: Span,
    donor: &File,
    donor_start: u64,
    fresh: &Freshness,
    what: Commit,
) -> io::Result<()> {
    let mut argument = XfsCommitRange {
        donor: donor.as_raw_fd(),
        padding: 0,
        donor_start,
        start: part.offset,
        length: part.length,
        flags: if what == Commit::DryRun { XFS_EXCHANGE_RANGE_DRY_RUN } else { 0 },
        freshness: fresh.0,
    };
    request(file.as_raw_fd(), XFS_IOC_COMMIT_RANGE, &mut argument)
}

/// A shared, writable mapping of a file in the memory of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedMap {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Inode and device number of the file, as `stat` returns them.
    pub(crate) inode: u64,
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// Returns the first such mapping at this address or above it, of the process whose `maps` is open;
/// `None` if there is none.
pub(crate) fn shared_map(maps: RawFd, address: u64) -> io::Result<Option<SharedMap>> {
    let mut argument = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        flags: PROCMAP_QUERY_SHARED_WRITABLE_FILE | PROCMAP_QUERY_COVERING_OR_NEXT_VMA,
        address,
        ..ProcmapQuery::default()
    };
    match request(maps, PROCMAP_QUERY, &mut argument) {
        Ok(()) => {
            let ProcmapQuery { start, end, inode, major, minor, .. } = argument;
            Ok(Some(SharedMap { start, end, inode, major, minor }))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes back the dirty pages of a part of a file, and waits for that. The data is not durable then, but
/// the next store through a memory map to one of these pages has to ask the file system first.
pub(crate) fn write_back(file: &File, part: Span) -> io::Result<()> {
    // All three flags together: otherwise pages that are just being written would be skipped.
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let (offset, length) = (part.offset as i64, part.length as i64);
    // SAFETY: numbers.
    let outcome = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the identifier of the btrfs that a file is on; an error on any other file system.
pub(crate) fn btrfs_id(file: &File) -> io::Result<[u8; 16]> {
    // `struct btrfs_ioctl_fs_info_args` (linux/btrfs.h) has 1024 bytes; the identifier comes behind
    // two numbers of 64 bits.
    let mut record = [0_u64; 128];
    request(file.as_raw_fd(), BTRFS_IOC_FS_INFO, &mut record)?;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&record[2].to_ne_bytes());
    id[8..].copy_from_slice(&record[3].to_ne_bytes());
    Ok(id)
}

/// Freezes the file system of a directory.
pub(crate) fn freeze(directory: RawFd) -> io::Result<()> {
    let mut unused: libc::c_int = 0;
    request(directory, FIFREEZE, &mut unused)
}

/// Thaws the file system of a directory. Safe to call after a fork.
pub(crate) fn thaw(directory: RawFd) -> io::Result<()> {
    let mut unused: libc::c_int = 0;
    request(directory, FITHAW, &mut unused)
}

/// Returns the number of pages of a range of a file that are in the page cache; `None` if the kernel does
/// not report that (`cachestat`, Linux 6.5).
pub(crate) fn cached_pages(file: &File, offset: u64, length: u64) -> Option<u64> {
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = [offset, length];
    let mut counts = [0_u64; 5];
    // SAFETY: `struct cachestat_range` is two numbers of 64 bits, `struct cachestat` five.
    let outcome = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0)
    };
    (outcome == 0).then_some(counts[0])
}

/// Selects the priority of a single thread (ioprio_set(2)).
const IOPRIO_WHO_PROCESS: libc::c_int = 1;
/// I/O class idle: behind all other requests.
const IO_PRIORITY_IDLE: i32 = 3 << 13;
/// I/O class real time, at its lowest level: before all requests of other classes.
pub(crate) const IO_PRIORITY_REAL_TIME: i32 = (1 << 13) | 7;

/// Puts the requests of this thread behind everybody else's (I/O class idle).
pub(crate) fn set_idle_io_priority() {
    set_io_priority(IO_PRIORITY_IDLE);
}

/// Returns the I/O priority of this thread.
pub(crate) fn io_priority() -> Option<i32> {
    // SAFETY: two numbers.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) };
    i32::try_from(found).ok().filter(|&found| found >= 0)
}

/// Sets the I/O priority of this thread. If that is not allowed, the priority stays as it is.
pub(crate) fn set_io_priority(priority: i32) {
    // SAFETY: three numbers.
    let _ = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority) };
}

/// Scheduling policy of a thread (sched_setscheduler(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduling {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Scheduling {
    /// Real time with the lowest priority: before all threads of other policies. Children do not inherit
    /// it.
    pub(crate) const REAL_TIME: Scheduling =
        Scheduling { policy: libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, priority: 1 };
}

/// Returns the scheduling policy of this thread.
pub(crate) fn scheduling() -> Option<Scheduling> {
    // SAFETY: the kernel writes one number.
    let (policy, parameters) = unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        let policy = libc::sched_getscheduler(0);
        (policy, (libc::sched_getparam(0, &raw mut parameters) == 0).then_some(parameters))
    };
    let priority = parameters?.sched_priority;
    (policy >= 0).then_some(Scheduling { policy, priority })
}

/// Sets the scheduling policy of this thread. Returns true if that was allowed. Safe to call after a
/// fork.
pub(crate) fn set_scheduling(how: Scheduling) -> bool {
    // SAFETY: the kernel reads one number.
    unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = how.priority;
        libc::sched_setscheduler(0, how.policy, &raw const parameters) == 0
    }
}

/// Keeps this process's memory from being swapped out. Safe to call after a fork.
pub(crate) fn lock_memory() {
    // SAFETY: a number.
    let _ = unsafe { libc::mlockall(libc::MCL_CURRENT) };
}

/// Waits for an RCU grace period (membarrier(2)), in which the kernel has seen every processor in another
/// context. Returns directly if the kernel does not support that.
pub(crate) fn wait_for_rcu_grace_period() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: three numbers.
    let _ = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}
