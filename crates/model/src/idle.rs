//! What is not reading or writing: trim, and rest.

use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::ssd::Ssd;
use crate::units::{Instant, LogicalUnit, Nanoseconds, SectorCount};
use crate::write::Unsent;

/// Rests shorter than this do not age data noticeably.
const RETENTION_STEP: Nanoseconds = Nanoseconds::from_secs(3600);

/// Time in which the drive was left alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    since: Instant,
    until: Instant,
    /// Requests that had come by then.
    requests: u64,
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Forgets what `units` units from `first` hold, in one command; returns when the host is told
    /// so. They are read without flash from then on, unless the drive only marks them (see
    /// [`crate::trim::ReadsAfterTrim::Undefined`]). A drive whose trim is off takes the command and does
    /// nothing.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    pub fn trim(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.check_range(first, units);
        self.counters.host_trim_units += u64::from(units);
        let sectors = SectorCount(u64::from(units) << self.geometry.sectors_per_unit_shift());
        let mut start = self.take_up_for(at, self.trim_parameters.duration(sectors));
        if self.trim_enabled {
            self.forget_read_ahead(first, units);
            start = self.look_up_trimmed(start, first, units);
            start = self.make_room_for_trim(start);
            self.trim_units(start, first, units);
        }
        self.note_trim(at, start)
    }

    fn trim_units(&mut self, at: Instant, first: LogicalUnit, units: u32) {
        let (mut forgotten, mut from_copies, mut from_written) = (false, false, false);
        for unit in first.0..first.0 + units {
            if let Some(old) = self.map.clear(LogicalUnit(unit)) {
                forgotten = true;
                if let Some(marks) = &mut self.trim_marks {
                    marks.mark(LogicalUnit(unit), old);
                }
                if self.flash.lose_unit(self.geometry.block_of(old)) {
                    let unsent = self.forget_unsent(old);
                    from_copies |= unsent == Some(Unsent::Copy);
                    from_written |= unsent == Some(Unsent::Written);
                }
            }
        }
        if forgotten {
            self.record_trim(first, units, at);
        }
        if from_copies {
            let recorded = self.trims_before_erase();
            self.collector.copies.await_trims(recorded);
        }
        // A block may wait to be erased for what the host had written anew, which is now not
        // written at all.
        let host = self.buffer.next_number();
        if from_written && self.collector.copies.awaits_host(host) {
            let recorded = self.trims_before_erase();
            self.collector.copies.await_trims_with_host(host, recorded);
        }
    }

    /// Leaves the drive alone from `from` for `duration`: it pays its debt, programs what waits
    /// in the buffer, and collects ahead. Nothing that is valid is put in a better order: no
    /// drive that was tested did that.
    pub fn rest(&mut self, from: Instant, duration: Nanoseconds) {
        let until = from + duration;
        if let Some(idle) = self.idle_between(from, until) {
            self.pad_host_program(idle);
            self.make_trims_durable(idle);
        }
        self.release_buffer(until);
        self.look_at_ages_at_rest(from, duration);
        if self.is_read_only() {
            self.advance_debt(until);
        } else {
            self.collect_while_idle(until);
        }
    }

    /// When a drive that is left alone from `from` until `until` has been idle for as long as it takes
    /// to program what its buffer holds; nothing where that is later, or was before. A rest that
    /// follows another, with no request in between, goes on with it.
    pub(crate) fn idle_between(&mut self, from: Instant, until: Instant) -> Option<Instant> {
        let requests = self.counters.requests;
        let goes_on = self.rest.filter(|it| it.until == from && it.requests == requests);
        let since = goes_on.map_or(from, |it| it.since);
        self.rest = Some(Rest { since, until, requests });
        self.settle_trims(since, until);
        let idle = since + self.buffer_parameters.idle_before_flush;
        (idle <= until).then_some(idle.max(from))
    }

    /// Works out how old data is after a rest, if that is worth it.
    pub(crate) fn look_at_ages_at_rest(&mut self, from: Instant, duration: Nanoseconds) {
        let until = Nanoseconds::new((from + duration).nanos());
        self.look_at_ages(until, RETENTION_STEP.min(duration));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::ssd::tests::small_configuration;

    #[test]
    fn a_block_full_of_cold_data_does_not_keep_a_drive_from_collecting_ahead() {
        for policy in [
            &[("collection.policy", "greedy")][..],
            &[("collection.policy", "fifo")],
            &[("collection.policy", "random")],
            &[("collection.policy", "d-choices"), ("collection.choices", "3")],
        ] {
            let ahead = [policy, &[("collection.idle_high_water", "1000")]].concat();
            let mut ssd = Ssd::new(&small_configuration(&ahead)).expect("a sound drive");
            let units = ssd.geometry().logical_units();
            let mut at = ssd.write(Instant::START, LogicalUnit(0), units);
            // A few blocks lose every other unit; all that was written before stays valid.
            let sparse = ssd.geometry().units_per_block() * 3;
            for unit in (units - sparse..units).step_by(2) {
                at = ssd.trim(at, LogicalUnit(unit), 1);
            }
            let before = ssd.counters().collections;
            ssd.rest(at, Nanoseconds::from_secs(60));
            let collected = ssd.counters().collections - before;
            assert!(collected >= 2, "{policy:?}: {collected} blocks");
            ssd.check_invariants();
        }
    }

    #[test]
    fn a_rest_in_steps_is_one_rest() {
        let configuration = small_configuration(&[("controller.idle_before_flush", "150s")]);
        let padded = |steps: &[u64], request_after: Option<usize>| {
            let mut ssd = Ssd::new(&configuration).expect("a sound drive");
            let mut at = ssd.write(Instant::START, LogicalUnit(0), 1);
            for (step, &seconds) in steps.iter().enumerate() {
                let rest = Nanoseconds::from_secs(seconds);
                ssd.rest(at, rest);
                at += rest;
                if request_after == Some(step) {
                    at = ssd.read(at, LogicalUnit(0), 1);
                }
            }
            ssd.counters().program_units_padding > 0
        };
        assert!(!padded(&[149], None));
        assert!(padded(&[150], None));
        assert!(padded(&[60, 60, 30], None), "the drive has been idle for as long");
        assert!(!padded(&[60, 60, 29], None));
        assert!(!padded(&[60, 60, 30], Some(0)), "a request ends a rest");
        assert!(padded(&[60, 60, 60, 30], Some(0)));
    }
}
