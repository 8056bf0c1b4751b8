//! Free space after a power cut: reclaimed before the host may write, since no reserve can be relied on then.

use super::{Context, Ftl};
use crate::block_table::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::BlockIndex;

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Makes sure that the host can take a block while collection keeps its reserve. Collects the block with
    /// the fewest valid units first, whatever the policy. Returns true if anything had to be done. If it cannot
    /// be done, returns as an error the number of units that are left to copy to, and of those to be copied.
    pub(super) fn reclaim_for_host(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<bool, (u32, u32)> {
        let blocks = self.geometry.blocks();
        for step in 0..4 * blocks {
            if !self.needs_reclaim() {
                return Ok(step > 0);
            }
            let fewest = self.fewest_valid();
            let room = self.free_units_for_copies();
            let is_copied = self.is_oldest_reclaimed_copied();
            let has_reclaimed = self.collector.reclaimed() > 0;
            // The host's open blocks are the last resort, for when no block can be erased or erasing gains
            // nothing: a program unit is padded for each erase, and the valid units of one block may fill
            // another.
            let is_last_resort = !has_reclaimed || step >= 2 * blocks;
            let of_host = match self.collector.copies_to_host {
                true => 0,
                false => self.placement.frontier().free_units_in_blocks(),
            };
            let most = room + of_host;
            match fewest {
                Some((block, valid))
                    if !is_copied && (valid <= room || is_last_resort && valid <= most) =>
                {
                    self.blocks.table_mut().remove_victim(block);
                    self.begin_victim(context.nand, block, valid);
                    self.collector.takes_from_host = valid > room;
                    self.complete_victim(context);
                    self.collector.takes_from_host = false;
                }
                _ if has_reclaimed => self.free_oldest_reclaimed(context),
                _ => return Err((most, fewest.map_or(0, |(_, valid)| valid))),
            }
        }
        Err((self.free_units_for_copies(), self.geometry.units_per_block()))
    }

    /// Returns true if the host cannot take a block without taking collection's reserve.
    pub(super) fn needs_reclaim(&self) -> bool {
        let reserved = self.slc.as_ref().map_or(0, |slc| slc.reserved());
        self.blocks.free() <= self.collector.reserve + reserved
    }

    /// Gives the host's open blocks to the stream of copies, if no other place is left.
    pub(super) fn take_host_blocks(&mut self) {
        if self.blocks.free() > 0 || self.collector.can_take(1) {
            return;
        }
        let given_up =
            self.placement.frontier_mut().give_up_blocks_to(&mut self.collector.frontier);
        for block in given_up {
            self.blocks.table_mut().set_state(block, BlockState::OpenForCollection);
        }
    }

    /// Returns the closed block with the fewest valid units, and their number. Walks all blocks.
    fn fewest_valid(&self) -> Option<(BlockIndex, u32)> {
        let block_table = self.blocks.table();
        let blocks = (0..self.geometry.blocks()).map(BlockIndex);
        blocks
            .filter(|&block| block_table.state(block) == BlockState::Closed)
            .map(|block| (block, block_table.valid(block)))
            .min_by_key(|&(_, valid)| valid)
    }

    /// Returns true if as many blocks are free as there are groups of dies, or the valid units of some block
    /// fit the places that are left.
    pub(super) fn can_collect(&self) -> bool {
        self.blocks.free() >= self.geometry.groups()
            || self.fewest_valid().is_some_and(|(_, valid)| valid <= self.free_units_for_copies())
    }

    /// Returns the number of units that can be copied before a block has to be erased.
    fn free_units_for_copies(&self) -> u32 {
        let in_free_blocks = self.blocks.free() * self.geometry.units_per_block();
        let open = match self.collector.copies_to_host {
            true => self.placement.frontier(),
            false => &self.collector.frontier,
        };
        open.free_units_in_blocks() + in_free_blocks
    }
}
