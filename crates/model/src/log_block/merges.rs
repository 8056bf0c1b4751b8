//! The merges of log blocks: switch, partial and full.
//!
//! Copies are read like the host's pages and programmed like its data, row after row of a
//! superblock: the next row is read when the one before is programmed, so RAM holds one.

use super::LogBlockSsd;
use crate::flash::BlockState;
use crate::mapping::Mapping;
use crate::media::Media;
use crate::resources::{Class, Resource};
use crate::stream::WriteStream;
use crate::units::{BlockIndex, Instant, LogicalUnit, PhysicalUnit};

impl<M: Mapping, D: Media> LogBlockSsd<M, D> {
    /// Makes the sequential log block the data block of its logical block: as it is when it is
    /// full (switch merge), else with copies of what it lacks (partial merge). Returns when the
    /// host can go on.
    pub(super) fn end_sequence(&mut self, at: Instant) -> Instant {
        let Some(sequence) = self.sequence.take() else {
            return at;
        };
        let units = self.units_of(sequence.logical_block);
        let mut ready = at;
        if sequence.next == units {
            self.ssd.counters.switch_merges += 1;
        } else {
            self.ssd.counters.partial_merges += 1;
        }
        let stream =
            std::mem::replace(self.ssd.collector.stream(), WriteStream::new(&self.ssd.geometry));
        let merged = std::mem::replace(&mut self.merged, stream);
        let (logical, block) = (sequence.logical_block, sequence.block);
        ready = self.copy_into(logical, block, sequence.next, ready);
        self.merged = merged;
        self.replace_data(logical, block, ready);
        ready
    }

    /// Reclaims the oldest random log block: a full merge for each logical block that has valid
    /// units in it. Returns when the host can go on.
    pub(super) fn reclaim_oldest_log(&mut self, at: Instant) -> Instant {
        let log = self.logs[0];
        let per_block = self.ssd.geometry.units_per_block();
        let first = self.ssd.geometry.first_unit(log).0;
        let held = |this: &Self, place: u32| this.ssd.flash.logical_at(PhysicalUnit(place));
        let mut ready = at;
        // What the sequence has written anew may be in RAM only.
        if let Some(sequence) = self.sequence
            && (first..first + per_block).any(|place| {
                held(self, place).is_some_and(|it| it.0 / per_block == sequence.logical_block)
            })
        {
            ready = self.end_sequence(ready);
        }
        for place in first..first + per_block {
            let Some(unit) = held(self, place) else { continue };
            if self.ssd.map.get(unit) == Some(PhysicalUnit(place)) {
                ready = self.full_merge(unit.0 / per_block, ready);
            }
        }
        self.logs.pop_front();
        let durable = self.drained_at(ready);
        self.erase(log, durable);
        ready
    }

    /// Writes the newest version of each unit of a logical block to a fresh data block, in order.
    fn full_merge(&mut self, logical: u32, at: Instant) -> Instant {
        self.ssd.counters.full_merges += 1;
        let free = self.block_free_at(at);
        let block = self.take_block();
        if self.is_recovering {
            self.ssd.media.mark_redone(block);
        }
        let ready = self.copy_into(logical, block, 0, free);
        self.replace_data(logical, block, ready);
        ready
    }

    fn replace_data(&mut self, logical: u32, block: BlockIndex, ready: Instant) {
        if let Some(old) = self.data[logical as usize].replace(block) {
            let durable = self.drained_at(ready);
            self.erase(old, durable);
        }
    }

    /// Copies what is mapped of a logical block from `offset` on to the same offsets of `block`,
    /// the first of them into what is left of a program unit that is begun; closes the block.
    /// Returns when that is programmed.
    fn copy_into(&mut self, logical: u32, block: BlockIndex, offset: u32, at: Instant) -> Instant {
        let per_block = self.ssd.geometry.units_per_block();
        let units = self.ssd.geometry.units_per_program();
        let row = units * self.ssd.geometry.stripe();
        let first = logical * per_block;
        let until = (offset..self.units_of(logical))
            .rev()
            .find(|&it| self.ssd.map.get(LogicalUnit(first + it)).is_some())
            .map_or(offset, |last| last + 1);
        let (mut start, mut ready) = (at, at);
        let mut next = offset;
        while next < until || self.merged.is_partial() {
            if next.is_multiple_of(row) {
                start = ready;
            }
            if self.merged.room() == 0 {
                self.merged.begin_program_in(&self.ssd.geometry, block, next / units);
            }
            let buffered = next % units;
            let mut data_at = self.ssd.buffer.received_until().max(start);
            let mut sensed = None;
            for at_offset in next..next - buffered + units {
                let to = self.merged.append();
                let unit = LogicalUnit(first + at_offset);
                let from = if at_offset < until { self.ssd.map.get(unit) } else { None };
                match from {
                    Some(from) => {
                        data_at = data_at.max(self.read_copy(from, start, &mut sensed));
                        self.move_unit(unit, from, to);
                    }
                    None => {
                        self.ssd.flash.note_padding(to, block);
                        self.ssd.counters.program_units_padding += 1;
                    }
                }
            }
            next += units - buffered;
            let filled = self.merged.finish_program(&self.ssd.geometry);
            self.ssd.counters.program_units_host += u64::from(buffered);
            let span = self.ssd.send_filled(&filled, data_at, buffered);
            ready = ready.max(span.end);
        }
        self.close(block, next);
        self.merging_until = self.merging_until.max(ready);
        ready
    }

    /// Reads a unit that is copied, with others of its page at once; returns when it is in RAM.
    fn read_copy(
        &mut self,
        from: PhysicalUnit,
        start: Instant,
        sensed: &mut Option<(u32, Instant)>,
    ) -> Instant {
        let ssd = &mut self.ssd;
        if ssd.is_buffered(from, start) || ssd.is_being_copied(from) {
            return start;
        }
        let sense = ssd.geometry.sense_of(from);
        let die = ssd.geometry.die_of(from);
        let at = match *sensed {
            Some((known, at)) if known == sense => at,
            _ => {
                ssd.counters.flash_page_reads_collection += 1;
                ssd.counters.flash_reads_collection += 1;
                let duration =
                    if ssd.pages_differ { ssd.page_read_there(from) } else { ssd.timing.page_read };
                let at = ssd.aside(|ssd| ssd.sense(die, start, duration));
                *sensed = Some((sense, at));
                at
            }
        };
        let channel = Resource::Channel(ssd.geometry.channel_of(die));
        ssd.resources.reserve(channel, Class::Background, at, ssd.unit_over_channel).end
    }

    fn move_unit(&mut self, unit: LogicalUnit, from: PhysicalUnit, to: PhysicalUnit) {
        let ssd = &mut self.ssd;
        ssd.flash.note_written(to, unit);
        ssd.media.copy(from, to);
        ssd.map.relocate(unit, to);
        if ssd.flash.lose_unit(ssd.geometry.block_of(from)) {
            ssd.forget_unsent(from);
        }
        ssd.counters.program_units_merge += 1;
    }

    /// Nothing more is written to `block`, of which `written` units are.
    fn close(&mut self, block: BlockIndex, written: u32) {
        let ssd = &mut self.ssd;
        let first = ssd.geometry.first_unit(block).0;
        if ssd.flash.state(block) == BlockState::OpenForHost {
            for unit in written..ssd.geometry.units_per_block() {
                ssd.flash.note_padding(PhysicalUnit(first + unit), block);
            }
            ssd.flash.close(block, BlockState::Closing);
        }
    }
}
