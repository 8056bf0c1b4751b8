//! What is not reading or writing: trim, and rest.

use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::ssd::Ssd;
use crate::units::{Instant, LogicalUnit, Nanoseconds, SectorCount};
use crate::write::Unsent;

/// Rests shorter than this do not age data noticeably.
const RETENTION_STEP: Nanoseconds = Nanoseconds::from_secs(3600);

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Forgets what `units` units from `first` hold, in one command; returns when the host is told
    /// so. They are read without flash from then on. A drive whose trim is off takes the command and does nothing.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn trim(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.check_range(first, units);
        self.counters.host_trim_units += u64::from(units);
        let sectors = SectorCount(u64::from(units) << self.geometry.sectors_per_unit_shift());
        let mut start = self.take_up_for(at, self.trim_parameters.duration(sectors));
        if self.trim_enabled {
            self.read_ahead.forget();
            start = self.look_up_trimmed(start, first, units);
            self.trim_units(start, first, units);
        }
        self.note_trim(at, start)
    }

    fn trim_units(&mut self, at: Instant, first: LogicalUnit, units: u32) {
        let (mut forgotten, mut from_copies) = (false, false);
        for unit in first.0..first.0 + units {
            if let Some(old) = self.map.clear(LogicalUnit(unit)) {
                forgotten = true;
                from_copies |= self.flash.lose_unit(self.geometry.block_of(old))
                    && self.forget_unsent(old) == Some(Unsent::Copy);
            }
        }
        if forgotten {
            self.record_trim(first, units, at);
        }
        if from_copies {
            let recorded = self.trims_before_erase();
            self.collector.copies.await_trims(recorded);
        }
    }

    /// Leaves the drive alone from `from` for `duration`: it pays its debt, programs what waits
    /// in the buffer, and collects ahead. Nothing that is valid is put in a better order: no
    /// drive that was tested did that.
    pub fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        let until = from + duration;
        if duration >= self.buffer_parameters.idle_before_flush {
            let idle = from + self.buffer_parameters.idle_before_flush;
            self.pad_host_program(idle);
            self.make_trims_durable(idle);
        }
        self.release_buffer(until);
        self.look_at_ages(Nanoseconds::new(until.nanos()), RETENTION_STEP.min(duration));
        if self.is_read_only() {
            self.advance_debt(until);
        } else {
            self.collect_while_idle(until);
        }
    }

    pub(crate) fn release_buffer(&mut self, at: Instant) {
        let flash = &mut self.flash;
        self.buffer.admit(at, 0, &mut self.resources.dies, |block| {
            if flash.state(block) == BlockState::Closing {
                flash.set_state(block, BlockState::Closed);
            }
        });
    }

    /// The instant by which all that was asked of the drive is done, debt of collection aside.
    pub fn idle_from(&self) -> Instant {
        self.resources.idle_from()
    }
}
