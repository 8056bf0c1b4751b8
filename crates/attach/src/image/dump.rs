//! Dumps of the write buffer, which stand for power-loss protection (PLP).
//!
//! A dump holds every unit that was written by then and is in no program unit that is known to be durable: with
//! its data, or as trimmed. So recovery needs only the newest intact dump and what was durable when it was
//! written, whatever else of the image came to the disk.
//!
//! There are two slots. A dump is written to the slot that does not hold the latest dump, and only when that is
//! durable. The head of a dump has two copies, one behind the other in whole pages of 4 KiB, with space for all
//! units. The data follows; every unit has its own checksum.
//!
//! | bytes of the head | what |
//! | --- | --- |
//! | 8 | `SSDSAVED` |
//! | 8 | generation: the larger of two is the newer |
//! | 8 | the stamp up to which everything else was durable |
//! | 4 | units |
//! | 4 | checksum of all of the head but this |
//! | 16 each | logical unit, checksum of its data, the sequence number that a newer copy exceeds; with the highest bit of that the data is lost, with the next one it was trimmed |
//!
//! Units that were trimmed come last and have no data.

use std::io;

use ssdlab_model::media::SequenceNumber;
use ssdlab_units::LogicalUnit;

use super::host::HostFile;
use super::layout::Layout;

const MAGIC: u64 = u64::from_le_bytes(*b"SSDSAVED");

const HEAD: usize = 32;

/// Bytes of a unit's entry in the head.
const ENTRY: usize = 16;

/// Returns the bytes in the head of a dump of `units` units.
pub(super) fn head_size(units: u64) -> u64 {
    HEAD as u64 + ENTRY as u64 * units
}

/// Flag in the number of a unit whose data is lost; larger than any number.
const LOST: u64 = 1 << 63;

/// Flag in the number of a unit that was trimmed; no drive reaches it.
const TRIMMED: u64 = 1 << 62;

/// Heads up to this length, padded to full size, are written with the data in one call.
const WRITE_CHUNK: u64 = 16 << 10;

/// Alignment of heads and data, in bytes.
pub(super) const DATA_ALIGNMENT: u64 = 4096;

/// A unit in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedUnit {
    /// The logical unit.
    pub logical: LogicalUnit,
    /// Sequence number: a copy or a trim with a larger number is newer.
    pub number: SequenceNumber,
    /// Saved content of the unit.
    pub content: Content,
}

/// Content of a unit in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data, with this checksum.
    Data(u32),
    /// Lost data: reading the unit fails.
    Lost,
    /// The unit was trimmed.
    Trimmed,
}

/// A dump of the buffer, without its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Number of the dump.
    pub generation: u64,
    /// Stamp up to which everything was durable before the dump was written.
    pub durable: u64,
    /// Units, in the order of their data.
    pub units: Vec<SavedUnit>,
}

/// A dump found in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundDump {
    /// The dump.
    pub dump: Dump,
    /// Slot of the dump.
    pub slot: u64,
    /// Index of the copy of the head that is damaged; `None` if both are intact.
    pub damaged_head: Option<usize>,
}

/// Contents of both slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundDumps {
    /// The newest intact dump.
    pub newest: Option<FoundDump>,
    /// The largest generation that any intact head names: the next dump has a larger one.
    pub generation: u64,
}

fn sum(head: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..HEAD - 4]);
    hasher.update(&head[HEAD..]);
    hasher.finalize()
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl Dump {
    /// Returns the offsets of both copies of the head in `slot`.
    fn heads_at(layout: &Layout, slot: u64) -> [u64; 2] {
        let first = layout.dump + slot * layout.dump_size;
        [first, first + layout.dump_head]
    }

    /// Returns the offset of the data of unit `index` in `slot`.
    fn data_at(layout: &Layout, slot: u64, index: usize) -> u64 {
        let data = layout.dump + slot * layout.dump_size + 2 * layout.dump_head;
        data + index as u64 * layout.unit
    }

    fn head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(head_size(self.units.len() as u64) as usize);
        for number in [MAGIC, self.generation, self.durable] {
            head.extend(number.to_le_bytes());
        }
        head.extend((self.units.len() as u32).to_le_bytes());
        head.extend([0; 4]);
        for unit in &self.units {
            let (sum, flag) = match unit.content {
                Content::Data(sum) => (sum, 0),
                Content::Lost => (0, LOST),
                Content::Trimmed => (0, TRIMMED),
            };
            head.extend(unit.logical.0.to_le_bytes());
            head.extend(sum.to_le_bytes());
            head.extend((unit.number.0 | flag).to_le_bytes());
        }
        let sum = sum(&head);
        head[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Writes the dump to `slot`. `data` has the data of its units one after the other, without those that were
    /// trimmed.
    ///
    /// # Errors
    /// Returns an error if writing fails, or if the dump has more units than the image has space for.
    pub fn write(
        &self,
        file: &HostFile,
        layout: &Layout,
        slot: u64,
        data: &[u8],
    ) -> io::Result<()> {
        if self.units.len() as u64 > layout.dump_units {
            return Err(io::Error::other("the buffer holds more than an image has room for"));
        }
        let head = self.head();
        let [first, second] = Dump::heads_at(layout, slot);
        if layout.dump_head > WRITE_CHUNK {
            file.write_all_at(&head, first)?;
            file.write_all_at(&head, second)?;
            return file.write_all_at(data, Dump::data_at(layout, slot, 0));
        }
        // One system call, and one request to the disk.
        let mut bytes = vec![0; 2 * layout.dump_head as usize];
        bytes[..head.len()].copy_from_slice(&head);
        bytes[layout.dump_head as usize..][..head.len()].copy_from_slice(&head);
        bytes.extend(data);
        file.write_all_at(&bytes, first)
    }

    /// Reads the newest intact dump: one copy of its head has to be intact, and all of its data if it is newer
    /// than `promised`. Data of a promised dump was durable, so the dump counts even if its data is damaged.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn read(file: &HostFile, layout: &Layout, promised: u64) -> io::Result<FoundDumps> {
        let mut found = FoundDumps::default();
        for slot in 0..2 {
            let mut heads = [None, None];
            for (at, head) in Dump::heads_at(layout, slot).into_iter().zip(&mut heads) {
                *head = Dump::read_head(file, layout, at)?;
            }
            let damaged_head = heads.iter().position(Option::is_none);
            let newest = heads.into_iter().rev().flatten().max_by_key(|dump| dump.generation);
            let Some(dump) = newest else { continue };
            found.generation = found.generation.max(dump.generation);
            let newer = found.newest.as_ref().is_none_or(|it| it.dump.generation < dump.generation);
            if newer && (dump.generation <= promised || dump.is_whole(file, layout, slot)?) {
                found.newest = Some(FoundDump { dump, slot, damaged_head });
            }
        }
        Ok(found)
    }

    fn read_head(file: &HostFile, layout: &Layout, at: u64) -> io::Result<Option<Dump>> {
        let mut head = vec![0; HEAD];
        file.read_exact_at(&mut head, at)?;
        let (units, expected) = (long(&head, 24) & u64::from(u32::MAX), long(&head, 24) >> 32);
        if long(&head, 0) != MAGIC || units > layout.dump_units {
            return Ok(None);
        }
        head.resize(head_size(units) as usize, 0);
        file.read_exact_at(&mut head[HEAD..], at + HEAD as u64)?;
        if u64::from(sum(&head)) != expected {
            return Ok(None);
        }
        let units = head[HEAD..].chunks_exact(ENTRY).map(|entry| SavedUnit {
            logical: LogicalUnit(long(entry, 0) as u32),
            number: SequenceNumber(long(entry, 8) & !(LOST | TRIMMED)),
            content: match long(entry, 8) {
                number if number & LOST != 0 => Content::Lost,
                number if number & TRIMMED != 0 => Content::Trimmed,
                _ => Content::Data((long(entry, 0) >> 32) as u32),
            },
        });
        let (generation, durable) = (long(&head, 8), long(&head, 16));
        Ok(Some(Dump { generation, durable, units: units.collect() }))
    }

    fn is_whole(&self, file: &HostFile, layout: &Layout, slot: u64) -> io::Result<bool> {
        for (index, unit) in self.units.iter().enumerate() {
            let Content::Data(sum) = unit.content else { continue };
            if crc32fast::hash(&Dump::read_unit(file, layout, slot, index)?) != sum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the data of unit `index` from `slot`, without comparing it with its checksum.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn read_unit(
        file: &HostFile,
        layout: &Layout,
        slot: u64,
        index: usize,
    ) -> io::Result<Vec<u8>> {
        let mut data = vec![0; layout.unit as usize];
        file.read_exact_at(&mut data, Dump::data_at(layout, slot, index))?;
        Ok(data)
    }
}

impl FoundDump {
    /// Writes a damaged copy of the head anew.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn repair(&self, file: &HostFile, layout: &Layout) -> io::Result<()> {
        let Some(copy) = self.damaged_head else { return Ok(()) };
        file.write_all_at(&self.dump.head(), Dump::heads_at(layout, self.slot)[copy])
    }
}
