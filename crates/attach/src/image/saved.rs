//! What capacitors keep of the write buffer: units that are of no program unit yet.
//!
//! Written by turns to two places, so that the older one holds while the newer is written.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `SSDSAVED` |
//! | 8 | number of the dump; the larger of two is the newer |
//! | 8 | the latest sequence number then: a copy with a larger one is newer than what is saved |
//! | 4 | units |
//! | 4 | checksum of all before and behind it |
//! | 4 each | logical units |
//! | - | their data |

use std::io;

use ssdlab_model::units::LogicalUnit;

use super::host::HostFile;
use super::layout::Layout;

const MAGIC: u64 = u64::from_le_bytes(*b"SSDSAVED");

const HEAD: usize = 32;

/// A dump of the buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Number of the dump.
    pub generation: u64,
    /// The latest sequence number when it was made.
    pub number: u64,
    /// The units.
    pub logical: Vec<LogicalUnit>,
    /// Their data, one after the other.
    pub data: Vec<u8>,
}

fn sum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..HEAD - 4]);
    hasher.update(&bytes[HEAD..]);
    hasher.finalize()
}

impl Saved {
    /// Writes it to its place.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&self, file: &HostFile, layout: &Layout) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD + 4 * self.logical.len() + self.data.len());
        for number in [MAGIC, self.generation, self.number] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((self.logical.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        for unit in &self.logical {
            bytes.extend(unit.0.to_le_bytes());
        }
        bytes.extend(&self.data);
        if bytes.len() as u64 > layout.saved_size {
            return Err(io::Error::other("the buffer holds more than an image has room for"));
        }
        let sum = sum(&bytes);
        bytes[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&bytes, layout.saved + (self.generation % 2) * layout.saved_size)
    }

    /// The newer of the two that can be read.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(file: &HostFile, layout: &Layout) -> io::Result<Option<Saved>> {
        let mut newest: Option<Saved> = None;
        for place in 0..2 {
            let found = Saved::read_at(file, layout, layout.saved + place * layout.saved_size)?;
            newest = newest.into_iter().chain(found).max_by_key(|saved| saved.generation);
        }
        Ok(newest)
    }

    fn read_at(file: &HostFile, layout: &Layout, at: u64) -> io::Result<Option<Saved>> {
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, at)?;
        let long = |index: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&head[8 * index..8 * index + 8]);
            u64::from_le_bytes(number)
        };
        let units = long(3) & u64::from(u32::MAX);
        let length = HEAD as u64 + units * (4 + layout.unit);
        if long(0) != MAGIC || length > layout.saved_size {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, at)?;
        if u64::from(sum(&bytes)) != long(3) >> 32 {
            return Ok(None);
        }
        let (logical, data) = bytes[HEAD..].split_at(4 * units as usize);
        let (logical, _) = logical.as_chunks::<4>();
        Ok(Some(Saved {
            generation: long(1),
            number: long(2),
            logical: logical.iter().map(|it| LogicalUnit(u32::from_le_bytes(*it))).collect(),
            data: data.to_vec(),
        }))
    }
}
