//! Turning off a drive whose map lies on flash: what RAM has changed of the map is written, and the
//! block of the map under collection is emptied, so that flash says where everything lies.

use crate::mapping::Mapping;
use crate::media::Media;
use crate::ssd::Ssd;
use crate::units::{DieIndex, Instant};

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Writes all that differs from the flash, from `at` on, and ends the map's collection. Nothing
    /// for a map in RAM.
    pub(crate) fn finish_map(&mut self, at: Instant) {
        if self.map.cache().is_none() {
            return;
        }
        self.leave_in_time();
        for die in 0..self.geometry.dies() {
            self.book_later_reads(DieIndex(die), Instant::from_nanos(u64::MAX));
        }
        self.note_acted(at);
        self.end_map_batch();
        while self.write_moved_map_page(at) {}
        // With none left to write, none is owed with each step of collection.
        self.end_map_batch();
        for page in self.cache().dirty_pages() {
            // Collecting the map may have written it meanwhile.
            if self.cache().is_dirty(page) {
                let there = self.cache().clean(page).expect("what is dirty is in RAM");
                let ready = self.there_at(there);
                self.write_map_page(page, at, ready);
                self.collect_map(at);
            }
        }
        while !self.cache().area.finish_victim_if_empty() {
            self.move_map_page(at);
        }
        self.pad_map_program();
        while !self.cache().area.emptied.is_empty() {
            let emptied = self.cache().area.emptied.len();
            self.erase_map_blocks(at, true);
            assert!(self.cache().area.emptied.len() < emptied, "all that was moved is programmed");
        }
    }

    fn pad_map_program(&mut self) {
        let area = &mut self.cache().area;
        if !area.stream.is_partial() {
            return;
        }
        let padding = area.stream.room();
        for _ in 0..padding {
            let place = area.stream.append();
            area.flash.note_padding(place, area.geometry.block_of(place));
        }
        self.program_map(padding);
    }

    /// Blocks of the map whose last program is over at `at` can be collected.
    pub(crate) fn release_map(&mut self, at: Instant) {
        let Some(cache) = self.map.cache() else { return };
        cache.area.release(at, &mut self.resources.dies);
    }
}
