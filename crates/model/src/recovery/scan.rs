//! The scan of recovery: reads the spare area of every program unit.

use super::{FlashContents, NUMBER_MAX, ProgramUnit, RecoveryError};
use crate::checkpoint::map_pages;
use crate::geometry::Geometry;
use crate::media::{OobArea, SequenceNumber, SpareMark};
use crate::sparse::SparseTable;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, DieIndex, LogicalUnit, PhysicalUnit};

/// Information about a block from its spare areas.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoundBlock {
    /// Number of program units up to the last that is not erased.
    pub(crate) programs: u32,
    /// Largest sequence number in the block, by which blocks are ordered.
    pub(crate) latest: SequenceNumber,
    /// Number of current units in the block.
    pub(crate) valid: u32,
    /// True if the block is in SLC mode.
    pub(crate) is_slc: bool,
    /// True if any program unit of the block was written by a merge during recovery.
    pub(crate) is_recovery_merge: bool,
}

/// The part of the map that the metadata blocks hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownMap {
    /// Number up to which the metadata blocks cover all program units.
    pub(crate) through: SequenceNumber,
    /// Number of metadata pages that have to be read for that.
    pub(crate) pages: u64,
    /// Number of pieces of the map that were ever saved.
    pub(crate) checkpoint_pages: u64,
}

impl KnownMap {
    fn of(configuration: &Configuration, contents: &impl FlashContents) -> KnownMap {
        let checkpoint_pages = contents.checkpoint_pages();
        let all = map_pages(&configuration.geometry, &configuration.mechanisms);
        let count = checkpoint_pages.len() as u64;
        if configuration.mechanisms.checkpoint.is_none() || count < all {
            // A journal is of no use without a complete saved map.
            return KnownMap { checkpoint_pages: count, ..KnownMap::default() };
        }
        let oldest = checkpoint_pages[(count - all) as usize];
        let journal = contents.journal_pages().iter().filter(|&&through| through > oldest);
        KnownMap {
            through: journal.clone().max().copied().unwrap_or(oldest),
            pages: all + journal.count() as u64,
            checkpoint_pages: count,
        }
    }
}

/// Content of the flash, as far as spare areas and records tell.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// Place of the current copy of each logical unit, plus one. The sequence number of a copy is that of its program
    /// unit.
    places: SparseTable<u32>,
    pub(crate) blocks: Vec<FoundBlock>,
    /// Number of spare areas read on each die.
    pub(crate) reads: Vec<u64>,
    /// The saved part of the map, for which no spare areas need to be read.
    pub(crate) known: KnownMap,
    pub(crate) unreadable: u64,
    pub(crate) latest: SequenceNumber,
}

impl Scan {
    /// Scans all of `contents`.
    pub(crate) fn of(
        configuration: &Configuration,
        contents: &impl FlashContents,
    ) -> Result<Scan, RecoveryError> {
        Scan::without(configuration, contents, &[])
    }

    /// Scans all of `contents`, without the units in the blocks `left_out`.
    pub(crate) fn without(
        configuration: &Configuration,
        contents: &impl FlashContents,
        left_out: &[BlockIndex],
    ) -> Result<Scan, RecoveryError> {
        let geometry = &configuration.geometry;
        let known = KnownMap::of(configuration, contents);
        let mut scan = Scan {
            places: SparseTable::new(geometry.logical_units() as usize),
            blocks: vec![FoundBlock::default(); geometry.blocks() as usize],
            reads: vec![0; geometry.dies() as usize],
            known,
            unreadable: 0,
            // A saved page of the map covers all program units up to its number, including those that the power cut
            // prevented: their numbers are not given to others.
            latest: known.through.max(contents.saved_through().min(NUMBER_MAX)),
        };
        let bad = contents.bad_blocks();
        let retired = |block| bad.iter().any(|it| it.unit == block && it.replaced_by.is_none());
        for block in (0..geometry.blocks()).map(BlockIndex).filter(|&block| !retired(block)) {
            scan.read_block(geometry, contents, block, left_out.contains(&block))?;
        }
        scan.apply_trims(geometry, contents)?;
        scan.forget_saved(contents);
        for (_, place) in scan.places.entries() {
            scan.blocks[geometry.block_of(PhysicalUnit(place - 1)).0 as usize].valid += 1;
        }
        Ok(scan)
    }

    /// Iterates over the logical units that were found, in order, with the places of their current copies.
    pub(crate) fn current(&self) -> impl Iterator<Item = (LogicalUnit, PhysicalUnit)> + '_ {
        self.current_in(LogicalUnit(0)..LogicalUnit(self.places.len() as u32))
    }

    /// Iterates over the logical units in `units` that were found, with the places of their current copies.
    pub(crate) fn current_in(
        &self,
        units: std::ops::Range<LogicalUnit>,
    ) -> impl Iterator<Item = (LogicalUnit, PhysicalUnit)> + '_ {
        let found = self.places.entries_in(units.start.0 as usize..units.end.0 as usize);
        found.map(|(unit, place)| (LogicalUnit(unit as u32), PhysicalUnit(place - 1)))
    }

    fn read_block(
        &mut self,
        geometry: &Geometry,
        contents: &impl FlashContents,
        block: BlockIndex,
        is_left_out: bool,
    ) -> Result<(), RecoveryError> {
        let per_program = geometry.units_per_program();
        let first = geometry.first_unit(block).0;
        // On each die, pages after the first erased one are not read: they are erased, too.
        let mut erased_from = vec![u32::MAX; geometry.stripe() as usize];
        let programs = geometry.units_per_block() / per_program;
        let used = contents.programs_in(block);
        for index in 0..used {
            let DieIndex(die) = geometry.die_of_program(block, index);
            let lane = (index % geometry.stripe()) as usize;
            let at = PhysicalUnit(first + index * per_program);
            let contains = contents.program_unit(at);
            let is_known = index > 0
                && matches!(contains, ProgramUnit::Programmed { number, .. }
                    if number <= self.known.through);
            if erased_from[lane] == u32::MAX && !is_known {
                self.reads[die as usize] += 1;
            }
            let found = &mut self.blocks[block.0 as usize];
            match contains {
                ProgramUnit::Erased => erased_from[lane] = erased_from[lane].min(index),
                ProgramUnit::Unreadable => {
                    self.unreadable += 1;
                    found.programs = index + 1;
                }
                ProgramUnit::Programmed { number, spare } => {
                    if number > NUMBER_MAX {
                        return Err(RecoveryError::Number { number });
                    }
                    found.programs = index + 1;
                    // Some dies can still hold data from before an incomplete erase of the block.
                    if number > found.latest {
                        found.latest = number;
                        found.is_slc = spare.is_slc();
                    }
                    found.is_recovery_merge |= spare.mark() == SpareMark::RecoveryMerge;
                    self.latest = self.latest.max(number);
                    if !is_left_out {
                        self.note_copies(geometry, contents, (at, number, spare))?;
                    }
                }
            }
        }
        for index in used..programs.min(used + geometry.stripe()) {
            // The first erased page of each die shows that the pages behind it are erased, too.
            if erased_from[(index % geometry.stripe()) as usize] == u32::MAX {
                let DieIndex(die) = geometry.die_of_program(block, index);
                self.reads[die as usize] += 1;
            }
        }
        Ok(())
    }

    fn note_copies(
        &mut self,
        geometry: &Geometry,
        contents: &impl FlashContents,
        (at, number, spare): (PhysicalUnit, SequenceNumber, OobArea<'_>),
    ) -> Result<(), RecoveryError> {
        let expected = geometry.units_per_program();
        if spare.len() as u64 != u64::from(expected) {
            return Err(RecoveryError::OobArea { at, found: spare.len(), expected });
        }
        for (logical, physical) in spare.logical_units().zip(at.0..) {
            let Some(logical) = logical else { continue };
            let units = geometry.logical_units();
            if logical.0 >= units {
                return Err(RecoveryError::Unit { place: "an OOB area", logical, units });
            }
            let known = self.places.get(logical.0 as usize).checked_sub(1).map(PhysicalUnit);
            let is_newer = known.is_none_or(|it| number > number_at(geometry, contents, it));
            if is_newer {
                self.places.set(logical.0 as usize, physical + 1);
            }
        }
        Ok(())
    }

    /// Forgets the copies of units that power-loss protection saved: the saved data is newer than all of them.
    ///
    /// Otherwise garbage collection, which makes room before the units are restored, would copy older data under a
    /// new number; after another power cut at that point, this copy would pass for newer than the saved data.
    fn forget_saved(&mut self, contents: &impl FlashContents) {
        for &LogicalUnit(unit) in contents.saved() {
            if (unit as usize) < self.places.len() {
                self.places.set(unit as usize, 0);
            }
        }
    }

    fn apply_trims(
        &mut self,
        geometry: &Geometry,
        contents: &impl FlashContents,
    ) -> Result<(), RecoveryError> {
        for trim in contents.trims() {
            if trim.number > NUMBER_MAX {
                return Err(RecoveryError::Number { number: trim.number });
            }
            self.latest = self.latest.max(trim.number);
            let first = trim.first.0 as usize;
            let end = first.saturating_add(trim.units as usize);
            if end > self.places.len() {
                let units = self.places.len() as u32;
                let logical = LogicalUnit(trim.first.0.saturating_add(trim.units));
                return Err(RecoveryError::Unit { place: "the record of a trim", logical, units });
            }
            let is_dead = |&(_, place): &(usize, u32)| {
                number_at(geometry, contents, PhysicalUnit(place - 1)) < trim.number
            };
            let dead: Vec<usize> =
                self.places.entries_in(first..end).filter(is_dead).map(|it| it.0).collect();
            dead.into_iter().for_each(|unit| self.places.set(unit, 0));
        }
        Ok(())
    }
}

/// Returns the sequence number of the program unit that holds `unit`, which a spare area has named.
pub(crate) fn number_at(
    geometry: &Geometry,
    contents: &impl FlashContents,
    unit: PhysicalUnit,
) -> SequenceNumber {
    let first = geometry.program_of(unit) * geometry.units_per_program();
    match contents.program_unit(PhysicalUnit(first)) {
        ProgramUnit::Programmed { number, .. } => number,
        ProgramUnit::Erased | ProgramUnit::Unreadable => SequenceNumber::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{Media, TrimRecord};
    use crate::profile::{DEFAULT, Profile};

    /// A flash with one program unit, and units saved by power-loss protection.
    #[derive(Debug)]
    struct OneProgram {
        spare: Vec<u32>,
        saved: Vec<LogicalUnit>,
    }

    impl Media for OneProgram {}

    impl FlashContents for OneProgram {
        fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_> {
            match first {
                PhysicalUnit(0) => ProgramUnit::Programmed {
                    number: SequenceNumber(3),
                    spare: OobArea::new(&self.spare),
                },
                _ => ProgramUnit::Erased,
            }
        }
        fn programs_in(&self, block: BlockIndex) -> u32 {
            u32::from(block.0 == 0)
        }
        fn trims(&self) -> &[TrimRecord] {
            &[]
        }
        fn saved(&self) -> &[LogicalUnit] {
            &self.saved
        }
        fn saved_through(&self) -> SequenceNumber {
            SequenceNumber(7)
        }
        fn restore(&mut self, _: usize, _: PhysicalUnit) {}
        fn erases(&self, _: BlockIndex) -> u32 {
            0
        }
    }

    #[test]
    fn older_copies_of_saved_units_are_not_current_and_no_number_of_theirs_is_given_again() {
        let profile = Profile::named(DEFAULT).expect("the default profile");
        let configuration = profile.configuration().expect("a sound profile");
        let count = configuration.geometry.units_per_program();
        let saved = vec![LogicalUnit(1), LogicalUnit(count + 5)];
        let contents = OneProgram { spare: (1..=count).collect(), saved };
        let scan = Scan::of(&configuration, &contents).expect("it can be read");
        assert!(!scan.current().any(|(unit, _)| unit == LogicalUnit(1)));
        assert_eq!(scan.current().count() as u32, count - 1);
        assert_eq!((scan.blocks[0].valid, scan.latest), (count - 1, SequenceNumber(7)));
    }
}
