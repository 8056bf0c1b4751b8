//! Host reads: from the write buffer, from read-ahead data, or from the flash.
//!
//! A request becomes flash page reads: units that lie on one page cost one read of the page, and pages of one
//! multi-plane group in one request are sensed together. The request is answered when its last unit has
//! arrived.
//!
//! A unit that collection is moving is read from its new place, although the old copy would do as long as the
//! new one is not programmed: either way the read costs one page read on some die.

use std::collections::VecDeque;

use ssdlab_nand::timing::CODEWORD;
use ssdlab_nand::{Nand, Page, PieceIndex, ReadId, ReadTime, Tag};

use super::host::{Command, RequestTag};
use super::{Context, Ftl, kind};
use crate::counters::Counters;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::read_ahead::{Arrival, ReadAhead, is_sequential_in_flash};
use crate::ssd::Configuration;
use crate::units::{ByteLength, Instant, LogicalUnit, PhysicalUnit, SectorCount};

/// Number of latest pages of a request that are searched for the page of its next unit. The units of a page
/// follow each other in a request, unless some were overwritten since; the strays then come in between. The
/// limit bounds the work for a large read: a page with more strays in between is sensed again.
const RECENT_PAGES_MAX: usize = 8;

/// Source of a piece of a read request.
#[derive(Clone, Copy, Debug)]
enum PieceSource {
    /// RAM: data in the write buffer, read-ahead data, or an unmapped unit, which needs no flash.
    Ram,
    /// The read-ahead segment in flight with this number.
    Segment(u32),
    /// The flash page of this unit.
    Page(PhysicalUnit),
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    from: PieceSource,
    units: u32,
}

/// A read-ahead segment in flight.
#[derive(Clone, Debug, Default)]
struct ReadAheadSegment {
    pages_left: u32,
    /// Pieces of reads that wait for the segment.
    waiting: Vec<(ReadId, PieceIndex)>,
}

/// Read-ahead segments in flight, by number, oldest first.
#[derive(Clone, Debug, Default)]
struct ReadAheadSegments {
    in_flight: VecDeque<ReadAheadSegment>,
    /// Number of the first segment; wraps.
    first: u32,
}

impl ReadAheadSegments {
    fn begin(&mut self, pages_left: u32) -> u32 {
        let number = self.first.wrapping_add(self.in_flight.len() as u32);
        self.in_flight.push_back(ReadAheadSegment { pages_left, waiting: Vec::new() });
        number & kind::NUMBER
    }

    /// Returns segment `number`; `None` if all of it has arrived.
    fn get(&mut self, number: u32) -> Option<&mut ReadAheadSegment> {
        let place = number.wrapping_sub(self.first) & kind::NUMBER;
        self.in_flight.get_mut(place as usize).filter(|segment| segment.pages_left > 0)
    }

    /// Notes that another page of segment `number` has arrived. If it was the last, returns the pieces that
    /// wait for the segment.
    fn note_page(&mut self, number: u32) -> Vec<(ReadId, PieceIndex)> {
        let segment = self.get(number).expect("it is under way");
        segment.pages_left -= 1;
        let waiting = match segment.pages_left {
            0 => std::mem::take(&mut segment.waiting),
            _ => Vec::new(),
        };
        while self.in_flight.front().is_some_and(|it| it.pages_left == 0) {
            self.in_flight.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        waiting
    }
}

/// State of reads: read-ahead, and the pieces of the request being executed.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    ahead: ReadAhead,
    segments: ReadAheadSegments,
    /// Sectors read by requests for parts of units that do not add up to a unit yet.
    part_sectors: u64,
    pieces: Vec<Piece>,
    /// Flash pages of the request, each with the index of its piece in `pieces`.
    pages: Vec<(u32, u32)>,
}

impl Reads {
    pub(super) fn new(configuration: &Configuration) -> Reads {
        let registers = configuration.mechanisms.page_register;
        Reads {
            ahead: ReadAhead::new(configuration.read_ahead, registers),
            segments: ReadAheadSegments::default(),
            part_sectors: 0,
            pieces: Vec::new(),
            pages: Vec::new(),
        }
    }

    /// Drops read-ahead data of `units` units from `first`, which the host changes.
    #[inline(always)]
    pub(super) fn invalidate(&mut self, first: LogicalUnit, units: u32, counters: &mut Counters) {
        let lost = self.ahead.invalidate(first.0, units);
        if lost > 0 {
            counters.read_ahead_lost_units += u64::from(lost);
        }
    }

    /// Adds sectors read to those that do not add up to a unit yet. Returns the number of whole units in the
    /// sum, and takes these units out of it.
    pub(super) fn whole_units_of(&mut self, count: SectorCount, geometry: &Geometry) -> u64 {
        let shift = geometry.sectors_per_unit_shift();
        self.part_sectors += count.0;
        let units = self.part_sectors >> shift;
        self.part_sectors -= units << shift;
        units
    }

    fn begin(&mut self) {
        self.pieces.clear();
        self.pages.clear();
    }

    fn add_in_ram(&mut self) {
        match self.pieces.last_mut() {
            Some(Piece { from: PieceSource::Ram, units }) => *units += 1,
            _ => self.pieces.push(Piece { from: PieceSource::Ram, units: 1 }),
        }
    }

    fn add_page(&mut self, unit: PhysicalUnit, page: u32) {
        let recent = self.pages.len().saturating_sub(RECENT_PAGES_MAX);
        if let Some(&(_, piece)) = self.pages[recent..].iter().rev().find(|it| it.0 == page) {
            self.pieces[piece as usize].units += 1;
            return;
        }
        self.pages.push((page, self.pieces.len() as u32));
        self.pieces.push(Piece { from: PieceSource::Page(unit), units: 1 });
    }

    /// Forgets read-ahead data and the streams that were detected, as at power-on.
    pub(super) fn reset(&mut self) {
        self.ahead = self.ahead.empty_like();
        self.segments = ReadAheadSegments::default();
        self.part_sectors = 0;
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Returns the physical unit from which `unit` has to be read; `None` if it is in the buffer or nowhere.
    /// Counts both of these cases.
    #[inline(always)]
    fn place_in_flash(&mut self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let Some(physical) = self.map.get(unit).or_else(|| self.deferred_trim_place_of(unit))
        else {
            self.counters.unmapped_read_units += 1;
            return None;
        };
        if self.placement.is_buffered(physical, &self.geometry) {
            self.counters.buffer_hit_units += 1;
            return None;
        }
        Some(physical)
    }

    /// Returns the place at which a trimmed unit can still be read, on a drive that does not say what is read
    /// after a trim.
    #[cold]
    pub(super) fn deferred_trim_place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.deferred_trims.as_ref()?.readable_place(unit, self.blocks.table())
    }

    #[inline(always)]
    pub(super) fn read(
        &mut self,
        nand: &mut Nand,
        tag: RequestTag,
        first: LogicalUnit,
        units: u32,
    ) {
        if self.map.cache().is_some() {
            self.begin_progress(tag, nand.now());
            return self.load_map_entries(nand, tag, first, units, false);
        }
        self.read_mapped(nand, tag, first, units);
    }

    /// Reads units whose map entries are in RAM.
    #[inline(always)]
    pub(super) fn read_mapped(
        &mut self,
        nand: &mut Nand,
        tag: RequestTag,
        first: LogicalUnit,
        units: u32,
    ) {
        let command = self.requests.get(tag).command;
        // The next request of a sequential stream begins in the unit that this one ends in.
        let next = match command {
            Command::ReadSectors { first, count } => {
                ((first + count).0 >> self.geometry.sectors_per_unit_shift()) as u32
            }
            _ => first.0 + units,
        };
        let stream = match self.reads.ahead.is_enabled() {
            true => self.reads.ahead.note_read(first.0, next),
            false => None,
        };
        if units > 1 || stream.is_some() || matches!(command, Command::ReadSectors { .. }) {
            return self.read_many(nand, tag, stream, first, units);
        }
        match self.place_in_flash(first) {
            Some(physical) => {
                self.counters.flash_page_reads_host += 1;
                nand.read_unit(Tag(tag.0), physical, self.page_read_of(physical));
            }
            None => {
                let transfer = nand.link_time(1);
                nand.send(Tag(tag.0), transfer);
            }
        }
    }

    #[inline(never)]
    fn read_many(
        &mut self,
        nand: &mut Nand,
        tag: RequestTag,
        stream: Option<usize>,
        first: LogicalUnit,
        units: u32,
    ) {
        self.reads.begin();
        match stream {
            None => self.gather(first, units),
            Some(stream) => self.gather_sequential(stream, first, units),
        }
        let left_out = self.left_out(tag);
        let last = self.reads.pieces.len() - 1;
        let read = nand.begin_read(Tag(tag.0), stream.is_some());
        for index in 0..self.reads.pieces.len() {
            let Piece { from, units } = self.reads.pieces[index];
            let (mut link, mut codewords_left_out) = (nand.link_time(units), 0);
            for (place, left_out) in [0, last].into_iter().zip(left_out) {
                if index == place {
                    link -= self.timing.link.duration(left_out);
                    codewords_left_out += left_out.whole(CODEWORD) as u32;
                }
            }
            match from {
                PieceSource::Ram => {
                    nand.add_buffered(read, link);
                }
                PieceSource::Segment(number) => {
                    let piece = nand.add_awaited(read, link);
                    let segment = self.reads.segments.get(number).expect("it is under way");
                    segment.waiting.push((read, piece));
                }
                PieceSource::Page(unit) => {
                    self.counters.flash_page_reads_host += 1;
                    let sense = self.page_read_of(unit);
                    let page = Page { unit, units, sense };
                    nand.add_part_of_page(read, page, codewords_left_out, link);
                }
            }
        }
        let held = nand.issue_read(read);
        self.counters.flash_page_reads_host -= u64::from(held);
        if let Some(stream) = stream {
            self.read_ahead(nand, stream);
        }
    }

    /// Returns the number of bytes of the first and of the last unit of a request that the host did not ask
    /// for.
    fn left_out(&self, tag: RequestTag) -> [ByteLength; 2] {
        let Command::ReadSectors { first, count } = self.requests.get(tag).command else {
            return [ByteLength::ZERO; 2];
        };
        let parts = self.requests.parts(first, count);
        [parts.head, parts.tail].map(SectorCount::length)
    }

    /// Collects the flash pages of `units` units from `first`.
    fn gather(&mut self, first: LogicalUnit, units: u32) {
        for unit in first.0..first.0 + units {
            match self.place_in_flash(LogicalUnit(unit)) {
                None => self.reads.add_in_ram(),
                Some(physical) => self.reads.add_page(physical, self.geometry.page_of(physical)),
            }
        }
    }

    /// Collects the pieces of a request of a sequential stream: read-ahead segments, and the flash pages of the
    /// rest.
    fn gather_sequential(&mut self, stream: usize, first: LogicalUnit, units: u32) {
        let segment_units = self.reads.ahead.parameters().segment;
        let (mut unit, end) = (first.0, first.0 + units);
        while unit < end {
            let segment_end = (unit - unit % segment_units + segment_units).min(end);
            let count = segment_end - unit;
            match self.reads.ahead.arrival_of(stream, unit) {
                Some(arrival) => {
                    self.counters.read_ahead_hit_units += u64::from(count);
                    let from = match arrival {
                        Arrival::WithSegment(number)
                            if self.reads.segments.get(number).is_some() =>
                        {
                            PieceSource::Segment(number)
                        }
                        _ => PieceSource::Ram,
                    };
                    self.reads.pieces.push(Piece { from, units: count });
                }
                None => self.gather(LogicalUnit(unit), count),
            }
            unit = segment_end;
        }
    }

    /// Starts to read the segments that fit into the read-ahead window of a stream.
    fn read_ahead(&mut self, nand: &mut Nand, stream: usize) {
        let segment = self.reads.ahead.parameters().segment;
        let logical_units = self.geometry.logical_units();
        while let Some(first) = self.reads.ahead.next_segment(stream, logical_units) {
            let at = LogicalUnit(first);
            if is_sequential_in_flash(&self.map, self.blocks.table(), &self.geometry, at, segment) {
                let arrival = self.load_segment(nand, at, segment);
                self.reads.ahead.add_segment(stream, first, arrival);
            }
        }
    }

    fn load_segment(&mut self, nand: &mut Nand, first: LogicalUnit, units: u32) -> Arrival {
        self.reads.begin();
        self.gather(first, units);
        let pages = self.reads.pages.len() as u32;
        if pages == 0 {
            return Arrival::InRam;
        }
        let number = self.reads.segments.begin(pages);
        let tag = Tag(number);
        for leader in 0..self.reads.pages.len() {
            let Some((page, sense)) = self.take_gathered(leader, None) else { continue };
            let is_sensed = nand.load_page(tag, page, true);
            self.counters.flash_page_reads_host += u64::from(is_sensed);
            for other in leader + 1..self.reads.pages.len() {
                if let Some((page, _)) = self.take_gathered(other, Some(sense)) {
                    nand.load_page_with_last(tag, page);
                    self.counters.flash_page_reads_host += u64::from(is_sensed);
                }
            }
        }
        Arrival::WithSegment(number)
    }

    /// Takes the gathered page `index`, and returns it with the group of pages that are sensed together with
    /// it. `None` if it was taken before, or if `sense` names another group.
    fn take_gathered(&mut self, index: usize, sense: Option<u32>) -> Option<(Page, u32)> {
        let piece = &mut self.reads.pieces[self.reads.pages[index].1 as usize];
        let PieceSource::Page(unit) = piece.from else { return None };
        let together = self.geometry.sense_of(unit);
        if sense.is_some_and(|sense| sense != together) {
            return None;
        }
        piece.from = PieceSource::Ram;
        let units = piece.units;
        Some((Page { unit, units, sense: self.page_read_of(unit) }, together))
    }

    /// Notes that a page of a read-ahead segment has arrived.
    pub(super) fn read_ahead_page_loaded(&mut self, nand: &mut Nand, tag: Tag) {
        for (read, piece) in self.reads.segments.note_page(tag.0) {
            nand.piece_arrived(read, piece);
        }
    }

    /// Counts and answers a read whose data is all with the host at `at`.
    #[inline(always)]
    pub(super) fn complete_read(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        at: Instant,
        time: ReadTime,
    ) {
        let request = self.requests.get(tag);
        let sent = request.sent;
        let (latency, occupancy) = self.requests.data_time(&request.command);
        let at = at + latency;
        let totals = &mut self.delays.reads;
        totals.requests += 1;
        totals.latency += at.since(sent);
        let parts = &mut totals.parts;
        parts.command += latency + occupancy;
        parts.flash_read += time.sense;
        parts.link += time.transfer;
        if !matches!(request.command, Command::ReadSectors { .. }) {
            parts.link += context.nand.link_time(1);
        }
        parts.program += time.blocked_by_program;
        parts.collection += time.blocked_by_background;
        self.answer(context, tag, sent, at);
    }
}
