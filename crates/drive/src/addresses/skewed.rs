//! Random blocks with a skewed distribution.

use rand::Rng;

use super::SplitMix64;
use super::permutation::Permutation;
use super::ranks::RankSampler;
use crate::skew::{Distribution, Skew, Zones};

/// Seed of every permutation of ranks over a region, so that all phases have the same popular blocks.
const SCATTER: u64 = 0x5e55_1a6e_0f0b_10c5;

/// Draws the blocks of a skewed phase.
#[derive(Clone, Debug)]
pub(super) struct Skewed {
    blocks: u64,
    kind: Kind,
    /// Maps each rank to a block; `None` if the rank is the block.
    scatter: Option<Permutation>,
}

#[derive(Clone, Debug)]
enum Kind {
    Ranks(RankSampler),
    /// The zones in order: a drawn number selects the first zone whose `below` is above the number.
    Zones(Vec<BlockZone>),
    /// fio's normal distribution. `shift_range` is the width in blocks of the range over which the mean is
    /// shifted, both directions together.
    Normal {
        shift_range: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct BlockZone {
    below: u64,
    first: u64,
    count: u64,
}

impl Skewed {
    pub(super) fn new(skew: &Skew, blocks: u64) -> Skewed {
        let (kind, is_scattered) = match *skew.distribution() {
            Distribution::Zipf { theta } => (Kind::Ranks(RankSampler::zipf(blocks, theta)), true),
            Distribution::Pareto { share } => {
                (Kind::Ranks(RankSampler::pareto(blocks, share)), true)
            }
            Distribution::Normal { deviation } => {
                let shift_range = (blocks as f64 * deviation / 100.0).ceil() as u64;
                (Kind::Normal { shift_range: shift_range.min(blocks / 2) }, true)
            }
            Distribution::Zones(zones) => {
                (Kind::Zones(place_zones(&zones, blocks)), zones.are_scattered)
            }
        };
        let scatter = is_scattered.then(|| Permutation::new(blocks, &mut SplitMix64::new(SCATTER)));
        Skewed { blocks, kind, scatter }
    }

    /// Returns the next block.
    #[inline]
    pub(super) fn draw(&self, generator: &mut impl Rng) -> u64 {
        let rank = match &self.kind {
            Kind::Ranks(ranks) => ranks.draw(generator),
            Kind::Zones(zones) => {
                let drawn = generator.next_u64();
                let zone = zones.iter().find(|zone| drawn < zone.below).or(zones.last());
                let zone = zone.expect("there is a zone");
                zone.first + scale_below(zone.count, generator.next_u64())
            }
            Kind::Normal { shift_range } => normal(self.blocks, *shift_range, generator),
        };
        self.scatter.as_ref().map_or(rank, |scatter| scatter.block_of(rank))
    }
}

/// Returns the number below `count` that the 64 random bits `drawn` select.
#[inline(always)]
pub(super) fn scale_below(count: u64, drawn: u64) -> u64 {
    ((u128::from(drawn) * u128::from(count)) >> 64) as u64
}

fn place_zones(zones: &Zones, blocks: u64) -> Vec<BlockZone> {
    let share = |of: u64, parts: u32| (u128::from(of) * u128::from(parts) / 10_000) as u64;
    let (mut requests, mut parts, mut first) = (0, 0, 0);
    let mut left = zones.all().len() as u64;
    let placed = zones.all().iter().map(|zone| {
        requests += u32::from(zone.requests);
        parts += u32::from(zone.blocks);
        left -= 1;
        // Each zone has at least one block if there are as many blocks as zones. The last zone takes the blocks
        // that rounding leaves over.
        let least = (first + 1).min(blocks);
        let end = share(blocks, parts).clamp(least, blocks.saturating_sub(left).max(least));
        let placed = BlockZone { below: share(u64::MAX, requests), first, count: end - first };
        first = end;
        placed
    });
    // If the region has fewer blocks than zones, only the first zones remain.
    placed.filter(|zone| zone.count > 0).collect()
}

/// Returns a block by fio's normal distribution: the mean of twelve uniform draws, shifted uniformly by up
/// to half of `shift_range` in either direction, and by less if the result would leave the region.
fn normal(blocks: u64, shift_range: u64, generator: &mut impl Rng) -> u64 {
    const DRAWS: u64 = 12;
    let sum: u64 = (0..DRAWS / 2)
        .map(|_| {
            let drawn = generator.next_u64();
            (drawn >> 32) + (drawn & u64::from(u32::MAX))
        })
        .sum();
    let mean = ((u128::from(sum) * u128::from(blocks)) / u128::from(DRAWS << 32)) as i64;
    if shift_range == 0 {
        return mean as u64;
    }
    let mut by = scale_below(shift_range, generator.next_u64()) as i64 - (shift_range / 2) as i64;
    while !(0..blocks as i64).contains(&(mean + by)) {
        by /= 2;
    }
    (mean + by) as u64
}
