//! Condensing: a full table of extents gets room by making one run of a region's fragments.
//!
//! The region with the most extents is read, wherever its units lie, and written to a free block
//! in logical order. Units that lie nowhere are written as zeros, because an extent cannot leave
//! any out. A region is as large as a collection unit, so the run fills a block, and the block
//! that the region lay in before is left without valid units once its fragments are gone too: what
//! hybrid mapping schemes call a full merge.
//!
//! A write that the table has no room for waits until the run is programmed. Reads and programs
//! are booked on the dies in the order of the run, reads some rows of program units ahead, and
//! reads of the host go before them as before any program.

use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{BlockIndex, DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// How many program units of each die are read ahead of the one that is programmed: one is
/// sensed and moved while the one before it is programmed.
const ROWS_AHEAD: u32 = 2;

/// Extents that a trim adds at most: one at each end. What it covers lies nowhere afterwards, one
/// extent in each region, and was no fewer before.
const NEEDED_FOR_TRIM: u32 = 2;

/// What condensing is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condenser {
    /// When the latest run is programmed: until then neither is there room in the table, nor may
    /// a block be erased that units of the run lay in.
    pub(crate) until: Instant,
    /// When the data of each program unit of a run is in RAM.
    data_at: Vec<Instant>,
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Looks up the extents of `units` units from `first` for a read acted on at `at`; returns when
    /// they are found.
    #[inline(always)]
    pub(crate) fn find_extents_for_read(
        &mut self,
        at: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Instant {
        if self.map.extents().is_none() {
            return at;
        }
        let longer = self.map.time_to_find(first, units);
        self.delays.reads.parts.map_miss += longer;
        self.resources.occupy_controller_longer(longer, at)
    }

    /// The same for a write, and sees to it that the table has room for what the write adds;
    /// returns when it can go on.
    #[inline(always)]
    pub(crate) fn find_extents_for_write(
        &mut self,
        at: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Instant {
        let Some(table) = self.map.extents() else {
            return at;
        };
        let last = LogicalUnit(first.0 + units - 1);
        let is_short = table.is_short_of(table.needed_for(first, last));
        let longer = self.map.time_to_find(first, units);
        self.delays.writes.parts.map_miss += longer;
        let found = self.resources.occupy_controller_longer(longer, at);
        if !is_short && self.condenser.until <= found {
            return found;
        }
        self.wait_for_room(found, first, last)
    }

    #[inline(never)]
    fn wait_for_room(&mut self, at: Instant, first: LogicalUnit, last: LogicalUnit) -> Instant {
        let table = self.map.extents().expect("there is a table of extents");
        let needed = table.needed_for(first, last);
        let until = self.make_room_in_table(at, needed);
        self.delays.writes.parts.merge += until.since(at);
        until
    }

    /// Sees to it that the table has room for what a trim acted on at `at` adds; returns when it can
    /// go on.
    pub(crate) fn make_room_for_trim(&mut self, at: Instant) -> Instant {
        match self.map.extents() {
            Some(table) if table.is_short_of(NEEDED_FOR_TRIM) => {
                self.make_room_in_table(at, NEEDED_FOR_TRIM)
            }
            _ => at,
        }
    }

    /// Condenses from `at` on until the table has room for `needed` extents; returns when it has.
    fn make_room_in_table(&mut self, at: Instant, needed: u32) -> Instant {
        loop {
            let table = self.map.extents().expect("there is a table of extents");
            if !table.is_short_of(needed) {
                break;
            }
            let (region, extents) = table.most_fragmented();
            assert!(extents > 1, "a table that is full has a region to condense");
            let units = table.units_of(region);
            self.condense(units, at);
        }
        let until = self.condenser.until.max(at);
        self.counters.condensing_wait_ns += until.since(at).nanos();
        until
    }

    /// Writes the units of a region to a free block as one run, from `at` on.
    fn condense(&mut self, units: std::ops::Range<u32>, at: Instant) {
        self.ensure_free_block();
        let block = self.free.take(0).expect("a block was made free");
        let per_block = self.geometry.units_per_block();
        self.flash.open(block, BlockState::OpenForCollection, per_block);
        self.note_data_begun(block);
        self.counters.condensed_regions += 1;
        for die in 0..self.geometry.dies() {
            self.settle(DieIndex(die), at);
        }
        let per_program = self.geometry.units_per_program();
        let programs = (units.end - units.start).div_ceil(per_program);
        let ahead = ROWS_AHEAD * self.geometry.stripe();
        self.condenser.data_at.clear();
        for index in 0..programs + ahead {
            let part = |index: u32| {
                let first = units.start + index * per_program;
                first..(first + per_program).min(units.end)
            };
            if index < programs {
                let data_at = self.read_part_of_run(part(index), at);
                self.condenser.data_at.push(data_at);
            }
            if index >= ahead {
                self.program_part_of_run(block, index - ahead, part(index - ahead));
            }
        }
        // A region at the drive's end may be short.
        let first = self.geometry.first_unit(block).0;
        for behind in programs * per_program..per_block {
            self.flash.note_padding(PhysicalUnit(first + behind), block);
        }
        self.flash.close(block, BlockState::Closed);
        self.collect_for(per_block, at);
    }

    /// Reads what of `units` lies in the flash; returns when it is in RAM.
    fn read_part_of_run(&mut self, units: std::ops::Range<u32>, at: Instant) -> Instant {
        let (mut data_at, mut sensed, mut count) = (at, None, 0u64);
        for unit in units {
            let Some(physical) = self.map.get(LogicalUnit(unit)) else { continue };
            if self.is_buffered(physical, at) {
                continue;
            }
            let sense = self.geometry.sense_of(physical);
            match sensed {
                Some((current, _)) if current == sense => count += 1,
                _ => {
                    data_at = data_at.max(self.read_for_run(sensed, count, at));
                    sensed = Some((sense, self.geometry.die_of(physical)));
                    count = 1;
                }
            }
        }
        data_at.max(self.read_for_run(sensed, count, at))
    }

    /// Senses once and moves `units` units to the controller; returns when they are there.
    #[inline(always)]
    fn read_for_run(&mut self, sense: Option<(u32, DieIndex)>, units: u64, at: Instant) -> Instant {
        let Some((_, die)) = sense else { return at };
        self.counters.flash_reads_condensing += 1;
        let on_die = Resource::Die(die);
        let span = self.resources.reserve(on_die, Class::Background, at, self.timing.page_read);
        self.resources.dies[die.0 as usize].note_sense();
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * units;
        self.resources.reserve(channel, Class::Background, span.end, transfer).end
    }

    /// Programs program unit `index` of `block` with `units`.
    fn program_part_of_run(&mut self, block: BlockIndex, index: u32, units: std::ops::Range<u32>) {
        let per_program = self.geometry.units_per_program();
        let first = PhysicalUnit(self.geometry.first_unit(block).0 + index * per_program);
        let count = units.end - units.start;
        for (place, unit) in units.enumerate() {
            self.place_in_run(LogicalUnit(unit), PhysicalUnit(first.0 + place as u32));
        }
        for padding in count..per_program {
            self.flash.note_padding(PhysicalUnit(first.0 + padding), block);
        }
        let die = self.geometry.die_of_program(block, index);
        if index < self.geometry.stripe() {
            self.finish_erase(die, block);
        }
        let number = self.next_number();
        let data_at = self.condenser.data_at[index as usize];
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer: Nanoseconds = self.unit_over_channel * u64::from(per_program);
        let arrived = self.resources.reserve(channel, Class::Background, data_at, transfer).end;
        let program = self.timing.program;
        let span = self.resources.reserve(Resource::Die(die), Class::Background, arrived, program);
        self.note_programmed(first, number, die, span);
        self.counters.program_units_condensing += u64::from(count);
        self.counters.program_units_padding += u64::from(per_program - count);
        self.note_map_changes(1, number, span.end);
        self.condenser.until = self.condenser.until.max(span.end);
    }

    /// Puts one unit at its place in a run.
    #[inline(always)]
    fn place_in_run(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.flash.note_written(physical, unit);
        match self.map.get(unit) {
            Some(old) => {
                self.media.copy(old, physical);
                self.map.relocate(unit, physical);
                if self.flash.lose_unit(self.geometry.block_of(old)) {
                    // What replaces it is programmed by `Condenser::until`.
                    self.forget_unsent(old);
                }
            }
            None => {
                self.counters.condensed_empty_units += 1;
                self.media.fill(physical, unit);
                self.map.fill(unit, physical);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::MappingScheme;
    use crate::mapping::extent::ExtentMap;
    use crate::ssd::tests::small_configuration;

    /// A drive of 64 MiB, filled from its first unit to its last, with room for `extents_max`.
    fn filled_drive(extents_max: u32) -> Ssd<ExtentMap> {
        let mut configuration = small_configuration(&[]);
        configuration.mechanisms.mapping = MappingScheme::Extent;
        configuration.mechanisms.extents.extents_max = extents_max;
        let mut ssd = Ssd::with_extent_map(&configuration).expect("a sound drive");
        let units = ssd.geometry().logical_units();
        ssd.write(Instant::START, LogicalUnit(0), units);
        ssd.flush(Instant::START);
        ssd
    }

    fn regions(ssd: &Ssd<ExtentMap>) -> u32 {
        ssd.geometry().logical_units().div_ceil(ssd.geometry().units_per_block())
    }

    fn extents(ssd: &mut Ssd<ExtentMap>) -> u32 {
        ssd.map.extents().expect("a map of extents").extents()
    }

    /// Long after everything that was asked for.
    const LATER: Instant = Instant::from_nanos(60_000_000_000);

    #[test]
    fn a_write_that_the_table_has_no_room_for_waits_until_a_region_is_one_run() {
        let mut ssd = filled_drive(1000);
        let (runs, per_region) = (extents(&mut ssd), ssd.geometry().units_per_block());
        let mut at = LATER;
        let mut quick = 0;
        while ssd.counters().condensed_regions == 0 {
            // Every other unit, so that none follows the one before it.
            let answered = ssd.write(at, LogicalUnit(2 * quick + 1), 1);
            if ssd.counters().condensed_regions == 0 {
                assert!(answered.since(at) < Nanoseconds::from_millis(1));
                quick += 1;
            } else {
                let programs = per_region / ssd.geometry().units_per_program();
                let least = ssd.timing.program * u64::from(programs / ssd.geometry().dies());
                assert!(answered.since(at) >= least, "it waits for the run");
            }
            at = answered + Nanoseconds::from_millis(10);
        }
        assert!(2 * quick + runs + 5 > 1000, "not before the table is full: {quick}");
        assert!(extents(&mut ssd) < 1000 - per_region / 2, "a region of fragments is one run");
        let counters = ssd.counters();
        assert_eq!(counters.program_units_condensing, u64::from(per_region));
        assert_eq!(counters.condensed_empty_units, 0);
        assert!(counters.condensing_wait_ns > 0 && counters.program_units_collection == 0);
        ssd.check_invariants();
    }

    #[test]
    fn writing_a_region_from_end_to_end_makes_it_one_extent_again() {
        let mut ssd = filled_drive(1000);
        let runs = extents(&mut ssd);
        for unit in 0..100 {
            ssd.write(LATER, LogicalUnit(unit * 3), 1);
        }
        assert!(extents(&mut ssd) > runs + 150);
        ssd.write(LATER, LogicalUnit(0), 300);
        assert!(extents(&mut ssd) <= runs + 4);
        assert_eq!(ssd.counters().condensed_regions, 0);
    }

    #[test]
    fn what_lies_nowhere_is_written_as_zeros() {
        let mut configuration = small_configuration(&[]);
        configuration.mechanisms.mapping = MappingScheme::Extent;
        configuration.mechanisms.extents.extents_max = 600;
        let mut ssd = Ssd::with_extent_map(&configuration).expect("a sound drive");
        let least = 4 * regions(&ssd);
        assert!(least < 600, "{least}");
        let mut unit = 0;
        while ssd.counters().condensed_regions == 0 {
            ssd.write(Instant::START, LogicalUnit(unit), 1);
            unit += 2;
        }
        let counters = ssd.counters();
        assert!(counters.condensed_empty_units > 0);
        assert!(counters.condensed_empty_units < counters.program_units_condensing);
        ssd.check_invariants();
    }

    #[test]
    fn trims_leave_no_more_extents_than_the_table_has_room_for() {
        let mut ssd = filled_drive(600);
        let units = ssd.geometry().logical_units();
        let mut at = LATER;
        for unit in (1..units).step_by(7) {
            let answered = ssd.trim(at, LogicalUnit(unit), 1);
            assert!(extents(&mut ssd) <= 600, "after the trim of unit {unit}");
            at = answered;
        }
        assert!(ssd.counters().condensed_regions > 0 && ssd.counters().condensing_wait_ns > 0);
        ssd.check_invariants();
        ssd.trim(at, LogicalUnit(0), units);
        assert_eq!(extents(&mut ssd), regions(&ssd), "nothing is left");
    }

    #[test]
    fn a_table_that_cannot_hold_a_condensed_drive_is_refused() {
        let mut configuration = small_configuration(&[]);
        configuration.mechanisms.mapping = MappingScheme::Extent;
        configuration.mechanisms.extents.extents_max = 3;
        let error = Ssd::with_extent_map(&configuration).expect_err("too small").to_string();
        assert!(error.contains("mapping.table"), "{error}");
    }
}
