//! What is to be refreshed, where it lies, and whether it may be rewritten at all. Nothing is
//! changed here.

mod deadlock;
mod device;
mod file;
mod obstacle;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

pub use self::deadlock::{Needed, refuse_deadlock};
use crate::extents::{Extent, pieces_in};
use crate::ground::Ground;
use crate::health::Disks;
use crate::window::Span;
use crate::{DriveError, ErrorKind, io};

/// What the user agreed to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    /// That extents which snapshots or copies share are written anew, and are theirs alone then.
    pub shared: bool,
    /// That of a file with holes the data between them is.
    pub sparse: bool,
    /// That the file system is frozen for moments, also where it could move data itself.
    pub frozen: bool,
}

/// How it will be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// ext4 exchanges blocks.
    MoveExtents,
    /// btrfs writes ranges anew.
    Defragment,
    /// xfs exchanges ranges that nobody has changed meanwhile.
    CommitRange,
    /// In place, with the file system frozen for moments.
    Frozen,
    /// In place, on a device that nobody else uses.
    Alone,
}

impl Way {
    /// Returns true if the file system moves data to another place itself, while others go on.
    pub fn is_live(self) -> bool {
        matches!(self, Way::MoveExtents | Way::Defragment | Way::CommitRange)
    }
}

/// What something is known by from one run to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Of the file system, or the number of the device.
    pub file_system: String,
    /// Of the file; 0 for a device.
    pub inode: u64,
}

/// What is to be refreshed.
#[derive(Debug)]
pub struct Survey {
    /// How the user named it.
    pub path: PathBuf,
    /// What it is known by.
    pub identity: Identity,
    /// It, open for reading and writing. A device that is unmounted is open for us alone.
    pub file: File,
    /// Its length in bytes.
    pub length: u64,
    /// How it will be rewritten.
    pub way: Way,
    /// In words, what it lies on.
    pub lies_on: String,
    /// Runs of data.
    pub runs: Vec<Span>,
    /// Where it lies; empty for a device.
    pub extents: Vec<Extent>,
    /// A directory of the same file system, where a file of ours can be made; nothing where there
    /// is no file system.
    pub directory: Option<PathBuf>,
    /// The disks below.
    pub disks: Disks,
    /// Why reading says little of flash here, as a sentence; nothing where flash may be read as it is.
    pub hidden_flash: Option<String>,
    /// What else should be known, in sentences.
    pub notes: Vec<String>,
    /// What is rewritten, where that is done in place.
    pub ground: Option<Ground>,
    /// Bytes of a block of the file system.
    pub block: u64,
    /// Bytes of the file system that stay free.
    pub reserve: u64,
}

impl Survey {
    /// Looks at the file or block device at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] where it is not there; [`ErrorKind::Refused`] and
    /// [`ErrorKind::Unsupported`] with the reason where it must not or
    /// cannot be rewritten; nothing was changed then.
    pub fn of(path: &Path, agreed: Agreed) -> Result<Survey, DriveError> {
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
            return file::of_file(path, agreed);
        }
        let what = if kind.is_dir() { "a directory" } else { "neither a file nor a block device" };
        Err(DriveError::new(
            ErrorKind::Usage,
            format!("{shown} is {what}; name a file, such as the table that has become slow"),
        ))
    }

    /// In how many pieces a part of it lies.
    pub fn pieces_in(&self, part: Span) -> u32 {
        pieces_in(&self.extents, part).max(1)
    }

    /// Opens it for reading past the page cache.
    ///
    /// # Errors
    /// When the file system does not do that.
    pub fn open_direct(&self) -> Result<File, DriveError> {
        OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits() as i32)
            .open(&self.path)
            .map_err(|error| {
                let what = format!(
                    "cannot read {} past the page cache, and what the page cache answers says \
                     nothing of the drive",
                    self.path.display()
                );
                DriveError::with_source(ErrorKind::Unsupported, what, error)
            })
    }

    /// Bytes of data.
    pub fn data(&self) -> u64 {
        self.runs.iter().map(|run| run.length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_not_refreshed_and_memory_is_not_either() {
        let error = Survey::of(Path::new("/"), Agreed::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { return };
        let path = directory.path().join("file");
        fs::write(&path, "data").unwrap();
        let error = Survey::of(&path, Agreed::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("tmpfs"), "{error}");
    }
}
