//! Kinds of file system, recognised by the magic number that statfs returns.

use std::fs::File;
use std::os::fd::AsFd;

use crate::{DriveError, io};

/// A kind of file system, by how data on it can be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4; also ext2 and ext3, which have its magic number.
    Ext4,
    /// btrfs.
    Btrfs,
    /// xfs.
    Xfs,
    /// Another file system on a block device, with its magic number.
    Other(u64),
    /// A file system whose files lie on another machine, or behind a program.
    Elsewhere(&'static str),
    /// A file system whose files lie in memory.
    Memory(&'static str),
    /// A file system whose files lie in those of another file system, or which has a volume manager of
    /// its own.
    Layered(&'static str),
}

impl FileSystem {
    /// Returns the file system with this magic number (linux/magic.h, statfs(2)).
    pub fn of_magic(magic: u64) -> FileSystem {
        match magic {
            0xEF53 => FileSystem::Ext4,
            0x9123_683E => FileSystem::Btrfs,
            0x5846_5342 => FileSystem::Xfs,
            0x6969 => FileSystem::Elsewhere("NFS"),
            0x517B => FileSystem::Elsewhere("SMB"),
            0xFE53_4D42 => FileSystem::Elsewhere("SMB 2"),
            0xFF53_4D42 => FileSystem::Elsewhere("CIFS"),
            0x0102_1997 => FileSystem::Elsewhere("9P"),
            0x00C3_6400 => FileSystem::Elsewhere("Ceph"),
            0x5346_414F | 0x6B41_4653 => FileSystem::Elsewhere("AFS"),
            0x7375_7245 => FileSystem::Elsewhere("Coda"),
            0x6573_5546 => FileSystem::Elsewhere("FUSE"),
            0x786F_4256 => FileSystem::Elsewhere("a shared folder of VirtualBox"),
            0x0102_1994 => FileSystem::Memory("tmpfs"),
            0x8584_58F6 => FileSystem::Memory("ramfs"),
            0x9584_58F6 => FileSystem::Memory("hugetlbfs"),
            0x9FA0 => FileSystem::Memory("proc"),
            0x6265_6572 => FileSystem::Memory("sysfs"),
            0x794C_7630 => FileSystem::Layered("overlayfs"),
            0xF15F => FileSystem::Layered("eCryptfs"),
            0x2FC1_2FC1 => FileSystem::Layered("ZFS"),
            0xCA45_1A4E => FileSystem::Layered("bcachefs"),
            other => FileSystem::Other(other),
        }
    }

    /// Returns the file system of an open file.
    ///
    /// # Errors
    /// Returns an error if `fstatfs` fails.
    pub fn of(file: &File) -> Result<FileSystem, DriveError> {
        let found = rustix::fs::fstatfs(file.as_fd())
            .map_err(|error| io("cannot see what file system it is", error))?;
        Ok(FileSystem::of_magic(found.f_type as u64 & 0xFFFF_FFFF))
    }

    /// Returns the reason why nothing on this file system can be rewritten in place, or `None`.
    pub fn obstacle(self) -> Option<String> {
        match self {
            FileSystem::Elsewhere(name) => Some(format!(
                "lies on {name}, which another program or machine serves; refresh the file there"
            )),
            FileSystem::Memory(name) => {
                Some(format!("lies on {name}, in memory and not on a drive"))
            }
            FileSystem::Layered("ZFS") => Some(
                "lies on ZFS, which never overwrites in place; use 'zfs rewrite' instead".to_owned(),
            ),
            FileSystem::Layered("bcachefs") => Some(
                "lies on bcachefs, which does not move data on request; replace the file by a copy \
                 instead"
                    .to_owned(),
            ),
            FileSystem::Layered(name) => {
                Some(format!("lies on {name}; refresh the file in the lower file system instead"))
            }
            _ => None,
        }
    }

    /// Returns the name of the file system, as used in sentences.
    pub fn name(self) -> String {
        match self {
            FileSystem::Ext4 => "ext4".to_owned(),
            FileSystem::Btrfs => "btrfs".to_owned(),
            FileSystem::Xfs => "xfs".to_owned(),
            FileSystem::Other(magic) => format!("a file system with magic number {magic:#x}"),
            FileSystem::Elsewhere(name) | FileSystem::Memory(name) | FileSystem::Layered(name) => {
                name.to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_other_machines_and_in_memory_is_left_alone_with_a_reason() {
        for (magic, words) in [
            (0x6969, "NFS"),
            (0xFE53_4D42, "SMB 2"),
            (0x0102_1997, "9P"),
            (0x6573_5546, "FUSE"),
            (0x0102_1994, "in memory"),
            (0x794C_7630, "overlayfs"),
            (0x2FC1_2FC1, "zfs rewrite"),
            (0xCA45_1A4E, "by a copy instead"),
        ] {
            let why = FileSystem::of_magic(magic).obstacle().expect("an obstacle");
            assert!(why.contains(words), "{why}");
        }
        for magic in [0xEF53, 0x9123_683E, 0x5846_5342, 0xF2F5_2010] {
            assert_eq!(FileSystem::of_magic(magic).obstacle(), None, "{magic:#x}");
        }
    }
}
