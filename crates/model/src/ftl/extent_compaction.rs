//! Extent compaction: when the table of extents is full, the fragments of one region are written
//! as one run.
//!
//! The region with the most extents is read, wherever its units lie, and written to a free block in logical
//! order. Unmapped units are written as zeros, because an extent cannot leave any out. A region is as large as
//! a collection unit, so the run fills a block, and the block that the region lay in before is left without
//! valid units once its fragments are gone too: what hybrid mapping schemes call a full merge.
//!
//! Writes and trims wait until the run is programmed. The run is read some rows of program units ahead of the
//! one that is programmed; host reads have priority over its programs, as over any.

use std::collections::VecDeque;
use std::ops::Range;

use ssdlab_nand::{EraseId, Nand, Page, ProgramLog, ProgramUnit, Tag};

use super::host::{Command, RequestTag};
use super::{Context, Ftl, kind};
use crate::block_table::BlockState;
use crate::mapping::Mapping;
use crate::media::{Media, SequenceNumber};
use crate::units::{BlockIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// Number of program units of each die that are read ahead of the one that is programmed: one is sensed and
/// transferred while the one before it is programmed.
const ROWS_AHEAD: u32 = 2;

/// Maximum number of extents that a trim adds: one at each end. The units that it covers become one unmapped
/// extent in each region, and had no fewer extents before.
const NEEDED_FOR_TRIM: u32 = 2;

/// A page to read for a run; removed when the read is issued.
#[derive(Clone, Copy, Debug)]
struct Source {
    unit: PhysicalUnit,
    units: u32,
}

/// A program unit of a run.
#[derive(Clone, Debug, Default)]
struct RunProgram {
    sources: Vec<Source>,
    reads_left: u32,
    /// Erase that the program has to wait for.
    after: Option<EraseId>,
    number: SequenceNumber,
    is_sent: bool,
}

/// A run in flight: a region that is written to one block.
#[derive(Clone, Debug)]
struct Run {
    number: u64,
    block: BlockIndex,
    programs: Vec<RunProgram>,
    /// Number of program units whose reads were issued (`asked`), and of those that are programmed (`over`).
    asked: u32,
    over: u32,
}

/// Runs in flight, and the requests that wait for them.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentCompactor {
    runs: VecDeque<Run>,
    log: ProgramLog,
    waiting: Vec<(RequestTag, Instant)>,
}

impl ExtentCompactor {
    /// Returns true if the runs before number `number` are programmed. No block that held their units is erased
    /// before.
    #[inline(always)]
    pub(super) fn are_complete_before(&self, number: u64) -> bool {
        self.log.low_water() >= number
    }

    /// Returns the number of the run that begins next.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.log.next()
    }

    /// Returns the smallest sequence number of a program unit of the runs in flight; `None` if there is no run.
    pub(super) fn oldest(&self) -> Option<SequenceNumber> {
        self.runs.front()?.programs.first().map(|program| program.number)
    }

    /// Returns true if all runs are programmed.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Returns the tag of program unit `index` of run `number`.
fn tag_of(number: u64, index: u32, programs_per_block: u32) -> Tag {
    let first = (number as u32).wrapping_mul(programs_per_block);
    Tag(kind::RUN | first.wrapping_add(index) & kind::NUMBER)
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Looks up the extents of a request that is being executed. Returns true if the request can go on at once.
    /// Otherwise it goes on when the lookup is done and the table has space for the extents that it adds.
    #[inline(always)]
    pub(super) fn find_extents(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        (first, units): (LogicalUnit, u32),
    ) -> bool {
        if self.map.extents().is_none() {
            return true;
        }
        let longer = self.map.time_to_find(first, units);
        match self.requests.get(tag).command {
            Command::Read { .. } | Command::ReadSectors { .. } => {
                self.delays.reads.parts.map_miss += longer;
            }
            _ => self.delays.writes.parts.map_miss += longer,
        }
        if longer == Nanoseconds::ZERO {
            return self.has_table_space(context, tag, (first, units));
        }
        context.nand.hold_controller(longer);
        let found = context.nand.now() + longer;
        context.nand.set_alarm(found, Tag(kind::MAP_LOOKUP_DONE | tag.0));
        false
    }

    /// Returns true if a request whose extents are found can go on; otherwise the request waits for the runs in
    /// flight. Compacts regions first if the table is short of entries.
    pub(super) fn has_table_space(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        (first, units): (LogicalUnit, u32),
    ) -> bool {
        let Some(table) = self.map.extents() else { return true };
        let needed = match self.requests.get(tag).command {
            Command::Read { .. } | Command::ReadSectors { .. } | Command::Flush => return true,
            Command::Trim { .. } => NEEDED_FOR_TRIM,
            _ => table.needed_for(first, LogicalUnit(first.0 + units - 1)),
        };
        while self.map.extents().is_some_and(|table| table.is_short_of(needed)) {
            self.compact_region(context);
        }
        if self.compactor.is_idle() {
            return true;
        }
        self.compactor.waiting.push((tag, context.nand.now()));
        false
    }

    /// Writes the region with the most extents as one run.
    fn compact_region(&mut self, context: &mut Context<'_>) {
        // Writes that wait for the run fill no program units meanwhile. So those kept for coalescing, which
        // others may wait for, are sent now.
        self.finalize_all(context);
        let table = self.map.extents().expect("there is a table of extents");
        let (region, extents) = table.most_fragmented();
        assert!(extents > 1, "a table that is full has a region to compact");
        let units = table.units_of(region);
        self.ensure_free_block(context);
        let per_block = self.geometry.units_per_block();
        let block = self.blocks.open_for_run(per_block);
        self.note_block_begun(context.nand, block, false);
        let kept = self.erase_before_run(block);
        self.counters.condensed_regions += 1;
        let per_program = self.geometry.units_per_program();
        let programs = (units.end - units.start).div_ceil(per_program);
        let mut run = Run {
            number: self.compactor.log.begin(),
            block,
            programs: Vec::new(),
            asked: 0,
            over: 0,
        };
        for index in 0..programs {
            let first = units.start + index * per_program;
            let part = first..(first + per_program).min(units.end);
            let mut program = self.place_part_of_run(block, index, part);
            program.after = program.after.or(kept);
            run.programs.push(program);
        }
        // A region at the drive's end may be short.
        let first = self.geometry.first_unit(block).0;
        for behind in programs * per_program..per_block {
            self.blocks.table_mut().note_padding(PhysicalUnit(first + behind), block);
        }
        self.blocks.table_mut().close(block, BlockState::Closed);
        self.compactor.runs.push_back(run);
        let last = self.compactor.runs.len() - 1;
        for _ in 0..ROWS_AHEAD * self.geometry.stripe() {
            self.read_next_of_run(context.nand, last);
        }
        self.collect_for(context, per_block);
    }

    /// Gives the units of a program unit of a run their places. Returns the program unit, with the pages that
    /// have to be read for it.
    fn place_part_of_run(&mut self, block: BlockIndex, index: u32, part: Range<u32>) -> RunProgram {
        let per_program = self.geometry.units_per_program();
        let first = self.geometry.first_unit(block).0 + index * per_program;
        let count = part.end - part.start;
        let mut sources: Vec<Source> = Vec::new();
        for (place, unit) in (first..).zip(part) {
            let (unit, to) = (LogicalUnit(unit), PhysicalUnit(place));
            if let Some(from) = self.map.get(unit)
                && !self.placement.is_buffered(from, &self.geometry)
            {
                let sense = self.geometry.sense_of(from);
                match sources.last_mut() {
                    Some(last) if self.geometry.sense_of(last.unit) == sense => last.units += 1,
                    _ => sources.push(Source { unit: from, units: 1 }),
                }
            }
            self.place_in_run(unit, to);
        }
        for padding in count..per_program {
            self.blocks.table_mut().note_padding(PhysicalUnit(first + padding), block);
        }
        self.placement.set_buffered(PhysicalUnit(first), &self.geometry, true);
        let number = self.placement.next_number();
        let spare = self.blocks.table().spare_area(PhysicalUnit(first), per_program);
        self.media.begin_program(PhysicalUnit(first), spare, number);
        let after = self.blocks.erase_before(block, self.geometry.die_of(PhysicalUnit(first)));
        self.counters.program_units_condensing += u64::from(count);
        self.counters.program_units_padding += u64::from(per_program - count);
        self.counters.programs += 1;
        let reads_left = sources.len() as u32;
        RunProgram { sources, reads_left, after, number, is_sent: false }
    }

    /// Moves one unit to its place in a run; an unmapped unit is filled with zeros.
    fn place_in_run(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.blocks.table_mut().note_written(physical, unit);
        match self.map.get(unit) {
            Some(old) => {
                self.media.copy(old, physical);
                self.map.relocate(unit, physical);
                if self.blocks.table_mut().invalidate_unit(self.geometry.block_of(old)) {
                    // The unit that replaces it is programmed with the run.
                    self.discard_unsent(old);
                }
            }
            None => {
                self.counters.condensed_empty_units += 1;
                self.media.fill(physical, unit);
                self.map.fill(unit, physical);
            }
        }
    }

    /// Issues the reads for the next program unit of a run, if there is one.
    fn read_next_of_run(&mut self, nand: &mut Nand, run: usize) {
        let Run { number, ref mut programs, ref mut asked, .. } = self.compactor.runs[run];
        let index = *asked;
        let Some(program) = programs.get_mut(index as usize) else { return };
        *asked += 1;
        let sources = std::mem::take(&mut program.sources);
        let tag = tag_of(number, index, self.programs_per_block());
        self.counters.flash_reads_condensing += sources.len() as u64;
        if sources.is_empty() {
            return self.program_parts_of_run(nand, run, index);
        }
        for Source { unit, units } in sources {
            nand.load_page(tag, Page { unit, units, sense: self.page_read_of(unit) }, false);
        }
    }

    fn programs_per_block(&self) -> u32 {
        self.geometry.units_per_block() / self.geometry.units_per_program()
    }

    /// Sends a program unit of a run whose pages are in RAM, and those that its die has to program after it and
    /// whose pages came earlier. Sends none as long as the die has to program another one first.
    fn program_parts_of_run(&mut self, nand: &mut Nand, run: usize, index: u32) {
        let stripe = self.geometry.stripe();
        let mut next = index;
        while let Some(program) = self.compactor.runs[run].programs.get(next as usize) {
            let programs = &self.compactor.runs[run].programs;
            let before = next.checked_sub(stripe).map(|before| &programs[before as usize]);
            let is_asked = next < self.compactor.runs[run].asked;
            if before.is_some_and(|it| !it.is_sent) || !is_asked || program.reads_left > 0 {
                return;
            }
            self.compactor.runs[run].programs[next as usize].is_sent = true;
            self.program_part_of_run(nand, run, next);
            next += stripe;
        }
    }

    fn program_part_of_run(&mut self, nand: &mut Nand, run: usize, index: u32) {
        let Run { number, block, ref programs, .. } = self.compactor.runs[run];
        let after = programs[index as usize].after;
        let units = self.geometry.units_per_program();
        let unit = PhysicalUnit(self.geometry.first_unit(block).0 + index * units);
        if let Some(erase) = after {
            self.expedite_erase(nand, erase);
        }
        let tag = tag_of(number, index, self.programs_per_block());
        let program = self.timing.program;
        nand.program(tag, ProgramUnit { unit, units, program, after });
    }

    fn place_in_runs(&self, run: usize, index: u32) -> PhysicalUnit {
        let first = self.geometry.first_unit(self.compactor.runs[run].block);
        PhysicalUnit(first.0 + index * self.geometry.units_per_program())
    }

    /// Returns the first unit of the program unit of a run that `tag` names.
    pub(super) fn first_of_run_program(&self, tag: Tag) -> PhysicalUnit {
        let (run, index) = self.run_of(tag);
        self.place_in_runs(run, index)
    }

    /// Returns the place in `runs` of the run that `tag` names, and the index of its program unit.
    fn run_of(&self, tag: Tag) -> (usize, u32) {
        let per_block = self.programs_per_block();
        let index_in = |run: &Run| {
            let first = tag_of(run.number, 0, per_block);
            Some(tag.0.wrapping_sub(first.0) & kind::NUMBER).filter(|&index| index < per_block)
        };
        let mut runs = self.compactor.runs.iter().enumerate();
        let run = runs.find_map(|(place, run)| index_in(run).map(|index| (place, index)));
        run.expect("the run is under way")
    }

    /// Notes that a page for a run is in RAM.
    pub(super) fn run_page_loaded(&mut self, nand: &mut Nand, tag: Tag) {
        let (run, index) = self.run_of(tag);
        let program = &mut self.compactor.runs[run].programs[index as usize];
        program.reads_left -= 1;
        if program.reads_left == 0 {
            self.program_parts_of_run(nand, run, index);
        }
    }

    /// Notes that a program unit of a run is programmed. If no run is left, resumes the requests that wait.
    pub(super) fn run_programmed(&mut self, context: &mut Context<'_>, tag: Tag) {
        let (run, index) = self.run_of(tag);
        let first = self.place_in_runs(run, index);
        self.media.programmed(first);
        self.placement.set_buffered(first, &self.geometry, false);
        let number = self.compactor.runs[run].programs[index as usize].number;
        self.map_changed(context.nand, 1, number, None);
        self.read_next_of_run(context.nand, run);
        let state = &mut self.compactor.runs[run];
        state.over += 1;
        if (state.over as usize) < state.programs.len() {
            return;
        }
        let number = state.number;
        self.compactor.runs.remove(run);
        self.compactor.log.end(number);
        self.note_durable(context);
        if self.compactor.is_idle() {
            for (tag, since) in std::mem::take(&mut self.compactor.waiting) {
                let waited = context.nand.now().since(since);
                self.counters.condensing_wait_ns += waited.nanos();
                if !matches!(self.requests.get(tag).command, Command::Trim { .. }) {
                    self.delays.writes.parts.merge += waited;
                }
                self.extents_found(context, tag);
            }
        }
    }

    /// Resumes a request whose extents are found, if the table has space.
    pub(super) fn extents_found(&mut self, context: &mut Context<'_>, tag: RequestTag) {
        let (first, units) = self.units_of(tag);
        if self.has_table_space(context, tag, (first, units)) {
            self.execute_after_lookup(context, tag, first, units);
        }
    }
}
