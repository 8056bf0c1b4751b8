//! Where a file lies on its block device, what of that is free, and telling the drive about free
//! space: three requests to a file system (Linux).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use ssdlab_units::{ByteLength, Region};

/// A run of a file's bytes on the block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where it begins in the file.
    pub in_file: ByteLength,
    /// Where it lies on the block device of the file system.
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

/// Extents asked for at a time.
const BATCH: usize = 256;

#[repr(C)]
struct Fiemap {
    head: FiemapHead,
    extents: [FiemapExtent; BATCH],
}

/// Sync the file before it is mapped.
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
/// Flags of extents whose place is not known, or whose bytes are not those of the file: unknown,
/// not yet allocated, encoded, encrypted, not aligned, inline, packed, not written, shared.
const FIEMAP_UNFIT: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x2000;

/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;

/// Returns where a file's bytes lie; runs whose place is not known, or that hold something else than the file's bytes,
/// are left out.
///
/// # Errors
/// Those of the file system, also where it cannot say.
pub fn places_of(file: &File) -> io::Result<Vec<Placed>> {
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
        for extent in found.iter().filter(|extent| extent.flags & FIEMAP_UNFIT == 0) {
            placed.push(Placed {
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
struct TrimRange {
    start: u64,
    length: u64,
    least: u64,
}

/// `_IOWR('X', 121, struct fstrim_range)`.
const FITRIM: libc::c_ulong = 0xC018_5879;

/// Tells the drive what is free within `region` of a file system, of which `directory` is a
/// directory (`fstrim`); returns how much that was.
///
/// # Errors
/// Those of the file system: it cannot, or the block device takes no discards, or it takes root.
pub fn trim_free_space(directory: &File, region: Region) -> io::Result<ByteLength> {
    let mut range =
        TrimRange { start: region.offset.bytes(), length: region.length.bytes(), least: 0 };
    // SAFETY: the kernel reads and writes one range.
    let outcome = unsafe { libc::ioctl(directory.as_raw_fd(), FITRIM as _, &raw mut range) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ByteLength::new(range.length))
}

/// Returns how much was discarded on an open block device since the system started, of which the
/// kernel counts what is done; `None` where it does not count.
pub fn discarded(device: &File) -> Option<ByteLength> {
    let number = device.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let counts = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    discarded_of(&counts)
}

/// Takes the discarded sectors out of the counts of a block device (Documentation/block/stat.rst).
fn discarded_of(counts: &str) -> Option<ByteLength> {
    let sectors: u64 = counts.split_whitespace().nth(13)?.parse().ok()?;
    Some(ByteLength::new(sectors.checked_mul(512)?))
}

/// `struct fsmap` (linux/fsmap.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SpaceRecord {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head` with room for records.
#[repr(C)]
struct SpaceMap {
    flags_in: u32,
    flags_out: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [SpaceRecord; 2],
    records: [SpaceRecord; BATCH],
}

/// `_IOWR('X', 59, struct fsmap_head)`.
const FS_IOC_GETFSMAP: libc::c_ulong = 0xC0C0_583B;

const SPECIAL_OWNER: u32 = 0x10;
const LAST: u32 = 0x20;
const OWNER_FREE: u64 = 1;

/// Returns what is free now within `region` of a file system, of which `directory` is a directory.
///
/// # Errors
/// Those of the file system: it cannot say, or not without root.
pub fn free_space(directory: &File, region: Region) -> io::Result<Vec<Region>> {
    let end = region.end().bytes();
    let mut free: Vec<Region> = Vec::new();
    let mut start = region.offset.bytes();
    loop {
        let low = SpaceRecord { physical: start, ..SpaceRecord::default() };
        let high = SpaceRecord {
            device: u32::MAX,
            flags: u32::MAX,
            physical: end,
            owner: u64::MAX,
            offset: u64::MAX,
            length: 0,
            reserved: [0; 3],
        };
        let mut map = SpaceMap {
            flags_in: 0,
            flags_out: 0,
            count: BATCH as u32,
            entries: 0,
            reserved: [0; 6],
            keys: [low, high],
            records: [SpaceRecord::default(); BATCH],
        };
        // SAFETY: the kernel writes at most `count` records behind the head.
        let outcome =
            unsafe { libc::ioctl(directory.as_raw_fd(), FS_IOC_GETFSMAP as _, &raw mut map) };
        if outcome < 0 {
            return Err(io::Error::last_os_error());
        }
        let found = &map.records[..(map.entries as usize).min(BATCH)];
        for record in found {
            if record.flags & SPECIAL_OWNER != 0 && record.owner == OWNER_FREE {
                free.push(Region {
                    offset: ByteLength::new(record.physical),
                    length: ByteLength::new(record.length),
                });
            }
        }
        match found.last() {
            Some(last) if last.flags & LAST == 0 && last.physical + last.length < end => {
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
        assert_eq!(discarded_of(counts), Some(ByteLength::new(1 << 20)));
        // Before Linux 4.18 there were eleven.
        assert_eq!(discarded_of("1 2 3 4 5 6 7 8 9 10 11"), None);
        assert_eq!(discarded_of(""), None);
    }
}
