//! The metadata blocks that hold the map pages of a map on flash.
//!
//! The map area has a write stream of its own, with one map page per unit. Its collection units have the same shape
//! as those for data and the same write buffer rules; a greedy garbage collector of its own collects them.

use std::collections::VecDeque;

use crate::block_table::{BlockState, BlockTable};
use crate::free_block_pool::FreeBlockPool;
use crate::geometry::{Geometry, GeometryError, GeometryParameters};
use crate::policy::VictimPolicy;
use crate::units::{BlockIndex, PhysicalUnit};
use crate::write_frontier::WriteFrontier;

/// Blocks per group of dies that do not hold map pages for long: one open, and two kept free. Two is the least with
/// which garbage collection can continue (one takes the copies while the other is erased).
const KEPT_PER_GROUP: u32 = 3;

/// A block of the map area that is being collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapVictim {
    pub(crate) block: BlockIndex,
    /// Valid and invalid units of the block when it was chosen.
    valid: u32,
    gain: u32,
    /// Accumulated map pages to move, times `gain`.
    credit: u32,
    /// Next unit of the block to look at.
    next: u32,
}

/// The blocks that hold the map.
#[derive(Clone, Debug)]
pub(crate) struct MapArea {
    /// Geometry of the metadata blocks alone, numbered from zero.
    pub(crate) geometry: Geometry,
    pub(crate) block_table: BlockTable,
    pub(crate) free: FreeBlockPool,
    pub(crate) frontier: WriteFrontier,
    pub(crate) victim: Option<MapVictim>,
    /// Blocks whose valid data has been moved, in that order.
    pub(crate) reclaimed: VecDeque<BlockIndex>,
}

/// Checks that the metadata blocks of a drive can hold a map of `pages` map pages.
pub(crate) fn check_space(geometry: &Geometry, pages: u32) -> Result<(), GeometryError> {
    let groups = geometry.groups();
    let given = geometry.parameters().metadata_collection_units;
    let full = u64::from(pages).div_ceil(geometry.units_per_block().into()) as u32;
    let needed = (groups * KEPT_PER_GROUP + full + 1).next_multiple_of(groups).max(4);
    if given >= needed {
        return Ok(());
    }
    Err(GeometryError::NoRoomForMap { pages, given, needed })
}

impl MapArea {
    pub(crate) fn new(geometry: &Geometry, pages: u32) -> Result<MapArea, GeometryError> {
        check_space(geometry, pages)?;
        let groups = geometry.groups();
        let given = geometry.parameters().metadata_collection_units;
        let geometry = Geometry::new(GeometryParameters {
            collection_units: given / groups * groups,
            metadata_collection_units: 0,
            reserve_collection_units: 0,
            logical_units: pages,
            ..geometry.parameters().clone()
        })?;
        Ok(MapArea {
            block_table: BlockTable::new(&geometry, VictimPolicy::Greedy, 0),
            free: FreeBlockPool::new(&geometry),
            frontier: WriteFrontier::new(&geometry),
            victim: None,
            reclaimed: VecDeque::new(),
            geometry,
        })
    }

    /// Returns the number of blocks that do not hold map pages for long.
    pub(crate) fn min_free_blocks(&self) -> u32 {
        self.geometry.groups() * KEPT_PER_GROUP
    }

    /// Checks that no work is under way, as before power-off: then RAM holds nothing to forget.
    pub(crate) fn clear_volatile_state(&mut self) {
        assert!(self.victim.is_none() && self.reclaimed.is_empty(), "nothing is under way");
    }

    /// Returns true if garbage collection of the map area has to continue.
    pub(crate) fn is_short_of_blocks(&self) -> bool {
        let coming = self.free.len() + self.reclaimed.len() as u32;
        coming < self.geometry.groups() * (KEPT_PER_GROUP - 1)
    }

    /// Returns the number of map pages to move from the victim for one page that was written, so that the victim is
    /// empty by the time the stream has filled the units that it gains; `None` if there is no victim. The flag is
    /// true if the victim was chosen by this call.
    pub(crate) fn moves_for_a_page(&mut self) -> (Option<u32>, bool) {
        let begun = self.victim.is_none();
        if begun {
            self.victim = self.choose_victim();
        }
        let Some(victim) = self.victim.as_mut() else {
            return (None, false);
        };
        victim.credit += victim.valid;
        let moves = victim.credit / victim.gain;
        victim.credit %= victim.gain;
        (Some(moves), begun)
    }

    fn choose_victim(&mut self) -> Option<MapVictim> {
        let (block, valid) = self.block_table.take_victim(None)?;
        self.block_table.set_state(block, BlockState::Victim);
        let gain = self.geometry.units_per_block() - valid;
        assert!(gain > 0, "some block of the map has room to gain");
        Some(MapVictim { block, valid, gain, credit: 0, next: 0 })
    }

    /// Returns the next valid map page of the victim, as its number and place; `place_of` returns the place of a map
    /// page.
    pub(crate) fn next_of_victim(
        &mut self,
        place_of: impl Fn(u32) -> Option<PhysicalUnit>,
    ) -> Option<(u32, PhysicalUnit)> {
        let victim = self.victim.as_mut()?;
        let first = self.geometry.first_unit(victim.block).0;
        while victim.next < self.geometry.units_per_block() {
            let place = PhysicalUnit(first + victim.next);
            victim.next += 1;
            let page = self.block_table.logical_at(place).map(|page| page.0);
            if let Some(page) = page.filter(|&page| place_of(page) == Some(place)) {
                return Some((page, place));
            }
        }
        None
    }

    /// Queues the victim for its erase if none of its units is valid. Returns true if there is no victim any more.
    pub(crate) fn finish_victim_if_empty(&mut self) -> bool {
        let Some(victim) = self.victim else {
            return true;
        };
        if self.block_table.valid(victim.block) > 0 {
            return false;
        }
        self.reclaimed.push_back(victim.block);
        self.victim = None;
        true
    }

    /// Makes the block free that was reclaimed first, and returns its group of dies.
    pub(crate) fn erase_reclaimed(&mut self) -> u32 {
        let block = self.reclaimed.pop_front().expect("some was reclaimed");
        let first = self.geometry.first_unit(block);
        self.block_table.erase(block, first, self.geometry.units_per_block());
        let group = self.geometry.group_of(block);
        // The free pool takes the block freed first, whatever its wear.
        self.free.put(group, block, 0);
        group
    }

    /// Makes every block of the area free; no unit of the area is valid and no work is under way. Returns the group
    /// of dies of each block that was written to.
    pub(crate) fn reset(&mut self) -> Vec<u32> {
        assert!(self.victim.is_none() && self.reclaimed.is_empty(), "nothing is under way");
        self.frontier = WriteFrontier::new(&self.geometry);
        let mut groups = Vec::new();
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            match self.block_table.state(block) {
                BlockState::Free | BlockState::Retired => continue,
                BlockState::Closed | BlockState::Closing => self.block_table.remove_victim(block),
                BlockState::OpenForHost | BlockState::OpenForCollection | BlockState::Victim => {}
            }
            self.block_table.set_block(block, BlockState::Victim, 0);
            self.reclaimed.push_back(block);
            groups.push(self.erase_reclaimed());
        }
        groups
    }

    /// Checks valid counts and the free pool against the places of the map pages.
    pub(crate) fn check_invariants(&self, places: &[Option<PhysicalUnit>]) {
        let mut valid = vec![0; self.geometry.blocks() as usize];
        for (page, place) in places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let named = self.block_table.logical_at(place).map(|page| page.0 as usize);
            assert_eq!(named, Some(page), "the spare area of map page {page}");
            valid[self.geometry.block_of(place).0 as usize] += 1;
        }
        let mut free = 0;
        for (index, &valid) in valid.iter().enumerate() {
            let block = BlockIndex(index as u32);
            match self.block_table.state(block) {
                BlockState::Free => free += 1,
                BlockState::OpenForHost | BlockState::OpenForCollection => {
                    assert!(self.block_table.valid(block) >= valid, "map pages of open {block:?}");
                    continue;
                }
                _ => {}
            }
            let counted = match self.block_table.state(block) {
                BlockState::Free => 0,
                _ => self.block_table.valid(block),
            };
            assert_eq!(counted, valid, "map pages of {block:?}");
        }
        assert_eq!(free, self.free.len(), "the free pool of the map holds every free block");
    }
}
