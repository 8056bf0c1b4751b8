//! One step of what the drive has done to its flash, done to the image.
//!
//! A step needs nothing of the store while it is done: all that it touches is in it. So whoever holds
//! the drive's lock begins it ([`super::Store::begin_next`]), lets the lock go, does it, and takes the
//! lock again to note what came of it. Who wants it noted meanwhile waits for it: the outcome lies where
//! both find it.

use std::io;
use std::sync::{Arc, PoisonError};

use super::happened::Happened;
use super::{Staged, read_sums};
use crate::image::host::HostFile;
use crate::image::spare::Record;
use crate::image::table;
use crate::sync::{Condvar, Mutex, RwLock};

/// A stretch of the image: the beginning and the length, in bytes.
pub(super) type Region = (u64, u64);

/// Where the data of a unit that is to be programmed comes from.
#[derive(Debug)]
pub(super) enum From {
    /// There is none.
    Padding,
    /// It is there already.
    Ahead { sum: u32 },
    /// It is staged with the program unit.
    Here { sum: u32 },
    /// It was staged elsewhere.
    Ram { data: Box<[u8]>, sum: u32 },
    /// It is copied within the image; where its checksum is not known, the copies of its record lie at these
    /// places, and it is the unit of that number in it.
    Image { at: u64, sum: u32, record: Option<([u64; 2], u32)> },
    /// The model filled it on its own with what reads where nothing was written.
    Blank { byte: u8 },
}

/// A program unit that is to be written.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) staged: Arc<Staged>,
    pub(super) units: Vec<From>,
    /// Its spare area, but for the checksums.
    pub(super) record: Record,
    /// Where its data and the copies of its record go.
    pub(super) at: u64,
    pub(super) records_at: [u64; 2],
    pub(super) record_size: u64,
    /// Bytes of a unit.
    pub(super) unit: usize,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Task {
    Program(Box<Program>),
    /// A number of erases is written.
    Count {
        at: [u64; 2],
        part: u32,
        erases: u32,
    },
    /// All that was written is made durable.
    Sync,
    /// What an erased part of a block held is taken away, as soon as nobody reads it. The records go
    /// first: without them nothing is there.
    Clear {
        records: Option<[Region; 2]>,
        data: Option<Region>,
    },
}

/// What a step was begun for, and what is to be noted when it is done.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Something the drive has done; it is tried again where it fails.
    Happened(Happened),
    /// What was written up to this stamp is durable.
    Sync { stamp: u64 },
    /// A part of a block holds nothing any more: no records, or no data either.
    Clear { part: u32, with_data: bool },
}

/// What came of a step: the checksums of the units that were programmed.
type Outcome = io::Result<Vec<u32>>;

/// A step that is under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) purpose: Purpose,
    outcome: Arc<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    outcome: Mutex<Option<Outcome>>,
    is_there: Condvar,
}

/// A step, for whoever does it.
#[derive(Debug)]
pub struct Work {
    task: Task,
    outcome: Arc<Slot>,
    gate: Arc<RwLock<()>>,
}

/// What somebody who does steps needs for it, kept so that it need not be made anew.
#[derive(Debug, Default)]
pub struct Hands {
    data: Vec<u8>,
    record: Vec<u8>,
}

impl UnderWay {
    /// A step that does `task` for `purpose`, and the same for who does it.
    pub(super) fn new(purpose: Purpose, task: Task, gate: Arc<RwLock<()>>) -> (UnderWay, Work) {
        let slot = Arc::<Slot>::default();
        (UnderWay { purpose, outcome: slot.clone() }, Work { task, outcome: slot, gate })
    }

    /// Returns true if it is for something the drive has done.
    pub(super) fn is_of_drive(&self) -> bool {
        matches!(self.purpose, Purpose::Happened(_))
    }

    /// Returns true if it takes away what `part` held.
    pub(super) fn clears(&self, part: u32) -> bool {
        matches!(self.purpose, Purpose::Clear { part: it, .. } if it == part)
    }

    /// Waits until it is done, and returns what came of it.
    pub(super) fn wait(self) -> (Purpose, Outcome) {
        let mut outcome = self.outcome.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = outcome.take() {
                return (self.purpose, outcome);
            }
            outcome = self.outcome.is_there.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Work {
    /// Does it to `file`.
    pub fn carry_out(self, file: &HostFile, hands: &mut Hands) {
        let Work { task, outcome: slot, gate } = self;
        let outcome = match &task {
            Task::Program(program) => program.write(file, &gate, hands),
            &Task::Count { at, part, erases } => {
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
        // What was staged is the store's alone again before it hears of it.
        drop(task);
        *slot.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        slot.is_there.notify_all();
    }
}

/// Waits until all who read in the image now have ended. Whoever begins later has been told where data
/// lies since the step was begun, and so not where it is about to change.
fn wait_for_readers(gate: &RwLock<()>) {
    // Whoever panicked while reading has not harmed anything.
    drop(gate.write().unwrap_or_else(PoisonError::into_inner));
}

impl Program {
    fn write(&self, file: &HostFile, gate: &RwLock<()>, hands: &mut Hands) -> Outcome {
        let Hands { data: scratch, record: bytes } = hands;
        let (mut sums, mut is_plain) = (Vec::with_capacity(self.units.len()), true);
        for from in &self.units {
            is_plain &= matches!(from, From::Here { .. } | From::Ahead { .. });
        }
        if !is_plain {
            scratch.resize(self.units.len() * self.unit, 0);
        }
        // Stretches of units that are to be written: all but what was written ahead.
        let mut stretches: Vec<std::ops::Range<usize>> = Vec::new();
        for (index, from) in self.units.iter().enumerate() {
            let range = index * self.unit..(index + 1) * self.unit;
            let place = if is_plain { &mut [] } else { &mut scratch[range.clone()] };
            sums.push(self.bring(from, &self.staged.data[range], place, file)?);
            match (from, stretches.last_mut()) {
                (From::Ahead { .. }, _) => {}
                // Padding is written where nothing lies ahead there and something follows.
                (From::Padding, _) => {}
                (_, Some(last)) if !self.staged.is_ahead || last.end == index => {
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

    /// Brings the data of a unit to `place`, if there is one, from where it is; returns its checksum.
    fn bring(
        &self,
        from: &From,
        staged: &[u8],
        place: &mut [u8],
        file: &HostFile,
    ) -> io::Result<u32> {
        Ok(match *from {
            From::Padding => {
                place.fill(0);
                0
            }
            From::Ahead { sum } => sum,
            From::Here { sum } => {
                if !place.is_empty() {
                    place.copy_from_slice(staged);
                }
                sum
            }
            From::Ram { ref data, sum } => {
                place.copy_from_slice(data);
                sum
            }
            From::Image { at, sum, record } => {
                file.read_exact_at(place, at)?;
                match record {
                    Some((at, index)) if sum == 0 => {
                        let units = self.units.len() as u32;
                        read_sums(file, at, self.record_size, units)?[index as usize]
                    }
                    _ => sum,
                }
            }
            From::Blank { byte } => {
                place.fill(byte);
                crc32fast::hash(place)
            }
        })
    }
}
