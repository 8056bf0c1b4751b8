//! Snapshots: the state of a drive as bytes, and back.
//!
//! Only a drive that was shut down ([`crate::ftl::Ssd::shut_down`]) is saved: all data is on the flash, no work is
//! under way, and only the tables of the translation layer are left to save. The restored drive and the saved drive
//! answer the same requests alike, to the nanosecond.
//!
//! Every structure saves and restores itself, beside its own code. All of them name their fields one by one, so that
//! a new field does not compile until somebody has decided whether it is state. The bytes are not trusted: a wrong
//! byte is an error, never a panic and never a drive whose tables contradict each other. Data that follows from other
//! tables is worked out again: the reverse map, counts of extents, the blocks of a cache. The spare area entries of
//! units that are not valid are not saved: nothing in the model depends on them.
//!
//! If tables as long as the drive are kept apart ([`Encoder::with_tables_apart`]), map and reverse map are saved
//! whole, so that neither has to be read. They are checked, unless their source says that they are sound.

pub(crate) mod check;
#[cfg(test)]
mod tests;

use std::io;

use ssdlab_units::codec::CodecError;
pub use ssdlab_units::codec::{Decoder, Encoder};

use crate::geometry::GeometryError;

/// Reason why a drive could not be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Bytes that are no state of such a drive.
    #[error("the saved state is damaged: {what}")]
    Damaged {
        /// Description of the damage.
        what: String,
    },
    /// A mechanism that cannot be saved.
    #[error("a drive with {what} cannot be saved yet")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// A configuration that makes no drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Reading or writing failed, or the bytes end too early.
    #[error("cannot read or write the saved state")]
    Io(#[from] io::Error),
}

impl From<CodecError> for SnapshotError {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::Io(error) => SnapshotError::Io(error),
            CodecError::Damaged { what } => SnapshotError::Damaged { what },
        }
    }
}

/// Returns the error for a wrong byte.
pub(crate) fn damaged<T>(what: impl Into<String>) -> Result<T, SnapshotError> {
    Err(SnapshotError::Damaged { what: what.into() })
}
