//! Tests of log blocks: the cost of merges, on 64 logical blocks of 128 units and superblocks of four dies.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::ftl::{Answer, Command, Host, Port, RequestTag, Ssd};
use crate::geometry::{Geometry, GeometryParameters};
use crate::mapping::MappingScheme;
use crate::profile::{DEFAULT, Profile};
use crate::ssd::Configuration;
use crate::units::{Instant, KIB, LogicalUnit, Nanoseconds, Sector, SectorCount};

const LOGICAL_BLOCKS: u32 = 64;
const UNITS: u32 = 128;

fn configuration(log_blocks: u32) -> Configuration {
    let profile = Profile::named(DEFAULT).expect("the default profile");
    let mut configuration = profile.configuration().expect("a sound profile");
    configuration.geometry = Geometry::new(GeometryParameters {
        channels: 2,
        dies: 4,
        planes_per_die: 2,
        multi_plane_read: true,
        pages_per_shot: 1,
        pages_per_block: 4,
        page_size: KIB * 16,
        unit_size: KIB * 4,
        dies_per_collection_unit: 4,
        collection_units: LOGICAL_BLOCKS + log_blocks + 3,
        metadata_collection_units: 0,
        reserve_collection_units: 0,
        logical_units: LOGICAL_BLOCKS * UNITS,
    })
    .expect("a sound geometry");
    configuration.buffer.units = configuration.geometry.units_per_program() * 2;
    configuration.buffer.protected = false;
    configuration.mechanisms.mapping = MappingScheme::LogBlock;
    configuration.mechanisms.log_blocks = log_blocks;
    configuration
}

fn drive(log_blocks: u32) -> Ssd {
    Ssd::new(&configuration(log_blocks)).expect("a sound drive")
}

fn write(ssd: &mut Ssd, first: u32, units: u32) -> Instant {
    ssd.write(Instant::START, LogicalUnit(first), units)
}

fn fill(ssd: &mut Ssd) {
    for first in (0..LOGICAL_BLOCKS * UNITS).step_by(16) {
        write(ssd, first, 16);
    }
}

#[test]
fn sequential_writes_only_switch() {
    let mut ssd = drive(4);
    (0..3).for_each(|_| fill(&mut ssd));
    ssd.shut_down(Instant::START);
    let counters = ssd.counters();
    assert_eq!(counters.switch_merges, 3 * 64);
    assert_eq!((counters.partial_merges, counters.full_merges), (0, 0));
    assert_eq!(counters.write_amplification(), Some(1.0));
    assert_eq!(counters.erases, 2 * 64, "each rewritten block once");
    ssd.check_invariants();
}

#[test]
fn a_sequence_that_breaks_costs_the_rest_of_its_block() {
    let mut ssd = drive(4);
    write(&mut ssd, 0, UNITS);
    write(&mut ssd, UNITS, UNITS);
    write(&mut ssd, 0, 40);
    write(&mut ssd, UNITS, 16);
    let counters = ssd.counters();
    assert_eq!((counters.switch_merges, counters.partial_merges), (2, 1));
    assert_eq!(counters.program_units_merge, 88);
    let lies = ssd.place_of(LogicalUnit(0)).expect("it is mapped");
    for offset in 0..UNITS {
        let place = ssd.place_of(LogicalUnit(offset)).expect("it is mapped");
        assert_eq!(place.0, lies.0 + offset, "a data block is in order");
    }
}

#[test]
fn a_write_waits_for_the_merge_that_it_asks_for_and_a_read_does_not() {
    let mut ssd = drive(4);
    write(&mut ssd, 0, UNITS);
    write(&mut ssd, 0, 40);
    ssd.rest(Instant::START, Nanoseconds::from_millis(500));
    let begin = ssd.now();
    let program = ssd.ftl.timing.program;
    // Of the rest of the block, 88 units in 11 program units, the three rows that are not full are merged.
    let end = write(&mut ssd, UNITS, 1);
    let waited = end.since(begin);
    assert!(waited > program * 3 && waited < program * 5, "{waited:?}");
    let merge = ssd.ftl.delays.writes.parts.merge;
    assert!(merge > program * 3 && merge < waited, "{merge:?} of {waited:?}");
}

/// Host with several requests in flight; notes the answers.
#[derive(Default)]
struct Noting(Vec<(u32, Instant)>);

impl Host for Noting {
    fn answered(&mut self, _: &mut Port<'_>, answer: Answer) -> Option<LogicalUnit> {
        self.0.push((answer.tag.0, answer.at));
        None
    }
}

#[test]
fn a_flush_ends_a_sequence_whose_last_program_unit_is_not_full_and_waits_for_it() {
    let mut ssd = drive(4);
    write(&mut ssd, 0, UNITS);
    // After the rest the buffer is empty.
    ssd.rest(Instant::START, Nanoseconds::from_millis(500));
    let mut host = Noting::default();
    let at = ssd.now();
    let command = Command::Write { first: LogicalUnit(0), units: 9, force: false };
    ssd.port().submit(at, RequestTag(0), command);
    let command = Command::Write { first: LogicalUnit(300), units: 3, force: false };
    ssd.port().submit(at, RequestTag(1), command);
    ssd.port().submit(at, RequestTag(2), Command::Flush);
    ssd.run_until(Instant::from_nanos(u64::MAX - 1), &mut host);
    assert_eq!(host.0.len(), 3);
    let (flushed, program) = (host.0[2], ssd.ftl.timing.program);
    assert_eq!(flushed.0, 2);
    assert!(flushed.1.since(at) > program, "the flush waits for programs");
    assert_eq!(ssd.counters().partial_merges, 1);
    assert_eq!(ssd.counters().program_units_padding, 13 - 8, "of the log's program unit");
    ssd.check_invariants();
}

#[test]
fn random_writes_cost_the_full_merges_that_associativity_says() {
    for log_blocks in [1, 2, 4, 8, 16] {
        let mut ssd = drive(log_blocks);
        let mut generator = Pcg64Mcg::seed_from_u64(7);
        fill(&mut ssd);
        let mut random = |ssd: &mut Ssd, count: u32| {
            for _ in 0..count {
                // Not the first unit of a block, which would begin a sequence.
                let block = generator.random_range(0..LOGICAL_BLOCKS);
                write(ssd, block * UNITS + generator.random_range(1..UNITS), 1);
            }
        };
        random(&mut ssd, UNITS * 100);
        let before = ssd.counters();
        let reclaims = 2000;
        random(&mut ssd, UNITS * reclaims);
        let counted = ssd.counters().since(&before);
        // A logical block is merged when the log block with the first write to it since the last merge is the
        // oldest: log_blocks reclaims after it was written. That write comes after as many log blocks as
        // pass without one to this logical block: q / (1 - q) in the mean, with q the probability that a log
        // block has none.
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
fn small_writes_in_a_row_become_one_unit_in_the_log_and_in_a_sequence() {
    for first in [LogicalUnit(5), LogicalUnit(0)] {
        let mut ssd = drive(4);
        let mut at = Instant::START;
        let unit_sectors = SectorCount(8);
        for sector in 0..3 * unit_sectors.0 {
            let sector = Sector(u64::from(first.0) * unit_sectors.0 + sector);
            at = ssd.write_sectors(at, sector, SectorCount(1));
        }
        let counters = ssd.counters();
        assert_eq!(counters.host_part_units, 3, "one place for each unit");
        assert_eq!((counters.partial_merges, counters.full_merges), (0, 0));
        assert_eq!(counters.host_part_sectors, 3 * unit_sectors.0);
        ssd.check_invariants();
    }
}

#[test]
fn a_sequence_of_small_writes_ends_when_its_last_unit_is_whole() {
    let mut ssd = drive(4);
    let sectors = u64::from(UNITS) * 8;
    let mut at = ssd.write_sectors(Instant::START, Sector(0), SectorCount(sectors - 8));
    for sector in sectors - 8..sectors - 1 {
        at = ssd.write_sectors(at, Sector(sector), SectorCount(1));
    }
    assert_eq!(ssd.counters().switch_merges, 0, "its last sector is not written");
    ssd.write_sectors(at, Sector(sectors - 1), SectorCount(1));
    let counters = ssd.counters();
    assert_eq!((counters.switch_merges, counters.program_units_host), (1, u64::from(UNITS)));
    ssd.check_invariants();
}
