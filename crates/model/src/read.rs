//! Host reads: from the buffer, from what was read ahead, or from the flash.
//!
//! A request becomes flash page reads: units that lie on one page cost one read of it, pages of
//! one multi-plane group in one request are sensed together, and each page's units then cross
//! their channel and the host link. The request is answered when its last unit has arrived, so
//! it waits for the most loaded die, not for the average one.
//!
//! A unit that collection is moving is read from its new place, although the old copy would do
//! as long as the new one is not programmed: either way it is one page read on some die.

mod pieces;
mod sequential;

pub(crate) use pieces::{PageRead, Piece, ReadScratch};

use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::{Class, Resource};
use crate::ssd::Ssd;
use crate::units::{DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};
use pieces::Asked;

/// A request for whole units.
pub(crate) const NOTHING_LEFT_OUT: [Nanoseconds; 2] = [Nanoseconds::ZERO; 2];

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Reads `units` units from `first` at `at`; returns when the last of them has arrived.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    #[inline]
    pub fn read(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.check_range(first, units);
        self.read_within(at, first, units)
    }

    /// Reads `units` units from `first`, which lie within the drive.
    #[inline(always)]
    pub(crate) fn read_within(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.counters.host_read_units += u64::from(units);
        let start = self.take_up(at);
        self.advance_debt_at_times(start);
        let end = self.read_acted_on(start, first, units);
        self.note_read(at, end)
    }

    /// Reads `units` units from `first`, acted on at `start`; returns when the last has arrived.
    #[inline(always)]
    pub(crate) fn read_acted_on(
        &mut self,
        start: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Instant {
        let start = self.look_up_for_read(start, first, units);
        let start = self.find_extents_for_read(start, first, units);
        match self.follow(first.0, first.0 + units) {
            None if units == 1 => self.read_one(start, first, self.unit_to_host),
            stream => self.read_many(stream, start, first, units, NOTHING_LEFT_OUT),
        }
    }

    /// Looks up where `units` units from `first` lie; returns when that is known.
    #[inline(always)]
    pub(crate) fn look_up_for_read(
        &mut self,
        start: Instant,
        first: LogicalUnit,
        units: u32,
    ) -> Instant {
        let known = self.look_up(start, first, units, false);
        if known > start {
            self.delays.reads.parts.map_miss += known.since(start);
        }
        known
    }

    /// Forgets what was read ahead of `units` units from `first`, which the host changes.
    #[inline(always)]
    pub(crate) fn forget_read_ahead(&mut self, first: LogicalUnit, units: u32) {
        let lost = self.read_ahead.forget(first.0, units);
        if lost > 0 {
            self.counters.read_ahead_lost_units += u64::from(lost);
        }
    }

    /// Whether a read of `first..end` continues a stream that is read ahead of, and which.
    #[inline(always)]
    pub(crate) fn follow(&mut self, first: u32, end: u32) -> Option<usize> {
        if self.read_ahead.is_on() { self.read_ahead.follow(first, end) } else { None }
    }

    /// Reads `units` units from `first`, all of them but what is `left_out` of the first and the
    /// last on the link.
    #[inline(never)]
    pub(crate) fn read_many(
        &mut self,
        stream: Option<usize>,
        start: Instant,
        first: LogicalUnit,
        units: u32,
        left_out: [Nanoseconds; 2],
    ) -> Instant {
        let Some(stream) = stream else {
            self.begin_pieces();
            self.gather(start, first, units);
            let ready = self.sense_and_transfer(start, Asked::Request);
            self.leave_out(left_out);
            let end = self.deliver(start);
            self.delays.reads.parts.link += end.since(ready);
            return end;
        };
        self.read_sequential(stream, start, first, units, left_out)
    }

    /// A read of a single unit, the most common request of all, of which the link moves as much
    /// as takes `transfer`.
    #[inline(always)]
    pub(crate) fn read_one(
        &mut self,
        start: Instant,
        unit: LogicalUnit,
        transfer: Nanoseconds,
    ) -> Instant {
        let mut over_channel = Nanoseconds::ZERO;
        let ready = match self.read_place_of(unit) {
            None => {
                self.counters.unmapped_read_units += 1;
                start
            }
            Some(physical) if self.is_buffered(physical, start) => {
                self.counters.buffer_hit_units += 1;
                start
            }
            Some(physical) => {
                self.counters.flash_page_reads_host += 1;
                let sense = self.page_read_of(physical);
                self.delays.reads.parts.flash_read += sense;
                over_channel = self.unit_over_channel;
                self.read_sensing_for(sense, physical, start)
            }
        };
        self.delays.reads.parts.link += over_channel + transfer;
        self.resources.reserve(Resource::LinkToHost, Class::Read, ready, transfer).end
    }

    /// Senses the page of one unit and moves the unit to the controller; the instant it is there.
    #[inline(always)]
    pub(crate) fn read_unit_of_flash(&mut self, unit: PhysicalUnit, start: Instant) -> Instant {
        self.read_sensing_for(self.page_read_of(unit), unit, start)
    }

    /// The same where it is known how long the sense takes.
    #[inline(always)]
    fn read_sensing_for(
        &mut self,
        sense: Nanoseconds,
        unit: PhysicalUnit,
        start: Instant,
    ) -> Instant {
        let die = self.geometry.die_of(unit);
        let waits = self.senses_later(start) || self.durability.journal.is_some();
        if !waits
            && let Some(there) = self.resources.read_page(die, start, sense, self.unit_over_channel)
        {
            return there;
        }
        self.read_behind_others(die, start, sense)
    }

    /// The same where the die has something else to see to before.
    #[inline(never)]
    fn read_behind_others(&mut self, die: DieIndex, start: Instant, sense: Nanoseconds) -> Instant {
        let sensed = self.sense(die, start, sense);
        let channel = Resource::Channel(self.geometry.channel_of(die));
        self.resources.reserve(channel, Class::Read, sensed, self.unit_over_channel).end
    }

    /// Senses a page on `die`, which takes `duration`.
    #[inline(always)]
    pub(crate) fn sense(
        &mut self,
        die: DieIndex,
        start: Instant,
        duration: Nanoseconds,
    ) -> Instant {
        if self.senses_later(start) {
            return self.sense_later(die, start);
        }
        self.settle(die, start);
        self.resources.reserve(Resource::Die(die), Class::Read, start, duration).end
    }

    /// Whether what is to be sensed at `start` waits for its turn, because the map has to be read
    /// first.
    #[inline(always)]
    fn senses_later(&mut self, start: Instant) -> bool {
        let in_time = self.in_time.is_on();
        self.map.cache().is_some_and(|cache| !in_time && start > cache.acted_at)
    }

    /// Whether the data of `unit` is in the write buffer at `at`.
    #[inline(always)]
    pub(crate) fn is_buffered(&self, unit: PhysicalUnit, at: Instant) -> bool {
        self.host.holds(unit)
            || (self.streams.is_some() && self.is_held_aside(unit))
            || (self.buffer.is_any_in_flight(at) && self.is_in_flight(unit, at))
    }

    fn is_in_flight(&self, unit: PhysicalUnit, at: Instant) -> bool {
        // Few blocks are in question, and the programs in flight are many.
        let state = self.flash.state(self.geometry.block_of(unit));
        matches!(state, BlockState::OpenForHost | BlockState::Closing)
            && self.buffer.is_in_flight(unit, at)
    }
}
