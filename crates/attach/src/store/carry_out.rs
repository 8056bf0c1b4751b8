//! Carries out on the image what the drive has done to its flash.

use std::io;

use super::happened::Happened;
use super::parts::Part;
use super::staged::Settled;
use super::work::{From, Program, Purpose, Task, UnderWay, Work};
use super::{Source, Store, lost_sum};
use crate::image::spare::Record;
use ssdlab_units::PhysicalUnit;

impl Store {
    /// Carries out on the image all that the drive has done to its flash. Stops at an erase that waits for the
    /// buffer to be saved.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read or written; the remaining operations are repeated by the
    /// next call.
    #[inline]
    pub fn carry_out(&mut self) -> io::Result<()> {
        if self.unheard.is_empty() && !self.is_stuck && self.under_way.is_none() {
            return Ok(());
        }
        self.carry_out_all()
    }

    #[inline(never)]
    fn carry_out_all(&mut self) -> io::Result<()> {
        loop {
            self.finish_under_way()?;
            // Data that is being written ahead has to arrive first.
            match self.unheard.first() {
                None => {
                    self.is_stuck = false;
                    return Ok(());
                }
                Some(&Happened::Programmed { program, life }) => self.settle(program, life),
                Some(_) => {}
            }
            let Some(work) = self.begin_next()? else { return Ok(()) };
            self.do_it(work);
        }
    }

    /// Carries out a step that was begun, in this thread.
    pub(super) fn do_it(&mut self, work: Work) {
        let mut hands = std::mem::take(&mut self.hands);
        work.carry_out(self.image.file(), &mut hands);
        self.hands = hands;
    }

    /// Begins the next step of carrying out flash operations; `None` if no step can be done now. No other step
    /// may be in flight.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written; the next call repeats the operation.
    pub fn begin_next(&mut self) -> io::Result<Option<Work>> {
        debug_assert!(self.under_way.is_none(), "one step after the other");
        debug_assert!(self.received.is_empty(), "data is handed over first");
        self.take_out();
        if let Some(work) = self.begin_clearing_late() {
            return Ok(Some(work));
        }
        self.append_recorded_trims()?;
        match self.unheard.first() {
            None => return Ok(None),
            Some(&Happened::Programmed { program, life }) => {
                let staged = self.staged_in(program, life).expect("what is programmed is staged");
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
                    // The old contents may be the only durable copy of their units.
                    return Ok(Some(self.begin_clearing(erased, stamp)));
                }
                self.parts.set(part, Part::Usual);
            }
            Some(&Happened::Erased { announced, .. }) => {
                if self.erases_until.is_some_and(|until| announced > until) {
                    self.wants_buffer_saved = true;
                    return Ok(None);
                }
            }
            Some(Happened::Trims(_)) => {}
        }
        let Some(happened) = self.unheard.take() else { return Ok(None) };
        let task = match happened {
            Happened::Programmed { program, life } => {
                Task::Program(Box::new(self.program(program, life)))
            }
            Happened::Erased { part, .. } => {
                let erases = self.erases[part as usize] + 1;
                Task::Count { at: self.layout.erases_at(part), part, erases }
            }
            Happened::Trims(_) => unreachable!("they were added above"),
        };
        Ok(Some(self.begin(Purpose::Happened(happened), task)))
    }

    pub(super) fn begin(&mut self, purpose: Purpose, task: Task) -> Work {
        let (under_way, work) = UnderWay::new(purpose, task, self.gate.clone());
        self.under_way = Some(under_way);
        work
    }

    /// Returns the step's data for writing a program unit.
    fn program(&mut self, program: u32, life: u64) -> Program {
        let staged = match self.staged.get(&program) {
            Some(staged) if staged.life == life => staged.clone(),
            _ => self.older.get(&life).expect("what is programmed is staged").clone(),
        };
        let settled = staged.settled.as_ref();
        let Settled { number, spare, is_slc } = settled.expect("what is programmed was begun");
        let from = |(index, &logical): (usize, &u32)| match staged.units[index] {
            _ if logical == 0 => From::Padding,
            Source::Ahead { sum, .. } => From::Ahead { sum },
            Source::Here { sum, .. } => From::Here { sum },
            Source::Lost { .. } => {
                let size = self.layout.unit as usize;
                From::Here { sum: lost_sum(&staged.data[index * size..(index + 1) * size]) }
            }
            Source::CopyOf { from, life } => self.copy_of(from, life),
            Source::Nothing => From::Blank { byte: self.blank },
        };
        let units = spare.iter().enumerate().map(from).collect();
        let (stamp, durable) = (self.stamp() + 1, self.progress.durable());
        let erases = self.erases[self.layout.part_of_program(program) as usize];
        Program {
            units,
            record: Record {
                is_slc: *is_slc,
                number: number.0,
                stamp,
                durable,
                erases,
                logical: spare.to_vec(),
                sums: Vec::new(),
            },
            at: self.layout.data_at(program),
            records_at: self.layout.records_at(program),
            record_size: self.layout.record,
            unit: self.layout.unit as usize,
            staged,
        }
    }

    /// Returns the source of the data of a unit that is a copy of `from`.
    fn copy_of(&self, from: PhysicalUnit, life: Option<u64>) -> From {
        let (unit, life) = match life {
            None => (from, None),
            Some(life) => self.origin_in(from, life),
        };
        let program = self.layout.program_of(unit);
        let index = unit.0 - program * self.layout.units_per_program;
        let at = self.layout.unit_at(unit);
        let Some(life) = life else {
            let record = Some((self.layout.records_at(program), index));
            return From::Image { at, sum: self.sums[unit.0 as usize], record };
        };
        let staged = self.staged_in(program, life).expect("it is staged");
        let (index, size) = (index as usize, self.layout.unit as usize);
        match staged.units[index] {
            Source::Ahead { sum, .. } => From::Image { at, sum, record: None },
            source => {
                let data = &staged.data[index * size..(index + 1) * size];
                let sum = match source {
                    Source::Here { sum, .. } => sum,
                    Source::Lost { .. } => lost_sum(data),
                    _ => crc32fast::hash(data),
                };
                From::Ram { data: data.into(), sum }
            }
        }
    }

    /// Waits for the step in flight, if there is one, and notes its outcome.
    ///
    /// # Errors
    /// Returns an error if the step failed; a flash operation is put back, to be repeated.
    pub fn finish_under_way(&mut self) -> io::Result<()> {
        let Some(under_way) = self.under_way.take() else { return Ok(()) };
        match under_way.wait() {
            (Purpose::Happened(happened), Ok(sums)) => {
                self.is_stuck = false;
                self.note_done(&happened, sums);
            }
            (Purpose::Happened(happened), Err(error)) => {
                self.is_stuck = true;
                self.unheard.put_back(happened);
                return Err(error);
            }
            (Purpose::Sync { stamp }, Ok(_)) => self.vouch(stamp)?,
            (Purpose::Clear { part, with_data }, Ok(_)) => {
                self.lent[part as usize] &= !with_data;
                self.parts.set(part, if with_data { Part::Usual } else { Part::Bare });
            }
            (Purpose::Sync { .. } | Purpose::Clear { .. }, Err(error)) => {
                self.is_stuck = true;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for the step in flight, so that the place of all data is known. A flash operation that failed is
    /// put back.
    pub(super) fn settle_under_way(&mut self) {
        // The step is repeated later, and a new failure reported then.
        let _ = self.finish_under_way();
    }

    fn note_done(&mut self, happened: &Happened, sums: Vec<u32>) {
        let stamp = self.progress.wrote();
        match *happened {
            Happened::Programmed { program, life } => {
                let first = (program * self.layout.units_per_program) as usize;
                self.sums[first..first + sums.len()].copy_from_slice(&sums);
                let is_latest = self.staged.get(&program).is_some_and(|staged| staged.life == life);
                let staged =
                    if is_latest { self.staged.remove(&program) } else { self.older.remove(&life) };
                let staged = staged.expect("what is programmed is staged");
                if let Some(undurable) = &mut self.undurable {
                    let number =
                        staged.settled.as_ref().map_or_else(Default::default, |it| it.number);
                    let host = staged.units.iter().filter_map(Source::host_unit).collect();
                    undurable.note(stamp, program, number, host);
                }
                self.give_back(staged);
            }
            Happened::Erased { part, .. } => {
                self.erases[part as usize] += 1;
                if !matches!(self.parts.get(part), Part::Erased { .. }) {
                    self.parts.set(part, Part::Erased { stamp });
                }
                if self.is_late(part) {
                    self.erased_late.push(part);
                }
                let owed = &mut self.erases_owed[part as usize];
                *owed = owed.checked_sub(1).expect("an erase was announced before");
            }
            Happened::Trims(_) => unreachable!("they are no step of their own"),
        }
    }

    /// Carries out one step, to relieve a helper that falls behind.
    ///
    /// # Errors
    /// As [`Store::carry_out`].
    pub fn carry_out_one(&mut self) -> io::Result<()> {
        self.finish_under_way()?;
        if let Some(work) = self.begin_next()? {
            self.do_it(work);
        }
        self.finish_under_way()
    }

    /// Sets whether a helper thread carries out the operations. If so, nothing may be sent in place from the
    /// image.
    pub fn set_helped(&mut self, is_helped: bool) {
        self.is_helped = is_helped;
    }

    /// Returns true if a helper thread carries out the operations.
    pub fn is_helped(&self) -> bool {
        self.is_helped
    }
}
