//! Identification of files by inode, because names change, and lead to other files in other mount
//! namespaces.

use std::io;
use std::path::Path;

use super::device::DeviceNumber;

/// A file, identified by its file system and its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode {
    /// Device number of its file system (`st_dev`).
    pub file_system: DeviceNumber,
    /// Inode number in that file system (`st_ino`).
    pub number: u64,
}

/// An open or mapped file, identified as far as needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeId {
    /// A block device, identified by its own number.
    BlockDevice(DeviceNumber),
    /// A regular file.
    File(Inode),
    /// Anything else: a pipe, a socket, a terminal.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is only one kind"))]
    Other,
}

impl NodeId {
    /// Returns the node that a path leads to. The server of a remote file is not asked, since it may not
    /// answer.
    #[cfg(target_os = "linux")]
    pub(crate) fn at(path: &Path) -> io::Result<NodeId> {
        use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted)?;
        Ok(match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::BlockDevice => NodeId::BlockDevice(DeviceNumber {
                major: found.stx_rdev_major,
                minor: found.stx_rdev_minor,
            }),
            FileType::RegularFile => NodeId::File(Inode {
                file_system: DeviceNumber {
                    major: found.stx_dev_major,
                    minor: found.stx_dev_minor,
                },
                number: found.stx_ino,
            }),
            _ => NodeId::Other,
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn at(_: &Path) -> io::Result<NodeId> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// `struct loop_info64` (linux/loop.h); only the first two fields are used.
#[cfg(target_os = "linux")]
#[repr(C)]
struct LoopInfo {
    file_system: u64,
    inode: u64,
    after: [u64; 27],
}

/// `LOOP_GET_STATUS64` (linux/loop.h).
#[cfg(target_os = "linux")]
const LOOP_GET_STATUS64: u32 = 0x4C05;

/// Returns the inode of the file behind a loop device, as the kernel knows it: the name of the file may
/// lead to another file by now, or nowhere.
///
/// # Errors
/// Returns an error if the device cannot be opened, or has no file behind it.
#[cfg(target_os = "linux")]
pub(crate) fn backing_of(loop_device: &Path) -> io::Result<Inode> {
    use std::os::fd::AsRawFd;

    let device = std::fs::File::open(loop_device)?;
    let mut found = LoopInfo { file_system: 0, inode: 0, after: [0; 27] };
    // SAFETY: the record is as long as the kernel's, and outlives the call.
    let outcome =
        unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut found) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // new_encode_dev (linux/kdev_t.h) puts 12 bits of the major number between those of the minor number.
    let raw = found.file_system;
    let (major, minor) = ((raw >> 8) & 0xFFF, (raw & 0xFF) | ((raw >> 12) & 0xFFF00));
    let file_system = DeviceNumber { major: major as u32, minor: minor as u32 };
    Ok(Inode { file_system, number: found.inode })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn backing_of(_: &Path) -> io::Result<Inode> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn links_to_a_file_lead_to_one_inode_and_devices_to_their_number() {
        let directory = tempfile::tempdir().unwrap();
        let [one, two, other] = ["one", "two", "other"].map(|name| directory.path().join(name));
        std::fs::write(&one, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::fs::hard_link(&one, &two).unwrap();
        assert_eq!(NodeId::at(&one).unwrap(), NodeId::at(&two).unwrap());
        assert_ne!(NodeId::at(&one).unwrap(), NodeId::at(&other).unwrap());
        let found = std::fs::metadata(&one).unwrap();
        let file_system = DeviceNumber::from_raw(found.dev());
        let inode = Inode { file_system, number: found.ino() };
        assert_eq!(NodeId::at(&one).unwrap(), NodeId::File(inode));
        assert_eq!(NodeId::at(Path::new("/dev/null")).unwrap(), NodeId::Other);
    }

    #[test]
    fn the_record_is_as_long_as_that_of_the_kernel() {
        // 5 numbers of 8 bytes, 4 of 4, two names of 64 bytes, a key of 32, and 2 numbers of 8.
        assert_eq!(size_of::<LoopInfo>(), 5 * 8 + 4 * 4 + 2 * 64 + 32 + 2 * 8);
    }
}
