//! Number of valid units in every block of a preconditioned drive, by the closed forms.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::hot_cold::HotColdByAge;
use super::page::Layout;
use super::{PreconditionError, Workload};
use crate::block_table::BlockState;
use crate::policy::VictimPolicy;
use crate::ssd::Configuration;
use crate::streams::StreamId;
use ssdlab_theory::hot_cold::HotCold;
use ssdlab_theory::{Choices, SpareFactor, SteadyState, UnitsPerBlock, d_choices, fifo, greedy};

/// Valid units of a block, and its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockContent {
    pub(super) hot: u32,
    pub(super) cold: u32,
    pub(super) stream: StreamId,
}

impl BlockContent {
    fn cold(cold: u32) -> BlockContent {
        BlockContent { cold, ..BlockContent::default() }
    }

    fn hot(hot: u32) -> BlockContent {
        BlockContent { hot, cold: 0, stream: StreamId::HOT }
    }

    pub(super) fn all(self) -> u32 {
        self.hot + self.cold
    }
}

/// Content of every block. Under uniform writes all units count as cold.
pub(super) struct Plan {
    pub(super) hot_units: u32,
    /// The closed blocks, oldest first.
    pub(super) held: Vec<BlockContent>,
    /// Units left in the victim in progress, if there is one.
    pub(super) victim: BlockContent,
    /// Open blocks of each group of dies.
    pub(super) open: Vec<(BlockState, BlockContent)>,
}

impl Plan {
    pub(super) fn of(
        configuration: &Configuration,
        workload: Workload,
        layout: &Layout,
        generator: &mut Pcg64Mcg,
    ) -> Result<Plan, PreconditionError> {
        match workload {
            Workload::Uniform => Plan::uniform(configuration, layout, generator),
            Workload::HotCold { writes, pages } if layout.streams > 1 => {
                // Only checks the shares: the rate of writes does not matter if the kinds are separated.
                HotCold::new(writes, pages)?;
                Plan::apart(configuration, pages, layout, generator)
            }
            Workload::HotCold { writes, pages } => {
                let theory = HotCold::new(writes, pages)?;
                Plan::mixed(configuration, theory, (writes, pages), layout, generator)
            }
        }
    }

    fn uniform(
        configuration: &Configuration,
        layout: &Layout,
        generator: &mut Pcg64Mcg,
    ) -> Result<Plan, PreconditionError> {
        let geometry = &configuration.geometry;
        let (b, blocks) = (geometry.units_per_block(), layout.closed());
        let open = layout.open_programs * geometry.units_per_program();
        let states = layout.open_states();
        let elsewhere = states.len() as u32 * layout.groups * open + layout.cached_units;
        let stored = geometry.logical_units().saturating_sub(elsewhere);
        let policy = configuration.mechanisms.victims;
        let pool = Pool::of(policy, stored, blocks, b, layout.has_victim, generator)?;
        Ok(Plan {
            hot_units: 0,
            held: pool.held.into_iter().map(BlockContent::cold).collect(),
            victim: BlockContent::cold(pool.victim),
            open: states.into_iter().map(|state| (state, BlockContent::cold(open))).collect(),
        })
    }

    /// Plans hot and cold units in blocks of their own: each kind by itself is written uniformly. If the hot stream
    /// keeps a number of blocks, it has these. If all blocks are shared, greedy collection takes the block with the
    /// fewest valid units of all, so that victims of both kinds hold equally many: both kinds have the same share of
    /// over-provisioning.
    fn apart(
        configuration: &Configuration,
        pages: f64,
        layout: &Layout,
        generator: &mut Pcg64Mcg,
    ) -> Result<Plan, PreconditionError> {
        let Configuration { geometry, collection, mechanisms, .. } = configuration;
        if layout.cached_units > 0 {
            return Err(PreconditionError::NoTheory { what: "write streams behind a full cache" });
        }
        if layout.streams > 2 {
            return Err(PreconditionError::NoTheory { what: "more than two write streams" });
        }
        let b = geometry.units_per_block();
        let states = layout.open_states();
        let open = layout.open_programs * geometry.units_per_program();
        let in_open = states.len() as u32 * layout.groups * open;
        let hot_units = (f64::from(geometry.logical_units()) * pages).round() as u32;
        let stored = |units: u32, what| {
            units
                .checked_sub(in_open)
                .filter(|&it| it > 0)
                .ok_or(PreconditionError::NoTheory { what })
        };
        let hot_stored = stored(hot_units, "so few hot units")?;
        let cold_stored = stored(geometry.logical_units() - hot_units, "so few cold units")?;
        let closed = layout.closed();
        let hot_blocks = match mechanisms.streams.hot_blocks {
            Some(share) => {
                let in_use = geometry.blocks() - layout.groups * collection.low_water;
                let kept = (share * f64::from(in_use)).round() as u32;
                kept.saturating_sub(states.len() as u32 * layout.groups)
            }
            None if mechanisms.victims == VictimPolicy::Greedy => {
                let share = f64::from(hot_stored) / f64::from(hot_stored + cold_stored);
                (share * f64::from(closed)).round() as u32
            }
            None => {
                return Err(PreconditionError::NoTheory { what: "write streams with this policy" });
            }
        };
        let cold_blocks = closed.saturating_sub(hot_blocks);
        let policy = mechanisms.victims;
        let hot = Pool::of(policy, hot_stored, hot_blocks, b, false, generator)?;
        let cold = Pool::of(policy, cold_stored, cold_blocks, b, layout.has_victim, generator)?;
        let mut held: Vec<BlockContent> = cold.held.into_iter().map(BlockContent::cold).collect();
        held.extend(hot.held.into_iter().map(BlockContent::hot));
        shuffle(&mut held, generator);
        let open = states
            .iter()
            .flat_map(|&it| [(it, BlockContent::cold(open)), (it, BlockContent::hot(open))]);
        Ok(Plan { hot_units, held, victim: BlockContent::cold(cold.victim), open: open.collect() })
    }

    /// Plans hot and cold units in one stream.
    fn mixed(
        configuration: &Configuration,
        theory: HotCold,
        (writes, pages): (f64, f64),
        layout: &Layout,
        generator: &mut Pcg64Mcg,
    ) -> Result<Plan, PreconditionError> {
        if configuration.mechanisms.victims != VictimPolicy::Fifo {
            return Err(PreconditionError::NoTheory {
                what: "hot and cold units with this policy",
            });
        }
        if layout.cached_units > 0 || !layout.host_is_direct {
            return Err(PreconditionError::NoTheory { what: "hot and cold units with a cache" });
        }
        let geometry = &configuration.geometry;
        let (b, blocks) = (geometry.units_per_block(), layout.closed());
        let open = layout.open_programs * geometry.units_per_program();
        let stored = geometry.logical_units().saturating_sub(2 * layout.groups * open);
        let spare = SpareFactor::from_counts(u64::from(blocks) * u64::from(b), stored.into())?;
        let ages = HotColdByAge::new(theory, writes, pages, spare);
        let mut held = ages.held(blocks, b, generator);
        let hot_units = (f64::from(geometry.logical_units()) * pages).round() as u32;
        let open_host = ages.open(open, writes);
        let open_collection = ages.open(open, ages.hot_collected);
        let left = if layout.has_victim { left_of_victim(b, ages.amplification) } else { 0 };
        let victim = ages.open(left, ages.hot_collected);
        let hot_open = layout.groups * (open_host.hot + open_collection.hot) + victim.hot;
        let hot_closed = hot_units.checked_sub(hot_open);
        let hot_closed =
            hot_closed.ok_or(PreconditionError::NoTheory { what: "so few hot units" })?;
        let cold_closed = stored.checked_sub(victim.all() + hot_closed);
        let cold_closed =
            cold_closed.ok_or(PreconditionError::NoTheory { what: "so few cold units" })?;
        correct_sum(&mut held, hot_closed, b, |it| &mut it.hot, generator);
        correct_sum(&mut held, cold_closed, b, |it| &mut it.cold, generator);
        let open = vec![
            (BlockState::OpenForHost, open_host),
            (BlockState::OpenForCollection, open_collection),
        ];
        Ok(Plan { hot_units, held, victim, open })
    }
}

/// Returns the units left in a victim of which half was moved: victims hold `1 - 1/A` of their units.
fn left_of_victim(b: u32, amplification: f64) -> u32 {
    (f64::from(b) * (1.0 - 1.0 / amplification) / 2.0) as u32
}

/// Blocks whose units are written uniformly, and that are collected among themselves.
pub(super) struct Pool {
    /// Valid units of the closed blocks, oldest first.
    pub(super) held: Vec<u32>,
    /// Units left in the victim in progress.
    pub(super) victim: u32,
}

impl Pool {
    /// Returns the content of a pool with `stored` units in `blocks` closed blocks of `b` units, and, if `has_victim`
    /// is true, in one more block that is half collected.
    pub(super) fn of(
        policy: VictimPolicy,
        stored: u32,
        blocks: u32,
        b: u32,
        has_victim: bool,
        generator: &mut Pcg64Mcg,
    ) -> Result<Pool, PreconditionError> {
        let spare = SpareFactor::from_counts(u64::from(blocks) * u64::from(b), stored.into())?;
        let (valid, amplification) = valid_units(policy, spare, blocks, b, generator)?;
        let mut held: Vec<BlockContent> = valid.into_iter().map(BlockContent::cold).collect();
        let victim = if has_victim { left_of_victim(b, amplification) } else { 0 };
        correct_sum(&mut held, stored.saturating_sub(victim), b, |it| &mut it.cold, generator);
        Ok(Pool { held: held.into_iter().map(|it| it.cold).collect(), victim })
    }
}

/// Returns the valid units of each of `blocks` closed blocks under uniform writes, oldest first, and the write
/// amplification.
fn valid_units(
    policy: VictimPolicy,
    spare: SpareFactor,
    blocks: u32,
    b: u32,
    generator: &mut Pcg64Mcg,
) -> Result<(Vec<u32>, f64), PreconditionError> {
    let units = UnitsPerBlock::new(b)?;
    let state = match policy {
        VictimPolicy::Greedy => greedy::steady_state(spare, units),
        // Random choice is d-choices with one choice.
        VictimPolicy::Random => {
            let one = Choices::new(1).expect("one is a number of choices");
            d_choices::steady_state(spare, units, one)
        }
        VictimPolicy::DChoices(choices) => d_choices::steady_state(spare, units, choices),
        VictimPolicy::Fifo => {
            let amplification = fifo::write_amplification(spare);
            return Ok((by_age(amplification, blocks, b, generator), amplification));
        }
        VictimPolicy::CostBenefit => {
            return Err(PreconditionError::NoTheory { what: "cost-benefit collection" });
        }
    };
    let mut valid = by_shares(&state, blocks);
    shuffle(&mut valid, generator);
    Ok((valid, state.write_amplification()))
}

/// Returns blocks in the proportions of `state`, by rising number of valid units.
fn by_shares(state: &SteadyState, blocks: u32) -> Vec<u32> {
    let mut valid = Vec::with_capacity(blocks as usize);
    let mut share = 0.0;
    for (count, of_blocks) in (0u32..).zip(state.shares()) {
        share += of_blocks;
        let until = (share * f64::from(blocks)).round() as usize;
        valid.resize(until.clamp(valid.len(), blocks as usize), count);
    }
    valid.resize(blocks as usize, state.shares().len() as u32 - 1);
    valid
}

/// Returns the valid units of each block with FIFO. A unit survives from the closing of its block to that block's
/// turn with probability `1 - 1/A`, and units are overwritten at a constant rate in between: the block at share `t`
/// of the way holds `(1 - 1/A)^t` of its units, plus a random deviation.
fn by_age(amplification: f64, blocks: u32, b: u32, generator: &mut Pcg64Mcg) -> Vec<u32> {
    let lives = 1.0 - 1.0 / amplification;
    ways(blocks).map(|way| binomial(b, lives.powf(way), generator)).collect()
}

/// Returns the share of the way from closing to collection of each of `blocks` blocks, oldest first.
fn ways(blocks: u32) -> impl Iterator<Item = f64> {
    (0..blocks).rev().map(move |block| (f64::from(block) + 0.5) / f64::from(blocks))
}

/// Returns the number of `units` units that survive, each with probability `lives`: nearly binomial, from the sum of
/// twelve draws, which is nearly normal.
pub(super) fn binomial(units: u32, lives: f64, generator: &mut Pcg64Mcg) -> u32 {
    let normal = (0..12).map(|_| generator.random::<f64>()).sum::<f64>() - 6.0;
    let units = f64::from(units);
    let count = units * lives + normal * (units * lives * (1.0 - lives)).sqrt();
    count.round().clamp(0.0, units) as u32
}

/// Adds or removes units of the `class` at random blocks until their sum is `total`. No block gets emptier than the
/// emptiest one is.
fn correct_sum(
    held: &mut [BlockContent],
    total: u32,
    b: u32,
    class: impl Fn(&mut BlockContent) -> &mut u32,
    generator: &mut Pcg64Mcg,
) {
    let least = held.iter().map(|held| held.all()).min().unwrap_or(0);
    let mut sum: u64 = held.iter_mut().map(|held| u64::from(*class(held))).sum();
    let total = u64::from(total);
    let floor = if total < held.len() as u64 * u64::from(least) { 0 } else { least };
    while sum != total {
        let block = generator.random_range(0..held.len());
        let all = held[block].all();
        let of_class = class(&mut held[block]);
        if sum < total && all < b {
            *of_class += 1;
            sum += 1;
        } else if sum > total && all > floor && *of_class > 0 {
            *of_class -= 1;
            sum -= 1;
        }
    }
}

fn shuffle<T>(values: &mut [T], generator: &mut Pcg64Mcg) {
    for last in (1..values.len()).rev() {
        values.swap(last, generator.random_range(0..=last));
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn counts_add_up_to_what_is_stored() {
        let mut generator = Pcg64Mcg::seed_from_u64(2);
        for total in [0, 1, 500, 640] {
            let mut held = vec![BlockContent { hot: 9, cold: 5, ..BlockContent::default() }; 10];
            correct_sum(&mut held, total, 64 + 9, |it| &mut it.cold, &mut generator);
            assert_eq!(held.iter().map(|it| it.cold).sum::<u32>(), total);
            assert!(held.iter().all(|it| it.hot == 9 && it.cold <= 64));
        }
    }
}
