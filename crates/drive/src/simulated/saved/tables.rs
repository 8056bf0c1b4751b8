//! The tables of a saved drive that grow with its size: written with holes where they are zero, and mapped
//! into memory when they are read.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use crc32fast::Hasher;
use memmap2::{MmapMut, MmapOptions};
use ssdlab_units::codec::{BorrowedMemory, CodecError, TableSource, TableStore, damaged};

/// Alignment of a table in bytes, the size of a page of memory nearly everywhere.
const ALIGNMENT: u64 = 4096;

/// Bytes of a table that are left out as one hole if all of them are zero.
const PIECE: usize = 1 << 16;

/// A file that is being written, with a checksum computed at the same time.
pub(super) struct ChecksummedFile {
    out: BufWriter<File>,
    sum: Hasher,
    position: u64,
}

impl ChecksummedFile {
    pub(super) fn new(file: File) -> Self {
        let out = BufWriter::with_capacity(PIECE, file);
        ChecksummedFile { out, sum: Hasher::new(), position: 0 }
    }

    /// Returns the number of bytes written.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Leaves out `length` bytes, at most [`PIECE`], which read as zeros then.
    fn skip(&mut self, length: u64) -> io::Result<()> {
        self.sum.update(&[0; PIECE][..length as usize]);
        self.position += length;
        self.out.seek(SeekFrom::Start(self.position))?;
        Ok(())
    }

    /// Writes the checksum and returns the file.
    pub(super) fn finish(mut self) -> io::Result<File> {
        let checksum = self.sum.finalize();
        self.out.write_all(&checksum.to_le_bytes())?;
        self.out.into_inner().map_err(|error| error.into_error())
    }
}

impl Write for ChecksummedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.sum.update(&bytes[..count]);
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl TableStore for ChecksummedFile {
    fn keep(&mut self, table: &[u32]) -> io::Result<u64> {
        self.skip(self.position.next_multiple_of(ALIGNMENT) - self.position)?;
        let begin = self.position;
        let mut bytes = Vec::with_capacity(PIECE);
        for piece in table.chunks(PIECE / 4) {
            if piece.iter().fold(0, |all, it| all | it) == 0 {
                self.skip(4 * piece.len() as u64)?;
                continue;
            }
            bytes.clear();
            bytes.extend(piece.iter().flat_map(|word| word.to_le_bytes()));
            self.write_all(&bytes)?;
        }
        Ok(begin)
    }
}

/// Lends tables that a [`ChecksummedFile`] wrote, from before `end` in `file`.
pub(super) struct MappedTables<'a> {
    file: &'a File,
    end: u64,
    is_verified: bool,
}

impl<'a> MappedTables<'a> {
    pub(super) fn of(file: &'a File, end: u64, is_verified: bool) -> Self {
        MappedTables { file, end, is_verified }
    }
}

impl TableSource for MappedTables<'_> {
    fn lend(&mut self, at: u64, length: usize) -> Result<Box<dyn BorrowedMemory>, CodecError> {
        let bytes = 4 * length as u64;
        if !at.is_multiple_of(ALIGNMENT) || at.checked_add(bytes).is_none_or(|end| end > self.end) {
            return damaged("a table lies outside of the file");
        }
        let mut options = MmapOptions::new();
        options.offset(at).len(bytes as usize).no_reserve_swap();
        // SAFETY: the program never writes a saved drive in place: a drive saved under its name is another
        // file. docs/MODEL.md asks the user that no other program writes or shortens the file while it is in
        // use.
        let mapped = unsafe { options.map_copy(self.file) }?;
        let mut table = MappedTable(mapped);
        if cfg!(target_endian = "big") {
            table.words().iter_mut().for_each(|word| *word = u32::from_le(*word));
        }
        Ok(Box::new(table))
    }

    fn is_verified(&self) -> bool {
        self.is_verified
    }
}

/// A part of a file that is mapped into memory; changes stay in memory.
#[derive(Debug)]
struct MappedTable(MmapMut);

// SAFETY: the mapped memory stays where it is until it is dropped, and this is its only owner.
unsafe impl BorrowedMemory for MappedTable {
    fn words(&mut self) -> &mut [u32] {
        // SAFETY: any four bytes are a number.
        let (before, words, after) = unsafe { self.0.align_to_mut() };
        assert!(
            before.is_empty() && after.is_empty(),
            "a table begins at a page and is of whole words"
        );
        words
    }
}
