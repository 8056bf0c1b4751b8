//! Doing to the image what the drive has done to its flash.

use std::cmp::Ordering;
use std::io;

use ssdlab_model::media::{FlashWork, SequenceNumber, TrimRecord};
use ssdlab_model::units::{Instant, LogicalUnit, PhysicalUnit};

use super::work::{From, Program, Purpose, Task, UnderWay, Work};
use super::{Part, Source, Store};
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
        if self.next_due > until && !self.is_stuck && self.under_way.is_none() {
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
        loop {
            self.finish_under_way()?;
            // Whoever brings what is written ahead is waited for.
            let Some(first) = self.first_due(until) else {
                self.is_stuck = false;
                return Ok(());
            };
            if let Some((program, life)) = first {
                self.settle(program, life);
            }
            let Some(work) = self.begin_next(until)? else { return Ok(()) };
            self.do_it(work);
        }
    }

    /// Does a step that was begun, here and now.
    fn do_it(&mut self, work: Work) {
        let mut hands = std::mem::take(&mut self.hands);
        work.carry_out(self.image.file(), &mut hands);
        self.hands = hands;
    }

    /// Whether anything is to be carried out, and which program unit of which life if it is one.
    fn first_due(&self, until: Instant) -> Option<Option<(u32, u64)>> {
        let due = self.due.peek().filter(|due| due.work.span.end <= until)?;
        Some(match due.action {
            Action::Program { first, life, .. } => Some((self.layout.program_of(first), life)),
            _ => None,
        })
    }

    /// Begins the next step of what the drive has done to its flash by `until`, if there is one that can
    /// be done now. Nothing else is under way then.
    ///
    /// # Errors
    /// When the image cannot be written; it is tried again next time.
    pub fn begin_next(&mut self, until: Instant) -> io::Result<Option<Work>> {
        debug_assert!(self.under_way.is_none(), "one step after the other");
        if let Some(work) = self.begin_clearing_late() {
            return Ok(Some(work));
        }
        self.append_due_trims(until)?;
        let Some(due) = self.due.peek().filter(|due| due.work.span.end <= until) else {
            return Ok(None);
        };
        match &due.action {
            &Action::Program { first, life, .. } => {
                let program = self.layout.program_of(first);
                let staged = self.staged_in(program, life).expect("what is booked is staged");
                if staged.is_on_its_way() {
                    return Ok(None);
                }
                if staged.is_ahead {
                    self.take_back();
                }
                let part = self.layout.part_of_program(program);
                if let Some((erased, stamp)) = self.erased_beside(part) {
                    let staged = self.staged_in(program, life).expect("it was a moment ago");
                    let goes = erased == part && staged.is_ahead;
                    assert!(!goes, "what was written ahead would be punched out");
                    // What is there may be all that is durable of its units.
                    return Ok(Some(self.begin_clearing(erased, stamp)));
                }
                self.parts.set(part, Part::Usual);
            }
            Action::Erase { .. } if self.erases_until.is_some_and(|until| due.order > until) => {
                self.wants_buffer_saved = true;
                return Ok(None);
            }
            Action::Erase { .. } | Action::Trims(_) => {}
        }
        let Some(due) = self.due.pop() else { return Ok(None) };
        self.note_next();
        let task = match &due.action {
            Action::Program { first, number, spare, is_slc, life } => {
                let record = Record { is_slc: *is_slc, number: number.0, ..Record::default() };
                Task::Program(Box::new(self.program(*first, record, spare, *life)))
            }
            Action::Erase { part } => {
                let erases = self.erases[*part as usize] + 1;
                Task::Count { at: self.layout.erases_at(*part), erases }
            }
            Action::Trims(_) => unreachable!("they were added above"),
        };
        Ok(Some(self.begin(Purpose::Due(due), task)))
    }

    /// Adds the records of trims to their log that come next.
    fn append_due_trims(&mut self, until: Instant) -> io::Result<()> {
        while let Some(due) = self.due.peek().filter(|due| due.work.span.end <= until) {
            let Action::Trims(records) = &due.action else { break };
            let outcome = self.trims.append(self.image.file(), &self.layout, records);
            self.is_stuck = outcome.is_err();
            outcome?;
            self.stamp += 1;
            self.due.pop();
            self.note_next();
        }
        Ok(())
    }

    fn note_next(&mut self) {
        let never = Instant::from_nanos(u64::MAX);
        self.next_due = self.due.peek().map_or(never, |due| due.work.span.end);
    }

    fn begin(&mut self, purpose: Purpose, task: Task) -> Work {
        let (under_way, work) = UnderWay::new(purpose, task, self.gate.clone());
        self.under_way = Some(under_way);
        work
    }

    /// A part of the block of `part` that is erased and still holds its records, `part` itself or another
    /// one. While one does, the block looks full to whoever reads the image after a crash: the room that
    /// is left in it is lost, and without it a full drive cannot collect. So none does once any part of
    /// the block is programmed.
    fn erased_beside(&self, part: u32) -> Option<(u32, u64)> {
        let first = part - part % self.layout.stripe;
        (first..first + self.layout.stripe).find_map(|it| match self.parts.get(it) {
            Part::Erased { stamp } => Some((it, stamp)),
            Part::Usual | Part::Bare => None,
        })
    }

    /// Whether `part`, which has just been erased, is one of a block of which other parts were erased
    /// before and may be programmed already.
    fn is_late(&self, part: u32) -> bool {
        let first = part - part % self.layout.stripe;
        (first..first + self.layout.stripe).any(|it| {
            self.erases[it as usize] == self.erases[part as usize]
                && !matches!(self.parts.get(it), Part::Erased { .. })
        })
    }

    /// Begins to take away what a part held that was erased late.
    fn begin_clearing_late(&mut self) -> Option<Work> {
        while let Some(&part) = self.erased_late.last() {
            if let Part::Erased { stamp } = self.parts.get(part) {
                return Some(self.begin_clearing(part, stamp));
            }
            self.erased_late.pop();
        }
        None
    }

    /// Begins to take away what `part` held, which is erased, so that it can be programmed.
    fn begin_clearing(&mut self, part: u32, erased: u64) -> Work {
        if erased > self.durable {
            return self.begin(Purpose::Sync { stamp: self.stamp }, Task::Sync);
        }
        let records = Some(self.layout.records_of_part(part));
        // Data that is written over where it lies need not be punched out first: that takes long, and
        // then the system has to find room for it anew. But somebody may be sending it from there.
        let data = (!self.is_helped).then(|| self.layout.data_of_part(part));
        let purpose = Purpose::Clear { part, with_data: data.is_some() };
        self.begin(purpose, Task::Clear { records, data })
    }

    /// Begins to punch out something that is erased and need not be there, if there is anything.
    pub fn begin_punching(&mut self) -> Option<Work> {
        debug_assert!(self.under_way.is_none(), "one step after the other");
        if let Some((stamp, part)) = self.parts.first_erased()
            && stamp <= self.durable
        {
            return Some(self.begin_clearing(part, stamp));
        }
        let part = self.parts.first_bare()?;
        let data = Some(self.layout.data_of_part(part));
        let purpose = Purpose::Clear { part, with_data: true };
        Some(self.begin(purpose, Task::Clear { records: None, data }))
    }

    /// What is to be written of a program unit.
    fn program(
        &mut self,
        first: PhysicalUnit,
        record: Record,
        spare: &[u32],
        life: u64,
    ) -> Program {
        let program = self.layout.program_of(first);
        let staged = match self.staged.get(&program) {
            Some(staged) if staged.life == life => staged.clone(),
            _ => self.older.get(&life).expect("what is booked is staged").clone(),
        };
        let from = |(index, &logical): (usize, &u32)| match staged.units[index] {
            _ if logical == 0 => From::Padding,
            Source::Ahead { sum, .. } => From::Ahead { sum },
            Source::Here { sum, .. } => From::Here { sum },
            Source::CopyOf { from, life } => self.copy_of(from, life),
            Source::Nothing => From::Blank { byte: self.blank },
        };
        let units = spare.iter().enumerate().map(from).collect();
        let (stamp, durable) = (self.stamp + 1, self.durable);
        Program {
            staged,
            units,
            record: Record { stamp, durable, logical: spare.to_vec(), ..record },
            at: self.layout.data_at(program),
            record_at: self.layout.record_at(program),
            record_size: self.layout.record,
            unit: self.layout.unit as usize,
        }
    }

    /// Where the data is of a unit that is a copy of `from`.
    fn copy_of(&self, from: PhysicalUnit, life: Option<u64>) -> From {
        let (unit, life) = match life {
            None => (from, None),
            Some(life) => self.origin_in(from, life),
        };
        let program = self.layout.program_of(unit);
        let index = unit.0 - program * self.layout.units_per_program;
        let at = self.layout.unit_at(unit);
        let Some(life) = life else {
            let within = Record::sum_offset(self.layout.units_per_program, index);
            let sum_at = self.layout.record_at(program) + within;
            return From::Image { at, sum: self.sums[unit.0 as usize], sum_at };
        };
        let staged = self.staged_in(program, life).expect("it is staged");
        let (index, size) = (index as usize, self.layout.unit as usize);
        match staged.units[index] {
            Source::Ahead { sum, .. } => From::Image { at, sum, sum_at: 0 },
            source => {
                let data = &staged.data[index * size..(index + 1) * size];
                let sum = match source {
                    Source::Here { sum, .. } => sum,
                    _ => crc32fast::hash(data),
                };
                From::Ram { data: data.into(), sum }
            }
        }
    }

    /// Waits for what is being done to the image, if anything is, and notes what came of it.
    ///
    /// # Errors
    /// When it could not be done; it is tried again next time.
    pub fn finish_under_way(&mut self) -> io::Result<()> {
        let Some(under_way) = self.under_way.take() else { return Ok(()) };
        match under_way.wait() {
            (Purpose::Due(due), Ok(sums)) => {
                self.is_stuck = false;
                self.note_done(&due.action, sums);
            }
            (Purpose::Due(due), Err(error)) => {
                self.is_stuck = true;
                self.due.push(due);
                self.note_next();
                return Err(error);
            }
            (Purpose::Sync { stamp }, Ok(_)) => self.durable = self.durable.max(stamp),
            (Purpose::Clear { part, with_data }, Ok(_)) => {
                self.parts.set(part, if with_data { Part::Usual } else { Part::Bare });
            }
            (Purpose::Sync { .. } | Purpose::Clear { .. }, Err(error)) => {
                self.is_stuck = true;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The same for whoever only wants to know where everything is: what could not be done waits again.
    fn settle_under_way(&mut self) {
        // It fails again when it is tried again, and is told then.
        let _ = self.finish_under_way();
    }

    fn note_done(&mut self, action: &Action, sums: Vec<u32>) {
        self.stamp += 1;
        match *action {
            Action::Program { first, life, .. } => {
                let program = self.layout.program_of(first);
                let first = first.0 as usize;
                self.sums[first..first + sums.len()].copy_from_slice(&sums);
                let is_latest = self.staged.get(&program).is_some_and(|staged| staged.life == life);
                let staged =
                    if is_latest { self.staged.remove(&program) } else { self.older.remove(&life) };
                self.give_back(staged.expect("what is booked is staged"));
            }
            Action::Erase { part } => {
                self.erases[part as usize] += 1;
                if !matches!(self.parts.get(part), Part::Erased { .. }) {
                    self.parts.set(part, Part::Erased { stamp: self.stamp });
                }
                if self.is_late(part) {
                    self.erased_late.push(part);
                }
                let owed = &mut self.erases_owed[part as usize];
                *owed = owed.checked_sub(1).expect("an erase was owed before it was booked");
            }
            Action::Trims(_) => unreachable!("they are no step of their own"),
        }
    }

    /// Does one step of what is over by `until`, to take it off somebody who does not keep up.
    ///
    /// # Errors
    /// As [`Store::carry_out`].
    pub fn carry_out_one(&mut self, until: Instant) -> io::Result<()> {
        self.finish_under_way()?;
        if let Some(work) = self.begin_next(until)? {
            self.do_it(work);
        }
        self.finish_under_way()
    }

    /// Whether anything waits to be done that is over by `until`.
    pub fn has_due(&self, until: Instant) -> bool {
        self.next_due <= until
    }

    /// How much is booked and not done yet: as many program units, at most, are held in RAM.
    pub fn backlog(&self) -> usize {
        self.due.len()
    }

    /// Says whether somebody does what the drive does to its flash all the time, so that nobody else
    /// needs to. Nothing may be sent from where it lies in the image then.
    pub fn set_helped(&mut self, is_helped: bool) {
        self.is_helped = is_helped;
    }

    /// Whether somebody does.
    pub fn is_helped(&self) -> bool {
        self.is_helped
    }

    /// Makes everything durable that was written to the image.
    ///
    /// # Errors
    /// When the system fails it.
    pub fn sync(&mut self) -> io::Result<()> {
        self.finish_under_way()?;
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
        if self.is_helped {
            return Ok(());
        }
        loop {
            self.finish_under_way()?;
            let Some(work) = self.begin_punching() else { return Ok(()) };
            self.do_it(work);
        }
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
        self.finish_under_way()?;
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
    pub fn in_buffer(&mut self) -> Vec<(LogicalUnit, PhysicalUnit)> {
        self.settle_under_way();
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
    pub fn staged_units(&mut self) -> Vec<LogicalUnit> {
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
        self.finish_under_way()?;
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
        self.finish_under_way()?;
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
        self.finish_under_way()?;
        let stamp = self.stamp;
        self.image.set_state(State { stamp, ..state })?;
        self.note_durable(stamp)
    }
}
