//! Errors of this crate.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The target does not exist, or nothing is known of it.
    #[error("{0}")]
    Target(String),
    /// The file is not a capture, or is broken.
    #[error("{path} is not a captured machine: {why}")]
    NotACapture {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect, and its place in the file.
        why: String,
    },
    /// An operation of the system failed.
    #[error("cannot {what}")]
    Io {
        /// Description of the operation.
        what: String,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
    /// The requested change would do harm, or could not be undone.
    #[error("{0}")]
    Refused(String),
    /// This machine lacks something that is needed.
    #[error("{0}")]
    Unsupported(String),
}

impl HostError {
    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> HostError {
        HostError::Io { what: what.into(), source }
    }
}
