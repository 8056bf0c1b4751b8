//! Saving and restoring log blocks.

use super::{LogBlocks, OpenLog};
use crate::block_table::BlockState;
use crate::ftl::{Context, Ftl};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::precondition::FilledBlocks;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::{BlockIndex, PhysicalUnit};

/// Saved value for a logical block without a data block.
const NO_BLOCK: u32 = u32::MAX;

impl LogBlocks {
    /// Writes the block map and the log blocks of a drive that was shut down.
    pub(in crate::ftl) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        assert!(self.is_idle() && self.sequence.is_none(), "the drive was shut down");
        for block in &self.data {
            to.word(block.map_or(NO_BLOCK, |block| block.0))?;
        }
        to.list(self.logs.iter().map(|block| block.0))?;
        Ok(to.word(self.group)?)
    }

    /// Takes over the blocks of a new drive that is preconditioned.
    pub(in crate::ftl) fn set_filled_blocks(&mut self, filled: FilledBlocks) {
        let FilledBlocks { data, logs, open_programs, group } = filled;
        self.data = data.into_iter().map(Some).collect();
        self.logs = logs.into();
        let open = self.logs.back().copied().zip(open_programs);
        self.open_log = open.map(|(block, programs)| OpenLog { block, programs });
        self.group = group;
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Enqueues the work that has to be done before the drive can be turned off: the sequence is merged, and
    /// the program unit of the random log is padded and programmed.
    pub(in crate::ftl) fn end_log(&mut self, context: &mut Context<'_>) {
        self.end_sequence(context);
        self.pad_log(context);
        if self.log().is_idle() {
            self.clear_replaced();
        }
    }

    /// Clears the reverse map for units in log blocks that are valid elsewhere: a drive that is turned on does
    /// not know them.
    fn clear_replaced(&mut self) {
        let per_block = self.geometry.units_per_block();
        let logs = self.log().logs.clone();
        for block in logs {
            let first = self.geometry.first_unit(block).0;
            for place in (first..first + per_block).map(PhysicalUnit) {
                let held = self.blocks.table().logical_at(place);
                if held.is_some_and(|unit| !self.map.is_mapped_to(unit, place)) {
                    self.blocks.table_mut().clear_reverse_entry(place);
                }
            }
        }
    }

    /// Restores the log blocks; all else was restored before.
    pub(in crate::ftl) fn restore_log(
        &mut self,
        from: &mut Decoder<'_>,
    ) -> Result<(), SnapshotError> {
        let (Some(log), geometry) = (self.log_blocks.as_mut(), &self.geometry) else {
            return Ok(());
        };
        let block_table = self.blocks.table();
        let mut is_used = vec![false; geometry.blocks() as usize];
        let mut use_block = |block: BlockIndex| {
            let used = is_used.get_mut(block.0 as usize).map(|it| std::mem::replace(it, true));
            if used == Some(false) { Ok(()) } else { damaged("a block is used for two things") }
        };
        let mut open = self.placement.frontier().open_blocks();
        log.open_log = open.next().map(|(block, programs)| OpenLog { block, programs });
        if open.next().is_some() || self.collector.frontier().open_blocks().next().is_some() {
            return damaged("more than one log block is being filled");
        }
        for slot in &mut log.data {
            let block = BlockIndex(from.word()?);
            if block.0 == NO_BLOCK {
                continue;
            }
            use_block(block)?;
            if block_table.state(block) != BlockState::Closed {
                return damaged(format!("block {} is no data block", block.0));
            }
            *slot = Some(block);
        }
        let logs = from.list(log.logs_max, geometry.blocks(), "the list of log blocks")?;
        for block in logs.into_iter().map(BlockIndex) {
            use_block(block)?;
            let is_open = log.open_log.is_some_and(|open| open.block == block);
            if !is_open && block_table.state(block) != BlockState::Closed {
                return damaged(format!("block {} is no log block", block.0));
            }
            log.logs.push_back(block);
        }
        if log.open_log.is_some_and(|open| log.logs.back() != Some(&open.block)) {
            return damaged("the log block that is being filled is not the latest");
        }
        let used = is_used.iter().filter(|&&used| used).count();
        if used + self.blocks.free() as usize != geometry.blocks() as usize {
            return damaged("a block has no use");
        }
        log.group = from.at_most(geometry.groups() - 1, "a group of dies")?;
        Ok(())
    }

    /// Checks that a data block holds each unit at its own place.
    pub(in crate::ftl) fn check_data_blocks(&self) -> Result<(), SnapshotError> {
        let geometry = &self.geometry;
        for (logical, &slot) in (0..).zip(self.log_blocks.iter().flat_map(|log| &log.data)) {
            let Some(block) = slot else { continue };
            let first_logical = logical * geometry.units_per_block();
            let held = self
                .blocks
                .table()
                .reverse_entries(geometry.first_unit(block), geometry.units_per_block());
            let is_own =
                |(&held, offset): (&u32, u32)| held == 0 || held == first_logical + offset + 1;
            if !held.iter().zip(0..).all(is_own) {
                return damaged(format!("block {} is no data block", block.0));
            }
        }
        Ok(())
    }
}
