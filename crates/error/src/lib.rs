//! The error of everything that accesses drives: a kind for code, a message for people, and the cause.
//!
//! [`ErrorKind`] is for code: the program maps it to an exit code. The message says what was being done, to
//! what, and the way out. The cause is the source.
//!
//! ```
//! use ssdlab_error::{DriveError, ErrorKind};
//!
//! let error = DriveError::new(ErrorKind::Refused, "/dev/sda is in use: mounted at /");
//! assert_eq!(error.kind(), ErrorKind::Refused);
//! assert_eq!(error.to_string(), "/dev/sda is in use: mounted at /");
//! ```

use std::error::Error;
use std::fmt;

/// Kind of a failure. The cli maps kinds to exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request itself is wrong: a bad phase, size, name or profile.
    Usage,
    /// Refused because it could harm data; no option overrides it unless the message says so.
    Refused,
    /// This drive or system cannot do it.
    Unsupported,
    /// Not enough space on the drive or the file system.
    NoSpace,
    /// The operating system or the drive failed the request.
    Io,
    /// The drive has become read-only, because its flash is worn out.
    EndOfLife,
    /// The operation was cancelled by its observer.
    Cancelled,
}

/// A failure of a drive.
#[derive(Debug)]
pub struct DriveError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync + 'static>>,
}

impl DriveError {
    /// Returns an error of `kind`; `message` says what was being done, to what, and the way out.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        DriveError { kind, message: message.into(), source: None }
    }

    /// Returns an error with its cause. The message must not repeat the cause's text.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync + 'static>>,
    ) -> Self {
        DriveError { kind, message: message.into(), source: Some(source.into()) }
    }

    /// Returns the error of an operation that its observer has cancelled.
    pub fn cancelled() -> Self {
        DriveError::new(ErrorKind::Cancelled, "interrupted")
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for DriveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
