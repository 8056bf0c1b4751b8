//! A simple simulation of a drive, write by write, with nothing in common with the formulas but the rules: no clock,
//! no spare blocks of its own, every block a list of the pages written to it.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::super::{Choices, SpareFactor, SteadyState, UnitsPerBlock, d_choices, fifo, greedy};

const BLOCKS: usize = 2_000;
const UNITS: usize = 32;

struct Drive {
    /// Pages written to each block, in order; a page is valid at the place where it was written last.
    written: Vec<Vec<usize>>,
    valid: Vec<usize>,
    /// The block that holds each page.
    home: Vec<usize>,
    open: usize,
    generator: Pcg64,
    host_writes: u64,
    flash_writes: u64,
}

impl Drive {
    /// Returns a drive of which every block but the open one is full.
    fn new(spare: SpareFactor, seed: u64) -> Drive {
        let pages = (spare.occupancy() * (BLOCKS * UNITS) as f64) as usize;
        let mut drive = Drive {
            written: vec![Vec::new(); BLOCKS + 1],
            valid: vec![0; BLOCKS + 1],
            home: vec![usize::MAX; pages],
            open: 0,
            generator: Pcg64::seed_from_u64(seed),
            host_writes: 0,
            flash_writes: 0,
        };
        let mut page = 0;
        for block in 0..BLOCKS {
            drive.open = block;
            for _ in 0..UNITS {
                drive.program(page % pages);
                page += 1;
            }
        }
        drive.open = BLOCKS;
        drive
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.generator.next_u64()) * bound as u128) >> 64) as usize
    }

    fn program(&mut self, page: usize) {
        if self.home[page] != usize::MAX {
            self.valid[self.home[page]] -= 1;
        }
        self.home[page] = self.open;
        self.valid[self.open] += 1;
        self.written[self.open].push(page);
        self.flash_writes += 1;
    }

    /// Carries out one host write, after as many collections as it takes to have room: a victim that was full gives
    /// none.
    fn write(&mut self, victim: &mut impl FnMut(&mut Drive) -> usize) {
        while self.written[self.open].len() == UNITS {
            let chosen = victim(self);
            // The valid pages of the victim come first in the block that is opened in its place.
            let old = std::mem::take(&mut self.written[chosen]);
            assert_ne!(chosen, self.open);
            self.open = chosen;
            let kept: Vec<usize> = (0..UNITS)
                .filter(|&at| self.home[old[at]] == chosen && !old[at + 1..].contains(&old[at]))
                .map(|at| old[at])
                .collect();
            assert_eq!(kept.len(), self.valid[chosen]);
            for page in kept {
                self.program(page);
            }
        }
        let page = self.below(self.home.len());
        self.program(page);
        self.host_writes += 1;
    }

    /// Writes until the initial state is forgotten, then measures.
    fn steady(mut self, mut victim: impl FnMut(&mut Drive) -> usize) -> SteadyState {
        for _ in 0..4 * self.home.len() {
            self.write(&mut victim);
        }
        (self.host_writes, self.flash_writes) = (0, 0);
        let mut blocks = vec![0u64; UNITS + 1];
        for _ in 0..20 {
            for _ in 0..self.home.len() / 2 {
                self.write(&mut victim);
            }
            for (block, &valid) in self.valid.iter().enumerate() {
                blocks[valid] += u64::from(block != self.open);
            }
        }
        let shares = blocks.iter().map(|&n| n as f64 / (20 * BLOCKS) as f64);
        SteadyState::new(self.flash_writes as f64 / self.host_writes as f64, shares.collect())
    }
}

/// Compares a simulated drive with a formula: write amplification within 1 %, and the sum of all differences between
/// the shares of blocks within 2 %.
#[track_caller]
fn assert_agree(played: &SteadyState, formula: &SteadyState) {
    let ratio = played.write_amplification() / formula.write_amplification();
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    let pairs = played.shares().iter().zip(formula.shares());
    let distance: f64 = pairs.map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0;
    assert!(distance < 0.02, "{distance}");
}

fn spares() -> impl Iterator<Item = SpareFactor> {
    [0.07, 0.2, 0.6].into_iter().map(|share| SpareFactor::from_spare_of_logical(share).unwrap())
}

fn units() -> UnitsPerBlock {
    UnitsPerBlock::new(UNITS as u32).unwrap()
}

#[test]
fn a_drive_played_out_with_greedy_collection_agrees() {
    for spare in spares() {
        let played = Drive::new(spare, 1).steady(|drive| {
            (0..=BLOCKS)
                .filter(|&block| block != drive.open)
                .min_by_key(|&block| drive.valid[block])
                .unwrap()
        });
        assert_agree(&played, &greedy::steady_state(spare, units()));
    }
}

#[test]
fn a_drive_played_out_with_two_choices_agrees() {
    for spare in spares() {
        let played = Drive::new(spare, 2).steady(|drive| {
            loop {
                let (one, other) = (drive.below(BLOCKS + 1), drive.below(BLOCKS + 1));
                let best = std::cmp::min_by_key(one, other, |&block| drive.valid[block]);
                if one != drive.open && other != drive.open {
                    break best;
                }
            }
        });
        let formula = d_choices::steady_state(spare, units(), Choices::new(2).unwrap());
        assert_agree(&played, &formula);
    }
}

#[test]
fn a_drive_played_out_with_fifo_collection_agrees() {
    for spare in spares() {
        let played = Drive::new(spare, 3).steady(|drive| (drive.open + 1) % (BLOCKS + 1));
        let ratio = played.write_amplification() / fifo::write_amplification(spare);
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    }
}
