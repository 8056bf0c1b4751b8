//! A drive that maps by block: the cost of its merges against theory.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::profile::Profile;
use ssdlab_model::trim::TrimParameters;
use ssdlab_model::{Configuration, Ssd};
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_units::{Instant, KIB, LogicalUnit, Nanoseconds, Sector, SectorCount};

/// A drive with the timing of the default profile, of the given shape.
fn configuration(parameters: GeometryParameters, log_blocks: u32) -> Configuration {
    let profile = Profile::named(ssdlab_model::profile::DEFAULT).expect("the default profile");
    let mut configuration = profile.configuration().expect("a sound profile");
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.buffer.units = configuration.geometry.units_per_program() * 2;
    configuration.buffer.protected = false;
    configuration.buffer.coalesced = 0;
    configuration.mechanisms.mapping = MappingScheme::LogBlock;
    configuration.mechanisms.log_blocks = log_blocks;
    configuration
}

/// 64 logical blocks of 128 units on superblocks of four dies.
fn plain(log_blocks: u32) -> Ssd {
    let parameters = GeometryParameters {
        channels: 2,
        dies: 4,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 4,
        page_size: KIB * 16,
        unit_size: KIB * 4,
        dies_per_collection_unit: 4,
        collection_units: 64 + log_blocks + 3,
        metadata_collection_units: 0,
        reserve_collection_units: 0,
        logical_units: 64 * 128,
    };
    Ssd::new(&configuration(parameters, log_blocks)).expect("a sound drive")
}

#[test]
fn sequential_writes_only_switch() {
    let mut ssd = plain(4);
    let mut now = Instant::START;
    for _ in 0..3 {
        for first in (0..64 * 128).step_by(16) {
            now = ssd.write(now, LogicalUnit(first), 16);
        }
    }
    ssd.rest(now, Nanoseconds::from_secs(1));
    let counters = ssd.counters();
    assert_eq!(counters.switch_merges, 3 * 64);
    assert_eq!((counters.partial_merges, counters.full_merges), (0, 0));
    assert_eq!(counters.write_amplification(), Some(1.0));
    assert_eq!(counters.erases, 2 * 64, "each rewritten block once");
}

#[test]
fn a_sequence_that_breaks_costs_the_rest_of_its_block() {
    let mut ssd = plain(4);
    let mut now = Instant::START;
    for block in [0, 1] {
        now = ssd.write(now, LogicalUnit(block * 128), 128);
    }
    now = ssd.write(now, LogicalUnit(0), 40);
    ssd.write(now, LogicalUnit(128), 16);
    let counters = ssd.counters();
    assert_eq!((counters.switch_merges, counters.partial_merges), (2, 1));
    assert_eq!(counters.program_units_merge, 88);
}

#[test]
fn random_writes_cost_the_full_merges_that_associativity_says() {
    for log_blocks in [1, 2, 4, 8, 16] {
        let mut ssd = plain(log_blocks);
        let mut generator = Pcg64Mcg::seed_from_u64(7);
        let mut now = Instant::START;
        for first in (0..64 * 128).step_by(128) {
            now = ssd.write(now, LogicalUnit(first), 128);
        }
        let mut write = |ssd: &mut Ssd, count: u32| {
            for _ in 0..count {
                // Not the first unit of a block, which would begin a sequence.
                let unit = generator.random_range(0..64) * 128 + generator.random_range(1..128);
                now = ssd.write(now, LogicalUnit(unit), 1);
            }
        };
        write(&mut ssd, 128 * 100);
        let before = ssd.counters();
        let reclaims = 2000;
        write(&mut ssd, 128 * reclaims);
        let counted = ssd.counters().since(&before);
        // A logical block is merged when the log block with the first write to it since the last
        // merge is the oldest: log_blocks reclaims after it was written. That write comes after as
        // many log blocks as pass without one to this logical block: q / (1 - q) in the mean, with
        // q the probability that a log block has none.
        let q = (1.0f64 - 1.0 / 64.0).powi(128);
        let theory = 64.0 / (f64::from(log_blocks) + q / (1.0 - q));
        let found = counted.full_merges as f64 / f64::from(reclaims);
        println!("{log_blocks} log blocks: {found:.3} full merges a reclaim, theory {theory:.3}");
        assert!((found / theory - 1.0).abs() < 0.01, "{found} against {theory}");
        let merged = counted.program_units_merge as f64 / counted.full_merges as f64;
        assert_eq!(merged, 128.0, "a full merge writes the whole block");
    }
}

#[test]
fn a_trim_keeps_to_what_a_command_can_hold() {
    let profile = Profile::named(ssdlab_model::profile::DEFAULT).expect("the default profile");
    let parameters = GeometryParameters {
        logical_units: 4096,
        collection_units: 16,
        ..profile.configuration().expect("a sound profile").geometry.parameters().clone()
    };
    let mut configuration = configuration(parameters, 2);
    configuration.mechanisms.trim = TrimParameters {
        command: Nanoseconds::from_millis(1),
        ranges_most: 1,
        range_most: SectorCount(64),
        ..TrimParameters::default()
    };
    let mut ssd = Ssd::new(&configuration).expect("a sound drive");
    let written = ssd.write(Instant::START, LogicalUnit(0), 64);
    let before = ssd.counters().requests;
    let trimmed = ssd.trim_by_commands(written, Sector(0), SectorCount(256));
    assert_eq!(ssd.counters().requests - before, 4, "four commands of 64 sectors");
    assert!(trimmed.since(written) >= Nanoseconds::from_millis(4));
    assert_eq!(ssd.counters().host_trim_units, 32);
    ssd.check_invariants();
}
