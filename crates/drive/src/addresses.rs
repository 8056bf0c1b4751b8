//! Address generators: sequential, random, in random order without repeats, or skewed.
//!
//! The generator is PCG (MCG 128, XSL-RR output, "pcg64_mcg" in the literature), seeded with
//! SplitMix64: both are named, portable algorithms, so a seed printed in a report gives the same
//! requests on any machine and with any version of the crates used.

mod permutation;
mod ranks;
mod skewed;

use rand::Rng;
use rand_pcg::Mcg128Xsl64;

use permutation::RandomPasses;
use skewed::Skewed;

use crate::phase::{Mix, Pattern, Phase};

/// One request of a phase, without its timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// The block within the phase's region, counted in blocks of the phase's size.
    pub block: u64,
    /// True if the block is read; otherwise it is written.
    pub read: bool,
}

/// The requests of a phase, one after the other, without end.
///
/// They follow from the phase alone: the same phase gives the same requests. In random orders, the blocks
/// do not depend on the share of reads.
#[derive(Clone, Debug)]
pub struct Addresses {
    blocks: u64,
    order: Order,
    reads: ReadShare,
    generator: Mcg128Xsl64,
}

#[derive(Clone, Debug)]
enum Order {
    Sequential { next: u64 },
    Random,
    Once(RandomPasses),
    Skewed(Box<Skewed>),
}

impl Addresses {
    /// Returns the requests of `phase`.
    ///
    /// # Panics
    /// Panics if the region holds no block, or more than 2^62: [`Phase::validate`] refuses the first, and
    /// no drive has the second.
    pub fn new(phase: &Phase) -> Self {
        let blocks = phase.blocks();
        assert!((1..=1 << 62).contains(&blocks), "a phase over {blocks} blocks");
        let mut seeds = SplitMix64::new(phase.seed);
        // The generator's state has to be odd; `new` sees to it.
        let state = u128::from(seeds.next_word()) << 64 | u128::from(seeds.next_word());
        let order = match phase.pattern {
            Pattern::Sequential => Order::Sequential { next: 0 },
            Pattern::SequentialFrom(first) => Order::Sequential { next: first },
            Pattern::Random => Order::Random,
            Pattern::RandomOnce => Order::Once(RandomPasses::new(blocks, seeds)),
            Pattern::Skewed(skew) => Order::Skewed(Box::new(Skewed::new(&skew, blocks))),
        };
        Addresses {
            blocks,
            order,
            reads: ReadShare::new(phase.mix),
            generator: Mcg128Xsl64::new(state),
        }
    }

    /// Returns the next request.
    #[inline]
    pub fn next_request(&mut self) -> BlockRequest {
        let mut one = [BlockRequest { block: 0, read: false }];
        self.draw(&mut one);
        one[0]
    }

    /// Fills `requests` with the next requests. Drawn together they cost a few instructions each.
    #[inline]
    pub fn draw(&mut self, requests: &mut [BlockRequest]) {
        self.draw_into(requests, |request, drawn| *request = drawn);
    }

    /// Draws one request for each of `places` and passes it to `put`.
    #[inline(always)]
    pub(crate) fn draw_into<P>(
        &mut self,
        places: impl IntoIterator<Item = P>,
        mut put: impl FnMut(P, BlockRequest),
    ) {
        let (blocks, reads) = (self.blocks, self.reads);
        // A local copy, so that the generator's state stays in registers.
        let mut generator = self.generator.clone();
        match &mut self.order {
            Order::Sequential { next } => {
                for place in places {
                    let block = *next;
                    *next = if block + 1 == blocks { 0 } else { block + 1 };
                    put(
                        place,
                        BlockRequest { block, read: reads.draw_is_read(|| generator.next_u64()) },
                    );
                }
            }
            Order::Random => {
                for place in places {
                    // One draw is both: the high half of the product picks the block, the low
                    // half is the place within that block's share of the range, just as uniform.
                    let product = u128::from(generator.next_u64()) * u128::from(blocks);
                    let read = reads.is_read(product as u64);
                    put(place, BlockRequest { block: (product >> 64) as u64, read });
                }
            }
            Order::Skewed(skewed) => {
                for place in places {
                    let block = skewed.draw(&mut generator);
                    put(
                        place,
                        BlockRequest { block, read: reads.draw_is_read(|| generator.next_u64()) },
                    );
                }
            }
            Order::Once(passes) => {
                for place in places {
                    let block = passes.next();
                    put(
                        place,
                        BlockRequest { block, read: reads.draw_is_read(|| generator.next_u64()) },
                    );
                }
            }
        }
        self.generator = generator;
    }
}

/// Share of reads as a threshold, so that a decision needs no division.
#[derive(Clone, Copy, Debug)]
struct ReadShare {
    /// A drawn number below this means a read.
    below: u64,
    /// True if all requests are reads.
    all: bool,
}

impl ReadShare {
    fn new(mix: Mix) -> Self {
        let percent = u128::from(mix.read_percent.min(99));
        ReadShare { below: ((percent << 64) / 100) as u64, all: mix.read_percent >= 100 }
    }

    /// Returns true for a read, by the number `drawn`; without a branch.
    #[inline(always)]
    fn is_read(self, drawn: u64) -> bool {
        (drawn < self.below) | self.all
    }

    /// Returns true for a read. Calls `draw` only if there are both reads and writes.
    #[inline]
    fn draw_is_read(self, draw: impl FnOnce() -> u64) -> bool {
        self.all || (self.below > 0 && self.is_read(draw()))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): derives seeds from a seed.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Returns the generator that begins at `seed`.
    pub const fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// Returns the next word.
    #[inline]
    pub fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ssdlab_units::{ByteLength, Nanoseconds};

    use super::*;
    use crate::phase::{Amount, Region};
    use crate::skew::Skew;

    fn phase(pattern: Pattern, blocks: u64, read_percent: u8, seed: u64) -> Phase {
        let block_size = ByteLength::new(4096);
        Phase {
            name: "test".into(),
            pattern,
            block_size,
            depth: 1,
            mix: Mix { read_percent },
            region: Region::first(block_size * blocks),
            amount: Amount::Bytes(block_size),
            rate: None,
            seed,
            flush_at_end: false,
            interval: Nanoseconds::ZERO,
        }
    }

    fn blocks_of(phase: &Phase, count: u64) -> Vec<u64> {
        let mut addresses = Addresses::new(phase);
        (0..count).map(|_| addresses.next_request().block).collect()
    }

    /// Returns the distance of `counts` from an even distribution, in standard deviations of the chi-square
    /// distribution.
    fn unevenness(counts: &[u64]) -> f64 {
        let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let squares = |&count: &u64| (count as f64 - expected).powi(2) / expected;
        let chi_square: f64 = counts.iter().map(squares).sum();
        let freedom = counts.len() as f64 - 1.0;
        (chi_square - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn sequential_starts_over_at_the_end_of_the_region() {
        assert_eq!(blocks_of(&phase(Pattern::Sequential, 3, 100, 1), 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(blocks_of(&phase(Pattern::SequentialFrom(2), 3, 100, 1), 5), [2, 0, 1, 2, 0]);
    }

    #[test]
    fn splitmix_is_the_published_one() {
        // The first outputs for seed 1234567, as in the reference implementation.
        let mut seeds = SplitMix64::new(1_234_567);
        assert_eq!(seeds.next_word(), 6_457_827_717_110_365_317);
        assert_eq!(seeds.next_word(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_sequences_never_change_between_versions() {
        // Reports name a seed. These are the requests that seed 42 has given since the first release.
        assert_first_blocks(Pattern::Random, [514_381, 13_923, 570_162, 704_452, 379_923]);
        assert_first_blocks(Pattern::RandomOnce, [899_062, 3_570, 768_658, 574_347, 153_906]);
    }

    fn assert_first_blocks(pattern: Pattern, expected: [u64; 5]) {
        assert_eq!(blocks_of(&phase(pattern, 1_000_003, 50, 42), 5), expected, "{pattern:?}");
    }

    #[test]
    fn random_blocks_are_uniform() {
        let mut counts = vec![0; 1000];
        for block in blocks_of(&phase(Pattern::Random, 1000, 0, 7), 1_000_000) {
            counts[block as usize] += 1;
        }
        assert!(unevenness(&counts).abs() < 5.0, "{}", unevenness(&counts));
    }

    #[test]
    fn hot_blocks_get_their_share_and_each_kind_is_uniform() {
        let pattern = Pattern::Skewed(Skew::hot_and_cold(8_000, 2_000));
        let mut counts = vec![0; 1000];
        for block in blocks_of(&phase(pattern, 1000, 0, 7), 1_000_000) {
            counts[block as usize] += 1;
        }
        let hot: u64 = counts[..200].iter().sum();
        assert!((hot as f64 - 800_000.0).abs() < 5.0 * 400.0, "{hot}");
        let (hot, cold) = counts.split_at(200);
        assert!(unevenness(hot).abs() < 5.0 && unevenness(cold).abs() < 5.0);
        // Each block gets requests, even where there are few blocks.
        for blocks in [1, 2, 3] {
            let drawn = blocks_of(&phase(pattern, blocks, 0, 7), 1000);
            assert!((0..blocks).all(|block| drawn.contains(&block)), "{blocks}");
        }
    }

    #[test]
    fn an_order_without_repeats_has_no_structure_between_neighbours() {
        // Distance of a block from the one before it: (this - last) modulo blocks, in bins. A linear generator
        // fails this by a thousand deviations.
        for blocks in [100_003_u64, 1 << 20] {
            let visited = blocks_of(&phase(Pattern::RandomOnce, blocks, 0, 11), blocks);
            for distance in [1, 2, 317, 1024] {
                let mut counts = vec![0; 256];
                for pair in visited.windows(distance + 1) {
                    let step = (pair[distance] + blocks - pair[0]) % blocks;
                    counts[(step * 256 / blocks) as usize] += 1;
                }
                let deviations = unevenness(&counts);
                assert!(deviations.abs() < 6.0, "{blocks} at {distance}: {deviations}");
            }
        }
    }

    #[test]
    fn every_prefix_of_an_order_without_repeats_is_spread_evenly() {
        let blocks = 1 << 20;
        let visited = blocks_of(&phase(Pattern::RandomOnce, blocks, 0, 3), blocks / 20);
        let mut counts = vec![0; 512];
        for block in visited {
            counts[(block * 512 / blocks) as usize] += 1;
        }
        assert!(unevenness(&counts).abs() < 5.0, "{}", unevenness(&counts));
    }

    #[test]
    fn the_second_pass_has_another_order() {
        let visited = blocks_of(&phase(Pattern::RandomOnce, 1000, 0, 5), 2000);
        let (first, second) = visited.split_at(1000);
        let same = first.iter().zip(second).filter(|(a, b)| a == b).count();
        assert!(same < 10, "{same} of 1000 blocks in the same place");
    }

    #[test]
    fn the_mix_has_its_share_in_every_pattern() {
        for pattern in [Pattern::Sequential, Pattern::Random, Pattern::RandomOnce] {
            for percent in [0, 1, 30, 50, 99, 100] {
                let mut addresses = Addresses::new(&phase(pattern, 777, percent, 9));
                let reads = (0..100_000).filter(|_| addresses.next_request().read).count() as f64;
                let expected = f64::from(percent) * 1000.0;
                let share = f64::from(percent) / 100.0;
                let deviation = (100_000.0 * share * (1.0 - share)).sqrt();
                assert!(
                    (reads - expected).abs() <= 5.0 * deviation,
                    "{pattern:?}, {percent} %: {reads} reads"
                );
            }
        }
    }

    #[test]
    fn the_mix_does_not_move_the_blocks() {
        for pattern in [Pattern::Random, Pattern::RandomOnce] {
            let writes = blocks_of(&phase(pattern, 500, 0, 21), 1500);
            assert_eq!(writes, blocks_of(&phase(pattern, 500, 70, 21), 1500));
        }
    }

    #[test]
    #[should_panic(expected = "a phase over 0 blocks")]
    fn a_region_without_a_block_is_a_mistake_of_the_caller() {
        Addresses::new(&phase(Pattern::Random, 0, 0, 1));
    }

    proptest! {
        #[test]
        fn a_pass_visits_each_block_exactly_once(blocks in 1_u64..5000, seed: u64) {
            let visited = blocks_of(&phase(Pattern::RandomOnce, blocks, 0, seed), 2 * blocks);
            for pass in visited.chunks(blocks as usize) {
                let mut sorted = pass.to_vec();
                sorted.sort_unstable();
                prop_assert!(sorted.into_iter().eq(0..blocks));
            }
        }

        #[test]
        fn the_same_phase_gives_the_same_requests(blocks in 1_u64..1 << 40, seed: u64) {
            for pattern in [Pattern::Random, Pattern::RandomOnce] {
                let one = blocks_of(&phase(pattern, blocks, 50, seed), 50);
                prop_assert!(one.iter().all(|&block| block < blocks));
                prop_assert_eq!(&one, &blocks_of(&phase(pattern, blocks, 50, seed), 50));
                if blocks > 1000 {
                    let other = phase(pattern, blocks, 50, seed ^ 1);
                    prop_assert_ne!(&one, &blocks_of(&other, 50));
                }
            }
        }
    }
}
