//! Doing to the image what the drive has done to its flash.

use std::cmp::Ordering;
use std::io;

use ssdlab_model::media::{FlashWork, SequenceNumber, TrimRecord};
use ssdlab_model::units::{Instant, LogicalUnit, PhysicalUnit};

use super::{Source, Staged, Store};
use crate::image::saved::Saved;
use crate::image::spare::Record;
use crate::image::state::State;
use crate::image::trims::TrimLog;

/// Something done to the flash.
#[derive(Debug)]
pub(super) enum Action {
    Program {
        first: PhysicalUnit,
        number: SequenceNumber,
        spare: Box<[u32]>,
        is_slc: bool,
        life: u64,
    },
    Erase {
        part: u32,
    },
    Trims(Box<[TrimRecord]>),
}

/// The same with when, ordered so that the first of a heap is what ends first.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) work: FlashWork,
    pub(super) order: u64,
    pub(super) action: Action,
}

impl Due {
    fn key(&self) -> (Instant, u64) {
        (self.work.span.end, self.order)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl Store {
    /// Does to the image what the drive has done to its flash by `until`.
    ///
    /// # Errors
    /// When the image cannot be read or written; what was not done is tried again next time.
    #[inline]
    pub fn carry_out(&mut self, until: Instant) -> io::Result<()> {
        if self.next_due > until && !self.is_stuck {
            return Ok(());
        }
        self.carry_out_due(until)
    }

    /// Whether an erase waits for the buffer to be saved: [`Store::carry_out`] has stopped there.
    pub fn wants_buffer_saved(&self) -> bool {
        self.wants_buffer_saved
    }

    /// The buffer was saved, durably: erases that are booked now may be carried out.
    pub fn allow_erases(&mut self) {
        self.erases_until = self.erases_until.map(|_| self.booked);
        self.wants_buffer_saved = false;
    }

    #[inline(never)]
    fn carry_out_due(&mut self, until: Instant) -> io::Result<()> {
        let mut outcome = Ok(());
        while self.due.peek().is_some_and(|due| due.work.span.end <= until) {
            let Some(due) = self.due.pop() else { break };
            let is_erase = matches!(due.action, Action::Erase { .. });
            if is_erase && self.erases_until.is_some_and(|until| due.order > until) {
                self.wants_buffer_saved = true;
                self.due.push(due);
                break;
            }
            outcome = self.carry_out_one(&due.action);
            if outcome.is_err() {
                self.due.push(due);
                break;
            }
        }
        self.is_stuck = outcome.is_err();
        let never = Instant::from_nanos(u64::MAX);
        self.next_due = self.due.peek().map_or(never, |due| due.work.span.end);
        outcome
    }

    fn carry_out_one(&mut self, action: &Action) -> io::Result<()> {
        match action {
            Action::Program { first, number, spare, is_slc, life } => {
                let record = Record { is_slc: *is_slc, number: number.0, ..Record::default() };
                self.write_program(*first, record, spare, *life)
            }
            Action::Erase { part } => {
                self.note_erased(*part)?;
                let owed = &mut self.erases_owed[*part as usize];
                *owed = owed.checked_sub(1).expect("an erase was owed before it was booked");
                Ok(())
            }
            Action::Trims(records) => {
                self.trims.append(self.image.file(), &self.layout, records)?;
                self.stamp += 1;
                Ok(())
            }
        }
    }

    fn write_program(
        &mut self,
        first: PhysicalUnit,
        record: Record,
        spare: &[u32],
        life: u64,
    ) -> io::Result<()> {
        let program = self.layout.program_of(first);
        self.settle(program, life);
        if self.is_unpunched[self.layout.part_of_program(program) as usize] {
            let staged = self.staged_in(program, life).expect("what is booked is staged");
            assert!(!staged.is_ahead, "what was written ahead would be punched out");
            // What is there may be all that is durable of its units.
            self.sync()?;
        }
        let is_latest = self.staged.get(&program).is_some_and(|staged| staged.life == life);
        let staged =
            if is_latest { self.staged.remove(&program) } else { self.older.remove(&life) };
        let mut staged = staged.expect("what is booked is staged");
        let outcome = self.write_staged(program, &mut staged, record, spare);
        match outcome {
            Ok(()) => self.give_back(staged),
            Err(_) if is_latest => drop(self.staged.insert(program, staged)),
            Err(_) => drop(self.older.insert(life, staged)),
        }
        outcome
    }

    fn write_staged(
        &mut self,
        program: u32,
        staged: &mut Staged,
        record: Record,
        spare: &[u32],
    ) -> io::Result<()> {
        let size = self.layout.unit as usize;
        let first = program * self.layout.units_per_program;
        let mut sums = vec![0; spare.len()];
        // What is to be written, as stretches of units: all but what was written ahead.
        let mut stretches: Vec<std::ops::Range<usize>> = Vec::new();
        for (index, &logical) in spare.iter().enumerate() {
            let data = &mut staged.data[index * size..(index + 1) * size];
            if logical == 0 {
                data.fill(0);
                continue;
            }
            sums[index] = match staged.units[index] {
                Source::Ahead { sum, .. } => {
                    sums[index] = sum;
                    continue;
                }
                Source::Here { sum, .. } => sum,
                Source::CopyOf { from, life } => {
                    let (from, life) = match life {
                        None => (from, None),
                        Some(life) => self.origin_in(from, life),
                    };
                    self.read_from(from, life, data)?
                }
                Source::Nothing => {
                    // A unit that the model filled on its own.
                    data.fill(self.blank);
                    crc32fast::hash(data)
                }
            };
            // Padding between is written, too, where nothing lies ahead there.
            match stretches.last_mut() {
                Some(last) if !staged.is_ahead || last.end == index => last.end = index + 1,
                _ => stretches.push(index..index + 1),
            }
        }
        let stamp = self.stamp + 1;
        let durable = self.durable;
        let at = self.layout.data_at(program);
        let gate = self.gate.clone();
        // Whoever panicked while reading has not harmed anything.
        let _alone = staged.is_changed.then(|| gate.write().unwrap_or_else(|it| it.into_inner()));
        for units in stretches {
            let (from, until) = (units.start * size, units.end * size);
            self.image.file().write_all_at(&staged.data[from..until], at + from as u64)?;
        }
        let record = Record { stamp, durable, logical: spare.to_vec(), sums, ..record };
        let mut bytes = vec![0; self.layout.record as usize];
        record.encode(&mut bytes);
        self.image.file().write_all_at(&bytes, self.layout.record_at(program))?;
        self.stamp = stamp;
        let places = &mut self.sums[first as usize..first as usize + spare.len()];
        places.copy_from_slice(&record.sums);
        Ok(())
    }

    /// A part of a block is erased: it is punched out as soon as what was written before is
    /// durable.
    fn note_erased(&mut self, part: u32) -> io::Result<()> {
        let erases = self.erases[part as usize] + 1;
        self.image.file().write_all_at(&erases.to_le_bytes(), self.layout.erases_at(part))?;
        self.erases[part as usize] = erases;
        self.stamp += 1;
        if !std::mem::replace(&mut self.is_unpunched[part as usize], true) {
            self.unpunched.push((self.stamp, part));
        }
        Ok(())
    }

    /// Makes everything durable that was written to the image.
    ///
    /// # Errors
    /// When the system fails it.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.durable < self.stamp {
            self.image.file().sync_data()?;
        }
        self.note_durable(self.stamp)
    }

    /// Notes that everything written up to `stamp` is durable.
    ///
    /// # Errors
    /// When what is erased cannot be punched out.
    pub fn note_durable(&mut self, stamp: u64) -> io::Result<()> {
        self.durable = self.durable.max(stamp);
        if self.unpunched.first().is_none_or(|&(erased, _)| erased > self.durable) {
            return Ok(());
        }
        let gate = self.gate.clone();
        // Whoever panicked while reading has not harmed anything.
        let _alone = gate.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        while let Some(&(erased, part)) = self.unpunched.first() {
            if erased > self.durable {
                break;
            }
            // The records go first: without them nothing is there.
            let (from, length) = self.layout.records_of_part(part);
            self.image.file().punch(from, length)?;
            let (from, length) = self.layout.data_of_part(part);
            self.image.file().punch(from, length)?;
            self.is_unpunched[part as usize] = false;
            self.unpunched.remove(0);
        }
        Ok(())
    }

    /// Keeps `units`, which lie in the buffer at these places, as capacitors would; `number` is the
    /// latest sequence number.
    ///
    /// # Errors
    /// When the image cannot be written.
    pub fn save_buffer(
        &mut self,
        number: SequenceNumber,
        units: &[(LogicalUnit, PhysicalUnit)],
    ) -> io::Result<()> {
        let size = self.layout.unit as usize;
        let mut saved = Saved {
            generation: self.saved.generation + 1,
            number: number.0,
            logical: Vec::new(),
            data: Vec::new(),
        };
        for &(logical, place) in units {
            saved.logical.push(logical);
            let from = saved.data.len();
            saved.data.resize(from + size, 0);
            self.read_unit(place, &mut saved.data[from..])?;
        }
        if saved.logical.is_empty() && self.saved.logical.is_empty() {
            return Ok(());
        }
        saved.write(self.image.file(), &self.layout)?;
        self.stamp += 1;
        self.saved = saved;
        Ok(())
    }

    /// The units that the host wrote and that no program was carried out for, with their places.
    pub fn in_buffer(&self) -> Vec<(LogicalUnit, PhysicalUnit)> {
        let per_program = self.layout.units_per_program;
        let mut places = Vec::new();
        let older = self.due.iter().filter_map(|due| match due.action {
            Action::Program { first, life, .. } => {
                Some((self.layout.program_of(first), self.older.get(&life)?))
            }
            _ => None,
        });
        for (program, staged) in self.staged.iter().map(|(&it, staged)| (it, staged)).chain(older) {
            for (index, source) in staged.units.iter().enumerate() {
                if let &(Source::Here { logical, .. } | Source::Ahead { logical, .. }) = source {
                    places.push((logical, PhysicalUnit(program * per_program + index as u32)));
                }
            }
        }
        places.sort_unstable_by_key(|(_, place)| place.0);
        places
    }

    /// The logical units whose data is of no program unit that was carried out, copies included.
    pub fn staged_units(&self) -> Vec<LogicalUnit> {
        let mut units: Vec<LogicalUnit> = self.in_buffer().into_iter().map(|it| it.0).collect();
        for due in &self.due {
            if let Action::Program { spare, .. } = &due.action {
                let named = spare.iter().filter_map(|unit| unit.checked_sub(1));
                units.extend(named.map(LogicalUnit));
            }
        }
        units
    }

    /// Finds the end of the log of trims that is in use.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn resume_trims(&mut self) -> io::Result<()> {
        let number = self.image.state().trim_log;
        self.trims = TrimLog::read(self.image.file(), &self.layout, number)?.0;
        Ok(())
    }

    /// Adds records of trims to the log at once, those that were not added so before.
    ///
    /// # Errors
    /// When the image cannot be written.
    pub fn append_trims(&mut self, records: &[TrimRecord]) -> io::Result<()> {
        let from = records.partition_point(|record| record.number.0 <= self.trims_until);
        let records = &records[from..];
        let Some(last) = records.last() else { return Ok(()) };
        self.trims.append(self.image.file(), &self.layout, records)?;
        self.trims_until = last.number.0;
        self.stamp += 1;
        Ok(())
    }

    /// Whether the log of trims should be replaced by what still counts of it.
    pub fn trims_need_room(&self) -> bool {
        !self.trims.has_room(&self.layout, 1 << 17)
    }

    /// The records of trims in the log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn recorded_trims(&self) -> io::Result<Vec<TrimRecord>> {
        let (_, records) = TrimLog::read(self.image.file(), &self.layout, self.trims.number())?;
        Ok(records)
    }

    /// Begins a new log of trims with `records`, and says so in the state.
    ///
    /// # Errors
    /// When the image cannot be written; the old log then stays in use.
    pub fn replace_trims(&mut self, records: &[TrimRecord]) -> io::Result<()> {
        let mut log = TrimLog::new(self.trims.number() + 1);
        let (from, length) = log.region(&self.layout);
        self.image.file().punch(from, length)?;
        for batch in records.chunks(1 << 16) {
            log.append(self.image.file(), &self.layout, batch)?;
        }
        self.stamp += 1;
        let state = State { trim_log: log.number(), is_clean: false, ..self.image.state() };
        self.set_state(state)?;
        self.trims = log;
        Ok(())
    }

    /// Writes what the image says of itself, durably.
    ///
    /// # Errors
    /// When the image cannot be written.
    pub fn set_state(&mut self, state: State) -> io::Result<()> {
        let stamp = self.stamp;
        self.image.set_state(State { stamp, ..state })?;
        self.note_durable(stamp)
    }
}
