//! A map on flash, part of which is cached in RAM (DFTL).
//!
//! The map is stored in map pages of one mapping unit, with an entry of four bytes for each logical unit. RAM caches
//! whole map pages in two lists (segmented LRU): a page comes in on probation, a second use makes it protected, and
//! the page that was on probation for longest is evicted. The places of the map pages are always in RAM (the paper's
//! global translation directory).
//!
//! The scheme simulates time and flash traffic only: lookups use an ordinary complete map underneath. This file
//! tracks which map pages are in RAM and which of them are dirty; `ftl/map_traffic.rs` reads and writes them, and
//! `map_area.rs` assigns their places.
//!
//! Gupta, Kim, Urgaonkar: DFTL, ASPLOS 2009. The paper caches entries and writes all changed
//! entries of a map page back together; caching pages does the same with no search per entry, and
//! costs RAM for neighbours that random access does not use. The lists are those of Karedla, Love,
//! Wherry: Caching Strategies to Improve Disk System Performance, Computer 27(3), 1994, which the
//! paper uses too; that half of RAM is protected is assumed.

mod lists;
mod saved;

use std::sync::atomic::AtomicU32;

use super::map_area::{self, MapArea};
use super::{Mapping, PageMap, ParallelFill};
use crate::geometry::{Geometry, GeometryError};
use crate::snapshot::{Decoder, Encoder, SnapshotError};
use crate::ssd::Configuration;
use crate::units::{ByteLength, Instant, LogicalUnit, PhysicalUnit};
use lists::{List, Segment};

/// Bytes of an entry of the map: a physical unit in 32 bits.
const ENTRY: ByteLength = ByteLength::new(4);

/// Fewest map pages that RAM holds: one for each list, one that is being loaded and one that is being evicted.
pub(crate) const LEAST_PAGES: u32 = 4;

const NONE: u32 = u32::MAX;

/// A map on flash, simulated on top of a complete map in RAM.
#[derive(Clone, Debug)]
pub struct CachedMap<M: Mapping = PageMap> {
    truth: M,
    cache: MapCache,
}

impl CachedMap<PageMap> {
    /// Returns an empty map for the drive of `configuration`.
    ///
    /// # Errors
    /// Returns an error if the metadata blocks cannot hold the map.
    pub fn new(configuration: &Configuration) -> Result<Self, GeometryError> {
        let truth = PageMap::new(configuration.geometry.logical_units());
        CachedMap::over(truth, configuration)
    }

    /// Checks that the metadata blocks can hold the map.
    pub(crate) fn check_space(geometry: &Geometry) -> Result<(), GeometryError> {
        map_area::check_space(geometry, map_pages(geometry.logical_units(), geometry.unit_size()))
    }
}

impl<M: Mapping> CachedMap<M> {
    /// Returns a cached map over `truth`, an empty map of another kind.
    ///
    /// # Errors
    /// Returns an error if the metadata blocks cannot hold the map.
    pub fn over(truth: M, configuration: &Configuration) -> Result<Self, GeometryError> {
        Ok(CachedMap { truth, cache: MapCache::new(configuration)? })
    }
}

impl<M: ParallelFill> ParallelFill for CachedMap<M> {
    fn shared_entries(&mut self) -> &[AtomicU32] {
        self.truth.shared_entries()
    }
}

impl<M: Mapping> Mapping for CachedMap<M> {
    #[inline(always)]
    fn get(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.truth.get(unit)
    }

    #[inline(always)]
    fn set(&mut self, unit: LogicalUnit, physical: PhysicalUnit) -> Option<PhysicalUnit> {
        self.truth.set(unit, physical)
    }

    #[inline(always)]
    fn relocate(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.truth.relocate(unit, physical);
        self.cache.note_relocated(unit);
    }

    #[inline(always)]
    fn clear(&mut self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.truth.clear(unit)
    }

    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        self.truth.next_mapped(from)
    }

    #[inline(always)]
    fn prefetch(&self, unit: LogicalUnit) {
        self.truth.prefetch(unit);
    }

    #[inline(always)]
    fn cache(&mut self) -> Option<&mut MapCache> {
        Some(&mut self.cache)
    }

    fn clear_volatile_state(&mut self) {
        self.cache.evict_all();
    }

    fn copy_to_owned(&mut self) {
        self.truth.copy_to_owned();
    }

    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        self.truth.save(to)?;
        self.cache.save(to)
    }

    fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.truth.restore(from)?;
        self.cache.restore(from)
    }

    fn check_invariants(&self) {
        self.cache.check_invariants();
    }
}

#[derive(Clone, Copy, Debug)]
struct MapPage {
    next: u32,
    previous: u32,
    /// Place of the page in the map area plus one; zero for none.
    place: u32,
    segment: Segment,
    /// True if the page differs from the flash.
    dirty: bool,
    /// True if entries of the page that garbage collection has changed wait to be written to the page.
    moved: bool,
    /// Moment at which the page is in RAM.
    arrival: MapPageArrival,
}

/// RAM cache of a drive whose map is on flash, in map pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InRam {
    /// Number of pages that are in RAM, or on their way there.
    pub pages: u32,
    /// Number of pages that RAM can hold.
    pub capacity: u32,
    /// Number of pages in RAM that differ from the flash.
    pub dirty: u32,
}

/// Moment at which a map page is in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapPageArrival {
    /// At this instant.
    At(Instant),
    /// At the end of the load with this number.
    WithLoad(u32),
}

/// The RAM cache of map pages, and the map area of the flash.
#[derive(Clone, Debug)]
pub struct MapCache {
    entries_shift: u32,
    pages: Vec<MapPage>,
    capacity: u32,
    probation: List,
    protected: List,
    /// Map pages not in RAM with entries that garbage collection of the present victim has changed.
    moved: Vec<u32>,
    /// Such map pages of earlier victims, to be written while the next one is collected.
    batched: Vec<u32>,
    /// Number of `batched` pages written for each program unit that is collected.
    batched_per_step: u32,
    pub(crate) area: MapArea,
}

/// Returns the number of map pages of a drive: a map page takes one unit, with an entry of four bytes per logical
/// unit.
pub(crate) fn map_pages(logical_units: u32, unit_size: ByteLength) -> u32 {
    u64::from(logical_units).div_ceil(unit_size.whole(ENTRY)) as u32
}

impl MapCache {
    pub(crate) fn new(configuration: &Configuration) -> Result<MapCache, GeometryError> {
        let geometry = &configuration.geometry;
        let pages = map_pages(geometry.logical_units(), geometry.unit_size());
        let absent = MapPage {
            next: NONE,
            previous: NONE,
            place: 0,
            segment: Segment::Absent,
            dirty: false,
            moved: false,
            arrival: MapPageArrival::At(Instant::START),
        };
        Ok(MapCache {
            entries_shift: geometry.unit_size().whole(ENTRY).trailing_zeros(),
            pages: vec![absent; pages as usize],
            capacity: configuration.mechanisms.map_cache_pages.max(LEAST_PAGES),
            probation: List::EMPTY,
            protected: List::EMPTY,
            moved: Vec::new(),
            batched: Vec::new(),
            batched_per_step: 0,
            area: MapArea::new(geometry, pages)?,
        })
    }

    /// Returns the map page with the entry of `unit`.
    #[inline(always)]
    pub(crate) fn page_of(&self, unit: LogicalUnit) -> u32 {
        unit.0 >> self.entries_shift
    }

    /// Returns the binary logarithm of the number of entries of a map page.
    pub(crate) fn entries_shift(&self) -> u32 {
        self.entries_shift
    }

    /// Removes a page whose units are all trimmed. Returns its old place.
    pub(crate) fn remove(&mut self, page: u32) -> Option<PhysicalUnit> {
        if self.pages[page as usize].segment != Segment::Absent {
            self.take_out(page);
        }
        let entry = &mut self.pages[page as usize];
        entry.moved = false;
        std::mem::take(&mut entry.place).checked_sub(1).map(PhysicalUnit)
    }

    /// Returns the number of map pages of the drive.
    pub(crate) fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Removes all pages, none of which is in RAM, so that no unit of the map area is valid.
    pub(crate) fn clear(&mut self) {
        for page in 0..self.pages() {
            if let Some(place) = self.remove(page) {
                self.area.block_table.invalidate_unit(self.area.geometry.block_of(place));
            }
        }
    }

    /// Returns the place of `page` on flash.
    pub(crate) fn place(&self, page: u32) -> Option<PhysicalUnit> {
        self.pages[page as usize].place.checked_sub(1).map(PhysicalUnit)
    }

    /// Sets the place of `page`, which was written. Returns its old place.
    pub(crate) fn set_place(&mut self, page: u32, place: PhysicalUnit) -> Option<PhysicalUnit> {
        let entry = &mut self.pages[page as usize];
        std::mem::replace(&mut entry.place, place.0 + 1).checked_sub(1).map(PhysicalUnit)
    }

    /// Notes that garbage collection has moved `unit`: its entry changes in RAM, or in the batch of the present
    /// victim.
    #[inline(always)]
    fn note_relocated(&mut self, unit: LogicalUnit) {
        let page = self.page_of(unit);
        let entry = &mut self.pages[page as usize];
        if entry.segment != Segment::Absent {
            entry.dirty = true;
        } else if !entry.moved {
            entry.moved = true;
            self.moved.push(page);
        }
    }

    /// Ends the collection of a victim: its batch of map pages is to be written while the next victim, of `steps`
    /// program units, is collected.
    pub(crate) fn end_victim(&mut self, steps: u32) {
        self.batched.append(&mut self.moved);
        self.batched_per_step = (self.batched.len() as u32).div_ceil(steps);
    }

    /// Returns the number of map pages to write with each program unit that is collected.
    pub(crate) fn batched_per_step(&self) -> u32 {
        self.batched_per_step
    }

    /// Removes and returns a map page of the batch that is not in RAM; `None` if none is left.
    pub(crate) fn take_batched(&mut self) -> Option<u32> {
        while let Some(page) = self.batched.pop() {
            if std::mem::take(&mut self.pages[page as usize].moved) {
                return Some(page);
            }
        }
        None
    }

    /// Returns the next valid map page of the map area's victim, and its place.
    pub(crate) fn next_of_map_victim(&mut self) -> Option<(u32, PhysicalUnit)> {
        let pages = &self.pages;
        self.area.next_of_victim(|page| pages[page as usize].place.checked_sub(1).map(PhysicalUnit))
    }

    /// Notes that `page` is about to be written: if it is in RAM, it does not differ from the flash from then on.
    /// Returns the moment at which the page is in RAM, or `None` if it is not.
    pub(crate) fn clean(&mut self, page: u32) -> Option<MapPageArrival> {
        let entry = &mut self.pages[page as usize];
        if entry.segment == Segment::Absent {
            return None;
        }
        entry.dirty = false;
        Some(entry.arrival)
    }

    /// Returns true if `page` is in RAM and differs from the flash.
    pub(crate) fn is_dirty(&self, page: u32) -> bool {
        let entry = &self.pages[page as usize];
        entry.segment != Segment::Absent && entry.dirty
    }

    /// Returns the state of the RAM cache.
    pub(crate) fn in_ram(&self) -> InRam {
        let dirty = self.pages.iter().filter(|it| it.segment != Segment::Absent && it.dirty);
        InRam {
            pages: self.probation.len + self.protected.len,
            capacity: self.capacity,
            dirty: dirty.count() as u32,
        }
    }

    /// Checks that lists, places and the map area agree.
    fn check_invariants(&self) {
        for (list, segment) in
            [(self.probation, Segment::Probation), (self.protected, Segment::Protected)]
        {
            let (mut page, mut previous, mut len) = (list.head, NONE, 0);
            while page != NONE {
                let entry = &self.pages[page as usize];
                assert_eq!((entry.segment, entry.previous), (segment, previous), "page {page}");
                assert!(!entry.moved, "what is in RAM waits for no batch");
                (previous, page, len) = (page, entry.next, len + 1);
            }
            assert_eq!((len, previous), (list.len, list.tail), "the list of {segment:?}");
        }
        assert!(self.probation.len + self.protected.len <= self.capacity, "RAM holds its pages");
        let places: Vec<_> = (0..self.pages.len() as u32).map(|page| self.place(page)).collect();
        self.area.check_invariants(&places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;

    fn cache(pages: u32) -> MapCache {
        let mut configuration = small_configuration(&[("collection.metadata_units", "8")]);
        configuration.mechanisms.map_cache_pages = pages;
        MapCache::new(&configuration).expect("room for the map")
    }

    /// Uses a page. Returns true if the page was in RAM, and the page that was evicted.
    fn touch(cache: &mut MapCache, page: u32, change: bool) -> (bool, Option<u32>) {
        if cache.touch(page, change).is_some() {
            return (true, None);
        }
        let evicted = cache.evict_if_full();
        cache.insert(page, change, MapPageArrival::At(Instant::START));
        (false, evicted.map(|it| it.page))
    }

    #[test]
    fn a_page_used_twice_outlives_a_page_used_once() {
        let mut cache = cache(4);
        for page in [0, 1, 2, 3] {
            assert_eq!(touch(&mut cache, page, false), (false, None));
        }
        assert_eq!(touch(&mut cache, 0, false), (true, None));
        assert_eq!(touch(&mut cache, 4, false), (false, Some(1)));
        assert_eq!(touch(&mut cache, 5, false), (false, Some(2)));
        assert_eq!(touch(&mut cache, 0, false), (true, None));
        cache.check_invariants();
    }

    #[test]
    fn what_collection_moved_is_in_ram_or_in_one_batch() {
        let mut cache = cache(4);
        let entries = 1 << cache.entries_shift();
        touch(&mut cache, 1, false);
        for unit in [0, 1, 2 * entries, entries, 5] {
            cache.note_relocated(LogicalUnit(unit));
        }
        cache.end_victim(1);
        assert_eq!(cache.batched_per_step(), 2);
        touch(&mut cache, 2, false);
        assert_eq!(cache.take_batched(), Some(0));
        assert_eq!(cache.take_batched(), None, "page 2 took its change with it when it was read");
        assert!(cache.take_out(1).dirty && cache.take_out(2).dirty);
    }
}
