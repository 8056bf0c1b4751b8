//! Clearing of erased parts of blocks: punches out their records and data.
//!
//! Nothing is removed before its replacement is durable, and nothing is programmed where old records are.

use std::io;

use super::Store;
use super::part_states::PartState;
use super::step::{Purpose, Step, Task};

impl Store {
    /// Returns an erased part of the block of `part` that still has its records, `part` itself or another one,
    /// with its stamp; `None` if there is none. With such a part, the block would look full to a recovery after
    /// a crash: the free space in it would be lost, and a full drive could not run gc. So no part of a block is
    /// programmed while one has old records.
    pub(super) fn erased_part_in_block(&self, part: u32) -> Option<(u32, u64)> {
        let first = part - part % self.layout.stripe;
        (first..first + self.layout.stripe).find_map(|it| match self.part_states.get(it) {
            PartState::Erased { stamp } => Some((it, stamp)),
            PartState::AsOnFlash | PartState::DataOnly => None,
        })
    }

    /// Returns true if `part`, which has just been erased, belongs to a block whose other parts were erased
    /// before and may be programmed already.
    pub(super) fn is_erased_late(&self, part: u32) -> bool {
        let first = part - part % self.layout.stripe;
        (first..first + self.layout.stripe).any(|it| {
            self.erases[it as usize] == self.erases[part as usize]
                && !matches!(self.part_states.get(it), PartState::Erased { .. })
        })
    }

    /// Begins to clear a part of a block that was erased late; `None` if there is none.
    pub(super) fn begin_clearing_late(&mut self) -> Option<Step> {
        while let Some(&part) = self.erased_late.last() {
            if let PartState::Erased { stamp } = self.part_states.get(part) {
                return Some(self.begin_clearing(part, stamp));
            }
            self.erased_late.pop();
        }
        None
    }

    /// Begins to clear `part`, which is erased, so that it can be programmed. Begins a sync instead if the
    /// erase is not durable.
    pub(super) fn begin_clearing(&mut self, part: u32, erased: u64) -> Step {
        if erased > self.stamps.durable() {
            return self.begin(Purpose::Sync { stamp: self.stamp() }, Task::Sync);
        }
        let records = Some(self.layout.records_of_part(part));
        // Data that is overwritten in place need not be punched out first: punching takes long, and the system
        // has to allocate space again afterwards. But lent pages may be on their way to a client.
        let is_lent = !self.has_helper && self.is_spliced[part as usize];
        let data = is_lent.then(|| self.layout.data_of_part(part));
        let purpose = Purpose::Clear { part, with_data: data.is_some() };
        self.begin(purpose, Task::Clear { records, data })
    }

    /// Notes that the page cache's pages of this stretch of the image are sent to a client without a copy. Once
    /// the part of the block is erased, its data is punched out, not overwritten, so the sent pages keep their
    /// contents.
    pub fn note_spliced(&mut self, at: u64, length: u64) {
        let size = self.layout.data_of_part(0).1;
        let part_of = |at: u64| ((at - self.layout.data) / size) as usize;
        self.is_spliced[part_of(at)..=part_of(at + length - 1)].fill(true);
    }

    /// Begins to clear an erased part, or to punch out its data; `None` if there is nothing to punch out.
    pub fn begin_punching(&mut self) -> Option<Step> {
        debug_assert!(self.step_in_flight.is_none(), "one step after the other");
        if let Some((stamp, part)) = self.part_states.first_erased()
            && stamp <= self.stamps.durable()
        {
            return Some(self.begin_clearing(part, stamp));
        }
        let part = self.part_states.first_data_only()?;
        let data = Some(self.layout.data_of_part(part));
        let purpose = Purpose::Clear { part, with_data: true };
        Some(self.begin(purpose, Task::Clear { records: None, data }))
    }

    /// Records in the image that everything up to `stamp` is durable, and then clears erased parts, unless a
    /// helper does that.
    ///
    /// # Errors
    /// Returns an error if that cannot be recorded, or if erased data cannot be punched out.
    pub fn note_durable(&mut self, stamp: u64) -> io::Result<()> {
        self.record_durable(stamp)?;
        if self.has_helper {
            return Ok(());
        }
        loop {
            self.finish_step()?;
            let Some(step) = self.begin_punching() else { return Ok(()) };
            self.run_step(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use ssdlab_model::media::{Media, OobArea, SequenceNumber};
    use ssdlab_model::profile::{DEFAULT, Profile};
    use ssdlab_model::recovery::{FlashContents, ProgramUnit};
    use ssdlab_units::{BlockIndex, DieIndex, LogicalUnit, PhysicalUnit};

    use super::*;
    use crate::image::Image;

    /// A drive's flash under test, with the sequence number of its latest program.
    struct Bench {
        store: Store,
        number: u64,
    }

    impl Bench {
        /// Opens a new image with a helper, so that erased data is not punched out at once.
        fn new(path: &std::path::Path) -> Bench {
            let mut profile = Profile::named(DEFAULT).expect("the default profile");
            profile.set("capacity.logical", "64M").expect("a size");
            profile.set("capacity.physical", "128M").expect("a size");
            profile.set("flash.pages_per_block", "12").expect("pages");
            let image = Image::create(path, &profile, false).expect("an image");
            let mut store = Store::new(image);
            store.set_has_helper(true);
            assert!(store.layout.stripe > 1, "a block lies on several dies");
            Bench { store, number: 0 }
        }

        /// Programs the program unit `index` of a block, all units filled.
        fn program(&mut self, block: u32, index: u32) {
            let count = self.store.layout.units_per_program;
            let program = block * self.store.layout.programs_per_block + index;
            let first = PhysicalUnit(program * count);
            for unit in 0..count {
                self.store.fill(PhysicalUnit(first.0 + unit), LogicalUnit(unit));
            }
            self.number += 1;
            let spare: Vec<u32> = (1..=count).collect();
            let number = SequenceNumber(self.number);
            self.store.begin_program(first, OobArea::new(&spare), number);
            self.store.programmed(first);
        }

        /// Announces the erase of a block.
        fn announce(&mut self, block: u32) {
            self.store.begin_erase(BlockIndex(block));
        }

        fn erase(&mut self, part: u32) {
            // The parts of block 0 are on the first dies.
            self.store.erased(BlockIndex(0), DieIndex(part));
        }

        fn done(&mut self) {
            self.store.carry_out().expect("room");
        }

        /// Fills blocks 0 and 1.
        fn fill(&mut self) {
            for block in 0..2 {
                (0..self.store.layout.programs_per_block).for_each(|it| self.program(block, it));
            }
            self.done();
            self.store.sync().expect("it is durable");
        }

        /// Kills the program and opens the image again; returns the program units of block 0 that are found
        /// written.
        fn killed(self, path: &std::path::Path) -> Vec<u32> {
            drop(self.store);
            let mut store = Store::new(Image::open(path).expect("an image"));
            store.survey().expect("it can be read");
            let count = store.layout.units_per_program;
            let is_written = |&index: &u32| {
                !matches!(store.program_unit(PhysicalUnit(index * count)), ProgramUnit::Erased)
            };
            (0..store.layout.programs_per_block).filter(is_written).collect()
        }
    }

    #[test]
    fn a_block_that_is_programmed_anew_holds_no_records_of_earlier_data_on_any_die() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk.ssd");
        let mut bench = Bench::new(&path);
        bench.fill();
        bench.announce(0);
        (0..bench.store.layout.stripe).for_each(|part| bench.erase(part));
        bench.done();
        bench.program(0, 0);
        bench.done();
        assert_eq!(bench.killed(&path), [0], "what else is there makes the block look full");
    }

    #[test]
    fn erased_data_is_written_over_where_it_lies_unless_its_pages_were_sent() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut bench = Bench::new(&directory.path().join("disk.ssd"));
        bench.store.set_has_helper(false);
        bench.fill();
        let (at, length) = bench.store.layout.data_of_part(1);
        bench.store.note_spliced(at + length - 1, 1);
        bench.announce(0);
        (0..bench.store.layout.stripe).for_each(|part| bench.erase(part));
        bench.program(0, 0);
        bench.done();
        let parts: Vec<PartState> = (1..4).map(|part| bench.store.part_states.get(part)).collect();
        assert_eq!(parts, [PartState::AsOnFlash, PartState::DataOnly, PartState::DataOnly]);
        bench.store.sync().expect("it is durable");
        assert_eq!(
            bench.store.part_states.get(2),
            PartState::AsOnFlash,
            "nobody has written over it since"
        );
    }

    #[test]
    fn what_is_erased_when_other_dies_hold_new_data_already_goes_whatever_comes_next() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk.ssd");
        let mut bench = Bench::new(&path);
        bench.fill();
        bench.announce(0);
        bench.erase(0);
        bench.program(0, 0);
        (1..bench.store.layout.stripe).for_each(|part| bench.erase(part));
        bench.done();
        // The drive goes on in another block.
        bench.program(2, 0);
        bench.done();
        assert_eq!(bench.killed(&path), [0], "what else is there makes the block look full");
    }
}
