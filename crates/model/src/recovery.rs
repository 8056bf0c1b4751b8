//! Recovery after a power cut: opening a drive from the content of its flash.
//!
//! The RAM content is gone, and the map with it. Recovery reads the spare area of every program unit that is not
//! erased, of each block from its first to its last, all dies at a time. Of the copies of a logical unit the one with
//! the largest sequence number counts (for the reason see [`crate::media`]), unless a trim was recorded with a larger
//! number. A program unit that cannot be read was being programmed or erased, and holds no data that the host was
//! promised: its source was not erased yet, or the host was not told that it is written. Then
//!
//! - blocks without a current unit that are not erased, or not erased to the end, are erased (when the dies find
//!   time, like any background erase);
//! - per group of dies the two blocks with the most room are filled further, by garbage collection and by the host;
//!   skipped program units in between are programmed empty, because flash pages are programmed in order. Other blocks
//!   that are not full are closed as they are;
//! - if hardly a block is free, garbage collection makes room before the host may write. Each power cut can cost a
//!   program unit per die and stream, and it may have come in the middle of a collection. Copies then go to the
//!   skipped program units, too, and the two blocks are those with the most erased program units: if one die is far
//!   ahead of another, most of the room is there. Program units that are still skipped at the end are programmed
//!   empty;
//! - units of the write buffer that power-loss protection saved are written again. Older copies of them are not
//!   current from the beginning, so that they are not copied meanwhile.
//!
//! Sequence numbers continue after the largest that was found.
//!
//! Blocks of a pseudo-SLC cache are marked in their spare areas. They are closed as they are, and folded like any
//! other. Log blocks have rules of their own (`recovery/log_block.rs`).
//!
//! If the drive saves checkpoints of the map ([`crate::checkpoint`]), and its changes since in a journal, recovery
//! reads less.

pub(crate) mod log_block;
pub(crate) mod scan;

use crate::geometry::GeometryError;
use crate::media::{BadBlockRecord, Media, OobArea, SequenceNumber, TrimRecord};
use crate::units::{BlockIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Result of reading the spare area of a program unit.
#[derive(Clone, Copy, Debug)]
pub enum ProgramUnit<'a> {
    /// The program unit is erased.
    Erased,
    /// Error correction fails: the program unit was being programmed, or its block was being erased.
    Unreadable,
    /// The program unit was programmed to the end.
    Programmed {
        /// Sequence number of the program unit.
        number: SequenceNumber,
        /// Units of the program unit.
        spare: OobArea<'a>,
    },
}

/// Flash content that a drive can be opened from.
pub trait FlashContents: Media {
    /// Returns the content of the program unit that starts at `first`.
    fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_>;

    /// Returns the number of program units of `block` up to the last one that is not erased, zero if all are erased.
    /// [`FlashContents::program_unit`] is not called for those beyond.
    fn programs_in(&self, block: BlockIndex) -> u32;

    /// Returns the trim records that were programmed.
    fn trims(&self) -> &[TrimRecord];

    /// Returns the saved pieces of the map in the order in which they were saved: for each, the number of the last
    /// program unit that it covers. Empty if the flash does not keep them: then all spare areas are read.
    fn checkpoint_pages(&self) -> &[SequenceNumber] {
        &[]
    }

    /// Returns the pages of the map journal in order: for each, the number of the last program unit whose changes it
    /// holds.
    fn journal_pages(&self) -> &[SequenceNumber] {
        &[]
    }

    /// Returns the bad-block records, as they were programmed. Empty if the flash does not keep them and its blocks
    /// do not go bad.
    fn bad_blocks(&self) -> &[BadBlockRecord] {
        &[]
    }

    /// Returns the units of the write buffer that power-loss protection saved at the power cut.
    fn saved(&self) -> &[LogicalUnit];

    /// Returns the largest sequence number that saved units are compared with. The program unit with this number may
    /// be missing. Its number is not given to another program unit, which would pass for no newer than the saved
    /// units.
    fn saved_through(&self) -> SequenceNumber {
        SequenceNumber::default()
    }

    /// Programs the data of `saved()[index]` to `unit` later.
    fn restore(&mut self, index: usize, unit: PhysicalUnit);

    /// Returns the number of times `block` was erased.
    fn erases(&self, block: BlockIndex) -> u32;

    /// Returns the moment from which data was written to `block`, as passed to [`Media::block_begun`]: the age of the
    /// data counts from there.
    fn begun(&self, block: BlockIndex) -> Nanoseconds {
        let _ = block;
        Nanoseconds::ZERO
    }
}

/// Result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Moment at which the drive takes requests again; earlier ones wait for it.
    pub ready_at: Instant,
    /// Duration of the recovery.
    pub took: Nanoseconds,
    /// Number of program units whose spare area was read.
    pub program_units_read: u64,
    /// Number of pages of the metadata blocks that were read: those of the saved map and of its journal.
    pub map_pages_read: u64,
    /// Number of program units that could not be read.
    pub program_units_unreadable: u64,
    /// Number of logical units that were found.
    pub units_found: u32,
    /// Number of units of the write buffer that power-loss protection had saved.
    pub units_saved: u32,
    /// Number of program units that were programmed empty, so that a block can be filled further.
    pub program_units_padded: u32,
    /// Number of blocks without current units that have to be erased.
    pub blocks_to_erase: u32,
}

/// Reason why a drive cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The configuration makes no drive.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A mechanism whose traces on the flash recovery does not know how to read.
    #[error("a drive with {what} cannot be recovered from its flash yet")]
    Unsupported {
        /// The mechanism.
        what: &'static str,
    },
    /// A block in SLC mode on a drive without an SLC cache.
    #[error("block {} is in SLC mode, and this drive has no SLC cache", .block.0)]
    CellMode {
        /// The block.
        block: BlockIndex,
    },
    /// A spare area of another size than this drive's.
    #[error(
        "the OOB area at physical unit {} has {found} units, and a program unit of this drive has \
         {expected}",
        .at.0
    )]
    OobArea {
        /// First physical unit of the program unit.
        at: PhysicalUnit,
        /// Number of units in the spare area.
        found: usize,
        /// Number of units in a program unit of this drive.
        expected: u32,
    },
    /// A logical unit that this drive does not have.
    #[error("{place} names logical unit {}, this drive has {units}", .logical.0)]
    Unit {
        /// Record that names the unit.
        place: &'static str,
        /// The unit.
        logical: LogicalUnit,
        /// Number of units of the drive.
        units: u32,
    },
    /// A sequence number that no drive reaches in its life.
    #[error("the flash holds sequence number {}, more than any drive reaches", .number.0)]
    Number {
        /// The number.
        number: SequenceNumber,
    },
    /// The bad-block table has a record of a block that cannot have failed like that.
    #[error("the table of bad blocks is wrong about collection unit {}", .unit.0)]
    BadBlock {
        /// The collection unit.
        unit: BlockIndex,
    },
    /// A unit of the write buffer that was saved twice.
    #[error("logical unit {} was saved twice from the write buffer", .logical.0)]
    SavedTwice {
        /// The unit.
        logical: LogicalUnit,
    },
    /// No block is free, and garbage collection has no room for its copies.
    #[error(
        "no block can be freed: {room} free units are left for copies, and the next victim holds \
         {valid} valid ones"
    )]
    NoRoom {
        /// Units of room that are left for copies.
        room: u32,
        /// Valid units of the block to be collected.
        valid: u32,
    },
}

/// Largest sequence number that is accepted: 2^62 program units at a nanosecond each are 146 years.
pub(crate) const NUMBER_MAX: SequenceNumber = SequenceNumber(1 << 62);
