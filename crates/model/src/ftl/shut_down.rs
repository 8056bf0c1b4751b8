//! Shutdown: all work in flight is completed, and volatile state is dropped.

use ssdlab_nand::{Nand, Tag};

use super::wrappers::{LATEST, NoHost};
use super::{Context, Ftl, Ssd, kind};
use crate::mapping::Mapping;
use crate::media::Media;
use crate::units::Instant;

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Shuts the drive down, as a host does that turns it off properly: the contents of the buffer are
    /// programmed, the block under collection is emptied and erased, and of a map on flash all that RAM has
    /// changed is written. Returns the moment at which this is done; the drive can be used on from there. State
    /// in RAM that only saves time (read-ahead, map pages, page registers) begins anew, as after power-on.
    ///
    /// # Panics
    /// Panics if a request is in flight.
    pub fn shut_down(&mut self, at: Instant) -> Instant {
        let at = at.max(self.now());
        self.nand.set_alarm(at, Tag(kind::IDLE));
        self.run_until(at, &mut NoHost);
        loop {
            let context = &mut Context { nand: &mut self.nand, host: &mut NoHost };
            self.ftl.complete_all_work(context);
            if self.nand.is_idle() {
                break;
            }
            self.run_until(LATEST, &mut NoHost);
        }
        // The flash is idle; this empties its page registers, as after power-on.
        self.nand.cut_power();
        self.ftl.clear_volatile_state();
        self.now()
    }
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Enqueues the work that has to be done before the drive can be turned off. That work may bring about
    /// more, which another call enqueues when it is done.
    fn complete_all_work(&mut self, context: &mut Context<'_>) {
        match self.log_blocks.is_some() {
            true => self.end_log(context),
            false => self.pad_host_program(context),
        }
        while self.choose_begun_stream() {
            self.pad_program_unit(context);
        }
        self.make_trims_durable(context.nand);
        self.complete_victim(context);
        if self.collector.frontier.is_partial() {
            self.pad_collection_program(context.nand);
        }
        self.issue_safe_erases(context.nand);
        self.write_whole_map(context.nand);
        for page in self.metadata.number_journal_pages() {
            self.program_journal_page(context.nand, page);
        }
    }

    /// Writes all pages of a map on flash that differ from it, and ends the collection of the map area. Does
    /// nothing for a map in RAM.
    fn write_whole_map(&mut self, nand: &mut Nand) {
        if self.map.cache().is_none() {
            return;
        }
        self.end_map_batch();
        while self.write_moved_map_page(nand) {}
        // No page is left to write, so no page is due with each step of collection any more.
        self.end_map_batch();
        self.write_changed_map_pages(nand);
        self.complete_map_victim(nand);
        self.pad_map_program(nand);
    }

    /// Drops volatile state: after power-on a drive knows only what it has on flash.
    fn clear_volatile_state(&mut self) {
        self.collector.reset_copies();
        self.reads.reset();
        self.idle_time.reset();
        if let Some(thermal) = &mut self.thermal {
            thermal.cool_down();
        }
        self.map.clear_volatile_state();
        self.blocks.table_mut().reseed();
        if let Some(deferred) = &mut self.deferred_trims {
            deferred.clear();
        }
        if let Some(streams) = &mut self.streams {
            streams.forget_hint();
        }
    }
}
