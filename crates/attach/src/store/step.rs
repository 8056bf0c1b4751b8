//! One step of carrying out flash operations on the image.
//!
//! A step holds all that it needs and uses nothing of the store. So the holder of the drive's lock begins it
//! ([`super::Store::begin_next_step`]), releases the lock, carries it out, and takes the lock again to note the
//! outcome. Another thread that needs the outcome meanwhile waits for it in a shared slot.

use std::io;
use std::sync::{Arc, PoisonError};

use super::op_queue::FlashOp;
use super::{Staged, read_sums};
use crate::image::host::HostFile;
use crate::image::spare::Record;
use crate::image::table;
use crate::sync::{Condvar, Mutex, RwLock};

/// A stretch of the image: its beginning and length, in bytes.
pub(super) type Region = (u64, u64);

/// Source of a unit's data when its program unit is written.
#[derive(Debug)]
pub(super) enum UnitSource {
    /// Padding: no data.
    Padding,
    /// The data was written ahead to its place.
    WrittenAhead { sum: u32 },
    /// The data is staged with the program unit.
    Staged { sum: u32 },
    /// The data was staged with another program unit.
    StagedElsewhere { data: Box<[u8]>, sum: u32 },
    /// The data is copied within the image. If its checksum is not known (0), `record` has the places of both
    /// copies of its record and its index there.
    Image { at: u64, sum: u32, record: Option<([u64; 2], u32)> },
    /// The model filled the unit with the value of unmapped bytes.
    Unmapped { byte: u8 },
}

/// A program unit to be written to the image.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) staged: Arc<Staged>,
    pub(super) units: Vec<UnitSource>,
    /// The record for the spare area, without checksums.
    pub(super) record: Record,
    /// Place of the data in the image; `records_at` are those of the copies of the record.
    pub(super) at: u64,
    pub(super) records_at: [u64; 2],
    pub(super) record_size: u64,
    /// Bytes in a unit.
    pub(super) unit: usize,
}

/// Action of a step.
#[derive(Debug)]
pub(super) enum Task {
    Program(Box<Program>),
    /// Writes the erase count of a part.
    WriteEraseCount {
        at: [u64; 2],
        part: u32,
        erases: u32,
    },
    /// Makes all earlier writes durable.
    Sync,
    /// Removes the contents of an erased part of a block, after waiting for readers. The records go first:
    /// without them the part is erased.
    Clear {
        records: Option<[Region; 2]>,
        data: Option<Region>,
    },
}

/// Purpose of a step, which says what to note when it is done.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A flash operation; it is repeated if it fails.
    FlashOp(FlashOp),
    /// All writes up to this stamp become durable.
    Sync { stamp: u64 },
    /// A part of a block loses its records, and its data too if `with_data` is set.
    Clear { part: u32, with_data: bool },
}

/// Outcome of a step: the checksums of the units that were programmed, if any were.
type Outcome = io::Result<Vec<u32>>;

/// A step in flight, as the store keeps it.
#[derive(Debug)]
pub(super) struct StepInFlight {
    pub(super) purpose: Purpose,
    outcome: Arc<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    outcome: Mutex<Option<Outcome>>,
    done: Condvar,
}

/// A step in flight, for the thread that carries it out.
#[derive(Debug)]
pub struct Step {
    task: Task,
    outcome: Arc<Slot>,
    gate: Arc<RwLock<()>>,
}

/// Buffers of a thread that carries out steps, kept to avoid allocation.
#[derive(Debug, Default)]
pub struct StepBuffers {
    data: Vec<u8>,
    record: Vec<u8>,
}

impl StepInFlight {
    /// Returns a step that does `task` for `purpose`: the store's part of it and that of the thread that
    /// carries it out.
    pub(super) fn new(purpose: Purpose, task: Task, gate: Arc<RwLock<()>>) -> (StepInFlight, Step) {
        let slot = Arc::<Slot>::default();
        (StepInFlight { purpose, outcome: slot.clone() }, Step { task, outcome: slot, gate })
    }

    /// Returns true if the step carries out a flash operation.
    pub(super) fn is_flash_op(&self) -> bool {
        matches!(self.purpose, Purpose::FlashOp(_))
    }

    /// Returns true if the step clears `part`.
    pub(super) fn clears(&self, part: u32) -> bool {
        matches!(self.purpose, Purpose::Clear { part: it, .. } if it == part)
    }

    /// Waits until the step is done; returns its purpose and outcome.
    pub(super) fn wait(self) -> (Purpose, Outcome) {
        let mut outcome = self.outcome.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = outcome.take() {
                return (self.purpose, outcome);
            }
            outcome = self.outcome.done.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Step {
    /// Carries out the step on `file`, and reports the outcome to the store.
    pub fn carry_out(self, file: &HostFile, buffers: &mut StepBuffers) {
        let Step { task, outcome: slot, gate } = self;
        let outcome = match &task {
            Task::Program(program) => program.write(file, &gate, buffers),
            &Task::WriteEraseCount { at, part, erases } => {
                table::write_at(file, at, part, erases).map(|()| Vec::new())
            }
            Task::Sync => file.sync_data().map(|()| Vec::new()),
            Task::Clear { records, data } => {
                wait_for_readers(&gate);
                let mut regions = records.iter().flatten().chain(data);
                let outcome = regions.try_for_each(|&(from, length)| file.punch(from, length));
                outcome.map(|()| Vec::new())
            }
        };
        // The store needs sole ownership of the staged data before it learns of the outcome.
        drop(task);
        *slot.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        slot.done.notify_all();
    }
}

/// Waits until all current readers of the image have ended. Later readers got their places after the step was
/// begun, so none of those that it changes.
fn wait_for_readers(gate: &RwLock<()>) {
    // A reader that panicked has changed nothing.
    drop(gate.write().unwrap_or_else(PoisonError::into_inner));
}

impl Program {
    fn write(&self, file: &HostFile, gate: &RwLock<()>, buffers: &mut StepBuffers) -> Outcome {
        let StepBuffers { data: scratch, record: bytes } = buffers;
        let (mut sums, mut is_plain) = (Vec::with_capacity(self.units.len()), true);
        for from in &self.units {
            is_plain &= matches!(from, UnitSource::Staged { .. } | UnitSource::WrittenAhead { .. });
        }
        if !is_plain {
            scratch.resize(self.units.len() * self.unit, 0);
        }
        // Stretches of units that have to be written: all but those that were written ahead.
        let mut stretches: Vec<std::ops::Range<usize>> = Vec::new();
        for (index, from) in self.units.iter().enumerate() {
            let range = index * self.unit..(index + 1) * self.unit;
            let place = if is_plain { &mut [] } else { &mut scratch[range.clone()] };
            sums.push(self.load_unit(from, &self.staged.data[range], place, file)?);
            match (from, stretches.last_mut()) {
                (UnitSource::WrittenAhead { .. }, _) => {}
                // Padding between units is written only if nothing of the program unit was written ahead.
                (UnitSource::Padding, _) => {}
                (_, Some(last)) if !self.staged.is_written_ahead || last.end == index => {
                    last.end = index + 1;
                }
                _ => stretches.push(index..index + 1),
            }
        }
        if self.staged.is_changed {
            wait_for_readers(gate);
        }
        let data: &[u8] = if is_plain { &self.staged.data } else { scratch };
        for units in stretches {
            let (from, until) = (units.start * self.unit, units.end * self.unit);
            file.write_all_at(&data[from..until], self.at + from as u64)?;
        }
        bytes.resize(self.record_size as usize, 0);
        self.record.encode_with(&sums, bytes);
        for at in self.records_at {
            file.write_all_at(bytes, at)?;
        }
        Ok(sums)
    }

    /// Copies the data of a unit to `place`, unless that is empty; returns its checksum.
    fn load_unit(
        &self,
        from: &UnitSource,
        staged: &[u8],
        place: &mut [u8],
        file: &HostFile,
    ) -> io::Result<u32> {
        Ok(match *from {
            UnitSource::Padding => {
                place.fill(0);
                0
            }
            UnitSource::WrittenAhead { sum } => sum,
            UnitSource::Staged { sum } => {
                if !place.is_empty() {
                    place.copy_from_slice(staged);
                }
                sum
            }
            UnitSource::StagedElsewhere { ref data, sum } => {
                place.copy_from_slice(data);
                sum
            }
            UnitSource::Image { at, sum, record } => {
                file.read_exact_at(place, at)?;
                match record {
                    Some((at, index)) if sum == 0 => {
                        let units = self.units.len() as u32;
                        read_sums(file, at, self.record_size, units)?[index as usize]
                    }
                    _ => sum,
                }
            }
            UnitSource::Unmapped { byte } => {
                place.fill(byte);
                crc32fast::hash(place)
            }
        })
    }
}
