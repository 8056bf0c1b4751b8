//! Interface for those who keep the data of a drive: the model itself keeps none.

use super::Ssd;
use super::wrappers::NoHost;
use crate::mapping::Mapping;
use crate::mapping::cached::InRam;
use crate::media::{Media, SequenceNumber, TrimRecord};
use crate::streams::StreamId;
use crate::units::{Instant, LogicalUnit, PhysicalUnit};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Returns the physical unit to which `unit` is programmed or will be; `None` if it was never written or
    /// was trimmed.
    ///
    /// # Panics
    /// Panics if the drive has no such unit.
    #[inline(always)]
    pub fn place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.ftl.map.get(unit)
    }

    /// Returns the physical unit where a read of `unit` finds its data. After a trim that is the old place, if
    /// the drive still reads it. `None` if the unit has no place.
    ///
    /// # Panics
    /// Panics if the drive has no such unit.
    #[inline(always)]
    pub fn read_place_of(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.ftl.map.get(unit).or_else(|| self.ftl.deferred_trim_place_of(unit))
    }

    /// Returns the first mapped unit from `from` on, and its physical unit. Costs nothing for stretches that
    /// were never written.
    pub fn next_mapped(&self, from: LogicalUnit) -> Option<(LogicalUnit, PhysicalUnit)> {
        self.ftl.map.next_mapped(from)
    }

    /// Returns the medium, which keeps the data.
    pub fn media(&self) -> &D {
        &self.ftl.media
    }

    /// Returns the medium for changes between requests.
    #[inline(always)]
    pub fn media_mut(&mut self) -> &mut D {
        &mut self.ftl.media
    }

    /// Returns the trim records that no programmed page holds. On a drive with PLP they outlive a power cut all
    /// the same.
    pub fn unrecorded_trims(&self) -> Vec<TrimRecord> {
        self.ftl.metadata.trims_in_ram()
    }

    /// Returns the sequence number of the latest program unit or trim.
    pub fn latest_number(&self) -> SequenceNumber {
        self.ftl.placement.latest_number()
    }

    /// Names the stream of the next write, as NVMe's streams directive does.
    ///
    /// # Panics
    /// Panics if the drive has no such stream.
    pub fn hint_stream(&mut self, stream: StreamId) {
        match &mut self.ftl.streams {
            Some(streams) => streams.hint(stream),
            None => assert!(stream == StreamId::default(), "the drive has one write stream"),
        }
    }

    /// Executes all events that are due until `at`.
    ///
    /// # Panics
    /// Panics if a request is answered meanwhile.
    pub fn advance_to(&mut self, at: Instant) {
        self.run_until(at, &mut NoHost);
    }

    /// Returns the part of a map on flash that is in RAM; `None` for other maps.
    pub fn map_in_ram(&mut self) -> Option<InRam> {
        self.ftl.map.cache().map(|cache| cache.in_ram())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::tests::small_configuration;

    fn small_drive() -> Ssd {
        Ssd::new(&small_configuration(&[])).expect("a sound drive")
    }

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

    #[test]
    fn what_is_due_is_done_by_the_time_it_has_caught_up() {
        let mut ssd = small_drive();
        let units = ssd.geometry().units_per_program();
        let written = ssd.write(Instant::START, LogicalUnit(0), units);
        assert!(!ssd.is_idle(), "its data is on the way to the flash");
        ssd.advance_to(written + crate::units::Nanoseconds::from_secs(1));
        assert!(ssd.is_idle() && ssd.now() > written);
    }
}
