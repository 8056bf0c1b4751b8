//! What a translation layer asks of flash: of the engine, and of the slow simulator it is held against.

use ssdlab_nand::geometry::Geometry;
use ssdlab_nand::timing::Timing;
use ssdlab_nand::{CopyNumber, EraseId, Nand, Page, PieceIndex, ProgramUnit, ReadId, Tag};
use ssdlab_units::{BlockIndex, DieIndex, Instant, Nanoseconds, PhysicalUnit};

/// The numbers by which flash and translation layer know things.
pub trait Handles: Clone {
    type Copies: Copy;
    type Erase: Copy + PartialEq;
    type Read: Copy;
    type Piece: Copy;

    /// Returns how many copies' program units were begun before one, modulo 2^31.
    fn index(copies: Self::Copies) -> u32;
}

/// Flash that is told what to do. Units are counted in mapping units, blocks in collection units.
pub trait Device<H: Handles> {
    fn submit(&mut self, at: Instant, tag: u32);
    fn receive(&mut self, units: u32) -> Instant;
    fn send(&mut self, tag: u32, units: u32);
    fn set_alarm(&mut self, at: Instant, tag: u32);
    fn read_unit(&mut self, tag: u32, unit: u32);
    fn begin_read(&mut self, tag: u32, is_stream: bool) -> H::Read;
    /// Returns how long units take the link.
    fn link_time(&self, units: u32) -> Nanoseconds;
    fn add_buffered(&mut self, read: H::Read, link: Nanoseconds);
    fn add_awaited(&mut self, read: H::Read, link: Nanoseconds) -> H::Piece;
    fn add_page(&mut self, read: H::Read, unit: u32, units: u32, link: Nanoseconds);
    fn issue_read(&mut self, read: H::Read);
    fn piece_arrived(&mut self, read: H::Read, piece: H::Piece);
    fn load_page(&mut self, tag: u32, unit: u32, units: u32, is_stream: bool);
    fn program(&mut self, tag: u32, unit: u32, after: Option<H::Erase>);
    fn begin_copies(&mut self, unit: u32, after: Option<H::Erase>) -> H::Copies;
    fn copy(&mut self, unit: u32, units: u32, to: H::Copies, and_to: Option<H::Copies>);
    fn complete_copies(&mut self, copies: H::Copies);
    fn prioritise_copies(&mut self, through: H::Copies);
    fn announce_erase(&mut self, block: u32) -> H::Erase;
    fn erase(&mut self, erase: H::Erase);
}

/// The durations that every operation takes: what `Nand` is told with each.
#[derive(Clone, Copy)]
pub struct Durations {
    pub sense: Nanoseconds,
    pub program: Nanoseconds,
    pub erase: Nanoseconds,
}

impl Durations {
    pub fn of(timing: &Timing) -> Durations {
        Durations { sense: timing.page_read, program: timing.program, erase: timing.erase }
    }
}

/// The engine together with the durations: what a translation layer is handed in its callbacks.
pub struct TimedNand<'a> {
    pub nand: &'a mut Nand,
    pub durations: &'a Durations,
}

impl TimedNand<'_> {
    #[inline(always)]
    fn page(&self, unit: u32, units: u32) -> Page {
        Page { unit: PhysicalUnit(unit), units, sense: self.durations.sense }
    }

    #[inline(always)]
    fn program_unit(&self, unit: u32, after: Option<EraseId>) -> ProgramUnit {
        let units = self.nand.geometry().units_per_program();
        let program = self.durations.program;
        ProgramUnit { unit: PhysicalUnit(unit), units, program, after }
    }
}

/// The dies of a block.
pub fn dies_of(geometry: &Geometry, block: u32) -> std::ops::Range<DieIndex> {
    let first = geometry.group_of(BlockIndex(block)) * geometry.stripe();
    DieIndex(first)..DieIndex(first + geometry.stripe())
}

/// The engine's numbers.
#[derive(Clone)]
pub struct EngineHandles;

impl Handles for EngineHandles {
    type Copies = CopyNumber;
    type Erase = EraseId;
    type Read = ReadId;
    type Piece = PieceIndex;

    fn index(copies: CopyNumber) -> u32 {
        copies.index()
    }
}

impl Device<EngineHandles> for TimedNand<'_> {
    #[inline(always)]
    fn submit(&mut self, at: Instant, tag: u32) {
        self.nand.submit(at, Tag(tag), Nanoseconds::ZERO);
    }
    #[inline(always)]
    fn receive(&mut self, units: u32) -> Instant {
        let duration = self.nand.link_time(units);
        self.nand.receive(duration)
    }
    fn send(&mut self, tag: u32, units: u32) {
        let duration = self.nand.link_time(units);
        self.nand.send(Tag(tag), duration);
    }
    #[inline(always)]
    fn set_alarm(&mut self, at: Instant, tag: u32) {
        self.nand.set_alarm(at, Tag(tag));
    }
    #[inline(always)]
    fn read_unit(&mut self, tag: u32, unit: u32) {
        self.nand.read_unit(Tag(tag), PhysicalUnit(unit), self.durations.sense);
    }
    fn begin_read(&mut self, tag: u32, is_stream: bool) -> ReadId {
        self.nand.begin_read(Tag(tag), is_stream)
    }
    fn link_time(&self, units: u32) -> Nanoseconds {
        self.nand.link_time(units)
    }
    fn add_buffered(&mut self, read: ReadId, link: Nanoseconds) {
        self.nand.add_buffered(read, link);
    }
    fn add_awaited(&mut self, read: ReadId, link: Nanoseconds) -> PieceIndex {
        self.nand.add_awaited(read, link)
    }
    fn add_page(&mut self, read: ReadId, unit: u32, units: u32, link: Nanoseconds) {
        let page = self.page(unit, units);
        self.nand.add_page(read, page, link);
    }
    fn issue_read(&mut self, read: ReadId) {
        self.nand.issue_read(read);
    }
    fn piece_arrived(&mut self, read: ReadId, piece: PieceIndex) {
        self.nand.piece_arrived(read, piece);
    }
    fn load_page(&mut self, tag: u32, unit: u32, units: u32, is_stream: bool) {
        let page = self.page(unit, units);
        self.nand.load_page(Tag(tag), page, is_stream);
    }
    #[inline(always)]
    fn program(&mut self, tag: u32, unit: u32, after: Option<EraseId>) {
        let program = self.program_unit(unit, after);
        self.nand.program(Tag(tag), program);
    }
    #[inline(always)]
    fn begin_copies(&mut self, unit: u32, after: Option<EraseId>) -> CopyNumber {
        let program = self.program_unit(unit, after);
        self.nand.begin_copies(program)
    }
    #[inline(always)]
    fn copy(&mut self, unit: u32, units: u32, to: CopyNumber, and_to: Option<CopyNumber>) {
        let page = self.page(unit, units);
        self.nand.copy(page, to, and_to);
    }
    #[inline(always)]
    fn complete_copies(&mut self, copies: CopyNumber) {
        self.nand.complete_copies(copies);
    }
    fn prioritise_copies(&mut self, through: CopyNumber) {
        self.nand.prioritise_copies(through);
    }
    fn announce_erase(&mut self, block: u32) -> EraseId {
        let dies = dies_of(self.nand.geometry(), block);
        self.nand.announce_erase(dies)
    }
    fn erase(&mut self, erase: EraseId) {
        self.nand.erase(erase, self.durations.erase);
    }
}
