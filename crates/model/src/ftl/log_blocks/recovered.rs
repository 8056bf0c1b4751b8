//! Recovery of log blocks after a power cut: the use of each block, and merges that free blocks.
//!
//! The rules are those of [`crate::recovery::log_block`]: spare areas (out-of-band bytes) say which units a
//! block holds. A block whose units all lie at their own offsets of one logical block can be the data block of
//! that logical block. All other blocks are random log blocks. If there are more of these than the drive may
//! have, the oldest are reclaimed before the host is let in, and the spare areas of these merges are marked as
//! such.

use super::LogBlocks;
use crate::ftl::{Context, Ftl};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::recovery::scan::FoundBlock;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

impl LogBlocks {
    /// Returns true if a merge of recovery writes `block`.
    pub(in crate::ftl) fn is_recovery_merge(&self, block: BlockIndex) -> bool {
        self.is_recovering && self.merges.merged_into() == Some(block)
    }

    fn has_surplus(&self) -> bool {
        self.logs.len() as u32 > self.logs_max
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Makes each block that holds valid units a data block or a log block; blocks that hold none are free.
    pub(in crate::ftl) fn sort_log_blocks(&mut self, blocks: &[FoundBlock]) {
        let found = |block: BlockIndex| blocks[block.0 as usize];
        let mut order: Vec<BlockIndex> = (0..self.geometry.blocks()).map(BlockIndex).collect();
        order.retain(|&block| found(block).valid > 0);
        order.sort_by_key(|&block| found(block).latest);
        for block in order {
            self.restore_closed_block(block, found(block));
            let log = match self.logical_block_in(block) {
                None => block,
                Some(logical) => {
                    let data = &mut self.log().data[logical as usize];
                    match *data {
                        Some(other) if found(other).valid >= found(block).valid => block,
                        other => {
                            *data = Some(block);
                            let Some(other) = other else { continue };
                            other
                        }
                    }
                }
            };
            let logs = &mut self.log().logs;
            let place = logs.partition_point(|&it| found(it).latest < found(log).latest);
            logs.insert(place, log);
        }
    }

    /// Returns the logical block whose units `block` holds, if all of them lie at their own offsets.
    fn logical_block_in(&self, block: BlockIndex) -> Option<u32> {
        let per_block = self.geometry.units_per_block();
        let first = self.geometry.first_unit(block);
        let mut of_block = None;
        for (offset, at) in (0..per_block).zip(first.0..) {
            let Some(LogicalUnit(held)) = self.blocks.table().logical_at(PhysicalUnit(at)) else {
                continue;
            };
            let logical = held / per_block;
            if held % per_block != offset || of_block.is_some_and(|known| known != logical) {
                return None;
            }
            of_block = Some(logical);
        }
        of_block
    }

    /// Begins to reclaim the log blocks that the drive has too many of. Returns false if there are none. If
    /// there is no block to merge into, returns as an error the number of units that are left to copy to, and
    /// of those to be merged.
    pub(in crate::ftl) fn begin_to_reclaim_surplus(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<bool, (u32, u32)> {
        if !self.log().has_surplus() {
            return Ok(false);
        }
        // Each logical block without a data block may need one, and a merge needs one more in between.
        // Reclaiming a log block gives back what it takes of these.
        let without = self.log().data.iter().filter(|block| block.is_none()).count();
        if self.blocks.free() as usize <= without {
            let oldest = self.log().logs[0];
            return Err((0, self.blocks.table().valid(oldest)));
        }
        self.log().is_recovering = true;
        self.reclaim_surplus(context);
        Ok(true)
    }

    /// Continues to reclaim log blocks until there are no more than the drive has.
    pub(in crate::ftl) fn reclaim_surplus(&mut self, context: &mut Context<'_>) {
        while self.log().has_surplus() && !self.log().merges.are_in_flight() {
            self.reclaim_oldest_log(context);
        }
        let log = self.log();
        log.is_recovering = log.has_surplus() || log.merges.are_in_flight();
    }

    /// Begins a program unit of the random log, if none is begun. Returns false if a merge or an erased block
    /// has to be waited for.
    pub(in crate::ftl) fn begin_log_program(&mut self, context: &mut Context<'_>) -> bool {
        if self.log().merges.are_in_flight() {
            return false;
        }
        self.write_to(super::LogFrontier::Log);
        if self.placement.free_units() == 0 {
            let Some((block, program)) = self.place_in_log(context) else { return false };
            self.placement.begin_in(&self.blocks, &self.geometry, block, program);
            self.note_wait_for_merge(context.nand.now());
        }
        true
    }
}
