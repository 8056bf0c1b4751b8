//! What is on the flash, read from the image when it is opened after a crash.

use std::io;

use ssdlab_model::media::{SequenceNumber, SpareArea, TrimRecord};
use ssdlab_model::recovery::{FlashContents, ProgramUnit};
use ssdlab_model::units::{BlockIndex, LogicalUnit, PhysicalUnit};

use super::{Source, Store};
use crate::image::saved::Saved;
use crate::image::spare::{Found as FoundRecord, Record};
use crate::image::trims::TrimLog;

/// Stands for a program unit that cannot be read.
const UNREADABLE: u64 = u64::MAX;

/// Larger than any number that is believed.
const SLC: u64 = 1 << 63;

/// Bytes of spare areas that are read at a time, at least.
const PIECE: u64 = 1 << 20;

/// What was found in an image.
#[derive(Debug)]
pub(super) struct Found {
    /// The sequence number of each program unit; 0 where it is erased, [`SLC`] added where it was
    /// programmed with one bit a cell.
    numbers: Vec<u64>,
    /// Logical units plus one, of each physical unit.
    spare: Vec<u32>,
    trims: Vec<TrimRecord>,
    saved: Vec<LogicalUnit>,
    /// Which of [`Saved`]'s units those are.
    saved_index: Vec<usize>,
}

/// What reading the spare areas has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Program units that hold data or padding.
    pub written: u64,
    /// Program units whose spare area cannot be read.
    pub unreadable: Vec<u32>,
    /// Program units whose data was looked at, because it may not have been durable.
    pub looked_at: u64,
    /// Of these, the ones whose data is not what their spare area says.
    pub torn: Vec<u32>,
    /// Records of trims.
    pub trims: u64,
    /// Units that were saved of the write buffer.
    pub saved: u64,
}

impl Store {
    /// Reads all spare areas, records of trims and what was saved of the buffer; the drive can then
    /// be opened from it. With `mark`, what cannot be relied on is marked so for good.
    ///
    /// # Errors
    /// When the image cannot be read or written.
    pub fn survey(&mut self, mark: bool) -> io::Result<Survey> {
        let mut survey = Survey::default();
        let units = self.sums.len();
        let mut found = Box::new(Found {
            numbers: vec![0; self.layout.programs() as usize],
            spare: vec![0; units],
            trims: Vec::new(),
            saved: Vec::new(),
            saved_index: Vec::new(),
        });
        let mut doubtful: Vec<(u64, u32)> = Vec::new();
        self.read_records(|store, program, record| match record {
            FoundRecord::Erased => {}
            FoundRecord::Unreadable => {
                survey.unreadable.push(program);
                found.numbers[program as usize] = UNREADABLE;
            }
            FoundRecord::Written(record) => {
                survey.written += 1;
                store.stamp = store.stamp.max(record.stamp);
                store.durable = store.durable.max(record.durable);
                if record.stamp > store.durable {
                    doubtful.push((record.stamp, program));
                }
                // A number that no drive reaches is told apart from none by the model.
                let number = record.number.min(SLC - 1);
                found.numbers[program as usize] = number | if record.is_slc { SLC } else { 0 };
                let first = (program * store.layout.units_per_program) as usize;
                found.spare[first..first + record.logical.len()].copy_from_slice(&record.logical);
                store.sums[first..first + record.sums.len()].copy_from_slice(&record.sums);
            }
        })?;
        doubtful.retain(|&(stamp, _)| stamp > self.durable);
        for (_, program) in doubtful {
            survey.looked_at += 1;
            if !self.holds_what_it_says(program, &found.spare)? {
                survey.torn.push(program);
                found.numbers[program as usize] = UNREADABLE;
                if mark {
                    let at = self.layout.record_at(program);
                    self.image.file().write_all_at(&Record::torn(), at)?;
                }
            }
        }
        let (log, trims) =
            TrimLog::read(self.image.file(), &self.layout, self.image.state().trim_log)?;
        (self.trims, found.trims) = (log, trims);
        survey.trims = found.trims.len() as u64;
        self.read_erases()?;
        self.choose_saved(&mut found)?;
        survey.saved = found.saved.len() as u64;
        self.found = Some(found);
        Ok(survey)
    }

    /// Forgets what [`Store::survey`] has found, once the drive is open.
    pub fn forget_survey(&mut self) {
        self.found = None;
    }

    /// Hands every record that is not a hole of the file to `each`.
    fn read_records(
        &mut self,
        mut each: impl FnMut(&mut Store, u32, FoundRecord),
    ) -> io::Result<()> {
        let record = self.layout.record;
        let end = self.layout.spare + record * u64::from(self.layout.programs());
        let mut at = self.layout.spare;
        let mut bytes = vec![0; (PIECE.next_multiple_of(record)) as usize];
        while at < end {
            at = self.image.file().next_data(at)?.map_or(end, |data| data.start.min(end));
            // The records around a hole's end begin before it.
            at -= (at - self.layout.spare) % record;
            let count = (end - at).min(bytes.len() as u64) as usize;
            self.image.file().read_exact_at(&mut bytes[..count], at)?;
            let first = ((at - self.layout.spare) / record) as u32;
            for (slot, bytes) in (first..).zip(bytes[..count].chunks_exact(record as usize)) {
                let program = self.layout.program_at(slot);
                each(self, program, Record::decode(bytes, self.layout.units_per_program));
            }
            at += count as u64;
        }
        Ok(())
    }

    /// Whether the data of `program` is what its spare area says.
    fn holds_what_it_says(&self, program: u32, spare: &[u32]) -> io::Result<bool> {
        let mut data = vec![0; self.layout.program_size() as usize];
        self.image.file().read_exact_at(&mut data, self.layout.data_at(program))?;
        let first = (program * self.layout.units_per_program) as usize;
        Ok(data.chunks(self.layout.unit as usize).enumerate().all(|(index, data)| {
            spare[first + index] == 0 || crc32fast::hash(data) == self.sums[first + index]
        }))
    }

    /// Reads the data of every unit that `spare` names and compares; returns the program units with
    /// data that is not what was written.
    ///
    /// # Errors
    /// When the image cannot be read.
    pub fn verify_data(&self) -> io::Result<Vec<u32>> {
        let Some(found) = &self.found else { return Ok(Vec::new()) };
        let mut wrong = Vec::new();
        for program in 0..self.layout.programs() {
            let number = found.numbers[program as usize];
            if number != 0
                && number != UNREADABLE
                && !self.holds_what_it_says(program, &found.spare)?
            {
                wrong.push(program);
            }
        }
        Ok(wrong)
    }

    /// The logical unit that the spare area of `unit` names, as the survey has found it; nothing
    /// where there was none.
    pub fn spare_names(&self, unit: PhysicalUnit) -> Option<Option<LogicalUnit>> {
        let found = self.found.as_ref()?;
        if self.is_staged(unit) {
            return None;
        }
        Some(found.spare[unit.0 as usize].checked_sub(1).map(LogicalUnit))
    }

    /// Whether the data of `unit` is not in the image at its place.
    pub fn is_staged(&self, unit: PhysicalUnit) -> bool {
        self.staged.contains_key(&self.layout.program_of(unit))
    }

    /// The program unit that holds `unit`.
    pub fn program_of(&self, unit: PhysicalUnit) -> u32 {
        self.layout.program_of(unit)
    }

    /// Reads how often each part of a block was erased.
    ///
    /// # Errors
    /// When the image cannot be read.
    pub fn read_erases(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; 4 * self.erases.len()];
        self.image.file().read_exact_at(&mut bytes, self.layout.table)?;
        for (erases, bytes) in self.erases.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *erases = u32::from_le_bytes(*bytes);
        }
        Ok(())
    }

    /// Takes of what was saved of the buffer what nothing on the flash is newer than.
    fn choose_saved(&mut self, found: &mut Found) -> io::Result<()> {
        let Some(saved) = Saved::read(self.image.file(), &self.layout)? else { return Ok(()) };
        let is_older = |logical: LogicalUnit| {
            let trimmed = found.trims.iter().any(|trim| {
                trim.number.0 > saved.number
                    && logical.0.checked_sub(trim.first.0).is_some_and(|it| it < trim.units)
            });
            let per_program = self.layout.units_per_program as usize;
            let copied = |(&number, units): (&u64, &[u32])| {
                number != UNREADABLE
                    && number & !SLC > saved.number
                    && units.contains(&(logical.0 + 1))
            };
            trimmed || found.numbers.iter().zip(found.spare.chunks(per_program)).any(copied)
        };
        let newest: Vec<usize> =
            (0..saved.logical.len()).filter(|&index| !is_older(saved.logical[index])).collect();
        found.saved = newest.iter().map(|&index| saved.logical[index]).collect();
        found.saved_index = newest;
        self.saved = saved;
        Ok(())
    }

    fn found(&self) -> &Found {
        self.found.as_ref().expect("a drive is opened from an image that was read")
    }
}

impl FlashContents for Store {
    fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_> {
        let found = self.found();
        match found.numbers[self.layout.program_of(first) as usize] {
            0 => ProgramUnit::Erased,
            UNREADABLE => ProgramUnit::Unreadable,
            number => {
                let (first, count) = (first.0 as usize, self.layout.units_per_program as usize);
                let raw = &found.spare[first..first + count];
                let is_slc = number & SLC != 0;
                let spare = if is_slc { SpareArea::in_slc_mode(raw) } else { SpareArea::new(raw) };
                ProgramUnit::Programmed { number: SequenceNumber(number & !SLC), spare }
            }
        }
    }

    fn trims(&self) -> &[TrimRecord] {
        &self.found().trims
    }

    fn saved(&self) -> &[LogicalUnit] {
        &self.found().saved
    }

    fn restore(&mut self, index: usize, unit: PhysicalUnit) {
        let size = self.layout.unit as usize;
        let (logical, index) = (self.found().saved[index], self.found().saved_index[index]);
        let saved = std::mem::take(&mut self.saved);
        let data = &saved.data[index * size..(index + 1) * size];
        let program = self.layout.program_of(unit);
        let within = (unit.0 - program * self.layout.units_per_program) as usize;
        let staged = self.staged_mut(program);
        staged.data[within * size..(within + 1) * size].copy_from_slice(data);
        staged.units[within] = Source::Here { logical, sum: crc32fast::hash(data) };
        self.saved = saved;
    }

    fn erases(&self, block: BlockIndex) -> u32 {
        let first = (block.0 * self.layout.stripe) as usize;
        let parts = &self.erases[first..first + self.layout.stripe as usize];
        parts.iter().copied().max().unwrap_or(0)
    }
}
