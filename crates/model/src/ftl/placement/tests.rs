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
