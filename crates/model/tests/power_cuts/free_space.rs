//! Drives that a power cut must not leave without free space.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::collection::CollectionParameters;
use ssdlab_model::flush::WriteCache;
use ssdlab_model::mechanisms::Mechanisms;
use ssdlab_model::policy::VictimPolicy;
use ssdlab_model::power_cut::history::{Operation, Step};
use ssdlab_model::power_cut::tested::Tested;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_theory::Choices;
use ssdlab_units::{ByteLength, LogicalUnit};

use crate::drives::{Kind, configuration_of};

/// A drive that is full and takes the oldest block, of few blocks of four program units: what a cut
/// tears is a large part of what is left to copy to.
fn short_of_space() -> Configuration {
    let mut configuration = configuration_of(&mut Pcg64Mcg::seed_from_u64(4), Kind::PageMap);
    let mut mechanisms = Mechanisms::default();
    mechanisms.victims = VictimPolicy::Fifo;
    let collection = CollectionParameters { low_water: 2, idle_high_water: 2, debt_max: 20 };
    let mut parameters = GeometryParameters {
        channels: 1,
        dies: 1,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 4,
        page_size: ByteLength::new(4096),
        unit_size: ByteLength::new(4096),
        dies_per_collection_unit: 1,
        collection_units: 24,
        metadata_collection_units: 8,
        reserve_collection_units: 0,
        logical_units: 1,
    };
    let geometry = Geometry::new(parameters.clone()).expect("a sound geometry");
    let kept = collection.min_free_blocks(&geometry, &mechanisms);
    parameters.logical_units = (geometry.blocks() - kept - 1) * geometry.units_per_block();
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.buffer.units = 2 * configuration.geometry.units_per_program();
    configuration.buffer.protected = false;
    configuration.buffer.coalesced = 0;
    Configuration { collection, mechanisms, ..configuration }
}

/// Fills such a drive, writes to a quarter of it and cuts power between any two things that happen.
fn write_to_the_last_places(seed: u64) {
    let mut generator = Pcg64Mcg::seed_from_u64(seed);
    let mut tested = Tested::new(&short_of_space(), None).expect("a sound drive");
    let units = tested.units();
    // Most of it stays as it is written first, so that blocks are full when their turn comes.
    let fill = Operation::Write { first: LogicalUnit(0), units };
    tested.step(Step::answered(fill));
    let mut write = |most: u32| {
        let first = LogicalUnit(generator.random_range(0..units / 4));
        let units = generator.random_range(1..=most);
        Step::answered(Operation::Write { first, units })
    };
    for _ in 0..40 {
        tested.step(write(1));
    }
    let history: Vec<Step> = (0..40).map(|_| write(3)).collect();
    if let Err(failure) = tested.explore_briefly(&history) {
        panic!("seed {seed}: {failure:?}");
    }
}

#[test]
fn the_last_places_are_not_filled_with_what_a_cut_would_leave_no_room_for() {
    (0..60).for_each(write_to_the_last_places);
}

/// A drive that writes through, of one die and blocks of three program units: the places that a cut tears, and those
/// that another one tears while recovery copies, are most of a block.
fn short_of_rows() -> Configuration {
    let mut configuration = short_of_space();
    configuration.mechanisms.victims = VictimPolicy::DChoices(Choices::new(4).expect("few"));
    configuration.mechanisms.flush.write_cache = WriteCache::WriteThrough;
    configuration.collection.debt_max = 1;
    let parameters = GeometryParameters {
        planes_per_die: 1,
        pages_per_shot: 3,
        pages_per_block: 9,
        collection_units: 14,
        metadata_collection_units: 2,
        reserve_collection_units: 0,
        logical_units: 59,
        ..configuration.geometry.parameters().clone()
    };
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.buffer.units = 2 * configuration.geometry.units_per_program();
    configuration
}

#[test]
fn a_cut_while_recovery_copies_leaves_room_as_well() {
    let configuration = short_of_rows();
    for seed in 0..20 {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut tested = Tested::new(&configuration, None).expect("a sound drive");
        tested.age(&mut generator);
        let history: Vec<Step> = (0..20)
            .map(|_| {
                let first = LogicalUnit(generator.random_range(0..40));
                let units = generator.random_range(1..20);
                Step::answered(Operation::Write { first, units })
            })
            .collect();
        if let Err(failure) = tested.explore(&history) {
            panic!("seed {seed}: {failure:?}");
        }
    }
}

/// A drive with log blocks and no more blocks than it needs, of one die each, whose buffer holds the
/// ends of several logical blocks.
fn short_of_blocks(logical_blocks: u32, buffered_programs: u32) -> Configuration {
    let mut configuration = configuration_of(&mut Pcg64Mcg::seed_from_u64(4), Kind::LogBlocks);
    configuration.mechanisms.log_blocks = 2;
    let parameters = GeometryParameters {
        channels: 2,
        dies: 4,
        planes_per_die: 1,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 4,
        page_size: ByteLength::new(16384),
        unit_size: ByteLength::new(4096),
        dies_per_collection_unit: 1,
        collection_units: logical_blocks + 2 + 3,
        metadata_collection_units: 8,
        reserve_collection_units: 0,
        logical_units: logical_blocks * 16,
    };
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.buffer.units = buffered_programs * configuration.geometry.units_per_program();
    configuration.buffer.protected = false;
    configuration.buffer.coalesced = 0;
    configuration
}

#[test]
fn sequences_one_after_the_other_leave_recovery_a_block_to_merge_into() {
    let mut tested = Tested::new(&short_of_blocks(7, 7), None).expect("a sound drive");
    let write = |first, units| Operation::Write { first: LogicalUnit(first), units };
    tested.step(Step::answered(write(0, tested.units())));
    // Each log block holds something of every logical block, the last units of which stay there.
    for unit in (0..tested.units()).filter(|unit| unit % 16 > 11).chain([13, 29, 45, 61]) {
        tested.step(Step::answered(write(unit, 1)));
    }
    tested.step(Step::answered(Operation::Flush));
    let sequences = [Step::answered(write(0, 64))];
    if let Err(failure) = tested.explore_briefly(&sequences) {
        panic!("{failure:?}");
    }
}

/// Until the copies that make room are programmed, what they were copied from may be needed again. A host
/// that could write before would fill the last erased block meanwhile.
#[test]
fn room_that_recovery_makes_is_there_before_the_host_writes() {
    let configuration = short_of_space();
    let mut made = 0;
    for seed in 0..20 {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut tested = Tested::new(&configuration, None).expect("a sound drive");
        tested.age(&mut generator);
        for _ in 0..20 {
            tested.step_at_random(&mut generator, 12);
            tested.cut_at_random(&mut generator).expect("it comes up");
            if tested.drive().counters().collections == 0 {
                continue;
            }
            made += 1;
            tested.cut().expect("it comes up again");
            let again = tested.drive().counters().collections;
            assert_eq!(again, 0, "seed {seed}: nothing is left to be copied");
        }
    }
    assert!(made > 10, "{made} recoveries made room");
}
