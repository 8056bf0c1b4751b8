//! Requests as hosts make them: by sectors of 512 bytes, whatever the size of a mapping unit.
//!
//! Requests for whole units go straight on; those that cover a unit in part are in `merge`.

use crate::mapping::Mapping;
use crate::media::Media;
use crate::ssd::Ssd;
use crate::units::{Instant, LogicalUnit, Sector, SectorCount};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Reads `count` sectors from `first` at `at`; returns when the last of them has arrived.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    #[inline(always)]
    pub fn read_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        match self.single_unit(first, count) {
            Some(unit) => self.read_within(at, unit, 1),
            None => self.read_other_sectors(at, first, count),
        }
    }

    /// The same for all but a single unit, the most common request of all.
    #[inline(never)]
    fn read_other_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        match self.whole_units(first, count) {
            Some((unit, units)) => self.read_within(at, unit, units),
            None => self.read_in_part(at, first, count),
        }
    }

    /// Writes `count` sectors from `first` at `at`; returns when the host is told it is done.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    #[inline(always)]
    pub fn write_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        match self.single_unit(first, count) {
            Some(unit) => self.write_units(at, unit, 1),
            None => self.write_other_sectors(at, first, count),
        }
    }

    /// The same for all but a single unit.
    #[inline(never)]
    fn write_other_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        match self.whole_units(first, count) {
            Some((unit, units)) => self.write_units(at, unit, units),
            None => self.write_in_part(at, first, count),
        }
    }

    /// Forgets what `count` sectors from `first` hold; returns when the host is told so. Units
    /// that the range covers only in part stay as they are.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn trim_sectors(&mut self, at: Instant, first: Sector, count: SectorCount) -> Instant {
        match self.whole_units(first, count) {
            Some((unit, units)) => self.trim(at, unit, units),
            None => self.trim_whole_units_within(at, first, count),
        }
    }

    /// Asks for the map entry of a sector that will be requested some requests from now; see
    /// [`Ssd::prefetch_map`].
    #[inline(always)]
    pub fn prefetch_map_of_sector(&self, sector: Sector) {
        self.prefetch_map(LogicalUnit((sector.0 >> self.geometry.sectors_per_unit_shift()) as u32));
    }

    /// Asks for what the map entry of a sector that will be written soon points to; see
    /// [`Ssd::prefetch_target`].
    #[inline(always)]
    pub fn prefetch_target_of_sector(&self, sector: Sector) {
        let unit = LogicalUnit((sector.0 >> self.geometry.sectors_per_unit_shift()) as u32);
        self.prefetch_target(unit);
    }

    /// The unit that the sectors are, if they are a single one.
    ///
    /// # Panics
    /// When it does not lie within the drive.
    #[inline(always)]
    fn single_unit(&self, first: Sector, count: SectorCount) -> Option<LogicalUnit> {
        let within = self.geometry.sectors_within_unit();
        if count.0.wrapping_sub(1) != within || first.0 & within != 0 {
            return None;
        }
        let unit = first.0 >> self.geometry.sectors_per_unit_shift();
        let logical_units = u64::from(self.geometry.logical_units());
        assert!(unit < logical_units, "a request lies within the drive");
        Some(LogicalUnit(unit as u32))
    }

    /// The units that the sectors are, if they are whole ones.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    #[inline(always)]
    pub(crate) fn whole_units(
        &self,
        first: Sector,
        count: SectorCount,
    ) -> Option<(LogicalUnit, u32)> {
        let shift = self.geometry.sectors_per_unit_shift();
        if (first.0 | count.0) & self.geometry.sectors_within_unit() != 0 {
            return None;
        }
        let (unit, units) = (first.0 >> shift, count.0 >> shift);
        let within = units > 0 && unit + units <= u64::from(self.geometry.logical_units());
        assert!(within, "a request lies within the drive");
        Some((LogicalUnit(unit as u32), units as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_drive;

    #[test]
    fn sectors_and_units_address_the_same_data() {
        let (mut by_sector, mut by_unit) = (small_drive(), small_drive());
        let unit = by_unit.geometry().unit_size();
        let at = Instant::START;
        let first = Sector::at(unit * 5);
        let answered = by_sector.write_sectors(at, first, SectorCount::of(unit * 3));
        assert_eq!(answered, by_unit.write(at, LogicalUnit(5), 3));
        assert_eq!(by_sector.counters(), by_unit.counters());
    }
}
