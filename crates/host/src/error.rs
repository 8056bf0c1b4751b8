//! What can go wrong before anything was looked at.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// What was to be looked at is not there, or nothing is known of it.
    #[error("{0}")]
    Target(String),
    /// A file is no capture, or a broken one.
    #[error("{path} is not a captured machine: {why}")]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// What is wrong in it, and where.
        why: String,
    },
    /// The system failed an operation.
    #[error("cannot {what}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// What was asked for would do harm, or cannot be taken back.
    #[error("{0}")]
    Refused(String),
    /// This machine lacks what is needed.
    #[error("{0}")]
    Unsupported(String),
}

impl HostError {
    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> HostError {
        HostError::Io { what: what.into(), source }
    }
}
