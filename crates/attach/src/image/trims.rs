//! The log of trims: records that outlive a power cut, in batches with a checksum each.
//!
//! There are two logs. One is in use; when it is full, or the image is opened after a crash, what
//! still counts is written to the other, and then that one is in use (see
//! [`super::state::State::trim_log`]). So a batch that was torn is never followed by one that is
//! read later on.
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | `TRIM` |
//! | 4 | records in the batch |
//! | 8 | number of the log |
//! | 4 | checksum of all before and behind it |
//! | 4 | 0 |
//! | 16 each | first unit, units (32 bits each), sequence number |

use std::io;

use ssdlab_model::media::{SequenceNumber, TrimRecord};
use ssdlab_model::units::LogicalUnit;

use super::host::HostFile;
use super::layout::Layout;

const MAGIC: u32 = u32::from_le_bytes(*b"TRIM");

const HEAD: usize = 24;

const RECORD: usize = 16;

/// The log in use, and where it ends.
#[derive(Clone, Copy, Debug)]
pub struct TrimLog {
    number: u64,
    length: u64,
}

fn sum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..16]);
    hasher.update(&bytes[20..]);
    hasher.finalize()
}

impl TrimLog {
    /// An empty log.
    pub fn new(number: u64) -> TrimLog {
        TrimLog { number, length: 0 }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where it begins.
    fn begin(&self, layout: &Layout) -> u64 {
        layout.trims + (self.number % 2) * layout.trims_size
    }

    /// Where the file holds it: the beginning and the length that it may have.
    pub fn region(&self, layout: &Layout) -> (u64, u64) {
        (self.begin(layout), layout.trims_size)
    }

    /// Whether `records` more records have room.
    pub fn has_room(&self, layout: &Layout, records: usize) -> bool {
        self.length + (HEAD + RECORD * records) as u64 <= layout.trims_size
    }

    /// Adds a batch.
    ///
    /// # Errors
    /// When writing fails; the log is then as before.
    pub fn append(
        &mut self,
        file: &HostFile,
        layout: &Layout,
        records: &[TrimRecord],
    ) -> io::Result<()> {
        assert!(self.has_room(layout, records.len()), "a log is replaced before it is full");
        let mut bytes = Vec::with_capacity(HEAD + RECORD * records.len());
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend((records.len() as u32).to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend([0; 8]);
        for record in records {
            bytes.extend(record.first.0.to_le_bytes());
            bytes.extend(record.units.to_le_bytes());
            bytes.extend(record.number.0.to_le_bytes());
        }
        let sum = sum(&bytes);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&bytes, self.begin(layout) + self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Reads log `number` up to its first batch that does not hold.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(
        file: &HostFile,
        layout: &Layout,
        number: u64,
    ) -> io::Result<(TrimLog, Vec<TrimRecord>)> {
        let (mut log, mut records) = (TrimLog::new(number), Vec::new());
        while log.length + HEAD as u64 <= layout.trims_size {
            let at = log.begin(layout) + log.length;
            let mut head = [0; HEAD];
            file.read_exact_at(&mut head, at)?;
            let word = |index: usize| {
                let at = 4 * index;
                u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let count = u64::from(word(1));
            let length = HEAD as u64 + RECORD as u64 * count;
            let written_by = u64::from(word(2)) | u64::from(word(3)) << 32;
            if word(0) != MAGIC || written_by != number || log.length + length > layout.trims_size {
                break;
            }
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, at)?;
            if sum(&bytes) != word(4) {
                break;
            }
            let (found, _) = bytes[HEAD..].as_chunks::<RECORD>();
            records.extend(found.iter().map(decode));
            log.length += length;
        }
        Ok((log, records))
    }
}

fn decode(bytes: &[u8; RECORD]) -> TrimRecord {
    let number = u128::from_le_bytes(*bytes);
    TrimRecord {
        first: LogicalUnit(number as u32),
        units: (number >> 32) as u32,
        number: SequenceNumber((number >> 64) as u64),
    }
}
