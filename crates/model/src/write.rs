//! Host writes: into the buffer, into the open program unit, and on to a die when that is full.

use crate::buffer::InFlight;
use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::{FlashWork, Media, SequenceNumber, SpareArea};
use crate::recovery::FlashContents;
use crate::resources::{Class, Resource, Span};
use crate::ssd::Ssd;
use crate::stream::FilledProgram;
use crate::units::{DieIndex, Instant, LogicalUnit, Nanoseconds, PhysicalUnit};

/// What a unit is that no program unit sent off holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// Written by the host.
    Written,
    /// Copied from a block that waits to be erased, or is being emptied.
    Copy,
}

impl<M: Mapping, D: Media> Ssd<M, D> {
    /// Writes `units` units from `first` at `at`; returns when the host is told it is done.
    ///
    /// # Panics
    /// When the range is empty or does not lie within the drive.
    #[inline]
    pub fn write(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.write_units(at, first, units)
    }

    /// The same, for the loops that do nothing else.
    #[inline(always)]
    pub(crate) fn write_units(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        if !self.can_write(first, units) {
            return self.refuse_write(at, first, units);
        }
        let program = self.buffer.next_number();
        let mut end = self.write_to_buffer(at, first, units);
        if self.durability.write_through {
            end = self.make_durable(program, end);
        }
        self.note_write(at, end)
    }

    /// Writes to the buffer; returns when all data is there.
    #[inline(always)]
    fn write_to_buffer(&mut self, at: Instant, first: LogicalUnit, units: u32) -> Instant {
        self.forget_read_ahead(first, units);
        self.counters.host_write_units += u64::from(units);
        let ready = self.take_up(at);
        self.advance_debt_at_times(ready);
        if self.streams.is_some() {
            self.choose_stream(first);
        }
        self.note_acted(ready);
        let ready = self.find_extents_for_write(ready, first, units);
        let received = self.write_whole(ready, first.0, first.0 + units);
        self.look_up_for_write(ready, first, units, received)
    }

    /// Looks up where `units` units from `first` lay, for a write acted on at `start` that has
    /// nothing else to wait for at `ready`; returns when that is known, too.
    #[inline(always)]
    pub(crate) fn look_up_for_write(
        &mut self,
        start: Instant,
        first: LogicalUnit,
        units: u32,
        ready: Instant,
    ) -> Instant {
        let known = self.look_up(start, first, units, true);
        if known > ready {
            self.delays.writes.parts.map_miss += known.since(ready);
            return known;
        }
        ready
    }

    /// Writes the units from `first` to before `end`, whole; returns when their data is there.
    #[inline(always)]
    pub(crate) fn write_whole(&mut self, ready: Instant, first: u32, end: u32) -> Instant {
        let (mut ready, mut next) = (ready, first);
        while next < end {
            if self.host.room() == 0 {
                self.begin_host_program();
            }
            let count = self.host.room().min(end - next);
            ready = self.receive(ready, count, self.unit_to_host * u64::from(count));
            for unit in next..next + count {
                self.place(LogicalUnit(unit));
            }
            next += count;
            if self.host.room() == 0 {
                self.program_host(ready, 0);
            }
        }
        ready
    }

    /// When the buffer has room for `units` units, not before `ready`.
    #[inline(always)]
    fn admit(&mut self, ready: Instant, units: u32) -> Instant {
        let flash = &mut self.flash;
        self.buffer.admit(ready, units, &mut self.resources.dies, |block| {
            if flash.state(block) == BlockState::Closing {
                flash.set_state(block, BlockState::Closed);
            }
        })
    }

    /// Moves `units` units from the host into the buffer, once it has room; they take `transfer`
    /// on the link.
    #[inline(always)]
    pub(crate) fn receive(&mut self, ready: Instant, units: u32, transfer: Nanoseconds) -> Instant {
        let admitted = self.admit(ready, units);
        self.receive_admitted(ready, admitted, transfer)
    }

    /// The same for `units` units that were let in at `now`.
    pub(crate) fn receive_let_in(&mut self, ready: Instant, now: Instant, units: u32) -> Instant {
        self.receive_admitted(ready, now.max(ready), self.unit_to_host * u64::from(units))
    }

    #[inline(always)]
    fn receive_admitted(
        &mut self,
        ready: Instant,
        admitted: Instant,
        transfer: Nanoseconds,
    ) -> Instant {
        let span = self.resources.reserve(Resource::LinkToDrive, Class::Write, admitted, transfer);
        self.delays.writes.parts.link += transfer;
        self.delays.room += admitted.since(ready);
        self.buffer.note_received(span.end);
        span.end
    }

    /// Puts one unit at the host stream's next place.
    #[inline(always)]
    pub(crate) fn place(&mut self, unit: LogicalUnit) {
        let physical = self.host.append();
        self.flash.note_written(physical, unit);
        self.media.receive(physical, unit);
        if let Some(old) = self.map.set(unit, physical)
            && self.flash.lose_unit(self.geometry.block_of(old))
            && self.forget_unsent(old) == Some(Unsent::Copy)
        {
            // The copy was to replace what a block holds that waits to be erased. Now what the
            // host has just written replaces it, in the program unit being filled.
            self.collector.copies.await_host(self.buffer.next_number());
        }
    }

    /// Puts a unit at the host stream's next place that is in the buffer already: `index` of what
    /// was saved of it.
    pub(crate) fn restore_unit(&mut self, at: Instant, index: usize, unit: LogicalUnit)
    where
        D: FlashContents,
    {
        if self.host.room() == 0 {
            self.begin_host_program();
        }
        let ready = self.restore_to_open_program(at, index, unit);
        if self.host.room() == 0 {
            self.program_host(ready, 0);
        }
    }

    /// The same where the host stream's program unit has room; returns when the buffer has.
    pub(crate) fn restore_to_open_program(
        &mut self,
        at: Instant,
        index: usize,
        unit: LogicalUnit,
    ) -> Instant
    where
        D: FlashContents,
    {
        let ready = self.admit(at, 1);
        let physical = self.host.append();
        self.flash.note_written(physical, unit);
        self.media.restore(index, physical);
        if let Some(old) = self.map.set(unit, physical)
            && self.flash.lose_unit(self.geometry.block_of(old))
        {
            self.forget_unsent(old);
        }
        ready
    }

    /// Leaves `old`, which is no longer current, empty if its program unit is still being filled:
    /// a program unit holds only what is current when it takes its number (see [`crate::media`]).
    #[inline(never)]
    pub(crate) fn forget_unsent(&mut self, old: PhysicalUnit) -> Option<Unsent> {
        let unsent = if self.host.holds(old) || self.is_held_aside(old) {
            Unsent::Written
        } else if self.is_being_copied(old) {
            Unsent::Copy
        } else {
            return None;
        };
        self.flash.forget_unsent(old);
        Some(unsent)
    }

    pub(crate) fn begin_host_program(&mut self) {
        if self.host.is_partial() {
            self.send_held_program();
        }
        let mut is_slc = false;
        if self.host.needs_block() {
            is_slc = self.makes_room_in_cache();
            if is_slc {
                self.ensure_free_block_of_cache();
            } else {
                self.ensure_free_block();
            }
        }
        if let Some(block) = self.host.begin_program(&self.geometry, &mut self.free) {
            self.flash.open(block, BlockState::OpenForHost, self.units_of_block(is_slc));
            self.note_block_begun(block, true);
            if is_slc {
                self.note_slc_begun(block);
            }
        }
        self.shorten_slc_program();
    }

    /// Sends off the full program unit that waits in the buffer for the rest of its last unit,
    /// which goes elsewhere or comes too late (see [`crate::merge`]).
    #[cold]
    fn send_held_program(&mut self) {
        let ready = self.buffer.received_until();
        self.program_host(ready, 0);
    }

    /// Sends the host stream's full program unit to its die, and has collection keep pace; its
    /// data was there at `ready`, and its last `padding` units are empty.
    pub(crate) fn program_host(&mut self, ready: Instant, padding: u32) {
        self.send_host_program(ready, padding);
        self.collect_for(self.geometry.units_per_program(), ready);
    }

    fn send_host_program(&mut self, ready: Instant, padding: u32) {
        let ready = ready.later(std::mem::replace(&mut self.merges.done_at, Instant::START));
        let filled = self.host.finish_program(&self.geometry);
        let units = filled.units;
        self.counters.program_units_host += u64::from(units - padding);
        self.counters.program_units_padding += u64::from(padding);
        if self.is_slc(filled.block) {
            self.counters.program_units_slc += u64::from(units);
        }
        self.send_filled(&filled, ready, units - padding);
    }

    /// Sends a full program unit to its die, of which the first `buffered` units lie in the buffer
    /// until it is programmed.
    #[inline(always)]
    pub(crate) fn send_filled(
        &mut self,
        filled: &FilledProgram,
        ready: Instant,
        buffered: u32,
    ) -> Span {
        let die = self.geometry.die_of_program(filled.block, filled.index);
        self.settle(die, ready);
        if filled.index < self.geometry.stripe() {
            self.finish_erase(die, filled.block);
        }
        let number = self.next_number();
        let span = self.program_now(die, filled, number, ready);
        self.note_map_changes(buffered, number, span.end);
        self.buffer.send(InFlight {
            first: filled.first,
            units: buffered,
            end: span.end,
            die,
            booking: self.resources.dies[die.0 as usize].latest_booking(),
            number: 0,
            given_away: false,
            closes: filled.closes.then_some(filled.block),
        });
        if filled.closes {
            self.flash.close(filled.block, BlockState::Closing);
            self.divide_waits_for_room();
        }
        span
    }

    /// Notes that the host has written a unit to `physical`, for a scheme that has places of its
    /// own.
    pub(crate) fn place_at(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        self.flash.note_written(physical, unit);
        self.media.receive(physical, unit);
        if let Some(old) = self.map.set(unit, physical)
            && self.flash.lose_unit(self.geometry.block_of(old))
        {
            self.forget_unsent(old);
        }
    }

    /// Transfers a program unit to its die and programs it there.
    fn program_now(
        &mut self,
        die: DieIndex,
        filled: &FilledProgram,
        number: SequenceNumber,
        ready: Instant,
    ) -> Span {
        let channel = Resource::Channel(self.geometry.channel_of(die));
        let transfer = self.unit_over_channel * u64::from(filled.units);
        let arrived = self.resources.reserve(channel, Class::Write, ready, transfer).end;
        let program = match &self.slc {
            Some(slc) if slc.holds(filled.block) => slc.program(),
            _ => self.timing.program,
        };
        let span = self.resources.reserve(Resource::Die(die), Class::Write, arrived, program);
        self.note_programmed(filled.first, number, die, span);
        span
    }

    /// The number of the program unit that is just finished.
    #[inline(always)]
    pub(crate) fn next_number(&mut self) -> SequenceNumber {
        self.sequence = self.sequence.next();
        self.sequence
    }

    /// Counts a program operation, the latest on its die, and tells the media.
    #[inline(always)]
    pub(crate) fn note_programmed(
        &mut self,
        first: PhysicalUnit,
        number: SequenceNumber,
        die: DieIndex,
        span: Span,
    ) {
        self.counters.programs += 1;
        let mut spare = self.flash.spare_area(first, self.geometry.units_per_program());
        if self.slc.is_some() && self.is_slc(self.geometry.block_of(first)) {
            spare = SpareArea::in_slc_mode(spare.raw());
        }
        let work = self.latest_work(die, span);
        self.media.program(first, spare, number, work);
    }

    /// What was just booked on `die` for `span`, as the media is told.
    #[inline(always)]
    pub(crate) fn latest_work(&self, die: DieIndex, span: Span) -> FlashWork {
        let booking = self.resources.dies[die.0 as usize].latest_booking();
        FlashWork { die, span, booking }
    }

    /// Fills what is left of the host's program unit with nothing and sends it off, once the data
    /// in it has arrived.
    pub(crate) fn pad_host_program(&mut self, at: Instant) {
        loop {
            if self.streams.is_some() {
                self.choose_partial_stream();
            }
            if !self.host.is_partial() {
                return;
            }
            let ready = self.send_padded_host_program(at);
            self.collect_for(self.geometry.units_per_program(), ready);
        }
    }

    /// The same without collection's share; returns when it was sent off.
    pub(crate) fn send_padded_host_program(&mut self, at: Instant) -> Instant {
        let ready = at.max(self.buffer.received_until());
        let padding = self.host.room();
        for _ in 0..padding {
            let physical = self.host.append();
            self.flash.note_padding(physical, self.geometry.block_of(physical));
        }
        self.send_host_program(ready, padding);
        ready
    }
}
