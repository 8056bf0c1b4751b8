//! Reserve for power cuts: whenever power is cut, recovery finds a row of erased places (a program unit on each
//! die) besides those of the copies in line.
//!
//! A reclaimed block is free as soon as its erase is announced, so that the host's data has a place at once.
//! But if power is cut before its copies are programmed, its old units are valid again. The places of those
//! copies are still erased then, except that a program unit on each die may be torn. So recovery needs one more
//! row. There is such a row as long as there is
//!
//! - an erased block that nothing is programmed to; or
//! - as much room in the block that the host has open: recovery copies to that block if nothing else is left.
//!
//! Host programs, which have priority over copies, would use up both. So if no other block is left that is
//! erased or can be erased, the first programs to a block wait until the copies of the block announced last are
//! programmed. So do the programs to its last row. Each waits for what was announced when it was begun. There
//! is no circular wait: a block that was announced by then waits only for programs that were begun before.
//!
//! Copies that are begun before such a host program has completed wait for its end, if no other erased block is
//! left. They would otherwise fill the block that was erased for it, and a power cut that tears the program
//! would leave no place.
//!
//! A row is enough for one power cut. Another cut while recovery copies tears another row. Where blocks have so
//! few rows that this can be the last one, collection keeps one block more
//! (`CollectionParameters::min_free_blocks`).

use std::collections::VecDeque;

use ssdlab_nand::{CopyNumber, EraseId, Nand, Tag};

use super::wrappers::NoHost;
use super::{Context, Ftl, kind};
use crate::block_table::BlockState;
use crate::collection::CollectionParameters;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::BlockIndex;

/// Blocks and program units that the host has begun, but that are not programmed before reclaimed blocks can be
/// erased.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    /// Blocks, each with the total number of erases of reclaimed blocks that have to be issued before it is
    /// programmed.
    blocks: Vec<(BlockIndex, u64)>,
    /// Numbers of host program units, each with the total number of erases that have to be issued before it is
    /// sent.
    programs: Vec<(u64, u64)>,
    /// Number of erases of reclaimed blocks that were issued.
    issued: u64,
    /// Numbers of the host program units that had to wait and have not completed. Those in `open` may still be
    /// filled.
    held: VecDeque<u64>,
    open: Vec<u64>,
    /// Program units of copies that wait, in the order in which they were begun.
    copies: VecDeque<HeldCopies>,
}

/// A program unit of copies that was begun while one of the host's was held.
#[derive(Clone, Copy, Debug)]
struct HeldCopies {
    number: CopyNumber,
    /// Number of the last host program unit that was held when the copies were begun.
    host: u64,
    /// True once no more copies are added.
    is_full: bool,
}

impl Reserve {
    /// Returns true if the programs to some block have to wait.
    #[inline(always)]
    fn has_held_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Has host program unit `number` wait until `after` erases of reclaimed blocks have been issued in all.
    fn hold(&mut self, number: u64, after: u64) {
        self.programs.push((number, after));
        self.held.push_back(number);
        self.open.push(number);
    }

    /// Returns true if a program unit of copies, which is full now, waits for one of the host's;
    /// [`Reserve::host_programmed`] then completes it.
    #[inline(always)]
    pub(super) fn holds(&mut self, number: CopyNumber) -> bool {
        let is_before = |it: &HeldCopies| it.number != number && it.number.is_not_after(number);
        let place = self.copies.partition_point(is_before);
        let held = self.copies.get_mut(place).filter(|it| it.number == number);
        held.map(|it| it.is_full = true).is_some()
    }

    /// Notes that host program unit `number` has completed, and releases the copies that waited for it and for
    /// no other.
    #[inline(always)]
    pub(super) fn host_programmed(&mut self, nand: &mut Nand, number: u64) {
        let Ok(place) = self.held.binary_search(&number) else { return };
        self.held.remove(place);
        self.open.retain(|&it| it != number);
        let first = self.held.front().copied().unwrap_or(u64::MAX);
        while let Some(held) = self.copies.pop_front_if(|it| it.host < first) {
            if held.is_full {
                nand.complete_copies(held.number);
            }
        }
    }

    /// Notes that the erase of another reclaimed block is issued, and releases the blocks and program units
    /// that waited for it.
    #[inline(always)]
    pub(super) fn note_issued(&mut self, nand: &mut Nand) {
        self.issued += 1;
        if self.blocks.is_empty() && self.programs.is_empty() {
            return;
        }
        let issued = self.issued;
        self.blocks.retain(|&(_, after)| after > issued);
        self.programs.retain(|&(number, after)| {
            if after <= issued {
                nand.set_alarm(nand.now(), Tag(kind::HOST | number as u32 & kind::NUMBER));
            }
            after > issued
        });
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// If no free block is erased or being erased, returns the total number of erases of reclaimed blocks after
    /// which one is, and the last of those erases; otherwise `None`.
    fn erases_until_reserve(&self) -> Option<(u64, EraseId)> {
        let announced = self.collector.announced_blocks();
        let (count, last) = announced.clone().fold((0, None), |all, it| (all.0 + 1, Some(it)));
        let (_, last) = last?;
        (!self.has_erased_block()).then_some((self.reserve.issued + count, last))
    }

    /// Returns true if a free block is erased, or its erase was issued.
    fn has_erased_block(&self) -> bool {
        let is_free = |block| self.blocks.table().state(block) == BlockState::Free;
        let announced = self.collector.announced_blocks();
        self.blocks.free() > announced.filter(|&(it, _)| is_free(it)).count() as u32
    }

    /// Holds a program unit of copies that is begun, if it has to wait for one of the host's.
    #[inline(always)]
    pub(super) fn hold_copies_for_reserve(&mut self, nand: &mut Nand, number: CopyNumber) {
        if !self.reserve.held.is_empty() {
            self.hold_copies(nand, number);
        }
    }

    #[inline(never)]
    fn hold_copies(&mut self, nand: &mut Nand, number: CopyNumber) {
        let row = self.geometry.dies() * self.geometry.units_per_program();
        if !CollectionParameters::lets_copies_wait(&self.geometry)
            || self.collector.frontier().free_units_in_blocks() > 2 * row
            || self.has_erased_block()
        {
            return;
        }
        let host = self.reserve.held.back().copied().expect("some are held");
        // Host data that would fill one of the held program units may wait for these copies: the held ones are
        // padded.
        let context = &mut Context { nand, host: &mut NoHost };
        let being_written = self.streams.as_ref().map(|streams| streams.active());
        let group = self.placement.frontier().group();
        self.finalize_before(context, host + 1);
        // This includes a program unit that is full and held back for the rest of its last unit.
        while self.holds_open() && (self.choose_begun_stream() || self.choose_partial_stream()) {
            self.pad_program_unit(context);
            self.finalize_before(context, host + 1);
        }
        if let Some(streams) = &mut self.streams
            && let Some(stream) = being_written
        {
            self.placement.write_to(streams, stream);
        }
        if self.placement.is_static() {
            self.select_host_group(group);
        }
        self.reserve.copies.push_back(HeldCopies { number, host, is_full: false });
    }

    /// Returns true if units can still be added to a held program unit.
    fn holds_open(&mut self) -> bool {
        let placement = &self.placement;
        self.reserve.open.retain(|&number| !placement.is_final(number));
        !self.reserve.open.is_empty()
    }

    /// Returns the result of `erases_until_reserve` for programs to `block`, which was just taken from the pool;
    /// `None` if the erase of `block` itself is announced and not issued, since those programs wait for that
    /// erase only.
    fn erases_until_reserve_for(&self, block: BlockIndex) -> Option<(u64, EraseId)> {
        self.erases_until_reserve()
            .filter(|_| self.collector.announced_blocks().all(|it| it.0 != block))
    }

    /// Notes that the host has begun to fill `block`, whose programs may have to wait.
    pub(super) fn hold_block_for_reserve(&mut self, block: BlockIndex) {
        if self.log_blocks.is_none()
            && let Some((after, _)) = self.erases_until_reserve_for(block)
        {
            self.reserve.blocks.push((block, after));
        }
    }

    /// Has the host program unit that was just begun wait for the erases that the reserve requires.
    #[inline(always)]
    pub(super) fn hold_program_for_reserve(&mut self) {
        if self.reserve.has_held_blocks() || self.collector.has_announced() {
            self.hold_if_last();
        }
    }

    #[inline(never)]
    fn hold_if_last(&mut self) {
        let block = self.geometry.block_of(self.placement.program_start());
        let begun = self.reserve.blocks.iter().find(|it| it.0 == block).map(|it| it.1);
        let row = self.geometry.dies() * self.geometry.units_per_program();
        let is_last =
            !self.is_slc(block) && self.placement.frontier().free_units_in_blocks() <= row;
        let last = if is_last { self.erases_until_reserve().map(|it| it.0) } else { None };
        if let Some(after) = begun.max(last) {
            self.reserve.hold(self.placement.latest(), after);
            self.placement.await_more();
        }
    }

    /// Returns the erase that programs of a run to `block`, which was just begun, wait for.
    pub(super) fn erase_before_run(&self, block: BlockIndex) -> Option<EraseId> {
        self.erases_until_reserve_for(block).map(|(_, erase)| erase)
    }
}
