//! Block mapping with log blocks (FAST): placement of host writes.
//!
//! Each logical block (as many units as a collection unit) has at most one data block, in which every unit lies
//! at its own offset. Writes never go to a data block. A write that begins a logical block at its first unit
//! opens the sequential log block, and writes that continue it follow there. All other writes are appended to
//! random log blocks, of which there are `mapping.log_blocks`, mapped by unit. Merges of log blocks (`merges`)
//! take the place of garbage collection; writes wait for merges, and that is how such drives stall.
//!
//! Lee, Park, Chung, Lee, Park, Song: A log buffer-based flash translation layer using fully-associative sector
//! translation, ACM Transactions on Embedded Computing Systems 6(3), 2007. The places of units are kept in the
//! drive's map, which says the same as the block map and the tables of the log blocks; this file has only the
//! rules of placement.

mod merges;
mod recovered;
mod saved;
mod space;

pub(crate) use space::check_space_for_log;

use std::collections::VecDeque;

use ssdlab_nand::{Nand, ProgramLog};

use super::host::Command;
use super::placement::{InactiveFrontier, WaitingWrite};
use super::{Context, Ftl};
use crate::block_table::BlockState;
use crate::geometry::Geometry;
use crate::mapping::{Mapping, MappingScheme};
use crate::media::Media;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, Instant, LogicalUnit, PhysicalUnit, SectorCount};

use merges::Merges;

/// The write frontiers of a drive with log blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogFrontier {
    /// The random log block that is being filled.
    Log,
    /// The sequential log block, also while it is merged.
    Sequence,
    /// The block that a full merge writes.
    Merged,
}

/// The sequential log block.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    logical_block: u32,
    block: BlockIndex,
    /// Offset of the unit that continues the sequence.
    next: u32,
}

/// The random log block that is being filled.
#[derive(Clone, Copy, Debug)]
struct OpenLog {
    block: BlockIndex,
    programs: u32,
}

/// A block without valid units whose erase has not been issued.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    block: BlockIndex,
    /// The erase waits for the program units that were sealed before this number.
    sealed: u64,
    /// The erase waits for the pages of trim records before this number.
    trims: u64,
}

/// A program unit that is sealed and has not completed.
#[derive(Clone, Copy, Debug)]
struct Sealed {
    /// Number of the program unit in placement, and (`place`) in the order of sealing.
    number: u64,
    place: u64,
    /// True if a merge waits for the program unit.
    is_of_merge: bool,
}

/// The block map and the log blocks.
#[derive(Clone, Debug)]
pub(super) struct LogBlocks {
    /// The data block of each logical block.
    data: Vec<Option<BlockIndex>>,
    /// Random log blocks, the oldest first.
    logs: VecDeque<BlockIndex>,
    logs_max: u32,
    open_log: Option<OpenLog>,
    sequence: Option<Sequence>,
    merges: Merges,
    /// Active frontier, which placement holds. The others are in `inactive`, where the entry of the active one is
    /// unused.
    active: LogFrontier,
    inactive: [InactiveFrontier; 3],
    /// Completion of program units in the order in which they were sealed. Placement numbers them in the order
    /// in which they were begun, and one that is not full, such as that of the sequence, may stay so for long.
    order: ProgramLog,
    sealed: Vec<Sealed>,
    replaced: VecDeque<Replaced>,
    /// The group of dies that the latest block was taken from.
    group: u32,
    /// Moment from which writes wait for a merge or an erased block; `None` if none waits.
    waits_since: Option<Instant>,
    /// True while merges free blocks after a power cut.
    is_recovering: bool,
}

impl LogBlocks {
    /// Returns the log blocks of a new drive; `None` if the drive has another mapping scheme.
    pub(super) fn new(configuration: &Configuration) -> Option<Box<LogBlocks>> {
        let Configuration { geometry, mechanisms, .. } = configuration;
        (mechanisms.mapping == MappingScheme::LogBlock).then(|| {
            let logical_blocks = geometry.logical_units().div_ceil(geometry.units_per_block());
            Box::new(LogBlocks {
                data: vec![None; logical_blocks as usize],
                logs: VecDeque::new(),
                logs_max: mechanisms.log_blocks,
                open_log: None,
                sequence: None,
                merges: Merges::default(),
                active: LogFrontier::Log,
                inactive: std::array::from_fn(|_| InactiveFrontier::new(geometry)),
                order: ProgramLog::default(),
                sealed: Vec::new(),
                replaced: VecDeque::new(),
                group: geometry.groups() - 1,
                waits_since: None,
                is_recovering: false,
            })
        })
    }

    /// Forgets all blocks: each is erased.
    pub(super) fn reset(&mut self) {
        assert!(self.is_idle() && self.active == LogFrontier::Log, "the drive was shut down");
        self.data.fill(None);
        self.logs.clear();
        self.open_log = None;
    }

    /// Returns true if `unit` lies in the program unit being filled of an inactive frontier.
    pub(super) fn is_in_inactive(&self, unit: PhysicalUnit) -> bool {
        self.inactive.iter().any(|frontier| frontier.holds(unit))
    }

    /// Returns true if no merge is in flight and no replaced block waits for its erase.
    pub(super) fn is_idle(&self) -> bool {
        !self.merges.are_in_flight() && self.replaced.is_empty()
    }

    /// Notes that the program unit being filled, number `number`, is sealed; `closes` says that its block is full.
    pub(super) fn note_sealed(&mut self, number: u64, closes: bool) {
        let is_of_merge = self.merges.note_sealed(self.active);
        let place = self.order.begin();
        self.sealed.push(Sealed { number, place, is_of_merge });
        if self.active == LogFrontier::Log {
            let open = self.open_log.as_mut().expect("its block is open");
            open.programs += 1;
            if closes {
                self.open_log = None;
            }
        }
    }

    /// Notes that program unit `number` has completed.
    fn note_programmed(&mut self, number: u64) {
        let index = self.sealed.iter().position(|it| it.number == number);
        let sealed = self.sealed.swap_remove(index.expect("it was sealed"));
        self.order.end(sealed.place);
        if sealed.is_of_merge {
            self.merges.note_programmed();
        }
    }

    /// Checks the invariants between requests.
    ///
    /// # Panics
    /// Panics with a description if an invariant does not hold.
    pub(super) fn check_invariants(
        &self,
        geometry: &Geometry,
        logical_at: impl Fn(PhysicalUnit) -> Option<LogicalUnit>,
        free: u32,
    ) {
        assert!(self.logs.len() as u32 <= self.logs_max, "no more log blocks than there are");
        let per_block = geometry.units_per_block();
        for (logical, block) in (0..).zip(&self.data) {
            let Some(block) = *block else { continue };
            let first = geometry.first_unit(block).0;
            for offset in 0..per_block {
                let held = logical_at(PhysicalUnit(first + offset));
                let own = LogicalUnit(logical * per_block + offset);
                assert!(
                    held.is_none_or(|held| held == own),
                    "a data block holds each unit at its own offset"
                );
            }
        }
        let used = self.data.iter().flatten().count()
            + self.logs.len()
            + usize::from(self.sequence.is_some())
            + self.replaced.len();
        assert_eq!(used as u32 + free, geometry.blocks(), "no block is lost");
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    #[inline(always)]
    fn log(&mut self) -> &mut LogBlocks {
        self.log_blocks.as_mut().expect("the drive has log blocks")
    }

    /// Makes the frontier active that up to `units` units from `first` go to, with room in its program unit.
    /// Returns the number of units that go there; `None` if they wait for a merge, an erased block, or space in
    /// the buffer.
    fn choose_frontier(
        &mut self,
        context: &mut Context<'_>,
        first: LogicalUnit,
        units: u32,
    ) -> Option<u32> {
        let per_block = self.geometry.units_per_block();
        let (logical, offset) = (first.0 / per_block, first.0 % per_block);
        let sequence = self.log().sequence;
        let continues = sequence.is_some_and(|it| it.logical_block == logical && it.next == offset);
        let is_sequential = offset == 0 || continues;
        let ends_sequence = match sequence {
            _ if self.log().merges.are_in_flight() => false,
            Some(_) if is_sequential => !continues,
            Some(sequence) => sequence.logical_block == logical,
            None => false,
        };
        if ends_sequence {
            self.end_sequence(context);
        }
        if self.log().merges.are_in_flight() {
            return self.wait_for_merge(context.nand);
        }
        self.write_to(if is_sequential { LogFrontier::Sequence } else { LogFrontier::Log });
        let count = units.min(per_block - offset);
        if self.placement.free_units() > 0 {
            self.note_wait_for_merge(context.nand.now());
            return Some(count);
        }
        if self.placement.is_partial() {
            // The program unit was held back for the rest of its last unit, which comes too late.
            self.seal_host_program(context);
        }
        let (block, program) = match is_sequential {
            true => self.place_in_sequence(context, logical, offset)?,
            false => self.place_in_log(context)?,
        };
        // A program unit is begun only if the buffer has space for its data, so that nothing waits for an empty
        // one.
        if !self.placement.has_buffer_space(count.min(self.geometry.units_per_program())) {
            return None;
        }
        self.placement.begin_in(&self.blocks, &self.geometry, block, program);
        self.note_wait_for_merge(context.nand.now());
        Some(count)
    }

    fn place_in_sequence(
        &mut self,
        context: &mut Context<'_>,
        logical_block: u32,
        offset: u32,
    ) -> Option<(BlockIndex, u32)> {
        let block = match self.log().sequence {
            Some(sequence) => sequence.block,
            None => {
                let block = self.take_block_or_wait(context.nand)?;
                self.log().sequence = Some(Sequence { logical_block, block, next: 0 });
                block
            }
        };
        Some((block, offset / self.geometry.units_per_program()))
    }

    fn place_in_log(&mut self, context: &mut Context<'_>) -> Option<(BlockIndex, u32)> {
        if self.log().open_log.is_none() {
            if self.log().logs.len() as u32 == self.log().logs_max {
                self.reclaim_oldest_log(context);
                if self.log().merges.are_in_flight() {
                    return self.wait_for_merge(context.nand);
                }
                self.write_to(LogFrontier::Log);
            }
            let block = self.take_block_or_wait(context.nand)?;
            self.log().logs.push_back(block);
            self.log().open_log = Some(OpenLog { block, programs: 0 });
        }
        self.log().open_log.map(|open| (open.block, open.programs))
    }

    /// Admits the next units of a write to the buffer, up to one program unit. Returns their number, and the
    /// moment at which their data is there; `None` if the write has to wait.
    pub(super) fn admit_by_log(
        &mut self,
        context: &mut Context<'_>,
        waiting: &WaitingWrite,
    ) -> Option<(u32, Instant)> {
        let first = LogicalUnit(waiting.next);
        let (until, part) = self.next_part_of(waiting);
        if part.is_some() && self.switch_to_unsent(first) {
            return self.admit_part_by_log(context, first, part?);
        }
        let count = self.choose_frontier(context, first, until - first.0)?;
        if let Some(part) = part {
            return self.admit_part_by_log(context, first, part);
        }
        let ready = self.placement.first_waiting().map_or(waiting.ready, |it| it.ready);
        let admitted = self.admit_whole(context, first.0..first.0 + count, ready)?;
        if waiting.in_part {
            self.counters.host_write_units += u64::from(admitted.0);
        }
        self.note_placed(context, first, admitted.0);
        Some(admitted)
    }

    /// Returns the end of the units that a write covers next as a whole; or, of a unit that it covers in part,
    /// the end of that unit and the part.
    fn next_part_of(&self, waiting: &WaitingWrite) -> (u32, Option<(SectorCount, bool)>) {
        let &WaitingWrite { tag, next, end, in_part, .. } = waiting;
        let Command::WriteSectors { first, count, .. } = self.requests.get(tag).command else {
            return (end, None);
        };
        debug_assert!(in_part, "it is given in sectors");
        let parts = self.requests.parts(first, count);
        match parts.whole_until(next) {
            until if until > next => (until, None),
            _ => (next + 1, Some(parts.of_unit(next, self.geometry.sectors_per_unit_shift()))),
        }
    }

    /// Makes the frontier active that holds `unit` in a program unit which is not sealed. Returns false if
    /// there is none, or a merge is in flight.
    fn switch_to_unsent(&mut self, unit: LogicalUnit) -> bool {
        let Some(at) = self.map.get(unit).filter(|_| !self.log().merges.are_in_flight()) else {
            return false;
        };
        for frontier in [LogFrontier::Log, LogFrontier::Sequence] {
            let log = self.log();
            let is_there = match log.active == frontier {
                true => self.placement.holds_unsent(at, &self.geometry),
                false => log.inactive[frontier as usize].holds(at),
            };
            if is_there {
                self.write_to(frontier);
                return true;
            }
        }
        false
    }

    fn admit_part_by_log(
        &mut self,
        context: &mut Context<'_>,
        unit: LogicalUnit,
        part: (SectorCount, bool),
    ) -> Option<(u32, Instant)> {
        let received = self.admit_part(context, unit, part)?;
        self.note_placed(context, unit, 1);
        Some((1, received))
    }

    /// Notes that `count` units from `first` have their places. A sequence is over when its last program unit
    /// is sealed. As long as the last unit is written in part only, that program unit is held back for the
    /// rest.
    fn note_placed(&mut self, context: &mut Context<'_>, first: LogicalUnit, count: u32) {
        if self.log().active != LogFrontier::Sequence {
            return;
        }
        let per_block = self.geometry.units_per_block();
        let (logical, offset) = (first.0 / per_block, first.0 % per_block);
        let units = self.units_of_logical_block(logical);
        let sequence = self.log().sequence.as_mut().expect("it is written");
        // A unit that is changed in RAM has its place already.
        sequence.next = sequence.next.max(offset + count);
        let is_held_back = self.placement.is_partial() && self.placement.free_units() == 0;
        if self.log().sequence.is_some_and(|it| it.next == units) && !is_held_back {
            self.end_sequence(context);
        }
    }

    /// Makes frontier `to` the active one.
    fn write_to(&mut self, to: LogFrontier) {
        let log = self.log_blocks.as_mut().expect("the drive has log blocks");
        if log.active != to {
            self.placement.swap_frontier(&mut log.inactive[log.active as usize]);
            self.placement.swap_frontier(&mut log.inactive[to as usize]);
            log.active = to;
        }
    }

    /// Has all data in the buffer programmed: merges the sequence if its program unit holds data, and pads the
    /// program unit of the random log.
    pub(super) fn pad_frontiers(&mut self, context: &mut Context<'_>) {
        self.write_to(LogFrontier::Sequence);
        if self.placement.is_partial() {
            self.end_sequence(context);
        }
        self.pad_log(context);
    }

    /// Pads and seals the program unit of the random log, if it holds data.
    pub(super) fn pad_log(&mut self, context: &mut Context<'_>) {
        self.write_to(LogFrontier::Log);
        if self.placement.is_partial() {
            self.pad_program_unit(context);
        }
    }

    /// Returns the number of units of a logical block; the last one may be short.
    fn units_of_logical_block(&self, logical: u32) -> u32 {
        let per_block = self.geometry.units_per_block();
        (self.geometry.logical_units() - logical * per_block).min(per_block)
    }

    // ----- blocks

    /// Takes an erased block, from the groups of dies in turn. Returns `None` if a power cut could then leave
    /// recovery without one.
    ///
    /// A block that a sequence or a merge has replaced is needed until its replacement is programmed: after a
    /// power cut both may hold valid data. A host that writes one logical block after the other from the start
    /// has as many such pairs as the write buffer holds, and a power cut would find no erased block left to
    /// merge into. So the last blocks are not taken before the replaced ones are erased.
    fn take_block(&mut self, nand: &Nand) -> Option<BlockIndex> {
        let log = self.log_blocks.as_mut()?;
        let replaced = log.replaced.len() as u32;
        // Recovery may have to write a data block for each logical block that has none.
        let taken = log.data.len() + log.logs.len() + usize::from(log.sequence.is_some());
        let spare = self.geometry.blocks().saturating_sub(taken as u32);
        if replaced > 0 && spare <= 1 + replaced {
            return None;
        }
        let (groups, units) = (self.geometry.groups(), self.geometry.units_per_block());
        for _ in 0..groups {
            log.group = (log.group + 1) % groups;
            if let Some(block) = self.blocks.open_in_group(log.group, units) {
                self.note_block_begun(nand, block, true);
                return Some(block);
            }
        }
        assert!(
            replaced > 0,
            "there is a block for each logical block, for the log and for a merge"
        );
        None
    }

    fn take_block_or_wait(&mut self, nand: &Nand) -> Option<BlockIndex> {
        let block = self.take_block(nand);
        match block {
            Some(_) => block,
            None => self.wait_for_merge(nand),
        }
    }

    /// Queues a block without valid units for its erase, which is issued when the data that replaces its data
    /// is programmed.
    fn replace(&mut self, nand: &mut Nand, block: BlockIndex) {
        self.blocks.table_mut().remove_victim(block);
        self.blocks.table_mut().set_state(block, BlockState::Victim);
        self.media.begin_erase(block);
        let trims = self.trims_before_erase(nand);
        let log = self.log();
        let sealed = log.order.next();
        log.replaced.push_back(Replaced { block, sealed, trims });
        self.erase_replaced(nand);
    }

    /// Issues the erases of replaced blocks, oldest first, as far as the data that replaces theirs is durable.
    fn erase_replaced(&mut self, nand: &mut Nand) {
        while let Some(&Replaced { block, sealed, trims }) = self.log().replaced.front() {
            if self.log().order.low_water() < sealed || !self.are_trims_durable(trims) {
                return;
            }
            self.log().replaced.pop_front();
            let erase = self.free_announced(nand, block);
            nand.erase(erase, self.timing.erase);
        }
    }

    // ----- waiting

    /// Notes that writes wait for a merge or an erased block. Returns `None`.
    fn wait_for_merge<T>(&mut self, nand: &Nand) -> Option<T> {
        let now = nand.now();
        self.log().waits_since.get_or_insert(now);
        None
    }

    /// Ends the waiting of writes for merges, and adds up the time that they waited.
    fn note_wait_for_merge(&mut self, now: Instant) {
        if let Some(since) = self.log().waits_since.take() {
            self.delays.writes.parts.merge += self.placement.note_wait(since, now);
        }
    }

    /// Notes that a program unit of the host's or of a merge is programmed.
    pub(super) fn log_programmed(&mut self, context: &mut Context<'_>, number: u64) {
        self.log().note_programmed(number);
        self.resume_log_writes(context);
    }

    /// Notes that something became durable, and resumes merges and the writes that wait for them.
    #[inline(never)]
    pub(super) fn resume_log_writes(&mut self, context: &mut Context<'_>) {
        self.erase_replaced(context.nand);
        self.continue_merges(context);
        if self.log().waits_since.is_some() && !self.log().merges.are_in_flight() {
            self.admit_waiting(context);
        }
    }
}

#[cfg(test)]
mod tests;
