//! Preconditioning of a drive with an extent map, full and under random writes for a long time.
//!
//! Random writes leave behind the fragments that the table has room for: each region is compacted once while the
//! table is filled again. These fragments are simulated in the abstract, region by region, for several times that
//! long; then the result is placed directly: the run of each region in a block of its own, and the fragments in the
//! blocks that the host has written since. (With few writes to a region, each adds two extents, all regions grow
//! alike and the fullest is compacted; so their extents spread evenly from one to twice the mean.)

use std::collections::HashMap;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::page::generator;
use super::{CacheFill, Past, PreconditionError, Tables, Workload};
use crate::block_table::BlockState;
use crate::geometry::Geometry;
use crate::mapping::extent::ExtentMap;
use crate::mapping::regions::RegionQueue;
use crate::policy::VictimPolicy;
use crate::ssd::Configuration;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

/// Writes to simulate, as a multiple of the writes that fill the table.
const TIMES: u64 = 6;

/// Extents that a write needs room for; see `ExtentTable::needed_for`.
const NEEDED: u32 = 3;

/// Fragments of a drive with an extent map.
struct Fragments {
    units: u32,
    per_region: u32,
    extents_max: u32,
    extents: u32,
    regions: RegionQueue,
    /// Bit per unit: an extent begins at this unit, which is not the first of its region.
    begins: Vec<u64>,
    /// Units of each region that were written since the region was compacted.
    of_region: Vec<Vec<u32>>,
    /// Last write of each of these units, as its number among all writes.
    written: HashMap<u32, u64>,
    writes: u64,
}

impl Fragments {
    fn new(geometry: &Geometry, extents_max: u32) -> Fragments {
        let (units, per_region) = (geometry.logical_units(), geometry.units_per_block());
        let regions = units.div_ceil(per_region);
        Fragments {
            units,
            per_region,
            extents_max,
            extents: regions,
            regions: RegionQueue::new(regions, per_region),
            begins: vec![0; units.div_ceil(64) as usize],
            of_region: vec![Vec::new(); regions as usize],
            written: HashMap::new(),
            writes: 0,
        }
    }

    /// Returns true if the table can get full: no drive has more extents than units.
    fn can_be_full(&self) -> bool {
        self.units.saturating_add(NEEDED) > self.extents_max
    }

    fn is_full(&self) -> bool {
        self.extents + NEEDED > self.extents_max
    }

    /// Makes an extent begin at `unit`. Returns the number of extents that this adds: 0 or 1.
    fn begin_at(&mut self, unit: u32) -> u32 {
        if unit.is_multiple_of(self.per_region) || unit >= self.units {
            return 0;
        }
        let (word, bit) = (&mut self.begins[unit as usize / 64], 1 << (unit % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new.into()
    }

    fn write(&mut self, unit: u32) {
        while self.is_full() {
            let (region, _) = self.regions.most();
            self.compact_region(region);
        }
        let region = unit / self.per_region;
        let more = self.begin_at(unit) + self.begin_at(unit + 1);
        self.regions.change(region, 0, more);
        self.extents += more;
        if self.written.insert(unit, self.writes).is_none() {
            self.of_region[region as usize].push(unit);
        }
        self.writes += 1;
    }

    fn compact_region(&mut self, region: u32) {
        let extents = self.regions.count(region);
        self.regions.change(region, extents, 1);
        self.extents -= extents - 1;
        for unit in std::mem::take(&mut self.of_region[region as usize]) {
            self.written.remove(&unit);
            for unit in [unit, unit + 1] {
                if !unit.is_multiple_of(self.per_region) && unit < self.units {
                    self.begins[unit as usize / 64] &= !(1 << (unit % 64));
                }
            }
        }
    }

    /// Writes at random until the initial state is forgotten, and until the host has filled its last program unit of
    /// `per_program` units.
    fn write_until_steady(&mut self, per_program: u32, generator: &mut Pcg64Mcg) {
        // Starts with regions at all stages: they would take long to spread by themselves.
        let stage: Vec<f64> = (0..self.of_region.len()).map(|_| generator.random()).collect();
        while !self.is_full() {
            let unit = generator.random_range(0..self.units);
            if generator.random::<f64>() < stage[(unit / self.per_region) as usize] {
                self.write(unit);
            }
        }
        let least = self.writes * (1 + TIMES);
        while self.writes < least || !self.writes.is_multiple_of(per_program.into()) {
            self.write(generator.random_range(0..self.units));
        }
    }
}

impl Tables<'_, ExtentMap> {
    /// Fills a new drive with the state that random writes of single units reach after a long time.
    pub(crate) fn precondition_extents(
        &mut self,
        configuration: &Configuration,
        past: Past,
    ) -> Result<(), PreconditionError> {
        let Configuration { geometry, mechanisms, collection, .. } = configuration;
        if past.cache == CacheFill::Full {
            return Err(PreconditionError::NoCache);
        }
        if past.workload != Workload::Uniform {
            return Err(PreconditionError::NoTheory {
                what: "hot and cold units with a map of extents",
            });
        }
        if mechanisms.victims != VictimPolicy::Greedy || !mechanisms.seeks_gain() {
            return Err(PreconditionError::NoTheory { what: "this policy with a map of extents" });
        }
        if mechanisms.slc.is_some() || mechanisms.streams.count > 1 {
            return Err(PreconditionError::NoTheory {
                what: "a cache or streams with a map of extents",
            });
        }
        let mut fragments = Fragments::new(geometry, mechanisms.extents.extents_max);
        if !fragments.can_be_full() {
            return Err(PreconditionError::NoTheory {
                what: "a table that has room for every unit",
            });
        }
        fragments.write_until_steady(geometry.units_per_program(), &mut generator(past));
        // As many blocks stay free as garbage collection keeps, and one for the run of a compacted region.
        let kept = collection.low_water + 1 + fragments.of_region.len() as u32;
        let room = geometry.blocks().saturating_sub(kept);
        let log = Log::of(&fragments, geometry, room).ok_or(PreconditionError::NoTheory {
            what: "a table of extents whose fragments do not fit the spare area",
        })?;
        for region in 0..fragments.of_region.len() as u32 {
            let first = region * fragments.per_region;
            let is_in_run = |it: &u32| *it < fragments.units && !fragments.written.contains_key(it);
            let held = (first..first + fragments.per_region).map(|it| Some(it).filter(is_in_run));
            let block = self.place_run(held, BlockState::OpenForCollection);
            self.block_table.close(block, BlockState::Closed);
        }
        // The other blocks hold no valid units and wait to be collected.
        let empty = vec![None; geometry.units_per_block() as usize];
        for _ in 0..room - (log.moved.len() + log.blocks.len()) as u32 {
            let block = self.place_run(empty.iter().copied(), BlockState::OpenForCollection);
            self.block_table.close(block, BlockState::Closed);
        }
        for held in log.moved {
            let block = self.place_run(held.into_iter(), BlockState::OpenForCollection);
            self.block_table.close(block, BlockState::Closed);
        }
        let latest = log.blocks.len() - 1;
        for (index, held) in log.blocks.into_iter().enumerate() {
            let programs = held.len() as u32 / geometry.units_per_program();
            let is_full = held.len() as u32 == geometry.units_per_block();
            let block = self.place_run(held.into_iter(), BlockState::OpenForHost);
            if is_full {
                self.block_table.close(block, BlockState::Closed);
            } else {
                assert!(index == latest, "only the latest block is being filled");
                self.host.set_open_block(0, block, programs);
            }
        }
        Ok(())
    }

    /// Fills a block with units, or with invalid data for `None`.
    fn place_run(
        &mut self,
        held: impl Iterator<Item = Option<u32>>,
        state: BlockState,
    ) -> BlockIndex {
        let block = self.free.take(0).expect("there are enough blocks");
        self.block_table.open(block, state, self.geometry.units_per_block());
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

/// Blocks with fragments, the oldest first.
struct Log {
    /// Blocks written by garbage collection.
    moved: Vec<Vec<Option<u32>>>,
    /// Blocks written by the host.
    blocks: Vec<Vec<Option<u32>>>,
}

/// Largest share of all fragments that may have been moved: the places of fragments in host blocks are known, those
/// of moved ones are not.
const MOVED_MAX: f64 = 0.1;

impl Log {
    /// Returns the fragments in at most `room` blocks. Some regions are written so rarely that they are not compacted
    /// for long; their fragments in nearly empty blocks count as moved together.
    fn of(fragments: &Fragments, geometry: &Geometry, room: u32) -> Option<Log> {
        let per_block = geometry.units_per_block();
        let mut blocks = Log::written(fragments, per_block);
        let (mut moved, mut reclaimed) = (Vec::new(), 0);
        let too_many = |reclaimed: usize, moved: &[Option<u32>]| {
            blocks.len() - reclaimed + moved.len().div_ceil(per_block as usize) > room as usize
        };
        while too_many(reclaimed, &moved) {
            moved.extend(blocks[reclaimed].iter().flatten().map(|&unit| Some(unit)));
            reclaimed += 1;
            if moved.len() as f64 > MOVED_MAX * fragments.written.len() as f64 {
                return None;
            }
        }
        blocks.drain(..reclaimed);
        let moved = moved.chunks(per_block as usize).map(|chunk| {
            let mut block = chunk.to_vec();
            block.resize(per_block as usize, None);
            block
        });
        Some(Log { moved: moved.collect(), blocks })
    }

    /// Returns the blocks that the host has written and that hold valid units.
    fn written(fragments: &Fragments, per_block: u32) -> Vec<Vec<Option<u32>>> {
        let per_block = u64::from(per_block);
        let mut in_order: Vec<(u64, u32)> =
            fragments.written.iter().map(|(&unit, &at)| (at, unit)).collect();
        in_order.sort_unstable();
        let mut blocks: Vec<Vec<Option<u32>>> = Vec::new();
        let mut latest = None;
        for (at, unit) in in_order {
            if latest != Some(at / per_block) {
                let left = fragments.writes - at / per_block * per_block;
                blocks.push(vec![None; left.min(per_block) as usize]);
                latest = Some(at / per_block);
            }
            let block = blocks.last_mut().expect("one was begun");
            block[(at % per_block) as usize] = Some(unit);
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Ssd;
    use crate::ssd::tests::small_configuration;

    #[test]
    fn a_table_that_is_never_full_has_no_theory() {
        let table = |bytes: &str| {
            let changes = [("mapping.scheme", "extent"), ("mapping.table", bytes)];
            Ssd::preconditioned_with_extent_map(&small_configuration(&changes), Past::uniform(1))
                .map(drop)
        };
        let error = table("1M").expect_err("it has an extent for each unit").to_string();
        assert!(error.contains("room for every unit"), "{error}");
        assert_eq!(table("8K"), Ok(()));
    }
}
