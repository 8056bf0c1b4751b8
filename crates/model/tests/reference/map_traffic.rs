//! What a map on flash has the flash do, and who waits for it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::die::Job;
use super::events::Event;
use super::map::{MapProgram, MapWork};
use super::placement::Row;
use super::{Operation, Reference, Transfer};

/// A map page on its way to RAM.
#[derive(Clone, Debug, Default)]
struct Load {
    /// True if it is still to be read.
    reading: bool,
    /// True if the page that made room for it waits for room itself.
    awaits_space: bool,
    requests: Vec<usize>,
    /// Program units that hold its data, too.
    programs: Vec<u64>,
}

/// A program unit of map pages.
#[derive(Clone, Debug, Default)]
struct Program {
    /// Pages in it that were not let in or not read.
    missing: usize,
    filled: Option<MapProgram>,
    rows: Vec<Row>,
    on_die: bool,
}

/// Map pages under way.
#[derive(Clone, Debug, Default)]
pub struct MapTraffic {
    loads: HashMap<u64, Load>,
    programs: BTreeMap<u64, Program>,
    /// Rows that are not programmed: what they hold is in RAM.
    buffered: HashSet<Row>,
    used: usize,
    waiting: VecDeque<(u64, Option<u64>)>,
    erases: Vec<(usize, u64)>,
}

impl Reference {
    /// Begins a request once the map pages that it needs are in RAM.
    pub(super) fn begin_request(&mut self, request: usize) {
        let (first, units, change) = match self.requests[request].operation {
            Operation::Read { first, units } => (first, units, false),
            Operation::Write { first, units } | Operation::WriteFua { first, units } => {
                (first, units, true)
            }
            Operation::Flush => {
                self.flush(request);
                return self.do_map_work();
            }
        };
        if change {
            self.write(request, first, units);
            self.do_map_work();
        }
        let loads = match &mut self.placement.map_on_flash {
            Some(map) => map.look_up(first, units, change),
            None => Vec::new(),
        };
        self.do_map_work();
        for load in loads {
            if let Some(load) = self.map.loads.get_mut(&load) {
                load.requests.push(request);
                self.requests[request].map_pages_left += 1;
            }
        }
        let map = self.shape.map.as_ref();
        if let Some(cache_read) = map.map(|map| map.cache_read).filter(|&it| it > 0) {
            self.requests[request].map_pages_left += 1;
            self.events.after(cache_read, Event::EntryRead { request });
        }
        if !change && self.requests[request].map_pages_left == 0 {
            self.read(request, first, units);
        }
    }

    /// One thing less is missing of what a request has to know of the map.
    pub(super) fn map_page_known(&mut self, request: usize) {
        self.requests[request].map_pages_left -= 1;
        if self.requests[request].map_pages_left == 0 {
            self.map_is_known(request);
        }
    }

    /// The map pages that a request needs are in RAM: a read begins, and a write is answered if its
    /// data is in the buffer.
    fn map_is_known(&mut self, request: usize) {
        match self.requests[request].operation {
            Operation::Read { first, units } => self.read(request, first, units),
            Operation::Write { .. } | Operation::WriteFua { .. } => self.answer_if_done(request),
            Operation::Flush => unreachable!("a flush needs no map page"),
        }
    }

    /// Begins what the map has decided.
    pub(super) fn do_map_work(&mut self) {
        let Some(map) = &mut self.placement.map_on_flash else {
            return;
        };
        for work in std::mem::take(&mut map.work) {
            match work {
                MapWork::Read { load, row, die } => {
                    if !self.map.buffered.contains(&row) {
                        self.map.loads.entry(load).or_default().reading = true;
                        self.dies[die].reads.push_back(Job::MapRead { load });
                        self.wake(die);
                    }
                }
                MapWork::Write { program, row, load, admits, fills } => {
                    if let Some(load) = admits {
                        self.map.loads.entry(load).or_default().awaits_space = true;
                    }
                    let unit = self.map.programs.entry(program).or_default();
                    unit.missing += 1;
                    unit.rows.push(row);
                    unit.filled = unit.filled.or(fills);
                    self.map.buffered.insert(row);
                    if let Some(load) = self.map.loads.get_mut(&load).filter(|it| it.reading) {
                        load.programs.push(program);
                        unit.missing += 1;
                    }
                    self.map.waiting.push_back((program, admits));
                    self.admit_map_pages();
                }
                MapWork::Erase { block, after } => {
                    for die in self.map_dies_of(block) {
                        self.erasing.insert((self.shape.blocks + block, die), (after, 0));
                    }
                    self.map.erases.push((block, after));
                    self.begin_map_erases();
                }
            }
        }
    }

    fn map_dies_of(&self, block: usize) -> std::ops::Range<usize> {
        let map = self.shape.map.as_ref().expect("the map lies on flash");
        let group = block / (map.blocks / self.shape.groups);
        group * self.shape.stripe..(group + 1) * self.shape.stripe
    }

    fn admit_map_pages(&mut self) {
        let capacity = (self.shape.dies + 1) * self.shape.units_per_program;
        while self.map.used < capacity {
            let Some((program, admits)) = self.map.waiting.pop_front() else {
                return;
            };
            self.map.used += 1;
            self.map_page_there(program);
            if let Some(load) = admits {
                self.map.loads.get_mut(&load).expect("it waits").awaits_space = false;
                self.finish_load(load);
            }
        }
    }

    fn map_page_there(&mut self, program: u64) {
        let unit = self.map.programs.get_mut(&program).expect("it is being filled");
        unit.missing -= 1;
        let complete = unit.rows.len() == self.shape.units_per_program && unit.missing == 0;
        let Some(MapProgram { die, block, first_on_die }) = unit.filled.filter(|_| complete) else {
            return;
        };
        if first_on_die {
            self.dies[die].book_through(Job::Erase { block: self.shape.blocks + block });
        }
        let job = Job::MapProgram { program };
        self.dies[die].booked.push_back(job);
        self.over_channel(die, self.shape.units_per_program, Transfer::ToDie { die, job });
        self.wake(die);
    }

    pub(super) fn map_page_read(&mut self, load: u64) {
        let entry = self.map.loads.get_mut(&load).expect("it is being read");
        entry.reading = false;
        for program in std::mem::take(&mut entry.programs) {
            self.map_page_there(program);
        }
        self.finish_load(load);
    }

    fn finish_load(&mut self, load: u64) {
        let entry = &self.map.loads[&load];
        if entry.reading || entry.awaits_space {
            return;
        }
        let entry = self.map.loads.remove(&load).expect("it is there");
        for request in entry.requests {
            self.map_page_known(request);
        }
    }

    pub(super) fn map_program_arrived(&mut self, program: u64) {
        self.map.programs.get_mut(&program).expect("it is under way").on_die = true;
    }

    pub(super) fn map_program_on_die(&self, program: u64) -> bool {
        self.map.programs[&program].on_die
    }

    /// The block that a map program goes to, numbered behind those for data.
    pub(super) fn map_block_of(&self, program: u64) -> Option<usize> {
        Some(self.shape.blocks + self.map.programs[&program].filled?.block)
    }

    pub(super) fn map_programmed(&mut self, program: u64) {
        let unit = self.map.programs.remove(&program).expect("it was under way");
        self.map.used -= unit.rows.len();
        for row in unit.rows {
            self.map.buffered.remove(&row);
        }
        self.admit_map_pages();
        self.begin_map_erases();
    }

    fn begin_map_erases(&mut self) {
        let oldest = self.map.programs.keys().next().copied().unwrap_or(u64::MAX);
        while let Some(&(block, after)) = self.map.erases.first() {
            if after >= oldest {
                return;
            }
            self.map.erases.remove(0);
            for die in self.map_dies_of(block) {
                self.owe_erase(die, self.shape.blocks + block);
            }
        }
    }
}
