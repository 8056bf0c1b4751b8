//! The victim queue: closed blocks in the order in which the drive's policy collects them.
//!
//! Every policy costs O(1) per unit that a block loses, and nothing if it looks at valid units only when it chooses.

mod cost_benefit;
mod greedy;
mod lists;
mod random_set;
mod rotation;

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::policy::VictimPolicy;
use crate::snapshot::{Decoder, Encoder, SnapshotError, damaged};
use crate::units::BlockIndex;
use cost_benefit::CostBenefit;
use greedy::Greedy;
use lists::Lists;
use random_set::RandomSet;
use rotation::Rotation;
use ssdlab_theory::Choices;

/// Separates the random generator of victims from others with the same seed.
const RNG_STREAM: u64 = 0x7669_6374_696d;

/// The closed blocks as a policy needs them. The enum has a tag of its own because it is matched for every unit that
/// the host overwrites.
#[derive(Clone, Debug)]
#[repr(u8)]
enum Candidates {
    Greedy(Greedy),
    CostBenefit(CostBenefit),
    /// One list, in the order in which blocks were closed.
    Fifo(Lists),
    DChoices(RandomSet, Choices),
}

/// The closed blocks of a drive, from which its policy takes victims.
#[derive(Clone, Debug)]
pub(crate) struct VictimQueue {
    candidates: Candidates,
    /// Rotation, which takes a share of the victims regardless of the policy; `None` if the share is zero.
    rotation: Option<Box<Rotation>>,
    generator: Pcg64Mcg,
    /// Seed with which the generator was started last.
    seed: u64,
    len: u32,
}

impl VictimQueue {
    /// Returns an empty queue for `blocks` blocks of `units_per_block` units.
    pub(crate) fn new(policy: VictimPolicy, seed: u64, blocks: u32, units_per_block: u32) -> Self {
        let candidates = match policy {
            VictimPolicy::Greedy => Candidates::Greedy(Greedy::new(blocks, units_per_block)),
            VictimPolicy::CostBenefit => {
                Candidates::CostBenefit(CostBenefit::new(blocks, units_per_block))
            }
            VictimPolicy::Fifo => Candidates::Fifo(Lists::new(blocks, 1)),
            VictimPolicy::Random => {
                let one = Choices::new(1).expect("one is a number of choices");
                Candidates::DChoices(RandomSet::new(blocks), one)
            }
            VictimPolicy::DChoices(choices) => {
                Candidates::DChoices(RandomSet::new(blocks), choices)
            }
        };
        let seed = seed ^ RNG_STREAM;
        let generator = Pcg64Mcg::seed_from_u64(seed);
        VictimQueue { candidates, rotation: None, generator, seed, len: 0 }
    }

    /// Returns this queue, which is empty, with a `share` of its victims taken in rotation.
    pub(crate) fn with_rotation(mut self, share: f64, blocks: u32) -> Self {
        self.rotation = (share > 0.0).then(|| Box::new(Rotation::new(share, blocks)));
        self
    }

    /// Returns the number of closed blocks in the queue.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a block that was just closed and holds `valid` units.
    pub(crate) fn insert(&mut self, block: BlockIndex, valid: u32) {
        self.len += 1;
        if let Some(rotation) = &mut self.rotation {
            rotation.insert(block.0);
        }
        match &mut self.candidates {
            Candidates::Greedy(greedy) => greedy.insert(block.0, valid),
            Candidates::CostBenefit(blocks) => blocks.insert(block.0, valid),
            Candidates::Fifo(list) => list.link(block.0, 0),
            Candidates::DChoices(set, _) => set.insert(block.0),
        }
    }

    /// Notes that a block which held `valid` units has lost one.
    #[inline(always)]
    pub(crate) fn invalidate_unit(&mut self, block: BlockIndex, valid: u32) {
        match &mut self.candidates {
            Candidates::Greedy(greedy) => greedy.invalidate_unit(block.0, valid),
            Candidates::CostBenefit(blocks) => blocks.invalidate_unit(block.0, valid),
            Candidates::Fifo(_) | Candidates::DChoices(..) => {}
        }
    }

    /// Removes and returns the next victim, or `None` if no block is closed; `valid` returns the number of valid
    /// units of a block.
    pub(crate) fn take(&mut self, valid: impl Fn(BlockIndex) -> u32) -> Option<BlockIndex> {
        if self.len == 0 {
            return None;
        }
        if let Some(block) = self.take_in_rotation() {
            return Some(block);
        }
        self.len -= 1;
        let block = match &mut self.candidates {
            Candidates::Greedy(greedy) => {
                let (block, fewest) = greedy.take();
                let is_so = valid(BlockIndex(block)) == fewest;
                assert!(is_so, "a block is in the bucket of its valid count");
                block
            }
            Candidates::CostBenefit(blocks) => blocks.take().expect("some block is closed"),
            Candidates::Fifo(list) => {
                let oldest = list.last(0);
                list.unlink(oldest);
                oldest
            }
            Candidates::DChoices(set, choices) => {
                let mut best = set.draw(&mut self.generator);
                for _ in 1..choices.get() {
                    let drawn = set.draw(&mut self.generator);
                    if valid(BlockIndex(drawn)) < valid(BlockIndex(best)) {
                        best = drawn;
                    }
                }
                set.remove(best);
                best
            }
        };
        if let Some(rotation) = &mut self.rotation {
            rotation.remove(block);
        }
        Some(BlockIndex(block))
    }

    /// Returns the block that rotation will choose next, whichever victim that is; `None` without rotation.
    pub(crate) fn next_in_rotation(&self) -> Option<BlockIndex> {
        self.rotation.as_ref()?.next().map(BlockIndex)
    }

    /// Removes and returns the block whose turn it is, if rotation chooses this victim.
    #[inline(always)]
    fn take_in_rotation(&mut self) -> Option<BlockIndex> {
        let block = BlockIndex(self.rotation.as_mut()?.take_turn()?);
        self.remove(block);
        Some(block)
    }

    /// Removes and returns the block of `range` that the policy would take next if there were no others, or `None` if no
    /// block of it is closed. Looks at one block after the other.
    pub(crate) fn take_within(
        &mut self,
        range: &Range<u32>,
        valid: impl Fn(BlockIndex) -> u32,
    ) -> Option<BlockIndex> {
        if self.len == 0 {
            return None;
        }
        // Rotation erases all blocks in their turn, on whichever dies they lie.
        if let Some(block) = self.take_in_rotation() {
            return Some(block);
        }
        let is_within = |block: &u32| range.contains(block);
        let found = match &self.candidates {
            Candidates::Greedy(greedy) => greedy.blocks().find(is_within),
            Candidates::CostBenefit(blocks) => blocks.best_of(is_within),
            Candidates::Fifo(list) => list.blocks_from_last(0).find(is_within),
            Candidates::DChoices(set, choices) => {
                let mut draw = || set.blocks_from(&mut self.generator).find(is_within);
                let drawn: Vec<u32> = (0..choices.get()).map_while(|_| draw()).collect();
                drawn.into_iter().min_by_key(|&block| valid(BlockIndex(block)))
            }
        };
        let block = BlockIndex(found?);
        self.remove(block);
        Some(block)
    }

    /// Removes and returns a block with fewer than `limit` valid units, even if it is not next in turn: with FIFO the
    /// oldest such block, with drawn blocks the first from a randomly drawn one on.
    pub(crate) fn take_below(
        &mut self,
        limit: u32,
        valid: impl Fn(BlockIndex) -> u32,
    ) -> Option<BlockIndex> {
        if self.len == 0 {
            return None;
        }
        let is_below = |&block: &u32| valid(BlockIndex(block)) < limit;
        let found = match &self.candidates {
            Candidates::Greedy(greedy) => greedy.blocks().find(is_below),
            Candidates::CostBenefit(blocks) => blocks.blocks().find(is_below),
            Candidates::Fifo(list) => list.blocks_from_last(0).find(is_below),
            Candidates::DChoices(set, _) => set.blocks_from(&mut self.generator).find(is_below),
        };
        let block = BlockIndex(found?);
        self.remove(block);
        Some(block)
    }

    /// Puts back a block that [`VictimQueue::take`] returned, as if it had not been taken.
    pub(crate) fn put_back(&mut self, block: BlockIndex, valid: u32) {
        self.len += 1;
        if let Some(rotation) = &mut self.rotation {
            rotation.put_back(block.0);
        }
        match &mut self.candidates {
            Candidates::Greedy(greedy) => greedy.insert(block.0, valid),
            Candidates::CostBenefit(blocks) => blocks.put_back(block.0, valid),
            Candidates::Fifo(list) => list.link_last(block.0, 0),
            Candidates::DChoices(set, _) => set.insert(block.0),
        }
    }

    /// Removes a block, whatever the policy says.
    pub(crate) fn remove(&mut self, block: BlockIndex) {
        self.len -= 1;
        if let Some(rotation) = &mut self.rotation {
            rotation.remove(block.0);
        }
        match &mut self.candidates {
            Candidates::Greedy(greedy) => greedy.remove(block.0),
            Candidates::CostBenefit(blocks) => blocks.remove(block.0),
            Candidates::Fifo(list) => list.unlink(block.0),
            Candidates::DChoices(set, _) => set.remove(block.0),
        }
    }

    /// Starts the random generator anew, as the drive that is restored will.
    pub(crate) fn reseed(&mut self) {
        self.seed = self.generator.random();
        self.generator = Pcg64Mcg::seed_from_u64(self.seed);
    }

    /// Iterates over the closed blocks. Of blocks that the policy treats as equal, the one inserted last comes first;
    /// a random set has no order.
    pub(crate) fn blocks(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match &self.candidates {
            Candidates::Greedy(greedy) => Box::new(greedy.blocks()),
            Candidates::CostBenefit(blocks) => Box::new(blocks.blocks()),
            Candidates::Fifo(list) => Box::new(list.blocks()),
            Candidates::DChoices(set, _) => Box::new(set.blocks()),
        }
    }

    pub(crate) fn save(&self, to: &mut Encoder<'_>) -> Result<(), SnapshotError> {
        let VictimQueue { candidates, rotation, generator: _, seed, len: _ } = self;
        to.long(*seed)?;
        let blocks: Vec<u32> = self.blocks().collect();
        to.list(blocks.into_iter())?;
        if let Some(rotation) = rotation {
            rotation.save(to)?;
        }
        match candidates {
            Candidates::CostBenefit(blocks) => blocks.save_ages(to),
            Candidates::Greedy(_) | Candidates::Fifo(_) | Candidates::DChoices(..) => Ok(()),
        }
    }

    /// Restores a saved queue with `closed` blocks on a drive of `blocks` blocks; `valid` returns the valid units of
    /// a block.
    pub(crate) fn restore(
        &mut self,
        from: &mut Decoder<'_>,
        closed: u32,
        blocks: u32,
        valid: impl Fn(u32) -> u32,
    ) -> Result<(), SnapshotError> {
        self.seed = from.long()?;
        self.generator = Pcg64Mcg::seed_from_u64(self.seed);
        let mut listed = from.list(closed, blocks, "the list of closed blocks")?;
        let mut is_listed = vec![false; blocks as usize];
        if listed.iter().any(|&it| std::mem::replace(&mut is_listed[it as usize], true)) {
            return damaged("a closed block is listed more than once");
        }
        if !matches!(self.candidates, Candidates::DChoices(..)) {
            listed.reverse();
        }
        for block in listed {
            self.insert(BlockIndex(block), valid(block));
        }
        if let Some(rotation) = &mut self.rotation {
            rotation.restore(from, self.len, &is_listed)?;
        }
        match &mut self.candidates {
            Candidates::CostBenefit(blocks) => blocks.restore_ages(from),
            Candidates::Greedy(_) | Candidates::Fifo(_) | Candidates::DChoices(..) => Ok(()),
        }
    }

    /// Prefetches the memory that [`VictimQueue::invalidate_unit`] of `block` will touch.
    #[inline(always)]
    pub(crate) fn prefetch(&self, block: BlockIndex) {
        match &self.candidates {
            Candidates::Greedy(greedy) => greedy.prefetch(block.0),
            Candidates::CostBenefit(blocks) => blocks.prefetch(block.0),
            Candidates::Fifo(_) | Candidates::DChoices(..) => {}
        }
    }
}

#[cfg(test)]
mod tests;
