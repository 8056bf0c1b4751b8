//! Trims that a power cut must not undo.
//!
//! A trim leaves nothing in the spare area of any program unit, so it is written down on its own:
//! a record of its range and the number it took ([`crate::media::SequenceNumber`]). Copies of the
//! range with a smaller number are dead, whatever is found on the flash. Records collect in RAM
//! and are programmed to a page of the metadata blocks (16 bytes each)
//!
//! - by a flush that has to wait for the flash, and after a moment of idleness;
//! - when a page is full of them;
//! - before a block is erased that may hold the last copies of what was trimmed, unless capacitors
//!   save the records. Without this an older copy elsewhere, which was no longer current when the
//!   unit was trimmed, would come to light again.
//!
//! (Published firmware does the same with entries of its map journal; that those of trims go to
//! pages of their own is a simplification.)

use crate::mapping::Mapping;
use crate::media::{Media, TrimRecord};
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{ByteLength, Instant, LogicalUnit};

/// Bytes of one record: first unit and number of units, 32 bits each, and the number.
const RECORD: ByteLength = ByteLength::new(16);

/// The state of the trim log.
#[derive(Clone, Debug)]
pub(crate) struct TrimLog {
    /// Records that no page holds.
    pending: Vec<TrimRecord>,
    /// When all of them are.
    programmed_until: Instant,
}

impl TrimLog {
    pub(crate) fn new() -> TrimLog {
        TrimLog { pending: Vec::new(), programmed_until: Instant::START }
    }

    /// The records that no page holds.
    pub(crate) fn pending(&self) -> &[TrimRecord] {
        &self.pending
    }
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Writes down that `units` units from `first` were trimmed at `at`.
    pub(crate) fn record_trim(&mut self, first: LogicalUnit, units: u32, at: Instant) {
        let number = self.next_number();
        self.trim_log.pending.push(TrimRecord { first, units, number });
        let page = self.geometry.parameters().page_size;
        if self.trim_log.pending.len() as u64 >= page.covering(RECORD) {
            self.make_trims_durable(at);
        }
    }

    /// Programs the records of all trims so far, not before `from`; returns when they are.
    pub(crate) fn make_trims_durable(&mut self, from: Instant) -> Instant {
        if !self.trim_log.pending.is_empty() {
            self.program_trim_page(from);
        }
        self.trim_log.programmed_until
    }

    #[inline(never)]
    fn program_trim_page(&mut self, from: Instant) {
        let die = self.begin_metadata_page(from);
        self.counters.trim_pages += 1;
        self.settle(die, from);
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(self.geometry.units_per_page());
        let arrived = self.resources.reserve(channel, Class::Write, from, transfer).end;
        let program = self.journal_program();
        let span = self.resources.reserve(Resource::Die(die), Class::Write, arrived, program);
        let work = self.latest_work(die, span);
        self.media.record_trims(&self.trim_log.pending, work);
        self.trim_log.pending.clear();
        self.trim_log.programmed_until = self.trim_log.programmed_until.max(span.end);
    }

    /// When a block that was emptied now may be erased, as far as trims go.
    pub(crate) fn trims_before_erase(&mut self) -> Instant {
        if self.buffer_parameters.protected {
            return Instant::START;
        }
        self.make_trims_durable(self.resources.now())
    }
}

#[cfg(test)]
mod tests {
    use crate::ftl::Ssd;
    use crate::ssd::tests::small_configuration;
    use crate::units::{Instant, LogicalUnit};

    #[test]
    fn a_flush_after_a_trim_programs_its_record_and_one_after_that_nothing() {
        let mut ssd = Ssd::new(&small_configuration(&[])).expect("a sound drive");
        let written = ssd.write(Instant::START, LogicalUnit(0), 24);
        let flushed = ssd.flush(written);
        let trimmed = ssd.trim(flushed, LogicalUnit(0), 8);
        let trimmed = ssd.trim(trimmed, LogicalUnit(12), 8);
        assert_eq!(ssd.counters().trim_pages, 0);
        let again = ssd.flush(trimmed);
        assert!((1300..1500).contains(&(again.since(trimmed).nanos() / 1000)), "one program");
        assert_eq!(ssd.counters().trim_pages, 1);
        assert!(ssd.flush(again).since(again).nanos() < 100_000);
        let trimmed = ssd.trim(again, LogicalUnit(0), 8);
        ssd.flush(trimmed);
        assert_eq!(ssd.counters().trim_pages, 1, "nothing was there to be trimmed");
    }
}
