//! Finding what has become slow to read on an SSD, and rewriting just that, in place, on a live
//! file system.
//!
//! [`survey`] says where a file or a device lies and whether it may be rewritten at all; `probe`
//! reads it in windows and times them; `judge` holds the times against those of freshly written
//! data (`yardstick`); [`plan`] says what a rewrite would cost and bring; a `strategy` rewrites
//! window by window, with a [`journal`]; [`course`] is all of it in order.
//!
//! Nobody's data is ever written by us where the file system can move it itself. Where it cannot,
//! what is read is written back to the same place while the file system is frozen (`freeze`), once it
//! is proved that nobody else writes to that ground (`ground`).
//!
//! ```
//! use ssdlab_refresh::interval::ratio_of_sums;
//!
//! // Seconds that a window takes, and fresh data beside it.
//! let took = [(2.0, 1.0), (2.1, 1.0), (1.9, 0.9), (2.0, 1.1), (2.2, 1.0), (2.0, 1.0), (1.8, 0.9), (2.1, 1.0)];
//! let slowdown = ratio_of_sums(&took).expect("six pairs or more");
//! assert!(slowdown.low <= slowdown.middle && slowdown.middle <= slowdown.high);
//! ```

#![cfg(target_os = "linux")]

mod buffer;
pub mod course;
mod extents;
mod file_system;
mod freeze;
mod grace;
mod ground;
mod headway;
pub mod health;
pub mod interval;
pub mod journal;
mod judge;
pub mod lateness;
mod maps;
#[cfg(test)]
mod mounted;
mod pace;
pub mod plan;
mod probe;
mod strategy;
pub mod survey;
mod swapped;
mod system;
mod urgency;
mod window;
mod yardstick;

pub use ssdlab_error::{DriveError, ErrorKind};

/// A failure of the system's with what was being done.
pub(crate) fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> DriveError {
    let source = source.into();
    let kind = match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    DriveError::with_source(kind, what.into(), source)
}

/// A refusal, so that no data is harmed.
pub(crate) fn refused(what: impl Into<String>) -> DriveError {
    DriveError::new(ErrorKind::Refused, what.into())
}

/// Returns what this system or file system cannot do.
pub(crate) fn unsupported(what: impl Into<String>) -> DriveError {
    DriveError::new(ErrorKind::Unsupported, what.into())
}
