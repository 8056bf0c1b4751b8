//! Placement: where the host's next unit goes, the program units on their way, and the write buffer
//! that their data waits in.

use std::collections::VecDeque;

use ssdlab_nand::{EraseId, ProgramLog};

use super::host::RequestTag;
use crate::flash::BlockState;
use crate::geometry::Geometry;
use crate::media::SequenceNumber;
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::ssd::Configuration;
use crate::stream::{FilledProgram, WriteStream};
use crate::streams::{STREAMS_MAX, StreamId, Streams};
use crate::units::{BlockIndex, Instant, Nanoseconds, PhysicalUnit};

use super::blocks::Blocks;

/// A program unit of the host's that is being filled or on its way to the flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostProgram {
    pub(super) first: PhysicalUnit,
    pub(super) block: BlockIndex,
    /// Its place in the block, in program units.
    pub(super) index: u32,
    /// Units that cross the channel, once it is full.
    pub(super) units: u32,
    /// Slots of the buffer that it holds, and those of them that are of copies by collection.
    data: u32,
    copies: u32,
    /// What has to arrive before it is sent: its data, the rest of units written in part, and that it is
    /// full.
    waits: u32,
    closes: bool,
    /// The erase of its block that was not over when it was begun. What is announced later erases it, too.
    pub(super) after: Option<EraseId>,
    pub(super) number: SequenceNumber,
    is_sent: bool,
    /// True if others may be ready before it, which its die has to program after it.
    is_late: bool,
}

impl HostProgram {
    /// Units of the host's in it, as far as they took slots of the buffer.
    pub(super) fn written(&self) -> u32 {
        self.data - self.copies
    }
}

/// A write of which not all data was let into the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingWrite {
    pub(super) tag: RequestTag,
    pub(super) next: u32,
    pub(super) end: u32,
    /// True if it covers units in part.
    pub(super) in_part: bool,
    /// When it has nothing to wait for but room.
    pub(super) ready: Instant,
    /// The program unit that its first data went into.
    pub(super) program: Option<u64>,
    /// The stream that the host has said it belongs to.
    pub(super) hint: Option<StreamId>,
    /// Pages of records of trims that make it durable besides: those before. Such a trim took away what it had let in.
    pub(super) trim_pages: u64,
}

/// A write frontier that is put aside.
#[derive(Clone, Debug)]
pub(super) struct Frontier {
    stream: WriteStream,
    filling: u64,
}

impl Frontier {
    pub(super) fn new(geometry: &Geometry) -> Frontier {
        Frontier { stream: WriteStream::new(geometry), filling: 0 }
    }

    /// Returns true if `unit` is in the program unit being filled.
    pub(super) fn holds(&self, unit: PhysicalUnit) -> bool {
        self.stream.holds(unit)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Placement {
    stream: WriteStream,
    /// The number of the program unit being filled, of the stream being written and of those put aside.
    filling: u64,
    filling_aside: [u64; STREAMS_MAX as usize],
    /// Program units by number, and those from the first on that is not over.
    log: ProgramLog,
    under_way: VecDeque<HostProgram>,
    /// Per program unit of the drive, a bit: whether its data is in the buffer.
    buffered: Vec<u64>,
    used: u32,
    capacity: u32,
    waiting: VecDeque<WaitingWrite>,
    /// When all data is there that was let in.
    received_until: Instant,
    /// True if capacitors protect the buffer.
    is_protected: bool,
    sequence: SequenceNumber,
    /// Program units that were not sent and are late.
    late: u32,
    coalescing: Coalescing,
}

/// Full program units that wait in a protected buffer, so that what the host writes again is replaced there.
#[derive(Clone, Debug, Default)]
struct Coalescing {
    /// Units that they hold at most.
    most: u32,
    units: u32,
    /// What they are, and their numbers.
    programs: VecDeque<(FilledProgram, u64)>,
    /// Per program unit of the drive, a bit: whether it is one of them. Empty on a drive without.
    is_kept: Vec<u64>,
}

impl Coalescing {
    fn new(configuration: &Configuration) -> Coalescing {
        let (geometry, most) = (&configuration.geometry, configuration.buffer.coalesced);
        let program_units = geometry.physical_units() / geometry.units_per_program();
        let words = if most > 0 { program_units.div_ceil(64) as usize } else { 0 };
        Coalescing { most, is_kept: vec![0; words], ..Coalescing::default() }
    }

    fn set_kept(&mut self, unit: PhysicalUnit, geometry: &Geometry, is_there: bool) {
        let program = geometry.program_of(unit) as usize;
        let (word, bit) = (&mut self.is_kept[program / 64], 1 << (program % 64));
        *word = if is_there { *word | bit } else { *word & !bit };
    }

    #[inline(always)]
    fn holds(&self, unit: PhysicalUnit, geometry: &Geometry) -> bool {
        let program = geometry.program_of(unit) as usize;
        self.most > 0 && self.is_kept[program / 64] >> (program % 64) & 1 != 0
    }
}

impl Placement {
    pub(super) fn new(configuration: &Configuration) -> Placement {
        let geometry = &configuration.geometry;
        let program_units = geometry.physical_units() / geometry.units_per_program();
        Placement {
            stream: WriteStream::new(geometry),
            filling: 0,
            filling_aside: [0; STREAMS_MAX as usize],
            log: ProgramLog::default(),
            under_way: VecDeque::new(),
            buffered: vec![0; program_units.div_ceil(64) as usize],
            used: 0,
            capacity: configuration.buffer.units,
            waiting: VecDeque::new(),
            received_until: Instant::START,
            is_protected: configuration.buffer.protected,
            sequence: SequenceNumber::default(),
            late: 0,
            coalescing: Coalescing::new(configuration),
        }
    }

    /// Returns true if data waits in it that a power cut would take.
    pub(super) fn is_volatile(&self) -> bool {
        !self.is_protected
    }

    /// The number of the program unit or trim that is just finished.
    #[inline(always)]
    pub(super) fn next_number(&mut self) -> SequenceNumber {
        self.sequence = self.sequence.next();
        self.sequence
    }

    /// Units until the program unit being filled is full; zero when none has been begun.
    #[inline(always)]
    pub(super) fn room(&self) -> u32 {
        self.stream.room()
    }

    /// Returns true if a program unit is being filled and holds something.
    #[inline(always)]
    pub(super) fn is_partial(&self) -> bool {
        self.stream.is_partial()
    }

    /// Returns true if the next program unit needs a block from the pool.
    pub(super) fn needs_block(&self) -> bool {
        self.stream.needs_block()
    }

    /// Returns true if `unit` is in the program unit being filled, or in one that waits in the buffer.
    pub(super) fn holds_unsent(&self, unit: PhysicalUnit, geometry: &Geometry) -> bool {
        self.stream.holds(unit) || self.coalescing.holds(unit, geometry)
    }

    /// Returns true if full program units wait in the buffer, so that what is written again is replaced there.
    #[inline(always)]
    pub(super) fn coalesces(&self) -> bool {
        self.coalescing.most > 0
    }

    /// The program unit being filled is full and waits in the buffer. Returns what it is.
    pub(super) fn keep(&mut self, geometry: &Geometry) -> FilledProgram {
        let filled = self.fill(geometry);
        self.coalescing.programs.push_back((filled, self.filling));
        self.coalescing.units += filled.units;
        self.coalescing.set_kept(filled.first, geometry, true);
        filled
    }

    /// Takes out the program unit that waits longest in the buffer, where all of them hold more than they may, or
    /// `is_wanted`. Returns what it is, its number, and when its data is there.
    pub(super) fn take_kept(
        &mut self,
        geometry: &Geometry,
        is_wanted: bool,
    ) -> Option<(FilledProgram, u64, Instant)> {
        let kept = &mut self.coalescing;
        if !is_wanted && kept.units <= kept.most {
            return None;
        }
        let (filled, number) = kept.programs.pop_front()?;
        kept.units -= filled.units;
        kept.set_kept(filled.first, geometry, false);
        self.take_number(number);
        Some((filled, number, self.received_until))
    }

    #[inline(always)]
    pub(super) fn has_room(&self, units: u32) -> bool {
        self.used + units <= self.capacity
    }

    #[inline(always)]
    pub(super) fn push_waiting(&mut self, write: WaitingWrite) {
        self.waiting.push_back(write);
    }

    #[inline(always)]
    pub(super) fn first_waiting(&mut self) -> Option<&mut WaitingWrite> {
        self.waiting.front_mut()
    }

    pub(super) fn pop_waiting(&mut self) {
        self.waiting.pop_front();
    }

    /// Begins a program unit.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        blocks: &mut Blocks,
        geometry: &Geometry,
        units_per_block: u32,
    ) -> Option<BlockIndex> {
        let state = BlockState::OpenForHost;
        let opened = blocks.begin_program(&mut self.stream, geometry, state, units_per_block);
        self.note_begun(blocks, geometry);
        opened
    }

    /// Begins program unit `index` of `block`, which is open.
    pub(super) fn begin_in(
        &mut self,
        blocks: &Blocks,
        geometry: &Geometry,
        block: BlockIndex,
        index: u32,
    ) {
        self.stream.begin_program_in(geometry, block, index);
        self.note_begun(blocks, geometry);
    }

    #[inline(always)]
    fn note_begun(&mut self, blocks: &Blocks, geometry: &Geometry) {
        self.filling = self.log.begin();
        let first = self.stream.program_start();
        self.set_buffered(first, geometry, true);
        let block = geometry.block_of(first);
        self.under_way.push_back(HostProgram {
            first,
            block,
            after: blocks.erase_before(block, geometry.die_of(first)),
            index: 0,
            units: 0,
            data: 0,
            copies: 0,
            waits: 1,
            closes: false,
            number: SequenceNumber(0),
            is_sent: false,
            is_late: false,
        });
    }

    /// Exchanges the frontier being written with one that is put aside.
    pub(super) fn exchange(&mut self, other: &mut Frontier) {
        std::mem::swap(&mut self.stream, &mut other.stream);
        std::mem::swap(&mut self.filling, &mut other.filling);
    }

    /// Fills the blocks that it fills no further. No program unit is being filled.
    pub(super) fn give_up_blocks(&mut self) {
        self.stream.give_up_blocks();
    }

    /// Notes that what writes wait for since `since` besides room is there `now`; returns for how long they did,
    /// all together.
    pub(super) fn note_wait(&mut self, since: Instant, now: Instant) -> Nanoseconds {
        let mut waited = Nanoseconds::ZERO;
        for write in self.waiting.iter_mut().filter(|write| write.ready < now) {
            waited += now.since(write.ready.later(since));
            write.ready = now;
        }
        waited
    }

    /// The program unit that was just begun, or its block, is in SLC mode: it holds `units`, and the block
    /// so many program units.
    pub(super) fn shorten(&mut self, units: u32) {
        self.stream.shorten_program(units);
    }

    /// The block that was just begun takes `programs` program units only.
    pub(super) fn limit_block(&mut self, programs: u32) {
        self.stream.limit_block(programs);
    }

    /// The first place of the program unit being filled.
    pub(super) fn program_start(&self) -> PhysicalUnit {
        self.stream.program_start()
    }

    /// Makes `to` the stream being written.
    pub(super) fn write_to(&mut self, streams: &mut Streams, to: StreamId) {
        let from = streams.active();
        if from != to {
            streams.switch_host(&mut self.stream, to);
            self.filling_aside[usize::from(from.0)] = self.filling;
            self.filling = self.filling_aside[usize::from(to.0)];
        }
    }

    fn being_filled(&mut self) -> &mut HostProgram {
        let place = self.filling - self.log.low_water();
        &mut self.under_way[place as usize]
    }

    /// The program unit being filled waits for something more than its data.
    pub(super) fn await_more(&mut self) {
        let program = self.being_filled();
        program.waits += 1;
        let was_late = std::mem::replace(&mut program.is_late, true);
        self.late += u32::from(!was_late);
    }

    /// The program unit being filled waits for the read of `units` copies, which have their places in it. They
    /// take slots of the buffer, also where it has none left: then the host waits for more of them.
    pub(super) fn await_copies(&mut self, units: u32) {
        self.await_more();
        self.used += units;
        let program = self.being_filled();
        program.data += units;
        program.copies += units;
    }

    /// Copies by collection in program unit `number`.
    #[inline(always)]
    pub(super) fn copies_in(&self, number: u64) -> u32 {
        self.under_way[(number - self.log.low_water()) as usize].copies
    }

    /// Notes that data for a unit that has its slot is there at `received`.
    pub(super) fn note_received(&mut self, received: Instant) {
        self.received_until = self.received_until.later(received);
    }

    /// Returns true if `unit` was appended last to the program unit being filled.
    pub(super) fn is_latest(&self, unit: PhysicalUnit) -> bool {
        self.stream.holds(unit) && self.stream.is_latest(unit)
    }

    /// Returns true if a program unit of `block` waits in the buffer.
    pub(super) fn keeps_any_of(&self, block: BlockIndex) -> bool {
        self.coalescing.programs.iter().any(|(filled, _)| filled.block == block)
    }

    /// Returns true if a program unit with a number before `end` waits in the buffer.
    pub(super) fn keeps_any_before(&self, end: u64) -> bool {
        self.coalescing.programs.iter().any(|&(_, number)| number < end)
    }

    /// Takes slots of the buffer for data of the program unit being filled that is there at `received`.
    #[inline(always)]
    pub(super) fn let_in(&mut self, units: u32, received: Instant) {
        self.used += units;
        self.received_until = self.received_until.later(received);
        self.being_filled().data += units;
    }

    /// The next place of the program unit being filled.
    #[inline(always)]
    pub(super) fn append(&mut self) -> PhysicalUnit {
        self.stream.append()
    }

    /// The program unit being filled is full, or padded: returns what it is, its number, and when its data is
    /// there.
    #[inline(always)]
    pub(super) fn seal(&mut self, geometry: &Geometry) -> (FilledProgram, u64, Instant) {
        let filled = self.fill(geometry);
        self.take_number(self.filling);
        (filled, self.filling, self.received_until)
    }

    /// Notes that the program unit being filled is full; returns what it is.
    #[inline(always)]
    fn fill(&mut self, geometry: &Geometry) -> FilledProgram {
        let filled = self.stream.finish_program(geometry);
        let program = self.being_filled();
        (program.index, program.units, program.closes) =
            (filled.index, filled.units, filled.closes);
        filled
    }

    /// Gives program unit `number`, which holds nothing from now on but what it holds, its number on the flash.
    #[inline(always)]
    fn take_number(&mut self, number: u64) {
        let sequence = self.next_number();
        let place = number - self.log.low_water();
        self.under_way[place as usize].number = sequence;
    }

    /// The numbers of program units that are not over, without one that was begun and holds nothing.
    #[inline(always)]
    pub(super) fn numbers(&self) -> std::ops::Range<u64> {
        let is_empty = self.stream.room() > 0 && !self.stream.is_partial();
        self.log.low_water()..self.log.next() - u64::from(is_empty)
    }

    /// Returns true if all program units of these numbers are over.
    pub(super) fn are_over(&self, numbers: std::ops::Range<u64>) -> bool {
        numbers.is_empty() || self.log.are_over(numbers.start..=numbers.end - 1)
    }

    /// The number of the program unit being filled, or of the one that was filled last.
    #[inline(always)]
    pub(super) fn latest(&self) -> u64 {
        self.filling
    }

    /// Something has arrived that program unit `number` waits for. Returns it when it is sent with that: nothing
    /// is missing, and its die was sent what it has to program to the block before.
    #[inline(always)]
    pub(super) fn arrived(&mut self, number: u64, geometry: &Geometry) -> Option<HostProgram> {
        let place = (number - self.log.low_water()) as usize;
        let program = &mut self.under_way[place];
        program.waits -= 1;
        if program.waits > 0 {
            return None;
        }
        if self.late > 0 && self.is_before_its_turn(place, geometry) {
            return None;
        }
        Some(self.send(place))
    }

    #[inline(always)]
    fn send(&mut self, place: usize) -> HostProgram {
        let program = &mut self.under_way[place];
        program.is_sent = true;
        if program.is_late {
            self.late -= 1;
        }
        *program
    }

    /// Returns true if a die has to program something else to its block before a program unit. That is late then.
    #[inline(never)]
    fn is_before_its_turn(&mut self, place: usize, geometry: &Geometry) -> bool {
        let HostProgram { first, block, index, .. } = self.under_way[place];
        if index < geometry.stripe() {
            return false;
        }
        let row = geometry.stripe() * geometry.units_per_program();
        // Of several lives of the block it is the latest.
        let is_first = |it: &&HostProgram| it.block == block && it.first.0 + row == first.0;
        let usual = place.checked_sub(geometry.dies() as usize).map(|it| &self.under_way[it]);
        let before = usual
            .filter(is_first)
            .or_else(|| self.under_way.iter().take(place).rev().find(is_first));
        let waits = before.is_some_and(|it| !it.is_sent);
        if waits {
            let was_late = std::mem::replace(&mut self.under_way[place].is_late, true);
            self.late += u32::from(!was_late);
        }
        waits
    }

    /// The program unit that could not be sent before program unit `number` was, which is `program` and sent now.
    #[inline(always)]
    pub(super) fn next_in_turn(
        &mut self,
        number: u64,
        program: &HostProgram,
        geometry: &Geometry,
    ) -> Option<(u64, HostProgram)> {
        if self.late == 0 {
            return None;
        }
        self.next_behind(number, program, geometry)
    }

    #[inline(never)]
    fn next_behind(
        &mut self,
        number: u64,
        program: &HostProgram,
        geometry: &Geometry,
    ) -> Option<(u64, HostProgram)> {
        let low = self.log.low_water();
        let row = geometry.stripe() * geometry.units_per_program();
        let behind = program.first.0 + row;
        if geometry.block_of(PhysicalUnit(behind)) != program.block {
            return None;
        }
        // The block may be written again already: what comes then is not behind this one.
        let after = (number - low) as usize + 1;
        let usual = after - 1 + geometry.dies() as usize;
        let is_usual = self
            .under_way
            .get(usual)
            .is_some_and(|it| it.block == program.block && it.first.0 == behind);
        let after = if is_usual { usual } else { after };
        let mut later = self.under_way.iter().enumerate().skip(after);
        let is_either = |it: &HostProgram| {
            it.block == program.block && (it.first == program.first || it.first.0 == behind)
        };
        let (place, next) = later.find(|(_, it)| is_either(it))?;
        let is_ready = next.first.0 == behind && next.waits == 0 && !next.is_sent;
        is_ready.then(|| (low + place as u64, self.send(place)))
    }

    /// Program unit `number` is over: its data leaves the buffer. Returns where it starts, and the block
    /// that is full and programmed with it.
    #[inline(always)]
    pub(super) fn end(
        &mut self,
        number: u64,
        geometry: &Geometry,
    ) -> (PhysicalUnit, Option<BlockIndex>) {
        let low = self.log.low_water();
        let HostProgram { first, block, data, closes, .. } =
            self.under_way[(number - low) as usize];
        self.set_buffered(first, geometry, false);
        self.used -= data;
        self.log.end(number);
        for _ in low..self.log.low_water() {
            self.under_way.pop_front();
        }
        (first, closes.then_some(block))
    }

    /// Returns where program unit `number` starts, which is under way.
    pub(super) fn first_of(&self, number: u64) -> PhysicalUnit {
        self.under_way[(number - self.log.low_water()) as usize].first
    }

    /// The number after that of the last program unit of `block` that is not over; zero if there is none.
    pub(super) fn end_of_block(&self, block: BlockIndex) -> u64 {
        let place = self.under_way.iter().rposition(|program| program.block == block);
        place.map_or(0, |place| self.log.low_water() + place as u64 + 1)
    }

    /// Returns true if those of `block` before number `end` are over.
    #[inline(always)]
    pub(super) fn are_over_in(&self, block: BlockIndex, end: u64) -> bool {
        let low = self.log.low_water();
        if low >= end {
            return true;
        }
        let mut before = (low..end).zip(&self.under_way);
        before.all(|(number, it)| it.block != block || self.log.are_over(number..=number))
    }

    /// Returns true if nothing more is added to program unit `number`, which is not over.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        self.under_way[(number - self.log.low_water()) as usize].number.0 > 0
    }

    /// The smallest number of the program units that are full and not known to be over.
    pub(super) fn oldest_full(&self) -> Option<SequenceNumber> {
        let numbers = self.under_way.iter().map(|program| program.number);
        numbers.filter(|number| number.0 > 0).min()
    }

    /// Notes whether the data of the program unit with `unit` is in RAM.
    #[inline(always)]
    pub(super) fn set_buffered(&mut self, unit: PhysicalUnit, geometry: &Geometry, is_there: bool) {
        let program = geometry.program_of(unit) as usize;
        let (word, bit) = (&mut self.buffered[program / 64], 1 << (program % 64));
        *word = if is_there { *word | bit } else { *word & !bit };
    }

    /// Returns true if the data of `unit` is in the buffer.
    #[inline(always)]
    pub(super) fn is_buffered(&self, unit: PhysicalUnit, geometry: &Geometry) -> bool {
        let program = geometry.program_of(unit) as usize;
        self.buffered[program / 64] >> (program % 64) & 1 != 0
    }

    pub(super) fn stream(&self) -> &WriteStream {
        &self.stream
    }

    /// The write frontier of a drive that is restored, recovered or preconditioned.
    pub(super) fn stream_mut(&mut self) -> &mut WriteStream {
        &mut self.stream
    }

    /// Forgets where it writes to, once nothing is under way.
    pub(super) fn begin_anew(&mut self, geometry: &Geometry) {
        assert!(self.numbers().is_empty(), "nothing is under way");
        self.stream = WriteStream::new(geometry);
    }

    /// The number of the latest program unit or trim.
    pub(super) fn latest_number(&self) -> SequenceNumber {
        self.sequence
    }

    /// Has numbers follow `latest`.
    pub(super) fn go_on_from(&mut self, latest: SequenceNumber) {
        self.sequence = latest;
    }

    /// Writes the state of a drive that was shut down. The latest number is saved elsewhere.
    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Placement {
            // From the configuration.
            capacity: _,
            is_protected: _,
            // Nothing, of a drive that was shut down.
            filling: _,
            filling_aside: _,
            log,
            under_way: _,
            buffered: _,
            used,
            waiting,
            received_until: _,
            coalescing,
            // Saved elsewhere.
            sequence: _,
            late: _,
            stream,
        } = self;
        let is_over = log.low_water() == log.next()
            && *used == 0
            && waiting.is_empty()
            && coalescing.programs.is_empty();
        assert!(is_over, "the drive was shut down");
        stream.save(to)
    }

    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
    ) -> Result<(), SnapshotError> {
        self.stream.restore(from, geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;

    /// A block may be emptied, and written again, while its first program unit waits for the rest of a unit that
    /// was written in part.
    #[test]
    fn a_die_programs_a_block_in_order_also_where_it_is_written_again_meanwhile() {
        let configuration = small_configuration(&[]);
        let geometry = &configuration.geometry;
        let blocks = Blocks::new(&configuration);
        let mut placement = Placement::new(&configuration);
        let mut fill = |index, is_late: bool| {
            placement.begin_in(&blocks, geometry, BlockIndex(0), index);
            if is_late {
                placement.await_more();
            }
            while placement.room() > 0 {
                placement.append();
            }
            placement.seal(geometry).1
        };
        let first = fill(0, true);
        let behind = fill(geometry.stripe(), false);
        let again = fill(0, false);
        assert!(placement.arrived(first, geometry).is_none(), "it waits for more");
        assert!(placement.arrived(behind, geometry).is_none(), "it waits for the first");
        let sent = placement.arrived(again, geometry).expect("its erase sees to the order");
        assert!(placement.next_in_turn(again, &sent, geometry).is_none());
        let sent = placement.arrived(first, geometry).expect("nothing is missing");
        let next = placement.next_in_turn(first, &sent, geometry).map(|it| it.0);
        assert_eq!(next, Some(behind));
    }
}
