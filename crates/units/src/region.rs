//! Ranges of bytes.

use serde::{Deserialize, Serialize};

use crate::ByteLength;

/// A range of bytes of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Where it starts.
    pub offset: ByteLength,
    /// How long it is.
    pub length: ByteLength,
}

impl Region {
    /// The first `length` bytes.
    pub const fn first(length: ByteLength) -> Region {
        Region { offset: ByteLength::ZERO, length }
    }

    /// The first byte behind it.
    pub fn end(&self) -> ByteLength {
        self.offset + self.length
    }
}
