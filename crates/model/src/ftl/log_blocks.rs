//! Mapping by block, with log blocks (FAST): where the host's data goes.
//!
//! Each logical block (as many units as a collection unit) has at most one data block, in which every unit
//! lies at its own offset. Writes never go there. A write that begins a logical block at its first unit opens
//! the sequential log block, and what continues it follows; all other writes are appended to random log
//! blocks, of which there are `mapping.log_blocks`, mapped by unit. The merges that this asks for
//! (`merges`) take the place of collection; writes wait for them, and that is how such drives stall.
//!
//! Lee, Park, Chung, Lee, Park, Song: A log buffer-based flash translation layer using fully-associative
//! sector translation, ACM Transactions on Embedded Computing Systems 6(3), 2007. Where each unit lies is kept
//! in the drive's map: it says the same as the block map and the tables of the log blocks, and leaves the rules
//! to say what goes where.

mod merges;
mod recovered;
mod room;
mod saved;

pub(crate) use room::check_room_for_log;

use std::collections::VecDeque;

use ssdlab_nand::{Nand, ProgramLog};

use super::host::{Command, Host};
use super::placement::{Frontier, WaitingWrite};
use super::{Context, Ftl};
use crate::flash::BlockState;
use crate::geometry::Geometry;
use crate::mapping::{Mapping, MappingScheme};
use crate::media::Media;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, Instant, LogicalUnit, PhysicalUnit, SectorCount};

use merges::Merges;

/// The write frontiers of a drive with log blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// The random log.
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
    /// The offset that continues it.
    next: u32,
}

/// The random log block that is being filled.
#[derive(Clone, Copy, Debug)]
struct OpenLog {
    block: BlockIndex,
    programs: u32,
}

/// A block on which nothing is valid any more, until its erase is issued.
#[derive(Clone, Copy, Debug)]
struct Replaced {
    block: BlockIndex,
    /// It waits for what was sealed before this one.
    sealed: u64,
    /// It waits for the pages of records of trims before this one.
    trims: u64,
}

/// A program unit that is sealed and not over.
#[derive(Clone, Copy, Debug)]
struct Sealed {
    /// Its number in placement, and that in the order of sealing.
    number: u64,
    place: u64,
    /// True if a merge waits for it.
    is_of_merge: bool,
}

/// The block map and the log blocks.
#[derive(Clone, Debug)]
pub(super) struct LogBlocks {
    /// The data block of each logical block.
    data: Vec<Option<BlockIndex>>,
    /// Random log blocks, the oldest first.
    logs: VecDeque<BlockIndex>,
    logs_most: u32,
    open_log: Option<OpenLog>,
    sequence: Option<Sequence>,
    merges: Merges,
    /// The frontier that placement writes; the others are aside, and in the place of that one is none.
    active: Writes,
    aside: [Frontier; 3],
    /// Program units in the order in which they were sealed. Numbers of placement are those in which they were
    /// begun: one that is not full, such as the sequence's, may stay so for long.
    order: ProgramLog,
    sealed: Vec<Sealed>,
    replaced: VecDeque<Replaced>,
    /// The group of dies that the latest block was taken from.
    group: u32,
    /// Since when writes wait for a merge or an erased block.
    waits_since: Option<Instant>,
    /// True if merges are those that make room after a power cut.
    is_recovering: bool,
}

impl LogBlocks {
    /// Returns the log blocks of a drive that has some.
    pub(super) fn new(configuration: &Configuration) -> Option<Box<LogBlocks>> {
        let Configuration { geometry, mechanisms, .. } = configuration;
        (mechanisms.mapping == MappingScheme::LogBlock).then(|| {
            let logical_blocks = geometry.logical_units().div_ceil(geometry.units_per_block());
            Box::new(LogBlocks {
                data: vec![None; logical_blocks as usize],
                logs: VecDeque::new(),
                logs_most: mechanisms.log_blocks,
                open_log: None,
                sequence: None,
                merges: Merges::default(),
                active: Writes::Log,
                aside: std::array::from_fn(|_| Frontier::new(geometry)),
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
    pub(super) fn begin_anew(&mut self) {
        assert!(self.is_idle() && self.active == Writes::Log, "the drive was shut down");
        self.data.fill(None);
        self.logs.clear();
        self.open_log = None;
    }

    /// Returns true if `unit` lies in a program unit that is being filled and put aside.
    pub(super) fn hold_aside(&self, unit: PhysicalUnit) -> bool {
        self.aside.iter().any(|frontier| frontier.holds(unit))
    }

    /// Returns true if nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        !self.merges.are_under_way() && self.replaced.is_empty()
    }

    /// Notes that the program unit being filled, number `number`, is sealed; `closes` says that its block is full.
    pub(super) fn note_sealed(&mut self, number: u64, closes: bool) {
        let is_of_merge = self.merges.note_sealed(self.active);
        let place = self.order.begin();
        self.sealed.push(Sealed { number, place, is_of_merge });
        if self.active == Writes::Log {
            let open = self.open_log.as_mut().expect("its block is open");
            open.programs += 1;
            if closes {
                self.open_log = None;
            }
        }
    }

    /// Notes that program unit `number` is over.
    fn note_programmed(&mut self, number: u64) {
        let index = self.sealed.iter().position(|it| it.number == number);
        let sealed = self.sealed.swap_remove(index.expect("it was sealed"));
        self.order.end(sealed.place);
        if sealed.is_of_merge {
            self.merges.note_programmed();
        }
    }

    /// Checks what must hold between requests.
    ///
    /// # Panics
    /// When anything is wrong, saying what.
    pub(super) fn check_invariants(
        &self,
        geometry: &Geometry,
        logical_at: impl Fn(PhysicalUnit) -> Option<LogicalUnit>,
        free: u32,
    ) {
        assert!(self.logs.len() as u32 <= self.logs_most, "no more log blocks than there are");
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

    /// Makes the frontier the one being written that up to `units` units from `first` go to, with room in its
    /// program unit. Returns how many of them do; nothing where they wait for a merge, an erased block, or
    /// room in the buffer.
    fn choose_frontier<H: Host>(
        &mut self,
        context: &mut Context<'_, H>,
        first: LogicalUnit,
        units: u32,
    ) -> Option<u32> {
        let per_block = self.geometry.units_per_block();
        let (logical, offset) = (first.0 / per_block, first.0 % per_block);
        let sequence = self.log().sequence;
        let continues = sequence.is_some_and(|it| it.logical_block == logical && it.next == offset);
        let is_sequential = offset == 0 || continues;
        let ends_sequence = match sequence {
            _ if self.log().merges.are_under_way() => false,
            Some(_) if is_sequential => !continues,
            Some(sequence) => sequence.logical_block == logical,
            None => false,
        };
        if ends_sequence {
            self.end_sequence(context);
        }
        if self.log().merges.are_under_way() {
            return self.wait_for_merge(context.nand);
        }
        self.write_to(if is_sequential { Writes::Sequence } else { Writes::Log });
        let count = units.min(per_block - offset);
        if self.placement.room() > 0 {
            self.note_wait_for_merge(context.nand.now());
            return Some(count);
        }
        if self.placement.is_partial() {
            // It was held back for the rest of its last unit, which comes too late.
            self.seal_host_program(context);
        }
        let (block, program) = match is_sequential {
            true => self.place_in_sequence(context, logical, offset)?,
            false => self.place_in_log(context)?,
        };
        // What is begun is filled: nobody waits for a program unit without data.
        if !self.placement.has_room(count.min(self.geometry.units_per_program())) {
            return None;
        }
        self.placement.begin_in(&self.blocks, &self.geometry, block, program);
        self.note_wait_for_merge(context.nand.now());
        Some(count)
    }

    fn place_in_sequence<H>(
        &mut self,
        context: &mut Context<'_, H>,
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

    fn place_in_log<H: Host>(&mut self, context: &mut Context<'_, H>) -> Option<(BlockIndex, u32)> {
        if self.log().open_log.is_none() {
            if self.log().logs.len() as u32 == self.log().logs_most {
                self.reclaim_oldest_log(context);
                if self.log().merges.are_under_way() {
                    return self.wait_for_merge(context.nand);
                }
                self.write_to(Writes::Log);
            }
            let block = self.take_block_or_wait(context.nand)?;
            self.log().logs.push_back(block);
            self.log().open_log = Some(OpenLog { block, programs: 0 });
        }
        self.log().open_log.map(|open| (open.block, open.programs))
    }

    /// Lets the next of a write into the buffer, as much as goes into one program unit; returns how many units
    /// that is, and when their data is there. Nothing where it waits.
    pub(super) fn let_in_by_log<H: Host>(
        &mut self,
        context: &mut Context<'_, H>,
        waiting: &WaitingWrite,
    ) -> Option<(u32, Instant)> {
        let first = LogicalUnit(waiting.next);
        let (until, part) = self.next_part_of(waiting);
        if part.is_some() && self.go_back_to_unsent(first) {
            return self.let_part_in_by_log(context, first, part?);
        }
        let count = self.choose_frontier(context, first, until - first.0)?;
        if let Some(part) = part {
            return self.let_part_in_by_log(context, first, part);
        }
        let ready = self.placement.first_waiting().map_or(waiting.ready, |it| it.ready);
        let let_in = self.let_whole_in(context, first.0..first.0 + count, ready)?;
        if waiting.in_part {
            self.counters.host_write_units += u64::from(let_in.0);
        }
        self.note_placed(context, first, let_in.0);
        Some(let_in)
    }

    /// Returns where the units end that a write covers as the next one: as a whole, or in part, and which part then.
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

    /// Makes the frontier the one being written that holds `unit` in a program unit that is not sealed. Returns
    /// whether there is one, and no merge takes it.
    fn go_back_to_unsent(&mut self, unit: LogicalUnit) -> bool {
        let Some(at) = self.map.get(unit).filter(|_| !self.log().merges.are_under_way()) else {
            return false;
        };
        for writes in [Writes::Log, Writes::Sequence] {
            let log = self.log();
            let is_there = match log.active == writes {
                true => self.placement.holds_unsent(at, &self.geometry),
                false => log.aside[writes as usize].holds(at),
            };
            if is_there {
                self.write_to(writes);
                return true;
            }
        }
        false
    }

    fn let_part_in_by_log<H: Host>(
        &mut self,
        context: &mut Context<'_, H>,
        unit: LogicalUnit,
        part: (SectorCount, bool),
    ) -> Option<(u32, Instant)> {
        let received = self.let_part_in(context, unit, part)?;
        self.note_placed(context, unit, 1);
        Some((1, received))
    }

    /// Notes that `count` units from `first` have their places. A sequence is over when its last program unit is
    /// sealed: one whose last unit is written in part is held back for the rest of it.
    fn note_placed<H: Host>(
        &mut self,
        context: &mut Context<'_, H>,
        first: LogicalUnit,
        count: u32,
    ) {
        if self.log().active != Writes::Sequence {
            return;
        }
        let per_block = self.geometry.units_per_block();
        let (logical, offset) = (first.0 / per_block, first.0 % per_block);
        let units = self.units_of_logical_block(logical);
        let sequence = self.log().sequence.as_mut().expect("it is written");
        // What is written into RAM once more has its place already.
        sequence.next = sequence.next.max(offset + count);
        let is_held_back = self.placement.is_partial() && self.placement.room() == 0;
        if self.log().sequence.is_some_and(|it| it.next == units) && !is_held_back {
            self.end_sequence(context);
        }
    }

    /// Makes a frontier the one being written.
    fn write_to(&mut self, to: Writes) {
        let log = self.log_blocks.as_mut().expect("the drive has log blocks");
        if log.active != to {
            self.placement.exchange(&mut log.aside[log.active as usize]);
            self.placement.exchange(&mut log.aside[to as usize]);
            log.active = to;
        }
    }

    /// Sees to it that all is programmed that the buffer holds: the sequence is merged, if its last program
    /// unit is not full, and what is left of the log's is filled with nothing.
    pub(super) fn pad_frontiers<H: Host>(&mut self, context: &mut Context<'_, H>) {
        self.write_to(Writes::Sequence);
        if self.placement.is_partial() {
            self.end_sequence(context);
        }
        self.pad_log(context);
    }

    /// Fills what is left of the random log's program unit with nothing.
    pub(super) fn pad_log<H: Host>(&mut self, context: &mut Context<'_, H>) {
        self.write_to(Writes::Log);
        if self.placement.is_partial() {
            self.pad_program_unit(context);
        }
    }

    /// Units of a logical block; the last may be short.
    fn units_of_logical_block(&self, logical: u32) -> u32 {
        let per_block = self.geometry.units_per_block();
        (self.geometry.logical_units() - logical * per_block).min(per_block)
    }

    // ----- blocks

    /// Takes an erased block, of the groups of dies in turn, if recovery is left one whenever power is cut.
    ///
    /// A block that a sequence or a merge has replaced holds what a power cut leaves of it until what replaces
    /// it is programmed, and so does what replaces it. A host that writes one logical block after the other
    /// from the start has as many of both as the write buffer holds, and a cut would find no erased block left to
    /// merge into. So the last blocks are not taken before those are erased.
    fn take_block(&mut self, nand: &Nand) -> Option<BlockIndex> {
        let log = self.log_blocks.as_mut()?;
        let replaced = log.replaced.len() as u32;
        // Recovery may have to write a data block of each logical block that has none.
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

    /// Hands on a block on which nothing is valid any more, to be erased when what replaces it is programmed.
    fn replace(&mut self, nand: &mut Nand, block: BlockIndex) {
        self.blocks.flash_mut().remove_victim(block);
        self.blocks.flash_mut().set_state(block, BlockState::Victim);
        self.media.begin_erase(block);
        let trims = self.trims_before_erase(nand);
        let log = self.log();
        let sealed = log.order.next();
        log.replaced.push_back(Replaced { block, sealed, trims });
        self.erase_replaced(nand);
    }

    /// Issues the erases of replaced blocks, as far as what replaces them is durable.
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

    /// Notes that writes wait for a merge or an erased block.
    fn wait_for_merge<T>(&mut self, nand: &Nand) -> Option<T> {
        let now = nand.now();
        self.log().waits_since.get_or_insert(now);
        None
    }

    /// Notes how long writes have waited for merges, which goes on no more.
    fn note_wait_for_merge(&mut self, now: Instant) {
        if let Some(since) = self.log().waits_since.take() {
            self.delays.writes.parts.merge += self.placement.note_wait(since, now);
        }
    }

    /// A program unit of the host's or of a merge is over.
    pub(super) fn log_programmed<H: Host>(&mut self, context: &mut Context<'_, H>, number: u64) {
        self.log().note_programmed(number);
        self.go_on_with_log(context);
    }

    /// Something became durable: goes on with merges, and with writes that wait for them.
    #[inline(never)]
    pub(super) fn go_on_with_log<H: Host>(&mut self, context: &mut Context<'_, H>) {
        self.erase_replaced(context.nand);
        self.go_on_merging(context);
        if self.log().waits_since.is_some() && !self.log().merges.are_under_way() {
            self.let_waiting_in(context);
        }
    }
}

#[cfg(test)]
mod tests;
