//! Errors of a sweep as a whole; an error of one run is part of the result.

use std::io;
use std::path::PathBuf;

use ssdlab_drive::ErrorKind;
use ssdlab_lab::LabError;

/// Why a sweep cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The experiment, a target or a setting is wrong.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// What is varied makes no sense; the sentence says what would.
    #[error("{0}")]
    Usage(String),
    /// The directory of results.
    #[error("cannot {what} {path}")]
    Files {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl SweepError {
    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            SweepError::Lab(error) => error.kind(),
            SweepError::Usage(_) => ErrorKind::Usage,
            SweepError::Files { .. } => ErrorKind::Io,
        }
    }
}
