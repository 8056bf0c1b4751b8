//! Finds the place of a file or device, and whether it may be rewritten at all. Nothing is changed here.

mod deadlock;
mod device;
mod file;
mod obstacle;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

pub use self::deadlock::{RequiredFile, refuse_deadlock};
use crate::extents::{Extent, count_fragments};
use crate::health::Disks;
use crate::rewrite_target::RewriteTarget;
use crate::window::Span;
use crate::{DriveError, ErrorKind, io};

/// Consents of the user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consents {
    /// Consent to rewrite extents that snapshots or copies share, after which they are shared no more.
    pub shared: bool,
    /// Consent to rewrite the data between the holes of a sparse file.
    pub sparse: bool,
    /// Consent to freeze the file system for moments, even if it could move data itself.
    pub frozen: bool,
}

/// Method of the rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteMethod {
    /// ext4 exchanges blocks.
    MoveExtents,
    /// btrfs writes ranges anew.
    Defragment,
    /// xfs exchanges ranges that nobody has changed meanwhile.
    CommitRange,
    /// A rewrite in place, with the file system frozen for moments.
    Frozen,
    /// A rewrite in place, on a device that nobody else uses.
    Alone,
}

impl RewriteMethod {
    /// Returns true if the file system moves data to another place itself, while others go on.
    pub fn is_live(self) -> bool {
        matches!(
            self,
            RewriteMethod::MoveExtents | RewriteMethod::Defragment | RewriteMethod::CommitRange
        )
    }
}

/// Identity of a file or device from one run to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Identifier of the file system, or the number of the device.
    pub file_system: String,
    /// Inode number of the file; 0 for a device.
    pub inode: u64,
}

/// Properties of the file or device to refresh.
#[derive(Debug)]
pub struct Survey {
    /// Path as the user gave it.
    pub path: PathBuf,
    /// Identity from one run to the next.
    pub identity: Identity,
    /// The file or device, open for reading and writing. An unmounted device is opened exclusively.
    pub file: File,
    /// Length in bytes.
    pub length: u64,
    /// Method of the rewrite.
    pub method: RewriteMethod,
    /// File system and devices below the data, in words.
    pub lies_on: String,
    /// Runs of data.
    pub runs: Vec<Span>,
    /// Extents of the file; empty for a device.
    pub extents: Vec<Extent>,
    /// A directory of the same file system, in which temporary files can be made; `None` if there is no
    /// file system.
    pub directory: Option<PathBuf>,
    /// The disks below.
    pub disks: Disks,
    /// Reason, as a sentence, why the times of reads reveal little about flash here; `None` if they do.
    pub hidden_flash: Option<String>,
    /// Other remarks for the user, in sentences.
    pub notes: Vec<String>,
    /// Rewrite target; `None` unless the data is rewritten in place.
    pub rewrite_target: Option<RewriteTarget>,
    /// Bytes of a block of the file system.
    pub block: u64,
    /// Bytes of the file system that must stay free.
    pub reserve: u64,
}

impl Survey {
    /// Examines the file or block device at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if there is no such file or device; [`ErrorKind::Refused`] and
    /// [`ErrorKind::Unsupported`] with the reason if it must not or cannot be rewritten. Nothing was
    /// changed then.
    pub fn of(path: &Path, consents: Consents) -> Result<Survey, DriveError> {
        let shown = path.display();
        let found = fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => DriveError::new(
                ErrorKind::Usage,
                format!("there is no {shown}; name a file, or a block device"),
            ),
            _ => io(format!("cannot look at {shown}"), error),
        })?;
        let kind = found.file_type();
        if kind.is_block_device() {
            return device::of_device(path, found.rdev());
        }
        if kind.is_file() {
            return file::of_file(path, consents);
        }
        let what = if kind.is_dir() { "a directory" } else { "neither a file nor a block device" };
        Err(DriveError::new(
            ErrorKind::Usage,
            format!("{shown} is {what}; name a file, such as the table that has become slow"),
        ))
    }

    /// Returns the number of pieces in which a part of the file lies, at least 1.
    pub fn count_fragments(&self, part: Span) -> u32 {
        count_fragments(&self.extents, part).max(1)
    }

    /// Opens the file or device for reading past the page cache.
    ///
    /// # Errors
    /// Returns an error if the file system does not support direct I/O.
    pub fn open_direct(&self) -> Result<File, DriveError> {
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&self.path)
            .map_err(|error| {
                let what = format!(
                    "cannot read {} with direct I/O, and reads from the page cache say nothing \
                     about the drive",
                    self.path.display()
                );
                DriveError::with_source(ErrorKind::Unsupported, what, error)
            })
    }

    /// Returns the bytes of data.
    pub fn data(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_not_refreshed_and_memory_is_not_either() {
        let error = Survey::of(Path::new("/"), Consents::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return };
        let path = directory.path().join("file");
        fs::write(&path, "data").unwrap();
        let error = Survey::of(&path, Consents::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("tmpfs"), "{error}");
    }
}
