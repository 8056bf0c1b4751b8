//! Turning a drive off properly: all work ends, and what RAM held for convenience is forgotten.

use crate::buffer::WriteBuffer;
use crate::condense::Condenser;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::merge::Merges;
use crate::read::ReadScratch;
use crate::ssd::Ssd;
use crate::trim_log::TrimLog;
use crate::units::Instant;

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Ends all work, as a host does that turns the drive off properly: what the buffer holds is
    /// programmed, the block under collection is emptied, what collection owes is done, and of a
    /// map on flash all that RAM has changed is written. Returns when that is so; the drive can be
    /// used on from there. What it kept in RAM for its own convenience (read-ahead, map pages,
    /// what is booked on which die) begins anew, as after power-on.
    pub fn shut_down(&mut self, at: Instant) -> Instant {
        self.pad_host_program(at);
        self.finish_collection(at);
        self.finish_map(at);
        self.pay_all_debt();
        let copied = self.resources.idle_from().max(at);
        let journalled = self.complete_journal(copied).max(self.make_trims_durable(at));
        self.book_all_journal_pages();
        let done = journalled.max(self.resources.idle_from()).max(at);
        self.release_buffer(done);
        self.release_map(done);
        self.forget_what_is_volatile();
        done
    }

    /// What a drive knows after power-on is what it has on flash.
    pub(crate) fn forget_what_is_volatile(&mut self) {
        let blocked = self.resources.blocked;
        self.resources = self.resources.renewed(&self.geometry, &self.timing);
        self.resources.blocked = blocked;
        self.buffer = WriteBuffer::new(self.buffer_parameters.units);
        self.read_ahead = self.read_ahead.renewed();
        self.scratch = ReadScratch::default();
        self.merges = Merges::default();
        self.condenser = Condenser::default();
        self.trim_log = TrimLog::new();
        self.rest = None;
        self.forget_trim_marks();
        self.collector.forget_copies();
        self.flash.begin_draws_anew();
        self.map.forget_what_is_volatile();
        if let Some(streams) = &mut self.streams {
            streams.forget_hint();
        }
    }
}
