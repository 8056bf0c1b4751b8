//! Preconditioning of a map on flash: the map area is filled with map pages in the steady state of its own garbage
//! collection.
//!
//! Under random writes map pages are written as uniformly as data, and collected greedily; so the same closed form
//! gives the content of the map area's blocks. There are few of these blocks, and they are rewritten within a
//! thousandth of the time that data takes: an inaccuracy of the closed form is gone by then.

use super::order::Order;
use super::page::generator;
use super::plan::Pool;
use super::{Past, PreconditionError, Tables};
use crate::block_table::BlockState;
use crate::mapping::Mapping;
use crate::policy::VictimPolicy;
use crate::units::PhysicalUnit;

impl<M: Mapping> Tables<'_, M> {
    /// Fills the map area with map pages.
    pub(crate) fn precondition_map(&mut self, past: Past) -> Result<(), PreconditionError> {
        let cache = self.map.cache().expect("the map lies on flash");
        let geometry = cache.area.geometry.clone();
        let (groups, b) = (geometry.groups(), geometry.units_per_block());
        // In each group as many blocks are free as garbage collection of the map keeps, and one is open.
        let closed = geometry.blocks() - cache.area.min_free_blocks();
        let pages = geometry.logical_units();
        let mut generator = generator(past);
        let held = match pages {
            0 => Vec::new(),
            // With no more blocks than the pages fill, no choice of victims is left.
            _ if u64::from(closed) * u64::from(b) <= u64::from(pages) => {
                return Err(PreconditionError::NoTheory { what: "so few metadata blocks" });
            }
            _ => Pool::of(VictimPolicy::Greedy, pages, closed, b, false, &mut generator)?.held,
        };
        let mut order = Order::new(0, pages, &mut generator);
        for (index, held) in (0..).zip(held) {
            let area = &mut cache.area;
            let block = area.free.take(index % groups).expect("there are more than are closed");
            area.block_table.open(block, BlockState::OpenForHost, held);
            let first = area.geometry.first_unit(block).0;
            for place in (0..held).map(|place| PhysicalUnit(first + place)) {
                let (page, _) = order.cold.next();
                cache.area.block_table.note_written(place, page);
                cache.set_place(page.0, place);
            }
            cache.area.block_table.close(block, BlockState::Closed);
        }
        assert!(order.is_exhausted(), "every map page lies somewhere");
        Ok(())
    }
}
