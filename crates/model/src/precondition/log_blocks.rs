//! Preconditioning of a drive with log blocks, full and under random writes for a long time.
//!
//! There is no closed form for the content of each log block, but all traces of random writes are in the few log
//! blocks and disappear with them. So the latest writes are simulated by the rules of the scheme, without flash, time
//! or data, for several times as long as any trace of them lasts, and the result is placed directly.

use std::collections::{HashMap, VecDeque};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::page::generator;
use super::{CacheFill, Past, PreconditionError, Tables, Workload};
use crate::block_table::BlockState;
use crate::geometry::Geometry;
use crate::mapping::Mapping;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

/// Writes to simulate, as a multiple of `Log::memory`, so that the initial state is forgotten.
const TIMES: f64 = 8.0;

/// Places of the units that are not in their data blocks.
struct Log {
    geometry: Geometry,
    log_blocks: usize,
    /// Units written to each log block, the oldest block first.
    blocks: VecDeque<Vec<u32>>,
    /// Number of log blocks reclaimed so far, which is the number of the oldest one.
    reclaimed: u64,
    /// Number of the log block, and place in it, of each unit that is in a log block.
    at: HashMap<u32, (u64, u32)>,
    /// Units of each logical block that are in a log block; some are listed more than once.
    of_logical: Vec<Vec<u32>>,
    /// Logical block of the sequential log, and the unit that continues it.
    sequence: Option<(u32, u32)>,
}

impl Log {
    fn new(geometry: &Geometry, log_blocks: u32) -> Log {
        let logical = geometry.logical_units().div_ceil(geometry.units_per_block());
        Log {
            geometry: geometry.clone(),
            log_blocks: log_blocks as usize,
            blocks: VecDeque::new(),
            reclaimed: 0,
            at: HashMap::new(),
            of_logical: vec![Vec::new(); logical as usize],
            sequence: None,
        }
    }

    /// Returns the number of units written until no trace of the earlier state is left: a logical block is merged
    /// again when the first log block that holds a unit of it is reclaimed.
    fn memory(&self) -> f64 {
        let b = f64::from(self.geometry.units_per_block());
        let none = (-b / self.of_logical.len() as f64).exp();
        b * (self.log_blocks as f64 + none / (1.0 - none))
    }

    /// Merges a logical block: copies its valid units to a data block of its own.
    fn merge(&mut self, logical: u32) {
        for unit in std::mem::take(&mut self.of_logical[logical as usize]) {
            self.at.remove(&unit);
        }
    }

    fn end_sequence(&mut self) {
        if let Some((logical, _)) = self.sequence.take() {
            self.merge(logical);
        }
    }

    fn write(&mut self, unit: u32) {
        let b = self.geometry.units_per_block();
        let (logical, offset) = (unit / b, unit % b);
        if offset == 0 {
            self.end_sequence();
            self.sequence = Some((logical, unit));
        }
        if self.sequence == Some((logical, unit)) {
            self.at.remove(&unit);
            self.sequence = Some((logical, unit + 1));
            if offset + 1 == b || unit + 1 == self.geometry.logical_units() {
                self.end_sequence();
            }
            return;
        }
        if self.sequence.is_some_and(|(of, _)| of == logical) {
            self.end_sequence();
        }
        self.append(logical, unit);
    }

    fn append(&mut self, logical: u32, unit: u32) {
        let b = self.geometry.units_per_block() as usize;
        if self.blocks.back().is_none_or(|block| block.len() == b) {
            if self.blocks.len() == self.log_blocks {
                self.reclaim_oldest();
            }
            self.blocks.push_back(Vec::with_capacity(b));
        }
        let number = self.reclaimed + self.blocks.len() as u64 - 1;
        let block = self.blocks.back_mut().expect("one is being filled");
        self.at.insert(unit, (number, block.len() as u32));
        block.push(unit);
        self.of_logical[logical as usize].push(unit);
    }

    fn reclaim_oldest(&mut self) {
        let b = self.geometry.units_per_block();
        let units = self.blocks.pop_front().expect("there are log blocks");
        if units.iter().any(|unit| self.sequence.is_some_and(|(logical, _)| logical == unit / b)) {
            self.end_sequence();
        }
        for (place, unit) in (0..).zip(units) {
            if self.at.get(&unit) == Some(&(self.reclaimed, place)) {
                self.merge(unit / b);
            }
        }
        self.reclaimed += 1;
    }

    /// Returns true if the log block being filled ends with a whole program unit.
    fn is_even(&self) -> bool {
        let units = self.blocks.back().map_or(0, Vec::len) as u32;
        units.is_multiple_of(self.geometry.units_per_program())
    }
}

/// Returns the log after random writes for a long time.
fn written(configuration: &Configuration, generator: &mut Pcg64Mcg) -> Log {
    let units = configuration.geometry.logical_units();
    let mut log = Log::new(&configuration.geometry, configuration.mechanisms.log_blocks);
    let least = (TIMES * log.memory()) as u64;
    let mut count = 0;
    while count < least || !log.is_even() {
        log.write(generator.random_range(0..units));
        count += 1;
    }
    log.end_sequence();
    log
}

/// Use of the blocks of a drive with log blocks.
#[derive(Clone, Debug)]
pub(crate) struct FilledBlocks {
    /// Data block of each logical block.
    pub(crate) data: Vec<BlockIndex>,
    /// Random log blocks, the oldest first.
    pub(crate) logs: Vec<BlockIndex>,
    /// Number of filled program units in the last log block, which is the host's write frontier; `None` if it is
    /// full.
    pub(crate) open_programs: Option<u32>,
    /// Group of dies that the latest block was taken from.
    pub(crate) group: u32,
}

impl<M: Mapping> Tables<'_, M> {
    /// Fills a new drive with log blocks with the state that random writes of single units reach after a long time.
    ///
    /// # Errors
    /// Returns an error if `past` is something else than uniform random writes without a full cache.
    pub(crate) fn precondition_log_blocks(
        &mut self,
        configuration: &Configuration,
        past: Past,
    ) -> Result<FilledBlocks, PreconditionError> {
        if past.cache == CacheFill::Full {
            return Err(PreconditionError::NoCache);
        }
        if past.workload != Workload::Uniform {
            return Err(PreconditionError::NoTheory { what: "hot and cold units with log blocks" });
        }
        let log = written(configuration, &mut generator(past));
        let geometry = &configuration.geometry;
        let b = geometry.units_per_block();
        let mut filled = FilledBlocks {
            data: Vec::new(),
            logs: Vec::new(),
            open_programs: None,
            group: geometry.groups() - 1,
        };
        for logical in 0..log.of_logical.len() as u32 {
            let first = logical * b;
            let until = (first + b).min(geometry.logical_units());
            let in_log = |unit: &u32| log.at.contains_key(unit);
            let held = (first..first + b).map(|it| (it < until && !in_log(&it)).then_some(it));
            let block = self.place_block(&mut filled.group, held);
            self.block_table.close(block, BlockState::Closed);
            filled.data.push(block);
        }
        for (number, units) in (log.reclaimed..).zip(&log.blocks) {
            let is_there =
                |(place, &unit)| (log.at.get(&unit) == Some(&(number, place))).then_some(unit);
            let block = self.place_block(&mut filled.group, (0..).zip(units).map(is_there));
            let programs = units.len() as u32 / geometry.units_per_program();
            if units.len() as u32 == b {
                self.block_table.close(block, BlockState::Closed);
            } else {
                self.host.set_open_block(geometry.group_of(block), block, programs);
                filled.open_programs = Some(programs);
            }
            filled.logs.push(block);
        }
        Ok(filled)
    }

    /// Fills a block, from the groups of dies in turn, with units, or with invalid data for `None`.
    fn place_block(
        &mut self,
        group: &mut u32,
        held: impl Iterator<Item = Option<u32>>,
    ) -> BlockIndex {
        let groups = self.geometry.groups();
        let block = (0..groups).find_map(|_| {
            *group = (*group + 1) % groups;
            self.free.take(*group)
        });
        let block = block.expect("there is a block for each logical block, and for the log");
        self.block_table.open(block, BlockState::OpenForHost, self.geometry.units_per_block());
        let first = self.geometry.first_unit(block).0;
        for (place, unit) in (first..).zip(held) {
            match unit.map(LogicalUnit) {
                Some(unit) => self.put_unit(PhysicalUnit(place), (unit, unit)),
                None => drop(self.block_table.invalidate_unit(block)),
            }
        }
        block
    }
}
