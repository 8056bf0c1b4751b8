//! Greedy collection that keeps pace with the host.

use std::collections::VecDeque;

use ssdlab_nand::ProgramLog;
use ssdlab_nand::geometry::Geometry;
use ssdlab_units::Instant;

use super::device::{Device, Handles};
use super::numbered::Numbered;
use super::writes::Frontier;
use super::{Drive, NONE, prefetch};

#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    next: u32,
    end: u32,
}

/// A block of which nothing is valid any more.
#[derive(Clone)]
struct ReclaimedBlock<H: Handles> {
    block: u32,
    /// Copies before this one have to be programmed before it is erased.
    copies: u64,
    last: Option<H::Copies>,
    /// Its erase, where that was announced already.
    erase: Option<H::Erase>,
}

#[derive(Clone)]
pub struct Collector<H: Handles> {
    victim: Option<Victim>,
    /// Units to move for each that the host writes, and those that are owed, in 1/65,536.
    rate: i64,
    credit: i64,
    frontier: Frontier,
    filling: Option<H::Copies>,
    latest: Option<H::Copies>,
    /// Places of the program units of copies that are under way.
    places: Numbered<u32>,
    copies: ProgramLog,
    reclaimed: VecDeque<ReclaimedBlock<H>>,
    erasing: u32,
    low_water: u32,
    units_per_sense: u32,
    senses_per_program: u32,
    /// Valid units of a sense.
    scratch: Vec<u32>,
    pub programmed: u64,
}

impl<H: Handles> Collector<H> {
    pub fn new(geometry: &Geometry, low_water: u32) -> Collector<H> {
        Collector {
            victim: None,
            rate: 0,
            credit: 0,
            frontier: Frontier::new(geometry.groups()),
            filling: None,
            latest: None,
            places: Numbered::new(NONE),
            copies: ProgramLog::default(),
            reclaimed: VecDeque::new(),
            erasing: 0,
            low_water,
            units_per_sense: 1 << geometry.units_per_sense_shift(),
            senses_per_program: geometry.units_per_program() >> geometry.units_per_sense_shift(),
            scratch: vec![0; MAX_UNITS_PER_SENSE],
            programmed: 0,
        }
    }
}

impl<H: Handles> Drive<H> {
    fn free_blocks_expected(&self) -> u32 {
        let reclaimed = if self.is_eager { 0 } else { self.collector.reclaimed.len() as u32 };
        self.blocks.free_count + reclaimed + self.collector.erasing
    }

    /// Collection's share for a program unit of the host's.
    #[inline(always)]
    pub(super) fn keep_pace<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        if self.collector.victim.is_some() || self.free_blocks_expected() < self.collector.low_water
        {
            self.collect_share(flash, at);
        }
    }

    fn collect_share<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        if !self.begin_victim() {
            return;
        }
        let coming = 1 + self.free_blocks_expected();
        let behind = self.collector.low_water.saturating_sub(coming).min(12);
        let units = i64::from(self.units_per_program);
        self.collector.credit += units * self.collector.rate * i64::from(4 + behind) / 4;
        while self.collector.credit > 0 && self.can_collect() {
            self.collector.credit -= i64::from(self.collect_program(flash, at)) << 16;
            if self.collector.victim.is_none() && !self.begin_victim() {
                return;
            }
        }
    }

    /// The host waits for a block: collects until one is coming, and fills up the copies that its erase
    /// waits for.
    pub(super) fn collect_until_space<D: Device<H>>(&mut self, flash: &mut D, at: Instant) {
        let groups = self.blocks.free.len() as u32;
        while self.free_blocks_expected() <= groups + 1 && self.can_collect() && self.begin_victim()
        {
            self.collect_program(flash, at);
        }
        if self.collector.erasing == 0 && !self.collector.reclaimed.is_empty() {
            self.pad_copies(flash, at);
        }
    }

    fn can_collect(&self) -> bool {
        self.collector.frontier.has_space(&self.blocks)
    }

    fn begin_victim(&mut self) -> bool {
        if self.collector.victim.is_some() {
            return true;
        }
        if self.free_blocks_expected() >= self.collector.low_water {
            return false;
        }
        let Some((block, valid)) = self.blocks.take_victim() else { return false };
        let size = self.blocks.units_per_block;
        let next = block * size;
        self.collector.victim = Some(Victim { block, next, end: next + size });
        self.collector.rate = (i64::from(valid) << 16) / i64::from(size - valid);
        true
    }

    /// Moves what is valid in the victim's next program unit. Returns how many units that is.
    #[inline(never)]
    fn collect_program<D: Device<H>>(&mut self, flash: &mut D, at: Instant) -> u32 {
        let Some(mut victim) = self.collector.victim else { return 0 };
        let mut moved = 0;
        let sense = self.collector.units_per_sense;
        let mut units = std::mem::take(&mut self.collector.scratch);
        for _ in 0..self.collector.senses_per_program {
            let first = victim.next;
            victim.next += sense;
            self.prefetch_ahead(first as usize, sense as usize);
            let mut count = 0;
            let held = &self.blocks.reverse[first as usize..(first + sense) as usize];
            let scratch = &mut units[..MAX_UNITS_PER_SENSE];
            for (&unit, place) in held.iter().zip(first..) {
                scratch[count % MAX_UNITS_PER_SENSE] = unit;
                count += usize::from(self.map.get(unit as usize) == Some(&place));
            }
            if count > 0 {
                self.move_units(flash, &units[..count], first);
            }
            moved += count as u32;
        }
        self.collector.scratch = units;
        self.collector.victim = Some(victim);
        if victim.next == victim.end {
            self.end_victim(flash, victim.block, at);
        }
        moved
    }

    /// Asks some program units ahead for the reverse map, and for the lines of the map that it leads to.
    #[inline(always)]
    fn prefetch_ahead(&self, first: usize, sense: usize) {
        prefetch(&self.blocks.reverse, first + 8 * sense);
        if let Some(ahead) = self.blocks.reverse.get(first + 3 * sense..first + 4 * sense) {
            for &unit in ahead {
                prefetch(&self.map, unit as usize);
            }
        }
    }

    #[inline(always)]
    fn move_units<D: Device<H>>(&mut self, flash: &mut D, units: &[u32], from: u32) {
        let mut into = [None; 2];
        let mut left = units;
        for into in &mut into {
            if left.is_empty() {
                break;
            }
            if self.collector.frontier.units_left() == 0 {
                self.begin_copies(flash);
            }
            *into = self.collector.filling;
            let count = left.len().min(self.collector.frontier.units_left() as usize);
            let (now, later) = left.split_at(count);
            left = later;
            let place = self.collector.frontier.append(&self.blocks, count as u32);
            let reverse = &mut self.blocks.reverse[place as usize..place as usize + count];
            for ((&unit, reverse), place) in now.iter().zip(reverse).zip(place..) {
                *reverse = unit;
                self.map[unit as usize] = place;
            }
        }
        let first = into[0].expect("a unit was moved");
        flash.copy(from, units.len() as u32, first, into[1]);
        // The first is full if there is a second; the last is if no room is left.
        if into[1].is_some() {
            flash.complete_copies(first);
        }
        if self.collector.frontier.units_left() == 0 {
            flash.complete_copies(into[1].unwrap_or(first));
        }
    }

    fn begin_copies<D: Device<H>>(&mut self, flash: &mut D) {
        let units = self.units_per_program;
        let place = self.collector.frontier.begin(&mut self.blocks, units, 0);
        let place = place.expect("copies have room");
        let after = self.blocks.erase_before(place);
        let copies = flash.begin_copies(place, after);
        self.collector.filling = Some(copies);
        self.collector.latest = Some(copies);
        let number = self.collector.copies.begin();
        self.collector.places.insert(number, self.collector.copies.low_water(), place);
        self.collector.programmed += 1;
    }

    fn pad_copies<D: Device<H>>(&mut self, flash: &mut D, _: Instant) {
        let room = self.collector.frontier.units_left();
        if let Some(copies) = self.collector.filling.filter(|_| room > 0) {
            let place = self.collector.frontier.append(&self.blocks, room);
            self.blocks.pad(place..place + room);
            flash.complete_copies(copies);
        }
    }

    fn end_victim<D: Device<H>>(&mut self, flash: &mut D, block: u32, at: Instant) {
        self.collector.victim = None;
        let (copies, last) = (self.collector.copies.next(), self.collector.latest);
        let erase = self.is_eager.then(|| self.free_after_erase(flash, block));
        self.collector.reclaimed.push_back(ReclaimedBlock { block, copies, last, erase });
        self.issue_safe_erases(flash, at);
    }

    /// Announces the erase of a block, which can be written to from now on.
    fn free_after_erase<D: Device<H>>(&mut self, flash: &mut D, block: u32) -> H::Erase {
        let erase = flash.announce_erase(block);
        self.blocks.note_erase(block, Some(erase));
        self.blocks.release(block);
        erase
    }

    fn issue_safe_erases<D: Device<H>>(&mut self, flash: &mut D, _: Instant) {
        let low = self.collector.copies.low_water();
        while self.collector.reclaimed.front().is_some_and(|it| it.copies <= low) {
            let Some(ReclaimedBlock { block, erase, .. }) = self.collector.reclaimed.pop_front()
            else {
                return;
            };
            let erase = erase.unwrap_or_else(|| {
                self.collector.erasing += 1;
                let erase = flash.announce_erase(block);
                self.blocks.note_erase(block, Some(erase));
                erase
            });
            flash.erase(erase);
        }
    }

    /// The host programs to a block whose erase has not been issued: has the copies done that it waits for.
    pub(super) fn prioritise_erase<D: Device<H>>(&mut self, flash: &mut D, erase: H::Erase) {
        let waiting = self.collector.reclaimed.iter().find(|it| it.erase == Some(erase));
        let Some(&ReclaimedBlock { last: Some(last), copies, .. }) = waiting else { return };
        if self.collector.frontier.units_left() > 0 && copies == self.collector.copies.next() {
            self.pad_copies(flash, Instant::START);
        }
        flash.prioritise_copies(last);
    }

    #[inline(always)]
    pub fn copies_programmed<D: Device<H>>(&mut self, flash: &mut D, index: u32, at: Instant) {
        let low = self.collector.copies.low_water();
        let number = low + u64::from(index.wrapping_sub(low as u32) & (u32::MAX >> 1));
        let first = self.collector.places.get(number);
        self.note(at, "copies programmed", first);
        self.blocks.note_programmed(first);
        if self.collector.copies.end(number) {
            self.issue_safe_erases(flash, at);
        }
    }

    pub fn erased<D: Device<H>>(&mut self, flash: &mut D, erase: H::Erase, at: Instant) {
        let block = self.blocks.block_erased_by(erase);
        self.note(at, "erased", block);
        self.blocks.note_erase(block, None);
        if !self.is_eager {
            self.collector.erasing -= 1;
            self.blocks.release(block);
        }
        if !self.waiting.is_empty() {
            self.admit_waiting(flash, at);
        }
    }
}

/// Units that one sense reads at most.
const MAX_UNITS_PER_SENSE: usize = 64;
