//! Recovery of a drive with log blocks.
//!
//! Which logical unit lies where is found as for any other drive. What is left to find out is what
//! each block is for, and that the spare areas say as well: a block in which every unit lies at
//! its own offset of one logical block can be its data block. Where there are several (a sequence
//! was being written, or a merge under way) the one with the most current units is, and the others
//! are taken for random log blocks, which may hold anything. So are all other blocks. When that
//! makes more log blocks than the drive has, the oldest are reclaimed at once, by the full merges
//! that reclaim them at any other time; the block that takes is one that nothing else ever uses.
//!
//! Power can be cut while such a merge is under way, and with what it has written the drive would
//! have one block less each time. So the spare areas of these merges say what they are: nothing
//! they copy from is erased before they are over, and one that is not over is left out and its block
//! erased, which takes the drive back to where the merge began. It is not over if anything of its
//! logical block is current elsewhere that is older than the merge.

use super::scan::{FoundBlock, Scan, number_at};
use super::{FlashContents, ProgramUnit, Recovery, RecoveryError};
use crate::flash::BlockState;
use crate::log_block::LogBlockSsd;
use crate::mapping::Mapping;
use crate::media::SequenceNumber;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, Instant, LogicalUnit, PhysicalUnit};

/// Returns the blocks with what a merge of an earlier recovery has written that was not over when power was cut.
pub(crate) fn unfinished_merges(
    configuration: &Configuration,
    scan: &Scan,
    contents: &impl FlashContents,
) -> Vec<BlockIndex> {
    let geometry = &configuration.geometry;
    let (per_block, per_program) = (geometry.units_per_block(), geometry.units_per_program());
    // Whether anything of the logical block that `unit` is in is current outside of `block`, and
    // older than `number`.
    let lacks = |block: BlockIndex, unit: LogicalUnit, number: SequenceNumber| {
        let first = unit.0 / per_block * per_block;
        let end = (first + per_block).min(geometry.logical_units());
        scan.current_in(LogicalUnit(first)..LogicalUnit(end)).any(|(_, at)| {
            geometry.block_of(at) != block && number_at(geometry, contents, at) < number
        })
    };
    let is_unfinished = |block: BlockIndex| {
        let first = geometry.first_unit(block).0;
        (0..scan.blocks[block.0 as usize].programs).any(|program| {
            let at = PhysicalUnit(first + program * per_program);
            let ProgramUnit::Programmed { number, spare } = contents.program_unit(at) else {
                return false;
            };
            let unit = spare.logical_units().flatten().next();
            unit.is_some_and(|unit| lacks(block, unit, number))
        })
    };
    let blocks = (0..geometry.blocks()).map(BlockIndex);
    blocks
        .filter(|&block| scan.blocks[block.0 as usize].is_redone && is_unfinished(block))
        .collect()
}

impl<M: Mapping, D: FlashContents> LogBlockSsd<M, D> {
    /// Opens a drive from what is on its flash, from `at` on, with an empty `map`.
    ///
    /// # Errors
    /// When the flash holds what this drive cannot have written, or has no room left.
    ///
    /// # Panics
    /// When the write buffer holds less than two program units; profiles check that.
    pub fn open(
        configuration: &Configuration,
        map: M,
        media: D,
        at: Instant,
    ) -> Result<(Self, Recovery), RecoveryError> {
        if configuration.mechanisms.retention.is_some() {
            return Err(RecoveryError::Unsupported { what: "data that ages" });
        }
        let mut scan = Scan::of(configuration, &media)?;
        let unfinished = unfinished_merges(configuration, &scan, &media);
        if !unfinished.is_empty() {
            scan = Scan::without(configuration, &media, &unfinished)?;
        }
        let mut drive = LogBlockSsd::with(configuration, map, media)?;
        let mut recovery = drive.as_ssd_mut().take_over_contents(&scan, at);
        drive.sort_found_blocks(&scan.blocks, &mut recovery)?;
        let saved = drive.as_ssd().saved_units()?;
        drive.restore_units(recovery.ready_at, &saved);
        recovery.units_saved = saved.len() as u32;
        recovery.ready_at = recovery.ready_at.max(drive.merging_until());
        recovery.took = recovery.ready_at.since(at);
        Ok((drive, recovery))
    }

    /// Makes each block free, a data block or a log block, or has it erased.
    fn sort_found_blocks(
        &mut self,
        blocks: &[FoundBlock],
        recovery: &mut Recovery,
    ) -> Result<(), RecoveryError> {
        let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
        order.sort_by_key(|&block| blocks[block as usize].latest);
        let ssd = self.as_ssd_mut();
        ssd.free = ssd.free.emptied();
        for &block in &order {
            let (found, block) = (blocks[block as usize], BlockIndex(block));
            let ssd = self.as_ssd_mut();
            if found.programs == 0 {
                let group = ssd.geometry.group_of(block);
                ssd.free.put(group, block, ssd.flash.erases(block));
                continue;
            }
            ssd.flash.take_over(block, BlockState::Closed, found.valid);
            ssd.flash.close(block, BlockState::Closed);
            if found.valid == 0 {
                recovery.blocks_to_erase += 1;
                self.erase(block, recovery.ready_at);
            }
        }
        let valid = |block: BlockIndex| blocks[block.0 as usize].valid;
        for block in order.into_iter().map(BlockIndex).filter(|&block| valid(block) > 0) {
            let log = match self.logical_block_of(block) {
                Some(logical) => match self.data_block(logical) {
                    Some(other) if valid(other) >= valid(block) => block,
                    other => {
                        self.set_data_block(logical, block);
                        let Some(other) = other else { continue };
                        other
                    }
                },
                None => block,
            };
            self.take_over_log(log, |it| blocks[it.0 as usize].latest);
        }
        self.reclaim_surplus_logs(recovery.ready_at)
            .map_err(|valid| RecoveryError::NoRoom { room: 0, valid })
    }

    /// The logical block all of whose units in `block` lie at their own offsets.
    fn logical_block_of(&self, block: BlockIndex) -> Option<u32> {
        let per_block = self.geometry().units_per_block();
        let first = self.geometry().first_unit(block).0;
        let mut of_block = None;
        for offset in 0..per_block {
            let Some(held) = self.as_ssd().flash.logical_at(PhysicalUnit(first + offset)) else {
                continue;
            };
            let (logical, at) = (held.0 / per_block, held.0 % per_block);
            if at != offset || of_block.is_some_and(|known| known != logical) {
                return None;
            }
            of_block = Some(logical);
        }
        of_block
    }
}
