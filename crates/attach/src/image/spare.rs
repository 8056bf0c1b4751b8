//! The spare area (OOB) of a program unit in an image: a record of fixed length, in two copies.
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | `PRGM`, or `PSLC` with one bit a cell; `TORN` where the program unit is known to be unreadable; 0 where it is erased |
//! | 4 | checksum of all of the record but this |
//! | 8 | sequence number |
//! | 8 | stamp: number of this write among those of the image that something depends on |
//! | 8 | the stamp up to which everything was durable when this was written |
//! | 4 | how often the part of its block was erased before |
//! | 4 | 0 |
//! | 4 each | logical unit plus one of each unit, 0 for padding |
//! | 4 each | CRC-32 of each unit's data |

/// Mark of a record that holds data.
const WRITTEN: u32 = u32::from_le_bytes(*b"PRGM");

/// Mark of a record of a program unit with one bit a cell (SLC mode).
const WRITTEN_SLC: u32 = u32::from_le_bytes(*b"PSLC");

/// Mark of a program unit that cannot be read, whatever else its record says.
const TORN: u32 = u32::from_le_bytes(*b"TORN");

/// Bytes before the entries of the units.
const HEAD: usize = 40;

/// Returns the bytes in the record of a program unit of `units` units.
pub fn record_size(units: u32) -> u64 {
    (HEAD as u64 + 8 * u64::from(units)).next_multiple_of(16)
}

/// The record of a program unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// True if the program unit was programmed with one bit a cell.
    pub is_slc: bool,
    /// Sequence number, given by the model.
    pub number: u64,
    /// Stamp of this write to the image.
    pub stamp: u64,
    /// Stamp up to which everything was durable at that time.
    pub durable: u64,
    /// Erase count of the part of the block at that time.
    pub erases: u32,
    /// Logical unit plus one of each unit, 0 for padding.
    pub logical: Vec<u32>,
    /// CRC-32 of each unit's data.
    pub sums: Vec<u32>,
}

/// Content of the place of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// Erased: nothing was written since the erase.
    Erased,
    /// Marked as torn, by a recovery or a power cut: a program or erase was interrupted.
    Torn,
    /// Neither erased nor an intact record: torn, or damaged.
    Unreadable,
    /// An intact record.
    Written(Record),
}

/// Combined content of both copies of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Content of the intact copy; of the copy that was written later, if both are intact and differ.
    pub found: RecordState,
    /// Index of the copy that has to be written anew; `None` if both agree or neither is intact.
    pub other: Option<usize>,
}

impl Copies {
    /// Decodes and compares both copies of a record of `units` units.
    pub fn decode(copies: [&[u8]; 2], units: u32) -> Copies {
        let [one, other] = copies.map(|bytes| Record::decode(bytes, units));
        let (found, other) = match (one, other) {
            (RecordState::Torn, RecordState::Torn) => (RecordState::Torn, None),
            // The copy that the mark has not reached counts for nothing: it was never promised, or is erased.
            (RecordState::Torn, _) => (RecordState::Torn, Some(1)),
            (_, RecordState::Torn) => (RecordState::Torn, Some(0)),
            (RecordState::Written(one), RecordState::Written(other)) if one == other => {
                (RecordState::Written(one), None)
            }
            (RecordState::Written(one), RecordState::Written(other)) if other.stamp > one.stamp => {
                (RecordState::Written(other), Some(0))
            }
            (RecordState::Written(one), _) => (RecordState::Written(one), Some(1)),
            (_, RecordState::Written(other)) => (RecordState::Written(other), Some(0)),
            (RecordState::Erased, RecordState::Erased) => (RecordState::Erased, None),
            (RecordState::Erased | RecordState::Unreadable, _) => (RecordState::Unreadable, None),
        };
        Copies { found, other }
    }
}

/// Returns the checksum of a record, its checksum field left out.
fn sum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..4]);
    hasher.update(&bytes[8..]);
    hasher.finalize()
}

impl Record {
    /// Encodes the record into `bytes`, which are as long as a record.
    pub fn encode(&self, bytes: &mut [u8]) {
        self.encode_with(&self.sums, bytes);
    }

    /// Encodes the record with `sums` as the checksums of its units, instead of its own.
    pub fn encode_with(&self, sums: &[u32], bytes: &mut [u8]) {
        bytes.fill(0);
        let mark = if self.is_slc { WRITTEN_SLC } else { WRITTEN };
        bytes[0..4].copy_from_slice(&mark.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stamp.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.erases.to_le_bytes());
        let words = self.logical.iter().chain(sums);
        for (word, place) in words.zip(bytes[HEAD..].chunks_mut(4)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = sum(bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// Decodes a record of a program unit of `units` units.
    pub fn decode(bytes: &[u8], units: u32) -> RecordState {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        let long = |index: usize| u64::from(word(index)) | u64::from(word(index + 1)) << 32;
        if word(0) == TORN {
            return RecordState::Torn;
        }
        if word(0) != WRITTEN && word(0) != WRITTEN_SLC {
            let is_erased = bytes.iter().all(|&byte| byte == 0);
            return if is_erased { RecordState::Erased } else { RecordState::Unreadable };
        }
        if sum(bytes) != word(1) {
            return RecordState::Unreadable;
        }
        let (first, units) = (HEAD / 4, units as usize);
        RecordState::Written(Record {
            is_slc: word(0) == WRITTEN_SLC,
            number: long(2),
            stamp: long(4),
            durable: long(6),
            erases: word(8),
            logical: (first..first + units).map(word).collect(),
            sums: (first + units..first + 2 * units).map(word).collect(),
        })
    }

    /// Returns the mark of a program unit that cannot be read; it is written to the beginning of a record.
    pub fn torn() -> [u8; 4] {
        TORN.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_one_changed_byte_makes_it_unreadable() {
        let record = Record {
            is_slc: true,
            number: 1 << 40,
            stamp: 12,
            durable: 7,
            erases: 4,
            logical: vec![1, 0, 9],
            sums: vec![0xdead_beef, 0, 3],
        };
        let mut bytes = vec![0; record_size(3) as usize];
        assert_eq!(Record::decode(&bytes, 3), RecordState::Erased);
        record.encode(&mut bytes);
        assert_eq!(Record::decode(&bytes, 3), RecordState::Written(record));
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(Record::decode(&bytes, 3), RecordState::Unreadable, "byte {at}");
            bytes[at] ^= 1;
        }
        bytes[..4].copy_from_slice(&Record::torn());
        assert_eq!(Record::decode(&bytes, 3), RecordState::Torn);
    }

    #[test]
    fn a_copy_that_does_not_hold_is_named_and_the_other_counts() {
        let record = |stamp| {
            let record = Record { stamp, logical: vec![5], sums: vec![6], ..Record::default() };
            let mut bytes = vec![0; record_size(1) as usize];
            record.encode(&mut bytes);
            (record, bytes)
        };
        let ((early, early_bytes), (late, late_bytes)) = (record(3), record(4));
        let (zeros, mut garbage) = (vec![0; late_bytes.len()], late_bytes.clone());
        garbage[20] ^= 1;
        let mut torn = zeros.clone();
        torn[..4].copy_from_slice(&Record::torn());
        let written = |record: &Record| RecordState::Written(record.clone());
        for (copies, found, other) in [
            ([&late_bytes, &late_bytes], written(&late), None),
            ([&late_bytes, &zeros], written(&late), Some(1)),
            ([&garbage, &late_bytes], written(&late), Some(0)),
            ([&early_bytes, &late_bytes], written(&late), Some(0)),
            ([&early_bytes, &garbage], written(&early), Some(1)),
            ([&late_bytes, &torn], RecordState::Torn, Some(0)),
            ([&torn, &zeros], RecordState::Torn, Some(1)),
            ([&torn, &torn], RecordState::Torn, None),
            ([&zeros, &zeros], RecordState::Erased, None),
            ([&zeros, &garbage], RecordState::Unreadable, None),
            ([&garbage, &garbage], RecordState::Unreadable, None),
        ] {
            let copies = copies.map(|it| &it[..]);
            assert_eq!(Copies::decode(copies, 1), Copies { found, other });
        }
    }
}
