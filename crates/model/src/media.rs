//! The interface between the translation layer and the flash: programs, erases and records, as they are announced and
//! as they complete.
//!
//! The model calls a [`Media`] when a program or an erase is announced and when it ends, so that a medium can keep
//! payload and spare areas, lose power at any of these events, or check the order of operations. [`Null`] keeps
//! nothing and costs nothing; experiments use it.
//!
//! # The newest copy of a unit
//!
//! The spare area of a program unit holds the logical unit of each of its units, and one number
//! from one counter: the [`SequenceNumber`] that the program unit took when it was *finished*,
//! which is when its last unit was put into it or it was padded. This holds for the host's program
//! units and for those of copies. A unit that is written anew or trimmed while its older copy is
//! in a program unit that is not finished becomes empty there, like padding. So at the instant a
//! program unit takes its number everything in it is current, and nothing is in it twice.
//!
//! Of two copies of a logical unit the one with the larger number is therefore the newer, or both
//! hold the same data: each was current when its number was taken, and the larger number was
//! taken later. The order in which program units are programmed does not matter, nor when a copy
//! was begun. (If copies took their numbers when their program unit is *begun*, this would not
//! hold: a program unit of copies that stays open while the host finishes a unit, and then takes
//! a copy of that, has the smaller number and the newer data.)

use crate::ftl::RequestTag;
use crate::units::{BlockIndex, DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Number in the order in which program units were finished: a larger number is later. Every program unit of a drive
/// has its own number, and every trim takes one, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// Returns the number that is taken next.
    #[inline(always)]
    pub fn next(self) -> SequenceNumber {
        SequenceNumber(self.0 + 1)
    }
}

/// Mark in the spare area of a program unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SpareMark {
    #[default]
    None,
    /// The program unit is in SLC mode, with one bit per cell.
    Slc,
    /// The program unit was written by a full merge during recovery.
    RecoveryMerge,
}

/// The spare area of one program unit: the logical unit of each of its units, and a mark for SLC mode or for a merge
/// during recovery.
#[derive(Clone, Copy, Debug)]
pub struct OobArea<'a> {
    raw: &'a [u32],
    mark: SpareMark,
}

impl<'a> OobArea<'a> {
    /// Returns a spare area from its encoding on flash, one number per unit: zero means none, any other value is the
    /// logical unit plus one.
    pub fn new(raw: &'a [u32]) -> Self {
        OobArea { raw, mark: SpareMark::None }
    }

    /// Returns the spare area of a program unit in SLC mode (see [`crate::slc`]). A medium that keeps spare areas
    /// must keep this mark, too, if the drive has an SLC cache.
    pub fn in_slc_mode(raw: &'a [u32]) -> Self {
        OobArea { raw, mark: SpareMark::Slc }
    }

    /// Returns a spare area with `mark`.
    pub(crate) fn with_mark(raw: &'a [u32], mark: SpareMark) -> Self {
        OobArea { raw, mark }
    }

    /// Returns the mark of the program unit.
    pub(crate) fn mark(&self) -> SpareMark {
        self.mark
    }

    /// Returns true if the program unit is in SLC mode. Units beyond its capacity in SLC mode are empty.
    pub fn is_slc(&self) -> bool {
        self.mark == SpareMark::Slc
    }

    /// Returns the encoding on flash, one number per unit.
    pub fn raw(&self) -> &'a [u32] {
        self.raw
    }

    /// Returns the logical units, in physical order; `None` for padding.
    pub fn logical_units(&self) -> impl Iterator<Item = Option<LogicalUnit>> + 'a {
        self.raw.iter().map(|&raw| raw.checked_sub(1).map(LogicalUnit))
    }

    /// Returns the number of units in the program unit.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns true if there is no unit at all; a program unit always has some.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

/// The record of a trim: copies of its units with a smaller sequence number are no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRecord {
    /// First unit that was trimmed.
    pub first: LogicalUnit,
    /// Number of units that were trimmed.
    pub units: u32,
    /// Sequence number of the trim.
    pub number: SequenceNumber,
}

/// A change of the bad-block table: a block that went bad, and its replacement or the retirement of its collection
/// unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlockRecord {
    /// Collection unit of the bad block.
    pub unit: BlockIndex,
    /// Position of the bad block in its collection unit: 0 for the block on the first die of the unit, 1 for the
    /// second, and so on.
    pub lane: u32,
    /// Number of the failure on this drive, counted from one.
    pub number: u64,
    /// Number of times the collection unit had been erased at the failure.
    pub erases: u32,
    /// Erase count of the block that replaces the bad one; `None` if the collection unit is retired.
    pub replaced_by: Option<u32>,
}

/// Content of a page of the metadata blocks that holds map data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapPage {
    /// A piece of the saved map ([`crate::checkpoint`]).
    Piece,
    /// Changes of the map ([`crate::journal`]).
    Journal,
}

/// Receiver of all programs, erases and records of a drive: the flash, or an observer.
pub trait Media {
    /// `request` writes the units that are received from now on.
    #[inline(always)]
    fn receive_for(&mut self, request: RequestTag) {
        let _ = request;
    }

    /// The host has written `logical`; its data will be programmed to `unit`. Called in the order
    /// in which units are written.
    #[inline(always)]
    fn receive(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        let _ = (unit, logical);
    }

    /// The host has written a part of `logical`, which will be programmed to `unit` as a whole. The rest of the unit
    /// is the data that `from` holds or will hold, or, if `from` is `None`, the data that reads of unwritten units
    /// return. `from` may be `unit`.
    #[inline(always)]
    fn receive_part(
        &mut self,
        unit: PhysicalUnit,
        logical: LogicalUnit,
        from: Option<PhysicalUnit>,
    ) {
        let _ = from;
        self.receive(unit, logical);
    }

    /// The host has trimmed `units` units from `first`, which discards their data. Calls of this function and of
    /// [`Media::receive`] come in the order of the host's requests.
    #[inline(always)]
    fn trimmed(&mut self, first: LogicalUnit, units: u32) {
        let _ = (first, units);
    }

    /// The data that `from` holds will be programmed to `to` as well.
    #[inline(always)]
    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit) {
        let _ = (from, to);
    }

    /// Zeros will be programmed to `unit` for `logical`, which was not mapped: a run of extents cannot leave out a
    /// unit (see [`crate::mapping::extent`]).
    #[inline(always)]
    fn fill(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        let _ = (unit, logical);
    }

    /// The program unit that starts at `first` is full or padded: its content and its number are final, and it will
    /// be programmed. [`Media::programmed`] reports the end of the program.
    #[inline(always)]
    fn begin_program(&mut self, first: PhysicalUnit, spare: OobArea<'_>, number: SequenceNumber) {
        let _ = (first, spare, number);
    }

    /// The program unit that starts at `first` is programmed. Since its `begin_program`, an erase of its
    /// block may have been announced, and another program unit may have been begun in the same place: the programs of
    /// a place end in the order in which they were begun, each before the erase between them begins.
    #[inline(always)]
    fn programmed(&mut self, first: PhysicalUnit) {
        let _ = first;
    }

    /// `block` will be erased, once all data that replaces its data is programmed. Units received, copied and begun
    /// from now on for a place in `block` belong to the time after that erase.
    #[inline(always)]
    fn begin_erase(&mut self, block: BlockIndex) {
        let _ = block;
    }

    /// The part of `block` that lies on `die` is erased.
    #[inline(always)]
    fn erased(&mut self, block: BlockIndex, die: DieIndex) {
        let _ = (block, die);
    }

    /// The erase of the part of `block` on `die` has ended and has failed: this part cannot be read.
    #[inline(always)]
    fn erase_failed(&mut self, block: BlockIndex, die: DieIndex) {
        let _ = (block, die);
    }

    /// `record` is programmed to a page of the metadata blocks. The block that replaces the bad one is erased.
    #[inline(always)]
    fn bad_block_recorded(&mut self, record: BadBlockRecord) {
        let _ = record;
    }

    /// `records` are programmed to a page of the metadata blocks.
    #[inline(always)]
    fn trims_recorded(&mut self, records: &[TrimRecord]) {
        let _ = records;
    }

    /// A page of the metadata blocks is programmed; it holds the mapping of program units up to number `through`.
    #[inline(always)]
    fn map_page_programmed(&mut self, page: MapPage, through: SequenceNumber) {
        let _ = (page, through);
    }

    /// Data is written to `block` from `clock` on, by a clock that also runs while the drive is stored without power.
    /// Called only if data ages.
    #[inline(always)]
    fn block_begun(&mut self, block: BlockIndex, clock: Nanoseconds) {
        let _ = (block, clock);
    }

    /// The host is told that everything that was to be programmed by `at` is durable.
    #[inline(always)]
    fn promise(&mut self, at: Instant) {
        let _ = at;
    }
}

/// Flash that stores nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Media for Null {}
