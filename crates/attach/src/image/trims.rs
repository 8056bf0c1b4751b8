//! The log of trims: batches of trim records, which survive a power cut.
//!
//! There are two logs, each with two copies. One log is in use. When it is full, or the image is opened after a
//! crash, the records that still count are written to the other log, which is then in use (see
//! [`super::state::State::trims`]). So no valid batch ever follows a torn one.
//!
//! A batch names its log, its number in the log and the checksum of the batch before. The state has the batch
//! up to which the log is durable: a log that ends earlier is damaged. Later batches were never promised.
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | `TRIM` |
//! | 4 | records in the batch |
//! | 8 | number of the log |
//! | 8 | batches before it |
//! | 4 | checksum of the batch before it; 0 for the first |
//! | 4 | checksum of all before and behind it |
//! | 16 each | first unit, units (32 bits each), sequence number |

use std::io;

use ssdlab_model::media::{SequenceNumber, TrimRecord};
use ssdlab_units::LogicalUnit;

use super::host::HostFile;
use super::layout::Layout;

const MAGIC: u32 = u32::from_le_bytes(*b"TRIM");

const HEAD: usize = 32;

const RECORD: usize = 16;

/// A position in a log of trims, between two batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimPosition {
    /// Number of the log; modulo two, it selects the region.
    pub log: u64,
    /// Number of batches before the position.
    pub batches: u64,
    /// Number of bytes before the position.
    pub length: u64,
    /// Checksum of the batch before the position.
    pub chain: u32,
}

/// The log in use, with its end.
#[derive(Clone, Copy, Debug)]
pub struct TrimLog {
    end: TrimPosition,
}

/// A log that was read from an image.
#[derive(Clone, Debug)]
pub struct FoundTrims {
    /// The log, up to its last intact batch.
    pub log: TrimLog,
    /// Records in the log.
    pub records: Vec<TrimRecord>,
    /// Number of promised batches with one damaged copy.
    pub damaged: u64,
    /// True if promised batches are missing, because both copies of one are damaged.
    pub is_cut_short: bool,
}

fn sum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..HEAD - 4]);
    hasher.update(&bytes[HEAD..]);
    hasher.finalize()
}

/// An intact batch.
struct Batch {
    records: Vec<TrimRecord>,
    length: u64,
    sum: u32,
}

impl TrimLog {
    /// Returns an empty log.
    pub fn new(number: u64) -> TrimLog {
        TrimLog { end: TrimPosition { log: number, ..TrimPosition::default() } }
    }

    /// Returns the end of the log.
    pub fn end(&self) -> TrimPosition {
        self.end
    }

    /// Returns the number of the log.
    pub fn number(&self) -> u64 {
        self.end.log
    }

    /// Returns the offsets of both copies.
    fn begins(&self, layout: &Layout) -> [u64; 2] {
        let first = layout.trims + 2 * (self.end.log % 2) * layout.trims_size;
        [first, first + layout.trims_size]
    }

    /// Returns the stretch of the file with both copies: offset and length.
    pub fn region(&self, layout: &Layout) -> (u64, u64) {
        (self.begins(layout)[0], 2 * layout.trims_size)
    }

    /// Returns true if a batch of `records` records fits into the log.
    pub fn has_free_space(&self, layout: &Layout, records: usize) -> bool {
        self.end.length + (HEAD + RECORD * records) as u64 <= layout.trims_size
    }

    /// Appends a batch of `records`.
    ///
    /// # Errors
    /// Returns an error if writing fails; then the log ends as before.
    pub fn append(
        &mut self,
        file: &HostFile,
        layout: &Layout,
        records: &[TrimRecord],
    ) -> io::Result<()> {
        assert!(self.has_free_space(layout, records.len()), "a log is replaced before it is full");
        let TrimPosition { log, batches, length, chain } = self.end;
        let mut bytes = Vec::with_capacity(HEAD + RECORD * records.len());
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend((records.len() as u32).to_le_bytes());
        bytes.extend(log.to_le_bytes());
        bytes.extend(batches.to_le_bytes());
        bytes.extend(chain.to_le_bytes());
        bytes.extend([0; 4]);
        for record in records {
            bytes.extend(record.first.0.to_le_bytes());
            bytes.extend(record.units.to_le_bytes());
            bytes.extend(record.number.0.to_le_bytes());
        }
        let sum = sum(&bytes);
        bytes[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
        for begin in self.begins(layout) {
            file.write_all_at(&bytes, begin + length)?;
        }
        let length = length + bytes.len() as u64;
        self.end = TrimPosition { log, batches: batches + 1, length, chain: sum };
        Ok(())
    }

    /// Reads the log that is durable up to `promised`, and all intact batches behind that.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn read(
        file: &HostFile,
        layout: &Layout,
        promised: TrimPosition,
    ) -> io::Result<FoundTrims> {
        let log = TrimLog::new(promised.log);
        let mut found = FoundTrims { log, records: Vec::new(), damaged: 0, is_cut_short: false };
        loop {
            let [one, other] = found.log.begins(layout);
            let one = found.log.read_batch(file, layout, one)?;
            let is_promised = found.log.end.length < promised.length;
            // Batches that were not promised need only one intact copy.
            let other = match &one {
                Some(_) if !is_promised => None,
                _ => found.log.read_batch(file, layout, other)?,
            };
            found.damaged += u64::from(is_promised && one.is_some() != other.is_some());
            let Some(Batch { records, length, sum }) = one.or(other) else {
                found.is_cut_short = is_promised;
                return Ok(found);
            };
            found.records.extend(records);
            let end = &mut found.log.end;
            end.batches += 1;
            end.length += length;
            end.chain = sum;
        }
    }

    /// Reads the next batch of the copy at `begin`; `None` if it is not intact.
    fn read_batch(
        &self,
        file: &HostFile,
        layout: &Layout,
        begin: u64,
    ) -> io::Result<Option<Batch>> {
        let end = &self.end;
        if end.length + HEAD as u64 > layout.trims_size {
            return Ok(None);
        }
        let mut bytes = vec![0; HEAD];
        file.read_exact_at(&mut bytes, begin + end.length)?;
        let mut expected = Vec::with_capacity(HEAD);
        expected.extend(MAGIC.to_le_bytes());
        expected.extend(&bytes[4..8]);
        expected.extend(end.log.to_le_bytes());
        expected.extend(end.batches.to_le_bytes());
        expected.extend(end.chain.to_le_bytes());
        if bytes[..HEAD - 4] != expected {
            return Ok(None);
        }
        let count = u64::from(word(&bytes, 4));
        let length = HEAD as u64 + RECORD as u64 * count;
        if end.length + length > layout.trims_size {
            return Ok(None);
        }
        bytes.resize(length as usize, 0);
        file.read_exact_at(&mut bytes[HEAD..], begin + end.length + HEAD as u64)?;
        let sum = sum(&bytes);
        if sum != word(&bytes, HEAD - 4) {
            return Ok(None);
        }
        let records = bytes[HEAD..].as_chunks::<RECORD>().0.iter().map(decode).collect();
        Ok(Some(Batch { records, length, sum }))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn decode(bytes: &[u8; RECORD]) -> TrimRecord {
    let number = u128::from_le_bytes(*bytes);
    TrimRecord {
        first: LogicalUnit(number as u32),
        units: (number >> 32) as u32,
        number: SequenceNumber((number >> 64) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssdlab_model::profile::{DEFAULT, Profile};

    fn bench() -> (HostFile, Layout) {
        let mut profile = Profile::named(DEFAULT).expect("the default profile");
        profile.set("capacity.logical", "64M").expect("a size");
        profile.set("capacity.physical", "128M").expect("a size");
        profile.set("flash.pages_per_block", "12").expect("pages");
        let layout = Layout::of(&profile.configuration().expect("a sound profile"));
        let layout = layout.expect("a sound layout");
        let file = tempfile::tempfile().expect("a file");
        file.set_len(layout.end).expect("a sparse file");
        (HostFile::new(std::sync::Arc::new(file)), layout)
    }

    fn record(number: u64) -> TrimRecord {
        TrimRecord { first: LogicalUnit(number as u32), units: 2, number: SequenceNumber(number) }
    }

    /// Returns a log of `batches` batches of one record each, and the position behind each.
    fn written(file: &HostFile, layout: &Layout, batches: u64) -> Vec<TrimPosition> {
        let mut log = TrimLog::new(5);
        let mut ends = vec![log.end()];
        for number in 0..batches {
            log.append(file, layout, &[record(number)]).expect("room");
            ends.push(log.end());
        }
        ends
    }

    #[test]
    fn a_flipped_bit_in_either_copy_of_a_batch_is_read_past_and_noticed_where_it_was_promised() {
        let (file, layout) = bench();
        let ends = written(&file, &layout, 3);
        let log = TrimLog::new(5);
        for begin in log.begins(&layout) {
            for byte in ends[1].length..ends[2].length {
                let mut old = [0];
                file.read_exact_at(&mut old, begin + byte).expect("a byte");
                file.write_all_at(&[old[0] ^ 4], begin + byte).expect("room");
                for promised in &ends {
                    let found = TrimLog::read(&file, &layout, *promised).expect("a log");
                    assert_eq!(found.records, [record(0), record(1), record(2)], "byte {byte}");
                    assert_eq!(found.damaged, u64::from(promised.batches >= 2), "byte {byte}");
                    assert!(!found.is_cut_short);
                }
                file.write_all_at(&old, begin + byte).expect("room");
            }
        }
    }

    #[test]
    fn a_batch_that_is_lost_with_both_copies_cuts_the_log_short_if_it_was_promised() {
        let (file, layout) = bench();
        let ends = written(&file, &layout, 3);
        for begin in TrimLog::new(5).begins(&layout) {
            file.write_all_at(&[0; 512], begin + ends[1].length).expect("room");
        }
        for promised in &ends {
            let found = TrimLog::read(&file, &layout, *promised).expect("a log");
            assert_eq!(found.records, [record(0)]);
            assert_eq!(found.is_cut_short, promised.batches > 1, "{promised:?}");
            assert_eq!(found.log.end(), ends[1]);
        }
    }

    #[test]
    fn a_batch_of_an_earlier_attempt_does_not_follow_one_that_replaced_another() {
        let (file, layout) = bench();
        written(&file, &layout, 3);
        let mut log = TrimLog::new(5);
        log.append(&file, &layout, &[record(7)]).expect("room");
        let found = TrimLog::read(&file, &layout, log.end()).expect("a log");
        assert_eq!(found.records, [record(7)], "what follows it has another predecessor");
    }
}
