//! Random orders of the blocks of a region, in constant memory.

use std::hint::select_unpredictable;

use super::SplitMix64;

/// Passes over all blocks, each in another random order.
#[derive(Clone, Debug)]
pub(super) struct RandomPasses {
    seeds: SplitMix64,
    permutation: Permutation,
    left: u64,
    right: u64,
}

impl RandomPasses {
    pub(super) fn new(blocks: u64, mut seeds: SplitMix64) -> Self {
        RandomPasses { permutation: Permutation::new(blocks, &mut seeds), seeds, left: 0, right: 0 }
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        loop {
            if self.left == self.permutation.rows {
                self.start_over();
            }
            let (left, right) = (self.left, self.right);
            self.right += 1;
            if self.right == self.permutation.columns {
                self.right = 0;
                self.left += 1;
            }
            // The grid is a little larger than the number of blocks. Leaving out the places whose image lies
            // behind the last block keeps the rest a permutation of the blocks, in the order of the places,
            // without walking the cycle.
            let block = self.permutation.image(left, right);
            if block < self.permutation.blocks {
                return block;
            }
        }
    }

    #[cold]
    fn start_over(&mut self) {
        self.permutation = Permutation::new(self.permutation.blocks, &mut self.seeds);
        (self.left, self.right) = (0, 0);
    }
}

/// Number of rounds of the network. After four rounds, blocks one row apart are still correlated.
const ROUNDS: usize = 6;

/// A seeded permutation in constant memory: a Feistel network over a grid that is nearly square and holds
/// all blocks (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
///
/// The grid exceeds the number of blocks by at most one row, where a power of two would exceed it by more,
/// so that almost no step is lost. The two coordinates are counted up, so that no division is needed.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    blocks: u64,
    rows: u64,
    columns: u64,
    keys: [(u64, u64); ROUNDS],
}

impl Permutation {
    pub(super) fn new(blocks: u64, seeds: &mut SplitMix64) -> Self {
        let root = blocks.isqrt();
        let rows = if root * root == blocks { root } else { root + 1 };
        Permutation {
            blocks,
            rows,
            columns: blocks.div_ceil(rows),
            // Odd multipliers lose no bits of the value that they multiply.
            keys: std::array::from_fn(|_| (seeds.next_word(), seeds.next_word() | 1)),
        }
    }

    /// Returns the image of a place of the grid: below `rows * columns`.
    #[inline]
    fn image(&self, mut left: u64, mut right: u64) -> u64 {
        for pair in self.keys.chunks_exact(2) {
            left = add_below(left, scaled_hash(right, pair[0], self.rows), self.rows);
            right = add_below(right, scaled_hash(left, pair[1], self.columns), self.columns);
        }
        left * self.columns + right
    }

    /// Returns the block of `rank`, for a rank below the number of blocks.
    #[inline]
    pub(super) fn block_of(&self, rank: u64) -> u64 {
        // A place behind the last block is mapped again, until it is a block. A permutation of the grid gives a
        // permutation of the blocks that way (cycle walking).
        let mut place = rank;
        loop {
            place = self.image(place / self.columns, place % self.columns);
            if place < self.blocks {
                return place;
            }
        }
    }
}

/// Returns a hash of `value` below `bound`. The shift between the two multiplications makes it non-linear.
/// Without the shift all rounds together are little more than one multiplication, and the order shows it.
#[inline]
fn scaled_hash(value: u64, key: (u64, u64), bound: u64) -> u64 {
    let mut mixed = (value ^ key.0).wrapping_mul(key.1);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
}

/// Returns `a + b` modulo `bound`, both below it. The outcome of the comparison is random, so it is no
/// branch.
#[inline]
fn add_below(a: u64, b: u64, bound: u64) -> u64 {
    let sum = a + b;
    select_unpredictable(sum >= bound, sum.wrapping_sub(bound), sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_rank_has_a_block_of_its_own(blocks in 1_u64..3_000, seed: u64) {
            let permutation = Permutation::new(blocks, &mut SplitMix64::new(seed));
            let mut places: Vec<u64> = (0..blocks).map(|rank| permutation.block_of(rank)).collect();
            places.sort_unstable();
            prop_assert!(places.into_iter().eq(0..blocks));
        }
    }
}
