//! Deferred trim: reads of trimmed units on a drive that does not define their data.
//!
//! ATA knows three kinds of drives (IDENTIFY DEVICE, word 69, bits 14 and 5): those that return the same data each
//! time (DRAT), zeros among them (RZAT), and those that may return something else each time. NVMe names zeros, ones,
//! or does not say (DLFEAT, bits 2:0). This file models the third kind, as far as a mapping layer has a cause for it:
//! a trim only *marks* the entries of the map, which keep their addresses, and the work is done later. Garbage
//! collection skips marked units. A read follows the address:
//!
//! - while the spare area at that address still names the unit, the old data is read, with a flash read like any
//!   other;
//! - once the block is erased, zeros are returned without a flash read.
//!
//! Marks are kept in RAM. A drive that has been idle for `trim.settle` clears the marked entries, and so does any
//! loss of power: from then on reads return zeros. (A power cut undoes a trim that was not made durable before, as on
//! any drive; see `ftl/metadata.rs`.) Nothing here is random, so that the same requests get the same answers.
//!
//! A partial write of a marked unit fills the rest of the unit with zeros.

use crate::block_table::BlockTable;
use crate::lazy_table::LazyTable;
use crate::trim::{ReadsAfterTrim, TrimParameters};
use crate::units::{Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Marks of trimmed units.
#[derive(Clone, Debug)]
pub(crate) struct DeferredTrims {
    /// Per logical unit, its place when it was last trimmed, plus one; zero for none. Meaningless for units that were
    /// written since.
    old_places: LazyTable,
    /// True if there may be any marks.
    has_any: bool,
    settle: Nanoseconds,
}

impl DeferredTrims {
    /// Returns the marks of a drive of `units` logical units; `None` if `trim` defines the data that is read.
    pub(crate) fn new(trim: &TrimParameters, units: u32) -> Option<Box<DeferredTrims>> {
        (trim.reads_after == ReadsAfterTrim::Undefined).then(|| {
            let old_places = LazyTable::zeroed(units as usize);
            Box::new(DeferredTrims { old_places, has_any: false, settle: trim.settle })
        })
    }

    /// Notes that `unit`, which is mapped to `place`, is trimmed.
    pub(crate) fn mark(&mut self, unit: LogicalUnit, place: PhysicalUnit) {
        self.old_places[unit.0 as usize] = place.0 + 1;
        self.has_any = true;
    }

    /// Returns the place where the old data of the trimmed `unit` can still be read, or `None`.
    pub(crate) fn readable_place(
        &self,
        unit: LogicalUnit,
        block_table: &BlockTable,
    ) -> Option<PhysicalUnit> {
        let place = self.old_places[unit.0 as usize].checked_sub(1).map(PhysicalUnit)?;
        (block_table.logical_at(place) == Some(unit)).then_some(place)
    }

    /// Carries out deferred trims, if the time from `since` to `until` for which the drive was idle is long enough.
    pub(crate) fn execute_if_due(&mut self, since: Instant, until: Instant) {
        if self.settle > Nanoseconds::ZERO && until >= since + self.settle {
            self.clear();
        }
    }

    /// Clears all marks, as at power-on.
    pub(crate) fn clear(&mut self) {
        if self.has_any {
            *self = DeferredTrims {
                old_places: LazyTable::zeroed(self.old_places.len()),
                has_any: false,
                ..*self
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::ssd::tests::small_configuration;

    fn drive(changes: &[(&str, &str)]) -> Ssd {
        let undefined = [&[("trim.reads_after", "undefined")], changes].concat();
        Ssd::new(&small_configuration(&undefined)).expect("a sound drive")
    }

    /// Returns the number of units, of `units` from `first`, that are read from flash, and the end of the read.
    fn from_flash(ssd: &mut Ssd, at: Instant, first: u32, units: u32) -> (u64, Instant) {
        let (mut at, mut count) = (at, 0);
        for unit in first..first + units {
            let before = ssd.counters().unmapped_read_units;
            at = ssd.read(at, LogicalUnit(unit), 1);
            count += 1 - (ssd.counters().unmapped_read_units - before);
        }
        (count, at)
    }

    #[test]
    fn what_was_trimmed_is_read_where_it_lay_until_the_drive_is_idle() {
        let mut ssd = drive(&[("trim.settle", "10s")]);
        let at = ssd.write(Instant::START, LogicalUnit(0), 512);
        let at = ssd.flush(at);
        let at = ssd.trim(at, LogicalUnit(0), 256);
        assert_eq!(ssd.place_of(LogicalUnit(3)), None);
        let (count, at) = from_flash(&mut ssd, at, 0, 256);
        assert_eq!(count, 256);
        // An idle period in steps counts as one, and a request ends it.
        let step = Nanoseconds::from_secs(6);
        ssd.rest(at, step);
        let (count, at) = from_flash(&mut ssd, at + step, 0, 256);
        assert_eq!(count, 256);
        ssd.rest(at, step);
        ssd.rest(at + step, step);
        let (count, _) = from_flash(&mut ssd, at + step + step, 0, 257);
        assert_eq!(count, 1, "only what was not trimmed");
        ssd.check_invariants();
    }

    #[test]
    fn what_was_trimmed_costs_a_read_what_other_data_does() {
        let latency = |reads_after| {
            let mut ssd = drive(&[("trim.reads_after", reads_after)]);
            let at = ssd.write(Instant::START, LogicalUnit(0), 512);
            let at = ssd.flush(at);
            let (mapped, trimmed) = (LogicalUnit(300), LogicalUnit(8));
            let at = ssd.trim(at, LogicalUnit(0), 256) + Nanoseconds::from_millis(1);
            let one = ssd.read(at, mapped, 1);
            let later = one + Nanoseconds::from_millis(1);
            (one.since(at), ssd.read(later, trimmed, 1).since(later))
        };
        let (mapped, trimmed) = latency("undefined");
        assert_eq!(mapped, trimmed);
        let (mapped, trimmed) = latency("zeros");
        assert!(trimmed < mapped, "{trimmed:?} against {mapped:?}");
    }

    #[test]
    fn what_was_trimmed_is_gone_with_its_block_and_with_power() {
        let mut ssd = drive(&[("trim.settle", "0s"), ("collection.policy", "fifo")]);
        let units = ssd.geometry().logical_units();
        let at = ssd.write(Instant::START, LogicalUnit(0), units);
        let at = ssd.flush(at);
        let trimmed = units / 4;
        let at = ssd.trim(at, LogicalUnit(0), trimmed);
        let at = at + Nanoseconds::from_secs(3600);
        ssd.rest(at, Nanoseconds::from_secs(3600));
        let (before, mut at) = from_flash(&mut ssd, at + Nanoseconds::from_secs(3600), 0, trimmed);
        // Garbage collection takes one block after the other.
        for _ in 0..4 {
            at = ssd.write(at, LogicalUnit(trimmed), units - trimmed);
        }
        let (after, at) = from_flash(&mut ssd, at, 0, trimmed);
        assert!(before > 0 && after < before, "{before} units before, {after} after");
        ssd.check_invariants();
        let at = ssd.shut_down(at);
        assert_eq!(from_flash(&mut ssd, at, 0, trimmed).0, 0);
    }

    #[test]
    fn what_was_written_again_and_trimmed_again_is_the_latest() {
        let mut ssd = drive(&[]);
        let at = ssd.write(Instant::START, LogicalUnit(0), 64);
        let at = ssd.flush(at);
        let at = ssd.trim(at, LogicalUnit(5), 1);
        let first = ssd.read_place_of(LogicalUnit(5));
        let at = ssd.write(at, LogicalUnit(5), 1);
        let second = ssd.read_place_of(LogicalUnit(5));
        assert_eq!(second, ssd.place_of(LogicalUnit(5)));
        let at = ssd.flush(at);
        let at = ssd.trim(at, LogicalUnit(5), 1);
        assert_eq!(ssd.read_place_of(LogicalUnit(5)), second);
        assert_ne!(first, second);
        // Data that was never programmed cannot be read.
        let at = ssd.write(at, LogicalUnit(5), 1);
        ssd.trim(at, LogicalUnit(5), 1);
        assert_eq!(ssd.read_place_of(LogicalUnit(5)), None);
    }
}
