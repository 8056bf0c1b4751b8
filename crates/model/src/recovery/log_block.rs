//! Recovery of a drive with log blocks.
//!
//! The place of each logical unit is found as for any other drive. Recovery also has to find the use of each block,
//! which the spare areas tell as well: a block in which every unit has its own offset in one logical block can be the
//! data block of that logical block. If there are several such blocks (a sequential log was being written, or a merge
//! was under way), the one with the most current units is the data block. The others, and all other blocks, become
//! random log blocks, which may hold any units. If that makes more log blocks than the drive has, the oldest are
//! reclaimed immediately, by the same full merges as at any other time; these merges need one block, which is
//! reserved for them.
//!
//! A power cut can come during such a merge, and the block that the merge has begun would cost the drive one block
//! each time. So the spare areas of these merges have a mark. None of the blocks that a merge copies from is erased
//! before the merge is complete. An incomplete merge is left out and its block erased, which takes the drive back to
//! where the merge began. A merge is incomplete if any unit of its logical block is current elsewhere with a number
//! older than the merge.

use super::scan::{Scan, number_at};
use super::{FlashContents, ProgramUnit};
use crate::media::SequenceNumber;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

/// Returns the blocks written by a merge of an earlier recovery that was incomplete when power was cut.
pub(crate) fn unfinished_merges(
    configuration: &Configuration,
    scan: &Scan,
    contents: &impl FlashContents,
) -> Vec<BlockIndex> {
    let geometry = &configuration.geometry;
    let (per_block, per_program) = (geometry.units_per_block(), geometry.units_per_program());
    // True if a unit of the logical block that `unit` is in is current outside of `block`, and older than `number`.
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
        .filter(|&block| scan.blocks[block.0 as usize].is_recovery_merge && is_unfinished(block))
        .collect()
}
