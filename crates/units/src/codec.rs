//! Tables as bytes, and back: little-endian numbers, lists with their length, and tables without their stretches of
//! zeros.
//!
//! Every structure saves and restores itself with [`Encoder`] and [`Decoder`], beside its own code. The decoder
//! trusts none of the bytes: a wrong byte is a [`CodecError`], never a panic.
//!
//! ```
//! use ssdlab_units::codec::{CodecError, Decoder, Encoder};
//!
//! let mut bytes = Vec::new();
//! Encoder::new(&mut bytes).list([3, 1, 4].into_iter())?;
//! let mut from = bytes.as_slice();
//! assert_eq!(Decoder::new(&mut from).list(8, 10, "a digit")?, [3, 1, 4]);
//! # Ok::<(), CodecError>(())
//! ```

use std::io::{self, Read, Write};
use std::ops::Range;

/// Reason why bytes could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Bytes that no encoder wrote.
    #[error("the saved state is damaged: {what}")]
    Damaged {
        /// Description of the error.
        what: String,
    },
    /// Reading or writing failed, or the bytes end too early.
    #[error("cannot read or write the saved state")]
    Io(#[from] io::Error),
}

/// Returns the error for a wrong byte.
pub fn damaged<T>(what: impl Into<String>) -> Result<T, CodecError> {
    Err(CodecError::Damaged { what: what.into() })
}

/// Number of entries of a table that are left out together if all of them are zero.
const CHUNK: usize = 1 << 14;

/// Memory for a table, lent by its owner, such as a mapped file.
///
/// # Safety
/// Each call returns the same memory. It stays where it is, and is reached by nobody else until the lender is
/// dropped; moving the lender does not move the memory.
pub unsafe trait BorrowedMemory: std::fmt::Debug + Send + Sync {
    /// Returns the memory.
    fn words(&mut self) -> &mut [u32];
}

/// Store for tables that are as long as a drive, apart from the rest of its state.
pub trait TableStore {
    /// Keeps `table`. Returns the number by which the table is found again.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn keep(&mut self, table: &[u32]) -> io::Result<u64>;
}

/// Lends the tables that a [`TableStore`] keeps. Changes to a lent table are not kept.
pub trait TableSource {
    /// Lends the table of `length` entries with the number `at`.
    ///
    /// # Errors
    /// Returns an error if there is no such table.
    fn lend(&mut self, at: u64, length: usize) -> Result<Box<dyn BorrowedMemory>, CodecError>;

    /// Returns true if the tables are known to be as they were written, so that they need not be read to check them.
    fn is_verified(&self) -> bool;
}

/// Writer of state.
pub struct Encoder<'a> {
    out: &'a mut dyn Write,
    tables: Option<&'a mut dyn TableStore>,
}

impl<'a> Encoder<'a> {
    /// Returns an encoder that writes to `out`, in many small pieces.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Encoder { out, tables: None }
    }

    /// Returns an encoder that writes to `out`, and gives tables as long as a drive to `tables`.
    pub fn with_tables_apart(out: &'a mut dyn Write, tables: &'a mut dyn TableStore) -> Self {
        Encoder { out, tables: Some(tables) }
    }

    /// Stores a table apart if tables are kept apart. Returns true if they are.
    pub fn table_apart(&mut self, values: &[u32]) -> Result<bool, CodecError> {
        let Some(tables) = &mut self.tables else { return Ok(false) };
        let at = tables.keep(values)?;
        self.long(at)?;
        Ok(true)
    }

    /// Writes a number of 64 bits.
    pub fn long(&mut self, value: u64) -> Result<(), CodecError> {
        Ok(self.out.write_all(&value.to_le_bytes())?)
    }

    /// Writes a number of 32 bits.
    pub fn word(&mut self, value: u32) -> Result<(), CodecError> {
        Ok(self.out.write_all(&value.to_le_bytes())?)
    }

    /// Writes a list with its length.
    pub fn list(&mut self, values: impl ExactSizeIterator<Item = u32>) -> Result<(), CodecError> {
        self.word(values.len() as u32)?;
        for value in values {
            self.word(value)?;
        }
        Ok(())
    }

    /// Writes a table, without its stretches of zeros.
    pub fn table(&mut self, values: &[u32]) -> Result<(), CodecError> {
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

/// Reader of state.
pub struct Decoder<'a> {
    from: &'a mut dyn Read,
    tables: Option<&'a mut dyn TableSource>,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder that reads from `from`, in many small pieces.
    pub fn new(from: &'a mut dyn Read) -> Self {
        Decoder { from, tables: None }
    }

    /// Returns a decoder that reads from `from`, and borrows from `tables` the tables that an
    /// [`Encoder::with_tables_apart`] had kept apart.
    pub fn with_tables_apart(from: &'a mut dyn Read, tables: &'a mut dyn TableSource) -> Self {
        Decoder { from, tables: Some(tables) }
    }

    /// Borrows a table of `length` entries, or returns `None` if tables are not kept apart. Its entries may have any
    /// value, unless [`Decoder::is_verified`].
    pub fn table_apart(
        &mut self,
        length: usize,
    ) -> Result<Option<Box<dyn BorrowedMemory>>, CodecError> {
        if self.tables.is_none() {
            return Ok(None);
        }
        let at = self.long()?;
        self.tables.as_mut().map(|tables| tables.lend(at, length)).transpose()
    }

    /// Returns true if the state is known to be as it was written, so that it need not be checked.
    pub fn is_verified(&self) -> bool {
        self.tables.as_ref().is_some_and(|tables| tables.is_verified())
    }

    fn bytes<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], CodecError> {
        let mut bytes = [0; LENGTH];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a number of 64 bits.
    pub fn long(&mut self) -> Result<u64, CodecError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// Reads a number of 32 bits.
    pub fn word(&mut self) -> Result<u32, CodecError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    /// Reads a number of 32 bits that must be at most `most`.
    pub fn at_most(&mut self, most: u32, what: &str) -> Result<u32, CodecError> {
        let value = self.word()?;
        if value > most { damaged(format!("{what} is {value}, above {most}")) } else { Ok(value) }
    }

    /// Reads a list of at most `length` entries, each below `limit`.
    pub fn list(&mut self, length: u32, limit: u32, what: &str) -> Result<Vec<u32>, CodecError> {
        let length = self.at_most(length, what)?;
        (0..length).map(|_| self.at_most(limit.saturating_sub(1), what)).collect()
    }

    /// Reads a table of `length` entries.
    pub fn table(&mut self, length: usize) -> Result<Vec<u32>, CodecError> {
        let mut values = vec![0u32; length];
        self.table_into(&mut values)?;
        Ok(values)
    }

    /// Reads a table into zeroed memory, without touching stretches of zeros. Returns the stretches that were
    /// written.
    pub fn table_into(&mut self, values: &mut [u32]) -> Result<Vec<Range<usize>>, CodecError> {
        let (mut bytes, mut touched) = (vec![0; 4 * CHUNK], Vec::new());
        for (begin, chunk) in (0..).step_by(CHUNK).zip(values.chunks_mut(CHUNK)) {
            match self.bytes()? {
                [0] => {}
                [1] => {
                    touched.push(begin..begin + chunk.len());
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
        Ok(touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            long: u64,
            list in proptest::collection::vec(0u32..100, 0..20),
            stretches in proptest::collection::vec((0usize..40_000, 0u32..3), 0..4),
        ) {
            let table: Vec<u32> =
                stretches.iter().flat_map(|&(length, value)| vec![value; length]).collect();
            let mut bytes = Vec::new();
            let mut to = Encoder::new(&mut bytes);
            to.long(long).unwrap();
            to.list(list.iter().copied()).unwrap();
            to.table(&table).unwrap();
            let mut from = bytes.as_slice();
            let mut reader = Decoder::new(&mut from);
            prop_assert_eq!(reader.long().unwrap(), long);
            prop_assert_eq!(reader.list(20, 100, "a number").unwrap(), list);
            prop_assert_eq!(reader.table(table.len()).unwrap(), table);
            prop_assert!(from.is_empty());
        }
    }

    #[test]
    fn stretches_of_zeros_take_a_byte() {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).table(&vec![0; 3 * CHUNK]).unwrap();
        assert_eq!(bytes, [0; 3]);
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let read = |mut bytes: &[u8]| Decoder::new(&mut bytes).list(2, 10, "a digit");
        assert!(matches!(read(&[1, 0, 0]), Err(CodecError::Io(_))));
        assert!(matches!(read(&[3, 0, 0, 0]), Err(CodecError::Damaged { .. })));
        assert!(matches!(read(&[1, 0, 0, 0, 10, 0, 0, 0]), Err(CodecError::Damaged { .. })));
        assert!(matches!(
            Decoder::new(&mut [2].as_slice()).table(1),
            Err(CodecError::Damaged { .. })
        ));
    }
}
