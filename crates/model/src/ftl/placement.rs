//! Placement of host writes: the write frontier, the program units in flight, and the write buffer.

use std::collections::VecDeque;

use ssdlab_nand::{EraseId, ProgramLog};

use super::host::RequestTag;
use crate::block_table::BlockState;
use crate::geometry::Geometry;
use crate::media::SequenceNumber;
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::ssd::Configuration;
use crate::streams::{STREAMS_MAX, StreamId, Streams};
use crate::units::{BlockIndex, Instant, Nanoseconds, PhysicalUnit};
use crate::write_frontier::{FilledProgram, WriteFrontier};

use super::blocks::Blocks;

/// A program unit of host data that is being filled or on its way to the flash.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostProgram {
    pub(super) first: PhysicalUnit,
    pub(super) block: BlockIndex,
    /// Index of the program unit in the write order of its block.
    pub(super) index: u32,
    /// Number of units that cross the channel, once the program unit is full.
    pub(super) units: u32,
    /// Write buffer slots that the program unit holds. `copies` of these slots hold gc copies.
    data: u32,
    copies: u32,
    /// Number of events that must happen before the program unit is sent: one when it is full and all its data
    /// has been received, one for each read that fills it (read-modify-write, copies), and one if the reserve
    /// holds it back until an erase is issued.
    waits: u32,
    closes: bool,
    /// Erase of the block that was pending when the program unit was begun; the program waits for that erase.
    /// Erases of the block that are announced later come after the program.
    pub(super) after: Option<EraseId>,
    pub(super) number: SequenceNumber,
    /// The difference of its number to that of the program unit of the same block that was begun before it; 0 if that
    /// one was not in flight any more.
    back: u32,
    is_sent: bool,
    /// True if program units that its die must program after this one may become ready before it.
    is_late: bool,
}

impl HostProgram {
    /// Returns the number of units written by the host that took a buffer slot.
    pub(super) fn written(&self) -> u32 {
        self.data - self.copies
    }
}

/// The program units of one block that are in flight.
#[derive(Clone, Copy, Debug, Default)]
struct BlockInFlight {
    count: u32,
    /// The lower half of the number of the one that was begun last, if there is one.
    latest: u32,
}

/// A write whose data is not yet all in the write buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingWrite {
    pub(super) tag: RequestTag,
    pub(super) next: u32,
    pub(super) end: u32,
    /// True if the write covers units in part.
    pub(super) in_part: bool,
    /// Moment from which the write waits for nothing but free space in the buffer.
    pub(super) ready: Instant,
    /// Number of the program unit that took the first data of the write.
    pub(super) program: Option<u64>,
    /// Stream that the host named for the write; `None` if it named none.
    pub(super) hint: Option<StreamId>,
    /// The write is durable only once the pages of trim records before this number are programmed: a trim has
    /// discarded data of the write that was already in the buffer. 0 if there was no such trim.
    pub(super) trim_pages: u64,
}

/// An inactive write frontier.
#[derive(Clone, Debug)]
pub(super) struct InactiveFrontier {
    frontier: WriteFrontier,
    filling: u64,
}

impl InactiveFrontier {
    pub(super) fn new(geometry: &Geometry) -> InactiveFrontier {
        InactiveFrontier { frontier: WriteFrontier::new(geometry), filling: 0 }
    }

    /// Returns true if `unit` is in the program unit that the frontier is filling.
    pub(super) fn holds(&self, unit: PhysicalUnit) -> bool {
        self.frontier.holds(unit)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Placement {
    frontier: WriteFrontier,
    /// Number of the program unit being filled: `filling` for the active stream and group of dies,
    /// `filling_inactive` for each other one. Groups differ only with static allocation.
    filling: u64,
    filling_inactive: Vec<u64>,
    /// Completion of program units by number. `in_flight` holds those from the first incomplete one on.
    log: ProgramLog,
    in_flight: VecDeque<HostProgram>,
    /// The program units in `in_flight` by their block.
    in_flight_of: Vec<BlockInFlight>,
    /// Bitmap over the program units of the drive: a bit is set while the data is in the buffer.
    buffered: Vec<u64>,
    used: u32,
    capacity: u32,
    waiting: VecDeque<WaitingWrite>,
    /// Moment at which all data admitted so far has arrived in the buffer.
    received_until: Instant,
    /// True if capacitors protect the buffer (PLP).
    is_protected: bool,
    sequence: SequenceNumber,
    /// Number of program units that are late (`is_late`) and have not been sent.
    late: u32,
    coalescing: Coalescing,
}

/// Write coalescing: full program units that stay in a protected buffer, so that units which the host writes
/// again are replaced there.
#[derive(Clone, Debug, Default)]
struct Coalescing {
    /// Maximum number of units in `programs`.
    most: u32,
    units: u32,
    /// The program units with their numbers, oldest first.
    programs: VecDeque<(FilledProgram, u64)>,
    /// Bitmap over the program units of the drive: a bit is set while the program unit is in `programs`. Empty
    /// on a drive without coalescing.
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
        let frontier =
            WriteFrontier::new(geometry).with_allocation(configuration.mechanisms.allocation);
        let groups = if frontier.is_static() { geometry.groups() } else { 1 };
        Placement {
            frontier,
            filling: 0,
            filling_inactive: vec![0; (STREAMS_MAX * groups) as usize],
            log: ProgramLog::default(),
            in_flight: VecDeque::new(),
            in_flight_of: vec![BlockInFlight::default(); geometry.blocks() as usize],
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

    /// Returns true if a power cut loses the data in the buffer.
    pub(super) fn is_volatile(&self) -> bool {
        !self.is_protected
    }

    /// Takes the next sequence number, for a program unit or trim that was just finished, and returns it.
    #[inline(always)]
    pub(super) fn next_number(&mut self) -> SequenceNumber {
        self.sequence = self.sequence.next();
        self.sequence
    }

    /// Returns the number of units that are free in the program unit being filled; 0 if none is being filled.
    #[inline(always)]
    pub(super) fn free_units(&self) -> u32 {
        self.frontier.free_units()
    }

    /// Returns true if a program unit is being filled and holds something.
    #[inline(always)]
    pub(super) fn is_partial(&self) -> bool {
        self.frontier.is_partial()
    }

    /// Returns true if the next program unit needs a block from the pool.
    pub(super) fn needs_block(&self) -> bool {
        self.frontier.needs_block()
    }

    /// Returns true if `unit` is in the program unit being filled, or in a full one that is kept for
    /// coalescing.
    pub(super) fn holds_unsent(&self, unit: PhysicalUnit, geometry: &Geometry) -> bool {
        self.frontier.holds(unit) || self.coalescing.holds(unit, geometry)
    }

    /// Returns true if the drive coalesces writes: full program units stay in the buffer, and units that are
    /// written again are replaced there.
    #[inline(always)]
    pub(super) fn coalesces(&self) -> bool {
        self.coalescing.most > 0
    }

    /// Keeps the program unit being filled, which is full, in the buffer for coalescing. Returns the filled
    /// program unit.
    pub(super) fn keep_for_coalescing(&mut self, geometry: &Geometry) -> FilledProgram {
        let filled = self.fill(geometry);
        self.coalescing.programs.push_back((filled, self.filling));
        self.coalescing.units += filled.units;
        self.coalescing.set_kept(filled.first, geometry, true);
        filled
    }

    /// Takes out the program unit that was kept longest, if those kept hold more units than allowed or
    /// `is_wanted`. Returns the program unit, its number, and the moment at which its data is in the buffer.
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
    pub(super) fn has_buffer_space(&self, units: u32) -> bool {
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

    /// Begins a program unit. Returns the block that was opened for it, if one was.
    #[inline(always)]
    pub(super) fn begin(
        &mut self,
        blocks: &mut Blocks,
        geometry: &Geometry,
        units_per_block: u32,
    ) -> Option<BlockIndex> {
        let state = BlockState::OpenForHost;
        let opened = blocks.begin_program(&mut self.frontier, geometry, state, units_per_block);
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
        self.frontier.begin_program_in(geometry, block, index);
        self.note_begun(blocks, geometry);
    }

    #[inline(always)]
    fn note_begun(&mut self, blocks: &Blocks, geometry: &Geometry) {
        self.filling = self.log.begin();
        let first = self.frontier.program_start();
        self.set_buffered(first, geometry, true);
        let block = geometry.block_of(first);
        let number = self.filling as u32;
        let of_block = &mut self.in_flight_of[block.0 as usize];
        let back = if of_block.count > 0 { number.wrapping_sub(of_block.latest) } else { 0 };
        *of_block = BlockInFlight { count: of_block.count + 1, latest: number };
        self.in_flight.push_back(HostProgram {
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
            back,
            is_sent: false,
            is_late: false,
        });
    }

    /// Swaps the active frontier with an inactive one.
    pub(super) fn swap_frontier(&mut self, other: &mut InactiveFrontier) {
        std::mem::swap(&mut self.frontier, &mut other.frontier);
        std::mem::swap(&mut self.filling, &mut other.filling);
    }

    /// Stops filling the open blocks. No program unit is being filled.
    pub(super) fn give_up_blocks(&mut self) {
        self.frontier.give_up_blocks();
    }

    /// Ends a wait of the queued writes for something else than buffer space (a merge of log blocks), which
    /// began at `since`. Returns the sum of their waits until `now`.
    pub(super) fn note_wait(&mut self, since: Instant, now: Instant) -> Nanoseconds {
        let mut waited = Nanoseconds::ZERO;
        for write in self.waiting.iter_mut().filter(|write| write.ready < now) {
            waited += now.since(write.ready.later(since));
            write.ready = now;
        }
        waited
    }

    /// Limits the program unit that was just begun to `units` units, because its block is in SLC mode.
    pub(super) fn shorten(&mut self, units: u32) {
        self.frontier.shorten_program(units);
    }

    /// Limits the block that was just begun to `programs` program units.
    pub(super) fn limit_block(&mut self, programs: u32) {
        self.frontier.limit_block(programs);
    }

    /// Returns the first physical unit of the program unit being filled.
    pub(super) fn program_start(&self) -> PhysicalUnit {
        self.frontier.program_start()
    }

    /// Makes `to` the active stream.
    pub(super) fn write_to(&mut self, streams: &mut Streams, to: StreamId) {
        let from = streams.active();
        if from != to {
            self.note_filling(from);
            streams.switch_host(&mut self.frontier, to);
            self.filling = self.filling_inactive[self.place_of_filling(to)];
        }
    }

    /// Returns true if data is written to the group of dies that follows from its logical address.
    #[inline(always)]
    pub(super) fn is_static(&self) -> bool {
        self.frontier.is_static()
    }

    /// With static allocation: makes `group` the group of dies that the active stream, which is `stream`, is
    /// filling.
    pub(super) fn select_group(&mut self, stream: StreamId, group: u32) {
        if self.frontier.group() != group {
            self.note_filling(stream);
            self.frontier.select_group(group);
            self.filling = self.filling_inactive[self.place_of_filling(stream)];
        }
    }

    fn note_filling(&mut self, stream: StreamId) {
        let place = self.place_of_filling(stream);
        self.filling_inactive[place] = self.filling;
    }

    /// Returns the index in `filling_inactive` of `stream`, which is active, and its group of dies.
    fn place_of_filling(&self, stream: StreamId) -> usize {
        let group = if self.is_static() { self.frontier.group() } else { 0 };
        (group * STREAMS_MAX) as usize + usize::from(stream.0)
    }

    fn being_filled(&mut self) -> &mut HostProgram {
        let place = self.filling - self.log.low_water();
        &mut self.in_flight[place as usize]
    }

    /// Adds one event that the program unit being filled waits for, and marks the program unit as late.
    pub(super) fn await_more(&mut self) {
        let program = self.being_filled();
        program.waits += 1;
        let was_late = std::mem::replace(&mut program.is_late, true);
        self.late += u32::from(!was_late);
    }

    /// Has the program unit being filled wait for the read of `units` copies, which have their places in it.
    /// The copies take buffer slots even if no slot is free; the host's writes then wait until enough slots are
    /// free.
    pub(super) fn await_copies(&mut self, units: u32) {
        self.await_more();
        self.used += units;
        let program = self.being_filled();
        program.data += units;
        program.copies += units;
    }

    /// Returns the number of gc copies in program unit `number`.
    #[inline(always)]
    pub(super) fn copies_in(&self, number: u64) -> u32 {
        self.in_flight[(number - self.log.low_water()) as usize].copies
    }

    /// Notes that data for a unit that already has a buffer slot arrives at `received`.
    pub(super) fn note_received(&mut self, received: Instant) {
        self.received_until = self.received_until.later(received);
    }

    /// Returns true if `unit` was appended last to the program unit being filled.
    pub(super) fn is_latest(&self, unit: PhysicalUnit) -> bool {
        self.frontier.holds(unit) && self.frontier.is_latest(unit)
    }

    /// Returns true if a program unit of `block` is kept for coalescing.
    pub(super) fn keeps_any_of(&self, block: BlockIndex) -> bool {
        self.coalescing.programs.iter().any(|(filled, _)| filled.block == block)
    }

    /// Returns true if a program unit with a number before `end` is kept for coalescing.
    pub(super) fn keeps_any_before(&self, end: u64) -> bool {
        self.coalescing.programs.iter().any(|&(_, number)| number < end)
    }

    /// Takes `units` buffer slots for data of the program unit being filled. The data arrives at `received`.
    #[inline(always)]
    pub(super) fn admit(&mut self, units: u32, received: Instant) {
        self.used += units;
        self.received_until = self.received_until.later(received);
        self.being_filled().data += units;
    }

    /// Takes the next place in the program unit being filled, and returns it.
    #[inline(always)]
    pub(super) fn append(&mut self) -> PhysicalUnit {
        self.frontier.append()
    }

    /// Seals the program unit being filled, which is full or padded. Returns the filled program unit, its
    /// number, and the moment at which its data is in the buffer.
    #[inline(always)]
    pub(super) fn seal(&mut self, geometry: &Geometry) -> (FilledProgram, u64, Instant) {
        let filled = self.fill(geometry);
        self.take_number(self.filling);
        (filled, self.filling, self.received_until)
    }

    /// Notes that the program unit being filled is full, and returns it.
    #[inline(always)]
    fn fill(&mut self, geometry: &Geometry) -> FilledProgram {
        let filled = self.frontier.finish_program(geometry);
        let program = self.being_filled();
        (program.index, program.units, program.closes) =
            (filled.index, filled.units, filled.closes);
        filled
    }

    /// Gives program unit `number`, whose contents are final, its sequence number.
    #[inline(always)]
    fn take_number(&mut self, number: u64) {
        let sequence = self.next_number();
        let place = number - self.log.low_water();
        self.in_flight[place as usize].number = sequence;
    }

    /// Returns the range of numbers from the first incomplete program unit on, without the last one if it is
    /// still empty.
    #[inline(always)]
    pub(super) fn numbers_in_flight(&self) -> std::ops::Range<u64> {
        let is_empty = self.frontier.free_units() > 0 && !self.frontier.is_partial();
        self.log.low_water()..self.log.next() - u64::from(is_empty)
    }

    /// Returns true if all program units with these numbers have completed.
    pub(super) fn are_complete(&self, numbers: std::ops::Range<u64>) -> bool {
        numbers.is_empty() || self.log.are_complete(numbers.start..=numbers.end - 1)
    }

    /// Returns the number of the program unit being filled, or of the one that was filled last.
    #[inline(always)]
    pub(super) fn latest(&self) -> u64 {
        self.filling
    }

    /// Notes one of the events that program unit `number` waits for. Returns the program unit if it is sent
    /// now: nothing is missing, and its die has been sent all that it must program to the block before.
    #[inline(always)]
    pub(super) fn arrived(&mut self, number: u64, geometry: &Geometry) -> Option<HostProgram> {
        let place = (number - self.log.low_water()) as usize;
        let program = &mut self.in_flight[place];
        program.waits -= 1;
        if program.waits > 0 {
            return None;
        }
        if self.late > 0 && self.must_wait_for_die(place, geometry) {
            return None;
        }
        Some(self.send(place))
    }

    #[inline(always)]
    fn send(&mut self, place: usize) -> HostProgram {
        let program = &mut self.in_flight[place];
        program.is_sent = true;
        if program.is_late {
            self.late -= 1;
        }
        *program
    }

    /// Returns true if the die must first program an earlier program unit of the same block that has not been
    /// sent. The program unit at `place` is then marked as late.
    #[inline(never)]
    fn must_wait_for_die(&mut self, place: usize, geometry: &Geometry) -> bool {
        let HostProgram { first, block, index, .. } = self.in_flight[place];
        if index < geometry.stripe() {
            return false;
        }
        let row = geometry.stripe() * geometry.units_per_program();
        // If the block is in flight more than once (erased and written again), the latest earlier program unit
        // counts.
        let is_first = |it: &usize| {
            let it = &self.in_flight[*it];
            it.block == block && it.first.0 + row == first.0
        };
        let usual = place.checked_sub(geometry.dies() as usize);
        let before = usual.filter(is_first).or_else(|| self.before_in_block(place).find(is_first));
        let waits = before.is_some_and(|it| !self.in_flight[it].is_sent);
        if waits {
            let was_late = std::mem::replace(&mut self.in_flight[place].is_late, true);
            self.late += u32::from(!was_late);
        }
        waits
    }

    /// Returns the places of the program units of the same block that were begun before that at `place`, latest first.
    fn before_in_block(&self, place: usize) -> impl Iterator<Item = usize> {
        let before = |&place: &usize| {
            let back = self.in_flight[place].back as usize;
            place.checked_sub(back).filter(|_| back > 0)
        };
        std::iter::successors(before(&place), before)
    }

    /// Returns the place of the program unit of `block` that was begun last, if it is in flight.
    fn latest_in_block(&self, block: BlockIndex) -> Option<usize> {
        let BlockInFlight { count, latest } = self.in_flight_of[block.0 as usize];
        (count > 0).then(|| latest.wrapping_sub(self.log.low_water() as u32) as usize)
    }

    /// Returns the program unit that had to wait until program unit `number` (`program`, just sent) was sent,
    /// and marks it as sent; `None` if there is none or it is not ready.
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
        // The block may already be written again after an erase: those program units do not follow this one.
        let place = (number - low) as usize;
        let usual = place + geometry.dies() as usize;
        let is_usual = self
            .in_flight
            .get(usual)
            .is_some_and(|it| it.block == program.block && it.first.0 == behind);
        let place = if is_usual {
            usual
        } else {
            let latest = self.latest_in_block(program.block)?;
            let of_block = std::iter::once(latest).chain(self.before_in_block(latest));
            let later = of_block.take_while(|&it| it > place);
            let is_either = |it: &usize| {
                let first = self.in_flight[*it].first;
                first == program.first || first.0 == behind
            };
            later.filter(is_either).last()?
        };
        let next = &self.in_flight[place];
        let is_ready = next.first.0 == behind && next.waits == 0 && !next.is_sent;
        is_ready.then(|| (low + place as u64, self.send(place)))
    }

    /// Ends program unit `number`: its data leaves the buffer. Returns its first unit, and its block if it was
    /// the last program unit of the block.
    #[inline(always)]
    pub(super) fn end(
        &mut self,
        number: u64,
        geometry: &Geometry,
    ) -> (PhysicalUnit, Option<BlockIndex>) {
        let low = self.log.low_water();
        let HostProgram { first, block, data, closes, .. } =
            self.in_flight[(number - low) as usize];
        self.set_buffered(first, geometry, false);
        self.used -= data;
        self.log.end(number);
        for _ in low..self.log.low_water() {
            let ended = self.in_flight.pop_front().expect("a program unit for each number");
            self.in_flight_of[ended.block.0 as usize].count -= 1;
        }
        (first, closes.then_some(block))
    }

    /// Returns the first unit of program unit `number`, which is in flight.
    pub(super) fn first_of(&self, number: u64) -> PhysicalUnit {
        self.in_flight[(number - self.log.low_water()) as usize].first
    }

    /// Returns the number after that of the last program unit of `block` that is in flight; 0 if there is none.
    pub(super) fn end_of_block(&self, block: BlockIndex) -> u64 {
        let place = self.latest_in_block(block);
        place.map_or(0, |place| self.log.low_water() + place as u64 + 1)
    }

    /// Returns true if all program units of `block` with numbers before `end` have completed.
    #[inline(always)]
    pub(super) fn are_complete_in(&self, block: BlockIndex, end: u64) -> bool {
        let low = self.log.low_water();
        if low >= end {
            return true;
        }
        let mut before = (low..end).zip(&self.in_flight);
        before.all(|(number, it)| it.block != block || self.log.are_complete(number..=number))
    }

    /// Returns true if the contents of program unit `number`, which has not completed, are final.
    pub(super) fn is_final(&self, number: u64) -> bool {
        self.in_flight[(number - self.log.low_water()) as usize].number.0 > 0
    }

    /// Returns the smallest sequence number of the full program units from the first incomplete one on; `None`
    /// if there is none.
    pub(super) fn oldest_full(&self) -> Option<SequenceNumber> {
        let numbers = self.in_flight.iter().map(|program| program.number);
        numbers.filter(|number| number.0 > 0).min()
    }

    /// Records whether the data of the program unit that holds `unit` is in RAM.
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

    pub(super) fn frontier(&self) -> &WriteFrontier {
        &self.frontier
    }

    /// Returns the write frontier for changes, while a drive is restored, recovered or preconditioned.
    pub(super) fn frontier_mut(&mut self) -> &mut WriteFrontier {
        &mut self.frontier
    }

    /// Forgets the open blocks.
    ///
    /// # Panics
    /// Panics if a program unit is in flight.
    pub(super) fn reset(&mut self, geometry: &Geometry) {
        assert!(self.numbers_in_flight().is_empty(), "nothing is under way");
        self.frontier = self.frontier.empty_like(geometry);
    }

    /// Returns the sequence number of the latest program unit or trim.
    pub(super) fn latest_number(&self) -> SequenceNumber {
        self.sequence
    }

    /// Continues sequence numbers after `latest`.
    pub(super) fn continue_from(&mut self, latest: SequenceNumber) {
        self.sequence = latest;
    }

    /// Writes the state of a drive that was shut down. The latest sequence number is saved elsewhere.
    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let Placement {
            // From the configuration.
            capacity: _,
            is_protected: _,
            // Unused after a shutdown.
            filling: _,
            filling_inactive: _,
            log,
            in_flight: _,
            in_flight_of: _,
            buffered: _,
            used,
            waiting,
            received_until: _,
            coalescing,
            // Saved elsewhere.
            sequence: _,
            late: _,
            frontier,
        } = self;
        let is_over = log.low_water() == log.next()
            && *used == 0
            && waiting.is_empty()
            && coalescing.programs.is_empty();
        assert!(is_over, "the drive was shut down");
        frontier.save(to)
    }

    pub(super) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        geometry: &Geometry,
    ) -> Result<(), SnapshotError> {
        self.frontier.restore(from, geometry)
    }
}

#[cfg(test)]
mod tests;
