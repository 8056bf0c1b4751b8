//! Fills blocks with several workers at a time, with the same result as a single worker.
//!
//! The number of units in a block, and the number of random draws for it, are known beforehand. So a worker that
//! begins in the middle can advance the generator and the order of units to that point.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rand::Rng;
use rand_pcg::Pcg64Mcg;

use super::order::Order;
use super::plan::BlockContent;
use super::workers::{Piece, Workers, parts};
use crate::prefetch::prefetch;
use crate::units::PhysicalUnit;

/// A block that was opened, and the units that it is to hold.
pub(super) struct Filling {
    pub(super) first: PhysicalUnit,
    pub(super) held: BlockContent,
}

/// Remaining order of units, and the generator of places.
#[derive(Clone)]
pub(super) struct Draws {
    pub(super) order: Order,
    pub(super) generator: Pcg64Mcg,
}

/// Map and reverse map, shared by several workers that write separate entries.
#[derive(Clone, Copy)]
pub(super) struct Entries<'a> {
    /// Per logical unit, from the second entry on: the physical unit plus one.
    pub(super) map: &'a [AtomicU32],
    /// Per physical unit: the logical unit plus one.
    pub(super) reverse: &'a [AtomicU32],
}

/// Fills `blocks` of `units` units each.
pub(super) fn fill(
    draws: &mut Draws,
    blocks: &[Filling],
    units: u32,
    entries: Entries<'_>,
    workers: &dyn Workers,
) {
    let parts = parts(blocks.len(), workers);
    let mut each = draws.where_they_are(blocks, &parts, units, workers);
    let pieces = parts.into_iter().zip(&mut each).map(|(part, draws)| {
        let blocks = &blocks[part];
        Box::new(move || blocks.iter().for_each(|it| draws.fill_block(it, units, entries)))
            as Piece<'_>
    });
    workers.carry_out(pieces.collect());
    if let Some(last) = each.pop() {
        *draws = last;
    }
}

impl Draws {
    /// Returns the draws at the beginning of each of the `parts` of `blocks`.
    fn where_they_are(
        &self,
        blocks: &[Filling],
        parts: &[std::ops::Range<usize>],
        units: u32,
        workers: &dyn Workers,
    ) -> Vec<Draws> {
        let (mut hot, mut cold) = (0, 0);
        let mut before = Vec::with_capacity(parts.len());
        for part in parts {
            before.push((hot, cold));
            for Filling { held, .. } in &blocks[part.clone()] {
                hot += held.hot;
                cold += held.cold;
            }
        }
        let orders = self.order.advanced_by(&before, workers);
        let of_part = |(part, order): (&std::ops::Range<usize>, Order)| {
            let mut generator = self.generator.clone();
            generator.advance(part.start as u128 * u128::from(units));
            Draws { order, generator }
        };
        parts.iter().zip(orders).map(of_part).collect()
    }

    /// Puts the next units on random places of a block, each choice of places with equal probability (selection
    /// sampling: Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
    fn fill_block(&mut self, block: &Filling, units: u32, entries: Entries<'_>) {
        let first = block.first.0;
        let mut left = block.held;
        for place in 0..units {
            let draw = (u64::from(self.generator.next_u32()) * u64::from(units - place)) >> 32;
            if draw >= u64::from(left.all()) {
                continue;
            }
            // The same draw selects the kind of unit: below the number of hot units left, it is hot.
            let (unit, soon) = if draw < u64::from(left.hot) {
                left.hot -= 1;
                self.order.hot.next()
            } else {
                left.cold -= 1;
                self.order.cold.next()
            };
            prefetch(entries.map, soon.0.wrapping_add(1) as usize);
            let physical = first + place;
            entries.reverse[physical as usize].store(unit.0 + 1, Relaxed);
            entries.map[unit.0 as usize + 1].store(physical + 1, Relaxed);
        }
    }
}
