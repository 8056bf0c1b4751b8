//! What is in the write buffer, and keeping it as capacitors would.
//!
//! The image has room to save what the drive's buffer holds. Where an erase waits for that, nothing else may happen
//! before the buffer is saved ([`Store::wants_buffer_saved`]): so there is always room for it.
//!
//! A dump also holds what was programmed and is not known to be durable ([`super::undurable`]): so it needs
//! nothing that is made durable together with it.

use std::io;

use ssdlab_model::media::SequenceNumber;
use ssdlab_units::{LogicalUnit, PhysicalUnit};

use super::Store;
use crate::image::dump::{Content, Dump, FoundDumps, SavedUnit};

/// The dumps in the image.
#[derive(Debug, Default)]
pub(super) struct Dumps {
    /// The largest generation there is.
    generation: u64,
    /// The slot of the latest that counts.
    slot: u64,
    /// The stamp of the latest, if it was written in this life.
    stamp: u64,
    written: u64,
    /// Its units.
    units: Vec<LogicalUnit>,
}

impl Dumps {
    /// Those of an image of which dumps up to `generation` were written.
    pub(super) fn new(generation: u64) -> Dumps {
        Dumps { generation, ..Dumps::default() }
    }

    /// Goes on from what was found in an image.
    pub(super) fn found(&mut self, found: &FoundDumps) {
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

    /// The buffer was saved, durably: erases that are announced now may be carried out.
    pub fn allow_erases(&mut self) {
        self.erases_until = self.erases_until.map(|_| self.announced);
        self.wants_buffer_saved = false;
    }

    /// Generation of the latest dump.
    pub fn latest_dump(&self) -> u64 {
        self.dumps.generation
    }

    /// Returns how many dumps were written in this life.
    pub fn dumps_written(&self) -> u64 {
        self.dumps.written
    }

    /// The stamp that has to be durable before the buffer may be saved, if it is not: that of the latest
    /// dump, which is the only one once the other's slot is written to; or that of program units which
    /// have no room in a dump.
    pub fn durable_before_dump(&self) -> Option<u64> {
        let overflowed = self.undurable.as_ref().and_then(|undurable| undurable.overflowed());
        let stamp = self.dumps.stamp.max(overflowed.unwrap_or(0));
        (stamp > self.progress.durable()).then_some(stamp)
    }

    /// Returns true if all `units`, and no more, fit into a dump.
    pub fn fits_into_dump(&self, units: usize) -> bool {
        units as u64 <= self.layout.dump_units
    }

    /// Keeps `units`, which lie at these places and are exceeded by larger numbers than theirs, as
    /// capacitors would, and that `trimmed` was by `latest`. Nothing needs to be durable first.
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
        self.finish_under_way()?;
        if units.is_empty() && trimmed.is_empty() {
            // What earlier dumps hold is durable elsewhere, or trimmed.
            return Ok(());
        }
        let size = self.layout.unit as usize;
        let mut dump = Dump {
            generation: self.dumps.generation + 1,
            durable: self.progress.durable(),
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
        let stamp = self.progress.wrote_log(|ends| ends.dump = dump.generation);
        let written = self.dumps.written + 1;
        let units = dump.units.iter().map(|unit| unit.logical).collect();
        self.dumps = Dumps { generation: dump.generation, slot, stamp, written, units };
        Ok(())
    }

    /// The units that the host wrote and that no program was carried out for.
    fn in_buffer(&mut self) -> Vec<LogicalUnit> {
        self.settle_under_way();
        let mut units = Vec::new();
        for staged in self.staged.values().chain(self.older.values()) {
            for source in &staged.units {
                units.extend(source.host_unit());
            }
        }
        units
    }

    /// The units that the host wrote and that may be in no program unit that is known to be durable, each
    /// once, in order; where records of trims are not durable, those of the latest dump, too.
    pub fn undurable_units(&mut self) -> Vec<LogicalUnit> {
        let mut units = self.in_buffer();
        units.extend(self.undurable.iter().flat_map(|undurable| undurable.units()));
        if !self.progress.are_trims_durable() {
            units.extend(&self.dumps.units);
        }
        units.sort_unstable_by_key(|unit| unit.0);
        units.dedup();
        units
    }

    /// The number that a copy of what is at `place`, which is mapped, exceeds if it is newer, where
    /// `latest` is the latest number; nothing if it is durable there, or where it is copied from.
    pub fn number_to_save(
        &self,
        place: PhysicalUnit,
        latest: SequenceNumber,
    ) -> Option<SequenceNumber> {
        let (unit, life) = self.origin(place);
        if life.is_some() {
            return Some(latest);
        }
        let number = self.undurable.as_ref()?.number(self.layout.program_of(unit))?;
        // The program unit itself counts for more than its copy in the dump.
        Some(SequenceNumber(number.0.saturating_sub(1)))
    }

    /// The logical units whose data is of no program unit that was carried out, copies included.
    pub fn staged_units(&mut self) -> Vec<LogicalUnit> {
        let mut units = self.in_buffer();
        for staged in self.staged.values().chain(self.older.values()) {
            let spare = staged.settled.iter().flat_map(|it| &it.spare);
            units.extend(spare.filter_map(|unit| unit.checked_sub(1)).map(LogicalUnit));
        }
        units
    }
}
