//! The reserve: at each moment at which power may be cut, recovery finds a row of erased places (a program unit on
//! each die) besides those that copies in line have.
//!
//! A block that collection has emptied is free as soon as its erase is announced, so that the host's data has a
//! place at once. But until its copies are programmed a power cut gives it back what was valid on it. Those copies
//! have places, which a cut leaves erased, but for what is being programmed just then: a program unit on each die
//! is torn. So recovery needs a row more. It is there as long as there is
//!
//! - an erased block that nothing is programmed to; or
//! - that much room in the block that the host has open: recovery copies to it where nothing else is left.
//!
//! The host's programs, which go before copies, would use up both. So where no other block is left that is erased or
//! can be, the first programs to a block wait until the copies of the block announced last are programmed, and so
//! do those to its last row, each for what was announced when it was begun. Nothing waits in a circle: a block that
//! was announced by then waits only for programs that were begun before.
//!
//! Copies that are begun before such a program of the host's is over wait for its end, where no other erased block
//! is left. They would fill the one that was erased for it, and a cut that tears the program would leave no place.
//!
//! A row is enough for one cut. Another one while recovery copies tears another row: of blocks that have so few that
//! this can be the last, collection keeps one more (`CollectionParameters::blocks_kept`).

use std::collections::VecDeque;

use ssdlab_nand::{CopyNumber, EraseId, Nand, Tag};

use super::wrappers::Nobody;
use super::{Context, Ftl, kind};
use crate::collection::CollectionParameters;
use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::BlockIndex;

/// What the host has begun and does not program before others' blocks can be erased.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    /// Blocks, each with how many erases of emptied blocks have to be issued in all before.
    blocks: Vec<(BlockIndex, u64)>,
    /// The host's program units, by number, in the same way.
    programs: Vec<(u64, u64)>,
    /// Erases of emptied blocks that were issued.
    issued: u64,
    /// The host's program units that had to wait and are not over, by number, and those of them that may be filled
    /// further.
    held: VecDeque<u64>,
    open: Vec<u64>,
    /// In the order in which they were begun.
    copies: VecDeque<HeldCopies>,
}

/// A program unit of copies that was begun while one of the host's was held.
#[derive(Clone, Copy, Debug)]
struct HeldCopies {
    number: CopyNumber,
    /// The last program unit of the host's that had to wait when it was begun.
    host: u64,
    /// True once no more copies are added.
    is_full: bool,
}

impl Reserve {
    /// Returns true if programs to some block wait.
    #[inline(always)]
    fn is_waited_for(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Has the host's program unit with this number wait until so many erases are issued in all.
    fn hold(&mut self, number: u64, after: u64) {
        self.programs.push((number, after));
        self.held.push_back(number);
        self.open.push(number);
    }

    /// Returns true if a program unit of copies, which is full now, waits for one of the host's:
    /// [`Reserve::host_programmed`] completes it then.
    #[inline(always)]
    pub(super) fn holds(&mut self, number: CopyNumber) -> bool {
        let is_before = |it: &HeldCopies| it.number != number && it.number.is_not_after(number);
        let place = self.copies.partition_point(is_before);
        let held = self.copies.get_mut(place).filter(|it| it.number == number);
        held.map(|it| it.is_full = true).is_some()
    }

    /// The host's program unit with this number is over: lets the copies go on that have waited for it and for no
    /// other.
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

    /// Notes that the erase of another emptied block is issued, and lets those go on that have waited for it.
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
    /// Returns where no block is left that is erased or can be, how many erases of emptied blocks have to be issued
    /// until one is, and the last of them.
    fn keeps_waiting(&self) -> Option<(u64, EraseId)> {
        let announced = self.collector.announced_blocks();
        let (count, last) = announced.clone().fold((0, None), |all, it| (all.0 + 1, Some(it)));
        let (_, last) = last?;
        (!self.has_erased_block()).then_some((self.reserve.issued + count, last))
    }

    /// Returns true if a block is free that is erased, or whose erase was issued.
    fn has_erased_block(&self) -> bool {
        let is_free = |block| self.blocks.flash().state(block) == BlockState::Free;
        let announced = self.collector.announced_blocks();
        self.blocks.free() > announced.filter(|&(it, _)| is_free(it)).count() as u32
    }

    /// Notes that a program unit of copies is begun.
    #[inline(always)]
    pub(super) fn keep_reserve_of_copies(&mut self, nand: &mut Nand, number: CopyNumber) {
        if !self.reserve.held.is_empty() {
            self.hold_copies(nand, number);
        }
    }

    #[inline(never)]
    fn hold_copies(&mut self, nand: &mut Nand, number: CopyNumber) {
        let row = self.geometry.dies() * self.geometry.units_per_program();
        if !CollectionParameters::lets_copies_wait(&self.geometry)
            || self.collector.stream().room_in_blocks() > 2 * row
            || self.has_erased_block()
        {
            return;
        }
        let host = self.reserve.held.back().copied().expect("some are held");
        // What the host would fill one of them with may wait for these copies.
        let context = &mut Context { nand, host: &mut Nobody };
        let being_written = self.streams.as_ref().map(|streams| streams.active());
        self.settle_before(context, host + 1);
        // Also one that is full and held back for the rest of its last unit.
        while self.holds_open() && (self.choose_begun_stream() || self.choose_partial_stream()) {
            self.pad_program_unit(context);
            self.settle_before(context, host + 1);
        }
        if let Some(streams) = &mut self.streams
            && let Some(stream) = being_written
        {
            self.placement.write_to(streams, stream);
        }
        self.reserve.copies.push_back(HeldCopies { number, host, is_full: false });
    }

    /// Returns true if something can be added to a program unit that is held.
    fn holds_open(&mut self) -> bool {
        let placement = &self.placement;
        self.reserve.open.retain(|&number| !placement.is_settled(number));
        !self.reserve.open.is_empty()
    }

    /// The same for what is to be programmed to `block`, which was just taken from the pool. What waits for its own
    /// erase waits for no other.
    fn keeps_waiting_with(&self, block: BlockIndex) -> Option<(u64, EraseId)> {
        self.keeps_waiting().filter(|_| self.collector.announced_blocks().all(|it| it.0 != block))
    }

    /// Notes that the host has begun to fill `block`.
    pub(super) fn keep_reserve(&mut self, block: BlockIndex) {
        if self.log_blocks.is_none()
            && let Some((after, _)) = self.keeps_waiting_with(block)
        {
            self.reserve.blocks.push((block, after));
        }
    }

    /// Has the program unit of the host's that was just begun wait for what has to be erased before.
    #[inline(always)]
    pub(super) fn hold_for_reserve(&mut self) {
        if self.reserve.is_waited_for() || self.collector.has_announced() {
            self.hold_if_last();
        }
    }

    #[inline(never)]
    fn hold_if_last(&mut self) {
        let block = self.geometry.block_of(self.placement.program_start());
        let begun = self.reserve.blocks.iter().find(|it| it.0 == block).map(|it| it.1);
        let row = self.geometry.dies() * self.geometry.units_per_program();
        let is_last = !self.is_slc(block) && self.placement.stream().room_in_blocks() <= row;
        let last = if is_last { self.keeps_waiting().map(|it| it.0) } else { None };
        if let Some(after) = begun.max(last) {
            self.reserve.hold(self.placement.latest(), after);
            self.placement.await_more();
        }
    }

    /// The erase that programs of a run to `block`, which was just begun, wait for.
    pub(super) fn erase_before_run(&self, block: BlockIndex) -> Option<EraseId> {
        self.keeps_waiting_with(block).map(|(_, erase)| erase)
    }
}
