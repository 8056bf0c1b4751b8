//! Unordered set of blocks to draw from at random: adding, drawing and removing cost O(1).

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

#[derive(Clone, Debug)]
pub(super) struct RandomSet {
    members: Vec<u32>,
    /// Per block, its index among the members.
    places: Vec<u32>,
}

impl RandomSet {
    pub(super) fn new(blocks: u32) -> Self {
        RandomSet { members: Vec::new(), places: vec![0; blocks as usize] }
    }

    pub(super) fn insert(&mut self, block: u32) {
        self.places[block as usize] = self.members.len() as u32;
        self.members.push(block);
    }

    pub(super) fn remove(&mut self, block: u32) {
        let place = self.places[block as usize] as usize;
        assert!(self.members.get(place) == Some(&block), "what is taken out is there");
        self.members.swap_remove(place);
        if let Some(&moved) = self.members.get(place) {
            self.places[moved as usize] = place as u32;
        }
    }

    /// Iterates over all blocks, in no order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().copied()
    }

    /// Iterates over all blocks from a randomly drawn one on, and around. The set must not be empty.
    pub(super) fn blocks_from(&self, generator: &mut Pcg64Mcg) -> impl Iterator<Item = u32> + '_ {
        let (before, from) = self.members.split_at(generator.random_range(0..self.members.len()));
        from.iter().chain(before).copied()
    }

    /// Returns a randomly drawn block, which stays in the set. The set must not be empty.
    pub(super) fn draw(&self, generator: &mut Pcg64Mcg) -> u32 {
        self.members[generator.random_range(0..self.members.len())]
    }
}
