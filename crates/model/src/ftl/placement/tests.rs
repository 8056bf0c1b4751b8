use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::ssd::tests::small_configuration;

/// A block may be reclaimed and written again while its first program unit still waits for the read of a
/// read-modify-write.
#[test]
fn a_die_programs_a_block_in_order_also_where_it_is_written_again_meanwhile() {
    let configuration = small_configuration(&[]);
    let geometry = &configuration.geometry;
    let blocks = Blocks::new(&configuration);
    let mut placement = Placement::new(&configuration);
    let mut fill = |index, is_late: bool| {
        placement.begin_in(&blocks, geometry, BlockIndex(0), index);
        if is_late {
            placement.await_more();
        }
        while placement.free_units() > 0 {
            placement.append();
        }
        placement.seal(geometry).1
    };
    let first = fill(0, true);
    let behind = fill(geometry.stripe(), false);
    let again = fill(0, false);
    assert!(placement.arrived(first, geometry).is_none(), "it waits for more");
    assert!(placement.arrived(behind, geometry).is_none(), "it waits for the first");
    let sent = placement.arrived(again, geometry).expect("its erase sees to the order");
    assert!(placement.next_in_turn(again, &sent, geometry).is_none());
    let sent = placement.arrived(first, geometry).expect("nothing is missing");
    let next = placement.next_in_turn(first, &sent, geometry).map(|it| it.0);
    assert_eq!(next, Some(behind));
}

/// A placement with program units of four blocks in flight.
struct FourBlocks {
    placement: Placement,
    blocks: Blocks,
    geometry: Geometry,
    /// Numbers of the program units that have not ended.
    open: Vec<u64>,
    /// Number of program units begun in each block.
    begun: [u32; 4],
}

impl FourBlocks {
    fn new() -> FourBlocks {
        let configuration = small_configuration(&[]);
        FourBlocks {
            placement: Placement::new(&configuration),
            blocks: Blocks::new(&configuration),
            geometry: configuration.geometry,
            open: Vec::new(),
            begun: [0; 4],
        }
    }

    /// Begins and fills the next program unit of `block`, at its beginning again where it is full.
    fn begin(&mut self, block: u32) {
        let programs = self.geometry.units_per_block() / self.geometry.units_per_program();
        let index = self.begun[block as usize] % programs;
        self.begun[block as usize] += 1;
        self.placement.begin_in(&self.blocks, &self.geometry, BlockIndex(block), index);
        while self.placement.free_units() > 0 {
            self.placement.append();
        }
        self.open.push(self.placement.seal(&self.geometry).1);
    }

    fn end(&mut self, which: Index) {
        if !self.open.is_empty() {
            let number = self.open.swap_remove(which.index(self.open.len()));
            self.placement.end(number, &self.geometry);
        }
    }

    /// Returns the places of the program units of `block`, latest first, from a look at all that are in flight.
    fn places_of(&self, block: u32) -> Vec<usize> {
        let all = self.placement.in_flight.iter().enumerate().rev();
        all.filter(|(_, it)| it.block == BlockIndex(block)).map(|it| it.0).collect()
    }

    /// Returns the same by the links between program units of a block.
    fn linked_places_of(&self, block: u32) -> Vec<usize> {
        let Some(latest) = self.placement.latest_in_block(BlockIndex(block)) else {
            return Vec::new();
        };
        std::iter::once(latest).chain(self.placement.before_in_block(latest)).collect()
    }
}

proptest! {
    #[test]
    fn program_units_of_a_block_are_linked_in_the_order_in_which_they_were_begun(
        steps in prop::collection::vec((0u32..4, any::<bool>(), any::<Index>()), 1..200),
    ) {
        let mut four = FourBlocks::new();
        for (block, ends, which) in steps {
            if ends {
                four.end(which);
            } else {
                four.begin(block);
            }
            for block in 0..4 {
                prop_assert_eq!(four.linked_places_of(block), four.places_of(block));
            }
        }
    }
}
