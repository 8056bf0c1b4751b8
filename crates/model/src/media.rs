//! The flash itself, as seen by the translation layer: what is programmed and erased, and when.
//!
//! The model calls a [`Media`] for every program and erase with the span of time it takes, so
//! that a medium can keep payload and spare area, be cut from power between start and end, or
//! check the order of things. [`Null`] keeps nothing and costs nothing; experiments use it.
//!
//! # Which copy is the newest
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

/// Which program unit was finished when: larger is later. Every program unit of a drive has its
/// own; a trim takes one, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The number that is taken next.
    #[inline(always)]
    pub fn next(self) -> SequenceNumber {
        SequenceNumber(self.0 + 1)
    }
}

/// What else the spare area of a program unit says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SpareMark {
    #[default]
    None,
    /// It was written with one bit a cell.
    Slc,
    /// It holds copies of a merge that recovery makes.
    Redone,
}

/// The spare area of one program unit: which logical unit each of its units holds, whether it
/// was written with one bit a cell, and whether it was by a merge that can be done again.
#[derive(Clone, Copy, Debug)]
pub struct SpareArea<'a> {
    raw: &'a [u32],
    mark: SpareMark,
}

impl<'a> SpareArea<'a> {
    /// As it is kept on the flash, one number a unit: zero means none, anything else is the
    /// logical unit plus one.
    pub fn new(raw: &'a [u32]) -> Self {
        SpareArea { raw, mark: SpareMark::None }
    }

    /// The same of a program unit in SLC mode (see [`crate::slc`]). A medium that keeps what it is
    /// told has to keep this, too, where the drive has such a cache.
    pub fn in_slc_mode(raw: &'a [u32]) -> Self {
        SpareArea { raw, mark: SpareMark::Slc }
    }

    /// The same with the mark that it was given.
    pub(crate) fn with_mark(raw: &'a [u32], mark: SpareMark) -> Self {
        SpareArea { raw, mark }
    }

    /// Its mark.
    pub(crate) fn mark(&self) -> SpareMark {
        self.mark
    }

    /// Returns true if the program unit is in SLC mode: then units behind those that fit it are empty.
    pub fn is_slc(&self) -> bool {
        self.mark == SpareMark::Slc
    }

    /// The numbers as they are kept on the flash.
    pub fn raw(&self) -> &'a [u32] {
        self.raw
    }

    /// The logical units, in physical order; `None` for padding.
    pub fn logical_units(&self) -> impl Iterator<Item = Option<LogicalUnit>> + 'a {
        self.raw.iter().map(|&raw| raw.checked_sub(1).map(LogicalUnit))
    }

    /// Number of units in the program unit.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns true if there is no unit at all; a program unit always has some.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

/// The record of a trim: copies of its units with a smaller number hold nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRecord {
    /// The first unit that was trimmed.
    pub first: LogicalUnit,
    /// How many were, that one included.
    pub units: u32,
    /// The number that the trim took.
    pub number: SequenceNumber,
}

/// A change of the table of bad blocks: a block that has gone bad, and what became of its collection
/// unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlockRecord {
    /// The collection unit.
    pub unit: BlockIndex,
    /// Which of its blocks: of its first die, its second, and so on, from zero.
    pub lane: u32,
    /// Which of the drive's failures it is, counted from one.
    pub number: u64,
    /// How often the unit was erased by then.
    pub erases: u32,
    /// How often the block was erased that replaces it; nothing where the unit is out of use.
    pub replaced_by: Option<u32>,
}

/// What a page of the metadata blocks holds of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapPage {
    /// A piece of the whole map ([`crate::checkpoint`]).
    Piece,
    /// Changes of the map ([`crate::journal`]).
    Journal,
}

/// What programs and erases are done to.
pub trait Media {
    /// Units that are received from now on are written by `request`.
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

    /// The host has written a part of `logical`, which will be programmed to `unit` as a whole. The rest is what
    /// `from` holds or will hold, and what reads where nothing was written if there is none. `from` may be `unit`.
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

    /// The host has trimmed `units` units from `first`: what they held is forgotten. Called in one order with
    /// [`Media::receive`].
    #[inline(always)]
    fn trimmed(&mut self, first: LogicalUnit, units: u32) {
        let _ = (first, units);
    }

    /// What `from` holds will be programmed to `to`, too.
    #[inline(always)]
    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit) {
        let _ = (from, to);
    }

    /// Zeros will be programmed to `unit` for `logical`, which held nothing: a run of extents cannot
    /// leave it out (see [`crate::mapping::extent`]).
    #[inline(always)]
    fn fill(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        let _ = (unit, logical);
    }

    /// The program unit that starts at `first` is full, or padded: what it holds and its number are
    /// settled, and it will be programmed. [`Media::programmed`] says when it is.
    #[inline(always)]
    fn begin_program(&mut self, first: PhysicalUnit, spare: SpareArea<'_>, number: SequenceNumber) {
        let _ = (first, spare, number);
    }

    /// The program unit that starts at `first` is programmed. Its block may have been announced to be
    /// erased since it was begun, and another program unit may have been begun in its place: programs of a
    /// place end in the order in which they were begun, each before the erase between them is begun.
    #[inline(always)]
    fn programmed(&mut self, first: PhysicalUnit) {
        let _ = first;
    }

    /// `block` will be erased, once all that replaces its data is programmed. What is received, copied
    /// and begun from now on for a place in it is for its next life.
    #[inline(always)]
    fn begin_erase(&mut self, block: BlockIndex) {
        let _ = block;
    }

    /// The part of `block` that lies on `die` is erased.
    #[inline(always)]
    fn erased(&mut self, block: BlockIndex, die: DieIndex) {
        let _ = (block, die);
    }

    /// The erase of the part of `block` that lies on `die` has ended, and has failed: it cannot be read.
    #[inline(always)]
    fn erase_failed(&mut self, block: BlockIndex, die: DieIndex) {
        let _ = (block, die);
    }

    /// `record` is programmed to a page of the metadata blocks. What replaces the block is erased.
    #[inline(always)]
    fn bad_block_recorded(&mut self, record: BadBlockRecord) {
        let _ = record;
    }

    /// `records` are programmed to a page of the metadata blocks.
    #[inline(always)]
    fn trims_recorded(&mut self, records: &[TrimRecord]) {
        let _ = records;
    }

    /// A page of the metadata blocks is programmed with what the map says of program units up to
    /// number `through`.
    #[inline(always)]
    fn map_page_programmed(&mut self, page: MapPage, through: SequenceNumber) {
        let _ = (page, through);
    }

    /// Data is written to `block` from `clock` on, by a clock that goes on while the drive is stored. Told
    /// where data ages.
    #[inline(always)]
    fn block_begun(&mut self, block: BlockIndex, clock: Nanoseconds) {
        let _ = (block, clock);
    }

    /// The host is told that what was to be programmed by `at` is durable.
    #[inline(always)]
    fn promise(&mut self, at: Instant) {
        let _ = at;
    }
}

/// Flash that keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Media for Null {}
