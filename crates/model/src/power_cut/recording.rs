//! Flash for power-cut tests: records the content of each program unit, and the programs in progress.
//!
//! Data is represented by a version number: the first unit that the host writes is version 1, the next one version 2,
//! and so on through the drive. A checker needs no more than that.
//!
//! Every call comes at its event, so the recorded content is that of the flash at that time. A power cut adds the
//! operations in progress: a program unit that was being programmed cannot be read (the whole unit: of a one-shot
//! program of several pages none is readable before the last pulse), and the part of a block that was being erased is
//! neither readable nor erased. Operations that had not begun have no effect.
//!
//! A drive that programs flash that is not erased gets no error, as with any flash, and the program unit cannot be
//! read afterwards; but the first such program is kept as a [`Misuse`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::faults::{Fault, InjectedFault};
use crate::ftl::Cuttable;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::media::{
    BadBlockRecord, MapPage, Media, OobArea, SequenceNumber, SpareMark, TrimRecord,
};
use crate::recovery::{FlashContents, ProgramUnit};
use crate::units::{BlockIndex, DieIndex, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Number of the host write whose data a unit holds, counted from 1; 0 for none.
pub type Version = u64;

/// Content of a program unit that is or will be programmed.
#[derive(Clone, Debug, PartialEq)]
struct ProgramContent {
    number: SequenceNumber,
    spare: Box<[u32]>,
    mark: SpareMark,
    data: Box<[Staged]>,
}

#[derive(Clone, Debug, PartialEq)]
enum ProgramState {
    Erased,
    Unreadable,
    Programmed(Arc<ProgramContent>),
}

/// Data or a trim that the drive has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Data for a unit: version 1 for the first of these, version 2 for the second, and so on.
    Written(LogicalUnit),
    /// A trim of a number of units from this one.
    Trimmed(LogicalUnit, u32),
}

/// A program that flash cannot carry out, because the place, or a later page of that block on the same die, is not
/// erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// First physical unit of the program unit.
    pub at: PhysicalUnit,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "physical unit {} is programmed before it was erased", self.at.0)
    }
}

/// Data that will be in a unit when it is programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Staged {
    version: Version,
    /// True if it is host data, which waits in the write buffer.
    written: bool,
}

/// A unit of the write buffer that power-loss protection has saved.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Saved {
    logical: LogicalUnit,
    version: Version,
    /// True if the unit was written again since.
    is_restored: bool,
}

/// Flash that stores versions instead of data.
#[derive(Clone, Debug)]
pub struct Recording {
    geometry: Geometry,
    /// Content of each program unit.
    programs: Vec<ProgramState>,
    /// Program units that were begun and are not programmed, by place, in their order.
    begun: HashMap<u32, VecDeque<Arc<ProgramContent>>>,
    trims: Vec<TrimRecord>,
    checkpoint_pages: Vec<SequenceNumber>,
    journal_pages: Vec<SequenceNumber>,
    bad_blocks: Vec<BadBlockRecord>,
    saved: Vec<Saved>,
    saved_units: Vec<LogicalUnit>,
    /// Per block, the number of erases of all its parts.
    erases: Vec<u32>,
    /// Per block, the moment from which data was written to it, if data ages.
    since: Vec<Nanoseconds>,
    /// Data that was last assigned to each physical unit.
    staged: Vec<Staged>,
    /// Host data in program units that are not begun.
    waiting: BTreeMap<PhysicalUnit, LogicalUnit>,
    /// Data and trims that the drive has taken since the latest call of [`Recording::take_accepted`].
    accepted: Vec<Accepted>,
    /// Latest version.
    versions: Version,
    misuse: Option<Misuse>,
    /// Number of changes of the flash content, and of the RAM content.
    changes: u64,
    changes_in_ram: u64,
    injected: Option<Box<InjectedFault>>,
}

impl Recording {
    /// Returns new, erased flash.
    pub fn new(geometry: &Geometry) -> Recording {
        let (units, blocks) = (geometry.physical_units(), geometry.blocks() as usize);
        Recording {
            programs: vec![ProgramState::Erased; (units / geometry.units_per_program()) as usize],
            begun: HashMap::new(),
            trims: Vec::new(),
            checkpoint_pages: Vec::new(),
            journal_pages: Vec::new(),
            bad_blocks: Vec::new(),
            saved: Vec::new(),
            saved_units: Vec::new(),
            erases: vec![0; blocks],
            since: vec![Nanoseconds::ZERO; blocks],
            staged: vec![Staged::default(); units as usize],
            waiting: BTreeMap::new(),
            accepted: Vec::new(),
            versions: 0,
            misuse: None,
            changes: 0,
            changes_in_ram: 0,
            injected: None,
            geometry: geometry.clone(),
        }
    }

    /// Returns the version that `unit` holds or will hold when it is programmed.
    pub fn version_at(&self, unit: PhysicalUnit) -> Version {
        self.staged[unit.0 as usize].version
    }

    /// Returns the version of the latest host write.
    pub fn versions(&self) -> Version {
        self.versions
    }

    /// Returns the data and trims that the drive has taken since the last call, in order.
    pub fn take_accepted(&mut self) -> Vec<Accepted> {
        std::mem::take(&mut self.accepted)
    }

    /// Returns the first program that the flash could not carry out, or `None`.
    pub fn misuse(&self) -> Option<Misuse> {
        self.misuse
    }

    /// Returns numbers that stay the same as long as the flash content does. If `capacitors_save` is true, they
    /// change with the write buffer, too.
    pub fn state(&self, capacitors_save: bool) -> (u64, u64) {
        (self.changes, if capacitors_save { self.changes_in_ram } else { 0 })
    }

    /// Makes the flash lie from now on until power is cut, as if the drive made the mistake `fault`.
    pub(super) fn inject_fault(&mut self, fault: Fault) {
        let injected = InjectedFault::of(fault, self, &self.geometry);
        self.injected = Some(Box::new(injected));
    }

    fn has_fault(&self, fault: Fault) -> bool {
        self.injected.as_ref().is_some_and(|injected| injected.fault == fault)
    }

    /// Iterates over the retired collection units.
    pub(super) fn retired(&self) -> impl Iterator<Item = BlockIndex> + '_ {
        let retired = self.bad_blocks.iter().filter(|it| it.replaced_by.is_none());
        retired.map(|record| record.unit)
    }

    /// Returns the true content of the program unit that starts at `first`.
    pub(super) fn content_at(&self, first: PhysicalUnit) -> ProgramUnit<'_> {
        match &self.programs[self.geometry.program_of(first) as usize] {
            ProgramState::Erased => ProgramUnit::Erased,
            ProgramState::Unreadable => ProgramUnit::Unreadable,
            ProgramState::Programmed(content) => {
                let spare = OobArea::with_mark(&content.spare, content.mark);
                ProgramUnit::Programmed { number: content.number, spare }
            }
        }
    }

    fn programs_per_block(&self) -> u32 {
        self.geometry.units_per_block() / self.geometry.units_per_program()
    }

    /// Returns the host data that is current by `map` and in the buffer only.
    fn buffered(&self, map: &impl Mapping) -> Vec<Saved> {
        let mut found: Vec<(LogicalUnit, Version)> = Vec::new();
        for (&physical, &logical) in &self.waiting {
            found.push((logical, self.version_at(physical)));
        }
        for content in self.begun.values().flatten() {
            let units = OobArea::new(&content.spare).logical_units().zip(&content.data);
            found.extend(
                units
                    .filter(|it| it.1.written)
                    .filter_map(|(unit, staged)| Some((unit?, staged.version))),
            );
        }
        found.sort_unstable();
        let mut seen = HashSet::new();
        found
            .into_iter()
            .filter(|&(logical, version)| {
                let current = map.get(logical).map(|it| self.version_at(it));
                current == Some(version) && seen.insert(logical)
            })
            .map(|(logical, version)| Saved { logical, version, is_restored: false })
            .collect()
    }

    /// Sets the content of all of `block` on `die` to `state`.
    fn set_state(&mut self, block: BlockIndex, die: DieIndex, state: &ProgramState) {
        self.changes += 1;
        let first = self.geometry.program_of(self.geometry.first_unit(block));
        for index in 0..self.programs_per_block() {
            if self.geometry.die_of_program(block, index) == die {
                self.programs[(first + index) as usize] = state.clone();
            }
        }
    }

    /// After a cut, copies of a unit take the data that the unit holds on flash.
    fn stage_flash_content(&mut self) {
        let per_program = self.geometry.units_per_program() as usize;
        for (state, staged) in self.programs.iter().zip(self.staged.chunks_mut(per_program)) {
            match state {
                ProgramState::Programmed(content) => {
                    for (staged, data) in staged.iter_mut().zip(&content.data) {
                        *staged = Staged { version: data.version, written: false };
                    }
                }
                ProgramState::Erased | ProgramState::Unreadable => staged.fill(Staged::default()),
            }
        }
    }

    /// Returns true if the flash can carry out the program: pages of a die's part of a block are programmed in order.
    fn can_be_programmed(&self, first: PhysicalUnit) -> bool {
        let block = self.geometry.block_of(first);
        let begin = self.geometry.program_of(self.geometry.first_unit(block));
        let program = self.geometry.program_of(first);
        let end = begin + self.programs_per_block();
        let mut behind = (program..end).step_by(self.geometry.stripe() as usize);
        behind.all(|place| matches!(self.programs[place as usize], ProgramState::Erased))
    }
}

impl Cuttable for Recording {
    fn tear_program(&mut self, first: PhysicalUnit) {
        let program = self.geometry.program_of(first) as usize;
        self.programs[program] = ProgramState::Unreadable;
    }

    fn tear_erase(&mut self, block: BlockIndex, die: DieIndex) {
        self.set_state(block, die, &ProgramState::Unreadable);
    }

    /// Units that were saved before and not written again stay saved.
    fn cut(&mut self, capacitors: Option<(&impl Mapping, Vec<TrimRecord>)>) {
        let mut saved = Vec::new();
        if let Some((map, trims)) = capacitors {
            self.trims.extend(trims);
            saved = self.saved.iter().copied().filter(|it| !it.is_restored).collect();
            saved.extend(self.buffered(map));
        }
        self.saved = saved;
        self.saved_units = self.saved.iter().map(|saved| saved.logical).collect();
        self.waiting.clear();
        self.begun.clear();
        self.injected = None;
        self.stage_flash_content();
    }
}

impl Media for Recording {
    fn receive(&mut self, unit: PhysicalUnit, logical: LogicalUnit) {
        self.accepted.push(Accepted::Written(logical));
        self.changes_in_ram += 1;
        self.versions += 1;
        self.staged[unit.0 as usize] = Staged { version: self.versions, written: true };
        self.waiting.insert(unit, logical);
    }

    fn trimmed(&mut self, first: LogicalUnit, units: u32) {
        self.accepted.push(Accepted::Trimmed(first, units));
        self.changes_in_ram += 1;
    }

    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit) {
        let Staged { version, written } = self.staged[from.0 as usize];
        // A unit copied out of a program unit that is still being filled moves to the new program unit, and stays in
        // the buffer until that is programmed.
        let logical = self.waiting.remove(&from);
        let written = written && logical.is_some();
        self.staged[to.0 as usize] = Staged { version, written };
        if let Some(logical) = logical {
            self.waiting.insert(to, logical);
        }
        self.changes_in_ram += 1;
    }

    fn fill(&mut self, unit: PhysicalUnit, _: LogicalUnit) {
        self.staged[unit.0 as usize] = Staged::default();
    }

    fn begin_program(&mut self, first: PhysicalUnit, spare: OobArea<'_>, number: SequenceNumber) {
        let end = first.0 + self.geometry.units_per_program();
        for unit in first.0..end {
            self.waiting.remove(&PhysicalUnit(unit));
        }
        let data = self.staged[first.0 as usize..end as usize].into();
        let content =
            ProgramContent { number, spare: spare.raw().into(), mark: spare.mark(), data };
        self.begun.entry(self.geometry.program_of(first)).or_default().push_back(Arc::new(content));
        self.changes_in_ram += 1;
    }

    fn programmed(&mut self, first: PhysicalUnit) {
        let program = self.geometry.program_of(first);
        let contents = self.begun.get_mut(&program).expect("what is programmed was begun");
        let content = contents.pop_front().expect("what is programmed was begun");
        if contents.is_empty() {
            self.begun.remove(&program);
        }
        let can_be_programmed = self.can_be_programmed(first);
        self.programs[program as usize] = match can_be_programmed {
            true => ProgramState::Programmed(content),
            false => ProgramState::Unreadable,
        };
        if !can_be_programmed {
            self.misuse.get_or_insert(Misuse { at: first });
        }
        self.changes += 1;
    }

    fn begin_erase(&mut self, block: BlockIndex) {
        if self.has_fault(Fault::EraseEarly) {
            for die in (0..self.geometry.dies()).map(DieIndex) {
                self.set_state(block, die, &ProgramState::Erased);
            }
        }
    }

    fn erased(&mut self, block: BlockIndex, die: DieIndex) {
        self.erases[block.0 as usize] += 1;
        self.set_state(block, die, &ProgramState::Erased);
    }

    fn erase_failed(&mut self, block: BlockIndex, die: DieIndex) {
        self.erases[block.0 as usize] += 1;
        self.set_state(block, die, &ProgramState::Unreadable);
    }

    fn bad_block_recorded(&mut self, record: BadBlockRecord) {
        self.changes += 1;
        self.bad_blocks.push(record);
        if let Some(worn) = record.replaced_by {
            let first = self.geometry.group_of(record.unit) * self.geometry.stripe();
            self.set_state(record.unit, DieIndex(first + record.lane), &ProgramState::Erased);
            // With one block per collection unit, the unit has the erases of the replacement; larger units keep their
            // count.
            if self.geometry.stripe() == 1 {
                self.erases[record.unit.0 as usize] = worn;
            }
        }
    }

    fn trims_recorded(&mut self, records: &[TrimRecord]) {
        self.changes += 1;
        self.trims.extend_from_slice(records);
    }

    fn map_page_programmed(&mut self, page: MapPage, through: SequenceNumber) {
        self.changes += 1;
        match page {
            MapPage::Piece => self.checkpoint_pages.push(through),
            MapPage::Journal => self.journal_pages.push(through),
        }
    }

    fn block_begun(&mut self, block: BlockIndex, clock: Nanoseconds) {
        self.since[block.0 as usize] = clock;
    }
}

impl FlashContents for Recording {
    fn program_unit(&self, first: PhysicalUnit) -> ProgramUnit<'_> {
        let truly = self.content_at(first);
        match &self.injected {
            Some(injected) => {
                injected.faulty_content(first, truly, &self.geometry, &self.bad_blocks)
            }
            None => truly,
        }
    }

    fn programs_in(&self, block: BlockIndex) -> u32 {
        if self.has_fault(Fault::ForgetBadBlocks) {
            return self.programs_per_block();
        }
        let first = self.geometry.program_of(self.geometry.first_unit(block)) as usize;
        let states = &self.programs[first..first + self.programs_per_block() as usize];
        states
            .iter()
            .rposition(|it| !matches!(it, ProgramState::Erased))
            .map_or(0, |it| it as u32 + 1)
    }

    fn trims(&self) -> &[TrimRecord] {
        if self.has_fault(Fault::ForgetTrims) { &[] } else { &self.trims }
    }

    fn checkpoint_pages(&self) -> &[SequenceNumber] {
        &self.checkpoint_pages
    }

    fn journal_pages(&self) -> &[SequenceNumber] {
        &self.journal_pages
    }

    fn bad_blocks(&self) -> &[BadBlockRecord] {
        &self.bad_blocks
    }

    fn saved(&self) -> &[LogicalUnit] {
        if self.has_fault(Fault::ForgetSaved) { &[] } else { &self.saved_units }
    }

    fn restore(&mut self, index: usize, unit: PhysicalUnit) {
        let saved = &mut self.saved[index];
        saved.is_restored = true;
        self.changes_in_ram += 1;
        self.staged[unit.0 as usize] = Staged { version: saved.version, written: true };
        self.waiting.insert(unit, saved.logical);
    }

    fn erases(&self, block: BlockIndex) -> u32 {
        self.erases[block.0 as usize] / self.geometry.stripe()
    }

    fn begun(&self, block: BlockIndex) -> Nanoseconds {
        self.since[block.0 as usize]
    }
}
