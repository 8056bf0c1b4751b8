//! Preconditioning of a drive with a map entry for each unit: fills the blocks as planned.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::fill::{Draws, Entries, Filling, fill};
use super::order::Order;
use super::plan::{BlockContent, Plan};
use super::workers::{SingleThreaded, Workers};
use super::{CacheFill, Past, PreconditionError, RNG_STREAM, Tables, Workload};
use crate::block_table::BlockState;
use crate::mapping::{Mapping, MappingScheme, ParallelFill};
use crate::policy::{Allocation, CopiesTo, Pacing};
use crate::slc::WhenFull;
use crate::ssd::Configuration;
use crate::streams::StreamId;
use crate::units::{BlockIndex, LogicalUnit, PhysicalUnit};

/// Use of the blocks of a drive.
pub(super) struct Layout {
    /// Number of closed blocks in each group of dies. They are the first blocks of the group.
    closed_per_group: u32,
    pub(super) groups: u32,
    /// Number of write streams that hold data of their own.
    pub(super) streams: u32,
    /// True if one more block is closed, half of whose data has already been moved: in steady state a drive with
    /// paced garbage collection always has a victim in progress.
    pub(super) has_victim: bool,
    /// True if the host writes to blocks with all bits; false if it writes to a cache only.
    pub(super) host_is_direct: bool,
    /// Number of program units that are written in each open block.
    pub(super) open_programs: u32,
    /// Number of units in the cache, in full blocks in SLC mode.
    pub(super) cached_units: u32,
    /// Number of these blocks.
    cached_blocks: u32,
}

impl Layout {
    fn of(configuration: &Configuration, past: Past) -> Layout {
        let Configuration { geometry, mechanisms, .. } = configuration;
        let groups = geometry.groups();
        let free = configuration.steady_state_free_blocks();
        let names_streams = matches!(past.workload, Workload::HotCold { .. });
        let streams = if names_streams { mechanisms.streams.count } else { 1 };
        // While the drive is full, a cache has only the blocks of its own.
        let cache = mechanisms.slc.filter(|slc| slc.min_free_blocks() > 0);
        let own = cache.map_or(0, |slc| slc.min_free_blocks());
        let host_is_direct = cache.is_none_or(|slc| slc.when_full == WhenFull::Direct);
        let open = streams * (1 + u32::from(host_is_direct));
        let kept = groups * (free + open) + own;
        let full = cache.filter(|_| past.cache == CacheFill::Full);
        // If the cache is bypassed when full, all data written to it has been overwritten since.
        let units_of_cached = full.filter(|_| !host_is_direct).map_or(0, |slc| {
            let (units, programs) = slc.shape(geometry);
            units * programs
        });
        let cached_blocks = if full.is_some() { own } else { 0 };
        Layout {
            closed_per_group: geometry.blocks_per_group() - kept.div_ceil(groups),
            groups,
            streams,
            has_victim: !matches!(mechanisms.pacing, Pacing::Bursty { .. }),
            host_is_direct,
            open_programs: geometry.units_per_block() / geometry.units_per_program() / 2,
            cached_units: cached_blocks * units_of_cached,
            cached_blocks,
        }
    }

    pub(super) fn closed(&self) -> u32 {
        self.closed_per_group * self.groups
    }

    /// Returns the states of the open blocks of a stream.
    pub(super) fn open_states(&self) -> Vec<BlockState> {
        let mut states = vec![BlockState::OpenForCollection];
        if self.host_is_direct {
            states.insert(0, BlockState::OpenForHost);
        }
        if self.open_programs == 0 { Vec::new() } else { states }
    }
}

/// Checks that the drive of `configuration` has its map in RAM, with an entry for each unit.
pub(crate) fn check_scheme(configuration: &Configuration) -> Result<(), PreconditionError> {
    match configuration.mechanisms.mapping {
        MappingScheme::Page => Ok(()),
        _ => Err(PreconditionError::NoTheory { what: "its mapping scheme" }),
    }
}

/// Returns the generator of all random choices.
pub(super) fn generator(past: Past) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(past.seed ^ RNG_STREAM)
}

impl<M: ParallelFill> Tables<'_, M> {
    /// Fills a new drive with the steady state of the random writes in `past`. The result does not depend on the
    /// number of `workers`.
    pub(crate) fn precondition_data(
        &mut self,
        configuration: &Configuration,
        past: Past,
        workers: &dyn Workers,
    ) -> Result<(), PreconditionError> {
        if configuration.mechanisms.streams.hot_within.is_some() {
            return Err(PreconditionError::NoTheory { what: "hot data found by the drive itself" });
        }
        if configuration.mechanisms.rotation > 0.0 {
            return Err(PreconditionError::NoTheory { what: "victims by rotation" });
        }
        if configuration.mechanisms.copies == CopiesTo::HostBlock {
            return Err(PreconditionError::NoTheory { what: "copies in the host's open block" });
        }
        if configuration.mechanisms.allocation == Allocation::Static {
            return Err(PreconditionError::NoTheory { what: "static allocation" });
        }
        let mut generator = generator(past);
        let layout = Layout::of(configuration, past);
        if past.cache == CacheFill::Full && layout.cached_blocks == 0 {
            return Err(PreconditionError::NoCache);
        }
        let plan = Plan::of(configuration, past.workload, &layout, &mut generator)?;
        let order = Order::new(plan.hot_units, self.geometry.logical_units(), &mut generator);
        let mut draws = Draws { order, generator };
        let mut closed = Vec::with_capacity(plan.held.len());
        for group in 0..layout.groups {
            for index in 0..layout.closed_per_group {
                let held = plan.held[(index * layout.groups + group) as usize];
                closed.push(self.open_to_fill(group, held));
            }
        }
        self.fill(&mut draws, &closed, workers);
        // Blocks enter the victim queue in the order in which they were closed, the victim in progress first.
        if layout.has_victim {
            let victim = self.open_to_fill(0, plan.victim);
            self.fill(&mut draws, &[victim], &SingleThreaded);
            self.block_table.close(BlockIndex(layout.closed_per_group), BlockState::Closed);
        }
        for index in 0..layout.closed_per_group {
            for group in 0..layout.groups {
                let block = BlockIndex(group * self.geometry.blocks_per_group() + index);
                self.block_table.close(block, BlockState::Closed);
            }
        }
        let mut order = draws.order;
        for index in 0..layout.cached_blocks {
            let group = index % layout.groups;
            self.fill_cache_block(group, layout.cached_units > 0, &mut order);
        }
        for group in 0..layout.groups {
            for &(state, held) in &plan.open {
                self.open_half(group, state, &layout, held, &mut order);
            }
        }
        assert!(order.is_exhausted(), "every logical unit lies somewhere");
        Ok(())
    }

    fn fill(&mut self, draws: &mut Draws, blocks: &[Filling], workers: &dyn Workers) {
        let entries = Entries {
            map: self.map.shared_entries(),
            reverse: self.block_table.shared_reverse_map(),
        };
        fill(draws, blocks, self.geometry.units_per_block(), entries, workers);
    }
}

impl<M: Mapping> Tables<'_, M> {
    /// Takes a free block of `group` that is to hold `held`.
    fn open_to_fill(&mut self, group: u32, held: BlockContent) -> Filling {
        let block = self.free.take(group).expect("there are more blocks than are closed");
        self.block_table.open(block, BlockState::OpenForCollection, held.all());
        self.take_for_stream(block, held.stream);
        Filling { first: self.geometry.first_unit(block), held }
    }

    /// Assigns `block`, which was just opened, to `stream`.
    fn take_for_stream(&mut self, block: BlockIndex, stream: StreamId) {
        let Some(streams) = &mut self.streams else { return };
        if streams.assign_block(block, stream) {
            self.block_table.mark_separate(block);
        }
    }

    /// Fills a block of the cache on `group`, with valid or with overwritten units.
    fn fill_cache_block(&mut self, group: u32, is_valid: bool, order: &mut Order) {
        let block = self.free.take(group).expect("the cache has blocks of its own");
        let slc = self.slc.as_mut().expect("there is a cache");
        let units = if is_valid { slc.units_per_block() } else { 0 };
        self.block_table.open(block, BlockState::OpenForHost, units);
        self.block_table.mark_separate(block);
        slc.add_block(block);
        let per_program = if is_valid { slc.units_per_program() } else { 0 };
        let programs = slc.programs_per_block();
        let first = self.geometry.first_unit(block).0;
        for program in 0..programs {
            for place in 0..per_program {
                let at = first + program * self.geometry.units_per_program() + place;
                self.put_unit(PhysicalUnit(at), order.cold.next());
            }
        }
        self.block_table.close(block, BlockState::Closed);
    }

    /// Opens a block of a stream that has written half of it. Hot units come first, which makes no difference:
    /// nothing depends on the order within a block.
    fn open_half(
        &mut self,
        group: u32,
        state: BlockState,
        layout: &Layout,
        held: BlockContent,
        order: &mut Order,
    ) {
        let block = self.free.take(group).expect("there are more blocks than are closed");
        self.block_table.open(block, state, self.geometry.units_per_block());
        self.take_for_stream(block, held.stream);
        let first = self.geometry.first_unit(block).0;
        for place in 0..held.all() {
            let unit = if place < held.hot { order.hot.next() } else { order.cold.next() };
            self.put_unit(PhysicalUnit(first + place), unit);
        }
        let is_host = state == BlockState::OpenForHost;
        let frontier = match (&mut self.streams, is_host) {
            (Some(streams), _) if held.stream != StreamId::default() => {
                streams.inactive(held.stream, is_host)
            }
            (_, true) => &mut *self.host,
            (_, false) => &mut *self.copies,
        };
        frontier.set_open_block(group, block, layout.open_programs);
    }

    #[inline(always)]
    pub(super) fn put_unit(
        &mut self,
        physical: PhysicalUnit,
        (logical, soon): (LogicalUnit, LogicalUnit),
    ) {
        self.map.prefetch(soon);
        self.block_table.note_written(physical, logical);
        self.map.set(logical, physical);
    }
}
