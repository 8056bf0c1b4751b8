//! Errors of attaching: a kind for code, a message for people, and the cause.

use std::path::{Path, PathBuf};

use ssdlab_model::profile::ProfileError;
use ssdlab_model::recovery::RecoveryError;
use ssdlab_rundir::RunDirectoryError;

/// Failure of attaching, using or detaching a drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The system failed an operation.
    #[error("cannot {what} {}", .path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file, device or address.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no file at the path of the image.
    #[error("there is no image {}; 'ssdlab create sim:NAME {}' makes one", .path.display(), .path.display())]
    NoImage {
        /// The path that was given.
        path: PathBuf,
    },
    /// A file exists that would be replaced.
    #[error("{} exists; name a new file, or add --force to replace it", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process has the image open.
    #[error("{} is attached already, or being checked; detach it first", .path.display())]
    InUse {
        /// The image.
        path: PathBuf,
    },
    /// The drive is in use, and is therefore not detached.
    #[error("{place} is in use: {users}")]
    Busy {
        /// Place of the drive: device, file or address.
        place: String,
        /// Its users, as text.
        users: String,
    },
    /// A drive that has to be mounted holds something else than a file system.
    #[error(
        "the drive holds {found}; attach it without --mount to examine it, or to make a file \
         system yourself: mkfs.{file_system} on the device that `attach` prints"
    )]
    Holds {
        /// Description of what it holds.
        found: String,
        /// The file system that was asked for.
        file_system: String,
    },
    /// The file is no image, or one that is damaged.
    #[error("{}: {what}", .path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// Description of what is wrong.
        what: String,
    },
    /// The drive has a mechanism that an image cannot keep.
    #[error(
        "a drive with {what} cannot be attached yet: {instead}, or use ssdlab run, which supports \
         it"
    )]
    Unsupported {
        /// The mechanism, and the key that asks for it.
        what: &'static str,
        /// The change that makes the drive attachable.
        instead: &'static str,
    },
    /// The profile in the image, or that for a new image, is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The drive cannot recover from the contents of its flash.
    #[error("{} cannot be opened", .path.display())]
    Recovery {
        /// The image.
        path: PathBuf,
        /// The reason.
        source: RecoveryError,
    },
    /// A directory or record that somebody else may have written, and that is therefore not acted on.
    #[error("{} {why}; nothing is done with it", .path.display())]
    Untrusted {
        /// The directory or record.
        path: PathBuf,
        /// The reason, and the way out.
        why: String,
    },
    /// Somebody has removed the image, or a part of it, while the drive was attached.
    #[error("{0}")]
    Lost(String),
    /// The system lacks something that is needed.
    #[error("{0}")]
    System(String),
    /// The command was used wrongly.
    #[error("{0}")]
    Usage(String),
}

impl From<RunDirectoryError> for AttachError {
    fn from(error: RunDirectoryError) -> AttachError {
        match error {
            RunDirectoryError::Io { path, source } => {
                AttachError::Io { what: "make", path, source }
            }
            RunDirectoryError::Untrusted { path, why } => AttachError::Untrusted { path, why },
        }
    }
}

impl AttachError {
    /// Returns the error of an operation on `path` that the system failed.
    pub fn io(what: &'static str, path: &Path, source: std::io::Error) -> AttachError {
        AttachError::Io { what, path: path.to_owned(), source }
    }

    /// Returns the error of an image at `path` that is damaged or none.
    pub fn image(path: &Path, what: impl Into<String>) -> AttachError {
        AttachError::NotAnImage { path: path.to_owned(), what: what.into() }
    }
}
