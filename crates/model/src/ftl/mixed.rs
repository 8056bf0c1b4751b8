//! Copies in the host's open block: host writes and gc copies share one write frontier.
//!
//! A copy takes the next place of the host's program unit, like a unit that the host writes. The program unit
//! is sent when it is full and all its copies have been read. So blocks hold data that was written and data
//! that was copied at about the same time: data of different ages lies together.
//!
//! Copies take slots of the write buffer as well, so that no more data waits for the dies than without copies.
//!
//! The host begins a program unit only while collection has its reserve: its data could fill the last place
//! that there is for copies.

use std::ops::Range;

use ssdlab_nand::{Nand, Page, Tag};

use super::relocation::{MovedPages, PREFETCH_UNITS};
use super::{Context, Ftl, kind};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::{BlockIndex, PhysicalUnit};

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Moves the valid units in program unit `program` of `block`, a victim, to the host's open block; returns
    /// their number.
    pub(super) fn move_to_host_block(
        &mut self,
        context: &mut Context<'_>,
        block: BlockIndex,
        program: u32,
    ) -> u32 {
        let units = self.geometry.units_per_program();
        let first = self.geometry.first_unit(block).0 + program * units;
        let per_sense = self.geometry.units_per_sense_shift();
        let (end, mut next, mut moved) = (first + units, first, 0);
        while next < end {
            let sensed_until = match self.collector.reads_word_lines {
                true => end,
                false => (((next >> per_sense) + 1) << per_sense).min(end),
            };
            moved += self.move_sensed_to_host_block(context, next..sensed_until);
            next = sensed_until;
        }
        moved
    }

    /// Moves the valid units in `sensed`, which one read senses; returns their number.
    fn move_sensed_to_host_block(&mut self, context: &mut Context<'_>, sensed: Range<u32>) -> u32 {
        self.prefetch_for_copies(&sensed);
        let mut pages = MovedPages::NONE;
        // Of the units moved, `here` are in the program unit being filled.
        let (mut moved, mut here, mut last) = (0, 0, PhysicalUnit(sensed.start));
        let mut sensed_pages = 0;
        for from in sensed.map(PhysicalUnit) {
            if !self.blocks.is_valid(&self.map, from) {
                continue;
            }
            if self.placement.free_units() == 0 {
                self.begin_program_for_copies(context);
            }
            pages.note(self.geometry.page_of(from), true);
            let to = self.placement.append();
            let reverse_map = self.blocks.table_mut().reverse_map_mut();
            let unit = reverse_map[from.0 as usize];
            reverse_map[to.0 as usize] = unit;
            self.map.relocate_if_mapped(unit, from, to);
            self.media.copy(from, to);
            (moved, here) = (moved + 1, here + 1);
            if self.placement.free_units() == 0 {
                let senses = self.senses_of(pages.count() - sensed_pages);
                sensed_pages = pages.count();
                self.read_copies(context.nand, from, here, senses, moved > here);
                here = 0;
                self.seal_host_program(context);
            }
            last = from;
        }
        if here > 0 {
            let senses = self.senses_of(pages.count() - sensed_pages);
            self.read_copies(context.nand, last, here, senses, moved > here);
        }
        self.counters.flash_page_reads_collection += u64::from(pages.count());
        self.counters.flash_reads_collection += u64::from(moved > 0);
        moved
    }

    /// Reads `units` copies, one of which lies at `from`, by `senses` senses for the program unit being filled,
    /// which waits for them. `is_sensed` says that the read before has sensed them.
    fn read_copies(
        &mut self,
        nand: &mut Nand,
        from: PhysicalUnit,
        units: u32,
        senses: u32,
        is_sensed: bool,
    ) {
        self.placement.await_copies(units);
        let tag = Tag(kind::HOST_PROGRAM_READ | self.placement.latest() as u32 & kind::NUMBER);
        let sense = self.page_reads_of(from, senses) + self.collector.read_overhead;
        let page = Page { unit: from, units, sense };
        if is_sensed {
            nand.load_page_with_last(tag, page);
        } else {
            nand.load_page(tag, page, false);
        }
    }

    /// Makes sure that collection has its reserve, and begins a host program unit, unless copies have begun one
    /// meanwhile.
    pub(super) fn begin_beside_copies(&mut self, context: &mut Context<'_>) {
        self.ensure_free_blocks(context, self.collector.reserve);
        if self.placement.free_units() == 0 {
            self.begin_in_shared_block(context.nand);
        }
    }

    /// Begins a program unit for copies, in a reclaimed block if no other block is left.
    fn begin_program_for_copies(&mut self, context: &mut Context<'_>) {
        if self.placement.is_partial() {
            // The program unit was held back for the rest of its last unit.
            self.seal_host_program(context);
        }
        let is_short = self.blocks.free() == 0 && !self.placement.frontier().can_take(1);
        if is_short && self.collector.reclaimed() > 0 {
            self.free_oldest_reclaimed(context);
        }
        self.begin_in_shared_block(context.nand);
    }

    fn begin_in_shared_block(&mut self, nand: &Nand) {
        let units = self.geometry.units_per_block();
        if let Some(block) = self.placement.begin(&mut self.blocks, &self.geometry, units) {
            self.note_block_begun(nand, block, true);
            self.hold_block_for_reserve(block);
        }
        self.hold_program_for_reserve();
    }

    /// Returns true if all copies from the oldest reclaimed block that is not yet free lie in full program
    /// units.
    pub(super) fn is_oldest_reclaimed_copied(&self) -> bool {
        if !self.collector.copies_to_host {
            return self.collector.is_oldest_reclaimed_copied();
        }
        let is_in = |number| {
            self.placement.is_partial() && number == self.placement.numbers_in_flight().end
        };
        self.collector.oldest_reclaimed().is_some_and(|it| !is_in(it.host))
    }

    /// Prefetches the map entries that the next copies will touch.
    #[inline(always)]
    fn prefetch_for_copies(&self, sensed: &Range<u32>) {
        let block_table = self.blocks.table();
        let units = sensed.end - sensed.start;
        let ahead = block_table.reverse_entries(PhysicalUnit(sensed.start + PREFETCH_UNITS), units);
        ahead.iter().for_each(|&entry| self.map.prefetch_reverse_entry(entry));
        block_table.prefetch_reverse_entry(PhysicalUnit(sensed.start + 3 * PREFETCH_UNITS));
    }
}

#[cfg(test)]
mod tests {
    use crate::ftl::Ssd;
    use crate::ssd::tests::{self, small_configuration};
    use crate::units::BlockIndex;

    /// Fills a drive, then writes a share of it at random, with a policy that collects cold data, too.
    fn worn(copies: &str, share: f64) -> Ssd {
        let changes = [
            ("collection.copies", copies),
            ("collection.low_water", "3"),
            ("collection.policy", "d-choices"),
            ("collection.choices", "2"),
        ];
        let ssd = Ssd::new(&small_configuration(&changes)).expect("a sound drive");
        let area = (f64::from(ssd.geometry().logical_units()) * share) as u32;
        tests::worn(ssd, area)
    }

    #[test]
    fn copies_take_no_block_of_their_own_and_cost_the_same_where_all_data_is_alike() {
        let [own, mixed] = ["own-block", "host-block"].map(|copies| worn(copies, 1.0));
        let opened = |ssd: &Ssd| {
            let block_table = ssd.ftl.blocks.table();
            let blocks = (0..ssd.geometry().blocks()).map(BlockIndex);
            blocks.filter(|&it| block_table.opened(it).by_collection).count()
        };
        assert!(opened(&own) > 0 && opened(&mixed) == 0);
        let amplification = |ssd: &Ssd| ssd.counters().write_amplification().expect("writes");
        let (own, mixed) = (amplification(&own), amplification(&mixed));
        assert!((mixed / own - 1.0).abs() < 0.05, "{mixed} and {own}");
    }

    #[test]
    fn cold_data_that_lies_among_hot_is_copied_with_it() {
        let [own, mixed] = ["own-block", "host-block"].map(|copies| worn(copies, 0.1));
        let copied = |ssd: &Ssd| ssd.counters().program_units_collection;
        assert!(copied(&mixed) as f64 > 1.1 * copied(&own) as f64);
    }
}
