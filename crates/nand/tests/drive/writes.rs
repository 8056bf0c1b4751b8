//! Writes: room in the buffer, places in the open blocks, programs, flush and FUA.

use ssdlab_units::Instant;

use super::blocks::Blocks;
use super::device::{Device, Handles};
use super::{Drive, NONE};

/// Where a stream writes next: an open block in each group, taken in turn by program units.
#[derive(Clone, Debug)]
pub struct Frontier {
    open: Vec<u32>,
    group: usize,
    /// The next place of the program unit that is being filled, and its end; equal if none is.
    next: u32,
    end: u32,
    pub programmed: u64,
}

impl Frontier {
    pub fn new(groups: u32) -> Frontier {
        let groups = groups as usize;
        Frontier { open: vec![NONE; groups], group: groups - 1, next: 0, end: 0, programmed: 0 }
    }

    /// Places left in the program unit that is being filled.
    #[inline(always)]
    pub fn units_left(&self) -> u32 {
        self.end - self.next
    }

    /// The next group that has an open block, or a free one beside `kept`.
    fn next_group<H: Handles>(&self, blocks: &Blocks<H>, kept: usize) -> Option<usize> {
        let groups = self.open.len();
        let mut group = self.group;
        for _ in 0..groups {
            group = if group + 1 == groups { 0 } else { group + 1 };
            if self.open[group] != NONE || blocks.free[group].len() > kept {
                return Some(group);
            }
        }
        None
    }

    #[inline(always)]
    pub fn can_begin<H: Handles>(&self, blocks: &Blocks<H>, kept: usize) -> bool {
        self.units_left() > 0 || self.next_group(blocks, kept).is_some()
    }

    /// Returns true if there is room for as much as a program unit, behind the one that is being filled.
    pub fn has_space<H: Handles>(&self, blocks: &Blocks<H>) -> bool {
        let is_last = |group: usize| {
            self.units_left() > 0 && group == self.group && blocks.is_block_start(self.end)
        };
        (0..self.open.len()).any(|group| {
            self.open[group] != NONE && !is_last(group) || !blocks.free[group].is_empty()
        })
    }

    /// Begins a program unit and returns its first unit.
    pub fn begin<H: Handles>(
        &mut self,
        blocks: &mut Blocks<H>,
        units: u32,
        kept: usize,
    ) -> Option<u32> {
        self.group = self.next_group(blocks, kept)?;
        if self.open[self.group] == NONE {
            self.open[self.group] = blocks.open(self.group, kept)?;
        }
        self.next = self.open[self.group];
        self.end = self.next + units;
        self.programmed += 1;
        Some(self.next)
    }

    /// Takes the next `count` places and returns the first.
    #[inline(always)]
    pub fn append<H: Handles>(&mut self, blocks: &Blocks<H>, count: u32) -> u32 {
        let first = self.next;
        self.next += count;
        if self.next == self.end {
            let is_block_full = blocks.is_block_start(self.end);
            self.open[self.group] = if is_block_full { NONE } else { self.end };
        }
        first
    }
}

/// A write that waits for room: what is left of it, and its first program, if it has one.
#[derive(Clone, Copy, Debug)]
pub struct WaitingWrite {
    slot: u32,
    unit: u32,
    units: u32,
    first: Option<u64>,
}

/// The host's program units that are not programmed: first unit, and how much of the buffer they hold.
#[derive(Clone, Copy, Debug)]
pub struct HostProgram {
    pub first: u32,
    pub data: u32,
}

impl<H: Handles> Drive<H> {
    #[inline(always)]
    pub(super) fn write<D: Device<H>>(
        &mut self,
        flash: &mut D,
        slot: u32,
        unit: u32,
        units: u32,
        at: Instant,
    ) {
        // Behind others that wait nothing has changed.
        let is_first = self.waiting.is_empty();
        if is_first && units == 1 && self.has_space(1) {
            let (number, end) = self.admit(flash, unit, 1, at);
            return self.written(flash, slot, (number, number), end);
        }
        self.waiting.push_back(WaitingWrite { slot, unit, units, first: None });
        if is_first {
            self.admit_waiting(flash, at);
        }
    }

    #[inline(always)]
    fn has_space(&self, units: u32) -> bool {
        self.buffer_used + units <= self.buffer && self.frontier.can_begin(&self.blocks, 1)
    }

    /// Lets data into the buffer in the order in which it came, as much at a time as goes into one
    /// program unit.
    pub(super) fn admit_waiting<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        while let Some(&WaitingWrite { slot, unit, units, first }) = self.waiting.front() {
            let room = match self.frontier.units_left() {
                0 => self.units_per_program,
                room => room,
            };
            let count = units.min(room);
            if !self.has_space(count) {
                if self.buffer_used + count <= self.buffer {
                    self.collect_until_space(flash, at);
                    if self.has_space(count) {
                        continue;
                    }
                }
                return;
            }
            let (number, end) = self.admit(flash, unit, count, at);
            let first = first.unwrap_or(number);
            if count == units {
                self.waiting.pop_front();
                self.written(flash, slot, (first, number), end);
            } else {
                let front = self.waiting.front_mut().expect("there is a front");
                let (unit, units) = (unit + count, units - count);
                *front = WaitingWrite { slot, unit, units, first: Some(first) };
            }
        }
    }

    /// Gives units their places in one program unit and moves their data over the link.
    #[inline(always)]
    fn admit<D: Device<H>>(
        &mut self,
        flash: &mut D,
        unit: u32,
        units: u32,
        at: Instant,
    ) -> (u64, Instant) {
        if self.frontier.units_left() == 0 {
            self.begin_program();
        }
        self.buffer_used += units;
        self.filling.data += units;
        let end = flash.receive(units);
        let number = self.programs.next() - 1;
        let first = self.frontier.append(&self.blocks, units);
        for (unit, place) in (unit..unit + units).zip(first..) {
            self.blocks.reverse[place as usize] = unit;
            let old = std::mem::replace(&mut self.map[unit as usize], place);
            if old != NONE {
                self.blocks.invalidate(old);
            }
        }
        self.received_until = end;
        if self.frontier.units_left() == 0 {
            self.end_program(flash, at);
        }
        (number, end)
    }

    #[inline(never)]
    fn begin_program(&mut self) {
        let units = self.units_per_program;
        let first = self.frontier.begin(&mut self.blocks, units, 1).expect("there is a block");
        self.programs.begin();
        self.filling = HostProgram { first, data: 0 };
    }

    /// The host's program unit is full: it is sent to its die when its data is in the buffer.
    #[inline(always)]
    fn end_program<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        let (oldest, number) = (self.programs.low_water(), self.programs.next() - 1);
        self.host_programs.insert(number, oldest, self.filling);
        self.received_until = self.received_until.later(at);
        flash.set_alarm(self.received_until, 0);
    }

    /// All of a write is in the buffer at `end`.
    #[inline(always)]
    fn written<D: Device<H>>(
        &mut self,
        flash: &mut D,
        slot: u32,
        programs: (u64, u64),
        end: Instant,
    ) {
        if self.host.request(slot).operation != super::host::Operation::WriteFua {
            return self.answer(flash, slot, end);
        }
        self.pad(flash, end);
        self.barriers.push((programs.0, programs.1, slot));
    }

    pub(super) fn flush<D: Device<H>>(&mut self, flash: &mut D, slot: u32, at: Instant) {
        self.pad(flash, at);
        if self.programs.low_water() == self.programs.next() {
            return self.answer(flash, slot, at);
        }
        self.barriers.push((self.programs.low_water(), self.programs.next() - 1, slot));
    }

    /// Fills up the host's program unit, which is sent when its data is there.
    fn pad<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        let room = self.frontier.units_left();
        if room > 0 {
            let first = self.frontier.append(&self.blocks, room);
            self.blocks.pad(first..first + room);
            self.end_program(flash, at);
        }
    }

    /// All data of the oldest program unit that was not sent is in the buffer.
    #[inline(always)]
    pub fn data_received<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        let number = self.sent;
        self.sent += 1;
        let first = self.host_programs.get(number).first;
        let after = self.blocks.erase_before(first);
        if let Some(erase) = after {
            self.prioritise_erase(flash, erase);
        }
        flash.program(number as u32, first, after);
        self.keep_pace(flash, at);
        if !self.waiting.is_empty() {
            self.admit_waiting(flash, at);
        }
    }

    #[inline(always)]
    pub fn programmed<D: Device<H>>(&mut self, flash: &mut D, tag: u32, at: Instant) {
        let low = self.programs.low_water();
        let number = low + u64::from(tag.wrapping_sub(low as u32));
        let HostProgram { first, data } = self.host_programs.get(number);
        self.note(at, "programmed", first);
        self.blocks.note_programmed(first);
        self.buffer_used -= data;
        self.programs.end(number);
        if !self.waiting.is_empty() {
            self.admit_waiting(flash, at);
        }
        if !self.barriers.is_empty() {
            self.answer_durable(flash, at);
        }
    }

    fn answer_durable<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        let barriers = std::mem::take(&mut self.barriers);
        for (first, last, slot) in barriers {
            if self.programs.are_complete(first..=last) {
                self.answer(flash, slot, at);
            } else {
                self.barriers.push((first, last, slot));
            }
        }
    }
}
