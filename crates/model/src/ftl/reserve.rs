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
//! A row is enough for one cut. Another one while recovery copies tears another row, and of a drive whose blocks have
//! three or four rows that can be the last: the block that collection keeps then has no more than those copies take.

use ssdlab_nand::{EraseId, Nand, Tag};

use super::{Ftl, kind};
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
}

impl Reserve {
    /// Whether programs to some block wait.
    #[inline(always)]
    fn is_waited_for(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Has the host's program unit with this number wait until so many erases are issued in all.
    fn hold(&mut self, number: u64, after: u64) {
        self.programs.push((number, after));
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
    /// Where no block is left that is erased or can be, how many erases of emptied blocks have to be issued until
    /// one is, and the last of them.
    fn keeps_waiting(&self) -> Option<(u64, EraseId)> {
        let announced = self.collector.announced_blocks();
        let (count, last) = announced.clone().fold((0, None), |all, it| (all.0 + 1, Some(it)));
        let (_, last) = last?;
        let is_free = |block| self.blocks.flash().state(block) == BlockState::Free;
        let unsafe_ones = announced.filter(|&(it, _)| is_free(it)).count() as u32;
        let has_safe = self.blocks.free() > unsafe_ones;
        (!has_safe).then_some((self.reserve.issued + count, last))
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
