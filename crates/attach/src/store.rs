//! The flash of the model, kept in an image.
//!
//! The model decides what is programmed where and when, but holds no data. The store holds the data: that of
//! units that the host wrote and that are not programmed yet in RAM (*staged*, by program unit), all other data
//! in the image. Large writes go straight to their place in the image ([`receive`]). A gc copy is staged as the
//! place that it is copied from; its data is read when it is programmed.
//!
//! Flash operations that have happened (`op_queue`) are carried out on the image ([`Store::carry_out`]) in the
//! order in which they happened on the flash. In that order nothing is erased before its replacement is
//! programmed, so the image holds what would be on the flash after a power cut at that moment. Either the
//! holder of the drive's lock carries the operations out, or a helper thread, one step after the other in the
//! same order ([`step`]).

mod buffer_dump;
mod carry_out;
mod contents;
mod hole_punching;
mod op_queue;
mod part_states;
mod power_cut;
pub mod receive;
mod restore;
mod staged;
mod stamps;
pub mod step;
mod survey;
mod trim_log;
mod undurable;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use ssdlab_model::ftl::RequestTag;
use ssdlab_model::media::{Media, OobArea, SequenceNumber, TrimRecord};
use ssdlab_units::{BlockIndex, DieIndex, LogicalUnit, PhysicalUnit};

use crate::image::Image;
use crate::image::host::HostFile;
use crate::image::layout::Layout;
use crate::image::spare::{self, Record};
use crate::image::trims::TrimLog;
use crate::sync::RwLock;
use buffer_dump::Dumps;
use contents::FoundContents;
use op_queue::{FlashOp, OpQueue};
use part_states::{PartState, PartStates};
use receive::AheadWrites;
use staged::{ProgramHasher, Sealed, Source, Staged, exclusive_mut, mismatched_sum};
use stamps::Stamps;
use step::{StepBuffers, StepInFlight};
pub(crate) use survey::Survey;
use undurable::Undurable;

/// Current place of a unit's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In RAM.
    Ram(&'a [u8]),
    /// In the image.
    Image {
        /// Offset in the file, in bytes.
        at: u64,
        /// Checksum of the data.
        sum: u32,
    },
}

/// The flash of the model, kept in an image.
#[derive(Debug)]
pub struct Store {
    image: Image,
    layout: Layout,
    /// Value of each byte of a unit that the model fills where nothing was mapped.
    blank: u8,
    /// Latest generation of each staged program unit, by program unit. A generation is one use of a program
    /// unit between two erases.
    staged: HashMap<u32, Arc<Staged>, ProgramHasher>,
    /// Earlier generations that are sealed and not in the image yet, by generation.
    older_generations: HashMap<u64, Arc<Staged>>,
    latest_generation: u64,
    /// Buffers of program units that are in use by none now.
    free_buffers: Vec<Arc<Staged>>,
    /// Lives whose program has begun and has not ended, in their order, by program unit.
    programs_in_flight: HashMap<u32, VecDeque<u64>, ProgramHasher>,
    /// Units that the host has written and whose data was not handed over yet, in the order in which the drive
    /// took them.
    received: Vec<receive::ReceivedUnit>,
    /// Request that the next received units belong to.
    receiving_for: RequestTag,
    /// Program unit of the latest received unit, and its generation; `None` if none is staged for received units.
    receiving: Option<(u32, u64)>,
    /// Copies of host data from a program unit that is not sealed: the data may be replaced there.
    deferred_copies: Vec<receive::DeferredCopy>,
    op_queue: OpQueue,
    /// Number of erases announced so far; `announced_by_block` has that number at the latest erase of each block.
    announced: u64,
    announced_by_block: Vec<u64>,
    /// Checksum of each physical unit; 0 if it has to be read from its record.
    sums: Vec<u32>,
    erases: Vec<u32>,
    stamps: Stamps,
    /// Program units that are not durable; `None` on a drive without PLP.
    undurable: Option<Undurable>,
    part_states: PartStates,
    /// True for each part of a block if a socket may still refer to its pages ([`Store::note_spliced`]).
    is_spliced: Vec<bool>,
    /// Parts of blocks that were erased after other parts of the same block, until their records are gone.
    erased_late: Vec<u32>,
    /// The step that is being carried out on the image without the drive's lock.
    step_in_flight: Option<StepInFlight>,
    step_buffers: StepBuffers,
    /// True if a helper thread carries the operations out. Then nothing is ever sent in place from the image.
    has_helper: bool,
    /// Number of erases of each part of a block that were announced and are not carried out.
    erases_in_flight: Vec<u32>,
    ahead_writes: Arc<AheadWrites>,
    trims: TrimLog,
    /// Largest number of a trim whose record was added to the log before its program was carried out.
    trims_until: u64,
    dumps: Dumps,
    /// True if data of a unit was lost (`Source::Lost`).
    has_lost: bool,
    found: Option<Box<FoundContents>>,
    /// Held for reading while data is read from the image without any other lock. Taken for writing, to wait
    /// for readers, before data is punched out or replaced.
    gate: Arc<RwLock<()>>,
    has_failed_write: bool,
    /// Number of the last announced erase that may be carried out; `None` on a drive without PLP. With PLP, a
    /// block may be erased although the replacement of its data is only in the buffer. The image has no
    /// capacitors: an erase has to wait until the buffer was saved.
    erases_allowed_until: Option<u64>,
    wants_buffer_saved: bool,
}

impl Store {
    /// Returns the flash in `image`, before anything of it was read.
    pub fn new(image: Image) -> Store {
        let layout = image.layout().clone();
        let units = layout.programs() as usize * layout.units_per_program as usize;
        let parts = layout.blocks as usize * layout.stripe as usize;
        let state = image.state();
        let blank = image.configuration().mechanisms.trim.reads_after.byte();
        let has_capacitors = image.configuration().buffer.protected;
        Store {
            image,
            staged: HashMap::default(),
            older_generations: HashMap::new(),
            latest_generation: 0,
            free_buffers: Vec::new(),
            programs_in_flight: HashMap::default(),
            received: Vec::new(),
            receiving_for: RequestTag(0),
            receiving: None,
            deferred_copies: Vec::new(),
            op_queue: OpQueue::default(),
            announced: 0,
            announced_by_block: vec![0; layout.blocks as usize],
            sums: vec![0; units],
            erases: vec![0; parts],
            stamps: Stamps::new(state),
            undurable: has_capacitors.then(|| Undurable::new(layout.dump_units)),
            part_states: PartStates::new(parts),
            // Data that an earlier process sent may not have been received yet.
            is_spliced: vec![state.attached > 0; parts],
            erased_late: Vec::new(),
            step_in_flight: None,
            step_buffers: StepBuffers::default(),
            has_helper: false,
            erases_in_flight: vec![0; parts],
            ahead_writes: Arc::default(),
            trims: TrimLog::new(state.trims.log),
            trims_until: 0,
            dumps: Dumps::new(state.dump.max(state.dumps_void)),
            has_lost: false,
            found: None,
            gate: Arc::default(),
            has_failed_write: false,
            erases_allowed_until: has_capacitors.then_some(0),
            wants_buffer_saved: false,
            blank,
            layout,
        }
    }

    /// Returns the image.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Returns the file of the image.
    pub fn file(&self) -> &HostFile {
        self.image.file()
    }

    /// Returns the gate, which readers hold while they read data from the image without any other lock.
    pub fn gate(&self) -> Arc<RwLock<()>> {
        self.gate.clone()
    }

    /// Returns true if the last attempt to write to the image failed.
    pub fn has_failed_write(&self) -> bool {
        self.has_failed_write
    }

    /// Returns the generation of program unit `program` that is being filled; begins a new one if there is none or
    /// the latest is sealed.
    fn staged_mut(&mut self, program: u32) -> &mut Staged {
        let part = self.layout.part_of_program(program);
        let Store {
            layout,
            free_buffers: buffers,
            staged,
            older_generations,
            latest_generation,
            ..
        } = self;
        let (parts, step_in_flight, erases_in_flight) =
            (&mut self.part_states, &self.step_in_flight, &self.erases_in_flight);
        let mut begin = |is_first| {
            *latest_generation += 1;
            let mut shared = buffers.pop().unwrap_or_else(|| Arc::new(Staged::new(layout)));
            let staged = exclusive_mut(&mut shared);
            (staged.generation, staged.sealed) = (*latest_generation, None);
            let is_clean = erases_in_flight[part as usize] == 0
                && match parts.get(part) {
                    PartState::AsOnFlash => true,
                    PartState::Erased { .. } => false,
                    PartState::DataOnly => {
                        !step_in_flight.as_ref().is_some_and(|it| it.clears(part))
                    }
                };
            (staged.may_write_ahead, staged.is_written_ahead) = (is_first && is_clean, false);
            if staged.may_write_ahead {
                // Its data is not punched out any more: it may be written ahead.
                parts.set(part, PartState::AsOnFlash);
            }
            staged.is_changed = false;
            shared
        };
        let shared = match staged.entry(program) {
            Entry::Vacant(vacant) => vacant.insert(begin(true)),
            Entry::Occupied(occupied) => {
                let staged = occupied.into_mut();
                if staged.sealed.is_some() {
                    let before = std::mem::replace(staged, begin(false));
                    older_generations.insert(before.generation, before);
                }
                staged
            }
        };
        exclusive_mut(shared)
    }

    /// Returns the staged program unit `program` of that generation; `None` if it is not staged.
    fn staged_in(&self, program: u32, generation: u64) -> Option<&Staged> {
        match self.staged.get(&program) {
            Some(staged) if staged.generation == generation => Some(&**staged),
            _ => self.older_generations.get(&generation).map(|staged| &**staged),
        }
    }

    /// Keeps the buffer of a program unit for reuse.
    fn recycle_buffer(&mut self, mut staged: Arc<Staged>) {
        if self.free_buffers.len() < 256 {
            exclusive_mut(&mut staged).units.fill(Source::Nothing);
            self.free_buffers.push(staged);
        }
    }

    /// Returns the current place of the data of `unit`, which has to be mapped.
    ///
    /// # Errors
    /// Returns an error if the data is lost, or if its checksum has to be read and cannot be.
    #[inline]
    pub fn locate(&mut self, unit: PhysicalUnit) -> io::Result<Place<'_>> {
        let (unit, generation) = self.origin(unit);
        let program = self.layout.program_of(unit);
        let Some(generation) = generation else {
            let (at, sum) = (self.layout.unit_at(unit), self.sum_of(unit)?);
            return Ok(Place::Image { at, sum });
        };
        self.wait_for_pieces(program, generation);
        let staged = self.staged_in(program, generation).expect("it is staged");
        let index = (unit.0 - program * self.layout.units_per_program) as usize;
        let size = self.layout.unit as usize;
        Ok(match staged.units[index] {
            Source::WrittenAhead { sum, .. } => Place::Image { at: self.layout.unit_at(unit), sum },
            Source::Lost { .. } => return Err(rustix::io::Errno::IO.into()),
            _ => Place::Ram(&staged.data[index * size..(index + 1) * size]),
        })
    }

    /// Returns the physical unit that holds the data of `unit`, which has to be mapped: `unit` itself or the
    /// unit that it was copied from. Also returns the generation of the program unit there if that is staged.
    fn origin(&self, unit: PhysicalUnit) -> (PhysicalUnit, Option<u64>) {
        match self.staged.get(&self.layout.program_of(unit)) {
            None => (unit, None),
            Some(staged) => self.origin_in(unit, staged.generation),
        }
    }

    /// Returns the physical unit that holds the data of `unit` as staged in `generation`, following copies, and its
    /// generation if that is staged.
    fn origin_in(
        &self,
        mut unit: PhysicalUnit,
        mut generation: u64,
    ) -> (PhysicalUnit, Option<u64>) {
        loop {
            let program = self.layout.program_of(unit);
            let Some(staged) = self.staged_in(program, generation) else { return (unit, None) };
            let index = (unit.0 - program * self.layout.units_per_program) as usize;
            match staged.units[index] {
                Source::CopyOf { from, generation: None } => return (from, None),
                Source::CopyOf { from, generation: Some(earlier) } => {
                    (unit, generation) = (from, earlier)
                }
                Source::Staged { .. }
                | Source::WrittenAhead { .. }
                | Source::Lost { .. }
                | Source::Nothing => {
                    return (unit, Some(generation));
                }
            }
        }
    }

    /// Returns the checksum of a unit in the image.
    fn sum_of(&mut self, unit: PhysicalUnit) -> io::Result<u32> {
        let known = self.sums[unit.0 as usize];
        if known != 0 {
            return Ok(known);
        }
        let (program, count) = (self.layout.program_of(unit), self.layout.units_per_program);
        let at = self.layout.records_at(program);
        let sums = read_sums(self.file(), at, self.layout.record, count)?;
        let first = (program * count) as usize;
        self.sums[first..first + sums.len()].copy_from_slice(&sums);
        Ok(sums[unit.0 as usize - first])
    }

    /// Reads the data of `unit`, which has to be mapped, into `data`. Returns its checksum as it was written.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read.
    pub fn read_unit(&mut self, unit: PhysicalUnit, data: &mut [u8]) -> io::Result<u32> {
        let (unit, generation) = self.origin(unit);
        self.read_from(unit, generation, data)
    }

    fn read_from(
        &mut self,
        unit: PhysicalUnit,
        generation: Option<u64>,
        data: &mut [u8],
    ) -> io::Result<u32> {
        let program = self.layout.program_of(unit);
        let Some(generation) = generation else {
            self.file().read_exact_at(data, self.layout.unit_at(unit))?;
            return self.sum_of(unit);
        };
        self.wait_for_pieces(program, generation);
        let staged = self.staged_in(program, generation).expect("it is staged");
        let index = (unit.0 - program * self.layout.units_per_program) as usize;
        let source = staged.units[index];
        if let Source::WrittenAhead { sum, .. } = source {
            self.file().read_exact_at(data, self.layout.unit_at(unit))?;
            return Ok(sum);
        }
        let size = self.layout.unit as usize;
        data.copy_from_slice(&staged.data[index * size..(index + 1) * size]);
        Ok(match source {
            Source::Staged { sum, .. } => sum,
            Source::Lost { .. } => mismatched_sum(data),
            _ => crc32fast::hash(data),
        })
    }
}

/// Reads the checksums of the `units` units of a program unit from the first intact copy of its record. The
/// copies are `at` these offsets.
///
/// # Errors
/// Returns an error if no copy is intact, or reading fails.
fn read_sums(file: &HostFile, at: [u64; 2], record: u64, units: u32) -> io::Result<Vec<u32>> {
    let mut bytes = vec![0; record as usize];
    for at in at {
        file.read_exact_at(&mut bytes, at)?;
        if let spare::RecordState::Written(record) = Record::decode(&bytes, units) {
            return Ok(record.sums);
        }
    }
    Err(rustix::io::Errno::IO.into())
}

impl Store {
    fn receive_unit(
        &mut self,
        place: PhysicalUnit,
        logical: LogicalUnit,
        rmw_source: receive::RmwSource,
    ) {
        let program = self.layout.program_of(place);
        let generation = match self.receiving {
            Some((staged, generation)) if staged == program => generation,
            _ => {
                let generation = self.staged_mut(program).generation;
                self.receiving = Some((program, generation));
                generation
            }
        };
        self.received.push(receive::ReceivedUnit {
            place,
            logical,
            generation,
            by: self.receiving_for,
            rmw_source,
        });
    }

    /// Returns the source for a copy of `from`, and true if the data has to be taken out of the program unit of
    /// `from`, which will be programmed without it.
    fn source_of(&self, from: PhysicalUnit) -> (Source, bool) {
        let program = self.layout.program_of(from);
        let Some(staged) = self.staged.get(&program) else {
            return (Source::CopyOf { from, generation: None }, false);
        };
        let copy = Source::CopyOf { from, generation: Some(staged.generation) };
        if staged.sealed.is_some() {
            return (copy, false);
        }
        // The unit leaves that program unit, which is programmed without it.
        match staged.units[(from.0 - program * self.layout.units_per_program) as usize] {
            source @ Source::CopyOf { .. } => (source, false),
            _ => (copy, true),
        }
    }
}

impl Media for Store {
    #[inline]
    fn receive_for(&mut self, request: RequestTag) {
        self.receiving_for = request;
    }

    #[inline]
    fn receive(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        self.receive_unit(unit, logical, receive::RmwSource::None);
    }

    fn receive_part(
        &mut self,
        unit: PhysicalUnit,
        logical: LogicalUnit,
        from: Option<PhysicalUnit>,
    ) {
        let rmw_source = match from {
            None => receive::RmwSource::Unmapped,
            Some(from) => {
                let generation =
                    self.staged.get(&self.layout.program_of(from)).map(|it| it.generation);
                receive::RmwSource::At(from, generation)
            }
        };
        self.receive_unit(unit, logical, rmw_source);
    }

    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit) {
        let program = self.layout.program_of(to);
        let index = (to.0 - program * self.layout.units_per_program) as usize;
        let (source, is_deferred) = self.source_of(from);
        let staged = self.staged_mut(program);
        staged.units[index] = source;
        if is_deferred {
            let generation = staged.generation;
            self.deferred_copies.push(receive::DeferredCopy { program, generation, index });
        }
    }

    fn fill(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        let program = self.layout.program_of(unit);
        let index = (unit.0 - program * self.layout.units_per_program) as usize;
        let size = self.layout.unit as usize;
        let blank = self.blank;
        let staged = self.staged_mut(program);
        let data = &mut staged.data[index * size..(index + 1) * size];
        data.fill(blank);
        staged.units[index] = Source::Staged { logical, sum: crc32fast::hash(data) };
    }

    fn begin_program(&mut self, first: PhysicalUnit, spare: OobArea<'_>, number: SequenceNumber) {
        // A program unit that is programmed empty was not staged before.
        let program = self.layout.program_of(first);
        if self.receiving.is_some_and(|(receiving, _)| receiving == program) {
            self.receiving = None;
        }
        let staged = self.staged_mut(program);
        let (is_slc, spare) = (spare.is_slc(), spare.raw().into());
        staged.sealed = Some(Sealed { number, spare, is_slc });
        let generation = staged.generation;
        self.programs_in_flight.entry(program).or_default().push_back(generation);
    }

    fn programmed(&mut self, first: PhysicalUnit) {
        let program = self.layout.program_of(first);
        let Entry::Occupied(mut latest_generation) = self.programs_in_flight.entry(program) else {
            unreachable!("what is programmed was begun");
        };
        let generation =
            latest_generation.get_mut().pop_front().expect("what is programmed was begun");
        if latest_generation.get().is_empty() {
            latest_generation.remove();
        }
        self.op_queue.add(FlashOp::Programmed { program, generation });
    }

    fn begin_erase(&mut self, block: BlockIndex) {
        if block.0 >= self.layout.blocks {
            return;
        }
        self.announced += 1;
        self.announced_by_block[block.0 as usize] = self.announced;
        let first = block.0 * self.layout.stripe;
        for part in first..first + self.layout.stripe {
            self.erases_in_flight[part as usize] += 1;
        }
    }

    fn erased(&mut self, block: BlockIndex, die: DieIndex) {
        if block.0 >= self.layout.blocks {
            return;
        }
        let part = self.layout.part_of(block, die);
        let announced = self.announced_by_block[block.0 as usize];
        self.wants_buffer_saved |= self.erases_allowed_until.is_some_and(|until| announced > until);
        self.op_queue.add(FlashOp::Erased { part, announced });
    }

    fn trims_recorded(&mut self, records: &[TrimRecord]) {
        self.op_queue.add(FlashOp::Trims(records.into()));
    }
}
