//! Errors of a sweep as a whole; an error of one run is part of the result.

use std::io;
use std::path::PathBuf;

use ssdlab_drive::ErrorKind;
use ssdlab_lab::LabError;

/// Error that prevents a whole sweep.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// The experiment, a target or a setting is not valid.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The varied keys are not valid; the sentence says what would be.
    #[error("{0}")]
    Usage(String),
    /// The directory of results cannot be used.
    #[error("cannot {what} {path}")]
    Files {
        /// Operation that failed.
        what: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
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
