//! Errors of attaching: a kind for code, a sentence for people, and the cause.

use std::path::{Path, PathBuf};

use ssdlab_model::profile::ProfileError;
use ssdlab_model::recovery::RecoveryError;
use ssdlab_rundir::RunDirectoryError;

/// What stands in the way of a drive that is attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The system failed an operation.
    #[error("cannot {what} {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// How it failed.
        source: std::io::Error,
    },
    /// There is no file where an image should be.
    #[error("there is no image {}; 'ssdlab create sim:NAME {}' makes one", .path.display(), .path.display())]
    NoImage {
        /// The file that was named.
        path: PathBuf,
    },
    /// A file is there that would be replaced.
    #[error("{} exists; name a new file, or say --force to replace it", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process has the image.
    #[error("{} is attached already, or being checked; detach it first", .path.display())]
    InUse {
        /// The image.
        path: PathBuf,
    },
    /// A drive that somebody uses, and that is therefore not detached.
    #[error("{place} is in use: {users}")]
    Busy {
        /// The device, file or address.
        place: String,
        /// Who uses it.
        users: String,
    },
    /// A drive that is to be mounted holds something else than a file system.
    #[error(
        "the drive holds {found}; attach it without --mount and look, or make a file system of it \
         yourself: mkfs.{file_system} of the device that `attach` prints"
    )]
    Holds {
        /// What was found.
        found: String,
        /// The file system that was asked for.
        file_system: String,
    },
    /// The file is no image, or one that is damaged.
    #[error("{}: {what}", .path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A drive of which there is no image: it cannot be opened from its flash, or not by this crate.
    #[error(
        "a drive with {what} cannot be attached yet: {instead}, or use ssdlab run, which takes it as it is"
    )]
    Unsupported {
        /// The mechanism, and the key that asks for it.
        what: &'static str,
        /// What to change so that it can be attached.
        instead: &'static str,
    },
    /// The profile in the image, or the one to make it of, is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// What is on the flash makes no drive.
    #[error("{} cannot be opened", .path.display())]
    Recovery {
        /// The image.
        path: PathBuf,
        /// Why.
        source: RecoveryError,
    },
    /// Something that somebody else may have put there, and that is therefore not acted on.
    #[error("{} {why}; nothing is done with it", .path.display())]
    Untrusted {
        /// The directory or record.
        path: PathBuf,
        /// Why it is not trusted, and the way out.
        why: String,
    },
    /// Somebody else has removed the image, or a part of it, while the drive was attached.
    #[error("{0}")]
    Lost(String),
    /// This system cannot do it.
    #[error("{0}")]
    System(String),
    /// Wrong use.
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
    /// An operation on `path` that the system failed.
    pub fn io(what: &'static str, path: &Path, source: std::io::Error) -> AttachError {
        AttachError::Io { what, path: path.to_owned(), source }
    }

    /// Returns what is wrong with the image at `path`.
    pub fn image(path: &Path, what: impl Into<String>) -> AttachError {
        AttachError::NotAnImage { path: path.to_owned(), what: what.into() }
    }
}
