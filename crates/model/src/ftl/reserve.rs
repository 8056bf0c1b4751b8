//! The reserve: whenever power is cut, recovery finds an erased block to copy to.
//!
//! A block that collection has emptied is free as soon as its erase is announced, so that the host's data has a
//! place at once. But until its copies are programmed a power cut gives it back what was valid on it: what is
//! being programmed then is torn. If the host's programs, which go before copies, fill the last block that is
//! erased meanwhile, nothing is left to copy to. So the first programs to a block wait, where no other block
//! is left that is erased or can be, until the copies of the one announced last are programmed.

use ssdlab_nand::{EraseId, Nand, Tag};

use super::{Ftl, kind};
use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::BlockIndex;

/// Blocks that are begun and not programmed before others can be erased, and the program units that wait.
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
    pub(super) fn is_waited_for(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Notes that a program unit of the host's in `block` is begun, with this number. Returns whether it has to
    /// wait.
    pub(super) fn note_begun(&mut self, block: BlockIndex, number: u64) -> bool {
        let after = self.blocks.iter().find(|it| it.0 == block).map(|it| it.1);
        self.programs.extend(after.map(|after| (number, after)));
        after.is_some()
    }

    /// Notes that the erase of another emptied block is issued, and lets those go on that have waited for it.
    #[inline(always)]
    pub(super) fn note_issued(&mut self, nand: &mut Nand) {
        self.issued += 1;
        if self.blocks.is_empty() {
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
    /// Whether programs to a block that was just taken from the pool have to wait: no block is left that is erased
    /// or can be. Returns how many erases of emptied blocks have to be issued before, and the last of them.
    fn keeps_waiting(&self, block: BlockIndex) -> Option<(u64, EraseId)> {
        let announced = self.collector.announced_blocks();
        let (count, last) = announced.clone().fold((0, None), |all, it| (all.0 + 1, Some(it)));
        let (_, last) = last?;
        if announced.clone().any(|(it, _)| it == block) {
            // It waits for its own erase.
            return None;
        }
        let is_free = |block| self.blocks.flash().state(block) == BlockState::Free;
        let unsafe_ones = announced.filter(|&(it, _)| is_free(it)).count() as u32;
        let has_safe = self.blocks.free() > unsafe_ones;
        (!has_safe).then_some((self.reserve.issued + count, last))
    }

    /// Notes that the host has begun to fill `block`.
    pub(super) fn keep_reserve(&mut self, block: BlockIndex) {
        if self.log_blocks.is_none()
            && let Some((after, _)) = self.keeps_waiting(block)
        {
            self.reserve.blocks.push((block, after));
        }
    }

    /// The erase that programs of a run to `block`, which was just begun, wait for.
    pub(super) fn erase_before_run(&self, block: BlockIndex) -> Option<EraseId> {
        self.keeps_waiting(block).map(|(_, erase)| erase)
    }
}
