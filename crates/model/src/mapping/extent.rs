//! An extent map, in a table of bounded RAM.
//!
//! An extent is a run of logical units that are consecutive in the flash, or a run of unmapped units. The table has
//! one entry for each extent, and its RAM limits their number. The logical units are divided into regions as large as
//! a collection unit, each with entries of its own, so that an extent ends with its region. When the table is full,
//! the region with the most extents is compacted: its fragments are read and written again as one
//! run (see `ftl/extent_compaction.rs`).
//!
//! The scheme simulates table space and time only: lookups use an ordinary complete map underneath, and this file
//! counts the extents that it would take. An entry that changes is compared with its two neighbours, so that counting
//! costs the same however long the extents are.
//!
//! S. Pakhomov (KompyuterPress 01/2011) infers such a map for drives of 2009 with little RAM, from a drive whose
//! random writes collapse long before free blocks run out; no maker has published its scheme. Extents for whole
//! blocks with fragments beside them are what hybrid mapping schemes have in common (Lee et al., FAST: A log
//! buffer-based flash translation layer using fully-associative sector translation, ACM TECS 6(3), 2007).

use super::regions::RegionQueue;
use super::{Mapping, PageMap};
use crate::geometry::Geometry;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::{ByteLength, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Bytes of an entry of the table: a logical and a physical unit in 32 bits each.
pub const EXTENT_SIZE: ByteLength = ByteLength::new(8);

/// Fewest entries per region: with all regions compacted there is room for any write.
const LEAST_PER_REGION: u32 = 4;

/// Parameters of the extent table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentParameters {
    /// Number of extents that the table has room for.
    pub extents_max: u32,
    /// Time to find the extent of a unit in another region than the last lookup.
    pub search: Nanoseconds,
    /// Time for each further extent of a request.
    pub per_extent: Nanoseconds,
}

impl ExtentParameters {
    /// Returns the smallest table, in extents, that a drive of this geometry needs.
    pub(crate) fn least_extents(geometry: &Geometry) -> u32 {
        regions(geometry).saturating_mul(LEAST_PER_REGION)
    }
}

/// Returns the number of regions of a drive.
fn regions(geometry: &Geometry) -> u32 {
    geometry.logical_units().div_ceil(geometry.units_per_block())
}

/// The extent table: counts of extents, and the limit on them.
#[derive(Clone, Debug)]
pub struct ExtentTable {
    parameters: ExtentParameters,
    units_per_region: u32,
    /// Provides fast division by `units_per_region`.
    geometry: Geometry,
    regions: RegionQueue,
    extents: u32,
    /// Region of the last lookup.
    last_region: u32,
}

impl ExtentTable {
    fn new(geometry: &Geometry, parameters: ExtentParameters) -> Self {
        let regions = regions(geometry);
        ExtentTable {
            parameters,
            units_per_region: geometry.units_per_block(),
            geometry: geometry.clone(),
            regions: RegionQueue::new(regions, geometry.units_per_block()),
            extents: regions,
            last_region: u32::MAX,
        }
    }

    /// Returns the number of extents in the table.
    pub fn extents(&self) -> u32 {
        self.extents
    }

    /// Returns the number of extents that the table has room for.
    pub fn extents_max(&self) -> u32 {
        self.parameters.extents_max
    }

    /// Returns the number of extents that a write of the units from `first` to `last` may add: its own, the rest
    /// behind it, two more for each further region, and one for a continuation in another block.
    pub(crate) fn needed_for(&self, first: LogicalUnit, last: LogicalUnit) -> u32 {
        3 + 2 * (self.region_of(last) - self.region_of(first))
    }

    /// Returns true if the table has no room for `needed` more extents.
    #[inline(always)]
    pub(crate) fn is_short_of(&self, needed: u32) -> bool {
        self.extents + needed > self.parameters.extents_max
    }

    /// Returns the region with the most extents, and their number.
    pub(crate) fn most_fragmented(&mut self) -> (u32, u32) {
        self.regions.most()
    }

    /// Returns the range of units of `region`.
    pub(crate) fn units_of(&self, region: u32) -> std::ops::Range<u32> {
        let first = region * self.units_per_region;
        first..(first + self.units_per_region).min(self.geometry.logical_units())
    }

    #[inline(always)]
    fn region_of(&self, unit: LogicalUnit) -> u32 {
        // A region has as many units as a block.
        self.geometry.block_of(PhysicalUnit(unit.0)).0
    }

    #[inline(always)]
    fn change(&mut self, region: u32, before: u32, after: u32) {
        if before != after {
            self.extents = self.extents + after - before;
            self.regions.change(region, before, after);
        }
    }
}

/// An extent map, simulated on top of a complete map in RAM.
#[derive(Clone, Debug)]
pub struct ExtentMap<M: Mapping = PageMap> {
    truth: M,
    table: ExtentTable,
}

impl ExtentMap<PageMap> {
    /// Returns an empty map for a drive of this geometry.
    pub fn new(geometry: &Geometry, parameters: ExtentParameters) -> Self {
        ExtentMap::over(PageMap::new(geometry.logical_units()), geometry, parameters)
    }
}

impl<M: Mapping> ExtentMap<M> {
    /// Returns an extent map over `truth`, an empty map of another kind.
    pub fn over(truth: M, geometry: &Geometry, parameters: ExtentParameters) -> Self {
        ExtentMap { truth, table: ExtentTable::new(geometry, parameters) }
    }

    /// Returns the extent table.
    pub fn table(&self) -> &ExtentTable {
        &self.table
    }

    /// Returns true if an extent starts at `unit`, which is not the first of its region.
    #[inline(always)]
    fn extent_starts_at(&self, unit: u32) -> bool {
        let before = self.truth.get(LogicalUnit(unit - 1));
        let here = self.truth.get(LogicalUnit(unit));
        let continues = match (before, here) {
            (Some(before), Some(here)) => here.0 == before.0 + 1,
            (before, here) => before.is_none() && here.is_none(),
        };
        !continues
    }

    /// Counts the extents of a region one by one.
    fn count(&self, region: u32) -> u32 {
        let units = self.table.units_of(region);
        1 + (units.start + 1..units.end)
            .map(|unit| u32::from(self.extent_starts_at(unit)))
            .sum::<u32>()
    }

    /// Changes the entry of `unit` by `change`, and updates the number of extents.
    #[inline(always)]
    fn change<T>(&mut self, unit: LogicalUnit, change: impl FnOnce(&mut M) -> T) -> T {
        let region = self.table.region_of(unit);
        let first = region * self.table.units_per_region;
        let last = first + self.table.units_per_region - 1;
        let has_before = unit.0 > first;
        let has_behind = unit.0 < last && unit.0 + 1 < self.table.geometry.logical_units();
        let count = |map: &Self| {
            let starts_here = has_before && map.extent_starts_at(unit.0);
            let starts_behind = has_behind && map.extent_starts_at(unit.0 + 1);
            u32::from(starts_here) + u32::from(starts_behind)
        };
        let before = count(self);
        let result = change(&mut self.truth);
        let after = count(self);
        self.table.change(region, before, after);
        result
    }
}

impl<M: Mapping> Mapping for ExtentMap<M> {
    #[inline(always)]
    fn get(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.truth.get(unit)
    }

    #[inline(always)]
    fn set(&mut self, unit: LogicalUnit, physical: PhysicalUnit) -> Option<PhysicalUnit> {
        self.change(unit, |truth| truth.set(unit, physical))
    }

    #[inline(always)]
    fn relocate(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.change(unit, |truth| truth.relocate(unit, physical));
    }

    #[inline(always)]
    fn fill(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.change(unit, |truth| truth.fill(unit, physical));
    }

    #[inline(always)]
    fn clear(&mut self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.change(unit, |truth| truth.clear(unit))
    }

    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        self.truth.next_mapped(from)
    }

    #[inline(always)]
    fn prefetch(&self, unit: LogicalUnit) {
        self.truth.prefetch(unit);
    }

    #[inline(always)]
    fn extents(&mut self) -> Option<&mut ExtentTable> {
        Some(&mut self.table)
    }

    /// Adds the search time if the request is in another region than the last one; further extents of the request
    /// follow in the table.
    #[inline(always)]
    fn time_to_find(&mut self, first: LogicalUnit, units: u32) -> Nanoseconds {
        let ExtentParameters { search, per_extent, .. } = self.table.parameters;
        let region = self.table.region_of(first);
        let found = if region == self.table.last_region { Nanoseconds::ZERO } else { search };
        let last = LogicalUnit(first.0 + units - 1);
        self.table.last_region = self.table.region_of(last);
        if units == 1 || per_extent == Nanoseconds::ZERO {
            return found;
        }
        let further: u32 =
            (first.0 + 1..=last.0).map(|unit| u32::from(self.extent_starts_at(unit))).sum();
        found + per_extent * u64::from(further)
    }

    /// Forgets the region of the last lookup.
    fn clear_volatile_state(&mut self) {
        self.table.last_region = u32::MAX;
    }

    fn copy_to_owned(&mut self) {
        self.truth.copy_to_owned();
    }

    /// Saves the map and the order of the regions. The number of extents of each region follows from the map; the
    /// order of equal regions does not.
    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        self.truth.save(to)?;
        let regions: Vec<u32> = self.table.regions.in_order().collect();
        Ok(to.list(regions.into_iter())?)
    }

    fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.truth.restore(from)?;
        let regions = regions(&self.table.geometry);
        let order = from.list(regions, regions, "the list of regions")?;
        let mut is_listed = vec![false; regions as usize];
        let twice = order.iter().any(|&it| std::mem::replace(&mut is_listed[it as usize], true));
        if twice || order.len() < regions as usize {
            return damaged("not every region is listed once");
        }
        let counts: Vec<u32> = (0..regions).map(|region| self.count(region)).collect();
        self.table.extents = counts.iter().sum();
        self.table.regions.rebuild(&order, &counts);
        Ok(())
    }

    fn check_invariants(&self) {
        self.truth.check_invariants();
        let mut all = 0;
        for region in 0..regions(&self.table.geometry) {
            let extents = self.count(region);
            assert_eq!(self.table.regions.count(region), extents, "extents of region {region}");
            all += extents;
        }
        assert_eq!(self.table.extents, all, "extents in the table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::GeometryParameters;
    use crate::units::KIB;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn small() -> GeometryParameters {
        GeometryParameters {
            channels: 2,
            dies: 4,
            planes_per_die: 2,
            multi_plane_read: true,
            pages_per_shot: 1,
            pages_per_block: 8,
            page_size: KIB * 16,
            unit_size: KIB * 4,
            dies_per_collection_unit: 4,
            collection_units: 16,
            metadata_collection_units: 0,
            reserve_collection_units: 0,
            logical_units: 2_500,
        }
    }

    fn map() -> ExtentMap {
        let geometry = Geometry::new(small()).unwrap();
        let us = Nanoseconds::from_micros;
        let parameters = ExtentParameters { extents_max: 100, search: us(10), per_extent: us(1) };
        ExtentMap::new(&geometry, parameters)
    }

    #[test]
    fn a_run_is_one_extent_and_a_write_into_it_makes_three() {
        let mut map = map();
        assert_eq!(map.table().extents(), 10, "2,500 units in regions of 256, all of them nowhere");
        for unit in 0..256 {
            map.set(LogicalUnit(unit), PhysicalUnit(512 + unit));
        }
        assert_eq!(map.table().extents(), 10);
        map.set(LogicalUnit(100), PhysicalUnit(0));
        assert_eq!(map.table().extents(), 12);
        map.set(LogicalUnit(101), PhysicalUnit(1));
        assert_eq!(map.table().extents(), 12, "it goes on");
        assert_eq!(map.table.most_fragmented(), (0, 3));
        map.set(LogicalUnit(0), PhysicalUnit(2));
        map.clear(LogicalUnit(255));
        assert_eq!(map.table().extents(), 14, "at the ends of a region there is one neighbour");
        for unit in 0..256 {
            map.relocate(LogicalUnit(unit), PhysicalUnit(1024 + unit));
        }
        assert_eq!(map.table().extents(), 10);
        map.check_invariants();
    }

    #[test]
    fn counting_by_neighbours_agrees_with_counting_all() {
        let mut map = map();
        let mut generator = Pcg64Mcg::seed_from_u64(3);
        for _ in 0..200 {
            let first = generator.random_range(0..2_500u32);
            let place = generator.random_range(0..4_000u32);
            for unit in first..(first + generator.random_range(1..40)).min(2_500) {
                match generator.random_range(0..8u32) {
                    0 => drop(map.clear(LogicalUnit(unit))),
                    _ => drop(map.set(LogicalUnit(unit), PhysicalUnit(place + unit - first))),
                }
            }
            map.check_invariants();
        }
        assert!(map.table().extents() > 200);
    }

    #[test]
    fn what_follows_is_found_at_once_and_what_lies_elsewhere_is_searched_for() {
        let mut map = map();
        for unit in 0..512 {
            map.set(LogicalUnit(unit), PhysicalUnit(unit + 100));
        }
        map.set(LogicalUnit(20), PhysicalUnit(0));
        let mut us = |first, units| map.time_to_find(LogicalUnit(first), units).micros();
        assert_eq!(us(0, 8), 10.0);
        assert_eq!(us(8, 8), 0.0, "the region is at hand");
        assert_eq!(us(16, 8), 2.0, "two extents more");
        assert_eq!(us(300, 1), 10.0);
        assert_eq!(us(0, 256), 12.0);
    }
}
