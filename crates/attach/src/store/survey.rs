//! Survey of an image that was not closed in order, or is to be checked.
//!
//! Everything that was written up to the stamp that the image vouches for is durable. It counts even if its
//! data is damaged: then reading it fails. What was written later counts if it is intact; otherwise it was
//! never promised. All that is needed to tell this is in the image twice.

use std::collections::{HashMap, HashSet};
use std::io;

use super::Store;
use super::contents::FoundContents;
use super::stamps::LogEnds;
use crate::image::damage::Damage;
use crate::image::dump::FoundDump;
use crate::image::spare::{self, Copies, Record};
use crate::image::table;
use crate::image::trims::TrimLog;

/// Bytes of spare areas that are read at a time, rounded up to whole records.
const READ_CHUNK: u64 = 1 << 20;

/// Findings of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Number of program units that hold data or padding.
    pub written: u64,
    /// Program units whose spare area cannot be read.
    pub unreadable: Vec<u32>,
    /// Number of program units whose data was compared with its checksums, because it may not have been
    /// durable.
    pub compared: u64,
    /// Those of them whose data does not match.
    pub torn: Vec<u32>,
    /// Number of trim records.
    pub trims: u64,
    /// Number of units that were saved from the write buffer.
    pub saved: u64,
    /// Damage: what was durable and is not as it was written.
    pub damage: Damage,
    /// Program units that hold nothing promised, and are not marked as torn yet.
    unmarked: Vec<u32>,
    /// Program units that are marked as torn in one copy only. The other copy could count as promised once the
    /// first is erased.
    half_marked: Vec<u32>,
    /// Program units that are given up: they count as never written although they may be intact, and are
    /// written as erased.
    given_up: Vec<u32>,
    /// Stamps of the program units that may not have been durable, the smallest first.
    stamps: Vec<u64>,
    /// Program units and copies of their records that are damaged while the other copy is intact.
    one_sided: Vec<(u32, usize)>,
    /// Parts of blocks with a damaged copy of their block table entry, or an entry that lacks an erase.
    parts: Vec<u32>,
    /// Parts of blocks with a copy of their block table entry that lacks the latest erase.
    behind: Vec<u32>,
    dump: Option<FoundDump>,
}

/// Findings about promised program units in the spare areas.
#[derive(Default)]
struct Promised {
    /// By part of a block, the last program unit since its erase that is durable and can be read.
    last: HashMap<u32, u32>,
    /// Number of program units of which only one copy of the record is intact, while both should be.
    one_sided: u64,
}

impl Survey {
    /// Returns the stamps for [`Store::survey_until`], the largest first: each leaves out one more of the
    /// program units that may not have been durable. The first leaves out those without an intact record, if
    /// there are any.
    pub fn earlier(&self) -> Vec<u64> {
        let no_record = (self.unmarked.len() > self.torn.len()).then_some(u64::MAX);
        no_record.into_iter().chain(self.stamps.iter().rev().map(|&stamp| stamp - 1)).collect()
    }
}

impl Store {
    /// Reads all spare areas, records of trims and the saved buffer, so that the drive can be opened from them.
    /// Writes nothing.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read.
    pub fn survey(&mut self) -> io::Result<Survey> {
        self.survey_with(None)
    }

    /// Like `Store::survey`, but ignores program units that may not have been durable and have a stamp larger
    /// than `last`, and those without an intact record.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read.
    pub fn survey_until(&mut self, last: u64) -> io::Result<Survey> {
        self.survey_with(Some(last))
    }

    fn survey_with(&mut self, last: Option<u64>) -> io::Result<Survey> {
        let mut survey = Survey::default();
        let mut found = Box::new(FoundContents::new(&self.layout));
        let (dump, is_missing) = self.read_dump()?;
        self.stamps.raise_to(0, dump.as_ref().map_or(0, |it| it.dump.durable));
        let promised = self.survey_records(&mut survey, &mut found, last)?;
        self.survey_trims(&mut survey, &mut found)?;
        self.survey_dump(&mut survey, &mut found, dump, is_missing)?;
        self.report_record_damage(&mut survey, &promised);
        survey.unmarked.extend(&survey.torn);
        let state = self.image.state();
        let dump = survey.dump.as_ref().map_or(state.dump, |it| it.dump.generation);
        self.stamps.set_log_ends(LogEnds { trims: self.trims.end(), dump });
        self.found = Some(found);
        Ok(survey)
    }

    /// Reads the erase counts of all parts of blocks. Returns the parts with a damaged copy, and those with a
    /// copy that lacks the latest erase.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read.
    pub fn read_erases(&mut self) -> io::Result<(Vec<u32>, Vec<u32>)> {
        let found = table::read(self.image.file(), &self.layout)?;
        self.erases = found.erases;
        Ok((found.damaged, found.behind))
    }

    fn survey_records(
        &mut self,
        survey: &mut Survey,
        found: &mut FoundContents,
        last: Option<u64>,
    ) -> io::Result<Promised> {
        (survey.parts, survey.behind) = self.read_erases()?;
        let vouched = self.stamps.durable();
        let mut durable = vouched;
        let mut promised = Promised::default();
        let mut unconfirmed: Vec<(u64, u32)> = Vec::new();
        self.read_records(|store, program, Copies { found: record, other }| {
            let record = match record {
                spare::RecordState::Erased => return,
                spare::RecordState::Unreadable if last.is_some() => {
                    return survey.given_up.push(program);
                }
                unreadable @ (spare::RecordState::Torn | spare::RecordState::Unreadable) => {
                    survey.unreadable.push(program);
                    if unreadable == spare::RecordState::Unreadable {
                        survey.unmarked.push(program);
                    } else if other.is_some() {
                        survey.half_marked.push(program);
                    }
                    found.note_unreadable(program);
                    return;
                }
                spare::RecordState::Written(record) => record,
            };
            survey.written += 1;
            store.stamps.raise_to(record.stamp, 0);
            durable = durable.max(record.durable);
            if record.stamp > durable {
                unconfirmed.push((record.stamp, program));
            }
            let part = store.layout.part_of_program(program);
            let erases = &mut store.erases[part as usize];
            if record.erases > *erases {
                // The entry was on the disk before anything was programmed, so it is damaged.
                *erases = record.erases;
                survey.parts.push(part);
            }
            let is_current = record.erases == *erases && record.stamp <= vouched;
            if is_current {
                let last = promised.last.entry(part).or_insert(program);
                *last = (*last).max(program);
            }
            if let Some(copy) = other {
                promised.one_sided += u64::from(is_current);
                survey.one_sided.push((program, copy));
            }
            found.note_record(&store.layout, program, &record);
            let first = (program * store.layout.units_per_program) as usize;
            store.sums[first..first + record.sums.len()].copy_from_slice(&record.sums);
        })?;
        self.stamps.raise_to(0, durable);
        unconfirmed.retain(|&(stamp, _)| stamp > durable);
        unconfirmed.sort_unstable();
        survey.stamps = unconfirmed.iter().map(|&(stamp, _)| stamp).collect();
        for (stamp, program) in unconfirmed {
            if last.is_some_and(|last| stamp > last) {
                survey.given_up.push(program);
                found.note_erased(&self.layout, program);
                continue;
            }
            survey.compared += 1;
            if !self.matches_checksums(program, found)? {
                survey.torn.push(program);
                found.note_unreadable(program);
            }
        }
        let counts_for_nothing: HashSet<u32> =
            survey.torn.iter().chain(&survey.given_up).copied().collect();
        survey.one_sided.retain(|(program, _)| !counts_for_nothing.contains(program));
        survey.parts.sort_unstable();
        survey.parts.dedup();
        Ok(promised)
    }

    fn survey_trims(&mut self, survey: &mut Survey, found: &mut FoundContents) -> io::Result<()> {
        let promised = self.image.state().trims;
        let trims = TrimLog::read(self.image.file(), &self.layout, promised)?;
        if trims.damaged > 0 {
            survey.damage.found.push(format!(
                "a copy of {} batches of the log of trims is damaged; the other copy is intact",
                trims.damaged
            ));
        }
        if trims.is_cut_short && self.image.state().is_clean {
            survey.damage.found.push(
                "both copies of a batch of the log of trims are damaged; the drive rewrites it \
                 from its tables when it is attached"
                    .to_owned(),
            );
        } else if trims.is_cut_short {
            survey.damage.refused.push(format!(
                "both copies of a batch of the log of trims are damaged: {} of {} batches reported \
                 as durable are left, and data that later ones trimmed would come back",
                trims.log.end().batches,
                promised.batches
            ));
        }
        (self.trims, found.trims) = (trims.log, trims.records);
        survey.trims = found.trims.len() as u64;
        Ok(())
    }

    fn survey_dump(
        &mut self,
        survey: &mut Survey,
        found: &mut FoundContents,
        dump: Option<FoundDump>,
        is_missing: bool,
    ) -> io::Result<()> {
        if is_missing {
            survey.damage.refused.push(
                "both heads of the latest dump of the write buffer are damaged: units reported as \
                 durable are lost, and it is not known which"
                    .to_owned(),
            );
        }
        let Some(dump) = dump else { return Ok(()) };
        let damaged = self.choose_saved(found, &dump)?;
        if damaged > 0 {
            survey.damage.found.push(format!(
                "{damaged} units in the latest dump of the write buffer are damaged: reads of them \
                 fail until they are rewritten"
            ));
        }
        if dump.damaged_head.is_some() && dump.dump.generation <= self.image.state().dump {
            survey.damage.found.push(
                "a copy of the head of the latest dump of the write buffer is damaged; the other \
                 copy is intact"
                    .to_owned(),
            );
        }
        survey.saved = found.saved.len() as u64;
        survey.dump = Some(dump);
        Ok(())
    }

    /// Adds the damage of records and of the block table to the survey.
    fn report_record_damage(&self, survey: &mut Survey, promised: &Promised) {
        if promised.one_sided > 0 {
            survey.damage.found.push(format!(
                "a copy of the OOB area of {} program units is damaged; the other copy is intact",
                promised.one_sided
            ));
        }
        if !survey.parts.is_empty() {
            survey.damage.found.push(format!(
                "a copy of {} entries of the block table is damaged; the other copy or the OOB \
                 areas are intact",
                survey.parts.len()
            ));
        }
        let is_promised = |program: &&u32| {
            let part = self.layout.part_of_program(**program);
            promised.last.get(&part).is_some_and(|last| *program < last)
        };
        let lost = survey.unmarked.iter().filter(is_promised).count();
        // If the saved tables are intact, they say which data is lost with these program units.
        if lost > 0 && !self.image.state().is_clean {
            survey.damage.refused.push(format!(
                "both copies of the OOB area of {lost} program units are damaged: older data of \
                 their units would come back"
            ));
        }
    }

    /// Repairs the image: writes anew the copies that the survey found damaged or missing, marks torn program
    /// units as such, and writes those that were given up as erased.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read or written.
    pub fn repair(&mut self, survey: &Survey) -> io::Result<()> {
        let file = self.image.file();
        for &program in survey.unmarked.iter().chain(&survey.half_marked) {
            for at in self.layout.records_at(program) {
                file.write_all_at(&Record::torn(), at)?;
            }
        }
        let mut bytes = vec![0; self.layout.record as usize];
        for at in survey.given_up.iter().flat_map(|&program| self.layout.records_at(program)) {
            file.write_all_at(&bytes, at)?;
        }
        for &(program, copy) in &survey.one_sided {
            let at = self.layout.records_at(program);
            file.read_exact_at(&mut bytes, at[1 - copy])?;
            file.write_all_at(&bytes, at[copy])?;
        }
        self.repair_erases(&survey.parts)?;
        self.repair_erases(&survey.behind)?;
        let file = self.image.file();
        if let Some(dump) = &survey.dump {
            dump.repair(file, &self.layout)?;
        }
        self.stamps.next_stamp();
        Ok(())
    }

    /// Writes the block table entries of these `parts` anew.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written.
    pub fn repair_erases(&mut self, parts: &[u32]) -> io::Result<()> {
        parts.iter().try_for_each(|&part| {
            table::write(self.image.file(), &self.layout, part, self.erases[part as usize])
        })
    }

    /// Calls `each` for every record that is not a hole of the file in both copies.
    fn read_records(&mut self, mut each: impl FnMut(&mut Store, u32, Copies)) -> io::Result<()> {
        let (record, size) = (self.layout.record, self.layout.spare_size);
        let (begin, length) = (self.layout.spare, record * u64::from(self.layout.programs()));
        let mut at = 0;
        let mut bytes = [0, 1].map(|_| vec![0; READ_CHUNK.next_multiple_of(record) as usize]);
        // The next data of each copy, relative to the beginning of the copy.
        let mut next: [Option<std::ops::Range<u64>>; 2] = [const { Some(0..0) }; 2];
        while at < length {
            for (begin, next) in [begin, begin + size].into_iter().zip(&mut next) {
                if next.as_ref().is_some_and(|data| data.end <= at) {
                    let data = self.image.file().next_data(begin + at)?;
                    *next = data.map(|data| data.start - begin..data.end - begin);
                }
            }
            let Some(first) = next.iter().flatten().min_by_key(|data| data.start.max(at)) else {
                break;
            };
            // Records at the ends of a hole may lie partly in it.
            let from = first.start.max(at) / record * record;
            let until = first.end.min(length).next_multiple_of(record);
            if from >= until {
                break;
            }
            let count = (until - from).min(bytes[0].len() as u64) as usize;
            for (begin, bytes) in [begin, begin + size].into_iter().zip(&mut bytes) {
                self.image.file().read_exact_at(&mut bytes[..count], begin + from)?;
            }
            let [one, other] = &bytes;
            let copies = one[..count]
                .chunks_exact(record as usize)
                .zip(other[..count].chunks_exact(record as usize));
            for (slot, (one, other)) in ((from / record) as u32..).zip(copies) {
                let program = self.layout.program_at(slot);
                each(self, program, Copies::decode([one, other], self.layout.units_per_program));
            }
            at = from + count as u64;
        }
        Ok(())
    }

    /// Returns true if the data of `program` matches the checksums in its record.
    fn matches_checksums(&self, program: u32, found: &FoundContents) -> io::Result<bool> {
        let mut data = vec![0; self.layout.program_size() as usize];
        self.image.file().read_exact_at(&mut data, self.layout.data_at(program))?;
        let first = (program * self.layout.units_per_program) as usize;
        let units = data.chunks(self.layout.unit as usize).zip(&self.sums[first..]);
        Ok(found
            .spare_of(&self.layout, program)
            .iter()
            .zip(units)
            .all(|(&named, (data, &sum))| named == 0 || crc32fast::hash(data) == sum))
    }

    /// Reads the data of every unit that a spare area names, and compares it with its checksum. Returns the
    /// program units with data that does not match.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read.
    pub fn verify_data(&self) -> io::Result<Vec<u32>> {
        let Some(found) = &self.found else { return Ok(Vec::new()) };
        let mut wrong = Vec::new();
        for (program, _) in found.readable() {
            if !self.matches_checksums(program, found)? {
                wrong.push(program);
            }
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_last_is_given_up_first_and_what_has_no_record_before_all() {
        let stamps = vec![3, 5, 9];
        let mut survey = Survey { stamps, torn: vec![7], unmarked: vec![7], ..Survey::default() };
        assert_eq!(survey.earlier(), [8, 4, 2]);
        survey.unmarked.insert(0, 4);
        assert_eq!(survey.earlier(), [u64::MAX, 8, 4, 2]);
    }
}
