//! Where data goes: a plain page map, two write streams, greedy collection.
//!
//! This part knows no time. It decides in the order in which the controller takes requests up,
//! and hands out what the flash has to do; the rest of the reference finds out when that is done.

use std::collections::VecDeque;

use super::map::Map;
use super::shape::{Place, Shape};

/// A program unit by its place: its block, and its number in there.
pub type Row = (usize, usize);

/// Collection's work for the flash.
#[derive(Clone, Debug)]
pub enum Background {
    /// Sense some pages of one multi-plane group, which takes `took`, and transfer `units` units of them.
    Read { read: u64, die: usize, units: usize, took: u64 },
    /// Program a full unit, once `reads` have delivered what goes into it.
    ///
    /// Not before the host's programs up to `after_held` are over, of those that wait for erases.
    Program { copy: u64, die: usize, block: usize, reads: Vec<u64>, after_held: Option<u64> },
    /// Erase a block as soon as the copy program `after`, the host's program `after_host`, and
    /// all before them are over: then what it held is durable elsewhere, moved or written anew.
    Erase { block: usize, after: u64, after_host: u64 },
}

/// A full program unit of the host's, and the collection it gave rise to.
#[derive(Clone, Debug)]
pub struct HostProgram {
    pub row: Row,
    pub die: usize,
    /// True if it is the first on its die in this block, so that the erase there comes before.
    pub first_on_die: bool,
    pub data_units: u32,
    /// It waits until so many erases are issued in all.
    pub after_issued: u64,
}

/// Units of one request that go into one program unit.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub program: u64,
    pub row: Row,
    pub units: u32,
    /// Set when the program unit is full with them.
    pub fills: Option<HostProgram>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Closed,
    Victim,
}

#[derive(Clone, Debug)]
struct Block {
    state: State,
    holds: Vec<Option<u32>>,
    valid: usize,
    /// When its valid count last changed. Among equals the model takes the latest; with the same
    /// rule both make the same choices, and any difference left is one of time.
    touched: u64,
}

/// A stream and the program unit that it is filling.
#[derive(Clone, Debug)]
struct Stream {
    /// The open block of each group and how many of its units are written.
    open: Vec<Option<Place>>,
    group: usize,
    /// Units in the program unit being filled; zero when none has been begun.
    filled: usize,
    /// Program units begun so far.
    programs: u64,
}

#[derive(Clone, Copy, Debug)]
struct Victim {
    block: usize,
    copies_per_unit: f64,
    next_offset: usize,
}

#[derive(Clone, Debug)]
pub struct Placement {
    shape: Shape,
    map: Vec<Option<Place>>,
    blocks: Vec<Block>,
    free: Vec<VecDeque<usize>>,
    host: Stream,
    copies: Stream,
    victim: Option<Victim>,
    /// Blocks that were reclaimed, with the copy program that holds the last copy and the host's
    /// program that holds the latest of what was written anew.
    reclaimed: VecDeque<(usize, u64, u64)>,
    /// Those of which that program is full, until it is over.
    not_durable: VecDeque<usize>,
    reserve: Reserve,
    credit: f64,
    changes: u64,
    /// Reads that feed the copy program being filled.
    feeding: Vec<u64>,
    reads: u64,
    before: Vec<Background>,
    pub map_on_flash: Option<Map>,
    pub host_units: u64,
    pub flash_units: u64,
}

/// Programs of the host that wait for the erase of reclaimed blocks, so that a power cut leaves a row of erased places:
/// where no block is free but those that wait for their erase, the first programs to a block and those to its last row
/// wait until the erases are issued, and copies to the last rows wait for those programs.
#[derive(Clone, Debug, Default)]
struct Reserve {
    /// Blocks that are free although their erase was not issued.
    announced: VecDeque<usize>,
    /// Erases that were issued.
    issued: u64,
    /// Blocks that the host has begun to fill, each with how many erases have to be issued before.
    begun: Vec<(usize, u64)>,
    /// The same of the program unit that the host fills.
    host_waits: u64,
    /// The host's program units that had to wait and are not over, by number.
    held: VecDeque<u64>,
    /// The last of them that the copies being filled wait for.
    before_copies: Option<u64>,
    /// The host's program units that were padded so that copies can wait for them.
    padded: Vec<Chunk>,
}

impl Reserve {
    /// How many erases are issued once those of the blocks announced are.
    fn all_issued(&self) -> u64 {
        self.issued + self.announced.len() as u64
    }
}

impl Stream {
    fn new(groups: usize) -> Stream {
        Stream { open: vec![None; groups], group: groups - 1, filled: 0, programs: 0 }
    }

    fn next_group(&self) -> usize {
        (self.group + 1) % self.open.len()
    }

    /// Begins a program unit on the next group that has an open or a free block. Returns that block, if it was free.
    fn begin(&mut self, free: &mut [VecDeque<usize>], blocks: &mut [Block]) -> Option<usize> {
        let mut opened = None;
        for _ in 0..self.open.len() {
            self.group = self.next_group();
            let slot = &mut self.open[self.group];
            if slot.is_none()
                && let Some(block) = free[self.group].pop_front()
            {
                blocks[block].state = State::Open;
                *slot = Some(Place { block, offset: 0 });
                opened = Some(block);
            }
            if slot.is_some() {
                self.programs += 1;
                return opened;
            }
        }
        panic!("no block is left to write to");
    }

    /// Units for which the open blocks have room.
    fn free_units_in_blocks(&self, shape: &Shape) -> usize {
        self.open.iter().flatten().map(|place| shape.units_per_block - place.offset).sum()
    }

    /// The next place, and whether the program unit is full with it.
    fn append(&mut self, shape: &Shape) -> (Place, bool) {
        let slot = self.open[self.group].as_mut().expect("a block was opened");
        let place = *slot;
        slot.offset += 1;
        self.filled = (self.filled + 1) % shape.units_per_program;
        (place, self.filled == 0)
    }
}

impl Placement {
    pub fn new(shape: &Shape) -> Placement {
        let block = Block {
            state: State::Free,
            holds: vec![None; shape.units_per_block],
            valid: 0,
            touched: 0,
        };
        let per_group = shape.blocks / shape.groups;
        Placement {
            map: vec![None; shape.logical_units as usize],
            blocks: vec![block; shape.blocks],
            free: (0..shape.groups)
                .map(|group| (group * per_group..(group + 1) * per_group).collect())
                .collect(),
            host: Stream::new(shape.groups),
            copies: Stream::new(shape.groups),
            victim: None,
            reclaimed: VecDeque::new(),
            not_durable: VecDeque::new(),
            reserve: Reserve::default(),
            credit: 0.0,
            changes: 0,
            feeding: Vec::new(),
            reads: 0,
            before: Vec::new(),
            map_on_flash: shape.map.map(|map| Map::new(shape, map)),
            host_units: 0,
            flash_units: 0,
            shape: shape.clone(),
        }
    }

    pub fn place_of(&self, unit: u32) -> Option<Place> {
        self.map[unit as usize]
    }

    /// Returns true if nothing that is current lies behind `place` in its program unit.
    pub fn is_last_of_program(&self, place: Place) -> bool {
        let end = (place.offset + 1).next_multiple_of(self.shape.units_per_program);
        self.blocks[place.block].holds[place.offset + 1..end].iter().all(Option::is_none)
    }

    /// Units that the program unit which the host fills has room for.
    pub fn free_units_in_program(&self) -> u32 {
        (self.shape.units_per_program - self.host.filled) as u32
    }

    /// Places `units` units from `first`.
    pub fn write(&mut self, first: u32, units: u32) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = Vec::new();
        for unit in first..first + units {
            self.host_units += 1;
            if self.host.filled == 0 {
                self.begin_host_program();
            }
            let (place, full) = self.host.append(&self.shape);
            self.set(unit, place);
            let program = self.host.programs;
            match chunks.last_mut() {
                Some(chunk) if chunk.program == program => chunk.units += 1,
                _ => chunks.push(Chunk { program, row: self.row(place), units: 1, fills: None }),
            }
            if full {
                let filled = self.host_program_filled(place, 0);
                chunks.last_mut().expect("a unit was placed").fills = Some(filled);
            }
        }
        chunks
    }

    /// Completes the host's program unit with padding, if it holds anything.
    pub fn pad(&mut self) -> Option<Chunk> {
        if self.host.filled == 0 {
            return None;
        }
        let padding = self.shape.units_per_program - self.host.filled;
        let mut last = None;
        for _ in 0..padding {
            last = Some(self.host.append(&self.shape).0);
        }
        let last = last.expect("some padding");
        let fills = Some(self.host_program_filled(last, padding));
        Some(Chunk { program: self.host.programs, row: self.row(last), units: 0, fills })
    }

    fn row(&self, place: Place) -> Row {
        (place.block, place.offset / self.shape.units_per_program)
    }

    fn begin_host_program(&mut self) {
        if self.host.open[self.host.next_group()].is_none() {
            self.before = self.ensure_free_block();
        }
        let opened = self.host.begin(&mut self.free, &mut self.blocks);
        let waits = self.all_free_are_announced();
        if let Some(block) = opened
            && waits
            && !self.reserve.announced.contains(&block)
        {
            self.reserve.begun.push((block, self.reserve.all_issued()));
        }
        let block = self.host.open[self.host.group].expect("a block is open").block;
        let begun = self.reserve.begun.iter().find(|it| it.0 == block).map(|it| it.1);
        let row = self.shape.dies * self.shape.units_per_program;
        let is_last = self.host.free_units_in_blocks(&self.shape) <= row;
        let last = (is_last && waits).then(|| self.reserve.all_issued());
        let after = begun.max(last);
        if after.is_some() {
            self.reserve.held.push_back(self.host.programs);
        }
        self.reserve.host_waits = after.unwrap_or(0);
    }

    /// Has the copies that are being begun wait for the host's programs that wait, where no other block is erased.
    fn hold_copies_for_reserve(&mut self) {
        self.reserve.before_copies = None;
        let row = self.shape.dies * self.shape.units_per_program;
        let rows = self.shape.units_per_block / self.shape.stripe / self.shape.units_per_program;
        let announced = &self.reserve.announced;
        let is_erased = |block: &usize| !announced.contains(block);
        let Some(&last) = self.reserve.held.back() else { return };
        if rows <= 2
            || self.copies.free_units_in_blocks(&self.shape) > 2 * row
            || self.free.iter().flatten().any(is_erased)
        {
            return;
        }
        // What the host would fill it with may wait for these copies.
        if last == self.host.programs
            && let Some(padded) = self.pad()
        {
            self.reserve.padded.push(padded);
        }
        self.reserve.before_copies = Some(last);
    }

    pub fn take_padded(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.reserve.padded)
    }

    /// Takes the work of collection that made room for a block to write to.
    pub fn take_before(&mut self) -> Vec<Background> {
        std::mem::take(&mut self.before)
    }

    /// A program of the host's is over.
    pub fn host_programmed(&mut self, program: u64) {
        self.reserve.held.retain(|&it| it != program);
    }

    /// Returns true if a program of the host's waits for erases, or is not over since, of those up to `program`.
    pub fn is_held_up_to(&self, program: u64) -> bool {
        self.reserve.held.front().is_some_and(|&first| first <= program)
    }

    /// Returns true if blocks are announced, and no other is free.
    fn all_free_are_announced(&self) -> bool {
        let announced = &self.reserve.announced;
        !announced.is_empty() && self.free.iter().flatten().all(|block| announced.contains(block))
    }

    /// Returns true if what waits until so many erases are issued need not wait any more.
    pub fn are_issued(&self, erases: u64) -> bool {
        self.reserve.issued >= erases
    }

    fn host_program_filled(&mut self, last: Place, padding: usize) -> HostProgram {
        let units = self.shape.units_per_program;
        self.flash_units += units as u64;
        self.close_if_full(last, true);
        HostProgram {
            row: self.row(last),
            die: self.shape.die_of(last),
            first_on_die: last.offset / units < self.shape.stripe,
            data_units: (units - padding) as u32,
            after_issued: self.reserve.host_waits,
        }
    }

    fn close_if_full(&mut self, last: Place, host: bool) {
        if last.offset + 1 == self.shape.units_per_block {
            let stream = if host { &mut self.host } else { &mut self.copies };
            stream.open[stream.group] = None;
            self.blocks[last.block].state = State::Closed;
            self.touch(last.block);
        }
    }

    fn touch(&mut self, block: usize) {
        self.changes += 1;
        self.blocks[block].touched = self.changes;
    }

    fn set(&mut self, unit: u32, place: Place) {
        if let Some(old) = self.map[unit as usize].replace(place) {
            self.blocks[old.block].valid -= 1;
            self.blocks[old.block].holds[old.offset] = None;
            self.touch(old.block);
        }
        self.blocks[place.block].holds[place.offset] = Some(unit);
        self.blocks[place.block].valid += 1;
    }

    fn free_blocks(&self) -> usize {
        self.free.iter().map(VecDeque::len).sum()
    }

    /// Blocks that are free or will be once their copies are durable.
    fn free_or_reclaimed_blocks(&self) -> usize {
        self.free_blocks() + self.reclaimed.len() + self.not_durable.len()
    }

    /// Collection's share for a program unit of the host's: in proportion to what the victim
    /// yields, and up to four times faster the further behind it is.
    pub fn keep_pace(&mut self) -> Vec<Background> {
        let mut work = Vec::new();
        if self.victim.is_none() && self.free_or_reclaimed_blocks() >= self.shape.low_water {
            return work;
        }
        let mut units = self.shape.units_per_program as f64;
        while let Some(victim) = self.choose_victim() {
            let behind = self.shape.low_water.saturating_sub(1 + self.free_or_reclaimed_blocks());
            self.credit += units * victim.copies_per_unit * (4 + behind.min(12)) as f64 / 4.0;
            units = 0.0;
            while self.blocks[victim.block].valid > 0 {
                if self.credit <= 0.0 {
                    return work;
                }
                self.credit -= self.collect_program_unit(&mut work) as f64;
            }
            self.finish_victim(&mut work);
            if self.free_or_reclaimed_blocks() >= self.shape.low_water {
                self.credit = self.credit.min(0.0);
                return work;
            }
        }
        work
    }

    /// The victim in progress, or the closed block with the fewest valid units.
    fn choose_victim(&mut self) -> Option<Victim> {
        if self.victim.is_none() {
            let closed =
                (0..self.blocks.len()).filter(|&at| self.blocks[at].state == State::Closed);
            let block = closed
                .min_by_key(|&at| (self.blocks[at].valid, u64::MAX - self.blocks[at].touched))?;
            self.blocks[block].state = State::Victim;
            let valid = self.blocks[block].valid;
            let copies_per_unit = valid as f64 / (self.shape.units_per_block - valid) as f64;
            self.victim = Some(Victim { block, copies_per_unit, next_offset: 0 });
        }
        self.victim
    }

    /// Moves what is valid in the victim's next program unit; returns how many units that was.
    fn collect_program_unit(&mut self, work: &mut Vec<Background>) -> usize {
        let victim = self.victim.as_mut().expect("there is a victim");
        let first = victim.next_offset;
        let block = victim.block;
        victim.next_offset += self.shape.units_per_program;
        let mut programs = Vec::new();
        let mut moved = 0;
        for sense in
            (first..first + self.shape.units_per_program).step_by(self.shape.units_per_sense)
        {
            let die = self.shape.die_of(Place { block, offset: sense });
            let units: Vec<u32> = self.blocks[block].holds
                [sense..sense + self.shape.units_per_sense]
                .iter()
                .flatten()
                .copied()
                .collect();
            if units.is_empty() {
                continue;
            }
            moved += units.len();
            self.reads += 1;
            let took = self.shape.sense_time(Place { block, offset: sense });
            work.push(Background::Read { read: self.reads, die, units: units.len(), took });
            for unit in units {
                self.copy(unit, &mut programs);
            }
        }
        work.extend(programs);
        if let Some(map) = &mut self.map_on_flash {
            map.write_moved();
        }
        moved
    }

    fn copy(&mut self, unit: u32, programs: &mut Vec<Background>) {
        if self.copies.filled == 0 {
            self.copies.begin(&mut self.free, &mut self.blocks);
            self.hold_copies_for_reserve();
        }
        if self.feeding.last() != Some(&self.reads) {
            self.feeding.push(self.reads);
        }
        let (place, full) = self.copies.append(&self.shape);
        self.set(unit, place);
        if let Some(map) = &mut self.map_on_flash {
            map.note_relocated(unit);
        }
        if full {
            self.copy_program_filled(place, programs);
        }
    }

    fn copy_program_filled(&mut self, last: Place, work: &mut Vec<Background>) {
        self.flash_units += self.shape.units_per_program as u64;
        self.close_if_full(last, false);
        work.push(Background::Program {
            copy: self.copies.programs,
            die: self.shape.die_of(last),
            block: last.block,
            reads: std::mem::take(&mut self.feeding),
            after_held: self.reserve.before_copies.take(),
        });
        self.release_reclaimed(work);
    }

    fn finish_victim(&mut self, work: &mut Vec<Background>) {
        let victim = self.victim.take().expect("there is a victim");
        self.reclaimed.push_back((victim.block, self.copies.programs, self.host.programs));
        if let Some(map) = &mut self.map_on_flash {
            map.end_victim();
        }
        self.release_reclaimed(work);
    }

    /// Blocks whose last copy is in a full program unit can be erased when that is programmed.
    fn release_reclaimed(&mut self, work: &mut Vec<Background>) {
        let full = self.copies.programs - u64::from(self.copies.filled > 0);
        while let Some(&(block, after, after_host)) = self.reclaimed.front() {
            if after > full {
                return;
            }
            self.reclaimed.pop_front();
            work.push(Background::Erase { block, after, after_host });
            self.not_durable.push_back(block);
        }
    }

    /// The copies of what `block` held are durable, and its erase is issued.
    pub fn durable(&mut self, block: usize) {
        self.set_free(block);
        let reserve = &mut self.reserve;
        reserve.announced.retain(|&it| it != block);
        reserve.issued += 1;
        let issued = reserve.issued;
        reserve.begun.retain(|it| it.1 > issued);
    }

    /// The block is as good as erased.
    fn set_free(&mut self, block: usize) {
        if let Some(place) = self.not_durable.iter().position(|&waiting| waiting == block) {
            self.not_durable.remove(place);
            self.blocks[block].state = State::Free;
            self.free[self.shape.group_of(block)].push_back(block);
        }
    }

    /// Collects at once where pacing was not enough to keep a block for collection itself.
    fn ensure_free_block(&mut self) -> Vec<Background> {
        let mut work = Vec::new();
        while self.free_blocks() <= self.shape.groups {
            // What is written to the block will wait until it is durable and erased.
            if let Some(&block) = self.not_durable.front() {
                self.set_free(block);
                self.reserve.announced.push_back(block);
                continue;
            }
            // Collecting on fills the program unit that a reclaimed block waits for.
            match self.choose_victim() {
                Some(victim) if self.blocks[victim.block].valid > 0 => {
                    self.collect_program_unit(&mut work);
                }
                Some(_) => self.finish_victim(&mut work),
                None if self.reclaimed.is_empty() => return work,
                None => self.pad_copies(&mut work),
            }
        }
        work
    }

    fn pad_copies(&mut self, work: &mut Vec<Background>) {
        loop {
            let (place, full) = self.copies.append(&self.shape);
            if full {
                return self.copy_program_filled(place, work);
            }
        }
    }
}
