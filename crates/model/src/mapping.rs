//! Mapping tables: the physical unit of each logical unit.

pub mod cached;
pub mod extent;
mod map_area;
pub(crate) mod regions;

use std::hint::select_unpredictable;
use std::sync::atomic::AtomicU32;

use serde::Deserialize;

use cached::MapCache;
use extent::ExtentTable;

use crate::lazy_table::LazyTable;
use crate::prefetch::prefetch;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::{LogicalUnit, Nanoseconds, PhysicalUnit};

/// Mapping scheme of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappingScheme {
    /// The whole map in RAM, with an entry for each unit.
    #[default]
    Page,
    /// The map on flash in map pages, some of them cached in RAM (DFTL).
    Cached,
    /// Extents in a table of bounded RAM.
    Extent,
    /// Mapping by block, with log blocks (FAST).
    LogBlock,
}

/// A mapping scheme.
pub trait Mapping {
    /// Returns the physical unit of `unit`, or `None` if `unit` was never written or was trimmed.
    fn get(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;

    /// Returns true if `unit` is mapped to `physical`.
    #[inline(always)]
    fn is_mapped_to(&self, unit: LogicalUnit, physical: PhysicalUnit) -> bool {
        self.get(unit) == Some(physical)
    }

    /// Maps `unit`, which was written, to `physical`. Returns its old place.
    fn set(&mut self, unit: LogicalUnit, physical: PhysicalUnit) -> Option<PhysicalUnit>;

    /// Maps `unit`, which garbage collection has moved, to `physical`; its data is the same as before.
    #[inline(always)]
    fn relocate(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.set(unit, physical);
    }

    /// Maps the unit that garbage collection has moved from `from` to `to`, if it is still mapped to `from`.
    /// `reverse_entry` is the spare area's entry of `from`: a logical unit plus one, or zero for none. Returns
    /// true if the unit was still mapped to `from`.
    #[inline(always)]
    fn relocate_if_mapped(
        &mut self,
        reverse_entry: u32,
        from: PhysicalUnit,
        to: PhysicalUnit,
    ) -> bool {
        let Some(unit) = reverse_entry.checked_sub(1).map(LogicalUnit) else { return false };
        let is_there = self.is_mapped_to(unit, from);
        if is_there {
            self.relocate(unit, to);
        }
        is_there
    }

    /// Maps `unit`, which was not mapped, to `physical`, where zeros were written for it.
    #[inline(always)]
    fn fill(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.set(unit, physical);
    }

    /// Unmaps `unit`. Returns its old place.
    fn clear(&mut self, unit: LogicalUnit) -> Option<PhysicalUnit>;

    /// Returns the first mapped unit from `from` on, and its place. Stretches that were never written cost nothing.
    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)>;

    /// Prefetches the memory that the other calls will touch for `unit`.
    fn prefetch(&self, unit: LogicalUnit);

    /// Prefetches that memory for an entry of a spare area: a logical unit plus one, or zero for none.
    #[inline(always)]
    fn prefetch_reverse_entry(&self, reverse_entry: u32) {
        self.prefetch(LogicalUnit(reverse_entry.wrapping_sub(1)));
    }

    /// Returns the RAM cache of a map on flash; `None` for a map in RAM, so that the code that uses the cache is
    /// compiled away.
    #[inline(always)]
    fn cache(&mut self) -> Option<&mut MapCache> {
        None
    }

    /// Returns the table of an extent map; `None` for other maps, so that the code that uses the table is compiled
    /// away.
    #[inline(always)]
    fn extents(&mut self) -> Option<&mut ExtentTable> {
        None
    }

    /// Returns the time that the controller needs to look up `units` units from `first`.
    #[inline(always)]
    fn time_to_find(&mut self, first: LogicalUnit, units: u32) -> Nanoseconds {
        let _ = (first, units);
        Nanoseconds::ZERO
    }

    /// Copies borrowed tables to memory that the drive owns.
    fn copy_to_owned(&mut self);

    /// Checks the scheme's tables other than the map itself. Walks all of them.
    ///
    /// # Panics
    /// Panics if anything is wrong, with a description.
    fn check_invariants(&self) {}

    /// Forgets the state in RAM other than the map, as at power-on.
    fn clear_volatile_state(&mut self) {}

    /// Saves the map of a drive that was shut down.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError>;

    /// Restores the map of a drive of the same configuration. The caller checks that the physical units in the map
    /// exist.
    ///
    /// # Errors
    /// Returns an error if reading fails, or if the bytes are no such map.
    fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError>;
}

/// A map that several threads can fill at a time.
pub trait ParallelFill: Mapping {
    /// Returns the entries of a map in which every unit will be mapped. From the second entry on, there is one per
    /// unit: its physical unit plus one.
    fn shared_entries(&mut self) -> &[AtomicU32];
}

/// The whole map in RAM, one entry of four bytes per unit.
///
/// Entries are counted from one, like the units in the reverse map: a value of the reverse map is the index of an
/// entry, and the entry 0, for none, is never that of a unit. An entry is the physical unit plus one, and zero for
/// none: the map of a new drive is zeroed memory that the operating system has not had to provide yet, so that it
/// takes memory for the entries that were touched and not for the drive's size.
#[derive(Clone, Debug)]
pub struct PageMap {
    entries: LazyTable,
    /// Per stretch of [`STRETCH`] units, true if any of them was ever written.
    written: Vec<bool>,
}

/// Units that are skipped together if none was written: as many as entries fit a page of memory.
const STRETCH: usize = 1024;

impl PageMap {
    /// Returns an empty map of `units` logical units.
    pub fn new(units: u32) -> Self {
        let units = units as usize;
        let written = vec![false; units.div_ceil(STRETCH)];
        PageMap { entries: LazyTable::zeroed(units + 1), written }
    }
}

impl PageMap {
    /// Checks that no entry is set in a stretch that was never written.
    fn check_written(&self) -> Result<(), SnapshotError> {
        let mut stretches = self.entries[1..].chunks(STRETCH).zip(&self.written);
        let is_fine = self.entries[0] == 0
            && stretches.all(|(entries, &written)| written || entries.iter().all(|&it| it == 0));
        if is_fine { Ok(()) } else { damaged("the map is not what is said of it") }
    }
}

impl ParallelFill for PageMap {
    fn shared_entries(&mut self) -> &[AtomicU32] {
        self.written.fill(true);
        self.entries.shared()
    }
}

impl Mapping for PageMap {
    #[inline(always)]
    fn get(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.entries[unit.0 as usize + 1].checked_sub(1).map(PhysicalUnit)
    }

    #[inline(always)]
    fn is_mapped_to(&self, unit: LogicalUnit, physical: PhysicalUnit) -> bool {
        self.entries[unit.0 as usize + 1] == physical.0 + 1
    }

    #[inline(always)]
    fn relocate(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.entries[unit.0 as usize + 1] = physical.0 + 1;
    }

    /// Without a branch on the outcome, which cannot be predicted. Entry 0, for none, never matches.
    #[inline(always)]
    fn relocate_if_mapped(
        &mut self,
        reverse_entry: u32,
        from: PhysicalUnit,
        to: PhysicalUnit,
    ) -> bool {
        let entry = &mut self.entries[reverse_entry as usize];
        let is_there = *entry == from.0 + 1;
        *entry = select_unpredictable(is_there, to.0 + 1, *entry);
        is_there
    }

    #[inline(always)]
    fn set(&mut self, unit: LogicalUnit, physical: PhysicalUnit) -> Option<PhysicalUnit> {
        let old = std::mem::replace(&mut self.entries[unit.0 as usize + 1], physical.0 + 1);
        if old == 0 {
            self.written[unit.0 as usize / STRETCH] = true;
        }
        old.checked_sub(1).map(PhysicalUnit)
    }

    fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        let (entries, mut from) = (&self.entries[1..], from.0 as usize);
        loop {
            let stretch = from / STRETCH;
            let rest = self.written.get(stretch..)?;
            let stretch = stretch + rest.iter().position(|&written| written)?;
            from = from.max(stretch * STRETCH);
            let end = (stretch + 1) * STRETCH;
            let units = entries.get(from..end.min(entries.len()))?;
            if let Some(place) = units.iter().position(|&entry| entry != 0) {
                let unit = LogicalUnit((from + place) as u32);
                return Some((unit, PhysicalUnit(units[place] - 1)));
            }
            from = end;
        }
    }

    #[inline(always)]
    fn clear(&mut self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let entry = &mut self.entries[unit.0 as usize + 1];
        let old = entry.checked_sub(1)?;
        // Only written entries are touched: mkfs trims drives whose map memory is not allocated yet.
        *entry = 0;
        Some(PhysicalUnit(old))
    }

    #[inline(always)]
    fn prefetch(&self, unit: LogicalUnit) {
        prefetch(&self.entries, unit.0 as usize + 1);
    }

    #[inline(always)]
    fn prefetch_reverse_entry(&self, reverse_entry: u32) {
        prefetch(&self.entries, reverse_entry as usize);
    }

    fn copy_to_owned(&mut self) {
        self.entries.copy_to_owned();
    }

    fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let PageMap {
            entries,
            // Follows from the entries, but only by reading all of them.
            written,
        } = self;
        if to.table_apart(entries)? {
            for stretches in written.chunks(32) {
                let bits = stretches.iter().rev().fold(0, |bits, &it| bits << 1 | u32::from(it));
                to.word(bits)?;
            }
            return Ok(());
        }
        Ok(to.table(&entries[1..])?)
    }

    fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        if let Some(entries) = from.table_apart(self.entries.len())? {
            self.entries = LazyTable::borrowed(entries);
            for stretches in self.written.chunks_mut(32) {
                let bits = from.word()?;
                stretches.iter_mut().zip(0..).for_each(|(it, bit)| *it = bits >> bit & 1 != 0);
            }
            return if from.is_verified() { Ok(()) } else { self.check_written() };
        }
        for units in from.table_into(&mut self.entries[1..])? {
            self.written[units.start / STRETCH..units.end.div_ceil(STRETCH)].fill(true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_next_mapped_unit_is_found_by_stretches(
            units in 1..4 * STRETCH as u32,
            changes in prop::collection::vec((0..4 * STRETCH as u32, any::<bool>()), 0..30),
            from in 0..5 * STRETCH as u32,
        ) {
            let mut map = PageMap::new(units);
            for (unit, is_written) in changes.into_iter().filter(|it| it.0 < units) {
                if is_written {
                    map.set(LogicalUnit(unit), PhysicalUnit(unit + 7));
                } else {
                    map.clear(LogicalUnit(unit));
                }
            }
            let mut saved = Vec::new();
            map.save(&mut Encoder::new(&mut saved)).expect("memory");
            let mut restored = PageMap::new(units);
            restored.restore(&mut Decoder::new(&mut saved.as_slice())).expect("what was saved");
            for map in [map, restored] {
                let plain = (from..units).map(LogicalUnit);
                let plain = plain.filter_map(|unit| Some((unit, map.get(unit)?))).next();
                prop_assert_eq!(map.next_mapped(LogicalUnit(from)), plain);
            }
        }
    }
}
