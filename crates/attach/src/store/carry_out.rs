//! Carries out on the image what the drive has done to its flash.

use std::io;

use super::op_queue::FlashOp;
use super::part_states::PartState;
use super::staged::Sealed;
use super::step::{Program, Purpose, Step, StepInFlight, Task, UnitSource};
use super::{Source, Store, mismatched_sum};
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
        if self.op_queue.is_empty() && !self.has_failed_write && self.step_in_flight.is_none() {
            return Ok(());
        }
        self.carry_out_all()
    }

    #[inline(never)]
    fn carry_out_all(&mut self) -> io::Result<()> {
        loop {
            self.finish_step()?;
            // Data that is being written ahead has to arrive first.
            match self.op_queue.first() {
                None => {
                    self.has_failed_write = false;
                    return Ok(());
                }
                Some(&FlashOp::Programmed { program, generation }) => {
                    self.wait_for_pieces(program, generation)
                }
                Some(_) => {}
            }
            let Some(step) = self.begin_next_step()? else { return Ok(()) };
            self.run_step(step);
        }
    }

    /// Carries out a step that was begun, in this thread.
    pub(super) fn run_step(&mut self, step: Step) {
        let mut buffers = std::mem::take(&mut self.step_buffers);
        step.carry_out(self.image.file(), &mut buffers);
        self.step_buffers = buffers;
    }

    /// Begins the next step of carrying out flash operations; `None` if no step can be done now. No other step
    /// may be in flight.
    ///
    /// # Errors
    /// Returns an error if the image cannot be written; the next call repeats the operation.
    pub fn begin_next_step(&mut self) -> io::Result<Option<Step>> {
        debug_assert!(self.step_in_flight.is_none(), "one step after the other");
        debug_assert!(self.received.is_empty(), "data is handed over first");
        self.resolve_deferred_copies();
        if let Some(step) = self.begin_clearing_late() {
            return Ok(Some(step));
        }
        self.append_recorded_trims()?;
        match self.op_queue.first() {
            None => return Ok(None),
            Some(&FlashOp::Programmed { program, generation }) => {
                let staged =
                    self.staged_in(program, generation).expect("what is programmed is staged");
                if staged.has_pieces_in_flight() {
                    return Ok(None);
                }
                if staged.is_written_ahead {
                    self.keep_unwritten_pieces();
                }
                let part = self.layout.part_of_program(program);
                if let Some((erased, stamp)) = self.erased_part_in_block(part) {
                    let staged = self.staged_in(program, generation).expect("it was a moment ago");
                    let goes = erased == part && staged.is_written_ahead;
                    assert!(!goes, "what was written ahead would be punched out");
                    // The old contents may be the only durable copy of their units.
                    return Ok(Some(self.begin_clearing(erased, stamp)));
                }
                self.part_states.set(part, PartState::AsOnFlash);
            }
            Some(&FlashOp::Erased { announced, .. }) => {
                if self.erases_allowed_until.is_some_and(|until| announced > until) {
                    self.wants_buffer_saved = true;
                    return Ok(None);
                }
            }
            Some(FlashOp::Trims(_)) => {}
        }
        let Some(op) = self.op_queue.take() else { return Ok(None) };
        let task = match op {
            FlashOp::Programmed { program, generation } => {
                Task::Program(Box::new(self.program(program, generation)))
            }
            FlashOp::Erased { part, .. } => {
                let erases = self.erases[part as usize] + 1;
                Task::WriteEraseCount { at: self.layout.erases_at(part), part, erases }
            }
            FlashOp::Trims(_) => unreachable!("they were added above"),
        };
        Ok(Some(self.begin(Purpose::FlashOp(op), task)))
    }

    pub(super) fn begin(&mut self, purpose: Purpose, task: Task) -> Step {
        let (step_in_flight, step) = StepInFlight::new(purpose, task, self.gate.clone());
        self.step_in_flight = Some(step_in_flight);
        step
    }

    /// Returns the step's data for writing a program unit.
    fn program(&mut self, program: u32, generation: u64) -> Program {
        let staged = match self.staged.get(&program) {
            Some(staged) if staged.generation == generation => staged.clone(),
            _ => self
                .older_generations
                .get(&generation)
                .expect("what is programmed is staged")
                .clone(),
        };
        let sealed = staged.sealed.as_ref();
        let Sealed { number, spare, is_slc } = sealed.expect("what is programmed was begun");
        let from = |(index, &logical): (usize, &u32)| match staged.units[index] {
            _ if logical == 0 => UnitSource::Padding,
            Source::WrittenAhead { sum, .. } => UnitSource::WrittenAhead { sum },
            Source::Staged { sum, .. } => UnitSource::Staged { sum },
            Source::Lost { .. } => {
                let size = self.layout.unit as usize;
                UnitSource::Staged {
                    sum: mismatched_sum(&staged.data[index * size..(index + 1) * size]),
                }
            }
            Source::CopyOf { from, generation } => self.copy_of(from, generation),
            Source::Nothing => UnitSource::Unmapped { byte: self.blank },
        };
        let units = spare.iter().enumerate().map(from).collect();
        let (stamp, durable) = (self.stamp() + 1, self.stamps.durable());
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
    fn copy_of(&self, from: PhysicalUnit, generation: Option<u64>) -> UnitSource {
        let (unit, generation) = match generation {
            None => (from, None),
            Some(generation) => self.origin_in(from, generation),
        };
        let program = self.layout.program_of(unit);
        let index = unit.0 - program * self.layout.units_per_program;
        let at = self.layout.unit_at(unit);
        let Some(generation) = generation else {
            let record = Some((self.layout.records_at(program), index));
            return UnitSource::Image { at, sum: self.sums[unit.0 as usize], record };
        };
        let staged = self.staged_in(program, generation).expect("it is staged");
        let (index, size) = (index as usize, self.layout.unit as usize);
        match staged.units[index] {
            Source::WrittenAhead { sum, .. } => UnitSource::Image { at, sum, record: None },
            source => {
                let data = &staged.data[index * size..(index + 1) * size];
                let sum = match source {
                    Source::Staged { sum, .. } => sum,
                    Source::Lost { .. } => mismatched_sum(data),
                    _ => crc32fast::hash(data),
                };
                UnitSource::StagedElsewhere { data: data.into(), sum }
            }
        }
    }

    /// Waits for the step in flight, if there is one, and notes its outcome.
    ///
    /// # Errors
    /// Returns an error if the step failed; a flash operation is put back, to be repeated.
    pub fn finish_step(&mut self) -> io::Result<()> {
        let Some(step_in_flight) = self.step_in_flight.take() else { return Ok(()) };
        match step_in_flight.wait() {
            (Purpose::FlashOp(op), Ok(sums)) => {
                self.has_failed_write = false;
                self.note_op_done(&op, sums);
            }
            (Purpose::FlashOp(op), Err(error)) => {
                self.has_failed_write = true;
                self.op_queue.put_back(op);
                return Err(error);
            }
            (Purpose::Sync { stamp }, Ok(_)) => self.record_durable(stamp)?,
            (Purpose::Clear { part, with_data }, Ok(_)) => {
                self.is_spliced[part as usize] &= !with_data;
                self.part_states
                    .set(part, if with_data { PartState::AsOnFlash } else { PartState::DataOnly });
            }
            (Purpose::Sync { .. } | Purpose::Clear { .. }, Err(error)) => {
                self.has_failed_write = true;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for the step in flight, so that the place of all data is known. A flash operation that failed is
    /// put back.
    pub(super) fn await_step(&mut self) {
        // The step is repeated later, and a new failure reported then.
        let _ = self.finish_step();
    }

    fn note_op_done(&mut self, op: &FlashOp, sums: Vec<u32>) {
        let stamp = self.stamps.next_stamp();
        match *op {
            FlashOp::Programmed { program, generation } => {
                let first = (program * self.layout.units_per_program) as usize;
                self.sums[first..first + sums.len()].copy_from_slice(&sums);
                let is_latest =
                    self.staged.get(&program).is_some_and(|staged| staged.generation == generation);
                let staged = if is_latest {
                    self.staged.remove(&program)
                } else {
                    self.older_generations.remove(&generation)
                };
                let staged = staged.expect("what is programmed is staged");
                if let Some(undurable) = &mut self.undurable {
                    let number =
                        staged.sealed.as_ref().map_or_else(Default::default, |it| it.number);
                    let host = staged.units.iter().filter_map(Source::host_unit).collect();
                    undurable.note(stamp, program, number, host);
                }
                self.recycle_buffer(staged);
            }
            FlashOp::Erased { part, .. } => {
                self.erases[part as usize] += 1;
                if !matches!(self.part_states.get(part), PartState::Erased { .. }) {
                    self.part_states.set(part, PartState::Erased { stamp });
                }
                if self.is_erased_late(part) {
                    self.erased_late.push(part);
                }
                let count = &mut self.erases_in_flight[part as usize];
                *count = count.checked_sub(1).expect("an erase was announced before");
            }
            FlashOp::Trims(_) => unreachable!("they are no step of their own"),
        }
    }

    /// Carries out one step, to relieve a helper that falls behind.
    ///
    /// # Errors
    /// As [`Store::carry_out`].
    pub fn carry_out_step(&mut self) -> io::Result<()> {
        self.finish_step()?;
        if let Some(step) = self.begin_next_step()? {
            self.run_step(step);
        }
        self.finish_step()
    }

    /// Sets whether a helper thread carries out the operations. If so, nothing may be sent in place from the
    /// image.
    pub fn set_has_helper(&mut self, has_helper: bool) {
        self.has_helper = has_helper;
    }

    /// Returns true if a helper thread carries out the operations.
    pub fn has_helper(&self) -> bool {
        self.has_helper
    }
}
