//! Execution of commands, and host writes: into the write buffer, into the program unit being filled, and on to
//! a die when that is full.

use ssdlab_nand::{ProgramUnit, Tag};

use super::host::{Command, RequestTag};
use super::placement::{HostProgram, WaitingWrite};
use super::{Answer, Context, Ftl, Port, kind, number_of};
use crate::block_table::BlockState;
use crate::mapping::Mapping;
use crate::media::{Media, OobArea, SpareMark};
use crate::units::{Instant, LogicalUnit, PhysicalUnit};
use crate::write_frontier::FilledProgram;

/// Origin of a unit whose program unit is not final yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// Written by the host.
    Written,
    /// Copied from a block that is being collected, or waits to be erased.
    Copy,
}

impl<M: Mapping, D: Media> Ftl<M, D> {
    /// Executes a command that the controller has fetched.
    #[inline(always)]
    pub(super) fn execute_command(&mut self, context: &mut Context<'_>, tag: RequestTag) {
        self.counters.requests += 1;
        if self.blocks.is_read_only() && self.requests.get(tag).command.is_write() {
            self.counters.refused_writes += 1;
            let now = context.nand.now();
            return self.answer_write(context, tag, now);
        }
        match self.requests.get(tag).command {
            Command::Read { units, .. } => self.counters.host_read_units += u64::from(units),
            Command::Write { units, .. } => self.counters.host_write_units += u64::from(units),
            Command::ReadSectors { count, .. } => {
                self.counters.host_read_units += self.reads.whole_units_of(count, &self.geometry);
            }
            Command::WriteSectors { .. } | Command::Trim { .. } => {}
            Command::Flush => return self.flush(context, tag),
        }
        let (first, units) = self.units_of(tag);
        let is_found = match self.requests.get(tag).command {
            Command::Trim { .. } => self.has_table_space(context, tag, (first, units)),
            _ => self.find_extents(context, tag, (first, units)),
        };
        if is_found {
            self.execute_after_lookup(context, tag, first, units);
        }
    }

    /// Returns the first unit that a request touches, and the number of units.
    #[inline(always)]
    pub(super) fn units_of(&self, tag: RequestTag) -> (LogicalUnit, u32) {
        match self.requests.get(tag).command {
            Command::Read { first, units }
            | Command::Write { first, units, .. }
            | Command::Trim { first, units } => (first, units),
            Command::ReadSectors { first, count } | Command::WriteSectors { first, count, .. } => {
                let parts = self.requests.parts(first, count);
                (LogicalUnit(parts.first), parts.end - parts.first)
            }
            Command::Flush => (LogicalUnit(0), 0),
        }
    }

    /// Executes a command for `units` units from `first`, whose extents are found.
    #[inline(always)]
    pub(super) fn execute_after_lookup(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        first: LogicalUnit,
        units: u32,
    ) {
        match self.requests.get(tag).command {
            Command::Read { .. } | Command::ReadSectors { .. } => {
                self.read(context.nand, tag, first, units);
            }
            Command::Write { .. } => self.write(context, tag, first, units, false),
            Command::WriteSectors { .. } => self.write(context, tag, first, units, true),
            Command::Trim { .. } => self.trim(context, tag, first, units),
            Command::Flush => unreachable!("a flush has no extents"),
        }
    }

    /// Answers a write that has waited until `at`; the latency of its data comes on top.
    #[inline(always)]
    pub(super) fn answer_write(&mut self, context: &mut Context<'_>, tag: RequestTag, at: Instant) {
        let at = self.note_write(tag, at);
        let sent = self.requests.get(tag).sent;
        self.answer(context, tag, sent, at);
    }

    /// Counts a write that has waited until `at`, with its latency. Returns the moment at which it is answered.
    #[inline(always)]
    pub(super) fn note_write(&mut self, tag: RequestTag, at: Instant) -> Instant {
        let request = self.requests.get(tag);
        let (latency, occupancy) = self.requests.data_time(&request.command);
        let at = at + latency;
        let totals = &mut self.delays.writes;
        totals.requests += 1;
        totals.latency += at.since(request.sent);
        totals.parts.command += latency + occupancy;
        at
    }

    #[inline(always)]
    pub(super) fn answer(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        sent: Instant,
        at: Instant,
    ) {
        let port = &mut Port::new(context.nand, &mut self.requests);
        if let Some(soon) = context.host.answered(port, Answer { tag, sent, at }) {
            self.map.prefetch(soon);
        }
    }

    #[inline(always)]
    fn write(
        &mut self,
        context: &mut Context<'_>,
        tag: RequestTag,
        first: LogicalUnit,
        units: u32,
        in_part: bool,
    ) {
        self.reads.invalidate(first, units, &mut self.counters);
        let (next, end, ready) = (first.0, first.0 + units, context.nand.now());
        let is_first = self.placement.first_waiting().is_none();
        let force = matches!(self.requests.get(tag).command, Command::Write { force: true, .. });
        if is_first
            && !in_part
            && units <= self.placement.free_units()
            && self.placement.has_buffer_space(units)
            && self.streams.is_none()
            && !self.placement.is_static()
            && self.log_blocks.is_none()
            && self.map.cache().is_none()
            && !self.metadata.makes_durable(force)
        {
            // Fast path for the most common write: it fits the program unit being filled, and is answered.
            self.media.receive_for(tag);
            let received = self.admit(context, next..end, ready);
            if self.placement.free_units() == 0 {
                self.seal_host_program(context);
            }
            return self.answer_write(context, tag, received);
        }
        let hint = self.streams.as_mut().and_then(|streams| streams.take_hint());
        let (program, trim_pages) = (None, 0);
        let write = WaitingWrite { tag, next, end, in_part, ready, program, hint, trim_pages };
        self.placement.push_waiting(write);
        if self.map.cache().is_some() {
            self.begin_progress(tag, ready);
        }
        if is_first {
            self.admit_waiting(context);
        }
        if self.map.cache().is_some() {
            self.load_map_entries(context.nand, tag, first, units, true);
        }
    }

    /// Admits the data of waiting writes to the buffer in order of arrival, up to one program unit at a time.
    #[inline(always)]
    pub(super) fn admit_waiting(&mut self, context: &mut Context<'_>) {
        while let Some(&mut waiting) = self.placement.first_waiting() {
            let WaitingWrite { tag, next, end, in_part, ready, program, hint, trim_pages } =
                waiting;
            self.media.receive_for(tag);
            if self.streams.is_some() {
                // Other writes may have changed the active stream since this one began.
                self.choose_stream(LogicalUnit(next), hint);
            }
            let until = match self.placement.is_static() {
                true => self.select_group_of(LogicalUnit(next)).0.min(end),
                false => end,
            };
            let admitted = match in_part {
                _ if self.log_blocks.is_some() => self.admit_by_log(context, &waiting),
                false => self.admit_whole(context, next..until, ready),
                true => self.admit_by_parts(context, &waiting, until),
            };
            let Some((count, received)) = admitted else {
                return context.nand.set_buffer_full(true);
            };
            let latest = self.placement.latest();
            let program = program.map_or(latest, |program| program.min(latest));
            if next + count < end {
                let write = self.placement.first_waiting().expect("it is the first");
                (write.next, write.ready, write.program) = (next + count, received, Some(program));
                continue;
            }
            self.placement.pop_waiting();
            let force = match self.requests.get(tag).command {
                Command::Write { force, .. } | Command::WriteSectors { force, .. } => force,
                _ => unreachable!("only writes wait for room"),
            };
            if self.metadata.makes_durable(force) {
                self.counters.fua_writes += u64::from(force);
                self.pad_host_program(context);
                let programs = match self.log_blocks.is_some() {
                    // With log blocks these numbers are in no order, and all program units have been sent: the
                    // write waits for all.
                    true => self.placement.numbers_in_flight(),
                    // Static allocation gives one write places in program units that were begun in another order.
                    false if self.placement.is_static() => {
                        program..self.placement.numbers_in_flight().end
                    }
                    false => program..latest + 1,
                };
                self.wait_until_durable(context, tag, programs, trim_pages, received);
            } else if self.map.cache().is_none() || !self.traffic.note_received(tag, received) {
                self.answer_write(context, tag, received);
            }
        }
        context.nand.set_buffer_full(false);
    }

    /// Admits as many of `units` to the buffer as go into one program unit. Returns their number, and the
    /// moment at which their data is there; `None` if the buffer has no free space.
    #[inline(always)]
    pub(super) fn admit_whole(
        &mut self,
        context: &mut Context<'_>,
        units: std::ops::Range<u32>,
        ready: Instant,
    ) -> Option<(u32, Instant)> {
        if self.placement.free_units() == 0 {
            if !self.placement.has_buffer_space(1) {
                return None;
            }
            self.begin_host_program(context);
        }
        let count = self.placement.free_units().min(units.end - units.start);
        if !self.placement.has_buffer_space(count) {
            return None;
        }
        let received = self.admit(context, units.start..units.start + count, ready);
        if self.placement.free_units() == 0 {
            self.seal_host_program(context);
        }
        Some((count, received))
    }

    /// Admits the next units before `end` of a write that covers units in part to the buffer. Returns their number,
    /// and the moment at which their data is there; `None` if the buffer has no free space.
    #[inline(never)]
    fn admit_by_parts(
        &mut self,
        context: &mut Context<'_>,
        waiting: &WaitingWrite,
        end: u32,
    ) -> Option<(u32, Instant)> {
        let &WaitingWrite { tag, next, ready, .. } = waiting;
        let Command::WriteSectors { first, count, .. } = self.requests.get(tag).command else {
            unreachable!("it covers units in part");
        };
        let parts = self.requests.parts(first, count);
        let until = parts.whole_until(next).min(end);
        if until > next {
            let admitted = self.admit_whole(context, next..until, ready);
            self.counters.host_write_units += admitted.map_or(0, |it| u64::from(it.0));
            return admitted;
        }
        let part = parts.of_unit(next, self.geometry.sectors_per_unit_shift());
        let received = self.admit_part(context, LogicalUnit(next), part)?;
        Some((1, received))
    }

    /// Gives units their places in the program unit being filled, and moves their data over the host link.
    /// Returns the moment at which the data is in the buffer.
    #[inline(always)]
    fn admit(
        &mut self,
        context: &mut Context<'_>,
        units: std::ops::Range<u32>,
        ready: Instant,
    ) -> Instant {
        let count = units.end - units.start;
        let transfer = context.nand.link_time(count);
        let now = context.nand.now();
        let received = context.nand.receive(transfer);
        self.delays.writes.parts.link += transfer;
        if now > ready {
            self.delays.buffer_wait += now.since(ready);
        }
        if self.placement.coalesces() {
            self.place_or_replace(units, received);
        } else {
            self.placement.admit(count, received);
            units.for_each(|unit| self.place(LogicalUnit(unit)));
        }
        received
    }

    /// Puts units whose data arrives at `received` in the place of their old data, if that is in a program unit
    /// which is not final yet; otherwise at the next places.
    #[inline(never)]
    fn place_or_replace(&mut self, units: std::ops::Range<u32>, received: Instant) {
        self.placement.note_received(received);
        for unit in units.map(LogicalUnit) {
            match self.map.get(unit) {
                Some(lies) if self.placement.holds_unsent(lies, &self.geometry) => {
                    // The whole unit is replaced in place, in the way in which a part of it would be.
                    self.media.receive_part(lies, unit, Some(lies));
                }
                _ => {
                    self.placement.admit(1, received);
                    self.place(unit);
                }
            }
        }
    }

    /// Puts one unit at the next place.
    #[inline(always)]
    pub(super) fn place(&mut self, unit: LogicalUnit) {
        let physical = self.give_place(unit);
        self.media.receive(physical, unit);
        self.map_unit(unit, physical);
    }

    /// Gives one unit the next place, and returns the place.
    #[inline(always)]
    pub(super) fn give_place(&mut self, unit: LogicalUnit) -> PhysicalUnit {
        let physical = self.placement.append();
        self.blocks.table_mut().note_written(physical, unit);
        physical
    }

    /// Maps `unit` to `physical`, and invalidates its old place.
    #[inline(always)]
    pub(super) fn map_unit(&mut self, unit: LogicalUnit, physical: PhysicalUnit) {
        if let Some(old) = self.map.set(unit, physical)
            && self.blocks.table_mut().invalidate_unit(self.geometry.block_of(old))
            && self.discard_unsent(old) == Some(Unsent::Copy)
        {
            // The old place held a copy of a unit on a block that waits to be erased. From now on that block
            // has to wait for the data that the host has just written.
            if self.placement.is_volatile() {
                self.collector.await_host(self.placement.latest() + 1);
            }
        }
    }

    /// Clears `old`, which is no longer valid, if its program unit is not final yet: a program unit holds only
    /// units that are valid when it takes its number (see [`crate::media`]). Returns the origin of the unit;
    /// `None` if nothing was cleared.
    #[inline(never)]
    pub(super) fn discard_unsent(&mut self, old: PhysicalUnit) -> Option<Unsent> {
        let is_inactive = self.streams.as_ref().is_some_and(|streams| streams.is_in_inactive(old))
            || self.log_blocks.as_ref().is_some_and(|log| log.is_in_inactive(old));
        let unsent = if self.placement.holds_unsent(old, &self.geometry) || is_inactive {
            Unsent::Written
        } else if self.collector.frontier().holds(old) {
            Unsent::Copy
        } else {
            return None;
        };
        self.blocks.table_mut().clear_reverse_entry(old);
        Some(unsent)
    }

    #[inline(always)]
    pub(super) fn begin_host_program(&mut self, context: &mut Context<'_>) {
        if self.placement.is_partial() {
            // The program unit was held back for the rest of its last unit, which goes elsewhere or comes too
            // late.
            self.seal_host_program(context);
        }
        if self.collector.copies_to_host {
            return self.begin_beside_copies(context);
        }
        let mut is_slc = false;
        if self.placement.needs_block() {
            is_slc = self.makes_space_in_cache(context);
            match is_slc {
                true => self.ensure_free_block_of_cache(context),
                false => self.ensure_free_block(context),
            }
        }
        if self.placement.is_static() && self.placement.needs_block() {
            self.select_group_with_room();
            if self.placement.free_units() > 0 {
                return;
            }
        }
        let units = match &self.slc {
            Some(slc) if is_slc => slc.units_per_block(),
            _ => self.geometry.units_per_block(),
        };
        let opened = self.placement.begin(&mut self.blocks, &self.geometry, units);
        if let Some(block) = opened {
            self.note_block_begun(context.nand, block, true);
            self.hold_block_for_reserve(block);
            if let Some(slc) = self.slc.as_mut().filter(|_| is_slc) {
                slc.add_block(block);
                self.placement.limit_block(slc.programs_per_block());
                self.blocks.table_mut().mark_separate(block);
            }
        }
        if let Some(slc) = &self.slc
            && slc.holds(self.geometry.block_of(self.placement.program_start()))
        {
            self.placement.shorten(slc.units_per_program());
        }
        self.hold_program_for_reserve();
    }

    /// Seals the host's program unit, which is full: it is sent when its data has arrived.
    #[inline(always)]
    pub(super) fn seal_host_program(&mut self, context: &mut Context<'_>) {
        self.seal(context, 0, 0);
    }

    /// Seals the program unit being filled: `padding` of its units are empty, and `copies` are copies by a
    /// merge of log blocks.
    pub(super) fn seal(&mut self, context: &mut Context<'_>, padding: u32, copies: u32) {
        if self.placement.coalesces() {
            return self.keep_or_finalize(context, padding, copies);
        }
        let (filled, number, received) = self.placement.seal(&self.geometry);
        if filled.closes {
            self.blocks.table_mut().close(filled.block, BlockState::Closing);
        }
        self.finalize(context, (filled, number, received), padding, copies);
    }

    /// Keeps the full program unit in the buffer for coalescing, and sends those kept longest if too many are
    /// kept. A program unit with padding or merged copies is sent at once, after all that were kept before it.
    fn keep_or_finalize(&mut self, context: &mut Context<'_>, padding: u32, copies: u32) {
        let filled = self.placement.keep_for_coalescing(&self.geometry);
        if filled.closes {
            self.blocks.table_mut().close(filled.block, BlockState::Closing);
        }
        let is_padded = padding + copies > 0;
        let latest = self.placement.latest();
        while let Some(program) = self.placement.take_kept(&self.geometry, is_padded) {
            let (padding, copies) = if program.1 == latest { (padding, copies) } else { (0, 0) };
            self.finalize(context, program, padding, copies);
        }
    }

    /// Sends all program units that are kept for coalescing.
    pub(super) fn finalize_all(&mut self, context: &mut Context<'_>) {
        while let Some(program) = self.placement.take_kept(&self.geometry, true) {
            self.finalize(context, program, 0, 0);
        }
    }

    /// Sends the program units that are kept for coalescing and have numbers before `end`.
    pub(super) fn finalize_before(&mut self, context: &mut Context<'_>, end: u64) {
        while self.placement.keeps_any_before(end)
            && let Some(program) = self.placement.take_kept(&self.geometry, true)
        {
            self.finalize(context, program, 0, 0);
        }
    }

    /// Makes the contents of a program unit final: it is sent when its data has arrived.
    #[inline(always)]
    fn finalize(
        &mut self,
        context: &mut Context<'_>,
        (filled, number, received): (FilledProgram, u64, Instant),
        padding: u32,
        copies: u32,
    ) {
        let collected = self.placement.copies_in(number);
        self.counters.program_units_host += u64::from(filled.units - padding - copies - collected);
        self.counters.program_units_collection += u64::from(collected);
        self.counters.program_units_merge += u64::from(copies);
        self.counters.program_units_padding += u64::from(padding);
        if let Some(log) = &mut self.log_blocks {
            log.note_sealed(number, filled.closes);
        }
        let units = self.geometry.units_per_program();
        let mut spare = self.blocks.table().spare_area(filled.first, units);
        if self.is_slc(filled.block) {
            spare = OobArea::in_slc_mode(spare.raw());
            self.counters.program_units_slc += u64::from(filled.units);
        }
        if self.log_blocks.as_ref().is_some_and(|log| log.is_recovery_merge(filled.block)) {
            spare = OobArea::with_mark(spare.raw(), SpareMark::RecoveryMerge);
        }
        let sequence = self.placement.latest_number();
        self.media.begin_program(filled.first, spare, sequence);
        let tag = Tag(kind::HOST | number as u32 & kind::NUMBER);
        let received = received.later(context.nand.now());
        context.nand.set_alarm(received, tag);
        self.map_changed(context.nand, filled.units - padding, sequence, Some(number));
    }

    /// Pads and seals the program unit being filled of each host stream, and sends all that are kept for
    /// coalescing.
    pub(super) fn pad_host_program(&mut self, context: &mut Context<'_>) {
        if self.log_blocks.is_some() {
            return self.pad_frontiers(context);
        }
        while self.choose_partial_stream() {
            self.pad_program_unit(context);
        }
        self.finalize_all(context);
    }

    /// Pads the program unit being filled with empty units, and seals it.
    pub(super) fn pad_program_unit(&mut self, context: &mut Context<'_>) {
        let padding = self.placement.free_units();
        for _ in 0..padding {
            let physical = self.placement.append();
            let block = self.geometry.block_of(physical);
            self.blocks.table_mut().note_padding(physical, block);
        }
        self.seal(context, padding, 0);
    }

    /// Notes that the data of a program unit has arrived.
    #[inline(always)]
    pub(super) fn data_received(&mut self, context: &mut Context<'_>, tag: Tag) {
        let number = number_of(tag, self.placement.numbers_in_flight().start);
        self.arrived(context, number);
    }

    /// Notes one of the events that program unit `number` waits for. If it was the last, sends the program unit
    /// to its die, and then those that had to wait for it.
    #[inline(always)]
    pub(super) fn arrived(&mut self, context: &mut Context<'_>, number: u64) {
        let mut next = self.placement.arrived(number, &self.geometry).map(|it| (number, it));
        while let Some((number, program)) = next {
            self.send_host_program(context, number, &program);
            next = self.placement.next_in_turn(number, &program, &self.geometry);
        }
    }

    #[inline(always)]
    fn send_host_program(&mut self, context: &mut Context<'_>, number: u64, program: &HostProgram) {
        let tag = Tag(kind::HOST | number as u32 & kind::NUMBER);
        let after = program.after;
        if let Some(erase) = after
            && program.index < self.geometry.stripe()
        {
            self.expedite_erase(context.nand, erase);
        }
        let (unit, units, written) = (program.first, program.units, program.written());
        let program = self.program_of(program.block);
        context.nand.program(tag, ProgramUnit { unit, units, program, after });
        self.counters.programs += 1;
        match self.collector.copies_to_host {
            false => self.collect_for(context, self.geometry.units_per_program()),
            true if written > 0 => self.collect_for(context, written),
            true => {}
        }
    }

    #[inline(always)]
    pub(super) fn host_programmed(&mut self, context: &mut Context<'_>, tag: Tag) {
        let number = number_of(tag, self.placement.numbers_in_flight().start);
        let (first, closed) = self.placement.end(number, &self.geometry);
        self.media.programmed(first);
        self.reserve.host_programmed(context.nand, number);
        if let Some(block) = closed {
            self.close(block);
        }
        if self.log_blocks.is_some() {
            self.log_programmed(context, number);
        }
        if self.placement.first_waiting().is_some() {
            self.admit_waiting(context);
        }
        self.note_durable(context);
    }

    /// Notes that the last program unit of a block that the host filled is programmed.
    fn close(&mut self, block: crate::units::BlockIndex) {
        let block_table = self.blocks.table_mut();
        if block_table.state(block) == BlockState::Closing {
            block_table.set_state(block, BlockState::Closed);
        }
        self.divide_buffer_wait();
    }
}
