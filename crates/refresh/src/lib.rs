//! Finds data that has become slow to read on an SSD, and rewrites only that, in place, on a live file
//! system.
//!
//! [`survey`] finds where a file or a device lies and whether it may be rewritten at all; `probe` reads
//! it in windows and measures the times; `judge` compares the times with those of freshly written data,
//! the baselines (`baseline`); [`plan`] estimates the cost and the gain of a rewrite; a `strategy`
//! rewrites window by window, with a [`journal`]; [`run`] does these steps in order.
//!
//! Where the file system can move data itself, this crate never writes user data. Elsewhere it reads the
//! data and writes it back to the same place while the file system is frozen (`freeze`), after proving
//! that nobody else writes to that rewrite target (`rewrite_target`).
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

mod baseline;
mod buffer;
mod extents;
mod file_system;
mod freeze;
pub mod health;
pub mod interval;
pub mod journal;
mod judge;
#[cfg(test)]
mod loop_mount;
mod maps;
mod overrun;
pub mod plan;
mod priority;
mod probe;
mod rate_limit;
mod rcu;
mod rewrite_target;
pub mod run;
pub mod stall;
mod strategy;
pub mod survey;
mod swap_check;
mod system;
mod window;

pub use ssdlab_error::{DriveError, ErrorKind};

/// Returns an error of the system, with the operation that failed.
pub(crate) fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> DriveError {
    let source = source.into();
    let kind = match source.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    DriveError::with_source(kind, what.into(), source)
}

/// Returns an error of kind `Refused`: the operation could harm data.
pub(crate) fn refused(what: impl Into<String>) -> DriveError {
    DriveError::new(ErrorKind::Refused, what.into())
}

/// Returns an error of kind `Unsupported`, for an operation that the system or file system cannot do.
pub(crate) fn unsupported(what: impl Into<String>) -> DriveError {
    DriveError::new(ErrorKind::Unsupported, what.into())
}
