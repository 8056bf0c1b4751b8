//! Turning a drive off properly: all work ends, and what RAM held for convenience is forgotten.

use ssdlab_nand::{Nand, Tag};

use super::host::Host;
use super::wrappers::{LATEST, Nobody};
use super::{Context, Ftl, Ssd, kind};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::Instant;

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Ends all work, as a host does that turns the drive off properly: what the buffer holds is
    /// programmed, the block under collection is emptied and erased, and of a map on flash all that RAM
    /// has changed is written. Returns when that is so; the drive can be used on from there. What it
    /// kept in RAM for its own convenience (read-ahead, map pages, page registers) begins anew, as after
    /// power-on.
    ///
    /// # Panics
    /// When a request is under way.
    pub fn shut_down(&mut self, at: Instant) -> Instant {
        let at = at.max(self.now());
        self.nand.set_alarm(at, Tag(kind::IDLE));
        self.run_until(at, &mut Nobody);
        loop {
            let context = &mut Context { nand: &mut self.nand, host: &mut Nobody };
            self.ftl.end_all_work(context);
            if self.nand.is_idle() {
                break;
            }
            self.run_until(LATEST, &mut Nobody);
        }
        // The flash does nothing; its page registers are empty after power-on.
        self.nand.cut_power();
        self.ftl.forget_what_is_volatile();
        self.now()
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Announces all that has to be done before the drive can be turned off. That may bring about
    /// more, which is announced by another call when this is done.
    fn end_all_work<H: Host>(&mut self, context: &mut Context<'_, H>) {
        match self.log_blocks.is_some() {
            true => self.end_log(context),
            false => self.pad_host_program(context),
        }
        while self.choose_begun_stream() {
            self.pad_program_unit(context);
        }
        self.make_trims_durable(context.nand);
        self.complete_victim(context);
        if self.collector.stream.is_partial() {
            self.pad_collection_program(context.nand);
        }
        self.erase_what_is_safe(context.nand);
        self.write_whole_map(context.nand);
        for page in self.metadata.number_journal_pages() {
            self.program_journal_page(context.nand, page);
        }
    }

    /// Writes all of a map on flash that differs from it, and ends the map's collection. Nothing for a map in RAM.
    fn write_whole_map(&mut self, nand: &mut Nand) {
        if self.map.cache().is_none() {
            return;
        }
        self.end_map_batch();
        while self.write_moved_map_page(nand) {}
        // With none left to write, none is owed with each step of collection.
        self.end_map_batch();
        self.write_changed_map_pages(nand);
        self.complete_map_victim(nand);
        self.pad_map_program(nand);
    }

    /// What a drive knows after power-on is what it has on flash.
    fn forget_what_is_volatile(&mut self) {
        self.collector.forget_copies();
        self.reads.begin_anew();
        self.rest.begin_anew();
        if let Some(thermal) = &mut self.thermal {
            thermal.cool_down();
        }
        self.map.forget_what_is_volatile();
        self.blocks.flash_mut().begin_draws_anew();
        if let Some(marks) = &mut self.trim_marks {
            marks.forget();
        }
        if let Some(streams) = &mut self.streams {
            streams.forget_hint();
        }
    }
}
