//! Saved state of a map on flash: the places of the map pages and the blocks of the map area. The drive was shut
//! down, so that RAM holds no map page, and none differs from the flash.

use super::MapCache;
use crate::block_table::BlockState;
use crate::mapping::cached::MapPageArrival;
use crate::mapping::map_area::MapArea;
use crate::snapshot::check::Blocks;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::{Instant, LogicalUnit, PhysicalUnit};

impl MapCache {
    /// Returns the map pages in RAM that differ from the flash.
    pub(crate) fn dirty_pages(&self) -> Vec<u32> {
        (0..self.pages.len() as u32).filter(|&page| self.is_dirty(page)).collect()
    }

    /// Evicts all pages from RAM, none of which differs from the flash, and forgets loads.
    pub(super) fn evict_all(&mut self) {
        assert!(
            self.moved.is_empty() && self.batched.is_empty(),
            "what collection changed is written"
        );
        while let Some(page) = [self.probation.tail, self.protected.tail].into_iter().find(is_page)
        {
            assert!(!self.take_out(page).dirty, "what was changed is written");
        }
        for page in &mut self.pages {
            page.arrival = MapPageArrival::At(Instant::START);
        }
        self.area.clear_volatile_state();
    }

    pub(super) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let MapCache {
            // From the configuration.
            entries_shift: _,
            capacity: _,
            // Empty on a drive that was shut down.
            probation,
            protected,
            moved: _,
            batched: _,
            batched_per_step: _,
            pages,
            area,
        } = self;
        assert!(probation.len + protected.len == 0, "the drive was shut down");
        let places: Vec<u32> = pages.iter().map(|page| page.place).collect();
        to.table(&places)?;
        area.save(to)
    }

    pub(super) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        let places = from.table(self.pages.len())?;
        self.area.restore(from)?;
        for (page, place) in (0..).zip(places) {
            let Some(at) = place.checked_sub(1).map(PhysicalUnit) else { continue };
            let area = &mut self.area;
            if at.0 >= area.geometry.physical_units() || area.block_table.logical_at(at).is_some() {
                return damaged(format!("map page {page} lies where it cannot"));
            }
            area.block_table.note_written(at, LogicalUnit(page));
            self.pages[page as usize].place = place;
        }
        self.area.check_restored()
    }
}

/// Returns true if a link of a list leads to a page.
fn is_page(page: &u32) -> bool {
    *page != super::NONE
}

impl MapArea {
    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let MapArea {
            // From the configuration.
            geometry: _,
            // Empty on a drive that was shut down.
            victim,
            reclaimed,
            block_table,
            free,
            frontier,
        } = self;
        assert!(victim.is_none() && reclaimed.is_empty(), "the drive was shut down");
        block_table.save(to)?;
        free.save(to)?;
        frontier.save(to)
    }

    fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.block_table.restore(from, self.geometry.units_per_block())?;
        // The free pool takes the block freed first, whatever its wear.
        self.free.restore(from, |_| 0)?;
        self.frontier.restore(from, &self.geometry)
    }

    /// Checks that the tables agree with each other.
    fn check_restored(&self) -> Result<(), SnapshotError> {
        let mut blocks = Blocks::new(&self.geometry, &self.block_table);
        for (block, programs) in self.frontier.open_blocks() {
            blocks.note_open(block, programs, BlockState::OpenForHost)?;
        }
        blocks.note_free(&self.free)?;
        let per_block = self.geometry.units_per_block();
        let per_program = self.geometry.units_per_program();
        if blocks.check(|_, programs| per_block - programs * per_program)? > 0 {
            return damaged("blocks of the map do not go bad");
        }
        if self.free.is_empty() {
            return damaged("no block is left to write the map to");
        }
        Ok(())
    }
}
