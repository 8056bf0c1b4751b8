//! Merges of log blocks: switch, partial and full.
//!
//! Copies are read like the host's pages and programmed like its data, row after row of a superblock: the next
//! row is placed and read when the one before is programmed, so RAM holds one row.

use ssdlab_nand::{Page, Tag};

use super::{LogFrontier, Sequence};
use crate::block_table::BlockState;
use crate::ftl::{Context, Ftl, kind};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

/// A merge in flight: a logical block that is written to one block.
#[derive(Clone, Copy, Debug)]
struct Merge {
    logical_block: u32,
    block: BlockIndex,
    /// Offset of the next unit to place. In the merge of a sequence, the host has written the units before it.
    next: u32,
    /// Offset behind the last mapped unit.
    until: u32,
    /// Frontier of the merge: that of the sequence (switch or partial merge), or that of full merges.
    frontier: LogFrontier,
    /// Number of program units of the merge that have not completed.
    in_flight: u32,
}

/// The random log block that is being reclaimed.
#[derive(Clone, Copy, Debug)]
struct Reclaim {
    block: BlockIndex,
    /// Next physical unit of the block to look at.
    next: u32,
}

/// Merges in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Merges {
    merge: Option<Merge>,
    reclaim: Option<Reclaim>,
    /// True if the sequence is to be merged after the merge in flight.
    ends_sequence: bool,
}

impl Merges {
    pub(super) fn are_in_flight(&self) -> bool {
        self.merge.is_some() || self.reclaim.is_some()
    }

    /// Returns the block that a full merge in flight writes.
    pub(super) fn merged_into(&self) -> Option<BlockIndex> {
        self.merge.filter(|merge| merge.frontier == LogFrontier::Merged).map(|merge| merge.block)
    }

    /// Notes that a program unit of `frontier` is sealed. Returns true if it belongs to the merge in
    /// flight.
    pub(super) fn note_sealed(&mut self, frontier: LogFrontier) -> bool {
        let merge = self.merge.as_mut().filter(|merge| merge.frontier == frontier);
        let is_of_merge = merge.is_some();
        if let Some(merge) = merge {
            merge.in_flight += 1;
        }
        is_of_merge
    }

    /// Notes that a program unit of the merge has completed.
    pub(super) fn note_programmed(&mut self) {
        self.merge.as_mut().expect("a merge waits for its programs").in_flight -= 1;
    }
}

/// Units to be copied that one sense reads.
#[derive(Clone, Copy, Debug)]
struct Source {
    sense: u32,
    unit: PhysicalUnit,
    units: u32,
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Makes the sequential log block the data block of its logical block: as it is if it is full (switch
    /// merge), else with copies of the units that it lacks (partial merge).
    pub(in crate::ftl) fn end_sequence(&mut self, context: &mut Context<'_>) {
        self.log().merges.ends_sequence = true;
        self.continue_merges(context);
    }

    /// Reclaims the oldest random log block: a full merge for each logical block that has valid units in it.
    pub(super) fn reclaim_oldest_log(&mut self, context: &mut Context<'_>) {
        let block = self.log().logs[0];
        let (first, per_block) = (self.geometry.first_unit(block), self.geometry.units_per_block());
        // Newer data of the sequence for units of this log block may be in RAM only, so the sequence is merged
        // first.
        if let Some(sequence) = self.log().sequence {
            let mut held = (first.0..first.0 + per_block)
                .filter_map(|it| self.blocks.table().logical_at(PhysicalUnit(it)));
            let is_held = held.any(|unit| unit.0 / per_block == sequence.logical_block);
            self.log().merges.ends_sequence |= is_held;
        }
        self.log().merges.reclaim = Some(Reclaim { block, next: first.0 });
        self.continue_merges(context);
    }

    /// Continues merges, one after the other, until something has to be waited for.
    pub(super) fn continue_merges(&mut self, context: &mut Context<'_>) {
        loop {
            let merges = &mut self.log().merges;
            if let Some(merge) = merges.merge {
                if merge.in_flight > 0 {
                    return;
                }
                if !self.merge_row(context, merge) {
                    self.finish_merge(context, merge);
                }
            } else if std::mem::take(&mut merges.ends_sequence) {
                self.begin_merge_of_sequence(context);
            } else if let Some(reclaim) = merges.reclaim {
                if !self.begin_next_full_merge(context, reclaim) {
                    return;
                }
            } else {
                return;
            }
        }
    }

    fn begin_merge_of_sequence(&mut self, context: &mut Context<'_>) {
        if self.log().sequence.is_some() {
            self.write_to(LogFrontier::Sequence);
            if self.placement.is_partial() && self.placement.free_units() == 0 {
                // The program unit was held back for the rest of its last unit.
                self.seal_host_program(context);
            }
        }
        let Some(Sequence { logical_block, block, next }) = self.log().sequence else { return };
        match next == self.units_of_logical_block(logical_block) {
            true => self.counters.switch_merges += 1,
            false => self.counters.partial_merges += 1,
        }
        self.begin_merge(logical_block, block, next, LogFrontier::Sequence);
    }

    /// Begins the next full merge of a log block that is being reclaimed, or, if no unit of the log block is
    /// valid any more, queues it for its erase. Returns false if the merge waits for an erased block.
    fn begin_next_full_merge(
        &mut self,
        context: &mut Context<'_>,
        Reclaim { block, next }: Reclaim,
    ) -> bool {
        let end = self.geometry.first_unit(block).0 + self.geometry.units_per_block();
        let mut units = (next..end).map(|place| {
            (PhysicalUnit(place), self.blocks.table().logical_at(PhysicalUnit(place)))
        });
        let valid = units.find_map(|(place, unit)| {
            unit.filter(|&unit| self.map.is_mapped_to(unit, place)).map(|unit| (place, unit))
        });
        let Some((place, unit)) = valid else {
            self.log().merges.reclaim = None;
            self.log().logs.pop_front();
            self.replace(context.nand, block);
            return true;
        };
        self.log().merges.reclaim = Some(Reclaim { block, next: place.0 });
        let Some(to) = self.take_block(context.nand) else { return false };
        self.counters.full_merges += 1;
        let logical = unit.0 / self.geometry.units_per_block();
        self.begin_merge(logical, to, 0, LogFrontier::Merged);
        true
    }

    fn begin_merge(
        &mut self,
        logical_block: u32,
        block: BlockIndex,
        next: u32,
        frontier: LogFrontier,
    ) {
        let first = logical_block * self.geometry.units_per_block();
        let is_mapped = |&offset: &u32| self.map.get(LogicalUnit(first + offset)).is_some();
        let last = (next..self.units_of_logical_block(logical_block)).rev().find(is_mapped);
        let until = last.map_or(next, |last| last + 1);
        let merge = Merge { logical_block, block, next, until, frontier, in_flight: 0 };
        self.log().merges.merge = Some(merge);
    }

    /// Copies the next row of a merge to its places, the first units into the rest of a program unit that the
    /// host has begun. Returns false if no row is left.
    fn merge_row(&mut self, context: &mut Context<'_>, merge: Merge) -> bool {
        let units = self.geometry.units_per_program();
        let row = units * self.geometry.stripe();
        self.write_to(merge.frontier);
        let is_begun = self.placement.is_partial();
        if merge.next >= merge.until && !is_begun {
            return false;
        }
        let mut next = merge.next;
        // The rest of the row that is begun, at least one program unit.
        let row_end = (next / row + 1) * row;
        while self.placement.is_partial() || next < merge.until.min(row_end) {
            next = self.merge_program_unit(context, Merge { next, ..merge });
        }
        let merge = self.log().merges.merge.as_mut().expect("it is under way");
        merge.next = next;
        true
    }

    /// Copies the units that fill the next program unit of a merge; returns the offset behind it.
    fn merge_program_unit(&mut self, context: &mut Context<'_>, merge: Merge) -> u32 {
        let Merge { logical_block, block, next, until, .. } = merge;
        let units = self.geometry.units_per_program();
        if self.placement.free_units() == 0 {
            self.placement.begin_in(&self.blocks, &self.geometry, block, next / units);
        }
        let first = logical_block * self.geometry.units_per_block();
        let end = (next / units + 1) * units;
        let (mut padding, mut source) = (0, None);
        for offset in next..end {
            let (unit, to) = (LogicalUnit(first + offset), self.placement.append());
            let from = if offset < until { self.map.get(unit) } else { None };
            match from {
                Some(from) => {
                    source = self.read_for_log_merge(context, from, source);
                    self.move_to(unit, from, to);
                }
                None => {
                    self.blocks.table_mut().note_padding(to, block);
                    padding += 1;
                }
            }
        }
        self.load_for_log_merge(context, source);
        self.seal(context, padding, end - next - padding);
        end
    }

    /// Adds the page of `from` to the reads for the program unit being filled, unless its data is in RAM. Pages
    /// that are sensed together are read at once.
    fn read_for_log_merge(
        &mut self,
        context: &mut Context<'_>,
        from: PhysicalUnit,
        source: Option<Source>,
    ) -> Option<Source> {
        if self.placement.is_buffered(from, &self.geometry) {
            return source;
        }
        let sense = self.geometry.sense_of(from);
        match source {
            Some(source) if source.sense == sense => {
                Some(Source { units: source.units + 1, ..source })
            }
            _ => {
                self.load_for_log_merge(context, source);
                Some(Source { sense, unit: from, units: 1 })
            }
        }
    }

    /// Reads a source of the program unit being filled, which waits for the read.
    fn load_for_log_merge(&mut self, context: &mut Context<'_>, source: Option<Source>) {
        let Some(Source { unit, units, .. }) = source else { return };
        self.counters.flash_page_reads_collection += 1;
        self.counters.flash_reads_collection += 1;
        self.placement.await_more();
        let tag = Tag(kind::HOST_PROGRAM_READ | self.placement.latest() as u32 & kind::NUMBER);
        let sense = self.page_read_of(unit);
        context.nand.load_page(tag, Page { unit, units, sense }, false);
    }

    fn move_to(&mut self, unit: LogicalUnit, from: PhysicalUnit, to: PhysicalUnit) {
        self.blocks.table_mut().note_written(to, unit);
        self.media.copy(from, to);
        self.map.relocate(unit, to);
        if self.blocks.table_mut().invalidate_unit(self.geometry.block_of(from)) {
            self.discard_unsent(from);
        }
    }

    /// Ends a merge whose copies are programmed: its block becomes the data block of the logical block.
    fn finish_merge(&mut self, context: &mut Context<'_>, merge: Merge) {
        let Merge { logical_block, block, next, frontier, .. } = merge;
        self.log().merges.merge = None;
        if self.blocks.table().state(block) == BlockState::OpenForHost {
            self.placement.give_up_blocks();
            let written = next.next_multiple_of(self.geometry.units_per_program());
            let first = self.geometry.first_unit(block).0;
            for offset in written..self.geometry.units_per_block() {
                self.blocks.table_mut().note_padding(PhysicalUnit(first + offset), block);
            }
            self.blocks.table_mut().close(block, BlockState::Closed);
        }
        let log = self.log();
        if frontier == LogFrontier::Sequence {
            log.sequence = None;
        }
        if let Some(old) = log.data[logical_block as usize].replace(block) {
            self.replace(context.nand, old);
        }
    }
}
