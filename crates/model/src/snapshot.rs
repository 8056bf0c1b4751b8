//! The state of a drive as bytes, and back.
//!
//! What is saved is a drive that was shut down ([`crate::ssd::Ssd::shut_down`]): everything is on the flash,
//! nothing is under way, and nothing but the translation layer's tables is left to keep. A drive
//! made of the bytes and the drive that was saved answer the same requests alike, to the
//! nanosecond.
//!
//! Every structure writes and reads itself, beside its own code. All of them name their fields
//! one by one, so that a new field does not compile until somebody has decided whether it is
//! state. What is read is not trusted: a wrong byte is an error, never a panic and never a drive
//! whose tables contradict each other. What follows from other tables is worked out
//! anew: the reverse map, counts of extents, which blocks are a cache's. Not saved are the spare areas of units that are not valid:
//! nothing in the model reads them.

pub(crate) mod check;
mod drive;
mod shut_down;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

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

/// What every reader says of a wrong byte.
pub(crate) fn damaged<T>(what: impl Into<String>) -> Result<T, SnapshotError> {
    Err(SnapshotError::Damaged { what: what.into() })
}

/// Entries of a table that are left out together when all of them are zero.
const CHUNK: usize = 1 << 14;

/// Writes state.
pub struct Encoder<'a> {
    out: &'a mut dyn Write,
}

impl<'a> Encoder<'a> {
    /// Writes to `out`, in many small pieces.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Encoder { out }
    }

    /// Writes a number of 64 bits.
    pub(crate) fn long(&mut self, value: u64) -> Result<(), SnapshotError> {
        Ok(self.out.write_all(&value.to_le_bytes())?)
    }

    /// Writes a number of 32 bits.
    pub(crate) fn word(&mut self, value: u32) -> Result<(), SnapshotError> {
        Ok(self.out.write_all(&value.to_le_bytes())?)
    }

    /// Writes a list with its length.
    pub(crate) fn list(
        &mut self,
        values: impl ExactSizeIterator<Item = u32>,
    ) -> Result<(), SnapshotError> {
        self.word(values.len() as u32)?;
        for value in values {
            self.word(value)?;
        }
        Ok(())
    }

    /// Writes a table, without its stretches of zeros.
    pub(crate) fn table(&mut self, values: &[u32]) -> Result<(), SnapshotError> {
        let mut bytes = Vec::with_capacity(4 * CHUNK);
        for chunk in values.chunks(CHUNK) {
            let is_used = chunk.iter().any(|&value| value != 0);
            self.out.write_all(&[u8::from(is_used)])?;
            if is_used {
                bytes.clear();
                bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
                self.out.write_all(&bytes)?;
            }
        }
        Ok(())
    }
}

/// Reads state.
pub struct Decoder<'a> {
    from: &'a mut dyn Read,
}

impl<'a> Decoder<'a> {
    /// Reads from `from`, in many small pieces.
    pub fn new(from: &'a mut dyn Read) -> Self {
        Decoder { from }
    }

    fn bytes<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], SnapshotError> {
        let mut bytes = [0; LENGTH];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a number of 64 bits.
    pub(crate) fn long(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// Reads a number of 32 bits.
    pub(crate) fn word(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    /// Reads a number of 32 bits that must be at most `most`.
    pub(crate) fn at_most(&mut self, most: u32, what: &str) -> Result<u32, SnapshotError> {
        let value = self.word()?;
        if value > most { damaged(format!("{what} is {value}, above {most}")) } else { Ok(value) }
    }

    /// Reads a list of at most `length` entries, each below `limit`.
    pub(crate) fn list(
        &mut self,
        length: u32,
        limit: u32,
        what: &str,
    ) -> Result<Vec<u32>, SnapshotError> {
        let length = self.at_most(length, what)?;
        (0..length).map(|_| self.at_most(limit.saturating_sub(1), what)).collect()
    }

    /// Reads a table of `length` entries.
    pub(crate) fn table(&mut self, length: usize) -> Result<Vec<u32>, SnapshotError> {
        let mut values = vec![0u32; length];
        self.table_into(&mut values)?;
        Ok(values)
    }

    /// The same into memory that holds zeros: of those that nobody touches it takes none.
    pub(crate) fn table_into(&mut self, values: &mut [u32]) -> Result<(), SnapshotError> {
        let mut bytes = vec![0; 4 * CHUNK];
        for chunk in values.chunks_mut(CHUNK) {
            match self.bytes()? {
                [0] => {}
                [1] => {
                    let bytes = &mut bytes[..4 * chunk.len()];
                    self.from.read_exact(bytes)?;
                    let (words, _) = bytes.as_chunks::<4>();
                    for (value, word) in chunk.iter_mut().zip(words) {
                        *value = u32::from_le_bytes(*word);
                    }
                }
                [other] => return damaged(format!("a piece of a table is marked {other}")),
            }
        }
        Ok(())
    }
}
