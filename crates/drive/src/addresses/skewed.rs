//! Blocks by a law that prefers some of them.

use rand::Rng;

use super::SplitMix64;
use super::permutation::Permutation;
use super::ranks::Ranks;
use crate::skew::{Law, Skew, Zones};

/// Seed of every permutation of ranks over a region, so that phases agree on what is popular.
const SCATTER: u64 = 0x5e55_1a6e_0f0b_10c5;

/// Draws the blocks of a skewed phase.
#[derive(Clone, Debug)]
pub(super) struct Skewed {
    blocks: u64,
    kind: Kind,
    /// Where the block of each rank lies; `None` where ranks are places.
    scatter: Option<Permutation>,
}

#[derive(Clone, Debug)]
enum Kind {
    Ranks(Ranks),
    /// The zones in order: what is drawn decides for the first whose `below` it is below.
    Zones(Vec<PlacedZone>),
    /// fio's normal distribution; so many blocks is what the mean is moved by at most, both ways together.
    Normal {
        moved: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct PlacedZone {
    below: u64,
    first: u64,
    count: u64,
}

impl Skewed {
    pub(super) fn new(skew: &Skew, blocks: u64) -> Skewed {
        let (kind, is_scattered) = match *skew.law() {
            Law::Zipf { theta } => (Kind::Ranks(Ranks::zipf(blocks, theta)), true),
            Law::Pareto { share } => (Kind::Ranks(Ranks::pareto(blocks, share)), true),
            Law::Normal { deviation } => {
                let moved = (blocks as f64 * deviation / 100.0).ceil() as u64;
                (Kind::Normal { moved: moved.min(blocks / 2) }, true)
            }
            Law::Zones(zones) => (Kind::Zones(place(&zones, blocks)), zones.are_scattered),
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
                zone.first + part_of(zone.count, generator.next_u64())
            }
            Kind::Normal { moved } => normal(self.blocks, *moved, generator),
        };
        self.scatter.as_ref().map_or(rank, |scatter| scatter.block_of(rank))
    }
}

/// Returns the number below `count` that `drawn`, anything of 64 bits, means.
#[inline(always)]
pub(super) fn part_of(count: u64, drawn: u64) -> u64 {
    ((u128::from(drawn) * u128::from(count)) >> 64) as u64
}

fn place(zones: &Zones, blocks: u64) -> Vec<PlacedZone> {
    let share = |of: u64, parts: u32| (u128::from(of) * u128::from(parts) / 10_000) as u64;
    let (mut requests, mut parts, mut first) = (0, 0, 0);
    let mut left = zones.all().len() as u64;
    let placed = zones.all().iter().map(|zone| {
        requests += u32::from(zone.requests);
        parts += u32::from(zone.blocks);
        left -= 1;
        // No zone is without a block, where there are as many blocks as zones; and what rounding
        // leaves over is the last one's.
        let least = (first + 1).min(blocks);
        let end = share(blocks, parts).clamp(least, blocks.saturating_sub(left).max(least));
        let placed = PlacedZone { below: share(u64::MAX, requests), first, count: end - first };
        first = end;
        placed
    });
    // A region of fewer blocks than zones has the first zones alone.
    placed.filter(|zone| zone.count > 0).collect()
}

/// A block by fio's normal distribution: the mean of twelve uniform draws, moved uniformly by half of
/// `moved` to either side, and by less where that would leave the region.
fn normal(blocks: u64, moved: u64, generator: &mut impl Rng) -> u64 {
    const DRAWS: u64 = 12;
    let sum: u64 = (0..DRAWS / 2)
        .map(|_| {
            let drawn = generator.next_u64();
            (drawn >> 32) + (drawn & u64::from(u32::MAX))
        })
        .sum();
    let mean = ((u128::from(sum) * u128::from(blocks)) / u128::from(DRAWS << 32)) as i64;
    if moved == 0 {
        return mean as u64;
    }
    let mut by = part_of(moved, generator.next_u64()) as i64 - (moved / 2) as i64;
    while !(0..blocks as i64).contains(&(mean + by)) {
        by /= 2;
    }
    (mean + by) as u64
}
