//! What those have to know who keep the data of a drive: the model itself has none.

use crate::mapping::Mapping;
use crate::mapping::cached::InRam;
use crate::media::{Media, SequenceNumber, TrimRecord};
use crate::ssd::Ssd;
use crate::units::{Instant, LogicalUnit, PhysicalUnit};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Where `unit` lies, or will lie when it is programmed; nothing where it was never written or
    /// was trimmed.
    ///
    /// # Panics
    /// When the drive has no such unit.
    #[inline(always)]
    pub fn place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.map.get(unit)
    }

    /// Returns the first unit from `from` on that is mapped, and where it lies or will lie. Costs
    /// nothing for stretches that were never written.
    pub fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        self.map.next_mapped(from)
    }

    /// What its flash keeps, to see to it between requests.
    #[inline(always)]
    pub fn media_mut(&mut self) -> &mut D {
        &mut self.media
    }

    /// The records of trims that no page holds yet. Where capacitors protect the drive they
    /// outlive a power cut all the same.
    pub fn unrecorded_trims(&self) -> &[TrimRecord] {
        self.trim_log.pending()
    }

    /// The number of the latest program unit or trim.
    pub fn latest_number(&self) -> SequenceNumber {
        self.sequence
    }

    /// Has collection do what it finds time for until `at`, as any request that comes then does.
    pub fn catch_up(&mut self, at: Instant) {
        self.advance_debt_at_times(at);
    }

    /// What is in RAM of a map that lies on flash; nothing for other maps.
    pub fn map_in_ram(&mut self) -> Option<InRam> {
        self.map.cache().map(|cache| cache.in_ram())
    }

    /// Blocks that are erased, or will be when their dies find time.
    pub fn free_blocks(&self) -> u32 {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::ssd::tests::small_drive;
    use crate::units::{Instant, LogicalUnit, PhysicalUnit};

    #[test]
    fn the_mapped_units_are_those_that_were_written_and_not_trimmed() {
        let mut ssd = small_drive();
        let units = ssd.geometry().logical_units();
        assert_eq!(ssd.next_mapped(LogicalUnit(0)), None);
        let mut at = Instant::START;
        for unit in [0, 1, 1023, 1024, 5000, units - 1] {
            at = ssd.write(at, LogicalUnit(unit), 1);
        }
        ssd.trim(at, LogicalUnit(1023), 1);
        let places = (0..units).map(LogicalUnit);
        let plain: Vec<_> = places.filter_map(|unit| Some((unit, ssd.place_of(unit)?))).collect();
        let next = |from| ssd.next_mapped(LogicalUnit(from));
        let mapped: Vec<_> = std::iter::successors(next(0), |(unit, _)| next(unit.0 + 1)).collect();
        assert_eq!((mapped, plain.len()), (plain, 5));
    }

    #[test]
    fn a_unit_lies_where_it_was_written_until_it_is_trimmed() {
        let mut ssd = small_drive();
        assert_eq!(ssd.place_of(LogicalUnit(7)), None);
        let written = ssd.write(Instant::START, LogicalUnit(7), 1);
        assert_eq!(ssd.place_of(LogicalUnit(7)), Some(PhysicalUnit(0)));
        assert!(ssd.unrecorded_trims().is_empty());
        ssd.trim(written, LogicalUnit(7), 1);
        assert_eq!(ssd.place_of(LogicalUnit(7)), None);
        assert_eq!(ssd.unrecorded_trims().len(), 1);
        assert_eq!(ssd.unrecorded_trims()[0].number, ssd.latest_number());
    }
}
