//! Consistency checks of restored blocks: every block is in the lists that its state requires, and holds as many
//! valid units as counted.

use super::{SnapshotError, damaged};
use crate::block_table::{BlockState, BlockTable};
use crate::free_block_pool::FreeBlockPool;
use crate::geometry::Geometry;
use crate::units::BlockIndex;

/// Blocks noted from restored lists, to be compared with the flash tables.
pub(crate) struct Blocks<'a> {
    geometry: &'a Geometry,
    block_table: &'a BlockTable,
    /// Per block that a stream writes to, its filled program units.
    open: Vec<Option<u32>>,
    /// Per block, true if a list of free or of closed blocks holds it.
    is_listed: Vec<bool>,
    free: u32,
}

impl<'a> Blocks<'a> {
    /// Returns an empty check for a drive, or for its map area.
    pub(crate) fn new(geometry: &'a Geometry, block_table: &'a BlockTable) -> Self {
        let blocks = geometry.blocks() as usize;
        Blocks {
            geometry,
            block_table,
            open: vec![None; blocks],
            is_listed: vec![false; blocks],
            free: 0,
        }
    }

    /// Notes that a stream writes to `block`, of which `programs` program units are filled. The state of the block
    /// has to be `state`.
    pub(crate) fn note_open(
        &mut self,
        block: BlockIndex,
        programs: u32,
        state: BlockState,
    ) -> Result<(), SnapshotError> {
        let entry = &mut self.open[block.0 as usize];
        if self.block_table.state(block) != state || entry.is_some() {
            return damaged(format!("no stream can write to block {}", block.0));
        }
        *entry = Some(programs);
        Ok(())
    }

    /// Notes that the blocks of `pool` are free.
    pub(crate) fn note_free(&mut self, pool: &FreeBlockPool) -> Result<(), SnapshotError> {
        self.free = pool.len();
        for block in pool.blocks() {
            self.list(block)?;
        }
        Ok(())
    }

    fn list(&mut self, block: BlockIndex) -> Result<(), SnapshotError> {
        if std::mem::replace(&mut self.is_listed[block.0 as usize], true) {
            return damaged(format!("block {} is listed more than once", block.0));
        }
        Ok(())
    }

    /// Compares all that was noted with the flash tables; `left_of` returns the number of units that an open block
    /// will still take after a number of program units. Returns the number of retired blocks.
    pub(crate) fn check(
        mut self,
        left_of: impl Fn(BlockIndex, u32) -> u32,
    ) -> Result<u32, SnapshotError> {
        for block in self.block_table.closed_blocks() {
            self.list(block)?;
        }
        let (mut free, mut closed, mut retired) = (0, 0, 0);
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            match self.block_table.state(block) {
                BlockState::Free => free += 1,
                BlockState::Closed => closed += 1,
                BlockState::Retired => retired += 1,
                _ => {}
            }
            if !self.is_fine(block, &left_of) {
                return damaged(format!("block {} does not hold what is said of it", block.0));
            }
        }
        // Every free and closed block is listed, and the counts are equal, so that no other block is listed.
        if closed != self.block_table.closed() || free != self.free {
            return damaged("the lists of free and closed blocks hold others, too");
        }
        Ok(retired)
    }

    fn is_fine(&self, block: BlockIndex, left_of: &impl Fn(BlockIndex, u32) -> u32) -> bool {
        let (geometry, index) = (self.geometry, block.0 as usize);
        let is_listed = self.is_listed[index];
        let valid = self.block_table.valid(block);
        match (self.block_table.state(block), self.open[index]) {
            (BlockState::Free, None) => {
                is_listed && valid == 0 && self.reverse_entries_in(block, 0) == Some(0)
            }
            (BlockState::Closed, None) => {
                is_listed
                    && self.reverse_entries_in(block, geometry.units_per_block()) == Some(valid)
            }
            (BlockState::OpenForHost | BlockState::OpenForCollection, Some(programs)) => {
                let held = self.reverse_entries_in(block, programs * geometry.units_per_program());
                !is_listed && held.map(|held| held + left_of(block, programs)) == Some(valid)
            }
            (BlockState::Retired, None) => {
                !is_listed && valid == 0 && self.reverse_entries_in(block, 0) == Some(0)
            }
            _ => false,
        }
    }

    /// Returns the number of valid units of a block of which `written` units are written; `None` if units beyond
    /// these hold data.
    fn reverse_entries_in(&self, block: BlockIndex, written: u32) -> Option<u32> {
        let (written, rest) = self.block_table.reverse_entries_in(block, self.geometry, written);
        (rest == 0).then_some(written)
    }
}
