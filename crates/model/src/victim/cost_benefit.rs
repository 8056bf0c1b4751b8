//! Cost-benefit: buckets by the number of valid units, each in the order of the last change.
//!
//! Blocks of one bucket differ in age only, and a block enters its bucket when its valid count changes, so the best
//! of a bucket is its oldest. Comparing the oldest of each bucket finds the best of all: one look at each bucket per
//! victim, while a victim moves about as many units as there are buckets.

use super::lists::{Lists, NONE};
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};

#[derive(Clone, Debug)]
pub(super) struct CostBenefit {
    lists: Lists,
    /// Per block, the number of the change at which it entered its bucket.
    changed: Vec<u64>,
    changes: u64,
    units_per_block: u32,
}

impl CostBenefit {
    pub(super) fn new(blocks: u32, units_per_block: u32) -> Self {
        CostBenefit {
            lists: Lists::new(blocks, units_per_block as usize + 1),
            changed: vec![0; blocks as usize],
            changes: 0,
            units_per_block,
        }
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, block: u32, valid: u32) {
        self.changes += 1;
        self.changed[block as usize] = self.changes;
        self.lists.link(block, valid as usize);
    }

    #[inline(always)]
    pub(super) fn invalidate_unit(&mut self, block: u32, valid: u32) {
        self.lists.unlink(block);
        self.insert(block, valid - 1);
    }

    pub(super) fn remove(&mut self, block: u32) {
        self.lists.unlink(block);
    }

    /// Puts back a block that [`CostBenefit::take`] returned.
    pub(super) fn put_back(&mut self, block: u32, valid: u32) {
        self.lists.link_last(block, valid as usize);
    }

    /// Removes and returns the block with the most benefit for its cost; of equals the one with fewer valid units.
    pub(super) fn take(&mut self) -> Option<u32> {
        let mut best = None;
        for valid in 0..=self.units_per_block {
            let block = self.lists.last(valid as usize);
            if block == NONE {
                continue;
            }
            let score = self.score(block, valid);
            if best.is_none_or(|(_, most)| score > most) {
                best = Some((block, score));
            }
        }
        let (block, _) = best?;
        self.lists.unlink(block);
        Some(block)
    }

    /// Returns the block with the most benefit for its cost of those for which `is_candidate` is true.
    pub(super) fn best_of(&self, is_candidate: impl Fn(&u32) -> bool) -> Option<u32> {
        let mut best: Option<(u32, f64)> = None;
        for valid in 0..=self.units_per_block {
            let oldest = self.lists.blocks_from_last(valid as usize).find(&is_candidate);
            let Some(block) = oldest else { continue };
            let score = self.score(block, valid);
            if best.is_none_or(|(_, most)| score > most) {
                best = Some((block, score));
            }
        }
        best.map(|(block, _)| block)
    }

    /// Returns `age (1 - u) / 2u`: infinite for a block without valid units, zero only for a fully valid one.
    fn score(&self, block: u32, valid: u32) -> f64 {
        let age = (self.changes + 1 - self.changed[block as usize]) as f64;
        let gain = f64::from(self.units_per_block - valid);
        age * gain / (2.0 * f64::from(valid))
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.blocks()
    }

    /// Saves the last change of each block; the caller saves the lists.
    pub(super) fn save_ages(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let CostBenefit { lists: _, changed, changes, units_per_block: _ } = self;
        to.long(*changes)?;
        Ok(changed.iter().try_for_each(|&changed| to.long(changed))?)
    }

    /// Restores the last change of each block, after the blocks were inserted.
    pub(super) fn restore_ages(&mut self, from: &mut Decoder<'_>) -> Result<(), SnapshotError> {
        self.changes = from.long()?;
        for changed in &mut self.changed {
            *changed = from.long()?;
            if *changed > self.changes {
                return damaged("a block changed after the last change");
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, block: u32) {
        self.lists.prefetch(block);
    }
}
