//! Copies of garbage collection: moving valid units from a victim's program unit to the stream of copies.
//!
//! A CPU cannot predict which units are still valid. So the units that one read senses are processed without a
//! branch for each, and the program units that they fill are finished afterwards.

use std::hint::select_unpredictable;
use std::ops::Range;

use ssdlab_nand::{Nand, Page, ProgramUnit};

use super::{Context, Ftl};
use crate::block_table::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{BlockIndex, PhysicalUnit};

/// Number of units by which collection prefetches a map entry ahead of its use.
pub(super) const PREFETCH_UNITS: u32 = 24;

/// Number of entries of the reverse map in one line of the CPU cache.
const ENTRIES_PER_LINE: usize = 16;

/// Number of units that are processed together, by a loop of constant length.
const BATCH_UNITS: usize = 8;

/// Number of units that are processed together if fewer than `BATCH_UNITS` are left. They lie on one page.
const HALF_BATCH_UNITS: usize = BATCH_UNITS / 2;

/// Counter of the flash pages that units are moved from. Pages are visited in their order.
pub(super) struct MovedPages {
    latest: u32,
    count: u32,
}

impl MovedPages {
    /// No page so far; no page has the largest number.
    pub(super) const NONE: MovedPages = MovedPages { latest: u32::MAX, count: 0 };

    /// Counts `page` if a unit of it is moved and it is not counted yet.
    #[inline(always)]
    pub(super) fn note(&mut self, page: u32, is_moved: bool) {
        self.count += u32::from(is_moved & (page != self.latest));
        self.latest = if is_moved { page } else { self.latest };
    }

    /// Returns the number of pages.
    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Moves the valid units in program unit `program` of `block`, a victim; returns their number.
    pub(super) fn move_program_unit(
        &mut self,
        context: &mut Context<'_>,
        block: BlockIndex,
        program: u32,
    ) -> u32 {
        if self.collector.copies_to_host {
            return self.move_to_host_block(context, block, program);
        }
        let units = self.geometry.units_per_program();
        let first = self.geometry.first_unit(block).0 + program * units;
        let per_sense = self.geometry.units_per_sense_shift();
        let (end, mut next, mut moved) = (first + units, first, 0);
        while next < end {
            let sensed_until = match self.collector.reads_word_lines {
                true => end,
                false => ((next >> per_sense) + 1) << per_sense,
            };
            let until = self.make_space_for_copies(context, next..sensed_until);
            moved += self.move_sensed_together(context.nand, next, until - next);
            next = until;
        }
        moved
    }

    /// Moves the valid units among `units` units from `first`, which one read senses (page by page if the read
    /// is of a whole word line). Returns their number.
    #[inline(always)]
    fn move_sensed_together(&mut self, nand: &mut Nand, first: u32, units: u32) -> u32 {
        let block_table = self.blocks.table();
        let ahead = block_table.reverse_entries(PhysicalUnit(first + PREFETCH_UNITS), units);
        if let Ok(ahead) = <&[u32; BATCH_UNITS]>::try_from(ahead) {
            ahead.iter().for_each(|&entry| self.map.prefetch_reverse_entry(entry));
        } else {
            ahead.iter().for_each(|&entry| self.map.prefetch_reverse_entry(entry));
        }
        block_table.prefetch_reverse_entry(PhysicalUnit(first + 3 * PREFETCH_UNITS));
        let end = first + units;
        let mut places = self.collector.places_ahead(&self.geometry);
        block_table.prefetch_reverse_entry(PhysicalUnit(places.start + 2 * PREFETCH_UNITS));
        self.collector.copies.begin_read();
        let (mut next, mut moved, mut pages) = (first, 0, MovedPages::NONE);
        loop {
            let count;
            (next, count) = self.relocate(next..end, places, &mut pages);
            self.take_places(nand, count);
            moved += count;
            if next == end {
                break;
            }
            places = self.places_for(nand, &mut next, end);
        }
        self.counters.flash_page_reads_collection += u64::from(pages.count);
        if moved > 0 {
            self.counters.flash_reads_collection += 1;
            let [to, and_to] = self.collector.copies.of_read();
            let unit = PhysicalUnit(first);
            let senses = self.senses_of(pages.count);
            let sense = self.page_reads_of(unit, senses) + self.collector.read_overhead;
            let page = Page { unit, units: moved, sense };
            nand.copy(page, to.expect("a unit was moved"), and_to);
        }
        self.complete_full_copies(nand);
        moved
    }

    /// Prefetches the map entries that the first copies from `victim` will touch, and the reverse map of the victim
    /// that rotation will choose next. Copying prefetches only units further on in the same block.
    pub(super) fn prefetch_for_victim(&self, victim: BlockIndex) {
        let block_table = self.blocks.table();
        let units = self.geometry.units_per_block();
        let first = self.geometry.first_unit(victim);
        let entries = block_table.reverse_entries(first, PREFETCH_UNITS.min(units));
        entries.iter().for_each(|&entry| self.map.prefetch_reverse_entry(entry));
        if let Some(next) = block_table.next_victim_in_rotation() {
            block_table.prefetch_block(next);
            let first = self.geometry.first_unit(next).0;
            for ahead in (0..units.min(3 * PREFETCH_UNITS)).step_by(ENTRIES_PER_LINE) {
                block_table.prefetch_reverse_entry(PhysicalUnit(first + ahead));
            }
        }
    }

    /// Returns the number of senses of a read for copies, if `pages` of its pages hold valid units.
    #[inline(always)]
    pub(super) fn senses_of(&self, pages: u32) -> u32 {
        match self.collector.reads_word_lines {
            true => pages.div_ceil(self.geometry.pages_per_sense()).max(1),
            false => 1,
        }
    }

    #[inline(always)]
    fn complete_full_copies(&mut self, nand: &mut Nand) {
        for copies in self.collector.copies.take_full().into_iter().flatten() {
            if !self.reserve.holds(copies) {
                nand.complete_copies(copies);
            }
        }
    }

    /// Moves the valid units in `from` to the places `to`, as far as those suffice. Returns the first unit that
    /// was not looked at, and the number of units moved. Counts the pages of the moved units.
    #[inline(always)]
    fn relocate(&mut self, from: Range<u32>, to: Range<u32>, pages: &mut MovedPages) -> (u32, u32) {
        let reverse_map = self.blocks.table_mut().reverse_map_mut();
        let (map, media) = (&mut self.map, &mut self.media);
        let (mut next, mut place) = (from.start, to.start);
        let fits = |next, place, units| from.end - next >= units && to.end - place >= units;
        if self.geometry.units_per_page() >= HALF_BATCH_UNITS as u32
            && next.is_multiple_of(HALF_BATCH_UNITS as u32)
        {
            while fits(next, place, BATCH_UNITS as u32) {
                let (few, count) =
                    relocate_batch::<BATCH_UNITS, _, _>(map, media, reverse_map, next, place);
                pages.note(self.geometry.page_of(PhysicalUnit(next)), few > 0);
                let rest = PhysicalUnit(next + HALF_BATCH_UNITS as u32);
                pages.note(self.geometry.page_of(rest), count > few);
                place += count;
                next += BATCH_UNITS as u32;
            }
            if fits(next, place, HALF_BATCH_UNITS as u32) {
                let (_, count) =
                    relocate_batch::<HALF_BATCH_UNITS, _, _>(map, media, reverse_map, next, place);
                pages.note(self.geometry.page_of(PhysicalUnit(next)), count > 0);
                place += count;
                next += HALF_BATCH_UNITS as u32;
            }
        }
        while next < from.end && place < to.end {
            let unit = reverse_map[next as usize];
            let is_moved = map.relocate_if_mapped(unit, PhysicalUnit(next), PhysicalUnit(place));
            if is_moved {
                reverse_map[place as usize] = unit;
                media.copy(PhysicalUnit(next), PhysicalUnit(place));
                place += 1;
            }
            pages.note(self.geometry.page_of(PhysicalUnit(next)), is_moved);
            next += 1;
        }
        (next, place - to.start)
    }

    /// Returns the next places of the stream of copies, when those in its open blocks are used up. A block is
    /// taken from the pool only if there is a unit to move: `next` advances to that unit, or to `end`.
    #[inline(never)]
    fn places_for(&mut self, nand: &mut Nand, next: &mut u32, end: u32) -> Range<u32> {
        let places = self.collector.places_ahead(&self.geometry);
        if !places.is_empty() {
            return places;
        }
        let is_valid = |&physical: &u32| self.blocks.is_valid(&self.map, PhysicalUnit(physical));
        *next = (*next..end).find(is_valid).unwrap_or(end);
        if *next < end {
            if self.collector.takes_from_host {
                self.take_host_blocks();
            }
            self.begin_collection_program(nand);
        }
        self.collector.places_ahead(&self.geometry)
    }

    /// Takes the next `units` places of the stream of copies, and finishes the program units that are full with
    /// them.
    #[inline(always)]
    fn take_places(&mut self, nand: &mut Nand, units: u32) {
        let mut left = units;
        while left > 0 {
            if self.collector.frontier.free_units() == 0 {
                self.begin_collection_program(nand);
            }
            let count = left.min(self.collector.frontier.free_units());
            self.collector.frontier.append_run(count);
            left -= count;
            if self.collector.frontier.free_units() == 0 {
                self.finish_collection_program(0);
            }
        }
    }

    /// Makes sure that the valid units in `sensed` can be copied, or at least the first of them. Returns the
    /// end of those that can. This must not be done during the copying: programs that wait for their read
    /// cannot be carried out.
    #[inline(always)]
    fn make_space_for_copies(&mut self, context: &mut Context<'_>, sensed: Range<u32>) -> u32 {
        let units = sensed.end - sensed.start;
        let is_short = match self.placement.is_static() {
            true => self.is_group_of_copies_short(units),
            false => {
                self.blocks.free() == 0
                    && !self.collector.can_take(units)
                    && self.collector.reclaimed() > 0
            }
        };
        if is_short { self.make_space_by_erase(context, sensed) } else { sensed.end }
    }

    /// Makes room if only the blocks reclaimed last are left to copy to, whose erases wait until their copies
    /// are durable. The program unit that has to be filled for that is filled with copies: units that stay
    /// empty would have to be collected, too. Returns the end of the units that can be copied.
    #[inline(never)]
    fn make_space_by_erase(&mut self, context: &mut Context<'_>, sensed: Range<u32>) -> u32 {
        if self.collector.frontier.free_units() == 0 {
            self.free_oldest_reclaimed(context);
            while self.placement.is_static()
                && self.is_group_of_copies_short(sensed.end - sensed.start)
            {
                self.free_oldest_reclaimed(context);
            }
            return sensed.end;
        }
        let is_valid = |physical: &u32| self.blocks.is_valid(&self.map, PhysicalUnit(*physical));
        let beyond = self.collector.frontier.free_units() as usize;
        sensed.clone().filter(is_valid).nth(beyond).unwrap_or(sensed.end)
    }

    #[inline(always)]
    fn begin_collection_program(&mut self, nand: &mut Nand) {
        let (frontier, units) = (&mut self.collector.frontier, self.geometry.units_per_block());
        let state = BlockState::OpenForCollection;
        if let Some(block) = self.blocks.begin_program(frontier, &self.geometry, state, units) {
            self.note_block_begun(nand, block, false);
        }
        let unit = self.collector.frontier.program_start();
        let number = nand.begin_copies(ProgramUnit {
            unit,
            units: self.geometry.units_per_program(),
            program: self.timing.program,
            after: self
                .blocks
                .erase_before(self.geometry.block_of(unit), self.geometry.die_of(unit)),
        });
        self.collector.copies.begin(number, unit);
        self.hold_copies_for_reserve(nand, number);
    }

    /// Finishes the program unit of copies, which is full: it goes to its die when its data was read. `padding`
    /// of its units are empty.
    #[inline(always)]
    fn finish_collection_program(&mut self, padding: u32) {
        let filled = self.collector.frontier.finish_program(&self.geometry);
        let units = self.geometry.units_per_program();
        self.counters.program_units_collection += u64::from(units - padding);
        self.counters.program_units_padding += u64::from(padding);
        self.counters.programs += 1;
        let number = self.placement.next_number();
        let first = self.collector.copies.fill(units - padding, number);
        let spare = self.blocks.table().spare_area(first, units);
        self.media.begin_program(first, spare, number);
        if filled.closes {
            self.blocks.table_mut().close(filled.block, BlockState::Closed);
        }
    }

    /// Pads the program unit being filled with copies, and finishes it.
    pub(super) fn pad_collection_program(&mut self, nand: &mut Nand) {
        let padding = self.collector.frontier.free_units();
        for _ in 0..padding {
            let physical = self.collector.frontier.append();
            let block = self.geometry.block_of(physical);
            self.blocks.table_mut().note_padding(physical, block);
        }
        self.collector.copies.begin_read();
        self.finish_collection_program(padding);
        self.complete_full_copies(nand);
    }
}

/// Moves the valid units among `UNITS` units from `from` to the places from `to` on, of which there are as
/// many. Returns the number of units moved of the first [`HALF_BATCH_UNITS`], and of all.
#[inline(always)]
fn relocate_batch<const UNITS: usize, M: Mapping, D: Media>(
    map: &mut M,
    media: &mut D,
    reverse_map: &mut [u32],
    from: u32,
    to: u32,
) -> (u32, u32) {
    let units: [u32; UNITS] = *reverse_map[from as usize..].first_chunk().expect("they lie there");
    let places: &mut [u32; UNITS] =
        reverse_map[to as usize..].first_chunk_mut().expect("they have places");
    let (mut few, mut count) = (0, 0);
    for (index, unit) in units.into_iter().enumerate() {
        if index == HALF_BATCH_UNITS {
            few = count;
        }
        let (from, place) = (PhysicalUnit(from + index as u32), PhysicalUnit(to + count));
        // The place is filled first, and kept if the unit turns out to be valid.
        places[count as usize % UNITS] = unit;
        let is_moved = map.relocate_if_mapped(unit, from, place);
        if is_moved {
            media.copy(from, place);
        }
        count += u32::from(is_moved);
    }
    // Without a branch, since the count cannot be predicted: clears the place behind the last unit kept. If all
    // were kept, the last place stays as it is.
    let last = (count as usize).min(UNITS - 1);
    places[last] = select_unpredictable(count < UNITS as u32, 0, places[last]);
    (few, count)
}
