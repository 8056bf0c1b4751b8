//! Ranges of bytes.

use serde::{Deserialize, Serialize};

use crate::ByteLength;

/// A range of bytes of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First byte of the range.
    pub offset: ByteLength,
    /// Length of the range.
    pub length: ByteLength,
}

impl Region {
    /// Returns the first `length` bytes of a drive.
    pub const fn first(length: ByteLength) -> Region {
        Region { offset: ByteLength::ZERO, length }
    }

    /// Returns the position of the first byte behind the range.
    pub fn end(&self) -> ByteLength {
        self.offset + self.length
    }
}
