//! After a power cut: a drive is opened from what is on its flash.
//!
//! The RAM is gone, and with it the map. Recovery reads the spare area of every program unit that
//! is not erased, of each block from its first to its last, all dies at a time; of the copies of a
//! logical unit the one with the largest number counts (why, see [`crate::media`]), unless a trim
//! was recorded with a larger one. What cannot be read was being programmed or erased and holds
//! nothing that the host was promised: its source was not erased yet, or nobody was told that it
//! is written. Then
//!
//! - blocks without a current unit that are not erased, or not erased to the end, are erased (as
//!   the dies find time for it, like any erase that is owed);
//! - per group of dies the two blocks with the most room go on being filled, by collection and by
//!   the host; places in between that were skipped are programmed empty, because flash pages are
//!   programmed in order. Other blocks that are not full are closed as they are;
//! - where hardly a block is free, collection makes room before the host may write. Each cut can
//!   cost a program unit per die and stream, and it may have come in the middle of collection. Copies then go to
//!   the places that were skipped, too, and the two blocks are those with the most erased places: where one
//!   die is far ahead of another, most of the room that is left is there. What is left of them is programmed
//!   empty at the end;
//! - what capacitors saved of the write buffer is written again. Older copies of it are not current
//!   from the beginning, so that nobody copies them meanwhile.
//!
//! The numbers go on after the largest that was found.
//!
//! Blocks of a pseudo-SLC cache say so in their spare areas. They are closed as they are, and
//! folded like any other. Log blocks have rules of their own (`recovery/log_block.rs`).
//!
//! Where the map is saved now and then ([`crate::checkpoint`]), and its changes since in a journal,
//! less is read.

pub(crate) mod log_block;
pub(crate) mod scan;

use crate::geometry::GeometryError;
use crate::media::{BadBlockRecord, Media, SequenceNumber, SpareArea, TrimRecord};
use crate::units::{BlockIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// What reading the spare area of a program unit gives.
#[derive(Clone, Copy, Debug)]
pub enum ProgramUnit<'a> {
    /// It is erased.
    Erased,
    /// Its error correction fails: it was being programmed, or its block was being erased.
    Unreadable,
    /// It was programmed to the end.
    Programmed {
        /// Its number.
        number: SequenceNumber,
        /// Its units.
        spare: SpareArea<'a>,
    },
}

/// Flash that a drive can be opened from.
pub trait FlashContents: Media {
    /// Returns what the program unit that starts at `first` holds.
    fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_>;

    /// Returns the number of program units of `block` up to the last one that is not erased, zero
    /// where all are: [`FlashContents::program_unit`] is not asked for those behind it.
    fn programs_in(&self, block: BlockIndex) -> u32;

    /// The records of trims that were programmed.
    fn trims(&self) -> &[TrimRecord];

    /// The pieces of the map that were saved, in the order they were: through which program unit
    /// each knows the map. None on flash that does not keep them: then all spare areas are read.
    fn map_pieces(&self) -> &[SequenceNumber] {
        &[]
    }

    /// The pages of the map journal, in order: through which program unit each holds the changes.
    fn journal_pages(&self) -> &[SequenceNumber] {
        &[]
    }

    /// The records of blocks that have gone bad, as they were programmed. None on flash that does
    /// not keep them, and whose blocks do not go bad.
    fn bad_blocks(&self) -> &[BadBlockRecord] {
        &[]
    }

    /// The units that were in the write buffer when power was cut, where capacitors saved it.
    fn saved(&self) -> &[LogicalUnit];

    /// The largest number that what was saved is compared with. The program unit that took it may not be there,
    /// and its number is not given to another, which would pass for no newer than what was saved.
    fn saved_through(&self) -> SequenceNumber {
        SequenceNumber::default()
    }

    /// The data of `saved()[index]` will be programmed to `unit`.
    fn restore(&mut self, index: usize, unit: PhysicalUnit);

    /// Returns how often `block` was erased.
    fn erases(&self, block: BlockIndex) -> u32;

    /// Since when data is written to `block`, as [`Media::block_begun`] was told: data is as old as that.
    fn begun(&self, block: BlockIndex) -> Nanoseconds {
        let _ = block;
        Nanoseconds::ZERO
    }
}

/// What recovery did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// When the drive takes requests again; those that come before wait for it.
    pub ready_at: Instant,
    /// How long that took.
    pub took: Nanoseconds,
    /// Program units whose spare area was read.
    pub program_units_read: u64,
    /// Pages of the metadata blocks that were read: those of the saved map, and of its journal.
    pub map_pages_read: u64,
    /// Program units that could not be read.
    pub program_units_unreadable: u64,
    /// Logical units that were found.
    pub units_found: u32,
    /// Units of the write buffer that capacitors had saved.
    pub units_saved: u32,
    /// Program units programmed empty, so that a block can be filled further.
    pub program_units_padded: u32,
    /// Blocks that held nothing current and have to be erased.
    pub blocks_to_erase: u32,
}

/// Why a drive cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The drive itself is not sound.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A mechanism whose traces on the flash recovery does not know how to read.
    #[error("a drive with {what} cannot be recovered from its flash yet")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// A block in SLC mode on a drive that has none.
    #[error("block {} is in SLC mode, and this drive has no such cache", .block.0)]
    CellMode {
        /// The block.
        block: BlockIndex,
    },
    /// A spare area that is not of this drive's program units.
    #[error(
        "the spare area at physical unit {} has {found} units, a program unit of this drive has \
         {expected}",
        .at.0
    )]
    SpareArea {
        /// Where.
        at: PhysicalUnit,
        /// Units it describes.
        found: usize,
        /// Units it should describe.
        expected: u32,
    },
    /// A logical unit that this drive does not have.
    #[error("{place} names logical unit {}, this drive has {units}", .logical.0)]
    Unit {
        /// What names it.
        place: &'static str,
        /// The unit.
        logical: LogicalUnit,
        /// Units the drive has.
        units: u32,
    },
    /// A number that no drive reaches in its life.
    #[error("the flash holds sequence number {}, more than any drive reaches", .number.0)]
    Number {
        /// The number.
        number: SequenceNumber,
    },
    /// The table of bad blocks speaks of a block that cannot have failed like that.
    #[error("the table of bad blocks is wrong of collection unit {}", .unit.0)]
    BadBlock {
        /// The collection unit.
        unit: BlockIndex,
    },
    /// A unit that was saved of the write buffer twice.
    #[error("logical unit {} was saved of the write buffer twice", .logical.0)]
    SavedTwice {
        /// The unit.
        logical: LogicalUnit,
    },
    /// Nothing is free and collection has nowhere to copy to.
    #[error(
        "no block can be freed: {room} units are left to copy to, the next victim holds {valid}"
    )]
    NoRoom {
        /// Units that are left.
        room: u32,
        /// Valid units of the block to be collected.
        valid: u32,
    },
}

/// The largest number that is believed: 2^62 program units at a nanosecond each are 146 years.
pub(crate) const NUMBER_MAX: SequenceNumber = SequenceNumber(1 << 62);
