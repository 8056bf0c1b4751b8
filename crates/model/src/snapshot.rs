//! The state of a drive as bytes, and back.
//!
//! What is saved is a drive that was shut down ([`crate::ftl::Ssd::shut_down`]): everything is on the flash,
//! nothing is under way, and nothing but the translation layer's tables is left to keep. A drive
//! made of the bytes and the drive that was saved answer the same requests alike, to the
//! nanosecond.
//!
//! Every structure writes and reads itself, beside its own code. All of them name their fields
//! one by one, so that a new field does not compile until somebody has decided whether it is
//! state. What is read is not trusted: a wrong byte is an error, never a panic and never a drive
//! whose tables contradict each other. What follows from other tables is worked out
//! anew: the reverse map, counts of extents, which blocks are a cache's. What the spare areas of units say that are not valid
//! is not saved: nothing that the model does depends on it.
//!
//! Where tables as long as the drive are kept apart ([`Encoder::with_tables_apart`]), map and reverse map are saved
//! whole, so that neither has to be read. They are checked, unless their source says that they are sound.

pub(crate) mod check;
#[cfg(test)]
mod tests;

use std::io;

use ssdlab_units::codec::CodecError;
pub use ssdlab_units::codec::{Decoder, Encoder};

use crate::geometry::GeometryError;

/// Why a drive could not be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Bytes that are no state of such a drive.
    #[error("the saved state is damaged: {what}")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
    /// A mechanism that does not know how to save itself.
    #[error("a drive with {what} cannot be saved yet")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// A configuration of which there is no drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Reading or writing failed; the end of the bytes where more were expected, too.
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

/// Returns what every reader says of a wrong byte.
pub(crate) fn damaged<T>(what: impl Into<String>) -> Result<T, SnapshotError> {
    Err(SnapshotError::Damaged { what: what.into() })
}
