//! The flash of the model, kept in an image.
//!
//! The model says what is programmed where and until when; what it does not have is data. Here
//! the data is: of what the host wrote and no program is over, in RAM (*staged*, by program unit);
//! of everything else, in the image. Large writes go straight to their place there ([`receive`]). A copy that collection makes is staged as the place that it is
//! copied from, and its data is read when it is programmed.
//!
//! Programs, erases and records of trims wait until the drive's clock has passed their end
//! ([`Store::carry_out`]), in the order of their ends: that is an order in which nothing is erased
//! before what replaces it is programmed. So what is in the image is what would be on the flash if
//! power was cut now. Whoever holds the drive's lock does that, or a helper does it behind the others'
//! backs, one step after the other in the same order ([`work`]).

mod buffer;
mod carry_out;
mod clearing;
mod contents;
mod cut;
mod due;
mod parts;
mod progress;
pub mod receive;
mod saved;
mod staged;
mod survey;
mod trim_log;
mod undurable;
pub mod work;

use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;

use ssdlab_model::media::{FlashWork, Media, SequenceNumber, SpareArea, TrimRecord};
use ssdlab_model::ssd::BufferParameters;
use ssdlab_units::{BlockIndex, DieIndex, Instant, LogicalUnit, PhysicalUnit};

use crate::image::Image;
use crate::image::host::HostFile;
use crate::image::layout::Layout;
use crate::image::spare::{self, Record};
use crate::image::trims::TrimLog;
use crate::sync::RwLock;
use buffer::Dumps;
use contents::Found;
use due::{Action, Due};
use parts::{Part, Parts};
use progress::Progress;
use receive::Arrivals;
use staged::{Source, Spread, Staged, alone, lost_sum};
pub(crate) use survey::Survey;
use undurable::Undurable;
use work::{Hands, UnderWay};

/// Where the data of a unit is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In RAM.
    Ram(&'a [u8]),
    /// In the image.
    Image {
        /// Where in the file.
        at: u64,
        /// Its checksum.
        sum: u32,
    },
}

/// The flash of the model, kept in an image.
#[derive(Debug)]
pub struct Store {
    image: Image,
    layout: Layout,
    /// What each byte reads as of a unit that the model fills where nothing was mapped.
    blank: u8,
    /// By program unit, the latest life of each.
    staged: HashMap<u32, Arc<Staged>, Spread>,
    /// Earlier lives that are booked and not carried out, by life.
    older: HashMap<u64, Arc<Staged>>,
    lives: u64,
    /// Buffers that no program unit uses now.
    spare_buffers: Vec<Arc<Staged>>,
    /// What the host has written in the request under way, in the order of its units.
    received: Vec<receive::Unit>,
    /// The program unit that the latest of them is in, and its life, if it is staged for them.
    receiving: Option<(u32, u64)>,
    due: BinaryHeap<Due>,
    /// The end of the first of `due`.
    next_due: Instant,
    booked: u64,
    /// Program units that are booked and not carried out.
    booked_programs: u64,
    promised: Option<Instant>,
    /// Checksum of each physical unit; 0 where it is to be read from its record.
    sums: Vec<u32>,
    erases: Vec<u32>,
    progress: Progress,
    /// Kept where capacitors keep the buffer.
    undurable: Option<Undurable>,
    parts: Parts,
    /// True if a socket may still refer to pages of each part of a block ([`Store::lend`]).
    lent: Vec<bool>,
    /// Parts of blocks of which others were erased before them, until their records are gone.
    erased_late: Vec<u32>,
    /// What is being done to the image without the lock that this is under.
    under_way: Option<UnderWay>,
    hands: Hands,
    /// True if somebody does that all the time, and nothing is ever sent from where it lies in the
    /// image.
    is_helped: bool,
    /// Erases of each part of a block that are owed or booked, and not carried out.
    erases_owed: Vec<u32>,
    arrivals: Arc<Arrivals>,
    trims: TrimLog,
    /// The latest number of a trim that was added to the log ahead of its time.
    trims_until: u64,
    dumps: Dumps,
    /// True if data of a unit was lost with a dump.
    has_lost: bool,
    found: Option<Box<Found>>,
    /// Held for reading while data is read from the image without any other lock, and for writing
    /// while something is punched out.
    gate: Arc<RwLock<()>>,
    is_stuck: bool,
    /// Where capacitors keep the buffer, a block may be erased although what replaces its data is in
    /// the buffer only. The image has no capacitors: up to which booking erases may be carried out,
    /// because the buffer was saved since; nothing where they need not wait.
    erases_until: Option<u64>,
    /// Units that the drive's buffer holds.
    buffered: u32,
    wants_buffer_saved: bool,
}

impl Store {
    /// The flash in `image`, of which nothing is known yet.
    pub fn new(image: Image) -> Store {
        let layout = image.layout().clone();
        let units = layout.programs() as usize * layout.units_per_program as usize;
        let parts = layout.blocks as usize * layout.stripe as usize;
        let state = image.state();
        let blank = image.configuration().mechanisms.trim.reads_after.byte();
        let BufferParameters { units: buffered, protected: has_capacitors, .. } =
            image.configuration().buffer;
        Store {
            image,
            staged: HashMap::default(),
            older: HashMap::new(),
            lives: 0,
            spare_buffers: Vec::new(),
            received: Vec::new(),
            receiving: None,
            due: BinaryHeap::new(),
            next_due: Instant::from_nanos(u64::MAX),
            booked: 0,
            booked_programs: 0,
            promised: None,
            sums: vec![0; units],
            erases: vec![0; parts],
            progress: Progress::new(state),
            undurable: has_capacitors.then(|| Undurable::new(layout.dump_units)),
            parts: Parts::new(parts),
            // What earlier programs have sent may not have been received yet.
            lent: vec![state.attached > 0; parts],
            erased_late: Vec::new(),
            under_way: None,
            hands: Hands::default(),
            is_helped: false,
            erases_owed: vec![0; parts],
            arrivals: Arc::default(),
            trims: TrimLog::new(state.trims.log),
            trims_until: 0,
            dumps: Dumps::new(state.dump.max(state.dumps_void)),
            has_lost: false,
            found: None,
            gate: Arc::default(),
            is_stuck: false,
            erases_until: has_capacitors.then_some(0),
            buffered,
            wants_buffer_saved: false,
            blank,
            layout,
        }
    }

    /// The image.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The file of the image.
    pub fn file(&self) -> &HostFile {
        self.image.file()
    }

    /// What is held for reading while data is read from the image without any other lock.
    pub fn gate(&self) -> Arc<RwLock<()>> {
        self.gate.clone()
    }

    /// Returns true if the image could not be written to when that was tried last.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// When the model last said that what was to be programmed by then is durable, if it has since
    /// this was asked before.
    pub fn take_promised(&mut self) -> Option<Instant> {
        self.promised.take()
    }

    /// The program unit that is being filled at `program`.
    fn staged_mut(&mut self, program: u32) -> &mut Staged {
        let part = self.layout.part_of_program(program);
        let Store { layout, spare_buffers: buffers, staged, older, lives, .. } = self;
        let (parts, under_way, owed) = (&mut self.parts, &self.under_way, &self.erases_owed);
        let mut begin = |is_first| {
            *lives += 1;
            let mut shared = buffers.pop().unwrap_or_else(|| Arc::new(Staged::new(layout)));
            let staged = alone(&mut shared);
            (staged.life, staged.is_booked) = (*lives, false);
            let is_clean = owed[part as usize] == 0
                && match parts.get(part) {
                    Part::Usual => true,
                    Part::Erased { .. } => false,
                    Part::Bare => !under_way.as_ref().is_some_and(|it| it.clears(part)),
                };
            (staged.may_go_ahead, staged.is_ahead) = (is_first && is_clean, false);
            if staged.may_go_ahead {
                // It is not punched out any more.
                parts.set(part, Part::Usual);
            }
            staged.is_changed = false;
            shared
        };
        let shared = match staged.entry(program) {
            Entry::Vacant(vacant) => vacant.insert(begin(true)),
            Entry::Occupied(occupied) => {
                let staged = occupied.into_mut();
                if staged.is_booked {
                    let before = std::mem::replace(staged, begin(false));
                    older.insert(before.life, before);
                }
                staged
            }
        };
        alone(shared)
    }

    /// What is staged at `program` in that life.
    fn staged_in(&self, program: u32, life: u64) -> Option<&Staged> {
        match self.staged.get(&program) {
            Some(staged) if staged.life == life => Some(&**staged),
            _ => self.older.get(&life).map(|staged| &**staged),
        }
    }

    /// Takes back the buffer of a program unit.
    fn give_back(&mut self, mut staged: Arc<Staged>) {
        if self.spare_buffers.len() < 256 {
            alone(&mut staged).units.fill(Source::Nothing);
            self.spare_buffers.push(staged);
        }
    }

    /// Where the data of `unit` is now, which is mapped.
    ///
    /// # Errors
    /// When its checksum has to be read, and cannot be.
    #[inline]
    pub fn locate(&mut self, unit: PhysicalUnit) -> io::Result<Place<'_>> {
        let (unit, life) = self.origin(unit);
        let program = self.layout.program_of(unit);
        let Some(life) = life else {
            let (at, sum) = (self.layout.unit_at(unit), self.sum_of(unit)?);
            return Ok(Place::Image { at, sum });
        };
        self.settle(program, life);
        let staged = self.staged_in(program, life).expect("it is staged");
        let index = (unit.0 - program * self.layout.units_per_program) as usize;
        let size = self.layout.unit as usize;
        Ok(match staged.units[index] {
            Source::Ahead { sum, .. } => Place::Image { at: self.layout.unit_at(unit), sum },
            Source::Lost { .. } => return Err(rustix::io::Errno::IO.into()),
            _ => Place::Ram(&staged.data[index * size..(index + 1) * size]),
        })
    }

    /// Where the data of `unit`, which is mapped, is or was copied from, and in which life of the
    /// program unit there if that is staged.
    fn origin(&self, unit: PhysicalUnit) -> (PhysicalUnit, Option<u64>) {
        match self.staged.get(&self.layout.program_of(unit)) {
            None => (unit, None),
            Some(staged) => self.origin_in(unit, staged.life),
        }
    }

    /// Returns where a unit comes from that was staged in `life`.
    fn origin_in(&self, mut unit: PhysicalUnit, mut life: u64) -> (PhysicalUnit, Option<u64>) {
        loop {
            let program = self.layout.program_of(unit);
            let Some(staged) = self.staged_in(program, life) else { return (unit, None) };
            let index = (unit.0 - program * self.layout.units_per_program) as usize;
            match staged.units[index] {
                Source::CopyOf { from, life: None } => return (from, None),
                Source::CopyOf { from, life: Some(earlier) } => (unit, life) = (from, earlier),
                Source::Here { .. }
                | Source::Ahead { .. }
                | Source::Lost { .. }
                | Source::Nothing => {
                    return (unit, Some(life));
                }
            }
        }
    }

    /// The checksum of a unit in the image.
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

    /// Reads the data of `unit`, which is mapped, into `data`; returns its checksum as it was
    /// written.
    ///
    /// # Errors
    /// When the image cannot be read.
    pub fn read_unit(&mut self, unit: PhysicalUnit, data: &mut [u8]) -> io::Result<u32> {
        let (unit, life) = self.origin(unit);
        self.read_from(unit, life, data)
    }

    fn read_from(
        &mut self,
        unit: PhysicalUnit,
        life: Option<u64>,
        data: &mut [u8],
    ) -> io::Result<u32> {
        let program = self.layout.program_of(unit);
        let Some(life) = life else {
            self.file().read_exact_at(data, self.layout.unit_at(unit))?;
            return self.sum_of(unit);
        };
        self.settle(program, life);
        let staged = self.staged_in(program, life).expect("it is staged");
        let index = (unit.0 - program * self.layout.units_per_program) as usize;
        let source = staged.units[index];
        if let Source::Ahead { sum, .. } = source {
            self.file().read_exact_at(data, self.layout.unit_at(unit))?;
            return Ok(sum);
        }
        let size = self.layout.unit as usize;
        data.copy_from_slice(&staged.data[index * size..(index + 1) * size]);
        Ok(match source {
            Source::Here { sum, .. } => sum,
            Source::Lost { .. } => lost_sum(data),
            _ => crc32fast::hash(data),
        })
    }
}

/// Reads the checksums of the `units` of a program unit from the first copy of its record that holds; the
/// copies lie `at` these places.
///
/// # Errors
/// When none holds, or reading fails.
fn read_sums(file: &HostFile, at: [u64; 2], record: u64, units: u32) -> io::Result<Vec<u32>> {
    let mut bytes = vec![0; record as usize];
    for at in at {
        file.read_exact_at(&mut bytes, at)?;
        if let spare::Found::Written(record) = Record::decode(&bytes, units) {
            return Ok(record.sums);
        }
    }
    Err(rustix::io::Errno::IO.into())
}

impl Media for Store {
    #[inline]
    fn receive(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        let program = self.layout.program_of(unit);
        let life = match self.receiving {
            Some((staged, life)) if staged == program => life,
            _ => {
                let life = self.staged_mut(program).life;
                self.receiving = Some((program, life));
                life
            }
        };
        self.received.push(receive::Unit { place: unit, logical, life });
    }

    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit) {
        let program = self.layout.program_of(to);
        let index = (to.0 - program * self.layout.units_per_program) as usize;
        let life = self.staged.get(&self.layout.program_of(from)).map(|staged| staged.life);
        self.staged_mut(program).units[index] = Source::CopyOf { from, life };
    }

    fn fill(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        let program = self.layout.program_of(unit);
        let index = (unit.0 - program * self.layout.units_per_program) as usize;
        let size = self.layout.unit as usize;
        let blank = self.blank;
        let staged = self.staged_mut(program);
        let data = &mut staged.data[index * size..(index + 1) * size];
        data.fill(blank);
        staged.units[index] = Source::Here { logical, sum: crc32fast::hash(data) };
    }

    fn program(
        &mut self,
        first: PhysicalUnit,
        spare: SpareArea<'_>,
        number: SequenceNumber,
        work: FlashWork,
    ) {
        // What is programmed empty was never staged.
        let program = self.layout.program_of(first);
        if self.receiving.is_some_and(|(receiving, _)| receiving == program) {
            self.receiving = None;
        }
        let staged = self.staged_mut(program);
        staged.is_booked = true;
        let life = staged.life;
        let (is_slc, spare) = (spare.is_slc(), spare.raw().into());
        let action = Action::Program { first, number, spare, is_slc, life };
        self.book(action, work.span);
    }

    fn owe_erase(&mut self, block: BlockIndex, die: DieIndex) {
        if block.0 < self.layout.blocks {
            let part = self.layout.part_of(block, die);
            self.erases_owed[part as usize] += 1;
        }
    }

    fn erase(&mut self, block: BlockIndex, work: FlashWork) {
        if block.0 < self.layout.blocks {
            let part = self.layout.part_of(block, work.die);
            self.book(Action::Erase { part }, work.span);
        }
    }

    fn record_trims(&mut self, records: &[TrimRecord], work: FlashWork) {
        self.book(Action::Trims(records.into()), work.span);
    }

    fn promise(&mut self, at: Instant) {
        self.promised = Some(self.promised.map_or(at, |before| before.max(at)));
    }
}
