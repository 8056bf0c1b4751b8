//! Block maps of file systems (Linux): the place of a file on its block device (FIEMAP), free space
//! (GETFSMAP), and trim of free space (FITRIM).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use ssdlab_units::{ByteLength, Region};

/// A run of a file's bytes on the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedExtent {
    /// Byte of the file at which the run begins.
    pub in_file: ByteLength,
    /// Place of the run on the block device of the file system.
    pub on_device: Region,
}

/// `struct fiemap` without its extents (linux/fiemap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapHead {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// Number of extents requested at a time.
const BATCH: usize = 256;

#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; BATCH],
}

/// Flag to sync the file before its extents are read.
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
/// Flags of extents whose place is not known, or that do not have the plain bytes of this file alone:
/// unknown, not yet allocated, encoded, encrypted, not aligned, inline, packed, not written, shared.
const FIEMAP_EXTENT_UNUSABLE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x2000;

/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;

/// Returns the places of a file's bytes. Runs whose place is not known, or that do not have the plain
/// bytes of this file alone, are left out.
///
/// # Errors
/// Returns the error of the file system, also if it does not support FIEMAP.
pub fn file_extents(file: &File) -> io::Result<Vec<MappedExtent>> {
    let mut placed = Vec::new();
    let mut start = 0;
    loop {
        let mut map = Fiemap {
            head: FiemapHead {
                start,
                length: u64::MAX - start,
                flags: FIEMAP_FLAG_SYNC,
                count: BATCH as u32,
                ..FiemapHead::default()
            },
            extents: [FiemapExtent::default(); BATCH],
        };
        // SAFETY: the kernel writes at most `count` extents behind the head.
        let outcome = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) };
        if outcome < 0 {
            return Err(io::Error::last_os_error());
        }
        let found = &map.extents[..(map.head.mapped as usize).min(BATCH)];
        for extent in found.iter().filter(|extent| extent.flags & FIEMAP_EXTENT_UNUSABLE == 0) {
            placed.push(MappedExtent {
                in_file: ByteLength::new(extent.logical),
                on_device: Region {
                    offset: ByteLength::new(extent.physical),
                    length: ByteLength::new(extent.length),
                },
            });
        }
        match found.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => {
                start = last.logical + last.length;
            }
            _ => return Ok(placed),
        }
    }
}

/// `struct fstrim_range`.
#[repr(C)]
struct FstrimRange {
    start: u64,
    length: u64,
    least: u64,
}

/// `_IOWR('X', 121, struct fstrim_range)`.
const FITRIM: libc::c_ulong = 0xC018_5879;

/// Tells the drive which space is free within `region` of a file system (`fstrim`). `directory` is any
/// directory of it. Returns the number of bytes trimmed.
///
/// # Errors
/// Returns an error if the file system does not support trim, the block device takes no discards, or the
/// user is not root.
pub fn trim_free_space(directory: &File, region: Region) -> io::Result<ByteLength> {
    let mut range =
        FstrimRange { start: region.offset.bytes(), length: region.length.bytes(), least: 0 };
    // SAFETY: the kernel reads and writes one range.
    let outcome = unsafe { libc::ioctl(directory.as_raw_fd(), FITRIM as _, &raw mut range) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ByteLength::new(range.length))
}

/// Returns the bytes discarded on an open block device since the system started, by the kernel's count of
/// completed discards; `None` if the kernel does not count them.
pub fn discarded(device: &File) -> Option<ByteLength> {
    let number = device.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let counts = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    parse_discarded(&counts)
}

/// Returns the discarded bytes from the statistics of a block device (Documentation/block/stat.rst).
fn parse_discarded(counts: &str) -> Option<ByteLength> {
    let sectors: u64 = counts.split_whitespace().nth(13)?.parse().ok()?;
    Some(ByteLength::new(sectors.checked_mul(512)?))
}

/// `struct fsmap` (linux/fsmap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FsmapRecord {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head` with space for records.
#[repr(C)]
struct Fsmap {
    flags_in: u32,
    flags_out: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [FsmapRecord; 2],
    records: [FsmapRecord; BATCH],
}

/// `_IOWR('X', 59, struct fsmap_head)`.
const FS_IOC_GETFSMAP: libc::c_ulong = 0xC0C0_583B;

const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
const FMR_OF_LAST: u32 = 0x20;
const FMR_OWN_FREE: u64 = 1;

/// Returns the regions that are free now within `region` of a file system. `directory` is any directory
/// of it.
///
/// # Errors
/// Returns an error if the file system does not report its free space, or not to this user.
pub fn free_space(directory: &File, region: Region) -> io::Result<Vec<Region>> {
    let end = region.end().bytes();
    let mut free: Vec<Region> = Vec::new();
    let mut start = region.offset.bytes();
    loop {
        let low = FsmapRecord { physical: start, ..FsmapRecord::default() };
        let high = FsmapRecord {
            device: u32::MAX,
            flags: u32::MAX,
            physical: end,
            owner: u64::MAX,
            offset: u64::MAX,
            length: 0,
            reserved: [0; 3],
        };
        let mut map = Fsmap {
            flags_in: 0,
            flags_out: 0,
            count: BATCH as u32,
            entries: 0,
            reserved: [0; 6],
            keys: [low, high],
            records: [FsmapRecord::default(); BATCH],
        };
        // SAFETY: the kernel writes at most `count` records behind the head.
        let outcome =
            unsafe { libc::ioctl(directory.as_raw_fd(), FS_IOC_GETFSMAP as _, &raw mut map) };
        if outcome < 0 {
            return Err(io::Error::last_os_error());
        }
        let found = &map.records[..(map.entries as usize).min(BATCH)];
        for record in found {
            if record.flags & FMR_OF_SPECIAL_OWNER != 0 && record.owner == FMR_OWN_FREE {
                free.push(Region {
                    offset: ByteLength::new(record.physical),
                    length: ByteLength::new(record.length),
                });
            }
        }
        match found.last() {
            Some(last) if last.flags & FMR_OF_LAST == 0 && last.physical + last.length < end => {
                start = last.physical + last.length;
            }
            _ => return Ok(free),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_sectors_are_the_fourteenth_count() {
        let counts = "  1 2 3 4 5 6 7 8 9 10 11 12 13 2048 15 16 17\n";
        assert_eq!(parse_discarded(counts), Some(ByteLength::new(1 << 20)));
        // Before Linux 4.18 there were eleven fields.
        assert_eq!(parse_discarded("1 2 3 4 5 6 7 8 9 10 11"), None);
        assert_eq!(parse_discarded(""), None);
    }
}
