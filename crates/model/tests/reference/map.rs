//! A map on flash: which map pages are in RAM, and where the others lie.
//!
//! Like the placement of data this knows no time. It decides in the order in which the controller
//! takes requests up, and hands out what the flash has to do (`map_traffic` finds out when).

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::placement::Row;
use super::shape::{MapShape, Place, Shape};

/// Work for the flash. A *load* is data of one map page, numbered: it is there when it was read.
#[derive(Clone, Debug)]
pub enum MapWork {
    /// Read the map page at `row`, unless that is not programmed yet.
    Read { load: u64, row: Row, die: usize },
    /// Put a map page into program unit `program`, with the data of `load`. When there is room for
    /// it, load `admits` is told.
    Write { program: u64, row: Row, load: u64, admits: Option<u64>, fills: Option<MapProgram> },
    /// Erase a block once map program `after` and all before it are over.
    Erase { block: usize, after: u64 },
}

/// A full program unit of map pages.
#[derive(Clone, Copy, Debug)]
pub struct MapProgram {
    pub die: usize,
    pub block: usize,
    pub first_on_die: bool,
}

#[derive(Clone, Debug, Default)]
struct Block {
    holds: Vec<Option<usize>>,
    closed: bool,
    touched: u64,
}

impl Block {
    fn valid(&self) -> usize {
        self.holds.iter().flatten().count()
    }
}

#[derive(Clone, Debug)]
struct Victim {
    block: usize,
    valid: usize,
    gain: usize,
    credit: usize,
}

#[derive(Clone, Debug)]
pub struct Map {
    shape: Shape,
    map: MapShape,
    /// Most recently used first.
    probation: VecDeque<usize>,
    protected: VecDeque<usize>,
    dirty: HashSet<usize>,
    /// The load that brought each page in RAM there.
    loads: BTreeMap<usize, u64>,
    next_load: u64,
    places: Vec<Option<Place>>,
    blocks: Vec<Block>,
    free: Vec<VecDeque<usize>>,
    open: Vec<Option<Place>>,
    group: usize,
    filled: usize,
    programs: u64,
    victim: Option<Victim>,
    changes: u64,
    moved: Vec<usize>,
    owed: Vec<usize>,
    owed_per_step: usize,
    waiting: HashSet<usize>,
    pub work: Vec<MapWork>,
    pub programmed_units: u64,
}

impl Map {
    pub fn new(shape: &Shape, map: MapShape) -> Map {
        let pages = (shape.logical_units as usize).div_ceil(map.entries);
        let per_group = map.blocks / shape.groups;
        let block = Block { holds: vec![None; shape.units_per_block], ..Block::default() };
        Map {
            probation: VecDeque::new(),
            protected: VecDeque::new(),
            dirty: HashSet::new(),
            loads: BTreeMap::new(),
            next_load: 0,
            places: vec![None; pages],
            blocks: vec![block; per_group * shape.groups],
            free: (0..shape.groups)
                .map(|group| (group * per_group..(group + 1) * per_group).collect())
                .collect(),
            open: vec![None; shape.groups],
            group: shape.groups - 1,
            filled: 0,
            programs: 0,
            victim: None,
            changes: 0,
            moved: Vec::new(),
            owed: Vec::new(),
            owed_per_step: 0,
            waiting: HashSet::new(),
            work: Vec::new(),
            programmed_units: 0,
            shape: shape.clone(),
            map,
        }
    }

    /// Uses the map pages of `units` units from `first`; returns the loads to wait for.
    pub fn look_up(&mut self, first: u32, units: u32, change: bool) -> Vec<u64> {
        let last = (first + units - 1) as usize / self.map.entries;
        (first as usize / self.map.entries..=last).map(|page| self.use_page(page, change)).collect()
    }

    fn use_page(&mut self, page: usize, change: bool) -> u64 {
        if self.is_in_ram(page) {
            self.probation.retain(|&it| it != page);
            self.protected.retain(|&it| it != page);
            self.protected.push_front(page);
            if self.protected.len() > self.map.cached / 2 {
                self.probation.push_front(self.protected.pop_back().expect("some page"));
            }
            if change {
                self.dirty.insert(page);
            }
            return self.loads[&page];
        }
        let load = self.read(page);
        if self.probation.len() + self.protected.len() >= self.map.cached {
            let evicted = self.probation.pop_back().expect("half of RAM at least");
            let evicted_load = self.loads.remove(&evicted).expect("it was loaded");
            if self.dirty.remove(&evicted) {
                self.write(evicted, evicted_load, Some(load));
                self.collect();
            }
        }
        self.probation.push_front(page);
        self.loads.insert(page, load);
        if change | self.waiting.remove(&page) {
            self.dirty.insert(page);
        }
        load
    }

    fn is_in_ram(&self, page: usize) -> bool {
        self.loads.contains_key(&page)
    }

    fn die_of(&self, place: Place) -> usize {
        let group = place.block / (self.blocks.len() / self.shape.groups);
        let program = place.offset / self.shape.units_per_program;
        group * self.shape.stripe + program % self.shape.stripe
    }

    fn row(&self, place: Place) -> Row {
        (place.block, place.offset / self.shape.units_per_program)
    }

    fn read(&mut self, page: usize) -> u64 {
        self.next_load += 1;
        if let Some(place) = self.places[page] {
            let (row, die) = (self.row(place), self.die_of(place));
            self.work.push(MapWork::Read { load: self.next_load, row, die });
        }
        self.next_load
    }

    /// Puts a map page at the next place of the stream.
    fn write(&mut self, page: usize, load: u64, admits: Option<u64>) {
        if self.filled == 0 {
            self.begin_program();
        }
        let place = self.open[self.group].expect("a block was opened");
        self.open[self.group] = Some(Place { offset: place.offset + 1, ..place });
        self.filled = (self.filled + 1) % self.shape.units_per_program;
        if let Some(old) = self.places[page].replace(place) {
            self.blocks[old.block].holds[old.offset] = None;
            self.touch(old.block);
        }
        self.blocks[place.block].holds[place.offset] = Some(page);
        let fills = (self.filled == 0).then(|| MapProgram {
            die: self.die_of(place),
            block: place.block,
            first_on_die: place.offset / self.shape.units_per_program < self.shape.stripe,
        });
        self.programmed_units += 1;
        if place.offset + 1 == self.shape.units_per_block {
            self.open[self.group] = None;
            self.blocks[place.block].closed = true;
            self.touch(place.block);
        }
        let (program, row) = (self.programs, self.row(place));
        self.work.push(MapWork::Write { program, row, load, admits, fills });
    }

    fn touch(&mut self, block: usize) {
        self.changes += 1;
        self.blocks[block].touched = self.changes;
    }

    fn begin_program(&mut self) {
        for _ in 0..self.shape.groups {
            self.group = (self.group + 1) % self.shape.groups;
            if self.open[self.group].is_none() {
                self.open[self.group] =
                    self.free[self.group].pop_front().map(|block| Place { block, offset: 0 });
            }
            if self.open[self.group].is_some() {
                self.programs += 1;
                return;
            }
        }
        panic!("no block is left for the map");
    }

    /// Has collection keep pace with a page written.
    fn collect(&mut self) {
        let free: usize = self.free.iter().map(VecDeque::len).sum();
        if self.victim.is_none() {
            if free >= 2 * self.shape.groups {
                return;
            }
            let closed = (0..self.blocks.len()).filter(|&block| self.blocks[block].closed);
            let Some(block) = closed.min_by_key(|&block| {
                (self.blocks[block].valid(), u64::MAX - self.blocks[block].touched)
            }) else {
                return;
            };
            self.blocks[block].closed = false;
            let valid = self.blocks[block].valid();
            let gain = self.shape.units_per_block - valid;
            self.victim = Some(Victim { block, valid, gain, credit: 0 });
        }
        let victim = self.victim.as_mut().expect("there is one");
        victim.credit += victim.valid;
        let (moves, block) = (victim.credit / victim.gain, victim.block);
        victim.credit %= victim.gain;
        for _ in 0..moves {
            let Some(&page) = self.blocks[block].holds.iter().flatten().next() else {
                break;
            };
            let load = match self.loads.get(&page) {
                Some(&load) => load,
                None => self.read(page),
            };
            self.dirty.remove(&page);
            self.write(page, load, None);
        }
        if self.blocks[block].valid() == 0 {
            self.victim = None;
            let after = self.programs;
            self.work.push(MapWork::Erase { block, after });
            let group = block / (self.blocks.len() / self.shape.groups);
            self.free[group].push_back(block);
        }
    }

    /// Collection has moved `unit`.
    pub fn note_relocated(&mut self, unit: u32) {
        let page = unit as usize / self.map.entries;
        if self.is_in_ram(page) {
            self.dirty.insert(page);
        } else if self.waiting.insert(page) {
            self.moved.push(page);
        }
    }

    pub fn end_victim(&mut self) {
        self.owed.append(&mut self.moved);
        let steps = self.shape.units_per_block / self.shape.units_per_program;
        self.owed_per_step = self.owed.len().div_ceil(steps);
    }

    /// Writes map pages that wait for what collection has changed.
    pub fn write_moved(&mut self) {
        for _ in 0..self.owed_per_step {
            let page = loop {
                match self.owed.pop() {
                    None => return,
                    Some(page) if self.waiting.remove(&page) => break page,
                    Some(_) => {}
                }
            };
            let load = self.read(page);
            self.write(page, load, None);
            self.collect();
        }
    }
}
