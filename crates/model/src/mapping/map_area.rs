//! The metadata blocks that hold the map pages of a map on flash.
//!
//! They are written by a stream of their own, one map page a unit, as collection units of the same
//! shape as those for data and with the same write buffer rules, and collected by a greedy
//! collector of their own.

use std::collections::VecDeque;

use crate::flash::{BlockState, Flash};
use crate::geometry::{Geometry, GeometryError, GeometryParameters};
use crate::policy::VictimPolicy;
use crate::stream::{FreePool, WriteStream};
use crate::units::{BlockIndex, PhysicalUnit};

/// Blocks for each group of dies that hold no map pages for long: one open, and two kept free, the
/// least with which collection can go on (one takes the copies while the other is erased).
const KEPT_PER_GROUP: u32 = 3;

/// A block of the map area that is being collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapVictim {
    pub(crate) block: BlockIndex,
    /// What was valid on it, and what not, when it was chosen.
    valid: u32,
    gain: u32,
    /// Moves owed, times `gain`.
    credit: u32,
    /// The next unit of it to look at.
    next: u32,
}

/// The blocks that hold the map.
#[derive(Clone, Debug)]
pub(crate) struct MapArea {
    /// The shape of the metadata blocks alone, numbered from zero.
    pub(crate) geometry: Geometry,
    pub(crate) flash: Flash,
    pub(crate) free: FreePool,
    pub(crate) stream: WriteStream,
    pub(crate) victim: Option<MapVictim>,
    /// Blocks from which all that was valid has been moved, in that order.
    pub(crate) emptied: VecDeque<BlockIndex>,
}

/// Checks that the metadata blocks of a drive can hold a map of `pages` map pages.
pub(crate) fn check_room(geometry: &Geometry, pages: u32) -> Result<(), GeometryError> {
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
        check_room(geometry, pages)?;
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
            flash: Flash::new(&geometry, VictimPolicy::Greedy, 0),
            free: FreePool::new(&geometry),
            stream: WriteStream::new(&geometry),
            victim: None,
            emptied: VecDeque::new(),
            geometry,
        })
    }

    /// Blocks that hold no map pages for long.
    pub(crate) fn blocks_kept(&self) -> u32 {
        self.geometry.groups() * KEPT_PER_GROUP
    }

    /// Begins anew what RAM knows of an area of which nothing is under way.
    pub(crate) fn forget_what_is_volatile(&mut self) {
        assert!(self.victim.is_none() && self.emptied.is_empty(), "nothing is under way");
    }

    /// Returns true if map collection has to go on.
    pub(crate) fn is_short_of_blocks(&self) -> bool {
        let coming = self.free.len() + self.emptied.len() as u32;
        coming < self.geometry.groups() * (KEPT_PER_GROUP - 1)
    }

    /// Returns how many map pages to move of the victim for a page that was written, so that it is empty by the time
    /// the stream has filled what it yields; whether it was chosen for this.
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
        let (block, valid) = self.flash.take_victim()?;
        self.flash.set_state(block, BlockState::Victim);
        let gain = self.geometry.units_per_block() - valid;
        assert!(gain > 0, "some block of the map has room to gain");
        Some(MapVictim { block, valid, gain, credit: 0, next: 0 })
    }

    /// The next map page of the victim that is valid, by its number and place, given where
    /// every map page lies.
    pub(crate) fn next_of_victim(
        &mut self,
        place_of: impl Fn(u32) -> Option<PhysicalUnit>,
    ) -> Option<(u32, PhysicalUnit)> {
        let victim = self.victim.as_mut()?;
        let first = self.geometry.first_unit(victim.block).0;
        while victim.next < self.geometry.units_per_block() {
            let place = PhysicalUnit(first + victim.next);
            victim.next += 1;
            let page = self.flash.logical_at(place).map(|page| page.0);
            if let Some(page) = page.filter(|&page| place_of(page) == Some(place)) {
                return Some((page, place));
            }
        }
        None
    }

    /// Hands the victim on to be erased when nothing on it is valid any more.
    pub(crate) fn finish_victim_if_empty(&mut self) -> bool {
        let Some(victim) = self.victim else {
            return true;
        };
        if self.flash.valid(victim.block) > 0 {
            return false;
        }
        self.emptied.push_back(victim.block);
        self.victim = None;
        true
    }

    /// Forgets what the block held that was emptied first, and makes it free; returns its group of
    /// dies.
    pub(crate) fn erase_emptied(&mut self) -> u32 {
        let block = self.emptied.pop_front().expect("some was emptied");
        let first = self.geometry.first_unit(block);
        self.flash.erase(block, first, self.geometry.units_per_block());
        let group = self.geometry.group_of(block);
        // Oldest first, whatever their wear.
        self.free.put(group, block, 0);
        group
    }

    /// Makes every block free, of an area in which nothing is valid or under way; returns the groups of dies
    /// of those that were written to.
    pub(crate) fn begin_anew(&mut self) -> Vec<u32> {
        assert!(self.victim.is_none() && self.emptied.is_empty(), "nothing is under way");
        self.stream = WriteStream::new(&self.geometry);
        let mut groups = Vec::new();
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            match self.flash.state(block) {
                BlockState::Free | BlockState::Retired => continue,
                BlockState::Closed | BlockState::Closing => self.flash.remove_victim(block),
                BlockState::OpenForHost | BlockState::OpenForCollection | BlockState::Victim => {}
            }
            self.flash.take_over(block, BlockState::Victim, 0);
            self.emptied.push_back(block);
            groups.push(self.erase_emptied());
        }
        groups
    }

    /// Checks valid counts and the free pool against where the pages lie.
    pub(crate) fn check_invariants(&self, places: &[Option<PhysicalUnit>]) {
        let mut valid = vec![0; self.geometry.blocks() as usize];
        for (page, place) in places.iter().enumerate() {
            let Some(place) = *place else { continue };
            let named = self.flash.logical_at(place).map(|page| page.0 as usize);
            assert_eq!(named, Some(page), "the spare area of map page {page}");
            valid[self.geometry.block_of(place).0 as usize] += 1;
        }
        let mut free = 0;
        for (index, &valid) in valid.iter().enumerate() {
            let block = BlockIndex(index as u32);
            match self.flash.state(block) {
                BlockState::Free => free += 1,
                BlockState::OpenForHost | BlockState::OpenForCollection => {
                    assert!(self.flash.valid(block) >= valid, "map pages of open {block:?}");
                    continue;
                }
                _ => {}
            }
            let counted = match self.flash.state(block) {
                BlockState::Free => 0,
                _ => self.flash.valid(block),
            };
            assert_eq!(counted, valid, "map pages of {block:?}");
        }
        assert_eq!(free, self.free.len(), "the free pool of the map holds every free block");
    }
}
