//! The contents of the write buffer, and dumps of it, which stand for PLP.
//!
//! The image has space to save all that the drive's buffer holds. If an erase waits for that, nothing else may
//! happen until the buffer is saved ([`Store::wants_buffer_saved`]): so the space is always enough.
//!
//! A dump also holds units that were programmed and are not known to be durable ([`super::undurable`]): so it
//! depends on nothing that is made durable together with it.

use std::io;

use ssdlab_model::media::SequenceNumber;
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use super::Store;
use crate::image::dump::{Content, Dump, FoundDumps, SavedUnit};

/// The buffer dumps in the image.
#[derive(Debug, Default)]
pub(super) struct Dumps {
    /// Largest generation so far.
    generation: u64,
    /// Slot of the latest dump that counts.
    slot: u64,
    /// Stamp of the latest dump if it was written since the image was opened; 0 otherwise.
    stamp: u64,
    written: u64,
    /// Units in the latest dump that was written since then.
    units: Vec<LogicalUnit>,
}

impl Dumps {
    /// Returns the dumps of an image with dumps up to `generation`.
    pub(super) fn new(generation: u64) -> Dumps {
        Dumps { generation, ..Dumps::default() }
    }

    /// Takes generation and slot from the dumps found in an image.
    pub(super) fn adopt(&mut self, found: &FoundDumps) {
        self.generation = self.generation.max(found.generation);
        self.slot = found.newest.as_ref().map_or(0, |it| it.slot);
    }
}

impl Store {
    /// Returns true if an erase that has happened waits for the buffer to be saved: [`Store::carry_out`] stops
    /// there.
    #[inline]
    pub fn wants_buffer_saved(&self) -> bool {
        self.wants_buffer_saved
    }

    /// Allows all erases that are announced by now to be carried out. The caller has saved the buffer, durably.
    pub fn allow_erases(&mut self) {
        self.erases_allowed_until = self.erases_allowed_until.map(|_| self.announced);
        self.wants_buffer_saved = false;
    }

    /// Returns the generation of the latest dump.
    pub fn latest_dump(&self) -> u64 {
        self.dumps.generation
    }

    /// Returns the number of dumps written since the image was opened.
    pub fn dumps_written(&self) -> u64 {
        self.dumps.written
    }

    /// Returns the stamp that has to be durable before the next dump; `None` if it is. It is the stamp of the
    /// latest dump, which is the only one while the other slot is overwritten, or that of program units which
    /// have no space in a dump.
    pub fn durable_before_dump(&self) -> Option<u64> {
        let overflowed = self.undurable.as_ref().and_then(|undurable| undurable.overflowed());
        let stamp = self.dumps.stamp.max(overflowed.unwrap_or(0));
        (stamp > self.stamps.durable()).then_some(stamp)
    }

    /// Returns true if `units` units fit into a dump.
    pub fn fits_into_dump(&self, units: usize) -> bool {
        units as u64 <= self.layout.dump_units
    }

    /// Writes a buffer dump. `units` have the place of their data and a sequence number: a copy with a larger
    /// number is newer. `trimmed` units were trimmed by number `latest`. Call it when
    /// `Store::durable_before_dump` is `None`.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written.
    pub fn save_buffer(
        &mut self,
        units: &[(LogicalUnit, PhysicalUnit, SequenceNumber)],
        trimmed: &[LogicalUnit],
        latest: SequenceNumber,
    ) -> io::Result<()> {
        debug_assert_eq!(self.durable_before_dump(), None);
        self.finish_step()?;
        if units.is_empty() && trimmed.is_empty() {
            // All that earlier dumps hold is durable elsewhere, or trimmed.
            return Ok(());
        }
        let size = self.layout.unit as usize;
        let mut dump = Dump {
            generation: self.dumps.generation + 1,
            durable: self.stamps.durable(),
            units: Vec::with_capacity(units.len()),
        };
        let mut data = vec![0; units.len() * size];
        for (&(logical, place, number), data) in units.iter().zip(data.chunks_mut(size)) {
            let sum = self.read_unit(place, data)?;
            let is_lost = self.has_lost && crc32fast::hash(data) != sum;
            let content = if is_lost { Content::Lost } else { Content::Data(sum) };
            dump.units.push(SavedUnit { logical, number, content });
        }
        dump.units.extend(trimmed.iter().map(|&logical| SavedUnit {
            logical,
            number: latest,
            content: Content::Trimmed,
        }));
        let slot = 1 - self.dumps.slot;
        dump.write(self.image.file(), &self.layout, slot, &data)?;
        let stamp = self.stamps.next_log_stamp(|ends| ends.dump = dump.generation);
        let written = self.dumps.written + 1;
        let units = dump.units.iter().map(|unit| unit.logical).collect();
        self.dumps = Dumps { generation: dump.generation, slot, stamp, written, units };
        Ok(())
    }

    /// Returns the units that the host wrote and whose program is not carried out on the image.
    fn in_buffer(&mut self) -> Vec<LogicalUnit> {
        self.await_step();
        let mut units = Vec::new();
        for staged in self.staged.values().chain(self.older_generations.values()) {
            for source in &staged.units {
                units.extend(source.host_unit());
            }
        }
        units
    }

    /// Returns the units that the host wrote and that may be in no durable program unit, sorted and without
    /// duplicates. While trim records are not durable, includes the units of the latest dump.
    pub fn undurable_units(&mut self) -> Vec<LogicalUnit> {
        let mut units = self.in_buffer();
        units.extend(self.undurable.iter().flat_map(|undurable| undurable.units()));
        if !self.stamps.are_trims_durable() {
            units.extend(&self.dumps.units);
        }
        units.sort_unstable_by_key(|unit| unit.0);
        units.dedup();
        units
    }

    /// Returns the sequence number for the data at `place`, which has to be mapped, in a dump: a copy with a
    /// larger number is newer. `latest` is the latest number. `None` if the data is durable there, or where it
    /// is copied from.
    pub fn number_to_save(
        &self,
        place: PhysicalUnit,
        latest: SequenceNumber,
    ) -> Option<SequenceNumber> {
        let (unit, generation) = self.origin(place);
        if generation.is_some() {
            return Some(latest);
        }
        let number = self.undurable.as_ref()?.number(self.layout.program_of(unit))?;
        // The program unit itself takes precedence over its copy in the dump.
        Some(SequenceNumber(number.0.saturating_sub(1)))
    }

    /// Returns the logical units in program units that are not carried out on the image, copies included.
    pub fn staged_units(&mut self) -> Vec<LogicalUnit> {
        let mut units = self.in_buffer();
        for staged in self.staged.values().chain(self.older_generations.values()) {
            let spare = staged.sealed.iter().flat_map(|it| &it.spare);
            units.extend(spare.filter_map(|unit| unit.checked_sub(1)).map(LogicalUnit));
        }
        units
    }
}
