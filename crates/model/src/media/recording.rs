//! Flash that can be cut from power: it remembers what was programmed and erased when, and what
//! data each unit holds.
//!
//! Data is told apart by a number: the first unit that the host writes is version 1, the next one
//! version 2, and so on through the drive. That is all a checker needs to know.
//!
//! # What is on the flash at an instant
//!
//! A program that is over by then is there, one under way has left a program unit that cannot be
//! read (all of it: of a one-shot of several pages none is readable before the last pulse), and
//! one that has not begun has left nothing. An erase under way has left the block neither data nor
//! erased. Reads that came after a program was booked have pushed it back, so its span is asked for
//! again at the cut. One thing is kept as it was promised: where the drive has relied on the end
//! of a program, in telling the host that it is durable or in beginning an erase, the program is
//! over then. (The model answers a flush when it arrives. A read that comes later and pushes the
//! program back would have pushed that answer back, too; the model does not take answers back.)

use std::collections::BTreeMap;

use super::{
    BadBlockRecord, FlashWork, MapPage, Media, SequenceNumber, SpareArea, SpareMark, TrimRecord,
};
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::recovery::{FlashContents, ProgramUnit};
use crate::resources::Span;
use crate::units::{BlockIndex, Instant, LogicalUnit, PhysicalUnit};

/// Which write of the host's a unit holds the data of, counted from 1; 0 for none.
pub type Version = u64;

/// What a program unit holds.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Erased,
    Unreadable,
    Programmed {
        number: SequenceNumber,
        spare: Box<[u32]>,
        mark: SpareMark,
        versions: Box<[Version]>,
    },
}

/// Something that was done to the flash.
#[derive(Clone, Debug)]
enum Action {
    Program {
        first: PhysicalUnit,
        number: SequenceNumber,
        spare: Box<[u32]>,
        mark: SpareMark,
        staged: Box<[Staged]>,
    },
    Erase(BlockIndex),
    /// An erase that leaves a bad block.
    FailErase(BlockIndex),
    BadBlock(BadBlockRecord),
    Trims(Box<[TrimRecord]>),
    Map(MapPage, SequenceNumber),
}

#[derive(Clone, Debug)]
enum Event {
    Work(Action, FlashWork),
    Promise(Instant),
}

/// The data that will be in a unit when it is programmed.
#[derive(Clone, Copy, Debug, Default)]
struct Staged {
    version: Version,
    /// Whether it is the host's, so that it waits in the write buffer.
    written: bool,
}

/// How far an action has come when power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Over,
    UnderWay,
    NotBegun,
}

/// A unit of the write buffer that capacitors have saved.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Saved {
    logical: LogicalUnit,
    version: Version,
}

impl Action {
    /// The host's data that this programs.
    fn written(&self) -> Vec<Saved> {
        let Action::Program { spare, staged, .. } = self else {
            return Vec::new();
        };
        let units = SpareArea::new(spare).logical_units().zip(staged.iter());
        let written = units.filter(|(_, staged)| staged.written);
        let saved = |(logical, staged): (Option<LogicalUnit>, &Staged)| {
            Some(Saved { logical: logical?, version: staged.version })
        };
        written.filter_map(saved).collect()
    }
}

/// Flash that keeps what was done to it until power is cut.
#[derive(Clone, Debug)]
pub struct Recording {
    geometry: Geometry,
    /// What was there when the drive was opened, by program unit.
    held: Vec<Held>,
    trims: Vec<TrimRecord>,
    map_pieces: Vec<SequenceNumber>,
    journal_pages: Vec<SequenceNumber>,
    bad_blocks: Vec<BadBlockRecord>,
    saved: Vec<Saved>,
    saved_units: Vec<LogicalUnit>,
    erases: Vec<u32>,
    /// By block, whether what is programmed to it is marked as a merge that can be done again.
    redone: Vec<bool>,
    /// What was done since, in the order it was booked.
    events: Vec<Event>,
    /// The data last meant for each physical unit.
    staged: Vec<Staged>,
    /// What the host has written and no program was booked for.
    waiting: BTreeMap<PhysicalUnit, LogicalUnit>,
    versions: Version,
}

impl Recording {
    /// New, erased flash.
    pub fn new(geometry: &Geometry) -> Recording {
        let units = geometry.physical_units();
        Recording {
            held: vec![Held::Erased; (units / geometry.units_per_program()) as usize],
            trims: Vec::new(),
            map_pieces: Vec::new(),
            journal_pages: Vec::new(),
            bad_blocks: Vec::new(),
            saved: Vec::new(),
            saved_units: Vec::new(),
            erases: vec![0; geometry.blocks() as usize],
            redone: vec![false; geometry.blocks() as usize],
            events: Vec::new(),
            staged: vec![Staged::default(); units as usize],
            waiting: BTreeMap::new(),
            versions: 0,
            geometry: geometry.clone(),
        }
    }

    /// The version that `unit` holds or will hold when it is programmed.
    pub fn version_at(&self, unit: PhysicalUnit) -> Version {
        self.staged[unit.0 as usize].version
    }

    /// Units the host has written so far: the version of the latest.
    pub fn versions(&self) -> Version {
        self.versions
    }

    /// Whether a drive that is opened from this flash finds what it would on `other`, both as a
    /// power cut has left them.
    pub(crate) fn holds_the_same(&self, other: &Recording) -> bool {
        let Recording { held, trims, map_pieces, journal_pages, bad_blocks, saved, erases, .. } =
            self;
        *erases == other.erases
            && *bad_blocks == other.bad_blocks
            && *trims == other.trims
            && *map_pieces == other.map_pieces
            && *journal_pages == other.journal_pages
            && *saved == other.saved
            && *held == other.held
    }

    /// The instants after `from` and before `until` at which something begins or is over, in
    /// order; `span_of` says when each was done, as far as is known now.
    pub(crate) fn instants(
        &self,
        from: Instant,
        until: Instant,
        span_of: impl Fn(&FlashWork) -> Span,
    ) -> Vec<Instant> {
        let mut instants: Vec<Instant> = self
            .events
            .iter()
            .flat_map(|event| match event {
                Event::Work(_, work) => {
                    let span = span_of(work);
                    [span.start, span.end]
                }
                &Event::Promise(at) => [at, at],
            })
            .filter(|&at| at > from && at < until)
            .collect();
        instants.sort_unstable();
        instants.dedup();
        instants
    }

    /// How far everything has come at `at`.
    fn progress(&self, at: Instant, span_of: impl Fn(&FlashWork) -> Span) -> Vec<Progress> {
        let mut relied_on = Instant::START;
        let mut progress = vec![Progress::Over; self.events.len()];
        for (event, progress) in self.events.iter().zip(&mut progress).rev() {
            match event {
                &Event::Promise(promised) if promised <= at => relied_on = relied_on.max(promised),
                Event::Promise(_) => {}
                Event::Work(action, work) => {
                    let span = span_of(work);
                    *progress = if span.end <= at || work.span.end <= relied_on {
                        Progress::Over
                    } else if span.start < at {
                        Progress::UnderWay
                    } else {
                        Progress::NotBegun
                    };
                    // A record is begun after all before it, so that none is missing.
                    let relies = matches!(
                        action,
                        Action::Erase(_) | Action::FailErase(_) | Action::BadBlock(_)
                    );
                    if relies && *progress != Progress::NotBegun {
                        relied_on = relied_on.max(work.span.start);
                    }
                }
            }
        }
        progress
    }

    /// The flash as it is when power is cut at `at`. Where there are capacitors, what is current
    /// by the map, was written by the host and is not programmed is saved, and so are the records
    /// of trims that are not programmed: those booked, and those given. What was saved before stays
    /// saved until it is programmed: a cut during recovery finds it where the first has left it.
    pub(crate) fn cut(
        mut self,
        at: Instant,
        span_of: impl Fn(&FlashWork) -> Span,
        capacitors: Option<(&impl Mapping, &[TrimRecord])>,
    ) -> Recording {
        let progress = self.progress(at, span_of);
        let mut unprogrammed: Vec<Saved> = Vec::new();
        for (&physical, &logical) in &self.waiting {
            unprogrammed.push(Saved { logical, version: self.version_at(physical) });
        }
        for (event, progress) in std::mem::take(&mut self.events).into_iter().zip(progress) {
            let Event::Work(action, work) = event else { continue };
            if progress != Progress::Over {
                unprogrammed.extend(action.written());
            }
            let keep = capacitors.is_some() && matches!(action, Action::Trims(_));
            self.carry_out(action, work, if keep { Progress::Over } else { progress });
        }
        self.saved = Vec::new();
        if let Some((map, unrecorded)) = capacitors {
            self.trims.extend_from_slice(unrecorded);
            // It may have been copied since: from the buffer, where it still is.
            unprogrammed.retain(|saved| {
                map.get(saved.logical).map(|it| self.version_at(it)) == Some(saved.version)
            });
            self.saved = unprogrammed;
        }
        self.saved_units = self.saved.iter().map(|saved| saved.logical).collect();
        self.waiting.clear();
        self.redone.fill(false);
        self.stage_what_is_held();
        self
    }

    /// Forgets how the flash came to be as it is at `at`.
    pub(crate) fn forget_how(&mut self, at: Instant, span_of: impl Fn(&FlashWork) -> Span) {
        let progress = self.progress(at, span_of);
        let over = progress.iter().take_while(|&&progress| progress == Progress::Over).count();
        let after = self.events.split_off(over);
        for event in std::mem::replace(&mut self.events, after) {
            if let Event::Work(action, work) = event {
                self.carry_out(action, work, Progress::Over);
            }
        }
    }

    fn carry_out(&mut self, action: Action, work: FlashWork, progress: Progress) {
        if progress == Progress::NotBegun {
            return;
        }
        match action {
            Action::Program { first, number, spare, mark, staged } => {
                let index = self.geometry.program_of(first) as usize;
                // Programming what is not erased destroys both.
                let readable =
                    progress == Progress::Over && matches!(self.held[index], Held::Erased);
                self.held[index] = if readable {
                    let versions = staged.iter().map(|staged| staged.version).collect();
                    Held::Programmed { number, spare, mark, versions }
                } else {
                    Held::Unreadable
                };
            }
            Action::Erase(block) => {
                self.erases[block.0 as usize] += u32::from(progress == Progress::Over);
                let is_over = progress == Progress::Over;
                self.leave(block, work, if is_over { Held::Erased } else { Held::Unreadable });
            }
            Action::FailErase(block) => {
                self.erases[block.0 as usize] += u32::from(progress == Progress::Over);
                self.leave(block, work, Held::Unreadable);
            }
            Action::BadBlock(record) => {
                if progress == Progress::Over {
                    self.bad_blocks.push(record);
                    if let Some(worn) = record.replaced_by {
                        self.leave(record.unit, work, Held::Erased);
                        // A unit of one block is what replaces it; others count as they did.
                        if self.geometry.stripe() == 1 {
                            self.erases[record.unit.0 as usize] = worn;
                        }
                    }
                }
            }
            Action::Trims(records) => {
                if progress == Progress::Over {
                    self.trims.extend_from_slice(&records);
                }
            }
            Action::Map(page, through) => {
                if progress == Progress::Over {
                    match page {
                        MapPage::Piece => self.map_pieces.push(through),
                        MapPage::Journal => self.journal_pages.push(through),
                    }
                }
            }
        }
    }

    /// All that `block` holds on the die of `work` is `held` from now on.
    fn leave(&mut self, block: BlockIndex, work: FlashWork, held: Held) {
        let first = self.geometry.program_of(self.geometry.first_unit(block));
        let programs = self.geometry.units_per_block() / self.geometry.units_per_program();
        for index in 0..programs {
            if self.geometry.die_of_program(block, index) == work.die {
                self.held[(first + index) as usize] = held.clone();
            }
        }
    }

    /// After a cut: what will be copied from a unit is what it holds.
    fn stage_what_is_held(&mut self) {
        let per_program = self.geometry.units_per_program() as usize;
        for (held, staged) in self.held.iter().zip(self.staged.chunks_mut(per_program)) {
            match held {
                Held::Programmed { versions, .. } => {
                    for (staged, &version) in staged.iter_mut().zip(versions) {
                        *staged = Staged { version, written: false };
                    }
                }
                Held::Erased | Held::Unreadable => staged.fill(Staged::default()),
            }
        }
    }
}

impl Media for Recording {
    fn receive(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        self.versions += 1;
        self.staged[unit.0 as usize] = Staged { version: self.versions, written: true };
        self.waiting.insert(unit, logical);
    }

    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit) {
        let Staged { version, written } = self.staged[from.0 as usize];
        // What is copied out of a program unit that is still being filled leaves it, and is in the
        // buffer until its new program unit is programmed.
        let logical = self.waiting.remove(&from);
        let written = written && logical.is_some();
        self.staged[to.0 as usize] = Staged { version, written };
        if let Some(logical) = logical {
            self.waiting.insert(to, logical);
        }
    }

    fn fill(&mut self, unit: PhysicalUnit, _: LogicalUnit) {
        self.staged[unit.0 as usize] = Staged::default();
    }

    fn program(
        &mut self,
        first: PhysicalUnit,
        spare: SpareArea<'_>,
        number: SequenceNumber,
        work: FlashWork,
    ) {
        let end = first.0 + self.geometry.units_per_program();
        for unit in first.0..end {
            self.waiting.remove(&PhysicalUnit(unit));
        }
        let staged = self.staged[first.0 as usize..end as usize].into();
        let is_redone = self.redone[self.geometry.block_of(first).0 as usize];
        let mark = if is_redone { SpareMark::Redone } else { spare.mark() };
        let action = Action::Program { first, number, spare: spare.raw().into(), mark, staged };
        self.events.push(Event::Work(action, work));
    }

    fn erase(&mut self, block: BlockIndex, work: FlashWork) {
        if block.0 >= self.geometry.blocks() {
            // Blocks of map pages, which recovery does without.
            return;
        }
        self.redone[block.0 as usize] = false;
        self.events.push(Event::Work(Action::Erase(block), work));
    }

    fn fail_erase(&mut self, block: BlockIndex, work: FlashWork) {
        self.redone[block.0 as usize] = false;
        self.events.push(Event::Work(Action::FailErase(block), work));
    }

    fn record_bad_block(&mut self, record: BadBlockRecord, work: FlashWork) {
        self.events.push(Event::Work(Action::BadBlock(record), work));
    }

    fn mark_redone(&mut self, block: BlockIndex) {
        self.redone[block.0 as usize] = true;
    }

    fn record_trims(&mut self, records: &[TrimRecord], work: FlashWork) {
        self.events.push(Event::Work(Action::Trims(records.into()), work));
    }

    fn save_map(&mut self, page: MapPage, through: SequenceNumber, work: FlashWork) {
        self.events.push(Event::Work(Action::Map(page, through), work));
    }

    fn promise(&mut self, at: Instant) {
        self.events.push(Event::Promise(at));
    }
}

impl FlashContents for Recording {
    fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_> {
        match &self.held[self.geometry.program_of(first) as usize] {
            Held::Erased => ProgramUnit::Erased,
            Held::Unreadable => ProgramUnit::Unreadable,
            Held::Programmed { number, spare, mark, .. } => {
                let spare = SpareArea::with_mark(spare, *mark);
                ProgramUnit::Programmed { number: *number, spare }
            }
        }
    }

    fn programs_in(&self, block: BlockIndex) -> u32 {
        let first = self.geometry.program_of(self.geometry.first_unit(block)) as usize;
        let programs = self.geometry.units_per_block() / self.geometry.units_per_program();
        let held = &self.held[first..first + programs as usize];
        held.iter().rposition(|it| !matches!(it, Held::Erased)).map_or(0, |it| it as u32 + 1)
    }

    fn trims(&self) -> &[TrimRecord] {
        &self.trims
    }

    fn map_pieces(&self) -> &[SequenceNumber] {
        &self.map_pieces
    }

    fn journal_pages(&self) -> &[SequenceNumber] {
        &self.journal_pages
    }

    fn bad_blocks(&self) -> &[BadBlockRecord] {
        &self.bad_blocks
    }

    fn saved(&self) -> &[LogicalUnit] {
        &self.saved_units
    }

    fn restore(&mut self, index: usize, unit: PhysicalUnit) {
        let Saved { logical, version } = self.saved[index];
        self.staged[unit.0 as usize] = Staged { version, written: true };
        self.waiting.insert(unit, logical);
    }

    fn erases(&self, block: BlockIndex) -> u32 {
        self.erases[block.0 as usize] / self.geometry.stripe()
    }
}
