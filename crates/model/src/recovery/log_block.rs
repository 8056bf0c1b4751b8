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

use super::scan::{Scan, number_at};
use super::{FlashContents, ProgramUnit};
use crate::media::SequenceNumber;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

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
