//! A drive that maps by block: random histories against a list of what was written, on flash that
//! refuses what flash cannot do; and the cost of its merges against theory.

mod checked_media;

use std::collections::HashMap;

use checked_media::{CheckedMedia, Versions};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ssdlab_model::Configuration;
use ssdlab_model::log_block::LogBlockSsd;
use ssdlab_model::mapping::MappingScheme;
use ssdlab_model::profile::Profile;
use ssdlab_model::trim::TrimParameters;
use ssdlab_nand::geometry::{Geometry, GeometryParameters};
use ssdlab_units::{Instant, KIB, LogicalUnit, Nanoseconds, Sector, SectorCount};

/// A drive with the timing of the default profile, of the given shape.
fn configuration(parameters: GeometryParameters, log_blocks: u32) -> Configuration {
    let profile = Profile::named(ssdlab_model::profile::DEFAULT).expect("the default profile");
    let mut configuration = profile.configuration().expect("a sound profile");
    configuration.geometry = Geometry::new(parameters).expect("a sound geometry");
    configuration.buffer.units = configuration.geometry.units_per_program() * 2;
    configuration.buffer.protected = false;
    configuration.mechanisms.mapping = MappingScheme::LogBlock;
    configuration.mechanisms.log_blocks = log_blocks;
    configuration
}

fn any_configuration(generator: &mut impl Rng) -> Configuration {
    let channels = generator.random_range(1..=2u32);
    let dies = channels * generator.random_range(1..=3u32);
    let shot = if generator.random() { 1 } else { 3 };
    let log_blocks: u32 = generator.random_range(1..=4);
    let mut parameters = GeometryParameters {
        channels,
        dies,
        planes_per_die: 1 << generator.random_range(0..=2u32),
        multi_plane_read: true,
        pages_per_shot: shot,
        pages_per_block: generator.random_range(2..=4) * shot,
        page_size: KIB * if generator.random() { 4 } else { 16 },
        unit_size: KIB * 4,
        dies_per_collection_unit: if generator.random() { dies } else { 1 },
        collection_units: dies * 4,
        metadata_collection_units: 0,
        logical_units: 1,
    };
    let groups = dies / parameters.dies_per_collection_unit;
    let logical_blocks = generator.random_range(1..=12);
    parameters.collection_units = (logical_blocks + log_blocks + 3).next_multiple_of(groups).max(4);
    let per_block = Geometry::new(parameters.clone()).expect("sound").units_per_block();
    parameters.logical_units = logical_blocks * per_block - generator.random_range(0..per_block);
    let mut configuration = configuration(parameters, log_blocks);
    configuration.buffer.protected = generator.random_range(0..4u32) == 0;
    configuration
}

struct Bench {
    ssd: LogBlockSsd<Versions, CheckedMedia>,
    map: Versions,
    believed: HashMap<LogicalUnit, u64>,
    writes: u64,
    now: Instant,
    units: u32,
    flush_waits: bool,
}

impl Bench {
    fn new(configuration: &Configuration) -> Bench {
        let units = configuration.geometry.logical_units();
        let map = Versions::new(units);
        let flush_waits = !configuration.buffer.protected;
        let media = CheckedMedia::new(&configuration.geometry, map.clone(), flush_waits);
        Bench {
            ssd: LogBlockSsd::with(configuration, map.clone(), media).expect("a sound drive"),
            map,
            believed: HashMap::new(),
            writes: 0,
            now: Instant::START,
            units,
            flush_waits,
        }
    }

    fn write(&mut self, first: u32, units: u32) -> Instant {
        for unit in first..first + units {
            self.writes += 1;
            self.believed.insert(LogicalUnit(unit), self.writes);
            self.map.announce(LogicalUnit(unit));
        }
        self.ssd.write(self.now, LogicalUnit(first), units)
    }

    fn step(&mut self, generator: &mut impl Rng) {
        let first = generator.random_range(0..self.units);
        let units = generator.random_range(1..=40).min(self.units - first);
        let per_block = self.ssd.geometry().units_per_block();
        let end = match generator.random_range(0..12u32) {
            0..=1 => self.ssd.read(self.now, LogicalUnit(first), units),
            2..=4 => self.write(first, units),
            5 => {
                // From the start of a logical block, in pieces that may not come to its end.
                let mut next = first / per_block * per_block;
                let until = (next + generator.random_range(1..=per_block + 3)).min(self.units);
                let mut end = self.now;
                while next < until {
                    let units = generator.random_range(1..=9).min(until - next);
                    end = end.max(self.write(next, units));
                    next += units;
                }
                end
            }
            6 => {
                for unit in first..first + units {
                    self.believed.remove(&LogicalUnit(unit));
                }
                self.ssd.trim(self.now, LogicalUnit(first), units)
            }
            7 => {
                let end = self.ssd.flush(self.now);
                self.check_durable(end);
                end
            }
            8 => {
                let rest = Nanoseconds::from_micros(generator.random_range(0..400_000));
                self.ssd.rest(self.now, rest);
                self.now += rest;
                self.now
            }
            _ => {
                let mut end = self.now;
                for _ in 0..self.units / 4 + 1 {
                    let unit = generator.random_range(0..self.units);
                    end = end.max(self.write(unit, 1));
                }
                end
            }
        };
        assert!(end >= self.now, "no request is answered before it came");
        if generator.random() {
            self.now = end;
        }
        self.check();
    }

    fn check(&self) {
        self.ssd.check_invariants();
        for unit in (0..self.units).map(LogicalUnit) {
            let believed = self.believed.get(&unit).copied();
            assert_eq!(self.map.current(unit), believed, "the version of {unit:?}");
        }
    }

    fn check_durable(&self, at: Instant) {
        if self.flush_waits {
            for &unit in self.believed.keys() {
                assert!(self.ssd.media().is_durable(unit, at), "{unit:?} is lost if power is cut");
            }
        }
    }
}

#[test]
fn a_drive_with_log_blocks_keeps_what_it_is_given() {
    for seed in 0..500 {
        let mut generator = Pcg64Mcg::seed_from_u64(seed);
        let mut bench = Bench::new(&any_configuration(&mut generator));
        for _ in 0..generator.random_range(1..50u32) {
            bench.step(&mut generator);
        }
        bench.now = bench.now.max(bench.ssd.idle_from());
        let end = bench.ssd.flush(bench.now);
        bench.check_durable(end);
        bench.ssd.media().check_times();
    }
}

/// 64 logical blocks of 128 units on superblocks of four dies.
fn plain(log_blocks: u32) -> LogBlockSsd {
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
        logical_units: 64 * 128,
    };
    LogBlockSsd::new(&configuration(parameters, log_blocks)).expect("a sound drive")
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
        let mut write = |ssd: &mut LogBlockSsd, count: u32| {
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
    let mut ssd = LogBlockSsd::new(&configuration).expect("a sound drive");
    let written = ssd.write(Instant::START, LogicalUnit(0), 64);
    let before = ssd.counters().requests;
    let trimmed = ssd.trim_by_commands(written, Sector(0), SectorCount(256));
    assert_eq!(ssd.counters().requests - before, 4, "four commands of 64 sectors");
    assert!(trimmed.since(written) >= Nanoseconds::from_millis(4));
    assert_eq!(ssd.counters().host_trim_units, 32);
    ssd.check_invariants();
}
