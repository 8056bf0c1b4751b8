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
    /// The next place of the program unit that is being filled, if one is.
    pub next: Option<u32>,
    pub programmed: u64,
}

impl Frontier {
    pub fn new(groups: u32) -> Frontier {
        let groups = groups as usize;
        Frontier { open: vec![NONE; groups], group: groups - 1, next: None, programmed: 0 }
    }

    /// The next group that has an open block, or a free one beside `kept`.
    fn next_group<H: Handles>(&self, blocks: &Blocks<H>, kept: usize) -> Option<usize> {
        let groups = self.open.len();
        (1..=groups)
            .map(|ahead| (self.group + ahead) % groups)
            .find(|&group| self.open[group] != NONE || blocks.free[group].len() > kept)
    }

    pub fn can_begin<H: Handles>(&self, blocks: &Blocks<H>, kept: usize) -> bool {
        self.next.is_some() || self.next_group(blocks, kept).is_some()
    }

    /// Whether there is room for as much as a program unit, behind the one that is being filled.
    pub fn has_room<H: Handles>(&self, blocks: &Blocks<H>, units_per_program: u32) -> bool {
        let is_last = |group: usize| {
            let end = self.open[group] + units_per_program;
            self.next.is_some() && group == self.group && blocks.is_block_start(end)
        };
        (0..self.open.len()).any(|group| {
            !blocks.free[group].is_empty() || self.open[group] != NONE && !is_last(group)
        })
    }

    /// Begins a program unit and returns its first unit.
    pub fn begin<H: Handles>(&mut self, blocks: &mut Blocks<H>, kept: usize) -> Option<u32> {
        self.group = self.next_group(blocks, kept)?;
        if self.open[self.group] == NONE {
            self.open[self.group] = blocks.open(self.group, kept)?;
        }
        self.next = Some(self.open[self.group]);
        self.programmed += 1;
        self.next
    }

    /// Takes the next place. Returns it, and whether the program unit is full with it.
    #[inline(always)]
    pub fn append<H: Handles>(&mut self, blocks: &Blocks<H>) -> (u32, bool) {
        let unit = self.next.expect("a program unit was begun");
        let is_full = blocks.starts_program(unit + 1);
        self.next = Some(unit + 1);
        if is_full {
            self.next = None;
            let is_block_full = blocks.is_block_start(unit + 1);
            self.open[self.group] = if is_block_full { NONE } else { unit + 1 };
        }
        (unit, is_full)
    }
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
        if units == 1 && self.waiting.is_empty() && self.has_room(1) {
            let (number, end) = self.let_in(flash, unit, 1, at);
            return self.written(flash, slot, (number, number), end);
        }
        self.waiting.push_back((slot, unit, units, None));
        self.let_waiting_in(flash, at);
    }

    #[inline(always)]
    fn has_room(&self, units: u32) -> bool {
        self.buffer_used + units <= self.buffer && self.frontier.can_begin(&self.blocks, 1)
    }

    /// Lets data into the buffer in the order in which it came, as much at a time as goes into one
    /// program unit.
    pub(super) fn let_waiting_in<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        while let Some(&(slot, unit, units, first)) = self.waiting.front() {
            let next = self.frontier.next.unwrap_or(0);
            let room = self.units_per_program - next % self.units_per_program;
            let count = units.min(room);
            if !self.has_room(count) {
                if self.buffer_used + count <= self.buffer {
                    self.collect_until_room(flash, at);
                    if self.has_room(count) {
                        continue;
                    }
                }
                return;
            }
            let (number, end) = self.let_in(flash, unit, count, at);
            let first = first.unwrap_or(number);
            if count == units {
                self.waiting.pop_front();
                self.written(flash, slot, (first, number), end);
            } else {
                let front = self.waiting.front_mut().expect("there is a front");
                *front = (slot, unit + count, units - count, Some(first));
            }
        }
    }

    /// Gives units their places in one program unit and moves their data over the link.
    #[inline(always)]
    fn let_in<D: Device<H>>(
        &mut self,
        flash: &mut D,
        unit: u32,
        units: u32,
        at: Instant,
    ) -> (u64, Instant) {
        if self.frontier.next.is_none() {
            let first = self.frontier.begin(&mut self.blocks, 1).expect("there is a block");
            self.programs.begin();
            self.host_programs.push_back(HostProgram { first, data: 0 });
        }
        self.buffer_used += units;
        let end = flash.receive(units);
        let number = self.programs.next() - 1;
        self.host_programs.back_mut().expect("one is being filled").data += units;
        for unit in unit..unit + units {
            let (place, is_full) = self.frontier.append(&self.blocks);
            self.blocks.reverse[place as usize] = unit;
            let old = std::mem::replace(&mut self.map[unit as usize], place);
            if old != NONE {
                self.blocks.invalidate(old);
            }
            if is_full {
                self.received_until = end.max(at);
                flash.set_alarm(self.received_until, 0);
            }
        }
        self.received_until = end;
        (number, end)
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
        while self.frontier.next.is_some() {
            let (place, is_full) = self.frontier.append(&self.blocks);
            self.blocks.reverse[place as usize] = NONE;
            self.blocks.invalidate(place);
            if is_full {
                self.received_until = self.received_until.max(at);
                flash.set_alarm(self.received_until, 0);
            }
        }
    }

    /// All data of the oldest program unit that was not sent is in the buffer.
    #[inline(always)]
    pub fn data_received<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        let number = self.sent;
        self.sent += 1;
        let place = (number - self.programs.low_water()) as usize;
        let first = self.host_programs[place].first;
        let after = self.blocks.erase_before(first);
        if let Some(erase) = after {
            self.hurry_erase(flash, erase);
        }
        flash.program(number as u32, first, after);
        self.keep_pace(flash, at);
        if !self.waiting.is_empty() {
            self.let_waiting_in(flash, at);
        }
    }

    #[inline(always)]
    pub fn programmed<D: Device<H>>(&mut self, flash: &mut D, tag: u32, at: Instant) {
        let low = self.programs.low_water();
        let number = low + u64::from(tag.wrapping_sub(low as u32));
        let HostProgram { first, data } = self.host_programs[(number - low) as usize];
        self.note(at, "programmed", first);
        self.blocks.note_programmed(first);
        self.buffer_used -= data;
        self.programs.end(number);
        (low..self.programs.low_water()).for_each(|_| {
            self.host_programs.pop_front();
        });
        if !self.waiting.is_empty() {
            self.let_waiting_in(flash, at);
        }
        if !self.barriers.is_empty() {
            self.answer_durable(flash, at);
        }
    }

    fn answer_durable<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        let barriers = std::mem::take(&mut self.barriers);
        for (first, last, slot) in barriers {
            if self.programs.are_over(first..=last) {
                self.answer(flash, slot, at);
            } else {
                self.barriers.push((first, last, slot));
            }
        }
    }
}
